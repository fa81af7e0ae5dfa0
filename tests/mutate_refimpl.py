"""``python tests/mutate_refimpl.py verdicts.jsonl``: every mutant of refimpl that cosmic-ray makes, against the tests.

Needs ``pip install cosmic-ray coverage`` besides the project with its extras; not a test, and no part of the test run: it takes
hours. A process collects the tests once, and forks a child for each mutant, which exchanges the code of the function
in question and runs the tests that reach the mutant's line, those first that have killed most. What is not in a function
(constants of a module, defaults, decorators) is run in a process that imports refimpl anew. A file of verdicts that is there
already is gone on with. ``--kept tests/mutants/verdicts.txt`` takes over what that file says of modules whose text is the same,
and writes it anew at the end.
"""

# ruff: noqa: PLC0415 - cosmic-ray and coverage are no dependencies, and a child imports anew what the parent must not

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    *("linalg", "reals", "definitions", "covariance", "mean", "ptr", "lines", "parameters", "private", "survivors"),
    *("moments", "plan", "plan_curves", "sharp", "sharp_parameters", "sharp_private", "curves", "greedy", "edges"),
)
# One arithmetic replacement for each operator, and nothing that changes type hints only.
EXCLUDED = re.compile(
    r"core/ReplaceBinaryOperator_(?!(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|FloorDiv_Div|Mod_Mul|Pow_Mul"
    r"|LShift_RShift|RShift_LShift)$)"
    r"|core/ReplaceComparisonOperator_(?!(Is_IsNot|IsNot_Is)$)(Is|IsNot)_"
    r"|core/ReplaceComparisonOperator_.*_(Is|IsNot)$(?<!_Is_IsNot)(?<!_IsNot_Is)"
    r"|core/ReplaceUnaryOperator_(?!(USub_UAdd|Delete_Not)$)"
)
KEY = tuple[str, int]  # of a function: its qualified name and its first line
OPTIMIZED = 1  # the flag of a function's code: those of modules and classes have it not


