"""The shipped test vectors: written by refimpl as they stand, held by fastimpl without grace, and checked by the command."""

# ruff: noqa: ARG001, ARG005 - made-up targets look at nothing

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from vector_faults import FAULTS

import fastimpl
import refimpl
from proofs_checks import __main__ as command
from proofs_checks import report
from proofs_checks.audit import PROFILES, run_check
from proofs_checks.formats import record_schema
from proofs_checks.lemma import LEMMAS
from proofs_checks.target import Target, load_target
from proofs_checks.vectors.answers import closeness, departure, encode_answer
from proofs_checks.vectors.check import as_report, check_vector, has_float_ties
from proofs_checks.vectors.counterexamples import check_counterexample
from proofs_checks.vectors.encoding import decode_input, encode_input, hex_text, ranges, runs, unrun
from proofs_checks.vectors.families import aims
from proofs_checks.vectors.groups import GROUPS
from proofs_checks.vectors.shipped import (
    SCHEMA_NAME,
    Vector,
    group_files,
    read_folder,
    shipped_folder,
    vector_schema,
)

Run = Callable[..., tuple[int, str]]
LEAST = 1500


@cache
def vectors() -> tuple[Vector, ...]:
    return tuple(read_folder(shipped_folder())[0])


@cache
def entries() -> dict[str, dict[str, Any]]:
    """The files as they stand."""
    paths = [path for path in shipped_folder().glob("*.json") if path.name != SCHEMA_NAME]
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


# The set --------------------------------------------------------------------------------------------------------------


def test_the_files_are_what_refimpl_writes_now() -> None:
    written = dict(group_files())
    assert sorted(written) == sorted(entries())
    stale = [name for name, text in written.items() if (shipped_folder() / name).read_text(encoding="utf-8") != text]
    assert stale == [], "write them anew: bhs23-audit vectors write proofs_checks/vectors/shipped"


def test_there_are_enough_and_they_are_small() -> None:
    assert len(vectors()) >= LEAST
    assert sum(path.stat().st_size for path in shipped_folder().iterdir()) < 3_000_000
    assert {vector.group for vector in vectors()} == set(GROUPS)
    for edition in ("PRINTED", "REPAIRED"):
        assert sum(vector.input.get("edition") == edition for vector in vectors()) > 100


def test_the_files_obey_their_schema() -> None:
    schema = vector_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema["$defs"]["file"] | {"$defs": schema["$defs"]})
    for content in entries().values():
        validator.validate(content)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bug", "No Bug"),
        ("flags", ["NoSuchFlag"]),
        ("result", "acceptable"),
        ("input", {}),
        ("expected", {"rows": [0]}),
        ("id", "two words"),
    ],
)
def test_the_schema_has_teeth(key: str, value: object) -> None:
    content = json.loads(json.dumps(entries()["largest_good_subset.json"]))
    content["vectors"] = content["vectors"][:2]
    validator = jsonschema.Draft202012Validator(vector_schema())
    assert validator.is_valid(content)
    content["vectors"][1][key] = value
    assert not validator.is_valid(content)


def test_every_flag_of_the_schema_is_used() -> None:
    stated = {flag["const"] for flag in vector_schema()["$defs"]["flag"]["oneOf"] if "const" in flag}
    used = {flag for vector in vectors() for flag in vector.flags}
    assert {flag for flag in used if ":" not in flag} == stated
    assert any(flag.startswith("AdjacentPairOf:") for flag in used)


def test_ids_are_unique_and_bugs_are_named_in_the_file() -> None:
    assert max(Counter(vector.id for vector in vectors()).values()) == 1
    for content in entries().values():
        assert {vector["bug"] for vector in content["vectors"]} == set(content["bugs"])
        assert content["needs"] == list(GROUPS[content["group"]].needs)


def test_adjacent_pairs_are_adjacent() -> None:
    by_id = {vector.id: vector for vector in vectors()} | {aim.id: aim for aim in aims()}
    pairs = [
        (vector, by_id[flag.partition(":")[2]])
        for vector in vectors()
        for flag in vector.flags
        if flag.startswith("AdjacentPairOf:")
    ]
    assert len(pairs) > 20
    for vector, other in pairs:
        given = decode_input(vector.input)
        known = decode_input(other.input) if isinstance(other, Vector) else other.arguments
        name = "y" if "y" in given else "x"
        assert refimpl.is_adjacent(given[name], known[name])
        assert all(given[key] == known[key] for key in given.keys() & {"lambda_0", "k", "reference"})


