"""Figure 5: figure 1 with ReLU and 100,000 samples: K_ii = 1/2, K_ij = 1/(2π)."""

from limitlaw.paper.convergence import Convergence, Point

EXPERIMENT = Convergence(
    name="fig5",
    title="ReLU",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    phi="relu",
    samples=2,
).experiment()
