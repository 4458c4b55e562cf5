"""Coordinates of outputs that a draw of the core holds: Gaussian given what is drawn."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.engines.conditional import Draw
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape


def observed(draw: Draw, outputs: tuple[Value, ...], k: int) -> tuple[Float[Array, " M"], Float[Array, "M M"]]:
    """Mean and covariance of k coordinates of all outputs, given everything that one draw conditions on."""
    each = [_observed(draw, value, k) for value in outputs]
    mean = jnp.concatenate([m for m, _ in each])
    covariance = jax.scipy.linalg.block_diag(*(C for _, C in each))
    return mean.reshape(-1), jnp.kron(covariance, jnp.eye(k, dtype=draw.dtype))


def _observed(draw: Draw, value: Value, k: int) -> tuple[Float[Array, "m k"], Float[Array, "m m"]]:
    """Each coordinate of an output is Gaussian: its mean for k coordinates, and its covariance over the batch."""
    form = draw.forms[value]
    m = math.prod(finite_shape(value.shape))
    mean = (
        jnp.zeros((m, k), draw.dtype) if form.drawn is None else draw.space(value).coordinates(form.drawn).reshape(m, k)
    )
    return mean, jnp.zeros((m, m), draw.dtype) if form.fresh is None else form.fresh.covariance()
