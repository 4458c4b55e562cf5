"""Composite Gauss–Legendre quadrature whose panels are halved until polynomials represent the integrand on each."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre

from limitlaw.laws.averages import pad, padded_size

ORDER = 16  # nodes of a panel
LEVELS = 42  # halvings at most: at a pole, down to what rounding leaves
MOST = 4096  # panels at most

U, W = legendre.leggauss(ORDER)
# c_k = (k + ½) Σ_j w_j P_k(u_j) f_j: the Legendre coefficients of the polynomial through the f_j
TRANSFORM = (np.arange(ORDER) + 0.5)[:, None] * W * legendre.legvander(U, ORDER - 1).T

Rows = Float[np.ndarray, "rows x"]


@dataclasses.dataclass(frozen=True)
class Panels:
    """Intervals [lo, hi] in order, without gaps."""

    lo: Float[np.ndarray, " panels"]
    hi: Float[np.ndarray, " panels"]

    @property
    def nodes(self) -> Float[np.ndarray, " x"]:
        """The nodes of all panels, in order."""
        return (self.lo[:, None] + (self.hi - self.lo)[:, None] * (U + 1) / 2).reshape(-1)

    @property
    def weights(self) -> Float[np.ndarray, " x"]:
        """∫ f ≈ weights @ f."""
        return ((self.hi - self.lo)[:, None] * W / 2).reshape(-1)

    def coefficients(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, "panels order"]:
        """Legendre coefficients of f, of nodes, on each panel."""
        return f.reshape(-1, ORDER) @ TRANSFORM.T

    def tails(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, " panels"]:
        """What the last two coefficients carry on each panel, over which they are integrated.

        It bounds the error of the polynomial where coefficients fall off; that of ∫ f is smaller still.
        """
        c = self.coefficients(f)
        return (np.abs(c[:, -1]) + np.abs(c[:, -2])) * (self.hi - self.lo)

    def halves(self, which: np.ndarray) -> "Panels":
        """The two halves of each chosen panel."""
        lo, hi = self.lo[which], self.hi[which]
        middle = (lo + hi) / 2
        return Panels(np.stack([lo, middle], 1).reshape(-1), np.stack([middle, hi], 1).reshape(-1))


def resolve(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows],
    integrand: Callable[[Rows], Float[np.ndarray, " x"]],
    edges: Float[np.ndarray, " e"],
    tolerance: Callable[[float], float],
) -> tuple[Panels, Rows]:
    """Panels that resolve integrand(evaluate(x)) between the outermost edges, and the rows at their nodes.

    A panel is halved while its tail is above `tolerance` at ∫ |integrand|. What is evaluated is evaluated once.
    """
    panels = Panels(edges[:-1], edges[1:])
    rows = evaluated(evaluate, panels)
    for _ in range(LEVELS):
        f = integrand(rows)
        if not np.isfinite(f).all():
            break
        most = tolerance(float(panels.weights @ np.abs(f)))
        narrow = panels.hi - panels.lo < 1e-12 * (edges[-1] - edges[0])
        unresolved = (panels.tails(f) > most) & ~narrow
        if not unresolved.any() or len(panels.lo) + unresolved.sum() > MOST:
            break
        panels, rows = refined(evaluate, panels, rows, unresolved)
    return panels, rows


def evaluated(evaluate: Callable[[Float[np.ndarray, " x"]], Rows], panels: Panels) -> Rows:
    """The rows at the nodes, evaluated at one of few numbers of points, since laws compile for each."""
    x = panels.nodes
    return evaluate(np.asarray(pad(x, padded_size(x.size))))[:, : x.size]


def refined(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows], panels: Panels, rows: Rows, which: np.ndarray
) -> tuple[Panels, Rows]:
    """The chosen panels halved, the others kept."""
    new = panels.halves(which)
    fresh = evaluated(evaluate, new)
    kept = rows.reshape(len(rows), -1, ORDER)[:, ~which]
    lo, hi = np.concatenate([panels.lo[~which], new.lo]), np.concatenate([panels.hi[~which], new.hi])
    order = np.argsort(lo)
    joined = np.concatenate([kept, fresh.reshape(len(rows), -1, ORDER)], 1)[:, order]
    return Panels(lo[order], hi[order]), joined.reshape(len(rows), -1)
