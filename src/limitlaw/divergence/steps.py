"""Distribution functions with steps, those of samples, against each other or against a smooth one."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre

from limitlaw.divergence.blocks import Blocks
from limitlaw.divergence.edges import edges
from limitlaw.divergence.panels import Panels, resolve
from limitlaw.divergence.tails import Tails
from limitlaw.laws import Empirical, Law

FINE = 256  # cells of a panel of the smooth law
TOLERANCE = 1e-10


@dataclasses.dataclass(frozen=True)
class Steps:
    """d = F_p − F_q on cells between neighbouring points, from `left` to `right`: constant where both are stepped.

    Between samples the smooth F is taken as linear on cells much smaller than its panels.
    """

    points: Float[np.ndarray, " cells+1"]
    left: Float[np.ndarray, " cells"]
    right: Float[np.ndarray, " cells"]
    coarse: Any = None  # the same with cells twice as large

    @classmethod
    def of(cls, p: Law, q: Law) -> "Steps":
        """From two laws, samples one of them at least."""
        if isinstance(p, Empirical) and isinstance(q, Empirical):
            points = np.unique(np.concatenate([p._sorted[0], q._sorted[0]]))
            d = np.asarray(p.cdf(points[:-1])) - np.asarray(q.cdf(points[:-1]))
            return cls(points, d, d)
        stepped, smooth = (p, q) if isinstance(p, Empirical) else (q, p)
        assert isinstance(stepped, Empirical)
        function = Smooth.of(smooth)
        return dataclasses.replace(_cells(stepped, function, FINE), coarse=_cells(stepped, function, FINE // 2))

    def integral(self) -> tuple[float, float]:
        """∫ |d| for d linear on cells, and its error."""
        low, high = np.abs(self.left), np.abs(self.right)
        total = low + high
        crossed = (low**2 + high**2) / np.where(total > 0, total, 1)
        value = float(np.diff(self.points) @ np.where(self.left * self.right < 0, crossed, total)) / 2
        return value, 0.0 if self.coarse is None else abs(value - self.coarse.integral()[0]) / 3

    def maximum(self) -> float:
        """sup |d|, which lies at the ends of cells, since each F rises."""
        return float(np.maximum(np.abs(self.left), np.abs(self.right)).max(initial=0))


@dataclasses.dataclass(frozen=True)
class Smooth:
    """A distribution function as polynomials on panels: F left of the middle, F − 1 right of it."""

    panels: Panels
    coefficients: Float[np.ndarray, "panels order"]

    @classmethod
    def of(cls, law: Law) -> "Smooth":
        """The panels resolve the tails themselves; each lies on one side of the middle."""
        whole = Blocks(law, (law,), np.ones(1))
        tails = Tails.of((whole,))
        ends = edges(law, law, lambda x: tails.rows(x)[0])
        ends = np.unique(np.append(ends, tails.middle))
        panels, rows = resolve(tails.rows, lambda rows: rows[0], ends, lambda scale: TOLERANCE * scale)
        values = rows[0] + np.where(panels.nodes > tails.middle, 1.0, 0.0)
        return cls(panels, panels.coefficients(values))

    def at(self, x: Float[np.ndarray, " x"], inside: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """F at x by the polynomial of the panel that `inside` lies in: at a jump, the limit from that side."""
        i = np.clip(np.searchsorted(self.panels.lo, inside, side="right") - 1, 0, len(self.panels.lo) - 1)
        lo, hi = self.panels.lo[i], self.panels.hi[i]
        u = np.clip(2 * (x - lo) / (hi - lo) - 1, -1, 1)
        F = np.clip(legendre.legval(u, self.coefficients[i].T, tensor=False), 0, 1)
        return np.where(inside < self.panels.lo[0], 0.0, np.where(inside > self.panels.hi[-1], 1.0, F))


def _cells(stepped: Empirical, smooth: Smooth, fine: int) -> Steps:
    lo, hi = smooth.panels.lo[:, None], smooth.panels.hi[:, None]
    grid = (lo + (hi - lo) * np.arange(fine) / fine).reshape(-1)
    points = np.unique(np.concatenate([stepped._sorted[0], grid, smooth.panels.hi[-1:]]))
    a, b = points[:-1], points[1:]
    level, middle = np.asarray(stepped.cdf(a)), (a + b) / 2
    return Steps(points, level - smooth.at(a, middle), level - smooth.at(b, middle))
