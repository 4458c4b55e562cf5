"""A loop at finite width: what passes from turn to turn is x, its coordinates or its place in a
frame. The axes of the frame before the loop stay; of the rest only inner products matter, so that
it may be turned to as many axes as there are vectors.
"""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Repeat
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled, sizes
from limitlaw.engines.frames.fresh import Form
from limitlaw.engines.frames.spaces import Frame, Space
from limitlaw.numerics.random import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw

Vectors = Float[Array, "..."]  # a batch, its place in a frame or its coordinates last
Turn = int | Int[Array, ""]


class Loop:
    """The turns of a loop, in the space of x."""

    def __init__(self, draw: "FramesDraw", value: Value, op: Repeat):
        self.draw, self.value, self.op = draw, value, op
        self.facts = Analysis.of_block(op.block)
        self.count = math.prod(sizes(value.axes))
        self.space = draw.space(value)
        self.old = self.space.r if isinstance(self.space, Frame) else 0
        self.r = self.space.D.axes(self.old + self.count)

    def within(self, x: Vectors, i: Turn, space: Space) -> "FramesDraw":
        """Turn i, from x on."""
        draw, argument = self.draw, self.op.block.argument
        key = draw.key(self.value)
        key = key if isinstance(key, Quasi) else jax.random.fold_in(key, i)
        inside = draw.frames_of_block(self.facts, key)
        if argument in self.facts.components:
            inside.spaces[self.facts.components[argument]] = space
        inside.results[argument] = Form(Labelled(x, self.value.axes), None)
        inside.run(self.facts.program)
        return inside

    def start(self, x: Vectors) -> Vectors:
        """x in as many axes as it has in later turns."""
        return self._turned(x) if isinstance(self.space, Frame) else x

    def turns(self, x: Vectors, count: int) -> tuple[Vectors, Any]:
        """x after so many turns, and what is read off them.

        A `Quasi` hands out its numbers in order, so that its turns are written out.
        """
        if not isinstance(self.draw.source, Quasi):
            return lax.scan(self.turn, x, jnp.arange(count))
        read = []
        for i in range(count):
            x, at_turn = self.turn(x, i)
            read.append(at_turn)
        return x, jax.tree.map(lambda *parts: jnp.stack(parts), *read)

    def turn(self, x: Vectors, i: Turn) -> tuple[Vectors, Any]:
        """x after turn i, and what is read off it."""
        space = self.space.carried(self.r) if isinstance(self.space, Frame) else self.space
        inside = self.within(x, i, space)
        w = inside.settled(self.op.block.result).with_axes(self.value.axes).array
        read = self.draw.read(inside, self.op.block.result, self.facts.program)
        return self._turned(w) if isinstance(self.space, Frame) else w, read

    def close(self) -> None:
        """What came out of the loop is part of the frame."""
        if isinstance(self.space, Frame):
            self.space.r = self.r

    def _turned(self, w: Vectors) -> Vectors:
        assert isinstance(self.space, Frame)
        flat = self.space.turned(w.reshape(self.count, -1), self.old, self.r)
        return flat.reshape(*w.shape[:-1], self.r)
