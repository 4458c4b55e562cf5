"""Scores of wide vectors that may be correlated with other scores (matrices that several dot
products share, tied layers, rotary embeddings): bilinear forms in normals,

    p_ij = (L_q N L_kᵀ)_ij,

with L_q and L_k the coordinates of queries and keys in orthonormal frames of those met so far. A
later layer with the same matrices has longer rows L and the same N: conditional on the earlier
scores this is p₂ | p₁ of theory §1, with the square of the number of vectors as normals. Where
queries and keys live in one frame N is symmetric, N = (G + Gᵀ)/√2, which has Definition 3.1's
covariance as well,

    E[N_ab N_cd] = δ_ac δ_bd + δ_ad δ_bc.

Rotary embeddings are a sum over independent N_m, times functions of the phase (`waves.py`).
"""

import copy
import math
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.covariance import between, pair
from limitlaw.core.instructions import Dot
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axes, Axis, Labelled, multiply, sizes, union
from limitlaw.engines.frames.fresh import at_nodes
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.moments import Moments
from limitlaw.engines.limit.nodes import BLUR, Joint
from limitlaw.engines.limit.pairings import FrameGroup, Pairing, pairings
from limitlaw.engines.limit.scores import phase, scored
from limitlaw.engines.limit.waves import Waves, waves, waves_at
from limitlaw.numerics.random import Source, normal

# vectors of a frame, and the axes along which there are independent copies of it
Place = tuple[Value, Axes]
Normals = dict[Pairing, Any]  # (lead, modes, rows, columns)


class BilinearForms:
    """Scores as bilinear forms, in the frames and normals of a draw."""

    def __init__(self, moments: Moments, dots: Iterable[Value], facts: LimitFacts | None = None):
        self._moments = moments
        self._pairings = pairings(facts or moments.facts, dots)
        self.frames: dict[tuple[Place, ...], Any] = {}
        self._normals: Normals = {}

    def within(
        self, moments: Moments, frames: dict[Any, Any], normals: Normals
    ) -> "BilinearForms":
        """The same scores in an iteration of a loop, with its moments, frames and normals."""
        forms = copy.copy(self)
        forms._moments, forms.frames, forms._normals = moments, frames, normals
        return forms

    @property
    def components(self) -> list[FrameGroup]:
        """The groups of vectors of all pairings."""
        ends = ((x.first, x.second) for x in self._pairings.values())
        return list(dict.fromkeys(component for both in ends for component in both))

    @property
    def distinct(self) -> list[FrameGroup]:
        """One group of vectors for each frame."""
        return list({component.places: component for component in self.components}.values())

    def all_normals(self, source: Source, times: int) -> Normals:
        """The normals of all pairings, for `times` iterations."""
        every = dict.fromkeys(self._pairings.values())
        return {pairing: self._drawn(source, pairing, times) for pairing in every}

    def those_of(self, normals: Normals, turns: int) -> Normals:
        """The part of these normals that the first iterations need."""
        return {
            pairing: N[..., : turns * _ends(pairing)[0], : turns * _ends(pairing)[1]]
            for pairing, N in normals.items()
        }

    def draw(self, source: Source, p: Value) -> Labelled:
        """The scores p; their normals are drawn unless they have been."""
        dot, pairing = scored(p), self._pairings[p]
        left, right = (
            self._coordinates(component, v)
            for component, v in zip(
                (pairing.first, pairing.second), pairing.factors(dot), strict=True
            )
        )
        lead = pairing.axes(dot)
        f = _Modes(self._moments, pairing).at(dot)
        if pairing not in self._normals:
            self._normals[pairing] = self._drawn(source, pairing)
        rows, columns = left.array.shape[-1], right.array.shape[-1]
        N = Labelled(self._normals[pairing][..., :rows, :columns], lead)
        return _form(left, N, right, f)

    # --- frames ----------------------------------------------------------------------------------

    def _coordinates(self, component: FrameGroup, v: Value) -> Labelled:
        """L, the coordinates of the vectors v in the frame of their group."""
        joint = self.frames.setdefault(component.places, Joint(self._gram, blur=BLUR))
        placed, copies = component.place(v)
        axes = (*copies, *(axis for axis in placed.axes if axis not in copies))
        rows = joint.rows((placed, copies))
        names, W = component.names(v), component.family
        L = Labelled(rows.reshape(*sizes(axes), -1), axes).rename(names)
        if W is None:
            return L
        return multiply(L, self._moments.given.given(W.std, W.layout).rename(names))

    def _gram(self, first: Place, second: Place) -> Float[Array, "*copies m k"] | None:
        return gram_of(self._moments, first, second)

    # --- normals ---------------------------------------------------------------------------------

    def _drawn(
        self, source: Source, pairing: Pairing, times: int = 1
    ) -> Float[Array, "*lead modes rows columns"]:
        """The normals N for all dot products of a pairing."""
        lead = pairing.axes(pairing.dots[0])
        signs = _Modes(self._moments, pairing).signs
        shape = *sizes(lead), len(signs), *(times * end for end in _ends(pairing))
        G = normal(at_nodes(source, lead), shape)
        if pairing.first is not pairing.second:
            return G
        sign = jnp.asarray(signs)[:, None, None]
        return (G + sign * jnp.swapaxes(G, -1, -2)) / math.sqrt(2)


