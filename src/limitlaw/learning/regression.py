"""Gaussian-process regression given a kernel K = Φ Φᵀ: the likelihood of targets, and
predictions, at the cost of the rank of K.

With A = τ² I + ΦᵀΦ, w = A⁻¹ Φᵀ t and residuals ρ = t − Φ w,

    −2 log N(t; 0, K + τ² I) = |ρ|²/τ² + |w|² + log det A + (m − r) log τ² + m log 2π
    f_* | t ~ N(Φ_* w, τ² Φ_* A⁻¹ Φ_*ᵀ)

which is Bayesian linear regression in r features. Where r ≥ m, K itself is factorised.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from limitlaw.numerics.linear_algebra import cholesky

# Φ or K, of which one is None
KernelOrFactor = tuple[Float[Array, "m r"] | None, Float[Array, "m m"] | None]
SMALL = 64  # rows up to which LAPACK starts no threads
FEW = 4  # outputs
Rows = Any  # indices of some of the m inputs


def log_likelihood(
    given: KernelOrFactor, S: Float[Array, "k m"] | None, t: Float[Array, "k o"], noise: Any
) -> Float[Array, ""]:
    """log N(t; 0, S K Sᵀ + τ² I) of the targets t, for each output, summed; −∞ where that matrix
    is singular. S selects the entries that were observed: None is all. (A product with S has a
    derivative that is quicker than that of a selection.)
    """
    Phi, K = given
    noise = jnp.asarray(noise, float)
    if Phi is not None:
        return _of_factor(Phi if S is None else S @ Phi, t, noise)
    assert K is not None
    return _of_kernel(K if S is None else S @ K @ S.T, t, noise)


@jax.custom_jvp
def _of_kernel(
    K: Float[Array, "k k"], t: Float[Array, "k o"], noise: Float[Array, ""]
) -> Float[Array, ""]:
    return _by_kernel(K, t, noise)[0]


def _by_kernel(K: Array, t: Array, noise: Array) -> tuple[Array, Array, Array]:
    """ℓ, the Cholesky factor L of C = K + τ² I, and α = C⁻¹ t."""
    k, outputs = t.shape
    L = factor(K + noise**2 * jnp.eye(k))
    alpha = cho_solve((L, True), t)
    return _normalised(jnp.sum(t * alpha), L, outputs, 0.0, k), L, alpha


@_of_kernel.defjvp
def _of_kernel_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """dℓ = ½⟨α αᵀ − o C⁻¹, dK⟩ − ⟨α, dt⟩ + τ (|α|² − o tr C⁻¹) dτ, for o outputs."""
    (_, t, noise), (dK, dt, dnoise) = primals, tangents
    value, L, alpha = _by_kernel(*primals)
    inverse = t.shape[1] * cho_solve((L, True), jnp.eye(len(t)))
    slope = noise * (jnp.sum(alpha**2) - jnp.trace(inverse))
    change = 0.5 * jnp.sum((alpha @ alpha.T - inverse) * dK) - jnp.sum(alpha * dt)
    return value, change + slope * dnoise


@jax.custom_jvp
def _of_factor(
    Phi: Float[Array, "k r"], t: Float[Array, "k o"], noise: Float[Array, ""]
) -> Float[Array, ""]:
    return _by_factor(Phi, t, noise)[0]


def _by_factor(Phi: Array, t: Array, noise: Array) -> tuple[Array, Array, Array, Array]:
    """ℓ, the Cholesky factor L of A, the weights w, and α = (K + τ² I)⁻¹ t = ρ/τ²."""
    (k, outputs), r = t.shape, Phi.shape[1]
    L, w = weights(Phi, t, noise)
    rest = t - Phi @ w
    squares = jnp.sum(rest**2) / noise**2 + jnp.sum(w**2)
    beside = (k - r) * jnp.log(noise**2)
    return _normalised(squares, L, outputs, beside, k), L, w, rest / noise**2


@_of_factor.defjvp
def _of_factor_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The same with dK = dΦ Φᵀ + Φ dΦᵀ: dℓ = ⟨α wᵀ − o Φ A⁻¹, dΦ⟩ + …, as αᵀΦ = wᵀ and
    (K + τ² I)⁻¹ Φ = Φ A⁻¹.
    """
    (Phi, t, noise), (dPhi, dt, dnoise) = primals, tangents
    value, L, w, alpha = _by_factor(*primals)
    (k, outputs), r = t.shape, Phi.shape[1]
    inverse = cho_solve((L, True), jnp.eye(r))
    trace = (k - r) / noise**2 + jnp.trace(inverse)
    slope = noise * (jnp.sum(alpha**2) - outputs * trace)
    # a sum of few products is quicker than a product of matrices
    outer = alpha @ w.T if outputs > FEW else jnp.sum(alpha[:, None] * w, axis=-1)
    change = jnp.sum((outer - outputs * Phi @ inverse) * dPhi) - jnp.sum(alpha * dt)
    return value, change + slope * dnoise


def _normalised(squares: Array, L: Array, outputs: int, beside: Any, k: int) -> Array:
    """−½ (squares + o (2 Σ log L_ii + beside + k log 2π)), −∞ for NaN."""
    logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(L))) + beside
    value = -0.5 * (squares + outputs * (logdet + k * math.log(2 * math.pi)))
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def prediction(
    given: KernelOrFactor, rows: Rows, t: Float[Array, "k o"], noise: Any, test: Rows
) -> tuple[Float[Array, "j o"], Float[Array, "j j"]]:
    """Mean of f at the rows `test`, for each output, and the covariance of all outputs."""
    Phi, K = given
    if Phi is None:
        assert K is not None
        L = factor(K[rows][:, rows] + noise**2 * jnp.eye(len(t)))
        across = solve_triangular(L, K[rows][:, test], lower=True)
        C = K[test][:, test] - across.T @ across
        mean = across.T @ solve_triangular(L, t, lower=True)
    else:
        L, w = weights(Phi[rows], t, noise)
        across = noise * solve_triangular(L, Phi[test].T, lower=True)
        mean, C = Phi[test] @ w, across.T @ across
    # rounding may leave −1e-17 where nothing is uncertain
    return mean, C + jnp.diag(jnp.maximum(jnp.diagonal(C), 0.0) - jnp.diagonal(C))


def weights(
    Phi: Float[Array, "k r"], t: Float[Array, "k o"], noise: Any
) -> tuple[Float[Array, "r r"], Float[Array, "r o"]]:
    """The Cholesky factor of A, and w."""
    L = factor(Phi.T @ Phi + noise**2 * jnp.eye(Phi.shape[1]))
    return L, cho_solve((L, True), Phi.T @ t)


def factor(C: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The Cholesky factor of C; NaN where C is not positive definite."""
    return jnp.linalg.cholesky(C) if len(C) <= SMALL else cholesky(C)
