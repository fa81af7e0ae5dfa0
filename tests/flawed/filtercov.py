"""A third party's robust covariance filter (after Brown, Hopkins and Smith 2023): plain NumPy, floats, its own names.

The flaw, such as a refactoring to "allocate the mask once" leaves behind: all level sets are one mutable array, so that every
level shows what the last one kept.
"""

from __future__ import annotations

import numpy as np


def leverage(points, sigma):
    try:
        return np.einsum("ij,ji->i", points, np.linalg.solve(sigma, points.T))
    except np.linalg.LinAlgError:
        return np.full(len(points), np.inf)


def prune(points, keep, cutoff):
    keep[:] = True
    while keep.any():
        sigma = points[keep].T @ points[keep] / len(points)
        bad = keep & (leverage(points, sigma) > cutoff * (1 + 1e-12))
        if not bad.any():
            break
        keep &= ~bad


def filter_levels(points, outlier_cutoff, depth, *, share_mask=True):
    """Masks of levels 0 .. 2*depth, with cutoffs that grow with the level."""
    mask = np.empty(len(points), dtype=bool)
    masks = []
    for level in range(2 * depth + 1):
        if not share_mask:
            mask = np.empty(len(points), dtype=bool)
        prune(points, mask, outlier_cutoff / (1 - level / (10 * depth)))
        masks.append(mask)
    return masks


class FilteredCovariance:
    def fit(self, points, outlier_cutoff, depth, *, share_mask=True):
        n = len(points)
        self.masks = filter_levels(points, outlier_cutoff, depth, share_mask=share_mask)
        removed = [n - int(mask.sum()) + level for level, mask in enumerate(self.masks[: depth + 1])]
        self.instability = min(depth, *removed)
        self.sample_weight = np.sum(self.masks[depth + 1 :], axis=0) / (depth * n)
        self.sigma = (points * self.sample_weight[:, None]).T @ points
        return self
