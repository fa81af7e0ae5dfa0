"""Worker processes that a stranger's code cannot take the audit down with: it may hang, crash the interpreter or print.

A worker is asked one task at a time. While it is inside a stranger's code it says so, in memory that both processes see;
whoever stays there longer than the limit is killed, and the next task gets a new process. Standard output of a
worker goes to standard error, so that nothing that a target prints ends up in a report.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, sharedctypes
from pickle import PicklingError, UnpicklingError
from typing import Any, Literal, Self

__all__ = ["Lost", "Pool", "Watch", "Watched"]

START = get_context("spawn")  # a fork would share generators, locks and threads


@dataclass(frozen=True)
class Lost:
    """What became of a task that has no answer.

    Attributes
    ----------
    why
        "hung" (killed at the limit), "died" (its process ended), "failed" (our own code raised in it), or "skipped" (it was
        not wanted any more).
    detail
        The limit, the exit status, or the traceback.
    said
        The last thing that the task told about itself, see :meth:`Watch.say`.
    """

    why: Literal["hung", "died", "failed", "skipped"]
    detail: str
    said: Any = None


class Watch:
    """What a task uses to say that it is inside a stranger's code, and where it is."""

    def __init__(self, since: Any, pipe: Any) -> None:
        self._since, self._pipe, self._depth = since, pipe, 0

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1:
            self._since.value = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._since.value = 0.0

    def say(self, what: Any) -> None:
        """Tell the parent where the task is: the last thing told is part of what is known of a lost task."""
        self._pipe.send(("said", what))


class Watched:
    """An implementation whose functions say when a call begins and ends."""

    def __init__(self, implementation: Any, watch: Watch) -> None:
        self._implementation, self._watch = implementation, watch

    def __getattr__(self, name: str) -> Any:
        """An attribute of the implementation; functions are watched."""
        found = getattr(self._implementation, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            with self._watch:
                return _settled(found(*arguments, **named))

        return call


def _settled(result: Any) -> Any:
    """A result after a stranger's code has run that a lazy one would run later, when nobody watches."""
    if isinstance(result, Iterator):
        return list(result)
    kind = type(result)
    for name in ("covariance", "mean", "score", "weights", "entry_level", "good_subsets", "cores"):
        if getattr(kind, name, None) is not None:  # a property, or something like it
            with suppress(Exception):  # it is raised again where it is used
                getattr(result, name)
    return result


Work = Callable[[Any, Watch], Any]


def _serve(pipe: Any, since: Any, work: Work) -> None:
    """The life of a worker: answer tasks until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        os.dup2(2, 1)
    watch = Watch(since, pipe)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ("done", work(task, watch))
        except Exception:  # our own code, since strangers' errors are caught where they are called
            answer = ("failed", traceback.format_exc())
        try:
            pipe.send(answer)
        except (PicklingError, AttributeError, TypeError):
            pipe.send(("failed", traceback.format_exc()))


class _Worker:
    def __init__(self, work: Work) -> None:
        self.pipe, theirs = START.Pipe()
        self.since = sharedctypes.RawValue("d", 0.0)
        self.process = START.Process(target=_serve, args=(theirs, self.since, work))
        self.process.start()
        theirs.close()
        self.said: Any = None

    def ask(self, task: Any) -> None:
        self.said = None
        self.pipe.send(task)

    def seconds_inside(self) -> float:
        """For how long it has been inside a stranger's code."""
        since = float(self.since.value)
        return time.monotonic() - since if since else 0.0

    def end(self, patience: float = 0.2) -> int | None:
        """Kill it if it does not end by itself soon, and return the status with which it did, if it did."""
        self.process.join(patience)
        status = self.process.exitcode
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
        return status


class Pool:
    """Workers that answer tasks; use it in a ``with`` statement, which ends them.

    Parameters
    ----------
    work
        ``work(task, watch)``, a function of a module: it is called in the workers, and its answers are sent back.
    jobs
        How many workers.
    seconds
        How long a task may stay inside a stranger's code at one go; None is for ever.

    Attributes
    ----------
    jobs, seconds
        As above.
    lost
        For who counts it: how many processes each target has cost.
    """

    def __init__(self, work: Work, jobs: int = 1, seconds: float | None = None) -> None:
        self._work, self.jobs, self.seconds = work, jobs, seconds
        self.lost: Counter[str] = Counter()
        self._idle: list[_Worker] = []
        self._busy: dict[Any, tuple[_Worker, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker, whatever it is doing; there are new ones if anything is asked again."""
        self._drop()
        for worker in self._idle:
            worker.pipe.close()  # it asks for a task, hears that there is none, and tidies up
            worker.end(patience=2.0)
        self._idle.clear()

    def _drop(self) -> None:
        for worker, _ in self._busy.values():
            worker.process.kill()
            worker.end()
        self._busy.clear()

    def run(
        self, tasks: Sequence[Any], wanted: Callable[[Any], bool] = lambda _task: True
    ) -> Generator[tuple[int, Any], None, None]:
        """The index and the answer, or a :class:`Lost`, of every task, as they come; each is asked if it is still wanted."""
        try:
            yield from self._run(deque(enumerate(tasks)), wanted)
        finally:
            self._drop()  # nobody listens any more

    def _run(self, waiting: deque[tuple[int, Any]], wanted: Callable[[Any], bool]) -> Iterator[tuple[int, Any]]:
        while waiting or self._busy:
            while waiting and len(self._busy) < self.jobs:
                index, task = waiting.popleft()
                if wanted(task):
                    self._give(index, task)
                else:
                    yield index, Lost("skipped", "not asked any more")
            if not self._busy:
                continue
            patience = None if self.seconds is None else min(0.2, self.seconds / 4)
            for pipe in connection.wait(list(self._busy), patience):
                yield from self._heard(pipe)
            yield from self._hung()

    def _give(self, index: int, task: Any) -> None:
        while True:
            worker = self._idle.pop() if self._idle else _Worker(self._work)
            try:
                worker.ask(task)
            except OSError:  # it ended while nobody looked
                worker.end()
                continue
            self._busy[worker.pipe] = (worker, index)
            return

    def _heard(self, pipe: Any) -> Iterator[tuple[int, Any]]:
        worker, index = self._busy[pipe]
        try:
            kind, content = pipe.recv()
        except (EOFError, OSError, UnpicklingError, ValueError, TypeError):
            del self._busy[pipe]
            yield index, Lost("died", f"the process ended with status {worker.end()}", worker.said)
            return
        if kind == "said":
            worker.said = content
            return
        del self._busy[pipe]
        self._idle.append(worker)
        yield index, content if kind == "done" else Lost("failed", content, worker.said)

    def _hung(self) -> Iterator[tuple[int, Any]]:
        if self.seconds is None:
            return
        for pipe, (worker, index) in list(self._busy.items()):
            if worker.seconds_inside() > self.seconds:
                del self._busy[pipe]
                said = worker.said
                worker.process.kill()
                worker.end()
                yield index, Lost("hung", f"no answer within {self.seconds:g} s", said)
