"""M_PTR: the law of the propose-test-release test, exactly.

The law is written once, over growth = e^(epsilon/s), where s is the score's sensitivity: its value is a rational function of
the growth. A rational growth gives a Fraction. For a rational epsilon the growth is transcendental, and the value is an
element of the exact field of :class:`refimpl.reals.ExpFraction`, in which comparisons are decided without a tolerance.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TypeVar

from refimpl.parameters import (
    REPAIRED,
    CovarianceParameters,
    Edition,
    MeanParameters,
    Real,
    as_integer,
    as_rational,
    checked_edition,
)
from refimpl.reals import ExpFraction
from refimpl.results import TestCoin

__all__ = [
    "coin_passes",
    "pass_probability",
    "printed_formula_at_growth",
    "ptr_pass_probability",
    "ptr_pass_probability_at_growth",
]

Number = TypeVar("Number", Fraction, ExpFraction)
"""Any exact ordered field that holds the rationals."""


def printed_formula_at_growth(score: int, growth: Number, delta: Fraction) -> Number:
    """Eq. (135) as printed and unclipped, over growth = e^(epsilon/2). It is not a probability: it can be negative.

    p(z) = 1 if z = 0;  0 if z >= tau;  1 - e^{(epsilon/2)(z-2)} delta otherwise, with tau = 2 log((1-delta)/delta)/epsilon + 4,
    so that z >= tau exactly when growth^(z-4) >= (1-delta)/delta.

    Parameters
    ----------
    score
        z >= 0.
    growth
        Greater than 1.
    delta
        In (0, 1), exact.

    Returns
    -------
    Fraction or ExpFraction
        As ``growth``.

    Raises
    ------
    ZeroDivisionError
        For delta = 0: nothing is checked here.

    Privacy
    -------
    Public: a function of public numbers only.

    References
    ----------
    Claim 58, Eq. (135).
    """
    if score == 0:
        return growth * 0 + 1
    if growth ** (score - 4) >= (1 - delta) / delta:
        return growth * 0
    return 1 - growth ** (score - 2) * delta


def _printed(score: int, growth: Number, delta: Fraction) -> Number:
    raw = printed_formula_at_growth(score, growth, delta)
    return growth * 0 if raw < 0 else raw  # the smallest change that makes it a probability


def _repaired(score: int, growth: Number, delta: Fraction, sensitivity: int) -> Number:
    """The optimal law: FAIL meets its inequality with equality on the left branch, PASS on the right one."""
    a = delta / (growth**sensitivity - 1)
    turning = 1 + 1 / (2 * a)  # growth^(Z*/2), where both branches are 1/2
    if growth**score <= turning:
        return 1 - a * (growth**score - 1)
    if growth**score <= turning**2:
        return a * (turning**2 / growth**score - 1)
    return growth * 0


def _law(score: int, growth: Number, delta: Fraction, edition: Edition) -> Number:
    if edition.test_law == "printed":
        return _printed(score, growth, delta)
    return _repaired(score, growth, delta, edition.sensitivity)


def _edition_with_a_formula(edition: Edition) -> Edition:
    if checked_edition(edition).test_law == "table":
        raise ValueError(f"edition must have a law over epsilon and delta; {edition}'s is a table in its parameters")
    return edition


def _checked_delta(delta: Real) -> Fraction:
    number = as_rational("delta", delta)
    if not 0 < number < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    return number


def ptr_pass_probability_at_growth(
    score: int, growth: Real | ExpFraction, delta: Real, *, edition: Edition = REPAIRED
) -> Fraction | ExpFraction:
    """Pr[M_PTR(score) = PASS] over growth = e^(epsilon/s): a rational growth gives a Fraction.

    REPAIRED, with a = delta/(g^s - 1) and g^{Z*/2} = 1 + 1/(2a)::

        p(z) = 1 - a (g^z - 1)        for 0 <= z <= Z*/2
             = a (g^{Z*-z} - 1)       for Z*/2 <= z <= Z*,      0 above

    PRINTED is Eq. (135) with its negative values clipped to 0; it is not private.

    Parameters
    ----------
    score
        z, a nonnegative integer.
    growth
        Greater than 1: a rational, or an ExpFraction.
    delta
        In (0, 1).
    edition
        Whose law.

    Returns
    -------
    Fraction or ExpFraction
        Exact, in [0, 1].

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    A function of public numbers only. The test that passes with this probability is (epsilon, delta)-DP for a score of
    sensitivity s in REPAIRED, and not in PRINTED.

    References
    ----------
    Claim 10, Claim 58, Eq. (135); Desfontaines, Voss, Gipson and Mandayam (2022) for the optimal curve.
    """
    z, exact_delta = as_integer("score", score, 0), _checked_delta(delta)
    _edition_with_a_formula(edition)
    if isinstance(growth, ExpFraction):
        if growth <= 1:
            raise ValueError("growth must be greater than 1")
        return _law(z, growth, exact_delta, edition)
    rational = as_rational("growth", growth)
    if rational <= 1:
        raise ValueError(f"growth must be greater than 1, got {growth}")
    return _law(z, rational, exact_delta, edition)


def ptr_pass_probability(score: int, epsilon: Real, delta: Real, *, edition: Edition = REPAIRED) -> ExpFraction:
    """Pr[M_PTR(score) = PASS], exactly: an element of Q(e^r), with ``float()`` and ``.enclosure(precision)``.

    Parameters
    ----------
    score
        z, a nonnegative integer.
    epsilon, delta
        The budget of the test alone, epsilon > 0 and delta in (0, 1).
    edition
        Whose law.

    Returns
    -------
    ExpFraction
        In [0, 1].

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is out of its range.

    Privacy
    -------
    As :func:`ptr_pass_probability_at_growth`.

    References
    ----------
    Claim 10, Claim 58, Eq. (135).
    """
    exact_epsilon = as_rational("epsilon", epsilon)
    if exact_epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}")
    growth = ExpFraction(exact_epsilon / _edition_with_a_formula(edition).sensitivity)
    return _law(as_integer("score", score, 0), growth, _checked_delta(delta), edition)


def pass_probability(score: int, parameters: MeanParameters | CovarianceParameters) -> Fraction | ExpFraction:
    """Pr[the test of these parameters passes], exactly: a formula over their budget, or the entry of their table.

    Parameters
    ----------
    score
        z, a nonnegative integer.
    parameters
        Of :func:`mean_parameters` or :func:`covariance_parameters`. In SHARP a score of k or more never passes.

    Returns
    -------
    Fraction or ExpFraction
        In [0, 1].

    Raises
    ------
    TypeError, ValueError
        If ``score`` is not a nonnegative integer.

    Privacy
    -------
    A function of public numbers and the score.

    References
    ----------
    Claim 10; in SHARP the pointwise least law, whose numbers its plan holds.
    """
    p = parameters
    if p.edition.test_law == "table":
        table = p.pass_probabilities[: p.k]
        z = as_integer("score", score, 0)
        return table[z] if z < len(table) else Fraction(0)
    return ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=p.edition)


def coin_passes(probability: Fraction | ExpFraction, coin: TestCoin) -> bool:
    """Whether the coin's number U is below ``probability``, exactly.

    U lies in [bits/2^256, (bits+1)/2^256). Where the probability lies inside, further digits are read from the coin's seed
    until it does not. Comparisons are exact, so a given coin always decides.
    """
    bits, length = coin.bits, 256
    while True:
        if Fraction(bits + 1, 1 << length) <= probability:
            return True
        if Fraction(bits, 1 << length) >= probability:
            return False
        extra = length  # twice as many digits at each turn; a digest is a prefix of every longer one
        digest = hashlib.shake_256(b"bhs23/test-extension" + coin.seed).digest((length - 256 + extra) // 8)
        length += extra
        bits = (coin.bits << (length - 256)) | int.from_bytes(digest, "big")
