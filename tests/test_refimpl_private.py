"""Algorithms 1, 5.1 and 5.2: coins decide exactly, releases are correctly rounded, and nothing else comes out."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import oracle
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

import refimpl
from refimpl import private
from refimpl.parameters import PRINTED, REPAIRED
from refimpl.results import CovarianceCoins, MeanCoins, TestCoin

TOP = 1 << 256
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "9/10", "lambda_0": "11/10"}
N = 600
MEAN = refimpl.mean_parameters(N, 1, **BUDGET, edition=refimpl.REPAIRED)
COVARIANCE = refimpl.covariance_parameters(N, 1, **BUDGET, edition=refimpl.REPAIRED)
GAUSSIAN = refimpl.gaussian_parameters(N, 1, **BUDGET, edition=refimpl.REPAIRED)


def paired(outliers: int, n: int = N) -> NDArray[np.float64]:
    """Zeros and ones, each with a partner of the other kind, and some pairs that are far from them: so many as the score."""
    x = np.array([[i % 2, 1 - i % 2] for i in range(n // 2)], dtype=np.float64).T.reshape(n, 1)
    x[:outliers] = 1000
    return x


def mean_coins(bits: int, parameters: Any = MEAN, seed: int = 3) -> MeanCoins:
    drawn = refimpl.draw_mean_coins(parameters, np.random.default_rng(seed))
    return dataclasses.replace(drawn, test=TestCoin(bits, drawn.test.seed), seed=None)  # the floats are the numbers


def covariance_coins(bits: int, parameters: Any = COVARIANCE) -> CovarianceCoins:
    drawn = refimpl.draw_covariance_coins(parameters, np.random.default_rng(3))
    return dataclasses.replace(drawn, test=TestCoin(bits, drawn.test.seed), seed=None)  # the floats are the numbers


# The coin decides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outliers", [1, 2])
def test_the_coin_of_the_mean_decides_exactly(outliers: int) -> None:
    x, coins = paired(outliers), mean_coins(0)
    covariance = refimpl.stable_covariance(x, MEAN.lambda_0, MEAN.k)
    mean = refimpl.stable_mean(x, covariance, MEAN.lambda_0, MEAN.k, coins.reference)
    score = max(covariance.score, mean.score)
    assert outliers <= score < MEAN.k
    p = refimpl.ptr_pass_probability(score, MEAN.test_epsilon, MEAN.test_delta).enclosure(600)
    threshold = math.floor(p.lower * TOP)
    release = refimpl.gaussian_release(mean.mean, covariance.covariance, MEAN.noise_scale, coins.normals)
    for bits, passes in ((0, True), (threshold - 1, True), (threshold + 1, False), (TOP - 1, False)):
        found = refimpl.private_mean_given(x, MEAN, mean_coins(bits)).mean
        assert (None if found is None else found.tolist()) == (release.tolist() if passes else None)


@pytest.mark.parametrize("outliers", [1, 3])
def test_the_coin_of_the_covariance_decides_exactly(outliers: int) -> None:
    x = paired(outliers)
    covariance = refimpl.stable_covariance(x, COVARIANCE.lambda_0, COVARIANCE.k)
    assert covariance.score == outliers
    p = refimpl.ptr_pass_probability(outliers, COVARIANCE.test_epsilon, COVARIANCE.test_delta).enclosure(600)
    threshold = math.floor(p.lower * TOP)
    release = refimpl.wishart_release(covariance.covariance, COVARIANCE.samples, covariance_coins(0).normals)
    for bits, passes in ((0, True), (threshold - 1, True), (threshold + 1, False), (TOP - 1, False)):
        found = refimpl.private_covariance_given(x, COVARIANCE, covariance_coins(bits)).covariance
        assert (None if found is None else found.tolist()) == (release.tolist() if passes else None)


def test_score_zero_passes_and_score_k_fails_for_every_coin() -> None:
    for bits in (0, TOP - 1):
        assert refimpl.private_mean_given(paired(0), MEAN, mean_coins(bits)).mean is not None
        assert refimpl.private_mean_given(paired(MEAN.k), MEAN, mean_coins(bits)).mean is None
        assert refimpl.private_mean_given(paired(0) * 0, MEAN, mean_coins(bits)).mean is None
        assert refimpl.private_covariance_given(paired(0), COVARIANCE, covariance_coins(bits)).covariance is not None
        assert refimpl.private_covariance_given(paired(9), COVARIANCE, covariance_coins(bits)).covariance is None


def test_a_gate_fails_for_every_data_set() -> None:
    for n in (0, 1, 2, MEAN.least_n - 1):
        parameters = refimpl.mean_parameters(n, 1, **BUDGET, edition=refimpl.REPAIRED)
        assert refimpl.private_mean_given(np.zeros((n, 1)), parameters, mean_coins(0, parameters)).mean is None


def test_the_learner_fails_where_either_half_does() -> None:
    drawn = refimpl.draw_gaussian_coins(GAUSSIAN, np.random.default_rng(1))
    x = paired(1)

    def learn(mean_bits: int, covariance_bits: int) -> Any:
        coins = dataclasses.replace(
            drawn,
            mean=dataclasses.replace(drawn.mean, test=TestCoin(mean_bits, b"m")),
            covariance=dataclasses.replace(drawn.covariance, test=TestCoin(covariance_bits, b"c")),
        )
        return refimpl.private_gaussian_given(x, GAUSSIAN, coins)

    both = learn(0, 0)
    assert both.mean is not None
    assert both.covariance is not None
    for bits in ((TOP - 1, 0), (0, TOP - 1), (TOP - 1, TOP - 1)):
        assert (learn(*bits).mean, learn(*bits).covariance) == (None, None)
    mean = refimpl.private_mean_given(x, GAUSSIAN.mean, dataclasses.replace(drawn.mean, test=TestCoin(0, b"m")))
    assert both.mean.tolist() == (mean.mean.tolist() if mean.mean is not None else None)


def test_the_learner_as_printed_pairs_twice() -> None:
    # 272 e^2 log(20) is just below 6100. The differences of the first pairing are 1 and -1, those of the second 2.
    n = 6100
    x = np.zeros((n, 1))
    x[: n // 4] = 1
    x[n // 2 + n // 4 :] = 1
    parameters = refimpl.gaussian_parameters(n, 1, epsilon=1, delta="1/10", lambda_0=1, edition=PRINTED)
    # Fewer reference points and draws than printed, for speed.
    halves = {
        "mean": dataclasses.replace(parameters.mean, reference_size=20),
        "covariance": dataclasses.replace(parameters.covariance, samples=500),
    }
    parameters = dataclasses.replace(parameters, **halves)
    coins = refimpl.draw_gaussian_coins(parameters, np.random.default_rng(1))
    with pytest.warns(refimpl.PrintedEditionWarning):
        found = refimpl.private_gaussian_given(x, parameters, coins)
    z = np.ravel(coins.covariance.normals)
    # y = (1, -1)/sqrt 2; Algorithm 5.1 pairs y: (1 - -1)/sqrt 2/sqrt 2 = 1 for all, so its Sigma is 1.
    assert found.covariance is not None
    assert found.covariance.item() == pytest.approx(np.mean(z * z), rel=1e-12)
    repaired = refimpl.gaussian_parameters(n, 1, epsilon=1, delta="1/10", lambda_0=1, edition=refimpl.REPAIRED)
    assert repaired.covariance.n == n == 2 * parameters.covariance.n


# Coins ----------------------------------------------------------------------------------------------------------------


def test_coins_come_from_their_streams() -> None:
    seed = np.random.default_rng(5).bytes(32)

    def stream(label: str, count: int, seed: bytes = seed) -> bytes:
        return hashlib.shake_256(b"bhs23/" + label.encode() + b"/" + seed).digest(count)

    def normals(data: bytes) -> list[float]:
        words = [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)]
        return [float(ndtri(((word >> 11) + 0.5) / 2**53)) for word in words]

    parameters = refimpl.mean_parameters(5000, 3, **BUDGET, edition=refimpl.REPAIRED)
    coins = refimpl.draw_mean_coins(parameters, np.random.default_rng(5))
    assert coins.test == TestCoin(int.from_bytes(stream("mean/test", 32), "big"), stream("mean/test-seed", 32))
    assert coins.normals.tolist() == normals(stream("mean/normals", 24))
    data = stream("mean/reference", 16 * 5000)
    drawn = [(int.from_bytes(data[i : i + 16], "big") * 5000) >> 128 for i in range(0, len(data), 16)]
    assert coins.reference == tuple(sorted(list(dict.fromkeys(drawn))[: parameters.reference_size]))

    wide = refimpl.covariance_parameters(5000, 3, **BUDGET, edition=refimpl.REPAIRED)
    covariance = refimpl.draw_covariance_coins(wide, np.random.default_rng(5))
    assert covariance.normals.shape == (wide.samples, 3)
    assert covariance.normals.ravel().tolist() == normals(stream("covariance/normals", 24 * wide.samples))

    learner = refimpl.gaussian_parameters(5000, 3, **BUDGET, edition=refimpl.REPAIRED)
    both = refimpl.draw_gaussian_coins(learner, np.random.default_rng(5))
    half = stream("gaussian/mean", 32)
    assert both.mean.test.bits == int.from_bytes(stream("mean/test", 32, half), "big")
    half = stream("gaussian/covariance", 32)
    assert both.covariance.test.seed == stream("covariance/test-seed", 32, half)


@pytest.mark.parametrize(("n", "size"), [(0, 0), (1, 1), (7, 7), (7, 3), (1000, 1000), (10**12, 50)])
def test_references_are_distinct_and_as_many_as_asked(n: int, size: int) -> None:
    parameters = dataclasses.replace(MEAN, n=n, reference_size=size)
    reference = refimpl.draw_mean_coins(parameters, np.random.default_rng(1)).reference
    assert len(set(reference)) == len(reference) == size
    assert list(reference) == sorted(reference)
    assert all(0 <= index < n for index in reference)


def test_references_and_normals_have_the_law_they_say() -> None:
    # Fixed seed. Level: each p-value below 1e-4 would fail a right implementation with that probability at a fresh seed.
    parameters, rng = dataclasses.replace(MEAN, n=10, reference_size=3, d=4), np.random.default_rng(14)
    drawn = [refimpl.draw_mean_coins(parameters, rng) for _ in range(4000)]
    subsets: dict[tuple[int, ...], int] = {}
    for coins in drawn:
        subsets[coins.reference] = subsets.get(coins.reference, 0) + 1
    assert len(subsets) == math.comb(10, 3)
    assert stats.chisquare(list(subsets.values())).pvalue > 1e-4
    assert stats.kstest(np.ravel([coins.normals for coins in drawn]), "norm").pvalue > 1e-4
    assert stats.kstest([coins.test.bits / TOP for coins in drawn], "uniform").pvalue > 1e-4


def test_without_a_generator_the_operating_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or bytes(count))
    refimpl.draw_mean_coins(MEAN)
    refimpl.draw_covariance_coins(COVARIANCE)
    refimpl.draw_gaussian_coins(GAUSSIAN)
    refimpl.private_mean(paired(0), **BUDGET, edition=refimpl.REPAIRED)
    assert asked == [32] * 4


@pytest.mark.parametrize("rng", [3, "seed", np.random.RandomState(1)])
def test_other_generators_are_refused(rng: Any) -> None:
    for call in (refimpl.private_mean, refimpl.private_covariance, refimpl.private_gaussian):
        with pytest.raises(TypeError, match=r"^rng must"):
            call(paired(0), **BUDGET, rng=rng)


# Releases -------------------------------------------------------------------------------------------------------------

entries = st.fractions(min_value=-4, max_value=4, max_denominator=7)
floats = st.floats(-8, 8, allow_subnormal=False)


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[list[Fraction]], list[Fraction], Any]:
    d = draw(st.integers(1, 3))
    a = draw(st.lists(st.lists(entries, min_size=d, max_size=d), min_size=d, max_size=d))
    rows = st.lists(st.lists(floats, min_size=d, max_size=d), min_size=1, max_size=4)
    return oracle.moment(a, [Fraction(1)] * d), draw(st.lists(entries, min_size=d, max_size=d)), np.array(draw(rows))


def cholesky(sigma: list[list[Fraction]]) -> Any:
    """The lower factor at the working precision of mpmath."""
    return mpmath.cholesky(mpmath.matrix([[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in sigma]))


def nearest(value: Any) -> float:
    return float(Fraction(*mpmath.libmp.to_rational(mpmath.mpf(value)._mpf_)))


@given(releases(), st.fractions(Fraction(1, 1000), 3, max_denominator=1000))
def test_the_gaussian_release_is_correctly_rounded(case: Any, scale: Fraction) -> None:
    sigma, mean, normals = case
    assume(oracle.inverse(sigma) is not None)
    z, d = normals[0], len(mean)
    found = refimpl.gaussian_release(mean, sigma, scale, z)
    with mpmath.workprec(3000):
        lower = cholesky(sigma)
        for i in range(d):
            noise = sum(lower[i, j] * mpmath.mpf(float(z[j])) for j in range(i + 1))
            exact = mpmath.mpf(mean[i].numerator) / mean[i].denominator + noise * scale.numerator / scale.denominator
            if abs(exact) > mpmath.mpf(2) ** -500:  # else the terms cancel exactly, and mpmath leaves its rounding
                assert found[i] == nearest(exact)


@given(releases())
def test_the_wishart_release_is_correctly_rounded_and_symmetric(case: Any) -> None:
    sigma, _, normals = case
    assume(oracle.inverse(sigma) is not None)
    d, samples = len(sigma), len(normals)
    found = refimpl.wishart_release(sigma, samples, normals)
    assert found.tobytes() == found.T.copy().tobytes()
    with mpmath.workprec(3000):
        lower = cholesky(sigma)
        draws = [
            [sum(lower[i, j] * mpmath.mpf(float(row[j])) for j in range(i + 1)) for i in range(d)] for row in normals
        ]
        for i in range(d):
            for j in range(d):
                exact = sum(draw[i] * draw[j] for draw in draws) / samples
                if abs(exact) > mpmath.mpf(2) ** -500:
                    assert found[i, j] == nearest(exact)


def test_a_singular_covariance_releases_along_its_range() -> None:
    found = refimpl.gaussian_release([0, 0], [[4, 8], [8, 16]], Fraction(1), [0.5, 7.0])
    assert found.tolist() == [1.0, 2.0]
    assert refimpl.gaussian_release([1, 2], [[0, 0], [0, 9]], Fraction(1), [5.0, 1.0]).tolist() == [1.0, 5.0]


def test_terms_that_cancel_release_zero() -> None:
    # sqrt 2 - sqrt 2 in the second entry: no precision shows that it is zero.
    sigma = [[2, 2], [2, 4]]
    found = refimpl.gaussian_release([0, 0], sigma, Fraction(1), [1.0, -1.0])
    assert found[0] == math.sqrt(2)
    assert found[1] == 0


def test_bad_releases_are_named() -> None:
    for normals in ([1.0], [1.0, 2.0, 3.0], [1.0, math.nan], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="normals"):
            refimpl.gaussian_release([0, 0], [[1, 0], [0, 1]], Fraction(1), normals)
    with pytest.raises(ValueError, match="covariance must be positive semidefinite"):
        refimpl.gaussian_release([0, 0], [[1, 2], [2, 1]], Fraction(1), [1.0, 1.0])
    with pytest.raises(ValueError, match="covariance must be positive semidefinite"):
        refimpl.wishart_release([[1, 2], [2, 1]], 1, [[1.0, 1.0]])
    with pytest.raises(ValueError, match="normals must be 2 x 2"):
        refimpl.wishart_release([[1, 0], [0, 1]], 2, [[1.0, 1.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: refimpl.gaussian_release([0, 0], [[1, 5], [0, 1]], Fraction(1), [1.0, 1.0]),
        lambda: refimpl.gaussian_release([0, 0], [[1, 0, 0], [0, 1, 0]], Fraction(1), [1.0, 1.0]),
        lambda: refimpl.gaussian_release([0, 0, 0], [[1, 0], [0, 1]], Fraction(1), [1.0, 1.0]),
        lambda: refimpl.gaussian_release([0], [[1, 0], [0, 1]], Fraction(1), [1.0, 1.0]),
        lambda: refimpl.wishart_release([[1, 5], [0, 1]], 1, [[1.0, 1.0]]),
        lambda: refimpl.wishart_release([[1, 0], [0, 1]], 0, np.zeros((0, 2))),
    ],
    ids=["asymmetric", "not square", "long mean", "short mean", "wishart asymmetric", "no samples"],
)
def test_bad_shapes_of_releases_are_named(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"(covariance|mean|samples) must"):
        call()


def test_a_release_beyond_float64_is_infinite() -> None:
    huge = Fraction(2) ** 1100
    assert refimpl.gaussian_release([huge], [[1]], Fraction(1), [1.0]).tolist() == [math.inf]
    assert refimpl.gaussian_release([-huge], [[1]], Fraction(1), [1.0]).tolist() == [-math.inf]
    assert refimpl.wishart_release([[huge]], 1, [[1.0]]).tolist() == [[math.inf]]


def test_the_smallest_releases_are_subnormal() -> None:
    tiny = Fraction(1, 2**1074)
    assert refimpl.gaussian_release([tiny], [[0]], Fraction(1), [1.0]).tolist() == [5e-324]
    assert refimpl.wishart_release([[tiny]], 1, [[1.0]]).tolist() == [[5e-324]]


# What comes out, and what goes in -------------------------------------------------------------------------------------

TASKS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, Callable[..., Any]]] = {
    "mean": (refimpl.private_mean, refimpl.private_mean_given, MEAN, refimpl.draw_mean_coins),
    "covariance": (
        refimpl.private_covariance,
        refimpl.private_covariance_given,
        COVARIANCE,
        refimpl.draw_covariance_coins,
    ),
    "gaussian": (refimpl.private_gaussian, refimpl.private_gaussian_given, GAUSSIAN, refimpl.draw_gaussian_coins),
}
tasks = pytest.mark.parametrize("task", TASKS)


@tasks
def test_drawing_and_giving_coins_is_the_same(task: str) -> None:
    private_, given_, parameters, draw = TASKS[task]
    x = paired(1)
    for seed in range(2):
        one = private_(x, **BUDGET, edition=REPAIRED, rng=np.random.default_rng(seed))
        other = given_(x, parameters, draw(parameters, np.random.default_rng(seed)))
        assert one.parameters == other.parameters == parameters
        assert repr(dataclasses.replace(one)) == repr(other)


@tasks
def test_a_result_holds_nothing_but_the_release(task: str) -> None:
    private_, *_ = TASKS[task]
    outputs = {"mean": {"mean"}, "covariance": {"covariance"}, "gaussian": {"mean", "covariance"}}[task]
    for x in (paired(0), paired(9), paired(0)[:2]):
        result = private_(x, **BUDGET)
        assert vars(result).keys() == outputs | {"parameters"}
        assert type(result.parameters) is type(TASKS[task][2])
        for name in outputs:
            value = getattr(result, name)
            assert value is None or (value.dtype == np.float64 and value.base is None)


@tasks
def test_printed_warns_once_and_names_the_caller(task: str) -> None:
    private_, given_, _, draw = TASKS[task]
    budget = {"epsilon": 1, "delta": "1/10", "lambda_0": 1, "edition": PRINTED}
    make = {
        "mean": refimpl.mean_parameters,
        "covariance": refimpl.covariance_parameters,
        "gaussian": refimpl.gaussian_parameters,
    }
    printed = make[task](2, 1, **budget)
    calls: list[Callable[[], Any]] = [
        lambda: private_(np.zeros((2, 1)), **budget),
        lambda: given_(np.zeros((2, 1)), printed, draw(printed)),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [(w.category, Path(w.filename).name) for w in caught] == [
            (refimpl.PrintedEditionWarning, Path(__file__).name)
        ]


def test_only_releases_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (refimpl.mean_parameters, refimpl.covariance_parameters, refimpl.gaussian_parameters):
            make(100, 1, epsilon=1, delta="1/10", lambda_0=1, edition=PRINTED)
        refimpl.stable_covariance(paired(0), 2, 1, edition=PRINTED)
        refimpl.stable_mean(paired(0), [[1]], 2, 1, [0], edition=PRINTED)
        refimpl.ptr_pass_probability(1, 1, "1/10", edition=PRINTED)
        refimpl.private_mean(paired(0), **BUDGET, edition=REPAIRED)


@tasks
@pytest.mark.parametrize(
    "x",
    [
        paired(3) * 1e150,
        paired(3) * 2.0**-1074,
        np.tile([[1.7976931348623157e308], [-1.7976931348623157e308]], (300, 1)),
        paired(0) + 2.0**60,
    ],
    ids=["huge", "subnormal", "largest", "shifted"],
)
@pytest.mark.parametrize("lucky", [False, True])
def test_no_finite_data_raise(task: str, x: NDArray[np.float64], lucky: bool) -> None:
    given_, draw = TASKS[task][1], TASKS[task][3]
    make = {
        "mean": refimpl.mean_parameters,
        "covariance": refimpl.covariance_parameters,
        "gaussian": refimpl.gaussian_parameters,
    }
    parameters = make[task](*x.shape, **BUDGET)
    coins = draw(parameters, np.random.default_rng(2))
    if lucky and task != "gaussian":
        coins = dataclasses.replace(coins, test=TestCoin(0, b""))
    given_(x, parameters, coins)


@pytest.mark.parametrize("task", ["mean", "covariance"])
def test_more_columns_than_rows_fail_for_every_coin(task: str) -> None:
    make = {"mean": refimpl.mean_parameters, "covariance": refimpl.covariance_parameters}[task]
    parameters = make(250, 251, **BUDGET)
    assert refimpl.passes_gates(parameters)
    coins = dataclasses.replace(TASKS[task][3](parameters), test=TestCoin(0, b""))
    assert getattr(TASKS[task][1](np.zeros((250, 251)), parameters, coins), task) is None


@pytest.mark.parametrize("d", [9, 20])
def test_more_columns_than_rows_are_singular(d: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, size=(16, d)).astype(np.float64)
    covariance = refimpl.stable_covariance(x, 100, 2)
    mean = refimpl.stable_mean(x, covariance, 1, 2, [0, 1])
    assert (covariance.score, mean.score) == (2, 2)
    assert mean.mean == (0,) * d


@tasks
def test_data_must_be_of_the_size_of_the_parameters(task: str) -> None:
    _, given_, parameters, draw = TASKS[task]
    coins = draw(parameters)
    for x in (paired(0)[:-1], np.zeros((N, 2)), np.zeros((0, 1))):
        with pytest.raises(ValueError, match=r"^x must be 600 x 1"):
            given_(x, parameters, coins)


def test_bad_coins_are_named() -> None:
    good = mean_coins(0)
    for changes, told in (
        ({"reference": good.reference[:-1]}, "reference"),
        ({"reference": (*good.reference[:-1], good.reference[0])}, "reference"),
        ({"reference": (*good.reference[:-1], N)}, "reference"),
        ({"normals": np.zeros(2)}, "normals"),
        ({"normals": np.array([math.nan])}, "normals"),
    ):
        with pytest.raises(ValueError, match=told):
            refimpl.private_mean_given(paired(0), MEAN, dataclasses.replace(good, **changes))
    bad = dataclasses.replace(covariance_coins(0), normals=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="normals"):
        refimpl.private_covariance_given(paired(0), COVARIANCE, bad)


def test_whether_bad_coins_raise_does_not_depend_on_the_data() -> None:
    bad = dataclasses.replace(covariance_coins(0), normals=np.full((COVARIANCE.samples, 1), math.nan))
    for x in (paired(0), paired(9)):
        with pytest.raises(ValueError, match="normals"):
            refimpl.private_covariance_given(x, COVARIANCE, bad)


@settings(max_examples=4)
@given(st.integers(0, 4), st.integers(0, TOP - 1), st.integers(0, 2**32))
def test_a_release_is_a_function_of_data_parameters_and_coins(outliers: int, bits: int, seed: int) -> None:
    x = paired(outliers)
    before = x.copy()
    one, two = (refimpl.private_mean_given(x, MEAN, mean_coins(bits, seed=seed)) for _ in range(2))
    assert (one.mean is None) == (two.mean is None)
    if one.mean is not None and two.mean is not None:
        assert one.mean.tobytes() == two.mean.tobytes()
    assert np.array_equal(x, before)


def test_rounding_is_to_the_nearest_float() -> None:
    half = Fraction(1) + Fraction(1, 2**53)  # halfway between 1 and the next float: to even
    assert private._rounded(lambda _: refimpl.reals.Enclosure.point(half)) == 1.0
    assert private._rounded(lambda _: refimpl.reals.Enclosure.point(half + Fraction(1, 2**200))) == 1 + 2.0**-52
