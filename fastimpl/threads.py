"""Blocks of rows over threads: what a sweep over the data does at the same time.

BLAS does not use a second thread for the tall and thin products of this package, so blocks of rows are given to threads of
our own, each with one thread of BLAS; numpy and BLAS work without the interpreter's lock. Of a product with less than 500
entries that is true of ``np.dot`` only: ``@`` goes by the size of the result, and keeps the lock while it sums however many
rows. Threads live as long as one sweep, so there is nothing that a fork could break, and every block's numbers are the same
whatever the number of threads.

Nor may BLAS use threads of its own between two sweeps: they go on spinning for a while, on the processor that ours need.
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache, partial, wraps
from itertools import pairwise
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["meanwhile", "one_blas_thread", "share", "spread", "thread_count"]

P = ParamSpec("P")
T = TypeVar("T")

VARIABLE = "BHS23_THREADS"
_WORTH_IT = 3_000_000  # numbers; below, starting threads costs about what they gain
_MOST = 16
_NOTICED = 1 << 16  # numbers, from which threads of BLAS cost more than to forbid them
_WIDE = 128  # columns, from which they are of use where we start none


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


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process: looking for them takes as long as a tenth of a sweep, so it is done once."""
    return ThreadpoolController()


class _Limit:
    """One thread for BLAS as long as anybody is inside: the first to enter forbids more, the last to leave allows them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, as a child process has to: whoever was inside is not there."""
        self._lock, self._inside = Lock(), 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limiter = _blas().limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limiter.restore_original_limits()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


def one_blas_thread(function: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """For a function of rows, an array or vectors: while it works on enough of them, BLAS has one thread, in every thread."""

    @wraps(function)
    def limited(rows: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        width = rows.shape[1] if hasattr(rows, "shape") else rows.width
        numbers = len(rows) * width
        with _limit.inside() if numbers >= (_NOTICED if width < _WIDE else _WORTH_IT) else nullcontext():
            return function(rows, *args, **kwargs)

    return limited


def spread(work: Callable[[range], T], count: int, threads: int) -> list[T]:
    """The results of ``work`` on consecutive parts of 0..count-1, in order: one part for each thread, this one included."""
    threads = max(1, min(threads, count))
    cuts = pairwise(count * i // threads for i in range(threads + 1))
    return _at_once([partial(work, range(*cut)) for cut in cuts])


def share(work: Callable[[Iterator[int]], T], count: int, threads: int) -> list[T]:
    """The results of ``work`` on numbers that together are 0..count-1, each of which the thread takes that is first to ask.

    A thread that is held up does less, and none waits for it long. Which numbers meet in one thread is a matter of chance.
    """
    turns = deque(range(count))

    def own() -> Iterator[int]:
        with suppress(IndexError):
            while True:
                yield turns.popleft()

    return _at_once([partial(work, own()) for _ in range(max(1, min(threads, count)))])


@contextmanager
def meanwhile(work: Callable[[], None], threads: int) -> Iterator[None]:
    """Some work is done in a thread of its own, or before if there may be only one, and is done at the end."""
    if threads == 1:
        work()
    started = [_start(work)] if threads > 1 else []
    try:
        yield
    finally:
        wait(started)
    for future in started:
        future.result()


def _at_once(jobs: list[Callable[[], T]]) -> list[T]:
    first, *others = jobs
    if not others:
        return [first()]
    started: list[Future[T]] = []
    with _limit.inside():
        try:
            for job in others:
                started.append(_start(job))  # noqa: PERF401 - those that run are waited for even if one cannot start
            done = first()
        finally:
            wait(started)
    return [done, *(future.result() for future in started)]


def _start(job: Callable[[], T]) -> Future[T]:
    """A thread for a job: a plain one, as the classes of the library wait until it runs, and once more until it is gone.

    In a copy of the context: numpy's error settings and a running audit live there.
    """
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(job))
        except BaseException as error:
            future.set_exception(error)

    start_new_thread(run, ())
    return future
