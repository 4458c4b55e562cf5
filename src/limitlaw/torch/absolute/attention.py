"""Rules of attention: masks, the scale of scores, rotary embeddings, weights that say nothing."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import torch

from limitlaw.torch.errors import label_of
from limitlaw.torch.exporting import Exported, computed
from limitlaw.torch.finding import AuditFinding, places
from limitlaw.torch.health import ONE_HOT, UNIFORM
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.box import scale_of
from limitlaw.torch.reading.heads import Head

FEWEST_COORDINATES = 4  # heads of fewer coordinates cannot show a missing 1/√d
BEYOND_VALUES = 5.0  # times the standard deviation of values that queries and keys have
SCALE_ROUNDING = 1e-6


def attention_faults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The findings about attentions."""
    yield from _masks(reading)
    yield from _absent(reading)
    yield from _leaks(reading)
    yield from _sums(reading)
    yield from _scales(reading)
    yield from _queries_and_keys(reading)
    yield from _rotary(reading)


def _where(heads: Sequence[Head], reading: ModuleReading) -> str:
    return places([h.module for h in heads], len({h.module for h in reading.heads}))


# --- masks ---------------------------------------------------------------------------------------


_WRONG = {
    "causal, off by one (sees the next)": (
        "its mask lets each token see the next one",
        "the model reads what it is to predict: its loss falls to 0 and it generates nothing",
        "mask = torch.ones(T, T, dtype=torch.bool).tril()  # diagonal 0, not 1",
    ),
    "causal, off by one (not itself)": (
        "its mask hides each token from itself",
        "a token cannot attend to itself, and the first one has nothing to attend to",
        "mask = torch.ones(T, T, dtype=torch.bool).tril()  # diagonal 0, not -1",
    ),
    "only the future": (
        "its mask shows only what follows",
        "it is inverted: True is seen for scaled_dot_product_attention, hidden for nn.Transformer",
        "mask = ~mask",
    ),
}


def _masks(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Masks off by one, inverted, soft, or unlike those of the other blocks."""
    for kind, (what, does, change) in _WRONG.items():
        wrong = [h for h, mask in reading.masks.items() if mask == kind]
        if wrong:
            yield AuditFinding(_where(wrong, reading), what, does, change, "fault")
    soft = [h for h in reading.heads if h.soft]
    if soft:
        yield AuditFinding(
            _where(soft, reading),
            f"its mask adds {soft[0].soft:.3g} to scores, expected −inf",
            f"what is hidden keeps e^{soft[0].soft:.3g} of its weight: the future is seen",
            "scores.masked_fill(~mask, float('-inf'))",
            "fault",
        )
    stacks: dict[str, list[Head]] = {}
    for head in reading.masks:
        stacks.setdefault(_stack(reading, head), []).append(head)
    for own in stacks.values():
        free = [h for h in own if reading.masks[h] == "none"]
        causal = [h for h in own if reading.masks[h].startswith("causal")]
        if free and causal:
            yield AuditFinding(
                _where(free, reading),
                f"it has no mask, where {places([h.module for h in causal])} is causal",
                "what it writes carries the future to all later blocks",
                "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
                "fault",
            )


def _stack(reading: ModuleReading, head: Head) -> str:
    made_by = reading.matrices_of(head, "v") or reading.matrices_of(head, "q")
    return made_by[0].template if made_by else head.module


def _absent(reading: ModuleReading) -> Iterator[AuditFinding]:
    """No mask at all, where logits over the own vocabulary follow straight from the stream."""
    tables = {p.event for p in reading.of("embedding")}
    reads = [p for p in reading.of("head") if p.fan_out == reading.vocabulary]
    stream = [p for p in reads if reading.walk.read_by(p.event) & tables]
    masks = list(reading.masks.values())
    if stream and masks and set(masks) == {"none"} and len(reading.heads) == len(masks):
        yield AuditFinding(
            _where(list(reading.masks), reading),
            f"attention has no mask, and {stream[0].name} gives logits of the next token",
            "every token sees the future that it is to predict, unless masked tokens are what is "
            "predicted",
            "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        )


def _leaks(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Places where earlier tokens change with the last one, though every mask is causal."""
    masks = list(reading.masks.values())
    if not masks or not all(mask.startswith("causal") for mask in masks):
        return
    if any("sees the next" in mask for mask in masks) or any(h.soft for h in reading.heads):
        return
    tables = reading.of("embedding")
    if len(reading.of("q")) == 0 or len({p.event.parameter for p in tables}) != 1:
        return
    graph = reading.exported
    ids = [n for n in graph.inputs if _are_tokens(reading, n)]
    if len(ids) != 1 or reading.vocabulary < 2:
        return
    tokens = graph.constants[ids[0]]
    B, T = tokens.shape
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % reading.vocabulary
    there = computed(_with_constant(reading, ids[0], changed), graph.arrays)
    sums = {b.sum for b in reading.branches}
    for node in graph.graph.nodes:
        event = reading.walk.of.get(node)
        if node not in sums and (event is None or event.kind != "matrix"):
            continue
        here, other = reading.run[node.name], there[node.name]
        if here.ndim != 3 or here.shape[:2] != (B, T):
            continue
        before, after = here[:, :-1], other[:, :-1]
        if not torch.allclose(before, after, rtol=1e-6, atol=1e-9):
            yield AuditFinding(
                label_of(node).module,
                "its first tokens change with the last one, though attention is causal",
                "the future leaks past the mask: a softmax, norm or mean over the axis of tokens",
                "softmax(scores, dim=-1); LayerNorm over the last axis only",
                "fault",
            )
            return


def _are_tokens(reading: ModuleReading, name: str) -> bool:
    value = reading.exported.constants[name]
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in (torch.int64, torch.int32)
        and value.ndim == 2
        and value.shape[1] > 1
        and any(name == x.name for p in reading.of("embedding") for x in _before(p.event.reads[0]))
    )


