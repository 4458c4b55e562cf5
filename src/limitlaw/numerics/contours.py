"""Densities and tails from a transform: the inversion integral along contours through saddle
points.

pdf(x) = (1/2π) ∫ φ(t) e^{−itx} dt and P(Y > x) = (1/2π) ∫ φ(t) e^{−itx}/(it) dt on a line below
the real axis. Through t = −iθ with K'(θ) = x, the saddle point (Daniels 1954; for tails Lugannani
and Rice 1980), nothing cancels. The trapezoidal rule then converges exponentially
(Trefethen and Weideman 2014). The contour is

    t(u) = c sinh u − i (θ + b (cosh u − 1)),    b ≤ c tan(π/8),

straight where a Gaussian's integrand lives, and a hyperbola beyond: it reaches scales far below
the standard deviation in a number of nodes that grows as the logarithm. There e^{−itx} decays for
x > 0 and φ as well, |arg t²| being < π/2.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from limitlaw.numerics import Floats, Numbers, Scalar
from limitlaw.numerics.transform import TINY, Transform

DIGITS = 40.0  # errors are e^{−40} of the integrand at the saddle
WIDTH = 24.0  # c, in units of the integrand's width 1/√K''
STRIP = 0.38  # how far in u the integrand is analytic and decays: a little less than π/8
STEP = 2.0  # between saddles, in the same units: a point in between loses e^{1/2}
BLOCK, LIMIT = 32, 8192  # nodes at a time, and at most
NODES = 8 * BLOCK  # of the contour of a point of its own, and inside jax.jit in one go
GOES = 32  # at most, inside jax.jit: scales 60 decades apart
MOST = 1000  # contours
CELLS = 2**21  # numbers held at a time

Steps = Int[Array, " nodes"] | Int[np.ndarray, " nodes"]
# of the terms of an integral, of their sizes, and of what may come behind the last
Sums = tuple[Float[Array, " x"], Float[Array, " x"], Float[Array, " x"]]


@dataclasses.dataclass(frozen=True)
class Lines:
    """Contours: a shift θ and K(θ), nodes τ = t + iθ (J, n), and G = φ(t) e^{−K} t'(u) h/π (J, n),
    halved at u = 0.
    """

    theta: Floats
    K: Floats
    tau: Numbers
    G: Numbers

    def pick(self, j: Int[Array, " x"] | slice) -> "Lines":
        """Some of them."""
        return Lines(self.theta[j], self.K[j], self.tau[j], self.G[j])

    def ended(self, x: Float[np.ndarray, " x"]) -> Bool[np.ndarray, " x"]:
        """Is the integrand e^{−DIGITS} of that at the saddle, at the last nodes?"""
        G, tau = self.G[:, -2:], self.tau[:, -2:]
        size = np.log(np.maximum(np.abs(G), TINY)) + tau.imag * x[:, None]
        first = np.log(np.abs(self.G[:, :1]))
        return np.asarray((size < first - DIGITS).all(1))

    def terms(self, quantity: str, x: Floats) -> Numbers:
        """Of the integral, at one x ≥ 0 a contour: G e^{−iτx}; for tails over it, and where θ = 0
        G (1 − e^{−iτx})/(iτ).
        """
        xp = np if isinstance(x, np.ndarray) else jnp
        power = -1j * self.tau * x[..., None]
        if quantity == "pdf":
            return self.G * xp.exp(power)
        t = self.tau - 1j * self.theta[..., None]
        first = t == 0
        safe = 1j * xp.where(first, 1, t)
        inside = xp.where(first, x[..., None], -xp.expm1(power) / safe)
        return self.G * xp.where((self.theta == 0)[..., None], inside, xp.exp(power) / safe)

    def at(self, quantity: str, x: Floats, half: Scalar) -> Floats:
        """log pdf, or log P(Y > x), at one x ≥ 0 a contour."""
        xp = np if isinstance(x, np.ndarray) else jnp
        terms = self.terms(quantity, x)
        sums = terms.real.sum(-1), xp.abs(terms).sum(-1)
        return logarithm(quantity, x, half, self.theta, self.K, *sums)


def logarithm(
    quantity: str,
    x: Floats,
    half: Scalar,
    theta: Floats,
    K: Floats,
    total: Floats,
    size: Floats,
) -> Floats:
    """log pdf, or log P(Y > x), from the sum of a contour's terms and that of their sizes: a tail
    where θ = 0 from `half` = P(Y > 0).
    """
    xp = np if isinstance(x, np.ndarray) else jnp
    flat = (theta == 0) & (quantity == "sf")
    # a positive real part, or what rounding leaves of it
    positive = xp.maximum(total, 1e-17 * size + 1e-300)
    return xp.where(flat, 0.0, K - theta * x) + xp.log(xp.where(flat, half - total, positive))


@dataclasses.dataclass(frozen=True)
class Path:
    """Parameters of contours, one entry each: t(u) and where its nodes lie, u = 0, h, 2h, …"""

    theta: Floats
    K: Floats
    c: Floats
    b: Floats
    h: Floats

    def pick(self, j: Int[np.ndarray, " some"]) -> "Path":
        """Some of them."""
        return Path(self.theta[j], self.K[j], self.c[j], self.b[j], self.h[j])

    def lines(self, transform: Transform, atom: Scalar, steps: Steps) -> Lines:
        """The nodes number `steps`, and the integrand there; `atom`: the limit of φ, which has no
        density.
        """
        xp = transform.xp
        u = self.h[:, None] * steps
        tau = self.c[:, None] * xp.sinh(u) - 1j * self.b[:, None] * (xp.cosh(u) - 1)
        slope = self.c[:, None] * xp.cosh(u) - 1j * self.b[:, None] * xp.sinh(u)
        log = transform.log((tau - 1j * self.theta[:, None]).reshape(-1)).reshape(tau.shape)
        phi, limit = xp.exp(log - self.K[:, None]), atom * xp.exp(-self.K[:, None])
        phi = xp.where(abs(phi - limit) > 1e-15 * (1 + transform.heads) * limit, phi - limit, 0)
        G = phi * slope * (self.h[:, None] / np.pi) * xp.where(steps == 0, 0.5, 1)
        return Lines(self.theta, self.K, tau, G)


def path(transform: Transform, theta: Floats, low: Floats, high: Floats) -> Path:
    """Contours through −iθ for x between `low` and `high`.

    The rule's error is e^{−2πΔ/h} times the integrand on the contour moved by ±Δ, so the step in t
    is the largest 2πΔ/(DIGITS + log of that growth), over Δ; for tails Δ < θ, where the pole is.
    """
    xp = transform.xp
    K, _, K2 = transform.cumulant(theta)
    c = WIDTH / xp.sqrt(xp.maximum(K2, TINY))
    b = xp.minimum(np.tan(np.pi / 8) * c, 0.8 * c**2 / xp.maximum(theta, c))
    move = c[:, None] * np.sin(np.linspace(0.02, STRIP, 24))

    def growth(shift: Floats, x: Floats) -> Floats:
        moved = transform.cumulant((theta[:, None] + shift).reshape(-1))[0].reshape(shift.shape)
        return xp.maximum(moved - K[:, None] - shift * x[:, None], 0)

    down = xp.where((theta > 0)[:, None], xp.minimum(move, theta[:, None]), move)
    steps = [d / (DIGITS + g) for d, g in ((move, growth(move, low)), (down, growth(-down, high)))]
    h = 2 * np.pi * xp.minimum(steps[0].max(1), steps[1].max(1))
    return Path(theta, K, c, b, h / c)


@dataclasses.dataclass(frozen=True)
class Table:
    """Contours for all |x| up to `reach`: `ends[j]` is where contour j + 1 takes over from j."""

    lines: Lines
    sizes: Int[np.ndarray, " J"]
    ends: Float[np.ndarray, " ends"]
    reach: float
    half: float

    def evaluate(self, quantity: str, x: Floats) -> Floats:
        """log pdf, or log P(Y > x), at points x ≥ 0 (m,)."""
        if not isinstance(x, np.ndarray):
            lines = self.lines
            arrays = lines.theta, lines.K, lines.tau, lines.G
            return _gathered(arrays, self.ends, self.half, x, quantity)
        out = np.full(x.shape, np.nan)
        which = np.where(np.isnan(x), -1, np.searchsorted(self.ends, x))
        for j in np.unique(which[which >= 0]):
            n, line = self.sizes[j], self.lines.pick(slice(j, j + 1))
            line = dataclasses.replace(line, tau=line.tau[:, :n], G=line.G[:, :n])
            at = np.flatnonzero(which == j)
            for part in np.array_split(at, -(-at.size * n // CELLS)):
                out[part] = line.at(quantity, x[part], self.half)
        return out


@functools.partial(jax.jit, static_argnames="quantity")
def _gathered(
    arrays: tuple[Floats, Floats, Numbers, Numbers],
    ends: Floats,
    half: Scalar,
    x: Floats,
    quantity: str,
) -> Floats:
    """Each point on its own contour, for traced points."""
    return Lines(*arrays).pick(jnp.searchsorted(ends, x)).at(quantity, x, half)


def table(transform: Transform, reach: float, atom: float) -> Table:
    """The contours of a law, in NumPy, out to `reach`."""
    theta = _saddles(transform, reach)
    K = transform.cumulant(theta)[0]
    ends = np.diff(K) / np.diff(theta)  # where K − θx is the same for both
    shape = path(transform, theta, np.append(0.0, ends), np.append(ends, reach))
    low = np.append(0.0, ends)
    blocks: list[tuple[np.ndarray, np.ndarray]] = []  # τ and G
    sizes = np.zeros(len(theta), int)
    active = np.arange(len(theta))
    while active.size and len(blocks) * BLOCK < LIMIT:
        steps = np.arange(BLOCK) + BLOCK * len(blocks)
        part = shape.pick(active).lines(transform, atom, steps)
        tau, G = np.zeros((2, len(theta), BLOCK), complex)
        tau[active], G[active] = part.tau, part.G
        blocks.append((tau, G))
        sizes[active] += BLOCK
        size = np.log(np.maximum(np.abs(part.G), TINY)) + part.tau.imag * low[active, None]
        first = np.log(abs(blocks[0][1][active, :1]))
        active = active[(size[:, -2:] > first - DIGITS).any(1)]
    tau, G = (np.concatenate(parts, 1) for parts in zip(*blocks, strict=True))
    return Table(Lines(theta, K, tau, G), sizes, ends, reach, (1 - atom) / 2)


def _saddles(transform: Transform, reach: float) -> Float[np.ndarray, " J"]:
    """Shifts θ = 0, …, until K'(θ) is beyond `reach`, as many as STEP asks for."""
    theta = [0.0]
    while True:
        _, x, K2 = (float(a[0]) for a in transform.cumulant(np.array(theta[-1:])))
        if x >= reach or len(theta) == MOST:
            return np.array(theta)
        step = STEP / np.sqrt(K2)
        for _ in range(3):
            there = transform.cumulant(np.array([theta[-1] + step]))[2]
            step = STEP / np.sqrt(max(K2, float(there[0])))
        theta.append(theta[-1] + step)


