"""The command bhs23-audit writes files, fails for what it is told to fail for, and loses nothing to Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from proofs_checks import __main__ as command
from proofs_checks import audit, formats

Run = Callable[..., tuple[int, str, str]]
CHECK = ("--check", "good_subsets_are_nested")
LIAR = """
import refimpl
from dataclasses import replace
def stable_second_moment(y, lambda_0, k):
    result = refimpl.stable_second_moment(y, lambda_0, k)
    return replace(result, good_subsets=result.good_subsets[::-1])
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in (("audited_liar", LIAR), ("audited_nothing", "def largest_core(*_):\n    return ()\n")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bhs23-audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    yield call
    for name in ("audited_liar", "audited_nothing"):
        sys.modules.pop(name, None)


def test_every_file_is_written_and_they_agree(run: Run, tmp_path: Path) -> None:
    names = ("junit", "sarif", "markdown", "html", "badge")
    files = [part for name in names for part in (f"--{name}", str(tmp_path / "out" / name))]
    status, out, err = run("audited_liar", *CHECK, "--json", *files)
    record = json.loads(out)
    jsonschema.validate(record, formats.record_schema())
    assert status == 1
    assert err.count("written: ") == len(names)
    text = {name: (tmp_path / "out" / name).read_text(encoding="utf-8") for name in names}
    assert ET.fromstring(text["junit"])[0].get("failures") == "1"
    (result,) = json.loads(text["sarif"])["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("audited_liar.py", 4)
    assert "REFUTED" in text["markdown"]
    assert record["outcomes"][0]["claim"].split("<")[0] in text["html"]
    assert json.loads(text["badge"])["color"] == "red"


def test_the_tightest_case_is_kept(run: Run) -> None:
    _, out, _ = run("refimpl", "--check", "cores_are_nested", "--check", "covariance_score_sensitivity", "--json")
    tight = json.loads(out)["outcomes"][1]
    assert tight["tightest"] > 0
    assert "x_prime" in tight["tightest_case"]


def test_what_fails_a_run_can_be_chosen(run: Run) -> None:
    assert run("audited_liar", *CHECK, "--fail-on", "raised")[0] == 0
    assert run("audited_liar", *CHECK, "--fail-on", "none")[0] == 0
    assert run("audited_liar", *CHECK, "--fail-on", "raised,refuted")[0] == 1
    assert run("audited_nothing", *CHECK, "--fail-on", "refuted", "--fail-on", "not-provided")[0] == 1
    status, _, err = run("audited_nothing", *CHECK, "--fail-on", "anything")
    assert status == 2
    assert "--fail-on takes refuted" in err


def test_only_new_refutations_fail_against_a_baseline(run: Run, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run("audited_liar", *CHECK, "--json")[1], encoding="utf-8")
    status, out, _ = run("audited_liar", *CHECK, "--baseline", str(baseline))
    assert (status, "0 not in the baseline" in out, "REFUTED" in out) == (0, True, True)
    more = ("--check", "good_subsets_are_good")
    assert run("audited_liar", *CHECK, *more, "--baseline", str(baseline))[0] == 1
    assert run("audited_liar", *CHECK, "--baseline", str(tmp_path / "absent.json"))[0] == 2


def test_ctrl_c_prints_what_is_known(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = audit.run_check

    def interrupted(check: Any, *arguments: Any) -> Any:
        if check.name == "cores_are_nested":
            raise KeyboardInterrupt
        return whole(check, *arguments)

    monkeypatch.setattr(audit, "run_check", interrupted)
    names = (*CHECK, "--check", "cores_are_nested", "--check", "good_subsets_are_good")
    status, out, _ = run("refimpl", *names, "--junit", str(tmp_path / "junit.xml"))
    assert status == 130
    assert "1 held" in out
    assert "interrupted, so that outcomes are missing" in out
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert suite.get("tests") == "1"
    assert suite.find("properties/property[@name='complete']").get("value") == "False"  # type: ignore[union-attr]  # it is there


def test_a_file_that_cannot_be_written_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    status, _, err = run("refimpl", *CHECK, "--html", str(tmp_path / "file" / "page.html"))
    assert status == 2
    assert "cannot write" in err


# The action -----------------------------------------------------------------------------------------------------------

ACTION = Path(__file__).parents[1] / ".github" / "actions" / "audit" / "action.yml"


def test_the_action_uses_options_that_exist() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "proofs_checks", "run", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"COLUMNS": "200", "PYTHONPATH": str(ACTION.parents[3])},
    ).stdout
    text = ACTION.read_text(encoding="utf-8")
    used = set(re.findall(r"--[a-z][a-z-]+", text.split("id: audit")[1]))
    assert {"--edition", "--sarif", "--html", "--badge", "--fail-on"} <= used
    assert [option for option in used if option not in shown] == []


def test_the_action_is_one_of_githubs() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(action)
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    assert all(isinstance(given.get("default", ""), str) for given in action["inputs"].values())
    assert [name for name, given in action["inputs"].items() if given.get("required")] == ["target"]
    for step in action["runs"]["steps"]:
        checked = subprocess.run(
            ["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False, timeout=60
        )
        assert checked.returncode == 0, checked.stderr


def test_the_steps_of_the_action_run(tmp_path: Path) -> None:
    """The audit step, as a runner would run it: reports in their folder, the status as an output, the table as a summary."""
    step = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"][1]
    (tmp_path / "audited_liar.py").write_text(LIAR, encoding="utf-8")
    inputs = {"TARGETS": "audited_liar", "EDITION": "repaired", "ROUNDING": "1e-9", "PROFILE": "quick", "SEED": "0"}
    inputs |= {
        "FAIL_ON": "refuted,raised",
        "BASELINE": "",
        "REPORTS": "reports",
        "PYTHON": "./python",
        "JOBS": "1",
        "TIME_LIMIT": "60",
    }
    assert set(inputs) <= set(step["env"])
    # Only one check: the rest of the audit is not what is tested here.
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" --check good_subsets_are_nested\n')
    (tmp_path / "python").chmod(0o755)
    script = step["run"].replace('-- "${targets[@]}"', '"${targets[@]}"')
    assert script != step["run"]
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    place = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ACTION.parents[3])}
    ended = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env=inputs | files | place,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1, ended.stderr
    assert (tmp_path / "output").read_text() == "status=1\n"
    assert "REFUTED" in (tmp_path / "summary").read_text()
    jsonschema.validate(json.loads((tmp_path / "reports" / "report.json").read_text()), formats.record_schema())
    names = {"report.json", "junit.xml", "report.sarif", "report.md", "report.html", "badge.json", "counterexamples"}
    assert {file.name for file in (tmp_path / "reports").iterdir()} == names


def test_the_readme_says_what_its_example_leaves_open() -> None:
    text = (ACTION.parents[3] / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    steps = yaml.safe_load(example)["jobs"]["audit"]["steps"]
    (audit_step,) = [step for step in steps if "OWNER/" in step.get("uses", "")]
    assert set(audit_step["with"]) <= set(yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"])
    assert "replace `OWNER/bhs23` by the place" in text.replace("\n", " ")
    assert (ACTION.parents[3] / audit_step["uses"].split("/", 2)[2].split("@")[0] / "action.yml").is_file()


def test_the_action_keeps_inputs_out_of_its_scripts() -> None:
    text = ACTION.read_text(encoding="utf-8")
    scripts = re.findall(r"^ +run: (.*(?:\n {8,}.*)*)", text, re.MULTILINE)
    assert len(scripts) == 2
    assert [script for script in scripts if "${{" in script] == []
    assert "uses:" not in text, "no action of others"
    declared = set(re.findall(r"^  ([a-z-]+):$", text.split("outputs:")[0], re.MULTILINE))
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) <= declared
