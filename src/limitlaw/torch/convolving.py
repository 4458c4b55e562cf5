"""Convolutions of given images: patches that one weight matrix embeds."""

from typing import Any

import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.nodes import Tensor
from limitlaw.torch.weighing import linear


def convolution(
    op: Any,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Every patch of a given image, as a vector, times the weights."""
    if not make.is_constant(x) or not isinstance(weight, Tensor) or groups != 1:
        raise ConversionError(
            "only convolutions of given images, as those of patches, have a rule; see "
            "limitlaw.conv2d"
        )
    flat = len(weight.shape) == 3
    image = x[:, :, None, :] if flat else x
    kernel = (1, weight.shape[2]) if flat else weight.shape[2:]
    steps, margins, gaps = (
        (s[-1] if isinstance(s, list) else s) if flat else s for s in (stride, padding, dilation)
    )
    if flat:
        steps, margins, gaps = (1, steps), (0, margins), (1, gaps)
    patches = torch.nn.functional.unfold(
        image, kernel, dilation=gaps, padding=margins, stride=steps
    )
    matrix = weight.moved(lambda ids: ids.reshape(weight.shape[0], -1))
    embedded = linear(op, patches.transpose(1, 2), matrix, bias)
    result = torch.nn.functional.conv2d(
        image, torch.zeros(1, *_four(weight.shape)[1:]).double(), None, steps, margins, gaps
    )
    sizes = (len(x), weight.shape[0], *result.shape[(3 if flat else 2) :])
    return embedded.moved(lambda ids: ids.transpose(1, 2).reshape(sizes))


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])
