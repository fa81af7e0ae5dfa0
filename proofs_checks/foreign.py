"""Targets in any language: a program spoken to over its standard input and output, one JSON object a line.

The auditor writes a request and waits for one line; standard error is the adapter's own (its end is shown if it crashes)::

    {"op": "hello", "protocol": 2}
    {"ok": true, "protocol": 2, "name": "mine", "version": "1.0", "functions": ["stable_mean"], "rounding": "1/1099511627776"}
    {"op": "run", "id": 1, "function": "largest_good_subset", "arguments": {"y": [["0x1.8p+1"]], "lam": "3/2"}}
    {"id": 1, "ok": true, "result": [0]}
    {"id": 2, "ok": false, "error": "why not"}
    {"op": "stop"}

``functions`` lists what there is; the rest is "not provided". Optional in the hello: ``rounding`` ("p/q"), ``most_rows`` and
``float_ties`` (true: exact ties among the test vectors may go either way).

Numbers. Data are lists of rows of C99 hexadecimal floats ("0x1.8p+1"); exact numbers are strings "p/q" or "p". An answer may
use either, or JSON numbers. Row indices are 0-based. Arguments are named as in :class:`proofs_checks.target.Implementation`:

- ``y``, ``x``, ``x_prime``: rows. ``lambda_0``, ``lam``, ``epsilon``, ``delta``, ``growth``, ``noise_scale``: "p/q". ``k``,
  ``tau``, ``score``, ``window``, ``n``, ``d``, ``samples``: integers. ``reference``, ``subset``: list of indices; ``reference``
  is null in SHARP. ``weights``, ``mean``: list of "p/q". ``edition``: "REPAIRED", "PRINTED" or "SHARP".
- ``covariance``: ``{"matrix": rows}``, or ``{"result": R}`` with R what this very adapter answered to ``stable_covariance``.
- ``parameters`` (``private_*_given``): n, d, k, and reference_size or samples as integers, epsilon, delta, lambda_0,
  test_epsilon, test_delta, and noise_scale as "p/q", edition; in SHARP window and pass_probabilities too. Of
  ``private_gaussian_given``: mean and covariance, such records both. ``coins``: test (U's first 256 bits, a hexadecimal
  integer), seed (hexadecimal, of the bits beyond); of the mean reference and normals; of the covariance factor, the lower
  triangular A with A A^T the sum of squares of the draws, or normals, the draws themselves. Both are to be taken exactly as
  they stand. Of ``private_gaussian_given``: mean and covariance.
- ``private_mean`` and its like: x, epsilon, delta, lambda_0, edition, and ``seed``: 64 hexadecimal digits, or null (unseeded).

Results: a set of rows is a list of indices. ``stable_*``: an object with ``score``, ``weights``, ``covariance`` or ``mean``,
and ``entry_level`` (list) or ``sets`` (a list of indices for each level); ``stable_moments`` has both numbers, null where the
score is k. Laws: a number. ``private_mean`` and ``private_mean_given``: ``{"mean": [..]}``, or null for FAIL; the functions of
covariance and of both likewise. ``is_*``: true or false. ``gaussian_release``: a list of numbers; ``wishart_release``: rows.
``mean_parameters`` and ``covariance_parameters``: an object with ``k``, ``least_n``, ``passes_gates`` (true or false), and
``reference_size`` and ``noise_scale``, or ``samples``.

Version 1 of the protocol lacks ``private_covariance_given``, ``private_gaussian_given``, the parameters, the releases and
``is_*``; a program may still answer ``"protocol": 1``.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from types import SimpleNamespace
from typing import IO, Any, Self

import numpy as np
from flint import fmpq, fmpq_mat

from proofs_checks.target import Target
from refimpl.parameters import REPAIRED, Edition

__all__ = [
    "FUNCTIONS",
    "PROTOCOL",
    "ForeignCrashError",
    "ForeignError",
    "ForeignGarbageError",
    "ForeignHangError",
    "ForeignRefusalError",
    "ForeignTarget",
    "foreign_target",
    "new_adapter",
]

PROTOCOL = 2
SPOKEN = {1, PROTOCOL}
"""Version 1 is the same with fewer functions."""
LONGEST_LINE = 1 << 28
MOST_HANGS = 3

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "largest_good_subset": ("y", "lam"),
    "stable_second_moment": ("y", "lambda_0", "k"),
    "stable_covariance": ("x", "lambda_0", "k"),
    "largest_core": ("x", "covariance", "lam", "tau", "reference"),
    "stable_mean": ("x", "covariance", "lambda_0", "k", "reference"),
    "stable_moments": ("x", "lambda_0", "k", "window"),
    "ptr_pass_probability": ("score", "epsilon", "delta"),
    "ptr_pass_probability_at_growth": ("score", "growth", "delta"),
    "mean_parameters": ("n", "d"),
    "covariance_parameters": ("n", "d"),
    "gaussian_release": ("mean", "covariance", "noise_scale", "normals"),
    "wishart_release": ("covariance", "samples", "normals"),
    "private_mean_given": ("x", "parameters", "coins"),
    "private_covariance_given": ("x", "parameters", "coins"),
    "private_gaussian_given": ("x", "parameters", "coins"),
    "is_good_subset": ("y", "subset", "lam"),
    "is_good_weighting": ("y", "weights", "lam"),
    "is_weighted_core": ("x", "weights", "tau", "lam", "covariance", "reference"),
    "is_degree_representative": ("x", "covariance", "lambda_0", "k", "reference"),
    "is_well_concentrated": ("x", "lambda_0"),
    "is_adjacent": ("x", "x_prime"),
    "private_mean": ("x",),
    "private_covariance": ("x",),
    "private_gaussian": ("x",),
}
"""Every function that an adapter may have, with its positional arguments."""


class ForeignError(Exception):
    """A foreign target did not answer a request; the audit reports it and goes on."""


class ForeignCrashError(ForeignError):
    """The program ended, or could not be started."""


class ForeignHangError(ForeignError):
    """The program did not answer within the time limit and was killed."""


class ForeignGarbageError(ForeignError):
    """The program answered with something that is not an answer of the protocol."""


class ForeignRefusalError(ForeignError):
    """The program answered that it could not do it."""


# Values ---------------------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A number, array, set, coin or record as JSON values of the protocol."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        plain = value.tolist() if hasattr(value, "tolist") else value
        return [encode(v) for v in (sorted(plain) if isinstance(plain, set | frozenset) else plain)]
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, np.integer):
        return int(value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, Edition):
        return value.name
    return str(value) if isinstance(value, Fraction) or hasattr(value, "p") else value  # flint's rationals have p and q


def _encode_covariance(value: Any) -> Any:
    answer = getattr(value, "answer", None)
    if answer is not None:
        return {"result": answer}
    return {"matrix": encode(np.asarray(getattr(value, "covariance", value), dtype=np.float64))}


def _encode_parameters(p: Any) -> dict[str, Any]:
    if hasattr(p, "covariance"):
        return {"mean": _encode_parameters(p.mean), "covariance": _encode_parameters(p.covariance)}
    own = ("reference_size",) if hasattr(p, "reference_size") else ("samples",)
    whole = {name: int(getattr(p, name)) for name in ("n", "d", "k", *own)}
    exact = ("epsilon", "delta", "lambda_0", "test_epsilon", "test_delta", "noise_scale")
    found: dict[str, Any] = {name: str(getattr(p, name)) for name in exact if hasattr(p, name)}
    found = {**whole, **found, "edition": p.edition.name}
    if p.window is not None:
        found |= {"window": int(p.window), "pass_probabilities": [str(v) for v in p.pass_probabilities]}
    return found


def _encode_coins(coins: Any) -> dict[str, Any]:
    if hasattr(coins, "covariance"):
        return {"mean": _encode_coins(coins.mean), "covariance": _encode_coins(coins.covariance)}
    normals = np.asarray(coins.normals, dtype=np.float64)
    test: dict[str, Any] = {"test": hex(coins.test.bits), "seed": coins.test.seed.hex()}
    if hasattr(coins, "reference"):
        return {**test, "reference": encode(coins.reference), "normals": encode(normals)}
    rows, columns = normals.shape
    return {**test, "factor" if rows == columns else "normals": encode(normals)}


def _encode_rows(x: Any) -> Any:
    return encode(np.asarray(x, dtype=np.float64))


def _encode_rational(value: Any) -> str:
    return str(Fraction(value))


ENCODERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("x", "x_prime", "y"), _encode_rows),
    "covariance": _encode_covariance,
    "parameters": _encode_parameters,
    "coins": _encode_coins,
    **dict.fromkeys(("lambda_0", "lam", "epsilon", "delta", "growth", "noise_scale"), _encode_rational),
}


def _number(value: Any) -> float | Fraction:
    """A number of an answer: a hexadecimal float, "p/q", or a JSON number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ForeignGarbageError(f"a number was expected, got {json.dumps(value)[:60]}")
    if isinstance(value, float | int):
        return value if isinstance(value, float) else Fraction(value)
    try:
        if re.fullmatch(r"[+-]?\d+(/\d+)?", value):
            return Fraction(value)
        return float.fromhex(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ForeignGarbageError(f"a number was expected, got {value[:60]!r}") from None


def _whole(value: Any) -> int:
    number = _number(value)
    if not math.isfinite(number) or number != int(number):
        raise ForeignGarbageError(f"an integer was expected, got {value!r}")
    return int(number)


def _list(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ForeignGarbageError(f"{what} must be a list, got {json.dumps(value)[:60]}")
    return value


def _numbers(what: str, value: Any) -> Any:
    """A vector: float64, or object with exact numbers where the adapter gave any."""
    found = [_number(v) for v in _list(what, value)]
    exact = any(isinstance(v, Fraction) and v.denominator != 1 for v in found)
    return np.array(found, dtype=object) if exact else np.array([float(v) for v in found])


def _matrix(what: str, value: Any) -> Any:
    """A matrix: float64, or exact where the adapter gave any exact number that is not whole."""
    rows = [[_number(v) for v in _list(what, row)] for row in _list(what, value)]
    if len({len(row) for row in rows}) != 1:
        raise ForeignGarbageError(f"{what} must be a table")
    if any(isinstance(v, Fraction) and v.denominator != 1 for row in rows for v in row):
        return fmpq_mat([[_rational(v) for v in row] for row in rows])
    return np.array([[float(v) for v in row] for row in rows])


def _rational(value: float | Fraction) -> fmpq:
    exact = Fraction(value)
    return fmpq(exact.numerator, exact.denominator)


def _indices(what: str, value: Any) -> frozenset[int]:
    return frozenset(_whole(v) for v in _list(what, value))


class ForeignResult(SimpleNamespace):
    """A ``stable_*`` result of an adapter: its fields, and the answer itself, to be sent back where the mean stage wants it."""

    answer: dict[str, Any]


def _stage_result(answer: Any) -> ForeignResult:
    fields = _object(answer)
    found: dict[str, Any] = {"answer": fields, "score": _whole(fields.get("score"))}
    found["weights"] = _numbers("weights", fields.get("weights"))
    for name, read in (("mean", _numbers), ("covariance", _matrix)):
        if name in fields:
            found[name] = None if fields[name] is None else read(name, fields[name])
    if "sets" in fields:
        found["good_subsets"] = tuple(_indices("sets", s) for s in _list("sets", fields["sets"]))
    else:
        entry = [_whole(v) for v in _list("entry_level", fields.get("entry_level"))]
        found["entry_level"] = np.array(entry, dtype=np.int64)
    return ForeignResult(**found)


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ForeignGarbageError(f"an object was expected, got {json.dumps(answer)[:60]}")
    return answer


def _floats(values: Any) -> Any:
    return np.array(
        [[float(v) for v in row] for row in values.tolist()] if np.ndim(values) != 1 else values, dtype=float
    )


def _release(function: str, answer: Any) -> SimpleNamespace:
    """Mean, covariance or both, as far as the answer has them; a null answer is FAIL."""
    fails = dict.fromkeys(("covariance",) if "covariance" in function else ("mean",))
    if "gaussian" in function:
        fails["covariance"] = None
    fields = fails if answer is None else _object(answer)
    found = {}
    for name, read in (("mean", _numbers), ("covariance", _matrix)):
        if name in fields:
            found[name] = None if fields[name] is None else _floats(read(name, fields[name]))
    if not found:
        raise ForeignGarbageError("a release has a mean, a covariance or both")
    return SimpleNamespace(**found)


def _decode(function: str, answer: Any) -> Any:
    readers: dict[str, Callable[[str, Any], Any]] = {
        "largest": _indices,
        "stable": lambda _, answer: _stage_result(answer),
        "ptr": lambda _, answer: _number(answer),
        "is": _truth,
        "mean": lambda _, answer: _parameters(answer),
        "covariance": lambda _, answer: _parameters(answer),
        "gaussian": _numbers,
        "wishart": lambda what, answer: _floats(_matrix(what, answer)),
        "private": _release,
    }
    return readers[function.partition("_")[0]](function, answer)


def _truth(what: str, answer: Any) -> bool:
    if not isinstance(answer, bool):
        raise ForeignGarbageError(f"{what}: true or false was expected, got {json.dumps(answer)[:60]}")
    return answer


def _parameters(answer: Any) -> SimpleNamespace:
    fields = _object(answer)
    found: dict[str, Any] = {name: _whole(fields.get(name)) for name in ("k", "least_n")}
    found |= {name: _whole(fields[name]) for name in ("reference_size", "samples") if name in fields}
    if "noise_scale" in fields:
        found["noise_scale"] = Fraction(_number(fields["noise_scale"]))
    return SimpleNamespace(**found, passes_gates=_truth("passes_gates", fields.get("passes_gates")))


# The program ----------------------------------------------------------------------------------------------------------


class _Program:
    """One run of the adapter. Ends with it; :class:`ForeignTarget` starts another."""

    def __init__(self, command: Sequence[str]) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program, and ends with it
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors)
        except OSError as error:
            self.errors.close()
            raise ForeignCrashError(f"cannot start {command[0]!r}: {error.strerror}") from error

    def ask(self, request: dict[str, Any], seconds: float) -> bytes:
        """Write a line and read one. The exchange has a thread of its own, since either end may block."""
        answer: list[bytes] = []
        exchange = threading.Thread(target=self._exchange, args=(request, answer), daemon=True)
        exchange.start()
        exchange.join(seconds)
        hung = exchange.is_alive()
        if hung or not answer or not answer[0].endswith(b"\n"):
            status = None if hung else self._status()
            message = self.end()
            exchange.join(5)
            if hung:
                raise ForeignHangError(f"no answer within {seconds:g} s")
            raise ForeignCrashError(f"the program ended with status {status}{message}")
        return answer[0]

    def _exchange(self, request: dict[str, Any], answer: list[bytes]) -> None:
        assert self.process.stdin is not None, "made with pipes"
        assert self.process.stdout is not None, "made with pipes"
        with suppress(OSError, ValueError):  # the program is gone
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            answer.append(self.process.stdout.readline(LONGEST_LINE))

    def _status(self) -> int | None:
        try:
            return self.process.wait(2)
        except subprocess.TimeoutExpired:  # its output is closed and it lives on
            return None

    def end(self) -> str:
        """Kill it, free everything, and return the end of what it wrote to standard error."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was not yet written is lost with the program
                if stream is not None:
                    stream.close()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        self.errors.close()
        return f": {text[-500:]}" if text else ""


class ForeignTarget:
    """An adapter program as an implementation: it has exactly the functions that the program says it has.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        Time limit of each request. A program that exceeds it is killed, and started again for the next request; after three
        such requests no further one is made.

    Attributes
    ----------
    functions
        What the program provides.
    version
        Its name and version, as it states them.
    ROUNDING, MOST_ROWS, FLOAT_TIES
        As :class:`proofs_checks.target.Implementation` has them.

    Raises
    ------
    ForeignError
        If the program cannot be started or does not say hello.
    """

    def __init__(self, command: Sequence[str], seconds: float = 60.0) -> None:
        self._command, self._seconds, self._hangs, self._asked = list(command), seconds, 0, 0
        self._programs: list[_Program] = []  # at most one: shared with the finalizer
        self._finalizer = weakref.finalize(self, _end_all, self._programs)
        hello = self._hello()
        named = _list("functions", hello.get("functions"))
        self.functions = frozenset(name for name in named if name in FUNCTIONS)
        self.unknown_functions = tuple(str(name) for name in named if name not in FUNCTIONS)
        self.version = f"{hello.get('name', self._command[0])} {hello.get('version', '')}".strip()
        self.ROUNDING = Fraction(_number(hello.get("rounding", "0")))
        self.MOST_ROWS = _whole(hello.get("most_rows", 1 << 20))
        self.FLOAT_TIES = hello.get("float_ties") is True

    def _hello(self) -> dict[str, Any]:
        program = _Program(self._command)
        self._programs.append(program)
        answer = self._read(program.ask({"op": "hello", "protocol": PROTOCOL}, self._seconds))
        if answer.get("protocol") not in SPOKEN:
            self._end()
            raise ForeignGarbageError(f"protocol {PROTOCOL} was asked for, got {answer.get('protocol')!r}")
        return answer

    def _read(self, line: bytes) -> dict[str, Any]:
        """An answer of the protocol; a program that says anything else is ended, since nobody knows what it will say next."""
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            self._end()
            raise ForeignGarbageError(f"not a line of JSON: {line[:80]!r}") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            self._end()
            raise ForeignGarbageError(f"not an answer of the protocol: {line[:80]!r}")
        return answer

    def _end(self) -> None:
        for program in self._programs:
            program.end()
        self._programs.clear()

    def _request(self, function: str, arguments: dict[str, Any]) -> Any:
        """Ask for one run; the answer's result."""
        if self._hangs >= MOST_HANGS:
            raise ForeignHangError(f"no answer within {self._seconds:g} s, {MOST_HANGS} times: not asked again")
        if not self._programs:
            self._hello()
        self._asked += 1
        request = {"op": "run", "id": self._asked, "function": function, "arguments": arguments}
        try:
            answer = self._read(self._programs[0].ask(request, self._seconds))
        except ForeignHangError:
            self._hangs += 1
            self._programs.clear()
            raise
        except ForeignCrashError:
            self._programs.clear()
            raise
        if answer.get("id") != self._asked:
            self._end()
            raise ForeignGarbageError(f"an answer to request {answer.get('id')!r}, and not to {self._asked}")
        if not answer["ok"]:
            raise ForeignRefusalError(str(answer.get("error", "no reason given"))[:500])
        if "result" not in answer:
            raise ForeignGarbageError("an answer without a result")
        return answer["result"]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function of the program; AttributeError for what it does not provide."""
        functions = self.__dict__.get("functions", ())
        if name == "passes_gates" and any(function.endswith("_parameters") for function in functions):
            return lambda parameters: parameters.passes_gates
        if name.startswith("_") or name not in functions:
            raise AttributeError(name)

        def call(*positional: Any, **named: Any) -> Any:
            arguments = dict(zip(FUNCTIONS[name], positional, strict=False)) | named
            if name in {"private_mean", "private_covariance", "private_gaussian"}:
                rng = arguments.pop("rng", None)
                arguments.setdefault("edition", REPAIRED)
                arguments["seed"] = None if rng is None else rng.bytes(32).hex()
            sent = {key: ENCODERS.get(key, encode)(value) for key, value in arguments.items()}
            return _decode(name, self._request(name, sent))

        return call

    def close(self) -> None:
        """Tell the program to stop, and end it if it does not."""
        for program in self._programs:
            with suppress(ForeignError):  # it stops without an answer, as it was told to
                program.ask({"op": "stop"}, 2.0)
        _end_all(self._programs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end_all(programs: list[_Program]) -> None:
    for program in programs:
        if not program.errors.closed:
            program.end()
    programs.clear()


def foreign_target(command: str, edition: Edition = REPAIRED, seconds: float = 60.0) -> Target:
    """The target of a command line, such as ``"./my-adapter --fast"``.

    Raises
    ------
    ForeignError
        If the program cannot be started or does not say hello.
    """
    implementation = ForeignTarget(shlex.split(command), seconds)
    return Target(command, implementation, edition, implementation.ROUNDING, implementation.MOST_ROWS)


# A new adapter --------------------------------------------------------------------------------------------------------

ADAPTER = '''\
#!/usr/bin/env python3
"""Adapter of {name} for bhs23-audit: answers one JSON object a line. Try it:

    bhs23-audit run "exec:python {file}"

It runs as it is, with one function of its own. Put calls of your code in its place, and delete what you do not have: what is
not in FUNCTIONS is reported as not provided. In another language, write the same loop; "python -c 'import proofs_checks.foreign
as f; print(f.__doc__)'" describes the protocol.
"""

import json
import sys
from fractions import Fraction


def floats(rows):
    """Rows come as C99 hexadecimal floats, exact to the last bit."""
    return [[float.fromhex(v) for v in row] for row in rows]


def solve(matrix, vector):
    """The solution of a square system over the rationals, or None if it is singular."""
    rows = [[*row, v] for row, v in zip(matrix, vector)]
    for i in range(len(rows)):
        pivot = next((r for r in range(i, len(rows)) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(len(rows)):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [u - factor * v for u, v in zip(rows[r], rows[i])]
    return [rows[i][-1] / rows[i][i] for i in range(len(rows))]


def norm(row, sigma):
    """row^T sigma^-1 row; infinite where sigma is singular."""
    solved = solve(sigma, row)
    return float("inf") if solved is None else sum(u * v for u, v in zip(row, solved))


def largest_good_subset(y, lam):
    """The rows (0-based) that LargestGoodSubset keeps, in exact arithmetic. Call your own code instead."""
    rows, lam = [[Fraction(v) for v in row] for row in floats(y)], Fraction(lam)  # lam is exact: "3/2"
    kept, columns = set(range(len(rows))), range(len(rows[0]))
    while kept:
        sigma = [[sum(rows[i][a] * rows[i][b] for i in kept) / len(rows) for b in columns] for a in columns]
        outliers = {{i for i in kept if norm(rows[i], sigma) > lam}}
        if not outliers:
            break
        kept -= outliers
    return sorted(kept)


# def stable_covariance(x, lambda_0, k):
#     # Pairs are (x_i, x_{{i+m}}), m = n // 2. entry_level: for each of the m paired rows the least level whose set has it, or
#     # 2k + 1. Floats go back as v.hex(), exact numbers as "p/q".
#     return {{"covariance": [[v.hex()]], "score": 0, "weights": [w.hex()], "entry_level": [0]}}
#
# def stable_mean(x, covariance, lambda_0, k, reference):
#     # covariance is {{"matrix": rows}}, or {{"result": R}} with what stable_covariance returned.
#     return {{"mean": [v.hex()], "score": 0, "weights": [w.hex()], "entry_level": [0]}}
#
# def ptr_pass_probability(score, epsilon, delta, edition):
#     return p.hex()
#
# def private_mean(x, epsilon, delta, lambda_0, edition, seed):
#     # seed is 64 hexadecimal digits, or None: then draw fresh noise. None is FAIL.
#     return {{"mean": [v.hex()]}}

FUNCTIONS = {{"largest_good_subset": largest_good_subset}}
HELLO = {{
    "ok": True,
    "protocol": 2,
    "name": "{name}",
    "version": "0",
    "functions": sorted(FUNCTIONS),
    "rounding": "0",  # relative error of floats that you return; sets, scores and counts have none
    "most_rows": 2000,  # cases with more rows are left out
}}


def answer(request):
    if request["op"] == "hello":
        return HELLO
    try:
        return {{"id": request["id"], "ok": True, "result": FUNCTIONS[request["function"]](**request["arguments"])}}
    except Exception as error:  # reported as a finding; the next request is answered all the same
        return {{"id": request["id"], "ok": False, "error": f"{{type(error).__name__}}: {{error}}"}}


for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "stop":
        break
    print(json.dumps(answer(request)), flush=True)  # nothing else may be printed: use sys.stderr
'''


def new_adapter(name: str) -> str:
    """The source of a commented adapter that runs, in Python, for a target called ``name``.

    Raises
    ------
    ValueError
        If the name is not one of letters, digits, ``.``, ``-`` and ``_``.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"a name has letters, digits, '.', '-' and '_' only, got {name!r}")
    return ADAPTER.format(name=name, file=f"{name}.py")
