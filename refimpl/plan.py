r"""The plan of the SHARP edition: levels k, window W, the law of the test, and the noise, verified in enclosures.

The mechanism runs the one-stage estimator on the lifted rows (1, x_i), outputs FAIL with probability 1 - p_z at score z, and
else releases N(mean, c^2 C), or N draws of N(0, C), or both. With H = n/lambda_0, uniform weights 1/W on the levels k..t,
t = k+W-1, and Omega_L = (t+1-L)/W, the bounds for adjacent data with scores z and z or z+1, both below k, are

    s_L(r) = 1/(H - L - (1 - Omega_L) r)                  share of a row of S_L        (``row_share``)
    Q(r, D) = max_L Omega_L s_L(r) + D max_L s_L(r)/W     change of the covariance     (``covariance_change``)
    [max(a v + A, a + A v) + D o v]/(n - 1 - D)           move of the mean             (``mean_move``)

with r = z+1, R_L = (n s_L(r) - 1)^{1/2}, A = max_L Omega_L R_L, o = max_L R_L/W, v = (1 - Q(r, D))^{-1/2}, and the larger of
(D, a) = (z, (n/(H-z) - 1)^{1/2}) and, if z >= 1, (z-1, A).

**Why (a) and (b) are enough.** Let f_z bound the hockey-stick of the two releases, in both orders, for pairs whose smaller
score is z (``refimpl.curves``), u_z = 1 - p_z, and P, P' the outputs for scores z and z'. As the event FAIL splits off,

    HS_eps(P||P') = (u_z - e^eps u_z')_+ + p_z HS_e(release||release'),    e = eps - log(p_z/p_z').

With p falling, u_z <= u_{z+1}. So delta bounds all four kinds of pairs, z' = z and z' = z+1 in both orders, if for z < k

    (a)  p_z f_z(eps - log(p_z/p_{z+1})) <= delta                        (p_z <= delta if p_{z+1} = 0)
    (b)  (u_{z+1} - e^eps u_z)_+ + p_{z+1} f_z(eps + log(p_z/p_{z+1})) <= delta.

Equal scores need p_z HS_eps <= delta, which (a) gives because HS_e falls with e. Where u_{z+1} <= e^eps u_z, (b) follows from
(a) likewise: p_{z+1} HS_{e'} <= p_z HS_e for e' >= e. At z = k-1, p_k = 0 and no curve is needed; two scores of k always FAIL.

The same plan serves every larger n: H, H - L and n - 1 - D grow, n s_L(r) = 1/(1/lambda_0 - (L + (1-Omega_L) r)/n) and
n/(H-z) fall, and with them Q, the move, and every curve. So to have a plan is monotone in n.

Nothing of the search is trusted: :func:`verify_plan` recomputes every inequality for the numbers of the plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, ctx

from refimpl import greedy
from refimpl.curves import PRECISION, ball_of, cases_of, certified_hockey_stick
from refimpl.greedy import MOST_LEVELS

__all__ = [
    "MOST_LEVELS",
    "Plan",
    "Verification",
    "covariance_change",
    "covariance_plan",
    "gate_failure",
    "gaussian_plan",
    "least_n",
    "least_ratio",
    "mean_move",
    "mean_plan",
    "row_share",
    "verify_plan",
]


@dataclass(frozen=True)
class Plan:
    """The public numbers of one SHARP release.

    Attributes
    ----------
    k
        Scores run from 0 to k; a score of k always FAILs.
    window
        W, the number of levels k..k+W-1 that are averaged.
    pass_probabilities
        p_0 = 1, ..., p_k = 0, dyadic rationals that do not rise.
    noise_scale
        c, a dyadic rational; None if no mean is released.
    samples
        N; None if no covariance is released.
    """

    k: int
    window: int
    pass_probabilities: tuple[Fraction, ...]
    noise_scale: Fraction | None = None
    samples: int | None = None


@dataclass(frozen=True)
class Verification:
    """What :func:`verify_plan` found.

    Attributes
    ----------
    holds
        Whether every inequality that privacy needs was shown.
    reason
        The first one that was not; None if the plan holds.
    loss_ratios, gain_ratios
        For each z, upper bounds on the left sides of (a) and (b), divided by delta: the worst is at most 1 if the plan holds.
        Empty if the plan was refused before.
    """

    holds: bool
    reason: str | None
    loss_ratios: tuple[float, ...] = ()
    gain_ratios: tuple[float, ...] = ()

    @property
    def worst_ratio(self) -> float:
        """The largest of all ratios; infinite where there are none."""
        return max((*self.loss_ratios, *self.gain_ratios), default=math.inf)


# The bounds, exactly -------------------------------------------------------------------------------------------------


def row_share(n: int, lambda_0: Fraction, k: int, window: int, level: int, r: int) -> Fraction:
    """s_L(r), the most that z_i^T G^{-1} z_i/n can be for a row of S_L, if the score is r < k (or less).

    Parameters
    ----------
    n, lambda_0, k, window
        Public numbers of the plan.
    level
        L, in the window k..k+W-1.
    r
        Bound on the score of the data that G belongs to.

    Returns
    -------
    Fraction
        1/(H - L - (1 - Omega_L) r). With fewer rows than the gate asks it need not be positive.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return 1 / (Fraction(n) / lambda_0 - level - Fraction(level - k, window) * r)


