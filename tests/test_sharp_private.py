"""The private functions of SHARP: one test with the law of a table, one stage, releases equal in both implementations."""

from __future__ import annotations

import dataclasses
import inspect
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import fastimpl
import refimpl
from fastimpl.ptr import score_passes
from refimpl.linalg import to_fraction
from refimpl.parameters import SHARP, CovarianceParameters, GaussianParameters, MeanParameters, passes_gates
from refimpl.ptr import pass_probability
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

both = pytest.mark.parametrize("implementation", [refimpl, fastimpl], ids=["refimpl", "fastimpl"])
TASKS = ("mean", "covariance", "gaussian")
each_task = pytest.mark.parametrize("task", TASKS)
LAW = tuple(Fraction(v) for v in ("1", "7/8", "1/2", "3/1024", "0"))
K, WINDOW = 4, 3
N, D = 60, 2
BITS = 1 << 256


def mean_record(n: int = N, d: int = D, lambda_0: Fraction = Fraction(8)) -> MeanParameters:
    """A record made by hand, to test the mechanics: no plan of these few rows would verify."""
    budget = (Fraction(1), Fraction(1, 10**6))
    return MeanParameters(SHARP, n, d, *budget, lambda_0, *budget, K, 0, Fraction(1, 8), 50, WINDOW, LAW)


def covariance_record(
    n: int = N, d: int = D, lambda_0: Fraction = Fraction(8), samples: int = 900
) -> CovarianceParameters:
    budget = (Fraction(1), Fraction(1, 10**6))
    return CovarianceParameters(SHARP, n, d, *budget, lambda_0, *budget, K, samples, 50, WINDOW, LAW)


def record(task: str, n: int = N, d: int = D, lambda_0: Fraction = Fraction(8)) -> Any:
    mean, covariance = mean_record(n, d, lambda_0), covariance_record(n, d, lambda_0)
    if task == "gaussian":
        return GaussianParameters(SHARP, n, d, mean.epsilon, mean.delta, lambda_0, mean, covariance)
    return mean if task == "mean" else covariance


def coins(task: str, bits: int, d: int = D, other_bits: int | None = None) -> Any:
    """Coins whose one test has these bits; the other coin of the learner has others."""
    rng = np.random.default_rng(3)
    mean = MeanCoins(TestCoin(bits, b"m"), None, rng.normal(size=d))
    covariance_bits = bits if other_bits is None else other_bits
    covariance = CovarianceCoins(TestCoin(covariance_bits, b"c"), np.tril(rng.normal(size=(d, d))) + 30 * np.eye(d))
    return {"mean": mean, "covariance": covariance, "gaussian": GaussianCoins(mean, covariance)}[task]


def outputs(result: Any) -> list[Any]:
    return [getattr(result, name) for name in ("mean", "covariance") if hasattr(result, name)]


def with_score(score: int) -> Any:
    """Rows of signs and ``score`` rows far off, each in a place of its own."""
    x = np.random.default_rng(1).choice([-1.0, 1.0], (N, D))
    for i in range(score):
        x[i] = [10.0 ** (3 + 2 * i), 10.0 ** (4 + 2 * i)]
    assert refimpl.stable_moments(x, 8, K, WINDOW).score == score
    return x


@both
@each_task
@pytest.mark.parametrize("score", range(K + 1))
def test_the_table_decides_exactly(implementation: ModuleType, task: str, score: int) -> None:
    x, p = with_score(score), LAW[score]
    given = getattr(implementation, f"private_{task}_given")
    bar = int(p * BITS)
    for bits in {0, bar - 1, bar, BITS - 1} - {-1, BITS}:
        released = outputs(given(x, record(task), coins(task, bits)))
        assert [value is not None for value in released] == [Fraction(bits, BITS) < p] * len(released)


