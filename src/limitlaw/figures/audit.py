"""What was predicted for each layer, a curve, and what was measured, points."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limitlaw.figures.style import BLACK, BLUE, GREY

COLUMNS, PANEL = 2, (5.0, 3.0)  # inches
MOST_NAMES = 26  # of layers on one axis


def audit_figure(rows: Sequence[Any], where: str, title: str = "") -> Any:
    """A panel for each statistic: the prediction with a band of one standard deviation over draws, the measured means
    with error bars, and the limit where it is known.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.statistic for row in rows))
    columns = min(COLUMNS, max(1, len(names)))
    height = math.ceil(len(names) / columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * height + 0.7), layout="constrained")
    panels = figure.subplots(max(1, height), columns, squeeze=False).reshape(-1)
    for panel, name in zip(panels, names, strict=False):
        _draw(panel, [row for row in rows if row.statistic == name], where)
        panel.set_title(name, fontsize=9)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    handles = {label: h for panel in panels for h, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(panel: Any, rows: Sequence[Any], where: str) -> None:
    x = np.arange(len(rows))
    curve, spread = np.array([row.predicted[0] for row in rows]), np.array([row.spread for row in rows])
    points, errors = (np.array([row.measured[i] for row in rows]) for i in (0, 1))
    panel.plot(x, curve, color=BLUE, linewidth=1.4, label=f"predicted, {where}")
    if np.isfinite(spread).any():
        panel.fill_between(x, curve - spread, curve + spread, color=BLUE, alpha=0.15, linewidth=0)
    limit = np.array([math.nan if row.limit is None else row.limit for row in rows])
    if np.isfinite(limit).any():
        panel.plot(x, limit, color=GREY, linewidth=1.1, linestyle="--", label="n → ∞")
    bars = np.where(np.isfinite(errors), errors, 0.0)
    panel.errorbar(x, points, bars, fmt="o", color=BLACK, markersize=3.5, linewidth=1, label="measured")
    _finish(panel, [row.layer for row in rows], np.concatenate([curve, points]))


def _finish(panel: Any, layers: Sequence[str], values: np.ndarray) -> None:
    every = math.ceil(len(layers) / MOST_NAMES)
    panel.set_xticks(range(0, len(layers), every), layers[::every], rotation=60, ha="right", fontsize=7)
    panel.tick_params(axis="y", labelsize=8)
    panel.grid(alpha=0.25, linewidth=0.5)
    if np.isfinite(values).all() and values.min() > 0 and values.max() > 30 * values.min():
        panel.set_yscale("log")
