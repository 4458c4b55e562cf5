"""Convolution along the last batch axes (positions), and the readouts that follow it."""

import math

import numpy as np
from jaxtyping import Bool, Int

from limitlaw.arguments import non_negative, one_of, positive_int
from limitlaw.core.space import Dim, n
from limitlaw.language.matrices import Matrix
from limitlaw.language.values import Wide, wide
from limitlaw.nn.feedforward import dense, with_bias

PADDINGS = ("same", "valid", "circular")
POOLINGS = ("average", "flatten")


def conv1d(
    x: Wide,
    kernel_size: int = 3,
    std: object = 1.0,
    bias_std: float = 0.0,
    padding: str = "same",
    dim: Dim | int = n,
    stride: int = 1,
) -> Wide:
    """y_i = Σ_j W_j x_{i+j−c} + b over a window of `kernel_size` positions: (…, s) → (…, s').

    Entries of W_j are N(0, std²/(kernel_size·cols)), fan-in scaling as in PyTorch. "same": the
    window is centred, c = ⌊(kernel_size − 1)/2⌋, zeros outside, s' = s; "circular": the same,
    wrapped around; "valid": only whole windows, c = 0, s' = s − kernel_size + 1. `stride` k keeps
    every k-th output.
    """
    x = wide("x", x)
    if not x.ndim:
        raise ValueError(
            "x must have a last batch axis of positions, got a single vector; stack([x]) makes it "
            "one"
        )
    size = positive_int("kernel_size", kernel_size)
    padding = one_of("padding", padding, PADDINGS)
    places, inside = _windows(int(x.shape[-1]), size, padding, positive_int("stride", stride))
    W = Matrix(non_negative("std", std) / math.sqrt(size), (size, 1), rows=dim, cols=x.dim)
    return with_bias((W @ _cut(x[..., places], inside)).sum(axis=-2), bias_std)


def conv2d(
    x: Wide,
    kernel_size: int | tuple[int, int] = 3,
    std: object = 1.0,
    bias_std: float = 0.0,
    padding: str = "same",
    dim: Dim | int = n,
    stride: int | tuple[int, int] = 1,
) -> Wide:
    """y_ij = Σ_kl W_kl x_{i+k−c, j+l−c'} + b over windows of two axes: (…, h, w) → (…, h', w').

    Entries of W_kl are N(0, std²/(window·cols)), window the number of positions in it;
    the rest is as in `conv1d`.
    """
    x = wide("x", x)
    if x.ndim < 2:
        raise ValueError(
            f"x must have two last batch axes of positions, got batch shape {x.shape}"
        )
    sizes, strides = _pair("kernel_size", kernel_size), _pair("stride", stride)
    padding = one_of("padding", padding, PADDINGS)
    (rows, above), (columns, beside) = (
        _windows(int(x.shape[a - 2]), size, padding, step)
        for a, (size, step) in enumerate(zip(sizes, strides, strict=True))
    )
    windows = x[..., rows[:, None, :, None], columns[None, :, None, :]]  # (…, k, l, h', w')
    inside = above[:, None, :, None] & beside[None, :, None, :]
    W = Matrix(
        non_negative("std", std) / math.sqrt(math.prod(sizes)),
        (*sizes, 1, 1),
        rows=dim,
        cols=x.dim,
    )
    return with_bias((W @ _cut(windows, inside)).sum(axis=(-4, -3)), bias_std)


def readout(
    x: Wide,
    axes: int = 1,
    pooling: str = "average",
    std: object = 1.0,
    bias_std: float = 0.0,
    dim: Dim | int = n,
) -> Wide:
    """A dense layer that ends a convolutional network, over the last `axes` batch axes of
    positions: (…, s) → (…).

    "average": W m + b of the mean m over positions (global average pooling). "flatten": Σ_p W_p
    x_p + b of all positions side by side, with W_p ~ N(0, std²/(positions·cols)).
    """
    x = wide("x", x)
    if positive_int("axes", axes) > x.ndim:
        raise ValueError(f"axes must be at most the {x.ndim} batch axes of x, got {axes}")
    last = tuple(range(-axes, 0))
    if one_of("pooling", pooling, POOLINGS) == "average":
        return dense(x.mean(axis=last), std, bias_std, dim)
    shape = tuple(int(size) for size in x.shape[-axes:])
    W = Matrix(non_negative("std", std) / math.sqrt(math.prod(shape)), shape, rows=dim, cols=x.dim)
    return with_bias((W @ x).sum(axis=last), bias_std)


def _pair(name: str, value: object) -> tuple[int, int]:
    first, second = (
        value if isinstance(value, tuple | list) and len(value) == 2 else (value, value)
    )
    return positive_int(name, first), positive_int(name, second)


def _cut(windows: Wide, inside: Bool[np.ndarray, "..."]) -> Wide:
    """The windows, with zeros where they reach beyond the borders."""
    return windows if inside.all() else windows * inside.astype(float)


def _windows(
    length: int, size: int, padding: str, stride: int
) -> tuple[Int[np.ndarray, "size out"], Bool[np.ndarray, "size out"]]:
    """The place of the j-th entry of the window of position i, and whether it is inside."""
    centre = 0 if padding == "valid" else (size - 1) // 2
    outputs = length - size + 1 if padding == "valid" else length
    if outputs < 1:
        raise ValueError(
            f"kernel_size must be at most the {length} positions of x with padding='valid', got "
            f"{size}"
        )
    places = np.arange(size)[:, None] + np.arange(0, outputs, stride) - centre
    if padding == "circular":
        places %= length
    return places.clip(0, length - 1), (places >= 0) & (places < length)
