"""SHARP's parameters: the numbers of a verified plan, what is refused, and lambda_0 for Gaussian rows."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastimpl
import refimpl
from refimpl import parameters
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
    from refimpl import plan as planning  # noqa: PLC0415 - the module whose verdict is replaced

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
