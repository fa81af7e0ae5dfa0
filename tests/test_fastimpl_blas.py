"""Products with triangular matrices: which of them BLAS's trmm makes, and that they are the same products."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import cython_blas

from fastimpl import blas
from fastimpl.blas import Multiplier

WIDE = 16  # columns, from which trmm is used
CAPSULES = dict(cython_blas.__pyx_capi__)
Array = NDArray[Any]


def whole_numbers(d: int, count: int, kind: type, *, lower: bool = True) -> tuple[Array, Array, Array]:
    """Rows, the transpose of a matrix, and their products: so small that every sum in float32 is exact, in any order."""
    rng = np.random.default_rng([d, count])
    rows, matrix = rng.integers(-99, 100, (count, d)), rng.integers(-99, 100, (d, d))
    matrix = np.tril(matrix) if lower else matrix
    return rows.astype(kind), matrix.T.astype(kind), (rows @ matrix.T).astype(kind)


@pytest.fixture
def without_trmm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What happens with a scipy that has no such routine."""
    monkeypatch.setattr(cython_blas, "__pyx_capi__", {})
    blas._strmm.cache_clear()
    yield
    blas._strmm.cache_clear()


@pytest.mark.parametrize("count", [0, 1, 2, 129, 2048])
@pytest.mark.parametrize("d", [1, 8, 15, 16, 17, 50, 128, 131])
def test_products_are_exact_where_sums_are(d: int, count: int) -> None:
    for kind in (np.float32, np.float64):
        for lower in (True, False):
            rows, transposed, products = whole_numbers(d, count, kind, lower=lower)
            multiplier, out = Multiplier(transposed), np.full((count, d), np.nan, dtype=kind)
            assert multiplier.of(rows, out) is out
            assert np.array_equal(out, products)


@pytest.mark.parametrize("d", [WIDE, 50, 131])
def test_rows_of_float64_are_narrowed_on_the_way(d: int) -> None:
    rows, transposed, products = whole_numbers(d, 300, np.float32)
    out = np.empty_like(rows)
    assert np.array_equal(Multiplier(transposed).of(rows.astype(np.float64) * (1 + 2.0**-40), out), products)


def test_wide_lower_triangles_in_float32_are_multiplied_as_triangles() -> None:
    found = {
        (d, kind, lower): Multiplier(whole_numbers(d, 1, kind, lower=lower)[1]).triangular
        for d in (WIDE - 1, WIDE, 50)
        for kind in (np.float32, np.float64)
        for lower in (True, False)
    }
    assert {key for key, triangular in found.items() if triangular} == {
        (WIDE, np.float32, True),
        (50, np.float32, True),
    }


@pytest.mark.usefixtures("without_trmm")
def test_without_the_routine_products_are_the_same() -> None:
    rows, transposed, products = whole_numbers(50, 300, np.float32)
    multiplier, out = Multiplier(transposed), np.empty_like(rows)
    assert not multiplier.triangular
    assert np.array_equal(multiplier.of(rows, out), products)


@pytest.mark.usefixtures("without_trmm")
@pytest.mark.parametrize("other", ["dtrmm", "strsv", "sgemm"])
def test_a_routine_of_another_form_is_not_called(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cython_blas, "__pyx_capi__", {"strmm": CAPSULES[other]})
    assert blas._strmm() is None
    blas._strmm.cache_clear()
    monkeypatch.setattr(cython_blas, "__pyx_capi__", {"strmm": CAPSULES["strmm"]})
    assert blas._strmm() is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_a_row_that_is_not_finite_spoils_no_other(bad: float) -> None:
    rows, transposed, products = whole_numbers(50, 300, np.float32)
    transposed[0, 0] = 4.0  # so the largest numbers overflow
    products[:, 0] = 4 * rows[:, 0]
    rows[100, 0] = bad
    out = Multiplier(transposed).of(rows, np.empty_like(rows))
    kept = np.arange(300) != 100
    assert np.array_equal(out[kept], products[kept])
    assert not np.isfinite(out[100, 0])


def test_threads_may_multiply_at_once() -> None:
    rows, transposed, products = whole_numbers(100, 1000, np.float32)
    multiplier = Multiplier(transposed)
    right: list[bool] = []

    def work() -> None:
        out = np.empty_like(rows)
        right.extend(np.array_equal(multiplier.of(rows, out), products) for _ in range(50))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 200
