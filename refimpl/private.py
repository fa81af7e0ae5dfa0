"""Algorithms 1, 5.1 and 5.2: the private mean, covariance and Gaussian learner.

Each algorithm comes twice: ``private_*_given(x, parameters, coins)`` is deterministic, and ``private_*`` draws the coins. The
noise is made of real numbers, and the release is the float64 nearest to the true value: floats do not weaken the guarantee.
The edition SHARP has one stage and one test in place of two of each, and releases from it what each of the three algorithms
releases.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from refimpl import reals
from refimpl.covariance import stable_covariance
from refimpl.linalg import differences, exact_matrix, ldl, to_fraction
from refimpl.mean import stable_mean
from refimpl.moments import stable_moments
from refimpl.normals import RealNormals, stream
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
    covariance_parameters,
    gaussian_parameters,
    mean_parameters,
    passes_gates,
)
from refimpl.ptr import coin_passes, pass_probability
from refimpl.reals import Enclosure
from refimpl.results import (
    CovarianceCoins,
    GaussianCoins,
    MeanCoins,
    PrivateCovarianceResult,
    PrivateGaussianResult,
    PrivateMeanResult,
    StableMomentsResult,
    TestCoin,
)

__all__ = [
    "bartlett_release",
    "draw_covariance_coins",
    "draw_gaussian_coins",
    "draw_mean_coins",
    "gaussian_release",
    "private_covariance",
    "private_covariance_given",
    "private_gaussian",
    "private_gaussian_given",
    "private_mean",
    "private_mean_given",
    "wishart_release",
]

Rng = np.random.Generator


# Coins ----------------------------------------------------------------------------------------------------------------


def _seed(rng: Rng | None) -> bytes:
    """256 bits: from the operating system, or read once from a generator (which then is only as random as its user)."""
    if rng is None:
        return os.urandom(32)
    if not isinstance(rng, Rng):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    return rng.bytes(32)


def _test_coin(seed: bytes, purpose: str) -> TestCoin:
    bits = int.from_bytes(stream(seed, f"{purpose}/test", 32), "big")
    return TestCoin(bits, stream(seed, f"{purpose}/test-seed", 32))


def _reference(seed: bytes, n: int, size: int) -> tuple[int, ...]:
    """``size`` distinct indices, uniform among all such sets: 128-bit numbers scaled to 0..n-1, repeats dropped."""
    count = 2 * size + 16
    while True:
        data = stream(seed, "mean/reference", 16 * count)
        numbers = (int.from_bytes(data[i : i + 16], "big") for i in range(0, len(data), 16))
        distinct = dict.fromkeys((number * n) >> 128 for number in numbers)
        if len(distinct) >= size:
            return tuple(sorted(list(distinct)[:size]))
        count *= 2  # a longer stream starts with the shorter one


def draw_mean_coins(parameters: MeanParameters, rng: Rng | None = None) -> MeanCoins:
    """The coins of Algorithm 1, drawn as it says: test bits, R uniform among sets of its size, d standard normals.

    SHARP has no R: ``reference`` is None.

    Parameters
    ----------
    parameters
        Of :func:`mean_parameters`.
    rng
        None draws from the operating system. A generator is read once for 256 bits and makes everything repeatable, which
        is for tests only.

    Returns
    -------
    MeanCoins

    Raises
    ------
    TypeError
        If ``rng`` is neither None nor a generator.

    Privacy
    -------
    Data-free. Coins must be discarded after use.

    References
    ----------
    Algorithm 1.
    """
    return _mean_coins(parameters, _seed(rng))


def _mean_coins(parameters: MeanParameters, seed: bytes) -> MeanCoins:
    one_stage = parameters.edition.test_law == "table"
    reference = None if one_stage else _reference(seed, parameters.n, parameters.reference_size)
    return MeanCoins(_test_coin(seed, "mean"), reference, _mean_normals(parameters, seed).floats[0], seed)


def _mean_normals(parameters: MeanParameters, seed: bytes) -> RealNormals:
    return RealNormals(seed, "mean/normals", (1, parameters.d))


def draw_covariance_coins(parameters: CovarianceParameters, rng: Rng | None = None) -> CovarianceCoins:
    """The coins of Algorithm 5.1: test bits and N x d standard normals. Arguments as :func:`draw_mean_coins`.

    SHARP has many more draws: its normals are the d x d Bartlett factor of their Wishart law.

    Returns
    -------
    CovarianceCoins

    Raises
    ------
    TypeError
        If ``rng`` is neither None nor a generator.

    Privacy
    -------
    Data-free. Coins must be discarded after use.

    References
    ----------
    Algorithm 5.1.
    """
    return _covariance_coins(parameters, _seed(rng))


def _covariance_coins(parameters: CovarianceParameters, seed: bytes) -> CovarianceCoins:
    return CovarianceCoins(_test_coin(seed, "covariance"), _covariance_normals(parameters, seed).floats, seed)


def _covariance_normals(parameters: CovarianceParameters, seed: bytes) -> RealNormals:
    p, label = parameters, "covariance/normals"
    if p.edition.test_law == "table":
        return RealNormals(seed, label, (p.d, p.d), p.samples)
    return RealNormals(seed, label, (p.samples, p.d))


def draw_gaussian_coins(parameters: GaussianParameters, rng: Rng | None = None) -> GaussianCoins:
    """The coins of Algorithm 5.2: independent coins of its two halves. Arguments as :func:`draw_mean_coins`.

    SHARP's one test uses the coin of the mean.

    Returns
    -------
    GaussianCoins

    Raises
    ------
    TypeError
        If ``rng`` is neither None nor a generator.

    Privacy
    -------
    Data-free. Coins must be discarded after use.

    References
    ----------
    Algorithm 5.2.
    """
    seed = _seed(rng)
    mean = _mean_coins(parameters.mean, stream(seed, "gaussian/mean", 32))
    return GaussianCoins(mean, _covariance_coins(parameters.covariance, stream(seed, "gaussian/covariance", 32)))


# Releases -------------------------------------------------------------------------------------------------------------


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _rounded(number: Any) -> float:
    """The float64 nearest to a real given as a function from precision to enclosure."""
    precision = 128
    while True:
        enclosure: Enclosure = number(precision)
        lower, upper = _to_float(enclosure.lower), _to_float(enclosure.upper)
        if lower == upper or precision >= reals.LAST_PRECISION:  # at the limit the real is a tie between two floats
            return lower + 0.0  # zero has no sign
        precision *= 2


class _Numbers(NamedTuple):
    """A matrix of real numbers: ``middle`` up to ``radius`` in each entry."""

    middle: fmpq_mat
    radius: Fraction


def _numbers(normals: Any, rows: int, columns: int) -> Callable[[int], _Numbers]:
    """Numbers that are floats, or have as many digits as one asks for, as a function of precision."""
    if isinstance(normals, RealNormals):
        if normals.shape != (rows, columns):
            raise ValueError(f"normals must be {rows} x {columns}, got {normals.shape[0]} x {normals.shape[1]}")
        return lru_cache(maxsize=1)(lambda precision: _enclosed(normals.enclosures(precision)))
    array = np.asarray(normals, dtype=np.float64)
    if array.shape != (rows, columns):
        raise ValueError(f"normals must be {rows} x {columns}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("normals must be finite")
    exact = _Numbers(exact_matrix("normals", array), Fraction(0))
    return lambda _: exact


def _enclosed(numbers: list[list[Enclosure]]) -> _Numbers:
    middles = [[(e.lower + e.upper) / 2 for e in row] for row in numbers]
    middle = fmpq_mat([[fmpq(m.numerator, m.denominator) for m in row] for row in middles])
    return _Numbers(middle, max(((e.upper - e.lower) / 2 for row in numbers for e in row), default=Fraction(0)))


def _factors(covariance: object) -> tuple[list[list[fmpq]], list[fmpq]]:
    """L and D of an exact covariance, or ValueError naming it."""
    matrix = exact_matrix("covariance", covariance)
    if matrix.nrows() != matrix.ncols() or matrix != matrix.transpose():
        raise ValueError(f"covariance must be square and symmetric, got {matrix.nrows()} x {matrix.ncols()}")
    factors = ldl(matrix)
    if factors is None:
        raise ValueError("covariance must be positive semidefinite")
    return factors


def gaussian_release(mean: Any, covariance: object, noise_scale: Fraction, normals: Any) -> NDArray[np.float64]:
    """The draw mean + c L z of N(mean, c^2 covariance), L the lower Cholesky factor, rounded to the nearest float64.

    Parameters
    ----------
    mean
        d exact numbers.
    covariance
        d x d, exact, positive semidefinite.
    noise_scale
        c, exact.
    normals
        z, d finite floats, or :class:`RealNormals` of shape (1, d).

    Returns
    -------
    ndarray of float64, shape (d,)

    Raises
    ------
    ValueError
        For a wrong shape, or a covariance that is not positive semidefinite.

    Privacy
    -------
    Not private by itself: only as the last step of Algorithm 1, after its test.

    References
    ----------
    Algorithm 1; CASES D16.
    """
    lower, diagonal = _factors(covariance)
    d = len(diagonal)
    if len(mean) != d:
        raise ValueError(f"mean must have {d} coordinates, got {len(mean)}")
    numbers = _numbers(normals if isinstance(normals, RealNormals) else [normals], 1, d)

    def entry(i: int, precision: int) -> Enclosure:
        total, z = Enclosure.point(Fraction(mean[i])), numbers(precision)
        for j in range(i + 1):
            root = reals.sqrt(to_fraction(diagonal[j]), precision)
            total = total + root * (noise_scale * to_fraction(lower[i][j])) * _near(
                to_fraction(z.middle[0, j]), z.radius
            )
        return total

    return np.array([_rounded(lambda p, i=i: entry(i, p)) for i in range(d)])


def wishart_release(covariance: object, samples: int, normals: Any) -> NDArray[np.float64]:
    """(1/N) sum Z_i Z_i^T for the N draws Z_i = L z_i of N(0, covariance), rounded to the nearest float64.

    Parameters
    ----------
    covariance
        d x d, exact, positive semidefinite.
    samples
        N >= 1.
    normals
        N x d finite floats, the z_i, or :class:`RealNormals` of that shape.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric bit for bit.

    Raises
    ------
    ValueError
        For a wrong shape, or a covariance that is not positive semidefinite.

    Privacy
    -------
    Not private by itself: only as the last step of Algorithm 5.1, after its test.

    References
    ----------
    Algorithm 5.1.
    """
    factors = _factors(covariance)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    return _scatter(factors, samples, _numbers(normals, samples, len(factors[1])))


def bartlett_release(covariance: object, samples: int, normals: Any) -> NDArray[np.float64]:
    """(1/N) L A A^T L^T, which has the law of (1/N) sum Z_i Z_i^T for N draws, rounded to the nearest float64.

    Parameters
    ----------
    covariance
        d x d, exact, positive semidefinite.
    samples
        N >= 1.
    normals
        A, the d x d Bartlett factor of :func:`draw_covariance_coins` in SHARP, as floats or as :class:`RealNormals`.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric bit for bit.

    Raises
    ------
    ValueError
        For a wrong shape, or a covariance that is not positive semidefinite.

    Privacy
    -------
    Not private by itself: only as the last step of a release, after its test.

    References
    ----------
    Algorithm 5.1; Bartlett (1933).
    """
    factors = _factors(covariance)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    d = len(factors[1])
    factor = _numbers(normals, d, d)

    def columns(precision: int) -> _Numbers:
        numbers = factor(precision)
        return _Numbers(numbers.middle.transpose(), numbers.radius)

    return _scatter(factors, samples, columns)


def _near(middle: Fraction, radius: Fraction) -> Enclosure:
    return Enclosure(middle - radius, middle + radius)


def _inner_products(z: _Numbers) -> list[list[Enclosure]]:
    """Z^T z. A product of numbers up to A in size, both off by up to r, is off by up to 2 A r + r^2."""
    largest = max((abs(to_fraction(value)) for row in z.middle.tolist() for value in row), default=Fraction(0))
    slack = z.middle.nrows() * (2 * largest + z.radius) * z.radius
    return [[_near(to_fraction(value), slack) for value in row] for row in (z.middle.transpose() * z.middle).tolist()]


def _scatter(
    factors: tuple[list[list[fmpq]], list[fmpq]], samples: int, numbers: Callable[[int], _Numbers]
) -> NDArray[np.float64]:
    """(1/N) sum_i (L D^(1/2) z_i)(L D^(1/2) z_i)^T over the rows z_i of z."""
    lower, diagonal = factors
    d = len(diagonal)
    inner = lru_cache(maxsize=1)(lambda precision: _inner_products(numbers(precision)))

    def entry(i: int, j: int, precision: int) -> Enclosure:
        total = Enclosure.point(0)
        for a in range(i + 1):
            for b in range(j + 1):
                root = reals.sqrt(to_fraction(diagonal[a] * diagonal[b]), precision)
                total = total + root * (to_fraction(lower[i][a] * lower[j][b]) / samples) * inner(precision)[a][b]
        return total

    release = np.empty((d, d))
    for i in range(d):
        for j in range(i + 1):
            release[i, j] = release[j, i] = _rounded(lambda p, i=i, j=j: entry(i, j, p))
    return release


# Algorithms -----------------------------------------------------------------------------------------------------------


def _data(x: object, parameters: Parameters) -> fmpq_mat:
    return _fitting(exact_matrix("x", x), parameters)


def _fitting(rows: fmpq_mat, parameters: Parameters) -> fmpq_mat:
    if (rows.nrows(), rows.ncols()) != (parameters.n, parameters.d):
        raise ValueError(
            f"x must be {parameters.n} x {parameters.d} as its parameters say, got {rows.nrows()} x {rows.ncols()}"
        )
    return rows


def _warn_if_printed(edition: Edition) -> None:
    if edition.test_law == "printed":
        message = "the PRINTED edition is not differentially private; it is here to be studied, not to release data"
        warnings.warn(message, PrintedEditionWarning, stacklevel=3)


def _sharp_moments(
    x: fmpq_mat, parameters: MeanParameters | CovarianceParameters, test: TestCoin
) -> StableMomentsResult | None:
    """SHARP: the moments that may be released, or None for FAIL.

    Pseudocode::

        input: x_1, ..., x_n in R^d; privacy parameters epsilon, delta; outlier threshold lambda_0
        1  k, W, p_0, ..., p_k, and the noise scale c or the number N of draws <- the plan, from public numbers alone
        2  if there is no plan: return FAIL
        3  mu, C, SCORE <- StableMoments(x, lambda_0, k, W)
        4  with probability p_SCORE:
        5      release a draw of N(mu, c^2 C), of (1/N) Wishart(C, N), or of both
        6  return FAIL
    """
    p = parameters  # line 1
    if not passes_gates(p) or p.window is None:
        return None  # line 2
    moments = stable_moments(x, p.lambda_0, p.k, p.window)  # line 3
    if coin_passes(pass_probability(moments.score, p), test):  # line 4
        return moments  # line 5
    return None  # line 6


def _checked_normals(name: str, coins: MeanCoins | CovarianceCoins, real: Callable[[bytes], RealNormals]) -> Any:
    """The normals of coins: real numbers where their seed is there, and floats taken exactly where it is not."""
    shape = real(b"").shape
    array = np.asarray(coins.normals, dtype=np.float64)
    if array.shape != (shape[1:] if isinstance(coins, MeanCoins) else shape) or not np.isfinite(array).all():
        raise ValueError(f"{name}.normals must be finite, {shape[0]} x {shape[1]}, got shape {array.shape}")
    if coins.seed is None:
        return array
    drawn = real(coins.seed)
    if not np.allclose(drawn.floats.reshape(array.shape), array):  # that nobody exchanges the one and keeps the other
        raise ValueError(f"{name}.normals are not those of its seed: numbers of one's own come without a seed")
    return drawn


def _mean_numbers(name: str, parameters: MeanParameters, coins: MeanCoins) -> Any:
    return _checked_normals(name, coins, lambda seed: _mean_normals(parameters, seed))


def _covariance_numbers(name: str, parameters: CovarianceParameters, coins: CovarianceCoins) -> Any:
    return _checked_normals(name, coins, lambda seed: _covariance_normals(parameters, seed))


def _sharp_mean_numbers(name: str, parameters: MeanParameters, coins: MeanCoins) -> Any:
    if coins.reference is not None:
        raise ValueError(f"{name}.reference must be None: the edition SHARP has no reference points")
    return _mean_numbers(name, parameters, coins)


def _sharp_mean_release(x: fmpq_mat, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    normals = _sharp_mean_numbers("coins", parameters, coins)
    moments = _sharp_moments(x, parameters, coins.test)
    if moments is None:
        return PrivateMeanResult(None, parameters)
    release = gaussian_release(moments.mean, moments.covariance, parameters.noise_scale, normals)
    return PrivateMeanResult(release, parameters)


def _sharp_covariance_release(
    x: fmpq_mat, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    normals = _covariance_numbers("coins", parameters, coins)
    moments = _sharp_moments(x, parameters, coins.test)
    if moments is None:
        return PrivateCovarianceResult(None, parameters)
    release = bartlett_release(moments.covariance, parameters.samples, normals)
    return PrivateCovarianceResult(release, parameters)


def _sharp_learner(x: fmpq_mat, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Mean and covariance of one run: one test, whose coin is the mean's, passes both."""
    normals = _sharp_mean_numbers("coins.mean", parameters.mean, coins.mean)
    factor = _covariance_numbers("coins.covariance", parameters.covariance, coins.covariance)
    moments = _sharp_moments(x, parameters.mean, coins.mean.test) if passes_gates(parameters) else None
    if moments is None:
        return PrivateGaussianResult(None, None, parameters)
    mean = gaussian_release(moments.mean, moments.covariance, parameters.mean.noise_scale, normals)
    covariance = bartlett_release(moments.covariance, parameters.covariance.samples, factor)
    return PrivateGaussianResult(mean, covariance, parameters)


