"""The sub-command ``bhs23-audit vectors``: write the test vectors, and check a target with them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from proofs_checks.apart import Apart, find_target, loaded, perform
from proofs_checks.lemma import AuditError
from proofs_checks.target import Target
from proofs_checks.vectors.check import Finding, as_report, check_vector, has_float_ties
from proofs_checks.vectors.counterexamples import COUNTEREXAMPLES, check_counterexample
from proofs_checks.vectors.counterexamples import convert as convert_saved
from proofs_checks.vectors.groups import GROUPS
from proofs_checks.vectors.shipped import Vector, read_folder, shipped_folder, write_folder
from proofs_checks.workers import Lost, Pool, Watch
from refimpl.parameters import EDITIONS

__all__ = ["app"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130
SHOWN = 20
MOST_HANGS = 3
"""After so many lost processes a target is not asked again."""

app = typer.Typer(help=__doc__, no_args_is_help=True)


def _usage(message: str) -> NoReturn:
    print(f"bhs23-audit: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


@app.command()
def write(folder: Annotated[Path, typer.Argument(help="Folder, made if it does not exist.")]) -> None:
    """Write the test vectors as JSON, one file for each group, with their schema. refimpl computes every answer anew."""
    try:
        counts = write_folder(folder)
    except OSError as error:
        _usage(f"cannot write: {error}")
    print(f"wrote {sum(counts.values())} vectors in {len(counts)} groups to {folder}")


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of vectors or of saved counterexamples; the shipped vectors if none.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "--dp-target", help="package.module[:attribute] or exec:COMMAND; may be repeated."),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be repeated.")] = None,
    edition: Annotated[
        str | None, typer.Option(help="Of vectors with an edition, only those of repaired or of printed.")
    ] = None,
    rounding: Annotated[
        str | None, typer.Option("--rounding", "--dp-rounding", help="Relative rounding allowance, such as 1e-9.")
    ] = None,
    float_ties: Annotated[
        bool | None,
        typer.Option(help="Whether exact ties may go either way; what the target says of itself if not given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    time_limit: Annotated[float, typer.Option(help="Seconds that one call of a target may take.")] = 60.0,
) -> None:
    """Check targets with test vectors: status 1 if one departs from an exact answer, or raises."""
    if not target:
        _usage("vectors check needs a --target")
    if not time_limit > 0:
        _usage("--time-limit must be positive")
    chosen = _selected(folder or shipped_folder(), group or [], edition)
    with Pool(perform, 1, time_limit) as pool:
        try:
            targets = [_target(name, rounding, pool) for name in target]
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        _check(targets, *chosen, pool, float_ties=float_ties, as_json=as_json)


def _check(
    targets: Sequence[Target],
    vectors: Sequence[Vector],
    counterexamples: Sequence[Path],
    pool: Pool,
    *,
    float_ties: bool | None,
    as_json: bool,
) -> NoReturn:
    reports, failed, complete = [], False, True
    console = Console(width=None if sys.stdout.isatty() else 160)
    for audited in targets:
        ties = has_float_ties(audited) if float_ties is None else float_ties
        findings: list[Finding] = []
        complete = complete and _collect(findings, _findings(audited, vectors, counterexamples, pool, float_ties=ties))
        reports.append(as_report(audited, findings, float_ties=ties, complete=complete))
        failed = failed or any(finding.is_failure for finding in findings)
        if complete and all(finding.verdict == "not provided" for finding in findings):
            _usage(f"{audited.name} provides none of the functions that these vectors ask for")
        if not as_json:
            _show(audited, findings, console)
        if not complete:
            break
    if as_json:
        print(json.dumps(reports[0] if len(reports) == 1 else reports, indent=1))
    raise typer.Exit(INTERRUPTED if not complete else FAILED if failed else 0)


@app.command()
def convert(
    saved: Annotated[Path, typer.Argument(help="Folder of counterexamples that bhs23-audit run has saved.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the vectors, made if it does not exist.")],
) -> None:
    """Write saved pairs of data sets as test vectors with refimpl's answers, for implementations in any language."""
    paths = sorted(saved.glob("*.json"))
    try:
        counts = convert_saved(paths, folder)
    except (OSError, ValueError) as error:
        _usage(str(error))
    if not counts:
        _usage(f"{saved} has no saved pair of data sets")
    print(f"wrote {sum(counts.values())} vectors of {len(paths)} counterexamples to {folder}")


def _target(name: str, rounding: str | None, pool: Pool) -> Target:
    try:
        allowance = None if rounding is None else Fraction(rounding)
        return find_target(name, rounding=allowance, seconds=pool.seconds or math.inf, pool=pool)
    except (ValueError, ZeroDivisionError) as error:
        _usage(str(error))


