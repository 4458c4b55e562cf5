"""Many draws of a program at infinite width: what is random is a scrambled Sobol sequence, the same at every call."""

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import as_key, inside_jit, is_traced
from limitlaw.engines.common import check_memory, has_tracers
from limitlaw.engines.compiling import Compiled
from limitlaw.engines.demand import demanded
from limitlaw.engines.effort import Pace
from limitlaw.engines.heads import with_nodes
from limitlaw.engines.infinite import InfiniteDraw, Static
from limitlaw.engines.plan import Plan
from limitlaw.language import ops
from limitlaw.language.facts import stays_random
from limitlaw.language.ops import Value
from limitlaw.language.resizing import without_derivatives
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.numerics.quasi import SEED, Points, Quasi, matched, nodes
from limitlaw.progress import watched

REPLICATES = 8  # independent scramblings, from whose spread comes the error of a quasi-Monte Carlo kernel
NODES, NODES_EACH = 2**14, 2**10  # for nonlinearities: of a deterministic program, and for each draw of a random one
HEADS, HEADS_EACH = 2**14, 2**10  # the same for infinitely many heads
MOST_DRAWS, HELD = 4096, 2**20  # draws computed together, and numbers they hold: about what the cache of a CPU has
BATCHES, TRACED_BATCHES = 32, 64  # at least, where each has new nodes; at most by default where each is compiled

Figure = Callable[[InfiniteDraw], Any]  # what is read from one draw: a tree of arrays


@dataclasses.dataclass(frozen=True)
class Conditions:
    """A figure for each draw, draws in front. `kind`: "exact" and "quadrature" are one draw, with nothing random.

    `effort` says what decided the number of draws where that was not the number asked for.
    """

    arrays: Any
    kind: str
    effort: str = ""


