"""All small data for Lemma 38 and for the identifiability lemmas of Appendix B: rows and weights from a few values.

Lemma 38 runs a target on every multiset of rows inside and outside R. The other statements are about numbers alone: a case is
what adjacent data sets have in common, and its claims are about the worst pair of weightings of any two of them.

Nothing is lost by four choices. The thresholds lambda, gamma and tau are the least that the statement allows: with larger
ones it says less. Rows are multisets: a permutation that fixes i* permutes both weightings as well. R is [n]: a core with
respect to a smaller R is one with respect to [n]. And in the statements about means the weights of the grid stand for all
weights: w - v is a sum of positive multiples of differences between a point mass on w's support and one on v's, such that the
changes |w - v|_1, or rho + 2 eta, of the parts add up to that of the whole. Point masses are on every grid, and norms convex.

The arithmetic is on integers in arrays. Products that int64 would not hold are compared as floats with a known error, and as
Python's integers where that does not decide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs_checks.datasets import Matrix, Row, as_array
from proofs_checks.exact import exact_rows, float_fractions
from proofs_checks.identifiability import RULES, Record, Rules
from proofs_checks.lemma import Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.target import Target
from refimpl.linalg import inverse_or_none, is_positive_semidefinite, mahalanobis_squared, to_fmpq, to_fraction
from refimpl.parameters import PRINTED, Edition, lambda_ell, ordered_stability_gamma

__all__ = [
    "ReferenceData",
    "SharedPoints",
    "SharedRows",
    "adjacent_core_domain",
    "core_domain",
    "pairs_of_cores",
    "pairs_of_weightings",
    "reference_domain",
    "same_rows_domain",
    "weighting_domain",
]

Counts = tuple[int, ...]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

UNDECIDED = 2.0**-40
"""Quotients of products of at most 16 exact factors are off by less than 32 roundings, which is 2^-48: far less than this."""


def _row(*values: int) -> Row:
    return tuple(Fraction(v) for v in values)


def _line(*values: int) -> Matrix:
    return tuple(_row(v) for v in values)


def _fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)


def _compositions(size: int, parts: int) -> Iterator[Counts]:
    """All ways to write ``size`` as a sum of so many non-negative integers, in order."""
    for bars in itertools.combinations(range(size + parts - 1), parts - 1):
        yield tuple(b - a - 1 for a, b in itertools.pairwise((-1, *bars, size + parts - 1)))


def _show(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def _rules(target: Target) -> Rules:
    """The edition's rules, or those of an implementation that states its own: a mutant of the statements."""
    rules: Rules = getattr(target.implementation, "rules", RULES[target.edition.name])
    return rules


# Lemma 38 -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReferenceData(Record):
    """One data set with its reference set, up to the order of the rows.

    Attributes
    ----------
    values
        The rows that occur in the domain.
    inside, outside
        How many rows inside and outside R have each value.
    covariance, lambda_0, k
        Public arguments.
    """

    values: Matrix
    inside: Counts
    outside: Counts
    covariance: Matrix
    lambda_0: Fraction
    k: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(self.inside) + sum(self.outside)

    @property
    def order(self) -> list[int]:
        """The values of the rows, those of R first."""
        return [v for counts in (self.inside, self.outside) for v, count in enumerate(counts) for _ in range(count)]

    @property
    def rows(self) -> Matrix:
        """The rows, those of R first."""
        return tuple(self.values[v] for v in self.order)

    def near(self, bound: Fraction) -> tuple[Counts, Counts]:
        """For each value the number of rows of R, and of all rows, within squared distance ``bound`` of it."""
        close = [[distance <= bound for distance in row] for row in _distances(self.values, self.covariance)]
        in_reference = tuple(sum(itertools.compress(self.inside, row)) for row in close)
        elsewhere = tuple(sum(itertools.compress(self.outside, row)) for row in close)
        return in_reference, tuple(a + b for a, b in zip(in_reference, elsewhere, strict=True))

    def is_representative(self, bound: Fraction) -> bool:
        """Definition 33: the share of near rows in R is within 1/6 of that among all rows, for each row."""
        occurs = [a + b > 0 for a, b in zip(self.inside, self.outside, strict=True)]
        size = sum(self.inside)
        return all(
            abs(Fraction(r, size) - Fraction(z, self.n)) <= Fraction(1, 6)
            for r, z in itertools.compress(zip(*self.near(bound), strict=True), occurs)
        )


@cache
def _distances(values: Matrix, covariance: Matrix) -> tuple[tuple[Fraction, ...], ...]:
    inverse = inverse_or_none(exact_rows(covariance))
    assert inverse is not None, "the covariances of the domain are positive definite"
    moves = [exact_rows(tuple(tuple(a - b for a, b in zip(u, v, strict=True)) for v in values)) for u in values]
    return tuple(tuple(map(to_fraction, mahalanobis_squared(rows, inverse))) for rows in moves)


@dataclass(frozen=True)
class ReferenceBlock:
    """A block of Lemma 38's domain: n rows, the least possible R, k, and the values."""

    n: int
    k: int
    values: Matrix

    def cases(self) -> Iterator[ReferenceData]:
        """Every multiset inside R with every one outside."""
        size = 6 * self.k + 1
        for inside in _compositions(size, len(self.values)):
            for outside in _compositions(self.n - size, len(self.values)):
                yield ReferenceData(self.values, inside, outside, FOUR, Fraction(1, 2), self.k)


