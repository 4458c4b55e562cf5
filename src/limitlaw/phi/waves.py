"""The nonlinearities sine and cosine."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.numerics import Reals
from limitlaw.phi.branches import Branch, Branches, Turned
from limitlaw.phi.catalogue import add
from limitlaw.phi.nonlinearity import Centre, Nonlinearity, PairMoment

MOST_WAVES = 2000  # most monotone branches that are summed


def _sin_sin(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E sin u sin v = e^{−(K_uu + K_vv)/2} sinh K_uv, zero means, without overflow."""
    c = jnp.where(K_uv >= 0, K_uv, -K_uv)
    value = -0.5 * jnp.exp(c - 0.5 * (K_uu + K_vv)) * jnp.expm1(-2 * c)
    return jnp.where(K_uv >= 0, value, -value)


def _cos_cos(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E cos u cos v = e^{−(K_uu + K_vv)/2} cosh K_uv, zero means, without overflow."""
    a = 0.5 * (K_uu + K_vv)
    return 0.5 * (jnp.exp(K_uv - a) + jnp.exp(-K_uv - a))


def _by_addition(own: Callable[..., Reals], other: Callable[..., Reals]) -> PairMoment:
    """E φ(m_u + u) φ(m_v + v) by the addition theorem, from E φ(u)φ(v) and the same of the other
    function, the cosine for the sine and the sine for the cosine.
    """

    def product(m_u: Centre, m_v: Centre, *K: Reals) -> Reals:
        centred = own(*K)
        if m_u is None and m_v is None:
            return centred
        m_u, m_v = (jnp.zeros(()) if m is None else m for m in (m_u, m_v))
        return jnp.cos(m_u) * jnp.cos(m_v) * centred + jnp.sin(m_u) * jnp.sin(m_v) * other(*K)

    return product


def _cos_sin(m_u: Centre, m_v: Centre, K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """E cos(u) sin(v) = ½E sin(v + u) + ½E sin(v − u)."""
    m_u, m_v = (jnp.zeros(()) if m is None else m for m in (m_u, m_v))
    a = 0.5 * (K_uu + K_vv)
    return 0.5 * (jnp.exp(-a - K_uv) * jnp.sin(m_v + m_u) + jnp.exp(K_uv - a) * jnp.sin(m_v - m_u))


def _waves(phase: float) -> Branches:
    """The branches of sin(x + phase) that meet (lo, hi), in turn; None if too many."""

    def meeting(lo: float, hi: float) -> tuple[Branch, ...] | None:
        if not hi - lo < MOST_WAVES * math.pi:
            return None
        first, last = (math.floor((end + phase) / math.pi + 0.5) for end in (lo, hi))
        edges = [math.pi * (k - 0.5) - phase for k in range(first, last + 2)]
        found = []
        for k, left, right in zip(range(first, last + 1), edges[:-1], edges[1:], strict=True):
            sign = -1.0 if k % 2 else 1.0
            inverse = Turned(jnp.arcsin, math.pi * k - phase, sign)
            found.append(Branch(left, right, -1.0, 1.0, inverse, sign > 0))
        return tuple(found)

    return meeting


sin = add(
    Nonlinearity(
        "sin",
        jnp.sin,
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(),
        accuracy=0.0,
        mean=lambda m, k: jnp.exp(-k / 2) * jnp.sin(m),
        product=_by_addition(_sin_sin, _cos_cos),
        branches=_waves(0.0),
        oscillates=True,
    ),
    *(jnp.sin, jax.lax.sin, np.sin),
)
cos = add(
    Nonlinearity(
        "cos",
        jnp.cos,
        pseudo_lipschitz=True,
        bounded=True,
        kinks=(),
        accuracy=0.0,
        mean=lambda m, k: jnp.exp(-k / 2) * jnp.cos(m),
        product=_by_addition(_cos_cos, _sin_sin),
        products=((sin, _cos_sin),),
        branches=_waves(math.pi / 2),
        oscillates=True,
    ),
    *(jnp.cos, jax.lax.cos, np.cos),
)
