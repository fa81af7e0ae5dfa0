"""The pytest plugin: what it collects, what it excuses and refuses, and that it leaves other runs of pytest alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import fastimpl
from proofs_checks import plugin
from proofs_checks.audit import PROFILES
from proofs_checks.foreign import new_adapter
from proofs_checks.lemma import LEMMAS, AuditError
from proofs_checks.plugin import check_target, statements

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "proofs_checks.plugin", "-p", "no:cacheprovider", "-p", "no:benchmark")
NESTED, GOOD = "good_subsets_are_nested", "good_subsets_are_good"
ABOUT_TARGETS = [check for check in LEMMAS.values() if not check.is_about_the_paper]

LIAR = """
import refimpl
from dataclasses import replace

class impl:
    ROUNDING = 0

    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        result = refimpl.stable_second_moment(y, lambda_0, k)
        return replace(result, good_subsets=result.good_subsets[::-1])

class honest:
    stable_second_moment = staticmethod(refimpl.stable_second_moment)

class crasher:
    @staticmethod
    def stable_second_moment(y, lambda_0, k):
        raise RuntimeError("no")
"""


@pytest.fixture
def liar(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(liar=LIAR)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGIN, *arguments)


def run_statements(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return run(pytester, "--pyargs", "proofs_checks", *arguments)


# Named targets --------------------------------------------------------------------------------------------------------


def test_one_test_for_each_statement_and_target(liar: pytest.Pytester) -> None:
    result = run_statements(
        liar,
        "--collect-only",
        "-q",
        "--dp-target",
        "liar:impl",
        "--dp-target",
        "liar:honest",
        "--dp-target",
        "liar:impl",
    )
    found = re.findall(r"test_statement\[(\w+)-liar:(\w+)\]", result.stdout.str())
    assert sorted(found) == sorted((check.name, name) for check in ABOUT_TARGETS for name in ("impl", "honest"))


def test_without_a_target_nothing_is_collected(pytester: pytest.Pytester) -> None:
    result = run_statements(pytester)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "bhs23 target" not in result.stdout.str()


def test_verdicts_are_results(liar: pytest.Pytester) -> None:
    result = run_statements(
        liar, "--dp-target", "liar:impl", "--dp-target", "liar:honest", "-k", f"{NESTED} or cores_are_nested", "-rA"
    )
    result.assert_outcomes(passed=1, failed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "Lemma 28 (i) on liar:impl, REPAIRED: refuted",
            "S_ell is contained in S_{ell'} for ell <= ell'.",
            "claim: rows of S_*",
            "x = np.array(*",
            "*SKIPPED*not provided: stable_mean",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "plugin.py" not in result.stdout.str(), "a refutation shows its case, and not our own code"


def test_a_target_that_raises_fails_with_its_case(liar: pytest.Pytester) -> None:
    result = run_statements(liar, "--dp-target", "liar:crasher", "-k", NESTED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "the target raised RuntimeError: no",
            "first departure from refimpl: norm, in the covariance stage: raised RuntimeError: no *",
            "*import numpy as np",
        ]
    )


def test_the_header_says_how_to_repeat_the_run(liar: pytest.Pytester) -> None:
    options = ("--dp-rounding", "1e-9", "--dp-edition", "printed", "--dp-profile", "ci", "--dp-seed", "7")
    result = run_statements(liar, "--dp-target", "liar:impl", "--collect-only", *options)
    result.stdout.fnmatch_lines(
        [
            "bhs23: bhs23 *, Python 3.*, numpy *; profile ci, seed 7",
            "bhs23 target: liar:impl, PRINTED, rounding 1/1000000000",
        ]
    )


def test_an_expected_refutation_passes_in_the_printed_edition(pytester: pytest.Pytester) -> None:
    result = run_statements(
        pytester, "--dp-target", "refimpl", "--dp-edition", "printed", "-k", "formula_is_a_probability"
    )
    result.assert_outcomes(passed=1)


def test_a_program_is_a_target(pytester: pytest.Pytester) -> None:
    check = "largest_good_subset_contains_every_good_one"
    source = new_adapter("mine")
    for name, text in (("mine", source), ("wrong", source.replace("sigma) > lam", "sigma) >= lam"))):
        pytester.path.joinpath(f"{name}.py").write_text(text, encoding="utf-8")
    names = [f"exec:{shlex.quote(sys.executable)} {name}.py" for name in ("mine", "wrong")]
    pytester.path.joinpath("excuses.toml").write_text(
        f'["{names[1]}"]\n{check} = "ties are removed"\n', encoding="utf-8"
    )
    targets = [part for name in names for part in ("--dp-target", name)]
    chosen = f"{check} or {NESTED}"
    result = run_statements(pytester, *targets, "-k", chosen, "-rA")
    result.assert_outcomes(passed=1, failed=1, skipped=2)
    result.stdout.fnmatch_lines(
        ["bhs23 target: exec:*mine.py, REPAIRED, rounding 0", "first departure from refimpl: subset*"]
    )
    run_statements(pytester, *targets, "-k", chosen, "--dp-xfails", "excuses.toml").assert_outcomes(
        passed=1, xfailed=1, skipped=2
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dp-target", "exec:there-is-no-such-program"), "no target 'exec:there-is-no-such-program': cannot start"),
        (("--dp-target", "no_such_module"), "no target 'no_such_module'"),
        (("--dp-target", "liar:none"), "no target 'liar:none'"),
        (("--dp-edition", "best"), "the edition must be one of PRINTED, REPAIRED"),
        (("--dp-profile", "eternal"), "the profile must be one of quick, ci, nightly"),
        (("--dp-rounding", "little"), "the rounding must be a number"),
        (("--dp-xfails", "absent.toml"), "--dp-xfails absent.toml: "),
    ],
)
def test_wrong_options_are_errors_of_usage(liar: pytest.Pytester, options: tuple[str, ...], message: str) -> None:
    result = run_statements(liar, "--dp-target", "liar:impl", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: bhs23: {message}*".replace("[", "[[]")])


def test_a_target_that_hangs_or_ends_its_process_fails_its_tests_alone(pytester: pytest.Pytester) -> None:
    ends = "os._exit(5) if k > 1 else None"
    text = LIAR.replace("return replace(", f"{ends}\n        return replace(").replace(
        'raise RuntimeError("no")', "time.sleep(600)"
    )
    pytester.makepyfile(grim="import os, time\n" + text, stuck="import time\ntime.sleep(600)")
    options = ("--dp-target", "grim:impl", "--dp-target", "grim:crasher", "--dp-target", "grim:honest")
    result = run_statements(pytester, *options, "--dp-time-limit", "1", "-k", GOOD)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "the target ended its process: the process ended with status 5",
            "the target hangs: no answer within 1 s",
        ]
    )
    result = run_statements(pytester, "--dp-target", "stuck", "--dp-time-limit", "1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: bhs23: no target 'stuck': it hangs when it is loaded: no answer within 1 s"])


def test_a_named_target_of_a_librarys_own_tests_runs_in_a_worker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(grim="import os\ndef stable_second_moment(y, lambda_0, k):\n    os.abort()\n")
    pytester.makepyfile(f"from proofs_checks.plugin import *\ndef test(): check_target('grim', '{NESTED}')\n")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the target ended its process: *status -6"])


# Excuses --------------------------------------------------------------------------------------------------------------


def excused(pytester: pytest.Pytester, toml: str, *arguments: str) -> pytest.RunResult:
    pytester.path.joinpath("excuses.toml").write_text(toml, encoding="utf-8")
    return run_statements(pytester, "--dp-xfails", "excuses.toml", "-rxX", *arguments)


def test_an_excuse_is_strict(liar: pytest.Pytester) -> None:
    toml = f'{NESTED} = "levels are stored backwards"\n'
    result = excused(liar, toml, "--dp-target", "liar:impl", "--dp-target", "liar:honest", "-k", NESTED)
    result.assert_outcomes(xfailed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*XPASS(strict)*levels are stored backwards*", "XFAIL *liar:impl*levels are stored backwards*"]
    )


def test_excuses_by_item_and_for_one_target(liar: pytest.Pytester) -> None:
    toml = '["liar:impl"]\n"Lemma 28 (i)" = "levels are stored backwards"\n'
    result = excused(liar, toml, "--dp-target", "liar:impl", "--dp-target", "liar:honest", "-k", NESTED)
    result.assert_outcomes(xfailed=1, passed=1)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('good_subsets_are_nestled = "x"', "*did you mean 'good_subsets_are_nested'?"),
        (f'{NESTED} = ""', f"*{NESTED} needs a reason in words*"),
        (f"{NESTED} = true", f"*{NESTED} needs a reason in words*"),
        (f'["liar:other"]\n{NESTED} = "x"', "*no --dp-target is called 'liar:other'"),
        ("= broken", "*excuses.toml*"),
    ],
)
def test_excuses_that_excuse_nothing_are_errors(liar: pytest.Pytester, toml: str, message: str) -> None:
    result = excused(liar, toml, "--dp-target", "liar:impl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_broken_audit_is_not_excused(liar: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise AuditError("it is vacuous")

    monkeypatch.setattr("proofs_checks.audit.run_check", broken)
    result = excused(liar, f'{NESTED} = "known"', "--dp-target", "refimpl", "-k", NESTED)
    result.assert_outcomes(failed=1)
    assert "it is vacuous" in result.stdout.str()


# Inside a library's own tests -----------------------------------------------------------------------------------------


def test_the_fixture_runs_once_for_each_target(liar: pytest.Pytester) -> None:
    liar.makepyfile("def test_mine(dp_target):\n    assert dp_target.provides(['stable_second_moment'])\n")
    run(liar).assert_outcomes(skipped=1)
    result = run(liar, "-v", "--dp-target", "liar:impl", "--dp-target", "liar:honest")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_mine[[]liar:impl]*", "*test_mine[[]liar:honest]*"])


def test_the_decorator_makes_one_test_for_each_statement(liar: pytest.Pytester) -> None:
    liar.makepyfile(
        f"""
        import liar
        from proofs_checks.plugin import statements

        @statements(liar.impl, "{NESTED}", "LargestCore", excuses={{"{NESTED}": "backwards"}})
        def test_the_paper(dp_statement):
            dp_statement()
        """
    )
    result = run(liar, "-v")
    result.assert_outcomes(xfailed=1, skipped=1)
    result.stdout.fnmatch_lines([f"*test_the_paper[[]{NESTED}]*", "*test_the_paper[[]cores_are_largest_cores]*"])


def test_check_target_returns_what_it_found() -> None:
    (outcome,) = check_target(fastimpl, "Lemma 28 (i)", seed=3)
    assert (outcome.check.name, outcome.verdict, outcome.target.name) == (NESTED, "held", "fastimpl")
    assert outcome.tally.cases > PROFILES["quick"].least
    (again,) = check_target("fastimpl", NESTED, rounding="1e-9", seed=3)
    assert again.tally.claims == outcome.tally.claims


def test_check_target_fails_a_test_with_the_counterexample(liar: pytest.Pytester) -> None:
    liar.makepyfile(
        f"import liar\nfrom proofs_checks.plugin import *\ndef test(): check_target(liar.impl, '{NESTED}')\n"
    )
    result = run(liar)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Lemma 28 (i) on impl, REPAIRED: refuted"])


def test_check_target_wants_something_to_check() -> None:
    with pytest.raises(pytest.fail.Exception, match="has none of the functions"):
        check_target(object())
    with pytest.raises(
        pytest.fail.Exception, match="does not have stable_second_moment, which good_subsets_are_nested"
    ):
        check_target(object(), NESTED)
    with pytest.raises(ValueError, match="no statement about a target is called 'lemma'"):
        check_target(fastimpl, "lemma")
    with pytest.raises(ValueError, match="the profile must be"):
        statements(fastimpl, profile="eternal")
    with pytest.raises(ValueError, match="no statement about a target is called 'arithmetic_of_lemma_11'"):
        statements(fastimpl, "arithmetic_of_lemma_11")


# Others are left alone ------------------------------------------------------------------------------------------------


def test_a_run_that_asks_for_nothing_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        def test_mine():
            loaded = {name.split(".")[0] for name in sys.modules}
            assert not {"numpy", "scipy", "flint", "refimpl", "fastimpl", "rich", "typer"} & loaded
            assert {name for name in sys.modules if name.startswith("proofs_checks")} == {
                "proofs_checks", "proofs_checks.plugin"}
        """
    )
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", *PLUGIN, str(pytester.path)]
    place = {"PYTHONPATH": str(Path(plugin.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=place)
    assert ended.returncode == 0, ended.stdout


def test_a_file_of_the_same_name_is_collected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_target="def test_mine(): pass\n")
    run(pytester).assert_outcomes(passed=1)


def test_a_target_of_which_nothing_would_be_asked_is_a_mistake(pytester: pytest.Pytester) -> None:
    result = run_statements(pytester, "--dp-target", "json")
    result.stdout.fnmatch_lines(["*json has none of the functions*"])
    assert result.ret not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
