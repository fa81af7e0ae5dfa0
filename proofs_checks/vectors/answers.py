"""The right answer of a vector, written by refimpl; and the first field in which a target's answer departs from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

from flint import fmpq, fmpq_mat

import refimpl
from proofs_checks.vectors import indices
from proofs_checks.vectors.encoding import decode_input, hex_text, ranges, runs, unrun
from proofs_checks.vectors.groups import GROUPS, Answer
from refimpl.linalg import differences, exact_matrix, inverse_or_none, mahalanobis_squared, rows_of, second_moment
from refimpl.parameters import REPAIRED
from refimpl.reals import ExpFraction

__all__ = ["closeness", "departure", "encode_answer", "expected_answer"]

PRECISION = 160
"""Bits of the enclosure in which an irrational probability is stated."""

NEAR = Fraction(1, 1 << 40)
"""A comparison closer than this, relatively, is one that float64 may legitimately decide either way."""

LEAST_FLOAT = Fraction(1, 1 << 1074)
LARGEST_FLOAT = Fraction((1 << 53) - 1) * (1 << 971)


# Writing --------------------------------------------------------------------------------------------------------------


def _exact(value: Any) -> Fraction:
    if isinstance(value, fmpq):
        return Fraction(int(value.p), int(value.q))
    return Fraction(value if isinstance(value, int | float | Fraction) else float(value))


def _entry_level(sets: Sequence[frozenset[int]], rows: int) -> list[int]:
    return [next((ell for ell, s in enumerate(sets) if i in s), len(sets)) for i in range(rows)]


def _probability(value: Any) -> Any:
    if not isinstance(value, ExpFraction):
        return str(value)
    for whole in (0, 1):
        if value == whole:
            return str(whole)
    enclosure = value.enclosure(PRECISION)
    scale = 1 << PRECISION
    return [
        str(Fraction(math.floor(enclosure.lower * scale), scale)),
        str(Fraction(math.ceil(enclosure.upper * scale), scale)),
    ]


WRITERS: dict[str, Callable[[Any], Any]] = {
    "rows": ranges,
    "weights": lambda weights: runs(str(_exact(w)) for w in weights),
    "covariance": lambda rows: [[str(_exact(v)) for v in row] for row in rows],
    "mean": lambda mean: [str(_exact(v)) for v in mean],
    "probability": _probability,
    "release": lambda release: [hex_text(float(v)) for v in release],
    "released_covariance": lambda rows: [[hex_text(float(v)) for v in row] for row in rows],
    "noise_scale": lambda scale: hex_text(float(scale)),
}
"""How each field of an answer is written, where it is no plain integer or truth value."""


def encode_answer(answer: Answer) -> dict[str, Any]:
    """An answer of refimpl as JSON values."""
    written: dict[str, Any] = {}
    for name, value in answer.items():
        if name == "levels":
            written["entry_level"] = runs(_entry_level(value, len(answer["weights"])))
        else:
            written[name] = WRITERS[name](value) if name in WRITERS else value
    return written


def expected_answer(group: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What refimpl answers to a written input, as JSON values."""
    return encode_answer(GROUPS[group].run(refimpl, decode_input(arguments)))


# Comparing ------------------------------------------------------------------------------------------------------------


def _is_close(right: Fraction, found: Any, slack: Fraction) -> bool:
    """Whether a number is within the allowance, or is infinite as some number within the allowance is in float64."""
    if isinstance(found, float) and not math.isfinite(found):
        beyond = right + slack if found > 0 else slack - right
        return not math.isnan(found) and beyond > LARGEST_FLOAT
    # Nothing that is rounded can be told from 0 below the least float.
    return abs(_exact(found) - right) <= slack + (LEAST_FLOAT if isinstance(found, float) and slack else 0)


