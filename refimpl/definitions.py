"""The paper's definitions as exact predicates: each ``is_*`` returns whether its arguments satisfy the definition.

None of them is private: they look at data and answer exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction

from flint import fmpq_mat

from refimpl.linalg import (
    differences,
    exact_matrix,
    inverse_or_none,
    mahalanobis_squared,
    rows_of,
    second_moment,
    squared_distances,
    to_fmpq,
)
from refimpl.parameters import REPAIRED, Edition, Real, as_integer, as_rational, checked_reference

__all__ = [
    "is_adjacent",
    "is_degree_representative",
    "is_good_subset",
    "is_good_weighting",
    "is_weighted_core",
    "is_well_concentrated",
]


def is_adjacent(x: object, x_prime: object) -> bool:
    """Definition 2: two data sets of one shape, (n, d), that differ in at most one row.

    Parameters
    ----------
    x, x_prime
        Data sets, rows of exact numbers or floats.

    Returns
    -------
    bool
        False where the shapes differ: rows are replaced, never added or removed.

    Raises
    ------
    TypeError, ValueError
        For what is not a matrix of finite numbers, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definition 2.
    """
    a, b = exact_matrix("x", x), exact_matrix("x_prime", x_prime)
    if (a.nrows(), a.ncols()) != (b.nrows(), b.ncols()):
        return False
    return sum(u != v for u, v in zip(a.tolist(), b.tolist(), strict=True)) <= 1


def _require_weights(weights: Sequence[Fraction], rows: int) -> None:
    if len(weights) != rows:
        raise ValueError(f"weights must be {rows} numbers, one a row, got {len(weights)}")


def is_good_weighting(y: object, weights: Sequence[Fraction], lam: Real) -> bool:
    """Definition 23: every row of positive weight has squared norm at most ``lam`` in its own weighted second moment.

    Parameters
    ----------
    y
        m x d paired rows.
    weights
        m exact numbers in [0, 1].
    lam
        Threshold, in squared Mahalanobis units.

    Returns
    -------
    bool
        False where the weighted second moment is singular, since the definition asks for its inverse.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or number of weights, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definition 23.
    """
    rows, threshold = exact_matrix("y", y), to_fmpq(as_rational("lam", lam))
    _require_weights(weights, rows.nrows())
    if not all(0 <= w <= 1 for w in weights):
        return False
    inverse = inverse_or_none(second_moment(rows, weights))
    if inverse is None:
        return False
    support = [i for i, w in enumerate(weights) if w > 0]
    return all(norm <= threshold for norm in mahalanobis_squared(rows_of(rows, support), inverse))


def is_good_subset(y: object, subset: Iterable[int], lam: Real) -> bool:
    """Definitions 5 and 23: the weights 1/m on ``subset`` and 0 elsewhere are a ``lam``-good weighting of the m rows ``y``.

    Parameters
    ----------
    y
        m x d paired rows.
    subset
        Indices of rows, in 0..m-1.
    lam
        Threshold, in squared Mahalanobis units.

    Returns
    -------
    bool
        False where the second moment of the subset is singular.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definitions 5 and 23.
    """
    rows, members = exact_matrix("y", y), frozenset(subset)
    m = rows.nrows()
    return is_good_weighting(rows, [Fraction(int(i in members), m) for i in range(m)], lam)


def _neighbour_counts(x: fmpq_mat, inverse: fmpq_mat, reference: Sequence[int], bound: Fraction) -> list[int]:
    distances = squared_distances(x, inverse, reference)
    limit = distances.within(bound)
    return [bisect_right(row, limit) for row in distances.numerators]


def is_weighted_core(
    x: object, weights: Sequence[Fraction], tau: Real, lam: Real, covariance: object, reference: Sequence[int]
) -> bool:
    """Definition 35: every row of positive weight has ``tau`` reference rows within squared distance 2 ``lam`` of it.

    Parameters
    ----------
    x
        n x d rows.
    weights
        n exact weights, a distribution over the rows.
    tau, lam
        Degree threshold and outlier threshold.
    covariance
        d x d matrix whose inverse gives the norm; singular means that no distance is finite.
    reference
        Distinct indices in 0..n-1.

    Returns
    -------
    bool
        False where the weights are no distribution.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or number of weights, or indices that are not distinct and in range, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definition 35.
    """
    rows, degree = exact_matrix("x", x), as_rational("tau", tau)
    _require_weights(weights, rows.nrows())
    if sum(weights) != 1 or min(weights) < 0:
        return False
    inverse = inverse_or_none(exact_matrix("covariance", covariance))
    if inverse is None:
        return degree <= 0
    indices = checked_reference(reference, rows.nrows())
    counts = _neighbour_counts(rows, inverse, indices, 2 * as_rational("lam", lam))
    return all(count >= degree for count, w in zip(counts, weights, strict=True) if w > 0)


def is_degree_representative(
    x: object,
    covariance: object,
    lambda_0: Real,
    k: int,
    reference: Sequence[int],
    *,
    edition: Edition = REPAIRED,
) -> bool:
    """Definition 33: for each row, the share of near rows in R is within 1/6 of the share of near rows among all n.

    "Near" is squared distance at most 4 Lambda_2k in PRINTED and 2 Lambda_2k in REPAIRED: only the latter meets the radius
    of Definition 35, which Lemma 38 needs.

    Parameters
    ----------
    x
        n x d rows.
    covariance
        d x d matrix whose inverse gives the norm.
    lambda_0
        Outlier threshold, in squared Mahalanobis units; n must be above (50/9) lambda_0.
    k
        The levels are 0..2k.
    reference
        Distinct indices in 0..n-1.
    edition
        Its distance thresholds, and the factor before Lambda_2k.

    Returns
    -------
    bool
        False where the covariance is singular or R is empty.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape, or indices that are not distinct and in range, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definition 33, Lemma 38.
    """
    rows, n_levels = exact_matrix("x", x), 2 * as_integer("k", k, 1)
    n = rows.nrows()
    indices = checked_reference(reference, n)
    last = edition.distance_threshold(as_rational("lambda_0", lambda_0), k, n, n_levels)
    inverse = inverse_or_none(exact_matrix("covariance", covariance))
    if inverse is None or not indices:
        return False
    bound = edition.representative_factor * last
    in_all = _neighbour_counts(rows, inverse, range(n), bound)
    in_reference = _neighbour_counts(rows, inverse, indices, bound)
    size = len(indices)
    return all(
        abs(Fraction(r, size) - Fraction(z, n)) <= Fraction(1, 6) for r, z in zip(in_reference, in_all, strict=True)
    )


def is_well_concentrated(x: object, lambda_0: Real) -> bool:
    """Definition 17: all rows are within squared distance 2 ``lambda_0`` of each other in the paired empirical covariance.

    The covariance is Sigma_x = (1/2m) sum (x_i - x_{i+m})(x_i - x_{i+m})^T, the factor 1/(2m) of Algorithm 3 and not the
    1/(sqrt 2 m) that Eq. (24) prints; it must be invertible.

    Parameters
    ----------
    x
        n x d rows.
    lambda_0
        Threshold, in squared Mahalanobis units.

    Returns
    -------
    bool
        False where the covariance is singular, and for n < 2.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    Definition 17, Observation 18, Eq. (24).
    """
    rows = exact_matrix("x", x)
    n, m = rows.nrows(), rows.nrows() // 2
    if m == 0:
        return False
    inverse = inverse_or_none(second_moment(differences(rows), [Fraction(1, 2 * m)] * m))
    if inverse is None:
        return False
    counts = _neighbour_counts(rows, inverse, range(n), 2 * as_rational("lambda_0", lambda_0))
    return all(count == n for count in counts)
