"""The commands new-adapter and blackbox, and targets called exec:COMMAND."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs_checks import __main__ as command
from proofs_checks.target import load_target

Run = Callable[..., tuple[int, str]]

LEAKY = """
import numpy as np
from types import SimpleNamespace
def private_mean(x, *, epsilon, delta, lambda_0, edition, rng):
    rng = rng or np.random.default_rng()
    leaks = x.max() < 1 or rng.random() < 0.5
    return SimpleNamespace(mean=x.mean(axis=0) + rng.standard_normal(1) if leaks else None)
def constant(x, *, epsilon, delta, lambda_0, edition, rng):
    return None
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "leaky_target.py").write_text(LEAKY, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["bhs23-audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return call


CHECK = ("--check", "largest_good_subset_contains_every_good_one")


def test_a_new_adapter_is_written_and_audited(run: Run) -> None:
    status, text = run("new-adapter", "mine")
    assert (status, "mine.py" in text) == (0, True)
    status, text = run("run", f"exec:{shlex.quote(sys.executable)} mine.py", *CHECK)
    assert (status, "1 held" in text) == (0, True), text
    assert run("new-adapter", "mine")[0] == 2  # nothing is overwritten
    assert run("new-adapter", "no name")[0] == 2


def test_what_an_adapter_gets_wrong_is_saved_and_replayed(run: Run) -> None:
    run("new-adapter", "mine")
    source = Path("mine.py").read_text(encoding="utf-8")
    Path("mine.py").write_text(source.replace("sigma) > lam", "sigma) >= lam"), encoding="utf-8")
    assert run("run", f"exec:{shlex.quote(sys.executable)} mine.py", *CHECK)[0] == 1
    (saved,) = Path("bhs23-counterexamples").iterdir()
    assert run("replay", str(saved))[0] == 1


def test_a_program_that_does_not_answer_is_a_usage_error(run: Run) -> None:
    assert run("run", "exec:there-is-no-such-program")[0] == 2
    with pytest.raises(ValueError, match="cannot start"):
        load_target("exec:there-is-no-such-program")


QUICK = ("--rows", "40", "--lambda-0", "2", "--delta", "1/20", "--runs", "400")


def test_a_leak_is_refuted_and_silence_is_not(run: Run) -> None:
    status, text = run("blackbox", "leaky_target", *QUICK)
    assert (status, "refuted at level 0.001" in text) == (1, True), text
    status, text = run("blackbox", "leaky_target", *QUICK, "--function", "constant", "--json")
    assert status == 0
    assert json.loads(text)["verdict"] == "not refuted"
    assert run("blackbox", "leaky_target", "--function", "missing")[0] == 2
    assert run("blackbox", "leaky_target", "--level", "2")[0] == 2


def test_a_target_of_which_nothing_would_be_asked_is_a_mistake(run: Run) -> None:
    """A name that exists and is the wrong one must not give a green run."""
    status, text = run("run", "json")
    assert (status, "json has none of the functions" in text) == (2, True), text


def test_ctrl_c_is_no_refutation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "steered_pairs", interrupted)
    assert run("blackbox", "leaky_target", *QUICK)[0] == 130
    monkeypatch.setattr(command, "find_target", interrupted)
    status, text = run("run", "leaky_target", *CHECK)
    assert (status, "interrupted" in text) == (130, True)
