"""Adjacent pairs that can refute: Hypothesis strategies that build them, pinned pairs, and real data.

Random neighbours almost never have both scores below k, so nothing here is sampled as N(0, I). A case is *built*: a bulk of
small integer rows, at most k-1 outliers whose norms are solved for so that they enter at a level that is drawn, and a change
of one row that moves that level. Values are dyadic rationals, so that float64 holds them exactly; the size hypotheses are
met by choosing m from k and lambda_0. Shears by unimodular integer matrices and powers of two hide the structure without
changing any norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from proofs_checks import vectors
from proofs_checks.lemma import Case, require
from refimpl.parameters import Edition, Lambda_ell, lambda_ell, ordered_stability_gamma

__all__ = [
    "Pair",
    "adjacent_data",
    "adjacent_points",
    "adjacent_rows",
    "are_adjacent",
    "covariance_stage",
    "crossing_points",
    "crossing_rows",
    "mean_stage",
    "pinned",
    "pinned_pairs",
    "pipeline_stage",
    "scoring_rows",
]

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

GRID = 1 << 10  # solved values are rounded to multiples of 1/1024


@dataclass(frozen=True)
class Pair(Case):
    """Two data sets that differ in one row, with the public arguments of the algorithms.

    Attributes
    ----------
    stage
        "covariance" (``rows`` are the paired rows y), "mean" (x and two covariances) or "pipeline" (x alone).
    rows, index, row
        The data set; the second one has ``row`` at ``index`` instead.
    lambda_0, k, reference
        Public arguments; ``reference`` is empty in the covariance stage.
    covariance, covariance_prime
        The two matrices of the mean stage.
    label
        Where the case comes from.
    """

    stage: str
    rows: Matrix
    index: int
    row: Row
    lambda_0: Fraction
    k: int
    reference: tuple[int, ...] = ()
    covariance: Matrix | None = None
    covariance_prime: Matrix | None = None
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

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return self.n

    @property
    def levels(self) -> int:
        """2k + 1, the number of levels."""
        return 2 * self.k + 1

    def to_json(self) -> dict[str, Any]:
        """The pair as plain JSON values: exact numbers as "p/q", rows run-length encoded."""
        return {
            "stage": self.stage,
            "lambda_0": str(self.lambda_0),
            "k": self.k,
            "rows": [[len(list(run)), _texts(row)] for row, run in groupby(self.rows)],
            "replaced": {"index": self.index, "row": _texts(self.row)},
            "reference": _ranges(self.reference),
            "covariance": None if self.covariance is None else [_texts(r) for r in self.covariance],
            "covariance_prime": None if self.covariance_prime is None else [_texts(r) for r in self.covariance_prime],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The pair of a JSON object as :meth:`to_json` writes it."""

        def row(texts: Sequence[str]) -> Row:
            return tuple(Fraction(text) for text in texts)

        def matrix(rows: Sequence[Sequence[str]] | None) -> Matrix | None:
            return None if rows is None else tuple(row(r) for r in rows)

        return cls(
            stage=data["stage"],
            rows=tuple(r for count, texts in data["rows"] for r in [row(texts)] * count),
            index=data["replaced"]["index"],
            row=row(data["replaced"]["row"]),
            lambda_0=Fraction(data["lambda_0"]),
            k=data["k"],
            reference=tuple(i for start, stop in data["reference"] or () for i in range(start, stop)),
            covariance=matrix(data["covariance"]),
            covariance_prime=matrix(data["covariance_prime"]),
            label=data.get("id", "replayed"),
        )

    def paste(self) -> str:
        """Python that builds the pair, to be pasted."""
        runs = " + ".join(f"[{[_number(v) for v in row]}] * {len(list(run))}" for row, run in groupby(self.rows))
        lines = [
            "import numpy as np",
            f"x = np.array({runs}, dtype=float)",
            "x_prime = x.copy()",
            f"x_prime[{self.index}] = {[_number(v) for v in self.row]}",
            f'lambda_0, k = "{self.lambda_0}", {self.k}',
        ]
        if self.reference:
            lines.append(f"reference = {list(self.reference)}")
        for name, matrix in (("covariance", self.covariance), ("covariance_prime", self.covariance_prime)):
            if matrix is not None:
                lines.append(f"{name} = {[[_number(v) for v in row] for row in matrix]}")
        return "\n".join(lines)


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 and abs(value) < 1 << 53 else float(value)


