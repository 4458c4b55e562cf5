"""What is read off a draw, as a function of independent standard normals.

A draw of the limit, or of a network of width n, is a function of its latent variables: normals,
and χ lengths, which are quantiles of normals. So a kernel is a function K(x) of x ~ N(0, I), to be
differentiated by JAX. That is all that a sampler of posteriors needs to know of an engine.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Apply
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Output, ancestors, without_numbers
from limitlaw.core.unrolling import unrolled
from limitlaw.engines import engine
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.engine import PROGRAMS, slots
from limitlaw.engines.frames.draw import FramesDraw
from limitlaw.engines.frames.finite import demanded_outputs
from limitlaw.engines.frames.finite import followed as followed_at_width
from limitlaw.engines.limit.draw import LimitDraw, Outputs
from limitlaw.engines.limit.followed import Followed, written
from limitlaw.engines.limit.statistics import second_moment
from limitlaw.engines.reading import Reading
from limitlaw.numerics.factors import gram
from limitlaw.numerics.random import Quasi, Sobol, nodes
from limitlaw.numerics.special_functions import chi_of_normals

Normals = Float[Array, " r"]


@dataclasses.dataclass(frozen=True)
class KernelFactor(Reading):
    """The kernel of the first output, ⟨y_i, y_j⟩/n or its limit, and the numbers that the others
    are: a pair (Φ, K), of which one is None, and a list of arrays.

    Φ (m × r) with K = Φ Φᵀ is given where r < m is known from the program. At infinite width y is
    then a combination of r independent vectors, as r = H D in an attention layer on data of D
    dimensions.
    """

    def __call__(self, draw: Any, outputs: Outputs) -> Any:
        (_, layout), *others = outputs
        m = math.prod(finite_shape(layout))
        factor = _factor(draw, outputs[0], m)
        low = factor is not None and factor.shape[-1] < m
        K = None if low else _kernel(draw, outputs[0], factor)
        return (factor if low else None, K), [draw[p].whole(order) for p, order in others]


def _factor(draw: FramesDraw, output: Output, m: int) -> Float[Array, "m r"] | None:
    y, layout = output
    if not isinstance(draw, LimitDraw) or not output.is_wide:
        units = draw.units(y).whole(layout)
        return units.reshape(m, units.shape[-1])
    fresh = draw.low_rank(y)
    if fresh is None:
        return None
    fresh = fresh.shared(fresh.axes)
    return fresh.c.whole(layout).reshape(m, fresh.roots)


def _kernel(draw: FramesDraw, output: Output, factor: Float[Array, "m r"] | None) -> Array:
    return second_moment(draw, (output,)) if factor is None else gram(factor)


class LatentPlan:
    """What is known of the draws of a program before its numbers are: `df`, the degrees of freedom
    of their latent variables, and functions that were compiled for it.

    Where nonlinearities of several vectors, or infinitely many heads, are averaged over nodes, the
    nodes are the same for all draws.
    """

    def __init__(self, outputs: Sequence[Output], reading: Reading, width: int | None) -> None:
        self._follow = (
            _limit(outputs, reading) if width is None else _finite(outputs, reading, width)
        )
        source = Quasi(jax.random.key(0), most=math.inf)
        draw: dict[str, FramesDraw] = {}

        def recorded(arrays: list[Any]) -> Any:
            result, draw["one"] = self._follow.run(arrays, source, None)
            return result

        jax.eval_shape(recorded, self._follow.arrays(outputs))
        self.df = np.asarray(source.recipe)
        self._table = self._heads = None
        self.by_quadrature = False
        if isinstance(one := draw["one"], LimitDraw):
            self.by_quadrature = one.moments.integrals.quadrature
            if one.moments.dimensions:
                self._table = jnp.asarray(nodes(BUDGET.nodes_each, one.moments.dimensions, 0))
        if source.table_recipe:
            self._heads = jnp.asarray(Sobol(source.table_recipe, 1).take(self._follow.heads))
        self._compiled: dict[Any, Compiled] = {}

    def arrays(self, outputs: Sequence[Output]) -> list[Any]:
        """The numbers of a program of this structure."""
        return self._follow.arrays(outputs)

    def read(self, arrays: list[Any], x: Normals) -> Any:
        """The reading of the draw with these normals: a pure function, which JAX transforms."""
        row = chi_of_normals(self.df, x)
        source = Quasi(jax.random.key(0), row, self._heads, math.inf)
        return self._follow.run(arrays, source, self._table)[0]

    def compiled(self, name: Hashable, make: Callable[[], Callable[..., Any]]) -> Compiled:
        """The compiled function of that name, made if it is not there."""
        if name not in self._compiled:
            self._compiled[name] = Compiled(make())
        return self._compiled[name]

    @property
    def size(self) -> int:
        """The number of equations that were compiled."""
        return sum(each.size for each in self._compiled.values())

    def release(self) -> None:
        """Give back the memory of everything that was compiled."""
        for each in self._compiled.values():
            each.release()


class LatentMap:
    """A reading of the limit, or of width n, as a function of `size` standard normals: `read(x)`
    of one draw. Without normals the reading is deterministic.
    """

    def __init__(
        self, outputs: Sequence[Output], reading: Reading, width: int | None = None
    ) -> None:
        given = tuple(outputs)
        name = "latents", engine.structure(engine.program_of(given), given), reading, width
        self.readings = len(given) - 1  # arrays of numbers that are read beside the kernel
        self.plan: LatentPlan = PROGRAMS.get(name, lambda: LatentPlan(given, reading, width))
        self.arrays = self.plan.arrays(given)

    @property
    def size(self) -> int:
        """How many standard normals a draw is a function of."""
        return len(self.plan.df)

    def read(self, x: Normals) -> Any:
        """The reading of the draw with these normals."""
        return self.plan.read(self.arrays, x)


class _Follow(NamedTuple):
    """How a program is followed: (its numbers, a source, nodes) → the reading and the draw; the
    numbers of a program of this structure; and the number of nodes of infinitely many heads.
    """

    run: Callable[[list[Any], Quasi, Any], tuple[Any, FramesDraw]]
    arrays: Callable[[Sequence[Output]], list[Any]]
    heads: int = 0


def _limit(outputs: Sequence[Output], reading: Reading) -> _Follow:
    """At infinite width."""
    followed = Followed.of(outputs, reading)
    program = engine.program_of(followed.outputs)

    def run(arrays: list[Any], source: Quasi, table: Any) -> tuple[Any, FramesDraw]:
        draw = LimitDraw(followed.static, slots(program, arrays), source, table)
        draw.run(program)
        return reading(draw, followed.outputs), draw

    def numbers(asked: Sequence[Output]) -> list[Any]:
        unrolls = bool(followed.why_written_out)
        return engine.program_of(written(asked, followed.most_heads, unrolls)[0]).arrays

    return _Follow(run, numbers, followed.heads)


def _finite(outputs: Sequence[Output], reading: Reading, width: int) -> _Follow:
    """At width n."""
    plain = without_numbers(demanded_outputs(tuple(outputs)))

    def run(arrays: list[Any], source: Quasi, table: Any) -> tuple[Any, FramesDraw]:
        draw = followed_at_width(plain, arrays, width, reading, source)
        return reading(draw, plain), draw

    return _Follow(run, lambda asked: engine.program_of(demanded_outputs(tuple(asked))).arrays)


def with_softmaxes(output: Output) -> tuple[Output, ...]:
    """The same output without loops, and the attention weights that it is made of, layer by
    layer, as their softmax lays them out.
    """
    (value,) = demanded(tuple(unrolled([output.value])))
    found = [v.instruction for v in ancestors([value]) if isinstance(v.instruction, Apply)]
    weights = [v for v in ancestors([value]) if isinstance(v.instruction, Apply)]
    return Output(value, output.layout), *(
        Output(v, op.layout)
        for v, op in zip(weights, found, strict=True)
        if op.structure == "softmax"
    )
