"""Without its float path no test of fastimpl stays green but those that compare nothing with a threshold: they are listed here.

The path is deleted for a whole run of the tests, in a process of its own (``without_floats``): nothing is known of any vector,
so integers decide everything, rightly. What still goes red goes red because a test of fastimpl demands that floats
decide (conftest) or because it asserts so itself. What goes red without the exact path: test_fastimpl_paths.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from without_floats import TOO_LONG

TESTS = Path(__file__).parent
RULE = "floats decided nothing"

GREEN = {
    # Whole files.
    "blas::": "products by themselves",
    "exact::": "exact arithmetic by itself",
    "limits::": "thresholds: how they are enclosed has nothing to do with data",
    "ptr::": "the law of the test and its coin see a score, no data",
    "balls::": "bounds of many digits by themselves; no stage runs",
    "bounds::": "each bound is evaluated by itself beside exact values; no stage runs",
    # Paths taken away by the test itself.
    "edges::test_no_family_stays_green_without_the_": "deletes a path itself",
    "paths::test_the_audit_row_does_not_hold_if_floats_decide_nothing": "deletes the float path itself",
    # Every matrix in them is singular, so that nothing is compared.
    "moments::test_fewer_rows_than_k_may_leave_no_weight": "equal rows",
    "moments::test_more_columns_than_rows_always_score_k": "fewer rows than columns",
    "moments::test_halting_early_keeps_the_score_and_the_counts": "collinear and repeated rows, of all kinds",
    "private::test_a_singular_covariance_has_no_cores": "the matrix is given",
    "scale::test_more_dimensions_than_rows_fail": "fewer rows than columns",
    # What is refused, or FAILs by public numbers, before the data are looked at.
    "private::test_bad_": "bad input is refused at the door",
    "private::test_gates_speak_before_the_data": "public numbers say FAIL",
    # Parts that are not on the way to a decision.
    "adversary::test_a_job_over_its_limit_is_said_to_be": "the search's limit of time",
    "adversary::test_the_search_runs": "works in other processes, where conftest does not listen",
    "bench::test_every_kind_of_data_is_finite_and_repeatable": "the benchmark's data",
    "certified::test_(nothing_is_known_after_a_removal|lengths_near_the_largest)": "a bound by itself",
    "certified::test_sums_of_four_rows_are_rounded_well_or_not_at_all": "a sum by itself",
    "certified::test_thresholds_are_enclosed": "a rational number between floats",
    "edges::test_there_are_as_many_cases_as_promised": "counts cases",
    "moments::test_lifted_vectors_are_the_vectors": "how rows are read",
    "private::test_forked_processes_differ": "runs in other processes, where conftest does not listen",
    "private::test_what_is_no_generator_is_refused": "no data",
    "private::test_large_integers_are_rounded_like_floats": "how numbers are read",
    "private::test_exact_gram_is_exact": "exact arithmetic by itself",
    "private::test_.*(coins|sets_are_uniform|read_once|noise|law_of_its_draws|exact_factor)": "coins and noise, no data",
    "release::test_(?!sharp_releases|numbers_of_ones_own)": "noise, sums and roots by themselves",
    "residues::test_(signs_are_those|margins_are_lower|products_of_many|each_limit|integers_that)_": "integers by themselves",
    "settle::test_(work_is_done|what_goes_wrong|every_page|weights_go)_": "threads, pages and results by themselves",
    r"settle::test_products_settle_no_row_at_a_wrong_level\[allowed[45]-": "no row is in, or every row is, whatever is far",
    "sweeps::test_a_tight_centre_": "where a centre lies, by itself",
    "sweeps::test_a_watch_": "what a sweep remembers",
    "sweeps::test_how_many_threads": "an environment variable",
    "sweeps::test_(parts|shares|none_is_left|blas)_": "threads without data",
    "sweeps::test_(integers_are_the_same|an_array_serves|levels_beyond)_": "levels by themselves",
    "sweeps::test_(others_are_found|whether_integers)_": "levels by themselves",
    "sweeps::test_a_shift_is_made_": "powers of two by themselves",
    "sweeps::test_(rows_are_read|new_arrays)_": "how rows are read, and where results lie",
    "sweeps::test_spectral_norms_are_bounded_closely": "a norm by itself",
    "thin::test_(of_rows|units_of)_": "vectors whitened by themselves",
    "sweeps::test_totals_do_not_depend_on_what_was_left_out_at_first": "sums by blocks",
}
"""What "file::test", without test_fastimpl_, begins with where it may stay green, as a pattern, and why."""


def run_without_floats(files: Sequence[Path], report: Path, seconds: int) -> list[ET.Element]:
    """The test cases of the JUnit report of these files, run without the float path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    options = ["-q", "-p", "no:cacheprovider", "-p", "without_floats", "--seconds", str(seconds)]
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *map(str, files)]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # there are failures, and nothing else is wrong
    return list(ET.parse(report).iter("testcase"))


def name_of(case: ET.Element) -> str:
    return f"{case.get('classname', '').removeprefix('tests.').removeprefix('test_fastimpl_')}::{case.get('name', '')}"


def why(case: ET.Element) -> str:
    """Green, skipped, or what made it red."""
    bad = [child for child in case if child.tag in {"failure", "error"}]
    if not bad:
        return "skipped" if case.find("skipped") is not None else "green"
    text = " ".join(f"{child.get('message')} {child.text}" for child in bad)
    return "rule" if RULE in text else "time" if TOO_LONG in text else "own"


def float_decisions(case: ET.Element) -> int:
    return sum(int(p.get("value", "0")) for p in case.iter("property") if p.get("name") == "floats")


def check(files: Sequence[Path], tmp_path: Path, seconds: int) -> Counter[str]:
    """No test of these files stays green that is not listed, and what is listed is there; how many went red by what."""
    cases = run_without_floats(files, tmp_path / "report.xml", seconds)
    green = [name_of(case) for case in cases if why(case) == "green"]
    assert [name for name in green if not any(re.match(pattern, name) for pattern in GREEN)] == []
    rooms = {re.sub("^test_fastimpl_", "", file.stem) for file in files}
    listed = [pattern for pattern in GREEN if pattern.split("::")[0] in rooms]
    assert [pattern for pattern in listed if not any(re.match(pattern, name) for name in green)] == []
    # The record is pure: with nothing known, it says that floats decided nothing. Mutants of bounds replace what is deleted.
    deciding = [name_of(case) for case in cases if float_decisions(case)]
    assert [name for name in deciding if not name.startswith("bounds::")] == []
    return Counter(map(why, cases))


def files_of(*rooms: str) -> list[Path]:
    return [TESTS / f"test_fastimpl_{room}.py" for room in rooms]


def test_without_the_float_path_no_test_of_these_stays_green(tmp_path: Path) -> None:
    red = check(files_of("inputs", "differential"), tmp_path, 2)
    assert red["rule"] > 30


@pytest.mark.nightly
def test_without_the_float_path_no_test_stays_green(tmp_path: Path) -> None:
    files = [file for file in sorted(TESTS.glob("test_fastimpl_*.py")) if file != Path(__file__)]
    red = check(files, tmp_path, 20)
    print(dict(red))
    assert red["rule"] > 300
