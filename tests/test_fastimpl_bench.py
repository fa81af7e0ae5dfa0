"""The benchmark runs. Its figures are for people: a busy machine must not turn a test red."""

from __future__ import annotations

import json

import pytest

from fastimpl import bench


def test_a_small_table(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--size", "400", "2", "9", "--k", "3", "--repeats", "1", "--kind", "clean", "--kind", "far"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "float" in lines[-1]


def test_json_tells_who_decided(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--size", "300", "2", "9", "--k", "2", "--repeats", "1", "--json"]
    bench.main([*options, *(word for kind in ("ties", "condition 1e8", "score k") for word in ("--kind", kind))])
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["ties", "condition 1e8", "score k"]
    assert all(row["ms"] > 0 and row["L3"] > row["L2"] > 0 for row in rows)
    assert rows[0]["decided"]
