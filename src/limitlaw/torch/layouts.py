"""Layouts: which digit of every node is the coordinate axis.

A feature axis starts whole: the rows of a weight matrix, the columns of an embedding are the
coordinates of one vector. A consumer that reads it in pieces (heads, fused queries, keys and
values, halves of a gate) cuts it, and the cut passes to what the consumer reads, until nothing
changes. So norms and residuals before a cut are cut with it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from limitlaw.torch import nodes
from limitlaw.torch.digits import (
    Cuts,
    Digits,
    axis_of,
    coordinate_axis,
    cuts,
    piece_of_coordinate,
    places,
    profile,
    refined,
)
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.nodes import Node, Tensor

MOST_NUMBERS = 1024  # coordinates of a vector that are read one by one
LayoutRules = Mapping[type[Node], Callable[["Layouts", Any], Digits]]


class Again(Exception):
    """A node that was laid out must be laid out again."""

    def __init__(self, node: Node):
        self.node = node


class Layouts:
    """The layout of every node of a program, and the refined shape in which its operands meet."""

    def __init__(self, order: Sequence[Node], rules: "LayoutRules"):
        self.of: dict[Node, Digits] = {}
        self.meeting: dict[Node, Any] = {}  # what the rule of a node found out about its operands
        self._cuts: dict[Node, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._numbers: set[Node] = set()
        self._narrow: set[Node] = set()
        self._data: dict[Node, int] = {}
        self._order, self._rules = order, rules
        self._lay(0)

    def _lay(self, i: int) -> None:
        """Lay out all nodes from number i on."""
        self.done = False
        number = {node: i for i, node in enumerate(self._order)}
        while i < len(self._order):
            node = self._order[i]
            try:
                self.of[node] = self._rules[type(node)](self, node)
                i += 1
            except Again as again:
                i = number[again.node]
            except ConversionError:
                raise
            except (ValueError, TypeError, IndexError, KeyError, AssertionError) as error:
                raise ConversionError(
                    f"{node.label}: there is no rule for which of its axes are coordinates; "
                    "convert the submodules one by one"
                ) from error
        self.done = True

    def resume(self, again: "Again") -> None:
        """Lay out a node and what follows it again, where what reads an output has cut it."""
        self._lay(self._order.index(again.node))

    # --- demands ---------------------------------------------------------------------------------

    def cut(self, node: Node, p: int, narrow: bool) -> None:
        """Let the coordinate of a node have p entries; with p = 1 the node becomes numbers."""
        layout = self.of[node]
        assert layout.coordinate is not None
        axis, inside = axis_of(layout, node.shape, layout.coordinate)
        if node in self._numbers or p * inside in self._cuts[node][axis]:
            raise ConversionError(
                f"{node.label}: its coordinates are read in pieces, for which it has no rule"
            )
        if p == 1:
            self._numbers.add(node)
        else:
            self._cuts[node][axis].add(p * inside)
        if narrow or layout.narrow:
            self._narrow.add(node)
        raise Again(node)

    def one_by_one(self, node: Node, tensor: Tensor) -> None:
        """Let a vector that `node` reads be numbers, if it is not too long."""
        dimension = self.of[tensor.node].dimension
        if dimension > MOST_NUMBERS:
            raise ConversionError(
                f"{node.label}: {dimension} coordinates are read one by one; there is a rule for "
                f"{MOST_NUMBERS} at most"
            )
        self.cut(tensor.node, 1, False)

    def make_narrow(self, node: Node) -> None:
        """Let the dimension of a node stay fixed as the width grows."""
        self._narrow.add(node)
        raise Again(node)

    def cuts_of(self, node: Node) -> Cuts:
        """The places at which consumers have cut the axes of a node."""
        wanted = self._cuts[node]
        return tuple(frozenset(wanted[a]) for a in range(len(node.shape)))

    def laid(
        self, node: Node, sizes: Sequence[int], coordinate: int | None, narrow: bool = False
    ) -> Digits:
        """A layout, which is narrow where a consumer says so."""
        return Digits(
            tuple(sizes), coordinate, coordinate is not None and (narrow or node in self._narrow)
        )

    def source(self, node: Node) -> Digits:
        """The layout of a parameter: vectors along the last axis, unless consumers want
        numbers.
        """
        sizes, _ = refined(node.shape, [self.cuts_of(node)], node.label)
        vectors = node not in self._numbers and bool(node.shape) and node.shape[-1] > 1
        last = self._data.get(node, len(sizes) - 1)
        return self.laid(node, sizes, last if vectors else None)

    # --- meeting ---------------------------------------------------------------------------------

    def coordinate(self, tensor: Tensor, shape: Sequence[int]) -> int | None:
        """The coordinate axis of the refined tensor; a node that is read in pieces is cut."""
        self._refine(tensor, shape)
        layout = self.of[tensor.node]
        if layout.coordinate is None:
            return None
        axis = coordinate_axis(tensor, layout, shape)
        if axis is None:
            self.cut(tensor.node, *piece_of_coordinate(tensor, layout, shape))
        return axis

    def _refine(self, tensor: Tensor, shape: Sequence[int]) -> None:
        """Cut a batch digit that several axes move, as groups of queries move heads."""
        layout, node = self.of[tensor.node], tensor.node
        for digit, place in enumerate([] if self.done else places(tensor, layout.sizes, shape)):
            moves = profile(place)
            if moves is None or digit == layout.coordinate:
                continue
            moving = [f for f in moves if f.any()]
            inner = [len(f) for f in moving if np.array_equal(f, np.arange(len(f)))]
            if len(moving) < 2 or not inner or layout.sizes[digit] % inner[0]:
                continue
            if sum(bool((f % inner[0]).any()) for f in moving) > 1:  # windows that overlap
                continue
            axis, inside = axis_of(layout, node.shape, digit)
            if inner[0] * inside not in self._cuts[node][axis]:
                self._cuts[node][axis].add(inner[0] * inside)
                raise Again(node)

    def coordinate_is_whole(self, tensor: Tensor, shape: Sequence[int]) -> bool:
        """Does the coordinate run once and whole along one axis of the tensor, without a cut?"""
        return coordinate_axis(tensor, self.of[tensor.node], shape) is not None

    def met(
        self, node: Node, tensors: Sequence[Tensor], extra: Sequence[Cuts] = ()
    ) -> tuple[list[int], list[int]]:
        """Tensors of one shape refined together: the sizes of all pieces, and the axes that they
        are pieces of.
        """
        found = [cuts(t, self.of[t.node].sizes) for t in tensors]
        return refined(tensors[0].shape, [*found, *extra], node.label)

    def common(
        self, node: Node, tensors: Sequence[Tensor], shape: Sequence[int]
    ) -> tuple[int | None, bool]:
        """The one coordinate axis of all vectors among tensors that meet entry by entry."""
        axes = [self.coordinate(t, shape) for t in tensors]
        vectors = [t for t, a in zip(tensors, axes, strict=True) if a is not None]
        found = sorted({a for a in axes if a is not None})
        if not found:
            return None, False
        if len(found) > 1:
            self._agree(tensors, axes, shape)
            self.one_by_one(node, min(vectors, key=lambda t: self.of[t.node].dimension))
        (axis,) = found
        for tensor, own in zip(tensors, axes, strict=True):
            if own is None and self._moves(tensor, shape, axis):
                self._clash(node, tensor, vectors, shape, axis)
        narrow = any(self.of[v.node].narrow for v in vectors) or node in self._narrow
        for v in vectors:
            if narrow and not self.of[v.node].narrow:
                self.make_narrow(v.node)
        return axis, narrow

    def _agree(
        self, tensors: Sequence[Tensor], axes: Sequence[int | None], shape: Sequence[int]
    ) -> None:
        """Let parameters, whose entries are alike, be vectors along the axis of the others."""
        pairs = [(t, a) for t, a in zip(tensors, axes, strict=True) if a is not None]
        free = [(t, a) for t, a in pairs if isinstance(t.node, nodes.Random | nodes.Fixed)]
        bound = [a for t, a in pairs if not isinstance(t.node, nodes.Random | nodes.Fixed)]
        axis = (bound or [free[0][1]])[0]
        for tensor, own in free:
            if own != axis:
                self.turn(tensor, shape, axis)

    def turn(self, tensor: Tensor, shape: Sequence[int], axis: int) -> None:
        """Let a parameter be vectors along this axis; numbers, where no digit of it runs there,
        or where it already is what another reader wants.
        """
        found = places(tensor, self.of[tensor.node].sizes, shape)
        moving = [k for k, p in enumerate(found) if (p != p.take([0], axis=axis)).any()]
        if len(moving) == 1 and tensor.node not in self._data:
            self.as_data(tensor.node, moving[0])
        self.cut(tensor.node, 1, False)

    def _moves(self, tensor: Tensor, shape: Sequence[int], axis: int) -> bool:
        return any(
            (p != p.take([0], axis=axis)).any()
            for p in places(tensor, self.of[tensor.node].sizes, shape)
        )

    def _clash(
        self, node: Node, numbers: Tensor, vectors: list[Tensor], shape: Sequence[int], axis: int
    ) -> None:
        """Resolve numbers that differ along a coordinate: constants become data, other nodes
        numbers.
        """
        if isinstance(numbers.node, nodes.Fixed):
            found = places(numbers, self.of[numbers.node].sizes, shape)
            moving = [k for k, p in enumerate(found) if (p != p.take([0], axis=axis)).any()]
            if len(moving) == 1:
                self._data[numbers.node] = moving[0]
                raise Again(numbers.node)
        self.cut(vectors[0].node, 1, False)

    def as_data(self, node: Node, digit: int) -> None:
        """Let constants be deterministic vectors along a digit."""
        self._data[node] = digit
        raise Again(node)

    def data_digit(self, node: Node) -> int | None:
        """The digit of constants that is a coordinate; None where there is none."""
        return None if node in self._numbers else self._data.get(node)

    def coordinatewise(self) -> list[Node]:
        """The products with weights whose rows are read one by one."""
        return [
            node for node in self.of if isinstance(node, nodes.Weighed) and node in self._numbers
        ]

    def wants_numbers(self, node: Node) -> bool:
        """Does something that reads this node need numbers?"""
        return node in self._numbers
