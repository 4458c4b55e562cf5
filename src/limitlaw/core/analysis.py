"""The facts of a program that hold before any number is known.

Each is found once, in one pass over the program, when it is first asked for.
"""

import dataclasses
import functools
import math
from collections import Counter

from limitlaw.core.instructions import (
    Dot,
    FromScan,
    Initial,
    MatMul,
    Rename,
    Scan,
)
from limitlaw.core.iterations import Iterated, scan_of
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import Axis, is_infinite
from limitlaw.core.space import Dim


@dataclasses.dataclass(eq=False)
class Component:
    """Vectors of one space whose inner products are needed; a MatMul cuts a program into
    components.

    `points`: a coordinatewise function needs their coordinates; otherwise a frame will do.
    `has_one`: inner products with the vector **1** occur. `observed`: outputs are read from them.
    """

    dim: Dim
    points: bool = False
    has_one: bool = False
    observed: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis(Iterated):
    """The facts of a program, or of the `block` of a loop as a program."""

    @functools.cached_property
    def position(self) -> dict[Value, int]:
        """The index of each value in `values`: none depends on a later one."""
        return {v: i for i, v in enumerate(self.values)}

    @functools.cached_property
    def readers(self) -> dict[Value, list[Value]]:
        """For each value, the values whose instructions read it."""
        found: dict[Value, list[Value]] = {v: [] for v in self.values}
        for v in self.values:
            for u in dict.fromkeys(v.inputs):
                found[u].append(v)
        return found

    @functools.cached_property
    def uses(self) -> Counter[Value]:
        """How often each value is read, by instructions and as an output."""
        return Counter([*(u for v in self.values for u in v.inputs), *self.program.outputs])

    def last_read(self, v: Value) -> int | float:
        """The position of the last value that reads v; ∞ for outputs."""
        if v in self.program.outputs:
            return math.inf
        return max((self.position[u] for u in self.readers[v]), default=-1)

    @functools.cached_property
    def products(self) -> dict[Family, list[Value]]:
        """For each family of matrices, the values that are products with it."""
        found: dict[Family, list[Value]] = {}
        for v in self.values:
            if (family := v.instruction.matrices) is not None:
                found.setdefault(family, []).append(v)
        return found

    @functools.cached_property
    def reused(self) -> frozenset[Family]:
        """The families that more than one instruction multiplies by, or one by the transposes."""
        return frozenset(
            family
            for family, made in self.products.items()
            if len(made) > 1 or family in self.transposed
        )

    @functools.cached_property
    def transposed(self) -> frozenset[Family]:
        """The families W that some instruction multiplies by as Wᵀ."""
        found = (v.instruction for v in self.values if isinstance(v.instruction, MatMul))
        return frozenset(op.family for op in found if op.transposed)

    # --- what is random in the limit -------------------------------------------------------------

    @functools.cached_property
    def drawn(self) -> frozenset[Value]:
        """The random vectors: all but data, the vector **1**, and linear combinations of these."""
        found: set[Value] = set()
        for v in self.values:
            op = v.instruction
            made = any(u in found for u in v.vectors) if op.linear else not op.given
            if v.is_vector and made:
                found.add(v)
        return frozenset(found)

    def is_random(self, v: Value) -> bool:
        """Does a dot product stay random in the limit?"""
        op = v.instruction
        if not isinstance(op, Dot):
            return False
        return op.scaling == "sqrt" if op.dim.wide else any(f in self.drawn for f in (op.q, op.k))

    @functools.cached_property
    def stay_random(self) -> frozenset[Value]:
        """The values that are still random as n → ∞: scores under 1/√n, random vectors of fixed
        dimension, and loops that contain such values.
        """
        return frozenset(v for v in self.values if self._stays_random(v))

    def _stays_random(self, v: Value) -> bool:
        op = v.instruction
        if isinstance(op, Dot) and not v.is_average:
            return op.scaling == "sqrt" or not op.dim.wide
        if op.body is not None and self.of_iteration(v).stay_random:
            return True
        return v.dim is not None and not v.dim.wide and v in self.drawn

    @functools.cached_property
    def sampled(self) -> frozenset[Value]:
        """The values of `stay_random` that differ from draw to draw: those on an infinite axis do
        not, since all draws see the same quadrature nodes.
        """

        def differs(v: Value) -> bool:
            if v.instruction.body is not None:
                return bool(self.of_iteration(v).sampled)
            return not is_infinite(v.axes)

        return frozenset(v for v in self.stay_random if differs(v))

    @functools.cached_property
    def depth(self) -> dict[Value, int]:
        """The random scores on the longest path to each value, those in a loop per iteration."""
        found: dict[Value, int] = {}
        for v in self.values:
            below = max((found[u] for u in v.inputs), default=0)
            found[v] = below + self.is_random(v)
            if isinstance(v.instruction, Scan):
                inside, op = self.of_iteration(v).depth, v.instruction
                before = () if op.follows is None else scan_of(op.follows).block.results
                each = max((inside[u] for u in op.block.results), default=0)
                found[v] += op.times * max(0, each - max((inside[u] for u in before), default=0))
        return found

    @functools.cached_property
    def depth_of_terms(self) -> dict[Value, int]:
        """For each vector, the largest depth of the terms of which it is a linear combination."""
        found: dict[Value, int] = {}
        for v in self.values:
            if v.is_vector:
                linear = v.instruction.linear
                found[v] = (
                    max((found[u] for u in v.vectors), default=0) if linear else self.depth[v]
                )
        return found

    # --- linear combinations ---------------------------------------------------------------------

    def terms(self, *vectors: Value) -> list[Value]:
        """The outputs of MatMul and Nonlin, and leaves, of which these are linear combinations."""
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

    # --- what is drawn, and where it lives -------------------------------------------------------

    @functools.cached_property
    def fresh(self) -> frozenset[Value]:
        """The vectors that are Gaussian given what was drawn before, and are read only once."""
        found: set[Value] = set()
        for v in self.values:
            if v.is_vector and self.uses[v] == 1 and self._is_gaussian_given(v, found):
                found.add(v)
        return frozenset(found)

    def _is_gaussian_given(self, v: Value, fresh: set[Value]) -> bool:
        op = v.instruction
        if isinstance(op, MatMul):
            return op.family not in self.reused
        if isinstance(op, Initial):
            return op.centred
        return op.linear and all(u in fresh for u in v.vectors)

    def is_last_product(self, v: Value) -> bool:
        """Is v = W x the last product with W?"""
        op = v.instruction
        return op.matrices is not None and self.products[op.matrices][-1] is v

    @functools.cached_property
    def components(self) -> dict[Value, "Component"]:
        """The component of each vector."""
        return components(self)

    # --- axes ------------------------------------------------------------------------------------

    @functools.cached_property
    def _singular(self) -> frozenset[Axis]:
        """Axes whose entries some instruction tells apart, under all names that they have."""
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
            touched.update(op.separates())
        roots = {root(axis) for axis in touched}
        everything = {axis for v in self.values for axis in v.axes}
        return frozenset(axis for axis in everything if root(axis) in roots)

    def is_symmetric(self, axis: Axis) -> bool:
        """Are entries along an axis all treated alike, so that two show what holds for any two?"""
        return axis not in self._singular


