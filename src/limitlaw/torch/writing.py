"""A program from nodes whose coordinate axes are known: one function for each kind of node."""

import functools
import math

import jax
import numpy as np

import limitlaw as ll
from limitlaw.language.values import Scalars, Wide, scalars, wide
from limitlaw.torch import nodes
from limitlaw.torch.contracting import ONE_WITHIN, contraction, product
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import KNOWN_FUNCTIONS, affine, chain, recognised
from limitlaw.torch.nodes import Entrywise, Tensor
from limitlaw.torch.rewriting import Rewrite
from limitlaw.torch.writer import AnyValue, Writer, WritingRules, filled, merged, ordered, shaped

TINY = 1e-9  # a variance below which scales are factors: laws have a domain


def _random(writer: Writer, node: nodes.Random) -> AnyValue:
    """Initial vectors; rows of zeros, as of padding, are not random."""
    layout = writer.layout(node)
    array, axis = node.array.reshape(layout.sizes), layout.coordinate
    vectors = axis is not None
    array = array[..., None] if axis is None else np.moveaxis(array, axis, -1)
    key = (node.parameter.key, layout, node.array.tobytes())
    if key in writer.initial:
        return writer.initial[key]
    used = (array != 0).any(axis=-1).reshape(-1)
    variance = node.parameter.variance
    unit = 1.0 if variance > TINY else math.sqrt(variance)  # tiny numbers are unit·N(0, 1)
    cov = variance / unit**2 if used.all() else np.diag(variance / unit**2 * used)
    value = ll.initial(layout.batch, cov=cov, dim=writer.dim(node) if vectors else 1)
    writer.own(node.parameter, node.array)
    writer.weights[value] = array / unit
    result = value if vectors else ll.average(value)
    writer.initial[key] = result if unit == 1 else unit * result
    return writer.initial[key]


def _given(writer: Writer, node: nodes.Fixed) -> AnyValue:
    layout = writer.layout(node)
    array = node.array.reshape(layout.sizes)
    return (
        scalars(array)
        if layout.coordinate is None
        else ll.data(np.moveaxis(array, layout.coordinate, -1))
    )


def _combination(writer: Writer, node: nodes.WeightedSum) -> AnyValue:
    layout = writer.layout(node)
    leaf, f = chain(node.whole())
    if layout.coordinate is not None and leaf.node is not node and not affine(f):
        return _mapped(writer.operand(leaf, layout), f)
    total: AnyValue | None = None
    for coefficient, term in node.terms:
        value = writer.operand(term, layout)
        if abs(coefficient - 1) > ONE_WITHIN:
            value = -value if coefficient == -1 else coefficient * value
        total = value if total is None else total + value
    if total is None:
        raise ConversionError(f"{node.label}: an empty sum")
    return total + node.shift if node.shift else total


def _product(writer: Writer, node: nodes.Times) -> AnyValue:
    layout = writer.layout(node)
    leaf, f = chain(node.whole())
    if layout.coordinate is not None and leaf.node is not node:
        return _mapped(writer.operand(leaf, layout), f)
    return writer.operand(node.a, layout) * writer.operand(node.b, layout)


def _function(writer: Writer, node: nodes.Elementwise) -> AnyValue:
    layout = writer.layout(node)
    if layout.coordinate is None:
        return _of_numbers(scalars(writer.read(node.x, layout.sizes)), node)
    leaf, f = chain(node.whole())
    return _mapped(writer.operand(leaf, layout), f)


def _mapped(w: AnyValue, f: Entrywise) -> Wide:
    """φ of vectors: a nonlinearity that limitlaw knows, or `map` with the function."""
    name = recognised(f)
    return ll.map(lambda x: f(x), w) if name is None else KNOWN_FUNCTIONS[name](w)


def _of_numbers(p: Scalars, node: nodes.Elementwise) -> Scalars:
    if node.name == "rsqrt":
        return ll.rsqrt(p)
    name = recognised(node.f)
    if name in (None, "square", "gelu_tanh"):
        return p * p if name == "square" else ll.apply(node.f, p)
    return KNOWN_FUNCTIONS[name](p)


def _jointly(writer: Writer, node: nodes.EntrywiseOfSeveral) -> AnyValue:
    """A function of several tensors."""
    layout = writer.layout(node)
    values = [writer.operand(t, layout) for t in node.terms]
    if layout.coordinate is not None:
        return ll.map(node.f, *values)
    return ll.apply(node.f, *(scalars(v) for v in values))


