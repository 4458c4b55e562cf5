"""Figures of one Gaussian component, written for one component and one point.

A component of one number is (mean, sd), sd = 0 for a point mass; of a joint law (mean, covariance), flattened.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import is_traced

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

# erfcx(z)/t = 1 + (u − 1) Σ_j c_j u^j with t = 2/(2 + z), u = 2t − 1, z ≥ 0: fitted to scipy.special.erfcx.
ERFCX = (
    *(0.4892086473789877, 0.14562830517207362, 0.005892258894191883, -0.012328856858206316, -0.0015735259200503051),
    *(0.001666066581585568, 0.00012076067223174694, -0.00029788691607140344, 3.364869247810228e-05),
    *(5.083112418528844e-05, -2.139780171154822e-05, -4.308727779812249e-06, 6.516226668992865e-06),
    *(-1.5855514454021914e-06, -9.674964490872238e-07, 9.303074009670629e-07, -1.6029454567429658e-07),
    *(-2.494646610559247e-07, 1.3529435941344597e-07, 3.929215591531864e-08, -3.2629772011936026e-08),
    *(-3.4686907440218997e-09, 2.5872183876286698e-09),
)


def ndtri(q: Any) -> Any:
    """The quantile of N(0, 1): SciPy's on the host, JAX's where q is traced, which takes seconds to compile."""
    if is_traced(q):
        return jax.scipy.special.ndtri(q)
    from scipy.special import ndtri as on_host

    return jnp.asarray(on_host(np.asarray(q)))


def ndtr(z: Any) -> Any:
    """Φ(z), to 1e-14 in relative terms (2e-13 at z = −37); on a CPU some ten times as fast as jax.scipy's."""
    a = jnp.abs(z)
    t = 2 / (2 + a * math.sqrt(0.5))
    u = 2 * t - 1
    series = jnp.full_like(u, ERFCX[-1])
    for c in ERFCX[-2::-1]:
        series = series * u + c
    tail = 0.5 * t * (1 + (u - 1) * series) * jnp.exp(-0.5 * a * a)
    return jnp.where(z > 0, 1 - tail, tail)


def standardised(component: Any, x: Any) -> Any:
    """(x − mean)/sd, infinite off a point mass."""
    mean, sd = component[:2]
    point = jnp.where(x >= mean, jnp.inf, -jnp.inf)
    return jnp.where(sd > 0, (x - mean) / jnp.where(sd > 0, sd, 1), point)


def pdf(component: Any, x: Any) -> Any:
    """Density of N(mean, sd²)."""
    mean, sd = component[:2]
    z = (x - mean) / sd
    return jnp.exp(-0.5 * z * z) * (math.exp(-LOG_ROOT_TWO_PI) / sd)


def continuous_pdf(component: Any, x: Any) -> Any:
    """The same, and 0 for a point mass."""
    mean, sd = component[:2]
    return jnp.where(sd > 0, pdf((mean, jnp.where(sd > 0, sd, 1)), x), 0)


def logpdf(component: Any, x: Any) -> Any:
    """Log density of N(mean, sd²)."""
    mean, sd = component[:2]
    z = (x - mean) / sd
    return -0.5 * z * z - jnp.log(sd) - LOG_ROOT_TWO_PI


def cdf(component: Any, x: Any) -> Any:
    """P(Y ≤ x)."""
    return ndtr(standardised(component, x))


def sf(component: Any, x: Any) -> Any:
    """P(Y > x)."""
    return ndtr(-standardised(component, x))


def tail(component: Any, point: Any) -> Any:
    """P(Y ≤ x) where the side is 1, P(Y > x) where it is −1."""
    x, side = point
    return ndtr(side * standardised(component, x))


