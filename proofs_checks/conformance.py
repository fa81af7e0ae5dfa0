"""Equals refimpl: the sets, scores and counts of a target against the specification, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

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
from proofs_checks.lemma import Claim, Telling, at_most, equal, lemma, tells
from proofs_checks.mean import pipeline_scores
from proofs_checks.mean import side as mean_side
from proofs_checks.privacy import SMALL_FAMILY, SURE_FAIL, OutlierFamily, is_a_family, mean_families, run_private_mean
from proofs_checks.target import Target

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
    coins = refimpl.draw_mean_coins(parameters, np.random.default_rng(case.seed))
    x = case.pair(parameters.n, parameters.k).x
    mine, theirs = (run_private_mean(t, x, parameters, coins) for t in (target, _reference(target)))
    yield tells(theirs is not None)
    yield equal("released (1) or FAIL (0)", int(mine is not None), int(theirs is not None))
    if mine is not None and theirs is not None:
        size = max(abs(float(v)) for v in x.ravel())
        for a, b in zip(mine, theirs, strict=True):
            yield at_most("distance of the releases", abs(a - b), Fraction(size) / (1 << 50), rounded=True, scale=size)
