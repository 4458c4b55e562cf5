"""Where to integrate: between which points, and where the laws may bend or jump."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.blocks import thinned
from limitlaw.divergence.panels import Panels, evaluated
from limitlaw.laws import Empirical, GaussianMixture, Law, Pushforward

LEVELS = (0.0, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-3, 1.0)
NEGLIGIBLE = 1e-17  # of the largest |x| |integrand|
FEW = 32  # components whose own places are edges

Rows = Callable[[Float[np.ndarray, " x"]], Float[np.ndarray, "rows x"]]
Integrand = Callable[[Float[np.ndarray, "rows x"]], Float[np.ndarray, " x"]]


def first_panels(p: Law, q: Law, rows: Rows, integrand: Integrand, also: tuple[float, ...] = ()) -> Panels:
    """Between quantiles of both laws, their breaks and `also`, out to where integrand(rows(x)) is negligible.

    Where both laws are bounded on a side, the end is that bound, with panels that shrink towards it.
    """
    places = np.stack([quantiles(p), quantiles(q)])
    bottom, top = float(places[:, 0].min()), float(places[:, -1].max())
    inner = np.sort(places[:, 1:-1].reshape(-1))
    width = inner[-1] - inner[0] if inner[-1] > inner[0] else max(1.0, abs(inner[0]))
    far = width / 16 * 2.0 ** (np.arange(48) / 4)
    low, high = outward(inner[0], -far, bottom), outward(inner[-1], far, top)
    x = np.concatenate([low[::-1], inner, high])
    f = np.abs(integrand(evaluated(rows, x))) * np.maximum(np.abs(x - np.median(inner)), width)
    above = np.flatnonzero(~(f <= NEGLIGIBLE * np.max(f, initial=0)))
    if above.size:
        low, high = low[: max(len(low) - above[0] + 1, 1)], high[: max(above[-1] + 2 - len(low) - len(inner), 1)]
    ends = min(low[-1], inner[0]), max(high[-1], inner[-1])
    poles = np.concatenate([branch_ends(p), branch_ends(q)])
    graded = [side for side, bound in ((low, bottom), (high, top)) if np.isfinite(bound)]
    hard = np.concatenate([poles, breaks(p), breaks(q), np.array(also), *graded, ends])
    hard = np.unique(hard[(hard >= ends[0]) & (hard <= ends[1])])
    return Panels.between(merged(np.concatenate([inner, low[3::4], high[3::4]]), hard, 0.01 * width), poles)


def quantiles(law: Law) -> Float[np.ndarray, " levels"]:
    """Rough quantiles, and the smallest and largest value, infinite for most laws."""
    return np.asarray(thinned(law).ppf(np.array(LEVELS)))


def outward(start: float, far: Float[np.ndarray, " k"], bound: float) -> Float[np.ndarray, " n"]:
    """Points further and further out, or nearer and nearer to a finite bound."""
    if np.isinf(bound):
        return start + far
    return np.append(bound - (bound - start) * 0.25 ** np.arange(1, 8), bound)


def branch_ends(law: Law) -> Float[np.ndarray, " b"]:
    """Where a branch of φ ends or bends: the density of φ(Y) may jump, or grow like |x − end|^{−1/2}."""
    if not isinstance(law, Pushforward) or law._named is None:
        return np.zeros(0)
    ends = np.array([end for b in law._named.branches for end in (b.bottom, b.top)])
    return np.concatenate([ends[np.isfinite(ends)], np.asarray(law.phi(np.asarray(law._named.kinks, float)))])


def breaks(law: Law) -> Float[np.ndarray, " b"]:
    """Atoms, and the places of components where those are few, lest a narrow one be missed."""
    if isinstance(law, Empirical):
        return np.zeros(0)
    points = np.asarray(law.atoms().points)
    if isinstance(law, GaussianMixture) and len(law._components) <= FEW:
        mean, sd = (np.asarray(a)[:, None] for a in law._components.parameters)
        points = np.append(points, mean + sd * np.array([-6, -2, 0, 2, 6]))
    return points


def merged(soft: Float[np.ndarray, " s"], hard: Float[np.ndarray, " h"], near: float) -> Float[np.ndarray, " e"]:
    """All hard edges, and the soft ones that are not near another edge."""
    kept = list(hard)
    for x in np.unique(soft):
        if np.min(np.abs(np.array(kept) - x)) > near:
            kept.append(x)
    return np.sort(np.array(kept))
