"""A loop at infinite width: what passes from turn to turn is the law of x, by its mean and covariance.

These are all that the next turn needs where x is Gaussian given the numbers so far, and where it meets matrices before
nonlinearities. Where it does not (`CannotCarry`), the turns are written out.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from limitlaw.core.axes import sizes
from limitlaw.core.covariance import Covariance, Pair
from limitlaw.core.instructions import Repeat, Value
from limitlaw.core.labelled import Labelled
from limitlaw.numerics.chi import chi
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw


class CannotCarry(Exception):
    """More of what passes through a loop is needed than its mean and covariance."""


@dataclasses.dataclass(frozen=True)
class Carried:
    """The law of vectors, as far as it passes from turn to turn; None stands for zero."""

    mean: Labelled | None
    covariance: Covariance | None


class Loop:
    """The turns of a loop, in a draw that has come to it."""

    def __init__(self, draw: "LimitDraw", value: Value, op: Repeat):
        if not value.dim or not value.dim.wide:
            raise CannotCarry("vectors of fixed dimension pass by their coordinates")
        self.draw, self.value, self.op = draw, value, op
        self.static = draw.static.of_block(value)
        self.has_mean = draw.moments.mean(op.x) is not None

    def passed(self) -> Carried:
        """The law of x after all turns."""
        start = Carried(self.draw.moments.mean(self.op.x), self.draw.moments.covariance(self.op.x, self.op.x))
        one = self._recorded(start)
        rows, tables, keys = _numbers(self.draw.source, one, self.op.times)

        def turn(carry: Any, numbers: Any) -> tuple[Any, None]:
            row, table, key = numbers
            inside = self._followed(self._opened(carry), Quasi(key, row, table))
            self.draw.moments.take_note_of(inside.moments)
            return self._packed(self._result(inside)), None

        end, _ = lax.scan(turn, self._packed(start), (rows, tables, keys))
        return self._opened(end)

    def _recorded(self, start: Carried) -> Quasi:
        """What one turn asks for. A mean that a turn makes is there from the start, perhaps as zero."""
        source = Quasi(jax.random.key(0))

        def recorded(carry: Any) -> Any:
            result = self._result(self._followed(self._opened(carry), source))
            self.has_mean |= result.mean is not None
            return self._packed(result)

        before = self.has_mean
        jax.eval_shape(recorded, self._packed(start))
        return source if self.has_mean == before else self._recorded(start)

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
        labels = (*(Pair(a, None) for a in axes), *(Pair(None, a) for a in axes))
        return Carried(Labelled(mean[0], axes) if mean else None, Covariance(Labelled(K, labels)))


def _numbers(source: Any, one: Quasi, times: int) -> tuple[Any, Any, Any]:
    """For each turn the numbers it asks for, those of each node, and a key.

    Turns beyond the numbers that the source hands out get random ones.
    """
    count, start = len(one.recipe), len(source.recipe)
    turns = times if not count else min(times, int(max(0, source.most - start) // count))
    given = source.take((turns, count), np.tile(one.recipe, (turns, 1)), float) if turns and count else None
    rows = jnp.zeros((0, count)) if given is None else given
    if count and turns < times:
        rows = jnp.concatenate([rows, _random(source.fresh_key(), one.recipe, times - turns)])
    key = source.fresh_key() if one.overflows else jax.random.key(0)
    return (rows if count else jnp.zeros((times, 0))), source.columns(one, times), jax.random.split(key, times)


def _random(key: Any, recipe: list[float], turns: int) -> Any:
    """Normals and χ variables of these degrees of freedom, for each turn."""
    df = np.asarray(recipe)
    normals, lengths = np.flatnonzero(np.isinf(df)), np.flatnonzero(np.isfinite(df))
    first, second = jax.random.split(key)
    z = normal(first, (turns, len(normals)))
    x = chi(second, df[lengths].astype(int), (turns, len(lengths)))
    return jnp.concatenate([z, x], axis=-1)[:, np.argsort([*normals, *lengths])]
