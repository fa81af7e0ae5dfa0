"""The parts of the curves one by one, floats and balls: against closed forms and the formulas of the module's docstring.

``test_plan_curves`` holds the whole against enclosures and exact divergences. Here each part is told from its neighbours, in
milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtr

from refimpl import curves
from refimpl.curves import ACROSS, ALONG, FLAT, PRECISION, Case, cases_of, certified_hockey_stick, curve, hockey_sticks

Numbers = tuple[float, float, float, int, Case]

TURNED = cases_of(2, mean=True, draws=False)[3]
RISING, FALLING = cases_of(1, mean=True, draws=False)

# e, D, q, N and the case: turned or not, with ends on the right and without, with few draws and many.
PAIRS: list[Numbers] = [
    (1.0, 0.6, 0.1, 0, TURNED),
    (0.3, 1.0, 0.3, 0, cases_of(2, mean=True, draws=False)[-1]),
    (0.2, 0.5, 0.2, 0, ACROSS),
    (0.5, 0.6, 0.1, 0, RISING),
    (0.5, 0.5, 0.2, 0, FALLING),
    (0.5, 0.5, 0.2, 0, FLAT),
    (0.25, 0.5, 0.2, 9, cases_of(2, mean=True, draws=True)[4]),
    (0.25, 0.5, 0.2, 9, cases_of(2, mean=True, draws=True)[0]),
    (0.7, 0.5, 0.2, 3, cases_of(1, mean=True, draws=True)[0]),
    (0.7, 0.5, 0.2, 3, cases_of(1, mean=True, draws=True)[1]),
    (1.0, 0.0, 0.2, 2, Case(up=True, down=True)),
    (0.1, 0.0, 0.2, 2, Case(down=True)),
    (6.0, 0.0, 0.2, 8, Case(up=True)),
    (0.5, 0.25, 0.001, 10**6, cases_of(2, mean=True, draws=True)[4]),
]

INTEGRATED = [pair for pair in PAIRS if pair[3] or pair[4].turn]


def exact_numbers(numbers: Numbers) -> tuple[Any, ...]:
    """e, D, N, ``shift``, r, sin^2 and cos^2 of the turn, and the eigenvalues less 1."""
    e, move, change, samples, case = numbers
    q = mpmath.mpf(change)
    spread = q / (1 - q)
    r = q * case.grows / mpmath.cospi(mpmath.mpf(case.eta.numerator) / case.eta.denominator) ** 2 - spread * case.bends
    turn = mpmath.mpf(case.turn.numerator) / case.turn.denominator
    squares = mpmath.sinpi(turn) ** 2, mpmath.cospi(turn) ** 2
    shift = (spread * case.shrinks - q * case.grows) / 2
    return (mpmath.mpf(e), mpmath.mpf(move), samples, shift, r, *squares, spread * case.up, -q * case.down)


def log_moment(s: Any, numbers: Numbers) -> Any:
    """log(M(s) e^{-s e}) as the docstring of ``refimpl.curves`` has it."""
    e, move, samples, shift, r, sin_squared, cos_squared, *draws = exact_numbers(numbers)
    v = 1 - (1 + s) * r
    value = (1 + s) * shift + s * move**2 / 2 + s**2 * move**2 * (sin_squared + cos_squared / v) / 2
    value -= mpmath.log(v) / 2 + s * e
    for b in draws:
        value -= mpmath.mpf(samples) / 2 * (s * mpmath.log1p(b) + mpmath.log(1 - s * b))
    return value


def log_transform(s: Any, numbers: Numbers) -> Any:
    """log F(s)."""
    return log_moment(s, numbers) - mpmath.log(s) - mpmath.log(1 + s)


def first_end(numbers: Numbers) -> Any:
    """The least s > 0 at which v = 0 or 1 - s b = 0."""
    _, _, _, _, r, _, _, *draws = exact_numbers(numbers)
    return min([*(1 / x - 1 for x in [r] if x > 0), *(1 / b for b in draws if b > 0)], default=mpmath.inf)


def inside(numbers: Numbers) -> list[Any]:
    """Real points between 0 and the first singularity, and complex ones to the right of 0."""
    end = min(first_end(numbers), mpmath.mpf(8))
    return [end * x for x in (0.01, 0.3, 0.9)] + [mpmath.mpc(end * x, y) for x, y in ((0.2, 0.5), (0.5, -3), (0.7, 40))]


def family_of(numbers: Numbers) -> curves._Family:
    e, move, change, samples, case = numbers
    return curves._family(e, move, change, samples, [case])


def exact(ball: arb) -> Any:
    """The middle of a ball."""
    return mpmath.mpf(ball.mid().str(45, radius=False))


def line_of(numbers: Numbers) -> curves._Line:
    *point, samples, case = numbers
    with ctx.workprec(PRECISION):
        e, move, change = (arb(v) for v in point)
        return curves._lines([e], [move], [change], samples, [case])[0][0]


# In floats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", PAIRS)
def test_the_transform_in_floats_is_that_of_the_docstring(numbers: Numbers) -> None:
    family = family_of(numbers)
    with mpmath.workdps(40):
        for s in inside(numbers):
            at = np.array([[complex(s) if s.imag else float(s)]])
            (found,) = family.log_moment(at)[0]
            expected = complex(log_moment(mpmath.mpmathify(at[0, 0]), numbers))
            assert found == pytest.approx(expected if s.imag else expected.real, rel=1e-12, abs=1e-12)
            if not s.imag:
                slope = mpmath.diff(lambda t: log_transform(t, numbers), mpmath.mpf(at[0, 0]))
                assert family.slope(at)[0, 0] == pytest.approx(float(slope), rel=1e-11, abs=0)


@pytest.mark.parametrize("numbers", PAIRS)
def test_the_linear_part_and_the_square_are_what_the_transform_does_far_away(numbers: Numbers) -> None:
    """log(M(s) e^{-s e}) = smooth s^2/2 - K s + O(log s)."""
    with ctx.workprec(PRECISION), mpmath.workdps(80):
        far = mpmath.mpf(10) ** 30
        one, two = (log_moment(mpmath.mpc(0, t), numbers) for t in (far, 2 * far))
        smooth = float(-2 * one.real / far**2)
        k = float((one.imag - two.imag) / far)
        family, line = family_of(numbers), line_of(numbers)
        assert family.smooth()[0, 0] == pytest.approx(smooth, rel=1e-14, abs=1e-20)
        assert family.beyond()[0, 0] == pytest.approx(k, rel=1e-12, abs=1e-15)
        assert float(line.smooth()) == pytest.approx(smooth, rel=1e-14, abs=1e-20)
        assert float(line.beyond()) == pytest.approx(k, rel=1e-14, abs=0)


@pytest.mark.parametrize("numbers", PAIRS)
def test_the_saddle_is_where_the_transform_is_least(numbers: Numbers) -> None:
    """The bisection ends with an interval of 50/2^15 in log2(s/(1 - s/end)); the end is a bit below the singularity."""
    family, first = family_of(numbers), float(first_end(numbers))
    end = family.end()[0, 0]
    assert end == first == math.inf or first * (1 - 2e-9) < end < first
    saddle = family.saddle()
    assert 0 < saddle[0, 0] < end
    odds = saddle / (1 - saddle / end) * 2.0**0.0016
    assert family.slope(saddle)[0, 0] <= 0 <= family.slope(odds / (1 + odds / end))[0, 0]


@pytest.mark.parametrize(("e", "move"), [(1.0, 1.2e-6), (0.0, 40.0), (0.5, 1e-4), (0.01, 3.0)])
def test_the_saddle_is_found_near_and_far(e: float, move: float) -> None:
    """s = e/D^2 - 1/2 without T, if D is tiny, and 2/D^2 if it is large."""
    saddle = curves._family(e, move, 0.0, 0, [FLAT]).saddle()[0, 0]
    with mpmath.workdps(40):
        numbers = e, move, 0.0, 0, FLAT
        slopes = [mpmath.diff(lambda t: log_transform(t, numbers), mpmath.mpf(saddle) * x) for x in (1, 1.0012)]
    assert slopes[0] <= 0 <= slopes[1]


def test_a_family_has_a_row_for_each_point_and_a_column_for_each_case() -> None:
    e, moves, cases = [0.3, 0.6, 1.2], [0.2, 0.5, 1.0], [pair[4] for pair in PAIRS]
    family = curves._family(e, moves, 0.2, 3, cases)
    s = np.array([[0.3], [0.5], [0.7]])
    parts = family.end(), family.saddle(), family.beyond(), family.smooth(), family.slope(s), family.log_moment(s)
    for i, j in ((0, 0), (1, 4), (2, 9), (0, 13), (2, 13)):
        alone = curves._family(e[i], moves[i], 0.2, 3, [cases[j]])
        at = s[i : i + 1]
        single = (
            *(alone.end(), alone.saddle(), alone.beyond(), alone.smooth()),
            *(alone.slope(at), alone.log_moment(at)),
        )
        for part, value in zip(parts, single, strict=True):
            full = np.broadcast_to(part, (3, len(cases)))
            assert full[i, j] == pytest.approx(value[0, 0], rel=1e-13, abs=0)


def test_a_part_of_a_family_is_the_family_of_these_points() -> None:
    e = np.linspace(0.1, 1, 7)
    family = curves._family(e, 0.3, 0.1, 5, cases_of(1, mean=True, draws=True))
    part = curves._family_part(family, slice(2, 5))
    expected = curves._family(e[2:5], 0.3, 0.1, 5, cases_of(1, mean=True, draws=True))
    for name in curves._Family.__dataclass_fields__:
        assert np.array_equal(getattr(part, name), getattr(expected, name)), name


def test_no_points_have_no_values() -> None:
    for cases in (cases_of(2, mean=True, draws=False), (ALONG, FLAT)):
        values, slopes = hockey_sticks([], 0.3, 0.1, 0, cases)
        assert values.shape == slopes.shape == (0, len(cases))


@pytest.mark.parametrize("samples", [10**4, 10**9])
def test_small_and_large_points_of_one_array_keep_their_digits(samples: int) -> None:
    """log(1 - z) + z is multiplied by N."""
    z = np.array([[1e-4, 1e-5j, 3e4j, -0.01, 0.05 - 0.01j]])
    with mpmath.workdps(60):
        exact_values = [complex(mpmath.log(1 - mpmath.mpmathify(x)) + mpmath.mpmathify(x)) for x in z[0]]
    for found, expected in zip(curves._excess(z, np.array([[samples]]))[0], exact_values, strict=True):
        assert abs(found - expected) * samples <= 1e-14 * max(1, abs(expected) * samples)


def test_the_logarithm_keeps_its_digits_on_the_plane() -> None:
    """log(1 - z), whose real part may be tiny."""
    z = np.array([1e-12, -1e-12, 1e-20j, 1e-7j, 0.3 + 0.1j, -5 + 2j, 0.2 - 7j, 3 - 1j, 3 + 1j, 1e-9 + 1e-5j])
    found = curves._log_of_rest(z)
    real = curves._log_of_rest(z[:2].real)
    assert not np.iscomplexobj(real)
    with mpmath.workdps(60):
        expected = [mpmath.log(1 - mpmath.mpmathify(x)) for x in z]
        assert [float(v) for v in real] == pytest.approx([float(w.real) for w in expected[:2]], rel=1e-14, abs=0)
        for v, w in zip(found, expected, strict=True):
            assert v.real == pytest.approx(float(w.real), rel=1e-14, abs=0)
            assert v.imag == pytest.approx(float(w.imag), rel=1e-14, abs=0)


# Closed forms --------------------------------------------------------------------------------------------------------


def pieces_of(numbers: Numbers) -> tuple[Any, Any]:
    """The curve along the move, and its derivative by e: piece by piece between the points where both densities agree."""
    e, move, _, shift, r, *_ = exact_numbers(numbers)
    k, scale = e - move**2 / 2 - shift, mpmath.sqrt(1 - r)
    square = move**2 + 2 * r * k
    roots = [k / move] if r == 0 else [(-move + i * mpmath.sqrt(square)) / r for i in (-1, 1)] if square > 0 else []
    first, second = mpmath.mpf(0), mpmath.mpf(0)
    for start, end in pairwise([-mpmath.inf, *sorted(roots), mpmath.inf]):
        p = mpmath.exp(shift) / scale * (mpmath.ncdf(end * scale) - mpmath.ncdf(start * scale))
        q = mpmath.exp(e) * (mpmath.ncdf(end + move) - mpmath.ncdf(start + move))
        if p > q:
            first, second = first + p - q, second - q
    return first, second


STRAIGHT: list[Numbers] = [
    (e, move, change, 0, case)
    for case in (ALONG, RISING, FALLING, FLAT)
    for e, move, change in [
        (0.4, 0.5, 0.25),
        (1.0, 0.25, 0.05),
        (0.7, 1.5, 0.3),
        (0.0, 0.1, 0.3),
        (0.0, 3.0, 0.1),
        (2.0, 0.25, 0.01),
        (5.0, 0.3, 0.1),
        (0.2, 0.03, 1e-3),
        (0.3, 2.0, 0.6),
        (0.5, 59.5, 1e-4),
    ]
]


@pytest.mark.parametrize("numbers", STRAIGHT)
def test_closed_forms_in_floats_are_precise(numbers: Numbers) -> None:
    e, move, change, samples, case = numbers
    with mpmath.workdps(400 if move > 10 else 90):  # so many are lost in differences
        value, slope = (float(v) for v in pieces_of(numbers))
    values, slopes = hockey_sticks(e, move, change, samples, [case])
    assert values.shape == slopes.shape == (1, 1)
    assert values[0, 0] == pytest.approx(value, rel=1e-9, abs=1e-200)
    assert slopes[0, 0] == pytest.approx(slope, rel=1e-9, abs=1e-200)


def drawn(numbers: Numbers) -> tuple[Any, Any]:
    """One eigenvalue a of N draws: the loss -(N/2) log a + x (1 - 1/a)/2 is above e beyond one x; chi-squares of N degrees."""
    e, _, samples, *_, up, down = exact_numbers(numbers)
    a = 1 + up + down
    x = (e + samples * mpmath.log(a) / 2) * 2 / (1 - 1 / a)
    if x <= 0:
        return mpmath.mpf(0), mpmath.mpf(0)
    ends = (x, mpmath.inf) if a > 1 else (0, x)
    p, q = (mpmath.gammainc(mpmath.mpf(samples) / 2, *(v / c / 2 for v in ends), regularized=True) for c in (a, 1))
    return p - mpmath.exp(e) * q, -mpmath.exp(e) * q


DRAWN: list[Numbers] = [
    (e, 0.0, change, samples, case)
    for case in (Case(up=True), Case(down=True))
    for e, change, samples in [
        (0.5, 0.2, 2),
        (0.1, 0.5, 1),
        (0.7, 0.6, 3),
        (0.7, 0.2, 8),
        (2.0, 0.1, 50),
        (1.0, 0.01, 2000),
        (1.0, 1e-3, 10**6),
        (0.02, 1e-4, 10**6),
    ]
]


@pytest.mark.parametrize("numbers", DRAWN)
def test_draws_along_one_axis_are_those_of_chi_squares(numbers: Numbers) -> None:
    e, move, change, samples, case = numbers
    with mpmath.workdps(40):
        value, slope = drawn(numbers)
    values, slopes = hockey_sticks(e, move, change, samples, [case])
    assert values.shape == slopes.shape == (1, 1)
    assert values[0, 0] == pytest.approx(float(value), rel=1e-9, abs=0)
    assert slopes[0, 0] == pytest.approx(float(slope), rel=1e-9, abs=0)
    with ctx.workprec(PRECISION):
        (ball,) = certified_hockey_stick([arb(e)], [arb(move)], [arb(change)], samples, [case])
        expected = arb(mpmath.nstr(value, 38))
        assert ball.upper() >= expected * (1 - arb(2) ** -100)
        assert ball.upper() <= expected * (1 + arb(2) ** -36)


@pytest.mark.parametrize(("e", "change"), [(0.0, 0.5), (0.1, 0.2), (0.7, 0.2), (4.0, 0.2)])
def test_two_draws_along_two_axes_are_differences_of_exponentials(e: float, change: float) -> None:
    """The loss is (1 - 1/a) X - (1/b - 1) Y for eigenvalues a and b = 1/a, X and Y exponential with means a and b under P."""
    up, down = 1 / (1 - change), 1 - change
    values, slopes = hockey_sticks(e, 0.0, change, 2, [Case(up=True, down=True)])

    def beyond(a: float, b: float) -> float:
        """P(a X - b Y > e) for exponential X and Y."""
        return a / (a + b) * math.exp(-e / a)

    p = beyond(up - 1, 1 - down)
    q = beyond(1 - 1 / up, 1 / down - 1)
    assert values[0, 0] == pytest.approx(p - math.exp(e) * q, rel=1e-9, abs=0)
    assert slopes[0, 0] == pytest.approx(-math.exp(e) * q, rel=1e-9, abs=0)


def plane(numbers: Numbers) -> tuple[float, float]:
    """A turned case, by a fine sum over v = u.y of the inner integral over the other coordinate."""
    e, move, _, shift, r, sin_squared, cos_squared, *_ = (float(x) for x in exact_numbers(numbers))
    along, across = move * math.sqrt(cos_squared), move * math.sqrt(sin_squared)
    v, step = np.linspace(-14, 14, 14001, retstep=True)
    h = (along * v + r * v * v / 2 - (e - move * move / 2 - shift)) / across
    root = math.sqrt(2 * math.pi)
    p = np.exp(shift - v * v * (1 - r) / 2) * ndtr(h) / root
    q = np.exp(-((v + along) ** 2) / 2) * ndtr(h - across) / root
    return float(np.sum(p - math.exp(e) * q) * step), -math.exp(e) * float(np.sum(q) * step)


PLACES = [(1.0, 0.6, 0.1), (0.2, 0.6, 0.1), (0.01, 0.4, 0.05), (0.7, 1.0, 0.3), (0.5, 2.5, 0.02)]


@pytest.mark.parametrize(("e", "move", "change"), PLACES)
def test_every_angle_is_a_sum_over_the_plane(e: float, move: float, change: float) -> None:
    cases = [*cases_of(2, mean=True, draws=False)[1:], ACROSS]
    values, slopes = hockey_sticks(e, move, change, 0, cases)
    for j, case in enumerate(cases):
        value, slope = plane((e, move, change, 0, case))
        assert values[0, j] == pytest.approx(value, rel=1e-9, abs=0)
        assert slopes[0, j] == pytest.approx(slope, rel=1e-9, abs=0)


def on_a_line(numbers: Numbers) -> tuple[float, float]:
    """The integral of F and of -s F over Re s = sigma by a fine sum, with the docstring's formula."""
    e, move, samples, shift, r, sin_squared, cos_squared, *draws = (float(x) for x in exact_numbers(numbers))

    def log_of(s: Any) -> Any:
        v = 1 - (1 + s) * r
        value = (1 + s) * shift + s * move**2 / 2 + s * s * move**2 * (sin_squared + cos_squared / v) / 2
        value = value - np.log(v) / 2 - s * e - np.log(s * (s + 1))
        for b in draws:
            value = value - samples / 2 * (s * math.log1p(b) + np.log(1 - s * b))
        return value

    real = min(float(first_end(numbers)), 60.0) * np.linspace(0.01, 0.99, 99)
    sigma = real[log_of(real).argmin()]
    heights, step = np.linspace(0, 400, 16001, retstep=True)
    s = sigma + 1j * heights
    value = np.exp(log_of(s))
    value[0] /= 2
    assert abs(value[-1]) * 400 < 1e-11 * abs(value).max(), "what is beyond matters"
    return float(value.real.sum() * step / math.pi), -float((s * value).real.sum() * step / math.pi)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    ("e", "move", "change", "samples"),
    [(1.0, 0.5, 0.2, 14), (0.3, 0.5, 0.2, 12), (0.3, 1.0, 0.1, 40), (2.0, 0.6, 0.05, 200), (0.05, 0.3, 0.1, 60)],
)
def test_a_mean_with_draws_is_the_sum_along_a_line(d: int, e: float, move: float, change: float, samples: int) -> None:
    cases = cases_of(d, mean=True, draws=True)[:: 4 if d > 1 else 1]
    values, slopes = hockey_sticks(e, move, change, samples, cases)
    for j, case in enumerate(cases):
        value, slope = on_a_line((e, move, change, samples, case))
        assert values[0, j] == pytest.approx(value, rel=1e-9, abs=0)
        assert slopes[0, j] == pytest.approx(slope, rel=1e-9, abs=0)
    best = int(values[0].argmax())
    largest, derivative = curve(e, move, change, samples, cases)
    assert (largest[0], derivative[0]) == (values[0, best], slopes[0, best])


