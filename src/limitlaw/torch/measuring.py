"""Statistics of layers: of vectors by their Gram matrix, of attention by its scores."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

import limitlaw as ll
from limitlaw.torch.attending import Attention
from limitlaw.torch.converted import Labelled
from limitlaw.torch.exporting import Exported
from limitlaw.torch.making import MASKED
from limitlaw.torch.reinitialising import Numbers
from limitlaw.torch.tracing import name_of

VARIANCE, CORRELATION, KURTOSIS = "variance", "token correlation", "excess kurtosis"
ENTROPY, SCORES = "attention entropy / ln t", "score variance"
SQUARES = (VARIANCE, SCORES)  # means of squares, of which there is a scale

Draws = dict[str, np.ndarray]  # by statistic, one number for each draw


# --- of vectors ----------------------------------------------------------------------------------


def vectors_of(run: Numbers, item: Labelled) -> np.ndarray:
    """The vectors of a layer, one a row, as the graph of the module has computed them."""
    layout = item.layout
    assert layout.coordinate is not None
    x = np.moveaxis(run[item.label.name].numpy().reshape(layout.sizes), layout.coordinate, -1)
    return x.reshape(-1, layout.dimension)


def of_grams(grams: Any, xp: Any = np) -> dict[str, Any]:
    """For each draw of n^{-1} X Xᵀ the mean variance of tokens,
    and the mean correlation of pairs.
    """
    diagonal = xp.einsum("...ii->...i", grams)
    result = {VARIANCE: xp.asarray(diagonal.mean(axis=-1))}
    tokens = grams.shape[-1]
    if tokens > 1:
        scale = xp.sqrt(diagonal[..., :, None] * diagonal[..., None, :])
        correlation = grams / xp.where(scale > 0, scale, 1.0)
        off = ~np.eye(tokens, dtype=bool)
        result[CORRELATION] = xp.asarray(correlation[..., off].mean(axis=-1))
    return result


def kurtosis(fourth: np.ndarray, grams: np.ndarray) -> np.ndarray:
    """n^{-1} Σ x_α⁴ / (n^{-1} Σ x_α²)² − 3 of a token, its mean over tokens."""
    square = np.einsum("...ii->...i", grams) ** 2
    return np.asarray((fourth / np.where(square > 0, square, 1.0)).mean(axis=-1) - 3.0)


def fourth_powers(x: object) -> Any:
    """n^{-1} Σ x_α⁴ of each vector, in the program."""
    return ll.average(ll.map(lambda v: v**4, x, kinks=()))


# --- of attention --------------------------------------------------------------------------------


def of_scores(p: Any, seen: Any, xp: Any = np) -> list[Any]:
    """The mean over rows of entropy / ln(tokens seen),
    and the mean square of the scores that are seen.
    """
    p = xp.where(seen, p, 0.0)
    shifted = xp.where(seen, p - xp.max(xp.where(seen, p, -xp.inf), axis=-1, keepdims=True), 0.0)
    weights = xp.where(seen, xp.exp(shifted), 0.0)
    total = weights.sum(axis=-1)
    entropy = xp.log(total) - (weights * shifted).sum(axis=-1) / total
    tokens = seen.sum(axis=-1)
    several = tokens > 1  # a token that sees itself alone has no choice
    relative = (
        xp.where(several, entropy / xp.log(xp.where(several, tokens, 2)), 0.0).sum()
        / several.sum()
    )
    return [relative, (p * p).sum() / seen.sum()]


def attention_statistics(attention: Attention) -> Any:
    """`of_scores` as numbers of the program."""
    shape = tuple(int(s) for s in attention.scores.shape)
    seen = np.broadcast_to(True if attention.visible is None else attention.visible, shape)
    return ll.apply(_of_scores_seen(shape, np.packbits(seen).tobytes()), attention.scores)


@functools.lru_cache(maxsize=64)
def _of_scores_seen(shape: tuple[int, ...], bits: bytes) -> Callable[[Any], Any]:
    """One function for all attentions with the same mask:
    programs are the same where their functions are.
    """
    seen = (
        np.unpackbits(np.frombuffer(bits, np.uint8), count=math.prod(shape))
        .astype(bool)
        .reshape(shape)
    )
    return lambda p: jnp.stack(of_scores(p, seen, jnp))


def has_choice(attention: Attention) -> bool:
    """Does a token see more than one?"""
    if attention.visible is None:
        return int(attention.scores.shape[-1]) > 1
    return bool((attention.visible.sum(axis=-1) > 1).any())


def measured_attention(exported: Exported, name: str, run: Numbers) -> np.ndarray:
    """`of_scores` of what a node of the graph, a softmax or a fused attention, has read."""
    node = next(n for n in exported.graph.nodes if n.name == name)
    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: run[n.name])
    if name_of(node.target) == "scaled_dot_product_attention":
        p, seen = _fused(*args, **kwargs)
    else:
        p = args[0].movedim(args[1] if len(args) > 1 else kwargs["dim"], -1)
        seen = p > MASKED
    return np.asarray(of_scores(p.numpy(), seen.numpy()))


def _fused(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, Any]:
    """The scores of scaled_dot_product_attention, and which are seen."""
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3) if enable_gqa else k
    p = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    seen = torch.ones_like(p, dtype=torch.bool)
    if is_causal:
        return p, seen.tril()
    if attn_mask is None:
        return p, seen
    if attn_mask.dtype == torch.bool:
        return p, attn_mask.expand(p.shape)
    return p + attn_mask, (p + attn_mask) > MASKED