@both
def test_the_learner_has_one_test(implementation: ModuleType) -> None:
    x, bar = with_score(2), int(LAW[2] * BITS)
    for bits, passes in ((bar - 1, True), (bar, False)):
        for other in (0, BITS - 1):
            released = outputs(
                implementation.private_gaussian_given(x, record("gaussian"), coins("gaussian", bits, D, other))
            )
            assert [value is not None for value in released] == [passes] * 2


@both
def test_the_learner_releases_what_the_halves_release(implementation: ModuleType) -> None:
    x, c = with_score(1), coins("gaussian", 0)
    learner = implementation.private_gaussian_given(x, record("gaussian"), c)
    mean = implementation.private_mean_given(x, record("mean"), c.mean)
    covariance = implementation.private_covariance_given(x, record("covariance"), c.covariance)
    np.testing.assert_array_equal(learner.mean, mean.mean)
    np.testing.assert_array_equal(learner.covariance, covariance.covariance)


@each_task
@settings(max_examples=25)
@given(st.data())
def test_both_implementations_release_the_same(task: str, data: st.DataObject) -> None:
    d = data.draw(st.integers(1, 3))
    n = data.draw(st.integers(49, 60))
    seed, bits = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0, 1 << 255, BITS - (1 << 250), BITS - 1]))
    x = np.random.default_rng(seed).integers(-6, 7, (n, d)) * 2.0 ** data.draw(st.sampled_from([0, -1074, 900, 40]))
    odd = data.draw(arrays(np.float64, (3, d), elements=st.floats(allow_nan=False, allow_infinity=False)))
    spoiled = data.draw(st.integers(0, 3))
    x[:spoiled] = odd[:spoiled]
    exact, fast = (
        outputs(getattr(i, f"private_{task}_given")(x, record(task, n, d), coins(task, bits, d)))
        for i in (refimpl, fastimpl)
    )
    assert [value is None for value in exact] == [value is None for value in fast]
    if exact[0] is not None:
        assert_close(x, exact, fast, task)


def assert_close(x: Any, exact: list[Any], fast: list[Any], task: str) -> None:
    """To 2^-40 of the size of the noise or of the draw, and two roundings; nothing is known where an output overflows."""
    sigma = refimpl.stable_moments(x, 8, K, WINDOW).covariance
    deviations = [to_fraction(sigma[i, i]) for i in range(x.shape[1])]  # squared
    for name, e, f in zip([t for t in ("mean", "covariance") if task in {t, "gaussian"}], exact, fast, strict=True):
        for index in np.ndindex(e.shape):
            if not (np.isfinite(e[index]) and np.isfinite(f[index])):
                continue
            off = abs(Fraction(float(e[index])) - Fraction(float(f[index])))
            off = max(Fraction(0), off - abs(Fraction(float(e[index]))) / 2**51 - Fraction(1, 2**1070))
            square = deviations[index[0]] if name == "mean" else deviations[index[0]] * deviations[index[1]]
            assert off**2 <= Fraction(10**4, 2**80) * square


@both
@each_task
def test_without_a_plan_it_fails(implementation: ModuleType, task: str) -> None:
    whole = record(task)
    halves = [whole.mean, whole.covariance] if task == "gaussian" else [whole]
    empty = [dataclasses.replace(half, k=0, window=None, pass_probabilities=(), least_n=70) for half in halves]
    empty = [
        dataclasses.replace(h, **({"noise_scale": Fraction(0)} if isinstance(h, MeanParameters) else {"samples": 0}))
        for h in empty
    ]
    planless = dataclasses.replace(whole, mean=empty[0], covariance=empty[1]) if task == "gaussian" else empty[0]
    assert passes_gates(whole)
    assert not passes_gates(planless)
    assert implementation.failure_reason(planless) == "n = 60 is below the least n = 70 that has a plan at lambda_0 = 8"
    released = getattr(implementation, f"private_{task}_given")(with_score(0), planless, coins(task, 0))
    assert all(value is None for value in outputs(released))


