"""Rules of what is chosen entry by entry: conditions, largest entries, slices that are written."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import FUNCTIONS
from limitlaw.torch.gridding import largest
from limitlaw.torch.making import Entries, Operand, Real
from limitlaw.torch.nodes import Tensor
from limitlaw.torch.normalising import Dims, axes_of, channelwise


def where(condition: Entries, a: Operand, b: Operand) -> Tensor:
    """torch.where with a constant condition: a mask where one side is −∞, else a sum of two
    products.
    """
    if isinstance(condition, Tensor):
        return make.combine(
            (1.0, make.multiply(condition, a)),
            (1.0, make.multiply(make.combine((-1.0, condition), (1.0, 1.0)), b)),
        )
    for x, other, seen in ((a, b, condition), (b, a, ~condition)):
        hidden = None if isinstance(other, Tensor) else make.single(other)
        if isinstance(x, Tensor) and hidden is not None and hidden < make.MASKED:
            shape = make.shape_of(condition, x)
            return make.masked(x.expanded(shape), seen.expand(shape).numpy())
    parts = [make.multiply(x, c.double()) for x, c in ((a, condition), (b, ~condition))]
    return make.combine(*((1.0, p) for p in parts))


def comparison(compare: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a comparison with a number: 1 where it holds, 0 elsewhere."""

    def rule(x: Operand, bound: Operand) -> Tensor:
        number = None if isinstance(bound, Tensor) else make.single(bound)
        if not isinstance(x, Tensor) or number is None:
            raise ConversionError("only comparisons of random values with a number have a rule")
        return make.function("step", lambda v: jnp.where(compare(v, number), 1.0, 0.0), x)

    return rule


def clamp(x: Tensor, low: Real | None = None, high: Real | None = None) -> Tensor:
    return make.function("clamp", lambda v: jnp.clip(v, low, high), x)


def extreme(sign: int) -> Callable[..., Any]:
    """The rule of maximum (sign 1) and minimum of two tensors; of scores with the least number of
    their type it is the scores.
    """

    def rule(a: Operand, b: Operand) -> Entries:
        for x, other in ((a, b), (b, a)):
            number = None if isinstance(other, Tensor) else make.single(other)
            if isinstance(x, Tensor) and number is not None:
                if sign > 0 and number < make.MASKED:
                    return x
                bounds = (number, None) if sign > 0 else (None, number)
                return clamp(x, *bounds)
        shape = make.shape_of(a, b)
        terms = [make.lifted(t).expanded(shape) for t in (a, b)]
        if sign > 0:
            return make.maximum(terms)
        found = make.maximum([make.combine((-1.0, t)) for t in terms])
        return make.combine((-1.0, found))

    return rule


def largest_over(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return largest(x, axes_of(dim), keepdim)


def largest_with_place(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return largest(x, [], False)
    if not isinstance(dim, int):
        return extreme(1)(x, dim)
    return [largest(x, [dim], keepdim), None]


def prelu(x: Tensor, weight: Entries) -> Entries:
    slope = make.single(weight) if isinstance(weight, torch.Tensor) else None
    if slope is not None:
        return make.function("leaky_relu", lambda v: jnp.where(v >= 0, v, slope * v), x)
    relu = lambda y: make.function("relu", FUNCTIONS["relu"], y)
    negative = relu(make.combine((-1.0, x)))
    return make.combine((1.0, relu(x)), (-1.0, channelwise(negative, weight, None)))


def glu(x: Tensor, dim: int = -1) -> Entries:
    def half(i: int) -> Tensor:
        return x.moved(lambda ids: ids.chunk(2, dim)[i])

    return make.multiply(half(0), make.function("sigmoid", FUNCTIONS["sigmoid"], half(1)))


def copied(x: Operand, source: Operand, *rest: object) -> Entries:
    shape = make.shape_of(x)
    return make.moved(
        source if isinstance(source, Tensor | torch.Tensor) else torch.tensor(source),
        lambda t: t.expand(shape),
    )


def with_slices(
    x: Entries,
    source: Entries,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """x with `source` in the place of some of its slices."""
    kept = torch.ones(x.shape[dim], dtype=torch.bool)
    kept[slice(start, end, step)] = False
    written, pieces = 0, []
    for i in range(len(kept)):
        one, place = (x, i) if kept[i] else (source, written)
        written += not kept[i]
        pieces.append(make.narrowed(one, dim, place, 1))
    return make.concatenate(pieces, dim)


def with_slice(x: Entries, source: Entries, dim: int, index: int) -> Tensor:
    index %= x.shape[dim]
    return with_slices(x, make.moved(source, lambda t: t.unsqueeze(dim)), dim, index, index + 1)
