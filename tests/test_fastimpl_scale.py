"""fastimpl at sizes that exact arithmetic cannot follow: blocks, many levels, adversaries; figures are only upper limits."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
from fastimpl import certified, covariance, mean, rows, sums
from fastimpl.rows import read_rows
from refimpl.parameters import PRINTED

Rows = NDArray[np.float64]


def e3(n: int = 19600) -> tuple[Rows, Rows]:
    """Erratum E3 at full size: 95 or 96 pairs (3, -2), which the covariance stage throws out at every level."""
    m = n // 2
    x = np.zeros((n, 1))
    x[:m] = 1.0
    x[:95], x[m : m + 96] = 3.0, -2.0
    x_prime = x.copy()
    x_prime[95] = 3.0
    return x, x_prime


def test_e3_at_full_size() -> None:
    parameters = fastimpl.mean_parameters(19600, 1, epsilon=1, delta="1e-6", lambda_0=10, edition=PRINTED)
    assert (parameters.k, parameters.reference_size) == (98, 1065)
    coins = fastimpl.draw_mean_coins(parameters, np.random.default_rng(4))
    probabilities = []
    for x, score in zip(e3(), (95, 96), strict=True):
        covariance = fastimpl.stable_covariance(x, 10, 98, edition=PRINTED)
        mean = fastimpl.stable_mean(x, covariance, 10, 98, coins.reference, edition=PRINTED)
        assert covariance.score == score
        assert mean.score <= 20
        z = max(covariance.score, mean.score)
        p, delta = parameters, parameters.test_delta
        probabilities.append(fastimpl.ptr_pass_probability(z, p.test_epsilon, delta, edition=PRINTED))
    assert probabilities[0] == pytest.approx(0.1017, abs=1e-4)
    assert probabilities[1] == 0.0


def test_the_mean_stage_takes_the_exact_covariance() -> None:
    """Sigma = 2/3: rows 0 and 2 are at squared distance 6 = 2 Lambda_0 exactly, and fl(2/3) is below 2/3."""
    x = np.zeros((60, 1))
    x[:20], x[20:25] = 1.0, 2.0
    reference = [0, 20, 21, 30, 31, 32, 33]
    covariance = fastimpl.stable_covariance(x, 3, 1)
    assert covariance.covariance[0, 0] == pytest.approx(2 / 3, rel=1e-15)
    assert fastimpl.stable_mean(x, covariance, 3, 1, reference).score == 0
    assert fastimpl.stable_mean(x, np.array([[2 / 3]]), 3, 1, reference).score == 1
    assert len(fastimpl.largest_core(x, covariance, 3, 7, reference)) == 60
    assert len(fastimpl.largest_core(x, np.array([[2 / 3]]), 3, 7, reference)) == 20


def brute_force_levels(x: Rows, sigma: Rows, lam: float, k: int, reference: list[int]) -> NDArray[np.int64]:
    """Levels by the definition in float64: right where nothing is near a threshold."""
    n = len(x)
    z = np.linalg.solve(np.linalg.cholesky(sigma), x.T).T
    squares = ((z[:, None, :] - z[None, reference, :]) ** 2).sum(axis=2)
    limits = 2 * lam * (1 - 50 / 9 * lam / n) ** -np.arange(2.0 * k + 1)
    far = (squares[:, :, None] > limits).sum(axis=1)
    inside = far <= np.arange(2 * k + 1)
    return np.where(inside.any(axis=1), inside.argmax(axis=1), 2 * k + 1)


@pytest.mark.parametrize("lam", [3.3, 9.7])
def test_blocks_and_levels_agree_with_the_definition(lam: float) -> None:
    rng, step = np.random.default_rng(1), read_rows(3)
    x = rng.normal(size=(3 * step + 17, 3)) * [1.0, 1e3, 1e-3]
    x[:: step // 3] *= 4
    x[5], x[-1] = 1e9, 1e100
    reference = sorted([5, *rng.choice(len(x) - 1, 60, replace=False).tolist()])
    sigma = np.diag([1.0, 2.0**20, 2.0**-20])
    result = fastimpl.stable_mean(x, sigma, lam, 9, reference)
    found = result.entry_level
    expected = brute_force_levels(x, sigma, lam, 9, reference)
    assert np.array_equal(found, expected)
    assert len(set(found.tolist())) > 10
    held = result.weights > 0
    assert np.allclose(result.mean, result.weights[held] @ x[held], rtol=1e-11, atol=1e-15)


def test_far_rows_of_full_weight_are_in_the_mean() -> None:
    """The thresholds rise so fast that rows which the sums of blocks leave out at first belong to every core that counts."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(600, 3))
    x[::60] *= (np.linspace(60, 200, 10) / np.linalg.norm(x[::60], axis=1))[:, None]
    first = fastimpl.stable_covariance(x, 30, 9)
    levels = np.where(np.arange(300) % 60 == 0, 19, 0)  # a metric without them
    reference = (np.arange(50) * 12 + 1).tolist()
    result = fastimpl.stable_mean(x, replace(first, entry_level=levels), 54, 9, reference)
    assert len(set(result.weights)) == 1
    assert np.allclose(result.mean, x.mean(axis=0), rtol=1e-12, atol=1e-15)


