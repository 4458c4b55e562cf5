"""The cosine integral Ci(x) = γ + log x + ∫₀ˣ (cos t − 1)/t dt, x > 0, for traced arguments.

Abramowitz and Stegun (1964), 5.2.16 (series) and 5.1.22 with 5.2.23 (continued fraction of E₁(ix)
= −Ci x + i(Si x − π/2)), from the last of a fixed number of terms on.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# below, the series loses less than a digit to cancellation; above, the fraction converges fast
SPLIT = 4.0
SERIES, FRACTION = 20, 60  # terms that reach full precision at SPLIT


@jax.jit
def cosine_integral(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Ci x."""
    return jnp.where(x < SPLIT, _series(jnp.minimum(x, SPLIT)), _fraction(jnp.maximum(x, SPLIT)))


def _series(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """γ + log x + Σ_k (−x²)^k / (2k (2k)!)."""
    total = jnp.zeros_like(x)
    for k in range(SERIES, 0, -1):
        total = total * -(x**2) + 1 / (2 * k * math.factorial(2 * k))
    return np.euler_gamma + jnp.log(x) - x**2 * total


def _fraction(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """−Re E₁(ix), E₁(z) = e^{−z} / (z + 1 − 1²/(z + 3 − 2²/(z + 5 − …)))."""
    z = 1j * x

    def above(i: Any, below: Any) -> Any:
        k = FRACTION - i
        return z + 2 * k - 1 - k**2 / below

    below = jax.lax.fori_loop(0, FRACTION, above, z + 2 * FRACTION + 1)
    return -(jnp.exp(-z) / below).real
