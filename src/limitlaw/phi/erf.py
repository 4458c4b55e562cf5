"""The error function and GELU: a noisy step and ramp, erf(x) = E sign(x + Z/√2)."""

import math

import jax
import jax.numpy as jnp

from limitlaw.numerics import Reals
from limitlaw.numerics.special_functions import ndtr
from limitlaw.phi.branches import line, one_minimum
from limitlaw.phi.catalogue import add
from limitlaw.phi.nonlinearity import Nonlinearity
from limitlaw.phi.step_and_ramp import (
    sign_mean,
    sign_product,
    smooth_ramp_mean,
    smooth_ramp_product,
    zero_mean,
)


def _erf_mean(m: Reals, k: Reals) -> Reals:
    """E erf(u) = erf(m/√(1 + 2k))."""
    return sign_mean(m, k + 0.5)


def _erf_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E erf(u) erf(v) = (2/π) arcsin(K_uv/√((K_uu + ½)(K_vv + ½))) (Williams, 1997)."""
    return sign_product(K_uu, K_uv, K_vv, 0.5, 0.5)


def _erf_log_slope(x: Reals) -> Reals:
    """log φ' = log (2/√π) − x²."""
    return math.log(2 / math.sqrt(math.pi)) - x**2


erf = add(
    Nonlinearity(
        "erf",
        jax.scipy.special.erf,
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(),
        accuracy=0.0,
        mean=_erf_mean,
        product=zero_mean(_erf_product),
        branches=line(-1.0, 1.0, jax.scipy.special.erfinv),
        log_slope=_erf_log_slope,
    ),
    *(jax.scipy.special.erf, jax.lax.erf),
)


def _gelu(x: Reals) -> Reals:
    """GELU(x) = x Φ(x), the exact form."""
    return x * ndtr(x)


def _gelu_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E u Φ(u) v Φ(v), for zero means."""
    return smooth_ramp_product(K_uu, K_uv, K_vv, 1.0, 1.0)


def _gelu_log_slope(x: Reals) -> Reals:
    """log |φ'|, φ' = Φ(x) + x n(x), n the normal density.

    Left of 0, where Φ underflows, it is n (x + Φ/n) with Mills' ratio Φ/n.
    """
    log_n = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
    left = jnp.minimum(x, 0)
    mills = jnp.exp(jax.scipy.special.log_ndtr(left) + 0.5 * left**2 + 0.5 * math.log(2 * math.pi))
    right = jax.scipy.special.ndtr(x) + x * jnp.exp(log_n)
    below, above = log_n + jnp.log(jnp.abs(x + mills)), jnp.log(jnp.where(x < 0, 1, right))
    return jnp.where(x < 0, below, above)


gelu = add(  # jax.nn.gelu is not this function: by default it is an approximation
    Nonlinearity(
        "gelu",
        _gelu,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(),
        accuracy=0.0,
        mean=lambda m, k: smooth_ramp_mean(m, k, 1.0),
        product=zero_mean(_gelu_product),
        branches=one_minimum(_gelu),
        log_slope=_gelu_log_slope,
    )
)
