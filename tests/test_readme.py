"""What README and CONTRIBUTING show is run, and what they promise is what CI does."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from fastimpl.__main__ import main
from proofs_checks.audit import LEMMAS
from proofs_checks.paper import markdown_map
from proofs_checks.realdata import missing_extra

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

needs_data = pytest.mark.skipif(missing_extra() is not None, reason=str(missing_extra()))


def without_noise(text: str) -> str:
    """Hide numbers with so many digits that they must be a release: a new one each time."""
    return re.sub(r"-?\d+\.\d{10,}", "(noisy)", text)


def run_console(example: Example) -> str | None:
    """Run the "$ bhs23-release ..." lines of a console block and compare what they print with what stands there."""
    printed = io.StringIO()
    for line in example.parsed.splitlines():
        if line.startswith("$ "):
            printed.write(f"{line}\n")
            name, *arguments = shlex.split(line[2:])
            assert name == "bhs23-release"
            with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
                main(arguments)
    shown, real = without_noise(example.parsed), without_noise(printed.getvalue())
    compact = [[line.rstrip() for line in text.splitlines() if line.strip()] for text in (shown, real)]
    return None if compact[0] == compact[1] else f"README shows\n{shown}\nand the command prints\n{printed.getvalue()}"


@pytest.fixture
def checks_as_they_were() -> Iterator[None]:
    """Forget the checks that an example defines."""
    before = dict(LEMMAS)
    yield
    LEMMAS.clear()
    LEMMAS.update(before)


@needs_data
@pytest.mark.usefixtures("checks_as_they_were")
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # bokeh_sampledata calls pandas in an old way
@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_the_code_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some examples write files
    parsers = [PythonCodeBlockParser(), CodeBlockParser("console", run_console)]
    examples = list(Sybil(parsers=parsers).parse(ROOT / name).examples())
    assert examples
    for example in examples:  # one test for all: later blocks use names of earlier ones
        example.evaluate()


def commands(text: str) -> list[str]:
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    first, second = commands(README)[:2]
    assert "pip install" in first
    assert first.endswith("bhs23-audit")
    assert "pytest" in second
    assert [line for line in script if line in {first, second}] == [first, second]
    assert not [line for line in script if ("pytest" in line or "pip install" in line) and line not in {first, second}]


def test_relative_links_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
        assert [target for target in targets if not (ROOT / target).exists()] == []
        anchors = {
            re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


def test_the_excerpt_of_the_table_is_of_real_checks() -> None:
    excerpt = README.split("## What the audit says")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (.+) \| (REPAIRED|PRINTED) \| (.+) \| (.+) \|$", excerpt, re.MULTILINE)
    assert {edition for _, _, edition, *_ in rows} == {"REPAIRED", "PRINTED"}
    said = {(check.item, check.says): check for check in LEMMAS.values()}
    for item, says, edition, *verdicts in rows:
        refuted = said[item, says].is_refuted_in(edition)
        assert verdicts == ["refuted, as the errata say" if refuted else "held"] * 2


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_map_is_that_of_the_ledger() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.split("a test compares -->\n")[1].split("<!-- end of map -->")[0]
    assert shown.strip() == markdown_map().strip(), "stale: put the output of `bhs23-audit paper --markdown` there"
