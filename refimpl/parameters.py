"""Editions and parameters: every constant of the algorithms, from public numbers only.

Nothing here sees a data value. An :class:`Edition` is one frozen record of rules: thresholds, score rule, windows, weights,
the law of the test and the constants that the lemmas state for it. :data:`PRINTED` is the letter of the paper, whose
propose-test-release test is not private; :data:`REPAIRED` is the smallest change that makes every privacy lemma true.

k, |R| and N are certified integers: they come from enclosures of the real number, never from a rounded logarithm.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np
from flint import fmpq, fmpz

from refimpl import reals
from refimpl.reals import Enclosure, ExpFraction

__all__ = [
    "EDITIONS",
    "PRINTED",
    "REPAIRED",
    "CovarianceParameters",
    "Edition",
    "GaussianParameters",
    "Lambda_ell",
    "MeanParameters",
    "PrintedEditionWarning",
    "Real",
    "as_integer",
    "as_rational",
    "checked_edition",
    "checked_reference",
    "checked_window",
    "covariance_parameters",
    "covariance_step",
    "failure_reason",
    "first_sure_fail",
    "gaussian_parameters",
    "lambda_ell",
    "largest_lambda_0",
    "mean_parameters",
    "ordered_stability_gamma",
    "passes_gates",
    "passes_size_gate",
    "passes_stability_gate",
]

Real = int | float | Fraction | str
"""A public number. Strings ("1e-6") and fractions are taken exactly, floats as the binary value that they are."""


class PrintedEditionWarning(UserWarning):
    """The PRINTED edition was asked to release something: its test is not differentially private."""


_LARGEST_EXPONENT = 10_000  # of a decimal string: far beyond every float, and still quick as an exact integer


def _decimal_exponent(text: str) -> int:
    """The size of the exponent of a decimal string, 0 where it has none that could be read."""
    match = re.search(r"[eE][+-]?(\d+)", text.replace("_", ""))
    return int(match[1]) if match and len(match[1]) <= 20 else 0 if match is None else _LARGEST_EXPONENT + 1


def as_rational(name: str, value: object) -> Fraction:
    """The exact rational value of a parameter.

    Raises
    ------
    TypeError
        If ``value`` is not an int, float, Fraction, flint number or string; ``bool`` is not a number here.
    ValueError
        If it is not finite, or a string that is not a number.
    """
    if isinstance(value, fmpq):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, fmpz | np.integer):
        return Fraction(int(value))
    if isinstance(value, np.floating):
        value = float(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | Fraction | str):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    if isinstance(value, str) and _decimal_exponent(value) > _LARGEST_EXPONENT:
        raise ValueError(f"{name} must have a decimal exponent of at most {_LARGEST_EXPONENT}, got {value!r}")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None


def as_integer(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """``value`` as an int, at least ``least`` if given; TypeError or ValueError naming the parameter otherwise."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def lambda_ell(lambda_0: Fraction, k: int, ell: int) -> Fraction:
    """Outlier threshold lambda_ell of the covariance stage, Eq. (49): lambda_0 / (1 - ell/(10k)).

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return lambda_0 / (1 - Fraction(ell, 10 * k))


def ordered_stability_gamma(lambda_0: Fraction, n: int) -> Fraction:
    """Gamma = (50/9) lambda_0/n, by which the covariances of adjacent data differ in the Loewner order (Lemma 11)."""
    return Fraction(50, 9) * lambda_0 / n


def Lambda_ell(lambda_0: Fraction, n: int, ell: int) -> Fraction:  # noqa: N802 - the paper's capital Lambda
    """Distance threshold Lambda_ell of the mean stage, Eq. (67): lambda_0 (1 - gamma)^(-ell), for n > (50/9) lambda_0.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    return lambda_0 * (1 - ordered_stability_gamma(lambda_0, n)) ** -ell


