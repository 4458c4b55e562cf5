"""Where a line is cut for quadrature: finely where something is narrow,
and ever more coarsely away from it.
"""

import numpy as np
from jaxtyping import Float

RATIO = 4.0  # of the lengths of neighbouring cells, at most
NEAR = 0.5  # scales: a point with another one so near says nothing new
ROUNDING = 1e-13  # of |x|: points nearer than this are one


def mesh(
    points: Float[np.ndarray, " p"], scales: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " e"]:
    """Edges of cells, in order, from points at each of which something varies on a scale;
    scale 0 keeps a point.
    """
    return graded(spaced(points, scales))


def spaced(
    points: Float[np.ndarray, " p"], scales: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " e"]:
    """The points in order, without those that lie within half their own scale of one
    with a finer scale.
    """
    reach = np.maximum(NEAR * scales, ROUNDING * np.abs(points))
    reach, points = reach[np.isfinite(points)], points[np.isfinite(points)]
    kept = np.zeros(0)
    for i in np.argsort(reach, kind="stable"):
        if not kept.size or np.abs(kept - points[i]).min() > reach[i]:
            kept = np.append(kept, points[i])
    return np.sort(kept)


def graded(edges: Float[np.ndarray, " e"]) -> Float[np.ndarray, " g"]:
    """The edges, and more of them, until no cell is longer than `RATIO` times a neighbour.

    A rule with few nodes a cell sees of a long one only what varies on its own scale: what a short
    neighbour resolves may reach over the edge between them, and would be missed there.
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
