r"""SHARP's two Gaussians and its whole mechanism as checks: curves, the law of the test, and the exact delta end to end.

The statements S13 to S19 of ``SHARP.md``. The releases for two adjacent data sets are P = N(mu_1, c^2 C_1) and
Q = N(mu_2, c^2 C_2), or N draws of N(0, C_1) and N(0, C_2), or both; all that is known of them is that the mean moves by at
most D c in either norm, and that tr_+ of the change is at most q in both orders. A curve is a bound of HS_e in (e, D, q, N).

``joint_curve`` is the bound J in closed form and by one-dimensional integrals over erfc; it shares nothing with the contour
integrals of ``refimpl.curves``, by which plans are verified, nor with those of :mod:`proofs_checks.divergence`, which give the
exact divergences that both are held against.

**Two factors at once.** One draw from N(mu_1, c^2 C_1) and N from N(0, C_1) have the privacy loss of N + 1 draws from
N(mu_1/(c sqrt(N+1)), C_1): in the moment function of :mod:`proofs_checks.divergence` only N + 1 and the squared distance of the
means appear, and (N+1) (1/(N+1)) D^2 = D^2. So the learner's exact divergence is one of equal draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from flint import Ordering, acb, arb, ctx, fmpq, fmpq_mat, fmpq_mpoly, fmpq_mpoly_ctx
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray
from scipy.special import betainc

import refimpl.curves
from proofs_checks.divergence import Gaussian, ball_of, hockey_stick
from proofs_checks.endtoend import ReleaseLaw, mechanism_divergence
from proofs_checks.exact import largest_fraction, smallest_fraction
from proofs_checks.lemma import AuditError, Case, Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.sharp import MomentPair, Plot, covariance_change, mean_move, moments_of, passes_size_gate
from proofs_checks.target import Target
from refimpl.linalg import to_fmpq, to_fraction
from refimpl.parameters import SHARP, Edition, mean_parameters
from refimpl.plan import Plan, covariance_plan, gaussian_plan, mean_plan, verify_plan
from refimpl.reals import Enclosure, UndecidedError
from refimpl.results import MeanCoins, TestCoin

__all__ = ["SHARP_FAULTS", "SHARP_RULES", "SharpRules", "joint_bound", "joint_curve"]

PRECISION = 192
ANGLES = 16
"""The angles 0, pi/32, ..., pi/2 of the certificate: no angle is further than eta = pi/64 from one of them."""
FARTHEST = 16
"""The integrals over v are cut off here; what is beyond is bounded by normal tails."""

ZERO, ONE = Fraction(0), Fraction(1)


def _same(plan: Plan) -> Plan:
    return plan


@dataclass(frozen=True)
class SharpRules:
    """What the statements say; a fault changes one of them.

    Attributes
    ----------
    gain_charged, loss_credited
        Shares of beta'/2 that is charged and of q/2 that is credited in J for the determinant.
    angle_zero_from
        Angle 0 is said to be the worst from K = this times q/(1-q) on.
    up, down
        Shares of q that the two eigenvalues of the extremal pair take.
    moves
        The share of D that J is given.
    change_first
        The share of 1/(H-k) in the closed form of Q.
    noise_constant
        In c = 17 sqrt(lambda_0 log(2/delta))/(epsilon n).
    leverage_degrees
        What is added to n - 1 - d in the law of a leverage.
    plan
        What is made of a plan before it is used.
    """

    gain_charged: Fraction = ONE
    loss_credited: Fraction = ONE
    angle_zero_from: Fraction = Fraction(3, 2)
    up: Fraction = ONE
    down: Fraction = ONE
    moves: Fraction = ONE
    change_first: Fraction = ONE
    noise_constant: Fraction = Fraction(17)
    leverage_degrees: int = 0
    plan: Callable[[Plan], Plan] = _same


SHARP_RULES = SharpRules()


def _shifted(plan: Plan) -> Plan:
    return replace(plan, pass_probabilities=(ONE, *plan.pass_probabilities[:-2], ZERO))


def _ends_early(plan: Plan) -> Plan:
    return replace(plan, pass_probabilities=(*plan.pass_probabilities[:-2], ZERO, ZERO))


def _never_ends(plan: Plan) -> Plan:
    return replace(plan, pass_probabilities=(*plan.pass_probabilities[:-1], plan.pass_probabilities[-2]))


def _quieter(plan: Plan) -> Plan:
    c, draws = plan.noise_scale, plan.samples
    return replace(plan, noise_scale=c and c / 2, samples=draws and 4 * draws)


def _steeper(plan: Plan) -> Plan:
    return replace(plan, pass_probabilities=tuple(p * p for p in plan.pass_probabilities))


SHARP_FAULTS: Mapping[str, SharpRules] = MappingProxyType(
    {
        "sharp: the gain of the determinant is credited in J, and not charged": SharpRules(gain_charged=-ONE),
        "sharp: the loss of the determinant is credited three times in J": SharpRules(loss_credited=Fraction(3)),
        "sharp: angle 0 is the worst from K = (7/5) q/(1-q) on": SharpRules(angle_zero_from=Fraction(7, 5)),
        "sharp: the extremal pair has half of q above": SharpRules(up=Fraction(1, 2)),
        "sharp: the extremal pair has nothing below": SharpRules(down=ZERO),
        "sharp: the move of the mean is halved in J": SharpRules(moves=Fraction(1, 2)),
        "sharp: 1/(H-k) in the closed form of Q is lowered by a hundredth": SharpRules(change_first=Fraction(99, 100)),
        "sharp: the 17 of the noise is lowered to 6": SharpRules(noise_constant=Fraction(6)),
        "sharp: the mean costs the leverages no degree of freedom": SharpRules(leverage_degrees=1),
        "sharp: the law is shifted by one step": SharpRules(plan=_shifted),
        "sharp: the law ends one step early": SharpRules(plan=_ends_early),
        "sharp: the law does not end at k": SharpRules(plan=_never_ends),
        "sharp: c is halved and N is four times larger": SharpRules(plan=_quieter),
        "sharp: the law falls twice as fast": SharpRules(plan=_steeper),
    }
)
"""One fault of a statement each, by name."""


def _rules(target: Target) -> SharpRules:
    """SHARP's rules, or those of an implementation that states its own: a mutant of the statements."""
    rules = getattr(target.implementation, "rules", SHARP_RULES)
    return rules if isinstance(rules, SharpRules) else SHARP_RULES


