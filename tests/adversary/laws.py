"""Laws of one number as the reference knows them:
Gaussian mixtures, sums of heads, and their images under φ.

Every figure is a functional of weighted points (v, w), the law of the variance given the scores;
its error comes from the same functional of other points (`Points`).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from adversary.functions import DENSITY
from adversary.integrals import DEEP, FINE, STEPS, legendre, normal_rule

Array = Any
MOST_TERMS = 2**14  # of the Fourier integral of a sum of heads
CHUNK = 2**22  # numbers at a time


class FallsSlowly(Exception):
    """A Fourier integral is out of reach: the sum of heads has to be drawn."""


def drawn_mean(f: Array) -> float:
    """The mean of draws; NaN where fewer than 300 of many carry it:
    their scatter says nothing about its error.
    """
    squares = float(np.sum(f * f))
    if len(f) > 3000 and squares > 0 and float(np.abs(f).sum()) ** 2 < 300 * squares:
        return math.nan
    return float(f.mean())


class Centred:
    """A law of one number X, symmetric about 0, as far as figures need it."""

    order = FINE

    def variance(self) -> float:
        raise NotImplementedError

    def even_moment(self, half: int) -> float:
        """E X^{2·half}."""
        raise NotImplementedError

    def pdf(self, x: float) -> float:
        raise NotImplementedError

    def sf(self, x: float) -> float:
        """P(X > x)."""
        raise NotImplementedError

    def cf(self, t: float) -> float:
        raise NotImplementedError

    def integral(self, f: Callable[[Array], Array], cuts: Callable[[float], Array]) -> float:
        """E f(X), where f(sd·z) is smooth between `cuts(sd)`."""
        raise NotImplementedError

    def entropy(self) -> float:
        raise NotImplementedError

    def zero(self) -> float:
        """P(X = 0)."""
        return 0.0


@dataclasses.dataclass(frozen=True)
class Mixture(Centred):
    """X | v ~ N(0, v), v with weights w; `z` are normals of the draws' own,
    for what is not a function of v.
    """

    v: Array
    w: Array
    z: Array | None = None
    order: int = FINE

    @functools.cached_property
    def sd(self) -> Array:
        return np.sqrt(self.v)

    def mean(self, f: Array) -> float:
        """E f, f a function of v."""
        return float(self.w @ f) if self.z is None else drawn_mean(f)

    def variance(self) -> float:
        return self.mean(self.v)

    def even_moment(self, half: int) -> float:
        return math.prod(range(1, 2 * half, 2)) * self.mean(self.v**half)

    def zero(self) -> float:
        return float(self.w[self.v == 0].sum())

    def pdf(self, x: float) -> float:
        positive = self.v > 0
        sd = np.where(positive, self.sd, 1.0)
        with np.errstate(under="ignore", over="ignore"):
            density = DENSITY / sd * np.exp(-((x / sd) ** 2) / 2)
        return self.mean(np.where(positive, density, 0.0))

    def sf(self, x: float) -> float:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tail = ndtr(-x / self.sd)
        return self.mean(np.where(self.v > 0, tail, 1.0 if x < 0 else 0.0))

    def cf(self, t: float) -> float:
        return self.mean(np.exp(-(t**2) * self.v / 2))

    def integral(self, f: Callable[[Array], Array], cuts: Callable[[float], Array]) -> float:
        if self.z is not None:
            values = f(self.sd * self.z)
            # else what carries it is too rare for these draws
            seen = np.ptp(values) > 0 or not self.v.any()
            return self.mean(values) if seen else math.nan
        total = 0.0
        for sd, weight in zip(self.sd, self.w, strict=True):
            z, w = normal_rule(cuts(float(sd)), self.order)
            total += float(weight) * float(w @ f(sd * z))
        return total

    def entropy(self) -> float:
        """−2 ∫ p log p over x = e^u, by the trapezoidal rule;
        many draws are first averaged in groups of like size.
        """
        v, w = grouped(self.v, self.w)
        if (v == 0).any():
            # NaN: these are too small to be told from 0
            return -math.inf if not v.any() else math.nan
        low, high = math.log(v.min()) / 2 - 36, math.log(v.max()) / 2 + 2.4
        u, step = np.linspace(low, high, max(400, int(24 * (high - low))), retstep=True)
        p = np.concatenate(
            [
                _mixture_density(np.exp(part), v, w)
                for part in np.array_split(u, 1 + len(u) * len(v) // CHUNK)
            ]
        )
        return float(-2 * step * np.sum(np.exp(u) * p * np.log(np.maximum(p, 1e-300))))


def _mixture_density(x: Array, v: Array, w: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-(x[:, None] ** 2) / (2 * v)) @ (w * DENSITY / np.sqrt(v))


def grouped(v: Array, w: Array, groups: int = 1500) -> tuple[Array, Array]:
    """The points in order, averaged in groups; few are left alone."""
    if len(v) <= 3 * groups:
        return v, w
    order = np.argsort(v)
    starts = np.linspace(0, len(v), groups, endpoint=False).astype(int)
    mass = np.add.reduceat(w[order], starts)
    return np.add.reduceat(v[order] * w[order], starts) / np.maximum(mass, 1e-300), mass


@dataclasses.dataclass(frozen=True)
class HeadSum(Centred):
    """H^{−1/2} Σ_a X_a with X_a i.i.d. mixtures over (v, w):
    φ_H(t) = φ_1(t/√H)^H, inverted by the trapezoidal rule.
    """

    v: Array
    w: Array
    heads: int
    order: int = FINE

    @functools.cached_property
    def reach(self) -> float:
        """|X| is below this but for 1e-19: the variance of the sum is at most the largest v."""
        return 9.0 * math.sqrt(self.v.max())

    def _cf(self, t: Array) -> Array:
        parts = np.array_split(t, 1 + len(t) * len(self.v) // CHUNK)
        return np.exp(self.heads * np.concatenate([self._log_of_one(p) for p in parts]))

    def _log_of_one(self, t: Array) -> Array:
        """log φ_1(t/√H): near 1 from φ_1 − 1, whose digits the power H would lose in φ_1."""
        exponents = -(t[:, None] ** 2) * self.v / (2 * self.heads)
        one, less = np.exp(exponents) @ self.w, np.expm1(exponents) @ self.w
        return np.where(
            less > -0.5, np.log1p(np.maximum(less, -0.5)), np.log(np.maximum(one, 1e-300))
        )

    @functools.cached_property
    def _fourier(self) -> tuple[Array, Array]:
        """t = h, 2h, … and φ_H there, as far as it is not negligible;
        the period 2π/h holds the law with room.
        """
        h = 2 * math.pi / (4 * self.reach)
        t = h * np.arange(1, MOST_TERMS + 1)
        end = t[0]
        while self._cf(np.array([end]))[0] > 1e-18:
            end *= 1.5
            if end > t[-1]:
                raise FallsSlowly(
                    "the characteristic function of this sum of heads needs too many terms"
                )
        t = t[t <= end]
        return t, self._cf(t)

    def variance(self) -> float:
        return float(self.w @ self.v)

    def even_moment(self, half: int) -> float:
        """(2·half − 1)!! E v̄^half, v̄ the mean of H i.i.d. v, from their cumulants."""
        raw = [float(self.w @ self.v**k) for k in range(half + 1)]
        return math.prod(range(1, 2 * half, 2)) * moments_of_mean(raw, self.heads)[half]

    def pdf(self, x: float) -> float:
        return float(self._pdfs(np.array([x]))[0])

    def _pdfs(self, x: Array) -> Array:
        t, phi = self._fourier
        h = t[0]
        parts = np.array_split(x, 1 + len(x) * len(t) // CHUNK)
        return np.concatenate([h / math.pi * (0.5 + np.cos(np.outer(p, t)) @ phi) for p in parts])

    def sf(self, x: float) -> float:
        if abs(x) >= self.reach:
            return 0.0 if x > 0 else 1.0
        t, phi = self._fourier
        h = t[0]
        return float(0.5 - h / math.pi * (x / 2 + np.sin(x * t) / t @ phi))

    def cf(self, t: float) -> float:
        return float(self._cf(np.array([t]))[0])

    def integral(self, f: Callable[[Array], Array], cuts: Callable[[float], Array]) -> float:
        x, w = self._rule(cuts)
        return float(w @ (f(x) * self._pdfs(x)))

    def _rule(self, cuts: Callable[[float], Array]) -> tuple[Array, Array]:
        """Nodes x and weights of ∫ dx, cut where f bends,
        and finely near 0, where the density may be peaked.
        """
        peak = 1 / self._fourier[0][-1]
        near = peak * np.concatenate([DEEP[-6:], STEPS])
        edges = np.concatenate([np.linspace(-1, 1, 81) * self.reach, near, -near, cuts(1.0)])
        edges = np.unique(edges[np.abs(edges) <= self.reach])
        nodes, weights = legendre(self.order)
        half = np.diff(edges)[:, None] / 2
        x = (edges[:-1] + edges[1:])[:, None] / 2 + half * nodes
        return x.ravel(), (half * weights).ravel()

    def entropy(self) -> float:
        x, w = self._rule(lambda _: np.zeros(0))
        p = np.maximum(self._pdfs(x), 1e-300)
        return float(-w @ (p * np.log(p)))


def moments_of_mean(raw: Sequence[float], count: int) -> list[float]:
    """E v̄^k, v̄ the mean of `count` independent copies of v, E v^k = raw[k]:
    its cumulants are κ_k/count^{k−1}.
    """
    kappa = [0.0] * len(raw)
    for k in range(1, len(raw)):
        kappa[k] = raw[k] - sum(
            math.comb(k - 1, j - 1) * kappa[j] * raw[k - j] for j in range(1, k)
        )
    kappa = [0.0] + [kappa[k] / count ** (k - 1) for k in range(1, len(raw))]
    out = [1.0] + [0.0] * (len(raw) - 1)
    for k in range(1, len(raw)):
        out[k] = sum(math.comb(k - 1, j - 1) * kappa[j] * out[k - j] for j in range(1, k + 1))
    return out


def quantile(cdf: Callable[[float], float], q: float, scale: float) -> float:
    """The smallest x with cdf(x) ≥ q; where the cdf jumps over q, that point to rounding."""
    low, high = -scale, scale
    if math.isnan(cdf(low) + cdf(high)):
        return math.nan
    while cdf(low) >= q and low > -1e290:
        low *= 4
    while cdf(high) < q and high < 1e290:
        high *= 4
    try:
        return float(
            brentq(lambda x: cdf(x) - q, low, high, xtol=1e-16 * scale, rtol=1e-15, maxiter=400)
        )
    except ValueError:  # the cdf is not known in between
        return math.nan
