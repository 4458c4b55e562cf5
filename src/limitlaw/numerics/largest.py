"""Gaussian scores sorted by the largest one: a rule for functions of softmax, right at every
scale.

softmax(ℓ) depends on the distances u_k = ℓ_j − ℓ_k ≥ 0 from the largest score j, through e^{−u_k}:
it bends on the scale of 1 near u_k = 0 and is constant beyond 40, however large the scores are. An
average over ℓ ~ N(a, B Bᵀ) is therefore the sum over j of integrals over the orthant u ≥ 0, taken
one u_i after the other given the earlier ones (Genz 1992):

    u_i | u_1, …, u_{i−1} ~ N(m_i, c_i²),
    m_i = μ_i + Σ_{l<i} C_il ε_l,    ε_l = (u_l − m_l)/c_l,    c_i = C_ii,

where C Q, with orthonormal rows Q, are the differences of the rows of B. Gauss–Legendre panels are
cut where softmax bends, where the normal density does, and where the mean of a later u_k changes
sign. At infinite scale only the probabilities that j is the largest are left.
"""

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from limitlaw.arguments import frozen, is_traced
from limitlaw.numerics import Discrete, Floats, Scalar
from limitlaw.numerics.factors import orthonormalise

# cuts where e^{−u} bends: between neighbours it is a polynomial to ten digits
SOFTMAX = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)
# the same for one distance, where the logarithm of e^{−u} may matter
TURNS_OF_ONE = tuple(2.0 * k for k in range(41))
# standard deviations between neighbouring cuts of a normal density, for the same reason
NORMAL_STEP = 2.2
# distances from a special point: of its square five digits are left
SHRINKING = 2.0 ** np.arange(-16, 2)
# widths around the place where a later mean changes sign
CROSSING = (-8.0, -4.0, -1.5, 0.0, 1.5, 4.0, 8.0)
TRACED_PANELS = 16  # most panels, where their number must be fixed
# weights that are left out, and the reach from which on none are
NEGLIGIBLE_WEIGHT, LONG = 1e-17, 10.0

Indices = Int[Array | np.ndarray, " d"]
Flags = Bool[Array | np.ndarray, " d"]


def sorted_scores(
    a: Floats,
    B: Floats,
    order: int,
    reach: float,
    backwards: bool = False,
    special: float | None = None,
) -> Discrete:
    """Nodes z (N, r) and weights (N,) of sum one for averages over scores ℓ = a + B z, z standard
    normal in R^r.

    `order` nodes a panel, normal densities out to `reach` standard deviations, a multiple of 2.2.
    `backwards` takes the distances in the opposite order: another rule, with errors of its own.
    Where a and B are traced by `jit` or `vmap` the number of nodes is fixed, and panels are fewer.
    Nodes and weights have no derivative: with a + B z for given z, none is needed. Of two scores
    one distance may be `special`: panels shrink towards it.
    """
    a, B = frozen(a), frozen(B)
    s = len(a)
    others = np.array([[k for k in range(s) if k != j] for j in range(s)], int).reshape(s, s - 1)
    others = others[:, ::-1] if backwards else others
    ties = others > np.arange(s)[:, None]  # of equal scores the first counts as the largest

    def largest(j: int | Int[Array | np.ndarray, ""], others: Indices, ties: Flags) -> Discrete:
        return _part(a[j] - a[others], B[j] - B[others], ties, order, reach, special)

    if is_traced(a, B):
        z, w = jax.vmap(largest)(np.arange(s), others, ties)
        return z.reshape(-1, z.shape[-1]), w.reshape(-1) / w.sum()
    parts = [largest(j, others[j], ties[j]) for j in range(s)]
    z, w = (np.concatenate(part) for part in zip(*parts, strict=True))
    return z, w / w.sum()


def _part(
    mu: Floats, rows: Floats, ties: Flags, order: int, reach: float, special: float | None
) -> Discrete:
    """Nodes z where all distances u = μ + rows·z from one score are positive, and weights, whose
    sum is the probability of that.
    """
    _, *factors = orthonormalise(jnp.asarray(rows), jnp.zeros((0, rows.shape[-1])))
    C, Q = factors if is_traced(rows) else map(np.asarray, factors)
    eps, w = _Orthant(mu, C, ties, order, reach, special).nodes()
    return eps @ Q, w


