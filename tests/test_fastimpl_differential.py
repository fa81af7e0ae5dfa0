"""fastimpl equals exact arithmetic: levels, scores and counts, on ties, repeats, rank deficiency and extreme scales.

Every test here fails if floats decided nothing in it (conftest).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
import refimpl
from fastimpl import certified
from fastimpl.covariance import level_counts, paired_result, second_moment_result
from fastimpl.mean import mean_result
from fastimpl.rows import pairs, pairs_of_pairs
from refimpl.linalg import differences, exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction
from refimpl.mean import exact_covariance
from refimpl.parameters import PRINTED, REPAIRED

Rng = np.random.Generator
Rows = NDArray[np.float64]
Kind = Callable[[Rng, int, int], Rows]


def grid(rng: Rng, n: int, d: int) -> Rows:
    return rng.integers(-2, 3, (n, d)).astype(float)


def signs(rng: Rng, n: int, d: int) -> Rows:
    return rng.choice([-1.0, 1.0], (n, d))


def normal(rng: Rng, n: int, d: int) -> Rows:
    return rng.normal(size=(n, d))


def outliers(rng: Rng, n: int, d: int) -> Rows:
    x = grid(rng, n, d)
    x[rng.integers(0, n, 3)] *= 10.0 ** rng.integers(0, 300)
    return x


def graded_outliers(rng: Rng, n: int, d: int) -> Rows:
    x = normal(rng, n, d)
    x[:4] *= 10.0 ** rng.integers(0, 100, (min(n, 4), 1))
    return x


def wild_columns(rng: Rng, n: int, d: int) -> Rows:
    return rng.integers(-3, 4, (n, d)) * 2.0 ** rng.integers(-1074, 900, d)


def subnormal(rng: Rng, n: int, d: int) -> Rows:
    return rng.integers(-3, 4, (n, d)) * 5e-324 * rng.integers(1, 4, d)


def huge(rng: Rng, n: int, d: int) -> Rows:
    return rng.integers(-2, 3, (n, d)) * 0.75e308


def huge_and_tiny(rng: Rng, n: int, d: int) -> Rows:
    x = rng.integers(-3, 4, (n, d)) * 5e-324
    x[rng.integers(0, n, 2)] = 1.7e308
    x[rng.integers(0, n)] = -1.7e308
    return x


def shifted(rng: Rng, n: int, d: int) -> Rows:
    return grid(rng, n, d) + 2.0**45


def collinear(rng: Rng, n: int, d: int) -> Rows:
    x = grid(rng, n, d)
    x[:, -1] = x[:, 0]
    return x


def nearly_collinear(rng: Rng, n: int, d: int) -> Rows:
    x = collinear(rng, n, d)
    x[:, -1] = x[:, 0] * (1 + 2.0 ** -rng.integers(20, 53))
    x[0, -1] += 2.0**-30
    return x


def repeated(rng: Rng, n: int, d: int) -> Rows:
    return np.repeat(grid(rng, 3, d), (n + 2) // 3, axis=0)[:n]


def clusters(rng: Rng, n: int, d: int) -> Rows:
    x = grid(rng, n, d)
    x[: n // 4] += 10.0 ** rng.integers(3, 300)
    x[n // 2 : n // 2 + n // 4] = x[: n // 4][: len(x[n // 2 : n // 2 + n // 4])]
    return x


KINDS = [
    grid, signs, normal, outliers, graded_outliers, wild_columns, subnormal, huge, huge_and_tiny, shifted, collinear,
    nearly_collinear, repeated, clusters,
]  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def small_rational(rng: Rng) -> Fraction:
    return Fraction(int(rng.integers(1, 60)), int(rng.integers(1, 9)))


def covariance_tie(rng: Rng, x: Rows, k: int) -> Fraction | None:
    """A lambda_0 whose threshold of some level is exactly the norm of some paired row among all rows."""
    y = differences(exact_matrix("x", x))
    inverse = inverse_or_none(second_moment(y, [Fraction(1, y.nrows())] * y.nrows()))
    if inverse is None:
        return None
    norm = to_fraction(mahalanobis_squared(y, inverse)[int(rng.integers(0, y.nrows()))])
    return norm * (1 - Fraction(int(rng.integers(0, 2 * k + 1)), 10 * k)) or None


def mean_tie(rng: Rng, x: Rows, covariance: object, k: int, reference: list[int]) -> Fraction | None:
    """A lambda_0 such that the distance of some row from some reference point is exactly 2 lambda_0."""
    inverse = inverse_or_none(exact_covariance(exact_matrix("x", x), covariance, k))
    if inverse is None or not reference:
        return None
    i, j = int(rng.integers(0, len(x))), reference[int(rng.integers(0, len(reference)))]
    move = exact_matrix("x", x[[i]]) - exact_matrix("x", x[[j]])
    half = to_fraction(mahalanobis_squared(move, inverse)[0]) / 2
    return half if 0 < half < Fraction(9 * len(x), 50) else None


def small_lambda(rng: Rng, n: int) -> Fraction:
    value = small_rational(rng)
    return value if 50 * value < 9 * n else Fraction(9 * n, 50) * Fraction(int(rng.integers(1, 10)), 10)


@every_kind
def test_both_stages_equal_exact_arithmetic(kind: Kind) -> None:
    for seed in range(12):
        both_stages(kind, seed)


def both_stages(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, d, k = int(rng.integers(2, 36)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    x = kind(rng, n, d)
    lambda_0 = (covariance_tie(rng, x, k) if rng.random() < 0.6 else None) or small_rational(rng)
    fast, exact = fastimpl.stable_covariance(x, lambda_0, k), refimpl.stable_covariance(x, lambda_0, k)
    assert tuple(fast.entry_level) == exact.entry_level
    assert fast.score == exact.score
    assert np.allclose(fast.weights, [float(w) for w in exact.weights], rtol=1e-14, atol=0)

    reference = sorted(rng.choice(n, int(rng.integers(0, n + 1)), replace=False).tolist())
    lam = (mean_tie(rng, x, fast, k, reference) if rng.random() < 0.6 else None) or small_lambda(rng, n)
    fast_mean = fastimpl.stable_mean(x, fast, lam, k, reference)
    exact_mean = refimpl.stable_mean(x, exact, lam, k, reference)
    assert tuple(fast_mean.entry_level) == exact_mean.entry_level
    assert fast_mean.score == exact_mean.score
    size = np.abs(x).max(axis=0)
    assert np.all(np.abs(fast_mean.mean - [float(v) for v in exact_mean.mean]) <= 1e-12 * size + 1e-320)

    tau = len(reference) - int(rng.integers(0, 3))
    core = fastimpl.largest_core(x, fast, lam, tau, reference)
    assert core == refimpl.largest_core(x, exact, lam, tau, reference)
    subset = fastimpl.largest_good_subset(x, lambda_0)
    assert subset == refimpl.largest_good_subset(x, lambda_0)


def test_plain_covariance_is_exactly_what_its_floats_say() -> None:
    for seed in range(40):
        plain_covariance(seed)


def plain_covariance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(2, 25)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    x = KINDS[seed % len(KINDS)](rng, n, d)
    root = rng.integers(-2, 3, (d, d)).astype(float)
    sigma = root @ root.T * 2.0 ** rng.integers(-1000, 900)
    reference = sorted(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist())
    lam = mean_tie(rng, x, sigma, k, reference) or small_lambda(rng, n)
    fast = fastimpl.stable_mean(x, sigma, lam, k, reference)
    exact = refimpl.stable_mean(x, sigma, lam, k, reference)
    assert tuple(fast.entry_level) == exact.entry_level
    assert fast.score == exact.score


@every_kind
def test_early_halt_owes_the_score_and_the_counts_below_k(kind: Kind) -> None:
    for seed in range(4):
        early_halt(kind, seed)


def early_halt(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind), 7])
    n, d, k = int(rng.integers(4, 60)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    x = kind(rng, n, d)
    lambda_0 = covariance_tie(rng, x, k) or small_rational(rng)
    whole = fastimpl.stable_covariance(x, lambda_0, k)
    early = paired_result(pairs(x), lambda_0, k, REPAIRED, early=True)
    assert early.score == whole.score
    if whole.score < k:
        levels = REPAIRED.weight_levels(k, None)
        assert np.array_equal(level_counts(early.entry_level, levels), level_counts(whole.entry_level, levels))
    reference = np.sort(rng.choice(n, int(rng.integers(0, n + 1)), replace=False))
    lam = small_lambda(rng, n)
    whole_mean = fastimpl.stable_mean(x, whole, lam, k, reference.tolist())
    early_mean = mean_result(x, whole, lam, k, reference, REPAIRED, early=True)
    assert early_mean.score == whole_mean.score
    if whole_mean.score < k:
        assert np.array_equal(early_mean.entry_level, whole_mean.entry_level)


def test_differences_of_differences_are_exact_too() -> None:
    """Algorithm 5.2 as printed pairs twice: four rows meet in a vector that no float64 need hold."""
    for kind in KINDS:
        differences_of_differences(kind)


def differences_of_differences(kind: Kind) -> None:
    rng = np.random.default_rng([KINDS.index(kind), 9])
    x = kind(rng, 33, 2)
    y = differences(exact_matrix("x", x))
    exact = refimpl.stable_covariance(y, Fraction(5, 2), 2)
    fast = second_moment_result(pairs_of_pairs(x), Fraction(5, 2), 2, PRINTED, None)
    assert tuple(fast.entry_level) == exact.entry_level
    assert fast.score == exact.score


def test_windows_of_any_length() -> None:
    rng = np.random.default_rng(3)
    y = outliers(rng, 20, 2)
    for window in (1, 2, 7):
        fast = fastimpl.stable_second_moment(y, 3, 2, window=window)
        exact = refimpl.stable_second_moment(y, 3, 2, window=window)
        assert tuple(fast.entry_level) == exact.entry_level
        assert np.allclose(fast.weights, [float(w) for w in exact.weights], rtol=1e-14, atol=0)


def test_results_of_refimpl_are_understood() -> None:
    x = normal(np.random.default_rng(5), 30, 2)
    exact = refimpl.stable_covariance(x, 9, 2)
    reference = list(range(12))
    fast_mean = fastimpl.stable_mean(x, exact, 3, 2, reference)
    assert tuple(fast_mean.entry_level) == refimpl.stable_mean(x, exact, 3, 2, reference).entry_level
    assert fastimpl.largest_core(x, exact, 3, 5, reference) == refimpl.largest_core(x, exact, 3, 5, reference)


def beyond_floats(scale: float, step: float) -> Rows:
    """Signs whose columns have product sum 0, but for a last row that tells; columns of two sizes."""
    x = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (6, 1)) * [scale, scale * step]
    return np.concatenate([x[:12], -x[:12]])


@pytest.mark.parametrize("scale", [1e154, 1.3e154, 1e200, 1.7e308])
@pytest.mark.parametrize("step", [1.0, 1 / 3, 1e-300])
@pytest.mark.parametrize("stage", ["stable_covariance", "stable_second_moment", "stable_moments"])
def test_an_entry_of_the_covariance_is_infinite_only_where_the_exact_one_overflows(
    stage: str, scale: float, step: float
) -> None:
    """Zeros beside entries beyond all floats stay zeros, and the factor 1/2 is taken before anything overflows."""
    arguments = (7, 2, 2) if stage == "stable_moments" else (1000, 2)
    x = np.concatenate([beyond_floats(scale, step), normal(np.random.default_rng(1), 8, 2)])
    for rows in (beyond_floats(scale, step), x):
        fast, exact = (getattr(room, stage)(rows, *arguments) for room in (fastimpl, refimpl))
        assert (fast.score, fast.covariance is None) == (exact.score, exact.covariance is None)
        if exact.covariance is None:  # the ordinary rows are outliers
            assert rows is x
            continue
        for found, wanted in zip(fast.covariance.ravel().tolist(), exact.covariance.entries(), strict=True):
            value = to_fraction(wanted)
            overflows = abs(value) >= Fraction(2) ** 1024 - Fraction(2) ** 970
            assert np.isfinite(found) == (not overflows)
            assert not overflows or np.sign(found) == np.sign(value)


# Who decides ----------------------------------------------------------------------------------------------------------


def tally(run: Callable[[], object]) -> Counter[str]:
    with certified.audit() as counts:
        run()
    return counts


def test_clean_data_never_reach_exact_arithmetic() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 5)) @ rng.normal(size=(5, 5)) + rng.normal(size=5)
    reference = sorted(rng.choice(4000, 60, replace=False).tolist())
    covariance = fastimpl.stable_covariance(x, 40, 20)
    assert covariance.score == 0
    assert tally(lambda: fastimpl.stable_covariance(x, 40, 20)).keys() == {"float"}
    assert tally(lambda: fastimpl.stable_mean(x, covariance, 40, 20, reference)).keys() == {"float"}


def test_an_audit_does_not_leak_into_another() -> None:
    x = np.array([[1.0], [2.0], [0.0], [0.0]])
    with certified.audit() as outer:
        inner = tally(lambda: fastimpl.stable_covariance(x, 3, 1))
    assert inner
    assert not outer
