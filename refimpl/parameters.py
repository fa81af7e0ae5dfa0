"""Editions and parameters: every constant of the algorithms, from public numbers only.

Nothing here sees a data value. An :class:`Edition` is one frozen record of rules: thresholds, score rule, windows, weights,
the law of the test and the constants that the lemmas state for it. :data:`PRINTED` is the letter of the paper, whose
propose-test-release test is not private; :data:`REPAIRED` is the smallest change that makes every privacy lemma true;
:data:`SHARP` is this project's own algorithm of one stage.

k, |R| and N are certified integers: they come from enclosures of the real number, never from a rounded logarithm.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, SupportsIndex, TypeVar

import flint
import numpy as np
from flint import arb, fmpq, fmpz
from scipy.special import betainccinv

from refimpl import plan as planning
from refimpl import reals
from refimpl.reals import Enclosure, ExpFraction

__all__ = [
    "DEFAULT_EDITION",
    "EDITIONS",
    "PRINTED",
    "REPAIRED",
    "SHARP",
    "CovarianceParameters",
    "Edition",
    "GaussianParameters",
    "Lambda_ell",
    "MeanParameters",
    "PrintedEditionWarning",
    "Real",
    "as_integer",
    "as_rational",
    "asked_or_made",
    "check_request",
    "checked_edition",
    "checked_reference",
    "checked_window",
    "chosen_lambda_0",
    "covariance_parameters",
    "covariance_step",
    "failure_reason",
    "first_sure_fail",
    "gaussian_lambda_0",
    "gaussian_parameters",
    "lambda_ell",
    "largest_lambda_0",
    "mean_parameters",
    "ordered_stability_gamma",
    "passes_gates",
    "passes_size_gate",
    "passes_stability_gate",
    "plan_verification",
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

    Parameters
    ----------
    lambda_0
        Outlier threshold, in squared Mahalanobis units.
    k, ell
        The score that always fails, and a level in 0..2k.

    Returns
    -------
    Fraction
        In the units of ``lambda_0``.

    Raises
    ------
    ZeroDivisionError
        For ell = 10k, or k = 0: nothing is checked here.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Eq. (49).
    """
    return lambda_0 / (1 - Fraction(ell, 10 * k))


def ordered_stability_gamma(lambda_0: Fraction, n: int) -> Fraction:
    """Gamma = (50/9) lambda_0/n, by which the covariances of adjacent data differ in the Loewner order (Lemma 11)."""
    return Fraction(50, 9) * lambda_0 / n


def Lambda_ell(lambda_0: Fraction, n: int, ell: int) -> Fraction:  # noqa: N802 - the paper's capital Lambda
    """Distance threshold Lambda_ell of the mean stage, Eq. (67): lambda_0 (1 - gamma)^(-ell), for n > (50/9) lambda_0.

    Parameters
    ----------
    lambda_0
        Outlier threshold, in squared Mahalanobis units.
    n, ell
        Number of rows, and a level.

    Returns
    -------
    Fraction
        In the units of ``lambda_0``.

    Raises
    ------
    ZeroDivisionError
        For n = (50/9) lambda_0, or n = 0: nothing is checked here.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Eq. (67), Lemma 11.
    """
    return lambda_0 * (1 - ordered_stability_gamma(lambda_0, n)) ** -ell