def covariance_change(n: int, lambda_0: Fraction, k: int, window: int, r: int, others: int) -> Fraction:
    """Q(r, D): bound on the trace of the positive part of I - G_1^{-1/2} G_2 G_1^{-1/2} (and of C likewise).

    Parameters
    ----------
    n, lambda_0, k, window
        Public numbers of a plan that meets the gate.
    r
        Bound on the score of the data that G_1 belongs to.
    others
        D, bound on the number of rows other than i* whose weights differ.

    Returns
    -------
    Fraction
        Omega_L s_L is a quotient of two linear functions of L, so it is largest at an end of the window; s_L is at the last.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    last = row_share(n, lambda_0, k, window, k + window - 1, r) / window
    return max(row_share(n, lambda_0, k, window, k, r), last) + others * last


def _radius_squared(n: int, lambda_0: Fraction, k: int, window: int, r: int) -> Fraction:
    """A^2 = max_L Omega_L^2 (n s_L(r) - 1).

    With j = L - k, g = 1 + r/W and D = H - k - g j, the derivative by j has the sign of F = n g (W-j) - 2 D (n-D), a convex
    function of j that falls while D > n/4: there is at most one maximum inside, before F turns.
    """
    h, g, w = Fraction(n) / lambda_0 - k, 1 + Fraction(r, window), window

    def square(j: int) -> Fraction:
        return Fraction(w - j, w) ** 2 * (n / (h - g * j) - 1)

    def rises(j: int) -> bool:
        return n * g * (w - j) > 2 * (h - g * j) * (n - h + g * j)

    candidates = {0, w - 1}
    turn = max(0, math.floor((h - Fraction(n, 4)) / g))
    low, high = 0, min(turn, w - 1)
    if rises(low) and high > 0:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if rises(middle) else (low, middle)
        candidates |= {low, high, min(turn, w - 1), min(turn + 1, w - 1)}
    return max(square(j) for j in candidates)


def _move(n: int, lambda_0: Fraction, k: int, window: int, z: int) -> arb:
    """The bound on the move of the mean at c = 1, as a ball."""
    r = min(z + 1, k - 1)
    ways = [(z, n * lambda_0 / (n - z * lambda_0) - 1)]
    largest = _radius_squared(n, lambda_0, k, window, r)
    if z >= 1:
        ways.append((z - 1, largest))
    inner = ball_of(largest).sqrt()
    other = ball_of(n * row_share(n, lambda_0, k, window, k + window - 1, r) - 1).sqrt() / window
    moves = []
    for others, radius_squared in ways:
        stretch = 1 / ball_of(1 - covariance_change(n, lambda_0, k, window, r, others)).sqrt()
        outer = ball_of(radius_squared).sqrt()
        one_row = (outer * stretch + inner).max(outer + inner * stretch)
        moves.append((one_row + others * other * stretch) / (n - 1 - others))
    return moves[0].max(moves[-1])


def mean_move(n: int, lambda_0: Fraction, k: int, window: int, z: int) -> tuple[Fraction, Fraction]:
    """Bound on the Mahalanobis distance of the weighted means of adjacent data, in the norm of either weighted scatter.

    Parameters
    ----------
    n, lambda_0, k, window
        Public numbers of a plan that meets the gate.
    z
        The smaller of the two scores, both of them below k.

    Returns
    -------
    tuple of two Fractions
        A lower and an upper end of an enclosure of the bound. The sensitivity of the release is its upper end over c.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    with ctx.workprec(PRECISION):
        ball = _move(n, lambda_0, k, window, z)
        return _end(ball.lower()), _end(ball.upper())


