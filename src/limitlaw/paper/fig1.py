"""Figure 1: two heads, four tokens, width 16 to 1,024; the exact divergence goes on to 65,536."""

import numpy as np

from limitlaw.paper import tasks
from limitlaw.paper.convergence import Convergence, Point
from limitlaw.paper.experiment import Experiment, Results, rows
from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table

WIDTHS = Convergence(
    name="fig1",
    title="two heads, growing width",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    beyond=tuple(Point(width, 2) for width in (65_536, 16_384, 4_096)),
)


def _floor(settings: Settings, samples: int) -> list[Chunk]:
    counts = {"samples": samples, "seed": settings.seed}
    return [Chunk.of(tasks.floor, tokens=4, heads=2, trial=i, **counts) for i in range(settings.trials)]


def _counts(settings: Settings) -> tuple[int, int]:
    """Samples of a trial here, and in figure 5."""
    return settings.samples, 2 * settings.samples


def _chunks(settings: Settings) -> list[Chunk]:
    floors = [chunk for samples in _counts(settings) for chunk in _floor(settings, samples)]
    return [*WIDTHS.chunks(settings), *floors]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    floors = []
    for samples in _counts(settings):
        kl = [float(results[chunk]["kl"]) for chunk in _floor(settings, samples)]
        floors.append({"samples": samples, "kl": float(np.mean(kl)), "error": float(np.std(kl))})
    return {**WIDTHS.tables(settings, results), "kde_floor": rows(*floors)}


EXPERIMENT = Experiment("fig1", WIDTHS.title, _chunks, _tables)