@dataclass(frozen=True)
class Edition:
    """One frozen record of constants and rules. ``rows`` is m in the covariance stage and n in the mean stage.

    Attributes
    ----------
    name
        "PRINTED", "REPAIRED" or "SHARP".
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
        Which propose-test-release law: "printed" (Eq. 135, clipped to [0, 1]), "repaired", or "table" (the parameters
        hold the law, one probability a score).
    halves_rows_in_gate
        Whether the size gates speak of floor(n/2) >= 10 k lambda_0 (true) or of n as printed.
    goodness_factor
        (k, lambda_0, m) -> what Lemma 25 claims the weights are good for.
    representative_factor
        Definition 33 counts neighbours within this factor times Lambda_2k.
    mean_move
        The constant C and the power p of Lemma 13; None where there is no mean stage.
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
    mean_move: tuple[int, int] | None

    def mean_move_squared(self, k: int, lambda_0: Fraction, n: int) -> Fraction:
        """What Lemma 13 claims of the squared Mahalanobis move of the mean: C lambda_0/((1-gamma)^{2k+1} (1-k/n)^p n^2)."""
        return self._move_without_gamma(k, lambda_0, n) / (1 - ordered_stability_gamma(lambda_0, n)) ** (2 * k + 1)

    def mean_move_enclosure(self, k: int, lambda_0: Fraction, n: int, precision: int) -> Enclosure:
        """The same, enclosed: the exact power has millions of digits where epsilon is small and k large."""
        gamma = reals.log(1 - ordered_stability_gamma(lambda_0, n), precision) * -(2 * k + 1)
        power = Enclosure(reals.exp(gamma.lower, precision).lower, reals.exp(gamma.upper, precision).upper)
        return power * self._move_without_gamma(k, lambda_0, n)

    def _move_without_gamma(self, k: int, lambda_0: Fraction, n: int) -> Fraction:
        if self.mean_move is None:
            raise ValueError(f"the edition {self.name} has no mean stage")
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
"""The smallest change of the paper that makes every privacy lemma true."""


def _sharp_threshold(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:  # noqa: ARG001 - it does not depend on k
    """1/lambda_ell = 1/lambda_0 - ell/m: the least thresholds that one row less cannot outrun (Claim 29 with the true m)."""
    return rows * lambda_0 / (rows - ell * lambda_0)


def _sharp_window(window: int | None) -> int:
    if window is None:
        raise ValueError("window must be given with the edition SHARP")
    return window


def _sharp_last_level(k: int, window: int | None) -> int:
    return k + _sharp_window(window) - 1


def _sharp_score_levels(k: int, window: int | None) -> range:  # noqa: ARG001 - another edition's rule may use the window
    return range(k)


def _sharp_weight_levels(k: int, window: int | None) -> range:
    return range(k, k + _sharp_window(window))


def _sharp_level_score(missing: int, ell: int) -> int:
    return max(missing, ell)


def _no_mean_stage(lambda_0: Fraction, k: int, rows: int, ell: int) -> Fraction:  # noqa: ARG001 - the signature of a rule
    raise ValueError("edition must have a mean stage, and SHARP has none: its mean is that of stable_moments")


def _no_pairing(k: int, lambda_0: Fraction, m: int) -> Fraction:  # noqa: ARG001 - the signature of a rule
    raise ValueError("edition must state Lemma 25, and SHARP does not: its bound depends on the window as well")


SHARP = Edition(
    name="SHARP",
    sensitivity=1,
    outlier_threshold=_sharp_threshold,
    distance_threshold=_no_mean_stage,
    last_level=_sharp_last_level,
    score_levels=_sharp_score_levels,
    weight_levels=_sharp_weight_levels,
    level_score=_sharp_level_score,
    degree_allowance=_degree_allowance,
    test_law="table",
    halves_rows_in_gate=False,
    goodness_factor=_no_pairing,
    representative_factor=2,
    mean_move=None,
)
"""One stage on the rows (1, x), in place of two: this project's own algorithm. Its window and its law are numbers of a plan."""

EDITIONS = {edition.name: edition for edition in (PRINTED, REPAIRED, SHARP)}

DEFAULT_EDITION = SHARP
"""Of everything that releases: a user who has not heard of editions gets one whose privacy holds."""


