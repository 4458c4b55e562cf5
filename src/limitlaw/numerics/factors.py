"""Factors of Gram matrices that may be singular: repeated tokens, zero vectors. Batch axes lead.

All are differentiable, without NaN at a singular point: a missing direction adds nothing.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from limitlaw.numerics import LoopIndex
from limitlaw.numerics.linear_algebra import cholesky

UNROLLED = 16  # rows up to which Python writes out the loop: on a CPU two to three times faster
REGULAR = 1e-6  # squared pivots of correlations above which Cholesky's factor errs by 1e-9 at most
ROW_BY_ROW = 16  # rows of which Gram–Schmidt goes from one to the next; more go in blocks
SUMMED_ROWS = 2  # rows up to which multiply-and-sum beats `@`

TwoArrays = tuple[Float[Array, "..."], Float[Array, "..."]]
Carry = TypeVar("Carry")


def gram(x: Float[Array, "*batch m D"]) -> Float[Array, "*batch m m"]:
    """x xᵀ, the inner products of the rows of x."""
    if x.shape[-2] <= SUMMED_ROWS:
        return jnp.sum(x[..., :, None, :] * x[..., None, :, :], axis=-1)
    return x @ jnp.swapaxes(x, -1, -2)


def factor(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """Lower triangular L with L Lᵀ = K, for K positive semi-definite up to rounding.

    Cholesky's algorithm on the correlations C_ij = K_ij/√(K_ii K_jj), whose entries carry a
    rounding error of tol = 32 m ε. After the columns before j, S_ij, i ≥ j, is left of column j.
    If all |S_ij| ≤ tol, vector j lies in the span of those before it, and column j of L is zero;
    otherwise the pivot is max(S_jj, tol).

    L Lᵀ is K to rounding when each vector lies in the span of those before it or well outside. One
    at relative distance δ from that span has the pivot δ², known to ε only, and then C may err by
    ε/δ² in the directions that follow: where tokens may nearly coincide use `pivoted_factor`, or
    factor the vectors (`orthonormalise`).
    """
    m = K.shape[-1]
    if m == 1:
        exists = K >= float(np.finfo(K.dtype).tiny)
        return jnp.where(exists, jnp.sqrt(jnp.where(exists, K, 1.0)), 0.0)
    scale, C = _correlations(K)
    tolerance = 32 * m * float(np.finfo(K.dtype).eps)

    def step(j: LoopIndex, state: TwoArrays) -> TwoArrays:
        S, L = state
        column = _column(S[..., :, j], jnp.arange(m), j, tolerance)
        return S - column[..., :, None] * column[..., None, :], L.at[..., :, j].set(column)

    _, L = _loop(m, step, (C, jnp.zeros_like(C)))
    return scale[..., :, None] * L


def pivoted_factor(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """F with F Fᵀ = K to rounding, not triangular, for every K positive semi-definite up to
    rounding.

    Cholesky's algorithm with diagonal pivoting: each step takes the first vector of which at least
    an eighth of the most is left, so that rounding is never divided by a small pivot, and does not
    decide between equals. While nothing is nearly singular the order is the natural one and F the
    triangular factor. Zero columns come last.
    """
    return _pivoted(K) if K.shape[-1] <= UNROLLED else _mostly_triangular(K)


@jax.custom_jvp
def _mostly_triangular(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """Cholesky's factor where its pivots are above `REGULAR`, else the pivoted one: of all that
    are vmapped together none is pivoted if none needs it, on a CPU three to six times as fast.
    """
    return _by_batch(K)


@_mostly_triangular.defjvp
def _derivative(primals: tuple[Array], tangents: tuple[Array]) -> TwoArrays:
    (K,) = primals
    _, C = _correlations(lax.stop_gradient(K))
    return lax.cond(
        everywhere(jnp.all(_is_regular(cholesky(C)))),
        lambda *both: jax.jvp(_triangular, both[:1], both[1:]),
        lambda *both: jax.jvp(_either, both[:1], both[1:]),
        *(*primals, *tangents),
    )


@jax.custom_batching.custom_vmap
def everywhere(true: Bool[Array, ""]) -> Bool[Array, ""]:
    """Is it true of all entries that are vmapped together? So a branch stays a branch."""
    return true


@everywhere.def_vmap
def _of_all(size: int, batched: list[bool], true: Bool[Array, " size"]) -> tuple[Array, bool]:
    return everywhere(jnp.all(true)), False


def _triangular(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    scale, C = _correlations(K)
    return scale[..., :, None] * cholesky(C)


def _either(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """The factors by both methods, with derivatives; where Cholesky's is not taken it is I's."""
    scale, C = _correlations(K)
    regular = _is_regular(cholesky(lax.stop_gradient(C)))
    L = cholesky(jnp.where(regular, C, jnp.eye(K.shape[-1], dtype=K.dtype)))
    return jnp.where(regular, scale[..., :, None] * L, _pivoted(K))


@jax.custom_batching.custom_vmap
def _by_batch(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    scale, C = _correlations(K)
    L = cholesky(C)
    regular, triangular = _is_regular(L), scale[..., :, None] * L
    return lax.cond(
        jnp.all(regular), lambda: triangular, lambda: jnp.where(regular, triangular, _pivoted(K))
    )


@_by_batch.def_vmap
def _vmapped(size: int, batched: list[bool], K: Float[Array, "..."]) -> tuple[Array, bool]:
    return _by_batch(K), True


def _is_regular(L: Float[Array, "*batch m m"]) -> Bool[Array, "*batch 1 1"]:
    """Are all pivots of a factor of correlations large enough? False where they are NaN."""
    pivots = jnp.diagonal(L, axis1=-2, axis2=-1)
    return jnp.all(pivots * pivots > REGULAR, axis=-1)[..., None, None]


def _pivoted(K: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    m = K.shape[-1]
    scale, C = _correlations(K)
    tolerance = 32 * m * float(np.finfo(K.dtype).eps)

    def step(j: LoopIndex, state: TwoArrays) -> TwoArrays:
        S, F = state
        left = jnp.diagonal(S, axis1=-2, axis2=-1)
        first = jnp.argmax(8 * left >= jnp.max(left, axis=-1, keepdims=True), axis=-1)
        chosen = jnp.arange(m) == first[..., None]
        pivot = jnp.sum(jnp.where(chosen, left, 0.0), axis=-1, keepdims=True)
        exists = pivot > tolerance
        column = jnp.sum(jnp.where(chosen[..., None, :], S, 0.0), axis=-1)
        column = jnp.where(exists, column / jnp.sqrt(jnp.where(exists, pivot, 1.0)), 0.0)
        return S - column[..., :, None] * column[..., None, :], F.at[..., :, j].set(column)

    _, F = _loop(m, step, (C, jnp.zeros_like(C)))
    return scale[..., :, None] * F


def _correlations(
    K: Float[Array, "*batch m m"],
) -> tuple[Float[Array, "*batch m"], Float[Array, "*batch m m"]]:
    """(√K_ii)_i and K_ij/√(K_ii K_jj), zero where K_ii or K_jj is.

    A subnormal variance is zero: its inverse overflows. CPUs flush it to zero, GPUs do not.
    """
    variance = jnp.diagonal(K, axis1=-2, axis2=-1)
    positive = variance >= float(np.finfo(K.dtype).tiny)
    deviation = jnp.sqrt(jnp.where(positive, variance, 1.0))
    inverse = jnp.where(positive, 1 / deviation, 0.0)
    return jnp.where(positive, deviation, 0.0), K * (inverse[..., :, None] * inverse[..., None, :])


def _column(
    S: Float[Array, "*batch m"], row: Int[Array, " m"], j: LoopIndex, tolerance: float
) -> Float[Array, "*batch m"]:
    """Column j of L from column j of what is left of C."""
    left = jnp.where(row >= j, S, 0.0)
    exists = jnp.max(jnp.abs(left), axis=-1, keepdims=True) > tolerance
    pivot = jnp.where(exists, jnp.maximum(S[..., j, None], tolerance), 1.0)
    root = jnp.sqrt(pivot)
    return jnp.where(exists, jnp.where(row == j, root, left / root), 0.0)


@functools.partial(jax.jit, static_argnames="written_out")
def orthonormalise(
    x: Float[Array, "k r"], basis: Float[Array, "k1 r"], written_out: int = UNROLLED
) -> tuple[Float[Array, "k k1"], Float[Array, "k k"], Float[Array, "k r"]]:
    """(B, L, Q) with x = B basis + L Q: the rows of x in the frame `basis`, extended by
    orthonormal rows Q.

    The rows of `basis` are orthonormal or zero. L is lower triangular; row i of Q, and L_ii, are
    exactly zero where row i of x is spanned by `basis` and the rows before it. Gram–Schmidt is
    applied twice to each row, which leaves Q orthogonal to working precision (Giraud, Langou,
    Rozložník and van den Eshof 2005).

    What a spanned row leaves is rounding: about (k + k1) ε of its length from the subtractions,
    and what x itself carried. Spanned means less than 1024 ε of its length (2e-13 in float64),
    some orders above that and below any residual that means something: at the threshold a residual
    still has three digits.
    """
    k = x.shape[0]
    if k <= ROW_BY_ROW:
        return _row_by_row(x, basis, written_out)
    return _block_by_block(x, basis, written_out)


def _block_by_block(
    x: Float[Array, "k r"], basis: Float[Array, "k1 r"], written_out: int
) -> tuple[Array, Array, Array]:
    """The same for `ROW_BY_ROW` rows at a time: x = B F + L Q' with the frame F of all before
    them, and Q' = B' F + L' Q again, so that x = (B + L B') F + L L' Q (Giraud et al.).

    A row of Q' may err where little was left of x, and then the rest of a later row does, which
    should be nothing: in the second turn it is zero beside the length of its row of Q'.
    """
    (k, r), k1, size = x.shape, basis.shape[0], ROW_BY_ROW
    missing = -k % size
    x = jnp.pad(x, [(0, missing), (0, 0)])
    nothing = jnp.zeros((0, r), x.dtype)

    def block(i: LoopIndex, state: TwoArrays) -> TwoArrays:
        frame, found = state
        start, own = i * size, k1 + i * size
        rows = lax.dynamic_slice_in_dim(x, start, size)
        lengths = jnp.sum(rows * rows, axis=-1)
        B = rows @ frame.T
        _, L, Q = _row_by_row(rows - B @ frame, nothing, written_out, lengths)
        again, lengths = Q @ frame.T, jnp.sum(Q * Q, axis=-1)
        _, L2, Q = _row_by_row(Q - again @ frame, nothing, written_out, lengths)
        B = lax.dynamic_update_slice_in_dim(B + L @ again, L @ L2, own, axis=1)
        frame = lax.dynamic_update_slice_in_dim(frame, Q, own, axis=0)
        return frame, lax.dynamic_update_slice_in_dim(found, B, start, axis=0)

    frame = jnp.concatenate([basis, jnp.zeros_like(x)])
    found = jnp.zeros((len(x), len(frame)), x.dtype)
    frame, found = lax.fori_loop(0, len(x) // size, block, (frame, found))
    return found[:k, :k1], found[:k, k1 : k1 + k], frame[k1 : k1 + k]


def _row_by_row(
    x: Float[Array, "k r"],
    basis: Float[Array, "k1 r"],
    written_out: int,
    lengths: Float[Array, " k"] | None = None,
) -> tuple[Float[Array, "k k1"], Float[Array, "k k"], Float[Array, "k r"]]:
    """The same; `lengths`: the squares of those to which a residual is compared, of x itself if
    there are none.
    """
    k, k1 = x.shape[0], basis.shape[0]
    if lengths is None:
        lengths = jnp.sum(x * x, axis=-1)
    threshold = (1024 * float(np.finfo(x.dtype).eps)) ** 2

    def step(i: LoopIndex, state: TwoArrays) -> TwoArrays:
        frame, coefficients = state
        once, v = _project(x[i], frame)
        twice, v = _project(v, frame)
        square = jnp.sum(v * v)
        length, q = _normalise(v, square > threshold * lengths[i], square)
        row = (once + twice).at[k1 + i].set(length)
        return frame.at[k1 + i].set(q), coefficients.at[i].set(row)

    start = jnp.concatenate([basis, jnp.zeros_like(x)]), jnp.zeros((k, k1 + k), x.dtype)
    frame, coefficients = _loop(k, step, start, written_out)
    return coefficients[:, :k1], coefficients[:, k1:], frame[k1:]


def _project(
    v: Float[Array, " r"], frame: Float[Array, "f r"]
) -> tuple[Float[Array, " f"], Float[Array, " r"]]:
    """The coefficients of v in the frame, and what they leave of it."""
    c = jnp.sum(frame * v, axis=-1)
    return c, v - jnp.sum(c[:, None] * frame, axis=0)


def _normalise(
    v: Float[Array, " r"], exists: Bool[Array, ""], square: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, " r"]]:
    """The length |v| and v/|v|; zeros where v does not exist."""
    length = jnp.sqrt(jnp.where(exists, square, 1.0))
    return jnp.where(exists, length, 0.0), jnp.where(exists, v / length, 0.0)


def _loop(
    count: int,
    step: Callable[[LoopIndex, Carry], Carry],
    state: Carry,
    written_out: int = UNROLLED,
) -> Carry:
    """The state after `step(i, state)` for all i < count, written out for few steps."""
    if count > written_out:
        return jax.lax.fori_loop(0, count, step, state)
    for i in range(count):
        state = step(i, state)
    return state


def eigen_factor(covariance: Float[Array, "... m m"]) -> Float[Array, "... m m"]:
    """F with F Fᵀ = covariance, singular or not."""
    values, vectors = jnp.linalg.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0))[..., None, :]


def whitening(covariance: Float[Array, "N m m"]) -> tuple[Array, Array, np.ndarray]:
    """L⁻¹ and log det L of Cholesky factors, and which covariances are singular to rounding."""
    m = covariance.shape[-1]
    sd = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
    scale = jnp.where(sd > 0, sd, 1)
    L = jnp.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None, :]))
    # squares: the part of each entry that earlier ones do not explain
    pivots = jnp.diagonal(L, axis1=-2, axis2=-1)
    singular = ~(jnp.min(pivots, axis=-1, initial=1.0) ** 2 > 1e-13 * m)  # NaN counts as singular
    I = jnp.broadcast_to(jnp.eye(m), L.shape)
    inverse = jax.scipy.linalg.solve_triangular(L, I, lower=True)
    logdet = jnp.sum(jnp.log(pivots) + jnp.log(scale), axis=-1)
    return inverse / scale[:, None, :], logdet, np.asarray(singular)
