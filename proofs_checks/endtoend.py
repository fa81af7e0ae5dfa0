r"""Whole mechanisms, end to end: the exact (epsilon, delta) curve of Algorithms 1 and 5.1 on adjacent data.

Given its reference set R, Algorithm 1 outputs FAIL with probability 1 - p, p = Pr[PASS] at the score of the data, and else a draw from
the Gaussian N(mu, c^2 Sigma). Algorithm 5.1 does the same with N draws from N(0, Sigma), whose second moment is sufficient. FAIL is an
atom apart from all draws, so for adjacent data with p, P and p', P' the least delta for which the inequality of (epsilon, delta)-privacy
holds in this direction is, exactly,

    max(0, (1-p) - e^eps (1-p')) + sup_S (p P(S) - e^eps p' P'(S)),

and the second term is 0 if p = 0, p if p' = 0 < p, and p HS_{eps + log(p'/p)}(P||P') otherwise (:mod:`proofs_checks.divergence`). The
first term is decided in the exact field of the test's law. Whatever R is, a mechanism that is private given R is private.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq_mat

from proofs_checks.datasets import Matrix, Pair
from proofs_checks.divergence import Gaussian, ball_of, hockey_stick
from proofs_checks.exact import exact_rows
from proofs_checks.lemma import Claim, Telling, at_most, lemma, tells
from proofs_checks.privacy import (
    E3_COVARIANCE,
    E3_FULL,
    E3_MID,
    OutlierFamily,
    _coins,
    _pass_probability,
    covariance_families,
    is_a_family,
    mean_families,
)
from proofs_checks.target import Target, counts_of, levels_of
from refimpl import reals
from refimpl.linalg import second_moment, to_fmpq, weighted_mean
from refimpl.parameters import (
    PRINTED,
    REPAIRED,
    CovarianceParameters,
    MeanParameters,
    covariance_parameters,
    lambda_ell,
    passes_gates,
)
from refimpl.reals import Enclosure, ExpFraction, UndecidedError

__all__ = [
    "ReleaseLaw",
    "covariance_law",
    "mean_law",
    "mechanism_divergence",
    "printed_samples_divergence",
    "steepest_covariance_pair",
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
    differences = tuple(
        tuple(u - v for u, v in zip(rows[i], rows[i + m], strict=True)) for i in range(m)
    )
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
    passes = _pass_probability(max(int(first.score), int(second.score)), p, target)
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
    passes = _pass_probability(int(result.score), p, target)
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
    yield tells(max(there.upper, back.upper) > 0)
    for value, what in ((there, "x against x'"), (back, "x' against x")):
        yield at_most(f"exact delta, {what}", _decided(value, delta), delta, rounded=True, scale=1)


@lemma(
    "Theorem 8, Lemma 15 (delta)",
    "the exact delta of Algorithm 1 is at most the claimed one",
    cases=mean_families,
    given=is_a_family,
    needs=("stable_covariance", "stable_mean"),
    telling="the exact delta is positive",
    least_telling=Fraction(1, 3),
    refuted_by=("printed",),
    examples=lambda: (E3_FULL, E3_MID),
    cost=60,
)
def mean_mechanism_is_private(target: Target, case: OutlierFamily) -> Iterator[Claim | Telling]:
    """For adjacent x, x' and R as drawn, sup_S Pr[A(x) in S] - e^epsilon Pr[A(x') in S] <= delta for Algorithm 1, both ways."""
    parameters = case.mean_parameters(target.edition)
    pair = case.pair(parameters.n, parameters.k, _coins(target, parameters, case.seed).reference)
    one, two = (mean_law(target, pair, parameters, prime=prime) for prime in (False, True))
    yield from _is_private(one, two, case.epsilon, case.delta)


@lemma(
    "Theorem 43 (delta)",
    "the exact delta of Algorithm 5.1 is at most the claimed one",
    cases=covariance_families,
    given=is_a_family,
    needs=("stable_covariance",),
    telling="the exact delta is positive",
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


def _root_below(square: Fraction, unit: int = 1 << 20) -> Fraction:
    return Fraction(math.isqrt(math.floor(square * unit * unit)), unit)


def steepest_covariance_pair(n: int, k: int, lambda_0: Fraction, straddlers: int) -> Pair:
    """Adjacent data (d = 1, second half 0) on which score and covariance move by as much as they can at once.

    In units of the threshold, for j = ``straddlers``: j rows have the norm lambda_{2k}, so that they enter at level 2k, the last of
    the window; two rows, one of them i*, have the norm lambda_0 and enter at level 0; the bulk has norm below 1. In x' the row i* is
    huge and never enters, so every threshold falls by a factor 1 - lambda/m: the other row of norm lambda_0 leaves level 0 and the
    j rows leave level 2k. So the score moves from j to j + 2, and the second moment loses i* at full weight and 1/(k m) of each of
    the j rows: about lambda_0 (1 + (5/4) j/k)/m of it, all in one direction.
    """
    m, j = n // 2, straddlers
    bulk = m - j - 2
    # y^2 of the two rows with y^2 = lambda_0 T/m, T = bulk + 2 y^2, and of the j rows with y^2 = lambda_2k (T + j y^2)/m
    edge = _root_below(lambda_0 * bulk / (m - 2 * lambda_0))
    inside = bulk + 2 * edge**2
    last = lambda_ell(lambda_0, k, 2 * k)
    far = _root_below(last * inside / (m - j * last))
    values = [edge, edge, *[far] * j, *[Fraction(1)] * bulk, *[ZERO] * (n - m)]
    rows = tuple((v,) for v in values)
    return Pair("pipeline", rows, 0, (Fraction(1 << 30),), lambda_0, k, tuple(range(2 * k + 1)), label="steepest")


def printed_samples_divergence(
    target: Target, epsilon: Fraction, delta: Fraction, lambda_0: Fraction, straddlers: int
) -> tuple[Enclosure, Enclosure]:
    """Exact deltas, both ways, of Algorithm 5.1 with everything REPAIRED but its number of draws, which is PRINTED's (E7).

    The data are :func:`steepest_covariance_pair` at the least n of REPAIRED.
    """
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0}
    least_n = covariance_parameters(0, 1, **budget, edition=REPAIRED).least_n
    parameters = covariance_parameters(least_n, 1, **budget, edition=REPAIRED)
    printed = covariance_parameters(least_n, 1, **budget, edition=PRINTED)
    parameters = replace(parameters, samples=printed.samples)
    pair = steepest_covariance_pair(least_n, parameters.k, lambda_0, straddlers)
    one, two = (covariance_law(target, pair, parameters, prime=prime) for prime in (False, True))
    return mechanism_divergence(epsilon, one, two), mechanism_divergence(epsilon, two, one)
