"""Linear algebra in pieces too small for BLAS and LAPACK to start threads, which wait for each
other when other work is running.

Measured with two cores and a load of four: 49 seconds for a product of tall arrays that takes one
in pieces, and 160 ms instead of 0.2 for a Cholesky factor of 128 rows. Panels and matrix products
take 0.3, whatever else runs.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.numerics import LoopIndex

COLUMNS_OF_PANEL = 16  # columns of a Cholesky factor that are found together
COLUMNS_OF_BLOCK = 128  # columns at most whose panels act on each other one by one
PIECE = 2**17  # most multiplications of a product that is not cut into pieces


def cholesky(C: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """Lower triangular L with L Lᵀ = C; NaN where C is not positive definite."""
    return lax.platform_dependent(C, cpu=_by_blocks, default=jnp.linalg.cholesky)


def _by_blocks(C: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """The Cholesky factor by blocks of columns J: C[:, J] − L L[J, :]ᵀ is left after those before,
    one product of matrices for all panels.
    """
    m = C.shape[-1]
    count = math.ceil(m / COLUMNS_OF_BLOCK)
    width = COLUMNS_OF_PANEL * math.ceil(m / (COLUMNS_OF_PANEL * count))
    size = count * width
    pad = [(0, 0)] * (C.ndim - 2) + [(0, size - m)] * 2
    S = jnp.pad(C, pad) + jnp.diag(jnp.where(jnp.arange(size) < m, 0.0, 1.0))

    def block(p: LoopIndex, L: Array) -> Array:
        start = p * width
        columns = lax.dynamic_slice_in_dim(S, start, width, axis=-1)
        rows = lax.dynamic_slice_in_dim(L, start, width, axis=-2)
        found = _by_panels(columns - L @ jnp.swapaxes(rows, -1, -2), start)
        return lax.dynamic_update_slice_in_dim(L, found, start, axis=-1)

    L = _by_panels(S, 0) if count == 1 else lax.fori_loop(0, count, block, jnp.zeros_like(S))
    return jnp.tril(L)[..., :m, :m]


def _by_panels(S: Float[Array, "*batch m b"], first: LoopIndex) -> Float[Array, "*batch m b"]:
    """Columns `first`, … of L from what is left of those of C: panel by panel, S[:, J] L_J^{-T}
    are columns J of L, and S loses their products.
    """
    width, row = S.shape[-1], jnp.arange(S.shape[-2])

    def panel(p: LoopIndex, state: tuple[Array, Array]) -> tuple[Array, Array]:
        S, L = state
        start = p * COLUMNS_OF_PANEL
        columns = lax.dynamic_slice_in_dim(S, start, COLUMNS_OF_PANEL, axis=-1)
        own = lax.dynamic_slice_in_dim(columns, first + start, COLUMNS_OF_PANEL, axis=-2)
        inverse = jnp.swapaxes(_inverse_factor(own), -1, -2)
        columns = jnp.where((row >= first + start)[:, None], columns @ inverse, 0.0)
        L = lax.dynamic_update_slice_in_dim(L, columns, start, axis=-1)
        rows = lax.dynamic_slice_in_dim(columns, first, width, axis=-2)
        return S - columns @ jnp.swapaxes(rows, -1, -2), L

    _, L = lax.fori_loop(0, width // COLUMNS_OF_PANEL, panel, (S, jnp.zeros_like(S)))
    return L


def _inverse_factor(D: Float[Array, "*batch b b"]) -> Float[Array, "*batch b b"]:
    """L^{-1} for L Lᵀ = D: each step of Gauss's elimination divides by the root of its pivot, and
    acts on I as well.
    """
    both = _with_unit(D)
    for j in range(D.shape[-1]):
        both = _eliminate(j, both)
    return both[..., D.shape[-1] :]


def _eliminated(D: Float[Array, "*batch b b"]) -> Float[Array, "*batch b b"]:
    """The same in a loop, which takes less long to compile."""
    both = lax.fori_loop(0, D.shape[-1], _eliminate, _with_unit(D))
    return both[..., D.shape[-1] :]


def _with_unit(D: Float[Array, "*batch b b"]) -> Float[Array, "*batch b b2"]:
    eye = jnp.broadcast_to(jnp.eye(D.shape[-1], dtype=D.dtype), D.shape)
    return jnp.concatenate([D, eye], axis=-1)


def _eliminate(j: LoopIndex, both: Float[Array, "*batch b b2"]) -> Float[Array, "*batch b b2"]:
    row = jnp.arange(both.shape[-2])
    root = lax.rsqrt(both[..., j, j])[..., None]
    pivot = both[..., j, :] * root
    below = jnp.where(row > j, both[..., :, j] * root, 0.0)
    pivot = pivot[..., None, :]
    return jnp.where((row == j)[:, None], pivot, both - below[..., :, None] * pivot)


def inverse_factor(C: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """L⁻¹ for L Lᵀ = C = [[A, Bᵀ], [B, D]], by halves: those of A and of what A leaves of D; NaN
    where C is not positive definite.
    """
    m = C.shape[-1]
    if m <= COLUMNS_OF_PANEL:
        return _eliminated(C)
    h = COLUMNS_OF_PANEL * math.ceil(m / (2 * COLUMNS_OF_PANEL))
    A, B, D = C[..., :h, :h], C[..., h:, :h], C[..., h:, h:]
    first = inverse_factor(A)
    along = B @ first.mT
    second = inverse_factor(D - along @ along.mT)
    below = -second @ (along @ first)
    above = jnp.zeros((*C.shape[:-2], h, m - h), C.dtype)
    return jnp.concatenate(
        [jnp.concatenate([first, above], -1), jnp.concatenate([below, second], -1)], -2
    )


def times(z: Float[np.ndarray, "N d"], W: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "N k"]:
    """The product z W."""
    out = np.empty((len(z), W.shape[1]))
    rows = max(1, PIECE // max(W.size, 1))
    for i in range(0, len(z), rows):
        np.matmul(z[i : i + rows], W, out=out[i : i + rows])
    return out


def inner(a: Float[np.ndarray, "N d"], b: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "d k"]:
    """The product aᵀ b."""
    out = np.zeros((a.shape[1], b.shape[1]))
    rows = max(1, PIECE // max(out.size, 1))
    for i in range(0, len(a), rows):
        out += a[i : i + rows].T @ b[i : i + rows]
    return out


def diagonal(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m"]:
    """The diagonal K_ii; of a single number a plain slice, which compiles faster."""
    return K[..., 0] if K.shape[-1] == 1 else jnp.diagonal(K, axis1=-2, axis2=-1)


def taken(x: Float[Array, "..."], places: Int[np.ndarray, " k"], axis: int) -> Float[Array, "..."]:
    """x at constant places of an axis, all of which are inside."""
    index = (*(slice(None),) * axis, places)
    return x.at[index].get(mode="promise_in_bounds")
