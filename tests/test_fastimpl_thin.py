"""Columns so nearly dependent that neither floats nor pairs of them have a digit left: vectors are whitened by integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from search_slow import first_norm

import fastimpl
import refimpl
from fastimpl import certified
from fastimpl.exact import QuadraticForm, column_units, gram
from fastimpl.rows import Vectors

Rows = NDArray[np.float64]
REFERENCE = list(range(0, 60, 4))


def thin(rng: np.random.Generator, power: int, d: int, kind: str) -> Rows:
    """Rows whose differences are 2^power a + b in one column, a in another, and more columns; as wide, or all very small."""
    a = rng.integers(-3, 4, (30, d)).astype(float) if kind == "grid" else rng.standard_t(3, size=(30, d))
    x = np.zeros((60, d))
    x[:30] = a
    x[30:, 0], x[:30, 0] = -a[:, 0], 2.0**power * a[:, 1]
    return x * 2.0**-700 if kind == "tiny" else x


@pytest.mark.parametrize("kind", ["grid", "heavy", "tiny"])
@pytest.mark.parametrize("power", [60, 90, 104, 110, 130, 300, 900])
def test_both_stages_equal_exact_arithmetic(power: int, kind: str) -> None:
    whitened = 0
    for seed in range(6):
        x = thin(np.random.default_rng([seed, power]), power, 2 + seed % 2, kind)
        lam = min((first_norm(x) if seed % 3 else None) or Fraction(9, 2), Fraction(10))
        with certified.audit() as decided:
            fast = fastimpl.stable_covariance(x, lam, 4)
            mean = fastimpl.stable_mean(x, fast, lam, 4, REFERENCE)
        whitened += decided["F4"]
        exact = refimpl.stable_covariance(x.tolist(), lam, 4)
        assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
        right = refimpl.stable_mean(x.tolist(), exact, lam, 4, REFERENCE)
        assert (tuple(mean.entry_level), mean.score) == (right.entry_level, right.score)
    assert whitened > 0 or power < 110


def test_few_are_asked_about_however_thin_data_are() -> None:
    rng = np.random.default_rng(1)
    x = np.zeros((2000, 10))
    x[:1000] = rng.normal(size=(1000, 10))
    x[1000:, 0], x[:1000, 0] = -x[:1000, 0], 2.0**300 * x[:1000, 1]
    with certified.audit() as decided:
        covariance = fastimpl.stable_covariance(x, 250, 98)
        fastimpl.stable_mean(x, covariance, 250, 98, np.arange(0, 2000, 3))
    assert decided["exact"] < 10
    assert decided["F4"] >= 3000


def test_of_rows_that_are_not_finite_nothing_is_known() -> None:
    y = thin(np.random.default_rng(1), 300, 3, "heavy")
    vectors = Vectors((y[:30],), (y[30:],))
    unit = column_units(vectors)
    whitening = certified.exact_whitening(QuadraticForm(gram(vectors, unit), unit))
    plus, minus = y[:30].copy(), y[30:].copy()
    plus[3, 1], minus[5, 2], plus[7, 0], minus[7, 0] = np.nan, np.inf, 1e308, -1e308
    with np.errstate(all="ignore"):
        z, error = certified.whiten(Vectors((plus,), (minus,)), whitening)
        right, _ = certified.whiten(vectors, whitening)
    assert np.isnan(z[[3, 5]]).all()
    assert not np.isfinite(error[[3, 5]]).any()
    others = np.setdiff1d(np.arange(30), [3, 5, 7])
    assert np.array_equal(z[others], right[others])
    assert np.abs(z[7]).max() > 1e7


def test_units_of_vectors_may_be_smaller_than_those_of_the_form() -> None:
    """As those of a centre are."""
    y = thin(np.random.default_rng(1), 300, 3, "grid")
    vectors = Vectors((y[:30],), (y[30:],))
    unit = column_units(vectors)
    whitening = certified.exact_whitening(QuadraticForm(gram(vectors, unit), unit))
    whole, _ = certified.whiten(vectors, whitening)
    third, _ = certified.whiten(Vectors((y[:30] / 2**70,), (y[30:] / 2**70,)), whitening)
    assert np.array_equal(whole, third * 2**70)
