"""IBM's diffprivlib: ``tools.mean`` and ``tools.var`` of one column in [-1, 1]. Pure epsilon; delta is not used.

The library has no covariance of its own in its public interface: the models that fit one (PCA, linear regression) release
what they make of it. The variance of a column is the covariance that it does release.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["private_covariance", "private_mean"]


LABELS = {"mean": 0, "var": 0x9E3779B9}
"""Told apart here: given one ``random_state``, the library adds the same noise to a mean and to a variance."""


def _released(name: str, x: Any, epsilon: Any, rng: np.random.Generator | None) -> float:
    tool = getattr(importlib.import_module("diffprivlib.tools"), name)
    column = np.clip(np.asarray(x, dtype=np.float64)[:, 0], -1.0, 1.0)
    state = None if rng is None else int(rng.integers(1 << 32)) ^ LABELS[name]
    return float(tool(column, epsilon=float(epsilon), bounds=(-1.0, 1.0), random_state=state))


def private_mean(x: Any, *, epsilon: Any, rng: np.random.Generator | None = None, **_: Any) -> Any:
    """The library's private mean of the first column."""
    return SimpleNamespace(mean=np.array([_released("mean", x, epsilon, rng)]))


def private_covariance(x: Any, *, epsilon: Any, rng: np.random.Generator | None = None, **_: Any) -> Any:
    """The library's private variance of the first column."""
    return SimpleNamespace(covariance=np.array([[_released("var", x, epsilon, rng)]]))