FOUR: Matrix = _line(4)
THREE_PLACES = _line(0, 1, 3)
"""In variance 4 with lambda_0 = 1/2 rows 2 apart tie with 2 Lambda_0; rows 3 apart are near at level 2k up to n = 8 for
k = 1, up to n = 14 for k = 2, and far for larger n."""
LATE: Matrix = (*_line(0, 1), (Fraction(19, 8),))
"""Rows 19/8 apart are far at level 0 and near at level 2k, for n = 12 and 16, k = 1, and n = 19, k = 2."""
FOUR_PLACES = _line(0, 2, 4, 6)

REFERENCE_BLOCKS: dict[str, tuple[ReferenceBlock, ...]] = {
    "quick": (ReferenceBlock(8, 1, THREE_PLACES),),
    "ci": (
        *(ReferenceBlock(n, 1, THREE_PLACES) for n in range(7, 12)),
        *(ReferenceBlock(n, 2, THREE_PLACES) for n in (13, 14)),
    ),
    "nightly": (
        *(ReferenceBlock(n, 1, THREE_PLACES) for n in range(7, 19)),
        *(ReferenceBlock(n, 1, LATE) for n in (12, 16)),
        *(ReferenceBlock(n, 1, FOUR_PLACES) for n in (8, 11)),
        *(ReferenceBlock(n, 2, THREE_PLACES) for n in (13, 14, 17, 19, 20)),
        ReferenceBlock(19, 2, LATE),
        ReferenceBlock(25, 3, THREE_PLACES),
    ),
}
"""By profile. |R| = 6k + 1 is the least that Lemma 38 allows."""


def reference_domain(profile: str) -> Iterator[ReferenceData]:
    """Every data set of the blocks."""
    for block in REFERENCE_BLOCKS[profile]:
        yield from block.cases()


def _stated_reference(case: ReferenceData) -> None:
    require("|R| > 6k", sum(case.inside) > 6 * case.k)
    require("n > 2 k lambda_2k", case.n > 2 * case.k * lambda_ell(case.lambda_0, case.k, 2 * case.k))
    require("gamma < 1", ordered_stability_gamma(case.lambda_0, case.n) < 1)


ENDS = ReferenceData(THREE_PLACES, (0, 7, 0), (8, 0, 1), FOUR, Fraction(1, 2), 1)
"""ERRATA E12 with n = 16 for 40: the row at 3 is near the 7 rows of R and itself, 8 rows, and n/2 + 1 = 9."""
ODD = ReferenceData(THREE_PLACES, (4, 9, 0), (5, 0, 1), FOUR, Fraction(1, 2), 2)
"""n = 19, R is representative for either radius: the row at 3 is near 9 of 13 rows of R and itself, and n/2 + 1 = 21/2."""
TWO_GROUPS = ReferenceData((_row(0), (Fraction(5, 2),)), (4, 3), (5, 4), FOUR, Fraction(1, 2), 1)
"""R is representative of two groups that are not near one another: no row is near n/2 + 1 = 9 rows of 16 but those at 0."""


def _core_degree(edition: Edition, n: int, k: int) -> Fraction:
    """How many near rows Lemma 38 promises."""
    if edition is PRINTED or n % 2 == 0 or n >= 9 * k + 2:
        return Fraction(n, 2) + 1
    return Fraction(n + 1, 2)


@lemma(
    "Lemma 38 (all data)",
    "the mean weights are a weighted core",
    domain=reference_domain,
    given=_stated_reference,
    needs=("stable_mean",),
    telling="the score is below k and R is degree-representative",
    least_telling=Fraction(1, 10),  # most multisets spread R over places that are far from one another: the score is k
    refuted_by=(
        "printed",
        "degree_threshold_is_halved",
        "distance_threshold_doubled",
        "distance_threshold_doubled_twice",
        "mean_weights_do_not_sum_to_one",
        "constant_target",
    ),
    examples=lambda: (ENDS, ODD, TWO_GROUPS),
    evidence="exhaustive",
)
def mean_weights_of_all_data_are_a_core(target: Target, case: ReferenceData) -> Iterator[Claim | Telling]:
    """If SCORE < k, |R| > 6k and R is representative, each row of positive weight is near n/2 + 1 rows or more.

    Near is within 2 Lambda_2k, and Definition 33 counts within 4 Lambda_2k in PRINTED and 2 Lambda_2k in REPAIRED. REPAIRED
    promises floor(n/2) + 1 rows for odd n < 9k + 2, where PRINTED is false with either radius.

    Proof: z_i/n >= (|R|-2k)/|R| - 1/6 > 1/2, so that z_i >= floor(n/2) + 1, which is n/2 + 1 for even n. For odd n we need
    z_i > (n+1)/2: with |R| = 6k + r the bound is n (1/2 + r/(3|R|)), which is enough if n > 9k/r + 3/2, so if n >= 9k + 2.
    """
    last = target.edition.distance_threshold(case.lambda_0, case.k, case.n, 2 * case.k)
    applies = case.is_representative(target.edition.representative_factor * last)
    result = target.stable_mean(
        as_array(case.rows), as_array(case.covariance), case.lambda_0, case.k, tuple(range(sum(case.inside)))
    )
    applies = applies and int(result.score) < case.k
    yield tells(applies)
    weights = list(zip(case.order, float_fractions(result.weights), strict=True))
    of_value = dict(weights)
    yield holds("equal rows have equal weights", all(of_value[v] == weight for v, weight in weights))
    if applies:
        degrees = [case.near(2 * last)[1][v] for v, weight in of_value.items() if weight > 0]
        yield equal("sum of the weights", sum(weight for _, weight in weights), 1, rounded=True)
        least = min(degrees, default=case.n)
        yield at_most(
            "what the degree of a row of positive weight must be", _core_degree(target.edition, case.n, case.k), least
        )


