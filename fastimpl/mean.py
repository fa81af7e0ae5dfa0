"""LargestCore and StableMean with blocked distances, and with the decisions of exact arithmetic.

A row's level is the least ell at which at most ell reference points are farther than 2 Lambda_ell, so bounds on its distances
give bounds on its level, and most distances need not be known well. Three stages, each for what the one before left open: one
product of whitened rows for a block of rows and all of R; direct differences x_i - x_j of the pairs that matter; integers.
Where many pairs of rows come to the last stage, pairs of floats settle those that are no ties to thirty digits first.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Whitening
from fastimpl.covariance import KeptResult, level_counts, score_of
from fastimpl.exact import LARGE, QuadraticForm, column_units, integer_rows, inverse_root, matrix_form
from fastimpl.grams import BlockGrams, KeptGram, blocks, column_sums, usual_shift
from fastimpl.limits import Ratio, Thresholds, distance_limits, enclose, thresholds
from fastimpl.residues import MOST_PRIMES, SEVERAL, IntegerDistances
from fastimpl.rows import (
    READ_ROWS,
    Centred,
    Dense,
    Floats,
    Indices,
    Sparse,
    Vectors,
    as_rows,
    as_square,
    distinct,
    narrowest,
    new_array,
    pairs,
    positive,
    require_finite,
    stands_out,
    touch,
)
from fastimpl.screen import OPEN, Screen, centre_of, first_true, tight_centre
from fastimpl.sums import exact_sums
from fastimpl.threads import meanwhile, one_blas_thread, share, thread_count
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
_PATIENCE = 4  # blocks between two questions whether to halt
_MANY = 2048  # pairs of rows compared on integers before pairs of floats are tried
_MODERATE = (2.0**-300, 2.0**300)  # sizes whose products and squares neither under- nor overflow
_AT_ONCE = 64  # rows that are whitened in pairs of floats together
_ENTRIES = 1 << 17  # of an array of products that is held at a time
_CAREFULLY = 1 << 20  # numbers that are summed together where sums overflow
_TOGETHER = 1 << 16  # numbers of open rows that are sorted together
_MOST_KNOWN = 1 << 17  # numbers of rows whose levels are remembered


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
    kept
        The float64 sum over the same vectors and counts, if the covariance stage has left one.
    """

    vectors: Vectors | None
    counts: Sparse | None
    matrix: Floats | None
    scale: Fraction
    points: Floats
    kept: KeptGram | None = None

    @cached_property
    def form(self) -> QuadraticForm:
        """V -> v^T G^-1 v, exactly."""
        points = Vectors((self.points,))
        if self.vectors is None or self.counts is None:
            assert self.matrix is not None
            return matrix_form(self.matrix, column_units(points))
        unit = column_units(points, self.vectors)
        return QuadraticForm(*exact_sums(self.vectors, self.counts, unit))

    @cached_property
    def whitening(self) -> Whitening | None:
        """A certified whitening of G, or None if G is singular."""
        if self.vectors is not None and self.counts is not None:
            known = None if self.kept is None else certified.kept_whitening(self.kept, self.vectors, self.counts)
            if known is not None:
                return known
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
    kept = covariance.gram if isinstance(covariance, KeptResult) else None
    return Metric(pairs(x), counts, None, Fraction(2 * parts * counts.size), x, kept)


def metric_of(x: Floats, covariance: Covariance, k: int, edition: Edition) -> Metric:
    """The exact metric of a covariance argument, the counts of a result being those of its weight levels."""
    levels = edition.weight_levels(k, None)
    return _metric(x, covariance, lambda result: weight_counts(result.entry_level, levels))


def weight_counts(entry_level: Sequence[int] | NDArray[np.integer[Any]], levels: range) -> tuple[Sparse, int]:
    """The counts c_i that entry levels stand for, and how many weight levels there are: what k is in (1/(2 k m)) sum c_i."""
    entry = np.asarray(entry_level)
    found = Sparse.of(entry) if entry.dtype.kind == "i" else None
    if found is None or not found.lies_in(levels.stop):
        found = Sparse.of(entry.clip(0, levels.stop).astype(narrowest(levels.stop)))  # which counts the same
    return found.mapped(level_counts(np.arange(levels.stop + 1), levels)), len(levels)


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
    return _core(rows, covariance, threshold, degree, _reference_indices(reference, len(rows)))


