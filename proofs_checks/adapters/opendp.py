"""OpenDP: clamp, mean or variance, and Laplace noise, of one column in [-1, 1]. Pure epsilon; delta is not used.

The library takes its randomness from the operating system alone: ``rng`` is ignored, and an audit of it is not repeatable.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["private_covariance", "private_mean"]


@lru_cache
def _measurement(statistic: str, n: int, epsilon: float) -> Any:
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.symmetric_distance()
    query = space >> dp.t.then_clamp((-1.0, 1.0)) >> getattr(dp.t, f"then_{statistic}")()
    # Replacing one row is a symmetric distance of 2.
    scale = dp.binary_search_param(lambda s: query >> dp.m.then_laplace(scale=s), d_in=2, d_out=epsilon)
    return query >> dp.m.then_laplace(scale=scale)


def _released(statistic: str, x: Any, epsilon: Any) -> float:
    column = np.asarray(x, dtype=np.float64)[:, 0].tolist()
    return float(_measurement(statistic, len(column), float(epsilon))(column))


def private_mean(x: Any, *, epsilon: Any, **_: Any) -> Any:
    """The library's private mean of the first column."""
    return SimpleNamespace(mean=np.array([_released("mean", x, epsilon)]))


def private_covariance(x: Any, *, epsilon: Any, **_: Any) -> Any:
    """The library's private variance of the first column."""
    return SimpleNamespace(covariance=np.array([[_released("variance", x, epsilon)]]))
