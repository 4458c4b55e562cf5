"""A program from nodes whose coordinate axes are known: one function for each kind of node."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import limitlaw as ll
from limitlaw.core.space import Dim
from limitlaw.language.values import scalars
from limitlaw.torch import nodes
from limitlaw.torch.digits import Layout
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import KNOWN, affine, chain, recognised
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node, Tensor, pulled
from limitlaw.torch.reading import filled, merged, ordered, read, shaped

CLOSE = 1e-12


class Writer:
    """Writes each node once. `weights`: the module's own numbers, by matrix and by initial vector."""

    def __init__(self, layouts: Layouts, width: int, fixed: frozenset[int]):
        self.layouts, self.width, self.fixed = layouts, width, fixed
        self.values: dict[Node, Any] = {}
        self.weights: dict[Any, np.ndarray] = {}
        self.shared: dict[Any, Any] = {}

    def layout(self, node: Node) -> Layout:
        """The layout of a node."""
        return self.layouts.of[node]

    def dim(self, node: Node) -> Dim | int:
        """The space of a node: fixed for heads and given data, else a multiple of the width."""
        layout = self.layout(node)
        if layout.narrow or layout.dimension in self.fixed:
            return layout.dimension
        return Dim(Fraction(layout.dimension, self.width), wide=True)

    def value(self, node: Node) -> Any:
        """The value of a node, its batch axes the digits that are not coordinates."""
        if node not in self.values:
            self.values[node] = filled(RULES[type(node)](self, node), self.layout(node).batch)
        return self.values[node]

    def read(self, tensor: Tensor, shape: Sequence[int], meeting: int | None = None) -> Any:
        """The tensor with one batch axis for each axis of the refined shape but the coordinate, its own or that of the
        vectors that it meets.
        """
        axis = self.layouts.coordinate(tensor, shape)
        axis = meeting if axis is None else axis
        return read(self.value(tensor.node), self.layout(tensor.node), tensor, shape, axis)

    def operand(self, tensor: Tensor, layout: Layout) -> Any:
        """A tensor that meets others entry by entry in a node of this layout."""
        return self.read(tensor, layout.sizes, layout.coordinate)


def _random(writer: Writer, node: nodes.Random) -> Any:
    """Initial vectors; rows of zeros, as of padding, are not random."""
    layout = writer.layout(node)
    vectors = layout.coordinate is not None
    array = node.array.reshape(*layout.batch, layout.dimension if vectors else 1)
    used = (array != 0).any(axis=-1).reshape(-1)
    variance = node.parameter.variance
    cov = variance if used.all() else np.diag(variance * used)
    value = ll.initial(layout.batch, cov=cov, dim=writer.dim(node) if vectors else 1)
    writer.weights[value] = array
    return value if vectors else ll.average(value)


def _given(writer: Writer, node: nodes.Given) -> Any:
    layout = writer.layout(node)
    array = node.array.reshape(layout.sizes)
    return scalars(array) if layout.coordinate is None else ll.data(np.moveaxis(array, layout.coordinate, -1))


def _linear(writer: Writer, node: nodes.Linear) -> Any:
    """Σ over pieces of the columns of W_piece x_piece, for each piece of the rows."""
    shape, contracted, axis = writer.layouts.meeting[node]
    layout, inner = writer.layout(node), writer.layout(node.x.node)
    own = len(layout.sizes) - (len(shape) - len(contracted))
    rows = layout.sizes[len(layout.sizes) - own :]
    columns = [shape[i] for i in contracted]
    place = contracted.index(axis)
    matrix = _matrix(writer, node, rows, columns, place)
    x = writer.read(node.x, shape)
    pieces, families = len(columns) - 1, own - (layout.coordinate is not None)
    product = matrix @ x
    if pieces:
        product = ll.normalised_sum(product, tuple(range(product.ndim - pieces, product.ndim)))
    others = product.ndim - families
    product = ordered(product, [*range(families, families + others), *range(families)])
    return product if layout.coordinate is not None else ll.average(product)


