"""The claims of Theorem 3.1 about averages over coordinates, and their pictures."""

import math

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, distinct, finite, ordered, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.digits import short
from limitlaw.figures import style
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Table


def _random_average(tables: Tables) -> Claim:
    table = tables["theorem_figures"]
    last = np.isfinite(table["width"]).nonzero()[0][-1]
    distance, samples = float(table["distance"][last]), float(table["samples"][last])
    falling = bool((np.diff(table["distance"][: last + 1]) < 1.4 / math.sqrt(samples)).all())
    holds = falling and distance < 0.02 + 1.95 / math.sqrt(samples)
    n = int(table["width"][last])
    claim = (
        "Theorem 3.1: averages over coordinates converge to the predicted random limit (n = "
        f"{n:,})"
    )
    return Claim("theorem", claim, "Kolmogorov distance → 0", f"distance {short(distance)}", holds)


def _no_constant(tables: Tables) -> Claim:
    table = tables["theorem_figures"]
    limit, last = float(table["variance"][-1]), float(table["variance"][-2])
    holds = 0.8 < last / limit < 1.3
    claim = "… and not to a constant, as a Gaussian theory would have it"
    return Claim(
        "theorem", claim, f"variance → {short(limit)}, not 0", f"variance {short(last)}", holds
    )


def averages(table: Table, constant: Table | None) -> Picture:
    """The distribution of an average over coordinates for growing width, and its random limit."""
    parts = ("cdf", "distribution function"), ("pdf", look.DENSITY)
    panels = [
        _panel(table, constant, *part) for part in parts if np.isfinite(table[part[0]]).any()
    ]
    return Picture((tuple(panels),), (7.0 if len(panels) == 2 else 4.6, 3.4), 3)


def _panel(table: Table, constant: Table | None, column: str, label: str) -> Panel:
    rows = {name: values[np.isfinite(table[column])] for name, values in table.items()}
    widths = finite(distinct(table, "width"))
    places = dict(zip(widths, look.places(len(widths)), strict=True))
    curves = []
    for width in distinct(rows, "width"):
        some = ordered(where(rows, width=width), "t")
        line = look.curve_style("limit")
        if width in places:
            line = look.curve_style("exact", places[width])
        curves.append(Curve(some["t"], some[column], line, look.group_label("width", width)))
    top = 1.0 if column == "cdf" else 1.08 * float(np.max(rows[column]))
    slope = np.abs(rows["cdf"] - 0.5) < 0.4985 if column == "cdf" else rows["pdf"] > 2e-3 * top
    limits = (float(rows["t"][slope].min()), float(rows["t"][slope].max()))
    if constant is not None:
        ends = np.full(2, float(constant["value"][0]))
        curves.append(
            Curve(ends, np.array([0.0, top]), style.DOTTED_LINE, "Gaussian theory: a constant")
        )
    x = PlotAxis("average over coordinates <i>t</i>", limits=limits)
    return Panel(
        x, PlotAxis(label, limits=(0.0, 1.02 * top if column == "cdf" else top)), tuple(curves)
    )


THEOREM_CLAIMS = (
    ClaimRule(("theorem_figures",), _random_average),
    ClaimRule(("theorem_figures",), _no_constant),
)
THEOREM_FIGURES = (
    Figure(
        "theorem",
        "",
        "Theorem 3.1 itself",
        "Distribution over networks of the average (1/<i>n</i>) Σ<sub>α</sub> cos "
        "<i>y</i><sub>α</sub>, for growing width. It approaches a random variable (wide grey "
        "line), not the constant that a Gaussian theory predicts (dotted).",
        averages,
        {"theorem": ("width", "t", "cdf", "pdf")},
        {"theorem_constant": ("value",)},
    ),
)
