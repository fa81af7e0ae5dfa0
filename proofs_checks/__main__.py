"""The command ``bhs23-audit``: check the paper's statements on implementations, and show what was found.

Exit status: 0 everything was as it should be, 1 something was refuted (or an expected refutation did not refute), 2 usage,
3 the audit itself broke (what it had found is printed all the same), 130 interrupted.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proofs_checks import formats, report
from proofs_checks.apart import find_target, loaded, perform
from proofs_checks.audit import PROFILES, Outcome, TargetRaisedError, examine, require_questions
from proofs_checks.blackbox import (
    Budget,
    PrivateRelease,
    Settings,
    TargetHungError,
    audit_release,
    generic_pairs,
    habits_of,
    habits_within,
    quiet_rows,
    steered_pairs,
)
from proofs_checks.collect import Question, Run, collect, questions
from proofs_checks.foreign import new_adapter
from proofs_checks.lemma import LEMMAS, AuditError, Lemma, Violation
from proofs_checks.paper import LEDGER, SHARP_LEDGER, markdown_map, promised_checks
from proofs_checks.state import State
from proofs_checks.target import Target
from proofs_checks.vectors import command as vectors_command
from proofs_checks.workers import Lost, Pool, Watch
from refimpl.parameters import EDITIONS, REPAIRED, SHARP

REFUTED, USAGE, BROKEN, INTERRUPTED = 1, 2, 3, 130
DEFAULT_TARGETS = ["refimpl", "fastimpl"]
TIME_LIMIT = 60.0
FEW_CHECKS = 16

Jobs = Annotated[
    int | None,
    typer.Option(
        help=f"Worker processes: one for each processor if not given, or one for fewer than {FEW_CHECKS} checks."
    ),
]

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, help=__doc__)
app.add_typer(vectors_command.app, name="vectors")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"bhs23-audit {version('bhs23')}")
        raise typer.Exit


@app.callback(help=__doc__)
def _common(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """The command; Ctrl-C, wherever it is, gives its own status, and never that of a refutation."""

    @wraps(command)
    def run_it(*arguments: Any, **named: Any) -> None:
        try:
            command(*arguments, **named)
        except KeyboardInterrupt:
            print("bhs23-audit: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None

    return run_it


def _usage(message: str) -> NoReturn:
    print(f"bhs23-audit: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


def _targets(names: Sequence[str], edition: str, rounding: str | None, pool: Pool) -> list[Target]:
    if edition.upper() not in EDITIONS:
        _usage(f"--edition must be one of {', '.join(EDITIONS)}, got {edition!r}")
    try:
        allowance = None if rounding is None else Fraction(rounding)
        with redirect_stdout(sys.stderr):  # what a module prints when it is imported is no part of a report
            whose, seconds = EDITIONS[edition.upper()], pool.seconds or TIME_LIMIT
            return [find_target(name, whose, allowance, seconds=seconds, pool=pool) for name in names]
    except (ValueError, ZeroDivisionError) as error:
        _usage(str(error))


def _require_questions(targets: Sequence[Target]) -> None:
    try:
        require_questions(targets)
    except ValueError as error:
        _usage(str(error))


def _checks(names: Sequence[str]) -> list[Lemma]:
    unknown = [name for name in names if name not in LEMMAS]
    if unknown:
        _usage(f"no check is called {unknown[0]!r}; there are {', '.join(LEMMAS)}")
    return [LEMMAS[name] for name in names] or list(LEMMAS.values())


@contextmanager
def _progress(total: int, console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task("", total=total)
        yield progress


def _collect(asked: Sequence[Question], how: Run, console: Console) -> tuple[list[Outcome], bool]:
    """Every outcome, with a live display on a terminal and one plain line an outcome elsewhere.

    Ctrl-C ends the collection and loses nothing: the second value says whether it came to its end.
    """
    outcomes: list[Outcome] = []
    try:
        with _progress(len(asked), console) as progress:
            (task,) = progress.task_ids

            def show(question: Question) -> None:
                progress.update(task, description=f"{question.check.item} on {question.target.name}")

            with closing(collect(asked, how, show)) as found:  # Ctrl-C ends the workers at once
                for outcome in found:
                    outcomes.append(outcome)
                    progress.advance(task)
                    if not console.is_terminal:
                        _print_line(outcome, console)
    except KeyboardInterrupt:
        return outcomes, False
    return outcomes, True


def _print_line(outcome: Outcome, console: Console) -> None:
    where = f"{outcome.target.name}, {outcome.target.edition.name}"
    tally = f"{outcome.tally.telling}/{outcome.tally.cases} telling"
    console.print(f"{outcome.check.item} [{where}]: {report.verdict_text(outcome)} ({tally})", markup=False)


def _workers(jobs: int, seconds: float) -> Pool:
    """Workers for everything that a command asks of strangers; none is started before it is needed."""
    if jobs < 1 or not seconds > 0:
        _usage("--jobs must be at least 1, and --time-limit positive")
    return Pool(perform, jobs, seconds)


def _jobs(given: int | None, checks: int) -> int:
    """A worker for each processor, but one where there is little to do: a second takes a moment to start."""
    if given is not None or checks < FEW_CHECKS:
        return 1 if given is None else given
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _how(profile: str, seed: int, pool: Pool, state: Path | None = None) -> Run:
    if profile not in PROFILES:
        _usage(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    try:
        kept = None if state is None else State(state, profile, seed)
        return Run(profile, seed, pool.jobs, pool.seconds or TIME_LIMIT, kept, pool)
    except ValueError as error:
        _usage(str(error))


@app.command()
@_interruptible
def run(
    targets: Annotated[
        list[str] | None, typer.Argument(help="package.module[:attribute]; refimpl and fastimpl if none.")
    ] = None,
    profile: Annotated[str, typer.Option(help="quick (about a minute), ci or nightly.")] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of the search; a run is repeatable.")] = 0,
    edition: Annotated[
        str, typer.Option(help="Whose constants and rules: repaired, printed or sharp.")
    ] = REPAIRED.name,
    check: Annotated[list[str] | None, typer.Option(help="Only this check, by name; may be repeated.")] = None,
    rounding: Annotated[
        str | None, typer.Option(help="Relative rounding allowance of the targets, such as 1e-9.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for all counterexamples, expected ones too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF 2.1.0 to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained HTML page to this file.")] = None,
    badge: Annotated[Path | None, typer.Option(help="Write a shields endpoint badge to this file.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help="What gives status 1: refuted, raised, not-provided, or none; refuted,raised if not given."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="JSON of an earlier run: only what did not fail in it gives status 1.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep finished outcomes in this file; a run with the same file goes on from there."),
    ] = None,
    jobs: Jobs = None,
    time_limit: Annotated[float, typer.Option(help="Seconds that one call of a target may take.")] = TIME_LIMIT,
) -> None:
    """Run the checks on the given targets, and PRINTED's known-false statements, which must show as refuted."""
    kinds, known = _failure_rules(fail_on or [], baseline)
    console = Console(stderr=as_json, width=None if sys.stdout.isatty() else 160)
    began, checks = time.monotonic(), _checks(check or [])
    with _workers(_jobs(jobs, len(checks)), time_limit) as pool:
        how = _how(profile, seed, pool, state)
        audited = _targets(targets or DEFAULT_TARGETS, edition, rounding, pool)
        _require_questions(audited)
        outcomes, complete = _collect(questions(audited, checks), how, console)
    if how.state is not None:
        said = f"{how.state.found} of {len(outcomes)} outcomes were in it and were not run again"
        console.print(f"state {state}: {said}", markup=False, highlight=False, soft_wrap=True)
    record = formats.as_record(outcomes, profile=profile, seed=seed, complete=complete)
    if as_json:
        print(formats.WRITERS["json"](record), end="")
    else:
        report.print_table(outcomes, console)
    _show_counterexamples(outcomes, [o for o in outcomes if not o.is_as_expected], save, console)
    _write(record, {"junit": junit, "sarif": sarif, "markdown": markdown, "html": html, "badge": badge}, console)
    failing = formats.failures(record, kinds, known)
    console.print(
        f"{formats.summary(record)}; profile {profile}, seed {seed}, {time.monotonic() - began:.0f} s",
        markup=False,
        highlight=False,
    )
    if baseline is not None:
        console.print(f"{len(failing)} not in the baseline {baseline}", markup=False, highlight=False)
    if any(outcome.verdict == "broken" for outcome in outcomes):
        raise typer.Exit(BROKEN)
    raise typer.Exit(INTERRUPTED if not complete else REFUTED if failing else 0)


