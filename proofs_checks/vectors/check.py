"""Test vectors on a target: what each gave, in words, as JSON, and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from proofs_checks.target import Target
from proofs_checks.vectors.answers import departure
from proofs_checks.vectors.encoding import decode_input
from proofs_checks.vectors.groups import GROUPS
from proofs_checks.vectors.shipped import Vector

__all__ = ["Finding", "as_report", "check_vector", "has_float_ties"]

Verdict = Literal["passed", "failed", "raised", "boundary", "not provided", "not run"]

REPORT_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """What one vector gave on a target.

    Attributes
    ----------
    id, group, bug, says, flags, result
        Of the vector.
    verdict
        "boundary" is a vector of that result which a target with float ties decides otherwise: no failure.
    note
        The first field that departs, the exception, or what is not provided.
    """

    id: str
    group: str
    bug: str
    says: str
    flags: tuple[str, ...]
    result: str
    verdict: Verdict
    note: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether it fails the run."""
        return self.verdict in {"failed", "raised"}


def has_float_ties(target: Target) -> bool:
    """Whether a target says of itself that ties may go either way: a true attribute ``FLOAT_TIES``."""
    return bool(getattr(target.implementation, "FLOAT_TIES", False))


def check_vector(target: Target, vector: Vector, *, float_ties: bool = False) -> Finding:
    """Run one vector on a target. Whatever a stranger's code raises is a finding about it.

    Raises
    ------
    ValueError
        If the vector itself is not written as the schema says.
    """
    group, given = GROUPS[vector.group], decode_input(vector.input)
    if set(given) != set(group.takes):
        raise ValueError(f"{vector.id} must have the input {', '.join(group.takes)}")
    missing = [name for name in group.needs if not target.provides([name])]
    if missing:
        return _finding(vector, "not provided", ", ".join(missing))
    rows = max((len(given[name]) for name in ("x", "y") if name in given), default=0)
    if rows > target.most_rows:
        return _finding(vector, "not run", f"{rows} rows are more than the target takes")
    try:
        answer = group.run(target, given)  # which may write into what it was given: that is read once more
        problem = departure(vector.expected, answer, decode_input(vector.input), target.rounding)
    except (Exception, SystemExit) as error:
        return _finding(vector, "raised", f"{type(error).__name__}: {error}")
    if problem is None:
        return _finding(vector, "passed")
    return _finding(vector, "boundary" if float_ties and vector.result == "boundary" else "failed", problem)


def _finding(vector: Vector, verdict: Verdict, note: str = "") -> Finding:
    of_vector = {name: getattr(vector, name) for name in ("id", "group", "bug", "says", "flags", "result")}
    return Finding(**of_vector, verdict=verdict, note=note)


def as_report(
    target: Target, findings: Sequence[Finding], *, float_ties: bool, complete: bool = True
) -> dict[str, Any]:
    """Everything found, as JSON values that obey ``schemas/vector-report.schema.json``."""
    names = dict.fromkeys(finding.group for finding in findings)
    return {
        "schema_version": REPORT_VERSION,
        "target": target.name,
        "rounding": str(Fraction(target.rounding)),
        "float_ties": float_ties,
        "complete": complete,
        "groups": [{"group": name, **_counts(f for f in findings if f.group == name)} for name in names],
        "findings": [_as_json(f) for f in findings if f.verdict != "passed"],
    }


def _counts(findings: Iterator[Finding]) -> dict[str, int]:
    counted = Counter(finding.verdict.replace(" ", "_") for finding in findings)
    return {name: counted[name] for name in ("passed", "failed", "raised", "boundary", "not_provided", "not_run")}


def _as_json(finding: Finding) -> dict[str, Any]:
    return {**vars(finding), "flags": list(finding.flags)}
