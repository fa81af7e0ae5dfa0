"""How close the bounds come: records that are recomputed, families that grow to their limits, climbs that refute nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from proofs_checks import vectors
from proofs_checks.datasets import Pair
from proofs_checks.lemma import LEMMAS, Violation
from proofs_checks.target import load_target
from proofs_checks.tightness import (
    BOUNDS,
    GAMMA,
    MOVES,
    climb,
    climb_again,
    goodness_family,
    mean_family,
    mean_score_family,
    mean_weights_family,
    order_family,
    pipeline_score_family,
    ratio,
    records,
    score_family,
    trace_norm_family,
)
from refimpl.parameters import PRINTED

EXACT, FAST = load_target("refimpl"), load_target("fastimpl")
PINNED = {
    "record-lemma-9": pipeline_score_family(2),
    "record-lemma-32": score_family(2),
    "record-lemma-11-order": order_family(40),
    "record-lemma-11-trace": trace_norm_family(20),
    "record-lemma-25": goodness_family(5),
    "record-lemma-39": mean_weights_family(10, 1600),
    "record-lemma-13": mean_family(10, 1600),
}


def grows_to(limit: Fraction, values: list[float]) -> bool:
    """Whether the values rise, stay below the limit and halve what is missing, or nearly, at each step: k doubles."""
    gaps = [float(limit) - value for value in values]
    return all(0 < later < 0.6 * sooner for sooner, later in pairwise(gaps))


def test_every_pinned_record_is_that_of_its_family() -> None:
    ids = {pair["id"] for pair in vectors.load()["pairs"] if pair["id"].startswith("record")}
    assert ids == set(PINNED)
    for name, pair in PINNED.items():
        assert Pair.from_json(vectors.pair(name)) == pair


def test_records_are_computed_and_none_refutes() -> None:
    found = records(EXACT)
    assert [(record.check, record.claim) for record in found] == [(bound.check, bound.claim) for bound in BOUNDS]
    for bound, record in zip(BOUNDS, found, strict=True):
        assert 0.75 < record.ratio <= bound.limit, record
        assert record.ratio == 1 or not bound.stops.startswith("nothing"), record


def test_the_record_is_a_pinned_pair_wherever_pairs_are_searched() -> None:
    for bound, record in zip(BOUNDS, records(FAST), strict=True):
        if bound.starts():
            assert bound.check in vectors.pair(record.case)["checks"]


def test_the_order_grows_to_160_over_63() -> None:
    check = LEMMAS["covariances_are_close_in_order"]
    values = [ratio(check, FAST, order_family(k, late=True), GAMMA) for k in (10, 20, 40)]
    assert grows_to(Fraction(160, 63) / Fraction(25, 9), values)


@pytest.mark.parametrize(("k", "reaches"), [(91, False), (92, True), (100, True)])
def test_the_order_reaches_the_gamma_of_e11(k: int, reaches: bool) -> None:
    """5.003 lambda_0/n, by a family and so not as its limit: the first k of it is 92."""
    found = ratio(LEMMAS["covariances_are_close_in_order"], FAST, order_family(k), GAMMA)
    assert (found * 50 / 9 >= 5.003) is reaches


def test_the_trace_norm_grows_to_230_over_63() -> None:
    check = LEMMAS["covariances_are_close_in_trace_norm"]
    values = [ratio(check, FAST, trace_norm_family(k, late=True), "trace norm") for k in (5, 10, 20)]
    assert grows_to(Fraction(230, 63) / Fraction(25, 6), values)


def test_the_goodness_grows_to_10_over_7_and_attains_its_bound() -> None:
    check, values = LEMMAS["covariance_weights_are_good"], []
    for k in (2, 3, 5, 10, 20):
        pair = goodness_family(k)
        assert pair.n == 10 * k * pair.lambda_0
        assert ratio(check, EXACT, pair, "largest squared norm") == 1
        values.append(EXACT.edition.goodness_factor(k, pair.lambda_0, pair.n) / pair.lambda_0)
    assert all(sooner < later < Fraction(10, 7) for sooner, later in pairwise(values))
    assert Fraction(10, 7) - values[-1] < Fraction(1, 50)


def test_the_mean_moves_by_32_in_the_limit() -> None:
    check = LEMMAS["mean_is_stable"]
    values = [ratio(check, FAST, mean_family(k, 20 * k * k), "squared") for k in (4, 8, 16)]
    assert grows_to(Fraction(1), values)
    large = [ratio(check, FAST, mean_family(4, 40 * n), "squared") for n in (4, 8, 16, 32)]
    assert grows_to(Fraction(7, 8) ** 2, large)


def test_the_weights_move_by_their_bounds_in_the_limit() -> None:
    mean, covariance = LEMMAS["mean_weights_are_stable"], LEMMAS["covariance_weights_are_stable"]
    values = [ratio(mean, FAST, mean_weights_family(k, 20 * k * k), "l1 change") for k in (4, 8, 16)]
    assert grows_to(Fraction(1), values)
    for k in (2, 4, 8):
        pair = order_family(k, late=False)
        assert ratio(covariance, EXACT, pair, "l1 change") == pytest.approx((k - 1) / k, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("covariance_score_sensitivity", score_family),
        ("larger_score_sensitivity", pipeline_score_family),
        ("mean_score_sensitivity", mean_score_family),
    ],
)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_scores_do_move_by_2(name: str, family: Callable[[int], Pair], k: int) -> None:
    assert ratio(LEMMAS[name], EXACT, family(k), "change of") == 1


def test_a_false_claim_is_raised_and_not_a_ratio() -> None:
    with pytest.raises(Violation, match="largest squared norm"):
        ratio(LEMMAS["covariance_weights_are_good"], load_target("refimpl", PRINTED), goodness_family(12))


def test_a_climb_refutes_what_is_false() -> None:
    """25/18 in Lemma 25 holds for rows that are well below their threshold, and fails on the way up."""
    check, target = LEMMAS["covariance_weights_are_good"], load_target("refimpl", PRINTED)
    tied = goodness_family(12)
    start = replace(tied, rows=tuple((min(row[0], Fraction(31, 16)),) for row in tied.rows))
    assert ratio(check, target, start, "largest") < 0.99
    with pytest.raises(Violation, match="largest squared norm"):
        climb(check, target, start, 200, 0, claim="largest", most_rows=400, most_k=12)


def test_a_climb_is_repeatable_and_climbs() -> None:
    check, start = LEMMAS["covariances_are_close_in_order"], order_family(2, late=True)
    one, two = (climb(check, EXACT, start, 120, 3, claim=GAMMA) for _ in range(2))
    assert one == two
    assert ratio(check, EXACT, start, GAMMA) + 0.05 < one.ratio == ratio(check, EXACT, one.case, GAMMA) < 1


@pytest.mark.parametrize(
    "start", [order_family(3), mean_family(2, 40), pipeline_score_family(2)], ids=lambda p: p.stage
)
def test_moves_make_pairs(start: Pair) -> None:
    rng, pair = random.Random(0), start
    for _ in range(300):
        moved: Any = rng.choice(MOVES)(pair, rng)
        assert 0 <= moved.index < moved.n
        assert all(0 <= i < moved.n for i in moved.reference)
        assert len({*moved.reference}) == len(moved.reference)
        assert {len(row) for row in (*moved.rows, moved.row)} == {start.d}
        pair = moved if moved.n < 200 else start


def test_every_bound_is_climbed_on() -> None:
    found = climb_again(FAST, 0, steps=3)
    assert set(found) == {(bound.check, bound.claim) for bound in BOUNDS if bound.starts()}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_no_climb_refutes(seed: int) -> None:
    for reached in climb_again(EXACT, 150, seed).values():
        assert reached.ratio <= 1
