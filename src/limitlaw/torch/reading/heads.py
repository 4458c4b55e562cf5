"""The attentions of a module, each with its mask, its score scale and its rotary embedding."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from limitlaw.torch.exporting import arguments_of, name_of
from limitlaw.torch.making import MASKED
from limitlaw.torch.reading.events import Event, Walk, of_kind, readers

SOFT = 30.0  # a number that is added to hide a score leaves e^-30 of it


@dataclasses.dataclass(frozen=True, eq=False)
class Head:
    """One attention, of all its heads: q·k, softmax, and the vectors that it mixes.

    `queries`, `keys`, `values` are the nodes with axes (…, tokens, d); `seen` says which key each
    query sees; `soft` is the largest number that hides one without being −∞ (0: none); `factor`
    multiplies q·k; `biased`: does anything but q·k make scores differ? `turned`: are the keys'
    axes (…, d, tokens)? `sums`: what the weights of a query sum to, over the vectors they mix.
    """

    module: str
    softmax: Event
    mix: Event
    queries: torch.fx.Node
    keys: torch.fx.Node
    values: torch.fx.Node
    seen: torch.Tensor
    soft: float
    factor: float
    biased: bool = False
    turned: bool = False
    sums: float = 1.0

    @property
    def node(self) -> str:
        """The name of the operation in the graph whose operand the scores are."""
        return self.softmax.node.name


def heads(walk: Walk) -> Iterator[Head]:
    """The attentions of a graph, in their order."""
    read = readers(walk)
    for event in of_kind(walk.events, "softmax", "attention"):
        if event.kind == "attention":
            yield _fused(walk, event)
            continue
        scores = of_kind(walk.leaves[event.reads[0]], "product")
        mixes = of_kind(read[event], "product")
        if scores and mixes:
            longest = max(scores, key=lambda e: _size(walk, e.reads[0]))
            yield _written(walk, event, longest, mixes[0])


def _size(walk: Walk, node: torch.fx.Node) -> int:
    """The coordinates that meet in q·k."""
    return int(_tensor(walk, node).shape[-1])


def _tensor(walk: Walk, node: torch.fx.Node) -> torch.Tensor:
    return torch.as_tensor(walk.numbers[node]).detach()


def _fused(walk: Walk, event: Event) -> Head:
    """The attention of scaled_dot_product_attention."""
    _, kwargs = arguments_of(event.node, walk.numbers.__getitem__)
    q, k, v = event.reads
    names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    settings: dict[str, Any] = {**dict(zip(names, event.node.args[3:], strict=False)), **kwargs}
    mask = settings.get("attn_mask")
    mask = walk.numbers[mask] if isinstance(mask, torch.fx.Node) else mask
    d, tokens, others = (int(_tensor(walk, x).shape[i]) for x, i in ((q, -1), (q, -2), (k, -2)))
    seen = torch.ones(tokens, others, dtype=torch.bool)
    soft = 0.0
    if settings.get("is_causal"):
        seen = seen.tril()
    elif isinstance(mask, torch.Tensor):
        mask = mask.detach()
        seen = mask if mask.dtype == torch.bool else mask > MASKED
        soft = 0.0 if mask.dtype == torch.bool else _soft(mask)
    scale = settings.get("scale")
    factor = d**-0.5 if scale is None else float(scale)
    biased = isinstance(mask, torch.Tensor) and len(mask.unique()) > 2
    return Head(event.module, event, event, q, k, v, seen, soft, factor, biased)


def _soft(added: torch.Tensor) -> float:
    """The number that is added to hide scores, of which it leaves something; 0 for none: masks
    have two values, and zeros on the diagonal.
    """
    values = added[added > MASKED].unique()
    if len(values) != 2 or float(values[1]) != 0 or added.shape[-1] < 2:
        return 0.0
    hides = added[(0,) * (added.ndim - 2)].flatten(0, -2) == values[0]
    return float(values[0]) if 0 > float(values[0]) > -SOFT and bool(hides.any()) else 0.0


def _written(walk: Walk, softmax: Event, scores: Event, mix: Event) -> Head:
    """The attention whose softmax is written out."""
    inside = _tensor(walk, softmax.reads[0])
    seen = inside > MASKED
    product = _tensor(walk, scores.node)
    moved = walk.again(softmax.reads[0], {scores: product + 1})
    steps = (moved - inside)[seen]
    factor = float(steps.median()) if steps.numel() else 0.0
    rest = walk.again(softmax.reads[0], {scores: torch.zeros_like(product)})
    others = walk.leaves[softmax.reads[0]] - {scores}
    biased = bool(others) or len(rest[seen].round(decimals=9).unique()) > 1
    alpha = scores.node.kwargs.get("alpha", 1.0)  # of baddbmm
    factor *= alpha if isinstance(alpha, int | float) else 1.0
    left, right = scores.reads
    turned = name_of(scores.node.target) != "einsum"
    values = next(x for x in mix.reads if softmax not in walk.leaves[x] or x is mix.reads[-1])
    weights = next(x for x in mix.reads if softmax in walk.leaves[x])
    return Head(
        scores.module or softmax.module, softmax, mix, left, right, values, seen, _soft(rest),
        factor, biased, turned, _sums(walk, weights, mix),
    )  # fmt: skip


def _sums(walk: Walk, weights: torch.fx.Node, mix: Event) -> float:
    """The sum of the weights of a query, over what they mix: the one farthest from 1."""
    array = _tensor(walk, weights)
    if weights is not mix.reads[0] or str(mix.node.target).startswith("aten.einsum"):
        return 1.0
    sums = array.sum(-1)
    return float(sums.reshape(-1)[int((sums - 1).abs().argmax())])


# --- masks ---------------------------------------------------------------------------------------


def mask_of(seen: torch.Tensor) -> str:
    """What queries see, in words."""
    tokens, others = seen.shape[-2:]
    every = seen.reshape(-1, tokens, others)
    if bool(every.all()):
        return "none" if tokens == others else "none (cross)"
    if tokens != others or not bool((every == every[0]).all()):
        return "by sequence" if not bool(every.triu(1).any()) or tokens != others else "padding"
    first, full = every[0], torch.ones(tokens, tokens, dtype=torch.bool)
    for name, shift in (("causal", 0), ("causal, off by one (sees the next)", 1)):
        if bool((first == full.tril(shift)).all()):
            return name
    rest = first[1:, : tokens - 1]
    if not bool(first.triu().any()) or bool((rest == full.tril(-1)[1:, : tokens - 1]).all()):
        return "causal, off by one (not itself)"
    for name, shift in (("only the future", 0), ("only the future", 1)):
        if bool((first == full.triu(shift)).all()):
            return name
    if not bool(first.triu(1).any()):
        return "causal, a window"
    return "padding" if bool((first == first[:1]).all()) else "given"


# --- rotary embeddings ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RotaryReading:
    """A rotary embedding: the axis along which it turns, tokens or heads, which coordinates are
    pairs (halves or neighbours), and the base of its angles; None where they are no powers.
    """

    along: str
    pairs: str
    base: float | None

    def __str__(self) -> str:
        base = f", base {self.base:g}" if self.base else ""
        return f"along {self.along} ({self.pairs}{base})"


def rotary_of(walk: Walk, node: torch.fx.Node, turned: bool = False) -> RotaryReading | None:
    """How the queries (keys, values) at a node are rotated; None where they are not. `turned`:
    their axes are (…, d, tokens).

    They are made again from one vector, the same for all tokens and heads: what then differs
    along an axis is turned along it.
    """
    d = int(_tensor(walk, node).shape[-2 if turned else -1])
    one = torch.linspace(1.0, 2.0, d, dtype=torch.float64)
    same = {}
    for event in walk.leaves[node]:
        leaf = _tensor(walk, event.node)
        if event.kind != "matrix" or leaf.shape[-1] % d or d < 2:
            return None
        same[event] = one.repeat(leaf.shape[-1] // d).expand(leaf.shape)
    made = walk.again(node, same)
    made = made.mT if turned else made
    moving = [axis for axis in range(-made.ndim, -1) if _varies(made, axis)]
    if not moving:
        return None
    along = "tokens" if moving == [-2] else "heads"
    track = made.movedim(moving[-1], 0)
    track = track.reshape(len(track), -1, d)[:, 0]
    for pairs, left, right in (
        ("halves", track[:, : d // 2], track[:, d // 2 :]),
        ("neighbours", track[:, 0::2], track[:, 1::2]),
    ):
        if left.shape == right.shape:
            turns = torch.complex(left, right)
            if torch.allclose(turns.abs(), turns[:1].abs().expand(turns.shape), rtol=1e-4):
                return RotaryReading(along, pairs, _base(turns))
    return RotaryReading(along, "others", None)


def _varies(made: torch.Tensor, axis: int) -> bool:
    first = made.narrow(axis, 0, 1)
    return not torch.allclose(made, first.expand(made.shape), rtol=1e-6, atol=1e-9)


def _base(turns: torch.Tensor) -> float | None:
    """The base b of angles b^{-m/M} for the pairs m = 0, …, M − 1."""
    step = torch.angle(turns[1] / turns[0]).abs()
    pairs = len(step)
    if pairs < 2 or abs(float(step[0]) - 1) > 1e-3 or float(step.min()) <= 0:
        return None
    base = float(step[1]) ** -pairs
    powers = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return float(f"{base:.3g}") if torch.allclose(step, powers, rtol=1e-2) else None
