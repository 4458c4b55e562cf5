"""Convolution along the last batch axis (positions)."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import non_negative, one_of, positive_int
from limitlaw.nn.feedforward import with_bias
from limitlaw.program.ops import Matrix
from limitlaw.program.space import Dim, n
from limitlaw.program.values import Wide, wide

PADDINGS = ("same", "valid", "circular")


def conv1d(
    x: Wide,
    kernel_size: int = 3,
    std: Any = 1.0,
    bias_std: float = 0.0,
    padding: str = "same",
    dim: Dim | int = n,
) -> Wide:
    """y_i = Σ_j W_j x_{i+j−c} + b over a window of `kernel_size` positions: (…, s) → (…, s').

    Entries of W_j are N(0, std²/(kernel_size·cols)), fan-in scaling as in PyTorch. "same": the window is centred,
    c = ⌊(kernel_size − 1)/2⌋, zeros outside, s' = s; "circular": the same, wrapped around; "valid": only whole windows,
    c = 0, s' = s − kernel_size + 1.
    """
    x = wide("x", x)
    if not x.ndim:
        raise ValueError("x must have a last batch axis of positions, got a single vector; stack([x]) makes it one")
    size = positive_int("kernel_size", kernel_size)
    windows = _windows(int(x.shape[-1]), size, one_of("padding", padding, PADDINGS))
    W = Matrix(non_negative("std", std) / math.sqrt(size), (size, 1), rows=dim, cols=x.dim)
    return with_bias((W @ (windows @ x[..., None, :])).sum(axis=-2), bias_std)


def _windows(length: int, size: int, padding: str) -> Float[np.ndarray, "size out length"]:
    """windows[j] takes position i to the j-th entry of its window, as a matrix of zeros and ones."""
    centre = 0 if padding == "valid" else (size - 1) // 2
    outputs = length - size + 1 if padding == "valid" else length
    if outputs < 1:
        raise ValueError(f"kernel_size must be at most the {length} positions of x with padding='valid', got {size}")
    windows = np.zeros((size, outputs, length))
    for j in range(size):
        for i in range(outputs):
            source = i + j - centre
            if padding == "circular":
                source %= length
            if 0 <= source < length:
                windows[j, i, source] = 1.0
    return windows
