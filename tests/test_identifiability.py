"""The room of Appendix B: witnesses that are computed, faults that are single, records that survive JSON, least instances."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_checks import identifiability as room
from proofs_checks.audit import PROFILES, run_check
from proofs_checks.datasets import Pair
from proofs_checks.exact import PARTS, least_order_gamma, trace_norm_at_most
from proofs_checks.identifiability import FAULTS, NECESSITY, NOT_NEEDED, RULES, Record, Witness
from proofs_checks.lemma import LEMMAS, HypothesisBrokenError, Lemma
from proofs_checks.target import Target, load_target
from refimpl import stable_second_moment
from refimpl.linalg import is_positive_semidefinite, to_fmpq

CHECKS = [check for check in LEMMAS.values() if check.body.__module__ == room.__name__]


def on(check: Lemma) -> Target:
    return load_target("refimpl") if check.needs else Target("paper", None)


@pytest.mark.parametrize("witness", NECESSITY, ids=lambda w: f"{w.statement}: {w.dropped}")
def test_a_conclusion_fails_outside_its_hypothesis(witness: Witness) -> None:
    assert not witness.hypothesis(witness.instance)
    assert witness.others(witness.instance)
    assert not witness.conclusion(witness.instance).is_true(Fraction(0))


def test_every_dropped_hypothesis_is_named_once() -> None:
    named = [(w.statement, w.dropped) for w in NECESSITY] + [
        (statement, dropped) for statement, dropped, _ in NOT_NEEDED
    ]
    assert len(set(named)) == len(named)
    assert all(reason.startswith(("Not needed", "Not found", "Needed for")) for _, _, reason in NOT_NEEDED)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_check_holds_and_tells_whatever_the_seed(check: Lemma, seed: int) -> None:
    assert run_check(check, on(check), PROFILES["quick"], seed).verdict == "held"


def test_a_fault_differs_from_repaired_in_one_rule() -> None:
    for rules in FAULTS.values():
        differing = [f.name for f in fields(rules) if getattr(rules, f.name) != getattr(RULES["REPAIRED"], f.name)]
        assert len(differing) == 1
    assert {name for check in CHECKS for name in check.refuted_by} >= set(FAULTS)


@pytest.mark.parametrize(
    ("case", "left", "right"),
    [(room.E13, Fraction(19, 90), Fraction(1, 6)), (room.E13_PROOF, Fraction(7, 12), Fraction(1, 2))],
)
def test_the_pinned_weightings_are_those_of_the_errata(case: room.Weightings, left: Fraction, right: Fraction) -> None:
    assert case.rho == 0
    (square,) = {room._squared_trace_norm(*case.covariances()), room._squared_trace_norm(*reversed(case.covariances()))}
    assert square == left**2
    assert Fraction(3, 2) * case.gamma / (1 - case.gamma) == right


def as_floats(matrix: fmpq_mat) -> Any:
    return np.array([[float(v.p) / float(v.q) for v in row] for row in matrix.tolist()])


def are_ordered(one: fmpq_mat, two: fmpq_mat, gamma: Fraction) -> bool:
    keep = to_fmpq(1 - gamma)
    return all(is_positive_semidefinite(b - a * keep) for a, b in ((one, two), (two, one)))


@settings(max_examples=100)
@given(room.weightings(), st.fractions(0, 1))
def test_the_least_gamma_is_enough_and_hardly_less_is(case: room.Weightings, allowed: Fraction) -> None:
    one, two = case.covariances()
    least, grid = least_order_gamma(one, two, allowed), (allowed or Fraction(1)) / PARTS
    assert least == least_order_gamma(two, one, allowed)
    assert 0 <= least <= 1
    ends = np.linalg.eigvals(np.linalg.solve(as_floats(one), as_floats(two))).real
    assert float(least) == pytest.approx(max(0, 1 - ends.min(), 1 - 1 / ends.max()), abs=float(2 * grid) + 1e-9)
    assert are_ordered(one, two, least)
    assert one == two or not are_ordered(one, two, least - grid)
    assert (least <= allowed) is are_ordered(one, two, allowed)


@settings(max_examples=100)
@given(room.weightings())
def test_squared_trace_norms_agree_with_their_enclosure_and_with_floats(case: room.Weightings) -> None:
    one, two = case.covariances()
    square = room._squared_trace_norm(one, two)
    above = Fraction(float(square) ** 0.5) * Fraction(1000001, 1000000)
    assert trace_norm_at_most(one, two, above)[0]
    assert square == 0 or not trace_norm_at_most(one, two, above * Fraction(99, 100))[0]
    moduli = np.abs(np.linalg.eigvals(np.linalg.solve(as_floats(one), as_floats(two))) - 1).sum()
    assert moduli == pytest.approx(float(square) ** 0.5, abs=1e-7)


STRATEGIES: list[tuple[Callable[[], st.SearchStrategy[Any]], Callable[[Any], None]]] = [
    (room.weightings, room._are_good_weightings),
    (room.weightings_of_the_same_data, room._are_good_weightings),
    (room.some_rows, room._has_rows),
    (room.removable, room._more_rows_than_lam),
    (room.damaged, room._all_good),
    (room.cores, room._cores_of_one_data_set),
    (room.adjacent_cores, room._cores_of_adjacent_data),
    (room.any_cores, room._core_is_stated),
    (room.sizes, room._is_large),
]


@pytest.mark.parametrize(("strategy", "hypotheses"), STRATEGIES, ids=lambda f: f.__name__)
@settings(max_examples=60)
@given(data=st.data())
def test_built_cases_meet_their_hypotheses_and_survive_json(
    strategy: Callable[[], st.SearchStrategy[Any]], hypotheses: Callable[[Any], None], data: st.DataObject
) -> None:
    case = data.draw(strategy())
    hypotheses(case)
    assert isinstance(case, Record)
    assert type(case).from_json(case.to_json()) == case
    names: dict[str, Any] = {}
    exec(case.paste(), names)
    assert set(case.to_json()) <= set(names)


def test_a_case_outside_the_hypotheses_is_refused() -> None:
    with pytest.raises(HypothesisBrokenError, match="tau is large enough"):
        list(LEMMAS["means_of_close_cores_of_adjacent_data_are_close"](Target("paper", None), room.OPPOSITE_ENDS))


def scores(values: tuple[int, ...], lambda_0: Fraction, k: int) -> int:
    score: int = stable_second_moment([[v] for v in values], lambda_0, k).score
    return score


def test_fewer_rows_than_the_witness_of_lemma_32_move_no_score_by_3() -> None:
    for m, k in itertools.product((1, 2), (3, 4)):
        for values in itertools.product((0, 1, 2, 1 << 20), repeat=m):
            found = [scores((v, *values[1:]), Fraction(3, 2), k) for v in (0, 1, 2, 1 << 20)]
            assert max(found) - min(found) <= 2


def test_the_next_larger_witness_needs_a_larger_sample_too() -> None:
    """JUMP scaled up to the size that Lemma 26 asks for keeps its weights: the size is what fails, not the rows."""
    jump = room.JUMP
    m = 10 * jump.k * int(jump.lambda_0)
    rows = (*jump.rows[:3], *[jump.rows[-1]] * (m - 3))
    claim = room._weights_move(Pair("covariance", rows, 0, jump.row, jump.lambda_0, jump.k))
    assert claim.is_true(Fraction(0))
