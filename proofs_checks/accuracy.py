"""Accuracy and running time as checks: fitted slopes of the error in n and d, and counted operations of section 2.3.

Theorems 8 and 43 bound the error up to constants that the paper does not give, so what can be checked is how it scales. Each
term of Eq. (7) and (86) is measured on drawn data and its slope is fitted on logarithmic axes. A claim asks that the whole
confidence interval of the slope lie near the exponent that the paper states:

- level: were the true slope further away than the case's ``within``, the claim would hold with probability at most
  (1 - :data:`LEVEL`)/2, since one end of the interval would have to miss it;
- power: the probability that the claim holds when the slope is the stated one is :func:`power`, computed from the residuals,
  and a case tells only where that is at least :data:`LEAST_POWER`.

The exponents are those of large n: at f times the least n the noise is larger by a factor of about e^(0.15/f), which moves a
slope by 0.02 to 0.06 in the pinned cases. Hence closeness is claimed, and not that the interval covers the exponent. Data and
coins come from generators that the case seeds, so that a verdict is the same in every run.

Claims 49 and 50, on which the paper's proofs rest, are cited and not checked.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

import refimpl
import refimpl.private
from proofs_checks.lemma import Case, Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.privacy import drawn_coins
from proofs_checks.target import Target
from refimpl.parameters import (
    CovarianceParameters,
    Edition,
    Lambda_ell,
    MeanParameters,
    PrintedEditionWarning,
    covariance_parameters,
    lambda_ell,
    mean_parameters,
)
from refimpl.results import CovarianceCoins, MeanCoins, TestCoin

__all__ = [
    "ACCURACY_MUTANTS",
    "LEAST_POWER",
    "LEVEL",
    "MODEL",
    "CountGrid",
    "Counts",
    "Dimensions",
    "Line",
    "Method",
    "MixedRows",
    "Section23",
    "Sweep",
    "bartlett",
    "fitted_line",
    "power",
    "section_23",
]

Floats = NDArray[np.float64]

LEVEL = 0.999
"""Confidence level of every interval of a slope, two-sided."""

LEAST_POWER = 0.9
"""A case tells where its claims would hold with this probability if the slope were the stated one."""


# Slopes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A least-squares line.

    Attributes
    ----------
    slope, error
        The slope and its standard error.
    freedom
        Degrees of freedom of the residuals.
    """

    slope: float
    error: float
    freedom: int

    @property
    def half_width(self) -> float:
        """Half the width of Student's interval of the slope at :data:`LEVEL`."""
        return float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.error

    def furthest_from(self, exponent: float) -> float:
        """How far the end of the interval that is further from ``exponent`` is from it."""
        return abs(self.slope - exponent) + self.half_width


def fitted_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """The line through log y against log x, of at least three points with at least two different x."""
    u, v = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    u = u - u.mean()
    slope = float(u @ v / (u @ u))
    rest, freedom = v - v.mean() - slope * u, len(u) - 2
    return Line(slope, math.sqrt(float(rest @ rest) / freedom / float(u @ u)), freedom)


def power(line: Line, within: float) -> float:
    """Probability that the interval lies within ``within`` of the true slope, given the standard error that was seen."""
    room = within - line.half_width
    return float(2 * stdtr(line.freedom, room / line.error) - 1) if room > 0 and line.error > 0 else float(room > 0)


def _claims(what: str, line: Line, exponent: Fraction, within: Fraction) -> Iterator[Claim]:
    interval = f"the {100 * LEVEL:g} % interval {line.slope:.3f} +- {line.half_width:.3f} of the slope of {what}"
    yield at_most(f"furthest point of {interval} from {exponent}", line.furthest_from(float(exponent)), within)


# Data -----------------------------------------------------------------------------------------------------------------


def _gaussian(generator: np.random.Generator, n: int, d: int) -> Floats:
    return np.asarray(generator.standard_normal((n, d)))


def _sphere(generator: np.random.Generator, n: int, d: int) -> Floats:
    rows = _gaussian(generator, n, d)
    lengths: Floats = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(rows * (math.sqrt(d) / lengths), dtype=np.float64)


def _signs(generator: np.random.Generator, n: int, d: int) -> Floats:
    return np.asarray(2 * generator.integers(0, 2, (n, d)) - 1, dtype=np.float64)


LAWS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "gaussian": _gaussian,
    "sphere": _sphere,
    "signs": _signs,
}
"""Subgaussian laws of mean 0 and covariance I with parameter O(1); the integers of "signs" keep exact arithmetic quick."""

OFFSET = 7.0
"""Every coordinate of the true mean."""


def _shear(d: int) -> Floats:
    """A with rows x = z A + mean, so that the true covariance is A^T A, which is not diagonal; integers, determinant 1."""
    return np.eye(d) + np.eye(d, k=1)


def _sheared(z: Floats) -> Floats:
    return np.asarray(z @ _shear(z.shape[1]) + OFFSET, dtype=np.float64)


def _norm(vector: Any, d: int) -> float:
    """|v|_Sigma for the true Sigma = A^T A: the norm of v A^-1."""
    return float(np.linalg.norm(np.linalg.solve(_shear(d).T, np.asarray([float(v) for v in vector]))))


def _floats(matrix: Any) -> Floats:
    return np.array([[_float(v) for v in row] for row in matrix.tolist()])


def _float(value: Any) -> float:
    return float(value) if isinstance(value, float | int) else int(value.p) / int(value.q)


def _spectral_error(sigma: Floats, truth: Floats) -> float:
    """|truth^-1/2 sigma truth^-1/2 - I|_2."""
    root = np.linalg.cholesky(truth)
    half = np.linalg.solve(root, sigma)
    return float(np.abs(np.linalg.eigvalsh(np.linalg.solve(root, half.T)) - 1).max())


def _frobenius_error(estimate: Floats, truth: Floats) -> float:
    """|truth^-1/2 estimate truth^-1/2 - I|_F."""
    root = np.linalg.inv(np.linalg.cholesky(truth))
    return float(np.linalg.norm(root @ estimate @ root.T - np.eye(len(truth))))


