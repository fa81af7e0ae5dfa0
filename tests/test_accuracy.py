"""Fitted slopes and counted operations: the statistics by hand and by simulation, every fault refuted, the data as stated."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import refimpl
from proofs_checks import accuracy
from proofs_checks.accuracy import ACCURACY_MUTANTS, LEVEL, MODEL, CountGrid, Counts, MixedRows, Sweep, section_23
from proofs_checks.audit import PROFILES, examine, run_check
from proofs_checks.lemma import LEMMAS, Claim, HypothesisBrokenError, Lemma, Violation
from proofs_checks.target import Target, load_target
from refimpl.parameters import PRINTED, REPAIRED

CHECKS = [check for check in LEMMAS.values() if check.body.__module__ == "proofs_checks.accuracy"]
KILLS = [(check, fault) for check in CHECKS for fault in check.refuted_by]
SLOPES = [check for check in CHECKS if check.needs]
SMALL = {
    "noise_of_the_mean_scales": accuracy.SMALL_NOISE,
    "sampling_error_scales": accuracy.SMALL_SAMPLING,
    "noise_of_the_covariance_scales": accuracy.SMALL_DRAWS,
}


def refutation(check: Lemma, target: Target, case: Any) -> Violation | None:
    try:
        examine(check, target, case)
    except Violation as violation:
        return violation
    return None


# The statistics -------------------------------------------------------------------------------------------------------


def test_a_line_agrees_with_scipy() -> None:
    generator = np.random.default_rng(0)
    x = np.array([1.0, 1, 2, 3, 5, 8, 13])
    y = x**-0.5 * np.exp(generator.standard_normal(7) / 4)
    line, expected = accuracy.fitted_line(list(x), list(y)), stats.linregress(np.log(x), np.log(y))
    assert line.slope == pytest.approx(expected.slope, rel=1e-12)
    assert line.error == pytest.approx(expected.stderr, rel=1e-12)
    half = stats.t.ppf(1 - (1 - LEVEL) / 2, 5) * expected.stderr
    assert line.half_width == pytest.approx(half, rel=1e-9)
    assert line.furthest_from(1) == pytest.approx(1 - expected.slope + half, rel=1e-9)
    assert accuracy.fitted_line([1, 2, 4], [3, 12, 48]).furthest_from(2) < 1e-12


def test_the_level_and_the_power_are_those_of_a_simulation() -> None:
    generator, within, u = np.random.default_rng(1), 0.15, np.repeat(np.log([1.0, 2, 4, 8]), 8)
    sigma = 0.14
    error = sigma / math.sqrt(float(((u - u.mean()) ** 2).sum()))

    def share(distance: float) -> float:
        lines = (
            accuracy.fitted_line(
                list(np.exp(u)), list(np.exp(distance * u + sigma * generator.standard_normal(len(u))))
            )
            for _ in range(2000)
        )
        return sum(line.furthest_from(0) <= within for line in lines) / 2000

    expected = accuracy.power(accuracy.Line(0, error, len(u) - 2), within)
    assert 0.5 < expected < 0.9
    assert share(0) == pytest.approx(expected, abs=0.04)
    assert share(within) <= 0.004  # (1 - LEVEL)/2 = 0.0005, of 2000


def test_an_interval_wider_than_allowed_has_no_power() -> None:
    assert accuracy.power(accuracy.Line(0, 1, 3), 0.15) == 0
    assert accuracy.power(accuracy.Line(0, 0, 3), 0.15) == 1


def test_errors_are_grouped_to_the_same_degrees_of_freedom() -> None:
    errors = {(10, 2): [3.0, 4.0] * 8, (10, 16): [5.0, 6.0]}
    assert accuracy._grouped(errors, "d") == ([2, 2, 16, 16], [pytest.approx(math.sqrt(12.5))] * 2 + [5, 6])
    assert accuracy._grouped({(10, 4): [3.0, 4.0, 7.0]}, "n") == ([10], [pytest.approx(math.sqrt(12.5))])


# The data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", accuracy.LAWS)
def test_the_data_have_the_stated_mean_and_covariance(law: str) -> None:
    case = Sweep("stable", law, "n", ((1, 3, 1), (2, 3, 1)), Fraction(4), Fraction(1, 5), 0)
    x, shear = case.rows(0, 40000, 3), accuracy._shear(3)
    assert accuracy._norm(x.mean(axis=0) - accuracy.OFFSET, 3) < 0.03
    assert accuracy._spectral_error(np.cov(x.T), shear.T @ shear) < 0.05
    assert np.array_equal(x, case.rows(0, 40000, 3))
    assert not np.array_equal(x, case.rows(1, 40000, 3))


def test_the_norm_is_that_of_the_covariance() -> None:
    sigma, v = accuracy._shear(4).T @ accuracy._shear(4), np.array([1.0, -2, 3, 5])
    assert accuracy._norm(v, 4) ** 2 == pytest.approx(float(v @ np.linalg.solve(sigma, v)), rel=1e-12)
    assert accuracy._spectral_error(1.25 * sigma, sigma) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("edition", [REPAIRED, PRINTED], ids=repr)
@pytest.mark.parametrize("case", [*SMALL.values(), accuracy.NOISE_IN_D, accuracy.DRAWS_IN_N], ids=lambda c: c.task)
def test_every_size_passes_the_gates(case: Sweep, edition: Any) -> None:
    sizes = [(f * case.least_n(edition), d) for f, d, _ in case.points]
    assert case.size(edition) == sum(len(x) for _, x in case.data(edition)) <= 1 << 20
    if case.task != "stable":
        assert all(refimpl.passes_gates(case.parameters(n, d, edition)) for n, d in sizes)


def test_cases_are_saved_and_read_back() -> None:
    for case in (
        accuracy.NOISE_IN_N,
        accuracy.SMALL_SAMPLING,
        accuracy.IN_DIMENSIONS,
        accuracy.GRID,
        MixedRows(300, 3, 2, 1),
    ):
        assert type(case).from_json(case.to_json()) == case  # type: ignore[attr-defined]  # all are cases


@pytest.mark.parametrize(
    "fault", [{"over": "d"}, {"points": ((1, 1, 1),)}, {"within": Fraction(1, 2)}, {"points": ((1, 1, 0), (2, 1, 9))}]
)
def test_a_sweep_outside_its_hypotheses_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(HypothesisBrokenError):
        accuracy.is_a_sweep(replace(accuracy.SMALL_NOISE, **fault))


# The checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", SLOPES, ids=lambda check: check.name)
@pytest.mark.parametrize("name", ["refimpl", "fastimpl"])
def test_the_slopes_hold(check: Lemma, name: str) -> None:
    outcome = run_check(check, load_target(name), PROFILES["quick"])
    assert outcome.verdict == "held"
    assert outcome.tally.telling == outcome.tally.cases == 1 + (len(check.examples()) if name == "fastimpl" else 0)


@pytest.mark.parametrize(
    "check",
    [check for check in SLOPES if SMALL[check.name].task != "stable"],  # k = 1 is the same in both editions
    ids=lambda check: check.name,
)
def test_accuracy_is_not_what_is_wrong_with_the_printed_edition(check: Lemma) -> None:
    for case in check.examples():
        assert examine(check, load_target("fastimpl", PRINTED), case).telling


@pytest.mark.parametrize("check", SLOPES, ids=lambda check: check.name)
def test_the_verdict_does_not_hang_on_the_seed(check: Lemma) -> None:
    model = Target("model", MODEL)
    for seed in range(100, 103):
        for case in (SMALL[check.name], *check.examples()[:1]):
            assert refutation(check, model, replace(case, seed=seed)) is None


@pytest.mark.parametrize("check", [check for check in CHECKS if not check.needs], ids=lambda check: check.name)
def test_statements_about_numbers_alone_hold(check: Lemma) -> None:
    outcome = run_check(check, Target("paper", None), PROFILES["ci"])
    assert outcome.verdict == "held"
    assert outcome.tally.telling >= outcome.tally.cases / 2


@pytest.mark.parametrize(("check", "fault"), KILLS, ids=[f"{check.name}-{fault}" for check, fault in KILLS])
def test_a_fault_is_refuted_by_a_pinned_case(check: Lemma, fault: str) -> None:
    violations = [refutation(check, Target(fault, ACCURACY_MUTANTS[fault]), case) for case in check.examples()]
    assert any(violations)


def test_every_fault_is_some_checks_business() -> None:
    assert sorted(fault for _, fault in KILLS) == sorted(ACCURACY_MUTANTS)


def test_a_target_that_always_fails_is_refuted() -> None:
    never = SimpleNamespace(
        private_mean_given=lambda *_: SimpleNamespace(mean=None),
        private_covariance_given=lambda *_: SimpleNamespace(covariance=None),
        stable_covariance=MODEL.stable_covariance,
        wishart_release=MODEL.wishart_release,
        draw_covariance_coins=MODEL.draw_covariance_coins,
    )
    for check in (accuracy.noise_of_the_mean_scales, accuracy.noise_of_the_covariance_scales):
        *_, last = check(Target("never", never), SMALL[check.name])
        assert isinstance(last, Claim)
        assert "releases" in last.what
        assert not last.is_true(Fraction(0))


# Theorem 43 in many dimensions ----------------------------------------------------------------------------------------


def test_bartletts_factor_has_the_law_of_the_draws() -> None:
    """Trace and largest eigenvalue of W/N, against W made of N normal rows: two-sample tests at level 1e-6."""
    generator, d, samples = np.random.default_rng(3), 4, 9
    made = [accuracy.bartlett(generator, d, samples) for _ in range(2000)]
    rows = generator.standard_normal((2000, samples, d))
    drawn = [z.T @ z / samples for z in rows]
    for of in (np.trace, lambda w: np.linalg.eigvalsh(w)[-1], lambda w: w[0, 1]):
        assert stats.ks_2samp([of(w) for w in made], [of(w) for w in drawn]).pvalue > 1e-6


def test_the_edge_is_exceeded_as_seldom_as_stated() -> None:
    generator, d, samples = np.random.default_rng(4), 8, 64
    limit = accuracy._edge(d, samples, 0.05)
    errors = [np.abs(np.linalg.eigvalsh(accuracy.bartlett(generator, d, samples)) - 1).max() for _ in range(400)]
    assert sum(error > limit for error in errors) <= 0.05 * 400
    assert accuracy._edge(d, samples, 1e-300) > limit


@pytest.mark.parametrize("edition", [REPAIRED, PRINTED], ids=repr)
def test_the_spectral_noise_grows_as_eq_86_says_up_to_a_thousand_dimensions(edition: Any) -> None:
    check, case = accuracy.noise_of_the_covariance_grows_with_the_dimension, accuracy.IN_MORE_DIMENSIONS
    assert examine(check, Target("paper", None, edition), case).telling


@pytest.mark.parametrize("seed", range(20, 30))
def test_the_slope_in_the_dimension_does_not_hang_on_the_seed(seed: int) -> None:
    check = accuracy.noise_of_the_covariance_grows_with_the_dimension
    assert examine(check, Target("paper", None), replace(accuracy.IN_DIMENSIONS, seed=seed)).telling


@pytest.mark.parametrize(
    "fault", [{"dimensions": (8, 64, 128)}, {"dimensions": (64, 32, 128)}, {"draws": 1}, {"within": Fraction(1, 3)}]
)
def test_dimensions_outside_the_hypotheses_are_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(HypothesisBrokenError):
        accuracy.spans_dimensions(replace(accuracy.IN_DIMENSIONS, **fault))


# Section 2.3 ----------------------------------------------------------------------------------------------------------


def test_operations_are_counted_by_the_shapes() -> None:
    counts, a = Counts(), np.ones((5, 3))
    counts.product(a, counts.inverse(counts.gram(a) + np.eye(3)))
    assert (counts.grams, counts.inversions, counts.products, counts.matrix_work) == (1, 1, 1, 45 + 27 + 45)
    assert counts.inner(a, a[:2]).shape == (5, 2)
    assert counts.overhead == 5 * 3 * 2
    assert counts.rowwise(a, a).tolist() == [3] * 5
    assert counts.update(np.zeros((3, 3)), 2.0, np.arange(3.0)).tolist() == [[0, 0, 0], [0, 2, 4], [0, 4, 8]]
    assert counts.update(np.zeros(3), 2.0, np.arange(3.0)).tolist() == [0, 2, 8]
    assert counts.overhead == 30 + 15 + 12 + 6


def test_a_removal_by_the_formula_is_a_removal() -> None:
    y = np.random.default_rng(2).standard_normal((30, 3))
    inverse = np.linalg.inv(y.T @ y / 30)
    updated, norms = accuracy._remove(y, 4, inverse, ((y @ inverse) * y).sum(axis=1), Counts())
    rest = np.delete(y, 4, axis=0)
    expected = np.linalg.inv(rest.T @ rest / 30)
    assert updated == pytest.approx(expected, rel=1e-9)
    assert norms == pytest.approx(((y @ expected) * y).sum(axis=1), rel=1e-9)


@pytest.mark.parametrize("case", [MixedRows(300, 3, 2, 5), MixedRows(300, 3, 1, 4)])
def test_the_weighted_inverse_is_that_of_the_stable_covariance(case: MixedRows) -> None:
    x, reference = case.data()
    m, k = case.n // 2, case.k
    stable = refimpl.stable_covariance(x, 5, k)
    y = (x[:m] - x[m:]) / math.sqrt(2)
    found = section_23(x, Fraction(5), k, reference)
    inverse = accuracy._weighted_inverse(y, np.linalg.inv(y.T @ y / m), found.entry_level, k, Counts())
    assert stable.score < k
    assert inverse @ accuracy._floats(stable.covariance) == pytest.approx(np.eye(2), abs=1e-9)


def test_the_mixed_rows_reach_every_branch() -> None:
    cases = [MixedRows(300, 3, stretched, seed) for stretched in range(1, 5) for seed in range(10)]
    found = [section_23(case.data()[0], Fraction(5), 3, case.data()[1]) for case in cases]
    assert {f.core_level is None for f in found} == {True, False}
    assert any(f.counts.removals == 3 and f.core_level is not None for f in found)  # halted, with a score below k
    assert any(0 < f.last_level < 6 for f in found)
    assert any(0 < level <= 6 for f in found for level in f.entry_level)
    assert any(f.core_level is not None and f.core_level.any() for f in found)


def test_a_grid_of_counts_wants_enough_rows() -> None:
    with pytest.raises(HypothesisBrokenError, match="lambda_0"):
        examine(accuracy.operations_are_counted, Target("paper", None), CountGrid((100,), (2, 4), (2, 4), 0))
