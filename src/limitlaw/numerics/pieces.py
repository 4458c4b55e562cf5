"""A function of one number cut into pieces on which it is a polynomial to rounding, and its kinks
between them.

As in Chebfun (Pachón, Platte & Trefethen, 2010): a cell is resolved where the last Chebyshev
coefficients of the function vanish; a cell that is not has a jump of f, f' or f'' inside, at which
it is cut, or else is cut into eight. What is resolved is merged again as far as one polynomial
does for both neighbours.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Bool, Float

from limitlaw.numerics.kinks import CannotLook, Kink, Pointwise, Sampled, beside, located, measured

Cells = Float[np.ndarray, " cells"]
Others = Float[np.ndarray, " others"]  # other cells
OnCells = Float[np.ndarray, "degree cells"]
GridOnCells = Float[np.ndarray, "points cells"]

PIECE_DEGREE = 16
RESOLVED = 1e-13  # largest of the last coefficients, relative to the function on the cell
NOISE = 3e-15  # relative to the function closer to 0: what cancellation may leave of it
NEGLIGIBLE_PIECE = 1e-30  # relative to the function on |x| < 20
# structure of length 0.001 is seen on |x| < 20, kinks of a function in the large beyond
INNER, OUTER = 20.0, 1e7
FIRST_WIDTH, SMALLEST_CELL, WIDENING = 0.1, 1e-6, 2 ** (1 / 8)
ALIKE_SIZES = 8.0  # ratio of sizes at which the smaller one is still resolved with the larger
CONTINUED = 1e3  # in units of `RESOLVED`: a polynomial continued to where the function is larger
# points of a cell at which its polynomial is compared with the function, 0.0008 apart
BETWEEN, OFF_CENTRE = 128, 0.43
CUTTINGS = 8
MOST_OPEN = 128  # cells that are cut at a time, the ones closest to 0
MOST_KINKS, MOST_CUTS = 64, 192
SPLIT = 8

_angles = np.pi * np.arange(PIECE_DEGREE + 1) / PIECE_DEGREE
CHEBYSHEV_POINTS = -np.cos(_angles)
_halved = np.where(np.arange(PIECE_DEGREE + 1) % PIECE_DEGREE == 0, 0.5, 1.0)
# Coefficients c_k of Σ_k c_k T_k from values at CHEBYSHEV_POINTS: a discrete cosine transform.
_cosines = np.cos(np.arange(PIECE_DEGREE + 1)[:, None] * (np.pi - _angles))
COEFFICIENTS = 2 / PIECE_DEGREE * _halved[:, None] * _cosines * _halved


@dataclasses.dataclass(frozen=True)
class Pieces:
    """`kinks`, where f, f' or f'' jumps, for |x| < `reach`; `cuts`: f is a polynomial between
    neighbours; `smooth`: is jax's derivative of f its derivative?
    """

    kinks: tuple[Kink, ...]
    cuts: tuple[float, ...]
    reach: float
    smooth: bool

    @property
    def confident(self) -> bool:
        """Are all kinks known where Gaussian variables of moderate size are?"""
        return self.reach >= INNER and self.smooth


def pieces(f: Pointwise, kinks: Iterable[float] | None = None) -> Pieces | None:
    """The pieces of f, cut at `kinks` only if given; None if f cannot be evaluated."""
    try:
        with np.errstate(all="ignore"):
            return _Search(Sampled(f), kinks).pieces()
    except CannotLook:
        return None


def first_edges() -> Float[np.ndarray, " edges"]:
    """Edges of cells of all sizes, none of them where a function is likely to be cut."""
    fine = SMALLEST_CELL * 2.0 ** np.arange(np.floor(np.log2(FIRST_WIDTH / SMALLEST_CELL)))
    even = np.arange(1.2345 * FIRST_WIDTH, INNER, FIRST_WIDTH)
    coarse = INNER * WIDENING ** np.arange(1, np.ceil(np.log(OUTER / INNER) / np.log(WIDENING)))
    positive = np.concatenate([fine, even, coarse]) * 1.01234
    return np.concatenate([-0.98765 * positive[::-1], positive])


class _Search:
    """Cells in the making: those resolved, with coefficients, and points where f is cut."""

    def __init__(self, f: Sampled, declared: Iterable[float] | None):
        self.f = f
        self.declared = None if declared is None else sorted(set(map(float, declared)))
        self.jumps: set[float] = set()
        self.cuts: set[float] = set(self.declared or ())
        self.reach = OUTER
        self.resolved: list[tuple[Cells, Cells, OnCells]] = []

    def pieces(self) -> Pieces:
        """The pieces: cells are cut until all are resolved, then merged."""
        lo, hi = _parted(first_edges(), self.declared or [])
        values = self.f(_nodes(lo, hi))
        self._note_sizes(lo, hi, values)
        for _ in range(CUTTINGS):
            coefficients = COEFFICIENTS @ values
            tolerance = self._tolerance(lo, hi, values)
            good = np.abs(coefficients[-2:]).max(0) <= tolerance  # false where not finite
            good[good] = self._confirmed(
                lo[good], hi[good], coefficients[:, good], tolerance[good]
            )
            self.resolved.append((lo[good], hi[good], coefficients[:, good]))
            lo, hi = self._nearest(lo[~good], hi[~good], values[:, ~good])
            if not len(lo):
                break
            lo, hi = self._cut(lo, hi)
            values = self.f(_nodes(lo, hi))
        self.cuts.update(lo, hi)
        self._give_up(lo, hi)
        return self._result()

    def _confirmed(
        self, lo: Cells, hi: Cells, c: OnCells, tolerance: Cells
    ) -> Bool[np.ndarray, " cells"]:
        """Is f the polynomial between the nodes, too? A narrow peak may lie between them."""
        x = lo + (hi - lo) * (np.arange(BETWEEN) + OFF_CENTRE)[:, None] / BETWEEN
        off = np.abs(self.f(x) - _polynomial(c, lo, hi, x)).max(0)
        return off <= CONTINUED * tolerance  # false where not finite

    def _note_sizes(self, lo: Cells, hi: Cells, values: OnCells) -> None:
        """Note the largest |f| between −x and x, for all x."""
        x = np.abs(_nodes(lo, hi)).ravel()
        order = np.argsort(x)
        sizes = np.abs(values).ravel()[order]
        self._places = x[order]
        self._sizes = np.maximum.accumulate(np.where(np.isfinite(sizes), sizes, 0.0))
        self._negligible = NEGLIGIBLE_PIECE * self._sizes[np.searchsorted(self._places, INNER)]

    def _tolerance(self, lo: Cells, hi: Cells, values: OnCells) -> Cells:
        """How large a smooth f's last coefficients may be: by its rounding or intermediates'."""
        largest = np.abs(values).max(0)
        far = np.maximum(np.abs(lo), np.abs(hi))
        steepness = (values.max(0) - values.min(0)) / (hi - lo)
        place = np.searchsorted(self._places, _distance(lo, hi))
        closer = self._sizes[np.minimum(place, len(self._sizes) - 1)]
        rounding = 8 * np.finfo(float).eps * (largest + far * steepness)
        negligible = 0 * largest + self._negligible
        return np.maximum.reduce([RESOLVED * largest, NOISE * closer, rounding, negligible])

    def _nearest(self, lo: Cells, hi: Cells, values: OnCells) -> tuple[Others, Others]:
        """The cells with finite f closest to 0, nearest first; the others are given up."""
        distance = _distance(lo, hi)
        enough = sorted(map(abs, self.jumps))[MOST_KINKS : MOST_KINKS + 1] or [np.inf]
        alive = np.flatnonzero(np.isfinite(values).any(0) & (distance < enough[0]))
        keep = alive[np.argsort(distance[alive], kind="stable")][:MOST_OPEN]
        lost = np.setdiff1d(np.arange(len(lo)), keep)
        self._give_up(lo[lost], hi[lost])
        return lo[keep], hi[keep]

    def _give_up(self, lo: Cells, hi: Cells) -> None:
        self.reach = min(self.reach, _distance(lo, hi).min(initial=np.inf))

    def _cut(self, lo: Cells, hi: Cells) -> tuple[Others, Others]:
        """The cells cut where f, f' or f'' jumps, else into equal parts."""
        cut = np.full(len(lo), np.nan)
        for order in (0, 1, 2):
            rest = np.flatnonzero(np.isnan(cut))[: MOST_OPEN // 2]
            at, found = located(self.f, order, lo[rest], hi[rest])
            cut[rest[found]] = at[found]
            self.jumps.update(at[found].tolist())
        here = ~np.isnan(cut)
        self.cuts.update(cut[here].tolist())
        parts = lo[~here] + (hi - lo)[~here] * np.arange(SPLIT + 1)[:, None] / SPLIT
        parts[-1] = hi[~here]
        gap = beside(cut[here])
        los = np.concatenate([lo[here], cut[here] + gap, parts[:-1].ravel()])
        his = np.concatenate([cut[here] - gap, hi[here], parts[1:].ravel()])
        return los[los < his], his[los < his]

    def _result(self) -> Pieces:
        lo, hi, c = (np.concatenate(parts, axis=-1) for parts in zip(*self.resolved, strict=True))
        order = np.argsort(lo)
        lo, hi, c = self._merged(lo[order], hi[order], c[:, order])
        kinks, cuts = self._kinks(lo, hi), self.cuts | set(hi[:-1][hi[:-1] == lo[1:]].tolist())
        places = {kink.at for kink in kinks}
        others = sorted(cuts - places, key=abs)[: MOST_CUTS - len(places)]
        kept = tuple(sorted(places.union(others)))
        return Pieces(kinks, kept, float(self.reach), self._is_smooth(lo, hi, c))

    def _kinks(self, lo: Cells, hi: Cells) -> tuple[Kink, ...]:
        """Points between resolved cells at which f, f' or f'' jumps; the nearest if many."""
        if self.declared is not None:
            return measured(self.f, self.declared)
        ends, starts = set(hi.tolist()), set(lo.tolist())
        c = np.array(sorted(self.jumps, key=abs))
        sides = zip(c.tolist(), (c - beside(c)).tolist(), (c + beside(c)).tolist(), strict=True)
        nearest = [at for at, before, behind in sides if before in ends and behind in starts]
        self.reach = min([self.reach, *map(abs, nearest[MOST_KINKS:])])
        return measured(self.f, nearest[:MOST_KINKS])

    def _merged(
        self, lo: Cells, hi: Cells, c: OnCells
    ) -> tuple[Others, Others, Float[np.ndarray, "degree others"]]:
        """Cells joined where one polynomial is enough for both, even and odd pairs in turn."""
        first, idle = 0, 0
        while idle < 2:
            i = np.arange(first, len(lo) - 1, 2)
            i = i[hi[i] == lo[i + 1]]
            joined, good = self._joined(lo[i], hi[i], hi[i + 1], c[:, i], c[:, i + 1])
            i = i[good]
            hi[i], c[:, i] = hi[i + 1], joined[:, good]
            lo, hi, c = np.delete(lo, i + 1), np.delete(hi, i + 1), np.delete(c, i + 1, axis=1)
            first, idle = 1 - first, 0 if len(i) else idle + 1
        return lo, hi, c

    def _joined(
        self, lo: Cells, mid: Cells, hi: Cells, left: OnCells, right: OnCells
    ) -> tuple[OnCells, Bool[np.ndarray, " cells"]]:
        """One polynomial from two halves, and whether it is as good, also where f is smaller."""
        x = _nodes(lo, hi)
        values = np.where(x < mid, _polynomial(left, lo, mid, x), _polynomial(right, mid, hi, x))
        joined = COEFFICIENTS @ values
        tolerance = self._tolerance(lo, hi, values)
        halves = [_Half(left, lo, mid, self._tolerance), _Half(right, mid, hi, self._tolerance)]
        off = [half.difference(joined, lo, hi) for half in halves]
        fits = (np.abs(joined[-2:]).max(0) <= tolerance) & (np.maximum(*off) <= 10 * tolerance)
        sizes = [half.tolerance for half in halves]
        alike = np.maximum(*sizes) <= ALIKE_SIZES * np.minimum(*sizes)
        # Else the polynomial where f is smaller must go on where f is larger.
        goes_on = [
            half.difference(*other.essential()) <= CONTINUED * half.tolerance
            for half, other in (halves, halves[::-1])
        ]
        return joined, fits & (alike | np.where(sizes[0] > sizes[1], *goes_on))

    def _is_smooth(self, lo: Cells, hi: Cells, c: OnCells) -> bool:
        """Are the polynomials' slopes jax's? They are not for a straight-through estimator."""
        middle = 0.5 * (lo + hi)
        step = 1e-3 * (hi - lo)
        ends = [_polynomial(c, lo, hi, (middle + side * step)[None])[0] for side in (-1, 1)]
        slope = (ends[1] - ends[0]) / (2 * step)
        values = _polynomial(c, lo, hi, _nodes(lo, hi))
        steepness = (values.max(0) - values.min(0)) / (hi - lo)
        rounding = 1e3 * self._tolerance(lo, hi, values) / (hi - lo)
        return bool((np.abs(self.f(middle, 1) - slope) <= 0.01 * steepness + rounding).all())


class _Half:
    """A polynomial on cells that may be joined with their neighbours."""

    def __init__(
        self, c: OnCells, lo: Cells, hi: Cells, tolerance: Callable[[Cells, Cells, OnCells], Cells]
    ):
        self.c, self.lo, self.hi = c, lo, hi
        self.x = _nodes(lo, hi)
        self.values = _polynomial(c, lo, hi, self.x)
        self.tolerance = tolerance(lo, hi, self.values)

    def essential(self) -> tuple[OnCells, Cells, Cells]:
        """The polynomial without coefficients that are as small as rounding."""
        return np.where(np.abs(self.c) > self.tolerance, self.c, 0.0), self.lo, self.hi

    def difference(self, c: OnCells, lo: Cells, hi: Cells) -> Cells:
        """The largest difference from another polynomial, which is given on [lo, hi]."""
        return np.abs(_polynomial(c, lo, hi, self.x) - self.values).max(0)


def _parted(edges: Float[np.ndarray, " edges"], at: list[float]) -> tuple[Cells, Cells]:
    """Cells between the edges; a cell with one of the points inside is cut there."""
    c = np.array(at)
    lo = np.concatenate([edges[:-1], c + beside(c)])
    hi = np.concatenate([edges[1:], c - beside(c)])
    return np.sort(lo), np.sort(hi)


def _nodes(lo: Cells, hi: Cells) -> OnCells:
    x = 0.5 * (lo + hi) + 0.5 * (hi - lo) * CHEBYSHEV_POINTS[:, None]
    x[0], x[-1] = lo, hi
    return x


def _polynomial(c: OnCells, lo: Cells, hi: Cells, x: GridOnCells) -> GridOnCells:
    """Σ_k c_k T_k at points x of [lo, hi]."""
    return np.polynomial.chebyshev.chebval((2 * x - (lo + hi)) / (hi - lo), c, tensor=False)


def _distance(lo: Cells, hi: Cells) -> Cells:
    """The distance of each cell from 0."""
    return np.where(lo * hi < 0, 0.0, np.minimum(np.abs(lo), np.abs(hi)))