def components(facts: Analysis) -> dict[Value, Component]:
    """The components of a program: vectors that must live in one frame are joined."""
    parent: dict[Value, Value] = {v: v for v in facts.values if v.is_vector}

    def root(v: Value) -> Value:
        while parent[v] is not v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    met: dict[tuple[object, object], Value] = {}
    for v in facts.values:
        op = v.instruction
        if isinstance(op, MatMul):
            if op.family in facts.reused:
                into, out_of = ("cols", "rows") if op.transposed else ("rows", "cols")
                parent[root(v)] = root(met.setdefault((op.family, into), v))
                parent[root(op.x)] = root(met.setdefault((op.family, out_of), op.x))
        elif isinstance(op, Scan | FromScan):  # all vectors of a space that pass through a loop
            scan, met_there = (v, v.vectors) if isinstance(op, Scan) else (op.scan, (v,))
            first = scan_of(scan).first or scan
            for u in (u for u in met_there if u.is_vector):
                parent[root(u)] = root(met.setdefault((first, u.dim), u))
        elif v.is_vector:
            for u in (u for u in v.vectors if u.dim == v.dim):
                parent[root(v)] = root(u)
        elif isinstance(op, Dot) and (op.base is not None or not facts.fresh & {op.q, op.k}):
            parent[root(op.q)] = root(op.k)
    for u in _passing(facts):  # one becomes the other in the next iteration
        parent[root(u)] = root(met.setdefault((facts.block, u.dim), u))
    table: dict[Value, Component] = {}
    for v in facts.values:
        op = v.instruction
        if v.is_vector:
            assert v.dim is not None
            component = table.setdefault(root(v), Component(v.dim))
            component.points |= op.has_coordinates
            component.has_one |= op.meets_one
            component.observed |= v in facts.program.outputs
            for u in (u for u in v.vectors if op.has_coordinates and u.dim != v.dim):
                table[root(u)].points = True
        elif isinstance(op, Dot) and op.base is not None:
            table[root(op.q)].points = True
    for loop in facts.loops:
        inside = facts.of_iteration(loop)
        for u in _passing(inside):
            if (one := met.get((loop, u.dim))) is not None:
                component = table[root(one)]
                component.points |= inside.components[u].points
                component.has_one |= inside.components[u].has_one
    return {v: table[root(v)] for v in parent}


def _passing(facts: Analysis) -> list[Value]:
    """The vectors through which a loop's block and the rest of the program meet."""
    if facts.block is None:
        return []
    met = (*facts.block.arguments, *facts.block.results)
    return [v for v in met if v.is_vector and v in facts.position]
