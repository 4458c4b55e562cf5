"""What is known of a program before any number is: each fact is found once, in one pass, when it is first asked for."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable

from limitlaw.core.axes import Axis
from limitlaw.core.instructions import (
    Apply,
    Argument,
    Constant,
    Contract,
    Dot,
    Family,
    Initial,
    Map,
    MatMul,
    Ones,
    Rename,
    Repeat,
    Stack,
    Take,
    Value,
)
from limitlaw.core.program import Program


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """The facts of a program."""

    program: Program

    @property
    def values(self) -> list[Value]:
        """In order, each after what it reads."""
        return self.program.values

    @functools.cached_property
    def position(self) -> dict[Value, int]:
        """Where a value stands in that order: none depends on a later one."""
        return {v: i for i, v in enumerate(self.values)}

    @functools.cached_property
    def readers(self) -> dict[Value, list[Value]]:
        """The values whose instructions read a value."""
        found: dict[Value, list[Value]] = {v: [] for v in self.values}
        for v in self.values:
            for u in dict.fromkeys(v.inputs):
                found[u].append(v)
        return found

    @functools.cached_property
    def uses(self) -> Counter[Value]:
        """How often a value is read, by instructions and as an output."""
        return Counter([*(u for v in self.values for u in v.inputs), *self.program.outputs])

    @functools.cached_property
    def products(self) -> dict[Family, list[Value]]:
        """What each family of matrices makes."""
        found: dict[Family, list[Value]] = {}
        for v in self.values:
            if isinstance(v.instruction, MatMul):
                found.setdefault(v.instruction.family, []).append(v)
        return found

    @functools.cached_property
    def reused(self) -> frozenset[Family]:
        """The families that more than one instruction multiplies by."""
        return frozenset(family for family, made in self.products.items() if len(made) > 1)

    # --- what is random in the limit --------------------------------------------------------------------------------

    @functools.cached_property
    def drawn(self) -> frozenset[Value]:
        """Vectors that are random, more than given data."""
        found: set[Value] = set()
        for v in self.values:
            made = isinstance(v.instruction, MatMul | Initial | Map | Argument | Repeat)
            if v.is_vector and (made or (v.instruction.linear and any(u in found for u in v.vectors))):
                found.add(v)
        return frozenset(found)

    def is_random(self, v: Value) -> bool:
        """Does a dot product stay random in the limit?"""
        op = v.instruction
        if not isinstance(op, Dot):
            return False
        return op.scaling == "sqrt" if op.dim.wide else any(f in self.drawn for f in (op.q, op.k))

    def stays_random(self, v: Value) -> bool:
        """Is a value drawn in the limit: scores under 1/√n, and vectors of fixed dimension?"""
        op = v.instruction
        if isinstance(op, Dot) and not is_average(v):
            return op.scaling == "sqrt" or not op.dim.wide
        return v.dim is not None and not v.dim.wide and v in self.drawn

    @functools.cached_property
    def depth(self) -> dict[Value, int]:
        """How many random scores stand behind one another up to a value."""
        found: dict[Value, int] = {}
        for v in self.values:
            below = max((found[u] for u in v.inputs), default=0)
            found[v] = below + self.is_random(v)
        return found

    @functools.cached_property
    def depth_of_terms(self) -> dict[Value, int]:
        """For vectors, the largest depth of the terms of which they are a linear combination."""
        found: dict[Value, int] = {}
        for v in self.values:
            if v.is_vector:
                linear = v.instruction.linear
                found[v] = max((found[u] for u in v.vectors), default=0) if linear else self.depth[v]
        return found

    # --- linear combinations ----------------------------------------------------------------------------------------

    def terms(self, *vectors: Value) -> list[Value]:
        """The vectors of which these are linear combinations: outputs of MatMul and Nonlin, and leaves."""
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        for vector in vectors:
            stack = [vector]
            while stack:
                v = stack.pop()
                if v in seen:
                    continue
                seen.add(v)
                if v.instruction.linear:
                    stack.extend(v.vectors)
                else:
                    found[v] = None
        return list(found)

    # --- axes -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _singular(self) -> frozenset[Axis]:
        """Axes of which single entries are treated by themselves, under all their names."""
        names: dict[Axis, Axis] = {}

        def root(axis: Axis) -> Axis:
            while (parent := names.get(axis, axis)) is not axis:
                axis = parent
            return axis

        touched: set[Axis] = set()
        for v in self.values:
            op = v.instruction
            if isinstance(op, Rename):
                for old, new in zip(op.old, op.new, strict=True):
                    names[root(new)] = root(old)
            touched.update(_touched(op))
        roots = {root(axis) for axis in touched}
        everything = {axis for v in self.values for axis in v.axes}
        return frozenset(axis for axis in everything if root(axis) in roots)

    def is_symmetric(self, axis: Axis) -> bool:
        """Are all entries along an axis treated alike, so that two of them show what holds for any two?"""
        return axis not in self._singular


def _touched(op: object) -> Iterable[Axis]:
    """The axes of which an instruction treats single entries by themselves."""
    if isinstance(op, Take):
        return (*op.axes, *op.new)
    if isinstance(op, Stack):
        return (op.axis,)
    if isinstance(op, Contract) and op.a is not None and isinstance(op.a.instruction, Constant):
        return op.a.axes
    if isinstance(op, Initial) and not op.diagonal:
        return tuple(axis for axis in op.order if axis is not None)
    if isinstance(op, Apply):
        return op.mixed
    return ()


def is_average(v: Value) -> bool:
    """Is a number the mean over the coordinates of a vector: its product with **1**, under 1/n?"""
    op = v.instruction
    return isinstance(op, Dot) and op.scaling == "linear" and isinstance(op.k.instruction, Ones)
