"""The files of test vectors: one for each group, written by refimpl, read by everybody.

``bugs.json`` lists the bugs and the members of the families (:mod:`proofs_checks.vectors.families`) that ship for each. What is
written is a function of that list and of refimpl alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from proofs_checks.vectors.answers import closeness, expected_answer
from proofs_checks.vectors.encoding import encode_input
from proofs_checks.vectors.families import Aim, aims
from proofs_checks.vectors.groups import GROUPS
from refimpl.linalg import exact_matrix

__all__ = [
    "SCHEMA_NAME",
    "Vector",
    "bugs",
    "group_files",
    "read_folder",
    "shipped_folder",
    "vector_schema",
    "write_folder",
]

VERSION = 1
SCHEMA_NAME = "vectors.schema.json"
FOLDER = "shipped"


@dataclass(frozen=True)
class Vector:
    """One test vector.

    Attributes
    ----------
    id, group
        Stable id, and the group that it belongs to.
    bug, says
        The bug that it is there to catch: its key, and what is wrong in words.
    flags
        Tie, OddN, HugeScale, AdjacentPairOf:id and so on; the schema says what each means.
    result
        "valid", or "boundary" where a comparison is an equality or closer to one than float64 can tell.
    input, expected
        As written.
    """

    id: str
    group: str
    bug: str
    says: str
    flags: tuple[str, ...]
    result: str
    input: dict[str, Any] = field(repr=False)
    expected: dict[str, Any] = field(repr=False)


def _resource(name: str) -> Any:
    return resources.files("proofs_checks.vectors").joinpath(name)


def shipped_folder() -> Path:
    """Where the vectors that ship with the package are."""
    return Path(str(_resource(FOLDER)))


@cache
def vector_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every file of vectors obeys."""
    schema: dict[str, Any] = json.loads(_resource(FOLDER).joinpath(SCHEMA_NAME).read_text(encoding="utf-8"))
    return schema


@cache
def bugs() -> dict[str, dict[str, Any]]:
    """Every bug by key: ``says``, what is wrong; ``vectors``, what ships for it; ``fails``, how many vectors catch it."""
    content: dict[str, dict[str, Any]] = json.loads(_resource("bugs.json").read_text(encoding="utf-8"))
    return content


# Writing --------------------------------------------------------------------------------------------------------------


def _flags(aim: Aim, near: str) -> list[str]:
    """Those that the family gives, and those that can be read off the input."""
    given = aim.arguments
    data = given.get("y", given.get("x"))
    found = {*aim.flags, *filter(None, [near])}
    if data is not None:
        found |= _flags_of_rows(data, paired="x" in given)
    if "covariance" in given and _rank(given["covariance"]) < len(given["covariance"]):
        found.add("RankDeficient")
    return sorted(found)


def _flags_of_rows(data: Any, *, paired: bool) -> set[str]:
    sizes = np.abs(data[data != 0])
    n, d = data.shape
    facts = {
        "OddN": paired and n % 2 == 1,
        "RepeatedRows": len(np.unique(data, axis=0)) < n,
        "WiderThanTall": n < d,
        "RankDeficient": _rank(data) < d,
        "HugeScale": bool(sizes.size and sizes.max() > 1e100),
        "TinyScale": bool(sizes.size and sizes.min() < 1e-100),
    }
    return {name for name, holds in facts.items() if holds}


def _rank(data: Any) -> int:
    """The exact rank of the rows, whatever their scale."""
    return exact_matrix("x", data).rank()


def as_entry(aim: Aim, bug: str) -> dict[str, Any]:
    """A vector as JSON values, with the answer that refimpl gives now."""
    written = encode_input(aim.arguments)
    expected = expected_answer(aim.group, written)
    near = closeness(aim.group, written, expected) or ("NearTie" if "NearTie" in aim.flags else "")
    return {
        "id": aim.id,
        "bug": bug,
        "flags": _flags(aim, near),
        "result": "boundary" if near else "valid",
        "input": written,
        "expected": expected,
    }


def _chosen() -> dict[str, list[tuple[Aim, str]]]:
    """The members of the families that ship, by group, with the bug of each."""
    bug_of = {identifier: bug for bug, entry in bugs().items() for identifier in entry["vectors"]}
    chosen: dict[str, list[tuple[Aim, str]]] = {name: [] for name in GROUPS}
    for aim in aims():
        if aim.id in bug_of:
            chosen[aim.group].append((aim, bug_of[aim.id]))
    return chosen


def group_files() -> Iterator[tuple[str, str]]:
    """Name and text of each file of the shipped set, computed by refimpl now."""
    for name, members in _chosen().items():
        entries = [as_entry(aim, bug) for aim, bug in members]
        yield f"{name}.json", as_text(name, entries, {bug: entry["says"] for bug, entry in bugs().items()})


def as_text(name: str, entries: list[dict[str, Any]], says: dict[str, str]) -> str:
    """The file of a group. One line for each vector: small, and a change of one shows as one line.

    ``says`` has what is wrong in words, for each bug of an entry.
    """
    head = {
        "$schema": SCHEMA_NAME,
        "version": VERSION,
        "group": name,
        "says": GROUPS[name].says,
        "needs": list(GROUPS[name].needs),
        "bugs": {bug: says[bug] for bug in sorted({entry["bug"] for entry in entries})},
    }
    lines = ",\n  ".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f'{json.dumps(head, indent=1)[:-2]},\n "vectors": [\n  {lines}\n ]\n}}\n'


def write_folder(folder: Path) -> dict[str, int]:
    """Write every group and the schema to a folder; return how many vectors each group has."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCHEMA_NAME).write_bytes(_resource(FOLDER).joinpath(SCHEMA_NAME).read_bytes())
    counts = {}
    for name, text in group_files():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        counts[name.removesuffix(".json")] = len(json.loads(text)["vectors"])
    return counts


# Reading --------------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> tuple[list[Vector], list[Path]]:
    """The vectors of a folder, and the saved counterexamples in it, which :mod:`proofs_checks.vectors.counterexamples` runs.

    Raises
    ------
    ValueError
        If there is no vector, or a file is none of vectors, of this version or of a counterexample.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    vectors, counterexamples = [], []
    for path in sorted(folder.glob("*.json")):
        content = _content(path)
        if "vectors" in content:
            vectors += _vectors_of(path, content)
        elif {"check", "case", "edition"} <= content.keys():
            counterexamples.append(path)
        elif path.name != SCHEMA_NAME:
            raise ValueError(f"{path} has neither vectors nor a counterexample")
    if not vectors and not counterexamples:
        raise ValueError(f"{folder} has no vectors")
    order = {name: position for position, name in enumerate(GROUPS)}
    return sorted(vectors, key=lambda v: order[v.group]), counterexamples


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} has neither vectors nor a counterexample")
    return content


def _vectors_of(path: Path, content: dict[str, Any]) -> list[Vector]:
    try:
        group, says = content["group"], content["bugs"]
        if content["version"] != VERSION or group not in GROUPS:
            raise ValueError(f"{path}: version {content['version']} and group {group!r} are not known")
        names = ("id", "bug", "result", "input", "expected")
        return [
            Vector(group=group, says=says[v["bug"]], flags=tuple(v["flags"]), **{name: v[name] for name in names})
            for v in content["vectors"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is no file of vectors: {type(error).__name__} {error}") from error
