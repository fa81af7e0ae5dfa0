"""A run of the audit as files that other programs read: JSON with a schema, JUnit, SARIF, Markdown, and a badge.

:func:`as_record` writes everything that a run found into plain JSON values, once; every other format, the page of
:mod:`proofs_checks.page` included, is a function of that record, so that no two of them can disagree.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from proofs_checks.apart import Apart, place_of
from proofs_checks.audit import Outcome
from proofs_checks.lemma import Lemma
from proofs_checks.target import Target

__all__ = [
    "FAIL_ON",
    "LEGEND",
    "SCHEMA_VERSION",
    "WRITERS",
    "as_badge",
    "as_junit",
    "as_markdown",
    "as_record",
    "as_sarif",
    "baseline_failures",
    "failure_kind",
    "failures",
    "parse_fail_on",
    "record_schema",
    "summary",
    "tool_version",
    "verdict_words",
    "write",
]

SCHEMA_VERSION = 1
"""Grows when a reader of the record would have to change; new optional keys do not count."""

FAIL_ON = ("refuted", "raised", "not-provided")
"""What can make a run fail. "refuted" includes a known error of the paper that was, for once, not refuted."""

LEGEND = (
    "held: not refuted by the cases examined, no more. telling/cases: cases that could have refuted, of all examined. "
    "tightest: largest left/right of an inequality seen, 1 is attained; or what was decided: sets, equalities, signs, yes/no."
)

Record = Mapping[str, Any]
Entry = Mapping[str, Any]

_INFORMATION = "https://arxiv.org/abs/2301.12250"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# The record -----------------------------------------------------------------------------------------------------------


def tool_version() -> str:
    """The version of this distribution."""
    try:
        return version("bhs23")
    except PackageNotFoundError:
        return "not installed"


def _case_of(case: Any) -> dict[str, Any] | None:
    """A case as it is saved, and as Python to be pasted."""
    if case is None:
        return None
    return {"kind": type(case).__name__, **case.to_json()}


def as_record(outcomes: Sequence[Outcome], *, profile: str, seed: int, complete: bool = True) -> dict[str, Any]:
    """The whole run as plain JSON values, as ``schemas/report.schema.json`` describes them.

    Parameters
    ----------
    outcomes
        What was found, in order.
    profile, seed
        How much was run, and from which seed.
    complete
        False if the run was interrupted, so that some outcomes are missing.
    """
    return {
        "schema": "bhs23-audit-report",
        "schema_version": SCHEMA_VERSION,
        "bhs23": tool_version(),
        "profile": profile,
        "seed": seed,
        "complete": complete,
        "outcomes": [{key: _readable(value) for key, value in _entry(outcome).items()} for outcome in outcomes],
    }


def _readable(value: Any) -> Any:
    """Text without the characters that XML and UTF-8 cannot hold, which a target's own messages may bring."""
    return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value


def _entry(o: Outcome) -> dict[str, Any]:
    return {
        "id": f"{o.check.name}/{o.target.name}/{o.target.edition.name}",
        "check": o.check.name,
        "statement": o.check.item,
        "says": o.check.says,
        "text": o.check.statement,
        "target": o.target.name,
        "edition": o.target.edition.name,
        "rounding": str(o.target.rounding),
        "evidence": o.check.evidence,
        "cases": o.tally.cases,
        "telling": o.tally.telling,
        "claims": o.tally.claims,
        "tightest": o.tally.tightest if math.isfinite(o.tally.tightest) else None,
        "shows": o.tally.shows,
        "tightest_claim": str(o.tally.tightest_claim) if o.tally.tightest_claim else None,
        "tightest_case": o.tally.tightest_case.paste() if o.tally.tightest_case is not None else None,
        "verdict": o.verdict,
        "expected": o.expected,
        "as_expected": o.is_as_expected,
        "claim": str(o.claim) if o.claim else None,
        "case": _case_of(o.case),
        "paste": o.case.paste() if o.case is not None else None,
        "note": o.note,
        "departs_at": _departure(o),
        "seconds": round(o.seconds, 3),
        "source": _source(o.check, o.target),
    }


