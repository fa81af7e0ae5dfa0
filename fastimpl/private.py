"""Algorithms 1, 5.1 and 5.2: the private mean, covariance and Gaussian learner, at BLAS speed.

Each algorithm comes twice: ``private_*_given(x, parameters, coins)`` is deterministic, and ``private_*`` draws the coins.
Results hold the release and public parameters, nothing else. The noise is not hardened against floating-point attacks.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import NamedTuple, overload

import numpy as np

from fastimpl.covariance import paired_result
from fastimpl.exact import QuadraticForm
from fastimpl.mean import counted_metric, mean_result
from fastimpl.moments import one_stage
from fastimpl.ptr import score_passes, surely_fails
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
    DEFAULT_EDITION,
    CovarianceParameters,
    Edition,
    GaussianParameters,
    MeanParameters,
    Parameters,
    PrintedEditionWarning,
    Real,
    asked_or_made,
    checked_reference,
    checked_window,
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
    TestCoin,
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
    return _fitting(as_rows("x", x), parameters)


def _fitting(rows: Floats, parameters: Parameters) -> Floats:
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


class _Passed(NamedTuple):
    """What SHARP may release: the weighted mean, and the Cholesky factor of the weighted scatter."""

    mean: Floats
    root: Root


def _passed_moments(x: Floats, parameters: MeanParameters | CovarianceParameters, test: TestCoin) -> _Passed | None:
    """The one stage of SHARP, halted early, if its test passes; None for FAIL."""
    p = parameters
    if not passes_gates(p) or p.window is None:
        return None
    checked_window(p.window, p.k, p.edition, p.lambda_0, p.n)  # a record may come from anywhere
    stage = one_stage(x, p.lambda_0, p.k, p.window, early=True)
    if not score_passes(stage.score, p, test) or stage.moments is None:
        return None
    mean, covariance = stage.moments
    return _Passed(mean, cholesky_factor(covariance, lambda: (stage.exact.form, stage.exact.scale)))


def _sharp_mean_release(x: Floats, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    p, normals = parameters, _checked_sharp_coins(parameters, coins)
    passed = _passed_moments(x, p, coins.test)
    return PrivateMeanResult(passed and shifted_draw(*passed, float(p.noise_scale), normals), p)


def _sharp_covariance_release(
    x: Floats, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    p, factor = parameters, finite("coins.normals", coins.normals, (parameters.d, parameters.d))
    passed = _passed_moments(x, p, coins.test)
    return PrivateCovarianceResult(passed and scatter(passed.root, p.samples, factor), p)


def _sharp_learner(x: Floats, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Mean and covariance of one run: one test, whose coin is the mean's, passes both."""
    p, normals = parameters, _checked_sharp_coins(parameters.mean, coins.mean)
    factor = finite("coins.covariance.normals", coins.covariance.normals, (p.d, p.d))
    passed = _passed_moments(x, p.mean, coins.mean.test) if passes_gates(p) else None
    if passed is None:
        return PrivateGaussianResult(None, None, p)
    mean = shifted_draw(*passed, float(p.mean.noise_scale), normals)
    return PrivateGaussianResult(mean, scatter(passed.root, p.covariance.samples, factor), p)


def _checked_sharp_coins(parameters: MeanParameters, coins: MeanCoins) -> Floats:
    if coins.reference is not None:
        raise ValueError("coins.reference must be None: the edition SHARP has no reference points")
    return finite("coins.normals", coins.normals, (parameters.d,))


def _checked_mean_coins(parameters: MeanParameters, coins: MeanCoins) -> tuple[Indices, Floats]:
    reference = checked_reference(coins.reference or (), parameters.n)
    if len(reference) != parameters.reference_size:
        raise ValueError(f"coins.reference must hold {parameters.reference_size} indices, got {len(reference)}")
    return np.array(reference, dtype=np.int64), finite("coins.normals", coins.normals, (parameters.d,))


