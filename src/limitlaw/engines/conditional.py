"""The conditional core: one draw of a program, without its matrices.

Given what has been drawn so far, a vector is the sum of a drawn part, an array in the space of its component, and of a
fresh Gaussian part, coefficients on roots. One rule per instruction. Written for one draw, and vmapped.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from limitlaw.core.space import Dim
from limitlaw.engines import linear
from limitlaw.engines.demand import Inner
from limitlaw.engines.fresh import Fresh, added, stacked
from limitlaw.engines.ledger import Ledger
from limitlaw.engines.plan import Component, Plan, is_centred
from limitlaw.engines.scores import fresh_scores, scores_with_drawn
from limitlaw.engines.spaces import Frame, Points, Space, apply_roots
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.numerics.bartlett import bartlett_unit
from limitlaw.numerics.factors import pivoted_factor
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Source, fold_in


@dataclasses.dataclass(frozen=True)
class Form:
    """A batch of vectors: drawn part + fresh part; at least one is there."""

    drawn: Float[Array, "..."] | None
    fresh: Fresh | None

    def mapped(
        self, on_drawn: Callable[[Float[Array, "..."]], Float[Array, "..."]], on_fresh: Callable[[Fresh], Fresh]
    ) -> "Form":
        """A linear operation, applied to both parts."""
        return Form(
            None if self.drawn is None else on_drawn(self.drawn), None if self.fresh is None else on_fresh(self.fresh)
        )


class Draw:
    """One draw in progress. `dimension` gives D of a space: n, or a fixed d; ∞ where only `infinite.py` draws."""

    def __init__(
        self,
        plan: Plan,
        dimension: Callable[[Dim], int | float],
        key: Source,
        observed: int = 1,
        dtype: DTypeLike = jnp.float64,
    ):
        self.plan, self.dimension, self.observed, self.dtype = plan, dimension, observed, dtype
        self._keys = {v: functools.partial(fold_in, key, i) for i, v in enumerate(plan.values)}
        self.numbers: dict[Value, Float[Array, "..."]] = {}
        self.forms: dict[Value, Form] = {}
        self.ledgers: dict[Any, Ledger] = {}
        self._spaces: dict[Component, Space] = {}
        for value in plan.values:
            self.evaluate(value)

    def evaluate(self, value: Value) -> None:
        """Numbers, or vectors, by the rule of the instruction. Vectors that are read more than once are settled."""
        result = RULES[type(value.op)](self, value, value.op)
        if not isinstance(value, Wide):
            self.numbers[value] = result
            return
        self.forms[value] = result
        if self.plan.uses[value] > 1:
            self.settled(value)

    def key(self, value: Value, purpose: int = 0) -> Source:
        """A key for each purpose of each value."""
        return fold_in(self._keys[value](), purpose)

    def space(self, value: Value) -> Space:
        """The space of the component of a vector."""
        component = self.plan.component(value)
        if component not in self._spaces:
            D = int(self.dimension(component.dim))
            observed = self.observed if component.observed else 0
            if component.points:
                self._spaces[component] = Points(D, observed, self.dtype)
            else:
                self._spaces[component] = Frame(D, component.has_one, observed, self.dtype)
        return self._spaces[component]

    def settled(self, value: Value) -> Float[Array, "..."]:
        """The vector with nothing fresh left: what was, is drawn now."""
        form = self.forms[value]
        if form.fresh is not None:
            new = self.space(value).draw(self.key(value, 1), form.fresh)
            drawn = new if form.drawn is None else _sum([form.drawn, new])
            self.forms[value] = form = Form(drawn, None)
        assert form.drawn is not None
        return form.drawn

    def units(self, value: Value) -> Float[Array, "..."]:
        """The settled vector in coordinates whose products are Gram entries."""
        return self.space(value).units(self.settled(value))

    def only_fresh(self, value: Value) -> Fresh | None:
        """The fresh part of a vector that has no other."""
        form = self.forms[value]
        return form.fresh if form.drawn is None else None


# --- Leaves and MatMul ----------------------------------------------------------------------------------------------


def _initial(draw: Draw, value: Any, op: ops.Initial) -> Form:
    shape = finite_shape(value.shape)
    fresh = _independent(op, shape, draw.dtype)
    if is_centred(op):
        return Form(None, fresh)
    ones = draw.space(value).ones()
    return Form(jnp.broadcast_to(jnp.asarray(op.mean, draw.dtype)[..., None] * ones, (*shape, len(ones))), fresh)


def _independent(op: ops.Initial, shape: tuple[int, ...], dtype: DTypeLike) -> Fresh:
    """Initial vectors on their roots; independent ones have their own."""
    cov = op.cov
    if isinstance(cov, np.ndarray) and np.array_equal(cov, np.diag(np.diag(cov))):
        deviations = jnp.sqrt(jnp.asarray(np.diag(cov), dtype))
        return Fresh(deviations.reshape(*shape, 1), shape, tuple(size > 1 for size in shape))
    return Fresh(pivoted_factor(jnp.asarray(cov, dtype)).reshape(*shape, -1), shape, (False,) * len(shape))


def _data(draw: Draw, value: Any, op: ops.Data) -> Form:
    return Form(jnp.asarray(op.X, draw.dtype), None)


def _ones(draw: Draw, value: Any, op: ops.Ones) -> Form:
    return Form(draw.space(value).ones(), None)


def _constant(draw: Draw, value: Any, op: ops.Constant) -> Float[Array, "..."]:
    return jnp.asarray(op.value, draw.dtype)


def _matmul(draw: Draw, value: Any, op: ops.MatMul) -> Form:
    """W x given the x's: coordinates i.i.d. N(0, std² G) with G the Gram of the x's, for each matrix of the family."""
    shape = finite_shape(value.shape)
    family = (1,) * (len(shape) - len(op.matrix.shape)) + finite_shape(op.matrix.shape)
    own = tuple(size > 1 for size in family)
    std = jnp.asarray(op.matrix.std, draw.dtype)
    if op.matrix in draw.plan.reused:
        return _again(draw, value, op)
    waiting = draw.only_fresh(op.x)
    if waiting is not None:
        waiting = waiting.padded(len(shape)).shared(tuple(a for a, o in enumerate(own) if not o)).compressed()
        T = bartlett_unit(draw.key(value), waiting.roots, draw.dimension(op.matrix.cols), waiting.own_sizes, draw.dtype)
        c = apply_roots(waiting.c, T)
    else:
        c = draw.units(op.x)
        c = c.reshape(*(1,) * (len(shape) + 1 - c.ndim), *c.shape)
    return Form(None, Fresh(c, shape, own).compressed().scaled(std, shape))


def _again(draw: Draw, value: Any, op: ops.MatMul) -> Form:
    """W x for a matrix that met other vectors: regression on those, and a fresh residual."""
    ledger = draw.ledgers.setdefault(
        op.matrix, Ledger(finite_shape(op.matrix.shape), jnp.asarray(op.matrix.std, draw.dtype))
    )
    drawn, fresh = ledger.regressed(draw.units(op.x))
    if draw.plan.last_use(value):
        return Form(drawn, fresh)
    return Form(ledger.extended(draw.space(value), draw.key(value), drawn), None)


# --- Nonlin and dot products ----------------------------------------------------------------------------------------


def _map(draw: Draw, value: Any, op: ops.Map) -> Form:
    arrays = [draw.settled(v) if isinstance(v, Wide) else draw.numbers[v][..., None] for v in op.args]
    return Form(op.phi(*arrays), None)


def _rotary(draw: Draw, value: Any, op: ops.Rotary) -> Form:
    w = draw.settled(op.w)
    half = w.shape[-1] // 2
    angle = jnp.asarray(op.positions, draw.dtype)[..., None] * op.base ** (-jnp.arange(half) / half)
    first, second = w[..., :half], w[..., half:]
    turned = (first * jnp.cos(angle) - second * jnp.sin(angle), first * jnp.sin(angle) + second * jnp.cos(angle))
    return Form(jnp.concatenate(turned, axis=-1), None)


def _dot(draw: Draw, value: Any, op: ops.Dot) -> Float[Array, "..."]:
    """√D ⟨q, k⟩/D under "sqrt"; scores of fresh vectors need no more of them than their components along the others."""
    D = draw.dimension(op.dim)
    q, k = (_token_axis(draw, v) for v in (op.q, op.k))
    if isinstance(q, Fresh) and isinstance(k, Fresh):
        p = fresh_scores(draw.key(value), q, k, D)
    elif isinstance(k, Fresh):
        p = scores_with_drawn(draw.key(value), q, k)
    elif isinstance(q, Fresh):
        p = jnp.swapaxes(scores_with_drawn(draw.key(value), k, q), -1, -2)
    else:
        r = min(q.shape[-1], k.shape[-1])
        p = math.sqrt(D) * (q[..., :r] @ jnp.swapaxes(k[..., :r], -1, -2))
    if op.scaling == "linear":
        p = p / math.sqrt(D)
    return p.reshape(finite_shape(value.shape))


def _token_axis(draw: Draw, value: Value) -> Any:
    """The factor of a dot product, fresh or in units, with a last batch axis of tokens."""
    fresh = draw.only_fresh(value)
    if fresh is None:
        units = draw.units(value)
        return units if value.ndim else units[None]
    return fresh if value.ndim else fresh.padded(1)


def _average(draw: Draw, value: Any, op: ops.Average) -> Float[Array, "..."]:
    fresh = draw.only_fresh(op.w)
    if fresh is None:
        return draw.space(op.w).average(draw.settled(op.w))
    D = draw.dimension(op.dim)
    z = normal(draw.key(value), (*fresh.own_sizes, fresh.roots, 1), draw.dtype)
    everything = tuple(range(len(fresh.shape)))
    return apply_roots(fresh.whole(everything), z)[..., 0] / math.sqrt(D)


def _inner(draw: Draw, value: Any, op: Inner) -> Float[Array, "..."]:
    v, w = draw.units(op.v), draw.units(op.w)
    r = min(v.shape[-1], w.shape[-1])
    return (v[..., :r] * w[..., :r]).sum(axis=-1)


def _apply(draw: Draw, value: Any, op: ops.Apply) -> Float[Array, "..."]:
    return op.f(*(draw.numbers[p] for p in op.args))


# --- Linear operations ----------------------------------------------------------------------------------------------


def _mix(draw: Draw, value: Any, op: ops.Mix) -> Form:
    a = draw.numbers[op.a]
    return draw.forms[op.w].mapped(lambda w: linear.mix(op, a, w), lambda f: f.mixed(op, a, value.shape))


def _scale(draw: Draw, value: Any, op: ops.Scale) -> Form:
    a = draw.numbers[op.a]
    return draw.forms[op.w].mapped(lambda w: a[..., None] * w, lambda f: f.scaled(a, value.shape))


def _add(draw: Draw, value: Any, op: ops.Add) -> Form:
    forms = [draw.forms[t] for t in op.terms]
    drawn = [f.drawn for f in forms if f.drawn is not None]
    fresh = [f.fresh for f in forms if f.fresh is not None]
    total = _sum(drawn) if drawn else None
    if total is not None:
        total = jnp.broadcast_to(total, (*finite_shape(value.shape), total.shape[-1]))
    return Form(total, added(fresh, value.shape) if fresh else None)


def _sum(arrays: list[Float[Array, "..."]]) -> Float[Array, "..."]:
    """The sum of arrays of a frame, of which shorter ones end in zeros."""
    return functools.reduce(jnp.add, _equal_length(arrays))


def _equal_length(arrays: list[Float[Array, "..."]]) -> list[Float[Array, "..."]]:
    r = max(a.shape[-1] for a in arrays)
    return [jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, r - a.shape[-1])]) if a.shape[-1] < r else a for a in arrays]


def _stack(draw: Draw, value: Any, op: ops.Stack) -> Any:
    if not isinstance(value, Wide):
        return jnp.stack([draw.numbers[t] for t in op.terms], axis=op.axis)
    waiting = [f for f in map(draw.only_fresh, op.terms) if f is not None]
    if len(waiting) == len(op.terms) and len(set(op.terms)) == len(op.terms):
        return Form(None, stacked(op, waiting, value.shape))
    return Form(linear.stack(op, _equal_length([draw.settled(t) for t in op.terms])), None)


def _rearranged(
    draw: Draw,
    x: Value,
    on_array: Callable[[Float[Array, "..."]], Float[Array, "..."]],
    on_fresh: Callable[[Fresh], Fresh],
) -> Any:
    """An operation on the batch axes of numbers or of vectors."""
    return draw.forms[x].mapped(on_array, on_fresh) if isinstance(x, Wide) else on_array(draw.numbers[x])


def _total(draw: Draw, value: Any, op: ops.Sum) -> Any:
    return _rearranged(draw, op.x, lambda x: linear.total(op, x), lambda f: f.summed(op))


def _index(draw: Draw, value: Any, op: ops.Index) -> Any:
    return _rearranged(draw, op.x, lambda x: linear.index(op, x), lambda f: f.indexed(op, value.shape))


def _reshape(draw: Draw, value: Any, op: ops.Reshape) -> Any:
    shape = value.shape
    return _rearranged(draw, op.x, lambda x: linear.reshape(op, shape, x), lambda f: f.reshaped(op, shape))


def _transpose(draw: Draw, value: Any, op: ops.Transpose) -> Any:
    return _rearranged(draw, op.x, lambda x: linear.transpose(op, x), lambda f: f.transposed(op))


RULES: dict[type[ops.Op], Callable[[Draw, Any, Any], Any]] = {
    ops.Initial: _initial,
    ops.Data: _data,
    ops.Ones: _ones,
    ops.Constant: _constant,
    ops.MatMul: _matmul,
    ops.Map: _map,
    ops.Rotary: _rotary,
    ops.Dot: _dot,
    ops.Average: _average,
    Inner: _inner,
    ops.Apply: _apply,
    ops.Mix: _mix,
    ops.Scale: _scale,
    ops.Add: _add,
    ops.Sum: _total,
    ops.Stack: _stack,
    ops.Index: _index,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
}
