"""One rule for each operation of ATen: from tensors and constants to a tensor.

A rule is called with the operation itself and its arguments,
of which at least one is a `Tensor` of the program.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax

from limitlaw.torch import making as make
from limitlaw.torch.convolving import convolution
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.functions import gelu_tanh
from limitlaw.torch.joining import concatenate, stacked
from limitlaw.torch.nodes import Tensor, at
from limitlaw.torch.rotations import rotation
from limitlaw.torch.weighing import attention, einsum, linear, matmul

Rule = Callable[..., Any]

MOVES = (
    "view",
    "reshape",
    "_unsafe_view",
    "view_copy",
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "expand",
    "clone",
    "contiguous",
    "t",
    "flatten",
    "unflatten",
    "repeat",
    "repeat_interleave",
    "index_select",
    "index",
    "alias",
    "detach",
    "flip",
    "roll",
    "narrow",
    "movedim",
    "swapaxes",
    "tile",
    "expand_as",
    "lift_fresh_copy",
    "diagonal",
    "tensor_split",
    "unfold",
)


def _moved(op: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Entries that only move are moved by torch itself."""
    if not isinstance(x, Tensor) or any(isinstance(a, Tensor) for a in args):
        raise ConversionError("random values cannot say where entries go")
    moved = op(x.ids.contiguous(), *args, **kwargs)
    return at(x.node, moved) if isinstance(moved, torch.Tensor) else [at(x.node, m) for m in moved]


