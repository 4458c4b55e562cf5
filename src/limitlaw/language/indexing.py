"""Indexing and reshaping as places along axes: what NumPy's rules say, once."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limitlaw.core.labelled import Axes, Axis, Layout, Size
from limitlaw.language.shapes import Shape, batch_index

# axes that are read, their places over new axes, the new axes
Taken = tuple[Axes, list[np.ndarray], Axes]


def parts_of(index: tuple[Any, ...], layout: Layout, shape: Shape) -> tuple[Layout, list[Taken]]:
    """x[index]: its layout, and what is taken of x. Whole slices and new axes take nothing."""
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
    """One part for each axis, and None for new ones;
    boolean arrays as the places where they are true.
    """
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
    """The axes that index arrays make together; axes of size 1 have nothing to be read."""
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
    """Do arrays and entries stand side by side? Otherwise NumPy puts what they make in front."""
    places = [i for i, p in enumerate(parts) if p is not None and not isinstance(p, slice)]
    return places == list(range(places[0], places[-1] + 1))


def regrouped(layout: Layout, shape: Shape) -> tuple[Layout, list[Taken]]:
    """Entries in order in another shape: axes that stay whole stay themselves, others are merged
    and split.
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