@dataclass(frozen=True)
class Edition:
    """One frozen record of constants and rules. ``rows`` is m in the covariance stage and n in the mean stage.

    Attributes
    ----------
    name
        "PRINTED" or "REPAIRED".
    sensitivity
        The change s of the score between adjacent data that the test is built for.
    outlier_threshold, distance_threshold
        (lambda_0, k, rows, ell) -> the exact threshold of level ell, in the covariance and in the mean stage.
    last_level
        (k, window) -> the last level that is computed.
    score_levels, weight_levels
        (k, window) -> the levels that the score looks at, and those that the weights average (uniformly).
    level_score
        (rows missing from S_ell, ell) -> what the score minimises, before the cap at k.
    degree_allowance
        ell -> how many reference points a row of the core of level ell may be far from.
    test_law
        Which propose-test-release law: "printed" (Eq. 135, clipped to [0, 1]) or "repaired".
    halves_rows_in_gate
        Whether the size gates speak of floor(n/2) >= 10 k lambda_0 (true) or of n as printed.
    goodness_factor
        (k, lambda_0, m) -> what Lemma 25 claims the weights are good for.
    representative_factor
        Definition 33 counts neighbours within this factor times Lambda_2k.
    mean_move
        The constant C and the power p of Lemma 13.
    """

    name: str
    sensitivity: int
    outlier_threshold: Callable[[Fraction, int, int, int], Fraction]
    distance_threshold: Callable[[Fraction, int, int, int], Fraction]
    last_level: Callable[[int, int | None], int]
    score_levels: Callable[[int, int | None], range]
    weight_levels: Callable[[int, int | None], range]
    level_score: Callable[[int, int], int]
    degree_allowance: Callable[[int], int]
    test_law: str
    halves_rows_in_gate: bool
    goodness_factor: Callable[[int, Fraction, int], Fraction]
    representative_factor: int
    mean_move: tuple[int, int]

    def mean_move_squared(self, k: int, lambda_0: Fraction, n: int) -> Fraction:
        """What Lemma 13 claims of the squared Mahalanobis move of the mean: C lambda_0/((1-gamma)^{2k+1} (1-k/n)^p n^2)."""
        return self._move_without_gamma(k, lambda_0, n) / (1 - ordered_stability_gamma(lambda_0, n)) ** (2 * k + 1)

    def mean_move_enclosure(self, k: int, lambda_0: Fraction, n: int, precision: int) -> Enclosure:
        """The same, enclosed: the exact power has millions of digits where epsilon is small and k large."""
        gamma = reals.log(1 - ordered_stability_gamma(lambda_0, n), precision) * -(2 * k + 1)
        power = Enclosure(reals.exp(gamma.lower, precision).lower, reals.exp(gamma.upper, precision).upper)
        return power * self._move_without_gamma(k, lambda_0, n)

    def _move_without_gamma(self, k: int, lambda_0: Fraction, n: int) -> Fraction:
        constant, power = self.mean_move
        return constant * lambda_0 / ((1 - Fraction(k, n)) ** power * n**2)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # pickles and copies as the module's constant