def _departure(o: Outcome) -> dict[str, Any] | None:
    """Where the target first departs from refimpl, with the difference in the words of a report."""
    if o.departure is None:
        return None
    d = o.departure
    return {
        "stage": d.stage,
        "part": d.part,
        "what": _readable(d.what),
        "not_offered": list(d.unseen),
        "text": _readable(str(d)),
    }


def _source(check: Lemma, target: Target) -> dict[str, Any] | None:
    """Where the target's own code for a statement begins; the check's, where the statement needs no target."""
    if target.implementation is None:
        return _place(check.body)
    if program := _program(target.name):
        return {"file": _relative(program), "line": 1}
    if isinstance(target.implementation, Apart):
        return _relative_place(target.implementation.place(check.needs))
    functions = (getattr(target.implementation, name, None) for name in check.needs)
    found = (_place(thing) for thing in (*functions, target.implementation, type(target.implementation)))
    return next(filter(None, found), None)


def _program(name: str) -> Path | None:
    """The file of an adapter in another language: the first word of its command that is a file below this folder."""
    try:
        words = shlex.split(name.removeprefix("exec:"))
    except ValueError:  # no command line
        return None
    files = [word for word in words if len(word) < 256 and "\0" not in word and Path(word).is_file()]
    below = [Path(word) for word in files if Path(word).resolve().is_relative_to(Path.cwd().resolve())]
    return below[0] if below else None


def _place(thing: Any) -> dict[str, Any] | None:
    return _relative_place(place_of(thing))


def _relative_place(place: tuple[str, int] | None) -> dict[str, Any] | None:
    return None if place is None else {"file": _relative(Path(place[0])), "line": place[1]}


def _relative(file: Path) -> str:
    """A path as a repository knows it: from here if the file is below, else from the top of its package."""
    file, here = file.resolve(), Path.cwd().resolve()
    if file.is_relative_to(here):
        return file.relative_to(here).as_posix()
    top = file.parent
    while (top / "__init__.py").exists():
        top = top.parent
    return file.relative_to(top).as_posix()


