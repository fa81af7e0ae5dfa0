"""Real numbers that are decided, never estimated: enclosures and the exact field Q(e^r).

This is the only home of mpmath. An :class:`Enclosure` is a closed interval with rational end points that holds
a real number for certain; logarithms and exponentials come from mpmath's interval arithmetic, widened, square roots from
the integer square root, and the four operations are exact on the end points.

Where two sides of an inequality can be *equal*, enclosures alone never decide. The propose-test-release law is such
a case: it meets its inequalities with equality at every full step. It is a rational function of e^(epsilon/s), so
:class:`ExpFraction` keeps it as a quotient of sums of rational multiples of e^r with rational r. By the theorem of
Lindemann and Weierstrass the numbers e^r with distinct rational r are linearly independent over the rationals, so such
a sum is zero exactly when it has no terms left, and otherwise precision is raised until its sign shows.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering

from mpmath import libmp
from mpmath.ctx_iv import MPIntervalContext

__all__ = [
    "Enclosure",
    "ExpFraction",
    "UndecidedError",
    "certified_ceil",
    "certified_floor",
    "decide",
    "exp",
    "log",
    "round_up",
    "sqrt",
]

FIRST_PRECISION = 64
LAST_PRECISION = 1 << 15

_thread = threading.local()


class UndecidedError(ArithmeticError):
    """Two numbers could not be told apart at the last precision that is tried."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A closed interval [lower, upper] of rationals that holds a real number."""

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"an enclosure needs lower <= upper, got {self.lower} > {self.upper}")

    @classmethod
    def point(cls, value: int | Fraction) -> Enclosure:
        """The enclosure that holds one rational only."""
        return cls(Fraction(value), Fraction(value))

    def __add__(self, other: Enclosure | Fraction | int) -> Enclosure:
        other = _as_enclosure(other)
        return Enclosure(self.lower + other.lower, self.upper + other.upper)

    def __neg__(self) -> Enclosure:
        return Enclosure(-self.upper, -self.lower)

    def __sub__(self, other: Enclosure | Fraction | int) -> Enclosure:
        return self + (-_as_enclosure(other))

    def __rsub__(self, other: Fraction | int) -> Enclosure:
        return (-self) + other

    def __mul__(self, other: Enclosure | Fraction | int) -> Enclosure:
        other = _as_enclosure(other)
        corners = [a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        return Enclosure(min(corners), max(corners))

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Enclosure | Fraction | int) -> Enclosure:
        other = _as_enclosure(other)
        if other.lower <= 0 <= other.upper:
            raise ZeroDivisionError("the divisor's enclosure holds zero")
        return self * Enclosure(1 / other.upper, 1 / other.lower)

    def __rtruediv__(self, other: Fraction | int) -> Enclosure:
        return Enclosure.point(other) / self

    def __float__(self) -> float:
        return float((self.lower + self.upper) / 2)


def _as_enclosure(value: Enclosure | Fraction | int) -> Enclosure:
    return value if isinstance(value, Enclosure) else Enclosure.point(value)


def _interval(precision: int) -> MPIntervalContext:
    """The interval context of mpmath for this thread at ``precision`` bits; mpmath's global precision is not touched."""
    contexts = _thread.__dict__.setdefault("contexts", {})
    if precision not in contexts:
        contexts[precision] = MPIntervalContext()
        contexts[precision].prec = precision
    return contexts[precision]


_GUARD_BITS = 16


