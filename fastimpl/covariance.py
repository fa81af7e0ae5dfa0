"""LargestGoodSubset and StableCovariance at BLAS speed, with the decisions of exact arithmetic.

All levels come from one decreasing pass over the thresholds: by Lemma 28 (i) a row that leaves at one level is in no lower
one. By Lemma 27 the order of removal does not matter, so rows whose removal the float bounds prove go first, and exact
arithmetic looks only at what is left in doubt on a set that no proved removal can change any more.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Bounds, Whitening
from fastimpl.exact import QuadraticForm, column_units, integer_rows, rounded
from fastimpl.grams import BlockGrams, KeptGram, Watch, blocks, usual_shift
from fastimpl.limits import Ratio, Thresholds, enclose, outlier_limits, thresholds
from fastimpl.residues import MOST_PRIMES, SEVERAL, IntegerDistances
from fastimpl.rows import (
    READ_ROWS,
    Dense,
    Floats,
    Indices,
    Sparse,
    Vectors,
    as_rows,
    distinct,
    is_many,
    narrowest,
    pairs,
    positive,
    require_finite,
)
from fastimpl.sums import exact_sums
from fastimpl.threads import one_blas_thread
from refimpl.parameters import REPAIRED, Edition, Real, as_integer, checked_edition, checked_window
from refimpl.results import StableCovarianceResult

__all__ = [
    "KeptResult",
    "good_subset_levels",
    "largest_good_subset",
    "level_counts",
    "score_of",
    "settled",
    "stable_covariance",
    "stable_second_moment",
]

_LARGEST_BUDGET = 0.25
_MANY = 256  # candidates that cost next to nothing
_FEWEST_BLOCKS = 16
_MOST_SUSPECTS = 4096
_LARGE_BLOCK = 1 << 17  # vectors that leave together, where all do
_TOGETHER, _FEWEST_TOGETHER = 1 << 16, 256  # numbers, and vectors, that become integers together
_AT_ONCE = 1 << 18  # vectors among which candidates are sought together
_FEW_GONE = 4  # bounds are grown if no more have gone since they were made
_FEWEST_ASKED = 4  # candidates that integers are asked about once more
_FEW_GO = 32  # if one in so many of those who are asked once more goes, more are asked in the same set
_FEW_KINDS = 8  # vectors that may as well all be different
_NONE, _FIRST = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
_ROOM = 1 << 24  # bytes that candidates may take, if eight a vector are not more
_SAMPLE = 2048
_SAMPLE_OF_SAMPLE = 512
_WATCHED, _WATCHED_FROM = 128, 1 << 14  # columns up to which a watch pays, and vectors from which
_SAMPLE_OF_COLUMN = 160  # rows of a sample for each column: directions differ by 16 % then
_FEW_SEEN = 0.01  # a watch that remembers a larger share of the sample is not worth it

Halt = Callable[[int, int], bool]
"""(rows missing so far, level in work) -> whether nothing that is still owed can change."""


@dataclass(frozen=True, eq=False)
class KeptResult(StableCovarianceResult):
    """A result that knows the float64 Gram matrix it was made of; a copy, or one that is read back, does not."""

    gram: KeptGram | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """How to copy and to pickle it: as a plain result."""
        return StableCovarianceResult, (self.covariance, self.score, self.weights, self.entry_level)


@np.errstate(all="ignore")
def largest_good_subset(y: object, lam: Real) -> frozenset[int]:
    """LargestGoodSubset: the unique largest lam-good subset of the rows y, or the empty set if there is none.

    The norm of every vector in a singular matrix is infinite; a norm equal to lam stays in; the average divides by m.

    Parameters
    ----------
    y
        m x d rows, m >= 1, finite.
    lam
        Threshold, positive, in squared Mahalanobis units.

    Returns
    -------
    frozenset of int
        Row indices, 0-based; equal to exact arithmetic's.

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
    vectors, threshold = _centred(y), positive("lam", lam)
    entry = good_subset_levels(vectors, [threshold])
    return frozenset(np.flatnonzero(entry.dense() == 0).tolist())


def stable_second_moment(
    y: object, lambda_0: Real, k: int, *, edition: Edition = REPAIRED, window: int | None = None
) -> StableCovarianceResult:
    """StableCovariance for rows that are given directly, known to be centred: no pairing.

    Parameters
    ----------
    y
        m x d rows, m >= 1, finite.
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
        ``entry_level`` and ``score`` equal exact arithmetic's; weights and covariance are rounded to float64.

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
    vectors, lam, k = _centred(y, finite=False), positive("lambda_0", lambda_0), as_integer("k", k, 1)
    window = checked_window(window, k, checked_edition(edition), lam, len(vectors))
    return second_moment_result(vectors, lam, k, edition, window)


def stable_covariance(x: object, lambda_0: Real, k: int, *, edition: Edition = REPAIRED) -> StableCovarianceResult:
    """StableCovariance: the nonprivate covariance estimate that hardly moves when one row is replaced.

    Parameters
    ----------
    x
        n x d rows, n >= 2, finite. Row n is ignored where n is odd.
    lambda_0, k, edition
        As in :func:`stable_second_moment`.

    Returns
    -------
    StableCovarianceResult
        Of the m = floor(n/2) paired rows: ``entry_level`` and ``score`` equal exact arithmetic's; weights and covariance are
        rounded to float64. Of many rows it keeps the float64 sums for :func:`stable_mean`, as long as x is not written to.

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
    rows = as_rows("x", x, finite=False)  # that the pairs are finite shows in their sums
    if len(rows) < 2:
        raise ValueError("x must have at least two rows")
    if len(rows) % 2:
        require_finite("x", rows[-1:])
    return paired_result(pairs(rows), positive("lambda_0", lambda_0), as_integer("k", k, 1), checked_edition(edition))


