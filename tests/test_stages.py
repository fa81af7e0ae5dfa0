"""A fault of each stage is found at that stage, on the case that refutes the target, and every report says so."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from mutants import FAULTLESS, MUTANTS
from mutants.sharp import SHARP_MUTANTS
from rich.console import Console

import refimpl
from proofs_checks import formats, page, report
from proofs_checks.audit import PROFILES, Outcome, TargetRaisedError, examine, pinned_cases_for, run_check
from proofs_checks.lemma import LEMMAS, Violation
from proofs_checks.plugin import _explain
from proofs_checks.privacy import E3_FULL, Plane
from proofs_checks.ptr import E1
from proofs_checks.sharp import PAIRS as SHARP_PAIRS
from proofs_checks.stages import SHARP_RELEASES, STAGES, Departure, first_departure, inputs_of
from proofs_checks.target import Target, load_target
from refimpl.parameters import SHARP
from refimpl.results import TestCoin

FAULTS = [
    ("pairing", "no_pairing", "well_concentrated_data_pass"),
    ("pairing", "pairs_with_the_next_row", "larger_score_sensitivity"),
    ("pairing", "odd_row_is_paired_again", "well_concentrated_data_pass"),
    ("norm", "norms_are_not_squared", "good_subsets_are_good"),
    ("norm", "sigma_is_not_inverted", "good_subsets_are_good"),
    ("norm", "singular_is_regularized", "good_subsets_are_good"),
    ("subset", "single_pass", "good_subsets_are_good"),
    ("subset", "strict_for_non_strict", "good_subsets_are_good"),
    ("subset", "divides_by_subset_size", "good_subsets_intertwine"),
    ("subset", "outlier_threshold_doubled", "good_subsets_are_good"),
    ("subset", "levels_start_from_the_last_set", "good_subsets_intertwine"),
    ("weights", "weights_from_levels_k_on", "covariance_weights_are_stable"),
    ("weights", "weights_are_normalized", "covariance_weights_are_stable"),
    ("weights", "mean_weights_do_not_sum_to_one", "mean_weights_are_stable"),
    ("covariance", "covariance_not_halved", "well_concentrated_data_pass"),
    ("covariance", "covariance_is_centred", "covariance_weights_are_good"),
    ("core", "distance_threshold_doubled", "cores_are_largest_cores"),
    ("core", "mean_sigma_is_not_inverted", "well_concentrated_data_pass"),
    ("core", "last_row_ignored", "well_concentrated_data_pass"),
    ("mean", "zero_mean", "mean_weights_are_a_core"),
    ("score", "scores_by_level_sizes", "covariance_score_sensitivity"),
    ("score", "mean_scores_by_level_sizes", "mean_score_sensitivity"),
    ("test", "steep_law", "fail_is_private"),
    ("test", "tau_without_four", "pass_is_private"),
    ("test", "size_gate_is_dropped", "gate_and_noise_in_the_plane"),
    ("noise", "noise_factor_is_transposed", "gate_and_noise_in_the_plane"),
    ("subset", "strict_for_non_strict", "certified_decisions_equals_refimpl"),
    ("core", "mean_strict_for_non_strict", "certified_decisions_equals_refimpl"),
]
SLOW = [
    ("test", "coin_always_passes", "release_follows_the_test"),
    ("test", "test_adds_the_scores", "release_follows_the_test"),
    ("noise", "noise_variance_as_deviation", "release_has_the_stated_noise"),
    ("noise", "release_without_the_mean", "release_has_the_stated_noise"),
]


SHARP_FAULTS = [
    ("lift", "sharp_rows_are_not_lifted"),
    ("norm", "sharp_ridge"),
    ("subset", "sharp_divides_by_subset_size"),
    ("score", "sharp_score_by_sum"),
    ("weights", "sharp_window_starts_at_0"),
    ("covariance", "sharp_scatter_about_zero"),
    ("mean", "sharp_mean_divided_by_n"),
]


def refuting_case(check: str, target: Target) -> Any:
    for case in pinned_cases_for(LEMMAS[check], target):
        try:
            examine(LEMMAS[check], target, case)
        except Violation:
            return case
    raise AssertionError(f"{check} does not refute {target.name}")


def mutant(name: str) -> Target:
    return Target(name, MUTANTS[name].implementation, most_rows=refimpl.MOST_ROWS)


def only(target: Any, *names: str) -> Target:
    return Target("a part of it", SimpleNamespace(**{name: getattr(target, name) for name in names}))


def test_there_is_a_fault_of_every_stage() -> None:
    assert {stage for stage, *_ in (*FAULTS, *SHARP_FAULTS)} == set(STAGES)
    schema = formats.record_schema()["$defs"]["outcome"]["properties"]["departs_at"]
    assert tuple(schema["properties"]["stage"]["enum"]) == STAGES


@pytest.mark.parametrize(("stage", "fault", "check"), FAULTS)
def test_a_fault_is_found_at_its_stage(stage: str, fault: str, check: str) -> None:
    target = mutant(fault)
    found = first_departure(target, refuting_case(check, target))
    assert found is not None
    assert (found.stage, found.unseen) == (stage, ()), str(found)


@pytest.mark.parametrize(("stage", "fault"), SHARP_FAULTS)
def test_a_fault_of_sharp_is_found_at_its_stage(stage: str, fault: str) -> None:
    found = first_departure(Target(fault, SHARP_MUTANTS[fault].implementation, SHARP), SHARP_PAIRS["crossing"]())
    found = found or first_departure(Target(fault, SHARP_MUTANTS[fault].implementation, SHARP), None)
    assert found is not None
    assert (found.stage, found.part, found.unseen) == (stage, "one stage of SHARP", ())


SHARP_RELEASE_FAULTS = [
    ("test", "sharp_coin_always_passes"),
    ("test", "sharp_law_of_the_next_score"),
    ("noise", "sharp_noise_variance_as_deviation"),
    ("noise", "sharp_release_without_noise"),
]


@pytest.mark.parametrize(("stage", "fault"), SHARP_RELEASE_FAULTS)
def test_a_fault_of_sharps_test_or_noise_is_found_there(stage: str, fault: str) -> None:
    whole = SHARP_MUTANTS[fault].implementation
    found = first_departure(Target(fault, whole, SHARP), SHARP_RELEASES[1])
    assert found is not None
    assert (found.stage, found.part, found.unseen) == (stage, "release of SHARP", ()), str(found)
    found = first_departure(Target(fault, only(whole, "private_mean_given").implementation, SHARP), None)
    assert found is not None
    assert (found.stage, found.part) == (stage, "release of SHARP"), str(found)
    assert found.unseen == ("lift", "norm", "subset", "score", "weights", "mean", "covariance")


def sharp_releases(**changes: Any) -> Target:
    """refimpl's releases of SHARP and nothing else, some of them changed."""
    names = ("private_mean_given", "private_covariance_given", "private_gaussian_given")
    return Target("releases", SimpleNamespace(**{name: getattr(refimpl, name) for name in names} | changes), SHARP)


