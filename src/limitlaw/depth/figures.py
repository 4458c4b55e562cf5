"""Pictures of statistics along depth, and of phase diagrams."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlaw.figures.panels import log_where_wide, one_legend, panels_of
from limitlaw.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from limitlaw.depth.network import ScaleGrid
    from limitlaw.depth.table import Trace


def depth_figure(traces: "Sequence[Trace]", title: str = "") -> "Figure":
    """A panel for each statistic: means with error bars, and a band of one standard deviation over
    draws.
    """
    labels = {name: label for trace in reversed(traces) for name, label in trace.labels.items()}
    names = list(dict.fromkeys(name for trace in traces for name in trace))
    figure, panels = panels_of([labels[name] for name in names], 3, (3.4, 2.5), title)
    for panel, name in zip(panels, names, strict=True):
        for colour, trace in zip(COLOURS * len(traces), traces, strict=False):
            if name in trace.columns:
                _draw(panel, trace, name, colour)
        _finish(panel)
    one_legend(figure, len(traces))
    return figure


def _draw(panel: "Axes", trace: "Trace", name: str, colour: str) -> None:
    column = trace.columns[name]
    look: dict[str, Any] = {"color": colour, "label": trace.where, "linewidth": 1.4}
    if trace.width is not None:
        look |= {"marker": "o", "markersize": 3}
    panel.errorbar(trace.layers, column.value, yerr=column.error, **look)
    low, high = column.value - column.spread, column.value + column.spread
    if np.isfinite(low).any():
        panel.fill_between(trace.layers, low, high, color=colour, alpha=0.15, linewidth=0)


def _finish(panel: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    panel.set_xlabel("layer", fontsize=8)
    values = [np.asarray(line.get_ydata(), float) for line in panel.get_lines()]
    log_where_wide(panel, np.concatenate([np.zeros(0), *values]))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def phase_figure(
    table: Mapping[str, np.ndarray], across: "ScaleGrid", up: "ScaleGrid", label: str, title: str
) -> "Figure":
    """A map of a statistic over two scales, with lines of equal value."""
    from matplotlib.figure import Figure

    x, y = np.asarray(across.values), np.asarray(up.values)
    z = np.asarray(table["value"]).reshape(len(y), len(x))
    figure = Figure(figsize=(6.2, 4.8), layout="constrained")
    panel = figure.subplots()
    colours = panel.pcolormesh(_edges(across), _edges(up), z, cmap="viridis")
    if np.isfinite(z).all() and np.ptp(z) > 0:
        lines = panel.contour(x, y, z, levels=8, colors="white", linewidths=0.7)
        panel.clabel(lines, fontsize=7)
    xscale, yscale = ("linear" if grid.linear else "log" for grid in (across, up))
    panel.set(xlabel=across.name, ylabel=up.name, xscale=xscale, yscale=yscale)
    panel.set_title(title, fontsize=9)
    figure.colorbar(colours, ax=panel, label=label)
    return figure


def _edges(grid: "ScaleGrid") -> np.ndarray:
    """The borders of cells around the values of a grid."""
    values = np.asarray(grid.values) if grid.linear else np.log(grid.values)
    step = values[1] - values[0]
    edges = np.concatenate([values - step / 2, values[-1:] + step / 2])
    return edges if grid.linear else np.exp(edges)
