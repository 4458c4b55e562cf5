"""Rules of norms: over features, groups of channels, samples that were seen before."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import FUNCTIONS
from limitlaw.torch.making import Entries, Operand, Real
from limitlaw.torch.nodes import Tensor

Dims: TypeAlias = int | Sequence[int] | None


def axes_of(dim: Dims) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else list(dim)


def layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    centred: bool = True,
) -> Entries:
    normed = make.normalised(x, list(range(-len(shape), 0)), eps, centred)
    scaled = normed if weight is None else make.multiply(normed, weight)
    return scaled if bias is None else make.add(scaled, bias)


def rms_norm(
    x: Tensor, shape: Sequence[int], weight: Operand | None = None, eps: float | None = None
) -> Entries:
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return layer_norm(x, shape, weight, None, eps, centred=False)


def vector_norm(
    x: Tensor, order: Real = 2, dim: Dims = None, keepdim: bool = False, dtype: object = None
) -> Tensor:
    """(Σ |x|^p)^{1/p} for p = 1, 2."""
    if order == 1:
        return make.reduce(make.function("abs", FUNCTIONS["abs"], x), axes_of(dim), keepdim, False)
    if order != 2:
        raise ConversionError(f"norms of order {order:g} have no rule, only those of 1 and 2")
    squares = make.reduce(make.product(x, x), axes_of(dim), keepdim, mean=False)
    return make.function("sqrt", FUNCTIONS["sqrt"], squares)


def channelwise(x: Entries, weight: Entries | None, bias: Entries | None) -> Entries:
    """weight·x + bias with numbers for every channel, the second axis of x."""
    sides = (1,) * (len(x.shape) - 2)
    if weight is not None:
        x = make.multiply(x, make.moved(weight, lambda t: t.reshape(-1, *sides)))
    if bias is not None:
        x = make.add(x, make.moved(bias, lambda t: t.reshape(-1, *sides)))
    return x


def group_norm(
    x: Tensor,
    groups: int,
    weight: Entries | None = None,
    bias: Entries | None = None,
    eps: float = 1e-5,
    *rest: object,
) -> Entries:
    """Norm over the channels of a group and all positions."""
    flat = x.moved(lambda ids: ids.reshape(len(ids), groups, -1))
    normed = make.normalised(flat, [-1], eps, True).moved(lambda ids: ids.reshape(x.shape))
    return channelwise(normed, weight, bias)


def batch_norm(
    x: Tensor,
    weight: Entries | None,
    bias: Entries | None,
    mean: Entries | None,
    variance: Entries | None,
    *settings: Any,
    eps: float | None = None,
) -> Entries:
    """Batch norm in eval mode: shift and scale by what it has kept."""
    training, _, eps = settings[:3] if len(settings) > 2 else (False, *settings)
    if training or mean is None or variance is None:
        raise ConversionError(
            "batch norm in train mode mixes the samples of a batch: use eval mode, or LayerNorm"
        )
    if isinstance(mean, Tensor) or isinstance(variance, Tensor):
        raise ConversionError("batch norm with a random mean or variance has no rule")
    centred = channelwise(x, None, -mean)
    scaled = channelwise(centred, torch.rsqrt(variance.double() + eps), None)
    return channelwise(scaled, weight, bias)


def instance_norm(
    x: Tensor,
    weight: Entries | None,
    bias: Entries | None,
    mean: Entries | None,
    variance: Entries | None,
    use_input: bool,
    momentum: float,
    eps: float,
    *rest: object,
) -> Entries:
    if not use_input:
        return batch_norm(x, weight, bias, mean, variance, False, momentum, eps)
    normed = make.normalised(x, list(range(2, len(x.shape))), eps, True)
    return channelwise(normed, weight, bias)


def variance(x: Tensor, dim: Dims = None, correction: Real = 1, keepdim: bool = False) -> Entries:
    axes = axes_of(dim)
    mean = make.reduce(x, axes, True, True)
    c = make.combine((1.0, x), (-1.0, mean))
    count = x.ids.numel() // max(1, mean.ids.numel())
    variance = make.reduce(make.product(c, c), axes, keepdim, True)
    return make.multiply(variance, count / (count - correction))
