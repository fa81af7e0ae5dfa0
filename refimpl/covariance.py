"""LargestGoodSubset and StableCovariance, section 3 of the paper, line by line in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from flint import fmpq, fmpq_mat

from refimpl.linalg import (
    differences,
    exact_matrix,
    inverse_or_none,
    mahalanobis_squared,
    rows_of,
    second_moment,
    to_fmpq,
)
from refimpl.parameters import REPAIRED, Edition, Real, as_integer, as_rational, checked_edition, checked_window
from refimpl.results import StableCovarianceResult

__all__ = ["entry_levels", "largest_good_subset", "score_of", "stable_covariance", "stable_second_moment"]


def largest_good_subset(y: object, lam: Real) -> frozenset[int]:
    """LargestGoodSubset: the unique largest lam-good subset of the rows y, or the empty set if there is none.

    Pseudocode::

        input: y_1, ..., y_m in R^d; outlier threshold lam
        1  S <- [m]
        2  repeat
        3      OUT <- { i in S : |((1/m) sum_{j in S} y_j y_j^T)^{-1/2} y_i|^2 > lam }
        4      S <- S minus OUT
        5  until OUT is empty
        6  return S

    The norm of every vector in a singular matrix is infinite. A norm equal to lam stays in. The average divides by m,
    the number of rows, and not by |S|.

    Parameters
    ----------
    y
        m x d rows, m >= 1.
    lam
        Threshold, positive, in squared Mahalanobis units.

    Returns
    -------
    frozenset of int
        Row indices, 0-based.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or threshold, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Algorithm LargestGoodSubset, Definition 23, Lemma 27.
    """
    rows, threshold = _rows("y", y), to_fmpq(_positive("lam", lam))
    return _largest_good_subset(_norms_of(rows), rows.nrows(), threshold)


Norms = Callable[[tuple[int, ...]], dict[int, fmpq] | None]
"""The squared norms of the rows of a set in the set's own second moment, or None where that is singular."""


def _norms_of(rows: fmpq_mat) -> Norms:
    """The norms, each set's computed once: many levels meet the same few sets."""
    m = rows.nrows()

    @cache
    def norms(subset: tuple[int, ...]) -> dict[int, fmpq] | None:
        members = rows_of(rows, subset)
        inverse = inverse_or_none(second_moment(members, [Fraction(1, m)] * len(subset)))
        return None if inverse is None else dict(zip(subset, mahalanobis_squared(members, inverse), strict=True))

    return norms


def _largest_good_subset(norms: Norms, m: int, threshold: fmpq) -> frozenset[int]:
    subset = tuple(range(m))  # line 1
    while True:  # line 2
        values = norms(subset)
        # A singular second moment makes every norm infinite.
        out = {i for i in subset if values is None or values[i] > threshold}  # line 3
        subset = tuple(i for i in subset if i not in out)  # line 4
        if not out:  # line 5
            return frozenset(subset)  # line 6


