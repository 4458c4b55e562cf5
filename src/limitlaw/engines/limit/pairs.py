"""A deterministic kernel entry by entry of its first axis, where the whole takes much memory.

E[Z^{y_i} Z^{y_j}] depends only on what y_i and y_j are made of: of ten images, on two. Programs of
two entries differ in numbers only, so that one compiled function computes all of them, and what is
held at a time is the covariance of two images, pixel by pixel.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Places, Take
from limitlaw.core.kinds import Value
from limitlaw.core.program import Output
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit.conditions import Limit, Outcomes
from limitlaw.engines.limit.plan import Plan
from limitlaw.engines.limit.statistics import CROSSED, second_moment
from limitlaw.progress import watched

SecondMoments = Float[Array | np.ndarray, "m m"]  # second moments of two entries


class Pairs:
    """The second moments of an output, from those of any two entries of its first axis."""

    def __init__(self, output: Output, inflated: bool = False):
        self._output, self._inflated = output, inflated
        axis = output.layout[0]
        self._count = 1 if axis is None else int(axis.size)
        # twice, so that a pair of equal ones has the structure of any other
        self._left, self._right = (
            [_entry(output, i) for i in range(self._count)] for _ in range(2)
        )

    @classmethod
    def of(cls, output: Output, program: Limit) -> "Pairs | None":
        """The pairs of an output if the whole is too large and two entries are not; else None."""
        plan = program.plan
        if plan.random or plan.uses_nodes or plan.requests.head_recipe or not output.layout:
            return None
        if plan.largest <= BUDGET.covariance or output.layout[0] is None:
            return None
        pairs = cls(output)
        return pairs if pairs._crossed() < plan.largest else None

    def inflated(self) -> "Pairs":
        """The same pairs with errors of integrals added."""
        return Pairs(self._output, inflated=True)

    def conditions(self, samples: int, key: object, at_most: bool = False) -> Outcomes:
        """The second moments of the whole, as `Limit.conditions` gives them."""
        chosen = list(itertools.combinations_with_replacement(range(self._count), 2))
        programs = [self._program(i, j) for i, j in chosen]
        blocks = _mapped(programs) if programs[0].traced else _looped(programs)
        found = dict(zip(chosen, blocks, strict=True))
        n = range(self._count)
        whole = [[found[i, j] if i <= j else found[j, i].T for j in n] for i in n]
        requests = programs[0].plan.requests
        return Outcomes(jnp.block(whole)[None], "quadrature" if requests.quadrature else "exact")

    def _crossed(self) -> int:
        """The number of entries of the largest covariance of two entries."""
        return Limit((self._left[0],), second_moment).plan.largest

    def _program(self, i: int, j: int) -> Limit:
        return Limit((self._left[i], self._right[j]), CROSSED, self._inflated)


def _looped(programs: list[Limit]) -> list[SecondMoments]:
    found = []
    with watched("kernel") as watch:
        for program in programs:
            found.append(jax.block_until_ready(program.conditions(1, None).arrays[0]))
            watch.reached(len(found), len(programs))
    return found


def _mapped(programs: list[Limit]) -> list[SecondMoments]:
    """The second moments of all pairs inside transformations, in a loop over the programs of one
    structure, so that memory is bounded for derivatives, too.
    """
    plans: dict[Plan, list[int]] = {}
    for i, program in enumerate(programs):
        plans.setdefault(program.plan, []).append(i)
    found: dict[int, SecondMoments] = {}
    for plan, places in plans.items():
        columns = zip(*(programs[i].arrays for i in places), strict=True)
        arrays = [jnp.stack(column) for column in columns]
        blocks = jax.lax.map(jax.checkpoint(_function(plan)), arrays)
        found |= dict(zip(places, blocks, strict=True))
    return [found[i] for i in range(len(programs))]


def _function(plan: Plan) -> Callable[[Any], Any]:
    key = jax.random.key(0)
    return lambda arrays: plan.single.function(arrays, jnp.zeros(0), key, None, None)


def _entry(output: Output, i: int) -> Output:
    """y[i], by a program with no other numbers than it needs."""
    axis, *layout = output.layout
    y = output.value
    if axis is not None:
        op = Take(y, (axis,), (Places.of(np.asarray(i)),), ())
        y = Value(op, tuple(a for a in y.axes if a is not axis), y.dim, y.source)
    (needed,) = demanded((y,))
    return Output(needed, tuple(layout))
