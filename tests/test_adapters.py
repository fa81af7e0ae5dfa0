"""The ready adapters, with their libraries, in an environment of their own (nightly: it is made from the network).

Set BHS23_TARGETS_PYTHON to the Python of an environment that has the extra ``targets`` to use that one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs_checks.adapters import clipped_gaussian

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK = ("--epsilon", "1", "--delta", "1e-5", "--lambda-0", "2", "--rows", "40", "--runs", "2000", "--json")
ALONE = {"PYTHONPATH": "", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("BHS23_TARGETS_PYTHON"):
        return given
    place = tmp_path_factory.mktemp("targets")
    subprocess.run([sys.executable, "-m", "venv", place], check=True, timeout=300)
    found = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    command = [found, "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[targets]"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    if ended.returncode:
        pytest.skip(f"the extra targets cannot be installed here: {(ended.stderr.strip() or '?').splitlines()[-1]}")
    return found


def audited(python: str, adapter: str, function: str) -> dict[str, Any]:
    command = [python, "-m", "proofs_checks", "blackbox", f"proofs_checks.adapters.{adapter}", *QUICK]
    ended = subprocess.run(
        [*command, "--function", function],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=ROOT,
        env={**os.environ, **ALONE},
    )
    assert ended.returncode in {0, 1}, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("function", ["private_mean", "private_covariance"])
@pytest.mark.parametrize("library", ["diffprivlib", "opendp"])
def test_the_statistics_of_other_libraries(python: str, library: str, function: str) -> None:
    """Half-spaces and ellipsoids must not refute: the adapters call the libraries rightly. For low bits the library answers."""
    found = audited(python, library, function)
    print(found["sentence"])
    assert found["verdict"] in {"refuted", "not refuted"}
    assert {f["kind"] for f in found["findings"] if f["refutes"]} <= {"low bits", "repeat"}, found["sentence"]
    assert {habit["found"] for habit in found["habits"]} == {False}


@pytest.mark.nightly
def test_the_result_that_the_readme_shows(python: str) -> None:
    version = re.search(r"diffprivlib (\d[\d.]*\d)", README)
    assert version is not None
    code = "import importlib.metadata as m; print(m.version('diffprivlib'))"
    installed = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert installed.stdout.strip() == version[1]
    found = audited(python, "diffprivlib", "private_mean")
    (finding,) = [f for f in found["findings"] if f["refutes"]]
    assert (found["verdict"], finding["kind"]) == ("refuted", "low bits")
    shown = re.search(r"(\d+)/2000 on x .*?(\d+)/2000 on x'.*?epsilon >= ([\d.]+)", README, re.DOTALL)
    assert shown is not None
    assert [int(shown[1]), int(shown[2])] == finding["counts"]  # the seeds are the audit's own, and so it is repeatable
    assert float(shown[3]) == pytest.approx(finding["epsilon"], abs=1e-3)


@pytest.mark.nightly
def test_the_baseline_of_clipped_data(python: str) -> None:
    found = audited(python, "clipped_gaussian", "private_mean")
    assert {f["kind"] for f in found["findings"] if f["refutes"]} <= {"low bits", "repeat"}, found["sentence"]


def test_the_baseline_clips_and_adds_the_stated_noise() -> None:
    x = np.array([[5.0], [0.5]] * 500)
    drawn = [
        clipped_gaussian.private_mean(x, epsilon=1, delta="1e-5", rng=np.random.default_rng(s)).mean[0]
        for s in range(400)
    ]
    sigma = 2 / 1000 * np.sqrt(2 * np.log(1.25e5))
    assert np.mean(drawn) == pytest.approx(0.75, abs=5 * sigma / 20)
    assert np.std(drawn) == pytest.approx(sigma, rel=0.15)
