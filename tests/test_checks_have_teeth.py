"""Every check refutes the faults that it names, by its own claim on pinned cases alone; the auditor refuses blunt checks."""

# ruff: noqa: ARG001, ARG005 - the bodies of scratch checks look at nothing

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from mutants import FAULTLESS, FAULTLESS_SHARP, SHARP_MUTANTS
from mutants import MUTANTS as PAPER_MUTANTS

import refimpl
from proofs_checks.accuracy import ACCURACY_MUTANTS
from proofs_checks.audit import Profile, Tally, TargetRaisedError, _search, examine, pinned_cases_for, run_check
from proofs_checks.datasets import Pair, adjacent_rows, are_adjacent
from proofs_checks.identifiability import FAULTS as PAPER_FAULTS
from proofs_checks.lemma import (
    LEMMAS,
    AuditError,
    Claim,
    HypothesisBrokenError,
    Lemma,
    Telling,
    Violation,
    at_most,
    lemma,
    require,
    tells,
)
from proofs_checks.scalars import CONSTANT_MUTANTS
from proofs_checks.sharp_curves import SHARP_FAULTS
from proofs_checks.target import Target, load_target
from refimpl.parameters import PRINTED, REPAIRED, Edition

MUTANTS = PAPER_MUTANTS | SHARP_MUTANTS
FAULTS: dict[str, object] = {**PAPER_FAULTS, **SHARP_FAULTS}
SMALL = Profile("quick", 12, 1)
ELSEWHERE = {"printed", *CONSTANT_MUTANTS, *ACCURACY_MUTANTS}  # below, in test_scalars and in test_accuracy
KILLS = [(check, fault) for check in LEMMAS.values() for fault in check.refuted_by if fault not in ELSEWHERE]


def exact(name: str, implementation: Any, edition: Edition = REPAIRED) -> Target:
    return Target(name, implementation, edition, most_rows=refimpl.MOST_ROWS)


def target_with(fault: str) -> Target:
    """A mutant of the algorithms, or of what a statement about the paper says."""
    if fault in FAULTS:
        return Target("paper", SimpleNamespace(rules=FAULTS[fault]))
    return exact(fault, MUTANTS[fault].implementation)


def runs_here(check: Lemma) -> bool:
    return check.skip_reason() is None


def cases_of(check: Lemma, target: Target) -> Iterator[Any]:
    """The pinned cases, and those of a domain, which are the same in every run; nothing is searched."""
    return chain(pinned_cases_for(check, target), check.domain(SMALL.name) if check.domain else ())


def refutation(check: Lemma, target: Target) -> Violation | None:
    """What refutes the target, if anything does. An exception of the target is no refutation and is raised."""
    for case in cases_of(check, target):
        try:
            examine(check, target, case)
        except Violation as violation:
            return violation
    return None


def is_equivalence(check: Lemma) -> bool:
    return check.name.endswith("_equals_refimpl")


@pytest.mark.parametrize(("check", "fault"), KILLS, ids=[f"{check.name}-{fault}" for check, fault in KILLS])
def test_a_check_refutes_the_faults_that_it_names(check: Lemma, fault: str) -> None:
    if not runs_here(check):
        pytest.skip(str(check.skip_reason()))
    violation = refutation(check, target_with(fault))
    assert violation is not None, f"{check.name} has no pinned case that refutes {fault}"
    assert violation.check is check


@pytest.mark.parametrize(
    "check", [check for check in LEMMAS.values() if "printed" in check.refuted_by], ids=lambda c: c.name
)
def test_an_erratum_is_refuted_on_a_faultless_target(check: Lemma) -> None:
    if check.is_about_the_paper:
        targets = [Target("paper", None, PRINTED)]
    else:
        targets = [exact("refimpl", refimpl, PRINTED), load_target("fastimpl", PRINTED)]
    assert any(refutation(check, target) for target in targets)


@pytest.mark.parametrize("check", LEMMAS.values(), ids=lambda check: check.name)
def test_refimpl_passes_what_refutes_the_mutants(check: Lemma) -> None:
    target = Target("paper", None) if check.is_about_the_paper else exact("refimpl", refimpl)
    for case in pinned_cases_for(check, target) if runs_here(check) else ():
        examine(check, target, case)


