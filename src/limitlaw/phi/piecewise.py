"""Nonlinearities of straight pieces: the identity, the ramps relu, leaky_relu, abs and clip, and
the step sign; products and quotients.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import real_number
from limitlaw.numerics import Reals
from limitlaw.phi.branches import Branch, Branches, line, listed, same
from limitlaw.phi.catalogue import add, add_family, add_same
from limitlaw.phi.nonlinearity import Centre, Kink, Nonlinearity
from limitlaw.phi.step_and_ramp import (
    abs_mean,
    abs_product,
    leaky_mean,
    leaky_product,
    ramp_mean,
    sign_mean,
    sign_product,
    zero_mean,
)

INF = math.inf
POSITIVE = Branch(0.0, INF, 0.0, INF, same)


def _product_of_lines(m_u: Centre, m_v: Centre, K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E u v = K_uv + m_u m_v."""
    return K_uv if m_u is None or m_v is None else K_uv + m_u * m_v


identity = add(
    Nonlinearity(
        "identity",
        lambda x: x,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(),
        accuracy=0.0,
        mean=lambda m, k: m + 0 * k,
        product=_product_of_lines,
        branches=line(-INF, INF, same),
        linear=True,
    ),
    jax.nn.identity,
)
multiply = add(Nonlinearity("multiply", jnp.multiply, pseudo_lipschitz=True, bounded=False))
divide = add(Nonlinearity("divide", jnp.divide, pseudo_lipschitz=False, bounded=False))


def _leaky_branches(slope: float) -> Branches:
    """The branches of x for x ≥ 0, slope·x below."""
    if slope == 0:
        return listed(Branch(-INF, 0.0, 0.0, 0.0), POSITIVE)
    bottom, top = (-INF, 0.0) if slope > 0 else (0.0, INF)
    inverse = jnp.negative if slope == -1 else functools.partial(jnp.multiply, 1 / slope)
    return listed(Branch(-INF, 0.0, bottom, top, inverse, slope > 0), POSITIVE)


def _relu(x: Reals) -> Reals:
    return jnp.maximum(x, 0)


relu = add(
    Nonlinearity(
        "relu",
        _relu,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(Kink(0.0, slope_jump=1.0),),
        accuracy=0.0,
        mean=leaky_mean(0.0),
        product=leaky_product(0.0),
        branches=_leaky_branches(0.0),
    ),
    jax.nn.relu,
)
abs_ = add(
    Nonlinearity(
        "abs",
        jnp.abs,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(Kink(0.0, slope_jump=2.0),),
        accuracy=0.0,
        mean=abs_mean,
        product=zero_mean(lambda *K: abs_product(*K)),
        branches=_leaky_branches(-1.0),
    ),
    *(jnp.abs, jnp.absolute, jax.lax.abs, np.abs),
)
sign = add(
    Nonlinearity(
        "sign",
        jnp.sign,
        pseudo_lipschitz=False,
        bounded=True,
        kinks=(Kink(0.0, jump=2.0),),
        accuracy=0.0,
        mean=sign_mean,
        product=zero_mean(lambda *K: sign_product(*K)),
        branches=listed(Branch(-INF, 0.0, -1.0, -1.0), Branch(0.0, INF, 1.0, 1.0)),
    ),
    *(jnp.sign, jax.lax.sign, np.sign),
)


def leaky_relu(slope: float) -> Nonlinearity:
    """x for x ≥ 0, slope·x below. The same slope gives the same object."""
    return _leaky_relu(real_number("slope", slope))


@functools.cache
def _leaky_relu(slope: float) -> Nonlinearity:
    return Nonlinearity(
        f"leaky_relu({slope:g})",
        lambda x: jnp.where(x >= 0, x, slope * x),
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(Kink(0.0, slope_jump=1 - slope),),
        accuracy=0.0,
        mean=leaky_mean(slope),
        product=leaky_product(slope),
        branches=_leaky_branches(slope),
        saved=("leaky_relu", slope),
    )


def clip(bound: float) -> Nonlinearity:
    """x clipped to [−bound, bound]. The same bound gives the same object."""
    bound = real_number("bound", bound)
    if bound <= 0:
        raise ValueError(f"bound must be positive, got {bound:g}")
    return _clip(bound)


@functools.cache
def _clip(bound: float) -> Nonlinearity:
    return Nonlinearity(
        f"clip({bound:g})",
        lambda x: jnp.clip(x, -bound, bound),
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(Kink(-bound, slope_jump=1.0), Kink(bound, slope_jump=-1.0)),
        accuracy=0.0,
        mean=_clip_mean(bound),
        branches=_clip_branches(bound),
        saved=("clip", bound),
    )


def _clip_mean(bound: float) -> Callable[[Reals, Reals], Reals]:
    """E clip(u), by clip(x) = x − (x − C)₊ + (−x − C)₊ = C − (C − x)₊ + (−C − x)₊: the form whose
    ramps are small at m.
    """

    def mean(m: Reals, k: Reals) -> Reals:
        far = jnp.abs(m)
        inside = m - ramp_mean(m - bound, k) + ramp_mean(-m - bound, k)
        beyond = jnp.sign(m) * (bound - ramp_mean(bound - far, k) + ramp_mean(-bound - far, k))
        return jnp.where(far < bound, inside, beyond)

    return mean


def _clip_branches(bound: float) -> Branches:
    """The branches of x clipped to [−bound, bound]."""
    low, high = Branch(-INF, -bound, -bound, -bound), Branch(bound, INF, bound, bound)
    return listed(low, Branch(-bound, bound, -bound, bound, same), high)


add_family("leaky_relu", leaky_relu)
add_family("clip", clip)
add_same(jax.nn.leaky_relu, leaky_relu(0.01))
