"""Algorithms 1, 5.1 and 5.2: the private mean, covariance and Gaussian learner, at BLAS speed.

Each algorithm comes twice: ``private_*_given(x, parameters, coins)`` is deterministic, and ``private_*`` draws the coins.
Results hold the release and public parameters, nothing else. The noise is made of real numbers, and a release is rounded once,
from its true value: floats do not weaken the guarantee.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import overload

import numpy as np
from flint import arb

from fastimpl.covariance import paired_result
from fastimpl.mean import Metric, mean_result, weight_counts
from fastimpl.moments import Lifted, OneStage, one_stage
from fastimpl.normals import Ball, RealNormals, exact_ball
from fastimpl.ptr import score_passes, surely_fails
from fastimpl.release import Balls, Normals, Spread, exact_root, gaussian_draw, wishart_draw
from fastimpl.rows import Floats, Indices, Vectors, as_rows, pairs, pairs_of_pairs
from fastimpl.sampling import (
    Rng,
    checked_rng,
    covariance_normals,
    draw_covariance_coins,
    draw_gaussian_coins,
    draw_mean_coins,
    finite,
    mean_normals,
)
from fastimpl.sums import cholesky, enclosed_sums, exact_sums
from fastimpl.threads import one_blas_thread
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
    StableMeanResult,
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


def _paired_spread(vectors: Vectors, result: StableCovarianceResult, k: int, edition: Edition) -> Spread:
    """The covariance (1/(2 k m)) sum c_i v_i v_i^T, about a mean of zero: from slices of the rows, or else from integers."""
    counts, parts = weight_counts(np.asarray(result.entry_level), edition.weight_levels(k, None))

    @cache
    def sliced() -> Balls | None:
        return enclosed_sums(vectors, counts)

    @cache
    def exact() -> Metric:
        return Metric(vectors, counts, None, Fraction(2 * parts * counts.size), np.zeros((1, vectors.width)))

    def root(attempt: int) -> Balls | None:
        if attempt:
            return exact_root(exact().form, exact().scale)
        sums = sliced()
        return sums and cholesky([[entry / (2 * parts * counts.size) for entry in row] for row in sums])

    return Spread(lambda _: [arb(0)] * vectors.width, root)


def _core_mean(x: Floats, result: StableMeanResult, k: int, edition: Edition) -> Callable[[int], list[Ball]]:
    """The mean sum c_i x_i / sum c_i, likewise; 0 if no row is in any core."""
    counts, _ = weight_counts(np.asarray(result.entry_level), edition.weight_levels(k, None))
    total = counts.total()
    lifted = Lifted(x, np.where(np.isfinite(result.mean), result.mean, 0.0))

    @cache
    def sums(exactly: bool) -> Balls | None:
        if not exactly:
            return enclosed_sums(lifted, counts)
        whole, unit = exact_sums(lifted, counts)
        return [[arb(whole[0, j]) * arb(2) ** int(unit[0] + unit[j]) for j in range(lifted.width)]]

    def mean(attempt: int) -> list[Ball]:
        if not total:
            return [arb(0)] * x.shape[1]
        first = (sums(exactly=attempt > 0) or sums(exactly=True) or [[]])[0]
        return [exact_ball(c) + entry / total for c, entry in zip(lifted.centre.tolist(), first[1:], strict=True)]

    return mean


def _lifted_spread(stage: OneStage) -> Spread:
    """Weighted mean and scatter of SHARP's one stage, likewise."""
    b, centre = stage.counts.total(), stage.lifted.centre.tolist()

    @cache
    def sliced() -> Balls | None:
        return enclosed_sums(stage.lifted, stage.counts)

    def mean(attempt: int) -> list[Ball]:
        sums = None if attempt else sliced()
        if sums is None:
            return [exact_ball(value) for value in stage.exact.exact_mean]
        return [exact_ball(c) + entry / b for c, entry in zip(centre, sums[0][1:], strict=True)]

    def root(attempt: int) -> Balls | None:
        if attempt:
            return exact_root(stage.exact.form, stage.exact.scale)
        sums = sliced()
        if sums is None:
            return None
        (_, *s), *rows = sums
        scatter = [[entry - s[i] * s[j] / b for j, entry in enumerate(row[1:])] for i, row in enumerate(rows)]
        return cholesky([[entry / stage.total for entry in row] for row in scatter])

    return Spread(mean, root)


@one_blas_thread
def _passed_spread(x: Floats, parameters: MeanParameters | CovarianceParameters, test: TestCoin) -> Spread | None:
    """What the one stage of SHARP, halted early, may release, if its test passes; None for FAIL."""
    p = parameters
    if not passes_gates(p) or p.window is None:
        return None
    checked_window(p.window, p.k, p.edition, p.lambda_0, p.n)  # a record may come from anywhere
    stage = one_stage(x, p.lambda_0, p.k, p.window, early=True)
    passed = score_passes(stage.score, p, test) and stage.score < p.k and stage.counts.total()
    return _lifted_spread(stage) if passed else None


