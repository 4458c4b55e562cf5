"""`read`: a module in its reader's terms."""

import copy
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from limitlaw.float64 import in_float64
from limitlaw.torch.converting import Module
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.exporting import Exported, Tensors, computed, exported, name_of
from limitlaw.torch.measuring import measured_attention
from limitlaw.torch.reading.events import Walk
from limitlaw.torch.reading.heads import Head, RotaryReading, heads, mask_of, rotary_of
from limitlaw.torch.reading.norms import ResidualBranch, branches_of
from limitlaw.torch.reading.roles import RolePiece, pieces_of
from limitlaw.torch.scales import DrawnAs, made

Drawn: TypeAlias = Mapping[str, DrawnAs]


@dataclasses.dataclass(frozen=True, eq=False)
class ModuleReading:
    """What a module is: its matrices by role, its attentions, its norms, its own numbers.

    `str()` of it is a box in a reader's terms.
    """

    exported: Exported
    walk: Walk
    heads: tuple[Head, ...]
    pieces: tuple[RolePiece, ...]
    drawn: Drawn
    broken: tuple[str, ...] = ()  # parameters that hold NaN or infinite numbers, read as zeros

    def of(self, *roles: str) -> list[RolePiece]:
        """The pieces of these roles, in the order of the graph."""
        return [piece for piece in self.pieces if piece.role in roles]

    @functools.cached_property
    def branches(self) -> list[ResidualBranch]:
        """The branches of the residual stream."""
        return branches_of(self.walk, list(self.pieces))

    @functools.cached_property
    def run(self) -> Tensors:
        """The numbers of every node of the graph, for the module's own parameters."""
        with torch.no_grad():
            return computed(self.exported, self.exported.arrays)

    @functools.cached_property
    def nodes(self) -> dict[str, torch.fx.Node]:
        """The nodes of the graph by their names."""
        return {node.name: node for node in self.exported.graph.nodes}

    @functools.cached_property
    def scores(self) -> dict[Head, tuple[float, float]]:
        """The entropy over its largest, and the mean square of the scores, of each attention."""
        found = {}
        for head in self.heads:
            if int(head.seen.sum(-1).max()) > 1:
                entropy, square = measured_attention(self.exported, head.node, self.run)
                found[head] = (float(entropy), float(square))
        return found

    def matrices_of(self, head: Head, role: str) -> list[RolePiece]:
        """The matrices that make the queries, keys or values of an attention."""
        node = {"q": head.queries, "k": head.keys, "v": head.values}[role]
        leaves = self.walk.leaves[node]
        return [p for p in self.pieces if p.role == role and p.event in leaves]

    @functools.cached_property
    def rotary(self) -> dict[tuple[Head, str], RotaryReading | None]:
        """How queries, keys and values of each attention are rotated."""
        found = {}
        for head in self.heads:
            for role, node in (("q", head.queries), ("k", head.keys), ("v", head.values)):
                if name_of(head.mix.node.target) != "einsum" and self.walk.leaves[node]:
                    found[head, role] = rotary_of(self.walk, node, head.turned and role == "k")
        return found

    @property
    def masks(self) -> dict[Head, str]:
        """The mask of each attention of tokens with themselves, where there are two or more."""
        found = {h: mask_of(h.seen) for h in self.heads if h.seen.shape[-2] > 1}
        return {h: mask for h, mask in found.items() if mask != "none (cross)"}

    @functools.cached_property
    def blocks(self) -> int:
        """The number of blocks: of members of the longest stack."""
        return max((p.blocks for p in self.of("out", "down")), default=0)

    @property
    def vocabulary(self) -> int:
        """The rows of the embedding; 0 without one."""
        tables = [self.exported.arrays[p.event.parameter] for p in self.of("embedding")]
        return int(tables[0].shape[0]) if tables else 0

    @property
    def tied(self) -> bool:
        """Is the head the embedding?"""
        tables = {p.event.parameter for p in self.of("embedding")}
        return any(p.event.parameter in tables for p in self.of("head"))

    def __str__(self) -> str:
        from limitlaw.torch.reading.box import box

        return box(self)


@in_float64
def read(module: Module, *inputs: Any, **kwargs: Any) -> ModuleReading:
    """What a module, or one that a function makes, is: read off its exported graph."""
    its, drawn = made(module)
    broken = [n for n, p in its.named_parameters() if not bool(p.isfinite().all())]
    if broken:
        its = copy.deepcopy(its)
        with torch.no_grad():
            for name in broken:
                its.get_parameter(name).zero_()
    return reading_of(exported(its, inputs, kwargs), drawn or {}, tuple(broken))


def reading_of(graph: Exported, drawn: Drawn, broken: tuple[str, ...] = ()) -> ModuleReading:
    """The reading of a graph that was exported."""
    try:
        walk = Walk(graph)
        attending = tuple(heads(walk))
        pieces = tuple(pieces_of(walk, attending))
    except (KeyError, StopIteration, AttributeError) as error:
        raise ConversionError(
            f"the graph of this module cannot be read: {type(error).__name__}: {error}"
        ) from error
    return ModuleReading(graph, walk, attending, pieces, drawn, broken)
