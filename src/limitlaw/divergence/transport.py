"""The Wasserstein distance of order 2, from quantiles: W₂² = ∫₀¹ (Q_p(u) − Q_q(u))² du = ∫ (Q_p −
Q_q)²(Φ(z)) n(z) dz.

Quantiles at hundreds of normal scores z come from polynomials through the distribution function,
or from the order of samples; for the noise of sampled laws also those of all but one and all but
two of the blocks of their draws.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre

from limitlaw.divergence.compared import Divergence, check_numbers, compared, is_infinite
from limitlaw.divergence.densities import root
from limitlaw.divergence.in_blocks import bias_and_variance, in_blocks, subsets
from limitlaw.divergence.on_panels import TAIL_ROUNDING, ResolvedTails, atoms
from limitlaw.laws import Law
from limitlaw.numerics.panels import Panels

PER_TAIL, PER_TAIL_SAMPLED = 1e-13, 1e-9  # largest error of a panel, relative to ∫ |F|
# normal scores: 1e-19 lies beyond; of the steps whose ratio shows how much that is
FAR_SCORE, CELL_SIZE, LAST_STEPS = 9.0, 0.25, 0.5
# of a cell, of the rule to compare with, and samples of which cells get fewer still
CELL_NODES, FEWER_NODES, MANY_JUMPS = 8, 4, 4096
# cells of a panel in which a quantile is looked for, and steps of Newton's method inside
CELLS_OF_PANEL, NEWTON_STEPS, NEAR_ROOT = 8, 6, 1e-9
FEWEST_FOR_NOISE = 4  # blocks that show the noise

Levels = Float[np.ndarray, " z"]


@compared
def wasserstein2(p: Law, q: Law) -> Divergence:
    """W₂ = min √E (X − Z)² over pairs X ~ p, Z ~ q of one number; samples and atoms are allowed.

    The noise of a sampled law is subtracted, as for `kl`: W₂ is 0 below it.
    """
    check_numbers("wasserstein2", p, q)
    if p is q:
        return Divergence(0.0, 0.0)
    if is_infinite("wasserstein2", "variance", p, q):
        return Divergence(math.inf, 0.0)
    first, second = _quantiles(p), _quantiles(q)
    jumps = np.concatenate([first.jumps(), second.jumps()])
    z, weights = _rule(jumps, CELL_NODES if len(jumps) < MANY_JUMPS else FEWER_NODES // 2)
    x, y = first.at(z, None), second.at(z, None)
    value = float(weights @ (x - y) ** 2)
    coarse, fewer = _rule(jumps, FEWER_NODES if len(jumps) < MANY_JUMPS else 1)
    rough = abs(value - float(fewer @ (first.at(coarse, None) - second.at(coarse, None)) ** 2))
    away, moved = np.abs(x - y), first.rounding(z) + second.rounding(z)
    left = 2 * float(away.max(initial=0)) * (first.error + second.error)
    left += float(weights @ ((2 * away + moved) * moved))
    left += _beyond(np.abs(z), weights * np.maximum(away - moved, 0) ** 2)
    biases, variances = 0.0, 0.0
    for law, other in ((first, y), (second, x)):
        bias, variance = _noise(law, z, weights, other)
        biases, variances = biases + bias, variances + variance
    return root(Divergence(value - biases, math.hypot(rough + left, math.sqrt(variances))))


def _beyond(distance: Levels, terms: Levels) -> float:
    """What lies farther out than the rule, if terms decrease as over the last two of its steps."""
    before, last = (
        float(terms[(distance > far - LAST_STEPS) & (distance <= far)].sum())
        for far in (FAR_SCORE - LAST_STEPS, FAR_SCORE)
    )
    if last == 0:
        return 0.0
    return last * last / (before - last) if before > last else math.inf


def _rule(jumps: Float[np.ndarray, " jumps"], nodes: int) -> tuple[Levels, Levels]:
    """Gauss–Legendre nodes in z between both quantiles' jumps, weights by the normal density."""
    regular = np.linspace(-FAR_SCORE, FAR_SCORE, 1 + round(2 * FAR_SCORE / CELL_SIZE))
    edges = np.unique(np.concatenate([regular, jumps[np.abs(jumps) < FAR_SCORE]]))
    u, w = legendre.leggauss(nodes)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (u + 1)).reshape(-1)
    return z, (half * w).reshape(-1) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def _noise(
    law: "_OfSamples | _Smooth", z: Levels, weights: Levels, other: Levels
) -> tuple[float, float]:
    """Bias and variance of Σ w (Q − other)² from the blocks of a sampled law."""
    if law.blocks < FEWEST_FOR_NOISE:
        return 0.0, 0.0
    values = [float(weights @ (law.at(z, keep) - other) ** 2) for keep in subsets(law.blocks)]
    return bias_and_variance(law.blocks, np.array(values))


def _quantiles(law: Law) -> "_OfSamples | _Smooth":
    if law.discrete:
        return _OfSamples.of(law)
    cut = in_blocks(law)
    return _Smooth.of(cut, PER_TAIL_SAMPLED if cut.whole.kind == "sampled" else PER_TAIL)


