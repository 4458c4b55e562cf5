"""Where to integrate: between which points, and where the laws may bend or jump."""

import math

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.blocks import thinned
from limitlaw.laws import Empirical, GaussianMixture, HeadSum, Law, Pushforward
from limitlaw.laws.branches import slopes
from limitlaw.numerics.meshes import mesh
from limitlaw.numerics.panels import Panels
from limitlaw.numerics.places import Places, of_components, of_image, of_scales

LEVELS = (1e-16, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-3, 1 - 1e-16)


def first_panels(p: Law, q: Law, also: tuple[float, ...] = ()) -> Panels:
    """Panels on which each law can be seen: fine where one of its components is narrow, and growing away from there.

    They reach to where both laws are negligible, or bounded; atoms, ends of branches and `also` are edges.
    """
    poles = np.concatenate([branch_ends(p), branch_ends(q)])
    hard = np.concatenate([poles, atoms(p), atoms(q), np.array(also)])
    (x, s), (y, t) = places(p), places(q)
    edges = mesh(np.concatenate([hard, x, y]), np.concatenate([0 * hard, s, t]))
    if len(edges) == 1:  # two point masses at one place
        edges = edges[0] + np.array([-1.0, 1.0])
    return Panels.between(edges, poles)


def places(law: Law) -> Places:
    """Places at which the law varies, with the scale on which it does."""
    if isinstance(law, Pushforward) and law._named is not None:
        return of_image(law.phi, lambda x: slopes(law.phi, x), places(law.base))
    if isinstance(law, GaussianMixture):
        return of_components(*law._components.parameters)
    if isinstance(law, HeadSum):
        low, high = (math.sqrt(v) for v in law._inversion.nodes.ends())
        return of_scales(low, high) if high > 0 else (np.zeros(0), np.zeros(0))
    x = np.asarray(thinned(law).ppf(np.array(LEVELS)))
    return x, np.full(len(x), (x[-2] - x[1]) / 16)


def branch_ends(law: Law) -> Float[np.ndarray, " b"]:
    """Where a branch of φ ends or bends: the density of φ(Y) may jump, or grow like |x − end|^{−1/2}; other poles."""
    if not isinstance(law, Pushforward) or law._named is None:
        return np.array(law._poles)
    ends = np.array([end for b in law._named.branches for end in (b.bottom, b.top)])
    return np.concatenate([ends[np.isfinite(ends)], np.asarray(law.phi(np.asarray(law._named.kinks, float)))])


def atoms(law: Law) -> Float[np.ndarray, " a"]:
    """Places that carry mass; those of samples are counted elsewhere."""
    return np.zeros(0) if isinstance(law, Empirical) else np.asarray(law.atoms().points)
