"""The logistic law as a mixture of 20 centred normals: σ(x) = Σ_j w_j Φ(x/s_j).

If K has Kolmogorov's law and Z is normal, 2KZ is logistic (Andrews & Mallows, 1974; Stefanski,
1991), so that σ(x) = ∫ p(κ) Φ(x/2κ) dκ. A Gauss rule for p in the variable log κ (Lanczos on a
fine grid; Golub & Welsch, 1969) makes the integral a sum. The relative error of tanh(x/2) = Σ_j
w_j erf(x/(s_j √2)) is at most 3e-13 for all x.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Reals = Float[Array, "..."]

TERMS = 20
ACCURACY = 3e-13  # of tanh(x/2), relative


def kolmogorov_density(kappa: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """p(κ) = 8κ Σ_j (−1)^{j+1} j² e^{−2j²κ²}; for small κ the same by Jacobi's identity.

    There P(K ≤ κ) = (√2π/κ) Σ_j e^{−c_j/κ²}, c_j = (2j − 1)²π²/8.
    """
    j = np.arange(1, 30)[:, None]
    large = 8 * kappa * np.sum((-1.0) ** (j + 1) * j**2 * np.exp(-2 * (j * kappa) ** 2), axis=0)
    c = (2 * j - 1) ** 2 * np.pi**2 / 8
    small = np.sqrt(2 * np.pi) * np.sum(
        np.exp(-c / kappa**2) * (2 * c / kappa**4 - 1 / kappa**2), axis=0
    )
    return np.where(kappa < 0.8, small, large)


def gauss_rule(
    x: Float[np.ndarray, "n"], w: Float[np.ndarray, "n"], terms: int
) -> tuple[Float[np.ndarray, "terms"], Float[np.ndarray, "terms"]]:
    """Nodes and weights of the Gauss rule of the discrete measure Σ_i w_i δ(x_i),
    normalised to total weight 1.
    """
    Q = [np.sqrt(w / w.sum())]
    a, b = np.zeros(terms), np.zeros(terms)
    for j in range(terms):
        v = x * Q[j]
        a[j] = Q[j] @ v
        for _ in range(2):  # Lanczos, orthogonalised twice
            basis = np.stack(Q)
            v = v - basis.T @ (basis @ v)
        b[j] = np.linalg.norm(v)
        Q.append(v / b[j])
    nodes, vectors = np.linalg.eigh(np.diag(a) + np.diag(b[:-1], 1) + np.diag(b[:-1], -1))
    return nodes, vectors[0] ** 2


def _mixture() -> tuple[Float[np.ndarray, "terms"], Float[np.ndarray, "terms"]]:
    """(w_j, s_j²): the trapezoidal rule in log κ,
    which converges exponentially here, made a Gauss rule.
    """
    t = np.linspace(np.log(0.15), np.log(5.0), 400)
    kappa = np.exp(t)
    nodes, w = gauss_rule(t, kolmogorov_density(kappa) * kappa, TERMS)
    return w, 4 * np.exp(2 * nodes)


WEIGHTS, VARIANCES = _mixture()


def logistic_mean(f: Callable[..., Reals], m: Reals, k: Reals) -> Reals:
    """Σ_j w_j f(m, k, s_j²)."""
    axes = (slice(None),) + (None,) * max(jnp.ndim(m), jnp.ndim(k))
    return jnp.sum(WEIGHTS[axes] * f(m, k, VARIANCES[axes]), axis=0)


def logistic_product(f: Callable[..., Reals], K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j f(K_uu, K_uv, K_vv, s_i², s_j²), in a loop over i."""
    shape = jnp.broadcast_shapes(K_uu.shape, K_uv.shape, K_vv.shape)
    axes = (slice(None),) + (None,) * len(shape)
    w, t2 = WEIGHTS[axes], VARIANCES[axes]

    def term(total: Reals, i: Any) -> tuple[Reals, None]:
        w_i, s2 = i
        return total + w_i * jnp.sum(w * f(K_uu, K_uv, K_vv, s2, t2), axis=0), None

    return jax.lax.scan(term, jnp.zeros(shape), (jnp.asarray(WEIGHTS), jnp.asarray(VARIANCES)))[0]
