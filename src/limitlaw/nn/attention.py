"""Multi-head attention, in the paper's form and as real Transformers have it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from limitlaw.arguments import non_negative, positive_int, shown
from limitlaw.core.space import as_dim, n
from limitlaw.language.functions import dot, normalised_sum, softmax
from limitlaw.language.matrices import Matrix
from limitlaw.language.shapes import Shape
from limitlaw.language.values import Wide, wide
from limitlaw.nn.feedforward import with_bias
from limitlaw.nn.positions import Positions


def attention(
    x: Wide,
    heads: int | float,
    head_dim: int | None = None,
    scaling: str = "sqrt",
    mask: object = None,
    q_std: object = 1.0,
    k_std: object = 1.0,
    v_std: object = 1.0,
    o_std: object = 1.0,
    *,
    kv_heads: int | None = None,
    context: Wide | None = None,
    positions: Positions | None = None,
    qk_norm: Callable[[Wide], Wide] | None = None,
    bias_std: float = 0.0,
) -> Wide:
    """Attention over the last batch axis of x, (…, s) → (…, s); per head a, with A = softmax:

        p_ij = D^{-1/2} (W^Q x_i)ᵀ (W^K x_j),
        y_i = H^{-1/2} Σ_a Σ_j A(p^a)_ij W^{O,a} W^{V,a} x_j

    `head_dim=None`: all matrices n × n, D = n (Example 3.1 of the paper). `head_dim=d`: W^Q, W^K,
    W^V are d × n, W^O is n × d, D = d, as in real Transformers. `heads=math.inf` is the
    infinite-head limit; only `limit` understands it. `scaling="linear"` replaces D^{-1/2} by
    D^{-1}. `mask`: None, "causal", or booleans (True: seen) over `(*batch, s, s)`, where the batch
    is what x has before its tokens, or over `(*batch, heads, s, s)`; `nn.masks` has more.

    `kv_heads`: keys and values are shared by groups of heads (grouped queries; 1: multi-query).
    `context`: vectors (…, t) that keys and values are made of, instead of x (cross-attention).
    `positions`: `nn.Rotary()` or `nn.Alibi()`. `qk_norm`: a norm of queries and keys, as
    `rmsnorm`. `bias_std`: queries, keys, values and outputs have biases N(0, bias_std²).
    """
    x, seen = _tokens(x, context)
    if heads != math.inf:
        heads = positive_int("heads", heads)
    query, key = _families(heads, kv_heads)
    model = x.dim if x.dim.wide else n  # given data are embedded by the first matrices
    head = model if head_dim is None else as_dim("head_dim", positive_int("head_dim", head_dim))
    stds = {"q_std": q_std, "k_std": k_std, "v_std": v_std, "o_std": o_std}
    q_std, k_std, v_std, o_std = (non_negative(name, std) for name, std in stds.items())
    tokens, others = (w[(..., *[None] * (len(query) - 1), slice(None))] for w in (x, seen))
    q, k, v = (
        with_bias(Matrix(std, family, rows=head, cols=w.dim, name=name) @ w, bias_std, family)
        for name, std, family, w in (
            ("Q", q_std, query, tokens),
            ("K", k_std, key, others),
            ("V", v_std, key, others),
        )
    )
    if qk_norm is not None:
        q, k = qk_norm(q), qk_norm(k)
    p = _scores(q, k, scaling, positions, heads)
    A = softmax(p, _over_heads(mask, x.ndim, query))
    y = normalised_sum(
        A @ (Matrix(o_std, query, rows=model, cols=head, name="O") @ v),
        tuple(range(-len(query), -1)),
    )
    return with_bias(y, bias_std)


def _tokens(x: object, context: object) -> tuple[Wide, Wide]:
    """The vectors that make queries, and those that make keys and values: x, or a context."""
    asking = wide("x", x)
    if not asking.ndim:
        raise ValueError(
            "x must have a last batch axis of tokens, got a single vector; stack([x]) makes it "
            "one token"
        )
    seen = asking if context is None else wide("context", context)
    if seen.shape[:-1] != asking.shape[:-1]:
        raise ValueError(
            f"context must have the batch axes {asking.shape[:-1]} of x before its own, got "
            f"{seen.shape}"
        )
    return asking, seen


def _families(heads: int | float, kv_heads: int | None) -> tuple[Shape, Shape]:
    """Batch shapes of the matrices of queries, and of keys and values: one for each head."""
    groups = heads if kv_heads is None else positive_int("kv_heads", kv_heads)
    if groups == heads:
        return (heads, 1), (heads, 1)
    if heads == math.inf or heads % groups:
        raise ValueError(f"kv_heads must divide heads={heads}, got {groups}")
    return (groups, int(heads) // int(groups), 1), (groups, 1, 1)


def _scores(
    q: Wide, k: Wide, scaling: str, positions: Positions | None, heads: int | float
) -> Any:
    if positions is None:
        return dot(q, k, scaling)
    if isinstance(positions, type) or not isinstance(positions, Positions):
        raise TypeError(
            f"positions must be nn.Rotary(), nn.Alibi() or None, got {shown(positions)}"
        )
    return positions.scored(dot(positions.turned(q), positions.turned(k), scaling), heads)


def _over_heads(mask: object, ndim: int, family: Shape) -> Any:
    """A mask over (*batch, s, s), the same for all heads, as (*batch, 1, s, s); one over heads in
    groups is laid out as these. x has `ndim` axes.
    """
    if mask is None or isinstance(mask, str):
        return mask
    array = np.asarray(mask)
    lead: tuple[Any, ...] = family[:-1]
    if 2 < array.ndim < ndim + 2:
        return array.reshape(*array.shape[:-2], *(1,) * len(lead), *array.shape[-2:])
    if len(lead) > 1 and array.ndim == ndim + 2:
        heads = math.prod(int(size) for size in lead)
        if array.shape[-3] not in (1, heads):
            raise ValueError(
                f"mask must be over (*batch, {heads}, s, s), one for each head, got shape "
                f"{array.shape}"
            )
        groups = lead if array.shape[-3] != 1 else (1,) * len(lead)
        return array.reshape(*array.shape[:-3], *groups, *array.shape[-2:])
    return mask
