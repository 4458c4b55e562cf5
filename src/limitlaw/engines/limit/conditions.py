"""Many draws of a program at infinite width: what is random is a scrambled Sobol sequence,
the same at every call.
"""

import dataclasses
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import as_key, inside_jit, is_traced
from limitlaw.engines.effort import BUDGET, Pace, check_memory
from limitlaw.engines.limit.plan import Planned
from limitlaw.numerics.random import SEED, Quasi, Sobol, matched, nodes
from limitlaw.progress import watched


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """A statistic of each draw, draws in front. `kind`:
    "exact" and "quadrature" are one draw, with nothing random.

    `effort` says what decided the number of draws where that was not the number asked for.
    """

    arrays: Any
    kind: str
    effort: str = ""


class Limit(Planned):
    """A program at infinite width, drawn at the points of a scrambled Sobol sequence."""

    def conditions(self, samples: int, key: object, at_most: bool = False) -> Outcomes:
        """The statistic for `samples` draws; for one if nothing is random.

        `at_most`: fewer will do, where that many would take too long.
        """
        seed, requests = seed_of(key), self.plan.requests
        if self.random:
            check_memory(
                samples, requests.size, "ask for fewer samples, or for fewer entries, as in y[0]"
            )
            arrays, effort = self._sampled(samples, seed, at_most)
            return Outcomes(arrays, "sampled", effort)
        if self.plan.uses_nodes or requests.head_recipe:
            results = self._replicates(seed)
            return Outcomes(jax.tree.map(lambda *a: jnp.stack(a), *results), "sampled")
        result, quadrature = self._deterministic()
        kind = "quadrature" if quadrature else "exact"
        return Outcomes(jax.tree.map(lambda a: a[None], result), kind)

    def _deterministic(self) -> tuple[Any, bool]:
        key = jax.random.key(0)
        if self.plan.has_loops:
            return self._function(self.plan.single)(
                self.arrays, jnp.zeros(0), key, None, None
            ), self.plan.requests.quadrature
        draw = self.plan.followed(self.arrays, Quasi(key), None)
        return self.statistic(draw, self.plan.outputs), draw.moments.integrals.quadrature

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
        points = Sobol(self.recipe, seed)
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

    def _numbers(self, points: Sobol, seed: int, start: int, size: int) -> tuple[Any, ...]:
        """What the draws from `start` on are made of.
        New nodes for each batch: their errors average out.
        """
        extra = self.table(BUDGET.nodes_each, seed + start), self.heads(seed + start)
        return jnp.asarray(points.take(size)), self._keys(seed, start, size), *extra

    def _sampled_in_a_loop(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The same where nothing can be timed: one loop over all batches,
        of which one is compiled.
        """
        points, size = Sobol(self.recipe, seed), self.plan.batch(samples)
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
        table = Sobol(recipe, seed + 1).take(self.plan.heads)
        normal = np.isinf(recipe)
        table[:, normal] = matched(table[:, normal])
        return jnp.asarray(table)


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
