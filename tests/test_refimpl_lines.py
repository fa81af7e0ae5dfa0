"""The code follows the pseudocode: the numbers in ``# line n`` comments are the numbered lines of the docstring.

The rule. A docstring's pseudocode is its block after ``Pseudocode::``, and its numbered lines are those that begin with a
number. A comment ``# line n`` says that its code carries out line n; ``# departs from line n: why`` says that it does
something else in its place. Comments of a private helper (``_name``) belong to the first function of the file that calls it
and has pseudocode. Every numbered line is claimed, at least once, and no comment speaks of a line that there is not.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import refimpl

ROOM = Path(refimpl.__file__).parent
COMMENT = re.compile(r"# (line|departs from line) (\d+)(: \S.*)?(?=$|\s+#)")


def functions(source: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def numbered_lines(function: ast.FunctionDef) -> list[int]:
    _, found, block = (ast.get_docstring(function) or "").partition("Pseudocode::\n")
    if not found:
        return []
    indented = re.match(r"\n*((?: +.*\n|\n)+)", block + "\n")
    assert indented is not None
    return [int(number) for number in re.findall(r"^ {4}(\d+)  ", indented[1], re.MULTILINE)]


def comments(source: str, function: ast.FunctionDef) -> Iterator[tuple[str, int, str]]:
    """Yield (kind, number, reason) of every comment in the function that speaks of a line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and function.lineno <= token.start[0] <= (function.end_lineno or 0):
            yield from ((kind, int(number), reason) for kind, number, reason in COMMENT.findall(token.string))


def helpers(source: str) -> dict[str, str]:
    """For each private helper the function with pseudocode that calls it first."""
    found = functions(source)
    owners: dict[str, str] = {}
    for name, function in found.items():
        called = {
            node.func.id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for helper in called & {other for other in found if other.startswith("_")}:
            if numbered_lines(function):
                owners.setdefault(helper, name)
    return owners


def claims(source: str, name: str) -> list[tuple[str, int, str]]:
    found = functions(source)
    owned = [name, *(helper for helper, owner in helpers(source).items() if owner == name)]
    return [claim for function in owned for claim in comments(source, found[function])]


SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOM.glob("*.py"))}
WITH_PSEUDOCODE = [
    (file, name) for file, source in SOURCES.items() for name, f in functions(source).items() if numbered_lines(f)
]


def test_every_algorithm_of_the_paper_has_pseudocode() -> None:
    assert {name for _, name in WITH_PSEUDOCODE} == {
        "largest_good_subset",
        "stable_second_moment",
        "stable_covariance",
        "largest_core",
        "stable_mean",
        "stable_moments",
        "private_mean_given",
        "private_covariance_given",
        "private_gaussian_given",
        "_sharp_moments",
    }


@pytest.mark.parametrize(("file", "name"), WITH_PSEUDOCODE)
def test_code_claims_the_lines_of_its_pseudocode(file: str, name: str) -> None:
    lines = numbered_lines(functions(SOURCES[file])[name])
    assert lines == list(range(1, len(lines) + 1))
    found = claims(SOURCES[file], name)
    assert {number for _, number, _ in found} == set(lines)
    assert [claim for claim in found if claim[0] != "line" and not claim[2]] == []  # a departure says why
    assert [claim for claim in found if claim[0] == "line" and claim[2]] == []


def test_no_comment_is_nobodys() -> None:
    for file, source in SOURCES.items():
        everywhere = sum(len(COMMENT.findall(line)) for line in source.splitlines())
        assert everywhere == sum(len(claims(source, name)) for other, name in WITH_PSEUDOCODE if other == file)


def test_the_rule_has_teeth() -> None:
    source = textwrap.dedent(
        '''
        def f(x):
            """F.

            Pseudocode::

                1  a
                2  b

            More.
            """
            return _f(x)  # line 1

        def _f(x):
            return x  # departs from line 2: why not
        '''
    )
    assert numbered_lines(functions(source)["f"]) == [1, 2]
    assert claims(source, "f") == [("line", 1, ""), ("departs from line", 2, ": why not")]
    assert claims(source.replace("line 1\n", "line 3\n"), "f")[0] == ("line", 3, "")
