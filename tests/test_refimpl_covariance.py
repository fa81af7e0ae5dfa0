"""LargestGoodSubset and StableCovariance against a search over all subsets, and against the pseudocode on Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refimpl
from refimpl.linalg import to_fmpq, to_fraction
from refimpl.parameters import PRINTED, REPAIRED, Edition

# Few values, so that ties, repeated rows and singular moments are common; one far away.
values = st.sampled_from([Fraction(v) for v in (0, 0, 1, 1, -1, 2, 3, 1000)] + [Fraction(3, 2), Fraction(1, 3)])


def rows(d: int, least: int, most: int) -> st.SearchStrategy[list[list[Fraction]]]:
    return st.lists(st.lists(values, min_size=d, max_size=d), min_size=least, max_size=most)


small = st.integers(1, 2).flatmap(lambda d: rows(d, 1, 7))


@st.composite
def with_threshold(draw: st.DrawFn) -> tuple[list[list[Fraction]], Fraction]:
    """Rows, and a threshold that is often a norm which occurs, or just beside one."""
    y = draw(small)
    found = oracle.norms(y, draw(st.sets(st.integers(0, len(y) - 1), min_size=1)))
    ties = sorted(norm for norm in (found or {}).values() if norm > 0)
    lam = draw(st.sampled_from(ties)) if ties else draw(st.fractions(Fraction(1, 9), 9, max_denominator=9))
    return y, lam * draw(st.sampled_from([1, 1, 1 - Fraction(1, 10**20), 1 + Fraction(1, 10**20)]))


@given(with_threshold())
def test_the_largest_good_subset_of_all_subsets(case: tuple[list[list[Fraction]], Fraction]) -> None:
    y, lam = case
    assert refimpl.largest_good_subset(y, lam) == oracle.largest_by_search(y, lam)


@given(with_threshold(), st.data())
def test_good_subsets_are_good(case: tuple[list[list[Fraction]], Fraction], data: st.DataObject) -> None:
    y, lam = case
    subset = data.draw(st.sets(st.integers(0, len(y) - 1)))
    good = oracle.is_good(y, subset, lam)
    assert refimpl.is_good_subset(y, subset, lam) == good
    if good:
        assert subset <= refimpl.largest_good_subset(y, lam)  # Lemma 27


def test_there_may_be_no_good_subset() -> None:
    assert refimpl.largest_good_subset([[1]], Fraction(99, 100)) == frozenset()
    assert refimpl.largest_good_subset([[1]], 1) == {0}
    assert refimpl.largest_good_subset([[1, 0], [2, 0]], 100) == frozenset()


lambdas = st.sampled_from([Fraction(v) for v in ("1/2", "1", "11/10", "2", "7/3", "6")])


@settings(max_examples=30)
@given(
    st.integers(1, 2).flatmap(lambda d: rows(d, 1, 12)),
    lambdas,
    st.integers(1, 3),
    st.sampled_from([PRINTED, REPAIRED]),
)
def test_stable_second_moment_is_the_pseudocode(y: Any, lambda_0: Fraction, k: int, edition: Edition) -> None:
    found = refimpl.stable_second_moment(y, lambda_0, k, edition=edition)
    wanted = oracle.second_moment(y, lambda_0, k)
    assert found.good_subsets == tuple(wanted.sets)
    assert list(found.entry_level) == wanted.entry_level
    assert (found.score, list(found.weights)) == (wanted.score, wanted.weights)
    assert [[to_fraction(v) for v in row] for row in found.covariance.tolist()] == wanted.estimate


@settings(max_examples=30)
@given(st.integers(1, 2).flatmap(lambda d: rows(d, 2, 13)), lambdas, st.integers(1, 3))
def test_stable_covariance_is_the_pseudocode(x: Any, lambda_0: Fraction, k: int) -> None:
    found, wanted = refimpl.stable_covariance(x, lambda_0, k), oracle.covariance(x, lambda_0, k)
    assert found.good_subsets == tuple(wanted.sets)
    assert list(found.entry_level) == wanted.entry_level
    assert (found.score, list(found.weights)) == (wanted.score, wanted.weights)
    assert [[to_fraction(v) for v in row] for row in found.covariance.tolist()] == wanted.estimate


@given(st.integers(1, 2).flatmap(lambda d: rows(d, 2, 9)), st.sampled_from([1, -1, Fraction(1, 3), 10**50]))
def test_scale_and_shift_change_nothing_but_the_estimate(x: Any, scale: Any) -> None:
    plain = refimpl.stable_covariance(x, 2, 2)
    moved = refimpl.stable_covariance([[scale * value + 7 for value in row] for row in x], 2, 2)
    assert (moved.score, moved.weights, moved.good_subsets) == (plain.score, plain.weights, plain.good_subsets)
    assert moved.covariance == plain.covariance * to_fmpq(Fraction(scale) ** 2)


def test_thresholds_are_those_of_eq_49() -> None:
    assert [refimpl.lambda_ell(Fraction(2), 5, ell) for ell in (0, 1, 5, 10)] == [
        2,
        Fraction(100, 49),
        Fraction(20, 9),
        Fraction(5, 2),
    ]


def test_the_weight_window() -> None:
    # Nine rows in every set, one from level 4 on: weight levels 3..4 (the paper's) against 3..7.
    y = [[1]] * 9 + [[Fraction(29, 10)]]
    plain, longer = refimpl.stable_second_moment(y, 4, 2), refimpl.stable_second_moment(y, 4, 2, window=5)
    assert plain.weights[-1] == Fraction(1, 20)
    assert longer.weights[-1] == Fraction(4, 5 * 10)
    assert longer.weights[0] == plain.weights[0] == Fraction(1, 10)
    assert len(longer.good_subsets or ()) == 2 + 5 + 1
    assert longer.score == plain.score


@pytest.mark.parametrize("window", [0, -1, "2", 18])
def test_a_bad_window_is_named(window: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="window"):
        refimpl.stable_second_moment([[1], [2]], 2, 2, window=window)  # 18: lambda_20 = lambda_0/0


@pytest.mark.parametrize("function", ["stable_covariance", "stable_second_moment"])
def test_a_bad_edition_is_named(function: str) -> None:
    with pytest.raises(TypeError, match="edition"):
        getattr(refimpl, function)([[1], [2]], 2, 1, edition="PRINTED")


@pytest.mark.parametrize("function", ["stable_covariance", "stable_second_moment"])
@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ((0, 1), ValueError, "lambda_0"),
        ((-1, 1), ValueError, "lambda_0"),
        ((float("nan"), 1), ValueError, "lambda_0"),
        (("x", 1), ValueError, "lambda_0"),
        ((True, 1), TypeError, "lambda_0"),
        ((None, 1), TypeError, "lambda_0"),
        ((1, 0), ValueError, "k"),
        ((1, 1.0), TypeError, "k"),
        ((1, True), TypeError, "k"),
    ],
)
def test_bad_parameters_are_named(function: str, arguments: tuple[Any, Any], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=rf"^{name} must"):
        getattr(refimpl, function)([[1], [2]], *arguments)


def test_too_few_rows_are_named() -> None:
    with pytest.raises(ValueError, match=r"^x must have at least two rows"):
        refimpl.stable_covariance([[1]], 1, 1)
    for call in (lambda y: refimpl.largest_good_subset(y, 1), lambda y: refimpl.stable_second_moment(y, 1, 1)):
        with pytest.raises(ValueError, match=r"^y must have at least one row"):
            call(np.zeros((0, 2)))
    for lam in (0, -1):
        with pytest.raises(ValueError, match=r"^lam must be positive"):
            refimpl.largest_good_subset([[1]], lam)
