"""Operations on grids of positions: padding, convolution, pooling, resampling."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.making import Entries, Real, moved
from limitlaw.torch.nodes import Tensor
from limitlaw.torch.weighing import linear

Sizes: TypeAlias = int | Sequence[int]
LARGEST_MATRIX = 1 << 22  # entries of the matrix of a linear operation over positions


def _each(sizes: Sizes, rank: int) -> list[int]:
    """One number for each of `rank` axes."""
    found = [sizes] if isinstance(sizes, int) else list(sizes)
    return found * rank if len(found) == 1 else found


# --- padding -------------------------------------------------------------------------------------


def padded(
    x: Entries, margins: Sequence[int], mode: str = "constant", value: Real | None = None
) -> Entries:
    """torch.nn.functional.pad: `margins` before and after the last axis, the one before it, ….

    Entries are read where the nearest one is (or where `mode` says), and multiplied by 0 outside.
    """
    if isinstance(x, torch.Tensor):
        return torch.nn.functional.pad(x, list(margins), mode, value)
    inside = torch.ones(())
    for i in range(len(margins) // 2):
        axis, (before, after) = len(x.shape) - 1 - i, margins[2 * i : 2 * i + 2]
        places = _places(x.shape[axis], before, after, mode)
        kept = places.clamp(0, x.shape[axis] - 1)
        x = _selected(x, axis, kept)
        own = (places == kept).double()
        inside = inside * own.reshape(-1, *(1,) * i)
    result = make.multiply(x, inside.expand(x.shape))
    return make.combine((1.0, result), (value, 1 - inside)) if value else result


def _selected(x: Tensor, axis: int, places: torch.Tensor) -> Tensor:
    """The entries at these places of an axis."""
    return x.moved(lambda ids: ids.index_select(axis, places))


def _places(size: int, before: int, after: int, mode: str) -> torch.Tensor:
    """The places that a padded axis reads; those below 0 and from `size` on lie outside."""
    if mode == "constant":
        return torch.arange(-before, size + after)
    numbers = torch.arange(size).double()[None, None]
    return torch.nn.functional.pad(numbers, (before, after), mode)[0, 0].long()


def windows(
    x: Entries, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Entries:
    """Every window of the axes from the third on: (B, C, positions…, C's window…)."""

    def unfolded(t: torch.Tensor) -> torch.Tensor:
        for a, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True), 2):
            t = t.unfold(a, (k - 1) * d + 1, s)[..., ::d]
        return t

    return moved(x, unfolded)


