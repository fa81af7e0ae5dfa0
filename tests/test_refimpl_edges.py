"""Edges of refimpl that a run of mutation testing over all its functions found untested (tests/mutants/README.md)."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from dataclasses import MISSING, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import refimpl
from refimpl import parameters, results
from refimpl import plan as planning
from refimpl.linalg import SquaredDistances
from refimpl.parameters import (
    EDITIONS,
    PRINTED,
    REPAIRED,
    SHARP,
    Lambda_ell,
    as_rational,
    check_request,
    covariance_step,
    passes_size_gate,
)
from refimpl.plan import covariance_change
from refimpl.ptr import pass_probability
from refimpl.reals import Enclosure

editions = pytest.mark.parametrize("edition", EDITIONS.values(), ids=EDITIONS)

# Parameters -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [20, 21, 25, 5000])
def test_an_exponent_of_many_digits_is_too_large_to_be_read(digits: int) -> None:
    for sign in ("", "+", "-"):
        assert parameters._decimal_exponent(f"1e{sign}{'9' * digits}") > 10_000
        with pytest.raises(ValueError, match="v must have a decimal exponent of at most 10000"):
            as_rational("v", f"1e{sign}{'9' * digits}")


@pytest.mark.parametrize("delta", [0, 1, "3/2", 2, 3])
@editions
def test_delta_is_a_probability_in_every_edition(edition: Any, delta: Any) -> None:
    with pytest.raises(ValueError, match=rf"^delta must be in \(0, 1\), got {delta}$"):
        check_request(1, delta, 2, edition)


@pytest.mark.parametrize("edition", [PRINTED, REPAIRED], ids=lambda e: e.name)
def test_no_lambda_0_of_the_paper_is_a_word(edition: Any) -> None:
    with pytest.raises(ValueError, match=r"^lambda_0 must be a number, got 'gaussian'$"):
        check_request(1, "1/50", "gaussian", edition)


@pytest.mark.parametrize("lambda_0", [Fraction(1), Fraction(7, 3), Fraction(50), Fraction(1000, 7)])
@pytest.mark.parametrize("step", [Fraction(1, 2), Fraction(1, 10), Fraction(1, 333)])
def test_the_least_stable_n_is_the_least_whose_covariance_moves_so_little(lambda_0: Fraction, step: Fraction) -> None:
    least = parameters._least_stable_n(lambda_0, lambda _: Enclosure.point(step))
    assert covariance_step(lambda_0, least) <= step < covariance_step(lambda_0, least - 1)


def test_the_least_stable_n_of_a_tie() -> None:
    # (25/3) lambda_0/step + (50/9) lambda_0 is the integer 1550 for lambda_0 = 9, step = 1/20.
    assert covariance_step(Fraction(9), 1550) == Fraction(1, 20)
    assert parameters._least_stable_n(Fraction(9), lambda _: Enclosure.point(Fraction(1, 20))) == 1550


@pytest.mark.parametrize("share", ["1", "1001/1000", "3/2", "2", "7"])
def test_nothing_exceeds_the_whole(share: str) -> None:
    assert parameters._is_rare(Fraction(share), 40, 30, Fraction(1, 10**400))


def test_a_largest_lambda_0_of_1_is_none_where_so_many_columns_need_more() -> None:
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1/10", "edition": PRINTED}
    n = 20 * refimpl.mean_parameters(0, 1, **asked, lambda_0=1).k
    assert [refimpl.largest_lambda_0(n, **asked, d=d) for d in (None, 1, 2)] == [1, 1, 0]


@pytest.mark.parametrize(("ratio", "largest"), [("600", 1), ("299", "2.006688"), ("600.001", 0), ("1200", 0)])
def test_a_largest_lambda_0_of_1_is_one(monkeypatch: pytest.MonkeyPatch, ratio: str, largest: Any) -> None:
    monkeypatch.setattr(planning, "least_ratio", lambda *_: Fraction(ratio))
    assert parameters._largest_planned_lambda_0(600, 2, Fraction(1), Fraction(1, 50), "mean") == Fraction(largest)


@pytest.mark.parametrize(("noise", "serves"), [(-1, False), (0, False), (1, True)])
def test_what_is_released_has_noise(noise: int, serves: bool) -> None:
    law, budget = (Fraction(1), Fraction(0)), (Fraction(1), Fraction(1, 50))
    numbers: Any = (SHARP, 60, 1, *budget, Fraction(2), *budget, 1)
    mean: Any = (*numbers, 0, Fraction(noise), 60, 3, law)
    draws: Any = (*numbers, noise, 60, 3, law)
    assert refimpl.passes_gates(refimpl.MeanParameters(*mean)) is serves
    assert refimpl.passes_gates(refimpl.CovarianceParameters(*draws)) is serves


def test_a_row_without_a_partner_does_not_help_the_size_gate() -> None:
    for edition, pairs in ((REPAIRED, True), (PRINTED, False)):
        made = refimpl.mean_parameters(0, 1, epsilon=1, delta="1/10", lambda_0=1, edition=edition)
        for n in (20 * made.k, 20 * made.k + 1):  # at the lambda_0 of which n = 20 k lambda_0
            passes = not (pairs and n % 2)
            assert passes_size_gate(replace(made, n=n, lambda_0=Fraction(n, 20 * made.k))) is passes


def test_one_stage_has_no_reference_points() -> None:
    law, budget = (Fraction(1), Fraction(1, 7), Fraction(0)), (Fraction(1), Fraction(1, 50), Fraction(2))
    for plan in (None, planning.Plan(2, 3, law, Fraction(1), 5)):
        record = parameters._mean_record(60, 1, parameters._Planned(*budget, None, "mean", plan))
        assert record.reference_size == 0
        assert record.noise_scale == record.k / 2 == (0 if plan is None else 1)


@editions
def test_one_row_can_move_the_score_by_its_sensitivity(edition: Any) -> None:
    # Without the row that moves, 19 of 20 equal rows have norms 20/19, which is lambda_1.
    together, apart = [[1]] * 20, [[1]] * 19 + [[9]]
    scores = [refimpl.stable_second_moment(y, 1, 2, edition=edition, window=1).score for y in (together, apart)]
    assert scores == [0, edition.sensitivity]


# Signatures and records -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(refimpl.__path__)])
def test_every_argument_may_be_given_by_its_name(name: str) -> None:
    module = importlib.import_module(f"refimpl.{name}")
    own = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    given = [p for f in own for p in inspect.signature(f).parameters.values()]
    assert [p for p in given if p.kind is inspect.Parameter.POSITIONAL_ONLY] == []
    assert own or name == "results"


@pytest.mark.parametrize(
    "kind", [*(vars(results)[name] for name in results.__all__ if name != "TestCoin"), SquaredDistances]
)
def test_records_that_hold_arrays_are_equal_only_if_they_are_one(kind: Any) -> None:
    record = kind(*(np.zeros(2) for field in fields(kind) if field.default is MISSING))
    assert record == record  # noqa: PLR0124 - what is asked here
    assert record != replace(record)
    assert len({record, replace(record)}) == 2


def test_records_of_the_paper_s_editions_do_not_show_what_only_sharp_has() -> None:
    for make in (refimpl.mean_parameters, refimpl.covariance_parameters):
        shown = repr(make(0, 1, epsilon=1, delta="1/10", lambda_0=1, edition=REPAIRED))
        assert "lambda_0=Fraction(1, 1), " in shown
        assert [name for name in ("window", "pass_probabilities", "assumption") if name in shown] == []


# Plans ----------------------------------------------------------------------------------------------------------------


def verdict_on(law: tuple[Any, ...], delta: Any = "1/50", noise_scale: Any = "1/1000") -> Any:
    """The verification of a release of the mean of 6000 rows by this law."""
    made = planning.Plan(len(law) - 1, 3, tuple(map(Fraction, law)), Fraction(noise_scale))
    return planning.verify_plan(made, 6000, 1, 1, Fraction(delta), 2)


def test_a_plan_that_meets_a_condition_with_equality_holds() -> None:
    verdict = verdict_on((1, "3/4", 0), delta="3/4", noise_scale=1)
    assert verdict.holds
    assert verdict.worst_ratio == verdict.loss_ratios[1] == math.nextafter(1, 2)  # p_1/delta = 1, rounded up
    # Nothing is released at p_2 = 0.
    assert verdict.gain_ratios[1] == pytest.approx((1 - math.e / 4) / 0.75, rel=1e-12)


@pytest.mark.parametrize("first", ["1/2", "99/100", "101/100", "2"])
def test_a_law_begins_at_1(first: str) -> None:
    assert verdict_on((first, "1/100", 0)).reason == "a plan needs pass_probabilities from p_0 = 1 to p_k = 0"


def test_scores_with_equal_probabilities_do_not_move_the_others() -> None:
    """The ratios of the later scores are those of a law that falls a little where the other one does not."""
    little = 1 - Fraction(1, 1 << 60)
    equal, falling = verdict_on((1, 1, "3/4", "5/8", 0)), verdict_on((1, little, "3/4", "5/8", 0))
    assert equal.loss_ratios == pytest.approx(falling.loss_ratios, rel=1e-12)
    assert equal.gain_ratios == pytest.approx(falling.gain_ratios, rel=1e-12)
    assert len({*equal.loss_ratios, *equal.gain_ratios}) == 5


def test_each_score_has_its_own_move_and_change(monkeypatch: pytest.MonkeyPatch) -> None:
    n, lambda_0, k, window, c = 600, Fraction(2), 4, 3, Fraction(1, 7)
    made = planning.Plan(k, window, (Fraction(1), *[Fraction(1, 2)] * (k - 1), Fraction(0)), c)
    given: list[Any] = []
    monkeypatch.setattr(planning, "certified_hockey_stick", lambda *numbers: given.extend(numbers))
    with ctx.workprec(128):
        planning._curve(made, n, 1, lambda_0, [(z, arb(1)) for z in range(k - 1)])
    _, moves, changes, samples, _ = given
    assert samples == 0
    for z, (move, change) in enumerate(zip(moves, changes, strict=True)):
        lower, upper = planning.mean_move(n, lambda_0, k, window, z)
        assert lower * (1 - Fraction(1, 1 << 60)) < c * exact(move) < upper * (1 + Fraction(1, 1 << 60))
        expected = covariance_change(n, lambda_0, k, window, z + 1, z)
        assert abs(exact(change) - expected) < Fraction(1, 1 << 60)


def exact(ball: arb) -> Fraction:
    """Its middle."""
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


# Definitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("edition", "factor"), [(PRINTED, 4), (REPAIRED, 2)], ids=["PRINTED", "REPAIRED"])
def test_the_radius_of_representatives(edition: Any, factor: int) -> None:
    last = Lambda_ell(Fraction(1), 12, 2)
    for beyond, near in ((0, True), (Fraction(1, 10**9), False)):
        sigma = [[1 / (factor * last * (1 + beyond))]]  # in which the halves are that far apart
        found = refimpl.is_degree_representative([[0]] * 6 + [[1]] * 6, sigma, 1, 1, range(6), edition=edition)
        assert found is near


def test_a_row_without_weight_may_be_anywhere() -> None:
    assert refimpl.is_good_weighting([[1], [10]], [Fraction(1), Fraction(0)], 1)
    assert refimpl.is_good_subset([[1], [10]], [0], 2)
    assert not refimpl.is_good_weighting([[1], [10]], [Fraction(1), Fraction(1, 1000)], 1)


def test_well_concentrated_rows_are_within_twice_the_threshold() -> None:
    x = [[0], [1]]  # in the covariance 1/2 their squared distance is 2
    for lam, near in (("2/3", False), ("999999/1000000", False), (1, True), (2, True)):
        assert refimpl.is_well_concentrated(x, lam) is near


def test_the_row_without_a_partner_is_in_the_mean_stage() -> None:
    x = [[0], [2], [4], [1], [3]] * 3  # 15 rows, 7 pairs
    covariance = refimpl.stable_covariance(x, 2, 1)
    assert len(covariance.entry_level) == 7
    reference = [0, 4, 14]
    found = refimpl.stable_mean(x, covariance, 2, 1, reference)
    assert found.mean == refimpl.stable_mean(x, covariance.covariance, 2, 1, reference).mean
    assert found.weights[14] > 0


# The test's table -----------------------------------------------------------------------------------------------------


def test_a_table_has_no_entry_below_a_score_of_0() -> None:
    budget, law = (Fraction(1), Fraction(1, 3)), (Fraction(1), Fraction(1, 7), Fraction(0))
    record = refimpl.MeanParameters(SHARP, 8, 1, *budget, Fraction(3), *budget, 2, 0, Fraction(1), 8, 1, law)
    assert [pass_probability(score, record) for score in range(4)] == [*law, 0]
    with pytest.raises(ValueError, match="score must be at least 0, got -1"):
        pass_probability(-1, record)