# Exact comparisons ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Quotients:
    """left/right of products of non-negative integers, one pair of products for each entry.

    Attributes
    ----------
    left, right
        The factors, arrays of one shape.
    rounded
        The quotients as floats: 0 where both products are 0, infinite where the right one alone is.
    """

    left: tuple[Ints, ...]
    right: tuple[Ints, ...]
    rounded: Floats

    def exceeding(self) -> Bools:
        """Where left > right: decided by the float where it is far enough from 1, and by integers otherwise."""
        over = self.rounded > 1 + UNDECIDED
        for i in np.flatnonzero(abs(self.rounded - 1) <= UNDECIDED).tolist():
            over[i] = _product(self.left, i) > _product(self.right, i)
        return over


def _product(factors: Sequence[Ints], i: int) -> int:
    return math.prod(int(f[i]) for f in factors)


def _quotients(left: Sequence[Ints], right: Sequence[Ints]) -> _Quotients:
    factors = [*left, *right]
    assert len(factors) <= 16, "the bound on the rounding errors counts 16 factors"
    assert all(f.min(initial=0) >= 0 and f.max(initial=0) < 1 << 53 for f in factors), "each factor is an exact float"
    above, below = (np.prod(np.stack(side).astype(np.float64), axis=0) for side in (left, right))
    rounded = np.where(above > 0, np.inf, 0.0)
    np.divide(above, below, out=rounded, where=below > 0)
    return _Quotients(tuple(left), tuple(right), rounded)


def _worst_of(quotients: _Quotients) -> int:
    """The entry that exceeds 1 most, or is nearest to it."""
    over = quotients.exceeding()
    return int(np.argmax(np.where(over, quotients.rounded, -1) if over.any() else quotients.rounded))


def _worse(claims: Sequence[Claim]) -> Claim:
    """A claim that is false, if there is one, and the tightest otherwise."""
    return max(claims, key=lambda claim: (not claim.is_true(Fraction(0)), claim.tightness or 0))


# Lemma 24 -------------------------------------------------------------------------------------------------------------

Symmetric = tuple[Ints, ...]
"""Symmetric matrices in one or two dimensions, entry by entry: (a,), or (a, b, c) for a, b above b, c."""


def _det(s: Symmetric) -> Ints:
    return s[0] if len(s) == 1 else s[0] * s[2] - s[1] ** 2


def _adjugate_product(s: Symmetric, t: Symmetric) -> Ints:
    """The trace of adj(S) T."""
    return t[0] if len(s) == 1 else s[2] * t[0] - 2 * s[1] * t[1] + s[0] * t[2]


def _is_semidefinite(s: Symmetric) -> Bools:
    largest = max(int(abs(entry).max(initial=0)) for entry in s)
    assert 2 * largest**2 < 1 << 63, "the determinants are exact"
    result: Bools = s[0] >= 0 if len(s) == 1 else (s[0] + s[2] >= 0) & (_det(s) >= 0)
    return result


def _combined(a: Ints, s: Symmetric, b: Ints, t: Symmetric) -> Symmetric:
    """The matrices a S - b T."""
    return tuple(a * u - b * v for u, v in zip(s, t, strict=True))


