"""Laws of common networks in one call."""

import functools

import numpy as np

from limitlaw.arguments import covariance, positive_int, real_array
from limitlaw.engines.bounds import bounded, later
from limitlaw.engines.frames.finite import law_at_width
from limitlaw.engines.infinite_width import ADVICE, limit
from limitlaw.float64 import in_float64
from limitlaw.language.functions import initial
from limitlaw.language.values import Wide
from limitlaw.laws import Law, Tokens
from limitlaw.nn.attention import attention


@in_float64
@bounded(ADVICE)
def attention_law(
    kernel: object,
    heads: int | float,
    head_dim: int | None = None,
    scaling: str = "sqrt",
    mask: object = None,
    width: int | None = None,
    q_std: object = 1.0,
    k_std: object = 1.0,
    v_std: object = 1.0,
    o_std: object = 1.0,
    samples: int | None = None,
    key: object = None,
    force: bool = False,
) -> Law:
    """The law of the outputs of one attention layer on s tokens with kernel K_jk = E[Z^{x^j}
    Z^{x^k}]: shape (s,).

        y_i = H^{-1/2} Σ_a Σ_j A(p^a)_ij W^{O,a} W^{V,a} x_j,
        p^a_ij = D^{-1/2} (W^{Q,a} x_i)ᵀ (W^{K,a} x_j)

    as n → ∞, or at width n = `width`, where the tokens are Gaussian vectors. `law.marginal(i)` is
    one token: for few tokens to many digits, whatever the number of heads. The other arguments are
    those of `attention`; `samples` and `key` set the effort where something has to be sampled,
    which by default is limited to 20 seconds (see `limit`, also for `force`).
    """
    K = real_array("kernel", kernel)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel must be a square matrix over the tokens, got shape {np.shape(K)}"
        )
    x = initial((K.shape[0],), cov=covariance("kernel", K, K.shape[0]))
    y = attention(x, heads, head_dim, scaling, mask, q_std, k_std, v_std, o_std)
    if width is None:
        return limit(y, samples, key)
    positive_int("width", width)
    if samples is not None:
        positive_int("samples", samples)
    source = 0 if key is None else key
    entry = later(functools.partial(_entry, y, width, samples, source))
    joint = later(lambda: law_at_width(y, width, samples, source))
    return Tokens((K.shape[0],), joint, entry)


def _entry(y: Wide, width: int, samples: int | None, key: object, i: tuple[int, ...]) -> Law:
    """The exact law of one token at width n, which needs less than the law of all."""
    return law_at_width(y[i], width, samples, key)
