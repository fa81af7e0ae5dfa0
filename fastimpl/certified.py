"""The float filter: float64 bounds that know when they do not know, and the way to exact arithmetic when they do not.

Every decision up to the test compares a quadratic form v^T G^-1 v, G = sum_i c_i v_i v_i^T, with a rational threshold. The
filter holds a float matrix W that nearly whitens G and encloses the form between rigorous bounds; a comparison that the
bounds leave open is made on integers (room ``exact``). There is no tolerance: a tie is always open, so always exact.

Assumptions of every bound: IEEE float64, round to nearest, sums in any order and with or without fused multiply-add, no
Strassen-like product in BLAS. u = 2^-53, and gamma_K = K u/(1 - K u) bounds the relative error of a product of K factors
(1 + delta), |delta| <= u (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Lemma 3.1 and section 3.1).
Bounds below use the larger K u times a constant with room to spare, for K u <= 2^-10.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from fastimpl.exact import QuadraticForm, integer_rows, root_ratio
from fastimpl.rows import Floats, Indices, Vectors

__all__ = [
    "SCALE",
    "Bounds",
    "Thresholds",
    "Whitening",
    "audit",
    "enclose",
    "exact_whitening",
    "float_whitening",
    "norm_bounds",
    "note",
    "removal_bounds",
    "thresholds",
    "whiten",
    "whiten_exactly",
]

UNIT_ROUNDOFF = 2.0**-53
SCALE = 200  # columns are scaled by powers of two to sizes about 2^200: far from overflow and from underflow
_BLOCK = 4096
_SHARP_ENOUGH = 2.0**-24  # a float whitening with a larger epsilon is not worth keeping
_ROUNDING = 2.0**-46  # covers the handful of roundings in the last scalar steps of a bound
_UNDERFLOW = 2.0**-480  # norms may be off by this much through underflow of squares; see whiten


# Audit ----------------------------------------------------------------------------------------------------------------

_tally: ContextVar[Counter[str] | None] = ContextVar("tally", default=None)


@contextmanager
def audit() -> Iterator[Counter[str]]:
    """Count, within the block, how many comparisons the float path ("float") and the exact path ("exact") decided.

    For audits only: the counts depend on the data, are not private, and are part of no result. Counted are rows whose
    level follows from bounds, and rows (covariance) or pairs of rows (mean) whose form was computed exactly.
    """
    tally: Counter[str] = Counter()
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def note(stage: str, count: int) -> None:
    """Tell a running audit, if there is one, that a stage decided ``count`` comparisons."""
    tally = _tally.get()
    if tally is not None and count:
        tally[stage] += count


# Enclosures -----------------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Lower and upper bounds, float64; 0 and infinity where nothing is known."""

    lower: Floats
    upper: Floats


class Thresholds(NamedTuple):
    """Exact nondecreasing thresholds and float64 numbers just below (or at) and just above (or at) them."""

    exact: tuple[Fraction, ...]
    below: Floats
    above: Floats


def enclose(numerator: int, denominator: int) -> tuple[float, float]:
    """Float64 numbers on both sides of a nonnegative rational: int/int is correctly rounded, so neighbours enclose it."""
    try:
        nearest = numerator / denominator
    except OverflowError:
        nearest = math.inf
    return max(0.0, math.nextafter(nearest, -math.inf)), math.nextafter(nearest, math.inf)


def thresholds(exact: Sequence[Fraction]) -> Thresholds:
    """Exact thresholds with their float enclosures."""
    sides = np.array([enclose(value.numerator, value.denominator) for value in exact], dtype=np.float64)
    return Thresholds(tuple(exact), sides[:, 0].copy(), sides[:, 1].copy())


# Whitening ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Whitening:
    """A float matrix W that whitens G, and how well.

    For every vector v

        |W* S v|^2/(1 + epsilon) <= v^T G^-1 v <= |W* S v|^2/(1 - epsilon),

    where S = diag(2^shift), and W* is a real matrix with |W* - W| <= 3u ``magnitude`` entry by entry, ``magnitude`` >= |W|.
    """

    matrix: Floats
    magnitude: Floats
    shift: NDArray[np.int64]
    epsilon: float


def _scaled(vectors: Vectors, shift: NDArray[np.int64]) -> Floats:
    return np.asarray(np.ldexp(vectors.rounded(), shift))


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, _BLOCK):
        yield slice(start, start + _BLOCK)


def _column_shift(vectors: Vectors, index: Indices) -> NDArray[np.int64] | None:
    """Powers of two that bring the largest entry of each column to [2^(SCALE-1), 2^SCALE); None if that cannot be done."""
    largest = np.zeros(vectors.width)
    for block in _blocks(len(index)):
        largest = np.maximum(largest, np.abs(vectors.take(index[block]).rounded()).max(axis=0, initial=0.0))
    if not np.isfinite(largest).all() or not largest.all():
        return None
    return SCALE - np.frexp(largest)[1].astype(np.int64)


