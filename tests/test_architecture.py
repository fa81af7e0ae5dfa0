"""The house stays as it was built: who imports whom, what lies where, what every public function says of itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SELF = "tests/test_architecture.py"
ROOMS = ("refimpl", "fastimpl", "proofs_checks")
TOP_LEVEL = {
    *ROOMS,
    "tests",
    "README.md",
    "CONTRIBUTING.md",
    "pyproject.toml",
    "LICENSE",
    "CITATION.cff",
    "CHANGELOG.md",
}
MAY_IMPORT = {
    "refimpl": r"refimpl(\.|$)",
    # Public and data-free modules only: comparing algorithms that share code would prove nothing.
    "fastimpl": r"fastimpl(\.|$)|refimpl\.(parameters|results|plan)$",
    # Every other implementation is reached by its name, as a target.
    "proofs_checks": r"(proofs_checks|refimpl)(\.|$)",
}


def tracked_files() -> list[str]:
    """Files that git knows, or would know after `git add --all`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in set(listed) if (ROOT / name).is_file())


FILES = tracked_files()
MODULES = [name for name in FILES if name.endswith(".py")]


def imports(name: str) -> Iterator[str]:
    """Yield the full names that a file imports, wherever the import stands."""
    package = name.removesuffix("/__init__.py").removesuffix(".py").split("/")
    if not name.endswith("__init__.py"):
        package.pop()
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            # "from refimpl import parameters" and "from refimpl.parameters import PRINTED" both name a module.
            yield from (f"{module}.{alias.name}" for alias in node.names) if module in ROOMS else (module,)


def test_there_is_something_to_look_at() -> None:
    assert {name.split("/")[0] for name in MODULES} >= {*ROOMS, "tests"}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room: str) -> None:
    found = {(name, module) for name in MODULES if name.startswith(f"{room}/") for module in imports(name)}
    ours = {pair for pair in found if pair[1].split(".")[0] in {*ROOMS, "tests"}}
    assert [pair for pair in sorted(ours) if not re.match(MAY_IMPORT[room], pair[1])] == []


def test_mpmath_has_one_home() -> None:
    shipped = [name for name in MODULES if not name.startswith("tests/")]
    homes = {name for name in shipped for module in imports(name) if module.split(".")[0] == "mpmath"}
    assert homes == {"refimpl/reals.py"}


def test_top_level_is_as_designed() -> None:
    top = {name.split("/")[0] for name in FILES}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_no_file_names_a_machine() -> None:
    # Written in pieces, so that this file does not hold what it looks for.
    places = "|".join(("wo" + "rk", "tm" + "p", "ro" + "ot", "ho" + "me", "Us" + "ers"))
    hosts = "|".join(("py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.", "deb" + r"ian\.org"))
    forbidden = re.compile(rf"(?<![\w.~])/({places})\b|\b(ses{''}sions?)\b|{hosts}", re.IGNORECASE)
    found = [
        f"{name}: {match.group()}"
        for name in FILES
        for match in forbidden.finditer((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert found == []


# What silences a tool, and the reason beside it: "noqa: N802 - the paper's capital", "type: ignore[misc]  # why".
SILENCER = re.compile(r"# (ruff: )?noqa|# type: ignore|# pragma: no cover|filter(warnings)?\(\s*\"ignore")
REASON = re.compile(r"(noqa: [A-Z0-9, ]+|ignore\[[\w, -]+\]|no cover|\):?) +[-#] *\w.{2,}")


def silencers_without_reason(text: str) -> list[str]:
    """Return the lines that silence a tool with no reason on the line or in a comment right above it."""
    lines = ["", *text.splitlines()]
    found = [(above, line, match.start()) for above, line in pairwise(lines) if (match := SILENCER.search(line))]
    return [
        line for above, line, start in found if not REASON.search(line, start) and not above.lstrip().startswith("# ")
    ]


def test_every_silencer_has_a_reason() -> None:
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in MODULES if name != SELF}
    assert {name: bad for name, text in texts.items() if (bad := silencers_without_reason(text))} == {}


def test_the_search_for_silencers_has_teeth() -> None:
    mute = "no" + "qa"  # ruff would take the word itself as a directive
    bare = f'x = 1  # {mute}\nx = 1  # {mute}: E501\nx = 1  # type: ignore[misc]\nsimplefilter("ignore")\n'
    assert len(silencers_without_reason(bare)) == 4
    told = f"x = 1  # {mute}: N802 - the paper's capital\nx = 1  # type: ignore[misc]  # no stubs for it\n"
    assert silencers_without_reason(told + '# told on the line above\nsimplefilter("ignore")') == []


def test_every_ignored_rule_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.findall(r"^ignore = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed
    assert [line for block in listed for line in block.splitlines() if not re.search(r"# \w+", line)] == []


def public_functions(room: str) -> dict[str, FunctionType]:
    package = importlib.import_module(room)
    exported = {name: getattr(package, name) for name in package.__all__}
    return {name: value for name, value in exported.items() if isinstance(value, FunctionType)}


@pytest.mark.parametrize("room", ["refimpl", "fastimpl"])
def test_every_public_function_says_whether_it_is_private(room: str) -> None:
    functions = public_functions(room)
    assert {"stable_covariance", "stable_mean", "private_mean", "ptr_pass_probability"} <= set(functions)
    assert [name for name, f in functions.items() if "Privacy" not in sections(f)] == []


def sections(function: FunctionType) -> set[str]:
    return set(re.findall(r"^(\w+)\n-+$", inspect.getdoc(function) or "", re.MULTILINE))


def silent_about(name: str, function: FunctionType) -> set[str]:
    """Sections and arguments that a docstring leaves out. It may refer to the arguments of another function."""
    text, arguments = inspect.getdoc(function) or "", set(inspect.signature(function).parameters)
    entries = re.findall(r"^(\w+(?:, \w+)*)\n {4}\S", text, re.MULTILINE)
    described = {word for entry in entries for word in entry.split(", ")}
    # The counter of decisions is a tool of ours and no statement's.
    due = set() if name == "audit_decisions" else {"Returns", "Raises", "References"}
    return due - sections(function) | (set() if "rguments " in text else arguments - described)


@pytest.mark.parametrize("room", ["refimpl", "fastimpl"])
def test_every_public_docstring_has_its_sections(room: str) -> None:
    found = {name: silent_about(name, function) for name, function in public_functions(room).items()}
    assert {name: silent for name, silent in found.items() if silent} == {}


def shape(function: FunctionType) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


def test_both_implementations_have_the_same_signatures() -> None:
    exact, fast = public_functions("refimpl"), public_functions("fastimpl")
    shared = set(exact) & set(fast)
    assert {"largest_good_subset", "stable_covariance", "largest_core", "stable_mean", "private_gaussian"} <= shared
    assert {name: shape(exact[name]) for name in shared} == {name: shape(fast[name]) for name in shared}
