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
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from fastimpl.blas import Multiplier
from fastimpl.exact import LARGE, QuadraticForm, column_units, integer_rows, inverse_root, root_ratio_pair
from fastimpl.grams import SCALE, BlockGrams, KeptGram, blocks, column_shift
from fastimpl.limits import Ratio, Thresholds, enclose, thresholds
from fastimpl.rows import Dense, Floats, Indices, Sparse, Vectors, new_arrays
from fastimpl.threads import share, spread, thread_count

__all__ = [
    "Bounds",
    "Growth",
    "Lengths",
    "Ratio",
    "Removal",
    "Thresholds",
    "Whitening",
    "above_line",
    "audit",
    "enclose",
    "exact_whitening",
    "float_whitening",
    "growth_bounds",
    "kept_whitening",
    "norm_bounds",
    "note",
    "reach",
    "removal_bounds",
    "removal_whitening",
    "surely_above",
    "thresholds",
    "transfer",
    "turned",
    "whiten",
]

UNIT_ROUNDOFF = 2.0**-53
_RANGE = 800  # Gram matrices whose diagonal lies in 2^-800..2^800 have neither under- nor overflowed
_SHARP = 2.0**-24  # a float whitening with a larger epsilon may be worth refining
_SHARP_ENOUGH = 2.0**-10  # and with one larger than this it is not worth keeping
_TIGHT = 2.0**-7  # relative errors of whitened vectors beyond this say too little
SINGLE_FROM = 8  # columns from which float32 pays
_NUMBERS = 1 << 16  # products that are held at a time
_ROUNDING = 2.0**-46  # covers the handful of roundings in the last scalar steps of a bound


# Audit ----------------------------------------------------------------------------------------------------------------

_tally: ContextVar[Counter[str] | None] = ContextVar("tally", default=None)
_tally_lock = Lock()


@contextmanager
def audit() -> Iterator[Counter[str]]:
    """Count, within the block, how many comparisons each stage decided: "float", "direct", "pairs" and "exact".

    For audits only: the counts depend on the data, are not private, and are part of no result. Counted are rows whose
    level follows from float bounds alone ("direct": of single differences), pairs of rows that pairs of floats tell apart,
    and rows (covariance) or pairs of rows (mean) whose form was computed exactly, or between balls of 512 bits. "count" are
    rows of whose distances nothing has to be known: as many reference rows may be far as there are. "F2", "F3" and "F4"
    say how a base was whitened.

    Yields
    ------
    Counter of str
        The counts, complete once the block has been left.

    Privacy
    -------
    Not private.
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
        with _tally_lock:
            tally[stage] += count


# Enclosures -----------------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Lower and upper bounds, float64; 0 and infinity where nothing is known."""

    lower: Floats
    upper: Floats


# Bounds ---------------------------------------------------------------------------------------------------------------
# The relative errors that everything rests on, each proved where it is used; a test shows for each that it is needed.


def gram_error(roundings: int, d: int) -> float:
    """Of a Gram matrix in float64 and of the product that checks a whitening of it: see :func:`_gram_whitening`."""
    return (roundings + 2 * d + 32) * UNIT_ROUNDOFF


def vector_error(d: int, units: int) -> float:
    """Of a whitened vector, relative to magnitude |S v|: see :class:`Whitening`."""
    return 1.01 * (d + 8 + units) * UNIT_ROUNDOFF


def pair_error(d: int) -> float:
    """Of a vector whitened in pairs of floats, likewise: see :func:`_whiten_twice`."""
    return 2 * (3 * d + 12) * (d + 6) * UNIT_ROUNDOFF**2


def whole_error() -> float:
    """Of a vector whitened by integers, relative to itself: see :func:`_whiten_by_integers`."""
    return 8 * UNIT_ROUNDOFF


def length_error(d: int, unit: float) -> float:
    """Of a sum of d squares and what is done with it: gamma_{d+2}, and a dozen roundings to spare."""
    return (2 * d + 32) * unit


def underflow_error(d: int) -> float:
    """Of the length of d coordinates, absolutely, where squares underflow.

    A square is off by 2^-1075 at most, sums of subnormal numbers are exact, and |a^(1/2) - b^(1/2)| <= |a - b|^(1/2): that
    makes (d 2^-1075)^(1/2). The rest, a factor of 2^(3/2), is for the square of a bound, which underflows as well.
    """
    return 2.0**-536 * math.sqrt(d)


def product_error(d: int, unit: float, relative: float) -> float:
    """Of an inner product of whitened vectors: see ``screen._Products``."""
    return 5 * relative + 4 * (d + 16) * unit


# Whitening ------------------------------------------------------------------------------------------------------------


