"""Layout rules: where the coordinate of each kind of node is, from where those of its operands
are.
"""

from collections.abc import Sequence

import numpy as np

from limitlaw.torch import making as make
from limitlaw.torch import nodes
from limitlaw.torch.digits import Digits, cuts, refined
from limitlaw.torch.layouts import LayoutRules, Layouts
from limitlaw.torch.nodes import Node, Tensor, ancestors
from limitlaw.torch.rewriting import Rewrite


def _given(layouts: Layouts, node: nodes.Fixed) -> Digits:
    sizes, _ = refined(node.shape, [layouts.cuts_of(node)], node.label)
    digit = layouts.data_digit(node)
    return layouts.laid(node, sizes, digit, narrow=digit is not None)


def _entrywise(layouts: Layouts, node: Node) -> Digits:
    """The layout of terms, factors and arguments that meet entry by entry."""
    shape, _ = layouts.met(node, node.operands, [layouts.cuts_of(node)])
    axis, narrow = layouts.common(node, node.operands, shape)
    if axis is not None and layouts.wants_numbers(node):
        vectors = [t for t in node.operands if layouts.of[t.node].coordinate is not None]
        layouts.cut(vectors[0].node, 1, False)
    return layouts.laid(node, shape, axis, narrow)


def _linear(layouts: Layouts, node: nodes.Weighed) -> Digits:
    """The layout of a product with a weight matrix: rows are cut by consumers, columns as the
    vectors that W meets.
    """
    shape, axes = layouts.met(node, [node.x], [(*layouts.cuts_of(node)[:-1], frozenset())])
    last = len(node.shape) - 1
    contracted = [i for i, a in enumerate(axes) if a == last]
    axis = layouts.coordinate(node.x, shape)
    if axis is None and isinstance(node.x.node, nodes.Fixed):
        layouts.as_data(node.x.node, len(layouts.of[node.x.node].sizes) - 1)
    if axis not in contracted:
        raise Rewrite(node, _as_numbers(node))
    layouts.meeting[node] = (shape, contracted, axis)
    own, _ = refined((node.shape[-1],), [(layouts.cuts_of(node)[-1],)], node.label)
    others = [size for i, size in enumerate(shape) if i not in contracted]
    vectors = not layouts.wants_numbers(node) and node.shape[-1] > 1
    sizes = [*others, *own]
    return layouts.laid(node, sizes, len(sizes) - 1 if vectors else None)


def _as_numbers(node: nodes.Weighed) -> Tensor:
    """W x where x are numbers, or where W mixes tokens: a contraction with the entries of W, whose
    rows are coordinates unless x has some.
    """
    columns = np.ascontiguousarray(node.weight.T)
    entries = nodes.Random(columns.shape, node.parameter, columns, label=node.label)
    x = node.x.moved(lambda ids: ids[None]) if len(node.x.shape) == 1 else node.x
    result = make.contract(x, entries.whole())
    for made in ancestors([result.node]):
        if not made.label.operation:
            made.label = node.label
    return result


def _reduction(layouts: Layouts, node: nodes.Reduction) -> Digits:
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
    return layouts.laid(
        node, [shape[i] for i in kept], kept.index(axis) if axis in kept else None, narrow
    )


def _numbers_only(layouts: Layouts, node: Node) -> Digits:
    (x,) = node.operands
    shape, _ = layouts.met(node, [x], [layouts.cuts_of(node)])
    if layouts.coordinate(x, shape) is not None:
        layouts.cut(x.node, 1, False)
    return layouts.laid(node, shape, None)


def _log_sum_exp(layouts: Layouts, node: nodes.LogSumExp) -> Digits:
    last = len(node.x.shape) - 1
    shape, axes = layouts.met(node, [node.x], [(*layouts.cuts_of(node), frozenset())])
    if layouts.coordinate(node.x, shape) is not None:
        layouts.cut(node.x.node, 1, False)
    kept = [size for size, axis in zip(shape, axes, strict=True) if axis != last]
    layouts.meeting[node] = (shape, len(shape) - len(kept))
    return layouts.laid(node, kept, None)


