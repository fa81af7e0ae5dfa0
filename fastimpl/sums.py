"""Weighted sums of products, sum_i c_i v_i v_i^T, to many more digits than float64 has: balls from three slices of each number.

What is released is rounded from its true value, and mostly some twenty binary digits beyond those of float64 decide how.
Each entry is scaled to |v| <= 1/2 and cut into h1 + h2 + r: h1 a multiple of 2^-21, h2 of 2^-42, |h2| <= 2^-22 + 2^-43,
|r| <= 2^-42. Over a block of 2048 rows the sums of products of h1 and h2 are integers below 2^53 in their unit, hence exact
in float64 in any order, fused or not (Ozaki, Ogita, Oishi, Rump 2012); only products with r are rounded, and these are small.

Error of an entry of the sum over n rows in b blocks, in scaled units. The products with r are (h1 + h2) r, r (h1 + h2) and
r r of the two columns, in absolute sum at most n 2^-42 (1 + 2^-20). A dot product of 2048 terms errs by gamma_2048 of its
absolute sum (Higham, 2nd ed., section 3.1), adding up five of them and b blocks by gamma_(b+5) of it. r itself is rounded
once, by 2^-53 2^-42, in two factors of up to 1/2; what underflows in scaling is below 2^-1000. All together this is below
n 2^-41 (2^-53 (2060 + b) 1.01 + 2^-52).
"""

from __future__ import annotations

import operator

import numpy as np
from flint import arb, ctx, fmpz_mat

from fastimpl.exact import column_units, gram, integer_rows
from fastimpl.normals import Ball
from fastimpl.rows import Floats, Indices, Sparse, Vectors

__all__ = ["cholesky", "enclosed_sums", "exact_sums"]

_BLOCK = 2048
_NUMBERS = 1 << 18  # that become integers together
_FLUSH = 512  # blocks whose integers an int64 holds
_CUTS = (1.5 * 2.0**31, 1.5 * 2.0**10)  # adding and subtracting these rounds to multiples of 2^-21 and 2^-42
_UNITS = (-42, -63, -84)  # of h1 h1, h1 h2 and h2 h2
_BITS = 256
_RANGE = 900  # columns of a size within 2^-900..2^900 are scaled by a power of two that is a float, exactly


