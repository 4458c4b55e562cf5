"""What is read off a program, not off a layer's name: which sums are over heads that are i.i.d.
given the incoming kernel, and which random scores matter through softmax only.

An output H^{-1/2} Σ_a y_a qualifies where its axis of H entries can be followed back from the sum
to matrices that have it, and every entry along it is made in the same way from matrices of its
own. The axis can then be given any other size. The law of the scores is read off the kernels.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Apply, Constant, Dot
from limitlaw.core.kinds import Coordinatewise, Family, Linear, Value
from limitlaw.core.labelled import Axis, Labelled, Size, finite_shape, labelled
from limitlaw.core.program import Output, Program, resized
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.draw import LimitDraw, Outputs
from limitlaw.engines.reading import Reading
from limitlaw.numerics.factors import orthonormalise

# the name of the axis of heads, by the value or family that has it
NamesOfHeads = dict[Value | Family, Axis]

EQUAL = 1e-13  # difference, relative to the largest score, that is taken for rounding


@dataclasses.dataclass(frozen=True)
class HeadAxis:
    """The terms of an output that is a normalised sum over heads, an entry of `term` for each."""

    term: Output
    heads: Size  # math.inf is allowed
    names: NamesOfHeads

    @functools.cached_property
    def _random(self) -> frozenset[Value]:
        return Analysis(Program((self.term.value,))).stay_random

    @property
    def kernel_is_random(self) -> bool:
        """Does anything that several heads have in common stay random in the limit?"""
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
    """The axis of heads of an output, or None if they may not be i.i.d.; one head counts, too."""
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


def _apart(term: Value, names: NamesOfHeads) -> bool:
    """Is all that heads have in common independent of single heads, without their axis?"""
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
        self.found: NamesOfHeads = {}
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
        """Can both factors of a dot product be followed? If not, the attempt leaves no trace."""
        before = dict(self.found), set(self._exposed)
        if all(self.follow(v, axis, side) for v, side in zip((op.q, op.k), exposed, strict=True)):
            return True
        self.found, self._exposed = before
        return False

    def _has_own(self, family: Family, axis: Axis) -> bool:
        """Has each head its own matrix, all with the same scale?"""
        if axis not in family.axes or axis in family.std.axes(family.layout):
            return False
        return self.found.setdefault(family, axis) is axis


def _can_be_followed(op: object, axis: Axis) -> bool:
    """Does an instruction treat all entries along an axis of its result alike?"""
    followed = core.MatMul | core.Dot | core.Apply | Coordinatewise | Linear
    return isinstance(op, followed) and axis not in op.separates()


# --- scores that softmax sees --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SoftmaxScores:
    """Scores ℓ = a + B z, with z standard normal, and the places in ℓ that each row of a softmax
    sees.

    A softmax ignores a common shift, so that only differences within a row matter; masked scores
    do not.
    """

    a: Any
    B: Any
    rows: tuple[np.ndarray, ...]

    @functools.cached_property
    def _slopes(self) -> Any:
        """B, without derivatives."""
        return frozen(self.B)

    @functools.cached_property
    def distinct(self) -> list[np.ndarray]:
        """For each row a place for every different score; rows with a single one are left out."""
        a, B = frozen(self.a), self._slopes
        if is_traced(a, B):
            return [row for row in self.rows if len(row) > 1]
        found = [_different(a, B, row) for row in self.rows]
        return [row for row in found if len(row) > 1]

    @functools.cached_property
    def directions(self) -> Any:
        """Orthonormal rows that span the directions of z on which differences of scores depend,
        steepest first.
        """
        B = self._slopes
        steps = [B[row[1:]] - B[row[0]] for row in self.distinct]
        if not steps:
            return np.zeros((0, B.shape[1]))
        D = jnp.concatenate(steps)
        _, C, Q = orthonormalise(D, jnp.zeros((0, B.shape[1])))
        if is_traced(Q):
            return Q
        active = np.asarray(Q)[np.diagonal(np.asarray(C)) > 0]
        return np.linalg.svd(np.asarray(D) @ active.T, full_matrices=False)[2] @ active

    @property
    def steepness(self) -> Any:
        """The largest standard deviation of a difference of two scores of a row."""
        B = self._slopes
        xp: Any = jnp if is_traced(B) else np
        return xp.sqrt(
            xp.stack(
                [((B[row][:, None] - B[row]) ** 2).sum(-1).max() for row in self.distinct]
            ).max()
        )

    def one_row(self, most: int) -> tuple[Any, Any] | None:
        """a and B of the distinct scores if they are of one row and at most `most`; else None."""
        if len(self.distinct) != 1 or len(self.distinct[0]) > most:
            return None
        (row,) = self.distinct
        return self.a[row], self.B[row]


def _different(
    a: Float[np.ndarray, " m"], B: Float[np.ndarray, "m r"], row: np.ndarray
) -> np.ndarray:
    """The places of a row whose score is not that of an earlier place."""
    scores = np.concatenate([a[row, None], B[row]], axis=1)
    tolerance = EQUAL * np.abs(scores).max(initial=0)
    kept: list[int] = []
    for i, score in enumerate(scores):
        if not kept or np.abs(scores[kept] - score).max(axis=1).min() > tolerance:
            kept.append(i)
    return row[kept]


@dataclasses.dataclass(frozen=True)
class WithScores(Reading):
    """A reading, and beside it all random arguments of softmaxes, one after the other; none where
    scores matter otherwise.
    """

    reading: Reading

    def __call__(self, draw: LimitDraw, outputs: Outputs) -> tuple[Any, Float[Array, " m"]]:
        arguments = _arguments(outputs) or ()
        scores = (draw[op.args[0]].whole(op.layouts[0]).reshape(-1) for op in arguments)
        return self.reading(draw, outputs), jnp.concatenate([jnp.zeros(0), *scores])


def softmax_scores(program: Limit) -> SoftmaxScores | None:
    """The scores of a program that is read `WithScores` and whose latent variables are all normal;
    None where scores matter not only through softmax.
    """
    arguments = _arguments(program.outputs)
    if arguments is None:
        return None
    r = len(program.recipe)
    _, scores = program.at(np.concatenate([np.zeros((1, r)), np.eye(r)]))
    starts = np.cumsum([0, *(math.prod(finite_shape(op.layouts[0])) for op in arguments[:-1])])
    rows = [
        place
        for op, start in zip(arguments, starts, strict=True)
        for place in _seen(op, int(start))
    ]
    return SoftmaxScores(scores[0], (scores[1:] - scores[0]).T, tuple(rows))


def _arguments(outputs: tuple[Output, ...]) -> list[Apply] | None:
    """Each softmax of random scores; None where scores matter otherwise."""
    facts = Analysis(Program(tuple(output.value for output in outputs)))
    random = _depending_on_scores(facts)
    found: list[Apply] = []
    seen: set[Value] = set()
    stack = [output.value for output in outputs]
    while stack:
        v = stack.pop()
        if v in seen or v not in random:
            continue
        seen.add(v)
        op = v.instruction
        if isinstance(op, Apply) and op.structure == "softmax":
            if not _is_affine(op.args[0], random):
                return None
            found.append(op)
        elif v in facts.stay_random:
            return None
        else:
            stack.extend(v.inputs)
    return found


def _depending_on_scores(facts: Analysis) -> set[Value]:
    """The values that are random in the limit, or depend on such values."""
    random: set[Value] = set()
    for v in facts.values:
        if v in facts.stay_random or any(u in random for u in v.inputs):
            random.add(v)
    return random


def _is_affine(argument: Value, random: set[Value]) -> bool:
    """Is an array of numbers affine in scores of wide vectors?"""
    stack = [argument]
    while stack:
        v = stack.pop()
        if v not in random:
            continue
        op = v.instruction
        if isinstance(op, Dot) and op.dim.wide:
            if any(u in random for u in op.inputs):
                return False  # scores behind scores
            continue
        affine = isinstance(op, Apply) and op.structure == "affine"
        if (not affine and not (op.linear and getattr(op, "a", None) is None)) or any(
            u.is_vector for u in v.inputs
        ):
            return False
        stack.extend(v.inputs)
    return True


def _seen(op: Apply, start: int) -> list[np.ndarray]:
    """The places of the scores that each row of a softmax sees; its argument begins at `start`."""
    layout, *masks = op.layouts
    shape = finite_shape(layout)
    places = start + np.arange(math.prod(shape)).reshape(-1, shape[-1])
    if not masks:
        return list(places)
    with jax.ensure_compile_time_eval():  # a mask is known, inside jit as well
        mask = np.asarray(_constant(op.args[1]).whole(masks[0]))
    visible = np.broadcast_to(mask > 0, finite_shape(op.layout)).reshape(-1, shape[-1])
    return [row[seen] for row, seen in zip(places, visible, strict=True)]


def _constant(v: Value) -> Labelled:
    """A mask, or entries of one, as an array."""
    if isinstance(v.instruction, Constant):
        return labelled(np.asarray(v.instruction.value.array), v.instruction.order)
    assert isinstance(v.instruction, Linear)
    return v.instruction.applied(_constant, {})
