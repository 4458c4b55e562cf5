"""Rotary embeddings of wide vectors: a score whose query and key stand φ apart is

    p = Σ_m [ f_m(φ) (q N_m kᵀ) + g_m(φ) (q N'_m kᵀ) ],
    Σ_m [ f_m(φ) f_m(φ') + g_m(φ) g_m(φ') ] = c(φ − φ') = ∫₀¹ cos((φ − φ') base^{−u}) du,

with even functions f_m, odd functions g_m and independent matrices of normals, since frequencies
base^{−u} have matrices of their own. Before truncation the f_m are √w cos(θ φ), and the g_m √w
sin(θ φ), at the nodes θ of a quadrature with weights w. On |φ| ≤ `reach` these depend on a few
combinations of the nodes, found by a singular value decomposition: about one for each period of
the fastest wave and each digit.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.numerics.factors import pivoted_factor
from limitlaw.numerics.special_functions import cosine_integral

NEGLECTED = 1e-13  # relative to c(0) = 1
POINTS = 20  # quadrature points in each octave of frequencies, for waves that hardly oscillate


class Waves(NamedTuple):
    """Nodes u, and the combinations of √w cos(θ φ), and of √w sin(θ φ), that the functions are."""

    u: Float[np.ndarray, " nodes"]
    even: Float[np.ndarray, "nodes f"]
    odd: Float[np.ndarray, "nodes g"]

    @property
    def modes(self) -> tuple[int, int]:
        """The number of even functions, and of odd ones."""
        return self.even.shape[1], self.odd.shape[1]

    def at(self, phase: Float[Array, "..."], base: float) -> Float[Array, "... modes"]:
        """The values of the functions at phases, even functions first."""
        angle = phase[..., None] * base**-self.u
        return jnp.concatenate([jnp.cos(angle) @ self.even, jnp.sin(angle) @ self.odd], axis=-1)


@functools.lru_cache(maxsize=64)
def waves(bases: frozenset[float], reach: float) -> Waves:
    """The functions for phases up to `reach`; of several bases if these meet the same matrices."""
    u, w = _quadrature(bases, reach)
    count = int(reach * max(1.0, *(1 / base for base in bases))) + 64
    phases = reach * np.cos(math.pi * (np.arange(count) + 0.5) / (2 * count))
    angles = np.concatenate([phases[:, None] * base**-u for base in sorted(bases)])
    root = np.sqrt(w)
    even, odd = (_combinations(root * wave(angles)) for wave in (np.cos, np.sin))
    return Waves(u, root[:, None] * even, root[:, None] * odd)


def _combinations(A: Float[np.ndarray, "phases nodes"]) -> Float[np.ndarray, "nodes modes"]:
    """The fewest orthonormal columns V with (A V)(A V)ᵀ = A Aᵀ, to `NEGLECTED` in each entry."""
    V = np.linalg.svd(A, full_matrices=False)[2].T
    squares = ((A @ V) ** 2)[:, ::-1]
    # what is lost without a mode and those that follow it
    left = np.cumsum(squares, axis=1)[:, ::-1].max(axis=0)
    return V[:, : int(np.count_nonzero(left > NEGLECTED))]


def _quadrature(
    bases: frozenset[float], reach: float
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Gauss–Legendre nodes and weights on [0, 1], in pieces on which no frequency base^{−u}
    changes by more than a factor of two: exact to rounding for cos((φ − φ') base^{−u}).
    """
    panels = max(1, math.ceil(max(abs(math.log2(base)) for base in bases)))
    edges = np.linspace(0.0, 1.0, panels + 1)
    parts = []
    for a, b in itertools.pairwise(edges):
        turned = reach * max(abs(base**-a - base**-b) for base in bases)
        x, w = np.polynomial.legendre.leggauss(POINTS + math.ceil(0.6 * turned))
        parts.append((a + (b - a) * (x + 1) / 2, (b - a) * w / 2))
    u, w = (np.concatenate(part) for part in zip(*parts, strict=True))
    return u, w


def rotation_factor(delta: object, base: float) -> Float[Array, "..."]:
    """lim (2/D) Σ_m cos(θ_m Δ) = ∫₀¹ cos(Δ base^{−u}) du = (Ci|Δ| − Ci(|Δ|/base))/log base."""
    delta = jnp.abs(jnp.asarray(delta, float))
    if base == 1.0:
        return jnp.cos(delta)
    safe = jnp.where(delta > 0, delta, 1.0)
    ratio = (cosine_integral(safe) - cosine_integral(safe / base)) / math.log(base)
    return jnp.where(delta > 0, ratio, 1.0)


def waves_at(
    phases: Float[Array, " scores"], base: float
) -> tuple[Float[Array, "scores f"], Float[Array, "scores g"]]:
    """The functions f and g at these phases only, of which no bound is known: factors of (c(φ −
    φ') ± c(φ + φ'))/2, with as many columns as there are scores.
    """
    apart = rotation_factor(phases[:, None] - phases, base)
    together = rotation_factor(phases[:, None] + phases, base)
    return pivoted_factor((apart + together) / 2), pivoted_factor((apart - together) / 2)
