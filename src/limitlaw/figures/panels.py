"""Several panels in one figure, with one title and one legend for all."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels_of(
    titles: Sequence[str], columns: int, size: tuple[float, float], title: str = ""
) -> tuple["Figure", list["Axes"]]:
    """A figure with a panel of `size` (in inches) for each title, in rows of at most `columns`."""
    from matplotlib.figure import Figure

    columns = max(1, min(columns, len(titles)))
    rows = max(1, math.ceil(len(titles) / columns))
    shape = size[0] * columns, size[1] * rows + 0.7
    figure = Figure(figsize=shape, layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, own in zip(panels, titles, strict=False):
        panel.set_title(own, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.25, linewidth=0.5)
    for panel in panels[len(titles) :]:
        panel.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure, panels[: len(titles)]


def one_legend(figure: "Figure", columns: int) -> None:
    """Put one legend below the panels, with each label once."""
    found = {
        label: handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    look: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(list(found.values()), list(found), **look)


def log_where_wide(panel: "Axes", values: np.ndarray) -> None:
    """Make the ordinate logarithmic for positive values of which some are 30 times others."""
    known = values[np.isfinite(values)]
    if len(known) and known.min() > 0 and known.max() > 30 * known.min():
        panel.set_yscale("log")
