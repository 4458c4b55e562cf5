"""Linear operations on batch axes, for arrays whose trailing axis is hidden (coordinates, frame axes or roots)."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import Shape, batch_index


def mix(op: ops.Mix, a: Float[Array, "..."], w: Float[Array, "..."]) -> Float[Array, "..."]:
    """a @ w."""
    return a @ w if op.a.ndim > 1 else (a[None] @ w)[..., 0, :]


def total(op: ops.Sum, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Σ x over the axes of `op`, normalised where it says so."""
    size = math.prod(op.x.shape[a] for a in op.axes)
    return x.sum(axis=op.axes) / (math.sqrt(size) if op.normalised else 1.0)


def stack(op: ops.Stack, terms: Sequence[Float[Array, "..."]]) -> Float[Array, "..."]:
    """The terms along a new batch axis."""
    return jnp.stack(list(terms), axis=op.axis)


def index(op: ops.Index, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x[index], the trailing axis left whole."""
    return x[batch_index(op.index, op.x.ndim)]


def reshape(op: ops.Reshape, shape: Shape, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x in another batch shape."""
    return x.reshape(*(int(s) for s in shape), *x.shape[op.x.ndim :])


def transpose(op: ops.Transpose, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x with its batch axes in another order."""
    return x.transpose(*op.axes, *range(op.x.ndim, x.ndim))


def applied(v: Any, vectors: Mapping[Value, Any], numbers: Mapping[Value, Any]) -> Float[Array, "..."]:
    """A linear instruction applied to the arrays of the vectors it reads."""
    op = v.op
    match op:
        case ops.Mix():
            return mix(op, numbers[op.a], vectors[op.w])
        case ops.Scale():
            return numbers[op.a][..., None] * vectors[op.w]
        case ops.Add():
            return functools.reduce(jnp.add, [vectors[t] for t in op.terms])
        case ops.Sum():
            return total(op, vectors[op.x])
        case ops.Stack():
            return stack(op, [vectors[t] for t in op.terms])
        case ops.Index():
            return index(op, vectors[op.x])
        case ops.Reshape():
            return reshape(op, v.shape, vectors[op.x])
        case ops.Transpose():
            return transpose(op, vectors[op.x])
    raise TypeError(f"{type(op).__name__} is no linear instruction")