@cache
def record_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of :func:`as_record`. Read once and shared: do not change it."""
    text = resources.files("proofs_checks").joinpath("schemas", "report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


# Failures -------------------------------------------------------------------------------------------------------------


def failure_kind(entry: Entry) -> str | None:
    """As what an outcome can fail, a word of :data:`FAIL_ON`, or None. That the audit itself broke is no word of it."""
    if entry["verdict"] == "not provided":
        return "not-provided"
    if entry["as_expected"] or entry["verdict"] == "broken":
        return None
    return "raised" if entry["verdict"] == "raised" else "refuted"


def parse_fail_on(words: Iterable[str]) -> frozenset[str]:
    """The words of ``--fail-on``, given one by one or with commas; "none" alone is the empty set.

    Raises
    ------
    ValueError
        For a word that is none of :data:`FAIL_ON`.
    """
    given = [word.strip() for text in words for word in text.split(",")] or ["refuted", "raised"]
    if given == ["none"]:
        return frozenset()
    unknown = [word for word in given if word not in FAIL_ON]
    if unknown:
        raise ValueError(f"--fail-on takes {', '.join(FAIL_ON)}, or none alone; got {unknown[0]!r}")
    return frozenset(given)


def failures(
    record: Record, fail_on: frozenset[str], known: frozenset[tuple[str, str]] = frozenset()
) -> list[dict[str, Any]]:
    """The outcomes that make the run fail: of a kind in ``fail_on``, and not among the ``known`` ones of a baseline."""
    kinds = ((entry, failure_kind(entry)) for entry in record["outcomes"])
    return [entry for entry, kind in kinds if kind in fail_on and (entry["id"], kind) not in known]


def baseline_failures(file: Path) -> frozenset[tuple[str, str]]:
    """What failed, and how, in a run whose JSON was kept: a refutation that used to be a crash is new.

    Raises
    ------
    ValueError
        If the file cannot be read or is no such JSON.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["schema"] != "bhs23-audit-report" or record["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema version {record['schema_version']!r}, this program reads {SCHEMA_VERSION}")
        return frozenset((entry["id"], kind) for entry in record["outcomes"] if (kind := failure_kind(entry)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not a baseline made by --json: {type(error).__name__} {error}") from error


def verdict_words(entry: Entry) -> str:
    """The verdict in words that claim no more than was found."""
    verdict, expected = entry["verdict"], entry["expected"]
    if verdict == "refuted" and expected == "refuted":
        return "refuted, as the errata say"
    if verdict == "held" and expected == "refuted":
        return "NOT REFUTED, against the errata"
    if verdict in {"not provided", "not run"}:
        return f"{verdict}: {entry['note']}"
    if verdict == "broken":
        return "NO VERDICT, the audit broke"
    if entry["as_expected"]:
        return str(verdict)
    return str(verdict).upper() + (f", departs at: {entry['departs_at']['stage']}" if entry["departs_at"] else "")


def summary(record: Record) -> str:
    """The run in one line."""
    entries = record["outcomes"]
    held = sum(e["verdict"] == "held" and e["as_expected"] for e in entries)
    refuted = sum(e["verdict"] == "refuted" and e["as_expected"] for e in entries)
    broken = sum(e["verdict"] == "broken" for e in entries)
    wrong = sum(not e["as_expected"] for e in entries) - broken
    absent = sum(e["verdict"] in {"not provided", "not run"} for e in entries)
    parts = [f"{held} held", f"{refuted} refuted as the errata say", f"{wrong} not as it should be"]
    parts += [f"{absent} not provided or not run"] if absent else []
    parts += [f"{broken} without a verdict since the audit broke"] if broken else []
    return ", ".join(parts) + ("" if record["complete"] else "; interrupted, so that outcomes are missing")


def _finding(entry: Entry) -> str:
    """What went wrong, in one line."""
    if entry["verdict"] == "broken":
        return f"{entry['statement']}: {entry['note'].splitlines()[0]}"
    if entry["verdict"] == "held":
        return f"{entry['statement']}: known to be false as printed, and not refuted"
    found = f"the target raised {entry['note']}" if entry["verdict"] == "raised" else f"refuted. {entry['claim']}"
    return f"{entry['statement']}: {found}{_departure_words(entry)}"


def _departure_words(entry: Entry) -> str:
    """Where the target first departs from refimpl, as a sentence with a space before it; nothing where that is unknown."""
    return f" First departure from refimpl: {entry['departs_at']['text']}." if entry["departs_at"] else ""


# JUnit ----------------------------------------------------------------------------------------------------------------


def _groups(record: Record) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in record["outcomes"]:
        groups.setdefault((entry["target"], entry["edition"]), []).append(entry)
    return groups


def as_junit(record: Record) -> str:
    """JUnit XML: a suite for each target and edition, a test case for each statement.

    What was refuted is a failure, what raised is an error, what was not provided or not run is skipped. A known error of
    the paper that was refuted has passed, and says so in ``system-out``.
    """
    root = ET.Element("testsuites", name="bhs23-audit")
    for (target, edition), entries in _groups(record).items():
        counts = Counter(_junit_result(entry) for entry in entries)
        suite = ET.SubElement(root, "testsuite", name=f"{target}, {edition}", tests=str(len(entries)))
        suite.set("time", f"{sum(entry['seconds'] for entry in entries):.3f}")
        for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(plural, str(counts[tag]))
        properties = ET.SubElement(suite, "properties")
        for name in ("bhs23", "profile", "seed", "complete"):
            ET.SubElement(properties, "property", name=name, value=str(record[name]))
        for entry in entries:
            _junit_case(suite, entry)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_result(entry: Entry) -> str:
    if entry["verdict"] in {"not provided", "not run"}:
        return "skipped"
    if entry["as_expected"]:
        return ""
    return "error" if entry["verdict"] in {"raised", "broken"} else "failure"


def _junit_case(suite: ET.Element, entry: Entry) -> None:
    name = f"{entry['target']}.{entry['edition']}"
    case = ET.SubElement(suite, "testcase", classname=name, name=entry["check"], time=f"{entry['seconds']:.3f}")
    if entry["source"]:
        case.set("file", entry["source"]["file"])
        case.set("line", str(entry["source"]["line"]))
    result = _junit_result(entry)
    if result == "skipped":
        ET.SubElement(case, "skipped", message=verdict_words(entry))
    elif result:
        problem = ET.SubElement(case, result, message=_finding(entry), type=entry["verdict"])
        problem.text = f"{entry['text']}\n\n{entry['paste'] or ''}\n"
    elif entry["verdict"] == "refuted":
        ET.SubElement(case, "system-out").text = f"{verdict_words(entry)}: {entry['claim']}"


# SARIF ----------------------------------------------------------------------------------------------------------------


def as_sarif(record: Record) -> str:
    """SARIF 2.1.0: a rule for each statement, a result for each outcome that is not as it should be, at the target's file.

    A known error of the paper that was refuted is a notification of the run and no result: it is nothing for the owner of
    the target to repair, and code scanning would make an alert of it.
    """
    entries = record["outcomes"]
    rules = list({entry["check"]: entry for entry in entries}.values())
    numbers = {entry["check"]: number for number, entry in enumerate(rules)}
    broken = [entry for entry in entries if entry["verdict"] == "broken"]
    wrong = [entry for entry in entries if not entry["as_expected"] and entry not in broken]
    known = [entry for entry in entries if entry["as_expected"] and entry["verdict"] == "refuted"]
    driver = {
        "name": "bhs23-audit",
        "informationUri": _INFORMATION,
        "rules": [_sarif_rule(entry) for entry in rules],
    }
    if re.match(r"\d", record["bhs23"]):
        driver["version"] = record["bhs23"]
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": record["complete"] and not broken,
                "toolExecutionNotifications": [_sarif_notification(entry, numbers) for entry in (*known, *broken)],
            }
        ],
        "results": [_sarif_result(entry, numbers) for entry in wrong],
        "columnKind": "unicodeCodePoints",
        "properties": {name: record[name] for name in ("profile", "seed", "complete")},
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1) + "\n"


