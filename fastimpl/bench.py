"""``python -m fastimpl.bench``: what certified decisions cost, as ratios to the products that no method could do without.

Whatever is compared is measured in one process, in turns, and shown as a median. L2 is the Gram matrix of the paired rows plus
the whitening of all rows (the better of a triangular solve and a product); L3 adds the product of all rows with the reference
set. "clean" and the kinds of outliers are ``stable_covariance`` and ``stable_mean`` together, every level, certification
included; "score k" is the private path on data that must fail, or, where its gates would not even let it look, its two stages.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm

from fastimpl import certified
from fastimpl.covariance import paired_result, stable_covariance
from fastimpl.mean import stable_mean
from fastimpl.private import private_mean_given
from fastimpl.rows import READ_ROWS, Floats, as_rows, pairs
from fastimpl.sampling import draw_mean_coins
from fastimpl.threads import VARIABLE
from refimpl.parameters import REPAIRED, mean_parameters, passes_gates

__all__ = ["main"]

Rng = np.random.Generator
Job = Callable[[], object]
Row = dict[str, Any]
Clock = Callable[[], float]

SIZES = ((100_000, 10, 50), (1_000_000, 10, 50), (1_000_000, 50, 150), (500_000, 100, 250), (500_000, 100, 200))
SMALL = ((4000, 3, 20),)
K, REFERENCE = 98, 1100
OUTLIERS = ("far", "near", "cluster", "scales")
DEFAULT = ("clean", *OUTLIERS, "score k")
HARD = ("ties", "condition 1e8", "condition 1e14")
TABLES = ("sizes", "hard", "n", "d", "k", "threads")


# Data -----------------------------------------------------------------------------------------------------------------


def _spoiled(x: Floats, rng: Rng, count: int, kind: str) -> Floats:
    """Data with ``count`` outliers: far off, near, all at one place, or of sizes from 1e2 to 1e100."""
    index = rng.choice(len(x), min(count, len(x)), replace=False)
    if kind == "cluster":
        x[index] = 1e3
    elif kind == "scales":
        x[index] *= 10.0 ** np.linspace(2, 100, len(index))[:, None]
    else:
        x[index] *= {"far": 1e6, "near": 30.0}[kind]
    return x


def _data(kind: str, n: int, d: int, rng: Rng) -> Floats:
    """A data set of a kind: "clean" is normal with an ordinary covariance and mean."""
    if kind == "ties":
        return rng.choice([-1.0, 1.0], (n, d))
    x = rng.normal(size=(n, d))
    if kind.startswith("condition"):
        x[:, 0] = x[:, -1] + float(kind.removeprefix("condition ")) ** -0.5 * x[:, 0]
        return x
    for start in range(0, n, READ_ROWS):  # in place: the data are most of the memory
        x[start : start + READ_ROWS] = x[start : start + READ_ROWS] @ (np.eye(d) + 0.3 * np.tri(d, k=-1) / d) + 1.0
    if kind in OUTLIERS:
        return _spoiled(x, rng, K // 2, kind)
    return x


def _reference(n: int, rng: Rng) -> list[int]:
    chosen: list[int] = np.sort(rng.choice(n, min(REFERENCE, n // 2), replace=False)).tolist()
    return chosen


# Jobs -----------------------------------------------------------------------------------------------------------------


def _both_stages(x: Floats, lambda_0: int, k: int, reference: Sequence[int]) -> Job:
    def run() -> None:
        covariance = stable_covariance(x, lambda_0, k)
        stable_mean(x, covariance, lambda_0, k, reference)

    return run


def _failing(x: Floats, lambda_0: int, rng: Rng) -> Job:
    """The private path on data with 3k far outliers."""
    n, d = x.shape
    parameters = mean_parameters(n, d, epsilon=1, delta="1e-6", lambda_0=lambda_0, edition=REPAIRED)
    if not passes_gates(parameters):
        rows = _spoiled(x, rng, 3 * K, "far")
        return lambda: paired_result(pairs(as_rows("x", rows)), parameters.lambda_0, K, REPAIRED, early=True)
    coins = draw_mean_coins(parameters, rng)
    spoiled = _spoiled(x, rng, 3 * parameters.k, "far")
    return lambda: private_mean_given(spoiled, parameters, coins)


def _limits(x: Floats, reference: Sequence[int]) -> dict[str, Job]:
    """The parts of L2 and L3, and what numpy takes for the plain mean and covariance."""
    m = len(x) // 2
    y = x[:m] - x[m : 2 * m]
    lower = np.linalg.cholesky(y.T @ y / m)
    inverse, points = np.linalg.inv(lower), x[list(reference)]

    def product() -> None:
        for start in range(0, len(x), READ_ROWS):
            x[start : start + READ_ROWS] @ points.T

    return {
        "gram": lambda: y.T @ y,
        "gemm": lambda: x @ inverse.T,
        "trsm": lambda: dtrsm(1.0, lower, x.T, lower=1),
        "product": product,
        "numpy": lambda: (np.mean(x, axis=0), np.cov(x, rowvar=False)),
    }


def _milliseconds(jobs: dict[str, Job], repeats: int, clock: Clock) -> dict[str, float]:
    """The median time of each job; jobs take turns, so that a slow minute slows them all."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = clock()
            job()
            times[name].append((clock() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def _peak(job: Job) -> float:
    """MiB that a job asks for beyond the data, at most at one time."""
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


# Tables ---------------------------------------------------------------------------------------------------------------


def measure(
    n: int,
    d: int,
    lambda_0: int,
    *,
    kinds: Sequence[str] = DEFAULT,
    repeats: int = 5,
    k: int = K,
    clock: Clock = time.perf_counter,
) -> Iterator[Row]:
    """Rows of the first table: one size, several kinds of data, one after the other, each with its own L2 and L3."""
    for kind in kinds:
        rng = np.random.default_rng([n, d, lambda_0])
        x = _data(kind, n, d, rng)
        reference = _reference(n, rng)
        limits = _limits(_data("clean", n, d, rng) if kind in OUTLIERS else x, reference)
        failing = kind == "score k"
        job = _failing(x, lambda_0, rng) if failing else _both_stages(x, lambda_0, k, reference)
        with certified.audit() as counts:
            job()
        took = _milliseconds({**limits, "job": job}, repeats, clock)
        l2 = took["gram"] + min(took["gemm"], took["trsm"])
        l3 = l2 + took["product"]
        row = {"table": "sizes", "n": n, "d": d, "lambda_0": lambda_0, "k": k, "kind": kind, "ms": took["job"]}
        row |= {"L2": l2, "L3": l3, "to_L2": took["job"] / l2, "to_L3": took["job"] / l3}
        yield {**row, "to_numpy": took["job"] / took["numpy"], "MiB": _peak(job), "decided": counts}


def _against(table: str, cases: Sequence[tuple[int, int, int, int, str]], repeats: int, clock: Clock) -> Iterator[Row]:
    """Rows of a table in which every case (n, d, lambda_0, k, kind) is compared with the first one, in turns."""
    jobs = {}
    for n, d, lambda_0, k, kind in cases:
        rng = np.random.default_rng([n, d, lambda_0])
        x = _data(kind, n, d, rng)
        jobs[f"{n} {d} {lambda_0} {k} {kind}"] = _both_stages(x, lambda_0, k, _reference(n, rng))
    took = list(_milliseconds(jobs, repeats, clock).values())
    for (n, d, lambda_0, k, kind), ms in zip(cases, took, strict=True):
        row = {"table": table, "n": n, "d": d, "lambda_0": lambda_0, "k": k, "kind": kind, "ms": ms}
        yield {**row, "to_first": ms / took[0]}


def _series(small: bool) -> dict[str, list[tuple[int, int, int, int, str]]]:
    """The cases of the tables of comparisons: hard data, cost against n, against d, and against k."""
    if small:
        return {
            "hard": [(4000, 3, 20, 9, kind) for kind in ("clean", *HARD)],
            "n": [(n, 3, 20, 9, "clean") for n in (2000, 4000)],
            "d": [(4000, d, 20, 9, "clean") for d in (2, 3)],
            "k": [(4000, 3, 20, k, "clean") for k in (9, 18)],
        }
    return {
        "hard": [(1_000_000, 10, 50, K, kind) for kind in ("clean", *HARD)],
        "n": [(n, 10, 50, K, "clean") for n in (100_000, 200_000, 500_000, 1_000_000, 2_000_000)],
        "d": [(200_000, d, 5 * d, K, "clean") for d in (2, 5, 10, 20, 50, 100)],
        "k": [(100_000, 10, 50, k, "clean") for k in (K, 200, 400, 754)],
    }


# Threads --------------------------------------------------------------------------------------------------------------


class _Worker:
    """A process with data of its own, which runs the job when told to, with so many threads."""

    def __init__(self, size: tuple[int, int, int]) -> None:
        command = [sys.executable, "-m", "fastimpl.bench", "--worker", *map(str, size)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.wait()

    def start(self, threads: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{threads}\n")
        self._process.stdin.flush()

    def wait(self) -> float:
        """Seconds that the job took."""
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.communicate()


def _work(n: int, d: int, lambda_0: int) -> None:
    """What a worker does: a line in, so many threads, a line out, so many seconds for three runs."""
    rng = np.random.default_rng([n, d, lambda_0])
    job = _both_stages(_data("clean", n, d, rng), lambda_0, K, _reference(n, rng))
    job()
    print(0.0, flush=True)
    for line in sys.stdin:
        os.environ[VARIABLE] = line.strip()
        start = time.perf_counter()
        for _ in range(3):
            job()
        print(time.perf_counter() - start, flush=True)


def _threads(size: tuple[int, int, int], repeats: int) -> Iterator[Row]:
    """What a second thread gains, beside what two independent processes gain in the same run (wall clock)."""
    one, other = _Worker(size), _Worker(size)
    alone, both, threads = [], [], []
    for _ in range(repeats):
        one.start(1)
        alone.append(one.wait())
        one.start(1)
        other.start(1)
        both.append(max(one.wait(), other.wait()))
        one.start(2)
        threads.append(one.wait())
    one.stop()
    other.stop()
    base = statistics.median(alone)
    gain, processes = base / statistics.median(threads), 2 * base / statistics.median(both)
    row = {"table": "threads", "n": size[0], "d": size[1], "lambda_0": size[2], "k": K, "kind": "clean"}
    yield {**row, "ms": base / 3 * 1e3, "two_threads": gain, "two_processes": processes, "share": gain / processes}


# Output ---------------------------------------------------------------------------------------------------------------


HEADS = {
    "sizes": f"{'ms':>9} {'L2':>8} {'L3':>8} {'/L2':>7} {'/L3':>7} {'/numpy':>7} {'MiB':>6}  decided by",
    "threads": f"{'ms':>9} gain of two threads, of two processes, share",
}


def _line(row: Row) -> str:
    size = f"{row['n']:>8} {row['d']:>4} {row['lambda_0']:>4} {row['k']:>4} {row['kind']:<15} {row['ms']:9.1f}"
    if row["table"] == "threads":
        return f"{size} {row['two_threads']:.2f} {row['two_processes']:.2f} {row['share']:.2f}"
    if row["table"] != "sizes":
        return f"{size} {row['to_first']:8.2f}"
    decided = ", ".join(f"{stage} {count}" for stage, count in sorted(row["decided"].items()))
    return (
        f"{size} {row['L2']:8.1f} {row['L3']:8.1f} {row['to_L2']:7.2f} {row['to_L3']:7.2f} {row['to_numpy']:7.2f}"
        f" {row['MiB']:6.1f}  {decided}"
    )


def _head(table: str) -> str:
    end = HEADS.get(table, f"{'ms':>9} to first")
    return f"\n{'n':>8} {'d':>4} {'lam':>4} {'k':>4} {'kind':<15} {end}"


def _medians(rows: Sequence[Row]) -> Iterator[str]:
    """One line for each size: the median over the kinds of outliers."""
    first = [row for row in rows if row["table"] == "sizes" and row["kind"] in OUTLIERS]
    for size in dict.fromkeys((row["n"], row["d"], row["lambda_0"]) for row in first):
        ratios = [row["to_L2"] for row in first if (row["n"], row["d"], row["lambda_0"]) == size]
        yield f"{size[0]:>8} {size[1]:>4} {size[2]:>4}      outliers, median {statistics.median(ratios):6.2f} L2"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The figure: cost against n, d and k, with the measured ratio to the least cost in each panel."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra that only the figure needs
    except ImportError:
        raise SystemExit("a figure needs matplotlib: install the extra 'report'") from None
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, table in zip(figure.subplots(1, 3), ("n", "d", "k"), strict=True):
        chosen = [row for row in rows if row["table"] == table]
        axes.loglog([row[table] for row in chosen], [row["ms"] for row in chosen], "o-")
        fixed = ", ".join(f"{name} = {chosen[0][name]}" for name in ("n", "d", "k") if chosen and name != table)
        axes.set(xlabel=table, ylabel="both stages, ms", title=fixed)
        axes.set_ylim(bottom=1)
        axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fastimpl.bench", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--table", action="append", choices=TABLES, help="which tables (all; sizes with --size or --kind)"
    )
    parser.add_argument("--size", nargs=3, type=int, action="append", metavar=("N", "D", "LAMBDA_0"))
    parser.add_argument("--kind", action="append", help="clean, far, near, cluster, scales, score k, ties, condition C")
    parser.add_argument("--k", type=int, default=K)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--cpu", action="store_true", help="processor time: steadier on a busy machine; one BLAS thread only"
    )
    parser.add_argument("--small", action="store_true", help="small sizes, once: to see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the cost against n, d and k (SVG, PNG or PDF)"
    )
    parser.add_argument("--worker", nargs=3, type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """All rows that were asked for, as they are measured."""
    clock = time.process_time if arguments.cpu else time.perf_counter
    repeats = 1 if arguments.small else arguments.repeats
    sizes = [tuple(size) for size in arguments.size or (SMALL if arguments.small else SIZES)]
    series = _series(arguments.small)
    tables = arguments.table or (["sizes"] if arguments.size or arguments.kind else TABLES)
    if arguments.figure:
        tables = [*tables, *(table for table in ("n", "d", "k") if table not in tables)]
    for table in tables:
        if table == "sizes":
            for size in sizes:
                kinds = arguments.kind or DEFAULT
                yield from measure(*size, kinds=kinds, repeats=repeats, k=arguments.k, clock=clock)
        elif table == "threads":
            for size in arguments.size or (SMALL if arguments.small else ((1_000_000, 10, 50), (500_000, 50, 150))):
                yield from _threads(tuple(size), repeats)
        else:
            yield from _against(table, series[table], repeats, clock)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    arguments = _arguments(argv)
    if arguments.worker:
        _work(*arguments.worker)
        return
    if not arguments.json:
        threads = os.environ.get("OPENBLAS_NUM_THREADS", "default")
        print(f"BLAS threads: {threads}; times in ms, medians of {1 if arguments.small else arguments.repeats}")
    rows: list[Row] = []
    for row in _rows(arguments):
        if not arguments.json:
            new = not rows or rows[-1]["table"] != row["table"]
            print((_head(row["table"]) + "\n" if new else "") + _line(row), flush=True)
        rows.append(row)
    print(json.dumps(rows) if arguments.json else "\n" + "\n".join(_medians(rows)))
    if arguments.figure:
        draw(rows, arguments.figure)


def _with_one_thread() -> None:
    """Start again with one BLAS thread, unless the caller has chosen a number: BLAS reads it when it is loaded."""
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "fastimpl.bench", *sys.argv[1:]])


if __name__ == "__main__":
    _with_one_thread()
    main()
