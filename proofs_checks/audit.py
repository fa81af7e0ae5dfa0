"""Run checks on targets: pinned cases first, then a steered search, and a verdict that was computed in this process."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

# Importing the rooms registers their checks.
from proofs_checks import (  # noqa: F401 - registers the checks
    accuracy,
    conformance,
    covariance,
    endtoend,
    exhaustive,
    exhaustive_cores,
    identifiability,
    mean,
    privacy,
    ptr,
    scalars,
    sharp,
    sharp_curves,
)
from proofs_checks.datasets import pinned
from proofs_checks.lemma import LEMMAS, AuditError, Claim, Lemma, Telling, Violation
from proofs_checks.stages import Departure, first_departure
from proofs_checks.target import Target
from refimpl.parameters import PRINTED, SHARP

__all__ = [
    "PROFILES",
    "Examined",
    "Outcome",
    "Profile",
    "TargetRaisedError",
    "audit",
    "examine",
    "expected_refutations",
    "most_searched",
    "pinned_cases_for",
    "require_questions",
    "run_check",
    "targets_for",
]

Verdict = Literal["held", "refuted", "raised", "not provided", "not run", "broken"]


@dataclass(frozen=True)
class Profile:
    """How much is run.

    Attributes
    ----------
    cases
        Cases of a plain check; a check of cost c gets a c-th of them, and at least ``least``.
    least
        The least number of searched cases of any check.
    """

    name: str
    cases: int
    least: int


PROFILES = {
    profile.name: profile for profile in (Profile("quick", 60, 2), Profile("ci", 200, 4), Profile("nightly", 4000, 60))
}


LONGEST_SEARCH = 200
"""Cases of one search: a longer one is made of several, which start from seeds of their own."""

SEED_STRIDE = 1_000_003
"""Between the seeds of searches, so that those of a run from another small seed are other searches."""

ATTEMPTS = 5
"""A search ends after this many times its number of cases, whether these attempts led to a case or not.

Hypothesis would go on: a climb that proposed what the strategy cannot make has taken half an hour after 1,300 of 4,000 cases.
"""


@dataclass
class Tally:
    """What happened so far in a run of one check."""

    cases: int = 0
    telling: int = 0
    claims: int = 0
    tightest: float = -math.inf
    tightest_claim: Claim | str | None = None
    tightest_case: Any = None
    kinds: tuple[str, ...] = ()

    @property
    def shows(self) -> str:
        """The tightest ratio; where there is none, what the claims are about instead; "" where none was decided."""
        if math.isfinite(self.tightest):
            return f"{self.tightest:.4f}"
        return "0.0000" if "ratio" in self.kinds else ", ".join(self.kinds)

    def add_kinds(self, kinds: Iterable[str]) -> None:
        """Kinds of claims that were decided."""
        self.kinds = tuple(sorted({*self.kinds, *kinds}))


@dataclass
class Outcome:
    """The verdict of one check on one target in one edition.

    Attributes
    ----------
    verdict, expected
        What was found, and the verdict that is no failure of the run. "broken" says that the audit broke, not the target.
    cases, telling, claims
        Cases examined, how many of them tell anything, and how many inequalities were decided.
    tightest, tightest_claim
        The largest left/right of an inequality that was seen.
    case, claim
        The counterexample and the claim that it breaks, if refuted; the case at which the target raised, if it did. The claim
        is its text alone where the outcome comes from another process or from a file.
    note
        Why, where there is no number that says it.
    departure
        The first stage at which a target that was refuted, or raised, departs from refimpl; None where no difference is seen.
    seconds
        How long it took.
    """

    check: Lemma
    target: Target
    verdict: Verdict
    expected: Verdict
    tally: Tally = field(default_factory=Tally)
    case: Any = None
    claim: Claim | str | None = None
    note: str = ""
    departure: Departure | None = None
    seconds: float = 0.0

    @property
    def is_as_expected(self) -> bool:
        """Whether the verdict is no failure of the run: what was not provided or not run is none."""
        return self.verdict in {self.expected, "not provided", "not run"}


class TargetRaisedError(Exception):
    """The target raised an exception on a case that meets the hypotheses."""

    def __init__(self, case: Any, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.case = case


@dataclass(frozen=True)
class Examined:
    """What one case gave: how many claims, whether it tells anything, and its tightest claim."""

    claims: int
    telling: bool
    tightest: Claim | None
    kinds: frozenset[str] = frozenset()


def examine(check: Lemma, target: Target, case: Any) -> Examined:
    """Decide every claim of a check about one case.

    Raises
    ------
    Violation
        At the first claim that is false, with the case and the claim.
    TargetRaisedError
        If the target raised.
    AuditError
        If the case does not meet the hypotheses, or the check does not say whether the case tells anything.
    """
    claims, telling, tightest, kinds = 0, None, None, set[str]()
    for item in _items(check, target, case):
        if isinstance(item, Telling):
            telling = item.condition
            continue
        if not item.is_true(target.rounding):
            raise Violation(check, case, item)
        claims += 1
        kinds.add(item.kind)
        if (item.tightness or 0) > (tightest.tightness or 0 if tightest else 0):
            tightest = item
    if telling is None:
        raise AuditError(f"{check.name} does not say whether a case tells anything")
    return Examined(claims, telling, tightest, frozenset(kinds))


def _items(check: Lemma, target: Target, case: Any) -> Iterator[Claim | Telling]:
    """What the check yields; whatever a stranger's code raises is a finding about it, not a crash of ours."""
    check.given(case)
    body = check.body(target, case)
    while True:
        try:
            item = next(body, None)
        except AuditError:
            raise
        except (Exception, SystemExit) as error:
            raise TargetRaisedError(case, error) from error
        if item is None:
            return
        yield item


