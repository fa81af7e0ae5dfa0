"""The command bhs23-audit: verdicts, exit statuses, counterexamples that replay, and the ledger's promise."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from rich.console import Console

import refimpl
from proofs_checks import __main__ as command
from proofs_checks.audit import PROFILES, Outcome, Profile, audit, examine, most_searched, pinned_cases_for, run_check
from proofs_checks.datasets import Pair, adjacent_data, adjacent_points, adjacent_rows, pinned
from proofs_checks.lemma import LEMMAS, Claim, Lemma, at_most, equal, holds
from proofs_checks.paper import LEDGER, Row, grades, promised_checks, resolve, verdict
from proofs_checks.report import load_case, print_ledger, print_table
from proofs_checks.target import Target, load_target
from refimpl.parameters import PRINTED, REPAIRED

Run = Callable[..., tuple[int, str, str]]
CHEAP = ("--check", "good_subsets_are_nested")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bhs23-audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def faulty(**functions: object) -> SimpleNamespace:
    names = ("stable_second_moment", "stable_covariance", "stable_mean", "ptr_pass_probability", "private_mean_given")
    return SimpleNamespace(**{name: getattr(refimpl, name) for name in names} | functions)


def test_the_ledger_and_the_checks_agree() -> None:
    assert promised_checks() <= set(LEMMAS), "a check that the ledger promises is missing"
    assert set(LEMMAS) <= promised_checks(), "a check speaks for no item of the ledger"
    items = [check.item for check in LEMMAS.values()]
    assert len(set(items)) == len(items)


@pytest.mark.parametrize("row", LEDGER, ids=lambda row: row.item)
def test_every_row_of_the_ledger_is_whole(row: Row) -> None:
    assert row.item
    assert row.says
    assert row.note
    assert resolve(row.where) is not None
    assert bool(row.checks) != bool(row.standing)
    assert set(row.required) <= grades(row), "the evidence is not of the grade that the row requires"


def test_every_numbered_item_has_a_row() -> None:
    numbers = {int(found) for row in LEDGER for found in re.findall(r"^[A-Z][a-z]+ (\d+)$", row.item)}
    assert numbers >= set(range(1, 59))


EQUATIONS = (
    "(21) (22) (23) (24) (29) (39)-(41) (47) (48) (49) (54) (56) (67) (84)-(85) (90)-(92) (115)-(116) (135) (136)-(146)"
)
ALGORITHMS = ("1", "StableCovariance", "LargestGoodSubset", "StableMean", "LargestCore", "5.1", "5.2")
PROVED = (
    *("Claim 58", "Claim 12", "Claim 14", "Claim 29", "Claim 46", "Claim 51"),
    *("Eq. (22)", "Eq. (47)", "Eq. (48)", "Eq. (49)", "Eq. (54)"),
    *("Lemma 13", "Lemma 34"),  # the constant of E5
    *("Eq. (23)", "Eq. (29)", "Lemma 15"),  # those of E6
    *("Eq. (90)-(92)", "Theorem 43"),  # of E7
    *("Lemma 11", "Lemma 22"),  # of E11
)
EXHAUSTIVE_AND_SAMPLED = (
    *(f"Lemma {number}" for number in (25, 26, 27, 28, 32, 38, 39, 40, 42, 54, 55)),
    *("Corollary 37", "Corollary 56"),
)


def test_every_equation_and_algorithm_has_a_row() -> None:
    items = {row.item for row in LEDGER}
    assert {f"Eq. {number}" for number in EQUATIONS.split()} <= items
    assert {f"Algorithm {name}" for name in ALGORITHMS} <= items
    assert len(items) == len(LEDGER)


def test_the_rows_require_the_evidence_that_they_owe() -> None:
    """What is required is required by the row as well, so that the ledger turns red, and not only here."""
    rows = {row.item: row for row in LEDGER}
    assert all("proved" in rows[item].required for item in PROVED)
    assert all({"exhaustive", "sampled"} <= set(rows[item].required) for item in EXHAUSTIVE_AND_SAMPLED)
    assert not any(row.required for row in LEDGER if row.standing)
    assert all(row.required for row in LEDGER if row.checks)


def test_a_row_with_a_check_that_could_not_run_says_so() -> None:
    row = next(row for row in LEDGER if row.item == "Lemma 26")
    ran, skipped = (Outcome(LEMMAS[n], Target("t", None, REPAIRED), "held", "held") for n in row.checks)
    assert verdict(row, "REPAIRED", [ran, skipped]) == "held"
    skipped.verdict = "not run"
    assert verdict(row, "REPAIRED", [ran, skipped]) == f"held (not run: {row.checks[1]})"


def test_a_row_whose_check_is_gone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in LEDGER if row.item == "Lemma 26")
    assert verdict(row, "REPAIRED", []).startswith("NOT RUN")
    monkeypatch.delitem(LEMMAS, row.checks[0])
    assert verdict(row, "REPAIRED", []).startswith("NO CHECK")


def test_a_row_without_its_check_is_red_and_no_cell_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in LEDGER if row.item in {"Definition 5", "Lemma 7", "Claim 29", "Eq. (56)"}]
    targets = [load_target("refimpl", edition) for edition in (PRINTED, REPAIRED)]
    outcomes = [run_check(LEMMAS[name], t, PROFILES["quick"]) for row in rows for name in row.checks for t in targets]

    def printed() -> tuple[bool, list[str]]:
        console = Console(file=io.StringIO(), width=400, force_terminal=True, color_system="standard")
        sound = print_ledger(rows, outcomes, console)
        assert isinstance(console.file, io.StringIO)
        return sound, [line for line in console.file.getvalue().splitlines() if any(row.item in line for row in rows)]

    sound, lines = printed()
    assert sound
    assert len(lines) == len(rows)
    assert all(re.sub(r"\x1b\[[\d;]*m", "", cell).strip() for line in lines for cell in line.split("│")[1:-1])
    assert not any("\x1b[31m" in line for line in lines)
    monkeypatch.delitem(LEMMAS, "good_subsets_intertwine")
    sound, lines = printed()
    assert not sound
    assert ["Lemma 7" in line for line in lines] == ["\x1b[31m" in line for line in lines]


MOST_OF_A_DOMAIN = 200_000


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_check_has_a_bound_in_every_profile(profile: Profile) -> None:
    """Of a searched one the number of cases, and of attempts at them; of a domain its size, counted here to its end."""
    for check in LEMMAS.values():
        searched = most_searched(check, profile)
        if check.domain is None:
            assert profile.least <= searched <= max(profile.least, profile.cases), check.name
        else:
            assert searched == 0
            within = sum(1 for _ in islice(check.domain(profile.name), MOST_OF_A_DOMAIN + 1))
            assert 1 <= within <= MOST_OF_A_DOMAIN, check.name


def _with_cases(cases: Callable[[], st.SearchStrategy[Any]]) -> Lemma:
    return replace(LEMMAS["good_subsets_are_nested"], cases=cases, least_telling=Fraction(0))


def test_a_search_ends_after_so_many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Pair] = []

    def seen(pair: Pair) -> Pair:
        drawn.append(pair)
        return pair

    check = _with_cases(lambda: adjacent_rows().map(seen))
    monkeypatch.setattr(sys.modules[run_check.__module__], "ATTEMPTS", 1)
    outcome = run_check(check, load_target("refimpl"), PROFILES["quick"])
    assert outcome.verdict == "held"
    assert 0 < outcome.tally.cases <= len(drawn) + len(pinned_cases_for(check, outcome.target))
    assert len(drawn) <= PROFILES["quick"].cases


def test_what_is_drawn_again_in_another_search_is_not_counted_again() -> None:
    few = pinned("covariance_weights_are_good")
    outcome = run_check(_with_cases(lambda: st.sampled_from(few)), load_target("refimpl"), Profile("long", 1000, 2))
    assert len(few) > 1
    assert outcome.tally.cases == len(set(few)) + len(pinned_cases_for(outcome.check, outcome.target))


def test_a_refutation_in_a_later_search_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def upside_down(y: Any, lambda_0: Any, k: int, **edition: Any) -> Any:
        result = refimpl.stable_second_moment(y, lambda_0, k, **edition)
        return replace(result, good_subsets=tuple(reversed(result.good_subsets or ())))

    monkeypatch.setattr(sys.modules[run_check.__module__], "LONGEST_SEARCH", 2)
    target = Target("faulty", faulty(stable_second_moment=upside_down))
    outcome = run_check(LEMMAS["good_subsets_are_nested"], target, PROFILES["quick"])
    assert outcome.verdict == "refuted"
    assert outcome.case is not None


def test_no_cell_of_the_table_is_empty() -> None:
    """A statement without a ratio shows what was decided; one that was not run, that nothing was."""
    console = Console(file=io.StringIO(), width=400)
    names = ("good_subsets_are_nested", "pass_is_private", "numerator_of_the_noise", "private_mean_equals_refimpl")
    outcomes = list(audit([load_target("refimpl")], PROFILES["quick"], checks=[LEMMAS[name] for name in names]))
    print_table(outcomes, console)
    assert isinstance(console.file, io.StringIO)
    lines = [line for line in console.file.getvalue().splitlines() if "│" in line]
    begun = [line.split("│") for line in lines if line.split("│")[1].strip()]  # other lines go on with a cell
    cells = [line[6].strip() for line in begun]
    assert all(cells)
    assert {"sets", "1.0000", "8.4062", "equality", "none"} <= set(cells)


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        (at_most("", 1, 2), "ratio"),
        (at_most("", 0, 0), "sets"),
        (at_most("", Fraction(-1, 2), 0), "sign"),
        (at_most("", -3, -1), "sign"),
        (equal("", 1, 1), "equality"),
        (holds("", True), "yes/no"),
    ],
)
def test_every_claim_shows_something(claim: Claim, kind: str) -> None:
    assert claim.kind == kind
    assert (claim.tightness is not None) == (kind == "ratio")


def test_a_statement_that_holds_gives_status_0(run: Run) -> None:
    status, out, _ = run(*CHEAP, "refimpl")
    assert status == 0
    assert "Lemma 28 (i) [refimpl, REPAIRED]: held" in out
    assert "0 not as it should be" in out


def test_printed_is_refuted_and_that_is_no_failure(run: Run) -> None:
    status, out, _ = run("run", "refimpl", "--check", "pass_is_private")
    assert status == 0
    assert "Claim 10, 58 (PASS) [refimpl, PRINTED]: refuted, as the errata say" in out
    status, out, _ = run("run", "refimpl", "--check", "formula_is_a_probability", "--edition", "printed")
    assert status == 0
    assert "refuted, as the errata say" in out


def test_a_refutation_is_printed_saved_and_replayed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bare_liar.py").write_text(
        "import refimpl\n"
        "from dataclasses import replace\n"
        "def stable_second_moment(y, lambda_0, k):\n"
        "    result = refimpl.stable_second_moment(y, lambda_0, k)\n"
        "    return replace(result, good_subsets=result.good_subsets[::-1])\n"
    )
    status, out, _ = run("bare_liar", *CHEAP)
    assert status == 1
    assert "REFUTED" in out
    assert "x = np.array(" in out
    (saved,) = (tmp_path / "bhs23-counterexamples").iterdir()
    assert run("replay", str(saved))[0] == 1
    status, out, _ = run("replay", str(saved), "--target", "refimpl")
    assert (status, "held" in out) == (0, True)


def test_an_expected_refutation_that_does_not_refute_is_a_failure(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    check = LEMMAS["good_subsets_are_nested"]
    monkeypatch.setattr(type(check), "is_refuted_in", lambda _self, _name: True)
    status, out, _ = run("refimpl", *CHEAP)
    assert status == 1
    assert "NOT REFUTED, against the errata" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "no_such_module"), "no target 'no_such_module'"),
        (("run", "refimpl:no_such_attribute"), "no target"),
        (("run", "--profile", "slow"), "--profile must be one of"),
        (("run", "--edition", "finest"), "--edition must be one of"),
        (("run", "--check", "no_such_check"), "no check is called"),
        (("run", "--rounding", "much"), "much"),
        (("replay", "no_such_file.json"), "no_such_file.json"),
        (("run", "--no-such-option"), "No such option"),
    ],
)
def test_wrong_usage_gives_status_2_and_one_line(run: Run, arguments: tuple[str, ...], says: str) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert says in err
    assert "Traceback" not in err


def test_a_broken_audit_gives_status_3(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    check = LEMMAS["good_subsets_are_nested"]
    monkeypatch.setattr(check.__class__, "__hash__", object.__hash__)
    monkeypatch.setitem(check.__dict__, "cases", st.nothing)
    status, _, err = run("refimpl", *CHEAP)
    assert status == 3
    assert "broke" in err


def test_an_exception_of_the_target_is_a_finding(run: Run, tmp_path: Path) -> None:
    (tmp_path / "crasher.py").write_text("def stable_second_moment(y, lambda_0, k):\n    raise RuntimeError('no')\n")
    status, out, _ = run("crasher", *CHEAP)
    assert status == 1
    assert "RAISED" in out
    assert "RuntimeError: no" in out


def test_what_a_target_lacks_is_not_provided(run: Run, tmp_path: Path) -> None:
    (tmp_path / "poor_target.py").write_text("def largest_core(*_):\n    return ()\n")
    status, out, _ = run("poor_target", *CHEAP)
    assert status == 0
    assert "not provided: stable_second_moment" in out


def test_json_is_one_object(run: Run) -> None:
    status, out, _ = run("refimpl", *CHEAP, "--json", "--seed", "3")
    content = json.loads(out)
    assert status == 0
    assert content["seed"] == 3
    assert content["outcomes"][0]["verdict"] == "held"


def test_a_run_is_repeatable() -> None:
    check, target = LEMMAS["covariance_weights_are_stable"], load_target("refimpl")
    one, two = (run_check(check, target, PROFILES["quick"], seed=5) for _ in range(2))
    assert (one.tally.telling, one.tally.claims, one.tally.tightest) == (
        two.tally.telling,
        two.tally.claims,
        two.tally.tightest,
    )


@pytest.mark.parametrize("strategy", [adjacent_rows, adjacent_points, adjacent_data])
def test_pairs_survive_their_json(strategy: Callable[[], st.SearchStrategy[Pair]]) -> None:
    from hypothesis import given, settings  # noqa: PLC0415 - the strategy is a parameter

    @settings(max_examples=20)
    @given(strategy())
    def same(pair: Pair) -> None:
        assert Pair.from_json(json.loads(json.dumps(pair.to_json()))) == pair

    same()


@pytest.mark.parametrize("name", list(LEMMAS))
def test_every_pinned_case_survives_being_saved(name: str) -> None:
    check = LEMMAS[name]
    for case in pinned_cases_for(check, load_target("refimpl")):
        content = {"check": name, "case": {"kind": type(case).__name__, **case.to_json()}}
        assert load_case(json.loads(json.dumps(content))) == (check, case)
        assert case.paste()


def test_pinned_cases_hold_on_refimpl_in_the_repaired_edition() -> None:
    target = load_target("refimpl")
    for check in LEMMAS.values():
        if not check.name.endswith("_equals_refimpl"):
            for case in pinned_cases_for(check, target)[:3]:
                examine(check, target, case)


def test_the_target_in_the_module_attribute_form() -> None:
    target = load_target("types:SimpleNamespace")
    assert not target.provides(["stable_mean"])
    assert Target("here", faulty()).provides(["stable_mean"])


def test_the_command_is_installed() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "proofs_checks", "--help"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0
    assert "replay" in ended.stdout


def test_the_version_is_that_of_the_package() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "proofs_checks", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, f"bhs23-audit {version('bhs23')}\n")


def test_an_implementation_that_has_a_test_alone_is_audited_on_it() -> None:
    """A law over epsilon is enough; the one over a rational growth makes answers exact."""

    def law(score: int, epsilon: Any, delta: Any, *, edition: Any) -> float:  # noqa: ARG001 - which is the fault
        return float(refimpl.ptr_pass_probability(score, epsilon, delta, edition=PRINTED))

    check = LEMMAS["pass_is_private"]
    honest = SimpleNamespace(ptr_pass_probability=refimpl.ptr_pass_probability)
    held = run_check(check, Target("honest", honest), PROFILES["quick"])
    assert (held.verdict, held.tally.claims > 100) == ("held", True), held.note
    refuted = run_check(check, Target("as printed", SimpleNamespace(ptr_pass_probability=law)), PROFILES["quick"])
    assert refuted.verdict == "refuted"
    assert refuted.departure is not None
    assert refuted.departure.stage == "test"
