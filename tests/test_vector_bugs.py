"""Every shipped vector catches the bug that it names, and every bug of the algorithms has vectors.

``python tests/test_vector_bugs.py`` measures every family anew and writes ``proofs_checks/vectors/bugs.json``: for each bug,
the members of the families that catch it and ship for it; with names of groups, of those alone. It takes a while; then
``bhs23-audit vectors write proofs_checks/vectors/shipped`` writes the vectors themselves, and ``python
tests/test_vector_bugs.py --count`` counts how many of them catch each bug.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mutants import MUTANTS
from vector_faults import FAULTS, Fault

import proofs_checks.vectors
from proofs_checks.vectors.answers import departure, expected_answer
from proofs_checks.vectors.encoding import decode_input, encode_input
from proofs_checks.vectors.families import Aim, aims
from proofs_checks.vectors.groups import GROUPS
from proofs_checks.vectors.shipped import Vector, bugs, read_folder, shipped_folder

MOST = 24
"""Of each group for each bug: more of a kind would tell nothing new."""

WHOLE_ALGORITHMS = ("private_mean_given", "private_covariance_given", "private_gaussian_given")


@cache
def shipped() -> dict[str, Vector]:
    return {vector.id: vector for vector in read_folder(shipped_folder())[0]}


def catches(group: str, written: dict[str, Any], expected: dict[str, Any], fault: Fault) -> bool:
    """Whether a target with this fault fails a vector, by a wrong answer or by an exception; False where it is not asked."""
    targets = (fault.implementation, *fault.others)
    return any(_fails(group, written, expected, implementation, fault.rounding) for implementation in targets)


def _fails(
    group: str, written: dict[str, Any], expected: dict[str, Any], implementation: Any, rounding: Fraction
) -> bool:
    run = GROUPS[group]
    if not all(callable(getattr(implementation, name, None)) for name in run.needs):
        return False
    given = decode_input(written)
    try:
        return departure(expected, run.run(implementation, given), given, rounding) is not None
    except Exception:  # whatever a faulty target raises fails its vector
        return True


AIMED = [(bug, identifier) for bug, entry in bugs().items() for identifier in entry["vectors"]]
BY_BUG = [(bug, [identifier for b, identifier in AIMED if b == bug]) for bug in bugs()]


@pytest.mark.parametrize(("bug", "identifiers"), BY_BUG, ids=[bug for bug, _ in BY_BUG])
def test_a_vector_catches_the_bug_that_it_names(bug: str, identifiers: list[str]) -> None:
    vectors = [shipped()[identifier] for identifier in identifiers]
    assert identifiers
    assert {vector.bug for vector in vectors} == {bug}
    silent = [v.id for v in vectors if not catches(v.group, v.input, v.expected, FAULTS[bug])]
    # A tie that floats decide wrongly on one processor, with its order of summation, they may decide rightly on another.
    assert len(silent) <= (len(vectors) // 10 if FAULTS[bug].others else 0), silent


def test_every_bug_is_one_of_a_target_and_every_vector_has_one() -> None:
    assert set(bugs()) <= set(FAULTS)
    assert {bug: entry["says"] for bug, entry in bugs().items()} == {bug: FAULTS[bug].text for bug in bugs()}
    assert sorted(identifier for _, identifier in AIMED) == sorted(shipped())


def test_every_fault_of_the_algorithms_is_caught() -> None:
    assert [name for name in MUTANTS if name not in bugs()] == []
    assert [name for name in FAULTS if name not in bugs() and name not in MUTANTS] == []


@pytest.mark.nightly
def test_as_many_vectors_catch_a_bug_as_is_said() -> None:
    assert {bug: count(bug) for bug in bugs()} == {bug: entry["fails"] for bug, entry in bugs().items()}


# Measuring ------------------------------------------------------------------------------------------------------------


def count(bug: str) -> int:
    """How many shipped vectors a target with this bug fails; of whole algorithms, which are slow, only those aimed at it."""
    return sum(
        catches(v.group, v.input, v.expected, FAULTS[bug])
        for v in shipped().values()
        if v.group not in WHOLE_ALGORITHMS or v.id in bugs_of_slow_vectors(bug)
    )


@cache
def bugs_of_slow_vectors(bug: str) -> frozenset[str]:
    return frozenset(aim.id for aim in aims() if aim.group in WHOLE_ALGORITHMS and bug in aim.bugs)


def measured(groups: list[str]) -> Iterator[tuple[Aim, list[str]]]:
    """Every member of the families of some groups, with those of the family's bugs that it catches."""
    for aim in (aim for aim in aims() if aim.group in groups):
        written = encode_input(aim.arguments)
        expected = expected_answer(aim.group, written)
        yield aim, [bug for bug in aim.bugs if catches(aim.group, written, expected, FAULTS[bug])]


def chosen(found: Iterator[tuple[Aim, list[str]]]) -> dict[str, list[str]]:
    """For each bug the members that ship for it: of the bugs that one catches, the one that has fewest so far in its group."""
    members: dict[str, list[str]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    for aim, caught in found:
        if not caught:
            continue
        bug = min(caught, key=lambda name: counts[aim.group, name])
        if counts[aim.group, bug] < MOST:
            counts[aim.group, bug] += 1
            members[bug].append(aim.id)
    return members


def as_text(members: dict[str, list[str]], fails: dict[str, int]) -> str:
    entries = {
        bug: {"says": FAULTS[bug].text, "fails": fails.get(bug, 0), "vectors": members[bug]} for bug in sorted(members)
    }
    lines = ",\n ".join(f"{json.dumps(bug)}: {json.dumps(entry)}" for bug, entry in entries.items())
    return "{\n " + lines + "\n}\n"


def measure(groups: list[str]) -> None:
    """Choose the members of some groups anew; those of the others stay."""
    group_of = {aim.id: aim.group for aim in aims()}
    members = chosen(measured(groups))
    for bug, entry in bugs().items():
        members[bug] += [i for i in entry["vectors"] if group_of.get(i, groups[0]) not in groups]
    position = {identifier: number for number, identifier in enumerate(group_of)}
    kept = {bug: sorted(found, key=position.__getitem__) for bug, found in members.items() if found}
    BUGS.write_text(as_text(kept, {bug: entry["fails"] for bug, entry in bugs().items()}), encoding="utf-8")


BUGS = Path(str(proofs_checks.vectors.__file__)).parent / "bugs.json"


def main() -> None:
    if "--count" in sys.argv:
        members = {bug: entry["vectors"] for bug, entry in bugs().items()}
        BUGS.write_text(as_text(members, {bug: count(bug) for bug in members}), encoding="utf-8")
    else:
        measure(sys.argv[1:] or list(GROUPS))


if __name__ == "__main__":
    main()