Looking = Callable[[Any], None]
"""Told of every case before it is examined."""


def _look_away(_case: Any) -> None:
    pass


def _count(check: Lemma, target: Target, case: Any, tally: Tally, looking: Looking = _look_away) -> float:
    """Examine one case and count it; return what the search climbs on: 1 if it tells, plus its tightness (at most 2)."""
    looking(case)
    found = examine(check, target, case)
    tally.cases += 1
    tally.telling += found.telling
    tally.claims += found.claims
    tally.add_kinds(found.kinds)
    ratio = (found.tightest.tightness if found.tightest else None) or 0.0
    if found.tightest and ratio > tally.tightest:
        tally.tightest, tally.tightest_claim, tally.tightest_case = ratio, found.tightest, case
    return found.telling + min(ratio, 2.0)


def _search(check: Lemma, target: Target, cases: int, seed: int, tally: Tally, looking: Looking = _look_away) -> None:
    """Search ``cases`` cases, in searches of at most :data:`LONGEST_SEARCH`. Deterministic for a seed.

    Many short searches climb from many starts, and what one of them wastes is bounded. What is drawn again, as in a strategy
    of a few cases, is not counted again.
    """
    seen: dict[Any, float] = {}
    for start in range(0, cases, LONGEST_SEARCH):
        known = len(seen)
        with suppress(_OutOfAttempts):
            _one_search(
                check, target, min(LONGEST_SEARCH, cases - start), seed + SEED_STRIDE * start, tally, looking, seen
            )
        if len(seen) == known:  # there are no more
            return


class _OutOfAttempts(KeyboardInterrupt):
    """A search has drawn as often as it may. An interrupt, which is what Hypothesis lets end a search at any point."""