def _end(value: arb) -> Fraction:
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def gate_failure(n: int, lambda_0: Fraction, k: int, window: int) -> str | None:
    """Why k and the window are not admissible for n rows, or None if they are.

    The bounds need lambda_0 >= 1, thresholds n/(H - ell) up to the last level, shares s_L(r) that are positive for every
    r < k, and Q(k-1, k-1) < 1.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    if lambda_0 < 1:
        return f"lambda_0 must be at least 1, got {lambda_0}"
    if k < 1 or window < 1:
        return f"k and window must be at least 1, got {k} and {window}"
    left = Fraction(n) / lambda_0 - (k + window - 1)
    if left <= 0:
        return f"n - (k + window - 1) lambda_0 must be positive, with n = {n}, k = {k}, window = {window}"
    if left - (k - 1) * (1 - Fraction(1, window)) <= 0:
        return f"H - t - (k - 1)(1 - 1/window) must be positive, with n = {n}, k = {k}, window = {window}"
    if covariance_change(n, lambda_0, k, window, k - 1, k - 1) >= 1:
        return f"the covariance may change by its whole, with n = {n}, k = {k}, window = {window}"
    return None


# Verification --------------------------------------------------------------------------------------------------------

MOST_EPSILON = 256
"""A larger epsilon is served as this one, which is stronger."""


def _shape_failure(plan: Plan, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> str | None:
    """What is wrong with the numbers themselves, before any inequality is looked at."""
    p, c, samples = plan.pass_probabilities, plan.noise_scale, plan.samples
    ends = plan.k >= 1 and len(p) == plan.k + 1 and p[0] == 1 and p[-1] == 0
    needs = (
        (d >= 1 and epsilon > 0 and 0 < delta < 1, "d >= 1, epsilon > 0 and 0 < delta < 1"),
        (c is not None or samples is not None, "something to release"),
        (c is None or c > 0, "noise_scale > 0"),
        (samples is None or samples >= 1, "samples >= 1"),
        (ends, "pass_probabilities from p_0 = 1 to p_k = 0"),
        (all(later <= earlier for earlier, later in pairwise(p)), "pass_probabilities that do not rise"),
    )
    missing = next((need for there, need in needs if not there), None)
    return gate_failure(n, lambda_0, plan.k, plan.window) if missing is None else f"a plan needs {missing}"


def verify_plan(
    plan: Plan, n: int, d: int, epsilon: Fraction | int, delta: Fraction, lambda_0: Fraction | int
) -> Verification:
    """Show, in balls rounded outward, that the release by ``plan`` is (epsilon, delta)-differentially private.

    Parameters
    ----------
    plan
        Its numbers are taken as they are, wherever they come from. Whether there are ``noise_scale`` and ``samples`` says what
        is released.
    n, d
        Rows and dimension of the data.
    epsilon, delta, lambda_0
        Exact rationals.

    Returns
    -------
    Verification
        ``holds`` is true only if the gate and (a), (b) of the module's docstring were shown for every z.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    The propose-test-release argument is that of the paper's Section 5; the curves and the law are this edition's own.
    """
    epsilon, delta, lambda_0 = min(Fraction(epsilon), Fraction(MOST_EPSILON)), Fraction(delta), Fraction(lambda_0)
    reason = _shape_failure(plan, n, d, epsilon, delta, lambda_0)
    if reason is not None:
        return Verification(False, reason)
    with ctx.workprec(PRECISION):
        losses, gains = _conditions(plan, n, d, epsilon, delta, lambda_0)
    for name, ratios in (("a", losses), ("b", gains)):
        failing = [z for z, ratio in enumerate(ratios) if not ratio <= 1]
        if failing:
            reason = reason or f"condition ({name}) was not shown at score {failing[0]}"
    return Verification(reason is None, reason, _rounded_up(losses), _rounded_up(gains))


def _conditions(
    plan: Plan, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction
) -> tuple[list[arb], list[arb]]:
    """The left sides of (a) and of (b) over delta, as balls, for z = 0, ..., k-1."""
    p, growth, eps = plan.pass_probabilities, ball_of(epsilon).exp(), ball_of(epsilon)
    rises = [ball_of(1 - p[z + 1]) - growth * ball_of(1 - p[z]) for z in range(plan.k)]
    points: list[tuple[int, arb]] = []
    for z in range(plan.k):
        if p[z + 1] > 0:
            drop = ball_of(p[z] / p[z + 1]).log()
            points.append((z, eps - drop))
            if not rises[z] <= 0:  # else (b) follows from (a)
                points.append((z, eps + drop))
    curve = iter(_curve(plan, n, d, lambda_0, points))
    losses, gains = [], []
    for z in range(plan.k):
        losses.append((next(curve) if p[z + 1] > 0 else arb(1)) * ball_of(p[z] / delta))
        if rises[z] <= 0:
            gains.append(losses[-1])
        else:
            release = next(curve) * ball_of(p[z + 1]) if p[z + 1] > 0 else arb(0)
            gains.append((rises[z] + release) / ball_of(delta))
    return losses, gains


def _curve(plan: Plan, n: int, d: int, lambda_0: Fraction, points: list[tuple[int, arb]]) -> list[arb]:
    """f_z(e) at all points (z, e)."""
    k, window, c = plan.k, plan.window, plan.noise_scale
    moves, changes = {}, {}
    for z in {z for z, _ in points}:
        moves[z] = arb(0) if c is None else _move(n, lambda_0, k, window, z) / ball_of(c)
        changes[z] = ball_of(covariance_change(n, lambda_0, k, window, min(z + 1, k - 1), z))
    return certified_hockey_stick(
        [e for _, e in points],
        [moves[z] for z, _ in points],
        [changes[z] for z, _ in points],
        plan.samples or 0,
        cases_of(d, mean=c is not None, draws=plan.samples is not None),
    )


def _rounded_up(balls: list[arb]) -> tuple[float, ...]:
    return tuple(math.nextafter(float(ball.upper()), math.inf) for ball in balls)


# Search --------------------------------------------------------------------------------------------------------------


def _plan(task: str, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> Plan | None:
    numbers = min(float(epsilon), float(MOST_EPSILON)), float(delta), float(lambda_0)
    found = greedy.search(task, n, d, *numbers)
    if found is None:
        return None
    c = None if found.noise_scale is None else Fraction(math.nextafter(found.noise_scale, math.inf))
    return Plan(found.k, found.window, found.pass_probabilities, c, found.samples)


def mean_plan(n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> Plan | None:
    """The plan of least c for a release of the mean that the search finds; to be verified.

    Parameters
    ----------
    n, d
        Rows and dimension; of d only whether it is 1 matters.
    epsilon, delta
        The privacy parameters, 0 < epsilon and 0 < delta < 1. There is no further condition on them.
    lambda_0
        Outlier threshold, at least 1.

    Returns
    -------
    Plan or None
        None if no (k, W) admits a finite c, or if the law would need more than ``greedy.MOST_LEVELS`` levels.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return _plan("mean", n, d, epsilon, delta, lambda_0)


