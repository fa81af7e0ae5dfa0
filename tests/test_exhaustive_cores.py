"""The small domains of Lemma 38 and Appendix B: complete, and their integer arithmetic against the exact definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refimpl
from proofs_checks import exhaustive_cores as room
from proofs_checks import identifiability
from proofs_checks.audit import PROFILES, run_check
from proofs_checks.datasets import Matrix
from proofs_checks.exact import exact_rows
from proofs_checks.exhaustive_cores import ReferenceData, SharedPoints, SharedRows
from proofs_checks.identifiability import RULES, Cores, Record, Weightings
from proofs_checks.lemma import LEMMAS, Claim, HypothesisBrokenError, Lemma
from proofs_checks.target import Target, load_target
from refimpl.definitions import is_degree_representative, is_good_weighting, is_weighted_core
from refimpl.parameters import PRINTED, REPAIRED, Lambda_ell

CHECKS = [check for check in LEMMAS.values() if check.body.__module__ == room.__name__]
PAPER = Target("paper", None)


def targets(check: Lemma) -> list[Target]:
    return [load_target("refimpl"), load_target("fastimpl")] if check.needs else [PAPER]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_statement_holds_on_the_whole_quick_domain(check: Lemma) -> None:
    for target in targets(check):
        outcome = run_check(check, target, PROFILES["quick"])
        assert outcome.verdict == "held", (outcome.claim, outcome.note)


@pytest.mark.nightly
@pytest.mark.parametrize("profile", ["ci", "nightly"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_statement_holds_on_the_larger_domains(check: Lemma, profile: str) -> None:
    for target in targets(check):
        assert run_check(check, target, PROFILES[profile]).verdict == "held"


@pytest.mark.parametrize(
    ("domain", "profile", "cases"),
    [
        (room.reference_domain, "quick", 108),
        (room.reference_domain, "ci", 1680),
        (room.reference_domain, "nightly", 38055),
        (room.weighting_domain, "quick", 13),
        (room.weighting_domain, "ci", 49),
        (room.weighting_domain, "nightly", 78),
        (room.same_rows_domain, "quick", 24),
        (room.same_rows_domain, "ci", 100),
        (room.same_rows_domain, "nightly", 174),
        (room.core_domain, "quick", 50),
        (room.core_domain, "ci", 332),
        (room.core_domain, "nightly", 966),
        (room.adjacent_core_domain, "quick", 32),
        (room.adjacent_core_domain, "ci", 190),
        (room.adjacent_core_domain, "nightly", 516),
    ],
)
def test_how_many_cases_a_profile_goes_through(domain: Any, profile: str, cases: int) -> None:
    assert len(set(domain(profile))) == len(list(domain(profile))) == cases


@pytest.mark.parametrize(
    ("profile", "pairs"), [("quick", (161280, 67440, 5000, 28800)), ("ci", (1761768, 362840, 130950, 1204000))]
)
def test_how_many_pairs_of_weights_a_profile_goes_through(profile: str, pairs: tuple[int, ...]) -> None:
    assert pairs == (
        room.pairs_of_weightings(room.weighting_domain(profile)),
        room.pairs_of_weightings(room.same_rows_domain(profile)),
        room.pairs_of_cores(room.core_domain(profile)),
        room.pairs_of_cores(room.adjacent_core_domain(profile)),
    )


# Lemma 38 -------------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_counts_of_values_agree_with_the_definitions(data: st.DataObject) -> None:
    block = data.draw(st.sampled_from([b for b in room.REFERENCE_BLOCKS["nightly"] if b.n < 16]))
    size, last_value = 6 * block.k + 1, len(block.values) - 1
    place = st.integers(0, last_value)
    inside = data.draw(st.lists(place, min_size=size, max_size=size))
    outside = data.draw(st.lists(place, min_size=block.n - size, max_size=block.n - size))
    counts = [tuple(side.count(v) for v in range(last_value + 1)) for side in (inside, outside)]
    case = ReferenceData(block.values, *counts, room.FOUR, Fraction(1, 2), block.k)
    last = Lambda_ell(case.lambda_0, case.n, 2 * case.k)
    arguments = exact_rows(case.rows), exact_rows(case.covariance)
    for edition in (PRINTED, REPAIRED):
        stated = is_degree_representative(*arguments, case.lambda_0, case.k, range(size), edition=edition)
        assert case.is_representative(edition.representative_factor * last) == stated
    near = case.near(2 * last)[1]
    for i, v in enumerate(case.order):
        alone = [Fraction(int(j == i)) for j in range(case.n)]
        for degree in (near[v], near[v] + 1):
            core = is_weighted_core(arguments[0], alone, degree, last, arguments[1], range(case.n))
            assert core == (degree == near[v])


def test_data_sets_of_a_block_are_all_there_once() -> None:
    block = room.ReferenceBlock(9, 1, room.THREE_PLACES)
    cases = list(block.cases())
    assert len(set(cases)) == len(cases) == math.comb(9, 2) * math.comb(4, 2)
    assert {(sum(case.inside), case.n) for case in cases} == {(7, 9)}


def test_for_odd_n_the_degree_of_lemma_38_is_less_than_printed() -> None:
    """R is representative with the radius of either edition, SCORE < k, and a row of positive weight has degree (n+1)/2."""
    case, rows = room.ODD, exact_rows(room.ODD.rows)
    sigma, reference = exact_rows(case.covariance), range(sum(case.inside))
    result = refimpl.stable_mean(rows, sigma, case.lambda_0, case.k, reference)
    assert result.score < case.k
    for edition in (PRINTED, REPAIRED):
        assert is_degree_representative(rows, sigma, case.lambda_0, case.k, reference, edition=edition)
    last = Lambda_ell(case.lambda_0, case.n, 2 * case.k)
    half = Fraction(case.n, 2)
    degrees = (half + Fraction(1, 2), half + 1)
    found = [is_weighted_core(rows, result.weights, tau, last, sigma, range(case.n)) for tau in degrees]
    assert found == [True, False]


def test_from_9k_plus_2_rows_on_the_printed_degree_follows() -> None:
    """The arithmetic of the proof: the least z_i that a representative R allows, for every |R| from 6k + 1 on."""

    def least_degree(n: int, k: int, size: int) -> int:
        return -(-n * (5 * size - 12 * k) // (6 * size))  # the ceiling of n ((|R| - 2k)/|R| - 1/6)

    for k in range(1, 30):
        for n in (n for n in range(9 * k + 2, 12 * k + 20) if n % 2):
            assert all(2 * least_degree(n, k, size) >= n + 2 for size in range(6 * k + 1, n + 1))
    assert 2 * least_degree(19, 2, 13) < 19 + 2


# Comparisons of products ----------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.lists(st.tuples(*[st.integers(0, (1 << 53) - 1)] * 3), min_size=1, max_size=5), st.integers(-1, 1))
def test_products_are_compared_exactly(numbers: list[tuple[int, int, int]], off: int) -> None:
    a, b, c = (np.array(column, dtype=np.int64) for column in zip(*numbers, strict=True))
    one_off = np.clip(c + off, 0, (1 << 53) - 1)
    found = room._quotients((a, b, c), (b, a, one_off)).exceeding()
    exact = [x * y * z > y * x * int(w) for (x, y, z), w in zip(numbers, one_off, strict=True)]
    assert found.tolist() == exact


def test_a_factor_that_no_float_holds_is_refused() -> None:
    with pytest.raises(AssertionError, match="exact float"):
        room._quotients((np.array([1 << 53]),), (np.array([1]),))


# Lemma 24 -------------------------------------------------------------------------------------------------------------


def column(*values: int) -> Matrix:
    return tuple((Fraction(v),) for v in values)


def plane(*rows: tuple[int, int]) -> Matrix:
    return tuple((Fraction(a), Fraction(b)) for a, b in rows)


def all_weightings(case: SharedRows) -> Iterator[Weightings]:
    """The pairs of a case by the book, lambda the least; there are not as many as there could be, since y, y' is not y', y."""
    m = len(case.shared) + 1
    for a, b in itertools.combinations_with_replacement(range(len(case.stars)), 2):
        for w, v in itertools.product(itertools.product(case.weights, repeat=m), repeat=2):
            pair = Weightings((case.stars[a], *case.shared), 0, case.stars[b], w, v, Fraction(1))
            if all(sigma.det() != 0 for sigma in pair.covariances()):
                yield identifiability._with_least_lam(pair)


def largest(claims: Iterator[Claim]) -> Fraction:
    ratios = []
    for claim in claims:
        left, right = Fraction(claim.left), Fraction(claim.right)  # type: ignore[arg-type]  # no logarithms here
        ratios.append(left / right if "squared" in claim.what else (left / right) ** 2)
    return max(ratios, default=Fraction(0))


FEW = tuple(Fraction(w) for w in ("0", "1/4", "1"))
WEIGHTED = [
    SharedRows(column(1), column(1, 3), room.QUARTERS[:4]),
    SharedRows(column(0, 1), column(2), FEW),
    SharedRows(plane((1, 0), (0, 1)), plane((2, 0), (0, 2)), FEW[1:]),
    SharedRows(plane((1, 0), (1, 1)), plane((1, -1)), FEW),
]


@pytest.mark.parametrize("case", WEIGHTED, ids=range(len(WEIGHTED)))
def test_pairs_of_weightings_agree_with_the_definitions(case: SharedRows) -> None:
    by_the_book = list(all_weightings(case))
    assert len(by_the_book) == sum(len(pairs.rho) for pairs in case.pairs())
    for pair in by_the_book[:: max(1, len(by_the_book) // 50)]:
        rows = exact_rows(pair.rows), exact_rows(pair.rows_prime)
        just_less = pair.lam * Fraction(999, 1000)
        assert all(is_good_weighting(y, w, pair.lam) for y, w in zip(rows, (pair.w, pair.v), strict=True))
        assert not all(is_good_weighting(y, w, just_less) for y, w in zip(rows, (pair.w, pair.v), strict=True))
    gammas = sorted(pair.gamma for pair in by_the_book)
    arrays = [(*pairs.gamma(pairs.rho + pairs.eta), pairs.q) for pairs in case.pairs()]
    found = sorted(Fraction(int(g), int(q)) for numbers, _, q in arrays for g, q in zip(numbers, q, strict=True))
    assert found == gammas


@pytest.mark.parametrize("case", WEIGHTED, ids=range(len(WEIGHTED)))
@pytest.mark.parametrize("edition", ["PRINTED", "REPAIRED"])
def test_the_worst_pair_of_weightings_is_the_worst_by_the_book(case: SharedRows, edition: str) -> None:
    factor = RULES[edition].trace_factor
    worst = max(
        largest(identifiability._trace_claims(pair, factor(pair.rho, pair.eta) * pair.gamma / (1 - pair.gamma)))
        for pair in all_weightings(case)
        if 0 < pair.gamma < 1 and pair.covariances()[0] != pair.covariances()[1]
    )
    claims = (
        claim
        for pairs in case.pairs()
        for claim in room._trace_claims(
            pairs, pairs.rho + pairs.eta, room._factors(factor, pairs.rho, pairs.eta, pairs.unit)
        )
    )
    assert largest(claims) == worst


@pytest.mark.parametrize("case", WEIGHTED, ids=range(len(WEIGHTED)))
def test_pairs_out_of_order_are_those_by_the_book(case: SharedRows) -> None:
    """With gamma as it is, and with half of it, for which even pairs with gamma < 1 are out of order."""
    for share in (1, 2):
        broken = sum(
            any(not claim.is_true(Fraction(0)) for claim in identifiability._order_claims(*pair.covariances(), gamma))
            for pair in all_weightings(case)
            for gamma in [pair.gamma / share]
        )
        found = 0
        for pairs in case.pairs():
            pairs.q = pairs.q * share
            claim = room._order_claim(pairs, pairs.rho + pairs.eta, always=True)
            found += int(claim.left)
        assert found == broken


# Lemma 55 and Corollary 37 --------------------------------------------------------------------------------------------

POINTED = [
    SharedPoints(column(1, 2), column(0, 3), room.ONE, room.HALF, Fraction(1, 2), 3, 2),
    SharedPoints(column(0, 1), column(2), room.ONE, room.ONE, Fraction(0), 2, 4),
    SharedPoints(plane((0, 0), (1, 0)), plane((0, 1), (1, 1)), *room.PLANE_COVARIANCES[1], 3, 2),
]


def all_cores(case: SharedPoints) -> Iterator[Cores]:
    weights = [tuple(Fraction(c, case.parts) for c in w) for w in room._compositions(case.parts, case.n)]
    data = (case.covariance, case.covariance_prime, case.gamma)
    for (a, b), w, v in itertools.product(itertools.product(case.stars, repeat=2), weights, weights):
        lam = max(
            sorted(Fraction(int(d.p), int(d.q)) for d in refimpl.linalg.mahalanobis_squared(moves, sigma.inv()))[
                case.tau - 1
            ]
            / 2
            for star, chosen, matrix in ((a, w, case.covariance), (b, v, case.covariance_prime))
            for sigma in [exact_rows(matrix)]
            for rows in [(star, *case.shared)]
            for i, weight in enumerate(chosen)
            if weight
            for moves in [exact_rows(tuple(tuple(s - t for s, t in zip(rows[i], r, strict=True)) for r in rows))]
        )
        yield Cores((a, *case.shared), 0, b, w, v, *data, lam, case.tau)


@pytest.mark.parametrize("case", POINTED, ids=range(len(POINTED)))
def test_the_worst_pair_of_cores_is_the_worst_by_the_book(case: SharedPoints) -> None:
    by_the_book = list(all_cores(case))
    for pair in by_the_book[::17]:
        assert identifiability._cores_hold(pair)
        assert pair.lam == 0 or not identifiability._cores_hold(replace(pair, lam=pair.lam * Fraction(999, 1000)))
    assert len(by_the_book) == room.pairs_of_cores(iter([case]))

    def ratios(change: Any) -> Iterator[Fraction]:
        for pair in by_the_book:
            bound = change(pair) ** 2 * pair.lam / (1 - pair.gamma)
            if bound:
                yield max(identifiability._mean_moves(pair)) / bound

    def rho(pair: Cores) -> Fraction:
        return identifiability._l1(pair.w[1:], pair.v[1:])

    measures: list[tuple[Any, Any]] = [
        (room._rho_and_twice_eta, lambda pair: rho(pair) + 2 * max(pair.w[0], pair.v[0])),
        (room._l1, lambda pair: rho(pair) + abs(pair.w[0] - pair.v[0])),
    ]
    for measure, change in measures[: 1 if len(case.stars) > 1 else 2]:  # Lemma 55 is about one data set
        claims = case.worst(measure, Fraction(1))
        assert max(Fraction(c.left) / Fraction(c.right) for c in claims if c.right) == max(ratios(change))  # type: ignore[arg-type]  # rational


# Cases ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_cases_survive_json(check: Lemma) -> None:
    assert check.domain is not None
    for case in (*check.examples(), *itertools.islice(check.domain("ci"), 0, None, 50)):
        assert isinstance(case, Record)
        assert type(case).from_json(case.to_json()) == case
        check.given(case)
        names: dict[str, Any] = {}
        exec(case.paste(), names)
        assert set(case.to_json()) <= set(names)


@pytest.mark.parametrize(
    ("check", "case", "message"),
    [
        ("means_of_all_small_cores_are_close", replace(room.OPPOSITE_ENDS, tau=1), "tau > n/2"),
        ("means_of_all_small_adjacent_cores_are_close", replace(room.TURNED, tau=2), r"tau > n/2 \+ 1"),
        ("means_of_all_small_cores_are_close", replace(room.OPPOSITE_ENDS, covariance=room.HALF), "gamma-close"),
        ("mean_weights_of_all_data_are_a_core", replace(room.ENDS, inside=(0, 6, 0)), r"\|R\| > 6k"),
        ("all_small_weighted_covariances_are_close_in_order", replace(room.JOINING, weights=(Fraction(2),)), "weights"),
        ("all_small_covariances_of_one_data_set_are_close", room.CROSSING, "y = y'"),
    ],
)
def test_a_case_outside_the_hypotheses_is_refused(check: str, case: Any, message: str) -> None:
    with pytest.raises(HypothesisBrokenError, match=message):
        LEMMAS[check].given(case)
