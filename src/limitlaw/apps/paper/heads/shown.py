"""The claims about growing numbers of heads, and their pictures."""

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, ordered
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.scales import guide, positive, positive_limits, power_axis
from limitlaw.digits import short
from limitlaw.figures import style
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Table

# those of one head, s = 4, K = I (theory §7)
HEAD_VARIANCE, HEAD_KURTOSIS = 0.391971443576, 0.243318425


def _same_variance(tables: Tables) -> Claim:
    worst = float(np.abs(tables["heads"]["variance"] / HEAD_VARIANCE - 1).max())
    claim = "Remark 3.2: the variance does not depend on the number of heads"
    return Claim(
        "heads",
        claim,
        f"variance {HEAD_VARIANCE}",
        f"largest relative difference {short(worst)}",
        worst < 1e-9,
    )


def _kurtosis(tables: Tables) -> Claim:
    table = tables["heads"]
    scaled = table["heads"] * table["kurtosis"]
    holds = bool((np.abs(scaled / HEAD_KURTOSIS - 1) < 1e-7).all())
    claim = "The law is not Gaussian: H · excess kurtosis is a constant"
    measured = f"{scaled[0]:.9g} at H = 1, {scaled[-1]:.9g} at H = {table['heads'][-1]}"
    return Claim("heads", claim, f"H·κ = {HEAD_KURTOSIS}", measured, holds)


def _rate(tables: Tables) -> Claim:
    table = tables["heads"]
    expected = HEAD_KURTOSIS**2 / 48
    scaled = float(table["heads"][-1] ** 2 * table["kl"][-1])
    holds = abs(scaled / expected - 1) < 0.01
    claim = (
        f"D from the infinite-head Gaussian falls as H⁻²: H²·D → κ₁²/48 (H = {table['heads'][-1]})"
    )
    return Claim(
        "heads", claim, f"κ₁²/48 = {1e3 * expected:.4f}e-3", f"H²·D = {1e3 * scaled:.4f}e-3", holds
    )


def powers(table: Table) -> Picture:
    """Excess kurtosis and divergence from the Gaussian against the number of heads."""
    table = ordered(table, "heads")
    kurtosis = _panel(table, "kurtosis", look.KURTOSIS, -1)
    kl = _panel(table, "kl", f"{look.KL}(<i>H</i> heads ‖ Gaussian)", -2)
    return Picture(((kurtosis, kl),), (7.0, 3.3), 3)


def _panel(table: Table, column: str, label: str, slope: int) -> Panel:
    x, y = table["heads"], positive(table[column])
    abscissa = power_axis("number of heads <i>H</i>", [float(h) for h in x])
    ordinate = PlotAxis(label, True, limits=positive_limits(y, 0.25 * y))
    return Panel(abscissa, ordinate, (Curve(x, y, style.DOTS, "exact"), guide(x, y, slope)))


HEADS_CLAIMS = (
    ClaimRule(("heads",), _same_variance),
    ClaimRule(("heads",), _kurtosis),
    ClaimRule(("heads",), _rate),
)
HEADS_FIGURES = (
    Figure(
        "heads",
        "",
        "Towards infinitely many heads",
        "Excess kurtosis falls as 1/<i>H</i>, the divergence from the Gaussian of infinitely many "
        "heads as 1/<i>H</i><sup>2</sup>. Computed without sampling: heads are added by their "
        "characteristic function.",
        powers,
        {"heads": ("heads", "kurtosis", "kl")},
    ),
)
