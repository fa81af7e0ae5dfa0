"""What a check is: a decorated generator whose docstring is the statement and whose yields are exact inequalities.

A check yields :class:`Claim` objects, made by :func:`at_most`, :func:`equal` and :func:`holds`, and says by :func:`tells`
whether the case could have refuted a wrong implementation at all. A case that tells nothing is vacuous; a check whose
share of telling cases is below its own least share is broken, and so is one that yields no claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

from hypothesis.strategies import SearchStrategy

from proofs_checks.target import Target
from refimpl.parameters import Edition
from refimpl.reals import ExpFraction

__all__ = [
    "CASES",
    "LEMMAS",
    "AuditError",
    "Case",
    "Claim",
    "Evidence",
    "HypothesisBrokenError",
    "Lemma",
    "Telling",
    "Violation",
    "at_most",
    "equal",
    "holds",
    "lemma",
    "require",
    "tells",
]

Evidence = Literal["proved", "exhaustive", "sampled", "statistical", "cited", "asymptotic"]
Number = int | float | Fraction | ExpFraction
Kind = Literal["ratio", "equality", "sets", "sign", "yes/no"]


class AuditError(Exception):
    """The audit itself is broken: a vacuous check, a check without a claim, a case outside its own hypotheses."""


class HypothesisBrokenError(AuditError):
    """A generated or pinned case does not meet the hypotheses of the statement that it was made for."""


CASES: dict[str, type[Case]] = {}
"""Every kind of case by the name of its class, so that a saved counterexample can be read again."""


class Case:
    """What a check is about: a frozen record that can be measured, saved, read again and pasted."""

    def __init_subclass__(cls) -> None:
        other = CASES.setdefault(cls.__name__, cls)
        if other.__module__ != cls.__module__:
            raise AuditError(f"two kinds of cases are called {cls.__name__}: saved ones could not be told apart")
        CASES[cls.__name__] = cls

    def size(self, edition: Edition) -> int:  # noqa: ARG002 - the size of some cases depends on the edition
        """Number of rows that a target is given; 0 where the case has no data."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, exact numbers as "p/q"."""
        return {name: str(v) if isinstance(v, Fraction) else v for name, v in vars(self).items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The case of a JSON object as :meth:`to_json` writes it."""
        exact = {f.name for f in fields(cls) if "Fraction" in str(f.type)}  # type: ignore[arg-type]  # cases are dataclasses
        return cls(**{name: Fraction(v) if name in exact and v is not None else v for name, v in data.items()})

    def paste(self) -> str:
        """Python that names the case, to be pasted."""
        known = {name: v for name, v in vars(self).items() if v is not None}
        return "\n".join(
            f'{name} = "{v}"' if isinstance(v, Fraction) else f"{name} = {v!r}" for name, v in known.items()
        )


@dataclass(frozen=True)
class Claim:
    """One inequality or equality about one case.

    Attributes
    ----------
    what
        What the left side is, in words.
    left, right
        Exact numbers, or floats taken as the dyadic rationals that they are.
    relation
        "<=" or "==".
    rounded
        Whether the target's stated rounding allowance applies (relative to the larger side, or to ``scale``).
    scale
        What the allowance is relative to, where that is neither side.
    is_predicate
        Whether it says that something is so, with no numbers: 1 for true.
    """

    what: str
    left: Number
    right: Number
    relation: Literal["<=", "=="]
    rounded: bool = False
    scale: Number = 0
    is_predicate: bool = False

    def is_true(self, allowance: Fraction) -> bool:
        """Whether the claim holds, with ``allowance`` where it is marked as rounded."""
        left, right = _exact(self.left), _exact(self.right)
        rounded = self.rounded and allowance  # a float of an exact number is not for nothing
        slack = allowance * max(abs(Fraction(float(v))) for v in (left, right, self.scale)) if rounded else 0
        if self.relation == "==" and not slack:
            return bool(left == right)
        return bool(left <= right + slack and (self.relation == "<=" or right <= left + slack))

    @cached_property
    def tightness(self) -> float | None:
        """left/right of an inequality with a positive right side: 1 is attained, above 1 is a violation."""
        if self.relation == "==" or not (right := float(self.right)) > 0:
            return None
        return float(self.left) / right

    @property
    def kind(self) -> Kind:
        """What there is to see in it: a ratio, an equality, a sign, a set (what should not be in it), or yes or no.

        An inequality without a positive right side has no ratio: it is about a sign, or counts what should not be.
        """
        if self.relation == "==":
            return "yes/no" if self.is_predicate else "equality"
        if self.tightness is not None:
            return "ratio"
        return "sets" if isinstance(self.left, int) and self.right == 0 else "sign"

    def __str__(self) -> str:
        return f"{self.what}: {_show(self.left)} {self.relation} {_show(self.right)}"


def _exact(value: Number) -> Fraction | ExpFraction:
    return value if isinstance(value, ExpFraction) else Fraction(value)


def _show(value: Number) -> str:
    if isinstance(value, Fraction) and value.denominator != 1:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > 128:  # too long to read, and to print
            return f"{float(value):.17g} (exact rational)"
        return f"{value} = {float(value):.9g}"
    return str(value)


def at_most(what: str, left: Number, right: Number, *, rounded: bool = False, scale: Number = 0) -> Claim:
    """The claim left <= right."""
    return Claim(what, left, right, "<=", rounded, scale)


def equal(what: str, left: Number, right: Number, *, rounded: bool = False, scale: Number = 0) -> Claim:
    """The claim left == right."""
    return Claim(what, left, right, "==", rounded, scale)


def holds(what: str, condition: bool) -> Claim:
    """The claim that a predicate is true."""
    return Claim(what, int(condition), 1, "==", is_predicate=True)


@dataclass(frozen=True)
class Telling:
    """Whether a case could refute: yielded once by every case of every check."""

    condition: bool


def tells(condition: bool) -> Telling:
    """Say whether this case tells anything."""
    return Telling(bool(condition))


class Violation(Exception):  # noqa: N818 - the field's word for what refutes a check
    """A claim of a check is false for a case."""

    def __init__(self, check: Lemma, case: Any, claim: Claim) -> None:
        super().__init__(f"{check.item}: {claim}")
        self.check, self.case, self.claim = check, case, claim


Body = Callable[[Target, Any], Iterator[Claim | Telling]]


@dataclass(frozen=True, eq=False)
class Lemma:
    """A statement of the paper as a check. Made by :func:`lemma`; called as ``check(target, case)``."""

    item: str
    says: str
    body: Body
    cases: Callable[[], SearchStrategy[Any]] | None
    domain: Callable[[str], Iterable[Any]] | None
    given: Callable[[Any], None]
    needs: tuple[str, ...]
    telling: str
    least_telling: Fraction
    evidence: Evidence
    refuted_by: tuple[str, ...]
    examples: Callable[[], Sequence[Any]]
    cost: int
    skip_reason: Callable[[], str | None]
    statement: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.body.__name__)
        object.__setattr__(self, "statement", " ".join((self.body.__doc__ or "").split()))
        if not self.statement:
            raise AuditError(f"{self.name} has no docstring: it is the statement")
        if (self.cases is None) == (self.domain is None):
            raise AuditError(f"{self.name} needs either cases to search or a domain to go through")
        if (self.domain is None) != (self.evidence not in {"proved", "exhaustive"}):
            raise AuditError(f"{self.name}: proved and exhaustive evidence goes through a domain, all other does not")

    @property
    def is_about_the_paper(self) -> bool:
        """Whether the statement is about numbers alone, so that no target is needed."""
        return not self.needs

    @property
    def is_about_sharp(self) -> bool:
        """Whether the statement is one of SHARP's (S1, S2, ... of ``SHARP.md``) and none of the paper's."""
        return self.item[0] == "S" and self.item[1].isdigit()

    def __call__(self, target: Target, case: Any) -> Iterator[Claim | Telling]:
        """The claims of the statement about one case, after its hypotheses have been asserted."""
        self.given(case)
        return self.body(target, case)

    def is_refuted_in(self, edition_name: str) -> bool:
        """Whether the errata say that the statement is false with the constants and rules of this edition."""
        return edition_name == "PRINTED" and "printed" in self.refuted_by


LEMMAS: dict[str, Lemma] = {}
"""Every check by name, in the order of definition."""


def _nothing_to_skip() -> None:
    return None


def lemma(
    item: str,
    says: str,
    *,
    cases: Callable[[], SearchStrategy[Any]] | None = None,
    domain: Callable[[str], Iterable[Any]] | None = None,
    given: Callable[[Any], None],
    needs: tuple[str, ...],
    telling: str,
    refuted_by: tuple[str, ...],
    least_telling: Fraction = Fraction(1, 2),
    evidence: Evidence = "sampled",
    examples: Callable[[], Sequence[Any]] = tuple,
    cost: int = 1,
    skip_reason: Callable[[], str | None] = _nothing_to_skip,
) -> Callable[[Body], Lemma]:
    """Make a check of a generator of claims.

    Parameters
    ----------
    item
        The number in the paper, such as "Lemma 28 (ii)".
    says
        What it says in a few words, for the table.
    cases
        A function that returns the Hypothesis strategy for cases that meet the hypotheses, for sampled evidence.
    domain
        A function from the profile's name to every case of a domain, for exhaustive and proved evidence: all are run.
    given
        Asserts the hypotheses of a case with :func:`require`; never filters.
    needs
        The functions that a target must have. None where the statement is about numbers alone: it runs once, without one.
    telling, least_telling
        What makes a case telling, in words, and the least share of such cases.
    refuted_by
        The faults that the check catches: "printed", or names of mutants. At least one.
    evidence
        The grade of what the check shows.
    examples
        A function that returns pinned cases, which run every time; pairs pinned in ``vectors/cases.json`` join them.
    cost
        How many plain cases one case of this check costs: divides the number of cases.
    skip_reason
        Why the check cannot run here (missing data), or None.
    """
    if not refuted_by:
        raise AuditError(f"{item}: a check that no fault refutes is not a check")

    def register(body: Body) -> Lemma:
        check = Lemma(
            item,
            says,
            body,
            cases,
            domain,
            given,
            needs,
            telling,
            least_telling,
            evidence,
            refuted_by,
            examples,
            cost,
            skip_reason,
        )
        if check.name in LEMMAS:
            raise AuditError(f"two checks are called {check.name}")
        LEMMAS[check.name] = check
        return check

    return register


def require(what: str, condition: bool) -> None:
    """Assert one hypothesis of a case: a case that does not meet it is a fault of its generator, never skipped."""
    if not condition:
        raise HypothesisBrokenError(f"the case does not meet the hypothesis: {what}")
