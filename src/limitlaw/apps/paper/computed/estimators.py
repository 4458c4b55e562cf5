"""Divergences from samples, as in the paper, and from conditional densities without smoothing."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.divergence.in_blocks import bias_and_variance, subsets

GRID_POINTS = 500  # points common to two kernel density estimates
LEAST_KDE = 1e-10  # added to both, so that their ratio is finite where one has no sample
NODE_STEP, LAST_NODE = 0.2, 10.0  # step and end of the nodes, in standard deviations
SERIES_BELOW = 1e-3  # below which (1 + u) log(1 + u) − u is a series


class Estimated(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class HalfLine(NamedTuple):
    """Points and weights of the trapezoidal rule for integrals of even functions over the line."""

    y: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]


def kde(
    samples: Float[np.ndarray, " N"], y: Float[np.ndarray, " points"]
) -> Float[np.ndarray, " points"]:
    """The paper's estimate of a density, (N b)^{-1} Σ_i φ((y − y_i)/b), b = N^{-1/5} sd."""
    bandwidth = len(samples) ** -0.2 * samples.std(ddof=1)
    return np.asarray(_smoothed(jnp.asarray(samples), jnp.asarray(y), bandwidth))


@jax.jit
def _smoothed(
    samples: Float[Array, " N"], y: Float[Array, " points"], b: Float[Array, ""]
) -> Float[Array, " points"]:
    def density(point: Float[Array, ""]) -> Float[Array, ""]:
        z = (point - samples) / b
        return jnp.exp(-0.5 * z * z).mean() / (b * math.sqrt(2 * math.pi))

    return jax.lax.map(density, y)


def kl_of_samples(p: Float[np.ndarray, " N"], q: Float[np.ndarray, " M"]) -> float:
    """The paper's estimate of D(p‖q): two kernel density estimates on a grid of 500 points."""
    grid = np.linspace(min(p.min(), q.min()), max(p.max(), q.max()), GRID_POINTS)
    first, second = (kde(samples, grid) + LEAST_KDE for samples in (p, q))
    first, second = first / first.sum(), second / second.sum()
    return float(first @ np.log(first / second))


def nodes(variance: float) -> HalfLine:
    """Nodes for integrals of smooth even functions that decay like a density of this variance.

    With steps of 0.2 standard deviations the trapezoidal rule is exact to rounding for them.
    """
    sd = math.sqrt(variance)
    y = sd * np.arange(0.0, LAST_NODE + NODE_STEP / 2, NODE_STEP)
    weights = np.full(len(y), 2 * NODE_STEP * sd)
    weights[0] /= 2
    return HalfLine(y, weights)


def mixture_density(
    variances: Float[np.ndarray, " N"], y: Float[np.ndarray, " points"]
) -> Float[np.ndarray, " points"]:
    """E φ(y; v): the average of Gaussian densities over their variances."""
    return np.asarray(_averaged(jnp.asarray(variances), jnp.asarray(y)))


@jax.jit
def _averaged(v: Float[Array, " N"], y: Float[Array, " points"]) -> Float[Array, " points"]:
    precision, height = -0.5 / v, 1 / jnp.sqrt(2 * math.pi * v)
    return jax.lax.map(lambda point: (jnp.exp(point**2 * precision) * height).mean(), y)


def kl_of_difference(
    delta: Float[np.ndarray, " nodes"],
    q: Float[np.ndarray, " nodes"],
    weights: Float[np.ndarray, " nodes"],
) -> float:
    """D(q + δ ‖ q) = ∫ q h(δ/q), h(u) = (1 + u) log(1 + u) − u, which keeps a small δ's digits."""
    u = np.maximum(delta / q, -1.0)
    series = u**2 * (1 / 2 - u * (1 / 6 - u * (1 / 12 - u / 20)))
    large = np.where(np.abs(u) < SERIES_BELOW, 1.0, u)
    closed = np.where(u > -1, (1 + large) * np.log1p(np.maximum(large, -1 + 1e-16)), 0.0) - large
    return float(weights @ (q * np.where(np.abs(u) < SERIES_BELOW, series, closed)))


def kl_of_blocks(
    deltas: Float[np.ndarray, "blocks nodes"],
    q: Float[np.ndarray, " nodes"],
    weights: Float[np.ndarray, " nodes"],
) -> Estimated:
    """D(q + δ ‖ q) from independent estimates of δ, with its standard error.

    D is nearly quadratic in δ, so that squared noise would bias it upward. The jackknife removes
    this: of a square it leaves the products of different blocks only, a split-sample estimate over
    all pairs of blocks.
    """
    B = len(deltas)
    keep = subsets(B)
    means = keep @ deltas / keep.sum(axis=1, keepdims=True)
    values = np.array([kl_of_difference(delta, q, weights) for delta in means])
    bias, variance = bias_and_variance(B, values)
    return Estimated(float(values[0]) - bias, math.sqrt(variance))


def slope(x: object, y: object, error: object) -> Estimated:
    """The slope of log y against log x by weighted least squares, with its standard error."""
    x, y, error = (np.asarray(a, float) for a in (x, y, error))
    weight = (y / error) ** 2
    centred = np.log(x) - np.average(np.log(x), weights=weight)
    size = (weight * centred**2).sum()
    return Estimated(float((weight * centred * np.log(y)).sum() / size), 1 / math.sqrt(size))
