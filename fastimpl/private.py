"""Algorithms 1, 5.1 and 5.2: the private mean, covariance and Gaussian learner, at BLAS speed.

Each algorithm comes twice: ``private_*_given(x, parameters, coins)`` is deterministic, and ``private_*`` draws the coins.
Results hold the release and public parameters, nothing else. The noise is not hardened against floating-point attacks.
"""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np

from fastimpl.covariance import paired_result
from fastimpl.exact import QuadraticForm
from fastimpl.mean import counted_metric, mean_result
from fastimpl.ptr import coin_passes, surely_fails
from fastimpl.rows import Floats, Indices, Vectors, as_rows, pairs, pairs_of_pairs
from fastimpl.sampling import (
    Rng,
    Root,
    cholesky_factor,
    draw_covariance_coins,
    draw_gaussian_coins,
    draw_mean_coins,
    finite,
    scatter,
    shifted_draw,
)
from refimpl.parameters import (
    REPAIRED,
    CovarianceParameters,
    Edition,
    GaussianParameters,
    MeanParameters,
    Parameters,
    PrintedEditionWarning,
    Real,
    checked_reference,
    covariance_parameters,
    gaussian_parameters,
    mean_parameters,
    passes_gates,
)
from refimpl.results import (
    CovarianceCoins,
    GaussianCoins,
    MeanCoins,
    PrivateCovarianceResult,
    PrivateGaussianResult,
    PrivateMeanResult,
    StableCovarianceResult,
)

__all__ = [
    "private_covariance",
    "private_covariance_given",
    "private_gaussian",
    "private_gaussian_given",
    "private_mean",
    "private_mean_given",
]


# Deterministic steps --------------------------------------------------------------------------------------------------


def _data(x: object, parameters: Parameters) -> Floats:
    rows = as_rows("x", x)
    if rows.shape != (parameters.n, parameters.d):
        raise ValueError(
            f"x must be {parameters.n} x {parameters.d} as its parameters say, got {rows.shape[0]} x {rows.shape[1]}"
        )
    return rows


def _warn_if_printed(edition: Edition) -> None:
    """Called by public functions only, so that the warning names the line of their caller."""
    if edition.test_law == "printed":
        message = "the PRINTED edition is not differentially private; it is here to be studied, not to release data"
        warnings.warn(message, PrintedEditionWarning, stacklevel=3)


def _lower_factor(
    vectors: Vectors, result: StableCovarianceResult, parameters: MeanParameters | CovarianceParameters
) -> Root:
    """The Cholesky factor of the covariance, from its exact matrix where float64 will not do."""

    def exact() -> tuple[QuadraticForm, Fraction]:
        origin = np.zeros((1, vectors.width))
        levels = np.asarray(result.entry_level, dtype=np.int64)
        metric = counted_metric(vectors, levels, parameters.k, parameters.edition, origin)
        return metric.form, metric.scale

    return cholesky_factor(result.covariance, exact)


def _checked_mean_coins(parameters: MeanParameters, coins: MeanCoins) -> tuple[Indices, Floats]:
    reference = checked_reference(coins.reference, parameters.n)
    if len(reference) != parameters.reference_size:
        raise ValueError(f"coins.reference must hold {parameters.reference_size} indices, got {len(reference)}")
    return np.array(reference, dtype=np.int64), finite("coins.normals", coins.normals, (parameters.d,))


