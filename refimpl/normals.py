"""Standard normals as real numbers: enclosures, as sharp as asked for, of what streams of random digits stand for.

A normal that was rounded to a float leaves marks: where the mean is 0, the release is a multiple of some power of two that
it is not where the mean is 1/3, and no theorem about real normals speaks of that. Here a uniform number U has as many digits
as anybody asks for, the normal is the real number Phi^-1(U), and a release is rounded once, at its end, from its true value.
It is then a fixed function of the release that the theorems speak of, and as private.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

from refimpl import reals
from refimpl.reals import Enclosure

__all__ = ["Real", "RealNormals", "stream"]

_LEADING = 53  # digits that the floats are made of
_NEAR = 128  # bits of what becomes a float
_SPARE = 80  # more digits are read of U than are wanted of z: the density is above 2^-75 where |z| < 10

Digits = Callable[[int], int]
"""A number U in [0, 1], as the function from ``bits`` to floor(2^bits U)."""
Real = Callable[[int], Enclosure]
"""A real number, as a function from precision to enclosure."""


def stream(seed: bytes, label: str, length: int) -> bytes:
    """The first ``length`` bytes of the stream of one label; streams of different labels share nothing."""
    return hashlib.shake_256(b"bhs23/" + label.encode() + b"/" + seed).digest(length)


def _digits(seed: bytes, label: str) -> Digits:
    """A uniform number of its own for each label."""

    def first(bits: int) -> int:
        length = -(-bits // 8)
        return int.from_bytes(stream(seed, label, length), "big") >> (8 * length - bits)

    return first


def _cell(uniform: Digits, bits: int) -> tuple[int, int]:
    """Numbers c and b with U in [c, c+1]/2^b, neither end of which is 0 or 1; b is at least ``bits``."""
    while not 0 < uniform(bits) < (1 << bits) - 1:
        bits *= 2
    return uniform(bits), bits


def _quantile(numerator: int, bits: int) -> Enclosure:
    """Phi^-1(numerator/2^bits) = -sqrt 2 erfc^-1(2 numerator/2^bits)."""
    with ctx.workprec(bits + 64):
        ball = -arb(2).sqrt() * (arb(numerator) / arb(2) ** (bits - 1)).erfcinv()
        middle, radius = (_dyadic(part) for part in (ball.mid(), ball.rad()))
    return Enclosure(middle - radius, middle + radius)


def _dyadic(point: arb) -> Fraction:
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _normal(uniform: Digits) -> Real:
    """Phi^-1(U): between the quantiles of the ends of the cell that the digits of U leave."""

    def number(precision: int) -> Enclosure:
        cell, bits = _cell(uniform, precision + _SPARE)
        return Enclosure(_quantile(cell, bits).lower, _quantile(cell + 1, bits).upper)

    return number


def _log(number: Enclosure, precision: int) -> Enclosure:
    return Enclosure(reals.log(number.lower, precision).lower, reals.log(number.upper, precision).upper)


def _log_uniform(uniform: Digits) -> Real:
    def number(precision: int) -> Enclosure:
        cell, bits = _cell(uniform, precision)
        return _log(Enclosure(Fraction(cell, 1 << bits), Fraction(cell + 1, 1 << bits)), precision)

    return number


def _chi(seed: bytes, label: str, degrees: int) -> Real:
    """The root of a chi-squared number, of which half is a gamma number by the rejection of Marsaglia and Tsang (2000).

    With D = degrees/2 - 1/3, a normal z and v = (1 + z/sqrt(9 D))^3, the number D v is kept if v > 0 and
    log U < z^2/2 + D (1 - v + log v). One degree of freedom is below the reach of that, and is |z|.
    """
    if degrees == 1:
        z = _normal(_digits(seed, label))
        return lambda precision: _absolute(z(precision))
    size = Fraction(degrees, 2) - Fraction(1, 3)
    for attempt in count():
        z = _normal(_digits(seed, f"{label}/{attempt}/normal"))
        if _is_kept(z, _log_uniform(_digits(seed, f"{label}/{attempt}/uniform")), size):
            break
    return lambda precision: reals.sqrt(_cube(z, size, precision) * (2 * size), precision)


def _absolute(number: Enclosure) -> Enclosure:
    largest = max(-number.lower, number.upper)
    return Enclosure(max(Fraction(0), number.lower, -number.upper), largest)


def _cube(z: Real, size: Fraction, precision: int) -> Enclosure:
    """V of the proposal z, which is known to be positive, so closely that its enclosure is."""
    while True:
        root = 1 + z(precision) / reals.sqrt(9 * size, precision)
        if root.lower > 0:
            return root * root * root
        precision *= 2


def _is_kept(z: Real, log_uniform: Real, size: Fraction) -> bool:
    if reals.decide(z, lambda precision: -reals.sqrt(9 * size, precision)):
        return False

    def bound(precision: int) -> Enclosure:
        v, square = _cube(z, size, precision), _absolute(z(precision))
        return square * square * Fraction(1, 2) + (1 - v + _log(v, precision)) * size

    return reals.decide(log_uniform, bound)


@dataclass(frozen=True)
class RealNormals:
    """Independent standard normals as real numbers; or the lower triangular factor A of a Wishart law (Bartlett 1933).

    Attributes
    ----------
    seed
        256 bits, from which all digits come.
    label
        What the numbers are for: different labels make independent numbers.
    shape
        Of the array of numbers: (rows, columns).
    samples
        None for normals. Otherwise N, for the d x d factor with A A^T in law sum_i z_i z_i^T over N standard normal vectors:
        normals below the diagonal; on it, in row i, the root of a chi-squared number with N - i degrees of freedom. Columns
        from N on are zero.
    """

    seed: bytes
    label: str
    shape: tuple[int, int]
    samples: int | None = None

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        """The leading digits of every U, row by row, of the lower triangle for a factor."""
        rows, columns = self.shape
        entries = rows * columns if self.samples is None else rows * (rows + 1) // 2
        words = np.frombuffer(stream(self.seed, self.label, 8 * entries), dtype=">u8")
        return np.asarray(words >> np.uint64(64 - _LEADING), dtype=np.uint64)

    def _uniform(self, at: int) -> Digits:
        rest = _digits(self.seed, f"{self.label}/{at}")
        return lambda bits: (int(self._words[at]) << (bits - _LEADING)) | rest(bits - _LEADING)

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The numbers in float64, near their true values."""
        near = np.asarray(ndtri((self._words.astype(np.float64) + 0.5) / 2.0**_LEADING), dtype=np.float64)
        if self.samples is None:
            return near.reshape(self.shape)
        factor = np.zeros(self.shape)
        factor[np.tril_indices(len(factor))] = near
        for i in range(len(factor)):
            factor[i, i] = float(self.number(i, i)(_NEAR))
            factor[i, self.samples :] = 0.0
        return factor

    def number(self, i: int, j: int) -> Real:
        """The number in row i and column j."""
        if self.samples is None:
            return _normal(self._uniform(i * self.shape[1] + j))
        if j > i or j >= self.samples:
            return lambda _: Enclosure.point(0)
        at = i * (i + 1) // 2 + j
        return _normal(self._uniform(at)) if j < i else _chi(self.seed, f"{self.label}/{at}", self.samples - i)

    def enclosures(self, precision: int) -> list[list[Enclosure]]:
        """All numbers."""
        rows, columns = self.shape
        return [[self.number(i, j)(precision) for j in range(columns)] for i in range(rows)]
