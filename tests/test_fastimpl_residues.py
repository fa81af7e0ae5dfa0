"""Signs of integers from their residues, and the rows that need them: all distances are the threshold itself, or nearly so."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fastimpl
import refimpl
from fastimpl import certified, mean, residues
from fastimpl.residues import IntegerDistances

Matrix = list[list[int]]


def integers(rng: np.random.Generator, shape: tuple[int, int], bits: int) -> Matrix:
    """Integers of up to so many bits, of both signs."""
    digits = rng.integers(0, 1 << 16, (*shape, -(-bits // 16)), dtype=np.int64)
    signs = rng.choice([-1, 1], shape)
    return [
        [int(sign) * (sum(int(d) << 16 * k for k, d in enumerate(some)) >> -bits % 16) for some, sign in zip(*row, strict=True)]
        for row in zip(digits, signs, strict=True)
    ]  # fmt: skip


def definite(rng: np.random.Generator, d: int, bits: int) -> Matrix:
    """A positive definite matrix."""
    root = np.array(integers(rng, (d, d), bits), dtype=object)
    found: Matrix = (root.T @ root + np.eye(d, dtype=object)).astype(object).tolist()
    return [[int(value) for value in row] for row in found]


def form(matrix: Matrix, x: list[int], r: list[int]) -> int:
    v = [a - b for a, b in zip(x, r, strict=True)]
    return sum(a * sum(b * c for b, c in zip(row, v, strict=True)) for a, row in zip(v, matrix, strict=True))


def every_pair(rows: int, points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.repeat(np.arange(rows), points), np.tile(np.arange(points), rows)


def compare(d: int, bits: int, seed: int) -> list[tuple[int, int]]:
    """Signs found and signs that are right, of pairs against bars that are reached, missed by one, zero, and very large."""
    rng = np.random.default_rng([d, bits, seed])
    matrix, rows, points = definite(rng, d, bits), integers(rng, (3, d), bits), integers(rng, (4, d), bits)
    rows[0] = points[1]
    owner, other = every_pair(3, 4)
    forms = [form(matrix, rows[i], points[j]) for i, j in zip(owner, other, strict=True)]
    bars = [0, 1 << 5000, *forms, *(q + 1 for q in forms), *(max(q - 1, 0) for q in forms)]
    distances = IntegerDistances(fmpz_mat(matrix), points)
    found = []
    for first in range(len(bars) - len(owner) + 1):
        which = np.arange(first, first + len(owner))
        signs = distances.signs(rows, owner, other, bars, which).tolist()
        right = [(q > bar) - (q < bar) for q, bar in zip(forms, bars[first:], strict=False)]
        found += zip(signs, right, strict=True)
    return found


@pytest.mark.parametrize("bits", [1, 20, 61, 200])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_signs_are_those_of_the_integers(d: int, bits: int) -> None:
    pairs = compare(d, bits, 1)
    assert all(found == right for found, right in pairs)
    assert {right for _, right in pairs} == {-1, 0, 1}


@given(st.integers(1, 5), st.integers(1, 120), st.integers(0, 2**32))
def test_signs_are_those_of_the_integers_whatever_they_are(d: int, bits: int, seed: int) -> None:
    assert all(found == right for found, right in compare(d, bits, seed))


def test_products_of_many_columns_take_smaller_primes() -> None:
    """With the largest residues that there are: a larger prime, or more columns, and a sum would be rounded."""
    d = 300
    distances = IntegerDistances(fmpz_mat(np.eye(d, dtype=object).astype(int).tolist()), [[0] * d])
    prime = residues.prime_below(distances._limit | 1)
    assert d * (prime // 2 + 2) ** 2 <= 1 << 52 < d * (prime // 2 + 200) ** 2
    x = [[prime // 2 - (j % 7) for j in range(d)]]
    q = sum(v * v for v in x[0])
    one = np.array([0])
    for bar, sign in ((q - 1, 1), (q, 0), (q + 1, -1)):
        assert distances.signs(x, one, one, [bar], one).tolist() == [sign]


@pytest.mark.parametrize("wrong", ["size", "primes", "products"])
def test_each_limit_is_needed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers of 2^10 times the size, fewer primes by so much, or primes so large that sums are rounded: signs are wrong."""
    if wrong == "size":
        bits = IntegerDistances.bits
        monkeypatch.setattr(IntegerDistances, "bits", lambda self, rows: bits(self, rows) - 40)
    elif wrong == "primes":
        moduli = IntegerDistances._moduli
        monkeypatch.setattr(IntegerDistances, "_moduli", lambda self, bits: moduli(self, bits - 40))
    else:
        monkeypatch.setattr(residues, "_EXACT", 1 << 66)
        monkeypatch.setattr(residues, "_LARGEST", 1 << 30)
    assert not all(found == right for seed in range(40) for found, right in compare(2, 30, seed))


