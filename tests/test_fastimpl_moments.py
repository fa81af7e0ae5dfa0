"""The one stage of SHARP: fastimpl decides as exact arithmetic does, and its mean and covariance are right to rounding."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_fastimpl_differential import KINDS, Kind, Rng, Rows, every_kind

import fastimpl
import refimpl
from fastimpl import certified
from fastimpl.moments import Lifted, OneStage, one_stage
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction
from refimpl.parameters import SHARP

Result = Any


def lifted_norms(x: Rows) -> list[Fraction]:
    """The squared norms of all lifted rows among all rows; none where their second moment is singular."""
    rows = exact_matrix("x", np.concatenate([np.ones((len(x), 1)), x], axis=1))
    inverse = inverse_or_none(second_moment(rows, [Fraction(1, len(x))] * len(x)))
    return [] if inverse is None else [to_fraction(v) for v in mahalanobis_squared(rows, inverse)]


def tie(rng: Rng, x: Rows, last: int) -> Fraction | None:
    """A lambda_0 whose threshold of some level up to ``last`` is exactly the norm of some lifted row."""
    norms = lifted_norms(x)
    if not norms:
        return None
    norm, level = norms[int(rng.integers(0, len(norms)))], int(rng.integers(0, last + 1))
    return 1 / (1 / norm + Fraction(level, len(x)))  # 1/lambda_ell = 1/lambda_0 - ell/n


def most_levels(n: int, lambda_0: Fraction) -> int:
    """The largest level whose threshold is defined: the largest integer below n/lambda_0."""
    return -int(-n // lambda_0) - 1


def numbers(rng: Rng, n: int, lambda_0: Fraction) -> tuple[int, int]:
    """K and window of which the last threshold is defined."""
    most = most_levels(n, lambda_0)
    k = int(rng.integers(1, min(6, most) + 1))
    return k, int(rng.integers(1, min(12, most + 1 - k) + 1))


def assert_right(exact: Result, fast: Result, d: int) -> None:
    assert fast.score == exact.score
    np.testing.assert_array_equal(fast.entry_level, exact.entry_level)
    np.testing.assert_allclose(fast.weights, [float(w) for w in exact.weights], rtol=2e-16, atol=0)
    assert (fast.mean is None) == (exact.mean is None) == (fast.covariance is None)
    if exact.mean is not None:
        assert_close(fast, exact.mean, exact.covariance, d)


def assert_close(fast: Result, mean: Any, covariance: fmpq_mat, d: int) -> None:
    """Mean to 2^-40 standard deviations and two roundings of its own; covariance to 2^-40 of the standard deviations' product.

    Compared in units of a power of two a column, so that nothing overflows; what underflows may be off by 2^-1074.
    """
    assert fast.mean.shape == (d,)
    assert fast.covariance.shape == (d, d)
    np.testing.assert_array_equal(fast.covariance, fast.covariance.T)
    for i in range(d):
        variance = to_fraction(covariance[i, i])
        off = Fraction(float(fast.mean[i])) - mean[i]
        slack = abs(mean[i]) * Fraction(1, 2**52) + Fraction(1, 2**1073)
        assert max(Fraction(0), abs(off) - slack) ** 2 <= Fraction(1, 2**80) * variance
        for j in range(d):
            wanted, found = to_fraction(covariance[i, j]), float(fast.covariance[i, j])
            product = variance * to_fraction(covariance[j, j])
            if np.isinf(found):
                assert abs(wanted) > Fraction(2) ** 1024 * Fraction(99, 100)
                continue
            apart = max(Fraction(0), abs(Fraction(found) - wanted) - Fraction(1, 2**1072))
            assert apart**2 <= Fraction(1, 2**80) * product


@every_kind
def test_it_equals_exact_arithmetic(kind: Kind) -> None:
    for seed in range(14):
        one_case(kind, seed)


def one_case(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng([seed, 6, KINDS.index(kind)])
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    x = kind(rng, n, d)
    lambda_0 = Fraction(int(rng.integers(4, 60)), int(rng.integers(1, 6)))
    if seed % 2:
        lambda_0 = tie(rng, x, 4) or lambda_0
        lambda_0 *= rng.choice(np.array([Fraction(1), Fraction(1), 1 - Fraction(1, 10**25)], dtype=object))
    lambda_0 = min(lambda_0, Fraction(n, 2) if n > 1 else Fraction(1, 2))
    k, window = numbers(rng, n, lambda_0)
    exact, fast = (i.stable_moments(x, lambda_0, k, window) for i in (refimpl, fastimpl))
    assert_right(exact, fast, d)


finite = st.floats(allow_nan=False, allow_infinity=False)
odd = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 2.0**-1022, 1e-160, 1e308, -1.7e308, 2.0**45, 2.0**45 + 2.0**-7])


@settings(max_examples=150)
@given(st.data())
def test_any_finite_floats(data: st.DataObject) -> None:
    n, d = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 3))
    x = data.draw(arrays(np.float64, (n, d), elements=st.one_of(odd, finite)))
    lambda_0 = data.draw(
        st.fractions(Fraction(1, 4), max(Fraction(1, 4), Fraction(n) * Fraction(9, 10)), max_denominator=12)
    )
    most = most_levels(n, lambda_0)
    k = data.draw(st.integers(1, min(4, most)))
    window = data.draw(st.integers(1, min(6, most + 1 - k)))
    exact, fast = (i.stable_moments(x, lambda_0, k, window) for i in (refimpl, fastimpl))
    assert_right(exact, fast, d)


@pytest.mark.parametrize("offset", [0.0, 1e6, 2.0**45, -(2.0**52)])
@pytest.mark.parametrize("far", [0, 3])
def test_an_offset_costs_no_accuracy_and_no_exact_arithmetic(offset: float, far: int) -> None:
    rng = np.random.default_rng(3)
    x = np.rint(64 * rng.normal(size=(700, 3))) + offset
    x[:far] += 1e4
    with certified.audit() as counts:
        fast = fastimpl.stable_moments(x, 30, 6, 9)
    assert counts["exact"] == 0
    assert fast.score == far
    assert_right(refimpl.stable_moments(x, 30, 6, 9), fast, 3)


@pytest.mark.parametrize("away", [1e9, 1e3])
def test_a_centre_that_misleads_is_replaced(away: float) -> None:
    # Every row of the sample that the centre comes from lies far from the rest, but they are few.
    rng = np.random.default_rng(4)
    x = rng.choice([-0.25, 0.75], (12_300, 2))
    x[:: len(x) // 255] += away
    stage = one_stage(x, Fraction(4), 1030, 10)
    assert float(np.abs(stage.lifted.centre).min()) > away / 10
    assert stage.score == len(x[:: len(x) // 255])
    mean, covariance = stage.moments or (None, None)
    assert "exact" not in vars(stage)  # a better centre is enough
    weights = [Fraction(int(c), stage.total) for c in stage.counts.dense()]
    rows = exact_matrix("x", x)
    b = sum(weights)
    exact_mean = [
        sum((w * to_fraction(rows[i, j]) for i, w in enumerate(weights) if w), Fraction(0)) / b for j in range(2)
    ]
    centred = fmpq_mat(
        rows.nrows(), 2, [rows[i, j] - fmpq_of(exact_mean[j]) for i in range(rows.nrows()) for j in range(2)]
    )
    found = refimpl.StableMomentsResult(mean, covariance, stage.score, None, [])
    assert_close(found, exact_mean, second_moment(centred, weights), 2)


def test_sums_that_overflow_where_their_average_does_not() -> None:
    # The sample that scales and centres come from holds small numbers only.
    x = np.random.default_rng(9).choice([-(2.0**511), 2.0**511], (12_000, 1))
    x[:: len(x) // 512] = 1.0
    x[:: len(x) // 255] = 1.0
    stage = one_stage(x, Fraction(4), 3, 2)
    assert stage.score == 0
    assert np.isinf(stage.grams.plain).any()
    mean, covariance = stage.moments or (np.zeros(1), np.zeros((1, 1)))
    big = x[np.abs(x) > 1] / 2.0**511
    assert mean[0] / 2.0**511 == pytest.approx(big.sum() / len(x), abs=1e-12)
    assert covariance[0, 0] / 2.0**1022 == pytest.approx(len(big) / len(x) - (big.sum() / len(x)) ** 2, rel=1e-12)


def fmpq_of(value: Fraction) -> Any:
    return exact_matrix("value", [[value]])[0, 0]


def test_overflow_leaves_integers_to_do_it() -> None:
    x = np.array([[1.7e308], [-1.7e308], [0.0], [1.0]] * 6)
    exact, fast = (i.stable_moments(x, 6, 2, 2) for i in (refimpl, fastimpl))
    assert exact.score == 0
    assert_right(exact, fast, 1)
    assert np.isinf(fast.covariance).all()


def test_fewer_rows_than_k_may_leave_no_weight() -> None:
    x = np.array([[0.0], [0.0], [0.0]])
    for implementation in (refimpl, fastimpl):
        found = implementation.stable_moments(x, Fraction(1, 4), 5, 2)
        assert (found.score, found.mean, found.covariance) == (3, None, None)
        assert not any(found.weights)


def test_more_columns_than_rows_always_score_k() -> None:
    x = np.random.default_rng(5).normal(size=(9, 12))
    for implementation in (refimpl, fastimpl):
        found = implementation.stable_moments(x, 2, 3, 2)
        assert (found.score, found.mean) == (3, None)
        assert set(found.entry_level) == {5}


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_halting_early_keeps_the_score_and_the_counts(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng([seed, 7, KINDS.index(kind)])
    x = kind(rng, 60, 2)
    lambda_0, window = Fraction(int(rng.integers(4, 14))) * Fraction(1, 2) + 2, 7 - 2 * (seed % 2)
    if (4 + window - 1) * lambda_0 >= 60:
        window = 2
    whole, halted = (one_stage(x, lambda_0, 4, window, early=early) for early in (False, True))
    assert min(whole.score, whole.k) == min(halted.score, halted.k)
    if whole.score < whole.k:
        np.testing.assert_array_equal(whole.counts.dense(), halted.counts.dense())


def test_lifted_vectors_are_the_vectors() -> None:
    rng = np.random.default_rng(6)
    points, centre = rng.normal(size=(50, 3)), np.array([1e8, 0.5, -3.0])
    lifted = Lifted(points, centre)
    wanted = np.concatenate([np.ones((50, 1)), points - centre], axis=1)
    assert (len(lifted), lifted.width) == wanted.shape
    buffer = np.full((64, 4), np.nan)
    np.testing.assert_array_equal(lifted.read(slice(10, 40), buffer), wanted[10:40])
    np.testing.assert_array_equal(lifted.rounded(), wanted)
    np.testing.assert_array_equal(lifted.take(np.array([3, 7])).rounded(), wanted[[3, 7]])
    np.testing.assert_array_equal(lifted.take(slice(None, None, 9)).rounded(), wanted[::9])
    np.testing.assert_array_equal(sum(lifted.plus) - sum(lifted.minus), wanted)


def test_memory_is_a_small_part_of_the_data() -> None:
    x = np.random.default_rng(7).normal(size=(60_000, 8))
    one_stage(x, Fraction(60), 20, 50)  # what is imported and cached is not the stage's
    tracemalloc.start()
    stage = one_stage(x, Fraction(60), 20, 50)
    assert stage.moments is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stage.score == 0
    assert peak < 0.6 * x.nbytes


def test_the_thresholds_are_those_of_the_edition() -> None:
    # A row that enters at level 3 and no earlier: its norm is between lambda_2 and lambda_3.
    x = np.array([[-1.0], [1.0]] * 20 + [[3.0]])
    norm = lifted_norms(x)[-1]
    for level in (1, 2, 4):
        lambda_0 = 1 / (1 / norm + Fraction(level, 41))
        assert SHARP.outlier_threshold(lambda_0, 4, 41, level) == norm
        for implementation in (refimpl, fastimpl):
            assert implementation.stable_moments(x, lambda_0, 3, 2).entry_level[-1] == level


def test_the_exact_form_is_the_covariance() -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(-9, 9, (40, 3)) * 2.0 ** np.array([-3, 0, 40])
    stage: OneStage = one_stage(x, Fraction(13, 2), 3, 2)
    exact = refimpl.stable_moments(x, Fraction(13, 2), 3, 2)
    assert stage.score < 3
    form, unit = stage.exact.form, stage.exact.form.unit
    for i in range(3):
        for j in range(3):
            power = Fraction(2) ** int(unit[i] + unit[j])
            assert Fraction(int(form.matrix[i, j])) * power / stage.exact.scale == to_fraction(exact.covariance[i, j])
    assert stage.exact.mean.tolist() == [float(v) for v in exact.mean]
    assert stage.exact.covariance.tolist() == [
        [float(to_fraction(v)) for v in row] for row in exact.covariance.tolist()
    ]
