"""Distribution functions with steps, of samples, compared with each other or smooth ones."""

import dataclasses

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre

from limitlaw.divergence.in_blocks import one_block
from limitlaw.divergence.on_panels import ResolvedTails
from limitlaw.laws import Law
from limitlaw.numerics.panels import Panels

FINE_CELLS = 256  # cells of a panel of the smooth law
SMOOTH_TOLERANCE = 1e-10


@dataclasses.dataclass(frozen=True)
class SteppedDifference:
    """d = F_p − F_q on cells between neighbouring points, inside which it is continuous.

    Cells are small: Simpson's rule serves, and straight lines where d changes sign.
    """

    points: Float[np.ndarray, " points"]
    left: Float[np.ndarray, " cells"]
    middle: Float[np.ndarray, " cells"]
    right: Float[np.ndarray, " cells"]
    coarse: "SteppedDifference | None" = None  # the same difference with cells twice as large

    @classmethod
    def of(cls, p: Law, q: Law) -> "SteppedDifference":
        """The difference of two laws, of which at least one is given by samples."""
        if p.discrete and q.discrete:
            points = np.unique(np.concatenate([law.atoms().points for law in (p, q)]))
            d = np.asarray(p.cdf(points[:-1])) - np.asarray(q.cdf(points[:-1]))
            return cls(points, d, d, d)
        stepped, smooth = (p, q) if p.discrete else (q, p)
        function = Smooth.of(smooth)
        return dataclasses.replace(
            _cells(stepped, function, FINE_CELLS),
            coarse=_cells(stepped, function, FINE_CELLS // 2),
        )

    def integral(self) -> tuple[float, float]:
        """∫ |d|, and its error from cells twice as large."""
        low, inner, high = (np.abs(d) for d in (self.left, self.middle, self.right))
        total = low + high
        crossed = (low**2 + high**2) / np.where(total > 0, total, 1) / 2
        means = np.where(self.left * self.right < 0, crossed, (total + 4 * inner) / 6)
        value = float(np.diff(self.points) @ means)
        return value, 0.0 if self.coarse is None else abs(value - self.coarse.integral()[0])

    def maximum(self) -> float:
        """sup |d|, which is at the ends of cells, since each F rises."""
        return float(np.maximum(np.abs(self.left), np.abs(self.right)).max(initial=0))


@dataclasses.dataclass(frozen=True)
class Smooth:
    """A distribution function as polynomials on panels, F on both sides of the middle."""

    panels: Panels
    coefficients: Float[np.ndarray, "panels order"]

    @classmethod
    def of(cls, law: Law) -> "Smooth":
        """The distribution function of a law, from its tails."""
        tails = ResolvedTails.of(one_block(law), SMOOTH_TOLERANCE)
        panels = tails.panels
        values = tails.rows[0] + np.where(panels.nodes > tails.middle, 1.0, 0.0)
        return cls(panels, panels.coefficients(values))

    def at(
        self, x: Float[np.ndarray, " x"], inside: Float[np.ndarray, " x"]
    ) -> Float[np.ndarray, " x"]:
        """F at x by the polynomial of `inside`'s panel: at a jump, the limit from that side."""
        i = np.clip(
            np.searchsorted(self.panels.lo, inside, side="right") - 1, 0, len(self.panels.lo) - 1
        )
        u = self.panels.coordinate(x, i)
        F = np.clip(legendre.legval(u, self.coefficients[i].T, tensor=False), 0, 1)
        return np.where(
            inside < self.panels.lo[0], 0.0, np.where(inside > self.panels.hi[-1], 1.0, F)
        )


def _cells(stepped: Law, smooth: Smooth, fine: int) -> SteppedDifference:
    lo, hi = smooth.panels.lo[:, None], smooth.panels.hi[:, None]
    grid = (lo + (hi - lo) * np.arange(fine) / fine).reshape(-1)
    points = np.unique(np.concatenate([stepped.atoms().points, grid, smooth.panels.hi[-1:]]))
    a, b = points[:-1], points[1:]
    level, middle = np.asarray(stepped.cdf(a)), (a + b) / 2
    return SteppedDifference(points, *(level - smooth.at(x, middle) for x in (a, middle, b)))