class Mutant(NamedTuple):
    """One change: the ``occurrence``-th place where an operator of cosmic-ray applies in a module of refimpl."""

    module: str
    operator: str
    occurrence: int
    line: int
    column: int
    end: int
    where: str

    @property
    def path(self) -> Path:
        return ROOT / "refimpl" / f"{self.module}.py"

    def source(self) -> str:
        """The text of the module with this change."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        text: str = mutate_code(self.path.read_text(), get_operator(self.operator)(), self.occurrence)
        return text


def mutants(module: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the text."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.ast.ast_query import ASTQuery
    from cosmic_ray.plugins import get_operator, operator_names

    tree = get_ast_from_path(ROOT / "refimpl" / f"{module}.py")
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if kind.arguments() or EXCLUDED.match(name):
            continue
        places = ((node, *place) for node in ast_nodes(tree) for place in kind().mutation_positions(node))
        for occurrence, (node, start, end) in enumerate(places):
            where = ASTQuery(node).get_definition_name() or ""
            yield Mutant(module, name, occurrence, start[0], start[1], end[1], where)


# What is kept of a run: a letter for each mutant ----------------------------------------------------------------------

KEPT = ROOT / "tests" / "mutants" / "verdicts.txt"
LETTERS = {"killed": "k", "hangs": "h", "survived": "s", "time is over": "s", "crash": "s", "undecided": "s"}
Verdicts = dict[tuple[str, str, int], str]


def digest(module: str) -> str:
    """Of the text of a module, which the places of its mutants belong to."""
    return hashlib.sha256((ROOT / "refimpl" / f"{module}.py").read_bytes()).hexdigest()[:12]


def read_kept(path: Path) -> tuple[Verdicts, dict[str, str]]:
    """A letter for each mutant (k killed, h does not end, s left standing, . not run), and the digest of each module then."""
    verdicts: Verdicts = {}
    digests: dict[str, str] = {}
    module = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith("refimpl."):
            name, _, digests[(module := name.removeprefix("refimpl."))] = line.partition(" ")
        else:
            operator, _, letters = line.strip().partition(" ")
            verdicts |= {(module, f"core/{operator}", i): letter for i, letter in enumerate(letters)}
    return verdicts, digests


def write_kept(path: Path, modules: Sequence[str], found: Verdicts) -> None:
    """Write the letters of these modules anew, as ``found`` says; others stay as they are."""
    kept, digests = read_kept(path)
    lines = []
    for module in sorted({*digests, *modules}):
        if module in modules:
            places = sorted((operator, i) for _, operator, i, *_ in mutants(module))
            letters = {(module, *place): found.get((module, *place), ".") for place in places}
            digests[module] = digest(module)
        else:
            letters = {key: letter for key, letter in kept.items() if key[0] == module}
        by_operator: dict[str, str] = {}
        for (_, operator, _), letter in letters.items():
            by_operator[operator] = by_operator.get(operator, "") + letter
        lines += [f"refimpl.{module} {digests[module]}"]
        lines += [f"  {operator.removeprefix('core/')} {word}" for operator, word in by_operator.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Exchanging code ------------------------------------------------------------------------------------------------------


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _bare(code: CodeType, *, functions: bool) -> CodeType:
    """Code without line tables, and without the functions in it if only what runs at import is asked for."""
    parts = []
    for part in code.co_consts:
        if not isinstance(part, CodeType):
            parts.append(part)
        elif functions or not part.co_flags & OPTIMIZED:
            parts.append(_bare(part, functions=functions))
    return code.replace(co_linetable=b"", co_consts=tuple(parts))


def _key(code: CodeType) -> KEY:
    return code.co_qualname, code.co_firstlineno


def exchange(mutant: Mutant, functions: Sequence[FunctionType]) -> bool:
    """Put the mutant's code into the functions that live; False if that does not do, since more than functions differ."""
    path = str(mutant.path)
    old = compile(mutant.path.read_text(), path, "exec")
    new = compile(mutant.source(), path, "exec")
    if _bare(old, functions=False) != _bare(new, functions=False):
        return False
    before = {_key(code): _bare(code, functions=True) for code in _codes(old) if code.co_flags & OPTIMIZED}
    after = {_key(code): code for code in _codes(new) if code.co_flags & OPTIMIZED}
    changed = {key for key, code in after.items() if before.get(key) != _bare(code, functions=True)}
    alive = [f for f in functions if f.__code__.co_filename == path]
    outer = {key for key in changed if "<locals>" not in key[0]}
    if not changed or not outer <= {_key(f.__code__) for f in alive}:
        return False
    for function in alive:
        if (key := _key(function.__code__)) in changed:
            function.__code__ = after[key]
    return True


class _Loader(importlib.abc.MetaPathFinder):
    """Gives one module of refimpl another text."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._path, self._text = f"refimpl.{mutant.module}", mutant.path, mutant.source()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002 - a signature of Python's
        if name != self._name:
            return None
        spec = importlib.util.spec_from_file_location(name, self._path)
        assert spec is not None
        assert spec.loader is not None
        vars(spec.loader)["get_code"] = lambda _: compile(self._text, str(self._path), "exec")
        return spec


# Running tests --------------------------------------------------------------------------------------------------------


def _profile(examples: int) -> None:
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=examples,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


def _failed(item: pytest.Item) -> bool:
    from _pytest.runner import runtestprotocol

    return any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))


def _quiet() -> None:
    with Path(os.devnull).open("w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)


def forked(job: Any) -> tuple[list[Any], int]:
    """Run job(say) in a child; what it said, and how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.close(reading)
            _quiet()
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            with os.fdopen(writing, "w") as pipe:
                job(lambda *words: print(json.dumps(words[0] if len(words) == 1 else words), file=pipe, flush=True))
            os._exit(0)
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = [json.loads(line) for line in pipe]
    return said, os.waitpid(child, 0)[1]


