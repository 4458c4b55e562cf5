"""Reading tables, columns of equal length by name: rows, and divergences over widths."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from limitlaw.apps.paper.computed.estimators import Estimated, slope
from limitlaw.digits import compact
from limitlaw.runs import Table

Tables = Mapping[str, Table]
SIGMAS = 5.0  # standard errors that a number may be off


def length(table: Table) -> int:
    """The number of rows of a table."""
    return len(next(iter(table.values()), ()))


def where(table: Table, **equal: Any) -> Table:
    """The rows whose columns equal the given values."""
    keep = np.ones(length(table), dtype=bool)
    for column, value in equal.items():
        keep &= np.asarray(table[column]) == value
    return {column: np.asarray(values)[keep] for column, values in table.items()}


def row(table: Table, **equal: Any) -> dict[str, float]:
    """The numbers of the one row that has these values."""
    chosen = where(table, **equal)
    return {name: float(column[0]) for name, column in chosen.items() if column.dtype.kind in "if"}


def distinct(table: Table, column: str) -> list[Any]:
    """The values of a column, sorted, each once."""
    return [value.item() for value in np.unique(np.asarray(table[column]))]


def finite(values: list[Any]) -> list[Any]:
    """The values that are not infinite, such as the widths beside their limit."""
    return [value for value in values if math.isfinite(value)]


def ordered(table: Table, column: str) -> Table:
    """The table with its rows in the order of a column."""
    order = np.argsort(np.asarray(table[column]), kind="stable")
    return {name: np.asarray(values)[order] for name, values in table.items()}


def once(table: Table, column: str) -> Table:
    """The table with one row for each value of a column, in the order of these."""
    _, first = np.unique(np.asarray(table[column]), return_index=True)
    return {name: np.asarray(values)[first] for name, values in table.items()}


class KLCurve(NamedTuple):
    """Divergences over widths, in rising order."""

    width: np.ndarray
    kl: np.ndarray
    error: np.ndarray

    def since(self, width: int | float) -> "KLCurve":
        """The part of the curve from this width on."""
        late = self.width >= width
        return KLCurve(self.width[late], self.kl[late], self.error[late])

    @property
    def falls(self) -> bool:
        """Does the divergence fall from each width to the next, beyond the errors?"""
        steps = np.diff(self.kl)
        return bool((steps < -SIGMAS * np.hypot(self.error[1:], self.error[:-1])).all())

    @property
    def slope(self) -> Estimated:
        """The slope of log D against log n; nan where D is not positive."""
        if not (self.kl > 0).all():
            return Estimated(math.nan, math.nan)
        return slope(self.width, self.kl, self.error)

    def __str__(self) -> str:
        return ", ".join(compact(*point) for point in zip(self.kl, self.error, strict=True))


def curve(table: Table, estimator: str = "exact", reference: str = "limit") -> KLCurve:
    """The divergences of a table by one estimator."""
    chosen = ordered(where(table, estimator=estimator, reference=reference), "width")
    return KLCurve(*(chosen[name] for name in ("width", "kl", "error")))


def agree(value: float, error: float, expected: float, margin: float = 0.0) -> bool:
    """Is a number, known to within `margin`, within five standard errors of the expected one?"""
    return bool(abs(value - expected) <= SIGMAS * math.hypot(error, margin))
