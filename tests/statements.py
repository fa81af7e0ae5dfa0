"""The statements behind the bounds of the float filter, each checked against exact rational arithmetic on data made for it.

A statement is a function that says whether it holds. Data are chosen so that rounding is at its worst: sums that are rounded
the same way again and again, terms that cancel, numbers at the edge of underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from fastimpl import balls, certified, covariance, limits, mean, rows, screen, sums
from fastimpl.certified import Bounds, Lengths, Whitening
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows, inverse_root
from fastimpl.grams import BlockGrams, usual_shift
from fastimpl.limits import thresholds
from fastimpl.rows import Centred, Floats, Sparse, Vectors
from fastimpl.screen import Screen
from refimpl.parameters import REPAIRED

Rows = NDArray[np.float64]
Exact = list[list[Fraction]]
NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


# Exact arithmetic -----------------------------------------------------------------------------------------------------


def exactly(a: Rows) -> Exact:
    return [[Fraction(value) for value in row] for row in a.tolist()]


def times(a: Exact, b: Exact) -> Exact:
    columns = list(zip(*b, strict=True))
    return [[sum((p * q for p, q in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in a]


def transposed(a: Exact) -> Exact:
    return [list(column) for column in zip(*a, strict=True)]


def minus(a: Exact, b: Exact) -> Exact:
    return [[p - q for p, q in zip(*pair, strict=True)] for pair in zip(a, b, strict=True)]


def squared(vector: Iterable[Fraction]) -> Fraction:
    return sum((value**2 for value in vector), Fraction(0))


def frobenius(a: Exact) -> Fraction:
    """|A|_F^2."""
    return sum(map(squared, a), Fraction(0))


def minus_identity(a: Exact) -> Exact:
    return [[value - (i == j) for j, value in enumerate(row)] for i, row in enumerate(a)]


def within(lower: float, value: Fraction, upper: float) -> bool:
    return Fraction(lower) <= value and (upper == math.inf or value <= Fraction(upper))


def enclosed(bounds: Bounds, values: Sequence[Fraction]) -> bool:
    return all(map(within, bounds.lower.tolist(), values, bounds.upper.tolist()))


def off(found: Rows, true: Exact, error: Rows) -> bool:
    """Whether every row of ``found`` is within ``error`` of the true one."""
    distances = map(squared, minus(exactly(found), true))
    return all(e == math.inf or d <= Fraction(e) ** 2 for d, e in zip(distances, error.tolist(), strict=True))


def full_mantissas(count: int, seed: int) -> list[float]:
    return [float(v) for v in np.random.default_rng(seed).uniform(1, 2, count)]


# Whitening ------------------------------------------------------------------------------------------------------------


def everybody(count: int) -> Sparse:
    return Sparse(count, 1, NONE, NONE)


def whitening_of(vectors: Vectors) -> Whitening:
    found = certified.float_whitening(BlockGrams(vectors, usual_shift(vectors)), everybody(len(vectors)))
    assert found is not None
    return found


def plain(
    w: Rows, size: float = 2.0**-58, *, epsilon: float = 0.0, rest: Rows | None = None, units: int = 0
) -> Whitening:
    """A whitening that says W* = W; for vectors so small that nothing else is as large as the term in question."""
    d = len(w)
    return Whitening(w, np.abs(w), np.zeros(d, dtype=np.int64), np.full(d, size), epsilon, units, rest)


def gram_statement() -> bool:
    """Sums whose terms are rounded in the same direction again and again: equal numbers with full mantissas."""
    holds = True
    for v in full_mantissas(40, 1):
        w = whitening_of(Vectors((np.full((60000, 1), v),)))
        error = Fraction(float(w.matrix[0, 0])) ** 2 * 60000 * Fraction(v) ** 2 - 1
        holds &= abs(error) <= Fraction(w.epsilon)
    return holds


def refined_gram_statement() -> bool:
    """The same for the Gram matrix in white coordinates."""
    holds = True
    for v in full_mantissas(40, 1):
        grams = BlockGrams(Vectors((np.full((60000, 1), v),)), np.zeros(1, dtype=np.int64))
        w = certified._refined_whitening(grams, everybody(60000), grams.total(everybody(60000)))
        assert w is not None
        error = Fraction(float(w.matrix[0, 0])) ** 2 * 60000 * Fraction(v) ** 2 - 1
        holds &= abs(error) <= Fraction(w.epsilon)
    return holds


def with_a_poor_factor(statement: Callable[[], bool]) -> Callable[[], bool]:
    """The same where the factor that Cholesky gave is off by a part in 2^26: a residual has to say so."""
    good = certified._inverse_cholesky

    def poor(*arguments: Any, **options: Any) -> Rows | None:
        found = good(*arguments, **options)
        return None if found is None else found * (1 + 2.0**-26)

    def run() -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certified, "_inverse_cholesky", poor)
            return statement()

    return run


def refined_statement() -> bool:
    """As few rows as columns, nearly parallel: nothing averages out. Here W* is not W, but near it."""
    holds = True
    for seed in range(12):
        y = np.random.default_rng(seed).normal(size=(3, 3))
        y[:, 1] = y[:, 0] + 2.0**-20 * y[:, 1]
        w = whitening_of(Vectors((y,)))
        assert w.units > 0  # the second stage
        z = times(exactly(w.matrix), transposed(exactly(y)))
        holds &= frobenius(minus_identity(times(z, transposed(z)))) <= Fraction(w.epsilon) ** 2
    return holds


def vector_statement() -> bool:
    y = np.random.default_rng(2).normal(size=(400, 4))
    w = whitening_of(Vectors((y,)))
    z, error = certified.whiten(Vectors((y,)), w)
    return off(z, times(exactly(y), transposed(exactly(w.matrix))), error)


def thin_vector_statement() -> bool:
    """Where the bound relative to the vector says little, and the one entry by entry is used: terms of 2^30 that cancel."""
    rng = np.random.default_rng(3)
    y = np.repeat(rng.normal(size=(300, 1)), 2, axis=1)
    y[:, 1] += 2.0**-30 * rng.normal(size=300)
    w = plain(np.array([[1.0, 0.0], [2.0**30, -(2.0**30)]]) / 3, size=4.0)
    assert w.relative > certified._SHARP
    z, error = certified.whiten(Vectors((y,)), w)
    return off(z, times(exactly(y), transposed(exactly(w.matrix))), error)


def tiny_vector_statement() -> bool:
    """Scaled entries at the edge of underflow, which a large W brings back."""
    y = np.random.default_rng(4).normal(size=(100, 2))
    w = Whitening(np.eye(2) * 2.0**900, np.eye(2) * 2.0**900, np.full(2, -1066), np.full(2, 2.0**-900), 0.0, 0)
    z, error = certified.whiten(Vectors((y,)), w)
    true = times(exactly(y), [[Fraction(2) ** (900 - 1066) * (i == j) for j in range(2)] for i in range(2)])
    return off(z, true, error)


def invisible_vector_statement() -> bool:
    """Vectors so short that the square of the length is no float any more, and W* as far from W as is allowed at all."""
    y = np.linspace(0.9, 1, 9)[:, None] * 2.0**-537.5
    w = plain(np.eye(1), 1.0, units=int(certified._TIGHT * 2.0**53 / 1.02))
    z, error = certified.whiten(Vectors((y,)), w)
    return off(z, [[v * (1 + w.units * Fraction(1, 2**53)) for v in row] for row in exactly(y)], error)


def paired_statement(shift: int, scale: float, *, last: bool) -> bool:
    """Vectors whitened in pairs of floats: terms of 2^50 that cancel to almost nothing in all coordinates but one.

    Without ``last`` only a small coordinate is looked at; what it may be off by is all but the final rounding of the vector.
    """
    rng = np.random.default_rng(3)
    w, rest = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)) * 2.0**-54
    x, centre = rng.normal(size=(300, 3)), rng.normal(size=(300, 3)) * 2.0**-3
    whitening = Whitening(w, np.abs(w), np.full(3, shift), np.ones(3), 0.0, 3, rest)
    x = (centre + np.linalg.inv(w)[:, 2] * 2.0**50) * scale  # W v is about 2^50 in the last coordinate only
    centre *= scale
    z, error = certified.whiten(Vectors((x,), (centre,)), whitening)
    moved = minus(exactly(x), exactly(centre))
    true = times(moved, transposed(whole(whitening)))
    if last:
        return off(z, true, error)
    size = np.sqrt(np.einsum("ij,ij->i", z, z))
    allowed = error - 4 * certified.UNIT_ROUNDOFF * (size - np.abs(z[:, 0]))
    return all(
        abs(Fraction(p) - q[0]) <= Fraction(e) for p, q, e in zip(z[:, 0].tolist(), true, allowed.tolist(), strict=True)
    )


def paired_forms_statement() -> bool:
    """Forms in pairs of floats, of rows about a centre that is off by a little."""
    rng = np.random.default_rng(5)
    y, x, centre = rng.normal(size=(9, 2)), rng.normal(size=(400, 2)), rng.normal(size=2) * 2.0**-3
    unit = column_units(Vectors((y,)), Vectors((x,)))
    form = QuadraticForm(gram(Vectors((y,)), unit), unit)
    fine = mean._Fine(form, np.array([3, -2]), centre, x[1:], [])
    total, rest, unsure = fine.forms(fine.whiten(x[:1]), np.arange(399))
    values, denominator = form.values(integer_rows(Vectors((np.broadcast_to(x[0], (399, 2)),), (x[1:],)), unit))
    return fine.useful and all(
        abs(Fraction(p) + Fraction(q) - Fraction(value, denominator)) <= Fraction(e)
        for p, q, e, value in zip(total.tolist(), rest.tolist(), unsure.tolist(), values, strict=True)
    )


def tiny_paired_statement() -> bool:
    """As tiny_vector_statement, in pairs of floats."""
    y = np.random.default_rng(4).normal(size=(100, 2))
    w = np.eye(2) * 2.0**900
    z, error = certified.whiten(Vectors((y,)), Whitening(w, w, np.full(2, -1066), np.ones(2), 0.0, 0, np.zeros((2, 2))))
    true = times(exactly(y), [[Fraction(2) ** (900 - 1066) * (i == j) for j in range(2)] for i in range(2)])
    return off(z, true, error)


def relative_statement(thin: int) -> bool:
    """An exact whitening of a thin matrix: ``relative`` bounds the errors of all vectors, however they lie."""
    vectors = thin_vectors(thin, 5)
    return relative_holds(vectors, vectors, pairs=thin > 20)


def relative_of_pairs_statement() -> bool:
    """The same far thinner, for vectors along the long axis with mantissas found by a search: errors of half u^2 |W| |v|."""
    some = np.random.default_rng(1).uniform(1.06, 1.1, 800)
    return relative_holds(thin_vectors(62, 19), Vectors((np.column_stack([some, some]),)), pairs=True)


def thin_vectors(thin: int, seed: int) -> Vectors:
    """Two columns that are the same to a part in 2^thin."""
    rng = np.random.default_rng(seed)
    plus, minus_ = np.repeat(rng.normal(size=(40, 1)), 2, axis=1), np.zeros((40, 2))
    minus_[:, 1] = 2.0**-thin * rng.normal(size=40)
    return Vectors((plus,), (minus_,))


def relative_holds(base: Vectors, vectors: Vectors, *, pairs: bool) -> bool:
    unit = column_units(base)
    w = certified.exact_whitening(QuadraticForm(gram(base, unit), unit))
    assert (w.rest is not None) == pairs
    z, _ = certified.whiten(vectors, w)
    exact = exactly(vectors.plus[0])
    true = times(minus(exact, exactly(vectors.minus[0])) if vectors.minus else exact, transposed(whole(w)))
    off_by = map(squared, minus(exactly(z), true))
    return all(d <= Fraction(w.relative) ** 2 * squared(row) for d, row in zip(off_by, true, strict=True))


def whole(w: Whitening) -> Exact:
    """(W + rest) S."""
    rest = np.zeros_like(w.matrix) if w.rest is None else w.rest
    both = zip(exactly(w.matrix), exactly(rest), strict=True)
    return [[(a + b) * Fraction(2) ** int(s) for a, b, s in zip(*row, w.shift, strict=True)] for row in both]


def integers_statement(looks_at: str) -> bool:
    """Vectors of two columns that are the same to a part in 2^300, or tiny ones, and what they are known to be off by."""
    base = thin_vectors(300, 5)
    unit = column_units(base)
    form = QuadraticForm(gram(base, unit), unit)
    w = certified.exact_whitening(form)
    assert w.whole is not None
    power = 540 if looks_at == "underflow" else 0
    few = Vectors(*(tuple(part[:20] * 2.0**-power for part in side) for side in (base.plus, base.minus)))
    z, error = certified.whiten(few, w)
    holds = True
    for row, own, off_by in zip(integer_rows(base.take(slice(20)), unit), exactly(z), error.tolist(), strict=True):
        whole_row = [sum(a * b for a, b in zip(row, line, strict=True)) for line in form.factor.b]
        parts = zip(whole_row, form.factor.diagonal, strict=True)
        true = [
            Fraction(math.isqrt((value**2 << 4000) // size), 1 << (2000 + power)) * (1 if value > 0 else -1)
            for value, size in parts
        ]
        distance = squared([a - b for a, b in zip(own, true, strict=True)])
        allowed = Fraction(w.relative) ** 2 * squared(true) if looks_at == "relative" else Fraction(off_by) ** 2
        holds &= distance <= allowed
    return holds


def subnormal_entry_statement() -> bool:
    """|W* - W| <= units u magnitude for an entry of W so small that it is off by as much as ``inverse_root`` may be.

    The columns are almost orthogonal: only two tiny entries, one in a row of each column, make a product at all.
    """

    def as_promised(*arguments: Any) -> tuple[Rows, Rows]:
        found, rest = inverse_root(*arguments)
        assert 0 < abs(found[1, 0]) < 2.0**-1022
        found[1, 0] += math.copysign(2.0**-1004 * (1 - 2.0**-10), found[1, 0])
        return found, rest

    y = np.array([[0.6180339887, 0.0], [0.0, 0.1414213562], [2.0**-460 * 1.7320508, 2.0**-390]])
    vectors = Vectors((y,))
    unit = column_units(vectors)
    form = QuadraticForm(gram(vectors, unit), unit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certified, "inverse_root", as_promised)
        w = certified.exact_whitening(form)
    b = Fraction(form.factor.b[1][0]) ** 2 / form.factor.diagonal[1]
    true = b * Fraction(4) ** (form.exponent // 2 - int(form.unit[0] + w.shift[0]))
    error = w.units * Fraction(2) ** -53 * Fraction(w.magnitude[1, 0])
    found = abs(Fraction(w.matrix[1, 0]))
    return max(found - error, Fraction(0)) ** 2 <= true <= (found + error) ** 2


def divided_statement() -> bool:
    """A whitening of ``count`` times G: its sizes are at least count^(1/2) times those of G, its W* is as near as it says."""
    holds = True
    for count, v in enumerate(full_mantissas(60, 26), 2):
        w = plain(np.array([[v]]), v)
        found = certified._divided(w, count)
        holds &= Fraction(float(found.size[0])) ** 2 >= count * Fraction(v) ** 2
        error = found.units * Fraction(1, 2**53) * Fraction(float(found.magnitude[0, 0]))
        low, high = (Fraction(float(found.matrix[0, 0])) + side * error for side in (-1, 1))
        holds &= low**2 * count <= Fraction(v) ** 2 <= high**2 * count
    return holds


# Forms ----------------------------------------------------------------------------------------------------------------


def as_far_as(square: Fraction, error: float) -> Fraction:
    """The square of a length whose own square is ``square``, longer (or shorter) by 63/64 of an error."""
    if not error:
        return square
    root = Fraction(math.isqrt(int(square * 4**200)), 2**200)
    return max(Fraction(0), root + Fraction(error) * Fraction(63, 64)) ** 2


def length_statement(error: float = 0.0) -> bool:
    """Norms of vectors as they were computed, or as far off as the error allows."""
    z = np.random.default_rng(4).normal(size=(400, 5))
    bounds = certified.norm_bounds(z, np.full(400, abs(error)), 0.0)
    return enclosed(bounds, [as_far_as(squared(row), error) for row in exactly(z)])


def invisible_length_statement(upper: bool) -> bool:
    """Squares at the edge of underflow."""
    z = (np.random.default_rng(4).normal(size=(400, 3)) + 1.2) * 2.0**-537
    bounds = certified.norm_bounds(z, np.zeros(400), 0.0)
    true = [squared(row) for row in exactly(z)]
    sides = zip(bounds.lower.tolist(), true, bounds.upper.tolist(), strict=True)
    return all(v <= Fraction(hi) if upper else Fraction(lo) <= v for lo, v, hi in sides)


def lengths_statement(x: Rows, whitening: Whitening, limit: float, *, single: bool) -> bool:
    """Lengths are enclosed, and the bar is one."""
    lengths = Lengths(Centred(x, np.zeros(x.shape[1])), whitening, limit=limit)
    assert lengths.single == single
    q = lengths.of(slice(0, len(x)))
    lower, upper = lengths.enclosed(q)
    true = list(map(squared, times(exactly(x), transposed(exactly(whitening.matrix)))))
    holds = all(lo == 0 or Fraction(lo) ** 2 <= v for lo, v in zip(lower.tolist(), true, strict=True))
    holds &= all(hi == math.inf or v <= Fraction(hi) ** 2 for hi, v in zip(upper.tolist(), true, strict=True))
    for goal in (limit, *np.sort(np.array(list(map(float, true))))[:: max(1, len(x) // 9)].tolist()):
        bar = lengths.bar(goal)
        holds &= all(v <= Fraction(goal) for v, found in zip(true, q.tolist(), strict=True) if found <= bar)
    return holds


def float_lengths_statement() -> bool:
    return lengths_statement(np.random.default_rng(5).normal(size=(400, 5)), plain(np.eye(5)), 5.0, single=False)


def single_lengths_statement() -> bool:
    """Rows and W that float32 holds exactly: what is left are squares and sums."""
    x = np.random.default_rng(5).normal(size=(60, 40)).astype(np.float32).astype(np.float64)
    return lengths_statement(x * 2.0**10, plain(np.eye(40)), 1.0, single=True)


def single_vectors_statement() -> bool:
    """Float32 products of 2^7 that cancel: the error of the whitened vector is more than that of its length."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 32))
    x[:, 1] = x[:, 0] + 2.0**-7 * rng.uniform(1, 2, 60)  # so the first entry of W x is at least 1
    w = np.eye(32) * 2.0**-30
    w[0, 0], w[0, 1] = 2.0**7, -(2.0**7)
    assert np.abs(x).max() < 4
    return lengths_statement(x, plain(w, 4.0), 1.0, single=True)


