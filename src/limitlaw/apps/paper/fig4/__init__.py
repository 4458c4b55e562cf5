"""Figure 4: figure 1 with more tokens, 16 by default: the paper's text does not say how many."""

from limitlaw.apps.paper.computed.convergence import Convergence, Point
from limitlaw.apps.paper.experiment import of_widths
from limitlaw.apps.paper.fig4 import shown

FIG4_WIDTHS = Convergence(
    name="fig4",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    beyond=(Point(16_384, 2), Point(4_096, 2)),
    tokens=None,
)
FIG4 = of_widths(FIG4_WIDTHS, 4, shown.FIG4_CLAIMS, shown.FIG4_FIGURES)
