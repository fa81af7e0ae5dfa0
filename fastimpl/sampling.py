"""Coins and releases: everything random comes from 256 bits, and everything released from coins that are arguments.

A seed and a label make a stream (SHAKE-256); streams of different labels share nothing. With the same seed, the test bits, the
reference set and the normals of the mean are those of refimpl; the covariance's normals are a Bartlett factor here, which is
refimpl's only in SHARP.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from fastimpl.exact import QuadraticForm, column_units, lower_factor, matrix_form
from fastimpl.rows import Floats, Vectors, as_square
from refimpl.parameters import CovarianceParameters, GaussianParameters, MeanParameters, Real, as_integer, as_rational
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

__all__ = [
    "cholesky_factor",
    "draw_covariance_coins",
    "draw_gaussian_coins",
    "draw_mean_coins",
    "finite",
    "gaussian_release",
    "wishart_release",
]

Rng = np.random.Generator
ExactCovariance = Callable[[], tuple[QuadraticForm, Fraction]]
"""Sigma = G/scale as (form of G, scale), for when float64 will not do."""


# Coins ----------------------------------------------------------------------------------------------------------------


def _seed(rng: Rng | None) -> bytes:
    if rng is None:
        return os.urandom(32)
    if not isinstance(rng, Rng):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    return rng.bytes(32)


def _stream(seed: bytes, label: str, count: int) -> bytes:
    return hashlib.shake_256(b"bhs23/" + label.encode() + b"/" + seed).digest(count)


def _test_coin(seed: bytes, task: str) -> TestCoin:
    bits = int.from_bytes(_stream(seed, f"{task}/test", 32), "big")
    return TestCoin(bits, _stream(seed, f"{task}/test-seed", 32))


def _uniforms(seed: bytes, label: str, count: int) -> Floats:
    """Numbers (u + 1/2)/2^53 with 53-bit u, so never 0 or 1."""
    words = np.frombuffer(_stream(seed, label, 8 * count), dtype=">u8") >> np.uint64(11)
    return np.asarray((words.astype(np.float64) + 0.5) / 2.0**53)


def _reference(seed: bytes, n: int, size: int) -> tuple[int, ...]:
    """``size`` distinct indices below n, uniform among such sets up to 2^-128 n: the first ones of a stream of indices."""
    found: dict[int, None] = {}
    length = 0
    while len(found) < size:
        start, length = length, 2 * length + 2 * size
        stream = _stream(seed, "mean/reference", 16 * length)
        for at in range(start, length):
            index = (int.from_bytes(stream[16 * at : 16 * at + 16], "big") * n) >> 128
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
    normals = np.asarray(ndtri(_uniforms(seed, "mean/normals", parameters.d)), dtype=np.float64)
    return MeanCoins(_test_coin(seed, "mean"), reference, normals)


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
    """Row by row: normals below the diagonal; on it, the root of a chi-squared number with N - i degrees of freedom.

    Columns from N on are zero: then A is d x N lower trapezoidal, as the law of fewer than d draws wants.
    """
    d, samples = parameters.d, parameters.samples
    factor = np.zeros((d, d))
    uniforms = _uniforms(seed, "covariance/normals", d * (d + 1) // 2)
    factor[np.tril_indices(d)] = ndtri(uniforms)
    diagonal = np.array([i * (i + 3) // 2 for i in range(d)])
    degrees = samples - np.arange(d, dtype=np.float64)
    positive = degrees > 0
    roots = np.sqrt(2 * gammaincinv(np.where(positive, degrees, 1.0) / 2, uniforms[diagonal]))
    factor[np.arange(d), np.arange(d)] = roots
    factor[:, ~positive] = 0.0
    return CovarianceCoins(_test_coin(seed, "covariance"), factor)


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
    mean = _mean_coins(parameters.mean, _stream(seed, "gaussian/mean", 32))
    return GaussianCoins(mean, _covariance_coins(parameters.covariance, _stream(seed, "gaussian/covariance", 32)))


# Releases -------------------------------------------------------------------------------------------------------------


def finite(name: str, values: object, shape: tuple[int, ...]) -> Floats:
    """A finite float64 array of a given shape; ValueError naming the argument otherwise."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite of shape {shape}, got shape {array.shape}")
    return array