def _failure_rules(fail_on: Sequence[str], baseline: Path | None) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """What fails the run, and what is known to fail: read before the run, which may take hours."""
    try:
        known = formats.baseline_failures(baseline) if baseline is not None else frozenset()
        return formats.parse_fail_on(fail_on), known
    except ValueError as error:
        _usage(str(error))


def _write(record: formats.Record, files: dict[str, Path | None], console: Console) -> None:
    try:
        for path in formats.write(record, files):
            console.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)
    except OSError as error:
        _usage(f"cannot write: {error}")


def _show_counterexamples(
    outcomes: Sequence[Outcome], unexpected: Sequence[Outcome], save: Path | None, console: Console
) -> None:
    """Print the unexpected ones whole and save them always; save expected ones where a folder was asked for.

    In an audit of PRINTED itself the expected refutations are what one came for: they are printed too.
    """
    of_printed = bool(outcomes) and all(o.target.edition.name == "PRINTED" for o in outcomes)
    for outcome in outcomes:
        if outcome.verdict == "broken":
            print(f"bhs23-audit: {outcome.check.name}: {outcome.note}", file=sys.stderr)
        if outcome.case is None:
            continue
        if outcome in unexpected or of_printed:
            report.print_counterexample(outcome, console)
        if outcome in unexpected or save is not None:
            path = report.save_counterexample(outcome, save or Path("bhs23-counterexamples"))
            console.print(
                f"saved to {path}; run it again with: bhs23-audit replay {path}", markup=False, soft_wrap=True
            )


