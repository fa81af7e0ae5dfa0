"""Float64 Gram matrices, kept by blocks of rows: what leaves a Gram matrix is never subtracted from it.

One outlier of 1e100 in a sum wipes out everybody else, and subtracting it does not bring them back. Here the few blocks that
hold vectors with unusual counts are summed anew without them, and the others are used again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastimpl.blas import Multiplier
from fastimpl.rows import READ_ROWS, Dense, Floats, Indices, Sparse, Vectors, new_arrays
from fastimpl.threads import share, thread_count

__all__ = ["SCALE", "BlockGrams", "KeptGram", "Watch", "blocks", "column_shift", "column_sums", "usual_shift"]

SCALE = 200  # a column that must be scaled is brought to a size of about 2^200: far from overflow and from underflow
_MOST_SEEN = 1 << 13  # vectors that a watch remembers at most, and one in fifty: more are not worth it
_KEPT = 1 << 21  # numbers that the kept Gram matrices may hold together: 16 MiB
_SAMPLE = 512
_WORTH_KEEPING = 1 << 17  # numbers; the sums of fewer are made anew in no time
_LOOKED_AT = 256  # rows that tell whether data are what they were
_PLAIN = 200  # columns of a size within 2^-200..2^200 are not scaled at all


def usual_shift(vectors: Vectors) -> NDArray[np.int64]:
    """A guess of powers of two that bring the columns to ordinary sizes; zero for data of ordinary sizes."""
    sample = np.abs(vectors.take(slice(None, None, max(1, len(vectors) // _SAMPLE))).rounded())
    if sample.min(initial=1.0) >= 2.0**-_PLAIN and sample.max(initial=1.0) < 2.0**_PLAIN:  # false for NaN
        return np.zeros(vectors.width, dtype=np.int64)
    known = np.isfinite(sample) & (sample > 0)
    exponent = np.sort(np.where(known, np.frexp(sample)[1], 1 << 16), axis=0)  # the unknown ones last
    middle = np.maximum(known.sum(axis=0) - 1, 0) // 2
    typical = exponent[middle, np.arange(vectors.width)].astype(np.int64)
    typical[~known.any(axis=0)] = 0
    return np.where(np.abs(typical).max(initial=0) <= _PLAIN, 0, -typical)


def column_shift(vectors: Vectors, counts: Sparse) -> NDArray[np.int64] | None:
    """Powers of two that bring the largest entry of each column to [2^(SCALE-1), 2^SCALE); None if that cannot be done."""
    largest, buffer = np.zeros(vectors.width), np.empty((vectors.step, vectors.width))
    for block in blocks(len(vectors), vectors.step):
        rows = vectors.read(block, buffer)
        rows[counts.block(block) == 0] = 0.0
        largest = np.maximum(largest, np.abs(rows).max(axis=0, initial=0.0))
    if not np.isfinite(largest).all() or not largest.all():
        return None
    return SCALE - np.frexp(largest)[1].astype(np.int64)


def blocks(count: int, rows: int = READ_ROWS) -> list[slice]:
    """0..count-1 in slices."""
    return [slice(start, min(count, start + rows)) for start in range(0, count, rows)]


def column_sums(rows: Floats, ones: Floats) -> Floats:
    """The sum of the rows, of at most so many; BLAS likes long rows better, so eight short ones are taken as one."""
    if len(rows) % 8:
        return np.asarray(np.dot(ones[: len(rows)], rows))
    eight = np.dot(ones[: len(rows) // 8], rows.reshape(len(rows) // 8, -1))
    return np.asarray(ones[:8] @ eight.reshape(8, -1))


@dataclass(frozen=True, eq=False)
class KeptGram:
    """One sum c_i S v_i v_i^T S of the differences of rows, kept for the mean stage, which needs the same one again.

    With it is kept how a sum over 0 or 1 times the same was whitened, if that took more than the sum.
    It stands for the memory that the rows were read from, and for the counts that it was summed with: whoever asks with
    other rows or other counts gets nothing, and sums anew. That nobody has written to single rows in between is a promise
    of the caller; writing to all of them is noticed.
    """

    total: Floats
    shift: NDArray[np.int64]
    roundings: int
    counts: Sparse
    places: list[object]
    sample: bytes
    owner: weakref.ref[Floats]
    refined: tuple[Sparse, Any] | None

    @classmethod
    def of(cls, grams: BlockGrams, counts: Sparse, total: Floats) -> KeptGram | None:
        """One for vectors that are views of data large enough; not for counts that look at the levels in a result."""
        vectors, owner = grams.vectors, grams.vectors.plus[0].base
        small = len(vectors) * vectors.width < _WORTH_KEEPING
        if small or isinstance(counts, Dense) or not isinstance(owner, np.ndarray):
            return None
        places, sample = _places(vectors), _looked_at(vectors)
        found = total, grams.shift, grams.roundings, counts, places, sample, weakref.ref(owner), grams.refined
        return cls(*found)

    def stands_for(self, vectors: Vectors, counts: Sparse) -> bool:
        """Whether this is the sum for these counts of these vectors."""
        same = self.owner() is vectors.plus[0].base and self.places == _places(vectors)
        return same and self.counts.equals(counts) and self.sample == _looked_at(vectors)


def _places(vectors: Vectors) -> list[object]:
    """Where in memory the vectors are."""
    return [(part.__array_interface__["data"][0], part.shape, part.strides) for part in vectors.parts]


def _looked_at(vectors: Vectors) -> bytes:
    some = vectors.take(slice(None, None, max(1, len(vectors) // _LOOKED_AT)))
    return b"".join(part.tobytes() for part in some.parts)


class Watch(NamedTuple):
    """What a first sweep looks out for: vectors v with |fl(W S v)|^2 above ``bar``, and those above ``cut`` it leaves out.

    W is any lower triangular matrix that makes the bulk about white; what it proves is the business of
    ``certified.transfer``. ``single`` is whether all this is in float32, where W and ``bar`` are float32 numbers as well.
    """

    matrix: Floats
    bar: float
    cut: float
    single: bool = False

    @property
    def kind(self) -> type[np.float32 | np.float64]:
        """What the vectors are multiplied in."""
        return np.float32 if self.single else np.float64


class BlockGrams:
    """The Gram matrices sum_i c_i v_i v_i^T, in float64, of blocks of scaled vectors S v_i, S = diag(2^shift).

    Attributes
    ----------
    blocks
        Slices of the vectors, one for each kept matrix.
    plain
        The matrices with c_i = 1 for all vectors but those of ``without``; infinite or NaN where an entry overflows.
    without
        Vectors that were left out of ``plain`` at once, rising: those asked for, or those beyond the watch's cut.
    refined
        The last counts for which the sum was not enough, and what ``certified`` found then.
    seen, squares
        With a watch: the vectors above its bar, rising, and their computed squared lengths (NaN for what is not a number).
        None without a watch, or if there were too many of them.
    """

    def __init__(
        self,
        vectors: Vectors,
        shift: NDArray[np.int64],
        *,
        without: Indices | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.vectors, self.shift, self.watch = vectors, shift, watch
        m, d = len(vectors), vectors.width
        rows = min(vectors.step, max(256, 1 << (m // 32).bit_length()))
        together = -(-m * d * d // (rows * _KEPT))  # so many share one kept matrix
        self.step = rows  # vectors in one call of BLAS
        self.blocks = blocks(m, rows * max(1, together))
        self._scale = None if not shift.any() else shift
        self._tails = vectors.tails if self._scale is None else None
        self._ones = np.ones(rows)
        self._redone: dict[int, tuple[bytes, Floats]] = {}
        self.plain = np.empty((len(self.blocks), d, d))
        self.without = np.empty(0, dtype=np.int64) if without is None else without
        self.refined: tuple[Sparse, Any] | None = None
        self.seen: Indices | None = None
        self.squares: Floats | None = None
        parts = share(self._first_sums, len(self.blocks), thread_count(m * d))
        if watch is not None:
            self._collect(parts, watch.cut)

    @cached_property
    def _buffer(self) -> Floats:
        return np.empty((self.step, self.vectors.width))

    @cached_property
    def _summand(self) -> Floats:
        return self._buffer if self._tails is None else np.empty((self.step, self._tails.width))

    @property
    def roundings(self) -> int:
        """Additions that a product goes through on its way into a total, at most."""
        return self.step + len(self.vectors) // self.step + len(self.blocks) + 2

    @property
    def finite(self) -> bool:
        """Whether all vectors are sure to be finite."""
        return bool(np.isfinite(self.plain).all()) and all(
            np.isfinite(part).all()
            for some in blocks(len(self.without))
            for part in self.vectors.take(self.without[some]).parts
        )

    def read(self, block: slice, buffer: Floats | None = None) -> Floats:
        """The scaled vectors of a block of at most ``step``, in a buffer that the next call uses again."""
        rows = self.vectors.read(block, self._buffer if buffer is None else buffer)
        return rows if self._scale is None else np.ldexp(rows, self._scale, out=rows)

    def total(self, counts: Sparse) -> Floats:
        """sum_i c_i S v_i v_i^T S over all blocks; vectors with c_i = 0 do not take part, whatever they are."""
        dirty = counts.unlike(self.without, self.blocks[0].stop or 1)
        total: Floats = counts.usual * self.plain[~dirty].sum(axis=0)
        for i in np.flatnonzero(dirty).tolist():
            total += self._redo(i, counts)
        return total

    def _redo(self, i: int, counts: Sparse) -> Floats:
        block = self.blocks[i]
        index, value = counts.odd(block)
        if value.any():
            return self._weighted_sum(block, counts)
        out = np.zeros(block.stop - block.start, dtype=bool)
        out[index - block.start] = True
        key = np.packbits(out).tobytes()  # all that are odd are out: the same sum serves every usual count
        if i not in self._redone or self._redone[i][0] != key:
            self._redone[i] = (key, self._sum(block, index, np.empty_like(self.plain[i]), self._summand))
        return counts.usual * self._redone[i][1]

    def _sum(self, block: slice, out: Indices, into: Floats, buffer: Floats, watcher: _Watcher | None = None) -> Floats:
        """The Gram matrix of a block without some vectors, and without those that a watcher leaves out.

        Lifted vectors (1, v) are summed as the count, sum v and sum v v^T: a product still goes through no more additions.
        """
        into[:] = 0.0
        for part in self._steps(block):
            rows = self.read(part, buffer) if self._tails is None else self._tails.read(part, buffer)
            first, last = np.searchsorted(out, [part.start, part.stop]).tolist() if out.size else (0, 0)
            if last > first:
                rows[out[first:last] - part.start] = 0.0
            held = len(rows) - (last - first)
            if watcher is not None:
                held -= watcher.look(rows, part.start)
            if self._tails is None:
                into += np.dot(rows.T, rows)
            else:
                into[0, 0] += held
                into[0, 1:] += column_sums(rows, self._ones)
                into[1:, 1:] += np.dot(rows.T, rows)
        if self._tails is not None:
            into[1:, 0] = into[0, 1:]
        return into

    def _weighted_sum(self, block: slice, counts: Sparse) -> Floats:
        total: Floats = np.zeros_like(self.plain[0])
        for part in self._steps(block):
            rows, weight = self.read(part), counts.block(part)
            rows[weight == 0] = 0.0
            total += rows.T @ (rows * weight[:, None])
        return total

    def _steps(self, block: slice) -> Iterator[slice]:
        for start in range(block.start, block.stop, self.step):
            yield slice(start, min(block.stop, start + self.step))

    def _first_sums(self, part: Iterator[int]) -> _Watcher | None:
        """Fill ``plain`` for some blocks, in a thread of its own; what the watch saw there."""
        shape, most = (self.step, (self._tails or self.vectors).width), _MOST_SEEN + len(self.vectors) // 50
        if self.watch is None:
            buffer, watcher = np.empty(shape), None
        else:
            buffer, *room = new_arrays(shape, np.float64, *[self.watch.kind] * (1 + self.watch.single))
            watcher = _Watcher(self.watch, room, most)
        for i in part:
            self._sum(self.blocks[i], self.without, self.plain[i], buffer, watcher)
        return watcher

    def _collect(self, watchers: list[_Watcher | None], cut: float) -> None:
        found = [pair for watcher in watchers if watcher is not None for pair in watcher.found]
        found.sort(key=lambda pair: int(pair[0][0]))
        index = np.concatenate([np.empty(0, dtype=np.int64), *(part for part, _ in found)])
        squares = np.concatenate([np.empty(0), *(part for _, part in found)])
        self.without = index[~(squares <= cut)]
        if not any(watcher is None or watcher.blind for watcher in watchers):
            self.seen, self.squares = index, squares


class _Watcher:
    """Looks at blocks of vectors, and sets to zero those that are left out.

    Of lifted vectors (1, v) it gets v. The matrix is W = [w, 0; t, T], so |W (1, v)|^2 = |T v + t|^2 + w^2; products and sums
    are as many as with the one in its column, less one that is exact.
    """

    def __init__(self, watch: Watch, room: list[NDArray[Any]], most: int) -> None:
        count, width = room[0].shape
        first, kind = len(watch.matrix) - width, watch.kind  # 1 for lifted vectors
        self._watch, self._multiplier = watch, Multiplier(watch.matrix[first:, first:].T.astype(kind))
        moved = watch.matrix[1:, 0].astype(kind)
        self._moved = np.tile(moved, (count, 1)) if first and moved.any() else None
        self._constant = float(watch.matrix[0, 0]) ** 2 if first else 0.0
        self._narrow, self._z, self._ones = room[0], room[-1], np.ones(width, dtype=kind)
        self._left = most
        self.found: list[tuple[Indices, NDArray[Any]]] = []

    @property
    def blind(self) -> bool:
        """Whether there was too much to see, and the rest was not looked at."""
        return self._left < 0

    def look(self, rows: Floats, start: int) -> int:
        """Remember what is above the bar; clear what is above the cut, and say how many that are."""
        if self.blind:
            return 0
        vectors: NDArray[Any] = rows
        if self._watch.single and not self._multiplier.triangular:
            vectors = self._narrow[: len(rows)]
            vectors[:] = rows
        z = self._multiplier.of(vectors, self._z[: len(rows)])
        if self._moved is not None:
            np.add(z, self._moved[: len(rows)], out=z)
        squares = np.multiply(z, z, out=z) @ self._ones
        if self._constant:
            squares += self._constant
        where = (~(squares <= self._watch.bar)).nonzero()[0]  # NaN included
        if not len(where):
            return 0
        squares = squares[where]
        self._left -= len(where)
        self.found.append((where + start, squares))
        if np.maximum.reduce(squares) <= self._watch.cut:  # false for NaN
            return 0
        cleared = where[~(squares <= self._watch.cut)]
        rows[cleared] = 0.0
        return len(cleared)
