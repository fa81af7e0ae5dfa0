r"""Whole mechanisms, end to end: the exact (epsilon, delta) curve of Algorithms 1 and 5.1 on adjacent data.

Given its reference set R, Algorithm 1 outputs FAIL with probability 1 - p, p = Pr[PASS] at the score of the data, and else a
draw from the Gaussian P = N(mu, c^2 Sigma). Algorithm 5.1 does the same with N draws from N(0, Sigma), for which their second
moment is sufficient. FAIL is an atom apart from all draws, so for adjacent data with p, P and p', P' the least delta for which
the inequality of (epsilon, delta)-privacy holds in this direction is, exactly,

    max(0, (1-p) - e^eps (1-p')) + sup_S (p P(S) - e^eps p' P'(S)),

and the second term is 0 if p = 0, p if p' = 0, and p HS_{eps + log(p'/p)}(P||P') otherwise (:mod:`proofs_checks.divergence`).
The first term's sign is decided in the exact field of the test's law. A mechanism that is private for each R is private.

**The printed N is too large for privacy itself, not for its proof only** (Eq. (90)-(92)): on :class:`SteepFamily` it breaks
(1, 1e-6) twelve times over even with the repaired test; :func:`draws_are_private` shows it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from proofs_checks.datasets import Matrix, Pair
from proofs_checks.divergence import Gaussian, ball_of, hockey_stick
from proofs_checks.exact import exact_rows
from proofs_checks.lemma import Case, Claim, Telling, at_most, lemma, require, tells
from proofs_checks.privacy import (
    E3_COVARIANCE,
    E3_FULL,
    E3_MID,
    OutlierFamily,
    covariance_families,
    drawn_coins,
    is_a_family,
    mean_families,
    pass_probability,
)
from proofs_checks.target import Target, counts_of, levels_of
from refimpl.linalg import second_moment, weighted_mean
from refimpl.parameters import (
    REPAIRED,
    CovarianceParameters,
    Edition,
    MeanParameters,
    covariance_parameters,
    lambda_ell,
    passes_gates,
)
from refimpl.reals import Enclosure, ExpFraction, UndecidedError

__all__ = [
    "ReleaseLaw",
    "SteepFamily",
    "covariance_law",
    "largest_excess",
    "mean_law",
    "mechanism_divergence",
    "steep_laws",
]

PRECISION = 256
ZERO = Fraction(0)


@dataclass(frozen=True, eq=False)
class ReleaseLaw:
    """FAIL with probability 1 - ``passes``, else ``samples`` independent draws from ``gaussian``.

    Attributes
    ----------
    passes
        Pr[PASS], exact.
    gaussian
        The law of one draw; None where nothing is released.
    samples
        How many draws.
    """

    passes: Fraction | ExpFraction
    gaussian: Gaussian | None = None
    samples: int = 1


def _enclosure(value: Fraction | ExpFraction, precision: int) -> Enclosure:
    return value.enclosure(precision) if isinstance(value, ExpFraction) else Enclosure.point(value)


def _fail_part(epsilon: Fraction, p: Fraction | ExpFraction, q: Fraction | ExpFraction) -> Enclosure:
    """max(0, (1-p) - e^eps (1-q)), with its sign decided exactly."""
    excess = ExpFraction(epsilon) * (q - 1) + (1 - p)
    return excess.enclosure(PRECISION) if excess.sign() > 0 else Enclosure.point(0)


def _release_part(epsilon: Fraction, one: ReleaseLaw, two: ReleaseLaw) -> Enclosure:
    p, q = one.passes, two.passes
    if p == 0 or q == 0:
        return _enclosure(p, PRECISION)
    assert one.gaussian is not None and two.gaussian is not None, "what passes is released"  # noqa: PT018 - one condition

    def shifted() -> arb:
        growth = ball_of(_enclosure(q, 2 * ctx.prec)) / ball_of(_enclosure(p, 2 * ctx.prec))
        return ball_of(epsilon) + growth.log()

    inner = hockey_stick(epsilon if p == q else shifted, one.gaussian, two.gaussian, samples=one.samples)
    return _enclosure(p, PRECISION) * inner


def mechanism_divergence(epsilon: Fraction, one: ReleaseLaw, two: ReleaseLaw) -> Enclosure:
    """Sup over all events of Pr[one in S] - e^epsilon Pr[two in S]: the exact delta of one direction, as an enclosure.

    Parameters
    ----------
    epsilon
        Any rational.
    one, two
        Laws with the same number of draws.

    Returns
    -------
    Enclosure
        Of relative width about 1e-10 or less.

    Raises
    ------
    ValueError
        If the numbers of draws differ.

    Privacy
    -------
    Not private: it compares two data sets.
    """
    if one.samples != two.samples:
        raise ValueError(f"two must have as many draws as one, {one.samples}, got {two.samples}")
    return _fail_part(epsilon, one.passes, two.passes) + _release_part(epsilon, one, two)


# The laws of the algorithms -------------------------------------------------------------------------------------------


def _counts(result: Any, target: Target, k: int, rows: int) -> list[int]:
    """c_i: in how many levels of the weight window row i is, from the target's integers."""
    window = target.edition.weight_levels(k, None)
    entry = getattr(result, "entry_level", None)
    if entry is None:
        return counts_of(levels_of(result, 2 * k + 1), window, rows)
    return [sum(1 for ell in window if ell >= level) if level > window[0] else len(window) for level in map(int, entry)]


