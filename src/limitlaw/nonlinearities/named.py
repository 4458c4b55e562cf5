"""The named nonlinearities: each is defined here once, with all that is known of it."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.arguments import real_number
from limitlaw.nonlinearities import branches, log_slopes
from limitlaw.nonlinearities import closed_forms as closed
from limitlaw.nonlinearities.base import Kink, Nonlinearity
from limitlaw.nonlinearities.blocks import abs_mean, abs_product, sign_mean, sign_product
from limitlaw.nonlinearities.branches import Branch, line, listed
from limitlaw.nonlinearities.closed_forms import zero_mean
from limitlaw.nonlinearities.logistic import ACCURACY

INF = math.inf
_FAMILIES: dict[str, Callable[[Any], Nonlinearity]] = {}


def rebuild(family: str, parameter: float | None) -> Nonlinearity:
    """The nonlinearity whose field `saved` is (family, parameter)."""
    return _FAMILIES[family](parameter)


def _constant(name: str, function: Callable[..., Any], lipschitz: bool, bounded: bool, **known: Any) -> Nonlinearity:
    """A family of one, by its name."""
    phi = Nonlinearity(name, function, lipschitz, bounded, **known, saved=(name, None))
    _FAMILIES[name] = lambda _: phi
    return phi


def _relu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.maximum(x, 0)


def _gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """GELU(x) = x Φ(x), the exact form."""
    return x * jax.scipy.special.ndtr(x)


def _silu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    return x * jax.nn.sigmoid(x)


def _product_of_lines(m_u: Any, m_v: Any, K_uu: Any, K_uv: Any, K_vv: Any) -> Any:
    """E u v."""
    return K_uv if m_u is None or m_v is None else K_uv + m_u * m_v


identity = _constant(
    "identity",
    lambda x: x,
    True,
    False,
    kinks=(),
    mean=lambda m, k: m + 0 * k,
    product=_product_of_lines,
    branches=line(-INF, INF, branches.same),
)
relu = _constant(
    "relu",
    _relu,
    True,
    False,
    kinks=(Kink(0.0, slope_jump=1.0),),
    mean=closed.leaky_mean(0.0),
    product=closed.leaky_product(0.0),
    branches=branches.leaky(0.0),
)
abs_ = _constant(
    "abs",
    jnp.abs,
    True,
    False,
    kinks=(Kink(0.0, slope_jump=2.0),),
    mean=abs_mean,
    product=zero_mean(lambda *K: abs_product(*K)),
    branches=branches.leaky(-1.0),
)
sign = _constant(
    "sign",
    jnp.sign,
    False,
    True,
    kinks=(Kink(0.0, jump=2.0),),
    mean=sign_mean,
    product=zero_mean(lambda *K: sign_product(*K)),
    branches=listed(Branch(-INF, 0.0, -1.0, -1.0), Branch(0.0, INF, 1.0, 1.0)),
)
erf = _constant(
    "erf",
    jax.scipy.special.erf,
    True,
    True,
    kinks=(),
    mean=closed.erf_mean,
    product=zero_mean(closed.erf_product),
    branches=line(-1.0, 1.0, jax.scipy.special.erfinv),
    log_slope=log_slopes.erf,
)
gelu = _constant(
    "gelu",
    _gelu,
    True,
    False,
    kinks=(),
    mean=lambda m, k: closed.smooth_ramp_mean(m, k, 1.0),
    product=zero_mean(closed.gelu_product),
    branches=branches.one_minimum(_gelu),
    log_slope=log_slopes.gelu,
)
tanh = _constant(
    "tanh",
    jnp.tanh,
    True,
    True,
    kinks=(),
    mean=closed.tanh_mean,
    product=zero_mean(closed.tanh_product),
    accuracy=ACCURACY,
    branches=line(-1.0, 1.0, jnp.arctanh),
    log_slope=log_slopes.tanh,
)
sigmoid = _constant(
    "sigmoid",
    jax.nn.sigmoid,
    True,
    True,
    kinks=(),
    mean=closed.sigmoid_mean,
    product=zero_mean(closed.sigmoid_product),
    accuracy=ACCURACY,
    branches=line(0.0, 1.0, branches.logit),
    log_slope=log_slopes.sigmoid,
)
silu = _constant(
    "silu",
    _silu,
    True,
    False,
    kinks=(),
    mean=closed.silu_mean,
    product=zero_mean(closed.silu_product),
    accuracy=ACCURACY,
    branches=branches.one_minimum(_silu),
    log_slope=log_slopes.silu,
)
softplus = _constant(
    "softplus",
    jax.nn.softplus,
    True,
    False,
    kinks=(),
    mean=closed.softplus_mean,
    product=zero_mean(closed.softplus_product),
    accuracy=ACCURACY,
    branches=line(0.0, INF, branches.softplus_inverse),
    log_slope=jax.nn.log_sigmoid,
)
sin = _constant(
    "sin",
    jnp.sin,
    True,
    True,
    kinks=(),
    mean=lambda m, k: jnp.exp(-k / 2) * jnp.sin(m),
    product=closed.sin_product,
    branches=branches.waves(0.0),
)
cos = _constant(
    "cos",
    jnp.cos,
    True,
    True,
    kinks=(),
    mean=lambda m, k: jnp.exp(-k / 2) * jnp.cos(m),
    product=closed.cos_product,
    branches=branches.waves(math.pi / 2),
)
multiply = _constant("multiply", jnp.multiply, True, False)
divide = _constant("divide", jnp.divide, False, False)


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
        branches=branches.leaky(slope),
        saved=("leaky_relu", slope),
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
        branches=branches.cut_off(bound),
        saved=("clip", bound),
    )


_FAMILIES.update(leaky_relu=leaky_relu, clip=clip)
