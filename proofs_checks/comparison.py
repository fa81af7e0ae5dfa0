"""What each edition can release and how far it is from the truth: on real data, and on simulated data beside a baseline.

    python -m proofs_checks.comparison real --markdown table.md
    python -m proofs_checks.comparison simulated --json errors.json --figure errors.svg

Errors are Mahalanobis lengths, so that no unit of the data enters. PRINTED is not private and is shown for comparison.
The baseline of the simulated data is OpenDP's clamped mean with Gaussian noise, column by column under zero-concentrated
privacy: it is told the centre and the scale of every column, which the editions here are not.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from proofs_checks.realdata import DATA_SETS
from proofs_checks.target import load_target
from refimpl.parameters import (
    PRINTED,
    REPAIRED,
    SHARP,
    Edition,
    covariance_parameters,
    failure_reason,
    largest_lambda_0,
    mean_parameters,
)

__all__ = ["SimulatedError", "TableRow", "mahalanobis", "real_data_table", "simulated_errors"]

Rows = NDArray[np.float64]

EPSILON, DELTA = 1, "1e-6"
SHARP_LAMBDA_0 = 50  # chosen without looking at any of the data sets; README quotes it
REPEATS = 5


def mahalanobis(difference: Rows, covariance: Rows) -> float:
    """The length of a difference in standard deviations: sqrt(v^T C^+ v) with C of full rank."""
    return float(np.linalg.norm(np.linalg.solve(np.linalg.cholesky(covariance), difference)))


def relative_error(estimate: Rows, covariance: Rows) -> float:
    """The spectral norm of C^{-1/2} E C^{-1/2} - I."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, np.linalg.solve(root, estimate).T)
    return float(np.max(np.abs(np.linalg.eigvalsh((white + white.T) / 2) - 1)))


@dataclass(frozen=True)
class TableRow:
    """One edition on one real data set. Errors are medians over the releases, None where every one of them failed.

    Attributes
    ----------
    data, n, d, edition, lambda_0
        What was asked for; lambda_0 is 50 or the largest that the edition accepts at this n, whichever is less.
    reason
        Why every data set of this size fails, from public numbers; None where some do not.
    mean_released, covariance_released
        How many of the releases were not FAIL.
    noise_scale
        c, in standard deviations and one coordinate.
    mean_error, covariance_error
        Against the sample mean and the sample covariance.
    sampling_error
        sqrt(d/n), how far the sample mean itself may be expected to be from the truth.
    """

    data: str
    n: int
    d: int
    edition: str
    lambda_0: float
    reason: str | None
    mean_released: int
    covariance_released: int
    noise_scale: float | None
    mean_error: float | None
    covariance_error: float | None
    sampling_error: float


def usable_lambda_0(n: int, edition: Edition, wanted: float, task: str) -> float:
    """``wanted``, or the largest that the edition accepts at this n where that is less; 1 if it accepts none."""
    largest = largest_lambda_0(n, epsilon=EPSILON, delta=DELTA, edition=edition, task=task)
    return max(1.0, min(wanted, math.floor(float(largest) * 1000) / 1000))


