"""Beyond the paper: heads of fixed dimension, as in Transformers, against the n × n limit."""

import math

import numpy as np

from limitlaw.apps.paper.computed import tasks
from limitlaw.apps.paper.computed.estimators import kl_of_difference, nodes
from limitlaw.apps.paper.computed.networks import limit_law
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.head_dim import shown
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

DIMENSIONS = (8, 64, 128)
WIDE = Chunk.of(tasks.limit, tokens=4, heads=1, head_dim=None, nodes_of=None, phi="clip")


def head_dimension(*, tokens: int, head_dim: int) -> Arrays:
    """One head at fixed head dimension as n → ∞, by quasi-Monte Carlo, against the n × n limit.

    An error ε(y) of its density p changes D by at most ∫ |ε log(p/q)|, the error stated.
    """
    law, reference = limit_law(tokens, 1, head_dim), limit_law(tokens, 1)
    variance = float(reference.variance())
    at, y = nodes(variance), tasks.drawn_at(variance)
    p, q = np.asarray(law.pdf(at.y)), np.asarray(reference.pdf(at.y))
    error = at.weights @ (np.asarray(law.error.pdf(at.y)) * np.abs(np.log(p / q)))
    found = {"variance": law.variance(), "kurtosis": law.kurtosis(), "y": y, "density": law.pdf(y)}
    found |= {"kl": kl_of_difference(p - q, q, at.weights), "error": error}
    return {name: np.asarray(value) for name, value in found.items()}


def _narrow(head_dim: int) -> Chunk:
    return Chunk.of(head_dimension, tokens=4, head_dim=head_dim)


def _chunks(settings: Settings) -> list[Chunk]:
    return [WIDE, *map(_narrow, DIMENSIONS)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    laws = {float(d): results[_narrow(d)] for d in DIMENSIONS}
    laws[math.inf] = {**results[WIDE], "kl": np.zeros(()), "error": np.zeros(())}
    names = ("variance", "kurtosis", "kl", "error")
    numbers = [
        {"head_dim": d, **{name: float(law[name]) for name in names}} for d, law in laws.items()
    ]
    densities = [
        {"head_dim": d, "y": law["y"], "density": law["density"]} for d, law in laws.items()
    ]
    return {"head_dim": rows(*numbers), "head_dim_density": rows(*densities)}


HEAD_DIM = Experiment(
    "head_dim", _chunks, _tables, shown.HEAD_DIM_CLAIMS, shown.HEAD_DIM_FIGURES, place=7
)
