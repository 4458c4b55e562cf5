"""One rule for each operation of ATen: from tensors and constants to a tensor.

A rule is called with the arguments of the operation,
of which at least one is a `Tensor` of the program.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.exporting import name_of
from limitlaw.torch.functions import FUNCTIONS, gelu, gelu_tanh
from limitlaw.torch.making import Entries, Operand, Real
from limitlaw.torch.nodes import Tensor, at
from limitlaw.torch.rotations import rotation
from limitlaw.torch.weighing import attention, convolution, einsum, linear, matmul

AtenRule: TypeAlias = Callable[..., Entries | list[Tensor]]
Dims: TypeAlias = int | Sequence[int] | None

MOVES = """
    view reshape _unsafe_view view_copy transpose permute unsqueeze squeeze select slice split
    split_with_sizes chunk unbind expand clone contiguous t flatten unflatten repeat
    repeat_interleave index_select index alias detach flip roll narrow movedim swapaxes tile
    expand_as lift_fresh_copy diagonal tensor_split unfold
""".split()  # noqa: SIM905


def _moved(
    operation: Callable[..., Any], x: object, *args: object, **kwargs: object
) -> Tensor | list[Tensor]:
    """Entries that only move are moved by torch itself."""
    if not isinstance(x, Tensor) or any(isinstance(a, Tensor) for a in args):
        raise ConversionError("random values cannot say where entries go")
    ids = operation(x.ids.contiguous(), *args, **kwargs)
    return at(x.node, ids) if isinstance(ids, torch.Tensor) else [at(x.node, i) for i in ids]


def _same(x: Tensor, *args: object, **kwargs: object) -> Tensor:
    return x


def _add(a: Operand, b: Operand, alpha: Real = 1) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and alpha == 1:
        turned = rotation(a, b)
        if turned is not None:
            return turned
    return make.combine((1.0, a), (float(alpha), b))


def _sub(a: Operand, b: Operand, alpha: Real = 1) -> Tensor:
    return make.combine((1.0, a), (-float(alpha), b))


def _rsub(a: Operand, b: Operand, alpha: Real = 1) -> Tensor:
    return make.combine((-float(alpha), a), (1.0, b))


def _div(a: Operand, b: Operand, rounding_mode: str | None = None) -> Entries:
    if rounding_mode is not None:
        raise ConversionError(f"div with rounding_mode={rounding_mode!r} has no rule")
    if isinstance(b, Tensor):
        return make.multiply(make.function("reciprocal", FUNCTIONS["reciprocal"], b), a)
    return make.multiply(a, 1 / b)


def _neg(x: Tensor) -> Tensor:
    return make.combine((-1.0, x))


def _pow(x: Operand, exponent: Operand) -> Tensor:
    if isinstance(exponent, Tensor) or not isinstance(x, Tensor):
        raise ConversionError("only given powers of random values have a rule")
    number = make.single(exponent)
    if number is None:
        raise ConversionError("a power that differs from entry to entry has no rule")
    return make.raised(x, number)


def _mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, _axes(dim), keepdim, mean=True)


def _sum(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, _axes(dim), keepdim, mean=False)


def _axes(dim: Dims) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _var(x: Tensor, dim: Dims = None, correction: Real = 1, keepdim: bool = False) -> Entries:
    axes = _axes(dim)
    mean = make.reduce(x, axes, True, True)
    c = make.combine((1.0, x), (-1.0, mean))
    count = x.ids.numel() // max(1, mean.ids.numel())
    variance = make.reduce(make.product(c, c), axes, keepdim, True)
    return make.multiply(variance, count / (count - correction))


def _softmax(x: Tensor, dim: int, *rest: object, **kwargs: object) -> Tensor:
    return make.softmax(x, dim)


def _where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """Given conditions: a mask where one side is −∞, a sum of two products elsewhere."""
    if not isinstance(condition, torch.Tensor):
        raise ConversionError("a condition on random values has no rule")
    for x, other, seen in ((a, b, condition), (b, a, ~condition)):
        if isinstance(x, Tensor) and not isinstance(other, Tensor) and _hides(other):
            shape = make.shape_of(condition, x)
            return make.masked(x.expanded(shape), seen.expand(shape).numpy())
    parts = [make.multiply(x, c.double()) for x, c in ((a, condition), (b, ~condition))]
    return make.combine(*((1.0, p) for p in parts))


def _hides(value: torch.Tensor | Real) -> bool:
    """Does a constant stand for −∞?"""
    number = make.single(value)
    return number is not None and number < make.MASKED


def _masked_fill(x: Operand, mask: Operand, value: Operand) -> Tensor:
    return _where(mask, value, x)


def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Entries:
    axes = list(range(-len(shape), 0))
    return _affine(make.normalised(x, axes, eps, centred=True), weight, bias)


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Operand | None = None, eps: float | None = None
) -> Entries:
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return _affine(make.normalised(x, axes, eps, centred=False), weight, None)


def _affine(x: Tensor, weight: Operand | None, bias: Operand | None) -> Entries:
    scaled = x if weight is None else make.multiply(x, weight)
    return scaled if bias is None else make.combine((1.0, scaled), (1.0, bias))


def _embedding(table: Entries, where: Entries, *rest: object) -> Entries:
    if isinstance(where, Tensor):
        raise ConversionError("an embedding of random numbers has no rule")
    return make.moved(table, lambda rows: rows[where])


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return make.function("gelu_tanh", gelu_tanh, x)
    return make.function("gelu", gelu, x)


def _leaky_relu(x: Tensor, slope: Real = 0.01) -> Tensor:
    return make.function("leaky_relu", lambda v: jnp.where(v >= 0, v, slope * v), x)


def _clamp(x: Tensor, low: Real | None = None, high: Real | None = None) -> Tensor:
    return make.function("clamp", lambda v: jnp.clip(v, low, high), x)


def _elu(x: Tensor, alpha: Real = 1.0, *rest: Real) -> Tensor:
    if any(r != 1 for r in rest):
        raise ConversionError("elu with scales has no rule")
    return make.function(
        "elu", lambda v: jnp.where(v > 0, v, alpha * jnp.expm1(jnp.minimum(v, 0))), x
    )


def _addmm(bias: Operand, x: Entries, w: Entries, beta: Real = 1, alpha: Real = 1) -> Tensor:
    return make.combine((float(beta), bias), (float(alpha), matmul(x, w)))


ATEN_ADVICE = (
    "Write the line with operations that have one (sums, products, matmul, softmax, norms, "
    f"{', '.join(FUNCTIONS)}), or convert the submodules around it"
)


def _function(name: str) -> AtenRule:
    return lambda x, *args: make.function(name, FUNCTIONS[name], x)


ATEN_RULES: dict[str, AtenRule] = {
    **dict.fromkeys(
        ("_to_copy", "to", "type_as", "dropout", "feature_dropout", "alpha_dropout"), _same
    ),
    **{name: _function(name) for name in FUNCTIONS},
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax"), _softmax),
    **dict.fromkeys(("mm", "bmm", "matmul"), matmul),
    **dict.fromkeys(("addmm", "baddbmm"), _addmm),
    **dict.fromkeys(("conv1d", "conv2d"), convolution),
    **dict.fromkeys(("clamp", "hardtanh"), _clamp),
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": make.multiply,
    "div": _div,
    "neg": _neg,
    "pow": _pow,
    "rsqrt": make.rsqrt,
    "mean": _mean,
    "sum": _sum,
    "var": _var,
    "where": _where,
    "masked_fill": _masked_fill,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "embedding": _embedding,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "relu6": lambda x: _clamp(x, 0, 6),
    "elu": _elu,
    "linear": linear,
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
    "cat": make.concatenate,
    "stack": make.stacked,
}


def rule_of(operation: Callable[..., Any]) -> AtenRule | None:
    """The rule of an operation, None where there is none."""
    name = name_of(operation)
    return functools.partial(_moved, operation) if name in MOVES else ATEN_RULES.get(name)
