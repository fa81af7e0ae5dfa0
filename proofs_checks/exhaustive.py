"""All adjacent pairs of small domains: sections 3 and 4 for every multiset of rows from a few values.

A case is everything that is shared by adjacent data sets: the multiset of all rows but one. Its members are the data sets
with each value in the remaining place (and, in the mean stage, in either covariance), and a claim is made about the worst
pair of members, so that each unordered adjacent pair of the domain is looked at in exactly one case.

Why multisets: every statement here is about sets, counts and sums, which follow the rows when these are permuted, since
LargestGoodSubset and LargestCore look at the rows only through sums over sets and through counts. So one order of each
multiset serves, and equal rows have equal fate; that the target treats them so is itself checked. Signs do not matter in
the covariance stage, since y enters only as y y^T: non-negative values stand for both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Self

from flint import fmpq, fmpq_mat

from proofs_checks.datasets import Matrix, as_array
from proofs_checks.exact import exact_rows, float_fractions, trace_norm_at_most, weighted_second_moment
from proofs_checks.lemma import Case, Claim, Telling, at_most, holds, lemma, require, tells
from proofs_checks.target import Target, levels_of
from refimpl.linalg import (
    inverse_or_none,
    is_positive_semidefinite,
    mahalanobis_squared,
    second_moment,
    to_fmpq,
    to_fraction,
    weighted_mean,
)
from refimpl.parameters import Edition, Lambda_ell, covariance_step, ordered_stability_gamma

__all__ = [
    "Neighbours",
    "covariance_domain",
    "covariance_score_domain",
    "mean_domain",
    "mean_score_domain",
    "pairs_of",
    "stated_mean_domain",
]

Counts = tuple[int, ...]

LEAST_TELLING = Fraction(1, 1000)
"""A domain is gone through whole, and most of its data sets are far from every threshold: that is no fault of the check."""


@dataclass(frozen=True)
class Neighbours(Case):
    """All data sets that have all rows but one in common.

    Attributes
    ----------
    stage
        "covariance" or "mean".
    values
        The rows that occur in the domain.
    shared, shared_reference
        How many of the shared rows have each value, outside and inside the reference set (none is inside in the covariance
        stage, which has no reference set).
    in_reference
        Whether the row that is not shared is a reference row.
    lambda_0, k
        Public arguments.
    covariances
        The matrices of the mean stage, each with each data set.
    """

    stage: str
    values: Matrix
    shared: Counts
    shared_reference: Counts
    in_reference: bool
    lambda_0: Fraction
    k: int
    covariances: tuple[Matrix, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows of each data set."""
        return sum(self.shared) + sum(self.shared_reference) + 1

    @property
    def members(self) -> list[tuple[int, int]]:
        """Index of the value of the row i*, and of the covariance, of each data set."""
        return list(itertools.product(range(len(self.values)), range(max(1, len(self.covariances)))))

    @property
    def pairs(self) -> int:
        """How many unordered pairs of different members there are."""
        return math.comb(len(self.members), 2)

    def counts(self, value: int) -> tuple[Counts, Counts]:
        """How many rows have each value, inside and outside the reference set, once i* has ``value``."""
        more = tuple(int(v == value) for v in range(len(self.values)))
        inside, outside = self.shared_reference, self.shared
        return (_plus(inside, more), outside) if self.in_reference else (inside, _plus(outside, more))

    def totals(self, value: int) -> Counts:
        """How many rows have each value, wherever they are."""
        return _plus(*self.counts(value))

    def is_first_with(self, value: int) -> bool:
        """Whether this is the one case of the domain in which this data set counts: i* has its largest value."""
        return not any(self.shared[value + 1 :]) and not any(self.shared_reference[value + 1 :])

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of other cases depends on the edition
        """Number of rows that a target is given."""
        return self.n

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        texts = {"values": _texts(self.values), "covariances": [_texts(matrix) for matrix in self.covariances]}
        return {**vars(self), **texts, "lambda_0": str(self.lambda_0)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""

        def matrix(rows: Sequence[Sequence[str]]) -> Matrix:
            return tuple(tuple(Fraction(v) for v in row) for row in rows)

        exact = {
            "values": matrix(data["values"]),
            "covariances": tuple(matrix(m) for m in data["covariances"]),
            "lambda_0": Fraction(data["lambda_0"]),
            "shared": tuple(data["shared"]),
            "shared_reference": tuple(data["shared_reference"]),
        }
        return cls(**{**data, **exact})

    def paste(self) -> str:
        """Python that describes the data sets, to be pasted."""
        lines = [f"{name} = {value!r}" for name, value in self.to_json().items()]
        return "\n".join(
            [*lines, "# rows: shared_reference[v] times values[v] (these are R), then shared[v] times; and i*"]
        )


def _plus(a: Counts, b: Counts) -> Counts:
    return tuple(u + v for u, v in zip(a, b, strict=True))


def _texts(rows: Matrix) -> list[list[str]]:
    return [[str(v) for v in row] for row in rows]


# Domains --------------------------------------------------------------------------------------------------------------


def _row(*values: int | Fraction) -> tuple[Fraction, ...]:
    return tuple(Fraction(v) for v in values)


def _line(*values: int | Fraction) -> Matrix:
    return tuple(_row(v) for v in values)


BIG = 1 << 20
PLANE: Matrix = (_row(1, 0), _row(0, 1), _row(1, 1), _row(BIG, 0))


def _multisets(size: int, values: int) -> Iterator[Counts]:
    """All ways to write ``size`` as a sum of as many counts as there are values."""
    for bars in itertools.combinations(range(size + values - 1), values - 1):
        ends = (-1, *bars, size + values - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


CovarianceBlock = tuple[int, str, Matrix]
COVARIANCE_BLOCKS: dict[str, tuple[CovarianceBlock, ...]] = {
    "quick": (
        (1, "3/2", _line(0, 1, 2)),
        (2, "1", _line(0, 1, BIG)),
        (2, "5/4", _line(1, 2)),
        (3, "5/4", _line(0, 1)),
        (3, "5/4", _line(1, BIG)),
    ),
    "ci": (
        (1, "5/4", _line(0, 1, 2, 3, BIG)),
        (1, "5/2", _line(1, 2, 3)),
        (2, "3/2", _line(0, 1, 2)),
        (2, "3/2", _line(0, 1, BIG)),
        (3, "1", _line(0, 1, 2)),
        (3, "5/4", _line(0, 1)),
        (3, "3/2", _line(1, 2)),
        (1, "5/2", PLANE[:3]),
    ),
    "nightly": (
        (1, "1", _line(0, 1, 2, 3, BIG)),
        (1, "5/4", _line(0, 1, 2, 3, BIG)),
        (1, "3/2", _line(0, 1, 2, 3, BIG)),
        (1, "5/2", _line(1, 2, 3, BIG)),
        (2, "1", _line(0, 1, 2, 3, BIG)),
        (2, "5/4", _line(0, 1, 2, 3)),
        (2, "3/2", _line(0, 1, 2, BIG)),
        (3, "1", _line(0, 1, 2, 3, BIG)),
        (3, "5/4", _line(0, 1, BIG)),
        (3, "3/2", _line(0, 1, 2)),
        (1, "5/2", PLANE),
    ),
}
"""k, lambda_0 and values of each block, by profile. m is the least that meets m >= 10 k lambda_0."""


def covariance_domain(profile: str) -> Iterator[Neighbours]:
    """Every multiset of m - 1 shared paired rows."""
    for k, text, values in COVARIANCE_BLOCKS[profile]:
        lambda_0 = Fraction(text)
        m = math.ceil(10 * k * lambda_0)
        for shared in _multisets(m - 1, len(values)):
            yield Neighbours("covariance", values, shared, (0,) * len(values), False, lambda_0, k)


def covariance_score_domain(profile: str) -> Iterator[Neighbours]:
    """The part with k > 2: up to k = 2 the cap alone keeps any two scores within 2."""
    yield from (case for case in covariance_domain(profile) if case.k > 2)


@dataclass(frozen=True)
class MeanBlock:
    """A block of the mean stage: n rows of which ``reference`` are in R, from multiples of ``unit`` (and some beyond)."""

    n: int
    k: int
    reference: int
    lambda_0: Fraction
    values: Matrix
    covariances: tuple[Matrix, ...]


def _just_within(lambda_0: Fraction, n: int, ell: int) -> Fraction:
    """The largest multiple of 1/1024 whose square is at most 2 Lambda_ell: a distance that enters at level ell."""
    return Fraction(math.isqrt(math.floor(2 * Lambda_ell(lambda_0, n, ell) * (1 << 20))), 1 << 10)


def _scalars(*values: str) -> tuple[Matrix, ...]:
    return tuple(_line(Fraction(v)) for v in values)


FIVE = MeanBlock(5, 3, 3, Fraction(9, 20), _line(0, 3, 6), _scalars("10", "5"))
TEN = MeanBlock(10, 3, 6, Fraction(9, 10), _line(0, 3, BIG), _scalars("5", "5/2"))
TEN_WIDE = MeanBlock(10, 3, 6, Fraction(9, 10), _line(0, 3, 6, BIG), _scalars("5", "5/2"))
TEN_PLANE = MeanBlock(
    10,
    3,
    6,
    Fraction(9, 10),
    (_row(0, 0), _row(3, 0), _row(0, 3)),
    ((_row(5, 0), _row(0, 5)), (_row(Fraction(5, 2), 0), _row(0, 5))),
)
STATED_K1 = MeanBlock(25, 1, 6, Fraction(9, 8), _line(0, Fraction(3, 2), 3), _scalars("1", "3/4"))
ENTERING = _just_within(Fraction(9, 8), 50, 3)
STATED_K2 = MeanBlock(50, 2, 10, Fraction(9, 8), _line(0, ENTERING), _scalars("1", "7/8"))
STATED_K2_WIDE = MeanBlock(50, 2, 10, Fraction(9, 8), _line(0, ENTERING, BIG), _scalars("1", "7/8"))
"""In each block the second covariance is exactly 1 - gamma times the first (in one direction for the plane), and a distance
of 3, or 3/2, ties with 2 Lambda_0 in the first and with 2 Lambda_1 in the second; ENTERING is just within 2 Lambda_3."""

STATED: dict[str, tuple[MeanBlock, ...]] = {
    "quick": (STATED_K2,),
    "ci": (STATED_K2,),
    "nightly": (STATED_K1, STATED_K2, STATED_K2_WIDE),
}
"""Blocks that meet n >= 20 k lambda_0, lambda_0 >= 1 and abs(R) >= 4k + 2, as Lemmas 39 and 13 ask."""
SMALL: dict[str, tuple[MeanBlock, ...]] = {
    "quick": (FIVE,),
    "ci": (FIVE, TEN, TEN_PLANE),
    "nightly": (FIVE, TEN_WIDE, TEN_PLANE),
}
"""Blocks that meet gamma < 1 only, which is all that Lemmas 40 and 42 ask."""


def _mean_cases(blocks: Sequence[MeanBlock]) -> Iterator[Neighbours]:
    for b in blocks:
        for in_reference in (True, False):
            inside, outside = b.reference - in_reference, b.n - b.reference - (not in_reference)
            for shared_reference in _multisets(inside, len(b.values)):
                for shared in _multisets(outside, len(b.values)):
                    yield Neighbours(
                        "mean", b.values, shared, shared_reference, in_reference, b.lambda_0, b.k, b.covariances
                    )


def stated_mean_domain(profile: str) -> Iterator[Neighbours]:
    """Every pair of multisets inside and outside R, i* in either, under all the hypotheses of section 4."""
    yield from _mean_cases(STATED[profile])


def mean_domain(profile: str) -> Iterator[Neighbours]:
    """As :func:`stated_mean_domain`, and smaller n with gamma < 1 as well."""
    yield from _mean_cases((*SMALL[profile], *STATED[profile]))


def _covariance_case(k: int, lambda_0: str, values: Matrix, shared: Counts) -> Neighbours:
    return Neighbours("covariance", values, shared, (0,) * len(values), False, Fraction(lambda_0), k)


def _mean_case(b: MeanBlock, shared: Counts, shared_reference: Counts, *, in_reference: bool) -> Neighbours:
    return Neighbours("mean", b.values, shared, shared_reference, in_reference, b.lambda_0, b.k, b.covariances)


# What refutes the mutants, each by the claim of the statement itself.
CASCADING = _covariance_case(1, "3/2", _line(0, 1, 2), (0, 7, 7))
TIED = _covariance_case(1, "3/2", _line(0, 1, 2), (0, 8, 6))
STEEP = _covariance_case(3, "5/4", _line(0, 1), (7, 30))
GROWING = _covariance_case(1, "3/2", _line(0, 1, 2), (0, 6, 8))
ALONE = _mean_case(FIVE, (0, 0, 2), (0, 0, 2), in_reference=True)
BETWEEN = _mean_case(FIVE, (0, 1, 1), (0, 0, 2), in_reference=True)
FAR_APART = _mean_case(STATED_K2_WIDE, (39, 0, 0), (10, 0, 0), in_reference=False)


def mean_score_domain(profile: str) -> Iterator[Neighbours]:
    """The part with k > 2: up to k = 2 the cap alone keeps any two scores within 2."""
    yield from (case for case in mean_domain(profile) if case.k > 2)


def pairs_of(domain: Iterator[Neighbours]) -> tuple[int, int]:
    """How many cases and how many unordered adjacent pairs a domain has."""
    cases = [case.pairs for case in domain]
    return len(cases), sum(cases)


def _covariance_stage(case: Neighbours) -> None:
    require("paired rows", case.stage == "covariance" and not case.in_reference and not any(case.shared_reference))
    require("m >= 10 k lambda_0, lambda_0 >= 1", case.n >= 10 * case.k * case.lambda_0 >= 10 * case.k)


def _close_covariances(case: Neighbours) -> None:
    require("rows x with covariances", case.stage == "mean" and len(case.covariances) > 0)
    gamma = ordered_stability_gamma(case.lambda_0, case.n)
    require("gamma < 1", gamma < 1)
    require("gamma-close covariances", _are_close(case.covariances, gamma))


@cache
def _are_close(matrices: tuple[Matrix, ...], gamma: Fraction) -> bool:
    keep = to_fmpq(1 - gamma)
    exact = [exact_rows(matrix) for matrix in matrices]
    return all(is_positive_semidefinite(a - b * keep) for a in exact for b in exact)


def _stated_mean_stage(case: Neighbours) -> None:
    _close_covariances(case)
    require("n >= 20 k lambda_0, lambda_0 >= 1", case.n >= 20 * case.k * case.lambda_0 >= 20 * case.k)


def _enough_reference_rows(case: Neighbours) -> None:
    _stated_mean_stage(case)
    require("|R| >= 4k + 2", sum(case.shared_reference) + case.in_reference >= 4 * case.k + 2)


# What a target computes, once for each data set -----------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What a target computes on one data set.

    Attributes
    ----------
    score
        As reported.
    entered
        For each value the levels whose sets hold its rows, as bits; 0 where it does not occur.
    in_window
        For each value the number of weight levels that hold it.
    equal_fates, score_follows, weights_follow
        Whether equal rows are treated alike, and whether score and weights are those of the target's own sets.
    reported
        The weight of a row of each value, as reported.
    """

    score: int
    entered: Counts
    in_window: Counts
    equal_fates: bool
    score_follows: bool
    weights_follow: bool
    reported: tuple[Fraction, ...]


class _Memory:
    """Results by target and data set: a data set has many neighbours, and many checks look at it."""

    def __init__(self, most_targets: int = 2) -> None:
        self._most_targets = most_targets
        self._targets: list[tuple[Any, dict[Any, Found]]] = []

    def of(self, implementation: Any) -> dict[Any, Found]:
        """What is known of this very object; the target that came first is forgotten when there are too many."""
        for known, results in self._targets:
            if known is implementation:
                return results
        self._targets = [*self._targets, (implementation, {})][-self._most_targets :]
        return self._targets[-1][1]


MEMORY = _Memory()


def _found(target: Target, case: Neighbours, member: tuple[int, int]) -> Found:
    value, which = member
    inside, outside = case.counts(value)
    results = MEMORY.of(target.implementation)
    key = (case.stage, case.values, inside, outside, case.lambda_0, case.k, case.covariances, which)
    if key not in results:
        results[key] = _run(target, case, inside, outside, which)
    return results[key]


def _run(target: Target, case: Neighbours, inside: Counts, outside: Counts, which: int) -> Found:
    order = [v for counts in (inside, outside) for v, count in enumerate(counts) for _ in range(count)]
    x = as_array(tuple(case.values[v] for v in order))
    if case.stage == "covariance":
        result = target.stable_second_moment(x, case.lambda_0, case.k)
    else:
        matrix = as_array(case.covariances[which])
        result = target.stable_mean(x, matrix, case.lambda_0, case.k, tuple(range(sum(inside))))
    return _digest(target, case, order, result)


def _digest(target: Target, case: Neighbours, order: list[int], result: Any) -> Found:
    sets = levels_of(result, 2 * case.k + 1)
    bits = [sum(1 << ell for ell, s in enumerate(sets) if i in s) for i in range(case.n)]
    entered, reported = [0] * len(case.values), [Fraction(0)] * len(case.values)
    weights = float_fractions(result.weights)
    for i, v in enumerate(order):
        entered[v], reported[v] = bits[i], weights[i]
    window = target.edition.weight_levels(case.k, None)
    in_window = tuple(sum(levels >> ell & 1 for ell in window) for levels in entered)
    same = all(entered[v] == bits[i] and reported[v] == weights[i] for i, v in enumerate(order))
    levels = target.edition.score_levels(case.k, None)
    missing = (target.edition.level_score(case.n - len(sets[ell]), ell) for ell in levels)
    score = int(result.score)
    total = sum(in_window[v] for v in order) if case.stage == "mean" else len(window) * case.n
    exact = [Fraction(count, total) if total else Fraction(0) for count in in_window]
    follow = all(abs(reported[v] - exact[v]) <= target.rounding * Fraction(1, case.n) for v in set(order))
    return Found(score, tuple(entered), in_window, same, score == min(case.k, *missing), follow, tuple(reported))


def _all_found(target: Target, case: Neighbours) -> list[Found]:
    return [_found(target, case, member) for member in case.members]


def _sound_scores(found: Sequence[Found]) -> Iterator[Claim]:
    """That one order of each multiset serves, and that the score is that of the sets."""
    yield holds("equal rows have equal fates", all(f.equal_fates for f in found))
    yield holds("SCORE follows from the sets", all(f.score_follows for f in found))


def _sound_weights(found: Sequence[Found]) -> Iterator[Claim]:
    """That one order of each multiset serves, and that the weights are those of the sets."""
    yield holds("equal rows have equal fates", all(f.equal_fates for f in found))
    yield holds("the weights follow from the sets", all(f.weights_follow for f in found))


def _name(case: Neighbours, member: tuple[int, int]) -> str:
    value, which = member
    place = ", ".join(str(v) for v in case.values[value])
    return f"({place})" + (f" in covariance {which}" if case.covariances else "")


def _worst(
    case: Neighbours, what: str, measured: Sequence[tuple[Fraction | int, int, int]], bound: Fraction | int
) -> Claim:
    """The claim about the pair of members with the largest measure."""
    largest, one, two = max(measured)
    pair = f"i* = {_name(case, case.members[one])} against {_name(case, case.members[two])}"
    return at_most(f"{what}, {pair}", largest, bound)


def _index_pairs(case: Neighbours) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(case.members)), 2))


def _below(found: Sequence[Found], case: Neighbours) -> list[tuple[int, int]]:
    """The pairs of members whose scores are both below k."""
    return [(i, j) for i, j in _index_pairs(case) if found[i].score < case.k and found[j].score < case.k]


# Section 3 ------------------------------------------------------------------------------------------------------------

COVARIANCE = ("stable_second_moment",)


def _score_claims(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    found = _all_found(target, case)
    yield tells(len({f.score for f in found}) > 1)
    moves = [(abs(found[i].score - found[j].score), i, j) for i, j in _index_pairs(case)]
    yield _worst(case, "change of SCORE", moves, 2)
    yield from _sound_scores(found)


@lemma(
    "Lemma 32 (all pairs)",
    "the covariance score moves by at most 2",
    domain=covariance_score_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="two of the data sets have different scores",
    least_telling=LEAST_TELLING,
    refuted_by=("outlier_threshold_does_not_grow", "score_is_not_capped"),
    examples=lambda: (STEEP, CASCADING),
    evidence="exhaustive",
)
def covariance_scores_of_all_pairs(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """The scores of any two data sets of the domain that differ in one row differ by at most 2."""
    yield from _score_claims(target, case)


def _needs(values: Matrix, totals: Counts) -> list[tuple[frozenset[int], fmpq]]:
    """All unions of classes of equal rows that have an invertible second moment, and the least lambda that each is good for.

    A largest good subset is such a union: a further copy of a member shrinks every norm, and its own was small enough.
    """
    present = [v for v, count in enumerate(totals) if count]
    m, found = sum(totals), []
    for size in range(1, len(present) + 1):
        for chosen in itertools.combinations(present, size):
            rows = exact_rows(tuple(values[v] for v in chosen))
            inverse = inverse_or_none(second_moment(rows, [Fraction(totals[v], m) for v in chosen]))
            if inverse is not None:
                found.append((frozenset(chosen), max(mahalanobis_squared(rows, inverse))))
    return found


@lemma(
    "Lemma 27 (all subsets)",
    "S_ell is the union of all lambda_ell-good subsets, and good itself",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="some level of a data set keeps some rows and removes others",
    least_telling=LEAST_TELLING,
    refuted_by=(
        "single_pass",
        "strict_for_non_strict",
        "divides_by_subset_size",
        "outlier_threshold_doubled",
        "constant_target",
    ),
    examples=lambda: (CASCADING, TIED),
    evidence="exhaustive",
)
def largest_good_subsets_of_all_data(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """At every level S_ell is lambda_ell-good or empty, and contains every lambda_ell-good subset."""
    telling, wrong = False, []
    last = 2 * case.k
    thresholds = [target.edition.outlier_threshold(case.lambda_0, case.k, case.n, ell) for ell in range(last + 1)]
    for value in (v for v in range(len(case.values)) if case.is_first_with(v)):
        entered = _found(target, case, (value, 0)).entered
        totals = case.totals(value)
        needs = _needs(case.values, totals)
        for ell, threshold in enumerate(thresholds):
            good = [classes for classes, need in needs if need <= to_fmpq(threshold)]
            kept = frozenset(v for v, levels in enumerate(entered) if levels >> ell & 1)
            telling |= 0 < len(kept) < sum(count > 0 for count in totals)
            if kept != frozenset().union(*good) or (kept and kept not in good):
                wrong.append((value, ell))
    yield tells(telling)
    yield at_most(f"sets that are not the largest good subset, as (value of i*, level): {wrong[:3]}", len(wrong), 0)


def _nesting_claims(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    found = _all_found(target, case)
    last = 2 * case.k
    yield tells(any(0 < levels < (2 << last) - 1 for f in found for levels in f.entered))
    broken = [
        sum(
            (levels & ~(levels >> 1) & ((1 << last) - 1)).bit_count() * count
            for levels, count in zip(f.entered, t, strict=True)
        )
        for f, t in zip(found, (case.totals(value) for value, _ in case.members), strict=True)
    ]
    worst = max(range(len(found)), key=broken.__getitem__)
    yield at_most(f"rows that leave at a higher level, i* = {_name(case, case.members[worst])}", broken[worst], 0)


@lemma(
    "Lemma 28 (i) (all pairs)",
    "good subsets are nested",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="some row of a data set is in some sets and not in others",
    least_telling=LEAST_TELLING,
    refuted_by=("level_sets_that_are_not_nested",),
    examples=lambda: (_covariance_case(1, "3/2", _line(0, 1, 2), (0, 3, 11)),),
    evidence="exhaustive",
)
def good_subsets_of_all_data_are_nested(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """S_ell is contained in S_{ell'} for ell <= ell', for every data set of the domain."""
    yield from _nesting_claims(target, case)


def _intertwining_claims(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    found = _all_found(target, case)
    mask = (1 << 2 * case.k) - 1  # the levels ell < 2k
    shared = [v for v, count in enumerate(_plus(case.shared, case.shared_reference)) if count]
    yield tells(any(len({f.entered[v] for f in found}) > 1 for v in shared))
    broken = []
    for i, j in _index_pairs(case):
        s, t = found[i].entered, found[j].entered
        classes = sum((s[v] & ~(t[v] >> 1) & mask) != 0 or (t[v] & ~(s[v] >> 1) & mask) != 0 for v in shared)
        broken.append((classes, i, j))
    yield _worst(case, "kinds of shared rows in S_ell and not in T_{ell+1}, or the other way round", broken, 0)


@lemma(
    "Lemma 28 (ii) (all pairs)",
    "good subsets of adjacent data are intertwined",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="the sets of two data sets differ off i*",
    least_telling=LEAST_TELLING,
    refuted_by=("divides_by_subset_size", "outlier_threshold_does_not_grow", "single_pass"),
    examples=lambda: (
        GROWING,
        _covariance_case(1, "3/2", _line(0, 1, 2), (3, 5, 6)),
        _covariance_case(1, "3/2", _line(0, 1, 2), (6, 8, 0)),
    ),
    evidence="exhaustive",
)
def good_subsets_of_all_pairs_intertwine(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """S_ell minus i* is contained in T_{ell+1}, and T_ell minus i* in S_{ell+1}, for every adjacent pair of the domain."""
    yield from _intertwining_claims(target, case)


def _l1_off_star(case: Neighbours, one: Found, two: Found) -> Fraction:
    shared = _plus(case.shared, case.shared_reference)
    moves = (count * abs(u - v) for count, u, v in zip(shared, one.reported, two.reported, strict=True) if count)
    return sum(moves, Fraction(0))


@lemma(
    "Lemma 26 (all pairs)",
    "the covariance weights move by at most 1/m in l1 off i*",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="two of the data sets have scores below k",
    least_telling=LEAST_TELLING,
    refuted_by=("weights_are_normalized",),
    examples=lambda: (_covariance_case(1, "3/2", _line(0, 1, 2), (0, 9, 5)),),
    evidence="exhaustive",
)
def covariance_weights_of_all_pairs_are_stable(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """If both scores are below k, sum_{i != i*} |w_i - w'_i| <= 1/m and w_i*, w'_i* <= 1/m."""
    found = _all_found(target, case)
    below = _below(found, case)
    yield tells(bool(below))
    room = target.rounding + 1
    if below:
        moves = [(_l1_off_star(case, found[i], found[j]), i, j) for i, j in below]
        yield _worst(case, "l1 change of the weights off i*", moves, Fraction(1, case.n) * room)
    for (value, _), f in zip(case.members, found, strict=True):
        yield at_most(f"the weight of i* = {case.values[value][0]}", f.reported[value], Fraction(1, case.n) * room)
    yield from _sound_weights(found)


def _second_moment(case: Neighbours, value: int, found: Found) -> fmpq_mat:
    totals = case.totals(value)
    weights = [count * w for count, w in zip(totals, found.reported, strict=True)]
    return weighted_second_moment(case.values, weights)


@lemma(
    "Lemma 25 (all pairs)",
    "the covariance weights are a good weighting",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="a data set has a score below k",
    least_telling=LEAST_TELLING,
    refuted_by=("outlier_threshold_doubled", "raw_rows_averaged"),
    examples=lambda: (
        _covariance_case(1, "3/2", _line(0, 1, 2), (0, 10, 4)),
        _covariance_case(2, "5/4", _line(1, 2), (24, 0)),
    ),
    evidence="exhaustive",
)
def covariance_weights_of_all_data_are_good(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """If SCORE < k, the weights are good for lambda_2k / (1 - ((k-1)^2/k) lambda_2k/m), or PRINTED's (25/18) lambda_0."""
    chosen = [v for v in range(len(case.values)) if case.is_first_with(v)]
    found = {v: _found(target, case, (v, 0)) for v in chosen}
    yield tells(any(f.score < case.k for f in found.values()))
    rows = exact_rows(case.values)
    bound = target.edition.goodness_factor(case.k, case.lambda_0, case.n) * (1 + target.rounding)
    for value, f in found.items():
        if f.score < case.k:
            inverse = inverse_or_none(_second_moment(case, value, f))
            yield holds("the weighted second moment is positive definite", inverse is not None)
            if inverse is not None:
                norms = mahalanobis_squared(rows, inverse)
                largest = max(norm for norm, w, t in zip(norms, f.reported, case.totals(value), strict=True) if w and t)
                yield at_most("largest squared norm of a row of positive weight", to_fraction(largest), bound)


@lemma(
    "Lemma 11, 22 (all pairs)",
    "adjacent covariances are close in Loewner order and trace norm",
    domain=covariance_domain,
    given=_covariance_stage,
    needs=COVARIANCE,
    telling="two of the data sets have scores below k",
    least_telling=LEAST_TELLING,
    refuted_by=("weights_from_levels_0_to_k", "constant_target"),
    examples=lambda: (
        _covariance_case(2, "1", _line(0, 1, BIG), (0, 0, 19)),
        _covariance_case(1, "3/2", _line(0, 1, 2), (4, 10, 0)),
    ),
    evidence="exhaustive",
)
def covariances_of_all_pairs_are_close(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """If both scores are below k, (1-gamma) Sigma_1 <= Sigma_2 <= Sigma_1/(1-gamma), and the trace norms are at most the step.

    gamma = (50/9) lambda_0/n and the step (25/3) lambda_0/((1-gamma) n), with n = 2m.
    """
    found = _all_found(target, case)
    below = _below(found, case)
    yield tells(bool(below))
    n = 2 * case.n
    keep = to_fmpq(1 - ordered_stability_gamma(case.lambda_0, n) - target.rounding)
    step = covariance_step(case.lambda_0, n) * (1 + target.rounding)
    sigma = {i: _second_moment(case, case.members[i][0], found[i]) for pair in below for i in pair}
    yield holds("the covariances are positive definite", all(inverse_or_none(v) is not None for v in sigma.values()))
    norms = []
    for i, j in [*below, *((j, i) for i, j in below)]:
        if not is_positive_semidefinite(sigma[j] - sigma[i] * keep):
            names = _name(case, case.members[i]), _name(case, case.members[j])
            yield holds("Sigma_2 >= (1-gamma) Sigma_1 for i* = {} against {}".format(*names), False)
        within, norm = trace_norm_at_most(sigma[i], sigma[j], step)
        norms.append((min(Fraction(norm), step) if within else max(Fraction(norm), 2 * step), i, j))
    if norms:
        yield _worst(case, "trace norm of the change", norms, step)


# Section 4 ------------------------------------------------------------------------------------------------------------

MEAN = ("stable_mean",)


@lemma(
    "Lemma 42, 57 (all pairs)",
    "the mean score moves by at most 2",
    domain=mean_score_domain,
    given=_close_covariances,
    needs=MEAN,
    telling="two of the data sets have different scores",
    least_telling=LEAST_TELLING,
    refuted_by=("mean_scores_by_level_sizes", "degree_threshold_is_fixed", "distance_threshold_does_not_grow"),
    examples=lambda: (ALONE, BETWEEN),
    evidence="exhaustive",
)
def mean_scores_of_all_pairs(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """The scores of any two adjacent data sets of the domain, in either covariance each, differ by at most 2."""
    yield from _score_claims(target, case)


@lemma(
    "Lemma 40 (i) (all pairs)",
    "cores are nested",
    domain=mean_domain,
    given=_close_covariances,
    needs=MEAN,
    telling="some row of a data set is in some cores and not in others",
    least_telling=LEAST_TELLING,
    refuted_by=("level_sets_that_are_not_nested",),
    examples=lambda: (ALONE,),
    evidence="exhaustive",
)
def cores_of_all_data_are_nested(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """The core of level ell is contained in that of level ell' for ell <= ell', for every data set of the domain."""
    yield from _nesting_claims(target, case)


@lemma(
    "Lemma 40 (ii) (all pairs)",
    "cores of adjacent data are intertwined",
    domain=mean_domain,
    given=_close_covariances,
    needs=MEAN,
    telling="the cores of two data sets differ off i*",
    least_telling=LEAST_TELLING,
    refuted_by=("degree_threshold_is_fixed", "distance_threshold_does_not_grow"),
    examples=lambda: (ALONE, BETWEEN),
    evidence="exhaustive",
)
def cores_of_all_pairs_intertwine(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """S_ell minus i* lies in T_{ell+1} and T_ell minus i* in S_{ell+1}, for adjacent data in either covariance each."""
    yield from _intertwining_claims(target, case)


@lemma(
    "Lemma 39 (all pairs)",
    "the mean weights move by at most 3/(n(1-k/n)^2) in l1 off i*",
    domain=stated_mean_domain,
    given=_stated_mean_stage,
    needs=MEAN,
    telling="two of the data sets have scores below k",
    least_telling=LEAST_TELLING,
    refuted_by=("mean_weights_do_not_sum_to_one",),
    examples=lambda: (_mean_case(STATED_K2, (0, 40), (0, 9), in_reference=True),),
    evidence="exhaustive",
)
def mean_weights_of_all_pairs_are_stable(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """If both scores are below k, sum_{i != i*} |w_i - w'_i| <= 3/(n (1-k/n)^2), and w_i*, w'_i* <= 1/(n-k)."""
    found = _all_found(target, case)
    moves = [(_l1_off_star(case, found[i], found[j]), i, j) for i, j in _below(found, case)]
    yield tells(bool(moves))
    room, share = target.rounding + 1, 1 - Fraction(case.k, case.n)
    if moves:
        yield _worst(case, "l1 change of the weights off i*", moves, Fraction(3, case.n) / share**2 * room)
    for (value, _), f in zip(case.members, found, strict=True):
        if f.score < case.k:
            yield at_most("the weight of i*", f.reported[value], room / (case.n * share))
    yield from _sound_weights(found)


@lemma(
    "Lemma 13, 34 (all pairs)",
    "the mean moves little in Mahalanobis norm",
    domain=stated_mean_domain,
    given=_enough_reference_rows,
    needs=MEAN,
    telling="two of the data sets have scores below k and different means",
    least_telling=LEAST_TELLING,
    refuted_by=("raw_rows_averaged",),
    examples=lambda: (FAR_APART,),
    evidence="exhaustive",
)
def means_of_all_pairs_are_stable(target: Target, case: Neighbours) -> Iterator[Claim | Telling]:
    """If both scores are below k and |R| >= 4k+2, |mu - mu'|^2 <= 32 lambda_0/((1-gamma)^{2k+1} (1-k/n)^2 n^2).

    In the norm of either covariance. PRINTED's constants are 25 and power 4; its representative R is not asked for.
    """
    found = _all_found(target, case)
    below = _below(found, case)
    means = [_mean_of(case, value, f) for (value, _), f in zip(case.members, found, strict=True)]
    yield tells(any(means[i] != means[j] for i, j in below))
    bound = target.edition.mean_move_squared(case.k, case.lambda_0, case.n) * (1 + target.rounding)
    moves = []
    for i, j in below:
        move = exact_rows((tuple(u - v for u, v in zip(means[i], means[j], strict=True)),))
        norms = [mahalanobis_squared(move, _inverse(case.covariances[case.members[side][1]]))[0] for side in (i, j)]
        moves.append((to_fraction(max(norms)), i, j))
    if moves:
        yield _worst(case, "squared Mahalanobis move of the mean", moves, bound)


def _mean_of(case: Neighbours, value: int, found: Found) -> tuple[Fraction, ...]:
    weights = [count * w for count, w in zip(case.totals(value), found.reported, strict=True)]
    return weighted_mean(exact_rows(case.values), weights)


@cache
def _inverse(matrix: Matrix) -> fmpq_mat:
    inverse = inverse_or_none(exact_rows(matrix))
    assert inverse is not None, "the covariances of the domain are positive definite"
    return inverse
