"""Exact linear algebra against Gauss and Jordan on fractions.Fraction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracle
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st

from refimpl import linalg
from refimpl.linalg import exact_matrix, to_fraction

numbers = st.one_of(
    st.integers(-3, 3).map(Fraction),
    st.fractions(min_value=-5, max_value=5, max_denominator=9),
    st.sampled_from([Fraction(10**30), Fraction(1, 10**30), Fraction(1, 3)]),
)


def rows_of_width(d: int, least: int = 1, most: int = 6) -> st.SearchStrategy[list[list[Fraction]]]:
    return st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=least, max_size=most)


matrices = st.integers(1, 4).flatmap(rows_of_width)
squares = st.integers(1, 4).flatmap(lambda d: rows_of_width(d, d, d))


def table(matrix: fmpq_mat) -> list[list[Fraction]]:
    return [[to_fraction(value) for value in row] for row in matrix.tolist()]


def times(a: list[list[Fraction]], b: list[list[Fraction]]) -> list[list[Fraction]]:
    return [
        [sum((u * v for u, v in zip(row, column, strict=True)), Fraction(0)) for column in zip(*b, strict=True)]
        for row in a
    ]


@given(squares)
def test_inverse(matrix: list[list[Fraction]]) -> None:
    found, wanted = linalg.inverse_or_none(exact_matrix("a", matrix)), oracle.inverse(matrix)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert table(found) == wanted
        assert times(table(found), matrix) == [
            [Fraction(int(i == j)) for j in range(len(matrix))] for i in range(len(matrix))
        ]


@given(matrices, st.data())
def test_second_moment_and_mean(rows: list[list[Fraction]], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.fractions(0, 1, max_denominator=9), min_size=len(rows), max_size=len(rows)))
    matrix = exact_matrix("y", rows)
    assert table(linalg.second_moment(matrix, weights)) == oracle.moment(rows, weights)
    means = tuple(
        sum((w * row[j] for w, row in zip(weights, rows, strict=True)), Fraction(0)) for j in range(len(rows[0]))
    )
    assert linalg.weighted_mean(matrix, weights) == means


@given(matrices)
def test_norms(rows: list[list[Fraction]]) -> None:
    weights = [Fraction(1, len(rows))] * len(rows)
    inverse = oracle.inverse(oracle.moment(rows, weights))
    if inverse is None:
        return
    found = linalg.mahalanobis_squared(exact_matrix("y", rows), exact_matrix("inverse", inverse))
    assert list(map(to_fraction, found)) == [oracle.quadratic(row, inverse) for row in rows]
    assert sum(map(to_fraction, found)) == len(rows) * len(rows[0])  # the norms average to d


@given(matrices, st.fractions(0, 100, max_denominator=12), st.data())
def test_squared_distances(rows: list[list[Fraction]], bound: Fraction, data: st.DataObject) -> None:
    d = len(rows[0])
    inverse = data.draw(
        rows_of_width(d, d, d).map(lambda a: times(a, [list(column) for column in zip(*a, strict=True)]))
    )
    reference = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    found = linalg.squared_distances(exact_matrix("x", rows), exact_matrix("inverse", inverse), reference)
    for row, numerators in zip(rows, found.numerators, strict=True):
        wanted = sorted(
            oracle.quadratic([a - b for a, b in zip(row, rows[j], strict=True)], inverse) for j in reference
        )
        assert [Fraction(value, found.denominator) for value in numerators] == wanted
        for limit in (bound, *wanted):
            assert sum(value <= found.within(limit) for value in numerators) == sum(value <= limit for value in wanted)


@given(squares, st.lists(st.sampled_from([0, 0, 1, 2, -1]), min_size=4, max_size=4))
def test_ldl(matrix: list[list[Fraction]], signs: list[int]) -> None:
    d = len(matrix)
    scaled = [[Fraction(signs[i]) * value for value in row] for i, row in enumerate(matrix)]
    transposed = [list(column) for column in zip(*matrix, strict=True)]
    symmetric = times(transposed, scaled)  # A^T diag(signs) A
    factors = linalg.ldl(exact_matrix("a", symmetric))
    if min(signs[:d]) >= 0:
        assert factors is not None
    elif oracle.inverse(matrix) is not None:
        assert factors is None
        assert not linalg.is_positive_semidefinite(exact_matrix("a", symmetric))
    if factors is None:
        return
    lower, diagonal = ([[to_fraction(v) for v in row] for row in factors[0]], [to_fraction(v) for v in factors[1]])
    assert all(value >= 0 for value in diagonal)
    assert all(lower[i][j] == int(i == j) for i in range(d) for j in range(i, d))
    product = times(
        [[v * diagonal[j] for j, v in enumerate(row)] for row in lower], [list(c) for c in zip(*lower, strict=True)]
    )
    assert product == symmetric


@given(matrices)
def test_differences(rows: list[list[Fraction]]) -> None:
    if len(rows) < 2:
        return
    m = len(rows) // 2
    assert table(linalg.differences(exact_matrix("x", rows))) == [
        [a - b for a, b in zip(rows[i], rows[i + m], strict=True)] for i in range(m)
    ]


def test_floats_are_the_dyadic_rationals_that_they_are() -> None:
    array = np.array([[0.1, -5e-324, 1.7976931348623157e308, -0.0]])
    assert table(exact_matrix("x", array)) == [[Fraction(v) for v in array[0].tolist()]]
    assert table(exact_matrix("x", [[0.1, Fraction(1, 3), 2, fmpq(1, 7)]])) == [
        [Fraction(0.1), Fraction(1, 3), 2, Fraction(1, 7)]
    ]


def test_integers_in_arrays_are_rounded_to_float64_and_in_lists_are_not() -> None:
    big = 2**53 + 1
    assert table(exact_matrix("x", np.array([[big]]))) == [[2**53]]
    assert table(exact_matrix("x", [[big]])) == [[big]]


def test_a_matrix_of_flint_is_taken_as_it_is() -> None:
    matrix = fmpq_mat(1, 2, [fmpq(1, 3), fmpq(2)])
    assert exact_matrix("x", matrix) == matrix


def test_conversions() -> None:
    assert linalg.to_fraction(linalg.to_fmpq(Fraction(-7, 3))) == Fraction(-7, 3)
    assert table(linalg.rows_of(exact_matrix("x", [[1], [2], [3]]), [2, 0])) == [[3], [1]]


@pytest.mark.parametrize(
    "rows", [np.array([[1.0], [2.0]]).view(np.matrix), np.ma.masked_array([[1.0], [2.0]], mask=[[True], [False]])]
)
def test_subclasses_of_arrays_are_taken_or_refused_by_name(rows: object) -> None:
    try:
        exact_matrix("x", rows)
    except (TypeError, ValueError) as error:
        assert "x" in str(error).split()  # noqa: PT017 - either outcome is right


def test_bytes_are_not_rows() -> None:
    with pytest.raises(TypeError, match=r"\bx\b"):
        exact_matrix("x", [b"12", b"34"])


@pytest.mark.filterwarnings("error")
def test_a_strict_floating_point_state_changes_nothing() -> None:
    with np.errstate(all="raise"):
        exact_matrix("x", np.array([[1e300, 5e-324]]))
