"""The one stage of SHARP in exact arithmetic, against its pseudocode on fractions and against its own algebra."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

import refimpl
from refimpl.linalg import to_fraction
from refimpl.parameters import SHARP

Rows = list[list[Fraction]]
values = st.sampled_from([Fraction(v) for v in (-3, -1, 0, 0, 1, 1, 2, 5)] + [Fraction(1, 3), Fraction(40)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rows, Fraction, int, int]:
    """Rows, lambda_0, k, window with n > (k + window - 1) lambda_0; thresholds at ties and next to them."""
    d = draw(st.integers(1, 2))
    x = draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=4, max_size=14))
    k = draw(st.integers(1, 3))
    window = draw(st.integers(1, 4))
    found = oracle.norms(lifted(x), range(len(x)))
    ties = sorted(set(found.values())) if found else [Fraction(3, 2)]
    lambda_0 = draw(st.sampled_from(ties)) * draw(st.sampled_from([1, 1, 1 - Fraction(1, 10**20), Fraction(3, 4)]))
    while len(x) <= (k + window - 1) * lambda_0:
        if window > 1:
            window -= 1
        elif k > 1:
            k -= 1
        else:
            lambda_0 *= Fraction(3, 4)
    return x, lambda_0, k, window


def lifted(x: Rows) -> Rows:
    return [[Fraction(1), *row] for row in x]


def wanted(x: Rows, lambda_0: Fraction, k: int, window: int) -> oracle.Stage:
    """The score, sets and weights of the pseudocode; the estimate is (mean, covariance) where there is one."""
    n, z = len(x), lifted(x)
    sets = [oracle.largest_good_subset(z, n * lambda_0 / (n - ell * lambda_0)) for ell in range(k + window)]
    score = min(k, *(max(n - len(sets[ell]), ell) for ell in range(k)))
    weights = [Fraction(sum(i in sets[ell] for ell in range(k, k + window)), window * n) for i in range(n)]
    return oracle.Stage(score, sets, weights, [])


def moments_by_schur(x: Rows, weights: list[Fraction]) -> tuple[list[Fraction], oracle.Matrix]:
    """s/b and M - s s^T/b from the weighted second moment [[b, s^T], [s, M]] of the lifted rows."""
    gram = oracle.moment(lifted(x), weights)
    b, s = gram[0][0], gram[0][1:]
    d = range(len(s))
    return [value / b for value in s], [[gram[1 + i][1 + j] - s[i] * s[j] / b for j in d] for i in d]


@settings(max_examples=60)
@given(cases())
def test_stable_moments_is_the_pseudocode(case: Any) -> None:
    x, lambda_0, k, window = case
    found, stage = refimpl.stable_moments(x, lambda_0, k, window), wanted(*case)
    assert found.good_subsets == tuple(stage.sets)
    assert list(found.entry_level) == stage.entry_level
    assert (found.score, list(found.weights)) == (stage.score, stage.weights)
    if found.score == k:
        assert found.mean is found.covariance is None
        return
    mean, covariance = moments_by_schur(x, stage.weights)
    assert list(found.mean) == mean
    assert [[to_fraction(v) for v in row] for row in found.covariance.tolist()] == covariance


def test_score_zero_gives_the_sample_mean_and_the_sample_scatter() -> None:
    x = [[Fraction(v), Fraction(v * v % 7)] for v in range(12)]
    found = refimpl.stable_moments(x, 11, 1, 1)
    assert found.score == 0
    assert found.mean == (Fraction(11, 2), Fraction(sum(v * v % 7 for v in range(12)), 12))
    centred = [[a - b for a, b in zip(row, found.mean, strict=True)] for row in x]
    assert [[to_fraction(v) for v in row] for row in found.covariance.tolist()] == oracle.moment(
        centred, [Fraction(1, 12)] * 12
    )


def test_levels_count_in_the_score_by_the_larger_of_two() -> None:
    # Two rows are out for good and a third comes in at level 1: 2 = min of max(3, 0), max(2, 1), ..., and not 3 + 0 or 2 + 1.
    x = [[Fraction(v)] for v in [*[-1, 1] * 20, 3, 10**3, 10**6]]
    norm = (oracle.norms(lifted(x), range(41)) or {})[40]
    lambda_0 = 1 / (1 / norm + Fraction(1, 43))
    found = refimpl.stable_moments(x, lambda_0, 4, 1)
    assert list(found.entry_level) == [0] * 40 + [1, 5, 5]
    assert found.score == 2
    assert refimpl.stable_moments(x, lambda_0 * (1 - Fraction(1, 10**20)), 4, 1).entry_level[40] == 2
    assert found.weights == (Fraction(1, 43),) * 41 + (0, 0)


@settings(max_examples=30)
@given(cases(), st.data())
def test_it_is_affine_equivariant(case: Any, data: st.DataObject) -> None:
    x, lambda_0, k, window = case
    d = len(x[0])
    entry = st.integers(-3, 3).map(Fraction)
    a = fmpq_mat(d, d, [int(data.draw(entry)) for _ in range(d * d)])
    if a.det() == 0:
        a = fmpq_mat(d, d, [int(i == j) for i in range(d) for j in range(d)])
    shift = [Fraction(data.draw(st.integers(-(10**6), 10**6))) for _ in range(d)]
    table = [[to_fraction(v) for v in row] for row in a.tolist()]
    moved = [
        [sum((p * q for p, q in zip(r, row, strict=True)), b) for r, b in zip(table, shift, strict=True)] for row in x
    ]
    plain, mapped = (refimpl.stable_moments(rows, lambda_0, k, window) for rows in (x, moved))
    assert (plain.score, plain.weights, plain.good_subsets) == (mapped.score, mapped.weights, mapped.good_subsets)
    if plain.score < k:
        assert mapped.covariance == a * plain.covariance * a.transpose()
        image = [sum((p * q for p, q in zip(r, plain.mean, strict=True)), b) for r, b in zip(table, shift, strict=True)]
        assert list(mapped.mean) == image


@pytest.mark.parametrize(("k", "window"), [(3, 2), (1, 4), (4, 1)])
def test_a_window_without_a_last_threshold_is_named(k: int, window: int) -> None:
    x = [[v] for v in range(8)]
    refimpl.stable_moments(x, Fraction(799, 400), k, window)  # (k + window - 1) lambda_0 = 4 lambda_0 < 8
    with pytest.raises(ValueError, match=r"window.*k = "):
        refimpl.stable_moments(x, 2, k, window)  # 4 lambda_0 = 8: lambda_4 = lambda_0/0


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("x", lambda: refimpl.stable_moments([], 2, 1, 1)),
        ("x", lambda: refimpl.stable_moments(np.empty((0, 2)), 2, 1, 1)),
        ("x", lambda: refimpl.stable_moments([["a"]], 2, 1, 1)),
        ("lambda_0", lambda: refimpl.stable_moments([[1]] * 9, 0, 1, 1)),
        ("k", lambda: refimpl.stable_moments([[1]] * 9, 2, 0, 1)),
        ("window", lambda: refimpl.stable_moments([[1]] * 9, 2, 1, 0)),
        ("window", lambda: refimpl.stable_moments([[1]] * 9, 2, 1, 1.5)),  # type: ignore[arg-type]  # on purpose
        ("window", lambda: refimpl.stable_moments([[1]] * 9, 2, 1, None)),  # type: ignore[arg-type]  # on purpose
        ("window", lambda: refimpl.stable_covariance([[1], [2]], 2, 1, edition=SHARP)),
        ("edition", lambda: refimpl.stable_mean([[1], [2]] * 9, [[1]], 1, 1, [0], edition=SHARP)),
    ],
)
def test_what_is_wrong_is_named(argument: str, call: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=argument):
        call()
