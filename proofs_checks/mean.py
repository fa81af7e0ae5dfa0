"""Section 4 as checks: cores, their families on adjacent data, weights, mean and score; and both stages together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from proofs_checks.datasets import (
    Matrix,
    Pair,
    adjacent_data,
    adjacent_points,
    as_array,
    crossing_points,
    mean_stage,
    pipeline_stage,
)
from proofs_checks.exact import exact_rows, float_fractions
from proofs_checks.lemma import Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.target import Target, counts_of, levels_of
from refimpl.definitions import is_degree_representative, is_weighted_core
from refimpl.linalg import (
    inverse_or_none,
    is_positive_semidefinite,
    mahalanobis_squared,
    squared_distances,
    to_fmpq,
    to_fraction,
    weighted_mean,
)
from refimpl.parameters import EDITIONS, Edition, Lambda_ell, ordered_stability_gamma

NEEDS = ("stable_mean",)


@dataclass(frozen=True)
class Side:
    """What a target computes on one data set, with the exact numbers that follow from its sets."""

    score: int
    sets: tuple[frozenset[int], ...]
    counts: list[int]
    weights: list[Fraction]
    reported_weights: list[Fraction]
    reported_mean: list[Fraction]


def _matrix(pair: Pair, *, prime: bool) -> Matrix:
    matrix = pair.covariance_prime if prime else pair.covariance
    assert matrix is not None, "the mean stage has two covariances"
    return matrix


def side(target: Target, pair: Pair, *, prime: bool) -> Side:
    """The mean stage of ``target`` on one of the two data sets of a pair, in its covariance."""
    matrix = as_array(_matrix(pair, prime=prime))
    x = pair.x_prime if prime else pair.x
    result = target.stable_mean(x, matrix, pair.lambda_0, pair.k, pair.reference)
    sets = levels_of(result, pair.levels)
    counts = counts_of(sets, target.edition.weight_levels(pair.k, None), pair.n)
    total = sum(counts)
    weights = [Fraction(c, total) if total else Fraction(0) for c in counts]
    return Side(int(result.score), sets, counts, weights, float_fractions(result.weights), float_fractions(result.mean))


def _both(target: Target, pair: Pair) -> tuple[Side, Side]:
    return side(target, pair, prime=False), side(target, pair, prime=True)


def _gamma_close(pair: Pair) -> None:
    mean_stage(pair)
    one, two = exact_rows(_matrix(pair, prime=False)), exact_rows(_matrix(pair, prime=True))
    keep = to_fmpq(1 - ordered_stability_gamma(pair.lambda_0, pair.n))
    require("(1-gamma) Sigma_1 <= Sigma_2", is_positive_semidefinite(two - one * keep))
    require("(1-gamma) Sigma_2 <= Sigma_1", is_positive_semidefinite(one - two * keep))


@lemma(
    "Lemma 42, 57",
    "the mean score moves by at most 2",
    cases=adjacent_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="the two scores differ",
    least_telling=Fraction(1, 4),
    refuted_by=("mean_scores_by_level_sizes", "degree_threshold_is_fixed", "mean_score_counts_every_other_row"),
)
def mean_score_sensitivity(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """For adjacent x, x' and gamma-close covariances, gamma = (50/9) lambda_0/n, the scores differ by at most 2."""
    one, two = _both(target, pair)
    yield tells(one.score != two.score)
    yield at_most("change of SCORE_2 between x and x'", abs(one.score - two.score), 2)
    for s in (one, two):
        missing = [pair.n - len(s.sets[ell]) + ell for ell in target.edition.score_levels(pair.k, None)]
        yield equal("SCORE_2 against its definition on the target's own sets", s.score, min(pair.k, *missing))


