"""Appendix B and what is left of sections 3 and 4: identifiability, size conditions, and the variants that fail.

These checks are about the paper: they take the algorithms from refimpl, in exact arithmetic, and what an edition says from
:class:`Rules`. Each erratum is the PRINTED rule, refuted by a pinned instance; what REPAIRED says holds on built cases. Where
the printed statement is true, a rule of :data:`FAULTS` that is a little too strong shows that the check could refute.

:data:`NECESSITY` has, for the hypotheses of the checked statements, the smallest instances known outside of them on which
the conclusion fails; :data:`NOT_NEEDED` says where there is none, and why or how hard was looked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Self

from flint import fmpq, fmpq_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from proofs_checks import vectors
from proofs_checks.datasets import (
    Matrix,
    Pair,
    Row,
    adjacent_points,
    adjacent_rows,
    are_adjacent,
    as_array,
)
from proofs_checks.exact import exact_rows, least_order_gamma, weighted_second_moment
from proofs_checks.lemma import Case, Claim, Telling, at_most, equal, holds, lemma, require, tells
from proofs_checks.privacy import concentrated
from proofs_checks.target import Target
from refimpl.covariance import largest_good_subset, score_of, stable_covariance, stable_second_moment
from refimpl.definitions import is_degree_representative, is_good_subset, is_good_weighting, is_weighted_core
from refimpl.linalg import (
    differences,
    inverse_or_none,
    is_positive_semidefinite,
    mahalanobis_squared,
    rows_of,
    second_moment,
    squared_distances,
    to_fmpq,
    to_fraction,
    weighted_mean,
)
from refimpl.mean import stable_mean
from refimpl.parameters import PRINTED, REPAIRED, Edition, Lambda_ell, lambda_ell, ordered_stability_gamma
from refimpl.reals import ExpFraction

__all__ = [
    "FAULTS",
    "NECESSITY",
    "NOT_NEEDED",
    "RULES",
    "Cores",
    "Damaged",
    "Record",
    "Rules",
    "Size",
    "SomeRows",
    "Weightings",
    "Witness",
]

Threshold = Fraction | ExpFraction


# What an edition says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """Constants and hypotheses of the statements of this room, as one edition words them.

    Attributes
    ----------
    order_for_every_gamma
        Whether Lemma 24's Loewner order is claimed for gamma >= 1 as well.
    trace_factor
        (rho, eta) -> the factor of gamma/(1-gamma) in Lemma 24.
    same_data_factor
        The same where y = y', with gamma_2.
    proof_factor
        gamma -> the factor of (v_1 + w_1 + rho) lambda in Eq. (115).
    removal_factor
        (lambda, m) -> how much a row's removal raises the threshold in Claim 29.
    claim_31_least_rows
        (k, lambda_0) -> the m from which Claim 31 is claimed.
    caps_score
        Whether SCORE is cut off at k (Definition 30) or not (Eq. (4)).
    good_subset_exists
        Whether every data set is said to have a good subset (Lemma 27).
    downdate_always_defined
        Whether Eq. (39) is said to hold for every removed row.
    lemma_55_factor, corollary_37_factor
        Of rho^2 lambda/(1-gamma), and of (rho + 2 eta)^2 lambda/(1-gamma).
    literal_gamma, meant_gamma, quoted_gamma
        (k, lambda_0, n) -> gamma of Lemma 42 as printed, with its 1/n put back, and as the proof of Lemma 9 quotes it.
    core_threshold
        (lambda_0, k, n, ell) -> the threshold of Definition 41.
    algorithm_51_size, algorithm_1_size
        (n, k, lambda_0) -> whether n is large enough for the score to be stable.
    paired_covariance_squared
        The square of the ratio of Eq. (24)'s matrix and Algorithm 3's.
    least_lambda_0
        From where Lemma 11 is claimed.
    """

    order_for_every_gamma: bool
    trace_factor: Callable[[Fraction, Fraction], Fraction]
    same_data_factor: Fraction
    proof_factor: Callable[[Fraction], Fraction]
    removal_factor: Callable[[Fraction, int], Fraction]
    claim_31_least_rows: Callable[[int, Fraction], Fraction]
    caps_score: bool
    good_subset_exists: bool
    downdate_always_defined: bool
    lemma_55_factor: Fraction
    corollary_37_factor: Fraction
    literal_gamma: Callable[[int, Fraction, int], Fraction]
    meant_gamma: Callable[[int, Fraction, int], Fraction]
    quoted_gamma: Callable[[int, Fraction, int], Fraction]
    core_threshold: Callable[[Fraction, int, int, int], Threshold]
    algorithm_51_size: Callable[[int, int, Fraction], bool]
    algorithm_1_size: Callable[[int, int, Fraction], bool]
    paired_covariance_squared: int
    least_lambda_0: Fraction


def _last(k: int, lambda_0: Fraction) -> Fraction:
    return lambda_ell(lambda_0, k, 2 * k)


def _ours(_k: int, lambda_0: Fraction, n: int) -> Fraction:
    return ordered_stability_gamma(lambda_0, n)


def _enough_pairs(n: int, k: int, lambda_0: Fraction) -> bool:
    return n // 2 >= 10 * k * lambda_0


_PRINTED = Rules(
    order_for_every_gamma=True,
    trace_factor=lambda _rho, _eta: Fraction(3, 2),
    same_data_factor=Fraction(3, 2),
    proof_factor=lambda _gamma: Fraction(105, 100),
    removal_factor=lambda lam, m: 1 / (1 - lam / m),
    claim_31_least_rows=lambda _k, _lambda_0: Fraction(0),
    caps_score=False,
    good_subset_exists=True,
    downdate_always_defined=True,
    lemma_55_factor=Fraction(4),
    corollary_37_factor=Fraction(1),
    literal_gamma=lambda k, lambda_0, n: 1 / (1 - 2 * k * _last(k, lambda_0)) * 4 * _last(k, lambda_0) / n,
    meant_gamma=lambda k, lambda_0, n: 1 / (1 - 2 * k * _last(k, lambda_0) / n) * 4 * _last(k, lambda_0) / n,
    quoted_gamma=lambda _k, lambda_0, n: Fraction(40, 7) * lambda_0 / n,
    core_threshold=lambda lambda_0, k, _n, ell: ExpFraction(Fraction(1, k)) ** ell * lambda_0,
    algorithm_51_size=lambda n, k, lambda_0: n >= 10 * k * lambda_0,
    algorithm_1_size=lambda n, k, lambda_0: n >= 20 * k * lambda_0,
    paired_covariance_squared=2,
    least_lambda_0=Fraction(0),
)

_REPAIRED = Rules(
    order_for_every_gamma=False,
    trace_factor=lambda rho, eta: Fraction(3, 2) if eta <= rho else Fraction(2),
    same_data_factor=Fraction(1),
    proof_factor=lambda gamma: 1 / (1 - gamma),
    removal_factor=lambda lam, m: 1 / (1 - lam / m),
    claim_31_least_rows=lambda k, lambda_0: 10 * k * lambda_0,
    caps_score=True,
    good_subset_exists=False,
    downdate_always_defined=False,
    lemma_55_factor=Fraction(2),
    corollary_37_factor=Fraction(2),
    literal_gamma=_ours,
    meant_gamma=_ours,
    quoted_gamma=_ours,
    core_threshold=lambda lambda_0, _k, n, ell: Lambda_ell(lambda_0, n, ell),
    algorithm_51_size=_enough_pairs,
    algorithm_1_size=_enough_pairs,
    paired_covariance_squared=1,
    least_lambda_0=Fraction(1, 10),
)

RULES = {PRINTED.name: _PRINTED, REPAIRED.name: _REPAIRED}
"""By the name of the edition."""

FAULTS = {
    "removal_costs_less": replace(_REPAIRED, removal_factor=lambda lam, m: 1 / (1 - Fraction(9, 10) * lam / m)),
    "cores_move_less": replace(_REPAIRED, lemma_55_factor=Fraction(19, 10)),
    "same_data_move_less": replace(_REPAIRED, same_data_factor=Fraction(9, 10)),
    "trace_factor_below_two": replace(_REPAIRED, trace_factor=lambda _rho, _eta: Fraction(19, 10)),
}
"""Rules with one constant that is a little too good to be true, by name."""


def _rules(target: Target) -> Rules:
    """The edition's rules, or those of an implementation that states its own: a mutant of the statements."""
    rules: Rules = getattr(target.implementation, "rules", RULES[target.edition.name])
    return rules


# Cases ----------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Fraction) else value


