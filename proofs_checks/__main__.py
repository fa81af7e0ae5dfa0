"""The command ``bhs23-audit``: check the paper's statements on implementations, and show what was found.

Exit status: 0 everything was as it should be, 1 something was refuted (or an expected refutation did not refute), 2 usage,
3 the audit itself broke.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proofs_checks import report
from proofs_checks.audit import PROFILES, Outcome, TargetRaisedError, audit, examine, targets_for
from proofs_checks.lemma import LEMMAS, AuditError, Lemma, Violation
from proofs_checks.paper import LEDGER, markdown_map, promised_checks
from proofs_checks.target import Target, load_target
from refimpl.parameters import EDITIONS, REPAIRED

REFUTED, USAGE, BROKEN = 1, 2, 3
DEFAULT_TARGETS = ["refimpl", "fastimpl"]

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, help=__doc__)


def _usage(message: str) -> NoReturn:
    print(f"bhs23-audit: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


def _targets(names: Sequence[str], edition: str, rounding: str | None) -> list[Target]:
    if edition.upper() not in EDITIONS:
        _usage(f"--edition must be one of {', '.join(EDITIONS)}, got {edition!r}")
    try:
        allowance = None if rounding is None else Fraction(rounding)
        return [load_target(name, EDITIONS[edition.upper()], allowance) for name in names]
    except (ValueError, ZeroDivisionError) as error:
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


def _collect(
    targets: Sequence[Target], checks: Sequence[Lemma], profile: str, seed: int, console: Console
) -> list[Outcome]:
    """Every outcome, with a live display on a terminal and one plain line an outcome elsewhere."""
    outcomes: list[Outcome] = []
    with _progress(sum(len(targets_for(check, targets)) for check in checks), console) as progress:
        (task,) = progress.task_ids

        def show(check: Lemma, target: Target) -> None:
            progress.update(task, description=f"{check.item} on {target.name}")

        for outcome in audit(targets, PROFILES[profile], seed=seed, checks=checks, progress=show):
            outcomes.append(outcome)
            progress.advance(task)
            if not console.is_terminal:
                where = f"{outcome.target.name}, {outcome.target.edition.name}"
                tally = f"{outcome.tally.telling}/{outcome.tally.cases} telling"
                console.print(f"{outcome.check.item} [{where}]: {report.verdict_text(outcome)} ({tally})", markup=False)
    return outcomes


@app.command()
def run(
    targets: Annotated[
        list[str] | None, typer.Argument(help="package.module[:attribute]; refimpl and fastimpl if none.")
    ] = None,
    profile: Annotated[str, typer.Option(help="quick (about a minute), ci or nightly.")] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of the search; a run is repeatable.")] = 0,
    edition: Annotated[str, typer.Option(help="Whose constants and rules: repaired or printed.")] = REPAIRED.name,
    check: Annotated[list[str] | None, typer.Option(help="Only this check, by name; may be repeated.")] = None,
    rounding: Annotated[
        str | None, typer.Option(help="Relative rounding allowance of the targets, such as 1e-9.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for all counterexamples, expected ones too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Run the checks on the given targets, and PRINTED's known-false statements, which must show as refuted."""
    if profile not in PROFILES:
        _usage(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    names = targets or DEFAULT_TARGETS
    audited, checks = _targets(names, edition, rounding), _checks(check or [])
    console = Console(stderr=as_json, width=None if sys.stdout.isatty() else 160)
    began = time.monotonic()
    outcomes = _collect(audited, checks, profile, seed, console)
    unexpected = [o for o in outcomes if not o.is_as_expected]
    if as_json:
        print(json.dumps(report.as_json(outcomes, profile=profile, seed=seed), indent=1))
    else:
        report.print_table(outcomes, console)
    _show_counterexamples(outcomes, unexpected, save, console)
    refuted = sum(o.verdict == "refuted" and o.is_as_expected for o in outcomes)
    held = sum(o.verdict == "held" and o.is_as_expected for o in outcomes)
    console.print(
        f"{held} held, {refuted} refuted as the errata say, {len(unexpected)} not as it should be; "
        f"profile {profile}, seed {seed}, {time.monotonic() - began:.0f} s",
        markup=False,
        highlight=False,
    )
    raise typer.Exit(REFUTED if unexpected else 0)


def _show_counterexamples(
    outcomes: Sequence[Outcome], unexpected: Sequence[Outcome], save: Path | None, console: Console
) -> None:
    """Print the unexpected ones whole and save them always; save expected ones where a folder was asked for.

    In an audit of PRINTED itself the expected refutations are what one came for: they are printed too.
    """
    of_printed = bool(outcomes) and all(o.target.edition.name == "PRINTED" for o in outcomes)
    for outcome in outcomes:
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
def paper(
    profile: Annotated[str, typer.Option(help="quick, ci or nightly.")] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of the search; a run is repeatable.")] = 0,
    markdown: Annotated[
        bool, typer.Option(help="Print the map from paper to project, without verdicts, and stop.")
    ] = False,
) -> None:
    """The ledger: every numbered item with its verdict in both editions, computed now on refimpl."""
    if markdown:
        print(markdown_map(), end="")
        return
    if profile not in PROFILES:
        _usage(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    console = Console(width=None if sys.stdout.isatty() else 200)
    outcomes: list[Outcome] = []
    for edition in EDITIONS:
        checks = [check for check in LEMMAS.values() if check.name in promised_checks()]
        for check in checks:
            # Equality with refimpl is the business of fastimpl; everything else is shown on the specification itself.
            name = "fastimpl" if check.name.endswith("_equals_refimpl") else "refimpl"
            targets = _targets([name], edition, None)
            outcomes += audit(targets, PROFILES[profile], seed=seed, checks=[check], expect_refutations=False)
    sound = report.print_ledger(LEDGER, outcomes, console)
    raise typer.Exit(0 if sound else REFUTED)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A counterexample that a run has saved.")],
    target: Annotated[str | None, typer.Option(help="Another target than the one that was refuted.")] = None,
) -> None:
    """Run one saved counterexample again: status 1 if it still refutes, 0 if it does not any more."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        check, case = report.load_case(content)
        audited = load_target(target or content["target"], EDITIONS[content["edition"]], Fraction(content["rounding"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        _usage(f"{file}: {error}")
    try:
        found = examine(check, audited, case)
    except Violation as violation:
        print(f"{check.item} on {audited.name}, {audited.edition.name}: refuted. {violation.claim}")
        raise typer.Exit(REFUTED) from None
    except TargetRaisedError as error:
        print(f"{check.item} on {audited.name}, {audited.edition.name}: the target raised {error}")
        raise typer.Exit(REFUTED) from None
    print(f"{check.item} on {audited.name}, {audited.edition.name}: held in {found.claims} claims")


def main() -> None:
    """Entry point: ``bhs23-audit`` alone is ``bhs23-audit run``."""
    sys.path.insert(0, str(Path.cwd()))  # a target in the folder one stands in is found, as with python -m
    known = {"run", "paper", "replay", "--help"}
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