def invisible_lengths_statement(*, single: bool) -> bool:
    """Lengths whose squares underflow in float64, or in float32."""
    d, scale = (40, 2.0**-76) if single else (3, 2.0**-560)
    x = np.random.default_rng(7).normal(size=(40, d)) * scale
    return lengths_statement(x, plain(np.eye(d), 2.0**-58 if single else 1.0), 1.0, single=single)


def flushed_lengths_statement() -> bool:
    """Entries that float32 turns to zero, and a large W that would bring them back, beside one entry that float32 holds.

    An error is the more of a squared length, and the less of what ``grow`` allows, the longer that other entry is.
    """
    w = np.zeros((8, 8))
    w[0] = 2.0**58
    x = np.full((8, 8), 2.0**-150 * (1 - 2.0**-10))
    x[:, 0] = 2.0 ** -np.arange(126.0, 134.0)
    return lengths_statement(x, plain(w), 2.0**-59, single=True)


def underflowing_lengths_statement() -> bool:
    """Scaled entries that lose some of their digits or nearly all, which a large W brings back: see tiny_vector_statement."""
    x, w, holds = np.random.default_rng(4).uniform(1, 2, (100, 1)), np.eye(1) * 2.0**900, True
    for shift in (-1074, -1072, *range(-1031, -1024)):
        whitening = Whitening(w, w, np.array([shift]), np.array([2.0**-900]), 0.0, 0)
        lengths = Lengths(Centred(x, np.zeros(1)), whitening, limit=1.0)
        lower, upper = lengths.enclosed(lengths.of(slice(0, 100)))
        true = [squared(row) * Fraction(4) ** (900 + shift) for row in exactly(x)]
        sides = zip(lower.tolist(), true, upper.tolist(), strict=True)
        holds &= all(Fraction(lo) ** 2 <= v <= Fraction(hi) ** 2 for lo, v, hi in sides)
    return holds


