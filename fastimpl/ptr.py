"""The propose-test-release law, and its coin.

Written on its own, in the form p = 1 - delta (g^z - 1)/(g^s - 1) and its mirror image; g = e^(epsilon/s) is a rational,
exactly, or an enclosure by python-flint's ``arb``. Which branch holds is decided exactly: two sides that are equal for an
algebraic reason are found by the theorem of Lindemann and Weierstrass, and all others differ, so rising precision tells
them apart.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import flint
from flint import arb, fmpq, fmpz

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
from refimpl.results import TestCoin

__all__ = ["coin_passes", "ptr_pass_probability", "ptr_pass_probability_at_growth", "score_passes", "surely_fails"]

_FIRST_PRECISION = 128
_LAST_PRECISION = 1 << 16
_lock = threading.RLock()  # python-flint's precision is global


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - a lock that another thread held when the process forked stays locked in the child
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    with _lock:
        before = flint.ctx.prec
        flint.ctx.prec = bits
        try:
            yield
        finally:
            flint.ctx.prec = before


def _edition_with_a_formula(edition: Edition) -> Edition:
    if checked_edition(edition).test_law == "table":
        raise ValueError(f"edition must have a law over epsilon and delta; {edition}'s is a table in its parameters")
    return edition


def _ball(value: Fraction) -> Any:
    return arb(fmpq(value.numerator, value.denominator))


def _exp(value: Fraction) -> Any:
    return _ball(value).exp()


# The law over a growth ------------------------------------------------------------------------------------------------


def ptr_pass_probability_at_growth(score: int, growth: Real, delta: Real, *, edition: Edition = REPAIRED) -> Fraction:
    """Pr[M_PTR(score) = PASS] over a rational growth = e^(epsilon/s), exactly.

    Parameters
    ----------
    score
        z, a nonnegative integer.
    growth
        Greater than 1.
    delta
        In (0, 1).
    edition
        Whose law: REPAIRED, or PRINTED with its negative values clipped to 0.

    Returns
    -------
    Fraction
        In [0, 1].

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
    Claim 10, Claim 58, Eq. (135).
    """
    z, exact_delta, g = as_integer("score", score, 0), _checked_delta(delta), as_rational("growth", growth)
    if g <= 1:
        raise ValueError(f"growth must be greater than 1, got {growth}")
    if _edition_with_a_formula(edition).test_law == "printed":
        certain_fail = z > 0 and g ** (z - 4) * exact_delta >= 1 - exact_delta
        return Fraction(int(z == 0)) if z == 0 or certain_fail else max(Fraction(0), 1 - exact_delta * g ** (z - 2))
    s = edition.sensitivity
    middle = 1 + (g**s - 1) / (2 * exact_delta)  # g^(Z*/2)
    if g**z >= middle**2:
        return Fraction(0)
    reach = g**z if g**z <= middle else middle**2 / g**z  # the law is symmetric about Z*/2, where it is 1/2
    below = exact_delta * (reach - 1) / (g**s - 1)
    return 1 - below if g**z <= middle else below


def _checked_delta(delta: Real) -> Fraction:
    number = as_rational("delta", delta)
    if not 0 < number < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    return number


# The law over epsilon -------------------------------------------------------------------------------------------------


def _greater(left: Callable[[], Any], right: Callable[[], Any]) -> bool:
    """Left > right for two reals that differ, given as enclosures at the current precision."""
    bits = _FIRST_PRECISION
    while bits <= _LAST_PRECISION:
        with _precision(bits):
            a, b = left(), right()
            if a > b:
                return True
            if a < b:
                return False
        bits *= 2
    raise ArithmeticError("two numbers could not be told apart at the last precision that is tried")


def _branch(z: int, epsilon: Fraction, delta: Fraction, edition: Edition) -> str:
    """The branch of the law at z > 0: "left", "right" or "zero", decided exactly.

    REPAIRED compares e^(epsilon z/s) with 1 + b (e^epsilon - 1) and its square, b = 1/(2 delta). For b = 1 these are
    e^epsilon and e^(2 epsilon); otherwise they have at least two terms e^r of distinct exponents and cannot be equal to one
    such term. PRINTED compares e^(epsilon (z-4)/s) and e^(epsilon (z-2)/s) with a rational: equal at exponent zero only.
    """
    s = edition.sensitivity
    if edition.test_law == "printed":
        if _power_at_least(Fraction(z - 4, s) * epsilon, (1 - delta) / delta):
            return "zero"
        return "zero" if _power_at_least(Fraction(z - 2, s) * epsilon, 1 / delta) else "left"
    if delta == Fraction(1, 2):
        return "left" if z <= s else "right" if z < 2 * s else "zero"
    power = Fraction(z, s) * epsilon

    def middle() -> Any:
        return 1 + (_exp(epsilon) - 1) / _ball(2 * delta)

    if _greater(middle, lambda: _exp(power)):
        return "left"
    return "right" if _greater(lambda: middle() ** 2, lambda: _exp(power)) else "zero"


def _power_at_least(exponent: Fraction, bound: Fraction) -> bool:
    if exponent == 0:
        return bound <= 1
    return _greater(lambda: _exp(exponent), lambda: _ball(bound))


def _law(score: int, epsilon: Fraction, delta: Fraction, edition: Edition) -> Callable[[], Any]:
    """The probability as a function that encloses it at the current precision."""
    if score == 0:
        return lambda: arb(1)
    branch, s = _branch(score, epsilon, delta, edition), edition.sensitivity
    if branch == "zero":
        return lambda: arb(0)
    if edition.test_law == "printed":
        return lambda: 1 - _ball(delta) * _exp(Fraction(score - 2, s) * epsilon)
    if branch == "left" and score == s:
        return lambda: _ball(1 - delta)  # rational, and met by an enclosure only from outside

    def left(exponent: Callable[[], Any]) -> Any:
        return _ball(delta) * (exponent() - 1) / (_exp(epsilon) - 1)

    def reach() -> Any:
        return _exp(Fraction(score, s) * epsilon)

    def mirrored() -> Any:
        return (1 + (_exp(epsilon) - 1) / _ball(2 * delta)) ** 2 / reach()

    return (lambda: 1 - left(reach)) if branch == "left" else (lambda: left(mirrored))


def _checked(score: int, epsilon: Real, delta: Real) -> tuple[int, Fraction, Fraction]:
    exact = as_rational("epsilon", epsilon)
    if exact <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}")
    return as_integer("score", score, 0), exact, _checked_delta(delta)


def ptr_pass_probability(score: int, epsilon: Real, delta: Real, *, edition: Edition = REPAIRED) -> float:
    """Pr[M_PTR(score) = PASS], rounded to the nearest float64.

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
    float
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
    enclose = _law(*_checked(score, epsilon, delta), _edition_with_a_formula(edition))
    bits = _FIRST_PRECISION
    while True:
        with _precision(bits):
            ball = enclose()
            lower, upper = _rational(ball.lower()), _rational(ball.upper())
        if float(lower) == float(upper) or bits >= _LAST_PRECISION:  # at the limit: a tie between two floats
            return float(lower)
        bits *= 2


