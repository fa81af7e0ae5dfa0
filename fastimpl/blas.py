"""Products with a triangular matrix in float32, at not much more than half the price of others: BLAS's trmm.

Numpy does not offer it, and scipy's wrapper keeps the interpreter's lock, so the routine is called where scipy hands it to
Cython. Nothing rests on it but how sums are rounded, and every bound allows any order.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas

__all__ = ["Multiplier"]

_FROM = 16  # columns from which it pays; in float64, where a copy costs twice as much, it hardly ever does
_SIGNATURE = "void (char *, char *, char *, char *, int *, int *, real *, real *, int *, real *, int *)"


@cache
def _strmm() -> Any:
    """The routine, which works without the interpreter's lock; None if scipy does not have it in the form expected here."""
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get("strmm")
    if capsule is None:
        return None
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = get_name(capsule)
    if re.sub(r"\b(float|\w+cython_blas_s)\b", "real", name.decode()) != _SIGNATURE:
        return None
    return ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 4, *[ctypes.c_void_p] * 7)(get_pointer(capsule, name))


class Multiplier:
    """Rows v -> W v for one d x d matrix W, given as its transpose, in float32 or float64."""

    def __init__(self, transposed: NDArray[Any]) -> None:
        self._matrix = np.ascontiguousarray(transposed)
        self._size, self._one = ctypes.c_int(len(self._matrix)), ctypes.c_float(1.0)
        fits = self._matrix.dtype == np.float32 and len(self._matrix) >= _FROM
        self._strmm = _strmm() if fits and not np.tril(self._matrix, -1).any() else None

    @property
    def triangular(self) -> bool:
        """Whether that is by ``strmm``: then W is lower triangular, and rows of any kind of float will do."""
        return self._strmm is not None

    def of(self, rows: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """The products, in ``out``, rows in C order of W's kind; rows of another kind only if ``triangular``."""
        if self._strmm is None:
            return np.matmul(rows, self._matrix, out=out)
        out[:] = rows
        # In Fortran's order ``out`` holds the vectors as columns, and the transpose of W is W.
        size, one, count = (ctypes.byref(number) for number in (self._size, self._one, ctypes.c_int(len(out))))
        a, b = self._matrix.ctypes.data, out.ctypes.data
        self._strmm(b"L", b"L", b"N", b"N", size, count, one, a, size, b, size)
        return out
