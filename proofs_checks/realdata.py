"""Real data that ships inside packages: what the ``data`` extra brings. Nothing is downloaded."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DATA_SETS", "cps_mixtape", "iris", "missing_extra", "sea_surface_temperature", "world_cities"]

Loader = Callable[[], NDArray[np.float64]]


def missing_extra() -> str | None:
    """Why real data cannot be had, or None where it can."""
    wanted = ("bokeh_sampledata", "causaldata", "pandas", "sklearn", "statsmodels")
    return None if all(importlib.util.find_spec(name) for name in wanted) else "data extra missing"


def _quietly(package: str) -> Any:
    """The package, imported without its warnings: some use pandas keywords that pandas has deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warnings are about their code, and not about ours
        return importlib.import_module(package)


def _numbers(table: Any) -> NDArray[np.float64]:
    """The numeric columns that are not constant, without the rows that have a gap in one of them."""
    rows = table.select_dtypes("number").dropna().to_numpy(dtype=np.float64)
    return np.ascontiguousarray(rows[:, np.ptp(rows, axis=0) > 0])


@lru_cache(maxsize=1)
def sea_surface_temperature() -> NDArray[np.float64]:
    """19226 x 1 temperatures in degrees Celsius, in file order (bokeh-sampledata, from NERACOOS station B01)."""
    table = _quietly("bokeh_sampledata.sea_surface_temperature").sea_surface_temperature
    return np.asarray(table["temperature"], dtype=np.float64).reshape(-1, 1)


@lru_cache(maxsize=1)
def glucose() -> NDArray[np.float64]:
    """52281 x 1 readings of a continuous glucose monitor in mg/dl: integers, nearly all repeated (bokeh-sampledata)."""
    return _numbers(_quietly("bokeh_sampledata.glucose").data[["glucose"]])


@lru_cache(maxsize=1)
def world_cities() -> NDArray[np.float64]:
    """45065 x 2 latitudes and longitudes in degrees (bokeh-sampledata, from GeoNames)."""
    return _numbers(_quietly("bokeh_sampledata.world_cities").data)


@lru_cache(maxsize=1)
def forensic_glass() -> NDArray[np.float64]:
    """214 x 9 chemical analyses with many exact zeros and heavy tails (bokeh-sampledata)."""
    table = _quietly("bokeh_sampledata.forensic_glass").data
    return _numbers(table.drop(columns=[name for name in table if name.lower() in {"id", "glass_type", "type"}]))


@lru_cache(maxsize=1)
def cps_mixtape() -> NDArray[np.float64]:
    """15992 x 9: age, schooling, four indicators, three earnings of the CPS controls, a constant dropped (causaldata)."""
    return _numbers(_quietly("causaldata.cps_mixtape").load_pandas().data)


def _statsmodels(name: str) -> Loader:
    def load() -> NDArray[np.float64]:
        return _numbers(_quietly(f"statsmodels.datasets.{name}").load_pandas().data)

    return lru_cache(maxsize=1)(load)


def _sklearn(name: str) -> Loader:
    def load() -> NDArray[np.float64]:
        rows = np.asarray(getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")().data, dtype=np.float64)
        return np.ascontiguousarray(rows[:, np.ptp(rows, axis=0) > 0])

    return lru_cache(maxsize=1)(load)


iris = _sklearn("iris")
"""150 x 4 measurements in centimetres (scikit-learn, from Fisher 1936)."""

DATA_SETS: dict[str, Loader] = {
    "sea_surface_temperature": sea_surface_temperature,
    "glucose": glucose,
    "world_cities": world_cities,
    "cps_mixtape": cps_mixtape,
    "randhie": _statsmodels("randhie"),
    "fair": _statsmodels("fair"),
    "digits": _sklearn("digits"),
    "breast_cancer": _sklearn("breast_cancer"),
    "engel": _statsmodels("engel"),
    "forensic_glass": forensic_glass,
    "wine": _sklearn("wine"),
    "iris": iris,
}
