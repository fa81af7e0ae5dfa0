"""Exact arithmetic on vectors of float64: integer forms, Gram matrices, quadratic forms. No rounding in this room.

Column j of the data is an integer times 2^unit[j], with one unit a column; quadratic forms v^T G^-1 v do not see the units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from fastimpl.rows import Floats, Vectors

__all__ = [
    "Factor",
    "QuadraticForm",
    "column_units",
    "gram",
    "integer_rows",
    "lower_factor",
    "matrix_form",
    "root_ratio",
    "root_ratio_pair",
]

_SLICE_BITS = 19
_BLOCK = (
    2048  # slices of four parts are below 2^21, so sums of products over a block stay below 2^53: exact in any order
)
_WINDOW = (-112, 40)  # bits below and above a column's typical exponent that are worth slicing
_FLUSH = 1024  # blocks that an int64 sum surely holds
_ZERO = 1 << 20  # the exponent that stands for a zero entry's lowest bit: above every real one


class _Bits(NamedTuple):
    """Entries as odd * 2^low, with |entry| < 2^top; zeros have odd = 0, low = _ZERO, top = -_ZERO."""

    odd: NDArray[np.int64]
    low: NDArray[np.int64]
    top: NDArray[np.int64]


def _bits(values: Floats) -> _Bits:
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    trailing = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    zero = mantissa == 0
    odd = np.where(zero, 0, mantissa >> np.where(zero, 0, trailing))
    low = np.where(zero, _ZERO, exponent.astype(np.int64) - 53 + trailing)
    return _Bits(odd, low, np.where(zero, -_ZERO, exponent.astype(np.int64)))


def column_units(*parts: Vectors) -> NDArray[np.int64]:
    """For each column the largest unit of which every entry of every part is a multiple (0 for a column of zeros)."""
    width = parts[0].width
    lowest = np.full(width, _ZERO, dtype=np.int64)
    for values in (member for vectors in parts for member in vectors.parts):
        for start in range(0, len(values), _BLOCK):
            lowest = np.minimum(lowest, _bits(values[start : start + _BLOCK]).low.min(axis=0, initial=_ZERO))
    return np.where(lowest == _ZERO, 0, lowest)


def _integers(values: Floats, unit: NDArray[np.int64]) -> list[list[int]]:
    bits = _bits(values)
    shift = np.where(bits.odd == 0, 0, bits.low - unit)
    if int((bits.top - unit).max(initial=0)) <= 61:
        narrow: list[list[int]] = (bits.odd << shift).tolist()
        return narrow
    pairs = zip(bits.odd.tolist(), shift.tolist(), strict=True)
    return [[odd << up for odd, up in zip(*row, strict=True)] for row in pairs]


def integer_rows(vectors: Vectors, unit: NDArray[np.int64]) -> list[list[int]]:
    """The exact vectors in units of 2^unit[j]."""
    added = [_integers(part, unit) for part in vectors.plus]
    taken = [_integers(part, unit) for part in vectors.minus]
    if not taken:
        return added[0]
    total = np.array(added[0], dtype=object)
    for part in added[1:]:
        total = total + np.array(part, dtype=object)
    for part in taken:
        total = total - np.array(part, dtype=object)
    exact: list[list[int]] = total.tolist()
    return exact


def gram(vectors: Vectors, unit: NDArray[np.int64]) -> fmpz_mat:
    """sum_i v_i v_i^T, exactly, in units of 2^(unit[j] + unit[l]).

    Rows whose entries lie in a common window of binary digits go through sliced float64 products whose sums stay below
    2^53 and are therefore exact (Ozaki, Ogita, Oishi, Rump 2012); the few others are multiplied as integers.
    """
    inside, low, top = _window(vectors, unit)
    total = _sliced_gram(vectors.take(np.flatnonzero(inside)), unit, low, top)
    outside = np.flatnonzero(~inside)
    if outside.size:
        rows = fmpz_mat(integer_rows(vectors.take(outside), unit))
        total += rows.transpose() * rows
    return total


def _window(
    vectors: Vectors, unit: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Which rows fit the window of every column, and for each column the lowest and highest bit among those rows."""
    bits = [_bits(member) for member in vectors.parts]
    typical = np.array([_typical(np.concatenate([b.top[:, j] for b in bits])) for j in range(vectors.width)])
    inside = np.ones(len(vectors), dtype=bool)
    for b in bits:
        inside &= ((b.odd == 0) | ((b.low >= typical + _WINDOW[0]) & (b.top <= typical + _WINDOW[1]))).all(axis=1)
    low = np.min([b.low[inside].min(axis=0, initial=_ZERO) for b in bits], axis=0)
    top = np.max([b.top[inside].max(axis=0, initial=-_ZERO) for b in bits], axis=0)
    empty = top == -_ZERO
    return inside, np.where(empty, unit, low), np.where(empty, unit, top)