def _texts(row: Row) -> list[str]:
    return [str(value) for value in row]


def _ranges(indices: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for i in sorted(indices):
        if runs and runs[-1][1] == i:
            runs[-1][1] = i + 1
        else:
            runs.append([i, i + 1])
    return runs


def as_array(rows: Matrix) -> NDArray[np.float64]:
    """Rows as a float64 array; a value that float64 does not hold exactly is a fault of the case."""
    distinct = {id(row): row for row in rows}  # families of data sets repeat a few rows
    floats = {key: [float(v) for v in row] for key, row in distinct.items()}
    exact = all(Fraction(a) == v for key, row in distinct.items() for a, v in zip(floats[key], row, strict=True))
    require("every value is a float64", exact)
    return np.array([floats[id(row)] for row in rows], dtype=np.float64)


@lru_cache(maxsize=1)
def pinned_pairs() -> dict[str, tuple[Pair, ...]]:
    """Every pinned pair of ``vectors/cases.json`` by the name of each check that it is pinned for."""
    by_check: dict[str, list[Pair]] = {}
    for data in vectors.load()["pairs"]:
        for check in data.get("checks", ()):
            by_check.setdefault(check, []).append(Pair.from_json(data))
    return {check: tuple(pairs) for check, pairs in by_check.items()}


def pinned(check: str) -> tuple[Pair, ...]:
    """The pairs pinned for a check, by its name: counterexamples to PRINTED and to the mutants, and once-found ones."""
    return pinned_pairs().get(check, ())


# Hypotheses -----------------------------------------------------------------------------------------------------------


def are_adjacent(pair: Pair) -> None:
    """The two data sets have one shape and differ in one row at most, and every value is finite by construction."""
    require("rows of one length", all(len(row) == pair.d for row in (*pair.rows, pair.row)))
    require("the index is that of a row", 0 <= pair.index < pair.n)
    require("lambda_0 > 0 and k >= 1", pair.lambda_0 > 0 and pair.k >= 1)


def covariance_stage(pair: Pair) -> None:
    """Adjacent paired rows with m >= 10 k lambda_0."""
    are_adjacent(pair)
    require("paired rows", pair.stage == "covariance")
    require("m >= 10 k lambda_0", pair.n >= 10 * pair.k * pair.lambda_0)


def mean_stage(pair: Pair) -> None:
    """Adjacent rows with n >= 20 k lambda_0, lambda_0 >= 1, gamma-close covariances and a reference set."""
    are_adjacent(pair)
    require("rows x with two covariances", pair.stage == "mean" and pair.covariance is not None)
    require("n >= 20 k lambda_0 and lambda_0 >= 1", pair.n >= 20 * pair.k * pair.lambda_0 >= 20 * pair.k)
    require("distinct reference indices", len(set(pair.reference)) == len(pair.reference) > 0)


def pipeline_stage(pair: Pair) -> None:
    """Adjacent rows with floor(n/2) >= 10 k lambda_0, lambda_0 >= 1, and a reference set."""
    are_adjacent(pair)
    require("rows x", pair.stage == "pipeline")
    require("floor(n/2) >= 10 k lambda_0", pair.n // 2 >= 10 * pair.k * pair.lambda_0 >= 10 * pair.k)
    require("distinct reference indices", len(set(pair.reference)) == len(pair.reference) > 0)


# Building blocks ------------------------------------------------------------------------------------------------------


def _dyadic_below_root(square: Fraction) -> Fraction:
    """The largest multiple of 1/1024 whose square is at most ``square``."""
    return Fraction(math.isqrt(math.floor(square * GRID * GRID)), GRID)


def _sign_pattern(i: int, d: int) -> Row:
    """Row i of a bulk whose Gram matrix is close to a multiple of the identity."""
    return tuple(Fraction(-1 if (i >> bit) & 1 else 1) for bit in range(d))


def _shear(row: Row, shear: int, scale: int) -> Row:
    """Row times a unimodular integer matrix and a power of two: no Mahalanobis norm changes."""
    moved = [row[0], *(v + shear * row[0] for v in row[1:])]
    return tuple(v * Fraction(2) ** scale for v in moved)


def _shear_covariance(diagonal: Sequence[Fraction], shear: int, scale: int) -> Matrix:
    """T^T D T for the same transform."""
    d = len(diagonal)
    entries = [
        [diagonal[0] * (1 if i == j == 0 else shear if 0 in {i, j} else shear * shear) for j in range(d)]
        for i in range(d)
    ]
    for i in range(1, d):
        entries[i][i] += diagonal[i]
    return tuple(tuple(v * Fraction(4) ** scale for v in row) for row in entries)


THRESHOLDS = tuple(Fraction(v) for v in ("1", "3/2", "2", "5/2", "3"))


def _first_axis_leverage(bulk: Sequence[Row]) -> Fraction:
    """e_0^T (sum y y^T)^-1 e_0 of a bulk with nearly orthogonal columns, by elimination of at most three columns."""
    d = len(bulk[0])
    gram = [[sum((row[a] * row[b] for row in bulk), Fraction(0)) for b in range(d)] for a in range(d)]
    for j in range(d - 1, 0, -1):
        if gram[j][j] == 0:
            continue
        for a in range(j):
            factor = gram[a][j] / gram[j][j]
            gram[a] = [u - factor * v for u, v in zip(gram[a], gram[j], strict=True)]
    return 1 / gram[0][0] if gram[0][0] else Fraction(1)


CHANGES = ("inlier to zero", "zero to inlier", "inlier to outlier", "outlier to inlier", "inlier to huge")
RAISING = ("inlier to zero", "inlier to huge")  # changes that shrink the second moment, so that other norms grow


@st.composite
def _straddling_rows(
    draw: st.DrawFn, changes: Sequence[str] = CHANGES, least_k: int = 1, *, crossing: bool = False
) -> Pair:
    """Outliers that sit just below the threshold of a drawn level, and a change that pushes them over it, or back.

    With ``crossing`` the level lies in the weight window and there is an outlier, so that some weight off i* moves.
    """
    d = draw(st.sampled_from([1, 1, 2, 3]))
    k = max(least_k, draw(st.sampled_from([2, 3, 4, 1])))
    lambda_0 = d + draw(st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2)]))
    m = math.ceil(10 * k * lambda_0) + draw(st.integers(0, 2))
    change = draw(st.sampled_from(changes))
    most = (
        k - 1 if change != "inlier to huge" else max(k - 2, min(1, k - 1))
    )  # a new outlier must leave the score below k
    outliers = draw(st.integers(min(1, k - 1), most))
    level = draw(st.sampled_from(range(k + 1 if crossing else 0, 2 * k + 1)))
    bulk = [_sign_pattern(i, d) for i in range(m - outliers)]
    if change == "zero to inlier":
        bulk[0] = (Fraction(0),) * d
    above = 1 if crossing and change not in RAISING else 0 if crossing else draw(st.integers(0, 1))
    threshold = lambda_ell(lambda_0, k, level)
    square = threshold / (_first_axis_leverage(bulk) * (m - outliers * threshold))
    outlier = (_dyadic_below_root(square) + Fraction(above, GRID), *(Fraction(0),) * (d - 1))
    shear, scale = draw(st.integers(-2, 2)), draw(st.sampled_from([0, 0, -3, 10]))
    rows = [_shear(row, shear, scale) for row in (*bulk, *[outlier] * outliers)]
    index, row = {
        "inlier to zero": (0, (Fraction(0),) * d),
        "zero to inlier": (0, _sign_pattern(0, d)),
        "inlier to outlier": (0, outlier),
        "outlier to inlier": (m - 1, _sign_pattern(0, d)),
        "inlier to huge": (0, (Fraction(1 << 40),) * d),
    }[change]
    return Pair("covariance", tuple(rows), index, _shear(row, shear, scale), lambda_0, k, label=change)


