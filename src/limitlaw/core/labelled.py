"""Axes, and arrays labelled by them: which entries belong together is said by an object, never by
a size or a position.

Labelled arrays meet, broadcast and contract by axis, whatever the order of their axes. An axis
that an array does not have is one along which it is constant. Behind the labelled axes there may
be hidden ones (coordinates, the axes of a frame, noise vectors), which only their owner knows.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Size = int | float  # a positive int, or math.inf


class Axis:
    """An axis of a batch: tokens, heads, time; equal only to itself. `math.inf` is a size."""

    __slots__ = ("size",)

    def __init__(self, size: Size):
        self.size = size

    def __repr__(self) -> str:
        return f"Axis({self.size})"


class NodeAxis(Axis):
    """Quadrature nodes in place of an infinite axis: each node is one head with its draw."""

    __slots__ = ()


Axes = tuple[Axis, ...]
# how a user orders the axes of a batch; None stands for an axis of size 1
Layout = tuple[Axis | None, ...]


def union(*groups: Iterable[Axis]) -> Axes:
    """All axes, each once, in order of appearance."""
    return tuple(dict.fromkeys(axis for group in groups for axis in group))


def sizes(axes: Iterable[Axis]) -> tuple[int, ...]:
    """The sizes of finite axes."""
    return tuple(int(axis.size) for axis in axes)


def shape(layout: Layout) -> tuple[Size, ...]:
    """The batch shape that a user sees, with 1 for None."""
    return tuple(1 if axis is None else axis.size for axis in layout)


def finite_shape(layout: Layout) -> tuple[int, ...]:
    """The batch shape as integers; no axis may be infinite."""
    return tuple(1 if axis is None else int(axis.size) for axis in layout)


def present(layout: Layout) -> Axes:
    """The axes of a layout, without its Nones."""
    return tuple(axis for axis in layout if axis is not None)


def is_infinite(axes: Iterable[Axis]) -> bool:
    """Is one of the axes infinite?"""
    return any(axis.size == math.inf for axis in axes)


FUSED = 512  # multiplications up to which one fused loop beats a call of a matrix product


@functools.partial(jax.tree_util.register_dataclass, data_fields=["array"], meta_fields=["axes"])
@dataclasses.dataclass(frozen=True)
class Labelled:
    """An array with the labelled axes in front, in the order of `axes`, and hidden ones behind."""

    array: Any
    axes: Axes

    @property
    def hidden(self) -> int:
        """The number of hidden axes."""
        return self.array.ndim - len(self.axes)

    # --- reading ---------------------------------------------------------------------------------

    def laid(self, layout: Layout) -> Any:
        """The array in a layout that has all of its axes, with size 1 where it is constant."""
        places = {axis: i for i, axis in enumerate(self.axes)}
        order = [places[axis] for axis in layout if axis in places]
        assert len(order) == len(self.axes), f"{self.axes} do not fit into {layout}"
        array = self.array
        if order != sorted(order):
            array = array.transpose(*order, *range(len(order), array.ndim))
        front = [int(axis.size) if axis is not None and axis in places else 1 for axis in layout]
        shape = (*front, *array.shape[len(order) :])
        return array if array.shape == shape else array.reshape(shape)

    def whole(self, layout: Layout) -> Any:
        """The array in a layout that has all of its axes, at full size."""
        full = [1 if axis is None else int(axis.size) for axis in layout]
        return jnp.broadcast_to(self.laid(layout), (*full, *self.array.shape[len(self.axes) :]))

    def with_axes(self, axes: Axes) -> "Labelled":
        """The array with all of `axes`, at full size and in that order."""
        return self if axes == self.axes else Labelled(self.whole(axes), axes)

    # --- one operation for each linear instruction -----------------------------------------------

    def mapped(self, f: Callable[[Any], Any]) -> "Labelled":
        """f of the array, where f leaves the labelled axes alone."""
        return Labelled(f(self.array), self.axes)

    def rename(self, names: Mapping[Axis, Axis]) -> "Labelled":
        """The same array with axes renamed."""
        return Labelled(self.array, tuple(names.get(axis, axis) for axis in self.axes))

    def take(self, axes: Axes, places: Sequence[np.ndarray], new: Axes) -> "Labelled":
        """The entries at places along `axes`, laid out along `new`; missing axes are constant."""
        have = [(axis, p) for axis, p in zip(axes, places, strict=True) if axis in self.axes]
        if not have:
            return self
        rest = tuple(axis for axis in self.axes if axis not in axes)
        front = Labelled(self.array, self.axes).laid((*(axis for axis, _ in have), *rest))
        if len(have) == 1 and (cut := _as_slice(have[0][1])) is not None:
            return Labelled(front[cut], (*new, *rest) if have[0][1].ndim else rest)
        return Labelled(front[tuple(p for _, p in have)], (*new, *rest))

    def sum(self, over: Axes) -> "Labelled":
        """The sum over axes; along a missing axis all entries are equal."""
        found = tuple(i for i, axis in enumerate(self.axes) if axis in over)
        array = self.array.sum(axis=found) if found else self.array
        count = math.prod(int(axis.size) for axis in over if axis not in self.axes)
        return Labelled(
            array * count if count != 1 else array, tuple(a for a in self.axes if a not in over)
        )


def _as_slice(places: np.ndarray) -> Any:
    """Places in arithmetic progression as a slice, one place as an integer; else None."""
    if places.ndim == 0:
        return int(places)
    if places.ndim > 1 or len(places) < 1:
        return None
    steps = np.diff(places)
    if len(steps) and (steps != steps[0]).any():
        return None
    step = int(steps[0]) if len(steps) else 1
    if step == 0:
        return None
    stop = int(places[-1]) + step
    return slice(int(places[0]), None if stop < 0 else stop, step)


def elementwise(f: Callable[..., Any], *operands: Labelled) -> Labelled:
    """f of arrays that meet by axis; arrays without hidden axes broadcast over those of others."""
    axes = union(*(x.axes for x in operands))
    hidden = max(x.hidden for x in operands)
    arrays = [_padded(x.laid(axes), hidden - x.hidden) for x in operands]
    result = f(*arrays)
    return Labelled(jnp.broadcast_to(result, (*sizes(axes), *result.shape[len(axes) :])), axes)


def _padded(array: Any, count: int) -> Any:
    return array.reshape(*array.shape, *(1,) * count) if count else array


def add(terms: Sequence[Labelled]) -> Labelled:
    """The sum of arrays that meet by axis."""
    return functools.reduce(lambda a, b: elementwise(jnp.add, a, b), terms)


def multiply(a: Labelled, w: Labelled) -> Labelled:
    """a·w, entry by entry along common axes."""
    return elementwise(jnp.multiply, a, w)


def stack(terms: Sequence[Labelled], axis: Axis) -> Labelled:
    """The terms, stacked along a new axis."""
    axes = union(*(t.axes for t in terms))
    return Labelled(jnp.stack([t.whole(axes) for t in terms]), (axis, *axes))


def contract(a: Labelled | None, w: Labelled, over: Axes, normalised: bool = False) -> Labelled:
    """Σ a·w over the axes `over`, a an array of numbers; `normalised` divides by √(entries)."""
    result = w.sum(over) if a is None else _product(a, w, over)
    if not normalised:
        return result
    return result.mapped(lambda x: x / math.sqrt(math.prod(int(axis.size) for axis in over)))


def _product(a: Labelled, w: Labelled, over: Axes) -> Labelled:
    both = tuple(axis for axis in over if axis in a.axes and axis in w.axes)
    single = tuple(axis for axis in over if axis not in both)
    if single:
        in_a = tuple(axis for axis in single if axis in a.axes)
        a, w = a.sum(in_a), w.sum(tuple(axis for axis in single if axis not in in_a))
    if not both:
        return multiply(a, w)
    hidden = w.array.shape[len(w.axes) :]
    if math.prod(sizes(union(a.axes, w.axes))) * math.prod(hidden) <= FUSED:
        return multiply(a, w).sum(both)
    letter = {axis: i for i, axis in enumerate(union(a.axes, w.axes))}
    tail = [len(letter) + i for i in range(len(hidden))]
    left = tuple(axis for axis in union(w.axes, a.axes) if axis not in both)
    array = jnp.einsum(
        a.array, [letter[x] for x in a.axes], w.array, [*(letter[x] for x in w.axes), *tail],
        [*(letter[x] for x in left), *tail],
    )  # fmt: skip
    return Labelled(array, left)


def labelled(array: object, order: Layout, hidden: int = 0) -> Labelled:
    """An array that broadcasts to `order`, hidden axes last, labelled; constant if size is 1."""
    array = jnp.asarray(array)
    shape = array.shape[: array.ndim - hidden]
    tail = order[len(order) - len(shape) :]
    axes = tuple(
        axis
        for axis, size in zip(tail, shape, strict=True)
        if axis is not None and size == axis.size
    )
    return Labelled(array.reshape(*sizes(axes), *array.shape[len(shape) :]), axes)
