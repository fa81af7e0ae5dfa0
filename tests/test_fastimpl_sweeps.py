"""One sweep does several things, by several threads: no number and no decision may depend on that."""

from __future__ import annotations

import copy
import gc
import math
import multiprocessing
import pickle
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

import fastimpl
from fastimpl import certified, covariance, grams, mean, rows, screen, threads
from fastimpl.grams import BlockGrams, Watch, usual_shift
from fastimpl.limits import outlier_limits, thresholds
from fastimpl.rows import Dense, Sparse, Vectors, pairs
from refimpl.parameters import REPAIRED
from refimpl.results import StableCovarianceResult

Rows = NDArray[np.float64]
N, D, K, LAMBDA = 60_000, 3, 12, 25


def clean(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(N, D)) @ np.array([[1.0, 0.4, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 1e-3]]) + 7.0


def outliers(rng: np.random.Generator) -> Rows:
    x = clean(rng)
    x[rng.choice(N, 5, replace=False)] *= 10.0 ** np.array([1.0, 3.0, 10.0, 100.0, 300.0])[:, None]
    return x


def heavy(rng: np.random.Generator) -> Rows:
    """Many rows about the thresholds, more than a watch remembers."""
    return rng.standard_t(4, size=(N, D))


def one_line(rng: np.random.Generator) -> Rows:
    """Nearly singular without a few rows: outliers that hold up the rank."""
    x = np.outer(rng.normal(size=N), [1.0, 2.0, 3.0])
    x[:4] = rng.normal(size=(4, D)) * 1e5
    return x


def grid(rng: np.random.Generator) -> Rows:
    return rng.integers(-2, 3, (N, D)).astype(float)


KINDS = [clean, outliers, heavy, one_line, grid]
each_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


def everything(x: Rows) -> tuple[bytes, ...]:
    """Both results, to the last bit."""
    first = fastimpl.stable_covariance(x, LAMBDA, K)
    second = fastimpl.stable_mean(x, first, LAMBDA, K, list(range(0, N, 200)))
    levels = [np.asarray(result.entry_level).tobytes() for result in (first, second)]
    return (
        *levels,
        first.weights.tobytes(),
        second.weights.tobytes(),
        first.covariance.tobytes(),
        second.mean.tobytes(),
    )


@each_kind
def test_threads_change_no_bit(make: Callable[[np.random.Generator], Rows], monkeypatch: pytest.MonkeyPatch) -> None:
    x = make(np.random.default_rng(0))
    alone = everything(x)
    monkeypatch.setattr(threads, "_WORTH_IT", 0)
    for count in (2, 3):
        monkeypatch.setenv(threads.VARIABLE, str(count))
        assert everything(x) == alone


