"""LargestCore and StableMean with blocked distances, and with the decisions of exact arithmetic.

A row's level is the least ell at which at most ell reference points are farther than 2 Lambda_ell, so bounds on its distances
give bounds on its level, and most distances need not be known well. Three stages, each for the rows that the one before left
open: one product of whitened rows for a block of rows and all of R; direct differences x_i - x_j; integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Bounds, Thresholds, Whitening
from fastimpl.covariance import level_counts, score_of
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows, matrix_form
from fastimpl.rows import Floats, Indices, Vectors, as_rows, as_square, distinct, pairs, positive
from refimpl.parameters import (
    REPAIRED,
    Edition,
    Real,
    as_integer,
    as_rational,
    checked_reference,
    ordered_stability_gamma,
)
from refimpl.results import StableCovarianceResult, StableMeanResult

__all__ = ["Metric", "largest_core", "mean_result", "metric_of", "stable_mean"]

Covariance = StableCovarianceResult | object

_BLOCK = 256
_STRIP = 1 << 18  # multiply-adds in one call of BLAS
_FAR_EXPONENT = certified.SCALE + 242  # a scaled coordinate this large puts a row 2^201 away: see _Reference
_NEAR = 2.0**200
_TRADE = 2.0**-26  # t in (a + b)^2 <= (1 + t) a^2 + (1 + 1/t) b^2
_LARGEST_DENOMINATOR = 1 << 22


# Metric ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Metric:
    """Sigma = (1/scale) G, known exactly: G = sum_i c_i v_i v_i^T with integers c_i, or a given dyadic matrix.

    Attributes
    ----------
    vectors, counts
        The v_i and c_i; for a given matrix, None.
    matrix
        The given matrix, or None.
    scale
        So that |v|_Sigma^2 = scale * v^T G^-1 v.
    points
        The rows whose differences are measured; they share the units of the exact form.
    """

    vectors: Vectors | None
    counts: Indices | None
    matrix: Floats | None
    scale: Fraction
    points: Floats

    @cached_property
    def form(self) -> QuadraticForm:
        """V -> v^T G^-1 v, exactly."""
        points = Vectors((self.points,))
        if self.vectors is None or self.counts is None:
            assert self.matrix is not None
            return matrix_form(self.matrix, column_units(points))
        unit = column_units(points, self.vectors)
        total = fmpz_mat(self.vectors.width, self.vectors.width)
        for count in np.unique(self.counts[self.counts > 0]).tolist():
            total += gram(self.vectors.take(np.flatnonzero(self.counts == count)), unit) * count
        return QuadraticForm(total, unit)

    @cached_property
    def whitening(self) -> Whitening | None:
        """A certified whitening of G, or None if G is singular."""
        if self.vectors is not None and self.counts is not None:
            held = np.flatnonzero(self.counts)
            if len(held) < self.vectors.width:
                return None
            found = certified.float_whitening(self.vectors, held, self.counts[held])
            if found is not None:
                return found
        certified.note("exact", 1)  # the rank
        return None if self.form.is_singular else certified.exact_whitening(self.form)


def _metric(x: Floats, covariance: Covariance, shares: Callable[[StableCovarianceResult], list[Fraction]]) -> Metric:
    """The exact metric that a covariance argument stands for; ``shares`` gives c_i/k of a result's paired rows."""
    d = x.shape[1]
    if not isinstance(covariance, StableCovarianceResult):
        matrix = as_square("covariance", covariance, d)
        metric = Metric(None, None, matrix, Fraction(1), x)
        if not metric.form.is_positive_semidefinite:
            raise ValueError("covariance must be symmetric and positive semidefinite")
        return metric
    if len(covariance.entry_level) != len(x) // 2:
        raise ValueError(f"covariance must be of the {len(x) // 2} pairs of x, got {len(covariance.entry_level)}")
    parts = shares(covariance)
    common = math.lcm(*(part.denominator for part in set(parts)), 1)
    counts = np.array([int(part * common) for part in parts], dtype=np.int64)
    return Metric(pairs(x), counts, None, Fraction(2 * common * len(counts)), x)


def metric_of(x: Floats, covariance: Covariance, k: int, edition: Edition) -> Metric:
    """The exact metric of a covariance argument, the counts of a result being those of its weight levels."""
    return _metric(x, covariance, _shares_by_level(k, edition))


