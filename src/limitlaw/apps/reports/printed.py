"""Pictures by matplotlib, for print: PDF and PNG with the same bytes each time."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlaw.figures.picture import Curve, Field, Panel, Picture, PlotAxis, Style
from limitlaw.figures.style import MARKERS, mathtext
from limitlaw.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

DPI = 200
# Matplotlib has these for the whole process only; the lock keeps threads from seeing each other's.
_SETTINGS: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 10,
    "axes.linewidth": 0.7,
    "axes.titlesize": 10,
    "legend.fontsize": 9,
    "pdf.fonttype": 42,  # TrueType, which journals ask for
}
_LOCK = threading.Lock()
_METADATA: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


def write(picture: Picture, folder: Path, name: str) -> list[Path]:
    """`name`.pdf and `name`.png in the folder, each complete or not there at all."""
    import matplotlib

    with _LOCK, matplotlib.rc_context(_SETTINGS):
        figure = draw(picture)
        for kind, metadata in _METADATA.items():
            with replacing(folder / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
        return [folder / f"{name}.{kind}" for kind in _METADATA]


def draw(picture: Picture) -> "Figure":
    """A figure with the panels, laid out, and one legend below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=picture.size, dpi=DPI, layout="constrained")
    grid = figure.subplots(len(picture.rows), len(picture.rows[0]), squeeze=False)
    for axes, panel in zip(grid.flat, picture.panels, strict=True):
        _panel(axes, panel)
    square = [axes for axes in grid.flat if axes.collections and axes.get_aspect() == 1]
    fields = [axes.collections[0] for axes in square]
    if fields:
        _colour_bar(figure, fields[0], grid, picture.rows[0][0].field)
    _legend(figure, picture, grid)
    # laid out once for both files: it takes longer than drawing
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine("none")
    return figure


def _legend(figure: "Figure", picture: Picture, grid: np.ndarray) -> None:
    """Put one legend below, with each label once; panels with a legend of their own keep it."""
    look: dict[str, Any] = {"handlelength": 3.0, "columnspacing": 1.4}
    entries: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, picture.panels, strict=True):
        found = _entries(axes, panel)
        if panel.legend:
            frame = {"loc": panel.legend, "framealpha": 0.9, "edgecolor": "none"}
            axes.legend(found.values(), found, **frame, **look)
        else:
            entries |= {label: handle for label, handle in found.items() if label not in entries}
    if entries:
        look |= {"loc": "outside lower center", "ncols": picture.legend_columns, "frameon": False}
        figure.legend(entries.values(), entries, **look)


def _entries(axes: "Axes", panel: Panel) -> dict[str, Any]:
    """The handle for each label, in the order of the curves (matplotlib puts error bars last)."""
    handles, labels = axes.get_legend_handles_labels()
    # the first curve of a label counts
    found = dict(zip(reversed(labels), reversed(handles), strict=True))
    wanted = [mathtext(curve.label) for curve in panel.curves if curve.label]
    return {label: found[label] for label in wanted}


def _panel(axes: "Axes", panel: Panel) -> None:
    """Draw one panel into its axes."""
    scales = {"xscale": panel.x, "yscale": panel.y}
    axes.set(**{name: "log" for name, axis in scales.items() if axis.log})
    _axis(axes.xaxis, panel.x)
    _axis(axes.yaxis, panel.y)
    for band in panel.bands:
        axes.axhspan(band.low, band.high, color=band.color, linewidth=0, zorder=0)
    for curve in panel.curves:
        _curve(axes, curve)
    if panel.field is not None:
        _field(axes, panel.field)
    axes.grid(alpha=0.3, linewidth=0.4)
    axes.set_axisbelow(True)
    axes.set_title(mathtext(panel.title))
    axes.set(xlim=panel.x.limits, ylim=panel.y.limits)


def _axis(drawn: "XAxis | YAxis", axis: PlotAxis) -> None:
    """Set label and ticks of an axis; limits come last, since plotting changes them."""
    drawn.set_label_text(mathtext(axis.label))
    if axis.log:
        drawn.set_minor_formatter("")
    if axis.ticks:
        drawn.set_ticks(*map(list, zip(*axis.ticks, strict=True)))
        drawn.set_ticks([], minor=True)


def _curve(axes: "Axes", curve: Curve) -> None:
    """Draw a line, markers or both, with error bars if the curve has them."""
    look = _look(curve.style)
    label = mathtext(curve.label) or "_nolegend_"
    if curve.low is None or curve.high is None:
        axes.plot(curve.x, curve.y, label=label, **look)
        return
    bars = np.array([curve.y - curve.low, curve.high - curve.y])
    axes.errorbar(curve.x, curve.y, bars, label=label, capsize=2.5, elinewidth=0.9, **look)


def _look(style: Style) -> dict[str, Any]:
    """A style as matplotlib's keyword arguments."""
    return {
        "color": style.color,
        "linestyle": ((0, style.dash) if style.dash else "-") if style.width else "none",
        "linewidth": style.width,
        "dash_capstyle": "butt",
        "marker": MARKERS[style.marker][0] if style.marker else "none",
        "markersize": style.size,
        "markerfacecolor": style.color if style.filled else "white",
        "markeredgewidth": 0.9,
        "zorder": 2 + 0.1 * style.layer,
    }


def _field(axes: "Axes", field: Field) -> None:
    """Draw filled contours with thin lines between them, in equal scales."""
    grid = (field.x, field.y, field.values)
    axes.contourf(*grid, levels=field.levels, cmap="viridis", extend="min")
    axes.contour(*grid, levels=field.levels, colors="white", linewidths=0.5, linestyles="solid")
    axes.set_aspect("equal")


def _colour_bar(
    figure: "Figure", mappable: "ScalarMappable", grid: np.ndarray, field: Field | None
) -> None:
    """Add one colour bar for all panels, in powers of ten."""
    assert field is not None
    whole = [level for level in field.levels if float(level).is_integer()]
    bar = figure.colorbar(mappable, ax=list(grid.flat), ticks=whole, shrink=0.9)
    bar.ax.set_yticklabels([f"$10^{{{int(level)}}}$" for level in whole])
    bar.set_label(mathtext(field.label))
