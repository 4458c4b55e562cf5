"""A loop whose iterations have the same matrices and initial vectors, at infinite width.

Iteration t depends on what earlier ones made, since W x_t and W x_s are correlated. All earlier
iterations are one batch: the block is written a second time with an axis of iterations
(`History`), and covariances of the present iteration with that copy are found by the same
recursion as all others. So the program does not grow with the number of iterations. The state
consists, for the argument x and every matrix product g that covariances lead to, of

    Cov(x_t, x_t),   Cov(x_t, x_s),   Cov(x_t, g_s),   s < t,

with the numbers of earlier iterations and the frames of scores. The remaining Cov(g_t, x_s)
follows one iteration after the other, x_{s+1} being linear in x_s and the products of iteration s.
"""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from limitlaw.core.instructions import Scan
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled, sizes
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit.forms import BilinearForms, Normals
from limitlaw.engines.limit.history import (
    OWN,
    History,
    Name,
    TurnFrame,
    TurnMoments,
    TurnState,
    whole,
)
from limitlaw.engines.limit.joint_law import JointLaw, Located, Passed, SpaceLaw
from limitlaw.numerics.random import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw


class TiedLoop:
    """The iterations of a loop with tied weights, in a draw, followed in stretches with room for
    the iterations up to their ends: unused room costs time.
    """

    def __init__(self, draw: "LimitDraw", value: Value, op: Scan):
        self.draw, self.value, self.op = draw, value, op
        (self.x,), (argument,) = op.starts, op.carried
        self.axes = argument.axes
        vectors = op.times * math.prod(sizes(self.axes))
        count = max(1, min(BUDGET.most_stretches, vectors // BUDGET.stretch, op.times))
        ends = [-(-op.times * (i + 1) // count) for i in range(count)]
        histories = [History(op, end) for end in ends]
        statics = [history.static(draw.static) for history in histories]
        forms = BilinearForms(draw.moments, statics[0].in_order, statics[0].facts)
        self.normals = forms.all_normals(draw.source, op.times)
        self.stretches = [
            Stretch(draw, value, history, static, forms, self.normals)
            for history, static in zip(histories, statics, strict=True)
        ]

    def passed(self) -> Passed:
        """The law of x after all iterations."""
        x, axes = self.x, self.axes
        state: TurnState = {OWN: whole(self.draw.moments.covariance(x, x), axes, axes)}
        known = self.draw.static.tied
        if self.value not in known:
            known[self.value] = self.stretches[0].asked(state)
        start, read = 0, []
        for stretch in self.stretches:
            state, found = stretch.followed(stretch.widened(state, known[self.value]), start)
            read.append(found)
            start = stretch.end
        held = sum(array.size for array in (*state.values(), *self.normals.values()))
        self.draw.static.held[self.value] = held
        every = jax.tree.map(lambda *parts: jnp.concatenate(parts), *read)
        self.draw.keep_read(self.value, every)
        assert x.dim is not None
        m = math.prod(sizes(axes))
        law = SpaceLaw(jnp.zeros(m), state[OWN].reshape(m, m), jnp.zeros((0, 0)))
        place = Located(x.dim, True, 0, axes, has_mean=False)
        return Passed(JointLaw({x.dim: law}, {0: place}), {})


class Stretch:
    """Iterations up to `end`, within arrays that have room for so many."""

    def __init__(
        self,
        draw: "LimitDraw",
        loop: Value,
        history: History,
        static: Any,
        forms: BilinearForms,
        normals: Normals,
    ):
        self._draw, self._loop, self._history, self._static = draw, loop, history, static
        self.end = int(history.turns.size)
        self._forms, self._normals = forms, forms.those_of(normals, self.end)

    def followed(self, state: TurnState, start: int) -> tuple[TurnState, Any]:
        """The state after the stretch, and what is read off each iteration from `start` on."""

        def turn(state: TurnState, at: Any) -> tuple[TurnState, Any]:
            inside, moments = self._turn(at, state)
            read = self._draw.read_iteration(inside, self._loop, self._history.program.values)
            after = self._next(at, state, inside, moments)
            self._draw.moments.take_note_of(moments)  # here, where all moments have been asked for
            return after, read

        return lax.scan(turn, state, jnp.arange(start, self.end))

    def widened(self, state: TurnState, names: list[Name]) -> TurnState:
        """The state with room for the iterations of this stretch."""
        rooms: TurnState = {OWN: jnp.zeros(state[OWN].shape)}
        for i, p in enumerate(self._history.numbers):
            rooms["number", i] = jnp.zeros((self.end, *sizes(p.axes)))
        for i, component in enumerate(self._forms.distinct):
            ((v, copies),) = component.places
            r = self.end * math.prod(sizes(axis for axis in v.axes if axis not in copies))
            rooms["frame", i] = jnp.zeros((*sizes(copies), r, r))
        rooms |= {name: self._history.room(name) for name in names}
        corner = {name: tuple(map(slice, array.shape)) for name, array in state.items()}
        return {
            name: room.at[corner[name]].set(state[name]) if name in state else room
            for name, room in rooms.items()
        }

    def asked(self, state: TurnState) -> list[Name]:
        """The names of what an iteration asks for of earlier ones."""
        names: list[Name] = []
        while missing := self._missing(self.widened(state, names)):
            names += missing
        return names

    def _missing(self, state: TurnState) -> list[Name]:
        asked: dict[Name, None] = {}

        def turn(state: TurnState) -> TurnState:
            inside, moments = self._turn(jnp.asarray(0), state)
            after = self._next(jnp.asarray(0), state, inside, moments)
            asked.update(moments.asked)
            return after

        jax.eval_shape(turn, state)
        return [name for name in asked if name not in state]

    def _turn(self, at: Any, state: TurnState) -> tuple["LimitDraw", TurnMoments]:
        """A draw of one iteration."""
        inside = self._draw.inside(self._static, Quasi(jax.random.key(0), most=0))
        moments = TurnMoments(self._history, at, state, self._static.facts, inside)
        inside.moments = moments
        for i, p in enumerate(self._history.numbers):
            past = self._history.of[p]
            inside.results[past] = Labelled(state["number", i], past.axes)
        frames = {
            component.places: TurnFrame(moments, self._history, at, state["frame", i])
            for i, component in enumerate(self._forms.distinct)
        }
        inside.forms = self._forms.within(moments, frames, self._normals)
        for v, past in self._history.of.items():
            if past is v:  # what is loop-invariant is known before what earlier iterations read
                inside.evaluate(v)
        inside.run(self._history.program)
        return inside, moments

    def _next(
        self, at: Any, state: TurnState, inside: "LimitDraw", moments: TurnMoments
    ) -> TurnState:
        """The state after an iteration."""
        y = self._history.result
        after: TurnState = {OWN: whole(moments.covariance(y, y), y.axes, y.axes)}
        for i, p in enumerate(self._history.numbers):
            after["number", i] = state["number", i].at[at].set(inside[p].whole(p.axes))
        for i, component in enumerate(self._forms.distinct):
            after["frame", i] = inside.forms.frames[component.places].L
        for name in (name for name in state if name[0] in ("product", "variance")):
            v = self._history.values[name[1]]
            if name[0] == "variance":
                after[name] = state[name].at[at].set(moments.variance(v).whole(v.axes))
            else:
                after[name] = (
                    self._products(moments, v)
                    .at[at]
                    .set(whole(moments.covariance(y, v), y.axes, v.axes))
                )
        return after

    def _products(self, moments: TurnMoments, v: Value) -> Any:
        """Cov(y, v_s), iterations s in front."""
        y, past = self._history.result, self._history.of[v]
        return whole(moments.covariance(y, past), y.axes, v.axes, self._history.turns)