def line_statement() -> bool:
    """Whoever is not found by ``above_line`` has a form of at most the line: lines just below forms, the others far off."""
    holds = True
    for epsilon, v in product((0.0, 2.0**-12 / 3), full_mantissas(60, 8)):
        whitening = plain(np.eye(1), epsilon=epsilon)
        form = Fraction(v) ** 2 / (1 - Fraction(epsilon))
        line = math.nextafter(float(form), 0.0)
        found, upper = certified.above_line(Vectors((np.array([[v]]),)), whitening, line)
        holds &= len(found) == 1 and form <= Fraction(float(upper[0]))
    return holds


def forms_above_statement() -> bool:
    """The last steps from the length of a whitened vector to the form: length^2/(1 - epsilon), for full mantissas."""
    lengths, epsilon = np.array(full_mantissas(60, 8)), 2.0**-12 / 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lengths, "bar", lambda *_: -1.0)
        patch.setattr(Lengths, "enclosed", lambda _, q: (q, lengths))
        _, forms = certified.above_line(Vectors((lengths[:, None],)), plain(np.eye(1), epsilon=epsilon), 1.0)
    return all(
        Fraction(v) ** 2 <= (1 - Fraction(epsilon)) * Fraction(form)
        for v, form in zip(lengths.tolist(), forms.tolist(), strict=True)
    )


