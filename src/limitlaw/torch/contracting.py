"""Products in a converted program: with weight matrices, scores, and vectors mixed by numbers."""

import math
from collections.abc import Sequence

import numpy as np

import limitlaw as ll
from limitlaw.language.matrices import Matrix
from limitlaw.language.values import Kind, Scalars, Wide, wide
from limitlaw.torch import nodes
from limitlaw.torch.nodes import Tensor, pulled
from limitlaw.torch.rewriting import Rewrite
from limitlaw.torch.writer import AnyValue, Writer, filled, merged, ordered, shaped

ONE_WITHIN = 1e-12

# --- weight matrices as families: one for each piece of the rows and of the columns --------------


def product(writer: Writer, node: nodes.Weighed) -> AnyValue:
    """Σ over pieces of the columns of W_piece x_piece, for each piece of the rows."""
    shape, contracted, axis = writer.layouts.meeting[node]
    layout = writer.layout(node)
    own = len(layout.sizes) - (len(shape) - len(contracted))
    rows = layout.sizes[len(layout.sizes) - own :]
    columns = [shape[i] for i in contracted]
    place = contracted.index(axis)
    pieces, families = len(columns) - 1, own - (layout.coordinate is not None)
    others = len(shape) - len(columns)
    matrix, axes = _matrix(writer, node, rows, columns, place)
    x = writer.read(node.x, shape)
    sizes = [size for i, size in enumerate(shape) if i not in contracted]
    meeting = [1] * (axes - others) + sizes
    if axes < others:  # the same weights, met before by vectors with fewer batch axes
        meeting = [math.prod(sizes[: others - axes + 1]), *sizes[others - axes + 1 :]]
        x = merged(x, [others - axes + 1, *(1,) * (axes - 1 + pieces)], [*sizes, *columns])
    elif axes > others:
        x = x[(None,) * (axes - others)]
    product = matrix @ x
    if pieces:
        product = ll.normalised_sum(product, tuple(range(product.ndim - pieces, product.ndim)))
    if axes != others:
        product = filled(product, [*rows[:families], *meeting])
        product = shaped(product, (*rows[:families], *sizes))
    others = product.ndim - families
    product = ordered(product, [*range(families, families + others), *range(families)])
    return product if layout.coordinate is not None else ll.average(product)


def _matrix(
    writer: Writer, node: nodes.Weighed, rows: Sequence[int], columns: Sequence[int], place: int
) -> tuple[Matrix, int]:
    """The family of matrices that the pieces of a weight matrix are, and for how many batch axes
    of vectors it is written; the same weights cut alike are the same family.

    Entries have variance v; the family has m pieces of columns, whose sum is divided by √m, and D
    columns each, so that std² = v·m·D and the weights are √m times those of the module.
    """
    layout = writer.layout(node)
    shape, _, _ = writer.layouts.meeting[node]
    others = len(shape) - len(columns)
    vectors = layout.coordinate is not None
    batch = tuple(rows[:-1] if vectors else rows)
    pieces = tuple(c for i, c in enumerate(columns) if i != place)
    key = (node.parameter.key, node.part, tuple(rows), tuple(columns), place, vectors, others > 0)
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
        writer.own(node.parameter, node.weight)
        writer.shared[key] = matrix, others
    return writer.shared[key]


# --- contractions --------------------------------------------------------------------------------


def contraction(writer: Writer, node: nodes.Contraction) -> AnyValue:
    a, b = (
        _side(writer, t, *found)
        for t, found in zip((node.a, node.b), writer.layouts.meeting[node], strict=True)
    )
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
    """One factor of a contraction: its value with axes (lead…, row…, k…), without the
    coordinate.
    """

    def __init__(
        self, value: AnyValue, shape: Sequence[int], roles: Sequence[str], axis: int | None
    ):
        self.value = value
        self.rotated: Wide | None = None  # the value with axes (lead…, rows), rotated
        self.vectors = axis is not None
        self.inside = axis is not None and roles[axis] == "k"
        kept = [(s, r) for i, (s, r) in enumerate(zip(shape, roles, strict=True)) if i != axis]
        self.sizes, self.roles = [s for s, _ in kept], [r for _, r in kept]

    def of(self, role: str) -> tuple[int, ...]:
        """The sizes of the batch axes of a role."""
        return tuple(s for s, r in zip(self.sizes, self.roles, strict=True) if r == role)

    def grouped(self) -> AnyValue:
        """The value with axes (lead…, rows, k), rows and k as one axis each."""
        lead, row, k = (len(self.of(r)) for r in ("lead", "row", "k"))
        return merged(self.value, [*(1,) * lead, row, k], self.sizes)


