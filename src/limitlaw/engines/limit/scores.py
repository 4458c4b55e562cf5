"""Scores of wide vectors in the limit (Definition 3.1 (iv)):
Gaussian under 1/√n, deterministic under 1/n.

    Cov(p_k, p_l) = E[Z^{q_k} Z^{q_l}] E[Z^{k_k} Z^{k_l}] + E[Z^{q_k} Z^{k_l}] E[Z^{k_k} Z^{q_l}]

Most scores are independent of all others given the kernels, and drawn as L N Lᵀ. Those that may be
correlated with others (matrices shared by several dot products, tied layers, rotary) are drawn
jointly: each given the earlier ones.
"""

import math
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.covariance import Covariance, pair, total
from limitlaw.core.instructions import Dot, MatMul, Rename, Value
from limitlaw.core.labelled import Axes, Labelled, elementwise, multiply, sizes
from limitlaw.engines.frames.fresh import at_nodes
from limitlaw.engines.limit.moments import Moments, zeros
from limitlaw.engines.limit.nodes import Joint
from limitlaw.numerics.random import Source, normal
from limitlaw.numerics.special_functions import cosine_integral


def covariance(moments: Moments, p: Value, other: Value) -> Covariance | None:
    """Cov(p_k, p_l) of two arrays of scores; None for zero."""
    first, second = _dot(p), _dot(other)
    straight = _product(moments, (first.q, second.q), (first.k, second.k))
    crossed = _product(moments, (first.q, second.k), (first.k, second.q))
    if first.base is not None or second.base is not None:
        straight, crossed = (
            None if block is None else _turned(moments, block, first, second, sign)
            for block, sign in ((straight, 1.0), (crossed, -1.0))
        )
    terms = [block for block in (straight, crossed) if block is not None]
    return total(terms) if terms else None


def _dot(p: Value) -> Dot:
    assert isinstance(p.instruction, Dot)
    return p.instruction


def _product(
    moments: Moments, qs: tuple[Value, Value], ks: tuple[Value, Value]
) -> Covariance | None:
    """E[q q'] E[k k'], entries meeting by axis."""
    queries, keys = moments.second(*qs), moments.second(*ks)
    return None if queries is None or keys is None else queries.times(keys)


def _turned(
    moments: Moments, block: Covariance, first: Dot, second: Dot, sign: float
) -> Covariance:
    """Times c(Δ), Δ the difference of the two phases (their sum where queries meet keys)."""
    base = first.base if first.base is not None else second.base
    assert base is not None
    here, there = block.on_left(_phase(moments, first)), block.on_right(_phase(moments, second))
    c = elementwise(lambda left, right: rotation_factor(left - sign * right, base), here, there)
    return Covariance(multiply(block.c, c))


def _phase(moments: Moments, dot: Dot) -> Labelled:
    """Position of q − position of k, for each score."""
    if dot.base is None:
        return Labelled(jnp.zeros(()), ())
    given = zip(dot.positions, dot.orders, strict=True)
    return elementwise(jnp.subtract, *(moments.given.given(slot, order) for slot, order in given))


def rotation_factor(delta: object, base: float) -> Float[Array, "..."]:
    """c(Δ) = lim (2/D) Σ_m cos(θ_m Δ) = ∫₀¹ cos(Δ base^{−u})
    du = (Ci |Δ| − Ci(|Δ|/base))/log base.
    """
    delta = jnp.abs(jnp.asarray(delta, float))
    if base == 1.0:
        return jnp.cos(delta)
    safe = jnp.where(delta > 0, delta, 1.0)
    ratio = (cosine_integral(safe) - cosine_integral(safe / base)) / math.log(base)
    return jnp.where(delta > 0, ratio, 1.0)


def deterministic(moments: Moments, p: Value) -> Labelled:
    """Scores under 1/n: E[Z^q Z^k], entry by entry along the axes that q and k share."""
    dot = _dot(p)
    block = moments.second(dot.q, dot.k)
    if block is None:
        return zeros(p)
    for axis in dot.q.axes:
        if axis in dot.k.axes and any(axis in (pair.left, pair.right) for pair in block.labels):
            block = block.restricted(axis, axis)
    called: Any = {pair: pair.left or pair.right for pair in block.labels}
    found = block.c.rename(called)
    if dot.base is None:
        return found
    return multiply(
        found, _phase(moments, dot).mapped(lambda delta: rotation_factor(delta, dot.base or 1.0))
    )


# --- joint draws ---------------------------------------------------------------------------------


def heads_of(p: Value) -> Axes:
    """The axes along which entries of scores are independent:
    each has a query matrix of its own.
    """
    dot = _dot(p)
    q, called = dot.q, {axis: axis for axis in dot.q.axes}
    while isinstance(q.instruction, Rename):
        called = {a: called[q.instruction.name_of(a)] for a in q.instruction.x.axes}
        q = q.instruction.x
    if not isinstance(q.instruction, MatMul):
        return ()
    own = tuple(called[a] for a in q.instruction.family.axes)
    shared = {a for a in dot.q.axes if a in dot.k.axes}
    return own if set(own) == shared else ()


class JointScores:
    """Scores that are drawn jointly, each given the earlier ones."""

    def __init__(self, moments: Moments, dots: Iterable[Value]):
        heads = {p: heads_of(p) for p in dots}
        same = len({tuple(axis.size for axis in axes) for axes in heads.values()}) == 1
        self._heads = heads if same else dict.fromkeys(heads, ())
        self._moments = moments
        self._joint = Joint(self._covariance)
        self._noise: Any = None

    def draw(self, source: Source, p: Value) -> Labelled:
        """The next scores."""
        lead = self._heads[p]
        rows = self._joint.rows(p)
        noise = normal(at_nodes(source, lead), (*sizes(lead), rows.shape[-2]))
        self._noise = (
            noise if self._noise is None else jnp.concatenate([self._noise, noise], axis=-1)
        )
        layout = (*lead, *self._rest(p))
        return Labelled((rows @ self._noise[..., None])[..., 0].reshape(sizes(layout)), layout)

    def _rest(self, p: Value) -> Axes:
        return tuple(axis for axis in p.axes if axis not in self._heads[p])

    def _covariance(self, p: Value, other: Value) -> Float[Array, "*lead m k"]:
        """Over the flattened entries, for each head."""
        left, right = self._rest(p), self._rest(other)
        m, k = (math.prod(sizes(axes)) for axes in (left, right))
        block = covariance(self._moments, p, other)
        lead = self._heads[p]
        if block is None:
            return jnp.zeros((*(1,) * len(lead), m, k))
        pairs = []
        for a, b in zip(lead, self._heads[other], strict=True):
            block = block.restricted(a, b)
            pairs.append(pair(a, b))
        block = block.dense(
            [pair.left for pair in block.pairs if pair not in pairs and pair.left is not None]
        )
        layout = (*pairs, *(pair(a, None) for a in left), *(pair(None, b) for b in right))
        return block.c.whole(layout).reshape(*sizes(pairs), m, k)
