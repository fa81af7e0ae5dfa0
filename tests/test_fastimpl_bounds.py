"""Every error bound of the float filter is needed: on data made for it, it holds, and would not if it were 2^10 smaller.

Each statement is checked as it stands in the docstring of its bound, against exact rational arithmetic. And the two paths are
both needed: without integers the pinned ties go wrong, and without floats nothing that claims to test them stays green.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import fastimpl
from fastimpl import certified, covariance, mean
from fastimpl.certified import Lengths, Whitening
from fastimpl.exact import QuadraticForm
from fastimpl.grams import BlockGrams, usual_shift
from fastimpl.rows import Centred, Sparse, Vectors
from fastimpl.screen import Screen

Rows = NDArray[np.float64]
SMALLER = 2.0**-10


def exactly(a: Rows) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in a.tolist()]


def times(a: list[list[Fraction]], b: list[list[Fraction]]) -> list[list[Fraction]]:
    columns = list(zip(*b, strict=True))
    return [[sum((p * q for p, q in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in a]


def transposed(a: list[list[Fraction]]) -> list[list[Fraction]]:
    return [list(column) for column in zip(*a, strict=True)]


def squared(vector: list[Fraction]) -> Fraction:
    return sum((value**2 for value in vector), Fraction(0))


def whitening_of(vectors: Vectors) -> Whitening:
    counts = Sparse(len(vectors), 1, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    found = certified.float_whitening(BlockGrams(vectors, usual_shift(vectors)), counts)
    assert found is not None
    return found


def distance_from_identity(w: Rows, y: Rows) -> Fraction:
    """|W Y^T Y W^T - I|_F^2, exactly."""
    z = times(exactly(w), transposed(exactly(y)))
    white = times(z, transposed(z))
    return sum((squared([v - (i == j) for j, v in enumerate(row)]) for i, row in enumerate(white)), Fraction(0))


def gram_statement() -> bool:
    """Sums whose terms are rounded in the same direction again and again: equal numbers with full mantissas."""
    holds = True
    for v in np.random.default_rng(1).uniform(1, 2, 40).tolist():
        w = whitening_of(Vectors((np.full((60000, 1), v),)))
        error = Fraction(float(w.matrix[0, 0])) ** 2 * 60000 * Fraction(v) ** 2 - 1
        holds &= abs(error) <= Fraction(w.epsilon)
    return holds


def refined_statement() -> bool:
    """As few rows as columns, nearly parallel: nothing averages out. Here W* is not W, but near it."""
    worst = True
    for seed in range(12):
        y = np.random.default_rng(seed).normal(size=(3, 3))
        y[:, 1] = y[:, 0] + 2.0**-20 * y[:, 1]
        w = whitening_of(Vectors((y,)))
        assert w.units > 0  # the second stage
        worst &= distance_from_identity(w.matrix, y) <= Fraction(w.epsilon) ** 2
    return worst


def vector_statement() -> bool:
    y = np.random.default_rng(2).normal(size=(400, 4))
    w = whitening_of(Vectors((y,)))
    z, error = certified.whiten(Vectors((y,)), w)
    true = times(exactly(y), transposed(exactly(w.matrix)))
    return all(
        squared([a - b for a, b in zip(p, q, strict=True)]) <= Fraction(e) ** 2
        for p, q, e in zip(exactly(z), true, error.tolist(), strict=True)
    )


def pair_statement() -> bool:
    """Terms of 2^50 that cancel to almost nothing, in pairs of floats."""
    rng = np.random.default_rng(3)
    w, rest = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)) * 2.0**-54
    x, centre = rng.normal(size=(300, 3)), rng.normal(size=(300, 3)) * 2.0**-3
    whitening = Whitening(w, np.abs(w), np.zeros(3, dtype=np.int64), np.ones(3), 0.0, 3, rest)
    direction = np.linalg.inv(w)[:, 2]
    x = centre + direction * 2.0**50  # W v is about 2^50 in the last coordinate only
    z, error = certified.whiten(Vectors((x,), (centre,)), whitening)
    whole = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(exactly(w), exactly(rest), strict=True)]
    moved = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(exactly(x), exactly(centre), strict=True)]
    true = times(moved, transposed(whole))
    size = np.sqrt(np.einsum("ij,ij->i", z, z))
    # The first coordinates are tiny; what they may be off by is all but the final rounding of the vector.
    allowed = error - 4 * certified.UNIT_ROUNDOFF * size + 4 * certified.UNIT_ROUNDOFF * np.abs(z[:, 0])
    return all(
        abs(Fraction(p) - q[0]) <= Fraction(e) for p, q, e in zip(z[:, 0].tolist(), true, allowed.tolist(), strict=True)
    )


def length_statement() -> bool:
    z = np.random.default_rng(4).normal(size=(400, 5))
    bounds = certified.norm_bounds(z, np.zeros(400), 0.0)
    true = [squared(row) for row in exactly(z)]
    return all(lo <= v <= hi for lo, v, hi in zip(bounds.lower.tolist(), true, bounds.upper.tolist(), strict=True))


def single_length_statement() -> bool:
    """The same in float32."""
    x = np.random.default_rng(5).normal(size=(200, 40))
    w = np.eye(40)
    whitening = Whitening(w, w, np.zeros(40, dtype=np.int64), np.full(40, 1e-30), 0.0, 0)
    lengths = Lengths(Centred(x, np.zeros(40)), whitening, limit=40.0)
    assert not lengths.single  # g is out of range
    whitening = Whitening(w, w, np.zeros(40, dtype=np.int64), np.full(40, 14.0), 0.0, 0)
    lengths = Lengths(Centred(x, np.zeros(40)), whitening, limit=40.0)
    assert lengths.single
    lower, upper = lengths.enclosed(lengths.of(slice(0, 200)))
    true = [squared(row) for row in exactly(x)]
    return all(
        Fraction(lo) ** 2 <= v <= Fraction(hi) ** 2
        for lo, v, hi in zip(lower.tolist(), true, upper.tolist(), strict=True)
    )


def product_statement(d: int) -> bool:
    """Products of rows and reference rows are within the slacks of the squared distances (float32 from 32 columns on)."""
    x = np.random.default_rng(6).normal(size=(60, d)) + 5.0 * (np.arange(60) % 2)[:, None]
    identity = np.eye(d)
    whitening = Whitening(identity, identity, np.zeros(d, dtype=np.int64), np.ones(d), 0.0, 0)
    limits = certified.thresholds([Fraction(100 * d)], Fraction(1))
    rows, reference = Centred(x, np.zeros(d)), np.arange(30)
    screen = Screen(rows, reference, whitening, limits, np.array([0]))
    products = screen._products
    q = screen.lengths.of(slice(0, 60)).astype(np.float64)
    slack = products._s * q + products._tiny
    left = np.column_stack([-2 * screen.lengths.z, q + slack, np.ones(60)]).astype(products._kind)
    upper = (left @ products._right.T).astype(np.float64) * screen.lengths.factor
    lower = upper - 2 * (slack[:, None] + products._slack) * screen.lengths.factor
    order = np.lexsort((np.zeros(30), screen._hi))  # products sort their reference rows by length
    lengths = np.sqrt(np.einsum("ij,ij->i", x[:30], x[:30]))
    points = exactly(x[:30][np.argsort(lengths)])
    assert len(order) == len(points)
    true = [[squared([a - b for a, b in zip(p, r, strict=True)]) for r in points] for p in exactly(x)]
    pairs = product(range(60), range(30))
    return all(Fraction(lower[i, j]) <= true[i][j] <= Fraction(upper[i, j]) for i, j in pairs)


STATEMENTS: dict[str, tuple[str, Callable[[], bool]]] = {
    "Gram matrix": ("gram_error", gram_statement),
    "Gram matrix in white coordinates": ("vector_error", refined_statement),
    "whitened vector": ("vector_error", vector_statement),
    "whitened vector in pairs of floats": ("pair_error", pair_statement),
    "length": ("length_error", length_statement),
    "inner product": ("product_error", lambda: product_statement(3)),
    "inner product in float32": ("product_error", lambda: product_statement(40)),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_each_bound_holds_where_rounding_is_at_its_worst(name: str) -> None:
    with np.errstate(all="ignore"):
        assert STATEMENTS[name][1]()


@pytest.mark.parametrize("name", STATEMENTS)
def test_each_bound_would_fail_if_it_were_smaller(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bound, statement = STATEMENTS[name]
    whole = getattr(certified, bound)
    monkeypatch.setattr(certified, bound, lambda *arguments: SMALLER * whole(*arguments))
    with np.errstate(all="ignore"):
        assert not statement()


def test_float32_lengths_hold() -> None:
    assert single_length_statement()


# Both paths are needed ------------------------------------------------------------------------------------------------


def hadamard(d: int) -> Rows:
    base = np.array([[1.0]])
    while len(base) < d:
        base = np.block([[base, base], [base, -base]])
    return base


def ties() -> list[tuple[Rows, Fraction]]:
    """Rows that all have the squared norm lam exactly: good as they are, and not for any smaller threshold."""
    scales = [1.0, 3.0, 0.1, 1 / 3, 7e-5, 2.0**40 + 1, 1e100, 1e-100, 1.1, 5 / 7]
    return [
        (np.tile(hadamard(d), (copies, 1)) * s, Fraction(d))
        for d in (1, 2, 4, 8)
        for copies in (3, 11, 17)
        for s in scales
    ]


def wrong_ties() -> int:
    """How many pinned ties are decided wrongly."""
    return sum(len(fastimpl.largest_good_subset(y, lam)) != len(y) for y, lam in ties())


def test_ties_are_right_and_need_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ties()) >= 100
    assert wrong_ties() == 0

    def by_floats(*arguments: NDArray[np.int64]) -> object:
        count = len(arguments[2])
        return np.ones(count, dtype=bool), certified.Bounds(np.zeros(count), np.full(count, np.inf))  # in doubt, out

    monkeypatch.setattr(covariance._ExactGram, "exceed", by_floats)
    assert wrong_ties() >= 100


def test_no_decision_by_floats_without_the_float_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the float whitening gone every level is the same, but the audit shows who decided."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    reference = list(range(40))
    expected = fastimpl.stable_covariance(x, 20, 3)
    levels = fastimpl.stable_mean(x, expected, 15, 3, reference).entry_level
    monkeypatch.setattr(certified, "float_whitening", lambda *_: None)
    monkeypatch.setattr(QuadraticForm, "factor", property(lambda _: pytest.fail("the exact path was asked")))
    with pytest.raises(pytest.fail.Exception):
        fastimpl.stable_covariance(x, 20, 3)
    monkeypatch.undo()
    assert np.array_equal(mean.stable_mean(x, expected, 15, 3, reference).entry_level, levels)