def test_other_reasons_not_to_have_a_plan() -> None:
    planless = dataclasses.replace(mean_record(), k=0, window=None, pass_probabilities=(), noise_scale=Fraction(0))
    ends = "the search ends at 65536 levels"
    for least, reason in (
        (0, f"no number of rows was found that has a plan for epsilon = 1 and delta = 1e-06: {ends}"),
        (60, "no plan for n = 60 and lambda_0 = 8 was found that stands up to its verification"),
    ):
        assert refimpl.failure_reason(dataclasses.replace(planless, least_n=least)) == reason


@both
def test_a_last_threshold_below_d_plus_1_is_a_public_reason(implementation: ModuleType) -> None:
    # lambda_{k-1} = n lambda_0/(n - 3 lambda_0)
    tight, loose = mean_record(lambda_0=Fraction(60, 23) - Fraction(1, 10**9)), mean_record(lambda_0=Fraction(60, 23))
    assert SHARP.outlier_threshold(Fraction(60, 23), K, N, K - 1) == D + 1
    assert implementation.failure_reason(loose) is None
    assert "d + 1 = 3" in (implementation.failure_reason(tight) or "")
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]] * 15)
    assert refimpl.stable_moments(x, tight.lambda_0, K, WINDOW).score == K
    assert refimpl.stable_moments(x, loose.lambda_0, K, WINDOW).score == K - 1  # every norm is 3: the bound is reached


@both
@each_task
def test_a_record_with_impossible_levels_is_refused(implementation: ModuleType, task: str) -> None:
    longer = [
        dataclasses.replace(half, window=5) for half in (mean_record(), covariance_record())
    ]  # 8 levels: 60 < 8 * 8
    bad = dataclasses.replace(record("gaussian"), mean=longer[0], covariance=longer[1])
    bad = {"mean": longer[0], "covariance": longer[1], "gaussian": bad}[task]
    with pytest.raises(ValueError, match="window"):
        getattr(implementation, f"private_{task}_given")(with_score(0), bad, coins(task, 0))


@both
def test_a_learner_without_draws_fails(implementation: ModuleType) -> None:
    half = dataclasses.replace(covariance_record(), samples=0)
    found = implementation.private_gaussian_given(
        with_score(0), dataclasses.replace(record("gaussian"), covariance=half), coins("gaussian", 0)
    )
    assert outputs(found) == [None, None]


# Coins ----------------------------------------------------------------------------------------------------------------


@each_task
def test_both_implementations_draw_the_same_coins(task: str) -> None:
    exact, fast = (
        getattr(i, f"draw_{task}_coins")(record(task), np.random.default_rng(7)) for i in (refimpl, fastimpl)
    )
    halves = [(exact.mean, fast.mean), (exact.covariance, fast.covariance)] if task == "gaussian" else [(exact, fast)]
    for e, f in halves:
        assert e.test == f.test
        np.testing.assert_array_equal(e.normals, f.normals)
        assert getattr(e, "reference", None) is getattr(f, "reference", None) is None


def test_halves_and_tasks_share_no_randomness() -> None:
    drawn = [getattr(refimpl, f"draw_{task}_coins")(record(task), np.random.default_rng(7)) for task in TASKS]
    tests = [drawn[0].test, drawn[1].test, drawn[2].mean.test, drawn[2].covariance.test]
    assert len({test.bits for test in tests}) == 4