def direct(
    transform: Transform,
    quantity: str,
    x: Float[Array, ""],
    atom: Scalar,
    nodes: int = NODES,
    unseen: bool = False,
) -> Float[Array, ""]:
    """The same in JAX with a contour for x ≥ 0 itself, for traced laws and for the farthest
    points: `nodes` at a time until the integrand has ended, or GOES times. `unseen`: with what may
    lie behind the last node, as much as it has for as many nodes more.
    """
    at = x[None]
    shape = _own_path(transform, transform.stop(at))
    half = (1 - atom) / 2

    def go(sums: Sums, k: Array) -> tuple[Sums, None]:
        def on() -> Sums:
            lines = shape.lines(transform, atom, nodes * k + jnp.arange(nodes))
            terms = lines.terms(quantity, at)
            sizes = jnp.abs(terms)
            left = nodes * sizes[:, -2:].max(-1)
            return sums[0] + terms.real.sum(-1), sums[1] + sizes.sum(-1), left

        going = (k == 0) | (sums[2][0] > math.exp(-DIGITS) * sums[1][0])
        return jax.lax.cond(going, on, lambda: sums), None

    nothing = (jnp.zeros_like(at),) * 3
    (total, size, left), _ = jax.lax.scan(jax.checkpoint(go), nothing, np.arange(GOES))
    if unseen:  # more of a tail, less of what it is taken from
        total = total + jnp.where((shape.theta == 0) & (quantity == "sf"), -left, left)
    return logarithm(quantity, at, half, shape.theta, shape.K, total, size)[0]


def far(
    transform: Transform, quantity: str, x: Float[np.ndarray, " x"], atom: float
) -> Float[np.ndarray, " x"]:
    """The same in NumPy, some points at a time, with as many nodes as it takes until the integrand
    has ended.
    """
    parts = []
    for part in np.array_split(x, -(-x.size * NODES * transform.nodes.size // (8 * CELLS))):
        nodes = NODES
        shape = _own_path(transform, part)
        lines = shape.lines(transform, atom, np.arange(nodes))
        while nodes < LIMIT and not lines.ended(part).all():
            nodes *= 2
            lines = shape.lines(transform, atom, np.arange(nodes))
        parts.append(lines.at(quantity, part, (1 - atom) / 2))
    return np.concatenate(parts)


def _own_path(transform: Transform, at: Floats) -> Path:
    """A contour through the saddle point of each x."""
    still, xp = transform.frozen(), transform.xp
    theta = still.saddle(at)
    sd = xp.sqrt(still.cumulant(xp.zeros(1))[2])
    return path(still, xp.where(at < sd, 0.0, theta), at, at)
