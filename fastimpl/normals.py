"""Standard normals as real numbers: balls, as sharp as asked for, of what streams of random digits stand for.

refimpl's numbers bit for bit, computed on their own: U is read from a stream of digits of its own, z = Phi^-1(U).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

from fastimpl.rows import Floats

__all__ = ["Ball", "RealNormals", "ends", "exact_ball", "stream"]

_LEADING = 53  # digits that the floats are made of
_SPARE = 80  # more digits are read of U than are wanted of z
_FIRST_BITS = 64
_NEAR = 128  # bits of what becomes a float

Ball = arb
"""A real number up to a radius (Arb)."""


def stream(seed: bytes, label: str, length: int) -> bytes:
    """The first bytes of the stream of one label; streams of different labels share nothing."""
    return hashlib.shake_256(b"bhs23/" + label.encode() + b"/" + seed).digest(length)


def exact_ball(number: float | Fraction) -> Ball:
    """A rational as a ball: of radius 0 for integers and floats."""
    if isinstance(number, Fraction):
        return arb(number.numerator) / number.denominator
    return arb(number)


def ends(ball: Ball) -> tuple[Fraction, Fraction]:
    """The least and the largest number of a ball."""
    middle, radius = (_dyadic(part) for part in (ball.mid(), ball.rad()))
    return middle - radius, middle + radius


def _dyadic(point: Ball) -> Fraction:
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def _uniform(seed: bytes, label: str, bits: int, first: int = 0, known: int = 0) -> Ball:
    """U in the cell of its first ``bits`` digits, ``known`` of which are those of ``first``. Neither 0 nor 1 is in it."""
    while True:
        rest = bits - known
        length = -(-rest // 8)
        digits = int.from_bytes(stream(seed, label, length), "big") >> (8 * length - rest)
        cell = (first << rest) | digits
        if 0 < cell < (1 << bits) - 1:
            return (arb(2 * cell + 1, 1)) * arb(2) ** -(bits + 1)
        bits *= 2


def _quantile(uniform: Ball) -> Ball:
    return -arb(2).sqrt() * (2 * uniform).erfcinv()


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
        from N on are zero: then A is d x N lower trapezoidal, as the law of fewer than d draws wants.
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

    @cached_property
    def floats(self) -> Floats:
        """The numbers in float64, near their true values."""
        near = np.asarray(ndtri((self._words.astype(np.float64) + 0.5) / 2.0**_LEADING), dtype=np.float64)
        if self.samples is None:
            return near.reshape(self.shape)
        d = self.shape[0]
        factor = np.zeros(self.shape)
        factor[np.tril_indices(d)] = near
        with ctx.workprec(_NEAR + 2 * _SPARE):
            for i in range(min(d, self.samples)):
                factor[i, i] = float(ends(self._chi(i, _NEAR))[0])
        factor[:, self.samples :] = 0.0
        return factor

    def balls(self, bits: int) -> list[list[Ball]]:
        """All numbers, to about so many bits."""
        rows, columns = self.shape
        with ctx.workprec(bits + 2 * _SPARE):
            if self.samples is None:
                return [[self._normal(i * columns + j, bits) for j in range(columns)] for i in range(rows)]
            return [[self._factor(i, j, bits) for j in range(columns)] for i in range(rows)]

    def _factor(self, i: int, j: int, bits: int) -> Ball:
        if j > i or j >= (self.samples or 0):
            return arb(0)
        return self._normal(i * (i + 1) // 2 + j, bits) if j < i else self._chi(i, bits)

    def _normal(self, at: int, bits: int) -> Ball:
        return _quantile(_uniform(self.seed, f"{self.label}/{at}", bits + _SPARE, int(self._words[at]), _LEADING))

    def _chi(self, i: int, bits: int) -> Ball:
        """The root of a chi-squared number with N - i degrees of freedom.

        Half of its square is a gamma number by the rejection of Marsaglia and Tsang (2000): with D = (N - i)/2 - 1/3, a normal
        z and v = (1 + z/sqrt(9 D))^3, D v is kept if v > 0 and log U < z^2/2 + D (1 - v + log v). One degree of freedom is
        below the reach of that, and is |z|.
        """
        degrees, label = (self.samples or 0) - i, f"{self.label}/{i * (i + 3) // 2}"
        if degrees == 1:
            return abs(_quantile(_uniform(self.seed, label, bits + _SPARE)))
        size = exact_ball(Fraction(degrees, 2) - Fraction(1, 3))
        attempt = next(a for a in count() if _is_kept(self.seed, f"{label}/{a}", degrees))
        return (_root(_proposal(self.seed, f"{label}/{attempt}", bits), size) ** 3 * (2 * size)).sqrt()


def _proposal(seed: bytes, label: str, bits: int) -> Ball:
    return _quantile(_uniform(seed, f"{label}/normal", bits + _SPARE))


def _root(z: Ball, size: Ball) -> Ball:
    return 1 + z / (9 * size).sqrt()


def _is_kept(seed: bytes, label: str, degrees: int) -> bool:
    bits = _FIRST_BITS
    while True:
        with ctx.workprec(bits + 2 * _SPARE):
            size = exact_ball(Fraction(degrees, 2) - Fraction(1, 3))
            z = _proposal(seed, label, bits)
            root = _root(z, size)
            if root < 0:
                return False
            if root > 0:
                logarithm = _uniform(seed, f"{label}/uniform", bits + _SPARE).log()
                bound = z**2 / 2 + size * (1 - root**3 + 3 * root.log())
                if logarithm < bound or logarithm > bound:
                    return bool(logarithm < bound)
        bits *= 2
