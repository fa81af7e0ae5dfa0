"""LargestCore and StableMean with blocked distances, and with the decisions of exact arithmetic.

A row's level is the least ell at which at most ell reference points are farther than 2 Lambda_ell, so bounds on its distances
give bounds on its level, and most distances need not be known well. Three stages, each for the rows that the one before left
open: one product of whitened rows for a block of rows and all of R; direct differences x_i - x_j; integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Bounds, Whitening
from fastimpl.covariance import level_counts, score_of
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows, matrix_form
from fastimpl.grams import BlockGrams, blocks, usual_shift
from fastimpl.limits import Thresholds, distance_limits, thresholds
from fastimpl.rows import (
    READ_ROWS,
    Centred,
    Floats,
    Indices,
    Sparse,
    Vectors,
    as_rows,
    as_square,
    distinct,
    pairs,
    positive,
    require_finite,
)
from fastimpl.screen import Screen, centre_of, first_true
from fastimpl.threads import spread, thread_count
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

__all__ = ["Metric", "largest_core", "mean_result", "metric_of", "stable_mean"]

Covariance = StableCovarianceResult | object

_LARGEST_DENOMINATOR = 1 << 22
_PATIENCE = 16  # blocks between two questions whether to halt


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
    counts: Sparse | None
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
        counts = self.counts.dense()
        for count in np.unique(counts[counts > 0]).tolist():
            total += gram(self.vectors.take(np.flatnonzero(counts == count)), unit) * count
        return QuadraticForm(total, unit)

    @cached_property
    def whitening(self) -> Whitening | None:
        """A certified whitening of G, or None if G is singular."""
        if self.vectors is not None and self.counts is not None:
            grams = BlockGrams(self.vectors, usual_shift(self.vectors), without=self.counts.left_out)
            if not (grams.finite and np.isfinite(self.points[-1:]).all()):
                require_finite("x", self.points)
            found = certified.float_whitening(grams, self.counts)
            if found is not None:
                return found
        certified.note("exact", 1)  # the rank
        return None if self.form.is_singular else certified.exact_whitening(self.form)


def _metric(
    x: Floats, covariance: Covariance, shares: Callable[[StableCovarianceResult], tuple[Sparse, int]]
) -> Metric:
    """The exact metric that a covariance argument stands for; ``shares`` gives c_i of a result's paired rows, and k."""
    d = x.shape[1]
    if not isinstance(covariance, StableCovarianceResult):
        require_finite("x", x)
        matrix = as_square("covariance", covariance, d)
        metric = Metric(None, None, matrix, Fraction(1), x)
        if not metric.form.is_positive_semidefinite:
            raise ValueError("covariance must be symmetric and positive semidefinite")
        return metric
    if len(covariance.entry_level) != len(x) // 2:
        raise ValueError(f"covariance must be of the {len(x) // 2} pairs of x, got {len(covariance.entry_level)}")
    counts, parts = shares(covariance)
    return Metric(pairs(x), counts, None, Fraction(2 * parts * counts.size), x)


def metric_of(x: Floats, covariance: Covariance, k: int, edition: Edition) -> Metric:
    """The exact metric of a covariance argument, the counts of a result being those of its weight levels."""
    levels = edition.weight_levels(k, None)
    return _metric(x, covariance, lambda result: _counted(result.entry_level, levels))


def counted_metric(vectors: Vectors, entry_level: Indices, k: int, edition: Edition, points: Floats) -> Metric:
    """The metric of (1/(2 k m)) sum c_i v_i v_i^T, c_i from entry levels."""
    counts, parts = _counted(entry_level, edition.weight_levels(k, None))
    return Metric(vectors, counts, None, Fraction(2 * parts * counts.size), points)


def _counted(entry_level: Sequence[int] | NDArray[np.integer[Any]], levels: range) -> tuple[Sparse, int]:
    """The counts c_i that entry levels stand for, and how many weight levels there are."""
    entry = Sparse.of(np.asarray(entry_level))
    usual = int(level_counts([entry.usual], levels)[0])
    return Sparse(entry.size, usual, entry.index, level_counts(entry.value, levels)), len(levels)