# Targets --------------------------------------------------------------------------------------------------------------


def failures(target: Target, chosen: Any, *, float_ties: bool = False) -> list[str]:
    findings = [check_vector(target, vector, float_ties=float_ties) for vector in chosen]
    return [f"{f.id}: {f.verdict} {f.note}" for f in findings if f.verdict != "passed"]


def test_fastimpl_passes_every_vector_without_grace() -> None:
    target = load_target("fastimpl")
    assert not has_float_ties(target)
    provided = [vector for vector in vectors() if target.provides(GROUPS[vector.group].needs)]
    assert len(provided) >= LEAST
    assert failures(target, provided) == []


def test_refimpl_passes_what_it_wrote() -> None:
    fast = [vector for vector in vectors() if not vector.group.startswith("private_mean")]
    assert failures(load_target("refimpl"), fast[::7]) == []


@pytest.mark.nightly
def test_refimpl_passes_every_vector() -> None:
    assert failures(load_target("refimpl"), vectors()) == []


def test_an_exact_target_is_held_to_the_last_bit() -> None:
    (vector,) = [v for v in vectors() if v.group == "stable_second_moment" and "covariance" in v.expected][:1]
    given = decode_input(vector.input)
    right = refimpl.stable_second_moment(given["y"], given["lambda_0"], given["k"])
    nudged = SimpleNamespace(**vars(right) | {"covariance": right.covariance * 2})

    def target(result: Any, rounding: Fraction = Fraction(0)) -> Target:
        return Target("mine", SimpleNamespace(stable_second_moment=lambda y, lambda_0, k: result), rounding=rounding)

    assert check_vector(target(right), vector).verdict == "passed"
    assert check_vector(target(nudged), vector).note.startswith("covariance[0]")
    assert check_vector(target(nudged, Fraction(1)), vector).verdict == "passed"


def test_ties_are_forgiven_only_to_who_asks() -> None:
    """The naive float implementation departs on ties, and on others; grace covers the ties alone."""
    naive = Target("naive", FAULTS["float64"].implementation, rounding=Fraction(1, 10**9))
    asked = [vector for vector in vectors() if vector.group == "largest_good_subset"]
    strict = [check_vector(naive, vector) for vector in asked]
    lenient = [check_vector(naive, vector, float_ties=True) for vector in asked]
    counts, graced = (Counter(finding.verdict for finding in found) for found in (strict, lenient))
    assert counts["boundary"] == 0
    assert graced["boundary"] > 10
    assert counts["failed"] == graced["failed"] + graced["boundary"]
    assert graced["failed"] > 10
    assert {finding.result for finding in lenient if finding.verdict == "boundary"} == {"boundary"}


def test_what_a_target_lacks_or_raises_is_said() -> None:
    (vector,) = [v for v in vectors() if v.group == "largest_good_subset"][:1]

    def fails(y: Any, lam: Any) -> Any:
        raise ZeroDivisionError("no")

    raising = Target("raising", SimpleNamespace(largest_good_subset=fails))
    assert check_vector(raising, vector).note == "ZeroDivisionError: no"
    assert check_vector(raising, vector).verdict == "raised"
    assert check_vector(Target("nothing", SimpleNamespace()), vector).verdict == "not provided"
    assert check_vector(Target("small", fastimpl, most_rows=0), vector).verdict == "not run"
    nonsense = Target("nonsense", SimpleNamespace(largest_good_subset=lambda y, lam: None))
    assert check_vector(nonsense, vector).verdict == "raised"


def test_infinite_and_nan_answers_are_no_answers() -> None:
    vector = Vector("v", "gaussian_release", "b", "", (), "valid", {}, {"release": ["0x1p+0"]})
    given = {"mean": (Fraction(1),), "covariance": np.eye(1)}
    for wrong in (float("nan"), float("inf"), -float("inf")):
        assert departure(vector.expected, {"release": [wrong]}, given, Fraction(1)) is not None
    assert (
        departure({"covariance": [[str(1 << 2000)]]}, {"covariance": [[float("inf")]]}, given, Fraction(1, 8)) is None
    )
    assert departure({"covariance": [[str(1 << 2000)]]}, {"covariance": [[-float("inf")]]}, given) is not None


