"""Scores of wide vectors in the limit (Definition 3.1 (iv)): Gaussian under 1/√n, deterministic under 1/n.

    Cov(p_k, p_l) = E[Z^{q_k} Z^{q_l}] E[Z^{k_k} Z^{k_l}] + E[Z^{q_k} Z^{k_l}] E[Z^{k_k} Z^{q_l}]

Most scores are independent of all others given the kernels, and drawn as L N Lᵀ. Those that may be correlated with
others (matrices shared by several dot products, tied layers, rotary) are drawn jointly: each given the earlier ones.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.engines.limit_.joint import Joint
from limitlaw.engines.moments import Moments
from limitlaw.engines.static import Facts
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Source


def correlated(values: Sequence[Value], facts: Facts) -> frozenset[Value]:
    """The random scores that are not known to be independent of all others, and those with rotary factors."""
    found = {v for v in values if _is_score(v) and any(isinstance(u.op, ops.Rotary) for u in v.op.inputs)}
    scores = [v for v in values if _is_score(v)]
    for i, p in enumerate(scores):
        found |= {v for other in scores[:i] if are_correlated(p, other, facts) for v in (p, other)}
    return frozenset(found)


def are_correlated(p: Value, other: Value, facts: Facts) -> bool:
    """May two arrays of scores be correlated: do their factors have matrices in common, pair by pair?"""
    if not (_is_score(p) and _is_score(other)):
        return False
    (q, k), (r, t) = p.op.inputs, other.op.inputs
    straight, crossed = ((q, r), (k, t)), ((q, t), (k, r))
    return any(not any(facts.independent(*pair) for pair in pairs) for pairs in (straight, crossed))


def _is_score(v: Value) -> bool:
    return isinstance(v.op, ops.Dot) and v.op.dim.wide and v.op.scaling == "sqrt"


def heads_apart(dots: Iterable[Value]) -> bool:
    """Are entries with different leading indices (heads) independent: one query matrix for each, in all of them?"""
    factors = [Factors(p) for p in dots]
    return len({f.lead for f in factors}) == 1 and all(f.has_own_queries for f in factors)


class JointScores:
    """Scores that are drawn jointly, each given the earlier ones."""

    def __init__(self, moments: Moments, dots: Iterable[Value]):
        self._apart = heads_apart(dots)
        self._joint = Joint(lambda p, other: covariance(moments, p, other, self._apart))
        self._noise: Any = None

    def draw(self, source: Source, p: Value) -> Float[Array, "..."]:
        """The next scores."""
        f = Factors(p)
        rows = self._joint.rows(p)
        m = rows.shape[-2]
        noise = normal(source, (*(f.lead if self._apart else ()), m))
        self._noise = noise if self._noise is None else jnp.concatenate([self._noise, noise], axis=-1)
        return (rows @ self._noise[..., None])[..., 0].reshape(finite_shape(p.shape))


def covariance(moments: Moments, p: Value, other: Value, apart: bool = False) -> Float[Array, "*lead m k"]:
    """Cov(p_k, p_l) over the flattened entries of two arrays of scores; for each head where those are independent."""
    first, second = Factors(p), Factors(other)
    straight = _outer(moments, (first.q, second.q), (first.k, second.k), first, second, apart)
    crossed = _outer(moments, (first.q, second.k), (first.k, second.q), first, second, apart)
    total = jnp.zeros(())
    if straight is not None:
        total = total + straight * _rotation(first, second, 1.0, apart)
    if crossed is not None:
        total = total + jnp.swapaxes(crossed, -1, -2) * _rotation(first, second, -1.0, apart)
    m, k = (math.prod(f.shape[-2:] if apart else f.shape) for f in (first, second))
    if not apart:
        return jnp.broadcast_to(total, (*first.shape, *second.shape)).reshape(m, k)
    tokens = (*first.shape[-2:], *second.shape[-2:])
    lead = np.broadcast_shapes(total.shape[:-4], (1,) * len(first.lead))
    return jnp.broadcast_to(total, (*lead, *tokens)).reshape(*lead, m, k)


class Factors:
    """The factors of a dot product without rotation, the phases of their rotation, and the shape (*lead, s, t)."""

    def __init__(self, p: Value):
        op: Any = p.op
        (self.q, a), (self.k, b) = (_unrotated(v) for v in (op.q, op.k))
        self.rotates = any(isinstance(v.op, ops.Rotary) for v in (op.q, op.k))
        self.base = next((v.op.base for v in (op.q, op.k) if isinstance(v.op, ops.Rotary)), 1.0)
        tokens = [int(v.shape[-1]) if v.ndim else 1 for v in (self.q, self.k)]
        self.lead = np.broadcast_shapes(*(finite_shape(v.shape[:-1]) for v in (self.q, self.k)))
        self.shape = (*self.lead, *tokens)
        a, b = (np.broadcast_to(x, (*self.lead, s)) for x, s in zip((a, b), tokens, strict=True))
        self.phase = a[..., :, None] - b[..., None, :]

    @property
    def has_own_queries(self) -> bool:
        """Has each leading index a query matrix of its own?"""
        if not isinstance(self.q.op, ops.MatMul):
            return False
        family = (1,) * (self.q.ndim - len(self.q.op.matrix.shape)) + finite_shape(self.q.op.matrix.shape)
        lead = (1,) * (len(self.lead) + 1 - len(family)) + family[:-1]
        return lead == self.lead and family[-1:] in ((), (1,))


def _unrotated(v: Any) -> tuple[Value, Any]:
    return (v.op.w, v.op.positions) if isinstance(v.op, ops.Rotary) else (v, np.zeros(()))


def _spread(
    moments: Moments, v: Value, w: Value, left: tuple[int, ...], right: tuple[int, ...], apart: bool
) -> Float[Array, "..."] | None:
    """E[v w] over (*left, *right), or where heads are apart over (*lead, s, s')."""
    block = moments.second(v, w)
    if block is None:
        return None
    block = block.spread(left, right)
    if not apart:
        return block.flat().reshape(*left, *right)
    last = len(left) - 1
    block = block.dense([last])
    for a in range(last):
        block = block.restricted(a, a) if left[a] > 1 else block
    lead = block.array.shape[:last]
    return jnp.broadcast_to(block.array, (*lead, left[-1], *(1,) * last, right[-1])).reshape(*lead, left[-1], right[-1])


def _outer(
    moments: Moments, qs: Any, ks: Any, first: Factors, second: Factors, apart: bool
) -> Float[Array, "..."] | None:
    """E[q q'] E[k k'] over (*lead, s, t, *lead', s', t'), the primed tokens in the order of qs and ks."""
    arrays = []
    for v, w in (qs, ks):
        left, right = ((*f.lead, int(x.shape[-1]) if x.ndim else 1) for f, x in ((first, v), (second, w)))
        array = _spread(moments, v, w, left, right, apart)
        if array is None:
            return None
        arrays.append(array)
    a = len(first.lead)
    b = 0 if apart else len(second.lead)
    return jnp.expand_dims(arrays[0], (a + 1, a + b + 3)) * jnp.expand_dims(arrays[1], (a, a + b + 2))


def _rotation(first: Factors, second: Factors, sign: float, apart: bool) -> Float[np.ndarray, "..."] | float:
    """c(Δ), Δ the difference of the two phases (their sum where queries meet keys)."""
    if not first.rotates and not second.rotates:
        return 1.0
    if apart:
        return rotation_factor(first.phase[..., None, None] - sign * second.phase[..., None, None, :, :], first.base)
    there = first.phase.reshape(*first.shape, *(1,) * len(second.shape))
    return rotation_factor(there - sign * second.phase, first.base)


def rotation_factor(delta: Any, base: float) -> Float[np.ndarray, "..."]:
    """c(Δ) = lim (2/D) Σ_m cos(θ_m Δ) = ∫₀¹ cos(Δ base^{−u}) du = (Ci |Δ| − Ci(|Δ|/base))/log base."""
    from scipy.special import sici

    delta = np.abs(np.asarray(delta, float))
    if base == 1.0:
        return np.cos(delta)
    safe = np.where(delta > 0, delta, 1.0)
    return np.where(delta > 0, (sici(safe)[1] - sici(safe / base)[1]) / math.log(base), 1.0)


def linear(moments: Moments, p: Value) -> Float[Array, "..."]:
    """Scores under 1/n: E[Z^q Z^k] for each pair of tokens."""
    f = Factors(p)
    array = _spread(moments, f.q, f.k, (*f.lead, f.shape[-2]), (*f.lead, f.shape[-1]), apart=True)
    if array is None:
        return jnp.zeros(finite_shape(p.shape))
    array = array * (rotation_factor(f.phase, f.base) if f.rotates else 1.0)
    return jnp.broadcast_to(array, f.shape).reshape(finite_shape(p.shape))