@dataclass(frozen=True)
class Sweep(Case):
    """Drawn data of several sizes, or in several dimensions, for one slope.

    Attributes
    ----------
    task
        "mean" and "covariance" run Algorithm 1 and 5.1; "stable" runs StableCovariance and StableMean with k = 1.
    law
        Of the rows, before an affine map: a name of :data:`LAWS`.
    over
        "n" (one d) or "d" (one n).
    points
        (f, d, repetitions) each: n is f times the least size for the largest lambda_0 of the sweep.
    factor
        lambda_0 = factor d, from public numbers: K_1 (d + log n/beta) with log n/beta = O(d).
    within
        How near the whole interval must be to the stated exponent.
    seed
        Of data and coins.
    """

    task: str
    law: str
    over: str
    points: tuple[tuple[int, int, int], ...]
    factor: Fraction
    within: Fraction
    seed: int

    def size(self, edition: Edition) -> int:
        """Number of rows of all data sets together: what the case costs a target."""
        return sum(f * repetitions for f, _, repetitions in self.points) * self.least_n(edition)

    def least_n(self, edition: Edition) -> int:
        """The least size for the largest d: that of the gates, or 20 k lambda_0 with k = 1."""
        widest = max(d for _, d, _ in self.points)
        if self.task == "stable":
            return math.ceil(20 * self.factor * widest)
        least: int = self.parameters(0, widest, edition).least_n
        return least

    def parameters(self, n: int, d: int, edition: Edition) -> Any:
        """Those of Algorithm 1 or 5.1 for n rows in d dimensions: a large delta, since a small k keeps n small."""
        make: Callable[..., Any] = mean_parameters if self.task == "mean" else covariance_parameters
        delta = Fraction(9, 10) if edition.test_law == "repaired" else Fraction(1, 10)
        return make(n, d, epsilon=1, delta=delta, lambda_0=self.factor * d, edition=edition)

    def data(self, edition: Edition) -> Iterator[tuple[int, Floats]]:
        """Every data set with its number."""
        least = self.least_n(edition)
        sizes = [(f * least, d) for f, d, repetitions in self.points for _ in range(repetitions)]
        return ((number, self.rows(number, n, d)) for number, (n, d) in enumerate(sizes))

    def rows(self, number: int, n: int, d: int) -> Floats:
        """Data set ``number``: n rows of mean (7, ..., 7) and covariance A^T A."""
        return _sheared(LAWS[self.law](np.random.default_rng([self.seed, number]), n, d))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**super().to_json(), "points": [list(point) for point in self.points]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The sweep of a JSON object as :meth:`to_json` writes it."""
        exact = {name: Fraction(data[name]) for name in ("factor", "within")}
        return cls(**{**data, **exact, "points": tuple((f, d, r) for f, d, r in data["points"])})


def is_a_sweep(case: Sweep) -> None:
    """Two values at least of what is varied, and one of what is not."""
    sizes, dimensions = ({point[i] for point in case.points} for i in (0, 1))
    varied, fixed = (sizes, dimensions) if case.over == "n" else (dimensions, sizes)
    require("one value of n or d and several of the other", len(fixed) == 1 < len(varied))
    require("data at every point", min(repetitions for _, _, repetitions in case.points) >= 1)
    require("0 < within < 1/2: the exponents of the two terms are 1/2 apart", 0 < case.within < Fraction(1, 2))


# Algorithm 1 ----------------------------------------------------------------------------------------------------------

TOLERANCE = Fraction(3, 20)
NOISE_IN_N = Sweep("mean", "gaussian", "n", ((3, 2, 4), (6, 2, 2), (12, 2, 1)), Fraction(20), TOLERANCE, 1)
NOISE_IN_D = Sweep("mean", "sphere", "d", ((4, 2, 2), (4, 4, 2), (4, 8, 2)), Fraction(5, 2), TOLERANCE, 2)
SMALL_NOISE = Sweep("mean", "signs", "n", ((1, 1, 4), (4, 1, 2)), Fraction(9, 4), Fraction(9, 20), 3)


def _typical_coins(target: Target, parameters: MeanParameters, seed: int) -> MeanCoins:
    """Coins as Algorithm 1 draws them, but for the surest test and a z of length sqrt(d) in its drawn direction.

    E z z^T = I holds for such a z too: the mean square of the noise in every norm is that of the drawn z, without the spread
    of its length.
    """
    coins = drawn_coins(target, parameters, seed)
    z = np.asarray(coins.normals, dtype=float)
    surest = TestCoin(0, coins.test.seed)
    return MeanCoins(surest, coins.reference, z * (math.sqrt(len(z)) / float(np.linalg.norm(z))))


def _released_mean(target: Target, x: Floats, parameters: MeanParameters, coins: MeanCoins) -> Floats | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrintedEditionWarning)  # PRINTED's accuracy is not what is wrong with it
        mean = target.private_mean_given(x, parameters, coins).mean
    return None if mean is None else np.asarray(mean, dtype=float)


def _bound_7(parameters: MeanParameters, beta: float) -> float:
    """Eq. (7) with constants: (sqrt d + sqrt(2 log 1/beta))/sqrt n, and sqrt(1134 lambda_0 d log 12/delta)/(epsilon n).

    For normal data |mean - mu|_Sigma is a chi of d degrees over sqrt n; 1134 bounds c^2 in either edition (Eq. (29), E6). The
    factor 11/10 is for the distance between the norms of Sigma and of Sigma_x.
    """
    n, d = parameters.n, parameters.d
    sampling = (math.sqrt(d) + math.sqrt(2 * math.log(1 / beta))) / math.sqrt(n)
    noise = math.sqrt(1134 * parameters.lambda_0 * d * math.log(12 / parameters.delta)) / (
        float(parameters.epsilon) * n
    )
    return sampling + 1.1 * noise


@lemma(
    "Lemma 20, Eq. (7), (30)-(36) (noise)",
    "the noise of Algorithm 1 falls like 1/n and, with lambda_0 ~ d, grows like d",
    cases=lambda: st.just(SMALL_NOISE),
    given=is_a_sweep,
    needs=("private_mean_given",),
    telling="an interval as narrow as this would lie near the stated slope with probability 0.9 or more",
    evidence="statistical",
    refuted_by=("noise_falls_with_the_root_of_n", "noise_ignores_lambda_0"),
    examples=lambda: (NOISE_IN_N, NOISE_IN_D),
    cost=60,
)
def noise_of_the_mean_scales(target: Target, case: Sweep) -> Iterator[Claim | Telling]:
    """|release - mu_x|_Sigma, the second term of Eq. (32), has slope -1 in n, and slope 1 in d with lambda_0 ~ d.

    On well-concentrated data; level 0.05 % against slopes further than ``within`` from these, power at least 90 %. The whole
    error |release - mu|_Sigma is at most Eq. (7) with the constants of :func:`_bound_7`, in each data set with probability at
    least 1 - 10^-6.
    """
    varied, noise = [], []
    for number, x in case.data(target.edition):
        n, d = x.shape
        parameters = case.parameters(n, d, target.edition)
        release = _released_mean(target, x, parameters, _typical_coins(target, parameters, number))
        yield holds(f"n = {parameters.n}, d = {parameters.d}: the surest coin releases", release is not None)
        if release is None:
            return
        varied.append(parameters.n if case.over == "n" else parameters.d)
        noise.append(_norm(release - x.mean(axis=0), parameters.d))
        error = _norm(release - OFFSET, parameters.d)
        yield at_most("|release - mu| in the norm of Sigma", error, _bound_7(parameters, 1e-6))
    line = fitted_line(varied, noise)
    yield tells(power(line, float(case.within)) >= LEAST_POWER)
    exponent = Fraction(-1) if case.over == "n" else Fraction(1)
    yield from _claims(f"the noise in {case.over}", line, exponent, case.within)


SAMPLING_IN_N = Sweep("stable", "gaussian", "n", ((1, 8, 72), (4, 8, 44), (16, 8, 20)), Fraction(10), TOLERANCE, 4)
SAMPLING_IN_D = Sweep(
    "stable", "sphere", "d", ((1, 2, 160), (1, 4, 80), (1, 8, 40), (1, 16, 20)), Fraction(4), TOLERANCE, 5
)
SMALL_SAMPLING = Sweep("stable", "signs", "n", ((1, 1, 128), (16, 1, 36)), Fraction(9, 2), Fraction(9, 20), 6)

REFERENCE = tuple(range(10))
"""Ten rows: more than 4k + 1 for k = 1."""


def _grouped(groups: Mapping[tuple[int, int], Sequence[float]], over: str) -> tuple[list[float], list[float]]:
    """What is varied, and root mean squares of a few errors each, from all errors by (n, d).

    The logarithm of one error is skewed, and the more so the smaller d is. As many errors are put together as give at least
    8 degrees of freedom, d for each error, and the same number for every d: nearly normal on a logarithmic axis, and equally
    wide, as a regression wants.
    """
    freedom = max(8, *(d for _, d in groups))
    varied, means = [], []
    for (n, d), errors in groups.items():
        size = freedom // d
        for start in range(0, len(errors) - size + 1, size):
            varied.append(float(n if over == "n" else d))
            means.append(math.sqrt(sum(v * v for v in errors[start : start + size]) / size))
    return varied, means


@lemma(
    "Lemma 20, Eq. (33), Theorem 43, Eq. (86) (sampling)",
    "the stable mean and covariance have the sampling error of the empirical ones",
    cases=lambda: st.just(SMALL_SAMPLING),
    given=is_a_sweep,
    needs=("stable_covariance", "stable_mean"),
    telling="an interval as narrow as this would lie near the stated slope with probability 0.9 or more",
    evidence="statistical",
    refuted_by=("averages_some_rows", "averages_fewer_rows_in_more_dimensions", "covariance_of_some_rows"),
    examples=lambda: (SAMPLING_IN_N, SAMPLING_IN_D),
    cost=60,
)
def sampling_error_scales(target: Target, case: Sweep) -> Iterator[Claim | Telling]:
    """|mean - mu|_Sigma of the stable mean has slope -1/2 in n and 1/2 in d; the stable covariance's spectral error -1/2 in n.

    With k = 1 and n >= 20 lambda_0, since on well-concentrated data k plays no part (Observation 18). Level 0.05 % against
    slopes further than ``within`` from these, power at least 90 %.
    """
    means: dict[tuple[int, int], list[float]] = defaultdict(list)
    covariances: dict[tuple[int, int], list[float]] = defaultdict(list)
    for _, x in case.data(target.edition):
        (n, d), lambda_0 = x.shape, case.factor * x.shape[1]
        covariance = target.stable_covariance(x, lambda_0, 1)
        mean = target.stable_mean(x, covariance, lambda_0, 1, REFERENCE).mean
        means[n, d].append(_norm([float(v) - OFFSET for v in mean], d))
        covariances[n, d].append(_spectral_error(_floats(covariance.covariance), _shear(d).T @ _shear(d)))
    fits = [("mean", means, Fraction(-1, 2) if case.over == "n" else Fraction(1, 2))]
    if case.over == "n":  # the spectral norm is sqrt(d/n) for large d only: its slope in d is not 1/2 yet
        fits.append(("covariance", covariances, Fraction(-1, 2)))
    lines = [fitted_line(*_grouped(errors, case.over)) for _, errors, _ in fits]
    yield tells(all(power(line, float(case.within)) >= LEAST_POWER for line in lines))
    for (what, _, exponent), line in zip(fits, lines, strict=True):
        yield from _claims(f"the sampling error of the {what} in {case.over}", line, exponent, case.within)


# Algorithm 5.1 --------------------------------------------------------------------------------------------------------

DRAWS_IN_N = Sweep("covariance", "gaussian", "n", ((8, 4, 1), (16, 4, 1), (32, 4, 1)), Fraction(10), TOLERANCE, 7)
SMALL_DRAWS = Sweep("covariance", "signs", "n", ((1, 1, 1), (6, 1, 1)), Fraction(5, 2), Fraction(9, 20), 8)
DRAWS_IN_D = Sweep("covariance", "sphere", "d", ((16, 4, 1), (16, 8, 1), (16, 16, 1)), Fraction(5, 2), TOLERANCE, 9)
DRAWS_PER_POINT = 128


def _covariance_coins(target: Target, parameters: CovarianceParameters, seed: Sequence[int]) -> CovarianceCoins:
    draw = getattr(target.implementation, "draw_covariance_coins", refimpl.private.draw_covariance_coins)
    coins: CovarianceCoins = draw(parameters, np.random.default_rng(list(seed)))
    return CovarianceCoins(TestCoin(0, coins.test.seed), coins.normals)


def _released_covariance(target: Target, x: Floats, parameters: Any, coins: CovarianceCoins) -> Floats | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrintedEditionWarning)  # as above
        covariance = target.private_covariance_given(x, parameters, coins).covariance
    return None if covariance is None else _floats(covariance)


@lemma(
    "Theorem 43, Eq. (86), (90) (noise)",
    "the noise of Algorithm 5.1 falls like 1/n",
    cases=lambda: st.just(SMALL_DRAWS),
    given=is_a_sweep,
    needs=("stable_covariance", "private_covariance_given", "wishart_release"),
    telling="an interval as narrow as this would lie near the stated slope with probability 0.9 or more",
    evidence="statistical",
    refuted_by=("draws_grow_like_n", "as_many_draws_for_every_n"),
    examples=lambda: (DRAWS_IN_N, DRAWS_IN_D),
    cost=60,
)
def noise_of_the_covariance_scales(target: Target, case: Sweep) -> Iterator[Claim | Telling]:
    """The spectral error of the release, relative to the stable covariance, has slope -1 in n; the Frobenius error 2 in d.

    The first is about sqrt(d/N) with N ~ (epsilon n/lambda_0)^2, Eq. (90). In d the Frobenius form of Eq. (86) is taken: with
    lambda_0 proportional to d its d^2/(epsilon n) is exact but for d(d+1) in place of d^2, while the spectral error reaches its
    order only in dimensions that exact arithmetic cannot afford: see
    :func:`noise_of_the_covariance_grows_with_the_dimension`.
    Algorithm 5.1 runs once at each n; the other draws are made as its last step makes them, from the same stable covariance.
    Level 0.05 % against slopes further than ``within`` from the stated one, power at least 90 %.
    """
    errors: dict[tuple[int, int], list[float]] = defaultdict(list)
    error = _spectral_error if case.over == "n" else _frobenius_error
    for number, x in case.data(target.edition):
        n, d = x.shape
        parameters = case.parameters(n, d, target.edition)
        stable = target.stable_covariance(x, parameters.lambda_0, parameters.k).covariance
        truth = _floats(stable)
        for draw in range(DRAWS_PER_POINT):
            coins = _covariance_coins(target, parameters, (case.seed, number, draw))
            drawn = _floats(target.wishart_release(stable, parameters.samples, coins.normals))
            errors[parameters.n, parameters.d].append(error(drawn, truth))
            if draw == 0:
                release = _released_covariance(target, x, parameters, coins)
                yield holds(f"n = {parameters.n}: the surest coin releases", release is not None)
                if release is None:
                    return
                slip = _spectral_error(release, drawn)
                yield at_most("distance of the release from the draw of its last step", slip, 1e-9)
    line = fitted_line(*_grouped(errors, case.over))
    yield tells(power(line, float(case.within)) >= LEAST_POWER)
    slope = Fraction(-1) if case.over == "n" else Fraction(2)
    yield from _claims(f"the noise of the covariance in {case.over}", line, slope, case.within)


# Theorem 43 in many dimensions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dimensions(Case):
    """The law of Algorithm 5.1's noise alone, in several dimensions, with n fixed and lambda_0 = factor d.

    Attributes
    ----------
    dimensions
        Each d. The data play no part: relative to the stable covariance the noise is W/N - I with W of Wishart's law.
    draws
        At each d.
    factor
        lambda_0 = factor d.
    room
        N is at least ``room`` times d for the largest d, so that sqrt(d/N) is small, which is where Eq. (86) says anything.
    within
        How near the whole interval must be to the stated exponent.
    seed
        Of the draws.
    """

    dimensions: tuple[int, ...]
    draws: int
    factor: Fraction
    room: int
    within: Fraction
    seed: int

    def least_n(self, edition: Edition) -> int:
        """The first of n_0, 2 n_0, 4 n_0, ... that gives the room, where n_0 is the least of the gate for the largest d."""
        n: int = self.parameters(0, self.dimensions[-1], edition).least_n
        while self.parameters(n, self.dimensions[-1], edition).samples < self.room * self.dimensions[-1]:
            n *= 2
        return n

    def parameters(self, n: int, d: int, edition: Edition) -> CovarianceParameters:
        """Of Algorithm 5.1 with epsilon = 1/2 and a delta that Theorem 43 allows."""
        return covariance_parameters(
            n, d, epsilon=Fraction(1, 2), delta=Fraction(1, 10**4), lambda_0=self.factor * d, edition=edition
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**super().to_json(), "dimensions": list(self.dimensions)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        exact = {name: Fraction(data[name]) for name in ("factor", "within")}
        return cls(**{**data, **exact, "dimensions": tuple(data["dimensions"])})


def spans_dimensions(case: Dimensions) -> None:
    """Several dimensions, none so small that the edge of the spectrum is not seen yet."""
    require("at least three dimensions, rising, from 32 on", case.dimensions[0] >= 32 and len(case.dimensions) >= 3)
    require("rising dimensions", sorted(set(case.dimensions)) == list(case.dimensions))
    require("several draws, and room", case.draws >= 4 and case.room >= 64)
    require("0 < within < 1/4: 3/2 is told from 1 and 2", 0 < case.within < Fraction(1, 4))


def bartlett(generator: np.random.Generator, d: int, samples: int) -> Floats:
    """W/N with W of Wishart's law of N degrees and scale I, from its triangular factor: d^2/2 numbers, whatever N is."""
    factor = np.tril(generator.standard_normal((d, d)), -1)
    factor[np.diag_indices(d)] = np.sqrt(generator.chisquare(samples - np.arange(d, dtype=float)))
    return np.asarray(factor @ factor.T / samples)