def im2col(
    x: Tensor, kernel: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Entries:
    """torch.nn.functional.unfold: every window as a column (B, C·kernel, positions)."""
    margins = [m for size in reversed(_each(padding, 2)) for m in (size, size)]
    every = windows(padded(x, margins), _each(kernel, 2), _each(stride, 2), _each(dilation, 2))
    return moved(every, lambda t: t.permute(0, 1, 4, 5, 2, 3).flatten(1, 3).flatten(2))


# --- convolution ---------------------------------------------------------------------------------


def convolution(
    x: Entries,
    weight: Entries,
    bias: Entries | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Entries:
    """A convolution: every window of the positions, as one vector, times the weights."""
    rank = len(weight.shape) - 2
    if len(x.shape) == rank + 1:  # without an axis of samples
        alone = moved(x, lambda t: t[None])
        whole = convolution(alone, weight, bias, stride, padding, dilation, groups)
        return moved(whole, lambda t: t[0])
    kernel, steps, gaps = weight.shape[2:], _each(stride, rank), _each(dilation, rank)
    margins = _margins(padding, kernel, gaps)
    patches = windows(padded(x, margins), kernel, steps, gaps)  # (B, C, positions…, kernel…)
    patches = moved(patches, lambda t: t.movedim(1, rank + 1).flatten(rank + 2))
    weights = moved(weight, lambda t: t.flatten(2))  # (rows, C / groups, offsets)
    result = _channelwise(patches, weights) if weight.shape[1] == 1 and groups > 1 else None
    if result is None:
        result = _grouped(patches, weights, groups)
    if bias is not None:
        result = make.add(result, bias)
    return moved(result, lambda t: t.movedim(-1, 1))


def _margins(padding: Sizes | str, kernel: Sequence[int], gaps: Sequence[int]) -> list[int]:
    """Padding before and after every axis, the last one first."""
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, gaps, strict=True)]
        pairs = [(t // 2, t - t // 2) for t in total]
    else:
        sizes = [0] * len(kernel) if isinstance(padding, str) else _each(padding, len(kernel))
        pairs = [(s, s) for s in sizes]
    return [margin for pair in reversed(pairs) for margin in pair]


def _channelwise(patches: Entries, weights: Entries) -> Entries | None:
    """Σ over offsets of w_c x_c, where every channel has weights of its own; None where there
    are several for one channel.
    """
    if weights.shape[0] != patches.shape[-2]:
        return None
    product = make.multiply(patches, moved(weights, lambda t: t[:, 0]))
    if isinstance(product, torch.Tensor):
        return product.sum(-1)
    return make.reduce(product, [-1], False, mean=False)


def _grouped(patches: Entries, weights: Entries, groups: int) -> Entries:
    """W x for windows x = (offsets, channels) as one vector, group by group."""
    found = []
    rows, channels = weights.shape[0] // groups, patches.shape[-2] // groups
    for g in range(groups):
        own = make.narrowed(weights, 0, g * rows, rows)
        own = moved(own, lambda t: t.transpose(1, 2).flatten(1))
        x = make.narrowed(patches, -2, g * channels, channels)
        x = moved(x, lambda t: t.transpose(-1, -2).flatten(-2))
        if isinstance(x, torch.Tensor):
            x = x.contiguous()
        found.append(linear(x, own))
    if groups == 1:
        return found[0]
    return moved(make.stacked(found, -2), lambda t: t.flatten(-2))


# --- pooling, resampling: linear operations over positions ---------------------------------------


def over_positions(operation: Callable[..., torch.Tensor], axes: int) -> Callable[..., Entries]:
    """The rule of an operation that is linear in its argument, and that acts on its last `axes`
    axes: a product with the matrix that it makes of an identity.
    """

    def rule(x: Tensor, *settings: Any, **named: Any) -> Entries:
        shape = x.shape[len(x.shape) - axes :]
        size = math.prod(shape)
        if size * size > LARGEST_MATRIX:
            raise ConversionError(f"{size} positions are too many for a resampling with a rule")
        unit = torch.eye(size, dtype=torch.float64).reshape(size, 1, *shape)
        result = operation(unit, *settings, **named)
        matrix = result.reshape(size, -1)
        lead = x.shape[: len(x.shape) - axes]
        flat = x.moved(lambda ids: ids.reshape(*lead, size))
        mixed = make.contract(flat, matrix)
        return moved(mixed, lambda t: t.reshape(*lead, *result.shape[2:]))

    return rule


def along(operation: Callable[..., torch.Tensor]) -> Callable[..., Entries]:
    """The same for an operation f(x, axis) along one axis."""

    def rule(x: Tensor, dim: int, **named: Any) -> Entries:
        whole = over_positions(lambda unit: operation(unit, -1, **named), 1)
        return moved(
            whole(x.moved(lambda ids: ids.movedim(dim, -1))), lambda t: t.movedim(-1, dim)
        )

    return rule


def largest(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """The largest entry over axes."""
    rank = len(x.shape)
    gone = sorted({a % rank for a in axes} if axes else range(rank))
    last = x.moved(lambda ids: ids.movedim(gone, list(range(-len(gone), 0))).flatten(-len(gone)))

    def entry(i: int) -> Tensor:
        return last.moved(lambda ids: ids[..., i])

    found = make.maximum([entry(i) for i in range(last.shape[-1])])
    kept = [1 if a in gone else s for a, s in enumerate(x.shape)]
    return found.moved(lambda ids: ids.reshape(kept)) if keep else found


def largest_of_windows(
    x: Tensor,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Max pooling over the last axes, without windows that are cut off."""
    rank = 1 if len(x.shape) == 3 and not isinstance(kernel, int) and len(kernel) == 1 else 2
    sizes, gaps = _each(kernel, rank), _each(dilation, rank)
    steps = _each(stride, rank) if not isinstance(stride, int) and len(stride) else sizes
    steps = _each(stride, rank) if isinstance(stride, int) else steps
    margins = _each(padding, rank)
    if ceil_mode:
        raise ConversionError("max pooling with ceil_mode has no rule")
    # the nearest entry stands for −∞ outside: it lies in every window that reads beyond an edge
    for a, margin in enumerate(margins):
        size = x.shape[len(x.shape) - rank + a]
        if margin and gaps[a] > 1:
            raise ConversionError("max pooling with padding and dilation has no rule")
        places = torch.arange(-margin, size + margin).clamp(0, size - 1)
        x = _selected(x, len(x.shape) - rank + a, places)
    lead = x.shape[: len(x.shape) - rank]
    flat = x.moved(lambda ids: ids.reshape(1, -1, *ids.shape[len(lead) :]))
    every = windows(flat, sizes, steps, gaps)
    assert isinstance(every, Tensor)
    found = largest(every, list(range(-rank, 0)), False)
    return found.moved(lambda ids: ids.reshape(*lead, *ids.shape[2:]))
