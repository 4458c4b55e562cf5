"""Rules for averages over one normal variable, with or without points where the function breaks.

Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56 (2014).
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

REACH = 12.0  # standard deviations: what lies beyond has probability 4e-33
# Behind a break this far out, ψ being perhaps 0 before it, the density falls like e^{−c(z − c)}:
# to e^{−48}, and no farther than to where it underflows.
OUT, FALL, FAR = 8.0, 48.0, 37.5
# of the trapezoidal rule, in units of min(1, 1/sd): 1e-11 for the poles of tanh, 1.6 off the axis
STEP = 0.3
GOLDEN = 0.6180339887498949

Scalar = float | Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Rule:
    """Nodes and weights for E ψ(Y), Y ~ N(mean, sd²), written for one component.

    Without `breaks` the trapezoidal rule, best for smooth ψ. A shift in [0, 1) that differs
    between components makes it unbiased for every ψ. With `breaks`, points where ψ may jump or
    bend, Gauss–Legendre between them: all must resolve the normal density over up to 2 `REACH`,
    which takes 64 nodes, or 24 if they are also cut at the mean.
    """

    nodes: int
    breaks: tuple[float, ...] = ()
    cut_at_mean: bool = False

    def __call__(
        self, mean: Scalar, sd: Scalar, shift: Scalar = 0.5
    ) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        if self.breaks:
            z, w = self._pieces(mean, sd)
        else:
            h = 2 * REACH / self.nodes
            z = (jnp.arange(self.nodes) + shift) * h - REACH
            w = jnp.full(self.nodes, h)
        return mean + sd * z, w * jnp.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    @property
    def pieces(self) -> int:
        """Between the breaks, and beyond them."""
        return len(self.breaks) + 1 + self.cut_at_mean

    def _pieces(self, mean: Scalar, sd: Scalar) -> tuple[Array, Array]:
        u, w = np.polynomial.legendre.leggauss(min(self.nodes, 96))
        panels = -(-self.nodes // 96)
        u = ((u + 1) / 2 + np.arange(panels)[:, None]).reshape(-1) / panels
        w = np.tile(w / 2 / panels, panels)
        z = (jnp.array(self.breaks) - mean) / jnp.where(sd > 0, sd, 1)
        left, right = -_end(-z), _end(z)
        # a point mass: everything in the first piece
        z = jnp.where(sd > 0, jnp.clip(z, left, right), right)
        if self.cut_at_mean:
            z = jnp.sort(jnp.append(z, 0.0))
        # Between REACH and a break beyond it lies nothing that counts: such pieces end at REACH.
        below, above = jnp.append(left, z), jnp.append(z, right)
        start = jnp.append(left, jnp.where(above[1:] > -REACH, jnp.maximum(z, -REACH), z))
        end = jnp.append(jnp.where(below[:-1] < REACH, jnp.minimum(z, REACH), z), right)
        length = (end - start)[:, None]
        return (start[:, None] + length * u).reshape(-1), (length * w).reshape(-1)


def _end(z: Float[Array, " breaks"]) -> Float[Array, ""]:
    """Where the last piece ends: behind the first break that is far out, if there is one."""
    first = jnp.min(jnp.where(z > OUT, z, jnp.inf))
    behind = jnp.clip(first + FALL / first, REACH, FAR)
    return jnp.where(jnp.isfinite(first), behind, REACH)


def smooth_nodes(sd: float, step: float = STEP) -> int:
    """How many nodes the trapezoidal rule takes for a ψ that varies on the scale of 1: one of few
    numbers, to compile for.
    """
    return math.ceil(2 * REACH / step) * 2 ** math.ceil(math.log2(max(1.0, sd)))


def shifts(count: int) -> Float[Array, " N"]:
    """Shifts in [0, 1), evenly spread over any run of components; the midpoint first."""
    return (0.5 + GOLDEN * jnp.arange(count)) % 1.0
