"""The one stage of SHARP at BLAS speed: mean and covariance from one run of the levels on the rows (1, x).

The levels see the rows (1, x_i) only up to a regular linear map, and (1, x_i - c) is one for every c. So the rows are read
from near their middle, exactly, which costs no decision and makes float64 enough for data far from the origin. Nothing of the
size of x is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from fastimpl.covariance import good_subset_levels, level_counts, score_of, settled, watched_grams
from fastimpl.exact import QuadraticForm
from fastimpl.grams import BlockGrams, column_shift
from fastimpl.limits import outlier_limits
from fastimpl.rows import (
    READ_ROWS,
    Centred,
    Floats,
    Indices,
    Sparse,
    Vectors,
    as_rows,
    positive,
    require_finite,
)
from fastimpl.sums import exact_sums
from fastimpl.threads import one_blas_thread
from refimpl.parameters import SHARP, Real, as_integer, checked_window
from refimpl.results import StableMomentsResult

__all__ = ["ExactMoments", "Lifted", "OneStage", "one_stage", "stable_moments"]

_SAMPLE = 255  # rows that the centre is taken from
_RANGE = 800  # sums of squares in 2^-800..2^800 have neither under- nor overflowed
_CLOSE = 4.0  # the second moment about the centre may be this many times the variance: that loses two bits


@np.errstate(all="ignore")
def stable_moments(x: object, lambda_0: Real, k: int, window: int) -> StableMomentsResult:
    """StableMoments: nonprivate mean and covariance that both hardly move when one row is replaced.

    Parameters
    ----------
    x
        n x d rows, n >= 1, finite.
    lambda_0
        Outlier threshold of the norms of the lifted rows (1, x), which average d + 1; positive.
    k
        Discretization parameter, at least 1.
    window
        W, the number of levels that the weights average, at least 1, with (k + W - 1) lambda_0 < n.

    Returns
    -------
    StableMomentsResult
        ``entry_level`` and ``score`` equal exact arithmetic's; weights, mean and covariance are rounded to float64. Mean and
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
    rows, lam, k = as_rows("x", x, finite=False), positive("lambda_0", lambda_0), as_integer("k", k, 1)
    if len(rows) < 1:
        raise ValueError("x must have at least one row")
    width = checked_window(window, k, SHARP, lam, len(rows)) or 0  # SHARP lets no None through
    return _moments_result(rows, lam, k, width)


@one_blas_thread
def _moments_result(x: Floats, lambda_0: Fraction, k: int, window: int) -> StableMomentsResult:
    stage = one_stage(x, lambda_0, k, window)
    mean, covariance = stage.moments or (None, None)
    table = level_counts(np.arange(k + window + 1), stage.levels) / float(stage.total)
    return StableMomentsResult(mean, covariance, stage.score, *stage.entry.spelled_out(table))


class Lifted(Vectors):
    """The vectors (1, x_i) - (0, c), exactly, without a copy of x: only what is asked for is put together."""

    points: Floats
    centre: Floats

    def __init__(self, points: Floats, centre: Floats) -> None:
        object.__setattr__(self, "points", points)  # the way into a frozen record
        object.__setattr__(self, "centre", centre)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def width(self) -> int:
        """D + 1."""
        return int(self.points.shape[1]) + 1

    @property
    def plus(self) -> tuple[Floats, ...]:
        """The rows (1, x_i): a copy, made when exact arithmetic asks for all of them."""
        return (_with_ones(self.points),)

    @property
    def minus(self) -> tuple[Floats, ...]:
        """The row (0, c), as often as there are vectors."""
        return (self._centres(len(self)),)

    def _centres(self, count: int) -> Floats:
        return np.broadcast_to(self._row, (count, self.width))

    @cached_property
    def _row(self) -> Floats:
        return np.concatenate([[0.0], self.centre])

    @cached_property
    def _tile(self) -> Floats:
        """The row (0, c), READ_ROWS times: numpy is slow at subtracting one short row from many."""
        return np.tile(self._row, (READ_ROWS, 1))

    def take(self, index: NDArray[np.integer[Any]] | slice) -> Vectors:
        """The vectors of some indices."""
        rows = _with_ones(self.points[index])
        return Vectors((rows,), (self._centres(len(rows)),))

    @property
    def tails(self) -> Centred:
        """The vectors x_i - c."""
        return Centred(self.points, self.centre)

    def read(self, block: slice, buffer: Floats) -> Floats:
        """As :meth:`Vectors.read`, for at most READ_ROWS rows.

        The coordinates of a row are copied as one item: numpy takes twice as long over many short rows of numbers.
        """
        points, rows = self.points[block], buffer[: block.stop - block.start]
        whole = np.dtype((np.void, points.itemsize * points.shape[1]))
        pieces = rows.view(np.dtype([("one", np.float64), ("point", whole)]))
        pieces["one"], pieces["point"] = 1.0, points.view(whole)
        if self._row.any():
            np.subtract(rows, self._tile[: len(rows)], out=rows)
        return rows


