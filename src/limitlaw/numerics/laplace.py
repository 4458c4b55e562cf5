"""A discrete mixing law on few nodes: its Laplace transform,
to rounding, at a cost that no longer depends on N.
"""

import numpy as np
from jaxtyping import Float

DEGREE = 24  # nodes a panel
# λ times the width of a panel: the interpolation error of e^{λv} is then 1e-15 of its largest
# value
TURN = 12.0
SHARES = 64
# of the largest v, below which panels are wider: an error of 1e-13, for few nodes over many
# decades
FAR = 1e-6
ROUNDED = 1e-14  # of the largest v: no panel is narrower
NEGLIGIBLE = 60.0  # e^{λv} counts as nothing once it is e^{−60} of the largest


def on_few_nodes(
    variances: Float[np.ndarray, "G N"], weights: Float[np.ndarray, "G N"], growth: float
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "G P"]]:
    """Nodes v_j, the same for all groups, and weights W_gj:
    Σ_j W_gj e^{−z v_j} = Σ_k w_gk e^{−z v_gk} to rounding.

    For z of real part ≥ −growth that lie within π/4 of the positive axis where they are large. On
    each panel e^{−zv} is interpolated at Chebyshev points y_j, so that W_gj = Σ_k w_gk ℓ_j(v_gk),
    ℓ_j(y) = Σ_i c_i T_i(y_j) T_i(y); moments up to order DEGREE − 1 stay exact. Panels shrink
    towards 0, where e^{−zv} ends for large z > 0, and towards the largest v, which alone counts
    for large λ = −z.
    """
    zero = np.where(variances == 0, weights, 0).sum(1)
    present = (weights > 0) & (variances > 0)
    if not present.any():
        return np.zeros(1), weights.sum(1)[:, None]
    low, high = variances[present].min(), variances[present].max()
    edges = _edges(low, high, growth)
    count, G = len(edges) - 1, len(variances)
    panel = np.clip(np.searchsorted(edges, variances, side="right") - 1, 0, count - 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    y = (variances - middle[panel]) / half[panel]
    index = (panel + count * np.arange(G)[:, None]).reshape(-1)
    w = np.where(present, weights, 0).reshape(-1)
    points = np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
    W = _interpolated(y.reshape(-1), w, index, count * G, points).reshape(G, count, DEGREE)
    kept = (W != 0).any((0, 2))
    nodes = (middle[:, None] + half[:, None] * points)[kept].reshape(-1)
    flat = W[:, kept].reshape(G, -1)
    return (
        (nodes, flat)
        if not zero.any()
        else (np.append(nodes, 0.0), np.append(flat, zero[:, None], axis=1))
    )


def _edges(low: float, high: float, growth: float) -> np.ndarray:
    """Ends of panels from `low` to `high`."""
    least = max(TURN / growth, ROUNDED * high) if growth > 0 else high
    edges = [high]
    while edges[-1] > low * (1 - 1e-9):
        at = edges[-1]
        most = at / 2 if at > FAR * high else 3 * at / 4
        edges.append(at - min(most, max(least, (high - at) * 2 * TURN / (2 * NEGLIGIBLE))))
    if len(edges) == 2:
        edges[1] = min(edges[1], low)
    return np.array(edges[::-1])


def _interpolated(
    y: np.ndarray, w: np.ndarray, index: np.ndarray, bins: int, points: np.ndarray
) -> np.ndarray:
    """Σ_k w_k ℓ_j(y_k) over the nodes k of each bin, (bins, DEGREE);
    Chebyshev polynomials by their recursion.
    """
    before, now = np.ones_like(points), points
    last, this = w, w * y
    index = index * SHARES + np.arange(index.size) % SHARES  # sums of sums: fewer roundings

    def binned(a: np.ndarray) -> np.ndarray:
        return np.bincount(index, a, bins * SHARES).reshape(bins, SHARES).sum(1)[:, None]

    W = binned(w) * np.ones(DEGREE) / DEGREE
    for _ in range(1, DEGREE):
        W += 2 / DEGREE * binned(this) * now
        before, now = now, 2 * points * now - before
        last, this = this, 2 * y * this - last
    return W


def topmost(
    variances: Float[np.ndarray, "G N"], weights: Float[np.ndarray, "G N"], least: float
) -> tuple[Float[np.ndarray, "G P"], Float[np.ndarray, "G P"]] | None:
    """The nodes that count for λ ≥ `least` > 0, where that is so large that no panel resolves
    e^{λv}; else None.
    """
    high = variances[weights > 0].max()
    if least * ROUNDED * high < 1:
        return None
    kept = ((weights > 0) & (variances > high * (1 - NEGLIGIBLE * ROUNDED))).any(0)
    return variances[:, kept], weights[:, kept]
