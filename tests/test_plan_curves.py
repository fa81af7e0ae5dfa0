"""The curves of the SHARP plan: floats against enclosures, both against integrals in the plane, and above exact divergences."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx, fmpq_mat
from scipy.special import ndtr

from proofs_checks.divergence import Gaussian, hockey_stick_of_products
from proofs_checks.divergence import hockey_stick as exact_hockey_stick
from refimpl import curves, greedy
from refimpl.curves import PRECISION, ball_of, cases_of, certified_hockey_stick, hockey_stick, hockey_sticks
from refimpl.linalg import to_fmpq

POINTS = [
    (1.0, 0.25, 1 / 1865),
    (0.3, 0.25, 1 / 1865),
    (-0.3, 0.25, 1 / 1865),
    (1.0, 0.6, 0.1),
    (-0.2, 1.0, 0.3),
    (0.01, 0.4, 0.05),
    (3.0, 1.0, 0.1),
    (1.0, 1e-3, 0.03),
    (0.5, 3.0, 0.02),
    (0.2, 0.6, 0.1),
    (-0.34, 0.6, 0.1),
    (0.7, 1.0, 0.3),
]


def certified(e: float, move: float, change: float, samples: int, cases: tuple[curves.Case, ...]) -> float:
    with ctx.workprec(PRECISION):
        (ball,) = certified_hockey_stick([arb(e)], [arb(move)], [arb(change)], samples, cases)
        return float(ball.upper())


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("samples", [0, 1, 2, 5, 50, 2000, 10**6])
def test_floats_agree_with_enclosures(d: int, mean: bool, samples: int) -> None:
    if not mean and samples == 0:
        return  # nothing is released
    cases = cases_of(d, mean=mean, draws=samples > 0)
    for e, move, change in POINTS:
        q = min(change, 1 / math.sqrt(samples + 9))
        if samples * q * q > 9:
            continue  # the curve is 1 but for what floats cannot tell
        value = hockey_stick(e, move if mean else 0.0, q, samples, cases)[0]
        if value < 1e-30:
            continue  # far below every delta of a plan
        bound = certified(e, move if mean else 0.0, q, samples, cases)
        assert value * (1 - 1e-10) <= bound <= value * (1 + 1e-10), (e, move, q)


def test_slopes_are_derivatives() -> None:
    step = 1e-5
    for d, mean, samples in [(1, True, 0), (2, True, 0), (2, False, 7), (1, False, 3), (2, True, 40), (1, True, 40)]:
        cases = cases_of(d, mean=mean, draws=samples > 0)
        for e, move, change in [(1.0, 0.6, 0.1), (0.2, 1.0, 0.3), (0.4, 0.25, 0.01)]:
            values = [hockey_sticks(e + x, move * mean, change, samples, cases)[0] for x in (-step, step)]
            slope = hockey_sticks(e, move * mean, change, samples, cases)[1]
            assert np.allclose(slope, (values[1] - values[0]) / (2 * step), rtol=1e-5, atol=1e-9)


# Against the plane ---------------------------------------------------------------------------------------------------


def turned(e: arb, move: arb, change: arb, turn: Fraction, eta: Fraction) -> arb:
    """J at an angle by an integral over v = u.y of the inner integral over the other coordinate, in erfc."""
    cos, sin = arb.cos_pi(ball_of(turn)), arb.sin_pi(ball_of(turn))
    spread, wide = change / (1 - change), change / arb.cos_pi(ball_of(eta)) ** 2
    shift = (spread - change) / 2
    k = e - move * move / 2 - shift

    def normal(x: acb) -> acb:
        return (-x / arb(2).sqrt()).erfc() / 2

    def integrand(v: acb, _analytic: bool) -> acb:
        h = (move * cos * v + wide * v * v / 2 - k) / (move * sin)
        grown = (shift - v * v * (1 - wide) / 2).exp() * normal(h)
        return (grown - (e - (v + move * cos) ** 2 / 2).exp() * normal(h - move * sin)) / (2 * arb.pi()).sqrt()

    return acb.integral(integrand, -16, 16, rel_tol=arb(2) ** -60, abs_tol=arb(2) ** -90).real


@pytest.mark.parametrize(("e", "move", "change"), [p for p in POINTS if p[0] > 0 and p[1] > 0.1])
def test_every_angle_is_the_integral_over_the_plane(e: float, move: float, change: float) -> None:
    cases = cases_of(2, mean=True, draws=False)
    values = hockey_sticks(e, move, change, 0, cases)[0][0]
    with ctx.workprec(PRECISION):
        e_, move_, change_ = arb(e), arb(move), arb(change)
        for case, value in zip(cases[1:], values[1:], strict=True):
            bound = curves._bound(curves._lines([e_], [move_], [change_], 0, [case])[0][0], case)
            expected = turned(e_, move_, change_, case.turn, case.eta)
            assert abs(bound / expected - 1) < 1e-9
            assert value == pytest.approx(float(expected), rel=1e-9, abs=0)
        spread = change_ / (1 - change_)
        k = e_ - move_ * move_ / 2 - spread / 2
        root = arb(2).sqrt()
        flat = (spread / 2).exp() * (k / move_ / root).erfc() / 2 - e_.exp() * ((k / move_ + move_) / root).erfc() / 2
        assert values[0] == pytest.approx(float(flat), rel=1e-9, abs=0)


def test_the_certificate_covers_every_angle() -> None:
    """Between grid angles, at angle 0 and at pi/2, with the coefficient q itself, nothing exceeds the curve."""
    rng = random.Random(7)
    beyond = {-1: 0, 0: 0, 1: 0}
    for e, move, change in [
        (1.0, 0.25, 1 / 1865),
        (0.02, 0.5, 0.05),
        (0.3, 1.0, 0.3),
        (1.0, 0.1, 0.1),
        (0.2, 0.6, 0.1),
        (0.34, 0.6, 0.1),
        (0.7, 1.0, 0.3),
        (0.05, 0.01, 0.2),
    ]:
        k = e - move**2 / 2 - change**2 / (1 - change) / 2
        beyond[-1 if k <= 0 else int(k >= 1.5 * change / (1 - change))] += 1
        curve = hockey_stick(e, move, change, 0, cases_of(2, mean=True, draws=False))[0]
        angles = [Fraction(rng.randrange(1, 512), 1024) for _ in range(40)] + [Fraction(0), Fraction(1, 2)]
        bare = [curves.Case(True, True, False, turn) for turn in angles]
        values = curves._on_hyperbola(curves._family(e, move, change, 0, bare))[0]
        assert values.max() <= curve * (1 + 1e-12)
        assert values.max() >= curve * (1 - 0.05)
        assert certified(e, move, change, 0, cases_of(2, mean=True, draws=False)) == pytest.approx(
            curve, rel=1e-10, abs=0
        )
    assert min(beyond.values()) >= 2, "every range of S16 and the one between"


# Above exact divergences ---------------------------------------------------------------------------------------------


def spectrum(rng: random.Random, d: int, change: Fraction) -> list[Fraction]:
    """Eigenvalues 1 + b of C_1 relative to C_2 with sum of t = 1 - 1/(1+b) > 0 and of -b > 0 at most ``change`` each."""
    up = [Fraction(rng.randrange(0, 9)) for _ in range(d)]
    signs = [rng.random() < 0.5 for _ in range(d)]
    totals = {s: sum(u for u, t in zip(up, signs, strict=True) if t == s) or Fraction(1) for s in (True, False)}
    shares = [change * u / totals[s] for u, s in zip(up, signs, strict=True)]
    return [1 / (1 - x) if s else 1 - x for x, s in zip(shares, signs, strict=True)]


def pairs(rng: random.Random, d: int, change: Fraction, move: Fraction) -> Iterator[tuple[Gaussian, Gaussian]]:
    """Pairs with C_2 = I whose means are at most ``move`` apart in both norms, in both orders."""
    ratios = spectrum(rng, d, change)
    direction = [Fraction(rng.randrange(-5, 6)) for _ in range(d)]
    length = max(sum(v * v for v in direction), sum(v * v / a for v, a in zip(direction, ratios, strict=True)))
    scale = Fraction(math.floor(move / Fraction(math.sqrt(length)) * 10**9), 10**9) if length else Fraction(0)
    one = fmpq_mat(d, d, [to_fmpq(ratios[i] if i == j else Fraction(0)) for i in range(d) for j in range(d)])
    two = fmpq_mat(d, d, [to_fmpq(Fraction(i == j)) for i in range(d) for j in range(d)])
    p = Gaussian(tuple(v * scale for v in direction), one)
    q = Gaussian((Fraction(0),) * d, two)
    yield p, q
    yield q, p


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_curve_of_the_mean_is_above_exact_divergences(d: int) -> None:
    rng, tightest = random.Random(d), 0.0
    cases = cases_of(d, mean=True, draws=False)
    for change, move in [
        (Fraction(1, 4), Fraction(1, 2)),
        (Fraction(1, 50), Fraction(2, 5)),
        (Fraction(1, 10), Fraction(1)),
    ]:
        for e in (Fraction(1), Fraction(1, 5), Fraction(0), Fraction(-1, 3)):
            bound = certified(float(e), float(move), float(change), 0, cases)
            for _ in range(2):
                for p, q in pairs(rng, d, change, move):
                    exact = exact_hockey_stick(e, p, q)
                    assert float(exact.lower) <= bound
                    tightest = max(tightest, float(exact.lower) / bound)
    assert tightest > 0.9


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("samples", [1, 3, 40])
def test_the_curve_of_the_draws_is_above_exact_divergences_and_attained(d: int, samples: int) -> None:
    rng = random.Random(10 * d + samples)
    cases = cases_of(d, mean=False, draws=True)
    change = Fraction(1, 4) if samples < 10 else Fraction(1, 20)
    for e in (Fraction(1), Fraction(1, 5), Fraction(-1, 3)):
        bound = certified(float(e), 0.0, float(change), samples, cases)
        for _ in range(3):
            for p, q in pairs(rng, d, change, Fraction(0)):
                exact = hockey_stick_of_products(e, p.covariance, q.covariance, samples)
                assert float(exact.lower) <= bound
        ends = [1 / (1 - change), 1 - change]
        extremal = [ends] if d > 1 else [[a] for a in ends]
        attained = [float(_of_spectrum(e, [*a, *[Fraction(1)] * (d - len(a))], samples)) for a in extremal]
        assert max(attained) == pytest.approx(bound, rel=1e-8, abs=0)


def _of_spectrum(e: Fraction, ratios: list[Fraction], samples: int) -> Fraction:
    """The larger of both orders."""
    d = len(ratios)
    one = fmpq_mat(d, d, [to_fmpq(ratios[i] if i == j else Fraction(0)) for i in range(d) for j in range(d)])
    two = fmpq_mat(d, d, [to_fmpq(Fraction(i == j)) for i in range(d) for j in range(d)])
    orders = (one, two), (two, one)
    return max(hockey_stick_of_products(e, *order, samples).upper for order in orders)


@pytest.mark.parametrize("d", [1, 2])
def test_the_curve_of_the_learner_is_above_exact_divergences(d: int) -> None:
    """One draw for the mean and two of the covariance, as one Gaussian in 3 d dimensions."""
    rng, change, move, samples = random.Random(d), Fraction(1, 5), Fraction(1, 2), 2
    cases = cases_of(d, mean=True, draws=True)
    for e in (Fraction(1), Fraction(1, 5), Fraction(-1, 3)):
        bound = certified(float(e), float(move), float(change), samples, cases)
        for _ in range(5):
            for p, q in pairs(rng, d, change, move):
                exact = exact_hockey_stick(e, _with_draws(p, samples), _with_draws(q, samples))
                assert float(exact.lower) <= bound


def _with_draws(law: Gaussian, samples: int) -> Gaussian:
    d, size = len(law.mean), len(law.mean) * (samples + 1)
    blocks = [
        law.covariance[i % d, j % d] if i // d == j // d else to_fmpq(Fraction(0))
        for i in range(size)
        for j in range(size)
    ]
    return Gaussian((*law.mean, *[Fraction(0)] * (d * samples)), fmpq_mat(size, size, blocks))


def test_curves_rise_in_every_argument() -> None:
    """Monotone in D, q and N: so the tables may use bounds."""
    for d, mean, samples in [(1, True, 0), (2, True, 0), (2, False, 9), (1, False, 9), (2, True, 9), (1, True, 9)]:
        cases = cases_of(d, mean=mean, draws=samples > 0)
        for e in (1.0, 0.2, -0.3):
            base = hockey_stick(e, 0.3 * mean, 0.05, samples, cases)[0]
            assert hockey_stick(e, 0.3 * mean, 0.06, samples, cases)[0] > base
            if mean:
                assert hockey_stick(e, 0.31, 0.05, samples, cases)[0] > base
            if samples:
                assert hockey_stick(e, 0.3 * mean, 0.05, samples + 1, cases)[0] > base


def test_a_change_of_the_whole_has_no_bound() -> None:
    assert certified(1.0, 0.3, 0.9999, 0, cases_of(2, mean=True, draws=False)) == math.inf


def test_a_loss_that_is_bounded_has_no_tail() -> None:
    """In one dimension draws of the smaller variance lose at most (N/2) log 1/(1-q)."""
    falling = cases_of(1, mean=False, draws=True)[1:]
    most = -2 * math.log1p(-0.2) / 2
    assert certified(most * 1.001, 0.0, 0.2, 2, falling) == 0
    assert certified(most * 0.9, 0.0, 0.2, 2, falling) > 0


# The models of the walk ----------------------------------------------------------------------------------------------


def test_the_model_is_the_curve_of_two_normal_laws() -> None:
    for width in (0.05, 0.3, 2.0):
        for e in (-1.5, -0.2, 0.0, 0.4, 1.0):
            value = ndtr(-e / width + width / 2) - math.exp(e) * ndtr(-e / width - width / 2)
            model = greedy._Model(width, 0.0, 0.3)
            assert model.value(e) == pytest.approx(value, rel=1e-9, abs=1e-15)
            assert greedy._price(width, e) == pytest.approx(value, rel=1e-9, abs=1e-15)
            if 1e-12 < value < 1:
                assert model.loss_at(value, 0.1) == pytest.approx(e, abs=1e-7)


def test_models_take_value_and_slope() -> None:
    e = np.array([1.0, 0.4, -0.3, 0.05])
    cases = cases_of(2, mean=True, draws=False)
    values, slopes = (
        part.max(axis=1) if i == 0 else part for i, part in enumerate(hockey_sticks(abs(e), 0.4, 0.05, 0, cases))
    )
    best = hockey_sticks(abs(e), 0.4, 0.05, 0, cases)[0].argmax(axis=1)
    slopes = slopes[np.arange(len(e)), best]
    widths, tilts, places = greedy._models(e, values, slopes, np.full(len(e), 0.1))
    for i, at in enumerate(abs(e)):
        model = greedy._Model(widths[i], tilts[i], places[i])
        assert model.value(at) == pytest.approx(values[i], rel=1e-10, abs=0)
        assert model.both(at)[1] == pytest.approx(slopes[i], rel=1e-8, abs=0)


def test_many_points_at_once_are_as_each_alone() -> None:
    e = np.linspace(0.1, 1.0, curves.POINTS_AT_ONCE + 2)
    cases = cases_of(1, mean=True, draws=True)[:2]
    together, slopes = hockey_sticks(e, 0.3, 0.05, 3, cases)
    assert together.shape == slopes.shape == (len(e), 2)
    for i in (0, 1, len(e) - 1):
        alone, slope = hockey_sticks(e[i], 0.3, 0.05, 3, cases)
        assert np.allclose(together[i], alone[0], rtol=1e-12)
        assert np.allclose(slopes[i], slope[0], rtol=1e-12)


@pytest.mark.parametrize("samples", [1, 10**12])
def test_a_logarithm_less_its_linear_part_keeps_its_digits(samples: int) -> None:
    """They are multiplied by N: so small arguments have a series where N is large."""
    z = np.array([[1e-9, -3e-4, 0.05, -0.0999, 0.0999, 0.3, -2.0]])
    with mpmath.workdps(60):
        for turn in (1, 1j):
            expected = [complex(mpmath.log(1 - mpmath.mpc(x * turn)) + mpmath.mpc(x * turn)) for x in z[0]]
            found = curves._excess(z * turn, np.array([[samples]]))[0]
            error = abs(found - np.array(expected)) * samples / np.maximum(1, abs(np.array(expected)) * samples)
            assert error.max() < 1e-14


# What the enclosures are made of --------------------------------------------------------------------------------------


def exact_numbers(move: float, change: float, case: curves.Case) -> tuple[mpmath.mpf, ...]:
    """D, ``shift``, r, cos^2 of the turn and the eigenvalues less 1, as the docstring of ``refimpl.curves`` has them."""
    q = mpmath.mpf(change)
    spread = q / (1 - q)
    r = q * case.grows / mpmath.cospi(mpmath.mpf(float(case.eta))) ** 2 - spread * case.bends
    shift = (spread * case.shrinks - q * case.grows) / 2
    return mpmath.mpf(move), shift, r, mpmath.cospi(mpmath.mpf(float(case.turn))) ** 2, spread * case.up, -q * case.down


def exact_transform(s: Any, e: float, move: float, change: float, samples: int, case: curves.Case) -> Any:
    """F(s) = M(s) e^{-s e}/(s (s+1))."""
    length, shift, r, cos_squared, *draws = exact_numbers(move, change, case)
    v = 1 - (1 + s) * r
    exponent = (1 + s) * shift + s * length**2 / 2 + s**2 * length**2 * (1 - cos_squared + cos_squared / v) / 2 - s * e
    value = mpmath.exp(exponent) / mpmath.sqrt(v) / (s * (s + 1))
    for b in draws:
        value *= ((1 + b) ** s * (1 - s * b)) ** (-mpmath.mpf(samples) / 2)
    return value


def exact_straight(e: float, move: float, change: float, case: curves.Case) -> Any:
    """The integral of (p(y) - e^e phi(y + D))_+ along the move, piece by piece between the points where both agree."""
    length, shift, r, *_ = exact_numbers(move, change, case)
    k, scale = e - length**2 / 2 - shift, mpmath.sqrt(1 - r)
    square = length**2 + 2 * r * k
    roots = [k / length] if r == 0 else [(-length + i * mpmath.sqrt(square)) / r for i in (-1, 1)] if square > 0 else []

    def below(y: Any) -> Any:
        return mpmath.exp(shift) / scale * mpmath.ncdf(y * scale) - mpmath.exp(e) * mpmath.ncdf(y + length)

    pieces = pairwise([-mpmath.inf, *sorted(roots), mpmath.inf])
    return sum(max(mpmath.mpf(0), below(end) - below(start)) for start, end in pieces)


@pytest.mark.parametrize(
    ("e", "move", "change", "cases", "worst"),
    [
        (1.0, 0.25, 0.05, cases_of(2, mean=True, draws=False), curves.ALONG),
        (0.7, 0.5, 0.25, cases_of(2, mean=True, draws=False), curves.ALONG),
        (0.0, 0.1, 0.3, [curves.ALONG], curves.ALONG),  # the loss is above e everywhere
        (0.4, 0.5, 0.25, [curves.FLAT], curves.FLAT),
        (0.4, 0.5, 0.25, cases_of(1, mean=True, draws=False)[1:], cases_of(1, mean=True, draws=False)[1]),
        (0.4, 0.5, 0.25, cases_of(1, mean=True, draws=False), cases_of(1, mean=True, draws=False)[0]),
    ],
)
def test_closed_forms_have_all_their_digits(
    e: float, move: float, change: float, cases: Sequence[curves.Case], worst: curves.Case
) -> None:
    with ctx.workprec(PRECISION), mpmath.workdps(60):
        (ball,) = certified_hockey_stick([arb(e)], [arb(move)], [arb(change)], 0, cases)
        assert ball.rad() < 1e-30
        assert abs(ball - arb(str(exact_straight(e, move, change, worst)))) < 1e-30


def test_a_mean_of_smaller_variance_has_a_largest_loss() -> None:
    """In one dimension -q' y^2/2 + D y + D^2/2 + q'/2 is at most D^2/(2 q') + D^2/2 + q'/2; q' = 1/4."""
    falling = cases_of(1, mean=True, draws=False)[1:]
    most = 0.5**2 * 2 + 0.5**2 / 2 + 0.125
    assert certified(most * 1.001, 0.5, 0.2, 0, falling) == 0
    assert certified(most * 0.9, 0.5, 0.2, 0, falling) > 0


@pytest.mark.parametrize(
    ("share", "move", "change", "straight"),
    [(0.01, 2.0, 0.3, True), (0.5, 0.6, 0.1, False), (0.05, 1.0, 0.02, True), (0.99, 2.0, 0.3, True)],
)
def test_between_the_ranges_of_s16_the_smaller_of_chord_and_grid_bounds(
    share: float, move: float, change: float, straight: bool
) -> None:
    spread = change / (1 - change)
    start = move**2 / 2 + (spread - change) / 2  # K = 0
    end = start + 1.5 * spread
    e, cases = start + share * (end - start), cases_of(2, mean=True, draws=False)
    with ctx.workprec(PRECISION):
        across = float(turned(arb(start), arb(move), arb(change), Fraction(1, 2), Fraction(0)))
    first = max(across, float(exact_straight(start, move, change, curves.FLAT)))
    last = float(exact_straight(end, move, change, curves.ALONG))
    chord = first + (last - first) * math.expm1(e - start) / math.expm1(end - start)
    grid = hockey_sticks(e, move, change, 0, cases)[0].max()
    assert (chord < grid) == straight
    assert certified(e, move, change, 0, cases) == pytest.approx(min(chord, grid), rel=1e-9, abs=0)


def test_every_angle_is_within_eta_of_one_of_the_cases() -> None:
    turned_cases = cases_of(2, mean=True, draws=False)[1:]
    for angle in (Fraction(i, 256) for i in range(129)):
        assert any(abs(angle - case.turn) <= case.eta for case in turned_cases)


# Every kind: turned or not, with an end on the right and without, K on both sides of 0, and close to the end.
LINES = [
    (1.0, 0.6, 0.1, 0, cases_of(2, mean=True, draws=False)[3]),
    (0.05, 0.6, 0.3, 0, cases_of(2, mean=True, draws=False)[-1]),
    (6.0, 0.0, 0.2, 8, curves.Case(up=True)),
    (1.0, 0.0, 0.2, 2, curves.Case(up=True, down=True)),
    (0.1, 0.0, 0.2, 2, curves.Case(down=True)),
    (0.5, 0.5, 0.2, 2, cases_of(1, mean=True, draws=True)[1]),
    (0.01, 0.01, 0.3, 1, cases_of(2, mean=True, draws=True)[8]),
]


def line_of(e: float, move: float, change: float, samples: int, case: curves.Case) -> curves._Line:
    return curves._lines([arb(e)], [arb(move)], [arb(change)], samples, [case])[0][0]


def place(line: curves._Line, x: Any) -> Any:
    """A point of the docstring's hyperbola; alpha is a quarter of beta, with the sign of K."""
    beta = mpmath.mpf(min(float(line.left), float(line.right)))
    alpha = beta / 4 * mpmath.sign(float(line.beyond()))
    return float(line.sigma) + alpha * (mpmath.cosh(x) - 1) + 1j * beta * mpmath.sinh(x)


def on_path(line: curves._Line, x: Any, numbers: tuple[Any, ...]) -> Any:
    """F(s) ds/dx on the hyperbola."""
    return exact_transform(place(line, x), *numbers) * mpmath.diff(lambda y: place(line, y), x)


@pytest.mark.parametrize("numbers", LINES)
def test_what_is_cut_off_of_the_hyperbola_is_below_its_bound(numbers: tuple[Any, ...]) -> None:
    """Which is the product of the docstring's bounds."""
    e, move, change, samples, case = numbers
    with ctx.workprec(PRECISION), mpmath.workdps(40):
        line = line_of(*numbers)
        beta, k = min(line.left, line.right, key=float), line.beyond()
        tail = line.tail(k, beta / 4 if k > 0 else -beta / 4, beta, 2)
        assert tail is not None
        bound = mpmath.mpf(str(tail.mid().str(30, radius=False)))
        length, shift, r, cos_squared, *draws = exact_numbers(move, change, case)
        s, (step, slope) = place(line, 2), (mpmath.mpf(float(beta)) * x for x in (mpmath.sinh(2), 1.25))
        linear = e - shift - length**2 / 2 + sum(mpmath.log1p(b) for b in draws) * samples / 2
        expected = mpmath.exp(shift - linear * s.real + length**2 * (1 - cos_squared) * (s**2).real / 2)
        if r:  # s^2/v = -s/r - (1-r)/r^2 + ((1-r)/r)^2/v
            rest = -s.real / r - (1 - r) / r**2 + ((1 - r) / r) ** 2 / abs(r * step)
            expected *= mpmath.exp(length**2 * cos_squared / 2 * rest) / mpmath.sqrt(abs(r * step))
        else:
            expected *= mpmath.exp(length**2 * cos_squared / 2 * (s**2).real)
        for b in draws:
            expected *= abs(b * step) ** (-mpmath.mpf(samples) / 2) if b else 1
        expected *= slope * mpmath.sinh(2) / step**2 / mpmath.pi
        assert abs(bound / expected - 1) < 1e-12
    assert mpmath.quad(lambda x: abs(on_path(line, x, numbers)), [2, 3, 5]) / mpmath.pi <= bound


@pytest.mark.parametrize("numbers", [LINES[0], LINES[1], LINES[4]])
@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_a_coarse_sum_is_as_close_as_its_bound_says(numbers: tuple[Any, ...], sigma: float) -> None:
    """The sum along Re s = sigma against the integral: by a step so coarse that they differ."""
    e, move, change, samples, case = numbers
    exact = [arb(v) for v in (sigma, 1.0, sigma / 2, sigma / 4)]
    with ctx.workprec(PRECISION):
        line = curves._line(arb(e), arb(move), arb(change), samples, case, exact)
        assert line.is_usable()
        bound = float(line.aliasing())
        fine = line_of(*numbers)
        value = float(curves._bound(fine, case))
    nodes = [exact_transform(mpmath.mpc(sigma, j), *numbers).real for j in range(400)]
    total = float(nodes[0] / 2 + sum(nodes[1:])) / math.pi
    ends = [(sigma / 2, sigma / 2), (sigma * 1.25, sigma / 4)]
    expected = [
        exact_transform(mpmath.mpf(s), *numbers) * (s + 1) / 2 / mpmath.expm1(2 * mpmath.pi * a) for s, a in ends
    ]
    assert bound == pytest.approx(float(sum(expected)), rel=1e-12, abs=0)
    assert abs(total - value) <= bound


def test_a_path_is_straight_where_the_sign_of_k_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both eigenvalues K is e: at e = 0 a ball around 0. One draw has p > q in two sectors of the plane."""
    monkeypatch.setattr(curves, "RELATIVE", 2.0**-12)  # the path is a slow one
    with ctx.workprec(PRECISION):
        line = line_of(0.0, 0.0, 0.2, 1, curves.Case(up=True, down=True))
        assert not line.beyond() > 0
        assert not line.beyond() < 0
        bound = float(line.integral().upper())
    expected = 2 / math.pi * (math.atan(0.8**-0.5) - math.atan(0.8**0.5))
    assert expected <= bound <= expected * 1.01


class Integrals(acb):
    """In the place of ``acb``: keeps what is to be integrated."""

    asked: ClassVar[list[tuple[Any, ...]]] = []

    @staticmethod
    def integral(*arguments: Any, **_: Any) -> acb:
        Integrals.asked.append(arguments)
        return acb(0, 1)


@pytest.mark.parametrize("numbers", LINES)
def test_the_integral_is_along_the_hyperbola(numbers: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "acb", Integrals)
    with ctx.workprec(PRECISION):
        line = line_of(*numbers)
        line.integral()
        integrand, start, end = Integrals.asked.pop()
        assert start == 0
        for x in (0.0, 0.75, float(end)):
            expected = complex(on_path(line, x, numbers))
            assert complex(integrand(acb(x), True)) == pytest.approx(expected, rel=1e-12, abs=0)


def test_an_integrand_is_not_a_number_where_it_may_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 1 - s b is not for certain off the negative axis: its logarithm is not analytic there."""
    monkeypatch.setattr(curves, "acb", Integrals)
    with ctx.workprec(PRECISION):
        line_of(3.0, 0.0, 0.2, 3, curves.Case(up=True)).integral()
        integrand = Integrals.asked.pop()[0]
        cut = -math.atan(4)  # alpha = beta/4: Im s is 0 for x = w + i y with tan y = -4
        assert integrand(acb(1, arb(cut + 0.1, 0.01)), True).is_finite()
        assert integrand(acb(1, arb(cut - 0.1, 0.01)), True).is_finite()
        assert not integrand(acb(1, arb(cut, 0.01)), True).is_finite()
        assert integrand(acb(0, arb(cut, 0.01)), True).is_finite(), "1 - s b is positive"


@pytest.mark.parametrize(("samples", "case"), [(0, curves.ALONG), (1, curves.Case(up=True))])
def test_a_strip_that_holds_a_singularity_is_not_used(samples: int, case: curves.Case) -> None:
    """M is singular at s = 3 with q = 1/4, and F at s = 0."""

    def is_usable(sigma: float, step: float, left: float, right: float) -> bool:
        exact = [arb(v) for v in (sigma, step, left, right)]
        return curves._line(arb(1), arb(0.5), arb(0.25), samples, case, exact).is_usable()

    assert is_usable(2.0, 0.1, 1.5, 0.99)
    assert not is_usable(2.0, 0.1, 1.5, 1.01)
    assert not is_usable(2.0, 0.1, 1.5, 3.0)
    assert not is_usable(3.5, 0.1, 1.5, 0.1)
    assert not is_usable(2.0, 0.1, 2.0, 0.5)
    assert not is_usable(2.0, 0.1, 2.5, 0.5)
    assert not is_usable(2.0, 0.1, 0.0, 0.5)
    assert not is_usable(2.0, 0.1, 1.5, 0.0)
    assert not is_usable(2.0, 0.1, 1.5, -0.5)
    assert not is_usable(2.0, 0.0, 1.5, 0.5)
    assert not is_usable(2.0, -0.1, 1.5, 0.5)
