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