def _outlier_threshold(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:  # noqa: ARG001 - an edition's rule may use m
    return lambda_ell(lambda_0, k, ell)


def _distance_threshold(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:  # noqa: ARG001 - an edition's rule may use k
    return Lambda_ell(lambda_0, rows, ell)


def _last_level(k: int, window: int | None) -> int:
    return 2 * k if window is None else k + window


def _score_levels(k: int, window: int | None) -> range:  # noqa: ARG001 - an edition's rule may use the window
    return range(k + 1)


def _weight_levels(k: int, window: int | None) -> range:
    return range(k + 1, _last_level(k, window) + 1)


def _degree_allowance(ell: int) -> int:
    return ell


def _printed_goodness(k: int, lambda_0: Fraction, m: int) -> Fraction:  # noqa: ARG001 - the printed constant ignores k and m
    return Fraction(25, 18) * lambda_0


def _repaired_goodness(k: int, lambda_0: Fraction, m: int) -> Fraction:
    """lambda_2k / (1 - ((k-1)^2/k) lambda_2k/m), at most (10/7) lambda_0 when m >= 10 k lambda_0 (ERRATA E10)."""
    last = lambda_ell(lambda_0, k, 2 * k)
    return last / (1 - Fraction((k - 1) ** 2, k) * last / m)


PRINTED = Edition(
    name="PRINTED",
    sensitivity=2,
    outlier_threshold=_outlier_threshold,
    distance_threshold=_distance_threshold,
    last_level=_last_level,
    score_levels=_score_levels,
    weight_levels=_weight_levels,
    level_score=operator.add,
    degree_allowance=_degree_allowance,
    test_law="printed",
    halves_rows_in_gate=False,
    goodness_factor=_printed_goodness,
    representative_factor=4,
    mean_move=(25, 4),
)
"""The letter of the paper. Its test is not private, and so neither is its main algorithm: for study, never for data."""

REPAIRED = Edition(
    name="REPAIRED",
    sensitivity=2,
    outlier_threshold=_outlier_threshold,
    distance_threshold=_distance_threshold,
    last_level=_last_level,
    score_levels=_score_levels,
    weight_levels=_weight_levels,
    level_score=operator.add,
    degree_allowance=_degree_allowance,
    test_law="repaired",
    halves_rows_in_gate=True,
    goodness_factor=_repaired_goodness,
    representative_factor=2,
    mean_move=(32, 2),
)
"""The smallest change of the paper that makes every privacy lemma true. The default."""

EDITIONS = {edition.name: edition for edition in (PRINTED, REPAIRED)}


@dataclass(frozen=True)
class MeanParameters:
    """Public, data-free parameters of Algorithm 1.

    Attributes
    ----------
    edition, n, d, epsilon, delta, lambda_0
        What was asked for, exact.
    test_epsilon, test_delta
        The share (epsilon/3, delta/6) that the test and each change of the Gaussian get.
    k
        Discretization parameter: the test fails for certain at every score >= k.
    reference_size
        abs(R), the number of reference points.
    noise_scale
        c, a float64 value that is not below the exact square root of c^2.
    least_n
        The least n that the gates let through at this lambda_0 (the stability gate included for REPAIRED).
    """

    edition: Edition
    n: int
    d: int
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    test_epsilon: Fraction
    test_delta: Fraction
    k: int
    reference_size: int
    noise_scale: Fraction
    least_n: int

    @property
    def noise_scale_squared(self) -> Fraction:
        """c^2, rounded up: the release is N(mean, c^2 covariance)."""
        return self.noise_scale**2


@dataclass(frozen=True)
class CovarianceParameters:
    """Public, data-free parameters of Algorithm 5.1.

    Attributes
    ----------
    edition, n, d, epsilon, delta, lambda_0
        What was asked for, exact.
    test_epsilon, test_delta
        The share (epsilon/2, delta/2) that the test and the N draws get.
    k
        Discretization parameter: the test fails for certain at every score >= k.
    samples
        N, the number of Gaussian draws whose second moment is released; 0 means FAIL.
    least_n
        The least n that the gates let through at this lambda_0.
    """

    edition: Edition
    n: int
    d: int
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    test_epsilon: Fraction
    test_delta: Fraction
    k: int
    samples: int
    least_n: int


@dataclass(frozen=True)
class GaussianParameters:
    """Public, data-free parameters of Algorithm 5.2: one record for each half.

    Attributes
    ----------
    edition, n, d, epsilon, delta, lambda_0
        What was asked for, exact.
    mean, covariance
        The parameters of the two halves. REPAIRED gives each half (epsilon/2, delta/2), so that the whole is
        (epsilon, delta)-DP; PRINTED gives each half (epsilon, delta) and claims (2 epsilon, 2 delta), as Corollary 45 does.
    """

    edition: Edition
    n: int
    d: int
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    mean: MeanParameters
    covariance: CovarianceParameters


Parameters = MeanParameters | CovarianceParameters | GaussianParameters


def _checked_budget(
    epsilon: object, delta: object, lambda_0: object, edition: Edition
) -> tuple[Fraction, Fraction, Fraction]:
    checked_edition(edition)
    eps, dlt, lam = (
        as_rational("epsilon", epsilon),
        as_rational("delta", delta),
        as_rational("lambda_0", lambda_0),
    )
    if not 0 < eps <= 1:
        raise ValueError(f"epsilon must be in (0, 1], got {epsilon}")
    if not 0 < dlt < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if edition.test_law == "printed" and dlt > eps / 10:
        raise ValueError(f"delta must be at most epsilon/10 in the PRINTED edition, got {delta}")
    if lam < 1:
        raise ValueError(f"lambda_0 must be at least 1, got {lambda_0}")
    return eps, dlt, lam


def first_sure_fail(epsilon: Fraction, delta: Fraction, *, sensitivity: int) -> int:
    """ceil(Z*) of the repaired law: the least score at which the test fails for certain.

    Z* = (2s/epsilon) log(1 + (e^epsilon - 1)/(2 delta)), so z >= Z* exactly when e^(epsilon z/s) >= (1 + ...)^2. The two
    can be equal (delta = 1/2 gives Z* = 2s): the comparison is made in the exact field, not on enclosures.
    """
    inverse_2a = (ExpFraction(epsilon) - 1) / (2 * delta)
    target = (1 + inverse_2a) ** 2

    def estimate(precision: int) -> Enclosure:
        value = 1 + inverse_2a.enclosure(precision)
        logarithm = Enclosure(reals.log(value.lower, precision).lower, reals.log(value.upper, precision).upper)
        return logarithm * (2 * sensitivity / epsilon)

    z = max(0, math.floor(estimate(reals.FIRST_PRECISION).lower) - 1)
    growth = ExpFraction(epsilon / sensitivity)
    while growth**z < target:
        z += 1
    return z


def covariance_step(lambda_0: Fraction, n: int) -> Fraction:
    """Bound (25/3)/(1-gamma) lambda_0/n on the trace-norm change of the covariance between adjacent data (Lemma 11)."""
    return Fraction(25, 3) / (1 - ordered_stability_gamma(lambda_0, n)) * lambda_0 / n


def _mean_k(epsilon: Fraction, delta: Fraction, edition: Edition) -> int:
    if edition.test_law == "repaired":
        return first_sure_fail(epsilon / 3, delta / 6, sensitivity=edition.sensitivity)
    return reals.certified_ceil(lambda p: reals.log(6 / delta, p) * (6 / epsilon)) + 4


def _reference_size(n: int, k: int, delta: Fraction, edition: Edition) -> int:
    if n == 0:
        return 0
    numerator = 24 if edition.test_law == "repaired" else 16
    wanted = 6 * k + reals.certified_ceil(lambda p: 18 * reals.log(numerator * n / delta, p))
    return min(n, wanted)  # a set of more than n indices does not exist; the gate fails long before


def _mean_noise_scale(
    n: int, k: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction, edition: Edition
) -> Fraction:
    """C, rounded up to float64: Algorithm 1's constant for PRINTED, Claim 14 on the repaired Lemma 13 otherwise."""
    if edition.test_law == "printed":
        scale = Fraction(810) * lambda_0 / (epsilon * n) ** 2
        return reals.round_up(lambda p: reals.sqrt(reals.log(12 / delta, p) * scale, p))
    eps, dlt = epsilon / 3, delta / 6

    def scale_at(precision: int) -> Enclosure:
        move = edition.mean_move_enclosure(k, lambda_0, n, precision)
        return reals.sqrt(reals.log(2 / dlt, precision) * move * (2 / eps**2), precision)

    return reals.round_up(scale_at)


def _least_rows(lambda_0: Fraction, k: int, edition: Edition, printed_factor: int) -> int:
    if edition.halves_rows_in_gate:
        return 2 * math.ceil(10 * k * lambda_0)
    return math.ceil(printed_factor * k * lambda_0)


def _least_stable_n(lambda_0: Fraction, largest_step: Callable[[int], Enclosure]) -> int:
    """Least n with ``covariance_step(lambda_0, n) <= largest_step``, which is n - (50/9) lambda_0 >= (25/3) lambda_0/step."""
    return reals.certified_ceil(lambda p: Fraction(25, 3) * lambda_0 / largest_step(p) + Fraction(50, 9) * lambda_0)


def _mean_largest_step(epsilon: Fraction, delta: Fraction) -> Callable[[int], Enclosure]:
    """Claim 12's hypothesis: the trace-norm change may be at most (2/3) eps'/log(2/delta')."""
    eps, dlt = epsilon / 3, delta / 6
    return lambda p: Fraction(2, 3) * eps / reals.log(2 / dlt, p)


def _covariance_largest_step(epsilon: Fraction, delta: Fraction) -> Callable[[int], Enclosure]:
    """Claim 46's side condition: the change may be at most eps'/(8 log(1/delta'))."""
    eps, dlt = epsilon / 2, delta / 2
    return lambda p: eps / (8 * reals.log(1 / dlt, p))


def mean_parameters(
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = REPAIRED
) -> MeanParameters:
    """Parameters of Algorithm 1, private mean estimation, for n rows in d dimensions.

    Parameters
    ----------
    n, d
        Number of rows (n >= 0) and columns (d >= 1).
    epsilon, delta, lambda_0
        Privacy parameters and outlier threshold. REPAIRED accepts 0 < epsilon <= 1, 0 < delta < 1, lambda_0 >= 1; PRINTED
        also wants delta <= epsilon/10.
    edition
        PRINTED or REPAIRED.

    Returns
    -------
    MeanParameters

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 1, Claim 12, Claim 14, Lemma 13, Lemma 15.
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    eps, dlt, lam = _checked_budget(epsilon, delta, lambda_0, edition)
    k = _mean_k(eps, dlt, edition)
    least_n = _least_rows(lam, k, edition, 20)
    if edition.halves_rows_in_gate:
        least_n = max(least_n, _least_stable_n(lam, _mean_largest_step(eps, dlt)))
    # Where the formula has no meaning (n <= k, gamma >= 1) nothing is released; the scale shown is that of the least n.
    meaningful = n > k and 9 * n > 50 * lam
    scale = _mean_noise_scale(n if meaningful else least_n, k, eps, dlt, lam, edition)
    size = _reference_size(n, k, dlt, edition)
    return MeanParameters(edition, n, d, eps, dlt, lam, eps / 3, dlt / 6, k, size, scale, least_n)


def covariance_parameters(
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = REPAIRED
) -> CovarianceParameters:
    """Parameters of Algorithm 5.1, private covariance estimation. Arguments and errors as in :func:`mean_parameters`.

    Returns
    -------
    CovarianceParameters

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 5.1, Eq. (90)-(92), Claim 46, Theorem 43.
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    eps, dlt, lam = _checked_budget(epsilon, delta, lambda_0, edition)
    if edition.test_law == "repaired":
        k = first_sure_fail(eps / 2, dlt / 2, sensitivity=edition.sensitivity)
        least_n = max(_least_rows(lam, k, edition, 10), _least_stable_n(lam, _covariance_largest_step(eps, dlt)))
        samples = _repaired_samples(n, eps, dlt, lam)
    else:
        k = reals.certified_ceil(lambda p: reals.log(2 / dlt, p) * (4 / eps)) + 4
        least_n = _least_rows(lam, k, edition, 10)
        samples = reals.certified_floor(lambda p: (n * eps / lam) ** 2 / (24 * reals.log(2 / dlt, p)))
    return CovarianceParameters(edition, n, d, eps, dlt, lam, eps / 2, dlt / 2, k, samples, least_n)


def _repaired_samples(n: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> int:
    """N = floor(eps'^2 / (8 Delta^2 log(1/delta'))), the most that Claim 46 allows for the step Delta of Lemma 11."""
    if 9 * n <= 50 * lambda_0:
        return 0
    step = covariance_step(lambda_0, n)
    return reals.certified_floor(lambda p: (epsilon / 2 / step) ** 2 / (8 * reals.log(2 / delta, p)))


def gaussian_parameters(
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = REPAIRED
) -> GaussianParameters:
    """Parameters of Algorithm 5.2, mean and covariance together. Arguments and errors as in :func:`mean_parameters`.

    Returns
    -------
    GaussianParameters
        With (epsilon/2, delta/2) for each half in REPAIRED. In PRINTED each half has (epsilon, delta), and the covariance half
        is planned for the floor(n/2) paired rows, which Algorithm 5.1 pairs once more.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    eps, dlt, lam = _checked_budget(epsilon, delta, lambda_0, edition)
    halves, rows = (1, n // 2) if edition.test_law == "printed" else (2, n)
    mean = mean_parameters(n, d, epsilon=eps / halves, delta=dlt / halves, lambda_0=lam, edition=edition)
    covariance = covariance_parameters(rows, d, epsilon=eps / halves, delta=dlt / halves, lambda_0=lam, edition=edition)
    return GaussianParameters(edition, n, d, eps, dlt, lam, mean, covariance)


def passes_size_gate(parameters: MeanParameters | CovarianceParameters) -> bool:
    """Whether n is large enough for k and lambda_0: the first line of Algorithms 1 and 5.1 that can FAIL.

    PRINTED: n >= 20 k lambda_0 (mean), n >= 10 k lambda_0 (covariance). REPAIRED: floor(n/2) >= 10 k lambda_0 for both. Fewer
    than two rows always FAIL.
    """
    p = parameters
    if p.n < 2:
        return False
    if p.edition.halves_rows_in_gate:
        return p.n // 2 >= 10 * p.k * p.lambda_0
    return p.n >= (20 if isinstance(p, MeanParameters) else 10) * p.k * p.lambda_0


def passes_stability_gate(parameters: MeanParameters | CovarianceParameters) -> bool:
    """REPAIRED's second gate: the covariance step of Lemma 11 meets the hypothesis of Claim 12 (mean) or 46 (covariance).

    PRINTED has no such gate and always passes.
    """
    p = parameters
    if not p.edition.halves_rows_in_gate:
        return True
    if 9 * p.n <= 50 * p.lambda_0:  # gamma >= 1: Lemma 11 says nothing
        return False
    largest = _mean_largest_step if isinstance(p, MeanParameters) else _covariance_largest_step
    step = Enclosure.point(covariance_step(p.lambda_0, p.n))
    if isinstance(p, CovarianceParameters) and p.samples < 1:
        return False
    return reals.decide(lambda _: step, largest(p.epsilon, p.delta))


def _learner_gate(parameters: GaussianParameters) -> bool:
    """PRINTED's own requirement in Algorithm 5.2: n >= 272 e^2 lambda_0 log(2/delta)/epsilon."""
    p = parameters
    if p.edition.test_law != "printed":
        return True
    scale = 272 * p.lambda_0 / p.epsilon
    least = Enclosure.point(p.n)
    return reals.decide(lambda q: reals.exp(Fraction(2), q) * reals.log(2 / p.delta, q) * scale, lambda _: least)


def passes_gates(parameters: Parameters) -> bool:
    """Whether the algorithm goes on to look at the data at all.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    if isinstance(parameters, GaussianParameters):
        p = parameters
        return _learner_gate(p) and passes_gates(p.mean) and passes_gates(p.covariance)
    return passes_size_gate(parameters) and passes_stability_gate(parameters)


def _hopeless_lambda_0(parameters: MeanParameters | CovarianceParameters) -> bool:
    """Lambda_0 < d(9k+1)/(10k): every threshold that can give a score below k is below d, so every data set FAILs.

    The squared norms of the rows of a good subset S average m d/|S| >= d, so a threshold below d leaves no good subset.
    """
    return parameters.lambda_0 < Fraction(parameters.d * (9 * parameters.k + 1), 10 * parameters.k)


def failure_reason(parameters: Parameters) -> str | None:
    """Why every data set of this size FAILs, in one sentence from public numbers, or None where some do not.

    Never says anything about a particular data set: a FAIL of the test has no reason that could be shown.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    if isinstance(parameters, GaussianParameters):
        if not _learner_gate(parameters):
            return f"n = {parameters.n} is below 272 e^2 lambda_0 log(2/delta)/epsilon"
        return failure_reason(parameters.mean) or failure_reason(parameters.covariance)
    p = parameters
    if not passes_size_gate(p):
        return f"n = {p.n} is below the least n = {p.least_n} at lambda_0 = {_show(p.lambda_0)} (k = {p.k})"
    if not passes_stability_gate(p):
        return f"n = {p.n} is below the least n = {p.least_n} at which the covariance is stable enough"
    if _hopeless_lambda_0(p):
        least = Fraction(p.d * (9 * p.k + 1), 10 * p.k)
        return (
            f"lambda_0 = {_show(p.lambda_0)} is below d(9k+1)/(10k) = {_show(least)}: "
            "no data in this many dimensions can pass"
        )
    return None


def _show(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.6g}"


def largest_lambda_0(
    n: int, *, epsilon: Real, delta: Real, edition: Edition = REPAIRED, task: str = "mean"
) -> Fraction:
    """A lambda_0, rounded down, that is the largest the gates of a task ("mean" or "covariance") let through for n rows.

    Below 1 means that no lambda_0 is accepted. Larger is safer for the data (fewer outliers) and noisier.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    n = as_integer("n", n, 0)
    eps, dlt, _ = _checked_budget(epsilon, delta, 1, edition)
    if task not in {"mean", "covariance"}:
        raise ValueError(f"task must be 'mean' or 'covariance', got {task!r}")
    make: Callable[..., Any] = mean_parameters if task == "mean" else covariance_parameters
    k = make(n, 1, epsilon=eps, delta=dlt, lambda_0=1, edition=edition).k
    if not edition.halves_rows_in_gate:
        return Fraction(n, (20 if task == "mean" else 10) * k)
    by_size = Fraction(n // 2, 10 * k)
    largest_step = (_mean_largest_step if task == "mean" else _covariance_largest_step)(eps, dlt)
    by_step = (n / (Fraction(50, 9) + Fraction(25, 3) / largest_step(128))).lower
    return min(by_size, by_step)


def checked_edition(edition: Edition) -> Edition:
    """The edition, or TypeError: its name alone is not one."""
    if not isinstance(edition, Edition):
        raise TypeError(f"edition must be an Edition, got {type(edition).__name__}")
    return edition


def checked_window(window: int | None, k: int) -> int | None:
    """The length of a weight window, from 1 to 9k - 1 so that lambda_{k+window} is defined, or None for the edition's own."""
    if window is None:
        return None
    length = as_integer("window", window, 1)
    if length >= 9 * k:
        raise ValueError(f"window must be below 9k = {9 * k}, got {length}")
    return length


def checked_reference(reference: Sequence[int], n: int) -> tuple[int, ...]:
    """The reference set as sorted distinct indices in 0..n-1; ValueError or TypeError otherwise."""
    indices = tuple(sorted(as_integer("reference", index, 0) for index in reference))
    if indices and indices[-1] >= n:
        raise ValueError(f"reference must hold indices below n = {n}, got {indices[-1]}")
    if len(set(indices)) != len(indices):
        raise ValueError("reference must hold distinct indices")
    return indices
