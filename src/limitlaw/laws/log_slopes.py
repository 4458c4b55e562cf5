"""log |φ'|, where φ saturates too: there |φ'| itself rounds to 0, or loses its digits in 1 − φ²."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw import nonlinearities as nl
from limitlaw.nonlinearities import Nonlinearity


@functools.partial(jax.jit, static_argnames="phi")
def log_slopes(phi: Nonlinearity, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log |φ'(x)|, −∞ where φ is flat."""
    if phi in SATURATING:
        return SATURATING[phi](x)
    return jnp.log(jnp.abs(jax.vmap(jax.grad(lambda x: phi(x)))(x.reshape(-1)))).reshape(x.shape)


def _tanh(x: Any) -> Any:
    """log (1 − tanh²) = 2 log 2 − 2|x| − 2 log(1 + e^{−2|x|})."""
    a = jnp.abs(x)
    return 2 * (math.log(2) - a - jnp.log1p(jnp.exp(-2 * a)))


def _sigmoid(x: Any) -> Any:
    """log σ(x)σ(−x)."""
    return jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)


def _erf(x: Any) -> Any:
    """log (2/√π) e^{−x²}."""
    return math.log(2 / math.sqrt(math.pi)) - x**2


def _gelu(x: Any) -> Any:
    """φ' = Φ(x) + x n(x), n the normal density: n (x + Φ/n) left of 0, where Φ/n is Mills' ratio and Φ underflows."""
    log_n = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
    left = jnp.minimum(x, 0)
    mills = jnp.exp(jax.scipy.special.log_ndtr(left) + 0.5 * left**2 + 0.5 * math.log(2 * math.pi))
    right = jax.scipy.special.ndtr(x) + x * jnp.exp(log_n)
    return jnp.where(x < 0, log_n + jnp.log(jnp.abs(x + mills)), jnp.log(jnp.where(x < 0, 1, right)))


def _silu(x: Any) -> Any:
    """φ' = σ(x)(1 + x σ(−x))."""
    return jax.nn.log_sigmoid(x) + jnp.log(jnp.abs(1 + x * jax.nn.sigmoid(-x)))


SATURATING: dict[Nonlinearity, Callable[[Any], Any]] = {
    nl.tanh: _tanh,
    nl.sigmoid: _sigmoid,
    nl.erf: _erf,
    nl.softplus: jax.nn.log_sigmoid,
    nl.gelu: _gelu,
    nl.silu: _silu,
}
