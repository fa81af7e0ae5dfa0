"""IBM's diffprivlib: ``tools.mean`` of one column in [-1, 1]. Pure epsilon; delta is not used."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["private_mean"]


def private_mean(x: Any, *, epsilon: Any, rng: np.random.Generator | None = None, **_: Any) -> Any:
    """The library's private mean of the first column."""
    tools = importlib.import_module("diffprivlib.tools")
    column = np.clip(np.asarray(x, dtype=np.float64)[:, 0], -1.0, 1.0)
    state = None if rng is None else int(rng.integers(1 << 32))
    value = tools.mean(column, epsilon=float(epsilon), bounds=(-1.0, 1.0), random_state=state)
    return SimpleNamespace(mean=np.array([float(value)]))
