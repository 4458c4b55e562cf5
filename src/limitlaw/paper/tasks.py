"""The functions that chunks call: from settings to the few numbers that figures and tables are made of."""

import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.engines.coupled import Coupled
from limitlaw.paper.estimators import kde, kl_of_difference, kl_of_samples, mixture_density, nodes
from limitlaw.paper.networks import coupled, limit_law, limit_samples, output, outputs, score, stream

Arrays = dict[str, np.ndarray]
PARTS = 4  # of the draws of a chunk, for errors
SHOWN, WIDEST = 261, 6.5  # points of a drawn density, and standard deviations to each side


def shown(variance: float) -> np.ndarray:
    """Where densities are drawn."""
    return np.sqrt(variance) * np.linspace(-WIDEST, WIDEST, SHOWN)


def limit(*, tokens: int, heads: int, head_dim: int | None, nodes_of: int | None, phi: str) -> Arrays:
    """The law of y¹ as n → ∞: figures, density where it is drawn, and at the nodes of divergences.

    Those are the nodes of the law with head dimension `nodes_of`.
    """
    law, reference = limit_law(tokens, heads, head_dim, phi), limit_law(tokens, heads, nodes_of, phi)
    variance = float(reference.variance())
    at, y = nodes(variance), shown(variance)
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
    *, tokens: int, heads: int, head_dim: int | None, phi: str, width: int, trial: int, samples: int, seed: int
) -> Arrays:
    """One trial of the paper: samples of y¹ at width n and in the n × n limit, two KDEs, and their divergence.

    Beside it the exact density of the same draws, E φ(y; v), in blocks, at the nodes of the limit with these heads.
    """
    network = tokens, heads, head_dim, phi
    law = limit_law(*network)
    seeds = [stream(seed, purpose, *network, width, trial) for purpose in ("conditions", "finite", "infinite")]
    v = coupled(*network).finite(width, samples, seeds[0])
    finite = np.sqrt(v) * np.random.default_rng(seeds[1]).standard_normal(samples)
    infinite = limit_samples(seeds[2], samples, tokens, heads, None, phi)
    variance = float(law.variance())
    at, y = nodes(variance), shown(variance)
    return {
        "kl": np.asarray(kl_of_samples(finite, infinite)),
        "kde": kde(finite, y),
        "exact": mixture_density(v, y),
        "blocks": np.stack([mixture_density(part, at.y) for part in np.array_split(v, PARTS)]),
    }


def floor(*, tokens: int, heads: int, trial: int, samples: int, seed: int) -> Arrays:
    """The paper's estimator between two samples of the same law, whose divergence is 0: its noise floor."""
    seeds = [stream(seed, purpose, tokens, heads, trial) for purpose in ("floor", "floor again")]
    return {"kl": np.asarray(kl_of_samples(*(limit_samples(s, samples, tokens, heads) for s in seeds)))}


def difference(
    *, tokens: int, heads: int, head_dim: int | None, width: int, block: int, draws: int, seed: int
) -> Arrays:
    """p_n − p_∞ at the nodes of divergences, from draws at width n and in the limit that share their normals.

    The limit has the same head dimension; nodes are those of its law. `variance` is that of the limit by these draws.
    """
    network = tokens, heads, head_dim
    y = nodes(float(limit_law(*network).variance())).y
    return _differences(coupled(*network), width, y, draws, stream(seed, "difference", *network, width, block))


