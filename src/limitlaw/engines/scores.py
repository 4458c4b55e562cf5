"""Dot products of fresh vectors: what must be drawn of them, and no more."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.engines.fresh import Fresh
from limitlaw.engines.spaces import apply_roots
from limitlaw.numerics.bartlett import bartlett_unit
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Source, split


def fresh_scores(key: Source, q: Fresh, k: Fresh, D: int | float) -> Float[Array, "*#lead s t"]:
    """Scores D^{-1/2} ⟨q_i, k_j⟩ of two fresh families: S = L_q T N L_kᵀ/√D.

    One of the two is placed in a frame of its own (T, Bartlett); of the other only the components along that frame
    are drawn (N, normals). The first must have no own roots where the second shares them.
    """
    ndim = max(len(q.shape), len(k.shape))
    q, k = q.padded(ndim), k.padded(ndim)
    lead = range(ndim - 1)
    if any(q.own[a] and not k.own[a] for a in lead) and any(k.own[a] and not q.own[a] for a in lead):
        q = q.shared(tuple(a for a in lead if not k.own[a]))
    q_first = all(k.own[a] for a in lead if q.own[a])
    k_first = all(q.own[a] for a in lead if k.own[a])
    if k_first and (not q_first or _vectors(k) < _vectors(q)):
        return jnp.swapaxes(_placed_first(key, k, q, D), -1, -2)
    return _placed_first(key, q, k, D)


def _vectors(fresh: Fresh) -> int:
    """How many vectors, or roots if fewer, meet in one frame."""
    count = fresh.shape[-1]
    for size, own in zip(fresh.c.shape[:-2], fresh.own[:-1], strict=True):
        count *= 1 if own else size
    return min(count, fresh.roots * (fresh.shape[-1] if fresh.own[-1] else 1))


def _placed_first(key: Source, first: Fresh, second: Fresh, D: int | float) -> Float[Array, "*#lead s t"]:
    placing, meeting = split(key)
    first = first.shared((len(first.shape) - 1,)).compressed()
    T = bartlett_unit(placing, first.roots, D, first.own_sizes, first.c.dtype)
    return _scores(meeting, apply_roots(first.whole((len(first.shape) - 1,)), T), second)


def scores_with_drawn(key: Source, units: Float[Array, "*#lead s r"], k: Fresh) -> Float[Array, "*#lead s t"]:
    """Scores of drawn vectors, in units, with fresh ones: N(0, Gram of the drawn ones) for each root."""
    ndim = max(units.ndim - 1, len(k.shape))
    k = k.padded(ndim)
    units = units.reshape(*(1,) * (ndim + 1 - units.ndim), *units.shape)
    own = (*k.own[:-1], False)
    shape = tuple(max(a, b) for a, b in zip(units.shape[:-2], k.shape[:-1], strict=True))
    drawn = Fresh(units, (*shape, units.shape[-2]), own).compressed()
    return _scores(key, drawn.c, k)


def _scores(key: Source, units: Float[Array, "*#lead s r"], second: Fresh) -> Float[Array, "*#lead s t"]:
    """⟨units_i, c_j N⟩, N the components of the second's roots along the axes of the first."""
    second = second.compressed()
    N = normal(key, (*second.own_sizes, second.roots, units.shape[-1]), units.dtype)
    v = apply_roots(second.whole((len(second.shape) - 1,)), N)
    return _products(units, v)


def _products(u: Float[Array, "*#lead s r"], v: Float[Array, "*#lead t r"]) -> Float[Array, "*#lead s t"]:
    if u.shape[-2] * v.shape[-2] * u.shape[-1] <= 512:  # small: one fused loop beats a call of a matrix product
        return (u[..., :, None, :] * v[..., None, :, :]).sum(axis=-1)
    return u @ jnp.swapaxes(v, -1, -2)
