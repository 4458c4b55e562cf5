"""Divergences of Gaussians in closed form, and of small mixtures by a quadrature of its own,
for any scales.
"""

import dataclasses
import itertools
import math

import mpmath
import numpy as np
from mpmath import mpf
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
STEPS = np.arange(-40, 40.25, 0.5)  # standard deviations


def of_gaussians(m: float, v: float, M: float, V: float) -> dict[str, float]:
    """p = N(m, v) against q = N(M, V), to 60 digits.

    Densities are equal at the roots of a quadratic equation, and F_p − F_q is extremal there. W₁
    is E|m − M + (s − S)Z| for a normal Z, since quantiles are m + sZ and M + SZ: the mean of a
    folded normal.
    """
    with mpmath.workdps(60):
        m, v, M, V = map(mpf, (m, v, M, V))
        s, S = mpmath.sqrt(v), mpmath.sqrt(V)
        shift, spread = abs(m - M), abs(s - S)
        W1 = shift
        if spread > 0:
            W1 = spread * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-((shift / spread) ** 2) / 2)
            W1 += shift * mpmath.erf(shift / spread / mpmath.sqrt(2))
        a, b, c = 1 / v - 1 / V, m / v - M / V, m * m / v - M * M / V + mpmath.log(v / V)
        roots = (
            [c / b / 2]
            if a == 0
            else [(b + sign * mpmath.sqrt(b * b - a * c)) / a for sign in (-1, 1)]
        )
        d = [mpmath.ncdf((x - m) / s) - mpmath.ncdf((x - M) / S) for x in roots]
        ends = [mpf(0), *d, mpf(0)]
        variation = sum(abs(after - before) for before, after in itertools.pairwise(ends)) / 2
        KL = (v / V - 1 - mpmath.log(v / V) + (m - M) ** 2 / V) / 2
        return {
            "kl": float(KL),
            "tv": float(variation),
            "w1": float(W1),
            "ks": float(max(map(abs, d))),
        }


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Σ_k w_k N(m_k, s_k²), at points anchor + offset:
    floats near a large anchor would be too far apart.
    """

    m: np.ndarray
    s: np.ndarray
    w: np.ndarray

    def z(self, anchor, offset):
        return ((np.asarray(anchor)[..., None] - self.m) + np.asarray(offset)[..., None]) / self.s

    def log(self, anchor, offset):
        scale = np.log(self.w / self.s) - 0.5 * math.log(2 * math.pi)
        return logsumexp(-(self.z(anchor, offset) ** 2) / 2 + scale, axis=-1)

    def tail(self, anchor, offset, upper):
        """F, or F − 1 where `upper`."""
        z = self.z(anchor, offset)
        upper = np.asarray(upper)[..., None]
        return (np.where(upper, -1, 1) * self.w * ndtr(np.where(upper, -z, z))).sum(-1)


def of_mixtures(p: Mixture, q: Mixture) -> dict[str, float]:
    """20 Gauss–Legendre nodes in cells of half a standard deviation around every component,
    cut where signs change.
    """
    anchor, lo, hi = cells(p, q)
    upper = anchor + lo > np.median(np.concatenate([p.m, q.m]))

    def density(i, offset):
        return np.exp(p.log(anchor[i], offset)) - np.exp(q.log(anchor[i], offset))

    def distribution(i, offset):
        return p.tail(anchor[i], offset, upper[i]) - q.tail(anchor[i], offset, upper[i])

    every = np.broadcast_to(np.arange(len(lo))[:, None], (len(lo), len(NODES)))
    x = nodes(lo[:, None], hi[:, None])
    lp, lq = (law.log(anchor[every], x) for law in (p, q))
    r = lq - lp
    with np.errstate(over="ignore", invalid="ignore"):
        f = np.where(
            r < 1, np.exp(lp) * (np.expm1(np.minimum(r, 1)) - r), np.exp(lq) - np.exp(lp) * (1 + r)
        )
    KL = (hi - lo) / 2 @ (np.where(np.isfinite(f), f, 0) @ WEIGHTS)
    TV, places = absolute(density, lo, hi)
    W1, _ = absolute(distribution, lo, hi)
    K = max(abs(float(distribution(i, at))) for i, at in places)
    return {"kl": float(KL), "tv": TV / 2, "w1": W1, "ks": K}


def cells(p: Mixture, q: Mixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals as offsets from an anchor each, the mean of the narrowest component there."""
    m, s = np.concatenate([p.m, q.m]), np.concatenate([p.s, q.s])
    own, step = np.repeat(np.arange(len(m)), len(STEPS)), np.tile(STEPS, len(m))
    order = np.lexsort((step, m[own] + s[own] * step))
    own, step = own[order], step[order]
    x = m[own] + s[own] * step
    middle = ((x[:-1] + x[1:]) / 2)[:, None]
    inside = np.abs(middle - m) <= 41 * s
    nearest = np.argmin(np.abs(middle - m) / s, 1)
    a = np.where(inside.any(1), np.argmin(np.where(inside, s, np.inf), 1), nearest)
    lo, hi = ((m[own[i]] - m[a]) + s[own[i]] * step[i] for i in (slice(None, -1), slice(1, None)))
    kept = hi > lo
    return m[a][kept], lo[kept], hi[kept]


def nodes(lo, hi):
    return (lo + hi) / 2 + (hi - lo) / 2 * NODES


def absolute(f, lo: np.ndarray, hi: np.ndarray) -> tuple[float, list[tuple[int, float]]]:
    """∫ |f| over all cells, and where f changes its sign, as (cell, offset)."""
    every = np.broadcast_to(np.arange(len(lo))[:, None], (len(lo), len(NODES) + 2))
    x = np.concatenate([lo[:, None], nodes(lo[:, None], hi[:, None]), hi[:, None]], 1)
    values = f(every, x)
    parts = (hi - lo) / 2 * (np.abs(values[:, 1:-1]) @ WEIGHTS)
    places = []
    for i in np.flatnonzero((values.min(1) < 0) & (values.max(1) > 0)):
        changes = np.flatnonzero(values[i, :-1] * values[i, 1:] < 0)
        cuts = [
            brentq(lambda t, i=i: float(f(i, t)), *x[i, j : j + 2], xtol=1e-300, rtol=1e-15)
            for j in changes
        ]
        places += [(i, cut) for cut in cuts]
        ends = np.array([lo[i], *cuts, hi[i]])
        parts[i] = sum(
            (b - a) / 2 * abs(f(i, nodes(a, b)) @ WEIGHTS) for a, b in itertools.pairwise(ends)
        )
    return float(parts.sum()), places
