"""Exact arithmetic on vectors of float64: integer forms, Gram matrices, quadratic forms. No rounding in this room.

Column j of the data is an integer times 2^unit[j], with one unit a column; quadratic forms v^T G^-1 v do not see the units.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb, ctx, fmpq_mat, fmpz, fmpz_mat, nmod_mat
from numpy.typing import NDArray

from fastimpl.rows import Floats, Vectors

__all__ = [
    "Factor",
    "QuadraticForm",
    "column_units",
    "gram",
    "integer_rows",
    "inverse_root",
    "matrix_form",
    "prime_below",
    "root_ratio_pair",
    "rounded",
    "semidefinite_factor",
]

_SLICE_BITS = 19
_BLOCK = (
    2048  # slices of four parts are below 2^21, so sums of products over a block stay below 2^53: exact in any order
)
_WINDOW = (-112, 40)  # bits below and above a column's typical exponent that are worth slicing
_FLUSH = 1024  # blocks that an int64 sum surely holds
_ZERO = 1 << 20  # the exponent that stands for a zero entry's lowest bit: above every real one


LARGE = 24  # columns from which exact elimination is slower than what is done instead
_RANKS = 4  # columns for each vector that goes, from which an inverse is quicker found from the one before
_SOLVED = 2  # times that vectors no more than columns are solved for before an inverse pays
_FEW_NUMBERS = 64  # numbers that become integers quicker one by one
_PRIME = (1 << 62) - 57
_PRECISIONS = tuple(300 * 2**i for i in range(10))


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
    for vectors in parts:
        for start in range(0, len(vectors), _BLOCK):
            for values in vectors.take(slice(start, start + _BLOCK)).parts:
                lowest = np.minimum(lowest, _bits(values).low.min(axis=0, initial=_ZERO))
    return np.where(lowest == _ZERO, 0, lowest)


def _integers(values: Floats, unit: NDArray[np.int64]) -> list[list[int]]:
    if values.size <= _FEW_NUMBERS:
        powers = unit.tolist()
        return [[_integer(*pair) for pair in zip(row, powers, strict=True)] for row in values.tolist()]
    bits = _bits(values)
    shift = np.where(bits.odd == 0, 0, bits.low - unit)
    if int((bits.top - unit).max(initial=0)) <= 61:
        narrow: list[list[int]] = (bits.odd << shift).tolist()
        return narrow
    pairs = zip(bits.odd.tolist(), shift.tolist(), strict=True)
    return [[odd << up for odd, up in zip(*row, strict=True)] for row in pairs]


def _integer(value: float, unit: int) -> int:
    """The same of one number, a multiple of 2^unit; so no digit that is shifted out is other than zero."""
    fraction, exponent = math.frexp(value)
    shift, mantissa = exponent - 53 - unit, int(fraction * 2.0**53)
    return mantissa << shift if shift >= 0 else mantissa >> -shift


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
    _solved: list[int] = field(default_factory=list, init=False, repr=False)  # for how many vectors, each time

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
    def inverse(self) -> tuple[fmpz_mat, int]:
        """N and n with matrix^-1 = N/n, n positive."""
        if self.width >= LARGE:
            return _modular_inverse(self.matrix)
        numerator, denominator = fmpq_mat(self.matrix).inv().numer_denom()
        return numerator, int(denominator)

    @cached_property
    def _determinant(self) -> int:
        return int(self.matrix.det())

    def without(self, rows: Sequence[Sequence[int]]) -> QuadraticForm:
        """The form of G - sum_i v_i v_i^T for integer vectors v_i; ``exponent`` is 0.

        If the inverse is known and few vectors go, that of the new matrix follows from it.
        """
        gone = fmpz_mat(rows)
        left = QuadraticForm(self.matrix - gone.transpose() * gone, self.unit)
        if "inverse" in self.__dict__ and _RANKS * len(rows) <= max(self.width, _RANKS):
            inverse, determinant = self.inverse, self._determinant
            for row in rows:
                if determinant:
                    inverse, determinant = _without_one(inverse, determinant, row)
            if determinant:
                left.__dict__.update(inverse=inverse, _determinant=determinant)
        return left

    def values(self, rows: Sequence[Sequence[int]]) -> tuple[list[int], int]:
        """Numerators, over one positive denominator, of v^T G^-1 v for integer vectors v (in units of 2^unit[j])."""
        self._solved.append(len(rows))
        if self.width >= LARGE and len(self._solved) <= _SOLVED and len(rows) <= self.width:
            values, denominator = _modular_forms(self.matrix, rows)
        else:
            numerator, denominator = self.inverse
            products = (fmpz_mat(rows) * numerator).tolist()
            values = [int(sum(a * b for a, b in zip(p, v, strict=True))) for p, v in zip(products, rows, strict=True)]
        if self.exponent >= 0:
            return [value << self.exponent for value in values], denominator
        return values, denominator << -self.exponent


def _without_one(
    inverse: tuple[fmpz_mat, int], determinant: int, row: Sequence[int]
) -> tuple[tuple[fmpz_mat, int], int]:
    """Inverse and determinant of the integer matrix G - g g^T from those of G, symmetric and regular; only 0 if it is singular.

    *Statement.* Let N/n = G^-1, n dividing det G, u = N g and r = n - g^T u. Then det(G - g g^T) = (det G) r/n (matrix
    determinant lemma), and adj(G - g g^T) = (det G/n) (r N + u u^T)/n (Sherman, Morrison): integers. Both are divided by what
    they have in common, so that the new n divides the new determinant, too.
    """
    matrix, n = inverse
    g = fmpz_mat(len(row), 1, row)
    u = matrix * g
    rest = n - int((g.transpose() * u)[0, 0])
    factor = determinant // n
    if not rest:
        return inverse, 0
    adjugate = (matrix * (rest * factor) + (u * factor) * u.transpose()) / n
    common = fmpz(rest * factor)
    for entry in adjugate.entries():
        common = common.gcd(entry)
        if common == 1:
            break
    else:
        adjugate /= common
    return (adjugate, rest * factor // int(common)), rest * factor


def _modular_inverse(matrix: fmpz_mat) -> tuple[fmpz_mat, int]:
    """The adjugate and the determinant of a symmetric positive definite matrix, from inverses modulo many primes.

    *Statement.* The adjugate is positive definite too, so no entry is larger than the largest on its diagonal, which by
    Hadamard's inequality is at most the product of the diagonal of ``matrix``. Residues modulo a product of primes that is
    more than twice that determine it (Chinese remainder theorem). A prime that divides the determinant is left out.
    """
    d, determinant = int(matrix.nrows()), int(matrix.det())
    below = [(i, j) for i in range(d) for j in range(i + 1)]
    primes = _primes(determinant, sum(int(matrix[i, i]).bit_length() for i in range(d)) + 2)
    residues = []
    for prime in primes:
        inverse = nmod_mat(matrix, prime).inv() * (determinant % prime)
        residues.append([int(inverse[i, j]) for i, j in below])
    sums, product = _recombined(primes, residues)
    entries, half = [[0] * d for _ in range(d)], product // 2
    for (i, j), value in zip(below, sums, strict=True):
        entries[i][j] = entries[j][i] = (value + half) % product - half
    return fmpz_mat(entries), determinant


def _modular_forms(matrix: fmpz_mat, rows: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """The numbers v^T adj(G) v for some integer vectors v and positive definite G, and det G: a few times quicker than adj(G).

    *Statement.* Adj(G) is positive definite, and its entry (j, j), a minor of G on its diagonal, is at most P/G_jj, P being
    the product of the diagonal of G (Hadamard). So 0 <= v^T adj(G) v <= d sum_j v_j^2 P/G_jj <= d^2 P max_j v_j^2/G_jj.
    """
    d, determinant = int(matrix.nrows()), int(matrix.det())
    sizes = [int(matrix[j, j]).bit_length() for j in range(d)]
    most = max((2 * int(v).bit_length() - sizes[j] for row in rows for j, v in enumerate(row)), default=0)
    primes = _primes(determinant, sum(sizes) + max(most, 0) + 2 * d.bit_length() + 4)
    left, residues = fmpz_mat(rows), []
    right = left.transpose()
    for prime in primes:
        solution = nmod_mat(matrix, prime).solve(nmod_mat(right, prime)) * (determinant % prime)
        products = nmod_mat(left, prime) * solution
        residues.append([int(products[i, i]) for i in range(len(rows))])
    sums, product = _recombined(primes, residues)
    return [value % product for value in sums], determinant


def _primes(determinant: int, bits: int) -> list[int]:
    """Primes that do not divide the determinant, with a product of more than so many bits."""
    if not determinant:
        raise ZeroDivisionError("a singular matrix has no inverse")
    found, product, prime = [], 1, _PRIME
    while product.bit_length() <= bits:
        if determinant % prime:
            found.append(prime)
            product *= prime
        prime = prime_below(prime)
    return found


def _recombined(primes: Sequence[int], residues: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """Numbers with these residues, up to multiples of the product of all primes, and that product."""
    product = math.prod(primes)
    weights = [product // p * pow(product // p, -1, p) for p in primes]
    sums = fmpz_mat(1, len(primes), weights) * fmpz_mat(residues)
    return [int(value) for value in sums.entries()], product


def prime_below(number: int) -> int:
    """The largest prime below an odd number above 3."""
    number -= 2
    while not fmpz(number).is_prime():
        number -= 2
    return number


class _Balls(NamedTuple):
    """Lower triangular L with L L^T = matrix, and W = L^-1, as intervals."""

    lower: list[list[arb]]
    inverse: list[list[arb]]


def _cholesky_balls(matrix: fmpz_mat, bits: int) -> _Balls | None:
    """Enclosures (Arb) of both factors, computed with so many bits; None where these do not show that a pivot is positive."""
    d = int(matrix.nrows())
    with ctx.workprec(bits):
        lower: list[list[arb]] = []
        for i in range(d):
            row: list[arb] = []
            for j in range(i):
                before = sum(map(operator.mul, row, lower[j]), arb(0))
                row.append((arb(matrix[i, j]) - before) / lower[j][j])
            pivot = arb(matrix[i, i]) - sum(map(operator.mul, row, row), arb(0))
            if not pivot > 0:
                return None
            lower.append([*row, pivot.sqrt()])
        columns: list[list[arb]] = []  # of the inverse, from the diagonal down
        for j in range(d):
            column = [1 / lower[j][j]]
            for i in range(j + 1, d):
                before = sum(map(operator.mul, column, lower[i][j:i]), arb(0))
                column.append(-before / lower[i][i])
            columns.append(column)
        return _Balls(lower, [[columns[j][i - j] for j in range(i + 1)] for i in range(d)])


def _sure_enough(ball: arb, power: int, digits: int, least: int) -> bool:
    """Whether a ball times 2^power is known to 2^-digits of itself, or of 2^least where it is smaller than that."""
    radius = _exponent(ball.rad()) + digits + 2
    return radius < _exponent(ball.mid()) or radius + power < least


def _exponent(point: arb) -> int:
    """E with |point| in 2^(e-1)..2^e; far below every real one for zero."""
    mantissa, exponent = point.man_exp()
    return int(abs(mantissa)).bit_length() + int(exponent) if mantissa else -_ZERO


def inverse_root(form: QuadraticForm, shift: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """W with W G W^T = I, lower triangular, as two floats an entry; column l is scaled by 2^-shift[l].

    Each pair is off by at most 2^-104 of the entry or of 2^-900, whichever is larger, unless it over- or underflows.
    """
    d = form.width
    powers = [form.exponent // 2 - int(form.unit[ell] + shift[ell]) for ell in range(d)]
    w, rest = np.zeros((d, d)), np.zeros((d, d))
    balls = _balls_to(form, "inverse", lambda _, ell: powers[ell], 106, -900) if d >= LARGE else None
    for j in range(d):
        for ell in range(j + 1):
            if balls is not None:
                w[j, ell], rest[j, ell] = _ball_pair(balls[j][ell], powers[ell])
            elif form.factor.b[j][ell]:
                w[j, ell], rest[j, ell] = root_ratio_pair(form.factor.b[j][ell], form.factor.diagonal[j], powers[ell])
    return w, rest


def _balls_to(
    form: QuadraticForm, which: str, power: Callable[[int, int], int], digits: int, least: int
) -> list[list[arb]] | None:
    """One of the two factors, as sharp as asked for; None if that takes too many bits."""
    for bits in _PRECISIONS:
        both = _cholesky_balls(form.matrix, bits)
        if both is not None:
            balls: list[list[arb]] = getattr(both, which)
            rows = enumerate(balls)
            if all(_sure_enough(ball, power(j, ell), digits, least) for j, row in rows for ell, ball in enumerate(row)):
                return balls
    return None


def _ball_pair(ball: arb, power: int) -> tuple[float, float]:
    """The middle of a ball times 2^power, as two floats."""
    mantissa, exponent = (int(part) for part in ball.mid().man_exp())
    extra = max(0, abs(mantissa).bit_length() - 130)
    root = abs(mantissa) >> extra
    high = float(root)
    try:
        pair = math.ldexp(high, power + exponent + extra), math.ldexp(float(root - int(high)), power + exponent + extra)
    except OverflowError:
        pair = math.inf, 0.0
    return pair if mantissa > 0 else (-pair[0], -pair[1])


def matrix_form(matrix: Floats, unit: NDArray[np.int64]) -> QuadraticForm:
    """The form of a symmetric matrix, taken as exactly the dyadic matrix that it is."""
    bits = _bits(matrix)
    shift = np.where(bits.odd == 0, 0, bits.low - unit[:, None] - unit[None, :])
    exponent = max(0, -int(shift.min(initial=0)))
    exponent += exponent % 2
    pairs = zip(bits.odd.tolist(), (shift + exponent).tolist(), strict=True)
    entries = [[odd << up if odd else 0 for odd, up in zip(*row, strict=True)] for row in pairs]
    return QuadraticForm(fmpz_mat(entries), unit, exponent)


def root_ratio_pair(numerator: int, radicand: int, power: int) -> tuple[float, float]:
    """numerator/sqrt(radicand) * 2^power as two floats: the nearest one, or its neighbour, and the rest to 2^-104 of it."""
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


def rounded(numerator: int, denominator: int, power: int) -> float:
    """numerator/denominator * 2^power, correctly rounded; infinite where it overflows."""
    value = Fraction(numerator << max(power, 0), denominator << max(-power, 0))
    try:
        return float(value)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def semidefinite_factor(form: QuadraticForm) -> tuple[list[list[int]], list[int]]:
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
