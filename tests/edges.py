"""Data and thresholds aimed at the edges of the float filter: Hypothesis strategies, each a family of its own.

A case carries its thresholds as recipes ("the norm of the largest row, as level 3, a little less") and not as numbers: the
exact tie is computed from the data that were drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq_mat
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from refimpl.linalg import differences, exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction

Rows = NDArray[np.float64]
FEW_ULPS = st.sampled_from([0, 0, 0, 1, -1, 2, 3, -4])
NUDGES = tuple(Fraction(bits > 0, 1 << bits) for bits in (0, 0, 20, 30, 40, 46, 50, 52, 54, 80, 200))  # 0 is a tie


@dataclass(frozen=True)
class Recipe:
    """How a threshold follows from the data.

    Attributes
    ----------
    kind
        "tie", or "plain" for ``number`` itself.
    rank, other
        Whose norm or distance it is.
    level
        The level at which that is the threshold.
    nudge
        Moved by this, relatively.
    number
        What it is where there is no tie to be had.
    """

    kind: str
    rank: int
    other: int
    level: int
    nudge: Fraction
    number: Fraction


@dataclass(frozen=True, eq=False)
class Edge:
    """Rows, and what the algorithms are to be run with."""

    x: Rows
    k: int
    norm: Recipe
    distance: Recipe
    reference: tuple[int, ...]

    def __repr__(self) -> str:
        """To be pasted."""
        x = f"np.array({self.x.tolist()})"
        return f"Edge({x}, {self.k}, norm={self.norm}, distance={self.distance}, reference={self.reference})"


@st.composite
def _recipe(draw: DrawFn, levels: int) -> Recipe:
    return Recipe(
        kind=draw(st.sampled_from(["tie", "tie", "tie", "plain"])),
        rank=draw(st.sampled_from([0, 0, 0, 1, 2])),
        other=draw(st.integers(0, 30)),
        level=draw(st.integers(0, levels)),
        nudge=draw(st.sampled_from(NUDGES)) * draw(st.sampled_from([1, -1])),
        number=Fraction(draw(st.integers(1, 40)), draw(st.integers(1, 6))),
    )


# Thresholds -----------------------------------------------------------------------------------------------------------


def norm_threshold(edge: Edge) -> Fraction:
    """A lambda_0 for the covariance stage."""
    y = differences(exact_matrix("x", edge.x))
    m, recipe = y.nrows(), edge.norm
    inverse = inverse_or_none(second_moment(y, [Fraction(1, m)] * m)) if recipe.kind == "tie" else None
    if inverse is None:
        return recipe.number
    norms = sorted(map(to_fraction, mahalanobis_squared(y, inverse)), reverse=True)
    tie = norms[min(recipe.rank, m - 1)] * (1 - Fraction(recipe.level, 10 * edge.k))
    return tie * (1 + recipe.nudge) if tie else recipe.number


def distance_threshold(edge: Edge, covariance: fmpq_mat) -> Fraction:
    """A lambda_0 for the mean stage, whose thresholds rise by irrational-looking factors: only levels 0 and 1 can tie."""
    n, recipe = len(edge.x), edge.distance
    bound = Fraction(9 * n, 50)
    plain = recipe.number if recipe.number < bound else bound / (1 + recipe.number)
    inverse = inverse_or_none(covariance) if recipe.kind == "tie" else None
    if inverse is None:
        return plain
    i, j = recipe.other % n, edge.reference[recipe.rank % len(edge.reference)]
    move = exact_matrix("x", edge.x[[i]]) - exact_matrix("x", edge.x[[j]])
    half = to_fraction(mahalanobis_squared(move, inverse)[0]) / 2
    tie = half if recipe.level % 2 == 0 else half / (1 + Fraction(50, 9 * n) * half)
    tie *= 1 + recipe.nudge
    return tie if 0 < tie < bound else plain


def core_thresholds(edge: Edge, x: Rows, covariance: Rows) -> tuple[Fraction, int]:
    """A threshold of LargestCore, and a degree for which it matters: that many reference rows are as near, or one less."""
    inverse = inverse_or_none(exact_matrix("covariance", covariance))
    assert inverse is not None
    recipe, n = edge.distance, len(x)
    i = recipe.other % n
    alike = [j for j in edge.reference if (j - i) % 2 == 0 and j != i] or list(edge.reference)
    moves = exact_matrix("x", np.repeat(x[[i]], len(edge.reference), axis=0)) - exact_matrix(
        "x", x[list(edge.reference)]
    )
    squares = dict(zip(edge.reference, map(to_fraction, mahalanobis_squared(moves, inverse)), strict=True))
    lam = squares[alike[recipe.rank % len(alike)]] / 2 * (1 + recipe.nudge) or recipe.number
    return lam, sum(square <= 2 * lam for square in squares.values()) + recipe.level


# Families -------------------------------------------------------------------------------------------------------------

Family = Callable[[DrawFn, Rows], Rows]


def _column(draw: DrawFn, x: Rows, values: SearchStrategy[int]) -> NDArray[np.int64]:
    """An integer for every row: a short pattern, repeated."""
    pattern = draw(st.lists(values, min_size=1, max_size=6))
    return np.resize(np.array(pattern, dtype=np.int64), len(x))


def _ldexp(x: Rows, exponent: object) -> Rows:
    return np.asarray(np.ldexp(x, np.asarray(exponent, dtype=np.int64)))


def integer_grid(draw: DrawFn, grid: Rows) -> Rows:
    """Small integers, times a number with a full mantissa or not: repeats and ties by themselves."""
    return grid * draw(st.sampled_from([1.0, 1 / 3, 0.1, 2.0**-30]))


def few_ulps(draw: DrawFn, grid: Rows) -> Rows:
    """Equal rows that are equal no more: entries a few ulps off, so that norms are a few ulps off the threshold."""
    x = grid * draw(st.sampled_from([1.0, 1 / 3, 5 / 7])) + draw(st.sampled_from([0.0, 1.0]))
    ulps = np.stack([_column(draw, x, FEW_ULPS) for _ in range(x.shape[1])], axis=1)
    return np.asarray(x + ulps * np.spacing(x))


def near_singular(draw: DrawFn, grid: Rows) -> Rows:
    """The last column is the first, but for an ulp or a little more in some rows."""
    x = grid + draw(st.sampled_from([0.0, 1 / 3]))
    nudge = _column(draw, x, st.integers(-2, 2)) * 2.0 ** -draw(st.sampled_from([20, 30, 40, 52]))
    x = np.column_stack([x, x[:, 0] * (1 + nudge)])
    x[0, -1] += 2.0**-30
    return x


def cancellation(draw: DrawFn, grid: Rows) -> Rows:
    """Small numbers riding on large ones that the pairing takes away."""
    m = len(grid) // 2
    x = grid * draw(st.sampled_from([1.0, 2.0**-5]))
    large = _ldexp(_column(draw, x[:m], st.integers(-3, 3)).astype(float), draw(st.integers(20, 40)))
    x[:m] += large[:, None]
    x[m : 2 * m] += large[:, None]
    return x


def wild_columns(draw: DrawFn, grid: Rows) -> Rows:
    """Columns from 1e-150 to 1e150, or beyond."""
    exponents = st.sampled_from([-500, 500, 0, -1000, 900, 170])
    return _ldexp(grid, [draw(exponents) for _ in range(grid.shape[1])])


def outliers(draw: DrawFn, grid: Rows) -> Rows:
    """Some rows of any size: a chain where each hides the next."""
    x = grid.copy()
    base, count = draw(st.sampled_from([4, 30, 200])), draw(st.integers(1, 4))
    for i in range(min(count, len(x))):
        x[-1 - i] = _ldexp(x[-1 - i] + 1, base * (i + 1))
    return x


def huge(draw: DrawFn, grid: Rows) -> Rows:
    """Numbers whose differences overflow, beside ordinary ones or not."""
    x = grid * (1.5e308 / 3)
    if draw(st.booleans()):
        x[len(x) // 3 :] = grid[len(x) // 3 :]
    return x


def subnormal(draw: DrawFn, grid: Rows) -> Rows:
    """Numbers whose squares underflow, or that are subnormal themselves, beside ordinary ones or not."""
    x = _ldexp(grid, draw(st.sampled_from([-1074, -1074, -1022, -560])))
    if draw(st.sampled_from([False, False, True])):
        x[-1] = 1.0
    return x


def offset(draw: DrawFn, grid: Rows) -> Rows:
    """All rows far from the origin."""
    return grid + draw(st.sampled_from([2.0**45, 2.0**30 + 0.5, 1e15]))


def clusters(draw: DrawFn, grid: Rows) -> Rows:
    """Two places far from each other: distances within the second are small differences of large lengths."""
    x = grid.copy()
    x[len(x) // 2 :] += draw(st.sampled_from([2.0**10, 2.0**26 + 0.1, 1e9]))
    return x


def zeros(draw: DrawFn, grid: Rows) -> Rows:
    """Rows of zeros, sometimes a column of zeros, sometimes almost one."""
    x = grid.copy()
    x[_column(draw, x, st.integers(0, 1)) == 0] = 0.0
    x[:, draw(st.integers(0, x.shape[1] - 1))] *= draw(st.sampled_from([1.0, 1.0, 0.0]))
    return x


def repeated(draw: DrawFn, grid: Rows) -> Rows:
    """Three kinds of rows, many times."""
    return np.resize(grid[: draw(st.integers(2, 5))], grid.shape) + draw(st.sampled_from([0.0, 0.0, 1 / 3]))


def wide(draw: DrawFn, grid: Rows) -> Rows:
    """About as many columns as pairs, or more: d > m, d > n."""
    return grid[: draw(st.integers(4, 14))]


def any_range(draw: DrawFn, grid: Rows) -> Rows:
    """Within one column, numbers of every size: sums in which small terms vanish."""
    exponents = np.stack([_column(draw, grid, st.integers(-1000, 900)) for _ in range(grid.shape[1])], axis=1)
    return _ldexp(grid, exponents) if draw(st.booleans()) else _ldexp(grid, exponents // 16)


def mantissas(draw: DrawFn, grid: Rows) -> Rows:
    """Numbers with full mantissas that look like data."""
    return np.asarray(grid + np.random.default_rng(draw(st.integers(0, 1 << 30))).normal(size=grid.shape))


FAMILIES: tuple[Family, ...] = (
    integer_grid, few_ulps, near_singular, cancellation, wild_columns, outliers, huge, subnormal, offset, clusters, zeros,
    repeated, wide, any_range, mantissas,
)  # fmt: skip


@st.composite
def edges(draw: DrawFn, family: Family) -> Edge:
    """Cases of a family."""
    d = draw(st.sampled_from([3, 4, 6] if family is wide else [1, 2, 2, 3]))
    n, k = draw(st.integers(10, 26)), draw(st.integers(1, 3))
    kinds = draw(st.lists(st.tuples(*[st.integers(-3, 3)] * d), min_size=d + 2, max_size=12))
    step = draw(st.sampled_from([1, 5]))  # in another order the second half of the rows is not the first one again
    x = family(draw, np.array([kinds[(step * i + i * i // 7) % len(kinds)] for i in range(n)], dtype=np.float64))
    size = min(len(x), 2 * k + 2 + draw(st.integers(0, 6)))  # so many that counting alone decides no level
    start = draw(st.integers(0, len(x) - 1))
    reference = tuple(sorted((start + 3 * i) % len(x) if len(x) % 3 else (start + i) % len(x) for i in range(size)))
    return Edge(x, k, draw(_recipe(2 * k)), draw(_recipe(1)), reference)


def _exponents(x: Rows) -> NDArray[np.int32]:
    """The binary exponent of a typical entry of each column, within bounds in which squares are normal numbers."""
    return np.asarray(np.frexp(np.sort(np.abs(x), axis=0)[len(x) // 2])[1].clip(-500, 500))


def spd_like(x: Rows) -> Rows:
    """A positive definite matrix on the scale of typical entries of each column, with exact dyadic entries."""
    exponent, d = _exponents(x), x.shape[1]
    return _ldexp(np.eye(d) * 4 + 1, exponent[:, None] + exponent[None, :])


def moved_apart(x: Rows) -> Rows:
    """The same rows, every second one far off: in ``spd_like(x)`` distances there are small differences of large lengths."""
    result = x.copy()
    result[::2] += _ldexp(np.ones(x.shape[1]), _exponents(x) + 20)
    return result
