"""Checks of grade "proved" about numbers: they hold, wrong constants are refuted, and their formulas are the code's."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise, product

import pytest
from flint import arb, fmpq_mat
from scipy import stats

import refimpl
from proofs_checks import scalars
from proofs_checks.audit import PROFILES, examine, run_check
from proofs_checks.lemma import LEMMAS, AuditError, Violation
from proofs_checks.scalars import CONSTANT_MUTANTS, CONSTANTS, PRINTED_CONSTANTS, Line, Part
from proofs_checks.target import Target
from refimpl.parameters import PRINTED, REPAIRED, Lambda_ell, covariance_step, lambda_ell
from refimpl.ptr import ptr_pass_probability_at_growth

CHECKS = [check for check in LEMMAS.values() if check.body.__module__ == "proofs_checks.scalars"]
NAMES = [check.name for check in CHECKS]
PAPER = Target("paper", None, REPAIRED)


@pytest.mark.parametrize("edition", [REPAIRED, PRINTED], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_the_one_that_the_errata_name(name: str, edition: refimpl.parameters.Edition) -> None:
    outcome = run_check(LEMMAS[name], Target("paper", None, edition), PROFILES["quick"])
    assert outcome.verdict == ("refuted" if edition is PRINTED and "printed" in LEMMAS[name].refuted_by else "held")


PAIRS = [(check.name, fault) for check in CHECKS for fault in check.refuted_by if fault != "printed"]


@pytest.mark.parametrize(("name", "fault"), PAIRS)
def test_a_wrong_constant_is_refuted(name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "CONSTANTS", CONSTANT_MUTANTS[fault])
    outcome = run_check(LEMMAS[name], PAPER, PROFILES["quick"])
    assert outcome.verdict == "refuted"
    assert str(outcome.claim)


def test_every_wrong_constant_is_some_checks_business() -> None:
    assert {fault for _, fault in PAIRS} == set(CONSTANT_MUTANTS)
    for wrong in CONSTANT_MUTANTS.values():
        assert sum(vars(wrong)[field] != value for field, value in vars(CONSTANTS).items()) == 1


def test_mixed_signs_prove_nothing_and_refute_nothing() -> None:
    x, y = scalars._range("x y")
    with pytest.raises(AuditError, match="neither proved nor refuted"):
        scalars._nonnegative("a square", (x - y) ** 2 / (1 + x))
    assert scalars._nonnegative("a quotient", (1 + x) / (1 + y), strict=True).is_true(Fraction(0))
    assert "x = 0, y = 1" in str(scalars._nonnegative("a difference", x - y))
    assert not scalars._nonnegative("a difference", x - y).is_true(Fraction(0))
    assert not scalars._nonnegative("not positive at 0", x + y, strict=True).is_true(Fraction(0))


def test_a_pole_on_the_range_is_not_certified() -> None:
    x, y = scalars._range("x y", positive="x")
    assert scalars._nonnegative("no pole", 1 / (x + y)).is_true(Fraction(0))
    with pytest.raises(AuditError):
        scalars._nonnegative("a pole at y = 0", 1 / (x * y))


def test_identities_are_exact() -> None:
    x, y = scalars._range("x y")
    assert scalars._identical("binomial", (x + y) ** 2 - x * x - y**2, 2 * x * y).is_true(Fraction(0))
    assert not scalars._identical("off by a little", x, x * Fraction(10**9 + 1, 10**9)).is_true(Fraction(0))


def test_equal_reals_are_not_told_apart() -> None:
    with pytest.raises(AuditError, match="undecided"):
        scalars._compare("log 4 and 2 log 2", lambda: arb(4).log(), lambda: 2 * arb(2).log())
    assert scalars._compare("log 2", lambda: arb(2).log(), lambda: arb(1)).is_true(Fraction(0))
    assert not scalars._compare("log 3", lambda: arb(3).log(), lambda: arb(1)).is_true(Fraction(0))


@pytest.mark.parametrize(("growth", "delta"), [("3/2", "1/16"), ("2", "1/16"), ("11/10", "1/1000"), ("5/4", "9/10")])
def test_the_branches_are_the_law_of_refimpl(growth: str, delta: str) -> None:
    g, d = Fraction(growth), Fraction(delta)
    a = d / (g**2 - 1)
    turning = 1 + 1 / (2 * a)
    for z in range(200):
        branch = "rise" if g**z <= turning else "fall" if g**z <= turning**2 else "zero"
        expected = ptr_pass_probability_at_growth(z, g, d, edition=REPAIRED)
        assert scalars._branch(branch, a, turning, g**z) == expected


def test_the_instances_of_e2() -> None:
    assert list(scalars._least_law(Fraction(2), Fraction(1, 16)))[6] == Fraction(1, 64)
    assert 2 * (scalars._least_law_at(Fraction(1, 3), Fraction(1, 6 * 10**6)) - 1) + 1 == 167
    assert scalars._claimed_end(Fraction(1, 3), Fraction(1, 6 * 10**6), REPAIRED) == 168
    assert scalars._claimed_end(Fraction(1, 3), Fraction(1, 6 * 10**6), PRINTED) == 98


def test_the_least_law_is_private_and_below_the_closed_form() -> None:
    delta = Fraction(1, 100)
    table = [*scalars._least_law(Fraction(2), delta), Fraction(0)]
    for t, (p, q) in enumerate(pairwise(table)):
        assert q <= p <= 2 * q + delta
        assert 1 - q <= 2 * (1 - p) + delta
        # growth^2 = e^epsilon = 2 is not rational at the odd scores, so the closed form is taken at sensitivity 1 here.
        a, u = delta, Fraction(2) ** t
        turning = 1 + 1 / (2 * a)
        assert p <= (1 - a * (u - 1) if u <= turning else max(Fraction(0), a * (turning**2 / u - 1)))


@pytest.mark.parametrize(("k", "lambda_0", "m"), [(1, "1/10", 1), (3, "2", 60), (10, "2", 200), (7, "5/3", 500)])
def test_the_constants_are_those_of_the_editions(k: int, lambda_0: str, m: int) -> None:
    lam, n = Fraction(lambda_0), 2 * m
    assert lambda_ell(lam, k, 2 * k) == Fraction(5, 4) * lam
    assert REPAIRED.goodness_factor(k, lam, m) <= CONSTANTS.goodness * lam
    assert PRINTED.goodness_factor(k, lam, m) == PRINTED_CONSTANTS.goodness * lam
    assert covariance_step(lam, n) == CONSTANTS.trace_printed * lam / n / (1 - CONSTANTS.order_printed * lam / n)
    line = Line(k, n, lam, (), Fraction(0), Fraction(0))
    assert Lambda_ell(lam, n, k) == lam * line.shrinking**-k
    if n > k:
        for edition, constants in ((REPAIRED, CONSTANTS), (PRINTED, PRINTED_CONSTANTS)):
            assert scalars._mean_move_bound(constants, line) == edition.mean_move_squared(k, lam, n)


def test_e11_is_what_the_formulas_of_the_errata_give() -> None:
    for k, lam in ((1, Fraction(1, 10)), (2, Fraction(3)), (5, Fraction(2)), (40, Fraction(1))):
        m = int(10 * k * lam) + 3
        shares = []
        for c in range(1, k + 1):
            level = lambda_ell(lam, k, 2 * k - c + 1)
            shares.append(Fraction(c, k) * level / (1 - (1 - Fraction(c, k)) * (k - 1) * level / m))
        share, good = max(shares), REPAIRED.goodness_factor(k, lam, m)
        assert share == lambda_ell(lam, k, k + 1)
        gamma = (share + Fraction(k - 1, k) * good) / m
        up, rest = scalars._range("up rest")
        order, trace = scalars._covariance_move(k + 0 * up, lam, m + 0 * rest)
        origin = (Fraction(0), Fraction(0))
        assert order.at(origin) == gamma
        assert trace.at(origin) == (share + (share + Fraction(k - 1, k) * good) / (1 - gamma)) / m


@pytest.mark.parametrize(("k", "inside"), [(2, 3), (3, 2)])
def test_the_grouped_stable_mean_is_refimpls(k: int, inside: int) -> None:
    half = Fraction(1, 2)
    groups = (
        (Fraction(0), 7, 3),
        (half, inside, 0),
        (-half, 0, 1),
        (Fraction(-29, 20), 1, 50),
        (Fraction(17, 10), 0, 1),
    )
    n = 1 + sum(a + b for _, a, b in groups)
    for start, lam in product((Fraction(0), Fraction(7, 5), Fraction(3)), (Fraction(1), Fraction(9, 8))):
        line = Line(k, n, lam, groups, start, start)
        rows, reference = [[start]], [0]
        for at, r, other in groups:
            reference += range(len(rows), len(rows) + r)
            rows += [[at]] * (r + other)
        result = refimpl.stable_mean(rows, fmpq_mat(1, 1, [1]), lam, k, reference)
        mean, score = scalars._stable_mean_on(line, start)
        assert score == result.score
        (expected,) = result.mean
        assert mean == Fraction(str(expected))


def test_pairs_of_e5_attain_what_is_said() -> None:
    near = scalars._line_that_is_representative()
    both = scalars._line_at_both_ends()
    for line, least in ((near, Fraction(2538, 100)), (both, Fraction(3193, 100))):
        (mean, score), (other, other_score) = (scalars._stable_mean_on(line, at) for at in (line.start, line.end))
        assert max(score, other_score) < line.k
        assert (mean - other) ** 2 * line.n**2 > least * line.lambda_0
    assert float(scalars._mean_move_bound(PRINTED_CONSTANTS, near) * near.n**2) == pytest.approx(25.127, abs=1e-3)


def test_divergences_agree_with_scipy() -> None:
    b, epsilon, draws = Fraction(1, 10), Fraction(1, 2), 40
    threshold = (2 * 0.5 + draws * 0.0953101798043249) / 0.1
    expected = stats.chi2.sf(threshold, draws) - 2.718281828459045**0.5 * stats.chi2.sf(threshold * 1.1, draws)
    assert float(scalars._variance_divergence(b, epsilon, draws)) == pytest.approx(expected, rel=1e-9)
    shift = stats.norm.cdf(0.5 - 1) - 2.718281828459045 * stats.norm.cdf(-0.5 - 1)
    assert float(scalars._shift_divergence(lambda: arb(1), Fraction(1))) == pytest.approx(shift, rel=1e-9)


def test_tails_are_those_of_scipy() -> None:
    law = stats.hypergeom(12, 5, 4)
    for deviation, tail in scalars._tails(12, 5, 4):
        expected = sum(law.pmf(y) for y in range(5) if abs(12 * y - 20) >= deviation)
        assert float(tail) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_parts_survive_their_json_and_strangers_are_refused(name: str) -> None:
    check = LEMMAS[name]
    assert check.domain is not None
    for part in check.domain("quick"):
        assert Part.from_json(json.loads(json.dumps(part.to_json()))) == part
        assert part.size(REPAIRED) == 0
        assert part.paste()
    with pytest.raises(AuditError, match="hypothesis"):
        examine(check, PAPER, Part("no such part"))


def test_a_pair_that_misses_its_hypotheses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "_is_representative", lambda *_: False)
    with pytest.raises(AuditError, match="Definition 33"):
        examine(LEMMAS["mean_move_constant"], PAPER, Part("a pair with a representative R"))
    with pytest.raises(Violation):
        examine(LEMMAS["mean_move_constant"], Target("paper", None, PRINTED), Part("the chain"))
