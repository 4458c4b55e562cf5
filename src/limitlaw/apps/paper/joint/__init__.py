"""Beyond the paper: the joint density of two tokens, beside a Gaussian of equal covariance."""

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.computed.networks import outputs
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.joint import shown
from limitlaw.runs import Arrays, Chunk, Results, Table


def joint(*, tokens: int, heads: int, points: int, samples: int) -> Arrays:
    """The density of y¹ and y² as n → ∞ on a square grid, and a Gaussian's of equal covariance."""
    law = ll.limit(outputs(tokens, heads)[:2], samples=samples)
    covariance = np.asarray(law.covariance())
    axis = np.sqrt(covariance[0, 0]) * np.linspace(-3.5, 3.5, points)
    y = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return {
        "y": y,
        "density": np.asarray(law.pdf(y)),
        "gaussian": np.asarray(ll.Gaussian(np.zeros(2), covariance).pdf(y)),
    }


def _chunks(settings: Settings) -> list[Chunk]:
    points, samples = (41, 2**12) if settings.quick else (71, 2**15)
    return [Chunk.of(joint, tokens=4, heads=1, points=points, samples=samples)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    (found,) = (results[chunk] for chunk in _chunks(settings))
    y1, y2 = found["y"].T
    return {
        "joint": {"y1": y1, "y2": y2, "density": found["density"], "gaussian": found["gaussian"]}
    }


JOINT = Experiment("joint", _chunks, _tables, shown.JOINT_CLAIMS, shown.JOINT_FIGURES, place=8)