def _log_sum_exp(writer: Writer, node: nodes.LogSumExp) -> AnyValue:
    shape, pieces = writer.layouts.meeting[node]
    p = scalars(filled(writer.read(node.x, shape), shape))
    axes = tuple(range(-pieces, 0))
    return ll.apply(functools.partial(jax.nn.logsumexp, axis=axes), p)


def _reduction(writer: Writer, node: nodes.Reduction) -> AnyValue:
    """A reduction: over coordinates an average, over batch axes a mean or a sum."""
    shape, kept, axis = writer.layouts.meeting[node]
    value = writer.read(node.x, shape)
    gone = [i for i in range(len(shape)) if i not in kept]
    count = 1
    batch = [i for i in range(len(shape)) if i != axis]
    places = tuple(batch.index(i) for i in gone if i != axis)
    value = filled(value, [shape[i] for i in batch])
    if axis in gone:
        value, count = ll.average(wide("what is averaged", value)), shape[axis]
    if places:
        value = value.mean(places) if node.mean else value.sum(places)
    return value if node.mean or count == 1 else count * value


def _softmax(writer: Writer, node: nodes.Softmax) -> AnyValue:
    layout = writer.layout(node)
    p = filled(writer.read(node.x, layout.sizes), layout.sizes)
    last = node.shape[-1]
    pieces = 0
    while math.prod(layout.sizes[len(layout.sizes) - pieces :]) < last:
        pieces += 1
    lead = len(layout.sizes) - pieces
    p = merged(p, [*(1,) * lead, pieces], layout.sizes)
    visible = None if node.visible is None else node.visible.reshape(*layout.sizes[:lead], last)
    return shaped(ll.softmax(scalars(p), visible), layout.sizes)


def _concatenation(writer: Writer, node: nodes.Concatenation) -> AnyValue:
    """A concatenation as Σ over parts of one-hot numbers @ part; numbers c beside vectors are
    c·**1**.
    """
    vectors = [t for t in node.parts if writer.layout(t.node).coordinate is not None]
    # a vector first, to which numbers add
    ordered_parts = [*vectors, *(t for t in node.parts if t not in vectors)]
    starts = np.cumsum([0, *(t.shape[node.axis] for t in node.parts)])
    begin = {id(t): int(start) for t, start in zip(node.parts, starts, strict=False)}
    terms = [_placed(writer, node, part, begin[id(part)]) for part in ordered_parts]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _placed(writer: Writer, node: nodes.Concatenation, part: Tensor, start: int) -> AnyValue:
    """One part at its places in the concatenation, and zeros elsewhere."""
    coordinate = writer.layout(node).coordinate
    axis, whole = writer.layouts.meeting[node]
    at = axis - (coordinate is not None and coordinate < axis)
    size = part.shape[node.axis]
    shape = [size if i == axis else s for i, s in enumerate(whole)]
    inside = [s for i, s in enumerate(shape) if size > 1 or i != axis]
    meeting = None if coordinate is None else coordinate - (size == 1 and coordinate > axis)
    value = writer.read(part, inside, meeting)
    if size == 1:
        value = value[(*(slice(None),) * at, None)]
    batch = [s for i, s in enumerate(shape) if i != coordinate]
    order = [*(i for i in range(len(batch)) if i != at), at]
    moved = ordered(filled(value, batch), order)
    places = np.zeros((whole[axis], size))
    places[start + np.arange(size), np.arange(size)] = 1.0
    moved = (
        places @ moved if isinstance(moved, ll.Wide) else (moved[..., None, :] * places).sum(-1)
    )
    return ordered(moved, np.argsort(order).tolist())


def _misplaced(writer: Writer, node: nodes.Masked) -> AnyValue:
    raise ConversionError(f"{node.label}: a mask is read by a softmax only")


def _written_out(writer: Writer, node: nodes.Rotation) -> AnyValue:
    raise Rewrite(node, node.written_out)


WRITING_RULES: WritingRules = {
    nodes.Random: _random,
    nodes.Fixed: _given,
    nodes.Weighed: product,
    nodes.WeightedSum: _combination,
    nodes.Times: _product,
    nodes.Elementwise: _function,
    nodes.Reduction: _reduction,
    nodes.Contraction: contraction,
    nodes.Softmax: _softmax,
    nodes.Concatenation: _concatenation,
    nodes.Masked: _misplaced,
    nodes.EntrywiseOfSeveral: _jointly,
    nodes.LogSumExp: _log_sum_exp,
    nodes.Rotation: _written_out,
}
