"""Targets with exactly one named fault each, such as implementers make: what the checks are for.

``MUTANTS`` has them by name, and each can be loaded as a target: ``bhs23-audit run tests.mutants:single_pass``.
"""

# ruff: noqa: ARG001, ARG005 - ignoring an argument is often the fault
from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

import refimpl
from refimpl.linalg import inverse_or_none, rows_of, second_moment, to_fmpq, weighted_mean
from refimpl.parameters import REPAIRED, Edition, Lambda_ell, lambda_ell, ordered_stability_gamma
from refimpl.results import StableCovarianceResult, StableMeanResult

from .algorithms import Algorithms, Decisions, Sets, averaged_over_the_window, degrees_of, law_of, normalized
from .mutant import Mutant
from .sharp import FAULTLESS_SHARP, SHARP_MUTANTS

__all__ = ["FAULTLESS", "FAULTLESS_SHARP", "MUTANTS", "SHARP_MUTANTS", "Mutant"]

FAULTLESS = Algorithms()
"""The algorithms of the mutants without any fault: equal to refimpl."""


MUTANTS: dict[str, Mutant] = {}


def _mutant(name: str, fault: str, survives_because: str = "", **decisions: Any) -> None:
    MUTANTS[name] = Mutant(name, fault, Algorithms(Decisions(**decisions)), survives_because)


def __getattr__(name: str) -> Any:
    """The implementation of the mutant of this name, so that the audit can load it."""
    try:
        return (MUTANTS if name in MUTANTS else SHARP_MUTANTS)[name].implementation
    except KeyError:
        raise AttributeError(name) from None


# LargestGoodSubset ----------------------------------------------------------------------------------------------------

_mutant(
    "divides_by_subset_size",
    "the second moment of a subset is divided by its size |S| and not by m",
    share=lambda rows, size: Fraction(1, max(size, 1)),
)
_mutant(
    "strict_for_non_strict",
    "rows whose norm equals lambda are removed",
    is_outlier=operator.ge,
)
_mutant(
    "single_pass",
    "outliers are removed once, without looking at the norms of the rest again",
    most_passes=1,
)
_mutant(
    "norms_are_not_squared",
    "the norm itself, not its square, is compared with lambda",
    is_outlier=lambda squared, lam: squared > lam**2,
)
_mutant(
    "sigma_is_not_inverted",
    "norms are taken as y^T Sigma y",
    inverse=lambda matrix: matrix if matrix.det() else None,
)


def _ridge(matrix: fmpq_mat) -> fmpq_mat | None:
    d = matrix.nrows()
    return inverse_or_none(matrix + fmpq_mat(d, d, [fmpq(int(i == j), 1 << 40) for i in range(d) for j in range(d)]))


_mutant(
    "singular_is_regularized",
    "a ridge of 2^-40 makes every second moment invertible",
    inverse=_ridge,
)

# The levels of StableCovariance ---------------------------------------------------------------------------------------


def _outlier_factor(factor: Fraction) -> dict[str, Any]:
    return {"outlier_threshold": lambda lambda_0, k, _m, ell: factor * lambda_ell(lambda_0, k, ell)}


def _distance_factor(factor: Fraction) -> dict[str, Any]:
    return {"distance_threshold": lambda lambda_0, _k, n, ell: factor * Lambda_ell(lambda_0, n, ell)}


_mutant(
    "outlier_threshold_doubled",
    "lambda_ell is twice too large",
    covariance_rules=_outlier_factor(Fraction(2)),
)
_mutant(
    "outlier_threshold_halved",
    "lambda_ell is half of what it should be",
    covariance_rules=_outlier_factor(Fraction(1, 2)),
)
_mutant(
    "outlier_threshold_grows_too_fast",
    "lambda_ell = lambda_0/(1 - ell/(4k)) reaches 2 lambda_0",
    covariance_rules={"outlier_threshold": lambda lambda_0, k, _m, ell: lambda_0 / (1 - Fraction(ell, 4 * k))},
)
_mutant(
    "outlier_threshold_does_not_grow",
    "lambda_0 is used at every level",
    covariance_rules={"outlier_threshold": lambda lambda_0, _k, _m, _ell: lambda_0},
)
_mutant(
    "levels_start_from_the_last_set",
    "a warm start in the wrong direction: S_ell is looked for inside S_{ell-1}",
    start=lambda last, rows: sorted(last),
)
_mutant(
    "level_sets_that_are_not_nested",
    "the thresholds of both stages fall with the level: a sign",
    covariance_rules={"outlier_threshold": lambda lambda_0, k, _m, ell: lambda_0 / (1 + Fraction(ell, 10 * k))},
    mean_rules={
        "distance_threshold": lambda lambda_0, _k, n, ell: lambda_0 * (1 - ordered_stability_gamma(lambda_0, n)) ** ell
    },
)


