"""The black-box audit: what it promises statistically, what it must find, and what it must leave alone."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastimpl
import refimpl
from proofs_checks.blackbox import (
    Audited,
    Budget,
    DataPair,
    PrivateRelease,
    Settings,
    audit_pair,
    audit_release,
    generic_pairs,
    habits_of,
    habits_within,
    lower_bound,
    observe,
    out_of_scope,
    outlier_pair,
    outlier_values,
    power,
    quiet_rows,
    run,
    shared_noise,
    steered_pairs,
)
from proofs_checks.privacy import E3_MID

ONE = Budget.of(1, "1e-5")
BIT = DataPair(np.zeros((1, 1)), np.ones((1, 1)))
SHIFT = DataPair(np.zeros((20, 2)), np.vstack([np.ones((1, 2)), np.zeros((19, 2))]))
QUICK = Settings(search_runs=200, test_runs=300)


# Mechanisms -----------------------------------------------------------------------------------------------------------


def randomized_response(x: Any, seed: int | None, epsilon: float = 1.0) -> float:
    truth = float(x[0, 0] > 0)
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return truth if np.random.default_rng(seed).random() < keep else 1 - truth


def gaussian(x: Any, seed: int | None, scale: float = 1.0, clip: float = 1.0) -> Any:
    """The Gaussian mechanism on clipped data; rounded to a grid, since unrounded low bits do depend on the data."""
    n, d = x.shape
    sigma = scale * 2 * math.sqrt(d) / n * math.sqrt(2 * math.log(1.25e5))
    draw = np.clip(x, -clip, clip).mean(axis=0) + sigma * np.random.default_rng(seed).standard_normal(d)
    return np.round(draw * 2**20) / 2**20


def scaled_by_the_data(x: Any, seed: int | None) -> Any:
    return (1e-3 + x.std()) * np.random.default_rng(seed).standard_normal(2)


def fails_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0 and np.random.default_rng(seed).random() < 0.2:
        return None
    return gaussian(x, seed)


def raises_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        raise ZeroDivisionError(f"row {x.argmax()}")
    return gaussian(x, seed)


def warns_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        warnings.warn("clipping", RuntimeWarning, stacklevel=1)
    return gaussian(x, seed)


def prints_the_range(x: Any, seed: int | None) -> Any:
    print("range", np.ptp(x), file=sys.stderr)
    return gaussian(x, seed)


def prints_in_c_on_ones(x: Any, seed: int | None) -> Any:
    """As a library in C does: past Python, into the descriptor, through a buffer of its own."""
    if x.max() > 0:
        ctypes.CDLL(None).printf(b"clipping\n")
    return gaussian(x, seed)


def a_child_prints_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        os.write(2, b"clipping\n")
    return gaussian(x, seed)


def exits_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        sys.exit("out of range")
    return gaussian(x, seed)


def hangs_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        time.sleep(600)
    return gaussian(x, seed)


def is_nan_on_ones(x: Any, seed: int | None) -> Any:
    return gaussian(x, seed) * (np.nan if x.max() > 0 else 1)


def noise_on_a_grid(x: Any, seed: int | None) -> Any:
    """Large noise, but rounded before the mean is added: the residue is the mean's."""
    return x.mean(axis=0) / 3 + np.round(1e3 * np.random.default_rng(seed).standard_normal(2))


def float_laplace(x: Any, seed: int | None) -> Any:
    """Mironov (2012): the reachable floats depend on the mean."""
    return x.mean(axis=0) / 3 + 2.0**20 * np.round(np.random.default_rng(seed).laplace(size=2), 1)


def sometimes_without_noise(x: Any, seed: int | None) -> Any:
    return x.mean(axis=0) if np.random.default_rng(seed).random() < 0.1 else gaussian(x, seed)


def another_size_on_ones(x: Any, seed: int | None) -> Any:
    return gaussian(x, seed)[: 1 if x.max() > 0 else 2]


def ends_the_process_on_ones(x: Any, seed: int | None) -> Any:
    if x.max() > 0:
        os._exit(3)
    return gaussian(x, seed)


# The statistics -------------------------------------------------------------------------------------------------------


