"""Exact quantities that the checks compare: weights and covariances from integer sets, and trace norms.

Whatever a target returns in floats, its sets and counts are integers, and so the weights, covariances and means that the
lemmas speak of are rational functions of the case: they are computed here exactly, by refimpl's linear algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import acb, arb, ctx, fmpq_mat, fmpz_poly

from proofs_checks.datasets import Matrix
from refimpl.linalg import inverse_or_none, is_positive_semidefinite, second_moment, to_fmpq, to_fraction
from refimpl.reals import UndecidedError

__all__ = ["exact_rows", "float_fractions", "trace_norm_at_most", "weighted_second_moment"]


def exact_rows(rows: Matrix) -> fmpq_mat:
    """Rows of a case as an exact matrix."""
    return fmpq_mat([[to_fmpq(v) for v in row] for row in rows])


def weighted_second_moment(rows: Matrix, weights: Sequence[Fraction]) -> fmpq_mat:
    """Sum w_i y_i y_i^T, exactly."""
    return second_moment(exact_rows(rows), weights)


def float_fractions(values: object) -> list[Fraction]:
    """The numbers of a vector that a target returned, floats as the dyadic rationals that they are."""
    return [v if isinstance(v, Fraction) else Fraction(float(v)) for v in values]  # type: ignore[attr-defined]  # any iterable of numbers


def _ends(value: arb) -> tuple[Fraction, Fraction]:
    def exact(end: arb) -> Fraction:
        mantissa, exponent = end.man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

    return exact(value.lower()), exact(value.upper())


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
    lower = upper = Fraction(0)
    roots: Any = polynomial.complex_roots()  # python-flint's stub gives the elements of the pairs, not the pairs
    for root, multiplicity in roots:
        low, high = _ends(abs(acb(root).real))
        lower, upper = lower + low * multiplicity, upper + high * multiplicity
    return lower, upper
