"""Draws at infinite width, from a scrambled Sobol sequence: the same at every call."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import as_key, inside_jit, is_traced
from limitlaw.engines.bounds import check_memory
from limitlaw.engines.effort import BUDGET, Pace
from limitlaw.engines.limit.planned import Planned
from limitlaw.engines.run import in_batches
from limitlaw.numerics.random import SEED, Quasi, ShiftedSobol, Sobol, matched, nodes, random_seed
from limitlaw.numerics.replicates import INDEPENDENT, Replicates


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """A statistic of each draw, draws in front. `kind`: "exact" and "quadrature" are one, with
    nothing random.

    `effort`: why there are not as many as asked for; `replicates`: which are independent.
    """

    arrays: Any
    kind: str
    effort: str = ""
    replicates: Replicates = INDEPENDENT


class Limit(Planned):
    """A program at infinite width, drawn at the points of a scrambled Sobol sequence."""

    def conditions(self, samples: int, key: object, at_most: bool = False) -> Outcomes:
        """The statistic for `samples` draws, or one draw if nothing is random.

        `at_most`: fewer draws will do, where so many would take too long.
        """
        seed, requests = seed_of(key), self.plan.requests
        if self.random:
            check_memory(
                samples, requests.size, "ask for fewer samples, or for fewer entries, as in y[0]"
            )
            arrays, effort = self._sampled(samples, seed, at_most)
            return Outcomes(arrays, "sampled", effort)
        if self.plan.uses_nodes or requests.head_recipe:
            return Outcomes(self._replicates(seed), "sampled")
        result, quadrature = self._deterministic()
        kind = "quadrature" if quadrature else "exact"
        return Outcomes(jax.tree.map(lambda a: a[None], result), kind)

    def replicated(self, pace: Pace, key: object) -> Outcomes:
        """The statistic for as many draws as `pace` says, in independent replicates, whose spread
        is the error.

        Where nothing is random it is one draw; with nodes, one for each of several sets.
        """
        if not self.random:
            return self.conditions(1, key)
        size = self.plan.requests.size
        check_memory(pace.samples, size, "ask for fewer samples, or for fewer statistics")
        batches = Batches(self, pace.samples, seed_of(key))
        replicates = Replicates(batches.replicate)
        arrays = self._driven(batches.numbers, batches.size, pace, replicates)
        return Outcomes(arrays, "sampled", pace.effort, replicates)

    def _driven(
        self,
        numbers: Callable[[int], tuple[Any, ...]],
        size: int,
        pace: Pace,
        replicates: Replicates = INDEPENDENT,
    ) -> Any:
        """The statistics of draws with these latent variables, batch after batch."""
        # those of the first batch are asked for twice
        numbers = functools.lru_cache(maxsize=1)(numbers)
        return in_batches(
            "limit",
            lambda i: self.plan.draws(self.given, *numbers(i)),
            lambda calls: self.plan.draws.check(calls, self.given, *numbers(0)),
            size,
            pace,
            replicates,
        )

    def _deterministic(self) -> tuple[Any, bool]:
        key = jax.random.key(0)
        if self.plan.compiles:
            return self._function(self.plan.single)(
                self.arrays, jnp.zeros(0), key, None, None
            ), self.plan.requests.quadrature
        draw = self.plan.followed(self.arrays, Quasi(key), None)
        return self.reading(draw, self.plan.outputs), draw.moments.integrals.quadrature

    def _replicates(self, seed: int) -> Any:
        """One draw for each of several independent sets of nodes."""
        single = self._function(self.plan.single)

        def numbers(i: int) -> tuple[Any, ...]:
            extra = self.table(BUDGET.nodes, seed + i), self.heads(seed + i)
            return jnp.zeros(0), jax.random.key(seed + i), *extra

        def one(i: int) -> Any:
            return jax.tree.map(lambda a: a[None], single(self.arrays, *numbers(i)))

        if self.traced:
            found = map(one, range(BUDGET.replicates))
            return jax.tree.map(lambda *a: jnp.concatenate(a), *found)
        check = lambda calls: self.plan.single.check(calls, self.arrays, *numbers(0))
        return in_batches("limit", one, check, 1, Pace(BUDGET.replicates, at_most=False))

    def _sampled(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The statistics of the draws, and why there are so many."""
        if self.traced or inside_jit():
            return self._sampled_in_a_loop(samples, seed, at_most)
        points, size = Sobol(self.recipe, seed), self.plan.batch(samples)
        pace = Pace(samples, at_most)

        def numbers(i: int) -> tuple[Any, ...]:
            return self._numbers(points, seed, i * size, size)

        arrays = self._driven(numbers, size, pace)
        if self.plan.batch(pace.samples) != size:
            # Smaller batches have other nodes: begin again, as if that number had been asked for.
            return self._sampled(pace.samples, seed, at_most=False)[0], pace.effort
        return arrays, pace.effort

    def _numbers(self, points: Sobol, seed: int, start: int, size: int) -> tuple[Any, ...]:
        """The latent variables of `size` draws from `start` on.

        Each batch has new nodes, so that their errors average out.
        """
        extra = self.table(self.plan.nodes, seed + start), self.heads(seed + start)
        return jnp.asarray(points.take(size)), self.keys(seed, start, size), *extra

    def _sampled_in_a_loop(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The statistics of the draws inside transformations, where nothing can be timed: one loop
        over all batches, of which one is compiled.
        """
        points, size = Sobol(self.recipe, seed), self.plan.batch(samples)
        pace = Pace(samples, at_most=False)
        if at_most:
            most = 2 ** int(math.log2(BUDGET.traced_batches * size))
            pace.lower(most, f"{most} of {samples} draws under jax.jit or jax.grad")
        batches = [
            self._numbers(points, seed, start, size) for start in range(0, pace.samples, size)
        ]
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        found = self.plan.in_a_loop(self.given, stacked)
        return jax.tree.map(
            lambda a: a.reshape(-1, *a.shape[2:])[: pace.samples], found
        ), pace.effort

    def table(self, count: int, seed: int) -> Any:
        """Nodes for nonlinearities; None if none are needed."""
        return (
            jnp.asarray(nodes(count, self.plan.requests.dimensions, seed))
            if self.plan.uses_nodes
            else None
        )

    def heads(self, seed: int) -> Any:
        """Nodes for infinitely many heads; None if there are none."""
        recipe = self.plan.requests.head_recipe
        df = np.asarray(recipe)
        return with_normals_matched(Sobol(recipe, seed + 1).take(self.plan.heads), df)


class Batches:
    """The latent variables of a program's draws, batch after batch, each of replicates of
    `replicate` draws and nodes of its own.
    """

    def __init__(self, program: Planned, samples: int, seed: int) -> None:
        plan, self._program, self._seed = program.plan, program, seed
        self.replicate = plan.replicate(samples)
        together = 1 if plan.shares_nodes else plan.batch(samples) // self.replicate
        self._together = max(1, together)
        self.size = self._together * self.replicate
        requests = plan.requests
        self._rows = ShiftedSobol(program.recipe, self.replicate, seed)
        count = program.plan.nodes
        self._nodes = ShiftedSobol([math.inf] * requests.dimensions, count, seed + 1)
        self._heads = ShiftedSobol(requests.head_recipe, plan.heads, seed + 2)

    def numbers(self, batch: int) -> tuple[Any, ...]:
        """The latent variables of one batch: points, keys, nodes, and nodes of heads."""
        first = batch * self._together
        rows = [self._rows.take(first + i) for i in range(self._together)]
        keys = self._program.keys(self._seed, batch * self.size, self.size)
        plan = self._program.plan
        table = jnp.asarray(matched(self._nodes.take(batch))) if plan.uses_nodes else None
        heads = with_normals_matched(self._heads.take(batch), self._heads.df)
        return jnp.asarray(np.concatenate(rows)), keys, table, heads


def with_normals_matched(table: Any, df: Any) -> Any:
    """Nodes of heads, normals mapped to mean 0 and covariance I; None if there are none."""
    if not len(df):
        return None
    normal = np.isinf(df)
    table[:, normal] = matched(table[:, normal])
    return jnp.asarray(table)


def seed_of(key: object) -> int:
    """The seed of the scrambling that a key gives; a fixed one without a key."""
    if key is None:
        return SEED
    if is_traced(key):
        raise TypeError(
            "key must be known, and inside jax.jit or jax.vmap it is not: make it outside, or "
            "leave it out"
        )
    with jax.ensure_compile_time_eval():
        return int(random_seed(as_key(key)))


def seed_of_law(key: object) -> int:
    """The seed of draws that a law itself has to make, for functions of several of its entries."""
    return 0 if key is None else seed_of(key)
