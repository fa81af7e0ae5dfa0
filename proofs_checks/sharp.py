"""SHARP's one stage as checks: levels on the rows (1, x), their score, and how far mean and covariance can move.

The statements S1 to S12 of ``SHARP.md``, on any target with ``stable_moments(x, lambda_0, k, window)``. Whatever a target
returns in floats, its sets and its score are integers: weights, means and covariances follow from them exactly, and the bounds
are rational but for one square root, which is enclosed.

A pair is built from a bulk of small rows, up to k - 1 outliers in groups whose values are solved for so that a group enters
exactly at a drawn level, and a change of one row that moves these levels. Shears, powers of two and shifts hide the structure.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np
from flint import arb, ctx, fmpq_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from proofs_checks.datasets import Matrix, Row, as_array
from proofs_checks.divergence import ball_of
from proofs_checks.exact import exact_rows, float_fractions, largest_fraction, positive_trace
from proofs_checks.lemma import Case, Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.target import Target, counts_of, levels_of
from refimpl.definitions import is_good_subset
from refimpl.linalg import (
    inverse_or_none,
    is_positive_semidefinite,
    mahalanobis_squared,
    second_moment,
    to_fmpq,
    to_fraction,
)
from refimpl.parameters import Edition

__all__ = [
    "MomentPair",
    "Moments",
    "covariance_change",
    "mean_move",
    "moments_of",
    "row_share",
]

NEEDS = ("stable_moments",)
GRID = 1 << 10  # solved values are rounded to multiples of 1/1024
HUGE = Fraction(1 << 40)
ZERO, ONE = Fraction(0), Fraction(1)


# What the statements say, in exact numbers ----------------------------------------------------------------------------


def lambda_of(n: int, lambda_0: Fraction, ell: int) -> Fraction:
    """lambda_ell = n/(H - ell), H = n/lambda_0."""
    return n * lambda_0 / (n - ell * lambda_0)


def row_share(n: int, lambda_0: Fraction, k: int, window: int, level: int, r: int) -> Fraction:
    """s_L(r) = 1/((H-L) - (1-Omega_L) r): the largest (1/n) z_i^T G^-1 z_i of a row of S_L, k <= L <= k+W-1, at score r < k."""
    return 1 / (n / lambda_0 - level - Fraction(level - k, window) * r)


def covariance_change(n: int, lambda_0: Fraction, k: int, window: int, r: int, others: int) -> Fraction:
    """Q(r, D): what i* and D other rows can take from G, in units of G."""
    levels = range(k, k + window)
    shares = [row_share(n, lambda_0, k, window, level, r) for level in levels]
    stays = [Fraction(k + window - level, window) for level in levels]
    star = max(stay * share for stay, share in zip(stays, shares, strict=True))
    return star + Fraction(others, window) * max(shares)


def has_room(n: int, lambda_0: Fraction, k: int, window: int) -> bool:
    """H - L - (1-Omega_L)(k-1) > 0 for all levels L of the window: no share s_L(r) is infinite."""
    return all(n / lambda_0 - level > Fraction(level - k, window) * (k - 1) for level in range(k, k + window))


def passes_size_gate(n: int, lambda_0: Fraction, k: int, window: int) -> bool:
    """There is room, Q(k-1, k-1) < 1, and lambda_0 >= 1."""
    room = lambda_0 >= 1 and has_room(n, lambda_0, k, window)
    return room and covariance_change(n, lambda_0, k, window, k - 1, k - 1) < 1


def _move(n: int, lambda_0: Fraction, k: int, window: int, z: int) -> arb:
    r, levels = min(z + 1, k - 1), range(k, k + window)
    radii = [(ball_of(n * row_share(n, lambda_0, k, window, level, r) - 1)).sqrt() for level in levels]
    stays = [ball_of(Fraction(k + window - level, window)) for level in levels]
    anywhere = _largest(stay * radius for stay, radius in zip(stays, radii, strict=True))
    other = _largest(radii) / window
    inside = ball_of(n / (n / lambda_0 - z) - 1).sqrt()
    moves = []
    for others, start in ((z, inside), (z - 1, anywhere)):
        if others >= 0:
            keep = 1 - covariance_change(n, lambda_0, k, window, r, others)
            turn = 1 / ball_of(keep).sqrt()
            star = _largest((start * turn + anywhere, start + anywhere * turn))
            moves.append((star + others * other * turn) / (n - 1 - others))
    return _largest(moves)


def _largest(values: Iterable[arb]) -> arb:
    return functools.reduce(lambda u, v: u.max(v), values)


@cache
def mean_move(n: int, lambda_0: Fraction, k: int, window: int, z: int) -> Fraction:
    """An upper bound, tight to 1e-30, on how far the mean moves in either norm where the smaller score is z < k."""
    with ctx.workprec(128):
        return largest_fraction(_move(n, lambda_0, k, window, z))


# Cases ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MomentPair(Case):
    """Two data sets that differ in one row, with the public arguments of the one stage.

    Attributes
    ----------
    rows, index, row
        The data set; the second one has ``row`` at ``index`` instead.
    lambda_0, k, window
        Public arguments.
    label
        Where the case comes from.
    """

    rows: Matrix
    index: int
    row: Row
    lambda_0: Fraction
    k: int
    window: int
    label: str = field(default="built", compare=False)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.row)

    @property
    def levels(self) -> int:
        """The number of levels, k + W."""
        return self.k + self.window

    @property
    def rows_prime(self) -> Matrix:
        """The adjacent data set."""
        return (*self.rows[: self.index], self.row, *self.rows[self.index + 1 :])

    @cached_property
    def x(self) -> NDArray[np.float64]:
        """The data set as float64, which holds it exactly."""
        return as_array(self.rows)

    @cached_property
    def x_prime(self) -> NDArray[np.float64]:
        """The adjacent data set as float64."""
        return as_array(self.rows_prime)

    def threshold(self, level: int) -> Fraction:
        """lambda_ell."""
        return lambda_of(self.n, self.lambda_0, level)

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return self.n

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: exact numbers as "p/q", rows run-length encoded."""
        return {
            "rows": [[len(list(run)), [str(v) for v in row]] for row, run in groupby(self.rows)],
            "index": self.index,
            "row": [str(v) for v in self.row],
            "lambda_0": str(self.lambda_0),
            "k": self.k,
            "window": self.window,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The pair of a JSON object as :meth:`to_json` writes it."""

        def row(texts: Sequence[str]) -> Row:
            return tuple(Fraction(text) for text in texts)

        rows = tuple(r for count, texts in data["rows"] for r in [row(texts)] * count)
        return cls(rows, data["index"], row(data["row"]), Fraction(data["lambda_0"]), data["k"], data["window"])

    def paste(self) -> str:
        """Python that builds the pair, to be pasted."""
        runs = " + ".join(f"[{[float(v) for v in row]}] * {len(list(run))}" for row, run in groupby(self.rows))
        return "\n".join(
            [
                "import numpy as np",
                f"x = np.array({runs}, dtype=float)",
                "x_prime = x.copy()",
                f"x_prime[{self.index}] = {[float(v) for v in self.row]}",
                f'lambda_0, k, window = "{self.lambda_0}", {self.k}, {self.window}',
            ]
        )


def is_a_moment_pair(pair: MomentPair) -> None:
    """The hypotheses of sections 1 to 3 of ``SHARP.md``: one row differs, and the size gate is passed."""
    require("the new row has as many columns", len(pair.row) == len(pair.rows[0]))
    require("lambda_0 >= 1, k >= 1, W >= 1", pair.lambda_0 >= 1 and pair.k >= 1 and pair.window >= 1)
    require("H > k + W - 1", pair.n > (pair.levels - 1) * pair.lambda_0)
    require("the size gate", passes_size_gate(pair.n, pair.lambda_0, pair.k, pair.window))


def lifted(rows: Matrix) -> Matrix:
    """The rows (1, x_i)."""
    return tuple((ONE, *row) for row in rows)


# Building pairs -------------------------------------------------------------------------------------------------------

Members = list[tuple[Row, int]]
"""Distinct rows with how many there are of each."""


def leverage(members: Members, row: Row) -> Fraction | None:
    """z^T (sum z_i z_i^T)^-1 z of a row among others that include it; None where the sum is singular."""
    distinct = exact_rows(lifted(tuple(r for r, _ in members)))
    inverse = inverse_or_none(second_moment(distinct, [Fraction(count) for _, count in members]))
    return None if inverse is None else to_fraction(mahalanobis_squared(exact_rows(lifted((row,))), inverse)[0])


def _on_axis(value: Fraction, axis: int, d: int) -> Row:
    return tuple(value if j == axis else ZERO for j in range(d))


def tied(members: Members, count: int, axis: int, sign: int, bound: Fraction) -> Fraction:
    """The largest grid value v > 0 such that ``count`` rows sign v e_axis among the members have leverage at most ``bound``."""
    d = len(members[0][0])
    low, high = 0, 1 << 16
    while high - low > 1:
        middle = (low + high) // 2
        row = _on_axis(Fraction(sign * middle, GRID), axis, d)
        found = leverage([*members, (row, count)], row)
        low, high = (middle, high) if found is not None and found <= bound else (low, middle)
    return Fraction(low, GRID)


def _bulk(size: int, d: int) -> Members:
    """Rows of signs in all corners, in equal parts as far as possible."""
    corners = [tuple(Fraction(s) for s in signs) for signs in itertools.product((1, -1), repeat=d)]
    shares = [size // len(corners) + (i < size % len(corners)) for i in range(len(corners))]
    return [(corner, share) for corner, share in zip(corners, shares, strict=True) if share]


def _moved(row: Row, shear: int, scale: int, shift: Fraction) -> Row:
    """An invertible affine map in exact dyadic numbers: no norm of a lifted row changes."""
    return tuple((v + (shear * row[0] if j else 0)) * Fraction(2) ** scale + shift * (j + 1) for j, v in enumerate(row))


KINDS = ("bulk", "zero", "huge", "level", "opposite")
"""What i* is in one of the two data sets: a bulk row, the centre, far out, or just inside a level on either side."""


def _public(draw: st.DrawFn, d: int, least_k: int) -> tuple[int, int, Fraction, int]:
    """k, W, lambda_0 and n that pass the size gate; some barely."""
    k = max(least_k, draw(st.sampled_from([2, 3, 4, 2, 3, 1])))
    window = draw(st.sampled_from([2, 3, 1, 5]))
    lambda_0 = d + 1 + draw(st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2)]))
    n = math.ceil((k + window - 1 + (k - 1) * (1 - Fraction(1, window))) * lambda_0) + 1
    while not passes_size_gate(n, lambda_0, k, window):
        n += 1
    return k, window, lambda_0, n + draw(st.sampled_from([0, 0, 1, 7]))


@dataclass(frozen=True)
class Plot:
    """What a built pair is made of, before it is hidden by an affine map.

    Attributes
    ----------
    d, k, window, lambda_0, n
        Public.
    star, other
        What i* is in the data set with which the groups are solved, and in the other: a kind and a level.
    groups
        Size, level, axis, sign and grid steps above the solved value, of each group of equal outliers, innermost first.
    """

    d: int
    k: int
    window: int
    lambda_0: Fraction
    n: int
    star: tuple[str, int]
    other: tuple[str, int]
    groups: tuple[tuple[int, int, int, int, int], ...] = ()

    def rows(self) -> tuple[list[Row], Row]:
        """The rows with i* first, and what i* is in the other data set."""
        big = self.n / self.lambda_0
        members = _bulk(self.n - 1 - sum(size for size, *_ in self.groups), self.d)
        star = _star(*self.star, members, big)
        # No level holds a huge row: the groups are solved without it.
        known = members if self.star[0] == "huge" else [*members, (star, 1)]
        groups: Members = []
        for size, level, axis, sign, above in self.groups:
            value = tied([*known, *groups], size, axis, sign, 1 / (big - level)) + Fraction(above, GRID)
            groups.append((_on_axis(sign * value, axis, self.d), size))
        other = _star(*self.other, [*members, *groups], big)
        return [star, *(row for row, count in (*groups, *members) for _ in range(count))], other

    def pair(self, shear: int = 0, scale: int = 0, shift: Fraction = ZERO, *, swap: bool = False) -> MomentPair:
        """The pair after an affine map, with the two data sets exchanged if ``swap``."""
        rows, other = self.rows()
        if swap:
            rows[0], other = other, rows[0]
        moved = [_moved(row, shear, scale, shift) for row in (*rows, other)]
        label = f"{self.star[0]} to {self.other[0]}"
        return MomentPair(tuple(moved[:-1]), 0, moved[-1], self.lambda_0, self.k, self.window, label)


def _star(kind: str, level: int, members: Members, big: Fraction) -> Row:
    d = len(members[0][0])
    if kind == "bulk":
        return (ONE,) * d
    if kind == "zero":
        return (ZERO,) * d
    if kind == "huge":
        return (HUGE,) * d
    sign = 1 if kind == "level" else -1
    return _on_axis(sign * tied(members, 1, 0, sign, 1 / (big - level)), 0, d)


@st.composite
def _built(draw: st.DrawFn, kinds: Sequence[str] = KINDS, least_k: int = 2, *, crossing: bool = True) -> MomentPair:
    """Groups of outliers, each just inside or just outside a level, and a row i* that goes from one kind to another."""
    d = draw(st.sampled_from([1, 1, 1, 2]))
    k, window, lambda_0, n = _public(draw, d, least_k)
    start = draw(st.sampled_from(kinds))
    end = draw(st.sampled_from([kind for kind in kinds if kind != start]))
    spare = k - 1 - ("huge" in {start, end})  # the score stays below k
    first = draw(st.integers(min(1, spare), max(0, spare)))
    second = draw(st.integers(0, max(0, spare - first)))
    levels = sorted(draw(st.sampled_from(range(k if crossing else 0, k + window))) for _ in range(2))
    groups = [
        (size, level, draw(st.integers(0, d - 1)), draw(st.sampled_from([1, 1, -1])), draw(st.sampled_from([0, 0, 1])))
        for size, level in zip((first, second), levels, strict=True)
        if size
    ]

    def leveled(kind: str) -> tuple[str, int]:
        return kind, draw(st.sampled_from([0, 0, k, k + window - 1, draw(st.integers(0, k + window - 1))]))

    plot = Plot(d, k, window, lambda_0, n, leveled(start), leveled(end), tuple(groups))
    shear, scale = draw(st.integers(-1, 1)), draw(st.sampled_from([0, 0, -2, 9]))
    shift = Fraction(draw(st.sampled_from([0, 0, 3, -1000])))
    return plot.pair(shear, scale, shift, swap=draw(st.booleans()))


@st.composite
def _grid_points(draw: st.DrawFn) -> MomentPair:
    """Small integers with many repeats and exact ties, a few wild rows, sometimes a constant or dependent column."""
    d = draw(st.sampled_from([1, 1, 2]))
    k, window, lambda_0, n = _public(draw, d, 1)
    kinds = draw(st.lists(st.tuples(*[st.integers(-2, 2)] * d), min_size=2, max_size=4))
    pattern = [tuple(Fraction(v) for v in kind) for kind in kinds] + [row for row, _ in _bulk(1 << d, d)]
    if d > 1 and draw(st.sampled_from([False, False, True])):
        pattern = [(row[0], row[0] * draw(st.sampled_from([0, 2]))) for row in pattern]
    rows = [pattern[i % len(pattern)] for i in range(n)]
    wild = st.sampled_from([ZERO, ONE, Fraction(3), Fraction(10), Fraction(1 << 20), -HUGE])
    for position in draw(st.lists(st.integers(0, n - 1), max_size=k, unique=True)):
        rows[position] = tuple(draw(wild) for _ in range(d))
    row = tuple(draw(wild) for _ in range(d))
    return MomentPair(tuple(rows), draw(st.integers(0, n - 1)), row, lambda_0, k, window, label="grid")


@st.composite
def _quiet_points(draw: st.DrawFn) -> MomentPair:
    """No outliers but i*, which is in the bulk or tied with lambda_0 in one data set."""
    d = draw(st.sampled_from([1, 2]))
    k, window, lambda_0, n = _public(draw, d, 1)
    start = draw(st.sampled_from(["bulk", "zero", "level"]))
    end = draw(st.sampled_from(["opposite", "huge"]))
    plot = Plot(d, k, window, lambda_0, n, (start, 0), (end, draw(st.integers(0, k))))
    return plot.pair(draw(st.integers(-1, 1)), draw(st.sampled_from([0, 9])), Fraction(draw(st.sampled_from([0, 3]))))


def concentrated_moments() -> SearchStrategy[MomentPair]:
    """Adjacent rows of which the first data set has score 0, mostly."""
    return st.one_of(_quiet_points(), _quiet_points(), _quiet_points(), _built(crossing=False), _grid_points())


def moment_pairs() -> SearchStrategy[MomentPair]:
    """Adjacent rows of every kind, most of them with both scores below k."""
    return st.one_of(_built(), _built(crossing=False), _built(("level", "opposite", "huge")), _grid_points())


def crossing_moments() -> SearchStrategy[MomentPair]:
    """Adjacent rows with both scores below k, mostly, and outliers that enter next to levels of the weight window."""
    return st.one_of(_built(("bulk", "zero", "level", "opposite")), _built(least_k=3), _built())


def scoring_moments() -> SearchStrategy[MomentPair]:
    """Adjacent rows whose scores differ, mostly."""
    return st.one_of(_built(("huge", "zero"), 3, crossing=False), _built(("huge", "level", "bulk"), 3), _built())


# What a target computes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """The one stage on one data set: what a target reports, and the exact numbers that follow from its sets.

    Attributes
    ----------
    score, sets
        The target's.
    weights
        Omega_{max(e(i), k)}/n from the target's sets, exactly.
    reported_weights, reported_mean, reported_covariance
        What the target reports; the last two are None where it gives none.
    gram
        G = sum w_i z_i z_i^T of the lifted rows, exactly.
    """

    score: int
    sets: tuple[frozenset[int], ...]
    weights: list[Fraction]
    reported_weights: list[Fraction]
    reported_mean: list[Fraction] | None
    reported_covariance: list[Fraction] | None
    rows: Matrix
    gram: fmpq_mat

    @property
    def b(self) -> Fraction:
        """The total weight."""
        return to_fraction(self.gram[0, 0])

    @property
    def mean(self) -> list[Fraction]:
        """s/b."""
        return [to_fraction(self.gram[0, j]) / self.b for j in range(1, self.gram.ncols())]

    @cached_property
    def covariance(self) -> fmpq_mat:
        """C = M - s s^T/b."""
        d = self.gram.ncols() - 1
        entries = [
            self.gram[1 + i, 1 + j] - self.gram[0, 1 + i] * self.gram[0, 1 + j] / self.gram[0, 0]
            for i in range(d)
            for j in range(d)
        ]
        return fmpq_mat(d, d, entries)

    def shares(self) -> list[Fraction]:
        """(1/n) z_i^T G^-1 z_i for all rows; G must be nonsingular."""
        norms = mahalanobis_squared(exact_rows(lifted(self.rows)), self.gram.inv())
        return [to_fraction(norm) / len(self.rows) for norm in norms]

    def distance_squared(self, move: Sequence[Fraction]) -> Fraction:
        """|move|^2 in the norm of C, which must be nonsingular."""
        return to_fraction(mahalanobis_squared(exact_rows((tuple(move),)), self.covariance.inv())[0])


def moments_of(target: Target, pair: MomentPair, *, prime: bool = False) -> Moments:
    """The one stage of ``target`` on one of the two data sets of a pair."""
    rows = pair.rows_prime if prime else pair.rows
    result = target.stable_moments(pair.x_prime if prime else pair.x, pair.lambda_0, pair.k, pair.window)
    sets = levels_of(result, pair.levels)
    counts = counts_of(sets, range(pair.k, pair.levels), pair.n)
    weights = [Fraction(c, pair.window * pair.n) for c in counts]
    return Moments(
        int(result.score),
        sets,
        weights,
        float_fractions(result.weights),
        None if result.mean is None else float_fractions(result.mean),
        None if result.covariance is None else _flat(result.covariance),
        rows,
        second_moment(exact_rows(lifted(rows)), weights),
    )


def _flat(matrix: Any) -> list[Fraction]:
    if isinstance(matrix, fmpq_mat):
        return [to_fraction(v) for v in matrix.entries()]
    return [Fraction(float(v)) for row in np.asarray(matrix, dtype=float) for v in row]


def _both(target: Target, pair: MomentPair) -> tuple[Moments, Moments]:
    return moments_of(target, pair), moments_of(target, pair, prime=True)


def _below(pair: MomentPair, *sides: Moments) -> bool:
    return all(side.score < pair.k for side in sides)


def _others(pair: MomentPair, one: Moments, two: Moments) -> list[int]:
    """The rows other than i* whose weights differ."""
    return [i for i in range(pair.n) if i != pair.index and one.weights[i] != two.weights[i]]


def _pinned(*names: str) -> Callable[[], Sequence[MomentPair]]:
    return lambda: [PAIRS[name]() for name in names]


# S1 to S5: the levels, the score, the weights -------------------------------------------------------------------------


@lemma(
    "S1",
    "each S_ell is the largest good subset of the lifted rows, and they are nested",
    cases=moment_pairs,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="some level keeps some rows and removes others",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "sharp_rows_are_not_lifted",
        "sharp_divides_by_subset_size",
        "sharp_strict_for_non_strict",
        "sharp_single_pass",
        "sharp_thresholds_grow_too_fast",
        "sharp_levels_fall",
    ),
    examples=_pinned("steep, exchanged", "equal rows"),
    cost=5,
)
def sharp_subsets_are_good(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """S_ell is lambda_ell-good or empty, holds every row that could be added to it, and is contained in S_{ell+1}."""
    one = moments_of(target, pair)
    yield tells(any(0 < len(s) < pair.n for s in one.sets))
    rows = exact_rows(lifted(pair.rows))
    for ell, subset in enumerate(one.sets):
        lam = pair.threshold(ell)
        yield holds(f"S_{ell} is good or empty", not subset or is_good_subset(rows, subset, lam))
        if ell:
            yield at_most(f"rows of S_{ell - 1} missing from S_{ell}", len(one.sets[ell - 1] - subset), 0)
        left_out = sorted(set(range(pair.n)) - subset)
        if left_out:
            yield holds(f"[n] is not good where S_{ell} is smaller", not is_good_subset(rows, range(pair.n), lam))
        for i in left_out[:2]:
            yield holds(f"S_{ell} with row {i} back is not good", not is_good_subset(rows, {*subset, i}, lam))


@lemma(
    "S2",
    "good subsets of adjacent data are intertwined at lambda_ell = n/(H - ell)",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="S_ell and T_ell differ off i* at some level",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp_thresholds_do_not_grow", "sharp_thresholds_as_printed", "sharp_single_pass"),
    examples=_pinned("equal rows", "huge"),
    cost=5,
)
def sharp_subsets_intertwine(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """S_ell minus i* is contained in T_{ell+1}, and T_ell minus i* in S_{ell+1}, as long as H > k + W - 1."""
    one, two = _both(target, pair)
    star = {pair.index}
    yield tells(any((s ^ t) - star for s, t in zip(one.sets, two.sets, strict=True)))
    for ell in range(pair.levels - 1):
        for small, large, what in ((one, two, "S_{} in T_{}"), (two, one, "T_{} in S_{}")):
            missing = len(small.sets[ell] - star - large.sets[ell + 1])
            yield at_most(f"rows other than i* that break {what.format(ell, ell + 1)}", missing, 0)


@dataclass(frozen=True)
class EqualRows(Case):
    """A group of equal rows that ties with lambda_ell exactly, and one of them goes far out: they tie with lambda_{ell+1}.

    Attributes
    ----------
    bulk
        Rows 1 and -1 in equal numbers; an even number.
    group, value
        How many rows ``value`` there are, at least 2.
    level
        ell: lambda_0 is solved for.
    k, window
        With k + W - 1 > ell.
    """

    bulk: int
    group: int
    value: Fraction
    level: int
    k: int
    window: int

    @property
    def share(self) -> Fraction:
        """The leverage of a row of the group: 1/(H - ell)."""
        n, c = self.bulk + self.group, self.group
        centred = self.value - self.value * c / n
        return Fraction(1, n) + centred**2 / (self.bulk + c * self.value**2 - c**2 * self.value**2 / n)

    def pair(self) -> MomentPair:
        """The two data sets."""
        n = self.bulk + self.group
        rows = [(self.value,)] * self.group + [(ONE,), (-ONE,)] * (self.bulk // 2)
        lambda_0 = n / (self.level + 1 / self.share)
        return MomentPair(tuple(rows), 0, (HUGE,), lambda_0, self.k, self.window, label="equal rows")

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return self.bulk + self.group

    def paste(self) -> str:
        """Python that builds the pair, to be pasted."""
        return self.pair().paste()


@cache
def _equal_rows(bulks: tuple[int, ...]) -> tuple[EqualRows, ...]:
    found = []
    for bulk, group, value, level in itertools.product(bulks, (2, 3), map(Fraction, ("3", "4", "13/2")), (0, 1, 2)):
        for k, window in ((2, 2), (3, 1)):
            case = EqualRows(bulk, group, value, level, k, window)
            pair = case.pair()
            farthest = leverage([((value,), group), *_bulk(bulk, 1)], (-ONE,)) or ONE
            bulk_is_good = pair.n * farthest <= pair.lambda_0
            if (
                pair.n > (pair.levels - 1) * pair.lambda_0
                and level + 1 < pair.levels
                and 1 / case.share > 2
                and bulk_is_good
            ):
                found.append(case)
    return tuple(found)


def equal_rows_domain(profile: str) -> Iterator[EqualRows]:
    """All cases of a few sizes in which the bulk is in S_0."""
    yield from _equal_rows({"quick": (12, 30), "ci": (12, 30, 50)}.get(profile, (8, 12, 20, 30, 50, 80)))


def _equal_rows_hold(case: EqualRows) -> None:
    pair = case.pair()
    require("at least two rows in the group, and an even bulk", case.group > 1 and case.bulk % 2 == 0)
    require("H > k + W - 1 > ell", pair.n > (pair.levels - 1) * pair.lambda_0 and pair.levels - 1 > case.level)
    require("H - ell > 2", 1 / case.share > 2)


@lemma(
    "S3",
    "slower thresholds do not do: equal rows attain Claim 29 at every level",
    domain=equal_rows_domain,
    given=_equal_rows_hold,
    needs=NEEDS,
    telling="the group enters exactly at level ell, and one level later in the adjacent data",
    least_telling=Fraction(1, 2),
    evidence="exhaustive",
    refuted_by=(
        "sharp_thresholds_as_printed",
        "sharp_thresholds_do_not_grow",
        "sharp_thresholds_grow_too_fast",
        "sharp_strict_for_non_strict",
    ),
)
def sharp_thresholds_are_least(target: Target, case: EqualRows) -> Iterator[Claim | Telling]:
    """Equal rows of norm lambda_ell have norm 1/(1/lambda_ell - 1/n), which is lambda_{ell+1}, once one of them is gone."""
    pair = case.pair()
    one, two = _both(target, pair)
    entries = [next((ell for ell, s in enumerate(side.sets) if 1 in s), pair.levels) for side in (one, two)]
    yield tells(entries == [case.level, case.level + 1])
    without = leverage([((case.value,), case.group - 1), *_bulk(case.bulk, 1)], (case.value,))
    yield equal("norm of the others, once one row is gone", pair.n * (without or 0), pair.threshold(case.level + 1))
    yield equal("least level that holds the group", entries[0], case.level)
    yield equal("least level that holds what is left of it", entries[1], case.level + 1)


@lemma(
    "S4",
    "the score moves by at most 1",
    cases=scoring_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="the two scores differ",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "sharp_score_by_sum",
        "sharp_score_of_the_first_level_alone",
        "sharp_score_without_the_level",
        "sharp_score_is_not_capped",
        "sharp_thresholds_do_not_grow",
    ),
    examples=_pinned("low", "first", "flat"),
    cost=5,
)
def sharp_score_sensitivity(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """SCORE = min(k, min_{ell < k} max(n - |S_ell|, ell)), and it differs by at most 1 between adjacent data."""
    one, two = _both(target, pair)
    yield tells(one.score != two.score)
    yield at_most("change of SCORE", abs(one.score - two.score), 1)
    for side in (one, two):
        levels = [max(pair.n - len(side.sets[ell]), ell) for ell in range(pair.k)]
        yield equal("SCORE against its definition on the target's own sets", side.score, min(pair.k, *levels))


@lemma(
    "S5",
    "below k all rows but r have full weight, and at most min(r, r') others change",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="both scores are below k and some weight off i* differs",
    least_telling=Fraction(1, 8),
    refuted_by=(
        "sharp_window_starts_at_0",
        "sharp_window_starts_at_k_minus_1",
        "sharp_window_starts_at_k_plus_1",
        "sharp_window_is_one_longer",
        "sharp_weights_divided_by_subset_size",
        "sharp_weights_are_normalized",
        "sharp_weights_are_not_averaged",
    ),
    examples=_pinned("steep"),
    cost=5,
)
def sharp_few_rows_change(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """At score r < k, |S_r| >= n - r. Both below k: at most min(r, r') others change, each by at most 1/(Wn).

    At most r - 1 of them if i* is not in S_r.
    """
    one, two = _both(target, pair)
    below = _below(pair, one, two)
    others = _others(pair, one, two)
    yield tells(below and bool(others))
    for side in (one, two):
        yield equal("number of weights", len(side.reported_weights), pair.n)
        for reported, exact in zip(side.reported_weights, side.weights, strict=True):
            if reported != exact:  # quiet on the many rows that agree to the last bit
                yield equal("a weight against its sets", reported, exact, rounded=True, scale=Fraction(1, pair.n))
        if side.score < pair.k:
            yield at_most("rows missing from S_r", pair.n - len(side.sets[side.score]), side.score)
    if not below:
        return
    for side in (one, two):
        allowed = side.score - (pair.index not in side.sets[side.score])
        yield at_most("number of others whose weight changes", len(others), allowed)
    moves = [abs(one.reported_weights[i] - two.reported_weights[i]) for i in range(pair.n) if i != pair.index]
    yield at_most(
        "largest change of a weight off i*",
        max(moves),
        Fraction(1, pair.window * pair.n),
        rounded=True,
        scale=Fraction(1, pair.n),
    )


# S6 to S10: covariance and mean ---------------------------------------------------------------------------------------


@lemma(
    "S6",
    "a row of S_L has (1/n) z^T G^-1 z <= s_L(r)",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="the score is below k and a row enters in the weight window",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp_thresholds_grow_too_fast", "sharp_weights_of_the_first_level"),
    examples=_pinned("crossing", "steep"),
    cost=5,
)
def sharp_rows_are_near(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """At score r < k, (1/n) z_i^T G^-1 z_i <= s_L(r) = 1/((H-L) - (1-Omega_L) r) for i in S_L, k <= L <= k+W-1.

    G is that of the reported weights.
    """
    one = moments_of(target, pair)
    low, high = one.sets[pair.k - 1], one.sets[pair.levels - 1]
    yield tells(one.score < pair.k and low < high)
    if one.score >= pair.k:
        yield holds("the score is at most k", one.score == pair.k)
        return
    gram = second_moment(exact_rows(lifted(pair.rows)), one.reported_weights)
    inverse = inverse_or_none(gram)
    yield holds("G is nonsingular", inverse is not None)
    if inverse is None:
        return
    shares = [to_fraction(v) / pair.n for v in mahalanobis_squared(exact_rows(lifted(pair.rows)), inverse)]
    for level in range(pair.k, pair.levels):
        largest = max(shares[i] for i in one.sets[level])
        bound = row_share(pair.n, pair.lambda_0, pair.k, pair.window, level, one.score)
        yield at_most(f"largest share of a row of S_{level}", largest, bound, rounded=True)


@lemma(
    "S7",
    "what one side loses is at most Q(r, D) of it",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="both scores are below k and some weight off i* differs",
    least_telling=Fraction(1, 8),
    refuted_by=("sharp_thresholds_grow_too_fast", "sharp_raw_rows_averaged"),
    examples=_pinned("low", "steep", "late"),
    cost=5,
)
def sharp_loss_is_bounded(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """Both scores below k: tr G_1^-1 Lo <= Q(r, D), Lo what the weights lose from x to x', r the score of x; likewise the gain.

    D is the number of others whose weights change; G, Lo and the gain are those of the reported weights.
    """
    one, two = _both(target, pair)
    others = _others(pair, one, two)
    below = _below(pair, one, two)
    yield tells(below and bool(others))
    if not below:
        yield holds("the scores are at most k", max(one.score, two.score) == pair.k)
        return
    for side, other, what in ((one, two, "loss"), (two, one, "gain")):
        lost = [
            max(u - v, ZERO) if i != pair.index else u
            for i, (u, v) in enumerate(zip(side.reported_weights, other.reported_weights, strict=True))
        ]
        rows = exact_rows(lifted(side.rows))
        inverse = inverse_or_none(second_moment(rows, side.reported_weights))
        yield holds("G is nonsingular", inverse is not None)
        if inverse is not None:
            norms = mahalanobis_squared(rows, inverse)
            total = sum((w * to_fraction(norm) for w, norm in zip(lost, norms, strict=True)), ZERO)
            bound = covariance_change(pair.n, pair.lambda_0, pair.k, pair.window, side.score, len(others))
            yield at_most(f"trace of the {what}", total, bound, rounded=True)


@lemma(
    "S8",
    "the weighted scatter C inherits the change of G, and norms of lifted rows are distances from the mean",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="both scores are below k and the covariances differ",
    least_telling=Fraction(1, 3),
    refuted_by=(
        "sharp_scatter_about_zero",
        "sharp_mean_divided_by_n",
        "sharp_covariance_is_normalized",
        "sharp_moments_of_all_rows",
    ),
    examples=_pinned("crossing", "chain"),
    cost=5,
)
def sharp_covariances_are_close(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """C^-1 is a block of G^-1, z^T G^-1 z = 1/b + |x - mu|_C^2, and tr_+(I - C_1^{-1/2} C_2 C_1^{-1/2}) <= Q(r, D) both ways.

    It is at most that of G too; and (1-Q) C_1 <= C_2 <= C_1/(1-Q).
    """
    one, two = _both(target, pair)
    below = _below(pair, one, two)
    yield tells(below and one.covariance != two.covariance)
    for side in (one, two):
        yield from _is_schur(pair, side)
    if not below:
        return
    r, others = max(one.score, two.score), min(one.score, two.score)
    bound = covariance_change(pair.n, pair.lambda_0, pair.k, pair.window, r, others)
    for first, second, what in ((one, two, "x to x'"), (two, one, "x' to x")):
        change, whole = (
            positive_trace(a, b) for a, b in ((first.covariance, second.covariance), (first.gram, second.gram))
        )
        yield at_most(f"tr_+ of the change of C, {what}", change[1], bound)
        yield at_most(f"tr_+ of C against that of G, {what}", change[0], whole[1])
        kept = second.covariance - first.covariance * to_fmpq(1 - bound)
        yield holds(f"at least 1 - Q of C is kept, {what}", is_positive_semidefinite(kept))


def _is_schur(pair: MomentPair, side: Moments) -> Iterator[Claim]:
    """The reported mean and covariance are s/b and the Schur complement, whose inverse is a block of that of G."""
    has_moments = side.reported_mean is not None and side.reported_covariance is not None
    yield equal(
        "mean and covariance are there exactly where the score is below k", int(has_moments), side.score < pair.k
    )
    if side.reported_mean is None or side.reported_covariance is None or side.score >= pair.k:
        return
    size = max(abs(v) for row in side.rows for v in row)
    for reported, exact in zip(side.reported_mean, side.mean, strict=True):
        yield equal("a coordinate of the mean", reported, exact, rounded=True, scale=size)
    entries = [to_fraction(v) for v in side.covariance.entries()]
    for reported, exact in zip(side.reported_covariance, entries, strict=True):
        yield equal("an entry of the covariance", reported, exact, rounded=True, scale=size * size)
    inverse, block = inverse_or_none(side.gram), inverse_or_none(side.covariance)
    yield holds("G and C are positive definite", inverse is not None and block is not None)
    if inverse is None or block is None:
        return
    d = pair.d
    yield holds(
        "C^-1 is the last block of G^-1",
        all(inverse[1 + i, 1 + j] == block[i, j] for i in range(d) for j in range(d)),
    )
    row = side.rows[pair.index]
    distance = side.distance_squared([u - v for u, v in zip(row, side.mean, strict=True)])
    norm = to_fraction(mahalanobis_squared(exact_rows(lifted((row,))), inverse)[0])
    yield equal("norm of a lifted row less its distance from the mean", norm - distance, 1 / side.b)


@lemma(
    "S9",
    "the mean moves by at most the bound, in either norm",
    cases=crossing_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="both scores are below k and the means differ",
    least_telling=Fraction(1, 3),
    refuted_by=("sharp_mean_of_all_rows", "sharp_mean_divided_by_n"),
    examples=_pinned("huge", "crossing, shifted", "tight mean"),
    cost=5,
)
def sharp_means_are_close(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """Both scores below k, z the smaller: the mean moves by at most [max(a cv + A, a + A cv) + D o cv]/(n-1-D).

    In the norm of C_1 and in that of C_2.
    """
    one, two = _both(target, pair)
    below = _below(pair, one, two)
    means = [side.reported_mean for side in (one, two)]
    yield tells(below and means[0] != means[1])
    if not below or means[0] is None or means[1] is None:
        yield holds("without a score below k there is no mean", not below)
        return
    move = [u - v for u, v in zip(means[0], means[1], strict=True)]
    bound = mean_move(pair.n, pair.lambda_0, pair.k, pair.window, min(one.score, two.score))
    for side, what in ((one, "C_1"), (two, "C_2")):
        distance = side.distance_squared(move)
        yield at_most(
            f"squared move of the mean in the norm of {what}", distance, bound**2, rounded=True, scale=distance
        )


@lemma(
    "S10",
    "below k the covariance is positive definite, and little weight is lost",
    cases=moment_pairs,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="the score is positive and below k",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp_score_of_the_last_level", "sharp_weights_of_the_first_level"),
    examples=_pinned("crossing", "early"),
    cost=5,
)
def sharp_covariance_is_positive(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """At score r < k, C > 0 and b >= (n - r)/n; and with lambda_{k-1} < d + 1 the score is k, whatever the data."""
    one = moments_of(target, pair)
    yield tells(0 < one.score < pair.k)
    if one.score < pair.k:
        yield at_most(
            "weight that is lost", 1 - sum(one.reported_weights), Fraction(one.score, pair.n), rounded=True, scale=1
        )
        positive = inverse_or_none(one.covariance) is not None and is_positive_semidefinite(one.covariance)
        yield holds("C is positive definite", one.b > 0 and positive)
    small = Fraction(pair.d + 1) / (1 + Fraction((pair.k - 1) * (pair.d + 1), pair.n)) * Fraction(999, 1000)
    hopeless = target.stable_moments(pair.x, small, pair.k, 1)
    yield equal("SCORE with lambda_{k-1} below d + 1", int(hopeless.score), pair.k)


@lemma(
    "S11",
    "score 0 means that every norm is at most lambda_0, and gives the sample mean and scatter",
    cases=concentrated_moments,
    given=is_a_moment_pair,
    needs=NEEDS,
    telling="the score is 0",
    least_telling=Fraction(1, 8),
    refuted_by=("sharp_score_is_never_0", "sharp_covariance_is_unbiased", "sharp_last_row_ignored"),
    examples=_pinned("quiet"),
    cost=5,
)
def sharp_concentrated_rows_pass(target: Target, pair: MomentPair) -> Iterator[Claim | Telling]:
    """SCORE = 0 exactly if |x_i - xbar|^2 <= lambda_0 - 1 for all i, in the norm of the sample scatter over n.

    Then mu and C are the sample mean and that scatter.
    """
    n, one = pair.n, moments_of(target, pair)
    rows = exact_rows(lifted(pair.rows))
    good = is_good_subset(rows, range(n), pair.lambda_0)
    yield tells(one.score == 0)
    yield equal("whether the score is 0", int(one.score == 0), int(good))
    if not good or one.reported_mean is None or one.reported_covariance is None:
        return
    size = max(abs(v) for row in pair.rows for v in row)
    centre = [sum((row[j] for row in pair.rows), ZERO) / n for j in range(pair.d)]
    for reported, exact in zip(one.reported_mean, centre, strict=True):
        yield equal("a coordinate of the mean against the sample mean", reported, exact, rounded=True, scale=size)
    deviations = exact_rows(tuple(tuple(u - v for u, v in zip(row, centre, strict=True)) for row in pair.rows))
    scatter = [to_fraction(v) for v in second_moment(deviations, [Fraction(1, n)] * n).entries()]
    for reported, exact in zip(one.reported_covariance, scatter, strict=True):
        yield equal("an entry of C against the scatter", reported, exact, rounded=True, scale=size * size)


@dataclass(frozen=True)
class Mapped(Case):
    """Rows and an invertible affine map x -> x A + c with exact dyadic numbers.

    Attributes
    ----------
    pair
        Its first data set is mapped.
    matrix, shift
        A, d x d, and c.
    """

    pair: MomentPair
    matrix: Matrix
    shift: Row

    def size(self, edition: Edition) -> int:
        """Number of rows that a target is given."""
        return self.pair.size(edition)

    def image(self, row: Row) -> Row:
        """The row x A + c."""
        return tuple(
            sum((v * self.matrix[i][j] for i, v in enumerate(row)), self.shift[j]) for j in range(len(self.shift))
        )

    def mapped(self) -> MomentPair:
        """The pair after the map."""
        rows = tuple(self.image(row) for row in self.pair.rows)
        return MomentPair(
            rows, self.pair.index, self.image(self.pair.row), self.pair.lambda_0, self.pair.k, self.pair.window
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "pair": self.pair.to_json(),
            "matrix": [[str(v) for v in row] for row in self.matrix],
            "shift": [str(v) for v in self.shift],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        matrix = tuple(tuple(Fraction(v) for v in row) for row in data["matrix"])
        return cls(MomentPair.from_json(data["pair"]), matrix, tuple(Fraction(v) for v in data["shift"]))

    def paste(self) -> str:
        """Python that builds the rows and the map, to be pasted."""
        matrix = [[float(v) for v in row] for row in self.matrix]
        return f"{self.pair.paste()}\na, c = np.array({matrix}), np.array({[float(v) for v in self.shift]})"


@st.composite
def mapped_moments(draw: st.DrawFn) -> Mapped:
    """Pairs with maps by small integers, which keep every value a float64."""
    pair = draw(st.one_of(_built(crossing=False), _built(("bulk", "zero", "level"))))
    d = pair.d
    entry = st.integers(-3, 3)
    matrix = [[Fraction(draw(entry)) for _ in range(d)] for _ in range(d)]
    if exact_rows(tuple(map(tuple, matrix))).det() == 0:
        matrix = [[Fraction(2 * (i == j)) for j in range(d)] for i in range(d)]
    return Mapped(pair, tuple(map(tuple, matrix)), tuple(Fraction(draw(entry) * 64) for _ in range(d)))


def _is_mapped(case: Mapped) -> None:
    is_a_moment_pair(case.pair)
    require("the map is invertible", exact_rows(case.matrix).det() != 0)


@lemma(
    "S12",
    "the one stage is affine equivariant",
    cases=mapped_moments,
    given=_is_mapped,
    needs=NEEDS,
    telling="some level keeps some rows and removes others",
    least_telling=Fraction(1, 4),
    refuted_by=("sharp_ridge", "sharp_euclidean_norms", "sharp_scatter_about_zero"),
    examples=lambda: [make() for make in MAPPED],
    cost=5,
)
def sharp_is_equivariant(target: Target, case: Mapped) -> Iterator[Claim | Telling]:
    """Under x -> x A + c with A invertible no set changes, mu becomes mu A + c and C becomes A^T C A."""
    image = case.mapped()
    one, two = moments_of(target, case.pair), moments_of(target, image)
    yield tells(any(0 < len(s) < image.n for s in one.sets))
    yield equal("SCORE after the map", two.score, one.score)
    yield at_most("levels whose set changes", sum(s != t for s, t in zip(one.sets, two.sets, strict=True)), 0)
    if two.reported_mean is None or one.reported_mean is None:
        return
    mean, covariance = one.reported_mean, one.reported_covariance
    size = max(abs(v) for row in image.rows for v in row)
    for reported, exact in zip(two.reported_mean, case.image(tuple(mean)), strict=True):
        yield equal("a coordinate of the mean", reported, exact, rounded=True, scale=size)
    matrix, d = exact_rows(case.matrix), image.d
    assert covariance is not None, "it is there where the mean is"
    before = fmpq_mat(d, d, [to_fmpq(v) for v in covariance])
    wanted = (matrix.transpose() * before * matrix).entries()
    for reported, value in zip(two.reported_covariance or (), wanted, strict=True):
        yield equal("an entry of the covariance", reported, to_fraction(value), rounded=True, scale=size * size)


# All adjacent pairs of small domains ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SharedMoments(Case):
    """All data sets on the line that have all rows but one in common, as multisets: no statement depends on the order.

    Attributes
    ----------
    values
        The rows that occur in the domain.
    shared
        How many of the shared rows have each value.
    lambda_0, k, window
        Public arguments.
    """

    values: tuple[int, ...]
    shared: tuple[int, ...]
    lambda_0: Fraction
    k: int
    window: int

    def pairs(self) -> Iterator[MomentPair]:
        """Each unordered adjacent pair of the members; i* is the first row."""
        rest = tuple((Fraction(v),) for v, count in zip(self.values, self.shared, strict=True) for _ in range(count))
        for u, v in itertools.combinations(self.values, 2):
            first, second = (Fraction(u),), (Fraction(v),)
            yield MomentPair((first, *rest), 0, second, self.lambda_0, self.k, self.window, label="all pairs")

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows of each data set."""
        return sum(self.shared) + 1

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        exact = {
            "values": tuple(data["values"]),
            "shared": tuple(data["shared"]),
            "lambda_0": Fraction(data["lambda_0"]),
        }
        return cls(**{**data, **exact})


FAR = 1 << 20
BLOCKS: dict[str, tuple[tuple[int, int, str, int, tuple[int, ...]], ...]] = {
    "quick": ((2, 2, "5/2", 10, (0, 1, 2)),),
    "ci": ((2, 2, "5/2", 10, (0, 1, 2, FAR)), (2, 1, "5/2", 10, (-2, 2, 6)), (3, 2, "5/2", 13, (0, 1, 2))),
    "nightly": (
        (2, 2, "5/2", 10, (0, 1, 2, FAR)),
        (2, 1, "5/2", 10, (-2, 2, 6, FAR)),
        (2, 3, "5/2", 14, (0, 1, 2)),
        (3, 1, "5/2", 11, (0, 1, 2, FAR)),
        (3, 2, "5/2", 13, (0, 1, 2, FAR)),
        (3, 3, "2", 15, (0, 1, 3)),
    ),
}
"""k, W, lambda_0, n and values of each block, by profile."""


def shared_rows_domain(profile: str) -> Iterator[SharedMoments]:
    """Every multiset of n - 1 shared rows."""
    for k, window, text, n, values in BLOCKS[profile]:
        for bars in itertools.combinations(range(n - 1 + len(values) - 1), len(values) - 1):
            ends = (-1, *bars, n - 1 + len(values) - 1)
            shared = tuple(b - a - 1 for a, b in itertools.pairwise(ends))
            yield SharedMoments(values, shared, Fraction(text), k, window)


def _are_shared(case: SharedMoments) -> None:
    n = sum(case.shared) + 1
    require("H > k + W - 1", n > (case.k + case.window - 1) * case.lambda_0)
    require(
        "lambda_0 >= 1, and no infinite share", case.lambda_0 >= 1 and has_room(n, case.lambda_0, case.k, case.window)
    )


@lemma(
    "S2, S4, S5, S7 (all pairs)",
    "levels, score, weights and loss on every adjacent pair of a small domain",
    domain=shared_rows_domain,
    given=_are_shared,
    needs=NEEDS,
    telling="some pair has both scores below k and weights that differ off i*",
    least_telling=Fraction(1, 1000),  # a domain is gone through whole, and most of it is far from every threshold
    evidence="exhaustive",
    refuted_by=("sharp_single_pass", "sharp_score_by_sum", "sharp_thresholds_do_not_grow"),
)
def sharp_all_pairs(target: Target, case: SharedMoments) -> Iterator[Claim | Telling]:
    """S_ell less i* is in T_{ell+1}, SCORE moves by at most 1, at most min(r, r') others change, and tr G^-1 Lo <= Q(r, D)."""
    pairs = list(case.pairs())
    members = {pair.rows[0]: moments_of(target, pair) for pair in pairs}
    members[pairs[-1].row] = moments_of(target, pairs[-1], prime=True)
    broken = moved = 0
    changed, lost, telling = ZERO, ZERO, False
    for pair in pairs:
        one, two = members[pair.rows[0]], members[pair.row]
        for s, t in ((one, two), (two, one)):
            broken += sum(len(a - {0} - b) for a, b in zip(s.sets, t.sets[1:], strict=False))
        moved = max(moved, abs(one.score - two.score))
        if _below(pair, one, two):
            others = len(_others(pair, one, two))
            telling = telling or others > 0
            changed = max(changed, Fraction(others - min(one.score, two.score)))
            lost = max(lost, *(_relative_loss(pair, s, t, others) for s, t in ((one, two), (two, one))))
    yield tells(telling)
    yield at_most("rows that break the order of levels, over all pairs", broken, 0)
    yield at_most("largest change of SCORE over all pairs", moved, 1)
    yield at_most("others that change beyond the smaller score, over all pairs", changed, 0)
    yield at_most("largest loss over Q(r, D), over all pairs", lost, 1)


def _relative_loss(pair: MomentPair, side: Moments, other: Moments, others: int) -> Fraction:
    if inverse_or_none(side.gram) is None:
        return Fraction(pair.n)  # all of it
    shares = side.shares()
    lost = [max(u - v, ZERO) if i else u for i, (u, v) in enumerate(zip(side.weights, other.weights, strict=True))]
    total = sum((w * share * pair.n for w, share in zip(lost, shares, strict=True)), ZERO)
    return total / covariance_change(pair.n, pair.lambda_0, pair.k, pair.window, side.score, others)


# Pinned pairs ---------------------------------------------------------------------------------------------------------

_F = Fraction
_CROSSING = Plot(1, 4, 3, _F(5, 2), 33, ("bulk", 0), ("zero", 0), ((3, 5, 0, 1, 0),))
_STEEP = Plot(1, 4, 5, _F(3), 60, ("level", 0), ("opposite", 4), ((3, 8, 0, 1, 0),))
_HUGE = Plot(1, 4, 3, _F(5, 2), 40, ("bulk", 0), ("huge", 0), ((2, 5, 0, 1, 0),))
_CHAIN = Plot(2, 4, 3, _F(7, 2), 50, ("level", 4), ("zero", 0), ((1, 4, 0, 1, 0), (2, 6, 1, -1, 0)))
_QUIET = Plot(1, 2, 2, _F(3), 24, ("bulk", 0), ("zero", 0))
_TIGHT_MEAN = Plot(1, 2, 1, _F(8), 200, ("level", 0), ("opposite", 2))
_LOW = Plot(1, 3, 2, _F(5, 2), 17, ("zero", 0), ("huge", 0), ((1, 0, 0, 1, 0),))
_EARLY = Plot(1, 4, 2, _F(5, 2), 40, ("bulk", 0), ("zero", 0), ((3, 1, 0, 1, 0),))
_FIRST = Plot(1, 2, 1, _F(5, 2), 11, ("bulk", 0), ("zero", 0), ((1, 1, 0, 1, 0),))
_LATE = Plot(1, 3, 2, _F(3), 60, ("level", 3), ("zero", 0))
_FLAT = MomentPair(((ZERO,),) * 24, 0, (ONE,), _F(3), 2, 2, "constant rows")

PAIRS: dict[str, Callable[[], MomentPair]] = {
    "crossing": _CROSSING.pair,
    "crossing, shifted": lambda: _CROSSING.pair(shift=_F(-1000)),
    "steep": lambda: _STEEP.pair(1, -2, _F(3)),
    "steep, exchanged": lambda: _STEEP.pair(swap=True),
    "huge": lambda: _HUGE.pair(0, 9, _F(-1000)),
    "chain": lambda: _CHAIN.pair(1),
    "quiet": _QUIET.pair,
    "tight mean": _TIGHT_MEAN.pair,
    "low": _LOW.pair,
    "early": _EARLY.pair,
    "first": _FIRST.pair,
    "late": _LATE.pair,
    "flat": lambda: _FLAT,
    "equal rows": lambda: EqualRows(30, 2, _F(3), 0, 2, 2).pair(),
}
"""Pairs by what they show: tight ones, and those that refute the mutants."""


MAPPED: tuple[Callable[[], Mapped], ...] = (
    lambda: Mapped(_CHAIN.pair(), ((_F(3), _F(0)), (_F(-2), _F(1))), (_F(64), _F(-128))),
    lambda: Mapped(_HUGE.pair(), ((_F(-1, 4),),), (_F(7),)),
)
"""Pairs with maps, and those that refute the mutants."""
