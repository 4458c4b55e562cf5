"""The named nonlinearities."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.arguments import real_array
from limitlaw.nonlinearities.base import Nonlinearity


def _gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """GELU(x) = x Φ(x), the exact form."""
    return x * jax.scipy.special.ndtr(x)


identity = Nonlinearity("identity", lambda x: x, pseudo_lipschitz=True, bounded=False)
relu = Nonlinearity("relu", lambda x: jnp.maximum(x, 0), pseudo_lipschitz=True, bounded=False)
abs_ = Nonlinearity("abs", jnp.abs, pseudo_lipschitz=True, bounded=False)
sign = Nonlinearity("sign", jnp.sign, pseudo_lipschitz=False, bounded=True)
erf = Nonlinearity("erf", jax.scipy.special.erf, pseudo_lipschitz=True, bounded=True)
gelu = Nonlinearity("gelu", _gelu, pseudo_lipschitz=True, bounded=False)
tanh = Nonlinearity("tanh", jnp.tanh, pseudo_lipschitz=True, bounded=True)
sigmoid = Nonlinearity("sigmoid", jax.nn.sigmoid, pseudo_lipschitz=True, bounded=True)
silu = Nonlinearity("silu", lambda x: x * jax.nn.sigmoid(x), pseudo_lipschitz=True, bounded=False)
softplus = Nonlinearity("softplus", jax.nn.softplus, pseudo_lipschitz=True, bounded=False)
sin = Nonlinearity("sin", jnp.sin, pseudo_lipschitz=True, bounded=True)
cos = Nonlinearity("cos", jnp.cos, pseudo_lipschitz=True, bounded=True)
multiply = Nonlinearity("multiply", jnp.multiply, pseudo_lipschitz=True, bounded=False)
divide = Nonlinearity("divide", jnp.divide, pseudo_lipschitz=False, bounded=False)


def leaky_relu(slope: float) -> Nonlinearity:
    """x for x ≥ 0, slope·x below."""
    slope = float(real_array("slope", slope))
    return Nonlinearity(f"leaky_relu({slope:g})", lambda x: jnp.where(x >= 0, x, slope * x), True, False)


def clip(bound: float) -> Nonlinearity:
    """x cut off at ±bound."""
    bound = float(real_array("bound", bound))
    if bound <= 0:
        raise ValueError(f"bound must be positive, got {bound:g}")
    return Nonlinearity(f"clip({bound:g})", lambda x: jnp.clip(x, -bound, bound), True, True)
