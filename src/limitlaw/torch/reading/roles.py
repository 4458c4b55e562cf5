"""What each weight matrix does, read off the events of a graph: names have no say."""

import dataclasses
import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import torch

from limitlaw.torch.exporting import name_of
from limitlaw.torch.reading.events import Event, Walk, of_kind, readers, shown
from limitlaw.torch.reading.heads import Head

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
ROLES = (
    *("embedding", "positions", "types", "token", "input"),
    *("q", "k", "v", "qkv", "out", "gate", "up", "down", "head", "linear", "lora A", "lora B"),
)
_LINEAR = set(
    """view reshape _unsafe_view transpose permute unsqueeze squeeze select slice split clone
    contiguous split_with_sizes chunk unbind expand t flatten unflatten mul div neg dropout
    _to_copy to alias detach getitem add sub""".split()  # noqa: SIM905
)


@dataclasses.dataclass(frozen=True, eq=False)
class RolePiece:
    """A weight matrix (outputs, inputs), a table, or the rows of a fused matrix that do one thing.

    `block` is its place among the `blocks` members of its stack, in the order of the graph.
    `residual`: is what it gives added to the stream that its branch has read?
    """

    role: str
    name: str
    event: Event
    weight: torch.Tensor
    block: int = 0
    blocks: int = 1
    residual: bool = True

    @property
    def fan_in(self) -> int:
        """The number of entries that meet in one output; 1 for tables and vectors."""
        return int(self.weight.shape[-1]) if self.event.kind == "matrix" else 1

    @property
    def fan_out(self) -> int:
        """The number of outputs of the whole matrix."""
        whole = self.event.weight
        return int(whole.shape[0]) if whole is not None else 1

    @property
    def template(self) -> str:
        """The name without numbers."""
        return NUMBER.sub("*", self.name)

    @functools.cached_property
    def _moments(self) -> tuple[float, float, int]:
        """The means of squares and of fourth powers, and the number, of entries that are not 0."""
        count = int(self.weight.count_nonzero())
        powers = self.weight.square()
        square = float(powers.sum()) / max(1, count)
        return square, float(powers.square_().sum()) / max(1, count), count

    @property
    def square(self) -> float:
        """The mean square of the entries; zeros, as rows of padding have, do not count."""
        return self._moments[0]

    @property
    def std(self) -> float:
        """The root of the mean square of the entries."""
        return math.sqrt(self.square)

    @property
    def error(self) -> float:
        """The relative standard error of the mean square; at least that of a uniform law."""
        square, fourth, count = self._moments
        return math.sqrt(max(0.8, fourth / square**2 - 1) / count) if square else 0.0

    @property
    def gain(self) -> float:
        """Variance × fan-in: what the matrix multiplies a mean square by."""
        return self.square * self.fan_in


def pieces_of(walk: Walk, heads: Iterable[Head]) -> list[RolePiece]:
    """The matrices and tables of a module, each with what it does."""
    return _numbered(_Roles(walk, list(heads)).found())


def _numbered(found: list[RolePiece]) -> list[RolePiece]:
    """The pieces with their places in the stacks: pieces of one role and one name but for its
    numbers.
    """
    key = lambda p: (p.role, p.template)
    total, seen = Counter(map(key, found)), Counter[tuple[str, str]]()
    result = []
    for piece in found:
        own = key(piece)
        result.append(dataclasses.replace(piece, block=seen[own], blocks=total[own]))
        seen[own] += 1
    return result