def test_memory_is_a_block_and_not_a_matrix() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40000, 2))
    reference = sorted(rng.choice(40000, 500, replace=False).tolist())
    covariance = fastimpl.stable_covariance(x, 20, 30)
    tracemalloc.start()
    fastimpl.stable_mean(x, covariance, 20, 30, reference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # the matrix of distances would take 160e6


def bytes_a_row(job: Callable[[Rows], object], make: Callable[[int], Rows]) -> float:
    """What each row more adds to the peak, the result included: what does not grow is in both of two peaks."""
    peaks = []
    for n in (60_000, 120_000):
        x = make(n)
        tracemalloc.start()
        job(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / 60_000


UNUSUAL: dict[str, tuple[Callable[[int], Rows], Rows]] = {
    "heavy": (lambda n: np.random.default_rng(n).standard_t(2, size=(n, 2)), np.eye(2)),
    "ties": (lambda n: np.random.default_rng(n).choice([-2.0, -1.0, 1.0, 2.0], size=(n, 2)), np.diag([1.0, 2.5])),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_a_row_takes_ten_bytes_where_most_have_unusual_levels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of its weight and two of its level. With small parts, so that nothing else grows at these sizes."""
    for room, name in ((rows, "_PART"), (mean, "_CAREFULLY"), (mean, "_TOGETHER"), (mean, "_MOST_KNOWN")):
        monkeypatch.setattr(room, name, 4096)
    make, sigma = UNUSUAL[kind]
    reference = list(range(0, 400, 7))
    levels = fastimpl.stable_mean(make(60_000), sigma, 5, 12, reference).entry_level
    assert np.bincount(levels).max() < 0.5 * len(levels)
    assert bytes_a_row(lambda x: fastimpl.stable_mean(x, sigma, 5, 12, reference), make) <= 10


@pytest.mark.parametrize("kind", UNUSUAL)
def test_a_pair_takes_ten_bytes_where_most_leave(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The covariance stage, which has half as many pairs as rows."""
    for room, name in (rows, "_PART"), (rows, "_MOST_READ"), (covariance, "_LARGE_BLOCK"), (covariance, "_TOGETHER"):
        monkeypatch.setattr(room, name, 4096)
    monkeypatch.setattr(covariance, "_AT_ONCE", 1)
    make, _ = UNUSUAL[kind]
    levels = fastimpl.stable_covariance(make(60_000), 3, 12).entry_level
    assert np.count_nonzero(levels) > 0.5 * len(levels)
    assert bytes_a_row(lambda x: fastimpl.stable_covariance(x, 3, 12), make) <= 5


def differences(y: Rows) -> Rows:
    """Rows whose paired rows are these, up to a common factor."""
    return np.concatenate([y, np.zeros_like(y)])


def on_a_sphere(n: int) -> Rows:
    y = np.random.default_rng(n).normal(size=(n // 2, 10))
    return differences(y / np.linalg.norm(y, axis=1)[:, None])


def in_a_ball(n: int) -> Rows:
    return on_a_sphere(n) * np.tile(np.linspace(0, 1, n // 2) ** 0.1, 2)[:, None]


CROWDED: dict[str, tuple[Callable[[int], Rows], Fraction, int]] = {
    "ties": (lambda n: differences(np.tile([[1.0], [-1.0], [0.0], [1.0]], (n // 8, 1))), Fraction(4, 3), 5000),
    "all equal": (lambda n: differences(np.tile([[1.0, 1.0], [-1.0, 1.0]], (n // 4, 1))), Fraction(2), 5000),
    "nearly equal": (on_a_sphere, Fraction(102, 10), 600),
    "many levels": (in_a_ball, Fraction(121, 10), 192),
    "normal": (lambda n: np.random.default_rng(n).normal(size=(n, 2)), Fraction(2), 600),
    "heavy": (lambda n: np.random.default_rng(n).standard_t(2, size=(n, 10)), Fraction(15), 600),
}


@pytest.mark.parametrize("kind", CROWDED)
def test_a_pair_takes_ten_bytes_where_most_are_candidates(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they stay or not: the bounds of all of them would take eight bytes for each column, and fifty more."""
    for room, name in (rows, "_PART"), (rows, "_MOST_READ"), (covariance, "_LARGE_BLOCK"), (covariance, "_TOGETHER"):
        monkeypatch.setattr(room, name, 4096)
    for name in "_AT_ONCE", "_MOST_SUSPECTS", "_ROOM":
        monkeypatch.setattr(covariance, name, 4096)
    monkeypatch.setattr(sums, "_NUMBERS", 4096)
    make, lam, rows_a_level = CROWDED[kind]
    assert bytes_a_row(lambda x: fastimpl.stable_covariance(x, lam, len(x) // rows_a_level), make) <= 6


def test_outliers_of_every_size_leave_one_by_one() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 3))
    scales = [1e3, 1e5, 1e9, 1e17, 1e60, 1e150, 1e250, 1e300, 1.5e307]
    for i, scale in enumerate(scales):
        x[i] = rng.choice([-1, 1], 3) * scale
    result = fastimpl.stable_covariance(x, 30, 10)
    assert result.score == len(scales)
    assert set(np.flatnonzero(result.entry_level).tolist()) == set(range(len(scales)))
    assert fastimpl.stable_mean(x, result, 60, 10, list(range(100, 200))).score == len(scales)
    assert fastimpl.stable_mean(x, result, 60, 10, list(range(2, 100))).score == 10  # seven of them in R
    assert np.isfinite(result.covariance).all()


def test_nearly_singular_by_one_ulp() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3000, 3))
    x[:, 2] = x[:, 1] * (1 + rng.integers(0, 2, 3000) * 2.0**-52)
    result = fastimpl.stable_covariance(x, 60, 5)
    assert result.score < 5
    with certified.audit() as counts:
        mean = fastimpl.stable_mean(x, result, 60, 5, list(range(40)))
    assert mean.score < 5
    assert counts["F3"] >= 3000
    assert counts["exact"] < 10


@pytest.mark.parametrize("offset", [1e6, 1e12, 1e300])
def test_two_far_clusters_fail_in_the_mean_stage(offset: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 2))
    x[:500] += offset
    x[1000:1500] = x[:500] if offset == 1e300 else x[1000:1500] + offset
    covariance = fastimpl.stable_second_moment(rng.normal(size=(1000, 2)), 30, 4)
    mean = fastimpl.stable_mean(x, np.asarray(covariance.covariance), 30, 4, list(range(0, 2000, 50)))
    assert mean.score == 4
    assert set(mean.entry_level.tolist()) == {9}


def test_more_dimensions_than_rows_fail() -> None:
    x = np.random.default_rng(6).normal(size=(60, 100))
    result = fastimpl.stable_covariance(x, 500, 3)
    assert result.score == 3
    assert set(result.entry_level.tolist()) == {7}
    mean = fastimpl.stable_mean(x, result, 5, 3, list(range(20)))
    assert (mean.score, mean.mean.any(), set(mean.entry_level.tolist())) == (3, False, {7})


def test_many_dimensions_on_the_exact_path() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(400, 25))
    x[:, 24] = x[:, 23] + 2.0**-30 * rng.integers(-1, 2, 400)
    with certified.audit() as counts:
        assert fastimpl.stable_covariance(x, 200, 3).score == 0
    assert counts["exact"] == 1  # the rank


def test_all_rows_equal_and_all_rows_zero() -> None:
    for value in (0.0, 1.0, 5e-324, 1.7e308):
        x = np.full((50, 2), value)
        assert fastimpl.stable_covariance(x, 10, 2).score == 2
        line = np.full((50, 1), value)
        assert len(fastimpl.largest_good_subset(line, 1)) == (0 if value == 0 else 50)
        assert fastimpl.largest_good_subset(line, 1 - Fraction(1, 10**25)) == frozenset()
        assert len(fastimpl.largest_good_subset(line, 2)) == (0 if value == 0 else 50)
