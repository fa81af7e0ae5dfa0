"""The one stage of SHARP: mean and covariance from one run of the levels on the rows (1, x), in exact arithmetic.

The paper pairs the rows so that they are centred, finds the covariance, and then needs a second stage, with a reference set,
for the mean. A row with a one put before it carries the mean in its second moment: its norm there is 1/b plus the squared
Mahalanobis distance of x from the weighted mean. So one stage, on all n rows, controls both.
"""

from __future__ import annotations

from flint import fmpq, fmpq_mat

from refimpl.covariance import stable_second_moment
from refimpl.linalg import exact_matrix, second_moment, to_fmpq, weighted_mean
from refimpl.parameters import SHARP, Real
from refimpl.results import StableMomentsResult

__all__ = ["stable_moments"]


def stable_moments(x: object, lambda_0: Real, k: int, window: int) -> StableMomentsResult:
    """StableMoments: nonprivate mean and covariance that both hardly move when one row is replaced.

    Pseudocode::

        input: x_1, ..., x_n in R^d; outlier threshold lambda_0; discretization parameter k; window W
        1  for all i in [n]: z_i <- (1, x_i)
        2  for ell = 0, 1, ..., k + W - 1:
        3      S_ell <- LargestGoodSubset(z, n lambda_0 / (n - ell lambda_0))
        4  SCORE <- min{ k, min_{0 <= ell < k} max{ n - |S_ell|, ell } }
        5  for i = 1, ..., n:
        6      w_i <- (1/(Wn)) sum_{ell=k}^{k+W-1} 1{ i in S_ell }
        7  if SCORE = k or all w_i = 0: return SCORE
        8  b <- sum_i w_i
        9  mu <- (1/b) sum_i w_i x_i
        10  C <- sum_i w_i (x_i - mu)(x_i - mu)^T
        11  return mu, C, SCORE

    With G = sum_i w_i z_i z_i^T the norm of a lifted row is z_i^T G^-1 z_i = 1/b + |x_i - mu|^2 in the norm of C, and C is
    the Schur complement of b in G. Mean and covariance are equivariant under every invertible affine map of the rows.

    Parameters
    ----------
    x
        n x d rows, n >= 1.
    lambda_0
        Outlier threshold of the norms of the lifted rows, which average d + 1; positive.
    k
        Discretization parameter, at least 1.
    window
        W, the number of levels that the weights average, at least 1, with (k + W - 1) lambda_0 < n.

    Returns
    -------
    StableMomentsResult
        With exact Fractions and an exact ``fmpq_mat``, and the sets of every level, each computed on its own. Mean and
        covariance are None where the score is k, or no row has weight (n < k).

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming the argument.

    Privacy
    -------
    Not private.

    References
    ----------
    This project's own, on LargestGoodSubset, Lemma 27, Lemma 28 and Claim 29.
    """
    rows = exact_matrix("x", x)
    if rows.nrows() < 1:
        raise ValueError("x must have at least one row")
    z = _lifted(rows)  # line 1
    stage = stable_second_moment(z, lambda_0, k, edition=SHARP, window=window)  # line 2  # line 3
    weights = stage.weights  # line 4  # line 5  # line 6
    if stage.score == k or not any(weights):
        mean = covariance = None  # line 7
    else:
        b = sum(weights)  # line 8
        mean = weighted_mean(rows, [w / b for w in weights])  # line 9
        centre = fmpq_mat(1, rows.ncols(), [to_fmpq(value) for value in mean])
        deviations = rows - fmpq_mat(rows.nrows(), 1, [fmpq(1)] * rows.nrows()) * centre
        covariance = second_moment(deviations, weights)  # line 10
    return StableMomentsResult(mean, covariance, stage.score, weights, stage.entry_level, stage.good_subsets)  # line 11


def _lifted(rows: fmpq_mat) -> fmpq_mat:
    """The rows (1, x_i)."""
    return fmpq_mat(rows.nrows(), rows.ncols() + 1, [value for row in rows.tolist() for value in (fmpq(1), *row)])