def _sharp_mean_release(x: Floats, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    p, normals = parameters, _sharp_mean_numbers("coins", parameters, coins)
    spread = _passed_spread(x, p, coins.test)
    return PrivateMeanResult(spread and gaussian_draw(spread, p.noise_scale, normals), p)


def _sharp_covariance_release(
    x: Floats, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    p, factor = parameters, _covariance_numbers("coins", parameters, coins)
    spread = _passed_spread(x, p, coins.test)
    return PrivateCovarianceResult(spread and wishart_draw(spread, p.samples, factor), p)


@one_blas_thread
def _sharp_learner(x: Floats, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Mean and covariance of one run: one test, whose coin is the mean's, passes both."""
    p, normals = parameters, _sharp_mean_numbers("coins.mean", parameters.mean, coins.mean)
    factor = _covariance_numbers("coins.covariance", p.covariance, coins.covariance)
    spread = _passed_spread(x, p.mean, coins.mean.test) if passes_gates(p) else None
    if spread is None:
        return PrivateGaussianResult(None, None, p)
    mean = gaussian_draw(spread, p.mean.noise_scale, normals)
    return PrivateGaussianResult(mean, wishart_draw(spread, p.covariance.samples, factor), p)


def _real_numbers(name: str, floats: Floats, seed: bytes | None, real: Callable[[bytes], RealNormals]) -> Normals:
    """The normals of coins: real numbers where their seed is there, and floats taken exactly where it is not."""
    if seed is None:
        return floats
    drawn = real(seed)
    if not np.allclose(drawn.floats.reshape(floats.shape), floats):  # that nobody exchanges the one and keeps the other
        raise ValueError(f"{name}.normals are not those of its seed: numbers of one's own come without a seed")
    return drawn


def _mean_numbers(name: str, parameters: MeanParameters, coins: MeanCoins) -> Normals:
    floats = finite(f"{name}.normals", coins.normals, (parameters.d,))
    return _real_numbers(name, floats, coins.seed, partial(mean_normals, parameters))


def _covariance_numbers(name: str, parameters: CovarianceParameters, coins: CovarianceCoins) -> Normals:
    floats = finite(f"{name}.normals", coins.normals, (parameters.d, parameters.d))
    return _real_numbers(name, floats, coins.seed, partial(covariance_normals, parameters))


def _sharp_mean_numbers(name: str, parameters: MeanParameters, coins: MeanCoins) -> Normals:
    if coins.reference is not None:
        raise ValueError(f"{name}.reference must be None: the edition SHARP has no reference points")
    return _mean_numbers(name, parameters, coins)


def _checked_mean_coins(parameters: MeanParameters, coins: MeanCoins) -> tuple[Indices, Normals]:
    reference = checked_reference(coins.reference or (), parameters.n)
    if len(reference) != parameters.reference_size:
        raise ValueError(f"coins.reference must hold {parameters.reference_size} indices, got {len(reference)}")
    return np.array(reference, dtype=np.int64), _mean_numbers("coins", parameters, coins)


@one_blas_thread
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
    spread = Spread(_core_mean(x, mean, p.k, p.edition), _paired_spread(pairs(x), covariance, p.k, p.edition).root)
    return PrivateMeanResult(gaussian_draw(spread, p.noise_scale, normals), p)


def _covariance_release(x: Floats, parameters: CovarianceParameters, coins: CovarianceCoins) -> PrivateCovarianceResult:
    """Algorithm 5.1 after the door."""
    if parameters.edition.test_law == "table":
        return _sharp_covariance_release(x, parameters, coins)
    return _paired_release(pairs(x), parameters, coins)


@one_blas_thread
def _paired_release(
    vectors: Vectors, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    """The same in the editions that pair, on the differences that the pairing makes."""
    p, factor = parameters, _covariance_numbers("coins", parameters, coins)
    if not passes_gates(p):
        return PrivateCovarianceResult(None, p)
    early = surely_fails(p.k, p.test_epsilon, p.test_delta, p.edition)
    result = paired_result(vectors, p.lambda_0, p.k, p.edition, early=early)
    if not score_passes(result.score, p, coins.test):
        return PrivateCovarianceResult(None, p)
    spread = _paired_spread(vectors, result, p.k, p.edition)
    return PrivateCovarianceResult(wishart_draw(spread, p.samples, factor), p)


@one_blas_thread
@np.errstate(all="ignore")  # an overflow of the data is no affair of the caller's error settings
def _gaussian_learner(x: Floats, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Algorithm 5.2 after the door. REPAIRED gives x to both halves; PRINTED pairs before Algorithm 5.1 pairs again."""
    if parameters.edition.test_law == "table":
        return _sharp_learner(x, parameters, coins)
    _checked_mean_coins(parameters.mean, coins.mean)
    _covariance_numbers("coins.covariance", parameters.covariance, coins.covariance)
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
    rows, rng = as_rows("x", x), checked_rng(rng)
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
    rows, rng = as_rows("x", x), checked_rng(rng)
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
    rows, rng = as_rows("x", x), checked_rng(rng)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(gaussian_parameters, GaussianParameters, rows.shape[0], rows.shape[1], parameters, **asked)
    _warn_if_printed(made.edition)
    return _gaussian_learner(_fitting(rows, made), made, draw_gaussian_coins(made, rng))
