"""The two ways of exact arithmetic, for few and for many columns, give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from flint import arb, ctx, fmpz_mat
from numpy.typing import NDArray

from fastimpl import certified, exact
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows, inverse_root
from fastimpl.rows import Vectors

Rows = NDArray[np.float64]


class Case(NamedTuple):
    y: Rows

    @property
    def form(self) -> QuadraticForm:
        """A new one, which remembers nothing."""
        unit = column_units(Vectors((self.y,)))
        return QuadraticForm(gram(Vectors((self.y,)), unit), unit)


def ordinary(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(40, 7))


def nearly_singular(rng: np.random.Generator) -> Rows:
    y = rng.normal(size=(40, 5))
    y[:, 4] = y[:, 0] + 2.0**-50 * y[:, 4]
    return y


def wild(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(40, 4)) * [1e-200, 1.0, 1e150, 1e-30]


def blocks(_: np.random.Generator) -> Rows:
    """Orthogonal columns: most entries of every factor are exactly zero."""
    return np.kron(np.eye(3), np.array([[1.0, 0.5], [0.25, 3.0]]))


def many_columns(rng: np.random.Generator) -> Rows:
    return rng.integers(-9, 10, (70, exact.LARGE + 2)).astype(float)


CASES = [ordinary, nearly_singular, wild, blocks, many_columns]
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


def both(
    make: Callable[[np.random.Generator], Rows], patch: pytest.MonkeyPatch, what: Callable[[Case], object]
) -> list[object]:
    """What comes out with the methods for few columns, and with those for many."""
    case, found = Case(make(np.random.default_rng(0))), []
    for large in (1 << 30, 1):
        patch.setattr(exact, "LARGE", large)
        found.append(what(case))
    return found


@each_case
@pytest.mark.parametrize("count", [1, 3, 30])
def test_values_are_equal(
    make: Callable[[np.random.Generator], Rows], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few vectors are solved for, the first two times, and many are multiplied by the inverse."""

    def values(case: Case) -> list[Fraction]:
        rows = case.y[np.arange(count) % len(case.y)] * 0.5
        form = Case(np.vstack([case.y, rows])).form
        found = []
        for _ in range(3):
            numerators, denominator = form.values(integer_rows(Vectors((rows,)), form.unit))
            found.append([Fraction(value, denominator) for value in numerators])
        assert found[0] == found[1] == found[2]
        return found[0]

    few, many = both(make, monkeypatch, values)
    assert few == many


@each_case
def test_the_modular_inverse_inverts(make: Callable[[np.random.Generator], Rows]) -> None:
    matrix = Case(make(np.random.default_rng(1))).form.matrix
    adjugate, determinant = exact._modular_inverse(matrix)
    assert determinant == matrix.det()
    width = matrix.nrows()
    assert matrix * adjugate == fmpz_mat(width, width, [determinant * (i % (width + 1) == 0) for i in range(width**2)])


def test_primes_that_divide_the_determinant_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = fmpz_mat([[15, 0], [0, 77]])
    monkeypatch.setattr(exact, "_PRIME", 13)  # then 11, 7, 5, 3, of which only 13 does not divide
    monkeypatch.setattr(exact, "prime_below", {13: 11, 11: 7, 7: 5, 5: 3, 3: 1009, 1009: 997, 997: 991}.__getitem__)
    assert exact._modular_inverse(matrix) == (fmpz_mat([[77, 0], [0, 15]]), 1155)
    assert exact._modular_forms(matrix, [[1, 0], [3, -2]]) == ([77, 9 * 77 + 4 * 15], 1155)


def test_a_singular_matrix_is_refused() -> None:
    for ask in (exact._modular_inverse, lambda matrix: exact._modular_forms(matrix, [[1, 2]])):
        with pytest.raises(ZeroDivisionError, match="singular"):
            ask(fmpz_mat([[1, 2], [2, 4]]))


def test_forms_as_large_as_their_bound_are_found() -> None:
    """In a diagonal matrix Hadamard's inequality is an equality; and vectors may be far larger than the matrix, or zero."""
    d = exact.LARGE
    matrix = fmpz_mat(d, d, [(1 << 61) * (i % (d + 1) == 0) for i in range(d * d)])
    rows = [[(1 << 3000) - 1] * d, [0] * d, [1, *[0] * (d - 1)]]
    minor = 1 << 61 * (d - 1)
    assert exact._modular_forms(matrix, rows) == ([sum(v * v for v in row) * minor for row in rows], minor << 61)


@each_case
def test_inverse_roots_are_equal_to_the_last_digit_of_a_pair(
    make: Callable[[np.random.Generator], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pairs(case: Case) -> tuple[Rows, Rows]:
        form = case.form
        shift = np.array(
            [100 - int(form.matrix[j, j]).bit_length() // 2 - int(form.unit[j]) for j in range(form.width)]
        )
        return inverse_root(form, shift)

    few, many = both(make, monkeypatch, pairs)
    for a, b, c, e in zip(*(part.ravel().tolist() for part in (*few, *many)), strict=True):
        one, other = Fraction(a) + Fraction(b), Fraction(c) + Fraction(e)
        assert abs(one - other) <= max(abs(one), Fraction(2) ** -900) / 2**103


def test_the_whitening_of_many_columns_whitens(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = both(nearly_singular, monkeypatch, lambda case: certified.exact_whitening(case.form))
    assert np.array_equal(few.shift, many.shift)
    assert (few.rest is None) == (many.rest is None)
    assert np.allclose(few.matrix, many.matrix, rtol=2.0**-51, atol=0)


def test_balls_that_are_too_wide_are_told_from_sharp_ones() -> None:
    with ctx.workprec(100):
        third, nothing = arb(1) / 3, arb(0, 2.0**-950)
    assert exact._sure_enough(third, 0, 90, -900)
    assert not exact._sure_enough(third, 0, 110, -900)
    assert exact._sure_enough(nothing, 0, 40, -900)
    assert not exact._sure_enough(nothing, 0, 60, -900)
    assert exact._sure_enough(arb(0), 5000, 60, -900)


@each_case
def test_an_inverse_from_the_one_before_is_the_inverse(make: Callable[[np.random.Generator], Rows]) -> None:
    """In lowest terms, like one from scratch, as long as there is one."""
    case = Case(make(np.random.default_rng(3)))
    form, left, known = case.form, len(case.y), True
    assert form.inverse
    for row in integer_rows(Vectors((case.y,)), form.unit):
        form, left = form.without([row]), left - 1
        scratch = QuadraticForm(gram(Vectors((case.y[len(case.y) - left :],)), form.unit), form.unit)
        assert form.matrix == scratch.matrix
        known &= not scratch.is_singular
        assert ("inverse" in form.__dict__) == known
        if known:
            (numerator, n), (other, m) = form.inverse, scratch.inverse
            assert numerator * m == other * n
            assert (form.width >= exact.LARGE) or n == m
    assert not known
    assert form.matrix == fmpz_mat(form.width, form.width)


@pytest.mark.parametrize("count", [1, 2])
def test_few_numbers_become_the_integers_that_many_do(count: int) -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=(40, 3)) * 2.0 ** rng.integers(-1040, 900, (40, 3))
    y[::7] = 0.0
    y[3], y[5] = -0.0, [5e-324, -5e-324, 2.0**1023]
    vectors = Vectors((y,), (y[::-1],)) if count == 2 else Vectors((y,))
    unit = column_units(vectors)
    together = integer_rows(vectors, unit)
    assert [integer_rows(vectors.take(slice(i, i + 1)), unit)[0] for i in range(40)] == together
    assert 3 <= exact._FEW_NUMBERS < y.size
