"""What a program at infinite width needs, whatever its numbers:
facts, requests for draws, compiled functions.

It is made once for a structure and a statistic. The program it keeps has no numbers in its slots:
they are arguments.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Map, Rename, Repeat
from limitlaw.core.program import Output
from limitlaw.core.rewrites import renumbered, unrolled, with_nodes
from limitlaw.engines import asked
from limitlaw.engines.compiling import Compiled, Staged
from limitlaw.engines.effort import BUDGET, draws_together
from limitlaw.engines.engine import slots
from limitlaw.engines.limit.draw import LimitDraw, Static
from limitlaw.engines.limit.loop import CannotCarry
from limitlaw.engines.limit.statistics import Outputs, Statistic
from limitlaw.numerics.quasi import MOST_DIMENSIONS, Quasi


def written(outputs: Sequence[Output], most_heads: int, unrolls: bool) -> tuple[Outputs, int]:
    """The outputs by a program that computes no more than they need;
    how many nodes an infinite axis has in it.
    """
    if unrolls:
        turns = unrolled([output.value for output in outputs])
        outputs = [
            Output(value, output.layout) for value, output in zip(turns, outputs, strict=True)
        ]
    finite, heads = with_nodes(outputs, most_heads)
    values = demanded([output.value for output in finite])
    return tuple(
        Output(value, output.layout) for value, output in zip(values, finite, strict=True)
    ), heads


@dataclasses.dataclass(frozen=True)
class Requests:
    """What one draw asks for: the degrees of freedom of each number,
    ∞ for a normal, and of each one for every node.

    `overflows`: it asks for more than are handed out. `dimensions`: of the nodes for
    nonlinearities. `size`: numbers in what is read off a draw. `quadrature`: there are integrals
    without a closed form; `unsure`: of functions of which it is not known where they are smooth,
    so that the errors of their integrals may matter.
    """

    recipe: tuple[float, ...] = ()
    head_recipe: tuple[float, ...] = ()
    overflows: bool = False
    dimensions: int = 0
    size: int = 0
    quadrature: bool = False
    unsure: bool = False


class Plan:
    """A structure at infinite width, and the statistic that is read off its draws."""

    def __init__(self, outputs: Sequence[Output], statistic: Statistic, inflated: bool):
        self.statistic, self.inflated, self.unrolls = statistic, inflated, False
        try:
            self._prepare(outputs)
        except CannotCarry:
            self.unrolls = True
            self._prepare(outputs)
        self.given = Compiled(self._given)
        self.draws = Compiled(jax.vmap(self.draw, in_axes=(None, 0, 0, None, None)))
        self.single = Compiled(lambda arrays, *numbers: self.draw(self._given(arrays), *numbers))

    def _prepare(self, outputs: Sequence[Output]) -> None:
        """With few nodes for each draw, where there will be many:
        if something is drawn, as it is likely to be.
        """
        facts = Analysis(asked.program_of(tuple(outputs)))
        likely = bool(facts.stay_random)
        self._prepare_with(outputs, coarse=likely)
        if self.random != likely:
            self._prepare_with(outputs, coarse=self.random)

    def _prepare_with(self, outputs: Sequence[Output], coarse: bool) -> None:
        self.most_heads = BUDGET.heads_each if coarse else BUDGET.heads
        given, self.heads = written(outputs, self.most_heads, self.unrolls)
        self.outputs = renumbered(given, _shape)
        self.facts = Analysis(asked.program_of(self.outputs))
        scores = (
            frozenset(v for v, _ in self.outputs)
            if getattr(self.statistic, "undrawn", False)
            else frozenset()
        )
        self.static = Static.of(self.facts, coarse, self.inflated, scores)
        self.most = MOST_DIMENSIONS
        self._stages: Staged | None = None
        self.requests = self._recorded() if self._may_draw() else Requests()
        if self.requests.overflows:  # too many numbers for Sobol points to help: all are random
            self.most = 0
            self.requests = dataclasses.replace(self.requests, recipe=())
            for loop, turn in self.static.turns.items():
                self.static.turns[loop] = turn._replace(recipe=(), overflows=True)

    def _may_draw(self) -> bool:
        """May something be drawn, or averaged over nodes?
        If not, nothing needs to be written down.
        """
        static = self.static.facts
        rough = any(
            isinstance(v.instruction, Map) and v not in static.integrable for v in static.gaussian
        )
        of_coordinates = any(not static.gaussian.get(v, True) for v, _ in self.outputs)
        random = bool(self.facts.stay_random)
        return (
            rough
            or of_coordinates
            or random
            or self.has_loops
            or getattr(self.statistic, "at_nodes", False)
        )

    @property
    def has_loops(self) -> bool:
        """Is there a loop, which should be compiled even if it is followed once?"""
        return any(isinstance(v.instruction, Repeat) for v in self.facts.values)

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return bool(self.requests.recipe) or self.requests.overflows

    @property
    def uses_nodes(self) -> bool:
        """Is there a nonlinearity that needs quasi-Monte Carlo?"""
        return self.requests.dimensions > 0

    def _recorded(self) -> Requests:
        """One draw, of which the requests are written down. Where it asks for numbers alone, and
        not for nodes or keys, it is not followed again.
        """
        found: dict[str, Any] = {}

        def recorded(arrays: list[Any], numbers: tuple[Any, Any]) -> Any:
            row, key = numbers
            source = Quasi(key, row, most=self.most)
            draw = self.followed(arrays, source, None)
            result = self.statistic(draw, self.outputs)
            integrals = draw.moments.integrals
            found.update(recipe=tuple(source.recipe), head_recipe=tuple(source.table_recipe))
            found.update(overflows=source.overflows, dimensions=draw.moments.nodes.dimensions)
            found.update(quadrature=integrals.quadrature, unsure=integrals.unsure)
            return result

        arrays = asked.program_of(self.outputs).arrays
        row, key = jax.ShapeDtypeStruct((self.most,), float), jax.random.key(0)
        stages = Staged(recorded, arrays, (row, key))
        size = sum(math.prod(a.shape) for a in jax.tree.leaves(stages.result))
        requests = Requests(size=size, **found)
        if not (requests.head_recipe or requests.overflows or requests.dimensions):
            self._stages = stages
        return requests

    @property
    def prepares(self) -> bool:
        """Is something computed before all draws?"""
        return self._stages is not None and self._stages.pays

    def _given(self, arrays: list[Any]) -> list[Any]:
        """What draws need of the numbers of the program: what is computed of them beforehand,
        where that takes longer than a call.
        """
        return self._stages.first(arrays) if self._stages and self.prepares else arrays

    def followed(self, arrays: list[Any], source: Quasi, table: object) -> LimitDraw:
        """One draw of the program with these numbers in its slots."""
        program = self.facts.program
        draw = LimitDraw(self.static, slots(program, arrays), source, table)
        draw.reader = getattr(self.statistic, "reader", None)
        draw.run(program)
        return draw

    def draw(self, given: list[Any], row: Any, key: Any, table: Any, heads: Any) -> Any:
        """What is read off the draw with the numbers in `row`,
        and those of each node of infinitely many heads.
        """
        if self._stages is not None:
            between = given if self.prepares else self._stages.first(given)
            padded = jnp.pad(row, (0, self.most - len(row)))
            return self._stages.second(between, (padded, key))
        source = Quasi(key, row, heads, self.most)
        return self.statistic(self.followed(given, source, table), self.outputs)

    def batch(self, samples: int) -> int:
        """As many draws as keep the numbers held at a time near the budget,
        and some batches where those have new nodes.
        """
        most = draws_together(self._cost, BUDGET.held_elsewhere)
        if self.uses_nodes or self.requests.head_recipe:
            most = min(most, max(1, samples // BUDGET.batches))
        return min(samples, most)

    @functools.cached_property
    def _cost(self) -> int:
        """The numbers that one draw holds."""
        cost = 16
        program = self.facts.program
        for value in (v for part in (program, *program.every_block) for v in part.values):
            if not isinstance(value.instruction, Rename):
                each = 1 if value.dim is None else 4 if value.dim.wide else value.dim.at(1)
                cost += each * math.prod(int(axis.size) for axis in value.axes)
        return cost + BUDGET.nodes_each * self.requests.dimensions


def _shape(array: Any) -> jax.ShapeDtypeStruct:
    """What a compiled function depends on of its arguments."""
    return jax.ShapeDtypeStruct(np.shape(array), jnp.result_type(array))
