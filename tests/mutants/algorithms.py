"""The algorithms of refimpl once more, written over a record of decisions: a mutant makes exactly one of them differently.

Everything that no mutant touches is refimpl's own function. With the decisions of the paper the results are refimpl's.
"""

# ruff: noqa: ARG001, ARG005 - mutants look at arguments that the paper's decision ignores
from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

import refimpl
from refimpl.covariance import entry_levels, score_of
from refimpl.linalg import (
    SquaredDistances,
    differences,
    exact_matrix,
    inverse_or_none,
    mahalanobis_squared,
    rows_of,
    second_moment,
    squared_distances,
    to_fmpq,
    weighted_mean,
)
from refimpl.mean import exact_covariance
from refimpl.parameters import REPAIRED, Edition, MeanParameters, as_rational, passes_gates
from refimpl.ptr import coin_passes, ptr_pass_probability_at_growth
from refimpl.reals import ExpFraction
from refimpl.results import MeanCoins, PrivateMeanResult, StableCovarianceResult, StableMeanResult

Sets = Sequence[frozenset[int]]
Shares = list[Fraction]


def budget_of_the_test(parameters: MeanParameters) -> tuple[Fraction, Fraction]:
    return parameters.test_epsilon, parameters.test_delta


def degrees_of(distances: SquaredDistances, bound: Fraction, reference: Sequence[int]) -> list[int]:
    return [bisect_right(row, distances.within(bound)) for row in distances.numerators]


def averaged_over_the_window(counts: Sequence[int], window: int, rows: int) -> Shares:
    return [Fraction(c, window * rows) for c in counts]


def normalized(counts: Sequence[int], window: int, rows: int) -> Shares:
    total = sum(counts)
    return [Fraction(c, total) if total else Fraction(0) for c in counts]