def transfer_statement(scale: float = 1.0, units: int = 0) -> bool:
    """Upper bounds on forms from lengths that another matrix gave. W* is as far above W as ``units`` lets it be."""
    holds = True
    for v, other in zip(full_mantissas(80, 21), full_mantissas(80, 22), strict=True):
        size = 1.001 / v if units else 2.0**-58
        w = np.array([[v]])
        whitening = Whitening(w, w, np.zeros(1, dtype=np.int64), np.array([size]), 0.0, units)
        y = np.array([[scale / 3]])
        z = y * (other * 0.7)
        true = (Fraction(v) * (1 + units * Fraction(1, 2**53)) * Fraction(scale / 3)) ** 2
        bound = certified.transfer(whitening, np.array([[other * 0.7]]), np.einsum("ij,ij->i", z, z))
        holds &= true <= Fraction(float(bound[0]))
    return holds


def single_transfer_statement(scale: float, other: float) -> bool:
    """The same from lengths in float32, of one column: W is such that W and the other matrix give the same."""
    holds = True
    for v in full_mantissas(60, 24):
        y, w = np.array([[v * scale]]), np.array([[other]])
        whitening = plain(w, 1.001 / other)
        z = y.astype(np.float32) @ w.astype(np.float32)
        bound = certified.transfer(whitening, w, np.einsum("ij,ij->i", z, z).astype(np.float64), single=True)
        assert bound[0] < math.inf
        holds &= (Fraction(v * scale) * Fraction(other)) ** 2 <= Fraction(float(bound[0]))
    return holds


def spectral_statement() -> bool:
    """|A| of one number, and of equal numbers: d times as much."""
    sizes = ((d, v) for d, count in ((1, 60), (40, 9)) for v in full_mantissas(count, 25))
    return all(d * Fraction(v) <= Fraction(certified._spectral_norm(np.full((d, d), v))) for d, v in sizes)


def transfer_that_cancels_statement() -> bool:
    """The same for vectors of which the other matrix leaves little: what it gave is off by far more than u."""
    rng = np.random.default_rng(23)
    y = np.repeat(rng.normal(size=(200, 1)), 2, axis=1)
    y[:, 1] += 2.0**-20 * rng.normal(size=200)
    w = np.array([[1.0, 0.0], [2.0**20, -(2.0**20)]]) / 3
    forms = list(map(squared, times(exactly(y), transposed(exactly(w)))))
    z = y @ w.T
    whitening = plain(w, 10.0)
    bounds = certified.transfer(whitening, w, np.einsum("ij,ij->i", z, z))
    return all(true <= Fraction(bound) for true, bound in zip(forms, bounds.tolist(), strict=True) if bound < math.inf)


def above_statement(count: int, d: int, size: float, error: float = 0.0) -> bool:
    """Equal vectors z with full mantissas, in I + sum z z^T; limits just above their form, so that none of them is above.

    With an ``error`` the true vectors are so much shorter than the computed ones.
    """
    holds = True
    for v in full_mantissas(25, 9):
        z = np.full((count, d), v * size)
        square = as_far_as(d * Fraction(v * size) ** 2, -error)
        form = square / (1 + count * square)
        limit = float(form)
        limit = limit if Fraction(limit) >= form else math.nextafter(limit, 1.0)
        holds &= not certified.surely_above(z, np.full(count, error), 0.0, limit).any()
    return holds


