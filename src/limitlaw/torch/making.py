"""Nodes from tensors and constants: sums, products, contractions, norms, masks.

A rule of the table (`rules`) is written with these. An operand is a `Tensor` of the program, or a
constant: a torch tensor or a number, which depends on no random parameter.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import power
from limitlaw.torch.nodes import Entrywise, Tensor, at, pulled

MASKED = -1e9  # constants below stand for −∞

Real: TypeAlias = float | int
Entries: TypeAlias = Tensor | torch.Tensor  # random entries, or constants
Operand: TypeAlias = Entries | Real


def moved(x: Entries, function: Callable[[torch.Tensor], torch.Tensor]) -> Entries:
    """The same entries, moved as `function` moves those of a torch tensor."""
    return x.moved(function) if isinstance(x, Tensor) else function(x)


def narrowed(x: Entries, dim: int, start: int, size: int) -> Entries:
    """The entries start, …, start + size − 1 along an axis."""
    return moved(x, lambda t: t.narrow(dim, start, size))


def lifted(x: Operand) -> Tensor:
    """An operand as a tensor of the program: a tensor as it is, constants as a node."""
    return x if isinstance(x, Tensor) else given(torch.as_tensor(x))


def given(array: torch.Tensor) -> Tensor:
    """Constants as a tensor of the program; axes along which they do not differ are broadcast."""
    numbers = array.detach().double()
    kept = numbers
    for axis in range(numbers.ndim):
        first = kept.narrow(axis, 0, 1)
        if torch.equal(first.expand(kept.shape), kept):
            kept = first
    node = nodes.Fixed(tuple(kept.shape), kept.numpy().copy())
    return node.whole().expanded(numbers.shape)


def single(value: torch.Tensor | Real) -> float | None:
    """The number that a constant is at every entry; None where its entries differ."""
    if isinstance(value, torch.Tensor):
        flat = value.reshape(-1)
        return float(flat[0]) if len(flat) and bool((flat == flat[0]).all()) else None
    return float(value)


def shape_of(*operands: Operand) -> tuple[int, ...]:
    """The shape to which these operands are broadcast."""
    shapes = [tuple(x.shape) for x in operands if isinstance(x, Tensor | torch.Tensor)]
    return tuple(torch.broadcast_shapes(*shapes))


def combine(*terms: tuple[float, Operand]) -> Tensor:
    """Σ coefficient·term with broadcasting; at least one term is no constant."""
    shape = shape_of(*(t for _, t in terms))
    shift, visible = 0.0, None
    kept: list[tuple[float, Tensor]] = []
    for coefficient, term in terms:
        if not isinstance(term, Tensor):
            number = single(term)
            if number is not None and coefficient * number > MASKED:
                shift += coefficient * number
                continue
            seen, rest = _mask_and_bias(coefficient * torch.as_tensor(term, dtype=torch.float64))
            if seen is not None:
                visible = _both(visible, seen.expand(shape).numpy())
            if rest is not None:
                kept.append((1.0, given(rest).expanded(shape)))
            continue
        tensor = term.expanded(shape)
        if isinstance(tensor.node, nodes.Masked) and coefficient > 0:
            visible = _both(visible, tensor.node.visible.reshape(-1)[tensor.ids.numpy()])
            tensor = pulled(tensor, tensor.node.x)
        kept.append((coefficient, tensor))
    if len(kept) == 1 and kept[0][0] == 1.0 and not shift:
        return masked(kept[0][1], visible)
    return masked(nodes.WeightedSum(shape, tuple(kept), shift).whole(), visible)


def _both(visible: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    return other if visible is None else visible & other


def _mask_and_bias(term: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Constants that are added to scores: where they are not −∞, and their values there; None for
    no mask, and for no bias.
    """
    seen = term > MASKED
    rest = torch.where(seen, term, torch.zeros(()).double())
    return (None if bool(seen.all()) else seen), (rest if bool(rest.any()) else None)


def masked(x: Tensor, visible: np.ndarray | None) -> Tensor:
    """x where visible, −∞ elsewhere."""
    if visible is None or visible.all():
        return x
    visible = np.broadcast_to(visible, x.shape)
    if isinstance(x.node, nodes.Masked):
        visible = visible & x.node.visible.reshape(-1)[x.ids.numpy()]
        x = pulled(x, x.node.x)
    return nodes.Masked(x.shape, x, visible).whole()