@np.errstate(all="ignore")
def paired_result(
    vectors: Vectors, lambda_0: Fraction, k: int, edition: Edition, *, early: bool = False
) -> StableCovarianceResult:
    """:func:`stable_covariance` of given pairs; ``early`` halts as soon as min(score, k) and the counts are settled."""
    return second_moment_result(vectors, lambda_0, k, edition, None, early=early, paired=True)


@one_blas_thread
@np.errstate(all="ignore")
def second_moment_result(
    vectors: Vectors,
    lambda_0: Fraction,
    k: int,
    edition: Edition,
    window: int | None,
    *,
    early: bool = False,
    paired: bool = False,
) -> StableCovarianceResult:
    """:func:`stable_second_moment` without its checks, but for rows that are not finite.

    ``paired`` vectors are differences of rows x, which leave out the factor 1/2 of the covariance.
    """
    m = len(vectors)
    levels = range(edition.last_level(k, window) + 1)
    limits = outlier_limits(edition, lambda_0, k, m, levels, Fraction(1, m))
    grams = watched_grams(vectors, limits)
    if not grams.finite:
        require_finite("x" if paired else "y", *vectors.parts)
    entry = good_subset_levels(vectors, limits, settled(k, edition, window) if early else None, grams)
    window_levels = edition.weight_levels(k, window)
    table = level_counts(np.arange(len(levels) + 1), window_levels)
    weights, narrow = entry.spelled_out(table / float(len(window_levels) * m))
    counts = entry.mapped(table)
    sums = grams.total(counts)
    covariance = _weighted_second_moment(grams, counts, sums, (1 + paired) * len(window_levels) * m)
    kept = KeptGram.of(grams, counts, sums) if paired else None
    return KeptResult(covariance, score_of(entry, k, edition, window), weights, narrow, gram=kept)


def score_of(entry: Sparse, k: int, edition: Edition, window: int | None = None) -> int:
    """SCORE = min(k, min over the score levels of (rows missing from the set of level ell) + ell)."""
    levels = edition.score_levels(k, window)
    missing = entry.size - np.cumsum(entry.histogram(levels.stop + 1))
    return min(k, *(edition.level_score(int(missing[ell]), ell) for ell in levels))


def level_counts(entry: Sequence[int] | Indices, levels: range) -> Indices:
    """c_i, the number of weight levels whose set holds row i: the sets are nested, so those from entry_level on."""
    counts: Indices = np.maximum(0, levels.stop - np.maximum(np.asarray(entry, dtype=np.int64), levels.start))
    return counts


def settled(k: int, edition: Edition, window: int | None = None) -> Halt:
    """When a decreasing pass may stop (section 2.3): the score cannot change below k, and no count is still open."""
    scores, weights = edition.score_levels(k, window), edition.weight_levels(k, window)

    def halt(missing: int, ell: int) -> bool:
        below = [level for level in scores if level <= ell]
        hopeless = all(edition.level_score(missing, level) >= k for level in below)
        return hopeless and (len(below) == len(scores) or weights.start > ell)

    return halt


def _centred(y: object, *, finite: bool = True) -> Vectors:
    rows = as_rows("y", y, finite=finite)
    if len(rows) < 1:
        raise ValueError("y must have at least one row")
    return Vectors((rows,))


def _weighted_second_moment(grams: BlockGrams, counts: Sparse, sums: Floats, total: int) -> Floats:
    """(1/total) sum_i c_i v_i v_i^T in float64, symmetric bit for bit; infinite only where the result itself overflows."""
    second = sums / total
    sizes = np.diag(second)
    if np.all((sizes >= 2.0**-800) & (sizes <= 2.0**800)):
        second = np.ldexp(second, -(grams.shift[:, None] + grams.shift[None, :]))
    else:
        second = _carefully_weighted(grams.vectors, counts, total)
    if not np.isfinite(second).all():  # an entry may be finite, even 0, where the rounding of large terms overflows
        return _exactly_weighted(grams.vectors, counts, total)
    return np.asarray(np.tril(second) + np.tril(second, -1).T)


def _exactly_weighted(vectors: Vectors, counts: Sparse, total: int) -> Floats:
    """The same in exact arithmetic, each entry correctly rounded."""
    sums, unit = exact_sums(vectors, counts)
    powers = (unit[:, None] + unit[None, :]).tolist()
    rows = zip(sums.tolist(), powers, strict=True)
    return np.array([[rounded(int(v), total, power) for v, power in zip(*row, strict=True)] for row in rows])


def _carefully_weighted(vectors: Vectors, counts: Sparse, whole: int) -> Floats:
    """The same where columns of zeros or of wild sizes under- or overflow: every column scaled by its largest entry."""
    total = np.zeros((vectors.width, vectors.width))
    largest = np.zeros(vectors.width)
    for held, _ in counts.places(READ_ROWS):
        part = _quartered(vectors.take(held))
        largest = np.maximum(largest, np.abs(part).max(axis=0, initial=0.0))
    shift = -np.frexp(largest)[1].astype(np.int64)
    for held, count in counts.places(READ_ROWS):
        scaled = np.ldexp(_quartered(vectors.take(held)), shift)
        total += scaled.T @ (scaled * (count / float(whole))[:, None])
    return np.asarray(np.ldexp(total, 4 - (shift[:, None] + shift[None, :])))


def _quartered(vectors: Vectors) -> Floats:
    """A quarter of the vectors in plain float64, which cannot overflow."""
    if not vectors.minus:
        return vectors.plus[0] / 4
    pairs = zip(vectors.plus, vectors.minus, strict=True)
    return np.asarray(sum(a / 4 - b / 4 for a, b in pairs))


