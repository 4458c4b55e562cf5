"""Rules of both ends: embeddings, positions, logits and the first loss."""

import math
from collections.abc import Iterator

import torch

from limitlaw.torch.absolute.weights import named
from limitlaw.torch.exporting import name_of
from limitlaw.torch.finding import AuditFinding
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.roles import RolePiece
from limitlaw.torch.recipes.comparing import code
from limitlaw.torch.recipes.recipe import Std

LOUD = 10.0  # times as large as tokens are positions
LOSS = 1.0  # nats above ln V
LARGE_STREAM = 8.0  # root of the mean square of the stream before the first block
FEWEST_CLASSES = 10


def end_faults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The findings about embeddings, positions and logits."""
    yield from _logits(reading)
    yield from _positions(reading)
    yield from _order(reading)
    yield from _stream(reading)


def _logits(reading: ModuleReading) -> Iterator[AuditFinding]:
    """A first loss far above ln V."""
    for head in reading.of("head"):
        V = head.fan_out
        outputs = [
            node
            for node in reading.walk.outputs
            if head.event in reading.walk.leaves[node] and node.meta["val"].shape[-1] == V
        ]
        if V < FEWEST_CLASSES or not outputs or (V != reading.vocabulary and reading.vocabulary):
            continue
        logits = reading.run[outputs[0].name].double()
        loss = float((logits.logsumexp(-1) - logits.mean(-1)).mean())
        spread = float(logits.std(dim=-1).mean())
        if loss - math.log(V) <= LOSS:
            continue
        tables = reading.of("embedding")
        fan = head.fan_in
        if reading.tied and tables:
            yield AuditFinding(
                named(tables),
                f"its standard deviation is {tables[0].std:.3g} and the head is tied to it: "
                f"logits have standard deviation {spread:.3g}, and the first loss is {loss:.3g} "
                f"where ln V = {math.log(V):.3g}",
                f"each token predicts itself: its own logit is about √{fan} times as large as "
                "others",
                code(tables, Std(0.02)),
            )
        else:
            yield AuditFinding(
                named([head]),
                f"logits have standard deviation {spread:.3g}, and the first loss is {loss:.3g} "
                f"where ln V = {math.log(V):.3g}",
                f"the head is too large (standard deviation {head.std:.3g}, fan-in {fan}), or "
                "what it reads is: training first unlearns it",
                code([head], Std(1.0, "in")),
            )


# --- positions -----------------------------------------------------------------------------------


def _positions(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Positions that are far larger than tokens, or the same for all tokens."""
    walk = reading.walk
    tokens = {p.event for p in reading.of("embedding")}
    learned = {p.event: p for p in reading.of("positions")}
    for node in reading.exported.graph.nodes:
        if node.op != "call_function" or name_of(node.target) != "add":
            continue
        inputs = node.all_input_nodes
        own = [x for x in inputs if walk.leaves[x] & tokens and not walk.leaves[x] & set(learned)]
        others = [x for x in inputs if x not in own]
        if (
            len(own) != 1
            or len(others) != 1
            or not walk.leaves[own[0]] <= tokens | _types(reading)
        ):
            continue
        found = [learned[e] for e in walk.leaves[others[0]] if e in learned]
        x = walk.of.get(others[0])
        found += [learned[x]] if x in learned else []
        here, there = (reading.run.get(n.name) for n in (own[0], others[0]))
        if here is None or there is None or there.ndim < 2 or not there.is_floating_point():
            continue
        given = [p for p in found if p.event.parameter in reading.drawn]
        given = [p for p in given if reading.drawn[p.event.parameter].law == "given"]
        yield from _beside(here, there, found, bool(given), reading.of("embedding")[0])


def _types(reading: ModuleReading) -> frozenset[object]:
    return frozenset(p.event for p in reading.of("types"))


def _beside(
    tokens: torch.Tensor,
    positions: torch.Tensor,
    learned: list[RolePiece],
    given: bool,
    table: RolePiece,
) -> Iterator[AuditFinding]:
    ratio = float(positions.square().mean().sqrt() / tokens.square().mean().sqrt())
    place = learned[0].name if learned else table.name
    if ratio > LOUD:
        yield AuditFinding(
            place,
            f"positions are {ratio:.2g} times as large as tokens",
            "the stream says where a token is and hardly which: tokens drown",
            "x = tokens(ids) * width ** 0.5 + positions" if given or not learned else
            code(learned[:1], Std(float(f"{table.std:.2g}"))),
        )  # fmt: skip
    T = tokens.shape[-2]
    same = positions.shape[-2] == 1 or bool((positions == positions[..., :1, :]).all())
    if T > 1 and same and learned and float(positions.abs().max()) > 0:
        yield AuditFinding(
            place,
            "the same position is added to every token",
            "the order of tokens is invisible: positions are indexed by another axis than that of "
            "tokens",
            "positions(torch.arange(ids.shape[1], device=ids.device))",
            "fault",
        )


def _order(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Attention without a mask of tokens that nothing tells where they are."""
    masks = list(reading.masks.values())
    if not masks or set(masks) != {"none"} or not reading.of("embedding"):
        return
    if reading.of("positions", "types") or any(h.biased for h in reading.heads):
        return
    if any(reading.rotary.values()) or _given_positions(reading):
        return
    yield AuditFinding(
        named(reading.of("embedding")),
        "no position is added to tokens, and attention has no mask",
        "the order of tokens is invisible: a sentence is a bag of words",
        "x = tokens(ids) + positions(torch.arange(ids.shape[1]))",
    )


def _given_positions(reading: ModuleReading) -> bool:
    """Is a given table added to the embedding?"""
    walk = reading.walk
    for node in reading.exported.graph.nodes:
        if node.op == "call_function" and name_of(node.target) == "add":
            constant = [x for x in node.all_input_nodes if not walk.leaves[x]]
            streams = [x for x in node.all_input_nodes if walk.leaves[x]]
            found = [reading.run.get(x.name) for x in constant]
            if streams and any(x is not None and x.ndim >= 2 and x.numel() > 1 for x in found):
                return True
    return False


def _stream(reading: ModuleReading) -> Iterator[AuditFinding]:
    """A stream that starts far larger than what blocks add to it."""
    if not reading.heads or not reading.branches:
        return
    for table in reading.of("embedding"):
        first = reading.run.get(table.event.node.name)
        if first is None:
            continue
        size = float(first.square().mean().sqrt())
        if size > LARGE_STREAM and not (reading.tied and reading.of("head")):
            yield AuditFinding(
                table.name,
                f"the stream starts at {size:.3g}",
                "what blocks add is of order 1 and hardly matters beside it, until many steps "
                "have been trained",
                code([table], Std(1.0)),
            )
