"""fastimpl at its doors: input types, seeds, silence, early decisions, releases, threads and forks."""

from __future__ import annotations

import dataclasses
import logging
import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
import refimpl
from fastimpl.exact import column_units, gram
from fastimpl.rows import Vectors, as_rows
from refimpl.parameters import CovarianceParameters, Edition, MeanParameters

Rows = NDArray[np.float64]
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1/20", "lambda_0": "101/100"}


def data(n: int = 1600, d: int = 1) -> Rows:
    """Pairs (1, -1) in the first column, and independent signs in the others: every norm is d."""
    m = n // 2
    columns = np.array([[(i >> j) % 2 * 2.0 - 1 if j else 1.0 for j in range(d)] for i in range(m)])
    return np.vstack([columns, -columns])


def small_mean_parameters(n: int, d: int, edition: Edition = fastimpl.REPAIRED) -> MeanParameters:
    """A record with small k, so that small data pass the gates; its law passes and fails both."""
    made = fastimpl.mean_parameters(n, d, edition=edition, **BUDGET)
    law = {"test_epsilon": Fraction(2), "test_delta": Fraction(1, 5), "epsilon": Fraction(1)}
    return dataclasses.replace(made, k=2, lambda_0=Fraction(n // 2, 20), reference_size=min(n, 20), **law)


def small_covariance_parameters(n: int, d: int, edition: Edition = fastimpl.REPAIRED) -> CovarianceParameters:
    made = fastimpl.covariance_parameters(n, d, edition=edition, **BUDGET)
    law = {"test_epsilon": Fraction(2), "test_delta": Fraction(1, 5), "epsilon": Fraction(1)}
    return dataclasses.replace(made, k=2, lambda_0=Fraction(n // 2, 20), samples=9, **law)


# Input ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(np.float32),
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.int8),
        lambda x: x.astype(np.longdouble),
        lambda x: x.astype(np.float16),
        np.asfortranarray,
        lambda x: x.tolist(),
        lambda x: tuple(map(tuple, x.astype(int).tolist())),
        lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda x: x[::-1][::-1],
    ],
)
def test_real_types_and_layouts_are_one(change: Any) -> None:
    x = np.random.default_rng(1).integers(-3, 4, (40, 2)).astype(float)
    changed = change(x)
    before = np.array(changed, copy=True)
    if isinstance(changed, np.ndarray):
        changed.flags.writeable = False
    covariance = fastimpl.stable_covariance(x, 4, 2)
    again = fastimpl.stable_covariance(changed, 4, 2)
    assert np.array_equal(again.entry_level, covariance.entry_level)
    assert np.array_equal(again.covariance, covariance.covariance)
    means = [fastimpl.stable_mean(rows, covariance, 4, 2, [0, 3, 5, 7, 9]) for rows in (x, changed)]
    assert np.array_equal(means[0].mean, means[1].mean)
    assert np.array_equal(before, changed)


def test_int8_does_not_wrap() -> None:
    assert fastimpl.stable_covariance(np.array([[100], [-100]], dtype=np.int8), 2, 1).covariance == [[20000.0]]


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (np.array([[True], [False]]), TypeError, "x must hold real numbers, got bool"),
        ([[True, False], [True, True]], TypeError, "bool"),
        (np.array([[1], [2]], dtype=object), TypeError, "object"),
        ([[1, None], [2, 3]], TypeError, "NoneType"),
        ([[Fraction(1, 3)], [Fraction(2)]], TypeError, "Fraction"),
        (np.array([["1.0"], ["2.0"]]), TypeError, "<U3"),
        (np.array([[1j], [2]]), TypeError, "complex"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, "datetime64"),
        (np.ma.masked_array([[1.0], [2.0]], [[True], [False]]), TypeError, "masked"),
        (np.zeros(3), ValueError, "two-dimensional"),
        (np.zeros((2, 2, 2)), ValueError, "two-dimensional"),
        (3.0, ValueError, "two-dimensional"),
        ([], ValueError, "two-dimensional"),
        (np.zeros((4, 0)), ValueError, "column"),
        ([[1, 2], [3]], ValueError, "rows of one length"),
        ([[1.0], [float("nan")]], ValueError, "x must be finite"),
        ([[1.0], [float("inf")]], ValueError, "x must be finite"),
        ([[1.0], [-float("inf")]], ValueError, "x must be finite"),
        ([[10**400], [1]], ValueError, "x must be finite"),
        (np.array([[1], [2]], dtype=np.longdouble) * (np.finfo(np.longdouble).max / 4), ValueError, "finite"),
    ],
)
def test_bad_rows_are_named_and_never_shown(bad: Any, error: type[Exception], words: str) -> None:
    calls = [
        lambda: fastimpl.stable_covariance(bad, 2, 1),
        lambda: fastimpl.stable_mean(bad, np.eye(1), "1/10", 1, [0]),
        lambda: fastimpl.private_mean(bad, **BUDGET, edition=refimpl.REPAIRED),
        lambda: fastimpl.private_covariance(bad, **BUDGET, edition=refimpl.REPAIRED),
        lambda: fastimpl.private_gaussian(bad, **BUDGET, edition=refimpl.REPAIRED),
    ]
    for call in calls:
        with pytest.raises(error, match=words):
            call()