@pytest.mark.parametrize(("move", "change"), [(0.6, 0.1), (1.0, 0.3), (2.0, 0.3), (0.25, 0.01)])
def test_the_curve_of_the_mean_has_three_ranges(move: float, change: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Angle 0 from K = 3/2 q' on; a right angle or T_+ = 0 up to K = 0; between, the smaller of chord and grid."""
    spread = change / (1 - change)
    start = move**2 / 2 + (spread - change) / 2
    end = start + 1.5 * spread
    cases = cases_of(2, mean=True, draws=False)

    def straight(e: float, case: Case) -> tuple[float, float]:
        with mpmath.workdps(60):
            value, slope = pieces_of((e, move, change, 0, case))
            return float(value), float(slope)

    def across(e: float) -> tuple[float, float]:
        return max(plane((e, move, change, 0, ACROSS)), straight(e, FLAT))

    first, last = across(start)[0], straight(end, ALONG)[0]
    steepness = (last - first) / (math.exp(end) - math.exp(start))
    points = [start * x for x in (0.0, 0.5, 0.99)] + [
        start + (end - start) * x for x in (0.01, 0.4, 0.8, 0.99, 1.01, 2)
    ]
    expected = []
    for e in points:
        if e <= start:
            expected.append(across(e))
        elif e >= end:
            expected.append(straight(e, ALONG))
        else:
            chord = first + steepness * (math.exp(e) - math.exp(start)), steepness * math.exp(e)
            grid = max(plane((e, move, change, 0, case)) for case in cases[1:])
            expected.append(min(chord, max(grid, straight(e, FLAT))))
    values, slopes = curve(points, move, change, 0, cases)
    assert values.tolist() == pytest.approx([value for value, _ in expected], rel=1e-9, abs=0)
    assert slopes.tolist() == pytest.approx([slope for _, slope in expected], rel=1e-9, abs=0)
    assert [float(curve(e, move, change, 0, cases)[0][0]) for e in points] == pytest.approx(
        values.tolist(), rel=1e-13, abs=0
    )
    with monkeypatch.context() as patch:
        inner = curves._on_hyperbola

        def turned(family: curves._Family) -> Any:
            assert family.sin_squared.any(), "angle 0 is a closed form"
            return inner(family)

        patch.setattr(curves, "_on_hyperbola", turned)
        assert curve(points, move, change, 0, cases)[0].tolist() == values.tolist()
    both = curves.hockey_stick([-e for e in points[1:]], move, change, 0, cases)
    exchanged = [
        1 - math.exp(-e) + math.exp(-e) * value for e, (value, _) in zip(points[1:], expected[1:], strict=True)
    ]
    assert both.tolist() == pytest.approx(exchanged, rel=1e-9, abs=0)
    assert curves.hockey_stick(points, move, change, 0, cases).tolist() == values.tolist()


# In balls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", PAIRS)
def test_the_transform_in_balls_is_that_of_the_docstring(numbers: Numbers) -> None:
    line = line_of(numbers)
    with ctx.workprec(PRECISION), mpmath.workdps(45):
        for s in inside(numbers):
            at = complex(s)
            found, expected = line.log_moment(acb(at.real, at.imag)), log_moment(mpmath.mpmathify(at), numbers)
            assert max(found.real.rad(), found.imag.rad()) < 1e-25
            difference = mpmath.mpc(exact(found.real), exact(found.imag)) - expected
            assert abs(difference) < 1e-25
            size = mpmath.exp(expected.real)
            assert exact(line.modulus(acb(at.real, at.imag))) == pytest.approx(size, rel=1e-20, abs=0)
            tail = line.cut_off(acb(at.real, at.imag), arb(7))
            assert exact(tail) == pytest.approx(mpmath.exp(at.real) / (7 * mpmath.pi), rel=1e-20, abs=0)


@pytest.mark.parametrize("numbers", INTEGRATED)
def test_a_line_runs_where_its_sum_is_precise_with_few_nodes(numbers: Numbers) -> None:
    """The step's error is below 2^-40 of the value of F at the saddle, and no step half as large again keeps it there."""
    family, line = family_of(numbers), line_of(numbers)
    sigma, step, left, right = curves._places(family)
    assert [float(v) for v in (line.sigma, line.step, line.left, line.right)] == [
        v[0, 0] for v in (sigma, step, left, right)
    ]
    assert line.is_usable()
    with mpmath.workdps(40):
        s, h, a, b = (mpmath.mpf(v[0, 0]) for v in (sigma, step, left, right))

        def error(h: Any, s_left: Any, s_right: Any) -> Any:
            ends = ((s - s_left, s_left), (s + s_right, s_right))
            return sum(
                mpmath.exp(log_moment(x, numbers)) / (2 * x) / mpmath.expm1(2 * mpmath.pi * y / h) for x, y in ends
            )

        top = mpmath.exp(log_transform(s, numbers))
        goal = top * mpmath.mpf(curves.RELATIVE)
        assert error(h, a, b) < goal / 100
        with ctx.workprec(PRECISION):
            assert exact(line.aliasing()) == pytest.approx(error(h, a, b), rel=1e-20, abs=0)
        room = min(first_end(numbers) - s, 16 * s)
        best = min(error(h * 1.5, s * x, room * y) for x in (0.7, 0.8, 0.9) for y in np.linspace(0.05, 0.95, 13))
        assert best > goal / 1000


def test_a_spectrum_has_the_eigenvalues_that_there_are() -> None:
    with ctx.workprec(PRECISION):
        e, move, change = arb(1), arb(0.5), arb(0.25)

        def spectrum(samples: int, case: Case) -> list[Any]:
            return [exact(b) for b in curves._lines([e], [move], [change], samples, [case])[0][0].spectrum]

        both = Case(shrinks=True, up=True, down=True)
        assert spectrum(0, both) == []
        assert spectrum(1, both) == pytest.approx([1 / 3, -0.25])
        assert spectrum(1, Case(up=True)) == pytest.approx([1 / 3])
        assert spectrum(1, Case(down=True)) == pytest.approx([-0.25])


@pytest.mark.parametrize("numbers", [n for n in STRAIGHT if n[0] > 0 and n[1] < 10][::2])
def test_closed_forms_in_balls_hold_the_integral(numbers: Numbers) -> None:
    e, move, change, samples, case = numbers
    with ctx.workprec(PRECISION), mpmath.workdps(90):
        expected = pieces_of(numbers)[0]
        (ball,) = certified_hockey_stick([arb(e)], [arb(move)], [arb(change)], samples, [case])
        assert ball.rad() < 1e-30
        assert abs(exact(ball) - expected) < 1e-30


def test_a_discriminant_of_either_sign_has_the_larger_bound() -> None:
    """r > 0 and a negative one: the loss is above e everywhere; r < 0: nowhere; where the sign is open, the mass of p."""
    with ctx.workprec(PRECISION):

        def bound(e: arb, case: Case) -> arb:
            return curves._closed_form(curves._lines([e], [arb(0.1)], [arb(0.3)], 0, [case])[0][0])

        rising = exact_numbers((0.0, 0.1, 0.3, 0, RISING))
        falling = exact_numbers((0.0, 0.1, 0.3, 0, FALLING))
        mass = [float(mpmath.exp(shift) / mpmath.sqrt(1 - r)) for _, _, _, shift, r, *_ in (rising, falling)]
        low = float(0.005 + rising[3] - mpmath.mpf(0.01) / (2 * rising[4]))  # where D^2 + 2 r K = 0
        high = float(0.005 + falling[3] - mpmath.mpf(0.01) / (2 * falling[4]))
        assert float(bound(arb(low - 0.01), RISING)) == pytest.approx(mass[0] - math.exp(low - 0.01), rel=1e-12, abs=0)
        assert float(bound(arb(low, 1e-6), RISING)) == pytest.approx(mass[0], rel=1e-5, abs=0)
        assert bound(arb(high + 0.01), FALLING) == 0
        assert float(bound(arb(high, 1e-6), FALLING)) == pytest.approx(mass[1], rel=1e-5, abs=0)
        above = bound(arb(low + 0.01), RISING), bound(arb(high - 0.01), FALLING)
        for ball, e, case in zip(above, (low + 0.01, high - 0.01), (RISING, FALLING), strict=True):
            assert float(ball) == pytest.approx(float(pieces_of((e, 0.1, 0.3, 0, case))[0]), rel=1e-9, abs=0)


def test_a_loss_is_bounded_without_an_end_without_a_square_and_beyond_its_linear_part() -> None:
    def is_bounded(e: float, move: float, samples: int, case: Case) -> bool:
        return line_of((e, move, 0.2, samples, case)).is_bounded()

    falls = Case(shrinks=True, bends=True, down=True)
    # K = e - D^2/2 - q'/2 - D^2/(2 q') + (N/2) log(1-q), q' = 1/4
    edge = 0.25 / 2 + 0.125 + 0.25 * 2 - 1.5 * math.log(0.8)
    assert is_bounded(edge + 0.01, 0.5, 3, falls)
    assert not is_bounded(edge - 0.01, 0.5, 3, falls)
    assert is_bounded(1.0, 0.0, 3, Case(down=True))
    assert not is_bounded(0.1, 0.0, 3, Case(down=True))
    assert not is_bounded(9.0, 0.0, 3, Case(up=True))
    assert not is_bounded(9.0, 0.0, 3, Case(up=True, down=True))
    assert not is_bounded(9.0, 0.5, 3, Case(down=True))  # D^2 s^2/2
    assert not is_bounded(9.0, 0.5, 3, Case(grows=True, down=True))
    assert not is_bounded(9.0, 0.5, 3, Case(grows=True, turn=Fraction(1, 2), down=True))
    assert not is_bounded(9.0, 0.5, 3, Case(shrinks=True, bends=True, up=True))
    family = curves._family([edge - 0.01, edge + 0.01, 9.0, 9.0], 0.5, 0.2, 3, [falls])
    values, slopes = curves._on_hyperbola(family)
    assert (values[1:] == 0).all()
    assert (slopes[1:] == 0).all()
    assert values[0, 0] > 0 > slopes[0, 0]
    at = -1.5 * math.log1p(-0.2)  # K is 0: the loss reaches e and is not above it
    assert curves._family(at, 0.0, 0.2, 3, [Case(down=True)]).beyond() == 0
    for e in (at, math.nextafter(at, 1)):
        assert hockey_sticks(e, 0.0, 0.2, 3, [Case(down=True)])[0] == 0
    for case in (Case(down=True), Case(grows=True, down=True), Case(up=True, down=True)):
        value, slope = curves._on_hyperbola(curves._family(2.0, 0.5, 0.2, 30, [case]))
        assert (value[0, 0], slope[0, 0]) == pytest.approx(on_a_line((2.0, 0.5, 0.2, 30, case)), rel=1e-9, abs=0)


def test_strips_that_end_in_a_singularity_are_not_used() -> None:
    """With q = 1/4 along the move v = 0 at s = 3, and with q = 1/2 the draws have theirs at s = 1; all exactly."""
    for change, samples, case, sigma, right in ((0.25, 0, ALONG, 2.0, 1.0), (0.5, 1, Case(up=True), 0.5, 0.5)):
        for room, usable in ((right, False), (right * 0.999, True)):
            with ctx.workprec(PRECISION):
                places = [arb(v) for v in (sigma, 0.1, sigma / 2, room)]
                assert curves._line(arb(1), arb(0.5), arb(change), samples, case, places).is_usable() == usable
    with ctx.workprec(PRECISION):
        places = [arb(v) for v in (2.0, 0.1, -0.5, 0.5)]  # a shift in the wrong direction
        assert not curves._line(arb(1), arb(0.5), arb(0.25), 0, ALONG, places).is_usable()


def test_a_tail_has_a_bound_only_under_its_conditions() -> None:
    """alpha (r + alpha cosh x) <= beta^2 cosh x, and K alpha >= 0."""
    with ctx.workprec(PRECISION):
        places = [arb(v) for v in (2.0, 0.1, 1.0, 1.0)]
        line = curves._line(arb(0.1), arb(0), arb(0.2), 2, Case(down=True), places)

        def holds(k: float, alpha: float, beta: float) -> bool:
            return line.tail(arb(k), arb(alpha), arb(beta), 3) is not None

        assert holds(1, 0.25, 1)
        assert holds(-1, -0.25, 1)
        assert holds(1, 0, 1)
        assert holds(0, 0.25, 1)
        assert not holds(0.5, -0.25, 1)
        assert not holds(-0.5, 0.25, 1)
        assert not holds(1, 1.2, 1)
        assert not holds(1, 4, 1)
        assert not holds(-1, -4, 1)
        assert not holds(-1, -1.2, 0.1)


class Asked(acb):
    """In the place of ``acb``: keeps how an integral is asked for."""

    asked: ClassVar[list[tuple[Any, int, dict[str, Any]]]] = []
    found = 3

    @staticmethod
    def integral(*arguments: Any, **options: Any) -> acb:
        integrand, _, end = arguments
        Asked.asked.append((integrand, end, options))
        return acb(0, Asked.found)


@pytest.mark.parametrize("numbers", [n for n in INTEGRATED if n[3] < 10])
def test_an_integral_is_asked_for_as_precisely_as_a_sum(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """2^-40 of F at the saddle times beta; the path ends at the first integer from 2 on whose tail is below that."""
    line = line_of(numbers)
    with ctx.workprec(PRECISION), mpmath.workdps(40):
        beta = min(line.left, line.right, key=float)
        k = line.beyond()
        alpha = beta / 4 if k > 0 else -beta / 4
        goal = mpmath.exp(log_transform(exact(line.sigma), numbers)) * exact(beta) * mpmath.mpf(2) ** -40
        monkeypatch.setattr(curves, "acb", Asked)
        found = line.integral()
        _, end, options = Asked.asked.pop()
        assert exact(options["abs_tol"]) == pytest.approx(goal, rel=1e-20, abs=0)
        assert options["rel_tol"] == 2.0**-40
        assert options["eval_limit"] == 2**16
        tails = [line.tail(k, alpha, beta, x) for x in range(2, end + 1)]
        assert tails[-1] is not None
        assert [tail is not None and exact(tail) < goal for tail in tails] == [False] * (end - 2) + [True]
        assert exact(found) == pytest.approx(3 / mpmath.pi + exact(tails[-1]), rel=1e-20, abs=0)
        monkeypatch.setattr(Asked, "found", 0)
        assert exact(line.integral()) == pytest.approx(exact(tails[-1]), rel=1e-20, abs=0)
        monkeypatch.setattr(curves, "MOST_NODES", end)
        assert line.integral().is_finite()
        if end > 2:
            monkeypatch.setattr(curves, "MOST_NODES", end - 1)
            assert not line.integral().is_finite()


@pytest.mark.parametrize(
    ("samples", "case", "end"),
    [
        (0, ACROSS, 3.0),  # v = 1 - (1 + s)/4
        (3, Case(grows=True, up=True), 3.0),  # and 1 - s/3
        (3, Case(up=True), 3.0),
    ],
)
def test_an_integrand_is_not_a_number_beyond_an_end(
    samples: int, case: Case, end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the path, at complex x, comes back to the real line beyond the first singularity: M has a cut there."""
    monkeypatch.setattr(curves, "acb", Asked)
    with ctx.workprec(PRECISION):
        line = curves._line(arb(4), arb(0.5), arb(0.25), samples, case, [arb(v) for v in (1.0, 0.1, 0.5, 0.5)])
        assert line.beyond() > 0
        line.integral()
        integrand = Asked.asked.pop()[0]
        turn = math.atan(4)  # alpha = beta/4: Im s = 0 at x = w - i turn
        for s, finite in ((end - 0.25, True), (end + 0.25, False), (end + 0.75, False)):
            w = math.acosh((s - 0.875) / (math.cos(turn) / 8 + math.sin(turn) / 2))
            assert integrand(acb(w, arb(-turn, 1e-3)), True).is_finite() == finite
        for s in (end + 0.25, end + 0.75):  # off the real line on either side
            w = math.acosh((s - 0.875) / (math.cos(turn) / 8 + math.sin(turn) / 2))
            assert integrand(acb(w, arb(0.1 - turn, 1e-3)), True).is_finite()
            assert integrand(acb(w, arb(-0.1 - turn, 1e-3)), True).is_finite()


@pytest.mark.parametrize("numbers", [PAIRS[0], PAIRS[6], DRAWN[4], DRAWN[12]])
def test_a_sum_ends_where_what_is_cut_off_is_small(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first node out of four whose tail is below 2^-40 of the sum: it has so many nodes, and with fewer no value."""
    line = line_of(numbers)
    with mpmath.workdps(40):
        sigma, step = exact(line.sigma), exact(line.step)
        total, relative = mpmath.exp(log_transform(sigma, numbers)) / 2, mpmath.mpf(2) ** -40
        for j in range(1, 2000):
            s = mpmath.mpc(sigma, step * j)
            value = log_moment(s, numbers)
            total += (mpmath.exp(value) / (s * (s + 1))).real
            tail = mpmath.exp(value.real) / (mpmath.pi * step * j)
            if j % 4 == 0 and tail < abs(total) * step * relative:
                break
        else:
            pytest.fail("a slow sum")
        with ctx.workprec(PRECISION):
            expected = total * step / mpmath.pi + tail + exact(line.aliasing())
            monkeypatch.setattr(curves, "MOST_NODES", j)
            found = line.sum()
            assert found is not None
            assert exact(found) == pytest.approx(expected, rel=1e-25, abs=0)
            monkeypatch.setattr(curves, "MOST_NODES", j - 1)
            assert line.sum() is None


def test_a_sum_that_would_be_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known from the bound on what the last node leaves."""
    slow, quick = line_of(PAIRS[10]), line_of(PAIRS[6])
    asked: list[acb] = []
    inner = curves._Line.log_moment

    def counted(line: curves._Line, s: acb) -> acb:
        asked.append(s)
        return inner(line, s)

    monkeypatch.setattr(curves._Line, "log_moment", counted)
    with ctx.workprec(PRECISION):
        assert slow.sum() is None
        assert len(asked) == 2
        assert quick.sum() is not None
        assert len(asked) < 200


@pytest.mark.parametrize("numbers", [PAIRS[0], PAIRS[4], PAIRS[6], PAIRS[10], PAIRS[12], PAIRS[13]])
def test_a_path_ends_in_the_first_block_whose_last_node_is_nothing(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 nodes a block; less than 1e-16 of the sum is nothing."""
    family = family_of(numbers)
    inner = curves._Family.log_moment
    nodes: list[complex] = []
    integrand: list[complex] = []

    def kept(family: curves._Family, s: Any) -> Any:
        values = inner(family, s)
        nodes.extend(s[:, 0, 0])
        beta = nodes[1].imag / math.sinh(curves.STEP)
        sinh = s.imag / beta
        slope = beta * (0.4 * np.sign(family.beyond()) * sinh + 1j * np.sqrt(1 + sinh**2))
        integrand.extend((np.exp(values) / (s * (s + 1)) * slope)[:, 0, 0])
        return values

    monkeypatch.setattr(curves._Family, "log_moment", kept)
    found = curves._on_hyperbola(family)[0][0, 0]
    total = math.pi * found / curves.STEP
    assert integrand
    assert abs(integrand[-1]) <= 1.01e-16 * total
    assert all(abs(value) > 0.99e-16 * total for value in integrand[15:-1:16])


def test_what_is_bounded_is_0_what_has_no_line_has_no_bound_and_a_slow_sum_is_an_integral() -> None:
    with ctx.workprec(PRECISION):
        line = line_of((1.0, 0.0, 0.2, 3, Case(down=True)))
        assert curves._bound(line, Case(down=True)) == 0
        places = [arb(v) for v in (2.0, 0.1, 2.5, 0.5)]
        across = curves._line(arb(1), arb(0.5), arb(0.25), 0, ACROSS, places)
        assert not curves._bound(across, ACROSS).is_finite()


@pytest.mark.parametrize("share", [-0.5, -1e-6, 1e-6, 0.5, 1 - 1e-6, 1 + 1e-6, 1.5])
def test_which_cases_bound_the_mean(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By K/(3/2 q'); with bounds by name in place of true ones."""
    move, change = 0.5, 0.25
    spread = change / (1 - change)
    start = move**2 / 2 + (spread - change) / 2
    e = start + share * 1.5 * spread
    cases = cases_of(2, mean=True, draws=False)
    values = {cases: arb(0.75), (FLAT, ACROSS): arb(0.5), (ALONG,): arb(0.25)}
    asked: list[tuple[Any, ...]] = []

    def named(e: list[arb], _move: Any, _change: Any, _samples: int, some: Sequence[Case]) -> list[arb]:
        asked.append((tuple(some), float(e[0])))
        return [values[tuple(some)]]

    monkeypatch.setattr(curves, "_maxima", named)
    with ctx.workprec(PRECISION):
        found = float(curves._of_the_mean(arb(e), arb(move), arb(change), cases))
    if share >= 1:
        assert (found, asked) == (0.25, [((ALONG,), e)])
    elif share < 0:
        assert (found, asked) == (0.5, [((FLAT, ACROSS), e)])
    else:
        at = math.expm1(e - start) / math.expm1(1.5 * spread)
        assert found == pytest.approx(0.5 - 0.25 * at, rel=1e-9, abs=0)
        ends = {(FLAT, ACROSS): start, (ALONG,): start + 1.5 * spread, cases: e}
        assert dict(asked) == pytest.approx(ends, rel=1e-11, abs=0)
        assert dict(asked)[FLAT, ACROSS] < start, "K is negative there for certain"
        with ctx.workprec(PRECISION):
            values[cases] = arb(0.125)
            assert float(curves._of_the_mean(arb(e), arb(move), arb(change), cases)) == 0.125
            values[cases] = arb("inf")
            assert float(curves._of_the_mean(arb(e), arb(move), arb(change), cases)) == pytest.approx(found)
            values[ALONG,] = arb("inf")
            assert not curves._of_the_mean(arb(e), arb(move), arb(change), cases).is_finite()
            values[cases] = arb(0.125)
            assert float(curves._of_the_mean(arb(e), arb(move), arb(change), cases)) == 0.125
            assert float(curves._of_the_mean(arb(e, 1), arb(move), arb(change), cases)) == 0.125


@pytest.mark.parametrize("change", [arb(1), arb(1.5), arb(1, 0.1), arb(-1, 3)])
def test_a_change_that_may_be_the_whole_has_no_bound_at_any_e(change: arb) -> None:
    cases = cases_of(2, mean=True, draws=False)
    with ctx.workprec(PRECISION):
        for e in (1, -1):
            (ball,) = certified_hockey_stick([arb(e)], [arb(0.5)], [change], 0, cases)
            assert ball > 10


@pytest.mark.parametrize("e", [-1.0, -0.25, 0.25, 2.0])
def test_a_negative_e_is_that_of_the_exchanged_pair(e: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(e: list[arb], *_: Any) -> list[arb]:
        assert all(v > 0 for v in e)
        return [v / 8 for v in e]

    monkeypatch.setattr(curves, "_maxima", named)
    with ctx.workprec(PRECISION):
        one, two = certified_hockey_stick(
            [arb(e), arb(-e)], [arb(0.5)] * 2, [arb(0.25)] * 2, 3, cases_of(2, mean=False, draws=True)
        )
        for ball, at in ((one, e), (two, -e)):
            value = abs(at) / 8
            assert float(ball) == pytest.approx(
                value if at > 0 else 1 - math.exp(at) + math.exp(at) * value, rel=1e-14, abs=0
            )
        lengths = ([arb(1)], [arb(0.5)] * 2, [arb(0.25)]), ([arb(1)], [arb(0.5)], [arb(0.25)] * 2)
        for points in lengths:
            with pytest.raises(ValueError, match="zip"):
                certified_hockey_stick(*points, 0, cases_of(2, mean=True, draws=False))


def test_the_largest_case_is_taken() -> None:
    for values in ([1, 2, 3], [3, 2, 1], [1, 3, 2], [2]):
        assert curves._maximum([arb(v) for v in values]) == max(values)


def test_the_cases_by_dimension_and_release() -> None:
    zero = Fraction(0)
    assert Case() == Case(False, False, False, zero, zero, False, False)
    assert Case(False, True, False, zero, zero, False, False) == FLAT
    assert Case(True, True, False, zero, zero, False, False) == ALONG
    assert Case(True, True, False, Fraction(1, 2), zero, False, False) == ACROSS
    assert cases_of(1, mean=True, draws=False) == (Case(grows=True), Case(shrinks=True, bends=True))
    assert cases_of(1, mean=False, draws=True) == (Case(up=True), Case(down=True))
    assert cases_of(1, mean=True, draws=True) == (
        Case(grows=True, up=True),
        Case(shrinks=True, bends=True, down=True),
        Case(up=True),
        Case(down=True),
    )
    for d in (2, 3):
        assert cases_of(d, mean=False, draws=True) == (Case(up=True, down=True),)
        for draws in (False, True):
            flat, *turned = cases_of(d, mean=True, draws=draws, angles=3)
            assert flat == Case(shrinks=True, up=draws, down=draws)
            eta = Fraction(1, 12)
            assert turned == [
                Case(grows=True, shrinks=True, turn=i * eta, eta=eta, up=draws, down=draws) for i in (1, 3, 5)
            ]
    assert len(cases_of(2, mean=True, draws=False)) == 9
