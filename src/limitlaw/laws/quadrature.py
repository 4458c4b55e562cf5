"""Gaussian expectations of one number, and integrals over a line."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.laws.averages import pad, padded_size

REACH = 12.0  # standard deviations: what lies beyond has probability 4e-33
STEP = 0.3  # of the trapezoidal rule, in units of min(1, 1/sd): 1e-11 for the poles of tanh, 1.6 off the axis
GOLDEN = 0.6180339887498949


@dataclasses.dataclass(frozen=True)
class Rule:
    """Nodes and weights for E ψ(Y), Y ~ N(mean, sd²), written for one component.

    Without `breaks` the trapezoidal rule, best for smooth ψ. A shift in [0, 1) that differs between components makes
    it unbiased for every ψ. With `breaks`, points where ψ may jump or bend, Gauss–Legendre between them.
    """

    nodes: int
    breaks: tuple[float, ...] = ()

    def __call__(self, mean: Any, sd: Any, shift: Any = 0.5) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        if self.breaks:
            z, w = self._pieces(mean, sd)
        else:
            h = 2 * REACH / self.nodes
            z = (jnp.arange(self.nodes) + shift) * h - REACH
            w = jnp.full(self.nodes, h)
        return mean + sd * z, w * jnp.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def _pieces(self, mean: Any, sd: Any) -> tuple[Array, Array]:
        u, w = np.polynomial.legendre.leggauss(min(self.nodes, 96))
        panels = -(-self.nodes // 96)
        u = ((u + 1) / 2 + np.arange(panels)[:, None]).reshape(-1) / panels
        w = np.tile(w / 2 / panels, panels)
        z = (jnp.array(self.breaks) - mean) / jnp.where(sd > 0, sd, 1)
        z = jnp.where(sd > 0, jnp.clip(z, -REACH, REACH), REACH)  # a point mass: everything in the first piece
        edges = jnp.concatenate([jnp.array([-REACH]), z, jnp.array([REACH])])
        length = jnp.diff(edges)[:, None]
        return (edges[:-1, None] + length * u).reshape(-1), (length * w).reshape(-1)


def smooth_nodes(sd: float, step: float = STEP) -> int:
    """How many nodes the trapezoidal rule takes for a ψ that varies on the scale of 1; few numbers, to compile for."""
    return math.ceil(2 * REACH / step) * 2 ** math.ceil(math.log2(max(1.0, sd)))


def shifts(count: int) -> Float[Array, " N"]:
    """Shifts in [0, 1), evenly spread over any run of components; the midpoint first."""
    return (0.5 + GOLDEN * jnp.arange(count)) % 1.0


def adaptive(
    f: Callable[[Float[Array, " x"]], Float[Array, " x"]], edges: Float[np.ndarray, " e"], tolerance: float = 1e-10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, weights and values of f for ∫ f between the outermost edges; a panel is halved until that changes nothing.

    All open panels are evaluated at once, since f costs a pass over the components of a law.
    """
    u, w = np.polynomial.legendre.leggauss(12)
    u, w = (u + 1) / 2, w / 2
    edges = np.unique(edges)
    lo, hi = edges[:-1], edges[1:]

    def evaluate(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = lo[:, None] + (hi - lo)[:, None] * u
        values = np.asarray(f(pad(x.reshape(-1), padded_size(x.size))))[: x.size]
        return x, (hi - lo)[:, None] * w, values.reshape(x.shape)

    kept = []
    whole = evaluate(lo, hi)
    for level in range(40):
        narrow = hi - lo < 1e-8 * (edges[-1] - edges[0])  # where only the rounding of a pole is left to resolve
        middle = (lo + hi) / 2
        halves = evaluate(np.stack([lo, middle], 1).reshape(-1), np.stack([middle, hi], 1).reshape(-1))
        total = (halves[1] * halves[2]).sum(1).reshape(-1, 2).sum(1)
        change = np.abs(total - (whole[1] * whole[2]).sum(1))
        done = (change < tolerance * 2.0 ** (-level / 2)) | narrow | (level == 39)
        twice = np.repeat(done, 2)
        kept.append([part[twice].reshape(-1) for part in halves])
        if done.all():
            break
        whole = tuple(part[~twice] for part in halves)
        lo, hi = (np.stack([lo, middle], 1)[~done].reshape(-1), np.stack([middle, hi], 1)[~done].reshape(-1))
    x, weights, values = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return x, weights, values
