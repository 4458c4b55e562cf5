"""Layers without memory: dense, MLP, and norms as they start, with scale 1 and shift 0."""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from limitlaw.arguments import integer, is_traced, non_negative_number, shown
from limitlaw.core.space import Dim, as_dim, n
from limitlaw.language import ops
from limitlaw.language.activations import activated
from limitlaw.language.functions import average, initial
from limitlaw.language.matrices import Matrix
from limitlaw.language.named import relu, rsqrt, silu
from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Value
from limitlaw.language.values import Wide, wide


def dense(x: Wide, std: object = 1.0, bias_std: float = 0.0, dim: Dim | int = n) -> Wide:
    """W x + b in the space `dim`: W_αβ ~ N(0, std²/cols), b_α ~ N(0, bias_std²), one for all x."""
    x = wide("x", x)
    return with_bias(Matrix(std, rows=dim, cols=x.dim) @ x, bias_std)


def with_bias(x: Wide, bias_std: float, shape: Shape = ()) -> Wide:
    """x + b, b_α ~ N(0, bias_std²) of batch shape `shape`, one for all x along axes of size 1;
    x itself where bias_std is 0. `ntk` takes b for parameters, b = bias_std·w over w.

    Examples:
        >>> import limitlaw as ll
        >>> x = ll.nn.with_bias(ll.Matrix() @ ll.initial((3,)), 0.5)  # one bias for three tokens
        >>> ll.kernel(x)[0, 1]
        Array(0.25, dtype=float64)
    """
    scale = non_negative_number("bias_std", bias_std)
    if not is_traced(scale) and not scale.any():
        return x
    if math.inf in shape:
        raise ValueError(
            "bias_std must be 0 for infinitely many heads, got a bias for each of them"
        )
    b = initial(shape, dim=x.dim)
    return _trained(x + scale * b, b, scale)


def _trained(w: Wide, vector: Wide, std: object = 1.0) -> Wide:
    return Wide(ops.Trained(w, vector, std), w.shape, w.dim)


def mlp(
    x: Wide,
    hidden: Dim | int | Iterable[Dim | int] = (n,),
    phi: Callable[[Any], Any] = relu,
    std: object = 1.0,
    bias_std: float = 0.0,
    dim: Dim | int = n,
) -> Wide:
    """(dense, φ) for each space in `hidden`, then dense into `dim`; every layer has its own W and
    b.

    A single space is one hidden layer. `phi` is a function of vectors, as `tanh`, or of arrays, as
    jnp.tanh.
    """
    for space in _spaces(hidden):
        x = activated(phi, dense(x, std, bias_std, space))
    return dense(x, std, bias_std, dim)


def gated_mlp(
    x: Wide,
    hidden: Dim | int = 4 * n,
    phi: Callable[[Any], Any] = silu,
    std: object = 1.0,
    bias_std: float = 0.0,
    dim: Dim | int = n,
) -> Wide:
    """W_down(φ(W_gate x) ⊙ W_up x), each with its bias: a SwiGLU for φ = `silu` (Shazeer 2020)."""
    x = wide("x", x)
    gate, up = (dense(x, std, bias_std, hidden) for _ in range(2))
    return dense(activated(phi, gate) * up, std, bias_std, dim)


def layernorm(x: Wide, eps: float = 1e-5, gain: bool = False) -> Wide:
    """c / √(average(c²) + eps) with c = x − average(x), for each vector of the batch. `gain`: with
    a gain of each coordinate, which starts as 1 and is one of the parameters of `ntk`.
    """
    x = wide("x", x)
    return rmsnorm(x - average(x), eps, gain)


def rmsnorm(x: Wide, eps: float = 1e-5, gain: bool = False) -> Wide:
    """x / √(average(x²) + eps), for each vector of the batch; `gain` is as in `layernorm`."""
    x = wide("x", x)
    z = x * rsqrt(average(x * x) + non_negative_number("eps", eps))
    return _trained(z, Wide(ops.Gain(), (), x.dim)) if gain else z


def _spaces(hidden: object) -> list[Dim]:
    """The spaces of the hidden layers."""
    if isinstance(hidden, Dim) or integer(hidden) is not None:
        return [as_dim("hidden", hidden)]
    if not isinstance(hidden, Iterable) or isinstance(hidden, str | Mapping | Set | Value):
        raise TypeError(
            "hidden must be a multiple of limitlaw.n or a positive integer, or a sequence of such "
            f"with one for each hidden layer, got {shown(hidden)}"
        )
    return [as_dim(f"hidden[{i}]", space) for i, space in enumerate(hidden)]