@np.errstate(all="ignore")
def enclosed_sums(vectors: Vectors, counts: Sparse) -> list[list[Ball]] | None:
    """sum_i c_i v_i v_i^T in balls of radius about 2^-80 of n times the largest squares; None where slices will not do.

    Rows of another than the usual count, which are few, are summed as integers.
    """
    usual = counts.plain()
    top = _tops(vectors, usual)
    if top is None or len(vectors.minus) > 1:
        return None
    whole, rounded = _sliced(vectors, usual, top)
    size, d = len(vectors), vectors.width
    slack = size * 2.0**-41 * (2.0**-53 * (2060 + size // _BLOCK) * 1.01 + 2.0**-52)
    rest, unit = _exact_rest(vectors, counts)
    with ctx.workprec(_BITS):
        total = [[arb(0)] * d for _ in range(d)]
        for j in range(d):
            for ell in range(j + 1):
                sliced = sum(
                    (arb(int(part[j, ell])) * arb(2) ** e for part, e in zip(whole, _UNITS, strict=True)), arb(0)
                )
                scaled = (sliced + arb(float(rounded[j, ell]), slack)) * arb(2) ** int(top[j] + top[ell])
                other = arb(rest[j, ell]) * arb(2) ** int(unit[j] + unit[ell])
                total[j][ell] = total[ell][j] = scaled * counts.usual + other
    return total


def _tops(vectors: Vectors, counts: Sparse) -> Indices | None:
    """Exponents with every |v| of a column at most 2^(top-1); None for columns that cannot be scaled by a float."""
    largest = np.zeros(vectors.width)
    for block in _blocks(len(vectors)):
        sizes = np.abs(vectors.take(block).rounded())
        sizes[counts.block(block) == 0] = 0.0
        largest = np.maximum(largest, sizes.max(axis=0, initial=0.0))
    top = np.frexp(largest)[1].astype(np.int64) + 1  # a rounded number may be below its true value
    top[largest == 0] = 0
    return top if np.isfinite(largest).all() and (np.abs(top) <= _RANGE).all() else None


def _blocks(size: int) -> list[slice]:
    return [slice(start, min(size, start + _BLOCK)) for start in range(0, size, _BLOCK)]


def _sliced(vectors: Vectors, counts: Sparse, top: Indices) -> tuple[list[Floats], Floats]:
    """Integers of the exact products in their units, and the sum of the rounded products."""
    d, scale = vectors.width, np.ldexp(1.0, -top)
    whole = [np.zeros((d, d), dtype=object) for _ in _UNITS]
    rounded, part = np.zeros((d, d)), np.zeros((3, d, d), dtype=np.int64)
    for number, block in enumerate(_blocks(len(vectors))):
        slices = _slices(vectors.take(block), counts.block(block), scale)
        product = slices.T @ slices
        one, two, rest = slice(d), slice(d, 2 * d), slice(2 * d, 3 * d)
        mixed = product[one, two] + product[one, two].T  # below 2^53 units still, since |h1| <= 1/2
        for at, (exact, unit) in enumerate(zip((product[one, one], mixed, product[two, two]), _UNITS, strict=True)):
            part[at] += np.ldexp(exact, -unit).astype(np.int64)
        small = product[one, rest] + product[two, rest]
        rounded += (small + small.T) + product[rest, rest]
        if number % _FLUSH == _FLUSH - 1:
            whole, part = [total + more for total, more in zip(whole, part.astype(object), strict=True)], 0 * part
    return [total + more for total, more in zip(whole, part.astype(object), strict=True)], rounded


def _slices(vectors: Vectors, alive: Indices, scale: Floats) -> Floats:
    high, low = vectors.as_pair()
    rest = high * scale
    rest[alive == 0] = 0.0
    slices = np.empty((len(rest), 3 * rest.shape[1]))
    parts = slices.reshape(len(rest), 3, -1)
    for at, cut in enumerate(_CUTS):
        np.add(rest, cut, out=parts[:, at])
        parts[:, at] -= cut
        rest = rest - parts[:, at]
    np.multiply(low, scale, out=parts[:, 2])
    parts[:, 2][alive == 0] = 0.0
    parts[:, 2] += rest
    return slices


def _exact_rest(vectors: Vectors, counts: Sparse) -> tuple[fmpz_mat, Indices]:
    """The sum over the vectors of an unusual count, in units of the columns."""
    odd = counts.rest()
    units = [column_units(vectors.take(index)) for index, _ in odd.places(_BLOCK)]
    unit = np.min(units, axis=0) if units else np.zeros(vectors.width, dtype=np.int64)
    total = fmpz_mat(vectors.width, vectors.width)
    for index, value in odd.places(_BLOCK):
        rows = integer_rows(vectors.take(index), unit)
        weighted = [[int(c) * v for v in row] for c, row in zip(value, rows, strict=True)]
        total += fmpz_mat(weighted).transpose() * fmpz_mat(rows)
    return total, unit


def exact_sums(vectors: Vectors, counts: Sparse, unit: Indices | None = None) -> tuple[fmpz_mat, Indices]:
    """sum_i c_i v_i v_i^T as integers, entry (j, l) in units of 2^(unit[j] + unit[l]); ``unit`` if it is given."""
    unit = column_units(vectors) if unit is None else unit
    sums, together = fmpz_mat(vectors.width, vectors.width), max(_BLOCK, _NUMBERS // vectors.width)
    for count in sorted({count for _, value in counts.places(together) for count in np.unique(value).tolist()}):
        for index, _ in counts.places(together, count):
            sums += gram(vectors.take(index), unit) * count
    return sums, unit


def cholesky(matrix: list[list[Ball]]) -> list[list[Ball]] | None:
    """L, lower triangular, with L L^T the matrix, in the precision of the context; None where a pivot may not be positive."""
    lower: list[list[Ball]] = []
    for i, entries in enumerate(matrix):
        row: list[Ball] = []
        for j in range(i):
            before = sum(map(operator.mul, row, lower[j]), arb(0))
            row.append((entries[j] - before) / lower[j][j])
        pivot = entries[i] - sum(map(operator.mul, row, row), arb(0))
        if not pivot > 0:
            return None
        lower.append([*row, pivot.sqrt()])
    return lower
