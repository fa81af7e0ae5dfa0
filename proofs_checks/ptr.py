"""Claims 10 and 58 as checks: the propose-test-release law is a probability, is private, and ends where it must.

The repaired law meets its inequalities with equality, so nothing here is decided by an enclosure alone: a rational growth makes
every probability a Fraction, and a rational epsilon makes it an exact element of Q(e^r).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from proofs_checks.lemma import Case, Claim, Telling, at_most, equal, lemma, require, tells
from proofs_checks.target import Target
from refimpl.parameters import EDITIONS, Edition
from refimpl.ptr import printed_formula_at_growth, ptr_pass_probability_at_growth
from refimpl.reals import ExpFraction

Probability = Fraction | ExpFraction


@dataclass(frozen=True)
class Budget(Case):
    """The budget of a test: growth = e^(epsilon/s) rational, or epsilon rational; and delta.

    Attributes
    ----------
    growth
        Rational and greater than 1, or None.
    epsilon
        Rational, or None where ``growth`` is given.
    delta
        In (0, 1).
    """

    growth: Fraction | None
    epsilon: Fraction | None
    delta: Fraction

    def exact_growth(self, edition: Edition) -> Probability:
        """The growth as an exact number."""
        if self.growth is not None:
            return self.growth
        assert self.epsilon is not None, "one of growth and epsilon is given"
        return ExpFraction(self.epsilon / edition.sensitivity)


def budgets() -> SearchStrategy[Budget]:
    """Budgets whose tables of scores stay short enough to be checked whole."""
    growths = st.sampled_from([Fraction(v) for v in ("3/2", "2", "7/5", "7/6", "5/4", "11/10", "21/20", "9/8")])
    epsilons = st.sampled_from([Fraction(v) for v in ("1", "1/3", "1/2", "1/6", "9/10")])
    deltas = st.sampled_from(
        [Fraction(1, 2), Fraction(1, 4), Fraction(1, 16), Fraction(1, 20), Fraction(1, 120)]
        + [Fraction(1, 10**e) for e in (3, 6, 9)]
        + [Fraction(1, 6 * 10**6)]
    )
    by_growth = st.builds(lambda g, d: Budget(g, None, d), growths, deltas)
    by_epsilon = st.builds(lambda e, d: Budget(None, e, d), epsilons, deltas)
    return st.one_of(by_growth, by_growth, by_growth, by_epsilon)


def _is_a_budget(case: Budget) -> None:
    require("exactly one of growth and epsilon", (case.growth is None) != (case.epsilon is None))
    require("growth > 1 and epsilon > 0", (case.growth or 2) > 1 and (case.epsilon or 1) > 0)
    require("0 < delta < 1", 0 < case.delta < 1)


def first_zero(case: Budget, edition: Edition) -> int:
    """The least score at which the edition's own law, which never rises, is zero."""
    growth = case.exact_growth(edition)

    def ended(z: int) -> bool:
        return not ptr_pass_probability_at_growth(z, growth, case.delta, edition=edition) > 0

    last = 1
    while not ended(last):
        last *= 2
    return bisect_left(range(last), True, lo=last // 2, key=ended)


def _table(target: Target, case: Budget) -> list[Probability]:
    """The target's probabilities for all scores up to a full step beyond the end of the law."""
    edition = target.edition
    last = first_zero(case, edition) + 2 * edition.sensitivity
    if case.growth is not None:
        law, first = target.ptr_pass_probability_at_growth, case.growth
    else:
        assert case.epsilon is not None, "one of growth and epsilon is given"
        law, first = target.ptr_pass_probability, case.epsilon
    table = [law(z, first, case.delta, edition=edition) for z in range(last + 1)]
    return [p if isinstance(p, ExpFraction | Fraction) else Fraction(float(p)) for p in table]


def _steps(table: list[Probability], sensitivity: int) -> Iterator[tuple[int, int]]:
    for z in range(len(table)):
        for other in range(max(0, z - sensitivity), min(len(table), z + sensitivity + 1)):
            if other != z:
                yield z, other


NEEDS = ("ptr_pass_probability",)
"""The law over a rational growth is looked at too where there is one: it makes answers exact."""


def _as_offered(target: Target, case: Budget) -> Budget:
    """The same budget over epsilon, up to rounding, for a target whose law has no other argument."""
    if case.growth is None or target.provides(["ptr_pass_probability_at_growth"]):
        return case
    epsilon = Fraction(target.edition.sensitivity * math.log(case.growth)).limit_denominator(1 << 16)
    return Budget(None, epsilon or Fraction(1, 1 << 16), case.delta)


E1 = (
    Budget(Fraction(3, 2), None, Fraction(1, 16)),
    Budget(None, Fraction(1), Fraction(1, 10**6)),
    Budget(None, Fraction(1, 3), Fraction(1, 6 * 10**6)),
)
"""ERRATA E1: the printed law, clipped, loses 0.288, 0.558 and 0.240 where delta is 1/16, 1e-6 and 1e-6/6."""


@lemma(
    "Claim 10, 58 (PASS)",
    "Pr[PASS] obeys the likelihood ratio for scores within s",
    cases=budgets,
    given=_is_a_budget,
    needs=NEEDS,
    telling="some probability lies strictly between 0 and 1",
    refuted_by=("printed", "tau_without_four", "law_is_one_sided"),
    examples=lambda: E1,
    cost=12,
)
def pass_is_private(target: Target, case: Budget) -> Iterator[Claim | Telling]:
    """p(z) <= e^epsilon p(z') + delta for all scores z, z' with |z - z'| <= s, in both directions."""
    case = _as_offered(target, case)
    table, s = _table(target, case), target.edition.sensitivity
    ratio = case.exact_growth(target.edition) ** s
    yield tells(any(0 < p < 1 for p in table))
    for z, other in _steps(table, s):
        right = ratio * table[other] + case.delta
        yield at_most(f"Pr[PASS] at score {z} against score {other}", table[z], right, rounded=case.growth is None)


@lemma(
    "Claim 10, 58 (FAIL)",
    "Pr[FAIL] obeys the likelihood ratio for scores within s",
    cases=budgets,
    given=_is_a_budget,
    needs=NEEDS,
    telling="some probability lies strictly between 0 and 1",
    refuted_by=("steep_law",),
    examples=lambda: E1,
    cost=12,
)
def fail_is_private(target: Target, case: Budget) -> Iterator[Claim | Telling]:
    """1 - p(z) <= e^epsilon (1 - p(z')) + delta for all scores z, z' with |z - z'| <= s, in both directions."""
    case = _as_offered(target, case)
    table, s = _table(target, case), target.edition.sensitivity
    ratio = case.exact_growth(target.edition) ** s
    yield tells(any(0 < p < 1 for p in table))
    for z, other in _steps(table, s):
        right = ratio * (1 - table[other]) + case.delta
        yield at_most(
            f"Pr[FAIL] at score {z} against score {other}", 1 - table[z], right, rounded=case.growth is None, scale=1
        )


@lemma(
    "Claim 10, 58 (2, 3)",
    "score 0 passes and scores from k on fail, for certain",
    cases=budgets,
    given=_is_a_budget,
    needs=NEEDS,
    telling="some probability lies strictly between 0 and 1",
    refuted_by=("law_without_an_end", "coin_always_passes_law"),
    examples=lambda: E1,
    cost=8,
)
def law_has_certain_ends(target: Target, case: Budget) -> Iterator[Claim | Telling]:
    """p(0) = 1, p(z) = 0 from the edition's own k on, and p decreases in between."""
    case = _as_offered(target, case)
    table = _table(target, case)
    zero = first_zero(case, target.edition)
    yield tells(any(0 < p < 1 for p in table))
    yield equal("Pr[PASS] at score 0", table[0], 1)
    for z, p in enumerate(table):
        if z >= zero:
            yield equal(f"Pr[PASS] at score {z}, from {zero} on", p, 0)
        elif z:
            yield at_most(f"Pr[PASS] at score {z} against score {z - 1}", p, table[z - 1], rounded=case.growth is None)


@lemma(
    "Eq. (135)",
    "the formula of the law is a probability",
    cases=budgets,
    given=_is_a_budget,
    needs=NEEDS,
    telling="some value lies strictly between 0 and 1",
    refuted_by=("printed",),
    examples=lambda: E1,
    cost=4,
)
def formula_is_a_probability(target: Target, case: Budget) -> Iterator[Claim | Telling]:
    """The law's formula lies in [0, 1] at every score. PRINTED: Eq. (135) itself, before any clipping."""
    case = _as_offered(target, case)
    if target.edition is EDITIONS["PRINTED"]:
        growth: Any = case.exact_growth(target.edition)
        formula = getattr(target.implementation, "printed_formula_at_growth", printed_formula_at_growth)
        last = first_zero(case, target.edition) + 2 * target.edition.sensitivity
        table = [formula(z, growth, case.delta) for z in range(last + 1)]
    else:
        table = _table(target, case)
    yield tells(any(0 < p < 1 for p in table))
    for z, p in enumerate(table):
        yield at_most(f"minus the formula at score {z}", -p, 0)
        yield at_most(f"the formula at score {z}", p, 1)