def law_of(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    return ptr_pass_probability_at_growth(score, growth, delta, edition=edition)


@dataclass(frozen=True)
class Decisions:
    """What the algorithms decide, in the order in which they do; each default is the paper's."""

    covariance_rules: Mapping[str, Any] = field(default_factory=dict)  # what is replaced in the edition, in one stage
    mean_rules: Mapping[str, Any] = field(default_factory=dict)
    paired: Callable[[fmpq_mat], fmpq_mat] = differences
    inverse: Callable[[fmpq_mat], fmpq_mat | None] = inverse_or_none
    share: Callable[[int, int], Fraction] = lambda rows, size: Fraction(1, rows)
    is_outlier: Callable[[fmpq, fmpq], bool] = operator.gt
    most_passes: float = float("inf")
    start: Callable[[frozenset[int], int], Iterable[int]] = lambda last, rows: range(rows)
    score: Callable[[Sets, int, int, Edition], int] = score_of
    covariance_weights: Callable[[Sequence[int], int, int], Shares] = averaged_over_the_window
    moment: Callable[[fmpq_mat, Shares], fmpq_mat] = second_moment
    halving: Fraction = Fraction(1, 2)
    points: Callable[[fmpq_mat], fmpq_mat] = lambda x: x
    reference: Callable[[Sequence[int], int], Sequence[int]] = lambda reference, n: reference
    distance_inverse: Callable[[fmpq_mat], fmpq_mat | None] = inverse_or_none
    degrees: Callable[[SquaredDistances, Fraction, Sequence[int]], list[int]] = degrees_of
    least_degree: Callable[[int, int], int] = operator.sub
    mean_score: Callable[[Sets, int, int, Edition], int] = score_of
    mean_weights: Callable[[Sequence[int], int, int], Shares] = normalized
    average: Callable[[fmpq_mat, Shares], tuple[Fraction, ...]] = weighted_mean
    law: Callable[[int, Any, Fraction, Edition], Any] = law_of
    joint_score: Callable[[int, int], int] = max
    test_budget: Callable[[MeanParameters], tuple[Fraction, Fraction]] = budget_of_the_test
    gates: Callable[[MeanParameters], bool] = passes_gates
    passes: Callable[[Any, Any], bool] = coin_passes
    release: Callable[[Any, Any, Fraction, Any], Any] = refimpl.gaussian_release


@dataclass(frozen=True)
class Algorithms:
    """A target that follows ``decisions``; results and arguments are refimpl's."""

    decisions: Decisions = field(default_factory=Decisions)
    MOST_ROWS = refimpl.MOST_ROWS

    def _good_subset(self, rows: fmpq_mat, lam: Fraction, start: Iterable[int]) -> frozenset[int]:
        m, threshold, subset, passes, out = rows.nrows(), to_fmpq(lam), list(start), 0, {-1}
        while out and passes < self.decisions.most_passes:
            members = rows_of(rows, subset)
            shares = [self.decisions.share(m, len(subset))] * len(subset)
            inverse = self.decisions.inverse(second_moment(members, shares))
            norms = [] if inverse is None else mahalanobis_squared(members, inverse)
            near = {i for i, v in zip(subset, norms, strict=False) if not self.decisions.is_outlier(v, threshold)}
            out, subset, passes = set(subset) - near, [i for i in subset if i in near], passes + 1
        return frozenset(subset)

    def largest_good_subset(self, y: Any, lam: Any) -> frozenset[int]:
        rows = exact_matrix("y", y)
        return self._good_subset(rows, as_rational("lam", lam), range(rows.nrows()))

    def stable_second_moment(self, y: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> Any:
        rows, rules = exact_matrix("y", y), replace(edition, **self.decisions.covariance_rules)
        m, subsets = rows.nrows(), list[frozenset[int]]()
        for ell in range(rules.last_level(k, None) + 1):
            start = self.decisions.start(subsets[-1] if subsets else frozenset(range(m)), m)
            subsets.append(self._good_subset(rows, rules.outlier_threshold(lambda_0, k, m, ell), start))
        counts, window = _counts(subsets, rules.weight_levels(k, None), m)
        weights = self.decisions.covariance_weights(counts, window, m)
        score = self.decisions.score(subsets, m, k, rules)
        covariance = self.decisions.moment(rows, weights)
        return StableCovarianceResult(covariance, score, tuple(weights), entry_levels(subsets, m), tuple(subsets))

    def stable_covariance(self, x: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> Any:
        y = self.decisions.paired(exact_matrix("x", x))
        result = self.stable_second_moment(y, lambda_0, k, edition=edition)
        return replace(result, covariance=result.covariance * to_fmpq(self.decisions.halving))

    def _core(self, distances: SquaredDistances, lam: Fraction, tau: int, reference: Sequence[int]) -> frozenset[int]:
        degrees = self.decisions.degrees(distances, 2 * lam, reference)
        return frozenset(i for i, degree in enumerate(degrees) if degree >= tau)

    def largest_core(self, x: Any, covariance: Any, lam: Any, tau: int, reference: Sequence[int]) -> frozenset[int]:
        rows = self.decisions.points(exact_matrix("x", x))
        reference = self.decisions.reference(reference, rows.nrows())
        inverse = self.decisions.distance_inverse(_matrix_of(rows, covariance))
        if inverse is None:
            return frozenset(range(rows.nrows())) if tau <= 0 else frozenset()
        return self._core(squared_distances(rows, inverse, reference), as_rational("lam", lam), tau, reference)

    def stable_mean(
        self, x: Any, covariance: Any, lambda_0: Any, k: int, reference: Sequence[int], *, edition: Edition = REPAIRED
    ) -> Any:
        rules, rows = replace(edition, **self.decisions.mean_rules), self.decisions.points(exact_matrix("x", x))
        n, levels = rows.nrows(), range(rules.last_level(k, None) + 1)
        reference = self.decisions.reference(tuple(sorted(i for i in reference if i < n)), n)
        inverse = self.decisions.distance_inverse(_matrix_of(rows, covariance))
        if inverse is None:
            cores = [frozenset[int]()] * len(levels)
        else:
            distances = squared_distances(rows, inverse, reference)
            taus = [self.decisions.least_degree(len(reference), rules.degree_allowance(ell)) for ell in levels]
            bounds = [rules.distance_threshold(lambda_0, k, n, ell) for ell in levels]
            cores = [self._core(distances, lam, tau, reference) for lam, tau in zip(bounds, taus, strict=True)]
        counts, window = _counts(cores, rules.weight_levels(k, None), n)
        weights = self.decisions.mean_weights(counts, window, n)
        score = self.decisions.mean_score(cores, n, k, rules)
        mean = self.decisions.average(rows, weights)
        return StableMeanResult(mean, score, tuple(weights), entry_levels(cores, n), tuple(cores))

    def ptr_pass_probability(self, score: int, epsilon: Any, delta: Any, *, edition: Edition = REPAIRED) -> Any:
        growth = ExpFraction(as_rational("epsilon", epsilon) / edition.sensitivity)
        return self.decisions.law(score, growth, as_rational("delta", delta), edition)

    def ptr_pass_probability_at_growth(
        self, score: int, growth: Any, delta: Any, *, edition: Edition = REPAIRED
    ) -> Any:
        return self.decisions.law(score, as_rational("growth", growth), as_rational("delta", delta), edition)

    def private_mean_given(self, x: Any, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
        p = parameters
        if not self.decisions.gates(p):
            return PrivateMeanResult(None, p)
        covariance = self.stable_covariance(x, p.lambda_0, p.k, edition=p.edition)
        mean = self.stable_mean(x, covariance, p.lambda_0, p.k, coins.reference, edition=p.edition)
        score = self.decisions.joint_score(covariance.score, mean.score)
        probability = self.ptr_pass_probability(score, *self.decisions.test_budget(p), edition=p.edition)
        if not self.decisions.passes(probability, coins.test):
            return PrivateMeanResult(None, p)
        return PrivateMeanResult(
            self.decisions.release(mean.mean, covariance.covariance, p.noise_scale, coins.normals), p
        )


def _matrix_of(x: fmpq_mat, covariance: Any) -> fmpq_mat:
    """The matrix itself, since a mutant may have more pairs than there are, and refimpl would notice."""
    return exact_covariance(x, getattr(covariance, "covariance", covariance))


def _counts(sets: Sets, levels: Iterable[int], rows: int) -> tuple[list[int], int]:
    chosen = [sets[ell] for ell in levels]
    return [sum(i in s for s in chosen) for i in range(rows)], len(chosen)