@dataclasses.dataclass(frozen=True)
class _OfSamples:
    """Sorted samples, their weights, and the block that each belongs to."""

    points: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    block: np.ndarray
    blocks: int
    error: float = 0.0

    @classmethod
    def of(cls, law: Law) -> "_OfSamples":
        cut = law.blocks()
        parts = (law,) if cut is None else cut.laws
        shares = np.ones(1) if cut is None else cut.weights
        found = [part.atoms() for part in parts]
        points = np.concatenate([np.asarray(a.points) for a in found])
        weights = np.concatenate(
            [share * np.asarray(a.masses) for a, share in zip(found, shares, strict=True)]
        )
        block = np.repeat(np.arange(len(found)), [len(a.points) for a in found])
        order = np.argsort(points, kind="stable")
        return cls(points[order], weights[order], block[order], len(parts))

    def _ends(self, keep: Float[np.ndarray, " b"] | None) -> Float[np.ndarray, " N"]:
        ends = np.cumsum(self.weights if keep is None else self.weights * keep[self.block])
        return ends / ends[-1]

    def jumps(self) -> Float[np.ndarray, " jumps"]:
        """The normal scores at which the quantile jumps."""
        from scipy.special import ndtri

        return ndtri(self._ends(None)[:-1])

    def rounding(self, z: Levels) -> Levels:
        """0: samples are not rounded."""
        return np.zeros_like(z)

    def at(self, z: Levels, keep: Float[np.ndarray, " b"] | None) -> Levels:
        """The quantiles of the law, or of some of its blocks."""
        from scipy.special import ndtr

        return self.points[
            np.minimum(np.searchsorted(self._ends(keep), ndtr(z)), len(self.points) - 1)
        ]


class _Smooth(ResolvedTails):
    """The quantiles of a law with a smooth distribution function."""

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.law.parts)

    @property
    def error(self) -> float:
        """The part of ∫ F that the polynomials leave out."""
        return float(self.panels.tails(self.law.weights @ self.rows).sum())

    def rounding(self, z: Levels) -> Levels:
        """How far quantiles move with the rounding of F, the largest on each panel."""
        F = self.law.weights @ self.rows
        size = np.abs(F).reshape(len(self.panels.lo), -1).max(axis=1)
        moved = F + TAIL_ROUNDING * np.repeat(size, len(F) // len(size))
        return np.abs(_solved(self.panels, moved, z, self.middle) - self.at(z, None))

    def jumps(self) -> Float[np.ndarray, " jumps"]:
        """The normal scores between which an atom is the quantile."""
        from scipy.special import ndtri

        points = atoms(self.law.whole)
        if not len(points):
            return np.zeros(0)
        above = np.asarray(self.law.whole.cdf(points))
        return ndtri(
            np.concatenate(
                [above, np.maximum(above - np.asarray(self.law.whole.atoms().masses), 0)]
            )
        )

    def at(self, z: Levels, keep: Float[np.ndarray, " b"] | None) -> Levels:
        """The quantiles of the law, or of some of its blocks."""
        a = self.law.weights * (1.0 if keep is None else keep)
        return _solved(self.panels, (a / a.sum()) @ self.rows, z, self.middle)


def _solved(panels: Panels, G: Float[np.ndarray, " x"], z: Levels, middle: float) -> Levels:
    """x with F(x) = Φ(z): the cell in which F crosses the level, then Newton's method in it."""
    from scipy.special import ndtr

    c = panels.coefficients(G)
    u = np.linspace(-1, 1, CELLS_OF_PANEL + 1)
    right = (panels.lo >= middle).repeat(len(u))
    grid = legendre.legval(u, c.T).reshape(-1)
    low, high = ndtr(z), ndtr(-z)
    F = np.maximum.accumulate(np.where(right, 1 + grid, grid))
    S = np.maximum.accumulate(np.where(right, -grid, 1 - grid)[::-1])[::-1]
    cell = np.where(
        low < 0.5, np.searchsorted(F, low), len(S) - np.searchsorted(S[::-1], high, side="right")
    )
    below, beyond = cell < 1, cell >= len(F)  # in an atom at an end of the support
    cell = np.clip(cell, 1, len(F) - 1)
    panel, k = divmod(cell, len(u))
    between = k == 0  # a jump of F from one panel to the next
    a, b = u[np.maximum(k - 1, 0)], u[np.where(between, 1, k)]
    target = np.where(panels.lo[panel] >= middle, -high, low)
    coefficients, slopes = c[panel].T, legendre.legder(c[panel].T)
    at = (a + b) / 2
    for _ in range(NEWTON_STEPS):
        value, slope = (legendre.legval(at, each, tensor=False) for each in (coefficients, slopes))
        a, b = np.where(value < target, at, a), np.where(value < target, b, at)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = at - (value - target) / slope
        near = np.abs(step - (a + b) / 2) <= (0.5 + NEAR_ROOT) * (b - a)  # an end may be the root
        at = np.where(near, np.clip(step, a, b), (a + b) / 2)
    x = np.where(between, panels.lo[panel], panels.at(at, panel))
    return np.where(below, panels.lo[0], np.where(beyond, panels.hi[-1], x))
