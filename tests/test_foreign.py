"""Targets in other languages: what the protocol carries, and that no adapter, however bad, takes the audit down."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refimpl
from proofs_checks.audit import PROFILES, Profile, run_check
from proofs_checks.blackbox import PrivateRelease, observe
from proofs_checks.foreign import (
    ADAPTER,
    FUNCTIONS,
    ForeignCrashError,
    ForeignError,
    ForeignGarbageError,
    ForeignHangError,
    ForeignRefusalError,
    ForeignTarget,
    foreign_target,
    new_adapter,
)
from proofs_checks.lemma import LEMMAS
from proofs_checks.target import Target
from proofs_checks.vectors.check import check_vector
from proofs_checks.vectors.groups import GROUPS
from proofs_checks.vectors.shipped import read_folder, shipped_folder

SMALL = Profile("quick", 4, 1)
REFIMPL_ADAPTER = Path(__file__).parent / "foreign_refimpl.py"
Y = np.array([[1.0], [-1.0], [9.0], [0.1]])

# A program that answers the hello and then does what the test says, given as the body of a loop over requests.
PROGRAM = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "stop":
        break
    if request["op"] == "hello":
        print('{{"ok": true, "protocol": 1, "functions": ["largest_good_subset", "stable_covariance"]}}', flush=True)
        continue
    name, number = request["function"], request["id"]
    {body}
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., ForeignTarget]]:
    started: list[ForeignTarget] = []

    def start(body: str, *, whole: bool = False, seconds: float = 20.0) -> ForeignTarget:
        path = tmp_path / f"adapter{len(started)}.py"
        path.write_text(body if whole else PROGRAM.format(body=body), encoding="utf-8")
        started.append(ForeignTarget([sys.executable, str(path)], seconds))
        return started[-1]

    yield start
    for target in started:
        target.close()


@pytest.fixture(scope="module")
def exact() -> Iterator[ForeignTarget]:
    with ForeignTarget([sys.executable, str(REFIMPL_ADAPTER)]) as target:
        yield target


# An honest adapter ----------------------------------------------------------------------------------------------------


def test_an_adapter_says_what_it_has(exact: ForeignTarget) -> None:
    target = Target("foreign", exact)
    assert target.provides(FUNCTIONS.keys() - {"private_covariance", "private_gaussian"})
    assert not target.provides(["private_covariance"])
    assert exact.version.startswith("refimpl")
    assert (exact.ROUNDING, exact.MOST_ROWS) == (0, 400)


def test_the_one_stage_of_sharp_is_carried_exactly(exact: ForeignTarget) -> None:
    x = np.array([[0.0], [1.0], [3.0]] * 10)
    for lambda_0 in (3, 1):  # at 1 no ellipsoid holds anything: there is neither a mean nor a covariance
        mine, theirs = (t.stable_moments(x, lambda_0, 2, 3) for t in (exact, refimpl))
        assert (mine.score, mine.mean is None) == (theirs.score, lambda_0 == 1)
        if theirs.mean is not None:
            assert (tuple(mine.mean), mine.covariance[0, 0]) == (tuple(theirs.mean), theirs.covariance[0, 0])


@pytest.mark.parametrize(
    "check",
    [
        "good_subsets_are_good",
        "covariance_weights_are_good",
        "covariance_stage_equals_refimpl",
        "mean_stage_equals_refimpl",
        "pipeline_equals_refimpl",
        "cores_are_largest_cores",
        "covariances_are_close_in_order",
    ],
)
def test_checks_run_on_an_adapter_and_hold_exactly(check: str, exact: ForeignTarget) -> None:
    outcome = run_check(LEMMAS[check], Target("foreign", exact, most_rows=300), SMALL)
    assert outcome.verdict == "held", (outcome.claim, outcome.note)
    assert outcome.tally.claims


def test_a_result_is_sent_back_exactly(exact: ForeignTarget) -> None:
    """DESIGN's case: Sigma = 2/3 gives SCORE_2 = 0, and its rounded value 1; the adapter gets back what it said."""
    x = np.array([[1.0]] * 20 + [[2.0]] * 5 + [[0.0]] * 35)
    reference = (0, 20, 21, 30, 31, 32, 33)
    covariance = exact.stable_covariance(x, 3, 1)
    assert covariance.covariance[0, 0] == refimpl.stable_covariance(x, 3, 1).covariance[0, 0]
    assert exact.stable_mean(x, covariance, 3, 1, reference).score == 0
    assert exact.stable_mean(x, np.array([[2 / 3]]), 3, 1, reference).score == 1


