"""A picture of an audit: predictions for each layer as curves, measurements as points."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlaw.figures.panels import log_where_wide, one_legend, panels_of
from limitlaw.figures.style import BLACK, COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from limitlaw.torch.table import AuditRow

LABELLED_LAYERS = 26  # most labels on one axis


def audit_figure(rows: "Mapping[str, Sequence[AuditRow]]", title: str = "") -> Any:
    """A panel for each statistic: the prediction with a band of one standard deviation over draws,
    the measured means with error bars, and the limit where it is known. `rows` by where they are
    from: of one module, or of each width.
    """
    last = list(rows.values())[-1]
    names = list(dict.fromkeys(row.statistic for row in last))
    figure, panels = panels_of(names, 2, (5.0, 3.0), title)
    for panel, name in zip(panels, names, strict=True):
        own = {
            where: [row for row in found if row.statistic == name] for where, found in rows.items()
        }
        _draw(panel, own)
    one_legend(figure, 3)
    return figure


def _draw(panel: "Axes", rows: "Mapping[str, Sequence[AuditRow]]") -> None:
    last = list(rows.values())[-1]
    layers = [row.layer for row in last]
    values = []
    for i, (where, found) in enumerate(rows.items()):
        colour = COLOURS[i % len(COLOURS)]
        known = [row for row in found if row.layer in layers]
        values += _curve_and_points(panel, where, known, layers, colour, len(rows) > 1)
    limit = np.array([math.nan if row.limit is None else row.limit[0] for row in last])
    if np.isfinite(limit).any():
        panel.plot(range(len(layers)), limit, color=GREY, lw=1.1, ls="--", label="n → ∞")
    every = math.ceil(len(layers) / LABELLED_LAYERS)
    places, names = range(0, len(layers), every), layers[::every]
    panel.set_xticks(places, names, rotation=60, ha="right", fontsize=7)
    log_where_wide(panel, np.concatenate(values))


def _curve_and_points(
    panel: "Axes",
    where: str,
    rows: "Sequence[AuditRow]",
    layers: Sequence[str],
    colour: str,
    several: bool,
) -> list[np.ndarray]:
    """Draw the curve and the points of one module, or of one width of several, in one colour;
    returns the heights of both.
    """
    x = np.array([layers.index(row.layer) for row in rows])
    curve, spread = np.array([(row.predicted[0], row.spread) for row in rows]).T
    points, errors = np.array([row.measured for row in rows]).T
    panel.plot(x, curve, color=colour, linewidth=1.4, label=f"predicted, {where}")
    if np.isfinite(spread).any():
        low, high = curve - spread, curve + spread
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    bars = np.where(np.isfinite(errors), errors, 0.0)
    label, own = (f"measured, {where}", colour) if several else ("measured", BLACK)
    panel.errorbar(x, points, bars, fmt="o", color=own, markersize=3.5, linewidth=1, label=label)
    return [curve, points]
