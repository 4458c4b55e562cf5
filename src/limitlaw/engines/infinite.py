"""The conditional core at D = ∞: one draw of the scores of a program, and the moments of its wide vectors given them.

Vectors of fixed dimension follow the rules of the core. Of wide vectors only moments are ever needed: a MatMul into a
fixed dimension, a dot product and an average read them, and nothing of a wide vector is drawn.
"""

import dataclasses
import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from limitlaw.core.space import Dim
from limitlaw.engines import wide_scores
from limitlaw.engines.blocks import Block
from limitlaw.engines.conditional import RULES, Draw
from limitlaw.engines.demand import Inner
from limitlaw.engines.fresh import Fresh
from limitlaw.engines.limit_.joint import Joint
from limitlaw.engines.moments import Moments
from limitlaw.engines.plan import Plan
from limitlaw.engines.static import Facts, undrawn_scores
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.numerics.factors import pivoted_factor
from limitlaw.numerics.quasi import Source


@dataclasses.dataclass(frozen=True)
class Static:
    """What is known of a program before its limit is taken."""

    plan: Plan
    facts: Facts
    correlated: frozenset[Value]  # dot products that need a joint draw
    inflated: bool = False  # are Gaussian integrals taken to be larger by their errors?

    @classmethod
    def of(cls, plan: Plan, heads: int, coarse: bool) -> "Static":
        """The facts of a plan, in which `heads` nodes stand for infinitely many heads."""
        scores = wide_scores.correlated(plan.values, Facts(plan.values))
        undrawn = undrawn_scores(plan.values, heads) - scores
        return cls(plan, Facts(plan.values, undrawn, coarse), scores)


class InfiniteDraw(Draw):
    """One draw at infinite width. `table`: normal nodes for nonlinearities that need quasi-Monte Carlo."""

    def __init__(self, static: Static, source: Source, table: Any, observed: int = 1):
        self.static, self._table = static, table
        self._frames: dict[Dim, Joint] = {}
        super().__init__(static.plan, _dimension, source, observed)

    @functools.cached_property
    def moments(self) -> Moments:
        """Of the wide vectors, given what is drawn."""
        return Moments(self.static.facts, self, self._table, self.static.inflated)

    @functools.cached_property
    def scores(self) -> wide_scores.JointScores:
        """The scores that are drawn jointly."""
        return wide_scores.JointScores(self.moments, self.static.correlated)

    def evaluate(self, value: Value) -> None:
        """Numbers and vectors of fixed dimension; of wide vectors, the products with matrices that met narrow ones."""
        op: Any = value.op
        if isinstance(value, Wide):
            if not value.dim.wide:
                super().evaluate(value)
            elif isinstance(op, ops.MatMul):
                self._matmul(value, op)
        elif value in self.static.facts.undrawn:
            return
        elif isinstance(op, ops.Dot | ops.Average | Inner) and op.dim.wide:
            self.numbers[value] = _NUMBERS[type(op)](self, value, op)
        else:
            super().evaluate(value)

    def _matmul(self, value: Value, op: ops.MatMul) -> None:
        if op.matrix.cols.wide:
            self.moments.covariance(value, value)  # now, so that no recursion runs through the whole program
        elif op.matrix not in self.plan.reused:
            self.forms[value] = RULES[ops.MatMul](self, value, op)

    def product(self, value: Value) -> Fresh | None:
        """W x for x of fixed dimension, where W meets nothing else."""
        return self.forms[value].fresh if value in self.forms else None

    def only_fresh(self, value: Any) -> Fresh | None:
        """A wide vector as its coefficients on Gaussian roots, which have the same inner products."""
        if not value.dim.wide:
            return super().only_fresh(value)
        block = self.moments.second(value, value)
        if block is None:
            shape = finite_shape(value.shape)
            return Fresh(jnp.zeros((*shape, 1)), shape, (False,) * len(shape))
        return fresh_of(block)

    def units(self, value: Any) -> Float[Array, "..."]:
        """Coordinates of a wide vector in a frame of those met so far."""
        if not value.dim.wide:
            return super().units(value)
        joint = self._frames.setdefault(value.dim, Joint(self._flat))
        return joint.rows(value).reshape(*finite_shape(value.shape), -1)

    def _flat(self, v: Value, w: Value) -> Float[Array, "m k"] | None:
        block = self.moments.second(v, w)
        if block is None:
            return None if v is not w else jnp.zeros((math.prod(finite_shape(v.shape)),) * 2)
        return block.flat()


def _dimension(dim: Dim) -> int | float:
    return math.inf if dim.wide else dim.at(1)


def _dot(draw: InfiniteDraw, value: Value, op: ops.Dot) -> Float[Array, "..."]:
    if op.scaling == "linear":
        return wide_scores.linear(draw.moments, value)
    if value in draw.static.correlated:
        return draw.scores.draw(draw.key(value), value)
    return RULES[ops.Dot](draw, value, op)


def _average(draw: InfiniteDraw, value: Value, op: ops.Average) -> Float[Array, "..."]:
    mean = draw.moments.mean(op.w)
    return jnp.zeros(finite_shape(value.shape)) if mean is None else mean


def _inner(draw: InfiniteDraw, value: Value, op: Inner) -> Float[Array, "..."]:
    shape = finite_shape(value.shape)
    block = draw.moments.second(op.v, op.w)
    if block is None:
        return jnp.zeros(shape)
    return block.spread(shape, shape).diagonal()


_NUMBERS: dict[type[ops.Op], Any] = {ops.Dot: _dot, ops.Average: _average, Inner: _inner}


def fresh_of(block: Block) -> Fresh:
    """Vectors with these inner products, as coefficients on roots; pairs of equal axes have their own."""
    shape = block.left
    block = block.dense([a for a, b in block.pairs if a != b])
    own = tuple((a, a) in block.pairs for a in range(len(shape)))
    owns = [a for a, o in enumerate(own) if o]
    others = [a for a, o in enumerate(own) if not o]
    l = len(shape)  # noqa: E741
    sizes = [max(block.array.shape[a], block.array.shape[l + a]) for a in others]
    full = [*block.array.shape[:l], *block.array.shape[l:]]
    for a, size in zip(others, sizes, strict=True):
        full[a] = full[l + a] = size
    array = jnp.broadcast_to(block.array, full).transpose(
        *owns, *others, *(l + a for a in others), *(l + a for a in owns)
    )
    m = math.prod(sizes)
    K = array.reshape(*(full[a] for a in owns), m, m)
    L = lax.optimization_barrier(pivoted_factor(K))  # read by every head: computed once, not inside their loops
    c = L.reshape(*(full[a] for a in (*owns, *others)), m)
    return Fresh(c.transpose(*np.argsort([*owns, *others]).tolist(), l), shape, own)
