"""Real data that ships inside packages: what the ``data`` extra brings. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["DATA_SETS", "iris", "missing_extra", "sea_surface_temperature"]


def missing_extra() -> str | None:
    """Why real data cannot be had, or None where it can."""
    wanted = ("bokeh_sampledata", "pandas", "sklearn")
    return None if all(importlib.util.find_spec(name) for name in wanted) else "data extra missing"


@lru_cache(maxsize=1)
def sea_surface_temperature() -> NDArray[np.float64]:
    """19226 x 1 temperatures in degrees Celsius, in file order (bokeh-sampledata, from NERACOOS station B01)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package uses a pandas keyword that pandas has deprecated
        from bokeh_sampledata.sea_surface_temperature import sea_surface_temperature as table  # noqa: PLC0415 - an extra
    return np.asarray(table["temperature"], dtype=np.float64).reshape(-1, 1)


@lru_cache(maxsize=1)
def iris() -> NDArray[np.float64]:
    """150 x 4 measurements in centimetres (scikit-learn, from Fisher 1936)."""
    from sklearn.datasets import load_iris  # noqa: PLC0415 - an extra

    return np.asarray(load_iris().data, dtype=np.float64)


DATA_SETS: dict[str, Callable[[], NDArray[np.float64]]] = {
    "sea_surface_temperature": sea_surface_temperature,
    "iris": iris,
}