class InIntegers(NamedTuple):
    """W* itself: for a vector v in units of 2^unit, entry j of W* S v is that of v^T ``columns`` times root_j 2^power_j.

    ``columns`` is an integer matrix; a root is off by 2 u at most.
    """

    columns: fmpz_mat
    roots: Floats
    powers: NDArray[np.int64]
    unit: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Whitening:
    """A float matrix W that whitens G, and how well.

    For every vector v, with S = diag(2^shift),

        |W* S v|^2/(1 + epsilon) <= v^T G^-1 v <= |W* S v|^2/(1 - epsilon),
        |fl(W S v) - W* S v| <= relative |W* S v| + underflow,

    where W* is a real matrix with |W* - W| <= units u ``magnitude`` entry by entry, and ``magnitude`` >= |W|. The computed
    vector is float64, from the rounded difference v, with products in any order.
    """

    matrix: Floats
    magnitude: Floats
    shift: NDArray[np.int64]
    size: Floats
    epsilon: float
    units: int
    rest: Floats | None = None
    whole: InIntegers | None = None

    @property
    def slow(self) -> bool:
        """Whether vectors are whitened in another way than by one product of floats."""
        return self.rest is not None or self.whole is not None

    @cached_property
    def relative(self) -> float:
        """The bound on relative errors of whitened vectors.

        *Statement.* Let ``size`` be g, g_l = (S G S)_ll^(1/2), up to a factor 1.001. Entry j of fl(W S v) errs from W* S v
        by at most (d + 8 + units) u (magnitude |S v|)_j: d + 1 roundings of product and sum, two of the difference v, two
        of its scaling, ``units`` of W. By Cauchy-Schwarz in the metric G, |S v|_l <= g_l (v^T G^-1 v)^(1/2) <=
        g_l |W* S v| (1 - epsilon)^(-1/2), for every v, whether it is a term of G or not. So the error is at most
        (d + 8 + units) u | magnitude g |_2 |W* S v| (1 - epsilon)^(-1/2). With ``rest``, see :func:`_whiten_twice`,
        with ``whole`` :func:`_whiten_by_integers`.
        """
        if self.whole is not None:
            return whole_error()
        with np.errstate(over="ignore"):
            spread = float(np.linalg.norm(self.magnitude @ self.size)) / math.sqrt(1 - self.epsilon)
        if self.rest is not None:
            bound = 4 * UNIT_ROUNDOFF + pair_error(len(self.size)) * spread
        else:
            bound = vector_error(len(self.size), self.units) * spread
        return bound if math.isfinite(bound) else math.inf

    @cached_property
    def underflow(self) -> float:
        """A scaled entry may be off by 2^-1074, and is multiplied by W; a product may be off by 2^-1074."""
        d, largest = len(self.size), 0.0 if self.whole is not None else float(self.magnitude.max())
        return 2.0**-1070 * d * (1.0 + d * largest)

    @cached_property
    def transposed(self) -> Floats:
        """W^T, in the order that BLAS likes."""
        return np.ascontiguousarray(self.matrix.T)


def float_whitening(grams: BlockGrams, counts: Sparse) -> Whitening | None:
    """A whitening of G = sum_i c_i v_i v_i^T from a float64 Gram matrix, or None if none can be certified.

    Columns are scaled anew if the kept Gram matrices under- or overflow, and an ill-conditioned matrix is whitened again in
    the coordinates that a first attempt gives (stage F2).
    """
    if counts.held < grams.vectors.width:
        return None
    given, total = grams, grams.total(counts)
    if not _in_range(total):
        shift = column_shift(grams.vectors, counts)
        if shift is None:
            return None
        grams = BlockGrams(grams.vectors, shift)
        total = grams.total(counts)
    if not _in_range(total):
        return None
    first = _gram_whitening(total, grams.shift, grams.roundings)
    if first is not None and first.epsilon <= _SHARP:
        return first
    refined = _refined_whitening(grams, counts, total)
    given.refined = None if refined is None or isinstance(counts, Dense) else (counts, refined)
    return refined or first


def kept_whitening(kept: KeptGram, vectors: Vectors, counts: Sparse) -> Whitening | None:
    """The same from what the covariance stage has kept; None if that is another's, or would have to be refined."""
    if not kept.stands_for(vectors, counts):
        return None
    if _in_range(kept.total):
        found = _gram_whitening(kept.total, kept.shift, kept.roundings)
        if found is not None and found.epsilon <= _SHARP:
            return found
    if kept.refined is None or not counts.usual:
        return None
    base, whitening = kept.refined  # these are 0 and 1
    return _divided(whitening, counts.usual) if base.mapped(np.array([0, counts.usual])).equals(counts) else None


def _divided(whitening: Whitening, count: int) -> Whitening:
    """W* count^(-1/2), which whitens count times G as well as W* whitens G; a root, a quotient, a product: three roundings."""
    root = math.sqrt(count)
    matrix, magnitude = whitening.matrix / root, whitening.magnitude * ((1 + 2.0**-10) / root)
    size, units = whitening.size * (root * (1 + _ROUNDING)), whitening.units + 3
    return replace(whitening, matrix=matrix, magnitude=magnitude, size=size, units=units)


def _in_range(gram: Floats) -> bool:
    sizes = np.diag(gram)
    return bool(np.all(sizes >= 2.0**-_RANGE) and np.all(sizes <= 2.0**_RANGE))


def _gram_whitening(gram: Floats, shift: NDArray[np.int64], roundings: int) -> Whitening | None:
    """Stage F1: a whitening from the computed Gram matrix alone, or None.

    *Statement.* Let Y be the scaled exact vectors, g_j = (sum_i c_i Y_ij^2)^(1/2), and Ghat the computed Gram matrix, from
    rounded vectors, summed in blocks: a product goes through at most ``roundings`` additions. With K = roundings + 8,
    |Ghat - G| <= K u (1 + small) g g^T: each product carries at most K roundings (four from the vectors, two from c, one of
    its own, the sums), so |Ghat - G|_jl <= gamma_K sum_i c_i |Y_ij||Y_il| <= gamma_K g_j g_l (Cauchy-Schwarz). For any W,

        |W G W^T - I|_F <= |fl(W Ghat W^T - I)|_F + (gamma_K + gamma_{2d+2}) (1 + small) | |W| g |^2 =: epsilon,

    because the computed triple product errs by at most gamma_{2d} |W||Ghat||W|^T and |Ghat| <= (1 + gamma_K) g g^T. If
    epsilon < 1 then (1 - epsilon) I <= W G W^T <= (1 + epsilon) I: G is positive definite, W is regular, and the Whitening
    inequality follows by inverting. How W was found (here: Cholesky) is of no concern to the proof.

    *Underflow, overflow.* Every g_j^2 lies in 2^-800..2^800 (checked, so nothing overflowed). A product that underflows, and
    a scaled entry that does, is off by at most 2^-1074 times 2^400: for m < 2^53 terms that is below 2^-100 K u g g^T.

    *Source.* Higham, 2nd ed., section 3.5 (inner and matrix products); Rump, Verification methods (2010), for the habit of
    checking an approximate factor afterwards.
    """
    d = len(gram)
    size = np.sqrt(np.diag(gram))
    w = _inverse_cholesky(gram, size)
    if w is None:
        return None
    residual = float(np.linalg.norm(w @ gram @ w.T - np.eye(d)))
    weight = float(np.sum((np.abs(w) @ size) ** 2))
    epsilon = 1.01 * (residual + gram_error(roundings, d) * weight)
    if not epsilon <= _SHARP_ENOUGH:
        return None
    return Whitening(w, np.abs(w), shift, size, epsilon, 0)


