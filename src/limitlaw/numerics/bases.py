"""Orthonormal bases of many vectors: by products of matrices where the vectors are well apart, and
row by row, with care, where they are not.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from limitlaw.numerics.factors import gram, orthonormalise
from limitlaw.numerics.linear_algebra import inverse_factor

Parts = tuple[Array, Array, Array]  # (B, L, Q) of `extended`

APART = 1e-3  # squared pivots of correlations above which Q is orthogonal to 1e-12


@jax.custom_batching.custom_vmap
def extended(x: Float[Array, "*batch k r"], basis: Float[Array, "*batch k1 r"]) -> Parts:
    """`orthonormalise(x, basis)`, without derivatives: x = B basis + L Q.

    With L Lᵀ the Gram matrix of what `basis` leaves of x, Q = L⁻¹(x − B basis), which errs by ε
    over the least squared pivot (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015). Zero rows
    stay zero. What is nearly spanned goes row by row: nothing does where no batch needs it of all
    that are vmapped together, and what a batch gets does not depend on others.
    """
    B = x @ basis.mT
    rest = x - B @ basis if basis.shape[-2] else x
    K = gram(rest)
    squares = jnp.diagonal(K, axis1=-2, axis2=-1)
    if basis.shape[-2]:
        squares = jnp.sum(x * x, axis=-1)
    exists = squares > 0
    scale = jnp.where(exists, 1 / jnp.sqrt(jnp.where(exists, squares, 1.0)), 0.0)
    C = K * (scale[..., :, None] * scale[..., None, :])
    inverse = inverse_factor(C + jnp.where(exists[..., None], 0.0, jnp.eye(K.shape[-1])))
    pivots = jnp.diagonal(inverse, axis1=-2, axis2=-1) ** -2
    apart = jnp.all(pivots > APART, axis=-1)[..., None, None]  # not where they are NaN

    def at_once() -> Parts:
        T = inverse * scale[..., None, :]
        return B, jnp.tril(K @ T.mT), T @ rest

    def with_care() -> Parts:
        B, L, Q = map(
            lambda one, other: jnp.where(apart, one, other), at_once(), _row_by_row(x, basis)
        )
        return B, L, Q

    return lax.cond(jnp.all(apart), at_once, with_care)


@extended.def_vmap
def _of_all(
    size: int, batched: list[bool], x: Array, basis: Array
) -> tuple[Parts, tuple[bool, bool, bool]]:
    x, basis = (
        a if is_batched else jnp.broadcast_to(a, (size, *a.shape))
        for a, is_batched in zip((x, basis), batched, strict=True)
    )
    return extended(x, basis), (True, True, True)


def _row_by_row(x: Float[Array, "*batch k r"], basis: Float[Array, "*batch k1 r"]) -> Parts:
    lead = x.shape[:-2]
    each = (a.reshape(math.prod(lead), *a.shape[-2:]) for a in (x, basis))
    found = jax.vmap(lambda x, Q: orthonormalise(x, Q, 0))(*each)
    B, L, Q = (a.reshape(*lead, *a.shape[1:]) for a in found)
    return B, L, Q
