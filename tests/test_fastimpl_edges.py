"""Differential testing against refimpl where the float filter is least sure, and proof that both of its paths are at work.

Each family of ``edges`` is one test. It says how many comparisons each stage decided (``record_property``: in the JUnit report,
and printed under ``--nightly``), and fails if that is none for one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from deleted import decide_open_ones, delete_float_path
from edges import (
    FAMILIES,
    Edge,
    Family,
    core_thresholds,
    distance_threshold,
    edges,
    moved_apart,
    norm_threshold,
    spd_like,
)
from hypothesis import Phase, given, settings

import fastimpl
import refimpl
from fastimpl import certified
from fastimpl.covariance import level_counts, paired_result
from fastimpl.mean import mean_result
from fastimpl.rows import pairs
from refimpl.linalg import exact_matrix
from refimpl.mean import exact_covariance
from refimpl.parameters import REPAIRED

STAGES = ("covariance float", "covariance exact", "mean float", "mean direct", "mean exact")
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)


def counted(stage: str, decided: Counter[str], run: Callable[[], Any]) -> Any:
    """The result of a run, whose comparisons are counted."""
    with certified.audit() as tally:
        result = run()
    decided.update({f"{stage} {name}": count for name, count in tally.items()})
    return result


def same_levels(fast: Any, exact: Any) -> None:
    assert tuple(fast.entry_level) == exact.entry_level, "levels differ"
    assert fast.score == exact.score, "scores differ"
    assert np.allclose(fast.weights, [float(w) for w in exact.weights], rtol=1e-14, atol=0)


def covariance_stage(edge: Edge, decided: Counter[str]) -> tuple[Any, Any]:
    """Both results, equal; and the one that halts early owes the score and, below k, the counts."""
    lam, k = norm_threshold(edge), edge.k
    fast = counted("covariance", decided, lambda: fastimpl.stable_covariance(edge.x, lam, k))
    exact = refimpl.stable_covariance(edge.x, lam, k)
    same_levels(fast, exact)
    early = paired_result(pairs(edge.x), lam, k, REPAIRED, early=True)
    assert early.score == fast.score
    if early.score < k:
        levels = REPAIRED.weight_levels(k, None)
        early_counts, counts = (
            level_counts(np.asarray(result.entry_level, dtype=np.int64), levels) for result in (early, fast)
        )
        assert np.array_equal(early_counts, counts)
    return fast, exact


def mean_stage(edge: Edge, x: Any, fast: Any, exact: Any, decided: Counter[str]) -> None:
    """The same for the mean of x, ``fast`` and ``exact`` standing for one covariance."""
    at = Edge(x, edge.k, edge.norm, edge.distance, edge.reference)
    lam, k = distance_threshold(at, exact_covariance(exact_matrix("x", x), exact, edge.k)), edge.k
    found = counted("mean", decided, lambda: fastimpl.stable_mean(x, fast, lam, k, edge.reference))
    same_levels(found, refimpl.stable_mean(x, exact, lam, k, edge.reference))
    early = mean_result(x, fast, lam, k, np.array(edge.reference), REPAIRED, early=True)
    assert early.score == found.score
    if early.score < k:
        assert np.array_equal(early.entry_level, found.entry_level)


def cores(edge: Edge, decided: Counter[str]) -> None:
    """LargestCore of rows in two places: distances within one are small differences of large lengths."""
    x, sigma = moved_apart(edge.x), spd_like(edge.x)
    lam, tau = core_thresholds(edge, x, sigma)
    core = counted("mean", decided, lambda: fastimpl.largest_core(x, sigma, lam, tau, edge.reference))
    assert core == refimpl.largest_core(x, sigma, lam, tau, edge.reference), "levels differ"


def decisions(family: Family, examples: int | None = None) -> Counter[str]:
    """Run cases of a family, all equal to refimpl, and count who decided. Few examples are not shrunk when they fail."""
    decided: Counter[str] = Counter()

    def case(edge: Edge) -> None:
        decided["cases"] += 1
        fast, exact = covariance_stage(edge, decided)
        mean_stage(edge, edge.x, fast, exact, decided)
        mean_stage(edge, edge.x, spd_like(edge.x), spd_like(edge.x), decided)
        cores(edge, decided)

    run = given(edges(family))(case)
    (settings(max_examples=examples, phases=[Phase.generate])(run) if examples else run)()
    return decided


def all_stages(family: Family, examples: int | None = None) -> Counter[str]:
    decided = decisions(family, examples)
    for stage in STAGES:
        assert decided[stage] > 0, f"{family.__name__}: {stage} decided nothing in {decided['cases']} cases"
    return decided


@each_family
def test_every_stage_decides_and_decides_as_exact_arithmetic(
    family: Family, record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> None:
    decided = all_stages(family)
    for name, count in sorted(decided.items()):
        record_property(name, count)
    if request.config.getoption("--nightly"):
        print(f"{family.__name__}: {dict(sorted(decided.items()))}")


def test_there_are_as_many_cases_as_promised() -> None:
    profiles = {name: settings.get_profile(name).max_examples for name in ("ci", "nightly")}
    assert profiles["ci"] * len(FAMILIES) >= 500
    assert profiles["nightly"] * len(FAMILIES) >= 20_000


@pytest.mark.needs_no_floats
@each_family
def test_no_family_stays_green_without_the_float_path(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_float_path(monkeypatch)
    with pytest.raises(AssertionError, match="float decided nothing"):
        all_stages(family, 12)


@pytest.mark.needs_no_floats
@each_family
@pytest.mark.parametrize("out", [False, True], ids=["in", "out"])
def test_no_family_stays_green_without_the_exact_path(
    family: Family, out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_open_ones(monkeypatch, out=out)
    with pytest.raises(AssertionError, match="levels differ"):
        decisions(family, 30)
