"""What every engine checks and reads before it starts."""

import dataclasses
import functools
import math
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

from limitlaw.arguments import inside_jit, is_traced
from limitlaw.core.space import Dim
from limitlaw.language import ops, shapes
from limitlaw.language.dependence import terms
from limitlaw.language.graph import ancestors, matrices_of
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Indexable, Wide
from limitlaw.phi import Nonlinearity

MOST_GIB = 16.0  # that the draws of a result may take, on a large machine


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


def last_step(value: Any) -> tuple[Nonlinearity | None, tuple[Any, ...]]:
    """A last nonlinearity of vectors and what it acts on, each once; else None and the value itself."""
    op = value.op
    if isinstance(op, ops.Index):
        phi, parts = last_step(op.x)
        return (None, (value,)) if phi is None else (phi, tuple(part[op.index] for part in parts))
    if not isinstance(op, ops.Map) or not all(isinstance(v, Wide) and v.shape == value.shape for v in op.args):
        return None, (value,)
    parts = tuple(dict.fromkeys(op.args))
    if len(parts) == len(op.args):
        return op.phi, parts
    places = [parts.index(v) for v in op.args]
    return dataclasses.replace(op.phi, function=lambda *u: op.phi(*(u[i] for i in places))), parts


def gaussian_terms(value: Value) -> list[Value]:
    """The terms of which a vector is a linear combination, without the vector **1**."""
    return [t for t in terms(value) if not isinstance(t.op, ops.Ones)]


def has_pole(y: Any, dimension: Callable[[Dim], int | float]) -> bool:
    """Is the density of one number y = W u infinite at 0: is u, Gaussian given what comes before, a single number?

    Given u it is N(0, u²), and E |u|^{−1} = ∞; two numbers, or two heads, are enough for it to be finite.
    """
    terms = gaussian_terms(y)
    if len(terms) != 1 or math.prod(terms[0].shape) != 1 or not isinstance(terms[0].op, ops.MatMul):
        return False
    op = terms[0].op
    return dimension(op.matrix.cols) == 1 and all(isinstance(t.op, ops.MatMul) for t in gaussian_terms(op.x))


def check_memory(samples: int, numbers: int, advice: str) -> None:
    """Refuse draws of so many numbers each that they do not fit into memory, before anything is drawn."""
    size, most = 8 * samples * numbers / 2**30, most_gib()
    if size > most:
        raise ValueError(
            f"samples={samples} would take {size:,.0f} GiB, with {numbers} number{'s' * (numbers != 1)} a draw, "
            f"and a result may take {most:.3g} GiB on this machine: {advice}"
        )


def check_draw(width: int, numbers: int, advice: str) -> None:
    """Refuse a width at which a single draw does not fit into memory."""
    size = 8 * numbers / 2**30
    if size > most_gib():
        raise ValueError(
            f"width={width} would take {size:,.0f} GiB for one draw, of {most_gib():.3g} GiB on this machine: {advice}"
        )


def components(parts: tuple[Any, ...], k: int) -> int:
    """How many numbers a mean and a covariance of k coordinates of some vectors have."""
    M = k * sum(math.prod(finite_shape(v.shape)) for v in parts)
    return M * (M + 1)


@functools.cache
def most_gib() -> float:
    """That a result may take: half of this machine's memory, where known."""
    try:
        return min(MOST_GIB, 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)
    except (AttributeError, OSError, ValueError):  # not on every system
        return MOST_GIB


def has_tracers(values: tuple[Value, ...]) -> bool:
    """Do numbers of the program come from inside a JAX transformation?"""
    everything = ancestors(values)
    contents = [getattr(v.op, f.name) for v in everything for f in dataclasses.fields(v.op)]
    return any(map(is_traced, [*contents, *(matrix.std for matrix in matrices_of(everything))]))


def check_drawable(name: str, values: tuple[Value, ...], key: Any) -> None:
    """Raise where numbers cannot be drawn into memory: inside jax.jit, jax.grad and the like."""
    if inside_jit() or is_traced(key) or has_tracers(values):
        raise untraceable(name)


def untraceable(name: str) -> TypeError:
    """The error of a function that draws numbers, inside a transformation of JAX."""
    return TypeError(
        f"{name} draws numbers and cannot run inside jax.jit, jax.grad or jax.vmap: call it outside. "
        "limit, kernel and average_law can be differentiated"
    )
