"""Enclosures hold what they say they hold, and the exact field is a field. Judge: python-flint's ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import pytest
from flint import arb, ctx, fmpq
from hypothesis import assume, given
from hypothesis import strategies as st

from refimpl import reals
from refimpl.parameters import first_sure_fail
from refimpl.reals import Enclosure, ExpFraction, UndecidedError

rationals = st.fractions(min_value=-50, max_value=50, max_denominator=10**6)
positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**9, max_denominator=10**9)
precisions = st.sampled_from([24, 53, 64, 113, 128, 500])


def ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def overlap(enclosure: Enclosure, function: Callable[[arb], arb], value: Fraction, precision: int) -> bool:
    """Whether an enclosure meets a far narrower ball around the true value, which a right enclosure holds."""
    with ctx.workprec(4 * precision + 200):
        true = function(ball(value))
        return bool(ball(enclosure.lower) <= true.upper()) and bool(ball(enclosure.upper) >= true.lower())


@given(rationals, precisions)
def test_exp_holds_the_true_value(value: Fraction, precision: int) -> None:
    found = reals.exp(value, precision)
    assert overlap(found, arb.exp, value, precision)
    assert found.upper - found.lower <= found.upper * Fraction(1, 1 << (precision - 10))


@given(positive, precisions)
def test_log_holds_the_true_value(value: Fraction, precision: int) -> None:
    found = reals.log(value, precision)
    assert overlap(found, arb.log, value, precision)
    assert found.upper - found.lower <= (abs(found.upper) + 1) * Fraction(1, 1 << (precision - 10))


@given(st.fractions(min_value=0, max_value=10**12, max_denominator=10**12), precisions)
def test_sqrt_holds_the_true_value(value: Fraction, precision: int) -> None:
    found = reals.sqrt(value, precision)
    assert found.lower**2 <= value <= found.upper**2
    assert found.upper - found.lower <= found.upper * Fraction(1, 1 << (precision - 2))


@given(st.integers(0, 1 << 23), st.integers(-20, 20), precisions)
def test_sqrt_of_a_dyadic_square_is_a_point(root: int, exponent: int, precision: int) -> None:
    value = root * Fraction(2) ** exponent
    assert reals.sqrt(value * value, precision) == Enclosure.point(value)


@pytest.mark.parametrize("value", [Fraction(10**400 + 1, 3), Fraction(3, 10**400 + 1), Fraction(2**2000 + 1)])
@pytest.mark.parametrize("precision", [24, 64])
def test_numbers_wider_than_the_precision_are_rounded_outward(value: Fraction, precision: int) -> None:
    assert overlap(reals.log(value, precision), arb.log, value, 2000)
    assert reals.sqrt(value, precision).lower ** 2 <= value <= reals.sqrt(value, precision).upper ** 2
    near_one = 1 + 1 / Fraction(10**30 + 7)
    assert overlap(reals.exp(near_one, precision), arb.exp, near_one, 200)


def test_exact_values_are_points() -> None:
    assert reals.exp(Fraction(0), 64) == Enclosure.point(1)
    assert reals.log(Fraction(1), 64) == Enclosure.point(0)
    assert reals.sqrt(Fraction(9, 16), 64) == Enclosure.point(Fraction(3, 4))
    assert reals.sqrt(Fraction(0), 64) == Enclosure.point(0)


def test_values_outside_the_domain_are_refused() -> None:
    for function in (reals.log, reals.sqrt):
        with pytest.raises(ValueError, match=function.__name__):
            function(Fraction(-1), 64)
    with pytest.raises(ValueError, match="log"):
        reals.log(Fraction(0), 64)
    with pytest.raises(ValueError, match="lower <= upper"):
        Enclosure(Fraction(1), Fraction(0))


ends = st.tuples(rationals, rationals).map(lambda pair: Enclosure(min(pair), max(pair)))


@given(ends, ends, st.fractions(0, 1), st.fractions(0, 1))
def test_operations_hold_all_results(a: Enclosure, b: Enclosure, s: Fraction, t: Fraction) -> None:
    u, v = a.lower + s * (a.upper - a.lower), b.lower + t * (b.upper - b.lower)
    results = [(a + b, u + v), (a - b, u - v), (a * b, u * v), (-a, -u), (a + 3, u + 3), (3 - a, 3 - u), (2 * a, 2 * u)]
    if not b.lower <= 0 <= b.upper:
        results += [(a / b, u / v), (1 / b, 1 / v)]
    assert all(enclosure.lower <= number <= enclosure.upper for enclosure, number in results)


def test_a_divisor_that_may_be_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        Enclosure.point(1) / Enclosure(Fraction(-1), Fraction(1))


# Decisions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [1, 7, 1000, 10**12])
@pytest.mark.parametrize("power", [0, 20, 70, 500, 3000])
@pytest.mark.parametrize("side", [-1, 1])
def test_ceil_and_floor_next_to_an_integer(whole: int, power: int, side: int) -> None:
    # log(e^whole (1 + side 2^-power)), known to be within 2^-power of the integer, on the side that is asked for.
    def number(precision: int) -> Enclosure:
        return Enclosure.point(whole) + reals.log(1 + Fraction(side, 2 ** (power + 2)), precision)

    assert reals.certified_ceil(number) == (whole if side < 0 else whole + 1)
    assert reals.certified_floor(number) == (whole - 1 if side < 0 else whole)


def test_ceil_of_an_exact_integer() -> None:
    assert reals.certified_ceil(lambda p: reals.sqrt(Fraction(9), p)) == 3
    assert reals.certified_floor(lambda p: reals.sqrt(Fraction(9), p)) == 3


def test_an_integer_that_enclosures_do_not_show_is_undecided() -> None:
    with pytest.raises(UndecidedError):
        reals.certified_ceil(lambda p: reals.sqrt(Fraction(2), p) * reals.sqrt(Fraction(2), p))


def test_decide() -> None:
    e = Fraction(271828182845904523536, 10**20)
    assert reals.decide(lambda _: Enclosure.point(e), lambda p: reals.exp(Fraction(1), p))
    assert not reals.decide(lambda p: reals.exp(Fraction(1), p), lambda _: Enclosure.point(e))
    assert reals.decide(lambda _: Enclosure.point(1), lambda _: Enclosure.point(1))
    with pytest.raises(UndecidedError):
        reals.decide(lambda p: reals.exp(Fraction(1), p), lambda p: reals.exp(Fraction(1), p))


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30, max_denominator=10**30))
def test_round_up_is_the_next_float(value: Fraction) -> None:
    found = reals.round_up(lambda _: Enclosure.point(value))
    assert float(found) == found  # a float64, exactly
    assert value <= found
    assert math.nextafter(float(found), 0) < value  # and the least that is not below


@given(positive)
def test_round_up_of_a_root_is_not_below(value: Fraction) -> None:
    found = reals.round_up(lambda p: reals.sqrt(value, p))
    assert found**2 >= value
    assert float(found) == found
    assert Fraction(math.nextafter(float(found), 0)) ** 2 < value


def test_round_up_leaves_floats_alone() -> None:
    for value in (1.0, 0.1, 2.0**60, 2.0**-60, 1 - 2.0**-53, 1 + 2.0**-52):
        assert reals.round_up(lambda _, v=value: Enclosure.point(Fraction(v))) == Fraction(value)


# The exact field ------------------------------------------------------------------------------------------------------

exponents = st.fractions(min_value=-3, max_value=3, max_denominator=6)
coefficients = st.fractions(min_value=-4, max_value=4, max_denominator=8)


@st.composite
def elements(draw: st.DrawFn) -> ExpFraction:
    total = ExpFraction.rational(draw(coefficients))
    for _ in range(draw(st.integers(0, 2))):
        total = total + draw(coefficients) * ExpFraction(draw(exponents))
    divisor = 1 + draw(st.fractions(0, 2, max_denominator=4)) * ExpFraction(draw(exponents))
    return total / divisor


@given(elements(), elements(), elements())
def test_field_laws(a: ExpFraction, b: ExpFraction, c: ExpFraction) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    assert a + 0 == a == 1 * a
    assert a - (-a) == 2 * a
    assert 2 - a == -(a - 2)
    if b != 0:
        assert a / b * b == a
        assert b**-2 * b**3 == b
        assert 1 / b == b**-1


@given(elements(), elements(), elements())
def test_order_laws(a: ExpFraction, b: ExpFraction, c: ExpFraction) -> None:
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a <= b) == (not a > b)
    assert (a < b) == (a + c < b + c)
    assert (a - b).sign() == -(b - a).sign()
    if a.sign() > 0 and b.sign() > 0:
        assert (a * b).sign() > 0


@given(elements(), precisions)
def test_elements_are_enclosed(a: ExpFraction, precision: int) -> None:
    def value(terms: object) -> arb:
        assert isinstance(terms, dict)
        return sum((ball(q) * ball(r).exp() for r, q in terms.items()), arb(0))

    found = a.enclosure(precision)
    with ctx.workprec(4 * precision + 400):
        true = value(a._numerator) / value(a._denominator)
        assert ball(found.lower) <= true.upper()
        assert ball(found.upper) >= true.lower()
    assert float(a) == pytest.approx(float(true), rel=1e-12, abs=1e-12)


@given(exponents, coefficients)
def test_comparison_with_rationals(exponent: Fraction, value: Fraction) -> None:
    element = ExpFraction(exponent)
    assume(exponent != 0)
    assert element != value  # e^r is irrational
    assert (element > value) == (value < element) == (value <= element)
    assert ExpFraction(0) == 1 == ExpFraction.rational(1)
    assert ExpFraction.rational(value) == value
    assert element != "text"


def test_near_ties_are_told_apart() -> None:
    e = ExpFraction(1)
    for digits in (10, 100, 1000):
        below = e.enclosure(4 * digits + 64).lower
        assert below < e < below + Fraction(1, 10**digits)
        assert (e * e - 2 * below * e + below**2).sign() == 1  # a square


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        ExpFraction(1) / (ExpFraction(1) - ExpFraction(1))


@pytest.mark.parametrize("epsilon", ["1", "1/3", "1/2", "1/10", "7/9"])
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_a_tie_in_z_star_is_exact(epsilon: str, sensitivity: int) -> None:
    # delta = 1/2 makes 1 + (e^epsilon - 1)/(2 delta) = e^epsilon, so that Z* = 2s: no enclosure can decide the ceiling.
    assert first_sure_fail(Fraction(epsilon), Fraction(1, 2), sensitivity=sensitivity) == 2 * sensitivity


@given(
    st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(999, 1000), max_denominator=10**12),
    st.integers(1, 3),
)
def test_first_sure_fail_is_the_ceiling_of_z_star(epsilon: Fraction, delta: Fraction, sensitivity: int) -> None:
    found = first_sure_fail(epsilon, delta, sensitivity=sensitivity)
    with ctx.workprec(300):
        z_star = 2 * sensitivity / ball(epsilon) * (1 + (ball(epsilon).exp() - 1) / (2 * ball(delta))).log()
        assert z_star > found - 1
        assert not z_star > found


# mpmath is nobody else's business -------------------------------------------------------------------------------------


def test_the_global_precision_of_mpmath_is_not_touched() -> None:
    before = (mpmath.mp.prec, mpmath.iv.prec)
    for precision in (31, 333, 1001):
        reals.exp(Fraction(22, 7) + precision, precision)
        reals.log(Fraction(22, 7) + precision, precision)
    assert (mpmath.mp.prec, mpmath.iv.prec) == before


def test_the_global_precision_of_mpmath_does_no_harm() -> None:
    with mpmath.workprec(10):
        before, mpmath.iv.prec = mpmath.iv.prec, 10
        try:
            found = reals.exp(Fraction(355, 113), 200)
        finally:
            mpmath.iv.prec = before
    assert found.upper - found.lower < Fraction(1, 1 << 180)


def test_threads_do_not_disturb_each_other() -> None:
    jobs = [(Fraction(i, 17), 40 + 37 * (i % 9)) for i in range(1, 400)]
    alone = [(reals.exp.__wrapped__(v, p), reals.log.__wrapped__(v, p)) for v, p in jobs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda job: (reals.exp.__wrapped__(*job), reals.log.__wrapped__(*job)), jobs))
    assert together == alone
