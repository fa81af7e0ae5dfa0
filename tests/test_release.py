"""The command ``bhs23-release``, and the tables that it reads."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from fastimpl.__main__ import NO_PUBLIC_REASON, main
from fastimpl.table import TableError, read_table
from proofs_checks.realdata import iris, missing_extra, sea_surface_temperature
from refimpl.parameters import gaussian_lambda_0

PRIVACY = ("--epsilon", "1", "--delta", "1e-6")
LOOSE = ("--epsilon", "1", "--delta", "1/50")  # a budget whose plans are found and verified in no time
TASKS = ("mean", "covariance", "gaussian")
SECRET = "74565"  # stands for a data value; no error may show it

needs_data = pytest.mark.skipif(missing_extra() is not None, reason=str(missing_extra()))

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process: its exit status, what it printed, and what it said on stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        return int(leaving.value.code or 0), *capfd.readouterr()

    return run


@pytest.fixture
def two_values(tmp_path: Path) -> Path:
    """Rows 0 and 1, as many of each, paired with one another: scores 0, variance 1/2, mean 1/2."""
    path = tmp_path / "two_values.npy"
    np.save(path, np.repeat([0.0, 1.0], 12000)[:, None])
    return path


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# -- what it releases --------------------------------------------------------------------------------------------


def test_mean(command: Command, two_values: Path) -> None:
    status, out, err = command("mean", two_values, *PRIVACY, "--lambda-0", "3")
    assert (status, err) == (0, "")
    first, header, line = out.splitlines()
    assert first == "release: mean of 24000 rows, SHARP edition, epsilon = 1, delta = 1e-6, lambda_0 = 3"
    assert header == "mean:"
    assert line.split()[0] == "0"
    assert abs(float(line.split()[1]) - 0.5) < 0.1


def test_every_release_draws_new_coins(command: Command, two_values: Path) -> None:
    first, second = (command("mean", two_values, *PRIVACY, "--lambda-0", "3")[1] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        ("mean", {"mean": (1,)}),
        ("covariance", {"covariance": (1, 1)}),
        ("gaussian", {"mean": (1,), "covariance": (1, 1)}),
    ],
)
def test_json_of_a_release(command: Command, two_values: Path, task: str, outputs: dict[str, tuple[int, ...]]) -> None:
    status, out, err = command(task, two_values, *PRIVACY, "--lambda-0", "3", "--json")
    report = json.loads(out)
    assert (status, err, report["status"], report["reason"]) == (0, "", "release", None)
    assert {name: np.shape(report[name]) for name in outputs} == outputs
    assert all(abs(np.ravel(report[name])[0] - 0.5) < 0.3 for name in outputs)
    assert set(report) - set(outputs) == {
        *("command", "status", "reason", "warnings", "columns", "n", "d"),
        *("epsilon", "delta", "lambda_0", "edition", "parameters"),
    }
    assert (report["epsilon"], report["delta"], report["lambda_0"]) == ("1", "1e-6", "3")


def test_json_names_the_public_numbers(command: Command, two_values: Path) -> None:
    asked = (*PRIVACY, "--lambda-0", "3", "--edition", "repaired", "--json")
    reports = {task: json.loads(command(task, two_values, *asked)[1])["parameters"] for task in TASKS}
    mean_names, covariance_names = {"k", "least_n", "reference_size", "noise_scale"}, {"k", "least_n", "samples"}
    assert set(reports["mean"]) == set(reports["gaussian"]["mean"]) == mean_names
    assert set(reports["covariance"]) == set(reports["gaussian"]["covariance"]) == covariance_names
    assert (reports["mean"]["k"], reports["covariance"]["k"]) == (168, 108)


@pytest.mark.parametrize("task", TASKS)
def test_fail_is_an_output_with_a_public_reason(command: Command, tmp_path: Path, task: str) -> None:
    outputs = set()
    for rows in (np.zeros((150, 2)), np.arange(300.0).reshape(150, 2) ** 3):
        np.save(tmp_path / "rows.npy", rows)
        outputs.add(command(task, tmp_path / "rows.npy", *PRIVACY, "--lambda-0", "7"))
    ((status, out, err),) = outputs  # the same for both: the rows have no part in it
    assert (status, err) == (0, "")
    assert out.startswith(f"FAIL: {task} of 150 rows")
    assert "n = 150 is below the least n = " in out


@pytest.mark.parametrize("task", TASKS)
def test_fail_of_the_test_has_no_reason(command: Command, tmp_path: Path, task: str) -> None:
    np.save(tmp_path / "constant.npy", np.full((24000, 1), 3.0))
    status, out, err = command(task, tmp_path / "constant.npy", *PRIVACY, "--lambda-0", "3", "--json")
    report = json.loads(out)
    assert (status, err, report["status"], report["reason"]) == (0, "", "FAIL", NO_PUBLIC_REASON)
    assert report[task if task != "gaussian" else "covariance"] is None


def test_hopeless_and_doubtful_lambda_0(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(1).normal(size=(24000, 3)))
    _, out, err = command("mean", tmp_path / "rows.npy", *PRIVACY, "--lambda-0", "2", "--edition", "repaired")
    assert "lambda_0 = 2 is below d(9k+1)/(10k) = 2.70179" in out
    assert err == "warning: lambda_0 = 2 is below d = 3: hardly any data can pass the test\n"


def test_printed_edition_warns(command: Command, two_values: Path) -> None:
    status, out, err = command("mean", two_values, *PRIVACY, "--lambda-0", "3", "--edition", "printed", "--json")
    assert status == 0
    assert json.loads(out)["edition"] == "PRINTED"
    assert err == "warning: the PRINTED edition is not differentially private: for study, never for data\n"
    assert json.loads(out)["warnings"] == [err.removeprefix("warning: ").strip()]


@needs_data
def test_sea_surface_temperature_is_released(command: Command, tmp_path: Path) -> None:
    temperature = sea_surface_temperature()
    write(tmp_path / "sea.csv", "\n".join(["temperature", *map(repr, temperature[:, 0].tolist())]))
    asked = ("mean", tmp_path / "sea.csv", "--columns", "temperature", *PRIVACY, "--lambda-0", "5.7", "--json")
    status, out, err = command(*asked)
    report = json.loads(out)
    assert (status, err, report["status"], report["n"], report["d"]) == (0, "", "release", 19226, 1)
    assert report["columns"] == ["temperature"]
    # c is 0.016 and the paired rows have variance 54: a degree is eight standard deviations of the noise.
    assert abs(report["mean"][0] - temperature.mean()) < 1


@needs_data
def test_iris_fails_for_its_size(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "iris.npy", iris())
    status, out, err = command("mean", tmp_path / "iris.npy", *PRIVACY, "--lambda-0", "7", "--edition", "repaired")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].strip() == "n = 150 is below the least n = 23520 at lambda_0 = 7 (k = 168)"


# -- the plan ----------------------------------------------------------------------------------------------------


def plan(command: Command, n: int, lambda_0: str, d: int = 1, edition: str = "repaired") -> dict[str, Any]:
    asked = ("plan", "--n", n, "--d", d, *PRIVACY, "--lambda-0", lambda_0, "--json", "--edition", edition)
    status, out, _ = command(*asked)
    assert status == 0
    (plans,) = json.loads(out)["editions"].values()
    return dict(plans)


def test_plan_takes_decimals_exactly(command: Command) -> None:
    report = plan(command, 19152, "5.7")
    assert report["mean"]["least_n"] == 19152  # 20 k lambda_0 for 5.7; the float 5.7 is larger and needs two rows more
    c = report["mean"].pop("noise_scale")
    assert report["mean"].pop("mean_error") == c > 0
    expected = {"reason": None, "k": 168, "least_n": 19152, "reference_size": 1492, "largest_lambda_0": "5.7"}
    assert report["mean"] == expected | {"mean_sampling_error": 19152**-0.5, "verification": None}


@pytest.mark.parametrize("task", ["mean", "covariance"])
@pytest.mark.parametrize("edition", ["repaired", "printed"])
@pytest.mark.parametrize("n", [3360, 19226, 19227, 100003])
def test_the_largest_lambda_0_can_be_used_and_hardly_more(command: Command, n: int, edition: str, task: str) -> None:
    largest = plan(command, n, "1", 1, edition)[task]["largest_lambda_0"]
    assert plan(command, n, largest, 1, edition)[task]["reason"] is None
    more = str(float(largest) + 0.0002)
    assert "n = " in plan(command, n, more, 1, edition)[task]["reason"]


def test_plan_below_the_gate_promises_nothing(command: Command) -> None:
    report = plan(command, 150, "7", 4)
    for task in ("mean", "covariance"):
        assert report[task]["largest_lambda_0"] is None
    for task, names in (
        ("mean", ["noise_scale"]),
        ("covariance", ["samples"]),
        ("gaussian", ["noise_scale", "samples"]),
    ):
        assert [report[task][name] for name in names] == [None] * len(names)
        assert "is below the least n" in report[task]["reason"]


def cells(out: str, label: str) -> list[list[str]]:
    """The cells of the rows of a label, in each table that has it."""
    return [line.replace(label, "").split() for line in out.splitlines() if label in line]


def test_plan_of_one_edition_as_a_table(command: Command) -> None:
    status, out, err = command("plan", "--n", 19226, "--d", 1, *PRIVACY, "--lambda-0", "5.7", "--edition", "repaired")
    assert (status, err) == (0, "")
    assert cells(out, "REPAIRED") == [["mean", "covariance", "gaussian"]]
    assert cells(out, "largest lambda_0 at this n") == [["5.722", "8.9009"]]
    assert cells(out, "least n at this lambda_0") == [["19152", "12312", "38076"]]
    assert "verification" not in out
    mean, covariance, gaussian = out.splitlines()[-3:]
    assert (mean, covariance) == ("mean: can be released", "covariance: can be released")
    assert gaussian == "gaussian: always FAIL: n = 19226 is below the least n = 38076 at lambda_0 = 5.7 (k = 334)"


def test_plan_compares_the_editions(command: Command) -> None:
    asked = ("plan", "--n", 900, "--d", 2, *LOOSE, "--lambda-0", "10")
    status, out, err = command(*asked, "--json")
    report = json.loads(out)
    assert (status, report["lambda_0"], report["assumption"]) == (0, "10", None)
    assert "edition" not in report
    assert set(report["editions"]) == {"PRINTED", "REPAIRED", "SHARP"}
    assert err == "warning: the PRINTED edition is not differentially private: for study, never for data\n"
    assert "below the least n = " in report["editions"]["REPAIRED"]["mean"]["reason"]
    sharp = report["editions"]["SHARP"]
    for task in TASKS:
        assert sharp[task]["reason"] is None
        assert sharp[task]["least_n"] < 900 < report["editions"]["PRINTED"][task]["least_n"]
        verdict = sharp[task]["verification"]
        assert verdict["holds"] is True
        assert 0.99 < verdict["worst_ratio"] <= 1
    assert sharp["mean"]["mean_error"] == pytest.approx(sharp["mean"]["noise_scale"] * 2**0.5)
    assert sharp["mean"]["mean_sampling_error"] == pytest.approx((2 / 900) ** 0.5)
    assert sharp["covariance"]["covariance_error"] == pytest.approx((6 / sharp["covariance"]["samples"]) ** 0.5)
    assert sharp["covariance"]["covariance_sampling_error"] == pytest.approx((6 / 900) ** 0.5)
    assert sharp["gaussian"]["noise_scale"] > sharp["mean"]["noise_scale"]
    assert sharp["gaussian"]["samples"] < sharp["covariance"]["samples"]
    table = command(*asked)[1]
    assert cells(table, "least n at this lambda_0")[0] == [
        str(report["editions"][edition]["mean"]["least_n"]) for edition in report["editions"]
    ]
    assert [row[0] for row in cells(table, "verification of the plan")] == ["holds"] * 3
    assert "mean, SHARP: can be released\n" in table
    assert "PRINTED: can be released" not in table
    large = command(*(argument if argument != 900 else 50_000 for argument in asked), "--edition", "printed")[1]
    assert "mean: can be released, but not privately\n" in large


def test_plan_for_a_budget_that_only_one_edition_takes(command: Command) -> None:
    asked = ("plan", "--n", 600, "--d", 1, "--epsilon", "3", "--delta", "1/50", "--lambda-0", "10", "--json")
    status, out, _ = command(*asked)
    plans = json.loads(out)["editions"]
    assert status == 0
    assert {plans[edition]["mean"]["reason"] for edition in ("PRINTED", "REPAIRED")} == {
        "epsilon must be in (0, 1], got 3"
    }
    assert plans["SHARP"]["mean"]["reason"] is None
    assert "epsilon must be in (0, 1], got 3" in command(*asked[:-1])[1]


def test_plan_for_gaussian_rows(command: Command) -> None:
    asked = ("plan", "--n", 900, "--d", 2, *LOOSE, "--lambda-0", "gaussian:1e-3", "--edition", "sharp")
    status, out, err = command(*asked, "--json")
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["lambda_0"] == str(gaussian_lambda_0(900, 2, "1e-3"))
    assert "Gaussian: then the score is 0 except with probability at most 1e-3" in report["assumption"]
    assert "assuming that the rows are Gaussian" in command(*asked)[1]


def test_a_plan_that_is_drawn(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are made by the extra 'report'")
    asked = (
        "plan",
        "--n",
        40_000,
        "--d",
        1,
        *PRIVACY,
        "--lambda-0",
        "5.7",
        "--edition",
        "repaired",
        "--json",
        "--plot",
    )
    status, out, err = command(*asked, tmp_path / "plan.svg")
    assert (status, err) == (0, "")
    assert json.loads(out)["editions"]["REPAIRED"]["mean"]["reason"] is None
    assert (tmp_path / "plan.svg").read_text().count("<path") > 10
    assert_one_line(command(*asked, tmp_path / "no" / "folder.svg"), "--plot")
    assert_one_line(command(*asked, tmp_path / "plan.nonsense"), "--plot")


def test_without_matplotlib_a_picture_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastimpl.picture", None)  # as if its import failed
    asked = ("plan", "--n", 40_000, "--d", 1, *PRIVACY, "--lambda-0", "5.7", "--edition", "repaired")
    assert_one_line(command(*asked, "--plot", tmp_path / "plan.svg"), "bhs23[report]")


# -- the edition sharp -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_sharp_releases(command: Command, tmp_path: Path, task: str) -> None:
    np.save(tmp_path / "signs.npy", np.random.default_rng(0).choice([0.0, 1.0], (900, 2)))
    asked = (task, tmp_path / "signs.npy", *LOOSE, "--lambda-0", "10", "--edition", "sharp")
    status, out, err = command(*asked, "--json")
    report = json.loads(out)
    assert (status, err, report["status"], report["edition"]) == (0, "", "release", "SHARP")
    if task != "covariance":
        assert np.allclose(report["mean"], 0.5, atol=0.1)
    if task != "mean":
        assert np.allclose(report["covariance"], np.eye(2) / 4, atol=0.1)
    numbers = report["parameters"]
    shared = {"k", "least_n", "window", "assumption"}
    if task == "gaussian":
        assert set(numbers["mean"]) == shared | {"noise_scale"}
        assert set(numbers["covariance"]) == shared | {"samples"}
    else:
        assert set(numbers) == shared | ({"noise_scale"} if task == "mean" else {"samples"})
    assert command(*asked)[1].startswith(f"release: {task} of 900 rows, SHARP edition, epsilon = 1")


def test_sharp_chooses_lambda_0_for_gaussian_rows(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "normal.npy", np.random.default_rng(1).normal(size=(900, 2)))
    asked = ("mean", tmp_path / "normal.npy", *LOOSE, "--lambda-0", "gaussian:1e-3", "--edition")
    status, out, err = command(*asked, "sharp", "--json")
    report = json.loads(out)
    assert (status, err, report["status"]) == (0, "", "release")
    assert report["lambda_0"] == str(gaussian_lambda_0(900, 2, "1e-3"))
    assert "Gaussian" in report["parameters"]["assumption"]
    assert_one_line(command(*asked, "repaired"), "lambda_0 must be a number")


def test_sharp_fails_for_its_size(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", np.zeros((150, 2)))
    status, out, err = command("mean", tmp_path / "few.npy", *LOOSE, "--lambda-0", "10", "--edition", "sharp")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("FAIL: mean of 150 rows, SHARP edition")
    assert "n = 150 is below the least n = " in out


def test_sharp_warns_of_a_lambda_0_below_d_plus_1(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(3000, 2)))
    asked = ("mean", tmp_path / "rows.npy", *LOOSE, "--edition", "sharp", "--lambda-0")
    assert (
        command(*asked, "2.9")[2] == "warning: lambda_0 = 2.9 is below d + 1 = 3: hardly any data can pass the test\n"
    )
    assert command(*asked, "3")[2] == ""


# -- bad input ---------------------------------------------------------------------------------------------------


def assert_one_line(outcome: tuple[int, str, str], *named: str) -> None:
    status, out, err = outcome
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert SECRET not in err
    for name in named:
        assert name in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epsilon", value) for value in ("0", "-1", "nan", "inf", "x", "", "1/0")),
        *(("delta", value) for value in ("0", "1", "-1e-6", "nan", "x")),
        *(("lambda_0", value) for value in ("0", "-1", "0.5", "nan", "inf", "x")),
    ],
)
@pytest.mark.parametrize("task", [*TASKS, "plan"])
def test_bad_parameters(command: Command, tmp_path: Path, task: str, name: str, value: str) -> None:
    chosen = {"epsilon": "1", "delta": "1e-6", "lambda_0": "3"} | {name: value}
    options = [f"--{key.replace('_', '-')}={number}" for key, number in chosen.items()]
    subject = ("--n", 100, "--d", 1) if task == "plan" else (tmp_path / "never_opened.csv",)
    assert_one_line(command(task, *subject, *options), name)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "command"),
        (("nonsense",), "nonsense"),
        (("mean",), "FILE"),
        (("mean", "f.csv", "--delta", "1e-6", "--lambda-0", "3"), "--epsilon"),
        (("mean", "f.csv", *PRIVACY), "--lambda-0"),
        (("mean", "f.csv", *PRIVACY, "--lambda-0", "3", "--edition", "blunt"), "--edition"),
        (
            ("mean", "f.csv", "--epsilon", "2", "--delta", "1e-6", "--lambda-0", "3", "--edition", "repaired"),
            "epsilon must be in (0, 1]",
        ),
        (("mean", "f.csv", "--epsilon", "0", "--delta", "1e-6", "--lambda-0", "3"), "epsilon must be positive"),
        (("mean", "f.csv", *PRIVACY, "--lambda-0", "gaussian", "--edition", "repaired"), "lambda_0 must be a number"),
        (("mean", "f.csv", *PRIVACY, "--lambda-0", "gaussian:2", "--edition", "sharp"), "failure_probability"),
        (("mean", "f.csv", *PRIVACY, "--lambda-0", "gaussian:x", "--edition", "sharp"), "lambda_0"),
        (("mean", "f.csv", *PRIVACY, "--lambda-0", "3", "--seed", "1"), "--seed"),
        (("mean", "no_such_file.csv", *PRIVACY, "--lambda-0", "3"), "FILE no_such_file.csv"),
        (("mean", ".", *PRIVACY, "--lambda-0", "3"), "FILE ."),
        (("plan", "--n", "x", "--d", "1", *PRIVACY, "--lambda-0", "3"), "--n"),
        (("plan", "--n", "-1", "--d", "1", *PRIVACY, "--lambda-0", "3"), "n must be at least 0"),
        (("plan", "--n", "1", "--d", "0", *PRIVACY, "--lambda-0", "3"), "d must be at least 1"),
    ],
)
def test_bad_usage(command: Command, arguments: Sequence[str], named: str) -> None:
    assert_one_line(command(*arguments), named)


BAD_CSV = {
    "a word": (f"a,b\n1,2\n{SECRET}x,3\n", "column 'a'"),
    "an underscore": ("a,b\n1,2\n745_65,3\n", "column 'a'"),
    "a missing cell": (f"a,b\n{SECRET},2\n3,\n", "column 'b'"),
    "nan": (f"a,b\n{SECRET},nan\n3,1\n", "column 'b'"),
    "infinity": (f"{SECRET},1\n3,-inf\n", "column '1'"),
    "overflow": (f"{SECRET},1\n3,1e999\n", "column '1'"),
    "a short row": (f"a,b\n1,2\n{SECRET}\n", "rows"),
    "a long row": (f"a,b\n1,2\n{SECRET},1,2\n", "rows"),
    "an empty line inside": (f"a\n1\n\n{SECRET}\n", "rows"),
    "an open quote": (f'a,b\n1,2\n"{SECRET},3\n', "CSV"),
    "text after a quote": (f'a,b\n1,2\n"{SECRET}"1,3\n', "CSV"),
    "nothing": ("", "empty"),
    "an empty first line": (f"\n{SECRET}\n", "empty"),
    "bytes": (b"\xff\xfe\x00", "UTF-8"),
    "a broken .npy": (b"\x93NUMPY\x01", ".npy"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_files(command: Command, tmp_path: Path, case: str) -> None:
    text, named = BAD_CSV[case]
    path = write(tmp_path / "bad.csv", text)
    assert_one_line(command("mean", path, *PRIVACY, "--lambda-0", "3"), f"FILE {path}", named)


@pytest.mark.parametrize(
    ("array", "named"),
    [
        (np.array([True, False])[:, None], "bool"),
        (np.array([[1j * int(SECRET)]]), "complex"),
        (np.array([[SECRET]]), "<U5"),
        (np.array([[SECRET]], dtype=object), ".npy"),
        (np.zeros(3), "(3,)"),
        (np.zeros((3, 1, 1)), "(3, 1, 1)"),
        (np.zeros((3, 0)), "(3, 0)"),
        (np.array([[float(SECRET), np.nan]]), "column '1'"),
        (np.array([[np.longdouble("1e4000")]]), "column '0'"),
    ],
)
def test_bad_arrays(command: Command, tmp_path: Path, array: NDArray[Any], named: str) -> None:
    np.save(tmp_path / "bad.npy", array)
    assert_one_line(command("mean", tmp_path / "bad.npy", *PRIVACY, "--lambda-0", "3"), named)


@pytest.mark.parametrize("columns", ["c", "2", "-1", "", "a,a", "a,0", "1.0", "x\ny", "9" * 5000])
def test_bad_columns(command: Command, tmp_path: Path, columns: str) -> None:
    path = write(tmp_path / "t.csv", f"a,b\n1,{SECRET}\n")
    assert_one_line(command("mean", path, *PRIVACY, "--lambda-0", "3", "--columns", columns), "columns")


# -- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns", "names", "rows"),
    [
        ("a,b\n1,2\n3,4\n", None, ("a", "b"), [[1, 2], [3, 4]]),
        ("1,2\n3,4", None, ("0", "1"), [[1, 2], [3, 4]]),
        ("a,b\r\n1,2\r\n3,4\r\n\r\n", "b,a", ("b", "a"), [[2, 1], [4, 3]]),
        ("\ufeffa,b\n1,2\n", "a", ("a",), [[1]]),
        ('"a, the first","b"\n"1","2"\n', '"a, the first"', ("a, the first",), [[1]]),
        ("a,b\n1,2\n", "1", ("b",), [[2]]),
        ("1,a\n7,8\n", "0", ("0",), [[1], [7]]),  # a number in the first line: not a header, a row like any other
        ("b,1\n7,8\n", "0", None, None),
        ("name,x\nann,1.5\nbob, 2e-3 \n", "x", ("x",), [[1.5], [2e-3]]),
        (",x\n0,5\n1,6\n", "x", ("x",), [[5], [6]]),
        ("2,1\nx,y\n", None, None, None),
        ("x,0\nx,1\n", "1", ("1",), [[0], [1]]),
        ("a,b\n", None, ("a", "b"), np.zeros((0, 2))),
    ],
)
def test_csv(
    tmp_path: Path,
    text: str,
    columns: str | None,
    names: tuple[str, ...] | None,
    rows: Sequence[Sequence[float]] | None,
) -> None:
    path = write(tmp_path / "t.csv", text)
    if rows is None:
        with pytest.raises(TableError, match="not a number"):
            read_table(path, columns)
        return
    table = read_table(path, columns)
    assert table.columns == names
    assert table.rows.dtype == np.float64
    assert np.array_equal(table.rows, rows)


@pytest.mark.parametrize("text", [",\n1,2\n", " , \n1,2\n3,4\n"])
def test_a_first_line_of_blanks_is_a_row_and_no_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(TableError, match="column '0' holds a missing value"):
        read_table(write(tmp_path / "t.csv", text))


def test_a_name_that_is_a_number_wins_over_the_number(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b,a\n1,2,3\n")
    with pytest.raises(TableError, match="more than once"):
        read_table(path, "a")
    assert np.array_equal(read_table(path, "2").rows, [[3]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", ">f8", "longdouble"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path: Path, dtype: str, order: Any) -> None:
    rows = np.array([[1, 2], [100, 4], [5, 6]], dtype=dtype, order=order)
    np.save(tmp_path / "t.npy", rows)
    table = read_table(tmp_path / "t.npy", "1,0")
    assert table.columns == ("1", "0")
    assert table.rows.dtype == np.dtype(np.float64)
    assert np.array_equal(table.rows, rows.astype(np.float64)[:, ::-1])


@given(
    npst.arrays(
        np.float64,
        st.tuples(st.integers(0, 4), st.integers(1, 3)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_csv_is_read_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, rows: NDArray[np.float64]) -> None:
    names = ",".join(f"x{j}" for j in range(rows.shape[1]))
    text = "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())
    path = write(tmp_path_factory.mktemp("t") / "t.csv", f"{names}\n{text}")
    assert read_table(path).rows.tobytes() == rows.tobytes()


@given(
    st.binary() | st.binary().map(b"\x93NUMPY".__add__) | st.text('0123456789.,"\n e-+xna', max_size=40).map(str.encode)
)
def test_any_file_is_a_table_or_a_table_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.mktemp("t") / "t.csv", content)
    with contextlib.suppress(TableError):
        assert np.isfinite(read_table(path).rows).all()


# -- the door ----------------------------------------------------------------------------------------------------


def test_help_says_what_the_exit_status_means(command: Command) -> None:
    status, out, err = command("--help")
    assert (status, err) == (0, "")
    said = " ".join(out.split())
    assert "0 for a release, and 0 for FAIL too" in said
    assert "A file outside that domain" in said


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version") == (0, f"bhs23-release {version('bhs23')}\n", "")


def test_the_largest_lambda_0_of_one_column_is_that_of_one_column(command: Command) -> None:
    one, two = (plan(command, 20_000, "20", d, "sharp")["mean"]["largest_lambda_0"] for d in (1, 2))
    assert float(one) > float(two)


def test_a_plan_whose_noise_is_beyond_floats_is_shown_as_one_that_fails(command: Command) -> None:
    shown = plan(command, 280, "50", 3)["mean"]
    assert shown["noise_scale"] is None
    assert shown["reason"] is not None


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "fastimpl", "plan"], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", "error: Missing option '--n'.\n")