def _before(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    yield node
    for x in node.all_input_nodes:
        yield from _before(x)


def _with_constant(reading: ModuleReading, name: str, value: torch.Tensor) -> Exported:
    graph = reading.exported
    return dataclasses.replace(graph, constants={**graph.constants, name: value})


def _sums(reading: ModuleReading) -> Iterator[AuditFinding]:
    wrong = [h for h in reading.heads if abs(h.sums - 1) > 1e-3]
    if wrong:
        yield AuditFinding(
            _where(wrong, reading),
            f"the weights of a query sum to {wrong[0].sums:.3g}, expected 1",
            "the softmax runs over another axis than that of the keys, or the mask is applied "
            "behind it: what is mixed depends on tokens that should not matter",
            "torch.softmax(scores.masked_fill(~mask, float('-inf')), dim=-1)",
            "fault",
        )


# --- scores --------------------------------------------------------------------------------------


def _scales(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Scores without 1/√d, with it twice, and with √width instead."""
    found: dict[tuple[str, int], list[Head]] = {}
    for head in reading.heads:
        d = int(torch.as_tensor(reading.walk.numbers[head.queries]).shape[-1])
        said = _scale_fault(reading, head, d)
        if said:
            found.setdefault((said, d), []).append(head)
    for (said, d), heads in found.items():
        what, does = said.split("|")
        yield AuditFinding(
            _where(heads, reading), what, does,
            f"scores = q @ k.transpose(-2, -1) / {d} ** 0.5", "fault",
        )  # fmt: skip


def _scale_fault(reading: ModuleReading, head: Head, d: int) -> str:
    total = scale_of(reading, head)
    if total is None or d < FEWEST_COORDINATES:
        return ""
    total = abs(total)
    q, k = (reading.matrices_of(head, role) for role in ("q", "k"))
    sizes = [p.gain for p in (*q[:1], *k[:1])]
    balance = math.sqrt(min(sizes) / max(sizes)) if len(sizes) == 2 and min(sizes) > 0 else 1.0
    excess = total * math.sqrt(d) * balance
    if excess > d**0.25:
        return (
            f"q·k is multiplied by {total:.3g}, expected 1/√d = {d**-0.5:.3g} with d = {d}"
            f"|the scores have {excess**2:.2g} times the variance, which grows with d and makes "
            "attention one-hot"
        )
    width = q[0].fan_in if q else d
    if width > d and abs(total * math.sqrt(width) - 1) < SCALE_ROUNDING:
        return (
            f"q·k is multiplied by 1/√{width}, of the width, expected 1/√d = {d**-0.5:.3g} with "
            f"d = {d}|scores are √heads times too small, and attention is flatter"
        )
    twice = abs(head.factor * math.sqrt(d) - 1) < SCALE_ROUNDING
    if twice and abs(total * d - 1) < SCALE_ROUNDING:
        return (
            f"q·k is multiplied by 1/√d twice, by {total:.3g}, expected 1/√d = {d**-0.5:.3g} with "
            f"d = {d}|q is scaled, and scaled_dot_product_attention scales again: scores are √d "
            "times too small, and attention is flatter"
        )
    return ""


def sharpness(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Attention that is one-hot or uniform."""
    one_hot = [h for h, (entropy, _) in reading.scores.items() if entropy < ONE_HOT]
    flat = [h for h, (entropy, _) in reading.scores.items() if 1 - entropy < UNIFORM]
    sizes = {h: math.sqrt(square) for h, (_, square) in reading.scores.items()}
    if one_hot:
        yield AuditFinding(
            _where(one_hot, reading),
            f"attention is one-hot, its entropy below {ONE_HOT} of ln t, scores of standard "
            f"deviation {sizes[one_hot[0]]:.3g}",
            "each token copies one other, and gradients through the softmax vanish",
            "initialise q and k smaller, or norm them",
        )
    if flat:
        yield AuditFinding(
            _where(flat, reading),
            f"attention is uniform, its entropy within {UNIFORM:g} of ln t, scores of standard "
            f"deviation {sizes[flat[0]]:.1g}",
            "queries and keys are too small to matter: attention is a mean over tokens",
            "initialise q and k larger",
        )


def _queries_and_keys(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Queries and keys far larger or smaller than values, of the same weights or none."""
    apart: dict[bool, list[tuple[Head, float]]] = {}
    for head in reading.heads:
        own = [reading.matrices_of(head, role)[:1] for role in ("q", "k", "v")]
        if not all(own) or reading.walk.degree(head.queries) == 0:
            continue
        q, k, v = (p[0].std for p in own)
        if v and min(q, k) > BEYOND_VALUES * v:
            apart.setdefault(True, []).append((head, min(q, k) / v))
        if q and k and max(q, k) * BEYOND_VALUES < v:
            apart.setdefault(False, []).append((head, max(q, k) / v))
    for large, found in apart.items():
        heads = [head for head, _ in found]
        names = _names(reading, heads)
        yield AuditFinding(
            places(names, len(names)),
            f"q and k are {found[0][1]:.2g} times as large as v",
            "scores are as the product of both: attention is "
            + ("far sharper than meant" if large else "nearly uniform"),
            "initialise q, k and v with one standard deviation",
        )


def _names(reading: ModuleReading, heads: Sequence[Head]) -> list[str]:
    return [p.name for h in heads for role in ("q", "k") for p in reading.matrices_of(h, role)]


# --- rotary embeddings ---------------------------------------------------------------------------


def _rotary(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Rotations along heads, of one of q and k alone, or of values."""
    turned = {key: rotary for key, rotary in reading.rotary.items() if rotary is not None}
    along = [h for (h, role), r in turned.items() if r.along != "tokens" and role == "q"]
    if along:
        yield AuditFinding(
            _where(along, reading),
            "its rotary embedding turns along the axis of heads, not of tokens",
            "queries know their head instead of their position: the order of tokens is invisible",
            "rotate q and k while their axes are (…, tokens, d), or index cos and sin by tokens",
            "fault",
        )
        return
    halves = {
        h: [role for role in ("q", "k") if (h, role) in turned and reading.rotary[h, role]]
        for h in reading.heads
    }
    lone = [h for h, roles in halves.items() if len(roles) == 1 and (h, "k") in reading.rotary]
    if lone:
        yield AuditFinding(
            _where(lone, reading),
            f"only {halves[lone[0]][0]} is rotated, not both of q and k",
            "scores depend on absolute positions, as if all others stood at 0",
            "q, k = rotate(q), rotate(k)",
            "fault",
        )
    unequal = [
        h for h, roles in halves.items() if len(roles) == 2 and turned[h, "q"] != turned[h, "k"]
    ]
    if unequal:
        yield AuditFinding(
            _where(unequal, reading),
            f"q is rotated {turned[unequal[0], 'q']}, k {turned[unequal[0], 'k']}",
            "scores do not depend on distances of positions",
            "use one table of cos and sin for both",
            "fault",
        )
