"""Figure 4: figure 1 with more tokens; how many is lost in the paper's text, 16 unless the settings say otherwise."""

from limitlaw.paper.convergence import Convergence, Point

EXPERIMENT = Convergence(
    name="fig4",
    title="more tokens",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    beyond=(Point(16_384, 2), Point(4_096, 2)),
    tokens=None,
).experiment()
