"""Thresholds of all levels: float64 numbers on both sides of each, and the exact number when a comparison asks for it.

An exact power (1 - gamma)^-ell has thousands of digits, and next to no comparison needs them. The rules of the named editions
are known to be of two kinds, so their float sides come from their first terms; any other rule is computed level by level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple, overload

import numpy as np

from fastimpl.rows import Floats
from refimpl.parameters import PRINTED, REPAIRED, SHARP, Edition

__all__ = ["Ratio", "Thresholds", "distance_limits", "enclose", "outlier_limits", "thresholds"]

_EXACT_FLOATS = 1 << 53
_STRIDE = 32
_BITS = 128  # of the mantissas of a geometric sequence

Rule = Callable[[int], Fraction]
"""Level -> exact threshold."""


class Ratio(NamedTuple):
    """A rational number, perhaps not in lowest terms; the denominator is positive."""

    numerator: int
    denominator: int


class Thresholds(NamedTuple):
    """Exact nondecreasing thresholds and float64 numbers just below (or at) and just above (or at) them."""

    exact: Sequence[Ratio]
    below: Floats
    above: Floats


class _OnDemand(Sequence[Ratio]):
    """A rule times a factor, level by level, when asked. Not reduced: that would take most of the time."""

    def __init__(self, count: int, rule: Rule, factor: Fraction) -> None:
        self._count, self._rule, self._factor = count, rule, factor
        self._known: dict[int, Ratio] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, ell: int) -> Ratio: ...

    @overload
    def __getitem__(self, ell: slice) -> Sequence[Ratio]: ...

    def __getitem__(self, ell: int | slice) -> Ratio | Sequence[Ratio]:
        if isinstance(ell, slice):
            return [self[i] for i in range(self._count)[ell]]
        level = range(self._count)[ell]
        if level not in self._known:
            value, factor = self._rule(level), self._factor
            self._known[level] = Ratio(value.numerator * factor.numerator, value.denominator * factor.denominator)
        return self._known[level]


def enclose(numerator: int, denominator: int) -> tuple[float, float]:
    """Float64 numbers on both sides of a nonnegative rational: int/int is correctly rounded, so neighbours enclose it."""
    try:
        nearest = numerator / denominator
    except OverflowError:
        nearest = math.inf
    return max(0.0, math.nextafter(nearest, -math.inf)), math.nextafter(nearest, math.inf)


def thresholds(exact: Sequence[Fraction], factor: Fraction) -> Thresholds:
    """Exact thresholds, times a positive factor, with their float enclosures."""
    ratios = _OnDemand(len(exact), exact.__getitem__, factor)
    return _with_sides(ratios, [enclose(*ratio) for ratio in ratios])


def outlier_limits(edition: Edition, lambda_0: Fraction, k: int, m: int, levels: range, factor: Fraction) -> Thresholds:
    """``factor`` lambda_ell of an edition's covariance stage, for the levels 0, 1, ..., of m rows."""
    rule = partial(edition.outlier_threshold, lambda_0, k, m)
    if edition.outlier_threshold not in _HYPERBOLIC or len(levels) < 3:
        return thresholds([rule(ell) for ell in levels], factor)
    return _with_sides(_OnDemand(len(levels), rule, factor), _hyperbolic_sides(rule, len(levels), factor))


def distance_limits(
    edition: Edition, lambda_0: Fraction, k: int, n: int, levels: range, factor: Fraction
) -> Thresholds:
    """``factor`` Lambda_ell of an edition's mean stage, for the levels 0, 1, ..., of n rows."""
    rule = partial(edition.distance_threshold, lambda_0, k, n)
    if edition.distance_threshold not in _GEOMETRIC or len(levels) < 3:
        return thresholds([rule(ell) for ell in levels], factor)
    first = rule(0)
    sides = _geometric_sides(first * factor, rule(1) / first, len(levels))
    return _with_sides(_OnDemand(len(levels), rule, factor), sides)


