"""Standard normals by the Box–Muller transform: on a CPU in float64 about twice as fast as `jax.random.normal`."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, UInt32

RADIUS_BITS = 40  # of the 64 random bits of a pair; the radius reaches √(2·41·ln 2) = 7.5
ANGLE_BITS = 64 - RADIUS_BITS


def normal_pairs(key: Key[Array, ""], shape: tuple[int, ...]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two arrays (R cos Θ, R sin Θ) of independent standard normals, with −2 log U = R² and Θ uniform.

    One 64-bit word makes a pair: 40 bits for U, 24 for Θ. The grid of angles is uniform, so that every polynomial
    in (cos Θ, sin Θ) of degree below 2²⁴ has its exact mean; the midpoints of U err by 2⁻⁴⁰.
    """
    bits = jax.random.bits(key, shape, jnp.uint64)
    U = ((bits >> ANGLE_BITS).astype(jnp.float64) + 0.5) * 2.0**-RADIUS_BITS
    R = jnp.sqrt(-2.0 * jnp.log(U))
    cos, sin = _cos_sin_turns((bits << RADIUS_BITS >> RADIUS_BITS).astype(jnp.uint32))
    return R * cos, R * sin


def normal(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent standard normals."""
    count = math.prod(shape)
    pairs = normal_pairs(key, ((count + 1) // 2,))
    return jnp.concatenate(pairs)[:count].reshape(shape)


def _cos_sin_turns(k: UInt32[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """cos and sin of 2π(k + ½)/2²⁴: the quadrant from the top two bits, Taylor series on an eighth of a turn."""
    step = 2.0**-ANGLE_BITS
    quadrant = k >> (ANGLE_BITS - 2)
    rest = (k & (2 ** (ANGLE_BITS - 2) - 1)).astype(jnp.float64)
    angle = 2 * math.pi * ((rest + 0.5) * step - 0.125)  # within ±π/4
    square = angle * angle
    cos = _series(square, [(-1) ** j / math.factorial(2 * j) for j in range(9)])
    sin = _series(square, [(-1) ** j / math.factorial(2 * j + 1) for j in range(8)]) * angle
    odd = quadrant % 2 == 1
    sign = jnp.where(quadrant >= 2, -1.0, 1.0)
    return sign * jnp.where(odd, -sin, cos), sign * jnp.where(odd, cos, sin)


def _series(x: Float[Array, "..."], coefficients: list[float]) -> Float[Array, "..."]:
    """Σ_j coefficients[j] x^j by Horner's rule."""
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
