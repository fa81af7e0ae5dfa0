"""The picture of ``bhs23-release plan --plot``: noise by number of rows, and least number of rows by lambda_0."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refimpl.parameters import Edition, mean_parameters
from refimpl.plan import least_n, mean_plan

__all__ = ["draw", "least_rows", "noise_scale"]

_POINTS = 7  # of each curve
_MOST_ROWS = 10_000_000
_LAMBDAS = (2, 10, 50, 200, 1000)
_COLOURS = {"PRINTED": "0.6", "REPAIRED": "tab:orange", "SHARP": "tab:blue"}

Request = Mapping[str, Any]


def noise_scale(n: int, d: int, request: Request) -> float | None:
    """C of a release of the mean, or None where it always fails. SHARP's is that of the plan found, before verification.

    Parameters
    ----------
    n, d
        Rows and columns.
    request
        epsilon, delta, lambda_0 and edition, as :func:`mean_parameters` takes them.

    Returns
    -------
    float or None

    Privacy
    -------
    Public: a function of public numbers only.
    """
    edition: Edition = request["edition"]
    if edition.test_law == "table":
        found = mean_plan(n, d, *_numbers(request))
        return None if found is None or found.noise_scale is None else float(found.noise_scale)
    p = mean_parameters(n, d, **request)
    return float(p.noise_scale) if n >= p.least_n else None


def least_rows(d: int, request: Request) -> int:
    """The least n of a release of the mean, 0 where no n will do. Arguments and privacy as in :func:`noise_scale`.

    Privacy
    -------
    Public: a function of public numbers only.
    """
    edition: Edition = request["edition"]
    if edition.test_law == "table":
        return least_n("mean", d, *_numbers(request)) or 0
    return mean_parameters(2, d, **request).least_n


def _numbers(request: Request) -> tuple[Fraction, Fraction, Fraction]:
    return Fraction(request["epsilon"]), Fraction(request["delta"]), Fraction(request["lambda_0"])


def draw(file: Path, n: int, d: int, requests: Mapping[str, Request]) -> None:
    """Draw the noise of each edition by n, and its least n by lambda_0, into a file of any kind that matplotlib writes.

    Parameters
    ----------
    file
        Where to.
    n, d
        Rows (marked by a line) and columns.
    requests
        For each edition's name what :func:`mean_parameters` takes.

    Privacy
    -------
    Public: a picture of public numbers only.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, request in requests.items():
        _noise_curve(left, name, d, request)
        _least_curve(right, name, d, request)
    first = next(iter(requests.values()))
    left.plot(
        *_curve(lambda rows: 1 / math.sqrt(rows), _grid(1000, _MOST_ROWS)), ":", color="black", label="sampling error"
    )
    left.axvline(n, color="0.85", zorder=0)
    left.set(xlabel="number of rows n", ylabel="noise c, in standard deviations")
    left.set_title(f"noise of the mean, lambda_0 = {first['lambda_0']}")
    right.set(xlabel="lambda_0", ylabel="least number of rows n")
    right.set_title("least n for the mean")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        axes.tick_params(which="minor", labelbottom=False, labelleft=False)
        axes.grid(visible=True, which="major", color="0.9")
        axes.legend()
    figure.suptitle(f"d = {d}, epsilon = {first['epsilon']}, delta = {first['delta']}")
    figure.savefig(file)


def _noise_curve(axes: Axes, name: str, d: int, request: Request) -> None:
    start = max(2, least_rows(d, request))
    rows, noise = _curve(lambda rows: noise_scale(rows, d, request), _grid(start, max(_MOST_ROWS, 100 * start)))
    axes.plot(rows, noise, **_style(name))
    axes.plot(rows[:1], noise[:1], "o", color=_COLOURS[name])


def _least_curve(axes: Axes, name: str, d: int, request: Request) -> None:
    lambdas = [lam for lam in _LAMBDAS if lam >= d + 1] or [d + 1, 2 * d, 4 * d]
    axes.plot(lambdas, [least_rows(d, {**request, "lambda_0": lam}) for lam in lambdas], "o-", **_style(name))


def _style(name: str) -> dict[str, Any]:
    label = f"{name} (not private)" if name == "PRINTED" else name
    return {"color": _COLOURS[name], "label": label}


def _grid(first: int, last: int) -> list[int]:
    """Numbers of rows from first to last, denser at the start, where noise falls fast."""
    return [round(first * (last / first) ** ((i / (_POINTS - 1)) ** 2)) for i in range(_POINTS)]


def _curve(value: Callable[[int], float | None], rows: Sequence[int]) -> tuple[list[int], list[float]]:
    points = [(n, found) for n in rows if (found := value(n)) is not None]
    return [n for n, _ in points], [found for _, found in points]
