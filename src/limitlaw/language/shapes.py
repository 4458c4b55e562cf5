"""Batch shapes, and indexing and reshaping as places along axes, by NumPy's rules.

A size may be `math.inf` (infinitely many heads), which broadcasts like any other.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import first_line
from limitlaw.core.labelled import Axes, Axis, Layout, Size
from limitlaw.float64 import in_float64

Shape = tuple[Size, ...]

# Stands for an infinite axis where NumPy or JAX needs an integer: a prime that nobody's axis has.
_INFINITE = 1_000_003

# axes that are read, their places over new axes, the new axes
Taken = tuple[Axes, list[np.ndarray], Axes]


def broadcast(name: str, *shapes: Shape) -> Shape:
    """The common shape of `shapes`; `name` begins the message of an error."""
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
    """The axes that `axis` names (from the front; None: all), and the shape without them."""
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


@in_float64
def of_function(name: str, function: Callable[..., Any], *shapes: Shape) -> Shape:
    """The shape of `function` of arrays of these shapes, by abstract evaluation."""
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


# --- indexing and reshaping: places along axes ---------------------------------------------------


def parts_of(index: tuple[Any, ...], layout: Layout, shape: Shape) -> tuple[Layout, list[Taken]]:
    """The layout of x[index], and what is taken of x. Whole slices and new axes take nothing."""
    parts = _expanded(index, len(layout))
    advanced = any(isinstance(p, np.ndarray | bool) for p in parts)
    result: list[Axis | None] = []
    taken: list[Taken] = []
    at: list[int] = []  # where, in the result, arrays (and entries beside arrays) stand
    arrays: list[tuple[Axis | None, np.ndarray]] = []
    source = 0
    for part in parts:
        if part is None:
            result.append(None)
            continue
        if isinstance(part, bool):  # an array of places that reads no axis
            at.append(len(result))
            arrays.append((None, np.zeros(int(part), int)))
            continue
        axis, size = layout[source], shape[source]
        source += 1
        if isinstance(part, slice):
            result.append(_sliced(axis, size, part, taken))
        elif advanced:
            at.append(len(result))
            arrays.append((axis, np.asarray(part)))
        elif axis is not None:
            places = np.asarray(int(part) if size == math.inf else int(part) % int(size))
            taken.append(((axis,), [places], ()))
    if arrays:
        block = _gathered(arrays, taken)
        start = at[0] if _adjacent(parts) else 0
        result[start:start] = block
    return tuple(result), taken


def _expanded(index: tuple[Any, ...], ndim: int) -> list[Any]:
    """The index with a part for each axis and None for new ones; booleans become places."""
    parts: list[Any] = []
    for part in batch_index(
        index if any(p is Ellipsis for p in index) else (*index, Ellipsis), ndim
    ):
        if isinstance(part, np.ndarray) and part.dtype.kind == "b":
            parts.extend(part.nonzero())
        else:
            parts.append(part)
    return parts


def _sliced(axis: Axis | None, size: Size, part: slice, taken: list[Taken]) -> Axis | None:
    if axis is None:
        return None
    if part == slice(None):
        return axis
    places = np.arange(part.stop if size == math.inf else int(size))[part]
    if size != math.inf and len(places) == size and (np.diff(places) == 1).all():
        return axis
    if len(places) == 1:
        taken.append(((axis,), [places.reshape(())], ()))
        return None
    new = Axis(len(places))
    taken.append(((axis,), [places], (new,)))
    return new


def _gathered(
    arrays: list[tuple[Axis | None, np.ndarray]], taken: list[Taken]
) -> list[Axis | None]:
    """The axes that index arrays make together. Axes of size 1 need no places."""
    shape = np.broadcast_shapes(*(a.shape for _, a in arrays))
    new = tuple(None if size == 1 else Axis(size) for size in shape)
    sizes = tuple(size for size in shape if size != 1)
    axes: list[Axis] = []
    places: list[np.ndarray] = []
    for axis, array in arrays:
        if axis is not None:
            axes.append(axis)
            whole = np.broadcast_to(array, shape).reshape(sizes)
            places.append(whole if axis.size == math.inf else np.asarray(whole % int(axis.size)))
    kept = tuple(a for a in new if a is not None)
    if axes or kept:
        taken.append((tuple(axes), places, kept))
    return list(new)


def _adjacent(parts: Sequence[object]) -> bool:
    """Are index arrays and integers side by side? Else NumPy puts the axes they make in front."""
    places = [i for i, p in enumerate(parts) if p is not None and not isinstance(p, slice)]
    return places == list(range(places[0], places[-1] + 1))


def regrouped(layout: Layout, shape: Shape) -> tuple[Layout, list[Taken]]:
    """The layout of a value reshaped to `shape`, and what is taken of it: axes that stay whole are
    kept, others are merged and split.
    """
    new: list[Axis | None] = [None] * len(shape)
    taken: list[Taken] = []
    old = [a for a in layout if a is not None]
    wanted = [i for i, size in enumerate(shape) if size != 1]
    while old or wanted:
        before, after = [old.pop(0)], [wanted.pop(0)]
        while (left := math.prod(int(a.size) for a in before)) != (
            right := math.prod(int(shape[i]) for i in after)
        ):
            if left < right:
                before.append(old.pop(0))
            else:
                after.append(wanted.pop(0))
        if len(before) == len(after) == 1:
            new[after[0]] = before[0]
            continue
        sizes = [int(shape[i]) for i in after]
        places = np.unravel_index(
            np.arange(math.prod(sizes)).reshape(sizes), [int(a.size) for a in before]
        )
        axes = [Axis(size) for size in sizes]
        for i, axis in zip(after, axes, strict=True):
            new[i] = axis
        taken.append((tuple(before), list(places), tuple(axes)))
    return tuple(new), taken