class _LeastN:
    """The field ``least_n`` of a record: a number, or the name of the SHARP task whose least n is found when it is read.

    To find it takes longer than to find the plan, and a release does not need it.
    """

    def __get__(self, record: Any, owner: type | None = None) -> int:
        if record is None:
            raise AttributeError("least_n is a field of records")  # so that the field has no default
        kept: int | str = vars(record)["least_n"]
        if isinstance(kept, str):
            least = _least_planned_n(kept, record.d, record.epsilon, record.delta, record.lambda_0)
            # just above the least n two searches can differ by a row: what has a plan is not below it
            kept = vars(record)["least_n"] = min(least or record.n, record.n) if _has_plan(record) else least
        return kept

    def __set__(self, record: Any, value: int | str) -> None:
        vars(record)["least_n"] = value


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
    window, pass_probabilities
        SHARP: the length W of the weight window, and p_0, ..., p_k, the law of its test, from p_0 = 1 to p_k = 0. It gives
        the test and the release the whole (epsilon, delta) and has no reference points; without a plan k is 0, and where no
        number of rows was found to have a plan least_n is 0. Its least_n takes a second or more, when it is first read.
    assumption
        What lambda_0 = "gaussian" took for granted of the rows, in words; None where lambda_0 was a number. Privacy does
        not rest on it, only the chance of a release.
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
    least_n: _LeastN = _LeastN()
    window: int | None = field(default=None, repr=False)  # the records of the paper's editions look as they always did
    pass_probabilities: tuple[Fraction, ...] = field(default=(), repr=False)
    assumption: str | None = field(default=None, repr=False)

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
    window, pass_probabilities, assumption
        As in :class:`MeanParameters`.
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
    least_n: _LeastN = _LeastN()
    window: int | None = field(default=None, repr=False)
    pass_probabilities: tuple[Fraction, ...] = field(default=(), repr=False)
    assumption: str | None = field(default=None, repr=False)


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
        SHARP has one budget and one test: both halves carry (epsilon, delta) and the same k, window and law.
    """

    edition: Edition
    n: int
    d: int
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    mean: MeanParameters
    covariance: CovarianceParameters

    @property
    def assumption(self) -> str | None:
        """As in :class:`MeanParameters`."""
        return self.mean.assumption


Parameters = MeanParameters | CovarianceParameters | GaussianParameters
Made = TypeVar("Made", MeanParameters, CovarianceParameters, GaussianParameters)


def asked_or_made(make: Callable[..., Made], kind: type[Made], n: int, d: int, made: Made | None, **asked: Any) -> Made:
    """The record of a private function: made from the numbers that were asked for, or the one given in their place.

    Raises
    ------
    TypeError
        If it is given both ways or neither, or the record is one of another algorithm.
    """
    numbers = {name: value for name, value in asked.items() if name != "edition"}
    if made is None:
        missing = [name for name, value in numbers.items() if value is None]
        if missing:
            raise TypeError(f"{' and '.join(missing)} must be given, or parameters in place of all of them")
        return make(n, d, **asked)
    if not isinstance(made, kind):
        raise TypeError(f"parameters must be a {kind.__name__}, got {type(made).__name__}")
    given = [name for name, value in numbers.items() if value is not None]
    if asked["edition"] not in {DEFAULT_EDITION, made.edition}:
        given.append("edition")
    if given:
        raise TypeError(f"parameters must be given alone, as they hold {' and '.join(given)}")
    return made


def check_request(epsilon: object, delta: object, lambda_0: object, edition: Edition) -> None:
    """Raise what the parameters of every n and d would raise for these numbers.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    if checked_edition(edition).test_law == "table":
        _checked_privacy(epsilon, delta, edition)
        chosen_lambda_0(lambda_0, 2, 1)
    else:
        _checked_budget(epsilon, delta, lambda_0, edition)


def _checked_budget(
    epsilon: object, delta: object, lambda_0: object, edition: Edition
) -> tuple[Fraction, Fraction, Fraction]:
    eps, dlt = _checked_privacy(epsilon, delta, edition)
    lam = as_rational("lambda_0", lambda_0)
    if lam < 1:
        raise ValueError(f"lambda_0 must be at least 1, got {lambda_0}")
    return eps, dlt, lam


