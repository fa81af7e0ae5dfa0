"""Properties of refimpl that a run of mutation testing found untested (tests/mutants/README.md)."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import math
import pkgutil
import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx, fmpq_mat

import fastimpl
import refimpl
from refimpl import normals, private, reals
from refimpl.linalg import exact_matrix, ldl, to_fraction
from refimpl.mean import exact_covariance
from refimpl.normals import RealNormals
from refimpl.parameters import (
    EDITIONS,
    PRINTED,
    REPAIRED,
    SHARP,
    Edition,
    Lambda_ell,
    MeanParameters,
    as_rational,
    first_sure_fail,
    passes_size_gate,
    passes_stability_gate,
)
from refimpl.reals import Enclosure, ExpFraction
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

editions = pytest.mark.parametrize("edition", EDITIONS.values(), ids=EDITIONS)

# Signatures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", [refimpl, fastimpl])
def test_options_are_keywords_and_arguments_have_names(package: Any) -> None:
    public = [getattr(package, name) for name in package.__all__]
    parameters = [p for f in public if inspect.isfunction(f) for p in inspect.signature(f).parameters.values()]
    assert sum(p.name == "edition" for p in parameters) > 10
    options = [p for p in parameters if p.name == "edition" or (p.name == "window" and p.default is None)]
    assert {p.kind for p in options} == {inspect.Parameter.KEYWORD_ONLY}
    assert inspect.Parameter.POSITIONAL_ONLY not in {p.kind for p in parameters}


def test_records_are_frozen() -> None:
    modules = [importlib.import_module(f"refimpl.{module.name}") for module in pkgutil.iter_modules(refimpl.__path__)]
    records = {c for module in modules for c in vars(module).values() if inspect.isclass(c) and is_dataclass(c)}
    assert len(records) > 10
    assert {c for c in records if not vars(c)["__dataclass_params__"].frozen} == set()


# The mean stage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0, -1, "-1/2"])
def test_a_core_needs_a_positive_threshold(lam: Any) -> None:
    with pytest.raises(ValueError, match="lam must be positive"):
        refimpl.largest_core([[0], [1]], [[1]], lam, 1, [0])


def test_the_mean_stage_needs_a_level_and_two_rows() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        refimpl.stable_mean([[0]] * 10, [[1]], 1, 0, [0])
    with pytest.raises(ValueError, match="at least two rows"):
        refimpl.stable_mean([[0]], [[1]], "1/10", 1, [0])


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_levels_of_another_implementation_stand_for_the_exact_covariance(k: int) -> None:
    x = [[v] for v in (*[0] * 8, *[1] * 6, 3, 80)]
    result = refimpl.stable_covariance(x, 4, k)
    assert {0, 2 * k + 1} < set(result.entry_level)  # in every set, in none, and in between
    other = replace(result, covariance=np.zeros((1, 1)), good_subsets=None)
    assert exact_covariance(exact_matrix("x", x), other, k) == result.covariance
    assert (
        refimpl.stable_mean(x, other, 2, k, [0, 8, 14]).cores == refimpl.stable_mean(x, result, 2, k, [0, 8, 14]).cores
    )


@pytest.mark.parametrize("pairs", [7, 9])
def test_a_covariance_of_other_data_is_refused(pairs: int) -> None:
    result = refimpl.stable_covariance([[0], [1]] * 8, 2, 1)
    other = replace(result, entry_level=(0,) * pairs)
    with pytest.raises(ValueError, match="covariance must be of the 8 pairs"):
        refimpl.stable_mean([[0], [1]] * 8, other, 2, 1, [0])


@pytest.mark.parametrize("covariance", [[[1]], [[1, 0]], [[1], [0]], np.eye(3)])
def test_a_covariance_is_d_by_d(covariance: Any) -> None:
    with pytest.raises(ValueError, match="covariance must be 2 x 2"):
        refimpl.largest_core([[0, 1], [1, 0]], covariance, 1, 1, [0])


# Definitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edition", [e for e in EDITIONS.values() if e.mean_move], ids=lambda e: e.name)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_reference_set_represents_within_the_radius_of_the_last_level(edition: Edition, k: int) -> None:
    radius = edition.representative_factor * Lambda_ell(Fraction(1), 12, 2 * k)
    for squared_distance, near in ((radius, True), (radius * (1 + Fraction(1, 10**9)), False)):
        # Where the halves are near, all rows are; where they are apart, R holds one of them.
        x, sigma = [[0]] * 6 + [[1]] * 6, [[1 / squared_distance]]
        assert refimpl.is_degree_representative(x, sigma, 1, k, range(6), edition=edition) is near


@pytest.mark.parametrize(("zeros", "represents"), [(2, True), (3, True), (4, True), (1, False), (5, False)])
def test_shares_of_neighbours_may_differ_by_one_sixth_and_no_more(zeros: int, represents: bool) -> None:
    x, reference = [[0]] * 6 + [[100]] * 6, [*range(zeros), *range(6, 12 - zeros)]
    assert refimpl.is_degree_representative(x, [[1]], 1, 1, reference) is represents


@pytest.mark.parametrize("zeros", [3, 7])
def test_one_fifth_is_more_than_one_sixth(zeros: int) -> None:
    x, reference = [[0]] * 10 + [[100]] * 10, [*range(zeros), *range(10, 20 - zeros)]
    assert not refimpl.is_degree_representative(x, [[1]], 1, 1, reference)


def test_a_single_row_is_not_well_concentrated() -> None:
    assert refimpl.is_well_concentrated([[3]], 1) is False


def test_adjacency_does_not_look_at_the_direction_of_a_change() -> None:
    assert not refimpl.is_adjacent([[0], [0]], [[1], [1]])
    assert not refimpl.is_adjacent([[1], [1]], [[0], [0]])


@pytest.mark.parametrize("lam", [1, 3])
@pytest.mark.parametrize(("squared_distance", "is_core"), [("2", True), ("2.000001", False)])
def test_a_weighted_core_reaches_to_twice_its_threshold(squared_distance: str, is_core: bool, lam: int) -> None:
    sigma = [[1 / (lam * Fraction(squared_distance))]]
    assert refimpl.is_weighted_core([[0], [1]], [Fraction(1, 2)] * 2, 2, lam, sigma, [0, 1]) is is_core
    assert refimpl.is_weighted_core([[0], [1]], [Fraction(0), Fraction(1)], 2, lam, sigma, [0, 1]) is is_core


def test_the_weights_of_a_core_sum_to_one() -> None:
    for share in (Fraction(1, 3), Fraction(1)):
        assert not refimpl.is_weighted_core([[0], [0]], [share] * 2, 1, 1, [[1]], [0])


@pytest.mark.parametrize(("tau", "is_core"), [(-1, True), (0, True), ("1/2", False), (1, False)])
def test_in_a_singular_covariance_only_what_asks_for_no_neighbour_is_a_core(tau: Any, is_core: bool) -> None:
    assert refimpl.is_weighted_core([[0], [0]], [Fraction(1, 2)] * 2, tau, 1, [[0]], [0, 1]) is is_core


def test_definitions_want_one_weight_a_row_and_a_level() -> None:
    for weights in ([Fraction(1)], [Fraction(1), Fraction(0), Fraction(0)]):
        with pytest.raises(ValueError, match=r"weights must be"):
            refimpl.is_weighted_core([[0], [0]], weights, 1, 1, [[1]], [0])
        with pytest.raises(ValueError, match=r"weights must be"):
            refimpl.is_good_weighting([[1], [1]], weights, 1)
    with pytest.raises(ValueError, match="k must be at least 1"):
        refimpl.is_degree_representative([[0]] * 12, [[1]], 1, 0, [0])


# Exact matrices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [np.array(3.0), np.array([1.0, 2.0]), np.zeros((2, 2, 2)), [1, 2], [[1], 2]])
def test_other_than_two_dimensions_are_called_so(data: Any) -> None:
    with pytest.raises(ValueError, match="x must be two-dimensional"):
        exact_matrix("x", data)


@pytest.mark.parametrize("data", [np.zeros((3, 0)), [[], []], ((),)])
def test_a_matrix_has_a_column(data: Any) -> None:
    with pytest.raises(ValueError, match="x must have at least one column"):
        exact_matrix("x", data)


@pytest.mark.parametrize(
    ("error", "entry", "message"),
    [
        (ValueError, float("nan"), "x must be finite: NaN and infinities are outside the domain"),
        (ValueError, float("-inf"), "x must be finite: NaN and infinities are outside the domain"),
        (TypeError, True, "x must hold real numbers, got bool"),
        (TypeError, 2j, "x must hold real numbers, got complex"),
    ],
)
def test_an_error_about_an_entry_never_shows_it(error: type[Exception], entry: Any, message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        exact_matrix("x", [[1], [entry]])


@pytest.mark.parametrize("off", [1, -1])
def test_a_zero_pivot_over_a_column_of_either_sign_is_not_semidefinite(off: int) -> None:
    assert ldl(exact_matrix("m", [[0, off], [off, 5]])) is None


# The test's law -------------------------------------------------------------------------------------------------------


def test_the_printed_law_ends_where_the_growth_reaches_the_odds() -> None:
    growth, third = Fraction(2), Fraction(1, 3)  # the odds (1 - delta)/delta are 2 = growth^(5 - 4)
    found = [refimpl.printed_formula_at_growth(z, growth, third) for z in range(7)]
    assert found == [1, *(1 - third * factor for factor in (Fraction(1, 2), 1, 2, 4)), 0, 0]


@pytest.mark.parametrize("delta", [-1, "-1e-9", 0, 1, 2])
def test_a_law_needs_a_delta_inside_the_unit_interval(delta: Any) -> None:
    with pytest.raises(ValueError, match="delta must be in"):
        refimpl.ptr_pass_probability_at_growth(3, 2, delta)


@pytest.mark.parametrize("exponent", [0, -1])
def test_a_law_needs_a_growth_above_one(exponent: int) -> None:
    for growth in (Fraction(2) ** exponent, ExpFraction(exponent)):
        with pytest.raises(ValueError, match="growth must be greater than 1"):
            refimpl.ptr_pass_probability_at_growth(3, growth, "1/3")


def test_a_score_is_not_negative() -> None:
    for law, budget in ((refimpl.ptr_pass_probability, "1/2"), (refimpl.ptr_pass_probability_at_growth, 2)):
        with pytest.raises(ValueError, match="score must be at least 0"):
            law(-1, budget, "1/3")


# Real numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Fraction(p, q) for p in range(1, 6) for q in range(1, 6)], ids=str)
def test_the_logarithm_of_small_numbers_is_undone_by_the_exponential(value: Fraction) -> None:
    found = reals.log(value, 100)
    assert reals.exp(found.lower, 100).lower <= value <= reals.exp(found.upper, 100).upper
    assert found.upper - found.lower <= Fraction(1, 1 << 90)


def test_domains_of_logarithm_and_root_end_at_zero() -> None:
    for value in (Fraction(-1), Fraction(-1, 2)):
        for function in (reals.log, reals.sqrt):
            with pytest.raises(ValueError, match=f"^{function.__name__} needs"):
                function(value, 64)


def test_an_interval_that_ends_at_zero_is_no_divisor() -> None:
    for divisor in (Enclosure(Fraction(0), Fraction(1)), Enclosure(Fraction(-1), Fraction(0))):
        with pytest.raises(ZeroDivisionError, match="the divisor's enclosure holds zero"):
            1 / divisor


@pytest.mark.parametrize("precision", [77, 91])  # asked for by no other test: nothing is remembered
def test_zero_and_one_are_the_values_that_are_known_exactly(precision: int) -> None:
    assert reals.exp(Fraction(0), precision) == Enclosure.point(1)
    assert reals.log(Fraction(1), precision) == Enclosure.point(0)


def test_a_small_negative_divisor_is_no_reason_to_go_on() -> None:
    found = (1 / (1 - ExpFraction(Fraction(1, 2)))).enclosure(64)  # 1/(1 - 1.6487...)
    assert Fraction(-155, 100) < found.lower < found.upper < Fraction(-154, 100)


def test_a_divisor_next_to_zero_is_enclosed_at_a_higher_precision() -> None:
    found = (1 / (ExpFraction(Fraction(1, 3 << 200)) - 1)).enclosure(64)  # 3 2^200 - 1/2 and a little
    assert 1 << 201 < found.lower <= (3 << 200) - Fraction(49, 100)
    assert (3 << 200) - Fraction(51, 100) <= found.upper < 1 << 202


@pytest.mark.parametrize("bits", [40, 50, 60])
def test_the_exponential_of_a_small_dyadic_number_is_enclosed(bits: int) -> None:
    x = Fraction(1, 1 << bits)
    for sign in (1, -1):
        assert reals.exp(sign * x, 64).upper >= 1 + sign * x + x**2 / 2 - x**3  # e^x > 1 + x + x^2/2 - x^3 for small x
    assert ExpFraction(x) > 1 + x + x**2 / 4


@pytest.mark.parametrize("x", [Fraction(1195, 1 << 90), Fraction(1, 1 << 122)], ids=str)
def test_the_logarithm_next_to_one_is_enclosed(x: Fraction) -> None:
    found = reals.log(1 + x, 128)
    assert found.lower <= x - x**2 / 2 + x**3 / 3
    assert found.upper >= x - x**2 / 2 + x**3 / 3 - x**4 / 4


# Parameters and releases ----------------------------------------------------------------------------------------------

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1/3", "lambda_0": 1}


@editions
def test_c_squared_is_the_square_of_c(edition: Edition) -> None:
    budget = BUDGET | {"delta": "1/10"}
    parameters = refimpl.mean_parameters(5000, 1, **budget, edition=edition)
    assert 0 < parameters.noise_scale_squared == parameters.noise_scale * parameters.noise_scale


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3, 1), (3, 3)])
def test_normals_have_the_shape_of_the_draws(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="normals must be 3 x 2"):
        refimpl.wishart_release([[1, 0], [0, 1]], 3, np.zeros(shape))


@pytest.mark.parametrize("change", [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_coins_have_the_shape_of_the_parameters(change: tuple[int, int]) -> None:
    parameters = refimpl.covariance_parameters(1000, 2, **BUDGET, edition=refimpl.REPAIRED)
    shape = (parameters.samples + change[0], 2 + change[1])
    coins = replace(refimpl.draw_covariance_coins(parameters, np.random.default_rng(1)), normals=np.zeros(shape))
    told = f"normals must be finite, {parameters.samples} x 2, got shape {shape}"
    with pytest.raises(ValueError, match=re.escape(told)):
        refimpl.private_covariance_given(np.zeros((1000, 2)), parameters, coins)


def test_the_repaired_goodness_is_its_formula() -> None:
    assert REPAIRED.goodness_factor(1, Fraction(1), 100) == Fraction(5, 4)
    assert REPAIRED.goodness_factor(3, Fraction(1), 30) == Fraction(5, 4) / (1 - Fraction(4, 3) * Fraction(5, 4) / 30)


@pytest.mark.parametrize("whole", [3, 10, 41])
def test_the_first_sure_fail_is_right_next_to_an_integer(whole: int) -> None:
    # Z* is this integer where delta = (e^epsilon - 1)/(2 (e^(epsilon Z*/2s) - 1)); here epsilon = 1 and s = 2.
    tie = (reals.exp(Fraction(1), 300) - 1) / (2 * (reals.exp(Fraction(whole, 4), 300) - 1))
    assert first_sure_fail(Fraction(1), tie.upper, sensitivity=2) == whole
    assert first_sure_fail(Fraction(1), tie.lower, sensitivity=2) == whole + 1


def test_plans_for_no_rows_and_for_as_many_as_levels() -> None:
    assert refimpl.mean_parameters(0, 1, **BUDGET, edition=refimpl.REPAIRED).reference_size == 0
    k = refimpl.mean_parameters(0, 1, **BUDGET, edition=refimpl.REPAIRED).k
    found = [refimpl.mean_parameters(n, 1, **BUDGET, edition=refimpl.REPAIRED) for n in (k - 1, k, k + 1)]
    assert (
        found[1].noise_scale
        == found[0].noise_scale
        == refimpl.mean_parameters(found[0].least_n, 1, **BUDGET, edition=refimpl.REPAIRED).noise_scale
    )
    assert found[2].noise_scale > found[1].noise_scale


def test_the_stability_gate_stands_alone() -> None:
    for make in (refimpl.mean_parameters, refimpl.covariance_parameters):
        parameters = make(10**6, 1, **BUDGET | {"lambda_0": 9}, edition=refimpl.REPAIRED)
        assert passes_stability_gate(parameters)
        assert not any(
            passes_stability_gate(make(n, 1, **BUDGET | {"lambda_0": 9}, edition=refimpl.REPAIRED))
            for n in (2, 49, 50, 51)
        )


@pytest.mark.parametrize(
    ("epsilon", "delta", "lambda_0", "least"),
    [("1/2", "1/20", 1, 14828), (1, "1/10", 2, 12042)],
)
def test_the_printed_gate_of_the_learner_grows_with_lambda_0_and_as_epsilon_falls(
    epsilon: Any, delta: str, lambda_0: int, least: int
) -> None:
    # 272 e^2 log(2/delta) lambda_0/epsilon is 14827.99... and 12041.6...
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0}
    found = [refimpl.gaussian_parameters(n, 1, **budget, edition=PRINTED) for n in (least - 1, least)]
    assert [refimpl.failure_reason(parameters) is None for parameters in found] == [False, True]


def test_a_whole_lambda_0_is_shown_with_all_its_digits() -> None:
    reason = refimpl.failure_reason(
        refimpl.mean_parameters(100, 1, **BUDGET | {"lambda_0": 1234567}, edition=refimpl.REPAIRED)
    )
    assert "lambda_0 = 1234567 " in (reason or "")


def test_a_decimal_exponent_of_ten_thousand_is_the_last_that_is_read() -> None:
    assert as_rational("lambda_0", "1e10000") == 10**10000
    with pytest.raises(ValueError, match="lambda_0"):
        as_rational("lambda_0", "1e10001")


@pytest.mark.parametrize("more", [-1, 1])
def test_a_reference_set_of_another_size_is_refused(more: int) -> None:
    parameters = refimpl.mean_parameters(5000, 1, **BUDGET, edition=refimpl.REPAIRED)
    coins = refimpl.draw_mean_coins(parameters, np.random.default_rng(1))
    reference = range(parameters.reference_size + more)
    with pytest.raises(ValueError, match=f"must hold {parameters.reference_size} indices, got {len(reference)}"):
        refimpl.private_mean_given(np.zeros((5000, 1)), parameters, replace(coins, reference=tuple(reference)))


def test_either_half_is_a_reason_for_the_learner_to_fail() -> None:
    whole = refimpl.gaussian_parameters(10**6, 1, **BUDGET, edition=refimpl.REPAIRED)
    few = refimpl.gaussian_parameters(10, 1, **BUDGET, edition=refimpl.REPAIRED)
    assert refimpl.failure_reason(whole) is None
    for half in ("mean", "covariance"):
        found = replace(whole, **{half: getattr(few, half)})
        assert refimpl.failure_reason(found) == refimpl.failure_reason(getattr(few, half)) is not None


def test_fewer_than_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="n must be at least 0"):
        refimpl.largest_lambda_0(-1, epsilon=1, delta="1/3", edition=refimpl.REPAIRED)


def test_a_window_that_is_too_long_is_shown_beside_its_bound() -> None:
    for window in (18, 19, 40):
        with pytest.raises(ValueError, match=rf"window must be below 9k = 18, got {window}$"):
            refimpl.stable_second_moment([[1], [1], [2]], 4, 2, window=window)


@pytest.mark.parametrize(("samples", "passes"), [(0, False), (1, True)])
def test_one_draw_is_enough(samples: int, passes: bool) -> None:
    parameters = replace(refimpl.covariance_parameters(10**6, 1, **BUDGET, edition=refimpl.REPAIRED), samples=samples)
    assert passes_stability_gate(parameters) is passes


@pytest.mark.parametrize("n", [491, 495, 499, 500])
def test_no_draws_where_the_stability_of_the_covariance_is_unknown(n: int) -> None:
    assert (
        refimpl.covariance_parameters(n, 1, **BUDGET | {"lambda_0": 90}, edition=refimpl.REPAIRED).samples == 0
    )  # gamma = (50/9) 90/n >= 1


@pytest.mark.parametrize(("task", "budget"), [("mean", ("1/10", "1/10")), ("covariance", ("1", "1/2"))])
def test_the_largest_lambda_0_where_the_stability_gate_decides(task: str, budget: tuple[str, str]) -> None:
    make: Any = {"mean": refimpl.mean_parameters, "covariance": refimpl.covariance_parameters}[task]
    asked: dict[str, Any] = {"epsilon": budget[0], "delta": budget[1], "edition": refimpl.REPAIRED}
    largest = refimpl.largest_lambda_0(10**5, task=task, **asked)
    beyond = make(10**5, 1, lambda_0=largest * (1 + Fraction(1, 10**9)), **asked)
    assert refimpl.passes_gates(make(10**5, 1, lambda_0=largest, **asked))
    assert passes_size_gate(beyond)
    assert not passes_stability_gate(beyond)


def test_the_stability_gates_have_the_constants_of_claims_12_and_46() -> None:
    epsilon, delta = Fraction(1, 10), Fraction(1, 10)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "lambda_0": 1, "edition": refimpl.REPAIRED}
    plans: list[tuple[Any, float]] = [
        (refimpl.mean_parameters, 2 / 3 * (epsilon / 3) / math.log(12 / delta)),
        (refimpl.covariance_parameters, (epsilon / 2) / (8 * math.log(2 / delta))),
    ]
    for make, largest_step in plans:
        # More than the size gate asks for, and not next to an integer.
        least = math.ceil(50 / 9 + 25 / 3 / largest_step)
        assert make(0, 1, **budget).least_n == least
        assert [refimpl.passes_gates(make(n, 1, **budget)) for n in (least - 1, least)] == [False, True]


def test_the_shortest_window_is_one_level() -> None:
    found = refimpl.stable_second_moment([[1], [1], [2]], 4, 2, window=1)
    assert found.weights == (Fraction(1, 3),) * 3
    with pytest.raises(ValueError, match="window must be at least 1"):
        refimpl.stable_second_moment([[1], [1], [2]], 4, 2, window=0)


def test_no_rows_allow_no_lambda_0() -> None:
    assert refimpl.largest_lambda_0(0, epsilon=1, delta="1/3", edition=refimpl.REPAIRED) == 0


def test_a_hopeless_lambda_0_is_shown_with_the_least_that_is_not() -> None:
    parameters = refimpl.mean_parameters(10**6, 20, **BUDGET | {"lambda_0": "7/2"}, edition=refimpl.REPAIRED)
    least = 20 * (9 * parameters.k + 1) / (10 * parameters.k)
    reason = refimpl.failure_reason(parameters)
    assert reason is not None
    assert reason.startswith(f"lambda_0 = 3.5 is below d(9k+1)/(10k) = {least:.6g}: ")


@pytest.mark.parametrize("precision", [64, 128, 256])
def test_exponentials_and_logarithms_of_all_sizes_enclose_those_of_arb(precision: int) -> None:
    """From 2^-200 up: next to 0 and 1 is where a rounding to nearest shows."""
    before = ctx.prec
    try:
        ctx.prec = 3 * precision + 600
        for size in range(1, 200, 3):
            for x in (Fraction(1195, 1 << (size + 10)), Fraction(-1, 1 << size), Fraction(2, 3) / (1 << size)):
                for mine, theirs in (
                    (reals.exp(x, precision), (arb(x.numerator) / x.denominator).exp()),
                    (reals.log(1 + x, precision), (1 + arb(x.numerator) / x.denominator).log()),
                ):
                    middle = Fraction(*_middle(theirs))
                    assert mine.lower <= middle <= mine.upper
    finally:
        ctx.prec = before


def _middle(ball: arb) -> tuple[int, int]:
    mantissa, exponent = ball.mid().man_exp()
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return value.numerator, value.denominator


# What the third run added ---------------------------------------------------------------------------------------------


def test_enclosures_that_touch_decide_only_one_way() -> None:
    low, high = Enclosure(Fraction(0), Fraction(1)), Enclosure(Fraction(1), Fraction(2))
    assert reals.decide(lambda _: low, lambda _: high)
    with pytest.raises(reals.UndecidedError):  # both may be 1, and then left <= right
        reals.decide(lambda _: high, lambda _: low)


@pytest.mark.parametrize("shape", [(4,), (1, 2, 2), (2, 2, 1)])
def test_only_two_dimensional_arrays_are_data(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be two-dimensional"):
        exact_matrix("x", np.ones(shape))


def test_rows_of_several_lengths_are_no_data() -> None:
    nested: list[list[int]]
    for nested in ([[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3], [4], [5, 6]]):
        with pytest.raises(ValueError, match="must have rows of one length"):
            exact_matrix("x", nested)


@pytest.mark.parametrize("precision", [53, 64, 200])
def test_enclosures_are_as_narrow_as_they_say(precision: int) -> None:
    found = [reals.sqrt(Fraction(2), precision), reals.sqrt(Fraction(1, 3), precision)]
    found += [reals.exp(Fraction(3, 7), precision), reals.log(Fraction(22, 7), precision)]
    for enclosure in found:
        assert 0 < enclosure.upper - enclosure.lower <= enclosure.lower / (1 << precision)


@pytest.mark.parametrize("r", [Fraction(1), Fraction(-2, 3), Fraction(5)])
def test_division_by_an_exponential_lowers_every_exponent(r: Fraction) -> None:
    assert 1 / ExpFraction(r) == ExpFraction(-r)
    assert (ExpFraction(2) + 3) / ExpFraction(r) == ExpFraction(2 - r) + 3 * ExpFraction(-r)


# What the fourth run added --------------------------------------------------------------------------------------------


def exact(value: Any) -> Fraction:
    """A number of mpmath."""
    return Fraction(*mpmath.libmp.to_rational(value._mpf_))


def rounded(value: Fraction) -> mpmath.mpf:
    """A fraction, to the working precision of mpmath."""
    return mpmath.mpf(value.numerator) / value.denominator


def digits_of(value: Fraction) -> Callable[[int], int]:
    """As many digits as asked for, but not for ever."""
    asked = itertools.count()

    def first(bits: int) -> int:
        assert next(asked) < 100
        assert bits <= 1 << 16
        return math.floor(value * (1 << bits))

    return first


def real(value: Fraction) -> Callable[[int], Enclosure]:
    """A number, of which ``precision`` binary digits are shown."""
    first = digits_of(value)
    return lambda bits: Enclosure(Fraction(at := first(bits), 1 << bits), Fraction(at + 1, 1 << bits))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_zero_and_sums_have_powers(degree: int) -> None:
    assert ExpFraction.rational(0) ** degree == 0
    quotient, product = (1 + ExpFraction(1)) / (1 + ExpFraction(2)), ExpFraction.rational(1)
    for _ in range(degree):
        product = product * quotient
    assert quotient**degree == product != 0


def test_a_divisor_whose_enclosure_ends_at_zero_is_enclosed_at_a_higher_precision() -> None:
    e = reals.exp(Fraction(1), 64)
    assert (1 / (ExpFraction(1) - e.lower)).enclosure(64).lower > 1 << 60
    assert (1 / (ExpFraction(1) - e.upper)).enclosure(64).upper < -(1 << 60)


def test_the_last_precision_is_tried() -> None:
    third, close = real(Fraction(1, 3)), Fraction(1, 1 << 20000)
    assert not reals.decide(third, lambda _: Enclosure.point(Fraction(1, 3) - close))
    assert reals.decide(third, lambda _: Enclosure.point(Fraction(1, 3) + close))


@pytest.mark.parametrize("bits", [-1, 1 << 256, (1 << 256) + 1, 1 << 300])
def test_a_coin_has_256_bits(bits: int) -> None:
    for last in (0, (1 << 256) - 1):
        assert TestCoin(last, b"").bits == last
    with pytest.raises(ValueError, match=r"bits must be an integer in 0\.\.2\^256 - 1"):
        TestCoin(bits, b"")


def test_coins_are_the_same_only_if_they_are_one() -> None:
    test, array = TestCoin(1, b""), np.zeros(2)
    mean, covariance = MeanCoins(test, None, array), CovarianceCoins(test, array)
    for coins in (mean, covariance, GaussianCoins(mean, covariance)):
        assert coins == coins  # noqa: PLR0124 - what is asked here
        assert coins != replace(coins)


def test_one_row_is_in_no_good_set() -> None:
    found = refimpl.stable_moments([[3]], "1/2", 1, 1)
    assert (found.score, found.weights, found.mean, found.covariance) == (1, (0,), None, None)


def test_moments_are_those_of_the_weights() -> None:
    far = [[10**3], [10**5]]
    found = refimpl.stable_moments([[-1], [1], [2]] * 8 + far, 4, 3, 1)
    assert (found.score, found.weights) == (2, (Fraction(1, 26),) * 24 + (0, 0))
    assert found.mean == (Fraction(2, 3),)
    assert found.covariance == exact_matrix("covariance", [[Fraction(24, 26) * (2 - Fraction(4, 9))]])
    # As many rows out as levels: weights, but no moments.
    found = refimpl.stable_moments([[-1], [1], [2]] * 8 + far, 4, 2, 1)
    assert (found.score, found.weights[0], found.mean, found.covariance) == (2, Fraction(1, 26), None, None)
    # Fewer rows than levels: a score below k, but no weights.
    found = refimpl.stable_moments([[1], [1]], "1/10", 3, 1)
    assert (found.score, found.weights, found.mean, found.covariance) == (2, (0, 0), None, None)


@pytest.mark.parametrize(
    "u", [Fraction(1, 4), Fraction(1, 4) - Fraction(1, 1 << 400), Fraction(3, 1 << 105), Fraction(1, 3 << 200)], ids=str
)
def test_a_normal_has_its_probability_below_it(u: Fraction) -> None:
    """Next to the ends of its cell, in the first and last cells of all, and in those that end at 0 and 1."""
    with mpmath.workprec(700):
        for value in (u, 1 - u):
            found = normals._normal(digits_of(value))(24)
            assert exact(mpmath.ncdf(rounded(found.lower))) <= value <= exact(mpmath.ncdf(rounded(found.upper)))


@pytest.mark.parametrize("precision", [24, 64, 100])
def test_a_normal_below_ten_is_as_narrow_as_asked_for(precision: int) -> None:
    for u in (Fraction(1, 3), Fraction(1, 3 << 71), 1 - Fraction(1, 3 << 71)):
        found = normals._normal(digits_of(u))(precision)
        assert -10 < found.lower < found.upper < min(Fraction(10), found.lower + Fraction(1, 1 << precision))


@pytest.mark.parametrize("u", [Fraction(1, 4), Fraction(1, 4) - Fraction(1, 1 << 150), Fraction(2, 3)], ids=str)
def test_the_logarithm_of_a_uniform_number_is_enclosed(u: Fraction) -> None:
    found = normals._log_uniform(digits_of(u))(64)
    with mpmath.workdps(60):
        assert found.lower <= exact(mpmath.log(rounded(u))) <= found.upper
    assert found.upper - found.lower < Fraction(1, 1 << 60)


@pytest.mark.parametrize("degrees", [2, 3, 100])
@pytest.mark.parametrize("share", ["-9/10", "-1/3", "1/10", "2"])
def test_a_proposal_is_kept_below_its_bound(degrees: int, share: str) -> None:
    size = Fraction(degrees, 2) - Fraction(1, 3)
    with mpmath.workdps(60):
        root = mpmath.sqrt(rounded(9 * size))
        z = rounded(Fraction(share)) * root
        v = (1 + z / root) ** 3
        bound = exact(z * z / 2 + rounded(size) * (1 - v + mpmath.log(v)))
    for beyond, kept in ((Fraction(-1, 10**30), True), (Fraction(1, 10**30), False)):
        assert normals._is_kept(real(exact(z)), real(bound + beyond), size) is kept


def test_no_proposal_is_kept_whose_cube_is_not_positive() -> None:
    for size in (Fraction(1), Fraction(2, 3)):
        root = reals.sqrt(9 * size, 300)
        for beyond, kept in ((Fraction(1, 20), True), (Fraction(1, 1 << 100), True), (Fraction(-1, 20), False)):
            assert normals._is_kept(real(beyond - root.lower), real(Fraction(-1000)), size) is kept


def test_a_reference_set_is_the_first_indices_of_its_stream() -> None:
    n, size = 34, 31  # for some of these seeds the last of the numbers decide
    for i in range(60):
        seed = i.to_bytes(32, "big")
        data = hashlib.shake_256(b"bhs23/mean/reference/" + seed).digest(16 * 400)
        numbers = [int.from_bytes(data[at : at + 16], "big") for at in range(0, len(data), 16)]
        distinct = list(dict.fromkeys((number * n) >> 128 for number in numbers))
        assert private._reference(seed, n, size) == tuple(sorted(distinct[:size]))


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3, 1), (3, 3)])
def test_real_normals_have_the_shape_of_the_draws(shape: tuple[int, int]) -> None:
    drawn = RealNormals(bytes(32), "here", shape)
    with pytest.raises(ValueError, match=f"normals must be 3 x 2, got {shape[0]} x {shape[1]}$"):
        refimpl.wishart_release([[1, 0], [0, 1]], 3, drawn)


def test_releases_from_digits_are_rounded_once() -> None:
    covariance = [[4, 2], [2, 10]]  # L = [[2, 0], [1, 3]]
    one, drawn = (RealNormals(bytes(32), "here", (rows, 2)) for rows in (1, 3))
    with mpmath.workdps(60):
        u = [[rounded(Fraction(drawn._uniform(2 * i + j)(300), 1 << 300)) for j in range(2)] for i in range(3)]
        z = [[mpmath.sqrt(2) * mpmath.erfinv(2 * value - 1) for value in row] for row in u]
        draws = [(2 * a, a + 3 * b) for a, b in z]
        moments = [[float(sum(draw[i] * draw[j] for draw in draws) / 3) for j in range(2)] for i in range(2)]
        mean = [float(start + value / 7) for start, value in zip((1, 2), draws[0], strict=True)]
    assert refimpl.wishart_release(covariance, 3, drawn).tolist() == moments
    assert refimpl.gaussian_release([1, 2], covariance, Fraction(1, 7), one).tolist() == mean


@pytest.mark.parametrize(
    ("mean", "side"), [(1 + Fraction(1, 1 << 52), -1), (Fraction(1), 1)], ids=["below the middle", "above the middle"]
)
def test_a_release_waits_for_the_digits_that_decide(mean: Fraction, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    z = real(Fraction(1, 1 << 53) + Fraction(side, 1 << 200))
    monkeypatch.setattr(RealNormals, "enclosures", lambda _, precision: [[z(precision)]])
    released = refimpl.gaussian_release([mean], [[1]], Fraction(1), RealNormals(bytes(32), "here", (1, 1)))
    assert released.tolist() == [1 + 2.0**-52]


def test_products_of_numbers_that_are_off_are_enclosed() -> None:
    middle, radius = [[3, 1], [-2, 5]], Fraction(1, 2)
    found = private._inner_products(private._Numbers(fmpq_mat(middle), radius))
    for signs in itertools.product((-1, 1), repeat=4):
        a, b, c, d = (value + sign * radius for value, sign in zip(itertools.chain(*middle), signs, strict=True))
        products = [[a * a + c * c, a * b + c * d], [b * a + d * c, b * b + d * d]]
        assert all(found[i][j].lower <= products[i][j] <= found[i][j].upper for i in range(2) for j in range(2))
    ((square,),) = private._inner_products(private._Numbers(fmpq_mat([[3]]), radius))
    assert square.lower <= Fraction(5, 2) ** 2 < Fraction(7, 2) ** 2 <= square.upper


def test_one_draw_has_a_bartlett_factor() -> None:
    assert refimpl.bartlett_release([[4]], 1, [[1.5]]).tolist() == [[9.0]]


def test_a_record_without_noise_releases_nothing() -> None:
    budget = (Fraction(1), Fraction(1, 3))
    law = (Fraction(1), Fraction(0))
    noisy = MeanParameters(SHARP, 8, 1, *budget, Fraction(3), *budget, 1, 0, Fraction(1), 8, 1, law)
    coins, x = MeanCoins(TestCoin(0, b""), None, np.array([0.5])), [[-1], [1]] * 4
    assert refimpl.private_mean_given(x, noisy, coins).mean == [0.5]
    assert refimpl.private_mean_given(x, replace(noisy, noise_scale=Fraction(0)), coins).mean is None


def test_a_release_of_zero_has_no_sign() -> None:
    for value in (Fraction(-1, 1 << 1100), Fraction(0), Fraction(1, 1 << 1100)):
        released = private._rounded(lambda _, value=value: Enclosure.point(value))
        assert (released, math.copysign(1.0, released)) == (0.0, 1.0)


def test_the_middles_of_numbers_are_as_near_as_the_radius_says() -> None:
    numbers = [[Enclosure(Fraction(0), Fraction(1)), Enclosure(Fraction(-3), Fraction(-8, 3))]]
    found = private._enclosed(numbers)
    for middle, number in zip(map(to_fraction, found.middle.tolist()[0]), numbers[0], strict=True):
        assert middle - found.radius <= number.lower <= number.upper <= middle + found.radius