class Limit:
    """A program at infinite width, and the figure to be read from its draws."""

    def __init__(self, outputs: tuple[Value, ...], figure: Figure):
        self.figure, self._outputs = figure, outputs
        self.traced = has_tracers(outputs)
        self._prepare(outputs, HEADS, coarse=False)
        if self.random and (self.heads > HEADS_EACH or any(isinstance(v.op, ops.Map) for v in self.static.plan.values)):
            self._prepare(outputs, HEADS_EACH, coarse=True)
        self._compile()

    def _compile(self) -> None:
        draws = jax.vmap(self._draw, in_axes=(0, 0, None, None))
        self.draws: Callable[..., Any] = jax.jit(draws) if self.traced else Compiled(draws)
        self._single = self._draw if self.traced else jax.jit(self._draw)

    def inflated(self) -> "Limit":
        """The same program and figure, with every Gaussian integral that has an error larger by that error.

        The difference of both figures is what errors of integrals, in the worst case all of one sign, make of it. It
        costs a few evaluations; where all integrals are closed forms it is 0.
        """
        other = copy.copy(self)
        other.static = dataclasses.replace(self.static, inflated=True)
        other._compile()
        return other

    def _prepare(self, outputs: tuple[Value, ...], most_heads: int, coarse: bool) -> None:
        finite, self.heads = with_nodes(outputs, most_heads)
        self.static = Static.of(Plan(demanded(finite)), self.heads, coarse)
        self.recipe: list[float] = []
        self.head_recipe: list[float] = []
        self.quadrature = self.overflows = False
        self.dimensions = 0  # of the nodes for nonlinearities
        self.size = 0  # numbers in the figure of a draw
        at_nodes = getattr(self.figure, "at_nodes", False)
        if at_nodes or is_random(self.static) or _is_rough(self.static) or self._draws_coordinates():
            self.size = sum(math.prod(a.shape) for a in jax.tree.leaves(jax.eval_shape(self._recorded)))

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return bool(self.recipe) or self.overflows

    @property
    def uses_nodes(self) -> bool:
        """Is there a nonlinearity that needs quasi-Monte Carlo?"""
        return self.dimensions > 0

    def _draws_coordinates(self) -> bool:
        """Does an output have nonlinear terms, so that its coordinate is drawn?"""
        facts = self.static.facts
        return any(not facts.gaussian.get(v, True) for v in self.static.plan.outputs)

    def _recorded(self) -> Any:
        """One draw of which only the requests are kept."""
        source = Quasi(jax.random.key(0), nodes=self.heads)
        draw = InfiniteDraw(self.static, source, None)
        result = self.figure(draw)
        self.dimensions = draw.moments.nodes.dimensions
        self.recipe, self.head_recipe, self.overflows = source.recipe, source.table_recipe, source.overflows
        return result

    def _evaluated(self, source: Quasi, table: Any) -> Any:
        draw = InfiniteDraw(self.static, source, table)
        result = self.figure(draw)
        self.quadrature = draw.moments.quadrature
        return result

    def _draw(self, row: Any, key: Any, table: Any, heads: Any) -> Any:
        return self._evaluated(Quasi(key, row, heads, self.heads), table)

    def conditions(self, samples: int, key: Any, at_most: bool = False) -> Conditions:
        """The figure for `samples` draws; for one if nothing is random.

        `at_most`: fewer will do, where that many would take too long.
        """
        seed = seed_of(key)
        if self.random:
            check_memory(samples, self.size, "ask for fewer samples, or for fewer entries, as in y[0]")
            arrays, effort = self._sampled(samples, seed, at_most)
            return Conditions(arrays, "sampled", effort)
        if self.uses_nodes or self.head_recipe:
            results = self._replicates(seed)
            return Conditions(jax.tree.map(lambda *a: jnp.stack(a), *results), "sampled")
        result = self._evaluated(Quasi(jax.random.key(0)), None)
        kind = "quadrature" if self.quadrature else "exact"
        return Conditions(jax.tree.map(lambda a: a[None], result), kind)

    def _replicates(self, seed: int) -> list[Any]:
        results: list[Any] = []
        with watched("limit") as watch:
            for i in range(REPLICATES):
                results.append(self._once(seed + i))
                watch.reached(len(jax.block_until_ready(results)), REPLICATES)
        return results

    def _once(self, seed: int) -> Any:
        return self._single(jnp.zeros(0), jax.random.key(seed), self._table(NODES, seed), self._heads(seed))

    def at(self, rows: Any) -> Any:
        """The figure at given points instead of drawn ones: numbers in the order of `recipe`, one row for each."""
        key = jax.random.key(0)
        if is_traced(rows) or self.traced:
            one = jax.checkpoint(lambda row: self._draw(row, key, None, None))  # derivatives in bounded memory
            return jax.lax.map(one, jnp.asarray(rows), batch_size=min(len(rows), MOST_DRAWS))
        size = self._batch(MOST_DRAWS)
        missing = -len(rows) % size
        batches = np.concatenate([rows, np.zeros((missing, rows.shape[1]))]).reshape(-1, size, rows.shape[1])
        keys = [jax.random.split(key, size)] * len(batches)
        if self.overflows:  # else nothing is drawn from them
            keys = [jax.random.split(jax.random.fold_in(key, i), size) for i in range(len(batches))]
        parts: list[Any] = []
        with watched("limit") as watch:
            for batch, k in zip(batches, keys, strict=True):
                parts.append(np.asarray(self.draws(batch, k, None, None)))
                watch.reached(len(parts) * size, len(batches) * size)
        return np.concatenate(parts)[: len(rows)]

    def without_derivatives(self) -> "Limit":
        """The same program with plain numbers, unless inside `jit` or `vmap`: to be looked at."""
        return prepared(without_derivatives(self._outputs), self.figure) if self.traced else self

    def read(self, figure: Figure, rows: Any) -> Any:
        """Another figure of the same draws at given points, of which there are few."""

        def one(row: Any) -> Any:
            return figure(InfiniteDraw(self.static, Quasi(jax.random.key(0), row, None, self.heads), None))

        many = jax.vmap(one)
        return many(jnp.asarray(rows)) if self.traced else np.asarray(jax.jit(many)(rows))

    def _table(self, count: int, seed: int) -> Any:
        return jnp.asarray(nodes(count, self.dimensions, seed)) if self.uses_nodes else None

    def _heads(self, seed: int) -> Any:
        if not self.head_recipe:
            return None
        table = Points(self.head_recipe, seed + 1).take(self.heads)
        normal = np.isinf(self.head_recipe)
        table[:, normal] = matched(table[:, normal])
        return jnp.asarray(table)

    def _sampled(self, samples: int, seed: int, at_most: bool) -> tuple[Any, str]:
        """The figures of the draws, and what decided how many there are."""
        points = Points(self.recipe, seed)
        size = self._batch(samples)
        pace = self._pace(samples, size, at_most)
        results: list[Any] = []
        with watched("limit") as watch:
            for start in itertools.count(0, size):
                if start >= pace.samples:
                    break
                # New nodes for each batch: their errors average out.
                extra = self._table(NODES_EACH, seed + start), self._heads(seed + start)
                keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), start), size)
                results.append(self.draws(jnp.asarray(points.take(size)), keys, *extra))
                if start and not is_traced(jax.tree.leaves(results)[0]):
                    jax.block_until_ready(results[-2])  # the last but one, so that points are made meanwhile
                    if pace.reached(start) and self._batch(pace.samples) != size:
                        # Smaller batches have other nodes: begin again, as if that number had been asked for.
                        return self._sampled(pace.samples, seed, at_most=False)[0], pace.effort
                    watch.reached(start, pace.samples)
        joined = jax.tree.map(lambda *a: a[0] if len(a) == 1 else _joined(a), *results)
        return jax.tree.map(lambda a: a[: pace.samples], joined), pace.effort

    def _pace(self, samples: int, size: int, at_most: bool) -> Pace:
        traced = self.traced or inside_jit()
        pace = Pace(samples, at_most and not traced)
        if at_most and traced:  # nothing can be timed, and every batch is compiled
            pace.lower(2 ** int(math.log2(TRACED_BATCHES * size)), "under jax.jit or jax.grad")
        return pace

    def _batch(self, samples: int) -> int:
        """As many draws as keep the numbers held at a time near `HELD`, and some batches where those have new nodes."""
        cost = 16
        for value in self.static.plan.values:
            count = math.prod(finite_shape(value.shape))
            cost += count if not isinstance(value, Wide) else count * (4 if value.dim.wide else value.dim.at(1))
        if self.uses_nodes:
            cost += NODES_EACH * self.dimensions
        most = MOST_DRAWS if not (self.uses_nodes or self.head_recipe) else max(1, min(MOST_DRAWS, samples // BATCHES))
        return min(samples, max(1, min(most, HELD // cost)))


def _joined(arrays: tuple[Any, ...]) -> Any:
    return jnp.concatenate(arrays) if is_traced(arrays[0]) else np.concatenate([np.asarray(a) for a in arrays])


def prepared(outputs: tuple[Value, ...], figure: Figure) -> Limit:
    """The program at infinite width, compiled once for the same outputs and figure."""
    return Limit(outputs, figure) if has_tracers(outputs) else _cached(outputs, figure)


@functools.lru_cache(maxsize=32)
def _cached(outputs: tuple[Value, ...], figure: Figure) -> Limit:
    return Limit(outputs, figure)


def is_random(static: Static) -> bool:
    """Are there scores or vectors of fixed dimension to be drawn?"""
    return any(map(stays_random, static.plan.values))


def _is_rough(static: Static) -> bool:
    """Are there nonlinearities that act on several vectors, or on vectors that are not Gaussian?"""
    facts = static.facts
    return any(isinstance(v.op, ops.Map) and not facts.integrable(v) for v in facts.gaussian)


def seed_of(key: Any) -> int:
    """The seed of the scrambling: always the same without a key."""
    if key is None:
        return SEED
    if is_traced(key):
        raise TypeError("key must be known, and inside jax.jit or jax.vmap it is not: make it outside, or leave it out")
    with jax.ensure_compile_time_eval():
        return int(jax.random.bits(as_key(key), (), jnp.uint32))