def stable_second_moment(
    y: object, lambda_0: Real, k: int, *, edition: Edition = REPAIRED, window: int | None = None
) -> StableCovarianceResult:
    """StableCovariance for rows that are given directly, known to be centred: no pairing.

    Pseudocode::

        input: y_1, ..., y_m in R^d; outlier threshold lambda_0; discretization parameter k
        1  for ell = 0, 1, ..., 2k:
        2      S_ell <- LargestGoodSubset(y, lambda_ell)
        3  SCORE <- min{ k, min_{0 <= ell <= k} { m - |S_ell| + ell } }
        4  for i = 1, ..., m:
        5      w_i <- (1/(km)) sum_{ell=k+1}^{2k} 1{ i in S_ell }
        6  Sigma <- sum_i w_i y_i y_i^T
        7  return Sigma, SCORE

    Parameters
    ----------
    y
        m x d rows, m >= 1.
    lambda_0
        Outlier threshold, positive.
    k
        Discretization parameter, at least 1.
    edition
        Owns thresholds, score rule and windows.
    window
        Length of the weight window, 1 to 9k - 1; None is the paper's k. SHARP has no window of its own: it wants one with
        m > (k + window - 1) lambda_0.

    Returns
    -------
    StableCovarianceResult
        With an exact ``fmpq_mat``, a tuple of Fraction weights and the sets of every level, each computed on its own.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Algorithm StableCovariance, Eq. (49), Definition 30.
    """
    rows, lam, k = _rows("y", y), _positive("lambda_0", lambda_0), as_integer("k", k, 1)
    m = rows.nrows()
    window = checked_window(window, k, checked_edition(edition), lam, m)
    thresholds = [
        edition.outlier_threshold(lam, k, m, ell) for ell in range(edition.last_level(k, window) + 1)
    ]  # line 1
    norms = _norms_of(rows)
    subsets = [_largest_good_subset(norms, m, to_fmpq(threshold)) for threshold in thresholds]  # line 2
    score = score_of(subsets, m, k, edition, window)  # line 3
    levels = edition.weight_levels(k, window)
    weights = tuple(  # line 4
        Fraction(sum(i in subsets[ell] for ell in levels), len(levels) * m)  # line 5
        for i in range(m)
    )
    covariance = second_moment(rows, weights)  # line 6
    return StableCovarianceResult(covariance, score, weights, entry_levels(subsets, m), tuple(subsets))  # line 7


def stable_covariance(x: object, lambda_0: Real, k: int, *, edition: Edition = REPAIRED) -> StableCovarianceResult:
    """StableCovariance: the nonprivate covariance estimate that hardly moves when one row is replaced.

    Pseudocode::

        input: x_1, ..., x_n in R^d; outlier threshold lambda_0; discretization parameter k
        1  m <- floor(n/2)
        2  for all i in [m]: y_i <- (1/sqrt 2)(x_i - x_{i+m})
        3  Sigma, SCORE <- the levels, score and weights of y (stable_second_moment, lines 1 to 7)
        4  return Sigma, SCORE

    The factor 1/sqrt 2 is irrational but leaves every norm as it is, since y enters only through y y^T and y^T S^-1 y: the
    differences are kept instead, and the covariance is halved at the end.

    Parameters
    ----------
    x
        n x d rows, n >= 2. Row n is ignored where n is odd.
    lambda_0, k, edition
        As in :func:`stable_second_moment`.

    Returns
    -------
    StableCovarianceResult
        Its weights and sets are those of the m paired rows.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Algorithm StableCovariance, Lemma 11.
    """
    rows = exact_matrix("x", x)
    if rows.nrows() < 2:
        raise ValueError("x must have at least two rows")
    y = differences(rows)  # line 1  # departs from line 2: without the factor 1/sqrt 2, which no norm sees
    result = stable_second_moment(y, lambda_0, k, edition=edition)  # line 3
    halved = result.covariance * to_fmpq(Fraction(1, 2))
    return StableCovarianceResult(  # line 4
        halved, result.score, result.weights, result.entry_level, result.good_subsets
    )


def score_of(sets: Sequence[frozenset[int]], rows: int, k: int, edition: Edition, window: int | None = None) -> int:
    """SCORE = min(k, min over the score levels of (rows missing from the set of level ell) + ell), Definitions 30 and 41."""
    levels = edition.score_levels(k, window)
    return min(k, *(edition.level_score(rows - len(sets[ell]), ell) for ell in levels))


def entry_levels(sets: Sequence[frozenset[int]], rows: int) -> tuple[int, ...]:
    """For each row the least level whose set holds it, or the number of levels if none does."""
    return tuple(next((ell for ell, s in enumerate(sets) if i in s), len(sets)) for i in range(rows))


def _rows(name: str, data: object) -> fmpq_mat:
    rows = exact_matrix(name, data)
    if rows.nrows() < 1:
        raise ValueError(f"{name} must have at least one row")
    return rows


def _positive(name: str, value: Real) -> Fraction:
    number = as_rational(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return number