def _checked_privacy(epsilon: object, delta: object, edition: Edition) -> tuple[Fraction, Fraction]:
    checked_edition(edition)
    eps, dlt = as_rational("epsilon", epsilon), as_rational("delta", delta)
    if eps <= 0 or (eps > 1 and edition.test_law != "table"):  # SHARP's proof has no condition on epsilon and delta
        raise ValueError(f"epsilon must be {'positive' if edition.test_law == 'table' else 'in (0, 1]'}, got {epsilon}")
    if not 0 < dlt < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if edition.test_law == "printed" and dlt > eps / 10:
        raise ValueError(f"delta must be at most epsilon/10 in the PRINTED edition, got {delta}")
    return eps, dlt


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
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = DEFAULT_EDITION
) -> MeanParameters:
    """Parameters of Algorithm 1, private mean estimation, for n rows in d dimensions.

    Parameters
    ----------
    n, d
        Number of rows (n >= 0) and columns (d >= 1).
    epsilon, delta, lambda_0
        Privacy parameters and outlier threshold. REPAIRED accepts 0 < epsilon <= 1, 0 < delta < 1, lambda_0 >= 1; PRINTED
        also wants delta <= epsilon/10. SHARP accepts every epsilon > 0, and lambda_0 = "gaussian" or "gaussian:0.001": the
        :func:`gaussian_lambda_0` of a failure probability, 0.01 unless given.
    edition
        PRINTED, REPAIRED or SHARP. SHARP's plan is found and verified when its record is made, which takes seconds; records
        are remembered.

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
    if checked_edition(edition).test_law == "table":
        return _sharp_mean_parameters(n, d, epsilon, delta, lambda_0)
    eps, dlt, lam = _checked_budget(epsilon, delta, lambda_0, edition)
    k = _mean_k(eps, dlt, edition)
    least_n = _least_rows(lam, k, edition, 20)
    if edition.halves_rows_in_gate:
        least_n = max(least_n, _least_stable_n(lam, _mean_largest_step(eps, dlt)))
    # Where the formula has no meaning (n <= k, gamma >= 1), or goes beyond every float64 just above it, nothing is released;
    # the scale shown is that of the least n.
    meaningful = n > k and 9 * n > 50 * lam
    scale = _mean_noise_scale(n if meaningful else least_n, k, eps, dlt, lam, edition)
    if scale > Fraction(sys.float_info.max):
        scale = _mean_noise_scale(least_n, k, eps, dlt, lam, edition)
    size = _reference_size(n, k, dlt, edition)
    return MeanParameters(edition, n, d, eps, dlt, lam, eps / 3, dlt / 6, k, size, scale, least_n)


def covariance_parameters(
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = DEFAULT_EDITION
) -> CovarianceParameters:
    """Parameters of Algorithm 5.1, private covariance estimation. Arguments and errors as in :func:`mean_parameters`.

    Returns
    -------
    CovarianceParameters

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 5.1, Eq. (90)-(92), Claim 46, Theorem 43.
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    if checked_edition(edition).test_law == "table":
        return _sharp_covariance_parameters(n, d, epsilon, delta, lambda_0)
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
    n: int, d: int, *, epsilon: Real, delta: Real, lambda_0: Real, edition: Edition = DEFAULT_EDITION
) -> GaussianParameters:
    """Parameters of Algorithm 5.2, mean and covariance together. Arguments and errors as in :func:`mean_parameters`.

    Returns
    -------
    GaussianParameters
        With (epsilon/2, delta/2) for each half in REPAIRED. In PRINTED each half has (epsilon, delta), and the covariance half
        is planned for the floor(n/2) paired rows, which Algorithm 5.1 pairs once more. In SHARP with one (epsilon, delta).

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 5.2, Theorem 4, Corollary 45.
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    if checked_edition(edition).test_law == "table":
        return _sharp_gaussian_parameters(n, d, epsilon, delta, lambda_0)
    eps, dlt, lam = _checked_budget(epsilon, delta, lambda_0, edition)
    halves, rows = (1, n // 2) if edition.test_law == "printed" else (2, n)
    mean = mean_parameters(n, d, epsilon=eps / halves, delta=dlt / halves, lambda_0=lam, edition=edition)
    covariance = covariance_parameters(rows, d, epsilon=eps / halves, delta=dlt / halves, lambda_0=lam, edition=edition)
    return GaussianParameters(edition, n, d, eps, dlt, lam, mean, covariance)


# SHARP's parameters: the numbers of a plan -----------------------------------------------------------------------------


def gaussian_lambda_0(n: int, d: int, failure_probability: Real = "0.01") -> Fraction:
    """A lambda_0 for n rows of one Gaussian law in d dimensions, with which SHARP's score is 0 except with small probability.

    The score is 0 when no row of the lifted data (1, x_i) has n h_i above lambda_0, with h_i its leverage. For independent
    rows of one normal law, whatever its mean and covariance, h_i - 1/n has exactly the law of (1 - 1/n) times a
    Beta(d/2, (n-d-1)/2) variable. Each row may exceed lambda_0 with probability failure_probability/n (union bound).

    Parameters
    ----------
    n, d
        Number of rows and columns.
    failure_probability
        In (0, 1): an upper bound on the probability of a score above 0.

    Returns
    -------
    Fraction
        Rounded up to a thousandth; n, which no norm exceeds, where n <= d + 1.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only. If the rows are not Gaussian the guarantee of privacy is what it is, and only
    the chance of FAIL is not known.

    References
    ----------
    The law of leverages: Chatterjee and Hadi (1988), section 2.2; Wilks (1963).
    """
    n, d = as_integer("n", n, 0), as_integer("d", d, 1)
    failure = as_rational("failure_probability", failure_probability)
    if not 0 < failure < 1:
        raise ValueError(f"failure_probability must be in (0, 1), got {failure_probability}")
    if n <= d + 1:
        return Fraction(max(n, 1))
    a, b = d / 2, (n - d - 1) / 2
    start = math.ceil(1000 * (1 + (n - 1) * float(betainccinv(a, b, float(failure / n)))))

    def enough(more: int) -> bool:
        return _is_rare(Fraction(start + more - 1000, 1000 * (n - 1)), n, d, failure / n)

    count = 1  # the float may be low, and among very many rows by many thousandths
    while not enough(count - 1):
        count *= 2
    return min(Fraction(start + bisect_left(range(count), True, key=enough), 1000), Fraction(n))


def _is_rare(share: Fraction, n: int, d: int, probability: Fraction) -> bool:
    """Whether a Beta(d/2, (n-d-1)/2) variable B exceeds ``share`` with at most this probability, certified.

    It is the regularized incomplete beta function of 1 - B; an enclosure holds at whatever precision it is computed.
    """
    if share >= 1:
        return True
    with flint.ctx.workprec(200):
        a, b, rest, bound = (
            arb(fmpq(v.numerator, v.denominator))
            for v in (Fraction(d, 2), Fraction(n - d - 1, 2), 1 - share, probability)
        )
        return bool(rest.beta_lower(b, a, regularized=True) <= bound)


def chosen_lambda_0(lambda_0: object, n: int, d: int) -> tuple[Fraction, str | None]:
    """Lambda_0 of SHARP from what a user gave, and what was assumed of the rows to choose it: None where it is a number.

    "gaussian" is :func:`gaussian_lambda_0` with a failure probability of 0.01, "gaussian:0.001" with one of 0.001.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    assumption = None
    if isinstance(lambda_0, str) and lambda_0.startswith("gaussian"):
        failure = lambda_0.removeprefix("gaussian").removeprefix(":") or "0.01"
        lam = gaussian_lambda_0(n, d, as_rational("lambda_0", failure))
        assumption = f"the rows are Gaussian: then the score is 0 except with probability at most {failure}"
    else:
        lam = as_rational("lambda_0", lambda_0)
    if lam < 1:
        raise ValueError(f"lambda_0 must be at least 1, got {lambda_0}")
    return lam, assumption