def removal_statement(*, looks_at: str, gone: Rows, moved_by: float = 0.0, error: float = 0.0) -> bool:
    """What removal_whitening gives is a whitening of what is left, and removal_bounds hands on the vectors that it makes.

    ``looks_at`` is "epsilon" (|V M V^T - I|_F <= epsilon) or "error" (of V z), or "underflow" (the same, for tiny z). The
    vectors gone are known up to ``error``, and ``moved_by`` of it is made use of; so are the vectors z.
    """
    d = gone.shape[1]
    seen: list[tuple[Rows, Rows, float]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certified, "norm_bounds", lambda *arguments: seen.append(arguments))
        found = certified.removal_whitening(gone, np.full(len(gone), error), 0.0)
        assert found is not None
        z = np.random.default_rng(10).normal(size=(200, d)) * (2.0**-540 if looks_at == "underflow" else 1.0)
        certified.removal_bounds(z, np.full(200, error), found)
    v, epsilon, [(moved, allowed, _)] = found.matrix.T, found.epsilon, seen
    if looks_at != "epsilon":
        z[:, 0] += moved_by
        return off(moved, times(exactly(z), exactly(v)), allowed)
    exact = exactly(gone[:1]) if (gone == gone[0]).all() else exactly(gone)
    exact = [[value + Fraction(moved_by) for value in row] for row in exact]
    together = [
        [value * (len(gone) if len(exact) == 1 else 1) for value in row] for row in times(transposed(exact), exact)
    ]
    left = [[(i == j) - value for j, value in enumerate(row)] for i, row in enumerate(together)]
    factor = transposed(exactly(v))
    return frobenius(minus_identity(times(times(factor, left), transposed(factor)))) <= Fraction(epsilon) ** 2


def many_removed_statement() -> bool:
    """200000 equal vectors go: their sum is rounded the same way again and again."""
    gones = [np.full((200_000, 1), v * 2.0**-10) for v in full_mantissas(12, 11)]
    return all(removal_statement(looks_at="epsilon", gone=gone) for gone in gones)


def moved_removal_statement(size: float) -> bool:
    """Vectors gone that are known up to an error, and one of zero, of which nothing but the error is left."""
    gone, error = np.array([[size]]), 2.0**-30 if size else 2.0**-13
    return removal_statement(looks_at="epsilon", gone=gone, moved_by=error * 0.99, error=error)


def few_removed_statement() -> bool:
    gones = [np.random.default_rng(seed).normal(size=(2, 3)) * 0.2 for seed in range(40)]
    return all(removal_statement(looks_at="epsilon", gone=gone) for gone in gones)


def removed_vector_statement() -> bool:
    return removal_statement(looks_at="error", gone=np.random.default_rng(1).normal(size=(2, 3)) * 0.3)


def invisible_removed_vector_statement() -> bool:
    return removal_statement(looks_at="underflow", gone=np.random.default_rng(1).normal(size=(2, 3)) * 0.3)


def growth_statement(*, moved: str) -> bool:
    """What one vector that goes adds to the forms of others nearly or quite at right angles to it; what is left has G = I.

    A vector, or the one that goes, may be ``moved`` by nearly as much as its error allows.
    """
    holds, left = True, certified.Removal.of_nothing(3, 0.0)
    for seed in range(60):
        one, z = np.random.default_rng(seed).normal(size=(2, 3))
        z, delta, error = z - (z @ one) / (one @ one) * one, np.zeros((2, 3)), [0.0, 0.0]
        if moved:
            at = ["vector", "gone"].index(moved)
            one, z, error[at] = np.eye(3)[1], np.eye(3)[0], 2.0**-20
            delta[at, 1 - at] = 0.99 * 2.0**-20
        known, gone = (z[None], np.array(error[:1])), (one[None], np.array(error[1:]))
        found = certified.growth_bounds(*known, certified.reach(*known), *gone, left)
        true = [
            [a + b for a, b in zip(*rows, strict=True)]
            for rows in zip(exactly(np.array([z, one])), exactly(delta), strict=True)
        ]
        holds &= sum(a * b for a, b in zip(*true, strict=True)) ** 2 <= Fraction(float(found.most[0]))
    return holds


def reach_statement(size: float, error: float) -> bool:
    """The length of (size, size, size) and an error."""
    found = certified.reach(np.full((1, 3), size), np.array([error]))
    return (Fraction(float(found[0])) - Fraction(error)) ** 2 >= 3 * Fraction(size) ** 2 and found[0] >= error


# Limits ---------------------------------------------------------------------------------------------------------------

RATIONALS = [Fraction(p, q) for p in (1, 2, 5, 10**20 + 1) for q in (3, 7, 10**9 + 7, 1)]


def sides_hold(found: limits.Thresholds) -> bool:
    exact = [Fraction(*ratio) for ratio in found.exact[:]]
    return all(map(within, found.below.tolist(), exact, found.above.tolist()))


def enclose_statement() -> bool:
    return all(sides_hold(thresholds([value], factor)) for value in RATIONALS for factor in RATIONALS)


def outlier_limits_statement() -> bool:
    cases = product((Fraction(3), Fraction(7, 3), Fraction(50)), (3, 19), (Fraction(1), Fraction(1, 700)))
    return all(sides_hold(limits.outlier_limits(REPAIRED, lam, k, 5000, range(2 * k + 1), f)) for lam, k, f in cases)


def distance_limits_statement() -> bool:
    cases = product((Fraction(3), Fraction(7, 3), Fraction(50)), (3, 19), (Fraction(1), Fraction(1, 700)))
    return all(sides_hold(limits.distance_limits(REPAIRED, lam, k, 5000, range(2 * k + 1), f)) for lam, k, f in cases)


def powers_statement() -> bool:
    """The terms of a geometric sequence."""
    holds = True
    for first, ratio in product(RATIONALS, (Fraction(10, 9), Fraction(5001, 5000))):
        for i, (below, above) in enumerate(limits._powers(first, ratio, 20)):
            holds &= within(below, first * ratio**i, above)
    return holds


# Screen ---------------------------------------------------------------------------------------------------------------


def a_screen(
    x: Rows, points: int, limit: Fraction, *, epsilon: float = 0.0, size: float = 1.0, allowed: int = 0
) -> Screen:
    """A screen with W = I, centred at 0; its reference rows are the first ones."""
    d = x.shape[1]
    found = thresholds([limit], Fraction(1))
    return Screen(
        Centred(x, np.zeros(d)), np.arange(points), plain(np.eye(d), size, epsilon=epsilon), found, np.array([allowed])
    )


