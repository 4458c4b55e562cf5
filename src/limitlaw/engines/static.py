"""What is known of the limit of a program before any number is: which vectors are Gaussian, and on what they depend."""

import functools
from collections.abc import Sequence
from typing import Any

from limitlaw.language import ops
from limitlaw.language.dependence import LINEAR
from limitlaw.language.facts import stays_random
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.values import Wide

Roots = frozenset[Value | Matrix]


class Facts:
    """Facts about the vectors of wide spaces, given all numbers.

    `roots`: the matrices and initial vectors a vector is made from; with none in common two are independent.
    `gaussian`: is it a linear combination of Gaussian vectors and of **1**? `undrawn`: scores of infinitely many heads
    that only weigh vectors of which a normalised sum is taken: their second moments are all that matters. `coarse`: use
    quasi-Monte Carlo, not quadrature, for products of functions of which nothing is known, where they depend on what is
    drawn; there will be many draws.
    """

    def __init__(self, values: Sequence[Value], undrawn: frozenset[Value] = frozenset(), coarse: bool = False):
        self.undrawn, self.coarse = undrawn, coarse
        self.position = {v: i for i, v in enumerate(values)}
        self.roots: dict[Value, Roots] = {}
        self.gaussian: dict[Value, bool] = {}
        self.random: set[Value] = set()
        for v in values:
            if isinstance(v, Wide) and v.dim.wide:
                self._add(v)
            if stays_random(v) or not self.random.isdisjoint(v.op.inputs):
                self.random.add(v)

    def _add(self, v: Value) -> None:
        op: Any = v.op
        vectors = _vectors(v)
        if isinstance(op, ops.MatMul):
            self.roots[v], self.gaussian[v] = frozenset([op.matrix]), True
        elif isinstance(op, ops.Initial):
            self.roots[v], self.gaussian[v] = frozenset([v]), True
        elif isinstance(op, ops.Ones):
            self.roots[v], self.gaussian[v] = frozenset(), True
        else:
            self.roots[v] = functools.reduce(frozenset.union, (self.roots[u] for u in vectors), frozenset())
            self.gaussian[v] = isinstance(op, LINEAR) and all(self.gaussian[u] for u in vectors)
            if self.is_bilinear(v):
                self.roots[v] |= {op.a}

    def is_bilinear(self, v: Value) -> bool:
        """Is v = p @ w with undrawn scores p?"""
        return isinstance(v.op, ops.Mix) and v.op.a in self.undrawn

    def is_linear(self, v: Value) -> bool:
        """Is v linear in the vectors it reads, with known coefficients?"""
        return isinstance(v.op, LINEAR) and not self.is_bilinear(v)

    def independent(self, v: Value, w: Value) -> bool:
        """Have the two no root in common?"""
        return self.roots[v].isdisjoint(self.roots[w])

    def argument(self, v: Value) -> Value | None:
        """The u of φ(u), where φ acts on one Gaussian vector, and perhaps on numbers."""
        vectors = list(dict.fromkeys(_vectors(v)))
        return vectors[0] if len(vectors) == 1 and self.gaussian[vectors[0]] else None

    def integrable(self, v: Value) -> bool:
        """Are products with φ(u) to be integrated, not averaged over nodes?"""
        op = v.op
        assert isinstance(op, ops.Map)
        unknown = op.phi.mean is None or len(op.args) > 1
        return self.argument(v) is not None and not (self.coarse and unknown and v in self.random)

    def gaussian_parts(self, v: Value) -> list[Value]:
        """The largest Gaussian vectors from which v is made."""
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        stack = [v]
        while stack:
            u = stack.pop()
            if u in seen:
                continue
            seen.add(u)
            if self.gaussian[u]:
                found[u] = None
            else:
                stack.extend(_vectors(u))
        return sorted(found, key=self.position.__getitem__)


def _vectors(v: Value) -> list[Value]:
    return [u for u in v.op.inputs if isinstance(u, Wide)]


def undrawn_scores(values: Sequence[Value], nodes: int) -> frozenset[Value]:
    """Scores on an axis of `nodes` heads that are only read as p @ w, of which only a normalised sum over heads is."""
    readers: dict[Value, list[Value]] = {}
    for v in values:
        for u in v.op.inputs:
            readers.setdefault(u, []).append(v)

    def summed(v: Value, axis: int) -> bool:
        """Is v, whose axis of heads is `axis` from the end, read only by that sum, perhaps behind matrices?"""
        if len(readers.get(v, [])) != 1:
            return False
        (reader,) = readers[v]
        if isinstance(reader.op, ops.MatMul):
            return summed(reader, axis)
        return isinstance(reader.op, ops.Sum) and reader.op.normalised and v.ndim - axis in reader.op.axes

    def qualifies(p: Value) -> bool:
        if not (isinstance(p.op, ops.Dot) and p.op.dim.wide and p.op.scaling == "sqrt" and nodes in p.shape[:-2]):
            return False
        axis = p.ndim - p.shape.index(nodes)
        return all(isinstance(m.op, ops.Mix) and m.op.a is p and summed(m, axis - 1) for m in readers.get(p, []))

    return frozenset(p for p in values if nodes and p.ndim > 2 and qualifies(p))
