"""Baseline: the mean of clipped rows with Gaussian noise, as one writes it in two lines of NumPy.

The noise scale is right (Dwork and Roth 2014, Theorem A.1). The sum is formed in float64, so that the low bits of a release
depend on the data: this is not quite private (Mironov 2012), and the black-box audit says so.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["private_mean"]


def private_mean(x: Any, *, epsilon: Any, delta: Any, rng: np.random.Generator | None = None, **_: Any) -> Any:
    """The noisy mean of the rows, clipped to [-1, 1] in each coordinate."""
    clipped = np.clip(np.asarray(x, dtype=np.float64), -1.0, 1.0)
    n, d = clipped.shape
    sigma = 2 * math.sqrt(d) / n * math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
    noise = np.random.default_rng() if rng is None else rng
    return SimpleNamespace(mean=clipped.mean(axis=0) + sigma * noise.standard_normal(d))
