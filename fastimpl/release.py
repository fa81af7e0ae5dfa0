"""What is released: mean + c L z, or (1/N) L A A^T L^T, rounded to float64 once, from its true value.

Everything is a ball that can be had sharper: the moments from slices of the rows, or else from integers; L by elimination; the
normals from their digits. An entry is known when both ends of its ball round to the same float64. So a release is a fixed
function of the real number that the theorems speak of, and has no low bits of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import count
from typing import NamedTuple

import numpy as np
from flint import arb, ctx

from fastimpl.exact import QuadraticForm, semidefinite_factor
from fastimpl.normals import Ball, RealNormals, ends, exact_ball
from fastimpl.rows import Floats
from fastimpl.sums import cholesky

__all__ = ["Balls", "Normals", "Spread", "exact_root", "gaussian_draw", "rounded", "wishart_draw"]

_BITS = 128
_LAST_ATTEMPT = 8  # 2^15 bits: only a tie between two floats is not known by then

Balls = list[list[Ball]]
Normals = RealNormals | Floats


class Spread(NamedTuple):
    """Mean and lower Cholesky factor of a covariance, each as a function of the attempt: the later, the sharper.

    Attributes
    ----------
    mean
        D balls.
    root
        D x d balls; None where an attempt cannot tell.
    """

    mean: Callable[[int], list[Ball]]
    root: Callable[[int], Balls | None]


def precision(attempt: int) -> int:
    """Bits that an attempt works with."""
    return _BITS << attempt


def gaussian_draw(spread: Spread, noise_scale: Fraction, normals: Normals) -> Floats:
    """Mean + c L z."""

    def entries(attempt: int) -> Balls | None:
        root = spread.root(attempt)
        if root is None:
            return None
        (z,), mean, c = _balls(normals, attempt), spread.mean(attempt), exact_ball(noise_scale)
        return [[m + c * _dot(row, z) for m, row in zip(mean, root, strict=True)]]

    (draw,) = rounded(entries)
    return np.asarray(draw)


def wishart_draw(spread: Spread, samples: int, factor: Normals) -> Floats:
    """(L A)(L A)^T/N, symmetric bit for bit."""

    def entries(attempt: int) -> Balls | None:
        root = spread.root(attempt)
        if root is None:
            return None
        columns = list(zip(*_balls(factor, attempt), strict=True))
        draw = [[_dot(row, column) for column in columns] for row in root]
        return [[_dot(a, b) / samples for b in draw[: i + 1]] for i, a in enumerate(draw)]

    lower = rounded(entries)
    return np.asarray(lower + np.tril(lower, -1).T)


def _balls(normals: Normals, attempt: int) -> Balls:
    if isinstance(normals, RealNormals):
        return normals.balls(precision(attempt))
    return [[exact_ball(value) for value in row] for row in np.atleast_2d(normals).tolist()]


def _dot(a: Sequence[Ball], b: Sequence[Ball]) -> Ball:
    """The sum of products, as far as the shorter of the two goes."""
    return sum(map(operator.mul, a, b), arb(0))


def rounded(entries: Callable[[int], Balls | None]) -> Floats:
    """The nearest float64 to each entry, from the first attempt that tells them all. Rows may be of different lengths."""
    for attempt in count():
        with ctx.workprec(precision(attempt)):
            balls = entries(attempt)
        if balls is None:
            continue
        pairs = [[tuple(map(_to_float, ends(ball))) for ball in row] for row in balls]
        if attempt == _LAST_ATTEMPT or all(low == high for row in pairs for low, high in row):
            result = np.zeros((len(pairs), max(map(len, pairs), default=0)))
            for i, row in enumerate(pairs):
                result[i, : len(row)] = [low for low, _ in row]
            return result + 0.0  # zero has no sign
    raise AssertionError("the attempts do not end")


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def exact_root(form: QuadraticForm, scale: Fraction) -> Balls | None:
    """L with L L^T = G/scale for a positive semidefinite G, in the precision of the context."""
    d = form.width
    powers = [arb(2) ** (int(form.unit[j]) - form.exponent // 2) for j in range(d)]
    divisor = exact_ball(scale)
    if form.is_singular:
        numerators, diagonal = semidefinite_factor(form)
        pivots = [(arb(pivot) * divisor).sqrt() for pivot in diagonal]
        lower = [[arb(numerators[j][ell]) / pivots[ell] for ell in range(j + 1)] for j in range(d)]
    else:
        found = cholesky([[arb(form.matrix[i, j]) / divisor for j in range(i + 1)] for i in range(d)])
        if found is None:
            return None
        lower = found
    return [[power * entry for entry in row] for power, row in zip(powers, lower, strict=True)]