def gram_of(
    moments: Moments, first: Place, second: Place, turns: Axis | None = None
) -> Float[Array, "*copies m k"] | None:
    """Second moments of two batches, entries flattened, for each of the copies; the second batch
    may have an axis of iterations in front.
    """
    (x, own), (y, other) = first, second
    pairs = tuple(map(pair, own, other))
    block = moments.second(x, y, between(frozenset(pairs), x.axes, y.axes))
    left = tuple(axis for axis in x.axes if axis not in own)
    right = tuple(axis for axis in y.axes if axis not in other)
    if turns is not None and turns not in right:
        right = (turns, *right)
    shape = *sizes(own), math.prod(sizes(left)), math.prod(sizes(right))
    if block is None:
        return jnp.zeros(shape) if first == second else None
    for a, b in zip(own, other, strict=True):
        block = block.restricted(a, b)
    block = block.dense([p.left for p in block.pairs if p not in pairs and p.left is not None])
    layout = (*pairs, *(pair(a, None) for a in left), *(pair(None, b) for b in right))
    return block.c.whole(layout).reshape(shape)


def _ends(pairing: Pairing) -> tuple[int, int]:
    """How many axes of both frames the dot products of a pairing need, in one iteration."""
    first, second = (
        max(_end(component, pairing.factors(dot)[side]) for dot in pairing.dots)
        for side, component in enumerate((pairing.first, pairing.second))
    )
    largest = max(first, second)
    return (largest, largest) if pairing.first is pairing.second else (first, second)


def _end(component: FrameGroup, v: Value) -> int:
    """How many axes the frame of a group has once v is placed."""
    places = component.places
    count = 0
    for placed, copies in places[: places.index(component.place(v)) + 1]:
        count += math.prod(sizes(axis for axis in placed.axes if axis not in copies))
    return count


def _form(left: Labelled, N: Labelled, right: Labelled, f: Labelled) -> Labelled:
    """Σ_mab f_m L_a N_mab L'_b, entry by entry along common axes."""
    axes = union(left.axes, right.axes, N.axes, f.axes)
    letter = {axis: i for i, axis in enumerate(axes)}
    m, a, b = (len(axes) + i for i in range(3))
    operands: list[Any] = []
    for x, hidden in ((left, [a]), (N, [m, a, b]), (right, [b]), (f, [m])):
        operands += [x.array, [*(letter[axis] for axis in x.axes), *hidden]]
    return Labelled(jnp.einsum(*operands, list(range(len(axes)))), axes)


class _Modes:
    """The functions of the phase on each matrix of normals; without rotary embeddings, 1."""

    def __init__(self, moments: Moments, pairing: Pairing):
        self._moments, self._pairing = moments, pairing
        turned = [dot for dot in pairing.dots if dot.base is not None]
        self._bases = frozenset(dot.base for dot in turned if dot.base is not None)
        reaches = [dot.reach for dot in turned]
        known = [reach for reach in reaches if reach is not None]
        self._waves: Waves | None = None
        if turned and len(known) == len(reaches):
            self._waves = waves(self._bases, max(known))

    def at(self, dot: Dot) -> Labelled:
        """The values of the functions at each score."""
        if not self._bases:
            return Labelled(jnp.ones(1), ())
        if self._waves is None:
            return self._at_own_phases(dot)
        found = self._waves
        base = dot.base or min(self._bases)  # without one the phase is 0
        return self._phase(dot).mapped(lambda x: found.at(x, base))

    @property
    def signs(self) -> list[float]:
        """A sign for each function of the phase: 1 for even ones, −1 for odd ones."""
        if not self._bases:
            return [1.0]
        if self._waves is not None:
            even, odd = self._waves.modes
        else:
            even = odd = sum(x.array.size for x in map(self._phase, self._pairing.dots))
        return [1.0] * even + [-1.0] * odd

    def _phase(self, dot: Dot) -> Labelled:
        """The position of the vector of the first group minus that of the other."""
        turned = self._pairing.turned(dot)
        return phase(self._moments, dot).mapped(lambda x: -x if turned else x)

    def _at_own_phases(self, dot: Dot) -> Labelled:
        """The values where phases have no known bound: there are as many functions as scores."""
        phases = {other: self._phase(other) for other in self._pairing.dots}
        every = jnp.concatenate([x.array.reshape(-1) for x in phases.values()])
        f = jnp.concatenate(waves_at(every, min(self._bases)), axis=-1)
        start = sum(
            phases[other].array.size
            for other in self._pairing.dots[: self._pairing.dots.index(dot)]
        )
        f = f[start : start + phases[dot].array.size]
        return Labelled(f.reshape(*phases[dot].array.shape, -1), phases[dot].axes)
