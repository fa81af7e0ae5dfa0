"""LargestCore and StableMean against a direct loop over the pseudocode on Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

import fastimpl
import refimpl
from refimpl.parameters import PRINTED, REPAIRED, Edition, ordered_stability_gamma

values = st.sampled_from([Fraction(v) for v in (0, 0, 1, 1, -1, 2, 3, 1000)] + [Fraction(3, 2), Fraction(1, 3)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[Fraction]], list[list[Fraction]], list[int]]:
    """Rows, a positive semidefinite matrix A^T A (often singular), a reference set."""
    d = draw(st.integers(1, 2))
    n = draw(st.integers(2, 12))
    x = draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    a = draw(st.lists(st.lists(st.sampled_from([0, 1, 1, 2]), min_size=d, max_size=d), min_size=d, max_size=d))
    sigma = oracle.moment([[Fraction(v) for v in row] for row in a], [Fraction(1)] * d)
    return x, sigma, sorted(draw(st.sets(st.integers(0, n - 1))))


@given(cases(), st.data())
def test_largest_core_is_the_pseudocode(case: Any, data: st.DataObject) -> None:
    x, sigma, reference = case
    inverse = oracle.inverse(sigma)
    ties = [Fraction(1)]
    if inverse is not None:
        far = [oracle.quadratic([a - b for a, b in zip(x[0], x[j], strict=True)], inverse) / 2 for j in reference]
        ties += [value for value in far if value > 0]
    lam = data.draw(st.sampled_from(ties)) * data.draw(st.sampled_from([1, 1, 1 - Fraction(1, 10**20)]))
    tau = data.draw(st.integers(-1, len(reference) + 1))
    found = refimpl.largest_core(x, sigma, lam, tau, reference)
    assert found == oracle.core(x, sigma, lam, tau, reference)


@settings(max_examples=40)
@given(
    cases(),
    st.fractions(Fraction(1, 20), Fraction(35, 100), max_denominator=40),
    st.integers(1, 3),
    st.sampled_from([PRINTED, REPAIRED]),
)
def test_stable_mean_is_the_pseudocode(case: Any, lambda_0: Fraction, k: int, edition: Edition) -> None:
    x, sigma, reference = case
    found = refimpl.stable_mean(x, sigma, lambda_0, k, reference, edition=edition)
    wanted = oracle.mean(x, sigma, lambda_0, k, reference)
    assert found.cores == tuple(wanted.sets)
    assert list(found.entry_level) == wanted.entry_level
    assert (found.score, list(found.weights), list(found.mean)) == (wanted.score, wanted.weights, wanted.estimate)
    assert sum(found.weights) in {0, 1}


@settings(max_examples=25)
@given(
    st.lists(st.lists(values.filter(lambda v: float(v) == v), min_size=2, max_size=2), min_size=26, max_size=32),
    st.integers(1, 3),
)
def test_a_covariance_may_be_a_result_its_matrix_or_another_implementations_result(x: Any, k: int) -> None:
    array = np.array(x, dtype=np.float64)
    result, fast = refimpl.stable_covariance(x, 4, k), fastimpl.stable_covariance(array, 4, k)
    forms = [result, result.covariance, fast]
    found = [refimpl.stable_mean(x, form, 4, k, range(0, len(x), 2)) for form in forms]
    assert len({(r.score, r.mean, r.weights, r.cores) for r in found}) == 1


def test_levels_of_another_implementation_need_k() -> None:
    fast = fastimpl.stable_covariance(np.array([[0.0], [1.0], [1.0], [0.0]]), 2, 1)
    with pytest.raises(TypeError, match="covariance"):
        refimpl.largest_core([[0], [1], [1], [0]], fast, 1, 1, [0])


def test_a_singular_covariance_means_score_k_and_no_core() -> None:
    found = refimpl.stable_mean([[1, 0]] * 10, [[1, 1], [1, 1]], 1, 3, [0, 1])
    assert (found.score, found.mean, found.weights) == (3, (0, 0), (0,) * 10)
    assert found.entry_level == (7,) * 10
    assert found.cores == (frozenset(),) * 7


def test_a_degree_threshold_that_is_not_positive_takes_every_row_in() -> None:
    x = [[Fraction(10) ** i] for i in range(10)]
    for tau in (0, -3):
        assert refimpl.largest_core(x, [[1]], 1, tau, [0]) == frozenset(range(10))
        assert refimpl.largest_core(x, [[0]], 1, tau, [0]) == frozenset(range(10))
    assert refimpl.largest_core(x, [[0]], 1, 1, [0]) == frozenset()
    found = refimpl.stable_mean(x, [[1]], 1, 2, [0, 1])  # |R| = 2: tau = 2, 1, 0, -1, -2
    assert [len(core) for core in found.cores or ()] == [0, 2, 10, 10, 10]


def test_rows_that_nobody_is_near_have_no_weight_and_there_may_be_none() -> None:
    x = [[Fraction(1000 * i)] for i in range(12)]
    found = refimpl.stable_mean(x, [[1]], 1, 1, [0, 3, 5, 11])
    assert (found.score, found.mean, sum(found.weights)) == (1, (0,), 0)


def test_thresholds_are_those_of_eq_67() -> None:
    assert ordered_stability_gamma(Fraction(9), 100) == Fraction(1, 2)
    assert [refimpl.Lambda_ell(Fraction(9), 100, ell) for ell in range(4)] == [9, 18, 36, 72]


def test_lambda_0_must_leave_gamma_below_one() -> None:
    x = [[0], [1]] * 5
    assert refimpl.stable_mean(x, [[1]], Fraction(179, 100), 1, [0, 1]) is not None
    for lambda_0 in (0, -1, Fraction(9 * 10, 50), 2):
        with pytest.raises(ValueError, match=r"^lambda_0 must be positive and below 9n/50"):
            refimpl.stable_mean(x, [[1]], lambda_0, 1, [0, 1])


@pytest.mark.parametrize(
    ("covariance", "error", "told"),
    [
        ([[1, 0], [0, 1]], ValueError, "1 x 1"),
        ([[-1]], ValueError, "positive semidefinite"),
        (None, TypeError, "covariance"),
        ([["1"]], TypeError, "covariance"),
        (np.array([[np.nan]]), ValueError, "covariance"),
        (fmpq_mat(1, 2, [1, 0]), ValueError, "1 x 1"),
    ],
)
def test_bad_covariances_are_named(covariance: Any, error: type[Exception], told: str) -> None:
    for call in (
        lambda: refimpl.stable_mean([[0], [1]] * 5, covariance, 1, 1, [0]),
        lambda: refimpl.largest_core([[0], [1]] * 5, covariance, 1, 1, [0]),
    ):
        with pytest.raises(error, match=rf"^covariance must.*{told}" if told != "covariance" else "^covariance must"):
            call()


def test_asymmetric_and_indefinite_covariances_are_named() -> None:
    for matrix in ([[1, 1], [0, 1]], [[1, 2], [2, 1]], [[0, 1], [1, 0]]):
        with pytest.raises(ValueError, match=r"^covariance must be symmetric and positive semidefinite"):
            refimpl.stable_mean([[0, 0], [1, 1]] * 5, matrix, 1, 1, [0])


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ([0, 0], ValueError),
        ([10], ValueError),
        ([-1], ValueError),
        ([0.0], TypeError),
        ([True], TypeError),
        (["0"], TypeError),
    ],
)
def test_bad_references_are_named(reference: Any, error: type[Exception]) -> None:
    for call in (
        lambda: refimpl.stable_mean([[0], [1]] * 5, [[1]], 1, 1, reference),
        lambda: refimpl.largest_core([[0], [1]] * 5, [[1]], 1, 1, reference),
    ):
        with pytest.raises(error, match=r"^reference must"):
            call()


def test_references_may_be_any_integers() -> None:
    x = [[0], [1]] * 5
    plain = refimpl.largest_core(x, [[1]], "1/4", 2, [0, 2, 3])
    for reference in (np.array([3, 0, 2]), (3, 2, 0), iter([0, 2, 3])):
        assert refimpl.largest_core(x, [[1]], "1/4", 2, reference) == plain


@pytest.mark.parametrize("tau", [1.5, "1", None, True])
def test_a_bad_tau_is_named(tau: Any) -> None:
    with pytest.raises(TypeError, match="tau"):
        refimpl.largest_core([[0], [1]] * 5, [[1]], 1, tau, [0])


def test_a_bad_edition_is_named() -> None:
    with pytest.raises(TypeError, match="edition"):
        refimpl.stable_mean([[0], [1]] * 5, [[1]], 1, 1, [0], edition="PRINTED")
