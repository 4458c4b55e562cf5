"""Writes a program node by node, each once, by one rule for each kind of node; and reads its
values where a tensor of the module reads them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np

from limitlaw.arguments import first_line
from limitlaw.core.space import Dim
from limitlaw.language.indexable import Indexable
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Value
from limitlaw.language.values import Scalars, Wide
from limitlaw.torch.digits import Digits, places
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.scales import Parameter

AnyValue: TypeAlias = Wide | Scalars
V = TypeVar("V", bound=Indexable)  # of values, which reading them keeps
WritingRules = Mapping[type[Node], Callable[["Writer", Any], AnyValue]]


class Writer:
    """Writes each node once; `weights` are the module's numbers by matrix and initial vector."""

    def __init__(
        self, layouts: Layouts, rules: "WritingRules", width: int, fixed: frozenset[Node]
    ):
        self.layouts, self.rules, self.width, self.fixed = layouts, rules, width, fixed
        self.values: dict[Node, AnyValue] = {}
        self.weights: dict[Matrix | Value, np.ndarray] = {}
        self.shared: dict[tuple[object, ...], tuple[Matrix, int]] = {}
        self.initial: dict[tuple[object, ...], AnyValue] = {}
        self._owners: dict[str, list[np.ndarray]] = {}
        self._read: dict[tuple[object, ...], AnyValue] = {}

    def own(self, parameter: Parameter, entries: np.ndarray) -> None:
        """Let a matrix, or initial vectors, be these entries of a parameter, of which no other is
        any: the program would draw them independently.
        """
        found = self._owners.setdefault(parameter.key, [])
        mine = entries[entries != 0]
        if any(_overlap(mine, other) for other in found):
            raise ConversionError(
                f"{parameter.name} is read in two ways, as different matrices: a program would "
                "draw it twice"
            )
        found.append(mine)

    def layout(self, node: Node) -> Digits:
        """The layout of a node."""
        return self.layouts.of[node]

    def dim(self, node: Node) -> Dim | int:
        """The space of a node: fixed, or a multiple of the width."""
        dimension = self.layout(node).dimension
        return dimension if node in self.fixed else Dim(Fraction(dimension, self.width), wide=True)

    def value(self, node: Node) -> AnyValue:
        """The value of a node, whose batch axes are the digits that are not coordinates."""
        if node not in self.values:
            self.values[node] = filled(self._made(node), self.layout(node).batch)
        return self.values[node]

    def _made(self, node: Node) -> AnyValue:
        try:
            return self.rules[type(node)](self, node)
        except ConversionError:
            raise
        except RecursionError as error:
            raise ConversionError(
                f"{node.label}: too many operations lie behind one another up to here; convert "
                "the submodules one by one"
            ) from error
        except (ValueError, TypeError, IndexError, NotImplementedError) as error:
            raise ConversionError(
                f"{node.label}: the language has no such program ({first_line(error)})"
            ) from error

    def read(self, tensor: Tensor, shape: Sequence[int], meeting: int | None = None) -> AnyValue:
        """The tensor with one batch axis for each axis of the refined shape but the coordinate,
        its own or that of the vectors that it meets.
        """
        axis = self.layouts.coordinate(tensor, shape)
        axis = meeting if axis is None else axis
        key = (tensor.node, tensor.ids.numpy().tobytes(), tuple(shape), axis)
        if key not in self._read:
            self._read[key] = read(
                self.value(tensor.node), self.layout(tensor.node), tensor, shape, axis
            )
        return self._read[key]

    def operand(self, tensor: Tensor, layout: Digits) -> AnyValue:
        """A tensor that meets others entry by entry in a node of this layout."""
        return self.read(tensor, layout.sizes, layout.coordinate)


PROBED_POINTS = 16  # entries that are looked for


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    """Have two arrays of random numbers entries in common?"""
    return any(
        bool((b == x).any())
        for a, b in ((one, other), (other, one))
        for x in a[:: max(1, len(a) // PROBED_POINTS)]
    )


# --- values where a tensor reads them ------------------------------------------------------------


def read(
    value: V, layout: Digits, tensor: Tensor, shape: Sequence[int], coordinate: int | None
) -> V:
    """The value with a batch axis for each axis of `shape` but the coordinate; 1 broadcasts."""
    found = [
        p if coordinate is None else np.asarray(p.take(0, axis=coordinate))
        for k, p in enumerate(places(tensor, layout.sizes, shape))
        if k != layout.coordinate
    ]
    rank = len(shape) - (coordinate is not None)
    moved = [[a for a in range(rank) if (p != p.take([0], axis=a)).any()] for p in found]
    used = [a for axes in moved for a in axes]
    if any(len(axes) > 1 for axes in moved) or len(set(used)) < len(used):
        return _gathered(value, found, rank)
    return _axis_by_axis(value, found, moved, rank)


def _axis_by_axis(value: V, found: list[np.ndarray], moved: list[list[int]], rank: int) -> V:
    """The value read by entries, slices, a transpose and new axes, where each axis of the result
    moves at most one digit.
    """
    for k in reversed(range(len(found))):
        before = (slice(None),) * k
        place = np.moveaxis(found[k], moved[k][0], -1)[(0,) * (rank - 1)] if moved[k] else None
        if place is None:
            value = value[(*before, int(found[k].flat[0]))]
        elif not np.array_equal(place, np.arange(value.shape[k])):
            value = value[(*before, _slice(place))]
    target = [axes[0] for axes in moved if axes]
    order = sorted(range(len(target)), key=target.__getitem__)
    value = ordered(value, order)
    if len(target) < rank:
        value = value[tuple(slice(None) if a in target else None for a in range(rank))]
    return value


def _slice(place: np.ndarray) -> slice | np.ndarray:
    steps = set(np.diff(place).tolist())
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return slice(int(place[0]), int(place[-1]) + 1, int(step))
    return place


def _gathered(value: V, found: list[np.ndarray], rank: int) -> V:
    """The value read entry by entry, where digits move together."""
    still = tuple(a for a in range(rank) if all((p == p.take([0], axis=a)).all() for p in found))
    picked = tuple(found)
    for a in still:
        picked = tuple(p.take([0], axis=a) for p in picked)
    return value[picked]


def filled(value: V, sizes: Sequence[int], start: int = 0) -> V:
    """The value with broadcast axes written out, from the axis `start` on."""
    for a, size in enumerate(sizes, start):
        if value.shape[a] != size:
            value = value[(*(slice(None),) * a, np.zeros(size, int))]
    return value


def merged(value: V, groups: Sequence[int], sizes: Sequence[int]) -> V:
    """The value with its batch axes merged in groups of so many; an empty group gives size 1."""
    shape, start = [], 0
    for count in groups:
        if count > 1:
            value = filled(value, sizes[start : start + count], start)
        shape.append(math.prod(int(s) for s in value.shape[start : start + count]))
        start += count
    return shaped(value, shape)


def ordered(value: V, order: Sequence[int]) -> V:
    """The value with its batch axes in another order."""
    return value if list(order) == sorted(order) else value.transpose(tuple(order))


def shaped(value: V, shape: Sequence[int]) -> V:
    """The value in another batch shape."""
    return value if tuple(shape) == value.shape else value.reshape(tuple(shape))