@dataclass(frozen=True)
class _Planned:
    """What a SHARP record is filled from; without a plan, zeros."""

    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    assumption: str | None
    task: str
    plan: planning.Plan | None

    @property
    def law(self) -> tuple[int, int | None, tuple[Fraction, ...]]:
        """K, W and p_0, ..., p_k."""
        return (self.plan.k, self.plan.window, self.plan.pass_probabilities) if self.plan else (0, None, ())

    @property
    def noise_scale(self) -> Fraction:
        """C."""
        return (self.plan.noise_scale if self.plan else None) or Fraction(0)

    @property
    def samples(self) -> int:
        """N."""
        return (self.plan.samples if self.plan else None) or 0


def _planned(task: str, n: int, d: int, epsilon: object, delta: object, lambda_0: object) -> _Planned:
    eps, dlt = _checked_privacy(epsilon, delta, SHARP)
    lam, assumption = chosen_lambda_0(lambda_0, n, d)
    return _Planned(eps, dlt, lam, assumption, task, _verified_plan(task, n, d, eps, dlt, lam))


@lru_cache(maxsize=1024)
def _least_planned_n(task: str, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction) -> int:
    return planning.least_n(task, min(d, 2), epsilon, delta, lambda_0) or 0  # all d >= 2 have the same bounds


