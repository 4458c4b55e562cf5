"""Vectors of several entries as one vector, and back: instructions of this engine alone."""

import dataclasses
import math
from typing import TYPE_CHECKING, ClassVar

import jax.numpy as jnp

from limitlaw.core.kinds import Instruction, Value
from limitlaw.core.labelled import Axes, Labelled, sizes
from limitlaw.engines.frames.fresh import Form

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw


@dataclasses.dataclass(frozen=True, eq=False)
class Join(Instruction):
    """The coordinates of all entries along the axes `over` of each term, as one vector: those of a
    term begin at its place in `starts`, and what lies between is zero.
    """

    has_coordinates: ClassVar[bool] = True
    terms: tuple[Value, ...]
    over: tuple[Axes, ...]
    starts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Split(Instruction):
    """The coordinates of x from `start` on, as a batch of vectors along the axes `new`."""

    has_coordinates: ClassVar[bool] = True
    x: Value
    start: int
    new: Axes


def join_rule(draw: "FramesDraw", value: Value, op: Join) -> Form:
    assert value.dim is not None
    each = []
    for term, over in zip(op.terms, op.over, strict=True):
        array = draw.settled(term).whole((*value.axes, *over))
        each.append(array.reshape(*sizes(value.axes), -1))
    joined = jnp.zeros((*sizes(value.axes), value.dim.at(1)))
    for start, array in zip(op.starts, each, strict=True):
        joined = joined.at[..., start : start + array.shape[-1]].set(array)
    return Form(Labelled(joined, value.axes), None)


def split_rule(draw: "FramesDraw", value: Value, op: Split) -> Form:
    assert value.dim is not None
    d, x = value.dim.at(1), draw.settled(op.x)
    part = x.array[..., op.start : op.start + d * math.prod(sizes(op.new))]
    array = part.reshape(*sizes(x.axes), *sizes(op.new), d)
    return Form(Labelled(array, (*x.axes, *op.new)), None)
