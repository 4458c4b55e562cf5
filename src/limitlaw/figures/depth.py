"""Curves of statistics along depth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from limitlaw.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
PANEL = (3.4, 2.5)  # inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@runtime_checkable
class Trace(Protocol):
    """What is read of statistics along depth: columns with `value`,
    `error` and `spread`, by name.
    """

    @property
    def columns(self) -> Mapping[str, Any]: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def width(self) -> int | None: ...
    @property
    def layers(self) -> np.ndarray: ...
    def __iter__(self) -> Iterator[str]: ...


@runtime_checkable
class Grid(Protocol):
    """A scale and its values."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Sequence[float]: ...


@runtime_checkable
class Phase(Protocol):
    """What was asked for at each point of two grids: a statistic of a network after block `at`."""

    @property
    def network(self) -> Any: ...
    @property
    def x(self) -> Grid: ...
    @property
    def y(self) -> Grid: ...
    @property
    def at(self) -> int: ...
    @property
    def width(self) -> int | None: ...


def depth_figure(traces: Sequence[Trace], title: str = "") -> "Figure":
    """A panel for each statistic: its mean with error bars, and a band of one standard deviation
    over draws.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for trace in traces for name in trace))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for panel, name in zip(panels, names, strict=False):
        for colour, trace in zip(COLOURS * len(traces), traces, strict=False):
            if name in trace.columns:
                _draw(panel, trace, name, colour)
        _finish(panel, next(t.labels[name] for t in traces if name in t.columns))
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(panel: "Axes", trace: Trace, name: str, colour: str) -> None:
    column = trace.columns[name]
    label = "n → ∞" if trace.width is None else f"n = {trace.width}"
    look: dict[str, Any] = {"color": colour, "label": label, "linewidth": 1.4}
    if trace.width is not None:
        look |= {"marker": "o", "markersize": 3}
    panel.errorbar(trace.layers, column.value, yerr=column.error, **look)
    low, high = column.value - column.spread, column.value + column.spread
    if np.isfinite(low).any():
        panel.fill_between(trace.layers, low, high, color=colour, alpha=0.15, linewidth=0)


def _finish(panel: "Axes", label: str) -> None:
    panel.set_title(label, fontsize=9)
    panel.set_xlabel("layer", fontsize=8)
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.25, linewidth=0.5)
    values = np.concatenate([line.get_ydata() for line in panel.get_lines()] or [np.zeros(1)])
    positive = values[np.isfinite(values)]
    if len(positive) and positive.min() > 0 and positive.max() > 30 * positive.min():
        panel.set_yscale("log")
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def phase_figure(table: Mapping[str, np.ndarray], asked: Phase, label: str) -> "Figure":
    """A map of a statistic over two scales, with lines of equal value."""
    from matplotlib.figure import Figure

    x, y = np.asarray(asked.x.values), np.asarray(asked.y.values)
    z = np.asarray(table["value"]).reshape(len(y), len(x))
    figure = Figure(figsize=(6.2, 4.8), layout="constrained")
    panel = figure.subplots()
    colours = panel.pcolormesh(_edges(asked.x), _edges(asked.y), z, cmap="viridis")
    if np.isfinite(z).all() and np.ptp(z) > 0:
        lines = panel.contour(x, y, z, levels=8, colors="white", linewidths=0.7)
        panel.clabel(lines, fontsize=7)
    for axis, grid in ((panel.xaxis, asked.x), (panel.yaxis, asked.y)):
        axis.set_label_text(grid.name)
    for scale, grid in ((panel.set_xscale, asked.x), (panel.set_yscale, asked.y)):
        scale("linear" if grid.name == "correlation" else "log")
    where = "n → ∞" if asked.width is None else f"n = {asked.width}"
    panel.set_title(f"{label} after block {asked.at}, {where}\n{asked.network.title}", fontsize=9)
    figure.colorbar(colours, ax=panel, label=label)
    return figure


def _edges(grid: Grid) -> np.ndarray:
    """The borders of cells around the values of a grid, which are spaced evenly or evenly in
    logarithms.
    """
    linear = grid.name == "correlation"
    values = np.asarray(grid.values) if linear else np.log(grid.values)
    step = values[1] - values[0]
    edges = np.concatenate([values - step / 2, values[-1:] + step / 2])
    return edges if linear else np.exp(edges)