def _mean_release(x: Floats, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    """Algorithm 1 after the door. Levels are computed only as far as the test needs them (section 2.3)."""
    p = parameters
    if p.edition.test_law == "table":
        return _sharp_mean_release(x, p, coins)
    reference, normals = _checked_mean_coins(p, coins)
    if not passes_gates(p):
        return PrivateMeanResult(None, p)
    early = surely_fails(p.k, p.test_epsilon, p.test_delta, p.edition)
    covariance = paired_result(pairs(x), p.lambda_0, p.k, p.edition, early=early)
    if early and covariance.score >= p.k:
        return PrivateMeanResult(None, p)
    mean = mean_result(x, covariance, p.lambda_0, p.k, reference, p.edition, early=early)
    score = max(covariance.score, mean.score)
    if not score_passes(score, p, coins.test):
        return PrivateMeanResult(None, p)
    root = _lower_factor(pairs(x), covariance, p)
    return PrivateMeanResult(shifted_draw(mean.mean, root, float(p.noise_scale), normals), p)


def _covariance_release(x: Floats, parameters: CovarianceParameters, coins: CovarianceCoins) -> PrivateCovarianceResult:
    """Algorithm 5.1 after the door."""
    if parameters.edition.test_law == "table":
        return _sharp_covariance_release(x, parameters, coins)
    return _paired_release(pairs(x), parameters, coins)


def _paired_release(
    vectors: Vectors, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    """The same in the editions that pair, on the differences that the pairing makes."""
    p = parameters
    factor = finite("coins.normals", coins.normals, (p.d, p.d))
    if not passes_gates(p):
        return PrivateCovarianceResult(None, p)
    early = surely_fails(p.k, p.test_epsilon, p.test_delta, p.edition)
    result = paired_result(vectors, p.lambda_0, p.k, p.edition, early=early)
    if not score_passes(result.score, p, coins.test):
        return PrivateCovarianceResult(None, p)
    return PrivateCovarianceResult(scatter(_lower_factor(vectors, result, p), p.samples, factor), p)


@np.errstate(all="ignore")  # an overflow of the data is no affair of the caller's error settings
def _gaussian_learner(x: Floats, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Algorithm 5.2 after the door. REPAIRED gives x to both halves; PRINTED pairs before Algorithm 5.1 pairs again."""
    if parameters.edition.test_law == "table":
        return _sharp_learner(x, parameters, coins)
    _checked_mean_coins(parameters.mean, coins.mean)
    finite("coins.covariance.normals", coins.covariance.normals, (parameters.d, parameters.d))
    if not passes_gates(parameters):
        return PrivateGaussianResult(None, None, parameters)
    printed = parameters.edition.test_law == "printed"
    mean = _mean_release(x, parameters.mean, coins.mean).mean
    vectors = pairs_of_pairs(x) if printed else pairs(x)
    covariance = _paired_release(vectors, parameters.covariance, coins.covariance).covariance
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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED and SHARP, exactly when the coins are drawn as
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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED and SHARP, exactly when the coins are drawn as
    :func:`draw_covariance_coins` does and then discarded. Not private in PRINTED.

    References
    ----------
    Algorithm 5.1, Theorem 43, Claim 46.
    """
    rows = _data(x, parameters)
    _warn_if_printed(parameters.edition)
    return _covariance_release(rows, parameters, coins)


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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED, where each half is (epsilon/2, delta/2)-DP, and in SHARP,
    where one test and one budget serve both. PRINTED claims (2 epsilon, 2 delta) and is not private.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    rows = _data(x, parameters)
    _warn_if_printed(parameters.edition)
    return _gaussian_learner(rows, parameters, coins)


@overload
def private_mean(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
) -> PrivateMeanResult: ...


@overload
def private_mean(x: object, *, parameters: MeanParameters, rng: Rng | None = None) -> PrivateMeanResult: ...


def private_mean(
    x: object,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    lambda_0: Real | None = None,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
    parameters: MeanParameters | None = None,
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
        SHARP also takes "gaussian", which chooses it for Gaussian rows (:func:`gaussian_lambda_0`).
    edition
        SHARP, which needs far fewer rows for far less noise, unless REPAIRED is given. PRINTED is not private.
    rng
        None draws coins from the operating system. A generator is for tests: who knows its state can undo the noise.
    parameters
        A record that was made before, in place of epsilon, delta, lambda_0 and edition: the plan of SHARP takes seconds.

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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED and SHARP, for finite rows and a public n. Not private in
    PRINTED. Parameters that were not made by this package's functions guarantee nothing.

    References
    ----------
    Algorithm 1, Theorem 8.
    """
    rows = as_rows("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(mean_parameters, MeanParameters, rows.shape[0], rows.shape[1], parameters, **asked)
    _warn_if_printed(made.edition)
    return _mean_release(_fitting(rows, made), made, draw_mean_coins(made, rng))


@overload
def private_covariance(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
) -> PrivateCovarianceResult: ...


@overload
def private_covariance(
    x: object, *, parameters: CovarianceParameters, rng: Rng | None = None
) -> PrivateCovarianceResult: ...


def private_covariance(
    x: object,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    lambda_0: Real | None = None,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
    parameters: CovarianceParameters | None = None,
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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED and SHARP, for finite rows and a public n. Not private in
    PRINTED. Parameters that were not made by this package's functions guarantee nothing.

    References
    ----------
    Algorithm 5.1, Theorem 43.
    """
    rows = as_rows("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(covariance_parameters, CovarianceParameters, rows.shape[0], rows.shape[1], parameters, **asked)
    _warn_if_printed(made.edition)
    return _covariance_release(_fitting(rows, made), made, draw_covariance_coins(made, rng))


@overload
def private_gaussian(
    x: object,
    *,
    epsilon: Real,
    delta: Real,
    lambda_0: Real,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
) -> PrivateGaussianResult: ...


@overload
def private_gaussian(x: object, *, parameters: GaussianParameters, rng: Rng | None = None) -> PrivateGaussianResult: ...


def private_gaussian(
    x: object,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    lambda_0: Real | None = None,
    edition: Edition = DEFAULT_EDITION,
    rng: Rng | None = None,
    parameters: GaussianParameters | None = None,
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
    (epsilon, delta)-DP under replace-one adjacency in REPAIRED and SHARP, for finite rows and a public n. PRINTED claims
    (2 epsilon, 2 delta) and is not private. Parameters that were not made by this package's functions guarantee nothing.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    rows = as_rows("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(gaussian_parameters, GaussianParameters, rows.shape[0], rows.shape[1], parameters, **asked)
    _warn_if_printed(made.edition)
    return _gaussian_learner(_fitting(rows, made), made, draw_gaussian_coins(made, rng))