def _fresh(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _table_row(name: str, x: Rows, edition: Edition, library: Any) -> TableRow:
    n, d = x.shape
    lam = usable_lambda_0(n, edition, SHARP_LAMBDA_0, "mean")
    lam_covariance = usable_lambda_0(n, edition, SHARP_LAMBDA_0, "covariance")
    plan = mean_parameters(n, d, epsilon=EPSILON, delta=DELTA, lambda_0=lam, edition=edition)
    wide = covariance_parameters(n, d, epsilon=EPSILON, delta=DELTA, lambda_0=lam_covariance, edition=edition)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PRINTED's warning, and the module's head says the same
        means = [library.private_mean(x, parameters=plan, rng=_fresh(seed)).mean for seed in range(REPEATS)]
        spreads = [library.private_covariance(x, parameters=wide, rng=_fresh(s)).covariance for s in range(REPEATS)]
    truth, covariance = x.mean(axis=0), np.atleast_2d(np.cov(x, rowvar=False, bias=True))
    mean_errors = [mahalanobis(mean - truth, covariance) for mean in means if mean is not None]
    spread_errors = [relative_error(spread, covariance) for spread in spreads if spread is not None]
    reason = failure_reason(plan)
    return TableRow(
        name,
        n,
        d,
        edition.name,
        lam,
        reason,
        len(mean_errors),
        len(spread_errors),
        None if reason else float(plan.noise_scale),
        median(mean_errors) if mean_errors else None,
        median(spread_errors) if spread_errors else None,
        math.sqrt(d / n),
    )


def real_data_table(names: Sequence[str] = tuple(DATA_SETS), *, implementation: str = "fastimpl") -> Iterator[TableRow]:
    """One row for each data set and edition.

    Privacy
    -------
    Not private: errors are measured against the data, which are public.
    """
    library = load_target(implementation).implementation
    for name in names:
        x = DATA_SETS[name]()
        for edition in (SHARP, REPAIRED, PRINTED):
            yield _table_row(name, x, edition, library)


@dataclass(frozen=True)
class SimulatedError:
    """The error of one estimator on data of one law: ``errors`` has one number a data set, None for FAIL."""

    law: str
    n: int
    d: int
    estimator: str
    errors: list[float | None]


def _simulated(law: str, n: int, d: int, rng: np.random.Generator) -> Rows:
    """Rows of mean 0 and covariance I: normal, or uniform on a cube. The estimators do not profit from that choice."""
    return rng.standard_normal((n, d)) if law == "normal" else rng.uniform(-math.sqrt(3), math.sqrt(3), (n, d))


@lru_cache
def _baseline_scale(n: int, bound: float) -> float:
    """OpenDP's scale of the Gaussian noise for one column, (EPSILON, DELTA)-private on its own."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    clamped = _baseline_column(n, bound)

    def private(scale: float) -> Any:
        fixed = dp.c.make_zCDP_to_approxDP(clamped >> dp.m.then_gaussian(scale=scale))
        return dp.c.make_fix_delta(fixed, float(DELTA))

    return float(dp.binary_search_param(private, d_in=2, d_out=(float(EPSILON), float(DELTA))))


def _baseline_column(n: int, bound: float) -> Any:
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.symmetric_distance()
    return space >> dp.t.then_clamp((-bound, bound)) >> dp.t.then_mean()


def baseline_mean(x: Rows, bound: float = 5.0) -> Rows:
    """OpenDP's mean of every column clamped to [-bound, bound]; d columns share one zero-concentrated budget."""
    dp = importlib.import_module("opendp.prelude")
    n, d = x.shape
    # The squared divergences of d Gaussian releases add, so each has sqrt(d) times the scale of one alone.
    column = _baseline_column(n, bound) >> dp.m.then_gaussian(scale=_baseline_scale(n, bound) * math.sqrt(d))
    return np.array([column(x[:, j].tolist()) for j in range(d)])


def _estimates(x: Rows, library: Any, lambda_0: float) -> Iterator[tuple[str, Rows | None]]:
    n, d = x.shape
    yield "sample mean", x.mean(axis=0)
    if importlib.util.find_spec("opendp"):
        yield "OpenDP, told the scale", baseline_mean(x)
    for edition, wanted in ((SHARP, lambda_0), (REPAIRED, 1.6 * lambda_0)):
        # The largest of n distances between pairs is further out than that of n leverages: hence the factor.
        lam = usable_lambda_0(n, edition, wanted, "mean")
        plan = mean_parameters(n, d, epsilon=EPSILON, delta=DELTA, lambda_0=lam, edition=edition)
        yield edition.name, library.private_mean(x, parameters=plan).mean


def simulated_errors(
    sizes: Sequence[int], dimensions: Sequence[int], *, repeats: int = 3, implementation: str = "fastimpl"
) -> Iterator[SimulatedError]:
    """Errors against the true mean, for normal and for bounded data.

    Privacy
    -------
    Public: simulated data.
    """
    parameters = importlib.import_module("refimpl.parameters")
    library = load_target(implementation).implementation
    for law in ("normal", "uniform on a cube"):
        for d in dimensions:
            for n in sizes:
                lam = float(parameters.gaussian_lambda_0(n, d, failure_probability="1/100"))
                found: dict[str, list[float | None]] = {}
                for repeat in range(repeats):
                    x = _simulated(law, n, d, np.random.default_rng([n, d, repeat]))
                    for name, estimate in _estimates(x, library, lam):
                        error = None if estimate is None else float(np.linalg.norm(estimate))
                        found.setdefault(name, []).append(error)
                yield from (SimulatedError(law, n, d, name, errors) for name, errors in found.items())


_STYLE = {
    "sample mean": ("#666666", ":"),
    "OpenDP, told the scale": ("#0072b2", "--"),
    "SHARP": ("#009e73", "-"),
    "REPAIRED": ("#d55e00", "-"),
}


def draw_simulated(results: Sequence[SimulatedError], path: Path) -> None:
    """One panel for each law and dimension: error against n, both logarithmic; a FAIL is a missing point."""
    plt = importlib.import_module("matplotlib.pyplot")
    laws, dimensions = dict.fromkeys(r.law for r in results), dict.fromkeys(r.d for r in results)
    figure, axes = plt.subplots(
        len(laws), len(dimensions), figsize=(3.6 * len(dimensions), 3 * len(laws)), sharex=True, squeeze=False
    )
    for row, law in zip(axes, laws, strict=True):
        for axis, d in zip(row, dimensions, strict=True):
            _draw_panel(axis, [r for r in results if (r.law, r.d) == (law, d)])
            axis.set_title(f"{law}, d = {d}", fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=4, fontsize=9, frameon=False)
    figure.supxlabel("rows n", fontsize=9)
    figure.supylabel("distance to the true mean, in standard deviations", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _draw_panel(axis: Any, results: Sequence[SimulatedError]) -> None:
    for name, (colour, line) in _STYLE.items():
        of_name = [r for r in results if r.estimator == name]
        middle = [median(e for e in r.errors if e is not None) if any(r.errors) else math.nan for r in of_name]
        axis.loglog([r.n for r in of_name], middle, line, color=colour, marker=".", label=name)
    axis.grid(visible=True, which="major", linewidth=0.3)


_Path = Annotated[Path | None, typer.Option(dir_okay=False)]
app = typer.Typer(add_completion=False, no_args_is_help=True)


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


@app.command()
def real(
    names: Annotated[list[str] | None, typer.Argument()] = None, json_file: _Path = None, markdown: _Path = None
) -> None:
    """Every edition on real data."""
    rows = list(real_data_table(tuple(names or DATA_SETS)))
    heads = ("data", "n", "d", "edition", "lambda_0", "mean", "covariance", "c", "mean error", "covariance error")
    cells = [
        (
            r.data, r.n, r.d, r.edition, r.lambda_0,
            f"{r.mean_released}/{REPEATS}", f"{r.covariance_released}/{REPEATS}",
            r.noise_scale, r.mean_error, r.covariance_error,
        )
        for r in rows
    ]  # fmt: skip
    table = Table(*heads)
    for line in cells:
        table.add_row(*map(_cell, line))
    Console().print(table)
    if json_file:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    if markdown:
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in cells]
        markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


@app.command()
def simulated(
    sizes: str = "6000,12500,25000,50000,100000,200000,500000,1000000",
    dimensions: str = "1,10,50",
    repeats: int = 3,
    json_file: _Path = None,
    figure: _Path = None,
) -> None:
    """Every estimator on simulated data of mean 0 and covariance I."""
    results = []
    for result in simulated_errors(
        [int(n) for n in sizes.split(",")], [int(d) for d in dimensions.split(",")], repeats=repeats
    ):
        results.append(result)
        middle = [e for e in result.errors if e is not None]
        shown = f"{median(middle):.5f}" if middle else "FAIL"
        Console().print(f"{result.law}, n = {result.n}, d = {result.d}: {result.estimator} {shown}")
    if json_file:
        json_file.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n", encoding="utf-8")
    if figure:
        draw_simulated(results, figure)


if __name__ == "__main__":
    app()