def _edge(d: int, samples: int, beta: float) -> float:
    """What |W/N - I|_2 exceeds with probability at most beta: 2s + s^2, s = (sqrt d + sqrt(2 log 2/beta))/sqrt N.

    By the concentration of the extreme singular values of a Gaussian matrix, which is not asymptotic.
    """
    s = (math.sqrt(d) + math.sqrt(2 * math.log(2 / beta))) / math.sqrt(samples)
    return 2 * s + s * s


TENTH = Fraction(1, 10)
IN_DIMENSIONS = Dimensions((32, 64, 128, 256), 6, Fraction(5, 2), 1024, TENTH, 10)
IN_MORE_DIMENSIONS = Dimensions((64, 128, 256, 512, 1024), 6, Fraction(5, 2), 1024, TENTH, 11)


def _constant_86(parameters: CovarianceParameters) -> float:
    """What sqrt(d/N) is, as a multiple of d^(3/2) sqrt(log 1/delta)/(epsilon n), the second term of Eq. (86)."""
    d, n, epsilon = parameters.d, parameters.n, float(parameters.epsilon)
    term = math.sqrt(d**3 * math.log(1 / parameters.delta)) / (epsilon * n)
    return math.sqrt(d / parameters.samples) / term


@lemma(
    "Theorem 43, Eq. (86) (noise in d)",
    "the noise of Algorithm 5.1 in the spectral norm grows like d^(3/2)",
    cases=lambda: st.integers(0, 10**6).map(lambda seed: replace(IN_DIMENSIONS, seed=seed)),
    given=spans_dimensions,
    needs=(),
    telling="an interval as narrow as this would lie near the stated slope with probability 0.9 or more",
    evidence="statistical",
    refuted_by=("draws_ignore_lambda_0", "draws_fall_like_lambda_0"),
    examples=lambda: (IN_DIMENSIONS,),
    cost=60,
)
def noise_of_the_covariance_grows_with_the_dimension(target: Target, case: Dimensions) -> Iterator[Claim | Telling]:
    """|W/N - I|_2 with n fixed and lambda_0 ~ d has slope 3/2 in d, and lies between sqrt(d/N) and 2s + s^2.

    sqrt(d/N) is one multiple of the second term of Eq. (86) for all d: with lambda_0 = (5/2) d and delta = 10^-4 some 122
    in REPAIRED and 12.7 in PRINTED, so that K_3 is about twice that. The exact order is 2 sqrt(d/N) + d/N, the edge of
    Marchenko and Pastur, less about d^(-2/3) of it: from d = 32 on, and with room, that moves the slope by less than 0.05.
    The lower end is ten times the fluctuation at d = 32 below the edge; the upper fails with probability at most 10^-9 a
    draw. Level 0.05 % against slopes further than ``within`` from 3/2, power at least 90 %.
    """
    samples_of = getattr(target.implementation, "draws", lambda parameters: parameters.samples)
    n, varied, errors, constants = case.least_n(target.edition), [], [], []
    for d in case.dimensions:
        parameters = case.parameters(n, d, target.edition)
        samples, generator = samples_of(parameters), np.random.default_rng([case.seed, d])
        constants.append(_constant_86(replace(parameters, samples=samples)))
        for _ in range(case.draws):
            error = float(np.abs(np.linalg.eigvalsh(bartlett(generator, d, samples) - np.eye(d))).max())
            yield at_most("sqrt(d/N) against the spectral error", math.sqrt(d / samples), error)
            yield at_most("the spectral error against 2s + s^2", error, _edge(d, samples, 1e-9))
            varied.append(d)
            errors.append(error)
    line = fitted_line(varied, errors)
    yield tells(power(line, float(case.within)) >= LEAST_POWER)
    yield from _claims("the spectral noise in d", line, Fraction(3, 2), case.within)
    spread = max(constants) / min(constants) - 1
    yield at_most("relative spread over d of sqrt(d/N) over the term of Eq. (86)", spread, Fraction(1, 100))


