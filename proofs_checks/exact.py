"""Exact quantities that the checks compare: weights and covariances from integer sets, and trace norms.

Whatever a target returns in floats, its sets and counts are integers, and so the weights, covariances and means that the
lemmas speak of are rational functions of the case: they are computed here exactly, by refimpl's linear algebra.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from flint import acb, arb, ctx, fmpq_mat, fmpz_poly

from proofs_checks.datasets import Matrix
from refimpl.linalg import inverse_or_none, is_positive_semidefinite, second_moment, to_fmpq, to_fraction
from refimpl.reals import UndecidedError

__all__ = ["exact_rows", "float_fractions", "least_order_gamma", "trace_norm_at_most", "weighted_second_moment"]

PARTS = 1 << 24  # a least gamma is found to this part of what is allowed


def exact_rows(rows: Matrix) -> fmpq_mat:
    """Rows of a case as an exact matrix."""
    return fmpq_mat([[to_fmpq(v) for v in row] for row in rows])


def weighted_second_moment(rows: Matrix, weights: Sequence[Fraction]) -> fmpq_mat:
    """Sum w_i y_i y_i^T, exactly."""
    return second_moment(exact_rows(rows), weights)


def float_fractions(values: object) -> list[Fraction]:
    """The numbers of a vector that a target returned, floats as the dyadic rationals that they are."""
    return [v if isinstance(v, Fraction) else Fraction(float(v)) for v in values]  # type: ignore[attr-defined]  # any iterable of numbers


def least_order_gamma(one: fmpq_mat, two: fmpq_mat, allowed: Fraction) -> Fraction:
    """The least gamma with (1-gamma) one <= two and (1-gamma) two <= one, rounded up to a part of what is allowed.

    It is at most ``allowed`` exactly where the order holds for ``allowed``: that is decided by exact L D L^T, as is every step
    of the bisection. The matrices are positive semidefinite, so that gamma = 1 will always do.

    Parameters
    ----------
    one, two
        Symmetric positive semidefinite matrices of one size.
    allowed
        In [0, 1]: the grid is ``allowed``/2^24, or 1/2^24 where nothing is allowed.
    """

    def is_enough(gamma: Fraction) -> bool:
        keep = to_fmpq(1 - gamma)
        return all(is_positive_semidefinite(b - a * keep) for a, b in ((one, two), (two, one)))

    if one == two:
        return Fraction(0)
    grid = (allowed or Fraction(1)) / PARTS
    low, high = (0, PARTS) if is_enough(allowed) else (PARTS if allowed else 0, math.ceil(1 / grid))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle * grid) else (middle, high)
    return min(high * grid, Fraction(1))


def _ends(value: arb) -> tuple[Fraction, Fraction]:
    def exact(end: arb) -> Fraction:
        mantissa, exponent = end.man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

    return exact(value.lower()), exact(value.upper())


def largest_fraction(value: arb) -> Fraction:
    """The upper end of a ball."""
    return _ends(value)[1]


def smallest_fraction(value: arb) -> Fraction:
    """The lower end of a ball."""
    return _ends(value)[0]


def trace_norm_at_most(sigma_1: fmpq_mat, sigma_2: fmpq_mat, bound: Fraction) -> tuple[bool, float]:
    """Whether |Sigma_1^{-1/2} Sigma_2 Sigma_1^{-1/2} - I|_tr <= bound, decided, and the norm to double precision.

    The eigenvalues are those of Sigma_1^{-1} (Sigma_2 - Sigma_1). Where the change is semidefinite their absolute values sum to
    the trace, exactly; otherwise the roots of the rational characteristic polynomial are enclosed, at rising precision.
    """
    inverse = inverse_or_none(sigma_1)
    if inverse is None:
        return False, float("inf")
    change = sigma_2 - sigma_1
    relative = inverse * change
    d = relative.nrows()
    trace = sum((to_fraction(relative[i, i]) for i in range(d)), Fraction(0))
    if is_positive_semidefinite(change) or is_positive_semidefinite(change * to_fmpq(-1)):
        return abs(trace) <= bound, float(abs(trace))
    polynomial = relative.charpoly()
    numerator = fmpz_poly([int(c) for c in (polynomial * polynomial.denom()).numer().coeffs()])
    before = ctx.prec
    try:
        for precision in (64, 256, 1024, 4096):
            ctx.prec = precision
            lower, upper = _sum_of_moduli(numerator)
            if upper <= bound or lower > bound:
                return upper <= bound, float((lower + upper) / 2)
    finally:
        ctx.prec = before
    raise UndecidedError("a trace norm is undecided at 4096 bits")


def _sum_of_moduli(polynomial: fmpz_poly) -> tuple[Fraction, Fraction]:
    return _sum_over_roots(polynomial, abs)


def _sum_over_roots(polynomial: fmpz_poly, part: Callable[[arb], arb]) -> tuple[Fraction, Fraction]:
    lower = upper = Fraction(0)
    roots: Any = polynomial.complex_roots()  # python-flint's stub gives the elements of the pairs, not the pairs
    for root, multiplicity in roots:
        low, high = _ends(part(acb(root).real))
        lower, upper = lower + low * multiplicity, upper + high * multiplicity
    return lower, upper


def positive_trace(sigma_1: fmpq_mat, sigma_2: fmpq_mat) -> tuple[Fraction, Fraction]:
    """tr_+ (I - Sigma_1^{-1/2} Sigma_2 Sigma_1^{-1/2}), the sum of the positive eigenvalues: a point where it is rational.

    Sigma_1 must be nonsingular. The enclosure is of width about 1e-70.
    """
    loss = sigma_1 - sigma_2
    if is_positive_semidefinite(loss * to_fmpq(-1)):
        return Fraction(0), Fraction(0)
    relative = sigma_1.inv() * loss
    trace = sum((to_fraction(relative[i, i]) for i in range(relative.nrows())), Fraction(0))
    if is_positive_semidefinite(loss):
        return trace, trace
    polynomial = relative.charpoly()
    numerator = fmpz_poly([int(c) for c in (polynomial * polynomial.denom()).numer().coeffs()])
    with ctx.workprec(256):
        return _sum_over_roots(numerator, lambda root: root.max(arb(0)))
