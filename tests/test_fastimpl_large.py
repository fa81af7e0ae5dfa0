"""fastimpl at 1e5 rows against brute force: the definitions in plain float64, and integers for what is near a threshold.

Brute force shares nothing with fastimpl but numpy: norms by a fresh Gram matrix in every step, distances row by row. Where a
norm or a distance is within a part in 2^20 of a threshold, float64 is not believed and python-flint decides; that float64 is
right to 2^-20 elsewhere is no proof, but holds by far for data as well conditioned as these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq_mat, fmpz_mat
from numpy.typing import NDArray

import fastimpl
from fastimpl import certified
from refimpl.parameters import REPAIRED

Rows = NDArray[np.float64]
Make = Callable[[np.random.Generator, int, int], Rows]
NEAR = 2.0**-20
DIGITS = 2.0**30  # exact recheck: data are rounded to multiples of 2^-30, which float64 and integers both hold


def on_a_grid(x: Rows) -> Rows:
    return np.asarray(np.rint(x * DIGITS) / DIGITS)


def clean(rng: np.random.Generator, n: int, d: int) -> Rows:
    return on_a_grid(rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * np.tri(d, k=-1) / d) + 1.0)


def outliers(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Outliers of several sizes, some of them hidden by larger ones, some near the thresholds."""
    x = clean(rng, n, d)
    index = rng.choice(n, 40, replace=False)
    x[index] = on_a_grid(x[index] * 10.0 ** np.linspace(0.2, 4, 40)[:, None])
    return x


