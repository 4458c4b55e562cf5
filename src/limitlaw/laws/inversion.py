"""Quantities of a sum over heads from its transform:
density, tails, quantiles, and a rule for expectations.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from limitlaw.arguments import is_traced
from limitlaw.laws.averages import pad, padded_size
from limitlaw.laws.head_nodes import Nodes, Number, Numbers
from limitlaw.laws.tracing import kept
from limitlaw.numerics import contours
from limitlaw.numerics.factors import everywhere
from limitlaw.numerics.roots import invert
from limitlaw.numerics.special_functions import log_ndtr, ndtr
from limitlaw.numerics.transform import Transform

NARROWEST = 1e-12  # of the largest variance: nothing finer is resolved
REACH = (45.0, 14.0)  # of the table of contours: standard deviations, and those of the widest node
# times that, for points inside jax.jit: beyond, the widest node is all there is
FARTHEST = 2.0**20
GRID = 2**14  # points on each side of 0 for expectations
TRACED_GRID = 2**8
# the same for replicates, whose spread alone matters
REPLICA_GRID = 2**10
TRACED_REPLICA_GRID = 2**6
NEAREST = 1 / 8  # of the reach of its table, a replicate's shortest one
CELLS = 2**21  # numbers held at a time
# nodes of a mixture, and its terms at all points together, up to which it is summed term by term
FEW, SUMMED = 2**11, 2**24
ROUGHER = 0.6  # of the nodes of contours, to compare with
SCORES = np.linspace(0, 9, 2049)  # normal scores between which quantiles are interpolated, to draw


class Inversion:
    """Nodes and what is computed from them once: the table of contours above all.

    Quantities are NumPy arrays, or JAX arrays where the nodes or the points are traced.
    `share`: of the nodes of contours, where their number is fixed. A `replica` is one of several
    whose spread is asked for: its tables reach as far as the points, and its rule has fewer.
    """

    def __init__(self, nodes: Nodes, share: float = 1.0, replica: bool = False) -> None:
        self.nodes, self._share, self._replica = nodes, share, replica
        self._tables: dict[float, contours.Table] = {}  # by their share of the farthest reach
        self.atom = nodes.atom()  # P(Y = 0)
        self.sd = nodes.xp.sqrt(nodes.variance())
        self.point_mass = not nodes.traced and not self.sd > 0

    @functools.cached_property
    def reach(self) -> float:
        """Of the table of contours: all points that matter."""
        return max(REACH[0] * self.sd, REACH[1] * math.sqrt(self.nodes.ends()[1]))

    @property
    def table(self) -> contours.Table:
        """Contours for all points that matter."""
        return self._table(1.0)

    def _table(self, share: float) -> contours.Table:
        if share not in self._tables:
            reach, atom = share * self.reach, float(self.atom)
            self._tables[share] = contours.table(self.nodes.transform(reach), reach, atom)
        return self._tables[share]

    def _covering(self, x: float) -> contours.Table:
        """The table; of a replica, a shorter one that goes beyond x."""
        share = 1.0
        while self._replica and share > NEAREST and 2 * x < share * self.reach:
            share /= 2
        return self._table(share)

    @functools.cached_property
    def rougher(self) -> "Inversion | None":
        """The same with fewer nodes of contours, where it cannot be seen how many are needed."""
        return (
            Inversion(self.nodes, ROUGHER) if self.nodes.traced and self.nodes.heads > 1 else None
        )

    @functools.cached_property
    def transform(self) -> Transform:
        """φ, for real t and for traced nodes."""
        return self.nodes.transform(
            None if self.nodes.traced or self.point_mass else REACH[0] * self.sd
        )

    @property
    def _powers(self) -> tuple[int, int]:
        return self.nodes.inner, self.nodes.outer

    @functools.cached_property
    def _far(self) -> tuple[Numbers | float, ...]:
        """What φ is made of, for points beyond the table that are not known."""
        return self.nodes.transform(FARTHEST * self.reach).arrays

    def log_density(self, x: Numbers) -> Numbers:
        """log pdf of the part without the atom."""
        return self._at("pdf", self._magnitude(x))

    def tail(self, x: Numbers) -> Number | Numbers:
        """P(Y > |x|)."""
        return self.module(x).exp(self._at("sf", self._magnitude(x)))

    def log_tail(self, x: Numbers, above: bool) -> Number | Numbers:
        """log P(Y > x) if `above`, else log P(Y ≤ x)."""
        xp = self.module(x)
        log = self._at("sf", self._magnitude(x))
        return xp.where((x < 0) ^ above, log, xp.log1p(-xp.exp(log)))

    def cdf(self, x: Numbers) -> Number | Numbers:
        """P(Y ≤ x)."""
        tail = self.tail(x)
        return self.module(x).where(x < 0, tail, 1 - tail)

    def sf(self, x: Numbers) -> Number | Numbers:
        """P(Y > x)."""
        tail = self.tail(x)
        return self.module(x).where(x < 0, 1 - tail, tail)

    def cf(self, t: Numbers) -> Number | Numbers:
        """φ(t) for real t."""
        if is_traced(t) and not self.nodes.traced:
            return jnp.exp(self.transform.in_jax().log(t.reshape(-1) + 0j)).reshape(t.shape)
        t = self.module(t).asarray(t)
        return self.module(t).exp(self.transform.log(t.reshape(-1) + 0j)).reshape(t.shape)

    def module(self, x: object) -> Any:
        """NumPy, or jax.numpy where the nodes or x are traced."""
        return jnp if self.nodes.traced or is_traced(x) else np

    def _magnitude(self, x: Numbers) -> Numbers:
        """|x|, with slope 1 at 0."""
        return jnp.where(x < 0, -x, x) if self.module(x) is jnp else np.asarray(np.abs(x))

    def _at(self, quantity: str, x: Numbers) -> Numbers:
        """log pdf, or log P(Y > x), at x ≥ 0."""
        if self.point_mass:
            xp = self.module(x)
            return xp.where(xp.isnan(x), xp.nan, -xp.inf)
        if self.nodes.traced:
            found = self._inside_jit(quantity, jnp.ravel(x)).reshape(x.shape)
            # all of it may be at 0, as it turns out
            return jnp.where(self.sd > 0, found, -jnp.inf)
        if not is_traced(x):
            return self._at_known(quantity, np.ravel(x)).reshape(x.shape)
        flat, reach = x.reshape(-1), self.reach
        near = self.table.evaluate(quantity, flat)
        found = _beyond(self._far, near, reach, self.atom, flat, quantity, self._powers)
        farthest = (flat > FARTHEST * reach) & jnp.isfinite(flat)
        at_end = self._asymptote(quantity, jnp.asarray(flat))
        return jnp.where(farthest, at_end, found).reshape(x.shape)

    def _at_known(self, quantity: str, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """One head as the mixture it is, unless its nodes are very many; else by the table, and
        beyond it by contours for each octave of x.
        """
        count = self.nodes.variances.size
        if self.nodes.heads == 1 and count <= FEW and x.size * count <= SUMMED:
            return _of_known_head(self.nodes, x, quantity)
        out = np.where(np.isinf(x), -np.inf, np.nan)
        near = x <= self.reach
        if near.any():
            out[near] = self._covering(float(x[near].max())).evaluate(quantity, x[near])
        if near.all():
            return out
        beyond = np.flatnonzero(~near & np.isfinite(x))
        octave = np.floor(np.log2(x[beyond] / self.reach))
        for each in np.unique(octave):
            at = beyond[octave == each]
            transform = self.nodes.transform(float(x[at].max()), float(x[at].min()))
            out[at] = contours.far(transform, quantity, x[at], float(self.atom))
        return out

    def _inside_jit(self, quantity: str, x: Array) -> Array:
        """Point by point, so that memory stays bounded, in reverse too."""
        if self.nodes.heads == 1:
            v, w, u, _ = self.transform.arrays
            return _of_one_head(jnp.ravel(v), jnp.ravel(jnp.asarray(u)[:, None] * w), x, quantity)
        count = math.ceil(self._share * contours.NODES)
        farthest = FARTHEST * REACH[0] * self.sd
        near = jnp.minimum(x, farthest)
        rougher = self._share < 1
        atom = jax.lax.stop_gradient(self.atom)  # it jumps
        arrays = self.transform.arrays
        found = _compiled(arrays, atom, near, quantity, self._powers, count, rougher)
        return jnp.where(x > farthest, self._asymptote(quantity, x), found)

    def _asymptote(self, quantity: str, x: Array) -> Array:
        """log pdf, or log P(Y > x), at x → ∞, where all heads have the largest variance v:
        (Σ_g u_g w_g^p)^q N(x; 0, v), and times v/x.
        """
        nodes = self.nodes
        v = jnp.asarray(nodes.ends()[1])
        safe = jnp.where(v > 0, v, 1.0)
        top = jnp.where(jnp.asarray(nodes.variances) == v, nodes.weights, 0.0).sum(1)
        log_top = jnp.where(top > 0, jnp.log(jnp.where(top > 0, top, 1.0)), -jnp.inf)
        share = nodes.outer * jax.scipy.special.logsumexp(
            nodes.inner * log_top, b=jnp.asarray(nodes.groups)
        )
        at = jnp.where(x > 0, x, 1.0)
        log = share + jax.scipy.stats.norm.logpdf(at, scale=jnp.sqrt(safe))
        return log if quantity == "pdf" else log + jnp.log(safe / at)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """By symmetry the quantile of min(q, 1 − q), or minus it; 0 inside the atom."""
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
        """For levels below ½: between √v z of the widest and of the narrowest node,
        z the normal quantile.
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
        """Points y, weights of an expectation at them, and log pdf there:
        the trapezoidal rule in w, y = a sinh w.
        """
        xp = self.nodes.xp
        low, high = self.nodes.ends()
        least = NARROWEST * high
        a = xp.sqrt(xp.maximum(low, least))
        grids = (REPLICA_GRID, TRACED_REPLICA_GRID) if self._replica else (GRID, TRACED_GRID)
        half = grids[self.nodes.traced]
        end = xp.arcsinh(REACH[1] * xp.sqrt(high) / a)
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
        """Quantiles x(z) at normal scores z ≥ 0, and dx/dz,
        which is the normal density over that at x.
        """
        x = -self.quantile(np.asarray(ndtr(-SCORES)))
        slope = np.exp(-(SCORES**2) / 2 - self.log_density(x)) / math.sqrt(2 * math.pi)
        return jnp.asarray(x), jnp.asarray(slope)


