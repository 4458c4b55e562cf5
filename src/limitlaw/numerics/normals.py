"""Standard normals by the Box–Muller transform: in float64 on a CPU about twice as fast
as `jax.random.normal`.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Key, UInt32, UInt64

from limitlaw.numerics.quasi import Quasi, Source
from limitlaw.numerics.special_functions import series

RADIUS_BITS = 40  # of the 64 random bits of a pair
ANGLE_BITS = 64 - RADIUS_BITS
# the radius of the smallest U, 2⁻⁴¹: no draw is beyond 7.54
LARGEST = math.sqrt(2 * (RADIUS_BITS + 1) * math.log(2))

# Terms of the Taylor series of cos and sin that reach full precision at an eighth of a turn.
_TERMS = {jnp.dtype(jnp.float64): (9, 8), jnp.dtype(jnp.float32): (6, 5)}


def normal_pairs(
    key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike = jnp.float64
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two arrays of independent standard normals, one pair from each 64 random bits."""
    return pairs_from_bits(jax.random.bits(key, shape, jnp.uint64), dtype)


def pairs_from_bits(
    bits: UInt64[Array, "..."], dtype: DTypeLike = jnp.float64
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """(R cos Θ, R sin Θ) with R² = −2 log U and Θ uniform: independent standard normals.

    One 64-bit word makes a pair: 40 bits for U, 24 for Θ. The grid of angles is uniform, so that
    every polynomial in (cos Θ, sin Θ) of degree below 2²⁴ has its exact mean; the midpoints of U
    err by 2⁻⁴⁰. In float32 the same words make the same pairs, up to rounding relative to R.
    """
    cos, sin = _cos_sin_turns((bits << RADIUS_BITS >> RADIUS_BITS).astype(jnp.uint32), dtype)
    R = jnp.sqrt(-2.0 * log_uniform(bits >> ANGLE_BITS, dtype))
    return R * cos, R * sin


def normal(
    key: Source, shape: tuple[int, ...], dtype: DTypeLike = jnp.float64
) -> Float[Array, "..."]:
    """Independent standard normals."""
    if isinstance(key, Quasi):
        taken = key.take(shape, math.inf, dtype)
        if taken is not None:
            return taken
        key = key.fresh_key()
    count = math.prod(shape)
    pairs = normal_pairs(key, ((count + 1) // 2,), dtype)
    return jnp.concatenate(pairs)[:count].reshape(shape)


def log_uniform(j: UInt64[Array, "..."], dtype: DTypeLike) -> Float[Array, "..."]:
    """log U for the midpoint U = (j + ½)/2⁴⁰.

    U has 41 bits, exact in float64. In float32 the one of U and V = 1 − U that is at most ½ keeps
    its relative precision, and log U is log U or log1p(−V): small radii are as fine as large ones
    are far.
    """
    step = 2.0**-RADIUS_BITS
    if jnp.dtype(dtype) == jnp.float64:
        return jnp.log((j.astype(jnp.float64) + 0.5) * step)
    upper = j >= 2 ** (RADIUS_BITS - 1)
    mirrored = jnp.where(upper, 2**RADIUS_BITS - 1 - j, j)
    U = (mirrored.astype(dtype) + 0.5) * step
    return jnp.where(upper, jnp.log1p(-U), jnp.log(U))


def _cos_sin_turns(
    k: UInt32[Array, "..."], dtype: DTypeLike = jnp.float64
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """cos and sin of 2π(k + ½)/2²⁴ − π/4: the quadrant from the top two bits, Taylor series on an
    eighth of a turn.
    """
    quadrant = k >> (ANGLE_BITS - 2)
    rest = (k & (2 ** (ANGLE_BITS - 2) - 1)).astype(dtype)
    # within ±π/4; 22 bits, exact
    angle = 2 * math.pi * 2.0**-ANGLE_BITS * (rest - (2 ** (ANGLE_BITS - 3) - 0.5))
    square = angle * angle
    cos_terms, sin_terms = _TERMS[jnp.dtype(dtype)]
    cos = series(square, [(-1) ** j / math.factorial(2 * j) for j in range(cos_terms)])
    sin = series(square, [(-1) ** j / math.factorial(2 * j + 1) for j in range(sin_terms)]) * angle
    odd = quadrant % 2 == 1
    sign = jnp.where(quadrant >= 2, -1.0, 1.0).astype(dtype)
    return sign * jnp.where(odd, -sin, cos), sign * jnp.where(odd, cos, sin)