def _sarif_rule(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry["check"],
        "name": "".join(word.capitalize() for word in entry["check"].split("_")),
        "shortDescription": {"text": f"{entry['statement']}: {entry['says']}"},
        "fullDescription": {"text": entry["text"]},
        "defaultConfiguration": {"level": "error"},
        "properties": {"evidence": entry["evidence"]},
    }


def _sarif_locations(entry: Entry) -> list[dict[str, Any]]:
    if not entry["source"]:
        return []
    place = {
        "artifactLocation": {"uri": entry["source"]["file"], "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": entry["source"]["line"]},
    }
    return [{"physicalLocation": place}]


def _sarif_result(entry: Entry, numbers: Mapping[str, int]) -> dict[str, Any]:
    paste = f"\n\nThe case:\n{entry['paste']}" if entry["paste"] else ""
    return {
        "ruleId": entry["check"],
        "ruleIndex": numbers[entry["check"]],
        "level": "error",
        "message": {"text": f"{_finding(entry)} ({entry['target']}, {entry['edition']}){paste}"},
        "locations": _sarif_locations(entry),
        "partialFingerprints": {"bhs23Outcome/v1": entry["id"]},
        "properties": {
            name: entry[name] for name in ("target", "edition", "verdict", "evidence", "rounding", "departs_at")
        },
    }