@lru_cache(maxsize=1024)
def _verified_plan(
    task: str, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction
) -> planning.Plan | None:
    """The plan of a task, or None. Its search is not trusted: a plan that does not stand up to its verification is refused."""
    found = _found_plan(task, n, d, epsilon, delta, lambda_0)
    if found is None or not _verification(found, n, d, epsilon, delta, lambda_0).holds:
        return None
    return found


@lru_cache(maxsize=1024)
def _found_plan(
    task: str, n: int, d: int, epsilon: Fraction, delta: Fraction, lambda_0: Fraction
) -> planning.Plan | None:
    search = {"mean": planning.mean_plan, "covariance": planning.covariance_plan, "gaussian": planning.gaussian_plan}
    return search[task](n, d, epsilon, delta, lambda_0)


_verification = lru_cache(maxsize=1024)(planning.verify_plan)


def plan_verification(parameters: Parameters) -> planning.Verification | None:
    """What the verification of a SHARP record's own numbers says; None where it has no plan, and so always FAILs.

    For a record that was made by this module that is what it was made with, and is remembered; for any other it is computed.

    Parameters
    ----------
    parameters
        A record of SHARP, of any of the three tasks.

    Returns
    -------
    Verification or None
        Whether the two conditions of S18 hold in enclosures, and the largest delta that they need over the delta asked for.

    Raises
    ------
    ValueError
        If the record is of another edition.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    SHARP: S18.
    """
    p = parameters
    if p.edition.test_law != "table":
        raise ValueError(f"edition must be SHARP, whose parameters hold a plan, got {p.edition}")
    parts = (p.mean, p.covariance) if isinstance(p, GaussianParameters) else (p,)
    if not all(map(_has_plan, parts)) or parts[0].window is None:
        return None
    if any(
        (q.k, q.window, q.pass_probabilities) != (parts[0].k, parts[0].window, parts[0].pass_probabilities)
        for q in parts
    ):
        raise ValueError("parameters must hold one plan: the two halves of the learner differ in k, window or law")
    scale = next((q.noise_scale for q in parts if isinstance(q, MeanParameters)), None)
    samples = next((q.samples for q in parts if isinstance(q, CovarianceParameters)), None)
    made = planning.Plan(parts[0].k, parts[0].window, parts[0].pass_probabilities, scale, samples)
    return _verification(made, p.n, p.d, p.epsilon, p.delta, p.lambda_0)


def _sharp_mean_parameters(n: int, d: int, epsilon: object, delta: object, lambda_0: object) -> MeanParameters:
    return _mean_record(n, d, _planned("mean", n, d, epsilon, delta, lambda_0))


def _sharp_covariance_parameters(
    n: int, d: int, epsilon: object, delta: object, lambda_0: object
) -> CovarianceParameters:
    return _covariance_record(n, d, _planned("covariance", n, d, epsilon, delta, lambda_0))


def _sharp_gaussian_parameters(n: int, d: int, epsilon: object, delta: object, lambda_0: object) -> GaussianParameters:
    found = _planned("gaussian", n, d, epsilon, delta, lambda_0)
    mean, covariance = _mean_record(n, d, found), _covariance_record(n, d, found)
    return GaussianParameters(SHARP, n, d, found.epsilon, found.delta, found.lambda_0, mean, covariance)


def _mean_record(n: int, d: int, found: _Planned) -> MeanParameters:
    f, (k, window, law) = found, found.law
    numbers = (f.epsilon, f.delta, f.lambda_0, f.epsilon, f.delta, k, 0, f.noise_scale, f.task)
    return MeanParameters(SHARP, n, d, *numbers, window, law, f.assumption)