def near_and_far_statement(side: str) -> bool:
    """near^2 <= (1 - epsilon) limit, far^2 >= (1 + epsilon) limit, and the same for squares in the products."""
    holds = True
    for limit, epsilon in product((Fraction(v) for v in full_mantissas(80, 12)), (0.0, 2.0**-12 / 3)):
        at = a_screen(np.ones((2, 1)), 1, limit, epsilon=epsilon)
        near, far = float(at._near[0]), float(at._far[0])
        holds &= {
            "near": Fraction(near) ** 2 <= (1 - Fraction(epsilon)) * limit,
            "far": Fraction(far) ** 2 >= (1 + Fraction(epsilon)) * limit,
            "upper": Fraction(float(at._products._upper[0])) <= Fraction(near) ** 2,
            "lower": Fraction(float(at._products._lower[0])) >= Fraction(far) ** 2,
        }[side]
    return holds


def reference_statement(scale: float, *, upper: bool, error: float = 0.0) -> bool:
    """The lengths of reference rows lie in [lo, hi]. Rows so far down that squares vanish, or known up to an ``error``."""
    x = np.random.default_rng(13).normal(size=(300, 3)) * scale
    whitening = plain(np.eye(3), 2.0**-900)
    object.__setattr__(whitening, "relative", 0.0)
    found = Screen.__new__(Screen)
    found._whitening = whitening
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certified, "whiten", lambda vectors, _: (vectors.rounded(), error * np.ones(len(vectors))))
        z = found._set_reference(Vectors((x,)))
    true = [as_far_as(squared(row), error if upper else -error) for row in exactly(z)]
    sides = found._hi if upper else found._lo
    return all(
        (v <= Fraction(s) ** 2) if upper else (Fraction(s) ** 2 <= v) for v, s in zip(true, sides.tolist(), strict=True)
    )


def limits_statement(side: str) -> bool:
    """Lengths up to ``inner`` are surely in; beyond ``outer``, or below ``inside``, surely not."""
    holds = True
    for near, far, lo, hi in np.random.default_rng(14).uniform(1, 2, (300, 4)) * [1, 1, 2, 0.3]:
        at = Screen.__new__(Screen)
        at._near, at._far, at._allowed = np.array([near]), np.array([far]), np.array([0])
        at._lo, at._hi = np.array([lo]), np.array([hi])
        at._set_limits()
        exact = {
            "inner": Fraction(near) - Fraction(hi),
            "outer": Fraction(far) + Fraction(hi),
            "inside": Fraction(lo) - Fraction(far),
        }
        value = Fraction(float(getattr(at, f"_{side}")[0]))
        holds &= value >= exact[side] if side == "outer" else value <= exact[side] or value < 0
    return holds


def start_statement() -> bool:
    """Reference rows before the start are surely near: hi_j + radius <= near."""
    holds = True
    for near, radius in np.random.default_rng(15).uniform(1, 2, (400, 2)) * [1, 0.5]:
        hi = np.nextafter(np.full(5, near - radius), [0.0, 0.0, 2.0, 2.0, 2.0])
        hi[2:] = [hi[1], near - radius, np.nextafter(near - radius, 2.0)]
        hi.sort()
        at = screen._Products.__new__(screen._Products)
        at._near, at._hi, at._finite = np.array([near]), hi, len(hi)
        start = at._start(np.array([radius]), 0)
        holds &= all(Fraction(h) + Fraction(float(radius)) <= Fraction(float(near)) for h in hi[:start].tolist())
    return holds


def bar_statement() -> bool:
    """Rows that a screen lets pass at first sight are as short as ``inner`` asks for."""
    holds = True
    for limit in full_mantissas(150, 19):
        at = a_screen(np.array([[0.1], [1.0]]), 1, Fraction(limit))
        inner = float(at._inner[0])
        x = np.array([[inner * (1 + j * 2.0**-52)] for j in range(-4, 5)])
        q = Lengths(Centred(x, np.zeros(1)), plain(np.eye(1), 1.0), limit=1.0).of(slice(0, 9))
        holds &= all(Fraction(v) <= Fraction(inner) for v in x[q <= at._bar, 0].tolist())
    return holds


def coordinate_statement() -> bool:
    """A coordinate bounds the length from below: |W* S v| >= sqrt(1 - epsilon) |v_l|/g_l, where g may be off by 1/1000."""
    x = np.random.default_rng(16).normal(size=(100, 2))
    found = screen._coordinate_length(Vectors((x,)), plain(np.eye(2), 1.0))
    true = [max(map(abs, row)) for row in exactly(x)]
    return all(Fraction(v) <= t for v, t in zip(found.tolist(), true, strict=True))


def product_statement(d: int, scale: float = 1.0, size: float = 1.0) -> bool:
    """Products of rows and reference rows are within the slacks of the squared distances (float32 from 8 columns on)."""
    x = (np.random.default_rng(6).normal(size=(60, d)) + 5.0 * (np.arange(60) % 2)[:, None]) * scale
    at = a_screen(x, 30, Fraction(100 * d), size=size)
    products, lengths = at._products, at.lengths
    q = lengths.of(slice(0, 60)).astype(np.float64)
    slack = products._s * q + products._tiny
    *_, left = products._lefts(lengths.z, q + slack)
    upper = (left @ products._right.T).astype(np.float64) * lengths.factor
    lower = upper - 2 * (slack[:, None] + products._slack) * lengths.factor
    norms = np.sqrt(np.einsum("ij,ij->i", x[:30] / scale, x[:30] / scale))
    points = exactly(x[:30][np.argsort(norms, kind="stable")])  # products sort their reference rows by length
    true = [[squared([a - b for a, b in zip(p, r, strict=True)]) for r in points] for p in exactly(x)]
    return all(within(lower[i, j], true[i][j], upper[i, j]) for i, j in product(range(60), range(30)))


def part_statement(*, single: bool) -> bool:
    """Products of some coordinates where the squares of all others underflow in one row, and not in the other."""
    edge, limit = (2.0**-75.5, 1.0) if single else (2.0**-537.5, 2.0**-980)
    x = np.zeros((12, 40))
    x[:, 10:] = 0.95 * edge
    x[:6, 10:] *= -(2.0 ** (np.arange(11.0, 17.0) if single else np.arange(40.0, 46.0)))[:, None]
    at = a_screen(x, 6, Fraction(limit), size=2.0**-58 if single else 1.0)
    assert at.lengths.single == single
    products, lengths = at._products, at.lengths
    q = lengths.of(slice(0, 12)).astype(np.float64)
    own = q + (products._s * q + products._tiny)
    points = exactly(x[:6])  # by length
    true = [[squared([a - b for a, b in zip(p, r, strict=True)]) for r in points] for p in exactly(x)]
    assert products._parts
    for left, right in zip(products._lefts(lengths.z, own), products._rights, strict=False):
        upper = (left @ right.T).astype(np.float64) * lengths.factor
        if not all(true[i][j] <= Fraction(float(upper[i, j])) for i, j in product(range(12), range(6))):
            return False
    return True


