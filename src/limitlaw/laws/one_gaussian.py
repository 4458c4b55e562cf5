"""Quantities of one Gaussian component at one point: (mean, sd) of a number, sd = 0 for a point
mass; (mean, covariance), flattened, of a joint law.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from limitlaw.numerics.special_functions import log_ndtr, ndtr

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

OneGaussian = tuple[Float[Array, "..."], ...]


def standardised(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """(x − mean)/sd, infinite off a point mass."""
    mean, sd = component[:2]
    point = jnp.where(x >= mean, jnp.inf, -jnp.inf)
    return jnp.where(sd > 0, (x - mean) / jnp.where(sd > 0, sd, 1), point)


def pdf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The density of N(mean, sd²); 0 for a point mass, which has no part with a density."""
    mean, sd = component[:2]
    safe = jnp.where(sd > 0, sd, 1)
    z = (x - mean) / safe
    return jnp.where(sd > 0, jnp.exp(-0.5 * z * z) * (math.exp(-LOG_ROOT_TWO_PI) / safe), 0)


def logpdf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The log density of N(mean, sd²); −∞ for a point mass, which has no part with a density."""
    mean, sd = component[:2]
    safe = jnp.where(sd > 0, sd, 1)
    z = (x - mean) / safe
    return jnp.where(sd > 0, -0.5 * z * z - jnp.log(safe) - LOG_ROOT_TWO_PI, -jnp.inf)


def cdf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The distribution function P(Y ≤ x)."""
    return ndtr(standardised(component, x))


def sf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The survival function P(Y > x)."""
    return ndtr(-standardised(component, x))


def tail(component: OneGaussian, point: tuple[Array, Array]) -> Float[Array, "..."]:
    """P(Y ≤ x) where the side is 1, P(Y > x) where it is −1."""
    x, side = point
    return ndtr(side * standardised(component, x))


def logcdf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithm of P(Y ≤ x)."""
    return log_ndtr(standardised(component, x))


def logsf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithm of P(Y > x)."""
    return log_ndtr(-standardised(component, x))


def _on_the_left(component: OneGaussian, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """The standardised ends of an interval, mirrored to where both have small tails."""
    lo, hi = (standardised(component, end) for end in ends)
    mirrored = lo > 0
    return jnp.where(mirrored, -hi, lo), jnp.where(mirrored, -lo, hi)


def between(component: OneGaussian, ends: tuple[Array, Array]) -> Float[Array, "..."]:
    """P(lo < Y ≤ hi), 0 where hi ≤ lo, taken on the side where the tails are small."""
    lo, hi = _on_the_left(component, ends)
    return jnp.where(lo < hi, ndtr(hi) - ndtr(lo), 0)


def log_between(component: OneGaussian, ends: tuple[Array, Array]) -> Float[Array, "..."]:
    """log P(lo < Y ≤ hi) = log Φ(hi) + log(1 − Φ(lo)/Φ(hi)); −∞ where hi ≤ lo."""
    lo, hi = _on_the_left(component, ends)
    some = lo < hi
    top = log_ndtr(jnp.where(some, hi, 0.0))
    share = log_ndtr(jnp.where(some, lo, -1.0)) - top
    return jnp.where(some, top + jnp.log(-jnp.expm1(share)), -jnp.inf)


def cf(component: OneGaussian, t: Float[Array, ""]) -> Complex[Array, ""]:
    """The characteristic function E exp(i t Y)."""
    mean, sd = component[:2]
    return jnp.exp(1j * t * mean - 0.5 * (t * sd) ** 2)


def joint_cf(component: OneGaussian, t: Float[Array, "..."]) -> Complex[Array, ""]:
    """The characteristic function E exp(i t·Y) of a joint Gaussian."""
    mean, covariance = component
    t = t.reshape(-1)
    return jnp.exp(1j * (t @ mean) - 0.5 * (t @ covariance @ t))


def joint_logpdf(component: OneGaussian, x: Float[Array, "..."]) -> Float[Array, ""]:
    """The log density of a Gaussian given as (mean, L⁻¹, log det L), L its Cholesky factor."""
    mean, whiten, logdet = component
    z = whiten @ (x.reshape(-1) - mean)
    return -0.5 * jnp.sum(z * z) - logdet - LOG_ROOT_TWO_PI * mean.shape[0]


def central(component: OneGaussian, centre: Float[Array, "..."]) -> Float[Array, "4 ..."]:
    """The moments E (Y − c)^j for j = 1 … 4."""
    mean, sd = component[:2]
    d, v = mean - centre, sd**2
    return jnp.stack([d, d**2 + v, d**3 + 3 * d * v, d**4 + 6 * d**2 * v + 3 * v**2])


def joint_central(component: OneGaussian, centre: Float[Array, "..."]) -> Float[Array, "4 ..."]:
    """The moments E (Y − c)^j, j = 1 … 4, for each entry of a joint Gaussian."""
    mean, covariance = component
    moments = central((mean, jnp.sqrt(jnp.diagonal(covariance))), centre.reshape(-1))
    return moments.reshape(4, *centre.shape)


def joint_outer(component: OneGaussian, centre: Float[Array, "..."]) -> Float[Array, "m m"]:
    """The matrix E (Y − c)(Y − c)ᵀ of a joint Gaussian."""
    mean, covariance = component
    d = mean - centre.reshape(-1)
    return covariance + jnp.outer(d, d)


@dataclasses.dataclass(frozen=True)
class Moment:
    """M_k = E (Y/s)^k by entries: M_{j+1} = m M_j + j v M_{j−1}, m and v those of Y/s."""

    k: int
    joint: bool

    def __call__(self, component: OneGaussian, s: Float[Array, "..."]) -> Float[Array, "..."]:
        mean, spread = component[:2]
        m = mean / s
        v = jnp.diagonal(spread) / s / s if self.joint else (spread / s) ** 2
        step = lambda j, M: (M[1], m * M[1] + j * v * M[0])
        return (
            jax.lax.fori_loop(1, self.k, step, (jnp.ones_like(m), m))[1]
            if self.k
            else jnp.ones_like(m)
        )
