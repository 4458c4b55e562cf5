"""Moments of high order: E Y^k = s^k E (Y/s)^k, with a unit s in which nothing overflows that the
result does not.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw.arguments import integer, shown
from limitlaw.laws.averages import Estimate

MOST = 300  # the order: E Z^k of a standard normal Z overflows from 302 on


def order(k: object) -> int:
    """`k` as the order of a moment."""
    number = integer(k)
    if number is None or number < 0:
        raise ValueError(f"k must be an integer ≥ 0, got {shown(k)}")
    if number > MOST:
        raise ValueError(
            f"k must be at most {MOST}, beyond which a standard normal's moments overflow, got "
            f"{number}"
        )
    return number


def unit(size: object) -> Any:
    """The power of two nearest to `size`, so that dividing by it rounds nothing; 1 for 0."""
    size = jax.lax.stop_gradient(jnp.asarray(size))
    exponent = jnp.round(jnp.log2(jnp.where(size > 0, size, 1.0)))
    return jnp.ldexp(jnp.ones_like(size), exponent.astype(int))


def growth(k: int) -> float:
    """(E Z^k)^{1/k} of a standard normal, roughly: √(k/e)."""
    return math.sqrt(max(k, 1) / math.e)


def in_units(moment: Estimate, s: Any, k: int) -> Estimate:
    """E Y^k from E (Y/s)^k: 0 stays 0, also where s^k overflows."""

    def restored(x: Any) -> Any:
        return jnp.where(x == 0, 0.0, x * s ** (k // 2) * s ** (k - k // 2))

    return Estimate(restored(moment.value), lambda: restored(moment.error()))
