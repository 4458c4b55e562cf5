"""Panels of how fast finite widths approach the limit: the divergence against the width."""

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.reading import distinct, length, ordered, where
from limitlaw.apps.reports.scales import guide, measured, positive, positive_limits, power_axis
from limitlaw.figures import style
from limitlaw.figures.picture import Band, Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Table

KL_COLUMNS = ("heads", "width", "estimator", "reference", "kl", "error", "samples")
NOISE_FLOOR = {"kde_floor": ("samples", "kl", "error")}
KL_TEXT = (
    "Squares: the paper's estimator, from two KDEs on a common grid, mean ± standard deviation "
    "over the trials. Circles: the same divergence between the exact laws, ± its standard error."
)


def divergences(table: Table, floor: Table | None = None) -> Picture:
    """The panel as a picture of its own."""
    return Picture(((divergence_panel(table, floor),),), (4.6, 3.5))


def divergence_panel(table: Table, floor: Table | None = None) -> Panel:
    """The divergence by each estimator from each reference, and the noise floor of KDEs."""
    groups = [(e, r) for r in ("limit", "fixed_d") for e in ("exact", "kde")]
    several = len(distinct(table, "reference")) > 1

    def name(estimator: str, reference: str) -> str:
        against = f", {look.REFERENCES[reference]}" if several else ""
        return look.ESTIMATORS[estimator] + against

    parts = {
        group: ordered(where(table, estimator=group[0], reference=group[1]), "width")
        for group in groups
    }
    parts = {group: rows for group, rows in parts.items() if length(rows)}
    limits = positive_limits(
        table["kl"], np.add(table["kl"], table["error"]), _level(table, floor)[:1], room=3.0
    )
    curves = [
        c
        for group, rows in parts.items()
        for c in measured(
            rows["width"],
            rows["kl"],
            rows["error"],
            limits[0],
            look.KL_STYLES[group],
            name(*group),
        )
    ]
    one_law = len(distinct(table, "heads")) == 1
    if (
        one_law
        and np.sum(positive(parts.get(("exact", "limit"), {"kl": np.zeros(0)})["kl"]) > 0) > 1
    ):
        curves.append(
            guide(parts["exact", "limit"]["width"], positive(parts["exact", "limit"]["kl"]), -2)
        )
        limits = (min(limits[0], float(curves[-1].y.min()) / 2), limits[1])
    x = power_axis(_abscissa(table), [float(w) for w in distinct(table, "width")])
    line, bands = _floor(x, _level(table, floor))
    ordinate = PlotAxis(f"{look.KL}(finite ‖ limit)", True, limits=limits)
    return Panel(x, ordinate, (*curves, *line), bands, legend="lower left")


def _abscissa(table: Table) -> str:
    """The label of the width and, where the number of heads grows with it, how."""
    ratio = np.unique(np.asarray(table["width"]) / np.asarray(table["heads"]))
    grows = len(ratio) == 1 and len(distinct(table, "heads")) > 1
    return "width <i>n</i>" + (f" = {style.number(ratio[0])} <i>H</i>" if grows else "")


def _level(table: Table, floor: Table | None) -> np.ndarray:
    """The noise floor and its error at the sample count of the estimates, or nothing."""
    estimates = where(table, estimator="kde")
    if floor is None or not length(estimates):
        return np.zeros(0)
    rows = where(floor, samples=np.max(estimates["samples"]))
    if not length(rows):
        return np.zeros(0)
    return np.nan_to_num(np.array([rows["kl"][0], rows["error"][0]], dtype=float))


def _floor(x: PlotAxis, level: np.ndarray) -> tuple[tuple[Curve, ...], tuple[Band, ...]]:
    """The noise floor as a line and a band across the panel."""
    if not len(level) or level[0] <= 0:
        return (), ()
    kl, error = float(level[0]), float(level[1])
    ends = np.array(x.limits, dtype=float)
    line = Curve(ends, np.full(2, kl), look.NOISE_LEVEL, "noise floor of the KDE")
    return (line,), (Band(max(kl - error, kl / 10), kl + error, style.BAND),)