def _show(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value) if len(str(value)) < 40 else f"{_float(value):.17g} (exact rational)"
    return str(value)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _numbers(
    what: str, right: Sequence[Fraction], found: Sequence[Any], rounding: Fraction, scale: Fraction
) -> str | None:
    if len(right) != len(found):
        return f"{what}: {len(found)} numbers, and not {len(right)}"
    for i, (a, b) in enumerate(zip(right, found, strict=True)):
        if not _is_close(a, b, rounding * max(scale, abs(a))):
            return f"{what}[{i}]: {_show(b)} and not {_show(a)}"
    return None


def _entries(
    what: str, right: Sequence[Sequence[Fraction]], found: Sequence[Sequence[Any]], rounding: Fraction
) -> str | None:
    flat, mine = [v for row in right for v in row], [v for row in found for v in row]
    return _numbers(what, flat, mine, rounding, max(map(abs, flat)))


def _indices(what: str, right: frozenset[int], found: frozenset[int]) -> str | None:
    lost, added = sorted(right - found), sorted(found - right)
    parts = [f"{word} {rows[:5]}" for word, rows in (("without rows", lost), ("with rows", added)) if rows]
    return f"{what}: {' and '.join(parts)}" if parts else None


def _levels(right: Sequence[int], found: Sequence[frozenset[int]]) -> str | None:
    for ell, mine in enumerate(found):
        theirs = frozenset(i for i, level in enumerate(right) if level <= ell)
        if problem := _indices(f"set of level {ell}", theirs, mine):
            return problem
    return None


def _law(right: Any, found: Any, delta: Fraction, rounding: Fraction) -> str | None:
    lower, upper = (Fraction(v) for v in ([right, right] if isinstance(right, str) else right))
    if isinstance(found, float) and not math.isfinite(found):
        return f"probability: {found}"
    value = found if isinstance(found, ExpFraction) else _exact(found)
    slack = rounding * max(upper, delta)
    if lower - slack <= value <= upper + slack:
        return None
    return f"probability: {float(value):.17g} and not {_float(lower):.17g}"


def _rationals(texts: Sequence[str]) -> list[Fraction]:
    return [Fraction(text) for text in texts]


def departure(
    expected: dict[str, Any], answer: Answer, given: dict[str, Any], rounding: Fraction = Fraction(0)
) -> str | None:
    """The first field in which an answer departs from the written one, in words, or None.

    Parameters
    ----------
    expected
        As :func:`expected_answer` writes it.
    answer
        Of a target.
    given
        The decoded input.
    rounding
        Relative allowance for numbers: never for sets, scores, integers and truth values.
    """
    for name, right in expected.items():
        found = answer.get("levels" if name == "entry_level" else name)
        if found is None:
            return f"no {name}"
        if problem := _field(name, right, found, given, rounding):
            return problem
    return None


def _size(given: dict[str, Any]) -> Fraction:
    """The largest entry of x: what a mean's rounding is relative to."""
    return max((abs(Fraction(float(v))) for v in given["x"].flat), default=Fraction(0)) if "x" in given else Fraction(0)


def _mean(right: Any, found: Any, given: dict[str, Any], rounding: Fraction) -> str | None:
    return _numbers("mean", _rationals(right), found, rounding, _size(given))


def _weights(right: Any, found: Any, _given: dict[str, Any], rounding: Fraction) -> str | None:
    return _numbers("weights", _rationals(unrun(right)), found, rounding, Fraction(0))


def _released(right: Any, found: Any, given: dict[str, Any], rounding: Fraction) -> str | None:
    exact = [Fraction(float.fromhex(v)) for v in right]
    return _numbers("release", exact, found, rounding, max([_size(given), *map(abs, exact)]))


def _released_matrix(right: Any, found: Any, _given: dict[str, Any], rounding: Fraction) -> str | None:
    exact = [[Fraction(float.fromhex(v)) for v in row] for row in right]
    return _entries("released_covariance", exact, found, rounding)


def _noise(right: Any, found: Any, _given: dict[str, Any], rounding: Fraction) -> str | None:
    """Too much noise may be a rounding; too little is a fault."""
    exact = Fraction(float.fromhex(right))
    return None if exact <= found <= exact * (1 + rounding) else f"noise_scale: {float(found).hex()} and not {right}"


