"""The ledger of a reused matrix: which vectors it met, from which side, and what came out.

W = std·G/√cols, where the entries of G are i.i.d. N(0, 1). Of each side an orthonormal basis of
what it met is kept with its images: Q and G Qᵀ from the right, P and Gᵀ Pᵀ from the left. A new
input x = B Q + L Q' has the image B (G Q) + L (G Q'), and for a row q of Q', orthogonal to Q,

    G q = Σ_p ⟨Gᵀ p, q⟩ p + (1 − PᵀP) g,        g standard Gaussian and independent of the rest:

exact, also when x depends on earlier images; Gᵀ p the same from the other side. Rows of Q' are
zero where x was spanned already, so that after n inputs nothing fresh is left.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.kinds import Family
from limitlaw.core.labelled import Axis, Labelled, add, finite_shape, labelled
from limitlaw.engines.frames.fresh import Dimension, Fresh
from limitlaw.engines.frames.spaces import Space
from limitlaw.engines.meeting import Meeting
from limitlaw.numerics.bases import extended
from limitlaw.numerics.random import Source


@dataclasses.dataclass(frozen=True)
class Met:
    """An orthonormal basis of what m matrices met from one side, and its images, divided by the
    root of their dimension as the basis is.
    """

    basis: Float[Array, "m_or_1 k r"]
    images: Float[Array, "m k r2"]

    def and_also(self, other: "Met") -> "Met":
        """With more of both."""
        return Met(_joined(self.basis, other.basis), _joined(self.images, other.images))


class Ledger:
    """What a family of m matrices has met so far. `std` broadcasts to its layout."""

    def __init__(self, family: Family, std: Float[Array, "..."]):
        self.family, self.std = family, std
        self.met: dict[bool, Met] = {}  # from the right (False) and from the left (True)

    def regressed(self, x: Labelled, left: bool) -> tuple[Labelled | None, Fresh]:
        """Products with x, a batch divided by √D, as their regression on what this side met and
        the fresh residual that is left if the other side met nothing.
        Keeps what `extended` will need.
        """
        own = self.family.axes
        self.layout = (*(axis for axis in x.axes if axis not in own), *self.family.layout)
        array = x.laid(self.layout)
        self.meeting = Meeting.of(finite_shape(self.family.layout), array.shape[:-1])
        vectors = self.meeting.gather(array)
        known = self.met.get(left)
        nothing = jnp.zeros((1, 0, vectors.shape[-1]), vectors.dtype)
        basis = nothing if known is None else known.basis
        r = max(vectors.shape[-1], basis.shape[-1])
        vectors, basis = _same_count(_wider(vectors, r), _wider(basis, r))
        B, self.L, self.new = extended(vectors, basis)
        c = self._scattered(self.L)
        fresh = Fresh(c, c.axes, frozenset(own))
        if known is None:
            return None, fresh
        return self._scattered(self._of_each(B) @ known.images), fresh

    def extended(
        self, D: Dimension, into: Space, left: bool, key: Source, regressed: Labelled | None
    ) -> Labelled:
        """Draw the images of the new basis vectors, write them down, and return the products,
        divided by the root of their dimension. D is that of what was met, `into` the space of the
        images.
        """
        m, k = self.meeting.size(self.meeting.own), self.new.shape[1]
        members, vectors = Axis(m), Axis(k)
        eye = Labelled(jnp.eye(k, dtype=self.new.dtype), (vectors,))
        own = frozenset([members]) if m > 1 else frozenset()
        g = into.draw(key, Fresh(eye, (members, vectors), own)).mapped(into.units)
        other = self.met.get(not left)
        images = g.whole((members, vectors))
        if other is not None:
            images = self._consistent(images, other, D.root / into.D.root)
        found = Met(self.new, images)
        known = self.met.get(left)
        self.met[left] = found if known is None else known.and_also(found)
        y = self._scattered(self._of_each(self.L) @ images)
        if regressed is None:
            return y
        return add([regressed.mapped(lambda a: _wider(a, y.array.shape[-1])), y])

    def _consistent(
        self, g: Float[Array, "m k r"], other: Met, ratio: float | Float[Array, ""]
    ) -> Float[Array, "m k r"]:
        """Images that agree with what came out of the other side: √(D/D') ⟨Gᵀp, q⟩ p in place of
        g's component along p.
        """
        r = min(other.images.shape[-1], self.new.shape[-1])
        given = self.new[..., :r] @ other.images[..., :r].mT * ratio
        P = _wider(other.basis, g.shape[-1])
        return g + (given - g @ P.mT) @ P

    def _of_each(self, a: Float[Array, "m_or_1 k r"]) -> Float[Array, "m k r"]:
        m = self.meeting.size(self.meeting.own)
        return jnp.broadcast_to(a, (m, *a.shape[1:]))

    def _scattered(self, y: Float[Array, "m_or_1 k r"]) -> Labelled:
        """Products back on their axes, times std."""
        array = self.meeting.scatter(self._of_each(y))
        return labelled(self.std[..., None] * array, self.layout, hidden=1)


def _wider(array: Float[Array, "*batch r"], r: int) -> Float[Array, "*batch r2"]:
    missing = r - array.shape[-1]
    return array if missing <= 0 else jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def _joined(
    first: Float[Array, "m1 k1 r"], second: Float[Array, "m2 k2 r2"]
) -> Float[Array, "m k r3"]:
    r = max(first.shape[-1], second.shape[-1])
    return jnp.concatenate(_same_count(_wider(first, r), _wider(second, r)), axis=1)


def _same_count(
    first: Float[Array, "m1 k1 r"], second: Float[Array, "m2 k2 r2"]
) -> tuple[Float[Array, "m k1 r"], Float[Array, "m k2 r2"]]:
    m = max(len(first), len(second))
    return jnp.broadcast_to(first, (m, *first.shape[1:])), jnp.broadcast_to(
        second, (m, *second.shape[1:])
    )
