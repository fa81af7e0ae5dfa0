"""SHARP's one stage with exactly one named fault each: ``SHARP_MUTANTS`` has them by name.

Everything that no mutant touches is refimpl's own function. With the decisions of ``stable_moments`` the results are refimpl's.
"""

# ruff: noqa: ARG001, ARG005 - ignoring an argument is often the fault
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

import refimpl
from proofs_checks.sharp_curves import SHARP_FAULTS, SHARP_RULES, SharpRules
from refimpl.covariance import entry_levels
from refimpl.linalg import (
    exact_matrix,
    inverse_or_none,
    mahalanobis_squared,
    rows_of,
    second_moment,
    to_fmpq,
    weighted_mean,
)
from refimpl.parameters import MeanParameters, as_rational
from refimpl.ptr import coin_passes, pass_probability
from refimpl.results import MeanCoins, PrivateMeanResult, StableMomentsResult, TestCoin

from .mutant import Mutant

__all__ = ["FAULTLESS_SHARP", "SHARP_MUTANTS"]

Sets = Sequence[frozenset[int]]
Shares = list[Fraction]


def _with_ones(rows: fmpq_mat) -> fmpq_mat:
    return fmpq_mat([[fmpq(1), *row] for row in rows.tolist()])


def _reciprocal(n: int, room: Fraction) -> Fraction | None:
    """n/room, and no threshold at all where there is no room."""
    return n / room if room > 0 else None


def _score(sets: Sets, n: int, k: int) -> int:
    return min(k, *(max(n - len(sets[ell]), ell) for ell in range(k)))


def _averaged(counts: Sequence[int], window: int, sets: Sets, n: int) -> Shares:
    return [Fraction(c, window * n) for c in counts]


def _mean(rows: fmpq_mat, weights: Shares) -> tuple[Fraction, ...]:
    return weighted_mean(rows, [w / sum(weights) for w in weights])


def _scatter(rows: fmpq_mat, weights: Shares, mean: Sequence[Fraction]) -> fmpq_mat:
    centre = [to_fmpq(v) for v in mean]
    deviations = fmpq_mat([[u - v for u, v in zip(row, centre, strict=True)] for row in rows.tolist()])
    return second_moment(deviations, weights)


@dataclass(frozen=True)
class SharpDecisions:
    """What the one stage decides, in the order in which it does; each default is SHARP's."""

    lifted: Callable[[fmpq_mat], fmpq_mat] = _with_ones
    threshold: Callable[[int, Fraction, int, int], Fraction | None] = lambda n, lambda_0, k, ell: _reciprocal(
        n, n / lambda_0 - ell
    )
    share: Callable[[int, int], Fraction] = lambda n, size: Fraction(1, n)
    inverse: Callable[[fmpq_mat], fmpq_mat | None] = inverse_or_none
    is_outlier: Callable[[fmpq, fmpq], bool] = operator.gt
    most_passes: float = float("inf")
    score: Callable[[Sets, int, int], int] = _score
    window: Callable[[int, int], range] = lambda k, window: range(k, k + window)
    weights: Callable[[Sequence[int], int, Sets, int], Shares] = _averaged
    moments_of: Callable[[Shares, int], Shares] = lambda weights, n: weights
    mean: Callable[[fmpq_mat, Shares], Sequence[Fraction]] = _mean
    scatter: Callable[[fmpq_mat, Shares, Sequence[Fraction]], fmpq_mat] = _scatter
    law: Callable[[int, MeanParameters], Any] = pass_probability
    passes: Callable[[Any, TestCoin], bool] = coin_passes
    release: Callable[[Any, Any, Fraction, Any], Any] = refimpl.gaussian_release


