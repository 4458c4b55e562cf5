"""Discrete laws: a lattice of nodes for a few normals (the trapezoidal rule, exponentially
convergent for analytic functions; Trefethen and Weideman, SIAM Review 56, 2014), and a law with
many nodes replaced by one with few, on which smooth functions have the same mean.
"""

import math
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from limitlaw.arguments import frozen, is_traced
from limitlaw.numerics import Discrete, Floats

# --- a lattice -----------------------------------------------------------------------------------


def lattice(
    dimensions: int, step: float, radius: float, offset: float
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, " N"]]:
    """Nodes step·(Z^d + offset) in a ball, with weights of the standard normal density and of sum
    one: the trapezoidal rule.
    """
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    reach = int(radius / step) + 1
    ticks = step * (np.arange(-reach, reach + 1) + offset)
    grid = np.meshgrid(*[ticks] * dimensions, indexing="ij")
    z = np.stack(grid, axis=-1).reshape(-1, dimensions)
    square = (z**2).sum(axis=1)
    inside = square <= radius**2
    w = np.exp(-0.5 * square[inside])
    return z[inside], w / w.sum()


def lattice_size(dimensions: int, step: float, radius: float) -> float:
    """The approximate number of nodes of `lattice`."""
    ball = math.pi ** (dimensions / 2) / math.gamma(dimensions / 2 + 1)
    return ball * (radius / step) ** dimensions


# --- fewer nodes ---------------------------------------------------------------------------------


class Bins(NamedTuple):
    """Intervals between 0 and the largest node: equal ones within an octave, `top` in the highest,
    then half as many in each lower one, at least `least`, for `octaves` octaves.
    """

    top: int
    least: int
    octaves: int

    @property
    def counts(self) -> Int[np.ndarray, " octaves"]:
        """The number of intervals in each octave; below the last there is one more."""
        return np.maximum(self.top >> np.minimum(np.arange(self.octaves), 62), self.least)

    @property
    def size(self) -> int:
        """The number of intervals, the one below the last octave included."""
        return int(self.counts.sum()) + 1

    def place(self, v: Floats, xp: ModuleType) -> Int[Array | np.ndarray, " N"]:
        """The interval of each node v ≥ 0."""
        share = v / xp.where(v.max() > 0, v.max(), 1.0)
        mantissa, exponent = xp.frexp(share)  # share = mantissa 2^exponent, ½ ≤ mantissa < 1
        one = mantissa == 0.5  # the largest node is the upper end of the highest octave
        octave = xp.where(one, 1 - exponent, -exponent)
        within = xp.where(one, 1.0, 2 * mantissa - 1)
        below = (octave >= self.octaves) | (share == 0)
        k = xp.clip(octave, 0, self.octaves - 1)
        counts, starts = xp.asarray(self.counts), xp.asarray(np.cumsum(self.counts) - self.counts)
        inside = starts[k] + xp.minimum((within * counts[k]).astype(int), counts[k] - 1)
        return xp.where(below, self.size - 1, inside)


EQUAL_VALUES = 1e-12  # relative deviation that is taken for rounding
# 1,100 octaves are all that floats have
FINE, TRACED_BINS = Bins(2048, 64, 1100), Bins(1024, 32, 40)
SUMMED = Bins(512, 32, 1100), Bins(256, 16, 40)  # for laws of which all pairs of nodes are formed
MOST_SUMMED = 3 * 2**10  # most nodes of which all pairs are formed
SUMMED_ROUGHLY = Bins(384, 24, 1100), Bins(192, 12, 40)


def compressed(
    v: Floats, w: Floats, resolution: tuple[Bins, Bins] = (FINE, TRACED_BINS)
) -> Discrete:
    """The law of nodes v ≥ 0 and weights w on two nodes for each of some thousand intervals: the
    two-point Gauss rule of each.

    It keeps mass, mean, variance and third moment of every interval, so that E f errs by E |f⁗|
    width⁴/4320: exp(λ v) keeps ten digits up to λ·max v = 80, and since intervals shrink towards
    0, f(v) = e^{−λv} keeps them for every λ.
    """
    still = frozen(v)
    traced = is_traced(still)
    bins = resolution[traced]
    if len(v) <= 2 * bins.top:
        return v, w
    xp = jnp if is_traced(v, w) else np
    place = bins.place(still, jnp if traced else np)
    if traced:
        count = bins.size
    else:
        filled = np.bincount(place, minlength=bins.size) > 0
        place, count = (np.cumsum(filled) - 1)[place], int(filled.sum())

    def total(x: Floats) -> Floats:
        return np.bincount(place, x, count) if xp is np else jax.ops.segment_sum(x, place, count)

    mass = total(w)
    safe = xp.where(mass > 0, mass, 1.0)
    mean = total(w * v) / safe
    # to the mean of the interval, which may be 1e-200
    relative = v / xp.where(mean > 0, mean, 1.0)[place] - 1
    squares = w * relative * relative
    second, third = total(squares) / safe, total(squares * relative) / safe
    real = (second > EQUAL_VALUES**2) & (mean > 0)
    spread = xp.sqrt(xp.where(real, second, 1.0))
    skew = xp.where(real, third / spread**3, 0.0)
    root = xp.sqrt(1 + 0.25 * skew**2)
    # nodes of the Gauss rule for mean 0, variance 1 and this skewness
    up, down = 0.5 * skew + root, 0.5 * skew - root
    width = xp.where(real, mean * spread, 0.0)
    nodes = xp.concatenate([mean + width * up, mean + width * down])
    weights = xp.concatenate([mass * -down, mass * up]) / xp.concatenate([up - down] * 2)
    # inside `jit` 10⁵ numbers are added one by one: those of `mean` and of `mass` round alike
    return xp.maximum(nodes, 0.0), weights / mass.sum() if traced else weights


def mean_of(v: Floats, w: Floats, count: int, rough: bool = False) -> Discrete:
    """The law of the mean of `count` independent numbers with nodes v and weights w, on few nodes;
    `rough`: on fewer, so that the difference shows the error.
    """
    if count == 1:
        return v, w
    resolution = SUMMED_ROUGHLY if rough else SUMMED
    one = total = compressed(v, w, resolution)
    for bit in f"{count:b}"[1:]:  # twice as many, and one more
        total = _sum_of(total, total, resolution)
        if bit == "1":
            total = _sum_of(total, one, resolution)
    return total[0] / count, total[1]


def are_summable(v: Floats, w: Floats) -> bool:
    """Has the law so few nodes (octaves) that `mean_of` takes a second?"""
    return len(compressed(v, w, SUMMED)[0]) <= MOST_SUMMED


def _sum_of(first: Discrete, second: Discrete, resolution: tuple[Bins, Bins]) -> Discrete:
    (v, p), (w, q) = first, second
    if first is second and not is_traced(v):  # each pair of different nodes occurs twice
        i, j = np.triu_indices(len(v))
        return compressed(v[i] + v[j], p[i] * p[j] * np.where(i == j, 1.0, 2.0), resolution)
    return compressed((v[:, None] + w).reshape(-1), (p[:, None] * q).reshape(-1), resolution)