def test_the_bound_is_that_of_exact_intervals() -> None:
    one, two = stats.binomtest(60, 400), stats.binomtest(7, 400)
    low = one.proportion_ci(0.999, method="exact").low  # a two-sided interval of 1 - 0.001 has 0.0005 on each side
    high = two.proportion_ci(0.999, method="exact").high
    assert lower_bound(60, 7, 400, 0.01, 1e-3) == pytest.approx(math.log((low - 0.01) / high), rel=1e-9)
    assert lower_bound(400, 0, 400, 0.0, 1e-3) > 3
    assert lower_bound(0, 400, 400, 0.0, 1e-3) == 0


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.02), (0.6, 0.1), (0.5, 0.4)])
def test_the_power_is_that_of_the_test(p: float, q: float) -> None:
    runs, level = 60, 0.01
    weight = np.outer(*(stats.binom.pmf(np.arange(runs + 1), runs, v) for v in (p, q)))
    refutes = [[lower_bound(a, b, runs, 1e-5, level) > 1 for b in range(runs + 1)] for a in range(runs + 1)]
    assert power(p, q, runs, ONE, level) == pytest.approx(weight[np.array(refutes)].sum(), abs=1e-9)


def test_at_most_two_alarms_in_two_hundred_audits_of_private_mechanisms() -> None:
    """Randomized response at its exact epsilon, and a Gaussian: the chance of 3 alarms at level 1e-3 is about 1e-3."""
    audited = [
        audit_pair(release, pair, ONE, Settings(search_runs=100, test_runs=200, events=2), seed=seed)
        for seed in range(100)
        for release, pair in ((randomized_response, BIT), (gaussian, SHIFT))
    ]
    assert sum(outcome.verdict == "refuted" for outcome in audited) <= 2
    assert all("not refuted at level 0.001" in outcome.sentence() for outcome in audited if not outcome.epsilon > 1)


def test_the_bound_on_epsilon_is_below_the_truth_and_near_it() -> None:
    outcome = audit_pair(randomized_response, BIT, ONE, Settings(test_runs=10_000, events=1))
    assert 0.85 < outcome.epsilon < 1
    assert outcome.verdict == "not refuted"


def test_search_and_test_runs_have_their_own_seeds() -> None:
    seeds: list[int] = []

    def remember(x: Any, seed: int | None) -> float:
        seeds.append(seed or 0)
        return randomized_response(x, seed)

    release = PrivateRelease(
        SimpleNamespace(private_mean=lambda x, rng, **_: remember(x, rng.bit_generator.seed_seq.entropy)),
        Fraction(1),
        Fraction(1, 10),
        Fraction(2),
    )
    budget = Budget.of(1, "0.1")
    pair, used = steered_pairs(release, budget, 2, 40, Settings(probe_runs=10))
    outcome = audit_release(release, [pair, *generic_pairs(4, 1)], budget, QUICK)
    assert len(set(seeds)) == len(seeds) == used + outcome.search_runs_used + 2 * QUICK.test_runs


# What must be found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        (lambda x, s: randomized_response(x[:1], s, 2.0), "half-space"),
        (lambda x, s: gaussian(x, s, scale=0.1), "half-space"),
        (lambda x, s: gaussian(x, s, clip=50.0), "half-space"),
        (scaled_by_the_data, "ellipsoid"),
        (fails_on_ones, "FAIL or release"),
        (raises_on_ones, "exception"),
        (warns_on_ones, "warning"),
        (prints_the_range, "printed text"),
        (prints_in_c_on_ones, "printed text"),
        (a_child_prints_on_ones, "printed text"),
        (exits_on_ones, "exception"),
        (is_nan_on_ones, "FAIL or release"),
        (noise_on_a_grid, "low bits"),
        (float_laplace, "low bits"),
        (sometimes_without_noise, "repeat"),
        (another_size_on_ones, "FAIL or release"),
    ],
)
def test_a_planted_fault_is_found(release: Callable[..., Any], kind: str) -> None:
    outcome = audit_release(
        release, generic_pairs(20, 2), ONE, Settings(search_runs=300, test_runs=600, probe_runs=100)
    )
    assert outcome.verdict == "refuted"
    assert kind in {finding.kind for finding in outcome.findings if finding.refutes}
    assert "epsilon >=" in outcome.sentence()
    assert "refuted at level 0.001" in outcome.sentence()
    json.dumps(outcome.to_json())


def test_a_gaussian_mechanism_in_plain_floats_is_refuted_by_its_low_bits() -> None:
    """Its noise scale is right; what leaks is the sum in float64 (Mironov 2012)."""
    release = PrivateRelease("proofs_checks.adapters.clipped_gaussian", ONE.epsilon, ONE.delta, Fraction(2))
    outcome = audit_release(release, generic_pairs(20, 1), ONE, Settings(events=1))
    assert outcome.verdict == "refuted"
    assert [finding.kind for finding in outcome.findings] == ["low bits"]


