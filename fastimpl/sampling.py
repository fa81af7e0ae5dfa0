"""Coins and releases: everything random comes from 256 bits, and everything released from coins that are arguments.

A seed and a label make a stream (SHAKE-256); streams of different labels share nothing. With the same seed, the test bits, the
reference set and the normals of the mean are those of refimpl, digit for digit; the covariance's normals are a Bartlett factor
here, which is refimpl's only in SHARP.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fastimpl.exact import column_units, matrix_form
from fastimpl.normals import RealNormals, exact_ball, stream
from fastimpl.release import Normals, Spread, exact_root, gaussian_draw, wishart_draw
from fastimpl.rows import Floats, Vectors, as_square
from refimpl.parameters import CovarianceParameters, GaussianParameters, MeanParameters, Real, as_integer, as_rational
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

__all__ = [
    "checked_rng",
    "covariance_normals",
    "draw_covariance_coins",
    "draw_gaussian_coins",
    "draw_mean_coins",
    "finite",
    "gaussian_release",
    "mean_normals",
    "wishart_release",
]

Rng = np.random.Generator


# Coins ----------------------------------------------------------------------------------------------------------------


def checked_rng(rng: Rng | None) -> Rng | None:
    """The argument; TypeError if it is neither None nor a generator."""
    if not isinstance(rng, Rng | None):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    return rng


def _seed(rng: Rng | None) -> bytes:
    given = checked_rng(rng)
    return os.urandom(32) if given is None else given.bytes(32)


def _test_coin(seed: bytes, task: str) -> TestCoin:
    bits = int.from_bytes(stream(seed, f"{task}/test", 32), "big")
    return TestCoin(bits, stream(seed, f"{task}/test-seed", 32))


def _reference(seed: bytes, n: int, size: int) -> tuple[int, ...]:
    """``size`` distinct indices below n, uniform among such sets up to 2^-128 n: the first ones of a stream of indices."""
    found: dict[int, None] = {}
    length = 0
    while len(found) < size:
        start, length = length, 2 * length + 2 * size
        digits = stream(seed, "mean/reference", 16 * length)
        for at in range(start, length):
            index = (int.from_bytes(digits[16 * at : 16 * at + 16], "big") * n) >> 128
            if len(found) < size:
                found.setdefault(index)
    return tuple(sorted(found))


def draw_mean_coins(parameters: MeanParameters, rng: Rng | None = None) -> MeanCoins:
    """The coins of Algorithm 1: test bits, R uniform among the sets of its size (none in SHARP), d standard normals.

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
    return MeanCoins(_test_coin(seed, "mean"), reference, mean_normals(parameters, seed).floats[0], seed)


def mean_normals(parameters: MeanParameters, seed: bytes) -> RealNormals:
    """The normals of the coins of a seed, as real numbers."""
    return RealNormals(seed, "mean/normals", (1, parameters.d))


def draw_covariance_coins(parameters: CovarianceParameters, rng: Rng | None = None) -> CovarianceCoins:
    """The coins of Algorithm 5.1: test bits and a Bartlett factor. Arguments as :func:`draw_mean_coins`.

    Returns
    -------
    CovarianceCoins
        ``normals`` is the d x d lower triangular factor A of a Wishart law with N degrees of freedom: sum_i z_i z_i^T of N
        standard normal vectors has the law of A A^T.

    Raises
    ------
    TypeError
        If ``rng`` is neither None nor a generator.

    Privacy
    -------
    Data-free. Coins must be discarded after use.

    References
    ----------
    Algorithm 5.1; Bartlett (1933).
    """
    return _covariance_coins(parameters, _seed(rng))


def _covariance_coins(parameters: CovarianceParameters, seed: bytes) -> CovarianceCoins:
    return CovarianceCoins(_test_coin(seed, "covariance"), covariance_normals(parameters, seed).floats, seed)


def covariance_normals(parameters: CovarianceParameters, seed: bytes) -> RealNormals:
    """The Bartlett factor of the coins of a seed, as real numbers."""
    return RealNormals(seed, "covariance/normals", (parameters.d, parameters.d), parameters.samples)


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


def finite(name: str, values: object, shape: tuple[int, ...]) -> Floats:
    """A finite float64 array of a given shape; ValueError naming the argument otherwise."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite of shape {shape}, got shape {array.shape}")
    return array


def _given_spread(mean: Sequence[float], covariance: object, d: int) -> Spread:
    matrix = as_square("covariance", covariance, d)
    form = matrix_form(matrix, column_units(Vectors((np.zeros((1, d)),))))
    if not form.is_positive_semidefinite:
        raise ValueError("covariance must be symmetric and positive semidefinite")
    return Spread(lambda _: [exact_ball(value) for value in mean], lambda _: exact_root(form, Fraction(1)))


def _given_numbers(name: str, normals: object, shape: tuple[int, int], floats: tuple[int, ...]) -> Normals:
    """Real numbers of one shape, or floats of another."""
    if not isinstance(normals, RealNormals):
        return finite(name, normals, floats)
    if normals.shape != shape:
        raise ValueError(f"{name} must be {shape[0]} x {shape[1]}, got {normals.shape[0]} x {normals.shape[1]}")
    return normals


def gaussian_release(mean: object, covariance: object, noise_scale: Real, normals: object) -> NDArray[np.float64]:
    """The draw mean + c L z of N(mean, c^2 covariance), L the lower Cholesky factor, rounded to the nearest float64.

    Parameters
    ----------
    mean
        d finite numbers.
    covariance
        d x d, finite, positive semidefinite.
    noise_scale
        c.
    normals
        z, d finite numbers, or :class:`RealNormals` of shape (1, d).

    Returns
    -------
    ndarray of float64, shape (d,)

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape, or a covariance that is not positive semidefinite.

    Privacy
    -------
    Not private by itself: only as the last step of Algorithm 1, after its test.

    References
    ----------
    Algorithm 1.
    """
    d = np.asarray(mean).size
    centre, z = finite("mean", mean, (d,)), _given_numbers("normals", normals, (1, d), (d,))
    spread = _given_spread(centre.tolist(), covariance, d)
    return gaussian_draw(spread, as_rational("noise_scale", noise_scale), z)


def wishart_release(covariance: object, samples: int, normals: object) -> NDArray[np.float64]:
    """(1/N) L A A^T L^T, in law (1/N) sum Z_i Z_i^T for N draws Z_i of N(0, covariance), rounded to float64.

    Parameters
    ----------
    covariance
        d x d, finite, positive semidefinite.
    samples
        N >= 1.
    normals
        A, the d x d Bartlett factor of :func:`draw_covariance_coins`, as floats or as :class:`RealNormals`.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric bit for bit.

    Raises
    ------
    TypeError, ValueError
        For a wrong type or shape, or a covariance that is not positive semidefinite.

    Privacy
    -------
    Not private by itself: only as the last step of Algorithm 5.1, after its test.

    References
    ----------
    Algorithm 5.1.
    """
    shape = normals.shape if isinstance(normals, RealNormals) else np.shape(np.asarray(normals))
    d = shape[0] if shape else 0
    factor, size = _given_numbers("normals", normals, (d, d), (d, d)), as_integer("samples", samples, 1)
    return wishart_draw(_given_spread([0.0] * d, covariance, d), size, factor)
