"""The logistic function and its kin: steps and ramps with logistic noise L, a mixture of normals
s_j Z.

sigmoid(x) = P(L < x), tanh(x/2) = E sign(x + L), softplus(x) = E max(x + L, 0), silu(x) = x
P(L < x).

The mixture has 20 centred normals, σ(x) = Σ_j w_j Φ(x/s_j). If K has Kolmogorov's law and Z is
normal, 2KZ is logistic (Andrews & Mallows, 1974; Stefanski, 1991), so that σ(x) = ∫ p(κ) Φ(x/2κ)
dκ. A Gauss rule for p in the variable log κ (Lanczos on a fine grid; Golub & Welsch, 1969) makes
the integral a sum. The relative error of tanh(x/2) = Σ_j w_j erf(x/(s_j √2)) is at most 3e-13 for
all x.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from limitlaw.numerics import Reals
from limitlaw.phi.branches import line, one_minimum
from limitlaw.phi.catalogue import add
from limitlaw.phi.nonlinearity import Nonlinearity
from limitlaw.phi.step_and_ramp import (
    abs_mean,
    abs_product,
    sign_mean,
    sign_product,
    smooth_ramp_mean,
    smooth_ramp_product,
    zero_mean,
)

TERMS = 20
ACCURACY = 3e-13  # relative error of tanh(x/2)


def kolmogorov_density(kappa: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """p(κ) = 8κ Σ_j (−1)^{j+1} j² e^{−2j²κ²}; for small κ the same by Jacobi's identity.

    There P(K ≤ κ) = (√2π/κ) Σ_j e^{−c_j/κ²}, c_j = (2j − 1)²π²/8.
    """
    j = np.arange(1, 30)[:, None]
    large = 8 * kappa * np.sum((-1.0) ** (j + 1) * j**2 * np.exp(-2 * (j * kappa) ** 2), axis=0)
    c = (2 * j - 1) ** 2 * np.pi**2 / 8
    terms = np.exp(-c / kappa**2) * (2 * c / kappa**4 - 1 / kappa**2)
    small = np.sqrt(2 * np.pi) * np.sum(terms, axis=0)
    return np.where(kappa < 0.8, small, large)


def gauss_rule(
    x: Float[np.ndarray, "n"], w: Float[np.ndarray, "n"], terms: int
) -> tuple[Float[np.ndarray, "terms"], Float[np.ndarray, "terms"]]:
    """Nodes and weights of the Gauss rule of Σ_i w_i δ(x_i), of total weight 1."""
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
    """(w_j, s_j²): the trapezoidal rule in log κ, which converges fast, as a Gauss rule."""
    t = np.linspace(np.log(0.15), np.log(5.0), 400)
    kappa = np.exp(t)
    nodes, w = gauss_rule(t, kolmogorov_density(kappa) * kappa, TERMS)
    return w, 4 * np.exp(2 * nodes)


LOGISTIC_WEIGHTS, LOGISTIC_VARIANCES = _mixture()


def logistic_mean(f: Callable[..., Reals], m: Reals, k: Reals) -> Reals:
    """Σ_j w_j f(m, k, s_j²)."""
    axes = (slice(None),) + (None,) * max(jnp.ndim(m), jnp.ndim(k))
    return jnp.sum(LOGISTIC_WEIGHTS[axes] * f(m, k, LOGISTIC_VARIANCES[axes]), axis=0)


def logistic_product(f: Callable[..., Reals], K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j f(K_uu, K_uv, K_vv, s_i², s_j²), in a loop over i."""
    shape = jnp.broadcast_shapes(K_uu.shape, K_uv.shape, K_vv.shape)
    axes = (slice(None),) + (None,) * len(shape)
    w, t2 = LOGISTIC_WEIGHTS[axes], LOGISTIC_VARIANCES[axes]

    def term(total: Reals, i: tuple[Reals, Reals]) -> tuple[Reals, None]:
        w_i, s2 = i
        return total + w_i * jnp.sum(w * f(K_uu, K_uv, K_vv, s2, t2), axis=0), None

    return jax.lax.scan(
        term, jnp.zeros(shape), (jnp.asarray(LOGISTIC_WEIGHTS), jnp.asarray(LOGISTIC_VARIANCES))
    )[0]


def _tanh_mean(m: Reals, k: Reals) -> Reals:
    """E tanh(u) = Σ_j w_j erf(2m/√(2(4k + s_j²)))."""
    return logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), 2 * m, 4 * k)