class Runner:
    """After collection: each test once in a child of its own, to see what it reaches, then one child for each mutant."""

    def __init__(self, todo: Sequence[Mutant], seconds: float, examples: int, out: Path) -> None:
        self._todo, self._seconds, self._examples, self._out = todo, seconds, examples, out
        self._kills: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        _profile(self._examples)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._items = {item.nodeid: item for item in items if not item.get_closest_marker("skip")}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool:
        self._freeze()
        self._took, self._lines = self._reach()
        print(f"{len(self._took)} tests, {sum(self._took.values()):.0f} s; {len(self._todo)} mutants", flush=True)
        for mutant in self._todo:
            self._run(mutant)
        return True

    def _freeze(self) -> None:
        """Children share what they do not write to."""
        gc.collect()
        everything = (f for f in gc.get_objects() if isinstance(f, FunctionType))
        inside = str(ROOT / "refimpl")
        self._functions = [f for f in everything if f.__code__.co_filename.startswith(inside)]
        gc.freeze()

    def _reach(self) -> tuple[dict[str, float], dict[str, dict[int, list[str]]]]:
        """How long the tests take, and which of them reach a line; kept beside the verdicts until a source changes."""
        sources = sorted([*(ROOT / "refimpl").glob("*.py"), *(ROOT / "tests").glob("*.py")])
        names = "\n".join(self._items).encode()
        digest = hashlib.sha256(names + b"".join(path.read_bytes() for path in sources)).hexdigest()
        kept = self._out.with_suffix(f".{digest[:8]}.reach")
        if not kept.exists():
            kept.write_text(json.dumps({name: self._reached(name) for name in self._items}))
        took: dict[str, float] = {}
        reach: dict[str, dict[int, list[str]]] = {}
        for name, (took[name], lines) in json.loads(kept.read_text()).items():
            for module, numbers in lines.items():
                for number in numbers:
                    reach.setdefault(module, {}).setdefault(number, []).append(name)
        return took, reach

    def _reached(self, name: str) -> list[Any]:
        """One test in a child of its own, as mutants meet it: nothing has been computed before."""

        def job(say: Any) -> None:
            import coverage

            watch = coverage.Coverage(data_file=None, config_file=False, include=[str(ROOT / "refimpl" / "*")])
            watch.set_option("run:disable_warnings", ["no-data-collected"])
            watch.start()
            start = time.process_time()
            failed = _failed(self._items[name])
            took = time.process_time() - start
            watch.stop()
            data = watch.get_data()
            say(failed, [took, {Path(file).stem: data.lines(file) for file in data.measured_files()}])

        said, status = forked(job)
        assert not status, f"{name} does not come to its end without a mutant"
        assert not said[0][0], f"{name} fails without a mutant"
        found: list[Any] = said[0][1]
        return found

    def _run(self, mutant: Mutant) -> None:
        # A statement is reached where its first line is, and a test may not fail at all without it.
        reach = self._lines.get(mutant.module, {})
        names = reach.get(mutant.line) or next(
            (reach[line] for line in range(mutant.line, mutant.line - 12, -1) if line in reach), []
        )
        order = sorted(names, key=lambda name: -(self._kills[name] + 0.3) / (self._took[name] + 0.02))
        said, status = forked(lambda say: self._try(mutant, order, say))
        verdict, test = "undecided", ""
        if said and said[-1][0] in {"module", "killed", "survived", "time is over"}:
            verdict, test = said[-1]
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
            verdict, test = "hangs", said[-1][1]
        elif said:
            verdict, test = "crash", said[-1][1]
        if verdict in {"killed", "hangs"}:
            self._kills[test] += 1
        _write(self._out, mutant, verdict, test)

    def _try(self, mutant: Mutant, order: Sequence[str], say: Any) -> None:
        if not exchange(mutant, self._functions):
            say("module", "")
            return
        started = time.process_time()
        for name in order:
            if time.process_time() - started > self._seconds or self._took[name] > 2 * self._seconds:
                say("time is over", name)
                return
            say("test", name)
            signal.setitimer(signal.ITIMER_PROF, 1 + 3 * self._took[name])
            if _failed(self._items[name]):
                signal.setitimer(signal.ITIMER_PROF, 0)
                say("killed", name)
                return
            signal.setitimer(signal.ITIMER_PROF, 0)
        say("survived", f"{len(order)} tests")


