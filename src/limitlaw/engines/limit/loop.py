"""A loop at infinite width: what passes from turn to turn is the law of x,
by its mean and covariance.

These are all that the next turn needs where x is Gaussian given the numbers so far, and where it
meets matrices before nonlinearities. Where it does not (`CannotCarry`), the turns are written out.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from limitlaw.core.covariance import Covariance, pair
from limitlaw.core.instructions import Repeat
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled, sizes
from limitlaw.numerics.random import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw


class CannotCarry(Exception):
    """More of what passes through a loop is needed than its mean and covariance."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Carried:
    """The law of vectors, as far as it passes from turn to turn; None stands for zero."""

    mean: Labelled | None
    covariance: Covariance | None


class Turn(NamedTuple):
    """What one turn asks for: numbers, those of each node,
    more than are handed out; and does it make a mean?
    """

    recipe: tuple[float, ...]
    table_recipe: tuple[float, ...]
    overflows: bool
    has_mean: bool


class Loop:
    """The turns of a loop, in a draw that has come to it."""

    def __init__(self, draw: "LimitDraw", value: Value, op: Repeat):
        if not value.dim or not value.dim.wide:
            raise CannotCarry("vectors of fixed dimension pass by their coordinates")
        self.draw, self.value, self.op = draw, value, op
        self.static = draw.static.of_block(value)
        self.has_mean = draw.moments.mean(op.x) is not None
        self._most = draw.source.most if isinstance(draw.source, Quasi) else math.inf

    def passed(self) -> Carried:
        """The law of x after all turns."""
        start = Carried(
            self.draw.moments.mean(self.op.x), self.draw.moments.covariance(self.op.x, self.op.x)
        )
        known = self.draw.static.turns
        if self.value not in known:
            known[self.value] = self._recorded(start)
        one = known[self.value]
        self.has_mean = one.has_mean
        rows, tables, keys = _numbers(self.draw.source, one, self.op.times)

        def turn(carry: Any, numbers: Any) -> tuple[Any, Any]:
            row, table, key = numbers
            inside = self._followed(self._opened(carry), Quasi(key, row, table, self._most))
            read = self.draw.read(inside, self.op.block.result, self.static.facts.analysis.program)
            after = self._packed(self._result(inside))
            self.draw.moments.take_note_of(inside.moments)  # now: all has been asked of them
            return after, read

        end, self.draw.turns[self.value] = lax.scan(
            turn, self._packed(start), (rows, tables, keys)
        )
        return self._opened(end)

    def _recorded(self, start: Carried) -> Turn:
        """What one turn asks for. A mean that a turn makes is there from the start,
        perhaps as zero.
        """
        source = Quasi(jax.random.key(0), most=self._most)

        def recorded(carry: object) -> Any:
            result = self._result(self._followed(self._opened(carry), source))
            self.has_mean |= result.mean is not None
            return self._packed(result)

        before = self.has_mean
        jax.eval_shape(recorded, self._packed(start))
        if self.has_mean != before:
            return self._recorded(start)
        return Turn(
            tuple(source.recipe), tuple(source.table_recipe), source.overflows, self.has_mean
        )

    def _followed(self, x: Carried, source: Quasi) -> "LimitDraw":
        """One turn."""
        inside = self.draw.inside(self.static, source)
        inside.results[self.op.block.argument] = x
        inside.run(self.static.facts.analysis.program)
        return inside

    def _result(self, inside: "LimitDraw") -> Carried:
        result = self.op.block.result
        return Carried(inside.moments.mean(result), inside.moments.covariance(result, result))

    def _packed(self, x: Carried) -> Any:
        """As arrays over all entries."""
        axes = self.value.axes
        shape = sizes(axes)
        K = jnp.zeros((*shape, *shape)) if x.covariance is None else x.covariance.whole(axes, axes)
        if not self.has_mean:
            return (K,)
        return K, jnp.zeros(shape) if x.mean is None else x.mean.whole(axes)

    def _opened(self, arrays: Any) -> Carried:
        K, *mean = arrays
        axes = self.value.axes
        labels = (*(pair(a, None) for a in axes), *(pair(None, a) for a in axes))
        return Carried(Labelled(mean[0], axes) if mean else None, Covariance(Labelled(K, labels)))


def _numbers(source: Any, one: Turn, times: int) -> tuple[Any, Any, Any]:
    """For each turn the numbers it asks for, those of each node, and a key.

    Where the source hands out fewer, that is written down, and all numbers are random in the end.
    """
    count = len(one.recipe)
    rows = jnp.zeros((times, 0))
    if count:
        given = source.take((times, count), np.tile(one.recipe, (times, 1)), float)
        rows = jnp.zeros((times, count)) if given is None else given
    key = source.fresh_key() if one.overflows or (count and given is None) else jax.random.key(0)
    return rows, source.columns(one.table_recipe, times), jax.random.split(key, times)
