"""Quantities of a sum over heads: density, tails, quantiles, entropy, a rule for expectations."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.domain import RATIO_OF_VARIANCES
from limitlaw.laws.averages import pad, padded_size
from limitlaw.laws.head_nodes import HeadArray, HeadNumber, Nodes
from limitlaw.laws.head_parts import (
    KNOTS,
    HeadPart,
    log_values,
    mixture,
    mixture_of_nodes,
    tilts,
    transform,
)
from limitlaw.laws.tracing import kept
from limitlaw.numerics.factors import everywhere
from limitlaw.numerics.roots import invert
from limitlaw.numerics.special_functions import ndtr

LATTICE, REPLICA_LATTICE = 256, 128  # lattice points of an octave, and those of a replicate
ROUGHER = 0.75  # share of the points in the rule to compare with
FEW_NODES = 2**11  # nodes of a single head, which are then the mixture
SUM_REACH = 40.0, 14.0  # standard deviations, and those of a sum in which one head is the widest
RULE_POINTS, TRACED_RULE = 2**14, 2**8  # points on each side of 0 for expectations
# the same for replicates, whose spread alone matters
REPLICA_RULE, TRACED_REPLICA_RULE = 2**10, 2**6
RULE_REACH = 14.0  # standard deviations of the widest node, to which these reach
# normal scores between which quantiles are interpolated, to draw
NORMAL_SCORES = np.linspace(0, 9, 2049)


class HeadMixture:
    """The nodes of a sum over heads, and what is computed from them once.

    Quantities are NumPy arrays, or JAX arrays where the nodes or the points are traced. A
    `replica` is one of several whose spread is asked for: it has fewer points. `rough`: it has
    only a share ROUGHER of its points.
    """

    def __init__(self, nodes: Nodes, replica: bool = False, rough: bool = False) -> None:
        self.nodes, self._replica, self._rough = nodes, replica, rough
        self.atom = nodes.atom()  # P(Y = 0)
        self.sd = nodes.xp.sqrt(nodes.variance())
        self.point_mass = not nodes.traced and not self.sd > 0
        self._known: dict[int, HeadPart] = {}

    @property
    def is_exact(self) -> bool:
        """Is the law the mixture over the nodes themselves?"""
        few = self.nodes.traced or self.nodes.variances.size <= FEW_NODES
        return self.nodes.heads == 1 and few

    @functools.cached_property
    def rougher(self) -> "HeadMixture | None":
        """The same law with fewer points, whose difference is the error; None if it is exact."""
        return None if self.is_exact else HeadMixture(self.nodes, self._replica, rough=True)

    def log_density(self, x: HeadArray) -> HeadArray:
        """The log density at x of the part without the atom."""
        return self._at("pdf", self._magnitude(x))

    def tail(self, x: HeadArray) -> HeadNumber | HeadArray:
        """P(Y > |x|), the smaller tail."""
        return self.module(x).exp(self._at("sf", self._magnitude(x)))

    def log_tail(self, x: HeadArray, above: bool) -> HeadNumber | HeadArray:
        """log P(Y > x) if `above`, else log P(Y ≤ x)."""
        xp = self.module(x)
        log = self._at("sf", self._magnitude(x))
        return xp.where((x < 0) ^ above, log, xp.log1p(-xp.exp(log)))

    def cdf(self, x: HeadArray) -> HeadNumber | HeadArray:
        """The distribution function P(Y ≤ x)."""
        tail = self.tail(x)
        return self.module(x).where(x < 0, tail, 1 - tail)

    def sf(self, x: HeadArray) -> HeadNumber | HeadArray:
        """The survival function P(Y > x)."""
        tail = self.tail(x)
        return self.module(x).where(x < 0, 1 - tail, tail)

    def cf(self, t: HeadArray) -> HeadNumber | HeadArray:
        """The characteristic function φ(t), for real t."""
        n = self.nodes
        found = transform(n.variances, n.weights, n.groups, jnp.ravel(t), n.inner, n.outer)
        return found.reshape(jnp.shape(t)) + 0j

    def module(self, x: object) -> Any:
        """NumPy, or jax.numpy where the nodes or x are traced."""
        return jnp if self.nodes.traced or is_traced(x) else np

    def _magnitude(self, x: HeadArray) -> HeadArray:
        """|x|, with the slope 1 at 0."""
        return jnp.where(x < 0, -x, x) if self.module(x) is jnp else np.asarray(np.abs(x))

    def _at(self, quantity: str, x: HeadArray) -> HeadArray:
        """log pdf, or log P(Y > x), at x ≥ 0: by the mixture of the nearest of KNOTS."""
        xp = self.module(x)
        if self.point_mass:
            return xp.where(xp.isnan(x), xp.nan, -xp.inf)
        flat: Any = x.reshape(-1)
        found: Any = xp.full(x.size, xp.nan)
        part = xp.searchsorted(xp.asarray(self._ends), flat)
        for j in range(len(self._ends) + 1):
            if xp is np:
                here = np.flatnonzero(part == j)
                if here.size:
                    at = jnp.asarray(pad(flat[here], padded_size(here.size)))
                    found[here] = self._values(j, at, quantity)[: here.size]
            else:
                found = self._where_traced(j, part == j, flat, found, quantity)
        if self.nodes.traced:  # all of it may be at 0, as it turns out
            found = xp.where(self.sd > 0, found, -xp.inf)
        return found.reshape(x.shape)

    def _where_traced(self, j: int, here: Array, x: Array, found: Array, quantity: str) -> Array:
        """`found`, with the values by mixture j where they are asked for."""
        if not self.nodes.traced:
            self._part(j)
        elif j:
            _ = self._tilts  # here: what is kept must not be made inside of `cond`
        at = jnp.where(here, x, jnp.append(0.0, self._ends)[j])

        def values() -> Array:
            return self._values(j, at, quantity)

        none = everywhere(~here.any())  # of all points that are vmapped together
        if not j or not is_traced(seen := frozen(none)):  # where it can be seen: no `cond`
            return found if j and bool(seen) else jnp.where(here, values(), found)
        value = jax.lax.cond(none, lambda: found, values)
        return jnp.where(here, value, found)

    def _values(self, j: int, x: Array, quantity: str) -> Array:
        """log pdf, or log P(Y > x), by mixture j."""
        slope = 1 / frozen(self.nodes.ends()[1]) if self._rough else 0.0
        return log_values(self._part(j), self._farthest, slope, x, quantity)

    def _part(self, j: int) -> HeadPart:
        """The mixture for |x| near KNOTS[j]; inside transformations only the first is kept."""
        if j in self._known:
            return self._known[j]
        points = REPLICA_LATTICE if self._replica else LATTICE
        points = int(ROUGHER * points) if self._rough else points
        part = (
            mixture_of_nodes(self.nodes)
            if self.is_exact
            else mixture(self.nodes, self._tilts[j] if j else 0.0, points)
        )
        if j == 0 or not self.nodes.traced:
            self._known[j] = part
        return part

    @functools.cached_property
    def _tilts(self) -> HeadArray:
        return tilts(self.nodes.frozen())

    @functools.cached_property
    def _ends(self) -> HeadArray:
        """The points at which the next of KNOTS becomes the nearest."""
        middles = (KNOTS[1:] + KNOTS[:-1]) / 2
        return np.zeros(0) if self.is_exact else frozen(self.sd) * middles

    @functools.cached_property
    def _farthest(self) -> HeadNumber:
        """The largest |x| up to which the mixtures reach."""
        sd, high = frozen(self.sd), frozen(self.nodes.ends()[1])
        ends = SUM_REACH[0] * sd, SUM_REACH[1] * (high / self.nodes.heads) ** 0.5
        return 1e100 * sd if self.is_exact else (jnp if is_traced(sd) else np).maximum(*ends)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """The quantile: by symmetry that of min(q, 1 − q), or minus it; 0 inside the atom."""
        lower = np.minimum(q, 1 - q).reshape(-1)
        inside = (lower > 0) & (lower < (1 - self.atom) / 2)
        x = np.zeros(lower.shape)
        if inside.any():
            x = np.where(
                inside, self._lower_quantile(np.where(inside, lower, (1 - self.atom) / 4)), 0.0
            )
        x = (np.where(lower <= 0, -np.inf, x) + 0 * lower).reshape(q.shape)
        return np.where(q <= 0.5, x, -x)

    def _lower_quantile(self, p: np.ndarray) -> np.ndarray:
        """Quantiles for levels below ½, which lie between √v z of the widest and of the narrowest
        node, z the normal quantile.
        """
        level = jnp.asarray(pad(p, padded_size(len(p))))
        z = jax.scipy.special.ndtri(level)
        narrow, wide = (math.sqrt(v) for v in self.nodes.ends())
        width = float(self.sd)

        def tail(x: Array) -> tuple[Array, Array]:
            at = np.asarray(x)
            return jnp.asarray(self.cdf(at)), jnp.asarray(np.exp(self.log_density(at)))

        bracket = (z * wide - 1e-9 * width, jnp.minimum(z * narrow + 1e-9 * width, 0.0))
        lower = jnp.ones(level.shape, bool)
        return np.asarray(invert(tail, level, lower, bracket, width * z, width))[: len(p)]

    @kept
    def rule(self) -> tuple[Array, Array, Array]:
        """Points y, their weights and log pdf: the trapezoidal rule in w, y = a sinh w."""
        xp = self.nodes.xp
        low, high = self.nodes.ends()
        least = high / RATIO_OF_VARIANCES
        a = xp.sqrt(xp.maximum(low, least))
        grids = (
            (REPLICA_RULE, TRACED_REPLICA_RULE) if self._replica else (RULE_POINTS, TRACED_RULE)
        )
        half = grids[self.nodes.traced]
        end = xp.arcsinh(RULE_REACH * xp.sqrt(high) / a)
        w = end * np.arange(half + 1) / half
        y = a * xp.sinh(w)
        log = self.log_density(y)
        weight = xp.exp(log) * a * xp.cosh(w) * end / half
        if not self.nodes.traced and low < least:  # what is narrower has all its mass at 0
            beyond = np.asarray(self.tail(np.asarray([a * np.sinh(0.5 * w[1])])))
            weight[0] = 1 - self.atom - 2 * beyond[0]
        return tuple(  # type: ignore[return-value]
            jnp.asarray(xp.concatenate([sign * side[:0:-1], side]))
            for sign, side in ((-1, y), (1, weight), (1, log))
        )

    @kept
    def scores(self) -> tuple[Array, Array]:
        """Quantiles x(z) at normal scores z ≥ 0, and dx/dz: the normal density over that at x."""
        x = -self.quantile(np.asarray(ndtr(-NORMAL_SCORES)))
        slope = np.exp(-(NORMAL_SCORES**2) / 2 - self.log_density(x)) / math.sqrt(2 * math.pi)
        return jnp.asarray(x), jnp.asarray(slope)


def entropy(law: HeadMixture, every: int = 1) -> Array:
    """−∫ p log p by the trapezoidal rule, or each `every`-th point; −∞ for a point mass."""
    _, weight, log = (a[::every] for a in law.rule)
    return jnp.where(
        law.sd > 0, -every * jnp.sum(jnp.where(weight > 0, weight * log, 0)), -jnp.inf
    )


@jax.jit
def hermite(
    x: Float[Array, " scores"], slope: Float[Array, " scores"], z: Float[Array, " n"]
) -> Float[Array, " n"]:
    """x(z), odd in z, by cubic Hermite interpolation; on a straight line beyond the last score."""
    h = NORMAL_SCORES[1]
    s = jnp.abs(z) / h
    i = jnp.minimum(s.astype(int), len(NORMAL_SCORES) - 2)
    r = jnp.minimum(s - i, 1.0)
    at = (1 + 2 * r) * (1 - r) ** 2 * x[i] + r**2 * (3 - 2 * r) * x[i + 1]
    at = at + h * r * (1 - r) * ((1 - r) * slope[i] - r * slope[i + 1])
    return jnp.sign(z) * (at + (s - i - r) * h * slope[i + 1])
