"""The logistic function and its kin: steps and ramps with logistic noise L,
a mixture of normals s_j Z.

sigmoid(x) = P(L < x), tanh(x/2) = E sign(x + L),
softplus(x) = E max(x + L, 0), silu(x) = x P(L < x).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.phi.branches import line, one_minimum
from limitlaw.phi.catalogue import add
from limitlaw.phi.logistic_mixture import ACCURACY, logistic_mean, logistic_product
from limitlaw.phi.nonlinearity import Nonlinearity
from limitlaw.phi.step_and_ramp import (
    Reals,
    abs_mean,
    abs_product,
    sign_mean,
    sign_product,
    smooth_ramp_mean,
    smooth_ramp_product,
    zero_mean,
)


def _tanh_mean(m: Reals, k: Reals) -> Reals:
    """Σ_j w_j erf(2m/√(2(4k + s_j²)))."""
    return logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), 2 * m, 4 * k)


def _tanh_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j (2/π) arcsin(4K_uv/√((4K_uu + s_i²)(4K_vv + s_j²)))."""
    return logistic_product(sign_product, 4 * K_uu, 4 * K_uv, 4 * K_vv)


def _tanh_log_slope(x: Any) -> Any:
    """log (1 − tanh²) = 2 log 2 − 2|x| − 2 log(1 + e^{−2|x|})."""
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
    """sigmoid(x) = ½ + ½ tanh(x/2)."""
    return 0.5 + 0.5 * logistic_mean(lambda m, k, s2: sign_mean(m, k + s2), m, k)


def _sigmoid_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """¼ + ¼ E tanh(u/2) tanh(v/2)."""
    return 0.25 + 0.25 * logistic_product(sign_product, K_uu, K_uv, K_vv)


def _sigmoid_log_slope(x: Any) -> Any:
    """log σ(x)σ(−x)."""
    return jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)


def _logit(y: Any) -> Any:
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
    """Σ_j w_j E u Φ(u/s_j)."""
    return logistic_mean(smooth_ramp_mean, m, k)


def _silu_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j E u Φ(u/s_i) v Φ(v/s_j)."""
    return logistic_product(smooth_ramp_product, K_uu, K_uv, K_vv)


def _silu_log_slope(x: Any) -> Any:
    """φ' = σ(x)(1 + x σ(−x))."""
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
    """Σ_j w_j E max(u + s_j Z, 0)."""
    return 0.5 * (m + logistic_mean(lambda m, k, s2: abs_mean(m, k + s2), m, k))


def _softplus_product(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """Σ_ij w_i w_j E max(u + s_i Z, 0) max(v + s_j Z', 0)."""
    return 0.25 * (K_uv + logistic_product(abs_product, K_uu, K_uv, K_vv))


def _softplus_inverse(y: Any) -> Any:
    """log(e^y − 1)."""
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