class _First:
    """Keeps the name of the first test that fails."""

    def __init__(self, say: Any, examples: int) -> None:
        self._say, self._examples = say, examples

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        _profile(self._examples)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._say("killed", report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._say("killed", report.nodeid)


def _anew(mutant: Mutant, seconds: float, examples: int, out: Path) -> None:
    """A mutant of what runs at import: all tests in a process that imports the changed module."""

    def job(say: Any) -> None:
        sys.meta_path.insert(0, _Loader(mutant))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        own = [f for f in FILES if f in {mutant.module, f"sharp_{mutant.module}"}]
        code = pytest.main(
            _arguments([*own, *(f for f in FILES if f not in own)], "-x"), plugins=[_First(say, examples)]
        )
        say("code", int(code))

    said, status = forked(job)
    killed = [words for words in said if words[0] == "killed"]
    verdict, test = ("killed", killed[0][1]) if killed else ("crash", str(status))
    if not killed and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        verdict, test = "time is over", ""
    elif not killed and said and said[-1][0] == "code":
        verdict, test = ("survived", "all tests") if said[-1][1] == 0 else ("killed", "at import")
    _write(out, mutant, verdict, test)


def _write(out: Path, mutant: Mutant, verdict: str, test: str) -> None:
    with out.open("a") as file:
        file.write(json.dumps({**mutant._asdict(), "verdict": verdict, "test": test}) + "\n")


def _arguments(files: Sequence[str], *more: str) -> list[str]:
    paths = (ROOT / "tests" / f"test_{prefix}{name}.py" for name in files for prefix in ("refimpl_", ""))
    return ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *more, *(str(path) for path in paths if path.exists())]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="JSON lines; what has a verdict there is not run again")
    parser.add_argument("--modules", default=",".join(sorted(p.stem for p in (ROOT / "refimpl").glob("[a-z]*.py"))))
    parser.add_argument("--seconds", type=float, default=4.0, help="processor time for a mutant")
    parser.add_argument("--examples", type=int, default=12, help="cases from hypothesis in a test")
    parser.add_argument("--share", default="0/1", help="i/n: the i-th of n parts of the shuffled mutants")
    parser.add_argument("--files", default=",".join(FILES), help="test_NAME.py or test_refimpl_NAME.py of these names")
    parser.add_argument("--again", action="store_true", help="run what was not killed again, with other --files")
    parser.add_argument("--functions", action="store_true", help="leave out what is not in a function")
    parser.add_argument("--kept", type=Path, help=f"file of letters, such as {KEPT.relative_to(ROOT)}")
    parser.add_argument("--list", action="store_true", help="say how many mutants there are")
    return parser.parse_args()


def _taken_over(path: Path | None) -> Verdicts:
    """Verdicts of a file of letters, on modules whose text is what it was."""
    kept, digests = read_kept(path) if path else ({}, {})
    words = {letter: word for word, letter in reversed(LETTERS.items())}
    return {key: words[letter] for key, letter in kept.items() if letter != "." and digests[key[0]] == digest(key[0])}


def _verdicts(path: Path) -> Verdicts:
    """The last verdict on each mutant in a file of verdicts."""
    rows = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return {(row["module"], row["operator"], row["occurrence"]): row["verdict"] for row in rows}


def main() -> None:
    """Run what has no verdict yet."""
    given = _parsed()
    modules = given.modules.split(",")
    known = {**_taken_over(given.kept), **_verdicts(given.out)}
    every = [mutant for module in modules for mutant in mutants(module)]
    if given.list:
        print(Counter(mutant.module for mutant in every), len(every))
        return
    random.Random(0).shuffle(every)
    part, parts = map(int, given.share.split("/"))
    every = every[part::parts]
    # The parent never imports refimpl, so that a child can do so with a changed text.
    open_ones = {None, *(("survived", "time is over") if given.again else ())}
    inside = [mutant for mutant in every if known.get(mutant[:3]) in open_ones]
    if inside:
        child = os.fork()
        if not child:
            pytest.main(
                _arguments(given.files.split(",")), plugins=[Runner(inside, given.seconds, given.examples, given.out)]
            )
            os._exit(0)
        os.waitpid(child, 0)
    known |= _verdicts(given.out)
    for mutant in every if not given.functions else ():
        if known.get(mutant[:3]) == "module":
            _anew(mutant, 10 * given.seconds, given.examples, given.out)
    if given.kept:
        known |= _verdicts(given.out)
        write_kept(given.kept, modules, {key: LETTERS.get(verdict, ".") for key, verdict in known.items()})


if __name__ == "__main__":
    main()