@lemma(
    "LargestCore",
    "each core holds exactly the rows with |R| - ell near reference rows",
    cases=adjacent_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="some core keeps some rows and not all",
    least_telling=Fraction(1, 3),
    refuted_by=("reference_is_ignored", "distance_threshold_doubled", "degree_threshold_is_halved"),
)
def cores_are_largest_cores(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """The core of level ell is the set of rows with at least |R| - ell reference rows within squared distance 2 Lambda_ell."""
    one = side(target, pair, prime=False)
    yield tells(any(0 < len(s) < pair.n for s in one.sets))
    inverse = inverse_or_none(exact_rows(_matrix(pair, prime=False)))
    assert inverse is not None, "the covariances of the case are positive definite"
    distances = squared_distances(exact_rows(pair.rows), inverse, pair.reference)
    for ell in range(pair.levels):
        limit = distances.within(2 * target.edition.distance_threshold(pair.lambda_0, pair.k, pair.n, ell))
        least = len(pair.reference) - target.edition.degree_allowance(ell)
        core = frozenset(i for i, row in enumerate(distances.numerators) if bisect_right(row, limit) >= least)
        yield at_most(f"rows of the core {ell} that have too few neighbours", len(one.sets[ell] - core), 0)
        yield at_most(f"rows with enough neighbours that the core {ell} lacks", len(core - one.sets[ell]), 0)


@lemma(
    "Lemma 40 (i)",
    "cores are nested",
    cases=adjacent_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="the sets differ between levels",
    least_telling=Fraction(1, 3),
    refuted_by=("level_sets_that_are_not_nested",),
)
def cores_are_nested(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """The core of level ell is contained in that of level ell' for ell <= ell'."""
    one = side(target, pair, prime=False)
    yield tells(len(set(one.sets)) > 1)
    for ell, (small, large) in enumerate(zip(one.sets, one.sets[1:], strict=False)):
        yield at_most(f"rows of the core {ell} missing from the core {ell + 1}", len(small - large), 0)


@lemma(
    "Lemma 40 (ii)",
    "cores of adjacent data are intertwined",
    cases=crossing_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="the cores of some level differ off i*",
    least_telling=Fraction(1, 3),
    refuted_by=("degree_threshold_is_fixed", "distance_threshold_does_not_grow"),
)
def cores_intertwine(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """S_ell minus i* lies in T_{ell+1}, and T_ell minus i* in S_{ell+1}, for adjacent x, x' and gamma-close covariances."""
    one, two = _both(target, pair)
    star = {pair.index}
    yield tells(any((s ^ t) - star for s, t in zip(one.sets, two.sets, strict=True)))
    for ell in range(pair.levels - 1):
        for small, large, what in ((one, two, "S_{} in T_{}"), (two, one, "T_{} in S_{}")):
            missing = len(small.sets[ell] - star - large.sets[ell + 1])
            yield at_most(f"rows other than i* that break {what.format(ell, ell + 1)}", missing, 0)


@lemma(
    "Lemma 39",
    "the mean weights move by at most 3/(n(1-k/n)^2) in l1 off i*",
    cases=crossing_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="both scores are below k and some count off i* differs",
    least_telling=Fraction(1, 4),
    refuted_by=("mean_weights_from_levels_0_to_k", "mean_weights_are_not_averaged", "mean_weights_do_not_sum_to_one"),
)
def mean_weights_are_stable(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If both scores are below k, sum_{i != i*} |w_i - w'_i| <= 3/(n (1-k/n)^2), and w_i*, w'_i* <= 1/(n-k)."""
    one, two = _both(target, pair)
    below = one.score < pair.k and two.score < pair.k
    others = [i for i in range(pair.n) if i != pair.index]
    yield tells(below and any(one.counts[i] != two.counts[i] for i in others))
    for s in (one, two):
        for reported, exact in zip(s.reported_weights, s.weights, strict=True):
            if reported != exact:
                yield equal(
                    "a reported weight against its sets", reported, exact, rounded=True, scale=Fraction(1, pair.n)
                )
    if not below:
        return
    move = sum(abs(one.reported_weights[i] - two.reported_weights[i]) for i in others)
    share = 1 - Fraction(pair.k, pair.n)
    yield at_most("l1 change of the weights off i*", move, Fraction(3, pair.n) / share**2, rounded=True)
    for s in (one, two):
        yield at_most("the weight of i*", s.reported_weights[pair.index], 1 / (pair.n * share), rounded=True)


def _representable(pair: Pair) -> None:
    _gamma_close(pair)
    last = Lambda_ell(pair.lambda_0, pair.n, 2 * pair.k)
    require("n > 2 k lambda_2k", pair.n > 2 * pair.k * pair.lambda_0 * Fraction(5, 4) and last > 0)


@lemma(
    "Lemma 38",
    "the mean weights are a weighted core",
    cases=adjacent_points,
    given=_representable,
    needs=NEEDS,
    telling="the score is below k, |R| > 6k and R is degree-representative",
    least_telling=Fraction(1, 5),
    refuted_by=(
        "printed",
        "degree_threshold_is_halved",
        "distance_threshold_doubled",
        "distance_threshold_doubled_twice",
        "constant_target",
        "zero_mean",
    ),
)
def mean_weights_are_a_core(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If SCORE < k, |R| > 6k and R is representative, the weights are an (n/2+1, Lambda_2k, Sigma)-weighted core w.r.t. [n].

    PRINTED counts neighbours within 4 Lambda_2k in Definition 33, REPAIRED within 2 Lambda_2k, the radius of Definition 35.
    """
    one = side(target, pair, prime=False)
    matrix, size = _matrix(pair, prime=False), len(pair.reference)
    representative = size > 6 * pair.k and is_degree_representative(
        exact_rows(pair.rows), exact_rows(matrix), pair.lambda_0, pair.k, pair.reference, edition=target.edition
    )
    yield tells(one.score < pair.k and representative)
    for reported, exact in zip(one.reported_weights, one.weights, strict=True):
        if reported != exact:
            yield equal("a reported weight against its sets", reported, exact, rounded=True, scale=Fraction(1, pair.n))
    mean = weighted_mean(exact_rows(pair.rows), one.reported_weights)
    size_of_x = max(abs(v) for row in pair.rows for v in row)
    for reported, exact in zip(one.reported_mean, mean, strict=True):
        yield equal("a coordinate of the mean against its weights", reported, exact, rounded=True, scale=size_of_x)
    if one.score < pair.k and representative:
        last = target.edition.distance_threshold(pair.lambda_0, pair.k, pair.n, 2 * pair.k)
        core = is_weighted_core(
            exact_rows(pair.rows), one.weights, Fraction(pair.n, 2) + 1, last, exact_rows(matrix), range(pair.n)
        )
        yield holds("the weights are an (n/2+1, Lambda_2k)-weighted core with respect to [n]", core)


def _reference_serves(edition: Edition, pair: Pair) -> bool:
    """What Lemma 13 asks of R: REPAIRED 4k+2 indices, PRINTED more than 6k that are degree-representative for x and x'."""
    if edition is not EDITIONS["PRINTED"]:
        return len(pair.reference) >= 4 * pair.k + 2
    sides = ((pair.rows, False), (pair.rows_prime, True))
    return len(pair.reference) > 6 * pair.k and all(
        is_degree_representative(
            exact_rows(rows),
            exact_rows(_matrix(pair, prime=prime)),
            pair.lambda_0,
            pair.k,
            pair.reference,
            edition=edition,
        )
        for rows, prime in sides
    )


@lemma(
    "Lemma 13, 34",
    "the mean moves little in Mahalanobis norm",
    cases=crossing_points,
    given=_gamma_close,
    needs=NEEDS,
    telling="both scores are below k, |R| >= 4k+2 and the means differ",
    least_telling=Fraction(1, 3),
    refuted_by=("raw_rows_averaged", "distance_threshold_doubled", "distance_threshold_doubled_twice"),
)
def mean_is_stable(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If both scores are below k and |R| >= 4k+2, |mu - mu'|^2 is at most C lambda_0/((1-gamma)^{2k+1} (1-k/n)^p n^2).

    In the norm of either covariance.
    REPAIRED: C = 32, p = 2, for any fixed R. PRINTED: C = 25, p = 4, for a degree-representative R of more than 6k.
    """
    one, two = _both(target, pair)
    applies = one.score < pair.k and two.score < pair.k and _reference_serves(target.edition, pair)
    yield tells(applies and one.reported_mean != two.reported_mean)
    if not applies:
        return
    move = exact_rows((tuple(u - v for u, v in zip(one.reported_mean, two.reported_mean, strict=True)),))
    bound = target.edition.mean_move_squared(pair.k, pair.lambda_0, pair.n)
    for prime in (False, True):
        inverse = inverse_or_none(exact_rows(_matrix(pair, prime=prime)))
        assert inverse is not None, "the covariances of the case are positive definite"
        yield at_most(
            "squared Mahalanobis move of the mean",
            to_fraction(mahalanobis_squared(move, inverse)[0]),
            bound,
            rounded=True,
        )


def pipeline_scores(target: Target, pair: Pair, *, prime: bool) -> tuple[int, int]:
    """SCORE_1 and SCORE_2 of both stages, the mean stage in the covariance that the first one computed."""
    x = pair.x_prime if prime else pair.x
    covariance = target.stable_covariance(x, pair.lambda_0, pair.k)
    mean = target.stable_mean(x, covariance, pair.lambda_0, pair.k, pair.reference)
    return int(covariance.score), int(mean.score)


@lemma(
    "Lemma 9",
    "the larger of the two scores moves by at most 2",
    cases=adjacent_data,
    given=pipeline_stage,
    needs=("stable_covariance", "stable_mean"),
    telling="the larger scores differ",
    least_telling=Fraction(1, 4),
    refuted_by=(
        "scores_by_level_sizes",
        "score_of_the_first_level_alone",
        "score_is_not_capped",
        "pairs_with_the_next_row",
    ),
)
def larger_score_sensitivity(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """For adjacent x, x' with floor(n/2) >= 10 k lambda_0, max{SCORE_1, SCORE_2} moves by at most 2, and so does SCORE_1."""
    (one_1, one_2), (two_1, two_2) = (pipeline_scores(target, pair, prime=p) for p in (False, True))
    yield tells(max(one_1, one_2) != max(two_1, two_2))
    yield at_most("change of SCORE_1", abs(one_1 - two_1), 2)
    yield at_most("change of max{SCORE_1, SCORE_2}", abs(max(one_1, one_2) - max(two_1, two_2)), 2)
    for score in (one_1, one_2, two_1, two_2):
        yield holds("a score lies in 0..k", 0 <= score <= pair.k)
