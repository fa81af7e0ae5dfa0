"""``python -m fastimpl.bench``: what certified decisions cost, as ratios to the products that no method could do without.

Everything in one line of the table is measured in one process, in turns, and shown as a median. L2 is the Gram matrix of the
paired rows plus the whitening of all rows (the better of a triangular solve and a product); L3 adds the product of all rows
with the reference set. "clean" and the kinds of outliers are ``stable_covariance`` and ``stable_mean`` together, every level,
certification included; "score k" is ``private_mean_given`` on data that must fail.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm

from fastimpl import certified
from fastimpl.covariance import stable_covariance
from fastimpl.mean import stable_mean
from fastimpl.private import private_mean_given
from fastimpl.rows import READ_ROWS, Floats
from fastimpl.sampling import draw_mean_coins
from refimpl.parameters import REPAIRED, mean_parameters

__all__ = ["main"]

Rng = np.random.Generator
Job = Callable[[], object]
Row = dict[str, Any]

SIZES = ((100_000, 10, 50), (1_000_000, 10, 50), (1_000_000, 50, 150), (500_000, 100, 250), (500_000, 100, 200))
K, REFERENCE = 98, 1100
OUTLIERS = ("far", "near", "cluster", "scales")
DEFAULT = ("clean", *OUTLIERS, "score k")


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
    coins = draw_mean_coins(parameters, rng)
    spoiled = _spoiled(x, rng, 3 * parameters.k, "far")
    return lambda: private_mean_given(spoiled, parameters, coins)


def _limits(x: Floats, reference: Sequence[int]) -> dict[str, Job]:
    """The parts of L2 and L3."""
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
    }


def _milliseconds(jobs: dict[str, Job], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
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


def measure(
    n: int,
    d: int,
    lambda_0: int,
    *,
    kinds: Sequence[str] = DEFAULT,
    repeats: int = 5,
    k: int = K,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Row]:
    """Rows of the table: one size, several kinds of data, one after the other, each with its own L2 and L3."""
    rows = []
    for kind in kinds:
        rng = np.random.default_rng([n, d, lambda_0])
        x = _data(kind, n, d, rng)
        reference = np.sort(rng.choice(n, min(REFERENCE, n // 2), replace=False)).tolist()
        limits = _limits(_data("clean", n, d, rng) if kind in OUTLIERS else x, reference)
        failing = kind == "score k"
        job = _failing(x, lambda_0, rng) if failing else _both_stages(x, lambda_0, k, reference)
        with certified.audit() as counts:
            job()
        took = _milliseconds({**limits, "job": job}, repeats, clock)
        l2 = took["gram"] + min(took["gemm"], took["trsm"])
        l3 = l2 + took["product"]
        row = {"n": n, "d": d, "lambda_0": lambda_0, "k": k, "kind": kind, "ms": took["job"], "L2": l2, "L3": l3}
        rows.append({**row, "to_L2": took["job"] / l2, "to_L3": took["job"] / l3, "MiB": _peak(job), "decided": counts})
    return rows


def _line(row: Row) -> str:
    decided = ", ".join(f"{stage} {count}" for stage, count in sorted(row["decided"].items()))
    size = f"{row['n']:>8} {row['d']:>4} {row['lambda_0']:>4} {row['k']:>4} {row['kind']:<15}"
    return (
        f"{size} {row['ms']:9.1f} {row['L2']:8.1f} {row['L3']:8.1f} {row['to_L2']:7.2f} {row['to_L3']:7.2f}"
        f" {row['MiB']:6.1f}  {decided}"
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fastimpl.bench", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--size", nargs=3, type=int, action="append", metavar=("N", "D", "LAMBDA_0"))
    parser.add_argument("--kind", action="append", help="clean, far, near, cluster, scales, score k, ties, condition C")
    parser.add_argument("--k", type=int, default=K)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--cpu", action="store_true", help="processor time: steadier on a busy machine; one BLAS thread only"
    )
    parser.add_argument("--small", action="store_true", help="one small size, once: to see that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    arguments = _arguments(argv)
    sizes = [(4000, 3, 20)] if arguments.small else arguments.size or SIZES
    repeats = 1 if arguments.small else arguments.repeats
    clock = time.process_time if arguments.cpu else time.perf_counter
    rows: list[Row] = []
    if not arguments.json:
        print(f"BLAS threads: {os.environ.get('OPENBLAS_NUM_THREADS', 'default')}; times in ms, medians of {repeats}")
        print(
            f"{'n':>8} {'d':>4} {'lam':>4} {'k':>4} {'kind':<15} {'ms':>9} {'L2':>8} {'L3':>8} {'/L2':>7} {'/L3':>7}    MiB"
        )
    for size in sizes:
        for kind in arguments.kind or DEFAULT:
            rows += measure(*size, kinds=[kind], repeats=repeats, k=arguments.k, clock=clock)
            if not arguments.json:
                print(_line(rows[-1]), flush=True)
    if arguments.json:
        print(json.dumps(rows))


def _with_one_thread() -> None:
    """Start again with one BLAS thread, unless the caller has chosen a number: BLAS reads it when it is loaded."""
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "fastimpl.bench", *sys.argv[1:]])


if __name__ == "__main__":
    _with_one_thread()
    main()
