"""Tables of numbers from files: CSV and .npy to float64, with errors that never show what is in a cell."""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "TableError", "read_table"]

NPY_MAGIC = b"\x93NUMPY"


class TableError(ValueError):
    """A file that is not a table of finite numbers; the text tells the column and the kind of problem only."""


@dataclass(frozen=True, eq=False)
class Table:
    """``rows`` is n x d float64, finite; ``columns`` names the d columns, by number where there is no header."""

    rows: NDArray[np.float64]
    columns: tuple[str, ...]


def read_table(path: Path, columns: str | None = None) -> Table:
    """Read the chosen columns of a CSV or .npy file.

    A CSV file has commas between cells, perhaps quoted. Its first line is a header when none of its cells reads
    as a number and not all are blank; every other line is a row, so nothing is dropped silently. Cells are read
    by Python's ``float``, which rounds correctly.

    Parameters
    ----------
    path
        The file. It is .npy if it starts as such a file does, whatever its name.
    columns
        Names from the header, or numbers from 0, with commas between them: "a,b" or "0,1". None means all.

    Returns
    -------
    Table
        In the units and in the row order of the file.

    Raises
    ------
    TableError
        If the file cannot be read, has rows of different lengths, lacks a column, or if a chosen column holds
        something that is not a finite number. Which row that was is not told.

    Privacy
    -------
    Not private: it returns the data. The names in a header are taken to be public. An error tells that the file
    is outside the domain, and which column is.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TableError(error.strerror or "cannot be read") from None
    table = (_read_npy if content.startswith(NPY_MAGIC) else _read_csv)(content, columns)
    for name, column in zip(table.columns, table.rows.T, strict=True):
        if not np.isfinite(column).all():
            raise TableError(f"column {name!r} holds a missing value, NaN or infinity")
    return table


def _read_npy(content: bytes, columns: str | None) -> Table:
    try:
        rows = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, MemoryError):
        raise TableError("is not a .npy file of numbers") from None
    if rows.dtype.kind not in "iuf":
        raise TableError(f"the array must hold real numbers, got dtype {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise TableError(f"the array must have two dimensions and at least one column, got shape {rows.shape}")
    chosen = _chosen(columns, None, rows.shape[1])
    with np.errstate(over="ignore"):  # a longdouble too large for float64 becomes infinite, which is reported
        return Table(rows[:, chosen].astype(np.float64), tuple(map(str, chosen)))


def _read_csv(content: bytes, columns: str | None) -> Table:
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        return _parse_lines(lines, columns)
    except UnicodeDecodeError:
        raise TableError("is neither a .npy file nor UTF-8 text") from None
    except csv.Error:
        raise TableError("is not well-formed CSV") from None


def _parse_lines(lines: Iterator[list[str]], columns: str | None) -> Table:
    first = next(lines, [])
    if not first:
        raise TableError("the first line is empty")
    named = any(cell.strip() for cell in first) and not any(map(_is_number, first))
    header = first if named else None
    chosen = _chosen(columns, header, len(first))
    names = tuple(header[j] if header else str(j) for j in chosen)
    cells = array("d")
    for row in lines if header else chain([first], lines):
        if len(row) != len(first):
            _require_end(row, lines)
            break
        try:
            cells.extend([_number(row[j]) for j in chosen])
        except ValueError:
            bad = next(name for j, name in zip(chosen, names, strict=True) if row[j].strip() and not _is_number(row[j]))
            raise TableError(f"column {bad!r} holds a cell that is not a number (see --columns)") from None
    return Table(np.array(cells, dtype=np.float64).reshape(-1, len(chosen)), names)


def _require_end(row: Sequence[str], lines: Iterator[list[str]]) -> None:
    """Empty lines may only end a file: elsewhere one may be a missing value, and dropping it would change n."""
    if row or any(lines):
        raise TableError("the rows do not all have as many cells as the first line")


def _number(cell: str) -> float:
    """Return the float that a cell means, NaN where it is empty; ValueError if it means none."""
    if "_" in cell:  # Python's own spelling of numbers, not a table's
        raise ValueError
    return float(cell) if cell.strip() else float("nan")


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return bool(cell.strip())


def _chosen(columns: str | None, header: Sequence[str] | None, width: int) -> list[int]:
    """Return the numbers of the columns that ``columns`` asks for."""
    if columns is None:
        return list(range(width))
    asked = [name.strip() for name in next(csv.reader([columns]), [])]
    if not asked:
        raise TableError("columns must name at least one column")
    chosen = [_position(name, header, width) for name in asked]
    if len(set(chosen)) != len(chosen):
        raise TableError("columns must be distinct, since equal columns always FAIL")
    return chosen


def _position(name: str, header: Sequence[str] | None, width: int) -> int:
    """Return the number of one column. A name of the header wins over a number."""
    matches = [j for j, title in enumerate(header or ()) if title.strip() == name]
    if len(matches) > 1:
        raise TableError(f"columns: {name!r} stands more than once in the header; give its number")
    if matches:
        return matches[0]
    if name.isascii() and name.isdigit() and len(name) < 10 and int(name) < width:
        return int(name)
    kind = "neither in the header nor a number" if header else "not a number, and there is no header: use numbers"
    raise TableError(f"columns: {name!r} is {kind} from 0 to {width - 1}")
