"""Two flawed codes of third parties are refuted by search alone, with shrunk pairs; the same codes without the flaw are not."""

from __future__ import annotations

import numpy as np
import pytest
from flawed.coremean import core_mean

from proofs_checks.audit import PROFILES, Outcome, run_check
from proofs_checks.lemma import LEMMAS
from proofs_checks.target import load_target

COVARIANCE = ("good_subsets_are_good", "covariance_weights_are_stable", "covariance_stage_equals_refimpl")
MEAN = ("mean_weights_are_stable", "mean_stage_equals_refimpl")
FLAWED = [*((check, "shared_levels") for check in COVARIANCE), *((check, "zero_mean") for check in MEAN)]
FIXED = [*((check, "fixed_levels") for check in COVARIANCE), *((check, "fixed_mean") for check in MEAN)]


@pytest.fixture(autouse=True)
def nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pinned case: whatever refutes was found by the search."""
    monkeypatch.setattr("proofs_checks.audit.pinned_cases_for", lambda *_: [])


def searched(check: str, target: str) -> Outcome:
    return run_check(LEMMAS[check], load_target(f"flawed.adapters:{target}"), PROFILES["quick"])


@pytest.mark.parametrize(("check", "target"), FLAWED)
def test_a_flaw_is_found_by_search_and_shrunk(check: str, target: str) -> None:
    outcome = searched(check, target)
    assert outcome.verdict == "refuted", outcome.note
    assert outcome.case.d == 1
    assert outcome.case.k <= 3
    assert outcome.case.n <= 60
    assert outcome.departure is not None
    assert outcome.departure.stage == {"shared_levels": "subset", "zero_mean": "weights"}[target]


@pytest.mark.parametrize(("check", "target"), FIXED)
def test_the_codes_without_the_flaw_hold(check: str, target: str) -> None:
    outcome = searched(check, target)
    assert outcome.verdict == "held", (outcome.claim, outcome.note)


def test_data_of_mean_zero_hide_the_clipped_weights() -> None:
    x = np.array([[1.0], [-1.0]] * 30)
    flawed, fixed = (core_mean(x, np.eye(1), 2.0, 1, range(60), cap=cap)[0].item() for cap in (None, np.inf))
    assert (flawed, fixed) == (0, 0)
    flawed, fixed = (core_mean(x + 5, np.eye(1), 2.0, 1, range(60), cap=cap)[0].item() for cap in (None, np.inf))
    assert flawed == 0
    assert fixed == pytest.approx(5)
