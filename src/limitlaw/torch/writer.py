"""Writes a program node by node, each once, by one rule for each kind of node."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from limitlaw.core.space import Dim
from limitlaw.torch.digits import Layout
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.reading import filled, read

Rules = Mapping[type[Node], Callable[["Writer", Any], Any]]


class Writer:
    """Writes each node once. `weights`: the module's own numbers,
    by matrix and by initial vector.
    """

    def __init__(self, layouts: Layouts, rules: "Rules", width: int, fixed: frozenset[Node]):
        self.layouts, self.rules, self.width, self.fixed = layouts, rules, width, fixed
        self.values: dict[Node, Any] = {}
        self.weights: dict[Any, np.ndarray] = {}
        self.shared: dict[Any, Any] = {}
        self._read: dict[Any, Any] = {}

    def layout(self, node: Node) -> Layout:
        """The layout of a node."""
        return self.layouts.of[node]

    def dim(self, node: Node) -> Dim | int:
        """The space of a node: fixed, or a multiple of the width."""
        dimension = self.layout(node).dimension
        return dimension if node in self.fixed else Dim(Fraction(dimension, self.width), wide=True)

    def value(self, node: Node) -> Any:
        """The value of a node, its batch axes the digits that are not coordinates."""
        if node not in self.values:
            self.values[node] = filled(self.rules[type(node)](self, node), self.layout(node).batch)
        return self.values[node]

    def read(self, tensor: Tensor, shape: Sequence[int], meeting: int | None = None) -> Any:
        """The tensor with one batch axis for each axis of the refined shape but the coordinate,
        its own or that of the vectors that it meets.
        """
        axis = self.layouts.coordinate(tensor, shape)
        axis = meeting if axis is None else axis
        key = (tensor.node, tensor.ids.numpy().tobytes(), tuple(shape), axis)
        if key not in self._read:
            self._read[key] = read(
                self.value(tensor.node), self.layout(tensor.node), tensor, shape, axis
            )
        return self._read[key]

    def operand(self, tensor: Tensor, layout: Layout) -> Any:
        """A tensor that meets others entry by entry in a node of this layout."""
        return self.read(tensor, layout.sizes, layout.coordinate)
