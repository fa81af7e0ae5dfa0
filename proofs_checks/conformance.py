"""Equals refimpl: the sets, scores and counts of a target against the specification, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import refimpl
from proofs_checks.covariance import side as covariance_side
from proofs_checks.datasets import (
    Pair,
    adjacent_data,
    adjacent_points,
    adjacent_rows,
    covariance_stage,
    mean_stage,
    pipeline_stage,
)
from proofs_checks.exact import float_fractions
from proofs_checks.lemma import Case, Claim, Telling, at_most, equal, lemma, require, tells
from proofs_checks.mean import pipeline_scores
from proofs_checks.mean import side as mean_side
from proofs_checks.privacy import SMALL_FAMILY, SURE_FAIL, OutlierFamily, is_a_family, mean_families, run_private_mean
from proofs_checks.target import Target, levels_of
from refimpl.linalg import differences, exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction
from refimpl.mean import exact_covariance
from refimpl.parameters import Edition

_SPECIFICATION = "refimpl"


def _reference(target: Target) -> Target:
    return Target(_SPECIFICATION, refimpl, target.edition)


def _same_sets(what: str, mine: tuple[frozenset[int], ...], theirs: tuple[frozenset[int], ...]) -> Iterator[Claim]:
    yield equal(f"number of {what}", len(mine), len(theirs))
    for ell, (a, b) in enumerate(zip(mine, theirs, strict=False)):
        yield at_most(f"rows in which {what} of level {ell} differ", len(a ^ b), 0)


@lemma(
    "StableCovariance",
    "equals refimpl: sets, score, weights, covariance",
    cases=adjacent_rows,
    given=covariance_stage,
    needs=("stable_second_moment",),
    telling="some level removes some rows and not all",
    least_telling=Fraction(1, 3),
    refuted_by=("strict_for_non_strict", "divides_by_subset_size"),
)
def covariance_stage_equals_refimpl(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """The covariance stage computes refimpl's sets and score exactly, and its covariance up to the stated rounding."""
    mine, theirs = (covariance_side(t, pair, prime=True) for t in (target, _reference(target)))
    yield tells(any(0 < len(s) < pair.n for s in theirs.sets))
    yield from _same_sets("good subsets", mine.sets, theirs.sets)
    yield equal("SCORE", mine.score, theirs.score)
    if theirs.score < pair.k:
        size = max(map(abs, theirs.reported_covariance))
        for a, b in zip(mine.reported_covariance, theirs.reported_covariance, strict=True):
            yield equal("an entry of the covariance", a, b, rounded=True, scale=size)


