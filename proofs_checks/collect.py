"""A whole run of the audit: here or in worker processes, from where an earlier run was broken off, and to its end.

Whatever one check does (the target hangs or ends the process, the audit itself breaks) is that check's outcome, and costs
no other one. Outcomes come in the order in which the checks are listed, whoever finishes first.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from proofs_checks import audit
from proofs_checks.apart import TRUSTED, Apart, is_trusted, loaded, perform
from proofs_checks.audit import PROFILES, Outcome, Verdict, targets_for
from proofs_checks.lemma import LEMMAS, AuditError, Lemma
from proofs_checks.state import State, case_from_json, case_to_json, outcome_from_json, outcome_to_json
from proofs_checks.target import Target, load_target
from proofs_checks.workers import Lost, Pool, Watch
from refimpl.parameters import EDITIONS

__all__ = ["Question", "Run", "collect", "outcome_of", "questions"]

MOST_HANGS = 3
"""After so many lost processes a target is not asked again, as with a program in another language."""


@dataclass(frozen=True, eq=False)
class Question:
    """One check on one target."""

    check: Lemma
    target: Target


@dataclass(frozen=True)
class Run:
    """How a run is done.

    Attributes
    ----------
    profile, seed
        How much is run, and from which seed.
    jobs
        Worker processes. One alone runs here, unless a target is a stranger's Python, which may hang.
    seconds
        How long one call of a target in a worker may take.
    state
        Where finished outcomes are kept, or None.
    pool
        Workers that do :func:`proofs_checks.apart.perform`, as many and with that limit; made for this run alone if None.
    apart
        Whether everything runs in workers, our own implementations too.
    """

    profile: str = "quick"
    seed: int = 0
    jobs: int = 1
    seconds: float = 60.0
    state: State | None = None
    pool: Pool | None = None
    apart: bool = False


def questions(targets: Sequence[Target], checks: Sequence[Lemma], *, expect_refutations: bool = True) -> list[Question]:
    """Every check with every target that it runs on."""
    return [
        Question(check, target)
        for check in checks
        for target in targets_for(check, targets, expect_refutations=expect_refutations)
    ]


def collect(
    asked: Sequence[Question], run: Run, progress: Callable[[Question], None] = lambda _question: None
) -> Generator[Outcome, None, None]:
    """The outcome of every question, in order, each as soon as it and all before it are known.

    Parameters
    ----------
    asked
        Of :func:`questions`.
    run
        How.
    progress
        Called before a question is asked, where that is known.
    """
    known: dict[int, Outcome] = {}
    if run.state is not None:
        found = ((i, run.state.get(q.check, q.target)) for i, q in enumerate(asked))
        known = {i: outcome for i, outcome in found if outcome is not None}
    open_ones = [i for i in range(len(asked)) if i not in known]
    due = 0
    # Closed at once however this ends: workers of a generator that is merely forgotten are waited for when Python ends.
    with closing(_answers(asked, open_ones, run, progress)) as answers:
        for i, outcome in answers:
            known[i] = outcome
            if run.state is not None:
                run.state.put(outcome)
            while due in known:
                yield known[due]
                due += 1
    yield from (known[i] for i in range(due, len(asked)))


Answers = Generator[tuple[int, Outcome], None, None]


def _answers(
    asked: Sequence[Question], numbers: Sequence[int], run: Run, progress: Callable[[Question], None]
) -> Answers:
    strangers = any(_may_hang(asked[i].target) for i in numbers)
    if run.jobs > 1 or run.apart or strangers:
        with nullcontext(run.pool) if run.pool is not None else Pool(perform, run.jobs, run.seconds) as pool:
            yield from _in_workers(asked, numbers, run, progress, pool)
        return
    for i in numbers:
        progress(asked[i])
        yield i, _here(asked[i], run)


def _may_hang(target: Target) -> bool:
    """Whether the target is a stranger's code in this very process; a program in another language has a limit of its own."""
    return target.implementation is not None and not is_trusted(target.name)


def _here(question: Question, run: Run) -> Outcome:
    try:
        return audit.run_check(question.check, question.target, PROFILES[run.profile], run.seed)
    except Exception:  # a crash of ours in one check must not cost the others
        return _broken(question, traceback.format_exc())