def _side(
    writer: Writer, tensor: Tensor, shape: Sequence[int], roles: Sequence[str], axis: int | None
) -> _Side:
    if isinstance(tensor.node, nodes.Rotation):
        return _rotated(writer, tensor, tensor.node, shape, roles, axis)
    return _Side(writer.read(tensor, shape), shape, roles, axis)


def _rotated(
    writer: Writer,
    tensor: Tensor,
    node: nodes.Rotation,
    shape: Sequence[int],
    roles: Sequence[str],
    axis: int | None,
) -> _Side:
    """The vectors before their rotation; they are rotated when their axes are in order."""
    side = _Side(writer.read(pulled(tensor, node.x), shape), shape, roles, axis)
    every = np.broadcast_to(node.positions[..., None], node.shape).reshape(-1)
    positions = every[tensor.ids.numpy().reshape(shape)].take(0, axis=axis)
    lead, row = len(side.of("lead")), len(side.of("row"))
    if len(side.of("k")):
        raise Rewrite(node, node.written_out)
    value = merged(side.value, [*(1,) * lead, row], side.sizes)
    places = positions.reshape(*side.sizes[:lead], math.prod(side.sizes[lead:]))
    for a in range(places.ndim):
        if value.shape[a] == 1 or (places == places.take([0], axis=a)).all():
            places = places.take([0], axis=a)
    side.rotated = ll.rotary(wide("what is turned", value), places, node.base)
    return side


def _scores(writer: Writer, node: nodes.Contraction, a: _Side, b: _Side) -> Scalars:
    """D^{1/2}·scale times dot products with 1/√D, summed over the pieces of k."""
    p = ll.dot(_factor(a), _factor(b))
    pieces, lead = len(a.of("k")), len(a.of("lead"))
    if pieces:
        p = p.sum(tuple(range(lead, lead + pieces)))
    D = writer.layout(node.a.node).dimension
    whole = (*a.of("lead"), *a.of("row"), *b.of("row"))
    # leading axes may be broadcast
    shape = (*(int(size) for size in p.shape[:lead]), *whole[lead:])
    return shaped(_scaled(p, node.scale * math.sqrt(D)), shape)


def _factor(side: _Side) -> Wide:
    """The vectors of one side with axes (lead…, k…, rows)."""
    if side.rotated is not None:
        return side.rotated
    lead, row, k = (len(side.of(r)) for r in ("lead", "row", "k"))
    order = (*range(lead), *range(lead + row, lead + row + k), *range(lead, lead + row))
    sizes = [side.sizes[i] for i in order]
    vectors = merged(ordered(side.value, order), [*(1,) * (lead + k), row], sizes)
    return wide("a factor of scores", vectors)


def _scaled(value: Kind, factor: float) -> Kind:
    return value if abs(factor - 1) < ONE_WITHIN else factor * value


def _mixed(node: nodes.Contraction, a: _Side, w: _Side, flipped: bool) -> Wide:
    """Numbers times vectors: a @ w, the rows of w beside its coordinate kept."""
    lead, rows, others = len(a.of("lead")), a.of("row"), w.of("row")
    numbers = a.grouped()
    vectors = merged(w.value, [*(1,) * (lead + len(others)), len(w.of("k"))], w.sizes)
    if vectors.shape[-1] != numbers.shape[-1]:
        vectors = filled(vectors, [math.prod(w.of("k"))], vectors.ndim - 1)
        numbers = filled(numbers, [math.prod(a.of("k"))], numbers.ndim - 1)
    if others:
        numbers = numbers[(*(slice(None),) * lead, *(None,) * len(others))]
    mixed = _scaled(numbers @ vectors, node.scale)  # (lead…, others…, rows)
    mixed = shaped(mixed, (*mixed.shape[: lead + len(others)], *rows))
    if flipped:
        return mixed
    end = lead + len(others)
    return ordered(mixed, [*range(lead), *range(end, end + len(rows)), *range(lead, end)])
