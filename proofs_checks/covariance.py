"""Section 3 as checks: good subsets, their families on adjacent data, the weights, the covariance and the score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq_mat

from proofs_checks.datasets import Matrix, Pair, adjacent_rows, covariance_stage, crossing_rows, scoring_rows
from proofs_checks.exact import (
    exact_rows,
    float_fractions,
    least_order_gamma,
    trace_norm_at_most,
    weighted_second_moment,
)
from proofs_checks.lemma import Claim, Telling, at_most, equal, holds, lemma, tells
from proofs_checks.target import Target, counts_of, levels_of
from refimpl.definitions import is_good_subset
from refimpl.linalg import inverse_or_none, mahalanobis_squared, second_moment, to_fraction
from refimpl.parameters import covariance_step, ordered_stability_gamma

NEEDS = ("stable_second_moment",)


@dataclass(frozen=True)
class Side:
    """What a target computes on one data set, with the exact numbers that follow from its sets."""

    score: int
    sets: tuple[frozenset[int], ...]
    counts: list[int]
    weights: list[Fraction]
    reported_weights: list[Fraction]
    covariance: fmpq_mat
    reported_covariance: list[Fraction]


def side(target: Target, pair: Pair, *, prime: bool) -> Side:
    """The covariance stage of ``target`` on one of the two data sets of a pair."""
    rows: Matrix = pair.rows_prime if prime else pair.rows
    result = target.stable_second_moment(pair.x_prime if prime else pair.x, pair.lambda_0, pair.k)
    sets = levels_of(result, pair.levels)
    window = target.edition.weight_levels(pair.k, None)
    counts = counts_of(sets, window, pair.n)
    weights = [Fraction(c, len(window) * pair.n) for c in counts]
    reported = result.covariance
    entries = reported.tolist() if hasattr(reported, "tolist") else reported
    flat = [to_fraction(v) if isinstance(reported, fmpq_mat) else Fraction(float(v)) for row in entries for v in row]
    return Side(
        int(result.score),
        sets,
        counts,
        weights,
        float_fractions(result.weights),
        weighted_second_moment(rows, weights),
        flat,
    )


def _both(target: Target, pair: Pair) -> tuple[Side, Side]:
    return side(target, pair, prime=False), side(target, pair, prime=True)


def _both_below(pair: Pair, one: Side, two: Side) -> bool:
    return one.score < pair.k and two.score < pair.k


@lemma(
    "Lemma 32",
    "the covariance score moves by at most 2",
    cases=scoring_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="the two scores differ",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "single_pass",
        "scores_by_level_sizes",
        "score_of_the_first_level_alone",
        "score_is_not_capped",
        "score_without_the_level",
    ),
)
def covariance_score_sensitivity(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """For adjacent y, y' of m >= 10 k lambda_0 rows the scores g(y), g(y') of the covariance stage differ by at most 2."""
    one, two = _both(target, pair)
    yield tells(one.score != two.score)
    yield at_most("change of SCORE_1 between y and y'", abs(one.score - two.score), 2)
    for s in (one, two):
        missing = [pair.n - len(s.sets[ell]) + ell for ell in target.edition.score_levels(pair.k, None)]
        yield equal("SCORE_1 against its definition on the target's own sets", s.score, min(pair.k, *missing))


def _largest_norm(rows: fmpq_mat, subset: frozenset[int]) -> Fraction | None:
    """The largest squared norm of a row of a subset in its second moment over m; None where that is singular."""
    m = rows.nrows()
    inverse = inverse_or_none(second_moment(rows, [Fraction(i in subset, m) for i in range(m)]))
    if inverse is None or not subset:
        return None
    norms = mahalanobis_squared(rows, inverse)
    return max(to_fraction(norms[i]) for i in subset)


@lemma(
    "Lemma 27",
    "each S_ell is lambda_ell-good, and no row that was left out could be kept",
    cases=adjacent_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="some level keeps some rows and removes others",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "divides_by_subset_size",
        "strict_for_non_strict",
        "single_pass",
        "norms_are_not_squared",
        "sigma_is_not_inverted",
        "singular_is_regularized",
        "outlier_threshold_doubled",
        "outlier_threshold_halved",
        "outlier_threshold_grows_too_fast",
    ),
)
def good_subsets_are_good(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """S_ell is a lambda_ell-good subset of y or empty; adding a row that was left out, alone, does not make it good."""
    one = side(target, pair, prime=False)
    yield tells(any(0 < len(s) < pair.n for s in one.sets))
    rows = exact_rows(pair.rows)
    for ell in sorted({0, pair.k, 2 * pair.k}):
        lam = target.edition.outlier_threshold(pair.lambda_0, pair.k, pair.n, ell)
        subset = one.sets[ell]
        yield holds(f"S_{ell} is good or empty", not subset or is_good_subset(rows, subset, lam))
        if (norm := _largest_norm(rows, subset)) is not None:
            yield at_most(f"largest squared norm of a row of S_{ell} against lambda_{ell}", norm, lam)
        left_out = sorted(set(range(pair.n)) - subset)
        together = not left_out or not is_good_subset(rows, range(pair.n), lam)
        yield holds(f"[m] is not good where S_{ell} is smaller", together)
        for i in left_out[:1]:
            yield holds(f"S_{ell} with row {i} back is not good", not is_good_subset(rows, {*subset, i}, lam))


@lemma(
    "Lemma 28 (i)",
    "good subsets are nested",
    cases=adjacent_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="the sets differ between levels",
    least_telling=Fraction(1, 4),
    refuted_by=("level_sets_that_are_not_nested",),
)
def good_subsets_are_nested(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """S_ell is contained in S_{ell'} for ell <= ell'."""
    one = side(target, pair, prime=False)
    yield tells(len(set(one.sets)) > 1)
    for ell, (small, large) in enumerate(zip(one.sets, one.sets[1:], strict=False)):
        yield at_most(f"rows of S_{ell} missing from S_{ell + 1}", len(small - large), 0)


@lemma(
    "Lemma 28 (ii)",
    "good subsets of adjacent data are intertwined",
    cases=crossing_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="S_ell and T_ell differ off i* at some level",
    least_telling=Fraction(1, 3),
    refuted_by=(
        "single_pass",
        "divides_by_subset_size",
        "outlier_threshold_does_not_grow",
        "levels_start_from_the_last_set",
    ),
)
def good_subsets_intertwine(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """S_ell minus i* is contained in T_{ell+1}, and T_ell minus i* in S_{ell+1}, for adjacent y, y'."""
    one, two = _both(target, pair)
    star = {pair.index}
    yield tells(any((s ^ t) - star for s, t in zip(one.sets, two.sets, strict=True)))
    for ell in range(pair.levels - 1):
        for small, large, what in ((one, two, "S_{} in T_{}"), (two, one, "T_{} in S_{}")):
            missing = len(small.sets[ell] - star - large.sets[ell + 1])
            yield at_most(f"rows other than i* that break {what.format(ell, ell + 1)}", missing, 0)


@lemma(
    "Lemma 26",
    "the covariance weights move by at most 1/m in l1 off i*",
    cases=crossing_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="both scores are below k and some weight off i* differs",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "weights_from_levels_0_to_k",
        "weights_from_levels_k_on",
        "weights_are_not_averaged",
        "weights_are_normalized",
    ),
)
def covariance_weights_are_stable(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If both scores are below k, sum_{i != i*} |w_i - w'_i| <= 1/m, each |w_i - w'_i| <= 1/(km), and w_i*, w'_i* <= 1/m."""
    one, two = _both(target, pair)
    below = _both_below(pair, one, two)
    differing = [i for i in range(pair.n) if i != pair.index and one.counts[i] != two.counts[i]]
    yield tells(below and bool(differing))
    for s in (one, two):
        for reported, exact in zip(s.reported_weights, s.weights, strict=True):
            if reported != exact:  # quiet on the many rows that agree to the last bit
                yield equal(
                    "a reported weight against its sets", reported, exact, rounded=True, scale=Fraction(1, pair.n)
                )
    if not below:
        return
    moves = [
        abs(u - v)
        for i, (u, v) in enumerate(zip(one.reported_weights, two.reported_weights, strict=True))
        if i != pair.index
    ]
    yield at_most("l1 change of the weights off i*", sum(moves), Fraction(1, pair.n), rounded=True)
    yield at_most(
        "largest change of a weight off i*",
        max(moves),
        Fraction(1, pair.k * pair.n),
        rounded=True,
        scale=Fraction(1, pair.n),
    )
    for s in (one, two):
        yield at_most("the weight of i*", s.reported_weights[pair.index], Fraction(1, pair.n), rounded=True)


@lemma(
    "Lemma 25",
    "the covariance weights are a good weighting",
    cases=crossing_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="the score is below k and a row enters between levels k+1 and 2k",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "printed",
        "raw_rows_averaged",
        "constant_target",
        "covariance_is_centred",
        "outlier_threshold_doubled",
        "outlier_threshold_grows_too_fast",
    ),
)
def covariance_weights_are_good(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If SCORE < k, the weights are a good weighting of y and the covariance is their second moment.

    PRINTED: (25/18) lambda_0-good. REPAIRED: lambda_2k / (1 - ((k-1)^2/k) lambda_2k/m), which is at most (10/7) lambda_0.
    """
    one = side(target, pair, prime=False)
    window = target.edition.weight_levels(pair.k, None)
    yield tells(one.score < pair.k and any(0 < c < len(window) for c in one.counts))
    exact = [to_fraction(v) for v in one.covariance.entries()]
    size = max((abs(v) for v in exact), default=Fraction(0))
    for reported, value in zip(one.reported_covariance, exact, strict=True):
        yield equal("an entry of the covariance against its weights", reported, value, rounded=True, scale=size)
    if one.score >= pair.k:
        return
    inverse = inverse_or_none(weighted_second_moment(pair.rows, one.reported_weights))
    yield holds("the weighted second moment is positive definite", inverse is not None)
    if inverse is None:
        return
    norms = [to_fraction(v) for v in mahalanobis_squared(exact_rows(pair.rows), inverse)]
    largest = max((norm for norm, w in zip(norms, one.reported_weights, strict=True) if w > 0), default=Fraction(0))
    bound = target.edition.goodness_factor(pair.k, pair.lambda_0, pair.n)
    yield at_most("largest squared norm of a row of positive weight", largest, bound, rounded=True)


@lemma(
    "Lemma 11, 22 (order)",
    "adjacent covariances are gamma-close in the Loewner order",
    cases=crossing_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="both scores are below k and the covariances differ",
    least_telling=Fraction(1, 3),
    refuted_by=("weights_from_levels_0_to_k", "raw_rows_averaged"),
)
def covariances_are_close_in_order(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If both scores are below k, Sigma_1, Sigma_2 > 0 and (1-gamma) Sigma_1 <= Sigma_2 <= Sigma_1/(1-gamma).

    gamma = (50/9) lambda_0/n with n = 2m. Decided by exact L D L^T on the covariances that the target's weights give.
    """
    one, two = (_reported_exactly(pair, s, prime=p) for s, p in zip(_both(target, pair), (False, True), strict=True))
    below = one[0] < pair.k and two[0] < pair.k
    yield tells(below and one[1] != two[1])
    if not below:
        return
    for _, sigma in (one, two):
        yield holds("a covariance is positive definite", inverse_or_none(sigma) is not None)
    allowed = ordered_stability_gamma(pair.lambda_0, 2 * pair.n) + target.rounding
    yield at_most(
        "least gamma with (1-gamma) Sigma_1 <= Sigma_2 <= Sigma_1/(1-gamma)",
        least_order_gamma(one[1], two[1], allowed),
        allowed,
    )


def _reported_exactly(pair: Pair, s: Side, *, prime: bool) -> tuple[int, fmpq_mat]:
    """Score and the second moment of the weights that the target reported, exactly."""
    rows = pair.rows_prime if prime else pair.rows
    return s.score, weighted_second_moment(rows, s.reported_weights)


@lemma(
    "Lemma 11, 22 (trace)",
    "adjacent covariances are close in trace norm",
    cases=crossing_rows,
    given=covariance_stage,
    needs=NEEDS,
    telling="both scores are below k and the covariances differ",
    least_telling=Fraction(1, 3),
    refuted_by=("weights_from_levels_0_to_k", "raw_rows_averaged"),
)
def covariances_are_close_in_trace_norm(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If both scores are below k, Sigma_1^{-1/2} Sigma_2 Sigma_1^{-1/2} - I has a small trace norm, and the other way round.

    At most (25/3) lambda_0/((1-gamma) n), with n = 2m.
    """
    one, two = (_reported_exactly(pair, s, prime=p) for s, p in zip(_both(target, pair), (False, True), strict=True))
    below = one[0] < pair.k and two[0] < pair.k
    yield tells(below and one[1] != two[1])
    if not below:
        return
    bound = covariance_step(pair.lambda_0, 2 * pair.n) * (1 + target.rounding)
    for sigma_1, sigma_2 in ((one[1], two[1]), (two[1], one[1])):
        within, norm = trace_norm_at_most(sigma_1, sigma_2, bound)
        if within:
            yield at_most("trace norm of the change", min(Fraction(norm), bound), bound)
        else:
            yield holds(f"trace norm {norm:.9g} at most {float(bound):.9g}", within)