def float_whitening(vectors: Vectors, index: Indices, counts: NDArray[np.int64] | None = None) -> Whitening | None:
    """A whitening of G = sum_{i in index} c_i v_i v_i^T from a float64 Gram matrix, or None if none can be certified.

    *Statement.* Let Y be the scaled exact vectors, g_j = (sum_i c_i Y_ij^2)^(1/2), and Ghat the computed Gram matrix, from
    rounded vectors, summed in blocks. With K = block length + number of blocks + 8, |Ghat - G| <= K u (1 + small) g g^T:
    each product carries at most K roundings (four from the vectors, one from c, one of its own, the sums), so
    |Ghat - G|_jl <= gamma_K sum_i c_i |Y_ij||Y_il| <= gamma_K g_j g_l (Cauchy-Schwarz). For any W whatsoever,

        |W G W^T - I|_F <= |fl(W Ghat W^T - I)|_F + (gamma_K + gamma_{2d+2}) (1 + small) | |W| g |^2 =: epsilon,

    because the computed triple product errs by at most gamma_{2d} |W||Ghat||W|^T and |Ghat| <= (1 + gamma_K) g g^T. If
    epsilon < 1 then (1 - epsilon) I <= W G W^T <= (1 + epsilon) I: G is positive definite, W is regular, and the Whitening
    inequality follows by inverting. How W was found (here: Cholesky) is of no concern to the proof.

    *Underflow, overflow.* Every g_j >= 2^(SCALE-1), so products that underflow (at most 2^-1073 |Y| each) vanish in
    K u g g^T; entries are at most 2^SCALE, so nothing overflows; columns of zeros and infinite differences return None.

    *Source.* Higham, 2nd ed., section 3.5 (inner and matrix products); Rump, Verification methods (2010), for the habit of
    checking an approximate factor afterwards.
    """
    d = vectors.width
    shift = _column_shift(vectors, index) if len(index) >= d else None
    if shift is None:
        return None
    gram, blocks = np.zeros((d, d)), 0
    for block in _blocks(len(index)):
        part = _scaled(vectors.take(index[block]), shift)
        gram += part.T @ (part if counts is None else part * counts[block, None])
        blocks += 1
    size = np.sqrt(np.diag(gram))
    w = _inverse_cholesky(gram, size)
    if w is None:
        return None
    terms = _BLOCK + blocks + 2 * d + 32
    residual = float(np.linalg.norm(w @ gram @ w.T - np.eye(d)))
    weight = float(np.sum((np.abs(w) @ size) ** 2))
    epsilon = 1.01 * (residual + terms * UNIT_ROUNDOFF * weight)
    if not epsilon <= _SHARP_ENOUGH:
        return None
    return Whitening(w, np.abs(w), shift, epsilon)


