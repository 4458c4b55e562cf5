"""The joint density of sums of i.i.d. heads at given points, by importance sampling with scrambled
Sobol points.

    Y | z ~ N(0, C),   C = H^{-1} Σ_a c(z_a),   z_1, …, z_H independent N(0, I),
    f(y) = E N(y; 0, C)

Three things make it precise. For each y the z_a are drawn where N(y; 0, C) is large, from a
`Proposal` fitted to the posterior law of one head. One covariance c(z_a) serves in many sums:
draws of different heads are combined in several ways (an incomplete U-statistic; Blom 1976). And
the draws are Sobol points: coordinates of different heads are scrambled independently, so that
every combination is unbiased. The error is the spread of independent scramblings.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from limitlaw.numerics.proposals import Proposal, fitted
from limitlaw.numerics.random import Sobol
from limitlaw.numerics.replicates import INDEPENDENT

TARGET = 9e-4  # standard error of the log density that is aimed at
REPLICATES = 16  # independent scramblings
DRAWS, LEAST = 2**13, 2**7  # of all heads in one block of one replicate, and of each head at least
BLOCKS, BUDGET = 256, 40.0  # at most, and seconds for a point
COMBINATIONS = 16  # of the draws of different heads
PILOT, ROUNDS = 2**15, 4  # draws that a proposal is fitted to, and how often at most
CACHED = 2**23  # Sobol numbers kept for the next point: 64 MiB

CovarianceAt = Callable[[Float[np.ndarray, "N d"]], Float[np.ndarray, "N m m"]]


@dataclasses.dataclass(frozen=True)
class Draws:
    """M draws of each of H heads: points, logarithms of their weights, and lower triangles of
    their covariances.
    """

    z: Float[np.ndarray, "H M d"]
    logs: Float[np.ndarray, "H M"]
    triangles: Float[np.ndarray, "H p M"]

    def covariance(self, places: Int[np.ndarray, "H M"]) -> Float[np.ndarray, "p M"]:
        """C = H^{-1} Σ_a c(z_a) for the a-th head at places[a]."""
        total = np.take(self.triangles[0], places[0], axis=1)
        for triangle, place in zip(self.triangles[1:], places[1:], strict=True):
            total += np.take(triangle, place, axis=1)
        return total / len(places)

    def log_terms(
        self, y: Float[np.ndarray, " m"], places: Int[np.ndarray, "H M"]
    ) -> Float[np.ndarray, " M"]:
        """log(weight · N(y; 0, C)) for the heads at these places."""
        weights = np.take_along_axis(self.logs, places, 1).sum(axis=0)
        return log_normal(self.covariance(places), y) + weights

    def combinations(self) -> list[Int[np.ndarray, "H M"]]:
        """Places that combine the heads: draw by draw, then in random order;
        one way for one head.
        """
        heads, count = self.logs.shape
        first = np.broadcast_to(np.arange(count), (heads, count))
        rng = np.random.default_rng(0)
        more = COMBINATIONS - 1 if heads > 1 else 0
        return [first, *(rng.permuted(first, axis=1) for _ in range(more))]


class JointDensity:
    """f(y) for a function c of `dimensions` normals, with the standard error of log f.

    Blocks of draws are added until the stated error of the logarithm is at most `TARGET`, or until
    `BLOCKS` are used or twice as many would take longer than `BUDGET`; it says what was reached.
    """

    def __init__(self, covariance: CovarianceAt, dimensions: int, heads: int, seed: int):
        self._covariance, self._dimensions, self._heads = covariance, dimensions, heads
        self._each = max(LEAST, 2 ** int(math.log2(DRAWS / heads)))
        recipe = [math.inf] * (heads * (dimensions + 1))
        self._points = [Sobol(recipe, seed + i) for i in range(REPLICATES)]
        self._pilot_points = Sobol(recipe, seed + REPLICATES).take(max(LEAST, PILOT // heads))
        self._kept: dict[int, list[Float[np.ndarray, "M n"]]] = {}
        self._known: dict[bytes, tuple[float, float]] = {}

    def log(
        self, y: Float[np.ndarray, "N m"]
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """log f(y) and its standard error, at each of N points."""
        pairs = [self._at(np.ascontiguousarray(point)) for point in y]
        values, errors = np.array(pairs, float).reshape(-1, 2).T
        return values, errors

    @functools.cached_property
    def exists(self) -> bool:
        """Are the covariances of full rank, so that there is a density?"""
        C = np.moveaxis(_square(self._pilot.covariance(self._pilot.combinations()[0])), -1, 0)
        sd = np.sqrt(np.diagonal(C, axis1=1, axis2=2))
        if not (sd > 0).all():
            return False
        correlations = C / (sd[:, :, None] * sd[:, None])
        return bool((np.linalg.eigvalsh(correlations) > 1e-13).all())

    def _at(self, y: Float[np.ndarray, " m"]) -> tuple[float, float]:
        if not np.isfinite(y).all():
            return (math.nan if np.isnan(y).any() else -math.inf), 0.0
        if y.tobytes() not in self._known:
            self._known[y.tobytes()] = self._estimate(y)
        return self._known[y.tobytes()]

    def _estimate(self, y: Float[np.ndarray, " m"]) -> tuple[float, float]:
        """Blocks until the error is small enough: looked at whenever their number has doubled."""
        start = time.monotonic()
        q = self._proposal(y)
        logs = np.full(REPLICATES, -np.inf)
        error = math.inf
        for block in range(BLOCKS):
            logs = np.logaddexp(logs, self._block(y, q, block))
            if (block + 1) & block == 0 and logs.max() > -math.inf:
                sums = np.exp(logs - logs.max())
                error = float(INDEPENDENT.error(sums) / sums.mean())
                if error <= TARGET or 2 * (time.monotonic() - start) > BUDGET:
                    break
        return log_mean(logs) - math.log(block + 1), error

    def _block(
        self, y: Float[np.ndarray, " m"], q: Proposal, block: int
    ) -> Float[np.ndarray, " R"]:
        """log f(y) by the draws of one block, for each replicate."""
        replicates = self._drawn(q, self._numbers(block))
        ways = replicates[0].combinations()
        logs = [np.stack([draws.log_terms(y, places) for places in ways]) for draws in replicates]
        return np.array([log_mean(terms) for terms in logs])

    def _numbers(self, block: int) -> list[Float[np.ndarray, "M n"]]:
        """Sobol numbers of one block, for each replicate:
        the sequences continue from block to block.
        """
        if block in self._kept:
            return self._kept[block]
        for points in self._points:
            points.move_to(block * self._each)
        numbers = [points.take(self._each) for points in self._points]
        if (block + 1) * sum(x.size for x in numbers) <= CACHED:
            self._kept[block] = numbers
        return numbers

    def _drawn(self, q: Proposal, numbers: list[Float[np.ndarray, "M n"]]) -> list[Draws]:
        """Draws from q for each array of Sobol numbers: the covariances of all of them at once."""
        from scipy.special import ndtr

        split = np.stack([x.reshape(len(x), self._heads, -1).swapaxes(0, 1) for x in numbers])
        R, H, M, n = split.shape
        e = split.reshape(-1, n)
        z, logs = q.draw(ndtr(e[:, 0]), e[:, 1:])
        C = self._covariance(z)
        m = C.shape[-1]
        triangles = C.reshape(R, H, M, m * m)[..., _lower(m)].swapaxes(2, 3)
        parts = zip(
            z.reshape(R, H, M, n - 1),
            logs.reshape(R, H, M),
            np.ascontiguousarray(triangles),
            strict=True,
        )
        return [Draws(*part) for part in parts]

    @functools.cached_property
    def _pilot(self) -> Draws:
        """Draws from the prior, which the first proposal for any point is fitted to."""
        return self._drawn(Proposal.prior(self._dimensions), [self._pilot_points])[0]

    def _proposal(self, y: Float[np.ndarray, " m"]) -> Proposal:
        """A proposal fitted to draws of earlier ones, as long as weights get more even."""
        n = self._dimensions
        draws, before = self._pilot, math.inf
        for _ in range(ROUNDS):
            totals, spread = _posterior(draws, y)
            if not totals.any():
                return Proposal.prior(n)
            q = fitted(draws.z.reshape(-1, n), totals.reshape(-1), self._heads)
            if spread > 0.8 * before:
                break
            draws, before = self._drawn(q, [self._pilot_points])[0], spread
        return q


def _posterior(draws: Draws, y: Float[np.ndarray, " m"]) -> tuple[Float[np.ndarray, "H M"], float]:
    """For each draw of a head the weight of all sums it occurs in; Var w/(E w)² of these sums."""
    totals = np.zeros(draws.logs.shape)
    ways = draws.combinations()[: COMBINATIONS // 2]
    logs = np.stack([draws.log_terms(y, places) for places in ways])
    top = float(logs.max())
    if top == -math.inf:
        return totals, math.inf
    w = np.exp(logs - top)
    for places, row in zip(ways, w, strict=True):
        for total, place in zip(totals, places, strict=True):
            total[place] += row
    return totals, float(w.var() / w.mean() ** 2)


def log_normal(C: Float[np.ndarray, "p M"], y: Float[np.ndarray, " m"]) -> Float[np.ndarray, " M"]:
    """log N(y; 0, C) for M covariances, given by their lower triangles;
    −∞ where one is singular to rounding.

    Gaussian elimination of C with y as one more row: the pivots multiply to det C, and what it
    takes from the last row adds up to yᵀ C⁻¹ y. Vectorised over the covariances, since they are
    small and many.
    """
    m = len(y)
    rows = np.concatenate([_square(C), np.broadcast_to(y[None, :, None], (1, m, C.shape[1]))])
    exponent = np.full(C.shape[1], m * math.log(2 * math.pi))
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(m):
            pivot, column = rows[k, k], rows[k + 1 :, k]
            ratio = column / pivot
            exponent += np.log(pivot) + column[-1] * ratio[-1]
            rows[k + 1 :, k + 1 :] -= ratio[:, None] * column[None, :-1]
    return np.where(np.isfinite(exponent), -0.5 * exponent, -np.inf)


def log_mean(logs: Float[np.ndarray, "..."]) -> float:
    """log of the mean of exp, also where that is no float."""
    top = float(logs.max())
    return top if math.isinf(top) else top + math.log(np.exp(logs - top).mean())


def _lower(m: int) -> Int[np.ndarray, " p"]:
    """Where the lower triangle is in a flattened m × m matrix."""
    return np.ravel_multi_index(np.tril_indices(m), (m, m))


def _square(triangle: Float[np.ndarray, "p M"]) -> Float[np.ndarray, "m m M"]:
    """Symmetric matrices from their lower triangles."""
    m = math.isqrt(2 * len(triangle))
    place = np.empty((m, m), int)
    place[np.tril_indices(m)] = np.arange(len(triangle))
    return np.asarray(triangle[np.maximum(np.tril(place), np.tril(place).T)])