def counted_metric(vectors: Vectors, entry_level: Indices, k: int, edition: Edition, points: Floats) -> Metric:
    """The metric of (1/(2 k m)) sum c_i v_i v_i^T, c_i from entry levels."""
    levels = edition.weight_levels(k, None)
    counts = level_counts(entry_level, levels)
    return Metric(vectors, counts, None, Fraction(2 * len(levels) * len(counts)), points)


def _shares_by_level(k: int, edition: Edition) -> Callable[[StableCovarianceResult], list[Fraction]]:
    levels = edition.weight_levels(k, None)

    def shares(result: StableCovarianceResult) -> list[Fraction]:
        table: dict[int, Fraction] = {}
        counts = level_counts(result.entry_level, levels).tolist()
        return [table.setdefault(c, Fraction(c, len(levels))) for c in counts]

    return shares


def _shares_by_weight(result: StableCovarianceResult) -> list[Fraction]:
    """c_i/k from the weights c_i/(k m): float64 weights tell fractions with denominators up to 2^22 apart for certain."""
    m = len(result.entry_level)
    table: dict[object, Fraction] = {}
    for weight in result.weights:
        if weight not in table:
            exact = as_rational("covariance.weights", weight) * m
            table[weight] = exact.limit_denominator(_LARGEST_DENOMINATOR)
    return [table[weight] for weight in result.weights]


