"""One rule for each operation of ATen: from tensors and constants to a tensor.

A rule is called with the arguments of the operation, of which at least one is a `Tensor` of the
program.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import torch

from limitlaw.torch import making as make
from limitlaw.torch.complexes import COMPLEX_RULES, Complex, of_pairs
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.exporting import name_of
from limitlaw.torch.functions import FUNCTIONS, gelu, gelu_tanh
from limitlaw.torch.gridding import (
    along,
    convolution,
    im2col,
    largest_of_windows,
    over_positions,
    padded,
)
from limitlaw.torch.making import Entries, Operand, Real
from limitlaw.torch.nodes import Tensor, at
from limitlaw.torch.normalising import (
    Dims,
    axes_of,
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
    variance,
    vector_norm,
)
from limitlaw.torch.rotations import rotation
from limitlaw.torch.scoring import cross_entropy, log_sum_exp_over, nll
from limitlaw.torch.selecting import (
    clamp,
    comparison,
    copied,
    extreme,
    glu,
    largest_over,
    largest_with_place,
    prelu,
    where,
    with_slice,
    with_slices,
)
from limitlaw.torch.weighing import attention, einsum, gru_cell, linear, matmul

AtenRule: TypeAlias = Callable[..., Any]

MOVES = """
    view reshape _unsafe_view view_copy transpose permute unsqueeze squeeze select slice split
    split_with_sizes chunk unbind expand clone contiguous t flatten unflatten repeat
    repeat_interleave index_select index alias detach flip roll narrow movedim swapaxes tile
    expand_as lift_fresh_copy diagonal tensor_split unfold gather take_along_dim unsafe_split
    unsafe_chunk view_as swapdims adjoint mT mH atleast_2d atleast_3d squeeze_copy unsqueeze_copy
    permute_copy transpose_copy slice_copy select_copy expand_copy channel_shuffle pixel_shuffle
    pixel_unshuffle upsample_nearest1d upsample_nearest2d ravel
""".split()  # noqa: SIM905


def _moved(
    operation: Callable[..., Any], x: object, *args: object, **kwargs: object
) -> Tensor | Complex | list[Tensor]:
    """The result of an operation that only moves entries, which torch itself carries out on their
    numbers.
    """
    if isinstance(x, Complex):
        return x.moved(lambda t: operation(t.contiguous(), *args, **kwargs))
    if not isinstance(x, Tensor) or any(isinstance(a, Tensor) for a in args):
        raise ConversionError("random values cannot say where entries go")
    numbers = x.ids.contiguous()
    nearest = "nearest" in name_of(operation)
    ids = (
        _nearest(operation, numbers, *args, **kwargs)
        if nearest
        else operation(numbers, *args, **kwargs)
    )
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


def _nearest(operation: Callable[..., Any], ids: torch.Tensor, *args: object) -> torch.Tensor:
    """Resampling to the nearest entry, which torch does on floating-point numbers alone."""
    return operation(ids.double(), *args).long()


def _mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, axes_of(dim), keepdim, mean=True)


def _sum(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    return make.reduce(x, axes_of(dim), keepdim, mean=False)


def _embedding(table: Entries, where: Entries, *rest: object) -> Entries:
    if isinstance(where, Tensor):
        raise ConversionError("an embedding of random numbers has no rule")
    return make.moved(table, lambda rows: rows[where])


def _elu(x: Tensor, alpha: Real = 1.0, scale: Real = 1.0, inner: Real = 1.0) -> Tensor:
    below = lambda v: alpha * jnp.expm1(jnp.minimum(v, 0) * inner)
    return make.function("elu", lambda v: scale * jnp.where(v > 0, v, below(v)), x)


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
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    "pad": padded,
    "constant_pad_nd": lambda x, margins, value=0: padded(x, margins, "constant", value),
    **{
        name: over_positions(getattr(torch.ops.aten, name), axes)
        for name, axes in (
            ("avg_pool1d", 1),
            ("avg_pool2d", 2),
            ("adaptive_avg_pool1d", 1),
            ("adaptive_avg_pool2d", 2),
            ("_adaptive_avg_pool2d", 2),
            ("upsample_linear1d", 1),
            ("upsample_bilinear2d", 2),
            ("upsample_bicubic2d", 2),
        )
    },
    "cumsum": along(torch.cumsum),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), largest_of_windows),
    "max_pool2d_with_indices": lambda x, *rest: [largest_of_windows(x, *rest), None],
    "amax": largest_over,
    "max": largest_with_place,
    "maximum": extreme(1),
    **dict.fromkeys(("minimum", "min"), extreme(-1)),
    "im2col": im2col,
    "clamp_min": lambda x, low: extreme(1)(x, low),
    "clamp_max": lambda x, high: extreme(-1)(x, high),
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": lambda x, *rest: [batch_norm(x, *rest), None, None],
    "instance_norm": instance_norm,
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "glu": glu,
    **dict.fromkeys(("copy", "fill"), copied),
    "slice_scatter": with_slices,
    "select_scatter": with_slice,
    **dict.fromkeys(
        ("log_softmax", "_log_softmax"), lambda x, dim, *rest, **_: make.log_softmax(x, dim)
    ),
    "logsumexp": lambda x, dim, keepdim=False: log_sum_exp_over(x, axes_of(dim), keepdim),
    "cross_entropy_loss": cross_entropy,
    **dict.fromkeys(("nll_loss", "nll_loss_nd", "nll_loss2d"), nll),
    "nll_loss_forward": lambda *args: [nll(*args), None],
    "view_as_complex": of_pairs,
    **dict.fromkeys(("clamp", "hardtanh"), clamp),
    "add": _add,
    **dict.fromkeys(("sub", "subtract"), lambda a, b, alpha=1: _sum_of(a, b, 1, -alpha)),
    **{name: comparison(getattr(operator, name)) for name in ("gt", "ge", "lt", "le")},
    "rsub": lambda a, b, alpha=1: _sum_of(a, b, -alpha, 1),
    **dict.fromkeys(("mul", "multiply"), make.multiply),
    **dict.fromkeys(("div", "divide", "true_divide"), _div),
    "neg": lambda x: make.combine((-1.0, x)),
    "pow": _pow,
    "rsqrt": make.rsqrt,
    "mean": _mean,
    "sum": _sum,
    "var": variance,
    "where": where,
    "masked_fill": lambda x, mask, value: where(mask, value, x),
    "layer_norm": lambda x, *rest: layer_norm(x, *rest[:4]),
    "rms_norm": rms_norm,
    "embedding": _embedding,
    "gelu": lambda x, approximate="none": make.function(
        *(("gelu", gelu) if approximate == "none" else ("gelu_tanh", gelu_tanh)), x
    ),
    "leaky_relu": _entrywise("leaky_relu", lambda v, a=0.01: jnp.where(v >= 0, v, a * v)),
    "relu6": lambda x: clamp(x, 0, 6),
    "elu": _elu,
    "lerp": lambda a, b, weight: make.combine(
        (1.0, a), (1.0, make.multiply(make.combine((1.0, b), (-1.0, a)), weight))
    ),
    "linear": linear,
    "gru_cell": gru_cell,
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
    "cat": make.concatenate,
    "stack": make.stacked,
}


def rule_of(operation: Callable[..., Any], of_complex: bool = False) -> AtenRule | None:
    """The rule of an operation, None where there is none."""
    name = name_of(operation)
    if of_complex and name not in MOVES:
        return COMPLEX_RULES.get(name)
    return functools.partial(_moved, operation) if name in MOVES else ATEN_RULES.get(name)
