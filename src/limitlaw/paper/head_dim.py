"""Beyond the paper: heads of fixed dimension, as real Transformers have them, against the n × n limit."""

import math

import numpy as np

from limitlaw.paper import tasks
from limitlaw.paper.experiment import Experiment, Results, rows
from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table

DIMENSIONS = (8, 64, 128)
WIDE = Chunk.of(tasks.limit, tokens=4, heads=1, head_dim=None, nodes_of=None, phi="clip")


def _narrow(head_dim: int) -> Chunk:
    return Chunk.of(tasks.head_dimension, tokens=4, head_dim=head_dim)


def _chunks(settings: Settings) -> list[Chunk]:
    return [WIDE, *map(_narrow, DIMENSIONS)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    laws = {float(d): results[_narrow(d)] for d in DIMENSIONS}
    laws[math.inf] = {**results[WIDE], "kl": np.zeros(()), "error": np.zeros(())}
    names = ("variance", "kurtosis", "kl", "error")
    figures = [{"head_dim": d, **{name: float(law[name]) for name in names}} for d, law in laws.items()]
    densities = [{"head_dim": d, "y": law["y"], "density": law["density"]} for d, law in laws.items()]
    return {"head_dim": rows(*figures), "head_dim_density": rows(*densities)}


EXPERIMENT = Experiment("head_dim", "fixed head dimension", _chunks, _tables)