def covariance_plan(n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> Plan | None:
    """The plan of most draws N for a release of the covariance that the search finds; to be verified.

    Parameters, result and privacy as for :func:`mean_plan`; None if there is no plan with N = 1.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return _plan("covariance", n, d, epsilon, delta, lambda_0)


def gaussian_plan(n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> Plan | None:
    """The plan for mean and covariance at once, with one test; to be verified.

    Of the pairs (c, N) for which the law just ends it is the one where D^2 = N q^2 at score 0: both moves weigh alike.

    Parameters, result and privacy as for :func:`mean_plan`.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return _plan("gaussian", n, d, epsilon, delta, lambda_0)


def least_n(task: str, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> int | None:
    """The least number of rows for which the search finds a plan; every larger number has one too.

    Parameters
    ----------
    task
        "mean", "covariance" or "gaussian".
    d, epsilon, delta, lambda_0
        As for :func:`mean_plan`.

    Returns
    -------
    int or None
        The :func:`least_ratio` times lambda_0, rounded up. None if no n has a plan that the search would find.

    Raises
    ------
    ValueError
        If ``task`` is not one of the three.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    ratio = least_ratio(task, d, epsilon, delta)
    return None if ratio is None or lambda_0 < 1 else max(2, math.ceil(ratio * lambda_0))


def least_ratio(task: str, d: int, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """The least n/lambda_0 for which the search finds a plan: with all the noise that one likes only this ratio matters.

    The thresholds, the shares s_L(r) and Q depend on n and lambda_0 through H = n/lambda_0. The move of the mean does not, but
    it is divided by c.

    Parameters
    ----------
    task
        "mean", "covariance" or "gaussian".
    d, epsilon, delta
        As for :func:`mean_plan`; of d only whether it is 1 matters.

    Returns
    -------
    Fraction or None
        To about five digits, from above; at this ratio the noise is of no use yet, and falls steeply with more rows. None if
        the search finds no plan at any.

    Raises
    ------
    ValueError
        If ``task`` is not one of the three.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    if task not in greedy.TASKS:
        raise ValueError(f"task must be one of {greedy.TASKS}, got {task!r}")
    found = greedy.least_ratio(task, min(d, 2), min(float(epsilon), float(MOST_EPSILON)), float(delta))
    return None if found is None else Fraction(found[0])
