"""Which sums are over heads that are i.i.d. given the incoming kernel:
found from the program, not from a layer's name.

An output H^{-1/2} Σ_a y_a qualifies where its axis of H entries can be followed back from the sum
to matrices that have it, every entry along it being made in the same way from matrices of its own.
It can then be given any other size.
"""

import dataclasses
import functools

import numpy as np

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Family, Value
from limitlaw.core.labelled import Axis, Size
from limitlaw.core.program import Output, Program
from limitlaw.core.rewrites import resized

Names = dict[Value | Family, Axis]  # what the axis of heads is called there


@dataclasses.dataclass(frozen=True)
class HeadAxis:
    """`term`, of one entry for each head, of which the output is the normalised sum
    over `heads`.
    """

    term: Output
    heads: Size  # math.inf is one, too
    names: Names

    @functools.cached_property
    def _random(self) -> frozenset[Value]:
        return Analysis(Program((self.term.value,))).stay_random

    @property
    def kernel_is_random(self) -> bool:
        """Does anything common to several heads stay random in the limit?"""
        return self.heads > 1 and bool(self._random.difference(self.names))

    @property
    def is_random(self) -> bool:
        """Does anything stay random in the limit?"""
        return bool(self._random)

    def resized(self, count: Size) -> Output:
        """The terms of `count` heads, by the same program."""
        axes = dict.fromkeys(self.names.values())
        return resized((self.term,), {axis: Axis(count) for axis in axes})[0]


def head_axis(output: Output) -> HeadAxis | None:
    """The axis of heads of outputs, or None where their heads are not known to be i.i.d.;
    a single head is one, too.
    """
    (y,) = demanded((output.value,))
    op = y.instruction
    if (
        not isinstance(op, core.Contract)
        or op.a is not None
        or not op.normalised
        or len(op.over) > 1
    ):
        return None
    if not op.over:
        return HeadAxis(Output(op.w, output.layout), 1, {})
    (axis,) = op.over
    places = _Places()
    if not places.follow(op.w, axis) or not _apart(op.w, places.found):
        return None
    return HeadAxis(Output(op.w, (axis, *output.layout)), axis.size, dict(places.found))


def _apart(term: Value, names: Names) -> bool:
    """Does nothing that is common to all heads depend on single ones,
    or have an axis of theirs?
    """
    axes = set(names.values())
    others = [v for v in Program((term,)).values if v not in names]
    return not any(axes.intersection(v.axes) or any(u in names for u in v.inputs) for v in others)


class _Places:
    """Follows an axis from a value to what it reads.

    An `exposed` vector must be independent of those of other heads: every vector it is made of has
    the axis, down to a matrix of its own for each head. Behind such a matrix vectors may be common
    to all heads.
    """

    def __init__(self) -> None:
        self.found: Names = {}
        self._exposed: set[Value] = set()

    def follow(self, v: Value, axis: Axis, exposed: bool = True) -> bool:
        """Can the axis be followed from v to its sources?"""
        exposed &= v.is_vector
        if axis not in v.axes:
            return not exposed
        if v in self.found and (not exposed or v in self._exposed):
            return self.found[v] is axis
        if self.found.setdefault(v, axis) is not axis:
            return False
        if exposed:
            self._exposed.add(v)
        op = v.instruction
        if not _can_be_followed(op, axis):
            return False
        if isinstance(op, core.MatMul):
            return self._has_own(op.family, axis) and self.follow(op.x, axis, exposed=False)
        # scores of different heads are independent if one of their factors is
        if isinstance(op, core.Dot):
            return any(
                self._follow_factors(op, axis, exposed)
                for exposed in ((True, False), (False, True))
            )
        name = (
            op.old[op.new.index(axis)] if isinstance(op, core.Rename) and axis in op.new else axis
        )
        return all(self.follow(u, name, exposed) for u in v.inputs)

    def _follow_factors(self, op: core.Dot, axis: Axis, exposed: tuple[bool, bool]) -> bool:
        """Can both factors of a dot product be followed?
        If not, nothing of the attempt is kept.
        """
        before = dict(self.found), set(self._exposed)
        if all(self.follow(v, axis, side) for v, side in zip((op.q, op.k), exposed, strict=True)):
            return True
        self.found, self._exposed = before
        return False

    def _has_own(self, family: Family, axis: Axis) -> bool:
        """Has each head its own matrix, of the same scale?"""
        if axis not in family.axes or _varies(family.std, family.layout, axis):
            return False
        return self.found.setdefault(family, axis) is axis


def _can_be_followed(op: object, axis: Axis) -> bool:
    """Does an instruction treat all entries along an axis of its result alike?"""
    match op:
        case core.Take():
            return axis not in op.new
        case core.Stack():
            return axis is not op.axis
        case core.Apply():
            return axis not in op.mixed
        case core.Dot():
            turned = zip(op.positions, op.orders, strict=True)
            return not any(_varies(slot, order, axis) for slot, order in turned)
    followed = core.MatMul | core.Map | core.Contract | core.Add | core.Rename
    return isinstance(op, followed)


def _varies(slot: core.Number, order: tuple[Axis | None, ...], axis: Axis) -> bool:
    """Have given numbers an entry for each along an axis?"""
    shape = np.shape(slot.array)
    tail = order[len(order) - len(shape) :]
    return any(a is axis and size != 1 for a, size in zip(tail, shape, strict=True))


def diverges(axis: HeadAxis, outputs: int) -> bool:
    """Is the joint density infinite where all outputs are equal:
    one head, as many outputs as tokens that all may see?

    There the rows of A differ by a square matrix B, |B Bᵀ|^{−1/2} = 1/|det B|, whose mean is
    infinite; fewer rows are enough apart from each other.
    """
    instructions = [v.instruction for v in Program((axis.term.value,)).values]
    softmax = [
        op for op in instructions if isinstance(op, core.Apply) and op.structure == "softmax"
    ]
    seen = [op.layouts[0][-1] for op in softmax if len(op.args) == 1]
    return axis.heads == 1 and any(
        outputs >= (1 if tokens is None else tokens.size) for tokens in seen
    )
