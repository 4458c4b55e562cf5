"""Vectors of one kind as one batch: a recurrent network written out has W h₁, W h₂, …, whose
covariances with a vector are one row, found at once and not one by one.

Vectors v₁, …, v_k are *alike* if they are the same instruction with other inputs. Stacked along a
new axis they are this instruction, applied to the stacks of its inputs:

    stack(W x₁, …, W x_k) = W stack(x₁, …, x_k),    stack(φ(u₁), …) = φ(stack(u₁, …)).

Entries taken of vectors are stacked as several places of one vector, or as one place of several.
So covariances take a number of operations that does not grow with k, and neither does the program
that JAX compiles: a step of a recurrent network adds as much to it as any other.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from limitlaw.core.covariance import Covariance, Equal, between, comparable, pair, total
from limitlaw.core.instructions import Add, Contract, Map, MatMul, Places, Rename, Stack, Take
from limitlaw.core.kinds import Instruction, Value
from limitlaw.core.labelled import Axis, Labelled, union
from limitlaw.numerics.linear_algebra import taken

if TYPE_CHECKING:
    from limitlaw.engines.limit.facts import LimitFacts
    from limitlaw.engines.limit.moments import Moments

Terms = tuple[Value, ...]
StackName = tuple[bool, Terms]  # (is it their common instruction, and not a stack, the vectors)


class Together:
    """Stacks of vectors that a program has one by one.

    They are made when first asked for, and facts about them are added to those of the program.
    """

    def __init__(self, facts: "LimitFacts"):
        self._facts = facts
        self._made: dict[StackName, Value] = {}
        self._names: dict[Value, StackName] = {}
        self._axes: dict[int, Axis] = {}
        self._kinds: dict[Value, Hashable] = {}

    def stack(self, terms: Iterable[Value]) -> Value:
        """Vectors with the same axes, stacked along a new first axis."""
        terms = tuple(terms)
        return self._find((False, terms), lambda axis: Stack(terms, axis))

    def groups(self, terms: Sequence[Value]) -> list[tuple[Value, list[int]]]:
        """Alike vectors as one value each, with places among `terms`; others stay alone."""
        by_vector, by_place = (self._sorted(terms, kind) for kind in (self._kind, self._place))
        found = by_vector if len(by_vector) <= len(by_place) else by_place
        return [
            (self.as_one(tuple(terms[i] for i in places)), places) for places in found.values()
        ]

    def _sorted(
        self, terms: Sequence[Value], kind_of: Callable[[Value], Hashable]
    ) -> dict[Hashable, list[int]]:
        found: dict[Hashable, list[int]] = {}
        for i, v in enumerate(terms):
            kind = kind_of(v)  # v itself where it is like no other, also where it comes twice
            found.setdefault((kind, i) if kind is v else kind, []).append(i)
        return found

    def _place(self, v: Value) -> Hashable:
        """The kind of a vector, where the same places of different vectors count as alike."""
        op = v.instruction
        if not isinstance(op, Take):
            return self._kind(v)
        return Take, op.axes, op.places, op.new, op.x.dim, frozenset(op.x.axes)

    def grown(
        self, v: Value, known: dict[Value, Labelled], of: Callable[[Value], Labelled]
    ) -> Labelled:
        """The arrays of(u) for each vector u of a stack, along the new axis.

        Where the first of them are in `known`, as a stack of their own, the others are appended to
        these.
        """
        alike, terms = self._names[v]
        axes = v.axes[1:]
        before: list[Any] = []
        start = 0
        for i in range(len(terms) - 1, 0, -1):
            prefix = self._made.get((alike, terms[:i]))
            if prefix is not None and prefix in known:
                before, start = [known[prefix].whole((prefix.axes[0], *axes))], i
                break
        new = [of(term).whole(axes)[None] for term in terms[start:]]
        whole = jnp.concatenate([*before, *new])
        return Labelled(lax.optimization_barrier(whole), (v.axes[0], *axes))

    def _kind(self, v: Value) -> Hashable:
        """What alike vectors have in common: all of the instruction but the vectors it reads."""
        if v not in self._kinds:
            self._kinds[v] = _kind(v) if v not in self._facts.bilinear else v
        return self._kinds[v]

    def as_one(self, terms: Terms) -> Value:
        """Alike vectors as one value, of the same instruction; a single one is itself."""
        if len(terms) == 1:
            return terms[0]
        return self._find((True, terms), lambda axis: self._common(terms, axis))

    def _common(self, terms: Terms, axis: Axis) -> Instruction:
        op = terms[0].instruction
        if isinstance(op, Take) and len({v.inputs for v in terms}) == 1:
            takes = [v.instruction for v in terms if isinstance(v.instruction, Take)]
            stacked = zip(*(take.places for take in takes), strict=True)
            places = tuple(Places.of(np.stack([p.array for p in column])) for column in stacked)
            return dataclasses.replace(op, places=places, new=(axis, *op.new))
        inputs = iter(
            [self._input(column) for column in zip(*(v.inputs for v in terms), strict=True)]
        )

        def read(content: object) -> object:
            if isinstance(content, tuple):
                return tuple(map(read, content))
            return next(inputs) if isinstance(content, Value) else content

        fields = dataclasses.fields(op)
        return dataclasses.replace(op, **{f.name: read(getattr(op, f.name)) for f in fields})

    def _input(self, column: Terms) -> Value:
        return column[0] if len(set(column)) == 1 else self.stack(column)

    def _find(self, name: StackName, instruction: Callable[[Axis], Instruction]) -> Value:
        if name not in self._made:
            terms = name[1]
            axis = self._axes.setdefault(len(terms), Axis(len(terms)))
            axes = (axis, *union(*(v.axes for v in terms)))
            made = self._made[name] = Value(instruction(axis), axes, terms[0].dim)
            self._names[made], self._facts.terms[made] = name, terms
            self._facts.include(made, max(map(self._facts.position.__getitem__, terms)))
        return self._made[name]


def _kind(v: Value) -> Hashable:
    op = v.instruction
    if isinstance(op, Take):
        shapes = tuple(p.shape for p in op.places)
        return Take, op.x, op.axes, shapes, op.new
    if not isinstance(op, MatMul | Map | Add | Contract | Rename):
        return v

    def known(content: object) -> object:
        if isinstance(content, tuple):
            return tuple(map(known, content))
        if isinstance(content, Value):
            return content.dim, frozenset(content.axes)
        return content

    fields = dataclasses.fields(op)
    return type(op), frozenset(v.axes), *(known(getattr(op, f.name)) for f in fields)


# --- covariances ---------------------------------------------------------------------------------


def covariance(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """Cov(v, w) of a stack v: alike vectors in it at once; the stack with itself row by row."""
    op = v.instruction
    assert isinstance(op, Stack)
    inside = frozenset(p for p in equal if p.left is not op.axis)
    if v is w and len(op.terms) > 1:
        if pair(op.axis, op.axis) not in equal:
            return _with_itself(moments, op, between(equal, v.axes, v.axes))
        same = frozenset(p for p in inside if p.right is not op.axis)
        own = [(moments.covariance(t, t, same), [i], None) for i, t in enumerate(op.terms)]
        return _paired(joined(own, op.axis), op.axis)
    facts = moments.facts
    places = [i for i, t in enumerate(op.terms) if not facts.independent(t, w)]
    parts: list[BlockOfStack] = []
    for group, at in facts.together.groups([op.terms[i] for i in places]):
        asked = frozenset(p for p in inside if p.left in group.axes)
        block = moments.covariance(group, w, asked)
        along = group.axes[0] if len(at) > 1 else None
        parts.append((block and block.at(inside), [places[i] for i in at], along))
    return joined(parts, op.axis)


def _with_itself(moments: "Moments", op: Stack, equal: Equal) -> Covariance | None:
    """The covariance of a stack with itself, each vector with those before it, so that no
    recursion runs through the stack.
    """
    own: list[BlockOfStack] = []
    rows: list[BlockOfStack] = []
    for i, v in enumerate(op.terms):
        own.append((moments.covariance(v, v, equal), [i], None))
        if i:
            before = moments.facts.together.stack(op.terms[:i])
            row = moments.covariance(v, before, equal)
            rows.append((row and _lengthened(row, before.axes[0], op.axis), [i], None))
    diagonal, below = joined(own, op.axis), joined(rows, op.axis)
    blocks = [_paired(diagonal, op.axis), below, below and below.swapped]
    known = [block for block in blocks if block is not None]
    return total(known) if known else None


def one_by_one(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """Cov(v, w) of alike vectors v, each by itself."""
    axis, *axes = v.axes
    asked = between(equal, tuple(axes), w.axes)
    blocks = [moments.covariance(t, w, asked) for t in moments.facts.terms[v]]
    return joined([(block, [i], None) for i, block in enumerate(blocks)], axis)


BlockOfStack = tuple[Covariance | None, Sequence[int], Axis | None]


def joined(parts: Sequence[BlockOfStack], axis: Axis) -> Covariance | None:
    """Cov of vectors along an axis, from parts.

    Each part has the vectors at some places, along an axis of its own or as a single one. None
    stands for zero, as do places that are in no part.
    """
    parts = [part for part in parts if part[0] is not None]
    if not parts:
        return None
    known = comparable([block for block, _, _ in parts if block is not None])
    own = [None if part is None else pair(part, None) for _, _, part in parts]
    labels = tuple(dict.fromkeys(p for b in known for p in b.labels if p not in own))
    arrays = [
        b.c.whole(labels)[None] if name is None else b.c.whole((name, *labels))
        for b, name in zip(known, own, strict=True)
    ]
    rows = [place for _, places, _ in parts for place in places]
    size = int(axis.size)
    if len(rows) < size:
        arrays.append(jnp.zeros((1, *arrays[0].shape[1:])))
    order = np.full(size, len(rows))
    order[rows] = np.arange(len(rows))
    array = jnp.concatenate(arrays)
    if (order != np.arange(size)).any():
        array = taken(array, order, axis=0)
    return Covariance(Labelled(array, (pair(axis, None), *labels)))


def _paired(block: Covariance | None, axis: Axis) -> Covariance | None:
    """The covariance of a batch with itself, zero between different indices."""
    both: Any = {pair(axis, None): pair(axis, axis)}
    return block and Covariance(block.c.rename(both))


def _lengthened(block: Covariance, old: Axis, axis: Axis) -> Covariance:
    """The covariance with zeros appended along an axis of w, whose size becomes that of `axis`."""
    rest = tuple(p for p in block.labels if p is not pair(None, old))
    array = block.c.whole((pair(None, old), *rest))
    padding = [(0, int(axis.size) - int(old.size)), *((0, 0) for _ in rest)]
    return Covariance(Labelled(jnp.pad(array, padding), (pair(None, axis), *rest)))
