"""Tables as CSV files whose bytes depend on the table alone."""

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limitlaw.runs.chunks import plain
from limitlaw.runs.disk import one_line_errors, write

Table = dict[str, np.ndarray]  # columns of equal length: float64, int64 or text

INTEGER = re.compile(r"-?\d+", re.ASCII)
FLOAT = re.compile(r"-?(\d+\.\d+|\d+(\.\d+)?e[+-]\d+|inf)|nan", re.ASCII)  # what repr writes


def write_csv(path: str | Path, table: Table) -> None:
    """Write a table atomically: UTF-8, floats with the fewest digits that give them back."""
    columns = [_cells(name, column) for name, column in table.items()]
    if len({len(cells) for cells in columns}) != 1:
        raise ValueError(
            f"columns must have one length, got {dict(zip(table, map(len, columns), strict=True))}"
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*columns, strict=True))
    write(Path(path), text.getvalue().encode())


def read_csv(path: str | Path) -> Table:
    """The table that `write_csv` wrote, with its types; an empty column comes back as float64."""
    with one_line_errors("read", Path(path)):
        text = Path(path).read_bytes().decode()
    names, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns = zip(*lines, strict=True) if lines else [()] * len(names)
    return {name: _column(list(cells)) for name, cells in zip(names, columns, strict=True)}


def rows(*records: Mapping[str, Any]) -> Table:
    """A table of rows; entries that are arrays make as many rows as they are long."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in records[0]}
    for record in records:
        values = np.broadcast_arrays(*(np.atleast_1d(value) for value in record.values()))
        for name, value in zip(record, values, strict=True):
            columns[name].append(value)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _cells(name: str, column: np.ndarray) -> list[str]:
    """The entries of a column as text."""
    column = plain(name, column)
    if column.ndim != 1:
        raise ValueError(f"column {name} must have one axis, got shape {column.shape}")
    cells = [item if isinstance(item, str) else repr(item) for item in column.tolist()]
    if any("\r" in cell for cell in cells):
        raise ValueError(
            f"column {name} holds a carriage return, which versions of Python write differently"
        )
    if cells and _column(cells).dtype.kind != column.dtype.kind:
        raise ValueError(
            f"column {name} holds numbers as text and would be read as numbers: "
            f"{', '.join(cells[:3])}"
        )
    return cells


def _column(cells: list[str]) -> np.ndarray:
    """The array of a column's texts: all integers, all floats, or text."""
    if cells and all(INTEGER.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    if all(FLOAT.fullmatch(cell) for cell in cells):
        return np.array([float(cell) for cell in cells], dtype=np.float64)
    return np.array(cells, dtype=np.str_)
