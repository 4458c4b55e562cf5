"""One rule for each operation of ATen: from tensors and constants to a tensor.

A rule is called with the arguments of the operation, of which at least one is a `Tensor` of the
program.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.complexes import COMPLEX_RULES, Complex, of_pairs
from limitlaw.torch.exporting import name_of
from limitlaw.torch.functions import FUNCTIONS, gelu, gelu_tanh
from limitlaw.torch.gridding import (
    along,
    convolution,
    im2col,
    largest,
    largest_of_windows,
    over_positions,
    padded,
)
from limitlaw.torch.making import Entries, Operand, Real
from limitlaw.torch.nodes import Tensor, at
from limitlaw.torch.rotations import rotation
from limitlaw.torch.weighing import attention, einsum, gru_cell, linear, matmul

AtenRule: TypeAlias = Callable[..., Any]
Dims: TypeAlias = int | Sequence[int] | None

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
    if isinstance(condition, Tensor):
        return make.combine(
            (1.0, make.multiply(condition, a)),
            (1.0, make.multiply(make.combine((-1.0, condition), (1.0, 1.0)), b)),
        )
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


def _norm(
    x: Tensor, order: Real = 2, dim: Dims = None, keepdim: bool = False, dtype: object = None
) -> Tensor:
    """(Σ |x|^p)^{1/p} for p = 1, 2."""
    if order == 1:
        return make.reduce(make.function("abs", FUNCTIONS["abs"], x), _axes(dim), keepdim, False)
    if order != 2:
        raise ConversionError(f"norms of order {order:g} have no rule, only those of 1 and 2")
    squares = make.reduce(make.product(x, x), _axes(dim), keepdim, mean=False)
    return make.function("sqrt", FUNCTIONS["sqrt"], squares)


def _group_norm(
    x: Tensor,
    groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    *rest: object,
) -> Entries:
    """Norm over the channels of a group and all positions."""
    flat = x.moved(lambda ids: ids.reshape(len(ids), groups, -1))
    normed = make.normalised(flat, [-1], eps, True).moved(lambda ids: ids.reshape(x.shape))
    return _channelwise(normed, weight, bias)


def _channelwise(x: Entries, weight: Operand | None, bias: Operand | None) -> Entries:
    """weight·x + bias with numbers for every channel, the second axis of x."""
    sides = (1,) * (len(x.shape) - 2)
    for numbers, join in ((weight, make.multiply), (bias, _sum_of)):
        if numbers is not None:
            x = join(x, make.moved(numbers, lambda t: t.reshape(-1, *sides)))
    return x


def _batch_norm(
    x: Tensor,
    weight: Operand | None,
    bias: Operand | None,
    mean: Entries,
    variance: Entries,
    *settings: Any,
    eps: float | None = None,
) -> Entries:
    """Batch norm in eval mode: shift and scale by what it has kept."""
    training, _, eps = settings[:3] if len(settings) > 2 else (False, *settings)
    if training or mean is None:
        raise ConversionError(
            "batch norm in train mode mixes the samples of a batch: use eval mode, or LayerNorm"
        )
    centred = _channelwise(x, None, -mean)
    scaled = _channelwise(centred, torch.rsqrt(variance.double() + eps), None)
    return _channelwise(scaled, weight, bias)


def _instance_norm(
    x: Tensor,
    weight: Operand | None,
    bias: Operand | None,
    mean: object,
    variance: object,
    use_input: bool,
    momentum: float,
    eps: float,
    *rest: object,
) -> Entries:
    if not use_input:
        return _batch_norm(x, weight, bias, mean, variance, False, momentum, eps)
    normed = make.normalised(x, list(range(2, len(x.shape))), eps, True)
    return _channelwise(normed, weight, bias)


def _prelu(x: Tensor, weight: Entries) -> Entries:
    slope = make.single(weight) if isinstance(weight, torch.Tensor) else None
    if slope is not None:
        return make.function("leaky_relu", lambda v: jnp.where(v >= 0, v, slope * v), x)
    relu = lambda y: make.function("relu", FUNCTIONS["relu"], y)
    negative = relu(make.combine((-1.0, x)))
    return make.combine((1.0, relu(x)), (-1.0, _channelwise(negative, weight, None)))


def _glu(x: Tensor, dim: int = -1) -> Entries:
    first, second = (x.moved(lambda ids, i=i: ids.chunk(2, dim)[i]) for i in (0, 1))
    return make.multiply(first, make.function("sigmoid", FUNCTIONS["sigmoid"], second))


def _extreme(sign: int) -> AtenRule:
    """The rule of maximum (sign 1) and minimum of two tensors; of scores with the least number of
    their type it is the scores.
    """

    def rule(a: Operand, b: Operand) -> Entries:
        for x, other in ((a, b), (b, a)):
            number = None if isinstance(other, Tensor) else make.single(other)
            if isinstance(x, Tensor) and number is not None:
                if sign > 0 and number < make.MASKED:
                    return x
                bounds = (number, None) if sign > 0 else (None, number)
                return _clamp(x, *bounds)
        shape = make.shape_of(a, b)
        terms = [make.lifted(t).expanded(shape) for t in (a, b)]
        if sign > 0:
            return make.maximum(terms)
        found = make.maximum([make.combine((-1.0, t)) for t in terms])
        return make.combine((-1.0, found))

    return rule


def _largest(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return largest(x, _axes(dim), keepdim)


def _largest_with_place(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return largest(x, [], False)
    if not isinstance(dim, int):
        return _extreme(1)(x, dim)
    return [largest(x, [dim], keepdim), None]


def _copied(x: Operand, source: Operand, *rest: object) -> Entries:
    shape = make.shape_of(x)
    return make.moved(
        source if isinstance(source, Tensor | torch.Tensor) else torch.tensor(source),
        lambda t: t.expand(shape),
    )


def _written(
    x: Entries,
    source: Entries,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """x with `source` in the place of some of its slices."""
    kept = torch.ones(x.shape[dim], dtype=torch.bool)
    kept[slice(start, end, step)] = False
    written, pieces = 0, []
    for i in range(len(kept)):
        one, place = (x, i) if kept[i] else (source, written)
        written += not kept[i]
        pieces.append(make.moved(one, lambda t, p=place: t.narrow(dim, p, 1)))
    return make.concatenate(pieces, dim)


def _written_at(x: Entries, source: Entries, dim: int, index: int) -> Tensor:
    index %= x.shape[dim]
    return _written(x, make.moved(source, lambda t: t.unsqueeze(dim)), dim, index, index + 1)


def _cross_entropy(
    x: Tensor,
    target: Entries,
    weight: object = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Entries:
    """ln Σ exp(x) − x_target, its mean or sum over positions."""
    logs = make.log_softmax(x, 1 if len(x.shape) > 1 else 0)
    return _nll(logs, target, weight, reduction, ignored, smoothing)


def _nll(
    logs: Tensor,
    target: Entries,
    weight: object = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Entries:
    if weight is not None or smoothing or not isinstance(target, torch.Tensor):
        raise ConversionError(
            "cross-entropy has a rule for given classes, without weights and label smoothing"
        )
    axis = 1 if len(logs.shape) > 1 else 0
    seen = target != ignored
    places = torch.where(seen, target, 0).unsqueeze(axis)
    own = logs.moved(lambda ids: ids.gather(axis, places).squeeze(axis))
    losses = make.multiply(own, -seen.double())
    if reduction == 0 or not isinstance(losses, Tensor):
        return losses
    total = make.reduce(losses, [], False, mean=False)
    return make.multiply(total, 1 / int(seen.sum())) if reduction == 1 else total


def _elu(x: Tensor, alpha: Real = 1.0, scale: Real = 1.0, inner: Real = 1.0) -> Tensor:
    below = lambda v: alpha * jnp.expm1(jnp.minimum(v, 0) * inner)
    return make.function("elu", lambda v: scale * jnp.where(v > 0, v, below(v)), x)


def _log_sum_exp(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    rank = len(x.shape)
    gone = sorted(a % rank for a in axes)
    last = x.moved(lambda ids: ids.movedim(gone, list(range(-len(gone), 0))).flatten(-len(gone)))
    kept = [1 if a in gone else s for a, s in enumerate(x.shape)]
    found = make.log_sum_exp(last, -1)
    return found.moved(lambda ids: ids.reshape(kept)) if keepdim else found


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


def _comparison(compare: Callable[..., Any]) -> AtenRule:
    """The rule of a comparison with a number: 1 where it holds, 0 elsewhere."""

    def rule(x: Operand, bound: Operand) -> Tensor:
        number = None if isinstance(bound, Tensor) else make.single(bound)
        if not isinstance(x, Tensor) or number is None:
            raise ConversionError("only comparisons of random values with a number have a rule")
        return make.function("step", lambda v: jnp.where(compare(v, number), 1.0, 0.0), x)

    return rule


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
    "amax": _largest,
    "max": _largest_with_place,
    "maximum": _extreme(1),
    **dict.fromkeys(("minimum", "min"), _extreme(-1)),
    "im2col": im2col,
    "clamp_min": lambda x, low: _extreme(1)(x, low),
    "clamp_max": lambda x, high: _extreme(-1)(x, high),
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": lambda x, *rest: [_batch_norm(x, *rest), None, None],
    "instance_norm": _instance_norm,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "glu": _glu,
    **dict.fromkeys(("copy", "fill"), _copied),
    "slice_scatter": _written,
    "select_scatter": _written_at,
    **dict.fromkeys(
        ("log_softmax", "_log_softmax"), lambda x, dim, *rest, **_: make.log_softmax(x, dim)
    ),
    "logsumexp": lambda x, dim, keepdim=False: _log_sum_exp(x, _axes(dim), keepdim),
    "cross_entropy_loss": _cross_entropy,
    **dict.fromkeys(("nll_loss", "nll_loss_nd", "nll_loss2d"), _nll),
    "nll_loss_forward": lambda *args: [_nll(*args), None],
    "view_as_complex": of_pairs,
    **dict.fromkeys(("clamp", "hardtanh"), _clamp),
    "add": _add,
    **dict.fromkeys(("sub", "subtract"), lambda a, b, alpha=1: _sum_of(a, b, 1, -alpha)),
    **{name: _comparison(getattr(operator, name)) for name in ("gt", "ge", "lt", "le")},
    "rsub": lambda a, b, alpha=1: _sum_of(a, b, -alpha, 1),
    **dict.fromkeys(("mul", "multiply"), make.multiply),
    **dict.fromkeys(("div", "divide", "true_divide"), _div),
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