def _matrix(writer: Writer, node: nodes.Linear, rows: Sequence[int], columns: Sequence[int], place: int) -> Any:
    """The family of matrices that the pieces of a weight matrix are; the same weights cut alike are the same family.

    Entries have variance v; the family has m pieces of columns, whose sum is divided by √m, and D columns each, so that
    std² = v·m·D and the weights are √m times those of the module.
    """
    layout = writer.layout(node)
    shape, _, _ = writer.layouts.meeting[node]
    others = len(shape) - len(columns)
    vectors = layout.coordinate is not None
    batch = tuple(rows[:-1] if vectors else rows)
    pieces = tuple(c for i, c in enumerate(columns) if i != place)
    key = (node.parameter.key, node.part, tuple(rows), tuple(columns), place, vectors, others)
    if key not in writer.shared:
        m, D = math.prod(pieces), columns[place]
        std = math.sqrt(node.parameter.variance * m * D)
        family = (*batch, *(1,) * others, *pieces) if batch or pieces else ()
        rows_dim, cols_dim = writer.dim(node) if vectors else 1, writer.dim(node.x.node)
        matrix = ll.Matrix(std, family, rows=rows_dim, cols=cols_dim)
        array = node.weight.reshape(*batch, rows[-1] if vectors else 1, *columns)
        array = np.moveaxis(array, len(batch) + 1 + place, -1)  # (batch, row, pieces, column)
        array = np.moveaxis(array, len(batch), -2)  # (batch, pieces, row, column)
        array = array.reshape(*family, *array.shape[-2:])
        writer.weights[matrix] = math.sqrt(m) * array
        writer.shared[key] = matrix
    return writer.shared[key]


def _combination(writer: Writer, node: nodes.Combination) -> Any:
    layout = writer.layout(node)
    leaf, f = chain(node.whole())
    if layout.coordinate is not None and leaf.node is not node and not affine(f):
        return _mapped(writer.operand(leaf, layout), f)
    total: Any = None
    for coefficient, term in node.terms:
        value = writer.operand(term, layout)
        if abs(coefficient - 1) > CLOSE:
            value = -value if coefficient == -1 else coefficient * value
        total = value if total is None else total + value
    if total is None:
        raise ConversionError(f"{node.label}: an empty sum")
    return total + node.shift if node.shift else total


def _product(writer: Writer, node: nodes.Product) -> Any:
    layout = writer.layout(node)
    leaf, f = chain(node.whole())
    if layout.coordinate is not None and leaf.node is not node:
        return _mapped(writer.operand(leaf, layout), f)
    return writer.operand(node.a, layout) * writer.operand(node.b, layout)


def _function(writer: Writer, node: nodes.Function) -> Any:
    layout = writer.layout(node)
    if layout.coordinate is None:
        return _of_numbers(writer.read(node.x, layout.sizes), node)
    leaf, f = chain(node.whole())
    return _mapped(writer.operand(leaf, layout), f)


def _mapped(w: Any, f: Callable[[Any], Any]) -> Any:
    """φ of vectors: one that limitlaw knows, or a function of one's own."""
    name = recognised(f)
    return ll.map(lambda x: f(x), w) if name is None else KNOWN[name][0](w)


def _of_numbers(p: Any, node: nodes.Function) -> Any:
    if node.name == "rsqrt":
        return ll.rsqrt(p)
    name = recognised(node.f)
    if name in (None, "square", "gelu_tanh"):
        return p * p if name == "square" else ll.apply(node.f, p)
    return KNOWN[name][0](p)


def _reduction(writer: Writer, node: nodes.Reduction) -> Any:
    """Over coordinates an average, over batch axes a mean."""
    shape, kept, axis = writer.layouts.meeting[node]
    value = writer.read(node.x, shape)
    gone = [i for i in range(len(shape)) if i not in kept]
    count = 1
    batch = [i for i in range(len(shape)) if i != axis]
    places = tuple(batch.index(i) for i in gone if i != axis)
    value = filled(value, [shape[i] for i in batch])
    if axis in gone:
        value, count = ll.average(value), shape[axis]
    if places:
        value = value.mean(places) if node.mean else value.sum(places)
    return value if node.mean or count == 1 else count * value