# Section 2.3 ----------------------------------------------------------------------------------------------------------


@dataclass
class Counts:
    """What Lemma 21 counts.

    Attributes
    ----------
    grams, inversions, products
        Products A^T A, inversions of a d x d matrix, and products A B with A of n or m rows and B of d x d.
    matrix_work, overhead
        Multiply-adds in those, and all others.
    removals
        Outliers that were removed.
    """

    grams: int = 0
    inversions: int = 0
    products: int = 0
    matrix_work: int = 0
    overhead: int = 0
    removals: int = 0

    def gram(self, a: Floats) -> Floats:
        """A^T A."""
        self.grams += 1
        self.matrix_work += a.shape[0] * a.shape[1] ** 2
        return a.T @ a

    def inverse(self, a: Floats) -> Floats:
        """A^-1."""
        self.inversions += 1
        self.matrix_work += a.shape[0] ** 3
        return np.asarray(np.linalg.inv(a))

    def product(self, a: Floats, b: Floats) -> Floats:
        """A B with a square B."""
        self.products += 1
        self.matrix_work += a.shape[0] * a.shape[1] ** 2
        return a @ b

    def inner(self, a: Floats, b: Floats) -> Floats:
        """All inner products of the rows of A with those of B, or with one vector."""
        self.overhead += a.size * (b.shape[0] if b.ndim == 2 else 1)
        return a @ b.T

    def rowwise(self, a: Floats, b: Floats) -> Floats:
        """The inner product of each row of A with the same row of B."""
        self.overhead += a.size
        return np.asarray((a * b).sum(axis=1))

    def update(self, matrix: Floats, factor: float, u: Floats) -> Floats:
        """Matrix + factor u u^T, whatever the shape: of a matrix with a vector, or of a vector with its entrywise squares."""
        self.overhead += matrix.size + u.size
        return matrix + np.outer(factor * u, u) if matrix.ndim == 2 else matrix + (factor * u) * u