def _refined_whitening(grams: BlockGrams, counts: Sparse, gram: Floats) -> Whitening | None:
    """Stage F2: the Gram matrix once more in coordinates that are nearly white already, up to three times; or None.

    *Statement.* Let zhat_i = fl(W S v_i) for the current W, within units u magnitude of W* (see :class:`Whitening`), and
    Hhat the computed sum c_i zhat_i zhat_i^T. With Delta = (d + 8 + units) u | magnitude g |, Minkowski's inequality gives
    (sum_i c_i |zhat_i - W* S v_i|^2)^(1/2) <= Delta, so by Cauchy-Schwarz

        |Hhat - W* S G S W*^T|_F <= 2 Delta (tr Hhat)^(1/2) + Delta^2 + gamma_K tr Hhat =: E.

    For any V, |V W* S G S W*^T V^T - I|_F <= |fl(V Hhat V^T - I)|_F + (E + gamma_{2d+2} |Hhat|_F) |V|_F^2 =: epsilon. The
    new matrix is V W*, its float value fl(V W) errs by at most (units + d + 2) u |V| magnitude. The bound grows with the
    condition number of the rows where that of F1 grows with its square (CholeskyQR2: Yamamoto et al., 2015).
    """
    d = len(gram)
    size = np.sqrt(np.diag(gram))
    w = _inverse_cholesky(gram, size, shift=True)
    if w is None:
        return None
    magnitude, units = np.abs(w), 0
    for _ in range(3):
        white = _white_gram(grams, counts, w)
        v = _inverse_cholesky(white, np.sqrt(np.diag(white))) if np.isfinite(white).all() else None
        if v is None:
            return None
        trace, length = float(np.trace(white)), float(np.linalg.norm(v))
        delta = vector_error(d, units) * float(np.linalg.norm(magnitude @ size))
        rounding = gram_error(grams.roundings, d) * trace
        residual = float(np.linalg.norm(v @ white @ v.T - np.eye(d)))
        epsilon = 1.01 * (residual + (2 * delta * math.sqrt(trace) + delta**2 + rounding) * length**2)
        w, magnitude, units = v @ w, np.abs(v) @ magnitude, units + d + 2
        if epsilon <= _SHARP_ENOUGH:
            note("F2", 1)
            return Whitening(w, magnitude, grams.shift, size, epsilon, units)
    return None


def _white_gram(grams: BlockGrams, counts: Sparse, w: Floats) -> Floats:
    steps, transposed = blocks(counts.size, grams.step), np.ascontiguousarray(w.T)

    def work(part: range) -> Floats:
        total, buffer = np.zeros_like(w), np.empty((grams.step, len(w)))
        for block in steps[part.start : part.stop]:
            rows, c = grams.read(block, buffer), counts.block(block)
            if not c.all():
                rows[c == 0] = 0.0
            z = rows @ transposed
            total += np.dot(z.T, z if (c == c[0]).all() and c[0] == 1 else z * c[:, None])
        return total

    return np.asarray(sum(spread(work, len(steps), thread_count(counts.size * len(w)))))


def _inverse_cholesky(gram: Floats, size: Floats, *, shift: bool = False) -> Floats | None:
    """An approximate inverse of the lower Cholesky factor, row scaling included; None where Cholesky breaks down."""
    d = len(gram)
    scaled = gram / size / size[:, None]
    for more in (0.0, 1e-14 * d, 1e-12 * d) if shift else (0.0,):
        try:
            lower = np.linalg.cholesky(scaled + more * np.eye(d))
        except np.linalg.LinAlgError:
            continue
        inverse, singular = dtrtri(lower.T)  # of the upper triangular one, so that nothing has to be copied to turn it
        if not singular:
            return np.asarray(inverse.T / size)
    return None


