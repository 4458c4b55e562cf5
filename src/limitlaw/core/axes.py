"""Axes: which entries of a batch belong together is said by an object,
never by a size or a position.
"""

import math
from collections.abc import Iterable

Size = int | float  # a positive int, or math.inf


class Axis:
    """An axis of a batch: tokens, heads, time. Two axes of one size are two axes;
    `math.inf` is a size.
    """

    __slots__ = ("size",)

    def __init__(self, size: Size):
        self.size = size

    def __repr__(self) -> str:
        return f"Axis({self.size})"


class NodeAxis(Axis):
    """An axis of nodes that stand for infinitely many heads:
    a quadrature over what is drawn for one.
    """

    __slots__ = ()


Axes = tuple[Axis, ...]
# how a user orders the axes of a batch; None has size 1, and no axis here
Layout = tuple[Axis | None, ...]


def union(*groups: Iterable[Axis]) -> Axes:
    """All axes, each once, in order of appearance."""
    return tuple(dict.fromkeys(axis for group in groups for axis in group))


def sizes(axes: Iterable[Axis]) -> tuple[int, ...]:
    """The sizes of finite axes."""
    return tuple(int(axis.size) for axis in axes)


def shape(layout: Layout) -> tuple[Size, ...]:
    """The batch shape that a user sees."""
    return tuple(1 if axis is None else axis.size for axis in layout)


def finite_shape(layout: Layout) -> tuple[int, ...]:
    """The same as integers; no axis may be infinite."""
    return tuple(1 if axis is None else int(axis.size) for axis in layout)


def present(layout: Layout) -> Axes:
    """The axes of a layout."""
    return tuple(axis for axis in layout if axis is not None)


def is_infinite(axes: Iterable[Axis]) -> bool:
    """Is one of the axes infinite?"""
    return any(axis.size == math.inf for axis in axes)
