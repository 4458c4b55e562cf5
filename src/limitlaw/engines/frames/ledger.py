"""The ledger of a reused matrix: which vectors it met, and what came out.

The inputs are kept as an orthonormal basis Q, the outputs as W Q, independent standard Gaussian
vectors. A new input x = B Q + L Q' has the output B (W Q) + L (W Q'), where W Q' is fresh: exact,
also when x depends on earlier outputs. Rows of Q' are zero where x was spanned already, so that
after n inputs nothing fresh is left.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.kinds import Family
from limitlaw.core.labelled import Axis, Labelled, add, finite_shape, labelled
from limitlaw.engines.frames.fresh import Fresh
from limitlaw.engines.frames.spaces import Space
from limitlaw.engines.meeting import Meeting
from limitlaw.numerics.factors import orthonormalise
from limitlaw.numerics.random import Source


class Ledger:
    """What a family of m matrices has met so far. `std` broadcasts to its layout."""

    def __init__(self, family: Family, std: Float[Array, "..."]):
        self.family, self.std = family, std
        self.basis: Any = None  # (m or 1, k, r)
        self.outputs: Any = None  # (m, k, r of the outputs' space)

    def regressed(self, x: Labelled) -> tuple[Labelled | None, Fresh]:
        """W x as its regression on the ledger and its fresh residual.
        Keeps what `extended` will need.
        """
        own = self.family.axes
        self.layout = (*(axis for axis in x.axes if axis not in own), *self.family.layout)
        array = x.laid(self.layout)
        self.meeting = Meeting.of(finite_shape(self.family.layout), array.shape[:-1])
        vectors = self.meeting.gather(array)
        basis = (
            jnp.zeros((1, 0, vectors.shape[-1]), vectors.dtype)
            if self.basis is None
            else self.basis
        )
        r = max(vectors.shape[-1], basis.shape[-1])
        vectors, self.basis = _same_count(_wider(vectors, r), _wider(basis, r))
        self.B, self.L, self.new = jax.vmap(orthonormalise)(vectors, self.basis)
        c = self._scattered(self.L)
        fresh = Fresh(c, c.axes, frozenset(own))
        if self.outputs is None:
            return None, fresh
        m = self.meeting.size(self.meeting.own)
        return self._scattered(
            jnp.broadcast_to(self.B, (m, *self.B.shape[1:])) @ self.outputs
        ), fresh

    def _scattered(self, y: Float[Array, "m_or_1 k r"]) -> Labelled:
        """Products back on their axes, times std."""
        m = self.meeting.size(self.meeting.own)
        array = self.meeting.scatter(jnp.broadcast_to(y, (m, *y.shape[1:])))
        return labelled(self.std[..., None] * array, self.layout, hidden=1)

    def extended(self, space: Space, key: Source, drawn: Labelled | None) -> Labelled:
        """Draw the outputs of the new basis vectors, write them down, and return W x."""
        m, k = self.meeting.size(self.meeting.own), self.new.shape[1]
        members, vectors = Axis(m), Axis(k)
        eye = Labelled(jnp.eye(k, dtype=self.new.dtype), (vectors,))
        own = frozenset([members]) if m > 1 else frozenset()
        outputs = space.draw(key, Fresh(eye, (members, vectors), own)).whole((members, vectors))
        y = self._scattered(jnp.broadcast_to(self.L, (m, *self.L.shape[1:])) @ outputs)
        self.basis = jnp.concatenate([*_same_count(self.basis, self.new)], axis=1)
        if self.outputs is None:
            self.outputs = outputs
        else:
            self.outputs = jnp.concatenate(
                [_wider(self.outputs, outputs.shape[-1]), outputs], axis=1
            )
        return (
            y if drawn is None else add([drawn.mapped(lambda a: _wider(a, y.array.shape[-1])), y])
        )


def _wider(array: Float[Array, "*batch r"], r: int) -> Float[Array, "*batch r2"]:
    missing = r - array.shape[-1]
    return array if missing <= 0 else jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def _same_count(
    first: Float[Array, "m1 k1 r"], second: Float[Array, "m2 k2 r2"]
) -> tuple[Float[Array, "m k1 r"], Float[Array, "m k2 r2"]]:
    m = max(len(first), len(second))
    return jnp.broadcast_to(first, (m, *first.shape[1:])), jnp.broadcast_to(
        second, (m, *second.shape[1:])
    )