@one_blas_thread
def _core(x: Floats, covariance: Covariance, threshold: Fraction, degree: int, reference: Indices) -> frozenset[int]:
    metric = _metric(x, covariance, _shares_by_weight)
    if degree <= 0:
        return frozenset(range(len(x)))
    allowed = math.floor(len(reference) - degree)
    if allowed < 0 or metric.whitening is None:
        return frozenset()
    cores = core_levels(metric, reference, thresholds([threshold], 2 / metric.scale), [allowed])
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
        Of the very array, not written to in between, its float64 sums need not be made again.
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
        indices = np.array(reference)  # of objects, or of another kind, if some are too large
        ordered = np.sort(indices)
        if ordered.dtype == np.int64 and 0 <= ordered[0] <= ordered[-1] < n and (ordered[1:] > ordered[:-1]).all():
            return indices
    return np.array(checked_reference(reference, n), dtype=np.int64)


@one_blas_thread
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

    room = new_array(n, np.float64) if thread_count(x.size) > 1 and not early else None
    cores = core_levels(metric, reference, limits, allowed, hopeless if early else None, room)
    if cores is None:
        return _nothing(n, d, k, len(levels))
    table = level_counts(np.arange(len(levels) + 1), edition.weight_levels(k, None))
    total = int(table @ cores.entry.histogram(len(levels) + 1))
    weights, narrow = cores.entry.spelled_out(table / max(total, 1), room)
    mean = cores.weighted_mean(table, total) if total else np.zeros(d)
    return StableMeanResult(mean, score_of(cores.entry, k, edition), weights, narrow)


def _nothing(n: int, d: int, k: int, level: int) -> StableMeanResult:
    """No core at any level."""
    return StableMeanResult(np.zeros(d), k, np.zeros(n), np.full(n, level, dtype=narrowest(level)))


