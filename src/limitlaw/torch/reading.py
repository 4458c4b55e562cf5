"""Values of a program where a tensor of the module reads them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limitlaw.language.values import Indexable
from limitlaw.torch.digits import Layout, places
from limitlaw.torch.nodes import Tensor


def read(
    value: Indexable, layout: Layout, tensor: Tensor, shape: Sequence[int], coordinate: int | None
) -> Any:
    """The value with one batch axis for each axis of the refined `shape` but the coordinate;
    size 1 is a broadcast.
    """
    found = [
        _without(p, coordinate)
        for k, p in enumerate(places(tensor, layout.sizes, shape))
        if k != layout.coordinate
    ]
    rank = len(shape) - (coordinate is not None)
    moved = [[a for a in range(rank) if (p != p.take([0], axis=a)).any()] for p in found]
    used = [a for axes in moved for a in axes]
    if any(len(axes) > 1 for axes in moved) or len(set(used)) < len(used):
        return _gathered(value, found, rank)
    return _axis_by_axis(value, found, moved, rank)


def _without(place: np.ndarray, axis: int | None) -> np.ndarray:
    return place if axis is None else np.asarray(place.take(0, axis=axis))


def _axis_by_axis(value: Any, found: list[np.ndarray], moved: list[list[int]], rank: int) -> Any:
    """Each axis of the result moves one digit at most: entries, slices, a transpose, new axes."""
    for k in reversed(range(len(found))):
        before = (slice(None),) * k
        place = found[k].reshape(-1)[0] if not moved[k] else _along(found[k], moved[k][0])
        if not moved[k]:
            value = value[(*before, int(place))]
        elif not np.array_equal(place, np.arange(value.shape[k])):
            value = value[(*before, _slice(place))]
    target = [axes[0] for axes in moved if axes]
    order = sorted(range(len(target)), key=target.__getitem__)
    value = ordered(value, order)
    if len(target) < rank:
        value = value[tuple(slice(None) if a in target else None for a in range(rank))]
    return value


def _along(place: np.ndarray, axis: int) -> np.ndarray:
    return place[(0,) * axis + (slice(None),) + (0,) * (place.ndim - axis - 1)]


def _slice(place: np.ndarray) -> Any:
    steps = set(np.diff(place).tolist())
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return slice(int(place[0]), int(place[-1]) + 1, int(step))
    return place


def _gathered(value: Any, found: list[np.ndarray], rank: int) -> Any:
    """Entries by number, where digits move together."""
    still = tuple(a for a in range(rank) if all((p == p.take([0], axis=a)).all() for p in found))
    picked = tuple(found)
    for a in still:
        picked = tuple(p.take([0], axis=a) for p in picked)
    return value[picked]


def filled(value: Any, sizes: Sequence[int]) -> Any:
    """The value with broadcast axes written out."""
    for a, size in enumerate(sizes):
        if value.shape[a] != size:
            value = value[(*(slice(None),) * a, np.zeros(size, int))]
    return value


def merged(value: Any, groups: Sequence[int], sizes: Sequence[int]) -> Any:
    """The value with its batch axes merged in groups of so many;
    an empty group is an axis of size 1.
    """
    shape, start = [], 0
    for count in groups:
        inside = list(range(start, start + count))
        if count > 1:
            for a in inside:
                if value.shape[a] != sizes[a]:
                    value = value[(*(slice(None),) * a, np.zeros(sizes[a], int))]
        shape.append(math.prod(int(value.shape[a]) for a in inside))
        start += count
    return shaped(value, shape)


def ordered(value: Any, order: Sequence[int]) -> Any:
    """The value with its batch axes in another order."""
    return value if list(order) == sorted(order) else value.transpose(tuple(order))


def shaped(value: Any, shape: Sequence[int]) -> Any:
    """The value in another batch shape."""
    return value if tuple(shape) == value.shape else value.reshape(tuple(shape))
