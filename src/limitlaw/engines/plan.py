"""What is known of a program before anything is drawn: who reads what, and which vectors must share a frame."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core.space import Dim
from limitlaw.engines.common import reused
from limitlaw.engines.demand import Inner, uses_of
from limitlaw.language import ops
from limitlaw.language.dependence import LINEAR
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import MatMul, Matrix, Value
from limitlaw.language.values import Wide


@dataclasses.dataclass(eq=False)
class Component:
    """Vectors of one space whose inner products are needed. MatMul cuts a program into components.

    `points`: a coordinatewise function needs their coordinates; otherwise a frame will do. `has_one`: inner products
    with the vector **1** occur. `observed`: outputs are read from them.
    """

    dim: Dim
    points: bool = False
    has_one: bool = False
    observed: bool = False


class Plan:
    """The static facts of a program."""

    def __init__(self, outputs: Sequence[Value]):
        self.outputs = tuple(outputs)
        self.values = ancestors(outputs)
        self.uses: Counter[Value] = uses_of(outputs, self.values)
        self.reused: frozenset[Matrix] = reused(self.values)
        self.fresh: set[Value] = set()  # Gaussian given what was drawn before, and read only once
        for value in self.values:
            if isinstance(value, Wide) and self.uses[value] == 1 and self._is_gaussian(value):
                self.fresh.add(value)
        self._components()

    def _is_gaussian(self, value: Wide) -> bool:
        op = value.op
        if isinstance(op, MatMul):
            return op.matrix not in self.reused
        if isinstance(op, ops.Initial):
            return is_centred(op)
        vectors = [v for v in op.inputs if isinstance(v, Wide)]
        return isinstance(op, LINEAR) and not isinstance(op, ops.Rotary) and all(v in self.fresh for v in vectors)

    def last_use(self, value: Value) -> bool:
        """Is `value` the last product with its matrix?"""
        op = value.op
        assert isinstance(op, MatMul)
        return not any(
            v is not value and isinstance(v.op, MatMul) and v.op.matrix is op.matrix
            for v in self.values[self.values.index(value) :]
        )

    # --- components -------------------------------------------------------------------------------------------------

    def _components(self) -> None:
        self._parent: dict[Value, Value] = {v: v for v in self.values if isinstance(v, Wide)}
        met: dict[tuple[Matrix, str], Value] = {}
        for value in self.values:
            op = value.op
            vectors = [v for v in op.inputs if isinstance(v, Wide)]
            if isinstance(op, MatMul):
                if op.matrix in self.reused:
                    self._join(value, met.setdefault((op.matrix, "out"), value))
                    self._join(op.x, met.setdefault((op.matrix, "in"), op.x))
            elif isinstance(value, Wide):
                for v in vectors:
                    self._join(value, v)
            elif isinstance(op, Inner) or (isinstance(op, ops.Dot) and not self.fresh & set(vectors)):
                self._join(*vectors)
        self._table: dict[Value, Component] = {}
        for value in self.values:
            if isinstance(value, Wide):
                component = self._table.setdefault(self._root(value), Component(value.dim))
                component.points |= isinstance(value.op, ops.Map | ops.Rotary | ops.Data)
                component.has_one |= isinstance(value.op, ops.Ones)
                component.has_one |= isinstance(value.op, ops.Initial) and not is_centred(value.op)
                component.observed |= value in self.outputs
            if isinstance(value.op, ops.Average):
                self.component(value.op.w).has_one = True

    def component(self, value: Value) -> Component:
        """The component of a vector."""
        return self._table.setdefault(self._root(value), Component(value.dim))  # type: ignore[attr-defined]

    def _root(self, value: Value) -> Value:
        while self._parent[value] is not value:
            self._parent[value] = self._parent[self._parent[value]]
            value = self._parent[value]
        return value

    def _join(self, first: Value, second: Value) -> None:
        self._parent[self._root(first)] = self._root(second)


def is_centred(op: ops.Initial) -> bool:
    """Have the initial vectors mean zero?"""
    return not is_traced(op.mean) and not np.any(op.mean)
