"""Layers without memory: dense and MLP."""

from collections.abc import Callable, Sequence
from typing import Any

from limitlaw.arguments import is_traced, non_negative
from limitlaw.program.functions import initial
from limitlaw.program.named import relu
from limitlaw.program.ops import Matrix
from limitlaw.program.space import Dim, n
from limitlaw.program.values import Wide, wide


def dense(x: Wide, std: Any = 1.0, bias_std: float = 0.0, dim: Dim | int = n) -> Wide:
    """W x + b into the space `dim`: W_αβ ~ N(0, std²/cols), b_α ~ N(0, bias_std²), both shared by the whole batch."""
    x = wide("x", x)
    return with_bias(Matrix(std, rows=dim, cols=x.dim) @ x, bias_std)


def with_bias(x: Wide, bias_std: float) -> Wide:
    """x + b with one bias vector b_α ~ N(0, bias_std²) for the whole batch; none where bias_std is 0."""
    scale = non_negative("bias_std", bias_std)
    if not is_traced(scale) and not scale.any():
        return x
    return x + scale * initial(dim=x.dim)


def mlp(
    x: Wide,
    hidden: Sequence[Dim | int] = (n,),
    phi: Callable[[Wide], Wide] = relu,
    std: Any = 1.0,
    bias_std: float = 0.0,
    dim: Dim | int = n,
) -> Wide:
    """(dense, φ) for each space in `hidden`, then dense into `dim`; every layer has its own W and b."""
    for space in hidden:
        x = phi(dense(x, std, bias_std, space))
    return dense(x, std, bias_std, dim)
