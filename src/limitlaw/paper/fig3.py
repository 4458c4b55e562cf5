"""Figure 3: heads of dimension 64 whose number grows with the width, n = 64 H."""

from limitlaw.paper.convergence import Convergence, Point

EXPERIMENT = Convergence(
    name="fig3",
    title="heads of dimension 64, n = 64 H",
    paper=tuple(Point(64 * heads, heads) for heads in (1, 4, 16)),
    beyond=tuple(Point(64 * heads, heads) for heads in (64, 256)),
    head_dim=64,
).experiment()
