"""A third party's stable mean (after Brown, Hopkins and Smith 2023): plain NumPy, floats, its own names.

The flaw, such as a hurried "no row may weigh more than 1/n" leaves behind: ``1 // n`` is 0, so that every weight is clipped to
zero and the mean is always 0, which data of mean zero hide.
"""

from __future__ import annotations

import numpy as np


def neighbours(points, anchors, precision, radius):
    gaps = points[:, None, :] - points[None, anchors, :]
    return (np.einsum("nad,de,nae->na", gaps, precision, gaps) <= radius * (1 + 1e-12)).sum(axis=1)


def core_mean(points, sigma, cutoff, depth, anchors, *, cap=None):
    """The mean over the cores of levels depth+1 .. 2*depth, its weights, the first level of every row, and the instability."""
    n = len(points)
    growth = 1 - 50 / 9 * cutoff / n
    try:
        precision = np.linalg.inv(sigma)
    except np.linalg.LinAlgError:
        return np.zeros(points.shape[1]), np.zeros(n), np.full(n, 2 * depth + 1), depth
    near = [neighbours(points, anchors, precision, 2 * cutoff * growth**-level) for level in range(2 * depth + 1)]
    cores = [count >= len(anchors) - level for level, count in enumerate(near)]
    first = np.array([next((ell for ell, core in enumerate(cores) if core[i]), 2 * depth + 1) for i in range(n)])
    instability = min(depth, *(n - int(core.sum()) + level for level, core in enumerate(cores[: depth + 1])))
    counts = np.sum(cores[depth + 1 :], axis=0)
    weights = counts / max(counts.sum(), 1)
    weights = np.clip(weights, 0, 1 // n if cap is None else cap)
    return weights @ points, weights, first, instability