@both
@pytest.mark.parametrize(("d", "samples"), [(1, 1), (2, 3), (3, 2), (4, 50)])
def test_the_factor_has_the_law_of_the_draws(implementation: ModuleType, d: int, samples: int) -> None:
    """A A^T against sums of N squares of normals: the last diagonal entry, an off-diagonal one, the trace."""
    p = covariance_record(d=d, samples=samples)
    rng = np.random.default_rng(11)
    count = 800
    factors = [implementation.draw_covariance_coins(p, rng).normals for _ in range(count)]
    drawn = np.array([a @ a.T for a in factors])
    wanted = np.array([z.T @ z for z in rng.normal(size=(count, samples, d))])
    assert all(np.array_equal(a, np.tril(a)) for a in factors)
    for summary in (lambda m: m[-1, -1], lambda m: m[-1, 0], np.trace, np.linalg.norm):
        found = stats.ks_2samp([summary(m) for m in drawn], [summary(m) for m in wanted])
        assert found.pvalue > 1e-4


def test_a_bartlett_release_is_l_a_a_t_l_t_over_n() -> None:
    covariance = [[4, 2], [2, 10]]  # L = [[2, 0], [1, 3]]
    a = np.array([[1.5, 0.0], [-0.25, 2.0]])
    released = refimpl.bartlett_release(covariance, 8, a)
    root = np.array([[2.0, 0.0], [1.0, 3.0]]) @ a
    np.testing.assert_array_equal(released, root @ root.T / 8)
    np.testing.assert_array_equal(fastimpl.wishart_release(np.array(covariance), 8, a), released)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("samples", lambda: refimpl.bartlett_release([[1]], 0, [[1.0]])),
        ("normals", lambda: refimpl.bartlett_release([[1]], 2, [[1.0], [2.0]])),
        ("covariance", lambda: refimpl.bartlett_release([[-1]], 2, [[1.0]])),
    ],
)
def test_a_bad_bartlett_release_is_named(argument: str, call: Any) -> None:
    with pytest.raises(ValueError, match=argument):
        call()


@both
def test_coins_of_other_editions_are_refused(implementation: ModuleType) -> None:
    x, good = with_score(0), coins("gaussian", 0)
    for reference in ((), (0, 1)):
        bad = dataclasses.replace(good.mean, reference=reference)
        with pytest.raises(ValueError, match="reference must be None"):
            implementation.private_mean_given(x, record("mean"), bad)
        with pytest.raises(ValueError, match="reference must be None"):
            implementation.private_gaussian_given(x, record("gaussian"), dataclasses.replace(good, mean=bad))
    for normals in (np.zeros(3), np.array([0.0, np.nan])):
        with pytest.raises(ValueError, match="normals"):
            implementation.private_mean_given(x, record("mean"), dataclasses.replace(good.mean, normals=normals))
    for normals in (np.zeros((900, 2)), np.full((2, 2), np.inf)):
        bad_covariance = dataclasses.replace(good.covariance, normals=normals)
        with pytest.raises(ValueError, match="normals"):
            implementation.private_covariance_given(x, record("covariance"), bad_covariance)
        with pytest.raises(ValueError, match="normals"):
            implementation.private_gaussian_given(
                x, record("gaussian"), dataclasses.replace(good, covariance=bad_covariance)
            )
    paper = implementation.mean_parameters(N, D, epsilon=1, delta="1e-6", lambda_0=2, edition=refimpl.REPAIRED)
    with pytest.raises(ValueError, match="reference must hold"):
        implementation.private_mean_given(x, paper, good.mean)


# Made records ---------------------------------------------------------------------------------------------------------