@pytest.mark.parametrize(
    "check",
    [check for check in LEMMAS.values() if check.needs and check.domain is None and check.cost < 10],
    ids=lambda c: c.name,
)
def test_the_mutants_without_a_fault_pass_every_check(check: Lemma) -> None:
    faultless = FAULTLESS_SHARP if "stable_moments" in check.needs else FAULTLESS
    target, tally = exact("faultless", faultless), Tally()
    for case in pinned_cases_for(check, target):
        examine(check, target, case)
    _search(check, target, max(1, SMALL.cases // check.cost), 0, tally)
    assert tally.claims


def test_every_fault_that_a_check_names_exists() -> None:
    assert {fault for _, fault in KILLS} <= {*MUTANTS, *FAULTS}
    assert not set(MUTANTS) & set(FAULTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_refuted_by_a_lemma_or_says_why_not(name: str) -> None:
    checks = [check for check, fault in KILLS if fault == name]
    assert checks, f"no check names {name} in refuted_by"
    assert all(map(is_equivalence, checks)) == bool(MUTANTS[name].survives_because)
    assert MUTANTS[name].name == name
    assert load_target(f"mutants:{name}").implementation is MUTANTS[name].implementation


# The auditor refuses blunt checks -------------------------------------------------------------------------------------


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The decorator, with a body's usual arguments, and without a trace of the check afterwards."""
    monkeypatch.setattr("proofs_checks.lemma.LEMMAS", {})

    def make(body: Any, given: Any = are_adjacent) -> Lemma:
        body.__doc__ = body.__doc__ or "Of no importance."
        return lemma(
            "Lemma 0",
            "nothing",
            cases=adjacent_rows,
            given=given,
            needs=("f",),
            telling="always",
            refuted_by=("printed",),
        )(body)

    return make


HERE = Target("here", SimpleNamespace(f=lambda: 0))
A_PAIR = Pair("covariance", ((1,),), 0, (1,), 1, 1)


def test_a_check_without_a_claim_is_an_audit_error(scratch: Any) -> None:
    def says_nothing(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield tells(True)

    with pytest.raises(AuditError, match="no claim"):
        run_check(scratch(says_nothing), HERE, SMALL)


def test_a_check_that_does_not_say_whether_it_tells_is_an_audit_error(scratch: Any) -> None:
    def is_silent(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield at_most("one", 1, 1)

    with pytest.raises(AuditError, match="does not say"):
        run_check(scratch(is_silent), HERE, SMALL)


def test_a_check_below_its_telling_share_is_an_audit_error(scratch: Any) -> None:
    def is_vacuous(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield tells(False)
        yield at_most("one", 1, 1)

    with pytest.raises(AuditError, match=r"0 of \d+ cases tell"):
        run_check(scratch(is_vacuous), HERE, SMALL)


def test_a_case_outside_the_hypotheses_is_an_audit_error(scratch: Any) -> None:
    def holds_for_all(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield tells(True)
        yield at_most("one", 1, 1)

    check = scratch(holds_for_all, given=lambda pair: require("a million rows", pair.n >= 10**6))
    with pytest.raises(HypothesisBrokenError, match="a million rows"):
        examine(check, HERE, A_PAIR)
    with pytest.raises(AuditError):
        run_check(check, HERE, SMALL)


def test_an_exception_of_a_target_is_a_finding_and_no_refutation(scratch: Any) -> None:
    def asks_the_target(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield tells(True)
        yield at_most("f", target.f(), 1)

    def fails() -> int:
        raise RuntimeError("no")

    check, target = scratch(asks_the_target), Target("failing", SimpleNamespace(f=fails))
    with pytest.raises(TargetRaisedError, match="RuntimeError: no"):
        examine(check, target, A_PAIR)
    outcome = run_check(check, target, SMALL)
    assert (outcome.verdict, outcome.note, outcome.is_as_expected) == ("raised", "RuntimeError: no", False)
    assert run_check(check, HERE, SMALL).verdict == "held"


def test_a_false_claim_is_a_violation_with_its_case(scratch: Any) -> None:
    def is_false(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
        yield tells(True)
        yield at_most("two", 2, 1)

    check = scratch(is_false)
    with pytest.raises(Violation, match="two: 2 <= 1") as caught:
        examine(check, HERE, A_PAIR)
    assert (caught.value.check, caught.value.case) == (check, A_PAIR)
    assert run_check(check, HERE, SMALL).verdict == "refuted"


def test_a_check_needs_a_statement_and_a_fault() -> None:
    arguments: Any = {"cases": st.nothing, "given": are_adjacent, "needs": ("f",), "telling": "never"}
    with pytest.raises(AuditError, match="no fault"):
        lemma("Lemma 0", "nothing", refuted_by=(), **arguments)
    with pytest.raises(AuditError, match="docstring"):
        lemma("Lemma 0", "nothing", refuted_by=("printed",), **arguments)(lambda target, case: iter(()))
