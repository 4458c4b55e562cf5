"""Composite Gauss–Legendre quadrature whose panels are halved until polynomials represent the integrand on each."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import legendre

from limitlaw.laws.averages import pad

ORDER = 16  # nodes of a panel
LEVELS = 42  # halvings at most: at a pole, down to what rounding leaves
MOST = 4096  # panels at most
NARROW = 1e-12  # of the whole range
POLE = 1e-5  # the same at a pole of a density, where densities round
TOGETHER = 128  # points evaluated at a time

U, W = legendre.leggauss(ORDER)
# c_k = (k + ½) Σ_j w_j P_k(u_j) f_j: the Legendre coefficients of the polynomial through the f_j
TRANSFORM = (np.arange(ORDER) + 0.5)[:, None] * W * legendre.legvander(U, ORDER - 1).T

Rows = Float[np.ndarray, "rows _"]


@dataclasses.dataclass(frozen=True)
class Panels:
    """Intervals [lo, hi] in order, without gaps, each the image of −1 ≤ u ≤ 1.

    With t = (u + 1)/2: x = lo + (hi − lo) t. Where `pole` is −1, x = lo + (hi − lo) t², and where it is 1,
    x = hi − (hi − lo)(1 − t)²: then a density like |x − end|^{−1/2} is smooth in u, times dx/du.
    """

    lo: Float[np.ndarray, " panels"]
    hi: Float[np.ndarray, " panels"]
    pole: Float[np.ndarray, " panels"]

    @classmethod
    def between(cls, edges: Float[np.ndarray, " e"], poles: Float[np.ndarray, " p"]) -> "Panels":
        """Panels between neighbouring edges; one with poles at both ends is cut in two."""
        at = np.isin(edges, poles)
        both = at[:-1] & at[1:]
        edges = np.sort(np.concatenate([edges, ((edges[:-1] + edges[1:]) / 2)[both]]))
        at = np.isin(edges, poles)
        return cls(edges[:-1], edges[1:], at[1:].astype(float) - at[:-1])

    @property
    def nodes(self) -> Float[np.ndarray, " x"]:
        """The nodes of all panels, in order."""
        t, lo, hi, pole = (U + 1) / 2, self.lo[:, None], self.hi[:, None], self.pole[:, None]
        x = lo + (hi - lo) * np.where(pole < 0, t**2, t)
        return np.where(pole > 0, hi - (hi - lo) * (1 - t) ** 2, x).reshape(-1)

    @property
    def slopes(self) -> Float[np.ndarray, " x"]:
        """dx/du at the nodes."""
        t, pole = (U + 1) / 2, self.pole[:, None]
        slope = np.where(pole < 0, t, np.where(pole > 0, 1 - t, 0.5))
        return ((self.hi - self.lo)[:, None] * slope).reshape(-1)

    @property
    def weights(self) -> Float[np.ndarray, " x"]:
        """∫ f ≈ weights @ f."""
        return self.slopes * np.tile(W, len(self.lo))

    def coordinate(self, x: Float[np.ndarray, " x"], i: Int[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """u of points x of panels i, or the nearest in [−1, 1]."""
        t = np.clip((x - self.lo[i]) / (self.hi - self.lo)[i], 0, 1)
        t = np.where(self.pole[i] < 0, np.sqrt(t), np.where(self.pole[i] > 0, 1 - np.sqrt(1 - t), t))
        return 2 * t - 1

    def coefficients(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, "panels order"]:
        """Legendre coefficients in u of the polynomial through f, given at the nodes, on each panel."""
        return f.reshape(-1, ORDER) @ TRANSFORM.T

    def tails(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, " panels"]:
        """What the last two coefficients of f dx/du carry on each panel, over which they are integrated.

        It bounds the error of the polynomial where coefficients fall off; that of ∫ f is smaller still.
        """
        c = self.coefficients(f * self.slopes)
        return 2 * (np.abs(c[:, -1]) + np.abs(c[:, -2]))

    def halves(self, which: np.ndarray) -> "Panels":
        """The two halves of each chosen panel."""
        lo, hi, pole = self.lo[which], self.hi[which], self.pole[which]
        middle = (lo + hi) / 2
        ends = ((lo, middle), (middle, hi), (np.minimum(pole, 0), np.maximum(pole, 0)))
        return Panels(*(np.stack(pair, 1).reshape(-1) for pair in ends))


def resolve(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows],
    integrand: Callable[[Rows], Float[np.ndarray, " x"]],
    panels: Panels,
    tolerance: Callable[[float], float],
    closest: float = NARROW,
) -> tuple[Panels, Rows]:
    """Panels that resolve integrand(evaluate(x)), from the first `panels`, and the rows at their nodes.

    A panel is halved while its tail is above `tolerance` at ∫ |integrand|. What is evaluated is evaluated once.
    No panel gets narrower than 1e-12 of them all, or than `closest` at a pole, where densities round.
    """
    rows = evaluated(evaluate, panels.nodes)
    for _ in range(LEVELS):
        f = integrand(rows)
        if not np.isfinite(f).all():
            break
        most = tolerance(float(panels.weights @ np.abs(f)))
        least = np.where(panels.pole == 0, NARROW, closest)
        narrow = panels.hi - panels.lo < least * (panels.hi[-1] - panels.lo[0])
        unresolved = (panels.tails(f) > most) & ~narrow
        if not unresolved.any() or len(panels.lo) + unresolved.sum() > MOST:
            break
        panels, rows = refined(evaluate, panels, rows, unresolved)
    return panels, rows


def evaluated(evaluate: Callable[[Float[np.ndarray, " x"]], Rows], x: Float[np.ndarray, " x"]) -> Rows:
    """The rows at x, always so many points at a time: laws compile for each number, and pad it further where larger."""
    starts = range(0, x.size, TOGETHER)
    rows = [evaluate(np.asarray(pad(x[start : start + TOGETHER], TOGETHER))) for start in starts]
    return np.concatenate(rows, 1)[:, : x.size]


def refined(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows], panels: Panels, rows: Rows, which: np.ndarray
) -> tuple[Panels, Rows]:
    """The chosen panels halved, the others kept."""
    new = panels.halves(which)
    fresh = evaluated(evaluate, new.nodes)
    kept = rows.reshape(len(rows), -1, ORDER)[:, ~which]
    pairs = ((panels.lo, new.lo), (panels.hi, new.hi), (panels.pole, new.pole))
    lo, hi, pole = (np.concatenate([old[~which], added]) for old, added in pairs)
    order = np.argsort(lo)
    joined = np.concatenate([kept, fresh.reshape(len(rows), -1, ORDER)], 1)[:, order]
    return Panels(lo[order], hi[order], pole[order]), joined.reshape(len(rows), -1)