def between(component: Any, ends: Any) -> Any:
    """P(lo < Y ≤ hi), 0 where hi ≤ lo, taken on the side where the tails are small."""
    lo, hi = (standardised(component, end) for end in ends)
    mirrored = lo > 0
    lo, hi = jnp.where(mirrored, -hi, lo), jnp.where(mirrored, -lo, hi)
    return jnp.where(lo < hi, ndtr(hi) - ndtr(lo), 0)


def cf(component: Any, t: Any) -> Any:
    """E exp(i t Y)."""
    mean, sd = component[:2]
    return jnp.exp(1j * t * mean - 0.5 * (t * sd) ** 2)


def joint_cf(component: Any, t: Any) -> Any:
    """E exp(i t·Y)."""
    mean, covariance = component
    t = t.reshape(-1)
    return jnp.exp(1j * (t @ mean) - 0.5 * (t @ covariance @ t))


def joint_logpdf(component: Any, x: Any) -> Any:
    """Log density of a joint Gaussian given as (mean, L⁻¹, log det L), L the Cholesky factor."""
    mean, whiten, logdet = component
    z = whiten @ (x.reshape(-1) - mean)
    return -0.5 * jnp.sum(z * z) - logdet - LOG_ROOT_TWO_PI * mean.shape[0]


def central(component: Any, centre: Any) -> Any:
    """E (Y − c)^j for j = 1 … 4."""
    mean, sd = component[:2]
    d, v = mean - centre, sd**2
    return jnp.stack([d, d**2 + v, d**3 + 3 * d * v, d**4 + 6 * d**2 * v + 3 * v**2])


def joint_central(component: Any, centre: Any) -> Any:
    """The same for each entry of a joint Gaussian."""
    mean, covariance = component
    moments = central((mean, jnp.sqrt(jnp.diagonal(covariance))), centre.reshape(-1))
    return moments.reshape(4, *centre.shape)


def outer(component: Any, centre: Any) -> Any:
    """E (Y − c)²."""
    return central(component, centre)[1]


def joint_outer(component: Any, centre: Any) -> Any:
    """E (Y − c)(Y − c)ᵀ."""
    mean, covariance = component
    d = mean - centre.reshape(-1)
    return covariance + jnp.outer(d, d)


@dataclasses.dataclass(frozen=True)
class Raw:
    """E (Y/s)^k = M_k, entry by entry: M_{j+1} = m M_j + j v M_{j−1} for the mean m and the variance v of Y/s."""

    k: int
    joint: bool

    def __call__(self, component: Any, s: Any) -> Any:
        mean, spread = component[:2]
        m = mean / s
        v = jnp.diagonal(spread) / s / s if self.joint else (spread / s) ** 2
        step = lambda j, M: (M[1], m * M[1] + j * v * M[0])  # noqa: E731
        return jax.lax.fori_loop(1, self.k, step, (jnp.ones_like(m), m))[1] if self.k else jnp.ones_like(m)


def factor(covariance: Float[Array, "... m m"]) -> Float[Array, "... m m"]:
    """F with F Fᵀ = covariance, singular or not."""
    values, vectors = jnp.linalg.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0))[..., None, :]


def whitening(covariance: Float[Array, "N m m"]) -> tuple[Array, Array, np.ndarray]:
    """L⁻¹ and log det L for each Cholesky factor L, and which covariances are singular to rounding."""
    m = covariance.shape[-1]
    sd = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
    scale = jnp.where(sd > 0, sd, 1)
    L = jnp.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None, :]))
    pivots = jnp.diagonal(L, axis1=-2, axis2=-1)  # squares: the part of each entry that earlier ones do not explain
    singular = ~(jnp.min(pivots, axis=-1, initial=1.0) ** 2 > 1e-13 * m)  # NaN counts as singular
    inverse = jax.scipy.linalg.solve_triangular(L, jnp.broadcast_to(jnp.eye(m), L.shape), lower=True)
    logdet = jnp.sum(jnp.log(pivots) + jnp.log(scale), axis=-1)
    return inverse / scale[:, None, :], logdet, np.asarray(singular)