class _Roles:
    """The roles of the events of one graph."""

    def __init__(self, walk: Walk, heads: list[Head]):
        self.walk, self.heads = walk, heads
        self.readers = readers(walk)
        self.shown = shown(walk)
        self.read = {event: walk.read_by(event) for event in walk.events}
        self.matrices = of_kind(walk.events, "matrix")
        self.role: dict[Event, str] = {}
        self.rows: dict[Event, list[tuple[str, torch.Tensor]]] = {}
        self.loose: set[Event] = set()  # what is not added to a stream

    def found(self) -> list[RolePiece]:
        """The pieces in the order of the graph; a matrix that is used several times, once."""
        for pair in self._adapters():
            self.role |= dict(zip(pair, ("lora A", "lora B"), strict=True))
        for head in self.heads:
            self._attention(head)
        for event in self.matrices:
            self._branch(event)
        known: set[tuple[str, str]] = set()
        result = []
        for piece in self._pieces():
            if (piece.role, piece.event.parameter) not in known:
                known.add((piece.role, piece.event.parameter))
                result.append(piece)
        return result

    def _pieces(self) -> Iterator[RolePiece]:
        for event in self.walk.events:
            weight = event.weight
            if weight is None:
                continue
            residual = event not in self.loose
            for role, rows in self.rows.get(event, []):
                yield RolePiece(role, event.name, event, weight[rows], residual=residual)
            if event not in self.rows:
                role = self.role.get(event) or self._other(event)
                yield RolePiece(role, event.name, event, weight, residual=residual)

    # --- adapters --------------------------------------------------------------------------------

    def _adapters(self) -> Iterator[tuple[Event, Event]]:
        """Pairs of a low rank that are added to what a matrix gives of the same input."""
        for second in self.matrices:
            (first, *others) = self.read[second] or [second]
            assert second.weight is not None
            if others or first is second or first.weight is None or first.kind != "matrix":
                continue
            rank, most = first.weight.shape[0], min(first.weight.shape[1], *second.weight.shape)
            if rank > most or self.readers[first] != [second]:
                continue
            beside = [
                e
                for e in self.matrices
                if e not in (first, second)
                and self.read[e] == self.read[first]
                and self.readers[e] == self.readers[second]
                and e.weight is not None
                and e.weight.shape[0] == second.weight.shape[0]
                and rank < min(e.weight.shape)
            ]
            if beside and straight(self.walk, second.reads[0], first):
                yield first, second

    # --- attention -------------------------------------------------------------------------------

    def _attention(self, head: Head) -> None:
        for role, node in (("q", head.queries), ("k", head.keys), ("v", head.values)):
            for event in self.walk.leaves[node]:
                if event.kind == "matrix" and event not in self.role:
                    gradient = self.walk.influence(node, event)
                    rows = gradient.reshape(-1, gradient.shape[-1]).any(0)
                    if rows.any():
                        self._used(event, role, rows)
        for event in self.readers[head.mix]:
            read = self.read[event]
            inside = not of_kind(read, "table", "input", "vector")
            one = len(of_kind(read, *_MIXES)) == 1
            if event.kind == "matrix" and inside and one and event not in self.role:
                self.role[event] = "out"
                made_by = [self.read[e] for e in self._made_by(head)]
                self._joined(event, frozenset[Event]().union(*made_by))

    def _made_by(self, head: Head) -> list[Event]:
        nodes = (head.queries, head.keys, head.values)
        return [e for n in nodes for e in self.walk.leaves[n] if e.kind == "matrix"]

    def _used(self, event: Event, role: str, rows: torch.Tensor) -> None:
        """Note what rows of a matrix do; rows that are used for several things keep the first."""
        assert event.weight is not None
        if len(rows) != event.weight.shape[0]:
            rows = torch.ones(event.weight.shape[0], dtype=torch.bool)
        own = self.rows.setdefault(event, [])
        for _, taken in own:
            rows = rows & ~taken
        if rows.any():
            own.append((role, rows))

    # --- branches of the stream ------------------------------------------------------------------

    def _joined(self, event: Event, stream: frozenset[Event]) -> bool:
        """Is what an event gives read together with what its branch has read?"""
        joined = any(self.read[e] & stream for e in self.readers[event])
        joined |= event in self.shown and bool(self.shown & stream)
        if not joined and (stream or self.readers[event]):
            self.loose.add(event)
        return joined

    def _branch(self, event: Event) -> None:
        """An MLP: one or two hidden matrices that this one alone reads, of the same input."""
        adapters = {e for e, role in self.role.items() if role.startswith("lora")}
        hidden = [e for e in self.read[event] if e not in adapters]
        if event in self.role or event in self.rows or not hidden:
            return
        if any(
            e.kind != "matrix"
            or e in self.role
            or e in self.rows
            or [x for x in self.readers[e] if x not in adapters] != [event]
            or e in self.shown
            for e in hidden
        ):
            return
        stream = self.read[hidden[0]]
        if any(self.read[e] != stream for e in hidden):
            return
        if not self._joined(event, stream) and (
            not self.heads or not self.readers[event] or len(stream) < 2
        ):
            self.loose.discard(event)
            return
        self.role[event] = "down"
        for e in hidden:
            self.role[e] = "gate" if len(hidden) > 1 and self._bent(e) else "up"

    def _bent(self, event: Event) -> bool:
        """Does a nonlinearity act on what a matrix gives, alone?"""
        own = frozenset({event})
        return any(
            own == leaves
            and node is not event.node
            and name_of(node.target) not in _LINEAR | {"linear"}
            for node, leaves in self.walk.leaves.items()
        )

    # --- others ----------------------------------------------------------------------------------

    def _other(self, event: Event) -> str:
        """What tables, vectors and the matrices before and behind the blocks do."""
        if event.kind == "table":
            return self._table(event)
        assert event.weight is not None
        if event.kind == "vector":
            if event.weight.ndim < 2:
                return "bias"
            return "positions" if max(event.weight.shape[:-1]) > 1 else "token"
        read = self.read[event]
        if read and not [e for e in read if e.kind != "input"]:
            return "input" if self.readers[event] else "linear"
        ends = event in self.shown and not self.readers[event]
        return "head" if ends and (self.heads or of_kind(self.walk.events, "table")) else "linear"

    def _table(self, event: Event) -> str:
        index = event.reads[0]
        where = torch.as_tensor(self.walk.numbers[index])
        x = index
        while x.op == "call_function" and name_of(x.target) in _LINEAR and x.all_input_nodes:
            x = x.all_input_nodes[0]
        if x.name in self.walk.exported.inputs:
            return "embedding"
        same = where.numel() > 1 and bool((where == where.reshape(-1)[0]).all())
        return "types" if same else "positions"


_MIXES = ("product", "attention")


def straight(walk: Walk, node: torch.fx.Node, leaf: Event) -> bool:
    """Does a node follow from a leaf by moves and factors alone?"""
    todo, seen = [node], {leaf.node}
    while todo:
        x = todo.pop()
        if x in seen or leaf not in walk.leaves[x]:
            continue
        seen.add(x)
        if x in walk.of or name_of(x.target) not in _LINEAR:
            return False
        todo += x.all_input_nodes
    return True
