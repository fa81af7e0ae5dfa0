"""How fast refimpl checks one adjacent pair, both stages: ``pytest tests/bench_refimpl.py`` (not part of a test run).

The targets, on one core: at n = 480, d = 2, k = 4, two pairs a second with 25 reference points, and one pair in two seconds
with 434. Time is that of the process, so that a busy machine changes little.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import refimpl

N, D, K, LAMBDA_0 = 480, 2, 4, 6


def adjacent_pair() -> tuple[Any, Any]:
    """Normal rows on a grid of 1/256, two of them far away, one of the others replaced."""
    x = np.round(np.random.default_rng(2).normal(size=(N, D)) * 256) / 256
    x[:2] = [[40, -3], [7, 500]]
    x_prime = x.copy()
    x_prime[5] = [9, 9]
    return x, x_prime


def scores(x: Any, reference: list[int]) -> tuple[int, int]:
    covariance = refimpl.stable_covariance(x, LAMBDA_0, K)
    return covariance.score, refimpl.stable_mean(x, covariance, LAMBDA_0, K, reference).score


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize(("size", "seconds"), [(25, 0.5), (434, 2.0)])
def test_one_adjacent_pair(benchmark: Any, size: int, seconds: float) -> None:
    pair = adjacent_pair()
    reference = np.random.default_rng(1).permutation(N)[:size].tolist()
    found = benchmark.pedantic(lambda: [scores(x, reference) for x in pair], rounds=3, warmup_rounds=1)
    assert max(abs(a - b) for a, b in zip(*found, strict=True)) <= 2
    assert benchmark.stats.stats.min <= seconds
