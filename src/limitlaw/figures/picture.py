"""The content of a picture, whatever draws it: panels of curves with axes and labels, which are
text with `<i>`, `<sub>` and `<sup>`.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Style:
    """The look of a line (`width` 0: none), dashes in widths of it, and of a marker ("": none)."""

    color: str
    width: float = 1.5
    dash: tuple[float, ...] = ()
    marker: str = ""
    filled: bool = True
    size: float = 4.0  # of the marker

    @property
    def layer(self) -> int:
        """The drawing order, from below: wide lines, solid ones, dashed ones, markers."""
        if not self.width:
            return 3
        return 0 if self.width > 3 else 2 if self.dash else 1


@dataclass(frozen=True)
class Curve:
    """Points in order; `low` and `high` end error bars; without a label it is in no legend."""

    x: np.ndarray
    y: np.ndarray
    style: Style
    label: str = ""
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Band:
    """A strip across the panel between two ordinates."""

    low: float
    high: float
    color: str


@dataclass(frozen=True)
class Field:
    """Filled contours of `values[j, i]`, a power of ten, at (x[i], y[j])."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    levels: np.ndarray
    label: str


@dataclass(frozen=True)
class PlotAxis:
    """An axis: `ticks` are (value, text), () for automatic ones; `limits` (low, high) or None."""

    label: str
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn in it, in the order of the legend."""

    x: PlotAxis
    y: PlotAxis
    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    field: Field | None = None
    title: str = ""
    # a corner for a legend of its own; else its curves are in that of the picture
    legend: str = ""


@dataclass(frozen=True)
class Picture:
    """Panels in rows of equal length, with one legend below; the size is in inches."""

    rows: tuple[tuple[Panel, ...], ...]
    size: tuple[float, float] = (7.0, 3.3)
    legend_columns: int = 2

    @property
    def panels(self) -> list[Panel]:
        """All panels, row after row."""
        return [panel for row in self.rows for panel in row]
