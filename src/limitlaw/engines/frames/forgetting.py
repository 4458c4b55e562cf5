"""Axes of a frame that no vector needs any more are given back.

What is still read of a draw are vectors on the first ρ axes, and c vectors that are longer. Fresh
vectors are isotropic and independent of all of these, so that inner products are all that the
others' places beyond ρ mean: L of x = L Q there, on c axes, has the same ones. A reverse pass so
has no more axes than the forward one had at the same layer, and as many as there are vectors that
come back.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.instructions import MatMul
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import Labelled
from limitlaw.engines.frames.fresh import Form
from limitlaw.engines.frames.ledger import Met
from limitlaw.engines.frames.spaces import Frame
from limitlaw.numerics.bases import extended

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw

FEWEST = 32  # axes that are worth giving back


@dataclasses.dataclass(frozen=True)
class Held:
    """Vectors in a frame that are still read, and where to write them back."""

    array: Float[Array, "... r"]
    put: Callable[[Float[Array, "... r2"]], None]

    @property
    def length(self) -> int:
        """The number of axes."""
        return self.array.shape[-1]

    @property
    def count(self) -> int:
        """The number of vectors."""
        return math.prod(self.array.shape[:-1])


class Forgetting:
    """What a draw with transposes still reads, and the frames that are shortened to it. A loop and
    what surrounds it share frames: there nothing is given back, nor where a frame has few axes.
    """

    def __init__(self, draw: "FramesDraw"):
        self.draw, facts = draw, draw.facts
        loops = facts.block is not None or facts.program.blocks
        self.off = bool(loops) or not facts.transposed
        self.placed: dict[Value, int | float] = {}  # where vectors are read for the last time

    def before(self, value: Value) -> None:
        """Give back axes, before a product puts more of them into a frame."""
        draw = self.draw
        if self.off or value.dim is None or not value.dim.wide:
            return
        self.placed[value] = draw.facts.last_read(value)
        space = draw.spaces.get(draw.facts.components[value])
        if value.instruction.matrices is not None and isinstance(space, Frame):
            self.shorten(space, draw.facts.position[value])

    def shorten(self, frame: Frame, now: int) -> None:
        """Give back axes that values from position `now` on do not need, if they are many."""
        if frame.r <= frame.reserved + FEWEST:
            return
        held = self._held(frame, now)
        lengths = {max(length, frame.reserved) for length in (0, *(h.length for h in held))}
        longer = {rho: [h for h in held if h.length > rho] for rho in lengths}
        r, rho = min((rho + sum(h.count for h in longer[rho]), rho) for rho in lengths)
        if r <= frame.r - FEWEST:
            _shortened(longer[rho], frame, rho, r)

    def _held(self, frame: Frame, now: int) -> list[Held]:
        """The vectors in a frame that are read from position `now` on: each array once."""
        draw, facts = self.draw, self.draw.facts
        found: dict[int, tuple[Any, list[Callable[[Any], None]]]] = {}

        def add(array: Any, put: Callable[[Any], None]) -> None:
            found.setdefault(id(array), (array, []))[1].append(put)

        for value in [v for v, last in self.placed.items() if last < now]:
            del self.placed[value]
        for value in (v for v in self.placed if v in draw.results):
            drawn = draw.results[value].drawn
            if drawn is not None and draw.spaces.get(facts.components[value]) is frame:
                add(drawn.array, _put_value(draw, value))
        for family in [W for W in draw.ledgers if facts.position[facts.products[W][-1]] < now]:
            del draw.ledgers[family]
        for family, ledger in draw.ledgers.items():
            v = facts.products[family][0]
            assert isinstance(v.instruction, MatMul)
            out, into = (draw.spaces.get(facts.components[u]) for u in (v.vectors[0], v))
            for left, met in ledger.met.items():
                sides = (out, into) if left == v.instruction.transposed else (into, out)
                if sides[0] is frame:
                    add(met.basis, _put_met(draw, family, left, "basis"))
                if sides[1] is frame:
                    add(met.images, _put_met(draw, family, left, "images"))
        return [Held(array, _all_of(puts)) for array, puts in found.values()]


def _shortened(held: list[Held], frame: Frame, rho: int, r: int) -> None:
    """Vectors x = L Q beyond the first ρ axes by L."""
    width, start, frame.r = frame.r - rho, 0, r
    if not held:
        return
    tails = [h.array[..., rho:].reshape(h.count, h.length - rho) for h in held]
    rows = jnp.concatenate([_wider(tail, width) for tail in tails])
    _, L, _ = extended(rows, jnp.zeros((0, width)))
    for h in held:
        new = L[start : start + h.count].reshape(*h.array.shape[:-1], r - rho)
        h.put(jnp.concatenate([h.array[..., :rho], new], axis=-1))
        start += h.count


def _wider(a: Float[Array, "... r"], r: int) -> Float[Array, "... r2"]:
    return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, r - a.shape[-1])])


def _all_of(puts: list[Callable[[Any], None]]) -> Callable[[Any], None]:
    def put(array: Any) -> None:
        for each in puts:
            each(array)

    return put


def _put_value(draw: "FramesDraw", value: Value) -> Callable[[Any], None]:
    def put(array: Any) -> None:
        form = draw.results[value]
        draw.results[value] = Form(Labelled(array, form.drawn.axes), form.fresh)

    return put


def _put_met(draw: "FramesDraw", family: Family, left: bool, name: str) -> Callable[[Any], None]:
    def put(array: Any) -> None:
        met: dict[bool, Met] = draw.ledgers[family].met
        met[left] = dataclasses.replace(met[left], **{name: array})

    return put
