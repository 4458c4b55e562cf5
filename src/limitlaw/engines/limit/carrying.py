"""What passes through a loop as n → ∞, found before any number is known.

The state of a loop is the joint law, by means and covariances, of its carries C and of the vectors
Q *beside* it: vectors from outside that the block reads, outputs of the iterations so far, and
vectors outside that meet the results. The block is given Q as one more batch, which it does not
change, and Cov(C, Q) follows by the same recursion as all other covariances:

    Cov(c_{t+1}, Q) from Cov(c_t, Q),   Cov(y_t, Q),   with y_t in Q from then on.

That is all that later vectors need where the carries are Gaussian given the numbers so far, or
meet matrices before nonlinearities. Where they are not, iterations are written out.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Argument, Dot, FromScan, MatMul, Scan
from limitlaw.core.kinds import Coordinatewise, Value
from limitlaw.core.labelled import Axes, Axis, sizes
from limitlaw.core.program import Program, after_inputs
from limitlaw.core.space import Dim
from limitlaw.engines.limit.facts import PASSING, LimitFacts, OfArgument
from limitlaw.engines.limit.history import why_not_tied
from limitlaw.engines.limit.score_facts import correlated, undrawn_scores


@dataclasses.dataclass(frozen=True, eq=False)
class InSpace:
    """What passes through a loop in one space: the places of `carries` and of `outputs`, by the
    number of the result, and of `outside` vectors, each with the order of its axes.

    The places of outside vectors and outputs are in `beside`, a batch that stands for all of them
    in the block.
    """

    dim: Dim
    carries: dict[int, tuple[int, Axes]]
    outside: dict[Value, tuple[int, Axes]]
    outputs: dict[int, tuple[int, Axes]]
    beside: Value | None

    @property
    def carried(self) -> int:
        """The number of vectors that are carried."""
        return sum(count(axes) for _, axes in self.carries.values())

    @property
    def standing(self) -> int:
        """The number of vectors beside the loop."""
        return 0 if self.beside is None else int(self.beside.axes[0].size)


def count(axes: Axes) -> int:
    """The number of entries over these axes."""
    return math.prod(sizes(axes))


@dataclasses.dataclass(frozen=True, eq=False)
class Passing:
    """What passes through a scan in each space, and the facts of its block.

    `read`: the vectors outside that the block reads, with axes as it needs them.
    """

    op: Scan
    parts: tuple[InSpace, ...]
    read: tuple[tuple[Value, Axes], ...]
    arguments: dict[Value, OfArgument]
    coarse: bool

    @functools.cached_property
    def analysis(self) -> Analysis:
        """The analysis of the block, with the vectors beside the loop."""
        beside = [part.beside for part in self.parts if part.beside is not None]
        return Analysis(Program((*beside, *self.op.block.results)), self.op.block)

    @functools.cached_property
    def jointly(self) -> frozenset[Value]:
        """The scores of the block that must be drawn jointly."""
        return correlated(LimitFacts(self.analysis, coarse=self.coarse, arguments=self.arguments))

    @functools.cached_property
    def facts(self) -> LimitFacts:
        """The facts of the block; scores that only weight vectors are not drawn."""
        undrawn = undrawn_scores(self.analysis) - self.jointly
        return LimitFacts(self.analysis, undrawn, self.coarse, arguments=self.arguments)


def passing(facts: LimitFacts, scan: Value) -> Passing:
    """What passes through a scan of a program."""
    op, loop = scan.instruction, facts.loops[scan]
    assert isinstance(op, Scan)
    read = [(u, (op.axis, *v.axes)) for u, v in zip(op.sequences, op.elements, strict=True)]
    read += [(u, v.axes) for u, v in zip(op.constants, op.invariant, strict=True)]
    read = [(u, tuple(a for a in axes if a in u.axes)) for u, axes in read if u in facts.roots]
    outside = {w: w.axes for w in _met_beside(facts, scan)} | dict(read)
    parts, arguments = [], dict(loop.arguments)
    results = [(i, y) for i, y in enumerate(op.block.results) if y in loop.block.roots]
    for dim in dict.fromkeys(v.dim for v in (*outside, *(y for _, y in results))):
        assert dim is not None
        own = [(i, y) for i, y in results if y.dim == dim]
        carries = _placed((i, op.carried[i].axes) for i, _ in own if i < len(op.starts))
        outputs = [(i, (op.axis, *y.axes)) for i, y in own if i >= len(op.starts)]
        given = [(w, axes) for w, axes in outside.items() if w.dim == dim]
        places = _placed([*given, *outputs])
        beside = None
        if places:
            size = sum(count(axes) for _, axes in places.values())
            beside = Value(Argument(), (Axis(size),), dim)
            gaussian = all(facts.gaussian[w] for w, _ in given)
            gaussian &= all(loop.known(i)[0] for i, _ in outputs)
            has_mean = any(facts.has_mean[w] for w, _ in given)
            has_mean |= any(loop.known(i)[1] for i, _ in outputs)
            arguments[beside] = OfArgument(gaussian, has_mean)
        parts.append(
            InSpace(
                dim,
                carries,
                {w: places[w] for w, _ in given},
                {i: places[i] for i, _ in outputs},
                beside,
            )
        )
    return Passing(op, tuple(parts), tuple(read), arguments, facts.coarse)


def _placed(items: Iterable[tuple[Any, Axes]]) -> dict[Any, tuple[int, Axes]]:
    """For each batch, one behind the other, where it starts and its axes."""
    places: dict[Any, tuple[int, Axes]] = {}
    start = 0
    for item, axes in items:
        places[item] = start, axes
        start += count(axes)
    return places


# --- what is met beside a loop -------------------------------------------------------------------


def _met_beside(facts: LimitFacts, scan: Value) -> list[Value]:
    """The vectors from before a loop of which covariances with its results may be asked for."""
    roots = functools.reduce(int.__or__, (facts.roots[v] for v in _results(facts, scan)), 0)
    start, values = facts.position[scan], facts.analysis.values
    earlier = [
        w for w in values if w in facts.roots and _is_leaf(facts, w) and _time(facts, w) < start
    ]
    earlier = [w for w in earlier if facts.roots[w] & roots]
    if not earlier or _meets_anything(facts, roots):
        return earlier
    later = (u for v in values if facts.position[v] > start for u in v.vectors)
    met = _leaves(facts, (*later, *(v for v in facts.analysis.program.outputs)))
    return [w for w in earlier if w in met]


def _results(facts: LimitFacts, scan: Value) -> list[Value]:
    return [v for v in facts.analysis.readers[scan] if v in facts.roots]


def _time(facts: LimitFacts, v: Value) -> int:
    """The position at which a vector is known: for a result of a loop, that of the loop."""
    op = v.instruction
    return facts.position[op.scan if isinstance(op, FromScan) else v]


def _is_leaf(facts: LimitFacts, v: Value) -> bool:
    """Is it more than a linear combination of other vectors?"""
    return not v.instruction.linear or v in facts.bilinear


def _leaves(facts: LimitFacts, vectors: Iterable[Value]) -> set[Value]:
    """The leaves of which wide vectors are linear combinations."""

    def known(some: Iterable[Value]) -> list[Value]:
        return [v for v in some if v in facts.roots]

    found = after_inputs(known(vectors), lambda v: [] if _is_leaf(facts, v) else known(v.vectors))
    return {v for v in found if _is_leaf(facts, v)}


def _meets_anything(facts: LimitFacts, roots: int) -> bool:
    """May covariances be asked for of vectors that no instruction reads together: vectors that one
    matrix multiplies one after the other, vectors at nodes, or factors of scores?
    """
    analysis = facts.analysis
    outputs = (v for v in analysis.program.outputs if v in facts.roots)
    return (
        bool(analysis.reused)
        or not all(facts.gaussian[v] for v in outputs)
        or any(_is_rough(facts, v) for v in analysis.values)
        or any(_meets_twice(facts, v, roots) for v in analysis.values)
    )


def _is_rough(facts: LimitFacts, v: Value) -> bool:
    return isinstance(v.instruction, Coordinatewise) and v not in facts.integrable


def _meets_twice(facts: LimitFacts, v: Value, roots: int) -> bool:
    """Is it a score whose factors both depend on these sources of randomness?"""
    op = v.instruction
    is_score = isinstance(op, Dot) and op.scaling == "sqrt"
    return is_score and all(facts.roots.get(u, 0) & roots for u in op.inputs)


# --- what cannot pass ----------------------------------------------------------------------------


def why_written_out(facts: LimitFacts, of_coordinates: bool) -> str:
    """Why loops of a program are written out; empty if none is.

    `of_coordinates`: coordinates of its outputs are read, and not only moments.
    """
    return next(_reasons(facts, of_coordinates), "")


def _reasons(facts: LimitFacts, of_coordinates: bool) -> Iterator[str]:
    for scan in facts.loops:
        op = scan.instruction
        assert isinstance(op, Scan)
        vectors = [v for v in (*op.inputs, *op.block.results) if v.is_vector]
        if not all(v in facts.roots or v in facts.loops[scan].block.roots for v in vectors):
            yield "vectors of fixed dimension pass by their coordinates"
        elif op.shared:
            yield from filter(None, [why_not_tied(facts, scan)])
        else:
            yield from _of_scan(facts, scan)
    if facts.loops or any(isinstance(v.instruction, Argument) for v in facts.roots):
        yield from _of_functions(facts, of_coordinates)


def _of_functions(facts: LimitFacts, of_coordinates: bool) -> Iterator[str]:
    """Reasons where a nonlinearity acts on a result of a loop that is not Gaussian."""
    read = [v for v in facts.roots if isinstance(v.instruction, Coordinatewise)]
    if of_coordinates:
        read += [v for v in facts.analysis.program.outputs if v in facts.roots]
    for v in read:
        made_of = facts.made_of(v.vectors if isinstance(v.instruction, Coordinatewise) else [v])
        if any(_passes(u) and not facts.gaussian[u] for u in made_of):
            yield "a nonlinearity, or the law of a coordinate, needs what is not Gaussian"


def _passes(v: Value) -> bool:
    return isinstance(v.instruction, Argument | FromScan)


def _of_scan(facts: LimitFacts, scan: Value) -> Iterator[str]:
    through = passing(facts, scan)
    inside, known = through.facts, through.arguments
    for v in inside.analysis.values:
        if _meets_twice(inside, v, inside.root_of(PASSING)):
            yield "there are scores of what passes, with no matrix between"
    beside = [part.beside for part in through.parts if part.beside is not None]
    vectors = [v for v in known if v in inside.roots]
    rough = not all(known[v].gaussian for v in vectors)
    for v in _leaves(inside, through.op.block.results):
        function = isinstance(v.instruction, Coordinatewise) and inside.reads(v, PASSING)
        if function and (rough or (beside and _is_rough(inside, v))):
            yield "a nonlinearity acts on what passes, and its result meets that again"
    yield from _later(facts, scan)
    yield from _reasons(inside, of_coordinates=False)


def _later(facts: LimitFacts, scan: Value) -> Iterator[str]:
    """Reasons where later vectors depend on how the vectors that passed were made."""
    for v in _results(facts, scan):
        for w in facts.analysis.values:
            op, late = w.instruction, facts.position[w] > facts.position[scan]
            if late and isinstance(op, MatMul) and facts.reads(v, op.family):
                yield "a matrix meets what comes out of a loop, and made what went in"
            function = isinstance(op, Coordinatewise) and w in facts.roots
            if late and function and not facts.gaussian[v] and not facts.independent(v, w):
                yield "what comes out of a loop is not Gaussian, and meets a nonlinearity"
