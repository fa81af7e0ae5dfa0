"""The frozen records that both implementations return, and the coins that both take.

A matrix or vector is an exact ``flint.fmpq_mat`` or a tuple of ``Fraction`` in refimpl, and a ``numpy.ndarray`` of float64
in fastimpl; the fields, their names and their meaning are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refimpl.parameters import CovarianceParameters, GaussianParameters, MeanParameters

__all__ = [
    "CovarianceCoins",
    "GaussianCoins",
    "MeanCoins",
    "PrivateCovarianceResult",
    "PrivateGaussianResult",
    "PrivateMeanResult",
    "StableCovarianceResult",
    "StableMeanResult",
    "StableMomentsResult",
    "TestCoin",
]


@dataclass(frozen=True, eq=False)
class StableCovarianceResult:
    """What StableCovariance computes. Not private: never show it to anybody who may not see the data.

    Attributes
    ----------
    covariance
        d x d weighted second moment (in units of x squared).
    score
        SCORE, an integer in 0..k.
    weights
        One weight a row of the paired data, in [0, 1/m].
    entry_level
        For each paired row the least ell with the row in S_ell, or the last level + 1 if there is none.
    good_subsets
        The sets S_0, S_1, ... themselves, each computed on its own (refimpl); None where only ``entry_level`` is kept.
    """

    covariance: Any
    score: int
    weights: Any
    entry_level: Sequence[int] | NDArray[np.integer[Any]]
    good_subsets: tuple[frozenset[int], ...] | None = None


@dataclass(frozen=True, eq=False)
class StableMeanResult:
    """What StableMean computes. Not private: never show it to anybody who may not see the data.

    Attributes
    ----------
    mean
        The weighted mean, d numbers (in units of x).
    score
        SCORE, an integer in 0..k.
    weights
        One weight a row of x; they sum to one, or are all zero where no row is in any core.
    entry_level
        For each row the least ell with the row in the core of level ell, or the last level + 1.
    cores
        The cores of every level, each computed on its own (refimpl); None where only ``entry_level`` is kept.
    """

    mean: Any
    score: int
    weights: Any
    entry_level: Sequence[int] | NDArray[np.integer[Any]]
    cores: tuple[frozenset[int], ...] | None = None


@dataclass(frozen=True, eq=False)
class StableMomentsResult:
    """What the one stage of SHARP computes. Not private: never show it to anybody who may not see the data.

    Attributes
    ----------
    mean
        The weighted mean, d numbers (in units of x); None where the score is k, or no row has weight (only if n < k).
    covariance
        d x d weighted scatter about that mean (in units of x squared); None where the mean is.
    score
        SCORE, an integer in 0..k.
    weights
        One weight a row of x, in [0, 1/n]; they sum to b <= 1.
    entry_level
        For each row the least ell with the row in S_ell, or the last level + 1 (k + window) if there is none.
    good_subsets
        The sets S_0, S_1, ... themselves, each computed on its own (refimpl); None where only ``entry_level`` is kept.
    """

    mean: Any
    covariance: Any
    score: int
    weights: Any
    entry_level: Sequence[int] | NDArray[np.integer[Any]]
    good_subsets: tuple[frozenset[int], ...] | None = None


@dataclass(frozen=True, eq=False)
class PrivateMeanResult:
    """A release of the mean: ``mean`` is d float64 numbers, or None for FAIL. Private, and holds nothing that is not."""

    mean: NDArray[np.float64] | None
    parameters: MeanParameters


@dataclass(frozen=True, eq=False)
class PrivateCovarianceResult:
    """A release of the covariance: d x d float64, symmetric, or None for FAIL. Private, and holds nothing that is not."""

    covariance: NDArray[np.float64] | None
    parameters: CovarianceParameters


@dataclass(frozen=True, eq=False)
class PrivateGaussianResult:
    """A release of mean and covariance together, both or None for FAIL. Private, and holds nothing that is not."""

    mean: NDArray[np.float64] | None
    covariance: NDArray[np.float64] | None
    parameters: GaussianParameters


@dataclass(frozen=True)
class TestCoin:
    """A uniform number U in [0, 1), as far as it has been read: U passes a test of probability p when U < p.

    Attributes
    ----------
    bits
        The first 256 binary digits of U, as an integer in 0..2^256 - 1.
    seed
        From which further digits are derived (SHAKE-256) in the rare case that 256 do not decide, so that a given
        coin always decides.
    """

    __test__ = False  # the name is the paper's word for the thing; pytest must not collect it

    bits: int
    seed: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.bits < 1 << 256:
            raise ValueError("bits must be an integer in 0..2^256 - 1")


@dataclass(frozen=True, eq=False)
class MeanCoins:
    """The coins of Algorithm 1.

    Attributes
    ----------
    test
        The coin of the propose-test-release test.
    reference
        The reference set R: distinct indices in 0..n-1, as many as the parameters say. None in SHARP, which has none.
    normals
        d independent standard normal numbers; the release is mean + c L z with L the lower Cholesky factor.
    seed
        From which the further digits of the normals are derived, as many as it takes to round the release correctly: then
        ``normals`` are only near them. None where ``normals`` are the numbers themselves, as exact as they stand.
    """

    test: TestCoin
    reference: tuple[int, ...] | None
    normals: NDArray[np.float64]
    seed: bytes | None = None


@dataclass(frozen=True, eq=False)
class CovarianceCoins:
    """The coins of Algorithm 5.1.

    Attributes
    ----------
    test
        The coin of the propose-test-release test.
    normals
        refimpl: N x d independent standard normals, the N draws as printed. fastimpl, and both for SHARP: the d x d lower
        triangular Bartlett factor A of a Wishart law with N degrees of freedom, which makes L A A^T L^T / N equal to them
        in law.
    seed
        As in :class:`MeanCoins`.
    """

    test: TestCoin
    normals: NDArray[np.float64]
    seed: bytes | None = None


@dataclass(frozen=True, eq=False)
class GaussianCoins:
    """The coins of Algorithm 5.2: those of Algorithm 1 and those of Algorithm 5.1, independent.

    SHARP's learner has one test, whose coin is ``mean.test``; it does not look at ``covariance.test``.
    """

    mean: MeanCoins
    covariance: CovarianceCoins
