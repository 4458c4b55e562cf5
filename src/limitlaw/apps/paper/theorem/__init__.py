"""Beyond the figures, Theorem 3.1 itself: averages over coordinates tend to a random variable."""

import math

import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.computed.networks import coupled, limit_law, output, stream
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.theorem import shown
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

THEOREM_WIDTHS = (16, 64, 256, 1024, 4096)
NETWORK = {"tokens": 4, "heads": 2}


def averages(*, tokens: int, heads: int, width: int, samples: int, seed: int) -> Arrays:
    """The distribution of n^{-1} Σ_α cos(y¹_α) at width n, from draws of all n coordinates.

    Given all but W^O the coordinates are independent, N(0, v).
    """
    first, second = (
        stream(seed, purpose, tokens, heads, width) for purpose in ("conditions", "coordinates")
    )
    v = coupled(tokens, heads).finite(width, samples, first)
    rng = np.random.default_rng(second)
    parts = np.array_split(v, max(1, samples * width // 2**22))
    draws = [
        np.cos(np.sqrt(part)[:, None] * rng.standard_normal((len(part), width))).mean(axis=1)
        for part in parts
    ]
    return _distribution(ll.Empirical(np.concatenate(draws)))


def average_limit(*, tokens: int, heads: int, samples: int) -> Arrays:
    """The random limit E[cos Z | scores] (Theorem 3.1), and the constant of a Gaussian theory:
    with infinitely many heads E cos Z = exp(−σ²/2).
    """
    variance = limit_law(tokens, heads).variance()
    law = ll.average_law(output(tokens, heads), jnp.cos, samples=samples)
    return {**_distribution(law), "constant": np.asarray(jnp.exp(-variance / 2))}


def _distribution(law: ll.Law) -> Arrays:
    t = np.linspace(0.45, 1.0, 551)
    found = {"t": t, "cdf": law.cdf(t), "mean": law.mean(), "variance": law.variance()}
    return {name: np.asarray(value) for name, value in found.items()}


def _finite(settings: Settings, width: int) -> Chunk:
    return Chunk.of(
        averages, **NETWORK, width=width, samples=settings.averages, seed=settings.seed
    )


def _limit(settings: Settings) -> Chunk:
    return Chunk.of(average_limit, **NETWORK, samples=2**12 if settings.quick else 2**16)


def _chunks(settings: Settings) -> list[Chunk]:
    return [_limit(settings), *(_finite(settings, width) for width in THEOREM_WIDTHS)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    laws = {float(width): results[_finite(settings, width)] for width in THEOREM_WIDTHS}
    limit = laws[math.inf] = results[_limit(settings)]
    curves = [
        {"width": n, "t": law["t"], "cdf": law["cdf"], "pdf": math.nan} for n, law in laws.items()
    ]
    numbers = [
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
    return {
        "theorem": rows(*curves),
        "theorem_figures": rows(*numbers),
        "theorem_constant": rows(constant),
    }


THEOREM = Experiment(
    "theorem", _chunks, _tables, shown.THEOREM_CLAIMS, shown.THEOREM_FIGURES, place=9
)
