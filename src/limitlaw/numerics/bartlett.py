"""Standard Gaussian vectors in their own Gram–Schmidt frame:
the Bartlett factor of a Wishart matrix.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from limitlaw.arguments import positive_int
from limitlaw.numerics.chi import chi
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Source, split

Dimension = int | Float[Array, ""]  # known, or an argument of a compiled function


def bartlett(
    key: Source, m: int, D: Dimension, shape: tuple[int, ...] = (), dtype: DTypeLike = jnp.float64
) -> Float[Array, "*shape m r"]:
    """T, whose rows are m standard Gaussian vectors of R^D in the frame that they
    span one after the other.

    T is lower trapezoidal with r = min(m, D) columns: T_ii ~ χ_{D−i} (i = 0, 1, …) on the diagonal
    and standard normals below it, all independent, so that T Tᵀ ~ Wishart_m(D, I) (Bartlett 1933).
    `shape` is for independent copies, in front. A D that is an argument of a compiled function
    must be larger than m.
    """
    m = positive_int("m", m)
    r = m if isinstance(D, jax.Array) else min(m, positive_int("D", D))
    row, column = np.indices((m, r))
    below = row > column
    count = int(below.sum())
    place = np.full((m, r), count + r)  # of each entry in [normals, diagonal, 0]
    place[below] = np.arange(count)
    place[row == column] = count + np.arange(r)
    of_normals, of_lengths = split(key)
    normals = normal(of_normals, (*shape, count), dtype)
    lengths = chi(of_lengths, D - np.arange(r), (*shape, r), dtype)
    zero = jnp.zeros((*shape, 1), dtype)
    return jnp.concatenate([normals, lengths, zero], axis=-1)[..., place]


def bartlett_unit(
    key: Source,
    m: int,
    D: Dimension | float,
    shape: tuple[int, ...] = (),
    dtype: DTypeLike = jnp.float64,
) -> Float[Array, "*shape m r"]:
    """T/√D, the vectors divided by √D: at D = ∞ they are orthonormal,
    T/√D = I, and nothing is drawn.
    """
    if isinstance(D, jax.Array):
        return bartlett(key, m, D, shape, dtype) / jnp.sqrt(D)
    if D == math.inf:
        return jnp.broadcast_to(jnp.eye(positive_int("m", m), dtype=dtype), (*shape, m, m))
    return bartlett(key, m, positive_int("D", D), shape, dtype) / math.sqrt(D)
