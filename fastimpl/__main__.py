"""The command ``bhs23-release``: a private mean, covariance or both of a file, and the plan before it.

It shows a release or FAIL, and public numbers. What it prints besides the release does not depend on what the
rows say.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.table import Table as TextTable
from typer.main import get_command

from fastimpl import private_covariance, private_gaussian, private_mean
from fastimpl.table import TableError, read_table
from refimpl.parameters import (
    DEFAULT_EDITION,
    EDITIONS,
    CovarianceParameters,
    Edition,
    GaussianParameters,
    MeanParameters,
    PrintedEditionWarning,
    check_request,
    chosen_lambda_0,
    covariance_parameters,
    failure_reason,
    gaussian_parameters,
    largest_lambda_0,
    mean_parameters,
    passes_gates,
    plan_verification,
)

__all__ = ["main"]

Parameters = MeanParameters | CovarianceParameters | GaussianParameters

EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130
NO_PUBLIC_REASON = "no public quantity rules these parameters out, and the private test gives no reason"
HELP = """Differentially private mean and covariance of the rows of a file (Brown, Hopkins, Smith 2023).

Exit status: 0 for a release, and 0 for FAIL too, which is one of the outputs of the algorithm and not an
error; 2 for bad input, with one line on stderr.

The guarantee holds for tables of finite numbers with a public number of rows, in which one row may be replaced
by another. A file outside that domain (text, missing values, NaN) gets an error, and the error tells that it is
outside. Numbers given as 1e-6 or 1/3 are taken exactly.

Editions: sharp (the default, this project's own algorithm: a fraction of the rows and of the noise;
its plan takes some seconds), repaired (the paper, repaired), printed (the letter of the paper, not private).
"""

app = typer.Typer(help=HELP, add_completion=False, no_args_is_help=False, rich_markup_mode=None)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"bhs23-release {version('bhs23')}")
        raise typer.Exit


@app.callback(help=HELP)
def _common(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


class EditionName(StrEnum):
    """The editions by the names that the command line takes."""

    REPAIRED = "repaired"
    SHARP = "sharp"
    PRINTED = "printed"


DEFAULT = EditionName[DEFAULT_EDITION.name]

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="CSV (a header is detected) or .npy, a row a person.", show_default=False),
]
Epsilon = Annotated[
    str, typer.Option("--epsilon", help="Privacy parameter, in (0, 1]; sharp: any above 0.", show_default=False)
]
Delta = Annotated[str, typer.Option("--delta", help="Privacy parameter, in (0, 1), such as 1e-6.", show_default=False)]
LambdaZero = Annotated[
    str,
    typer.Option(
        "--lambda-0",
        help="Outlier threshold of squared Mahalanobis norms: well above d, chosen without looking at the data. "
        "gaussian (sharp only) chooses it by n and d for Gaussian rows; gaussian:0.001 sets its failure probability.",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Names or numbers (from 0) with commas between: a,b or 0,1. Default: all.",
        show_default=False,
    ),
]
Choice = Annotated[
    EditionName,
    typer.Option(
        "--edition",
        case_sensitive=False,
        help="printed is the letter of the paper, and NOT private: for study only.",
    ),
]
Compared = Annotated[
    EditionName | None,
    typer.Option("--edition", case_sensitive=False, help="Show this edition only.", show_default=False),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Also draw noise and least n of the editions (needs matplotlib, takes a minute).",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
Rows = Annotated[int, typer.Option("--n", help="Number of rows.", show_default=False)]
Dimension = Annotated[int, typer.Option("--d", help="Number of columns.", show_default=False)]


Request = dict[str, Any]  # the arguments epsilon, delta, lambda_0 and edition, which every function of ours takes


@dataclass(frozen=True)
class Task:
    """One thing to release: its help, its public parameters, its algorithm, the fields of its result."""

    name: str
    help: str
    parameters: Callable[..., Parameters]
    release: Callable[..., Any]
    outputs: tuple[str, ...]


MEAN = Task("mean", "Release the mean of the rows (Algorithm 1), or FAIL.", mean_parameters, private_mean, ("mean",))
COVARIANCE = Task(
    "covariance",
    "Release the covariance of the rows (Algorithm 5.1), or FAIL.",
    covariance_parameters,
    private_covariance,
    ("covariance",),
)
GAUSSIAN = Task(
    "gaussian",
    "Release mean and covariance together for one budget (Algorithm 5.2), or FAIL.",
    gaussian_parameters,
    private_gaussian,
    ("mean", "covariance"),
)


def _command(task: Task) -> Callable[..., None]:
    def release(
        file: File,
        *,
        epsilon: Epsilon,
        delta: Delta,
        lambda_0: LambdaZero,
        columns: Columns = None,
        edition: Choice = DEFAULT,
        as_json: AsJson = False,
    ) -> None:
        _run(task, file, columns, _request(epsilon, delta, lambda_0, edition), as_json=as_json)

    return release


for _task in (MEAN, COVARIANCE, GAUSSIAN):
    app.command(_task.name, help=_task.help)(_command(_task))


@app.command("plan")
def plan(
    *,
    n: Rows,
    d: Dimension,
    epsilon: Epsilon,
    delta: Delta,
    lambda_0: LambdaZero,
    edition: Compared = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Show what n rows in d columns can give in each edition, from these public numbers alone: no file is read.

    Errors are root mean squares in Mahalanobis norm (of the covariance: Frobenius), those of the noise beside that
    of the estimate of n Gaussian rows without privacy. The verdict on a plan of sharp is the largest delta that its
    inequalities need, over the delta asked for: a plan with more than 1 is refused.
    """
    lam, assumption = _public(lambda: chosen_lambda_0(lambda_0, n, d))
    number = lambda_0 if assumption is None else str(lam)
    names = list(EditionName) if edition is None else [edition]
    requests = {name.name: _request(epsilon, delta, number, name) for name in names}
    plans = _plans(n, d, requests)
    notes = list(dict.fromkeys(note for request in requests.values() for note in _notes(d, request)))
    echo = {name: value for name, value in _echo(next(iter(requests.values()))).items() if name != "edition"}
    report = {"command": "plan", "n": n, "d": d, **echo, "assumption": assumption, "editions": plans, "warnings": notes}
    _show_warnings(notes)
    if plot is not None:
        _plot(plot, n, d, requests)
    if as_json:
        print(json.dumps(report))
    else:
        _print_plans(report)


