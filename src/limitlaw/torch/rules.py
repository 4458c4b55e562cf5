"""One rule for each operation of ATen: from tensors and constants to a tensor.

A rule is called with the arguments of the operation, of which at least one is a `Tensor` of the
program.
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
    """The result of an operation that only moves entries, which torch itself carries out on their
    numbers.
    """
    if not isinstance(x, Tensor) or any(isinstance(a, Tensor) for a in args):
        raise ConversionError("random values cannot say where entries go")
    ids = operation(x.ids.contiguous(), *args, **kwargs)
    return at(x.node, ids) if isinstance(ids, torch.Tensor) else [at(x.node, i) for i in ids]


def _add(a: Operand, b: Operand, alpha: Real = 1) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and alpha == 1:
        turned = rotation(a, b)
        if turned is not None:
            return turned
    return _sum_of(a, b, 1, alpha)


def _div(a: Operand, b: Operand, rounding_mode: str | None = None) -> Entries:
    if rounding_mode is not None:
        raise ConversionError(f"div with rounding_mode={rounding_mode!r} has no rule")
    if isinstance(b, Tensor):
        return make.multiply(make.function("reciprocal", FUNCTIONS["reciprocal"], b), a)
    return make.multiply(a, 1 / b)


def _pow(x: Operand, exponent: Operand) -> Tensor:
    if isinstance(exponent, Tensor) or not isinstance(x, Tensor):
        raise ConversionError("only given powers of random values have a rule")
    number = make.single(exponent)
    if number is None:
        raise ConversionError("a power that differs from entry to entry has no rule")
    return make.raised(x, number)


def _axes(dim: Dims) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _var(x: Tensor, dim: Dims = None, correction: Real = 1, keepdim: bool = False) -> Entries:
    axes = _axes(dim)
    mean = make.reduce(x, axes, True, True)
    c = make.combine((1.0, x), (-1.0, mean))
    count = x.ids.numel() // max(1, mean.ids.numel())
    variance = make.reduce(make.product(c, c), axes, keepdim, True)
    return make.multiply(variance, count / (count - correction))


def _where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """torch.where with a constant condition: a mask where one side is −∞, else a sum of two
    products.
    """
    if not isinstance(condition, torch.Tensor):
        raise ConversionError("a condition on random values has no rule")
    for x, other, seen in ((a, b, condition), (b, a, ~condition)):
        hidden = None if isinstance(other, Tensor) else make.single(other)
        if isinstance(x, Tensor) and hidden is not None and hidden < make.MASKED:
            shape = make.shape_of(condition, x)
            return make.masked(x.expanded(shape), seen.expand(shape).numpy())
    parts = [make.multiply(x, c.double()) for x, c in ((a, condition), (b, ~condition))]
    return make.combine(*((1.0, p) for p in parts))


def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    centred: bool = True,
) -> Entries:
    normed = make.normalised(x, list(range(-len(shape), 0)), eps, centred)
    scaled = normed if weight is None else make.multiply(normed, weight)
    return scaled if bias is None else make.combine((1.0, scaled), (1.0, bias))


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Operand | None = None, eps: float | None = None
) -> Entries:
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return _layer_norm(x, shape, weight, None, eps, centred=False)


def _mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, _axes(dim), keepdim, mean=True)


def _sum(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, _axes(dim), keepdim, mean=False)


def _embedding(table: Entries, where: Entries, *rest: object) -> Entries:
    if isinstance(where, Tensor):
        raise ConversionError("an embedding of random numbers has no rule")
    return make.moved(table, lambda rows: rows[where])


def _clamp(x: Tensor, low: Real | None = None, high: Real | None = None) -> Tensor:
    return make.function("clamp", lambda v: jnp.clip(v, low, high), x)


def _elu(x: Tensor, alpha: Real = 1.0, *rest: Real) -> Tensor:
    if any(r != 1 for r in rest):
        raise ConversionError("elu with scales has no rule")
    return make.function(
        "elu", lambda v: jnp.where(v > 0, v, alpha * jnp.expm1(jnp.minimum(v, 0))), x
    )


ATEN_ADVICE = (
    "Write the line with operations that have one (sums, products, matmul, softmax, norms, "
    f"{', '.join(FUNCTIONS)}), or convert the submodules around it"
)


def _sum_of(a: Operand, b: Operand, x: Real = 1, y: Real = 1) -> Tensor:
    """The sum x a + y b."""
    return make.combine((float(x), a), (float(y), b))


def _entrywise(name: str, f: Callable[..., Any]) -> AtenRule:
    """The rule of a function f(x, *settings) of numbers."""
    return lambda x, *rest: make.function(name, lambda v: f(v, *rest), x)


ATEN_RULES: dict[str, AtenRule] = {
    **dict.fromkeys(
        ("_to_copy", "to", "type_as", "dropout", "feature_dropout", "alpha_dropout"),
        lambda x, *rest, **settings: x,
    ),
    **{name: _entrywise(name, lambda v, *_, f=f: f(v)) for name, f in FUNCTIONS.items()},
    **dict.fromkeys(
        ("softmax", "_softmax", "_safe_softmax"), lambda x, dim, *rest, **_: make.softmax(x, dim)
    ),
    **dict.fromkeys(("mm", "bmm", "matmul"), matmul),
    **dict.fromkeys(
        ("addmm", "baddbmm"),
        lambda c, x, w, beta=1, alpha=1: _sum_of(c, matmul(x, w), beta, alpha),
    ),
    **dict.fromkeys(("conv1d", "conv2d"), convolution),
    **dict.fromkeys(("clamp", "hardtanh"), _clamp),
    "add": _add,
    "sub": lambda a, b, alpha=1: _sum_of(a, b, 1, -alpha),
    "rsub": lambda a, b, alpha=1: _sum_of(a, b, -alpha, 1),
    "mul": make.multiply,
    "div": _div,
    "neg": lambda x: make.combine((-1.0, x)),
    "pow": _pow,
    "rsqrt": make.rsqrt,
    "mean": _mean,
    "sum": _sum,
    "var": _var,
    "where": _where,
    "masked_fill": lambda x, mask, value: _where(mask, value, x),
    "layer_norm": lambda x, *rest: _layer_norm(x, *rest[:4]),
    "rms_norm": _rms_norm,
    "embedding": _embedding,
    "gelu": lambda x, approximate="none": make.function(
        *(("gelu", gelu) if approximate == "none" else ("gelu_tanh", gelu_tanh)), x
    ),
    "leaky_relu": _entrywise("leaky_relu", lambda v, a=0.01: jnp.where(v >= 0, v, a * v)),
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
