"""How a frame passes through a loop at finite width.

The axes of the frame before the loop stay, since what is outside has places on them. Of the rest
only inner products matter, so that it may be turned (`PassingFrame`): outputs of iterations have
axes of their own, as many as there are vectors, and carries share what is left. Where other loops
follow, which need what iterations made, nothing is turned: the frame grows by as many axes in each
iteration (`GrowingFrame`). Where a frame has all D axes it passes as it is.
"""

import dataclasses

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.engines.frames.spaces import Frame
from limitlaw.numerics.factors import gram, orthonormalise, pivoted_factor

Time = int | Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class PassingFrame:
    """How a frame passes through a loop: `old` axes that stay, `each` for the outputs of one of
    `times` iterations, and `carried` ones.
    """

    frame: Frame
    old: int
    each: int
    times: int
    reverse: bool
    carried: int

    @property
    def r(self) -> int:
        """All axes."""
        return self.frame.D.axes(self._wanted)

    def inside(self, t: Time) -> Frame:
        """The frame at the start of iteration t."""
        return self.frame.carried(self.r)

    @property
    def _wanted(self) -> int:
        return self.old + self.times * self.each + self.carried

    def start(self, carries: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Places of carries before the loop."""
        if self.r < self._wanted:
            return wider(carries, self.r)
        known = wider(carries[:, : self.old], self.r - self.carried)
        return jnp.concatenate([known, self._fitted(carries[:, self.old :])], axis=-1)

    def after(self, t: Time, vectors: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Places after iteration t, of its outputs and then of carries: outputs have the part L Q
        on new axes Q, carries what they have along these, and the rest turned.
        """
        vectors = wider(vectors, self.r)
        if self.r < self._wanted:  # there is no other axis
            return vectors
        kept = self.r - self.carried
        if not self.each:
            known, rest = jnp.split(vectors, [kept], axis=-1)
            return jnp.concatenate([known, self._fitted(rest)], axis=-1)
        # what was drawn has places on the axes of later outputs, too: nothing else has, so far
        first = place_of(self, t)
        free = jnp.arange(vectors.shape[-1]) >= first
        rest = jnp.where(free, vectors, 0.0)
        _, _, Q = orthonormalise(rest[: self.each], jnp.zeros((0, rest.shape[-1]), rest.dtype))
        along = rest @ Q.T
        known = jnp.where(free, 0.0, vectors)[:, :kept]
        known = lax.dynamic_update_slice(known, along, (0, first))
        left = self._fitted((rest - along @ Q)[self.each :])
        return jnp.concatenate([known, jnp.pad(left, [(self.each, 0), (0, 0)])], axis=-1)

    def _fitted(self, rest: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Vectors with the same inner products on as many axes as there are carries."""
        if rest.shape[-1] > self.carried:
            rest = pivoted_factor(gram(rest))
        return wider(rest, self.carried)


@dataclasses.dataclass(frozen=True)
class GrowingFrame:
    """How a frame grows in a loop: `old` axes before, and `each` in every one of `times`
    iterations. All have a place from the start, and a mask says which are taken: iteration t draws
    the components of new vectors along those alone, and has new ones at the end, which are then
    put in their place.
    """

    frame: Frame
    old: int
    each: int
    times: int
    reverse: bool

    @property
    def r(self) -> int:
        """All axes; those of one more iteration stand behind them while it lasts."""
        return self._axes - (0 if self._is_full else self.each)

    @property
    def _axes(self) -> int:
        return self.frame.D.axes(self._wanted)

    @property
    def _wanted(self) -> int:
        return self.old + (self.times + 1) * self.each

    @property
    def _is_full(self) -> bool:
        """Has the frame all D axes?"""
        return self._axes < self._wanted

    def inside(self, t: Time) -> Frame:
        """The frame at the start of iteration t."""
        if self._is_full or not self.each:
            return self.frame.carried(self.r)
        taken = jnp.arange(self.r) < place_of(self, t)
        return self.frame.carried(self.r, taken.astype(float))

    def start(self, carries: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Places of carries before the loop."""
        return wider(carries, self.r)

    def after(self, t: Time, vectors: Float[Array, "*batch r"]) -> Float[Array, "*batch r2"]:
        """Places after iteration t: new axes are put where they belong."""
        if self._is_full or vectors.shape[-1] <= self.r:
            return wider(vectors, self.r)
        known, new = jnp.split(vectors, [self.r], axis=-1)
        new = wider(new, self.each)
        return lax.dynamic_update_slice_in_dim(known, new, place_of(self, t), axis=-1)


def place_of(frame: PassingFrame | GrowingFrame, t: Time) -> Time:
    """The place of the first axis of iteration t, in the order in which iterations are run."""
    return frame.old + frame.each * (frame.times - 1 - t if frame.reverse else t)


def wider(rows: Float[Array, "*batch r"], r: int) -> Float[Array, "*batch r2"]:
    """With zeros behind them, up to r in all."""
    missing = max(0, r - rows.shape[-1])
    return jnp.pad(rows, [*[(0, 0)] * (rows.ndim - 1), (0, missing)])