def _grouped(rows: Matrix, counts: Sequence[int]) -> tuple[fmpq_mat, list[int]]:
    """Distinct rows of positive count with their total counts: the data sets of the checks repeat a few rows."""
    totals: Counter[tuple[Fraction, ...]] = Counter()
    for row, count in zip(rows, counts, strict=True):
        totals[row] += count
    kept = {row: count for row, count in totals.items() if count}
    return exact_rows(tuple(kept)), list(kept.values())


def _covariance(rows: Matrix, counts: Sequence[int], levels: int) -> fmpq_mat:
    """(1/(2 k m)) sum c_i (x_i - x_{i+m})(x_i - x_{i+m})^T, exactly."""
    m, d = len(rows) // 2, len(rows[0])
    known: dict[tuple[int, int], tuple[Fraction, ...]] = {}  # of rows that are one object

    def difference(u: tuple[Fraction, ...], v: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        if (id(u), id(v)) not in known:
            known[id(u), id(v)] = tuple(a - b for a, b in zip(u, v, strict=True))
        return known[id(u), id(v)]

    differences = tuple(map(difference, rows[:m], rows[m : 2 * m]))
    if not any(counts):
        return fmpq_mat(d, d)
    distinct, totals = _grouped(differences, counts)
    return second_moment(distinct, [Fraction(c, 2 * levels * m) for c in totals])


def _data(pair: Pair, *, prime: bool) -> tuple[Any, Matrix]:
    return (pair.x_prime, pair.rows_prime) if prime else (pair.x, pair.rows)


def mean_law(target: Target, pair: Pair, parameters: MeanParameters, *, prime: bool) -> ReleaseLaw:
    """The law of Algorithm 1's output on one of the two data sets, given the reference set of the pair.

    Scores and integer counts are the target's; mean and covariance follow from them exactly.
    """
    x, rows = _data(pair, prime=prime)
    p, k = parameters, parameters.k
    if not passes_gates(p):
        return ReleaseLaw(ZERO)
    first = target.stable_covariance(x, pair.lambda_0, k)
    second = target.stable_mean(x, first, pair.lambda_0, k, pair.reference)
    passes = pass_probability(max(int(first.score), int(second.score)), p, target)
    if passes == 0:
        return ReleaseLaw(ZERO)
    levels = len(target.edition.weight_levels(k, None))
    covariance = _covariance(rows, _counts(first, target, k, pair.n // 2), levels)
    distinct, totals = _grouped(rows, _counts(second, target, k, pair.n))
    mean = weighted_mean(distinct, [Fraction(c, sum(totals)) for c in totals])
    return ReleaseLaw(passes, Gaussian(tuple(mean), covariance, p.noise_scale_squared))


def covariance_law(target: Target, pair: Pair, parameters: CovarianceParameters, *, prime: bool) -> ReleaseLaw:
    """The law of Algorithm 5.1's N draws on one of the two data sets; as :func:`mean_law`."""
    x, rows = _data(pair, prime=prime)
    p, k = parameters, parameters.k
    if not passes_gates(p) or p.samples < 1:
        return ReleaseLaw(ZERO)
    result = target.stable_covariance(x, pair.lambda_0, k)
    passes = pass_probability(int(result.score), p, target)
    if passes == 0:
        return ReleaseLaw(ZERO, samples=p.samples)
    levels = len(target.edition.weight_levels(k, None))
    covariance = _covariance(rows, _counts(result, target, k, pair.n // 2), levels)
    return ReleaseLaw(passes, Gaussian((ZERO,) * pair.d, covariance), p.samples)


# Checks ---------------------------------------------------------------------------------------------------------------


def _decided(delta: Enclosure, bound: Fraction) -> Fraction:
    """The end of the enclosure that decides delta <= bound."""
    if delta.lower <= bound < delta.upper:
        raise UndecidedError(f"a divergence near {float(delta)!r} cannot be told apart from its bound")
    return delta.upper if delta.upper <= bound else delta.lower


def _is_private(one: ReleaseLaw, two: ReleaseLaw, epsilon: Fraction, delta: Fraction) -> Iterator[Claim | Telling]:
    there, back = mechanism_divergence(epsilon, one, two), mechanism_divergence(epsilon, two, one)
    yield tells(any(0 < law.passes < 1 for law in (one, two)))
    for value, what in ((there, "x against x'"), (back, "x' against x")):
        yield at_most(f"exact delta, {what}", _decided(value, delta), delta, rounded=True, scale=1)


@lemma(
    "Theorem 8, Lemma 15 (delta)",
    "the exact delta of Algorithm 1 is at most the claimed one",
    cases=mean_families,
    given=is_a_family,
    needs=("stable_covariance", "stable_mean"),
    telling="x or x' is released with a probability strictly between 0 and 1",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (E3_FULL, E3_MID),
    cost=60,
)
def mean_mechanism_is_private(target: Target, case: OutlierFamily) -> Iterator[Claim | Telling]:
    """For adjacent x, x' and R as drawn, sup_S Pr[A(x) in S] - e^epsilon Pr[A(x') in S] <= delta for Algorithm 1, both ways."""
    parameters = case.mean_parameters(target.edition)
    pair = case.pair(parameters.n, parameters.k, drawn_coins(target, parameters, case.seed).reference)
    one, two = (mean_law(target, pair, parameters, prime=prime) for prime in (False, True))
    yield from _is_private(one, two, case.epsilon, case.delta)


@lemma(
    "Theorem 43 (delta)",
    "the exact delta of Algorithm 5.1 is at most the claimed one",
    cases=covariance_families,
    given=is_a_family,
    needs=("stable_covariance",),
    telling="x or x' is released with a probability strictly between 0 and 1",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (E3_COVARIANCE,),
    cost=30,
)
def covariance_mechanism_is_private(target: Target, case: OutlierFamily) -> Iterator[Claim | Telling]:
    """For adjacent x, x', sup_S Pr[A(x) in S] - e^epsilon Pr[A(x') in S] <= delta for Algorithm 5.1, both ways."""
    parameters = case.covariance_parameters(target.edition)
    pair = case.pair(parameters.n, parameters.k)
    one, two = (covariance_law(target, pair, parameters, prime=prime) for prime in (False, True))
    yield from _is_private(one, two, case.epsilon, case.delta)


# The printed number of draws ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SteepFamily(Case):
    """Adjacent data (d = 2) on which the score and the covariance of Algorithm 5.1 move by as much as they can at once.

    The second half of x is 0, so that the paired rows y are the first half, m = n//2 rows. With j = ``straddlers``: a bulk of
    rows (1, 1) and (1, -1); j rows on the first axis whose norm is lambda_{2k}, so that they enter at level 2k, the last of
    the window; two more there, one of them i*, whose norm is lambda_0, so that they enter at level 0. In x' the row i* lies on
    the second axis and enters at level k + 1. Without i*, all norms on the first axis grow by a factor 1 + lambda_0/m or so:
    the row that was like i* leaves level 0 and the j rows leave level 2k. So the score moves from j to j + 2, and in units of
    lambda_0/m the first axis loses i* and 1/k of each of the j rows, 1 + (5/4) j/k or more, while the second gains
    lambda_{k+1}/lambda_0, 10/9 or more.

    Attributes
    ----------
    epsilon, delta, lambda_0
        The parameters of Algorithm 5.1, run at the least n of REPAIRED.
    straddlers
        j, below k - 1. Near k/2 the test passes with probability 1/2, and with e^{-epsilon/2} of that at j + 2.
    """

    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    straddlers: int

    def parameters(self, edition: Edition) -> CovarianceParameters:
        """REPAIRED's parameters, but for the number of draws, which is the edition's."""
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "lambda_0": self.lambda_0}
        n = covariance_parameters(0, 2, **budget, edition=REPAIRED).least_n
        draws = covariance_parameters(n, 2, **budget, edition=edition).samples
        return replace(covariance_parameters(n, 2, **budget, edition=REPAIRED), samples=draws)

    def pair(self, n: int, k: int) -> Pair:
        """The two data sets with n rows."""
        m, j, start = n // 2, self.straddlers, self.lambda_0
        bulk = (m - j - 2) // 2 * 2
        # Squares y^2 with y^2 = lambda T/m, where T, the sum of squares on the axis at that level, holds the row itself.
        near = _root_below(start * bulk / (m - 2 * start))
        last, middle = (lambda_ell(start, k, ell) for ell in (2 * k, k + 1))
        far = _root_below(last * (bulk + 2 * near**2) / (m - j * last))
        turned = _root_below(middle * bulk / (m - middle))
        axis = [(near, ZERO)] * 2 + [(far, ZERO)] * j
        rest = [(Fraction(1), Fraction(1)), (Fraction(1), Fraction(-1))] * (bulk // 2)
        rows = (*axis, *rest, *[(ZERO, ZERO)] * (n - len(axis) - len(rest)))
        return Pair("pipeline", rows, 0, (ZERO, turned), self.lambda_0, k, label="steep")

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - n is that of REPAIRED for all
        """Number of rows that a target is given."""
        return self.parameters(REPAIRED).n

    def paste(self) -> str:
        """Python that describes the family, to be pasted."""
        return f"{super().paste()}\n# data: proofs_checks.endtoend.SteepFamily(...).pair(n, k)"


def _root_below(square: Fraction, unit: int = 1 << 20) -> Fraction:
    return Fraction(math.isqrt(math.floor(square * unit * unit)), unit)


STEEP_FULL = SteepFamily(Fraction(1), Fraction(1, 10**6), Fraction(3), 54)
STEEP_MID = SteepFamily(Fraction(1), Fraction(1, 10**4), Fraction(21, 10), 35)


def steep_families() -> SearchStrategy[SteepFamily]:
    """Families small enough for exact arithmetic, with scores on both sides of where the test passes half of the time."""
    return st.builds(
        SteepFamily,
        st.just(Fraction(1)),
        st.sampled_from([Fraction(1, 10), Fraction(1, 20)]),
        st.sampled_from([Fraction(5, 2), Fraction(3)]),
        st.integers(4, 14),
    )


def _is_steep(case: SteepFamily) -> None:
    require("0 < epsilon <= 1 and 0 < delta <= epsilon/10", 0 < 10 * case.delta <= case.epsilon <= 1)
    require("lambda_0 > 2, so that the bulk is good", case.lambda_0 > 2)
    require("fewer than k - 1 straddlers", 0 < case.straddlers < case.parameters(REPAIRED).k - 1)


def steep_laws(target: Target, case: SteepFamily, edition: Edition) -> tuple[ReleaseLaw, ReleaseLaw]:
    """The laws on x and x' of Algorithm 5.1 with everything REPAIRED but the number of draws, which is the edition's."""
    parameters = case.parameters(edition)
    pair = case.pair(parameters.n, parameters.k)
    one, two = (covariance_law(target, pair, parameters, prime=prime) for prime in (False, True))
    return one, two


@lemma(
    "Eq. (90)-(92), Algorithm 5.1 (N)",
    "N draws are (epsilon, delta)-private together with the repaired test",
    cases=steep_families,
    given=_is_steep,
    needs=("stable_covariance",),
    telling="x or x' is released with a probability strictly between 0 and 1",
    refuted_by=("printed",),
    examples=lambda: (STEEP_FULL, STEEP_MID),
    cost=60,
)
def draws_are_private(target: Target, case: SteepFamily) -> Iterator[Claim | Telling]:
    """With the repaired test and gates and the edition's N, the exact delta of Algorithm 5.1 is at most delta, both ways."""
    one, two = steep_laws(target, case, target.edition)
    yield from _is_private(one, two, case.epsilon, case.delta)


def largest_excess(
    target: Target, budgets: Sequence[tuple[Fraction, Fraction]], lambda_0: Fraction, edition: Edition
) -> tuple[SteepFamily, Enclosure]:
    """The steep family whose exact delta is the largest multiple of its claimed one, among some budgets and all j near k/2.

    Parameters
    ----------
    target
        Whose scores and counts.
    budgets
        Pairs (epsilon, delta).
    lambda_0
        The threshold, above 2.
    edition
        Whose number of draws; everything else is REPAIRED.

    Returns
    -------
    family, delta
        The record and its exact delta.
    """
    found = []
    for epsilon, delta in budgets:
        k = SteepFamily(epsilon, delta, lambda_0, 1).parameters(REPAIRED).k
        for j in range(max(1, k // 2 - 3), k // 2 + 4):
            case = SteepFamily(epsilon, delta, lambda_0, j)
            value = mechanism_divergence(epsilon, *steep_laws(target, case, edition))
            found.append((value.lower / delta, case, value))
    _, case, value = max(found, key=lambda record: record[0])
    return case, value
