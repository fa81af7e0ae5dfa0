"""The algorithms of refimpl at BLAS speed, with the same names, arguments and results, and the same decisions.

For every finite float64 input the level sets, scores and counts equal those of exact rational arithmetic: a float filter
decides what its rigorous bounds can decide, and integers decide the rest (room ``certified``). Weights, covariances, means
and releases are float64. This is what one runs on data::

    from fastimpl import private_mean
    private_mean(x, epsilon=1, delta="1e-6", lambda_0=20).mean      # d numbers, or None for FAIL

Rooms: ``rows`` (the door), ``blas`` (products), ``grams`` (sums by blocks), ``certified`` (filter), ``exact`` and
``residues`` (integers), ``balls`` (bounds of many digits), ``covariance``, ``mean`` and its ``screen``, ``moments``, ``ptr``,
``sampling``, ``private``, ``bench`` (``python -m fastimpl.bench``).
"""

from fractions import Fraction

from fastimpl.certified import audit as audit_decisions
from fastimpl.covariance import largest_good_subset, stable_covariance, stable_second_moment
from fastimpl.mean import largest_core, stable_mean
from fastimpl.moments import stable_moments
from fastimpl.private import (
    private_covariance,
    private_covariance_given,
    private_gaussian,
    private_gaussian_given,
    private_mean,
    private_mean_given,
)
from fastimpl.ptr import ptr_pass_probability, ptr_pass_probability_at_growth
from fastimpl.sampling import (
    draw_covariance_coins,
    draw_gaussian_coins,
    draw_mean_coins,
    gaussian_release,
    wishart_release,
)
from refimpl.parameters import (
    PRINTED,
    REPAIRED,
    SHARP,
    CovarianceParameters,
    Edition,
    GaussianParameters,
    Lambda_ell,
    MeanParameters,
    PrintedEditionWarning,
    covariance_parameters,
    failure_reason,
    gaussian_lambda_0,
    gaussian_parameters,
    lambda_ell,
    largest_lambda_0,
    mean_parameters,
    passes_gates,
    plan_verification,
)
from refimpl.results import (
    CovarianceCoins,
    GaussianCoins,
    MeanCoins,
    PrivateCovarianceResult,
    PrivateGaussianResult,
    PrivateMeanResult,
    StableCovarianceResult,
    StableMeanResult,
    StableMomentsResult,
    TestCoin,
)

ROUNDING = Fraction(1, 1 << 40)
"""Relative rounding error that float64 results may have; sets, scores, counts and the test's decisions have none."""

__all__ = [
    "PRINTED",
    "REPAIRED",
    "ROUNDING",
    "SHARP",
    "CovarianceCoins",
    "CovarianceParameters",
    "Edition",
    "GaussianCoins",
    "GaussianParameters",
    "Lambda_ell",
    "MeanCoins",
    "MeanParameters",
    "PrintedEditionWarning",
    "PrivateCovarianceResult",
    "PrivateGaussianResult",
    "PrivateMeanResult",
    "StableCovarianceResult",
    "StableMeanResult",
    "StableMomentsResult",
    "TestCoin",
    "audit_decisions",
    "covariance_parameters",
    "draw_covariance_coins",
    "draw_gaussian_coins",
    "draw_mean_coins",
    "failure_reason",
    "gaussian_lambda_0",
    "gaussian_parameters",
    "gaussian_release",
    "lambda_ell",
    "largest_core",
    "largest_good_subset",
    "largest_lambda_0",
    "mean_parameters",
    "passes_gates",
    "plan_verification",
    "private_covariance",
    "private_covariance_given",
    "private_gaussian",
    "private_gaussian_given",
    "private_mean",
    "private_mean_given",
    "ptr_pass_probability",
    "ptr_pass_probability_at_growth",
    "stable_covariance",
    "stable_mean",
    "stable_moments",
    "stable_second_moment",
    "wishart_release",
]