@each_kind
def test_what_a_watch_saw_changes_no_level(
    make: Callable[[np.random.Generator], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = make(np.random.default_rng(1))
    watched = fastimpl.stable_covariance(x, LAMBDA, K)
    monkeypatch.setattr(covariance, "_watch", lambda *_: None)
    plain = fastimpl.stable_covariance(x, LAMBDA, K)
    assert watched.score == plain.score
    assert np.array_equal(watched.entry_level, plain.entry_level)
    assert np.array_equal(watched.weights, plain.weights)
    assert np.allclose(watched.covariance, plain.covariance, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("width", "lam"), [(9, 50), (40, 130)])
def test_a_watch_in_float32_changes_no_level(width: int, lam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heavy tail, so that it sees rows of many levels; the same rows watched in float64, and not at all."""
    x = np.random.default_rng(width).standard_t(6, size=(N, width)) + 3.0
    x[::20_000] *= 1e30
    watch, found = covariance._watch, []
    for make in (watch, lambda *some: double(watch(*some)), lambda *_: None):
        monkeypatch.setattr(covariance, "_watch", make)
        found.append(fastimpl.stable_covariance(x, lam, K))
    levels = [result.entry_level for result in found]
    assert np.array_equal(levels[0], levels[1])
    assert np.array_equal(levels[0], levels[2])
    assert len(set(levels[0])) > 5


def double(watch: Watch | None) -> Watch:
    assert watch is not None
    assert watch.single
    return watch._replace(single=False)


# What the covariance stage keeps for the mean stage ---------------------------------------------------------------------


def sums_anew(x: Rows, result: object, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the mean stage sums a Gram matrix of its own; its levels do not depend on that."""
    made: list[object] = []

    def counted(*some: object, **named: object) -> BlockGrams:
        made.append(some)
        return BlockGrams(*some, **named)  # type: ignore[arg-type]  # whatever it is called with

    reference = list(range(0, len(x), 200))
    with monkeypatch.context() as patch:
        patch.setattr(mean, "BlockGrams", counted)
        found = fastimpl.stable_mean(x, result, LAMBDA, K, reference).entry_level
        count = len(made)
        assert isinstance(result, StableCovarianceResult)
        plain = StableCovarianceResult(result.covariance, result.score, result.weights, result.entry_level)
        assert np.array_equal(found, fastimpl.stable_mean(x, plain, LAMBDA, K, reference).entry_level)
        assert len(made) == count + 1  # nothing is known of a plain result
    return count > 0


@each_kind
def test_the_mean_stage_takes_over_what_was_kept(
    make: Callable[[np.random.Generator], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grams, "_WORTH_KEEPING", 0)
    x = make(np.random.default_rng(8))
    assert sums_anew(x, fastimpl.stable_covariance(x, LAMBDA, K), monkeypatch) == (
        make is one_line
    )  # it has no use for it


@pytest.mark.parametrize("spread", [1e-6, 1e-7])
@pytest.mark.parametrize(("far", "some"), [(0, 0), (5, 0), (5, 100)])
def test_the_mean_stage_takes_over_what_was_refined(
    spread: float, far: int, some: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns that are nearly one; rows far out, and rows whose weight is a part of one: with these it is another set."""
    monkeypatch.setattr(grams, "_WORTH_KEEPING", 0)
    x = clean(np.random.default_rng(13))
    x[:, 0] = x[:, 1] + spread * x[:, 0]
    x[:far] *= 1e6
    x[100 : 100 + some, 0] += spread * np.linspace(0.05, 0.2, some)
    result = fastimpl.stable_covariance(x, LAMBDA, K)
    assert isinstance(result, covariance.KeptResult)
    assert result.gram is not None
    assert result.gram.refined is not None
    partial = len(set(result.weights)) > 2
    assert partial == (some > 0)
    assert sums_anew(x, result, monkeypatch) == partial


def test_what_was_kept_is_of_these_rows_and_counts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of equal rows elsewhere, of rows written to, of a shorter view, of other levels; nor is it in a copy."""
    monkeypatch.setattr(grams, "_WORTH_KEEPING", 0)
    x = np.vstack([clean(np.random.default_rng(9)), np.zeros((1, D))])
    good = fastimpl.stable_covariance(x, LAMBDA, K)
    assert not sums_anew(x, good, monkeypatch)
    assert sums_anew(x.copy(), good, monkeypatch)
    assert sums_anew(x[1:], good, monkeypatch)
    assert not sums_anew(x[:-1], good, monkeypatch)  # the odd row is in no pair: the same pairs
    for other in (copy.copy(good), copy.deepcopy(good), pickle.loads(pickle.dumps(good))):
        assert type(other) is StableCovarianceResult
        assert np.array_equal(other.weights, good.weights)
    levels = np.array(good.entry_level)
    levels[5] = 2 * K
    assert sums_anew(x, replace(good, entry_level=levels), monkeypatch)
    x *= 2.0
    assert sums_anew(x, good, monkeypatch)
    x *= 0.5
    assert not sums_anew(x, good, monkeypatch)


def test_what_was_kept_does_not_keep_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grams, "_WORTH_KEEPING", 0)
    x = clean(np.random.default_rng(10))
    good = fastimpl.stable_covariance(x, LAMBDA, K)
    assert isinstance(good, covariance.KeptResult)
    assert good.gram is not None
    assert good.gram.owner() is x
    del x
    gc.collect()
    assert good.gram.owner() is None


def test_little_data_leave_nothing_to_keep() -> None:
    result = fastimpl.stable_covariance(np.random.default_rng(11).normal(size=(2000, D)), LAMBDA, K)
    assert isinstance(result, covariance.KeptResult)
    assert result.gram is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_spoiled_in_between_is_refused(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing to a single row breaks the promise, and is not noticed as such."""
    monkeypatch.setattr(grams, "_WORTH_KEEPING", 0)
    x = clean(np.random.default_rng(12))
    good = fastimpl.stable_covariance(x, LAMBDA, K)
    x[4321, 1] = value
    with pytest.raises(ValueError, match="x must be finite"):
        fastimpl.stable_mean(x, good, LAMBDA, K, [0, 1, 2])


@pytest.mark.parametrize("width", [8, 13])
def test_float32_changes_no_level(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heavy tails, so that rows enter at many levels; the same rows in float64 throughout."""
    x = np.random.default_rng(width).standard_t(6, size=(6000, width)) + 3.0
    reference = list(range(0, 6000, 10))
    found = []
    for columns in (certified.SINGLE_FROM, 1 << 20):
        monkeypatch.setattr(certified, "SINGLE_FROM", columns)
        first = fastimpl.stable_covariance(x, 3 * width, K)
        found.append((first.entry_level, fastimpl.stable_mean(x, first, 3 * width, K, reference).entry_level))
    assert all(map(np.array_equal, *found))
    assert all(len(set(levels)) > 10 for levels in found[0])


@pytest.mark.parametrize("outliers", [0, 5])
def test_a_tight_centre_shortens_the_longest_reference_rows(outliers: int) -> None:
    """All but as many as may be far, whatever they are; where more are far than may be, the centre stays where it is."""
    points = np.random.default_rng(outliers).normal(size=(500, 10)) + 5.0
    points[:outliers] *= 10.0 ** np.linspace(3, 100, outliers)[:, None]
    whitening = certified.Whitening(np.eye(10), np.eye(10), np.zeros(10, dtype=np.int64), np.full(10, 100.0), 0.0, 0)
    limits = thresholds([Fraction(100)], Fraction(1))
    with np.errstate(all="ignore"):
        plain = screen.centre_of(points, whitening)
        tight, stays = (screen.tight_centre(points, whitening, limits, np.array([n])) for n in (outliers, outliers - 1))
    radii = [np.sort(np.linalg.norm(points - centre, axis=1))[-1 - outliers] for centre in (plain, tight)]
    assert radii[1] < 0.97 * radii[0]
    assert outliers == 0 or np.array_equal(stays, plain)


def test_a_watch_is_at_work() -> None:
    """On clean rows, on outliers and on a heavy tail it sees all that matters; of a mixture of scales it does not even try."""
    mixture = np.random.default_rng(4).normal(size=(N, D)) * np.where(np.arange(N) % 40 == 0, 6.0, 1.0)[:, None]
    seen = []
    for x in (*(make(np.random.default_rng(2)) for make in (clean, outliers, heavy)), mixture):
        vectors = pairs(x)
        limits = outlier_limits(REPAIRED, Fraction(LAMBDA), K, N // 2, range(2 * K + 1), Fraction(2, N))
        with np.errstate(all="ignore"):
            found = covariance.watched_grams(vectors, limits)
        seen.append((found.seen is not None, len(found.without)))
    assert seen == [(True, 0), (True, 5), (True, 10), (False, 0)]


def test_a_watch_that_sees_too_much_goes_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grams, "_MOST_SEEN", 10)
    y = np.random.default_rng(3).normal(size=(9000, 2))
    found = BlockGrams(Vectors((y,)), np.zeros(2, dtype=np.int64), watch=Watch(np.eye(2), 1.0, 4.0))
    assert found.seen is None
    assert np.all(np.sum(y[found.without] ** 2, axis=1) > 4)  # what it left out before that stays out
    counts = Sparse(9000, 3, np.array([0, 5, 8999]), np.array([0, 1, 3]))
    assert np.allclose(found.total(counts), (y * counts.dense()[:, None]).T @ y, rtol=1e-12)


def test_totals_do_not_depend_on_what_was_left_out_at_first() -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(-9, 10, (9000, 2)).astype(float)  # sums of integers: exact
    plain, without = (
        BlockGrams(Vectors((y,)), np.zeros(2, dtype=np.int64), without=w) for w in (None, np.array([3, 77, 8000]))
    )
    for index, value in (([], []), ([3, 77, 8000], [0, 0, 0]), ([3, 4], [0, 0]), ([77, 8000, 8001], [2, 0, 1])):
        counts = Sparse(9000, 2, np.array(index, dtype=np.int64), np.array(value, dtype=np.int64))
        expected = (y * counts.dense()[:, None]).T @ y
        assert np.array_equal(plain.total(counts), expected)
        assert np.array_equal(without.total(counts), expected)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("smaller", [1.0, 0.5])
def test_bounds_from_another_matrix_hold(spread: float, smaller: float) -> None:
    """``transfer`` for rough matrices B: forms are below the bound, and near it, so that half of it would be too little."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=(500, 4))
    y[:, 3] = y[:, 0] + spread * y[:, 3]
    vectors = Vectors((y,))
    none = np.empty(0, dtype=np.int64)
    whitening = certified.float_whitening(BlockGrams(vectors, usual_shift(vectors)), Sparse(500, 1, none, none))
    assert whitening is not None
    b = np.linalg.cholesky(np.linalg.inv(y[:200].T @ y[:200])).T
    z = y @ b.T
    bounds = smaller * certified.transfer(whitening, b, np.einsum("ij,ij->i", z, z))
    low = certified.norm_bounds(*certified.whiten(vectors, whitening), whitening.epsilon).lower
    assert np.isfinite(bounds).all()
    assert (low <= bounds).all() == (smaller == 1.0)


def test_spectral_norms_are_bounded_closely() -> None:
    """Diagonal matrices, whose norms are known; of one eigenvalue, of many, of tiny and of huge ones."""
    for d in (1, 2, 50):
        for sizes in (np.ones(d), np.r_[1.0, np.zeros(d - 1)], 0.5 ** np.arange(d)):
            for scale in (-1e-3, 1.0, 1e5, 2.0**-60, 2.0**400):
                bound = certified._spectral_norm(np.diag(scale * sizes))
                squarings = {1.0: 4, -1e-3: 2, 1e5: 2}.get(scale, 0)  # as far as they stay in range
                assert abs(scale) <= bound <= abs(scale) * d ** (0.5 / 2**squarings) * (1 + 1e-9)


def test_a_singular_or_useless_matrix_says_nothing() -> None:
    y = np.random.default_rng(6).normal(size=(50, 2))
    vectors, none = Vectors((y,)), np.empty(0, dtype=np.int64)
    whitening = certified.float_whitening(BlockGrams(vectors, usual_shift(vectors)), Sparse(50, 1, none, none))
    assert whitening is not None
    with np.errstate(all="ignore"):
        for matrix in (np.zeros((2, 2)), np.full((2, 2), np.nan), np.array([[1.0, 0.0], [0.0, 1e-300]])):
            assert np.isinf(certified.transfer(whitening, matrix, np.ones(3))).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 4321, N // 2, N - 2, N - 1, N])
def test_what_is_not_finite_is_refused_wherever_it_stands(value: float, row: int) -> None:
    """Also where the sums tell, and where they do not: in the odd row, and in rows that are left out of the sums."""
    rng = np.random.default_rng(7)
    x = np.vstack([clean(rng), rng.normal(size=(1, D))])
    good = fastimpl.stable_covariance(x, LAMBDA, K)
    x[row, 1] = value
    with pytest.raises(ValueError, match="x must be finite"):
        fastimpl.stable_covariance(x, LAMBDA, K)
    with pytest.raises(ValueError, match="y must be finite"):
        fastimpl.stable_second_moment(x, LAMBDA, K)
    for sigma in (good, np.eye(D)):
        with pytest.raises(ValueError, match="x must be finite"):
            fastimpl.stable_mean(x, sigma, LAMBDA, K, [0, 1, 2])


def test_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (threads.VARIABLE, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_processors", lambda: 40)
    assert (threads.thread_count(2_999_999), threads.thread_count(3_000_000)) == (1, 16)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.thread_count(10**7) == 5
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "0")  # means the default
    assert threads.thread_count(10**7) == 5
    monkeypatch.setenv(threads.VARIABLE, "2")
    assert threads.thread_count(10**7) == 2


@pytest.mark.parametrize("count", [1, 2, 5])
def test_parts_come_back_in_order(count: int) -> None:
    assert [i for part in threads.spread(list, 11, count) for i in part] == list(range(11))
    with pytest.raises(ZeroDivisionError):
        threads.spread(lambda part: 1 // (part.stop - 3), 3, count)


@pytest.mark.parametrize("table", [None, np.array([5, 0, 2, 2, 0, 7, 1, 1, 3])])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("size", [1, 2, 801])
def test_integers_are_the_same_in_an_array_and_in_a_list(
    share: float, size: int, table: NDArray[np.int64] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of them, with blocks that are smaller than the array."""
    monkeypatch.setattr(rows, "_PART", 100)
    rng = np.random.default_rng([int(100 * share), size])
    whole: NDArray[np.integer[Any]] = np.where(rng.random(size) < share, rng.integers(0, 9, size), 3).astype(np.int16)
    index = np.flatnonzero(whole != 3)
    many: Sparse = Dense(whole, 3)
    few = Sparse(size, 3, index, whole[index].astype(np.int64))
    if table is not None:
        whole, many, few = table[whole], many.mapped(table), few.mapped(table)
    assert (many.size, many.usual, many.total(), many.held) == (few.size, few.usual, few.total(), few.held)
    assert np.array_equal(many.dense(), whole)
    block = slice(size // 3, size // 2)
    asked: list[Callable[[Sparse], Sequence[NDArray[Any]]]] = [
        lambda one: [one.index, one.value, one.left_out, one.dense(), one.block(block), *one.odd(block)],
        lambda one: [one.histogram(count) for count in (1, 5, 9, 12)],
        lambda one: one.spelled_out(np.arange(9.0) / 7),
        lambda one: [
            one.unlike(np.array(without, dtype=np.int64), 50) for without in ([], [0], np.flatnonzero(whole == 0))
        ],
    ]
    for ask in asked:
        assert all(np.array_equal(a, b) for a, b in zip(ask(many), ask(few), strict=True))
    assert many.equals(few)
    assert few.equals(many)
    other = whole.copy()
    other[-1] += 1
    assert not many.equals(Dense(other, many.usual))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 801])
def test_others_are_found_whole_words_at_a_time(
    size: int, kind: type[np.integer[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever part and at whatever place of a word, in what is left over, and where numbers do not lie side by side."""
    monkeypatch.setattr(rows, "_PART", 20)
    rng = np.random.default_rng(size)
    for share in (0.0, 0.01, 0.3, 1.0):
        double = np.where(rng.random((size, 2)) < share, rng.integers(-9, 9, (size, 2)), 3).astype(kind)
        for array in (double[:, 0].copy(), double[:, 1], double[::-1, 0]):
            where = np.flatnonzero(array != 3)
            found = rows._others(array, 3, len(where))
            assert found is not None
            assert np.array_equal(found, where)
            assert rows._others(array, 3, len(where) - 1) is None


@pytest.mark.parametrize("kind", [np.int16, np.int64])
def test_whether_integers_lie_in_a_range(kind: type[np.integer[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a list and of an array, whichever of them is out of it: a usual one, another one, the last."""
    monkeypatch.setattr(rows, "_PART", 100)
    for odd in (10, 400):
        for value in (-1, 0, 5, 6):
            whole = np.full(800, 2, dtype=kind)
            whole[-odd:] = np.arange(odd) % 3
            assert Sparse.of(whole).lies_in(5)
            assert not Sparse.of(whole).lies_in(1)
            whole[-1] = value
            assert Sparse.of(whole).lies_in(5) == (0 <= value <= 5)
    assert Sparse.of(np.full(9, 5, dtype=kind)).lies_in(5)
    assert not any(Sparse.of(np.full(9, value, dtype=kind)).lies_in(5) for value in (-1, 6))


@pytest.mark.parametrize("kind", [np.int16, np.int64, np.uint8, object])
def test_levels_beyond_the_last_count_like_the_next(kind: type[object]) -> None:
    """And those below zero like zero, where there are any; whatever integers they are, few or many."""
    for many in (1, 30):
        levels = np.full(100, 3).astype(kind)
        levels[:many] = 200 if kind is np.uint8 else 1 << (70 if kind is object else 14)
        levels[-1] = 0 if kind is np.uint8 else -5
        counts, parts = mean.weight_counts(levels, range(2, 7))
        assert (parts, counts.size) == (5, 100)
        assert counts.dense().tolist() == [0] * many + [4] * (99 - many) + [5]


@pytest.mark.parametrize("power", [-200, 200])
def test_a_shift_is_made_for_what_is_beyond_ordinary_sizes_only(power: int) -> None:
    """Just within, just beyond, and where a single row of the sample, which tells nothing, is beyond."""
    y = np.full((40, 2), math.ldexp(1.0, power))
    assert not usual_shift(Vectors((y / 2.0 ** (power > 0),))).any()
    beyond = usual_shift(Vectors((y * 2.0 ** np.sign(power) / 4.0 ** (power < 0),)))
    assert np.all(np.abs(beyond) > 200)
    single = np.ones((40, 2))
    single[7] = math.ldexp(1.0, 2 * power)
    assert not usual_shift(Vectors((single,))).any()


def test_an_array_serves_where_many_are_unusual() -> None:
    for count, kind in ((50, Sparse), (51, Dense)):
        some = np.arange(800) >= 800 - count
        assert type(Sparse.of(some.astype(np.int16))) is kind
        assert type(Sparse.without(~some)) is kind
        assert np.array_equal(Sparse.of(some.astype(np.int16)).dense(), some)
        assert np.array_equal(Sparse.without(~some).dense(), ~some)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shares_hold_every_number_once(count: int) -> None:
    done = threads.share(list, 1000, count)
    assert len(done) == count
    assert all(part == sorted(part) for part in done)
    assert sorted(i for part in done for i in part) == list(range(1000))
    with pytest.raises(ZeroDivisionError):
        threads.share(lambda part: [1 // (i - 3) for i in part], 11, count)


def test_shares_go_to_whoever_is_free() -> None:
    """One thread is held up until the other has done all the rest."""
    rest = threading.Event()

    def work(part: Iterator[int]) -> list[int]:
        mine = []
        for i in part:
            mine.append(i)
            if i == 0:
                assert rest.wait(60)
            elif i == 99:
                rest.set()
        return mine

    assert sorted(map(len, threads.share(work, 100, 2))) == [1, 99]


@pytest.mark.parametrize("width", [1, 3, 10, 1 << 13, (1 << 14) + 1])
@pytest.mark.parametrize("count", [0, 1, 1023, 2048, 2049])
def test_rows_are_read_about_a_centre_whatever_their_number(width: int, count: int) -> None:
    """Many at a time, and the rest; every difference is the same float."""
    if width * count > 1 << 22:
        count //= 16
    points = np.random.default_rng([width, count]).normal(size=(count + 2, width))
    centred = rows.Centred(points, points[0] / 3)
    buffer = np.full((count + 1, width), np.nan)
    read = centred.read(slice(1, count + 1), buffer)
    assert np.array_equal(read, points[1 : count + 1] - points[0] / 3)
    assert np.isnan(buffer[count:]).all()


@pytest.mark.parametrize("size", [0, 5, 200_000, 300_000, 1 << 19])
def test_new_arrays_begin_with_a_huge_page_if_they_are_large(size: int) -> None:
    array = rows.new_array(size, np.float64)
    assert (array.shape, array.dtype) == ((size,), np.float64)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.nbytes < rows._LARGE or array.ctypes.data % rows._HUGE_PAGE == 0


def test_new_arrays_do_not_overlap() -> None:
    parts = rows.new_arrays((700, 300), np.float64, np.float32, np.float32)
    for number, part in enumerate(parts):
        part[:] = number
    assert [(part.shape, part.dtype, set(np.unique(part))) for part in parts] == [
        ((700, 300), np.float64, {0}),
        ((700, 300), np.float32, {1}),
        ((700, 300), np.float32, {2}),
    ]
    assert all(part.ctypes.data % part.itemsize == 0 for part in parts)


def test_none_is_left_running_if_one_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[range] = []

    def only_once(run: Callable[[], None], arguments: tuple[()]) -> None:
        monkeypatch.setattr(threads, "start_new_thread", None)
        start_new_thread(run, arguments)

    def work(part: range) -> None:
        time.sleep(0.2)
        done.append(part)

    monkeypatch.setattr(threads, "start_new_thread", only_once)
    with pytest.raises(TypeError):
        threads.spread(work, 9, 3)
    assert done == [range(3, 6)]


def test_blas_has_one_thread_in_each_of_ours() -> None:
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    with threadpool_limits(2, user_api="blas"):
        found = threads.spread(lambda _: threadpool_info(), 2, 2)
        after = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    assert [library["num_threads"] for some in found for library in some if library["user_api"] == "blas"] == [
        1 for _ in before + before
    ]
    assert after == [2 for _ in before]


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_is_limited_until_the_last_has_left() -> None:
    """Two at once, of which the first to come is the first to leave; then one that fails."""
    first, second = threads._limit.inside(), threads._limit.inside()
    with threadpool_limits(2, user_api="blas"):
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
        with pytest.raises(ZeroDivisionError), threads._limit.inside():
            raise ZeroDivisionError
        assert blas_threads() == {2}


@pytest.mark.parametrize(("n", "d", "count"), [(20_000, 3, 2), (22_000, 3, 1), (600, 128, 2), (2000, 127, 1)])
def test_blas_has_one_thread_in_a_stage(n: int, d: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are enough; of many columns it may have more, where there are not enough rows for threads of ours."""
    x, seen = np.random.default_rng(14).normal(size=(2 * n, d)), []
    whitening = certified.float_whitening

    def look(grams: BlockGrams, counts: Sparse) -> certified.Whitening | None:
        seen.append(blas_threads())
        return whitening(grams, counts)

    monkeypatch.setattr(certified, "float_whitening", look)
    with threadpool_limits(2, user_api="blas"):
        fastimpl.stable_covariance(x, 5 * d, 3)
        assert blas_threads() == {2}
    assert seen
    assert all(threads_of_blas == {count} for threads_of_blas in seen)


JOBS: dict[str, Callable[[Rows], object]] = {
    "largest_good_subset": lambda x: fastimpl.largest_good_subset(x, 50),
    "largest_core": lambda x: fastimpl.largest_core(x, np.eye(D), 50, 3, list(range(10))),
    "stable_second_moment": lambda x: fastimpl.stable_second_moment(x, 50, 3),
    "stable_mean": lambda x: fastimpl.stable_mean(x, np.eye(D), 50, 3, list(range(10))),
    "stable_moments": lambda x: fastimpl.stable_moments(x, 50, 3, 3),
}


@pytest.mark.parametrize("name", JOBS)
def test_blas_has_one_thread_whoever_asks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of each sweep over blocks."""
    seen, share = [], threads.share

    def look(*some: Any) -> Any:
        done = share(*some)
        seen.append(blas_threads())
        return done

    for room in (grams, mean, certified):
        monkeypatch.setattr(room, "share", look)
    x = np.random.default_rng(15).normal(size=(30_000, D))
    with threadpool_limits(2, user_api="blas"):
        JOBS[name](x)
        assert blas_threads() == {2}
    assert seen
    assert all(found == {1} for found in seen)


def _levels(queue: multiprocessing.Queue[bytes], x: Rows) -> None:
    queue.put(np.asarray(fastimpl.stable_covariance(x, LAMBDA, K).entry_level).tobytes())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
# Python warns of forks in general where threads are still alive; here none is.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_after_threads_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_WORTH_IT", 0)
    monkeypatch.setenv(threads.VARIABLE, "2")
    x = outliers(np.random.default_rng(8))
    here = np.asarray(fastimpl.stable_covariance(x, LAMBDA, K).entry_level).tobytes()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_levels, args=(queue, x))
    child.start()
    assert queue.get(timeout=60) == here
    child.join(10)
    assert child.exitcode == 0
