"""The process around fastimpl: floats that are not those of IEEE 754 are refused; of the rows nothing shows but the release."""

import ctypes
import ctypes.util
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import fastimpl

MXCSR_AT = 28  # where fenv_t of glibc on x86-64 keeps the control word of the SSE unit
SETTINGS = {
    "denormals are zero": 0x0040,
    "flush to zero": 0x8000,
    "round down": 0x2000,
    "round up": 0x4000,
    "truncate": 0x6000,
}

linux_on_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the control word is set as glibc on x86-64 keeps it",
)


@contextmanager
def control_word(bits: int) -> Iterator[None]:
    """The process as a library built with -ffast-math leaves it, or one that has changed the rounding."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    kept, changed = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libm.fegetenv(kept)
    libm.fegetenv(changed)
    word = int.from_bytes(kept.raw[MXCSR_AT : MXCSR_AT + 4], "little") | bits
    changed.raw = changed.raw[:MXCSR_AT] + word.to_bytes(4, "little") + changed.raw[MXCSR_AT + 4 :]
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(kept)


ROWS = np.array([[1.0], [-1.0], [2.0], [-2.0]] * 10) * 2.0**-1040
CALLS: dict[str, Callable[[], object]] = {
    "stable_second_moment": lambda: fastimpl.stable_second_moment(ROWS, 3, 2),
    "stable_covariance": lambda: fastimpl.stable_covariance(ROWS, 3, 2),
    "stable_moments": lambda: fastimpl.stable_moments(ROWS, 3, 2, 2),
    "largest_good_subset": lambda: fastimpl.largest_good_subset(ROWS, 3),
    "stable_mean": lambda: fastimpl.stable_mean(ROWS, np.eye(1), 3, 2, range(12)),
    "private_mean": lambda: fastimpl.private_mean(ROWS, epsilon=1, delta="1e-6", lambda_0=3),
}


@linux_on_x86
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CALLS)
def test_floats_that_are_not_standard_are_refused(name: str, setting: str) -> None:
    caught = None
    with control_word(SETTINGS[setting]):
        try:
            CALLS[name]()
        except RuntimeError as error:
            caught = error
    assert caught is not None
    assert "cannot be certified" in str(caught)
    CALLS[name]()  # and the setting is gone


@linux_on_x86
def test_such_a_process_would_decide_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the refusal the subnormal rows count as zero, and a set that is good is not found."""
    monkeypatch.setattr("fastimpl.rows._require_standard_floats", lambda: None)
    right = fastimpl.stable_second_moment(ROWS, 3, 2)
    with control_word(SETTINGS["denormals are zero"] | SETTINGS["flush to zero"]):
        wrong = fastimpl.stable_second_moment(ROWS, 3, 2)
    assert (right.score, wrong.score) == (0, 2)


MAX = np.finfo(np.float64).max
SIGNS = np.where(np.arange(20_000) % 3 == 0, 1.0, -1.0)[:, None]
KINDS = {
    "as large as floats are": SIGNS * MAX,
    "large, and two columns": np.hstack([SIGNS, SIGNS[::-1]]) * 1.7e308,
    "large in one column": np.hstack([SIGNS * MAX, np.roll(SIGNS, 1) * 5e-324]),
    "large in one half": np.where(np.arange(20_000)[:, None] < 10_000, SIGNS * MAX, SIGNS),
    "large in one block": np.where(np.arange(20_000)[:, None] < 300, SIGNS * MAX, SIGNS),
    "all zero": np.zeros((20_000, 2)),
    "all subnormal": SIGNS * 5e-324,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edition", [fastimpl.REPAIRED, fastimpl.SHARP], ids=str)
def test_nothing_warns_or_raises_for_extreme_rows(
    edition: fastimpl.Edition, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Enough rows for every step of the float path, the guess at outliers included."""
    x = KINDS[kind]
    parameters = fastimpl.mean_parameters(*x.shape, epsilon=1, delta="1e-2", lambda_0=6, edition=edition)
    assert fastimpl.passes_gates(parameters)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        fastimpl.private_mean(x, parameters=parameters)
    assert capfd.readouterr() == ("", "")
