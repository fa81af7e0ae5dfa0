"""SHARP's parameters: the numbers of a verified plan, what is refused, and lambda_0 for Gaussian rows."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import ctx
from scipy import stats
from scipy.special import betainccinv

import fastimpl
import refimpl
from refimpl import parameters
from refimpl import plan as planning
from refimpl.parameters import (
    PRINTED,
    REPAIRED,
    SHARP,
    check_request,
    chosen_lambda_0,
    failure_reason,
    gaussian_lambda_0,
    largest_lambda_0,
    passes_gates,
    plan_verification,
)

MAKE: dict[str, Any] = {
    "mean": refimpl.mean_parameters,
    "covariance": refimpl.covariance_parameters,
    "gaussian": refimpl.gaussian_parameters,
}
each_task = pytest.mark.parametrize("task", list(MAKE))
ASKED: dict[str, Any] = {"epsilon": 1, "delta": "1/50", "lambda_0": 10, "edition": SHARP}
N, D = 900, 2
FEW = 150  # rows that have no plan


def parts(record: Any) -> list[Any]:
    return [record.mean, record.covariance] if hasattr(record, "mean") else [record]


@each_task
def test_a_record_holds_one_verified_plan(task: str) -> None:
    record = MAKE[task](N, D, **ASKED)
    assert passes_gates(record)
    assert failure_reason(record) is None
    verdict = plan_verification(record)
    assert verdict is not None
    assert verdict.holds
    assert verdict.worst_ratio <= 1
    assert len({(p.k, p.window, p.pass_probabilities, p.least_n) for p in parts(record)}) == 1
    for p in parts(record):
        assert (p.edition, p.n, p.d, p.lambda_0) == (SHARP, N, D, 10)
        assert (p.epsilon, p.delta) == (p.test_epsilon, p.test_delta) == (1, Fraction(1, 50))
        assert len(p.pass_probabilities) == p.k + 1
        assert (p.pass_probabilities[0], p.pass_probabilities[-1], p.assumption) == (1, 0, None)
        assert getattr(p, "reference_size", 0) == 0
        assert getattr(p, "noise_scale", 1) > 0
        assert getattr(p, "samples", 1) >= 1
    assert pickle.loads(pickle.dumps(record)) == record


@each_task
def test_numbers_that_were_tampered_with_do_not_verify(task: str) -> None:
    record = MAKE[task](N, D, **ASKED)
    quieter = {
        "noise_scale": lambda p: {"noise_scale": p.noise_scale * 99 / 100},
        "samples": lambda p: {"samples": p.samples * 102 // 100},
    }
    for name, change in quieter.items():
        changed = [dataclasses.replace(p, **change(p)) if hasattr(p, name) else p for p in parts(record)]
        if changed == parts(record):
            continue
        bold = dataclasses.replace(record, mean=changed[0], covariance=changed[1]) if task == "gaussian" else changed[0]
        verdict = plan_verification(bold)
        assert verdict is not None
        assert not verdict.holds


@each_task
def test_without_a_plan_there_are_no_numbers_and_a_reason(task: str) -> None:
    for n in (0, 1, 2, FEW):
        record = MAKE[task](n, D, **ASKED)
        assert not passes_gates(record)
        assert plan_verification(record) is None
        assert (failure_reason(record) or "").startswith(f"n = {n} is below the least n = {parts(record)[0].least_n} ")
        for p in parts(record):
            assert (p.k, p.window, p.pass_probabilities) == (0, None, ())
            assert getattr(p, "noise_scale", 0) == getattr(p, "samples", 0) == 0


@each_task
def test_the_least_n_has_a_plan_and_one_row_less_has_none(task: str) -> None:
    least = parts(MAKE[task](FEW, D, **ASKED))[0].least_n
    assert failure_reason(MAKE[task](least, D, **ASKED)) is None
    assert "least n" in (failure_reason(MAKE[task](least - 1, D, **ASKED)) or "")


def test_a_plan_that_does_not_verify_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "_verification", lambda *_: planning.Verification(False, "because"))
    record = refimpl.mean_parameters(N + 1, D, **ASKED)
    assert not passes_gates(record)
    assert (record.k, record.noise_scale) == (0, 0)
    assert (failure_reason(record) or "").endswith("was found that stands up to its verification")


def test_records_are_remembered() -> None:
    first = refimpl.mean_parameters(N, D, **ASKED)
    hits = parameters._verified_plan.cache_info().hits
    assert refimpl.mean_parameters(N, D, **(ASKED | {"epsilon": Fraction(1), "lambda_0": "10"})) == first
    assert parameters._verified_plan.cache_info().hits == hits + 1


def test_verification_speaks_of_sharp_records_only() -> None:
    for edition in (PRINTED, REPAIRED):
        with pytest.raises(ValueError, match="edition"):
            plan_verification(refimpl.mean_parameters(N, D, **(ASKED | {"edition": edition})))
    learner = refimpl.gaussian_parameters(N, D, **ASKED)
    other = dataclasses.replace(learner.mean, k=learner.mean.k - 1)
    with pytest.raises(ValueError, match="differ in k"):
        plan_verification(dataclasses.replace(learner, mean=other))


@pytest.mark.parametrize("task", ["mean", "covariance"])
def test_the_largest_lambda_0_has_a_plan_and_hardly_more_has_none(task: str) -> None:
    largest = largest_lambda_0(N, epsilon=1, delta="1/50", edition=SHARP, task=task)
    assert 10 < largest < N
    assert failure_reason(MAKE[task](N, D, **(ASKED | {"lambda_0": largest}))) is None
    assert "least n" in (failure_reason(MAKE[task](N, D, **(ASKED | {"lambda_0": largest * Fraction(101, 100)}))) or "")
    assert largest_lambda_0(15, epsilon=1, delta="1/50", edition=SHARP, task=task) == 0


def test_there_is_no_condition_on_epsilon() -> None:
    record = refimpl.mean_parameters(600, 1, epsilon=3, delta="1/4", lambda_0=10, edition=SHARP)
    assert failure_reason(record) is None
    with pytest.raises(ValueError, match="epsilon must be positive"):
        refimpl.mean_parameters(600, 1, epsilon=0, delta="1/4", lambda_0=10, edition=SHARP)


# Lambda_0 for Gaussian rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(98_000, 10), (1_000_000, 50), (5000, 1), (100, 3), (40, 30), (5, 3)])
@pytest.mark.parametrize("failure", ["1e-2", "1e-9", "0.5"])
def test_the_gaussian_lambda_0_is_the_quantile_rounded_up(n: int, d: int, failure: str) -> None:
    lam = gaussian_lambda_0(n, d, failure)
    share = Fraction(failure) / n
    law = stats.beta(d / 2, (n - d - 1) / 2)
    exact = 1 + (n - 1) * law.isf(float(share))
    assert lam * 1000 == int(lam * 1000) or lam == n
    assert exact * (1 - 1e-9) <= float(lam) <= min(n, exact * (1 + 1e-9) + 0.00101)


def test_the_gaussian_lambda_0_is_reached_as_often_as_it_says() -> None:
    # With failure 0.5 the union bound is nearly the truth: between P = 0.39 (independent rows) and 0.5.
    n, d = 300, 2
    lam = gaussian_lambda_0(n, d, "0.5")
    rng = np.random.default_rng(1)
    count, above = 1500, 0
    for _ in range(count):
        z = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, d)) @ np.array([[1.0, 5.0], [0.0, 0.1]]) + 7], axis=1)
        above += n * np.einsum("ij,ij->i", z @ np.linalg.inv(z.T @ z), z).max() > lam
    assert stats.binomtest(int(above), count, 0.5, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(int(above), count, 0.36, alternative="less").pvalue > 1e-6


def test_with_the_gaussian_lambda_0_the_score_is_0() -> None:
    x = np.random.default_rng(2).normal(size=(2000, 3))
    lam = gaussian_lambda_0(2000, 3, "1e-4")
    assert fastimpl.stable_moments(x, lam, 5, 5).score == 0


def test_too_few_rows_for_a_law_have_the_bound_that_always_holds() -> None:
    for n, d in ((0, 1), (1, 1), (2, 1), (4, 3), (4, 7)):
        assert gaussian_lambda_0(n, d) == max(n, 1)


def test_gaussian_is_a_lambda_0_and_the_record_says_what_it_assumed() -> None:
    lam = gaussian_lambda_0(N, D)
    assert chosen_lambda_0("gaussian", N, D)[0] == chosen_lambda_0("gaussian:1/100", N, D)[0] == lam
    assert chosen_lambda_0("3", N, D) == (3, None)
    asked = ASKED | {"lambda_0": "gaussian"}
    for record in (refimpl.mean_parameters(N, D, **asked), refimpl.gaussian_parameters(N, D, **asked)):
        assert record.lambda_0 == lam
        assert record.assumption == "the rows are Gaussian: then the score is 0 except with probability at most 0.01"
    x = np.random.default_rng(3).normal(size=(N, D))
    released = fastimpl.private_mean(x, epsilon=1, delta="1/50", lambda_0="gaussian", edition=SHARP)
    assert released.mean is not None
    assert released.parameters.lambda_0 == lam
    assert released.parameters.assumption
    for edition in (PRINTED, REPAIRED):
        with pytest.raises(ValueError, match="lambda_0 must be a number"):
            refimpl.mean_parameters(N, D, **(asked | {"edition": edition}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", "x"),
        ("delta", 1),
        ("lambda_0", "1/2"),
        ("lambda_0", "gauss"),
        ("lambda_0", "gaussian:"),
        ("failure_probability", "gaussian:1"),
        ("lambda_0", "gaussian:-"),
        ("lambda_0", None),
    ],
)
def test_a_bad_number_is_named_before_any_work(name: str, value: Any) -> None:
    argument = "lambda_0" if name == "failure_probability" else name
    asked = ASKED | {argument: value}
    if value == "gaussian:":  # the same as "gaussian"
        check_request(**asked)
        return
    for call in (lambda: check_request(**asked), lambda: refimpl.mean_parameters(N, D, **asked)):
        with pytest.raises((TypeError, ValueError), match=name):
            call()


@pytest.mark.parametrize(
    ("n", "d", "failure"), [(-1, 1, "0.1"), (5, 0, "0.1"), (5, 1, 0), (5, 1, 1), (5, 1, "x"), (1.5, 1, "0.1")]
)
def test_a_bad_gaussian_question_is_named(n: Any, d: Any, failure: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^(n|d|failure_probability) "):
        gaussian_lambda_0(n, d, failure)


@pytest.mark.parametrize("failure", ["-1/10", "11/10", 2])
def test_a_failure_probability_outside_0_and_1_is_named(failure: Any) -> None:
    for n in (2, 100):
        with pytest.raises(ValueError, match=rf"^failure_probability must be in \(0, 1\), got {failure}$"):
            gaussian_lambda_0(n, 1, failure)


@pytest.mark.parametrize(("n", "d", "probability"), [(1000, 3, "1e-7"), (300, 2, "1/600"), (40, 30, "1/4")])
def test_how_rare_a_share_is_comes_from_an_enclosure(n: int, d: int, probability: str) -> None:
    with mpmath.workdps(60):
        a, b, most = mpmath.mpf(d) / 2, mpmath.mpf(n - d - 1) / 2, mpmath.mpmathify(Fraction(probability))
        near = stats.beta(d / 2, (n - d - 1) / 2).isf(float(most))
        root = mpmath.findroot(
            lambda share: mpmath.betainc(b, a, 0, 1 - share, regularized=True) - most,
            (near * (1 - 1e-6), near * (1 + 1e-6)),
            solver="anderson",
        )
        quantile = Fraction(mpmath.nstr(root, 50))
    for share, rare in ((0, False), (quantile - Fraction(1, 10**30), False), (quantile + Fraction(1, 10**30), True)):
        assert parameters._is_rare(Fraction(share), n, d, Fraction(probability)) is rare
    assert parameters._is_rare(Fraction(1), n, d, Fraction(1, 10**400))


def test_the_precision_around_does_not_matter_to_how_rare_a_share_is() -> None:
    right = gaussian_lambda_0(10**6, 2)
    with ctx.workprec(30):
        assert gaussian_lambda_0(10**6, 2) == right


@pytest.mark.parametrize("n", [10**13, 10**16])
def test_the_gaussian_lambda_0_of_very_many_rows_comes_to_an_end_and_is_rare_enough(n: int) -> None:
    found = gaussian_lambda_0(n, 2)
    share = (found - 1) / (n - 1)
    below = (found - Fraction(1, 1000) - 1) / (n - 1)
    with mpmath.workdps(60):  # for d = 2, B exceeds a share with probability (1 - share)^((n-3)/2)
        logs = [mpmath.log1p(-mpmath.mpmathify(s)) * (n - 3) / 2 for s in (share, below)]
        bar = mpmath.log(mpmath.mpf(1) / (100 * n))
        assert logs[0] <= bar
        assert n > 10**13 or logs[1] > bar  # the least in thousandths, where a float is as fine as these


@pytest.mark.parametrize("short", [1e-3, 2e-3, 3e-3])
def test_a_float_that_is_low_does_not_make_the_gaussian_lambda_0_low(
    monkeypatch: pytest.MonkeyPatch, short: float
) -> None:
    n, d = 100, 3
    right = gaussian_lambda_0(n, d, "1e-3")
    monkeypatch.setattr(parameters, "betainccinv", lambda *given: betainccinv(*given) - short / (n - 1))
    assert gaussian_lambda_0(n, d, "1e-3") == right


# What a record says ---------------------------------------------------------------------------------------------------


def by_hand(**changes: Any) -> Any:
    """A record of the mean with a plan that nobody searched for."""
    numbers: Any = (1, Fraction(1, 50), Fraction(2), 1, Fraction(1, 50), 2, 0, Fraction(1), "mean")
    numbers += (3, (Fraction(1), Fraction(1, 100), Fraction(0)))
    record = refimpl.MeanParameters(SHARP, 6000, 1, *numbers)
    return dataclasses.replace(record, **({"least_n": "mean"} | changes))


@pytest.mark.parametrize(("found", "told"), [(640, 640), (5999, 5999), (6000, 6000), (6001, 6000), (0, 6000)])
def test_the_least_n_of_a_plan_is_what_was_found_and_not_above_n(
    monkeypatch: pytest.MonkeyPatch, found: int, told: int
) -> None:
    monkeypatch.setattr(parameters, "_least_planned_n", lambda *_: found)
    assert by_hand().least_n == told
    assert by_hand(k=0, window=None, noise_scale=Fraction(0)).least_n == found


@pytest.mark.parametrize("found", [None, 640])
def test_the_least_n_of_a_task_is_0_where_there_is_none(monkeypatch: pytest.MonkeyPatch, found: int | None) -> None:
    monkeypatch.setattr(planning, "least_n", lambda *_: found)
    planless = by_hand(
        k=0, window=None, pass_probabilities=(), noise_scale=Fraction(0), lambda_0=Fraction(9001 + bool(found))
    )
    assert planless.least_n == (found or 0)
    assert ("no number of rows" in (failure_reason(planless) or "")) is (found is None)


@pytest.mark.parametrize(("ratio", "lambda_0", "least"), [("7/2", "1", 4), ("7/2", "2", 7), ("7/2", "99/100", None)])
def test_the_least_n_is_the_least_ratio_times_lambda_0(
    monkeypatch: pytest.MonkeyPatch, ratio: str, lambda_0: str, least: int | None
) -> None:
    monkeypatch.setattr(planning, "least_ratio", lambda *_: Fraction(ratio))
    assert planning.least_n("mean", 1, Fraction(1), Fraction(1, 50), Fraction(lambda_0)) == least


def test_a_plan_of_one_level_is_judged_and_no_level_is_no_plan() -> None:
    one = plan_verification(by_hand(k=1, pass_probabilities=(Fraction(1), Fraction(0))))
    assert one is not None
    assert one.reason == "condition (a) was not shown at score 0"
    none = by_hand(k=0, pass_probabilities=(Fraction(1),))
    assert not passes_gates(none)
    assert plan_verification(none) is None


def test_the_two_halves_of_a_learner_hold_one_plan_in_either_order() -> None:
    mean = by_hand()
    shared = {f.name for f in dataclasses.fields(refimpl.CovarianceParameters)} - {"samples", "least_n"}
    numbers: dict[str, Any] = {name: getattr(mean, name) for name in shared} | {"samples": 1, "least_n": 0}
    covariance = refimpl.CovarianceParameters(**numbers)
    changes: tuple[dict[str, Any], ...] = (
        {"k": 1},
        {"k": 3},
        {"window": 2},
        {"window": 4},
        {"pass_probabilities": (1, 0)},
    )
    for change in changes:
        for halves in ((by_hand(**change), covariance), (mean, dataclasses.replace(covariance, **change))):
            whole = refimpl.GaussianParameters(SHARP, 6000, 1, Fraction(1), Fraction(1, 50), Fraction(2), *halves)
            with pytest.raises(ValueError, match="differ in k, window or law"):
                plan_verification(whole)


def test_a_lambda_0_of_1_is_the_least() -> None:
    assert chosen_lambda_0("1", 5, 1) == (Fraction(1), None)
    check_request(**ASKED | {"lambda_0": 1})
    with pytest.raises(ValueError, match=r"^lambda_0 must be at least 1, got 0\.999$"):
        check_request(**ASKED | {"lambda_0": "0.999"})


def test_fewer_than_no_rows_have_no_largest_lambda_0() -> None:
    with pytest.raises(ValueError, match="n must be at least 0, got -1"):
        largest_lambda_0(-1, epsilon=1, delta="1/50", edition=SHARP)


# The bounds of a plan, exactly ----------------------------------------------------------------------------------------


def test_the_gate_is_its_conditions_and_no_more() -> None:
    lambdas = map(Fraction, ("99/100", "1", "10", "3/2"))
    for n, lambda_0, k, window in product((5, 12, 13, 29, 40), lambdas, range(6), (0, 1, 2, 3, 7)):
        told = planning.gate_failure(n, lambda_0, k, window)
        if lambda_0 < 1 or min(k, window) < 1:
            assert told == (
                f"lambda_0 must be at least 1, got {lambda_0}"
                if lambda_0 < 1
                else f"k and window must be at least 1, got {k} and {window}"
            )
            continue
        left = n / lambda_0 - (k + window - 1)
        rest = left - (k - 1) * (1 - Fraction(1, window))  # 1/s_t(k-1)
        if left <= 0:
            expected = "n - (k + window - 1) lambda_0 must be positive"
        elif rest <= 0:
            expected = "H - t - (k - 1)(1 - 1/window) must be positive"
        elif max(1 / (n / lambda_0 - k), 1 / (window * rest)) + (k - 1) / (window * rest) >= 1:
            expected = "the covariance may change by its whole"
        else:
            assert told is None
            continue
        assert told == f"{expected}, with n = {n}, k = {k}, window = {window}"


def test_the_weighted_radius_of_small_shapes_is_the_maximum_over_all_levels() -> None:
    shapes = product(range(5, 14), (Fraction(1), Fraction(13, 10)), range(2, 5), range(1, 5))
    for n, lambda_0, k, window in shapes:
        if planning.gate_failure(n, lambda_0, k, window) is None:
            for r in range(1, k):
                shares = (planning.row_share(n, lambda_0, k, window, k + j, r) for j in range(window))
                most = max(Fraction(window - j, window) ** 2 * (n * share - 1) for j, share in enumerate(shares))
                assert planning._radius_squared(n, lambda_0, k, window, r) == most


@pytest.mark.parametrize(
    ("n", "lambda_0", "k", "window"),
    [(40, "2", 5, 7), (600, "1.01", 2, 20), (97, "3.7", 5, 2), (980, "2", 97, 200)],
)
def test_the_move_holds_up_to_the_last_score(n: int, lambda_0: str, k: int, window: int) -> None:
    with mpmath.workdps(60):
        h = mpmath.mpmathify(n / Fraction(lambda_0))
        for z in {0, 1, k - 2, k - 1}:
            r = min(z + 1, k - 1)
            omega = [1 - mpmath.mpf(j) / window for j in range(window)]
            shares = [1 / (h - k - j - (1 - o) * r) for j, o in enumerate(omega)]
            radii = [mpmath.sqrt(n * share - 1) for share in shares]
            inner, other = max(o * radius for o, radius in zip(omega, radii, strict=True)), max(radii) / window
            moves = []
            for others, outer in [(z, mpmath.sqrt(n / (h - z) - 1)), *([(z - 1, inner)] if z else [])]:
                change = max(o * share for o, share in zip(omega, shares, strict=True)) + others * max(shares) / window
                v = 1 / mpmath.sqrt(1 - change)
                moves.append((max(outer * v + inner, outer + inner * v) + others * other * v) / (n - 1 - others))
            lower, upper = planning.mean_move(n, Fraction(lambda_0), k, window, z)
            assert (
                mpmath.mpmathify(lower)
                <= max(moves)
                <= mpmath.mpmathify(upper)
                <= (1 + mpmath.mpf(2) ** -90) * max(moves)
            )


# A plan by hand, and why it is refused --------------------------------------------------------------------------------


def verdict_on(law: tuple[Any, ...], noise_scale: Any = 1, samples: int | None = None, **changes: Any) -> Any:
    given: dict[str, Any] = {"n": 6000, "d": 1, "epsilon": 1, "delta": "1/50", "lambda_0": 2} | changes
    n, d = given.pop("n"), given.pop("d")
    c = None if noise_scale is None else Fraction(noise_scale)
    made = planning.Plan(given.pop("k", len(law) - 1), 3, tuple(map(Fraction, law)), c, samples)
    return planning.verify_plan(made, n, d, *(Fraction(value) for value in given.values()))


@pytest.mark.parametrize(
    "change",
    [{"d": 0}, *({"epsilon": e} for e in ("0", "-1/2", "-1")), *({"delta": p} for p in ("0", "-1/2", "1", "3/2", "2"))],
)
def test_numbers_out_of_range_are_named_before_any_condition(change: dict[str, Any]) -> None:
    verdict = verdict_on((1, "1/100", 0), **change)
    assert verdict.reason == "a plan needs d >= 1, epsilon > 0 and 0 < delta < 1"
    assert verdict.loss_ratios == verdict.gain_ratios == ()


@pytest.mark.parametrize(
    ("law", "noise_scale", "samples", "k", "told"),
    [
        ((1, "1/100", 0), None, None, 2, "something to release"),
        ((1, "1/100", 0), 0, None, 2, "noise_scale > 0"),
        ((1, "1/100", 0), -1, None, 2, "noise_scale > 0"),
        ((1, "1/100", 0), None, 0, 2, "samples >= 1"),
        ((1, 0), 1, None, 2, "pass_probabilities from p_0 = 1 to p_k = 0"),
        ((1, "1/100", "1/100", 0), 1, None, 2, "pass_probabilities from p_0 = 1 to p_k = 0"),
        ((1, "1/100", "-1/100"), 1, None, 2, "pass_probabilities from p_0 = 1 to p_k = 0"),
        ((1, "1/4", "1/2", 0), 1, None, 3, "pass_probabilities that do not rise"),
    ],
)
def test_what_a_plan_lacks_is_named(law: Any, noise_scale: Any, samples: int | None, k: int, told: str) -> None:
    verdict = verdict_on(law, noise_scale, samples, k=k)
    assert verdict.reason == f"a plan needs {told}"


@pytest.mark.parametrize(
    ("law", "noise_scale", "score"),
    [
        ((1, 0), 1, 0),
        ((1, 1, 0), 1, 1),
        ((1, 1, 1, 0), 1, 2),
        ((1, 1, 1, 0), "1e-4", 0),
    ],
)
def test_the_first_score_that_fails_is_named_and_equal_probabilities_are_no_fault(
    law: Any, noise_scale: Any, score: int
) -> None:
    verdict = verdict_on(law, noise_scale)
    assert verdict.reason == f"condition (a) was not shown at score {score}"
    last = 50 * Fraction(law[-2])  # p_{k-1}/delta
    assert last <= Fraction(verdict.loss_ratios[-1]) <= last * (1 + Fraction(1, 2**50))


def test_where_b_follows_from_a_its_ratio_is_that_of_a() -> None:
    verdict = verdict_on((1, "3/4", "5/8", 0), "1/1000")
    assert verdict.gain_ratios[1] == verdict.loss_ratios[1] != verdict.loss_ratios[0]  # 3/8 <= e/4
    assert verdict.gain_ratios[0] > 12.5  # (1/4)/delta, and what the release adds


@pytest.mark.parametrize("d", [1, 2])
def test_mean_and_draws_together_lose_far_more_than_either(d: int) -> None:
    releases = (("1/1000", None), (None, 10**6), ("1/1000", 10**6))
    mean, draws, both = (verdict_on((1, "3/4", "5/8", 0), *release, d=d).loss_ratios[0] for release in releases)
    assert 0.13 < mean < 0.14
    assert (0.006 if d == 1 else 0.13) < draws < mean
    assert both > 3 * mean
