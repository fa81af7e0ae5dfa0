"""Exact rational vectors and matrices, on python-flint. Every function is exact on every input.

A data set is a ``flint.fmpq_mat`` with one row a point. Sets of rows are given by 0-based indices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

from refimpl.parameters import as_rational

__all__ = [
    "SquaredDistances",
    "differences",
    "exact_matrix",
    "inverse_or_none",
    "is_positive_semidefinite",
    "ldl",
    "mahalanobis_squared",
    "rows_of",
    "second_moment",
    "squared_distances",
    "to_fmpq",
    "to_fraction",
    "weighted_mean",
]


def to_fmpq(value: Fraction | int) -> fmpq:
    """A rational as flint's type."""
    value = Fraction(value)
    return fmpq(value.numerator, value.denominator)


def to_fraction(value: fmpq) -> Fraction:
    """A rational as the standard library's type."""
    return Fraction(int(value.p), int(value.q))


def _from_array(name: str, array: np.ndarray[Any, Any]) -> fmpq_mat:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} must hold real numbers, got a masked array")
    array = np.asarray(array)  # subclasses such as np.matrix index differently
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got an array of {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional (rows, columns), got {array.ndim} dimension(s)")
    with np.errstate(all="ignore"):
        floats = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise ValueError(f"{name} must be finite: NaN and infinities are outside the domain")
    entries = [fmpq(*value.as_integer_ratio()) for value in floats.ravel().tolist()]
    rows, columns = floats.shape
    return fmpq_mat(rows, columns, entries)


def _from_nested(name: str, nested: Sequence[Any]) -> fmpq_mat:
    rows = [
        list(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) else None
        for row in nested
    ]
    if any(isinstance(row, str | bytes) for row in nested):
        raise TypeError(f"{name} must hold real numbers, got text")
    if not rows or None in rows:
        raise ValueError(f"{name} must be two-dimensional: a non-empty sequence of rows")
    widths = {len(row) for row in rows if row is not None}
    if len(widths) != 1:
        raise ValueError(f"{name} must have rows of one length")
    entries = []
    for value in (value for row in rows if row is not None for value in row):
        if isinstance(value, str):
            raise TypeError(f"{name} must hold real numbers, got str")
        try:
            entries.append(to_fmpq(as_rational(name, value)))
        except ValueError:
            raise ValueError(f"{name} must be finite: NaN and infinities are outside the domain") from None
        except TypeError:
            raise TypeError(f"{name} must hold real numbers, got {type(value).__name__}") from None
    return fmpq_mat(len(rows), widths.pop(), entries)


def exact_matrix(name: str, data: object) -> fmpq_mat:
    """Any accepted form of a data set or matrix as exact rationals.

    Parameters
    ----------
    name
        What to call the argument in an error.
    data
        A numpy array of integers or floats (converted to float64 entry by entry, then taken as the dyadic rationals that
        these are), a nested sequence of int, float, Fraction or fmpq (taken exactly), or an ``fmpq_mat``.

    Raises
    ------
    TypeError
        If the entries are bool, object, str or complex. The message names the type, never a value.
    ValueError
        If the shape is not two-dimensional with at least one column, or an entry is not finite.
    """
    if isinstance(data, fmpq_mat):
        matrix = data
    elif isinstance(data, np.ndarray):
        matrix = _from_array(name, data)
    elif isinstance(data, list | tuple):
        matrix = _from_nested(name, data)
    else:
        raise TypeError(f"{name} must be an array or a sequence of rows, got {type(data).__name__}")
    if matrix.ncols() < 1:
        raise ValueError(f"{name} must have at least one column")
    return matrix


def rows_of(matrix: fmpq_mat, indices: Iterable[int]) -> fmpq_mat:
    """The sub-matrix of some rows, in the order given."""
    table = matrix.tolist()
    picked = [table[i] for i in indices]
    return fmpq_mat(len(picked), matrix.ncols(), [value for row in picked for value in row])


def differences(x: fmpq_mat) -> fmpq_mat:
    """The m = floor(n/2) rows x_i - x_{i+m}: sqrt 2 times the paired rows y_i, which need not be rational."""
    m = x.nrows() // 2
    return rows_of(x, range(m)) - rows_of(x, range(m, 2 * m))


def second_moment(rows: fmpq_mat, weights: Sequence[Fraction]) -> fmpq_mat:
    """sum_i w_i y_i y_i^T."""
    d = rows.ncols()
    scaled = [w * value for w, row in zip(map(to_fmpq, weights), rows.tolist(), strict=True) for value in row]
    return fmpq_mat(rows.nrows(), d, scaled).transpose() * rows


def weighted_mean(rows: fmpq_mat, weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """sum_i w_i x_i."""
    total = fmpq_mat(1, len(weights), [to_fmpq(w) for w in weights]) * rows
    return tuple(to_fraction(value) for value in total.entries())


def inverse_or_none(matrix: fmpq_mat) -> fmpq_mat | None:
    """The inverse, or None if the matrix is singular, which is decided exactly."""
    try:
        return matrix.inv()
    except ZeroDivisionError:
        return None


def mahalanobis_squared(rows: fmpq_mat, inverse: fmpq_mat) -> list[fmpq]:
    """The squared norms v^T Sigma^-1 v of all rows v."""
    pairs = zip((rows * inverse).tolist(), rows.tolist(), strict=True)
    return [sum((a * b for a, b in zip(left, right, strict=True)), fmpq(0)) for left, right in pairs]


@dataclass(frozen=True, eq=False)
class SquaredDistances:
    """Exact squared Mahalanobis distances of all rows to the reference rows.

    Attributes
    ----------
    numerators
        For each row its distances times ``denominator``, as integers in ascending order.
    denominator
        Common to all of them.
    """

    numerators: list[list[int]]
    denominator: int

    def within(self, bound: Fraction) -> int:
        """The largest numerator of a distance that is at most ``bound``."""
        return math.floor(bound * self.denominator)


def squared_distances(x: fmpq_mat, inverse: fmpq_mat, reference: Sequence[int]) -> SquaredDistances:
    """abs(x_i - x_j)^2 in the norm of Sigma, for all i and all j in ``reference``.

    One integer matrix product: with z = q x and Sigma^-1 = A/p, the number p q^2 abs(x_i - x_j)^2 is
    z_i^T A z_i - 2 z_i^T A z_j + z_j^T A z_j, the product of (-2 z_i^T A, z_i^T A z_i, 1) with (z_j, 1, z_j^T A z_j).
    """
    z, q = x.numer_denom()
    a, p = inverse.numer_denom()
    points = list(map(tuple, z.tolist()))
    distinct = list(dict.fromkeys(points))  # equal rows have equal distances
    left = (fmpz_mat(distinct) * a).tolist()
    squares = [sum((u * v for u, v in zip(s, t, strict=True)), fmpz(0)) for s, t in zip(left, distinct, strict=True)]
    rows = [[-2 * u for u in s] + [square, fmpz(1)] for s, square in zip(left, squares, strict=True)]
    square_of = dict(zip(distinct, squares, strict=True))
    columns = [[*points[j], fmpz(1), square_of[points[j]]] for j in reference]
    if not columns:
        return SquaredDistances([[] for _ in points], int(p * q * q))
    product = fmpz_mat(rows) * fmpz_mat(columns).transpose()
    numerators = {point: sorted(map(int, row)) for point, row in zip(distinct, product.tolist(), strict=True)}
    return SquaredDistances([numerators[point] for point in points], int(p * q * q))


def ldl(matrix: fmpq_mat) -> tuple[list[list[fmpq]], list[fmpq]] | None:
    """Exact L D L^T of a symmetric positive semidefinite matrix: unit lower triangular rows L and the diagonal D.

    None if the matrix is not positive semidefinite. A zero pivot is allowed where its whole column is zero.
    """
    d = matrix.nrows()
    rest = matrix.tolist()
    lower = [[fmpq(int(i == j)) for j in range(d)] for i in range(d)]
    diagonal = []
    for j in range(d):
        pivot = rest[j][j]
        below = [rest[i][j] for i in range(j + 1, d)]
        if pivot < 0 or (pivot == 0 and any(value != 0 for value in below)):
            return None
        diagonal.append(pivot)
        if pivot == 0:
            continue
        for i in range(j + 1, d):
            lower[i][j] = rest[i][j] / pivot
            for h in range(j + 1, i + 1):
                rest[i][h] = rest[h][i] = rest[i][h] - lower[i][j] * rest[h][j]
    return lower, diagonal


def is_positive_semidefinite(matrix: fmpq_mat) -> bool:
    """Whether a symmetric matrix is positive semidefinite, by exact L D L^T."""
    return ldl(matrix) is not None