def test_noise_may_be_too_large_by_rounding_and_never_too_small() -> None:
    expected = {"noise_scale": hex_text(0.75)}
    for scale, held in ((0.75, True), (0.7501, True), (0.7499, False), (0.76, False)):
        found = departure(expected, {"noise_scale": Fraction(scale)}, {}, Fraction(1, 1000))
        assert (found is None) == held


def test_the_first_stage_that_departs_is_named() -> None:
    right = {"levels": (frozenset({0}), frozenset({0, 1})), "score": 1, "weights": [Fraction(1, 2), Fraction(0)]}
    expected = encode_answer(right)
    assert expected == {"entry_level": [[1, 0], [1, 1]], "score": 1, "weights": [[1, "1/2"], [1, "0"]]}
    changes: list[tuple[str, Any]] = [
        ("levels", (frozenset({0}), frozenset({0}))),
        ("score", 2),
        ("weights", [Fraction(1, 2), Fraction(1)]),
    ]
    said = [departure(expected, right | {name: value}, {}) for name, value in changes]
    assert said == ["set of level 1: without rows [1]", "score: 2 and not 1", "weights[1]: 1 and not 0"]
    assert departure(expected, {"levels": right["levels"], "score": 1}, {}) == "no weights"
    assert departure(expected, right, {}) is None


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.0, -1.5, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, 2.0**-1022])
def test_floats_are_written_as_c_writes_them(value: float) -> None:
    text = hex_text(value)
    assert float.fromhex(text).hex() == value.hex()
    assert not text.partition("p")[0].endswith((".0", "."))


def test_what_is_no_number_is_not_written() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            hex_text(value)


def test_lists_and_sets_are_written_and_read() -> None:
    assert runs([1, 1, 2]) == [[2, 1], [1, 2]]
    assert unrun([[2, "a"], [1, "b"]]) == ["a", "a", "b"]
    assert ranges([5, 0, 1]) == [[0, 2], [5, 6]]
    for aim in aims():
        again = encode_input(decode_input(encode_input(aim.arguments)))
        assert again == encode_input(aim.arguments)


def test_input_that_is_none_is_refused() -> None:
    for wrong in ({"what": 1}, {"lam": "1/0"}, {"y": [[1, ["no"]]]}, {"edition": "OTHER"}):
        with pytest.raises(ValueError, match="not the input of a vector"):
            decode_input(wrong)


def test_a_tie_is_told_from_what_is_near_one() -> None:
    rows = encode_input({"y": np.array([[1.0]] * 4 + [[3.0]])})
    tie = Fraction(45, 13)
    near = Fraction(1, 1 << 50)
    told = {"3": "", str(tie): "Tie", "5": "", str(tie * (1 + near)): "NearTie", str(tie * (1 - near)): "NearTie"}
    for lam, close in told.items():
        arguments = {**rows, "lam": lam}
        expected = encode_answer(GROUPS["largest_good_subset"].run(refimpl, decode_input(arguments)))
        assert closeness("largest_good_subset", arguments, expected) == close
    singular = encode_input({"y": np.array([[1.0, 1.0]] * 3), "lam": Fraction(9)})
    assert closeness("largest_good_subset", singular, {"rows": []}) == "Tie"


# The command ----------------------------------------------------------------------------------------------------------

