"""fastimpl's test law, written independently of refimpl's, and its coin."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

import fastimpl
import refimpl
from fastimpl.ptr import coin_passes, surely_fails
from refimpl.parameters import PRINTED, REPAIRED, Edition
from refimpl.ptr import coin_passes as exact_coin_passes
from refimpl.results import TestCoin

EDITIONS = pytest.mark.parametrize("edition", [PRINTED, REPAIRED], ids=repr)


@EDITIONS
def test_laws_agree_at_rational_growth(edition: Edition) -> None:
    for growth, delta, z in product(("3/2", "2", "1.01"), ("1/2", "1/16", "1e-6", "0.9"), range(0, 60, 1)):
        fast = fastimpl.ptr_pass_probability_at_growth(z, growth, delta, edition=edition)
        assert fast == refimpl.ptr_pass_probability_at_growth(z, growth, delta, edition=edition)


@EDITIONS
def test_laws_agree_at_rational_epsilon(edition: Edition) -> None:
    for epsilon, delta, z in product(("1", "1/3"), ("1/2", "1/30", "1e-6"), (0, 1, 2, 3, 4, 5, 10, 40, 83, 98, 200)):
        exact = refimpl.ptr_pass_probability(z, epsilon, delta, edition=edition)
        assert fastimpl.ptr_pass_probability(z, epsilon, delta, edition=edition) == float(exact)


def test_repaired_law_is_private_with_equality_at_full_steps() -> None:
    growth, delta = Fraction(11, 10), Fraction(1, 100)
    p = [fastimpl.ptr_pass_probability_at_growth(z, growth, delta) for z in range(120)]
    assert (p[0], p[-1]) == (1, 0)
    for z, other in product(range(118), repeat=2):
        if abs(z - other) <= 2:
            assert p[z] <= growth**2 * p[other] + delta
            assert 1 - p[z] <= growth**2 * (1 - p[other]) + delta
    assert 1 - p[2] == delta


@EDITIONS
def test_coins_agree_at_every_edge(edition: Edition) -> None:
    top = 1 << 256
    for z, delta in product((0, 1, 2, 3, 4, 90), (Fraction(1, 2), Fraction(1, 20))):
        law = refimpl.ptr_pass_probability(z, 1, delta, edition=edition)
        edge = int(law.enclosure(600).lower * top)
        for bits in {0, 1, top // 2 - 1, top // 2, top - 1, *(edge + move for move in (-1, 0, 1))}:
            if not 0 <= bits < top:
                continue
            for seed in (b"a" * 32, b"b" * 32, b"c" * 32):
                coin = TestCoin(bits, seed)
                assert coin_passes(z, Fraction(1), delta, edition, coin) == exact_coin_passes(law, coin)


@EDITIONS
def test_sure_failures_are_those_of_the_law(edition: Edition) -> None:
    for z in range(90):
        zero = fastimpl.ptr_pass_probability(z, "1/3", "1/60", edition=edition) == 0
        assert surely_fails(z, Fraction(1, 3), Fraction(1, 60), edition) == zero
    for s in (1, 2, 3, 4, 5):  # delta = 1/2: both turning points are met exactly
        zero = fastimpl.ptr_pass_probability(s, 1, "1/2", edition=edition) == 0
        assert surely_fails(s, Fraction(1), Fraction(1, 2), edition) == zero


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: fastimpl.ptr_pass_probability(-1, 1, "1/4"), "score"),
        (lambda: fastimpl.ptr_pass_probability(1.5, 1, "1/4"), "score"),
        (lambda: fastimpl.ptr_pass_probability(1, 0, "1/4"), "epsilon"),
        (lambda: fastimpl.ptr_pass_probability(1, 1, 0), "delta"),
        (lambda: fastimpl.ptr_pass_probability(1, 1, 1), "delta"),
        (lambda: fastimpl.ptr_pass_probability_at_growth(1, 1, "1/4"), "growth"),
        (lambda: fastimpl.ptr_pass_probability_at_growth(1, float("nan"), "1/4"), "growth"),
    ],
)
def test_bad_arguments_are_named(call: object, name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        call()  # type: ignore[operator]  # a list of calls


def test_precision_is_left_as_it_was() -> None:
    import flint  # noqa: PLC0415 - looked at here only

    before = flint.ctx.prec
    fastimpl.ptr_pass_probability(7, 1, "1e-6")
    assert flint.ctx.prec == before
