"""The identity, products and quotients."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw.phi.branches import line
from limitlaw.phi.catalogue import add
from limitlaw.phi.nonlinearity import Nonlinearity


def _product_of_lines(m_u: Any, m_v: Any, K_uu: Any, K_uv: Any, K_vv: Any) -> Any:
    """E u v."""
    return K_uv if m_u is None or m_v is None else K_uv + m_u * m_v


identity = add(
    Nonlinearity(
        "identity",
        lambda x: x,
        pseudo_lipschitz=True,
        bounded=False,
        kinks=(),
        mean=lambda m, k: m + 0 * k,
        product=_product_of_lines,
        branches=line(-math.inf, math.inf, lambda y: y),
        linear=True,
    ),
    jax.nn.identity,
)
multiply = add(Nonlinearity("multiply", jnp.multiply, pseudo_lipschitz=True, bounded=False))
divide = add(Nonlinearity("divide", jnp.divide, pseudo_lipschitz=False, bounded=False))
