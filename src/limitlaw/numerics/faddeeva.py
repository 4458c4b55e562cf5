"""w(z) = e^{−z²} erfc(−iz), the complex error function,
and from it Fourier integrals over part of a normal law.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

NODES = 11
STEP = math.sqrt(math.pi / (NODES + 1))
MIDDLES, MULTIPLES = STEP * (np.arange(NODES + 1) + 0.5), STEP * np.arange(1, NODES + 1)


def faddeeva(z: Complex[Array, "..."]) -> Complex[Array, "..."]:
    """w(z) for Im z ≥ 0, with 15 digits.

    w(z) = (iz/π) ∫ e^{−t²}/(z² − t²) dt by the midpoint or the trapezoidal rule, whichever has its
    nodes farther from z, with the residue at z where that is near the axis (Al Azah and
    Chandler-Wilde, SIAM J. Numer. Anal. 59, 2021).
    """
    left, x, y = z.real < 0, jnp.abs(z.real), z.imag
    high = y >= jnp.maximum(x, math.pi / STEP)
    part = (x / STEP) % 1
    middle = high | (y >= x) | (part < 0.25) | (part > 0.75)
    z = x + 1j * y
    low = jnp.where(high, 1 + 0.5j, z)  # where a residue is needed
    residue = 2 * jnp.exp(-low * low)
    turn = jnp.exp(2j * math.pi / STEP * low)  # at most 1: e^{−2πiz/h} may overflow
    by_middles = _sum(z, MIDDLES) + jnp.where(high, 0, residue * turn / (turn + 1))
    away = jnp.where(middle, 1.0, z)
    by_multiples = (
        1j * STEP / (math.pi * away) + _sum(away, MULTIPLES) + residue * turn / (turn - 1)
    )
    w = jnp.where(middle, by_middles, by_multiples)
    return jnp.where(left, w.conj(), w)  # w(−z̄) is the conjugate of w(z)


def _sum(z: Complex[Array, "..."], nodes: np.ndarray) -> Complex[Array, "..."]:
    """(2ih/π) Σ_k e^{−t_k²} z/(z² − t_k²), the rule for what lies right and left of 0."""
    terms = np.exp(-(nodes**2)) / (
        (z[..., None] - nodes) * (1 + nodes / jnp.where(z == 0, 1, z)[..., None])
    )
    return jnp.where(z == 0, 0, 2j * STEP / math.pi * jnp.sum(terms, -1))


def half_line(u: Float[Array, "..."], tau: Float[Array, "..."]) -> Complex[Array, "..."]:
    """e^{−iuτ} E e^{iτZ} 1{Z > u} = ½ e^{−u²/2} w((τ + iu)/√2)
    for u ≥ 0 and a standard normal Z.
    """
    w = faddeeva((tau + 1j * jnp.minimum(u, 1e3)) / math.sqrt(2))  # e^{−u²/2} is 0 from 39 on
    return 0.5 * jnp.exp(-(u**2) / 2) * w