_HYPERBOLIC = {edition.outlier_threshold for edition in (PRINTED, REPAIRED, SHARP)}  # 1/lambda_ell is affine in ell
_GEOMETRIC = {edition.distance_threshold for edition in (PRINTED, REPAIRED)}  # Lambda_ell is Lambda_0 r^ell, r > 1


def _with_sides(exact: Sequence[Ratio], sides: Iterable[tuple[float, float]] | Floats) -> Thresholds:
    both = np.array(sides if isinstance(sides, np.ndarray) else list(sides), dtype=np.float64).reshape(-1, 2)
    return Thresholds(exact, both[:, 0].copy(), both[:, 1].copy())


def _hyperbolic_sides(rule: Rule, count: int, factor: Fraction) -> Iterable[tuple[float, float]] | Floats:
    """Sides of a/(b - c ell), with integers a, b, c that the first and the last level tell.

    *Statement.* A quotient of integers up to 2^53 is correctly rounded in float64 (IEEE 754), so its neighbours enclose it.
    """
    first, last = 1 / (rule(0) * factor), 1 / (rule(count - 1) * factor)
    step = (first - last) / (count - 1)
    common = math.lcm(first.denominator, step.denominator)
    b, c = int(first * common), int(step * common)
    if max(common, b) > _EXACT_FLOATS:
        return [enclose(common, b - c * ell) for ell in range(count)]
    nearest = float(common) / (b - c * np.arange(count, dtype=np.float64))
    return np.column_stack([np.nextafter(nearest, 0.0), np.nextafter(nearest, np.inf)])


def _geometric_sides(first: Fraction, ratio: Fraction, count: int) -> Floats:
    """Sides of first ratio^ell, ratio >= 1: from every 32nd term, and from the first 32 powers.

    *Statement.* If 0 <= a_low <= a <= a_high and so for b, the neighbours of fl(a_low b_low) and fl(a_high b_high) enclose a b:
    a float product, subnormal or not, is within one step of the float grid, and one that overflows is above every float.
    """
    anchors = np.array(list(_powers(first, ratio**_STRIDE, -(-count // _STRIDE))))
    powers = np.array(list(_powers(Fraction(1), ratio, _STRIDE)))
    with np.errstate(over="ignore", under="ignore"):
        products = (anchors[:, None, :] * powers[None, :, :]).reshape(-1, 2)[:count]
    return np.column_stack([np.nextafter(products[:, 0], 0.0), np.nextafter(products[:, 1], np.inf)])


def _powers(first: Fraction, ratio: Fraction, count: int) -> Iterator[tuple[float, float]]:
    """Sides of first ratio^i, from products of integers of 128 bits rounded down, and up.

    *Statement.* With low <= x <= high and r_low <= r <= r_high, all positive, floor(low r_low) <= x r <= ceil(high r_high).
    A float nearest to an integer, scaled by a power of two, is within one step of the float grid, subnormal or not.
    """
    (low, down), (high, up) = _mantissa(first, 0), _mantissa(first, 1)
    (low_ratio, low_down), (high_ratio, high_up) = _mantissa(ratio, 0), _mantissa(ratio, 1)
    for _ in range(count):
        yield max(0.0, math.nextafter(_float(low, down), -math.inf)), math.nextafter(_float(high, up), math.inf)
        low, down = _shortened(low * low_ratio, down + low_down, 0)
        high, up = _shortened(high * high_ratio, up + high_up, 1)


def _mantissa(value: Fraction, upwards: int) -> tuple[int, int]:
    """A number a 2^e just below (or above) a positive rational, a of about 128 bits."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - _BITS
    top, bottom = value.numerator << max(0, -exponent), value.denominator << max(0, exponent)
    return top // bottom + upwards, exponent


def _shortened(value: int, exponent: int, upwards: int) -> tuple[int, int]:
    extra = max(0, value.bit_length() - _BITS)
    return (value >> extra) + upwards, exponent + extra


def _float(value: int, exponent: int) -> float:
    try:
        return math.ldexp(float(value), exponent)
    except OverflowError:
        return math.inf
