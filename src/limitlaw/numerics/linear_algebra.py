"""Linear algebra in pieces too small for BLAS and LAPACK to start threads, which wait for each
other beside other work.

Measured with two cores and a load of four: 49 seconds for a product of tall arrays that takes one
in pieces, and 160 ms instead of 0.2 for a Cholesky factor of 128 rows. Panels and matrix products
take 0.3, whatever else runs.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

PANEL = 16  # columns of a Cholesky factor
PIECE = 2**17  # multiplications of a product


def cholesky(C: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """Lower triangular L with L Lᵀ = C; NaN where C is not positive definite."""
    return lax.platform_dependent(C, cpu=_by_panels, default=jnp.linalg.cholesky)


def _by_panels(C: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """S is what is left of C: panel by panel, S[:, J] L_J^{-T} are columns J of L, and S loses
    their products.
    """
    m = C.shape[-1]
    size = PANEL * math.ceil(m / PANEL)
    pad = [(0, 0)] * (C.ndim - 2) + [(0, size - m)] * 2
    S = jnp.pad(C, pad) + jnp.diag(jnp.where(jnp.arange(size) < m, 0.0, 1.0))
    row = jnp.arange(size)

    def panel(p: Int[Array, ""] | int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        S, L = state
        start = p * PANEL
        columns = lax.dynamic_slice_in_dim(S, start, PANEL, axis=-1)
        inverse = _inverse_factor(lax.dynamic_slice_in_dim(columns, start, PANEL, axis=-2))
        columns = jnp.where((row >= start)[:, None], columns @ jnp.swapaxes(inverse, -1, -2), 0.0)
        L = lax.dynamic_update_slice_in_dim(L, columns, start, axis=-1)
        return S - columns @ jnp.swapaxes(columns, -1, -2), L

    _, L = lax.fori_loop(0, size // PANEL, panel, (S, jnp.zeros_like(S)))
    return jnp.tril(L)[..., :m, :m]


def _inverse_factor(D: Float[Array, "*batch b b"]) -> Float[Array, "*batch b b"]:
    """L^{-1} for L Lᵀ = D: each step of Gauss's elimination divides by the root of its pivot, and
    acts on I as well.
    """
    b = D.shape[-1]
    both = jnp.concatenate([D, jnp.broadcast_to(jnp.eye(b, dtype=D.dtype), D.shape)], axis=-1)
    row = jnp.arange(b)
    for j in range(b):
        root = lax.rsqrt(both[..., j, j])[..., None]
        pivot = both[..., j, :] * root
        below = jnp.where(row > j, both[..., :, j] * root, 0.0)
        pivot = pivot[..., None, :]
        both = jnp.where((row == j)[:, None], pivot, both - below[..., :, None] * pivot)
    return both[..., b:]


def times(z: Float[np.ndarray, "N d"], W: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "N k"]:
    """z W."""
    out = np.empty((len(z), W.shape[1]))
    rows = max(1, PIECE // max(W.size, 1))
    for i in range(0, len(z), rows):
        np.matmul(z[i : i + rows], W, out=out[i : i + rows])
    return out


def inner(a: Float[np.ndarray, "N d"], b: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "d k"]:
    """aᵀ b."""
    out = np.zeros((a.shape[1], b.shape[1]))
    rows = max(1, PIECE // max(out.size, 1))
    for i in range(0, len(a), rows):
        out += a[i : i + rows].T @ b[i : i + rows]
    return out
