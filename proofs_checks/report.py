"""What an audit shows: one table on a terminal, plain lines elsewhere, counterexamples whole, and files to replay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proofs_checks.audit import Outcome
from proofs_checks.formats import tool_version, verdict_words
from proofs_checks.lemma import CASES, LEMMAS, Lemma
from proofs_checks.paper import Row, grades, ledger_editions, verdict

__all__ = [
    "load_case",
    "print_counterexample",
    "print_ledger",
    "print_table",
    "save_counterexample",
    "verdict_text",
]


def verdict_text(outcome: Outcome) -> str:
    """The verdict in words that claim no more than was found."""
    names = ("verdict", "expected", "note")
    departs_at = None if outcome.departure is None else vars(outcome.departure)
    entry = {name: getattr(outcome, name) for name in names} | {"departs_at": departs_at}
    return verdict_words(entry | {"as_expected": outcome.is_as_expected})


def _style(outcome: Outcome) -> str:
    if outcome.verdict in {"not provided", "not run"}:
        return "dim"
    return (
        "green"
        if outcome.verdict == "held" and outcome.is_as_expected
        else "yellow"
        if outcome.is_as_expected
        else "bold red"
    )


def _cases_text(outcome: Outcome) -> str:
    return f"{outcome.tally.telling}/{outcome.tally.cases}" if outcome.tally.cases else ""


def _tightest_text(outcomes: Sequence[Outcome]) -> str:
    """The largest ratio of the row; where there is none, what its claims are about."""
    best = max((o.tally for o in outcomes if o.tally.kinds), key=lambda tally: tally.tightest, default=None)
    return best.shows if best is not None else "none decided"


def _rows(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Outcomes of one statement in one edition, one a target, in the order in which they came."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.check.name, outcome.target.edition.name), []).append(outcome)
    return list(rows.values())


def print_table(outcomes: Sequence[Outcome], console: Console) -> None:
    """One table: statement, what it says, edition, evidence, telling/all cases, tightest ratio, a verdict a target."""
    targets = list(dict.fromkeys(o.target.name for o in outcomes))
    table = Table(title="Statements of Brown, Hopkins and Smith (2023)", title_justify="left", show_lines=False)
    for heading in ("statement", "what it says", "edition", "evidence"):
        table.add_column(heading, overflow="fold")
    table.add_column("telling/cases", justify="right")
    table.add_column("tightest", justify="right", max_width=9)  # words wrap, ratios fit
    for target in targets:
        table.add_column(target, overflow="fold")
    for row in _rows(outcomes):
        check, edition = row[0].check, row[0].target.edition.name
        verdicts = {o.target.name: f"[{_style(o)}]{verdict_text(o)}[/]" for o in row}
        table.add_row(
            check.item,
            check.says,
            edition,
            check.evidence,
            "\n".join(filter(None, map(_cases_text, row))),
            _tightest_text(row),
            *(verdicts.get(target, "") for target in targets),
        )
    console.print(table)
    console.print(
        "telling/cases: cases that could have refuted, of all examined, a line a target; tightest: largest left/right of an "
        "inequality seen, 1 is attained, more refutes; or what was decided: sets, equalities, signs, yes or no.",
        style="dim",
    )


def print_ledger(
    rows: Sequence[Row], outcomes: Sequence[Outcome], console: Console, title: str = "The paper, item by item"
) -> bool:
    """The ledger with the verdicts of this process; returns whether every row is as it should be."""
    table = Table(title=title, title_justify="left")
    editions = ledger_editions(rows[0])
    for heading in ("item", "what it says", "where it lives", *editions, "evidence", "note"):
        table.add_column(heading, overflow="fold")
    sound = True
    for row in rows:
        words = [verdict(row, edition, outcomes) for edition in editions]
        bad = any(word.startswith(("NO CHECK", "NOT RUN", "raised")) for word in words) or words[-1] == "refuted"
        missing = set(row.required) - grades(row)
        sound = sound and not bad and not missing
        style = "red" if bad or missing else "yellow" if words[0] == "refuted" else ""
        evidence = ", ".join(sorted(grades(row))) or row.standing
        lacking = f" (lacks {', '.join(sorted(missing))})" if missing else ""
        table.add_row(row.item, row.says, row.where, *words, evidence + lacking, row.note, style=style)
    console.print(table)
    return sound


def print_counterexample(outcome: Outcome, console: Console) -> None:
    """The counterexample whole: the claim with its exact numbers, and Python that builds the case."""
    console.rule(f"{outcome.check.item} on {outcome.target.name}, {outcome.target.edition.name}: {outcome.verdict}")
    console.print(outcome.check.statement, markup=False)
    console.print(f"claim: {outcome.claim}" if outcome.claim else f"the target raised {outcome.note}", markup=False)
    if outcome.departure is not None:
        console.print(f"first departure from refimpl: {outcome.departure}", markup=False)
    console.print(outcome.case.paste(), markup=False, soft_wrap=True)


def _case_json(case: Any) -> dict[str, Any]:
    return {"kind": type(case).__name__, **case.to_json()}


def save_counterexample(outcome: Outcome, folder: Path) -> Path:
    """Write a counterexample to ``folder``, to be run again by ``bhs23-audit replay``; return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = re.sub(r"[^\w.-]+", ".", outcome.target.name)
    path = folder / f"{outcome.check.name}-{target}-{outcome.target.edition.name}.json"
    content = {
        "check": outcome.check.name,
        "statement": outcome.check.item,
        "target": outcome.target.name,
        "edition": outcome.target.edition.name,
        "rounding": str(outcome.target.rounding),
        "claim": str(outcome.claim) if outcome.claim else f"raised {outcome.note}",
        "departure": None if outcome.departure is None else str(outcome.departure),
        "bhs23": tool_version(),
        "case": _case_json(outcome.case),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def load_case(content: dict[str, Any]) -> tuple[Lemma, Any]:
    """The check and the case of a saved counterexample.

    Raises
    ------
    ValueError
        If the content is not that of a counterexample file, or names a check that does not exist.
    """
    try:
        case = dict(content["case"])
        return LEMMAS[content["check"]], CASES[case.pop("kind")].from_json(case)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a counterexample of this audit: {type(error).__name__} {error}") from error
