"""A sum over heads as the mixture that it is: Y | S ~ N(0, S), S = H^{−1} Σ_a v_a on lattices.

Far from 0 the law of S is tilted by e^{λS}/E e^{λS}, λ = x²/2S² for the S that counts at x, so
that N(x; 0, S) e^{−λS} is flat around it.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.laws.head_nodes import HeadArray, HeadNumber, Nodes
from limitlaw.numerics.lattices import Lattices
from limitlaw.numerics.special_functions import log_ndtr

# standard deviations x: the nearest of them has the mixture for a point; from 0 on without a tilt
KNOTS = np.array([0.0, 15.0, 23.0, 29.0, 34.0, 38.0])
TILTS = 96  # among which those for KNOTS are interpolated
TRACED_OCTAVES = 58  # octaves of RATIO_OF_VARIANCES, and a few below
NO_WEIGHT = 1e-40  # share of the largest weight, below which a weight is dropped
FEWEST_WEIGHTS = 2**9  # doubled until there are enough: few sizes, to compile for
CELLS = 2**17  # numbers held at a time


class HeadPart(NamedTuple):
    """The mixture Σ_k W_k e^{b_k} exp(−x²/2S_k), b = log E e^{λS} − λS − log(2πS)/2."""

    S: HeadArray
    W: HeadArray
    b: HeadArray


def tilts(nodes: Nodes) -> HeadArray:
    """λ for each of KNOTS, such that E_λ S √(2λ) = x, where E_λ is by the law tilted by e^{λS}."""
    xp, high = nodes.xp, nodes.ends()[1]
    V, high = (xp.where(high > 0, v, 1.0) for v in (nodes.variance(), high))
    low, top = xp.log(1e-3 / high), xp.log(1e3 / V)
    tilt = xp.exp(low + (top - low) * np.linspace(0, 1, TILTS))

    def mean(one: HeadNumber) -> HeadNumber:
        return nodes.tilted(one)[0].variance()

    S = jax.lax.map(mean, tilt) if xp is jnp else np.array([mean(one) for one in tilt])
    return xp.interp(KNOTS * xp.sqrt(V), S * xp.sqrt(2 * tilt), tilt, left=0.0)


def mixture(nodes: Nodes, tilt: HeadNumber | float, points: int) -> HeadPart:
    """The mixture by the tilted law of S, with `points` lattice points to an octave."""
    if not nodes.traced:
        return _mixture(nodes, tilt, points, nodes.levels)
    arrays = nodes.variances, nodes.weights, nodes.groups
    return _mixture_in_jax(*arrays, tilt, nodes.inner, nodes.outer, points)


def mixture_of_nodes(nodes: Nodes) -> HeadPart:
    """The mixture of a single head: its nodes themselves."""
    w = nodes.xp.where(nodes.variances > 0, nodes.groups[:, None] * nodes.weights, 0.0)
    return _of_weight(nodes.variances.reshape(-1), w.reshape(-1), 0.0, 0.0)


def _mixture(nodes: Nodes, tilt: HeadNumber | float, points: int, levels: int) -> HeadPart:
    tilted, constant = nodes.tilted(tilt)
    xp, high = nodes.xp, frozen(nodes.ends()[1])
    top = xp.where(high > 0, high, 1.0)
    one = Lattices.of(nodes.variances, tilted.weights, top, points, levels)
    law = one.power(nodes.inner).mixed(tilted.groups)
    law = law.power(nodes.outer) if nodes.outer > 1 else law
    S = law.numbers.reshape(-1) / nodes.heads
    return _of_weight(S, law.law[0].reshape(-1), tilt, constant)


@functools.partial(jax.jit, static_argnames=("inner", "outer", "points"))
def _mixture_in_jax(
    v: Array,
    w: Array,
    u: Array,
    tilt: Float[Array, ""] | float,
    inner: int,
    outer: int,
    points: int,
) -> HeadPart:
    return _mixture(Nodes(v, w, u, inner, outer), tilt, points, TRACED_OCTAVES)


def _of_weight(
    S: HeadArray, W: HeadArray, tilt: HeadNumber | float, constant: HeadNumber | float
) -> HeadPart:
    """The mixture of those S > 0 that have weight; of all inside JAX, for slopes at weight 0."""
    xp, there = jnp if is_traced(S, W) else np, S > 0
    if xp is np:
        size = np.abs(W)
        there = there & (size > NO_WEIGHT * size.max())
        count = FEWEST_WEIGHTS
        while count < there.sum():
            count *= 2
        kept = np.argsort(~there, kind="stable")[:count]
        more = max(count - len(S), 0)
        S, W, there = (np.pad(a[kept], (0, more)) for a in (S, W, there))
    S, W = xp.where(there, S, 1.0), xp.where(there, W, 0.0)
    return HeadPart(S, W, constant - tilt * S - xp.log(2 * math.pi * S) / 2)


@functools.partial(jax.jit, static_argnames="quantity")
def log_values(
    part: HeadPart,
    farthest: Float[Array, ""],
    slope: Float[Array, ""] | float,
    x: Float[Array, " x"],
    quantity: str,
) -> Float[Array, " x"]:
    """log pdf, or log P(Y > x) for "sf", at x ≥ 0; beyond `farthest` that of the Gaussian that the
    law resembles there, or of variance 1/slope.
    """
    S, W, b = part
    root, size = jnp.sqrt(S), jnp.log(jnp.abs(jax.lax.stop_gradient(W)))
    of_tails = b + jnp.log(2 * math.pi * S) / 2

    def one(x: Float[Array, ""]) -> Float[Array, ""]:
        at = jnp.where(x == jnp.inf, 0.0, jnp.where(x > farthest, farthest, x))
        z = at / root
        log = b - z**2 / 2 if quantity == "pdf" else of_tails + log_ndtr(-z)
        most = jax.lax.stop_gradient(jnp.max(log + size))
        terms = W * jnp.exp(jnp.minimum(log - most, 700.0))  # those of weight 0 may be large
        # a positive sum, or what rounding leaves of it
        total = jnp.maximum(terms.sum(), 1e-17 * jnp.abs(terms).sum() + 1e-300)
        own = jnp.where(slope > 0, slope, jax.lax.stop_gradient((terms / S).sum() / total))
        beyond = (x - at) * (x + at) / 2 * own
        if quantity == "sf":
            beyond = beyond + jnp.log(jnp.where(x > at, x / jnp.where(x > at, at, 1.0), 1.0))
        found = most + jnp.log(total) - jnp.where(x > at, beyond, 0.0)
        return jnp.where(x == jnp.inf, -jnp.inf, found)

    return jax.lax.map(jax.checkpoint(one), x, batch_size=max(1, CELLS // len(S)))


@functools.partial(jax.jit, static_argnames=("inner", "outer"))
def transform(
    v: Array, w: Array, u: Array, t: Float[Array, " t"], inner: int, outer: int
) -> Float[Array, " t"]:
    """φ(t) = (Σ_g u_g (Σ_k w_gk e^{−z v_gk})^p)^q, z = t²/(2pq).

    It is computed by expm1 and log1p, and has all digits for very many heads, too.
    """

    def logarithm(change: Array) -> Array:
        return jnp.log1p(jnp.maximum(change, -1.0))

    def one(t: Float[Array, ""]) -> Float[Array, ""]:
        z = t**2 / (2 * inner * outer)
        each = logarithm((w * jnp.expm1(-z * v)).sum(1))
        return jnp.exp(outer * logarithm((u * jnp.expm1(inner * each)).sum()))

    return jax.lax.map(jax.checkpoint(one), t, batch_size=max(1, CELLS // v.size))
