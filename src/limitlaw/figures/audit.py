"""What was predicted for each layer, a curve, and what was measured, points."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limitlaw.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION

COLUMNS, PANEL = 2, (5.0, 3.0)  # inches
MOST_NAMES = 26  # of layers on one axis
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)


def audit_figure(rows: Mapping[str, Sequence[Any]], title: str = "") -> Any:
    """A panel for each statistic: the prediction with a band of one standard deviation over draws,
    the measured means with error bars, and the limit where it is known. `rows` by where they are
    from: of one module, or of each width.
    """
    from matplotlib.figure import Figure

    last = list(rows.values())[-1]
    names = list(dict.fromkeys(row.statistic for row in last))
    columns = min(COLUMNS, max(1, len(names)))
    height = math.ceil(len(names) / columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * height + 0.7), layout="constrained")
    panels = figure.subplots(max(1, height), columns, squeeze=False).reshape(-1)
    for panel, name in zip(panels, names, strict=False):
        _draw(
            panel,
            {
                where: [row for row in found if row.statistic == name]
                for where, found in rows.items()
            },
        )
        panel.set_title(name, fontsize=9)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    handles = {
        label: h
        for panel in panels
        for h, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False
    )
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(panel: Any, rows: Mapping[str, Sequence[Any]]) -> None:
    layers = [row.layer for row in list(rows.values())[-1]]
    several = len(rows) > 1
    values = []
    for i, (where, found) in enumerate(rows.items()):
        colour = COLOURS[i % len(COLOURS)]
        values += _curve_and_points(
            panel, where, found, layers, colour, colour if several else BLACK
        )
    limits = [row.limit for row in list(rows.values())[-1]]
    limit = np.array([math.nan if one is None else one[0] for one in limits])
    if np.isfinite(limit).any():
        panel.plot(
            range(len(layers)), limit, color=GREY, linewidth=1.1, linestyle="--", label="n → ∞"
        )
    _finish(panel, layers, np.concatenate(values))


def _curve_and_points(
    panel: Any,
    where: str,
    rows: Sequence[Any],
    layers: Sequence[str],
    curve_colour: str,
    point_colour: str,
) -> list[np.ndarray]:
    x = np.array([layers.index(row.layer) for row in rows if row.layer in layers])
    rows = [row for row in rows if row.layer in layers]
    curve, spread = (
        np.array([row.predicted[0] for row in rows]),
        np.array([row.spread for row in rows]),
    )
    points, errors = (np.array([row.measured[i] for row in rows]) for i in (0, 1))
    panel.plot(x, curve, color=curve_colour, linewidth=1.4, label=f"predicted, {where}")
    if np.isfinite(spread).any():
        panel.fill_between(
            x, curve - spread, curve + spread, color=curve_colour, alpha=0.15, linewidth=0
        )
    bars = np.where(np.isfinite(errors), errors, 0.0)
    label = "measured" if point_colour == BLACK else f"measured, {where}"
    panel.errorbar(
        x, points, bars, fmt="o", color=point_colour, markersize=3.5, linewidth=1, label=label
    )
    return [curve, points]


def _finish(panel: Any, layers: Sequence[str], values: np.ndarray) -> None:
    every = math.ceil(len(layers) / MOST_NAMES)
    panel.set_xticks(
        range(0, len(layers), every), layers[::every], rotation=60, ha="right", fontsize=7
    )
    panel.tick_params(axis="y", labelsize=8)
    panel.grid(alpha=0.25, linewidth=0.5)
    if np.isfinite(values).all() and values.min() > 0 and values.max() > 30 * values.min():
        panel.set_yscale("log")
