"""Rules for averages over one normal variable, with or without points where the function breaks.

Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56 (2014).
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.domain import DEVIATIONS
from limitlaw.numerics import Reals

# standard deviations of the trapezoidal rule: what lies beyond has probability 4e-33
REACH = DEVIATIONS
# panels reach four deviations farther than functions may be 0
PANEL_LENGTH = 4.0
PANEL_EDGES = PANEL_LENGTH * np.arange(-4, 5)
ON_PANEL = 20  # nodes, which integrate the normal density on one of length 4 to 1e-16
NODES_AT_ONCE = 96  # nodes of one Gauss–Legendre rule, at most
# of the trapezoidal rule, in units of min(1, 1/sd): 1e-11 for the poles of tanh, 1.6 off the axis
TRAPEZOIDAL_STEP = 0.3
GOLDEN = 0.6180339887498949


@dataclasses.dataclass(frozen=True)
class NormalRule:
    """Nodes and weights for E ψ(Y), Y ~ N(mean, sd²), written for one component.

    Without `breaks` it is the trapezoidal rule with so many `nodes`, best for smooth ψ. A shift in
    [0, 1) that differs between components makes it unbiased for every ψ. With `breaks`, points
    where ψ may jump or bend, there are so many Gauss–Legendre nodes on each panel: panels of
    length 4, which are cut at the breaks.
    """

    nodes: int
    breaks: tuple[float, ...] = ()

    def __call__(
        self, mean: Reals | float, sd: Reals | float, shift: Reals | float = 0.5
    ) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        if self.breaks:
            z, w = self._on_panels(mean, sd)
        else:
            h = 2 * REACH / self.nodes
            z = (jnp.arange(self.nodes) + shift) * h - REACH
            w = jnp.full(self.nodes, h)
        return mean + sd * z, w * jnp.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    @property
    def count(self) -> int:
        """The number of nodes on all panels."""
        if not self.breaks:
            return self.nodes
        on_panel = min(self.nodes, NODES_AT_ONCE) * -(-self.nodes // NODES_AT_ONCE)
        return on_panel * (len(self.breaks) + len(PANEL_EDGES) - 1)

    def finer(self, times: float) -> "NormalRule":
        """This rule with `times` as many nodes, and never with fewer."""
        return NormalRule(math.ceil(self.nodes * max(times, 1.0)), self.breaks)

    def _on_panels(self, mean: Reals | float, sd: Reals | float) -> tuple[Array, Array]:
        u, w = np.polynomial.legendre.leggauss(min(self.nodes, NODES_AT_ONCE))
        parts = -(-self.nodes // NODES_AT_ONCE)
        u = ((u + 1) / 2 + np.arange(parts)[:, None]).reshape(-1) / parts
        w = np.tile(w / 2 / parts, parts)
        z = (jnp.array(self.breaks) - mean) / jnp.where(sd > 0, sd, 1)
        edges = jnp.sort(
            jnp.concatenate([PANEL_EDGES, jnp.clip(z, PANEL_EDGES[0], PANEL_EDGES[-1])])
        )
        length = jnp.diff(edges)[:, None]
        return (edges[:-1, None] + length * u).reshape(-1), (length * w).reshape(-1)


def smooth_nodes(sd: float, step: float = TRAPEZOIDAL_STEP) -> int:
    """The number of nodes of the trapezoidal rule for a ψ that varies on the scale of 1: one of
    few numbers, since each is compiled for.
    """
    return math.ceil(2 * REACH / step) * 2 ** math.ceil(math.log2(max(1.0, sd)))


def shifts(count: int) -> Float[Array, " N"]:
    """Shifts in [0, 1), evenly spread over any run of components; the midpoint first."""
    return (0.5 + GOLDEN * jnp.arange(count)) % 1.0
