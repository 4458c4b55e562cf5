"""Dot products of fresh vectors: what must be drawn of them, and no more."""

import math

import jax.numpy as jnp

from limitlaw.core.labelled import Axis, Labelled, sizes, union
from limitlaw.engines.frames.fresh import Dimension, Fresh, apply_roots, bartlett_units, inner
from limitlaw.numerics.random import Source, normal, split


def fresh_scores(key: Source, q: Fresh, k: Fresh, D: Dimension) -> Labelled:
    """Scores D^{-1/2} ⟨q, k⟩ of two fresh families, S = L_q T N L_kᵀ/√D:
    entry by entry along the axes they share.

    One of the two is placed in a frame of its own (T, Bartlett); of the other only the components
    along that frame are drawn (N, normals). The first must have no own roots where the second
    shares them.
    """
    lead = frozenset(q.axes) & frozenset(k.axes)
    if q.own & lead - k.own and k.own & lead - q.own:
        q = q.shared(lead - k.own)
    q_first, k_first = q.own & lead <= k.own, k.own & lead <= q.own
    if k_first and (not q_first or _vectors(k, lead) < _vectors(q, lead)):
        return _placed_first(key, k, q, D, lead)
    return _placed_first(key, q, k, D, lead)


def _vectors(fresh: Fresh, lead: frozenset[Axis]) -> int:
    """How many vectors, or roots if fewer, meet in one frame."""
    tokens = [axis for axis in fresh.axes if axis not in lead]
    stored = [axis for axis in fresh.c.axes if axis in lead and axis not in fresh.own]
    count = math.prod(sizes((*stored, *tokens)))
    return min(
        count, fresh.roots * math.prod(int(axis.size) for axis in tokens if axis in fresh.own)
    )


def _placed_first(
    key: Source, first: Fresh, second: Fresh, D: Dimension, lead: frozenset[Axis]
) -> Labelled:
    placing, meeting = split(key)
    first = first.shared([axis for axis in first.axes if axis not in lead]).compressed()
    units = first.c
    if not isinstance(D.size, float):  # at ∞ roots are orthonormal, and nothing is drawn
        T = bartlett_units(first.source(placing), first.roots, D, first.own_sizes)
        units = apply_roots(units, Labelled(T, first.own_axes))
    return _scores(meeting, units, second).with_axes(union(first.axes, second.axes))


def scores_with_drawn(key: Source, units: Labelled, k: Fresh) -> Labelled:
    """Scores of drawn vectors, in units, with fresh ones:
    N(0, Gram of the drawn ones) for each root.
    """
    drawn = Fresh(units, units.axes, k.own & frozenset(units.axes)).compressed()
    return _scores(key, drawn.c, k).with_axes(union(units.axes, k.axes))


def _scores(key: Source, units: Labelled, second: Fresh) -> Labelled:
    """⟨units, c N⟩ = ⟨units Nᵀ, c⟩, N the components of the second's roots along the axes of the
    first: in the order that takes fewer products.
    """
    second = second.compressed()
    own, m, r = second.own_axes, units.array.shape[-1], second.roots
    N = normal(second.source(key), (*second.own_sizes, r, m))
    met = math.prod(sizes(union(units.axes, second.c.axes, own)))
    left, right = (math.prod(sizes(union(axes, own))) for axes in (units.axes, second.c.axes))
    if left * m * r + met * r < right * r * m + met * m:
        turned = apply_roots(units, Labelled(jnp.swapaxes(N, -1, -2), own))
        return inner(turned, second.c)
    return inner(units, apply_roots(second.c, Labelled(N, own)))