def _contraction(writer: Writer, node: nodes.Contraction) -> Any:
    a, b = (_side(writer, t, *found) for t, found in zip((node.a, node.b), writer.layouts.meeting[node], strict=True))
    if a.inside:
        return _scores(writer, node, a, b)
    if b.vectors:
        return _mixed(node, a, b, flipped=False)
    if a.vectors:
        return _mixed(node, b, a, flipped=True)
    left, right = a.grouped(), b.grouped()
    swap = (*range(right.ndim - 2), right.ndim - 1, right.ndim - 2)
    product = left @ right.transpose(swap)
    return shaped(_scaled(product, node.scale), (*a.of("lead"), *a.of("row"), *b.of("row")))


class _Side:
    """One factor of a contraction: its value with axes (lead…, row…, k…) less the coordinate."""

    def __init__(self, value: Any, shape: Sequence[int], roles: Sequence[str], axis: int | None):
        self.value = value
        self.vectors = axis is not None
        self.inside = axis is not None and roles[axis] == "k"
        kept = [(s, r) for i, (s, r) in enumerate(zip(shape, roles, strict=True)) if i != axis]
        self.sizes, self.roles = [s for s, _ in kept], [r for _, r in kept]

    def of(self, role: str) -> tuple[int, ...]:
        """The sizes of the batch axes of a role."""
        return tuple(s for s, r in zip(self.sizes, self.roles, strict=True) if r == role)

    def grouped(self) -> Any:
        """The value with axes (lead…, rows, k), rows and k as one axis each."""
        lead, row, k = (len(self.of(r)) for r in ("lead", "row", "k"))
        return merged(self.value, [*(1,) * lead, row, k], self.sizes)


def _side(writer: Writer, tensor: Tensor, shape: Sequence[int], roles: Sequence[str], axis: int | None) -> _Side:
    if isinstance(tensor.node, nodes.Rotation):
        return _rotated(writer, tensor, tensor.node, shape, roles, axis)
    return _Side(writer.read(tensor, shape), shape, roles, axis)


def _rotated(writer: Writer, tensor: Tensor, node: nodes.Rotation, shape: Any, roles: Any, axis: Any) -> _Side:
    """What is turned, read as its rotation is; the rotation follows, when the axes have their places."""
    side = _Side(writer.read(pulled(tensor, node.x), shape), shape, roles, axis)
    every = np.broadcast_to(node.positions[..., None], node.shape).reshape(-1)
    positions = every[tensor.ids.numpy().reshape(shape)].take(0, axis=axis)
    lead, row = len(side.of("lead")), len(side.of("row"))
    if len(side.of("k")):
        raise ConversionError(f"{node.label}: a rotary embedding over several pieces of a head has no rule")
    value = merged(side.value, [*(1,) * lead, row], side.sizes)
    places = positions.reshape(*side.sizes[:lead], math.prod(side.sizes[lead:]))
    for a in range(places.ndim):
        if value.shape[a] == 1 or (places == places.take([0], axis=a)).all():
            places = places.take([0], axis=a)
    side.rotated = ll.rotary(value, places, node.base)  # type: ignore[attr-defined]
    return side


def _scores(writer: Writer, node: nodes.Contraction, a: _Side, b: _Side) -> Any:
    """D^{1/2}·scale times the dot products of a model's own scaling, summed over the pieces of k."""
    factors = []
    for side in (a, b):
        if hasattr(side, "rotated"):
            factors.append(side.rotated)
            continue
        lead, row, k = (len(side.of(r)) for r in ("lead", "row", "k"))
        order = (*range(lead), *range(lead + row, lead + row + k), *range(lead, lead + row))
        sizes = [side.sizes[i] for i in order]
        factors.append(merged(ordered(side.value, order), [*(1,) * (lead + k), row], sizes))
    p = ll.dot(*factors)
    pieces, lead = len(a.of("k")), len(a.of("lead"))
    if pieces:
        p = p.sum(tuple(range(lead, lead + pieces)))
    D = writer.layout(node.a.node).dimension
    sizes = (*a.of("lead"), *a.of("row"), *b.of("row"))
    return shaped(_scaled(p, node.scale * math.sqrt(D)), _shape(p.shape, lead, sizes))