def _one_search(
    check: Lemma, target: Target, cases: int, seed: int, tally: Tally, looking: Looking, seen: dict[Any, float]
) -> None:
    """Draw cases from the strategy, climbing on telling and tight ones; shrink what refutes."""
    assert check.cases is not None, "a check that is searched has a strategy"
    earlier, attempts, refuted = set(seen), itertools.count(1), False

    def attempt() -> None:
        if next(attempts) > ATTEMPTS * cases and not refuted:  # shrinking has limits of its own
            raise _OutOfAttempts

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(drawn=st.tuples(st.builds(attempt), check.cases()))
    def probe(drawn: tuple[None, Any]) -> None:
        nonlocal refuted
        case = drawn[1]
        if case not in earlier:
            try:
                seen[case] = _count(check, target, case, tally, looking)
            except BaseException:
                refuted = True
                raise
        hypothesis.target(seen[case], label="telling and tightness")

    probe()


def pinned_cases_for(check: Lemma, target: Target) -> list[Any]:
    """The pinned cases of a check that are not too large for the target, small ones first: the least one refutes."""
    cases = sorted((*check.examples(), *pinned(check.name)), key=lambda case: int(case.size(target.edition)))
    return [case for case in cases if case.size(target.edition) <= target.most_rows]


def run_check(
    check: Lemma, target: Target, profile: Profile, seed: int = 0, *, looking: Looking = _look_away
) -> Outcome:
    """Run one check on one target: its pinned cases, then ``profile.cases`` searched ones.

    Parameters
    ----------
    check, target, profile, seed
        What is run, how much of it, and from which seed.
    looking
        Told of every case before it is examined, for who must know at which one a target hangs or ends the process.

    Raises
    ------
    AuditError
        If the check turns out vacuous: no claim, or fewer telling cases than it promises.
    """
    began = time.monotonic()
    outcome = _outcome(check, target, profile, seed, looking)
    if outcome.verdict in {"refuted", "raised"} and not outcome.is_as_expected and target.name != "refimpl":
        _localize(outcome)
    outcome.seconds = time.monotonic() - began
    return outcome


def _outcome(check: Lemma, target: Target, profile: Profile, seed: int, looking: Looking) -> Outcome:
    expected: Verdict = "refuted" if check.is_refuted_in(target.edition.name) else "held"
    outcome = Outcome(check, target, "held", expected)
    reason = check.skip_reason()
    if target.edition is SHARP and not check.is_about_sharp:
        reason = "a statement about the paper's two stages, and SHARP has one"
    if reason or (target.name == "refimpl" and check.name.endswith("_equals_refimpl")):
        outcome.verdict, outcome.note = "not run", reason or "it is the specification"
        return outcome
    if not target.provides(check.needs):
        outcome.verdict, outcome.note = "not provided", ", ".join(n for n in check.needs if not target.provides([n]))
        return outcome
    try:
        pinned_cases, pinned_telling = _examine_all(check, target, profile, seed, outcome.tally, looking)
    except Violation as violation:
        outcome.tally.cases, outcome.tally.telling = outcome.tally.cases + 1, outcome.tally.telling + 1
        outcome.verdict, outcome.case, outcome.claim = "refuted", violation.case, violation.claim
        _count_violation(outcome.tally, violation)
        return outcome
    except TargetRaisedError as error:
        outcome.verdict, outcome.case, outcome.note = "raised", error.case, str(error)
        return outcome
    _demand_tells(check, target, outcome.tally, pinned_cases, pinned_telling)
    return outcome


def _count_violation(tally: Tally, violation: Violation) -> None:
    """A false inequality is the tightest one seen: its ratio is above 1."""
    tally.add_kinds([violation.claim.kind])
    with suppress(OverflowError):  # a ratio that no float holds
        ratio = violation.claim.tightness
        if ratio is not None and tally.tightest < ratio < math.inf:
            tally.tightest, tally.tightest_claim, tally.tightest_case = ratio, violation.claim, violation.case


