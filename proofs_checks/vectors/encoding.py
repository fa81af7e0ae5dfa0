"""How test vectors are written down: floats in C99 hexadecimal, exact numbers as "p/q", repeats run-length encoded.

A float64 is written by ``float.hex()`` without trailing zeros ("0x1.8p+1"), so that every language reads back the same bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs_checks.vectors import indices
from refimpl.parameters import EDITIONS, Edition

__all__ = ["decode_input", "encode_input", "hex_text", "ranges", "runs", "unrun"]


def hex_text(value: float) -> str:
    """A finite float64 in C99 hexadecimal, such as "0x1.8p+1"."""
    if not math.isfinite(value):
        raise ValueError("only finite numbers are written")
    return re.sub(r"\.?0+p", "p", value.hex())


def runs(values: Iterable[Any]) -> list[list[Any]]:
    """Run-length encoding: [count, value] for each run of equal values."""
    return [[len(list(run)), value] for value, run in groupby(values)]


def unrun(encoded: Iterable[Sequence[Any]]) -> list[Any]:
    """The list that :func:`runs` encoded."""
    return [value for count, value in encoded for _ in range(count)]


def ranges(chosen: Iterable[int]) -> list[list[int]]:
    """Half-open ranges [start, stop] of a set of indices, ascending."""
    found: list[list[int]] = []
    for i in sorted(chosen):
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return found


def _encode_rows(rows: Any) -> list[list[Any]]:
    return runs([hex_text(float(v)) for v in row] for row in np.asarray(rows).tolist())


def _decode_rows(encoded: Any) -> NDArray[np.float64]:
    return np.array([[float.fromhex(v) for v in row] for row in unrun(encoded)], dtype=np.float64)


def _encode_matrix(matrix: Any) -> list[list[str]]:
    return [[hex_text(float(v)) for v in row] for row in np.asarray(matrix).tolist()]


def _decode_matrix(encoded: Any) -> NDArray[np.float64]:
    return np.array([[float.fromhex(v) for v in row] for row in encoded], dtype=np.float64)


def _encode_floats(values: Any) -> list[str]:
    return [hex_text(float(v)) for v in values]


def _decode_floats(encoded: Any) -> NDArray[np.float64]:
    return np.array([float.fromhex(v) for v in encoded], dtype=np.float64)


def _encode_shares(weights: Iterable[Fraction]) -> list[list[Any]]:
    return runs(str(w) for w in weights)


def _decode_shares(encoded: Any) -> tuple[Fraction, ...]:
    return tuple(Fraction(w) for w in unrun(encoded))


def _decode_edition(name: str) -> Edition:
    return EDITIONS[name]


def _decode_exact_vector(encoded: Sequence[str]) -> tuple[Fraction, ...]:
    return tuple(Fraction(v) for v in encoded)


_Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]
_ROWS: _Codec = (_encode_rows, _decode_rows)
_EXACT: _Codec = (str, Fraction)
_SET: _Codec = (ranges, lambda encoded: tuple(indices(encoded)))
_HEX: _Codec = (hex, lambda text: int(text, 16))

CODECS: dict[str, _Codec] = {
    **dict.fromkeys(("y", "x", "x_prime"), _ROWS),
    **dict.fromkeys(("covariance", "factor"), (_encode_matrix, _decode_matrix)),
    **dict.fromkeys(("lam", "lambda_0", "epsilon", "delta", "growth", "noise_scale"), _EXACT),
    **dict.fromkeys(("reference", "subset"), _SET),
    "weights": (_encode_shares, _decode_shares),
    "edition": (lambda edition: edition.name, _decode_edition),
    "normals": (_encode_floats, _decode_floats),
    "mean": (lambda mean: [str(v) for v in mean], _decode_exact_vector),
    **dict.fromkeys(("test", "test_covariance"), _HEX),
    **dict.fromkeys(("k", "n", "d", "tau", "score"), (int, int)),
}
"""For each argument of an input, how it is written and read."""


def encode_input(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a vector as JSON values."""
    return {name: CODECS[name][0](value) for name, value in arguments.items()}


def decode_input(encoded: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a vector as a target is given them: arrays of float64, fractions, integers.

    Raises
    ------
    ValueError
        If an argument is unknown or not written as the schema says.
    """
    try:
        return {name: CODECS[name][1](value) for name, value in encoded.items()}
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"not the input of a vector: {type(error).__name__} {error}") from error