@st.composite
def _grid_rows(draw: st.DrawFn) -> Pair:
    """Small integers with many repeats and exact ties, a few wild rows, sometimes a column that is zero or a sum."""
    d = draw(st.integers(1, 3))
    k = draw(st.integers(1, 3))
    lambda_0 = Fraction(d) + draw(st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 4), Fraction(2)]))
    m = math.ceil(10 * k * lambda_0) + draw(st.integers(0, 3))
    kinds = draw(st.lists(st.tuples(*[st.integers(-2, 2)] * d), min_size=1, max_size=4))
    dependent = d > 1 and draw(st.sampled_from([False, False, False, True]))

    def vector(values: Sequence[int]) -> Row:
        row = tuple(Fraction(v) for v in values)
        return (*row[:-1], sum(row[:-1], Fraction(0))) if dependent else row

    pattern = [vector(kind) for kind in kinds] + [
        _sign_pattern(i, d) if not dependent else vector([1] * d) for i in range(1 << d)
    ]
    rows = [pattern[i % len(pattern)] for i in range(m)]
    wild = st.sampled_from([0, 1, -1, 3, 10, 1 << 20, -(1 << 40)])
    for position in draw(st.lists(st.integers(0, m - 1), max_size=k, unique=True)):
        rows[position] = vector([draw(wild) for _ in range(d)])
    index = draw(st.integers(0, m - 1))
    return Pair("covariance", tuple(rows), index, vector([draw(wild) for _ in range(d)]), lambda_0, k, label="grid")


