"""Blocks of a Transformer, and stacks of them."""

from collections.abc import Callable
from typing import Any

from limitlaw.arguments import non_negative_number, one_of, positive_int, shown
from limitlaw.core.space import Dim, n
from limitlaw.language.named import gelu
from limitlaw.language.repeating import repeat
from limitlaw.language.values import Wide, wide
from limitlaw.nn.attention import attention
from limitlaw.nn.feedforward import dense, gated_mlp, layernorm, mlp

NORMS = ("pre", "post", "none")
Layer = Callable[[Wide], Wide]


def residual(f: Layer, scale: object = 1.0) -> Layer:
    """The layer x ↦ x + scale·f(x)."""
    if not callable(f):
        raise TypeError(f"f must be a function of vectors, got {shown(f)}")
    factor = non_negative_number("scale", scale)
    return lambda x: x + factor * f(x)


def block(
    x: Wide,
    heads: int | float,
    head_dim: int | None = None,
    norm: str = "pre",
    mask: object = None,
    *,
    hidden: Dim | int | None = 4 * n,
    phi: Callable[[Any], Any] = gelu,
    gated: bool = False,
    parallel: bool = False,
    scale: object = 1.0,
    normalise: Layer = layernorm,
    mlp_std: object = 1.0,
    bias_std: float = 0.0,
    **options: Any,
) -> Wide:
    """Attention and an MLP on a residual stream, with fresh weights: (…, s) → (…, s); N is
    `normalise`, c is `scale`.

        "pre":   x ← x + c·attention(N(x)),   x ← x + c·mlp(N(x))
        "post":  x ← N(x + c·attention(x)),   x ← N(x + c·mlp(x))
        "none":  x ← x + c·attention(x),      x ← x + c·mlp(x)

    `parallel`: both read the same vectors, x ← x + c·(attention(N(x)) + mlp(N(x))). `hidden` is
    the space inside the MLP, None for attention alone; `gated`: W_down(φ(W_gate x) ⊙ W_up x), with
    φ = `silu` a SwiGLU. `bias_std` holds for all biases; other `options` are those of `attention`.
    """
    x, where = wide("x", x), one_of("norm", norm, NORMS)
    before: Layer = normalise if where == "pre" else lambda w: w
    after: Layer = normalise if where == "post" else lambda w: w

    def attends(w: Wide) -> Wide:
        return attention(w, heads, head_dim, mask=mask, bias_std=bias_std, **options)

    def thinks(w: Wide) -> Wide:
        layer = gated_mlp if gated else mlp
        assert hidden is not None
        return layer(w, hidden, phi, mlp_std, bias_std, w.dim)

    if hidden is None:
        return after(residual(lambda w: attends(before(w)), scale)(x))
    if parallel:
        normed = before(x)
        return after(residual(lambda w: attends(normed) + thinks(normed), scale)(x))
    x = after(residual(lambda w: attends(before(w)), scale)(x))
    return after(residual(lambda w: thinks(before(w)), scale)(x))


def transformer(
    x: Wide,
    depth: int,
    heads: int | float,
    head_dim: int | None = None,
    norm: str = "pre",
    mask: object = None,
    *,
    shared: bool = False,
    **options: Any,
) -> Wide:
    """`depth` blocks on the vectors x of tokens, (…, s) → (…, s): the residual stream behind the
    last block.

    x are embedded ids (`nn.embedding`), random vectors with a kernel (`initial((s,), cov=K)`), or
    `data`, which a first matrix embeds; batch axes before the tokens are sequences. `shared`: all
    blocks have the same weights. Other `options` are those of `nn.block` and of `attention`.
    """
    x = wide("x", x)
    if not x.dim.wide:
        x = dense(x)
    times = positive_int("depth", depth)
    return repeat(lambda w: block(w, heads, head_dim, norm, mask, **options), x, times, shared)
