"""Tensors of an exported graph as symbols.

A `Tensor` is a node and `ids`, an integer tensor of the torch shape that says which entry of the
node is where. Operations that only move entries (view, transpose, split, expand, …) are run by
torch itself on `ids`. A `Node` is what computes: a parameter, a product with a weight matrix, a
sum, a contraction. Nodes know no coordinate axis yet; `layouts` finds it.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import jax
import numpy as np
import torch

from limitlaw.core.program import after_inputs
from limitlaw.torch.errors import NOWHERE, Label
from limitlaw.torch.scales import Parameter

TorchShape = tuple[int, ...]
Entrywise: TypeAlias = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(eq=False)
class Node:
    """Computes a tensor of `shape`; `label` says where in the module it was written."""

    shape: TorchShape
    label: Label = dataclasses.field(default=NOWHERE, kw_only=True)

    @property
    def operands(self) -> tuple["Tensor", ...]:
        """The tensors that this node reads."""
        return ()

    @property
    def alternatives(self) -> tuple["Tensor", ...]:
        """The same entries in another form, which may have to replace the node."""
        return ()

    def whole(self) -> "Tensor":
        """The node as a tensor of all its entries, in order."""
        return Tensor(self, torch.arange(math.prod(self.shape)).reshape(self.shape))


@dataclasses.dataclass(eq=False)
class Tensor:
    """Entries of a node: entry `ids[i]` of the flattened node is at i."""

    node: Node
    ids: torch.Tensor

    @property
    def shape(self) -> TorchShape:
        """The shape of the tensor in torch."""
        return tuple(self.ids.shape)

    def moved(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Tensor":
        """The same entries, moved as `function` moves those of a torch tensor."""
        return at(self.node, function(self.ids))

    def expanded(self, shape: Iterable[int]) -> "Tensor":
        """The tensor broadcast to `shape`."""
        return self.moved(lambda ids: ids.expand(tuple(shape)))

    def same(self, other: "Tensor") -> bool:
        """Do both stand for the same entries of the same node?"""
        return self.node is other.node and torch.equal(self.ids, other.ids)

    @property
    def is_whole(self) -> bool:
        """Does it have all entries of its node, in order?"""
        return self.same(self.node.whole())


def at(node: Node, ids: torch.Tensor) -> Tensor:
    """Entries of a node; those of one part of a concatenation are entries of the part."""
    if isinstance(node, Concatenation) and ids.numel():
        found = node.part_of(ids)
        if found is not None:
            return found
    return Tensor(node, ids)


@dataclasses.dataclass(eq=False)
class Random(Node):
    """A random parameter read as vectors: embeddings, biases; without rows that never occur."""

    parameter: Parameter
    array: np.ndarray
    tied: bool = False  # is it an embedding that also maps to logits?


@dataclasses.dataclass(eq=False)
class Fixed(Node):
    """Constants: numbers that are not random."""

    array: np.ndarray


@dataclasses.dataclass(eq=False)
class _OfOne(Node):
    """A node that reads one tensor."""

    x: Tensor

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensor that is read."""
        return (self.x,)


@dataclasses.dataclass(eq=False)
class _OfTwo(Node):
    """A node that reads two tensors."""

    a: Tensor
    b: Tensor

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The two factors."""
        return (self.a, self.b)


@dataclasses.dataclass(eq=False)
class Weighed(_OfOne):
    """Σ_c W_rc x_…c for a weight matrix W of shape (rows, columns)."""

    parameter: Parameter
    weight: np.ndarray
    part: str = ""  # which rows of the parameter these are, "" for all


@dataclasses.dataclass(eq=False)
class WeightedSum(Node):
    """Σ coefficient·term + shift, entry by entry."""

    terms: tuple[tuple[float, Tensor], ...]
    shift: float = 0.0

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The terms of the sum."""
        return tuple(term for _, term in self.terms)


@dataclasses.dataclass(eq=False)
class Times(_OfTwo):
    """The product a·b, entry by entry."""


@dataclasses.dataclass(eq=False)
class Elementwise(_OfOne):
    """A function f(x), entry by entry."""

    name: str
    f: Entrywise


@dataclasses.dataclass(eq=False)
class EntrywiseOfSeveral(Node):
    """A function f(x, y, …) of several tensors, entry by entry."""

    terms: tuple[Tensor, ...]
    name: str
    f: Callable[..., jax.Array]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The arguments of the function."""
        return self.terms


@dataclasses.dataclass(eq=False)
class Reduction(_OfOne):
    """The mean, or the sum, over axes of x; the shape is that without the axes."""

    axes: tuple[int, ...]
    mean: bool


@dataclasses.dataclass(eq=False)
class Contraction(_OfTwo):
    """scale·Σ_k a_…ik b_…kj; `a` has shape (…, i, k), `b` has shape (…, j, k)."""

    scale: float = 1.0


@dataclasses.dataclass(eq=False)
class Masked(_OfOne):
    """x where `visible`, −∞ elsewhere; only a softmax may read it."""

    visible: np.ndarray


@dataclasses.dataclass(eq=False)
class Softmax(_OfOne):
    """exp(x_j) / Σ_k exp(x_k) along the last axis, over what is `visible` (None: everything)."""

    visible: np.ndarray | None


@dataclasses.dataclass(eq=False)
class LogSumExp(_OfOne):
    """ln Σ_k exp(x_k) along the last axis."""


@dataclasses.dataclass(eq=False)
class Rotation(_OfOne):
    """Coordinates (m, m + D/2) rotated by positions·base^{-2m/D}, for dot products only;
    `written_out` is the same as sums and products, for everything else.
    """

    positions: np.ndarray  # of the shape without the last axis
    base: float
    written_out: Tensor

    @property
    def alternatives(self) -> tuple[Tensor, ...]:
        """The sums and products."""
        return (self.written_out,)


@dataclasses.dataclass(eq=False)
class Concatenation(Node):
    """The parts, side by side along an axis."""

    parts: tuple[Tensor, ...]
    axis: int

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The parts that are concatenated."""
        return self.parts

    def part_of(self, ids: torch.Tensor) -> Tensor | None:
        """The entries as those of one part, None where they come from several."""
        places = torch.unravel_index(ids, self.shape)
        along = places[self.axis]
        start = 0
        for part in self.parts:
            end = start + part.shape[self.axis]
            if bool(((along >= start) & (along < end)).all()):
                inside = tuple(p - start if a == self.axis else p for a, p in enumerate(places))
                return at(part.node, part.ids[inside])
            start = end
        return None


def pulled(tensor: Tensor, operand: Tensor) -> Tensor:
    """The operand of an entrywise node at the entries that `tensor` reads of the node."""
    return at(operand.node, operand.ids.reshape(-1)[tensor.ids])


def ancestors(outputs: Iterable[Node], alternatives: bool = False) -> list[Node]:
    """Every node that the outputs depend on, each after what it reads; the last output first.
    With `alternatives`, also those that other forms of them depend on.
    """

    def read(node: Node) -> list[Node]:
        found = (*node.operands, *node.alternatives) if alternatives else node.operands
        return [t.node for t in reversed(found)]

    return after_inputs(reversed(list(outputs)), read)