@st.composite
def _thin_rows(draw: st.DrawFn) -> Pair:
    """A direction that few rows or one row carry: near rank deficiency, or rank that changes with the one row."""
    k = draw(st.integers(1, 3))
    lambda_0 = Fraction(draw(st.integers(2, 4)))
    m = math.ceil(10 * k * lambda_0) + draw(st.integers(0, 1))
    carriers = draw(st.integers(0, 3 * k))
    tiny = Fraction(1, 1 << draw(st.sampled_from([0, 3, 20, 40])))
    rows = [(Fraction(1 - 2 * (i % 2)), tiny if i < carriers else Fraction(0)) for i in range(m)]
    times: int = draw(st.integers(0, 5))
    row = (Fraction(draw(st.integers(-1, 1))), tiny * times)
    return Pair("covariance", tuple(rows), 0, row, lambda_0, k, label="thin")


@st.composite
def _masked_rows(draw: st.DrawFn) -> Pair:
    """Rows so far out that one huge row hides them from a single pass, and a change that brings the huge row in or out."""
    k = draw(st.integers(1, 4))
    lambda_0 = draw(st.sampled_from(THRESHOLDS[1:4]))
    m = math.ceil(10 * k * lambda_0) + draw(st.integers(0, 2))
    large = [(Fraction(1 << draw(st.sampled_from([4, 7, 10]))),)] * draw(st.integers(1, k + 1))
    rows = [(Fraction(1 - 2 * (i % 2)),) for i in range(m - len(large))] + large
    index, row = draw(st.integers(0, m - 1)), (Fraction(1 << 30),)
    if draw(st.booleans()):
        rows[index], row = row, rows[index]
    return Pair("covariance", tuple(rows), index, row, lambda_0, k, label="masked")


def scoring_rows() -> SearchStrategy[Pair]:
    """Adjacent paired rows y, y' whose scores differ, mostly, by construction."""
    scores = _straddling_rows(("inlier to outlier", "outlier to inlier"), 2)
    pushed = _straddling_rows(("inlier to zero", "zero to inlier"), 4)
    return st.one_of(scores, scores, scores, scores, pushed, _masked_rows(), _straddling_rows(), _grid_rows())


def adjacent_rows() -> SearchStrategy[Pair]:
    """Adjacent paired rows y, y' with m >= 10 k lambda_0: straddling, masked, grids with ties, near rank deficiency."""
    scores = _straddling_rows(("inlier to outlier", "outlier to inlier"), 2)
    pushed = _straddling_rows(("inlier to zero", "zero to inlier"), 4)
    return st.one_of(
        _straddling_rows(), scores, scores, pushed, crossing_rows(), _masked_rows(), _grid_rows(), _thin_rows()
    )


