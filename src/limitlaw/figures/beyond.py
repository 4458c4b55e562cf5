"""What the paper does not show: many heads, narrow heads, two tokens together, and Theorem 3.1 itself."""

import math

import numpy as np

from limitlaw.figures import style
from limitlaw.figures.convergence import measured
from limitlaw.figures.densities import tail_panel
from limitlaw.figures.picture import Axis, Curve, Field, Panel, Picture, Style
from limitlaw.figures.scales import guide, positive, positive_limits, power_axis
from limitlaw.figures.tables import Table, distinct, finite, ordered, where

DECADES = 4.0  # of a joint density below its peak
KURTOSIS = "excess kurtosis"


def heads(table: Table) -> Picture:
    """Excess kurtosis and divergence from the Gaussian against the number of heads."""
    table = ordered(table, "heads")
    kurtosis = _powers(table, "kurtosis", KURTOSIS, -1)
    kl = _powers(table, "kl", f"{style.KL}(<i>H</i> heads ‖ Gaussian)", -2)
    return Picture(((kurtosis, kl),), (7.0, 3.3), 3)


def _powers(table: Table, column: str, label: str, slope: int) -> Panel:
    x, y = table["heads"], positive(table[column])
    limits = positive_limits(y, 0.25 * y)
    curves = (Curve(x, y, style.POINTS, "exact"), guide(x, y, slope))
    return Panel(
        power_axis("number of heads <i>H</i>", [float(h) for h in x]), Axis(label, True, limits=limits), curves
    )


def head_dims(table: Table | None, density: Table | None) -> Picture:
    """Narrow heads: densities, variance, excess kurtosis and divergence from the n × n limit."""
    panels = [] if density is None else [_dimension_densities(density)]
    if table is not None:
        table = ordered(table, "head_dim")
        panels += [_level(table, "variance", "variance"), _level(table, "kurtosis", KURTOSIS), _dimension_kl(table)]
    pairs = (
        tuple(tuple(panels[i : i + 2]) for i in range(0, len(panels) - 1, 2)) if len(panels) == 4 else (tuple(panels),)
    )
    return Picture(pairs, (7.0, 5.6 if len(pairs) == 2 else 3.3), 4)


def _dimension_densities(table: Table) -> Panel:
    dims = finite(distinct(table, "head_dim"))
    curves = [
        _density(where(table, head_dim=d), style.curve_style("exact", place), style.group_label("head_dim", d))
        for d, place in zip(dims, style.places(len(dims)), strict=True)
    ]
    if math.inf in table["head_dim"]:
        rows = where(table, head_dim=math.inf)
        curves.append(_density(rows, style.curve_style("limit"), style.WIDE_HEADS))
    return tail_panel(tuple(curves))


def _density(rows: Table, look: Style, label: str) -> Curve:
    rows = ordered(rows, "y")
    return Curve(rows["y"], rows["density"], look, label)


def _level(table: Table, column: str, label: str) -> Panel:
    """A moment against the head dimension, with its value for wide heads as a line across."""
    narrow = {name: values[np.isfinite(table["head_dim"])] for name, values in table.items()}
    x = _dimension_axis(narrow)
    curves = [Curve(narrow["head_dim"], narrow[column], style.POINTS, style.FIXED_HEADS)]
    for level in table[column][np.isinf(table["head_dim"])][:1]:
        ends = np.array(x.limits, dtype=float)
        curves.append(Curve(ends, np.full(2, level), style.curve_style("limit"), style.WIDE_HEADS))
    return Panel(x, Axis(label, limits=_around(table[column])), tuple(curves))


def _around(values: np.ndarray) -> tuple[float, float]:
    """A range with room on both sides."""
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.07 * (high - low or abs(high) or 1.0)
    return low - room, high + room