def _shares_by_weight(result: StableCovarianceResult) -> tuple[Sparse, int]:
    """c_i/k from the weights c_i/(k m): float64 weights tell fractions with denominators up to 2^22 apart for certain."""
    m = len(result.entry_level)
    table: dict[object, Fraction] = {}
    for weight in result.weights:
        if weight not in table:
            exact = as_rational("covariance.weights", weight) * m
            table[weight] = exact.limit_denominator(_LARGEST_DENOMINATOR)
    common = math.lcm(*(part.denominator for part in table.values()), 1)
    counts = {weight: int(part * common) for weight, part in table.items()}
    return Sparse.of(np.array([counts[weight] for weight in result.weights], dtype=np.int64)), common


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
    rows, threshold, degree = as_rows("x", x), positive("lam", lam), as_integer("tau", tau)
    indices = _reference_indices(reference, len(rows))
    metric = _metric(rows, covariance, _shares_by_weight)
    if degree <= 0:
        return frozenset(range(len(rows)))
    allowed = math.floor(len(indices) - degree)
    if allowed < 0 or metric.whitening is None:
        return frozenset()
    cores = core_levels(metric, indices, thresholds([threshold], 2 / metric.scale), [allowed])
    assert cores is not None
    return frozenset(np.flatnonzero(cores.entry.dense() == 0).tolist())


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
    # That all rows are finite shows in the sums of the metric.
    rows, lam, k = as_rows("x", x, finite=False), as_rational("lambda_0", lambda_0), as_integer("k", k, 1)
    n = len(rows)
    if n < 2:
        raise ValueError("x must have at least two rows")
    if lam <= 0 or ordered_stability_gamma(lam, n) >= 1:
        raise ValueError(f"lambda_0 must be positive and below 9n/50 for n = {n} rows, got {lambda_0}")
    indices = _reference_indices(reference, n)
    return mean_result(rows, covariance, lam, k, indices, checked_edition(edition))


def _reference_indices(reference: Sequence[int], n: int) -> Indices:
    """The checked reference set; plain integers are checked all at once."""
    if isinstance(reference, list | tuple) and set(map(type, reference)) == {int}:
        distinct_ones = set(reference)
        if len(distinct_ones) == len(reference) and min(distinct_ones) >= 0 and max(distinct_ones) < n:
            return np.array(reference, dtype=np.int64)
    return np.array(checked_reference(reference, n), dtype=np.int64)


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
    metric = metric_of(x, covariance, k, edition)
    if metric.whitening is None:
        return _nothing(n, d, k, len(levels))
    limits = distance_limits(edition, lambda_0, k, n, levels, 2 / metric.scale)
    allowed = [edition.degree_allowance(ell) for ell in levels]

    def hopeless(missing: Indices) -> bool:
        return all(edition.level_score(int(missing[ell]), ell) >= k for ell in edition.score_levels(k, None))

    cores = core_levels(metric, reference, limits, allowed, hopeless if early else None)
    if cores is None:
        return _nothing(n, d, k, len(levels))
    table = level_counts(np.arange(len(levels) + 1), edition.weight_levels(k, None))
    total = int(table @ cores.entry.histogram(len(levels) + 1))
    weights = cores.entry.mapped(table / max(total, 1))
    mean = cores.weighted_mean(table, total) if total else np.zeros(d)
    return StableMeanResult(mean, score_of(cores.entry, k, edition), weights, cores.entry.narrow(len(levels)))


