"""Targets that are never loaded in the process that audits them: a worker loads one, within a limit, and says what it has.

Importing a stranger's module is running its code: it may hang, end the process, start threads or print. What the auditor
needs to know of it before it is asked anything (which functions there are, its rounding, where its source is) fits in a
:class:`Description`. Our own two implementations are trusted, and a program in another language is a process of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from proofs_checks.foreign import FUNCTIONS
from proofs_checks.target import Implementation, Target, load_target
from proofs_checks.workers import Lost, Pool, Watch, Watched
from refimpl.parameters import REPAIRED, Edition

__all__ = ["TRUSTED", "Apart", "Description", "find_target", "is_trusted", "loaded", "perform", "place_of"]

TRUSTED = {"refimpl", "fastimpl"}

KNOWN = {*FUNCTIONS, *(name for name in vars(Implementation) if not name.startswith("_"))}
"""Functions that are looked for by name too: an object with a ``__getattr__`` need not list them."""


def perform(task: Any, watch: Watch) -> Any:
    """What the workers of this project do: a task is a function of the watch that can be sent."""
    return task(watch)


def is_trusted(name: str) -> bool:
    """Whether a target may be loaded here: ours, or a program, which is a process of its own with a limit of its own."""
    return name in TRUSTED or name.startswith("exec:")


_LOADED: dict[str, Any] = {}  # in a worker, which loads each target once


def loaded(name: str, seconds: float, watch: Watch) -> Any:
    """In a worker: the implementation called ``name``; the time in it, and in loading it, is what the limit is on.

    Raises
    ------
    ValueError
        If there is no such target.
    """
    if name not in _LOADED:
        with watch:
            implementation = load_target(name, seconds=seconds).implementation
        has_its_own_limit = name.startswith("exec:")
        _LOADED[name] = implementation if has_its_own_limit else Watched(implementation, watch)
    return _LOADED[name]


# What a target is -----------------------------------------------------------------------------------------------------

Place = tuple[str, int]


@dataclass(frozen=True)
class Description:
    """What is known of a target that is not loaded.

    Attributes
    ----------
    names, functions
        Its attributes, and those of them that can be called.
    rounding, most_rows, float_ties, version
        What it says of itself.
    places
        File and line of each function, and under "" of the target itself, as far as there is source.
    """

    names: frozenset[str]
    functions: frozenset[str]
    rounding: Fraction
    most_rows: int
    float_ties: bool
    version: str
    places: dict[str, Place] = field(default_factory=dict)


def place_of(thing: Any) -> Place | None:
    """The file and the line where the source of a thing begins; None where it is built in, made at run time or not there."""
    try:
        thing = inspect.unwrap(thing)
        file = inspect.getsourcefile(thing) or ""
        line = 1 if inspect.ismodule(thing) else inspect.getsourcelines(thing)[1]
    except (TypeError, OSError, ValueError):
        return None
    return (file, max(line, 1)) if Path(file).name else None


@dataclass(frozen=True)
class _Describe:
    """The task of describing a target."""

    name: str
    seconds: float

    def __call__(self, watch: Watch) -> Description | str:
        """The description, or why there is none."""
        try:
            with watch:
                return _description(load_target(self.name, seconds=self.seconds))
        except ValueError as error:
            return str(error)


def _description(target: Target) -> Description:
    owner = target.implementation
    found = {}
    for name in sorted({*dir(owner), *KNOWN}):
        with suppress(Exception):  # an attribute that cannot be read is none
            if not name.startswith("_"):
                found[name] = getattr(owner, name)
    functions = {name: thing for name, thing in found.items() if callable(thing)}
    places = {name: place_of(thing) for name, thing in functions.items()} | {
        "": place_of(owner) or place_of(type(owner))
    }
    return Description(
        frozenset(found),
        frozenset(functions),
        target.rounding,
        target.most_rows,
        getattr(owner, "FLOAT_TIES", False) is True,
        str(getattr(owner, "version", "")),
        {name: place for name, place in places.items() if place is not None},
    )


class Apart:
    """An implementation that workers have, and this process only describes.

    It has the attributes of the original. Whoever uses one here, as a test with the fixture ``dp_target`` does, loads it here.

    Attributes
    ----------
    description
        What it is.
    """

    def __init__(self, name: str, description: Description) -> None:
        self._name, self.description = name, description
        self.ROUNDING, self.MOST_ROWS = description.rounding, description.most_rows
        self.FLOAT_TIES, self.version = description.float_ties, description.version

    def __getattr__(self, name: str) -> Any:
        """A function that loads the original when it is called; any other attribute of it loads it now."""
        description = self.__dict__.get("description")
        if description is None or name not in description.names:
            raise AttributeError(name)
        if name not in description.functions:
            return getattr(load_target(self._name).implementation, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return getattr(load_target(self._name).implementation, name)(*arguments, **named)

        return call

    def place(self, functions: Iterable[str]) -> Place | None:
        """Where the source of the first of these functions is that has any, or of the whole target."""
        return next(filter(None, (self.description.places.get(name) for name in (*functions, ""))), None)


def find_target(
    name: str,
    edition: Edition = REPAIRED,
    rounding: Fraction | None = None,
    *,
    seconds: float = 60.0,
    pool: Pool | None = None,
) -> Target:
    """The target of that name, as :func:`proofs_checks.target.load_target`, but a stranger's is loaded in a worker alone.

    Parameters
    ----------
    name, edition, rounding
        As there.
    seconds
        How long loading it may take; of a program, each request.
    pool
        Workers that do :func:`perform`, with that limit; they have the target loaded afterwards. Made for this alone if None.

    Raises
    ------
    ValueError
        If there is no such target, or if it hangs or ends its process when it is loaded.
    """
    if is_trusted(name):
        return load_target(name, edition, rounding, seconds=seconds)
    if pool is None:
        with Pool(perform, 1, seconds) as own:
            return find_target(name, edition, rounding, seconds=seconds, pool=own)
    ((_, found),) = pool.run([_Describe(name, seconds)])
    if isinstance(found, Lost):
        words = {"hung": "it hangs when it is loaded", "died": "it ends its process when it is loaded"}
        found = f"no target {name!r}: {words.get(found.why, 'it cannot be loaded')}: {found.detail}"
    if isinstance(found, str):
        raise ValueError(found)
    stated = found.rounding if rounding is None else rounding
    return Target(name, Apart(name, found), edition, stated, found.most_rows)