def _exact(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_exact(v) for v in value)
    return Fraction(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Record(Case):
    """A case whose fields are ints, Fractions and nested tuples of them."""

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return len(getattr(self, "rows", ()))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: exact numbers as "p/q"."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        return cls(**{name: _exact(value) for name, value in data.items()})

    def paste(self) -> str:
        """Python that names the case, to be pasted."""
        return "\n".join(f"{name} = {value!r}" for name, value in self.to_json().items())


@dataclass(frozen=True)
class SomeRows(Record):
    """Rows y and a threshold."""

    rows: Matrix
    lam: Fraction


@dataclass(frozen=True)
class Weightings(Record):
    """Adjacent rows y, y' (``row`` at ``index``) with weights w on y and v on y', good for ``lam``."""

    rows: Matrix
    index: int
    row: Row
    w: tuple[Fraction, ...]
    v: tuple[Fraction, ...]
    lam: Fraction

    @property
    def rows_prime(self) -> Matrix:
        """The data set y'."""
        return (*self.rows[: self.index], self.row, *self.rows[self.index + 1 :])

    @property
    def rho(self) -> Fraction:
        """The l1 distance of the weights off i*."""
        moves = (abs(a - b) for i, (a, b) in enumerate(zip(self.w, self.v, strict=True)) if i != self.index)
        return sum(moves, Fraction(0))

    @property
    def eta(self) -> Fraction:
        """The larger weight of i*."""
        return max(self.w[self.index], self.v[self.index])

    @property
    def gamma(self) -> Fraction:
        """The gamma of Lemma 24: lambda (rho + eta)."""
        return self.lam * (self.rho + self.eta)

    @property
    def gamma_2(self) -> Fraction:
        """The gamma of Lemma 24 for y = y': lambda |w - v|_1."""
        return self.lam * (self.rho + abs(self.w[self.index] - self.v[self.index]))

    def covariances(self) -> tuple[fmpq_mat, fmpq_mat]:
        """Sigma_w of y and Sigma_v of y'."""
        return weighted_second_moment(self.rows, self.w), weighted_second_moment(self.rows_prime, self.v)


@dataclass(frozen=True)
class Damaged(Record):
    """Rows of which [m] is a lambda_0-good subset, and what some of them are replaced by."""

    rows: Matrix
    replaced: tuple[tuple[int, Row], ...]
    lambda_0: Fraction
    k: int

    @property
    def damaged(self) -> Matrix:
        """The rows after the replacements."""
        new = dict(self.replaced)
        return tuple(new.get(i, row) for i, row in enumerate(self.rows))


@dataclass(frozen=True)
class Cores(Record):
    """Rows x, x' with covariances, of which w and v are (tau, lam)-weighted cores with respect to all rows."""

    rows: Matrix
    index: int
    row: Row
    w: tuple[Fraction, ...]
    v: tuple[Fraction, ...]
    covariance: Matrix
    covariance_prime: Matrix
    gamma: Fraction
    lam: Fraction
    tau: int

    @property
    def rows_prime(self) -> Matrix:
        """The data set x'."""
        return (*self.rows[: self.index], self.row, *self.rows[self.index + 1 :])


@dataclass(frozen=True)
class Size(Record):
    """Public numbers alone."""

    n: int
    k: int
    lambda_0: Fraction


def _f(*values: int | str | Fraction) -> tuple[Fraction, ...]:
    return tuple(Fraction(v) for v in values)


def _column(*values: int | str | Fraction) -> Matrix:
    return tuple((v,) for v in _f(*values))


def _stored(identifier: str) -> Pair:
    return Pair.from_json(vectors.pair(identifier))


# Lemma 24 -------------------------------------------------------------------------------------------------------------


def _norms(rows: Matrix, weights: Sequence[Fraction], sigma: fmpq_mat) -> list[Fraction]:
    """Squared norms of the rows of positive weight."""
    inverse = inverse_or_none(sigma)
    assert inverse is not None, "the rows of the case span"
    norms = mahalanobis_squared(exact_rows(rows), inverse)
    return [to_fraction(norm) for norm, w in zip(norms, weights, strict=True) if w > 0]


def _with_least_lam(case: Weightings) -> Weightings:
    """The case with the least threshold for which both weightings are good: one row of them is tied with it."""
    sigma_w, sigma_v = case.covariances()
    norms = _norms(case.rows, case.w, sigma_w) + _norms(case.rows_prime, case.v, sigma_v)
    return replace(case, lam=max(norms))


@st.composite
def _weightings(draw: st.DrawFn, *, same_data: bool = False) -> Weightings:
    """Unit rows that carry the weight, light rows of any length, and light changes of weight.

    The changes are halved until gamma < 1: light enough ones always are.
    """
    d = draw(st.integers(1, 2))
    vector = st.tuples(*[st.integers(-3, 3).map(Fraction)] * d)
    unit = [tuple(Fraction(int(i == j)) for j in range(d)) for i in range(d)]
    light = [draw(vector) for _ in range(draw(st.integers(0, 2)))]
    old, new = draw(vector), draw(vector)
    rows = (old, *unit, *light)
    parts = st.sampled_from([0, 0, 1, 2, 5])
    shared = [Fraction(1, 2)] * d + [Fraction(draw(parts), 40) for _ in light]
    moves = [draw(st.sampled_from([0, 0, 1, -1])) for _ in shared]
    stars = draw(parts), draw(parts)
    scale = Fraction(draw(st.sampled_from([1, 2, 8])), 40)
    while True:
        w = (stars[0] * scale, *shared)
        v = (stars[1] * scale, *(max(a + move * scale, Fraction(0)) for a, move in zip(shared, moves, strict=True)))
        if all(v[1 : d + 1]):
            case = _with_least_lam(Weightings(rows, 0, old if same_data else new, w, v, Fraction(1)))
            if case.gamma < 1 and case.gamma_2 < 1:
                return case
        scale /= 2


def weightings() -> SearchStrategy[Weightings]:
    """Good weightings of adjacent data with gamma < 1."""
    return _weightings()


def weightings_of_the_same_data() -> SearchStrategy[Weightings]:
    """Good weightings of one data set with gamma_2 < 1."""
    return _weightings(same_data=True)


def _are_good_weightings(case: Weightings) -> None:
    exact, exact_prime = exact_rows(case.rows), exact_rows(case.rows_prime)
    require("w is a good weighting of y", is_good_weighting(exact, case.w, case.lam))
    require("v is a good weighting of y'", is_good_weighting(exact_prime, case.v, case.lam))


def _order_claims(sigma_w: fmpq_mat, sigma_v: fmpq_mat, gamma: Fraction) -> Iterator[Claim]:
    """(1-gamma) Sigma_w <= Sigma_v <= Sigma_w/(1-gamma): by the least such gamma below 1, and as it is written from 1 on."""
    if gamma < 1:
        least = least_order_gamma(sigma_w, sigma_v, gamma)
        yield at_most("least gamma with (1-gamma) Sigma_w <= Sigma_v <= Sigma_w/(1-gamma)", least, gamma)
        return
    low = is_positive_semidefinite(sigma_v - sigma_w * to_fmpq(1 - gamma))
    yield holds(f"(1-gamma) Sigma_w <= Sigma_v, gamma = {gamma}", low)
    if gamma != 1:
        high = is_positive_semidefinite(sigma_w * to_fmpq(1 / (1 - gamma)) - sigma_v)
        yield holds(f"Sigma_v <= Sigma_w/(1-gamma), gamma = {gamma}", high)


def _squared_trace_norm(one: fmpq_mat, two: fmpq_mat) -> Fraction:
    """The square of |one^{-1/2} two one^{-1/2} - I|_tr in at most two dimensions: rational, so that equalities are decided."""
    inverse = inverse_or_none(one)
    assert inverse is not None, "the covariance of a good weighting is positive definite"
    relative = inverse * (two - one)
    trace, determinant = sum((relative[i, i] for i in range(relative.nrows())), fmpq(0)), relative.det()
    both_signs = relative.nrows() == 2 and determinant < 0
    return to_fraction(trace * trace - (4 * determinant if both_signs else 0))


def _root(square: Fraction) -> Fraction | None:
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root * root == square else None


def _trace_claims(case: Weightings, bound: Fraction) -> Iterator[Claim]:
    """Both trace norms against the bound, or their squares where they are irrational."""
    sigma_w, sigma_v = case.covariances()
    for one, two, what in ((sigma_w, sigma_v, "of Sigma_v in Sigma_w"), (sigma_v, sigma_w, "of Sigma_w in Sigma_v")):
        square = _squared_trace_norm(one, two)
        root = _root(square)
        if root is not None:
            yield at_most(f"trace norm {what}", root, bound)
        else:
            yield at_most(f"squared trace norm {what}", square, bound**2)


HEAVIER = Weightings(_column(1, 1), 0, _f(1), _f(1, "1/2"), _f(1, 1), Fraction(1))
"""gamma = 3/2: Sigma_w/(1-gamma) is negative."""
E13 = Weightings(
    (_f("10/3", 0), _f(1, 0), _f(0, 1)), 0, _f(0, "10/3"), _f("1/100", 1, 1), _f("1/100", 1, 1), Fraction(10)
)
"""ERRATA E13 with lambda = 10, eta = 1/100 for lambda = 1, eta = 1/10: rho = 0, trace norm 19/90 against 1/6."""
E13_PROOF = Weightings((_f(2, 0), _f(1, 0), _f(0, 1)), 0, _f(0, 2), _f("1/12", 1, 1), _f("1/12", 1, 1), Fraction(3))
"""Its proof: gamma = 1/4, trace norm 1/4 + 1/3 = 7/12 against 1.05/2."""
NEAR_TWO = Weightings(
    (_f("1000/99", 0), _f(1, 0), _f(0, 1)),
    0,
    _f(0, "1000/99"),
    _f("199/1000000", 1, 1),
    _f("199/1000000", 1, 1),
    Fraction(1000000, 9801) / (1 + Fraction(199, 9801)),
)
"""rho = 0 and gamma near 1/50: the factor 2 is approached."""
SAME_DATA = Weightings(_column(2, 1), 0, _f(2), _f(0, 1), _f("1/12", 1), Fraction(3))
"""A row of norm lambda joins: trace norm gamma_2/(1-gamma_2) = 1/3, attained."""


@lemma(
    "Lemma 24, 54 (order)",
    "good weightings that are close have covariances that are close in Loewner order",
    cases=weightings,
    given=_are_good_weightings,
    needs=(),
    telling="the covariances differ and gamma < 1",
    refuted_by=("printed",),
    examples=lambda: (E13, E13_PROOF, HEAVIER),
)
def weighted_covariances_are_close_in_order(target: Target, case: Weightings) -> Iterator[Claim | Telling]:
    """Sigma_w, Sigma_v > 0 and (1-gamma) Sigma_w <= Sigma_v <= Sigma_w/(1-gamma) for gamma = lambda (rho + eta).

    PRINTED says so for every gamma, REPAIRED for gamma < 1.
    """
    sigma_w, sigma_v = case.covariances()
    yield tells(sigma_w != sigma_v and case.gamma < 1)
    for sigma in (sigma_w, sigma_v):
        yield holds("a covariance is positive definite", inverse_or_none(sigma) is not None)
    if case.gamma < 1 or _rules(target).order_for_every_gamma:
        yield from _order_claims(sigma_w, sigma_v, case.gamma)


@lemma(
    "Lemma 24, 54 (trace)",
    "good weightings that are close have covariances that are close in trace norm",
    cases=weightings,
    given=_are_good_weightings,
    needs=(),
    telling="the covariances differ and gamma < 1",
    refuted_by=("printed", "trace_factor_below_two"),
    examples=lambda: (E13, E13_PROOF, NEAR_TWO),
)
def weighted_covariances_are_close_in_trace_norm(target: Target, case: Weightings) -> Iterator[Claim | Telling]:
    """If gamma < 1, both relative trace norms are at most C gamma/(1-gamma).

    PRINTED C = 3/2; REPAIRED C = 2, and 3/2 if eta <= rho.

    Proof of 2: each row off i* moves the trace by |v_i - w_i| times a norm that is at most lambda/(1-gamma), the old row of i*
    by at most lambda eta and the new one by lambda eta/(1-gamma): together (rho + 2 eta) lambda/(1-gamma).
    """
    yield tells(case.gamma < 1 and case.covariances()[0] != case.covariances()[1])
    if case.gamma < 1:
        yield from _trace_claims(case, _rules(target).trace_factor(case.rho, case.eta) * case.gamma / (1 - case.gamma))


@lemma(
    "Lemma 24, 54 (y = y')",
    "good weightings of one data set that are close have close covariances",
    cases=weightings_of_the_same_data,
    given=_are_good_weightings,
    needs=(),
    telling="the covariances differ",
    refuted_by=("same_data_move_less",),
    examples=lambda: (SAME_DATA,),
)
def weighted_covariances_of_one_data_set_are_close(target: Target, case: Weightings) -> Iterator[Claim | Telling]:
    """If y = y' and gamma_2 = lambda |w - v|_1 < 1, the same with gamma_2: trace norms at most C gamma_2/(1-gamma_2).

    PRINTED C = 3/2; REPAIRED C = 1, since no weight is counted twice, and that is attained.
    """
    sigma_w, sigma_v = case.covariances()
    yield tells(sigma_w != sigma_v)
    yield from _order_claims(sigma_w, sigma_v, case.gamma_2)
    yield from _trace_claims(case, _rules(target).same_data_factor * case.gamma_2 / (1 - case.gamma_2))


@lemma(
    "Eq. (115)-(116)",
    "the last step of Lemma 24's proof",
    cases=weightings,
    given=_are_good_weightings,
    needs=(),
    telling="the covariances differ and gamma < 1",
    refuted_by=("printed",),
    examples=lambda: (E13_PROOF, SAME_DATA),
)
def trace_norms_are_bounded_as_in_the_proof(target: Target, case: Weightings) -> Iterator[Claim | Telling]:
    """The trace norms are at most C (v_1 + w_1 + rho) lambda: PRINTED C = 1.05, REPAIRED 1/(1-gamma)."""
    yield tells(case.gamma < 1 and case.covariances()[0] != case.covariances()[1])
    if case.gamma < 1:
        moved = case.w[case.index] + case.v[case.index] + case.rho
        yield from _trace_claims(case, _rules(target).proof_factor(case.gamma) * moved * case.lam)


# Good subsets ---------------------------------------------------------------------------------------------------------


@st.composite
def _some_rows(draw: st.DrawFn, most: int = 7) -> SomeRows:
    """A few small integer rows, a far one at times, and a threshold that some subset is just good for, or just not: a tie."""
    d = draw(st.integers(1, 2))
    vector = st.tuples(*[st.integers(-2, 2).map(Fraction)] * d)
    unit = [tuple(Fraction(int(i == j)) for j in range(d)) for i in range(d)]
    others = draw(st.lists(st.one_of(vector, vector, vector.map(lambda r: tuple(5 * v for v in r))), max_size=most - d))
    rows = (*unit, *others)
    subset = sorted({*range(d), *draw(st.lists(st.integers(0, len(rows) - 1), max_size=most))})
    exact = rows_of(exact_rows(rows), subset)
    inverse = inverse_or_none(second_moment(exact, [Fraction(1, len(rows))] * len(subset)))
    assert inverse is not None, "the unit rows span"
    norms = mahalanobis_squared(exact, inverse)
    lam = to_fraction(draw(st.sampled_from([max(norms)] * 3 + norms)))
    return SomeRows(rows, lam + draw(st.sampled_from(_f(0, 0, "1/8"))) or Fraction(d))


def some_rows() -> SearchStrategy[SomeRows]:
    """Rows and a threshold that ties or nearly ties with a norm."""
    return _some_rows()


@st.composite
def _removable(draw: st.DrawFn) -> SomeRows:
    """Rows of which all are good for the threshold, which is below their number: each can be removed."""
    case = draw(_some_rows())
    rows = (
        *case.rows,
        *case.rows[: len(case.rows[0])],
    )  # each unit row twice: the others span, so that no norm reaches m
    weights = [Fraction(1, len(rows))] * len(rows)
    return SomeRows(rows, max(_norms(rows, weights, weighted_second_moment(rows, weights))))


def removable() -> SearchStrategy[SomeRows]:
    """Rows whose largest good subset is all of them, with m > lambda."""
    return _removable()


def _has_rows(case: SomeRows) -> None:
    require("rows of one length", len({len(row) for row in case.rows}) == 1)
    require("lambda > 0", case.lam > 0)


def _more_rows_than_lam(case: SomeRows) -> None:
    _has_rows(case)
    require("m > lambda", len(case.rows) > case.lam)


def _weights_of(subset: frozenset[int], m: int) -> list[Fraction]:
    return [Fraction(int(i in subset), m) for i in range(m)]


@lemma(
    "Claim 29",
    "a good subset less one row is good for a threshold that is a little larger",
    cases=removable,
    given=_more_rows_than_lam,
    needs=(),
    telling="there is a good subset",
    refuted_by=("removal_costs_less",),
    examples=lambda: (SomeRows(_column(1, 1), Fraction(1)),),
)
def good_subsets_survive_a_removal(target: Target, case: SomeRows) -> Iterator[Claim | Telling]:
    """If S is lambda-good and m > lambda, S minus j is lambda/(1 - lambda/m)-good, for every j. Two equal rows attain it."""
    m, exact = len(case.rows), exact_rows(case.rows)
    subset = largest_good_subset(exact, case.lam)
    yield tells(bool(subset))
    bound = case.lam * _rules(target).removal_factor(case.lam, m)
    for j in sorted(subset):
        weights = _weights_of(subset - {j}, m)
        sigma = second_moment(exact, weights)
        invertible = inverse_or_none(sigma) is not None
        yield holds(f"S minus row {j} has an invertible second moment", invertible)
        if invertible:
            yield at_most(f"largest squared norm in S minus row {j}", max(_norms(case.rows, weights, sigma)), bound)


def _subsets(m: int) -> Iterator[frozenset[int]]:
    for size in range(1, m + 1):
        yield from map(frozenset, itertools.combinations(range(m), size))


TIED = SomeRows(_column(1, 1, 1, 1, 3), Fraction(5, 4))
CASCADE = SomeRows(_column(1, 2, 4, 8, 16, 32), Fraction(9, 2))
FAR = SomeRows(_column(1, 1, 1, 9), Fraction(2))


@lemma(
    "Lemma 27 (all subsets of a case)",
    "LargestGoodSubset contains every good subset",
    cases=some_rows,
    given=_has_rows,
    needs=("largest_good_subset",),
    telling="there is a good subset, and a subset that is not good",
    refuted_by=("single_pass", "strict_for_non_strict", "divides_by_subset_size", "constant_target"),
    examples=lambda: (TIED, CASCADE, FAR),
    cost=3,
)
def largest_good_subset_contains_every_good_one(target: Target, case: SomeRows) -> Iterator[Claim | Telling]:
    """Of all 2^m - 1 subsets every lambda-good one is contained in LargestGoodSubset's, which is good itself or empty."""
    exact = exact_rows(case.rows)
    largest = frozenset(int(i) for i in target.largest_good_subset(as_array(case.rows), case.lam))
    good = [s for s in _subsets(len(case.rows)) if is_good_subset(exact, s, case.lam)]
    yield tells(0 < len(good) < 2 ** len(case.rows) - 1)
    yield holds("what LargestGoodSubset returns is good or empty", not largest or largest in good)
    missing = frozenset().union(*good) - largest
    yield at_most("rows of good subsets that LargestGoodSubset leaves out", len(missing), 0)


ONE_ROW = SomeRows(_column(1), Fraction(1, 2))


@lemma(
    "Lemma 27 (existence)",
    "there is a largest good subset",
    cases=some_rows,
    given=_has_rows,
    needs=(),
    telling="there is a good subset",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (ONE_ROW,),
    cost=3,
)
def largest_good_subset_exists(target: Target, case: SomeRows) -> Iterator[Claim | Telling]:
    """PRINTED: every data set has a largest good subset. REPAIRED: it has one, or no good subset and the answer is empty."""
    exact = exact_rows(case.rows)
    largest = largest_good_subset(exact, case.lam)
    yield tells(bool(largest))
    if largest or _rules(target).good_subset_exists:
        yield holds("the set that is returned is good", is_good_subset(exact, largest, case.lam))
    else:
        some = any(is_good_subset(exact, s, case.lam) for s in _subsets(len(case.rows)))
        yield holds("the empty set is returned only if no subset is good", not some)


@lemma(
    "Eq. (39)",
    "the inverse after a row is removed, by Sherman and Morrison",
    cases=some_rows,
    given=_has_rows,
    needs=(),
    telling="some row can be removed",
    refuted_by=("printed",),
    examples=lambda: (SomeRows(_column(1, 0), Fraction(2)),),
)
def downdates_follow_the_formula(target: Target, case: SomeRows) -> Iterator[Claim | Telling]:
    """(S - uu^T/m)^-1 = S^-1 + S^-1 uu^T S^-1/(m - u^T S^-1 u) for every row u of S = (1/m) sum y y^T.

    PRINTED: always. REPAIRED: the denominator is 0 exactly where no inverse exists, which has to be tested before.
    """
    m, exact = len(case.rows), exact_rows(case.rows)
    sigma = second_moment(exact, [Fraction(1, m)] * m)
    inverse = inverse_or_none(sigma)
    yield tells(m > exact.ncols())
    yield holds("the rows of the case span", inverse is not None)
    if inverse is None:
        return
    for j in range(m):
        u = rows_of(exact, [j])
        denominator = m - mahalanobis_squared(u, inverse)[0]
        after = inverse_or_none(sigma - u.transpose() * u * to_fmpq(Fraction(1, m)))
        if _rules(target).downdate_always_defined:
            yield holds(f"the denominator for row {j} is not 0", denominator != 0)
        yield holds(
            f"the denominator for row {j} is 0 exactly if no inverse exists", (denominator == 0) == (after is None)
        )
        if after is not None and denominator != 0:
            left = inverse * u.transpose()
            yield holds(f"the formula for row {j}", after == inverse + left * left.transpose() * (1 / denominator))


# Scores of section 3 --------------------------------------------------------------------------------------------------


def _good_subset_sizes(rows: Matrix, lambda_0: Fraction, k: int) -> tuple[int, list[int]]:
    """SCORE and the number of rows missing from S_0, ..., S_k."""
    result = stable_second_moment(exact_rows(rows), lambda_0, k)
    assert result.good_subsets is not None, "refimpl returns the sets"
    return result.score, [len(rows) - len(s) for s in result.good_subsets[: k + 1]]


@st.composite
def _damaged(draw: st.DrawFn) -> Damaged:
    """Signs with every subset good for lambda_0 = d, or a little more, of which up to k rows are replaced."""
    d, k = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    zeros = draw(st.integers(0, 2))
    per_sign = -(-10 * k * (d + 1) // (1 << d))
    signs = [tuple(_f(*s)) for s in itertools.product((1, -1), repeat=d)] * per_sign
    rows = (*signs, *[_f(*[0] * d)] * zeros)
    lambda_0 = Fraction(d * len(rows), len(signs)) + draw(st.sampled_from([Fraction(0), Fraction(1, 8)]))
    require("m >= 10 k lambda_0", len(rows) >= 10 * k * lambda_0)
    count = draw(st.integers(1, k))
    news = [tuple(_f(*[draw(st.sampled_from([0, 1, 3, 40, -1000]))] * d)) for _ in range(count)]
    return Damaged(rows, tuple(enumerate(news)), lambda_0, k)


def damaged() -> SearchStrategy[Damaged]:
    """Well-behaved rows with up to k replacements, m >= 10 k lambda_0."""
    return _damaged()


def _all_good(case: Damaged) -> None:
    require(
        "[m] is lambda_0-good before the damage",
        is_good_subset(exact_rows(case.rows), range(len(case.rows)), case.lambda_0),
    )


def _e18() -> tuple[Damaged, ...]:
    pair = _stored("E18-claim-31")
    return (Damaged(pair.rows, ((pair.index, pair.row),), pair.lambda_0, pair.k),)


@lemma(
    "Claim 31",
    "the score is about the distance to data without outliers",
    cases=damaged,
    given=_all_good,
    needs=(),
    telling="the score is positive and below k",
    least_telling=Fraction(1, 5),
    refuted_by=("printed",),
    examples=_e18,
    cost=4,
)
def score_is_about_a_distance(target: Target, case: Damaged) -> Iterator[Claim | Telling]:
    """If g(y) < k, d(y, data of which [m] is e lambda_0-good) <= g(y) <= 2 d(y, data of which [m] is lambda_0-good).

    PRINTED: for every m; REPAIRED: for m >= 10 k lambda_0. The first distance is shown by zeros in place of the missing rows,
    the second is at most the number of replaced rows, of which half the score is a lower bound.
    """
    m, rows = len(case.rows), case.damaged
    score, missing = _good_subset_sizes(rows, case.lambda_0, case.k)
    applies = score < case.k and m >= _rules(target).claim_31_least_rows(case.k, case.lambda_0)
    yield tells(applies and score > 0)
    if not applies:
        return
    yield at_most("SCORE against twice the number of replaced rows", score, 2 * len(case.replaced))
    ell = min(range(case.k + 1), key=lambda level: missing[level] + level)
    subset = largest_good_subset(exact_rows(rows), lambda_ell(case.lambda_0, case.k, ell))
    mended = tuple(row if i in subset else _f(*[0] * len(row)) for i, row in enumerate(rows))
    yield at_most("rows to mend", m - len(subset), score)
    weights = [Fraction(1, m)] * m
    norms = _norms(mended, weights, weighted_second_moment(mended, weights))
    yield at_most("largest squared norm of the mended rows", max(norms), ExpFraction(Fraction(1)) * case.lambda_0)


def _covariance_pair(pair: Pair) -> None:
    are_adjacent(pair)
    require("paired rows", pair.stage == "covariance")
    require("m >= 10 k lambda_0", pair.n >= 10 * pair.k * pair.lambda_0)


@lemma(
    "Eq. (4), Definition 30",
    "SCORE needs its cap at k",
    cases=adjacent_rows,
    given=_covariance_pair,
    needs=(),
    telling="the two scores differ",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (_stored("E18-uncapped"),),
    cost=3,
)
def score_with_its_cap_is_stable(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """min_ell (m - |S_ell| + ell) moves by at most 2: PRINTED as it is in Eq. (4), REPAIRED once it is cut off at k."""
    scores = []
    for rows in (pair.rows, pair.rows_prime):
        _, missing = _good_subset_sizes(rows, pair.lambda_0, pair.k)
        uncapped = min(count + ell for ell, count in enumerate(missing))
        scores.append(min(pair.k, uncapped) if _rules(target).caps_score else uncapped)
    yield tells(scores[0] != scores[1])
    yield at_most("change of the score", abs(scores[0] - scores[1]), 2)


# Cores ----------------------------------------------------------------------------------------------------------------


@st.composite
def _cores(draw: st.DrawFn, *, adjacent: bool) -> Cores:
    """Two ends that see the middle and not each other, with w on the left and v on the right, in covariances gamma apart.

    tau is just above n/2, or n/2 + 1 for adjacent data, where the row that changes lies at either end or in the middle.
    """
    d = draw(st.integers(1, 2))
    left, right = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    more = (
        2 if adjacent else 1
    )  # how far tau is above n/2, rounded down; this many pairs of middle rows let both ends reach it
    middle = abs(left - right) + 2 * more + draw(st.integers(0, 1))
    n = left + middle + right
    tau = n // 2 + more
    places = [Fraction(-1)] * left + [Fraction(0)] * middle + [Fraction(1)] * right
    shear = draw(st.integers(-1, 1))
    rows = tuple((p, *[shear * p] * (d - 1)) for p in places)
    index = draw(st.sampled_from([0, left, n - 1])) if adjacent else 0
    new = draw(st.sampled_from([Fraction(-1), Fraction(0), Fraction(1)])) if adjacent else places[0]
    row = (new, *[shear * new] * (d - 1))
    weights = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    gamma = draw(st.sampled_from(_f(0, 0, "1/8", "1/2")))
    factor = draw(st.sampled_from([Fraction(1), 1 - gamma, 1 / (1 - gamma)]))
    identity = tuple(tuple(Fraction(int(i == j)) for j in range(d)) for i in range(d))
    scaled = tuple(tuple(value * factor for value in r) for r in identity)
    spread = 1 + (d - 1) * shear * shear
    case = Cores(
        rows, index, row, (), (), identity, scaled, gamma, Fraction(spread, 2) * max(Fraction(1), 1 / factor), tau
    )
    w = _on_core(case.rows, identity, case, draw(weights), [1] * left + [0] * (n - left))
    v = _on_core(case.rows_prime, scaled, case, draw(weights), [0] * (n - right) + [1] * right)
    return replace(case, w=w, v=v)


def _degrees(rows: Matrix, covariance: Matrix, lam: Fraction) -> list[int]:
    inverse = inverse_or_none(exact_rows(covariance))
    assert inverse is not None, "the covariances of the case are positive definite"
    distances = squared_distances(exact_rows(rows), inverse, range(len(rows)))
    return [sum(value <= distances.within(2 * lam) for value in row) for row in distances.numerators]


def _on_core(
    rows: Matrix, covariance: Matrix, case: Cores, drawn: list[int], fallback: list[int]
) -> tuple[Fraction, ...]:
    """The drawn numbers as weights on the rows that have tau near ones, heaped on one end; uniform if none is left."""
    core = [degree >= case.tau for degree in _degrees(rows, covariance, case.lam)]
    for numbers in ([a + 9 * b for a, b in zip(drawn, fallback, strict=True)], [1] * len(rows)):
        kept = [number * inside for number, inside in zip(numbers, core, strict=True)]
        if sum(kept):
            return tuple(Fraction(number, sum(kept)) for number in kept)
    raise AssertionError("the middle rows of the case are always in the core")


def cores() -> SearchStrategy[Cores]:
    """Weighted cores of one data set in two covariances."""
    return _cores(adjacent=False)


def adjacent_cores() -> SearchStrategy[Cores]:
    """Weighted cores of adjacent data in two covariances."""
    return _cores(adjacent=True)


def any_cores() -> SearchStrategy[Cores]:
    """Rows in one covariance with any degree threshold up to n, often one that only the middle rows meet."""
    up = st.sampled_from([0, 1, 2, 7])
    return st.builds(lambda case, more: replace(case, tau=min(case.tau + more, len(case.rows))), cores(), up)


def _are_cores(case: Cores, least: Fraction) -> None:
    one, two = exact_rows(case.covariance), exact_rows(case.covariance_prime)
    keep = to_fmpq(1 - case.gamma)
    n = len(case.rows)
    require("gamma < 1", case.gamma < 1)
    require("gamma-close covariances", all(is_positive_semidefinite(a - b * keep) for a, b in ((one, two), (two, one))))
    require("tau is large enough", case.tau > least)
    for rows, weights, sigma in ((case.rows, case.w, one), (case.rows_prime, case.v, two)):
        require("a weighted core", is_weighted_core(exact_rows(rows), weights, case.tau, case.lam, sigma, range(n)))


def _cores_of_one_data_set(case: Cores) -> None:
    require("x = x'", case.rows == case.rows_prime)
    _are_cores(case, Fraction(len(case.rows), 2))


def _cores_of_adjacent_data(case: Cores) -> None:
    _are_cores(case, Fraction(len(case.rows), 2) + 1)


def _mean_moves(case: Cores) -> list[Fraction]:
    """Squared move of the weighted mean in the norm of each covariance."""
    one = weighted_mean(exact_rows(case.rows), case.w)
    two = weighted_mean(exact_rows(case.rows_prime), case.v)
    move = exact_rows((tuple(a - b for a, b in zip(one, two, strict=True)),))
    inverses = [inverse_or_none(exact_rows(sigma)) for sigma in (case.covariance, case.covariance_prime)]
    return [to_fraction(mahalanobis_squared(move, inverse)[0]) for inverse in inverses if inverse is not None]


def _l1(w: Sequence[Fraction], v: Sequence[Fraction]) -> Fraction:
    return sum((abs(a - b) for a, b in zip(w, v, strict=True)), Fraction(0))


ONE: Matrix = ((Fraction(1),),)
OPPOSITE_ENDS = Cores(_column(-1, 0, 1), 0, _f(-1), _f(1, 0, 0), _f(0, 0, 1), ONE, ONE, Fraction(0), Fraction(1, 2), 2)
"""Two ends that see the middle: |mu_w - mu_v|^2 = 4 = 2 rho^2 lambda, attained."""
E4 = Cores(
    _column(1, 0, 0),
    0,
    _f(-1),
    _f("1/3", "1/3", "1/3"),
    _f("1/3", "1/3", "1/3"),
    ONE,
    ONE,
    Fraction(0),
    Fraction(1, 2),
    3,
)
"""ERRATA E4: rho = 0, eta = 1/3 and |mu_w - mu_v|^2 = 4/9, twice what is printed."""


@lemma(
    "Lemma 55",
    "weighted cores that are close have close means",
    cases=cores,
    given=_cores_of_one_data_set,
    needs=(),
    telling="the means differ",
    refuted_by=("cores_move_less",),
    examples=lambda: (OPPOSITE_ENDS,),
)
def means_of_close_cores_are_close(target: Target, case: Cores) -> Iterator[Claim | Telling]:
    """For tau > n/2 and gamma-close covariances |mu_w - mu_v|^2 <= C |w - v|_1^2 lambda/(1-gamma) in either norm.

    PRINTED C = 4; REPAIRED C = 2, which is attained: two members share a near row, so their distance is at most
    2 sqrt(2 lambda/(1-gamma)), and a mass |w - v|_1/2 moves.
    """
    bound = _rules(target).lemma_55_factor * _l1(case.w, case.v) ** 2 * case.lam / (1 - case.gamma)
    moves = _mean_moves(case)
    yield tells(any(moves))
    for move in moves:
        yield at_most("squared move of the weighted mean", move, bound)


@lemma(
    "Corollary 37, 56",
    "weighted cores of adjacent data that are close have close means",
    cases=adjacent_cores,
    given=_cores_of_adjacent_data,
    needs=(),
    telling="the means differ",
    refuted_by=("printed",),
    examples=lambda: (E4,),
)
def means_of_close_cores_of_adjacent_data_are_close(target: Target, case: Cores) -> Iterator[Claim | Telling]:
    """For tau > n/2 + 1 and gamma-close covariances |mu_w - mu_v|^2 <= C (rho + 2 eta)^2 lambda/(1-gamma) in either norm.

    PRINTED C = 1, REPAIRED C = 2, by Lemma 55 with its constant 2 on the n + 1 rows of both data sets.
    """
    off_star = [i for i in range(len(case.rows)) if i != case.index]
    rho = _l1([case.w[i] for i in off_star], [case.v[i] for i in off_star])
    eta = max(case.w[case.index], case.v[case.index])
    bound = _rules(target).corollary_37_factor * (rho + 2 * eta) ** 2 * case.lam / (1 - case.gamma)
    moves = _mean_moves(case)
    yield tells(any(moves))
    for move in moves:
        yield at_most("squared move of the weighted mean", move, bound)


def _core_is_stated(case: Cores) -> None:
    require("lambda > 0", case.lam > 0)
    require("a positive definite covariance", inverse_or_none(exact_rows(case.covariance)) is not None)


@lemma(
    "Remark 36",
    "LargestCore contains every core",
    cases=any_cores,
    given=_core_is_stated,
    needs=("largest_core",),
    telling="some row is in no core",
    least_telling=Fraction(1, 4),
    refuted_by=("constant_target", "mean_strict_for_non_strict", "row_is_not_its_own_neighbour"),
    examples=lambda: (OPPOSITE_ENDS, replace(OPPOSITE_ENDS, tau=3)),
    cost=3,
)
def largest_core_contains_every_core(target: Target, case: Cores) -> Iterator[Claim | Telling]:
    """Of all 2^n - 1 subsets every (tau, lambda)-core is contained in LargestCore's, which is one itself or empty; R = [n]."""
    n, exact, sigma = len(case.rows), exact_rows(case.rows), exact_rows(case.covariance)
    found = target.largest_core(as_array(case.rows), as_array(case.covariance), case.lam, case.tau, range(n))
    largest = frozenset(int(i) for i in found)
    members = {s: [Fraction(int(i in s), len(s)) for i in range(n)] for s in _subsets(n)}
    is_core = [s for s, w in members.items() if is_weighted_core(exact, w, case.tau, case.lam, sigma, range(n))]
    yield tells(len(is_core) < len(members))
    yield holds("what LargestCore returns is a core or empty", not largest or largest in is_core)
    missing = frozenset().union(*is_core) - largest
    yield at_most("rows of cores that LargestCore leaves out", len(missing), 0)


# Lemma 42 and its variants --------------------------------------------------------------------------------------------


def sizes() -> SearchStrategy[Size]:
    """n, k and lambda_0 >= 1 with n >= 20 k lambda_0."""
    lambdas = st.sampled_from(_f(1, "3/2", 2, 10))
    return st.builds(
        lambda k, lam, more: Size(math.ceil(20 * k * lam) + more, k, lam),
        st.integers(1, 200),
        lambdas,
        st.integers(0, 99),
    )


def _is_large(case: Size) -> None:
    require("n >= 20 k lambda_0, lambda_0 >= 1", case.n >= 20 * case.k * case.lambda_0 >= 20 * case.k)


@lemma(
    "Lemma 42, 57 (its gamma)",
    "the gamma of Lemma 42 is one that covariances can be close by",
    cases=sizes,
    given=_is_large,
    needs=(),
    telling="always",
    refuted_by=("printed",),
    examples=lambda: (Size(20, 1, Fraction(1)),),
)
def lemma_42_is_not_vacuous(target: Target, case: Size) -> Iterator[Claim | Telling]:
    """0 <= gamma < 1: no two positive definite matrices are gamma-close for a negative gamma, and Lemma 42 is vacuous.

    PRINTED gamma = (1 - 2k lambda_2k)^-1 4 lambda_2k/n, REPAIRED (50/9) lambda_0/n.
    """
    gamma = _rules(target).literal_gamma(case.k, case.lambda_0, case.n)
    yield tells(True)
    yield at_most("minus gamma", -gamma, 0)
    yield holds(f"gamma = {gamma} is below 1", gamma < 1)


def _mean_pair(pair: Pair) -> None:
    are_adjacent(pair)
    require("rows x with two covariances", pair.stage == "mean" and pair.covariance is not None)
    require("n > 2 k lambda_2k", pair.n > 2 * pair.k * _last(pair.k, pair.lambda_0))


def _are_within(pair: Pair, gamma: Fraction) -> bool:
    assert pair.covariance is not None, "the mean stage has two covariances"
    assert pair.covariance_prime is not None, "the mean stage has two covariances"
    one, two, keep = exact_rows(pair.covariance), exact_rows(pair.covariance_prime), to_fmpq(1 - gamma)
    return gamma < 1 and all(is_positive_semidefinite(a - b * keep) for a, b in ((one, two), (two, one)))


def _mean_scores(pair: Pair) -> list[int]:
    assert pair.covariance is not None, "the mean stage has two covariances"
    assert pair.covariance_prime is not None, "the mean stage has two covariances"
    sides = ((pair.rows, pair.covariance), (pair.rows_prime, pair.covariance_prime))
    return [
        stable_mean(exact_rows(rows), exact_rows(sigma), pair.lambda_0, pair.k, pair.reference).score
        for rows, sigma in sides
    ]


def _mean_score_claims(pair: Pair, gamma: Fraction) -> Iterator[Claim | Telling]:
    if not _are_within(pair, gamma):
        yield tells(False)
        return
    one, two = _mean_scores(pair)
    yield tells(one != two)
    yield at_most(f"change of SCORE_2 for covariances within gamma = {gamma}", abs(one - two), 2)


@lemma(
    "Lemma 42, 57 (with its 1/n)",
    "the mean score moves by at most 2, with the gamma that Lemma 42 may have meant",
    cases=adjacent_points,
    given=_mean_pair,
    needs=(),
    telling="the covariances are close and the scores differ",
    least_telling=Fraction(1, 5),
    refuted_by=("printed",),
    examples=lambda: (_stored("E14-lemma-42"),),
    cost=3,
)
def mean_score_is_stable_with_the_meant_gamma(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """For gamma-close covariances SCORE_2 moves by at most 2.

    PRINTED gamma = (4 lambda_2k/n)/(1 - 2k lambda_2k/n), REPAIRED (50/9) lambda_0/n.
    """
    yield from _mean_score_claims(pair, _rules(target).meant_gamma(pair.k, pair.lambda_0, pair.n))


@lemma(
    "Lemma 9 (40/7)",
    "the mean score moves by at most 2, with the gamma that Lemma 9 quotes",
    cases=adjacent_points,
    given=_mean_pair,
    needs=(),
    telling="the covariances are close and the scores differ",
    least_telling=Fraction(1, 5),
    refuted_by=("printed",),
    examples=lambda: (_stored("E14-lemma-9"),),
    cost=3,
)
def mean_score_is_stable_with_the_quoted_gamma(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """For gamma-close covariances SCORE_2 moves by at most 2: PRINTED gamma = (40/7) lambda_0/n, REPAIRED (50/9) lambda_0/n."""
    yield from _mean_score_claims(pair, _rules(target).quoted_gamma(pair.k, pair.lambda_0, pair.n))


BETWEEN = Pair(
    "mean",
    _column(*[0] * 58, "33/20", "33/20"),
    0,
    _f(0),
    Fraction(1),
    3,
    tuple(range(10)),
    ONE,
    ONE,
    label="two rows between the thresholds",
)
"""Squared distance 2.7225, between 2 Lambda_3 = 2.68 and 2 e^(1/3) = 2.79: SCORE_2 is 2 and g of Definition 41 is 1."""


def _ratio_of_distance(pair: Pair) -> tuple[list[list[Fraction]], int]:
    assert pair.covariance is not None, "the mean stage has two covariances"
    inverse = inverse_or_none(exact_rows(pair.covariance))
    assert inverse is not None, "the covariances of the case are positive definite"
    distances = squared_distances(exact_rows(pair.rows), inverse, pair.reference)
    return [[Fraction(a, distances.denominator) for a in row] for row in distances.numerators], pair.n


@lemma(
    "Definition 41",
    "what StableMean computes is the g of Definition 41",
    cases=adjacent_points,
    given=_mean_pair,
    needs=(),
    telling="some rows are missing from the core of level 0",
    refuted_by=("printed",),
    examples=lambda: (BETWEEN,),
    cost=3,
)
def score_is_that_of_its_definition(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """SCORE_2 is min{k, min_ell n - |S_ell| + ell}: PRINTED with thresholds e^(ell/k) lambda_0, REPAIRED as Eq. (67)."""
    distances, n = _ratio_of_distance(pair)
    size, sets = len(pair.reference), []
    for ell in range(pair.k + 1):
        threshold = _rules(target).core_threshold(pair.lambda_0, pair.k, n, ell) * 2
        near = {value: bool(value <= threshold) for value in {v for row in distances for v in row}}
        sets.append(frozenset(i for i, row in enumerate(distances) if sum(near[v] for v in row) >= size - ell))
    yield tells(len(sets[0]) < n)
    score = _mean_scores(replace(pair, covariance_prime=pair.covariance))[0]
    yield equal("SCORE_2 against g of Definition 41", score, score_of(sets, n, pair.k, REPAIRED))


# Size conditions ------------------------------------------------------------------------------------------------------


@st.composite
def _unpaired_rows(draw: st.DrawFn) -> Pair:
    """Paired rows y as the rows y, 0 of twice their number, and at times an odd row that has no partner."""
    pair = draw(adjacent_rows())
    zero = (Fraction(0),) * pair.d
    rows = (*pair.rows, *[zero] * (pair.n + draw(st.integers(0, 1))))
    return replace(pair, stage="pipeline", rows=rows)


def unpaired_rows() -> SearchStrategy[Pair]:
    """Adjacent rows x, x' with floor(n/2) >= 10 k lambda_0, of which the first half tells."""
    return _unpaired_rows()


def _unpaired(pair: Pair) -> None:
    are_adjacent(pair)
    require("rows x", pair.stage == "pipeline")


def _covariance_scores(pair: Pair) -> list[int]:
    return [stable_covariance(exact_rows(rows), pair.lambda_0, pair.k).score for rows in (pair.rows, pair.rows_prime)]


def _covariance_score_claims(pair: Pair, *, large_enough: bool) -> Iterator[Claim | Telling]:
    if not large_enough:
        yield tells(False)
        return
    one, two = _covariance_scores(pair)
    yield tells(min(one, two) < pair.k)
    yield at_most(f"change of SCORE_1 at n = {pair.n}", abs(one - two), 2)


@lemma(
    "Algorithm 5.1 (size)",
    "the size condition of Algorithm 5.1 makes its score stable",
    cases=unpaired_rows,
    given=_unpaired,
    needs=(),
    telling="n is large enough and a score is below k",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (_stored("E8-x"),),
    cost=6,
)
def size_of_algorithm_51_is_enough(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """SCORE moves by at most 2: PRINTED for n >= 10 k lambda_0, though it pairs; REPAIRED for floor(n/2) >= 10 k lambda_0."""
    enough = _rules(target).algorithm_51_size(pair.n, pair.k, pair.lambda_0)
    yield from _covariance_score_claims(pair, large_enough=enough)


@lemma(
    "Lemma 9, 11 (odd n)",
    "the size condition of Algorithm 1 makes SCORE_1 stable for odd n too",
    cases=unpaired_rows,
    given=_unpaired,
    needs=(),
    telling="n is large enough and a score is below k",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (_stored("E9-x"),),
    cost=6,
)
def size_of_algorithm_1_is_enough(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """SCORE_1 moves by at most 2: PRINTED for n >= 20 k lambda_0, as if m = n/2; REPAIRED for floor(n/2) >= 10 k lambda_0."""
    enough = _rules(target).algorithm_1_size(pair.n, pair.k, pair.lambda_0)
    yield from _covariance_score_claims(pair, large_enough=enough)


def _large_enough(pair: Pair) -> None:
    _unpaired(pair)
    require("n >= 20 k lambda_0", pair.n >= 20 * pair.k * pair.lambda_0)


@lemma(
    "Eq. (24), Observation 18",
    "data that are well-concentrated in the paired covariance have score 0",
    cases=concentrated,
    given=_large_enough,
    needs=(),
    telling="the data are well-concentrated",
    least_telling=Fraction(1, 4),
    refuted_by=("printed",),
    examples=lambda: (_stored("E16"),),
    cost=4,
)
def well_concentrated_data_have_score_0(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If all |x_i - x_j|^2 <= 2 lambda_0 in Sigma_x, SCORE_1 = 0: PRINTED's Sigma_x has 1/(sqrt 2 m), REPAIRED's 1/(2m).

    The irrational factor is compared by squares: |.|^4 <= 4 lambda_0^2 times the square of the ratio of the two matrices.
    """
    rows, m = exact_rows(pair.rows), pair.n // 2
    inverse = inverse_or_none(second_moment(differences(rows), [Fraction(1, 2 * m)] * m))
    concentrated_enough = False
    if inverse is not None:
        distances = squared_distances(rows, inverse, range(pair.n))
        largest = Fraction(max(row[-1] for row in distances.numerators), distances.denominator)
        limit = _rules(target).paired_covariance_squared * 4 * pair.lambda_0**2
        concentrated_enough = largest**2 <= limit
    yield tells(concentrated_enough)
    if concentrated_enough:
        yield equal("SCORE_1", stable_covariance(rows, pair.lambda_0, pair.k).score, 0)


@lemma(
    "Lemma 11, 22 (lambda_0)",
    "a score below k comes with an invertible covariance",
    cases=adjacent_rows,
    given=_covariance_pair,
    needs=(),
    telling="the score is below k",
    least_telling=Fraction(1, 4),
    refuted_by=("printed",),
    examples=lambda: (_stored("E11"),),
    cost=3,
)
def covariance_is_invertible_if_the_score_is_low(target: Target, pair: Pair) -> Iterator[Claim | Telling]:
    """If m >= 10 k lambda_0 and SCORE < k, Sigma > 0: PRINTED for lambda_0 > 0, REPAIRED for lambda_0 >= 1/10.

    Proof: some S_ell with ell < k misses fewer than k rows; m >= 10 k lambda_0 >= k, so it is not empty, so it is good.
    """
    result = stable_second_moment(exact_rows(pair.rows), pair.lambda_0, pair.k)
    applies = result.score < pair.k and pair.lambda_0 >= _rules(target).least_lambda_0
    yield tells(applies)
    if applies:
        yield holds("Sigma is positive definite", inverse_or_none(result.covariance) is not None)


# Which hypotheses are needed ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Witness:
    """An instance outside one hypothesis of a statement on which its conclusion fails.

    Attributes
    ----------
    statement, dropped
        Which statement, and the hypothesis in words.
    instance
        The case.
    hypothesis
        The hypothesis as a predicate: false for the instance.
    others
        All other hypotheses: true for the instance.
    conclusion
        Computes the claim of the statement for the instance: false.
    """

    statement: str
    dropped: str
    instance: Any
    hypothesis: Callable[[Any], bool]
    others: Callable[[Any], bool]
    conclusion: Callable[[Any], Claim]


def _paired(values: Sequence[int | str], new: int | str, lambda_0: int | str, k: int) -> Pair:
    """Paired rows in one dimension of which the first one is replaced."""
    return Pair("covariance", _column(*values), 0, _f(new), Fraction(lambda_0), k, label="witness")


def _points(
    values: Sequence[int | str],
    change: tuple[int, int | str],
    lambda_0: int | str,
    k: int,
    reference: Sequence[int],
    sigmas: tuple[int | str, int | str] = (1, 1),
) -> Pair:
    """Rows x in one dimension with two variances."""
    one, two = (_column(sigma) for sigma in sigmas)
    rows = _column(*values)
    return Pair(
        "mean", rows, change[0], _f(change[1]), Fraction(lambda_0), k, tuple(reference), one, two, label="witness"
    )


@dataclass(frozen=True)
class _Stage:
    """What a stage computes on both sides of a pair."""

    scores: list[int]
    sets: list[tuple[frozenset[int], ...]]
    weights: list[Sequence[Fraction]]
    estimates: list[Any]

    def missing_at(self, ell: int, star: int) -> int:
        """Rows other than i* in S_ell and not in T_{ell+1}, or the other way round."""
        (s, t) = self.sets
        return len((s[ell] - {star} - t[ell + 1]) | (t[ell] - {star} - s[ell + 1]))

    def l1_off(self, star: int) -> Fraction:
        """The l1 change of the weights off i*."""
        return sum((abs(a - b) for i, (a, b) in enumerate(zip(*self.weights, strict=True)) if i != star), Fraction(0))


def _stage(pair: Pair) -> _Stage:
    if pair.stage == "covariance":
        first = [stable_second_moment(exact_rows(rows), pair.lambda_0, pair.k) for rows in (pair.rows, pair.rows_prime)]
        return _Stage(
            [r.score for r in first],
            [r.good_subsets or () for r in first],
            [r.weights for r in first],
            [r.covariance for r in first],
        )
    sides = ((pair.rows, pair.covariance), (pair.rows_prime, pair.covariance_prime))
    second = [
        stable_mean(exact_rows(rows), exact_rows(sigma), pair.lambda_0, pair.k, pair.reference)
        for rows, sigma in sides
        if sigma is not None
    ]
    return _Stage(
        [r.score for r in second],
        [r.cores or () for r in second],
        [r.weights for r in second],
        [r.mean for r in second],
    )


def _has_size(pair: Pair) -> bool:
    return pair.n >= 10 * pair.k * pair.lambda_0


def _are_below(pair: Pair) -> bool:
    return max(_stage(pair).scores) < pair.k


def _is_below_and_large(pair: Pair) -> bool:
    return _are_below(pair) and _has_size(pair)


def _has_stated_size(pair: Pair) -> bool:
    return pair.n >= 20 * pair.k * pair.lambda_0 >= 20 * pair.k


def _gamma(pair: Pair) -> Fraction:
    rows = pair.n if pair.stage == "mean" else 2 * pair.n
    return ordered_stability_gamma(pair.lambda_0, rows)


def _are_gamma_close(pair: Pair) -> bool:
    return _are_within(pair, _gamma(pair))


def _always(_case: Any) -> bool:
    return True


def _score_moves(pair: Pair) -> Claim:
    one, two = _stage(pair).scores
    return at_most("change of the score", abs(one - two), 2)


def _uncapped_score_moves(pair: Pair) -> Claim:
    one, two = (min(pair.n - len(s[ell]) + ell for ell in range(pair.k + 1)) for s in _stage(pair).sets)
    return at_most("change of the score without its cap", abs(one - two), 2)


def _sets_intertwine(pair: Pair) -> Claim:
    stage = _stage(pair)
    return at_most(
        "rows that break S_ell in T_{ell+1}", max(stage.missing_at(ell, pair.index) for ell in range(2 * pair.k)), 0
    )


def _weights_move(pair: Pair) -> Claim:
    return at_most("l1 change of the weights off i*", _stage(pair).l1_off(pair.index), Fraction(1, pair.n))


def _mean_weights_move(pair: Pair) -> Claim:
    bound = Fraction(3, pair.n) / (1 - Fraction(pair.k, pair.n)) ** 2
    return at_most("l1 change of the weights off i*", _stage(pair).l1_off(pair.index), bound)


def _weights_are_good(pair: Pair) -> Claim:
    """Of the first data set, with the constant 10/7 that does not depend on k."""
    stage = _stage(pair)
    if inverse_or_none(stage.estimates[0]) is None:
        return holds("Sigma is positive definite", condition=False)
    norms = _norms(pair.rows, stage.weights[0], stage.estimates[0])
    return at_most("largest squared norm of a row of positive weight", max(norms), Fraction(10, 7) * pair.lambda_0)


def _covariances_are_ordered(pair: Pair) -> Claim:
    one, two = _stage(pair).estimates
    keep = to_fmpq(1 - _gamma(pair))
    definite = all(inverse_or_none(sigma) is not None for sigma in (one, two))
    ordered = all(is_positive_semidefinite(a - b * keep) for a, b in ((one, two), (two, one)))
    return holds(f"positive definite and ordered, gamma = {_gamma(pair)}", definite and ordered)


def _mean_moves_little(pair: Pair) -> Claim:
    one, two = _stage(pair).estimates
    assert pair.covariance is not None, "the mean stage has two covariances"
    move = (one[0] - two[0]) ** 2 / pair.covariance[0][0]
    return at_most("squared move of the mean", move, REPAIRED.mean_move_squared(pair.k, pair.lambda_0, pair.n))


def _mean_is_of_a_core(pair: Pair) -> Claim:
    assert pair.covariance is not None, "the mean stage has two covariances"
    rows, sigma = exact_rows(pair.rows), exact_rows(pair.covariance)
    last = Lambda_ell(pair.lambda_0, pair.n, 2 * pair.k)
    tau = Fraction(pair.n, 2) + 1
    core = is_weighted_core(rows, _stage(pair).weights[0], tau, last, sigma, range(pair.n))
    return holds("the weights are an (n/2+1, Lambda_2k)-weighted core", core)


def _is_representative(pair: Pair) -> bool:
    assert pair.covariance is not None, "the mean stage has two covariances"
    rows, sigma = exact_rows(pair.rows), exact_rows(pair.covariance)
    representative = is_degree_representative(rows, sigma, pair.lambda_0, pair.k, pair.reference)
    return representative and _stage(pair).scores[0] < pair.k


def _printed_least_n(pair: Pair) -> Fraction:
    """2 k lambda_2k: Lemma 38 and Lemma 42 are printed for more rows."""
    return 2 * pair.k * _last(pair.k, pair.lambda_0)


def _good(case: Weightings) -> bool:
    return is_good_weighting(exact_rows(case.rows), case.w, case.lam)


def _also_good(case: Weightings) -> bool:
    return is_good_weighting(exact_rows(case.rows_prime), case.v, case.lam)


def _are_in_order(case: Weightings) -> Claim:
    claims = list(_order_claims(*case.covariances(), case.gamma))
    return next((claim for claim in claims if not claim.is_true(Fraction(0))), claims[0])


def _trace_is_three_halves(case: Weightings) -> Claim:
    return max(
        _trace_claims(case, Fraction(3, 2) * case.gamma / (1 - case.gamma)), key=lambda claim: claim.tightness or 0
    )


def _every_removal_is_good(case: SomeRows) -> Claim:
    """For no threshold is a set good whose second moment has no inverse."""
    m, exact = len(case.rows), exact_rows(case.rows)
    left = [second_moment(exact, _weights_of(frozenset(range(m)) - {j}, m)) for j in range(m)]
    return holds("every [m] minus j has an invertible second moment", all(inverse_or_none(s) is not None for s in left))


def _score_is_twice_the_distance(case: Damaged) -> Claim:
    score, _ = _good_subset_sizes(case.damaged, case.lambda_0, case.k)
    return at_most("SCORE against twice the number of replaced rows", score, 2 * len(case.replaced))


def _damage_is_small(case: Damaged) -> bool:
    score, _ = _good_subset_sizes(case.damaged, case.lambda_0, case.k)
    return score < case.k and is_good_subset(exact_rows(case.rows), range(len(case.rows)), case.lambda_0)


def _close_means(factor: int, *, adjacent: bool) -> Callable[[Cores], Claim]:
    def claim(case: Cores) -> Claim:
        off_star = [i for i in range(len(case.rows)) if not adjacent or i != case.index]
        rho = _l1([case.w[i] for i in off_star], [case.v[i] for i in off_star])
        eta = max(case.w[case.index], case.v[case.index]) if adjacent else Fraction(0)
        bound = factor * (rho + 2 * eta) ** 2 * case.lam / (1 - case.gamma)
        return at_most("squared move of the weighted mean", _mean_moves(case)[0], bound)

    return claim


def _cores_hold(case: Cores) -> bool:
    n, one, two = range(len(case.rows)), exact_rows(case.covariance), exact_rows(case.covariance_prime)
    sides = ((case.rows, case.w, one), (case.rows_prime, case.v, two))
    return all(is_weighted_core(exact_rows(r), w, case.tau, case.lam, s, n) for r, w, s in sides)


def _cores_are_close(case: Cores) -> bool:
    one, two, keep = exact_rows(case.covariance), exact_rows(case.covariance_prime), to_fmpq(1 - case.gamma)
    return all(is_positive_semidefinite(a - b * keep) for a, b in ((one, two), (two, one)))


BIG = 1 << 20
JUMP = _paired([0, 1, 1, "1/4", "1/4", "1/4"], 1, 2, 3)
"""Two rows are outliers at every level, or at none, as a third one is 0 or 1: m = 6."""
THREE_ZEROS = _paired([1, 0, 0, *[1] * 7], 0, 1, 1)
"""m = 10 = 10 k lambda_0: with two zeros the ones tie with lambda_2, with three nothing is left. Both scores are k = 1."""
NO_REFERENCE = _points([0] * 60, (0, BIG), 1, 3, range(7))
"""|R| = 2k + 1: the row that moves away is its own single neighbour, which is enough at level 2k."""
HALF_NEAR = _points([0] * 19 + [1] + [-1] * 20, (0, 0), 1, 2, [*range(8), *range(20, 24)])
"""|R| = 12 = 6k: the row at 1 is near 8 of 12 of R and 20 of 40 rows, and enters at level 2k."""
ODD = _points([0] * 4 + [1] * 9 + [0] * 5 + [3], (0, 0), "1/2", 2, range(13), (4, 4))
"""E22: n = 19 < 9k + 2, and the row at 3 is near 10 rows, which is less than n/2 + 1."""
TWO_POINTS = Cores(_column(0, BIG), 0, _f(0), _f(1, 0), _f(0, 1), ONE, ONE, Fraction(0), Fraction(1), 1)
STAR_SHARED = Cores(_column(0, BIG, 0), 2, _f(BIG), _f(1, 0, 0), _f(0, 1, 0), ONE, ONE, Fraction(0), Fraction(1), 2)
"""The only near row that the two points share is i*, and it has moved: tau = (n + 1)/2."""
UNLIKE = Cores(
    _column(0, 0, 8), 0, _f(0), _f(1, 0, 0), _f(0, 0, 1), ONE, ((Fraction(64),),), Fraction(0), Fraction(1, 2), 2
)
"""The row at 8 is near the others in variance 64 only."""


def _mean_gate(pair: Pair) -> bool:
    return _are_gamma_close(pair) and _has_stated_size(pair)


NECESSITY: tuple[Witness, ...] = (
    Witness("Lemma 32", "m >= 10 k lambda_0", _paired([1, 1, 1], 0, 1, 3), _has_size, _always, _score_moves),
    Witness("Lemma 28 (ii)", "m >= 10 k lambda_0", _paired([1, 1], 0, 1, 1), _has_size, _always, _sets_intertwine),
    Witness("Lemma 26", "m >= 10 k lambda_0", JUMP, _has_size, _are_below, _weights_move),
    Witness(
        "Lemma 25",
        "m >= 10 k lambda_0",
        _paired([1, 1, "115/64"], 1, "3/2", 2),
        _has_size,
        lambda pair: _stage(pair).scores[0] < pair.k,
        _weights_are_good,
    ),
    Witness(
        "Lemma 11, 22",
        "floor(n/2) >= 10 k lambda_0",
        JUMP,
        _has_size,
        lambda pair: _are_below(pair) and _gamma(pair) < 1,
        _covariances_are_ordered,
    ),
    Witness(
        "Lemma 11, 22",
        "lambda_0 >= 1/10",
        _paired([1], 1, "1/40", 2),
        lambda pair: pair.lambda_0 >= Fraction(1, 10),
        _is_below_and_large,
        _covariances_are_ordered,
    ),
    Witness("Lemma 26", "both scores below k", THREE_ZEROS, _are_below, _has_size, _weights_move),
    Witness(
        "Lemma 25",
        "SCORE < k",
        replace(THREE_ZEROS, rows=THREE_ZEROS.rows_prime),
        lambda pair: _stage(pair).scores[0] < pair.k,
        _has_size,
        _weights_are_good,
    ),
    Witness("Lemma 11, 22", "both scores below k", THREE_ZEROS, _are_below, _has_size, _covariances_are_ordered),
    Witness(
        "Lemma 32",
        "SCORE is cut off at k",
        _paired([1] * 9, 0, "9/10", 1),
        lambda _: False,
        _has_size,
        _uncapped_score_moves,
    ),
    Witness(
        "Lemma 32 by n >= 10 k lambda_0",
        "m, not n, is compared (Algorithm 5.1)",
        _stored("E8"),
        _has_size,
        lambda pair: 2 * pair.n >= 10 * pair.k * pair.lambda_0,
        _score_moves,
    ),
    Witness(
        "Lemma 32 by n >= 20 k lambda_0",
        "n is even, or m is compared",
        _stored("E9"),
        _has_size,
        lambda pair: 2 * pair.n + 1 >= 20 * pair.k * pair.lambda_0,
        _score_moves,
    ),
    Witness(
        "Claim 29",
        "m > lambda",
        SomeRows(_column(1), Fraction(1)),
        lambda case: len(case.rows) > case.lam,
        lambda case: is_good_subset(exact_rows(case.rows), range(len(case.rows)), case.lam),
        _every_removal_is_good,
    ),
    Witness(
        "Claim 31",
        "m >= 10 k lambda_0",
        Damaged(_column(1, 1, 1), ((0, _f(0)),), Fraction(1), 4),
        lambda case: len(case.rows) >= 10 * case.k * case.lambda_0,
        _damage_is_small,
        _score_is_twice_the_distance,
    ),
    Witness(
        "Lemma 24, 54",
        "gamma < 1",
        HEAVIER,
        lambda case: case.gamma < 1,
        lambda case: _good(case) and _also_good(case),
        _are_in_order,
    ),
    Witness(
        "Lemma 24, 54 with 3/2",
        "eta <= rho",
        E13,
        lambda case: case.eta <= case.rho,
        lambda case: _good(case) and _also_good(case) and case.gamma < 1,
        _trace_is_three_halves,
    ),
    Witness(
        "Lemma 24, 54",
        "v is good",
        Weightings(_column(1, 1), 0, _f(10), _f(0, 1), _f("1/10", 1), Fraction(1)),
        _also_good,
        lambda case: _good(case) and case.gamma < 1,
        _are_in_order,
    ),
    Witness(
        "Lemma 24, 54",
        "w is good",
        Weightings(_column(10, 1), 0, _f(1), _f("1/10", 1), _f(0, 1), Fraction(1)),
        _good,
        lambda case: _also_good(case) and case.gamma < 1,
        _are_in_order,
    ),
    Witness(
        "Lemma 55",
        "tau > n/2",
        TWO_POINTS,
        lambda case: 2 * case.tau > len(case.rows),
        lambda case: _cores_hold(case) and _cores_are_close(case),
        _close_means(2, adjacent=False),
    ),
    Witness(
        "Lemma 55",
        "gamma-close covariances",
        UNLIKE,
        _cores_are_close,
        _cores_hold,
        _close_means(2, adjacent=False),
    ),
    Witness(
        "Corollary 37, 56",
        "tau >= n/2 + 1",
        STAR_SHARED,
        lambda case: 2 * case.tau >= len(case.rows) + 2,
        lambda case: _cores_hold(case) and _cores_are_close(case),
        _close_means(2, adjacent=True),
    ),
    Witness(
        "Lemma 40 (ii)",
        "gamma-close covariances",
        _points([0, 0, 1], (0, 0), "1/2", 1, range(3), (1, "1/64")),
        _are_gamma_close,
        lambda pair: _gamma(pair) < 1,
        _sets_intertwine,
    ),
    Witness(
        "Lemma 42, 57",
        "gamma-close covariances",
        _points([0, 0, 0, 1, 1, 1], (0, 0), 1, 3, range(3), (1, "1/1048576")),
        _are_gamma_close,
        lambda pair: _gamma(pair) < 1,
        _score_moves,
    ),
    Witness(
        "Lemma 42, 57",
        "(50/9) lambda_0/n and not the gamma it may have meant",
        _stored("E14-lemma-42"),
        _are_gamma_close,
        lambda pair: _are_within(pair, RULES["PRINTED"].meant_gamma(pair.k, pair.lambda_0, pair.n)),
        _score_moves,
    ),
    Witness(
        "Lemma 42, 57",
        "SCORE is cut off at k",
        _points([0, 0, 0, *[3] * 4, 0, 0, 0], (0, 0), "9/10", 1, range(3), ("5/2", "5/4")),
        lambda _: False,
        _are_gamma_close,
        _uncapped_score_moves,
    ),
    Witness(
        "Lemma 39",
        "both scores below k",
        _points([0, 100, 200, *[0] * 17], (0, 300), 1, 1, range(3)),
        _are_below,
        _mean_gate,
        _mean_weights_move,
    ),
    Witness(
        "Lemma 13, 34",
        "both scores below k",
        _points([5] * 4 + [1000] * 2 + [5] * 14, (0, 1000), 1, 1, range(6)),
        _are_below,
        lambda pair: _mean_gate(pair) and len(pair.reference) >= 4 * pair.k + 2,
        _mean_moves_little,
    ),
    Witness(
        "Lemma 13, 34",
        "|R| >= 4k + 2",
        NO_REFERENCE,
        lambda pair: len(pair.reference) >= 4 * pair.k + 2,
        lambda pair: _mean_gate(pair) and _are_below(pair),
        _mean_moves_little,
    ),
    Witness(
        "Lemma 38",
        "|R| > 6k",
        HALF_NEAR,
        lambda pair: len(pair.reference) > 6 * pair.k,
        _is_representative,
        _mean_is_of_a_core,
    ),
    Witness(
        "Lemma 38",
        "n is even, or n >= 9k + 2",
        ODD,
        lambda pair: pair.n % 2 == 0 or pair.n >= 9 * pair.k + 2,
        lambda pair: _is_representative(pair) and len(pair.reference) > 6 * pair.k and pair.n > _printed_least_n(pair),
        _mean_is_of_a_core,
    ),
)
"""By statement; small instances, or an erratum's own one where it is near the hypothesis.

Least possible in any dimension: m = 3 for Lemma 32 and for Claim 31 (a score is at most m), m = 2 for Lemma 28 (ii) (with one
row nothing is off i*), m = 9 for the cap of Lemma 32 (lambda_k >= 1 is needed for any good subset, and m >= 10 k lambda_0),
m = 1 for Claim 29 and Lemma 11's lambda_0. The others are the smallest of the families tried, in one dimension.
"""

NOT_NEEDED: tuple[tuple[str, str, str], ...] = (
    ("Lemma 27, 28 (i), 40 (i)", "any size", "Not needed: the proofs are monotonicity alone."),
    (
        "Lemma 39",
        "n >= 20 k lambda_0 and lambda_0 >= 1",
        """Not needed: the proof uses Lemma 40, so gamma < 1, and Z >= k(n-k), so n > k. All adjacent pairs of the blocks of
        exhaustive.SMALL, down to n = 5 and k = 3, agree; a test goes through them.""",
    ),
    (
        "Lemma 42, 57",
        "n > 2 k lambda_2k",
        """Not needed with Eq. (67): the proof is Lemma 40, which asks for gamma < 1 alone. It is left over from a gamma of
        (4 lambda_2k/n)/(1 - 2 k lambda_2k/n). All adjacent pairs of exhaustive.SMALL agree, where n is far smaller.""",
    ),
    (
        "Lemma 38",
        "n > 2 k lambda_2k",
        """Not needed for even n, nor for odd n >= 9k + 2: no step of the proof uses it, and Lambda_2k is defined as soon as
        gamma < 1. And for smaller odd n it is not enough: the witness has n = 19 > 2 k lambda_2k (E22).""",
    ),
    (
        "Corollary 37, 56",
        "tau > n/2 + 1, where tau = n/2 + 1 for even n",
        """Not needed: two sets of tau rows out of n share at least 2 tau - n >= 2 of them, so one that is not i*. The printed
        proof loses it when it adds a row to the reference set. For tau = (n+1)/2 there is a witness.""",
    ),
    (
        "Lemma 13, 34 (repaired)",
        "n >= 20 k lambda_0 and lambda_0 >= 1",
        "Not needed: the proof uses gamma < 1 and n > k. With the size condition the bound is a constant times lambda_0/n^2.",
    ),
    (
        "Lemma 13, 34 (repaired)",
        "|R| >= 4k + 2, where 2k + (k+1)/2 < |R| < 4k + 2",
        """Not found, and looked for by hand only. Up to |R| = 2k + j + 1 with 2(j + 1) < k a row may be arbitrarily far away:
        it and j reference rows like it are its neighbours (the witness has j = 0). Above that every member of S_2k shares a
        near reference row with the bulk, so that only the constant 32 could fail.""",
    ),
    (
        "Lemma 25 (repaired)",
        "m >= 10 k lambda_0",
        """Needed for the constant (10/7) lambda_0 (see the witness). lambda_2k/(1 - ((k-1)^2/k) lambda_2k/m) itself holds as
        soon as its denominator is positive.""",
    ),
    (
        "Observation 18",
        "n >= 20 k lambda_0",
        "Not needed for the scores: [m] is lambda_0-good and [n] a core, whatever n is. It is the condition of the gate.",
    ),
)
"""Statement, hypothesis, and why there is no witness, or how hard was looked."""
