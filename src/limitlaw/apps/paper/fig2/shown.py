"""The claims of figure 2, and its pictures."""

import numpy as np

from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.densities import both, curves_by, curves_of_kinds, linear_panel
from limitlaw.apps.paper.shown.reading import SIGMAS, Tables, row, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.digits import compact
from limitlaw.figures.picture import Curve, Panel, Picture, Style
from limitlaw.figures.style import LIGHT_GREY, SOLID
from limitlaw.runs import Table

POINT_MASS = Style(LIGHT_GREY, 3.6)
POINT_MASS_HEAD = Style(LIGHT_GREY, 0.0, SOLID, "triangle", size=9.0)


def _random_score(tables: Tables) -> Claim:
    variance, kl = row(tables["fig2a_variance"], scaling="sqrt"), row(tables["fig2a_kl"])
    holds = abs(variance["variance"] - 1) < 0.05 and kl["kl"] < 3e-3
    first = compact(variance["variance"], variance["error"])
    second = compact(kl["kl"], kl["error"])
    measured = f"variance {first}, D = {second} from N(0, 1)"
    claim = "Under 1/√n the score p₁₁ stays random: N(0, 1) (n = 256)"
    return Claim("fig2a", claim, "variance 1, D → 0", measured, holds)


def _vanishing_score(tables: Tables) -> Claim:
    found = row(tables["fig2a_variance"], scaling="linear")
    scaled, error = 256 * found["variance"], 256 * found["error"]
    claim = "Under 1/n the score p₁₁ tends to 0"
    measured = f"n · variance = {compact(scaled, error)}"
    return Claim("fig2a", claim, "n · variance → 1", measured, abs(scaled - 1) < 0.05)


def _few_heads(tables: Tables) -> Claim:
    table = tables["fig2b_kl"]
    own, gaussian = (
        row(table, heads=1, reference=r, estimator="exact") for r in ("limit", "gaussian")
    )
    holds = own["kl"] + SIGMAS * own["error"] < gaussian["kl"] / 4
    claim = "One head at n = 256 follows its own limit, not the infinite-head Gaussian"
    first, second = (compact(found["kl"], found["error"]) for found in (own, gaussian))
    measured = f"D = {first} from its limit, {second} from the Gaussian"
    return Claim("fig2b", claim, "the first far below the second", measured, holds)


def _many_heads(tables: Tables) -> Claim:
    table = tables["fig2b_kl"]
    one, many = (row(table, heads=H, reference="gaussian", estimator="exact") for H in (1, 256))
    holds = many["kl"] + SIGMAS * many["error"] < one["kl"] / 4
    claim = "With 256 heads the law is near the infinite-head Gaussian"
    first, second = (compact(found["kl"], found["error"]) for found in (many, one))
    return Claim(
        "fig2b",
        claim,
        "D far below that of one head",
        f"D = {first}, against {second} with one head",
        holds,
    )


def scores(table: Table) -> Picture:
    """A picture of a score under the two scalings; the limit of the second is a point mass."""
    names = {"sqrt": "scaling 1/√<i>n</i>", "linear": "scaling 1/<i>n</i>"}
    panels = [
        _score_panel(where(table, scaling=key), names[key])
        for key in names
        if key in table["scaling"]
    ]
    return Picture((tuple(panels),), (7.0, 3.2), 4)


def _score_panel(table: Table, title: str) -> Panel:
    """The panel of one scaling; a limit without a density is a point mass at 0, an arrow."""
    panel = linear_panel(curves_of_kinds(table), title, "score <i>p</i><sub>11</sub>")
    if "limit" in table["curve"]:
        return panel
    top = float(panel.y.limits[1] or 1.0)
    arrow = Curve(np.zeros(2), np.array([0.0, 0.96 * top]), POINT_MASS, "limit: point mass at 0")
    head = Curve(np.zeros(1), np.array([0.96 * top]), POINT_MASS_HEAD, arrow.label)
    return Panel(panel.x, panel.y, (*panel.curves, arrow, head), title=title)


def heads(table: Table) -> Picture:
    """A picture of few and many heads, and of the Gaussian of infinitely many."""
    return Picture((both(curves_by(table, "heads")),), (7.0, 3.5), 4)


FIG2_CLAIMS = (
    ClaimRule(("fig2a_variance", "fig2a_kl"), _random_score),
    ClaimRule(("fig2a_variance",), _vanishing_score),
    ClaimRule(("fig2b_kl",), _few_heads),
    ClaimRule(("fig2b_kl",), _many_heads),
)
FIG2_FIGURES = (
    Figure(
        "fig2a",
        "Figure 2(a)",
        "an attention score under two scalings",
        "Under 1/√<i>n</i> a score stays random in the limit; under 1/<i>n</i> it shrinks to 0, "
        "drawn as an arrow. Lines are exact (width <i>n</i> = 256), the wide grey one is the "
        "limit, markers are the paper's KDE of the drawn scores.",
        scores,
        {"fig2a": ("scaling", "curve", "p", "density")},
    ),
    Figure(
        "fig2b",
        "Figure 2(b)",
        "few heads and many",
        "With one head the law is not Gaussian, as its tails show best; with 256 heads it lies on "
        "the Gaussian of infinitely many. Wide pale lines are limits, by quadrature; thin lines "
        "are exact at width 256; markers are the paper's KDE.",
        heads,
        {"fig2b": ("heads", "curve", "y", "density")},
    ),
)
