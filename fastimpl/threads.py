"""Blocks of rows over threads: what a sweep over the data does at the same time.

BLAS does not use a second thread for the tall and thin products of this package, so blocks of rows are given to threads of
our own, each with one thread of BLAS; numpy and BLAS work without the interpreter's lock. Threads live as long as one sweep,
so there is nothing that a fork could break, and every block's numbers are the same whatever the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import pairwise
from typing import TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["spread", "thread_count"]

T = TypeVar("T")

VARIABLE = "BHS23_THREADS"
_WORTH_IT = 3_000_000  # numbers; below, starting threads costs about what they gain
_MOST = 16


def thread_count(numbers: int) -> int:
    """How many threads a sweep over so many numbers uses.

    One for less than three million; else what the environment variable BHS23_THREADS says, or else OPENBLAS_NUM_THREADS or
    OMP_NUM_THREADS, or else the number of processors that the process may use; at most 16.
    """
    if numbers < _WORTH_IT:
        return 1
    for name in (VARIABLE, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit() and 0 < int(text) <= 1024:
            return min(int(text), _MOST)
    return min(_processors(), _MOST)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(work: Callable[[range], T], count: int, threads: int) -> list[T]:
    """The results of ``work`` on consecutive parts of 0..count-1, in order: one part for each thread."""
    threads = max(1, min(threads, count))
    if threads == 1:
        return [work(range(count))]
    cuts = [count * i // threads for i in range(threads + 1)]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        # In a copy of the context: numpy's error settings and a running audit live there.
        parts = [pool.submit(copy_context().run, work, range(*cut)) for cut in pairwise(cuts)]
        return [part.result() for part in parts]
