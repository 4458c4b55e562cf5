"""The named nonlinearities."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.arguments import real_number
from limitlaw.nonlinearities import closed_forms as closed
from limitlaw.nonlinearities.base import Kink, Nonlinearity
from limitlaw.nonlinearities.blocks import abs_mean, abs_product, sign_mean, sign_product
from limitlaw.nonlinearities.closed_forms import zero_mean


def _gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """GELU(x) = x Φ(x), the exact form."""
    return x * jax.scipy.special.ndtr(x)


identity = Nonlinearity(
    "identity",
    lambda x: x,
    True,
    False,
    (),
    mean=lambda m, k: m + 0 * k,
    product=lambda m_u, m_v, K_uu, K_uv, K_vv: K_uv if m_u is None or m_v is None else K_uv + m_u * m_v,
)
relu = Nonlinearity(
    "relu",
    lambda x: jnp.maximum(x, 0),
    True,
    False,
    (Kink(0.0, slope_jump=1.0),),
    closed.leaky_mean(0.0),
    closed.leaky_product(0.0),
)
abs_ = Nonlinearity(
    "abs", jnp.abs, True, False, (Kink(0.0, slope_jump=2.0),), abs_mean, zero_mean(lambda *K: abs_product(*K))
)
sign = Nonlinearity(
    "sign", jnp.sign, False, True, (Kink(0.0, jump=2.0),), sign_mean, zero_mean(lambda *K: sign_product(*K))
)
erf = Nonlinearity("erf", jax.scipy.special.erf, True, True, (), closed.erf_mean, zero_mean(closed.erf_product))
gelu = Nonlinearity(
    "gelu",
    _gelu,
    True,
    False,
    (),
    mean=lambda m, k: closed.smooth_ramp_mean(m, k, 1.0),
    product=zero_mean(closed.gelu_product),
)
tanh = Nonlinearity("tanh", jnp.tanh, True, True, (), closed.tanh_mean, zero_mean(closed.tanh_product))
sigmoid = Nonlinearity(
    "sigmoid", jax.nn.sigmoid, True, True, (), closed.sigmoid_mean, zero_mean(closed.sigmoid_product)
)
silu = Nonlinearity(
    "silu", lambda x: x * jax.nn.sigmoid(x), True, False, (), closed.silu_mean, zero_mean(closed.silu_product)
)
softplus = Nonlinearity(
    "softplus", jax.nn.softplus, True, False, (), closed.softplus_mean, zero_mean(closed.softplus_product)
)
sin = Nonlinearity("sin", jnp.sin, True, True, (), lambda m, k: jnp.exp(-k / 2) * jnp.sin(m), closed.sin_product)
cos = Nonlinearity("cos", jnp.cos, True, True, (), lambda m, k: jnp.exp(-k / 2) * jnp.cos(m), closed.cos_product)
multiply = Nonlinearity("multiply", jnp.multiply, pseudo_lipschitz=True, bounded=False)
divide = Nonlinearity("divide", jnp.divide, pseudo_lipschitz=False, bounded=False)


def leaky_relu(slope: float) -> Nonlinearity:
    """x for x ≥ 0, slope·x below. The same slope gives the same object."""
    return _leaky_relu(real_number("slope", slope))


@functools.cache
def _leaky_relu(slope: float) -> Nonlinearity:
    return Nonlinearity(
        f"leaky_relu({slope:g})",
        lambda x: jnp.where(x >= 0, x, slope * x),
        True,
        False,
        (Kink(0.0, slope_jump=1 - slope),),
        closed.leaky_mean(slope),
        closed.leaky_product(slope),
    )


def clip(bound: float) -> Nonlinearity:
    """x cut off at ±bound. The same bound gives the same object."""
    bound = real_number("bound", bound)
    if bound <= 0:
        raise ValueError(f"bound must be positive, got {bound:g}")
    return _clip(bound)


@functools.cache
def _clip(bound: float) -> Nonlinearity:
    return Nonlinearity(
        f"clip({bound:g})",
        lambda x: jnp.clip(x, -bound, bound),
        True,
        True,
        (Kink(-bound, slope_jump=1.0), Kink(bound, slope_jump=-1.0)),
        closed.clip_mean(bound),
    )
