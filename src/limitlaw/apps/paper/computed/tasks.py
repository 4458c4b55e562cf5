"""The functions of chunks of several experiments: the law of y¹ as n → ∞, and at width n."""

import numpy as np

from limitlaw.apps.paper.computed.estimators import kde, kl_of_samples, mixture_density, nodes
from limitlaw.apps.paper.computed.networks import coupled, limit_law, limit_samples, stream
from limitlaw.engines.coupled import Coupled
from limitlaw.runs import Arrays

BLOCK_PARTS = 4  # parts of the draws of a chunk, for errors
DRAWN, WIDEST = 261, 6.5  # points of a drawn density, and standard deviations to each side


def drawn_at(variance: float) -> np.ndarray:
    """The points at which pictures show a density of this variance."""
    return np.sqrt(variance) * np.linspace(-WIDEST, WIDEST, DRAWN)


def limit(
    *, tokens: int, heads: int, head_dim: int | None, nodes_of: int | None, phi: str
) -> Arrays:
    """The law of y¹ as n → ∞: moments, the density where it is drawn, and at the nodes of
    divergences, which are those of the law with head dimension `nodes_of`.
    """
    law = limit_law(tokens, heads, head_dim, phi)
    reference = limit_law(tokens, heads, nodes_of, phi)
    variance = float(reference.variance())
    at, y = nodes(variance), drawn_at(variance)
    return {
        "variance": np.asarray(law.variance()),
        "kurtosis": np.asarray(law.kurtosis()),
        "y": y,
        "density": np.asarray(law.pdf(y)),
        "weights": at.weights,
        "q": np.asarray(law.pdf(at.y)),
        "gaussian": mixture_density(np.asarray(law.variance())[None], at.y),
    }


def trial(
    *,
    tokens: int,
    heads: int,
    head_dim: int | None,
    phi: str,
    width: int,
    trial: int,
    samples: int,
    seed: int,
) -> Arrays:
    """One trial of the paper: samples of y¹ at width n and in the n × n limit, two KDEs and their
    divergence; and E φ(y; v) of the same draws, in blocks, at the limit's nodes.
    """
    network = tokens, heads, head_dim, phi
    law = limit_law(*network)
    seeds = [
        stream(seed, purpose, *network, width, trial)
        for purpose in ("conditions", "finite", "infinite")
    ]
    v = coupled(*network).finite(width, samples, seeds[0])
    finite = np.sqrt(v) * np.random.default_rng(seeds[1]).standard_normal(samples)
    infinite = limit_samples(seeds[2], samples, tokens, heads, None, phi)
    variance = float(law.variance())
    at, y = nodes(variance), drawn_at(variance)
    return {
        "kl": np.asarray(kl_of_samples(finite, infinite)),
        "kde": kde(finite, y),
        "exact": mixture_density(v, y),
        "blocks": np.stack(
            [mixture_density(part, at.y) for part in np.array_split(v, BLOCK_PARTS)]
        ),
    }


def difference(
    *, tokens: int, heads: int, head_dim: int | None, width: int, block: int, draws: int, seed: int
) -> Arrays:
    """p_n − p_∞ at the nodes of divergences, from draws at width n and in the limit of the same
    head dimension, which share normals; `variance` is the limit's by these draws.
    """
    network = tokens, heads, head_dim
    y = nodes(float(limit_law(*network).variance())).y
    return differences(
        coupled(*network), width, y, draws, stream(seed, "difference", *network, width, block)
    )


def differences(program: Coupled, width: int, y: np.ndarray, draws: int, seed: int) -> Arrays:
    """p_n − p_∞ at the nodes y, in parts whose Sobol points are scrambled independently."""
    parts = [
        program.variances(width, max(1, draws // BLOCK_PARTS), seed + i)
        for i in range(BLOCK_PARTS)
    ]
    near = [(mixture_density(v.plus, y) + mixture_density(v.minus, y)) / 2 for v in parts]
    deltas = [p - mixture_density(v.limit, y) for p, v in zip(near, parts, strict=True)]
    return {"delta": np.stack(deltas), "variance": np.array([v.limit.mean() for v in parts])}