def multiply(a: Operand, b: Operand) -> Entries:
    """The product a·b with broadcasting."""
    if not isinstance(a, Tensor):
        if not isinstance(b, Tensor):
            return torch.as_tensor(a) * b
        a, b = b, a
    number = None if isinstance(b, Tensor) else single(b)
    if number is None:
        return product(a, lifted(b))
    shape = shape_of(a, b)
    if number == 0:
        return torch.zeros(shape, dtype=torch.float64)
    return scale(a.expanded(shape), number)


def add(a: Operand, b: Operand) -> Entries:
    """The sum a + b with broadcasting."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return combine((1.0, a), (1.0, b))
    return torch.as_tensor(a) + b


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product a·b with broadcasting, where both are random or differ from entry to entry."""
    shape = shape_of(a, b)
    return nodes.Times(shape, a.expanded(shape), b.expanded(shape)).whole()


def scale(a: Tensor, number: float) -> Tensor:
    """number·a; a factor of scores becomes part of their scale."""
    if number == 1:
        return a
    node = a.node
    if isinstance(node, nodes.Contraction):
        return at(nodes.Contraction(node.shape, node.a, node.b, node.scale * number), a.ids)
    if isinstance(node, nodes.Rotation):
        turned = dataclasses.replace(
            node, x=scale(node.x, number), written_out=scale(node.written_out, number)
        )
        return at(turned, a.ids)
    if isinstance(node, nodes.Masked) and number > 0:
        return masked(scale(pulled(a, node.x), number), node.visible.reshape(-1)[a.ids.numpy()])
    return nodes.WeightedSum(a.shape, ((number, a),)).whole()


def function(name: str, f: Entrywise, x: Tensor) -> Tensor:
    """f(x), entry by entry."""
    return nodes.Elementwise(x.shape, x, name, f).whole()


MOST_TOGETHER = 16  # terms of one maximum


def _largest(*values: jax.Array) -> jax.Array:
    """The largest of several numbers."""
    return functools.reduce(jnp.maximum, values)


def maximum(terms: Sequence[Tensor]) -> Tensor:
    """The largest of several tensors of one shape, entry by entry."""
    found = list(terms)
    while len(found) > 1:
        groups = [found[i : i + MOST_TOGETHER] for i in range(0, len(found), MOST_TOGETHER)]
        found = [
            nodes.EntrywiseOfSeveral(g[0].shape, tuple(g), "maximum", _largest).whole()
            if len(g) > 1
            else g[0]
            for g in groups
        ]
    return found[0]


def raised(x: Tensor, exponent: float) -> Tensor:
    """x to a constant power."""
    if exponent == 1:
        return x
    if exponent == -0.5:
        return rsqrt(x)
    return function(f"power({exponent:g})", lambda v: power(v, exponent), x)


def rsqrt(x: Tensor) -> Tensor:
    """The inverse square root x^{-1/2}, entry by entry."""
    return function("rsqrt", lax.rsqrt, x)


def reduce(x: Tensor, axes: Sequence[int], keep: bool, mean: bool) -> Tensor:
    """The mean or the sum over axes."""
    rank = len(x.shape)
    gone = tuple(sorted({a % rank for a in axes} if axes else range(rank)))
    shape = tuple(s for a, s in enumerate(x.shape) if a not in gone)
    result = nodes.Reduction(shape, x, gone, mean).whole()
    kept = tuple(1 if a in gone else s for a, s in enumerate(x.shape))
    return result.moved(lambda ids: ids.reshape(kept)) if keep else result


