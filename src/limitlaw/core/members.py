"""Which members of a family of matrices, or of a batch of initial vectors, the entries of a value
depend on.

A fused family makes queries, keys and values from one object: what counts for the theory is which
*members*, single matrices of the family, meet. So dependence is an array of booleans over the axes
of a value and, last, the members. An axis that is missing makes no difference; None stands for no
dependence at all. Along axes whose entries are all treated alike, two entries stand for all of
them.
"""

import functools
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import (
    Constant,
    Contract,
    MatMul,
    Rename,
    Stack,
    Take,
)
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import Axes, Axis, union
from limitlaw.core.program import after_inputs


class Members(NamedTuple):
    """Which members a value's entries depend on: `array[…, m]` is True for member m."""

    array: np.ndarray
    axes: Axes

    def along(self, axes: Axes) -> np.ndarray:
        """The array laid out along axes, with size 1 where an axis makes no difference."""
        order = [self.axes.index(axis) for axis in axes if axis in self.axes]
        array = self.array.transpose(*order, len(self.axes))
        full = [
            array.shape[order.index(self.axes.index(a))] if a in self.axes else 1 for a in axes
        ]
        return array.reshape(*full, array.shape[-1])

    def any_over(self, axes: Collection[Axis]) -> "Members":
        """The members that some entry along these axes depends on."""
        found = tuple(i for i, axis in enumerate(self.axes) if axis in axes)
        return Members(
            np.asarray(self.array.any(axis=found)), tuple(a for a in self.axes if a not in axes)
        )

    def meets(self, other: "Members | None", apart: Collection[Axis] = ()) -> bool:
        """Do entries at the same place, except along the axes `apart`, have a member in common?"""
        if other is None:
            return False
        first, second = self.any_over(apart), other.any_over(apart)
        axes = union(first.axes, second.axes)
        return bool((first.along(axes) & second.along(axes)).any())


Found = Members | None


class Dependence:
    """Which matrices of families and which initial vectors of batches the values depend on."""

    def __init__(self, facts: Analysis):
        self.facts = facts

    def size(self, axis: Axis) -> int:
        """The number of entries looked at along an axis: two where all are treated alike."""
        return 2 if self.facts.is_symmetric(axis) else int(axis.size)

    def own(self, source: Value) -> Members:
        """Each entry's own member: of W x its matrix, of initial vectors the vector itself."""
        op = source.instruction
        axes = op.family.axes if isinstance(op, MatMul) else source.axes
        shape = [self.size(axis) for axis in axes]
        count = math.prod(shape)
        return Members(np.eye(count, dtype=bool).reshape(*shape, count), axes)

    def on(self, value: Value, source: Family | Value, through_numbers: bool) -> Found:
        """The members of `source` that entries of a value depend on, if asked also by numbers."""
        sources = self.facts.products.get(source, []) if isinstance(source, Family) else [source]
        leaves = {
            v: self.own(v) for v in sources if self.facts.position[v] <= self.facts.position[value]
        }
        if not leaves:
            return None
        return self._carried(value, leaves, through_numbers, everything=True)

    def spread(self, value: Value, leaves: Mapping[Value, Found]) -> Found:
        """The dependence of some terms of `value`, carried to its entries by linear operations."""
        return self._carried(value, leaves, through_numbers=False, everything=False)

    def _carried(
        self, value: Value, leaves: Mapping[Value, Found], through_numbers: bool, everything: bool
    ) -> Found:
        """Leaves' dependence carried to `value`, by all instructions or by linear ones only."""
        first = min(self.facts.position[v] for v in leaves)
        found: dict[Value, Found] = {}
        for v in self._between(value, first, everything, leaves):
            op = v.instruction
            below = None
            if (v.is_vector or through_numbers) and (
                everything or (op.linear and v not in leaves)
            ):
                below = self._inherited(v, found)
            found[v] = _either([below, leaves.get(v)])
        return found[value]

    def _between(
        self, value: Value, first: int, everything: bool, leaves: Mapping[Value, Found]
    ) -> list[Value]:
        """The values that `value` depends on, from position `first` on, in order."""
        position = self.facts.position

        def inputs(v: Value) -> list[Value]:
            goes_on = everything or (v.instruction.linear and v not in leaves)
            return [u for u in v.inputs if goes_on and position[u] >= first]

        return sorted(after_inputs([value], inputs), key=position.__getitem__)

    def _inherited(self, v: Value, found: Mapping[Value, Found]) -> Found:
        """The members that each entry of a value inherits from what it reads."""
        op = v.instruction
        match op:
            case Contract():
                return _either(
                    [
                        _weighed(op, found.get(op.w)),
                        _over(found.get(op.a) if op.a else None, op.over),
                    ]
                )
            case Take():
                return _taken(op, found.get(op.x))
            case Rename():
                x = found.get(op.x)
                return None if x is None else Members(x.array, op.names_of(x.axes))
            case Stack():
                return self._stacked(op, [found.get(t) for t in op.terms])
        inherited = _either([found.get(u) for u in op.inputs])
        lost = {axis for u in op.inputs for axis in u.axes if axis not in v.axes}
        return _over(inherited, op.mixes(v.axes) | lost)

    def _stacked(self, op: Stack, terms: list[Found]) -> Found:
        known = [t for t in terms if t is not None]
        if not known:
            return None
        axes = union(*(t.axes for t in known))
        arrays = [None if t is None else t.along(axes) for t in terms]
        shape = np.broadcast_shapes(*(a.shape for a in arrays if a is not None))
        full = [np.zeros(shape, bool) if a is None else np.broadcast_to(a, shape) for a in arrays]
        return Members(np.stack(full), (op.axis, *axes))


def _either(parts: list[Found]) -> Found:
    known = [p for p in parts if p is not None]
    if len(known) < 2:
        return known[0] if known else None
    axes = union(*(p.axes for p in known))
    return Members(functools.reduce(np.logical_or, [p.along(axes) for p in known]), axes)


def _over(part: Found, axes: Collection[Axis]) -> Found:
    return None if part is None else part.any_over(axes)


def _weighed(op: Contract, w: Found) -> Found:
    """The dependence of Σ a·w: on each w with a ≠ 0, where a is constant."""
    if w is None or op.a is None or not isinstance(op.a.instruction, Constant):
        return _over(w, op.over)
    given = op.a.instruction
    if not isinstance(given.value.array, np.ndarray):
        return _over(w, op.over)
    axes = tuple(axis for axis in given.order if axis is not None)
    nonzero = Members((given.value.array != 0).reshape(*(int(a.size) for a in axes), 1), axes)
    everything = union(w.axes, axes)
    return Members(nonzero.along(everything) & w.along(everything), everything).any_over(op.over)


def _taken(op: Take, x: Found) -> Found:
    have = (
        []
        if x is None
        else [(a, p) for a, p in zip(op.axes, op.places, strict=True) if a in x.axes]
    )
    if x is None or not have:
        return x
    rest = tuple(axis for axis in x.axes if axis not in op.axes)
    array = x.along((*(axis for axis, _ in have), *rest))
    return Members(array[tuple(p.array for _, p in have)], (*op.new, *rest))