def test_integers_that_are_alike_modulo_the_first_and_the_last_prime_are_told_apart() -> None:
    """1 and -54, modulo 5, 7 and 11; each of them twice. -54 = 1 - 4 * 5 - 5 * 7 = 1 + 3 * 5 - 2 * 5 * 7."""
    columns = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [0.0, 0.0, 0.0]])
    digits, places = residues._last_digits(columns.T.copy(), [5, 7, 11])
    assert digits.tolist() == [1, -2, 1, -2, 0]
    assert places.tolist() == [0, 2, 0, 2, 0]


@pytest.mark.parametrize("power", [0, 300, 1500])
@pytest.mark.parametrize("d", [1, 3])
def test_margins_are_lower_bounds_of_the_right_sign(d: int, power: int) -> None:
    """And hardly smaller than they must be: to bars that are reached, missed by one, or far away."""
    rng = np.random.default_rng([d, power])
    matrix, rows, denominator = definite(rng, d, 40), integers(rng, (6, d), 40), 1 << power
    distances = IntegerDistances(fmpz_mat(matrix), [[0] * d])
    forms = [form(matrix, x, [0] * d) for x in rows]
    seen = set()
    for bar in (q + step for q in forms for step in (-1, 0, 1, 12345, 1 << 70)):
        for q, found in zip(forms, distances.below(rows, bar, denominator).tolist(), strict=True):
            assert (found < 0) == (q > bar)
            if q <= bar and power < 1000:
                assert (bar - q) <= 3 * denominator * Fraction(found) * (1 + Fraction(1, 1 << 40))
            assert q > bar or denominator * Fraction(found) <= bar - q
            seen.add((q > bar) - (q < bar))
    assert seen == {-1, 0, 1}


# Rows that need them --------------------------------------------------------------------------------------------------


def two_circles(count: int) -> NDArray[np.float64]:
    """Rows of two circles in planes at right angles: each distance between them is the same, and the largest.

    The pairs are a quarter of a circle apart, but for some that are of both; each comes with all its signs and exchanges.
    """
    norm = 5 * 5 * 13 * 17 * 29 * 37
    points = [(a, math.isqrt(norm - a * a)) for a in range(1, math.isqrt(norm // 2))]
    left: list[list[float]] = []
    right: list[list[float]] = []
    for number, (a, b) in enumerate([(a, b) for a, b in points if a * a + b * b == norm][:count]):
        for u, v in ((s * c, t * e) for c, e in ((a, b), (b, a)) for s in (1, -1) for t in (1, -1)):
            left += [[u, v, 0, 0, 1000], [0, 0, u, v, -1000]]
            right += [[-v, u, 0, 0, 1000], [0, 0, -v, u, -1000]]
            if number % 6 == 0:
                left += [[u, v, 0, 0, 1000], [u, v, 0, 0, 1000]]
                right += [[0, 0, v, u, -1000], [0, 0, -v, -u, -1000]]
    return np.array(left + right, dtype=np.float64)


def tied(x: NDArray[np.float64]) -> Fraction:
    """The lambda_0 that is the distance between the circles."""
    m = len(x) // 2
    y = [[int(v) for v in row] for row in x[:m] - x[m:]]
    sums = [sum(row[j] ** 2 for row in y) for j in range(5)]
    assert not any(sum(row[j] * row[ell] for row in y) for j in range(5) for ell in range(j))
    first, second = (x[np.flatnonzero(x[:, 4] == side)[0]] for side in (1000, -1000))
    return m * sum(Fraction(int(v) ** 2, s) for v, s in zip(first - second, sums, strict=True))


@pytest.mark.parametrize("beside", [Fraction(0), Fraction(1, 1 << 200), Fraction(-1, 1 << 200)])
@pytest.mark.parametrize("together", [1, 512, 1 << 40])
def test_distances_that_are_the_threshold(together: int, beside: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """By residues, some of them, or none: the levels are those of the definition."""
    used = []
    signs = IntegerDistances.signs

    def counted(self: Any, *args: Any) -> Any:
        used.append(len(args[1]))
        return signs(self, *args)

    monkeypatch.setattr(mean, "SEVERAL", together)
    monkeypatch.setattr(IntegerDistances, "signs", counted)
    x = two_circles(12)
    lam = tied(x) * (1 + beside)
    reference = list(range(0, len(x), 3))
    covariance = fastimpl.stable_covariance(x, lam, 9)
    with certified.audit() as decided:
        found = fastimpl.stable_mean(x, covariance, lam, 9, reference)
    exact = refimpl.stable_covariance(x.tolist(), lam, 9)
    right = refimpl.stable_mean(x.tolist(), exact, lam, 9, reference)
    assert (found.score, list(found.entry_level)) == (right.score, list(right.entry_level))
    assert decided["exact"] > len(x) * len(reference) / 8  # none of these is told by floats
    assert bool(used) == (together < 1 << 40)
    assert sum(used) >= 0.9 * decided["exact"] * bool(used)
