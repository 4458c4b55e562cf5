"""Nodes from tensors and constants: sums, products, contractions, norms, masks.

A rule of the table (`rules`) is written with these. An operand is a `Tensor` of the program, or a
constant: a torch tensor or a number, which depends on no random parameter.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import power
from limitlaw.torch.nodes import Tensor, at, pulled

MASKED = -1e9  # constants below stand for −∞

Operand = Any  # Tensor | torch.Tensor | float


def is_constant(value: Operand) -> bool:
    """Is this a constant?"""
    return not isinstance(value, Tensor)


def given(array: torch.Tensor) -> Tensor:
    """Constants as a tensor: axes along which they do not differ are broadcast."""
    numbers = array.detach().double()
    kept = numbers
    for axis in range(numbers.ndim):
        first = kept.narrow(axis, 0, 1)
        if torch.equal(first.expand(kept.shape), kept):
            kept = first
    node = nodes.Given(tuple(kept.shape), kept.numpy().copy())
    return node.whole().expanded(numbers.shape)


def single(value: Operand) -> float | None:
    """The number that a constant is everywhere, None where it differs."""
    if isinstance(value, torch.Tensor):
        flat = value.reshape(-1)
        return float(flat[0]) if len(flat) and bool((flat == flat[0]).all()) else None
    return float(value)


def shape_of(*operands: Operand) -> tuple[int, ...]:
    """The common shape."""
    return tuple(
        torch.broadcast_shapes(*(tuple(x.shape) for x in operands if hasattr(x, "shape")))
    )


def combine(*terms: tuple[float, Operand]) -> Tensor:
    """Σ coefficient·term with broadcasting; at least one term is no constant."""
    shape = shape_of(*(t for _, t in terms))
    shift, kept, visible = 0.0, [], None
    for coefficient, term in terms:
        if is_constant(term):
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
    return masked(nodes.Combination(shape, tuple(kept), shift).whole(), visible)


def _both(visible: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    return other if visible is None else visible & other


def _mask_and_bias(term: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Constants that are added to scores: where they are not −∞, and what they are there."""
    seen = term > MASKED
    rest = torch.where(seen, term, torch.zeros(()).double())
    return (None if bool(seen.all()) else seen), (rest if bool(rest.any()) else None)


def masked(x: Tensor, visible: np.ndarray | None) -> Tensor:
    """x where visible, −∞ elsewhere."""
    if visible is None or visible.all():
        return x
    return nodes.Masked(x.shape, x, np.broadcast_to(visible, x.shape)).whole()


def multiply(a: Operand, b: Operand) -> Operand:
    """a·b with broadcasting."""
    if is_constant(a):
        a, b = b, a
    shape = shape_of(a, b)
    if not is_constant(b):
        return nodes.Product(shape, a.expanded(shape), b.expanded(shape)).whole()
    number = single(b)
    if number is None:
        return nodes.Product(
            shape, a.expanded(shape), given(torch.as_tensor(b)).expanded(shape)
        ).whole()
    return scale(a.expanded(shape), number)


def scale(a: Tensor, number: float) -> Operand:
    """number·a; the scale of scores is theirs."""
    if number == 0:
        return torch.zeros(a.shape, dtype=torch.float64)
    if number == 1:
        return a
    node = a.node
    if isinstance(node, nodes.Contraction):
        return at(nodes.Contraction(node.shape, node.a, node.b, node.scale * number), a.ids)
    if isinstance(node, nodes.Rotation):
        return at(
            nodes.Rotation(node.shape, scale(node.x, number), node.positions, node.base), a.ids
        )
    return nodes.Combination(a.shape, ((number, a),)).whole()


def function(name: str, f: Callable[[Any], Any], x: Tensor) -> Tensor:
    """f(x), entry by entry."""
    return nodes.Function(x.shape, x, name, f).whole()


def raised(x: Tensor, exponent: float) -> Tensor:
    """x to a given power."""
    if exponent == 1:
        return x
    if exponent == -0.5:
        return rsqrt(x)
    return function(f"power({exponent:g})", lambda v: power(v, exponent), x)