def _with_ones(points: Floats) -> Floats:
    rows = np.empty((len(points), points.shape[1] + 1))
    rows[:, 0] = 1.0
    rows[:, 1:] = points
    return rows


def _middle(points: Floats) -> Floats:
    """A value of each column from the middle of a sample, or zeros where these are near enough: no decision depends on it."""
    columns = np.ascontiguousarray(points[:: max(1, len(points) // _SAMPLE)].T)
    half = (columns.shape[1] - 1) // 2
    middle = np.partition(columns, half, axis=1)[:, half]
    spread = np.median(np.abs(columns), axis=1)  # about zero: large beside the middle where zero is as good a centre
    return np.where(np.all(4 * np.abs(middle) <= spread), 0.0, middle)


@one_blas_thread
@np.errstate(all="ignore")  # an overflow of the data is no affair of the caller's error settings
def one_stage(x: Floats, lambda_0: Fraction, k: int, window: int, *, early: bool = False) -> OneStage:
    """The levels and the score; ``early`` halts as soon as min(score, k) and, below k, the counts are settled.

    ValueError for rows that are not finite: the sums over all rows tell.
    """
    n = len(x)
    limits = outlier_limits(SHARP, lambda_0, k, n, range(SHARP.last_level(k, window) + 1), Fraction(1, n))
    lifted = Lifted(x, _middle(x))
    grams = watched_grams(lifted, limits)
    if not grams.finite:
        require_finite("x", x)
    entry = good_subset_levels(lifted, limits, settled(k, SHARP, window) if early else None, grams)
    return OneStage(lifted, grams, entry, score_of(entry, k, SHARP, window), k, SHARP.weight_levels(k, window))


@dataclass(frozen=True, eq=False)
class OneStage:
    """The levels of one data set, and what follows from them. Not private.

    Attributes
    ----------
    lifted, grams
        The vectors (1, x_i - c), and their float Gram matrices.
    entry
        The least level of each row.
    score
        SCORE, in 0..k.
    levels
        The weight levels.
    """

    lifted: Lifted
    grams: BlockGrams = field(repr=False)
    entry: Sparse
    score: int
    k: int
    levels: range

    @property
    def total(self) -> int:
        """W n: the weights are c_i/(W n)."""
        return len(self.levels) * len(self.lifted)

    @cached_property
    def counts(self) -> Sparse:
        """c_i, the number of weight levels that hold row i."""
        return self.entry.mapped(level_counts(np.arange(self.k + len(self.levels) + 1), self.levels))

    @cached_property
    @np.errstate(all="ignore")
    def moments(self) -> tuple[Floats, Floats] | None:
        """The weighted mean and the weighted scatter about it, in float64; None where the score is k or no row has weight.

        From sums about a centre near the mean: the scatter is M - s s^T/b, and is used where s s^T/b takes away at most
        three quarters of the diagonal of M. Elsewhere the sums are made anew about the mean that they gave, from scaled
        columns, and if that does not help either (overflow), integers do it.
        """
        counts = self.counts
        if self.score >= self.k or not counts.held:
            return None
        mean, covariance, close = _about_centre(self.grams, self.lifted, counts, self.total)
        if close:
            return mean, covariance
        lifted = Lifted(self.lifted.points, np.where(np.isfinite(mean), mean, self.lifted.centre))
        shift = column_shift(lifted, counts)
        if shift is not None:
            mean, covariance, close = _about_centre(BlockGrams(lifted, shift), lifted, counts, self.total)
            if close:
                return mean, covariance
        return self.exact.mean, self.exact.covariance

    @cached_property
    def exact(self) -> ExactMoments:
        """The same in exact arithmetic."""
        sums, unit = exact_sums(self.lifted, self.counts)
        return ExactMoments(sums, unit, self.lifted.centre, self.total)


def _about_centre(grams: BlockGrams, lifted: Lifted, counts: Sparse, total: int) -> tuple[Floats, Floats, bool]:
    """Mean and scatter from float sums about a centre, and whether nothing was lost on the way."""
    sums = grams.total(counts)
    b, s, second = sums[0, 0], sums[0, 1:], sums[1:, 1:]
    sizes = np.diag(sums)
    scatter = second - np.outer(s, s / b)
    in_range = bool(np.all(sizes >= 2.0**-_RANGE) and np.all(sizes <= 2.0**_RANGE))
    close = in_range and bool(np.all(_CLOSE * np.diag(scatter) >= np.diag(second)))
    shift = grams.shift
    mean = lifted.centre + np.ldexp(s / b, shift[0] - shift[1:])
    covariance = np.ldexp(scatter / total, -(shift[1:, None] + shift[None, 1:]))
    close = close and bool(np.isfinite(covariance).all())  # rounding may overflow where an entry is 0
    return mean, np.asarray(np.tril(covariance) + np.tril(covariance, -1).T), close


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """The sums B = sum c_i, S = sum c_i (x_i - c), M = sum c_i (x_i - c)(x_i - c)^T as integers in units of the columns.

    Attributes
    ----------
    sums, unit
        [[B, S^T], [S, M]], of which entry (j, l) counts in units of 2^(unit[j] + unit[l]); the first unit is 0.
    centre, total
        C, and W n.
    """

    sums: fmpz_mat
    unit: Indices
    centre: Floats
    total: int

    @cached_property
    def form(self) -> QuadraticForm:
        """B M - S S^T: the covariance is this over ``scale``."""
        d = self.sums.nrows() - 1
        rows = self.sums.tolist()
        b, s = rows[0][0], rows[0][1:]
        entries = [[b * rows[1 + i][1 + j] - s[i] * s[j] for j in range(d)] for i in range(d)]
        return QuadraticForm(fmpz_mat(entries), self.unit[1:])

    @property
    def scale(self) -> Fraction:
        """B W n."""
        return Fraction(int(self.sums[0, 0]) * self.total)

    @property
    def exact_mean(self) -> list[Fraction]:
        """C + S/B."""
        b = int(self.sums[0, 0])
        return [
            Fraction(c) + Fraction(int(self.sums[0, 1 + j]), b) * _power(int(self.unit[1 + j]))
            for j, c in enumerate(self.centre.tolist())
        ]

    @property
    def mean(self) -> Floats:
        """The same, correctly rounded."""
        return np.array([float(value) for value in self.exact_mean])

    @property
    def covariance(self) -> Floats:
        """(B M - S S^T)/(B W n), each entry correctly rounded; infinite where it overflows."""
        form, unit = self.form, self.unit[1:].tolist()
        d = form.width
        return np.array(
            [
                [_to_float(Fraction(int(form.matrix[i, j])) / self.scale * _power(unit[i] + unit[j])) for j in range(d)]
                for i in range(d)
            ]
        )


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
