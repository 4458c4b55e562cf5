"""Beyond the paper's figures, its Theorem 3.1 itself: averages over coordinates converge to a random variable."""

import math

import numpy as np

from limitlaw.paper import tasks
from limitlaw.paper.experiment import Experiment, Results, rows
from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table

WIDTHS = (16, 64, 256, 1024, 4096)
NETWORK = {"tokens": 4, "heads": 2}


def _finite(settings: Settings, width: int) -> Chunk:
    return Chunk.of(tasks.averages, **NETWORK, width=width, samples=settings.averages, seed=settings.seed)


def _limit(settings: Settings) -> Chunk:
    return Chunk.of(tasks.average_limit, **NETWORK, samples=2**12 if settings.quick else 2**16)


def _chunks(settings: Settings) -> list[Chunk]:
    return [_limit(settings), *(_finite(settings, width) for width in WIDTHS)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    laws = {float(width): results[_finite(settings, width)] for width in WIDTHS}
    limit = laws[math.inf] = results[_limit(settings)]
    curves = [{"width": n, "t": law["t"], "cdf": law["cdf"], "pdf": math.nan} for n, law in laws.items()]
    figures = [
        {
            "width": n,
            "mean": float(law["mean"]),
            "variance": float(law["variance"]),
            "distance": float(np.abs(law["cdf"] - limit["cdf"]).max()),
            "samples": settings.averages,
        }
        for n, law in laws.items()
    ]
    constant = {"value": float(limit["constant"])}
    return {"theorem": rows(*curves), "theorem_figures": rows(*figures), "theorem_constant": rows(constant)}


EXPERIMENT = Experiment("theorem", "Theorem 3.1: averages over coordinates", _chunks, _tables)
