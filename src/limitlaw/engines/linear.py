"""Linear operations on batch axes, for arrays whose trailing axis is hidden (coordinates, frame axes or roots)."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.program import ops
from limitlaw.program.shapes import Shape, batch_index


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
