"""Outcomes as JSON, for worker processes and for ``--state FILE``: what is finished is kept, and not run again.

An outcome is filed under everything that it depends on: the check, the target with its edition, rounding and the text of its
source, the profile and seed, this project's source, and the versions of Python and of the packages that compute. A run
with any of these changed finds nothing of its own in the file and starts afresh. What a target imports from elsewhere,
and what a program in another language is made of beyond the files that its command names, is not seen.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from proofs_checks.audit import Outcome, Tally
from proofs_checks.lemma import CASES, Lemma
from proofs_checks.stages import Departure
from proofs_checks.target import Target

__all__ = ["State", "case_from_json", "case_to_json", "outcome_from_json", "outcome_to_json"]

STATE_VERSION = 1
PACKAGES = ("numpy", "scipy", "mpmath", "python-flint", "hypothesis")
"""What takes part in computing a verdict."""


# An outcome -----------------------------------------------------------------------------------------------------------


def case_to_json(case: Any) -> dict[str, Any] | None:
    """A case with the name of its kind, or None."""
    return None if case is None else {"kind": type(case).__name__, **case.to_json()}


def case_from_json(data: dict[str, Any] | None) -> Any:
    """The case that :func:`case_to_json` wrote."""
    return None if data is None else CASES[data["kind"]].from_json({k: v for k, v in data.items() if k != "kind"})


def outcome_to_json(o: Outcome) -> dict[str, Any]:
    """Everything of an outcome but its check and target, as plain JSON values."""
    tally: dict[str, Any] = {"cases": o.tally.cases, "telling": o.tally.telling, "claims": o.tally.claims}
    tally["kinds"] = list(o.tally.kinds)
    if o.tally.tightest_claim is not None:
        tight = {"tightest": o.tally.tightest, "tightest_claim": str(o.tally.tightest_claim)}
        tally |= {**tight, "tightest_case": case_to_json(o.tally.tightest_case)}
    return {
        "verdict": o.verdict,
        "expected": o.expected,
        "tally": tally,
        "case": case_to_json(o.case),
        "claim": None if o.claim is None else str(o.claim),
        "note": o.note,
        "departure": None if o.departure is None else {**vars(o.departure), "unseen": list(o.departure.unseen)},
        "seconds": o.seconds,
    }


def outcome_from_json(check: Lemma, target: Target, data: dict[str, Any]) -> Outcome:
    """The outcome of a check on a target that :func:`outcome_to_json` wrote; its claims are text."""
    tally = dict(data["tally"])
    tally["kinds"] = tuple(tally.get("kinds", ()))
    if "tightest_case" in tally:
        tally["tightest_case"] = case_from_json(tally["tightest_case"])
    departure = data["departure"]
    if departure is not None:
        departure = Departure(**{**departure, "unseen": tuple(departure["unseen"])})
    case, claim, note = case_from_json(data["case"]), data["claim"], data["note"]
    verdict, expected = data["verdict"], data["expected"]
    return Outcome(check, target, verdict, expected, Tally(**tally), case, claim, note, departure, data["seconds"])


# What it depends on ---------------------------------------------------------------------------------------------------


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{package: _version(package) for package in ("bhs23", *PACKAGES)}}


def _digest(files: list[Path]) -> str:
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _source_of_module(name: str) -> list[Path]:
    """The files of a module, or of the whole package that it belongs to."""
    top = name.split(".", maxsplit=1)[0]
    found = importlib.util.find_spec(top)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if places:
        return [file for place in places for file in Path(place).rglob("*.py")]
    return [Path(found.origin)] if found is not None and found.origin and Path(found.origin).is_file() else []


@cache
def _our_source() -> str:
    rooms = ("refimpl", "proofs_checks")
    return _digest([file for room in rooms for file in _source_of_module(room)])


@cache
def _source_of(target: str) -> str:
    """A digest of the text of a target: of its package, or of the files that its command names."""
    files: list[Path] = []
    with suppress(ImportError, ValueError, OSError):
        if target.startswith("exec:"):
            words = shlex.split(target.removeprefix("exec:"))
            files = [Path(word) for word in words if Path(word).is_file()]
        else:
            files = _source_of_module(target.partition(":")[0])
    return _digest(files)


# The file -------------------------------------------------------------------------------------------------------------


class State:
    """Finished outcomes in a file. Every new one is written at once, and the file is replaced whole: it is never half there.

    Parameters
    ----------
    path
        The file; it need not exist.
    profile, seed
        Of the run.

    Raises
    ------
    ValueError
        If there is a file, and it is no state of this program.
    """

    def __init__(self, path: Path, profile: str, seed: int) -> None:
        self._path, self._run = path, {"profile": profile, "seed": seed, **_versions(), "source": _our_source()}
        self._outcomes: dict[str, dict[str, Any]] = dict(self._read())
        self.found = 0

    def _read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self._path.exists():
            return
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["schema"] != "bhs23-audit-state" or content["version"] != STATE_VERSION:
                raise ValueError(f"{content['schema']!r}, version {content['version']!r}")
            yield from ((str(key), dict(outcome)) for key, outcome in content["outcomes"].items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self._path} is no state of this program: {type(error).__name__} {error}") from error

    def _key(self, check: Lemma, target: Target) -> str:
        about = {"check": check.name, "target": target.name, "edition": target.edition.name}
        about |= {"rounding": str(target.rounding), "most_rows": str(target.most_rows)}
        if target.implementation is not None:
            about["target source"] = _source_of(target.name)
            about["target version"] = str(getattr(target.implementation, "version", ""))
        return json.dumps(self._run | about, sort_keys=True)

    def get(self, check: Lemma, target: Target) -> Outcome | None:
        """The outcome, if it is there for this very run."""
        data = self._outcomes.get(self._key(check, target))
        if data is None:
            return None
        self.found += 1
        return outcome_from_json(check, target, data)

    def put(self, outcome: Outcome) -> None:
        """Keep an outcome. One of which the audit itself broke is not finished, and is not kept."""
        if outcome.verdict == "broken":
            return
        self._outcomes[self._key(outcome.check, outcome.target)] = outcome_to_json(outcome)
        content = {"schema": "bhs23-audit-state", "version": STATE_VERSION, "outcomes": self._outcomes}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(f"{self._path.name}.partial")
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._path)