def _differences(program: Coupled, width: int, y: np.ndarray, draws: int, seed: int) -> Arrays:
    """In parts, whose Sobol points are scrambled independently."""
    parts = [program.variances(width, max(1, draws // PARTS), seed + i) for i in range(PARTS)]
    near = [(mixture_density(v.plus, y) + mixture_density(v.minus, y)) / 2 for v in parts]
    deltas = [p - mixture_density(v.limit, y) for p, v in zip(near, parts, strict=True)]
    return {"delta": np.stack(deltas), "variance": np.array([v.limit.mean() for v in parts])}


def scores(*, tokens: int, width: int, samples: int, seed: int) -> Arrays:
    """p_11 at width n under both scalings: KDE of samples, and its exact density, a Gaussian mixture over v."""
    first, second = (stream(seed, purpose, tokens, width) for purpose in ("conditions", "scores"))
    variances = score(tokens).finite(width, samples, first)
    normals = np.random.default_rng(second).standard_normal(samples)
    found: Arrays = {}
    for scaling, scale in (("sqrt", 1.0), ("linear", 1 / width)):
        p, v = shown(scale), scale * variances
        found[f"{scaling}_p"] = p
        found[f"{scaling}_kde"] = kde(np.sqrt(v) * normals, p)
        found[f"{scaling}_exact"] = mixture_density(v, p)
        found[f"{scaling}_variance"] = np.array([v.mean(), v.std() / np.sqrt(samples)])
    return found


def score_difference(*, tokens: int, width: int, block: int, draws: int, seed: int) -> Arrays:
    """The density of p_11 under 1/√n less that of N(0, 1), at the nodes of divergences, from coupled draws."""
    purpose = stream(seed, "score difference", tokens, width, block)
    return _differences(score(tokens), width, nodes(1.0).y, draws, purpose)


def averages(*, tokens: int, heads: int, width: int, samples: int, seed: int) -> Arrays:
    """The distribution of n^{-1} Σ_α cos(y¹_α) at width n, from draws of all n coordinates.

    Given all but W^O they are independent, N(0, v).
    """
    first, second = (stream(seed, purpose, tokens, heads, width) for purpose in ("conditions", "coordinates"))
    v = coupled(tokens, heads).finite(width, samples, first)
    rng = np.random.default_rng(second)
    rows = np.array_split(v, max(1, samples * width // 2**22))
    draws = [np.cos(np.sqrt(part)[:, None] * rng.standard_normal((len(part), width))).mean(axis=1) for part in rows]
    return _distribution(ll.Empirical(np.concatenate(draws)))


def average_limit(*, tokens: int, heads: int, samples: int) -> Arrays:
    """The predicted random limit, E[cos Z | scores] (Theorem 3.1), and the constant that a Gaussian theory predicts.

    With infinitely many heads Z is Gaussian: E cos Z = exp(−σ²/2).
    """
    variance = limit_law(tokens, heads).variance()
    law = ll.average_law(output(tokens, heads), jnp.cos, samples=samples)
    return {**_distribution(law), "constant": np.asarray(jnp.exp(-variance / 2))}


def _distribution(law: ll.Law) -> Arrays:
    t = np.linspace(0.45, 1.0, 551)
    figures = {"t": t, "cdf": law.cdf(t), "mean": law.mean(), "variance": law.variance()}
    return {name: np.asarray(value) for name, value in figures.items()}


def joint(*, tokens: int, heads: int, points: int, samples: int) -> Arrays:
    """The joint density of y¹ and y² as n → ∞ on a square grid, and the Gaussian of equal covariance."""
    law = ll.limit(outputs(tokens, heads)[:2], samples=samples)
    covariance = np.asarray(law.covariance())
    axis = np.sqrt(covariance[0, 0]) * np.linspace(-3.5, 3.5, points)
    y = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return {
        "y": y,
        "density": np.asarray(law.pdf(y)),
        "gaussian": np.asarray(ll.Gaussian(np.zeros(2), covariance).pdf(y)),
    }


def head_dimension(*, tokens: int, head_dim: int) -> Arrays:
    """One head at fixed head dimension as n → ∞, against the n × n limit.

    The law is sampled by quasi-Monte Carlo. An error ε(y) of its density p changes D by ∫ ε log(p/q), at most
    ∫ |ε log(p/q)|, which is the error stated.
    """
    law, reference = limit_law(tokens, 1, head_dim), limit_law(tokens, 1)
    variance = float(reference.variance())
    at, y = nodes(variance), shown(variance)
    p, q = np.asarray(law.pdf(at.y)), np.asarray(reference.pdf(at.y))
    error = at.weights @ (np.asarray(law.error.pdf(at.y)) * np.abs(np.log(p / q)))
    figures = {"variance": law.variance(), "kurtosis": law.kurtosis(), "y": y, "density": law.pdf(y)}
    figures |= {"kl": kl_of_difference(p - q, q, at.weights), "error": error}
    return {name: np.asarray(value) for name, value in figures.items()}
