"""Pictures of statistics along depth, of coordinate checks, and of phase diagrams."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlaw.figures.panels import log_where_wide, one_legend, panels_of
from limitlaw.figures.style import COLOURS, DASHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from limitlaw.depth.coordinates import CoordinateCheck
    from limitlaw.depth.network import ScaleGrid
    from limitlaw.depth.table import Trace


def depth_figure(traces: "Sequence[Trace]", title: str = "") -> "Figure":
    """A panel for each statistic: means with error bars, in a band of one standard deviation."""
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


def coordinate_figure(check: "CoordinateCheck", title: str = "") -> "Figure":
    """mean |Δ| against the width, both logarithmic: theory as lines, with a band of one standard
    error, dashed as n → ∞, and measured points.
    """
    figure, (panel,) = panels_of([""], 1, (5.2, 3.6), title)
    widths = np.asarray(check.widths)
    finite = np.isfinite(widths)
    pairs = zip(itertools.cycle(COLOURS), check.theory.items(), strict=False)
    for colour, (name, theory) in pairs:
        value, error = theory.value[finite], theory.error[finite]
        panel.plot(widths[finite], value, color=colour, label=name, linewidth=1.4)
        panel.fill_between(
            widths[finite], value - error, value + error, color=colour, alpha=0.2, linewidth=0
        )
        for height in theory.value[~finite & (theory.value > 0)]:
            panel.axhline(height, color=colour, linewidth=1.0, linestyle=(0, DASHED))
        if name in check.measured:
            value, error, _ = (a[finite] for a in check.measured[name])
            look: dict[str, Any] = {"color": colour, "linestyle": "", "marker": "o"}
            panel.errorbar(widths[finite], value, yerr=error, markersize=3.5, **look)
    panel.set_xscale("log", base=2)
    panel.set_xticks(widths[finite], [f"{width:.0f}" for width in widths[finite]])
    panel.set_xlabel("width $n$", fontsize=8)
    panel.set_ylabel(r"mean $|\Delta|$ in one step", fontsize=8)
    _a_decade_at_least(panel)
    one_legend(figure, len(check.theory))
    return figure


def _a_decade_at_least(panel: "Axes") -> None:
    """A logarithmic ordinate on which small differences look small."""
    panel.set_yscale("log")
    panel.tick_params(labelsize=8, which="both")
    low, high = panel.get_ylim()
    middle = (low * high) ** 0.5
    panel.set_ylim(min(low, middle / 10**0.5), max(high, middle * 10**0.5))


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