def _typical(tops: NDArray[np.int64]) -> int:
    tops = tops[tops != -_ZERO]
    return int(np.median(tops)) if tops.size else 0


def _sliced_gram(vectors: Vectors, unit: NDArray[np.int64], low: NDArray[np.int64], top: NDArray[np.int64]) -> fmpz_mat:
    d = vectors.width
    count = max(1, -(-int((top - low).max(initial=0)) // _SLICE_BITS))
    top = low + _SLICE_BITS * count  # so that the last slice ends at the lowest bit
    total = np.zeros((count * d, count * d), dtype=object)
    for start in range(0, len(vectors), _BLOCK * _FLUSH):
        part = np.zeros((count * d, count * d), dtype=np.int64)
        for begin in range(start, min(len(vectors), start + _BLOCK * _FLUSH), _BLOCK):
            slices = _slices(vectors.take(slice(begin, begin + _BLOCK)), top, count)
            part += (slices.T @ slices).astype(np.int64)
        total += part.astype(object)
    shift = (low - unit)[:, None] + _SLICE_BITS * np.arange(count)[::-1]
    entries = [[0] * d for _ in range(d)]
    for p in range(count):
        for q in range(count):
            block = total[p * d : (p + 1) * d, q * d : (q + 1) * d]
            for j in range(d):
                for ell in range(d):
                    entries[j][ell] += int(block[j, ell]) << int(shift[j, p] + shift[ell, q])
    return fmpz_mat(entries)


def _slices(vectors: Vectors, top: NDArray[np.int64], count: int) -> Floats:
    """Integer slices of 19 bits, highest first, side by side: the vector is sum_p slice_p 2^(top - 19(p+1))."""
    parts = []
    rest = [np.ldexp(member, -top) for member in vectors.parts]
    for _ in range(count):
        rest = [np.ldexp(member, _SLICE_BITS) for member in rest]
        whole = [np.trunc(member) for member in rest]
        rest = [member - digits for member, digits in zip(rest, whole, strict=True)]
        parts.append(sum(whole[: len(vectors.plus)]) - sum(whole[len(vectors.plus) :], np.zeros(1)))
    return np.concatenate(parts, axis=1)


class Factor(NamedTuple):
    """G = L D^-1 L^T with integer L; rows of B are sqrt(D_j) times the rows of W, W G W^T = I exactly."""

    b: list[list[int]]
    diagonal: list[int]
    lower: list[list[int]]


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """v -> v^T G^-1 v for G = 2^-exponent times ``matrix``, in units of 2^(unit[j] + unit[l]); exponent is even."""

    matrix: fmpz_mat
    unit: NDArray[np.int64]
    exponent: int = field(default=0)

    @property
    def width(self) -> int:
        """D."""
        return int(self.matrix.nrows())

    @cached_property
    def is_singular(self) -> bool:
        """Whether G has no inverse."""
        return bool(self.matrix.rank() < self.width)

    @cached_property
    def is_positive_semidefinite(self) -> bool:
        """Whether G is: its characteristic polynomial has real roots only, none negative when its signs alternate."""
        coefficients = [int(c) for c in self.matrix.charpoly().coeffs()]
        return all(c * (-1) ** (len(coefficients) - 1 - i) >= 0 for i, c in enumerate(coefficients))

    @cached_property
    def factor(self) -> Factor:
        """The fraction-free LU factors of [G, I] (Bareiss); G is positive definite, so no pivot vanishes."""
        d = self.width
        rows = [[self.matrix[i, j] for j in range(d)] + [int(i == j) for j in range(d)] for i in range(d)]
        _, lower, diagonal, upper = fmpz_mat(rows).fflu()
        return Factor(
            b=[[int(upper[i, d + j]) for j in range(d)] for i in range(d)],
            diagonal=[int(diagonal[i, i]) for i in range(d)],
            lower=[[int(lower[i, j]) for j in range(d)] for i in range(d)],
        )

    @cached_property
    def _inverse(self) -> tuple[fmpz_mat, int]:
        inverse = fmpq_mat(self.matrix).inv()  # a third of the time of solving for the identity at d = 100
        numerator, denominator = inverse.numer_denom()
        return numerator, int(denominator)

    def values(self, rows: Sequence[Sequence[int]]) -> tuple[list[int], int]:
        """Numerators, over one positive denominator, of v^T G^-1 v for integer vectors v (in units of 2^unit[j])."""
        numerator, denominator = self._inverse
        products = (fmpz_mat(rows) * numerator).tolist()
        values = [int(sum(a * b for a, b in zip(p, v, strict=True))) for p, v in zip(products, rows, strict=True)]
        if self.exponent >= 0:
            return [value << self.exponent for value in values], denominator
        return values, denominator << -self.exponent


def matrix_form(matrix: Floats, unit: NDArray[np.int64]) -> QuadraticForm:
    """The form of a symmetric matrix, taken as exactly the dyadic matrix that it is."""
    bits = _bits(matrix)
    shift = np.where(bits.odd == 0, 0, bits.low - unit[:, None] - unit[None, :])
    exponent = max(0, -int(shift.min(initial=0)))
    exponent += exponent % 2
    pairs = zip(bits.odd.tolist(), (shift + exponent).tolist(), strict=True)
    entries = [[odd << up if odd else 0 for odd, up in zip(*row, strict=True)] for row in pairs]
    return QuadraticForm(fmpz_mat(entries), unit, exponent)


def root_ratio(numerator: int, radicand: int, power: int) -> float:
    """numerator/sqrt(radicand) * 2^power in float64, with a relative error below 2u unless it over- or underflows."""
    square = numerator * numerator
    extra = (160 + radicand.bit_length() - square.bit_length()) // 2
    quotient = (square << 2 * extra) // radicand if extra >= 0 else square // (radicand << -2 * extra)
    root = float(math.isqrt(quotient))
    try:
        size = math.ldexp(root, power - extra)
    except OverflowError:
        size = math.inf
    return size if numerator > 0 else -size


def root_ratio_pair(numerator: int, radicand: int, power: int) -> tuple[float, float]:
    """The same as two floats: the nearest one, or its neighbour, and the rest to 2^-104 of it."""
    square = numerator * numerator
    extra = (260 + radicand.bit_length() - square.bit_length()) // 2
    quotient = (square << 2 * extra) // radicand if extra >= 0 else square // (radicand << -2 * extra)
    root = math.isqrt(quotient)  # of about 130 bits
    high = float(root)
    low = float(root - int(high))
    try:
        pair = math.ldexp(high, power - extra), math.ldexp(low, power - extra)
    except OverflowError:
        pair = math.inf, 0.0
    return pair if numerator > 0 else (-pair[0], -pair[1])


def lower_factor(form: QuadraticForm, scale: Fraction) -> Floats:
    """The lower Cholesky factor of G/scale, each entry rounded from its exact value; G is positive semidefinite."""
    d = form.width
    lower, diagonal = _semidefinite_factor(form) if form.is_singular else (form.factor.lower, form.factor.diagonal)
    result = np.zeros((d, d))
    p, q = scale.numerator, scale.denominator
    for j in range(d):
        for ell in range(j + 1):
            if lower[j][ell]:
                power = int(form.unit[j]) - form.exponent // 2
                result[j, ell] = root_ratio(lower[j][ell] * q, diagonal[ell] * p * q, power)
    return result


def _semidefinite_factor(form: QuadraticForm) -> tuple[list[list[int]], list[int]]:
    """Integers with matrix = L D^-1 L^T where some pivots vanish: fraction-free elimination, columns of zeros left alone."""
    d = form.width
    rest = [[int(value) for value in row] for row in form.matrix.tolist()]
    lower = [[0] * d for _ in range(d)]
    diagonal = [1] * d
    before = 1
    for step in range(d):
        pivot = rest[step][step]
        if not pivot:
            continue
        diagonal[step] = pivot * before
        for i in range(step, d):
            lower[i][step] = rest[i][step]
        column = [rest[i][step] for i in range(d)]
        for i in range(step + 1, d):
            for j in range(step + 1, d):
                rest[i][j] = (pivot * rest[i][j] - column[i] * column[j]) // before
        before = pivot
    return lower, diagonal
