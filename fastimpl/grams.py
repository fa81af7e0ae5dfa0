"""Float64 Gram matrices, kept by blocks of rows: what leaves a Gram matrix is never subtracted from it.

One outlier of 1e100 in a sum wipes out everybody else, and subtracting it does not bring them back. Here the few blocks that
hold vectors with unusual counts are summed anew without them, and the others are used again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastimpl.rows import READ_ROWS, Floats, Sparse, Vectors

__all__ = ["SCALE", "BlockGrams", "blocks", "column_shift", "usual_shift"]

SCALE = 200  # a column that must be scaled is brought to a size of about 2^200: far from overflow and from underflow
_KEPT = 1 << 21  # numbers that the kept Gram matrices may hold together: 16 MiB
_SAMPLE = 512
_PLAIN = 200  # columns of a size within 2^-200..2^200 are not scaled at all


def usual_shift(vectors: Vectors) -> NDArray[np.int64]:
    """A guess of powers of two that bring the columns to ordinary sizes; zero for data of ordinary sizes."""
    sample = np.abs(vectors.take(slice(None, None, max(1, len(vectors) // _SAMPLE))).rounded())
    exponent = np.where(np.isfinite(sample) & (sample > 0), np.frexp(sample)[1], np.nan)
    known = ~np.isnan(exponent).all(axis=0)
    typical = np.zeros(vectors.width, dtype=np.int64)
    typical[known] = np.nanmedian(exponent[:, known], axis=0).astype(np.int64)
    return np.where(np.abs(typical).max(initial=0) <= _PLAIN, 0, -typical)


def column_shift(vectors: Vectors, counts: Sparse) -> NDArray[np.int64] | None:
    """Powers of two that bring the largest entry of each column to [2^(SCALE-1), 2^SCALE); None if that cannot be done."""
    largest, buffer = np.zeros(vectors.width), np.empty((READ_ROWS, vectors.width))
    for block in blocks(len(vectors)):
        rows = vectors.read(block, buffer)
        rows[counts.block(block) == 0] = 0.0
        largest = np.maximum(largest, np.abs(rows).max(axis=0, initial=0.0))
    if not np.isfinite(largest).all() or not largest.all():
        return None
    return SCALE - np.frexp(largest)[1].astype(np.int64)


def blocks(count: int, rows: int = READ_ROWS) -> list[slice]:
    """0..count-1 in slices."""
    return [slice(start, min(count, start + rows)) for start in range(0, count, rows)]


class BlockGrams:
    """The Gram matrices sum_i c_i v_i v_i^T, in float64, of blocks of scaled vectors S v_i, S = diag(2^shift).

    Attributes
    ----------
    blocks
        Slices of the vectors, one for each kept matrix.
    plain
        The matrices with c_i = 1 for all vectors; infinite or NaN where an entry overflows.
    """

    def __init__(self, vectors: Vectors, shift: NDArray[np.int64]) -> None:
        self.vectors, self.shift = vectors, shift
        m, d = len(vectors), vectors.width
        rows = min(READ_ROWS, max(256, 1 << (m // 64).bit_length()))
        together = -(-m * d * d // (rows * _KEPT))  # so many share one kept matrix
        self.step = rows  # vectors in one call of BLAS
        self.blocks = blocks(m, rows * max(1, together))
        self._buffer = np.empty((rows, d))
        self._scale = None if not shift.any() else shift
        self._redone: dict[int, tuple[bytes, Floats]] = {}
        self.plain = np.empty((len(self.blocks), d, d))
        for kept, block in zip(self.plain, self.blocks, strict=True):
            self._sum(block, None, kept)

    @property
    def roundings(self) -> int:
        """Additions that a product goes through on its way into a total, at most."""
        return self.step + len(self.vectors) // self.step + len(self.blocks) + 2

    def read(self, block: slice) -> Floats:
        """The scaled vectors of a block of at most READ_ROWS, in a buffer that the next call uses again."""
        rows = self.vectors.read(block, self._buffer)
        return rows if self._scale is None else np.ldexp(rows, self._scale, out=rows)

    def total(self, counts: Sparse) -> Floats:
        """sum_i c_i S v_i v_i^T S over all blocks; vectors with c_i = 0 do not take part, whatever they are."""
        dirty = np.zeros(len(self.blocks), dtype=bool)
        dirty[counts.index // (self.blocks[0].stop or 1)] = True
        total: Floats = counts.usual * self.plain[~dirty].sum(axis=0)
        for i in np.flatnonzero(dirty).tolist():
            total += self._redo(i, counts)
        return total

    def _redo(self, i: int, counts: Sparse) -> Floats:
        odd = counts.within(self.blocks[i])
        index, value = counts.index[odd], counts.value[odd]
        if value.any():
            return self._sum(self.blocks[i], counts, np.empty_like(self.plain[i]))
        key = index.tobytes()  # all that are odd are out: the same sum serves every usual count
        if self._redone.get(i, (b"", None))[0] != key:
            alive = Sparse(counts.size, 1, index, value)
            self._redone[i] = (key, self._sum(self.blocks[i], alive, np.empty_like(self.plain[i])))
        return counts.usual * self._redone[i][1]

    def _sum(self, block: slice, counts: Sparse | None, out: Floats) -> Floats:
        out[:] = 0.0
        for start in range(block.start, block.stop, self.step):
            part = slice(start, min(block.stop, start + self.step))
            rows = self.read(part)
            if counts is None:
                out += rows.T @ rows
            else:
                weight = counts.block(part)
                rows[weight == 0] = 0.0
                out += rows.T @ (rows * weight[:, None])
        return out