COMPARERS: dict[str, Callable[[Any, Any, dict[str, Any], Fraction], str | None]] = {
    "entry_level": lambda right, found, _given, _rounding: _levels(unrun(right), found),
    "rows": lambda right, found, _given, _rounding: _indices("rows", frozenset(indices(right)), found),
    "weights": _weights,
    "covariance": lambda right, found, _given, rounding: _entries(
        "covariance", [_rationals(row) for row in right], found, rounding
    ),
    "mean": _mean,
    "release": _released,
    "released_covariance": _released_matrix,
    "noise_scale": _noise,
    "probability": lambda right, found, given, rounding: _law(right, found, given["delta"], rounding),
}
"""How each field is compared, where it is not by equality alone."""


def _field(name: str, right: Any, found: Any, given: dict[str, Any], rounding: Fraction) -> str | None:
    if name in COMPARERS:
        return COMPARERS[name](right, found, given, rounding)
    return None if found == right else f"{name}: {found} and not {right}"


# Boundaries -----------------------------------------------------------------------------------------------------------

_THRESHOLDS = ("lam", "lambda_0", "growth")


def _meets_a_singular_moment(rows: fmpq_mat, lam: Fraction) -> bool:
    """Whether LargestGoodSubset meets a singular second moment of some rows: a tie of a determinant with 0."""
    subset = list(range(rows.nrows()))
    while subset:
        members = rows_of(rows, subset)
        inverse = inverse_or_none(second_moment(members, [Fraction(1, rows.nrows())] * len(subset)))
        if inverse is None:
            return True
        kept = [i for i, v in zip(subset, mahalanobis_squared(members, inverse), strict=True) if _exact(v) <= lam]
        if len(kept) == len(subset):
            return False
        subset = kept
    return False


def closeness(group: str, arguments: dict[str, Any], expected: dict[str, Any]) -> Literal["", "Tie", "NearTie"]:
    """Whether a comparison is an equality ("Tie"), or closer to one than float64 can tell ("NearTie").

    It is where the answer, numbers apart, is another when the threshold moves by 2^-40 of itself to either side, or where a
    second moment or a covariance is exactly singular. Parameters and releases have no such comparison.
    """
    given = decode_input(arguments)
    name = next((name for name in _THRESHOLDS if name in given), None)
    if name is None or "epsilon" in given:
        return ""

    def differs(factor: Fraction) -> bool:
        other = {**given, name: given[name] * factor}
        return departure(expected, GROUPS[group].run(refimpl, other), other, Fraction(1, 1 << 20)) is not None

    if differs(1 - NEAR) or differs(1 + NEAR):
        return "Tie" if differs(1 - Fraction(1, 1 << 200)) else "NearTie"
    return "Tie" if _is_singular(given, expected) else ""


def _is_singular(given: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether some matrix that is inverted on the way is singular."""
    if "covariance" in given:
        return inverse_or_none(exact_matrix("covariance", given["covariance"])) is None
    if not {"x", "y"} & given.keys():
        return False
    y = exact_matrix("y", given["y"]) if "y" in given else differences(exact_matrix("x", given["x"]))
    m = y.nrows()
    if "subset" in given or "weights" in given or not {"lam", "k"} & given.keys():
        share = Fraction(1, m)
        weights = given.get("weights", [share * (i in given.get("subset", range(m))) for i in range(m)])
        return inverse_or_none(second_moment(y, weights)) is None
    return any(_meets_a_singular_moment(y, lam) for lam in _thresholds(given, m, expected))


def _thresholds(given: dict[str, Any], m: int, expected: dict[str, Any]) -> list[Fraction]:
    """Those of all levels of the covariance stage; none where its sets are known to hold every row at every level."""
    if "lam" in given:
        return [given["lam"]]
    if "score_1" not in expected and all(level == 0 for _, level in expected["entry_level"]):
        return []
    levels = range(REPAIRED.last_level(given["k"], None) + 1)
    return [REPAIRED.outlier_threshold(given["lambda_0"], given["k"], m, ell) for ell in levels]