def _nothing(n: int, d: int, k: int, level: int) -> StableMeanResult:
    """No core at any level."""
    none = Sparse(n, level, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return StableMeanResult(np.zeros(d), k, np.zeros(n), none.narrow(level))


# Levels ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cores:
    """Entry levels of all rows, and for each block of READ_ROWS the sum of the rows about a centre."""

    entry: Sparse
    rows: Centred
    sums: Floats

    def weighted_mean(self, table: Indices, total: int) -> Floats:
        """(1/total) sum_i table[entry_i] x_i, about the centre, so that a common offset costs no accuracy."""
        usual, entry = int(table[self.entry.usual]), self.entry
        starts = np.searchsorted(entry.index, np.arange(len(self.sums) + 1) * READ_ROWS)
        odd = np.diff(starts) > 0
        moved: Floats = usual * self.sums[~odd].sum(axis=0)
        buffer = np.empty((READ_ROWS, self.rows.width))
        for i in np.flatnonzero(odd).tolist():
            block = slice(i * READ_ROWS, min(entry.size, (i + 1) * READ_ROWS))
            weight = table[entry.block(block)]
            if (weight == usual).all():  # other levels, but the same count
                moved += usual * self.sums[i]
                continue
            rows = self.rows.read(block, buffer)
            rows[weight == 0] = 0.0
            moved += weight @ rows
        mean = self.rows.centre + moved / total
        return mean if np.isfinite(mean).all() else self._careful_mean(table[entry.dense()] / total)

    def _careful_mean(self, weights: Floats) -> Floats:
        """The same where sums overflow."""
        held = np.flatnonzero(weights)
        centre = self.rows.points[held[len(held) // 2]]
        moved: Floats = centre + weights[held] @ (self.rows.points[held] - centre)
        return np.where(np.isfinite(moved), moved, weights[held] @ self.rows.points[held])


def core_levels(
    metric: Metric,
    reference: Indices,
    limits: Thresholds,
    allowed: Sequence[int],
    halt: Callable[[Indices], bool] | None = None,
) -> Cores | None:
    """For each row the least level ell at which at most allowed[ell] reference rows have a form above limits[ell].

    One more than the last level where there is none. ``halt``, if given, is asked after every batch of rows whether to stop,
    with the number of rows so far that are surely not in at each level; then None.
    """
    counts = np.array(allowed, dtype=np.int64)
    x, whitening = metric.points, metric.whitening
    assert whitening is not None
    rows = Centred(x, centre_of(x[reference], whitening))
    screen, parts = Screen(rows, reference, whitening, limits, counts), blocks(len(x))
    sums, stop = np.zeros((len(parts), x.shape[1])), Event()

    def work(part: range) -> Screen:
        own, ones = screen.split(), np.ones(READ_ROWS)
        for i in part:
            own.take(parts[i])
            moved = own.lengths.rows
            sums[i] = ones[: len(moved)] @ moved if own.lengths.unscaled else np.nan
            if halt is not None and i % _PATIENCE == 0 and (stop.is_set() or halt(own.missing())):
                stop.set()
                return own
        own.settle()
        return own

    done = spread(work, len(parts), thread_count(x.size))
    if stop.is_set() or (halt is not None and halt(np.sum([own.missing() for own in done], axis=0))):
        return None
    entry, doubtful = screen.entry, np.concatenate([part for own in done for part in own.doubtful])
    certified.note("float", len(x) - len(doubtful))
    if doubtful.size:
        where, kind = distinct(Vectors((x[doubtful],)))
        resolver = _Resolver(metric, reference, whitening, limits, counts)
        entry[doubtful] = np.array([resolver.level(x[i]) for i in doubtful[where]], dtype=np.int64)[kind]
    return Cores(Sparse.of(entry), rows, sums)


def _levels_from(forms: Floats, limits: Floats, allowed: Indices) -> Indices:
    """For each row of ``forms`` the least ell at which at most allowed[ell] entries exceed limits[ell]."""
    count, points = len(limits), forms.shape[1]
    descending = -np.sort(-forms, axis=1)
    rank = np.clip(allowed, 0, max(points - 1, 0))
    inside = np.ones((len(forms), count), dtype=bool) if points == 0 else descending[:, rank] <= limits
    inside[:, allowed >= points] = True
    inside[:, allowed < 0] = False
    return first_true(inside)


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
