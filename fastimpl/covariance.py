"""LargestGoodSubset and StableCovariance at BLAS speed, with the decisions of exact arithmetic.

All levels come from one decreasing pass over the thresholds: by Lemma 28 (i) a row that leaves at one level is in no lower
one. By Lemma 27 the order of removal does not matter, so rows whose removal the float bounds prove go first, and exact
arithmetic looks only at what is left in doubt on a set that no proved removal can change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Bounds, Thresholds, Whitening
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows
from fastimpl.rows import Floats, Indices, Vectors, as_rows, distinct, pairs, positive
from refimpl.parameters import REPAIRED, Edition, Real, as_integer
from refimpl.results import StableCovarianceResult

__all__ = [
    "good_subset_levels",
    "largest_good_subset",
    "level_counts",
    "score_of",
    "settled",
    "stable_covariance",
    "stable_second_moment",
]

_BLOCK = 4096
_LARGEST_BUDGET = 0.25

Halt = Callable[[int, int], bool]
"""(rows missing so far, level in work) -> whether nothing that is still owed can change."""


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
    return frozenset(np.flatnonzero(entry == 0).tolist())


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
        Length of the weight window, for editions that have one; None is the paper's k.

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
    return second_moment_result(_centred(y), positive("lambda_0", lambda_0), as_integer("k", k, 1), edition, window)


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
        rounded to float64.

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
    rows = as_rows("x", x)
    if len(rows) < 2:
        raise ValueError("x must have at least two rows")
    return paired_result(pairs(rows), positive("lambda_0", lambda_0), as_integer("k", k, 1), edition)


@np.errstate(all="ignore")
def paired_result(
    vectors: Vectors, lambda_0: Fraction, k: int, edition: Edition, *, early: bool = False
) -> StableCovarianceResult:
    """:func:`stable_covariance` of given pairs; ``early`` halts as soon as min(score, k) and the counts are settled."""
    result = second_moment_result(vectors, lambda_0, k, edition, None, early=early)
    return replace(result, covariance=result.covariance / 2)  # the factor 1/2 that the differences leave out


@np.errstate(all="ignore")
def second_moment_result(
    vectors: Vectors, lambda_0: Fraction, k: int, edition: Edition, window: int | None, *, early: bool = False
) -> StableCovarianceResult:
    """:func:`stable_second_moment` without its checks."""
    m = len(vectors)
    levels = range(edition.last_level(k, window) + 1)
    exact = [edition.outlier_threshold(lambda_0, k, m, ell) for ell in levels]
    entry = good_subset_levels(vectors, exact, settled(k, edition, window) if early else None)
    counts = level_counts(entry, edition.weight_levels(k, window))
    weights = counts / float(len(edition.weight_levels(k, window)) * m)
    covariance = _weighted_second_moment(vectors, weights)
    return StableCovarianceResult(covariance, score_of(entry, k, edition, window), weights, entry)


def score_of(entry: Indices, k: int, edition: Edition, window: int | None = None) -> int:
    """SCORE = min(k, min over the score levels of (rows missing from the set of level ell) + ell)."""
    missing = (int(np.count_nonzero(entry > ell)) for ell in edition.score_levels(k, window))
    levels = edition.score_levels(k, window)
    return min(k, *(edition.level_score(rows, ell) for rows, ell in zip(missing, levels, strict=True)))


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


def _centred(y: object) -> Vectors:
    rows = as_rows("y", y)
    if len(rows) < 1:
        raise ValueError("y must have at least one row")
    return Vectors((rows,))


def _weighted_second_moment(vectors: Vectors, weights: Floats) -> Floats:
    """sum_i w_i v_i v_i^T in float64, symmetric bit for bit; infinite only where the result itself overflows."""
    total = np.zeros((vectors.width, vectors.width))
    held = np.flatnonzero(weights)
    largest = np.zeros(vectors.width)
    for start in range(0, len(held), _BLOCK):
        part = _quartered(vectors.take(held[start : start + _BLOCK]))
        largest = np.maximum(largest, np.abs(part).max(axis=0, initial=0.0))
    shift = -np.frexp(largest)[1].astype(np.int64)
    for start in range(0, len(held), _BLOCK):
        index = held[start : start + _BLOCK]
        scaled = np.ldexp(_quartered(vectors.take(index)), shift)
        total += scaled.T @ (scaled * weights[index, None])
    total = np.ldexp(total, 4 - (shift[:, None] + shift[None, :]))
    return np.asarray(np.tril(total) + np.tril(total, -1).T)


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
        self._matrix: fmpz_mat | None = None
        self._members: Indices = np.empty(0, dtype=np.int64)
        self._form: QuadraticForm | None = None

    def form(self, alive: Indices) -> QuadraticForm:
        """V -> v^T G^-1 v for the Gram matrix G of the vectors ``alive``."""
        if self._form is not None and len(alive) == len(self._members):
            return self._form  # the set only shrinks, so equal sizes are equal sets
        if self._unit is None:
            self._unit = column_units(self._vectors)
        left = np.setdiff1d(self._members, alive, assume_unique=True)
        if self._matrix is None or len(left) > len(alive):
            self._matrix = gram(self._vectors.take(alive), self._unit)
        else:
            self._matrix -= gram(self._vectors.take(left), self._unit)
        self._members, self._form = alive, QuadraticForm(self._matrix, self._unit)
        return self._form

    def exceed(self, alive: Indices, index: Indices, threshold: Fraction) -> tuple[NDArray[np.bool_], Bounds]:
        """Which vectors of ``index`` have a form above the threshold, decided exactly, and enclosures of the forms."""
        form = self.form(alive)
        where, kind = distinct(self._vectors.take(index))
        numerators, denominator = form.values(integer_rows(self._vectors.take(index[where]), form.unit))
        certified.note("exact", len(where))
        above = [v * threshold.denominator > threshold.numerator * denominator for v in numerators]
        sides = np.array([certified.enclose(v, denominator) for v in numerators], dtype=np.float64)
        return np.array(above)[kind], Bounds(sides[kind, 0], sides[kind, 1])


def good_subset_levels(vectors: Vectors, exact: Sequence[Fraction], halt: Halt | None = None) -> Indices:
    """For each vector the least level whose largest good subset holds it, or ``len(exact)`` if none does.

    Parameters
    ----------
    vectors
        m vectors y_i (up to a common factor, which no norm sees).
    exact
        Nondecreasing thresholds lambda_ell of the squared norms m y^T (sum_S y y^T)^-1 y.
    halt
        If given, asked after every removal whether to stop; levels below are then not looked at.
    """
    m = len(vectors)
    limits = certified.thresholds([value / m for value in exact])
    entry = np.full(m, len(exact), dtype=np.int64)
    alive = np.arange(m, dtype=np.int64)
    grams = _ExactGram(vectors)
    ell = len(exact) - 1
    while ell >= 0 and alive.size:
        whitening = _whitening(vectors, alive, grams)
        if whitening is None:  # singular: every norm is infinite
            entry[alive] = ell + 1
            return entry
        descent = _Descent(vectors, alive, limits, whitening, grams, entry)
        ell, alive = descent.run(ell, halt)
    entry[alive] = 0
    return entry


def _whitening(vectors: Vectors, alive: Indices, grams: _ExactGram) -> Whitening | None:
    """A certified whitening of the Gram matrix of the vectors ``alive``, or None if it is singular."""
    if len(alive) < vectors.width:
        return None
    whitening = certified.float_whitening(vectors, alive)
    if whitening is not None:
        return whitening
    form = grams.form(alive)
    certified.note("exact", 1)  # the rank
    return None if form.is_singular else certified.exact_whitening(form)


class _Descent:
    """The decreasing pass over levels on one base set, until it has shrunk too much for the base's bounds.

    Only candidates are looked at again after a removal: if the vectors removed have forms that sum to at most ``budget`` in
    the base, no other form grows by more than 1/(1 - budget) (Claim 29), so vectors below (1 - budget) times the lowest
    threshold are in every set for good.
    """

    def __init__(
        self,
        vectors: Vectors,
        alive: Indices,
        limits: Thresholds,
        whitening: Whitening,
        grams: _ExactGram,
        entry: Indices,
    ) -> None:
        self._vectors, self._alive, self._limits = vectors, alive, limits
        self._whitening, self._grams, self._entry = whitening, grams, entry
        last = len(limits.exact)
        self._budget = min(_LARGEST_BUDGET, last * float(limits.above[-1]))
        base = self._base_bounds()
        line = limits.below[0] * (1 - self._budget) * (1 - 2.0**-40)
        self._index = alive[base.upper > line]
        self._base = base.upper[base.upper > line]
        self._z, self._error = certified.whiten(vectors.take(self._index), whitening)
        self._bounds = certified.norm_bounds(self._z, self._error, whitening.epsilon)
        self._gone = [np.empty((0, vectors.width))]
        self._gone_error = [np.empty(0)]
        self._spent = 0.0
        certified.note("float", len(alive) - len(self._index))

    def _base_bounds(self) -> Bounds:
        lower, upper = np.empty(len(self._alive)), np.empty(len(self._alive))
        for start in range(0, len(self._alive), _BLOCK):
            part = slice(start, start + _BLOCK)
            z, error = certified.whiten(self._vectors.take(self._alive[part]), self._whitening)
            lower[part], upper[part] = certified.norm_bounds(z, error, self._whitening.epsilon)
        return Bounds(lower, upper)

    def run(self, ell: int, halt: Halt | None) -> tuple[int, Indices]:
        """Go down from level ell; returns the level to go on with (-1 when done) and the vectors still alive."""
        while ell >= 0:
            out = self._bounds.lower > self._limits.above[ell]
            certified.note("float", int(np.count_nonzero(out)))
            if not out.any():
                ell, out = self._settle_doubt(ell)
            if out.any():
                fresh = self._remove(out, ell)
                if halt is not None and halt(len(self._entry) - len(self._alive), ell):
                    return -1, self._alive
                if not fresh:
                    return ell, self._alive
        return -1, self._alive

    def _settle_doubt(self, ell: int) -> tuple[int, NDArray[np.bool_]]:
        """No removal is proved at level ell: decide the open ones exactly; if none goes, the next level in question."""
        doubt = self._bounds.upper > self._limits.below[ell]
        if doubt.any():
            where = np.flatnonzero(doubt)
            above, sides = self._grams.exceed(self._alive, self._index[where], self._limits.exact[ell])
            self._bounds.lower[where], self._bounds.upper[where] = sides
            out = np.zeros(len(self._index), dtype=bool)
            out[where] = above
            return (ell, out) if above.any() else (ell - 1, out)
        largest = self._bounds.upper.max(initial=0.0)
        return int(np.searchsorted(self._limits.below[:ell], largest, side="left")) - 1, doubt

    def _remove(self, out: NDArray[np.bool_], ell: int) -> bool:
        """Take vectors out at level ell; False if the base is used up and must be computed anew."""
        self._entry[self._index[out]] = ell + 1
        self._alive = np.setdiff1d(self._alive, self._index[out], assume_unique=True)
        self._spent += float(np.sum(self._base[out])) * (1 + 2.0**-40)
        self._gone.append(self._z[out])
        self._gone_error.append(self._error[out])
        keep = ~out
        self._index, self._base = self._index[keep], self._base[keep]
        self._z, self._error = self._z[keep], self._error[keep]
        if self._spent > self._budget:
            return False
        bounds = certified.removal_bounds(
            self._z,
            self._error,
            np.concatenate(self._gone),
            np.concatenate(self._gone_error),
            self._whitening.epsilon,
        )
        if bounds is None:
            return False
        self._bounds = bounds
        return True