@dataclass(frozen=True)
class Section23:
    """What the method of section 2.3 finds, and what it cost.

    Attributes
    ----------
    score
        The larger of the two scores, or k where the first is already k and the method halted.
    entry_level
        Of the paired rows. Exact down to ``last_level``; rows that enter below have ``last_level`` or less.
    last_level
        The level at which the method halted, 0 if it did not.
    core_level
        Of the rows; None where the first score is k.
    counts
        The operations.
    """

    score: int
    entry_level: NDArray[np.int64]
    last_level: int
    core_level: NDArray[np.int64] | None
    counts: Counts


def _remove(y: Floats, row: int, inverse: Floats, norms: Floats, counts: Counts) -> tuple[Floats, Floats]:
    """Eq. (39)-(41): the inverse and all norms after one row has left the second moment (1/m) sum y y^T."""
    counts.removals += 1
    moved = counts.inner(inverse, y[row])
    factor = 1 / (len(y) - float(norms[row]))
    return counts.update(inverse, factor, moved), counts.update(norms, factor, counts.inner(y, moved))


def _falling(levels: int) -> Iterable[int]:
    return reversed(range(levels))


@dataclass(frozen=True)
class Method:
    """The method of section 2.3, whose fields are what can be done wrongly in it.

    Attributes
    ----------
    remove
        Eq. (39)-(41).
    levels
        Number of levels -> their order. Falling: an outlier of one level is one of all lower levels (Lemma 28).
    most_removals
        k -> after how many removals the score is settled.
    """

    remove: Callable[..., tuple[Floats, Floats]] = field(default=_remove)
    levels: Callable[[int], Iterable[int]] = field(default=_falling)
    most_removals: Callable[[int], int] = field(default=int)

    def __call__(self, x: Floats, lambda_0: Fraction, k: int, reference: Sequence[int]) -> Section23:
        """StableCovariance and StableMean in floats, with the operations counted; comparisons and sorting are not."""
        counts, m = Counts(), len(x) // 2
        y = (x[:m] - x[m : 2 * m]) / math.sqrt(2)
        inverse = counts.inverse(counts.gram(y) / m)
        entry, last_level = self._good_levels(y, inverse, lambda_0, k, counts)
        score = _score(entry, k, last_level)
        if score >= k:
            return Section23(k, entry, last_level, None, counts)
        cores = _core_levels(x, _weighted_inverse(y, inverse, entry, k, counts), lambda_0, k, reference, counts)
        counts.rowwise(x, x)  # as much as the weighted mean, n d
        counts.rowwise(y, y)  # as much as the draw y^T W^(1/2) z, m d
        return Section23(max(score, _score(cores, k, 0)), entry, last_level, cores, counts)

    def _good_levels(
        self, y: Floats, inverse: Floats, lambda_0: Fraction, k: int, counts: Counts
    ) -> tuple[NDArray[np.int64], int]:
        """Entry levels of the paired rows, down to the level at which the score is settled (the three points of the paper)."""
        norms = counts.rowwise(y, counts.product(y, inverse))
        entry: NDArray[np.int64] = np.zeros(len(y), dtype=np.int64)
        for ell in self.levels(2 * k + 1):
            threshold = float(lambda_ell(lambda_0, k, ell))
            while True:
                row = int(np.argmax(np.where(entry, -np.inf, norms)))
                if norms[row] <= threshold:
                    break
                entry[row] = ell + 1
                inverse, norms = self.remove(y, row, inverse, norms, counts)
                if counts.removals >= self.most_removals(k):
                    return entry, ell
        return entry, 0


