"""Figure 5: figure 1 with ReLU and 100,000 samples: K_ii = 1/2, K_ij = 1/(2π)."""

from limitlaw.apps.paper.computed.convergence import Convergence, Point
from limitlaw.apps.paper.experiment import of_widths
from limitlaw.apps.paper.fig5 import shown

FIG5_WIDTHS = Convergence(
    name="fig5",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    phi="relu",
    samples=2,
)
FIG5 = of_widths(FIG5_WIDTHS, 5, shown.FIG5_CLAIMS, shown.FIG5_FIGURES)