def contract(a: Entries, b: Entries, factor: float = 1.0) -> Tensor:
    """factor·a @ b for (…, i, k) and (…, k, j), as torch.matmul."""
    left, right = lifted(a), lifted(b)
    flat = (len(left.shape) == 1, len(right.shape) == 1)
    left = left.moved(lambda ids: ids[None]) if flat[0] else left
    right = right.moved(lambda ids: ids[:, None]) if flat[1] else right
    lead = tuple(torch.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
    left = left.expanded((*lead, *left.shape[-2:]))
    right = right.expanded((*lead, *right.shape[-2:])).moved(lambda ids: ids.transpose(-1, -2))
    rows, columns = (0 if one else slice(None) for one in flat)
    return _contraction(left, right, factor).moved(lambda ids: ids[..., rows, columns])


def _contraction(a: Tensor, b: Tensor, factor: float) -> Tensor:
    """The contraction over the last axes; concatenated tensors are contracted part by part."""
    (a, of_a), (b, of_b) = _unscaled(a), _unscaled(b)
    factor *= of_a * of_b
    pieces = parts_of_last(a), parts_of_last(b)
    shape = (*a.shape[:-1], b.shape[-2])
    if pieces == ([a.shape[-1]],) * 2 or pieces[0] != pieces[1]:
        return nodes.Contraction(shape, a, b, factor).whole()
    terms, start = [], 0
    for size in pieces[0]:
        one, two = (at(t.node, t.ids[..., start : start + size]) for t in (a, b))
        terms.append((1.0, _contraction(one, two, factor)))
        start += size
    return combine(*terms)


def _unscaled(x: Tensor) -> tuple[Tensor, float]:
    """A tensor without its constant factor, and the factor."""
    node = x.node
    if isinstance(node, nodes.WeightedSum) and len(node.terms) == 1 and not node.shift:
        ((coefficient, term),) = node.terms
        return pulled(x, term), coefficient
    return x, 1.0


def parts_of_last(x: Tensor) -> list[int]:
    """The sizes of the parts that are concatenated along the last axis."""
    node = x.node
    if not isinstance(node, nodes.Concatenation):
        return [x.shape[-1]]
    if x.shape[-1] != node.shape[node.axis]:
        return [x.shape[-1]]
    along = torch.unravel_index(x.ids, node.shape)[node.axis].reshape(-1, x.shape[-1])
    if not torch.equal(along, torch.arange(node.shape[node.axis]).expand(along.shape)):
        return [x.shape[-1]]
    return [part.shape[node.axis] for part in node.parts]


def softmax(x: Tensor, axis: int) -> Tensor:
    """The weights of a softmax along an axis; entries that a mask hides have weight 0."""
    x = x.moved(lambda ids: ids.movedim(axis, -1))
    visible = None
    if isinstance(x.node, nodes.Masked):
        visible = x.node.visible.reshape(-1)[x.ids.numpy()]
        x = pulled(x, x.node.x)
        if not visible.any(axis=-1).all():
            raise ConversionError(
                "a row of scores is masked everywhere: its weights are no softmax; pad on the "
                "right"
            )
    return nodes.Softmax(x.shape, x, visible).whole().moved(lambda ids: ids.movedim(-1, axis))


def attention_weights(
    q: Entries, k: Entries, mask: Entries | None, causal: bool, factor: float | None
) -> Tensor:
    """softmax(q kᵀ·factor + mask), as scaled_dot_product_attention defines it."""
    factor = 1 / math.sqrt(q.shape[-1]) if factor is None else factor
    scores = contract(q, moved(k, lambda t: t.transpose(-1, -2)), factor)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
        scores = masked(scores, mask.expand(scores.shape).numpy())
    elif mask is not None:
        scores = combine((1.0, scores), (1.0, mask))
    return softmax(scores, -1)


def normalised(x: Tensor, axes: Sequence[int], eps: float, centred: bool) -> Tensor:
    """c / √(mean(c²) + eps), with c = x − mean(x) where `centred`."""
    c = combine((1.0, x), (-1.0, reduce(x, axes, True, True))) if centred else x
    squares = reduce(product(c, c), axes, True, True)
    return product(c, rsqrt(combine((1.0, squares), (1.0, eps))))


def log_sum_exp(x: Tensor, axis: int) -> Tensor:
    """ln Σ exp(x) along an axis."""
    x = x.moved(lambda ids: ids.movedim(axis, -1))
    return nodes.LogSumExp(x.shape[:-1], x).whole()


def log_softmax(x: Tensor, axis: int) -> Tensor:
    """x − ln Σ exp(x) along an axis."""
    return combine((1.0, x), (-1.0, log_sum_exp(x, axis).moved(lambda ids: ids.unsqueeze(axis))))


# --- side by side --------------------------------------------------------------------------------


def concatenate(tensors: Sequence[Entries], dim: int = 0) -> Tensor:
    """torch.cat: entries of one node stay entries of it, others become a concatenation."""
    parts = [lifted(t) for t in tensors if 0 not in t.shape]
    if len(parts) == 1:
        return parts[0]
    if all(p.node is parts[0].node for p in parts):
        return parts[0].moved(lambda _: torch.cat([p.ids for p in parts], dim))
    axis = dim % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return nodes.Concatenation(tuple(shape), tuple(parts), axis).whole()


def stacked(tensors: Sequence[Entries], dim: int = 0) -> Tensor:
    """The tensors side by side along a new axis, as torch.stack."""
    parts = [moved(t, lambda x: x.unsqueeze(dim)) for t in tensors]
    return concatenate(parts, dim % len(parts[0].shape))
