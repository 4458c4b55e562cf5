"""Which sums are over heads that are i.i.d. given the incoming kernel: found from the program, not from a layer's name.

An output H^{-1/2} Σ_a y_a qualifies where an axis of size H can be followed back from the sum to matrices that have it,
every entry along it being made in the same way from matrices of its own. It can then be given any other size.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.language import ops
from limitlaw.language.facts import stays_random
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.resizing import reshaped
from limitlaw.language.shapes import Shape, Size
from limitlaw.language.values import Wide


@dataclasses.dataclass(frozen=True)
class HeadAxis:
    """`term`, of one entry for each head, of which the output is the normalised sum over `heads`."""

    term: Value
    heads: Size  # math.inf is one, too
    places: dict[Value | Matrix, int]  # where the axis is, counted from the last: 1, 2, …

    @property
    def kernel_is_random(self) -> bool:
        """Does anything common to several heads stay random in the limit?"""
        return self.heads > 1 and any(stays_random(v) for v in ancestors([self.term]) if v not in self.places)

    @property
    def is_random(self) -> bool:
        """Does anything stay random in the limit?"""
        return any(map(stays_random, ancestors([self.term])))

    def resized(self, count: Size) -> Value:
        """The terms of `count` heads, by the same program."""
        return _rebuilt((self.term,), self.places, count)[0]


def with_few_heads(outputs: tuple[Value, ...], most: int) -> tuple[Value, ...]:
    """The same outputs with two heads in place of more than `most`, where heads are i.i.d.: all that `check` needs."""
    for v in ancestors(outputs):
        op = v.op
        if isinstance(op, ops.Sum) and op.normalised and len(op.axes) == 1 and most < op.x.shape[op.axes[0]] < math.inf:
            axis = _followed(op)
            if axis is not None:
                return with_few_heads(_rebuilt(outputs, axis.places, 2), most)
    return outputs


def _rebuilt(outputs: tuple[Value, ...], places: dict[Value | Matrix, int], count: Size) -> tuple[Value, ...]:
    """The outputs by a program whose axis at `places` has size `count`."""
    return reshaped(outputs, lambda x: _resized(x.shape, places[x], count) if x in places else x.shape)


def _resized(shape: Shape, place: int, count: Size) -> Shape:
    return (*shape[: len(shape) - place], count, *shape[len(shape) - place + 1 :])


def head_axis(y: Value) -> HeadAxis | None:
    """The axis of heads of outputs y, or None where their heads are not known to be i.i.d."""
    while isinstance(y.op, ops.Index) and set(y.op.x.shape) <= {1}:
        y = y.op.x
    op = y.op
    if not isinstance(op, ops.Sum) or not op.normalised or len(op.axes) != 1:
        return None
    return _followed(op)


def _followed(op: ops.Sum) -> HeadAxis | None:
    """The axis of a normalised sum, followed back to the matrices."""
    heads = op.x.shape[op.axes[0]]
    if heads == 1:
        return HeadAxis(op.x, 1, {})
    places = _Places(heads)
    if not places.follow(op.x, op.x.ndim - op.axes[0]):
        return None
    for v in ancestors([op.x]):
        if v not in places.found and any(u in places.found for u in v.op.inputs):
            return None  # something common to all heads depends on single ones
    return HeadAxis(op.x, heads, dict(places.found))


class _Places:
    """Follows an axis from a value to what it reads.

    An `exposed` vector must be independent of those of other heads: every vector it is made of has the axis, down to a
    matrix of its own for each head. Behind such a matrix vectors may be common to all heads.
    """

    def __init__(self, heads: Size):
        self.heads = heads
        self.found: dict[Value | Matrix, int] = {}
        self._exposed: set[Value] = set()

    def follow(self, v: Value, place: int, exposed: bool = True) -> bool:
        """Can the axis be followed from v to its sources?"""
        exposed &= isinstance(v, Wide)
        if v.ndim < place or v.shape[-place] == 1:
            return not exposed
        if v in self.found and (not exposed or v in self._exposed):
            return self.found[v] == place
        if v.shape[-place] != self.heads or self.found.get(v, place) != place:
            return False
        self.found[v] = place
        if exposed:
            self._exposed.add(v)
        sources = _sources(v, v.op, place)
        if sources is None:
            return False
        if isinstance(v.op, ops.MatMul):
            return self._has_own(v.op.matrix, place) and self.follow(v.op.x, place, exposed=False)
        if isinstance(v.op, ops.Dot):  # scores of different heads are independent if one of their factors is
            return any(self._follow_factors(sources, exposed) for exposed in ((True, False), (False, True)))
        return all(self.follow(u, p, exposed) for u, p in sources)

    def _follow_factors(self, sources: "Sources", exposed: tuple[bool, bool]) -> bool:
        """Can both factors of a dot product be followed? If not, nothing of the attempt is kept."""
        before = dict(self.found), set(self._exposed)
        if all(self.follow(v, place, side) for (v, place), side in zip(sources, exposed, strict=True)):
            return True
        self.found, self._exposed = before
        return False

    def _has_own(self, matrix: Matrix, place: int) -> bool:
        """Has each head its own matrix, of the same scale?"""
        if len(matrix.shape) < place or matrix.shape[-place] == 1:
            return False
        if not is_traced(matrix.std) and np.ndim(matrix.std) >= place and np.shape(matrix.std)[-place] != 1:
            return False
        return self.found.setdefault(matrix, place) == place


Sources = list[tuple[Value, int]]


def _sources(v: Value, op: Any, place: int) -> Sources | None:
    """What an instruction reads, and where the axis is there; None where it cannot be followed."""
    match op:
        case ops.Rotary() if np.ndim(op.positions) >= place and np.shape(op.positions)[-place] != 1:
            return None  # positions that may differ between heads
        case ops.MatMul() | ops.Rotary() | ops.Scale() | ops.Add() | ops.Map() | ops.Apply(core=0) | ops.Average():
            return [(u, place) for u in op.inputs]
        case ops.Apply(core=1):
            return [(u, place) for u in op.inputs] if place > 1 else None
        case ops.Mix():
            return [(op.a, place + 1), (op.w, place)] if op.a.ndim > 1 and place > 1 else None
        case ops.Dot():
            return [(op.q, place - 1), (op.k, place - 1)] if op.q.ndim and op.k.ndim and place > 2 else None
        case ops.Transpose():
            return [(op.x, v.ndim - op.axes[v.ndim - place])]
        case ops.Sum():
            kept = [a for a in range(op.x.ndim) if a not in op.axes]
            return [(op.x, op.x.ndim - kept[v.ndim - place])]
        case ops.Index():
            return _indexed(v, op, place)
    return [(u, place) for u in op.inputs] if op.entrywise else None


def _indexed(v: Value, op: ops.Index, place: int) -> Sources | None:
    """Through an index that takes the axis whole."""
    parts = list(_parts(op))
    if any(not (part is None or isinstance(part, int | np.integer | slice)) for part in parts):
        return None
    axis, result = 0, 0
    for part in parts:
        if part is None:
            result += 1
            continue
        if isinstance(part, slice):
            if v.ndim - result == place:
                return [(op.x, op.x.ndim - axis)] if part == slice(None) else None
            result += 1
        axis += 1
    return None


def _parts(op: ops.Index) -> Iterator[Any]:
    """The index with one part for each axis, and None for new ones."""
    given = list(op.index)
    if not any(part is Ellipsis for part in given):
        given.append(Ellipsis)
    missing = op.x.ndim - sum(part is not None and part is not Ellipsis for part in given)
    for part in given:
        if part is Ellipsis:
            yield from [slice(None)] * missing
        else:
            yield part