def _broken(question: Question, report: str) -> Outcome:
    outcome = Outcome(question.check, question.target, "broken", _expected(question))
    outcome.note = f"the audit itself broke: {report.strip().splitlines()[-1]}\n{report.strip()}"
    return outcome


# In worker processes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """A question that can be sent: names only."""

    check: str
    target: str
    edition: str
    rounding: Fraction
    most_rows: int
    profile: str
    seed: int
    seconds: float
    watched: bool = True
    announced: bool = False

    def __call__(self, watch: Watch) -> dict[str, Any]:
        """What a worker does with it."""
        check = LEMMAS[self.check]
        try:
            target = self._loaded(watch)
        except ValueError as error:  # it was there when it was described
            nothing = Question(check, Target(self.target, None, EDITIONS[self.edition]))
            return outcome_to_json(_raised(nothing, str(error)))
        looking = (lambda case: watch.say(case_to_json(case))) if self.announced else (lambda _case: None)
        return outcome_to_json(audit.run_check(check, target, PROFILES[self.profile], self.seed, looking=looking))

    def _loaded(self, watch: Watch) -> Target:
        edition = EDITIONS[self.edition]
        if not self.target:
            return Target("paper", None, edition)
        # Our own code has no limit here, as it has none where there is no worker.
        implementation = (
            loaded(self.target, self.seconds, watch) if self.watched else load_target(self.target).implementation
        )
        return Target(self.target, implementation, edition, self.rounding, self.most_rows)


def _task(question: Question, run: Run) -> _Task:
    t = question.target
    name = "" if t.implementation is None else t.name
    watched = run.apart or t.name not in TRUSTED
    return _Task(
        question.check.name, name, t.edition.name, t.rounding, t.most_rows, run.profile, run.seed, run.seconds, watched
    )


def _in_workers(
    asked: Sequence[Question], numbers: Sequence[int], run: Run, progress: Callable[[Question], None], pool: Pool
) -> Answers:
    tasks = [_task(asked[i], run) for i in numbers]
    # Closed at once however this ends: what a worker is at is then not waited for.
    with closing(pool.run(tasks, wanted=lambda task: pool.lost[task.target] < MOST_HANGS)) as answers:
        for position, answer in answers:
            question, task = asked[numbers[position]], tasks[position]
            progress(question)
            is_lost = isinstance(answer, Lost) and answer.why in {"hung", "died"}
            pool.lost[task.target] += is_lost
            yield numbers[position], _outcome(question, _at_which_case(task, answer, run) if is_lost else answer, run)


def outcome_of(check: Lemma, target: Target, run: Run) -> Outcome:
    """One outcome: here, or in a worker where the target is not loaded here. An audit that is itself broken is an error.

    Raises
    ------
    AuditError
        If the audit itself broke.
    """
    if not (run.apart or isinstance(target.implementation, Apart)):
        return audit.run_check(check, target, PROFILES[run.profile], run.seed)
    (outcome,) = collect([Question(check, target)], run)
    if outcome.verdict == "broken":
        raise AuditError(outcome.note)
    return outcome


def _at_which_case(task: _Task, answer: Lost, run: Run) -> Lost:
    """The same again, with every case told before it is looked at: runs are repeatable, and so it is lost at the same one."""
    with Pool(perform, 1, run.seconds) as pool:
        ((_, again),) = pool.run([replace(task, announced=True)])
    if isinstance(again, Lost) and again.why == answer.why:
        return again
    return replace(answer, detail=f"{answer.detail}, and not so when it was run again")


def _outcome(question: Question, answer: dict[str, Any] | Lost, run: Run) -> Outcome:
    if not isinstance(answer, Lost):
        return outcome_from_json(question.check, question.target, answer)
    if answer.why == "failed":
        return _broken(question, answer.detail)
    if answer.why == "skipped" and not question.target.provides(question.check.needs):
        return _here(question, run)  # where nothing is asked of it
    words = {"hung": "the target hangs", "died": "the target ended its process", "skipped": f"lost {MOST_HANGS} times"}
    outcome = _raised(question, f"{words[answer.why]}: {answer.detail}")
    outcome.case = case_from_json(answer.said)
    return outcome


def _raised(question: Question, note: str) -> Outcome:
    outcome = Outcome(question.check, question.target, "raised", _expected(question))
    outcome.note = note
    return outcome


def _expected(question: Question) -> Verdict:
    return "refuted" if question.check.is_refuted_in(question.target.edition.name) else "held"
