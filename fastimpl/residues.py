"""Exact comparisons of many forms at a time: residues modulo primes, in floats that never round.

Where distances of many pairs of rows are the threshold itself, or nearly so, no float tells, and an integer for each of them
takes twenty microseconds. The sign of an integer follows from its residues, and these are products of matrices.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl.exact import prime_below, rounded
from fastimpl.grams import blocks
from fastimpl.rows import Floats, Indices

__all__ = ["MOST_PRIMES", "SEVERAL", "IntegerDistances"]

SEVERAL = 512  # comparisons that are quicker together than each by itself
MOST_PRIMES = 96  # beyond these they are not
_LARGEST = 1 << 24  # primes are below: then a quotient is rounded to the nearest integer whatever the product
_AT_ONCE = 1 << 21  # residues that are held at a time
_FEW = 10  # primes, up to which residues cost less than floats of any kind
_LAST = sys.float_info.max
_EXACT = 1 << 52  # integers below are floats, with room for a sum of two


class _Modulus(NamedTuple):
    """What is the same for all rows, modulo one prime: N, the vectors r, and r^T N r."""

    prime: int
    matrix: Floats
    points: Floats
    forms: Floats

    def differences(self, x: Floats, owner: Indices, other: Indices) -> Floats:
        """Residues of (x_i - r_j)^T N (x_i - r_j)."""
        half = _reduced(x @ self.matrix, self.prime)
        own = _reduced(np.einsum("ij,ij->i", half, x), self.prime)
        cross = _reduced(half @ self.points.T, self.prime)
        return np.asarray(own[owner] + self.forms[other] - 2 * cross[owner, other])


class IntegerDistances:
    """The integers q_ij = (x_i - r_j)^T N (x_i - r_j), N positive definite, against integer bars.

    *Statement, floats.* A residue is an integer r with |r| <= p/2 + 2. With d (p/2 + 2)^2 <= 2^52 each product of such
    matrices, and every partial sum of it, is an integer below 2^53, so it is exact in any order, with or without FMA. For an
    integer |a| <= 2^52 + 8 p, fl(a fl(1/p)) is off from a/p by at most 2^-51 |a/p|, so k, the integer nearest to it, has
    |a - k p| <= p/2 + 2; k p and a - k p are integers below 2^53, hence exact. Where |a| < p^2, p < 2^24, it is off by less
    than 1/(2 p), the least distance of a/p from a half (p is odd): then |a - k p| <= (p - 1)/2, the one such residue.
    *Statement, signs.* Let p_1, ..., p_s be odd primes with a product above 2 |u|. Then u = c_1 + c_2 p_1 + c_3 p_1 p_2 + ...
    with |c_i| <= (p_i - 1)/2 (mixed radix digits, found by dividing by p_1, then p_2, ... modulo the others), and since
    |c_1 + ... + c_i p_1...p_(i-1)| <= (p_1...p_i - 1)/2 the sign of u is that of its last digit that is not zero. If that is
    c_i then |u| >= (|c_i| - 1/2) p_1...p_(i-1).
    *Statement, size.* |N_jl|^2 <= N_jj N_ll, so 0 <= q <= d sum_j v_j^2 N_jj <= d^2 max_j v_j^2 N_jj; a bar above that can be
    lowered to it. So |u| = |q - bar| is at most that.

    *Source.* Garner (1959); Knuth, The Art of Computer Programming, vol. 2, section 4.3.2.
    """

    def __init__(self, matrix: fmpz_mat, points: Sequence[Sequence[int]]) -> None:
        self._matrix, self._points = (
            _integers([[int(value) for value in row] for row in matrix.tolist()]),
            _integers(points),
        )
        d = len(self._matrix)
        self._limit = min(_LARGEST, 2 * math.isqrt(_EXACT // d) - 4)
        self._known: list[_Modulus] = []

    @cached_property
    def _sizes(self) -> list[int]:
        """Bits of the diagonal of N and of the columns of the vectors."""
        return [int(self._matrix[j, j]).bit_length() for j in range(len(self._matrix))]

    @cached_property
    def few(self) -> bool:
        """Whether distances among the vectors r take few primes."""
        return self.primes(self.bits(self._points)) <= _FEW

    def bits(self, rows: Sequence[Sequence[int]] | NDArray[Any]) -> int:
        """So many bits hold every q_ij."""
        d, own = len(self._sizes), _integers(rows)
        largest = [max(_bits(own[:, j]), _bits(self._points[:, j])) + 1 for j in range(d)]
        return 2 * d.bit_length() + max(2 * v + size for v, size in zip(largest, self._sizes, strict=True))

    def primes(self, bits: int) -> int:
        """How many primes integers of so many bits take."""
        return -(-(bits + 2) // (self._limit.bit_length() - 1))

    def signs(
        self, rows: Sequence[Sequence[int]], owner: Indices, other: Indices, bars: Sequence[int], which: Indices
    ) -> NDArray[np.int8]:
        """The signs of q_ij - bars[which], for some pairs (owner, other) of one of ``rows`` and one of the vectors r.

        Owners rise, so that pairs of a few rows can be looked at together.
        """
        found = np.empty(len(owner), dtype=np.int8)
        for some, _, digits, _ in self._leading(rows, owner, other, bars, which):
            found[some] = np.sign(digits)
        return found

    def below(self, rows: Sequence[Sequence[int]], bar: int, denominator: int) -> Floats:
        """How far the forms q_i of rows about the first vector r are below a bar: lower bounds on (bar - q_i)/denominator.

        Of the same sign, and off by a factor of three at most; where they are negative they say nothing else.
        """
        found, zeros = np.empty(len(rows)), np.zeros(len(rows), dtype=np.int64)
        for some, primes, digits, places in self._leading(rows, np.arange(len(rows)), zeros, [bar], zeros):
            steps = [
                min(rounded(before, denominator, 0), _LAST) for before in accumulate(primes, operator.mul, initial=1)
            ]
            sizes = (np.abs(digits) - 0.5) * np.array(steps)[places] * (1 - 2.0**-50)
            found[some] = np.where(digits > 0, -1.0, np.where(digits < 0, sizes, 0.0))
        return found

    def _leading(
        self, rows: Sequence[Sequence[int]], owner: Indices, other: Indices, bars: Sequence[int], which: Indices
    ) -> Iterator[tuple[slice, list[int], Floats, Indices]]:
        """Of some pairs at a time: where they are, primes, last nonzero digits of q_ij - bars[which], and their places."""
        bits, x = self.bits(rows), _integers(rows)
        lowered, moduli = _integers([[min(bar, 1 << bits)] for bar in bars]), list(self._moduli(bits + 2))
        primes = [m.prime for m in moduli]
        for some in blocks(len(owner), _AT_ONCE // len(moduli)):
            first, last = owner[some][0], owner[some][-1] + 1
            residues = np.empty((len(moduli), some.stop - some.start))
            for u, m in zip(residues, moduli, strict=True):
                q = m.differences(_modulo(x[first:last], m.prime), owner[some] - first, other[some])
                u[:] = _reduced(q - _modulo(lowered, m.prime)[which[some], 0], m.prime)
            yield some, primes, *_last_digits(residues, primes)

    def _moduli(self, bits: int) -> Iterator[_Modulus]:
        """Primes with a product of more than so many bits, the largest first."""
        product = 1
        for m in self._known:
            if product.bit_length() > bits:
                return
            product *= m.prime
            yield m
        while product.bit_length() <= bits:
            prime = prime_below(self._known[-1].prime if self._known else self._limit | 1)
            matrix, points = _modulo(self._matrix, prime), _modulo(self._points, prime)
            forms = _reduced(np.einsum("ij,ij->i", _reduced(points @ matrix, prime), points), prime)
            self._known.append(_Modulus(prime, matrix, points, forms))
            product *= prime
            yield self._known[-1]


def _integers(rows: Sequence[Sequence[int]] | NDArray[Any]) -> NDArray[Any]:
    """A matrix of integers: of 64 bits if they fit."""
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        return np.array(rows, dtype=object)


def _bits(column: NDArray[Any]) -> int:
    return max((int(value).bit_length() for value in (column.min(), column.max())), default=0)


def _modulo(integers: NDArray[Any], prime: int) -> Floats:
    """Residues from -(p - 1)/2 to (p - 1)/2."""
    rest = (integers % prime).astype(np.float64)
    return np.where(rest > prime // 2, rest - prime, rest)


def _reduced(a: Floats, prime: int) -> Floats:
    """Residues of integers: see :class:`IntegerDistances`."""
    return np.asarray(a - prime * np.rint(a * (1 / prime)))


def _last_digits(residues: Floats, primes: Sequence[int]) -> tuple[Floats, Indices]:
    """Of integers the last digit that is not zero, and its place, from residues modulo primes with a large enough product."""
    digits, places = np.zeros(residues.shape[1]), np.zeros(residues.shape[1], dtype=np.int64)
    some = np.flatnonzero(residues.any(axis=0))
    _, where, kind = np.unique(
        residues[0, some] + _LARGEST * residues[-1, some], return_index=True, return_inverse=True
    )
    alike = (residues[:, some] == residues[:, some[where]][:, kind]).all(axis=0)  # many are one integer
    digit, place = _mixed_radix(residues[:, some[where]], primes)
    digits[some], places[some] = digit[kind], place[kind]
    digits[some[~alike]], places[some[~alike]] = _mixed_radix(residues[:, some[~alike]], primes)
    return digits, places


def _mixed_radix(residues: Floats, primes: Sequence[int]) -> tuple[Floats, Indices]:
    """The same from mixed radix digits, one after the other: see :class:`IntegerDistances`."""
    last, place = np.zeros(residues.shape[1]), np.zeros(residues.shape[1], dtype=np.int64)
    digits: list[Floats] = []
    for residue, prime in zip(residues, primes, strict=True):
        digit = residue
        for before, found in zip(primes, digits, strict=False):
            inverse = (pow(before, -1, prime) + prime // 2) % prime - prime // 2
            digit = _reduced((digit - found) * inverse, prime)
        last, place = np.where(digit != 0, digit, last), np.where(digit != 0, len(digits), place)
        digits.append(digit)
    return last, place