def _dimension_kl(table: Table) -> Panel:
    narrow = {name: values[np.isfinite(table["head_dim"])] for name, values in table.items()}
    line = guide(narrow["head_dim"], positive(narrow["kl"]), -2)
    limits = positive_limits(narrow["kl"], line.y)
    curves = measured(narrow, "head_dim", "kl", limits[0], style.POINTS, style.FIXED_HEADS)
    label = f"{style.KL}(fixed <i>d</i> ‖ <i>n</i> × <i>n</i>)"
    return Panel(_dimension_axis(narrow), Axis(label, True, limits=limits), (*curves, line))


def _dimension_axis(narrow: Table) -> Axis:
    return power_axis("head dimension <i>d</i>", [float(d) for d in narrow["head_dim"]])


def joint(table: Table) -> Picture:
    """The joint density of two tokens beside the Gaussian with the same covariance."""
    y1, y2 = np.unique(table["y1"]), np.unique(table["y2"])
    order = np.lexsort((table["y1"], table["y2"]))
    titles = {"density": "one head, limit", "gaussian": "Gaussian, same covariance"}
    grids = {column: _settled(table[column][order].reshape(len(y2), len(y1))) for column in titles}
    top = math.ceil(2 * math.log10(max(float(np.max(grid)) for grid in grids.values()))) / 2
    levels = np.arange(top - DECADES, top + 0.25, 0.5)
    panels = []
    for column, title in titles.items():
        logs = np.log10(np.maximum(grids[column], 10 ** (levels[0] - 1)))
        panels.append(
            Panel(_token(1, y1), _token(2, y2), field=Field(y1, y2, logs, levels, style.DENSITY), title=title)
        )
    return Picture((tuple(panels),), (7.0, 3.4), 1)


def _settled(grid: np.ndarray) -> np.ndarray:
    """A density that may be infinite on a line: such points are drawn as high as the highest of their neighbours."""
    finite_part = np.where(np.isfinite(grid), grid, 0.0)
    around = np.pad(finite_part, 1)
    highest = np.maximum.reduce([around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]])
    return np.where(np.isfinite(grid), grid, highest)


def _token(index: int, y: np.ndarray) -> Axis:
    return Axis(f"<i>y</i><sup>{index}</sup>", limits=(float(y[0]), float(y[-1])))


def theorem(table: Table, constant: Table | None) -> Picture:
    """The distribution of an average over coordinates for growing width, and its random limit."""
    parts = ("cdf", "distribution function"), ("pdf", style.DENSITY)
    panels = [_average(table, constant, *part) for part in parts if np.isfinite(table[part[0]]).any()]
    return Picture((tuple(panels),), (7.0 if len(panels) == 2 else 4.6, 3.4), 3)


def _average(table: Table, constant: Table | None, column: str, label: str) -> Panel:
    rows = {name: values[np.isfinite(table[column])] for name, values in table.items()}
    values = distinct(table, "width")
    places = dict(zip(finite(values), style.places(len(finite(values))), strict=True))
    curves = []
    for width in distinct(rows, "width"):
        some = ordered(where(rows, width=width), "t")
        look = style.curve_style("exact", places[width]) if width in places else style.curve_style("limit")
        curves.append(Curve(some["t"], some[column], look, style.group_label("width", width)))
    top = 1.0 if column == "cdf" else 1.08 * float(np.max(rows[column]))
    slope = np.abs(rows["cdf"] - 0.5) < 0.4985 if column == "cdf" else rows["pdf"] > 2e-3 * top
    limits = (float(rows["t"][slope].min()), float(rows["t"][slope].max()))
    if constant is not None:
        ends = np.full(2, float(constant["value"][0]))
        curves.append(Curve(ends, np.array([0.0, top]), style.REFERENCE, "Gaussian theory: a constant"))
    x = Axis("average over coordinates <i>t</i>", limits=limits)
    return Panel(x, Axis(label, limits=(0.0, 1.02 * top if column == "cdf" else top)), tuple(curves))
