"""Panels of densities at finite width beside their limit, in linear scale and in log scale."""

import math
from dataclasses import replace

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.reading import distinct, finite, length, once, where
from limitlaw.apps.reports.scales import positive
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Table

DENSITY_COLUMNS = ("heads", "width", "curve", "y", "density")
DENSITY_TEXT = (
    "Lines are exact: averages of Gaussian densities over the conditions drawn at that width, "
    "nothing smoothed; the wide grey line is the limit, by quadrature. Markers are the paper's "
    "estimator, a Gaussian kernel density estimate (KDE) of one trial."
)

KDE_POINTS = 25  # points of a kernel density estimate
LEAST_DENSITY = 2e-3  # a linear panel ends where the densities are this part of their peak
LEAST_LOG_DENSITY = 1e-8  # a log panel ends at this part of the peak at the latest
OUTPUT = "output coordinate <i>y</i>"
_BELOW = ("limit", "limit_fixed_d", "gaussian")  # drawn first


def widths(table: Table) -> Picture:
    """Densities: a column for each number of heads if they differ, else both scales in a row."""
    heads = distinct(table, "heads")
    if len(heads) == 1:
        return Picture((both(curves_by(table, "width")),), (7.0, 3.4), 5)
    columns = []
    for number in heads:
        own = where(table, heads=number)
        sizes = finite(distinct(own, "width"))
        title = look.group_label("heads", number)
        title += f", {look.group_label('width', sizes[0])}" * (len(sizes) == 1)
        columns.append(both(curves_of_kinds(own), title=title))
    return Picture(tuple(zip(*columns, strict=True)), (7.0, 5.0), 4)


def both(curves: tuple[Curve, ...], title: str = "") -> tuple[Panel, Panel]:
    """Panels of the same curves in the two scales."""
    return linear_panel(curves, title=title), tail_panel(curves, title=title)


def linear_panel(curves: tuple[Curve, ...], title: str = "", variable: str = OUTPUT) -> Panel:
    """A panel of curves in linear scale, where they are not close to 0."""
    x = np.concatenate([curve.x for curve in curves])
    y = np.concatenate([np.nan_to_num(curve.y) for curve in curves])
    inside = x[y > LEAST_DENSITY * y.max()]
    limits = (float(inside.min()), float(inside.max()))
    return Panel(
        PlotAxis(variable, limits=limits),
        PlotAxis(look.DENSITY, limits=(0.0, 1.08 * float(y.max()))),
        curves,
        title=title,
    )


def tail_panel(curves: tuple[Curve, ...], title: str = "", variable: str = OUTPUT) -> Panel:
    """A panel of the tails in log scale, down to the lowest line (estimates may end earlier)."""
    logs = tuple(Curve(c.x, positive(c.y), c.style, c.label) for c in curves)
    x, y = (
        np.concatenate(parts)
        for parts in zip(*((c.x, c.y) for c in logs if c.style.width), strict=True)
    )
    peak = float(np.nanmax(y))
    bottom = max(float(np.nanmin(y)) / 2, LEAST_LOG_DENSITY * peak)
    limits = float(x[y > bottom].min()), float(x[y > bottom].max())
    ordinate = PlotAxis(f"{look.DENSITY}, log scale", True, limits=(bottom, 3 * peak))
    return Panel(PlotAxis(variable, limits=limits), ordinate, logs, title=title)


def curves_by(table: Table, group: str) -> tuple[Curve, ...]:
    """Curves by the values of a column; the limit of widths and the Gaussian are shared by all."""
    shared = [kind for kind in _BELOW if group == "width" or kind == "gaussian"]
    own_rows = {name: column[~np.isin(table["curve"], shared)] for name, column in table.items()}
    values = finite(distinct(own_rows, group))
    places = dict(zip(values, look.places(len(values)), strict=True))
    own = [
        (value, kind)
        for value in values
        for kind in ("limit", "exact", "kde")
        if kind not in shared
    ]
    if group != "width":  # a legend in columns then has one for each kind
        own.sort(key=lambda pair: ("limit", "exact", "kde").index(pair[1]))
    rows = [(where(table, curve=kind, **{group: value}), value, kind) for value, kind in own]
    curves = [
        _curve(some, kind, places[value], look.group_label(group, value))
        for some, value, kind in rows
        if length(some)
    ]
    return (
        *curves,
        *(_curve(where(table, curve=kind), kind) for kind in shared if kind in table["curve"]),
    )


def curves_of_kinds(table: Table) -> tuple[Curve, ...]:
    """Curves told apart by their kind only."""
    kinds = [kind for kind in ("exact", "kde", *_BELOW) if kind in table["curve"]]
    names = {"limit": "limit_wide"} if "limit_fixed_d" in kinds else {}
    labels = {kind: look.curve_label(names.get(kind, kind)) for kind in kinds}
    return tuple(
        replace(_curve(where(table, curve=kind), kind), label=labels[kind]) for kind in kinds
    )


def _curve(rows: Table, kind: str, place: int | None = None, name: str = "") -> Curve:
    """The curve of a density; an estimate has a point only every few rows."""
    variable = "p" if "p" in rows else "y"
    rows = once(rows, variable)  # a table may repeat a limit for each width
    step = max(1, math.ceil(len(rows["density"]) / KDE_POINTS)) if kind == "kde" else 1
    # markers of different groups side by side
    start = step * (place or 0) // 4 if kind == "kde" else 0
    x, y = rows[variable][start % step :: step], rows["density"][start % step :: step]
    return Curve(x, y, look.curve_style(kind, place), look.curve_label(kind, name))