class Root(NamedTuple):
    """L = 2^exponent times ``lower``, lower triangular; the exponent keeps it finite where L itself overflows."""

    lower: Floats
    exponent: int


@np.errstate(all="ignore")
def cholesky_factor(covariance: Floats, exact: ExactCovariance) -> Root:
    """L, lower triangular, with L L^T the covariance: in float64 if that goes well, else the exact factor, rounded.

    Float64 goes well where the matrix is finite and, with its columns scaled to unit size, no pivot is below 2^-32. The
    computed factor then belongs to a matrix that is off by at most gamma_{d+1} in each scaled entry (Higham, 2nd ed.,
    Theorem 10.3).
    """
    size = np.diag(covariance)
    if np.isfinite(covariance).all() and (size > 2.0**-900).all():
        shift = -(np.frexp(size)[1].astype(np.int64) // 2)
        try:
            lower = np.linalg.cholesky(np.ldexp(covariance, shift[:, None] + shift[None, :]))
        except np.linalg.LinAlgError:
            lower = np.zeros_like(covariance)
        if (np.diag(lower) ** 2 > 2.0**-32).all():
            return Root(np.asarray(np.ldexp(lower, -shift[:, None])), 0)
    form, scale = exact()
    lower = lower_factor(form, scale)
    return Root(lower, 0) if np.isfinite(lower).all() else Root(lower_factor(form, 16 * scale), 2)


def _given_covariance(covariance: object, d: int) -> tuple[Floats, ExactCovariance]:
    matrix = as_square("covariance", covariance, d)
    form = matrix_form(matrix, column_units(Vectors((np.zeros((1, d)),))))
    if not form.is_positive_semidefinite:
        raise ValueError("covariance must be symmetric and positive semidefinite")
    return matrix, lambda: (form, Fraction(1))


def gaussian_release(mean: object, covariance: object, noise_scale: Real, normals: object) -> NDArray[np.float64]:
    """The draw mean + c L z of N(mean, c^2 covariance), L the lower Cholesky factor.

    Parameters
    ----------
    mean
        d finite numbers.
    covariance
        d x d, finite, positive semidefinite.
    noise_scale
        c.
    normals
        z, d finite numbers.

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
    centre, z = finite("mean", mean, (d,)), finite("normals", normals, (d,))
    scale = float(as_rational("noise_scale", noise_scale))
    return shifted_draw(centre, cholesky_factor(*_given_covariance(covariance, d)), scale, z)


@np.errstate(all="ignore")
def shifted_draw(mean: Floats, root: Root, noise_scale: float, normals: Floats) -> Floats:
    """Mean + c L z; a sum that may overflow is formed at a quarter of its size."""
    noise = root.lower @ (noise_scale * normals)
    draw = mean + np.ldexp(noise, root.exponent)
    return np.asarray(np.where(np.isfinite(draw), draw, 4 * (mean / 4 + np.ldexp(noise, root.exponent - 2))))


def wishart_release(covariance: object, samples: int, normals: object) -> NDArray[np.float64]:
    """(1/N) L A A^T L^T, in law (1/N) sum Z_i Z_i^T for N draws Z_i of N(0, covariance), L the lower Cholesky factor.

    Parameters
    ----------
    covariance
        d x d, finite, positive semidefinite.
    samples
        N >= 1.
    normals
        A, the d x d Bartlett factor of :func:`draw_covariance_coins`.

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
    shape = np.shape(np.asarray(normals))
    d = shape[0] if shape else 0
    factor, count = finite("normals", normals, (d, d)), as_integer("samples", samples, 1)
    return scatter(cholesky_factor(*_given_covariance(covariance, d)), count, factor)


@np.errstate(all="ignore")
def scatter(root: Root, samples: int, factor: Floats) -> Floats:
    """(L A)(L A)^T/N, symmetric bit for bit; rows are scaled by powers of two, so that only the result can overflow."""
    shift = np.frexp(np.abs(root.lower).max(axis=1))[1].astype(np.int64)
    draw = np.ldexp(root.lower, -shift[:, None]) @ (factor / math.sqrt(samples))
    product = np.ldexp(draw @ draw.T, shift[:, None] + shift[None, :] + 2 * root.exponent)
    return np.asarray(np.tril(product) + np.tril(product, -1).T)
