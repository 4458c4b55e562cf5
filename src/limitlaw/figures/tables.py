"""Tables as drawing code sees them: columns of equal length by name, one row for each point of each curve."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Table = Mapping[str, np.ndarray]
Tables = Mapping[str, Table]

_DENSITY = ("heads", "width", "curve", "y", "density")
_KL = ("heads", "width", "estimator", "reference", "kl", "error", "samples")
# What a picture reads; further columns and further tables are nobody's business here.
COLUMNS: dict[str, tuple[str, ...]] = {
    **{f"fig{i}_density": _DENSITY for i in (1, 3, 4, 5)},
    **{f"fig{i}_kl": _KL for i in (1, 3, 4, 5)},
    "kde_floor": ("samples", "kl", "error"),
    "fig2a": ("scaling", "curve", "p", "density"),
    "fig2b": ("heads", "curve", "y", "density"),
    "heads": ("heads", "kurtosis", "kl"),
    "head_dim": ("head_dim", "variance", "kurtosis", "kl", "error"),
    "head_dim_density": ("head_dim", "y", "density"),
    "joint": ("y1", "y2", "density", "gaussian"),
    "theorem": ("width", "t", "cdf", "pdf"),
    "theorem_constant": ("value",),
}


def checked(tables: Tables) -> dict[str, Table]:
    """The known tables that have rows; a missing column or columns of different lengths raise."""
    return {name: _checked(name, tables[name]) for name in COLUMNS if name in tables and length(tables[name])}


def _checked(name: str, table: Table) -> Table:
    missing = [column for column in COLUMNS[name] if column not in table]
    if missing:
        raise ValueError(f"table {name} must have the columns {', '.join(COLUMNS[name])}; it lacks {missing[0]}")
    if len({len(column) for column in table.values()}) > 1:
        raise ValueError(f"the columns of table {name} must be equally long")
    return table


def length(table: Table) -> int:
    """How many rows."""
    return len(next(iter(table.values()), ()))


def where(table: Table, **equal: Any) -> dict[str, np.ndarray]:
    """The rows whose columns equal the given values."""
    keep = np.ones(length(table), dtype=bool)
    for column, value in equal.items():
        keep &= np.asarray(table[column]) == value
    return {column: np.asarray(values)[keep] for column, values in table.items()}


def distinct(table: Table, column: str) -> list[Any]:
    """The values of a column, sorted, each once."""
    return [value.item() for value in np.unique(np.asarray(table[column]))]


def finite(values: list[Any]) -> list[Any]:
    """Those that are not infinite, such as the widths beside their limit."""
    return [value for value in values if math.isfinite(value)]


def ordered(table: Table, column: str) -> dict[str, np.ndarray]:
    """The rows in the order of a column."""
    order = np.argsort(np.asarray(table[column]), kind="stable")
    return {name: np.asarray(values)[order] for name, values in table.items()}


def once(table: Table, column: str) -> dict[str, np.ndarray]:
    """One row for each value of a column, in their order."""
    _, first = np.unique(np.asarray(table[column]), return_index=True)
    return {name: np.asarray(values)[first] for name, values in table.items()}


def records(table: Table) -> Iterator[dict[str, Any]]:
    """The rows one by one."""
    for row in zip(*table.values(), strict=True):
        yield dict(zip(table, row, strict=True))