def more_draws(x: Any, parameters: Any, coins: Any) -> Any:
    return refimpl.private_covariance_given(x, replace(parameters, samples=2 * parameters.samples), coins)


def always_passing(x: Any, parameters: Any, coins: Any) -> Any:
    sure = replace(coins, mean=replace(coins.mean, test=TestCoin(0, bytes(32))))
    return refimpl.private_gaussian_given(x, parameters, sure)


def unweighted(x: Any, parameters: Any, coins: Any) -> Any:
    p = parameters
    if refimpl.private_mean_given(x, p, coins).mean is None:
        return SimpleNamespace(mean=None)
    moments, mean = refimpl.stable_moments(x, p.lambda_0, p.k, p.window), [Fraction(v) for v in x.mean(axis=0)]
    return SimpleNamespace(mean=refimpl.gaussian_release(mean, moments.covariance, p.noise_scale, coins.normals))


@pytest.mark.parametrize(
    ("stage", "name", "fault"),
    [
        ("noise", "private_covariance_given", more_draws),
        ("test", "private_gaussian_given", always_passing),
        ("mean", "private_mean_given", unweighted),
    ],
)
def test_a_target_that_only_releases_is_looked_at_by_its_releases(stage: str, name: str, fault: Any) -> None:
    found = first_departure(sharp_releases(**{name: fault}), None)
    assert found is not None
    assert (found.stage, found.part) == (stage, "release of SHARP"), str(found)


def test_sharp_without_a_fault_departs_nowhere() -> None:
    assert first_departure(sharp_releases(), None) is None
    assert first_departure(load_target("fastimpl", SHARP), None) is None
    assert first_departure(Target("the specification", refimpl, SHARP), None) is None


@pytest.mark.nightly
@pytest.mark.parametrize(("stage", "fault", "check"), SLOW)
def test_a_fault_of_a_whole_run_is_found_at_its_stage(stage: str, fault: str, check: str) -> None:
    test_a_fault_is_found_at_its_stage(stage, fault, check)