def _contraction(layouts: Layouts, node: nodes.Contraction) -> Digits:
    """The layout of a contraction: axes that both factors have, i, j and k are refined
    together.
    """
    own, rank = layouts.cuts_of(node), len(node.shape)
    lead = [own[:-2]]
    of_a, of_b = (cuts(t, layouts.of[t.node].sizes) for t in (node.a, node.b))
    k = of_a[-1] | of_b[-1]
    lead += [of_a[:-2], of_b[:-2]]
    common = [frozenset().union(*(c[a] for c in lead)) for a in range(rank - 2)]
    shape_a, axes = refined(node.a.shape, [(*common, of_a[-2] | own[-2], k)], node.label)
    shape_b, axes_b = refined(node.b.shape, [(*common, of_b[-2] | own[-1], k)], node.label)
    at_a, at_b = layouts.coordinate(node.a, shape_a), layouts.coordinate(node.b, shape_b)
    role = ["lead"] * (rank - 2) + ["row", "k"]
    roles = [[role[a] for a in found] for found in (axes, axes_b)]
    inside = [
        at is not None and found[at] == "k" for at, found in zip((at_a, at_b), roles, strict=True)
    ]
    for tensor, at, found in zip((node.a, node.b), (at_a, at_b), roles, strict=True):
        kept = at is not None and (found[at] == "row" if not all(inside) else True)
        if at is not None and (not kept or (layouts.wants_numbers(node) and not all(inside))):
            # what is a number for the other factor is a number here
            layouts.cut(tensor.node, 1, False)
    if at_a is not None and at_b is not None and not all(inside):
        for tensor in (node.b, node.a):  # a matrix over tokens is its entries
            if isinstance(tensor.node, nodes.Random | nodes.Fixed):
                layouts.cut(tensor.node, 1, False)
        layouts.one_by_one(node, node.a)
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


def _one_dimension(layouts: Layouts, tensors: Sequence[Tensor]) -> None:
    if any(layouts.of[t.node].narrow for t in tensors):
        for t in tensors:
            if not layouts.of[t.node].narrow:
                layouts.make_narrow(t.node)


def _concatenation(layouts: Layouts, node: nodes.Concatenation) -> Digits:
    """The layout of parts side by side along a batch axis; along coordinates there is a rule only
    inside a contraction.
    """
    own = list(layouts.cuts_of(node))
    found = [list(cuts(t, layouts.of[t.node].sizes)) for t in node.parts]
    for cut in (*found, own):
        cut[node.axis] = frozenset()  # its entries are read one by one
    shapes = [refined(t.shape, [*map(tuple, found), tuple(own)], node.label) for t in node.parts]
    whole, axes = refined(node.shape, [*map(tuple, found), tuple(own)], node.label)
    found_at: set[int] = set()
    for part, (shape, _) in zip(node.parts, shapes, strict=True):
        inner = layouts.coordinate(part, shape)
        if inner is not None:
            shifted = part.shape[node.axis] == 1 and inner >= sum(a < node.axis for a in axes)
            found_at.add(inner + shifted)
    if len(found_at) > 1 or any(axes[at] == node.axis for at in found_at):
        for part in node.parts:
            if layouts.of[part.node].coordinate is not None:
                layouts.one_by_one(node, part)
    coordinate = next(iter(found_at), None)
    _numbers_stay_still(layouts, node, coordinate, axes)
    narrow = any(layouts.of[t.node].narrow for t in node.parts)
    if narrow:
        _one_dimension(
            layouts, [t for t in node.parts if layouts.of[t.node].coordinate is not None]
        )
    layouts.meeting[node] = (axes.index(node.axis), whole)
    return layouts.laid(node, whole, coordinate, narrow)


def _numbers_stay_still(
    layouts: Layouts, node: nodes.Concatenation, coordinate: int | None, axes: list[int]
) -> None:
    """Let all parts be numbers unless the numbers beside vectors are constant along
    coordinates.
    """
    if coordinate is None:
        return
    vectors = [t for t in node.parts if layouts.of[t.node].coordinate is not None]
    numbers = [t for t in node.parts if layouts.of[t.node].coordinate is None]
    axis = axes[coordinate]
    if layouts.wants_numbers(node) or any(
        (t.ids != t.ids.narrow(axis, 0, 1)).any() for t in numbers
    ):
        layouts.cut(vectors[0].node, 1, False)


LAYOUT_RULES: LayoutRules = {
    nodes.Random: Layouts.source,
    nodes.Fixed: _given,
    nodes.Weighed: _linear,
    nodes.WeightedSum: _entrywise,
    nodes.Times: _entrywise,
    nodes.Elementwise: _entrywise,
    nodes.EntrywiseOfSeveral: _entrywise,
    nodes.LogSumExp: _log_sum_exp,
    nodes.Rotation: _entrywise,
    nodes.Reduction: _reduction,
    nodes.Contraction: _contraction,
    nodes.Masked: _numbers_only,
    nodes.Softmax: _numbers_only,
    nodes.Concatenation: _concatenation,
}