NAIVE = """
from fractions import Fraction
from types import SimpleNamespace
import numpy as np

def largest_good_subset(y, lam):
    kept = np.arange(len(y))
    while True:
        moment = y[kept].T @ y[kept] / len(y)
        try:
            inverse = np.linalg.inv(moment)
        except np.linalg.LinAlgError:
            return []
        near = np.einsum("ij,jk,ik->i", y[kept], inverse, y[kept]) <= float(lam)
        if near.all():
            return kept
        kept = kept[near]

nothing = SimpleNamespace()
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "naive_target.py").write_text(NAIVE, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["bhs23-audit", "vectors", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return call


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a naive target overflows, which is the point
def test_the_command_checks_a_target(run: Run) -> None:
    status, text = run("check", "--dp-target", "naive_target", "--group", "largest_good_subset")
    assert status == 1
    assert "is there to catch" in text
    assert "more: --json lists all" in text
    status, text = run("check", "--target", "fastimpl", "--group", "largest_good_subset")
    assert (status, "0 failed" in text) == (0, True), text


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # likewise
def test_the_report_obeys_its_schema(run: Run) -> None:
    schema = json.loads(
        (Path(report.__file__).parent / "schemas" / "vector-report.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    status, text = run("check", "--target", "naive_target", "--float-ties", "--json", "--rounding", "1e-9")
    content = json.loads(text)
    jsonschema.validate(content, schema)
    assert status == 1
    assert content["float_ties"]
    counts = {group["group"]: group for group in content["groups"]}
    assert counts["stable_mean"]["not_provided"] > 0
    assert counts["largest_good_subset"]["boundary"] > 0
    assert {f["verdict"] for f in content["findings"]} == {"failed", "boundary", "not provided"}
    assert record_schema() != schema


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "--target", "no.such.module"),
        ("check", "--target", "naive_target:nothing"),
        ("check", "--target", "naive_target", "--group", "no_group"),
        ("check", "--target", "naive_target", "--edition", "third"),
        ("check", "--target", "naive_target", "--rounding", "x"),
        ("check", "no-folder", "--target", "naive_target"),
        ("check", ".", "--target", "naive_target"),
    ],
)
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    status, text = run(*arguments)
    assert (status, "bhs23-audit: " in text) == (2, True), text


def test_files_that_are_no_vectors_are_usage_errors(run: Run) -> None:
    folder = Path("vectors")
    folder.mkdir()
    for text in ("{", "[]", '{"a": 1}', '{"vectors": []}', '{"version": 9, "group": "x", "bugs": {}, "vectors": []}'):
        (folder / "one.json").write_text(text, encoding="utf-8")
        assert run("check", str(folder), "--target", "fastimpl")[0] == 2
    vector = {"id": "a", "bug": "b", "flags": [], "result": "valid", "input": {"y": 1}, "expected": {}}
    content = {"version": 1, "group": "largest_good_subset", "bugs": {"b": "c"}, "vectors": [vector]}
    (folder / "one.json").write_text(json.dumps(content), encoding="utf-8")
    assert run("check", str(folder), "--target", "fastimpl")[0] == 2
    content["vectors"][0]["input"] = {"lam": "2"}
    (folder / "one.json").write_text(json.dumps(content), encoding="utf-8")
    status, text = run("check", str(folder), "--target", "fastimpl")
    assert (status, "a must have the input y, lam" in text) == (2, True), text


def test_the_command_writes_what_it_reads(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"strict_for_non_strict": {"says": "a bug", "vectors": ["lgs-d1-m7-1x3-tie1"], "fails": 1}}
    monkeypatch.setattr("proofs_checks.vectors.shipped.bugs", lambda: few)
    monkeypatch.setattr("proofs_checks.vectors.shipped.GROUPS", {"largest_good_subset": GROUPS["largest_good_subset"]})
    monkeypatch.setattr(
        "proofs_checks.vectors.shipped.aims", lambda: (a for a in aims() if a.group == "largest_good_subset")
    )
    status, text = run("write", "new/folder")
    assert (status, "wrote 1 vectors in 1 groups" in text) == (0, True), text
    assert sorted(path.name for path in Path("new/folder").iterdir()) == ["largest_good_subset.json", SCHEMA_NAME]
    assert run("check", "new/folder", "--target", "refimpl")[0] == 0
    Path("file").write_text("", encoding="utf-8")
    assert run("write", "file")[0] == 2


def test_an_interrupt_shows_what_is_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def interrupted(target: Target, vector: Vector, *, float_ties: bool = False) -> Any:
        asked.append(vector)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return check_vector(target, vector, float_ties=float_ties)

    monkeypatch.setattr("proofs_checks.vectors.command.check_vector", interrupted)
    status, text = run("check", "--target", "fastimpl")
    assert (status, "2 of 2 vectors passed" in text) == (130, True), text


def test_a_program_in_any_language_is_a_target(run: Run) -> None:
    program = "exec:" + shlex.join([sys.executable, str(Path(__file__).parent / "foreign_refimpl.py")])
    status, text = run("check", "--target", program, "--group", "largest_core", "--group", "mean_parameters", "--json")
    content = json.loads(text)
    assert status == 0, content["findings"][:3]
    assert {g["group"]: g["not_provided"] for g in content["groups"]} == {"largest_core": 0, "mean_parameters": 0}


def test_a_saved_counterexample_is_a_vector(run: Run) -> None:
    """What an audit refutes and saves fails on that target, and passes on one without the fault."""
    check = LEMMAS["largest_good_subset_contains_every_good_one"]
    wrong = Target("wrong", FAULTS["single_pass"].implementation)
    outcome = run_check(check, wrong, PROFILES["quick"])
    assert outcome.verdict == "refuted"
    path = report.save_counterexample(outcome, Path("saved"))
    schema = vector_schema()
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema)
    assert check_counterexample(wrong, path).verdict == "failed"
    assert check_counterexample(Target("nothing", SimpleNamespace()), path).verdict == "not provided"
    status, text = run("check", "saved", "--target", "fastimpl")
    assert (status, "counterexamples" in text) == (0, True), text
    for damage in ({"case": {"kind": "None"}}, {"edition": "THIRD"}):
        content = json.loads(path.read_text(encoding="utf-8")) | damage
        (Path("saved") / path.name).write_text(json.dumps(content), encoding="utf-8")
        assert run("check", "saved", "--target", "fastimpl")[0] == 2


@pytest.mark.parametrize(
    ("name", "fault", "group"),
    [
        ("good_subsets_are_good", "single_pass", "stable_second_moment"),
        ("cores_are_largest_cores", "reference_is_ignored", "stable_mean"),
        ("larger_score_sensitivity", "scores_by_level_sizes", "pipeline"),
    ],
)
def test_a_saved_pair_becomes_two_vectors(run: Run, name: str, fault: str, group: str) -> None:
    target = Target("wrong", FAULTS[fault].implementation, most_rows=refimpl.MOST_ROWS)
    outcome = run_check(LEMMAS[name], target, PROFILES["quick"])
    assert outcome.verdict == "refuted"
    report.save_counterexample(outcome, Path("saved"))
    assert run("convert", "saved", "made") == (0, "wrote 2 vectors of 1 counterexamples to made\n")
    made, _ = read_folder(Path("made"))
    jsonschema.validate(json.loads(Path(f"made/{group}.json").read_text(encoding="utf-8")), vector_schema())
    assert [(v.group, v.bug) for v in made] == [(group, name)] * 2
    assert made[1].flags[0] == f"AdjacentPairOf:{made[0].id}"
    assert failures(load_target("fastimpl"), made) == []
    assert failures(target, made) != []


def test_what_is_no_saved_pair_is_not_converted(run: Run) -> None:
    outcome = run_check(LEMMAS["pass_is_private"], load_target("refimpl", refimpl.PRINTED), PROFILES["quick"])
    report.save_counterexample(outcome, Path("saved"))
    assert run("convert", "saved", "made")[0] == 2
    Path("saved/other.json").write_text("{}", encoding="utf-8")
    assert run("convert", "saved", "made")[0] == 2


def test_a_counterexample_to_the_letter_of_the_paper_must_refute(tmp_path: Path) -> None:
    outcome = run_check(LEMMAS["pass_is_private"], load_target("refimpl", refimpl.PRINTED), PROFILES["quick"])
    path = report.save_counterexample(outcome, tmp_path)
    finding = check_counterexample(load_target("fastimpl"), path)
    assert (finding.verdict, bool(finding.note)) == ("passed", True)
    repaired = SimpleNamespace(
        ptr_pass_probability=lambda score, epsilon, delta, edition: refimpl.ptr_pass_probability(score, epsilon, delta),
        ptr_pass_probability_at_growth=lambda score, growth, delta, edition: refimpl.ptr_pass_probability_at_growth(
            score, growth, delta
        ),
    )
    found = check_counterexample(Target("repaired", repaired), path)
    assert (found.verdict, found.note) == ("failed", "the errata refute it")
    assert as_report(Target("repaired", repaired), [found], float_ties=False)["groups"][0]["failed"] == 1
