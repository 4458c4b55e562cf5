"""Many draws of a program at infinite width: what is random is a scrambled Sobol sequence,
the same at every call.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import as_key, frozen, inside_jit, is_traced
from limitlaw.core.program import Output
from limitlaw.core.rewrites import renumbered
from limitlaw.engines import asked
from limitlaw.engines.compiling import PROGRAMS, Compiled
from limitlaw.engines.effort import BUDGET, Pace, check_memory
from limitlaw.engines.limit.plan import Plan, written
from limitlaw.engines.limit.statistics import Statistic
from limitlaw.engines.run import keys_of_draws
from limitlaw.numerics.quasi import SEED, Points, Quasi, matched, nodes
from limitlaw.progress import watched

UNDER_WAY = 8  # batches at a time


@dataclasses.dataclass(frozen=True)
class Conditions:
    """A statistic of each draw, draws in front. `kind`:
    "exact" and "quadrature" are one draw, with nothing random.

    `effort` says what decided the number of draws where that was not the number asked for.
    """

    arrays: Any
    kind: str
    effort: str = ""


class Limit:
    """A program at infinite width, and the statistic to be read off its draws.

    `inflated`: with every Gaussian integral that has an error larger by that error. The difference
    to what is read otherwise is what errors of integrals, in the worst case all of one sign, make
    of it; 0 where all are closed forms.
    """

    def __init__(self, outputs: Sequence[Output], statistic: Statistic, inflated: bool = False):
        self._asked, self.statistic, self._inflated = tuple(outputs), statistic, inflated
        program = asked.program_of(self._asked)
        self.traced = program.is_traced
        self._name = "limit", asked.structure(program, self._asked), statistic, inflated
        self.plan = PROGRAMS.get(self._name, lambda: Plan(self._asked, statistic, inflated))
        self.outputs, _ = written(self._asked, self.plan.most_heads, self.plan.unrolls)
        self.arrays = asked.program_of(self.outputs).arrays
        if self.traced or inside_jit():
            _ = self.given  # now: it must not belong to a loop or a branch of what follows

    @functools.cached_property
    def given(self) -> list[Any]:
        """What all draws need of the numbers of the program."""
        return self._function(self.plan.given)(self.arrays) if self.plan.prepares else self.arrays

    @functools.cached_property
    def _together(self) -> int:
        """How many draws are computed together, where any number may be asked for."""
        return self.plan.batch(BUDGET.together)

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return self.plan.random

    @property
    def recipe(self) -> tuple[float, ...]:
        """The degrees of freedom of the numbers of one draw, ∞ for normals."""
        return self.plan.requests.recipe

    @property
    def is_function_of_recipe(self) -> bool:
        """Is a draw a function of those numbers, of which there are some, and of nothing else?"""
        requests = self.plan.requests
        return self.random and not (
            self.plan.uses_nodes or requests.head_recipe or requests.overflows
        )

    @property
    def is_unsure(self) -> bool:
        """May the errors of integrals matter beside those of draws?"""
        return self.plan.requests.unsure

    @property
    def has_integrals(self) -> bool:
        """Are there Gaussian integrals without a closed form?"""
        return self.plan.requests.quadrature

    def inflated(self) -> "Limit":
        """The same program and statistic, with errors of integrals added."""
        return Limit(self._asked, self.statistic, inflated=True)

    def without_derivatives(self) -> "Limit":
        """The same program with plain numbers, unless inside `jit` or `vmap`: to be looked at."""
        if not self.traced:
            return self
        plain = renumbered(self._asked, lambda x: frozen(x) if is_traced(x) else x)
        return Limit(plain, self.statistic, self._inflated)

    # --- draws -----------------------------------------------------------------------------------

    def conditions(self, samples: int, key: object, at_most: bool = False) -> Conditions:
        """The statistic for `samples` draws; for one if nothing is random.

        `at_most`: fewer will do, where that many would take too long.
        """
        seed, requests = seed_of(key), self.plan.requests
        if self.random:
            check_memory(
                samples, requests.size, "ask for fewer samples, or for fewer entries, as in y[0]"
            )
            arrays, effort = self._sampled(samples, seed, at_most)
            return Conditions(arrays, "sampled", effort)
        if self.plan.uses_nodes or requests.head_recipe:
            results = self._replicates(seed)
            return Conditions(jax.tree.map(lambda *a: jnp.stack(a), *results), "sampled")
        result, quadrature = self._deterministic()
        kind = "quadrature" if quadrature else "exact"
        return Conditions(jax.tree.map(lambda a: a[None], result), kind)

    def _deterministic(self) -> tuple[Any, bool]:
        key = jax.random.key(0)
        if self.plan.has_loops:
            return self._function(self.plan.single)(
                self.arrays, jnp.zeros(0), key, None, None
            ), self.plan.requests.quadrature
        draw = self.plan.followed(self.arrays, Quasi(key), None)
        return self.statistic(draw, self.plan.outputs), draw.moments.integrals.quadrature

    def _function(self, compiled: Compiled) -> Any:
        """A compiled function; inside transformations of JAX it is one more call."""
        return compiled.function if self.traced else compiled

    def _replicates(self, seed: int) -> list[Any]:
        results: list[Any] = []
        single = self._function(self.plan.single)
        with watched("limit") as watch:
            for i in range(BUDGET.replicates):
                extra = self.table(BUDGET.nodes, seed + i), self.heads(seed + i)
                results.append(single(self.arrays, jnp.zeros(0), jax.random.key(seed + i), *extra))
                watch.reached(len(jax.block_until_ready(results)), BUDGET.replicates)
        return results

    def _sampled(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The statistics of the draws, and what decided how many there are."""
        if self.traced or inside_jit():
            return self._sampled_in_a_loop(samples, seed, at_most)
        points = Points(self.recipe, seed)
        size = self.plan.batch(samples)
        pace = Pace(samples, at_most)
        results: list[Any] = []
        with watched("limit") as watch:
            for start in itertools.count(0, size):
                if start >= pace.samples:
                    break
                numbers = self._numbers(points, seed, start, size)
                results.append(self.plan.draws(self.given, *numbers))
                if start:
                    # the last but one, so that points are made meanwhile
                    jax.block_until_ready(results[-2])
                    if pace.reached(start) and self.plan.batch(pace.samples) != size:
                        # Smaller batches have other nodes: begin again, as if that number had been
                        # asked for.
                        return self._sampled(pace.samples, seed, at_most=False)[0], pace.effort
                    watch.reached(start, pace.samples)
        joined = jax.tree.map(lambda *a: a[0] if len(a) == 1 else _joined(a), *results)
        return jax.tree.map(lambda a: a[: pace.samples], joined), pace.effort

    def _numbers(self, points: Points, seed: int, start: int, size: int) -> tuple[Any, ...]:
        """What the draws from `start` on are made of.
        New nodes for each batch: their errors average out.
        """
        extra = self.table(BUDGET.nodes_each, seed + start), self.heads(seed + start)
        return jnp.asarray(points.take(size)), self._keys(seed, start, size), *extra

    def _keys(self, seed: int, start: int, size: int) -> Any:
        """Of the draws from `start` on, where a draw asks for more numbers than points have."""
        key = jax.random.key(seed)
        return (
            keys_of_draws(key, start, size)
            if self.plan.requests.overflows
            else jnp.broadcast_to(key, size)
        )

    def _sampled_in_a_loop(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The same where nothing can be timed: one loop over all batches,
        of which one is compiled.
        """
        points, size = Points(self.recipe, seed), self.plan.batch(samples)
        pace = Pace(samples, at_most=False)
        if at_most:
            pace.lower(
                2 ** int(math.log2(BUDGET.traced_batches * size)), "under jax.jit or jax.grad"
            )
        batches = [
            self._numbers(points, seed, start, size) for start in range(0, pace.samples, size)
        ]
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        # derivatives in bounded memory
        one = jax.checkpoint(lambda numbers: self.plan.draws.function(self.given, *numbers))
        found = jax.lax.map(one, stacked)
        return jax.tree.map(
            lambda a: a.reshape(-1, *a.shape[2:])[: pace.samples], found
        ), pace.effort

    def table(self, count: int, seed: int) -> Any:
        """Nodes for nonlinearities, if any are needed."""
        return (
            jnp.asarray(nodes(count, self.plan.requests.dimensions, seed))
            if self.plan.uses_nodes
            else None
        )

    def heads(self, seed: int) -> Any:
        """Nodes for infinitely many heads, if there are such."""
        recipe = self.plan.requests.head_recipe
        if not recipe:
            return None
        table = Points(recipe, seed + 1).take(self.plan.heads)
        normal = np.isinf(recipe)
        table[:, normal] = matched(table[:, normal])
        return jnp.asarray(table)

    # --- at given points -------------------------------------------------------------------------

    def at(self, rows: Any, seed: int = 0, start: int = 0) -> Any:
        """The statistic at given points instead of drawn ones:
        numbers in the order of `recipe`, one row for each.

        What a draw asks for beyond them is random by `seed`,
        these being the draws from `start` on.
        """
        if is_traced(rows) or self.traced:
            # derivatives in bounded memory
            one = jax.checkpoint(lambda numbers: self.plan.draw(self.given, *numbers, None, None))
            keys = self._keys(seed, start, len(rows))
            return jax.lax.map(
                one, (jnp.asarray(rows), keys), batch_size=min(len(rows), BUDGET.together)
            )
        size = self._together
        count = -(-len(rows) // size)
        batches = np.zeros((count * size, rows.shape[1]))
        batches[: len(rows)] = rows
        parts: list[Any] = []
        with watched("limit") as watch:
            keys = self._keys(seed, start, size)
            draws = self.plan.draws.compiled_for(self.given, batches[:size], keys, None, None)
            for first in range(0, count * size, UNDER_WAY * size):
                found = []
                for i in range(first, min(first + UNDER_WAY * size, count * size), size):
                    if self.plan.requests.overflows:
                        keys = self._keys(seed, start + i, size)
                    found.append(draws(self.given, batches[i : i + size], keys, None, None))
                parts += jax.tree.map(np.asarray, found)
                watch.reached(len(parts) * size, len(batches))
        return jax.tree.map(lambda *a: np.concatenate(a)[: len(rows)], *parts)


def _joined(arrays: tuple[Any, ...]) -> Any:
    return (
        jnp.concatenate(arrays)
        if is_traced(arrays[0])
        else np.concatenate([np.asarray(a) for a in arrays])
    )


def seed_of(key: object) -> int:
    """The seed of the scrambling: always the same without a key."""
    if key is None:
        return SEED
    if is_traced(key):
        raise TypeError(
            "key must be known, and inside jax.jit or jax.vmap it is not: make it outside, or "
            "leave it out"
        )
    with jax.ensure_compile_time_eval():
        return int(jax.random.bits(as_key(key), (), jnp.uint32))
