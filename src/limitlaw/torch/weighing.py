"""Products with weight matrices, attention, and convolutions of constant images."""

import math
from collections.abc import Sequence

import torch

from limitlaw.torch import making as make
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
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
        raise ConversionError(
            "a weight matrix of given numbers that are not all zero has no rule; initialise it"
        )
    if bias is None:
        return product
    if isinstance(product, torch.Tensor) and isinstance(bias, torch.Tensor):
        return product + bias
    return make.combine((1.0, product), (1.0, bias))


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


# --- convolutions of given images: patches that one weight matrix embeds -------------------------


def convolution(
    x: Entries,
    weight: Entries,
    bias: Entries | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Entries:
    """A convolution of a constant image: every patch, as a vector, times the weights."""
    if isinstance(x, Tensor) or not isinstance(weight, Tensor) or groups != 1:
        raise ConversionError(
            "only convolutions of given images, as those of patches, have a rule; see "
            "limitlaw.conv2d"
        )
    flat = len(weight.shape) == 3  # a sequence is an image of one row
    image = x[:, :, None, :] if flat else x
    rows, channels, *sides = weight.shape
    kernel = (1, *sides) if flat else tuple(sides)
    steps, margins, gaps = (
        (own, given[-1]) if flat else (given[0], given[-1])
        for own, given in ((1, _sides(stride)), (0, _sides(padding)), (1, _sides(dilation)))
    )
    patches = torch.nn.functional.unfold(
        image, kernel, dilation=gaps, padding=margins, stride=steps
    )
    matrix = weight.moved(lambda ids: ids.reshape(rows, -1))
    embedded = linear(patches.transpose(1, 2), matrix, bias)
    no_weights = torch.zeros(1, channels, *kernel).double()
    result = torch.nn.functional.conv2d(image, no_weights, None, steps, margins, gaps)
    sizes = (len(x), rows, *result.shape[(3 if flat else 2) :])
    return moved(embedded, lambda t: t.transpose(1, 2).reshape(sizes))


def _sides(sizes: int | Sequence[int]) -> Sequence[int]:
    return [sizes] if isinstance(sizes, int) else sizes