def _shape(shape: Sequence[Any], lead: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes, but for leading axes that are broadcast."""
    return (*(int(s) for s in shape[:lead]), *sizes[lead:])


def _scaled(value: Any, factor: float) -> Any:
    return value if abs(factor - 1) < CLOSE else factor * value


def _mixed(node: nodes.Contraction, a: _Side, w: _Side, flipped: bool) -> Any:
    """Numbers times vectors: a @ w, the rows of w beside its coordinate kept."""
    lead, rows, others = len(a.of("lead")), a.of("row"), w.of("row")
    numbers = a.grouped()
    vectors = merged(w.value, [*(1,) * (lead + len(others)), len(w.of("k"))], w.sizes)
    if vectors.shape[-1] != numbers.shape[-1]:
        vectors = filled(vectors, (*vectors.shape[:-1], math.prod(w.of("k"))))
        numbers = filled(numbers, (*numbers.shape[:-1], math.prod(a.of("k"))))
    if others:
        numbers = numbers[(*(slice(None),) * lead, *(None,) * len(others))]
    mixed = _scaled(numbers @ vectors, node.scale)  # (lead…, others…, rows)
    mixed = shaped(mixed, (*mixed.shape[: lead + len(others)], *rows))
    if flipped:
        return mixed
    end = lead + len(others)
    return ordered(mixed, [*range(lead), *range(end, end + len(rows)), *range(lead, end)])


def _softmax(writer: Writer, node: nodes.Softmax) -> Any:
    layout = writer.layout(node)
    p = filled(writer.read(node.x, layout.sizes), layout.sizes)
    last = node.shape[-1]
    pieces = 0
    while math.prod(layout.sizes[len(layout.sizes) - pieces :]) < last:
        pieces += 1
    lead = len(layout.sizes) - pieces
    p = merged(p, [*(1,) * lead, pieces], layout.sizes)
    visible = None if node.visible is None else node.visible.reshape(*layout.sizes[:lead], last)
    return shaped(ll.softmax(p, visible), layout.sizes)


def _concatenation(writer: Writer, node: nodes.Concatenation) -> Any:
    """Σ over parts of one-hot numbers @ part: what stands side by side."""
    layout = writer.layout(node)
    axis, whole = writer.layouts.meeting[node]
    at = axis - (layout.coordinate is not None and layout.coordinate < axis)
    total: Any = None
    start = 0
    for part in node.parts:
        size = part.shape[node.axis]
        shape = [size if i == axis else s for i, s in enumerate(whole)]
        reading = shape if size > 1 else [s for i, s in enumerate(shape) if i != axis]
        value = writer.read(part, reading)
        if size == 1:
            value = value[(*(slice(None),) * at, None)]
        batch = [s for i, s in enumerate(shape) if i != layout.coordinate]
        value = filled(value, batch)
        order = (*(i for i in range(len(batch)) if i != at), at)
        moved = ordered(value, order)
        places = np.zeros((whole[axis], size))
        places[start + np.arange(size), np.arange(size)] = 1.0
        if layout.coordinate is None:
            moved = (moved[..., None, :] * places).sum(-1)
        else:
            moved = places @ moved
        value = ordered(moved, np.argsort(order).tolist())
        total = value if total is None else total + value
        start += size
    return total


def _misplaced(writer: Writer, node: Node) -> Any:
    what = "a mask is read by a softmax only" if isinstance(node, nodes.Masked) else (
        "a rotary embedding is read by a dot product only"
    )
    raise ConversionError(f"{node.label}: {what}")


RULES: dict[type[Node], Callable[[Writer, Any], Any]] = {
    nodes.Random: _random,
    nodes.Given: _given,
    nodes.Linear: _linear,
    nodes.Combination: _combination,
    nodes.Product: _product,
    nodes.Function: _function,
    nodes.Reduction: _reduction,
    nodes.Contraction: _contraction,
    nodes.Softmax: _softmax,
    nodes.Concatenation: _concatenation,
    nodes.Masked: _misplaced,
    nodes.Rotation: _misplaced,
}
