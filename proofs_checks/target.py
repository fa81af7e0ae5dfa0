"""An implementation under audit: any object with some of the functions of :class:`Implementation`.

Nothing to subclass and nothing to register: "package.module" or "package.module:attribute" names it, and "exec:COMMAND" a
program in any language that speaks the protocol of :mod:`proofs_checks.foreign`. What it lacks is reported as not provided.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from refimpl.parameters import REPAIRED, Edition

__all__ = ["Implementation", "Target", "counts_of", "levels_of", "load_target"]


class Implementation(Protocol):
    """The functions that an outside target may have, each optional. Indices are 0-based; arrays are float64.

    Results need only the attributes named here. ``entry_level[i]`` is the least level whose set holds row i, or the number
    of levels (2k + 1) if none does; an implementation may give ``good_subsets`` or ``cores`` (a sequence of index sets, one
    a level 0..2k) instead. A module may state its relative rounding error as ``ROUNDING`` (0 if absent): it is granted only
    to claims about rounded numbers, never to sets, scores and counts. ``FLOAT_TIES = True`` says that it decides in floating
    point: test vectors of result "boundary" (exact ties) are then forgiven; statements never are. One whose bounds in floats
    are proved may let itself be looked at: ``audit_decisions()`` is a context manager that yields how many comparisons
    "float", "direct" and "pairs" of floats decided in the block; the check of certified decisions then asks that they did.

    Conventions are declared by which functions there are, and never guessed: ``stable_second_moment`` is given the paired
    rows y, ``stable_covariance`` the rows x, of which it pairs i with i + m, m = floor(n/2). Code that orders or pairs its
    rows in another way has an adapter that hands them over, and takes the answers back, in its own order.
    """

    def largest_good_subset(self, y: Any, lam: Any) -> Iterable[int]:
        """The rows of LargestGoodSubset."""

    def stable_second_moment(self, y: Any, lambda_0: Any, k: int) -> Any:
        """StableCovariance of rows given directly: ``.covariance``, ``.score``, ``.weights``, ``.entry_level``."""

    def stable_covariance(self, x: Any, lambda_0: Any, k: int) -> Any:
        """StableCovariance with its pairing: the same attributes, for the floor(n/2) paired rows."""

    def stable_moments(self, x: Any, lambda_0: Any, k: int, window: int) -> Any:
        """SHARP's one stage: ``.mean``, ``.covariance``, ``.score``, ``.weights`` and levels 0..k+window-1, for all rows."""

    def largest_core(self, x: Any, covariance: Any, lam: Any, tau: int, reference: Sequence[int]) -> Iterable[int]:
        """The rows of LargestCore."""

    def stable_mean(self, x: Any, covariance: Any, lambda_0: Any, k: int, reference: Sequence[int]) -> Any:
        """StableMean: ``.mean``, ``.score``, ``.weights``, ``.entry_level``; covariance is a matrix or a result as above."""

    def ptr_pass_probability(self, score: int, epsilon: Any, delta: Any, *, edition: Edition) -> Any:
        """Pr[PASS] of the test with its own budget."""

    def ptr_pass_probability_at_growth(self, score: int, growth: Any, delta: Any, *, edition: Edition) -> Fraction:
        """The same law over growth = e^(epsilon/s), exact for a rational growth."""

    def private_mean_given(self, x: Any, parameters: Any, coins: Any) -> Any:
        """Algorithm 1 with its coins: ``.mean`` is None for FAIL."""

    def private_covariance_given(self, x: Any, parameters: Any, coins: Any) -> Any:
        """Algorithm 5.1 with its coins: ``.covariance`` is None for FAIL.

        ``coins.normals`` is the lower triangular A, d x d, with A A^T the sum of squares of the draws. A target that takes the
        N x d draws has ``draw_covariance_coins(parameters, rng)``, whose normals have that shape.
        """

    def private_gaussian_given(self, x: Any, parameters: Any, coins: Any) -> Any:
        """Algorithm 5.2 with the coins of both: ``.mean`` and ``.covariance``, None for FAIL."""


@dataclass(frozen=True)
class Target:
    """An implementation with the edition and the rounding allowance under which it is audited.

    Attributes
    ----------
    name
        As it was given on the command line.
    implementation
        The object.
    edition
        PRINTED or REPAIRED: whose constants and rules the checks use.
    rounding
        Relative allowance for claims about rounded numbers.
    most_rows
        Cases with more rows are left to faster targets.
    """

    name: str
    implementation: Any
    edition: Edition = REPAIRED
    rounding: Fraction = Fraction(0)
    most_rows: int = 1 << 20

    def provides(self, functions: Iterable[str]) -> bool:
        """Whether the implementation has all these functions."""
        return all(callable(getattr(self.implementation, name, None)) for name in functions)

    def __getattr__(self, name: str) -> Any:
        """A function of the implementation; :meth:`provides` tells which there are."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.implementation, name)


def load_target(
    name: str, edition: Edition = REPAIRED, rounding: Fraction | None = None, *, seconds: float = 60.0
) -> Target:
    """The target called "package.module", "package.module:attribute" or "exec:COMMAND".

    Parameters
    ----------
    name, edition, rounding
        As :class:`Target` has them; the rounding that the implementation states if None.
    seconds
        Time limit of each request to a program.

    Raises
    ------
    ValueError
        If there is no such module or attribute, it raises when it is imported, or the program does not answer.
    """
    if name.startswith("exec:"):
        return _foreign(name, edition, rounding, seconds)
    module_name, _, attribute = name.partition(":")
    try:
        implementation: Any = importlib.import_module(module_name)
        for part in attribute.split(".") if attribute else ():
            implementation = getattr(implementation, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no target {name!r}: {error}") from error
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything when it is imported
        raise ValueError(f"no target {name!r}: it raises {type(error).__name__}: {error}") from error
    try:
        stated = Fraction(getattr(implementation, "ROUNDING", 0)) if rounding is None else rounding
        most_rows = int(getattr(implementation, "MOST_ROWS", 1 << 20))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"no target {name!r}: its ROUNDING and MOST_ROWS must be numbers: {error}") from error
    return Target(name, implementation, edition, stated, most_rows)


def _foreign(name: str, edition: Edition, rounding: Fraction | None, seconds: float) -> Target:
    from proofs_checks.foreign import ForeignError, ForeignTarget  # noqa: PLC0415 - that room makes targets of this one

    try:
        program = ForeignTarget(shlex.split(name.removeprefix("exec:")), seconds)
    except ForeignError as error:
        raise ValueError(f"no target {name!r}: {error}") from error
    return Target(name, program, edition, program.ROUNDING if rounding is None else rounding, program.MOST_ROWS)


def levels_of(result: Any, levels: int) -> tuple[frozenset[int], ...]:
    """The sets S_0, S_1, ... of a result, from its own sets or from its entry levels."""
    sets = getattr(result, "good_subsets", None) or getattr(result, "cores", None)
    if sets is not None:
        return tuple(frozenset(int(i) for i in s) for s in sets)
    entry: NDArray[np.int64] = np.asarray(result.entry_level)
    return tuple(frozenset(np.flatnonzero(entry <= ell).tolist()) for ell in range(levels))


def counts_of(sets: Sequence[frozenset[int]], levels: Iterable[int], rows: int) -> list[int]:
    """c_i: in how many of the sets of ``levels`` row i is."""
    chosen = [sets[ell] for ell in levels]
    return [sum(i in s for s in chosen) for i in range(rows)]
