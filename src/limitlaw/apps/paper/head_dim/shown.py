"""The claims about narrow heads, and their pictures."""

import math

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.densities import tail_panel
from limitlaw.apps.paper.shown.reading import Tables, distinct, finite, ordered, row, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.scales import guide, measured, positive, positive_limits, power_axis
from limitlaw.figures import style
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis, Style
from limitlaw.runs import Table

# variance, kurtosis (theory §4)
BY_HEAD_DIM = {8: (0.385685, 1.1160), 64: (0.391129, 0.35144), 128: (0.391548, 0.29734)}
HEAD_DIM_LABEL = "head dimension <i>d</i>"
FIXED_HEADS = "heads of dimension <i>d</i>"


def _moments(tables: Tables) -> Claim:
    found = {d: row(tables["head_dim"], head_dim=float(d)) for d in BY_HEAD_DIM}
    pairs = {d: (moments["variance"], moments["kurtosis"]) for d, moments in found.items()}
    holds = all(
        abs(pairs[d][0] / v - 1) < 1e-5 and abs(pairs[d][1] / k - 1) < 1e-3
        for d, (v, k) in BY_HEAD_DIM.items()
    )
    expected, measured = (
        ", ".join(f"{v:.6f} / {k:.4f}" for v, k in each.values()) for each in (BY_HEAD_DIM, pairs)
    )
    return Claim(
        "head_dim",
        "Variance / excess kurtosis at head dimension 8, 64, 128",
        expected,
        measured,
        holds,
    )


def narrow_heads(table: Table | None, density: Table | None) -> Picture:
    """Densities, variance, excess kurtosis and divergence from the n × n limit."""
    panels = [] if density is None else [_densities(density)]
    if table is not None:
        table = ordered(table, "head_dim")
        panels += [
            _level(table, "variance", "variance"),
            _level(table, "kurtosis", look.KURTOSIS),
            _divergence(table),
        ]
    if len(panels) == 4:
        return Picture((tuple(panels[:2]), tuple(panels[2:])), (7.0, 5.6), 4)
    return Picture((tuple(panels),), (7.0, 3.3), 4)


def _densities(table: Table) -> Panel:
    dims = finite(distinct(table, "head_dim"))
    curves = [
        _density(
            where(table, head_dim=d),
            look.curve_style("exact", place),
            look.group_label("head_dim", d),
        )
        for d, place in zip(dims, look.places(len(dims)), strict=True)
    ]
    if math.inf in table["head_dim"]:
        curves.append(
            _density(where(table, head_dim=math.inf), look.curve_style("limit"), look.WIDE_HEADS)
        )
    return tail_panel(tuple(curves))


def _density(rows: Table, line: Style, label: str) -> Curve:
    rows = ordered(rows, "y")
    return Curve(rows["y"], rows["density"], line, label)


def _level(table: Table, column: str, label: str) -> Panel:
    """A moment against the head dimension, with its value for wide heads as a line across."""
    narrow = {name: values[np.isfinite(table["head_dim"])] for name, values in table.items()}
    x = power_axis(HEAD_DIM_LABEL, [float(d) for d in narrow["head_dim"]])
    curves = [Curve(narrow["head_dim"], narrow[column], style.DOTS, FIXED_HEADS)]
    for level in table[column][np.isinf(table["head_dim"])][:1]:
        ends = np.array(x.limits, dtype=float)
        curves.append(Curve(ends, np.full(2, level), look.curve_style("limit"), look.WIDE_HEADS))
    low, high = float(np.min(table[column])), float(np.max(table[column]))
    room = 0.07 * (high - low or abs(high) or 1.0)
    return Panel(x, PlotAxis(label, limits=(low - room, high + room)), tuple(curves))


def _divergence(table: Table) -> Panel:
    narrow = {name: values[np.isfinite(table["head_dim"])] for name, values in table.items()}
    dims, kl = narrow["head_dim"], narrow["kl"]
    x = power_axis(HEAD_DIM_LABEL, [float(d) for d in dims])
    line = guide(dims, positive(kl), -2)
    limits = positive_limits(kl, line.y)
    curves = measured(dims, kl, narrow["error"], limits[0], style.DOTS, FIXED_HEADS)
    label = f"{look.KL}(fixed <i>d</i> ‖ <i>n</i> × <i>n</i>)"
    return Panel(x, PlotAxis(label, True, limits=limits), (*curves, line))


HEAD_DIM_CLAIMS = (ClaimRule(("head_dim",), _moments),)
HEAD_DIM_FIGURES = (
    Figure(
        "head_dim",
        "",
        "Heads of fixed dimension",
        "As in practice, the head dimension <i>d</i> stays fixed while <i>n</i> → ∞. Narrow heads "
        "have heavier tails and a smaller variance, and approach the <i>n</i> × <i>n</i> limit of "
        "the paper as <i>d</i> grows. The laws are exact Gaussian mixtures; error bars are those "
        "of sampling their components.",
        narrow_heads,
        {
            "head_dim": ("head_dim", "variance", "kurtosis", "kl", "error"),
            "head_dim_density": ("head_dim", "y", "density"),
        },
        any_of=True,
    ),
)
