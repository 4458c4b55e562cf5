"""What every engine checks and reads before it starts."""

from collections import Counter
from typing import Any

import jax

from limitlaw.program import ops, shapes
from limitlaw.program.graph import ancestors
from limitlaw.program.ops import Matrix, Value
from limitlaw.program.values import Indexable, Wide


def outputs(y: Any) -> tuple[tuple[Value, ...], Any]:
    """The values asked for, and the structure (tuple, list, dict) they came in."""
    leaves, structure = jax.tree.flatten(y)
    if not leaves:
        raise ValueError("y must hold at least one value of a program, got none")
    for value in leaves:
        if not isinstance(value, Indexable):
            kind = type(value).__name__
            raise TypeError(f"y must be a value of a program (Wide or Scalars) or a tuple of such, got {kind}")
        if isinstance(value.op, ops.Rotary):
            raise TypeError("y is rotary(w), which may only enter a dot: ask for w, or for the dot product")
    return tuple(leaves), structure


def check_width(values: tuple[Value, ...], width: int, coordinates: int | None) -> None:
    """Raise where the program has no meaning at this width, or an output has fewer coordinates than asked for."""
    for value in ancestors(values):
        if shapes.is_infinite(value.shape):
            raise ValueError("heads=math.inf has no meaning at finite width: give a number of heads, or take the limit")
        if isinstance(value, Wide):
            D = value.dim.at(width)
            if isinstance(value.op, ops.Rotary) and D % 2:
                raise ValueError(f"width={width}: rotary turns pairs of coordinates, got a space of odd dimension {D}")
    for value in values:
        if isinstance(value, Wide) and coordinates is not None and coordinates > value.dim.at(width):
            raise ValueError(
                f"coordinates must be at most the {value.dim.at(width)} of the output's space at width={width}, "
                f"got {coordinates}"
            )


def reused(values: list[Value]) -> frozenset[Matrix]:
    """The matrices that more than one instruction among `values` multiplies by."""
    uses = Counter(value.op.matrix for value in values if isinstance(value.op, ops.MatMul))
    return frozenset(matrix for matrix, count in uses.items() if count > 1)
