"""Figure 1: two heads, four tokens, width 16 to 1,024; the exact divergence goes on to 65,536."""

import numpy as np

from limitlaw.apps.paper.computed.convergence import Convergence, Point
from limitlaw.apps.paper.computed.estimators import kl_of_samples
from limitlaw.apps.paper.computed.networks import limit_samples, stream
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.fig1 import shown
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

FIG1_WIDTHS = Convergence(
    name="fig1",
    paper=tuple(Point(width, 2) for width in (16, 64, 256, 1024)),
    beyond=tuple(Point(width, 2) for width in (65_536, 16_384, 4_096)),
)


def floor(*, tokens: int, heads: int, trial: int, samples: int, seed: int) -> Arrays:
    """The noise floor of the paper's estimator: between two samples of one law."""
    seeds = [stream(seed, purpose, tokens, heads, trial) for purpose in ("floor", "floor again")]
    return {
        "kl": np.asarray(kl_of_samples(*(limit_samples(s, samples, tokens, heads) for s in seeds)))
    }


def _floors(settings: Settings, samples: int) -> list[Chunk]:
    counts = {"samples": samples, "seed": settings.seed}
    return [Chunk.of(floor, tokens=4, heads=2, trial=i, **counts) for i in range(settings.trials)]


def _counts(settings: Settings) -> tuple[int, int]:
    """The samples of a trial in this figure, and in figure 5."""
    return settings.samples, 2 * settings.samples


def _chunks(settings: Settings) -> list[Chunk]:
    floors = [chunk for samples in _counts(settings) for chunk in _floors(settings, samples)]
    return [*FIG1_WIDTHS.chunks(settings), *floors]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    floors = []
    for samples in _counts(settings):
        kl = [float(results[chunk]["kl"]) for chunk in _floors(settings, samples)]
        floors.append({"samples": samples, "kl": float(np.mean(kl)), "error": float(np.std(kl))})
    return {**FIG1_WIDTHS.tables(settings, results), "kde_floor": rows(*floors)}


FIG1 = Experiment(
    "fig1",
    _chunks,
    _tables,
    shown.FIG1_CLAIMS,
    shown.FIG1_FIGURES,
    place=1,
    dense=FIG1_WIDTHS.dense,
)
