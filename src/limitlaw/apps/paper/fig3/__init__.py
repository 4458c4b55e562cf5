"""Figure 3: heads of dimension 64 whose number grows with the width, n = 64 H."""

from limitlaw.apps.paper.computed.convergence import Convergence, Point
from limitlaw.apps.paper.experiment import of_widths
from limitlaw.apps.paper.fig3 import shown

FIG3_WIDTHS = Convergence(
    name="fig3",
    paper=tuple(Point(64 * heads, heads) for heads in (1, 4, 16)),
    beyond=tuple(Point(64 * heads, heads) for heads in (64, 256)),
    head_dim=64,
)
FIG3 = of_widths(FIG3_WIDTHS, 3, shown.FIG3_CLAIMS, shown.FIG3_FIGURES)
