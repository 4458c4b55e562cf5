"""Which digit of every node is the coordinate axis.

A feature axis starts whole: the rows of a weight matrix, the columns of an embedding are the coordinates of one vector.
A consumer that reads it in pieces (heads, fused queries, keys and values, halves of a gate) cuts it, and the cut passes
to what the consumer reads, until nothing changes. Norms and residuals before a cut so are cut with it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from limitlaw.torch import nodes
from limitlaw.torch.digits import (
    Cuts,
    Layout,
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


class _Again(Exception):
    """A node that was laid out must be laid out again."""

    def __init__(self, node: Node):
        self.node = node


class Layouts:
    """The layout of every node of a program, and the refined shape in which its operands meet."""

    def __init__(self, order: Sequence[Node]):
        self.of: dict[Node, Layout] = {}
        self.meeting: dict[Node, Any] = {}  # what the rule of the node found of its operands
        self._cuts: dict[Node, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._numbers: set[Node] = set()
        self._narrow: set[Node] = set()
        self._data: dict[Node, int] = {}
        self.done = False
        number = {node: i for i, node in enumerate(order)}
        i = 0
        while i < len(order):
            try:
                self.of[order[i]] = RULES[type(order[i])](self, order[i])
                i += 1
            except _Again as again:
                i = number[again.node]
        self.done = True

    # --- demands ----------------------------------------------------------------------------------------------------

    def cut(self, node: Node, p: int, narrow: bool) -> None:
        """Let the coordinate of a node have p entries; p = 1: let the node be numbers."""
        layout = self.of[node]
        assert layout.coordinate is not None
        axis, inside = axis_of(layout, node.shape, layout.coordinate)
        if p == 1:
            self._numbers.add(node)
        else:
            self._cuts[node][axis].add(p * inside)
        if narrow or layout.narrow:
            self._narrow.add(node)
        raise _Again(node)

    def make_narrow(self, node: Node) -> None:
        """Let the dimension of a node stay fixed as the width grows."""
        self._narrow.add(node)
        raise _Again(node)

    def cuts_of(self, node: Node) -> Cuts:
        """Where consumers have cut the axes of a node."""
        wanted = self._cuts[node]
        return tuple(frozenset(wanted[a]) for a in range(len(node.shape)))

    def laid(self, node: Node, sizes: Sequence[int], coordinate: int | None, narrow: bool = False) -> Layout:
        """The layout, narrow where a consumer says so."""
        return Layout(tuple(sizes), coordinate, coordinate is not None and (narrow or node in self._narrow))

    def source(self, node: Node) -> Layout:
        """Vectors along the last axis, unless consumers want numbers."""
        sizes, _ = refined(node.shape, [self.cuts_of(node)], node.label)
        vectors = node not in self._numbers and bool(node.shape) and node.shape[-1] > 1
        return self.laid(node, sizes, len(sizes) - 1 if vectors else None)

    # --- meeting ----------------------------------------------------------------------------------------------------

    def coordinate(self, tensor: Tensor, shape: Sequence[int]) -> int | None:
        """The axis of the refined tensor that is the coordinate; the node is cut where it is read in pieces."""
        self._refine(tensor, shape)
        layout = self.of[tensor.node]
        if layout.coordinate is None:
            return None
        axis = coordinate_axis(tensor, layout, shape)
        if axis is None:
            self.cut(tensor.node, *piece_of_coordinate(tensor, layout, shape))
        return axis

    def _refine(self, tensor: Tensor, shape: Sequence[int]) -> None:
        """Cut a batch digit that several axes move, as those of groups and of queries in a group move heads."""
        layout, node = self.of[tensor.node], tensor.node
        for digit, place in enumerate([] if self.done else places(tensor, layout.sizes, shape)):
            moves = profile(place)
            if moves is None or digit == layout.coordinate:
                continue
            moving = [f for f in moves if f.any()]
            inner = [len(f) for f in moving if np.array_equal(f, np.arange(len(f)))]
            if len(moving) < 2 or not inner or layout.sizes[digit] % inner[0]:
                continue
            axis, inside = axis_of(layout, node.shape, digit)
            if inner[0] * inside not in self._cuts[node][axis]:
                self._cuts[node][axis].add(inner[0] * inside)
                raise _Again(node)

    def coordinate_is_whole(self, tensor: Tensor, shape: Sequence[int]) -> bool:
        """Does the coordinate run once and whole along one axis of the tensor, without a cut?"""
        return coordinate_axis(tensor, self.of[tensor.node], shape) is not None

    def met(self, node: Node, tensors: Sequence[Tensor], extra: Sequence[Cuts] = ()) -> tuple[list[int], list[int]]:
        """Tensors of one shape refined together: the sizes of all pieces and the axes they are of."""
        found = [cuts(t, self.of[t.node].sizes) for t in tensors]
        return refined(tensors[0].shape, [*found, *extra], node.label)

    def common(self, node: Node, tensors: Sequence[Tensor], shape: Sequence[int]) -> tuple[int | None, bool]:
        """The one axis that is the coordinate of all vectors among tensors that meet entry by entry."""
        axes = [self.coordinate(t, shape) for t in tensors]
        found = sorted({a for a in axes if a is not None})
        if not found:
            return None, False
        if len(found) > 1:
            raise ConversionError(f"{node.label}: vectors meet along different axes: no rule makes their product")
        (axis,) = found
        for tensor, own in zip(tensors, axes, strict=True):
            if own is None and self._moves(tensor, shape, axis):
                self._clash(node, tensor, [t for t, a in zip(tensors, axes, strict=True) if a is not None], shape, axis)
        vectors = [t.node for t, a in zip(tensors, axes, strict=True) if a is not None]
        narrow = any(self.of[v].narrow for v in vectors) or node in self._narrow
        for v in vectors:
            if narrow and not self.of[v].narrow:
                self.make_narrow(v)
        return axis, narrow

    def _moves(self, tensor: Tensor, shape: Sequence[int], axis: int) -> bool:
        return any((p != p.take([0], axis=axis)).any() for p in places(tensor, self.of[tensor.node].sizes, shape))

    def _clash(self, node: Node, numbers: Tensor, vectors: list[Tensor], shape: Sequence[int], axis: int) -> None:
        """Numbers that differ along a coordinate: given ones are data, others make numbers of the vectors."""
        if isinstance(numbers.node, nodes.Given):
            found = places(numbers, self.of[numbers.node].sizes, shape)
            moving = [k for k, p in enumerate(found) if (p != p.take([0], axis=axis)).any()]
            if len(moving) == 1:
                self._data[numbers.node] = moving[0]
                raise _Again(numbers.node)
        self.cut(vectors[0].node, 1, False)

    def as_data(self, node: Node, digit: int) -> None:
        """Let given numbers be given vectors along a digit."""
        self._data[node] = digit
        raise _Again(node)

    def data_digit(self, node: Node) -> int | None:
        """The digit of given numbers that is a coordinate."""
        return None if node in self._numbers else self._data.get(node)

    def wants_numbers(self, node: Node) -> bool:
        """Does a consumer need numbers?"""
        return node in self._numbers


def _given(layouts: Layouts, node: nodes.Given) -> Layout:
    sizes, _ = refined(node.shape, [layouts.cuts_of(node)], node.label)
    digit = layouts.data_digit(node)
    return layouts.laid(node, sizes, digit, narrow=digit is not None)


def _source(layouts: Layouts, node: Node) -> Layout:
    return layouts.source(node)


def _entrywise(layouts: Layouts, node: Node) -> Layout:
    """Terms, factors and arguments that meet entry by entry."""
    shape, _ = layouts.met(node, node.operands, [layouts.cuts_of(node)])
    axis, narrow = layouts.common(node, node.operands, shape)
    if axis is not None and layouts.wants_numbers(node):
        vectors = [t for t in node.operands if layouts.of[t.node].coordinate is not None]
        layouts.cut(vectors[0].node, 1, False)
    return layouts.laid(node, shape, axis, narrow)


def _linear(layouts: Layouts, node: nodes.Linear) -> Layout:
    """Rows are cut by consumers, columns as what W meets is."""
    shape, axes = layouts.met(node, [node.x], [(*layouts.cuts_of(node)[:-1], frozenset())])
    last = len(node.shape) - 1
    contracted = [i for i, a in enumerate(axes) if a == last]
    axis = layouts.coordinate(node.x, shape)
    if axis is None and isinstance(node.x.node, nodes.Given):
        layouts.as_data(node.x.node, len(layouts.of[node.x.node].sizes) - 1)
    if axis not in contracted:
        raise ConversionError(
            f"{node.label}: a weight matrix that mixes tokens or numbers, not the coordinates of vectors, has no rule "
            "yet; replace the layer by one over the feature axis"
        )
    layouts.meeting[node] = (shape, contracted, axis)
    own, _ = refined((node.shape[-1],), [(layouts.cuts_of(node)[-1],)], node.label)
    others = [size for i, size in enumerate(shape) if i not in contracted]
    vectors = not layouts.wants_numbers(node) and node.shape[-1] > 1
    sizes = [*others, *own]
    return layouts.laid(node, sizes, len(sizes) - 1 if vectors else None)


def _reduction(layouts: Layouts, node: nodes.Reduction) -> Layout:
    kept_axes = [a for a in range(len(node.x.shape)) if a not in node.axes]
    own = layouts.cuts_of(node)
    extra: list[frozenset[int]] = [frozenset()] * len(node.x.shape)
    for place, a in enumerate(kept_axes):
        extra[a] = own[place]
    shape, axes = layouts.met(node, [node.x], [tuple(extra)])
    axis, narrow = layouts.common(node, [node.x], shape)
    kept = [i for i, a in enumerate(axes) if a not in node.axes]
    layouts.meeting[node] = (shape, kept, axis)
    if axis in kept and layouts.wants_numbers(node):
        layouts.cut(node.x.node, 1, False)
    return layouts.laid(node, [shape[i] for i in kept], kept.index(axis) if axis in kept else None, narrow)


def _numbers_only(layouts: Layouts, node: Node) -> Layout:
    (x,) = node.operands
    shape, _ = layouts.met(node, [x], [layouts.cuts_of(node)])
    if layouts.coordinate(x, shape) is not None:
        layouts.cut(x.node, 1, False)
    return layouts.laid(node, shape, None)


def _contraction(layouts: Layouts, node: nodes.Contraction) -> Layout:
    """Axes that both have, i, j and k are refined together."""
    own, rank = layouts.cuts_of(node), len(node.shape)
    lead = [own[:-2]]
    of_a, of_b = (cuts(t, layouts.of[t.node].sizes) for t in (node.a, node.b))
    k = of_a[-1] | of_b[-1]
    lead += [of_a[:-2], of_b[:-2]]
    common = [frozenset().union(*(c[a] for c in lead)) for a in range(rank - 2)]
    shape_a, axes = refined(node.a.shape, [(*common, of_a[-2] | own[-2], k)], node.label)
    shape_b, axes_b = refined(node.b.shape, [(*common, of_b[-2] | own[-1], k)], node.label)
    at_a, at_b = layouts.coordinate(node.a, shape_a), layouts.coordinate(node.b, shape_b)
    roles = [[_role(a, rank) for a in found] for found in (axes, axes_b)]
    inside = [at is not None and role[at] == "k" for at, role in zip((at_a, at_b), roles, strict=True)]
    for tensor, at, role, here in zip((node.a, node.b), (at_a, at_b), roles, inside, strict=True):
        if at is not None and (role[at] == "lead" or (role[at] == "k" and not all(inside)) or layouts.wants_numbers(node)) :
            if not (here and all(inside)):
                layouts.cut(tensor.node, 1, False)
    if at_a is not None and at_b is not None and not all(inside):
        raise ConversionError(f"{node.label}: a product of vectors with vectors over an axis of tokens has no rule")
    if all(inside):
        _one_dimension(layouts, (node.a, node.b))
    layouts.meeting[node] = ((shape_a, roles[0], at_a), (shape_b, roles[1], at_b))
    sizes = [s for s, r in zip(shape_a, roles[0], strict=True) if r in ("lead", "row")]
    start = len(sizes)
    sizes += [s for s, r in zip(shape_b, roles[1], strict=True) if r == "row"]
    coordinate, narrow = None, False
    if not all(inside) and at_a is not None:
        coordinate, narrow = at_a, layouts.of[node.a.node].narrow
    if not all(inside) and at_b is not None:
        coordinate = start + at_b - roles[1].index("row")
        narrow = layouts.of[node.b.node].narrow
    return layouts.laid(node, sizes, coordinate, narrow)


def _role(axis: int, rank: int) -> str:
    return "k" if axis == rank - 1 else "row" if axis == rank - 2 else "lead"


def _one_dimension(layouts: Layouts, tensors: Sequence[Tensor]) -> None:
    if any(layouts.of[t.node].narrow for t in tensors):
        for t in tensors:
            if not layouts.of[t.node].narrow:
                layouts.make_narrow(t.node)


def _concatenation(layouts: Layouts, node: nodes.Concatenation) -> Layout:
    """Parts side by side along a batch axis; one along coordinates may only enter a contraction over them."""
    own = list(layouts.cuts_of(node))
    found = [list(cuts(t, layouts.of[t.node].sizes)) for t in node.parts]
    if any(f[node.axis] for f in [*found, own]):
        raise ConversionError(f"{node.label}: pieces of a concatenated axis have no rule")
    shapes = [refined(t.shape, [*map(tuple, found), tuple(own)], node.label) for t in node.parts]
    whole, axes = refined(node.shape, [*map(tuple, found), tuple(own)], node.label)
    at = set()
    for part, (shape, _) in zip(node.parts, shapes, strict=True):
        inner = layouts.coordinate(part, shape)
        trivial = part.shape[node.axis] == 1 and node.shape[node.axis] > 1
        here = sum(a < node.axis for a in axes)
        at.add(inner if inner is None or not trivial or inner < here else inner + 1)
    if len(at) > 1 or (at != {None} and axes[next(iter(at))] == node.axis):  # type: ignore[arg-type]
        raise ConversionError(f"{node.label}: a concatenation along coordinates has no rule, but for rotary embeddings")
    (coordinate,) = at
    narrow = any(layouts.of[t.node].narrow for t in node.parts) or False
    if narrow:
        _one_dimension(layouts, node.parts)
    layouts.meeting[node] = (axes.index(node.axis), whole)
    return layouts.laid(node, whole, coordinate, narrow)


RULES: dict[type[Node], Callable[[Layouts, Any], Layout]] = {
    nodes.Random: _source,
    nodes.Given: _given,
    nodes.Linear: _linear,
    nodes.Combination: _entrywise,
    nodes.Product: _entrywise,
    nodes.Function: _entrywise,
    nodes.Rotation: _entrywise,
    nodes.Reduction: _reduction,
    nodes.Contraction: _contraction,
    nodes.Masked: _numbers_only,
    nodes.Softmax: _numbers_only,
    nodes.Concatenation: _concatenation,
}
