"""A plugin of pytest that deletes the float path of fastimpl for a whole run: ``pytest -p without_floats --seconds 20``.

Exact arithmetic is slow at a hundred thousand rows, so a test that takes longer than its limit fails; in the report it says so.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest
from deleted import Listener, delete_float_path

TOO_LONG = "not done in time without the float path"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=int, default=20, help="the limit of each test, in processor time")


def pytest_sessionstart() -> None:
    delete_float_path(pytest.MonkeyPatch())


def _stop(_: int, __: FrameType | None) -> None:
    pytest.fail(TOO_LONG)


def _limit(seconds: float) -> None:
    """So much processor time, and ten times as much by the clock, as children may be at work; none if zero.

    They strike again and again: a callback may swallow the first.
    """
    for number, timer, share in ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, 10)):
        signal.signal(number, _stop)
        signal.setitimer(timer, share * seconds, 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    listener = Listener()
    _limit(item.config.getoption("--seconds"))
    try:
        with listener.listening():
            result = yield
    finally:
        _limit(0)
        item.user_properties.append(("floats", listener.floats))
    return result
