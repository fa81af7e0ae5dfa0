"""What is wrong at the door is named there, in both implementations alike: editions, windows, degrees."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastimpl
import refimpl

both = pytest.mark.parametrize("implementation", [refimpl, fastimpl], ids=["refimpl", "fastimpl"])
X = np.array([[0.0], [1.0]] * 5)


@both
@pytest.mark.parametrize("window", [0, -1, "2", True, 18])
def test_a_bad_window_is_named(implementation: ModuleType, window: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="window"):
        implementation.stable_second_moment(X, 2, 2, window=window)


@both
@pytest.mark.parametrize(
    "call",
    [
        lambda i: i.stable_second_moment(X, 2, 1, edition="PRINTED"),
        lambda i: i.stable_covariance(X, 2, 1, edition="PRINTED"),
        lambda i: i.stable_mean(X, np.eye(1), 1, 1, [0], edition="PRINTED"),
        lambda i: i.ptr_pass_probability(1, 1, "1/2", edition="PRINTED"),
        lambda i: i.ptr_pass_probability_at_growth(1, 2, "1/2", edition="PRINTED"),
        lambda i: i.mean_parameters(10, 1, epsilon=1, delta="1e-6", lambda_0=1, edition="PRINTED"),
        lambda i: i.private_mean(X, epsilon=1, delta="1e-6", lambda_0=1, edition="PRINTED"),
    ],
)
def test_the_name_of_an_edition_is_not_one(implementation: ModuleType, call: Any) -> None:
    with pytest.raises(TypeError, match="edition"):
        call(implementation)


@both
@pytest.mark.parametrize("tau", [1.5, "1", None, True])
def test_a_bad_tau_is_named(implementation: ModuleType, tau: Any) -> None:
    with pytest.raises(TypeError, match="tau"):
        implementation.largest_core(X, np.eye(1), 1, tau, [0])


@both
@pytest.mark.parametrize("window", [None, 0, "2", True, 1.0, 5])
def test_a_window_that_sharp_cannot_use_is_named(implementation: ModuleType, window: Any) -> None:
    # n = 10 > (1 + window - 1) lambda_0 for windows up to 4
    implementation.stable_moments(X, 2, 1, 4)
    with pytest.raises((TypeError, ValueError), match="window"):
        implementation.stable_moments(X, 2, 1, window)
    with pytest.raises((TypeError, ValueError), match="window"):
        implementation.stable_second_moment(X, 2, 1, edition=implementation.SHARP, window=window)


@both
@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("window", lambda i: i.stable_covariance(X, 2, 1, edition=i.SHARP)),
        ("edition", lambda i: i.stable_mean(X, np.eye(1), 1, 1, [0], edition=i.SHARP)),
        ("edition", lambda i: i.ptr_pass_probability(1, 1, "1/2", edition=i.SHARP)),
        ("edition", lambda i: i.ptr_pass_probability_at_growth(1, 2, "1/2", edition=i.SHARP)),
        (
            "edition",
            lambda i: i.plan_verification(
                i.mean_parameters(10, 1, epsilon=1, delta="1e-6", lambda_0=1, edition=i.REPAIRED)
            ),
        ),
        ("x", lambda i: i.stable_moments(np.empty((0, 1)), 2, 1, 1)),
        ("x", lambda i: i.stable_moments(np.array([[np.nan]] * 9), 2, 1, 1)),
        ("x", lambda i: i.stable_moments(np.array([[np.inf]] + [[0.0]] * 9), 2, 1, 1)),
        ("x", lambda i: i.stable_moments([["1"]] * 9, 2, 1, 1)),
        ("lambda_0", lambda i: i.stable_moments(X, 0, 1, 1)),
        ("k", lambda i: i.stable_moments(X, 2, 0, 1)),
        ("k", lambda i: i.stable_moments(X, 2, 1.0, 1)),
    ],
)
def test_what_sharp_does_not_take_is_named(implementation: ModuleType, named: str, call: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{named}\b"):
        call(implementation)


@both
def test_sharp_of_rows_given_directly(implementation: ModuleType) -> None:
    """The one stage is stable_second_moment of the rows (1, x)."""
    z = np.concatenate([np.ones_like(X), X], axis=1)
    direct = implementation.stable_second_moment(z, 3, 2, edition=implementation.SHARP, window=2)
    whole = implementation.stable_moments(X, 3, 2, 2)
    assert (direct.score, list(direct.entry_level)) == (whole.score, list(whole.entry_level))
    assert list(direct.weights) == list(whole.weights)
