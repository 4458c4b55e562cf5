"""A program at infinite width with its numbers: it can be followed at any points."""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import frozen, inside_jit, is_traced
from limitlaw.core.program import Output, renumbered
from limitlaw.engines import engine
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET, Pace
from limitlaw.engines.engine import PROGRAMS
from limitlaw.engines.limit.plan import Given, Plan
from limitlaw.engines.reading import Reading
from limitlaw.engines.run import in_batches, keys_of_draws

LikePlanned = TypeVar("LikePlanned", bound="Planned")


class Planned:
    """A program at infinite width, with its numbers, and the reading to be read off its draws.

    `inflated`: every Gaussian integral that has an error is larger by that error. The difference
    in a reading is what errors of integrals, in the worst case all of one sign, make of it; 0
    where all are closed forms.
    """

    def __init__(self, outputs: Sequence[Output], reading: Reading, inflated: bool = False):
        self._asked, self.reading, self._inflated = tuple(outputs), reading, inflated
        program = engine.program_of(self._asked)
        self.traced = program.is_traced
        name = "limit", engine.structure(program, self._asked), reading, inflated
        self.plan = PROGRAMS.get(name, lambda: Plan(self._asked, reading, inflated))
        self.outputs = self.plan.written(self._asked)
        self.arrays = engine.program_of(self.outputs).arrays
        if self.traced or inside_jit():
            _ = self.given  # now: it must not belong to a loop or a branch of what follows

    @functools.cached_property
    def given(self) -> Given:
        """What all draws share: the numbers of the program, and its loop-invariant quantities."""
        if not self.plan.prepares:
            return self.arrays, []
        return self._function(self.plan.given)(self.arrays)

    def _function(self, compiled: Compiled) -> Any:
        """A compiled function; inside transformations of JAX, the function itself."""
        return compiled.function if self.traced else compiled

    @functools.cached_property
    def _together(self) -> int:
        """The number of draws that are computed together, where any number may be asked for."""
        return self.plan.batch(BUDGET.together)

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return self.plan.random

    @property
    def recipe(self) -> tuple[float, ...]:
        """The degrees of freedom of the latent variables of one draw, ∞ for normals."""
        return self.plan.requests.recipe

    @property
    def is_function_of_recipe(self) -> bool:
        """Is a draw random, and a function of its latent variables alone?"""
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

    def inflated(self: LikePlanned) -> LikePlanned:
        """The same program and reading, with errors of integrals added."""
        return type(self)(self._asked, self.reading, inflated=True)

    def without_derivatives(self: LikePlanned) -> LikePlanned:
        """The same program with plain numbers to look at; inside `jit`, `vmap` they are traced."""
        if not self.traced:
            return self
        plain = renumbered(self._asked, lambda x: frozen(x) if is_traced(x) else x)
        return type(self)(plain, self.reading, self._inflated)

    def at(self, rows: Any, seed: int = 0, start: int = 0) -> Any:
        """The reading at rows of latent variables, in the order of `recipe`; what draws ask for
        beyond them is random by `seed`, from draw `start` on.
        """
        if is_traced(rows) or self.traced:
            keys = self.keys(seed, start, len(rows))
            return self.plan.at(self.given, jnp.asarray(rows), keys)
        size = self._together
        count = -(-len(rows) // size)
        batches = np.zeros((count * size, rows.shape[1]))
        batches[: len(rows)] = rows
        keys = self.keys(seed, start, size)

        def numbers(i: int) -> tuple[Any, ...]:
            each = self.keys(seed, start + i * size, size)
            here = batches[i * size : (i + 1) * size]
            return here, each if self.plan.requests.overflows else keys, None, None

        return in_batches(
            "limit",
            lambda i: self.plan.draws(self.given, *numbers(i)),
            lambda calls: self.plan.draws.check(calls, self.given, *numbers(0)),
            size,
            Pace(len(rows), at_most=False),
        )

    def keys(self, seed: int, start: int, size: int) -> Any:
        """The keys of `size` draws from `start` on; they differ only where a draw asks for more
        latent variables than points have.
        """
        key = jax.random.key(seed)
        return (
            keys_of_draws(key, start, size)
            if self.plan.requests.overflows
            else jnp.broadcast_to(key, size)
        )