# Public functions -----------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def largest_core(x: object, covariance: Covariance, lam: Real, tau: int, reference: Sequence[int]) -> frozenset[int]:
    """LargestCore: the rows that have at least tau reference rows within squared distance 2 lam.

    Parameters
    ----------
    x
        n x d rows, finite.
    covariance
        A :class:`StableCovarianceResult` of the same x, meaning its exact matrix, or a d x d positive semidefinite matrix.
    lam, tau
        Outlier threshold (positive) and degree threshold. A tau of zero or less takes every row in.
    reference
        Distinct indices in 0..n-1.

    Returns
    -------
    frozenset of int
        Row indices, 0-based; equal to exact arithmetic's. In a singular covariance no distance is finite, not even zero's.

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
    rows, threshold, degree = as_rows("x", x), positive("lam", lam), as_rational("tau", tau)
    indices = np.array(checked_reference(reference, len(rows)), dtype=np.int64)
    metric = _metric(rows, covariance, _shares_by_weight)
    if degree <= 0:
        return frozenset(range(len(rows)))
    allowed = math.floor(len(indices) - degree)
    if allowed < 0 or metric.whitening is None:
        return frozenset()
    entry = core_levels(metric, indices, [2 * threshold / metric.scale], [allowed])
    assert entry is not None
    return frozenset(np.flatnonzero(entry == 0).tolist())


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

    A singular covariance, which the paper leaves open, means SCORE = k and no core.

    Parameters
    ----------
    x
        n x d rows, n >= 2 and n > (50/9) lambda_0, finite.
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
        ``entry_level`` and ``score`` equal exact arithmetic's; weights and mean are rounded to float64.

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
    rows, lam, k = as_rows("x", x), as_rational("lambda_0", lambda_0), as_integer("k", k, 1)
    n = len(rows)
    if n < 2:
        raise ValueError("x must have at least two rows")
    if lam <= 0 or ordered_stability_gamma(lam, n) >= 1:
        raise ValueError(f"lambda_0 must be positive and below 9n/50 for n = {n} rows, got {lambda_0}")
    indices = np.array(checked_reference(reference, n), dtype=np.int64)
    return mean_result(rows, covariance, lam, k, indices, edition)


@np.errstate(all="ignore")
def mean_result(
    x: Floats,
    covariance: Covariance,
    lambda_0: Fraction,
    k: int,
    reference: Indices,
    edition: Edition,
    *,
    early: bool = False,
) -> StableMeanResult:
    """:func:`stable_mean` without its checks of x and parameters; ``early`` halts once the score is sure to be k."""
    n, d = x.shape
    levels = range(edition.last_level(k, None) + 1)
    nothing = StableMeanResult(np.zeros(d), k, np.zeros(n), np.full(n, len(levels), dtype=np.int64))
    metric = metric_of(x, covariance, k, edition)
    if metric.whitening is None:
        return nothing
    exact = [2 * edition.distance_threshold(lambda_0, k, n, ell) / metric.scale for ell in levels]
    allowed = [edition.degree_allowance(ell) for ell in levels]

    def hopeless(missing: Indices) -> bool:
        return all(edition.level_score(int(missing[ell]), ell) >= k for ell in edition.score_levels(k, None))

    entry = core_levels(metric, reference, exact, allowed, hopeless if early else None)
    if entry is None:
        return nothing
    counts = level_counts(entry, edition.weight_levels(k, None))
    total = int(counts.sum())
    weights = counts / total if total else np.zeros(n)
    return StableMeanResult(_weighted_mean(x, weights), score_of(entry, k, edition), weights, entry)


def _weighted_mean(x: Floats, weights: Floats) -> Floats:
    """sum_i w_i x_i, about a centre where that is finite, so that a common offset costs no accuracy."""
    held = np.flatnonzero(weights)
    if not held.size:
        return np.zeros(x.shape[1])
    centre = x[held[len(held) // 2]]
    moved: Floats = centre + weights[held] @ (x[held] - centre)
    return np.where(np.isfinite(moved), moved, weights[held] @ x[held])


# Levels ---------------------------------------------------------------------------------------------------------------


def core_levels(
    metric: Metric,
    reference: Indices,
    exact: Sequence[Fraction],
    allowed: Sequence[int],
    halt: Callable[[Indices], bool] | None = None,
) -> Indices | None:
    """For each row the least level ell at which at most allowed[ell] reference rows have forms above exact[ell].

    ``len(exact)`` where there is none. ``halt``, if given, is asked after every block whether to stop, with the number of rows
    so far that are surely not in at each level; then None.
    """
    limits = certified.thresholds(exact)
    counts = np.array(allowed, dtype=np.int64)
    x, whitening = metric.points, metric.whitening
    assert whitening is not None
    screen = _Screen(metric, reference, whitening, limits, counts)
    entry = np.zeros(len(x), dtype=np.int64)
    missing = np.zeros(len(exact), dtype=np.int64)
    open_rows = [np.empty(0, dtype=np.int64)]
    for block in _blocks(len(x)):
        least, most = screen.levels(block)
        entry[block] = most
        open_rows.append(block.start + np.flatnonzero(least < most))
        missing += len(least) - np.cumsum(np.bincount(least, minlength=len(exact) + 1))[:-1]
        if halt is not None and halt(missing):
            return None
    doubtful = np.concatenate(open_rows)
    certified.note("float", len(x) - len(doubtful))
    if doubtful.size:
        where, kind = distinct(Vectors((x[doubtful],)))
        resolver = _Resolver(metric, reference, whitening, limits, counts)
        entry[doubtful] = np.array([resolver.level(x[i]) for i in doubtful[where]], dtype=np.int64)[kind]
    return entry


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, _BLOCK):
        yield slice(start, min(n, start + _BLOCK))


def _levels_from(forms: Floats, limits: Floats, allowed: Indices) -> Indices:
    """For each row of ``forms`` the least ell at which at most allowed[ell] entries exceed limits[ell]."""
    count, points = len(limits), forms.shape[1]
    descending = -np.sort(-forms, axis=1)
    rank = np.clip(allowed, 0, max(points - 1, 0))
    inside = np.ones((len(forms), count), dtype=bool) if points == 0 else descending[:, rank] <= limits
    inside[:, allowed >= points] = True
    inside[:, allowed < 0] = False
    return _first_true(inside)


def _first_true(inside: NDArray[np.bool_]) -> Indices:
    """For each row the index of its first true entry, or the number of columns if there is none."""
    found = inside.argmax(axis=1)
    levels: Indices = np.where(inside[np.arange(len(inside)), found], found, inside.shape[1]).astype(np.int64)
    return levels


class _Screen:
    """First stage: bounds on all distances between a block of rows and R from one matrix product.

    *Statement.* With z_i, r_j the whitened rows and reference rows (about a common centre), e_i and f_j bounds on their
    errors, and dhat = |zhat_i - rhat_j|^2 of the float vectors, (a + b)^2 <= (1 + t) a^2 + (1 + 1/t) b^2 and
    (a - b)^2 >= (1 - t) a^2 - (1/t - 1) b^2 give, for 0 < t < 1,

        (1 - epsilon) form <= (1 + t) dhat + 2 (1 + 1/t)(e_i^2 + f_j^2),
        (1 + epsilon) form >= (1 - t) dhat - (2/t)(e_i^2 + f_j^2).

    The product [-2 zhat, |zhat|^2, 1][rhat, 1, |rhat|^2]^T computes dhat to within 8 gamma_{d+8} (|zhat|^2 + |rhat|^2). All of
    these errors are a number a row plus a number a column, so the upper bounds come out of one product as well.

    Reference rows come in three kinds. *Near*: |rhat| <= 2^200. *Giant*: some scaled coordinate is at least
    2^(SCALE + 242), or infinite; since v^T G^-1 v >= v_j^2/G_jj and the scaled G_jj is below 2^(2 SCALE + 82), a giant row is
    at least 2^201 away from the centre and so farther than 2^200 from every near row. *Odd*: neither; nothing is known.
    """

    def __init__(
        self, metric: Metric, reference: Indices, whitening: Whitening, limits: Thresholds, allowed: Indices
    ) -> None:
        self._metric, self._whitening, self._limits = metric, whitening, limits
        points = metric.points[reference]
        self._centre = np.sort(points, axis=0)[len(points) // 2] if len(points) else np.zeros(points.shape[1])
        z, error, near, giant = self._whitened(points)
        self._giants, odd = int(giant.sum()), int((~near & ~giant).sum())
        z, norms, self._slack = self._prepared(z[near], error[near])
        self._right = np.column_stack([z, np.ones(len(z)), norms + self._slack]).T.copy()
        self._allowed = allowed
        self._allowed_least, self._allowed_most = allowed - self._giants, allowed - self._giants - odd
        # Below these levels too many reference rows are giants (or odd as well) for any near row.
        self._least_first = int(np.searchsorted(self._allowed_least, 0))
        self._first = int(np.searchsorted(self._allowed_most, 0))
        self._upper = limits.below * ((1 - whitening.epsilon) / (1 + _TRADE) * (1 - 2.0**-45))
        self._lower = limits.above * ((1 + whitening.epsilon) / (1 - _TRADE) * (1 + 2.0**-45))

    def _whitened(self, rows: Floats) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Whitened rows about the centre, bounds on their errors, which are near and which are giants."""
        vectors = Vectors((rows,), (np.broadcast_to(self._centre, rows.shape),))
        z, error = certified.whiten(vectors, self._whitening)
        norm = np.sqrt(np.einsum("ij,ij->i", z, z))
        least = np.minimum(np.abs(vectors.rounded()), 2.0**1023)  # what overflows is at least this large
        scaled = np.ldexp(least, self._whitening.shift).max(axis=1, initial=0.0)
        giant = (scaled >= 2.0**_FAR_EXPONENT) & (self._limits.above[-1] < 2.0**399)
        if self._whitening.epsilon == 0.0:
            vague = error > 2.0**-20 * np.sqrt(self._limits.below[0])
            vague = np.flatnonzero(vague & (error > 2.0**-40 * norm) & ~giant)
            if vague.size:
                z[vague], error[vague] = certified.whiten_exactly(vectors.take(vague), self._metric.form)
                norm = np.sqrt(np.einsum("ij,ij->i", z, z))
        return z, error, norm + error <= _NEAR, giant

    @staticmethod
    def _prepared(z: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
        norms = np.einsum("ij,ij->i", z, z)
        gamma = 8 * (z.shape[1] + 8) * certified.UNIT_ROUNDOFF
        return z, norms, gamma * norms + (2 / _TRADE) * (1 + 4 * _TRADE) * error**2 + 2.0**-900

    def levels(self, block: slice) -> tuple[Indices, Indices]:
        """Least and greatest possible level of each row of a block."""
        z, error, near, giant = self._whitened(self._metric.points[block])
        count = len(self._upper)
        least, most = np.zeros(len(z), dtype=np.int64), np.full(len(z), count, dtype=np.int64)
        least[giant] = np.searchsorted(self._allowed, self._right.shape[1])  # far from all near reference rows
        least[near], most[near] = self._near_levels(*self._prepared(z[near], error[near]))
        return least, most

    def _near_levels(self, z: Floats, norms: Floats, slack: Floats) -> tuple[Indices, Indices]:
        """Bounds on the levels of near rows: most are settled by their largest distance, the far-off ones by a count."""
        left = np.column_stack([-2 * z, norms + slack, np.ones(len(z))])
        upper = _product(left, self._right)
        least, most = np.full(len(z), self._least_first), np.full(len(z), self._first)
        limit = self._upper[self._first] if self._first < len(self._upper) else -np.inf
        rest = np.flatnonzero(upper.max(axis=1, initial=0.0) > limit)
        if rest.size:
            upper = upper[rest]
            least[rest], most[rest] = self._counted_levels(upper, slack[rest])
        return least, most

    def _counted_levels(self, upper: Floats, slack: Floats) -> tuple[Indices, Indices]:
        """Levels from the pairs that are not surely near at level zero, which are few but for rows that are far from most."""
        count = len(self._upper)
        least, most = np.full(len(upper), count, dtype=np.int64), np.full(len(upper), count, dtype=np.int64)
        out = np.count_nonzero(upper - 2 * (slack[:, None] + self._slack) > self._lower[-1], axis=1)
        inner = np.flatnonzero(out <= self._allowed_least[-1])
        upper, slack = upper[inner], slack[inner]
        row, column = np.nonzero(upper > self._upper[0])
        pair = upper[row, column]
        least_pair = np.searchsorted(self._lower, pair - 2 * (slack[row] + self._slack[column]))
        most_pair = np.searchsorted(self._upper, pair)
        least[inner] = _levels_from_pairs(row, least_pair, len(inner), self._allowed_least)
        most[inner] = _levels_from_pairs(row, most_pair, len(inner), self._allowed_most)
        return least, most


def _product(left: Floats, right: Floats) -> Floats:
    """Left @ right in strips that are too small for BLAS to share out among threads.

    On a busy machine the threads of one such product wait for each other ten times as long as one alone would work.
    """
    rows = _STRIP // max(right.size, 1)
    whole = len(left) // rows * rows if rows >= 8 else 0
    result = np.empty((len(left), right.shape[1]))
    if whole:
        strips = left[:whole].reshape(-1, rows, left.shape[1])
        np.matmul(strips, right, out=result[:whole].reshape(-1, rows, right.shape[1]))
    result[whole:] = left[whole:] @ right
    return result


def _levels_from_pairs(row: Indices, pair_level: Indices, rows: int, allowed: Indices) -> Indices:
    """For each row the least ell at which at most allowed[ell] of its pairs are of a level above ell; others are near."""
    count = len(allowed)
    table = np.bincount(row * (count + 1) + pair_level, minlength=rows * (count + 1)).reshape(rows, count + 1)
    far = table.sum(axis=1, keepdims=True) - np.cumsum(table, axis=1)[:, :count]
    return _first_true(far <= allowed)


class _Resolver:
    """Second and third stage: one row at a time, from direct differences x_i - x_j, and at last on integers.

    A direct difference is rounded once, so its bounds are relative to the distance itself and not to the distance from a
    centre; see ``certified.whiten`` and ``certified.norm_bounds``.
    """

    def __init__(
        self, metric: Metric, reference: Indices, whitening: Whitening, limits: Thresholds, allowed: Indices
    ) -> None:
        self._metric, self._whitening, self._limits, self._allowed = metric, whitening, limits, allowed
        self._points = metric.points[reference]

    def level(self, row: Floats) -> int:
        """The exact level of a row."""
        vectors = Vectors((np.broadcast_to(row, self._points.shape),), (self._points,))
        bounds = certified.norm_bounds(*certified.whiten(vectors, self._whitening), self._whitening.epsilon)
        least = int(_levels_from(bounds.lower[None, :], self._limits.above, self._allowed)[0])
        most = int(_levels_from(bounds.upper[None, :], self._limits.below, self._allowed)[0])
        if least == most:
            certified.note("direct", 1)
            return least
        return self._exact_level(vectors, bounds, least, most)

    def _exact_level(self, vectors: Vectors, bounds: Bounds, least: int, most: int) -> int:
        """The level, known to lie in least..most, with every distance that could matter compared exactly."""
        top = min(most, len(self._limits.exact) - 1)
        open_pairs = np.flatnonzero(
            (bounds.upper > self._limits.below[least]) & (bounds.lower <= self._limits.above[top])
        )
        # Pair level: the least level at which the pair is near. Outside least..top its exact value does not matter.
        pair_level = np.where(bounds.lower > self._limits.above[top], top + 1, 0)
        pair_level[open_pairs] = self._pair_levels(vectors.take(open_pairs), least, top)
        for ell in range(least, top + 1):
            if int(np.count_nonzero(pair_level > ell)) <= self._allowed[ell]:
                return ell
        return top + 1

    def _pair_levels(self, vectors: Vectors, least: int, top: int) -> Indices:
        """The exact least level in least..top + 1 at which each pair is near."""
        where, kind = distinct(vectors)
        form = self._metric.form
        numerators, denominator = form.values(integer_rows(vectors.take(where), form.unit))
        certified.note("exact", len(where))
        exact = self._limits.exact
        found = []
        for value in numerators:
            low, high = least, top + 1
            while low < high:
                middle = (low + high) // 2
                limit = exact[middle]
                if value * limit.denominator <= limit.numerator * denominator:
                    high = middle
                else:
                    low = middle + 1
            found.append(low)
        return np.array(found, dtype=np.int64)[kind]