def _of_known_head(
    nodes: Nodes, x: Float[np.ndarray, " x"], quantity: str
) -> Float[np.ndarray, " x"]:
    """log Σ w N(x; 0, v), or log Σ w P(√v Z > x): one head is a mixture. Nodes at 0 are the
    atom.
    """
    w = np.ravel(np.asarray(nodes.groups)[:, None] * nodes.weights)
    v = np.ravel(nodes.variances)
    carries = (v > 0) & (w > 0)
    sd, log_w = np.sqrt(v[carries]), np.log(w[carries])
    if quantity == "pdf":
        log_w = log_w - np.log(sd) - math.log(2 * math.pi) / 2
    parts = []
    for part in np.array_split(x, -(-x.size * sd.size // CELLS)):
        with np.errstate(over="ignore"):
            z = part[:, None] / sd
            log = log_w + (-(z**2) / 2 if quantity == "pdf" else special.log_ndtr(-z))
        most = log.max(1)
        safe = np.where(np.isneginf(most), 0.0, most)
        parts.append(most + np.log(np.exp(log - safe[:, None]).sum(1).clip(1.0)))
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnames="quantity")
def _of_one_head(
    v: Float[Array, " N"], w: Float[Array, " N"], x: Float[Array, " x"], quantity: str
) -> Float[Array, " x"]:
    """The same for traced nodes."""
    safe = jnp.where(v > 0, v, 1.0)
    log_w = jnp.where((v > 0) & (w > 0), jnp.log(jnp.where(w > 0, w, 1.0)), -jnp.inf)

    def one(x: Float[Array, ""]) -> Float[Array, ""]:
        z = x / jnp.sqrt(safe)
        log = (
            jax.scipy.stats.norm.logpdf(z) - 0.5 * jnp.log(safe)
            if quantity == "pdf"
            else log_ndtr(-z)
        )
        return jax.scipy.special.logsumexp(log_w + log)

    return jax.lax.map(jax.checkpoint(one), x)


@functools.partial(jax.jit, static_argnames=("quantity", "powers", "count", "unseen"))
def _compiled(
    arrays: tuple[Array, ...],
    atom: Float[Array, ""],
    x: Float[Array, " x"],
    quantity: str,
    powers: tuple[int, int],
    count: int,
    unseen: bool,
) -> Float[Array, " x"]:
    v, w, u, centre = arrays
    transform = Transform(v, w, u, *powers, centre, jnp)

    def one(a: Float[Array, ""]) -> Float[Array, ""]:
        return contours.direct(transform, quantity, a, atom, count, unseen)

    return jax.lax.map(jax.checkpoint(one), x)


@functools.partial(jax.jit, static_argnames=("quantity", "powers"))
def _beyond(
    arrays: tuple[Array, ...],
    near: Float[Array, " x"],
    reach: Float[Array, ""],
    atom: Float[Array, ""],
    x: Float[Array, " x"],
    quantity: str,
    powers: tuple[int, int],
) -> Float[Array, " x"]:
    """`near` up to `reach`, and beyond it the integral along a contour of each point's own, up to
    FARTHEST times that. Under `vmap` no contour is followed where none of all points is beyond.
    """
    v, w, u, centre = map(jnp.asarray, arrays)
    transform = Transform(v, w, u, *powers, centre, jnp)

    def is_beyond(a: Array) -> Array:
        return (a > reach) & (a <= FARTHEST * reach)

    def one(point: tuple[Array, Array]) -> Array:
        a, at = point
        own = lambda: contours.direct(transform, quantity, a, atom)
        return jax.lax.cond(is_beyond(a), own, lambda: at)

    none = everywhere(~jnp.any(is_beyond(jax.lax.stop_gradient(x))))
    found = jax.lax.cond(none, lambda: near, lambda: jax.lax.map(one, (x, near)))
    return jnp.where(jnp.isposinf(x), -jnp.inf, found)


@jax.jit
def hermite(
    x: Float[Array, " scores"], slope: Float[Array, " scores"], z: Float[Array, " n"]
) -> Float[Array, " n"]:
    """x(z), odd in z, by cubic Hermite interpolation; on a straight line beyond the last score."""
    h = SCORES[1]
    s = jnp.abs(z) / h
    i = jnp.minimum(s.astype(int), len(SCORES) - 2)
    r = jnp.minimum(s - i, 1.0)
    at = (1 + 2 * r) * (1 - r) ** 2 * x[i] + r**2 * (3 - 2 * r) * x[i + 1]
    at = at + h * r * (1 - r) * ((1 - r) * slope[i] - r * slope[i + 1])
    return jnp.sign(z) * (at + (s - i - r) * h * slope[i + 1])