# The decreasing pass --------------------------------------------------------------------------------------------------


class _ExactGram:
    """The exact Gram matrix of a shrinking set of vectors: built when first asked for, then only updated."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._unit: NDArray[np.int64] | None = None
        self._members, self._size = np.empty(0, dtype=bool), 0
        self._form: QuadraticForm | None = None
        self._history: NDArray[np.float16] | None = None  # of a vector, see ``remember``; NaN if nothing is known

    def form(self, alive: NDArray[np.bool_]) -> QuadraticForm:
        """V -> v^T G^-1 v for the Gram matrix G of the vectors ``alive``."""
        size, before = int(np.count_nonzero(alive)), self._size
        if self._unit is None:
            self._unit = column_units(self._vectors)
        if self._form is None or before - size > size:
            self._form = QuadraticForm(self._gram(alive), self._unit)
        elif size == before:
            return self._form  # the set only shrinks, so equal sizes are equal sets
        elif before - size <= _FEWEST_TOGETHER:
            gone = np.flatnonzero(self._members > alive)
            self._form = self._form.without(integer_rows(self._vectors.take(gone), self._form.unit))
        else:
            self._form = QuadraticForm(self._form.matrix - self._gram(self._members > alive), self._form.unit)
        self._members, self._size = alive.copy(), size
        return self._form

    def _gram(self, members: NDArray[np.bool_]) -> fmpz_mat:
        return exact_sums(self._vectors, Sparse.without(members), self._unit)[0]

    def exceed(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio) -> tuple[NDArray[np.bool_], Bounds]:
        """Which vectors of ``index`` have a form above the threshold, decided exactly, and enclosures of the forms."""
        form, together = self.form(alive), max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width)
        parts = [self._exceed(form, index[part], threshold) for part in blocks(len(index), together)]
        above, lower, upper = parts[0]
        if len(parts) > 1:
            above, lower, upper = (np.concatenate(part) for part in zip(*parts, strict=True))
        return above, Bounds(lower, upper)

    def above(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio) -> NDArray[np.bool_] | None:
        """Only which have a form above the threshold: by residues; None if they are few, or take too many primes."""
        form, (where, kind) = self.form(alive), distinct(self._vectors.take(index))
        if len(where) < SEVERAL:
            return None
        (matrix, denominator), rows = form.inverse, integer_rows(self._vectors.take(index[where]), form.unit)
        integers = IntegerDistances(matrix, [[0] * form.width])
        if integers.primes(integers.bits(rows)) > MOST_PRIMES:
            return None
        certified.note("exact", len(where))
        zeros, bar = np.zeros(len(where), dtype=np.int64), threshold.numerator * denominator // threshold.denominator
        return integers.signs(rows, np.arange(len(where)), zeros, [bar], zeros)[kind] > 0

    def remember(self, index: Indices, growth: Floats) -> None:
        """That integers were asked about vectors, and how much, about, their forms have grown since then: its logarithm."""
        if self._history is None:
            self._history = np.full(len(self._vectors), np.nan, dtype=np.float16)
        with np.errstate(all="ignore"):
            self._history[index] = np.log2(growth)

    def recalled(self, index: Indices) -> tuple[NDArray[np.bool_], Floats]:
        """Which of some vectors integers were asked about, and that growth: for the order in which they are asked again."""
        if self._history is None:
            return np.zeros(len(index), dtype=bool), np.zeros(len(index))
        history = self._history[index].astype(np.float64)
        asked = ~np.isnan(history)
        return asked, np.where(asked, np.exp2(history), 0.0)

    def _exceed(
        self, form: QuadraticForm, index: Indices, threshold: Ratio
    ) -> tuple[NDArray[np.bool_], Floats, Floats]:
        vectors = self._vectors.take(index)
        where, kind = distinct(vectors) if len(index) > _FEW_KINDS else (np.arange(len(index)),) * 2
        numerators, denominator = form.values(integer_rows(vectors.take(where), form.unit))
        certified.note("exact", len(where))
        above = [v * threshold.denominator > threshold.numerator * denominator for v in numerators]
        sides = np.array([enclose(v, denominator) for v in numerators], dtype=np.float64)
        return np.array(above)[kind], sides[kind, 0], sides[kind, 1]


@one_blas_thread
def good_subset_levels(
    vectors: Vectors,
    exact: Sequence[Fraction] | Thresholds,
    halt: Halt | None = None,
    grams: BlockGrams | None = None,
) -> Sparse:
    """For each vector the least level whose largest good subset holds it, or one more than the last level if none does.

    Parameters
    ----------
    vectors
        m vectors y_i (up to a common factor, which no norm sees).
    exact
        Nondecreasing thresholds lambda_ell of the squared norms m y^T (sum_S y y^T)^-1 y; or lambda_ell/m with their float
        sides (``limits.outlier_limits``), which is quicker where there are many.
    halt
        If given, asked after every removal whether to stop; levels below are then not looked at.
    grams
        The float64 Gram matrices of the vectors, if they are there already.
    """
    m = len(vectors)
    limits = exact if isinstance(exact, Thresholds) else thresholds(exact, Fraction(1, m))
    state = _Levels(m)
    floats = grams or watched_grams(vectors, limits)
    integers = _ExactGram(vectors)
    ell = len(limits.exact) - 1
    whitening = _without_suspects(vectors, floats, limits, state)
    while ell >= 0 and state.left and not (halt is not None and state.missing and halt(state.missing, ell)):
        whitening = whitening or _whitening(state, floats, integers)
        if whitening is None:  # singular: every norm is infinite
            state.remove_all(ell + 1)
            break
        ell = _Descent(floats, state, limits, whitening, integers).run(ell, halt)
        whitening = None
    return state.entry()


class _Levels:
    """Which vectors are still in, and at which level the others left."""

    def __init__(self, m: int) -> None:
        self.alive = np.ones(m, dtype=bool)
        self.left = m
        self._gone: list[tuple[NDArray[np.integer[Any]], int]] = [(np.empty(0, dtype=np.int64), 0)]
        self._levels: NDArray[np.integer[Any]] | None = None  # of all, once many are gone

    @property
    def missing(self) -> int:
        """How many are gone."""
        return len(self.alive) - self.left

    def remove(self, index: NDArray[np.integer[Any]], level: int) -> None:
        """These vectors are in the set of ``level``, and in none below."""
        self.alive[index] = False
        self.left -= len(index)
        self._gone.append((index, level))
        if self._levels is not None or is_many(self.missing, len(self.alive)):
            self._write_down()

    def remove_all(self, level: int) -> None:
        """The same for all that are still in."""
        for block in blocks(len(self.alive), _LARGE_BLOCK):
            self.remove(block.start + np.flatnonzero(self.alive[block]), level)

    def _write_down(self) -> None:
        largest = max(level for _, level in self._gone)
        levels = np.zeros(len(self.alive), dtype=np.int16) if self._levels is None else self._levels
        self._levels = levels = levels.astype(np.result_type(levels, narrowest(largest)), copy=False)
        while self._gone:
            index, level = self._gone.pop()
            levels[index] = level

    def counts(self) -> Sparse:
        """One for the vectors still in, zero for the others."""
        return Sparse.without(self.alive)

    def entry(self) -> Sparse:
        """The entry levels: zero for what is still in."""
        if self._levels is not None:
            return Dense(self._levels, 0)
        index = np.concatenate([part for part, _ in self._gone])
        level = np.concatenate([np.full(len(part), level, dtype=np.int64) for part, level in self._gone])
        order = np.argsort(index)
        return Sparse(len(self.alive), 0, index[order], level[order])


# Suspects -------------------------------------------------------------------------------------------------------------


def _without_suspects(vectors: Vectors, grams: BlockGrams, limits: Thresholds, state: _Levels) -> Whitening | None:
    """Remove at the last level what is far from the bulk; the whitening of the rest if it can be used again.

    Any set may be suspected: what is removed is proved to exceed the last threshold in the Gram matrix of everybody still
    there (``certified.surely_above``), from coordinates that the suspects do not distort. The largest go first, and the proof
    is repeated for the rest without them.
    """
    suspects, whitening = _suspects_and_base(vectors, grams, len(vectors) * float(limits.above[-1]))
    if whitening is None:
        return None
    z, error = certified.whiten(vectors.take(suspects), whitening)
    usable = np.isfinite(z).all(axis=1) & np.isfinite(error)
    if not usable.all():
        return None
    while suspects.size:
        out = certified.surely_above(z, error, whitening.epsilon, float(limits.above[-1]))
        if not out.any():
            return None
        state.remove(suspects[out], len(limits.exact))
        certified.note("float", int(np.count_nonzero(out)))
        suspects, z, error = suspects[~out], z[~out], error[~out]
    return whitening


def _suspects_and_base(vectors: Vectors, grams: BlockGrams, last: float) -> tuple[Indices, Whitening | None]:
    """Suspects, and a whitening of everybody else if one can be certified."""
    watched = grams.seen is not None
    for everywhere in (False,) if watched else (False, True):  # some may be hidden among others
        suspects = grams.without if watched else _suspects(vectors, grams, last, everywhere=everywhere)
        if not 0 < suspects.size <= _MOST_SUSPECTS:
            break
        base = Sparse(len(vectors), 1, suspects, np.zeros(len(suspects), dtype=np.int64))
        whitening = certified.float_whitening(grams, base)
        if whitening is not None:
            return suspects, whitening
    return suspects, None


def watched_grams(vectors: Vectors, limits: Thresholds) -> BlockGrams:
    """The Gram matrices, and in the same sweep the vectors that may matter, if they are easily told from the others."""
    shift = usual_shift(vectors)
    return BlockGrams(vectors, shift, watch=_watch(vectors, shift, limits))


def _watch(vectors: Vectors, shift: Indices, limits: Thresholds) -> Watch | None:
    """What to look out for: a guess from a trimmed sample, which ``certified.transfer`` has to confirm."""
    m, d = len(vectors), vectors.width
    size = max(_SAMPLE, _SAMPLE_OF_COLUMN * d)
    line = m * float(limits.below[0]) * (1 - _first_budget(limits)) * (1 - 2.5 * math.sqrt(d / size))
    if d > _WATCHED or m < max(_WATCHED_FROM, 4 * size) or not line > 0:
        return None
    rows = _sample(vectors, shift, size)
    room = np.empty_like(rows)
    some = rows[:: len(rows) // max(1000, 20 * d)]  # these do to tell outliers, and whether there is hope at all
    metric = _trimmed_metric(some)
    if metric is None:
        return None
    cut = max(2 * m * float(limits.above[-1]), 8 * d)
    for part in (some, rows) if len(rows) > 2 * len(some) else (rows,):
        forms = _forms(part, metric, room)
        bulk = _bulk(forms, cut / d)
        if not len(bulk) or np.count_nonzero(bulk > line / d * np.mean(bulk)) > 2 * _FEW_SEEN * len(bulk):
            return None
    if len(bulk) < len(rows):  # without outliers, and what is not known: trimming shrinks some directions more
        rows = rows.take(np.flatnonzero(forms <= bulk.max()), axis=0)
    try:
        matrix = np.tril(np.linalg.inv(np.linalg.cholesky(rows.T @ rows / len(rows))))
    except np.linalg.LinAlgError:
        return None
    forms = _forms(rows, matrix.T @ matrix, room)
    if not np.count_nonzero(forms > line) <= _FEW_SEEN * len(forms):
        return None
    single = d >= certified.SINGLE_FROM
    narrow = np.float32 if single else np.float64
    return Watch(matrix.astype(narrow).astype(np.float64), float(narrow(line)), cut, single)


def _forms(rows: Floats, metric: Floats, room: Floats) -> Floats:
    """The forms v^T M v of rows, from products that are written to a room for at least as many."""
    products = np.matmul(rows, metric, out=room[: len(rows)])
    return np.asarray(np.multiply(products, rows, out=products) @ np.ones(len(metric)))


def _bulk(forms: Floats, factor: float) -> Floats:
    """The forms that are known and not far beyond the one in the middle, so many times it and half as much again."""
    known = forms[np.isfinite(forms)]
    half = len(known) // 2
    return known[known <= 1.5 * factor * np.partition(known, half)[half]] if len(known) else known


def _remembered(grams: BlockGrams, whitening: Whitening, line: float) -> tuple[Indices, Floats] | None:
    """As ``certified.above_line``, from what the watch saw; None if it did not see everything above the line."""
    if grams.seen is None or grams.watch is None or not np.array_equal(grams.shift, whitening.shift):
        return None
    matrix, bar, _, single = grams.watch
    if not float(certified.transfer(whitening, matrix, np.array([bar]), single=single)[0]) <= line:
        return None
    z, error = certified.whiten(grams.vectors.take(grams.seen), whitening)
    forms = certified.norm_bounds(z, error, whitening.epsilon).upper
    above = ~(forms <= line)
    return grams.seen[above], forms[above]


def _suspects(vectors: Vectors, grams: BlockGrams, last: float, *, everywhere: bool = False) -> Indices:
    """Vectors of large norm about a trimmed subsample, sought only in blocks whose sum of squared norms stands out.

    A guess: no decision rests on it. ``last`` is the last threshold of squared norms.
    """
    m, d = len(vectors), vectors.width
    if len(grams.blocks) < _FEWEST_BLOCKS or m < 40 * d:
        return np.empty(0, dtype=np.int64)
    metric = _trimmed_metric(_sample(vectors, grams.shift, max(1000, 20 * d)))
    if metric is None:
        return np.empty(0, dtype=np.int64)
    sizes = np.array([block.stop - block.start for block in grams.blocks])
    means = grams.plain.reshape(len(sizes), -1) @ metric.ravel() / sizes
    known = means[~np.isnan(means)]  # not nanquantile, which warns where nothing is known: that would tell of the rows
    # A low quantile, since most blocks may hold outliers.
    typical, middle = np.quantile(known, [0.05, 0.5]).tolist() if len(known) else (math.nan, math.nan)
    spread = max(typical / math.sqrt(d * sizes[0] / 2), middle - typical if middle < 2 * typical else 0.0)
    found = [np.empty(0, dtype=np.int64)]
    bar = max(2 * last, 8 * d) * typical / d
    for i in np.flatnonzero(everywhere | ~(means <= typical + 12 * spread)).tolist():
        for block in blocks(sizes[i], grams.step):
            part = slice(grams.blocks[i].start + block.start, grams.blocks[i].start + block.stop)
            rows = grams.read(part)
            forms = np.einsum("ij,ij->i", rows @ metric, rows)
            found.append(part.start + np.flatnonzero(~(forms <= bar)))
    return np.concatenate(found)


def _sample(vectors: Vectors, shift: Indices, size: int) -> Floats:
    """About so many of the vectors, or all, scaled and rounded."""
    step = max(1, len(vectors) // size)
    rows = vectors.take(slice(None, None, step)).rounded()
    return np.asarray(np.ldexp(rows, shift)) if shift.any() else rows


def _trimmed_metric(rows: Floats) -> Floats | None:
    """About the inverse covariance of the bulk, up to a factor: of the middle three quarters of a sample."""
    count = 3 * len(rows) // 4
    with np.errstate(all="ignore"):
        columns = np.abs(np.ascontiguousarray(rows.T))  # numpy is slow at short rows
        some = columns[:, :: 1 + len(rows) // _SAMPLE_OF_SAMPLE]
        middle = np.partition(some, some.shape[1] // 2, axis=1)[:, some.shape[1] // 2]
        sizes = (columns / middle[:, None]).max(axis=0)
        for _ in range(3):
            kept = rows.take(np.argpartition(sizes, count - 1)[:count], axis=0) if count else rows
            try:
                metric = np.linalg.inv(kept.T @ kept / len(kept))
            except np.linalg.LinAlgError:
                return None
            if not np.isfinite(metric).all():
                return None
            forms = np.einsum("ij,ij->i", rows @ metric, rows)
            sizes = np.where(forms >= 0, forms, np.inf)
    return np.asarray(metric)


# One base set ---------------------------------------------------------------------------------------------------------


def _first_budget(limits: Thresholds) -> float:
    """How much the forms removed from one base may sum to: room for two vectors per level, if that is not too much."""
    return min(_LARGEST_BUDGET, 2 * len(limits.exact) * float(limits.above[-1]))


def _whitening(state: _Levels, floats: BlockGrams, integers: _ExactGram) -> Whitening | None:
    """A certified whitening of the Gram matrix of the vectors still in, or None if it is singular."""
    if state.left < floats.vectors.width:
        return None
    whitening = certified.float_whitening(floats, state.counts())
    if whitening is not None:
        return whitening
    form = integers.form(state.alive)
    certified.note("exact", 1)  # the rank
    return None if form.is_singular else certified.exact_whitening(form)


class _Descent:
    """The decreasing pass over levels on one base set, until it has shrunk too much for the base's bounds.

    Only candidates are looked at again after a removal: those whose form in the base may exceed ``bar``. If the vectors
    removed have forms that sum to at most s in the base, no other form grows by more than 1/(1 - s) (Claim 29), so whoever is
    no candidate stays in at every level whose threshold is at least bar/(1 - s). That is all levels while s is at most
    ``budget`` if the bar is (1 - budget) times the lowest threshold, and so it is where candidates are few. Where they are
    more than there is room for, the bar is raised above the lower half of them, again and again: then the base serves for
    some levels only, and the next base for the others. Where so many may exceed the threshold of a single level, those that
    surely do go at once, and if there are none, integers decide about some vectors at a time; nothing is kept of anybody.

    Bounds of a candidate are made anew only when they do not tell any more. *Statement.* They hold for the set that was left
    when they were made, in which ``sum`` was ``as_of``; no form falls when others go, so lower bounds go on to hold. ``sum``
    adds up upper bounds on the forms of those who have gone, each in the set that it left. In a set before that its form was no
    larger, so those gone since the bounds were made have forms in that set that sum to at most sum - as_of, and a form has
    grown by 1/(1 - (sum - as_of)) at most (Claim 29). That holds for the bounds of those who go as well.
    """

    def __init__(
        self, floats: BlockGrams, state: _Levels, limits: Thresholds, whitening: Whitening, integers: _ExactGram
    ) -> None:
        self._floats, self._vectors, self._state, self._limits = floats, floats.vectors, state, limits
        self._whitening, self._integers = whitening, integers
        self._budget = _first_budget(limits)
        self._gone, self._gone_error = np.empty((0, floats.vectors.width)), np.empty(0)
        self._spent = 0.0
        self._bar = self._line(self._budget)
        # Of a candidate: itself and its whitened vector, an image of that, and a dozen numbers.
        self._most = max(_ROOM, 8 * len(self._vectors)) // (16 * self._vectors.width + 128)

    def _above(self) -> Iterator[NDArray[np.integer[Any]]]:
        """Who may be a candidate, for as large a budget as leaves them few."""
        tight = min(_LARGEST_BUDGET, len(self._limits.exact) * float(self._limits.above[-1]))
        most, count, narrow = _MANY + len(self._vectors) // 1000, 0, narrowest(len(self._vectors))
        pairs: list[tuple[Indices, Floats]] = []
        for index, forms in self._looked_for(self._bar):
            alive = self._state.alive[index]
            pairs.append((index[alive], forms[alive]))
            count += len(pairs[-1][0])
            if count > most:
                self._budget, self._bar = tight, max(self._bar, self._line(tight))
                yield from (some[~(sizes <= self._bar)].astype(narrow) for some, sizes in pairs)
                pairs.clear()
        yield from (index for index, _ in pairs)

    def _looked_for(self, line: float) -> Iterator[tuple[Indices, Floats]]:
        """Vectors that may be above the line, and bounds on their forms, some blocks at a time."""
        known = _remembered(self._floats, self._whitening, line)
        if known is not None:
            yield known
            return
        step = self._vectors.step
        for some in blocks(-(-len(self._vectors) // step), max(1, _AT_ONCE // step)):
            yield certified.above_line(self._vectors, self._whitening, line, some)

    def _collect(self, ell: int) -> bool:
        """The candidates; False if those that surely go at level ell are gone, and nothing has been kept of anybody.

        That is so if they use up the base, or if more may go at this level than there is room for; perhaps nobody surely goes.
        """
        left, goes, count, held, used = self._state.left, float(self._limits.above[ell]), 0, 0, False
        kept: list[tuple[NDArray[Any], ...]] = []
        for part in self._pieces():
            kept.append(part)
            count, held = count + len(part[0]), held + len(part[0])
            self._spent += float(np.sum(part[4][part[3] > goes]))
            if held > self._most and not used:
                middle = float(np.median(np.concatenate([upper for *_, upper in kept])))
                self._bar = min(middle, float(self._limits.below[ell]))  # so nobody is dropped who goes now
                kept = [tuple(column[some[-1] > self._bar] for column in some) for some in kept]
                held = sum(len(some[0]) for some in kept)
            # A matter of cost only: who goes, goes whatever it sums to.
            if used or self._spent > self._budget or not self._covers(ell):
                used = True
                while kept:
                    some, _, _, lower, _ = kept.pop()
                    self._state.remove(some[lower > goes], ell + 1)
        certified.note("float", left - count)
        if used:
            certified.note("float", left - self._state.left)
            return False
        self._spent = 0.0
        columns = [list(column) for column in zip(*kept, strict=True)]
        kept.clear()
        self._index, self._z, self._error, lower, upper = (np.concatenate(columns.pop(0)) for _ in range(5))
        self._base = upper.copy()
        self._asked, self._growth = self._integers.recalled(self._index)
        self._set(Bounds(lower, upper))
        return True

    def _set(self, bounds: Bounds) -> None:
        """Bounds on the forms of all candidates in the base, which come from floats alone."""
        self._bounds, self._sum, self._gone_at = bounds, 0.0, {0.0: 0}
        self._as_of: Floats = np.zeros(len(bounds.upper))
        self._told = np.zeros(len(bounds.upper), dtype=bool)  # whose bounds do not come from floats alone
        self._held = ~self._told  # who has not gone
        self._left: tuple[int, tuple[Floats, float] | None] = 0, (np.eye(self._z.shape[1]), self._whitening.epsilon)
        self._known = 0  # how many of those gone are in ``growth``
        self._reach: Floats | None = None
        self._columns: Floats | None = None
        self._by_growth = False  # whether the last one who went was among those that have grown most
        self._seen = len(self._limits.exact)  # the level at which all lower bounds have been looked at

    def _line(self, budget: float, ell: int = 0) -> float:
        return float(self._limits.below[ell]) * (1 - budget) * (1 - 2.0**-46)

    def _covers(self, ell: int) -> bool:
        """Whether nobody but candidates can go at level ell or above, as long as no more is spent."""
        return self._bar <= self._line(self._spent, ell)

    def _near(self, ell: int) -> NDArray[np.bool_]:
        """Who may exceed the threshold of level ell, as far as bounds and what is gone since they were made tell.

        As_of + (1 - sum) is exact: a multiple of 2^-50 that is at most 1; and positive, as the base is given up at sum = 1.
        """
        return np.asarray(self._bounds.upper > (self._as_of + (1 - self._sum)) * self._line(0.0, ell))

    def _pieces(self) -> Iterator[tuple[Any, Floats, Floats, Floats, Floats]]:
        """Who may be above the bar, some at a time: whitened, with errors and bounds."""
        for part in self._above():
            for block in blocks(len(part)) or [slice(0)]:
                index = part[block]
                z, error = certified.whiten(self._vectors.take(index), self._whitening)
                bounds = certified.norm_bounds(z, error, self._whitening.epsilon)
                keep = bounds.upper > self._bar
                yield index[keep], z[keep], error[keep], bounds.lower[keep], bounds.upper[keep]

    def run(self, ell: int, halt: Halt | None) -> int:
        """Go down from level ell; returns the level to go on with, -1 when done."""
        left = self._state.left
        if not self._collect(ell):
            return self._decide(ell) if self._state.left == left else ell
        while ell >= 0 and self._covers(ell):
            out = self._next(ell)
            if out is None:
                self._keep_growth()
                return ell
            if not len(out):
                ell = self._next_level(ell)
                continue
            self._remove(out, ell)
            if halt is not None and halt(self._state.missing, ell):
                return -1
            if self._spent > self._budget or self._sum >= 1:
                self._keep_growth()
                return ell
        if ell < 0:
            certified.note("float", int(np.count_nonzero(~self._told)))  # those that stay
        return ell

    def _decide(self, ell: int) -> int:
        """Nobody surely goes at level ell: integers decide about some at a time; returns the level to go on with.

        Whoever exceeds the threshold in the set as it was goes, whoever else has gone meanwhile (Lemma 27); so the set in
        which they are asked is one, and if some go, the others are asked once more in what is left.
        """
        left, alive, self._bar = self._state.left, self._state.alive.copy(), float(self._limits.below[ell])
        for index, *_ in self._pieces():
            if len(index):
                above, _ = self._integers.exceed(alive, index, self._limits.exact[ell])
                self._state.remove(index[above], ell + 1)
        return ell - (self._state.left == left)

    def _next_level(self, ell: int) -> int:
        """The next level at which anybody may go, if nobody goes at level ell any more."""
        largest = float((self._bounds.upper / (self._as_of + (1 - self._sum))).max(initial=0.0))
        return bisect_left(range(ell), True, key=lambda at: self._covers(at) and largest <= self._line(0.0, at)) - 1

    def _next(self, ell: int) -> Indices | None:
        """Some candidates that exceed the threshold of level ell, or none if there are none; None if the base does not tell.

        As soon as some go, the others need not be asked in this set (Lemma 27). Where many go of those who are asked once more,
        the next ones are asked in the same set, so that there are not as many rounds as there are vectors that go.
        """
        limit, line, found = self._limits.above[ell], self._limits.below[ell], [_NONE]
        if ell < self._seen:  # afterwards lower bounds rise only where they are looked at
            self._seen, sure = ell, np.flatnonzero(self._bounds.lower > limit)
            if len(sure):
                certified.note("float", int(np.count_nonzero(~self._told[sure])))
                return sure
        for turn, part in enumerate(self._groups(ell)):
            if not self._renew(part):
                return None
            out = part[self._bounds.lower[part] > limit]
            if len(out):
                certified.note("float", len(out))
            else:
                out = self._decided(part[self._bounds.upper[part] > line], ell)
            found.append(out)
            if len(out) and (not turn or len(part) <= _FEWEST_ASKED or _FEW_GO * len(out) < len(part)):
                break
        return np.concatenate(found)

    def _groups(self, ell: int) -> Iterator[Indices]:
        """Those who may go at level ell, in the order in which they are to be looked at; the order is a matter of cost only.

        Those come first about whom integers have not been asked before: who stayed then will mostly stay again. Of the others
        those whose forms have grown most since then, a few, then more and more of them.
        """
        near = self._near(ell)
        fresh = np.flatnonzero(near > self._asked)
        if len(fresh) > _MANY and self._grown(fresh, ell):
            near = self._near(ell)
            fresh = np.flatnonzero(near > self._asked)
        before = near & self._asked  # as long as nobody new is
        if not (self._by_growth and before.any()):
            yield fresh
            fresh = _NONE
        if not before.any():
            return
        growth = self._estimated() * before
        most = np.flatnonzero(growth > float(growth.max(initial=0.0)) / 2)[:_FEWEST_ASKED]
        self._by_growth = True  # if one of these goes, look at them at once next time
        yield np.concatenate([fresh, most])
        self._by_growth = before[most] = False
        rest = np.flatnonzero(before)
        if len(rest) > _MANY and self._grown(rest, ell):
            rest = rest[self._near(ell)[rest]]
        rest, size = rest[np.argsort(-growth[rest])], _FEWEST_ASKED
        while len(rest):
            size = min(8 * size, max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width))
            yield rest[:size]
            rest = rest[size:]

    def _estimated(self) -> Floats:
        """How much forms have grown since integers were asked, about: for the order only."""
        new, whitening = self._gone[self._known :], self._removal()
        self._known = len(self._gone)
        if whitening is not None and len(new):
            images = new @ whitening[0].T @ whitening[0]
            if len(images) <= _FEW_GONE:
                for one in images:
                    inner = self._tall() @ one
                    self._growth += inner * inner
            else:
                self._growth += np.einsum("ij,ij->i", self._z @ (images.T @ images), self._z)
        return self._growth

    def _keep_growth(self) -> None:
        """For the next base: about whom integers were asked, and how much their forms have grown since then."""
        self._integers.remember(self._index[self._asked], self._estimated()[self._asked])

    def _tall(self) -> Floats:
        """The whitened vectors, column by column: products with one vector are quicker."""
        if self._columns is None:
            self._columns = np.asfortranarray(self._z)
        return self._columns

    def _decided(self, where: Indices, ell: int) -> Indices:
        """Which of some candidates exceed the threshold of level ell, exactly: those of the first block in which some do."""
        together = max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width)
        for part in (where[block] for block in blocks(len(where), together)):
            above = self._exceed(part, ell)
            self._told[part] = self._asked[part] = True
            self._as_of[part], self._growth[part] = self._sum, 0.0
            self._integers.remember(self._index[part], self._growth[part])
            if above.any():
                return part[above]
        return where[:0]

    def _exceed(self, part: Indices, ell: int) -> NDArray[np.bool_]:
        """Which of some candidates exceed the threshold of level ell, exactly; their bounds say so from now on.

        Of many that are so close to it that floats tell at the next one, no more than that need be known.
        """
        alive, index, threshold = self._state.alive, self._index[part], self._limits.exact[ell]
        near = len(part) >= SEVERAL and (
            ell == 0 or bool((self._bounds.lower[part] > self._limits.above[ell - 1]).all())
        )
        above = self._integers.above(alive, index, threshold) if near else None
        if above is None:
            above, sides = self._integers.exceed(alive, index, threshold)
            self._bounds.lower[part], self._bounds.upper[part] = sides
        else:
            stay = part[~above]
            self._bounds.upper[stay] = np.minimum(self._bounds.upper[stay], self._limits.above[ell])
        return above

    def _remove(self, where: Indices, ell: int) -> None:
        """Take vectors out at level ell. The bounds stay as they are: on forms in the set for which they were computed.

        What the forms of those gone sum to is kept in multiples of 2^-50, so that differences are exact.
        """
        self._state.remove(self._index[where], ell + 1)
        forms = self._bounds.upper[where] / (self._as_of[where] + (1 - self._sum))
        spent, since = np.sum([self._base[where], forms], axis=1) * (1 + 2.0**-40)
        self._spent += float(spent)
        self._sum += math.ceil(min(float(since), 2.0) * 2.0**50) * 2.0**-50
        self._gone = np.concatenate([self._gone, self._z.take(where, axis=0)])
        self._gone_error = np.concatenate([self._gone_error, self._error.take(where)])
        self._gone_at[self._sum] = len(self._gone)
        self._bounds.lower[where] = self._bounds.upper[where] = 0.0  # so nobody asks for them again
        self._told[where], self._held[where] = True, False
        if 16 * np.count_nonzero(self._held) < 15 * len(self._held):  # else it is less work to carry along who has gone
            self._drop()

    def _drop(self) -> None:
        """Forget who has gone."""
        where = np.flatnonzero(self._held)
        for name in ("_index", "_base", "_asked", "_told", "_error", "_held", "_as_of", "_growth"):
            setattr(self, name, getattr(self, name).take(where))
        self._reach = self._columns = None
        self._z, self._bounds = self._z.take(where, axis=0), Bounds(*(side.take(where) for side in self._bounds))

    def _removal(self) -> tuple[Floats, float] | None:
        """A whitening of what is left."""
        if self._left[0] != len(self._gone):
            found = certified.removal_whitening(self._gone, self._gone_error, self._whitening.epsilon)
            self._left = len(self._gone), found
        return self._left[1]

    def _renew(self, part: Indices) -> bool:
        """Bounds on the forms of some candidates in what is left; False if the base does not give any."""
        stale = part[self._as_of[part] < self._sum]
        if not len(stale):
            return True
        whitening = self._removal()
        if whitening is None:
            return False
        for some in (stale[block] for block in blocks(len(stale), READ_ROWS)):
            lower, upper = certified.removal_bounds(self._z.take(some, axis=0), self._error.take(some), whitening)
            self._bounds.lower[some], self._bounds.upper[some] = np.maximum(lower, self._bounds.lower[some]), upper
        self._as_of[stale], self._told[stale] = self._sum, False
        return True

    def _grown(self, some: Indices, ell: int) -> bool:
        """The same where a few have gone since there were bounds, and from these; whether there are such bounds.

        Bounds made anew are better for those who may go now, unless there were exact ones before.
        """
        oldest, since, first, whitening = float(self._as_of[some].min()), self._sum, len(self._gone), self._removal()
        for at, count in reversed(self._gone_at.items()):
            if since <= oldest or len(self._gone) - count > _FEW_GONE:
                break
            since, first = at, count
        gone = range(first, len(self._gone))
        if not gone or whitening is None:
            return False
        if self._reach is None:
            self._reach = certified.reach(self._z, self._error)
        known = self._tall(), self._error, self._reach
        inner = [certified.inner_bounds(*known, self._gone[i], float(self._gone_error[i]), whitening) for i in gone]
        upper = certified.grown(self._bounds.upper, inner)
        use = (self._as_of >= since) & (self._asked | (upper <= self._limits.below[ell]))
        use &= self._held
        np.copyto(self._bounds.upper, upper, where=use)
        self._as_of[use] = self._sum
        return True