def _tanh_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E tanh(u) tanh(v) = Σ_ij w_i w_j (2/π) arcsin(4K_uv/√((4K_uu + s_i²)(4K_vv + s_j²)))."""
    return logistic_product(sign_product, 4 * K_uu, 4 * K_uv, 4 * K_vv)


def _tanh_log_slope(x: Reals) -> Reals:
    """log φ' = log (1 − tanh²) = 2 log 2 − 2|x| − 2 log(1 + e^{−2|x|})."""
    a = jnp.abs(x)
    return 2 * (math.log(2) - a - jnp.log1p(jnp.exp(-2 * a)))


tanh = add(
    Nonlinearity(
        "tanh",
        jnp.tanh,
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(),
        mean=_tanh_mean,
        product=zero_mean(_tanh_product),
        accuracy=ACCURACY,
        branches=line(-1.0, 1.0, jnp.arctanh),
        log_slope=_tanh_log_slope,
    ),
    *(jnp.tanh, jax.lax.tanh, np.tanh),
)


def _sigmoid_mean(m: Reals, k: Reals) -> Reals:
    """E sigmoid(u) = ½ + ½ E tanh(u/2)."""
    return 0.5 + 0.5 * logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), m, k)


def _sigmoid_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E sigmoid(u) sigmoid(v) = ¼ + ¼ E tanh(u/2) tanh(v/2), for zero means."""
    return 0.25 + 0.25 * logistic_product(sign_product, K_uu, K_uv, K_vv)


def _sigmoid_log_slope(x: Reals) -> Reals:
    """log φ' = log σ(x)σ(−x)."""
    return jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)


def _logit(y: Reals) -> Reals:
    """The inverse of the sigmoid."""
    return jnp.log(y) - jnp.log1p(-y)


sigmoid = add(
    Nonlinearity(
        "sigmoid",
        jax.nn.sigmoid,
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(),
        mean=_sigmoid_mean,
        product=zero_mean(_sigmoid_product),
        accuracy=ACCURACY,
        branches=line(0.0, 1.0, _logit),
        log_slope=_sigmoid_log_slope,
    ),
    *(jax.nn.sigmoid, jax.lax.logistic, jax.scipy.special.expit),
)


def _silu(x: Reals) -> Reals:
    return x * jax.nn.sigmoid(x)


def _silu_mean(m: Reals, k: Reals) -> Reals:
    """E silu(u) = Σ_j w_j E u Φ(u/s_j)."""
    return logistic_mean(smooth_ramp_mean, m, k)


def _silu_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E silu(u) silu(v) = Σ_ij w_i w_j E u Φ(u/s_i) v Φ(v/s_j)."""
    return logistic_product(smooth_ramp_product, K_uu, K_uv, K_vv)


def _silu_log_slope(x: Reals) -> Reals:
    """log |φ'|, φ' = σ(x)(1 + x σ(−x))."""
    return jax.nn.log_sigmoid(x) + jnp.log(jnp.abs(1 + x * jax.nn.sigmoid(-x)))


silu = add(
    Nonlinearity(
        "silu",
        _silu,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(),
        mean=_silu_mean,
        product=zero_mean(_silu_product),
        accuracy=ACCURACY,
        branches=one_minimum(_silu),
        log_slope=_silu_log_slope,
    ),
    *(jax.nn.silu, jax.nn.swish),
)


def _softplus_mean(m: Reals, k: Reals) -> Reals:
    """E softplus(u) = Σ_j w_j E max(u + s_j Z, 0)."""
    return 0.5 * (m + logistic_mean(lambda m, k, s2: abs_mean(m, k + s2), m, k))


def _softplus_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E softplus(u) softplus(v) = Σ_ij w_i w_j E max(u + s_i Z, 0) max(v + s_j Z', 0)."""
    return 0.25 * (K_uv + logistic_product(abs_product, K_uu, K_uv, K_vv))


def _softplus_inverse(y: Reals) -> Reals:
    """The inverse of softplus, log(e^y − 1)."""
    return y + jnp.log(-jnp.expm1(-y))


softplus = add(
    Nonlinearity(
        "softplus",
        jax.nn.softplus,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(),
        mean=_softplus_mean,
        product=zero_mean(_softplus_product),
        accuracy=ACCURACY,
        branches=line(0.0, math.inf, _softplus_inverse),
        log_slope=jax.nn.log_sigmoid,
    ),
    jax.nn.softplus,
)
