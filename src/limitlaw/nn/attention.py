"""Multi-head attention, in the paper's form and with narrow heads."""

import math
from typing import Any

import numpy as np

from limitlaw.arguments import non_negative, positive_int
from limitlaw.core.space import as_dim, n
from limitlaw.language.functions import dot, normalised_sum, softmax
from limitlaw.language.ops import Matrix
from limitlaw.language.values import Wide, wide


def attention(
    x: Wide,
    heads: int | float,
    head_dim: int | None = None,
    scaling: str = "sqrt",
    mask: Any = None,
    q_std: Any = 1.0,
    k_std: Any = 1.0,
    v_std: Any = 1.0,
    o_std: Any = 1.0,
) -> Wide:
    """Self-attention over the last batch axis of x, (…, s) → (…, s); per head a, with A = softmax:

        p_ij = D^{-1/2} (W^Q x_i)ᵀ (W^K x_j),    y_i = H^{-1/2} Σ_a Σ_j A(p^a)_ij W^{O,a} W^{V,a} x_j

    `head_dim=None`: all matrices n × n, D = n (Example 3.1 of the paper). `head_dim=d`: W^Q, W^K, W^V are d × n, W^O is
    n × d, D = d, as in real Transformers. `heads=math.inf` is the infinite-head limit; only `limit` understands it.
    `scaling="linear"` replaces D^{-1/2} by D^{-1}. `mask`: None, "causal", or booleans (True: seen) over
    (*batch, s, s), the batch being what x has before its tokens, or over (*batch, heads, s, s).
    """
    x = wide("x", x)
    if not x.ndim:
        raise ValueError("x must have a last batch axis of tokens, got a single vector; stack([x]) makes it one token")
    if heads != math.inf:
        heads = positive_int("heads", heads)
    model = x.dim if x.dim.wide else n  # given data are embedded by the first matrices
    head = model if head_dim is None else as_dim("head_dim", positive_int("head_dim", head_dim))
    family = (heads, 1)  # one matrix a head, the same for all tokens
    tokens = x[..., None, :]
    stds = {"q_std": q_std, "k_std": k_std, "v_std": v_std, "o_std": o_std}
    q_std, k_std, v_std, o_std = (non_negative(name, std) for name, std in stds.items())
    q, k, v = (Matrix(std, family, rows=head, cols=x.dim) @ tokens for std in (q_std, k_std, v_std))
    A = softmax(dot(q, k, scaling), _over_heads(mask, x.ndim))
    return normalised_sum(A @ (Matrix(o_std, family, rows=model, cols=head) @ v), axis=-2)


def _over_heads(mask: Any, ndim: int) -> Any:
    """A mask over (*batch, s, s), the same for all heads, as one over (*batch, 1, s, s); x has `ndim` axes."""
    if mask is None or isinstance(mask, str) or not 2 < np.ndim(mask) < ndim + 2:
        return mask
    return np.asarray(mask)[..., None, :, :]
