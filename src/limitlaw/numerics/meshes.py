"""Edges of cells for quadrature on a line: at the places where a law of one number lives, finely
where something is narrow, and ever more coarsely away from it.
"""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from limitlaw.domain import DEVIATIONS, RATIO_OF_VARIANCES

# standard deviations; 1e-32 lies beyond
EXTENT = DEVIATIONS * np.array([-1, -1 / 2, -1 / 6, 0, 1 / 6, 1 / 2, 1])
FEW_COMPONENTS = 256  # most components that are all looked at
NARROWEST = RATIO_OF_VARIANCES**-0.5  # the finest scale, relative to the widest
OCTAVE = 4.0  # ratio of scales that count as one, where there are more components
RATIO = 4.0  # largest ratio of the lengths of neighbouring cells
NEARBY = 0.5  # distance, in scales, within which a second point says nothing new
SAME_POINT = 1e-13  # distance, relative to |x|, within which two points are one

# where a law of one number lives: points at which its density varies, and on which scale
FineStructure = tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]


def of_components(mean: ArrayLike, sd: ArrayLike) -> FineStructure:
    """The places of Σ_k w_k N(mean_k, sd_k²): components' steps and scales, or some of these."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    mean, sd = mean[sd > 0], sd[sd > 0]
    if len(sd) > FEW_COMPONENTS:
        mean, sd = _some(mean, sd)
    return (mean[:, None] + sd[:, None] * EXTENT).reshape(-1), np.repeat(sd, len(EXTENT))


def _some(mean: Float[np.ndarray, " N"], sd: Float[np.ndarray, " N"]) -> FineStructure:
    """First, middle and last components on every scale, by means, and the outermost two."""
    scale = np.floor(np.log(sd / sd.min()) / np.log(OCTAVE))
    order = np.lexsort((mean, scale))
    starts = np.flatnonzero(np.diff(scale[order], prepend=-1))
    stops = np.append(starts[1:], len(order))
    chosen = np.concatenate([starts, (starts + stops) // 2, stops - 1])
    ends = [np.argmin((mean - EXTENT[-1] * sd)[order]), np.argmax((mean + EXTENT[-1] * sd)[order])]
    chosen = order[np.concatenate([chosen, ends])]
    return mean[chosen], sd[chosen]


def of_scales(low: float, high: float) -> FineStructure:
    """The places of a mixture of N(0, v), √v between `low` and `high`."""
    low = max(low, NARROWEST * high)
    scales = np.geomspace(low, high, 1 + int(np.ceil(np.log(high / low) / np.log(OCTAVE))))
    return of_components(np.zeros_like(scales), scales)


def mesh(
    points: Float[np.ndarray, " p"], scales: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " e"]:
    """Ordered edges of cells, from points and the scales there; one of scale 0 is kept."""
    return graded(spaced(points, scales))


def spaced(
    points: Float[np.ndarray, " p"], scales: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " e"]:
    """The points in order, without those within half their own scale of one with a finer scale."""
    reach = np.maximum(NEARBY * scales, SAME_POINT * np.abs(points))
    reach, points = reach[np.isfinite(points)], points[np.isfinite(points)]
    kept = np.zeros(0)
    for i in np.argsort(reach, kind="stable"):
        if not kept.size or np.abs(kept - points[i]).min() > reach[i]:
            kept = np.append(kept, points[i])
    return np.sort(kept)


def graded(edges: Float[np.ndarray, " e"]) -> Float[np.ndarray, " g"]:
    """The edges, and more, until no cell is longer than `RATIO` times a neighbour: what a short
    one resolves may reach over the edge, where few nodes of a long one would miss it.
    """
    while True:
        length = np.diff(edges)
        left, right = np.append(np.inf, length[:-1]), np.append(length[1:], np.inf)
        least = np.minimum(left, right)
        long = length > RATIO * least * (1 + 1e-9)
        if not long.any():
            return edges
        part = np.minimum(RATIO * least, length / 2)
        cuts = np.where(left <= right, edges[:-1] + part, edges[1:] - part)
        edges = np.sort(np.concatenate([edges, cuts[long]]))
