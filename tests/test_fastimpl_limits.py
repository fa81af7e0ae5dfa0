"""Thresholds are enclosed by their floats, tightly, whatever way the floats were found; exact ones are those of the edition."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

import fastimpl.limits
from fastimpl.limits import Thresholds, distance_limits, outlier_limits, thresholds
from refimpl.parameters import EDITIONS, PRINTED, REPAIRED, SHARP, Edition

LAMBDAS = [Fraction(50), Fraction(1), Fraction(0.1), Fraction(7, 3), Fraction(10**30, 7)]


def assert_enclosed(limits: Thresholds, exact: list[Fraction]) -> None:
    assert len(limits.exact) == len(exact) == len(limits.below) == len(limits.above)
    assert [Fraction(*ratio) for ratio in limits.exact[:]] == exact
    for below, value, above in zip(limits.below.tolist(), exact, limits.above.tolist(), strict=True):
        assert Fraction(below) <= value
        assert above == math.inf or value <= Fraction(above)
        assert above == math.inf or above < 2.0**-900 or above - below <= 8 * math.ulp(above)


@pytest.mark.parametrize("edition", EDITIONS.values(), ids=str)
@pytest.mark.parametrize("lambda_0", LAMBDAS)
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(1, 500_000), Fraction(3, 10**40)])
def test_outlier_thresholds(edition: Edition, lambda_0: Fraction, factor: Fraction) -> None:
    k, levels = 19, range(39)
    m = math.ceil(40 * lambda_0) + 5
    limits = outlier_limits(edition, lambda_0, k, m, levels, factor)
    assert_enclosed(limits, [edition.outlier_threshold(lambda_0, k, m, ell) * factor for ell in levels])


@pytest.mark.parametrize("edition", [PRINTED, REPAIRED], ids=str)
@pytest.mark.parametrize("lambda_0", LAMBDAS)
@pytest.mark.parametrize("rows", [Fraction(6), Fraction(100), Fraction(10**5)])
@pytest.mark.parametrize("factor", [Fraction(2), Fraction(10**40, 7), Fraction(1, 3 * 2**1070)])
def test_distance_thresholds(edition: Edition, lambda_0: Fraction, rows: Fraction, factor: Fraction) -> None:
    """From rows so few that the thresholds overflow to so many that they hardly grow; and where floats are subnormal."""
    levels, n = range(420), math.ceil(rows * lambda_0)
    limits = distance_limits(edition, lambda_0, 400, n, levels, factor)
    some = range(0, 420, 19)  # of the exact powers, which take their time
    few = Thresholds([limits.exact[ell] for ell in some], limits.below[some], limits.above[some])
    assert_enclosed(few, [edition.distance_threshold(lambda_0, 400, n, ell) * factor for ell in some])


def test_a_rule_of_ones_own_is_computed_level_by_level() -> None:
    def rule(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:
        return lambda_0 + Fraction(ell**3, k * rows)

    edition, levels = replace(REPAIRED, name="OWN", outlier_threshold=rule, distance_threshold=rule), range(9)
    exact = [rule(Fraction(7), 4, 100, ell) * 3 for ell in levels]
    assert_enclosed(outlier_limits(edition, Fraction(7), 4, 100, levels, Fraction(3)), exact)
    assert_enclosed(distance_limits(edition, Fraction(7), 4, 100, levels, Fraction(3)), exact)


def test_exact_thresholds_are_computed_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rule(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:
        asked.append(ell)
        return SHARP.outlier_threshold(lambda_0, k, rows, ell)

    monkeypatch.setattr(fastimpl.limits, "_HYPERBOLIC", {rule})
    edition = replace(SHARP, name="WATCHED", outlier_threshold=rule)
    limits = outlier_limits(edition, Fraction(3), 5, 10**6, range(15_000), Fraction(1))
    assert set(asked) == {0, 14_999}
    assert limits.exact[700] == (30_000, 9_979)
    assert set(asked) == {0, 700, 14_999}
    assert_enclosed(thresholds([Fraction(1, 3)], Fraction(2)), [Fraction(2, 3)])
