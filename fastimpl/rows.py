"""Rows: what comes in at the door, and differences of rows kept as the pairs that they are.

Data are what the floats say they are. A difference x_i - x_{i+m} need not be a float64, so it is never stored rounded:
:class:`Vectors` keeps both rows, the float path rounds their difference when it needs it, and the exact path does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastimpl.threads import spread, thread_count
from refimpl.parameters import Real, as_rational

__all__ = [
    "Centred",
    "Dense",
    "Floats",
    "Indices",
    "Sparse",
    "Vectors",
    "as_rows",
    "as_square",
    "distinct",
    "is_many",
    "narrowest",
    "new_array",
    "new_arrays",
    "pairs",
    "pairs_of_pairs",
    "positive",
    "require_finite",
    "stands_out",
    "touch",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
_LEAST, _SMALL, _CRUMB = math.ulp(0.0), 2.0**-1022, 2.0**-60  # names, so that the compiler does no sums for the process
READ_ROWS = 2048  # rows that are worked on at a time, at least: they and their whitened copies stay in a cache
_READ_NUMBERS, _MOST_READ = 1 << 17, 16384  # more of short rows: fewer calls of numpy
_TILE = (
    1 << 14
)  # numbers that are subtracted together: less than a cache holds, and more than numpy takes time to begin
_PART = 1 << 16  # integers that are looked at together
_FEW = 256  # one in so many is few
_WRITTEN = 3  # numbers read in the time of one that is written where nothing has been before
_WORD = 8  # bytes that are compared at once
_PAGE, _HUGE_PAGE = 1 << 12, 1 << 21  # bytes
_LARGE = 3 << 19  # bytes of an array, from which huge pages pay


def read_rows(width: int) -> int:
    """How many rows of so many columns are worked on at a time: the nearest power of two."""
    return max(READ_ROWS, min(_MOST_READ, 1 << ((_READ_NUMBERS // width) ** 2).bit_length() // 2))


def _from_nested(name: str, data: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """A nested sequence as an array; integers too large for 64 bits become float64 (infinite where they overflow)."""
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"{name} must have rows of one length") from None
    except OverflowError:
        raise ValueError(f"{name} must be finite: a number overflows float64") from None
    if array.dtype != object or array.ndim != 2:
        return array
    kinds = {type(value) for value in array.ravel().tolist()}
    if not kinds <= {int, float}:
        worst = min(kind.__name__ for kind in kinds - {int, float})
        raise TypeError(f"{name} must hold real numbers, got {worst}")
    return np.array([[_to_float(value) for value in row] for row in array.tolist()], dtype=np.float64)


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _require_standard_floats() -> None:
    """Refuse a process in which no bound of :mod:`fastimpl.certified` holds; a few comparisons, whatever the data."""
    subnormal = _LEAST * 1.0 > 0 and _SMALL * 0.5 > 0
    if not (subnormal and 1.0 + _CRUMB == 1.0 and 1.0 - _CRUMB == 1.0):
        raise RuntimeError(
            "this process flushes subnormal numbers to zero, or does not round to nearest: decisions cannot be certified "
            "(a library compiled with -ffast-math does that when it is loaded)"
        )


def as_rows(name: str, data: object, *, finite: bool = True) -> Floats:
    """A data set as finite float64, in C order, n x d with d >= 1; the argument itself is never changed.

    Parameters
    ----------
    name
        What to call the argument in an error.
    data
        A numpy array of any real dtype and memory order, something that numpy reads as one, or nested sequences of numbers.
        Conversion to float64 works on single entries, so it keeps adjacency.
    finite
        Whether to look for NaN and infinities now. Who says no has to call :func:`require_finite` unless sums over all rows
        have turned out finite, which saves a pass over the data.

    Raises
    ------
    TypeError
        If it holds bool, object, str or complex entries. The message names the type, never a value.
    ValueError
        If it is not two-dimensional with at least one column, or an entry is NaN, infinite or overflows float64.
    RuntimeError
        In a process whose floats are not those of IEEE 754 with rounding to nearest, whatever the data.
    """
    _require_standard_floats()
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"{name} must hold real numbers, got a masked array")
    array = _from_nested(name, data) if isinstance(data, list | tuple) else np.asarray(data)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional (rows, columns), got {array.ndim} dimension(s)")
    if array.shape[1] < 1:
        raise ValueError(f"{name} must have at least one column")
    with np.errstate(over="ignore", under="ignore"):
        floats = np.ascontiguousarray(array, dtype=np.float64)
    if finite:
        require_finite(name, floats)
    return floats


def require_finite(name: str, *values: Floats) -> None:
    """ValueError naming the argument if an entry is NaN or infinite."""
    if not all(_all_finite(part) for part in values):
        raise ValueError(f"{name} must be finite: NaN and infinities are outside the domain")


def _all_finite(values: Floats) -> bool:
    """Whether no entry is NaN or infinite. A finite sum of squares has finite terms; it takes half the time of looking."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.dot(values.ravel(), values.ravel())) or np.isfinite(values).all())