def _weighted_inverse(y: Floats, inverse: Floats, entry: NDArray[np.int64], k: int, counts: Counts) -> Floats:
    """The inverse of the weighted covariance: a rank-one update for each row whose weight is below 1/m."""
    for row in np.flatnonzero(entry > k + 1):
        missing = (int(entry[row]) - (k + 1)) / (k * len(y))  # 1/m - w_i, from the windows k+1..2k that lack the row
        moved = counts.inner(inverse, y[row])
        norm = float(counts.inner(y[row : row + 1], moved)[0])
        inverse = counts.update(inverse, missing / (1 - missing * norm), moved)
    return inverse


def _core_levels(
    x: Floats, inverse: Floats, lambda_0: Fraction, k: int, reference: Sequence[int], counts: Counts
) -> NDArray[np.int64]:
    """The least ell at which a row is within 2 Lambda_ell of all but ell reference rows, from the matrix D of distances."""
    scaled, chosen = counts.product(x, inverse), list(reference)
    squares = counts.rowwise(x, scaled)
    distances = squares[:, None] - 2 * counts.inner(x, scaled[chosen]) + squares[chosen]
    levels = np.zeros(len(x), dtype=np.int64)
    limits = np.array([float(2 * Lambda_ell(lambda_0, len(x), ell)) for ell in range(2 * k + 1)])
    for row in np.flatnonzero(distances.max(axis=1) > limits[0]):
        largest = np.sort(distances[row])[::-1][: 2 * k + 1]
        fits = np.append(largest <= limits[: len(largest)], True)
        levels[row] = int(np.argmax(fits))
    return levels


def _score(levels: NDArray[np.int64], k: int, last_level: int) -> int:
    return min([k, *(int((levels > ell).sum()) + ell for ell in range(last_level, k + 1))])