# Covariance and rows --------------------------------------------------------------------------------------------------


def candidates_statement() -> bool:
    """The line of candidates: at most (1 - budget) times the lowest threshold."""
    at = covariance._Descent.__new__(covariance._Descent)
    holds = True
    for below, budget in np.random.default_rng(17).uniform(1, 2, (200, 2)) * [1, 0.1]:
        at._limits = limits.Thresholds([], np.array([below]), np.array([below]))
        holds &= Fraction(at._line(float(budget))) <= Fraction(float(below)) * (1 - Fraction(float(budget)))
    return holds


def spent_statement() -> bool:
    """What the removed vectors have spent of the budget is at least the sum of their forms in the base.

    Of 128 numbers pairwise summation makes eight sums of 16: here each loses fifteen halves of the last digit of 1.
    """
    holds = True
    for forms in (np.append(np.ones(8), np.full(120, 2.0**-53)), *np.random.default_rng(18).uniform(0, 1, (60, 5))):
        at = descent_of(np.append(forms, 0.0))
        at._remove(np.arange(len(forms)), 0)
        holds &= Fraction(at._spent) >= sum(map(Fraction, forms.tolist()))
    return holds


def gone_statement() -> bool:
    """What has gone since bounds were made: at least the sum of the forms of those gone, each when it went.

    Bounds of those who go may be older than what went before them. Two thirds of a unit of the sum are lost if it is not
    rounded up.
    """
    holds, rng = True, np.random.default_rng(19)
    for forms in [[0.25, 0.25, 0.125], [2.0**-52 * 5 / 3] * 40, *rng.uniform(0.0, 0.1, (60, 5)).tolist()]:
        at, gone = descent_of(np.append(forms, 0.0)), Fraction(0)
        for i, form in enumerate(forms):
            at._remove(np.flatnonzero(at._index == i), 0)
            gone += Fraction(math.floor(Fraction(form) / (1 - gone) * 2**100), 2**100)
        holds &= Fraction(at._sum) >= gone
    return holds


def margin_statement() -> bool:
    """A form is below the threshold where what has been added, a little at a time, is below the margin."""
    at = descent_of(np.ones(2))
    parts = [1.0] + [2.0**-53] * (covariance._MOST_STEPS - 1)
    at._margin, at._limits = (
        covariance._kept_margin(np.array([1.0 + 2.0**-44] * 2)),
        limits.Thresholds([], np.ones(1), np.ones(1)),
    )
    with pytest.MonkeyPatch.context() as patch:
        for part in parts:
            patch.setattr(at, "_added", lambda *_, part=part: certified.Growth(np.zeros(2), np.full(2, part)))
            at._gone = np.zeros((len(at._gone) + 1, 1))
            at._grow(0)
    margin = 1 + Fraction(1, 1 << 44) - sum(map(Fraction, parts))
    return margin > 0 or bool(at._near(0).all())


def bound_from_margin_statement() -> bool:
    """The upper bound on a form that is known to be so far below the threshold."""
    at, rng = descent_of(np.ones(300)), np.random.default_rng(20)
    above, margin = 1 + 2.0**-52, 2.0 ** -rng.integers(2, 53, 300) * rng.uniform(1, 2, 300)
    at._limits, at._margin = limits.Thresholds([], np.array([above]), np.array([above])), margin
    found = at._up_to(np.arange(300)).tolist()
    return all(
        Fraction(above) - Fraction(own) <= Fraction(upper) for own, upper in zip(margin.tolist(), found, strict=True)
    )


def ball_statement() -> bool:
    """The float is at most every number of a ball, with however many digits balls are computed."""
    with ctx.workprec(200):
        return all(Fraction(balls.at_most(arb(p) / q)) <= Fraction(p, q) for p in range(1, 30) for q in range(1, 30))


def descent_of(forms: Floats) -> covariance._Descent:
    """A descent with candidates of which nothing but bounds on their forms is known."""
    at, count = covariance._Descent.__new__(covariance._Descent), len(forms)
    at._state, at._integers = covariance._Levels(count), covariance._ExactGram(Vectors((np.ones((count, 1)),)))
    at._limits = limits.Thresholds([], np.ones(1), np.ones(1))
    at._whitening = certified.Whitening(np.eye(1), np.eye(1), np.zeros(1, dtype=np.int64), np.ones(1), 0.0, 0)
    at._index, at._base, at._gone_since = np.arange(count), forms.copy(), []
    at._z, at._error, at._spent = np.zeros((count, 1)), np.zeros(count), 0.0
    at._gone, at._gone_error = np.empty((0, 1)), np.empty(0)
    at._set(certified.Bounds(forms.copy(), forms.copy()), 0)
    return at


def four_rows_statement() -> bool:
    """Sums of four rows are right to 2u, or not known: a - b is just above 1, c - e just below -1, and so little is left."""
    rng = np.random.default_rng(3)
    nearly = 2.0**-53 * (1 - 2.0 ** -rng.integers(2, 8, (3000, 1)).astype(float))
    b, e = (nearly * (1 - 2.0**-12 * rng.uniform(size=(3000, 1))) for _ in range(2))
    a, c = np.full((3000, 1), 1 + 2.0**-52), np.full((3000, 1), -1.0)
    a[::2] = rng.normal(size=(1500, 1))  # and ordinary ones
    found = rows._rounded_sum((a, c), (b, e))
    known = np.isfinite(found)
    parts = (part[known].tolist() for part in (a, b, c, e, found))
    holds = bool(known.any())
    for p, q, r, s, value in zip(*parts, strict=True):
        true = Fraction(p) - Fraction(q) + Fraction(r) - Fraction(s)
        holds &= abs(Fraction(value) - true) <= abs(true) / 2**52
    return holds


def slices_statement(count: int) -> bool:
    """Equal differences whose rest is as large as it can be, and has more digits than a product of floats can hold."""
    plus = (2.0**20 - np.arange(1.0, 41.0))[:, None] * 2.0**-20 + 0.96 * 2.0**-42
    minus = np.linspace(2.0**-57, 2.0**-53, len(plus))[:, None]
    for row, other in zip(plus, minus, strict=True):
        vectors = Vectors((np.tile(row, (count, 1)),), (np.tile(other, (count, 1)),))
        found = sums.enclosed_sums(vectors, Sparse(count, 1, NONE, NONE))
        assert found is not None
        middle, radius = (
            Fraction(int(m)) * Fraction(2) ** int(e)
            for m, e in (found[0][0].mid().man_exp(), found[0][0].rad().man_exp())
        )
        if not abs(middle - count * (Fraction(float(row[0])) - Fraction(float(other[0]))) ** 2) <= radius:
            return False
    return True