def _inverse_cholesky(gram: Floats, size: Floats) -> Floats | None:
    """An approximate inverse of the lower Cholesky factor, row scaling included; None where Cholesky breaks down."""
    try:
        lower = np.linalg.cholesky(gram / size / size[:, None])
        inverse: Floats = solve_triangular(lower, np.eye(len(gram)), lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return inverse / size


def exact_whitening(form: QuadraticForm) -> Whitening:
    """The whitening factor of an exact positive definite G, rounded entry by entry: epsilon is zero.

    *Statement.* With G = L D^-1 L^T and B = D L^-1 (integers), W* = D^(-1/2) B satisfies W* G W*^T = I exactly. Each entry
    B_jl/sqrt(D_j) is computed from an integer square root of at least 64 bits and rounded once, so it is off by at most
    2u relatively; an entry below 2^-1000 may be off by 2^-1074 <= 3u 2^-1000, so ``magnitude`` is kept at 2^-1000 there. An
    entry that overflows is infinite, and then so are the bounds that use it.
    """
    d, factor = form.width, form.factor
    sizes = [_log2_root(int(form.matrix[j, j])) + int(form.unit[j]) - form.exponent // 2 for j in range(d)]
    shift = np.array([SCALE - size for size in sizes], dtype=np.int64)
    w = np.zeros((d, d))
    magnitude = np.zeros((d, d))
    for j in range(d):
        for ell in range(j + 1):
            if factor.b[j][ell]:
                power = form.exponent // 2 - int(form.unit[ell] + shift[ell])
                w[j, ell] = root_ratio(factor.b[j][ell], factor.diagonal[j], power)
                magnitude[j, ell] = max(abs(w[j, ell]), 2.0**-1000)
    return Whitening(w, magnitude, shift, 0.0)


def _log2_root(square: int) -> int:
    return square.bit_length() // 2


def whiten(vectors: Vectors, whitening: Whitening) -> tuple[Floats, Floats]:
    """zhat_i = fl(W S vhat_i) and a bound on |zhat_i - W* S v_i|_2 for every row; infinite or NaN where nothing is known.

    *Statement.* Entry j of zhat errs by at most gamma_{d+6} sum_l magnitude_jl |S vhat|_l: d + 1 roundings of the product
    and sum, two of the difference v, three units of W. The norm of these bounds is computed in float64, to within a factor
    1 + gamma_{2d}; (2d + 16) u covers both. *Underflow:* a scaled entry may be off by 2^-1075 and is multiplied by W, a
    product by 2^-1075: together at most 2^-1073 d (1 + d max magnitude), added; the squares are the business of norm_bounds.
    """
    d = vectors.width
    scaled = _scaled(vectors, whitening.shift)
    z = scaled @ whitening.matrix.T
    spread = np.abs(scaled) @ whitening.magnitude.T
    error = (2 * d + 16) * UNIT_ROUNDOFF * np.sqrt(np.einsum("ij,ij->i", spread, spread))
    error += 2.0**-1070 * d * (1.0 + d * float(whitening.magnitude.max()))
    return z, error


def whiten_exactly(vectors: Vectors, form: QuadraticForm) -> tuple[Floats, Floats]:
    """As :func:`whiten` for the whitening of :func:`exact_whitening`, but from integers: for rows where cancellation is strong.

    *Statement.* Entry j is (B v)_j/sqrt(D_j) with the integer (B v)_j exact, so it is off by at most 2u of itself, or by
    2^-1074 where it underflows: the norm of the errors is at most 3u |zhat| + d 2^-1074.
    """
    factor = form.factor
    products = (fmpz_mat(integer_rows(vectors, form.unit)) * fmpz_mat(factor.b).transpose()).tolist()
    power = form.exponent // 2
    z = np.array(
        [
            [root_ratio(int(value), scale, power) for value, scale in zip(row, factor.diagonal, strict=True)]
            for row in products
        ]
    )
    size = np.sqrt(np.einsum("ij,ij->i", z, z))
    note("whitened", len(z))
    return z, 4 * UNIT_ROUNDOFF * size + 2.0**-500


def norm_bounds(z: Floats, error: Floats, epsilon: float) -> Bounds:
    """Bounds on v^T G^-1 v from zhat, |zhat - W* S v| <= error, and the epsilon of the whitening.

    *Statement.* |W* S v| lies within error of |zhat|, whose float value is right to gamma_{d+2}/2 relatively and, where
    squares underflow, to _UNDERFLOW absolutely (sqrt(d 2^-1074) is below it for every d < 2^100).
    """
    d = z.shape[1]
    slack = (d + 8) * UNIT_ROUNDOFF + _ROUNDING
    norm = np.sqrt(np.einsum("ij,ij->i", z, z))
    lower = np.maximum(norm * (1 - slack) - error * (1 + slack) - _UNDERFLOW, 0.0) ** 2
    upper = (norm * (1 + slack) + error * (1 + slack) + _UNDERFLOW) ** 2
    lower *= (1 - _ROUNDING) / (1 + epsilon)
    upper *= (1 + _ROUNDING) / (1 - epsilon)
    known = np.isfinite(lower) & np.isfinite(upper)
    return Bounds(np.where(known, lower, 0.0), np.where(known, upper, np.inf))


def removal_bounds(z: Floats, error: Floats, gone: Floats, gone_error: Floats, epsilon: float) -> Bounds | None:
    """Bounds on v^T (G - sum_{i gone} v_i v_i^T)^-1 v from vectors whitened for G; None if none can be certified.

    *Statement.* W* (G - sum v_i v_i^T) W*^T = I - sum zhat_i zhat_i^T + E with |E|_F <= epsilon +
    sum (2 |zhat_i| error_i + error_i^2), and the computed M = I - sum zhat zhat^T errs by at most
    gamma_{r+1} (1 + sum |zhat_i|^2), r vectors gone. For any V, |V (M + E) V^T - I|_F is at most the computed residual, plus
    gamma_{2d+2} |V|_F^2 (|M|_F + 1), plus |E|_F |V|_F^2 =: epsilon'. If epsilon' < 1 then V W* whitens with epsilon', and
    fl(V zhat) errs from V W* S v by |V|_F error + gamma_d |V|_F |zhat|.
    """
    d = z.shape[1]
    if not (np.isfinite(gone).all() and np.isfinite(gone_error).all()):
        return None
    m = np.eye(d) - gone.T @ gone
    lengths = np.sqrt(np.einsum("ij,ij->i", gone, gone))
    loose = epsilon + float(np.sum(2 * lengths * gone_error + gone_error**2))
    loose += (len(gone) + 8) * UNIT_ROUNDOFF * (1 + float(np.sum(lengths**2)))
    v = _inverse_cholesky(m, np.ones(d))
    if v is None:
        return None
    size = float(np.linalg.norm(v))
    residual = float(np.linalg.norm(v @ m @ v.T - np.eye(d)))
    rounding = (2 * d + 16) * UNIT_ROUNDOFF * (float(np.linalg.norm(m)) + 1)
    new_epsilon = (residual + (rounding + loose) * size**2) * 1.01
    if not new_epsilon <= 8 * max(_SHARP_ENOUGH, epsilon):
        return None
    length = np.sqrt(np.einsum("ij,ij->i", z, z))
    new_error = 1.01 * size * (error + (d + 8) * UNIT_ROUNDOFF * length + _UNDERFLOW)
    return norm_bounds(z @ v.T, new_error, new_epsilon)
