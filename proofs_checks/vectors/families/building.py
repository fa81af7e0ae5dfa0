"""What families of test vectors are made of: an aim, rows, and exact norms of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, rows_of, second_moment, to_fraction

__all__ = [
    "FAMILIES",
    "ULP",
    "Aim",
    "Row",
    "Rows",
    "array",
    "beside",
    "bulk",
    "family",
    "moved",
    "norms",
    "on_axis",
    "scaled",
    "sheared",
]

Row = tuple[float, ...]
Rows = Sequence[Row]

ULP = Fraction(1, 1 << 52)


@dataclass(frozen=True)
class Aim:
    """One input and what it is aimed at.

    Attributes
    ----------
    id
        Stable: the group, the family and its parameters.
    group
        Of the vector.
    arguments
        The input, as a target would be given it.
    bugs
        What the family is there to catch.
    flags
        Those that cannot be read off the input.
    """

    id: str
    group: str
    arguments: dict[str, Any]
    bugs: tuple[str, ...]
    flags: tuple[str, ...] = ()


FAMILIES: list[Callable[[], Iterator[Aim]]] = []


def family(build: Callable[[], Iterator[Aim]]) -> Callable[[], Iterator[Aim]]:
    """Register a family; its members come in the order of registration."""
    FAMILIES.append(build)
    return build


def bulk(d: int, m: int) -> list[Row]:
    """M rows of signs, in blocks, whose second moment is close to the identity."""
    patterns = [tuple(-1.0 if (i >> bit) & 1 else 1.0 for bit in range(d)) for i in range(1 << d)]
    return [patterns[i * len(patterns) // m] if m >= len(patterns) else patterns[i] for i in range(m)]


def on_axis(value: float, d: int) -> Row:
    """The row (value, 0, ..., 0)."""
    return (value, *[0.0] * (d - 1))


def scaled(rows: Rows, factor: float) -> list[Row]:
    """Every entry times a factor, rounded: the data are what the floats say."""
    return [tuple(v * factor for v in row) for row in rows]


def moved(rows: Rows, offset: float) -> list[Row]:
    """Every entry plus an offset, rounded."""
    return [tuple(v + offset for v in row) for row in rows]


def sheared(rows: Rows, shear: float) -> list[Row]:
    """Each later column plus ``shear`` times the first: no norm changes."""
    return [(row[0], *(v + shear * row[0] for v in row[1:])) for row in rows]


def norms(rows: Rows, subset: Sequence[int] | None = None) -> list[Fraction]:
    """The squared norms of the rows of a subset in its own second moment, exactly; none where that is singular."""
    members = rows_of(exact_matrix("y", rows), subset if subset is not None else range(len(rows)))
    inverse = inverse_or_none(second_moment(members, [Fraction(1, len(rows))] * members.nrows()))
    return [] if inverse is None else [to_fraction(v) for v in mahalanobis_squared(members, inverse)]


def array(rows: Sequence[Sequence[float]]) -> Any:
    """Rows as a target is given them."""
    return np.array(rows, dtype=np.float64)


def beside(value: Fraction) -> Iterator[tuple[str, Fraction]]:
    """A threshold, and one that is a unit in the last place smaller or larger."""
    yield "tie", value
    yield "below", value * (1 - ULP)
    yield "above", value * (1 + ULP)