def most_searched(check: Lemma, profile: Profile) -> int:
    """How many cases of its strategy a check looks at, at most. What has a domain goes through that, and searches none."""
    return max(profile.least, profile.cases // check.cost) if check.domain is None else 0


def _examine_all(
    check: Lemma, target: Target, profile: Profile, seed: int, tally: Tally, looking: Looking
) -> tuple[int, int]:
    """Pinned cases first, then the search or the domain; returns how many were pinned, and how many of these tell."""
    for case in pinned_cases_for(check, target):
        _count(check, target, case, tally, looking)
    pinned_cases, pinned_telling = tally.cases, tally.telling
    if check.domain is None:
        _search(check, target, most_searched(check, profile), seed, tally, looking)
    else:
        for case in check.domain(profile.name):
            _count(check, target, case, tally, looking)
    return pinned_cases, pinned_telling


def _localize(outcome: Outcome) -> None:
    """Find the stage at which the target departs from refimpl. A verdict is never lost to a failure to explain it."""
    if outcome.target.implementation is None or outcome.note.startswith("ForeignHang"):
        return
    try:
        outcome.departure = first_departure(outcome.target, outcome.case)
    except Exception as error:  # whatever it is, the refutation stands
        outcome.note = (
            f"{outcome.note}{'; ' if outcome.note else ''}the stage was not found: {type(error).__name__}: {error}"
        )


def _demand_tells(check: Lemma, target: Target, tally: Tally, pinned_cases: int, pinned_telling: int) -> None:
    """A check that held on cases that could not have refuted it has shown nothing: say so, loudly."""
    if not tally.claims:
        raise AuditError(f"{check.name} made no claim about {target.name}")
    searched, telling = tally.cases - pinned_cases, tally.telling - pinned_telling
    if telling < check.least_telling * searched:
        raise AuditError(
            f"{check.name} on {target.name}: {telling} of {searched} cases tell ({check.telling}); "
            f"at least {check.least_telling} of them must"
        )


def audit(
    targets: Sequence[Target],
    profile: Profile,
    *,
    seed: int = 0,
    checks: Sequence[Lemma] | None = None,
    expect_refutations: bool = True,
    progress: Callable[[Lemma, Target], None] = lambda _check, _target: None,
) -> Iterator[Outcome]:
    """Every check on every target, and PRINTED's known-false statements on every target as well, one outcome at a time."""
    for check in list(LEMMAS.values()) if checks is None else checks:
        for target in targets_for(check, targets, expect_refutations=expect_refutations):
            progress(check, target)
            yield run_check(check, target, profile, seed)


def targets_for(check: Lemma, targets: Sequence[Target], *, expect_refutations: bool = True) -> list[Target]:
    """On what a check runs: the targets, or the paper alone; and once more in PRINTED where the errata refute it.

    SHARP's statements are about SHARP, whatever edition is asked for.
    """
    chosen = [Target("paper", None, targets[0].edition)] if check.is_about_the_paper else list(targets)
    if check.is_about_sharp:
        chosen = [replace(target, edition=SHARP) for target in chosen]
    refuted = expect_refutations and "printed" in check.refuted_by
    return [*chosen, *(expected_refutations(chosen) if refuted else ())]


def require_questions(targets: Sequence[Target]) -> None:
    """Nothing would be asked of a target that has none of the functions, and nothing found: its name is wrong, most likely.

    Raises
    ------
    ValueError
        Naming the first such target.
    """
    for target in targets:
        if not any(check.needs and target.provides(check.needs) for check in LEMMAS.values()):
            raise ValueError(
                f"{target.name} has none of the functions that the statements are about: see "
                "proofs_checks.target.Implementation (one that only releases is for bhs23-audit blackbox)"
            )


def expected_refutations(targets: Sequence[Target]) -> list[Target]:
    """The targets once more, in the edition whose false statements must show as refuted."""
    return [
        Target(t.name, t.implementation, PRINTED, t.rounding, t.most_rows) for t in targets if t.edition is not PRINTED
    ]