def crossing_rows() -> SearchStrategy[Pair]:
    """Adjacent paired rows whose scores are below k and whose weights differ off i*, by construction; some without."""
    crossing = _straddling_rows(("inlier to zero", "zero to inlier", "inlier to huge"), 3, crossing=True)
    return st.one_of(crossing, crossing, crossing, _straddling_rows(least_k=2), _grid_rows())


def adjacent_points() -> SearchStrategy[Pair]:
    """Adjacent rows x, x' with gamma-close covariances, for the mean stage; see :func:`_points`."""
    return st.one_of(_points(), _points(), _points(crossing=True), _lonely_points())


@st.composite
def _lonely_points(draw: st.DrawFn) -> Pair:
    """Two clusters between one and four times 2 Lambda_2k apart, with R spread over them as the rows are, or nearly."""
    k = draw(st.integers(1, 3))
    lambda_0 = draw(st.sampled_from(THRESHOLDS[:3]))
    n = math.ceil(20 * k * lambda_0) + draw(st.integers(0, 2))
    size = draw(st.sampled_from([6 * k + 1, 6 * k + 3]))
    share = draw(st.sampled_from([1, 1, 2, k, n // 3, 2 * n // 5, n // 2]))
    factor = draw(st.sampled_from([Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(4)]))
    far = _dyadic_below_root(2 * Lambda_ell(lambda_0, n, 2 * k) * factor)
    rows = [(Fraction(0),)] * (n - share) + [(far,)] * share
    inside = round(Fraction(size * share, n)) if share > k else 0
    reference = (*range(size - inside), *range(n - inside, n))
    index = draw(st.sampled_from([0, n - 1, n // 2]))
    row = (draw(st.sampled_from([Fraction(0), far, -far])),)
    one = ((Fraction(1),),)
    return Pair("mean", tuple(rows), index, row, lambda_0, k, reference, one, one, label="clusters")


def crossing_points() -> SearchStrategy[Pair]:
    """As :func:`adjacent_points`, mostly with scores below k and weights that differ off i*, by construction."""
    return st.one_of(_points(crossing=True), _points(crossing=True), _points())


POINT_CHANGES = ("reference to bulk", "bulk to away", "bulk to far", "reference to huge", "far to bulk", "same")


@st.composite
def _points(draw: st.DrawFn, *, crossing: bool = False) -> Pair:
    """Adjacent rows x, x' with gamma-close covariances.

    A bulk near 0, r reference rows at +a, and at most k-1 far rows at -b with a + b just within or just beyond the radius of
    a drawn level: the far rows are near all of R but r, so they enter at level r, and a change of one reference row, or of
    the covariance, moves that level by one. With ``crossing`` the level lies in the weight window.
    """
    d = draw(st.sampled_from([1, 1, 2]))
    k = draw(st.sampled_from([2, 3, 4] if crossing else [2, 3, 2, 4, 1]))
    lambda_0 = draw(st.sampled_from(THRESHOLDS[:3]))
    n = math.ceil(20 * k * lambda_0) + draw(st.integers(0, 2))
    size = draw(st.sampled_from([4 * k + 2, 6 * k + 1, 6 * k + 3, 2 * k + 1]))
    away = min(draw(st.sampled_from(range(k + 2, 2 * k + 1) if crossing else range(2 * k + 2))), size - 1)
    far = draw(st.integers(min(1, k - 1), k - 1))
    radius_level = 2 * k + 2 if crossing else draw(st.sampled_from([2 * k + 2, *range(2 * k + 1)]))
    gap = _dyadic_below_root(2 * Lambda_ell(lambda_0, n, radius_level)) + Fraction(
        1 if crossing else draw(st.integers(0, 1)), GRID
    )
    near = _dyadic_below_root(2 * lambda_0)
    a = near / 2
    side = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 8), Fraction(-1, 8)])
    sides = draw(st.lists(side, min_size=1, max_size=4))

    def point(value: Fraction, i: int) -> Row:
        return (value, *[sides[i % len(sides)]] * (d - 1))

    values = [a] * away + [Fraction(0)] * (n - away - far) + [a - gap] * far
    rows = [point(value, i) for i, value in enumerate(values)]
    outside = draw(st.integers(0, size - away))  # how many reference rows are far from the start of the bulk
    reference = [*range(away), *range(away, away + size - away - outside), *range(n - far - outside, n - far)]
    change = draw(st.sampled_from(POINT_CHANGES[:2] if crossing else POINT_CHANGES))
    index, value = {
        "reference to bulk": (0, Fraction(0)),
        "bulk to away": (away, a),
        "bulk to far": (n // 2, a - gap),
        "reference to huge": (reference[0], Fraction(1 << 30)),
        "far to bulk": (n - 1, Fraction(0)),
        "same": (0, values[0]),
    }[change]
    gamma = ordered_stability_gamma(lambda_0, n)
    share: Fraction = draw(st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 2), Fraction(1)]))
    step = Fraction(math.ceil((1 - gamma * share) * GRID * GRID), GRID * GRID)
    diagonal = [Fraction(1)] * d
    shrunk = [v * step for v in diagonal]
    shear, scale = draw(st.integers(-1, 1)), draw(st.sampled_from([0, 0, 7]))
    one, two = (_shear_covariance(m, shear, scale) for m in (diagonal, shrunk))
    if draw(st.booleans()):
        one, two = two, one
    shift = draw(st.sampled_from([0, 0, 7, 1 << 20]))
    moved = [tuple(v + shift for v in _shear(row, shear, scale)) for row in (*rows, point(value, index))]
    return Pair(
        "mean", tuple(moved[:-1]), index, moved[-1], lambda_0, k, tuple(sorted(set(reference))), one, two, label=change
    )


@st.composite
def adjacent_data(draw: st.DrawFn) -> Pair:
    """Adjacent rows x, x' for the whole pipeline: outliers of the covariance, outliers of the mean, both or neither.

    The pairs (x_i, x_{i+m}) = (1 + y_i, 1 - y_i)/2 + c_i: straddling or grid rows y make outliers of the covariance whose
    two halves stay near the bulk, shifts c_i make outliers of the mean and not of the covariance.
    """
    scores = _straddling_rows(("inlier to outlier", "outlier to inlier"), 3)
    pushed = _straddling_rows(("inlier to zero", "zero to inlier"), 4)
    base = draw(st.one_of(scores, scores, scores, pushed, _straddling_rows(least_k=2), _grid_rows()))
    m, d, k = base.n, base.d, base.k
    shifts = [Fraction(0)] * m
    for position in draw(st.lists(st.integers(0, m - 1), max_size=(k - 1) // 3, unique=True)):
        shifts[position] = Fraction(draw(st.sampled_from([1, 3, 50])))
    first = [tuple((1 + v) / 2 + c for v in y) for y, c in zip(base.rows, shifts, strict=True)]
    second = [tuple((1 - v) / 2 + c for v in y) for y, c in zip(base.rows, shifts, strict=True)]
    odd = draw(st.sampled_from([0, 0, 1]))
    rows = (*first, *second, *[(Fraction(1, 2),) * d] * odd)
    index = draw(st.sampled_from([base.index] * 6 + [m + base.index, len(rows) - 1]))
    partner = second[base.index] if index == base.index else (Fraction(0),) * d
    row = tuple(u + v for u, v in zip(base.row, partner, strict=True))  # the difference of the pair becomes base.row
    size = min(len(rows), draw(st.sampled_from([6 * k + 3, 4 * k + 2, 2 * k + 1])))
    start, step = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from([1, 2, 7]))
    reference = list(dict.fromkeys((start + step * i) % len(rows) for i in range(2 * len(rows))))[:size]
    lambda_0 = max(base.lambda_0, Fraction(1))
    return Pair("pipeline", rows, index, row, lambda_0, k, tuple(sorted(reference)), label=base.label)