def _request(epsilon: str, delta: str, lambda_0: str, edition: EditionName) -> Request:
    return {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": EDITIONS[edition.name]}


def _run(task: Task, file: Path, columns: str | None, request: Request, *, as_json: bool) -> None:
    _public(lambda: check_request(**request))  # a wrong parameter is told before a large file is read
    try:
        table = read_table(file, columns)
    except TableError as error:
        _stop(f"FILE {file}: {error}")
    n, d = table.rows.shape
    parameters = _public(lambda: task.parameters(n, d, **request))
    if parameters.assumption is not None:
        request = request | {"lambda_0": str(parameters.lambda_0)}
    public = {"command": task.name, "n": n, "d": d, "columns": list(table.columns), **_echo(request)}
    public |= {"parameters": _numbers(parameters), "warnings": _notes(d, request)}
    _show_warnings(public["warnings"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrintedEditionWarning)  # said already, in one line
        released = task.release(table.rows, parameters=parameters)
    report = public | _outcome(task, parameters, released)
    if as_json:
        print(json.dumps(report))
    else:
        _print_release(task, report)


def _outcome(task: Task, parameters: Parameters, released: Any) -> dict[str, Any]:
    """Return the part of a report that is not public before the release: the release, or FAIL."""
    values = {name: getattr(released, name) for name in task.outputs}
    if any(value is None for value in values.values()):
        reason = failure_reason(parameters) or NO_PUBLIC_REASON
        return {"status": "FAIL", "reason": reason, **dict.fromkeys(values)}
    return {"status": "release", "reason": None, **{name: value.tolist() for name, value in values.items()}}


def _echo(request: Request) -> dict[str, str]:
    return {name: str(value) for name, value in request.items()}


def _numbers(parameters: Parameters) -> dict[str, Any]:
    """Return the public numbers that an algorithm derives, ready for JSON."""
    if isinstance(parameters, GaussianParameters):
        return {"mean": _numbers(parameters.mean), "covariance": _numbers(parameters.covariance)}
    p = parameters
    shared: dict[str, Any] = {"k": p.k, "least_n": p.least_n}
    if p.edition.test_law == "table":
        shared |= {"window": p.window, "assumption": p.assumption}
    if isinstance(p, MeanParameters):
        references = {} if p.edition.test_law == "table" else {"reference_size": p.reference_size}
        return shared | references | {"noise_scale": float(p.noise_scale)}
    return shared | {"samples": p.samples}


# The plan -------------------------------------------------------------------------------------------------------------


def _plans(n: int, d: int, requests: dict[str, Request]) -> dict[str, dict[str, Any]]:
    """Return the plan of each edition. What is out of one edition's range is its reason; out of all, it is an error."""
    plans: dict[str, dict[str, Any]] = {}
    errors = {}
    for name, request in requests.items():
        try:
            plans[name] = {task.name: _plan_of(task, n, d, request) for task in (MEAN, COVARIANCE, GAUSSIAN)}
        except (TypeError, ValueError) as error:
            errors[name] = str(error)
            plans[name] = {task.name: {"reason": str(error)} for task in (MEAN, COVARIANCE, GAUSSIAN)}
    if len(errors) == len(requests):
        _stop(errors.get(DEFAULT.name) or next(iter(errors.values())))
    return plans


def _plan_of(task: Task, n: int, d: int, request: Request) -> dict[str, Any]:
    parameters = task.parameters(n, d, **request)
    numbers = _flat(parameters) | {"verification": _verdict(parameters)}
    if not passes_gates(parameters):  # nothing would be released, so there is no noise and there are no draws
        numbers |= {name: None for name in ("noise_scale", "samples") if name in numbers}
    numbers |= _errors(numbers, n, d)
    if task is not GAUSSIAN:
        privacy = {name: value for name, value in request.items() if name != "lambda_0"}
        largest = largest_lambda_0(n, **privacy, task=task.name, d=d)
        numbers |= {"largest_lambda_0": _rounded_down(largest) if largest >= 1 else None}
    return {"reason": failure_reason(parameters), **numbers}


def _flat(parameters: Parameters) -> dict[str, Any]:
    """Return the numbers of both halves of the learner as one: k only where they share it, the larger least n."""
    numbers = _numbers(parameters)
    if not isinstance(parameters, GaussianParameters):
        return numbers
    mean: dict[str, Any] = numbers["mean"]
    covariance: dict[str, Any] = numbers["covariance"]
    least = max(mean["least_n"], covariance["least_n"])
    return covariance | mean | {"least_n": least, "k": max(mean["k"], covariance["k"])}


def _verdict(parameters: Parameters) -> dict[str, Any] | None:
    """Return what the verification of a plan found, or None where there is no plan to be verified."""
    if parameters.edition.test_law != "table":
        return None
    found = plan_verification(parameters)
    return None if found is None else {"holds": found.holds, "worst_ratio": found.worst_ratio}


def _errors(numbers: dict[str, Any], n: int, d: int) -> dict[str, float | None]:
    """Return the errors of the noise and of sampling: E|cz|^2 = c^2 d and d/n; E|W/N - I|_F^2 = d(d+1)/N and d(d+1)/n."""
    found: dict[str, float | None] = {}
    rows = max(n, 1)
    if "noise_scale" in numbers:
        c = numbers["noise_scale"]
        found |= {"mean_error": None if c is None else c * math.sqrt(d), "mean_sampling_error": math.sqrt(d / rows)}
    if "samples" in numbers:
        draws, square = numbers["samples"], d * (d + 1)
        found["covariance_error"] = math.sqrt(square / draws) if draws else None
        found["covariance_sampling_error"] = math.sqrt(square / rows)
    return found


def _plot(file: Path, n: int, d: int, requests: dict[str, Request]) -> None:
    try:
        from fastimpl.picture import draw  # noqa: PLC0415 - matplotlib is an extra, and slow to import
    except ImportError:
        _stop("--plot needs matplotlib: install bhs23[report]")
    try:
        draw(file, n, d, requests)
    except (OSError, ValueError) as error:
        _stop(f"--plot {file}: {error}")


def _rounded_down(value: Fraction) -> str:
    """Return a decimal that is not above ``value``, so that it can be used as it is shown."""
    whole, part = divmod(math.floor(value * 10**4), 10**4)
    return f"{whole}.{part:04d}".rstrip("0").rstrip(".")


def _notes(d: int, request: Request) -> list[str]:
    """Return warnings that follow from public numbers alone."""
    edition: Edition = request["edition"]
    notes = []
    if edition.test_law == "printed":
        notes.append("the PRINTED edition is not differentially private: for study, never for data")
    least, shown = (d + 1, f"d + 1 = {d + 1}") if edition.test_law == "table" else (d, f"d = {d}")
    if Fraction(request["lambda_0"]) < least:
        notes.append(f"lambda_0 = {request['lambda_0']} is below {shown}: hardly any data can pass the test")
    return notes


def _print_release(task: Task, report: dict[str, Any]) -> None:
    print(f"{report['status']}: {task.name} of {report['n']} rows, {report['edition']} edition,", end=" ")
    print(f"epsilon = {report['epsilon']}, delta = {report['delta']}, lambda_0 = {report['lambda_0']}")
    if report["reason"] is not None:
        print(f"  {report['reason']}")
        return
    width = max(map(len, report["columns"]))
    for name in task.outputs:
        print(f"{name}:")
        for column, value in zip(report["columns"], report[name], strict=True):
            print(f"  {column:{width}}  {_digits(value)}")


def _digits(value: float | list[float]) -> str:
    """Return the shortest digits that mean just this float64 (or these)."""
    return "  ".join(f"{number!r:>22}" for number in value) if isinstance(value, list) else repr(value)


ROWS = (
    ("k, the score that always fails", "k"),
    ("W, levels that are averaged", "window"),
    ("|R|, reference points", "reference_size"),
    ("least n at this lambda_0", "least_n"),
    ("largest lambda_0 at this n", "largest_lambda_0"),
    ("c, noise in standard deviations", "noise_scale"),
    ("error of the mean by noise", "mean_error"),
    ("  by sampling", "mean_sampling_error"),
    ("N, Gaussian draws", "samples"),
    ("error of the covariance by noise", "covariance_error"),
    ("  by sampling", "covariance_sampling_error"),
    ("verification of the plan", "verification"),
)


def _print_plans(report: dict[str, Any]) -> None:
    """Print one edition as a table of three tasks, and several as a table for each task."""
    if report["assumption"] is not None:
        print(f"lambda_0 = {_shortest(report['lambda_0'])}, assuming that {report['assumption']}")
    plans, tasks = report["editions"], (MEAN, COVARIANCE, GAUSSIAN)
    if len(plans) == 1:
        (edition,) = plans
        _print_table(edition, {task.name: plans[edition][task.name] for task in tasks})
        for task in tasks:
            print(f"{task.name}: {_says(edition, plans[edition][task.name])}")
        return
    for task in tasks:
        _print_table(task.name, {edition: plans[edition][task.name] for edition in plans})
        for edition in plans:
            print(f"{task.name}, {edition}: {_says(edition, plans[edition][task.name])}")


def _print_table(title: str, columns: dict[str, dict[str, Any]]) -> None:
    table = TextTable(box=box.SIMPLE)
    table.add_column(title, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    for label, key in ROWS:
        cells = [_cell(numbers, key) for numbers in columns.values()]
        if any(cells):
            table.add_row(label, *cells)
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(table)


def _says(edition: str, numbers: dict[str, Any]) -> str:
    if numbers["reason"]:
        return f"always FAIL: {numbers['reason']}"
    return "can be released, but not privately" if edition == "PRINTED" else "can be released"


def _shortest(number: str) -> str:
    return f"{float(Fraction(number)):.10g}"


def _cell(numbers: dict[str, Any], key: str) -> str:
    value = numbers.get(key, "")
    if key == "verification" and isinstance(value, dict):
        return f"{'holds' if value['holds'] else 'REFUSED'} ({value['worst_ratio']:.9f})"
    if key == "verification":
        value = ""
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _show_warnings(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)


Value = TypeVar("Value")


def _public(compute: Callable[[], Value]) -> Value:
    """Compute something from public numbers; what is wrong with them becomes the one line of an error."""
    try:
        return compute()
    except (TypeError, ValueError) as error:
        _stop(str(error))


def _stop(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise typer.Exit(EXIT_BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command with these arguments (default: those of the process) and leave with its exit status."""
    try:
        status = get_command(app).main(arguments, prog_name="bhs23-release", standalone_mode=False)
    except typer.TyperException as error:  # an unknown option, a missing one, ...
        print(f"error: {' '.join(error.format_message().split())}", file=sys.stderr)
        status = EXIT_BAD_INPUT
    except typer.Abort:  # Ctrl-C
        status = EXIT_INTERRUPTED
    sys.exit(status)


if __name__ == "__main__":
    main()
