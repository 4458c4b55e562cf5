"""What the noise of sampled laws does to integrals and maxima of |p − q|."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks
from limitlaw.laws import Law


@dataclasses.dataclass(frozen=True)
class Noise:
    """Errors of ∫ |d| and of max |d|."""

    of_integral: float
    of_maximum: float


def noise(
    laws: tuple[InBlocks, InBlocks],
    rows: Float[np.ndarray, "b x"],
    d: Float[np.ndarray, " x"],
    weights: Float[np.ndarray, " x"],
    pointwise: Callable[[Law], object],
) -> Noise:
    """Errors from the `rows` of the blocks of both laws at nodes;
    `pointwise`: of a law that is in one block.

    ∫ |d| moves by ∫ sign(d) δ with the noise δ of d,
    which the blocks show, and on average it is too large by

        ∫ (E|d + σξ| − |d|) dx,   E|d + σξ| = σ √(2/π) e^{−d²/2σ²} + d erf(d/(σ√2)),   ξ ~ N(0, 1),

    the folded normal (Leone, Nelson and Nottingham 1961), large only where |d| is below its noise
    σ. The error is the standard error and this excess, in quadrature.
    """
    count = len(laws[0].parts)
    linear, square = 0.0, np.zeros_like(d)
    for law, own in zip(laws, (rows[:count], rows[count:]), strict=True):
        sigma = np.asarray(pointwise(law.whole)) if law.opaque else law.spread(own)
        moved = (
            weights @ sigma
            if law.opaque
            else law.spread((own @ (weights * np.sign(d)))[:, None])[0]
        )
        linear, square = linear + float(moved) ** 2, square + sigma**2
    sigma = np.sqrt(square)
    return Noise(
        math.sqrt(linear + float(weights @ folded(d, sigma)) ** 2), float(sigma.max(initial=0))
    )


def folded(d: Float[np.ndarray, " x"], sigma: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """E|d + σξ| − |d|."""
    from scipy.special import erfc  # a quarter of a second to import

    safe = np.where(sigma > 0, sigma, 1)
    z = np.minimum(np.abs(d) / safe, 40)
    excess = math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) - z * erfc(z / math.sqrt(2))
    return np.where(sigma > 0, sigma * np.maximum(excess, 0), 0)
