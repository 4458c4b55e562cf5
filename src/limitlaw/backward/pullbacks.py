"""What each operation of the language does to gradients: one rule each.

The *backward vector* of a vector v of R^D is b = √D ∂f/∂v, of a number p it is ∂f/∂p. With this
scaling the backward vector of x in y = W x is √(cols/rows) Wᵀ b, a product with i.i.d. entries as
W x is, and that of q in p = q·k/√D is p̄ k: no width is seen. A rule gives, for a value y made of
others and its backward b, what y adds to the backward of each of them.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw import phi
from limitlaw.language import ops
from limitlaw.language.functions import dot
from limitlaw.language.tree import Op, Value
from limitlaw.language.values import (
    Scalars,
    Wide,
    coordinatewise,
    dimension_ratio,
    elementwise,
    matmul,
    ones,
    scalars,
    transposed_matmul,
    whole,
)
from limitlaw.phi.slopes import Slope, slope_of

# (the value, its operation, its backward) → what is added to the backward of what it reads
Added = Iterator[tuple[Value, Any]]
Pullback = Callable[[Any, Any, Any], Added]


def pulled(y: Value, b: Any) -> Added:
    """What y adds to the backward of each value that it reads."""
    rule = PULLBACKS.get(type(y.op))
    if rule is None:
        raise TypeError(
            f"gradient has no rule for the operation {type(y.op).__name__}: write it with words "
            "that have one, or add a rule to PULLBACKS in backward/pullbacks.py"
        )
    for x, added in rule(y, y.op, b):
        yield x, _like(x, added)


# --- shapes --------------------------------------------------------------------------------------


def _like(x: Value, b: Any) -> Any:
    """Summed over the axes along which x was broadcast, repeated where b is constant."""
    shape: Any = x.shape
    if b.ndim > len(shape):
        b = b.sum(axis=tuple(range(b.ndim - len(shape))))
    wide = tuple(a for a, size in enumerate(shape) if size == 1 and b.shape[a] != 1)
    if wide:
        b = b.sum(axis=wide)[tuple(None if a in wide else slice(None) for a in range(len(shape)))]
    return b if b.shape == shape else scalars(np.ones(shape)) * b


def _by_entry(u: Wide, w: Wide) -> Scalars:
    """D^{-1/2} Σ_α u_α w_α for each entry of the batch: ∂f/∂a of y = a·w, with u the backward of
    y.
    """
    return dot(u[..., None], w[..., None])[..., 0, 0]


def _swapped(a: Scalars) -> Scalars:
    """With the last two axes exchanged."""
    return a.transpose(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)


# --- vectors -------------------------------------------------------------------------------------


def _matmul(y: Wide, op: ops.MatMul, b: Wide) -> Added:
    yield op.x, (matmul if op.transposed else transposed_matmul)(op.matrix, b)


def _map(y: Wide, op: ops.Map, b: Wide) -> Added:
    for i, argument in enumerate(op.args):
        if isinstance(argument, Wide):
            yield argument, _times_slope(op, i, b)
        elif not isinstance(argument.op, ops.Constant):
            yield argument, _by_entry(b, coordinatewise(slope_of(op.phi, i), *op.args))


def _times_slope(op: ops.Map, i: int, b: Wide) -> Wide:
    """b ∂φ/∂h_i."""
    if op.phi.linear:
        return b
    if op.phi == phi.multiply:
        other: Any = op.args[1 - i]
        return b * other
    return b * coordinatewise(slope_of(op.phi, i), *op.args)


def _dot(y: Scalars, op: ops.Dot, b: Scalars) -> Added:
    """Of q: Σ_j p̄_ij k_j, and of k: Σ_i p̄_ij q_i; with positions Rᵀ_i Σ_j p̄_ij R_j k_j."""
    q, k = (f.op.w if isinstance(f.op, ops.Rotated) else f for f in (op.q, op.k))
    if op.scaling == "linear":
        b = b * dimension_ratio(None, op.dim)
    many = [slice(None) if f.shape else None for f in (q, k)]
    lead = (slice(None),) * (b.ndim - sum(m is not None for m in many))
    full = b[(*lead, *many)]
    for x, a, factor, other in ((q, full, op.q, op.k), (k, _swapped(full), op.k, op.q)):
        vectors = _turned(other, other, 1)
        product = _turned(a @ (vectors if vectors.shape else vectors[None]), factor, -1)
        yield x, product if x.shape else product[..., 0]


def _turned(w: Any, like: Value, sign: int) -> Any:
    """w turned by the positions of `like`, which may be what it is turned from; there or back."""
    if not isinstance(like.op, ops.Rotated):
        return w
    w = like.op.w if w is like else w
    return Wide(ops.Rotate(w, sign * like.op.positions, like.op.base), w.shape, w.dim)


def _average(y: Scalars, op: ops.Average, b: Scalars) -> Added:
    """Of w: b/√D · **1**; of the factors of w = u v, as norms have it, b/√D times the other."""
    b = b * dimension_ratio(None, op.dim)
    inner = op.w.op
    factors: Any = inner.args if isinstance(inner, ops.Map) and inner.phi == phi.multiply else ()
    if len(factors) == 2 and all(isinstance(u, Wide) for u in factors):
        for u, other in zip(factors, factors[::-1], strict=True):
            yield u, b * other
    else:
        yield op.w, b * ones(op.dim)


# --- numbers -------------------------------------------------------------------------------------


def _apply(y: Scalars, op: ops.Apply, b: Scalars) -> Added:
    if op.structure == "softmax":
        weighted = y * b
        yield op.args[0], weighted - y * weighted.sum(axis=-1)[..., None]
        return
    known = KNOWN.get(op.f)
    for i, argument in enumerate(op.args):
        if isinstance(argument.op, ops.Constant | ops.DimensionRatio):
            continue
        if known is not None:
            yield argument, known(op.args, i, b)
            continue
        name = f"∂{op.name}"
        if op.core == 0:
            slope = elementwise(name, Slope(op.f, i), *op.args)
            yield argument, slope * b
        else:
            yield argument, whole(name, Pulled(op.f, i), *op.args, b)


# what operators write, and how their gradients read
KNOWN: Mapping[Any, Callable[[Any, int, Scalars], Scalars]] = {
    jnp.add: lambda args, i, b: b,
    jnp.subtract: lambda args, i, b: -b if i else b,
    jnp.negative: lambda args, i, b: -b,
    jnp.multiply: lambda args, i, b: b * args[1 - i],
}


@dataclasses.dataclass(frozen=True)
class Pulled:
    """(x_1, …, b) ↦ Σ b ∂f/∂x_i of a function of whole arrays."""

    f: Callable[..., Any]
    place: int

    def __call__(self, *arrays: Any) -> Any:
        *given, b = (jnp.asarray(a, float) for a in arrays)
        return jax.vjp(self.f, *given)[1](b)[self.place]


# --- linear on batch axes ------------------------------------------------------------------------


def _mix(y: Wide, op: ops.Mix, b: Wide) -> Added:
    """y_i = Σ_j a_ij w_j: of w Σ_i a_ij b_i, of a D^{-1/2} b_i·w_j."""
    a: Any = op.a
    rows = b if a.ndim > 1 else b[..., None]
    yield op.w, _swapped(a if a.ndim > 1 else a[None]) @ rows
    if not isinstance(op.a.op, ops.Constant):
        found: Any = dot(rows, op.w)  # type: ignore[arg-type]
        yield op.a, found if a.ndim > 1 else found[..., 0, :]


def _scale(y: Wide, op: ops.Scale, b: Wide) -> Added:
    a: Any = op.a
    yield op.w, a * b
    if not isinstance(a.op, ops.Constant | ops.DimensionRatio):
        yield a, _by_entry(b, op.w)  # type: ignore[arg-type]


def _add(y: Wide, op: ops.Add, b: Wide) -> Added:
    for term in op.terms:
        yield term, b


def _sum(y: Value, op: ops.Sum, b: Any) -> Added:
    shape: Any = op.x.shape
    b = b[tuple(None if a in op.axes else slice(None) for a in range(len(shape)))]
    if op.normalised:
        b = b * float(np.prod([shape[a] for a in op.axes], dtype=float) ** -0.5)
    yield op.x, b


def _stack(y: Value, op: ops.Stack, b: Any) -> Added:
    for i, term in enumerate(op.terms):
        yield term, b[(*(slice(None),) * op.axis, i)]


def _index(y: Value, op: ops.Index, b: Any) -> Added:
    """b_i added up at the places from which entries i were taken."""
    shape = tuple(int(size) for size in op.x.shape)
    count = int(np.prod(shape, dtype=int))
    places = np.arange(count).reshape(shape)[op.index].reshape(-1)
    taken = (np.arange(count)[:, None] == places).astype(float)
    yield op.x, _mixed(taken, b.reshape(-1)).reshape(shape)


def _mixed(a: np.ndarray, b: Any) -> Any:
    return a @ b if isinstance(b, Wide) else scalars(a) @ b


def _reshape(y: Value, op: ops.Reshape, b: Any) -> Added:
    yield op.x, b.reshape(op.x.shape)


def _transpose(y: Value, op: ops.Transpose, b: Any) -> Added:
    yield op.x, b.transpose(*np.argsort(op.axes).tolist())


# --- loops ---------------------------------------------------------------------------------------


def _unrolled(y: Value, op: ops.Unrolled, b: Any) -> Added:
    yield op.turns[-1], b


def _trained(y: Wide, op: ops.Trained, b: Wide) -> Added:
    yield op.w, b


PULLBACKS: Mapping[type[Op], Pullback] = {
    ops.MatMul: _matmul,
    ops.Map: _map,
    ops.Dot: _dot,
    ops.Average: _average,
    ops.Apply: _apply,
    ops.Mix: _mix,
    ops.Scale: _scale,
    ops.Add: _add,
    ops.Sum: _sum,
    ops.Stack: _stack,
    ops.Index: _index,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
    ops.Unrolled: _unrolled,
    ops.Trained: _trained,
}
