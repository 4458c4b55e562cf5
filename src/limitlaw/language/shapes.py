"""Batch shapes, by NumPy's rules. A size may be `math.inf` (infinitely many heads), which
broadcasts like any other.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import first_line

Size = int | float  # a positive int, or math.inf
Shape = tuple[Size, ...]

# Stands for an infinite axis where NumPy or JAX needs an integer: a prime that nobody's axis has.
_INFINITE = 1_000_003


def broadcast(name: str, *shapes: Shape) -> Shape:
    """The common shape of `shapes`; `name` says in whose name the error speaks."""
    try:
        return _restored(np.broadcast_shapes(*map(_finite, shapes)))
    except ValueError:
        largest = max((size for shape in shapes for size in shape if size != math.inf), default=0)
        if largest >= 2**62:
            raise ValueError(
                f"{name}: an axis must have fewer than 2^62 entries, got {largest}"
            ) from None
        raise ValueError(
            f"{name}: batch shapes {' and '.join(map(str, shapes))} do not broadcast"
        ) from None


def indexed(name: str, shape: Shape, index: Any) -> Shape:
    """The shape of `w[index]` for w of shape `shape`; nothing is allocated for basic indices."""
    index = batch_index(index, len(shape))
    try:
        first, second = (
            np.broadcast_to(0.0, _finite(shape, size))[index].shape
            for size in (_INFINITE, _INFINITE + 1)
        )
    except IndexError as error:
        raise IndexError(
            f"{name} of batch shape {shape} cannot be indexed by {index!r}: {error}"
        ) from None
    result = _restored(first)
    if any(a != b and size != math.inf for a, b, size in zip(first, second, result, strict=True)):
        raise ValueError(
            f"{name} of batch shape {shape}: take an infinite axis whole, or finitely many of its "
            "entries"
        )
    return result


def reduced(
    name: str, shape: Shape, axis: int | tuple[int, ...] | None
) -> tuple[tuple[int, ...], Shape]:
    """The axes named by `axis` (counted from the front, None for all) and the shape without
    them.
    """
    axes = (
        tuple(range(len(shape))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    )
    for a in axes:
        if (
            isinstance(a, bool)
            or not isinstance(a, int | np.integer)
            or not -len(shape) <= a < len(shape)
        ):
            raise ValueError(
                f"{name}: axis must be among the {len(shape)} axes of batch shape {shape}, got "
                f"{a!r}"
            )
    axes = tuple(sorted(int(a) % len(shape) for a in axes))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: axis names an axis of batch shape {shape} twice, got {axis!r}")
    return axes, tuple(size for a, size in enumerate(shape) if a not in axes)


def of_function(name: str, function: Callable[..., Any], *shapes: Shape) -> Shape:
    """The shape of `function` of arrays of these shapes, by abstract evaluation: no number is
    computed.
    """
    arguments = [jax.ShapeDtypeStruct(_finite(shape), float) for shape in shapes]
    try:
        result = jax.eval_shape(function, *arguments)
    except Exception as error:
        given = ", ".join(map(str, shapes))
        raise ValueError(
            f"{name}: the function fails on arrays of shape {given}: {first_line(error)} (it must "
            "be written with jax.numpy: jnp.tanh for np.tanh or math.tanh, jnp.where for `if`)"
        ) from error
    if not hasattr(result, "shape"):
        raise TypeError(f"{name}: the function must return one array, got {type(result).__name__}")
    if jnp.issubdtype(result.dtype, jnp.complexfloating):
        raise TypeError(f"{name}: the function must return real numbers, got {result.dtype}")
    return _restored(result.shape)


def is_infinite(shape: Shape) -> bool:
    """Has the shape an infinite axis?"""
    return math.inf in shape


def batch_index(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """The index with its … kept to the `ndim` batch axes, so that trailing axes stay whole."""
    if not any(part is Ellipsis for part in index):
        return index
    at = next(i for i, part in enumerate(index) if part is Ellipsis)
    used = sum(_axes_used(part) for part in index)
    return (*index[:at], *(slice(None),) * (ndim - used), *index[at + 1 :])


def _axes_used(part: object) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return int(part.ndim) if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def finite_shape(shape: Shape) -> tuple[int, ...]:
    """The shape as integers; it must have no infinite axis."""
    return tuple(map(int, shape))


def _finite(shape: Shape, infinite: int = _INFINITE) -> tuple[int, ...]:
    return tuple(infinite if size == math.inf else int(size) for size in shape)


def _restored(shape: tuple[int, ...]) -> Shape:
    return tuple(math.inf if size == _INFINITE else size for size in shape)