# The bound J ----------------------------------------------------------------------------------------------------------


def _phi(x: arb) -> arb:
    """The normal distribution function."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _complex_phi(x: acb) -> acb:
    """The same, continued."""
    return (-x / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True)
class Joint:
    """The numbers of J as balls: e, D, the shift (beta' - q)/2 or beta'/2, and the quadratic coefficient q2."""

    e: arb
    move: arb
    shift: arb
    quadratic: arb

    @property
    def beyond(self) -> arb:
        """K = e - D^2/2 - shift."""
        return self.e - self.move**2 / 2 - self.shift

    def flat(self) -> arb:
        """T_+ = 0: the loss is linear."""
        end = self.beyond / self.move
        return self.shift.exp() * _phi(-end) - self.e.exp() * _phi(-end - self.move)

    def along(self) -> arb:
        """Angle 0: the loss is above e outside two roots, or between them where the quadratic coefficient is negative."""
        square = self.move**2 + 2 * self.quadratic * self.beyond
        scale = (1 - self.quadratic).sqrt()
        if square <= 0:
            return self.shift.exp() / scale - self.e.exp() if self.quadratic > 0 else arb(0)
        root = square.nonnegative_part().sqrt()
        near, far = 2 * self.beyond / (self.move + root), -(self.move + root) / self.quadratic
        if self.quadratic > 0:
            mass, other = _phi(-near * scale) + _phi(far * scale), _phi(-near - self.move) + _phi(far + self.move)
        else:
            mass, other = _phi(-near * scale) - _phi(-far * scale), _phi(-near - self.move) - _phi(-far - self.move)
        return self.shift.exp() / scale * mass - self.e.exp() * other

    def at(self, cosine: arb, sine: arb) -> arb:
        """Any other angle: an integral over v, the coordinate along u."""
        a, s = self.move * cosine, self.move * sine
        height = (2 * arb.pi()).sqrt()

        def integrand(v: acb, _analytic: bool) -> acb:
            h = (a * v + self.quadratic * v * v / 2 - self.beyond) / s
            first = (self.shift - (1 - self.quadratic) * v * v / 2).exp() * _complex_phi(h)
            value: acb = (first - (self.e - (v + a) ** 2 / 2).exp() * _complex_phi(h - s)) / height
            return value

        goal = arb(2) ** -60
        parts = [
            acb.integral(integrand, u, u + 4, abs_tol=goal, rel_tol=goal).real for u in range(-FARTHEST, FARTHEST, 4)
        ]
        scale = (1 - self.quadratic).sqrt()
        tail = 2 * self.shift.exp() / scale * _phi(-FARTHEST * scale) + 2 * self.e.exp() * _phi(-FARTHEST + a)
        return sum(parts, arb(0)) + tail.union(-tail)


def joint_bound(e: arb, move: arb, change: arb, turn: arb | None, *, widened: bool = False, rules: SharpRules) -> arb:
    """J at an angle of ``turn`` half turns (None: T_+ = 0), for e of either sign and without duality.

    ``widened`` takes the quadratic coefficient q/cos^2 eta, so that the bound holds for all angles within eta.
    """
    spread = change / (1 - change)
    gain = spread / 2 * ball_of(rules.gain_charged)
    move = move * ball_of(rules.moves)
    if turn is None:
        return Joint(e, move, gain, arb(0)).flat()
    eta = arb.pi() / (4 * ANGLES)
    quadratic = change / eta.cos() ** 2 if widened else change
    joint = Joint(e, move, gain - change / 2 * ball_of(rules.loss_credited), quadratic)
    if turn == 0:
        return joint.along()
    return joint.at(arb(0) if turn == arb("0.5") else (turn * arb.pi()).cos(), (turn * arb.pi()).sin())


def joint_curve(e: arb, move: arb, change: arb, d: int, *, rules: SharpRules = SHARP_RULES) -> arb:
    """f(e): the bound of HS_e for one draw, in both orders.

    In one dimension T is a number in [-q', q], q' = q/(1-q), and one of the two ends is the worst. In more, angle 0 alone
    decides where K >= (3/2) q/(1-q), a right angle where K <= 0 (S16), and in between a grid of angles, or the chord of e^e
    from one to the other.
    """
    if e < 0:
        return 1 - e.exp() + e.exp() * joint_curve(-e, move, change, d, rules=rules)
    spread = change / (1 - change)
    if d == 1:
        gain, loss = spread / 2 * ball_of(rules.gain_charged), change / 2 * ball_of(rules.loss_credited)
        move = move * ball_of(rules.moves)
        return Joint(e, move, -loss, change).along().max(Joint(e, move, gain, -spread).along())
    flat = joint_bound(e, move, change, None, rules=rules)
    along = joint_bound(e, move, change, arb(0), rules=rules)
    beyond = e - move**2 / 2 - (spread - change) / 2
    if beyond >= ball_of(rules.angle_zero_from) * spread:
        return flat.max(along)
    if beyond <= 0:
        return flat.max(joint_bound(e, move, change, arb("0.5"), rules=rules))
    for i in range(ANGLES + 1):
        turn = arb(fmpq(i, 2 * ANGLES))
        flat = flat.max(joint_bound(e, move, change, turn, widened=True, rules=rules))
    if not 0 < beyond < ball_of(rules.angle_zero_from) * spread:
        return flat
    start, end = e - beyond, e - beyond + ball_of(rules.angle_zero_from) * spread
    first, last = (
        joint_bound(at, move, change, None, rules=rules).max(joint_bound(at, move, change, turn, rules=rules))
        for at, turn in ((start, arb("0.5")), (end, arb(0)))
    )
    share = (e.exp() - start.exp()) / (end.exp() - start.exp())
    return flat.min(first + share * (last - first))


# Q in closed form -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangePart(Case):
    """One part of a proof over a whole range of parameters."""

    name: str


RANGES = ("share of i*", "share of another row")


def _is_a_range(case: ChangePart) -> None:
    require("a part of the proof", case.name in RANGES)


@lemma(
    "S13",
    "with uniform weights Q = 1/(H-k) + (D/W)/(H-t-r(1-1/W)) where H-k-W-r >= 0",
    domain=lambda _profile: [ChangePart(name) for name in RANGES],
    given=_is_a_range,
    needs=(),
    telling="always: the certificate is computed from the formulas",
    evidence="proved",
    refuted_by=("sharp: 1/(H-k) in the closed form of Q is lowered by a hundredth",),
)
def sharp_change_in_closed_form(target: Target, case: ChangePart) -> Iterator[Claim | Telling]:
    """Where H-k-W-r >= 0, Omega_L s_L(r) is largest at L = k, and s_L(r) at L = t = k+W-1.

    Over all real W >= 1, r >= 0, slack s = H-k-W-r >= 0 and c = L-k from 0 to W-1.
    """
    yield tells(True)
    # W = 1 + w, c = w x/(x + y) for x, y >= 0 not both 0: every c from 0 to W - 1.
    w, r, s, x, y = fmpq_mpoly_ctx.get(("w", "r", "s", "x", "y"), Ordering.lex).gens()
    window, room = 1 + w, 1 + w + r + s  # W, and B = H - k
    whole = x + y  # c = w x/whole
    one = to_fmpq(_rules(target).change_first)
    # s_L = W whole/(B W whole - w x (W + r)), and Omega_L = (W whole - w x)/(W whole)
    bottom = room * window * whole - w * x * (window + r)
    yield _is_nonnegative("H - L - (1-Omega_L) r, times W (x + y)", bottom)
    if case.name == "share of i*":
        yield _is_nonnegative("1/(H-k) - Omega_L s_L", one * bottom - (window * whole - w * x) * room)
    else:
        last = room * window - w * (window + r)
        yield _is_nonnegative("s_t - s_L", window * bottom - window * whole * last)


def _is_nonnegative(what: str, polynomial: fmpq_mpoly) -> Claim:
    """The claim that a polynomial in nonnegative parameters is nonnegative: no coefficient is negative, or a point refutes."""
    if all(c >= 0 for c in polynomial.coeffs()):
        return holds(f"{what} [no coefficient is negative]", True)
    for point in itertools.product((fmpq(0), fmpq(1), fmpq(7), fmpq(1000)), repeat=5):
        value = polynomial(*point)
        if value < 0:
            return at_most(f"{what} [by how much it is negative at {point}]", Fraction(int(-value.p), int(value.q)), 0)
    raise AuditError(f"neither proved nor refuted: {what}")


# Two Gaussians that meet the hypotheses -------------------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianPair(Case):
    """Q = N(0, I), and P = N(nu, A) with tr_+ (I - A^-1) and tr_+ (I - A) equal to q, or 0 where there is no such eigenvalue.

    Attributes
    ----------
    change
        q, in (0, 1).
    move
        D; the length of nu is at most that, in the norms of both covariances.
    e
        Where the hockey-stick is looked at.
    up, down
        Whole numbers in the proportions of the t = 1 - 1/a > 0 and of the b = 1 - a > 0, a the eigenvalues of A.
    rest
        How many eigenvalues are 1.
    toward
        The direction of nu, one whole number for each dimension.
    draws
        N.
    """

    change: Fraction
    move: Fraction
    e: Fraction
    up: tuple[int, ...]
    down: tuple[int, ...]
    rest: int
    toward: tuple[int, ...]
    draws: int = 0

    @property
    def d(self) -> int:
        """Dimension."""
        return len(self.up) + len(self.down) + self.rest

    def eigenvalues(self) -> list[Fraction]:
        """The a of A."""
        larger = [1 / (1 - self.change * part / sum(self.up)) for part in self.up]
        smaller = [1 - self.change * part / sum(self.down) for part in self.down]
        return [*larger, *smaller, *[ONE] * self.rest]

    def nu(self) -> tuple[Fraction, ...]:
        """The mean of P: at most D away from 0 in the norm of I and in that of A."""
        square = sum(v * v for v in self.toward)
        square_in_a = sum(v * v / a for v, a in zip(self.toward, self.eigenvalues(), strict=True))
        unit = 1 << 20
        length = Fraction(math.isqrt(math.floor(max(square, square_in_a) * unit * unit)) + 1, unit)
        return tuple(self.move * v / length for v in self.toward)

    def laws(self, *, mean: bool, draws: int) -> tuple[Gaussian, Gaussian, int]:
        """P, Q and a number of draws with the loss of ``draws`` draws without mean, and one with it if ``mean``."""
        count = draws + mean
        centre = self.nu() if mean else (ZERO,) * self.d
        # 1/count is not a square: it goes into the scale of both covariances.
        return (
            Gaussian(centre, _diagonal(self.eigenvalues()), ONE * count),
            Gaussian((ZERO,) * self.d, _diagonal([ONE] * self.d), ONE * count),
            count,
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        lists = {name: tuple(data[name]) for name in ("up", "down", "toward")}
        exact = {name: Fraction(data[name]) for name in ("change", "move", "e")}
        return cls(**{**data, **lists, **exact})


def _diagonal(values: list[Fraction]) -> fmpq_mat:
    d = len(values)
    return fmpq_mat(d, d, [to_fmpq(values[i]) if i == j else fmpq(0) for i in range(d) for j in range(d)])


UP = GaussianPair(Fraction(1, 10), Fraction(1, 4), Fraction(1), (1,), (), 0, (1,), 20)
DOWN = GaussianPair(Fraction(1, 10), Fraction(1, 4), Fraction(1), (), (1,), 0, (1,), 20)
BOTH = GaussianPair(Fraction(1, 10), Fraction(1, 4), Fraction(1), (1,), (1,), 0, (1, 0), 20)
SPLIT = GaussianPair(Fraction(1, 10), Fraction(1, 4), Fraction(1, 4), (1, 1), (20, 1), 0, (1, 0, 0, 0), 20)
ALONG = GaussianPair(Fraction(1, 30), Fraction(1, 4), Fraction(1), (1,), (), 1, (1, 0))
ACROSS = GaussianPair(Fraction(1, 30), Fraction(1, 4), Fraction(1, 20), (1,), (), 1, (0, 1))
SHRINKING = GaussianPair(Fraction(1, 10), Fraction(1), Fraction(1), (), (1,), 1, (0, 1))
DUAL = GaussianPair(Fraction(1, 30), Fraction(1, 10), Fraction(-3, 10), (1,), (1,), 0, (1, 1))


@st.composite
def gaussian_pairs(draw: st.DrawFn, draws: int = 0) -> GaussianPair:
    """Few eigenvalues in uneven shares, and a mean along one of them or between."""
    up = tuple(draw(st.lists(st.sampled_from([1, 1, 5, 20]), min_size=0, max_size=2)))
    down = tuple(draw(st.lists(st.sampled_from([1, 1, 5, 20]), min_size=0 if up else 1, max_size=2)))
    rest = draw(st.sampled_from([0, 0, 1]))
    d = len(up) + len(down) + rest
    axis = draw(st.integers(0, d - 1))
    toward = [int(i == axis) for i in range(d)]
    if d > 1 and draw(st.booleans()):
        toward[(axis + 1) % d] = draw(st.sampled_from([1, -1, 2]))
    change = draw(st.sampled_from([Fraction(1, 3), Fraction(1, 10), Fraction(1, 30), Fraction(1, 200)]))
    move = draw(st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1)]))
    e = draw(st.sampled_from([Fraction(v) for v in ("1", "1/2", "1/4", "1/20", "0", "-3/10")]))
    return GaussianPair(
        change, move, e, up, down, rest, tuple(toward), draw(st.sampled_from(range(1, draws + 1))) if draws else 0
    )


def _is_a_pair(case: GaussianPair) -> None:
    require("0 < q < 1 and D > 0", 0 < case.change < 1 and case.move > 0)
    require("one coordinate of nu a dimension", len(case.toward) == case.d and any(case.toward))
    require("an eigenvalue that is not 1", bool(case.up or case.down))


def _both_orders(case: GaussianPair, *, mean: bool, draws: int) -> Enclosure:
    """The larger of HS_e(P||Q) and HS_e(Q||P): the hypotheses are the same for both."""
    p, q, count = case.laws(mean=mean, draws=draws)
    there, back = hockey_stick(case.e, p, q, samples=count), hockey_stick(case.e, q, p, samples=count)
    return Enclosure(max(there.lower, back.lower), max(there.upper, back.upper))


def _within(what: str, value: Enclosure, bound: arb) -> Claim:
    """The claim value <= bound with the ends that decide it; if they overlap by rounding alone it is not refuted."""
    low, high = smallest_fraction(bound), largest_fraction(bound)
    return at_most(what, value.upper, low) if value.upper <= low else at_most(what, value.lower, high)


@lemma(
    "S14",
    "for N draws one eigenvalue 1/(1-q) and one 1-q are the worst",
    cases=lambda: gaussian_pairs(40),
    given=_is_a_pair,
    needs=(),
    telling="the exact divergence is above 10^-12",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp: the extremal pair has half of q above", "sharp: the extremal pair has nothing below"),
    examples=lambda: (UP, DOWN, BOTH, SPLIT),
    cost=15,
)
def sharp_extremal_spectrum(target: Target, case: GaussianPair) -> Iterator[Claim | Telling]:
    """With tr_+ at most q in both orders, HS_e of N draws is at most that of the eigenvalues 1/(1-q) and 1-q, e any real."""
    rules, n = _rules(target), case.draws
    value = _both_orders(case, mean=False, draws=n)
    yield tells(value.lower > Fraction(1, 10**12))
    pair = [1 / (1 - case.change * rules.up), 1 - case.change * rules.down]
    centre = (ZERO, ZERO)
    p, q = Gaussian(centre, _diagonal(pair)), Gaussian(centre, _diagonal([ONE, ONE]))
    bound = hockey_stick(case.e, p, q, samples=n)
    back = hockey_stick(case.e, q, p, samples=n)
    yield at_most("HS_e of N draws", value.lower, max(bound.upper, back.upper))


@lemma(
    "S15",
    "J bounds the divergence of one draw with mean and covariance at once",
    cases=gaussian_pairs,
    given=_is_a_pair,
    needs=(),
    telling="the exact divergence is above 10^-12",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "sharp: the gain of the determinant is credited in J, and not charged",
        "sharp: the loss of the determinant is credited three times in J",
        "sharp: the move of the mean is halved in J",
    ),
    examples=lambda: (ALONG, ACROSS, SHRINKING, DUAL),
    cost=12,
)
def sharp_joint_bound(target: Target, case: GaussianPair) -> Iterator[Claim | Telling]:
    """HS_e(P||Q) <= f(e) for |nu| <= D and tr_+ <= q in both orders: J on a grid of angles or at one alone, and by duality."""
    value = _both_orders(case, mean=True, draws=0)
    yield tells(value.lower > Fraction(1, 10**12))
    with ctx.workprec(PRECISION):
        bound = joint_curve(ball_of(case.e), ball_of(case.move), ball_of(case.change), case.d, rules=_rules(target))
    yield _within("HS_e of one draw", value, bound)


@lemma(
    "S17",
    "the curve of mean and draws together bounds their divergence",
    cases=lambda: gaussian_pairs(12),
    given=_is_a_pair,
    needs=(),
    telling="the exact divergence is above 10^-12",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp: the move of the mean is halved in J",),
    examples=lambda: (replace(ALONG, draws=3), replace(BOTH, draws=9)),
    cost=30,
)
def sharp_learner_bound(target: Target, case: GaussianPair) -> Iterator[Claim | Telling]:
    """HS_e of one draw of N(mu, c^2 C) and N of N(0, C) is at most the curve in (e, D, q, N) by which plans are verified."""
    value = _both_orders(case, mean=True, draws=case.draws)
    yield tells(value.lower > Fraction(1, 10**12))
    with ctx.workprec(refimpl.curves.PRECISION):
        (bound,) = refimpl.curves.certified_hockey_stick(
            [ball_of(case.e)],
            [ball_of(case.move * _rules(target).moves)],
            [ball_of(case.change)],
            case.draws,
            refimpl.curves.cases_of(case.d, mean=True, draws=True),
        )
    yield _within("HS_e of mean and draws", value, bound)


# Which angle is the worst ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Angles(Case):
    """Two angles between the direction of the change and the move of the mean.

    Attributes
    ----------
    change, move
        q and D.
    beyond
        K as a multiple of q/(1-q).
    low, high
        The angles in units of pi/32, 0 <= low < high <= 16.
    """

    change: Fraction
    move: Fraction
    beyond: Fraction
    low: int
    high: int


def angles() -> SearchStrategy[Angles]:
    """Angles at K on both sides of where one end is known to be the worst."""
    return st.builds(
        lambda change, move, beyond, low, more: Angles(change, move, beyond, low, min(16, low + more)),
        st.sampled_from([Fraction(1, 3), Fraction(1, 10), Fraction(1, 100)]),
        st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1), Fraction(2)]),
        st.sampled_from([Fraction(3, 2), Fraction(151, 100), Fraction(4), Fraction(0), Fraction(-1)]),
        st.integers(0, 15),
        st.integers(1, 16),
    )


def _are_angles(case: Angles) -> None:
    require(
        "0 < q < 1, D > 0, 0 <= low < high <= 16",
        0 < case.change < 1 and case.move > 0 and 0 <= case.low < case.high <= 16,
    )


@lemma(
    "S16",
    "angle 0 is the worst where K >= (3/2) q/(1-q), and a right angle where K <= 0",
    cases=angles,
    given=_are_angles,
    needs=(),
    telling="K lies in one of the two ranges, and J differs between the angles",
    refuted_by=("sharp: angle 0 is the worst from K = (7/5) q/(1-q) on",),
    examples=lambda: (
        Angles(Fraction(1, 100), Fraction(1), Fraction(7, 5), 13, 16),
        Angles(Fraction(1, 100), Fraction(1), Fraction(3, 2), 13, 16),
        Angles(Fraction(1, 10), Fraction(1, 4), Fraction(3, 2), 0, 16),
        Angles(Fraction(1, 10), Fraction(1, 4), Fraction(0), 0, 16),
    ),
    cost=10,
)
def sharp_angle_zero_is_worst(target: Target, case: Angles) -> Iterator[Claim | Telling]:
    """J falls with the angle where K = e - D^2/2 - (q'-q)/2 >= (3/2) q/(1-q), q' = q/(1-q), and rises with it where K <= 0."""
    rules = _rules(target)
    with ctx.workprec(PRECISION):
        q, move = ball_of(case.change), ball_of(case.move)
        spread = q / (1 - q)
        e = ball_of(case.beyond) * spread + move**2 / 2 + (spread - q) / 2
        low, high = (joint_bound(e, move, q, arb(fmpq(i, 32)), rules=SHARP_RULES) for i in (case.low, case.high))
        falls, rises = case.beyond >= rules.angle_zero_from, case.beyond <= 0
        yield tells((falls or rises) and (low < high or low > high))
        if falls:
            yield at_most("J at the larger angle", smallest_fraction(high), largest_fraction(low))
        elif rises:
            yield at_most("J at the smaller angle", smallest_fraction(low), largest_fraction(high))
        else:
            yield holds("K is between the ranges", 0 < case.beyond < rules.angle_zero_from)


# The law and the whole mechanism --------------------------------------------------------------------------------------

PLANS: Mapping[str, Callable[..., Plan | None]] = MappingProxyType(
    {"mean": mean_plan, "covariance": covariance_plan, "gaussian": gaussian_plan}
)


@cache
def _found(task: str, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> Plan:
    plan = PLANS[task](n, d, epsilon, delta, lambda_0)
    require("the public numbers have a plan", plan is not None)
    assert plan is not None, "required just before"
    return plan


@dataclass(frozen=True)
class Planned(Case):
    """Public numbers that have a plan.

    Attributes
    ----------
    task
        "mean", "covariance" or "gaussian".
    n, d, epsilon, delta, lambda_0
        Public.
    """

    task: str
    n: int
    d: int
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction

    def plan(self) -> Plan:
        """The plan that the search of refimpl finds."""
        return _found(self.task, self.n, self.d, self.epsilon, self.delta, self.lambda_0)

    def change(self, plan: Plan, z: int) -> Fraction:
        """Q(min(z+1, k-1), z)."""
        return covariance_change(self.n, self.lambda_0, plan.k, plan.window, min(z + 1, plan.k - 1), z)

    def curve(self, plan: Plan, z: int, e: arb) -> arb:
        """f_z(e) by the closed forms of this module; for the learner, by the curve of S17."""
        change = ball_of(self.change(plan, z))
        move = arb(0)
        if plan.noise_scale is not None:
            move = ball_of(mean_move(self.n, self.lambda_0, plan.k, plan.window, z) / plan.noise_scale)
        if plan.samples is None:
            return joint_curve(e, move, change, self.d)
        cases = refimpl.curves.cases_of(self.d, mean=plan.noise_scale is not None, draws=True)
        if plan.noise_scale is not None:
            (bound,) = refimpl.curves.certified_hockey_stick([e], [move], [change], plan.samples, cases)
            return bound
        return _extremal(self.change(plan, z), e, plan.samples, self.d)


def _extremal(change: Fraction, e: arb, samples: int, d: int) -> arb:
    """The curve of 5.1 in both orders: the extremal pair, or in one dimension the worse of its two halves."""
    pairs = [[1 / (1 - change), 1 - change]] if d > 1 else [[1 / (1 - change)], [1 - change]]
    bound = arb(0)
    for values in pairs:
        p = Gaussian((ZERO,) * len(values), _diagonal(values))
        q = Gaussian((ZERO,) * len(values), _diagonal([ONE] * len(values)))
        for one, two in ((p, q), (q, p)):
            bound = bound.max(ball_of(hockey_stick(e, one, two, samples=samples)))
    return bound


def _has_a_plan(case: Planned) -> None:
    require("a task", case.task in PLANS)
    require("epsilon > 0 and 0 < delta < 1", case.epsilon > 0 and 0 < case.delta < 1)
    plan = case.plan()
    require("the size gate", passes_size_gate(case.n, case.lambda_0, plan.k, plan.window))


def _conditions(case: Planned, plan: Plan, z: int, p: Fraction, after: Fraction) -> tuple[arb, arb]:
    """The left sides of (a) and (b) for p_z = p and p_{z+1} = after."""
    eps = ball_of(case.epsilon)
    rise = ball_of(1 - after) - eps.exp() * ball_of(1 - p)
    if after == 0:
        return ball_of(p), rise.max(arb(0))
    drop = ball_of(p / after).log()
    loss = ball_of(p) * case.curve(plan, z, eps - drop)
    return loss, rise.max(arb(0)) + ball_of(after) * case.curve(plan, z, eps + drop)


MEAN_LINE = Planned("mean", 100, 1, Fraction(1), Fraction(1, 50), Fraction(3))
MEAN_PLANE = Planned("mean", 200, 2, Fraction(1), Fraction(1, 50), Fraction(4))
DRAWS_LINE = Planned("covariance", 150, 1, Fraction(1), Fraction(1, 50), Fraction(3))
DRAWS_PLANE = Planned("covariance", 400, 2, Fraction(1), Fraction(1, 50), Fraction(4))
LEARNER_LINE = Planned("gaussian", 250, 1, Fraction(1), Fraction(1, 50), Fraction(3))

PLANNED: Mapping[str, tuple[Planned, ...]] = MappingProxyType(
    {
        "quick": (MEAN_LINE,),
        "ci": (MEAN_LINE, MEAN_PLANE, DRAWS_LINE, DRAWS_PLANE),
        "nightly": (
            MEAN_LINE,
            MEAN_PLANE,
            DRAWS_LINE,
            DRAWS_PLANE,
            LEARNER_LINE,
            Planned("mean", 400, 1, Fraction(1), Fraction(1, 50), Fraction(3)),
            Planned("mean", 400, 2, Fraction(1, 2), Fraction(1, 20), Fraction(4)),
            Planned("gaussian", 400, 2, Fraction(1), Fraction(1, 20), Fraction(4)),
        ),
    }
)
"""Plans small enough for exact data, by profile."""


@lemma(
    "S18",
    "conditions (a) and (b) hold for a plan, and no smaller law meets them",
    domain=lambda profile: PLANNED[profile],
    given=_has_a_plan,
    needs=(),
    telling="always: the plan has a law",
    evidence="exhaustive",
    refuted_by=(
        "sharp: the law is shifted by one step",
        "sharp: the law ends one step early",
        "sharp: the law does not end at k",
        "sharp: c is halved and N is four times larger",
        "sharp: the law falls twice as fast",
    ),
)
def sharp_conditions_hold(target: Target, case: Planned) -> Iterator[Claim | Telling]:
    """The law falls from 1 to 0, (a) and (b) hold for every z, and 2 % less than p_{z+1} breaks one of them, z < k-2."""
    plan = _rules(target).plan(case.plan())
    p, k = plan.pass_probabilities, plan.k
    yield tells(k > 1)
    yield equal("number of probabilities", len(p), k + 1)
    yield equal("p_0", p[0], 1)
    yield equal("p_k", p[k], 0)
    yield holds("the law does not rise", all(u >= v for u, v in itertools.pairwise(p)))
    with ctx.workprec(PRECISION):
        for z in range(k):
            for name, value in zip("ab", _conditions(case, plan, z, p[z], p[z + 1]), strict=True):
                yield _at_most_delta(f"({name}) at score {z}", value, case.delta)
        for z in range(k - 2):
            loss, gain = _conditions(case, plan, z, p[z], p[z + 1] * Fraction(49, 50))
            yield at_most(
                f"delta against (a), (b) for a smaller p_{z + 1}", case.delta, smallest_fraction(loss.max(gain))
            )
    yield holds(
        "the enclosures of refimpl agree",
        verify_plan(plan, case.n, case.d, case.epsilon, case.delta, case.lambda_0).holds,
    )


def _at_most_delta(what: str, value: arb, delta: Fraction) -> Claim:
    low, high = smallest_fraction(value), largest_fraction(value)
    if low <= delta < high:
        raise UndecidedError(f"{what} cannot be told apart from delta")
    return at_most(what, high if high <= delta else low, delta)


@dataclass(frozen=True)
class ReleasePair(Case):
    """Adjacent data for a plan: outliers in the weight window or far out, and a row i* that moves as far as it can.

    Attributes
    ----------
    planned
        The public numbers.
    outliers
        How many rows are outliers, below k.
    level
        The level at which they enter; beyond the last one: they never do.
    star, other
        What i* is in the two data sets: a kind and a level, as in :class:`proofs_checks.sharp.Plot`; -1 stands for k.
    """

    planned: Planned
    outliers: int
    level: int
    star: tuple[str, int]
    other: tuple[str, int]

    def pair(self, plan: Plan) -> MomentPair:
        """The two data sets."""
        p, last = self.planned, plan.k + plan.window - 1
        above = 1 << 24 if self.level > last else 0
        groups = ((self.outliers, min(self.level, last), 0, 1, above),) if self.outliers else ()
        star, other = ((kind, at if at >= 0 else plan.k) for kind, at in (self.star, self.other))
        return Plot(p.d, plan.k, plan.window, p.lambda_0, p.n, star, other, groups).pair()

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the plan has its own n
        """Number of rows that a target is given."""
        return self.planned.n

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**vars(self), "planned": self.planned.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        ends = {name: (data[name][0], data[name][1]) for name in ("star", "other")}
        return cls(**{**data, **ends, "planned": Planned.from_json(data["planned"])})

    def paste(self) -> str:
        """Python that builds the data, to be pasted."""
        return self.pair(self.planned.plan()).paste()


_SIDES = (("level", 0), ("opposite", -1))
_OUT = (("level", 0), ("huge", 0))


def release_law(target: Target, pair: MomentPair, plan: Plan, *, prime: bool) -> ReleaseLaw:
    """The law of SHARP's output on one of the two data sets, by the target's sets and score and the plan's law.

    Exact: a release of mean and draws is that of N + 1 draws of a scaled mean (see the module).
    """
    side = moments_of(target, pair, prime=prime)
    count = (plan.samples or 0) + (plan.noise_scale is not None)
    passes = plan.pass_probabilities[side.score]
    if passes == 0:
        return ReleaseLaw(passes, samples=count)
    c = plan.noise_scale
    centre = (ZERO,) * pair.d if c is None else tuple(side.mean)
    scale = ONE if c is None else c * c * count
    return ReleaseLaw(passes, Gaussian(centre, side.covariance, scale), count)


def release_pairs() -> SearchStrategy[ReleasePair]:
    """Every number of outliers, with i* from one side of the data to the other, from the bulk to far out, or back."""

    def pair(planned: Planned, outliers: int, level: int, ends: tuple[tuple[str, int], tuple[str, int]]) -> ReleasePair:
        k = planned.plan().k
        return ReleasePair(planned, outliers % k, level, *ends)

    ends = [
        (("level", 0), ("huge", 0)),
        (("level", 0), ("opposite", 0)),
        (("bulk", 0), ("huge", 0)),
        (("level", 0), ("opposite", -1)),
    ]
    plans = st.sampled_from([MEAN_LINE, DRAWS_LINE])
    return st.builds(pair, plans, st.integers(0, 15), st.sampled_from([0, 11, 15, 1 << 20]), st.sampled_from(ends))


def _is_a_release(case: ReleasePair) -> None:
    _has_a_plan(case.planned)
    require("fewer outliers than k", 0 <= case.outliers < case.planned.plan().k)


@lemma(
    "S19",
    "the exact delta of the whole mechanism is at most the claimed one",
    cases=release_pairs,
    given=_is_a_release,
    needs=("stable_moments",),
    telling="x or x' is released with a probability strictly between 0 and 1",
    least_telling=Fraction(1, 3),
    refuted_by=(
        "sharp_law_is_shifted",
        "sharp_noise_is_halved",
        "sharp_score_by_sum",
        "sharp_score_without_the_level",
    ),
    examples=lambda: (
        ReleasePair(MEAN_LINE, 0, 0, *_SIDES),
        ReleasePair(MEAN_LINE, 10, 1 << 20, *_OUT),
        ReleasePair(MEAN_LINE, 5, 0, ("bulk", 0), ("huge", 0)),
        ReleasePair(MEAN_LINE, 5, 10, ("bulk", 0), ("huge", 0)),
        ReleasePair(DRAWS_LINE, 9, 15, *_OUT),
    ),
    cost=30,
)
def sharp_mechanism_is_private(target: Target, case: ReleasePair) -> Iterator[Claim | Telling]:
    """For adjacent x, x', sup_S Pr[A(x) in S] - e^epsilon Pr[A(x') in S] <= delta for SHARP's mean, draws, or both.

    In both directions.
    """
    rules: SharpRules = getattr(target.implementation, "sharp_rules", SHARP_RULES)
    plan, planned = rules.plan(case.planned.plan()), case.planned
    pair = case.pair(plan)
    one, two = (release_law(target, pair, plan, prime=prime) for prime in (False, True))
    yield tells(any(0 < law.passes < 1 for law in (one, two)))
    for first, second, what in ((one, two, "x against x'"), (two, one, "x' against x")):
        value = mechanism_divergence(planned.epsilon, first, second)
        if value.lower <= planned.delta < value.upper:
            raise UndecidedError(f"a divergence near {float(value)!r} cannot be told apart from delta")
        yield at_most(
            f"exact delta, {what}", value.upper if value.upper <= planned.delta else value.lower, planned.delta
        )


def mean_release_pairs() -> SearchStrategy[ReleasePair]:
    """As many rows far out as the score is to be, and a row that leaves the bulk or crosses it."""

    def pair(outliers: int, ends: tuple[tuple[str, int], tuple[str, int]]) -> ReleasePair:
        return ReleasePair(MEAN_LINE, outliers % MEAN_LINE.plan().k, 1 << 20, *ends)

    return st.builds(pair, st.integers(1, 60), st.sampled_from([_OUT, _SIDES]))


def _is_a_mean_release(case: ReleasePair) -> None:
    _is_a_release(case)
    require("a release of the mean in one dimension", case.planned.task == "mean" and case.planned.d == 1)


@lemma(
    "S19 (test)",
    "the mean is released exactly when the coin is below p at the score, as mu + c L z",
    cases=mean_release_pairs,
    given=_is_a_mean_release,
    needs=("stable_moments", "private_mean_given"),
    telling="p at the score lies strictly between 0 and 1",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "sharp_coin_always_passes",
        "sharp_law_of_the_next_score",
        "sharp_noise_variance_as_deviation",
        "sharp_release_without_noise",
    ),
    examples=lambda: (
        ReleasePair(MEAN_LINE, 1, 0, *_OUT),
        ReleasePair(MEAN_LINE, 4, 1 << 20, *_SIDES),
    ),
    cost=20,
)
def sharp_release_follows_the_law(target: Target, case: ReleasePair) -> Iterator[Claim | Telling]:
    """With SHARP's parameters private_mean_given releases mu + c C^{1/2} z for a coin below p_SCORE and FAILs above it."""
    n, epsilon, delta, lambda_0 = (getattr(case.planned, name) for name in ("n", "epsilon", "delta", "lambda_0"))
    parameters = mean_parameters(n, 1, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=SHARP)
    pair = case.pair(case.planned.plan())
    side = moments_of(target, pair)
    p = parameters.pass_probabilities[side.score]
    yield tells(0 < p < 1)
    bits = math.floor(p * (1 << 256))
    for u, released in ((bits - 1, True), (bits + 1, False)):
        if not 0 <= u < 1 << 256:
            continue
        for z in (0.0, 1.0):
            coins = MeanCoins(TestCoin(u, bytes(32)), None, np.array([z]))
            mean = target.private_mean_given(pair.x, parameters, coins).mean
            word = f"{'a release' if released else 'FAIL'} for a coin just {'below' if released else 'above'} p"
            yield holds(word, (mean is not None) == released)
            if mean is not None and released:
                noise = abs(Fraction(float(mean[0])) - side.mean[0])
                variance = to_fraction(side.covariance[0, 0]) * (parameters.noise_scale * Fraction(z)) ** 2
                size = max(abs(side.mean[0]) + noise, ONE)
                yield at_most("noise squared against c^2 C z^2", abs(noise**2 - variance), size**2 / (1 << 40))


# What a plan achieves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budgeted(Case):
    """Public numbers with n = 8 lambda_0 ceil((4/epsilon) log(2/delta)), rounded up, times ``factor``."""

    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    factor: int

    @property
    def k(self) -> int:
        """The rounded-up (4/epsilon) log(2/delta)."""
        with ctx.workprec(PRECISION):
            value = ball_of(4 / self.epsilon) * ball_of(2 / self.delta).log()
            low, high = smallest_fraction(value), largest_fraction(value)
        require("the logarithm is not next to a whole number", math.ceil(low) == math.ceil(high))
        return math.ceil(high)

    @property
    def n(self) -> int:
        """Rows."""
        return math.ceil(8 * self.lambda_0 * self.k) * self.factor


def budgets() -> SearchStrategy[Budgeted]:
    """Parameters at the least n and beyond."""
    return st.builds(
        Budgeted,
        st.sampled_from([ONE, Fraction(1, 2), Fraction(1, 10)]),
        st.sampled_from([Fraction(1, 10**j) for j in (1, 2, 6, 12)]),
        st.sampled_from([ONE, Fraction(5, 2), Fraction(50)]),
        st.sampled_from([1, 1, 3]),
    )


def _is_budgeted(case: Budgeted) -> None:
    require(
        "0 < epsilon <= 1, 0 < delta <= 1/10, lambda_0 >= 1",
        0 < case.epsilon <= 1 and 0 < case.delta <= Fraction(1, 10),
    )
    require("lambda_0 >= 1 and factor >= 1", case.lambda_0 >= 1 and case.factor >= 1)


@lemma(
    "S20",
    "n >= 8 lambda_0 ceil((4/epsilon) log(2/delta)) has a plan with c = 17 sqrt(lambda_0 log(2/delta))/(epsilon n)",
    cases=budgets,
    given=_is_budgeted,
    needs=(),
    telling="n is the least",
    least_telling=Fraction(1, 8),
    refuted_by=("sharp: the 17 of the noise is lowered to 6",),
    examples=lambda: (
        Budgeted(ONE, Fraction(1, 10), ONE, 1),
        Budgeted(ONE, Fraction(1, 10**6), Fraction(50), 1),
        Budgeted(Fraction(1, 10), Fraction(1, 10**12), Fraction(50), 1),
    ),
    cost=12,
)
def sharp_noise_is_bounded(target: Target, case: Budgeted) -> Iterator[Claim | Telling]:
    """With that k, W = 2k and c: the law of E1 at (epsilon/2, delta/2) ends by k, the gate holds, f_z(epsilon/2) <= delta/2.

    For z = k-1, the worst; by S20's proof (a) and (b) follow for all z.
    """
    n, k, lambda_0 = case.n, case.k, case.lambda_0
    yield tells(case.factor == 1)
    yield holds("the size gate", passes_size_gate(n, lambda_0, k, 2 * k))
    with ctx.workprec(PRECISION):
        half = ball_of(case.epsilon / 2)
        end = 2 / half * (1 + (half.exp() - 1) / ball_of(case.delta)).log()
        yield at_most("Z*, where the law ends", largest_fraction(end), k)
        c = (
            ball_of(_rules(target).noise_constant / (case.epsilon * n))
            * (ball_of(lambda_0) * ball_of(2 / case.delta).log()).sqrt()
        )
        move = ball_of(mean_move(n, lambda_0, k, 2 * k, k - 1)) / c
        change = ball_of(covariance_change(n, lambda_0, k, 2 * k, k - 1, k - 1))
        bound = joint_curve(half, move, change, 2)
        yield at_most("f_{k-1}(epsilon/2)", largest_fraction(bound), case.delta / 2)


@dataclass(frozen=True)
class GaussianRows(Case):
    """Independent batches of n rows of N(0, I_d): the leverage of the first row of each."""

    n: int
    d: int
    batches: int
    seed: int

    def leverages(self) -> NDArray[np.float64]:
        """(h_1 - 1/n)/(1 - 1/n), one a batch."""
        rows = np.random.default_rng(self.seed).standard_normal((self.batches, self.n, self.d))
        rows -= rows.mean(axis=1, keepdims=True)
        gram = np.einsum("bni,bnj->bij", rows, rows)
        first = rows[:, 0, :]
        norms = np.einsum("bi,bi->b", first, np.linalg.solve(gram, first[:, :, None])[:, :, 0])
        return np.asarray(norms / (1 - 1 / self.n))


LEVEL = 1e-9
"""A true law is rejected in one case with at most this probability (Dvoretzky, Kiefer, Wolfowitz; Massart's constant)."""


@lemma(
    "S21",
    "a leverage of Gaussian rows has the law Beta(d/2, (n-1-d)/2)",
    cases=lambda: st.builds(
        GaussianRows, st.sampled_from([5, 8, 20]), st.sampled_from([1, 2]), st.just(4000), st.integers(0, 1 << 20)
    ),
    given=lambda case: require("n > d + 1", case.n > case.d + 1),
    needs=(),
    telling="always: the empirical law is compared with the stated one at level 10^-9",
    evidence="statistical",
    refuted_by=("sharp: the mean costs the leverages no degree of freedom",),
    examples=lambda: (GaussianRows(5, 1, 20000, 0),),
    cost=20,
)
def sharp_gaussian_leverages(target: Target, case: GaussianRows) -> Iterator[Claim | Telling]:
    """(h - 1/n)/(1 - 1/n) has the law Beta(d/2, (n-1-d)/2) for a row of n rows of N(0, I_d), h its leverage with an intercept.

    So the score is positive with probability at most n Pr[B > (lambda_0-1)/(n-1)].
    """
    values = np.sort(case.leverages())
    yield tells(True)
    more = _rules(target).leverage_degrees
    law = betainc((case.d) / 2, (case.n - 1 - case.d + more) / 2, values)
    steps = np.arange(1, case.batches + 1) / case.batches
    distance = float(max(np.max(steps - law), np.max(law - steps + 1 / case.batches)))
    allowed = math.sqrt(math.log(2 / LEVEL) / (2 * case.batches))
    yield at_most("distance of the empirical law", distance, allowed)