def test_a_target_that_always_raises_was_not_audited() -> None:
    def broken(x: Any, seed: int | None) -> Any:
        raise NotImplementedError("d = 2")

    outcome = audit_pair(broken, SHIFT, ONE, QUICK)
    assert outcome.verdict == "raised"
    assert "NotImplementedError: d = 2" in outcome.sentence()


def test_a_target_that_writes_into_its_input_is_told_so() -> None:
    def careless(x: Any, seed: int | None) -> Any:
        x -= x.mean(axis=0)
        return gaussian(x, seed)

    assert "read-only" in audit_pair(careless, SHIFT, ONE, QUICK).note


def test_worker_processes_see_the_same() -> None:
    here, there = (run(gaussian, SHIFT.x, range(8), jobs) for jobs in (1, 2))
    assert [o.values for o in here] == [o.values for o in there]


def test_what_is_printed_past_python_is_seen_and_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    print("before", flush=True)
    seen = [
        observe(f, SHIFT.x_prime, 0).labels for f in (prints_in_c_on_ones, a_child_prints_on_ones, prints_the_range)
    ]
    print("after", flush=True)
    assert [{label for label in labels if "'" in label} for labels in seen] == [
        {"printed 'clipping\\n'"},
        {"printed 'clipping\\n'"},
        {"printed 'range 1.0\\n'"},
    ]
    assert capfd.readouterr() == ("before\nafter\n", "")


def test_a_target_that_hangs_is_reported_as_such() -> None:
    began = time.monotonic()
    settings = Settings(probe_runs=4, search_runs=4, test_runs=4, seconds=0.5)
    for outcome in (
        audit_pair(hangs_on_ones, SHIFT, ONE, settings),
        audit_release(hangs_on_ones, generic_pairs(20, 2), ONE, settings),
    ):
        assert outcome.verdict == "raised"
        assert "the target hangs: no answer within 0.5 s, 3 times" in outcome.sentence()
    (habit,) = habits_within(0.5, hangs_on_ones, SHIFT.x_prime)
    assert (habit.found, "hung: no answer within 0.5 s" in habit.what) == (None, True)
    assert time.monotonic() - began < 90


def test_habits_in_a_process_of_its_own() -> None:
    here, there = habits_of(gaussian, SHIFT.x), habits_within(60.0, gaussian, SHIFT.x)
    assert [h.found for h in here] == [h.found for h in there] == [False] * 3


@pytest.mark.nightly
def test_a_run_that_ends_its_process_is_an_observation() -> None:
    crashed = run(ends_the_process_on_ones, SHIFT.x_prime, [1], jobs=2)
    assert [o.labels for o in crashed] == [{"crashed the process"}]


@pytest.mark.parametrize(
    ("x", "x_prime", "why"),
    [
        (np.zeros((5, 1)), np.zeros((6, 1)), "different size"),
        (np.arange(5.0)[:, None], np.arange(5.0)[::-1, None], "permutation"),
        (np.zeros((5, 1)), np.array([[1.0], [1.0], [0.0], [0.0], [0.0]]), "2 rows differ"),
        (np.zeros((5, 1)), np.zeros((5, 2)), "width"),
        (np.zeros((5, 1)), np.array([[np.nan]] + [[0.0]] * 4), "not finite"),
        (np.zeros((5, 1)), np.zeros((5, 1)), "twice"),
    ],
)
def test_what_is_no_pair_of_neighbours_is_out_of_scope(x: Any, x_prime: Any, why: str) -> None:
    pair = DataPair(x, x_prime)
    outcome = audit_pair(lambda x, _: x.sum(), pair, ONE, QUICK)  # would be refuted at once
    assert outcome.verdict == "out of scope"
    assert why in outcome.note
    assert why in (out_of_scope(pair) or "")
    assert "out of scope" in outcome.sentence()
    assert audit_release(lambda x, _: x.sum(), [pair], ONE, QUICK).verdict == "out of scope"


def test_nothing_is_called_verified() -> None:
    text = str(audit_pair(gaussian, SHIFT, ONE, QUICK))
    assert "not refuted at level 0.001" in text
    assert "verified" not in text
    for said in ("300 test runs on each side", "power", "epsilon >= ", "median times (not judged)"):
        assert said in text