@dataclass(frozen=True)
class SharpAlgorithms:
    """A target that follows ``decisions``; result and arguments are refimpl's."""

    decisions: SharpDecisions = field(default_factory=SharpDecisions)
    sharp_rules: SharpRules = SHARP_RULES  # what is made of a plan before the mechanism runs
    MOST_ROWS = refimpl.MOST_ROWS

    def _good_subset(self, rows: fmpq_mat, lam: Fraction | None) -> frozenset[int]:
        n, subset, passes, out = rows.nrows(), list(range(rows.nrows())), 0, {-1}
        while lam is not None and out and passes < self.decisions.most_passes:
            members = rows_of(rows, subset)
            inverse = self.decisions.inverse(
                second_moment(members, [self.decisions.share(n, len(subset))] * len(subset))
            )
            norms = [] if inverse is None else mahalanobis_squared(members, inverse)
            bound = to_fmpq(lam)
            near = {i for i, v in zip(subset, norms, strict=False) if not self.decisions.is_outlier(v, bound)}
            out, subset, passes = set(subset) - near, [i for i in subset if i in near], passes + 1
        return frozenset(subset)

    def stable_moments(self, x: Any, lambda_0: Any, k: int, window: int) -> StableMomentsResult:
        d, rows, lam = self.decisions, exact_matrix("x", x), as_rational("lambda_0", lambda_0)
        n, z, levels = rows.nrows(), d.lifted(rows), d.window(k, window)
        top = max(k + window, levels.stop)
        sets = [self._good_subset(z, d.threshold(n, lam, k, ell)) for ell in range(top)]
        counts = [sum(i in sets[ell] for ell in levels) for i in range(n)]
        weights, score = d.weights(counts, len(levels), sets, n), d.score(sets, n, k)
        sets = sets[: k + window]
        entries = entry_levels(sets, n)
        used = d.moments_of(weights, n)
        if score >= k or not any(used):
            return StableMomentsResult(None, None, score, tuple(weights), entries, tuple(sets))
        mean = tuple(d.mean(rows, used))
        return StableMomentsResult(mean, d.scatter(rows, used, mean), score, tuple(weights), entries, tuple(sets))

    def private_mean_given(self, x: Any, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
        p, d = parameters, self.decisions
        assert p.window is not None, "a record of SHARP has a window"
        moments = self.stable_moments(x, p.lambda_0, p.k, p.window)
        if moments.mean is None or not d.passes(d.law(moments.score, p), coins.test):
            return PrivateMeanResult(None, p)
        return PrivateMeanResult(d.release(moments.mean, moments.covariance, p.noise_scale, coins.normals), p)


FAULTLESS_SHARP = SharpAlgorithms()
"""The one stage of the mutants without any fault: equal to refimpl."""

SHARP_MUTANTS: dict[str, Mutant] = {}


def _mutant(name: str, fault: str, **decisions: Any) -> None:
    SHARP_MUTANTS[name] = Mutant(name, fault, SharpAlgorithms(SharpDecisions(**decisions)))


# The levels -----------------------------------------------------------------------------------------------------------

_mutant("sharp_rows_are_not_lifted", "the column of ones is missing: z_i = x_i", lifted=lambda rows: rows)
_mutant(
    "sharp_divides_by_subset_size",
    "the second moment of a subset of lifted rows is divided by |S| and not by n",
    share=lambda n, size: Fraction(1, max(size, 1)),
)
_mutant("sharp_strict_for_non_strict", "lifted rows whose norm equals lambda_ell are removed", is_outlier=operator.ge)
_mutant("sharp_single_pass", "outliers of a level are removed once only", most_passes=1)
_mutant(
    "sharp_thresholds_grow_too_fast",
    "1/lambda_ell falls by 3/2 of what it should at each level",
    threshold=lambda n, lambda_0, k, ell: _reciprocal(n, n / lambda_0 - Fraction(3, 2) * ell),
)
_mutant(
    "sharp_thresholds_do_not_grow",
    "lambda_0 is used at every level",
    threshold=lambda n, lambda_0, k, ell: lambda_0,
)
_mutant(
    "sharp_thresholds_as_printed",
    "Eq. (49), lambda_0/(1 - ell/(10k)), is used whatever n is",
    threshold=lambda n, lambda_0, k, ell: lambda_0 / (1 - Fraction(ell, 10 * k)) if ell < 10 * k else None,
)
_mutant(
    "sharp_levels_fall",
    "the thresholds fall with the level: a sign",
    threshold=lambda n, lambda_0, k, ell: _reciprocal(n, n / lambda_0 + ell),
)


def _ridge(matrix: fmpq_mat) -> fmpq_mat | None:
    d = matrix.nrows()
    return inverse_or_none(matrix + fmpq_mat(d, d, [fmpq(int(i == j), 8) for i in range(d) for j in range(d)]))


def _trace_norms(matrix: fmpq_mat) -> fmpq_mat | None:
    d = matrix.nrows()
    if matrix.det() == 0:
        return None
    trace = sum((matrix[i, i] for i in range(1, d)), fmpq(0)) / max(1, d - 1)
    return fmpq_mat(d, d, [(fmpq(1) if i == 0 else 1 / trace) * int(i == j) for i in range(d) for j in range(d)])


_mutant("sharp_ridge", "a ridge of 1/8 is added to every second moment", inverse=_ridge)
_mutant(
    "sharp_euclidean_norms",
    "norms are Euclidean, scaled by the trace, and taken about the origin",
    inverse=_trace_norms,
)

# The score ------------------------------------------------------------------------------------------------------------

_mutant(
    "sharp_score_by_sum",
    "the paper's score: n - |S_ell| + ell and not the larger of the two",
    score=lambda sets, n, k: min(k, *(n - len(sets[ell]) + ell for ell in range(k))),
)
_mutant(
    "sharp_score_of_the_first_level_alone",
    "SCORE = min(k, n - |S_0|)",
    score=lambda sets, n, k: min(k, n - len(sets[0])),
)
_mutant(
    "sharp_score_without_the_level",
    "SCORE = min(k, min_ell n - |S_ell|): the level is forgotten",
    score=lambda sets, n, k: min(k, *(n - len(sets[ell]) for ell in range(k))),
)
_mutant(
    "sharp_score_is_not_capped",
    "SCORE is not cut off at k",
    score=lambda sets, n, k: min(max(n - len(sets[ell]), ell) for ell in range(k)),
)
_mutant(
    "sharp_score_of_the_last_level",
    "SCORE = min(k, n - |S_t|): rows missing from the largest set are counted",
    score=lambda sets, n, k: min(k, n - len(sets[-1])),
)
_mutant(
    "sharp_score_is_never_0",
    "the count starts at 1",
    score=lambda sets, n, k: min(k, _score(sets, n, k) + 1),
)

# A score over the levels 0..k+W-1 would be no fault: a level from k on gives at least k, where the score is cut off.

# The weights ----------------------------------------------------------------------------------------------------------

_mutant(
    "sharp_window_starts_at_0",
    "the levels 0..W-1 are averaged",
    window=lambda k, window: range(window),
)
_mutant(
    "sharp_window_starts_at_k_minus_1",
    "off by one: the levels k-1..k+W-2 are averaged",
    window=lambda k, window: range(k - 1, k + window - 1),
)
_mutant(
    "sharp_window_starts_at_k_plus_1",
    "off by one, as in the paper: the levels k+1..k+W are averaged",
    window=lambda k, window: range(k + 1, k + window + 1),
)
_mutant(
    "sharp_window_is_one_longer",
    "the levels k..k+W are averaged",
    window=lambda k, window: range(k, k + window + 1),
)
_mutant(
    "sharp_weights_divided_by_subset_size",
    "the counts are divided by W times the size of the largest set and not by Wn",
    weights=lambda counts, window, sets, n: [Fraction(c, window * max(1, len(sets[-1]))) for c in counts],
)
_mutant(
    "sharp_weights_are_normalized",
    "the weights are made to sum to 1",
    weights=lambda counts, window, sets, n: [Fraction(c, max(1, sum(counts))) for c in counts],
)
_mutant(
    "sharp_weights_are_not_averaged",
    "every row of the largest set has weight 1/n",
    weights=lambda counts, window, sets, n: [Fraction(int(c > 0), n) for c in counts],
)
_mutant(
    "sharp_raw_rows_averaged",
    "every row has weight 1/n",
    weights=lambda counts, window, sets, n: [Fraction(1, n)] * n,
)
_mutant(
    "sharp_weights_of_the_first_level",
    "every row of S_0 has weight 1/n and no other row has any",
    weights=lambda counts, window, sets, n: [Fraction(int(i in sets[0]), n) for i in range(n)],
)

# The moments ----------------------------------------------------------------------------------------------------------

_mutant(
    "sharp_scatter_about_zero",
    "the covariance is the weighted second moment about 0 and not about the mean",
    scatter=lambda rows, weights, mean: second_moment(rows, weights),
)
_mutant(
    "sharp_mean_divided_by_n",
    "the weighted sum of the rows is not divided by b: the total weight is taken to be 1",
    mean=weighted_mean,
)
_mutant(
    "sharp_covariance_is_normalized",
    "the scatter is divided by b",
    scatter=lambda rows, weights, mean: _scatter(rows, [w / sum(weights) for w in weights], mean),
)
_mutant(
    "sharp_covariance_is_unbiased",
    "the scatter is divided by n - 1 and not by n",
    scatter=lambda rows, weights, mean: _scatter(
        rows, [w * Fraction(len(weights), len(weights) - 1) for w in weights], mean
    ),
)
_mutant(
    "sharp_moments_of_all_rows",
    "mean and covariance are those of all rows, whatever their weights",
    moments_of=lambda weights, n: [Fraction(1, n)] * n,
)
_mutant(
    "sharp_mean_of_all_rows",
    "the mean is that of all rows, whatever their weights",
    mean=lambda rows, weights: _mean(rows, [Fraction(1, len(weights))] * len(weights)),
)
_mutant(
    "sharp_last_row_ignored",
    "the sums stop one row early",
    moments_of=lambda weights, n: [*weights[:-1], Fraction(0)],
)

# The test and the noise -----------------------------------------------------------------------------------------------


def _of_the_plan(name: str, fault: str) -> None:
    """A mechanism whose estimates are right and whose plan is not followed."""
    rules = SHARP_FAULTS[f"sharp: {fault}"]
    SHARP_MUTANTS[name] = Mutant(name, f"in the mechanism, {fault}", SharpAlgorithms(sharp_rules=rules))


_of_the_plan("sharp_law_is_shifted", "the law is shifted by one step")
_of_the_plan("sharp_noise_is_halved", "c is halved and N is four times larger")
_mutant(
    "sharp_coin_always_passes",
    "SHARP releases whatever the coin says, as long as there are moments",
    passes=lambda probability, coin: True,
)
_mutant(
    "sharp_law_of_the_next_score",
    "off by one: the test reads p_{z+1} at score z",
    law=lambda score, parameters: pass_probability(score + 1, parameters),
)
_mutant(
    "sharp_noise_variance_as_deviation",
    "SHARP's noise is scaled by c^2 and not by c",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(mean, covariance, scale**2, normals),
)
_mutant(
    "sharp_release_without_noise",
    "the mean is released as it is",
    release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(mean, covariance, scale, 0 * normals),
)