@dataclass(frozen=True)
class SharedRows(Record):
    """All data sets that have the rows ``shared`` and one of ``stars`` as the row i*, with all weights from a few numbers.

    Attributes
    ----------
    shared, stars
        Integer rows in one or two dimensions.
    weights
        The numbers that each weight can be.
    """

    shared: Matrix
    stars: Matrix
    weights: tuple[Fraction, ...]

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows of each data set."""
        return len(self.shared) + 1

    def pairs(self) -> Iterator[_Weightings]:
        """For every two data sets in one order, and for each with itself, all pairs of good weightings."""
        good = [_good_weightings((star, *self.shared), self.weights) for star in self.stars]
        for a, one in enumerate(good):
            for b, two in enumerate(good[a:], start=a):
                yield _Weightings(self, (a, b), one, two)


@dataclass(frozen=True, eq=False)
class _Good:
    """All weightings of one data set, i* first, whose second moment is invertible, times the common denominator."""

    weights: Ints
    sigma: Symmetric
    largest: Ints  # over det it is the largest squared norm of a row of positive weight, so the least lambda
    det: Ints

    def __len__(self) -> int:
        return len(self.det)


@lru_cache(maxsize=256)
def _good_weightings(rows: Matrix, grid: tuple[Fraction, ...]) -> _Good:
    unit = math.lcm(*(w.denominator for w in grid))
    numbers = [int(w * unit) for w in grid]
    weights = np.array(list(itertools.product(numbers, repeat=len(rows))), dtype=np.int64)
    columns = np.array([[int(v) for v in row] for row in rows], dtype=np.int64).T
    d = len(columns)
    squares = tuple(columns[i] * columns[j] for i in range(d) for j in range(i, d))
    sigma = tuple(weights @ square for square in squares)
    keep = _det(sigma) > 0
    weights, sigma = weights[keep], tuple(entry[keep] for entry in sigma)
    norms = _adjugate_product(tuple(entry[:, None] for entry in sigma), squares)
    return _Good(weights, sigma, np.where(weights > 0, norms, 0).max(axis=1, initial=0), _det(sigma))


class _Weightings:
    """All pairs of a good weighting w of one data set and v of another one, flattened, with what Lemma 24 speaks of.

    lambda = p/q is the least for which both are good. As weights are multiplied by their common denominator, lambda is
    divided by it, and gamma = lambda (rho + eta) is what it was.
    """

    def __init__(self, case: SharedRows, members: tuple[int, int], one: _Good, two: _Good) -> None:
        self._case, self._members, self._sides = case, members, (one, two)
        self.unit = math.lcm(*(w.denominator for w in case.weights))
        self._i, self._j = (a.ravel() for a in np.indices((len(one), len(two))))
        w, v = one.weights[self._i], two.weights[self._j]
        self.w, self.v = (tuple(e[at] for e in side.sigma) for side, at in ((one, self._i), (two, self._j)))
        self.det_w, self.det_v = one.det[self._i], two.det[self._j]
        self.rho = abs(w[:, 1:] - v[:, 1:]).sum(axis=1)
        self.eta = np.maximum(w[:, 0], v[:, 0])
        self.star_move = abs(w[:, 0] - v[:, 0])
        largest_w, largest_v = one.largest[self._i], two.largest[self._j]
        assert all(a.max(initial=0) < 1 << 31 for a in (largest_w, largest_v, self.det_w, self.det_v)), "exact products"
        by_w = largest_w * self.det_v >= largest_v * self.det_w
        self.p, self.q = np.where(by_w, largest_w, largest_v), np.where(by_w, self.det_w, self.det_v)

    @property
    def same_data(self) -> bool:
        """Whether the two data sets are one."""
        return self._members[0] == self._members[1]

    @cached_property
    def differ(self) -> Bools:
        """Where the covariances differ."""
        result: Bools = np.any([a != b for a, b in zip(self.w, self.v, strict=True)], axis=0)
        return result

    def gamma(self, change: Ints) -> tuple[Ints, Ints]:
        """Numerators of gamma = lambda change and of 1 - gamma, over q."""
        return self.p * change, self.q - self.p * change

    def name(self, i: int) -> str:
        """The pair of weightings in words."""
        parts = []
        for member, side, at, data in zip(self._members, self._sides, (self._i, self._j), ("y", "y'"), strict=True):
            weights = [Fraction(int(w), self.unit) for w in side.weights[at[i]]]
            parts.append(f"{_show(weights)} on {data} with i* = {_show(self._case.stars[member])}")
        return " and ".join(parts)


def _order_claim(pairs: _Weightings, change: Ints, *, always: bool) -> Claim:
    """(1-gamma) Sigma_w <= Sigma_v <= Sigma_w/(1-gamma) where gamma < 1, or as it is written, whatever gamma is."""
    _, keep = pairs.gamma(change)
    low = _is_semidefinite(_combined(pairs.q, pairs.v, keep, pairs.w))
    high = (keep == 0) | ((keep > 0) & _is_semidefinite(_combined(pairs.q, pairs.w, keep, pairs.v)))
    broken = ~(low & high) & (True if always else keep > 0)
    first = f", first {pairs.name(int(np.argmax(broken)))}" if broken.any() else ""
    return at_most(f"pairs of weightings with covariances out of order{first}", int(broken.sum()), 0)


def _largest_stretch(s: Symmetric, t: Symmetric) -> NDArray[np.float64]:
    """The largest x with det(T - x S) = 0, for positive definite S and T, in floats and never more than it is.

    In two dimensions the larger root of det(S) x^2 - tr(adj(S) T) x + det(T), of which the discriminant is exact: the
    rest is four roundings, far below the 2^-40 that is taken off.
    """
    trace, below = _adjugate_product(s, t), _det(s)
    if len(s) == 1:
        return np.asarray(trace / below * (1 - 2.0**-40))
    assert abs(trace).max(initial=0) < 1 << 30, "the discriminant is exact"
    assert (_det(s) * _det(t).astype(float)).max(initial=0) < 1 << 60, "the discriminant is exact"
    root = np.sqrt((trace**2 - 4 * below * _det(t)).astype(np.float64))
    return np.asarray((trace + root) / (2.0 * below) * (1 - 2.0**-40))


def _order_ratio(pairs: _Weightings, change: Ints) -> Iterator[Claim]:
    """How near the order is to broken: the larger of the stretches between the covariances, times 1 - gamma.

    It is a lower bound, in floats: what :func:`_order_claim` decides exactly implies it, and it cannot refute alone.
    """
    _, keep = pairs.gamma(change)
    chosen = np.flatnonzero((keep > 0) & pairs.differ)
    if len(chosen):
        w, v = (tuple(entry[chosen] for entry in s) for s in (pairs.w, pairs.v))
        stretch = np.maximum(_largest_stretch(w, v), _largest_stretch(v, w)) * (keep[chosen] / pairs.q[chosen])
        at = int(np.argmax(stretch))
        name = pairs.name(int(chosen[at]))
        yield at_most(f"largest stretch of a covariance times 1 - gamma, {name}", float(stretch[at]) * (1 - 2**-50), 1)


def _factors(factor: Callable[[Fraction, Fraction], Fraction], rho: Ints, eta: Ints, unit: int) -> tuple[Ints, Ints]:
    """Numerators and denominators of a factor that depends on rho and eta."""
    base = int(eta.max(initial=0)) + 1
    codes, where = np.unique(rho * base + eta, return_inverse=True)
    values = [factor(Fraction(int(c) // base, unit), Fraction(int(c) % base, unit)) for c in codes]
    table = np.array([[v.numerator, v.denominator] for v in values], dtype=np.int64).reshape(-1, 2)
    return table[where, 0], table[where, 1]


def _trace_claims(pairs: _Weightings, change: Ints, factor: tuple[Ints, Ints]) -> Iterator[Claim]:
    """Where gamma < 1, the square of each trace norm is at most that of C gamma/(1-gamma)."""
    gamma, keep = pairs.gamma(change)
    chosen = np.flatnonzero((keep > 0) & pairs.differ)
    if not len(chosen):
        return
    g, r, numerator, denominator = (a[chosen] for a in (gamma, keep, *factor))
    w, v = (tuple(entry[chosen] for entry in s) for s in (pairs.w, pairs.v))
    one = np.ones_like(g)
    for s, t, what in ((w, v, "of Sigma_v in Sigma_w"), (v, w, "of Sigma_w in Sigma_v")):
        move = _combined(one, t, one, s)
        trace = _adjugate_product(s, move)
        assert abs(trace).max() < 1 << 26, "the squares are exact"
        square = trace**2
        if len(s) == 3:  # eigenvalues of both signs: their distance and not their sum
            square -= 4 * np.minimum(_det(move), 0) * _det(s)
        quotients = _quotients((square, r, r, denominator, denominator), (_det(s), _det(s), g, g, numerator, numerator))
        at = _worst_of(quotients)
        left = Fraction(int(square[at]), int(_det(s)[at]) ** 2)
        bound = Fraction(int(numerator[at]) * int(g[at]), int(denominator[at]) * int(r[at])) ** 2
        yield at_most(f"squared trace norm {what}, {pairs.name(int(chosen[at]))}", left, bound)


QUARTERS = _fractions("0", "1/4", "1/2", "3/4", "1")
COARSE = _fractions("0", "1/4", "1")
LIGHT = _fractions("0", "1/40", "1")
"""A weight of 1/40 is light enough for gamma to be small where a row of squared norm 4 has it."""
LIGHT_AND_HALF = _fractions("0", "1/40", "1/2", "1")
AXES: Matrix = (_row(1, 0), _row(0, 1), _row(2, 0), _row(0, 2))
PLANE: Matrix = (*AXES, _row(1, 1), _row(1, -1), _row(0, 0))

WeightingBlock = tuple[int, Matrix, tuple[Fraction, ...]]
WEIGHTING_BLOCKS: dict[str, tuple[WeightingBlock, ...]] = {
    "quick": ((2, _line(0, 1, 2, 3), QUARTERS), (3, _line(1, 2), QUARTERS), (3, AXES[:2] + AXES[3:], LIGHT)),
    "ci": (
        (2, _line(0, 1, 2, 3), QUARTERS),
        (3, _line(0, 1, 2, 3), QUARTERS),
        (4, _line(0, 1, 2), COARSE),
        (3, AXES, LIGHT),
        (3, PLANE[:5], COARSE),
    ),
    "nightly": (
        (3, _line(0, 1, 2, 3), QUARTERS),
        (4, _line(0, 1, 2, 3), QUARTERS),
        (3, PLANE, LIGHT_AND_HALF),
        (4, AXES, LIGHT),
    ),
}
"""m, rows and weights of each block, by profile."""


def weighting_domain(profile: str) -> Iterator[SharedRows]:
    """Every multiset of m - 1 shared rows."""
    for m, values, weights in WEIGHTING_BLOCKS[profile]:
        for shared in itertools.combinations_with_replacement(values, m - 1):
            yield SharedRows(shared, values, weights)


def same_rows_domain(profile: str) -> Iterator[SharedRows]:
    """Every multiset of m rows, one of which is called i*."""
    for m, values, weights in WEIGHTING_BLOCKS[profile]:
        for star, *shared in itertools.combinations_with_replacement(values, m):
            yield SharedRows(tuple(shared), (star,), weights)


def pairs_of_weightings(domain: Iterator[SharedRows]) -> int:
    """How many pairs of good weightings of two adjacent data sets, or of one, a domain has."""
    return sum(len(pairs.rho) for case in domain for pairs in case.pairs())


def _small_integers(case: SharedRows) -> None:
    rows = (*case.shared, *case.stars)
    require("rows in one or two dimensions", len({len(row) for row in rows}) == 1 and len(rows[0]) in {1, 2})
    require("integer rows", all(v.denominator == 1 for row in rows for v in row))
    require("weights in [0, 1]", all(0 <= w <= 1 for w in case.weights))


def _one_data_set(case: SharedRows) -> None:
    _small_integers(case)
    require("y = y'", len(case.stars) == 1)


MOST_SPAN = Fraction(1, 2)
"""A case tells unless its shared rows (for y = y', all rows) fail to span: then i* has w lambda >= 1, so that gamma >= 1."""

CROSSING = SharedRows((_row(1, 0), _row(0, 1)), (_row(2, 0), _row(0, 2)), LIGHT)
"""ERRATA E13: a row of weight 1/40 turns from one axis to the other."""
JOINING = SharedRows(_line(1), _line(2), QUARTERS)
"""A row of norm lambda joins: trace norm gamma_2/(1-gamma_2), attained."""


@lemma(
    "Lemma 24, 54 (order, all small data)",
    "good weightings that are close have covariances that are close in Loewner order",
    domain=weighting_domain,
    given=_small_integers,
    needs=(),
    telling="two good weightings have different covariances and gamma < 1",
    least_telling=MOST_SPAN,
    refuted_by=("printed",),
    examples=lambda: (CROSSING,),
    evidence="exhaustive",
)
def all_small_weighted_covariances_are_close_in_order(target: Target, case: SharedRows) -> Iterator[Claim | Telling]:
    """(1-gamma) Sigma_w <= Sigma_v <= Sigma_w/(1-gamma), gamma = lambda (rho + eta), for all pairs of good weightings.

    PRINTED says so for every gamma, REPAIRED for gamma < 1.
    """
    telling, claims, ratios = False, list[Claim](), list[Claim]()
    for pairs in case.pairs():
        change = pairs.rho + pairs.eta
        telling |= bool((pairs.differ & (pairs.gamma(change)[1] > 0)).any())
        claims.append(_order_claim(pairs, change, always=_rules(target).order_for_every_gamma))
        ratios.extend(_order_ratio(pairs, change))
    yield tells(telling)
    yield _worse(claims)
    if ratios:
        yield _worse(ratios)


@lemma(
    "Lemma 24, 54 (trace, all small data)",
    "good weightings that are close have covariances that are close in trace norm",
    domain=weighting_domain,
    given=_small_integers,
    needs=(),
    telling="two good weightings have different covariances and gamma < 1",
    least_telling=MOST_SPAN,
    refuted_by=("printed", "trace_factor_below_two"),
    examples=lambda: (CROSSING,),
    evidence="exhaustive",
)
def all_small_weighted_covariances_are_close_in_trace_norm(
    target: Target, case: SharedRows
) -> Iterator[Claim | Telling]:
    """If gamma < 1, both relative trace norms are at most C gamma/(1-gamma), for all pairs of good weightings.

    PRINTED C = 3/2; REPAIRED C = 2, and 3/2 if eta <= rho. The bound is also taken with rho = eta where eta is the larger,
    since rho may be any bound: with both, it holds for every rho, eta and lambda that the statement allows.
    """
    factor, claims = _rules(target).trace_factor, list[Claim]()
    for pairs in case.pairs():
        for rho in (pairs.rho, np.maximum(pairs.rho, pairs.eta)):
            factors = _factors(factor, rho, pairs.eta, pairs.unit)
            claims.extend(_trace_claims(pairs, rho + pairs.eta, factors))
    yield tells(bool(claims))
    if claims:
        yield _worse(claims)


@lemma(
    "Lemma 24, 54 (y = y', all small data)",
    "good weightings of one data set that are close have close covariances",
    domain=same_rows_domain,
    given=_one_data_set,
    needs=(),
    telling="two good weightings have different covariances and gamma_2 < 1",
    least_telling=MOST_SPAN,
    refuted_by=("same_data_move_less",),
    examples=lambda: (JOINING,),
    evidence="exhaustive",
)
def all_small_covariances_of_one_data_set_are_close(target: Target, case: SharedRows) -> Iterator[Claim | Telling]:
    """If gamma_2 = lambda |w - v|_1 < 1, order with gamma_2 and trace norms at most C gamma_2/(1-gamma_2), C = 1.

    PRINTED C = 3/2. For all pairs of good weightings of every data set of the domain.
    """
    claims, traces = [], list[Claim]()
    for pairs in case.pairs():
        change = pairs.rho + pairs.star_move
        factors = _factors(lambda _rho, _eta: _rules(target).same_data_factor, pairs.rho, pairs.eta, pairs.unit)
        claims.append(_order_claim(pairs, change, always=False))
        traces.extend(_trace_claims(pairs, change, factors))
    yield tells(bool(traces))
    yield _worse([*claims, *traces])


# Lemma 55 and Corollary 37 --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SharedPoints(Record):
    """All data sets that have the rows ``shared`` and one of ``stars`` as the row i*, in two covariances.

    Attributes
    ----------
    shared, stars
        Integer rows.
    covariance, covariance_prime, gamma
        Sigma_1, in which w is a core, Sigma_2, in which v is, and how close they are.
    tau
        Degree threshold.
    parts
        Weights are the multiples of 1/parts that sum to 1.
    """

    shared: Matrix
    stars: Matrix
    covariance: Matrix
    covariance_prime: Matrix
    gamma: Fraction
    tau: int
    parts: int

    @property
    def n(self) -> int:
        """Number of rows of each data set."""
        return len(self.shared) + 1

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows of each data set."""
        return self.n

    def rows(self, star: int) -> Matrix:
        """The data set with this row as i*, which comes first."""
        return (self.stars[star], *self.shared)

    def worst(self, change: Callable[[Ints, Ints], Ints], factor: Fraction) -> Iterator[Claim]:
        """For each two data sets the claim |mu_w - mu_v|^2 <= C change^2 lambda/(1-gamma) about the worst pair of cores.

        ``change`` gives for numerators of w and v, i* first, the numerator of what the mean moves by at most.
        """
        matrices, scale = _integer_inverses(self.covariance, self.covariance_prime)
        for a, b in itertools.product(range(len(self.stars)), repeat=2):
            one, two = (
                _weighted_cores(self.rows(star), matrix, self.tau, self.parts)
                for star, matrix in zip((a, b), matrices, strict=True)
            )
            claim = _mean_claim(self, (one, two), change, factor, scale)
            yield replace(claim, what=f"{claim.what} for i* = {_show(self.stars[a])} and {_show(self.stars[b])}")


@lru_cache(maxsize=256)
def _distributions(n: int, parts: int) -> Ints:
    return np.array(list(_compositions(parts, n)), dtype=np.int64)


class _Matrices(NamedTuple):
    """Integer multiples of the inverses of two covariances, by one factor."""

    one: tuple[tuple[int, ...], ...]
    two: tuple[tuple[int, ...], ...]


@cache
def _integer_inverses(one: Matrix, two: Matrix) -> tuple[_Matrices, int]:
    inverses = [inverse_or_none(exact_rows(matrix)) for matrix in (one, two)]
    tables = [
        [[to_fraction(v) for v in row] for row in inverse.tolist()] for inverse in inverses if inverse is not None
    ]
    scale = math.lcm(*(v.denominator for table in tables for row in table for v in row))
    return _Matrices(*(tuple(tuple(int(v * scale) for v in row) for row in table) for table in tables)), scale


def _form(matrix: tuple[tuple[int, ...], ...], vectors: Ints) -> Ints:
    """v^T A v for the vectors along the last axis."""
    result: Ints = np.einsum("...i,ij,...j->...", vectors, np.array(matrix, dtype=np.int64), vectors)
    return result


@lru_cache(maxsize=1024)
def _weighted_cores(rows: Matrix, matrix: tuple[tuple[int, ...], ...], tau: int, parts: int) -> tuple[Ints, Ints, Ints]:
    """All weights, the means, and the least 2 lambda for which each is a core, times their common factors."""
    x = np.array([[int(v) for v in row] for row in rows], dtype=np.int64)
    weights = _distributions(len(rows), parts)
    reach = np.sort(_form(matrix, x[:, None] - x[None, :]), axis=1)[:, tau - 1]  # to the tau-th nearest row
    return weights, weights @ x, np.where(weights > 0, reach, 0).max(axis=1)


def _mean_claim(
    case: SharedPoints,
    cores: tuple[tuple[Ints, Ints, Ints], tuple[Ints, Ints, Ints]],
    change: Callable[[Ints, Ints], Ints],
    factor: Fraction,
    scale: int,
) -> Claim:
    (w, mean_w, reach_w), (v, mean_v, reach_v) = cores
    i, j = (a.ravel() for a in np.indices((len(w), len(v))))
    matrices, _ = _integer_inverses(case.covariance, case.covariance_prime)
    move = mean_w[i] - mean_v[j]
    square = np.maximum(*(_form(matrix, move) for matrix in matrices))
    moved, reach = change(w[i], v[j]), np.maximum(reach_w[i], reach_v[j])
    constant = factor / (2 * (1 - case.gamma))
    top, bottom = (np.full_like(square, value) for value in (constant.numerator, constant.denominator))
    at = _worst_of(_quotients((square, bottom), (moved, moved, reach, top)))
    weights = [[Fraction(int(a), case.parts) for a in side] for side in (w[i[at]], v[j[at]])]
    left = Fraction(int(square[at]), case.parts**2 * scale)
    bound = constant * Fraction(int(moved[at]) ** 2 * int(reach[at]), case.parts**2 * scale)
    return at_most(f"squared move of the mean, w = {_show(weights[0])} and v = {_show(weights[1])},", left, bound)


ONE, HALF, PLANE_ONE = _line(1), ((Fraction(1, 2),),), (_row(1, 0), _row(0, 1))
LINE_COVARIANCES: tuple[tuple[Matrix, Matrix, Fraction], ...] = ((ONE, ONE, Fraction(0)), (ONE, HALF, Fraction(1, 2)))
PLANE_COVARIANCES: tuple[tuple[Matrix, Matrix, Fraction], ...] = (
    (PLANE_ONE, PLANE_ONE, Fraction(0)),
    (PLANE_ONE, ((Fraction(3, 4), Fraction(0)), (Fraction(0), Fraction(1))), Fraction(1, 4)),
)
CORNERS: Matrix = (_row(0, 0), _row(1, 0), _row(0, 1), _row(1, 1))

CoreBlock = tuple[int, int, Matrix]
CORE_BLOCKS: dict[str, tuple[CoreBlock, ...]] = {
    "quick": ((3, 3, _line(0, 1, 2)), (4, 2, _line(0, 1, 2))),
    "ci": (
        (3, 4, _line(0, 1, 2, 3)),
        (4, 4, _line(0, 1, 2, 3)),
        (5, 2, _line(0, 1, 2, 3)),
        (3, 3, CORNERS),
        (4, 2, CORNERS),
    ),
    "nightly": (
        (3, 6, _line(0, 1, 2, 3, 5, 8)),
        (4, 4, _line(0, 1, 2, 3, 5, 8)),
        (5, 4, _line(0, 1, 2, 3, 5)),
        (6, 2, _line(0, 1, 2, 3)),
        (4, 4, CORNERS),
        (5, 3, CORNERS),
    ),
}
"""n, parts and values of each block, by profile; in one covariance, and in two with gamma = 1/2, or 1/4 in the plane."""


def _covariances(values: Matrix) -> tuple[tuple[Matrix, Matrix, Fraction], ...]:
    return LINE_COVARIANCES if len(values[0]) == 1 else PLANE_COVARIANCES


def core_domain(profile: str) -> Iterator[SharedPoints]:
    """Every multiset of n rows, one of which is called i*, with tau the least above n/2."""
    for n, parts, values in CORE_BLOCKS[profile]:
        for (star, *shared), covariances in itertools.product(
            itertools.combinations_with_replacement(values, n), _covariances(values)
        ):
            yield SharedPoints(tuple(shared), (star,), *covariances, n // 2 + 1, parts)


def adjacent_core_domain(profile: str) -> Iterator[SharedPoints]:
    """Every multiset of n - 1 shared rows, with tau the least above n/2 + 1."""
    for n, parts, values in CORE_BLOCKS[profile]:
        for shared, covariances in itertools.product(
            itertools.combinations_with_replacement(values, n - 1), _covariances(values)
        ):
            yield SharedPoints(shared, values, *covariances, n // 2 + 2, parts)


def pairs_of_cores(domain: Iterator[SharedPoints]) -> int:
    """How many pairs of weights on two data sets, in this order, a domain has."""
    return sum(len(case.stars) ** 2 * len(_distributions(case.n, case.parts)) ** 2 for case in domain)


def _close_covariances(case: SharedPoints) -> None:
    one, two, keep = exact_rows(case.covariance), exact_rows(case.covariance_prime), to_fmpq(1 - case.gamma)
    require("integer rows", all(v.denominator == 1 for row in (*case.shared, *case.stars) for v in row))
    require("positive definite covariances", all(inverse_or_none(s) is not None for s in (one, two)))
    require("gamma < 1", case.gamma < 1)
    require("gamma-close covariances", all(is_positive_semidefinite(a - b * keep) for a, b in ((one, two), (two, one))))
    require("tau <= n", case.tau <= case.n)


def _above_half(case: SharedPoints) -> None:
    _close_covariances(case)
    require("x = x'", len(case.stars) == 1)
    require("tau > n/2", 2 * case.tau > case.n)


def _above_half_and_one(case: SharedPoints) -> None:
    _close_covariances(case)
    require("tau > n/2 + 1", 2 * case.tau > case.n + 2)


def _l1(w: Ints, v: Ints) -> Ints:
    moved: Ints = abs(w - v).sum(axis=1)
    return moved


def _rho_and_twice_eta(w: Ints, v: Ints) -> Ints:
    moved: Ints = _l1(w[:, 1:], v[:, 1:]) + 2 * np.maximum(w[:, 0], v[:, 0])
    return moved


OPPOSITE_ENDS = SharedPoints(_line(1, 2), _line(0), ONE, ONE, Fraction(0), 2, 2)
"""Two ends that see the middle: 4 = 2 rho^2 lambda, attained."""
TURNED = SharedPoints(_line(1, 1), _line(0, 2), ONE, ONE, Fraction(0), 3, 3)
"""ERRATA E4: rho = 0, eta = 1/3, and i* goes from one side to the other."""


@lemma(
    "Lemma 55 (all small cores)",
    "weighted cores that are close have close means",
    domain=core_domain,
    given=_above_half,
    needs=(),
    telling="some rows differ, so that some means do",
    least_telling=Fraction(1, 2),  # all but the multisets of equal rows
    refuted_by=("cores_move_less",),
    examples=lambda: (OPPOSITE_ENDS,),
    evidence="exhaustive",
)
def means_of_all_small_cores_are_close(target: Target, case: SharedPoints) -> Iterator[Claim | Telling]:
    """For tau > n/2 and gamma-close covariances |mu_w - mu_v|^2 <= C |w - v|_1^2 lambda/(1-gamma) in either norm.

    PRINTED C = 4; REPAIRED C = 2, which is attained.
    """
    yield tells(len(set(case.rows(0))) > 1)
    yield _worse(list(case.worst(_l1, _rules(target).lemma_55_factor)))


@lemma(
    "Corollary 37, 56 (all small cores)",
    "weighted cores of adjacent data that are close have close means",
    domain=adjacent_core_domain,
    given=_above_half_and_one,
    needs=(),
    telling="i* takes different values, so that some means differ",
    least_telling=Fraction(1),
    refuted_by=("printed",),
    examples=lambda: (TURNED,),
    evidence="exhaustive",
)
def means_of_all_small_adjacent_cores_are_close(target: Target, case: SharedPoints) -> Iterator[Claim | Telling]:
    """For tau > n/2 + 1 and gamma-close covariances |mu_w - mu_v|^2 <= C (rho + 2 eta)^2 lambda/(1-gamma) in either norm.

    PRINTED C = 1, REPAIRED C = 2.
    """
    yield tells(len(set(case.stars)) > 1)
    yield _worse(list(case.worst(_rho_and_twice_eta, _rules(target).corollary_37_factor)))
