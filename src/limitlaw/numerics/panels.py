"""Composite Gauss–Legendre quadrature whose panels are halved until polynomials represent the
integrand on each.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import legendre

PANEL_ORDER = 16  # nodes of a panel
PANEL_HALVINGS = 42  # most halvings: at a pole, down to rounding
MOST_PANELS = 4096  # most panels
NARROWEST_PANEL = 1e-13  # narrowest panel, relative to |x|
# narrowest panel at a pole of a density, relative to |x|: narrower ones only see rounding
POLE = 1e-9
TOGETHER = 128  # points evaluated at a time
ROUNDING_OF_MASS = 1e-13  # rounding of a sum of mass one

U, W = legendre.leggauss(PANEL_ORDER)
# c_k = (k + ½) Σ_j w_j P_k(u_j) f_j: the Legendre coefficients of the polynomial through the f_j
TRANSFORM = (np.arange(PANEL_ORDER) + 0.5)[:, None] * W * legendre.legvander(U, PANEL_ORDER - 1).T

Rows = Float[np.ndarray, "rows _"]


@dataclasses.dataclass(frozen=True)
class Panels:
    """Intervals [lo, hi] in order, without gaps, each the image of −1 ≤ u ≤ 1.

    With t = (u + 1)/2: x = lo + (hi − lo) t. Where `pole` is −1, x = lo + (hi − lo) t², and where
    it is 1, x = hi − (hi − lo)(1 − t)²: then a density like |x − end|^{−1/2} is smooth in u, times
    dx/du.
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

    @functools.cached_property
    def nodes(self) -> Float[np.ndarray, " x"]:
        """The nodes of all panels, in order."""
        start, step = self._steps
        return (start + step).reshape(-1)

    @functools.cached_property
    def _steps(self) -> tuple[Float[np.ndarray, "panels 1"], Float[np.ndarray, "panels order"]]:
        """The end from which nodes are measured (hi if it is a pole, else lo), and distances."""
        t, length, pole = (U + 1) / 2, (self.hi - self.lo)[:, None], self.pole[:, None]
        step = np.where(pole > 0, -((1 - t) ** 2), np.where(pole < 0, t**2, t))
        return np.where(pole > 0, self.hi[:, None], self.lo[:, None]), length * step

    @functools.cached_property
    def _places(self) -> Float[np.ndarray, "panels order"]:
        """u at the floats that nodes round to, which differs from U where |x| is much larger."""
        start, step = self._steps
        x = start + step
        moved = x - start
        # start + step = x + rounded, exactly (Knuth's two-sum)
        rounded = (start - (x - moved)) + (step - moved)
        return U - rounded / self._slopes(np.broadcast_to(U, step.shape))

    @functools.cached_property
    def _transforms(self) -> Float[np.ndarray, "panels order order"]:
        """For each panel the matrix from values at the floats to Legendre coefficients in u."""
        transforms = np.broadcast_to(TRANSFORM, (len(self.lo), PANEL_ORDER, PANEL_ORDER)).copy()
        moved = np.abs(self._places - U).max(1, initial=0)
        some = (moved > 1e-13) & (moved < 1e-3)
        transforms[some] = np.linalg.inv(legendre.legvander(self._places[some], PANEL_ORDER - 1))
        return transforms

    def _slopes(self, u: Float[np.ndarray, "panels order"]) -> Float[np.ndarray, "panels order"]:
        """The derivative dx/du at u."""
        t, pole = (u + 1) / 2, self.pole[:, None]
        return (self.hi - self.lo)[:, None] * np.where(pole < 0, t, np.where(pole > 0, 1 - t, 0.5))

    @functools.cached_property
    def slopes(self) -> Float[np.ndarray, " x"]:
        """The derivative dx/du at the nodes."""
        return self._slopes(self._places).reshape(-1)

    @functools.cached_property
    def weights(self) -> Float[np.ndarray, " x"]:
        """The weights of ∫ f ≈ weights @ f: twice the first coefficient of f dx/du by panels."""
        return 2 * self._transforms[:, 0].reshape(-1) * self.slopes

    def coordinate(
        self, x: Float[np.ndarray, " x"], i: Int[np.ndarray, " x"]
    ) -> Float[np.ndarray, " x"]:
        """u of points x of panels i, or the nearest u in [−1, 1]."""
        t = np.clip((x - self.lo[i]) / (self.hi - self.lo)[i], 0, 1)
        t = np.where(
            self.pole[i] < 0, np.sqrt(t), np.where(self.pole[i] > 0, 1 - np.sqrt(1 - t), t)
        )
        return 2 * t - 1

    def at(self, u: Float[np.ndarray, " x"], i: Int[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """The points of panels i at −1 ≤ u ≤ 1."""
        t = (u + 1) / 2
        t = np.where(self.pole[i] < 0, t**2, np.where(self.pole[i] > 0, 1 - (1 - t) ** 2, t))
        return self.lo[i] + (self.hi - self.lo)[i] * t

    def coefficients(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, "panels order"]:
        """Legendre coefficients in u of the polynomial through f at the nodes of each panel."""
        return np.einsum("pkj,pj->pk", self._transforms, f.reshape(-1, PANEL_ORDER))

    def tails(self, f: Float[np.ndarray, " x"]) -> Float[np.ndarray, " panels"]:
        """What the last two coefficients of f dx/du contribute on each panel: a bound of the error
        of the polynomial where coefficients fall off, and more so of ∫ f.
        """
        c = self.coefficients(f * self.slopes)
        return 2 * (np.abs(c[:, -1]) + np.abs(c[:, -2]))

    def hidden(
        self, f: Float[np.ndarray, " x"], jumps: Float[np.ndarray, " j"]
    ) -> Float[np.ndarray, " panels"]:
        """What a step of f at edges of a panel (not at `jumps`) adds to ∫ f: the difference of the
        polynomials on both sides, times the distance of the nodes.
        """
        if len(self.lo) < 2:
            return np.zeros(len(self.lo))
        c, x = self.coefficients(f), self.nodes.reshape(-1, PANEL_ORDER)
        left, right = c.sum(1)[:-1], (c * (-1.0) ** np.arange(PANEL_ORDER)).sum(1)[1:]
        step = np.where(
            np.isin(self.lo[1:], jumps), 0, np.abs(right - left) * (x[1:, 0] - x[:-1, -1])
        )
        return np.maximum(np.append(step, 0), np.append(0, step))

    def halves(self, which: np.ndarray) -> "Panels":
        """The two halves of each chosen panel."""
        lo, hi, pole = self.lo[which], self.hi[which], self.pole[which]
        middle = (lo + hi) / 2
        ends = ((lo, middle), (middle, hi), (np.minimum(pole, 0), np.maximum(pole, 0)))
        return Panels(*(np.stack(pair, 1).reshape(-1) for pair in ends))


Resolution = Callable[
    [Panels, Float[np.ndarray, " x"]], tuple[Float[np.ndarray, " panels"], float]
]


def of_integral(
    relative: float,
    absolute: Callable[[float], float] = lambda _: 0.0,
    jumps: Float[np.ndarray, " j"] | None = None,
) -> Resolution:
    """A resolution for ∫ f: what a panel's polynomial leaves out of it, what is hidden at edges
    other than `jumps` included; and the most that it may: a part of ∫ |f|, and `absolute` of it.
    """

    def tails(
        panels: Panels, f: Float[np.ndarray, " x"]
    ) -> tuple[Float[np.ndarray, " panels"], float]:
        scale = float(panels.weights @ np.abs(f))
        left = panels.tails(f) + (0 if jumps is None else panels.hidden(f, jumps))
        return left, relative * scale + absolute(scale)

    return tails


def resolve(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows],
    integrand: Callable[[Rows], Float[np.ndarray, " x"]],
    panels: Panels,
    tails: Resolution,
    closest: float = NARROWEST_PANEL,
) -> tuple[Panels, Rows]:
    """Panels that resolve f = integrand(evaluate(x)), from the first `panels`, and the rows at
    their nodes.

    A panel is halved while what `tails` says of it is too much. Each point is evaluated once. No
    panel gets narrower than 1e-13 of its place, or than `closest` at a pole, where densities
    round.
    """
    rows = evaluated(evaluate, panels.nodes)
    for _ in range(PANEL_HALVINGS):
        f = integrand(rows)
        if not np.isfinite(f).all():
            break
        left, most = tails(panels, f)
        least = np.where(panels.pole == 0, NARROWEST_PANEL, closest)
        narrow = panels.hi - panels.lo < least * np.maximum(np.abs(panels.lo), np.abs(panels.hi))
        unresolved = (left > most) & ~narrow
        if not unresolved.any() or len(panels.lo) + unresolved.sum() > MOST_PANELS:
            break
        panels, rows = refined(evaluate, panels, rows, unresolved)
    return panels, rows


def evaluated(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows], x: Float[np.ndarray, " x"]
) -> Rows:
    """The rows at x, by the same number of points at a time, for which laws compile."""
    starts = range(0, x.size, TOGETHER)
    padded = np.append(x, np.full(-x.size % TOGETHER, x[-1]))
    rows = [evaluate(padded[start : start + TOGETHER]) for start in starts]
    return np.concatenate(rows, 1)[:, : x.size]


def refined(
    evaluate: Callable[[Float[np.ndarray, " x"]], Rows],
    panels: Panels,
    rows: Rows,
    which: np.ndarray,
) -> tuple[Panels, Rows]:
    """The panels with the chosen ones halved, and their rows."""
    new = panels.halves(which)
    fresh = evaluated(evaluate, new.nodes)
    kept = rows.reshape(len(rows), -1, PANEL_ORDER)[:, ~which]
    pairs = ((panels.lo, new.lo), (panels.hi, new.hi), (panels.pole, new.pole))
    lo, hi, pole = (np.concatenate([old[~which], added]) for old, added in pairs)
    order = np.argsort(lo)
    joined = np.concatenate([kept, fresh.reshape(len(rows), -1, PANEL_ORDER)], 1)[:, order]
    return Panels(lo[order], hi[order], pole[order]), joined.reshape(len(rows), -1)


def unseen(panels: Panels, density: Float[np.ndarray, " x"]) -> float:
    """The mass of a density that nodes leave out, or count twice, beyond rounding."""
    return max(abs(1 - float(panels.weights @ density)) - ROUNDING_OF_MASS, 0.0)
