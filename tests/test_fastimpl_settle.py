"""What a thread does meanwhile, and which rows a screen takes in by products alone."""

from __future__ import annotations

from fractions import Fraction
from threading import Event, get_ident

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
from fastimpl import mean, rows, screen, threads
from fastimpl.certified import Whitening
from fastimpl.limits import thresholds
from fastimpl.rows import Centred, Dense

Rows = NDArray[np.float64]


@pytest.mark.parametrize("count", [1, 2])
def test_work_is_done_meanwhile(count: int) -> None:
    """In another thread if there may be two, and at the end whatever happens inside."""
    began = Event()
    seen: list[int] = []

    def work() -> None:
        assert count == 1 or began.wait(60)  # so it is not over before what it is meanwhile to has begun
        seen.append(get_ident())

    def fail() -> None:
        with threads.meanwhile(work, count):
            began.set()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [thread == get_ident() for thread in seen] == [count == 1]


@pytest.mark.parametrize("count", [1, 2])
def test_what_goes_wrong_meanwhile_is_heard_of(count: int) -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), threads.meanwhile(work, count):
        pass


def test_every_page_is_touched() -> None:
    array = np.full(10_000, np.nextafter(1.0, 0.0))  # no byte of it is zero
    rows.touch(array)
    assert np.flatnonzero(array.view(np.uint8) == 0).tolist() == list(range(0, 80_000, 4096))


def test_weights_go_where_there_is_room() -> None:
    entry, room = Dense(np.array([0, 2, 0, 1], dtype=np.int16), 0), np.full(4, np.nan)
    weights, levels = entry.spelled_out(np.array([5.0, 6.0, 7.0]), room)
    assert weights is room
    assert (weights.tolist(), levels.tolist()) == ([5.0, 7.0, 5.0, 6.0], [0, 2, 0, 1])


def levels_one_by_one(x: Rows, points: Rows, limits: list[int], allowed: list[int]) -> list[int]:
    far = [(((row - points) ** 2).sum(axis=1)[None] > np.array(limits)[:, None]).sum(axis=1) for row in x]
    return [next((ell for ell, most in enumerate(allowed) if some[ell] <= most), len(limits)) for some in far]


@pytest.mark.parametrize("d", [3, 12, 40])
@pytest.mark.parametrize("allowed", [[0, 1, 2], [-2, -1, 0], [-1, 3, 3], [1, 1, 2], [-1, -1, -1], [60, 60, 60]])
def test_products_settle_no_row_at_a_wrong_level(d: int, allowed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a reference row so far away that it has no product nothing is near, whatever the others say."""
    monkeypatch.setattr(screen, "_BATCH", 256)
    rng = np.random.default_rng(d)
    x = rng.integers(-20, 21, size=(3000, d)) / 8 * rng.choice([0.3, 1.0, 2.0], size=(3000, 1))
    for far in (0, 1, 4):
        x[:far] = 2.0**210
        limits = [9 * d, 16 * d, 25 * d]
        whitening = Whitening(np.eye(d), np.eye(d), np.zeros(d, dtype=np.int64), np.full(d, 100.0), 0.0, 0)
        found = thresholds([Fraction(limit) for limit in limits], Fraction(1))
        with np.errstate(all="ignore"):
            centred, most = Centred(x, np.zeros(d)), np.array(allowed)
            at = screen.Screen(centred, np.arange(50), whitening, found, most)
            at.take(slice(0, 2048))
            at.take(slice(2048, 3000))
            at.settle()
            wanted = np.array(levels_one_by_one(x, x[:50], limits, allowed))
        known = at.levels != screen.OPEN
        assert np.array_equal(at.levels[known], wanted[known])
        assert at.doubtful == np.count_nonzero(~known) < 300


def test_levels_are_cleared_before_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most rows are in at the first level, nobody writes it."""

    def dirty(size: int, kind: type[np.generic]) -> NDArray[np.generic]:
        return np.full(size, 7, dtype=kind)

    x = np.random.default_rng(1).normal(size=(4000, 3))
    wanted = fastimpl.stable_mean(x, np.eye(3), 20, 12, range(100)).entry_level
    assert np.count_nonzero(wanted) < 2000
    monkeypatch.setattr(mean, "new_array", dirty)
    monkeypatch.setattr(threads, "_WORTH_IT", 0)
    for count in ("1", "2"):
        monkeypatch.setenv(threads.VARIABLE, count)
        found = fastimpl.stable_mean(x, np.eye(3), 20, 12, range(100)).entry_level
        assert np.array_equal(found, wanted)
