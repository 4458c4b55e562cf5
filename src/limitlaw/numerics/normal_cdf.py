"""The distribution function of N(0, 1) and its inverse."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import is_traced

# erfcx(z)/t = 1 + (u − 1) Σ_j c_j u^j with t = 2/(2 + z), u = 2t − 1, z ≥ 0: fitted to
# scipy.special.erfcx.
ERFCX = (
    *(
        0.4892086473789877,
        0.14562830517207362,
        0.005892258894191883,
        -0.012328856858206316,
        -0.0015735259200503051,
    ),
    *(
        0.001666066581585568,
        0.00012076067223174694,
        -0.00029788691607140344,
        3.364869247810228e-05,
    ),
    *(
        5.083112418528844e-05,
        -2.139780171154822e-05,
        -4.308727779812249e-06,
        6.516226668992865e-06,
    ),
    *(
        -1.5855514454021914e-06,
        -9.674964490872238e-07,
        9.303074009670629e-07,
        -1.6029454567429658e-07,
    ),
    *(
        -2.494646610559247e-07,
        1.3529435941344597e-07,
        3.929215591531864e-08,
        -3.2629772011936026e-08,
    ),
    *(-3.4686907440218997e-09, 2.5872183876286698e-09),
)


def ndtri(q: Any) -> Any:
    """The quantile of N(0, 1): SciPy's on the host,
    JAX's where q is traced, which takes seconds to compile.
    """
    if is_traced(q):
        return jax.scipy.special.ndtri(q)
    from scipy.special import ndtri as on_host

    return jnp.asarray(on_host(np.asarray(q)))


def _scaled(a: Any) -> Any:
    """Φ(−a) e^{a²/2} = erfcx(a/√2)/2 for a ≥ 0."""
    t = 2 / (2 + a * math.sqrt(0.5))
    u = 2 * t - 1
    series = jnp.full_like(u, ERFCX[-1])
    for c in ERFCX[-2::-1]:
        series = series * u + c
    return 0.5 * t * (1 + (u - 1) * series)


@jax.custom_jvp
def ndtr(z: Any) -> Any:
    """Φ(z), to 1e-14 in relative terms (2e-13 at z = −37);
    on a CPU some ten times as fast as jax.scipy's.
    """
    a = jnp.abs(z)
    tail = _scaled(a) * jnp.exp(-0.5 * a * a)
    return jnp.where(z > 0, 1 - tail, tail)


@ndtr.defjvp
def _derivative(primals: Any, tangents: Any) -> Any:
    """Φ' = n, the density."""
    (z,), (dz,) = primals, tangents
    return ndtr(z), jnp.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * dz


@jax.custom_jvp
def log_ndtr(z: Any) -> Any:
    """log Φ(z) to 1e-14 in relative terms, at any depth:
    Φ(−10⁴) underflows, its logarithm −5·10⁷ does not.
    """
    a = jnp.abs(z)
    scaled = _scaled(a)
    return jnp.where(
        z > 0, jnp.log1p(-scaled * jnp.exp(-0.5 * a * a)), jnp.log(scaled) - 0.5 * a * a
    )


@log_ndtr.defjvp
def _log_derivative(primals: Any, tangents: Any) -> Any:
    """n/Φ, where z < 0 as 1/(√2π e^{z²/2} Φ), in which nothing underflows."""
    (z,), (dz,) = primals, tangents
    below = 1 / _scaled(jnp.where(jnp.isinf(z), 0.0, jnp.abs(z)))
    ratio = jnp.where(z > 0, jnp.exp(-0.5 * z * z) / ndtr(z), below) / math.sqrt(2 * math.pi)
    return log_ndtr(z), jnp.where(jnp.isinf(z), 0.0, ratio) * dz
