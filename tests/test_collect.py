"""Runs in worker processes, and runs that go on from a file: nothing is lost, and nothing takes the audit down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proofs_checks import __main__ as command
from proofs_checks import audit
from proofs_checks.audit import PROFILES, run_check
from proofs_checks.lemma import LEMMAS, AuditError
from proofs_checks.state import State, outcome_from_json, outcome_to_json
from proofs_checks.target import Target, load_target
from proofs_checks.workers import Lost, Pool, Watch

Run = Callable[..., tuple[int, str, str]]
NESTED, GOOD, CORES = "good_subsets_are_nested", "good_subsets_are_good", "cores_are_nested"
TWO = ("--check", NESTED, "--check", GOOD)
BAD = """
import ctypes, os, sys, time
from dataclasses import replace
import refimpl

print("what a target prints is not part of a report")

class liar:
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        print("noise")
        result = refimpl.stable_second_moment(y, lambda_0, k)
        return replace(result, good_subsets=result.good_subsets[::-1])

class sleeper(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        if k > 1:
            time.sleep(600)
        return refimpl.stable_second_moment(y, lambda_0, k)

class stubborn(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock

class crasher(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        if k > 1:
            os.kill(os.getpid(), 11)
        return refimpl.stable_second_moment(y, lambda_0, k)

class killer(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        os._exit(4)

class Lazy:
    def __init__(self, result):
        self.good_subsets, self.score, self.weights = result.good_subsets, result.score, result.weights

    @property
    def covariance(self):
        time.sleep(600)

class lazy(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        return Lazy(refimpl.stable_second_moment(y, lambda_0, k))

class yields:
    @staticmethod
    def largest_good_subset(y, lam):
        time.sleep(600)
        yield 0

class quitter(liar):
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        sys.exit("no license")
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "bad_ones.py").write_text(BAD, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bhs23-audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    yield call
    sys.modules.pop("bad_ones", None)


def outcomes(text: str) -> dict[str, dict[str, Any]]:
    return {entry["check"]: entry for entry in json.loads(text)["outcomes"]}


# Workers --------------------------------------------------------------------------------------------------------------


def work(task: str, watch: Watch) -> str:
    watch.say(f"about to {task}")
    if task == "fail":
        raise ArithmeticError("ours")
    with watch:
        if task == "hang":
            time.sleep(600)
        if task == "die":
            os._exit(7)
    return task.upper()


def test_a_pool_answers_everything_and_loses_nobody_else() -> None:
    tasks = ["one", "hang", "die", "two", "fail", "skip", "three"]
    with Pool(work, 2, 1.0) as pool:
        found = dict(pool.run(tasks, wanted=lambda task: task != "skip"))
    assert [found[i] for i in (0, 3, 6)] == ["ONE", "TWO", "THREE"]
    assert found[1] == Lost("hung", "no answer within 1 s", "about to hang")
    assert found[2] == Lost("died", "the process ended with status 7", "about to die")
    assert (found[4].why, "ArithmeticError: ours" in found[4].detail) == ("failed", True)
    assert found[5].why == "skipped"


def test_workers_and_this_process_find_the_same_in_the_same_order(run: Run) -> None:
    names = ("--check", NESTED, "--check", CORES, "--check", GOOD, "--json", "--seed", "5")
    (status, here, _), (status_2, there, _) = (run("refimpl", "fastimpl", *names, "--jobs", n) for n in ("1", "2"))
    assert status == status_2 == 0
    one, two = (json.loads(text) for text in (here, there))
    for entry in (*one["outcomes"], *two["outcomes"]):
        del entry["seconds"]
    assert one == two


def test_our_own_code_has_no_time_limit_in_a_worker_either(run: Run) -> None:
    status, out, _ = run(
        "refimpl", "--check", "mean_release_is_private", "--jobs", "2", "--time-limit", "0.05", "--json"
    )
    assert (status, {outcome["as_expected"] for outcome in json.loads(out)["outcomes"]}) == (0, {True})


def test_a_whole_audit_takes_a_worker_for_each_processor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def workers(jobs: int, seconds: float) -> Pool:  # noqa: ARG001 - the time limit is not looked at here
        asked.append(jobs)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_workers", workers)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 6}, raising=False)
    for arguments in ((), ("--jobs", "2"), TWO, (*TWO, "--jobs", "2")):
        run("refimpl", *arguments)
    assert asked == [3, 2, 1, 2]


@pytest.mark.parametrize(
    ("target", "says", "case_known"),
    [
        ("bad_ones:sleeper", "the target hangs: no answer within 1 s", True),
        ("bad_ones:stubborn", "the target hangs: no answer within 1 s", True),
        ("bad_ones:crasher", "the target ended its process: the process ended with status -11", True),
        ("bad_ones:quitter", "SystemExit: no license", True),
    ],
)
def test_no_target_takes_the_audit_down(run: Run, target: str, says: str, case_known: bool) -> None:
    status, out, err = run(target, "refimpl", "--check", GOOD, "--time-limit", "1", "--json")
    found = json.loads(out)["outcomes"]
    assert [entry["verdict"] for entry in found] == ["raised", "held"], (out, err)
    assert (status, says in found[0]["note"]) == (1, True), found[0]["note"]
    assert (found[0]["case"] is not None) == case_known
    assert "what a target prints" not in out


def test_a_target_that_hangs_always_is_left_alone_after_three_times(run: Run) -> None:
    checks = [c.name for c in LEMMAS.values() if c.needs == ("stable_second_moment",) and c.domain is None][:5]
    assert len(checks) == 5
    began = time.monotonic()
    names = [part for check in checks for part in ("--check", check)]
    status, out, _ = run("bad_ones:stubborn", *names, "--time-limit", "0.5", "--json")
    notes = [entry["note"] for entry in json.loads(out)["outcomes"]]
    assert status == 1
    assert sum("the target hangs" in note for note in notes) == 3
    assert sum("lost 3 times: not asked any more" in note for note in notes) == len(notes) - 3
    _, out, _ = run("bad_ones:stubborn", *names, "--check", CORES, "--time-limit", "0.5", "--json")
    assert outcomes(out)[CORES]["verdict"] == "not provided"
    assert time.monotonic() - began < 180


@pytest.mark.parametrize(
    ("target", "check"), [("lazy", GOOD), ("yields", "largest_good_subset_contains_every_good_one")]
)
def test_what_a_target_does_later_has_the_limit_too(run: Run, target: str, check: str) -> None:
    status, out, _ = run(f"bad_ones:{target}", "--check", check, "--time-limit", "1", "--json")
    assert status == 1
    assert "the target hangs: no answer within 1 s" in outcomes(out)[check]["note"]


def test_a_counterexample_of_a_worker_is_whole(run: Run) -> None:
    status, out, _ = run("bad_ones:liar", *TWO, "--json", "--jobs", "2")
    found = outcomes(out)
    assert status == 1
    assert found[NESTED]["departs_at"]["stage"] == "subset"
    assert "x = np.array(" in found[NESTED]["paste"]
    assert found[NESTED]["seconds"] > 0
    (saved,) = Path("bhs23-counterexamples").glob(f"{NESTED}*")
    assert run("replay", str(saved))[0] == 1


# An audit that breaks midway ------------------------------------------------------------------------------------------


def test_a_check_that_breaks_costs_no_other_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = audit.run_check

    def breaks(check: Any, *arguments: Any, **named: Any) -> Any:
        if check.name == CORES:
            raise AuditError("it is vacuous")
        return whole(check, *arguments, **named)

    monkeypatch.setattr(audit, "run_check", breaks)
    names = ("--check", NESTED, "--check", CORES, "--check", GOOD)
    status, out, err = run("refimpl", *names, "--json", "--sarif", "s.json", "--junit", "j.xml", "--state", "s")
    found = outcomes(out)
    assert status == 3
    assert [found[name]["verdict"] for name in (NESTED, CORES, GOOD)] == ["held", "broken", "held"]
    assert "it is vacuous" in found[CORES]["note"]
    assert "the audit itself broke: proofs_checks.lemma.AuditError: it is vacuous" in err
    invocation = json.loads(Path("s.json").read_text())["runs"][0]["invocations"][0]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["level"] == "error"
    assert 'errors="1"' in Path("j.xml").read_text()
    monkeypatch.setattr(audit, "run_check", whole)
    status, out, err = run("refimpl", *names, "--state", "s")
    assert (status, "2 of 3 outcomes were in it" in out) == (0, True), out


# State ----------------------------------------------------------------------------------------------------------------


def test_an_outcome_survives_its_json() -> None:
    target = load_target("refimpl")
    for name in (GOOD, "covariance_weights_are_stable"):
        outcome = run_check(LEMMAS[name], target, PROFILES["quick"])
        again = outcome_from_json(LEMMAS[name], target, json.loads(json.dumps(outcome_to_json(outcome))))
        assert again.tally.tightest_case == outcome.tally.tightest_case
        assert outcome_to_json(again) == outcome_to_json(outcome)


def test_a_run_goes_on_from_where_it_was_broken_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, asked = audit.run_check, list[str]()

    def interrupted(check: Any, *arguments: Any, **named: Any) -> Any:
        asked.append(check.name)
        if check.name == GOOD and len(asked) < 3:
            raise KeyboardInterrupt
        return whole(check, *arguments, **named)

    monkeypatch.setattr(audit, "run_check", interrupted)
    status, out, _ = run("refimpl", *TWO, "--state", "state.json")
    assert (status, "interrupted" in out, asked) == (130, True, [NESTED, GOOD])
    status, out, _ = run("refimpl", *TWO, "--state", "state.json")
    assert (status, asked) == (0, [NESTED, GOOD, GOOD])
    assert "state state.json: 1 of 2 outcomes were in it and were not run again" in out
    first = run("refimpl", *TWO, "--state", "state.json", "--json")[1]
    assert len(asked) == 3
    assert run("refimpl", *TWO, "--state", "state.json", "--json")[1] == first
    assert run("refimpl", *TWO, "--state", "state.json", "--seed", "1")[0] == 0
    assert asked[3:] == [NESTED, GOOD], "another seed is another run"
    assert not Path("state.json.partial").exists()


def test_a_changed_target_is_run_again(run: Run, tmp_path: Path) -> None:
    liar = ("bad_ones:liar", "--check", NESTED, "--state", "state.json")
    assert "0 of 1 outcomes were in it" in run(*liar)[1]
    status, out, _ = run(*liar, "--jobs", "2")
    assert (status, "1 of 1 outcomes were in it" in out) == (1, True), "a refutation that is kept still fails the run"
    assert run(*liar, "--fail-on", "none")[0] == 0
    before = State(Path("state.json"), "quick", 0)
    target = Target("bad_ones:liar", object())
    key = before._key(LEMMAS[NESTED], target)
    (tmp_path / "bad_ones.py").write_text(BAD.replace("[::-1]", ""), encoding="utf-8")
    script = (
        "from pathlib import Path; from proofs_checks.state import State; from proofs_checks.lemma import LEMMAS\n"
        "from proofs_checks.target import Target\n"
        f"print(State(Path('state.json'), 'quick', 0)._key(LEMMAS['{NESTED}'], Target('bad_ones:liar', object())))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stdout).keys() == json.loads(key).keys()
    assert ended.stdout.strip() != key


def test_a_baseline_works_with_workers_and_a_state(run: Run) -> None:
    options = ("--jobs", "2", "--state", "state.json")
    Path("base.json").write_text(run("bad_ones:liar", *TWO, "--json", *options)[1], encoding="utf-8")
    assert run("bad_ones:liar", *TWO, *options)[0] == 1
    status, out, _ = run("bad_ones:liar", *TWO, *options, "--baseline", "base.json")
    assert (status, "0 not in the baseline" in out) == (0, True)
    assert run("bad_ones:liar", "bad_ones:quitter", *TWO, *options, "--baseline", "base.json")[0] == 1
    assert run("bad_ones:quitter", *TWO, *options, "--fail-on", "refuted")[0] == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "bhs23-audit-state", "version": 99, "outcomes": {}}'])
def test_a_file_that_is_no_state_is_not_overwritten(run: Run, content: str) -> None:
    Path("state.json").write_text(content, encoding="utf-8")
    status, _, err = run("refimpl", *TWO, "--state", "state.json")
    assert (status, "is no state of this program" in err) == (2, True)
    assert Path("state.json").read_text(encoding="utf-8") == content


@pytest.mark.parametrize("option", [("--jobs", "0"), ("--time-limit", "0")])
def test_wrong_numbers_are_errors_of_usage(run: Run, option: tuple[str, str]) -> None:
    assert run("refimpl", *TWO, *option)[0] == 2


# Ctrl-C ---------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C reaches a process group on POSIX alone")
def test_ctrl_c_prints_what_the_workers_found(run: Run, tmp_path: Path) -> None:
    assert run is not None
    arguments = [
        "run",
        "refimpl",
        "bad_ones:sleeper",
        "--check",
        NESTED,
        "--jobs",
        "2",
        "--state",
        "state.json",
        "--json",
    ]
    place = {**os.environ, "PYTHONPATH": str(Path(audit.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "proofs_checks", *arguments],
        cwd=tmp_path,
        env=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not (tmp_path / "state.json").exists() and time.monotonic() < until:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    record = json.loads(out)
    assert not record["complete"]
    assert [entry["verdict"] for entry in record["outcomes"]] == ["held"]


# Loading --------------------------------------------------------------------------------------------------------------

LOADS = {
    "hangs": ("import time; time.sleep(600)", "it hangs when it is loaded: no answer within 2 s"),
    "ends": ("import os; os._exit(3)", "it ends its process when it is loaded: the process ended with status 3"),
    "aborts": ("import os; os.abort()", "it ends its process when it is loaded: the process ended with status -6"),
    "quits": ("raise SystemExit('no license')", "it raises SystemExit: no license"),
    "raises": ("1 / 0", "it raises ZeroDivisionError: division by zero"),
    "rounds": ("ROUNDING = 'little'", "its ROUNDING and MOST_ROWS must be numbers"),
}


@pytest.mark.parametrize("name", LOADS)
def test_a_module_that_cannot_be_loaded_is_an_error_of_usage(run: Run, name: str, tmp_path: Path) -> None:
    text, says = LOADS[name]
    (tmp_path / f"loads_{name}.py").write_text(text, encoding="utf-8")
    commands = [("run",), ("vectors", "check", "--target"), ("blackbox",)] if name == "hangs" else [("run",)]
    for command_line in commands:
        status, _, err = run(*command_line, f"loads_{name}", "--time-limit", "2")
        assert (status, f"no target 'loads_{name}': {says}" in err) == (2, True), err
    assert f"loads_{name}" not in sys.modules


def test_a_target_is_loaded_in_workers_alone(run: Run) -> None:
    """Where its source is, is known all the same."""
    status, out, _ = run("bad_ones:liar", *TWO, "--json", "--sarif", "s.json")
    assert "bad_ones" not in sys.modules
    assert status == 1
    assert outcomes(out)[NESTED]["source"] == {"file": "bad_ones.py", "line": 9}


def test_a_replay_has_a_limit(run: Run) -> None:
    assert run("bad_ones:liar", "--check", GOOD)[0] == 1
    (saved,) = Path("bhs23-counterexamples").glob("*")
    for target, says in (
        ("bad_ones:stubborn", "the target hangs: no answer within 2 s"),
        ("bad_ones:killer", "the target ended its process: the process ended with status 4"),
        ("bad_ones:liar", "refuted."),
    ):
        status, out, err = run("replay", str(saved), "--target", target, "--time-limit", "2")
        assert (status, says in out) == (1, True), (out, err)
    assert run("replay", str(saved), "--target", "refimpl")[0] == 0


def test_vectors_are_checked_with_a_limit(run: Run) -> None:
    command_line = ("vectors", "check", "--group", "stable_second_moment", "--json", "--time-limit", "1", "--target")
    for target, says in (("stubborn", "the target hangs: no answer within 1 s"), ("killer", "the target ended its")):
        status, out, err = run(*command_line, f"bad_ones:{target}")
        assert status == 1, err
        notes = [finding["note"] for finding in json.loads(out)["findings"]]
        assert sum(says in note for note in notes) == 3
        assert sum("lost 3 times: not asked any more" in note for note in notes) == len(notes) - 3
    status, out, _ = run("vectors", "check", "--json", "--time-limit", "0.5", "--target", "bad_ones:stubborn")
    groups = {group["group"]: group for group in json.loads(out)["groups"]}
    assert groups["stable_second_moment"]["raised"] > 3
    assert [g for g, found in groups.items() if g != "stable_second_moment" and not found["not_provided"]] == []
    status, out, _ = run(*command_line, "bad_ones:quitter")
    assert {finding["note"] for finding in json.loads(out)["findings"]} == {"SystemExit: no license"}