def _same(op: object, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return x


def _add(op: object, a: object, b: object, alpha: float = 1.0) -> Any:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and alpha == 1:
        turned = rotation(a, b)
        if turned is not None:
            return turned
    return make.combine((1.0, a), (float(alpha), b))


def _sub(op: object, a: object, b: object, alpha: float = 1.0) -> Any:
    return make.combine((1.0, a), (-float(alpha), b))


def _rsub(op: object, a: object, b: object, alpha: float = 1.0) -> Any:
    return make.combine((-float(alpha), a), (1.0, b))


def _mul(op: object, a: object, b: object) -> Any:
    return make.multiply(a, b)


def _div(op: Any, a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise ConversionError(f"div with rounding_mode={rounding_mode!r} has no rule")
    if make.is_constant(b):
        return make.multiply(a, 1 / b)
    return make.multiply(make.function("reciprocal", lambda x: 1 / x, b), a)


def _neg(op: object, a: Tensor) -> Any:
    return make.combine((-1.0, a))


def _pow(op: Any, a: Any, exponent: Any) -> Any:
    if not make.is_constant(exponent) or make.is_constant(a):
        raise ConversionError("only given powers of random values have a rule")
    number = make.single(exponent)
    if number is None:
        raise ConversionError("a power that differs from entry to entry has no rule")
    return make.raised(a, number)


def _rsqrt(op: object, a: Tensor) -> Any:
    return make.rsqrt(a)


def _mean(
    op: object, x: Tensor, dim: object = None, keepdim: bool = False, dtype: object = None
) -> Any:
    return make.reduce(x, _axes(dim), keepdim, mean=True)


def _sum(
    op: object, x: Tensor, dim: object = None, keepdim: bool = False, dtype: object = None
) -> Any:
    return make.reduce(x, _axes(dim), keepdim, mean=False)


def _axes(dim: Any) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _var(
    op: object, x: Tensor, dim: object = None, correction: float = 1, keepdim: bool = False
) -> Any:
    axes = _axes(dim)
    c = make.combine((1.0, x), (-1.0, make.reduce(x, axes, True, True)))
    count = torch.empty(x.shape, device="meta").numel() // max(
        1, make.reduce(x, axes, False, True).ids.numel()
    )
    return make.multiply(
        make.reduce(make.multiply(c, c), axes, keepdim, True), count / (count - correction)
    )


def _softmax(op: object, x: Tensor, dim: int, *rest: Any, **kwargs: Any) -> Any:
    return make.softmax(x, dim)


def _where(op: Any, condition: Any, a: Any, b: Any) -> Any:
    """Given conditions: a mask where one side is −∞, a sum of two products elsewhere."""
    if not make.is_constant(condition):
        raise ConversionError("a condition on random values has no rule")
    for x, other, seen in ((a, b, condition), (b, a, ~condition)):
        if (
            make.is_constant(other)
            and (hidden := make.single(other)) is not None
            and hidden < make.MASKED
        ):
            shape = make.shape_of(condition, x)
            return make.masked(x.expanded(shape), seen.expand(shape).numpy())
    parts = [make.multiply(x, c.double()) for x, c in ((a, condition), (b, ~condition))]
    return make.combine(*((1.0, p) for p in parts))


def _masked_fill(op: object, x: object, mask: object, value: object) -> Any:
    return _where(op, mask, value, x)


def _layer_norm(
    op: Any,
    x: Tensor,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    axes = list(range(-len(shape), 0))
    return _affine(make.normalised(x, axes, eps, centred=True), weight, bias)


def _rms_norm(op: Any, x: Tensor, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return _affine(
        make.normalised(x, list(range(-len(shape), 0)), eps, centred=False), weight, None
    )


def _affine(x: Tensor, weight: object, bias: object) -> Any:
    x = x if weight is None else make.multiply(x, weight)
    return x if bias is None else make.combine((1.0, x), (1.0, bias))


def _embedding(op: Any, table: Any, where: Any, *rest: Any) -> Any:
    if not make.is_constant(where):
        raise ConversionError("an embedding of random numbers has no rule")
    return table.moved(lambda ids: ids[where])


def _gelu(op: object, x: Tensor, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return make.function("gelu_tanh", gelu_tanh, x)
    return make.function("gelu", lambda v: jax.nn.gelu(v, approximate=False), x)


def _leaky_relu(op: object, x: Tensor, slope: float = 0.01) -> Any:
    return make.function("leaky_relu", lambda v: jnp.where(v >= 0, v, slope * v), x)


def _clamp(op: Any, x: Tensor, low: Any = None, high: Any = None) -> Any:
    return make.function("clamp", lambda v: jnp.clip(v, low, high), x)


def _elu(op: object, x: Tensor, alpha: float = 1.0, *rest: Any) -> Any:
    if any(r != 1 for r in rest):
        raise ConversionError("elu with scales has no rule")
    return make.function(
        "elu", lambda v: jnp.where(v > 0, v, alpha * jnp.expm1(jnp.minimum(v, 0))), x
    )


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: jnp.maximum(x, 0),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "erf": lax.erf,
    "abs": jnp.abs,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "reciprocal": lambda x: 1 / x,
    "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    "hardswish": lambda x: x * jnp.clip(x + 3, 0, 6) / 6,
    "square": lambda x: x * x,
}


ADVICE = (
    "Write the line with operations that have one (sums, products, matmul, softmax, norms, "
    f"{', '.join(FUNCTIONS)}), "
    "or convert the submodules around it"
)


def _function(name: str) -> Rule:
    return lambda op, x, *args: make.function(name, FUNCTIONS[name], x)


RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVES, _moved),
    **dict.fromkeys(
        ("_to_copy", "to", "type_as", "dropout", "feature_dropout", "alpha_dropout"), _same
    ),
    **{name: _function(name) for name in FUNCTIONS},
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "pow": _pow,
    "rsqrt": _rsqrt,
    "mean": _mean,
    "sum": _sum,
    "var": _var,
    "softmax": _softmax,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "where": _where,
    "masked_fill": _masked_fill,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "embedding": _embedding,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "clamp": _clamp,
    "hardtanh": _clamp,
    "relu6": lambda op, x: _clamp(op, x, 0, 6),
    "elu": _elu,
    "linear": linear,
    "addmm": lambda op, bias, x, w, beta=1, alpha=1: make.combine(
        (float(beta), bias), (float(alpha), matmul(op, x, w))
    ),
    "baddbmm": lambda op, bias, x, w, beta=1, alpha=1: make.combine(
        (float(beta), bias), (float(alpha), matmul(op, x, w))
    ),
    "mm": matmul,
    "bmm": matmul,
    "matmul": matmul,
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
    "cat": concatenate,
    "stack": stacked,
    "conv1d": convolution,
    "conv2d": convolution,
}