@app.command()
@_interruptible
def paper(
    profile: Annotated[str, typer.Option(help="quick, ci or nightly.")] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of the search; a run is repeatable.")] = 0,
    markdown: Annotated[
        bool, typer.Option(help="Print the map from paper to project, without verdicts, and stop.")
    ] = False,
    jobs: Jobs = None,
    time_limit: Annotated[float, typer.Option(help="Seconds that one call of refimpl may take.")] = 600.0,
) -> None:
    """The ledger: every numbered item with its verdict in both editions, and SHARP's statements, computed now on refimpl."""
    if markdown:
        print(markdown_map(), end="")
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    with _workers(_jobs(jobs, len(LEMMAS)), time_limit) as pool:
        how = replace(_how(profile, seed, pool), apart=True)
        outcomes, complete = _collect(list(_promised(pool)), how, console)
    if not complete:
        raise typer.Exit(INTERRUPTED)
    broken = [outcome for outcome in outcomes if outcome.verdict == "broken"]
    if broken:
        raise AuditError(broken[0].note)
    sound = report.print_ledger(LEDGER, outcomes, console)
    sound = report.print_ledger(SHARP_LEDGER, outcomes, console, "SHARP, statement by statement") and sound
    raise typer.Exit(0 if sound else REFUTED)


def _promised(pool: Pool) -> Iterator[Question]:
    """Every check of the ledgers in every edition that it is about."""
    for edition in EDITIONS:
        sharp = edition == SHARP.name
        for check in (c for c in LEMMAS.values() if c.name in promised_checks() and c.is_about_sharp == sharp):
            # Equality with refimpl is the business of fastimpl; everything else is shown on the specification itself.
            name = "fastimpl" if check.name.endswith("_equals_refimpl") else "refimpl"
            yield from questions(_targets([name], edition, None, pool), [check], expect_refutations=False)


@dataclass(frozen=True)
class _Replay:
    """The task of running a saved case again."""

    content: dict[str, Any]
    target: str
    seconds: float

    def __call__(self, watch: Watch) -> tuple[bool, str]:
        """Whether it still refutes, in words."""
        check, case = report.load_case(self.content)
        edition, rounding = EDITIONS[self.content["edition"]], Fraction(self.content["rounding"])
        audited = Target(self.target, loaded(self.target, self.seconds, watch), edition, rounding)
        try:
            found = examine(check, audited, case)
        except Violation as violation:
            return True, f"refuted. {violation.claim}"
        except TargetRaisedError as error:
            return True, f"the target raised {error}"
        return False, f"held in {found.claims} claims"


