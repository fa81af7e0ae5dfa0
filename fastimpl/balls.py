"""Forms v^T G^-1 v between bounds of many more digits than floats have: ball arithmetic (Arb), which counts every rounding.

Where vectors leave one after the other, some of them always so close to the threshold that no float tells, an exact inverse
for each of the sets that are left takes most of the time: its integers have ten times the digits of G. Numbers of 512 bits
tell of nearly all what integers would; these are asked about the rest, where a form is the threshold itself.

*Source.* Johansson, Arb: efficient arbitrary-precision midpoint-radius interval arithmetic (2017).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from flint import arb, arb_mat, ctx, fmpz, fmpz_mat

from fastimpl.limits import Ratio

__all__ = ["BallForm", "at_most", "below"]

_BITS = 512


class BallForm:
    """V -> v^T G^-1 v for an integer matrix G, positive definite, and integer vectors v; enclosed.

    *Statement.* Arb's operations enclose the exact results for all numbers in their balls. The inverse of G - g g^T is N +
    u u^T/(1 - g^T u) for N = G^-1, u = N g (Sherman, Morrison), whatever the order of operations.
    """

    def __init__(self, inverse: arb_mat) -> None:
        self._inverse = inverse

    @classmethod
    def of(cls, matrix: fmpz_mat) -> BallForm | None:
        """None if balls do not show that the matrix is regular."""
        with ctx.workprec(_BITS):
            try:
                return cls(arb_mat(matrix).inv())
            except ZeroDivisionError:
                return None

    def without(self, row: Sequence[int]) -> BallForm | None:
        """The form of G - g g^T; None if balls do not show that it is positive definite."""
        with ctx.workprec(_BITS):
            image = self._inverse * arb_mat(fmpz_mat(len(row), 1, row))
            rest = 1 - (fmpz_mat(1, len(row), row) * image)[0, 0]
            return BallForm(self._inverse + image * (image.transpose() * (1 / rest))) if rest > 0 else None

    def values(self, rows: Sequence[Sequence[int]]) -> list[arb]:
        """V^T G^-1 v for integer vectors v."""
        with ctx.workprec(_BITS):
            images = (fmpz_mat(rows) * self._inverse).tolist()
            return [sum(map(operator.mul, *pair), arb(0)) for pair in zip(images, rows, strict=True)]


def below(forms: Sequence[arb], threshold: Ratio) -> list[arb]:
    """How far forms are below a threshold: negative above it."""
    with ctx.workprec(_BITS):
        bar = arb(fmpz(threshold.numerator)) / arb(fmpz(threshold.denominator))
        return [bar - form for form in forms]


def at_most(ball: arb) -> float:
    """A float that is at most every number of a ball; of one that is not known, -infinity."""
    lower = float(ball.lower())
    return -math.inf if math.isnan(lower) else math.nextafter(lower, -math.inf)
