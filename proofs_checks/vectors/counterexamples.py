"""Counterexamples that an audit has saved, as test vectors: run as the statements that they refuted, or written as answers.

A counterexample refutes a statement on a target. On another target the same statement can be run on the same case; and where
the case is a pair of adjacent data sets, refimpl's answers on both are two vectors for implementations in any language.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proofs_checks import report
from proofs_checks.audit import TargetRaisedError, examine
from proofs_checks.datasets import Matrix, Pair, as_array
from proofs_checks.lemma import Lemma, Violation
from proofs_checks.target import Target
from proofs_checks.vectors.check import Finding
from proofs_checks.vectors.families import Aim
from proofs_checks.vectors.shipped import as_entry, as_text
from refimpl.parameters import EDITIONS, Edition

__all__ = ["COUNTEREXAMPLES", "aims_of", "check_counterexample", "convert", "load_counterexample"]

COUNTEREXAMPLES = "counterexamples"
"""The group of counterexamples in reports."""

STAGES = {"covariance": "stable_second_moment", "mean": "stable_mean", "pipeline": "pipeline"}


def load_counterexample(path: Path) -> tuple[Lemma, Any, Edition]:
    """The check, the case and the edition of a saved counterexample.

    Raises
    ------
    ValueError
        If the file is not that of a counterexample.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        check, case = report.load_case(content)
        return check, case, EDITIONS[content["edition"]]
    except KeyError as error:
        raise ValueError(f"{path}: there is no {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error


def check_counterexample(target: Target, path: Path) -> Finding:
    """Run a counterexample that an audit has saved: its statement must hold on the target, unless the errata refute it.

    Raises
    ------
    ValueError
        If the file is not that of a counterexample.
    """
    check, case, edition = load_counterexample(path)
    about = (path.stem, COUNTEREXAMPLES, check.name, check.statement, (), "valid")
    if not target.provides(check.needs):
        missing = ", ".join(name for name in check.needs if not target.provides([name]))
        return Finding(*about, "not provided", missing)
    if case.size(edition) > target.most_rows:
        return Finding(*about, "not run", f"{case.size(edition)} rows are more than the target takes")
    audited = Target(target.name, target.implementation, edition, target.rounding, target.most_rows)
    refuted = check.is_refuted_in(edition.name)
    try:
        examine(check, audited, case)
    except Violation as violation:
        return Finding(*about, "passed" if refuted else "failed", str(violation.claim))
    except TargetRaisedError as error:
        return Finding(*about, "raised", str(error))
    return Finding(*about, "failed" if refuted else "passed", "the errata refute it" if refuted else "")


def aims_of(path: Path) -> list[Aim]:
    """The two data sets of a saved pair as inputs of vectors; none where the case is no pair of data sets."""
    check, case, _ = load_counterexample(path)
    if not isinstance(case, Pair):
        return []
    first, second = f"found-{path.stem}", f"found-{path.stem}-adjacent"
    sides = ((first, case.rows, case.covariance, ()), (second, case.rows_prime, case.covariance_prime, (first,)))
    return [
        Aim(
            name,
            STAGES[case.stage],
            _arguments(case, rows, matrix),
            (check.name,),
            tuple(f"AdjacentPairOf:{i}" for i in other),
        )
        for name, rows, matrix, other in sides
    ]


def _arguments(case: Pair, rows: Matrix, matrix: Matrix | None) -> dict[str, Any]:
    found: dict[str, Any] = {"y" if case.stage == "covariance" else "x": as_array(rows)}
    if matrix is not None:
        found["covariance"] = as_array(matrix)
    found |= {"lambda_0": case.lambda_0, "k": case.k}
    return found if case.stage == "covariance" else found | {"reference": case.reference}


def convert(paths: Iterable[Path], folder: Path) -> dict[str, int]:
    """Write saved pairs to a folder as vectors, with refimpl's answers; return how many each group has.

    Raises
    ------
    ValueError
        If a file is not that of a counterexample.
    """
    entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    says = {}
    for path in paths:
        check, _, _ = load_counterexample(path)
        for aim in aims_of(path):
            entries[aim.group].append(as_entry(aim, check.name))
            says[check.name] = check.statement
    folder.mkdir(parents=True, exist_ok=True)
    for group, found in entries.items():
        (folder / f"{group}.json").write_text(as_text(group, found, says), encoding="utf-8", newline="\n")
    return {group: len(found) for group, found in entries.items()}