# Levels ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cores:
    """Entry levels of all rows, and for each block the sum of the rows about a centre but for those cleared: a bit each."""

    entry: Dense
    rows: Centred
    sums: Floats
    cleared: NDArray[np.uint8]

    def weighted_mean(self, table: Indices, total: int) -> Floats:
        """(1/total) sum_i table[entry_i] x_i, about the centre, so that a common offset costs no accuracy."""
        counts, step = self.entry.mapped(table), self.rows.step
        parts = blocks(counts.size, step)
        if np.count_nonzero(self.cleared):  # any() takes its time
            odd = np.array([self._is_odd(i, block, table) for i, block in enumerate(parts)], dtype=bool)
        else:
            odd = counts.unlike(np.empty(0, dtype=np.int64), step)
        moved: Floats = counts.usual * self.sums[~odd].sum(axis=0)
        buffer = np.empty((step, self.rows.width))
        for i in np.flatnonzero(odd).tolist():
            rows, weight = self.rows.read(parts[i], buffer), counts.block(parts[i]).astype(np.float64)
            rows[weight == 0] = 0.0
            moved += weight @ rows
        mean = self.rows.centre + moved / total
        return mean if np.isfinite(mean).all() else self._careful_mean(table / total)

    def _is_odd(self, i: int, block: slice, table: Indices) -> bool:
        """Whether the sum of a block is not what the weights of its rows make of it."""
        odd, level = self.entry.odd(block)
        cleared = np.flatnonzero(np.unpackbits(self.cleared[i])) if self.cleared[i].any() else odd[:0]
        return stands_out(odd - block.start, table[level], int(table[self.entry.usual]), cleared)

    def _careful_mean(self, table: Floats) -> Floats:
        """The same where sums overflow: ``table`` is of weights."""
        points, levels = self.rows.points, self.entry.levels
        parts = blocks(len(levels), max(READ_ROWS, _CAREFULLY // self.rows.width))
        before = np.cumsum([0, *(np.count_nonzero(table[levels[part]]) for part in parts)])
        middle = int(before[-1]) // 2
        first = int(np.searchsorted(before, middle, side="right")) - 1
        centre = points[parts[first]][np.flatnonzero(table[levels[parts[first]]])[middle - before[first]]]
        moved, plain = np.zeros(self.rows.width), np.zeros(self.rows.width)
        for part in parts:
            held = part.start + np.flatnonzero(table[levels[part]])
            weights, rows = table[levels[held]], points[held]
            moved += weights @ (rows - centre)
            plain += weights @ rows
        moved += centre
        return np.where(np.isfinite(moved), moved, plain)


def core_levels(
    metric: Metric,
    reference: Indices,
    limits: Thresholds,
    allowed: Sequence[int],
    halt: Callable[[Indices], bool] | None = None,
    room: Floats | None = None,
) -> Cores | None:
    """For each row the least level ell at which at most allowed[ell] reference rows have a form above limits[ell].

    One more than the last level where there is none. ``halt``, if given, is asked after every batch of rows whether to stop,
    with the number of rows so far that are surely not in at each level; then None. ``room``, if given, is touched.
    """
    counts = np.array(allowed, dtype=np.int64)
    x, whitening = metric.points, metric.whitening
    assert whitening is not None
    screen = _screen(metric, reference, limits, counts, room)
    rows, levels = screen.rows, screen.levels
    parts = blocks(len(x), rows.step)
    sums, stop = np.zeros((len(parts), x.shape[1])), Event()

    def work(part: Iterator[int]) -> Screen:
        own, ones = screen.split(), np.ones(rows.step)
        for i in part:
            own.take(parts[i])
            sums[i] = column_sums(own.lengths.rows, ones) if own.lengths.unscaled else np.nan
            if halt is not None and i % _PATIENCE == 0 and (stop.is_set() or halt(own.missing())):
                stop.set()
                return own
        own.settle()
        return own

    done = share(work, len(parts), thread_count(x.size))
    missing = np.sum([own.missing() for own in done], axis=0)
    if stop.is_set() or (halt is not None and halt(missing)):
        certified.note(screen.decider, int(missing[0]))
        return None
    doubtful = sum(own.doubtful for own in done)
    certified.note(screen.decider, len(x) - doubtful)
    if doubtful:
        resolver = _Resolver(metric, reference, whitening, limits, counts, screen)
        for index in _still_open(levels, max(_AT_ONCE, _TOGETHER // x.shape[1])):
            levels[index] = resolver.at(index)
    return Cores(Dense(levels, int(levels[len(levels) // 2])), rows, sums, screen.cleared)


def _screen(metric: Metric, reference: Indices, limits: Thresholds, allowed: Indices, room: Floats | None) -> Screen:
    """A screen of all rows; meanwhile the array for their levels is filled with zeros, and ``room`` is touched."""
    x, whitening = metric.points, metric.whitening
    assert whitening is not None
    levels = new_array(len(x), narrowest(len(limits.exact)))

    def clear() -> None:
        levels.fill(0)
        if room is not None:
            touch(room)

    with meanwhile(clear, thread_count(x.size)):
        rows = Centred(x, tight_centre(x[reference], whitening, limits, allowed))
        return Screen(rows, reference, whitening, limits, allowed, levels)


def _still_open(levels: NDArray[np.integer[Any]], count: int) -> Iterator[Indices]:
    """The positions of open levels, about so many at a time."""
    held, size = [np.empty(0, dtype=np.int64)], 0
    for block in blocks(len(levels), count):
        held.append(block.start + np.flatnonzero(levels[block] == OPEN))
        size += len(held[-1])
        if size >= count:
            yield np.concatenate(held)
            held, size = [], 0
    if size:
        yield np.concatenate(held)


class _Doubt(NamedTuple):
    """Rows whose level is in least..most, and the pairs with reference rows on which it depends.

    Pair p, of the rows ``owner[p]`` and ``other[p]``, is near from a level in low[p]..high[p] on; ``far`` is how many other
    reference rows of a row are far at every level below ``most``. Pairs that are not named are near from ``least`` on.
    """

    least: Indices
    most: Indices
    far: Indices
    owner: Indices
    other: Indices
    low: Indices
    high: Indices

    def open(self) -> Indices:
        """The pairs that have to be known better."""
        least, most = self.least[self.owner], self.most[self.owner]
        return np.flatnonzero(np.maximum(self.low, least) < np.minimum(self.high, most))

    def narrowed(self, allowed: Indices) -> _Doubt:
        """The same with what the pairs say of the rows: at its level at most ``allowed`` reference rows are far."""
        return self._replace(least=self._first(self.low, allowed), most=self._first(self.high, allowed))

    def _first(self, level: Indices, allowed: Indices) -> Indices:
        """For each row the least level at which it is in, were these the levels of its pairs."""
        count, rows = len(allowed), len(self.least)
        table = np.bincount(self.owner * (count + 1) + level, minlength=rows * (count + 1)).reshape(rows, count + 1)
        far = (self.far + table.sum(axis=1))[:, None] - np.cumsum(table, axis=1)[:, :count]
        levels = np.arange(count)
        inside = (far <= allowed) & (levels >= self.least[:, None])
        return first_true(inside | (levels >= self.most[:, None]))


class _Resolver:
    """Second and third stage, some rows at a time: direct differences x_i - x_j, and at last integers.

    A direct difference is rounded once, so its bounds are relative to the distance itself and not to the distance from a
    centre; see ``certified.whiten`` and ``certified.norm_bounds``. Which pairs need one the products of the screen tell.
    """

    def __init__(
        self,
        metric: Metric,
        reference: Indices,
        whitening: Whitening,
        limits: Thresholds,
        allowed: Indices,
        screen: Screen,
    ) -> None:
        self._metric, self._whitening, self._limits, self._allowed = metric, whitening, limits, allowed
        self._screen, self._points = screen, metric.points[reference[screen.order]]
        self._asked, self._tied = 0, False
        last = len(self._points) - 1
        self._rank = last - np.clip(allowed, 0, max(last, 0))  # of the one that decides, by rising forms
        self._always, self._possible = allowed > last, allowed >= 0
        # Running maxima and minima are on the safe side, as the thresholds rise.
        self._below = np.maximum.accumulate(limits.below)
        self._above = np.minimum.accumulate(limits.above[::-1])[::-1]

    @cached_property
    def _fine(self) -> _Fine:
        centre = centre_of(self._points, self._whitening)
        return _Fine(self._metric.form, self._whitening.shift, centre, self._points, self._limits.exact)

    def at(self, index: Indices) -> NDArray[np.integer[Any]]:
        """The exact levels of the rows at some positions, one of each kind looked at, and that once."""
        where, kind = distinct(Vectors((self._metric.points[index],)))
        rows = self._metric.points[index[where]]
        keys = [row.tobytes() for row in rows + 0.0]  # + 0.0 makes -0.0 and 0.0 one
        fresh = [i for i, key in enumerate(keys) if key not in self._known]
        found = dict(zip([keys[i] for i in fresh], self.levels(rows[fresh]), strict=True))
        levels = [self._known[key] if key in self._known else found[key] for key in keys]
        if len(self._known) * rows.shape[1] < _MOST_KNOWN:
            self._known.update(found)
        return np.array(levels, dtype=narrowest(len(self._limits.exact)))[kind]

    @cached_property
    def _known(self) -> dict[bytes, int]:
        """The levels of rows that were looked at: where there are few kinds of rows, every kind comes often."""
        return {}

    def levels(self, rows: Floats) -> list[int]:
        """The exact levels of rows."""
        together = max(1, min(_AT_ONCE, _ENTRIES // max(1, len(self._points))))
        return [level for part in blocks(len(rows), together) for level in self._levels(rows[part])]

    def _levels(self, rows: Floats) -> list[int]:
        """The same for a few rows, whose pairs are looked at together."""
        doubt = self._from_products(rows)
        first = len(doubt.open())
        for stage in self._stages(first):
            part = doubt.open()
            if part.size:
                doubt = stage(rows, doubt, part).narrowed(self._allowed)
                self._tied |= stage == self._exactly and 2 * len(part) >= first >= SEVERAL  # floats were of little use
        levels: list[int] = doubt.least.tolist()
        return levels

    def _stages(self, count: int) -> tuple[Callable[[Floats, _Doubt, Indices], _Doubt], ...]:
        """Who looks at so many pairs, one after the other."""
        stages = self._directly, self._in_pairs_of_floats, self._exactly
        if self._whitening.whole is not None:  # then integers are quicker
            return stages[2:]
        if count >= SEVERAL and (
            self._tied or (self._asked > _MANY and self._points.shape[1] < LARGE and self._integers.few)
        ):
            return stages[2:]
        return stages

    def _from_products(self, rows: Floats) -> _Doubt:
        """What the products of the screen tell of rows: less than of all rows at once, where bounds are the same for many."""
        lower, upper = self._screen.bounds(rows)
        near, far = self._screen.limits
        least, most = self._level_from(lower, far), self._level_from(upper, near)
        out = lower > far[most - 1][:, None]
        doubtful = (upper > near[np.minimum(least, len(near) - 1)][:, None]) & ~out & (least < most)[:, None]
        owner, other = np.nonzero(doubtful)
        return _Doubt(least, most, np.count_nonzero(out, axis=1), owner, other, least[owner], most[owner])

    def _level_from(self, forms: Floats, limits: Floats) -> Indices:
        """For each row the least level ell at which at most allowed[ell] forms exceed limits[ell]."""
        ranked = np.sort(forms, axis=1)[:, self._rank] if forms.size else np.zeros((len(forms), 1))
        return first_true(self._possible & (self._always | (ranked <= limits)))

    def _directly(self, rows: Floats, doubt: _Doubt, part: Indices) -> _Doubt:
        """What direct differences tell."""
        low, high = doubt.low.copy(), doubt.high.copy()
        for some in (part[block] for block in self._blocks(part)):
            vectors = self._differences(rows, doubt, some)
            bounds = certified.norm_bounds(*certified.whiten(vectors, self._whitening), self._whitening.epsilon)
            low[some] = np.maximum(low[some], np.searchsorted(self._above, bounds.lower))  # far at each level before
            high[some] = np.minimum(high[some], np.searchsorted(self._below, bounds.upper))  # near at this level
        found = doubt._replace(low=low, high=high)
        told = found.narrowed(self._allowed)
        certified.note("direct", int(np.count_nonzero((doubt.least < doubt.most) & (told.least == told.most))))
        return found

    def _in_pairs_of_floats(self, rows: Floats, doubt: _Doubt, part: Indices) -> _Doubt:
        """What pairs of floats tell, once there have been many questions."""
        self._asked += len(part)
        if self._asked <= _MANY or not self._fine.useful:
            return doubt
        low, high, white = doubt.low.copy(), doubt.high.copy(), self._fine.whiten(rows)
        for some in (part[block] for block in self._blocks(part)):
            own = white.take(doubt.owner[some])
            low[some], high[some] = self._fine.levels(own, doubt.other[some], low[some], high[some])
        return doubt._replace(low=low, high=high)

    def _exactly(self, rows: Floats, doubt: _Doubt, part: Indices) -> _Doubt:
        """What integers tell: all."""
        if len(part) >= SEVERAL:
            differences = integer_rows(self._about_one(rows), self._metric.form.unit)
            if self._integers.primes(self._integers.bits(differences)) <= MOST_PRIMES:
                return self._by_residues(differences, doubt, part)
        low, high = doubt.low.copy(), doubt.high.copy()
        for some in (part[block] for block in self._blocks(part)):
            low[some] = high[some] = self._pair_levels(self._differences(rows, doubt, some))
        return doubt._replace(low=low, high=high)

    def _by_residues(self, rows: list[list[int]], doubt: _Doubt, part: Indices) -> _Doubt:
        """The same for many pairs."""
        low, high = doubt.low.copy(), doubt.high.copy()
        certified.note("exact", len(part))
        while part.size:
            middle = (low[part] + high[part]) // 2
            levels, which = np.unique(middle, return_inverse=True)
            bars = [self._bar(ell) for ell in levels.tolist()]
            far = self._integers.signs(rows, doubt.owner[part], doubt.other[part], bars, which) > 0
            low[part[far]], high[part[~far]] = middle[far] + 1, middle[~far]
            part = part[low[part] < high[part]]
        return doubt._replace(low=low, high=high)

    @cached_property
    def _integers(self) -> IntegerDistances:
        form = self._metric.form
        return IntegerDistances(form.inverse[0], integer_rows(self._about_one(self._points), form.unit))

    def _about_one(self, rows: Floats) -> Vectors:
        """Rows about a reference row: smaller integers."""
        return Vectors((rows,), (np.broadcast_to(self._points[0], rows.shape),))

    def _bar(self, ell: int) -> int:
        """The largest integer v^T N v that is near at a level."""
        form, limit = self._metric.form, self._limits.exact[ell]
        scaled = limit.numerator * form.inverse[1] << max(0, -form.exponent)
        return scaled // (limit.denominator << max(0, form.exponent))

    def _blocks(self, part: Indices) -> list[slice]:
        return blocks(len(part), max(1, _ENTRIES // self._points.shape[1]))

    def _differences(self, rows: Floats, doubt: _Doubt, some: Indices) -> Vectors:
        return Vectors((rows[doubt.owner[some]],), (self._points[doubt.other[some]],))

    def _pair_levels(self, vectors: Vectors) -> Indices:
        """The exact least level at which each pair is near.

        Floats on both sides of the exact form, against those of the thresholds, leave few levels for exact comparisons.
        """
        where, kind = distinct(vectors)
        form = self._metric.form
        numerators, denominator = form.values(integer_rows(vectors.take(where), form.unit))
        certified.note("exact", len(where))
        exact, found = self._limits.exact, []
        sides = np.array([enclose(value, denominator) for value in numerators], dtype=np.float64).reshape(-1, 2)
        lows = np.searchsorted(self._above, sides[:, 0]).tolist()  # far at each level before
        highs = np.searchsorted(self._below, sides[:, 1]).tolist()  # near at this level, if it is one
        for value, low, high in zip(numerators, lows, highs, strict=True):

            def near(limit: Ratio, value: int = value) -> bool:
                return value * limit.denominator <= limit.numerator * denominator

            found.append(bisect_left(exact, True, low, high, key=near))
        return np.array(found, dtype=np.int64)[kind]


# Pairs of floats ------------------------------------------------------------------------------------------------------


class _White(NamedTuple):
    """Whitened vectors high + low, and the lengths of |W||S v|."""

    high: Floats
    low: Floats
    size: Floats

    def take(self, index: Indices) -> _White:
        """Some of them."""
        return _White(self.high[index], self.low[index], self.size[index])


class _Fine:
    """Forms of differences of rows in pairs of floats, about 100 bits, and the levels that follow.

    *Statement, vectors.* With W* = W + rest to 4 u^2 |W| (:func:`inverse_root`) and S (x - c) = s + e exactly, entry l of
    W* S (x - c) is the sum of d products s W, each p + q exactly (Dekker), with running sums of p whose errors are known
    exactly (TwoSum; numpy's ``accumulate`` is r_i = r_(i-1) + p_i by definition), and of e W and s rest. Let A = |W||s|. The
    q sum to u A, e W to u A, s rest to 2 u A, d errors of sums to d u A; their own sum goes through at most d + 8 roundings.
    Without e rest (2 u^2 A) that errs by delta <= ((3 d + 8)(d + 4) + 6) u^2 A (1 + small) <= pair_error/2 A. At last
    high + low is that sum, exactly, and |low| <= u |high|.
    *Forms.* For two rows let m = A + A' and F = sum m_l^2 <= (|A| + |A'|)^2. a + b = high - high' exactly, and
    t = fl(b + (low - low')) errs by 3 u^2 m, |t| <= 2 u m. a^2 = p + q exactly; t^2 is left out (4 u^2 m^2), and
    fl(2 a t) errs by 4 u^2 m^2. The sum of all q, 2 a t and errors of the running sum of p has terms that sum to (d + 5) u F
    and at most d + 4 roundings each. With 2 m delta from the vectors, the form errs by at most
    (pair_error + ((d + 4)(d + 5) + 14) u^2) F (1 + small).
    *Comparison.* A threshold T is high + low to u^2 T. The gap (total - high) + (rest - low) is rounded three times: it errs
    by 3 u |gap| + 3 (d + 7) u^2 F besides. All of this is below 3/2 pair_error F (1 + small) + 4 u |gap|, so a gap beyond
    2 pair_error F has the right sign. A threshold beyond all floats is infinite, and above every form that is considered.

    *Range.* Nonzero entries of W and |A| + |A'| lie in 2^-300..2^300 (checked; else nothing is known). So nothing overflows,
    |s| < 2^600, and what underflows is below d 2^-760 in a vector, far below pair_error (|A| + |A'|), and likewise for forms.

    *Source.* As for ``certified._whiten_twice``.
    """

    def __init__(
        self, form: QuadraticForm, shift: Indices, centre: Floats, points: Floats, exact: Sequence[Ratio]
    ) -> None:
        self._shift, self._centre, self._exact = shift, centre, exact
        self._matrix, self._rest = inverse_root(form, shift)
        entries = np.abs(self._matrix[self._matrix != 0])
        self.useful = bool(np.all((entries > _MODERATE[0]) & (entries < _MODERATE[1])))
        self._points = self.whiten(points)
        self._limits = np.full((2, len(exact)), np.nan)

    def whiten(self, points: Floats) -> _White:
        """W* S (x - c) for some rows x, a few at a time."""
        step, done = max(1, _ENTRIES // points.shape[1] ** 2), []
        for start in range(0, len(points), step):
            rows = points[start : start + step]
            pair = Vectors((rows,), (np.broadcast_to(self._centre, rows.shape),)).as_pair()
            s, e = (np.ldexp(part, self._shift) for part in pair)
            products, rest = _product(s[:, None, :], self._matrix)
            total, errors = _running_sum(products)
            low = e @ self._matrix.T + s @ self._rest.T + rest.sum(axis=-1) + errors
            high = total + low
            virtual = high - total
            magnitude = np.abs(s) @ np.abs(self._matrix).T
            size = np.sqrt(np.einsum("ij,ij->i", magnitude, magnitude))
            done.append(_White(high, (total - (high - virtual)) + (low - virtual), size))
        return _White(*(np.concatenate(part) for part in zip(*done, strict=True)))

    def forms(self, own: _White, some: Indices) -> tuple[Floats, Floats, Floats]:
        """The forms of x - R_j for some j, and one x or as many, as sums of two floats, and what they may be off by.

        Comparisons are included.
        """
        others = self._points.high[some]
        a, b = Vectors((np.broadcast_to(own.high, others.shape),), (others,)).as_pair()
        t = b + (own.low - self._points.low[some])
        squares, rest = _product(a, a)
        total, errors = _running_sum(squares)
        both = own.size + self._points.size[some]
        unsure = 2 * certified.pair_error(own.high.shape[1]) * both**2
        known = (both > _MODERATE[0]) & (both < _MODERATE[1])
        return total, (rest + 2 * a * t).sum(axis=-1) + errors, np.where(known, unsure, np.inf)

    def levels(self, own: _White, some: Indices, low: Indices, high: Indices) -> tuple[Indices, Indices]:
        """Where the least level lies at which each pair is near: it is in low..high."""
        total, rest, unsure = self.forms(own, some)
        low, high = low.copy(), high.copy()
        part = np.flatnonzero(np.isfinite(unsure) & (low < high))
        while part.size:
            middle = (low[part] + high[part]) // 2
            limit = self._limit(middle)
            gap = (total[part] - limit[0]) + (rest[part] - limit[1])
            far, near = gap > unsure[part], gap < -unsure[part]
            low[part[far]], high[part[near]] = middle[far] + 1, middle[near]
            part = part[far | near]
            part = part[low[part] < high[part]]
        certified.note("pairs", int(np.count_nonzero(low == high)))
        return low, high

    def _limit(self, levels: Indices) -> Floats:
        """Thresholds as sums of two floats."""
        found = self._limits[:, levels]
        if np.isnan(found[0]).any():
            for ell in np.unique(levels).tolist():
                self._limits[:, ell] = _as_pair(self._exact[ell])
            found = self._limits[:, levels]
        return np.asarray(found)


def _as_pair(ratio: Ratio) -> tuple[float, float]:
    """A positive rational as a sum of two floats, each the nearest to what it stands for; infinite beyond all floats."""
    try:
        high = ratio.numerator / ratio.denominator
    except OverflowError:
        return math.inf, 0.0
    numerator, denominator = high.as_integer_ratio()
    below = ratio.numerator * denominator - numerator * ratio.denominator
    return high, below / (ratio.denominator * denominator)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """A b as a sum of two floats (Dekker); NaN where that overflows."""
    (a1, a2), (b1, b2), product = _split(a), _split(b), a * b
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Floats) -> tuple[Floats, Floats]:
    """A as a sum of two numbers of 26 bits (Veltkamp)."""
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def _running_sum(terms: Floats) -> tuple[Floats, Floats]:
    """The sum over the last axis, term by term, and the sum of its rounding errors, each known exactly (TwoSum)."""
    partial = np.add.accumulate(terms, axis=-1)
    old, new, added = partial[..., :-1], partial[..., 1:], terms[..., 1:]
    virtual = new - old
    return partial[..., -1], ((old - (new - virtual)) + (added - virtual)).sum(axis=-1)
