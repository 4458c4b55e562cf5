"""Products with weight matrices, and attention."""

import math
from collections.abc import Sequence

import torch

from limitlaw.torch import making as make
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import FUNCTIONS
from limitlaw.torch.making import Entries, moved
from limitlaw.torch.nodes import Tensor


def linear(x: Entries, weight: Entries, bias: Entries | None = None) -> Entries:
    """The linear layer x Wᵀ + b."""
    product: Entries
    if isinstance(weight, Tensor):
        product = _weighed(x, weight)
    elif make.single(weight) == 0:
        product = torch.zeros((*x.shape[:-1], weight.shape[0]), dtype=torch.float64)
    else:
        product = make.contract(x, moved(weight, lambda t: t.t()))
    return product if bias is None else make.add(product, bias)


def matmul(a: Entries, b: Entries) -> Entries:
    """a @ b: a product with a weight matrix, or a contraction of two tensors."""
    if isinstance(b, Tensor) and isinstance(b.node, nodes.Random) and len(b.shape) == 2:
        return _weighed(a, b.moved(lambda ids: ids.t()))
    for one, other in ((a, b), (b, a)):
        if isinstance(one, torch.Tensor) and make.single(one) == 0:
            return torch.zeros(()).double().expand((*other.shape[:-2], a.shape[-2], b.shape[-1]))
    return make.contract(a, b)


def _weighed(x: Entries, weight: Tensor) -> Tensor:
    """Σ_c W_rc x_c; a table that is also read as vectors (tied logits) gives dot products."""
    if not isinstance(weight.node, nodes.Random):
        return make.contract(x, weight.moved(lambda ids: ids.t()))
    if isinstance(x, Tensor) and len(sizes := make.parts_of_last(x)) > 1:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        parts = [
            linear(make.narrowed(x, -1, i, s), make.narrowed(weight, -1, i, s))
            for i, s in zip(starts, sizes, strict=True)
        ]
        return make.combine(*((1.0, part) for part in parts))
    shape = (*x.shape[:-1], weight.shape[0])
    if weight.node.tied:
        flat = moved(x, lambda t: t.reshape(-1, x.shape[-1]))
        product = make.contract(flat, weight.moved(lambda ids: ids.t()))
        return product.moved(lambda ids: ids.reshape(shape))
    if isinstance(x, torch.Tensor):  # coordinates are never broadcast
        x = nodes.Fixed(tuple(x.shape), x.detach().double().numpy().copy()).whole()
    array = weight.node.array.reshape(-1)[weight.ids.numpy()]
    whole = torch.equal(weight.ids.reshape(-1).sort().values, torch.arange(weight.node.array.size))
    part = "" if whole else f"[{int(weight.ids.min())}:{int(weight.ids.max()) + 1}]"
    return nodes.Weighed(shape, x, weight.node.parameter, array, part).whole()


def attention(
    q: Entries,
    k: Entries,
    v: Entries,
    attn_mask: Entries | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The rule of scaled_dot_product_attention; grouped queries read each key and value several
    times.
    """
    if dropout_p:
        raise ConversionError("dropout in train mode draws at random: call it with dropout_p=0")
    if enable_gqa:
        times = q.shape[-3] // k.shape[-3]
        k, v = (moved(t, lambda x: x.repeat_interleave(times, dim=-3)) for t in (k, v))
    return make.contract(make.attention_weights(q, k, attn_mask, is_causal, scale), v)


def gru_cell(
    x: Entries,
    state: Entries,
    w_x: Entries,
    w_state: Entries,
    b_x: Entries | None = None,
    b_state: Entries | None = None,
) -> Entries:
    """One step of a gated recurrent unit: (1 − z) tanh(n_x + r n_h) + z h."""
    of_x, of_state = linear(x, w_x, b_x), linear(state, w_state, b_state)
    n = state.shape[-1]
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (
        [make.narrowed(y, -1, i * n, n) for i in range(3)] for y in (of_x, of_state)
    )

    def gate(a: Entries, b: Entries) -> Tensor:
        return make.function("sigmoid", FUNCTIONS["sigmoid"], make.combine((1, a), (1, b)))

    r, z = gate(r_x, r_h), gate(z_x, z_h)
    inner = make.combine((1.0, n_x), (1.0, make.multiply(r, n_h)))
    new = make.function("tanh", FUNCTIONS["tanh"], inner)
    kept = make.multiply(z, make.combine((1.0, state), (-1.0, new)))
    return make.combine((1.0, new), (1.0, kept))


def einsum(equation: str, operands: Sequence[Entries], path: object = None) -> Entries:
    """The rule of einsum for two operands, with indices that are batch, kept or summed: one
    contraction.
    """
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

    def arranged(x: Entries, letters: str, rows: list[str], columns: list[str]) -> Entries:
        order = [letters.index(i) for i in (*batch, *rows, *columns)]
        flat = [math.prod(size[i] for i in group) for group in (rows, columns)]
        return moved(x, lambda t: t.permute(order).reshape(*[size[i] for i in batch], *flat))

    product = matmul(
        arranged(operands[0], a, left, summed), arranged(operands[1], b, summed, right)
    )
    letters = [*batch, *left, *right]
    sizes, order = [size[i] for i in letters], [letters.index(i) for i in output]
    return moved(product, lambda t: t.reshape(sizes).permute(order))
