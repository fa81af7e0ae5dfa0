"""LargestGoodSubset and StableCovariance at BLAS speed, with the decisions of exact arithmetic.

All levels come from one decreasing pass over the thresholds: by Lemma 28 (i) a row that leaves at one level is in no lower
one. By Lemma 27 the order of removal does not matter, so rows whose removal the float bounds prove go first, and exact
arithmetic looks only at what is left in doubt on a set that no proved removal can change any more.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl import balls, certified
from fastimpl.balls import BallForm, at_most
from fastimpl.certified import Bounds, Growth, Removal, Whitening
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
_PENDING, _MOST_PENDING = 64, 1024  # vectors gone, until what they add to others is bounded; and of which that is done
_MOST_STEPS = 1 << 10  # bounds on growth that are added up before margins start anew
_FRESHENED = 16  # of these, until upper bounds come from margins once more
_FEWEST_ASKED = 4  # candidates that integers are asked about once more
_FEW_GO = 32  # if one in so many of those who are asked once more goes, more are asked in the same set
_MOST_SHARP, _MOST_STRETCH = 1 << 24, 4.0  # bytes of vectors that are kept whitened; and how far these may be turned
_IN_VAIN = 16  # questions for each vector that goes, from which floats may be too blunt
_BLUNT = 2.0**-44  # relative errors of whitened vectors beyond this may be made smaller
_FEW_SETS = 4  # sets that integers are asked about before balls are
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
        self._members, self._size = np.empty(0, dtype=bool), 0
        self._form: QuadraticForm | None = None
        self.kept: _Kept | None = None
        self.sharp: _Sharp | None = None
        self.wants_sharp = False  # whether integers were asked about many because floats are not
        self._sets, self._asked = 0, 0  # how many sets integers were asked about, and how many the last one had
        self._balls: BallForm | None = None
        self._in_balls, self._steps = self._members, 0  # whose form that is, and how often it has followed from another

    @cached_property
    def _unit(self) -> NDArray[np.int64]:
        return column_units(self._vectors)

    def form(self, alive: NDArray[np.bool_]) -> QuadraticForm:
        """V -> v^T G^-1 v for the Gram matrix G of the vectors ``alive``."""
        size, before = int(np.count_nonzero(alive)), self._size
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

    def exceed(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio, *, enough: bool = False) -> _Answer:
        """Which vectors of ``index`` have a form above the threshold, decided exactly, and what is known of the forms.

        With ``enough`` others need not be said to be above where some are.
        """
        size = int(np.count_nonzero(alive))
        self._sets, self._asked = self._sets + (size != self._asked), size
        if self._sets <= _FEW_SETS or len(index) > _FEWEST_TOGETHER:
            return self._exceed(alive, index, threshold)
        answer, unsure = self._told_by_balls(alive, index, threshold)
        if len(unsure) and not (enough and answer.above.any()):
            for column, own in zip(answer, self._exceed(alive, index[unsure], threshold), strict=True):
                column[unsure] = own
        return answer

    def _told_by_balls(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio) -> tuple[_Answer, Indices]:
        """The same, as far as balls tell, and of whom they do not tell it."""
        form = self._ball_form(alive)
        if form is None:
            nothing = np.zeros(len(index))
            return _Answer(nothing > 0, nothing, nothing + np.inf, nothing), np.arange(len(index))
        forms = form.values(integer_rows(self._vectors.take(index), self._unit))
        left = balls.below(forms, threshold)
        lower, upper, margin = (np.array(list(map(at_most, v))) for v in (forms, [-q for q in forms], left))
        above = np.array([bool(v < 0) for v in left])
        answer = _Answer(above, np.maximum(lower, 0.0), -upper, np.maximum(margin, 0.0))
        unsure = np.flatnonzero([not (v < 0 or v >= 0) for v in left])
        certified.note("exact", len(index) - len(unsure))
        return answer, unsure

    def _ball_form(self, alive: NDArray[np.bool_]) -> BallForm | None:
        """The form of :meth:`form` between balls: from the one before, or from integers."""
        gone = np.flatnonzero(self._in_balls > alive) if self._balls is not None else _NONE
        self._steps += len(gone)
        if self._balls is not None and len(gone) <= _PENDING and self._steps <= _MOST_STEPS:
            for row in integer_rows(self._vectors.take(gone), self._unit):
                self._balls = self._balls and self._balls.without(row)
        else:
            self._balls = None
        if self._balls is None:
            self._balls, self._steps = BallForm.of(self.form(alive).matrix), 0
        self._in_balls = alive.copy()
        return self._balls

    def margins(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio) -> Floats | None:
        """How far forms are below the threshold, by residues: see :meth:`IntegerDistances.below`.

        None if they are few, or take too many primes.
        """
        form, (where, kind) = self.form(alive), distinct(self._vectors.take(index))
        if len(where) < SEVERAL:
            return None
        (matrix, denominator), rows = form.inverse, integer_rows(self._vectors.take(index[where]), form.unit)
        integers = IntegerDistances(matrix, [[0] * form.width])
        if integers.primes(integers.bits(rows)) > MOST_PRIMES:
            return None
        certified.note("exact", len(where))
        bar = threshold.numerator * denominator // threshold.denominator
        return np.asarray(integers.below(rows, bar, denominator)[kind])

    def forget(self, gone: list[Indices]) -> None:
        """That vectors have gone of which no base knows: what was kept says nothing then, if they are not few."""
        if self.kept is not None:
            self.kept.gone.extend(gone)
            if sum(map(len, self.kept.gone)) > _MOST_PENDING:
                self.kept = None

    def _exceed(self, alive: NDArray[np.bool_], index: Indices, threshold: Ratio) -> _Answer:
        form, together = self.form(alive), max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width)
        parts = [self._by_integers(form, index[part], threshold) for part in blocks(len(index), together)]
        return parts[0] if len(parts) == 1 else _Answer(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _by_integers(self, form: QuadraticForm, index: Indices, threshold: Ratio) -> _Answer:
        vectors = self._vectors.take(index)
        where, kind = distinct(vectors) if len(index) > _FEW_KINDS else (np.arange(len(index)),) * 2
        numerators, denominator = form.values(integer_rows(vectors.take(where), form.unit))
        certified.note("exact", len(where))
        below = [threshold.numerator * denominator - v * threshold.denominator for v in numerators]
        sides = [enclose(v, denominator) for v in numerators]
        margins = [enclose(max(v, 0), denominator * threshold.denominator)[0] for v in below]
        columns = [v < 0 for v in below], *zip(*sides, strict=True), margins
        return _Answer(*(np.array(column)[kind] for column in columns))


class _Answer(NamedTuple):
    """Which forms are above a threshold, bounds on forms, and how far they are below it: at least so much, or 0."""

    above: NDArray[np.bool_]
    lower: Floats
    upper: Floats
    margin: Floats


class _Kept(NamedTuple):
    """What a base leaves to the next one: about whom integers were asked, and how far these are below the threshold of a level.

    Vectors in their order, lower bounds in the set that was left before some have gone, and by how much, about, these say more
    than is so.
    """

    asked: Indices
    margin: Floats
    likely: Floats
    level: int
    gone: list[Indices]


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
        sharp, whitening = (None, whitening) if whitening else _whitening(state, floats, integers)
        if whitening is None:  # singular: every norm is infinite
            state.remove_all(ell + 1)
            break
        ell = _Descent(floats, state, limits, whitening, integers, sharp).run(ell, halt)
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


def _whitening(state: _Levels, floats: BlockGrams, integers: _ExactGram) -> tuple[_Sharp | None, Whitening | None]:
    """A certified whitening of the Gram matrix of the vectors still in, or None if it is singular; and what is kept with it."""
    vectors = floats.vectors
    if state.left < vectors.width:
        return None, None
    whitening = None if integers.wants_sharp else certified.float_whitening(floats, state.counts())
    if whitening is not None:
        return None, whitening
    if integers.sharp is not None and integers.sharp.turn(state.alive):
        return integers.sharp, integers.sharp.whitening
    form, integers.sharp = integers.form(state.alive), None
    certified.note("exact", 1)  # the rank
    if form.is_singular:
        return None, None
    wanted = (_BLUNT,) if integers.wants_sharp else ()
    whitening = certified.exact_whitening(form, *wanted)
    if _Sharp.fits(vectors):
        integers.sharp = _Sharp(vectors, whitening, state.alive)
    return integers.sharp, whitening


class _Sharp:
    """Vectors that were whitened once, more sharply than by a product of floats, and serve for later bases as well.

    *Statement.* ``certified.removal_whitening`` holds however much has gone, and :func:`certified.turned` gives the vectors
    whitened for what is left. They stay as sharp as long as V is not large.
    """

    def __init__(self, vectors: Vectors, whitening: Whitening, alive: NDArray[np.bool_]) -> None:
        self._first, self._alive = whitening, alive.copy()
        self._z, self._error = np.empty((len(vectors), vectors.width)), np.empty(len(vectors))
        for block in blocks(len(vectors), READ_ROWS):
            self._z[block], self._error[block] = certified.whiten(vectors.take(block), whitening)
        self._removal = Removal.of_nothing(vectors.width, whitening.epsilon)

    @staticmethod
    def fits(vectors: Vectors) -> bool:
        """Whether there is room for them."""
        return 8 * len(vectors) * (vectors.width + 1) <= _MOST_SHARP

    def turn(self, alive: NDArray[np.bool_]) -> bool:
        """For those of the vectors who are still in; False if they have to be whitened anew."""
        gone = np.flatnonzero(self._alive > alive)
        removal = certified.removal_whitening(self._z[gone], self._error[gone], self._first.epsilon)
        if removal is None or removal.stretch > _MOST_STRETCH:
            return False
        self._removal = removal
        return True

    @property
    def whitening(self) -> Whitening:
        """The first one, with the epsilon of what is left: not for anything else."""
        return replace(self._first, epsilon=self._removal.epsilon)

    def white(self, some: NDArray[np.integer[Any]] | slice) -> tuple[Floats, Floats]:
        """Some of the vectors, whitened for what is left, and bounds on their errors."""
        return certified.turned(self._z[some], self._error[some], self._removal)

    def above_line(self, line: float) -> Iterator[tuple[Indices, Floats]]:
        """As ``certified.above_line``, some at a time."""
        for block in blocks(len(self._z), _AT_ONCE):
            upper = certified.norm_bounds(*self.white(block), self._removal.epsilon).upper
            where = np.flatnonzero(~(upper <= line))
            yield where + block.start, upper[where]


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

    Where that is not enough, what those gone have added to each form is bounded (``certified.growth_bounds``). ``margin`` is a
    lower bound on how far a form was below the threshold of ``level`` at some time, if it is positive, and ``growth`` an upper
    bound on what was added since, by all who have gone but those who are pending: from number ``known`` on. It starts from
    floats, or from integers where these were asked; then it is as sharp as a float can be however close the form is to the
    threshold, and goes on beyond the base. So nobody is asked again until what others have added has used the margin up.
    *Statement.* A growth is the sum of at most 2^10 floats, so it is off by 2^-43 of itself and underflow. A margin is kept
    (1 - 2^-40) times as large, and at least 2^-900. So a form is below the threshold where growth is below the margin, and the
    difference, rounded, is a lower bound on what is left.
    """

    def __init__(
        self,
        floats: BlockGrams,
        state: _Levels,
        limits: Thresholds,
        whitening: Whitening,
        integers: _ExactGram,
        sharp: _Sharp | None = None,
    ) -> None:
        self._floats, self._vectors, self._state, self._limits = floats, floats.vectors, state, limits
        self._whitening, self._integers, self._sharp = whitening, integers, sharp
        self._asked_in_vain = 0
        self._budget = _first_budget(limits)
        self._gone, self._gone_error = np.empty((0, floats.vectors.width)), np.empty(0)
        self._gone_since: list[Indices] = []  # since margins are known
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
        if self._sharp is not None:
            yield from self._sharp.above_line(line)
            return
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
                    self._take_out(some[lower > goes], ell)
        certified.note("float", left - count)
        if used:
            certified.note("float", left - self._state.left)
            return False
        self._spent = 0.0
        columns = [list(column) for column in zip(*kept, strict=True)]
        kept.clear()
        self._index, self._z, self._error, lower, upper = (np.concatenate(columns.pop(0)) for _ in range(5))
        self._base = upper.copy()
        self._set(Bounds(lower, upper), ell)
        self._recall()
        return True

    def _set(self, bounds: Bounds, ell: int) -> None:
        """Bounds on the forms of all candidates in the base, which come from floats alone."""
        self._bounds, self._sum, self._level = bounds, 0.0, ell
        self._as_of: Floats = np.zeros(len(bounds.upper))
        self._told = np.zeros(len(bounds.upper), dtype=bool)  # whose bounds do not come from floats alone
        self._held, self._asked = ~self._told, self._told.copy()  # who has not gone; about whom integers were asked
        self._margin = _kept_margin(self._below(bounds.upper))
        self._growth, self._likely = np.zeros((2, len(bounds.upper)))
        self._steps = 0  # floats that growth is a sum of
        self._left: tuple[int, Removal | None] = 0, Removal.of_nothing(self._z.shape[1], self._whitening.epsilon)
        self._known = 0  # how many of those gone are in ``margin``: the others are pending
        self._reach: Floats | None = None
        self._columns: Floats | None = None
        self._scratch: Floats | None = None
        self._by_growth = False  # whether the last one who went was among those with the least left
        self._seen = len(self._limits.exact)  # the level at which all lower bounds have been looked at

    def _recall(self) -> None:
        """What integers have said of candidates before: margins, less what those have added who have gone since."""
        kept, self._integers.kept = self._integers.kept, None
        if kept is None or not len(kept.asked):
            return
        place = np.minimum(np.searchsorted(kept.asked, self._index), len(kept.asked) - 1)
        self._asked = kept.asked[place] == self._index
        added = self._added(*self._white(np.concatenate([_NONE, *kept.gone])))
        margin = self._lowered(kept.margin[place] - added.most, kept.level, self._level)
        np.copyto(self._margin, np.fmax(margin, self._margin), where=self._asked)
        np.copyto(self._likely, kept.likely[place] + added.likely - added.most, where=self._asked)

    def _lowered(self, left: Floats, old: int, new: int) -> Floats:
        """Margins to the threshold of a level from what is left of those of another, not a lower one.

        What is subtracted matters where it is smaller than what is left, which has more to spare than is lost in rounding.
        """
        drop = float(self._limits.above[old]) - float(self._limits.below[new]) if new < old else 0.0
        return _kept_margin(left - drop)

    def _keep(self) -> None:
        """For the next base."""
        asked = np.flatnonzero(self._asked)
        asked = asked[np.argsort(self._index[asked])]
        margin, likely = self._margin - self._growth, self._likely - self._growth
        self._integers.kept = _Kept(self._index[asked], margin[asked], likely[asked], self._level, self._gone_since)

    def _take_out(self, index: Indices, ell: int) -> None:
        self._state.remove(index, ell + 1)
        self._gone_since.append(index)

    def _line(self, budget: float, ell: int = 0) -> float:
        return float(self._limits.below[ell]) * (1 - budget) * (1 - 2.0**-46)

    def _covers(self, ell: int) -> bool:
        """Whether nobody but candidates can go at level ell or above, as long as no more is spent."""
        return self._bar <= self._line(self._spent, ell)

    def _near(self, ell: int) -> NDArray[np.bool_]:
        """Who may exceed the threshold of level ell, as far as bounds and what is gone since they were made tell.

        As_of + (1 - sum) is exact: a multiple of 2^-50 that is at most 1; and positive, as the base is given up at sum = 1.
        """
        if self._knows(ell):
            return ~(self._growth < self._margin) & self._held
        upper = np.add(self._as_of, 1 - self._sum, out=self._room()[0])
        upper *= self._line(0.0, ell)
        return np.asarray(self._bounds.upper > upper)

    def _pieces(self) -> Iterator[tuple[Any, Floats, Floats, Floats, Floats]]:
        """Who may be above the bar, some at a time: whitened, with errors and bounds."""
        for part in self._above():
            for block in blocks(len(part)) or [slice(0)]:
                index = part[block]
                z, error = self._white(index)
                bounds = certified.norm_bounds(z, error, self._whitening.epsilon)
                keep = bounds.upper > self._bar
                yield index[keep], z[keep], error[keep], bounds.lower[keep], bounds.upper[keep]

    def _white(self, index: NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
        """Vectors whitened for the base, and bounds on their errors."""
        if self._sharp is not None:
            return self._sharp.white(index)
        return certified.whiten(self._vectors.take(index), self._whitening)

    def run(self, ell: int, halt: Halt | None) -> int:
        """Go down from level ell; returns the level to go on with, -1 when done."""
        left = self._state.left
        if not self._collect(ell):
            ell = self._decide(ell) if self._state.left == left else ell
            self._integers.forget(self._gone_since)
            return ell
        while ell >= 0 and self._covers(ell):
            out = self._next(ell)
            if out is None:
                break
            if not len(out):
                ell = self._next_level(ell)
                continue
            self._remove(out, ell)
            if halt is not None and halt(self._state.missing, ell):
                return -1
            if self._spent > self._budget or self._sum >= 1 or self._integers.wants_sharp > bool(self._sharp):
                break
        self._keep()
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
                above = self._integers.exceed(alive, index, self._limits.exact[ell]).above
                self._take_out(index[above], ell)
        return ell - (self._state.left == left)

    def _next_level(self, ell: int) -> int:
        """The next level at which anybody may go, if nobody goes at level ell any more."""
        if self._knows(ell):
            self._freshen()
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
        those of whose margins least is left, a few, then more and more of them.
        """
        before, fresh = self._doubtful(ell)
        if len(fresh) > _MANY or (self._by_growth and len(before)):
            before, fresh = self._doubtful(self._grow(ell))
        if not (self._by_growth and len(before)):
            yield fresh
            fresh = _NONE
        if not len(before):
            return
        before = before[self._near(self._grow(ell))[before]]
        left = self._margin[before] - self._likely[before]
        least = float(left.min(initial=0.0))
        first = left <= least / 2
        first[np.flatnonzero(first)[_FEWEST_ASKED:]] = False
        self._by_growth = True  # if one of these goes, look at them at once next time
        yield np.concatenate([fresh, before[first]])
        self._by_growth = False
        rest, size = before[~first], _FEWEST_ASKED
        rest = rest[np.argsort(left[~first])]
        while len(rest):
            size = min(8 * size, max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width))
            yield rest[:size]
            rest = rest[size:]

    def _doubtful(self, ell: int) -> tuple[Indices, Indices]:
        """Who may go at level ell, as far as is known: about whom integers were asked before, and the others."""
        near = self._near(ell)
        before = near & self._asked
        return np.flatnonzero(before), np.flatnonzero(near > before)

    def _knows(self, ell: int) -> bool:
        """Whether margins are to the threshold of level ell, in what is left."""
        return self._level == ell and self._known == len(self._gone)

    def _grow(self, ell: int) -> int:
        """Margins to the threshold of level ell, in what is left; returns the level."""
        if self._level != ell or self._steps >= _MOST_STEPS:
            self._margin = self._lowered(self._margin - self._growth, self._level, ell)
            self._likely -= self._growth
            self._growth, self._steps, self._level = np.zeros(len(self._margin)), 0, ell
        if self._known < len(self._gone):
            added = self._added(self._gone[self._known :], self._gone_error[self._known :])
            self._growth += added.most
            self._likely += added.likely
            self._known, self._steps, self._gone_since = len(self._gone), self._steps + 1, []
            if self._steps % _FRESHENED == 1:
                self._freshen()
        return ell

    def _added(self, gone: Floats, errors: Floats) -> Growth:
        """What vectors gone have added to the forms of all candidates; at most infinity if nothing is known."""
        removal = self._removal()
        if removal is None or len(gone) > _MOST_PENDING or not len(gone):
            return Growth(*np.outer([0.0, np.inf if len(gone) else 0.0], np.ones(len(self._index))))
        if self._reach is None:
            self._reach = certified.reach(self._z, self._error)
        return certified.growth_bounds(self._tall(), self._error, self._reach, gone, errors, removal, self._room())

    def _room(self) -> Floats:
        """Three numbers for each candidate, to be written to; fresh memory would take most of the time."""
        if self._scratch is None:
            self._scratch = np.empty((3, len(self._index)))
        return self._scratch

    def _freshen(self) -> None:
        """Upper bounds from margins."""
        known = np.flatnonzero((self._growth < self._margin) & self._held)
        self._bounds.upper[known], self._as_of[known] = self._up_to(known), self._sum

    def _up_to(self, known: Indices) -> Floats:
        """Upper bounds on forms that are below the threshold by what is left of the margin."""
        left = self._margin[known] - self._growth[known]
        return np.asarray((float(self._limits.above[self._level]) - left) * (1 + 2.0**-50))

    def _below(self, upper: Floats) -> Floats:
        """How far forms with these upper bounds are below the threshold, rounded."""
        return np.asarray(float(self._limits.below[self._level]) - upper)

    def _tall(self) -> Floats:
        """The whitened vectors, column by column: products with one vector are quicker."""
        if self._columns is None:
            self._columns = np.asfortranarray(self._z)
        return self._columns

    def _decided(self, where: Indices, ell: int) -> Indices:
        """Which of some candidates exceed the threshold of level ell, exactly: those of the first block in which some do."""
        together = max(_FEWEST_TOGETHER, _TOGETHER // self._vectors.width)
        if len(where):
            self._grow(ell)
        for part in (where[block] for block in blocks(len(where), together)):
            above = self._exceed(part, ell)
            self._told[part] = self._asked[part] = True
            self._as_of[part] = self._sum
            self._asked_in_vain += int(np.count_nonzero(~above))
            if above.any():
                self._look_sharp()
                return part[above]
        return where[:0]

    def _look_sharp(self) -> None:
        """If many were asked in vain, as floats do not tell who grows: sharper ones for the bases to come."""
        many = self._asked_in_vain > _IN_VAIN * (len(self._gone) + _MANY)
        if many and self._sharp is None and self._whitening.relative > _BLUNT and _Sharp.fits(self._vectors):
            self._integers.wants_sharp = True

    def _exceed(self, part: Indices, ell: int) -> NDArray[np.bool_]:
        """Which of some candidates exceed the threshold of level ell, exactly; bounds and margins say so from now on.

        Of many that are so close to it that floats tell at the next one, their forms need not be known.
        """
        alive, index, threshold = self._state.alive, self._index[part], self._limits.exact[ell]
        near = len(part) >= SEVERAL and (
            ell == 0 or bool((self._bounds.lower[part] > self._limits.above[ell - 1]).all())
        )
        margin = self._integers.margins(alive, index, threshold) if near else None
        if margin is None:
            above, self._bounds.lower[part], self._bounds.upper[part], margin = self._integers.exceed(
                alive, index, threshold, enough=True
            )
        else:
            above = margin < 0
            stay = part[~above]
            self._bounds.upper[stay] = np.minimum(self._bounds.upper[stay], self._limits.above[ell])
        self._margin[part], self._growth[part] = _kept_margin(margin), 0.0
        self._likely[part] = 0.0
        return above

    def _remove(self, where: Indices, ell: int) -> None:
        """Take vectors out at level ell. The bounds stay as they are: on forms in the set for which they were computed.

        What the forms of those gone sum to is kept in multiples of 2^-50, so that differences are exact.
        """
        self._take_out(self._index[where], ell)
        forms = self._bounds.upper[where] / (self._as_of[where] + (1 - self._sum))
        spent, since = np.sum([self._base[where], forms], axis=1) * (1 + 2.0**-40)
        self._spent += float(spent)
        self._sum += math.ceil(min(float(since), 2.0) * 2.0**50) * 2.0**-50
        self._gone = np.concatenate([self._gone, self._z.take(where, axis=0)])
        self._gone_error = np.concatenate([self._gone_error, self._error.take(where)])
        self._bounds.lower[where] = self._bounds.upper[where] = 0.0  # so nobody asks for them again
        self._told[where], self._asked[where], self._held[where] = True, False, False
        if len(self._gone) - self._known >= _PENDING:
            self._grow(self._level)
        if 16 * np.count_nonzero(self._held) < 15 * len(self._held):  # else it is less work to carry along who has gone
            self._drop()

    def _drop(self) -> None:
        """Forget who has gone."""
        where = np.flatnonzero(self._held)
        for name in (
            "_index",
            "_base",
            "_asked",
            "_told",
            "_error",
            "_held",
            "_as_of",
            "_margin",
            "_growth",
            "_likely",
        ):
            setattr(self, name, getattr(self, name).take(where))
        self._reach = self._columns = self._scratch = None
        self._z, self._bounds = self._z.take(where, axis=0), Bounds(*(side.take(where) for side in self._bounds))

    def _removal(self) -> Removal | None:
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
        if self._knows(self._level):
            margin = _kept_margin(self._below(self._bounds.upper[stale]))
            better = ~(margin <= self._margin[stale] - self._growth[stale])
            self._margin[stale[better]] = margin[better]
            self._growth[stale[better]] = self._likely[stale[better]] = 0.0
        return True


def _kept_margin(margin: Floats) -> Floats:
    """What is kept of margins: see :class:`_Descent`."""
    return np.asarray(np.where(margin >= 2.0**-900, margin * (1 - 2.0**-40), np.minimum(margin, 0.0)))