def tied(rng: np.random.Generator, n: int, d: int) -> Rows:
    """All signs, a few threes: rows of a few kinds by their norms, and distances of a few kinds."""
    x = rng.choice([-1.0, 1.0], (n, d))
    x[rng.choice(n, n // 50, replace=False), 0] = 3.0
    return x


MAKERS = pytest.mark.parametrize("make", [clean, outliers, tied], ids=lambda make: make.__name__)


def integers(x: Rows) -> list[list[int]]:
    return [[int(v) for v in row] for row in (x * DIGITS).tolist()]


def exact_gram(y: Rows, weights: NDArray[np.int64] | None = None) -> fmpz_mat:
    """sum_i w_i y_i y_i^T in units of 2^-60, by blocks, from integers alone."""
    total = fmpz_mat(y.shape[1], y.shape[1])
    for start in range(0, len(y), 5000):
        rows = integers(y[start : start + 5000])
        shares = [1] * len(rows) if weights is None else weights[start : start + 5000].tolist()
        weighted = [[share * v for v in row] for share, row in zip(shares, rows, strict=True)]
        total += fmpz_mat([list(column) for column in zip(*rows, strict=True)]) * fmpz_mat(weighted)
    return total


def exact_forms(inverse: fmpq_mat, y: Rows) -> list[Fraction]:
    """v^T G^-1 v, exactly, for a few vectors; equal vectors once."""
    kinds, which = np.unique(y, axis=0, return_inverse=True)
    forms = []
    for row in integers(kinds):
        v = fmpq_mat(fmpz_mat([row]))
        value = (v * inverse * v.transpose())[0, 0]
        forms.append(Fraction(int(value.p), int(value.q)))
    return [forms[i] for i in which.ravel()]


def above(forms: Rows, exact: Callable[[NDArray[np.int64]], list[Fraction]], limit: Fraction) -> NDArray[np.bool_]:
    """Which forms are above the limit, the near ones rechecked."""
    found = forms > float(limit)
    near = np.flatnonzero(np.abs(forms - float(limit)) <= NEAR * float(limit))
    if near.size:
        found[near] = [value > limit for value in exact(near)]
    return found


def brute_force_levels(x: Rows, lambda_0: Fraction, k: int) -> NDArray[np.int64]:
    """Entry levels of the covariance stage: LargestGoodSubset at every level, from the top one down."""
    m = len(x) // 2
    y = x[:m] - x[m : 2 * m]
    level, alive = np.zeros(m, dtype=np.int64), np.ones(m, dtype=bool)
    for ell in reversed(range(2 * k + 1)):
        limit = REPAIRED.outlier_threshold(lambda_0, k, m, ell) / m
        out = alive
        while out.any():
            held = np.flatnonzero(alive)
            forms = np.einsum("ij,ji->i", y[held], np.linalg.solve(y[held].T @ y[held], y[held].T))

            def exact(near: NDArray[np.int64], held: NDArray[np.int64] = held) -> list[Fraction]:
                return exact_forms(fmpq_mat(exact_gram(y[held])).inv(), y[held[near]])

            out = np.zeros(m, dtype=bool)
            out[held[above(forms, exact, limit)]] = True
            alive &= ~out
            level[out] = ell + 1
    return level


def brute_force_mean_levels(
    x: Rows, counts: NDArray[np.int64], lambda_0: Fraction, k: int, reference: list[int]
) -> NDArray[np.int64]:
    """Entry levels of the mean stage in sum_i c_i y_i y_i^T/(2 k m), from all distances to all reference rows."""
    n, m = len(x), len(x) // 2
    y = x[:m] - x[m : 2 * m]
    g = y.T @ (y * counts[:, None])
    limits = [2 * REPAIRED.distance_threshold(lambda_0, k, n, ell) / (2 * k * m) for ell in range(2 * k + 1)]
    far = np.zeros((n, len(limits)), dtype=np.int64)
    inverse, metric = None, np.linalg.inv(g)
    for j in reference:
        moves = x - x[j]
        forms = np.einsum("ij,ij->i", moves @ metric, moves)
        for ell, limit in enumerate(limits):

            def exact(near: NDArray[np.int64], moves: Rows = moves) -> list[Fraction]:
                nonlocal inverse
                inverse = inverse or fmpq_mat(exact_gram(y, counts)).inv()
                return exact_forms(inverse, moves[near])

            far[:, ell] += above(forms, exact, limit)
    inside = far <= np.arange(len(limits))
    return np.where(inside.any(axis=1), inside.argmax(axis=1), len(limits))


def check(make: Make, n: int, d: int, k: int, lambda_0: Fraction, points: int) -> None:
    rng = np.random.default_rng([n, d])
    x = make(rng, n, d)
    with certified.audit() as decided:
        covariance = fastimpl.stable_covariance(x, lambda_0, k)
    level = brute_force_levels(x, lambda_0, k)
    assert np.array_equal(covariance.entry_level, level)
    assert decided["float"] > 0
    assert decided["exact"] > 0 or make is not tied
    assert len(set(level.tolist())) > 1  # the data tell
    counts = np.maximum(0, 2 * k + 1 - np.maximum(level, k + 1))
    assert np.allclose(covariance.weights, counts / (k * (n // 2)), rtol=1e-14, atol=0)
    reference = sorted(rng.choice(n, points, replace=False).tolist())
    mean = fastimpl.stable_mean(x, covariance, lambda_0, k, reference)
    assert np.array_equal(mean.entry_level, brute_force_mean_levels(x, counts, lambda_0, k, reference))
    levels = np.asarray(mean.entry_level)
    assert mean.score == min(k, *(int(np.count_nonzero(levels > ell)) + ell for ell in range(k + 1)))


def threshold(make: Make, n: int, d: int) -> Fraction:
    """For the tied data the largest norm, at level k, where the rows are of a few kinds.

    Where all rows differ (d = 50), a hair less than the largest norm. For other data, what removes a few rows.
    """
    if make is not tied:
        return Fraction(d + 3 * math.isqrt(2 * d))
    m = n // 2
    x = tied(np.random.default_rng([n, d]), n, d)
    y = x[:m] - x[m : 2 * m]
    forms = np.einsum("ij,ji->i", y, np.linalg.solve(y.T @ y, y.T))
    largest = np.argsort(forms)[-50:]
    share = Fraction(9, 10) if d < 20 else 1 - Fraction(1, 10**30)
    return max(exact_forms(fmpq_mat(exact_gram(y)).inv(), y[largest])) * m * share


@MAKERS
def test_a_hundred_thousand_rows(make: Make) -> None:
    check(make, 100_000, 10, 3, threshold(make, 100_000, 10), 10)


@MAKERS
def test_fifty_columns(make: Make) -> None:
    check(make, 8_000, 50, 2, threshold(make, 8_000, 50), 8)


@pytest.mark.nightly
@MAKERS
@pytest.mark.parametrize(
    ("n", "d", "k", "points"), [(100_000, 10, 20, 200), (40_000, 50, 8, 60), (300_000, 3, 12, 100)]
)
def test_more_levels_and_more_reference_rows(make: Make, n: int, d: int, k: int, points: int) -> None:
    check(make, n, d, k, threshold(make, n, d), points)
