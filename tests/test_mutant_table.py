"""The tables of tests/mutants/README.md are those of the code: each hand-written fault, and the checks that refute it.

And the table of cosmic-ray's mutants is that of the verdicts that were kept.

``python tests/test_mutant_table.py`` writes them anew.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mutants import MUTANTS as PAPER_MUTANTS
from mutants import SHARP_MUTANTS
from mutate_refimpl import KEPT, read_kept

from proofs_checks.audit import LEMMAS
from proofs_checks.identifiability import FAULTS
from proofs_checks.scalars import CONSTANT_MUTANTS
from proofs_checks.sharp_curves import SHARP_FAULTS

MUTANTS = PAPER_MUTANTS | SHARP_MUTANTS
README = Path(__file__).parent / "mutants" / "README.md"
TABLES, VERDICTS = "mutant tables", "verdicts"


def killers(fault: str) -> list[str]:
    """By name: the order in which modules register their checks depends on who imports them first."""
    return sorted(check.name for check in LEMMAS.values() if fault in check.refuted_by)


def killed_by(fault: str) -> str:
    return ", ".join(f"`{name}`" for name in killers(fault))


def tables() -> str:
    """Both tables, as they stand between the markers."""
    algorithms = [
        f"| `{name}` | {mutant.fault.replace('|', chr(92) + '|')} | {killed_by(name)} |"
        for name, mutant in MUTANTS.items()
    ]
    statements = [
        f"| {name.removeprefix('constant: ')} | {killed_by(name)} |"
        for name in [*FAULTS, *CONSTANT_MUTANTS, *SHARP_FAULTS]
    ]
    return "\n".join(
        [
            f"{len(MUTANTS)} faults of the algorithms:",
            "",
            "| name | fault | killed by |",
            "|---|---|---|",
            *algorithms,
            "",
            f"{len(statements)} faults of statements, for the checks that look at no implementation:",
            "",
            "| fault | killed by |",
            "|---|---|",
            *statements,
        ]
    )


def verdicts() -> str:
    """How many mutants of each module were killed, do not end, or were left standing."""
    letters: dict[str, Counter[str]] = {}
    for (module, _, _), letter in read_kept(KEPT)[0].items():
        letters.setdefault(module, Counter())[letter] += 1
    letters["all"] = sum(letters.values(), Counter())
    rows = [
        f"| {module} | {found.total()} | {found['k']} | {found['h']} | {found['s']} | {found['.']} |"
        for module, found in letters.items()
    ]
    head = "| module | mutants | killed | does not end | left standing | not run |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def split(text: str, what: str) -> tuple[str, str, str]:
    before, _, rest = text.partition(f"<!-- {what}: begin -->")
    table, _, after = rest.partition(f"<!-- {what}: end -->")
    return before, table.strip("\n"), after


def test_the_tables_are_not_stale() -> None:
    text = README.read_text(encoding="utf-8")
    for what, table in ((TABLES, tables()), (VERDICTS, verdicts())):
        assert split(text, what)[1] == table, f"write them anew: python tests/{Path(__file__).name}"


def test_every_fault_has_a_killer() -> None:
    assert [fault for fault in [*MUTANTS, *FAULTS, *CONSTANT_MUTANTS, *SHARP_FAULTS] if not killers(fault)] == []
    assert len(MUTANTS) >= 40


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for what, table in ((TABLES, tables()), (VERDICTS, verdicts())):
        before, _, after = split(text, what)
        text = f"{before}<!-- {what}: begin -->\n\n{table}\n\n<!-- {what}: end -->{after}"
    README.write_text(text, encoding="utf-8")