def _selected(folder: Path, groups: Sequence[str], edition: str | None) -> tuple[list[Vector], list[Path]]:
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        _usage(f"no group is called {unknown[0]!r}; there are {', '.join(GROUPS)}")
    if edition is not None and edition.upper() not in EDITIONS:
        _usage(f"--edition must be one of {', '.join(EDITIONS)}, got {edition!r}")
    try:
        vectors, counterexamples = read_folder(folder)
    except ValueError as error:
        _usage(str(error))
    if groups:
        vectors, counterexamples = [v for v in vectors if v.group in groups], []
    if edition is not None:
        vectors = [v for v in vectors if v.input.get("edition", edition.upper()) == edition.upper()]
    if not vectors and not counterexamples:
        _usage("no vector is left")
    return vectors, counterexamples


def _collect(findings: list[Finding], found: Iterator[Finding]) -> bool:
    """Append every finding; Ctrl-C ends it and loses nothing. Whether it came to its end."""
    try:
        for finding in found:
            findings.append(finding)  # noqa: PERF402 - what was found before Ctrl-C stays
    except KeyboardInterrupt:
        return False
    except ValueError as error:
        _usage(str(error))
    return True


def _findings(
    target: Target, vectors: Sequence[Vector], counterexamples: Sequence[Path], pool: Pool, *, float_ties: bool
) -> Iterator[Finding]:
    about = (vectors, counterexamples)
    if isinstance(target.implementation, Apart):
        yield from _findings_apart(target, *about, pool, float_ties=float_ties)
        return
    for vector in vectors:
        yield check_vector(target, vector, float_ties=float_ties)
    for path in counterexamples:
        yield check_counterexample(target, path)


@dataclass(frozen=True)
class _One:
    """The task of running one vector, or one saved counterexample, on a stranger's target."""

    target: str
    rounding: Fraction
    most_rows: int
    seconds: float
    float_ties: bool
    what: Vector | Path

    def __call__(self, watch: Watch) -> Finding | str:
        """What it gave, or why it is none."""
        implementation = loaded(self.target, self.seconds, watch)
        target = Target(self.target, implementation, rounding=self.rounding, most_rows=self.most_rows)
        try:
            if isinstance(self.what, Vector):
                return check_vector(target, self.what, float_ties=self.float_ties)
            return check_counterexample(target, self.what)
        except ValueError as error:
            return str(error)


def _findings_apart(
    target: Target, vectors: Sequence[Vector], counterexamples: Sequence[Path], pool: Pool, *, float_ties: bool
) -> Iterator[Finding]:
    about = (target.name, target.rounding, target.most_rows, pool.seconds or math.inf, float_ties)
    everything: list[Vector | Path] = [*vectors, *counterexamples]
    tasks = [_One(*about, what) for what in everything]
    with closing(pool.run(tasks, wanted=lambda _task: pool.lost[target.name] < MOST_HANGS)) as answers:
        for i, answer in answers:
            if isinstance(answer, Lost):
                pool.lost[target.name] += answer.why in {"hung", "died"}
                yield _lost(target, everything[i], answer)
            elif isinstance(answer, str):
                raise ValueError(answer)
            else:
                yield answer


def _lost(target: Target, what: Vector | Path, lost: Lost) -> Finding:
    if lost.why == "failed":
        raise AuditError(lost.detail)
    if isinstance(what, Vector) and not target.provides(GROUPS[what.group].needs):
        return check_vector(target, what)  # which asks nothing of it
    words = {"hung": "the target hangs", "died": "the target ended its process", "skipped": f"lost {MOST_HANGS} times"}
    note = f"{words[lost.why]}: {lost.detail}"
    if isinstance(what, Vector):
        about = {name: getattr(what, name) for name in ("id", "group", "bug", "says", "flags", "result")}
        return Finding(**about, verdict="raised", note=note)
    return Finding(what.stem, COUNTEREXAMPLES, "", "", (), "valid", "raised", note)


def _show(target: Target, findings: Sequence[Finding], console: Console) -> None:
    report = as_report(target, findings, float_ties=False)
    table = Table(title=f"Test vectors on {target.name}", title_justify="left")
    table.add_column("group", overflow="fold")
    columns = ("passed", "failed", "raised", "boundary", "not_provided", "not_run")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for entry in report["groups"]:
        style = "red" if entry["failed"] or entry["raised"] else "dim" if not entry["passed"] else "green"
        table.add_row(entry["group"], *(str(entry[column] or "") for column in columns), style=style)
    console.print(table)
    failures = [finding for finding in findings if finding.is_failure]
    for finding in failures[:SHOWN]:
        console.print(f"{finding.id}: {finding.verdict}. {finding.note}", markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"  is there to catch: {finding.says}", markup=False, highlight=False, style="dim", soft_wrap=True
        )
    if len(failures) > SHOWN:
        console.print(f"... and {len(failures) - SHOWN} more: --json lists all", markup=False)
    passed = sum(finding.verdict == "passed" for finding in findings)
    console.print(f"{passed} of {len(findings)} vectors passed, {len(failures)} failed", markup=False, highlight=False)