section_23 = Method()
"""Without a fault: one Gram, one inversion, two products, and at most k removals by the formula of Sherman and Morrison."""


@dataclass(frozen=True)
class CountGrid(Case):
    """Rows on a sphere with outliers among the pairs, for all n, d, k of a grid.

    Attributes
    ----------
    sizes, dimensions, ks
        The grid; |R| = 6k and lambda_0 = 5d/2.
    seed
        Of the data.
    """

    sizes: tuple[int, ...]
    dimensions: tuple[int, ...]
    ks: tuple[int, ...]
    seed: int

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return ((n, d, k) for n in self.sizes for d in self.dimensions for k in self.ks)

    def data(self, n: int, d: int, outliers: int) -> Floats:
        """N rows, ``outliers`` of them far out in one direction each."""
        generator = np.random.default_rng([self.seed, n, d, outliers])
        z = _sphere(generator, n, d)
        z[:outliers] *= 100 * (1 + generator.random((outliers, 1)))
        return _sheared(z)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The grid of a JSON object."""
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**fields)


GRID = CountGrid((6400, 12800), (4, 8, 16), (4, 8), 1)
SMALL_GRID = CountGrid((3200, 4800), (4, 8), (4, 8), 2)


def _is_a_grid(case: CountGrid) -> None:
    require("two values of d and of k at least", min(len(set(case.dimensions)), len(set(case.ks))) >= 2)
    for n, d, k in case:
        require("n >= 20 k lambda_0", 2 * n >= 20 * k * 5 * d)


def _method(target: Target) -> Method:
    """The method, or that of an implementation that states its own: a mutant of section 2.3."""
    method: Method = getattr(target.implementation, "section_23", section_23)
    return method


@lemma(
    "Lemma 21",
    "section 2.3 costs one Gram, one inversion, two products, and O(ndk) more",
    cases=lambda: st.just(SMALL_GRID),
    given=_is_a_grid,
    needs=(),
    telling="outliers are removed, and k - 1 of them at every point",
    evidence="statistical",
    refuted_by=("starts_again_after_a_removal", "never_halts"),
    examples=lambda: (GRID,),
    cost=60,
)
def operations_are_counted(target: Target, case: CountGrid) -> Iterator[Claim | Telling]:
    """Section 2.3 takes one product A^T A, one inversion, two products A B, at most k removals and 8ndk multiply-adds more.

    All multiply-adds together are a n d^2 + b n d k with a <= 5/2 and b <= 8, by a least-squares fit whose relative residuals
    are at most 5 % over the grid. |R| = 6k here: the log n/delta in |R| is what the tilde of the paper's O hides.
    """
    method, terms, totals, removals = _method(target), [], [], []
    for n, d, k in case:
        for outliers in (k - 1, 3 * k):
            found = method(case.data(n, d, outliers), Fraction(5 * d, 2), k, range(n - 6 * k, n))
            c, where = found.counts, f"n = {n}, d = {d}, k = {k}, {outliers} outliers"
            yield at_most(f"{where}: removals", c.removals, k)
            yield at_most(f"{where}: products A^T A", c.grams, 1)
            yield at_most(f"{where}: inversions", c.inversions, 1)
            yield at_most(f"{where}: products A B", c.products, 2)
            yield at_most(f"{where}: further multiply-adds", c.overhead, 8 * n * d * k)
            if found.core_level is not None:
                terms.append((n * d * d, n * d * k))
                totals.append(c.matrix_work + c.overhead)
                removals.append(c.removals == k - 1)
    yield tells(len(removals) == len(list(case)) and all(removals))
    relative = np.array(terms, dtype=float) / np.array(totals, dtype=float)[:, None]
    (a, b), *_ = np.linalg.lstsq(relative, np.ones(len(totals)), rcond=None)
    yield at_most("a of the fit a n d^2 + b n d k", float(a), Fraction(5, 2))
    yield at_most("b of the fit a n d^2 + b n d k", float(b), 8)
    yield at_most("largest relative residual", float(np.abs(relative @ (a, b) - 1).max()), Fraction(1, 20))


@dataclass(frozen=True)
class MixedRows(Case):
    """Sign rows in two dimensions with some pairs stretched until their norms are around the thresholds.

    Attributes
    ----------
    n, k, stretched
        Number of rows, discretization parameter, and how many pairs are stretched. lambda_0 = 5.
    seed
        Of the data and of R.
    """

    n: int
    k: int
    stretched: int
    seed: int

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows."""
        return self.n

    def data(self) -> tuple[Floats, tuple[int, ...]]:
        """The rows, multiples of 1/8, and R."""
        generator = np.random.default_rng(self.seed)
        x = _signs(generator, self.n, 2)
        pairs = generator.choice(self.n // 2, self.stretched, replace=False)
        x[pairs] *= generator.integers(10, 28, (self.stretched, 1)) / 8.0
        reference = generator.choice(self.n, 6 * self.k + 2, replace=False)
        return _sheared(x), tuple(sorted(int(i) for i in reference))


def mixed_rows() -> SearchStrategy[MixedRows]:
    """Some with scores below k, some without."""
    return st.builds(MixedRows, st.just(300), st.just(3), st.integers(1, 4), st.integers(0, 999))


def _is_mixed(case: MixedRows) -> None:
    require("n >= 20 k lambda_0", case.n >= 100 * case.k)
    require("no more stretched pairs than pairs", 0 <= case.stretched <= case.n // 2)


@lemma(
    "Lemma 21, section 2.3",
    "the method of section 2.3 finds the sets and scores of the algorithms",
    cases=mixed_rows,
    given=_is_mixed,
    needs=(),
    telling="a row is removed",
    least_telling=Fraction(1, 3),
    refuted_by=("removal_shrinks_the_norms", "thresholds_rise"),
    examples=lambda: tuple(MixedRows(300, 3, j, seed) for j, seed in ((1, 0), (1, 9), (2, 5), (3, 5), (4, 4))),
    cost=20,
)
def section_23_finds_the_sets(target: Target, case: MixedRows) -> Iterator[Claim | Telling]:
    """On well-conditioned data section 2.3 finds the larger score, every S_ell that it reaches, and every core."""
    (x, reference), lambda_0, k = case.data(), Fraction(5), case.k
    found = _method(target)(x, lambda_0, k, reference)
    covariance = refimpl.stable_covariance(x, lambda_0, k)
    yield tells(found.counts.removals > 0)
    entry = np.asarray(covariance.entry_level)
    reached = range(found.last_level + (found.counts.removals >= k), 2 * k + 1)
    wrong = sum(int(((found.entry_level <= ell) != (entry <= ell)).sum()) for ell in reached)
    yield equal("rows in one S_ell too many or too few", wrong, 0)
    if covariance.score >= k:
        yield equal("the larger score", found.score, k)
        return
    mean = refimpl.stable_mean(x, covariance, lambda_0, k, reference)
    yield equal("the larger score", found.score, max(covariance.score, mean.score))
    cores = [-1] * case.n if found.core_level is None else found.core_level.tolist()
    yield equal(
        "rows that enter the cores elsewhere", sum(u != v for u, v in zip(cores, mean.entry_level, strict=True)), 0
    )


# Faults ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """What the algorithms do to well-concentrated data (Observation 18), in floats: for the faults of this room only.

    Attributes
    ----------
    noise
        parameters -> factor of the noise of the mean.
    draws
        parameters -> N.
    mean_rows, covariance_rows
        (n, d) -> how many of the rows, or pairs, are averaged.
    """

    noise: Callable[[MeanParameters], float] = field(default=lambda _: 1.0)
    draws: Callable[[CovarianceParameters], int] = field(default=lambda parameters: parameters.samples)
    mean_rows: Callable[[int, int], int] = field(default=lambda n, _: n)
    covariance_rows: Callable[[int, int], int] = field(default=lambda m, _: m)

    def stable_covariance(self, x: Floats, lambda_0: Any, k: int) -> Any:  # noqa: ARG002 - no row is an outlier
        """The paired covariance."""
        m = len(x) // 2
        y = (x[:m] - x[m : 2 * m])[: self.covariance_rows(m, x.shape[1])]
        return SimpleNamespace(covariance=y.T @ y / (2 * len(y)))

    def stable_mean(self, x: Floats, *_: Any) -> Any:
        """The empirical mean."""
        return SimpleNamespace(mean=x[: self.mean_rows(*x.shape)].mean(axis=0))

    def private_mean_given(self, x: Floats, parameters: MeanParameters, coins: MeanCoins) -> Any:
        """Algorithm 1 where the test passes."""
        root = np.linalg.cholesky(self.stable_covariance(x, 0, 0).covariance)
        scale = float(parameters.noise_scale) * self.noise(parameters)
        return SimpleNamespace(mean=self.stable_mean(x).mean + scale * (root @ coins.normals))

    def draw_covariance_coins(
        self, parameters: CovarianceParameters, generator: np.random.Generator
    ) -> CovarianceCoins:
        """N x d standard normals."""
        return CovarianceCoins(TestCoin(0, b""), generator.standard_normal((self.draws(parameters), parameters.d)))

    def wishart_release(self, covariance: Floats, _samples: int, normals: Floats) -> Floats:
        """(1/N) sum Z_i Z_i^T."""
        z = normals @ np.linalg.cholesky(covariance).T
        return z.T @ z / len(z)

    def private_covariance_given(self, x: Floats, parameters: CovarianceParameters, coins: CovarianceCoins) -> Any:
        """Algorithm 5.1 where the test passes."""
        covariance = self.stable_covariance(x, 0, 0).covariance
        return SimpleNamespace(covariance=self.wishart_release(covariance, parameters.samples, coins.normals))


MODEL = Model()
"""Without a fault: passes every check of this room that needs a target."""


def _starts_again(y: Floats, row: int, inverse: Floats, norms: Floats, counts: Counts) -> tuple[Floats, Floats]:
    counts.product(y, counts.inverse(counts.gram(y)))
    return _remove(y, row, inverse, norms, counts)


def _shrinks(y: Floats, row: int, inverse: Floats, norms: Floats, counts: Counts) -> tuple[Floats, Floats]:
    larger_inverse, larger_norms = _remove(y, row, inverse, norms, counts)
    return 2 * inverse - larger_inverse, 2 * norms - larger_norms


ACCURACY_MUTANTS: Mapping[str, Any] = MappingProxyType(
    {
        "noise_falls_with_the_root_of_n": Model(noise=lambda p: math.sqrt(p.n / p.least_n)),
        "noise_ignores_lambda_0": Model(noise=lambda p: 1 / math.sqrt(p.lambda_0)),
        "averages_some_rows": Model(mean_rows=lambda n, _: min(n, 1000)),
        "averages_fewer_rows_in_more_dimensions": Model(mean_rows=lambda n, d: 2 * n // d),
        "covariance_of_some_rows": Model(covariance_rows=lambda m, _: min(m, 500)),
        "draws_grow_like_n": Model(draws=lambda p: p.n // 64),
        "as_many_draws_for_every_n": Model(draws=lambda _: 1000),
        "draws_ignore_lambda_0": Model(draws=lambda _: 1 << 20),
        "draws_fall_like_lambda_0": Model(draws=lambda p: round(p.samples * p.lambda_0 / 80)),
        "starts_again_after_a_removal": SimpleNamespace(section_23=replace(section_23, remove=_starts_again)),
        "never_halts": SimpleNamespace(section_23=replace(section_23, most_removals=lambda _: sys.maxsize)),
        "removal_shrinks_the_norms": SimpleNamespace(section_23=replace(section_23, remove=_shrinks)),
        "thresholds_rise": SimpleNamespace(section_23=replace(section_23, levels=range)),
    }
)
"""By name, one fault each that a check of this room refutes; targets for :func:`proofs_checks.audit.examine`."""
