"""The paper, literally, in exact arithmetic: the specification that everything else is compared with.

Brown, Hopkins and Smith (2023), "Fast, Sample-Efficient, Affine-Invariant Private Mean and Covariance Estimation for
Subgaussian Distributions". Every decision up to the test is between rational numbers; logarithms and exponentials are
enclosed; nothing is decided by a tolerance. Slow on purpose: use ``fastimpl`` on data.

Notation, paper -> code::

    x, y, n, m, d          x, y, n, m = n // 2, d
    epsilon, delta         epsilon, delta
    lambda_0, lambda_ell   lambda_0, lambda_ell(lambda_0, k, ell)        Eq. (49), covariance stage
    Lambda_ell             Lambda_ell(lambda_0, n, ell)                  Eq. (67), mean stage
    gamma                  ordered_stability_gamma(lambda_0, n)          (50/9) lambda_0/n
    S_ell                  good_subsets[ell], cores[ell]
    SCORE, w, Sigma, mu    score, weights, covariance, mean
    R, M                   reference, reference_size
    c^2, N                 noise_scale_squared, samples
    tau (Definition 35)    tau, a degree threshold

The edition SHARP is this project's own: one stage on the rows (1, x) (``stable_moments``), one test whose law is a table,
and a plan (``refimpl.plan``) that is verified in enclosures::

    z_i = (1, x_i), C, c   the rows of the one stage, the weighted scatter, noise_scale
    W, p_0, ..., p_k       window, pass_probabilities
"""

from refimpl.covariance import largest_good_subset, stable_covariance, stable_second_moment
from refimpl.definitions import (
    is_adjacent,
    is_degree_representative,
    is_good_subset,
    is_good_weighting,
    is_weighted_core,
    is_well_concentrated,
)
from refimpl.mean import largest_core, stable_mean
from refimpl.moments import stable_moments
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
from refimpl.private import (
    bartlett_release,
    draw_covariance_coins,
    draw_gaussian_coins,
    draw_mean_coins,
    gaussian_release,
    private_covariance,
    private_covariance_given,
    private_gaussian,
    private_gaussian_given,
    private_mean,
    private_mean_given,
    wishart_release,
)
from refimpl.ptr import printed_formula_at_growth, ptr_pass_probability, ptr_pass_probability_at_growth
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

MOST_ROWS = 3000
"""Audit cases with more rows are left to faster targets: exact arithmetic has its price."""

__all__ = [
    "MOST_ROWS",
    "PRINTED",
    "REPAIRED",
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
    "bartlett_release",
    "covariance_parameters",
    "draw_covariance_coins",
    "draw_gaussian_coins",
    "draw_mean_coins",
    "failure_reason",
    "gaussian_lambda_0",
    "gaussian_parameters",
    "gaussian_release",
    "is_adjacent",
    "is_degree_representative",
    "is_good_subset",
    "is_good_weighting",
    "is_weighted_core",
    "is_well_concentrated",
    "lambda_ell",
    "largest_core",
    "largest_good_subset",
    "largest_lambda_0",
    "mean_parameters",
    "passes_gates",
    "plan_verification",
    "printed_formula_at_growth",
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