def _by_level_sizes(sets: Sets, rows: int, k: int, edition: Edition) -> int:
    new = [s - last for s, last in zip(sets, (frozenset[int](), *sets), strict=False)]
    return refimpl.covariance.score_of(new, rows, k, edition)


def _uncapped(sets: Sets, rows: int, k: int, edition: Edition) -> int:
    return min(edition.level_score(rows - len(sets[ell]), ell) for ell in edition.score_levels(k, None))


_mutant(
    "scores_by_level_sizes",
    "the score takes the number of rows that enter at level ell for the size of S_ell",
    score=_by_level_sizes,
)
_mutant(
    "score_is_not_capped",
    "SCORE_1 is not cut off at k, as in Eq. (4)",
    score=_uncapped,
)
_mutant(
    "score_of_the_first_level_alone",
    "SCORE_1 = min(k, m - |S_0|)",
    score=lambda sets, rows, k, edition: min(k, rows - len(sets[0])),
)
_mutant(
    "score_without_the_level",
    "SCORE_1 = min(k, min_ell m - |S_ell|): the + ell is forgotten",
    score=lambda sets, rows, k, edition: min(k, *(rows - len(sets[ell]) for ell in range(k + 1))),
)

# The weights and the matrix of StableCovariance -----------------------------------------------------------------------

_FIRST_HALF = {"weight_levels": lambda k, _window: range(k + 1)}


def _in_the_last_set(counts: Sequence[int], window: int, rows: int) -> list[Fraction]:
    return averaged_over_the_window([window * (c > 0) for c in counts], window, rows)


_mutant(
    "weights_from_levels_0_to_k",
    "the covariance stage averages the levels of the score and not those above k",
    covariance_rules=_FIRST_HALF,
)
_mutant(
    "weights_from_levels_k_on",
    "off by one: the levels k..2k-1 are averaged",
    covariance_rules={"weight_levels": lambda k, _window: range(k, 2 * k)},
)
_mutant(
    "weights_are_not_averaged",
    "the weights of the covariance stage are 1/m on the set of the last level",
    covariance_weights=_in_the_last_set,
)
_mutant(
    "weights_are_normalized",
    "the weights of the covariance stage are made to sum to 1, as in the mean stage",
    covariance_weights=normalized,
)
_mutant(
    "raw_rows_averaged",
    "both stages average all rows, whatever sets they are in",
    covariance_weights=lambda counts, window, rows: [Fraction(1, rows)] * rows,
    mean_weights=lambda counts, window, rows: [Fraction(1, rows)] * rows,
)


def _centred_moment(rows: fmpq_mat, weights: list[Fraction]) -> fmpq_mat:
    centre = fmpq_mat([[to_fmpq(v) for v in weighted_mean(rows, weights)]])
    return second_moment(rows, weights) - centre.transpose() * centre


_mutant(
    "covariance_is_centred",
    "the mean of the paired rows is subtracted, though pairing has made it 0",
    moment=_centred_moment,
)
_mutant(
    "covariance_not_halved",
    "the factor 1/2 of pairing is lost",
    halving=Fraction(1),
)
_mutant("no_pairing", "the rows x are taken for y", paired=lambda x: x)


