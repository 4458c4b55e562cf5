"""Derivatives of nonlinearities as nonlinearities, which gradients are made of.

By Price's theorem (1958) their Gaussian moments are derivatives of those of φ, where φ does not
jump:

    E φ'(u) = ∂/∂m E φ(u)        E φ'(u)φ'(v) = ∂/∂K_uv E φ(u)φ(v).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw.numerics import Reals
from limitlaw.phi.nonlinearity import Centre, Nonlinearity, PairMoment

# φ' = Σ_j w_j φ_j' of a sum of ramps that stands for φ has about so many times the error of φ
LOST_BY_DIFFERENTIATING = 3.0


@dataclasses.dataclass(frozen=True)
class Slope:
    """∂f/∂x_i of a function that acts entry by entry."""

    f: Callable[..., Any]
    place: int

    def __call__(self, *arrays: Any) -> Any:
        arrays = tuple(jnp.asarray(a, float) for a in arrays)
        shape = jnp.broadcast_shapes(*(a.shape for a in arrays))
        x = jnp.broadcast_to(arrays[self.place], shape)

        def along(x: Any) -> Any:
            return self.f(*arrays[: self.place], x, *arrays[self.place + 1 :])

        return jax.jvp(along, (x,), (jnp.ones_like(x),))[1]


@dataclasses.dataclass(frozen=True)
class SlopeMean:
    """E φ'(u) = ∂/∂m E φ(u)."""

    mean: Callable[[Reals, Reals], Reals]

    def __call__(self, m: Reals, k: Reals) -> Reals:
        return jax.jvp(lambda m: self.mean(m, k), (m,), (jnp.ones_like(m),))[1]


@dataclasses.dataclass(frozen=True)
class SlopeProduct:
    """E φ'(u)φ'(v) = ∂/∂K_uv E φ(u)φ(v)."""

    product: PairMoment

    def __call__(
        self, m_u: Centre, m_v: Centre, K_uu: Reals, K_uv: Reals, K_vv: Reals
    ) -> Reals | None:
        of = lambda K: self.product(m_u, m_v, K_uu, K, K_vv)
        return jax.jvp(of, (K_uv,), (jnp.ones_like(K_uv),))[1]


def slope_of(phi: Nonlinearity, i: int = 0) -> Nonlinearity:
    """∂φ/∂h_i as a nonlinearity. Where φ bends it jumps; where φ jumps it is what it is nearby."""
    kinks = phi.kinks
    smooth = kinks is not None and not any(k.jump for k in kinks)
    if kinks is not None:
        bends = (k for k in kinks if k.slope_jump)
        kinks = tuple(dataclasses.replace(k, jump=k.slope_jump, slope_jump=0.0) for k in bends)
    accuracy = phi.accuracy and LOST_BY_DIFFERENTIATING * phi.accuracy
    return Nonlinearity(
        f"{phi.name}'" if i == 0 else f"∂{i}{phi.name}",
        Slope(phi.function, i),
        pseudo_lipschitz=False if kinks else None,
        bounded=None,
        kinks=kinks,
        mean=SlopeMean(phi.mean) if smooth and phi.mean else None,
        product=SlopeProduct(phi.product) if smooth and phi.product else None,
        accuracy=accuracy if smooth else None,
        cuts=phi.cuts,
        oscillates=phi.oscillates,
    )
