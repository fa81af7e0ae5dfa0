"""Parameters and gates: the constants, that least_n is the least n, and that every bad parameter is named."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq, fmpz
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import refimpl
from refimpl import parameters
from refimpl.parameters import PRINTED, REPAIRED, SHARP, as_integer, as_rational, covariance_step, failure_reason

MAKE: dict[str, Callable[..., Any]] = {
    "mean": refimpl.mean_parameters,
    "covariance": refimpl.covariance_parameters,
    "gaussian": refimpl.gaussian_parameters,
}
tasks = pytest.mark.parametrize("task", ["mean", "covariance"])


@st.composite
def budgets(draw: st.DrawFn, edition: Any) -> dict[str, Any]:
    epsilon = draw(st.fractions(min_value=Fraction(1, 8), max_value=1, max_denominator=40))
    largest = epsilon / 10 if edition is PRINTED else Fraction(99, 100)
    delta = draw(st.fractions(min_value=Fraction(1, 10**9), max_value=largest, max_denominator=10**9).filter(bool))
    lambda_0 = draw(st.fractions(min_value=1, max_value=60, max_denominator=60))
    return {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}


def ball(value: Fraction | int) -> arb:
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))


# The constants, once more in ball arithmetic ----------------------------------------------------------------------------


@given(budgets(PRINTED), st.integers(1, 10**7))
def test_printed_constants(budget: dict[str, Any], n: int) -> None:
    mean, covariance = (refimpl.mean_parameters(n, 3, **budget), refimpl.covariance_parameters(n, 3, **budget))
    with ctx.workprec(300):
        e, d, lam = (ball(budget[name]) for name in ("epsilon", "delta", "lambda_0"))
        assert mean.k - 4 == (6 * (6 / d).log() / e).ceil().unique_fmpz()
        assert covariance.k - 4 == (4 * (2 / d).log() / e).ceil().unique_fmpz()
        assert mean.reference_size == min(n, 6 * mean.k + (18 * (16 * n / d).log()).ceil().unique_fmpz())
        assert covariance.samples == ((n * e / lam) ** 2 / (24 * (2 / d).log())).floor().unique_fmpz()
        if n > mean.k and 9 * n > 50 * budget["lambda_0"]:
            assert_next_float(mean.noise_scale, (810 * lam * (12 / d).log()).sqrt() / (e * n))


@given(budgets(REPAIRED), st.integers(1, 10**7))
def test_repaired_constants(budget: dict[str, Any], n: int) -> None:
    mean, covariance = (refimpl.mean_parameters(n, 3, **budget), refimpl.covariance_parameters(n, 3, **budget))

    def z_star(epsilon: arb, delta: arb) -> arb:
        return 4 / epsilon * (1 + (epsilon.exp() - 1) / (2 * delta)).log()

    with ctx.workprec(400):
        e, d, lam = (ball(budget[name]) for name in ("epsilon", "delta", "lambda_0"))
        assert mean.k == z_star(e / 3, d / 6).ceil().unique_fmpz()
        assert covariance.k == z_star(e / 2, d / 2).ceil().unique_fmpz()
        assert mean.reference_size == min(n, 6 * mean.k + (18 * (24 * n / d).log()).ceil().unique_fmpz())
        gamma = ball(Fraction(50, 9) * budget["lambda_0"] / n)
        if 9 * n > 50 * budget["lambda_0"]:
            step = ball(Fraction(25, 3)) / (1 - gamma) * lam / n
            assert covariance.samples == ((e / 2) ** 2 / (8 * step**2 * (2 / d).log())).floor().unique_fmpz()
            if n > mean.k:
                move = 32 / ((1 - gamma) ** (2 * mean.k + 1) * (1 - ball(mean.k) / n) ** 2) * lam / n**2
                assert_next_float(mean.noise_scale, (move * 2 * (12 / d).log() / (e / 3) ** 2).sqrt())
        else:
            assert covariance.samples == 0


def assert_next_float(scale: Fraction, true: arb) -> None:
    """The noise scale is the float64 just above the true value, never below it."""
    assert float(scale) == scale
    assert ball(scale) >= true
    assert ball(Fraction(math.nextafter(float(scale), 0))) < true


@pytest.mark.parametrize(("lambda_0", "slogan"), [(10, 1026), (50, 1026), (1, 1134), (2, 1134)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "1e-12"), ("1/2", "1e-3"), ("1/10", "1/100"), ("1", "1/10")]
)
def test_the_noise_of_the_repair_in_one_constant(lambda_0: int, slogan: int, epsilon: str, delta: str) -> None:
    k = refimpl.mean_parameters(0, 1, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=refimpl.REPAIRED).k
    assert k >= 31
    for n in (20 * k * lambda_0, 200 * k * lambda_0):
        found = refimpl.mean_parameters(n, 1, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=refimpl.REPAIRED)
        bound = slogan * lambda_0 * ball(12 / Fraction(delta)).log() / ball(Fraction(epsilon) * n) ** 2
        assert ball(found.noise_scale_squared) <= bound


def test_the_shares_of_the_budget() -> None:
    mean = refimpl.mean_parameters(10, 1, epsilon="1/2", delta="1/10", lambda_0=2, edition=refimpl.REPAIRED)
    covariance = refimpl.covariance_parameters(10, 1, epsilon="1/2", delta="1/10", lambda_0=2, edition=refimpl.REPAIRED)
    assert (mean.test_epsilon, mean.test_delta) == (Fraction(1, 6), Fraction(1, 60))
    assert (covariance.test_epsilon, covariance.test_delta) == (Fraction(1, 4), Fraction(1, 20))
    repaired = refimpl.gaussian_parameters(10, 1, epsilon="1/2", delta="1/10", lambda_0=2, edition=refimpl.REPAIRED)
    assert (repaired.mean.epsilon, repaired.covariance.delta) == (Fraction(1, 4), Fraction(1, 20))
    assert (repaired.mean.n, repaired.covariance.n) == (10, 10)
    printed = refimpl.gaussian_parameters(11, 1, epsilon="1/2", delta="1/20", lambda_0=2, edition=PRINTED)
    assert (printed.mean.epsilon, printed.covariance.delta) == (Fraction(1, 2), Fraction(1, 20))
    assert (printed.mean.n, printed.covariance.n) == (11, 5)


# Gates ----------------------------------------------------------------------------------------------------------------


@tasks
@pytest.mark.parametrize("edition", [PRINTED, REPAIRED])
@settings(max_examples=20)
@given(st.data())
def test_least_n_is_the_least_n_that_passes(task: str, edition: Any, data: st.DataObject) -> None:
    budget = data.draw(budgets(edition))
    least = MAKE[task](0, 1, **budget).least_n
    for n, passes in ((least, True), (least - 1, False), (least + 1, True), (3 * least, True), (least // 2, False)):
        found = MAKE[task](n, 1, **budget)
        assert found.least_n == least
        assert refimpl.passes_gates(found) == passes, n


@tasks
@pytest.mark.parametrize("edition", [PRINTED, REPAIRED])
@settings(max_examples=10)
@given(st.data())
def test_the_largest_lambda_0_is_the_largest(task: str, edition: Any, data: st.DataObject) -> None:
    budget, n = data.draw(budgets(edition)), data.draw(st.integers(2, 10**6))
    epsilon, delta = budget["epsilon"], budget["delta"]
    largest = refimpl.largest_lambda_0(n, epsilon=epsilon, delta=delta, edition=edition, task=task)
    assume(largest >= 1)
    for factor, passes in ((1, True), (1 + Fraction(1, 10**15), False)):
        found = MAKE[task](n, 1, epsilon=epsilon, delta=delta, lambda_0=largest * factor, edition=edition)
        assert refimpl.passes_gates(found) == passes


def test_the_gate_that_the_repaired_k_no_longer_implies() -> None:
    # Claim 12's hypothesis: 0.00492 > 0.00464.
    found = refimpl.mean_parameters(1700, 1, epsilon="1/10", delta="1/10", lambda_0=1, edition=refimpl.REPAIRED)
    assert parameters.passes_size_gate(found)
    assert not parameters.passes_stability_gate(found)
    assert float(covariance_step(Fraction(1), 1700)) == pytest.approx(0.00492, abs=5e-6)
    assert 2 / 3 * (0.1 / 3) / math.log(2 / (0.1 / 6)) == pytest.approx(0.00464, abs=5e-6)
    assert found.least_n > 1700
    assert "stable enough" in (failure_reason(found) or "")


@tasks
@pytest.mark.parametrize("edition", [PRINTED, REPAIRED])
def test_fewer_than_two_rows_never_pass(task: str, edition: Any) -> None:
    for n in (0, 1):
        found = MAKE[task](n, 1, epsilon=1, delta="1/10", lambda_0=1, edition=edition)
        assert not refimpl.passes_gates(found)
        assert not refimpl.passes_gates(dataclasses.replace(found, k=0))


def test_the_learner_passes_where_both_halves_do() -> None:
    for n in (4000, 20160, 40080):
        found = refimpl.gaussian_parameters(n, 1, epsilon=1, delta="1e-6", lambda_0=6, edition=refimpl.REPAIRED)
        assert refimpl.passes_gates(found) == (
            refimpl.passes_gates(found.mean) and refimpl.passes_gates(found.covariance)
        )
    assert refimpl.passes_gates(found)


def test_the_learner_as_printed_has_a_gate_of_its_own() -> None:
    # 272 e^2 log(20) = 6020.8...
    for n, passes in ((6020, False), (6021, True)):
        found = refimpl.gaussian_parameters(n, 1, epsilon=1, delta="1/10", lambda_0=1, edition=PRINTED)
        assert refimpl.passes_gates(found.mean)
        assert refimpl.passes_gates(found.covariance)
        assert refimpl.passes_gates(found) == passes
        assert (failure_reason(found) is None) == passes


def test_reasons_come_from_public_numbers() -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    small = refimpl.mean_parameters(100, 1, **budget, lambda_0=2, edition=refimpl.REPAIRED)
    assert str(small.least_n) in (failure_reason(small) or "")
    # d(9k+1)/(10k) at k = 168, d = 4 is 3.602...
    for lambda_0, hopeless in (("3.602", True), ("3.603", False)):
        found = refimpl.mean_parameters(10**6, 4, **budget, lambda_0=lambda_0, edition=refimpl.REPAIRED)
        assert refimpl.passes_gates(found)
        assert ("d(9k+1)/(10k)" in (failure_reason(found) or "")) == hopeless


def test_a_hopeless_lambda_0_has_score_k() -> None:
    # lambda_{k-1} = d exactly is not hopeless: 4 rows with norms that are all d.
    cross = [[1, 0], [-1, 0], [0, 1], [0, -1]]
    k = 4
    edge = Fraction(2 * (9 * k + 1), 10 * k)
    assert refimpl.stable_second_moment(cross, edge, k).score == k - 1
    assert refimpl.stable_second_moment(cross, edge * (1 - Fraction(1, 10**20)), k).score == k


# What may be given ----------------------------------------------------------------------------------------------------


def test_strings_and_fractions_are_exact_and_floats_are_binary() -> None:
    assert as_rational("v", "1e-6") == Fraction(1, 10**6) == as_rational("v", Fraction(1, 10**6))
    assert as_rational("v", "1/3") == Fraction(1, 3) == as_rational("v", fmpq(1, 3))
    assert as_rational("v", 0.1) == Fraction(0.1) != as_rational("v", "0.1") == Fraction(1, 10)
    assert as_rational("v", np.float32(0.1)) == Fraction(float(np.float32(0.1)))
    assert as_rational("v", np.float64(0.1)) == Fraction(0.1)
    assert as_rational("v", 7) == as_rational("v", np.int8(7)) == as_rational("v", fmpz(7)) == 7
    given_as_string = refimpl.mean_parameters(
        1000, 1, epsilon="0.1", delta="1e-6", lambda_0=2, edition=refimpl.REPAIRED
    )
    given_as_float = refimpl.mean_parameters(1000, 1, epsilon=0.1, delta=1e-6, lambda_0=2.0, edition=refimpl.REPAIRED)
    assert given_as_string.epsilon == Fraction(1, 10)
    assert given_as_float.epsilon == Fraction(0.1)


BAD_REALS = [
    (None, TypeError),
    (True, TypeError),
    (np.bool_(1), TypeError),
    (1j, TypeError),
    ([1], TypeError),
    (np.array(1.0), TypeError),
    (math.nan, ValueError),
    (math.inf, ValueError),
    (-math.inf, ValueError),
    (np.float64("nan"), ValueError),
    ("", ValueError),
    ("many", ValueError),
    ("nan", ValueError),
    ("1/0", ValueError),
    ("1e1000000000", ValueError),
    ("1e-1000000000", ValueError),
    (0, ValueError),
    (-1, ValueError),
    ("-1e-9", ValueError),
]


@pytest.mark.parametrize("task", MAKE)
@pytest.mark.parametrize("name", ["epsilon", "delta", "lambda_0"])
@pytest.mark.parametrize(("value", "error"), BAD_REALS)
def test_bad_reals_are_named(task: str, name: str, value: object, error: type[Exception]) -> None:
    budget = {"epsilon": 1, "delta": "1e-6", "lambda_0": 2} | {name: value}
    with pytest.raises(error, match=rf"^{name} must"):
        MAKE[task](100, 1, **budget)


@pytest.mark.parametrize("task", MAKE)
@pytest.mark.parametrize("name", ["n", "d"])
@pytest.mark.parametrize(
    ("value", "error"), [(None, TypeError), (True, TypeError), (2.0, TypeError), ("2", TypeError), (-1, ValueError)]
)
def test_bad_sizes_are_named(task: str, name: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"^{name} must"):
        MAKE[task](**({"n": 100, "d": 1} | {name: value}), epsilon=1, delta="1e-6", lambda_0=2)


@pytest.mark.parametrize("task", MAKE)
def test_limits_of_the_domain(task: str) -> None:
    def make(**changes: Any) -> Any:
        return MAKE[task](100, 1, **({"epsilon": 1, "delta": "1e-6", "lambda_0": 2, "edition": REPAIRED} | changes))

    make(lambda_0=1)
    make(delta="999999/1000000")
    make(delta="1/10", edition=PRINTED)
    for changes, name in (
        ({"lambda_0": "0.999999"}, "lambda_0"),
        ({"epsilon": "1.000001"}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"delta": "0.100001", "edition": PRINTED}, "delta"),
    ):
        with pytest.raises(ValueError, match=rf"^{name} must"):
            make(**changes)
    for edition in ("PRINTED", None, 1):
        with pytest.raises(TypeError, match=r"^edition must"):
            make(edition=edition)
    with pytest.raises(ValueError, match=r"^d must"):
        MAKE[task](100, 0, epsilon=1, delta="1e-6", lambda_0=2)


@pytest.mark.parametrize("missing", ["epsilon", "delta", "lambda_0"])
def test_nothing_has_a_default(missing: str) -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "lambda_0": 2}
    del budget[missing]
    for make in MAKE.values():
        with pytest.raises(TypeError, match=missing):
            make(100, 1, **budget)


@tasks
def test_small_budgets_are_planned_quickly(task: str) -> None:
    # k is in the millions: an exact (1 - gamma)^(2k+1) would have as many digits.
    found = MAKE[task](10**12, 1, epsilon="1e-5", delta="1e-9", lambda_0="7/3", edition=REPAIRED)
    assert found.k > 10**6
    assert refimpl.passes_gates(found)


def test_integers() -> None:
    assert as_integer("k", np.int64(3), 1) == 3
    for value in (3.0, "3", None, True, np.bool_(1)):
        with pytest.raises(TypeError, match=r"^k must"):
            as_integer("k", value, 1)
    with pytest.raises(ValueError, match=r"^k must be at least 1, got 0"):
        as_integer("k", 0, 1)


def test_editions_stay_themselves() -> None:
    for edition in (PRINTED, REPAIRED, SHARP):
        assert pickle.loads(pickle.dumps(edition)) is edition
        assert copy.deepcopy(edition) is copy.copy(edition) is edition
        assert repr(edition) == edition.name
        with pytest.raises(dataclasses.FrozenInstanceError):
            edition.sensitivity = 1
    assert parameters.EDITIONS == {"PRINTED": PRINTED, "REPAIRED": REPAIRED, "SHARP": SHARP}


def test_bounds_that_the_editions_state() -> None:
    # E10: 10/7 lambda_0 for every k, approached as k grows; E5: 32 for 25.
    for k in (1, 2, 10, 1000):
        assert REPAIRED.goodness_factor(k, Fraction(3), 30 * k) <= Fraction(10, 7) * 3
    assert REPAIRED.goodness_factor(10**6, Fraction(1), 10**7) > Fraction(10, 7) - Fraction(1, 10**5)
    assert PRINTED.goodness_factor(5, Fraction(2), 100) == Fraction(25, 9)
    n, k, lam = 4000, 10, Fraction(2)
    gamma = Fraction(50, 9) * lam / n
    base = lam / ((1 - gamma) ** 21 * Fraction(n) ** 2)
    assert PRINTED.mean_move_squared(k, lam, n) == 25 * base / (1 - Fraction(k, n)) ** 4
    assert REPAIRED.mean_move_squared(k, lam, n) == 32 * base / (1 - Fraction(k, n)) ** 2


def test_the_noise_of_a_size_without_a_formula_is_that_of_the_least_n() -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1/10", "lambda_0": 900, "edition": REPAIRED}
    found = {n: refimpl.mean_parameters(n, 1, **budget) for n in (31, 5000, 5001)}  # gamma = 5000/n
    shown = refimpl.mean_parameters(found[31].least_n, 1, **budget).noise_scale
    assert found[31].noise_scale == found[5000].noise_scale == shown
    with ctx.workprec(1000):
        move = (
            32 * ball(5001) ** (2 * found[5001].k + 1) / (1 - ball(found[5001].k) / 5001) ** 2 * 900 / ball(5001) ** 2
        )
        assert_next_float(found[5001].noise_scale, (move * 2 * ball(120).log() * 9).sqrt())


@pytest.mark.parametrize(("n", "d", "lambda_0"), [(5001, 1, 900), (280, 3, 50)])
def test_a_scale_beyond_floats_is_shown_as_that_of_the_least_n(n: int, d: int, lambda_0: int) -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "lambda_0": lambda_0, "edition": REPAIRED}
    found = refimpl.mean_parameters(n, d, **budget)
    assert not refimpl.passes_gates(found)
    assert found.noise_scale == refimpl.mean_parameters(found.least_n, d, **budget).noise_scale
    assert math.isfinite(float(found.noise_scale))


@pytest.mark.parametrize(
    ("edition", "told"),
    [(PRINTED, r"in \(0, 1\], got 1\.5"), (REPAIRED, r"in \(0, 1\], got 1\.5"), (SHARP, "positive, got -1.5")],
)
def test_the_range_of_epsilon_is_that_of_the_edition(edition: Any, told: str) -> None:
    epsilon = "-1.5" if edition is SHARP else "1.5"
    for make in MAKE.values():
        with pytest.raises(ValueError, match=rf"^epsilon must be {told}$"):
            make(100, 1, epsilon=epsilon, delta="1e-6", lambda_0=2, edition=edition)


def test_a_lambda_0_at_the_edge_of_hope_has_no_reason_to_fail() -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "edition": REPAIRED}
    k = refimpl.mean_parameters(0, 4, **budget, lambda_0=1).k
    edge = Fraction(4 * (9 * k + 1), 10 * k)
    assert failure_reason(refimpl.mean_parameters(10**6, 4, **budget, lambda_0=edge)) is None
    assert failure_reason(refimpl.mean_parameters(10**6, 4, **budget, lambda_0=edge - Fraction(1, 10**20))) is not None


@tasks
def test_the_largest_lambda_0_is_none_where_so_many_columns_need_more(task: str) -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "edition": REPAIRED}
    k = MAKE[task](0, 1, **budget, lambda_0=1).k
    for n, largest, most in ((60 * k, 3, 3), (30 * k, Fraction(3, 2), 1), (10 * k, Fraction(1, 2), 0)):
        found = {d: refimpl.largest_lambda_0(n, **budget, task=task, d=d) for d in (None, 1, 2, 3, 4, 10)}
        assert found == {d: largest if d is None or d <= most or largest < 1 else 0 for d in found}


def test_a_reference_beyond_the_rows_is_the_one_that_is_named() -> None:
    with pytest.raises(ValueError, match=r"^reference must hold indices below n = 5, got 7$"):
        parameters.checked_reference([7, 0, 4], 5)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_longest_window_is_one_less_than_9k(k: int) -> None:
    for window in (1, 8 * k, 9 * k - 1):
        assert parameters.checked_window(window, k, REPAIRED, Fraction(1), 100) == window
    with pytest.raises(ValueError, match=rf"^window must be below 9k = {9 * k}, got {9 * k}$"):
        parameters.checked_window(9 * k, k, REPAIRED, Fraction(1), 100)
