"""The law of the propose-test-release test: its shape, its privacy, its optimality, and what is wrong with Eq. (135)."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from fractions import Fraction
from typing import Any

import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

import refimpl
from refimpl import reals
from refimpl.parameters import PRINTED, REPAIRED, first_sure_fail
from refimpl.ptr import coin_passes, printed_formula_at_growth
from refimpl.reals import ExpFraction
from refimpl.results import TestCoin

growths = st.fractions(min_value=Fraction(101, 100), max_value=3, max_denominator=200)
deltas = st.one_of(
    st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(99, 100), max_denominator=10**9).filter(bool),
    st.sampled_from([Fraction(1, 2), Fraction(1, 16), Fraction(1, 10**6)]),
)


def law(z: int, growth: Any, delta: Any, edition: Any = REPAIRED) -> Any:
    return refimpl.ptr_pass_probability_at_growth(z, growth, delta, edition=edition)


@given(growths, deltas, st.integers(0, 300))
def test_the_closed_form(growth: Fraction, delta: Fraction, z: int) -> None:
    a = delta / (growth**2 - 1)
    turning = 1 + 1 / (2 * a)  # growth^(Z*/2)
    left, right = 1 - a * (growth**z - 1), a * (turning**2 / growth**z - 1)
    wanted = left if growth**z <= turning else max(Fraction(0), right)
    assert law(z, growth, delta) == wanted
    assert 0 <= law(z + 1, growth, delta) <= wanted <= 1  # decreasing
    assert law(0, growth, delta) == 1


@given(growths, st.integers(1, 12))
def test_both_branches_meet_at_half_of_z_star(growth: Fraction, half: int) -> None:
    # The delta for which Z*/2 is this integer: growth^half = 1 + 1/(2a).
    delta = (growth**2 - 1) / (2 * (growth**half - 1))
    if not 0 < delta < 1:
        return
    assert law(half, growth, delta) == Fraction(1, 2)
    assert law(2 * half, growth, delta) == 0
    assert law(2 * half - 1, growth, delta) > 0


@given(growths, deltas, st.integers(0, 200), st.integers(0, 2))
def test_the_law_is_private_and_nothing_is_given_away(growth: Fraction, delta: Fraction, z: int, step: int) -> None:
    p, q, factor = law(z, growth, delta), law(z + step, growth, delta), growth**2
    for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
        assert a <= factor * b + delta
    if step == 2 and q > 0:
        left_tight = 1 - q == factor * (1 - p) + delta
        right_tight = p == factor * q + delta
        both_sides = growth**z <= 1 + (growth**2 - 1) / (2 * delta) <= growth ** (z + 2)
        assert left_tight or right_tight or both_sides


def least_curve(factor: Fraction, delta: Fraction) -> list[Fraction]:
    """The least p_t that any (epsilon, delta)-DP test with p_0 = 1 can have at z = 2t, down to 0."""
    curve = [Fraction(1)]
    while curve[-1] > 0:
        p = curve[-1]
        curve.append(max(Fraction(0), (p - delta) / factor, 1 - delta - factor * (1 - p)))
    return curve


def test_claim_10_part_3_is_impossible() -> None:
    # epsilon = log 2, delta = 1/16: the claim wants FAIL for certain from z = 2 log(16)/log(2) + 4 = 12 on.
    curve = least_curve(Fraction(2), Fraction(1, 16))
    assert curve[6] == Fraction(1, 64)
    assert len(curve) - 1 == 7


@pytest.mark.parametrize("growth", [Fraction(2), Fraction(3, 2), Fraction(5, 4), Fraction(9, 8)])
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 16), Fraction(1, 10**4)])
def test_no_test_can_do_better_by_more_than_one_step(growth: Fraction, delta: Fraction) -> None:
    curve = least_curve(growth**2, delta)
    ours = [law(2 * t, growth, delta) for t in range(len(curve) + 1)]
    assert all(a <= b for a, b in zip(curve, ours, strict=False))
    assert ours[-1] == 0  # Z* <= 2T, so one step later at most


def test_the_share_of_algorithm_1_needs_167_levels_and_not_98() -> None:
    # FAIL for certain is possible for z > 2(T - 1) only. T does not grow with e^epsilon, and is the same at both ends.
    ends = reals.exp(Fraction(1, 3), 64)
    lengths = {len(least_curve(factor, Fraction(1, 6 * 10**6))) - 1 for factor in (ends.lower, ends.upper)}
    assert {2 * (length - 1) + 1 for length in lengths} == {167}
    assert math.ceil(2 * math.log(6e6) / (1 / 3)) + 4 == 98


budgets = st.tuples(
    st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=60),
    st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(9, 10), max_denominator=10**9).filter(bool),
)


@settings(max_examples=25)
@given(budgets)
def test_the_law_at_epsilon(budget: tuple[Fraction, Fraction]) -> None:
    epsilon, delta = budget
    k = first_sure_fail(epsilon, delta, sensitivity=2)
    assert refimpl.ptr_pass_probability(0, epsilon, delta) == 1
    assert refimpl.ptr_pass_probability(k, epsilon, delta) == 0
    assert refimpl.ptr_pass_probability(k - 1, epsilon, delta) > 0
    growth = ExpFraction(epsilon / 2)
    for z in (0, 1, k // 2, k - 1, k):
        assert refimpl.ptr_pass_probability(z, epsilon, delta) == law(z, growth, delta)
    with ctx.workprec(400):
        e, d = (arb(fmpq(v.numerator, v.denominator)) for v in budget)
        a = d / (e.exp() - 1)
        z_star = 4 / e * (1 + 1 / (2 * a)).log()
        for z in (1, k // 2 - 1, k // 2 + 1, k - 1):
            value = float(
                1 - a * ((e * z / 2).exp() - 1) if z <= z_star / 2 else a * ((e * (z_star - z) / 2).exp() - 1)
            )
            assert float(refimpl.ptr_pass_probability(max(z, 0), epsilon, delta)) == pytest.approx(
                min(value, 1), abs=1e-12
            )


@settings(max_examples=15)
@given(budgets, st.integers(0, 400), st.integers(0, 2))
def test_the_law_at_epsilon_is_private(budget: tuple[Fraction, Fraction], z: int, step: int) -> None:
    epsilon, delta = budget
    factor = ExpFraction(epsilon)
    p, q = (refimpl.ptr_pass_probability(score, epsilon, delta) for score in (z, z + step))
    for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
        assert a <= factor * b + delta


def test_equality_at_full_steps_is_exact() -> None:
    epsilon, delta = Fraction(1, 3), Fraction(1, 6 * 10**6)
    factor, k = ExpFraction(epsilon), first_sure_fail(epsilon, delta, sensitivity=2)
    assert k == 168
    p = [refimpl.ptr_pass_probability(z, epsilon, delta) for z in (10, 12, k - 5, k - 3)]
    assert 1 - p[1] == factor * (1 - p[0]) + delta
    assert p[2] == factor * p[3] + delta


def test_delta_one_half_is_a_tie_everywhere() -> None:
    assert [refimpl.ptr_pass_probability(z, "1/3", "1/2") == 0 for z in (3, 4)] == [False, True]
    assert refimpl.ptr_pass_probability(2, "1/3", "1/2") == Fraction(1, 2)


def test_another_sensitivity() -> None:
    for s in (1, 3):
        edition = dataclasses.replace(REPAIRED, sensitivity=s)
        k = first_sure_fail(Fraction(1, 2), Fraction(1, 100), sensitivity=s)
        values = [refimpl.ptr_pass_probability(z, "1/2", "1/100", edition=edition) for z in range(k + 1)]
        assert (values[k - 1] > 0, values[k] == 0) == (True, True)
        factor, delta = ExpFraction(Fraction(1, 2)), Fraction(1, 100)
        assert 1 - values[s] == factor * (1 - values[0]) + delta


# E1: Eq. (135) as printed ---------------------------------------------------------------------------------------------


def printed(z: int, epsilon: str, delta: Fraction) -> float:
    return float(refimpl.ptr_pass_probability(z, epsilon, delta, edition=PRINTED))


def test_eq_135_is_not_a_probability() -> None:
    # epsilon = log 2: growth is sqrt 2, so even exponents z - 2 are rational, and odd ones are compared by their squares.
    delta = Fraction(1, 16)
    growth_squared = 2
    assert 1 - growth_squared**3 * delta == Fraction(1, 2)  # p(8)
    assert growth_squared**4 * delta == 1  # p(10) = 0
    assert growth_squared**9 * delta**2 == 2  # p(11) = 1 - sqrt 2
    assert printed_formula_at_growth(11, Fraction(3, 2), delta) == 0  # past its tau
    assert printed_formula_at_growth(10, Fraction(3, 2), delta) == 1 - Fraction(3, 2) ** 8 / 16 < 0


def test_eq_135_at_rational_growth_breaks_the_pass_inequality() -> None:
    growth, delta = Fraction(3, 2), Fraction(1, 16)
    values = [law(z, growth, delta, PRINTED) for z in range(14)]
    assert values[7] > growth**2 * values[9] + delta
    raw = [printed_formula_at_growth(z, growth, delta) for z in range(14)]
    assert [max(value, 0) for value in raw] == values


@pytest.mark.parametrize(
    ("epsilon", "delta", "z", "loss"),
    [("1", Fraction(1, 10**6), 28, 0.558), ("1/3", Fraction(1, 6 * 10**6), 94, 0.2396)],
)
def test_eq_135_loses_what_the_errata_say(epsilon: str, delta: Fraction, z: int, loss: float) -> None:
    assert printed(z + 2, epsilon, delta) == 0
    assert printed(z, epsilon, delta) == pytest.approx(loss, abs=5e-4)
    p, q = (refimpl.ptr_pass_probability(score, epsilon, delta, edition=PRINTED) for score in (z, z + 2))
    assert p > ExpFraction(Fraction(epsilon)) * q + delta


def test_eq_135_fails_for_certain_from_tau_on() -> None:
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    tau = 2 * math.log((1 - 1e-6) / 1e-6) + 4
    growth = ExpFraction(epsilon / 2)
    values = [printed_formula_at_growth(z, growth, delta) for z in range(40)]
    assert [value == 0 for value in values] == [z >= tau for z in range(40)]
    assert any(value < 0 for value in values)
    assert values[0] == 1


def test_the_released_share_of_e3() -> None:
    # Algorithm 1 at (1, 1e-6): scores 95 and 96 of the full-size pair; (1, 1/20): 30 and 31 of the mid-size one.
    delta = Fraction(1, 10**6) / 6
    assert printed(95, "1/3", delta) == pytest.approx(0.1017, abs=5e-5)
    assert printed(96, "1/3", delta) == 0
    assert printed(30, "1/3", Fraction(1, 120)) == pytest.approx(0.1138, abs=5e-5)
    assert printed(31, "1/3", Fraction(1, 120)) == 0
    assert printed(94, "1/3", delta) - printed(95, "1/3", delta) < printed(94, "1/3", delta)


# Input ----------------------------------------------------------------------------------------------------------------


def test_growth_given_in_any_form_is_the_same() -> None:
    assert law(3, "3/2", "1/16") == law(3, 1.5, 0.0625) == law(3, Fraction(3, 2), Fraction(1, 16))
    assert law(3, ExpFraction.rational(Fraction(3, 2)), "1/16") == law(3, "3/2", "1/16")
    assert isinstance(law(3, "3/2", "1/16"), Fraction)
    assert isinstance(law(3, ExpFraction(1), "1/16"), ExpFraction)


def test_delta_as_a_string_is_exact_and_as_a_float_is_binary() -> None:
    assert law(1, 2, "0.1") == law(1, 2, Fraction(1, 10)) != law(1, 2, 0.1) == law(1, 2, Fraction(0.1))


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ((-1, 2, "1/2"), ValueError, "score"),
        ((1.0, 2, "1/2"), TypeError, "score"),
        ((True, 2, "1/2"), TypeError, "score"),
        ((1, 1, "1/2"), ValueError, "growth"),
        ((1, "x", "1/2"), ValueError, "growth"),
        ((1, None, "1/2"), TypeError, "growth"),
        ((1, ExpFraction(0), "1/2"), ValueError, "growth"),
        ((1, ExpFraction(-1), "1/2"), ValueError, "growth"),
        ((1, 2, 0), ValueError, "delta"),
        ((1, 2, 1), ValueError, "delta"),
        ((1, 2, math.nan), ValueError, "delta"),
    ],
)
def test_bad_parameters_are_named(arguments: Any, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=rf"^{name} must"):
        refimpl.ptr_pass_probability_at_growth(*arguments)


@pytest.mark.parametrize(
    ("epsilon", "error"), [(0, ValueError), (-1, ValueError), (math.inf, ValueError), (None, TypeError)]
)
def test_bad_epsilons_are_named(epsilon: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^epsilon must"):
        refimpl.ptr_pass_probability(1, epsilon, "1/2")


@pytest.mark.parametrize("call", [refimpl.ptr_pass_probability, refimpl.ptr_pass_probability_at_growth])
def test_a_bad_edition_is_named(call: Any) -> None:
    with pytest.raises(TypeError, match="edition"):
        call(1, 2, "1/2", edition="PRINTED")


# The coin -------------------------------------------------------------------------------------------------------------

TOP = 1 << 256


def coin(bits: int, seed: bytes = b"seed") -> TestCoin:
    return TestCoin(bits, seed)


def digits(seed: bytes, count: int) -> int:
    """The first ``count`` binary digits after the 256, count a multiple of 8."""
    return int.from_bytes(hashlib.shake_256(b"bhs23/test-extension" + seed).digest(count // 8), "big")


def test_certain_outcomes() -> None:
    for bits in (0, 1, TOP - 1):
        assert coin_passes(Fraction(1), coin(bits))
        assert not coin_passes(Fraction(0), coin(bits))
        assert coin_passes(ExpFraction.rational(1), coin(bits))
        assert not coin_passes(ExpFraction.rational(0), coin(bits))


@given(st.integers(0, TOP - 1))
def test_u_exactly_at_the_boundary_fails(bits: int) -> None:
    # U = bits/2^256 + something >= bits/2^256 is not below p = bits/2^256; U < (bits + 1)/2^256 always.
    assert not coin_passes(Fraction(bits, TOP), coin(bits))
    assert coin_passes(Fraction(bits + 1, TOP), coin(bits))


@given(st.integers(0, TOP - 1), st.binary(min_size=1, max_size=40), st.integers(1, 200), st.sampled_from([-1, 0, 1]))
def test_further_digits_decide(bits: int, seed: bytes, count: int, offset: int) -> None:
    # p ends after 256 + 8 count digits and agrees with U on all of them, or is one unit beside.
    further = digits(seed, 8 * count)
    p = Fraction((bits << (8 * count)) + further + offset, 1 << (256 + 8 * count))
    if 0 <= p <= 1:
        assert coin_passes(p, coin(bits, seed)) == (offset == 1)


def test_further_digits_depend_on_the_seed() -> None:
    p = Fraction(1, 2) + Fraction(1, 1 << 257)
    outcomes = {coin_passes(p, coin(TOP // 2, bytes([i]))) for i in range(40)}
    assert outcomes == {True, False}


def test_a_transcendental_boundary_is_decided() -> None:
    p = refimpl.ptr_pass_probability(7, "1/3", "1e-3")
    bits = math.floor(p.enclosure(2000).lower * TOP)
    assert coin_passes(p, coin(bits - 1))
    assert not coin_passes(p, coin(bits + 1))
    next_digits = math.floor((p.enclosure(2000).lower * TOP - bits) * 2**256)
    for seed in (b"a", b"b", b"c"):
        assert coin_passes(p, coin(bits, seed)) == (digits(seed, 256) < next_digits)


def test_bits_beyond_the_range_are_refused() -> None:
    for bits in (-1, TOP):
        with pytest.raises(ValueError, match="bits"):
            coin(bits)
