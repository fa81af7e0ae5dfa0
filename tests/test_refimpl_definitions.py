"""The predicates against their definitions, spelled out on Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refimpl
from refimpl.parameters import PRINTED, REPAIRED, Lambda_ell

values = st.sampled_from([Fraction(v) for v in (0, 0, 1, 1, -1, 2, 3, 50)])


@st.composite
def data_sets(draw: st.DrawFn, least: int = 2) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    d = draw(st.integers(1, 2))
    n = draw(st.integers(least, 10))
    x = draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    a = draw(st.lists(st.lists(st.sampled_from([0, 1, 1, 2]), min_size=d, max_size=d), min_size=d, max_size=d))
    return x, oracle.moment([[Fraction(v) for v in row] for row in a], [Fraction(1)] * d)


def near(x: Any, inverse: Any, i: int, indices: Any, bound: Fraction) -> int:
    return sum(oracle.quadratic([a - b for a, b in zip(x[i], x[j], strict=True)], inverse) <= bound for j in indices)


@given(data_sets(), data_sets())
def test_is_adjacent(one: Any, other: Any) -> None:
    (x, _), (z, _) = one, other
    same_shape = (len(x), len(x[0])) == (len(z), len(z[0]))
    assert refimpl.is_adjacent(x, z) == (same_shape and sum(a != b for a, b in zip(x, z, strict=True)) <= 1)
    assert refimpl.is_adjacent(x, x)
    assert refimpl.is_adjacent(x, [[value + 1 for value in x[0]], *x[1:]])
    assert not refimpl.is_adjacent(x, [[value + 1 for value in row] for row in x])
    assert not refimpl.is_adjacent(x, [*x, x[0]])


@given(data_sets(), st.data())
def test_is_good_weighting(case: Any, data: st.DataObject) -> None:
    y, _ = case
    weights = data.draw(
        st.lists(st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 3)]), min_size=len(y), max_size=len(y))
    )
    inverse = oracle.inverse(oracle.moment(y, weights))
    norms = [] if inverse is None else [oracle.quadratic(row, inverse) for row, w in zip(y, weights, strict=True) if w]
    for lam in {Fraction(1), *norms}:
        assert refimpl.is_good_weighting(y, weights, lam) == (inverse is not None and max(norms) <= lam)


def test_weights_outside_the_unit_interval_are_no_weighting() -> None:
    assert refimpl.is_good_weighting([[1], [1]], [Fraction(1), Fraction(1)], 1)
    assert not refimpl.is_good_weighting([[1], [1]], [Fraction(2), Fraction(1)], 1)
    assert not refimpl.is_good_weighting([[1], [1]], [Fraction(-1, 2), Fraction(1)], 9)
    assert not refimpl.is_good_weighting([[1], [1]], [Fraction(0), Fraction(0)], 9)


@given(data_sets(), st.data())
def test_is_weighted_core(case: Any, data: st.DataObject) -> None:
    x, sigma = case
    n = len(x)
    counts = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n).filter(any))
    weights = [Fraction(c, sum(counts)) for c in counts]
    reference = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    lam, tau = data.draw(st.sampled_from([Fraction(1, 2), Fraction(2), Fraction(1, 8)])), data.draw(st.integers(0, n))
    inverse = oracle.inverse(sigma)
    wanted = tau == 0 or (
        inverse is not None and all(near(x, inverse, i, reference, 2 * lam) >= tau for i, w in enumerate(weights) if w)
    )
    assert refimpl.is_weighted_core(x, weights, tau, lam, sigma, reference) == wanted


def test_weights_that_are_no_distribution_are_no_core() -> None:
    for weights in ([Fraction(1, 2), Fraction(1, 3)], [Fraction(0), Fraction(0)], [Fraction(2), Fraction(-1)]):
        assert not refimpl.is_weighted_core([[0], [0]], weights, 0, 1, [[1]], [0])


@given(data_sets(least=6), st.sampled_from([PRINTED, REPAIRED]), st.integers(1, 2), st.data())
def test_is_degree_representative(case: Any, edition: Any, k: int, data: st.DataObject) -> None:
    x, sigma = case
    n = len(x)
    reference = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    bound = {"PRINTED": 4, "REPAIRED": 2}[edition.name] * Lambda_ell(Fraction(1, 2), n, 2 * k)
    inverse = oracle.inverse(sigma)
    wanted = inverse is not None and all(
        abs(
            Fraction(near(x, inverse, i, reference, bound), len(reference))
            - Fraction(near(x, inverse, i, range(n), bound), n)
        )
        <= Fraction(1, 6)
        for i in range(n)
    )
    assert refimpl.is_degree_representative(x, sigma, "1/2", k, reference, edition=edition) == wanted


@given(data_sets(), st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5)]))
def test_is_well_concentrated(case: Any, lambda_0: Fraction) -> None:
    x, _ = case
    n, m = len(x), len(x) // 2
    differences = [[a - b for a, b in zip(x[i], x[i + m], strict=True)] for i in range(m)]
    inverse = oracle.inverse(oracle.moment(differences, [Fraction(1, 2 * m)] * m))
    wanted = inverse is not None and all(near(x, inverse, i, range(n), 2 * lambda_0) == n for i in range(n))
    assert refimpl.is_well_concentrated(x, lambda_0) == wanted


@pytest.mark.parametrize("k", [1, 3])
def test_well_concentrated_data_pass(k: int) -> None:
    # Observation 18: both scores 0, the plain mean and the paired covariance.
    x = [[Fraction(i % 2), Fraction(i // 2 % 2)] for i in range(120)] * 2
    x = x[:120] + [[1 - a, 1 - b] for a, b in x[120:]]
    lambda_0 = Fraction(4)
    assert refimpl.is_well_concentrated(x, lambda_0)
    covariance = refimpl.stable_covariance(x, lambda_0, k)
    mean = refimpl.stable_mean(x, covariance, lambda_0, k, range(30))
    assert (covariance.score, mean.score, mean.mean) == (0, 0, (Fraction(1, 2), Fraction(1, 2)))
    assert set(mean.weights) == {Fraction(1, 240)}