@both
@each_task
def test_a_made_record_stands_for_its_numbers(implementation: ModuleType, task: str) -> None:
    x, p = with_score(0), record(task)
    private = getattr(implementation, f"private_{task}")
    released = private(x, parameters=p, rng=np.random.default_rng(5))
    assert released.parameters is p
    given = getattr(implementation, f"private_{task}_given")
    drawn = getattr(implementation, f"draw_{task}_coins")(p, np.random.default_rng(5))
    for a, b in zip(outputs(released), outputs(given(x, p, drawn)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert {f.name for f in dataclasses.fields(released)} <= {"mean", "covariance", "parameters"}


@both
@each_task
def test_numbers_and_a_record_exclude_each_other(implementation: ModuleType, task: str) -> None:
    x, p = with_score(0), record(task)
    private = getattr(implementation, f"private_{task}")
    for name, value in (("epsilon", 1), ("delta", "1e-6"), ("lambda_0", 8), ("edition", refimpl.PRINTED)):
        with pytest.raises(TypeError, match=rf"parameters .*{name}"):
            private(x, parameters=p, **{name: value})
    for missing in ("epsilon", "delta", "lambda_0"):
        numbers = {"epsilon": 1, "delta": "1e-6", "lambda_0": 8}
        del numbers[missing]
        with pytest.raises(TypeError, match=missing):
            private(x, **numbers)
    with pytest.raises(TypeError, match=r"epsilon and delta and lambda_0"):
        private(x)
    others = [record(other) for other in TASKS if other != task]
    for wrong in (*others, {"k": 1}, "sharp"):
        with pytest.raises(TypeError, match="parameters"):
            private(x, parameters=wrong)
    with pytest.raises(ValueError, match="60 x 2"):
        private(x[1:], parameters=p)


@both
def test_a_record_of_another_edition_serves_too(implementation: ModuleType) -> None:
    x = np.random.default_rng(2).normal(size=(400, 1))
    p = implementation.mean_parameters(400, 1, epsilon=1, delta="1e-3", lambda_0=2)
    by_record = implementation.private_mean(x, parameters=p, rng=np.random.default_rng(1))
    by_numbers = implementation.private_mean(x, epsilon=1, delta="1e-3", lambda_0=2, rng=np.random.default_rng(1))
    assert by_record.parameters == by_numbers.parameters
    assert by_record.mean is by_numbers.mean is None  # far too few rows
    printed = implementation.mean_parameters(400, 1, epsilon=1, delta="1e-3", lambda_0=2, edition=refimpl.PRINTED)
    with pytest.warns(refimpl.PrintedEditionWarning) as warned:
        implementation.private_mean(x, parameters=printed)
    assert warned[0].filename == __file__


def test_the_two_ways_are_overloads() -> None:
    for implementation in (refimpl, fastimpl):
        for task in TASKS:
            names = list(inspect.signature(getattr(implementation, f"private_{task}")).parameters)
            assert names == ["x", "epsilon", "delta", "lambda_0", "edition", "rng", "parameters"]


# The law --------------------------------------------------------------------------------------------------------------


@both
def test_the_laws_formula_is_not_sharps(implementation: ModuleType) -> None:
    for call in (
        lambda: implementation.ptr_pass_probability(1, 1, "1e-6", edition=SHARP),
        lambda: implementation.ptr_pass_probability_at_growth(1, 2, "1e-6", edition=SHARP),
    ):
        with pytest.raises(ValueError, match="edition"):
            call()


def test_a_score_of_k_never_passes_whatever_the_table_says() -> None:
    careless = dataclasses.replace(mean_record(), pass_probabilities=(Fraction(1),) * 9)
    assert [pass_probability(z, careless) for z in (0, K - 1, K, 8, 10**9)] == [1, 1, 0, 0, 0]
    short = dataclasses.replace(mean_record(), pass_probabilities=LAW[:2])
    assert pass_probability(3, short) == 0
    coin = TestCoin(0, b"")
    assert [score_passes(z, careless, coin) for z in (0, K - 1, K, 8, 10**9)] == [True, True, False, False, False]
    assert [score_passes(z, short, coin) for z in (1, 2, 3)] == [True, False, False]
    for implementation in (refimpl, fastimpl):
        assert implementation.private_mean_given(with_score(4), careless, coins("mean", 0)).mean is None
    paper = refimpl.mean_parameters(10, 1, epsilon=1, delta="1e-6", lambda_0=2, edition=refimpl.REPAIRED)
    assert pass_probability(3, paper) == refimpl.ptr_pass_probability(3, paper.test_epsilon, paper.test_delta)