@pytest.mark.parametrize("wrong", [{"level": 0.0}, {"test_runs": 0}, {"jobs": 0}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"level|needed"):
        Settings(**wrong)


# Habits ---------------------------------------------------------------------------------------------------------------

ROWS = refimpl.mean_parameters(0, 1, epsilon=1, delta="9/10", lambda_0=4, edition=refimpl.REPAIRED).least_n
CORNERS = np.array([0.0, 1.0])[[(i + (i >= ROWS // 2)) % 2 if i % 3 else 0 for i in range(ROWS)]][:, None]
LIVELY = PrivateRelease(fastimpl, Fraction(1), Fraction(9, 10), Fraction(4))
AT_IMPORT = np.random.default_rng()


def habit(name: str, release: Callable[..., Any]) -> bool | None:
    return {h.name: h.found for h in habits_of(release, SHIFT.x)}[name]


def test_fastimpl_has_no_bad_habit() -> None:
    covariance = PrivateRelease(fastimpl, Fraction(1), Fraction(9, 10), Fraction(4), function="private_covariance")
    found = habits_of(LIVELY, CORNERS, covariance, seeds=60)
    assert [h.found for h in found] == [False] * 4, [str(h) for h in found]


def test_quiet_rows_are_released() -> None:
    assert all(LIVELY(quiet_rows(ROWS + odd), seed) is not None for odd in (0, 1) for seed in range(3))


def test_a_fixed_seed_is_found() -> None:
    assert habit("unseeded repeatability", lambda x, _: gaussian(x, 7)) is True


def test_the_global_generators_are_found() -> None:
    assert habit("global seed", lambda *_: np.random.normal(size=2)) is True  # noqa: NPY002 - it is the fault
    assert habit("global seed", lambda *_: random.gauss()) is True
    state = random.getstate()
    habits_of(gaussian, SHIFT.x)
    assert random.getstate() == state


def test_a_generator_made_at_import_is_found_to_be_forked() -> None:
    def at_import(*_: Any) -> Any:
        return AT_IMPORT.standard_normal(2)

    assert habit("fork reuse", at_import) is True
    assert habit("unseeded repeatability", at_import) is False
    assert habit("global seed", at_import) is False


def test_a_target_that_always_fails_tells_nothing() -> None:
    assert {h.found for h in habits_of(lambda *_: None, SHIFT.x, lambda *_: None)} == {None}


def test_shared_noise_is_found_and_unshared_is_not() -> None:
    def mean(_: Any, seed: int | None) -> Any:
        return np.random.default_rng(seed).standard_normal(2)

    def covariance(_: Any, seed: int | None, label: int = 0) -> Any:
        z = np.random.default_rng([seed or 0, label][: 1 + label]).standard_normal((10, 2))
        return z.T @ z

    assert shared_noise(mean, covariance, SHIFT.x, permutations=1999).found is True
    assert shared_noise(mean, lambda x, s: covariance(x, s, 1), SHIFT.x, permutations=1999).found is False


# The paper's algorithm ------------------------------------------------------------------------------------------------


class ScoredOnce:
    """Algorithm 1 of REPAIRED with any law of the test and a fixed R: the score is computed once for each data set.

    A fixed R of 4k + 2 rows is as private as a drawn one (Lemma 13 as REPAIRED has it): what is left to draw is coin and noise.
    """

    def __init__(self, law: refimpl.Edition) -> None:
        self.law, self.known = law, {}

    def _scored(self, x: Any, **budget: Any) -> tuple[float, Any, Any]:
        p = fastimpl.mean_parameters(*x.shape, **budget)
        size = 4 * p.k + 2
        reference = tuple(range(0, p.n, p.n // size))[:size]
        covariance = fastimpl.stable_covariance(x, p.lambda_0, p.k)
        mean = fastimpl.stable_mean(x, covariance, p.lambda_0, p.k, reference)
        score = max(covariance.score, mean.score)
        passes = float(fastimpl.ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=self.law))
        return passes, mean.mean, float(p.noise_scale) * np.linalg.cholesky(covariance.covariance)

    def private_mean(self, x: Any, *, epsilon: Any, delta: Any, lambda_0: Any, edition: Any, rng: Any) -> Any:
        key = hashlib.blake2b(x.tobytes()).digest()
        if key not in self.known:
            self.known[key] = self._scored(x, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=edition)
        passes, mean, root = self.known[key]
        return SimpleNamespace(mean=mean + root @ rng.standard_normal(len(mean)) if rng.random() < passes else None)


def audited(law: refimpl.Edition, delta: str, lambda_0: str, settings: Settings, seed: int = 0) -> Audited:
    """Search for a pair from the claim alone, then audit on it."""
    budget = Budget.of(1, delta)
    release = PrivateRelease(ScoredOnce(law), budget.epsilon, budget.delta, Fraction(lambda_0))
    pair, _ = steered_pairs(release, budget, lambda_0, settings=settings, seed=seed)
    return audit_release(release, [pair], budget, settings, name=f"test {law.name}", seed=seed)


def test_the_printed_test_in_a_repaired_algorithm_is_refuted_at_one_and_a_millionth() -> None:
    outcome = audited(refimpl.PRINTED, "1e-6", "10", Settings(probe_runs=100))
    assert outcome.verdict == "refuted"
    (finding,) = [f for f in outcome.findings if f.kind == "FAIL or release"]
    assert finding.counts[0] > 100
    assert finding.counts[1] < finding.counts[0] / 10
    assert finding.refutes
    low, high = finding.intervals[0][0], finding.intervals[1][1]
    assert low > math.e * high
    assert outcome.epsilon > 1.5
    assert outcome.detectable < 0.05


def test_the_repaired_test_is_not_refuted() -> None:
    outcome = audited(refimpl.REPAIRED, "1/20", "2", Settings(probe_runs=100))
    assert outcome.verdict == "not refuted", str(outcome)


def test_the_printed_test_is_refuted_at_a_twentieth_too() -> None:
    assert audited(refimpl.PRINTED, "1/20", "2", Settings(probe_runs=100)).verdict == "refuted"


def test_outlier_pairs_are_those_of_the_family() -> None:
    for n in (100, 101):
        exact, mine = E3_MID.pair(n, 33), outlier_pair(E3_MID, n)
        assert (exact.x == mine.x).all()
        assert (exact.x_prime == mine.x_prime).all()
        assert out_of_scope(mine) is None


@pytest.mark.parametrize("lambda_0", ["3/2", "2", "6", "10", "40"])
def test_outlier_values_are_outliers_of_the_covariance_alone(lambda_0: str) -> None:
    lam = Fraction(lambda_0)
    bulk, high, low = outlier_values(lam)
    assert Fraction(high - low, bulk) ** 2 > lam * Fraction(5, 4)  # of every level
    assert low < 0 < bulk < high
    if lam >= 2:  # within 2 lambda_0 of the rows at 0, in the covariance bulk^2/2
        assert 2 * Fraction(high, bulk) ** 2 <= 2 * lam


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_private_mean_is_not_refuted(seed: int) -> None:
    budget, settings = Budget.of(1, "1/10"), Settings(probe_runs=40, search_runs=200, test_runs=1000)
    release = PrivateRelease("fastimpl", budget.epsilon, budget.delta, Fraction(3, 2))
    pair, _ = steered_pairs(release, budget, "3/2", settings=settings, seed=seed)
    assert audit_release(release, [pair], budget, settings, seed=seed).verdict == "not refuted"


@pytest.mark.nightly
def test_two_hundred_audits_of_the_repaired_algorithm_give_at_most_two_alarms() -> None:
    budget = Budget.of(1, "1/20")
    release = PrivateRelease(ScoredOnce(refimpl.REPAIRED), budget.epsilon, budget.delta, Fraction(2))
    pair, _ = steered_pairs(release, budget, 2)
    outcomes = [audit_pair(release, pair, budget, QUICK, seed=seed) for seed in range(200)]
    assert sum(outcome.verdict == "refuted" for outcome in outcomes) <= 2


@pytest.mark.nightly
def test_two_hundred_audits_of_private_mean_itself_give_at_most_two_alarms() -> None:
    """Nothing is cached here, so that an audit is short; its level is the same."""
    budget, settings = Budget.of(1, "1/10"), Settings(search_runs=40, test_runs=60, events=2)
    release = PrivateRelease(fastimpl, budget.epsilon, budget.delta, Fraction(3, 2))
    pair, _ = steered_pairs(release, budget, "3/2", settings=Settings(probe_runs=20))
    outcomes = [audit_pair(release, pair, budget, settings, seed=seed) for seed in range(200)]
    assert {outcome.verdict for outcome in outcomes} <= {"refuted", "not refuted"}
    assert sum(outcome.verdict == "refuted" for outcome in outcomes) <= 2


@pytest.mark.nightly
def test_private_mean_as_printed_is_refuted() -> None:
    budget, settings = Budget.of(1, "1/20"), Settings(probe_runs=100, search_runs=300, test_runs=1500)
    release = PrivateRelease("fastimpl", budget.epsilon, budget.delta, Fraction(2), refimpl.PRINTED)
    pair, _ = steered_pairs(release, budget, 2, settings=settings, edition=refimpl.PRINTED)
    outcome = audit_release(release, [pair], budget, settings)
    assert outcome.verdict == "refuted", str(outcome)