@app.command()
@_interruptible
def replay(
    file: Annotated[Path, typer.Argument(help="A counterexample that a run has saved.")],
    target: Annotated[str | None, typer.Option(help="Another target than the one that was refuted.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds that one call of the target may take.")] = TIME_LIMIT,
) -> None:
    """Run one saved counterexample again: status 1 if it still refutes, 0 if it does not any more."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        check, _ = report.load_case(content)
        name, edition = target or content["target"], EDITIONS[content["edition"]].name
        with _workers(1, time_limit) as pool:
            _targets([name], edition, content["rounding"], pool)
            ((_, found),) = pool.run([_Replay(content, name, time_limit)])
    except (OSError, ValueError, KeyError, TypeError) as error:
        _usage(f"{file}: {error}")
    refutes, words = (True, _loss(found)) if isinstance(found, Lost) else found
    print(f"{check.item} on {name}, {edition}: {words}")
    raise typer.Exit(REFUTED if refutes else 0)


def _loss(lost: Lost) -> str:
    """What became of a target in a worker; an error of our own is one here, too."""
    if lost.why == "failed":
        raise AuditError(lost.detail)
    return f"the target {'hangs' if lost.why == 'hung' else 'ended its process'}: {lost.detail}"


@app.command()
@_interruptible
def blackbox(
    target: Annotated[str, typer.Argument(help="package.module[:attribute] or exec:COMMAND with a private_mean.")],
    epsilon: Annotated[str, typer.Option(help="The claim.")] = "1",
    delta: Annotated[str, typer.Option(help="The claim.")] = "1e-6",
    lambda_0: Annotated[str, typer.Option("--lambda-0", help="Outlier threshold that it is called with.")] = "10",
    edition: Annotated[str, typer.Option(help="Edition that it is called with.")] = REPAIRED.name,
    function: Annotated[str, typer.Option(help="The function that releases.")] = "private_mean",
    rows: Annotated[
        int | None, typer.Option(help="Number of rows; the least that Algorithm 1 takes if not given.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Test runs on each side.")] = 2000,
    level: Annotated[float, typer.Option(help="Chance that a target which keeps its claim is refuted.")] = 1e-3,
    jobs: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    time_limit: Annotated[float, typer.Option(help="Seconds that one run of the target may take.")] = TIME_LIMIT,
    seed: Annotated[int, typer.Option(help="Of every seed that the target is given.")] = 0,
    generic: Annotated[bool, typer.Option(help="Also probe pairs that are not of the paper's analysis.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Audit a target that only releases: a lower bound on its epsilon, from runs on adjacent data."""
    with _workers(1, time_limit) as pool:
        (described,) = _targets([target], edition, None, pool)
    # Worker processes load the target by its name. A program cannot be sent to them, and has a time limit of its own.
    by_name = not target.startswith("exec:")
    try:
        budget, outlier = Budget.of(epsilon, delta), Fraction(lambda_0)
        probes, searched = max(20, runs // 10), max(40, runs // 5)
        settings = Settings(level=level, probe_runs=probes, search_runs=searched, test_runs=runs, jobs=jobs)
        settings = replace(settings, seconds=time_limit) if by_name else replace(settings, jobs=1)
    except (ValueError, ZeroDivisionError) as error:
        _usage(str(error))
    if not described.provides([function]):
        _usage(f"{target} has no {function}")
    implementation = target if by_name else described.implementation
    release = PrivateRelease(implementation, budget.epsilon, budget.delta, outlier, described.edition, function)
    try:
        pair, used = steered_pairs(release, budget, outlier, rows, settings, edition=described.edition, seed=seed)
    except TargetHungError as error:
        print(
            json.dumps({"target": target, "verdict": "raised", "note": str(error)}) if as_json else f"{target}: {error}"
        )
        raise typer.Exit(REFUTED) from None
    pairs = [pair, *generic_pairs(len(pair.x), 1)] if generic else [pair]
    outcome = audit_release(release, pairs, budget, settings, name=target, seed=seed)
    outcome.search_runs_used += used
    both = function == "private_mean" and described.provides(["private_covariance"])
    covariance = replace(release, function="private_covariance") if both else None
    x = quiet_rows(len(pair.x))
    habits = habits_within(time_limit, release, x, covariance) if by_name else habits_of(release, x, covariance)
    if as_json:
        print(json.dumps({**outcome.to_json(), "habits": [vars(habit) for habit in habits]}, indent=1))
    else:
        print(outcome, *habits, sep="\n")
    bad = outcome.verdict in {"refuted", "raised"} or any(habit.found for habit in habits)
    raise typer.Exit(REFUTED if bad else 0)


@app.command("new-adapter")
def new_adapter_command(name: Annotated[str, typer.Argument(help="What the target is called.")]) -> None:
    """Write NAME.py, a commented adapter that runs, for a target in any language."""
    path = Path(f"{name}.py")
    try:
        source = new_adapter(name)
        with path.open("x", encoding="utf-8") as file:
            file.write(source)
    except (ValueError, FileExistsError) as error:
        _usage(str(error))
    program = "exec:" + shlex.join([sys.executable, str(path)])
    print(f"wrote {path}; try it with: bhs23-audit run {shlex.quote(program)}")


def main() -> None:
    """Entry point: ``bhs23-audit`` alone is ``bhs23-audit run``."""
    sys.path.insert(0, str(Path.cwd()))  # a target in the folder one stands in is found, as with python -m
    known = {"run", "paper", "replay", "blackbox", "new-adapter", "vectors", "--help", "--version"}
    if not any(argument in known for argument in sys.argv[1:2]):
        sys.argv.insert(1, "run")
    try:
        app()
    except AuditError as error:
        print(f"bhs23-audit: the audit itself is broken: {error}", file=sys.stderr)
        sys.exit(BROKEN)
    except Exception:  # a crash of the audit must not look like a verdict
        traceback.print_exc()
        print("bhs23-audit: the audit itself broke", file=sys.stderr)
        sys.exit(BROKEN)


if __name__ == "__main__":
    main()