def exact_whitening(form: QuadraticForm, relative: float = _SHARP) -> Whitening:
    """The whitening factor of an exact positive definite G, rounded entry by entry: epsilon is zero.

    *Statement.* With G = L D^-1 L^T and B = D L^-1 (integers), W* = D^(-1/2) B satisfies W* G W*^T = I exactly. Each entry
    B_jl/sqrt(D_j) is computed from an integer square root of at least 64 bits (or, in many dimensions, enclosed by a ball as
    small as that: Arb, Johansson 2017) and rounded once, so it is off by at most 2u relatively; an entry below 2^-900 may be
    off by 2^-1004 (:func:`fastimpl.exact.inverse_root`), so ``magnitude`` is kept at 2^-952 there: 3 u 2^-952 is more. An
    entry that overflows is infinite, and then so are the bounds that use it. What the rounding left is kept as ``rest``, to
    2^-104 of the entry, and used where W alone would say little; of an entry below 2^-900 it is good to 2^-1004, which is
    nothing beside 2^-100 of the column's length, at least 1/g_l >= 2^-(SCALE + 1). Where that says little, too, the integers
    of B are kept (``whole``). Little is less than to this ``relative`` error.
    """
    d = form.width
    sizes = [_log2_root(int(form.matrix[j, j])) + int(form.unit[j]) - form.exponent // 2 for j in range(d)]
    shift = np.array([SCALE - size for size in sizes], dtype=np.int64)
    w, rest = inverse_root(form, shift)
    magnitude = np.tril(np.maximum(np.abs(w), 2.0**-952))
    size = np.full(d, 2.0 ** (SCALE + 1))  # (S G S)_jj < 2^(2 SCALE + 1)
    plain = Whitening(w, magnitude, shift, size, 0.0, 3)
    if plain.relative <= relative:
        return plain
    twice = replace(plain, rest=rest)
    return twice if twice.relative <= relative or d >= LARGE else replace(plain, whole=_in_integers(form))


def _in_integers(form: QuadraticForm) -> InIntegers:
    """The same without rounding: W* = D^(-1/2) B, and B is integers."""
    powers = [value.bit_length() // 2 for value in form.factor.diagonal]
    roots = [root_ratio_pair(1, value, power)[0] for value, power in zip(form.factor.diagonal, powers, strict=True)]
    scale = form.exponent // 2 - np.array(powers, dtype=np.int64)
    return InIntegers(fmpz_mat(form.factor.b).transpose(), np.array(roots), scale, form.unit)


def _log2_root(square: int) -> int:
    return square.bit_length() // 2


def _scaled(vectors: Vectors, shift: NDArray[np.int64]) -> Floats:
    rows = vectors.rounded()
    return np.asarray(np.ldexp(rows, shift)) if shift.any() else rows


def whiten(vectors: Vectors, whitening: Whitening) -> tuple[Floats, Floats]:
    """zhat_i = fl(W S vhat_i) and a bound on |zhat_i - W* S v_i|_2 for every row; infinite or NaN where nothing is known.

    *Statement.* The error is at most relative |W* S v|, and |W* S v| <= |zhat|/(1 - relative); or, entry by entry, at most
    (d + 8 + units) u magnitude |S vhat| (see :class:`Whitening`), which is the smaller one where v is not among the large
    terms of G. Underflow is added, also of the squares of which this is made; that of the squares of zhat itself is the
    business of norm_bounds.
    """
    if whitening.whole is not None:
        return _whiten_by_integers(vectors, whitening.whole)
    if whitening.rest is not None:
        return _whiten_twice(vectors, whitening)
    d = vectors.width
    scaled = _scaled(vectors, whitening.shift)
    z = scaled @ whitening.transposed
    relative = whitening.relative
    error = np.full(len(z), np.inf)
    if relative <= _TIGHT:
        error = (
            relative * (1 + 2 * relative) * (1 + length_error(d, UNIT_ROUNDOFF)) * np.sqrt(np.einsum("ij,ij->i", z, z))
        )
    if relative > _SHARP:
        spread = np.abs(scaled) @ whitening.magnitude.T
        factor = vector_error(2 * d + 8, whitening.units)  # d more for the length itself
        error = np.fmin(error, factor * np.sqrt(np.einsum("ij,ij->i", spread, spread)))
    error += whitening.underflow + underflow_error(d)
    return z, error


def _split(a: Floats) -> tuple[Floats, Floats]:
    """A as a sum of two numbers of 26 bits (Veltkamp); NaN where that overflows."""
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def _whiten_twice(vectors: Vectors, whitening: Whitening) -> tuple[Floats, Floats]:
    """As :func:`whiten`, in pairs of floats: for forms so thin that the terms of W S v cancel almost completely.

    *Statement.* S v = s + e exactly (one TwoSum; a vector of four rows is not known that well, so NaN). For each term,
    s W = p + q exactly (Dekker's product: no FMA is assumed), and p is added to a running sum with TwoSum, whose error joins
    q + s rest + e W in a second sum. With A = |W||s|: |q| sums to u A, |e W| to u A, |s rest| to 2 u A, and each of d errors
    of TwoSum is at most u A. So the second sum has at most 3 d + 8 additions of terms that sum to (d + 4) u A, and errs by
    at most (3 d + 8)(d + 4) u^2 A (1 + small); e rest is left out (2 u^2 A), W + rest is off by 2^-100 A, and the total is
    rounded once: together at most (3 d + 12)(d + 6) u^2 A + 2 u |z|. By Cauchy-Schwarz as in :class:`Whitening` that is at
    most ``relative`` |W* S v| as well. *Underflow* loses at most 2^-1070 in each of 8 d operations, times
    max(1, |W|, 2^SCALE).

    *Source.* Dekker (1971); Ogita, Rump and Oishi, Accurate sum and dot product (2005).
    """
    d, matrix, rest = vectors.width, whitening.transposed, whitening.rest
    assert rest is not None
    s, e = (np.ldexp(part, whitening.shift) for part in vectors.as_pair())
    (s1, s2), (w1, w2) = _split(s), _split(matrix)
    total, low = np.zeros((len(s), d)), e @ matrix + s @ rest.T
    for ell in range(d):
        product = s[:, ell, None] * matrix[ell]
        a1, a2 = s1[:, ell, None], s2[:, ell, None]
        low += a2 * w2[ell] - (((product - a1 * w1[ell]) - a2 * w1[ell]) - a1 * w2[ell])
        old, total = total, total + product
        virtual = total - old
        low += (old - (total - virtual)) + (product - virtual)
    z = total + low
    note("F3", len(z))
    size = np.sqrt(np.einsum("ij,ij->i", z, z))
    spread = np.abs(s) @ whitening.magnitude.T
    error = 4 * UNIT_ROUNDOFF * (size + underflow_error(d))
    error += pair_error(d) * np.sqrt(np.einsum("ij,ij->i", spread, spread))
    return z, error + 2.0**-1070 * 8 * d * (2.0 ** (SCALE + 60) + float(whitening.magnitude.max()))


def _whiten_by_integers(vectors: Vectors, whole: InIntegers) -> tuple[Floats, Floats]:
    """As :func:`whiten`, without a rounding before the last ones: for forms so thin that no digit of pairs of floats is left.

    *Statement.* V^T B^T is computed on integers, for vectors in units of which all are multiples. An entry is cut to 64 bits
    (2^-63), rounded (u), multiplied (u) with a root (2 u) and scaled; so it is off by 5 u of itself, or by underflow. Of rows
    that are not finite nothing is known.
    """
    d, known = vectors.width, np.logical_and.reduce([np.isfinite(part).all(axis=1) for part in vectors.parts])
    z = np.full((len(vectors), d), np.nan)
    some = vectors.take(np.flatnonzero(known))
    if len(some):
        unit = np.minimum(column_units(some), whole.unit)
        up = (whole.unit - unit).max() - (whole.unit - unit)
        rows = [
            [value << more for value, more in zip(row, up.tolist(), strict=True)] for row in integer_rows(some, unit)
        ]
        entries = [int(value) for value in (fmpz_mat(rows) * whole.columns).entries()]
        cuts = [max(0, value.bit_length() - 64) for value in entries]
        leading = np.array([value >> cut for value, cut in zip(entries, cuts, strict=True)], dtype=np.float64)
        powers = np.array(cuts).reshape(-1, d) + (whole.powers - (whole.unit - unit).max())
        z[known] = np.ldexp(leading.reshape(-1, d) * whole.roots, powers)
    note("F4", len(z))
    return z, whole_error() * np.sqrt(np.einsum("ij,ij->i", z, z)) + underflow_error(d)


# Bounds on forms ------------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """What holds vectors: :class:`Vectors` or :class:`Centred`."""

    def __len__(self) -> int:
        """How many vectors there are."""

    @property
    def width(self) -> int:
        """D, the number of columns."""

    @property
    def step(self) -> int:
        """How many vectors are read at most."""

    def take(self, index: Indices | slice) -> Vectors:
        """Some of the vectors, exactly."""

    def read(self, block: slice, buffer: Floats) -> Floats:
        """The vectors of a block, rounded."""


class Lengths:
    """Squared lengths of all whitened vectors, block by block, in float64 or, where that is safe and pays, in float32.

    *Statement.* With q ``factor`` times what :meth:`of` gives, shrink q - tiny <= |W* S v|^2 <= grow q + tiny where q is
    a number; NaN and infinity say nothing. In float64: vectors are right to ``relative``, a square and the sum of d squares to
    gamma_{d+2}, and (a + b)^2 <= (1 + 2^-50) a^2 + (1 + 2^50) b^2 keeps underflow b of a vector apart; that of d squares, and
    of what is done with numbers so small, is below d 2^-1070. ``length_error`` holds (d + 30) u more than gamma_{d+2}, which
    covers 2^-50 = 8 u and the ten roundings of :meth:`bar` and :meth:`enclosed`.
    *In float32*, u' = 2^-24 takes the place of u, and S W is scaled by 2^power, |power| <= 30, so that ``limit`` becomes about
    1: vector and W are rounded once more each. Entries of W off by 2^-150 through underflow add d^(3/2) 2^-150 2^60 2^30 <=
    d 2^-48 to the relative error, because g is at most 2^60. Entries of a vector and products that underflow, 2^-150 each,
    make at most b = d^(3/2) 2^-150 (1 + max |2^power W|); what ``length_error`` has to spare is at least 2^-20 here, so
    (1 + 2^20) b^2 and d 2^-148 for the squares keep these apart. What is beyond 2^127 is infinite.
    """

    def __init__(self, reader: Reader, whitening: Whitening, *, limit: float) -> None:
        d = reader.width
        self.reader, self._whitening = reader, whitening
        self._shift = whitening.shift if whitening.shift.any() else None
        self.single = self._fits_single(limit)
        kind = np.float32 if self.single else np.float64
        self.power = -math.frexp(limit)[1] // 2 if self.single else 0
        self.factor = 2.0 ** (-2 * self.power)
        self._matrix = np.ldexp(whitening.transposed, self.power).astype(kind)
        self._multiplier = Multiplier(self._matrix)
        self._ones = np.ones(d, dtype=kind)
        self.make_room()
        self.relative = whitening.relative
        if self.single:
            self.relative = 1.01 * (whitening.relative * (1 + 2.0**29)) + d * 2.0**-48
        self.unit = 2.0**-24 if self.single else UNIT_ROUNDOFF
        slack = length_error(d, self.unit)
        known = self.relative < _TIGHT
        self.shrink = (1 - slack) / (1 + self.relative) ** 2 if known else 0.0
        self.grow = (1 + slack) / (1 - self.relative) ** 2 if known else math.inf
        self.tiny = 2.0**-1070 * d + (2.0**26 * whitening.underflow) ** 2
        if self.single:
            lost = 2.0**-150 * d**1.5 * (1 + float(np.abs(self._matrix).max()))
            self.tiny = self.factor * (2.0**-148 * d + (2.0**11 * lost) ** 2)

    def make_room(self) -> None:
        """Take room for a block of vectors."""
        step, d, kind = self.reader.step, self.reader.width, self._matrix.dtype.type
        self._buffer, self._squares, self._z = new_arrays((step, d), np.float64, kind, kind)

    def split(self) -> Lengths:
        """The same, with room of its own: what one thread works with."""
        other = copy(self)
        other.make_room()
        return other

    def among(self, reader: Reader) -> Lengths:
        """The same for other vectors, no more than there is room for, in the same room."""
        other = copy(self)
        other.reader = reader
        return other

    @property
    def unscaled(self) -> bool:
        """Whether ``rows`` holds the vectors as they were read."""
        return self._shift is None

    def _fits_single(self, limit: float) -> bool:
        w, size = self._whitening, self._whitening.size
        if len(size) < SINGLE_FROM or self._shift is not None or w.slow or not 2.0**-60 < limit < 2.0**60:
            return False
        largest = float(np.abs(w.matrix).max()) / math.sqrt(limit)
        moderate = float(size.min()) >= 2.0**-60 and float(size.max()) <= 2.0**60 and largest <= 2.0**89
        return moderate and w.relative * 2.0**29 < 2.0**-8

    def bar(self, limit: float) -> float:
        """A number such that |W* S v|^2 <= limit for every vector for which :meth:`of` gives at most that."""
        if math.isinf(self.grow):
            return -1.0  # of no vector is anything known: not even where all that was computed is 0
        return (limit - self.tiny) / self.grow / self.factor

    def enclosed(self, q: NDArray[Any]) -> tuple[Floats, Floats]:
        """Bounds on |W* S v| from what :meth:`of` gives; 0 and infinity where nothing is known.

        That is so for the largest numbers, too: what is added to a square must not overflow, or it would look far away.
        """
        squares = q.astype(np.float64) * self.factor
        lower = np.sqrt(np.maximum(squares * self.shrink - self.tiny, 0.0))
        upper = np.sqrt(squares * self.grow + self.tiny)
        known = np.isfinite(upper) & (q <= np.finfo(q.dtype).max / 4)
        return np.where(known, lower, 0.0), np.where(known, upper, np.inf)

    def of(self, block: slice) -> NDArray[Any]:
        """The computed squared lengths of a block of at most ``step`` vectors; ``rows`` and ``z`` hold the vectors."""
        self.rows = rows = self.reader.read(block, self._buffer)
        if self._shift is not None:
            np.ldexp(rows, self._shift, out=rows)
        if self._whitening.slow:
            self.z = whiten(self.reader.take(block), self._whitening)[0]
        else:
            narrow: NDArray[Any] = rows
            if self.single and not self._multiplier.triangular:
                narrow = self._squares[: len(rows)]  # until the squares are there
                narrow[:] = rows
            self.z = self._multiplier.of(narrow, self._z[: len(rows)])
        squares = np.multiply(self.z, self.z, out=self._squares[: len(rows)])
        return np.asarray(squares @ self._ones)


def above_line(reader: Reader, whitening: Whitening, line: float, some: slice = slice(None)) -> tuple[Indices, Floats]:
    """The vectors whose forms are not surely at most ``line``, and upper bounds on their forms; of ``some`` blocks."""
    lengths = Lengths(reader, whitening, limit=line)
    bar, parts = lengths.bar(line * (1 - whitening.epsilon)), blocks(len(reader), reader.step)[some]

    def work(part: Iterator[int]) -> list[tuple[Indices, Floats]]:
        own, found = lengths.split(), []
        for i in part:
            block = parts[i]
            q = own.of(block)
            if not q.max() <= bar:  # NaN included
                where = np.flatnonzero(~(q <= bar))
                forms = own.enclosed(q[where])[1] ** 2 / (1 - whitening.epsilon) * (1 + _ROUNDING)
                found.append((where + block.start, forms))
        return found

    found = [pair for part in share(work, len(parts), thread_count(len(reader) * reader.width)) for pair in part]
    found.sort(key=lambda pair: int(pair[0][0]))
    index = np.concatenate([np.empty(0, dtype=np.int64), *(where for where, _ in found)])
    return index, np.concatenate([np.empty(0), *(forms for _, forms in found)])


def transfer(whitening: Whitening, matrix: Floats, squares: Floats, *, single: bool = False) -> Floats:
    """Upper bounds on v^T G^-1 v from squared lengths of fl(B S v) that another matrix B gave; B has been inverted in floats.

    *Statement.* Let C be any matrix, here fl(W fl(B^-1)), and E = W* - C B. Then W* S v = C B S v + E S v. With
    |S v|_l <= g_l f^(1/2), f = v^T G^-1 v, and |fl(B S v) - B S v| <= (d + 8) u | |B| g | f^(1/2) =: eta f^(1/2) (both as in
    :class:`Whitening`), (1 - epsilon)^(1/2) f^(1/2) <= |W* S v| <= |C| (q^(1/2) + eta f^(1/2)) + | |E| g | f^(1/2), where q
    is the computed square up to gamma_{d+2}. So f^(1/2) <= |C| q^(1/2)/((1 - epsilon)^(1/2) - |C| eta - | |E| g |), infinite
    if the denominator is not positive. |E| <= |fl(W - C B)| + (2 d u)(|C||B| + |W|) + units u magnitude, and |C|^2 <= s +
    |fl(C C^T) - s I| + 2 d u |C|_F^2 for any s. Underflow: as in :func:`norm_bounds`, times
    max(|C|, 1), with room to spare for squares that underflow again.
    *In float32* (``single``) u' = 2^-24 takes the place of u, with two roundings more, of S v and of B. Underflows of their
    entries and of products (2^-150 each) stay below d^2 2^-58 (1 + 2^-30 f^(1/2)) because |B| is below 2^90 and g below 2^60
    (checked); what is beyond 2^127 is infinite, and so is its square.
    """
    d, w = len(matrix), whitening.matrix
    nothing = np.full(len(squares), np.inf)
    largest = float(np.abs(matrix).max())
    if whitening.slow or (single and not (largest <= 2.0**89 and whitening.size.max() <= 2.0**59)):
        return nothing
    try:
        c = w @ np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return nothing
    unit = 2.0**-24 if single else UNIT_ROUNDOFF
    rounding = gram_error(0, d)
    size = float(np.sum(c * c))
    norm = math.sqrt(size / d + _spectral_norm(c @ c.T - size / d * np.eye(d)) + rounding * size) * (1 + _ROUNDING)
    rest = np.abs(w - c @ matrix) + rounding * (np.abs(c) @ np.abs(matrix) + np.abs(w))
    rest += whitening.units * UNIT_ROUNDOFF * whitening.magnitude
    lost = float(np.linalg.norm(rest @ whitening.size)) * 1.01
    eta = unit / UNIT_ROUNDOFF * vector_error(d, 0) * float(np.linalg.norm(np.abs(matrix) @ whitening.size))
    lost += norm * (eta + d * d * 2.0**-88 * single)
    room = math.sqrt(1 - whitening.epsilon) * (1 - _ROUNDING) - lost
    if not room > 0.5:  # NaN included
        return nothing
    factor = norm**2 / room**2 * (1 + length_error(d, unit)) * (1 + _ROUNDING)
    tiny = (whitening.underflow + underflow_error(d)) * (1 + largest) + d * d * 2.0**-58 * single
    bound = (np.sqrt(squares * factor) + 4 * max(norm, 1.0) * tiny) ** 2 * (1 + _ROUNDING)
    return np.asarray(np.where(np.isfinite(bound), bound, np.inf))


def _spectral_norm(a: Floats, squarings: int = 4) -> float:
    """An upper bound on the spectral norm of a matrix; the Frobenius norm may be 7 times as large at d = 50.

    *Statement.* |A|^2 = |A A^T| <= |fl(A A^T)| + gamma_d |A|_F^2, and so on for fl(A A^T), until the Frobenius norm has to do:
    with four squarings that costs a factor of at most d^(1/32). It is the root of a sum of d^2 squares.
    """
    frobenius = float(np.linalg.norm(a)) * (1 + length_error(a.size, UNIT_ROUNDOFF))
    if not squarings or not 2.0**-50 < frobenius < 2.0**50:  # powers of these cannot leave the range of floats
        return frobenius
    square = _spectral_norm(a @ a.T, squarings - 1) + gram_error(0, len(a)) * frobenius**2
    return math.sqrt(square) * (1 + _ROUNDING)


def surely_above(z: Floats, error: Floats, epsilon: float, limit: float) -> NDArray[np.bool_]:
    """Which of the vectors z_i, whitened for a base G_B, have a form above ``limit`` in G = G_B + sum_j v_j v_j^T.

    *Statement.* For every vector a, (a z_i)^2 <= (z_i^T H^-1 z_i)(a^T H a), H = W* G W*^T <= (1 + epsilon) I + sum z_j z_j^T.
    With a = zhat_i/|zhat_i| the form of i is at least (a z_i)^2/(1 + epsilon + sum_j (a z_j)^2). The float K_ij of a z_j errs
    by at most error_j + (d + 8) u |zhat_j|. All lengths are divided by one power of two near the largest; what underflows then
    is below 2^-500 and added where that is on the safe side. No inverse is taken, so no condition number comes in.
    """
    count, d = z.shape
    largest = float(np.abs(z).max(initial=0.0))
    if not (math.isfinite(largest) and largest > 0):
        return np.zeros(count, dtype=bool)
    power = -math.frexp(largest)[1]
    if power > 400:
        return np.zeros(count, dtype=bool)
    z, error = np.ldexp(z, power), np.ldexp(error, power)
    length = np.sqrt(np.einsum("ij,ij->i", z, z))
    unsure = error + (d + 8) * UNIT_ROUNDOFF * length + 2.0**-500
    above = np.zeros(count, dtype=bool)
    base = (1 + epsilon) * math.ldexp(1.0, max(2 * power, -1000))
    for part in blocks(count, 256):
        products = np.abs(z[part] @ z.T) / np.maximum(length[part], 2.0**-400)[:, None]
        own = np.maximum(length[part] - 2 * unsure[part], 0.0)
        below = base + np.sum((products + unsure) ** 2, axis=1)
        above[part] = (own > 2.0**-300) & (own**2 * (1 - _ROUNDING - count * 2.0**-50) > limit * below)
    return above


def norm_bounds(z: Floats, error: Floats, epsilon: float) -> Bounds:
    """Bounds on v^T G^-1 v from zhat, |zhat - W* S v| <= error, and the epsilon of the whitening.

    *Statement.* |W* S v| lies within error of |zhat|, whose float value is right to gamma_{d+2}/2 + u relatively and, where
    squares underflow, to ``underflow_error`` absolutely. The scalar steps after that are at most ten roundings;
    ``length_error`` holds (2 d + 32) u.
    """
    d = z.shape[1]
    slack = length_error(d, UNIT_ROUNDOFF)
    norm = np.sqrt(np.einsum("ij,ij->i", z, z))
    lower = np.maximum(norm * (1 - slack) - error * (1 + slack) - underflow_error(d), 0.0) ** 2 / (1 + epsilon)
    upper = (norm * (1 + slack) + error * (1 + slack) + underflow_error(d)) ** 2 / (1 - epsilon)
    known = np.isfinite(lower) & np.isfinite(upper)
    return Bounds(np.where(known, lower, 0.0), np.where(known, upper, np.inf))


class Removal(NamedTuple):
    """What :func:`removal_whitening` finds: V, epsilon', and an upper bound on |V|_2."""

    matrix: Floats
    epsilon: float
    stretch: float

    @classmethod
    def of_nothing(cls, d: int, epsilon: float) -> Removal:
        """For a set that is still what it was."""
        return cls(np.eye(d), epsilon, 1.0)


def removal_whitening(gone: Floats, gone_error: Floats, epsilon: float) -> Removal | None:
    """V and epsilon' such that V W* whitens G - sum_{i gone} v_i v_i^T where W* whitens G; None if none can be certified.

    *Statement.* W* (G - sum v_i v_i^T) W*^T = I - sum zhat_i zhat_i^T + E with |E|_F <= epsilon +
    sum (2 |zhat_i| error_i + error_i^2), and the computed M = I - sum zhat zhat^T errs by at most
    gamma_{r+1} (1 + sum |zhat_i|^2), r vectors gone. For any V, |V (M + E) V^T - I|_F is at most the computed residual, plus
    gamma_{2d+2} |V|_F^2 (|M|_F + 1), plus |E|_F |V|_2^2 =: epsilon'. If epsilon' < 1 then V W* whitens with epsilon'. With
    |V|_F^2, which is d at least, epsilon' would be d times as large as epsilon however little has gone.
    """
    d = gone.shape[1]
    if not (np.isfinite(gone).all() and np.isfinite(gone_error).all()):
        return None
    m = np.eye(d) - gone.T @ gone
    lengths = np.sqrt(np.einsum("ij,ij->i", gone, gone))
    loose = epsilon + float(np.sum(2 * lengths * gone_error + gone_error**2))
    loose += (len(gone) + 8) * UNIT_ROUNDOFF * (1 + float(np.sum(lengths**2)))
    v = _inverse_cholesky(m, np.ones(d))
    if v is None:
        return None
    size, stretch = float(np.linalg.norm(v)), _spectral_norm(v)
    residual = float(np.linalg.norm(v @ m @ v.T - np.eye(d)))
    rounding = (2 * d + 16) * UNIT_ROUNDOFF * (float(np.linalg.norm(m)) + 1)
    new_epsilon = (residual + rounding * size**2 + loose * stretch**2) * 1.01
    return Removal(v, new_epsilon, stretch) if new_epsilon <= 8 * max(_SHARP, epsilon) else None


def turned(z: Floats, error: Floats, removal: Removal) -> tuple[Floats, Floats]:
    """Vectors whitened for what is left, and bounds on their errors, from vectors whitened before some have gone.

    *Statement.* With :func:`removal_whitening`, fl(V zhat) errs from V W* S v by |V|_2 error + gamma_d |V|_F |zhat|. Underflow
    of |zhat| is added to it; that of products is below d^2 2^-1074 |V|_F, and so below d u ``underflow_error``.
    """
    (v, _, stretch), d = removal, z.shape[1]
    size, length = float(np.linalg.norm(v)), np.sqrt(np.einsum("ij,ij->i", z, z))
    return z @ v.T, 1.01 * (stretch * error + size * ((d + 8) * UNIT_ROUNDOFF * (length + underflow_error(d))))


def removal_bounds(z: Floats, error: Floats, removal: Removal) -> Bounds:
    """Bounds on v^T (G - sum_{i gone} v_i v_i^T)^-1 v from vectors whitened for G, with V and epsilon' of the removal."""
    return norm_bounds(*turned(z, error, removal), removal.epsilon)


def reach(z: Floats, error: Floats) -> Floats:
    """Upper bounds on |zhat| + error."""
    return np.asarray(1.01 * (np.sqrt(np.einsum("ij,ij->i", z, z)) + error + underflow_error(z.shape[1])))


class Growth(NamedTuple):
    """How much forms have grown: as far as floats say, and at most."""

    likely: Floats
    most: Floats


def growth_bounds(
    z: Floats,
    error: Floats,
    length: Floats,
    gone: Floats,
    gone_error: Floats,
    removal: Removal,
    room: Floats | None = None,
) -> Growth:
    """Upper bounds on how much forms y^T G^-1 y have grown since some vectors g went, G being what these left; with its V.

    *Statement.* y^T (G + sum g g^T)^-1 y = y^T G^-1 y - s^T (I + K)^-1 s >= y^T G^-1 y - |s|^2 for s = (y^T G^-1 g)_g and some
    positive semidefinite K (Sherman, Morrison and Woodbury): the growth is |s|^2 at most. Let y = zhat + delta, g = ghat + eta
    be exact in the coordinates of W*, |delta| <= error, |eta| <= ``gone_error``, |zhat| + |delta| <= ``length``; let l^2 and
    e^2 be the sums of (|ghat| + |eta|)^2 and |eta|^2. V W* G W*^T V^T = I + E', so s is off from (V y . V g)_g by at most
    |V|_2^2 length l epsilon'/(1 - epsilon'), and that from (zhat . V^T V ghat)_g by |V|_2^2 (length e + error l). What is
    computed of V^T V ghat is off by (2 d + 4) u |V|_F^2 |ghat|, inner products by gamma_d, the root of a sum of r squares and
    what follows by (r/2 + 4) u: together (4 d + 24 + r) u |V|_F^2 length l is more. Factors 1.01 cover what is of second order,
    and 1/(1 - epsilon'), as epsilon' is at most 2^-7. What underflows is below 2^-1000.

    They are written to ``room``, three rows as long as there are vectors y: fresh memory would take most of the time.
    """
    (v, epsilon, stretch), d = removal, z.shape[1]
    size, square = 1.01 * float(np.linalg.norm(v)) ** 2, 1.01 * stretch**2
    own, images = 1.01 * float(np.linalg.norm(reach(gone, gone_error))), gone @ v.T @ v
    rough = size * own * ((4 * d + 24 + len(gone)) * UNIT_ROUNDOFF)
    rough += square * (1.01 * epsilon * own + math.sqrt(gone_error @ gone_error))
    likely, most, other = np.empty((3, len(z))) if room is None else room
    _lengths_of_products(z, images, likely)
    np.multiply(length, 1.01 * rough, out=most)
    most += np.multiply(error, 1.01 * square * own, out=other)
    most += likely
    likely *= likely
    most *= most
    return Growth(likely, most)


def _lengths_of_products(z: Floats, images: Floats, out: Floats) -> None:
    """|A z| for the matrix A of the images and all vectors z."""
    if len(images) == 1:
        np.abs(np.matmul(z, images[0], out=out), out=out)
        return
    for part in blocks(len(z), max(16, _NUMBERS // len(images))):
        products = z[part] @ images.T
        out[part] = np.sqrt(np.einsum("ij,ij->i", products, products))