class _Orthant:
    """The orthant u = μ + C ε ≥ 0, C lower triangular; `ties`: does u_i ≡ 0 belong to it?"""

    def __init__(
        self, mu: Floats, C: Floats, ties: Flags, order: int, reach: float, special: float | None
    ):
        self.mu, self.C, self.ties, self.reach, self.special = mu, C, ties, reach, special
        self.traced = is_traced(mu, C)
        self.xp = jnp if self.traced else np
        self.points, self.weights = np.polynomial.legendre.leggauss(order)

    def nodes(self) -> Discrete:
        """Nodes ε (N, d) and weights (N,), whose sum is the probability of the orthant."""
        xp = self.xp
        eps: Floats = np.zeros((1, 0))
        w: Floats = np.ones(1)
        for i in range(len(self.mu)):
            m, c = self.mu[i] + eps @ self.C[i, :i], self.C[i, i]
            u, share = self._given(i, m, eps)
            new = xp.where(c > 0, (u - m[:, None]) / xp.where(c > 0, c, 1.0), 0.0)
            eps = xp.concatenate([xp.repeat(eps, u.shape[1], axis=0), new.reshape(-1, 1)], axis=1)
            w = (w[:, None] * share).reshape(-1)
            if not self.traced:
                kept = w > (NEGLIGIBLE_WEIGHT if self.reach < LONG else 0.0)
                eps, w = eps[kept], w[kept]
        return eps, w

    def _given(self, i: int, m: Floats, eps: Floats) -> Discrete:
        """Nodes and weights of u_i ≥ 0 given earlier ones, a row for each of these nodes."""
        xp, c = self.xp, self.C[i, i]
        certain = xp.where((m > 0) | ((m == 0) & self.ties[i]), 1.0, 0.0)  # c = 0: u_i = m
        if not self.traced and c == 0:
            return np.maximum(m, 0)[:, None], certain[:, None]
        scale = xp.where(c > 0, c, 1.0)
        edges = self._edges(i, m, scale, eps)
        u, w = self._panels(edges, m, scale)
        first = np.arange(u.shape[1]) == 0
        u = xp.where(c > 0, u, xp.maximum(m, 0)[:, None])
        return u, xp.where(c > 0, w, first * certain[:, None])

    def _edges(self, i: int, m: Floats, c: Scalar, eps: Floats) -> Floats:
        """The edges of panels, (N, edges), all between max(0, m − reach·c) and m + reach·c."""
        xp = self.xp
        count = round(self.reach / NORMAL_STEP)
        normal = NORMAL_STEP * np.arange(-count, count + 1)
        turns = np.array(TURNS_OF_ONE if len(self.mu) == 1 else SOFTMAX)
        cuts = [xp.broadcast_to(turns, (len(m), len(turns))), m[:, None] + c * normal]
        if self.special is not None:
            steps = np.concatenate([-SHRINKING, [0.0], SHRINKING]) * min(1.0, float(c))
            cuts.append(np.broadcast_to(self.special + steps, (len(m), len(steps))))
        for k in range(i + 1, len(self.mu)):
            cuts.append(self._crossing(k, i, m, c, eps))
        low, high = (xp.maximum(m + side * self.reach * c, 0.0)[:, None] for side in (-1.0, 1.0))
        edges = xp.sort(xp.clip(xp.concatenate(cuts, axis=1), low, high), axis=1)
        return _first_panels(edges, high) if self.traced and len(self.mu) > 1 else edges

    def _crossing(self, k: int, i: int, m: Floats, c: Scalar, eps: Floats) -> Floats:
        """Cuts of u_i where the mean slope·(u_i − centre) of u_k given u_1, …, u_i is 0, and where
        softmax bends if u_k is near it; its deviation is normal.
        """
        xp = self.xp
        deviation = xp.sqrt((self.C[k, i + 1 : k + 1] ** 2).sum())
        flat = self.C[k, i] == 0
        slope = xp.where(flat, 1.0, self.C[k, i] / c)
        centre = m - (self.mu[k] + eps @ self.C[k, :i]) / slope
        near = xp.where(deviation < SOFTMAX[-1] / 2, np.array(SOFTMAX[1:]), 0.0)
        crossing = deviation * np.array(CROSSING[1:-1:2] if self.traced else CROSSING)
        return xp.where(flat, 0.0, centre[:, None] + xp.concatenate([crossing, near]) / slope)

    def _panels(self, edges: Floats, m: Floats, c: Scalar) -> Discrete:
        """Gauss–Legendre nodes on panels; weights by the normal density sum to its mass there."""
        xp = self.xp
        a, b = edges[:, :-1], edges[:, 1:]
        u = ((a + b) / 2)[..., None] + ((b - a) / 2)[..., None] * self.points
        low, high = (a - m[:, None]) / c, (b - m[:, None]) / c
        mirrored = low + high > 0
        Phi = _ndtr(xp)
        mass = Phi(xp.where(mirrored, -low, high)) - Phi(xp.where(mirrored, -high, low))
        nearest = xp.minimum(low**2, high**2)
        w = self.weights * xp.exp((nearest[..., None] - ((u - m[:, None, None]) / c) ** 2) / 2)
        w = w * (mass / w.sum(axis=-1))[..., None]
        shape = len(m), a.shape[1] * len(self.points)
        return u.reshape(shape), w.reshape(shape)


def _first_panels(edges: Floats, high: Floats) -> Floats:
    """The first panels that are not empty; the last goes on to the end, with little left."""
    later = jnp.diff(edges, axis=1) > 0
    kept = jnp.concatenate([jnp.ones_like(later[:, :1]), later], axis=1)
    first = jnp.sort(jnp.where(kept, edges, high), axis=1)[:, :TRACED_PANELS]
    return jnp.append(first, high, axis=1)


def _ndtr(xp: ModuleType) -> Callable[[Floats], Floats]:
    if xp is jnp:
        return jax.scipy.special.ndtr
    from scipy.special import ndtr

    return ndtr
