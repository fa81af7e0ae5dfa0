"""The benchmark runs. Its figures are for people: a busy machine must not turn a test red."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastimpl import bench


def test_a_small_table(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--size", "400", "2", "9", "--k", "3", "--repeats", "1", "--kind", "clean", "--kind", "far"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert "float" in lines[4]
    assert "outliers, median" in lines[-1]


def test_json_tells_who_decided(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--size", "300", "2", "9", "--k", "2", "--repeats", "1", "--json"]
    bench.main([*options, *(word for kind in ("ties", "condition 1e8", "score k") for word in ("--kind", kind))])
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["ties", "condition 1e8", "score k"]
    assert all(row["ms"] > 0 and row["L3"] > row["L2"] > 0 for row in rows)
    assert rows[0]["decided"]


def test_every_small_table_and_the_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "cost.svg"
    bench.main(["--small", "--json", "--figure", str(figure)])
    rows = json.loads(capsys.readouterr().out)
    assert {row["table"] for row in rows} == set(bench.TABLES)
    firsts = {row["table"]: row["to_first"] for row in reversed(rows) if "to_first" in row}
    assert firsts == {"hard": 1.0, "n": 1.0, "d": 1.0, "k": 1.0}
    (threads,) = [row for row in rows if row["table"] == "threads"]
    assert threads["share"] == pytest.approx(threads["two_threads"] / threads["two_processes"])
    assert "<svg" in figure.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["clean", "ties", "condition 1e14", *bench.OUTLIERS])
def test_every_kind_of_data_is_finite_and_repeatable(kind: str) -> None:
    one, other = (bench._data(kind, 200, 3, bench.np.random.default_rng(0)) for _ in range(2))
    assert one.tobytes() == other.tobytes()
    assert bench.np.isfinite(one).all()
