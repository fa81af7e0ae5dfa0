"""The same numbers in other clothes give the same decisions: dtypes, memory orders, views, lists, and what float64 rounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
import refimpl

Rows = NDArray[np.float64]
REFERENCE = list(range(0, 60, 4))


def decisions(x: Any, lambda_0: Any = Fraction(5), k: int = 3) -> tuple[Any, ...]:
    """Levels, scores and weights of both stages, and two sets."""
    covariance = fastimpl.stable_covariance(x, lambda_0, k)
    mean = fastimpl.stable_mean(x, covariance, lambda_0, k, REFERENCE)
    sets = (
        fastimpl.largest_good_subset(x, lambda_0),
        fastimpl.largest_core(x, covariance, lambda_0, 12, REFERENCE),
    )
    stages = ((tuple(map(int, s.entry_level)), s.score, tuple(map(float, s.weights))) for s in (covariance, mean))
    return (*stages, *sets)


def integers() -> Rows:
    x = np.random.default_rng(0).integers(-3, 4, (60, 3)).astype(np.float64)
    x[7], x[40] = 100.0, [-90.0, 0.0, 50.0]
    return x


def columns(x: Rows) -> Any:
    return np.asfortranarray(x)


def every_second(x: Rows) -> Any:
    wide = np.full((2 * len(x), 2 * x.shape[1]), 9.0)
    wide[::2, 1::2] = x
    return wide[::2, 1::2]


def backwards(x: Rows) -> Any:
    return x[::-1].copy()[::-1]


def read_only(x: Rows) -> Any:
    y = x.copy()
    y.flags.writeable = False
    return y


def big_endian(x: Rows) -> Any:
    return x.astype(">f8")


LAYOUTS: list[Callable[[Rows], Any]] = [columns, every_second, backwards, read_only, big_endian, np.ndarray.tolist]
DTYPES = ["int8", "int16", "int32", "int64", "float16", "float32", "longdouble", ">i4"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
def test_the_layout_does_not_matter(layout: Callable[[Rows], Any]) -> None:
    for x in (integers(), integers() / 3 + 1e6):
        given = layout(x)
        before = np.array(given)
        assert decisions(given) == decisions(x)
        assert np.array_equal(np.array(given), before)  # and it is left as it was


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_does_not_matter(dtype: str) -> None:
    assert decisions(integers().astype(dtype)) == decisions(integers())


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_unsigned_numbers_do_not_wrap_around(dtype: str) -> None:
    x = integers() + 120
    assert decisions(x.astype(dtype)) == decisions(x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_is_what_is_meant(dtype: str, seed: int) -> None:
    """Each number stands for itself: float32 data are decided as the dyadic rationals that they are, as refimpl does."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(40, 2)) * (50.0 if dtype == "int64" else 1.0)).astype(dtype)
    x[3] *= 30
    lam, reference = Fraction(4), list(range(0, 40, 3))
    fast, exact = fastimpl.stable_covariance(x, lam, 2), refimpl.stable_covariance(x, lam, 2)
    assert tuple(fast.entry_level) == exact.entry_level
    fast_mean = fastimpl.stable_mean(x, fast, lam, 2, reference)
    assert tuple(fast_mean.entry_level) == refimpl.stable_mean(x, exact, lam, 2, reference).entry_level


def test_float32_is_not_computed_in_float32() -> None:
    """In float32 the squares of these rows overflow, and their difference from 2^24 is lost."""
    x = np.float32(2.0**24) + np.random.default_rng(1).integers(0, 8, (60, 2)).astype(np.float32) * 2
    assert decisions(x) == decisions(x.astype(np.float64))
    assert decisions(x * np.float32(1e30)) == decisions((x * np.float32(1e30)).astype(np.float64))


def test_a_tie_in_float32_is_a_tie() -> None:
    y = np.tile(np.array([[1.0, 1.0], [1.0, -1.0]], dtype=np.float32) * np.float32(0.1), (8, 1))
    assert len(fastimpl.largest_good_subset(y, 2)) == 16
    assert fastimpl.largest_good_subset(y, 2 - Fraction(1, 10**40)) == frozenset()
    assert [len(fastimpl.largest_good_subset(y, lam)) for lam in (1, 3)] == [0, 16]  # no ties


def test_thresholds_are_what_they_say() -> None:
    """0.1 is the float, "0.1" and Fraction(1, 10) the decimal: a tie with one is none with the other."""
    x = np.ones((10, 1))
    assert len(fastimpl.largest_good_subset(x, 1)) == 10
    same: list[Any] = [1.0, "1", Fraction(1), np.int64(1), np.float32(1)]
    for lam in same:
        assert len(fastimpl.largest_good_subset(x, lam)) == 10
    assert fastimpl.largest_good_subset(x, "0.99999999999999999999") == frozenset()
    assert len(fastimpl.largest_good_subset(x, 0.99999999999999999999)) == 10  # that float is 1
    assert [len(fastimpl.largest_good_subset(x, lam)) for lam in (0.1, 10)] == [0, 10]
