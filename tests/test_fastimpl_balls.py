"""Forms between balls: they hold the forms of exact arithmetic, and hardly more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpz_mat

from fastimpl import balls
from fastimpl.balls import BallForm, at_most
from fastimpl.exact import QuadraticForm
from fastimpl.limits import Ratio

Matrix = list[list[int]]


def vectors(rng: np.random.Generator, count: int, d: int, bits: int) -> Matrix:
    """Integers of 20 bits, shifted by up to ``bits``."""
    sizes = rng.integers(-(1 << 20), 1 << 20, (count, d)).tolist()
    return [[value << int(rng.integers(0, bits + 1)) for value in row] for row in sizes]


def gram(rows: Matrix) -> fmpz_mat:
    matrix = fmpz_mat(rows)
    return matrix.transpose() * matrix


def sides(ball: arb) -> tuple[Fraction, Fraction]:
    with ctx.workprec(600):
        return exactly(ball.lower()), exactly(ball.upper())


def exactly(point: arb) -> Fraction:
    mantissa, exponent = (int(part) for part in point.mid().man_exp())
    return mantissa * Fraction(2) ** exponent


@pytest.mark.parametrize("bits", [0, 900])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_balls_hold_the_forms_of_what_is_left(d: int, bits: int) -> None:
    """After one vector has gone, and another, and so on; and hardly more, if G is not nearly singular."""
    rng = np.random.default_rng([d, bits])
    rows = vectors(rng, 4 * d, d, bits)
    form = BallForm.of(gram(rows))
    asked = vectors(rng, 3, d, bits)
    while len(rows) > 2 * d:
        assert form is not None
        values, denominator = QuadraticForm(gram(rows), np.zeros(d, dtype=np.int64)).values([*asked, *rows])
        for ball, value in zip(form.values([*asked, *rows]), values, strict=True):
            exact, (lower, upper) = Fraction(value, denominator), sides(ball)
            assert lower <= exact <= upper
            assert bits or upper - lower <= exact / (1 << 300)
        form = form.without(rows.pop())


def test_a_tie_is_never_told() -> None:
    """One third, of which balls do not know the last digit, is neither above nor below itself; but they know its neighbours."""
    form = BallForm.of(fmpz_mat([[3]]))
    assert form is not None
    for step, known in ((-1, 1), (0, 0), (1, -1)):
        (left,) = balls.below(form.values([[1]]), Ratio(10**100 + 3 * step, 3 * 10**100))
        assert (bool(left > 0), bool(left < 0)) == (known == -1, known == 1)
        assert left.contains(arb(0)) == (known == 0)


def test_what_is_singular_has_no_form() -> None:
    assert BallForm.of(fmpz_mat([[1, 2], [2, 4]])) is None
    form = BallForm.of(fmpz_mat([[1, 0], [0, 1]]))
    assert form is not None
    assert form.without([1, 0]) is None
    assert form.without([0, 2]) is None


def test_a_float_at_most_a_ball() -> None:
    third = arb(1) / 3
    assert Fraction(at_most(third)) < Fraction(1, 3) < Fraction(-at_most(-third))
    assert at_most(third) > 1 / 3 - 2.0**-52
    assert at_most(arb(2) ** 2000) == math.nextafter(math.inf, 0)
    assert at_most(-(arb(2) ** 2000)) == -math.inf
    assert at_most(arb(2) ** -2000) <= 0
    assert at_most(arb("nan")) == -math.inf