def test_laws_and_releases(exact: ForeignTarget) -> None:
    printed, repaired = refimpl.PRINTED, refimpl.REPAIRED
    for edition in (printed, repaired):
        mine = exact.ptr_pass_probability_at_growth(3, Fraction(3, 2), Fraction(1, 16), edition=edition)
        assert mine == refimpl.ptr_pass_probability_at_growth(3, Fraction(3, 2), Fraction(1, 16), edition=edition)
    x = np.array([[0.0], [1.0]] * 200)
    budget = {"epsilon": 1, "delta": Fraction(9, 10), "lambda_0": 2}
    mine, theirs = (
        t.private_mean(x, **budget, rng=np.random.default_rng(1), edition=refimpl.REPAIRED).mean
        for t in (exact, refimpl)
    )
    assert mine == theirs
    parameters = refimpl.mean_parameters(400, 1, **budget, edition=refimpl.REPAIRED)
    # The normals as they stand: a program is not sent the seed of their further digits.
    coins = dataclasses.replace(refimpl.draw_mean_coins(parameters, np.random.default_rng(2)), seed=None)
    mine, theirs = (t.private_mean_given(x, parameters, coins).mean for t in (exact, refimpl))
    assert mine == theirs
    release = PrivateRelease(exact, Fraction(1), Fraction(9, 10), Fraction(2))
    assert observe(release, x[:3], 0).labels == {"FAIL"}
    assert observe(release, x, None).labels & {"FAIL", "a release"}


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_of_vectors_is_carried(group: str, exact: ForeignTarget) -> None:
    vectors = [v for v in read_folder(shipped_folder())[0] if v.group == group]
    assert exact.private_covariance_given is not None
    asked = [v for v in vectors if v.expected.get("released", True) is not False][:2] + vectors[-1:]
    # The adapter rounds a law; everything else is exact, or rounded as it should be.
    target = Target("foreign", exact, rounding=Fraction(group == "ptr_pass_probability", 1 << 52))
    found = [check_vector(target, vector) for vector in asked]
    assert [(f.verdict, f.note) for f in found] == [("passed", "")] * len(asked)


# Bad ones -------------------------------------------------------------------------------------------------------------


def test_a_crash_is_reported_with_what_it_said_last(program: Callable[..., ForeignTarget]) -> None:
    target = program(
        'sys.exit("out of memory") if number == 1 else print(json.dumps({"id": number, "ok": True, "result": [0]}), flush=True)'
    )
    with pytest.raises(ForeignCrashError, match="status 1: out of memory"):
        target.largest_good_subset(Y, 2)
    assert target.largest_good_subset(Y, 2) == {0}  # started again


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('print("hello world", flush=True)', "not a line of JSON"),
        ('print("[1, 2]", flush=True)', "not an answer of the protocol"),
        ('print("[" * 100000, flush=True)', "not a line of JSON"),
        ('print(json.dumps({"id": 7, "ok": True, "result": []}), flush=True)', "to request 7"),
        ('print(json.dumps({"id": number, "ok": True}), flush=True)', "without a result"),
        ('print(json.dumps({"id": number, "ok": True, "result": {}}), flush=True)', "must be a list"),
        ('print(json.dumps({"id": number, "ok": True, "result": [1.5]}), flush=True)', "integer"),
        ('print(json.dumps({"id": number, "ok": True, "result": ["one"]}), flush=True)', "a number was expected"),
        ('print(json.dumps({"id": number, "ok": True, "result": [True]}), flush=True)', "a number was expected"),
    ],
)
def test_garbage_is_reported(answer: str, says: str, program: Callable[..., ForeignTarget]) -> None:
    with pytest.raises(ForeignGarbageError, match=says):
        program(answer).largest_good_subset(Y, 2)