def _consecutive(x: fmpq_mat, step: int) -> fmpq_mat:
    firsts = [i * step for i in range(x.nrows() // 2)]
    return rows_of(x, firsts) - rows_of(x, [i + 1 for i in firsts])


def _all_rows_paired(x: fmpq_mat) -> fmpq_mat:
    m = (x.nrows() + 1) // 2
    return rows_of(x, range(m)) - rows_of(x, [(i + m) % x.nrows() for i in range(m)])


_mutant(
    "pairs_with_the_next_row",
    "y_i = x_i - x_{i+1}: every row is in two pairs",
    paired=lambda x: _consecutive(x, 1),
)
_mutant(
    "odd_row_is_paired_again",
    "for odd n the row without a partner is paired with the first row, which has one",
    paired=_all_rows_paired,
)

# StableMean -----------------------------------------------------------------------------------------------------------


def _strictly_near(distances: Any, bound: Fraction, _reference: Sequence[int]) -> list[int]:
    return [bisect_left(row, ceil(bound * distances.denominator)) for row in distances.numerators]


def _without_itself(distances: Any, bound: Fraction, reference: Sequence[int]) -> list[int]:
    members = frozenset(reference)
    return [degree - (i in members) for i, degree in enumerate(degrees_of(distances, bound, reference))]


_mutant(
    "mean_strict_for_non_strict",
    "a reference row at squared distance 2 Lambda exactly is not counted",
    degrees=_strictly_near,
)
_mutant(
    "row_is_not_its_own_neighbour",
    "a reference row is not counted among its own neighbours",
    degrees=_without_itself,
)
_mutant(
    "last_row_ignored",
    "the loop over rows of LargestCore stops one row early",
    degrees=lambda *arguments: [*degrees_of(*arguments)[:-1], -1],
)
_mutant(
    "mean_ignores_the_odd_row",
    "the row that pairing leaves over is left out of the mean too",
    points=lambda x: rows_of(x, range(x.nrows() // 2 * 2)),
)
_mutant(
    "mean_sigma_is_not_inverted",
    "distances are taken in Sigma and not in its inverse",
    distance_inverse=lambda matrix: matrix if matrix.det() else None,
)
_mutant(
    "distance_threshold_doubled",
    "Lambda_ell is twice too large",
    mean_rules=_distance_factor(Fraction(2)),
)
_mutant(
    "distance_threshold_doubled_twice",
    "Lambda_ell is four times too large: the norm is doubled",
    mean_rules=_distance_factor(Fraction(4)),
)
_mutant(
    "distance_threshold_halved",
    "Lambda and not 2 Lambda bounds the squared distance of neighbours",
    mean_rules=_distance_factor(Fraction(1, 2)),
)
_mutant(
    "distance_threshold_does_not_grow",
    "lambda_0 is used at every level of the mean stage",
    mean_rules={"distance_threshold": lambda lambda_0, _k, _n, _ell: lambda_0},
)
_mutant(
    "degree_threshold_is_fixed",
    "every level asks for all |R| neighbours",
    mean_rules={"degree_allowance": lambda _ell: 0},
)
_mutant(
    "degree_threshold_is_halved",
    "half of R, less ell, is enough",
    least_degree=lambda size, allowance: size // 2 - allowance,
)
_mutant(
    "reference_is_ignored",
    "all rows serve as R",
    reference=lambda reference, n: range(n),
)
_mutant(
    "mean_scores_by_level_sizes",
    "SCORE_2 takes the number of rows that enter at level ell for the size of the core",
    mean_score=_by_level_sizes,
)


def _every_other_row(sets: Sets, rows: int, k: int, edition: Edition) -> int:
    half = frozenset(range(0, rows, 2))
    return refimpl.covariance.score_of([s & half for s in sets], len(half), k, edition)


_mutant(
    "mean_score_counts_every_other_row",
    "SCORE_2 is taken on a subsample of the rows",
    mean_score=_every_other_row,
)
_mutant(
    "mean_weights_from_levels_0_to_k",
    "the mean stage averages the levels of the score and not those above k",
    mean_rules=_FIRST_HALF,
)
_mutant(
    "mean_weights_are_not_averaged",
    "the weights of the mean stage are uniform on the core of the last level",
    mean_weights=lambda counts, window, rows: normalized([c > 0 for c in counts], window, rows),
)
_mutant(
    "mean_weights_do_not_sum_to_one",
    "the counts are divided by kn and not by their sum Z",
    mean_weights=averaged_over_the_window,
)
_mutant(
    "zero_mean",
    "the mean is taken to be 0",
    average=lambda rows, weights: (Fraction(0),) * rows.ncols(),
)

# The test -------------------------------------------------------------------------------------------------------------


def _ends_too_early(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    ends = law_of(score + 2 * edition.sensitivity, growth, delta, edition) == 0
    return growth * 0 if ends else law_of(score, growth, delta, edition)


def _never_ends(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    p = law_of(score, growth, delta, edition)
    return p if p > delta else growth * 0 + delta


def _left_branch(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    p = 1 - delta * (growth**score - 1) / (growth**edition.sensitivity - 1)
    return p if p > 0 else growth * 0


_mutant(
    "tau_without_four",
    "the law is 0 from 4 = 2s before its end on: tau without its + 4",
    law=_ends_too_early,
)
_mutant(
    "law_is_one_sided",
    "the branch that meets the FAIL inequality goes on until it is 0",
    law=_left_branch,
)
_mutant(
    "steep_law",
    "e^epsilon and not e^(epsilon/s) is the growth between neighbouring scores",
    law=lambda score, growth, delta, edition: law_of(edition.sensitivity * score, growth, delta, edition),
)
_mutant("law_without_an_end", "the law never falls below delta", law=_never_ends)
_mutant(
    "coin_always_passes_law",
    "the law is 1 at every score",
    law=lambda score, growth, delta, edition: growth * 0 + 1,
)
_mutant(
    "coin_always_passes",
    "Algorithm 1 releases whenever its gates let it",
    passes=lambda probability, coin: True,
)
_mutant(
    "test_looks_at_score_1_alone",
    "SCORE_2 does not reach the test",
    joint_score=lambda score_1, score_2: score_1,
)
_mutant(
    "test_looks_at_score_2_alone",
    "SCORE_1 does not reach the test",
    joint_score=lambda score_1, score_2: score_2,
)
_mutant(
    "test_adds_the_scores",
    "the test is given SCORE_1 + SCORE_2",
    joint_score=operator.add,
)
_mutant(
    "test_spends_the_whole_budget",
    "the test is run with (epsilon, delta) and not with its share",
    test_budget=lambda parameters: (parameters.epsilon, parameters.delta),
)

# The release ----------------------------------------------------------------------------------------------------------

_NOTHING = (Fraction(0),)


def _transposed_release(mean: Sequence[Fraction], covariance: fmpq_mat, scale: Fraction, normals: Any) -> Any:
    floats = np.array([[float(Fraction(int(v.p), int(v.q))) for v in row] for row in covariance.tolist()])
    return np.array([float(v) for v in mean]) + float(scale) * np.linalg.cholesky(floats).T @ normals


_mutant("size_gate_is_dropped", "any number of rows is let through", gates=lambda parameters: parameters.n >= 2)
_mutant(
    "noise_factor_is_transposed",
    "c L^T z and not c L z",
    release=_transposed_release,
)
_mutant(
    "noise_variance_as_deviation",
    "the noise is scaled by c^2 and not by c",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(mean, covariance, scale**2, normals),
)
_mutant(
    "noise_ignores_the_covariance",
    "spherical noise: c z and not c L z",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(
        mean, [[int(i == j) for j in range(len(mean))] for i in range(covariance.nrows())], scale, normals
    ),
)
_mutant(
    "noise_has_the_square_of_the_covariance",
    "Sigma and not its root scales the noise",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(
        mean, covariance * covariance, scale, normals
    ),
)
_mutant(
    "release_without_the_mean",
    "the noise is released alone",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(
        _NOTHING * len(mean), covariance, scale, normals
    ),
)


# A target of constants ------------------------------------------------------------------------------------------------


def _constant_moment(y: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> StableCovarianceResult:
    m, d = len(y), len(y[0])
    identity = fmpq_mat(d, d, [int(i == j) for i in range(d) for j in range(d)])
    return StableCovarianceResult(identity, 0, (Fraction(1, m),) * m, (0,) * m, (frozenset(range(m)),) * (2 * k + 1))


def _constant_covariance(x: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> StableCovarianceResult:
    return _constant_moment(x[: len(x) // 2], lambda_0, k, edition=edition)


def _constant_mean(
    x: Any,
    covariance: Any,
    lambda_0: Any,
    k: int,
    reference: Any,
    *,
    edition: Edition = REPAIRED,
) -> StableMeanResult:
    n, d = len(x), len(x[0])
    return StableMeanResult(_NOTHING * d, 0, (Fraction(1, n),) * n, (0,) * n, (frozenset(range(n)),) * (2 * k + 1))


MUTANTS["constant_target"] = Mutant(
    "constant_target",
    "Sigma = I, mean 0, scores 0, uniform weights and every row in every set, whatever the data",
    SimpleNamespace(
        largest_good_subset=lambda y, lam: range(len(y)),
        stable_second_moment=_constant_moment,
        stable_covariance=_constant_covariance,
        largest_core=lambda x, covariance, lam, tau, reference: range(len(x)),
        stable_mean=_constant_mean,
    ),
)