def _mean_release(x: Floats, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    """Algorithm 1 after the door. Levels are computed only as far as the test needs them (section 2.3)."""
    p = parameters
    reference, normals = _checked_mean_coins(p, coins)
    if not passes_gates(p):
        return PrivateMeanResult(None, p)
    early = surely_fails(p.k, p.test_epsilon, p.test_delta, p.edition)
    covariance = paired_result(pairs(x), p.lambda_0, p.k, p.edition, early=early)
    if early and covariance.score >= p.k:
        return PrivateMeanResult(None, p)
    mean = mean_result(x, covariance, p.lambda_0, p.k, reference, p.edition, early=early)
    score = max(covariance.score, mean.score)
    if not coin_passes(score, p.test_epsilon, p.test_delta, p.edition, coins.test):
        return PrivateMeanResult(None, p)
    root = _lower_factor(pairs(x), covariance, p)
    return PrivateMeanResult(shifted_draw(mean.mean, root, float(p.noise_scale), normals), p)


def _covariance_release(
    vectors: Vectors, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    """Algorithm 5.1 after the door, on the differences that its pairing makes."""
    p = parameters
    factor = finite("coins.normals", coins.normals, (p.d, p.d))
    if not passes_gates(p):
        return PrivateCovarianceResult(None, p)
    early = surely_fails(p.k, p.test_epsilon, p.test_delta, p.edition)
    result = paired_result(vectors, p.lambda_0, p.k, p.edition, early=early)
    if not coin_passes(result.score, p.test_epsilon, p.test_delta, p.edition, coins.test):
        return PrivateCovarianceResult(None, p)
    return PrivateCovarianceResult(scatter(_lower_factor(vectors, result, p), p.samples, factor), p)


@np.errstate(all="ignore")  # an overflow of the data is no affair of the caller's error settings
def _gaussian_learner(x: Floats, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Algorithm 5.2 after the door. REPAIRED gives x to both halves; PRINTED pairs before Algorithm 5.1 pairs again."""
    _checked_mean_coins(parameters.mean, coins.mean)
    finite("coins.covariance.normals", coins.covariance.normals, (parameters.d, parameters.d))
    if not passes_gates(parameters):
        return PrivateGaussianResult(None, None, parameters)
    printed = parameters.edition.test_law == "printed"
    mean = _mean_release(x, parameters.mean, coins.mean).mean
    vectors = pairs_of_pairs(x) if printed else pairs(x)
    covariance = _covariance_release(vectors, parameters.covariance, coins.covariance).covariance
    if mean is None or covariance is None:
        return PrivateGaussianResult(None, None, parameters)
    # PRINTED's first pairing divides by sqrt 2, which the differences leave out.
    return PrivateGaussianResult(mean, covariance / 2 if printed else covariance, parameters)


# Public functions -----------------------------------------------------------------------------------------------------


def private_mean_given(x: object, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    """Algorithm 1, private mean estimation, with its coins as arguments: deterministic.

    Parameters
    ----------
    x
        n x d rows, finite.
    parameters
        Of :func:`mean_parameters`, for the same n and d.
    coins
        Of :func:`draw_mean_coins`.

    Returns
    -------
    PrivateMeanResult
        ``mean`` is None for FAIL.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape of an argument, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the parameters are PRINTED's.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, exactly when the coins are drawn as
    :func:`draw_mean_coins` does and then discarded. Not private in PRINTED.

    References
    ----------
    Algorithm 1, Lemma 15, Theorem 8.
    """
    rows = _data(x, parameters)
    _warn_if_printed(parameters.edition)
    return _mean_release(rows, parameters, coins)


def private_covariance_given(
    x: object, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    """Algorithm 5.1, private covariance estimation, with its coins as arguments: deterministic.

    Parameters
    ----------
    x
        n x d rows, finite.
    parameters
        Of :func:`covariance_parameters`, for the same n and d.
    coins
        Of :func:`draw_covariance_coins` of this package: a d x d Bartlett factor.

    Returns
    -------
    PrivateCovarianceResult
        ``covariance`` is None for FAIL.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape of an argument, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the parameters are PRINTED's.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, exactly when the coins are drawn as
    :func:`draw_covariance_coins` does and then discarded. Not private in PRINTED.

    References
    ----------
    Algorithm 5.1, Theorem 43, Claim 46.
    """
    rows = _data(x, parameters)
    _warn_if_printed(parameters.edition)
    return _covariance_release(pairs(rows), parameters, coins)


def private_gaussian_given(x: object, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Algorithm 5.2, the private learner of an unrestricted Gaussian, with its coins as arguments: deterministic.

    Parameters
    ----------
    x
        n x d rows, finite.
    parameters
        Of :func:`gaussian_parameters`, for the same n and d.
    coins
        Of :func:`draw_gaussian_coins` of this package.

    Returns
    -------
    PrivateGaussianResult
        Mean and covariance, or None and None for FAIL.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape of an argument, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the parameters are PRINTED's.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED: each half is (epsilon/2, delta/2)-DP. PRINTED claims
    (2 epsilon, 2 delta) and is not private.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    rows = _data(x, parameters)
    _warn_if_printed(parameters.edition)
    return _gaussian_learner(rows, parameters, coins)


def private_mean(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = REPAIRED,
    rng: Rng | None = None,
) -> PrivateMeanResult:
    """Algorithm 1: a differentially private mean of subgaussian data, or FAIL.

    Parameters
    ----------
    x
        n x d rows, finite; any real dtype.
    epsilon, delta
        Privacy parameters, in (0, 1] and (0, 1). Strings such as "1e-6" are taken exactly.
    lambda_0
        Outlier threshold, at least 1: a few times d for well-behaved data, chosen without looking at them.
    edition
        REPAIRED. PRINTED is not private.
    rng
        None draws coins from the operating system. A generator is for tests: who knows its state can undo the noise.

    Returns
    -------
    PrivateMeanResult
        ``mean`` is None for FAIL.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming it, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the edition is PRINTED.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, for finite rows and a public n. Not private in PRINTED.

    References
    ----------
    Algorithm 1, Theorem 8.
    """
    rows = as_rows("x", x)
    parameters = mean_parameters(*rows.shape, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=edition)
    _warn_if_printed(edition)
    return _mean_release(rows, parameters, draw_mean_coins(parameters, rng))


def private_covariance(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = REPAIRED,
    rng: Rng | None = None,
) -> PrivateCovarianceResult:
    """Algorithm 5.1: a differentially private covariance of subgaussian data, or FAIL. Arguments as :func:`private_mean`.

    Returns
    -------
    PrivateCovarianceResult
        ``covariance`` is None for FAIL.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming it, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the edition is PRINTED.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, for finite rows and a public n. Not private in PRINTED.

    References
    ----------
    Algorithm 5.1, Theorem 43.
    """
    rows = as_rows("x", x)
    parameters = covariance_parameters(*rows.shape, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=edition)
    _warn_if_printed(edition)
    return _covariance_release(pairs(rows), parameters, draw_covariance_coins(parameters, rng))


def private_gaussian(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = REPAIRED,
    rng: Rng | None = None,
) -> PrivateGaussianResult:
    """Algorithm 5.2: a differentially private mean and covariance, or FAIL. Arguments as :func:`private_mean`.

    Returns
    -------
    PrivateGaussianResult
        Both or neither.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or parameter, naming it, or rows that are not finite.

    Warns
    -----
    PrintedEditionWarning
        If the edition is PRINTED.

    Privacy
    -------
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, for finite rows and a public n. PRINTED claims
    (2 epsilon, 2 delta) and is not private.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    rows = as_rows("x", x)
    parameters = gaussian_parameters(*rows.shape, epsilon=epsilon, delta=delta, lambda_0=lambda_0, edition=edition)
    _warn_if_printed(edition)
    return _gaussian_learner(rows, parameters, draw_gaussian_coins(parameters, rng))
