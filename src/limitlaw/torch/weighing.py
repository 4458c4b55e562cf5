"""Products with weight matrices, and attention."""

from typing import Any

import torch

from limitlaw.torch import making as make
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.nodes import Tensor


def linear(op: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b."""
    product: Any
    if isinstance(weight, Tensor):
        product = _weighed(x, weight)
    elif make.single(weight) == 0:
        product = torch.zeros((*x.shape[:-1], weight.shape[0]), dtype=torch.float64)
    else:
        raise ConversionError(
            "a weight matrix of given numbers that are not all zero has no rule; initialise it"
        )
    if bias is None:
        return product
    if make.is_constant(product) and make.is_constant(bias):
        return product + bias
    return make.combine((1.0, product), (1.0, bias))


def matmul(op: Any, a: Any, b: Any) -> Any:
    """a @ b: a product with a weight matrix, or a contraction of two tensors."""
    if isinstance(b, Tensor) and isinstance(b.node, nodes.Random) and len(b.shape) == 2:
        return _weighed(a, b.moved(lambda ids: ids.t()))
    for one, other in ((a, b), (b, a)):
        if make.is_constant(one) and make.single(one) == 0:
            return torch.zeros(()).double().expand((*other.shape[:-2], a.shape[-2], b.shape[-1]))
    return make.contract(a, b)


def _weighed(x: Any, weight: Tensor) -> Tensor:
    """Σ_c W_rc x_c; a table that is read as vectors,
    too (tied logits), meets x in dot products.
    """
    if not isinstance(weight.node, nodes.Random):
        return make.contract(x, weight.moved(lambda ids: ids.t()))
    if weight.node.tied:
        flat = x.moved(lambda ids: ids.reshape(-1, x.shape[-1]))
        product = make.contract(flat, weight.moved(lambda ids: ids.t()))
        shape = (*x.shape[:-1], weight.shape[0])
        return product.moved(lambda ids: ids.reshape(shape))
    vectors = make.given(x) if make.is_constant(x) else x
    if make.is_constant(x):  # coordinates are never broadcast
        vectors = nodes.Given(tuple(x.shape), x.detach().double().numpy().copy()).whole()
    array = weight.node.array.reshape(-1)[weight.ids.numpy()]
    whole = _every(weight.ids, weight.node.array.size)
    part = "" if whole else f"[{int(weight.ids.min())}:{int(weight.ids.max()) + 1}]"
    shape = (*vectors.shape[:-1], weight.shape[0])
    return nodes.Linear(shape, vectors, weight.node.parameter, array, part).whole()


def _every(ids: torch.Tensor, count: int) -> bool:
    """Is every number below `count` among the ids, once?"""
    if ids.numel() != count:
        return False
    seen = torch.zeros(count, dtype=torch.bool)
    seen[ids.reshape(-1)] = True
    return bool(seen.all())


def attention(
    op: Any,
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """scaled_dot_product_attention; grouped queries read each key and value several times."""
    if dropout_p:
        raise ConversionError("dropout in train mode draws at random: call it with dropout_p=0")
    if enable_gqa:
        k, v = (_repeated(t, q.shape[-3] // t.shape[-3]) for t in (k, v))
    return make.contract(make.attention_weights(q, k, attn_mask, is_causal, scale), v)


def _repeated(t: Any, times: int) -> Any:
    if make.is_constant(t):
        return t.repeat_interleave(times, dim=-3)
    return t.moved(lambda ids: ids.repeat_interleave(times, dim=-3))


def einsum(op: Any, equation: str, operands: Any, path: Any = None) -> Any:
    """Two operands, indices that are batch, kept or summed: one contraction."""
    inputs, output = equation.replace(" ", "").split("->")
    a, b = inputs.split(",")
    batch = [i for i in a if i in b and i in output]
    summed = [i for i in a if i in b and i not in output]
    left, right = ([i for i in one if i not in other] for one, other in ((a, b), (b, a)))
    size = dict(zip(a + b, (*operands[0].shape, *operands[1].shape), strict=True))
    if any(i not in output for i in (*left, *right)):
        raise ConversionError(
            f"einsum {equation!r} sums over an index of one operand: sum it before"
        )

    def arranged(x: object, letters: str, groups: list[list[str]]) -> Any:
        order = [letters.index(i) for g in groups for i in g]
        shape = [_product(size[i] for i in g) for g in groups]
        return _moved(x, lambda t: t.permute(order).reshape(*[size[i] for i in batch], *shape[1:]))

    product = matmul(
        op,
        arranged(operands[0], a, [batch, left, summed]),
        arranged(operands[1], b, [batch, summed, right]),
    )
    letters = [*batch, *left, *right]
    return _moved(
        product,
        lambda t: t.reshape([size[i] for i in letters]).permute(
            [letters.index(i) for i in output]
        ),
    )


def _product(numbers: Any) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def _moved(x: Any, function: Any) -> Any:
    return function(x) if make.is_constant(x) else x.moved(function)
