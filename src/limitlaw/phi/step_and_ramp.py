"""Gaussian moments of the step and of the ramp, which make most others, with derivatives by
formula: exact and finite at zero variance and correlation ±1.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from limitlaw.numerics import Floats, Reals
from limitlaw.numerics.gaussian_quadrature import TINIEST
from limitlaw.phi.nonlinearity import Centre, PairMoment

Noise = Floats | float  # a variance that is added to K_uu or K_vv
Two = tuple[Reals, Reals]
Three = tuple[Reals, Reals, Reals]
Noisy = tuple[Reals, Reals, Reals, Noise, Noise]


@jax.custom_jvp
def density(m: Reals, k: Reals) -> Reals:
    """The density of N(m, k) at 0, e^{−m²/2k}/√(2πk)."""
    k = jnp.maximum(k, TINIEST)
    sigma = jnp.sqrt(k)
    return jnp.exp(-0.5 * (m / sigma) ** 2) / (math.sqrt(2 * math.pi) * sigma)


@density.defjvp
def _density_jvp(primals: Two, tangents: Two) -> Two:
    """∂D/∂m = −(m/k) D and, by the heat equation, ∂D/∂k = ½ ∂²D/∂m² = ½ (m²/k² − 1/k) D."""
    (m, k), (dm, dk) = primals, tangents
    D = density(m, k)
    k = jnp.maximum(k, TINIEST)
    first = jnp.where(D > 0, -m / k * D, 0.0)
    second = jnp.where(D > 0, (m * (m / k) - 1) * D / k, 0.0)
    return D, first * dm + 0.5 * second * dk


@jax.custom_jvp
def sign_mean(m: Reals, k: Reals) -> Reals:
    """E sign(u) = erf(m/√(2k)), u ~ N(m, k)."""
    return jax.scipy.special.erf(m / jnp.sqrt(2 * jnp.maximum(k, TINIEST)))


@sign_mean.defjvp
def _sign_mean_jvp(primals: Two, tangents: Two) -> Two:
    """∂/∂m = 2D and ∂/∂k = −(m/k) D."""
    (m, k), (dm, dk) = primals, tangents
    D = density(m, k)
    k = jnp.maximum(k, TINIEST)
    return sign_mean(*primals), 2 * D * dm + jnp.where(D > 0, -m / k * D, 0.0) * dk


@jax.custom_jvp
def abs_mean(m: Reals, k: Reals) -> Reals:
    """E|u| = m erf(m/√(2k)) + 2k D(m, k), u ~ N(m, k)."""
    return m * sign_mean(m, k) + 2 * k * density(m, k)


@abs_mean.defjvp
def _abs_mean_jvp(primals: Two, tangents: Two) -> Two:
    """∂/∂m = E sign(u) and ∂/∂k = ½ E 2δ(u) = D."""
    (m, k), (dm, dk) = primals, tangents
    return abs_mean(m, k), sign_mean(m, k) * dm + density(m, k) * dk


@jax.custom_jvp
def ramp_mean(m: Reals, k: Reals) -> Reals:
    """E max(u, 0) = m Φ(m/√k) + k D(m, k), u ~ N(m, k), without cancelling for m far below 0."""
    above = 0.5 * jax.scipy.special.erfc(-m / jnp.sqrt(2 * jnp.maximum(k, TINIEST)))
    return m * above + k * density(m, k)


@ramp_mean.defjvp
def _ramp_mean_jvp(primals: Two, tangents: Two) -> Two:
    """∂/∂m = P(u > 0) and ∂/∂k = ½ D."""
    (m, k), (dm, dk) = primals, tangents
    return ramp_mean(m, k), 0.5 * (1 + sign_mean(m, k)) * dm + 0.5 * density(m, k) * dk


@jax.custom_jvp
def spread(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """K_uu K_vv − K_uv², exactly 0 where K_uu = |K_uv| = K_vv, never negative.

    The root of a rounded square is exact: no fused multiplication leaves a remainder on the
    diagonal.
    """
    g = jnp.sqrt(K_uu * K_vv)
    return jnp.maximum(g - K_uv, 0.0) * jnp.maximum(g + K_uv, 0.0)


@spread.defjvp
def _spread_jvp(primals: Three, tangents: Three) -> Two:
    """The derivative of the formula, also where the value is cut off."""
    (K_uu, K_uv, K_vv), (dK_uu, dK_uv, dK_vv) = primals, tangents
    return spread(*primals), K_vv * dK_uu + K_uu * dK_vv - 2 * K_uv * dK_uv


def determinant(K_uu: Reals, K_uv: Reals, K_vv: Reals, s2: Noise = 0.0, t2: Noise = 0.0) -> Reals:
    """(K_uu + s²)(K_vv + t²) − K_uv² for a semi-definite K, never below `TINIEST`."""
    return jnp.maximum(spread(K_uu, K_uv, K_vv) + (s2 * K_vv + t2 * (K_uu + s2)), TINIEST)


def _arcsin(K_uv: Reals, det: Reals) -> Reals:
    """arcsin ρ = arctan(K_uv/√det), which keeps its digits for all ρ; written in one way, so that
    it is computed once.
    """
    return jnp.arctan(K_uv * jax.lax.rsqrt(det))


@jax.custom_jvp
def sign_product(K_uu: Reals, K_uv: Reals, K_vv: Reals, s2: Noise = 0.0, t2: Noise = 0.0) -> Reals:
    """E sign(p) sign(q) = (2/π) arcsin ρ, p and q being u and v with noise of variances s² and t²
    (not differentiated in).
    """
    return (2 / math.pi) * _arcsin(K_uv, determinant(K_uu, K_uv, K_vv, s2, t2))


@sign_product.defjvp
def _sign_product_jvp(primals: Noisy, tangents: Noisy) -> Two:
    """∂/∂K_uv = 4 times (p, q)'s density at 0 = 2/(π√det); ∂/∂K_uu = −½ (K_uv/K_pp) ∂/∂K_uv."""
    K_uu, K_uv, K_vv, s2, t2 = primals
    slope = 2 / (math.pi * jnp.sqrt(determinant(*primals)))
    half = 0.5 * K_uv
    change_u = half / jnp.maximum(K_uu + s2, TINIEST) * tangents[0]
    change_v = half / jnp.maximum(K_vv + t2, TINIEST) * tangents[2]
    return sign_product(*primals), slope * (tangents[1] - (change_u + change_v))


