"""SHARP's statements: the checks against other ways to compute the same, and what they show about tightness."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import refimpl
import refimpl.curves
from proofs_checks import sharp, sharp_curves
from proofs_checks.audit import LEMMAS, PROFILES, examine, run_check, targets_for  # type: ignore[attr-defined]  # re-exported
from proofs_checks.divergence import ball_of
from proofs_checks.endtoend import mechanism_divergence
from proofs_checks.lemma import CASES, Violation
from proofs_checks.paper import SHARP_LEDGER, grades, resolve, verdict
from proofs_checks.report import print_ledger
from proofs_checks.sharp import PAIRS, MomentPair, Plot, covariance_change, mean_move, moments_of, row_share
from proofs_checks.sharp_curves import (
    DRAWS_LINE,
    LEARNER_LINE,
    MEAN_LINE,
    MEAN_PLANE,
    GaussianPair,
    Planned,
    ReleasePair,
    joint_bound,
    joint_curve,
    release_law,
)
from proofs_checks.target import load_target
from refimpl import plan as plans
from refimpl.parameters import SHARP

SHARP_MD = (Path(sharp.__file__).parent / "SHARP.md").read_text(encoding="utf-8")
CHECKS = [check for check in LEMMAS.values() if check.is_about_sharp]
EXACT = load_target("refimpl", SHARP)


# The ledger and the text ----------------------------------------------------------------------------------------------


def test_every_statement_of_the_text_has_a_row_and_a_check_and_the_other_way_round() -> None:
    stated = re.findall(r"^\*\*(S\d+) \(", SHARP_MD, re.MULTILINE)
    assert sorted(stated, key=lambda item: int(item[1:])) == [row.item for row in SHARP_LEDGER]
    of_checks = {item for check in CHECKS for item in re.findall(r"S\d+", check.item)}
    assert of_checks == set(stated)


@pytest.mark.parametrize("row", SHARP_LEDGER, ids=lambda row: row.item)
def test_every_row_is_whole(row: Any) -> None:
    assert row.says
    assert row.note
    assert resolve(row.where) is not None
    assert row.checks
    assert set(row.required) <= grades(row)
    paragraph = SHARP_MD.split(f"**{row.item} (")[1].split("\n**S")[0]
    assert f"`{row.checks[0]}`" in paragraph, "the text does not name its check"


def test_the_text_names_no_check_that_does_not_exist() -> None:
    named = set(re.findall(r"`(sharp_[a-z_]+)`", SHARP_MD))
    assert named == {check.name for check in CHECKS}


def test_the_statements_are_about_sharp_whatever_edition_is_asked_for() -> None:
    for check in CHECKS:
        assert [t.edition for t in targets_for(check, [load_target("refimpl")])] == [SHARP]
    paper = LEMMAS["good_subsets_are_nested"]
    assert run_check(paper, EXACT, PROFILES["quick"]).verdict == "not run"


def test_the_chain_is_complete() -> None:
    """Every row has held, in this process, on the specification: what makes SHARP fit to be the default edition."""
    outcomes = [run_check(check, t, PROFILES["quick"]) for check in CHECKS for t in targets_for(check, [EXACT])]
    console = Console(file=StringIO(), width=200)
    assert print_ledger(SHARP_LEDGER, outcomes, console, "SHARP")
    assert {verdict(row, "SHARP", outcomes) for row in SHARP_LEDGER} == {"held"}
    assert not print_ledger(SHARP_LEDGER, outcomes[1:], console, "SHARP"), "a row whose check has not run is not held"


# Cases ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy", [sharp.moment_pairs, sharp.mapped_moments, sharp_curves.gaussian_pairs, sharp_curves.release_pairs]
)
def test_cases_survive_their_json(strategy: Any) -> None:
    @settings(max_examples=10, deadline=None)
    @given(strategy())
    def same(case: Any) -> None:
        again = json.loads(json.dumps(case.to_json()))
        assert CASES[type(case).__name__].from_json(again) == case

    same()


@settings(max_examples=25, deadline=None)
@given(sharp.crossing_moments())
def test_an_affine_map_hides_the_structure_and_changes_nothing(pair: MomentPair) -> None:
    moved = MomentPair(
        tuple(tuple(4 * v + 3 for v in row) for row in pair.rows),
        pair.index,
        tuple(4 * v + 3 for v in pair.row),
        pair.lambda_0,
        pair.k,
        pair.window,
    )
    one, two = moments_of(EXACT, pair), moments_of(EXACT, moved)
    assert (one.sets, one.score) == (two.sets, two.score)


def test_a_group_enters_at_the_level_that_it_was_solved_for() -> None:
    plot = Plot(1, 4, 3, Fraction(5, 2), 33, ("bulk", 0), ("zero", 0), ((3, 5, 0, 1, 0),))
    pair = plot.pair()
    result = refimpl.stable_moments(pair.x, pair.lambda_0, pair.k, pair.window)
    assert [result.entry_level[i] for i in (1, 2, 3)] == [5, 5, 5]
    after = refimpl.stable_moments(pair.x_prime, pair.lambda_0, pair.k, pair.window)
    assert [after.entry_level[i] for i in (1, 2, 3)] == [6, 6, 6]


# Bounds: two independent computations ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 9), st.integers(0, 40), st.integers(0, 8), st.data())
def test_the_exact_bounds_are_those_of_the_plan(k: int, window: int, more: int, others: int, data: Any) -> None:
    lambda_0 = data.draw(st.sampled_from([Fraction(2), Fraction(5, 2), Fraction(50)]))
    n = math.ceil((2 * k + window + more + 1) * lambda_0)
    r, level = data.draw(st.integers(0, k - 1)), data.draw(st.integers(k, k + window - 1))
    assert row_share(n, lambda_0, k, window, level, r) == plans.row_share(n, lambda_0, k, window, level, r)
    mine = covariance_change(n, lambda_0, k, window, r, others)
    assert mine == plans.covariance_change(n, lambda_0, k, window, r, others)
    if n / lambda_0 - k - window - r >= 0:
        closed = 1 / (n / lambda_0 - k) + Fraction(others, window) / (
            n / lambda_0 - (k + window - 1) - r * (1 - Fraction(1, window))
        )
        assert mine == closed


def test_the_move_of_the_mean_is_that_of_the_plan_or_less() -> None:
    for z in range(10):
        low, high = plans.mean_move(100, Fraction(3), 11, 10, z)
        assert float(mean_move(100, Fraction(3), 11, 10, z)) <= float(high) * (1 + 1e-12)
        assert float(mean_move(100, Fraction(3), 11, 10, z)) >= float(low) * (1 - 0.05)


@pytest.mark.parametrize("e", ["1", "1/4", "1/20", "1/50", "-3/10"])
@pytest.mark.parametrize("d", [1, 2])
def test_the_closed_forms_agree_with_the_contour_integrals(e: str, d: int) -> None:
    with ctx.workprec(192):
        numbers = ball_of(Fraction(e)), ball_of(Fraction(1, 4)), ball_of(Fraction(1, 40))
        mine = joint_curve(*numbers, d)
        (other,) = refimpl.curves.certified_hockey_stick(
            [numbers[0]], [numbers[1]], [numbers[2]], 0, refimpl.curves.cases_of(d, mean=True, draws=False)
        )
    # Between the ranges of S16 the grid of angles here is the finer one.
    between = d > 1 and e == "1/20"
    assert float(mine) == pytest.approx(float(other), rel=1e-3 if between else 1e-10)
    assert not between or mine < other


def test_j_at_a_small_angle_tends_to_its_closed_form() -> None:
    with ctx.workprec(192):
        e, move, q = arb(1), arb("0.25"), arb("0.05")
        closed, turned = (
            joint_bound(e, move, q, turn, rules=sharp_curves.SHARP_RULES) for turn in (arb(0), arb("1e-3"))
        )
    assert float(turned) == pytest.approx(float(closed), rel=1e-4)


# The mechanism --------------------------------------------------------------------------------------------------------


def _ratio(planned: Planned, outliers: int, level: int, star: tuple[str, int], other: tuple[str, int]) -> float:
    plan = planned.plan()
    pair = ReleasePair(planned, outliers, level, star, other).pair(plan)
    laws = [release_law(EXACT, pair, plan, prime=prime) for prime in (False, True)]
    both = (mechanism_divergence(planned.epsilon, *laws), mechanism_divergence(planned.epsilon, *laws[::-1]))
    return max(float(value.upper / planned.delta) for value in both)


def test_the_exact_delta_reaches_the_claim_and_does_not_pass_it() -> None:
    last = _ratio(MEAN_LINE, MEAN_LINE.plan().k - 1, 1 << 20, ("level", 0), ("huge", 0))
    first = _ratio(MEAN_LINE, 0, 0, ("level", 0), ("opposite", -1))
    assert 0.999 < last <= 1
    assert 0.97 < first <= 1


@pytest.mark.parametrize("planned", [DRAWS_LINE, LEARNER_LINE], ids=lambda planned: planned.task)
def test_the_exact_delta_of_draws_and_of_the_learner(planned: Planned) -> None:
    assert plans.verify_plan(
        planned.plan(), planned.n, planned.d, planned.epsilon, planned.delta, planned.lambda_0
    ).holds
    ratios = [_ratio(planned, j, 1 << 20, ("level", 0), ("huge", 0)) for j in (0, planned.plan().k - 1)]
    assert 0.9 < max(ratios) <= 1


def test_the_exact_delta_in_the_plane_where_the_loss_has_two_scales() -> None:
    """The change has eigenvalues -6e-3 and 1e-6, and what they give to the loss nearly cancels far out."""
    ends = ("level", 0), ("opposite", -1)
    assert 0.9 < _ratio(MEAN_PLANE, 0, 0, *ends) <= 1
    assert 0.9 < _ratio(MEAN_PLANE, 2, 0, *ends) <= 1


def test_a_law_that_is_steeper_than_the_plan_is_caught_end_to_end() -> None:
    rules = sharp_curves.SHARP_FAULTS["sharp: the law falls twice as fast"]
    target = type("Faulty", (), {"stable_moments": staticmethod(refimpl.stable_moments), "sharp_rules": rules})()
    case = ReleasePair(MEAN_LINE, 0, 0, ("level", 0), ("huge", 0))
    with pytest.raises(Violation):
        examine(LEMMAS["sharp_mechanism_is_private"], sharp_curves.Target("faulty", target, SHARP), case)


# Tightness ------------------------------------------------------------------------------------------------------------


def test_the_move_of_the_mean_is_nearly_attained() -> None:
    pair = PAIRS["tight mean"]()
    one, two = moments_of(EXACT, pair), moments_of(EXACT, pair, prime=True)
    bound = mean_move(pair.n, pair.lambda_0, pair.k, pair.window, min(one.score, two.score))
    move = one.distance_squared([u - v for u, v in zip(one.mean, two.mean, strict=True)])
    assert 0.98 < math.sqrt(move) / float(bound) <= 1


def test_the_loss_of_a_row_that_enters_at_level_k_is_attained() -> None:
    found = examine(LEMMAS["sharp_loss_is_bounded"], EXACT, PAIRS["late"]()).tightest
    assert found is not None
    assert 0.999 < (found.tightness or 0) <= 1


@pytest.mark.parametrize("axis", [0, 1])
def test_split_spectra_are_below_the_extremal_one(axis: int) -> None:
    shares = [(1, 1), (5, 1), (20, 1)]
    check = LEMMAS["sharp_extremal_spectrum"]
    ratios = []
    for share in shares:
        up, down = (share, (1,)) if axis == 0 else ((1,), share)
        case = GaussianPair(Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), up, down, 0, (1, 0, 0), 20)
        found = examine(check, EXACT, case).tightest
        assert found is not None
        ratios.append(found.tightness or 0.0)
    assert ratios == sorted(ratios)
    assert ratios[-1] < 1
