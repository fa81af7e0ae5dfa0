"""OpenDP: clamp, mean and Laplace noise of one column in [-1, 1]. Pure epsilon; delta is not used.

The library takes its randomness from the operating system alone: ``rng`` is ignored, and an audit of it is not repeatable.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["private_mean"]


@lru_cache
def _measurement(n: int, epsilon: float) -> Any:
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.symmetric_distance()
    mean = space >> dp.t.then_clamp((-1.0, 1.0)) >> dp.t.then_mean()
    # Replacing one row is a symmetric distance of 2.
    scale = dp.binary_search_param(lambda s: mean >> dp.m.then_laplace(scale=s), d_in=2, d_out=epsilon)
    return mean >> dp.m.then_laplace(scale=scale)


def private_mean(x: Any, *, epsilon: Any, **_: Any) -> Any:
    """The library's private mean of the first column."""
    column = np.asarray(x, dtype=np.float64)[:, 0].tolist()
    return SimpleNamespace(mean=np.array([_measurement(len(column), float(epsilon))(column)]))
