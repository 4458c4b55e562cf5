"""A loop at infinite width: its state is the joint law of the carries and of the vectors beside
the loop (`carrying`), by means and covariances.
"""

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from limitlaw.core.instructions import Scan
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axes, Labelled
from limitlaw.core.space import Dim
from limitlaw.engines.limit.carrying import InSpace, count
from limitlaw.engines.limit.joint_law import JointLaw, Located, Passed, SpaceLaw
from limitlaw.numerics.random import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw
    from limitlaw.engines.limit.moments import Moments


class Recipe(NamedTuple):
    """The degrees of freedom of the latent variables of one iteration, and of those of each node;
    do they exceed what is handed out?
    """

    recipe: tuple[float, ...]
    table_recipe: tuple[float, ...]
    overflows: bool


class LoopState(NamedTuple):
    """The state of a loop: the law in each space, and numbers."""

    laws: dict[Dim, SpaceLaw]
    numbers: list[Any]


class LimitLoop:
    """The iterations of a scan, within a draw."""

    def __init__(self, draw: "LimitDraw", value: Value, op: Scan):
        self.draw, self.value, self.op = draw, value, op
        self.static, self.passing = draw.static.inside(value)
        self._most = draw.source.most if isinstance(draw.source, Quasi) else math.inf
        given = zip(op.invariant, op.constants, strict=True)
        self.numbers = {v: draw[u] for v, u in given if not v.is_vector}

    def passed(self) -> Passed:
        """The results after all iterations."""
        op, draw = self.op, self.draw
        start = self._packed(self._start)
        if self.value not in draw.static.iterations:
            draw.static.iterations[self.value] = self._recorded(start)
        one = draw.static.iterations[self.value]
        draw.static.held[self.value] = sum(
            part.standing * (part.carried + part.standing) for part in self.passing.parts
        )

        def step(carry: Any, at: Any) -> tuple[Any, Any]:
            t, elements, (row, table, key) = at
            state = self._opened(carry)
            inside = self._followed(state, t, elements, Quasi(key, row, table, self._most))
            read = draw.read_iteration(inside, self.value)
            after, outputs = self._after(state, t, inside)
            # here, where all moments have been asked for
            draw.moments.take_note_of(inside.moments)
            return self._packed(after), (outputs, read)

        order = np.asarray(op.order)
        along = jax.tree.map(lambda x: x[order], self._along())
        asked = _numbers(draw.source, one, op.times)
        end, (outputs, read) = lax.scan(step, start, (jnp.asarray(order), along, asked))
        draw.keep_read(self.value, read)
        state = self._opened(end)
        every = [x[::-1] if op.reverse else x for x in outputs]
        axes = [v.axes for v in op.carried] + [(op.axis, *y.axes) for y in op.outputs]
        numbers = [i for i, y in enumerate(op.block.results) if not y.is_vector]
        found = zip(numbers, (*state.numbers, *every), strict=True)
        return Passed(
            JointLaw(state.laws, self._results), {i: Labelled(x, axes[i]) for i, x in found}
        )

    def _recorded(self, start: Any) -> Recipe:
        """The latent variables that one iteration asks for."""
        source = Quasi(jax.random.key(0), most=self._most)

        def recorded(carry: Any, t: Any, elements: Any) -> Any:
            state = self._opened(carry)
            return self._packed(
                self._after(state, t, self._followed(state, t, elements, source))[0]
            )

        jax.eval_shape(recorded, start, 0, [x[0] for x in self._along()])
        return Recipe(tuple(source.recipe), tuple(source.table_recipe), source.overflows)

    # --- before the loop -------------------------------------------------------------------------

    @functools.cached_property
    def _start(self) -> LoopState:
        """The state before the first iteration."""
        moments, op = self.draw.moments, self.op
        laws = {part.dim: self._law_before(part, moments) for part in self.passing.parts}
        starts = zip(op.starts, op.carried, strict=True)
        numbers = [self.draw[u].whole(v.axes) for u, v in starts if not u.is_vector]
        return LoopState(laws, numbers)

    def _law_before(self, part: InSpace, moments: "Moments") -> SpaceLaw:
        """The law of starts and of vectors outside; outputs are zero so far."""
        carries = [(self.op.starts[i], axes) for i, (_, axes) in part.carries.items()]
        outside = [(w, axes) for w, (_, axes) in part.outside.items()]
        read, every = {u for u, _ in self.passing.read}, (*carries, *outside)
        c, q, p = part.carried, part.standing, sum(count(axes) for _, axes in outside)
        own = [[flat(moments, v, w, a, b) for w, b in every] for v, a in carries]
        carried = jnp.block(own) if carries else jnp.zeros((0, c + p))
        rows = [
            [
                flat(moments, v, w, a, b)
                if v in read or w in read
                else jnp.zeros((count(a), count(b)))
                for w, b in outside
            ]
            for v, a in outside
        ]
        beside = jnp.block(rows) if outside else jnp.zeros((0, 0))
        means = [mean_of(moments, v, axes) for v, axes in every]
        return SpaceLaw(
            jnp.concatenate([*means, jnp.zeros(q - p)]),
            jnp.pad(carried, [(0, 0), (0, q - p)]),
            jnp.pad(beside, [(0, q - p), (0, q - p)]),
        )

    # --- one iteration ---------------------------------------------------------------------------

    def _along(self) -> list[Any]:
        """The numbers among sequences, iterations in front."""
        along = zip(self.op.sequences, self.op.elements, strict=True)
        return [self.draw[u].whole((self.op.axis, *v.axes)) for u, v in along if not v.is_vector]

    def _followed(
        self, state: LoopState, t: Any, elements: list[Any], source: Quasi
    ) -> "LimitDraw":
        """The draw of iteration t."""
        op, inside = self.op, self.draw.inside(self.static, source)
        inside.law = JointLaw(state.laws, self._arguments(t))
        inside.results |= self.numbers
        for arguments, arrays in ((op.carried, state.numbers), (op.elements, elements)):
            numbers = [v for v in arguments if not v.is_vector]
            given = zip(numbers, arrays, strict=True)
            inside.results |= {v: Labelled(x, v.axes) for v, x in given}
        inside.run(self.static.facts.analysis.program)
        return inside

    def _after(self, state: LoopState, t: Any, inside: "LimitDraw") -> tuple[LoopState, list[Any]]:
        """The state after an iteration, and the numbers among its outputs."""
        op = self.op
        laws = {
            part.dim: self._law_after(part, state.laws[part.dim], t, inside.moments)
            for part in self.passing.parts
        }
        carried = zip(op.following, op.carried, strict=True)
        numbers = [inside[y].whole(v.axes) for y, v in carried if not v.is_vector]
        return LoopState(laws, numbers), [
            inside[y].whole(y.axes) for y in op.outputs if not y.is_vector
        ]

    def _law_after(self, part: InSpace, before: SpaceLaw, t: Any, moments: "Moments") -> SpaceLaw:
        """The law after iteration t, in which its outputs have their places."""
        results, c = self.op.block.results, part.carried
        carries = [(results[i], start, axes) for i, (start, axes) in part.carries.items()]
        outputs = [
            (results[i], start + t * count(axes[1:]), axes[1:])
            for i, (start, axes) in part.outputs.items()
        ]
        beside = [] if part.beside is None else [(part.beside, 0, part.beside.axes)]
        mean, carried, Q = before
        if carries:
            rows = [
                [flat(moments, v, w, a, b) for w, _, b in carries + beside] for v, _, a in carries
            ]
            carried = jnp.block(rows)
        known = all(moments.mean(y) is None for y, _, _ in carries + outputs)
        assert known or self._has_mean(part)
        for v, start, a in carries:
            mean = lax.dynamic_update_slice(mean, mean_of(moments, v, a), (start,))
        for y, at, a in outputs:
            mean = lax.dynamic_update_slice(mean, mean_of(moments, y, a), (c + at,))
            for w, _, b in beside:
                row = flat(moments, y, w, a, b)
                Q = lax.dynamic_update_slice(Q, row, (at, 0))
                Q = lax.dynamic_update_slice(Q, row.T, (0, at))
            for v, start, b in carries:
                column = flat(moments, v, y, b, a)
                carried = lax.dynamic_update_slice(carried, column, (start, c + at))
        for y, row_at, a in outputs:
            for w, at, b in outputs:
                Q = lax.dynamic_update_slice(Q, flat(moments, y, w, a, b), (row_at, at))
        return SpaceLaw(mean, carried, Q)

    # --- places ----------------------------------------------------------------------------------

    def _arguments(self, t: Any) -> dict[Value | int, Located]:
        """The places of the arguments of the block in iteration t."""
        op, known = self.op, self.passing.arguments
        found: dict[Value | int, Located] = {}
        outside = dict(zip(op.block.arguments, op.inputs, strict=True))
        for part in self.passing.parts:
            for i, (start, axes) in part.carries.items():
                v = op.carried[i]
                found[v] = Located(part.dim, True, start, axes, known[v].has_mean)
            for v in (*op.elements, *op.invariant):
                if outside[v] in part.outside and v.is_vector:
                    start, axes = part.outside[outside[v]]
                    if axes and axes[0] is op.axis:
                        start, axes = start + t * count(axes[1:]), axes[1:]
                    found[v] = Located(part.dim, False, start, axes, known[v].has_mean)
            if (w := part.beside) is not None:
                found[w] = Located(part.dim, False, 0, w.axes, known[w].has_mean)
        return found

    @functools.cached_property
    def _results(self) -> dict[Value | int, Located]:
        """The places of the results, and of the vectors that they meet."""
        loop = self.draw.static.facts.loops[self.value]
        found: dict[Value | int, Located] = {}
        for part in self.passing.parts:
            for i, (start, axes) in part.carries.items():
                found[i] = Located(part.dim, True, start, axes, loop.known(i)[1])
            for i, (start, axes) in part.outputs.items():
                found[i] = Located(part.dim, False, start, axes, loop.known(i)[1])
            for w, (start, axes) in part.outside.items():
                found[w] = Located(part.dim, False, start, axes, has_mean=False)
        return found

    # --- as arrays -------------------------------------------------------------------------------

    def _packed(self, state: LoopState) -> Any:
        """The state without what stays: means that are zero, and laws of vectors outside."""
        laws = []
        for part in self.passing.parts:
            law = state.laws[part.dim]
            mean = law.mean if self._has_mean(part) else None
            laws.append(SpaceLaw(mean, law.carried, law.beside if part.outputs else None))
        return laws, state.numbers

    def _opened(self, arrays: Any) -> LoopState:
        laws, numbers = arrays
        found = {}
        for part, law in zip(self.passing.parts, laws, strict=True):
            mean = jnp.zeros(part.carried + part.standing) if law.mean is None else law.mean
            beside = self._start.laws[part.dim].beside if law.beside is None else law.beside
            found[part.dim] = SpaceLaw(mean, law.carried, beside)
        return LoopState(found, numbers)

    def _has_mean(self, part: InSpace) -> bool:
        known = self.passing.arguments
        carries = any(known[self.op.carried[i]].has_mean for i in part.carries)
        return carries or (part.beside is not None and known[part.beside].has_mean)


def flat(moments: "Moments", v: Value, w: Value, left: Axes, right: Axes) -> Any:
    """Cov(v, w) over the flattened entries."""
    block = moments.covariance(v, w)
    if block is None:
        return jnp.zeros((count(left), count(right)))
    return block.flat(left, right)


def mean_of(moments: "Moments", v: Value, axes: Axes) -> Any:
    """E v over the flattened entries."""
    mean = moments.mean(v)
    return jnp.zeros(count(axes)) if mean is None else mean.whole(axes).reshape(-1)


def _numbers(source: Any, one: Recipe, times: int) -> tuple[Any, Any, Any]:
    """For each iteration its latent variables, those of each node, and a key. A source that has
    too few notes that, and all are random in the end.
    """
    size = len(one.recipe)
    rows = jnp.zeros((times, 0))
    if size:
        given = source.take((times, size), np.tile(one.recipe, (times, 1)))
        rows = jnp.zeros((times, size)) if given is None else given
    key = source.fresh_key() if one.overflows or (size and given is None) else jax.random.key(0)
    return rows, source.columns(one.table_recipe, times), jax.random.split(key, times)