def as_square(name: str, data: object, d: int) -> Floats:
    """A symmetric d x d matrix as float64; ValueError or TypeError naming the argument otherwise."""
    matrix = as_rows(name, data)
    if matrix.shape != (d, d):
        raise ValueError(f"{name} must be {d} x {d}, got {matrix.shape[0]} x {matrix.shape[1]}")
    if not np.array_equal(matrix, matrix.T):
        raise ValueError(f"{name} must be symmetric and positive semidefinite")
    return matrix


def positive(name: str, value: Real) -> Fraction:
    """A parameter as an exact positive rational; ValueError or TypeError naming it otherwise."""
    number = as_rational(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return number


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors sum(plus) - sum(minus), exactly: m x d finite float64 arrays, one or two of each sign and as many minus."""

    plus: tuple[Floats, ...]
    minus: tuple[Floats, ...] = ()

    def __len__(self) -> int:
        return len(self.plus[0])

    @property
    def width(self) -> int:
        """d, the number of columns."""
        return int(self.plus[0].shape[1])

    @property
    def parts(self) -> tuple[Floats, ...]:
        """All arrays, those to be added first."""
        return self.plus + self.minus

    def take(self, index: NDArray[np.integer[Any]] | slice) -> Vectors:
        """The vectors of some indices."""
        return Vectors(tuple(part[index] for part in self.plus), tuple(part[index] for part in self.minus))

    def rounded(self) -> Floats:
        """The vectors as float64, each entry within 2u of its exact value, relatively; not finite where that is not known.

        One subtraction is correctly rounded, and exact where its result is subnormal (Higham, Accuracy and Stability of
        Numerical Algorithms, 2nd ed., section 2.5), so there is no underflow to account for; an overflow is infinite.
        """
        if not self.minus:
            return self.plus[0]
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self.minus) == 1:
                return np.asarray(self.plus[0] - self.minus[0])
            return _rounded_sum(self.plus, self.minus)

    def as_pair(self) -> tuple[Floats, Floats]:
        """Two arrays whose sum is exactly the vectors; NaN where there is no such pair at hand."""
        if not self.minus:
            return self.plus[0], np.zeros_like(self.plus[0])
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self.minus) == 1:
                return _two_difference(self.plus[0], self.minus[0])
        return np.full_like(self.plus[0], np.nan), np.full_like(self.plus[0], np.nan)

    @property
    def step(self) -> int:
        """How many vectors :meth:`read` reads at most."""
        return read_rows(self.width) if self.tails is None else READ_ROWS

    @property
    def tails(self) -> Centred | None:
        """The vectors v of lifted vectors (1, v); None of others."""
        return None

    def read(self, block: slice, buffer: Floats) -> Floats:
        """The vectors of a block, rounded as :meth:`rounded` rounds them, in a buffer that may be written to."""
        rows = buffer[: block.stop - block.start]
        if len(self.minus) == 1:
            np.subtract(self.plus[0][block], self.minus[0][block], out=rows)
        else:
            np.copyto(rows, self.take(block).rounded())
        return rows


@dataclass(frozen=True, eq=False)
class Centred:
    """The vectors x_i - c for one c. Not a :class:`Vectors` because numpy is slow at subtracting one short row from many."""

    points: Floats
    centre: Floats

    def __len__(self) -> int:
        return len(self.points)

    @property
    def width(self) -> int:
        """d, the number of columns."""
        return int(self.points.shape[1])

    @property
    def step(self) -> int:
        """How many vectors :meth:`read` reads at most."""
        return read_rows(self.width)

    @cached_property
    def _tile(self) -> Floats:
        """The centre again and again, a power of two times."""
        return np.tile(self.centre, min(self.step, 1 << max(0, (_TILE // self.width).bit_length() - 1)))

    def take(self, index: NDArray[np.integer[Any]] | slice) -> Vectors:
        """The vectors of some indices."""
        rows = self.points[index]
        return Vectors((rows,), (np.broadcast_to(self.centre, rows.shape),))

    def read(self, block: slice, buffer: Floats) -> Floats:
        """As :meth:`Vectors.read`, for at most ``step`` rows."""
        points, rows, tile = self.points[block], buffer[: block.stop - block.start], self._tile
        whole = len(rows) - len(rows) % (len(tile) // self.width)
        np.subtract(points[:whole].reshape(-1, len(tile)), tile, out=rows[:whole].reshape(-1, len(tile)))
        if whole < len(rows):
            np.subtract(points[whole:], tile[: points[whole:].size].reshape(-1, self.width), out=rows[whole:])
        return rows


@dataclass(frozen=True, eq=False)
class Sparse:
    """Integers for ``size`` vectors, almost all of them ``usual``: at the rising positions ``index`` they are ``value``.

    Where one in sixteen is unusual, :class:`Dense` takes less room.
    """

    size: int
    usual: int
    index: Indices
    value: Indices

    @classmethod
    def of(cls, dense: NDArray[np.integer[Any]]) -> Sparse:
        """The same integers, from an array of all of them, which may be kept and must not change meanwhile."""
        usual = int(dense[len(dense) // 2]) if len(dense) else 0
        index = _others(dense, usual, len(dense) // 16)
        if index is None:
            return Dense(dense, usual)
        return Sparse(len(dense), usual, index, dense[index].astype(np.int64))

    @classmethod
    def without(cls, alive: NDArray[np.bool_]) -> Sparse:
        """One for every vector alive, zero for the others; likewise."""
        gone = len(alive) - int(np.count_nonzero(alive))
        if is_many(gone, len(alive)):
            return Dense(alive.view(np.int8), 1)
        return Sparse(len(alive), 1, np.flatnonzero(~alive), np.zeros(gone, dtype=np.int64))

    def lies_in(self, largest: int) -> bool:
        """Whether all integers are among 0, 1, ..., largest."""
        low, high = int(self.value.min(initial=self.usual)), int(self.value.max(initial=self.usual))
        return 0 <= low <= high <= largest

    def mapped(self, table: Indices) -> Sparse:
        """The integers ``table[value]``; the same positions are called unusual."""
        return Sparse(self.size, int(table[self.usual]), self.index, table[self.value])

    def equals(self, other: Sparse) -> bool:
        """Whether the integers are the same; False as well where another one is usual."""
        if (self.size, self.usual) != (other.size, other.usual):
            return False
        if isinstance(self, Dense) or isinstance(other, Dense):
            return all(np.array_equal(self.block(part), other.block(part)) for part in _parts(self.size))
        parts = [(part.index[odd], part.value[odd]) for part in (self, other) for odd in (part.value != part.usual,)]
        return all(np.array_equal(a, b) for a, b in zip(*parts, strict=True))

    def dense(self) -> NDArray[np.integer[Any]]:
        """All the integers, not to be written to."""
        result = np.full(self.size, self.usual, dtype=np.int64)
        result[self.index] = self.value
        return result

    def total(self) -> int:
        """The sum of all the integers."""
        return self.usual * (self.size - len(self.index)) + int(self.value.sum())

    def spelled_out(self, table: Floats) -> tuple[Floats, NDArray[np.integer[Any]]]:
        """For every vector ``table[value]``, and the value, of which ``table`` holds all there are: most of a result."""
        weights, values = new_arrays((self.size,), np.float64, narrowest(len(table) - 1))

        def fill(part: range) -> None:
            for array, value in (weights, table[self.usual]), (values, self.usual):
                array[part.start : part.stop] = value

        spread(fill, self.size, thread_count(_WRITTEN * self.size))
        weights[self.index], values[self.index] = table[self.value], self.value
        return weights, values

    @property
    def left_out(self) -> Indices:
        """Where zeros are, if zero is not what is usual."""
        zero: Indices = self.index[(self.value == 0) & (self.usual != 0)]
        return zero

    @property
    def held(self) -> int:
        """How many of the integers are not zero."""
        return int(np.count_nonzero(self.value)) + (self.size - len(self.index)) * bool(self.usual)

    def odd(self, block: slice) -> tuple[Indices, Indices]:
        """Those positions of ``index`` that lie in a block, and the integers there."""
        odd = self.within(block)
        return self.index[odd], self.value[odd]

    def plain(self) -> Sparse:
        """One where the usual integer is, zero at the positions that are called unusual."""
        return Sparse(self.size, 1, self.index, np.zeros_like(self.index))

    def rest(self) -> Sparse:
        """The integers at the positions that are called unusual, zero elsewhere."""
        return Sparse(self.size, 0, self.index, self.value)

    def places(self, count: int, value: int | None = None) -> Iterator[tuple[Indices, Indices]]:
        """Where the integers are not zero, or are ``value``, so many at a time, and the integers there."""
        index, found = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for block in _parts(self.size):
            here = self.block(block)
            where = (here != 0 if value is None else here == value).nonzero()[0]
            index, found = np.concatenate([index, block.start + where]), np.concatenate([found, here[where]])
            whole = len(index) - len(index) % count
            yield from ((index[at : at + count], found[at : at + count]) for at in range(0, whole, count))
            index, found = index[whole:], found[whole:]
        if len(index):
            yield index, found

    def within(self, block: slice) -> slice:
        """Which of ``index`` lie in a block."""
        first, last = np.searchsorted(self.index, [block.start, block.stop])
        return slice(int(first), int(last))

    def block(self, block: slice) -> Indices:
        """The integers of a block."""
        result = np.full(block.stop - block.start, self.usual, dtype=np.int64)
        odd, value = self.odd(block)
        result[odd - block.start] = value
        return result

    def unlike(self, without: Indices, step: int) -> NDArray[np.bool_]:
        """Which blocks of ``step`` hold other integers than the usual one, but for zeros at the positions ``without``."""
        odd, found = self.value != self.usual, np.zeros(-(-self.size // step), dtype=bool)
        if not without.size and not odd.any():
            return found
        zero = self.index[odd & (self.value == 0)]
        other = [np.setxor1d(zero, without, assume_unique=True), self.index[odd & (self.value != 0)]]
        found[np.concatenate(other) // step] = True
        return found

    def histogram(self, count: int) -> Indices:
        """How often each of 0, 1, ..., count - 1 occurs."""
        table = np.bincount(self.value, minlength=max(count, self.usual + 1))
        table[self.usual] += self.size - len(self.index)
        return table[:count]


class Dense(Sparse):
    """The same from one array of narrow integers, which is not copied: each stands for itself, or for an entry of a table.

    Everything is done by blocks, so that next to nothing is held besides.
    """

    levels: NDArray[np.integer[Any]]
    _level: int
    _table: Indices | None

    def __init__(self, levels: NDArray[np.integer[Any]], usual: int, table: Indices | None = None) -> None:
        at = {"levels": levels, "_level": usual, "_table": table, "size": len(levels)}
        at["usual"] = usual if table is None else int(table[usual])
        for name, value in at.items():
            object.__setattr__(self, name, value)  # the way into a frozen record

    def _meaning(self, levels: NDArray[np.integer[Any]]) -> Indices:
        return levels.astype(np.int64) if self._table is None else self._table[levels]

    @cached_property
    def _few(self) -> Sparse | None:
        """The same as a list, where that takes no room to speak of."""
        index = _others(self.levels, self._level, self.size // _FEW)
        return None if index is None else Sparse(self.size, self.usual, index, self._meaning(self.levels[index]))

    @cached_property
    def index(self) -> Indices:
        """Where another level than the usual one is: eight bytes each, for who must have them all at once."""
        return np.flatnonzero(self.levels != self._level)

    @cached_property
    def value(self) -> Indices:
        """What is there."""
        return self._meaning(self.levels[self.index])

    def lies_in(self, largest: int) -> bool:
        """Whether all integers are among 0, 1, ..., largest."""
        sides = [(int(some.min()), int(some.max())) for some in map(self.block, _parts(self.size))]
        return all(0 <= low <= high <= largest for low, high in sides)

    def mapped(self, table: Indices) -> Sparse:
        """The integers ``table[value]``; the same positions are called unusual."""
        if self._few is not None:
            return self._few.mapped(table)
        return Dense(self.levels, self._level, table if self._table is None else table[self._table])

    def dense(self) -> NDArray[np.integer[Any]]:
        """All the integers, not to be written to."""
        if self._table is None:
            return self.levels
        result = np.empty(self.size, dtype=narrowest(int(self._table.max())))
        for part in _parts(self.size):
            result[part] = self._table[self.levels[part]]
        return result

    def total(self) -> int:
        """The sum of all the integers."""
        return sum(int(self.block(part).sum()) for part in _parts(self.size))

    def spelled_out(self, table: Floats, room: Floats | None = None) -> tuple[Floats, NDArray[np.integer[Any]]]:
        """For every vector ``table[value]``, and the value: the very array of the levels, if they stand for themselves.

        What is new is written to ``room``, if there is one.
        """
        values = self.dense().astype(narrowest(len(table) - 1), copy=False)
        weights, few = new_array(self.size, np.float64) if room is None else room, self._few

        def fill(part: range) -> None:
            for block in _parts(part.stop, part.start):
                weights[block] = table[self.usual]
                odd, value = self.odd(block) if few is None else few.odd(block)
                weights[odd] = table[value]

        spread(fill, self.size, thread_count(_WRITTEN * self.size))
        return weights, values

    def plain(self) -> Sparse:
        """One where the usual integer is, zero at the positions that are called unusual."""
        size = len(self._table) if self._table is not None else 1 + max(self._level, int(self.levels.max(initial=0)))
        return Dense(self.levels, self._level, (np.arange(size) == self._level).astype(np.int64))

    def rest(self) -> Sparse:
        """The integers at the positions that are called unusual, zero elsewhere."""
        size = len(self._table) if self._table is not None else 1 + max(self._level, int(self.levels.max(initial=0)))
        table = self._meaning(np.arange(size))
        table[self._level] = 0
        return Dense(self.levels, self._level, table)

    @property
    def left_out(self) -> Indices:
        """Where zeros are, if zero is not what is usual."""
        where = [part.start + (self.block(part) == 0).nonzero()[0] for part in _parts(self.size) if self.usual]
        return np.concatenate([np.empty(0, dtype=np.int64), *where])

    @property
    def held(self) -> int:
        """How many of the integers are not zero."""
        return sum(int(np.count_nonzero(self.block(part))) for part in _parts(self.size))

    def odd(self, block: slice) -> tuple[Indices, Indices]:
        """Those positions of ``index`` that lie in a block, and the integers there."""
        levels = self.levels[block]
        where = (levels != self._level).nonzero()[0]
        return block.start + where, self._meaning(levels[where])

    def block(self, block: slice) -> Indices:
        """The integers of a block."""
        return self._meaning(self.levels[block])

    def unlike(self, without: Indices, step: int) -> NDArray[np.bool_]:
        """Which blocks of ``step`` hold other integers than the usual one, but for zeros at the positions ``without``."""
        starts = range(0, self.size, step)
        cuts = np.searchsorted(without, [*starts, self.size]).tolist()
        found = np.zeros(len(starts), dtype=bool)
        for i, start in enumerate(starts):
            odd = self.odd(slice(start, start + step))
            found[i] = stands_out(*odd, self.usual, without[cuts[i] : cuts[i + 1]])
        return found

    def histogram(self, count: int) -> Indices:
        """How often each of 0, 1, ..., count - 1 occurs."""
        if self._few is not None:
            return self._few.histogram(count)
        table = np.zeros(count, dtype=np.int64)
        for part in _parts(self.size):
            _, value = self.odd(part)
            table += np.bincount(value[value < count], minlength=count)
            table[self.usual : self.usual + 1] += part.stop - part.start - len(value)
        return table


def is_many(odd: int, size: int) -> bool:
    """Whether so many are unusual that an array of all takes less room than a list of them."""
    return 16 * odd > size


def stands_out(index: Indices, value: Indices, usual: int, cleared: Indices) -> bool:
    """Whether integers are other than the usual one, but for zeros where something has been cleared, and only there."""
    if bool(((value != usual) & (value != 0)).any()):
        return True
    return not np.array_equal(index[value == 0] if usual else index[:0], cleared)


def _parts(stop: int, start: int = 0) -> Iterator[slice]:
    """Slices of start..stop-1."""
    return (slice(at, min(stop, at + _PART)) for at in range(start, stop, _PART))


def _others(array: NDArray[np.integer[Any]], usual: int, most: int) -> Indices | None:
    """Where an array holds other numbers than the usual one; None if they are more than ``most``.

    As many numbers as make a word are compared at once, and looked at one by one only where one of them is another.
    """
    each = _WORD // array.itemsize if array.flags.c_contiguous and array.flags.aligned else 1
    words, word = array[: len(array) // each * each], np.full(each, usual, dtype=array.dtype)
    if each > 1:
        words, word = words.view(np.uint64), word.view(np.uint64)
    rest = np.arange(each * len(words), len(array))
    found, count = [np.empty(0, dtype=np.int64)], 0
    for part in _parts(len(words)):
        unlike = words[part] != word[0]
        count += int(np.count_nonzero(unlike))
        if count > most:
            return None
        found.append(part.start + unlike.nonzero()[0])
    some = np.concatenate([(each * np.concatenate(found)[:, None] + np.arange(each)).ravel(), rest])
    index: Indices = some[array[some] != usual]
    return index if len(index) <= most else None


def new_array(size: int, kind: type[Scalar]) -> NDArray[Scalar]:
    """An array for a result, not filled.

    The system clears every page that is new when it is first touched, which takes as long as half a sweep over the data, but
    next to nothing where pages are huge. Of large arrays numpy asks for huge pages; here they begin where one begins.
    """
    count = size * np.dtype(kind).itemsize
    if count < _LARGE:
        return np.empty(size, dtype=kind)
    over = count % _HUGE_PAGE  # a huge page of which less than a half is used takes longer than many small ones
    room = np.empty(count + (-count % _HUGE_PAGE if 2 * over >= _HUGE_PAGE else 0) + _HUGE_PAGE, dtype=np.uint8)
    start = -room.ctypes.data % _HUGE_PAGE
    return room[start : start + count].view(kind)


def touch(array: NDArray[Any]) -> None:
    """Write to every page of an array that is not filled yet, so that whoever fills it need not wait for the system."""
    array.view(np.uint8)[::_PAGE] = 0


def new_arrays(shape: tuple[int, ...], *kinds: type[np.generic]) -> list[NDArray[Any]]:
    """Arrays of one shape, not filled, which share the pages of one: numbers of more bytes first."""
    cuts = np.cumsum([0, *(math.prod(shape) * np.dtype(kind).itemsize for kind in kinds)]).tolist()
    room = new_array(cuts[-1], np.uint8)
    return [room[slice(*cut)].view(kind).reshape(shape) for cut, kind in zip(pairwise(cuts), kinds, strict=True)]


def narrowest(largest: int) -> type[np.integer[Any]]:
    """The smallest integers that hold ``largest``, of those that results use."""
    return np.int16 if largest < 1 << 15 else np.int32 if largest < 1 << 31 else np.int64


def _two_difference(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Fl(a - b) and its exact error (TwoSum, Knuth); NaN or infinite after an overflow."""
    difference = a - b
    virtual = difference - a
    return difference, (a - (difference - virtual)) + (-b - virtual)


def _rounded_sum(plus: tuple[Floats, ...], minus: tuple[Floats, ...]) -> Floats:
    """(a - b) + (c - e) to within 2u, or NaN where cancellation is too strong for that to be sure.

    With a - b = s + p, c - e = r + q and s + r = t + v exactly, the sum t + (v + (p + q)) errs by at most u of itself and
    by 4 u (|v| + |p| + |q|), which is at most 8 u^2 (|s| + |r|); that is below u of it where it exceeds 2^-48 (|s| + |r|).
    """
    s, p = _two_difference(plus[0], minus[0])
    r, q = _two_difference(plus[1], minus[1])
    t, v = _two_difference(s, -r)
    total = t + (v + (p + q))
    exact = (v == 0) & (p == 0) & (q == 0)
    sure = exact | (np.abs(total) > 2.0**-48 * (np.abs(s) + np.abs(r)))
    return np.where(sure & np.isfinite(total), total, np.nan)


def pairs(x: Floats) -> Vectors:
    """The m = floor(n/2) differences x_i - x_{i+m}, which are sqrt 2 times the paired rows of the paper."""
    m = len(x) // 2
    return Vectors((x[:m],), (x[m : 2 * m],))


def pairs_of_pairs(x: Floats) -> Vectors:
    """The differences of the differences: what Algorithm 5.2 as printed feeds to StableCovariance, which pairs again."""
    m = len(x) // 2
    q = m // 2
    a, b, c, e = x[:q], x[m : m + q], x[q : 2 * q], x[m + q : m + 2 * q]
    return Vectors((a, e), (b, c))


def distinct(vectors: Vectors) -> tuple[Indices, Indices]:
    """Positions of one vector of each kind, and for every vector the number of its kind. Equal kinds are equal vectors.

    Two equal vectors may be told apart if their parts differ: that only costs time.
    """
    parts: tuple[Floats, ...] = vectors.parts
    if len(parts) == 2:
        with np.errstate(over="ignore", invalid="ignore"):
            difference, error = _two_difference(*parts)
        if np.isfinite(difference).all() and not error.any():
            parts = (difference,)
    keys = np.ascontiguousarray(np.concatenate(parts, axis=1))
    keys += 0.0  # makes -0.0 and 0.0 one
    void = keys.view(np.dtype((np.void, keys.itemsize * keys.shape[1]))).ravel()
    _, where, kind = np.unique(void, return_index=True, return_inverse=True)
    return where.astype(np.int64), kind.astype(np.int64).ravel()
