"""The exhaustive domains: complete, without repetition, cheap to go through, and a statement about every order of the rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import MUTANTS

import refimpl
from proofs_checks import exhaustive as room
from proofs_checks.audit import PROFILES, run_check
from proofs_checks.exhaustive import Neighbours, pairs_of
from proofs_checks.lemma import LEMMAS, Claim, Lemma
from proofs_checks.target import Target, load_target

CHECKS = [check for check in LEMMAS.values() if check.body.__module__ == room.__name__]
ROUNDING = Fraction(1, 10**9)
DOMAINS = {
    "covariance": room.covariance_domain,
    "covariance scores": room.covariance_score_domain,
    "mean": room.mean_domain,
    "mean scores": room.mean_score_domain,
    "stated mean": room.stated_mean_domain,
}


@pytest.mark.parametrize("name", ["refimpl", "fastimpl"])
def test_every_statement_holds_for_all_pairs_of_the_quick_domains(name: str) -> None:
    target = load_target(name, rounding=Fraction(0) if name == "refimpl" else ROUNDING)
    for check in CHECKS:
        outcome = run_check(check, target, PROFILES["quick"])
        assert outcome.verdict == "held", (check.name, outcome.claim, outcome.note)


@pytest.mark.parametrize(
    ("domain", "profile", "cases", "pairs"),
    [
        ("covariance", "quick", 431, 1091),
        ("covariance", "ci", 3948, 24418),
        ("covariance", "nightly", 70881, 641438),
        ("covariance scores", "quick", 76, 76),
        ("covariance scores", "ci", 548, 1478),
        ("covariance scores", "nightly", 42696, 414528),
        ("mean", "quick", 916, 6090),
        ("mean", "ci", 2106, 23940),
        ("mean", "nightly", 116356, 1785010),
        ("mean scores", "quick", 66, 990),
        ("mean scores", "ci", 1256, 18840),
        ("mean scores", "nightly", 4301, 111835),
        ("stated mean", "quick", 850, 5100),
        ("stated mean", "nightly", 112055, 1673175),
    ],
)
def test_how_many_pairs_a_profile_goes_through(domain: str, profile: str, cases: int, pairs: int) -> None:
    assert pairs_of(DOMAINS[domain](profile)) == (cases, pairs)


def test_multisets_are_all_there_once() -> None:
    for size, values in itertools.product(range(5), range(1, 5)):
        found = list(room._multisets(size, values))
        assert len(set(found)) == len(found) == math.comb(size + values - 1, values - 1)
        assert all(sum(counts) == size for counts in found)


DataSet = tuple[tuple[int, ...], tuple[int, ...], int]


def data_sets(case: Neighbours) -> list[DataSet]:
    return [(*case.counts(value), which) for value, which in case.members]


def moves_one_row(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return sorted(u - v for u, v in zip(a, b, strict=True) if u != v) == [-1, 1]


def test_every_adjacent_pair_of_a_covariance_block_is_in_one_case() -> None:
    case = next(room.covariance_domain("quick"))
    size, values = case.n, len(case.values)
    cases = [c for c in room.covariance_domain("quick") if (c.values, c.k) == (case.values, case.k)]
    found = Counter(frozenset(pair) for c in cases for pair in itertools.combinations(data_sets(c), 2))
    everything = list(room._multisets(size, values))
    adjacent = {
        frozenset((((0,) * values, a, 0), ((0,) * values, b, 0)))
        for a, b in itertools.combinations(everything, 2)
        if moves_one_row(a, b)
    }
    assert set(found) == adjacent
    assert set(found.values()) == {1}


def test_every_adjacent_pair_of_a_mean_block_is_in_one_case() -> None:
    block = room.FIVE
    cases = list(room._mean_cases([block]))
    found = Counter(frozenset(pair) for c in cases for pair in itertools.combinations(data_sets(c), 2))
    inside = list(room._multisets(block.reference, len(block.values)))
    outside = list(room._multisets(block.n - block.reference, len(block.values)))
    everything = list(itertools.product(inside, outside, range(len(block.covariances))))
    for a, b in itertools.combinations(everything, 2):
        in_reference = moves_one_row(a[0], b[0]) and a[1] == b[1]
        elsewhere = moves_one_row(a[1], b[1]) and a[0] == b[0]
        if in_reference or elsewhere:
            assert found[frozenset((a, b))] == 1
        else:  # the data are equal and the covariances are not, or they are not adjacent
            assert (found[frozenset((a, b))] > 0) == (a[:2] == b[:2])


def test_every_data_set_is_the_first_of_its_kind_once() -> None:
    cases = list(room.covariance_domain("quick"))
    firsts = Counter((c.values, c.k, c.totals(v)) for c in cases for v in range(len(c.values)) if c.is_first_with(v))
    assert set(firsts.values()) == {1}
    assert set(firsts) == {(c.values, c.k, c.totals(v)) for c in cases for v in range(len(c.values))}


class Counting:
    """refimpl, with its calls counted."""

    def __init__(self) -> None:
        self.calls = 0

    def stable_second_moment(self, *arguments: Any) -> Any:
        self.calls += 1
        return refimpl.stable_second_moment(*arguments)


def test_a_target_computes_each_data_set_once() -> None:
    counting = Counting()
    for check in (check for check in CHECKS if check.needs == ("stable_second_moment",)):
        assert run_check(check, Target("counting", counting), PROFILES["quick"]).verdict == "held"
    sets = {(c.values, c.k, c.totals(v)) for c in room.covariance_domain("quick") for v in range(len(c.values))}
    pinned = {(c.values, c.k, c.totals(v)) for check in CHECKS for c in check.examples() for v in range(len(c.values))}
    assert len(sets) <= counting.calls <= len(sets | pinned)


def test_memory_is_of_the_very_object() -> None:
    memory = room._Memory(most_targets=2)
    first, second, third = (SimpleNamespace() for _ in range(3))  # equal, and not hashable
    memory.of(first)["x"] = "of the first"  # type: ignore[assignment]  # any value will do
    assert memory.of(second) == {}
    assert memory.of(first) == {"x": "of the first"}
    memory.of(third)
    assert memory.of(first) == {}


@settings(max_examples=60)
@given(data=st.data())
def test_the_order_of_the_rows_does_not_matter(data: st.DataObject) -> None:
    cases = (
        list(itertools.islice(room._mean_cases([room.FIVE]), 0, None, 7)) + list(room.covariance_domain("quick"))[::31]
    )
    case = data.draw(st.sampled_from(cases))
    value, which = data.draw(st.sampled_from(case.members))
    inside, outside = case.counts(value)
    order = [v for counts in (inside, outside) for v, count in enumerate(counts) for _ in range(count)]
    shuffled = data.draw(st.permutations(range(case.n)))
    rows = [list(case.values[order[i]]) for i in shuffled]
    if case.stage == "covariance":
        result: Any = refimpl.stable_second_moment(rows, case.lambda_0, case.k)
    else:
        reference = [place for place, i in enumerate(shuffled) if i < sum(inside)]
        matrix = [list(row) for row in case.covariances[which]]
        result = refimpl.stable_mean(rows, matrix, case.lambda_0, case.k, reference)
    found = room._digest(load_target("refimpl"), case, [order[i] for i in shuffled], result)
    assert found == room._found(load_target("refimpl"), case, (value, which))
    assert found.equal_fates


def test_a_target_that_treats_equal_rows_unequally_is_noticed() -> None:
    outcome = run_check(
        LEMMAS["mean_scores_of_all_pairs"], Target("m", MUTANTS["last_row_ignored"].implementation), PROFILES["quick"]
    )
    assert outcome.verdict == "refuted"


def false_claims(check: Lemma, cases: Iterator[Neighbours]) -> list[Claim]:
    target = load_target("refimpl")
    claims = (claim for case in cases for claim in check.body(target, case) if isinstance(claim, Claim))
    return [claim for claim in claims if not claim.is_true(Fraction(0))]


def test_lemma_39_needs_no_size() -> None:
    """As identifiability.NOT_NEEDED says: outside the hypotheses, the conclusion holds on all pairs of the small blocks."""
    assert not false_claims(LEMMAS["mean_weights_of_all_pairs_are_stable"], room._mean_cases(room.SMALL["ci"]))


def test_cases_survive_json() -> None:
    for domain in (room.covariance_domain, room.mean_domain):
        for case in itertools.islice(domain("quick"), 0, None, 50):
            assert Neighbours.from_json(case.to_json()) == case
            assert "lambda_0" in case.paste()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["refimpl", "fastimpl"])
def test_every_statement_holds_for_all_pairs_of_the_nightly_domains(name: str) -> None:
    target = load_target(name, rounding=Fraction(0) if name == "refimpl" else ROUNDING)
    for check in CHECKS:
        assert run_check(check, target, PROFILES["nightly"]).verdict == "held", check.name