@jax.custom_jvp
def abs_product(K_uu: Reals, K_uv: Reals, K_vv: Reals, s2: Noise = 0.0, t2: Noise = 0.0) -> Reals:
    """E|p||q| = (2/π)(√det + K_uv arcsin ρ) (Cho & Saul 2009), noise as in `sign_product`."""
    det = determinant(K_uu, K_uv, K_vv, s2, t2)
    return (2 / math.pi) * (jnp.sqrt(det) + K_uv * _arcsin(K_uv, det))


@abs_product.defjvp
def _abs_product_jvp(primals: Noisy, tangents: Noisy) -> Two:
    """∂/∂K_uv = E sign(p) sign(q) and ∂/∂K_uu = E δ(p)|q| = √det/(π K_pp)."""
    K_uu, _, K_vv, s2, t2 = primals
    root = jnp.sqrt(determinant(*primals)) / math.pi
    change_u = root / jnp.maximum(K_uu + s2, TINIEST) * tangents[0]
    change_v = root / jnp.maximum(K_vv + t2, TINIEST) * tangents[2]
    return abs_product(*primals), sign_product(*primals) * tangents[1] + (change_u + change_v)


def smooth_ramp_mean(m: Reals, k: Reals, s2: Noise) -> Reals:
    """E u Φ(u/s) = m Φ(m/√(k + s²)) + k D(m, k + s²), by Stein's lemma."""
    return 0.5 * m * (1 + sign_mean(m, k + s2)) + k * density(m, k + s2)


def smooth_ramp_product(K_uu: Reals, K_uv: Reals, K_vv: Reals, s2: Noise, t2: Noise) -> Reals:
    """E u Φ(u/s) v Φ(v/t), by Stein's lemma in u and then in v (Tsuchida et al., 2021, for s = t =
    1).

    With p = u + s Z, q = v + t Z', Θ = P(p > 0, q > 0) and d = 1/(2π√det) the density of (p, q) at
    0, it is K_uv Θ + d (K_uu K_vv + K_uv² − K_uv² K_uu/K_pp − K_uv² K_vv/K_qq); the bracket is
    written without cancellation.
    """
    theta = 0.25 * (1 + sign_product(K_uu, K_uv, K_vv, s2, t2))
    d = 0.5 / (jnp.pi * jnp.sqrt(determinant(K_uu, K_uv, K_vv, s2, t2)))
    rest = spread(K_uu, K_uv, K_vv) + K_uu * t2
    return K_uv * theta + d * (K_uv * K_uv * s2 / (K_uu + s2) + K_vv * rest / (K_vv + t2))


def zero_mean(product: Callable[..., Reals]) -> PairMoment:
    """The field `Nonlinearity.product` from a closed form for zero means."""

    def closed(m_u: Centre, m_v: Centre, *K: Reals) -> Reals | None:
        return product(*K) if m_u is None and m_v is None else None

    return closed


def leaky_mean(slope: float) -> Callable[[Reals, Reals], Reals]:
    """E φ(u) for φ(x) = ½(1 + slope) x + ½(1 − slope) |x|; relu has slope 0."""
    a, b = 0.5 * (1 + slope), 0.5 * (1 - slope)
    return lambda m, k: a * m + b * abs_mean(m, k)


def leaky_product(slope: float) -> PairMoment:
    """E φ(u)φ(v) = (½(1 + slope))² K_uv + (½(1 − slope))² E|u||v|, for zero means."""
    a, b = (0.5 * (1 + slope)) ** 2, (0.5 * (1 - slope)) ** 2
    return zero_mean(lambda *K: a * K[1] + b * abs_product(*K))
