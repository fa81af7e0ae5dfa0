"""Error terms of the float filter, found in its source, and fastimpl with one of them too small.

A term is an occurrence, inside a function, of a unit roundoff, of a small power of two (2^-18 and below), of a safety factor
1 - 2^-46, of a call of an ``..._error`` function, of ``nextafter``, or, in arithmetic, of the error of a vector, of what it
loses to underflow or of the residual of a matrix. It is named by its function and by the product that it stands in, so that
names survive moves, and a new term has a new name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import pytest

MODULES = (
    "certified",
    "limits",
    "screen",
    "covariance",
    "mean",
    "moments",
    "private",
    "exact",
    "rows",
    "grams",
    "sums",
    "balls",
)
CONSTANTS = {"UNIT_ROUNDOFF", "_ROUNDING"}
SAFE = "_SAFE"
CARRIED = {"residual", "error", "gone_error", "underflow"}
_SMALL = 18


@dataclass(frozen=True)
class Term:
    """One place in the source: the function that it is in, by its path, and which of the terms there it is."""

    module: str
    path: tuple[str, ...]
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.module}.{'.'.join(self.path)}: {self.text}"


def _is_power(node: ast.AST) -> bool:
    """2.0 ** -k with a literal k of 18 or more."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Constant)):
        return False
    power = node.right
    negative = (
        isinstance(power, ast.UnaryOp) and isinstance(power.op, ast.USub) and isinstance(power.operand, ast.Constant)
    )
    return negative and power.operand.value >= _SMALL  # type: ignore[attr-defined]  # seen on the line before


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_term(node: ast.AST, above: ast.AST | None) -> bool:
    """``above`` is what the node stands in, one step up. A unit that something is divided by bounds nothing."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    if name in CARRIED:
        return isinstance(above, ast.BinOp) or (above is not None and _called(above) == "multiply")
    called = _called(node)
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div) and above.right is node:
        return name == SAFE
    return name in CONSTANTS or name == SAFE or _is_power(node) or called.endswith("_error") or called == "nextafter"


def _shrunk(node: ast.expr, factor: float) -> ast.expr:
    """The term times ``factor``; what is near 1 is brought nearer, and a neighbour (factor 0 only) is the number itself."""
    if isinstance(node, ast.Call) and _called(node) == "nextafter":
        return node.args[0]
    text = ast.unparse(node)
    near_one = getattr(node, "id", "") == SAFE
    changed = f"(1 - (1 - {text}) * {factor})" if near_one else f"({text} * {factor})"
    return ast.parse(changed, mode="eval").body


class _Walk(ast.NodeTransformer):
    """Numbers the terms of one function in the order of a depth-first walk, and multiplies some of them by factors."""

    def __init__(self, factors: Mapping[int, float]) -> None:
        self.texts: list[str] = []
        self._above: list[ast.AST] = []
        self._factors = factors

    def visit(self, node: ast.AST) -> Any:
        if _is_term(node, self._above[-1] if self._above else None):
            self.texts.append(ast.unparse(self._product(node)))
            if (factor := self._factors.get(len(self.texts) - 1)) is not None:
                return _shrunk(node, factor)  # type: ignore[arg-type]  # a term is an expression
            return node  # what is inside is no term of its own
        self._above.append(node)
        result = self.generic_visit(node)
        self._above.pop()
        return result

    def _product(self, node: ast.AST) -> ast.AST:
        for above in reversed(self._above):
            if not (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult | ast.Div | ast.Pow)):
                break
            node = above
        return node


@lru_cache
def _source(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(f"fastimpl.{module}")))


def _functions(
    tree: ast.Module | ast.ClassDef, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield (*path, node.name), node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*path, node.name))


@lru_cache
def terms() -> tuple[Term, ...]:
    """All terms, in the order of the source. Equal texts in one function are numbered."""
    found = []
    for module in MODULES:
        for path, function in _functions(_source(module)):
            walk = _Walk({})
            walk.visit(function)
            seen: Counter[str] = Counter()
            for number, text in enumerate(walk.texts):
                seen[text] += 1
                label = text if seen[text] == 1 else f"{text} #{seen[text]}"
                found.append(Term(module, path, number, label))
    return tuple(found)


def shrink(patch: pytest.MonkeyPatch, factors: Mapping[Term, float]) -> None:
    """From now on each of these terms is so many times as large."""
    numbers: dict[tuple[str, tuple[str, ...]], dict[int, float]] = {}
    for term, factor in factors.items():
        numbers.setdefault((term.module, term.path), {})[term.number] = factor
    for (name, path), those in numbers.items():
        module = importlib.import_module(f"fastimpl.{name}")
        function = ast.parse(ast.unparse(dict(_functions(_source(name)))[path])).body[0]
        changed = ast.fix_missing_locations(ast.Module([_Walk(those).visit(function)], []))
        space: dict[str, Any] = {}
        code = compile(changed, f"<{name}.{'.'.join(path)} with smaller terms>", "exec", dont_inherit=True)
        exec(code, vars(module), space)  # our own source, with numbers changed
        _put(patch, module, path, space[path[-1]])


def _put(patch: pytest.MonkeyPatch, module: ModuleType, path: tuple[str, ...], new: Any) -> None:
    if len(path) == 1:
        old = getattr(module, path[0])
        for name, other in list(sys.modules.items()):
            if name.split(".")[0] == "fastimpl" and getattr(other, path[0], None) is old:
                patch.setattr(other, path[0], new)
        return
    owner = module
    for name in path[:-1]:
        owner = getattr(owner, name)
    if hasattr(new, "__set_name__"):
        new.__set_name__(owner, path[-1])
    patch.setattr(owner, path[-1], new)
