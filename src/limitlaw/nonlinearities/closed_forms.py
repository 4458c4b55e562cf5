"""Closed forms of E φ(u) for every mean, and of E φ(u)φ(v) for zero means, of the named nonlinearities.

A smooth nonlinearity is a step or a ramp with noise: erf(x) = E sign(x + Z/√2), and with L logistic, a mixture of
normals s_j Z, sigmoid(x) = P(L < x), tanh(x/2) = E sign(x + L), softplus(x) = E max(x + L, 0).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.nonlinearities.blocks import abs_mean, abs_product, density, determinant, sign_mean, sign_product, spread
from limitlaw.nonlinearities.logistic import VARIANCES, WEIGHTS

Reals = Float[Array, "..."]
Product = Callable[..., Any]


def zero_mean(product: Callable[..., Reals]) -> Product:
    """The field `Nonlinearity.product` from a closed form for zero means."""

    def closed(m_u: Any, m_v: Any, *K: Any) -> Any:
        return product(*K) if m_u is None and m_v is None else None

    return closed


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


def leaky_mean(slope: float) -> Callable[[Reals, Reals], Reals]:
    """φ(x) = ½(1 + slope) x + ½(1 − slope) |x|; relu is slope 0."""
    a, b = 0.5 * (1 + slope), 0.5 * (1 - slope)
    return lambda m, k: a * m + b * abs_mean(m, k)


def leaky_product(slope: float) -> Product:
    """(½(1 + slope))² K_uv + (½(1 − slope))² E|u||v|."""
    a, b = (0.5 * (1 + slope)) ** 2, (0.5 * (1 - slope)) ** 2
    return zero_mean(lambda *K: a * K[1] + b * abs_product(*K))


def clip_mean(bound: float) -> Callable[[Reals, Reals], Reals]:
    """clip(x) = ½|x + C| − ½|x − C|."""
    return lambda m, k: 0.5 * (abs_mean(m + bound, k) - abs_mean(m - bound, k))


def erf_mean(m: Reals, k: Reals) -> Reals:
    """E erf(u) = erf(m/√(1 + 2k))."""
    return sign_mean(m, k + 0.5)


def erf_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """(2/π) arcsin(K_uv/√((K_uu + ½)(K_vv + ½))) (Williams, 1997)."""
    return sign_product(K_uu, K_uv, K_vv, 0.5, 0.5)


def smooth_ramp_mean(m: Reals, k: Reals, s2: Any) -> Reals:
    """E u Φ(u/s) = m Φ(m/√(k + s²)) + k D(m, k + s²), by Stein's lemma."""
    return 0.5 * m * (1 + sign_mean(m, k + s2)) + k * density(m, k + s2)


def smooth_ramp_product(K_uu: Reals, K_uv: Reals, K_vv: Reals, s2: Any, t2: Any) -> Reals:
    """E u Φ(u/s) v Φ(v/t), by Stein's lemma in u and then in v (Tsuchida et al., 2021, for s = t = 1).

    With p = u + s Z, q = v + t Z', Θ = P(p > 0, q > 0) and d = 1/(2π√det) the density of (p, q) at 0, it is
    K_uv Θ + d (K_uu K_vv + K_uv² − K_uv² K_uu/K_pp − K_uv² K_vv/K_qq); the bracket is written without cancellation.
    """
    theta = 0.25 * (1 + sign_product(K_uu, K_uv, K_vv, s2, t2))
    d = 0.5 / (jnp.pi * jnp.sqrt(determinant(K_uu, K_uv, K_vv, s2, t2)))
    rest = spread(K_uu, K_uv, K_vv) + K_uu * t2
    return K_uv * theta + d * (K_uv * K_uv * s2 / (K_uu + s2) + K_vv * rest / (K_vv + t2))


def gelu_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E u Φ(u) v Φ(v)."""
    return smooth_ramp_product(K_uu, K_uv, K_vv, 1.0, 1.0)


def tanh_mean(m: Reals, k: Reals) -> Reals:
    """Σ_j w_j erf(2m/√(2(4k + s_j²)))."""
    return logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), 2 * m, 4 * k)


def tanh_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j (2/π) arcsin(4K_uv/√((4K_uu + s_i²)(4K_vv + s_j²)))."""
    return logistic_product(sign_product, 4 * K_uu, 4 * K_uv, 4 * K_vv)


def sigmoid_mean(m: Reals, k: Reals) -> Reals:
    """sigmoid(x) = ½ + ½ tanh(x/2)."""
    return 0.5 + 0.5 * logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), m, k)


def sigmoid_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """¼ + ¼ E tanh(u/2) tanh(v/2)."""
    return 0.25 + 0.25 * logistic_product(sign_product, K_uu, K_uv, K_vv)


def softplus_mean(m: Reals, k: Reals) -> Reals:
    """Σ_j w_j E max(u + s_j Z, 0)."""
    return 0.5 * (m + logistic_mean(lambda m, k, s2: abs_mean(m, k + s2), m, k))


def softplus_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j E max(u + s_i Z, 0) max(v + s_j Z', 0)."""
    return 0.25 * (K_uv + logistic_product(abs_product, K_uu, K_uv, K_vv))


def silu_mean(m: Reals, k: Reals) -> Reals:
    """Σ_j w_j E u Φ(u/s_j)."""
    return logistic_mean(smooth_ramp_mean, m, k)


def silu_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j E u Φ(u/s_i) v Φ(v/s_j)."""
    return logistic_product(smooth_ramp_product, K_uu, K_uv, K_vv)


def sin_sin(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E sin u sin v = e^{−(K_uu + K_vv)/2} sinh K_uv, zero means, without overflow."""
    c = jnp.where(K_uv >= 0, K_uv, -K_uv)
    value = -0.5 * jnp.exp(c - 0.5 * (K_uu + K_vv)) * jnp.expm1(-2 * c)
    return jnp.where(K_uv >= 0, value, -value)


def cos_cos(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E cos u cos v = e^{−(K_uu + K_vv)/2} cosh K_uv, zero means, without overflow."""
    a = 0.5 * (K_uu + K_vv)
    return 0.5 * (jnp.exp(K_uv - a) + jnp.exp(-K_uv - a))


def sin_product(m_u: Any, m_v: Any, *K: Any) -> Reals:
    """E sin(m_u + u) sin(m_v + v) by the addition theorem."""
    S = sin_sin(*K)
    if m_u is None and m_v is None:
        return S
    m_u, m_v = 0.0 if m_u is None else m_u, 0.0 if m_v is None else m_v
    return jnp.cos(m_u) * jnp.cos(m_v) * S + jnp.sin(m_u) * jnp.sin(m_v) * cos_cos(*K)


def cos_product(m_u: Any, m_v: Any, *K: Any) -> Reals:
    """E cos(m_u + u) cos(m_v + v) by the addition theorem."""
    C = cos_cos(*K)
    if m_u is None and m_v is None:
        return C
    m_u, m_v = 0.0 if m_u is None else m_u, 0.0 if m_v is None else m_v
    return jnp.cos(m_u) * jnp.cos(m_v) * C + jnp.sin(m_u) * jnp.sin(m_v) * sin_sin(*K)
