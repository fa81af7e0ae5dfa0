"""The comparison of editions measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from proofs_checks import comparison
from proofs_checks.realdata import DATA_SETS, missing_extra

needs_data = pytest.mark.skipif(missing_extra() is not None, reason=str(missing_extra()))

COVARIANCE = np.array([[4.0, 2.0], [2.0, 5.0]])


def test_lengths_are_in_standard_deviations() -> None:
    v = np.array([2.0, 1.0])
    assert comparison.mahalanobis(v, COVARIANCE) == pytest.approx(float(np.sqrt(v @ np.linalg.inv(COVARIANCE) @ v)))
    a = np.array([[3.0, -1.0], [5.0, 2.0]])
    assert comparison.mahalanobis(a @ v, a @ COVARIANCE @ a.T) == pytest.approx(comparison.mahalanobis(v, COVARIANCE))


def test_the_error_of_a_covariance_is_relative() -> None:
    assert comparison.relative_error(1.25 * COVARIANCE, COVARIANCE) == pytest.approx(0.25)
    assert comparison.relative_error(COVARIANCE, COVARIANCE) == pytest.approx(0, abs=1e-12)


@needs_data
@pytest.mark.parametrize("name", DATA_SETS)
def test_real_data_are_finite_and_of_full_rank(name: str) -> None:
    x = DATA_SETS[name]()
    assert np.isfinite(x).all()
    assert np.linalg.matrix_rank(x - x.mean(axis=0)) == x.shape[1]


@needs_data
def test_a_table_of_real_data(tmp_path: Path) -> None:
    files = tmp_path / "table.json", tmp_path / "table.md"
    run = CliRunner().invoke(
        comparison.app, ["real", "sea_surface_temperature", "iris", "--json-file", files[0], "--markdown", files[1]]
    )
    assert run.exit_code == 0, run.output
    rows = {(row["data"], row["edition"]): row for row in json.loads(files[0].read_text())}
    sea = [rows["sea_surface_temperature", edition] for edition in ("SHARP", "REPAIRED", "PRINTED")]
    assert [row["mean_released"] for row in sea] == [comparison.REPEATS] * 3
    assert sea[0]["noise_scale"] < min(sea[1]["noise_scale"], sea[2]["noise_scale"])
    assert all(row["mean_error"] < 6 * row["noise_scale"] for row in sea)
    assert all(rows["iris", edition]["mean_released"] == 0 for edition in ("SHARP", "REPAIRED", "PRINTED"))
    assert len(files[1].read_text().splitlines()) == 8


def test_simulated_errors_and_their_picture(tmp_path: Path) -> None:
    results = list(comparison.simulated_errors([8000], [1], repeats=1))
    found = {(r.law, r.estimator): r.errors for r in results}
    for law in ("normal", "uniform on a cube"):
        assert found[law, "REPAIRED"] == [None]  # too few rows, which is public
        (error,) = found[law, "SHARP"]
        assert error is not None
        assert error < 0.2
    comparison.draw_simulated(results, tmp_path / "errors.svg")
    assert "SHARP" in (tmp_path / "errors.svg").read_text()
