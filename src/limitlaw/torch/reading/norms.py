"""Where norms stand: before a branch, behind it, or behind the sum with the stream."""

import dataclasses

import torch

from limitlaw.torch.exporting import name_of
from limitlaw.torch.reading.events import Event, Walk
from limitlaw.torch.reading.roles import RolePiece
from limitlaw.torch.rules import MOVES

PRE, POST, AFTER, BOTH, NO_NORM = "pre", "post", "after the branch", "before and after", "none"


@dataclasses.dataclass(frozen=True, eq=False)
class ResidualBranch:
    """A branch of the stream that ends in `piece`, the node where it is added, and its norms."""

    piece: RolePiece
    sum: torch.fx.Node
    placement: str


def branches_of(walk: Walk, pieces: list[RolePiece]) -> list[ResidualBranch]:
    """The branches in the order of the graph."""
    found = []
    for piece in pieces:
        if piece.role in ("out", "down") and piece.residual:
            known = _read_by_branch(walk, piece, pieces)
            joined = _join(walk, piece.event, frozenset(known))
            if joined is not None:
                node, own, other = joined
                first = _input(piece, pieces)
                read, stream, given = (walk.degree(x) for x in (first, other, own))
                raw = _unmoved(first) is _unmoved(other)
                found.append(ResidualBranch(piece, node, _placement(read, stream, given, raw)))
    return found


def _input(piece: RolePiece, pieces: list[RolePiece]) -> torch.fx.Node:
    """The node that the branch of a piece reads."""
    first = _beginning(piece, pieces)
    return (first or piece).event.reads[0]


def _beginning(piece: RolePiece, pieces: list[RolePiece]) -> RolePiece | None:
    """The first matrix of the branch that ends in a piece."""
    roles = ("up", "gate") if piece.role == "down" else ("v", "q")
    order = [p for p in pieces if p.role in (*roles, piece.role)]
    before = order[: order.index(piece)]
    return next((p for p in reversed(before) if p.role in roles), None)


def _read_by_branch(walk: Walk, piece: RolePiece, pieces: list[RolePiece]) -> set[Event]:
    first = _beginning(piece, pieces)
    return set(walk.read_by(first.event)) if first is not None else set()


def _join(
    walk: Walk, event: Event, stream: frozenset[Event]
) -> tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node] | None:
    """The sum of what an event gives with its stream, and the two that are added."""
    for node in walk.exported.graph.nodes:
        if node.op != "call_function" or name_of(node.target) not in ("add", "sub"):
            continue
        inputs = node.all_input_nodes
        own = [x for x in inputs if event in walk.leaves[x]]
        others = [x for x in inputs if event not in walk.leaves[x] and walk.leaves[x] & stream]
        if own and others:
            return node, own[0], others[0]
    return None


def _unmoved(node: torch.fx.Node) -> torch.fx.Node:
    """The node of which a node is a view."""
    while node.op == "call_function" and name_of(node.target) in MOVES:
        node = node.all_input_nodes[0]
    return node


def _placement(read: float | None, stream: float | None, given: float | None, raw: bool) -> str:
    """Norms by how much the branch's input, the stream, and what is added to it grow with all
    leaves; `raw`: the branch reads the stream as it is.
    """
    if given == 0:
        return BOTH if read == 0 else AFTER
    if stream == 0 and raw:
        return POST
    return PRE if read == 0 else NO_NORM
