"""Profiles and options of the test run."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# An ordinary run draws the same cases every time: it fails for a change of the code, not for bad luck.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,  # exact arithmetic on a busy machine has no fixed pace
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],  # likewise
)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long tests too, on new random cases")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--nightly"):
        settings.load_profile("nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="takes minutes: runs with --nightly")
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test of fastimpl in which something is compared with a threshold fails if floats decided nothing in it.

    So no such test can be green without the float path, whatever it asserts: see test_fastimpl_deleted.
    """
    if not item.path.name.startswith("test_fastimpl_") or item.get_closest_marker("needs_no_floats"):
        return (yield)
    from deleted import Listener  # noqa: PLC0415 - most runs do not need fastimpl

    listener = Listener()
    with listener.listening():
        result = yield
    assert listener.floats or not listener.asked, "floats decided nothing"
    return result
