"""Statistics of layers: of vectors by their Gram matrix, of attention by its scores."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import torch

import limitlaw as ll
from limitlaw.depth.trace import program_at_infinity
from limitlaw.engines.asked import checked
from limitlaw.engines.effort import Pace
from limitlaw.engines.frames.finite import drawn_statistic
from limitlaw.engines.turns import Scores, Turns
from limitlaw.language import ops
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide
from limitlaw.numerics.replicates import Replicates
from limitlaw.torch.converted import Attention, LabelledValue
from limitlaw.torch.exporting import Exported, Tensors, arguments_of, name_of
from limitlaw.torch.layers import loops, rolled, within
from limitlaw.torch.making import MASKED

VARIANCE, CORRELATION, KURTOSIS = "variance", "token correlation", "excess kurtosis"
ENTROPY, SCORE_VARIANCE = "attention entropy / ln t", "score variance"
SQUARES = (VARIANCE, SCORE_VARIANCE)  # means of squares, whose root is a scale

AnyArray: TypeAlias = np.ndarray | jax.Array
ByStatistic = dict[str, np.ndarray]  # by statistic, one number for each draw


# --- of vectors ----------------------------------------------------------------------------------


def vectors_of(run: Tensors, item: LabelledValue) -> np.ndarray:
    """The vectors of a layer, one a row, as the graph of the module has computed them."""
    layout = item.layout
    assert layout.coordinate is not None
    x = np.moveaxis(run[item.label.name].numpy().reshape(layout.sizes), layout.coordinate, -1)
    return x.reshape(-1, layout.dimension)


def of_grams(grams: AnyArray, xp: ModuleType = np) -> dict[str, Any]:
    """The mean variance of tokens and the mean correlation of pairs, from each n^{-1} X Xᵀ."""
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


# --- of attention --------------------------------------------------------------------------------


def of_scores(p: AnyArray, seen: AnyArray, xp: ModuleType = np) -> list[Any]:
    """Mean over rows of entropy / ln(tokens seen), and mean square of the scores seen."""
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


def attention_statistics(attention: Attention) -> Scalars:
    """`of_scores` as numbers of the program."""
    shape = tuple(int(s) for s in attention.scores.shape)
    seen = np.broadcast_to(True if attention.visible is None else attention.visible, shape)
    return ll.apply(_of_scores_seen(shape, np.packbits(seen).tobytes()), attention.scores)


@functools.lru_cache(maxsize=64)
def _of_scores_seen(shape: tuple[int, ...], bits: bytes) -> Callable[[jax.Array], jax.Array]:
    """A function that is the same object for equal masks: programs are equal only if their
    functions are.
    """
    seen = (
        np.unpackbits(np.frombuffer(bits, np.uint8), count=math.prod(shape))
        .astype(bool)
        .reshape(shape)
    )
    return lambda p: jnp.stack(of_scores(p, seen, jnp))


def measured_attention(exported: Exported, name: str, run: Tensors) -> np.ndarray:
    """`of_scores` of the scores that a node of the graph, a softmax or a fused attention, has
    read.
    """
    node = next(n for n in exported.graph.nodes if n.name == name)
    args, kwargs = arguments_of(node, lambda n: run[n.name])
    if name_of(node.target) == "scaled_dot_product_attention":
        p, seen = _fused(*args, **kwargs)
    else:
        p = args[0].movedim(args[1] if len(args) > 1 else kwargs["dim"], -1)
        seen = p > MASKED
    return np.asarray(of_scores(p.numpy(), seen.numpy()))


def _fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
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


# --- of layers whose blocks are loops ------------------------------------------------------------


# the names of layers, and the value that has them: a vector for one, or a loop for several
Stage = tuple[tuple[str, ...], Wide]


def stages(
    values: Sequence[LabelledValue],
    layers: Mapping[str, LabelledValue],
    attentions: Mapping[str, Attention],
) -> list[Stage] | None:
    """The layers in their order, repeated ones as one loop; None where there is no loop, or
    attentions in a layer cannot be told apart.
    """
    outputs = [item.vectors for item in layers.values()]
    found = loops(values, layers, [outputs[-1]])
    if not found or not _one_each(layers, attentions):
        return None
    inside = {name: loop for loop in found for name in loop.names}
    result: list[Stage] = []
    for name, item in layers.items():
        if name not in inside:
            result.append(((name,), rolled(item.vectors, found)))
        elif name == inside[name].names[0]:
            result.append((inside[name].names, inside[name].value))
    return result


def _one_each(layers: Mapping[str, LabelledValue], attentions: Mapping[str, Attention]) -> bool:
    """Has every layer one attention at most, and every attention a layer?"""
    before: set[Value] = set()
    count = 0
    for name, item in layers.items():
        own = set(ancestors([item.value])) - before
        before |= own
        softmaxes = sum(isinstance(v.op, ops.Apply) and v.op.structure == "softmax" for v in own)
        inside = sum(within(a.label.module, name) for a in attentions.values())
        if softmaxes != inside or inside > 1:
            return False
        count += inside
    return count == len(attentions)


def _read(kernel: jax.Array, scores: Scores) -> jax.Array:
    """The statistics of vectors, then those of scores where there are any."""
    found = list(of_grams(kernel, jnp).values())
    if scores is not None:
        assert not isinstance(scores, tuple)  # one attention a layer: `_one_each`
        found += of_scores(scores, scores > -jnp.inf, jnp)
    return jnp.stack(found)


READ = Turns((_read,), given=False)  # the first output is a layer like the others


def at_width(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], width: int, samples: int
) -> dict[str, ByStatistic]:
    """The statistics of `samples` draws at this width."""
    outputs = tuple(value.core for _, value in parts)
    pace = Pace(samples, at_most=False)
    arrays = drawn_statistic("audit", outputs, width, pace, jax.random.key(0), READ)
    return _named(parts, attentions, [np.asarray(found[0]) for found in arrays])


def at_infinity(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], samples: int
) -> tuple[dict[str, ByStatistic], Replicates]:
    """The statistics as n → ∞, and which draws are independent; raises where there is no limit."""
    first, *others = [value for _, value in parts]
    checked("audit", others[-1])
    pace = Pace(samples, at_most=False)
    found = program_at_infinity(first, others, READ).replicated(pace, None)
    read = [np.asarray(array[0]) for array in found.arrays]
    if len(read) != len(parts):  # a loop that the limit had to write out, iteration by iteration
        parts = [((name,), value) for names, value in parts for name in names]
    return _named(parts, attentions, read), found.replicates


def _named(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], read: Sequence[np.ndarray]
) -> dict[str, ByStatistic]:
    """The statistics by layer and attention, from arrays (draws, iterations, statistics)."""
    of_layers: dict[str, ByStatistic] = {}
    of_attentions: dict[str, ByStatistic] = {}
    for (names, value), array in zip(parts, read, strict=True):
        own = list(of_grams(np.eye(max(1, int(np.prod([int(s) for s in value.shape]))))))
        for i, name in enumerate(names):
            at = array[:, i]
            of_layers[name] = dict(zip(own, at.T, strict=False))
            for other, a in attentions.items():
                if within(a.label.module, name):
                    of_attentions[other] = dict(
                        zip((ENTROPY, SCORE_VARIANCE), at.T[len(own) :], strict=True)
                    )
    for name in attentions:  # which may be a layer itself
        of_layers[name] = {**of_layers.get(name, {}), **of_attentions[name]}
    return of_layers
