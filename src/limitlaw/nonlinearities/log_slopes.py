"""log |φ'|, where φ saturates too: there |φ'| itself rounds to 0, or loses its digits in 1 − φ²."""

import math
from typing import Any

import jax
import jax.numpy as jnp


def tanh(x: Any) -> Any:
    """log (1 − tanh²) = 2 log 2 − 2|x| − 2 log(1 + e^{−2|x|})."""
    a = jnp.abs(x)
    return 2 * (math.log(2) - a - jnp.log1p(jnp.exp(-2 * a)))


def sigmoid(x: Any) -> Any:
    """log σ(x)σ(−x)."""
    return jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)


def erf(x: Any) -> Any:
    """log (2/√π) e^{−x²}."""
    return math.log(2 / math.sqrt(math.pi)) - x**2


def gelu(x: Any) -> Any:
    """φ' = Φ(x) + x n(x), n the normal density: n (x + Φ/n) left of 0, where Φ/n is Mills' ratio and Φ underflows."""
    log_n = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
    left = jnp.minimum(x, 0)
    mills = jnp.exp(jax.scipy.special.log_ndtr(left) + 0.5 * left**2 + 0.5 * math.log(2 * math.pi))
    right = jax.scipy.special.ndtr(x) + x * jnp.exp(log_n)
    return jnp.where(x < 0, log_n + jnp.log(jnp.abs(x + mills)), jnp.log(jnp.where(x < 0, 1, right)))


def silu(x: Any) -> Any:
    """φ' = σ(x)(1 + x σ(−x))."""
    return jax.nn.log_sigmoid(x) + jnp.log(jnp.abs(1 + x * jax.nn.sigmoid(-x)))