def test_large_integers_are_rounded_like_floats() -> None:
    assert np.array_equal(as_rows("x", [[2**70 + 1], [3]]), [[2.0**70], [3.0]])
    assert np.array_equal(as_rows("x", np.array([[2**64 - 1]], dtype=np.uint64)), [[2.0**64]])


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, None, "x", 1j])
def test_bad_parameters_are_named(bad: Any) -> None:
    x = np.eye(4)
    for name, call in {
        "lambda_0": lambda: fastimpl.stable_covariance(x, bad, 1),
        "k": lambda: fastimpl.stable_covariance(x, 1, bad),
        "lam": lambda: fastimpl.largest_good_subset(x, bad),
    }.items():
        with pytest.raises((TypeError, ValueError), match=name):
            call()


def test_bad_covariances_and_references_are_named() -> None:
    x = np.eye(4, 2)
    for bad in ([[1.0, 2.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], np.eye(3), [[-1.0, 0.0], [0.0, 1.0]]):
        with pytest.raises(ValueError, match="covariance"):
            fastimpl.stable_mean(x, bad, "1/10", 1, [0])
    with pytest.raises(ValueError, match="covariance"):
        fastimpl.stable_mean(x, fastimpl.stable_covariance(np.eye(6, 2), 1, 1), "1/10", 1, [0])
    for reference in ([0, 0], [4], [-1]):
        with pytest.raises(ValueError, match="reference"):
            fastimpl.stable_mean(x, np.eye(2), "1/10", 1, reference)
    with pytest.raises(ValueError, match="lambda_0"):
        fastimpl.stable_mean(x, np.eye(2), Fraction(36, 50), 1, [0])  # gamma = 1
    for n in (0, 1):
        with pytest.raises(ValueError, match="two rows"):
            fastimpl.stable_covariance(x[:n], 1, 1)
        with pytest.raises(ValueError, match="two rows"):
            fastimpl.stable_mean(x[:n], np.eye(2), 1, 1, [])


def test_a_singular_covariance_has_no_cores() -> None:
    x = np.eye(40, 2)
    sigma = np.array([[1.0, 1.0], [1.0, 1.0]])
    result = fastimpl.stable_mean(x, sigma, 1, 2, [0, 1, 2])
    assert (result.score, set(result.entry_level.tolist()), result.weights.any()) == (2, {5}, False)
    assert fastimpl.largest_core(x, sigma, 1, 1, [0, 1]) == frozenset()
    assert len(fastimpl.largest_core(x, sigma, 1, 0, [0, 1])) == 40


# Coins and seeds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_draws_the_coins_of_refimpl(seed: int) -> None:
    parameters = fastimpl.gaussian_parameters(50 * 10 ** (seed + 1), 3, **BUDGET, edition=refimpl.REPAIRED)
    fast = fastimpl.draw_gaussian_coins(parameters, np.random.default_rng(seed))
    exact = refimpl.private.draw_gaussian_coins(
        dataclasses.replace(parameters, covariance=dataclasses.replace(parameters.covariance, samples=2)),
        np.random.default_rng(seed),
    )
    assert fast.mean.test == exact.mean.test
    assert fast.mean.reference == exact.mean.reference
    assert np.array_equal(fast.mean.normals, exact.mean.normals)
    assert fast.covariance.test == exact.covariance.test


def test_reference_sets_are_uniform_sets() -> None:
    parameters = dataclasses.replace(
        fastimpl.mean_parameters(7, 1, **BUDGET, edition=refimpl.REPAIRED), reference_size=3
    )
    rng = np.random.default_rng(0)
    drawn = [fastimpl.draw_mean_coins(parameters, rng).reference for _ in range(700)]
    assert all(len(set(r)) == 3 and list(r) == sorted(r) for r in drawn)
    counts = np.bincount(np.concatenate([np.array(r) for r in drawn]), minlength=7)
    assert np.all(np.abs(counts - 300) < 6 * np.sqrt(700 * 3 / 7 * 4 / 7))
    whole = dataclasses.replace(parameters, reference_size=7)
    assert fastimpl.draw_mean_coins(whole, rng).reference == tuple(range(7))


@pytest.mark.parametrize("name", ["mean", "covariance", "gaussian"])
def test_what_is_no_generator_is_refused_before_there_is_a_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may take seconds."""
    monkeypatch.setattr(f"fastimpl.private.{name}_parameters", None)
    release = getattr(fastimpl, f"private_{name}")
    with pytest.raises(TypeError, match=r"rng must be a .*Generator or None, got int"):
        release(np.ones((4, 2)), epsilon=1, delta="1e-6", lambda_0=2, rng=3)


def test_a_generator_is_read_once_for_256_bits() -> None:
    parameters = fastimpl.gaussian_parameters(100, 4, **BUDGET, edition=refimpl.REPAIRED)
    used, other = np.random.default_rng(8), np.random.default_rng(8)
    fastimpl.draw_gaussian_coins(parameters, used)
    other.bytes(32)
    assert used.bytes(8) == other.bytes(8)
    with pytest.raises(TypeError, match="rng"):
        fastimpl.draw_gaussian_coins(parameters, 3)  # type: ignore[arg-type]  # that is the point


def test_bartlett_factor_has_the_law_of_its_draws() -> None:
    parameters = dataclasses.replace(
        fastimpl.covariance_parameters(100, 3, **BUDGET, edition=refimpl.REPAIRED), samples=5
    )
    rng = np.random.default_rng(0)
    factors = np.array([fastimpl.draw_covariance_coins(parameters, rng).normals for _ in range(4000)])
    assert not np.triu(factors, 1).any()
    scatter = factors @ factors.transpose(0, 2, 1)
    assert np.allclose(scatter.mean(axis=0), 5 * np.eye(3), atol=0.25)
    assert np.allclose(scatter.var(axis=0), 5 * (np.ones((3, 3)) + np.eye(3)), rtol=0.12)
    few = dataclasses.replace(parameters, samples=1)
    assert np.linalg.matrix_rank(fastimpl.draw_covariance_coins(few, rng).normals) == 1


# Releases -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [np.diag([4.0, 9.0]), np.array([[2.0, 1.0], [1.0, 3.0]])])
def test_gaussian_release_has_the_noise_it_says(sigma: Rows) -> None:
    z = np.random.default_rng(0).normal(size=(4000, 2))
    draws = np.array([fastimpl.gaussian_release([1.0, 2.0], sigma, Fraction(1, 4), row) for row in z])
    assert np.allclose(np.cov(draws.T), sigma / 16, rtol=0.1, atol=0.04)
    assert np.allclose(draws, [1.0, 2.0] + z @ np.linalg.cholesky(sigma).T / 4, rtol=1e-13, atol=1e-15)
    assert np.array_equal(draws[0], refimpl.gaussian_release([1, 2], sigma, Fraction(1, 4), z[0]))


def test_wishart_release_has_the_law_of_its_draws() -> None:
    sigma = np.array([[2.0, 1.0], [1.0, 3.0]])
    parameters = dataclasses.replace(
        fastimpl.covariance_parameters(100, 2, **BUDGET, edition=refimpl.REPAIRED), samples=5481
    )
    rng = np.random.default_rng(0)
    releases = np.array(
        [
            fastimpl.wishart_release(sigma, 5481, fastimpl.draw_covariance_coins(parameters, rng).normals)
            for _ in range(400)
        ]
    )
    assert np.array_equal(releases, releases.transpose(0, 2, 1))
    assert np.all(np.linalg.eigvalsh(releases) >= 0)
    errors = np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / 5481 / 400)
    assert np.all(np.abs(releases.mean(axis=0) - sigma) < 5 * errors)
    assert releases[:, 0, 0].var() == pytest.approx(8 / 5481, rel=0.25)
    assert releases[:, 0, 1].var() == pytest.approx(7 / 5481, rel=0.25)


@pytest.mark.parametrize(
    "sigma",
    [
        np.array([[1.0, 1.0 - 2.0**-53], [1.0 - 2.0**-53, 1.0]]),  # positive definite, but not for float64 Cholesky
        np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]),
        np.array([[1.0, 1.0], [1.0, 1.0]]),
        np.array([[0.0, 0.0], [0.0, 1.0]]),
        np.zeros((2, 2)),
        np.array([[5e-324, 0.0], [0.0, 1.7e308]]),
        np.array([[4e-320, 8e-322], [8e-322, 4e-321]]),
    ],
)
def test_awkward_covariances_have_their_exact_factor(sigma: Rows) -> None:
    z = np.array([0.5, -1.25])
    fast = fastimpl.gaussian_release([0.0, 0.0], sigma, 1, z)
    exact = refimpl.gaussian_release([0, 0], sigma, Fraction(1), z)
    assert np.array_equal(fast, exact)
    with pytest.raises(ValueError, match="covariance"):
        fastimpl.gaussian_release([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], 1, z)


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1.0, 1e200, 1.7e308])
@pytest.mark.filterwarnings("ignore::refimpl.parameters.PrintedEditionWarning")  # REPAIRED's gates want more rows
def test_private_release_at_any_scale(scale: float) -> None:
    x = data(160, 2)
    parameters = small_mean_parameters(160, 2, fastimpl.PRINTED)
    coins = fastimpl.draw_mean_coins(parameters, np.random.default_rng(0))
    fast = fastimpl.private_mean_given(x * scale, parameters, coins)
    exact = refimpl.private_mean_given(x * scale, parameters, coins)
    assert fast.mean is not None
    assert np.array_equal(fast.mean, exact.mean)
    plain = fastimpl.private_mean_given(x, parameters, coins)
    assert plain.mean is not None
    with np.errstate(over="ignore"):
        wanted = np.asarray(plain.mean) * scale
    assert np.allclose(fast.mean, wanted, rtol=1e-12, atol=1e-15 * scale + 1e-323)
    second = small_covariance_parameters(160, 2, fastimpl.PRINTED)
    release = fastimpl.private_covariance_given(x * scale, second, fastimpl.draw_covariance_coins(second)).covariance
    assert release is not None
    assert np.array_equal(release, release.T)


@pytest.mark.parametrize("edition", [fastimpl.PRINTED, fastimpl.REPAIRED])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore::refimpl.parameters.PrintedEditionWarning")  # both editions are compared
def test_verdicts_are_those_of_refimpl(edition: Edition, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, lambda_0 = (1600, 6) if edition is fastimpl.REPAIRED else (80, 2)  # REPAIRED's gates want more rows
    x = rng.integers(-2, 3, (n, 2)).astype(float) if n == 80 else rng.choice([-1.0, 1.0], (n, 2))
    x[: seed % 4] *= 1e5
    parameters = dataclasses.replace(small_mean_parameters(n, 2, edition), lambda_0=Fraction(lambda_0))
    assert fastimpl.passes_gates(parameters)
    coins = fastimpl.draw_mean_coins(parameters, rng)
    fast = fastimpl.private_mean_given(x, parameters, coins)
    exact = refimpl.private_mean_given(x, parameters, coins)
    assert (fast.mean is None) == (exact.mean is None)
    if fast.mean is not None:
        assert np.array_equal(fast.mean, exact.mean)
    second = dataclasses.replace(small_covariance_parameters(n, 2, edition), lambda_0=Fraction(lambda_0))
    one = fastimpl.draw_covariance_coins(second, np.random.default_rng(seed))
    other = refimpl.draw_covariance_coins(second, np.random.default_rng(seed))
    verdicts = [
        fastimpl.private_covariance_given(x, second, one).covariance is None,
        refimpl.private_covariance_given(x, second, other).covariance is None,
    ]
    assert verdicts[0] == verdicts[1]


# The doors ------------------------------------------------------------------------------------------------------------


def test_gates_speak_before_the_data() -> None:
    for n in (0, 1, 2, 1999):
        x = np.zeros((n, 1))
        assert fastimpl.private_mean(x, epsilon=1, delta="1e-6", lambda_0=10, edition=refimpl.REPAIRED).mean is None
        assert (
            fastimpl.private_covariance(x, epsilon=1, delta="1e-6", lambda_0=10, edition=refimpl.REPAIRED).covariance
            is None
        )
        both = fastimpl.private_gaussian(x, epsilon=1, delta="1e-6", lambda_0=10, edition=refimpl.REPAIRED)
        assert (both.mean, both.covariance) == (None, None)


def test_printed_warns_its_caller() -> None:
    calls = {
        "mean": lambda: fastimpl.private_mean(data(), edition=fastimpl.PRINTED, **BUDGET),
        "covariance": lambda: fastimpl.private_covariance(data(), edition=fastimpl.PRINTED, **BUDGET),
        "gaussian": lambda: fastimpl.private_gaussian(data(), edition=fastimpl.PRINTED, **BUDGET),
    }
    for call in calls.values():
        with pytest.warns(fastimpl.PrintedEditionWarning) as caught:
            call()
        assert [w.filename for w in caught] == [__file__]


def test_results_hold_only_what_is_private(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for x in (data(3200), np.zeros((3200, 1)), data(3200) * 1e308, data(3200) * 5e-324):
            mean = fastimpl.private_mean(x, **BUDGET, edition=refimpl.REPAIRED)
            covariance = fastimpl.private_covariance(x, **BUDGET, edition=refimpl.REPAIRED)
            both = fastimpl.private_gaussian(x, **BUDGET, edition=refimpl.REPAIRED)
            assert set(vars(mean)) == {"mean", "parameters"}
            assert set(vars(covariance)) == {"covariance", "parameters"}
            assert set(vars(both)) == {"mean", "covariance", "parameters"}
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_seeded_runs_repeat_and_unseeded_runs_do_not() -> None:
    x = data()
    releases = [
        fastimpl.private_gaussian(data(3200), rng=np.random.default_rng(1), **BUDGET, edition=refimpl.REPAIRED)
        for _ in range(2)
    ]
    assert releases[0].mean is not None
    assert releases[0].covariance is not None
    assert np.array_equal(releases[0].mean, releases[1].mean)
    assert np.array_equal(releases[0].covariance, releases[1].covariance)
    np.random.seed(0)  # noqa: NPY002 - the global generator must not matter
    first = fastimpl.private_mean(x, **BUDGET, edition=refimpl.REPAIRED).mean
    np.random.seed(0)  # noqa: NPY002 - likewise
    assert first != fastimpl.private_mean(x, **BUDGET, edition=refimpl.REPAIRED).mean


def _release(_: int) -> float:
    result = fastimpl.private_mean(data(), **BUDGET, edition=refimpl.REPAIRED).mean
    assert result is not None
    return float(result[0])


# Python 3.12 warns of a fork in a process that has threads, and OpenBLAS has some.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_processes_differ() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert len(set(pool.map(_release, range(4)))) == 4


def test_threads_do_not_disturb_one_another() -> None:
    rng = np.random.default_rng(2)
    cases = [rng.integers(-2, 3, (60, 2)) * 2.0 ** rng.integers(-500, 500) for _ in range(16)]
    parameters = small_mean_parameters(60, 2)
    coins = fastimpl.draw_mean_coins(parameters, rng)

    def run(x: Rows) -> tuple[Any, ...]:
        covariance = fastimpl.stable_covariance(x, 3, 2)
        p = fastimpl.ptr_pass_probability(covariance.score + 1, "1/3", "1e-7")
        return (*covariance.entry_level, p, str(fastimpl.private_mean_given(x, parameters, coins).mean))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, cases)) == [run(x) for x in cases]


# Exact Gram matrices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0, 10, 60, 300, 900])
@pytest.mark.parametrize("paired", [True, False])
def test_exact_gram_is_exact(spread: int, paired: bool) -> None:
    rng = np.random.default_rng(spread)
    first, second = (rng.normal(size=(3000, 2)) * 2.0 ** rng.integers(-spread, spread + 1, (3000, 2)) for _ in range(2))
    first[::7] = 0.0
    vectors = Vectors((first,), (second,)) if paired else Vectors((first,))
    unit = column_units(vectors)
    found = gram(vectors, unit)
    exact = [
        [Fraction(a) - Fraction(b) for a, b in zip(*pair, strict=True)]
        for pair in zip(first.tolist(), (second if paired else 0 * second).tolist(), strict=True)
    ]
    for j in range(2):
        for ell in range(2):
            total = sum(row[j] * row[ell] for row in exact)
            assert int(found[j, ell]) == total / Fraction(2) ** int(unit[j] + unit[ell])
