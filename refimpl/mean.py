"""LargestCore and StableMean, section 4 of the paper, line by line in exact arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

from flint import fmpq_mat

from refimpl.covariance import entry_levels, score_of
from refimpl.linalg import (
    SquaredDistances,
    differences,
    exact_matrix,
    inverse_or_none,
    is_positive_semidefinite,
    second_moment,
    squared_distances,
    weighted_mean,
)
from refimpl.parameters import (
    REPAIRED,
    Edition,
    Real,
    as_integer,
    as_rational,
    checked_edition,
    checked_reference,
    ordered_stability_gamma,
)
from refimpl.results import StableCovarianceResult, StableMeanResult

__all__ = ["exact_covariance", "largest_core", "stable_mean"]

Covariance = StableCovarianceResult | object


def largest_core(x: object, covariance: Covariance, lam: Real, tau: int, reference: Sequence[int]) -> frozenset[int]:
    """LargestCore: the rows that have at least tau reference rows within squared distance 2 lam.

    Pseudocode::

        input: x_1, ..., x_n in R^d; covariance Sigma; outlier threshold lam; degree threshold tau; R subset of [n]
        1  for i in [n]:
        2      N_i <- { j in R : |x_i - x_j|_Sigma^2 <= 2 lam }
        3  return { i in [n] : |N_i| >= tau }

    Parameters
    ----------
    x
        n x d rows.
    covariance
        A :class:`StableCovarianceResult` of x, meaning its exact matrix, or a d x d positive semidefinite matrix.
    lam, tau
        Outlier threshold (positive) and degree threshold. A tau of zero or less takes every row in.
    reference
        Distinct indices in 0..n-1.

    Returns
    -------
    frozenset of int
        Row indices, 0-based. In a singular covariance no distance is finite, not even zero's.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Algorithm LargestCore, Definition 35, Remark 36.
    """
    rows, threshold = exact_matrix("x", x), as_rational("lam", lam)
    degree = as_integer("tau", tau)
    if threshold <= 0:
        raise ValueError(f"lam must be positive, got {lam}")
    indices = checked_reference(reference, rows.nrows())
    inverse = inverse_or_none(exact_covariance(rows, covariance))
    if inverse is None:
        return frozenset(range(rows.nrows())) if degree <= 0 else frozenset()
    return _largest_core(squared_distances(rows, inverse, indices), threshold, degree)


def _largest_core(distances: SquaredDistances, lam: Fraction, tau: int) -> frozenset[int]:
    limit = distances.within(2 * lam)
    degrees = [bisect_right(row, limit) for row in distances.numerators]  # line 1  # line 2
    return frozenset(i for i, degree in enumerate(degrees) if degree >= tau)  # line 3


def stable_mean(
    x: object,
    covariance: Covariance,
    lambda_0: Real,
    k: int,
    reference: Sequence[int],
    *,
    edition: Edition = REPAIRED,
) -> StableMeanResult:
    """StableMean: the nonprivate mean estimate that hardly moves when one row is replaced.

    Pseudocode::

        input: x_1, ..., x_n in R^d; covariance Sigma; threshold lambda_0; discretization parameter k; R subset of [n]
        1  for ell = 0, 1, ..., 2k:
        2      S_ell <- LargestCore(x, Sigma, Lambda_ell, |R| - ell, R)
        3  SCORE <- min{ k, min_{0 <= ell <= k} { n - |S_ell| + ell } }
        4  for i = 1, ..., n:
        5      c_i <- sum_{ell=k+1}^{2k} 1{ i in S_ell }
        6  Z <- sum_i c_i
        7  for all i: w_i <- c_i / Z   (0 if Z = 0)
        8  mu <- sum_i w_i x_i
        9  return mu, SCORE

    A singular covariance, which the pseudocode leaves open, means SCORE = k and no core.

    Parameters
    ----------
    x
        n x d rows, n >= 2 and n > (50/9) lambda_0, so that Lambda_ell is defined.
    covariance
        A :class:`StableCovarianceResult` of the same x, meaning its exact matrix, or a d x d positive semidefinite matrix.
    lambda_0, k
        Outlier threshold (positive) and discretization parameter (at least 1).
    reference
        Distinct indices in 0..n-1.
    edition
        Owns thresholds, score rule and windows.

    Returns
    -------
    StableMeanResult
        With exact Fractions and the cores of every level.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Algorithm StableMean, Eq. (67), Definition 41.
    """
    rows, lam, k = exact_matrix("x", x), as_rational("lambda_0", lambda_0), as_integer("k", k, 1)
    n = rows.nrows()
    checked_edition(edition)
    if n < 2:
        raise ValueError("x must have at least two rows")
    if lam <= 0 or ordered_stability_gamma(lam, n) >= 1:
        raise ValueError(f"lambda_0 must be positive and below 9n/50 for n = {n} rows, got {lambda_0}")
    indices = checked_reference(reference, n)
    inverse = inverse_or_none(exact_covariance(rows, covariance, k, edition))
    levels = range(edition.last_level(k, None) + 1)
    if inverse is None:
        return _singular(n, rows.ncols(), k, len(levels))
    distances = squared_distances(rows, inverse, indices)  # departs from line 2: once for all levels
    cores = []
    for ell in levels:  # line 1
        threshold = edition.distance_threshold(lam, k, n, ell)
        cores.append(_largest_core(distances, threshold, len(indices) - edition.degree_allowance(ell)))  # line 2
    score = score_of(cores, n, k, edition)  # line 3
    counts = [sum(i in cores[ell] for ell in edition.weight_levels(k, None)) for i in range(n)]  # line 4  # line 5
    total = sum(counts)  # line 6
    weights = tuple(Fraction(c, total) if total else Fraction(0) for c in counts)  # line 7
    mean = weighted_mean(rows, weights)  # line 8
    return StableMeanResult(mean, score, weights, entry_levels(cores, n), tuple(cores))  # line 9


def _singular(n: int, d: int, k: int, levels: int) -> StableMeanResult:
    nothing = (Fraction(0),)
    return StableMeanResult(nothing * d, k, nothing * n, (levels,) * n, (frozenset(),) * levels)


def exact_covariance(
    x: fmpq_mat, covariance: Covariance, k: int | None = None, edition: Edition = REPAIRED
) -> fmpq_mat:
    """The exact matrix that a covariance argument stands for.

    A result of refimpl holds it. A result of another implementation holds its rounding, so the matrix is computed anew
    from its integer entry levels and x: (1/(2km)) sum c_i (x_i - x_{i+m})(x_i - x_{i+m})^T.
    """
    d = x.ncols()
    if isinstance(covariance, StableCovarianceResult):
        if len(covariance.entry_level) != x.nrows() // 2:
            raise ValueError(
                f"covariance must be of the {x.nrows() // 2} pairs of x, got {len(covariance.entry_level)}"
            )
        if isinstance(covariance.covariance, fmpq_mat):
            matrix = covariance.covariance
        elif k is None:
            raise TypeError("covariance must be an exact matrix here: its levels need k")
        else:
            matrix = _from_levels(x, [int(level) for level in covariance.entry_level], k, edition)
    else:
        matrix = exact_matrix("covariance", covariance)
    if (matrix.nrows(), matrix.ncols()) != (d, d):
        raise ValueError(f"covariance must be {d} x {d}, got {matrix.nrows()} x {matrix.ncols()}")
    if matrix != matrix.transpose() or not is_positive_semidefinite(matrix):
        raise ValueError("covariance must be symmetric and positive semidefinite")
    return matrix


def _from_levels(x: fmpq_mat, entry_level: list[int], k: int, edition: Edition) -> fmpq_mat:
    levels = edition.weight_levels(k, None)
    counts = [sum(level <= ell for ell in levels) for level in entry_level]
    weights = [Fraction(c, 2 * len(levels) * len(counts)) for c in counts]
    return second_moment(differences(x), weights)