def rsqrt(x: Tensor) -> Tensor:
    """x^{-1/2}."""
    from jax import lax

    return function("rsqrt", lax.rsqrt, x)


def reduce(x: Tensor, axes: Sequence[int], keep: bool, mean: bool) -> Tensor:
    """The mean or the sum over axes."""
    rank = len(x.shape)
    gone = tuple(sorted({a % rank for a in axes} if axes else range(rank)))
    shape = tuple(s for a, s in enumerate(x.shape) if a not in gone)
    result = nodes.Reduction(shape, x, gone, mean).whole()
    kept = tuple(1 if a in gone else s for a, s in enumerate(x.shape))
    return result.moved(lambda ids: ids.reshape(kept)) if keep else result


def contract(a: Operand, b: Operand, factor: float = 1.0) -> Operand:
    """factor·a @ b for (…, i, k) and (…, k, j), as torch.matmul."""
    sides = [given(torch.as_tensor(x)) if is_constant(x) else x for x in (a, b)]
    left, right = sides
    flat = (len(left.shape) == 1, len(right.shape) == 1)
    left = left.moved(lambda ids: ids[None]) if flat[0] else left
    right = right.moved(lambda ids: ids[:, None]) if flat[1] else right
    lead = tuple(torch.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
    left = left.expanded((*lead, *left.shape[-2:]))
    right = right.expanded((*lead, *right.shape[-2:])).moved(lambda ids: ids.transpose(-1, -2))
    result = _product(left, right, factor)
    result = result.moved(lambda ids: ids[..., 0]) if flat[1] else result
    return (
        result.moved(lambda ids: ids[..., 0, :] if not flat[1] else ids[..., 0])
        if flat[0]
        else result
    )


def _product(a: Tensor, b: Tensor, factor: float) -> Tensor:
    """The contraction over the last axes, of concatenated ones part by part."""
    (a, of_a), (b, of_b) = _unscaled(a), _unscaled(b)
    factor *= of_a * of_b
    pieces = _parts(a), _parts(b)
    shape = (*a.shape[:-1], b.shape[-2])
    if pieces == ([a.shape[-1]],) * 2 or pieces[0] != pieces[1]:
        return nodes.Contraction(shape, a, b, factor).whole()
    terms, start = [], 0
    for size in pieces[0]:
        one, two = (at(t.node, t.ids[..., start : start + size]) for t in (a, b))
        terms.append((1.0, _product(one, two, factor)))
        start += size
    return combine(*terms)


def _unscaled(x: Tensor) -> tuple[Tensor, float]:
    """Without a constant factor."""
    node = x.node
    if isinstance(node, nodes.Combination) and len(node.terms) == 1 and not node.shift:
        ((coefficient, term),) = node.terms
        return pulled(x, term), coefficient
    return x, 1.0


def _parts(x: Tensor) -> list[int]:
    """The sizes of the parts that are side by side along the last axis."""
    node = x.node
    if not isinstance(node, nodes.Concatenation):
        return [x.shape[-1]]
    along = torch.unravel_index(x.ids, node.shape)[node.axis].reshape(-1, x.shape[-1])
    if not torch.equal(along, torch.arange(node.shape[node.axis]).expand(along.shape)):
        return [x.shape[-1]]
    return [part.shape[node.axis] for part in node.parts]


def softmax(x: Tensor, axis: int) -> Tensor:
    """Weights along an axis; what a mask hides has weight 0."""
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
    q: Operand, k: Operand, mask: Operand | None, causal: bool, factor: float | None
) -> Tensor:
    """softmax(q kᵀ·factor + mask), as scaled_dot_product_attention defines it."""
    factor = 1 / math.sqrt(q.shape[-1]) if factor is None else factor
    transposed = (
        k.transpose(-1, -2) if is_constant(k) else k.moved(lambda ids: ids.transpose(-1, -2))
    )
    scores = contract(q, transposed, factor)
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
    squares = nodes.Product(c.shape, c, c).whole()
    return multiply(c, rsqrt(combine((1.0, reduce(squares, axes, True, True)), (1.0, eps))))
