"""A program at infinite width.

What does not depend on its numbers (facts, requests for draws, compiled functions) is made once
for a structure and a reading: a `Plan`. The program that it keeps has no numbers in its slots,
they are arguments. With them (`Planned`) it can be followed at any points.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw.core.instructions import Rename
from limitlaw.core.kinds import Coordinatewise
from limitlaw.core.labelled import Axes, Axis
from limitlaw.core.linear_covariance import RULED
from limitlaw.core.program import Output
from limitlaw.engines import engine
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.engine import draws_together, slots
from limitlaw.engines.limit.draw import LimitDraw, Outputs
from limitlaw.engines.limit.followed import Followed, written
from limitlaw.engines.limit.invariants import Invariant
from limitlaw.engines.reading import Reading
from limitlaw.numerics.random import MOST_DIMENSIONS, Quasi

# the numbers of a program, and the invariants that all its draws share
Given = tuple[list[Any], list[Any]]
QUICK_COVARIANCE = 2**10  # entries of a covariance that takes no time
LARGE_COVARIANCE = 2**20  # of one that takes longer than to compile what is done with it


@dataclasses.dataclass(frozen=True)
class Requests:
    """What one draw asks for.

    `recipe`: the degrees of freedom of its latent variables, ∞ for a normal; `head_recipe`: of
    those for every node. `invariants`: what it has in common with all other draws. `overflows`: it
    asks for more latent variables than Sobol points have. `dimensions`: of the nodes for
    nonlinearities. `size`: how many numbers are read off a draw. `quadrature`: there are integrals
    without a closed form; `unsure`: of functions whose kinks are not known, so that the errors of
    their integrals may matter.
    """

    recipe: tuple[float, ...] = ()
    head_recipe: tuple[float, ...] = ()
    overflows: bool = False
    dimensions: int = 0
    size: int = 0
    quadrature: bool = False
    unsure: bool = False
    invariants: tuple[Invariant, ...] = ()


class Plan:
    """The structure of a program at infinite width, and the reading that is read off its draws."""

    def __init__(self, outputs: Sequence[Output], reading: Reading, inflated: bool):
        self.reading, self.inflated = reading, inflated
        self._prepare(outputs)
        self.given = Compiled(self._given)
        self.draws = Compiled(jax.vmap(self.draw, in_axes=(None, 0, 0, None, None)))
        one = lambda arrays, *numbers: self.draw((arrays, []), *numbers)
        self.single = Compiled(one, called_rarely=True)
        # inside transformations of JAX, where memory is bounded too: compiled functions, which are
        # found again by each calculation that is transformed
        self.at = jax.jit(self._at)
        self.in_a_loop = jax.jit(self._in_a_loop)

    def _prepare(self, outputs: Sequence[Output]) -> None:
        """Prepare the program, with few nodes per draw where draws are many; scores asked for, and
        those of infinitely many heads, are not drawn.
        """
        followed = Followed.of(outputs, self.reading, self.inflated)
        self.most_heads, self.unrolls = followed.most_heads, bool(followed.why_written_out)
        self.heads, self.outputs = followed.heads, followed.outputs
        self.facts, self.static = followed.static.facts.analysis, followed.static
        self.most = MOST_DIMENSIONS
        # the traced draw, if it reads latent variables alone
        self._one: Callable[..., Any] | None = None
        self.requests = self._recorded() if self._may_draw() else Requests()
        if self.requests.overflows:  # too many numbers for Sobol points to help: all are random
            self.most = 0
            self.requests = dataclasses.replace(self.requests, recipe=())
            for loop, asked in self.static.iterations.items():
                self.static.iterations[loop] = asked._replace(recipe=(), overflows=True)

    def _may_draw(self) -> bool:
        """May something be drawn, or averaged over nodes? If not, no draw needs to be recorded."""
        static = self.static.facts
        rough = any(
            isinstance(v.instruction, Coordinatewise) and v not in static.integrable
            for v in static.gaussian
        )
        of_coordinates = any(not static.gaussian.get(v, True) for v, _ in self.outputs)
        random = bool(self.facts.stay_random)
        return rough or of_coordinates or random or self.compiles or self.reading.at_nodes

    @property
    def has_loops(self) -> bool:
        """Does the program have a loop?"""
        return bool(self.static.facts.loops)

    @property
    def compiles(self) -> bool:
        """Should the program be compiled even if it is followed once?

        That is so for loops, for matrices that are used again and again, for programs that are
        asked again with other numbers, and for those that may take much memory, which is known
        only of what is compiled.
        """
        ops = [v.instruction for v in self.facts.program.values]
        large = any(op.linear and not isinstance(op, RULED) for op in ops)
        large = large or self.largest >= LARGE_COVARIANCE
        used_again = self.has_loops or bool(self.facts.reused) or self.static.facts.crosswise
        return used_again or large

    @property
    def largest(self) -> int:
        """The number of entries of the largest covariance of a batch with itself."""
        apart = self.static.facts.apart
        return max((_numbers(v.axes, apart[v]) for v in apart), default=0)

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return bool(self.requests.recipe) or self.requests.overflows

    @property
    def nodes(self) -> int:
        """The nodes for nonlinearities of each batch of draws: more if all draws share them."""
        return BUDGET.nodes_each if self.facts.stay_random else BUDGET.nodes_in_common

    @property
    def uses_nodes(self) -> bool:
        """Is there a nonlinearity that needs quasi-Monte Carlo?"""
        return self.requests.dimensions > 0

    def _recorded(self) -> Requests:
        """Trace one draw, and note what it asks for.

        Where it asks only for latent variables, and not for nodes or keys, it is not traced again.
        """
        found: dict[str, Any] = {}

        def recorded(arrays: list[Any], row: Any, key: Any) -> Any:
            source = Quasi(key, row, most=self.most)
            draw = self.followed(arrays, source, None)
            result = self.reading(draw, self.outputs)
            integrals = draw.moments.integrals
            found.update(recipe=tuple(source.recipe), head_recipe=tuple(source.table_recipe))
            found.update(overflows=source.overflows, dimensions=draw.moments.dimensions)
            found.update(quadrature=integrals.quadrature, unsure=integrals.unsure)
            found.update(invariants=tuple(draw.invariants.asked))
            return result

        arrays = engine.program_of(self.outputs).arrays
        row, key = jax.ShapeDtypeStruct((self.most,), float), jax.random.key(0)
        one = jax.jit(recorded)
        read = jax.eval_shape(one, arrays, row, key)
        size = sum(math.prod(a.shape) for a in jax.tree.leaves(read))
        requests = Requests(size=size, **found)
        if not (requests.head_recipe or requests.overflows or requests.dimensions):
            self._one = one
        return requests

    @property
    def prepares(self) -> bool:
        """Are loop invariants computed before all draws, because something takes long?"""
        takes_time = self.requests.quadrature or self.has_loops or self.largest > QUICK_COVARIANCE
        alone = self._one is not None and self.random
        return alone and takes_time and bool(self.requests.invariants)

    def _given(self, arrays: list[Any]) -> Given:
        """What all draws share: the numbers of the program, and its loop-invariant quantities."""
        draw = self._draw(arrays, Quasi(jax.random.key(0), most=0), None)
        for value in self.facts.program.values:
            if value not in self.static.facts.random:
                draw.evaluate(value)
        return arrays, [draw.invariant(name) for name in self.requests.invariants]

    def _draw(
        self, arrays: list[Any], source: Quasi, table: object, shared: Any = ()
    ) -> LimitDraw:
        known = dict(zip(self.requests.invariants, shared, strict=True)) if shared else None
        numbers = slots(self.facts.program, arrays)
        return LimitDraw(self.static, numbers, source, table, known=known)

    def followed(
        self, arrays: list[Any], source: Quasi, table: object, shared: Any = ()
    ) -> LimitDraw:
        """One draw of the program with these numbers in its slots."""
        program = self.facts.program
        draw = self._draw(arrays, source, table, shared)
        draw.reader = self.reading.of_iteration if self.reading.iterations else None
        draw.run(program)
        return draw

    def draw(self, given: Given, row: Any, key: Any, table: Any, heads: Any) -> Any:
        """What is read off the draw with latent variables `row`, and those of heads' nodes."""
        arrays, shared = given
        if self._one is not None and not shared:
            return self._one(arrays, jnp.pad(row, (0, self.most - len(row))), key)
        source = Quasi(key, row, heads, self.most)
        draw = self.followed(arrays, source, table, shared)
        result = self.reading(draw, self.outputs)
        # where more is asked for than was written down, vectors at nodes would be 0
        assert draw.moments.dimensions <= self.requests.dimensions
        return result

    def written(self, asked: Sequence[Output]) -> Outputs:
        """Outputs of this structure, by the program that is followed for them."""
        return written(asked, self.most_heads, self.unrolls)[0]

    def _at(self, given: Given, rows: Any, keys: Any) -> Any:
        """What is read off each draw, a limited number of draws at a time."""
        one = jax.checkpoint(lambda row, key: self.draw(given, row, key, None, None))
        size = min(len(rows), BUDGET.together)
        return jax.lax.map(lambda numbers: one(*numbers), (rows, keys), batch_size=size)

    def _in_a_loop(self, given: Given, batches: Any) -> Any:
        """What is read off each draw of each batch, one batch at a time."""
        one = jax.checkpoint(lambda numbers: self.draws.function(given, *numbers))
        return jax.lax.map(one, batches)

    @property
    def _compiled(self) -> tuple[Compiled, ...]:
        return self.given, self.draws, self.single

    @property
    def size(self) -> int:
        """The number of equations that were compiled."""
        return sum(compiled.size for compiled in self._compiled)

    def release(self) -> None:
        """Give back the memory of everything that was compiled."""
        for compiled in self._compiled:
            compiled.release()
        for function in (self.at, self.in_a_loop):
            function.clear_cache()  # type: ignore[attr-defined]

    def batch(self, samples: int) -> int:
        """The number of draws of a batch: the numbers held at a time stay near the budget, and
        where batches have new nodes there are several.
        """
        most = min(samples, self._together)
        return min(most, self.replicate(samples)) if self.shares_nodes else most

    def replicate(self, samples: int) -> int:
        """The number of draws that may share nodes and a scrambling, of `samples` in all."""
        return min(self._together, max(1, samples // BUDGET.batches))

    @property
    def shares_nodes(self) -> bool:
        """Are there nodes, which all draws of a batch share?"""
        return self.uses_nodes or bool(self.requests.head_recipe)

    @property
    def _together(self) -> int:
        return draws_together(self._cost, BUDGET.held_elsewhere)

    @functools.cached_property
    def _cost(self) -> int:
        """The number of floats that one draw holds."""
        cost = 16 + sum(self.static.held.values())
        program = self.facts.program
        for value in (v for part in (program, *program.every_block) for v in part.values):
            if not isinstance(value.instruction, Rename):
                each = 1 if value.dim is None else 4 if value.dim.wide else value.dim.at(1)
                cost += each * math.prod(int(axis.size) for axis in value.axes)
        return cost + (self.nodes if self.facts.stay_random else 1) * self.requests.dimensions


def _numbers(axes: Axes, apart: frozenset[Axis]) -> int:
    """The entries of a covariance of which, along axes `apart`, only equal indices are read."""
    return math.prod(int(a.size) if a in apart else int(a.size) ** 2 for a in axes)