def _from_mpmath(function: str, value: Fraction, precision: int) -> Enclosure:
    """Mpmath's interval, at 16 more bits and widened by 2^-(precision + 8) of itself on both sides.

    mpmath rounds some results to nearest where it promises to round outward: its interval for e^x with x = 2^-40 at 64 bits
    is the single number 1 + x. Such a slip is below one unit in the last of its places; ours is 256 of them.
    """
    context = _interval(precision + _GUARD_BITS)
    quotient = context.mpf(value.numerator) / context.mpf(value.denominator)
    ends = getattr(context, function)(quotient)._mpi_
    lower, upper = (Fraction(*libmp.to_rational(end)) for end in ends)
    slack = max(abs(lower), abs(upper)) / (1 << (precision + _GUARD_BITS // 2))
    return Enclosure(lower - slack, upper + slack)


@lru_cache(maxsize=1 << 14)
def exp(value: Fraction, precision: int) -> Enclosure:
    """Enclosure of e^value at about ``precision`` bits; exact at 0."""
    return Enclosure.point(1) if value == 0 else _from_mpmath("exp", value, precision)


@lru_cache(maxsize=1 << 12)
def log(value: Fraction, precision: int) -> Enclosure:
    """Enclosure of the natural logarithm of a positive rational at about ``precision`` bits; exact at 1."""
    if value <= 0:
        raise ValueError("log needs a positive number")
    return Enclosure.point(0) if value == 1 else _from_mpmath("log", value, precision)


def sqrt(value: Fraction | Enclosure, precision: int) -> Enclosure:
    """Enclosure of a square root at ``precision`` significant bits, by the integer square root; exact on squares."""
    if isinstance(value, Enclosure):
        return Enclosure(sqrt(value.lower, precision).lower, sqrt(value.upper, precision).upper)
    if value < 0:
        raise ValueError("sqrt needs a number that is not negative")
    size = value.numerator.bit_length() - value.denominator.bit_length()
    shift = max(0, 2 * precision - size) // 2 + 1
    scaled = value * (1 << (2 * shift))
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled
    return Enclosure(Fraction(root, 1 << shift), Fraction(root if exact else root + 1, 1 << shift))


def _decided(question: Callable[[int], int | None], what: str) -> int:
    """The answer to ``question(precision)`` at the first precision that gives one."""
    precision = FIRST_PRECISION
    while precision <= LAST_PRECISION:
        answer = question(precision)
        if answer is not None:
            return answer
        precision *= 2
    raise UndecidedError(f"{what} is undecided at {LAST_PRECISION} bits")


def decide(left: Callable[[int], Enclosure], right: Callable[[int], Enclosure]) -> bool:
    """Whether left <= right, for two reals given as functions from precision to enclosure.

    Raises
    ------
    UndecidedError
        If the two cannot be told apart. Equality is decided algebraically by the caller, never by a tolerance.
    """

    def question(precision: int) -> int | None:
        a, b = left(precision), right(precision)
        if a.upper <= b.lower:
            return 1
        return 0 if a.lower > b.upper else None

    return bool(_decided(question, "left <= right"))


def certified_floor(number: Callable[[int], Enclosure]) -> int:
    """Floor of a real that is given as a function from precision to enclosure."""

    def question(precision: int) -> int | None:
        value = number(precision)
        below = math.floor(value.lower)
        return below if below == math.floor(value.upper) else None

    return _decided(question, "a floor")


def certified_ceil(number: Callable[[int], Enclosure]) -> int:
    """Ceiling of a real that is given as a function from precision to enclosure."""
    return -certified_floor(lambda precision: -number(precision))


def round_up(number: Callable[[int], Enclosure], bits: int = 53) -> Fraction:
    """A dyadic rational with ``bits`` significant bits, not below a positive real and within 2^(2-bits) of it."""
    upper = number(4 * bits).upper
    exponent = upper.numerator.bit_length() - upper.denominator.bit_length() - bits
    unit = Fraction(2) ** exponent
    if upper > unit * (1 << bits):  # the estimate of the size is one bit short
        unit *= 2
    return math.ceil(upper / unit) * unit


_Sum = Mapping[Fraction, Fraction]  # exponent r -> coefficient of e^r, no zero coefficients


def _add(a: _Sum, b: _Sum) -> _Sum:
    total = dict(a)
    for exponent, coefficient in b.items():
        total[exponent] = total.get(exponent, Fraction(0)) + coefficient
    return {exponent: coefficient for exponent, coefficient in total.items() if coefficient}


def _multiply(a: _Sum, b: _Sum) -> _Sum:
    total: dict[Fraction, Fraction] = {}
    for r, p in a.items():
        for s, q in b.items():
            total[r + s] = total.get(r + s, Fraction(0)) + p * q
    return {exponent: coefficient for exponent, coefficient in total.items() if coefficient}


def _enclose(terms: _Sum, precision: int) -> Enclosure:
    total = Enclosure.point(0)
    for exponent, coefficient in terms.items():
        total = total + exp(exponent, precision) * coefficient
    return total


def _sign(terms: _Sum) -> int:
    if not terms:
        return 0  # the only way for such a sum to vanish (Lindemann and Weierstrass)

    def question(precision: int) -> int | None:
        value = _enclose(terms, precision)
        return 1 if value.lower > 0 else -1 if value.upper < 0 else None

    return _decided(question, "the sign of a sum of exponentials")


@total_ordering
class ExpFraction:
    """An exact element of the ordered field generated by all e^r with rational r.

    Mixes with ``int`` and ``Fraction``. Comparisons are exact: no tolerance, no precision to choose.

    Parameters
    ----------
    exponent
        The element is e^exponent, a growth for the propose-test-release law.
    """

    __slots__ = ("_denominator", "_numerator")
    _denominator: _Sum
    _numerator: _Sum

    def __init__(self, exponent: Fraction | int) -> None:
        self._numerator = {Fraction(exponent): Fraction(1)}
        self._denominator = {Fraction(0): Fraction(1)}

    @classmethod
    def _of(cls, numerator: _Sum, denominator: _Sum) -> ExpFraction:
        element = cls(0)
        if len(denominator) == 1:  # a monomial divides every term: keep denominators few, so that sums stay short
            ((r, q),) = denominator.items()
            numerator, denominator = {s - r: p / q for s, p in numerator.items()}, {Fraction(0): Fraction(1)}
        element._numerator, element._denominator = numerator, denominator
        return element

    @classmethod
    def rational(cls, value: Fraction | int) -> ExpFraction:
        """The rational ``value`` as an element of the field."""
        return cls._of({Fraction(0): Fraction(value)} if value else {}, {Fraction(0): Fraction(1)})

    @classmethod
    def _lift(cls, value: ExpFraction | Fraction | int) -> ExpFraction:
        return value if isinstance(value, ExpFraction) else cls.rational(value)

    def __add__(self, other: ExpFraction | Fraction | int) -> ExpFraction:
        other = self._lift(other)
        if self._denominator == other._denominator:
            return self._of(_add(self._numerator, other._numerator), self._denominator)
        crossed = _add(_multiply(self._numerator, other._denominator), _multiply(other._numerator, self._denominator))
        return self._of(crossed, _multiply(self._denominator, other._denominator))

    def __neg__(self) -> ExpFraction:
        return self._of({r: -q for r, q in self._numerator.items()}, self._denominator)

    def __sub__(self, other: ExpFraction | Fraction | int) -> ExpFraction:
        return self + (-self._lift(other))

    def __rsub__(self, other: Fraction | int) -> ExpFraction:
        return (-self) + other

    def __mul__(self, other: ExpFraction | Fraction | int) -> ExpFraction:
        other = self._lift(other)
        return self._of(_multiply(self._numerator, other._numerator), _multiply(self._denominator, other._denominator))

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: ExpFraction | Fraction | int) -> ExpFraction:
        other = self._lift(other)
        if not other._numerator:
            raise ZeroDivisionError("division by zero")
        return self * self._of(other._denominator, other._numerator)

    def __rtruediv__(self, other: Fraction | int) -> ExpFraction:
        return self._lift(other) / self

    def __pow__(self, power: int) -> ExpFraction:
        if power < 0:
            return 1 / self**-power
        if len(self._numerator) == len(self._denominator) == 1:  # a monomial: keep large powers cheap
            ((r, p),), ((s, q),) = self._numerator.items(), self._denominator.items()
            return self._of({r * power: p**power}, {s * power: q**power})
        result = self.rational(1)
        for _ in range(power):
            result = result * self
        return result

    def sign(self) -> int:
        """-1, 0 or 1, exactly."""
        return _sign(self._numerator) * _sign(self._denominator)

    def enclosure(self, precision: int) -> Enclosure:
        """Enclosure of the number, computed at ``precision`` bits or the first higher one that decides the divisor."""
        while True:
            denominator = _enclose(self._denominator, precision)
            if denominator.lower > 0 or denominator.upper < 0:
                return _enclose(self._numerator, precision) / denominator
            precision *= 2

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExpFraction | Fraction | int):
            return NotImplemented
        return not (self - other)._numerator

    def __lt__(self, other: ExpFraction | Fraction | int) -> bool:
        return (self - other).sign() < 0

    # Equal elements can be written as different quotients, so there is no hash that equality would respect.
    __hash__ = None  # type: ignore[assignment]  # the way that Python has to say so

    def __float__(self) -> float:
        return float(self.enclosure(128))

    def __repr__(self) -> str:
        return f"{float(self)!r} (exact in Q(e^r))"