STATEMENTS: dict[str, Callable[[], bool]] = {
    "Gram matrix": gram_statement,
    "Gram matrix in white coordinates": refined_gram_statement,
    "whitening in white coordinates": refined_statement,
    "Gram matrix, poor factor": with_a_poor_factor(gram_statement),
    "Gram matrix in white coordinates, poor factor": with_a_poor_factor(refined_gram_statement),
    "whitened vector": vector_statement,
    "whitened vector that cancels": thin_vector_statement,
    "whitened vector at the edge of underflow": tiny_vector_statement,
    "whitened vector below the roots of floats": invisible_vector_statement,
    "pairs of floats: a small coordinate": lambda: paired_statement(0, 1.0, last=False),
    "pairs of floats: the whole vector": lambda: paired_statement(0, 1.0, last=True),
    "pairs of floats below the roots of floats": lambda: paired_statement(0, 2.0**-589, last=True),
    "pairs of floats at the edge of underflow": tiny_paired_statement,
    "forms in pairs of floats": paired_forms_statement,
    "relative error": lambda: relative_statement(5),
    "relative error of pairs": lambda: relative_statement(40),
    "relative error of pairs that cancel": relative_of_pairs_statement,
    "entries of W": subnormal_entry_statement,
    "whitening of a multiple": divided_statement,
    "norm": length_statement,
    "norm, shorter": lambda: length_statement(-(2.0**-20)),
    "norm, longer": lambda: length_statement(2.0**-20),
    "norm below the roots of floats, from above": lambda: invisible_length_statement(True),
    "norm below the roots of floats, from below": lambda: invisible_length_statement(False),
    "lengths": float_lengths_statement,
    "lengths in float32": single_lengths_statement,
    "lengths in float32 that cancel": single_vectors_statement,
    "lengths below the roots of floats": lambda: invisible_lengths_statement(single=False),
    "lengths below the roots of float32": lambda: invisible_lengths_statement(single=True),
    "lengths of vectors that float32 turns to zero": flushed_lengths_statement,
    "lengths of vectors at the edge of underflow": underflowing_lengths_statement,
    "line": line_statement,
    "forms above a line": forms_above_statement,
    "transfer": transfer_statement,
    "transfer of a rounded W": lambda: transfer_statement(units=1 << 20),
    "transfer below the roots of floats": lambda: transfer_statement(2.0**-537),
    "transfer that cancels": transfer_that_cancels_statement,
    "transfer in float32": lambda: single_transfer_statement(1.0, 1 + 2.0**-8),
    "transfer of vectors that float32 turns to zero": lambda: single_transfer_statement(2.0**-151.5, 2.0**88),
    "spectral norm": spectral_statement,
    "surely above": lambda: above_statement(1, 1, 1.0),
    "surely above, many columns": lambda: above_statement(1, 40_000, 2.0**-8),
    "surely above, many vectors": lambda: above_statement(1000, 1, 2.0**-5),
    "surely above, shorter": lambda: above_statement(1, 1, 1.0, 2.0**-20),
    "removal, poor factor": with_a_poor_factor(few_removed_statement),
    "removal of a moved vector": lambda: moved_removal_statement(0.5),
    "removal of a moved zero": lambda: moved_removal_statement(0.0),
    "moved vector after a removal": lambda: removal_statement(
        looks_at="error", gone=np.full((1, 2), 0.25), moved_by=2.0**-30, error=2.0**-30
    ),
    "removal of many": many_removed_statement,
    "removal of few": few_removed_statement,
    "vector after a removal": removed_vector_statement,
    "vector after a removal, below the roots of floats": invisible_removed_vector_statement,
    "growth": lambda: growth_statement(moved=""),
    "growth of a moved vector": lambda: growth_statement(moved="vector"),
    "growth by a moved vector": lambda: growth_statement(moved="gone"),
    "reach": lambda: reach_statement(0.0, 2.0**-20),
    "reach below the roots of floats": lambda: reach_statement(2.0**-540, 0.0),
    "thresholds": enclose_statement,
    "outlier thresholds": outlier_limits_statement,
    "distance thresholds": distance_limits_statement,
    "powers": powers_statement,
    "near": lambda: near_and_far_statement("near"),
    "far": lambda: near_and_far_statement("far"),
    "near, squared": lambda: near_and_far_statement("upper"),
    "far, squared": lambda: near_and_far_statement("lower"),
    "reference lengths, from below": lambda: reference_statement(1.0, upper=False),
    "reference lengths, from above": lambda: reference_statement(1.0, upper=True),
    "reference lengths, shorter": lambda: reference_statement(1.0, upper=False, error=2.0**-20),
    "reference lengths, longer": lambda: reference_statement(1.0, upper=True, error=2.0**-20),
    "tiny reference lengths, from below": lambda: reference_statement(2.0**-538, upper=False),
    "tiny reference lengths, from above": lambda: reference_statement(2.0**-538, upper=True),
    "inner": lambda: limits_statement("inner"),
    "outer": lambda: limits_statement("outer"),
    "inside": lambda: limits_statement("inside"),
    "start": start_statement,
    "bar of a screen": bar_statement,
    "coordinate": coordinate_statement,
    "product": lambda: product_statement(3),
    "product in float32": lambda: product_statement(40),
    "tiny product": lambda: product_statement(3, 2.0**-560),
    "tiny product in float32": lambda: product_statement(40, 2.0**-85, 2.0**-58),
    "tiny part of a product": lambda: part_statement(single=False),
    "tiny part of a product in float32": lambda: part_statement(single=True),
    "line of candidates": candidates_statement,
    "budget spent": spent_statement,
    "gone since": gone_statement,
    "margin": margin_statement,
    "vector by integers": lambda: integers_statement("error"),
    "relative error by integers": lambda: integers_statement("relative"),
    "tiny vector by integers": lambda: integers_statement("underflow"),
    "float below a ball": ball_statement,
    "bound from a margin": bound_from_margin_statement,
    "sums of four rows": four_rows_statement,
    "sums from slices": lambda: slices_statement(2048),
    "sums from slices of one row": lambda: slices_statement(1),
}
