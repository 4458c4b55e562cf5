"""Reading tables: curves and rows."""

import math
from typing import NamedTuple

import numpy as np

from limitlaw.digits import compact
from limitlaw.paper.estimators import Estimate, slope
from limitlaw.runs.tables import Table

SIGMAS = 5.0  # standard errors that a figure may be off


class Curve(NamedTuple):
    """Divergences over widths, in rising order."""

    width: np.ndarray
    kl: np.ndarray
    error: np.ndarray

    def since(self, width: int | float) -> "Curve":
        """From this width on."""
        late = self.width >= width
        return Curve(self.width[late], self.kl[late], self.error[late])

    @property
    def falls(self) -> bool:
        """Does it fall from each width to the next, beyond the errors?"""
        steps = np.diff(self.kl)
        return bool((steps < -SIGMAS * np.hypot(self.error[1:], self.error[:-1])).all())

    @property
    def slope(self) -> Estimate:
        """Of log D against log n; nan where D is not positive."""
        return slope(self.width, self.kl, self.error) if (self.kl > 0).all() else Estimate(math.nan, math.nan)

    def __str__(self) -> str:
        return ", ".join(compact(*point) for point in zip(self.kl, self.error, strict=True))


def curve(table: Table, estimator: str = "exact", reference: str = "limit") -> Curve:
    """The divergences of a table by one estimator."""
    chosen = (table["estimator"] == estimator) & (table["reference"] == reference)
    order = np.argsort(table["width"][chosen], kind="stable")
    return Curve(*(table[name][chosen][order] for name in ("width", "kl", "error")))


def row(table: Table, **values: object) -> dict[str, float]:
    """The numbers of the one row that has these values."""
    chosen = np.ones(len(next(iter(table.values()))), bool)
    for name, value in values.items():
        chosen &= table[name] == value
    return {name: float(column[chosen][0]) for name, column in table.items() if column.dtype.kind in "if"}


def agree(value: float, error: float, expected: float, margin: float = 0.0) -> bool:
    """Within five standard errors, beside the margin of what is expected."""
    return bool(abs(value - expected) <= SIGMAS * math.hypot(error, margin))