def _covariance_record(n: int, d: int, found: _Planned) -> CovarianceParameters:
    f, (k, window, law) = found, found.law
    numbers = (f.epsilon, f.delta, f.lambda_0, f.epsilon, f.delta, k, f.samples, f.task)
    return CovarianceParameters(SHARP, n, d, *numbers, window, law, f.assumption)


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

    Parameters
    ----------
    parameters
        A record of :func:`mean_parameters`, :func:`covariance_parameters` or :func:`gaussian_parameters`.

    Returns
    -------
    bool
        False where every data set of this size FAILs.

    Raises
    ------
    AttributeError
        If it is no such record.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 1, line 3; SHARP: S10.
    """
    if isinstance(parameters, GaussianParameters):
        p = parameters
        return _learner_gate(p) and passes_gates(p.mean) and passes_gates(p.covariance)
    if parameters.edition.test_law == "table":
        return _has_plan(parameters)
    return passes_size_gate(parameters) and passes_stability_gate(parameters)


def _has_plan(parameters: MeanParameters | CovarianceParameters) -> bool:
    p = parameters
    noise = p.noise_scale if isinstance(p, MeanParameters) else p.samples
    return p.window is not None and p.k >= 1 and noise > 0


def _hopeless_lambda_0(parameters: MeanParameters | CovarianceParameters) -> bool:
    """Lambda_0 < d(9k+1)/(10k): every threshold that can give a score below k is below d, so every data set FAILs.

    The squared norms of the rows of a good subset S average m d/|S| >= d, so a threshold below d leaves no good subset.
    """
    return parameters.lambda_0 < Fraction(parameters.d * (9 * parameters.k + 1), 10 * parameters.k)


def failure_reason(parameters: Parameters) -> str | None:
    """Why every data set of this size FAILs, in one sentence from public numbers, or None where some do not.

    Never says anything about a particular data set: a FAIL of the test has no reason that could be shown.

    Parameters
    ----------
    parameters
        A record of :func:`mean_parameters`, :func:`covariance_parameters` or :func:`gaussian_parameters`.

    Returns
    -------
    str or None

    Raises
    ------
    AttributeError
        If it is no such record.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Algorithm 1, line 3; Definition 30; SHARP: S10.
    """
    if isinstance(parameters, GaussianParameters):
        if not _learner_gate(parameters):
            return f"n = {parameters.n} is below 272 e^2 lambda_0 log(2/delta)/epsilon"
        return failure_reason(parameters.mean) or failure_reason(parameters.covariance)
    return (_sharp_failure_reason if parameters.edition.test_law == "table" else _paper_failure_reason)(parameters)


def _paper_failure_reason(parameters: MeanParameters | CovarianceParameters) -> str | None:
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


def _sharp_failure_reason(parameters: MeanParameters | CovarianceParameters) -> str | None:
    """No plan, or lambda_{k-1} < d + 1: the norms of a good subset of lifted rows average n (d + 1)/abs(S)."""
    p = parameters
    if not _has_plan(p):
        return _why_no_plan(p)
    last = SHARP.outlier_threshold(p.lambda_0, p.k, p.n, p.k - 1)
    if last < p.d + 1:
        return (
            f"lambda_0 = {_show(p.lambda_0)} makes the last threshold that counts {_show(last)}, below d + 1 = {p.d + 1}: "
            "no data in this many dimensions can pass"
        )
    return None


def _why_no_plan(parameters: MeanParameters | CovarianceParameters) -> str:
    p = parameters
    if p.least_n == 0:
        return (
            f"no number of rows was found that has a plan for epsilon = {_show(p.epsilon)} and delta = {_show(p.delta)}: "
            f"the search ends at {planning.MOST_LEVELS} levels"
        )
    if p.n >= p.least_n:
        return f"no plan for n = {p.n} and lambda_0 = {_show(p.lambda_0)} was found that stands up to its verification"
    return f"n = {p.n} is below the least n = {p.least_n} that has a plan at lambda_0 = {_show(p.lambda_0)}"


def _show(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.6g}"


def largest_lambda_0(
    n: int,
    *,
    epsilon: Real,
    delta: Real,
    edition: Edition = DEFAULT_EDITION,
    task: str = "mean",
    d: SupportsIndex | None = None,
) -> Fraction:
    """A lambda_0, rounded down, that is the largest the gates of a task ("mean" or "covariance") let through for n rows.

    Parameters
    ----------
    n, epsilon, delta, edition
        As in :func:`mean_parameters`.
    task
        "mean" or "covariance".
    d
        The number of columns, if the answer is to be for so many. It is the same for all d >= 2, except that a threshold too
        small for d columns lets no data pass (:func:`failure_reason` says so): where that is so at the largest lambda_0 it is
        so at every smaller one, and the answer is 0. SHARP lets one column have a little more. None: for two or more, and
        without that check.

    Returns
    -------
    Fraction
        Below 1 means that no lambda_0 is accepted. Larger is safer for the data (fewer outliers) and noisier. For SHARP to
        about five digits, and at the largest the noise is of no use yet: it falls steeply with smaller lambda_0.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Eq. (49), Lemma 15; SHARP: S18.
    """
    n, columns = as_integer("n", n, 0), 2 if d is None else as_integer("d", d, 1)
    eps, dlt, _ = _checked_budget(epsilon, delta, 1, edition)
    if task not in {"mean", "covariance"}:
        raise ValueError(f"task must be 'mean' or 'covariance', got {task!r}")
    make: Callable[..., Any] = mean_parameters if task == "mean" else covariance_parameters
    if edition.test_law == "table":
        largest = _largest_planned_lambda_0(n, columns, eps, dlt, task)
    else:
        k = make(n, 1, epsilon=eps, delta=dlt, lambda_0=1, edition=edition).k
        largest = _largest_through_gates(n, k, eps, dlt, edition, task)
    if d is None or largest < 1:
        return largest
    reason = failure_reason(make(n, columns, epsilon=eps, delta=dlt, lambda_0=largest, edition=edition))
    return largest if reason is None else Fraction(0)


def _largest_through_gates(n: int, k: int, epsilon: Fraction, delta: Fraction, edition: Edition, task: str) -> Fraction:
    if not edition.halves_rows_in_gate:
        return Fraction(n, (20 if task == "mean" else 10) * k)
    by_size = Fraction(n // 2, 10 * k)
    largest_step = (_mean_largest_step if task == "mean" else _covariance_largest_step)(epsilon, delta)
    by_step = (n / (Fraction(50, 9) + Fraction(25, 3) / largest_step(128))).lower
    return min(by_size, by_step)


def _largest_planned_lambda_0(n: int, d: int, epsilon: Fraction, delta: Fraction, task: str) -> Fraction:
    """A lambda_0 for which n rows have a plan, and the largest to about five digits; 0 if there is none from 1 on.

    Whether there is a plan depends on n/lambda_0 only: with all the noise that one likes the move of the mean does not matter.
    """
    least = planning.least_ratio(task, d, epsilon, delta)
    largest = Fraction(0) if least is None else Fraction(math.floor(n / least * 10**6), 10**6)
    return largest if largest >= 1 else Fraction(0)


def checked_edition(edition: Edition) -> Edition:
    """The edition, or TypeError: its name alone is not one."""
    if not isinstance(edition, Edition):
        raise TypeError(f"edition must be an Edition, got {type(edition).__name__}")
    return edition


def checked_window(window: int | None, k: int, edition: Edition, lambda_0: Fraction, rows: int) -> int | None:
    """The length of a weight window, such that the last threshold is defined; None is the edition's own, where it has one.

    From 1 to 9k - 1, so that lambda_{k+window} of Eq. (49) is defined; SHARP's last threshold is defined where
    rows > (k + window - 1) lambda_0.
    """
    if window is not None:
        window = as_integer("window", window, 1)
    last = edition.last_level(k, window)
    if edition.test_law == "table":
        if rows <= last * lambda_0:
            raise ValueError(
                f"window must be such that (k + window - 1) lambda_0 is below the number of rows {rows}, "
                f"got k = {k}, window = {window}, lambda_0 = {_show(lambda_0)}"
            )
    elif window is not None and window >= 9 * k:
        raise ValueError(f"window must be below 9k = {9 * k}, got {window}")
    return window


def checked_reference(reference: Sequence[int], n: int) -> tuple[int, ...]:
    """The reference set as sorted distinct indices in 0..n-1; ValueError or TypeError otherwise."""
    indices = tuple(sorted(as_integer("reference", index, 0) for index in reference))
    if indices and indices[-1] >= n:
        raise ValueError(f"reference must hold indices below n = {n}, got {indices[-1]}")
    if len(set(indices)) != len(indices):
        raise ValueError("reference must hold distinct indices")
    return indices