def _rational(ball: Any) -> Fraction:
    mantissa, exponent = ball.mid().man_exp()
    mantissa, exponent = int(fmpz(mantissa)), int(exponent)
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def coin_passes(score: int, epsilon: Fraction, delta: Fraction, edition: Edition, coin: TestCoin) -> bool:
    """Whether the coin's number U is below the probability of passing, exactly.

    U lies in [bits/2^256, (bits + 1)/2^256). While an enclosure of the probability meets that interval, precision is doubled
    and further digits of U are read from SHAKE-256 of the coin's seed.
    """
    return _coin_is_below(_law(score, epsilon, delta, edition), coin)


def score_passes(score: int, parameters: MeanParameters | CovarianceParameters, coin: TestCoin) -> bool:
    """The test of these parameters: :func:`coin_passes` with their budget or, in SHARP, the entry of their table.

    A dyadic entry of at most 256 digits is met by no interval of the coin from inside, so it always decides at once.
    """
    p = parameters
    if p.edition.test_law != "table":
        return coin_passes(score, p.test_epsilon, p.test_delta, p.edition, coin)
    table = p.pass_probabilities[: p.k]
    return score < len(table) and _coin_is_below(lambda: _ball(table[score]), coin)


def _coin_is_below(enclose: Callable[[], Any], coin: TestCoin) -> bool:
    length, bits = 256, coin.bits
    while True:
        with _precision(length + 64):
            probability = enclose()
            if _ball(Fraction(bits + 1, 1 << length)) <= probability:
                return True
            if _ball(Fraction(bits, 1 << length)) >= probability:
                return False
        extra = length
        digest = hashlib.shake_256(b"bhs23/test-extension" + coin.seed).digest((2 * length - 256) // 8)
        length += extra
        bits = (coin.bits << (length - 256)) | int.from_bytes(digest, "big")


def surely_fails(score: int, epsilon: Fraction, delta: Fraction, edition: Edition) -> bool:
    """Whether a score never passes: public, and what makes an early halt at that score harmless."""
    return score > 0 and _branch(score, epsilon, delta, edition) == "zero"