def test_a_hang_is_cut_off_and_after_three_nobody_is_asked_again(program: Callable[..., ForeignTarget]) -> None:
    target = program("time.sleep(60)", seconds=1.0)
    for _ in range(3):
        with pytest.raises(ForeignHangError, match="no answer within 1 s"):
            target.largest_good_subset(Y, 2)
    began = time.monotonic()
    with pytest.raises(ForeignHangError, match="not asked again"):
        target.largest_good_subset(Y, 2)
    assert time.monotonic() - began < 0.5


def test_a_program_that_does_not_read_is_cut_off(program: Callable[..., ForeignTarget]) -> None:
    target = program("time.sleep(60)", seconds=1.0)
    with pytest.raises(ForeignHangError):
        target.largest_good_subset(np.ones((50_000, 1)), 2)  # more than a pipe holds


def test_a_refusal_is_reported_and_the_program_lives_on(program: Callable[..., ForeignTarget]) -> None:
    target = program('print(json.dumps({"id": number, "ok": False, "error": "only d = 1"}), flush=True)')
    for _ in range(2):
        with pytest.raises(ForeignRefusalError, match="only d = 1"):
            target.largest_good_subset(Y, 2)


@pytest.mark.parametrize(
    "body", ["print('{}', flush=True)", "raise SystemExit", 'print(\'{"ok": true, "protocol": 3}\', flush=True)']
)
def test_a_bad_hello_is_an_error(body: str, program: Callable[..., ForeignTarget]) -> None:
    with pytest.raises(ForeignError):
        program(f"import sys\nsys.stdin.readline()\n{body}", whole=True)


def test_a_program_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ForeignCrashError, match="cannot start"):
        ForeignTarget(["there-is-no-such-program"])


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit(3)",
        'print("?", flush=True)',
        "time.sleep(60)",
        'print(json.dumps({"id": number, "ok": False}), flush=True)',
    ],
)
def test_the_audit_reports_a_bad_adapter_and_goes_on(body: str, program: Callable[..., ForeignTarget]) -> None:
    target = Target("bad", program(body, seconds=1.0))
    outcome = run_check(LEMMAS["good_subsets_are_good"], target, SMALL)
    assert outcome.verdict == "not provided"
    target = Target("bad", program(body, seconds=1.0))
    (check,) = (check for check in LEMMAS.values() if check.needs == ("largest_good_subset",))
    outcome = run_check(check, target, SMALL)
    assert outcome.verdict == "raised"
    assert outcome.note.startswith("Foreign")


# A new adapter --------------------------------------------------------------------------------------------------------


def test_a_new_adapter_runs_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(new_adapter("mine"), encoding="utf-8")
    target = foreign_target(shlex.join([sys.executable, str(path)]))
    implementation: Any = target.implementation
    try:
        assert implementation.version == "mine 0"
        assert implementation.functions == {"largest_good_subset"}
        for lam in (2, Fraction(3, 2), "7/2"):
            assert implementation.largest_good_subset(Y, lam) == refimpl.largest_good_subset(Y, lam)
        with pytest.raises(ForeignRefusalError, match="IndexError"):
            implementation.largest_good_subset(np.zeros((0, 1)), 2)
        (check,) = (check for check in LEMMAS.values() if check.needs == ("largest_good_subset",))
        assert run_check(check, target, PROFILES["quick"]).verdict == "held"
    finally:
        implementation.close()
    assert "{name}" in ADAPTER


@pytest.mark.parametrize("name", ["", "a b", 'x"; import os', "../x"])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="a name has"):
        new_adapter(name)