def private_mean_given(x: object, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    """Algorithm 1, private mean estimation, with its coins as arguments: deterministic.

    Pseudocode::

        input: x_1, ..., x_n in R^d; privacy parameters epsilon, delta; outlier threshold lambda_0
        1  k, |R|, c^2 <- mean_parameters(n, d, epsilon, delta, lambda_0)
        2  R <- uniform among the subsets of [n] of that size
        3  if n fails the gates: return FAIL
        4  Sigma, SCORE_1 <- StableCovariance(x, lambda_0, k)
        5  mu, SCORE_2 <- StableMean(x, Sigma, lambda_0, k, R)
        6  if M_PTR(max{SCORE_1, SCORE_2}) = PASS with budget (epsilon/3, delta/6):
        7      return a draw of N(mu, c^2 Sigma)
        8  return FAIL

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
    _warn_if_printed(parameters.edition)
    return _mean_release(_data(x, parameters), parameters, coins)


def _mean_release(x: fmpq_mat, parameters: MeanParameters, coins: MeanCoins) -> PrivateMeanResult:
    p = parameters  # line 1
    if p.edition.test_law == "table":
        return _sharp_mean_release(x, p, coins)
    reference = checked_reference(coins.reference or (), p.n)  # line 2
    if len(reference) != p.reference_size:
        raise ValueError(f"coins.reference must hold {p.reference_size} indices, got {len(reference)}")
    normals = _mean_numbers("coins", p, coins)
    if not passes_gates(p):
        return PrivateMeanResult(None, p)  # line 3
    covariance = stable_covariance(x, p.lambda_0, p.k, edition=p.edition)  # line 4
    mean = stable_mean(x, covariance, p.lambda_0, p.k, reference, edition=p.edition)  # line 5
    score = max(covariance.score, mean.score)
    if coin_passes(pass_probability(score, p), coins.test):  # line 6
        release = gaussian_release(mean.mean, covariance.covariance, p.noise_scale, normals)
        return PrivateMeanResult(release, p)  # line 7
    return PrivateMeanResult(None, p)  # line 8


def private_covariance_given(
    x: object, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    """Algorithm 5.1, private covariance estimation, with its coins as arguments: deterministic.

    Pseudocode::

        input: x_1, ..., x_n in R^d; privacy parameters epsilon, delta; outlier threshold lambda_0
        1  k, N <- covariance_parameters(n, d, epsilon, delta, lambda_0)
        2  if n fails the gates: return FAIL
        3  Sigma, SCORE <- StableCovariance(x, lambda_0, k)
        4  if M_PTR(SCORE) = PASS with budget (epsilon/2, delta/2):
        5      draw Z_1, ..., Z_N from N(0, Sigma)
        6      return (1/N) sum Z_i Z_i^T
        7  return FAIL

    Parameters
    ----------
    x
        n x d rows, finite.
    parameters
        Of :func:`covariance_parameters`, for the same n and d.
    coins
        Of :func:`draw_covariance_coins`: N x d normals.

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
    _warn_if_printed(parameters.edition)
    return _covariance_release(_data(x, parameters), parameters, coins)


def _covariance_release(
    x: fmpq_mat, parameters: CovarianceParameters, coins: CovarianceCoins
) -> PrivateCovarianceResult:
    p = parameters  # line 1
    if p.edition.test_law == "table":
        return _sharp_covariance_release(x, p, coins)
    normals = _covariance_numbers("coins", p, coins)
    if not passes_gates(p):
        return PrivateCovarianceResult(None, p)  # line 2
    covariance = stable_covariance(x, p.lambda_0, p.k, edition=p.edition)  # line 3
    if coin_passes(pass_probability(covariance.score, p), coins.test):  # line 4
        release = wishart_release(covariance.covariance, p.samples, normals)  # line 5
        return PrivateCovarianceResult(release, p)  # line 6
    return PrivateCovarianceResult(None, p)  # line 7


def private_gaussian_given(x: object, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    """Algorithm 5.2, the private learner of an unrestricted Gaussian, with its coins as arguments: deterministic.

    Pseudocode::

        input: x_1, ..., x_n in R^d; privacy parameters epsilon, delta; outlier threshold lambda_0
        1  if n is too small: return FAIL
        2  mu <- A_main(x)
        3  for all i in [m]: y_i <- (1/sqrt 2)(x_i - x_{i+m})
        4  Sigma <- A_cov(y)
        5  if mu = FAIL or Sigma = FAIL: return FAIL
        6  return mu, Sigma

    REPAIRED gives x itself to A_cov, which pairs on its own: line 3 would pair twice. PRINTED does as printed.

    Parameters
    ----------
    x
        n x d rows, finite.
    parameters
        Of :func:`gaussian_parameters`, for the same n and d.
    coins
        Of :func:`draw_gaussian_coins`.

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
    _warn_if_printed(parameters.edition)
    return _gaussian_learner(_data(x, parameters), parameters, coins)


def _gaussian_learner(rows: fmpq_mat, parameters: GaussianParameters, coins: GaussianCoins) -> PrivateGaussianResult:
    if parameters.edition.test_law == "table":
        return _sharp_learner(rows, parameters, coins)
    if not passes_gates(parameters):
        return PrivateGaussianResult(None, None, parameters)  # line 1
    mean = _mean_release(rows, parameters.mean, coins.mean).mean  # line 2
    printed = parameters.edition.test_law == "printed"
    y = differences(rows) if printed else rows  # line 3  # departs from line 3: REPAIRED does not pair here
    covariance = _covariance_release(y, parameters.covariance, coins.covariance).covariance  # line 4
    if mean is None or covariance is None:
        return PrivateGaussianResult(None, None, parameters)  # line 5
    halved = covariance / 2 if printed else covariance  # the factor 1/2 that the differences of line 3 leave out
    return PrivateGaussianResult(mean, halved, parameters)  # line 6


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
        Outlier threshold, at least 1: about d for well-behaved data, chosen without looking at them.
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
    rows = exact_matrix("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(mean_parameters, MeanParameters, rows.nrows(), rows.ncols(), parameters, **asked)
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
    rows = exact_matrix("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(covariance_parameters, CovarianceParameters, rows.nrows(), rows.ncols(), parameters, **asked)
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
    rows = exact_matrix("x", x)
    asked = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition}
    made = asked_or_made(gaussian_parameters, GaussianParameters, rows.nrows(), rows.ncols(), parameters, **asked)
    _warn_if_printed(made.edition)
    return _gaussian_learner(_fitting(rows, made), made, draw_gaussian_coins(made, rng))