@lemma(
    "StableMean",
    "equals refimpl: cores, score, weights, mean",
    cases=adjacent_points,
    given=mean_stage,
    needs=("stable_mean",),
    telling="some core keeps some rows and not all",
    least_telling=Fraction(1, 3),
    refuted_by=("mean_strict_for_non_strict", "distance_threshold_halved", "reference_is_ignored"),
)
def mean_stage_equals_refimpl(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """The mean stage computes refimpl's cores and score exactly, and its mean up to the stated rounding."""
    mine, theirs = (mean_side(t, pair, prime=True) for t in (target, _reference(target)))
    yield tells(any(0 < len(s) < pair.n for s in theirs.sets))
    yield from _same_sets("cores", mine.sets, theirs.sets)
    yield equal("SCORE", mine.score, theirs.score)
    size = max(abs(v) for row in pair.rows_prime for v in row)
    for a, b in zip(mine.reported_mean, theirs.reported_mean, strict=True):
        yield equal("a coordinate of the mean", a, b, rounded=True, scale=size)


@lemma(
    "Algorithm 1 (scores)",
    "equals refimpl: both scores of the whole pipeline",
    cases=adjacent_data,
    given=pipeline_stage,
    needs=("stable_covariance", "stable_mean"),
    telling="one of the two scores lies strictly between 0 and k",
    least_telling=Fraction(1, 4),
    refuted_by=("pairs_with_the_next_row", "covariance_not_halved"),
)
def pipeline_equals_refimpl(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """Both scores of the pipeline are refimpl's, where the mean stage is given the covariance stage's own result."""
    mine, theirs = (pipeline_scores(t, pair, prime=False) for t in (target, _reference(target)))
    yield tells(any(0 < s < pair.k for s in theirs))
    for name, a, b in zip(("SCORE_1", "SCORE_2"), mine, theirs, strict=True):
        yield equal(name, a, b)


@lemma(
    "Algorithm 1 (release)",
    "equals refimpl: the same coins give the same release",
    cases=mean_families,
    given=is_a_family,
    needs=("private_mean_given",),
    telling="refimpl releases",
    least_telling=Fraction(1, 4),
    refuted_by=("noise_variance_as_deviation", "coin_always_passes"),
    examples=lambda: (SMALL_FAMILY, SURE_FAIL),
    cost=40,
)
def private_mean_equals_refimpl(target: Target, case: OutlierFamily) -> Iterator[Claim | Telling]:
    """With the same coins, a target and refimpl both FAIL or both release, and the releases agree up to stated rounding."""
    parameters = case.mean_parameters(target.edition)
    drawn = refimpl.draw_mean_coins(parameters, np.random.default_rng(case.seed))
    coins = replace(drawn, seed=None)  # targets may know no other normals than floats
    x = case.pair(parameters.n, parameters.k).x
    mine, theirs = (run_private_mean(t, x, parameters, coins) for t in (target, _reference(target)))
    yield tells(theirs is not None)
    yield equal("released (1) or FAIL (0)", int(mine is not None), int(theirs is not None))
    if mine is not None and theirs is not None:
        size = max(abs(float(v)) for v in x.ravel())
        for a, b in zip(mine, theirs, strict=True):
            yield at_most("distance of the releases", abs(a - b), Fraction(size) / (1 << 50), rounded=True, scale=size)


# Where floats are least sure ------------------------------------------------------------------------------------------

HAIR = Fraction(1, 1 << 40)  # how much a threshold is moved to see whether a decision hangs on it


@dataclass(frozen=True)
class Edge(Case):
    """Rows whose norms or distances lie at, or a hair beside, thresholds of both stages.

    Attributes
    ----------
    rows
        The data set, in float64.
    k, reference
        Public arguments.
    lambda_0, lambda_mean
        Outlier thresholds of the covariance stage and of the mean stage.
    """

    rows: tuple[tuple[float, ...], ...]
    k: int
    reference: tuple[int, ...]
    lambda_0: Fraction
    lambda_mean: Fraction

    @property
    def x(self) -> NDArray[np.float64]:
        """The data set."""
        return np.array(self.rows, dtype=np.float64)

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return len(self.rows)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        rows = tuple(tuple(float(v) for v in row) for row in data["rows"])
        thresholds = Fraction(data["lambda_0"]), Fraction(data["lambda_mean"])
        return cls(rows, int(data["k"]), tuple(data["reference"]), *thresholds)


def is_an_edge(case: Edge) -> None:
    """Finite rows, thresholds that both stages accept, and a reference set."""
    n = len(case.rows)
    require("at least two finite rows", n >= 2 and bool(np.isfinite(case.x).all()))
    require("k >= 1 and lambda_0 > 0", case.k >= 1 and case.lambda_0 > 0)
    require("0 < lambda < 9n/50 in the mean stage", 0 < case.lambda_mean < Fraction(9 * n, 50))
    require("distinct reference indices", len(set(case.reference)) == len(case.reference) > 0)


def _spoiled(kind: str, grid: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """Small integers made difficult: full mantissas, columns of any size, an offset, near dependence, outliers."""
    d = grid.shape[1]
    if kind == "parallel":
        grid = np.column_stack([grid, grid[:, 0] + np.resize([1.0, 0.0, -1.0], len(grid)) * 2.0 ** -(20 + power % 30)])
    x = grid * (1.0 if power % 2 else 1 / 3)
    if kind == "columns":
        x = x * 2.0 ** (np.resize([1, -1], d) * (500 + power))
    elif kind == "offset":
        x = x + 2.0**45
    elif kind == "outlier":
        x[-1] *= 2.0 ** (10 * power)
    return np.asarray(x)


def _norm(x: NDArray[np.float64], rank: int) -> Fraction | None:
    """One of the largest norms of paired rows, exactly; None if they span too little."""
    y = differences(exact_matrix("x", x))
    inverse = inverse_or_none(second_moment(y, [Fraction(1, y.nrows())] * y.nrows()))
    return None if inverse is None else sorted(map(to_fraction, mahalanobis_squared(y, inverse)))[-1 - rank]


def _half_distance(x: NDArray[np.float64], sigma: object, k: int, i: int, j: int) -> Fraction | None:
    """Half the squared distance of two rows in the covariance of a result, exactly; None if it has no inverse."""
    inverse = inverse_or_none(exact_covariance(exact_matrix("x", x), sigma, k))
    if inverse is None:
        return None
    return to_fraction(mahalanobis_squared(exact_matrix("x", x[[i]]) - exact_matrix("x", x[[j]]), inverse)[0]) / 2


@st.composite
def edges_of_floats(draw: st.DrawFn) -> Edge:
    """Thresholds computed from the data: exact ties, and ties moved by less than any float tells."""
    kinds = st.sampled_from(["plain", "plain", "parallel", "columns", "offset", "outlier"])
    kind, d, k = draw(kinds), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    pattern = draw(st.lists(st.tuples(*[st.integers(-3, 3)] * d), min_size=5, max_size=9))
    n, step = draw(st.integers(10, 22)), draw(st.sampled_from([1, 2, 3]))
    grid = np.array([pattern[(step * i + i * i // 5) % len(pattern)] for i in range(n)], dtype=np.float64)
    x = _spoiled(kind, grid, draw(st.integers(0, 40)))
    reference = tuple(range(min(n, 2 * k + 2 + draw(st.integers(0, 5)))))
    nudge = 1 + draw(st.sampled_from([0, 0, 1, -1])) * Fraction(1, 1 << draw(st.sampled_from([45, 52, 60, 200])))
    level = draw(st.integers(0, 2 * k))
    norm = _norm(x, draw(st.sampled_from([0, 0, 1])))
    lambda_0 = norm * (1 - Fraction(level, 10 * k)) * nudge if norm else Fraction(d)
    covariance = refimpl.stable_covariance(x, lambda_0, k)
    half = _half_distance(x, covariance, k, draw(st.integers(0, n - 1)), draw(st.sampled_from(reference)))
    allowed = half is not None and 0 < half * nudge < Fraction(9 * n, 50)
    return Edge(
        tuple(map(tuple, x.tolist())), k, reference, lambda_0, half * nudge if half and allowed else Fraction(1)
    )


TWO_TIES = (
    # The pairs (1, -1) all have norm 1 = lambda_0; the distances 1 are 2 lambda_mean.
    Edge(((1.0,),) * 6 + ((0.0,),) * 6, 1, (0, 1, 2, 6, 7), Fraction(1), Fraction(1)),
    Edge(((1.0,),) * 6 + ((0.0,),) * 6, 2, (0, 1, 2, 3, 6, 7, 8, 9), Fraction(2), Fraction(1)),
)


def _stages(target: Target, case: Edge, factor: Fraction = Fraction(1)) -> tuple[Any, Any]:
    """The results of both stages, the second in the covariance of the first; the thresholds times ``factor``."""
    covariance = target.stable_covariance(case.x, case.lambda_0 * factor, case.k)
    return covariance, target.stable_mean(case.x, covariance, case.lambda_mean * factor, case.k, case.reference)


def _audited_stages(target: Target, case: Edge) -> tuple[tuple[Any, Any], bool]:
    """The same, and whether floats decided something, as far as the target lets one see that."""
    audit = getattr(target.implementation, "audit_decisions", None)
    if audit is None:
        return _stages(target, case), True
    with audit() as decided:
        found = _stages(target, case)
    return found, any(decided.get(stage, 0) > 0 for stage in ("float", "direct", "pairs"))


def _hangs_on_a_hair(case: Edge, specification: Target, levels: int) -> bool:
    """Whether some set of a stage changes when the thresholds are moved by a hair, up or down."""
    sets = [[levels_of(stage, levels) for stage in _stages(specification, case, 1 + sign * HAIR)] for sign in (-1, 1)]
    return sets[0] != sets[1]


@lemma(
    "equivalence: certified",
    "equals refimpl where floats are least sure",
    cases=edges_of_floats,
    given=is_an_edge,
    needs=("stable_covariance", "stable_mean"),
    telling="a set of one of the stages changes when the thresholds are moved by a part in 2^40, and floats decide other rows",
    least_telling=Fraction(1, 2),
    refuted_by=("strict_for_non_strict", "mean_strict_for_non_strict"),
    examples=lambda: TWO_TIES,
    cost=4,
)
def certified_decisions_equals_refimpl(target: Target, case: Edge) -> Iterator[Claim | Telling]:
    """Ties, thin, huge and tiny data: every level, every score and every count of both stages is refimpl's."""
    specification = _reference(target)
    levels = 2 * case.k + 1
    own, floats_decided = _audited_stages(target, case)
    yield tells(floats_decided and _hangs_on_a_hair(case, specification, levels))
    pairs = zip(own, _stages(specification, case), ("good subsets", "cores"), strict=True)
    for number, (mine, theirs, what) in enumerate(pairs, 1):
        yield from _same_sets(what, levels_of(mine, levels), levels_of(theirs, levels))
        yield equal(f"SCORE_{number}", int(mine.score), int(theirs.score))
        for a, b in zip(float_fractions(mine.weights), float_fractions(theirs.weights), strict=True):
            yield equal(f"a weight of stage {number}", a, b, rounded=True)
