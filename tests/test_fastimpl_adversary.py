"""The data of ``search_slow``, which cost fastimpl the most: small ones are decided as by refimpl, and the search runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import search_slow
from search_slow import FAMILIES, THRESHOLDS, Family, cost, search

import fastimpl
import refimpl
from fastimpl import certified

CASES = [
    pytest.param(n, d, threshold, family, id=f"{n}-{d}-{threshold}-{family.__name__}")
    for (n, d), threshold, family in product([(98, 2), (96, 3)], THRESHOLDS, FAMILIES)
    # With three columns and an exact threshold nothing of these is left to floats.
    if family is not search_slow.thin_ties or d == 2 or threshold not in {"first norm", "largest distance"}
]


@pytest.mark.parametrize(("n", "d", "threshold", "family"), CASES)
def test_what_costs_much_is_right(
    n: int, d: int, threshold: str, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = 3
    monkeypatch.setattr(search_slow, "K", k)
    monkeypatch.setattr(search_slow, "REFERENCE", 20)
    with np.errstate(all="ignore"):
        x = family(np.random.default_rng(n), n, d)
    lambda_0 = THRESHOLDS[threshold](x) or 5.0
    lambda_0 = min(max(lambda_0, 0.5), n / 6)
    with certified.audit() as decided:
        fast = fastimpl.stable_covariance(x, lambda_0, k)
    assert decided.total() > 1, "only the rank was asked for: the rows are dependent"
    exact = refimpl.stable_covariance(x, lambda_0, k)
    assert tuple(fast.entry_level) == exact.entry_level
    reference = list(range(1, 21))
    fast_mean = fastimpl.stable_mean(x, fast, lambda_0, k, reference)
    exact_mean = refimpl.stable_mean(x, exact, lambda_0, k, reference)
    assert tuple(fast_mean.entry_level) == exact_mean.entry_level
    assert (fast.score, fast_mean.score) == (exact.score, exact_mean.score)


def test_the_search_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert search((4096, 3), 5, ["clean", "signs"]) > 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * len(THRESHOLDS)


def test_a_job_over_its_limit_is_said_to_be() -> None:
    def endless(rng: np.random.Generator, n: int, d: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        while True:
            rng.normal(size=(n, d))

    assert cost(endless, "50", (10, 1), 1) == (1.0, 0.0, {})
