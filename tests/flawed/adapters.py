"""What an auditor writes to audit the two codes: ten lines each. ``fixed_*`` are the same codes without their flaw."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from flawed.coremean import core_mean
from flawed.filtercov import FilteredCovariance


def covariance_adapter(*, share_mask=True):
    def stable_second_moment(y, lambda_0, k):
        fit = FilteredCovariance().fit(np.asarray(y, float), float(lambda_0), k, share_mask=share_mask)
        sets = [np.flatnonzero(mask) for mask in fit.masks]
        return SimpleNamespace(
            covariance=fit.sigma, score=fit.instability, weights=fit.sample_weight, good_subsets=sets
        )

    return SimpleNamespace(stable_second_moment=stable_second_moment, ROUNDING=1e-9)


def mean_adapter(*, cap=None):
    def stable_mean(x, covariance, lambda_0, k, reference):
        points, sigma = np.asarray(x, float), np.asarray(getattr(covariance, "covariance", covariance), float)
        mean, weights, first, instability = core_mean(points, sigma, float(lambda_0), k, list(reference), cap=cap)
        return SimpleNamespace(mean=mean, score=instability, weights=weights, entry_level=first)

    return SimpleNamespace(stable_mean=stable_mean, ROUNDING=1e-9)


shared_levels, fixed_levels = covariance_adapter(), covariance_adapter(share_mask=False)
zero_mean, fixed_mean = mean_adapter(), mean_adapter(cap=np.inf)