def _sarif_notification(entry: Entry, numbers: Mapping[str, int]) -> dict[str, Any]:
    found = entry["note"] if entry["verdict"] == "broken" else entry["claim"]
    return {
        "associatedRule": {"id": entry["check"], "index": numbers[entry["check"]]},
        "level": "error" if entry["verdict"] == "broken" else "note",
        "message": {"text": f"{entry['statement']} ({entry['edition']}): {verdict_words(entry)}. {found}"},
    }


# Markdown -------------------------------------------------------------------------------------------------------------


def _cell(text: str) -> str:
    """Text of strangers in a cell of a table: one line, and nothing in it is markup."""
    text = " ".join(text.split())
    return re.sub(r"([\\|`*_\[\]~#$!])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{text}\n{fence}"


def as_markdown(record: Record) -> str:
    """Markdown for a pull request or a step summary: what went wrong first, then the table."""
    lines = ["# bhs23 audit", "", f"**{_cell(summary(record))}**", ""]
    lines += [f"bhs23 {_cell(record['bhs23'])}, profile {_cell(record['profile'])}, seed {record['seed']}", ""]
    for entry in record["outcomes"]:
        if not entry["as_expected"]:
            lines += _markdown_finding(entry)
    lines += ["| statement | what it says | target | edition | evidence | telling/cases | tightest | verdict |"]
    lines += ["|---|---|---|---|---|--:|--:|---|", *(_markdown_row(entry) for entry in record["outcomes"]), ""]
    return "\n".join([*lines, LEGEND, ""])


def _markdown_finding(entry: Entry) -> list[str]:
    title = f"## {_cell(entry['statement'])} on {_cell(entry['target'])}, {entry['edition']}: {entry['verdict']}"
    lines = [title, "", _cell(entry["text"]), "", _cell(_finding(entry)), ""]
    return [*lines, _fenced(entry["paste"]), ""] if entry["paste"] else lines


def _markdown_row(entry: Entry) -> str:
    tally = f"{entry['telling']}/{entry['cases']}" if entry["cases"] else ""
    texts = [entry[name] for name in ("statement", "says", "target", "edition", "evidence")]
    cells = [*texts, tally, entry["shows"], verdict_words(entry)]
    return f"| {' | '.join(map(_cell, cells))} |"


# Badge and writing ----------------------------------------------------------------------------------------------------


def as_badge(record: Record) -> str:
    """A file for a shields endpoint badge. Only what is about targets counts, not the paper on its own."""
    entries = [entry for entry in record["outcomes"] if entry["expected"] == "held" or not entry["as_expected"]]
    broken = [entry for entry in entries if entry["verdict"] == "broken"]
    wrong = sum(not entry["as_expected"] for entry in entries) - len(broken)
    held = sum(entry["verdict"] == "held" and entry["as_expected"] for entry in entries)
    message = f"{wrong} of {wrong + held} statements not held" if wrong else f"{held} statements held"
    message += f", {len(broken)} without a verdict" if broken else ""
    message += "" if record["complete"] else ", interrupted"
    color = "red" if wrong else "brightgreen" if held and record["complete"] and not broken else "lightgrey"
    badge = {"schemaVersion": 1, "label": "bhs23 audit", "message": message, "color": color, "isError": bool(wrong)}
    return json.dumps(badge) + "\n"


def as_json(record: Record) -> str:
    """The record itself."""
    return json.dumps(record, indent=1) + "\n"


def _as_html(record: Record) -> str:
    from proofs_checks.page import as_html  # noqa: PLC0415 - the page computes pictures: only where one is asked for

    return as_html(record)


WRITERS: dict[str, Callable[[Record], str]] = {
    "json": as_json,
    "junit": as_junit,
    "sarif": as_sarif,
    "markdown": as_markdown,
    "html": _as_html,
    "badge": as_badge,
}
"""Every format by name."""


def write(record: Record, files: Mapping[str, Path | None]) -> Iterator[Path]:
    """Write the record in every format that has a file; folders are made; yields each file that was written.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    for name, file in files.items():
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(WRITERS[name](record), encoding="utf-8")
            yield file
