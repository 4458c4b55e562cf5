"""What every engine checks before it starts: what was asked for, and whether it can be drawn."""

import math
from collections.abc import Hashable
from typing import Any

import jax

from limitlaw.arguments import inside_jit, is_traced
from limitlaw.core.instructions import Dot
from limitlaw.core.labelled import is_infinite, shape
from limitlaw.core.program import Output, Program, Written


def outputs(y: object) -> tuple[tuple[Output, ...], Any]:
    """The values asked for, and the structure (tuple, list, dict) they came in."""
    leaves, structure = jax.tree.flatten(y)
    if not leaves:
        raise ValueError("y must hold at least one value of a program, got none")
    for value in leaves:
        if not isinstance(value, Written):
            kind = type(value).__name__
            raise TypeError(
                f"y must be a value of a program (Wide or Scalars) or a tuple of such, got {kind}"
            )
    return tuple(value.core for value in leaves), structure


def program_of(asked: tuple[Output, ...]) -> Program:
    """The program of all outputs."""
    return Program(tuple(output.value for output in asked))


def check_drawable(name: str, program: Program, key: object) -> None:
    """Raise where numbers cannot be drawn into memory: inside jax.jit, jax.grad and the like."""
    if inside_jit() or is_traced(key) or program.is_traced:
        raise untraceable(name)


def check_width(program: Program, width: int, coordinates: int | None) -> None:
    """Raise where the program has no meaning at this width,
    or an output has fewer coordinates than asked for.
    """
    for value in (v for part in (program, *program.every_block) for v in part.values):
        if is_infinite(value.axes):
            raise ValueError(
                "heads=math.inf has no meaning at finite width: give a number of heads, or take "
                "the limit"
            )
        D = 0 if value.dim is None else value.dim.at(width)
        if isinstance(value.instruction, Dot) and value.instruction.base is not None:
            D = value.instruction.dim.at(width)
            if D % 2:
                raise ValueError(
                    f"width={width}: rotary turns pairs of coordinates, got a space of odd "
                    f"dimension {D}"
                )
    for value in program.outputs:
        if value.dim is not None and coordinates is not None and coordinates > value.dim.at(width):
            raise ValueError(
                f"coordinates must be at most the {value.dim.at(width)} of the output's space at "
                f"width={width}, got {coordinates}"
            )


def entries(output: Output) -> int:
    """The number of entries of a batch."""
    return math.prod(int(size) for size in shape(output.layout))


def structure(program: Program, asked: tuple[Output, ...]) -> Hashable:
    """What a compiled function depends on: the structure of the program,
    and how its outputs are laid out.
    """
    orders = []
    for output in asked:
        places = {axis: i for i, axis in enumerate(output.value.axes)}
        orders.append(tuple(-1 if axis is None else places[axis] for axis in output.layout))
    return program.structure, tuple(orders)


def untraceable(name: str) -> TypeError:
    """The error of a function that draws numbers, inside a transformation of JAX."""
    return TypeError(
        f"{name} draws numbers and cannot run inside jax.jit, jax.grad or jax.vmap: call it "
        "outside. limit, kernel and average_law can be differentiated"
    )
