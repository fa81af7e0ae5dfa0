"""Small inputs with their right answers, for every implementation: one JSON file, its schema, and these readers.

Numbers are exact: strings "p" or "p/q". Rows are run-length encoded, ``[[count, ["p/q", ...]], ...]`` in order, and sets of
row indices are lists of half-open ranges ``[start, stop]``. Each entry names the fault that it is there to catch.

The test vectors for other people are in ``shipped``, one file for each group: rooms ``families`` (where the inputs come from),
``groups`` (what is asked of a target), ``answers`` (the right ones, and how they are compared), ``encoding``, ``shipped``,
``check`` and ``command``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["case", "indices", "load", "pair", "rows", "schema"]


@cache
def load() -> dict[str, Any]:
    """All of ``cases.json``: the keys ``version``, ``vectors`` and ``pairs``. Read once and shared: do not change it."""
    return _read("cases.json")


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that ``cases.json`` obeys."""
    return _read("cases.schema.json")


def case(identifier: str) -> dict[str, Any]:
    """The vector with this id; KeyError if there is none."""
    return _by_id("vectors")[identifier]


def pair(identifier: str) -> dict[str, Any]:
    """The pinned pair with this id; KeyError if there is none."""
    return _by_id("pairs")[identifier]


def rows(run_length: Iterable[tuple[int, Sequence[str]]]) -> list[list[Fraction]]:
    """Run-length encoded rows, written out."""
    return [[Fraction(value) for value in row] for count, row in run_length for _ in range(count)]


def indices(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Half-open ranges of row indices, written out."""
    return [index for start, stop in ranges for index in range(start, stop)]


@cache
def _by_id(kind: str) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in load()[kind]}


def _read(name: str) -> dict[str, Any]:
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