@pytest.mark.parametrize("target", [Target("faultless", FAULTLESS), load_target("fastimpl")], ids=lambda t: t.name)
@pytest.mark.parametrize(
    "check",
    [
        "mean_weights_are_stable",
        "good_subsets_are_good",
        "larger_score_sensitivity",
        "certified_decisions_equals_refimpl",
    ],
)
def test_without_a_fault_no_stage_departs(target: Target, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = pinned_cases_for(LEMMAS[check], target)[:4]
    monkeypatch.setattr("proofs_checks.stages._known_cases", lambda _edition: iter(known))
    assert first_departure(target, Plane(1, 1, 0)) is None


def test_a_target_with_less_is_looked_at_by_what_it_has() -> None:
    fault = MUTANTS["sigma_is_not_inverted"].implementation
    case = refuting_case("good_subsets_are_good", mutant("sigma_is_not_inverted"))
    for name in ("stable_second_moment", "largest_good_subset", "stable_covariance"):
        found = first_departure(only(fault, name), case)
        assert found is not None, name
        assert found.stage == "norm", name
        assert found.unseen == (() if name == "stable_covariance" else ("pairing",))
    mean = only(MUTANTS["zero_mean"].implementation, "stable_mean")
    found = first_departure(mean, refuting_case("mean_weights_are_a_core", mutant("zero_mean")))
    assert found is not None
    assert (found.stage, found.unseen) == ("mean", ("pairing", "norm", "subset", "weights", "covariance"))
    assert "not offered, and so not looked at before: pairing, norm" in str(found)


def test_a_case_that_is_too_large_is_replaced_by_small_ones() -> None:
    target = mutant("zero_mean")
    assert inputs_of(E3_FULL, target) == []
    found = first_departure(target, E3_FULL)
    assert found is not None
    assert found.stage == "mean"


def test_where_a_target_raises_is_where_it_departs() -> None:
    def fails(*_arguments: Any) -> Any:
        raise SystemExit("no license")

    target = Target("raises", SimpleNamespace(stable_second_moment=refimpl.stable_second_moment, stable_mean=fails))
    case = pinned_cases_for(LEMMAS["mean_weights_are_stable"], target)[0]
    with pytest.raises(TargetRaisedError, match="no license"):
        examine(LEMMAS["mean_weights_are_stable"], target, case)
    found = first_departure(target, case)
    assert found is not None
    assert (found.stage, found.what) == ("core", "raised SystemExit: no license")


# In the reports -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run_check(LEMMAS["mean_weights_are_a_core"], mutant("zero_mean"), PROFILES["quick"])


def test_an_outcome_says_where_the_target_departs(outcome: Outcome) -> None:
    assert outcome.verdict == "refuted"
    assert outcome.departure is not None
    assert outcome.departure.stage == "mean"
    assert outcome.seconds > 0


def test_nothing_departs_where_nothing_is_wrong() -> None:
    held = run_check(LEMMAS["good_subsets_are_nested"], load_target("fastimpl"), PROFILES["quick"])
    assert (held.verdict, held.departure) == ("held", None)


def test_every_report_names_the_stage(outcome: Outcome) -> None:
    record = formats.as_record([outcome], profile="quick", seed=0)
    jsonschema.validate(record, formats.record_schema())
    (entry,) = record["outcomes"]
    assert entry["departs_at"]["stage"] == "mean"
    words = "First departure from refimpl: mean, in the mean stage: entry 0: 0 =="
    (result,) = json.loads(formats.as_sarif(record))["runs"][0]["results"]
    assert words in result["message"]["text"]
    assert result["properties"]["departs_at"]["stage"] == "mean"
    assert words in formats.as_markdown(record).replace("\\", "")
    assert "REFUTED, departs at: mean |" in formats.as_markdown(record)
    failure = ET.fromstring(formats.as_junit(record)).find(".//failure")
    assert failure is not None
    assert words in (failure.get("message") or "")
    html = page.as_html(record)
    assert "First departure from refimpl: <b>mean</b> in the mean stage: entry 0" in html
    assert "REFUTED, departs at: mean" in html
    console = Console(width=300, record=True, file=io.StringIO())
    report.print_table([outcome], console)
    report.print_counterexample(outcome, console)
    text = console.export_text()
    assert "REFUTED, departs at: mean" in text
    assert "first departure from refimpl: mean, in the mean stage" in text
    assert "first departure from refimpl: mean" in _explain(outcome)


def test_a_stage_that_is_not_found_is_no_reason_to_lose_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: Any) -> Departure:
        raise ArithmeticError("of ours")

    monkeypatch.setattr("proofs_checks.audit.first_departure", fails)
    outcome = run_check(LEMMAS["mean_weights_are_a_core"], mutant("zero_mean"), PROFILES["quick"])
    assert (outcome.verdict, outcome.departure) == ("refuted", None)
    assert "the stage was not found: ArithmeticError: of ours" in outcome.note


def test_numbers_of_any_make_are_read() -> None:
    case = E1[0]
    assert inputs_of(case, Target("fastimpl", None)) == []
    for law in (
        lambda *a, **k: float(refimpl.ptr_pass_probability_at_growth(*a, **k)),
        lambda *_a, **_k: np.float64(2),
    ):
        target = Target("law", SimpleNamespace(ptr_pass_probability_at_growth=law), rounding=Fraction("1e-9"))
        found = first_departure(target, case)
        assert (found is None) == (float(law(0, Fraction("3/2"), Fraction("1/4"))) == 1)
