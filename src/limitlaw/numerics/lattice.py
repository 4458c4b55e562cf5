"""The trapezoidal rule for normal variables in a few dimensions:
exponentially convergent for analytic functions.

Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56 (2014).
"""

import math

import numpy as np
from jaxtyping import Float


def lattice(
    dimensions: int, step: float, radius: float, offset: float
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, " N"]]:
    """Nodes step·(Z^d + offset) in a ball, with weights of the standard normal
    density and of sum one.
    """
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    reach = int(radius / step) + 1
    ticks = step * (np.arange(-reach, reach + 1) + offset)
    z = np.stack(np.meshgrid(*[ticks] * dimensions, indexing="ij"), axis=-1).reshape(
        -1, dimensions
    )
    square = (z**2).sum(axis=1)
    inside = square <= radius**2
    w = np.exp(-0.5 * square[inside])
    return z[inside], w / w.sum()


def lattice_size(dimensions: int, step: float, radius: float) -> float:
    """About how many nodes `lattice` has."""
    return (
        math.pi ** (dimensions / 2)
        / math.gamma(dimensions / 2 + 1)
        * (radius / step) ** dimensions
    )
