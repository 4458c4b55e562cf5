"""Where to integrate: between which points, and where the laws may bend or jump."""

import numpy as np
from jaxtyping import Float

from limitlaw.laws import Law
from limitlaw.numerics.meshes import mesh
from limitlaw.numerics.panels import Panels


def first_panels(p: Law, q: Law, also: tuple[float, ...] = ()) -> Panels:
    """Panels on which each law can be seen: fine where one of its components is narrow,
    and growing away from there.

    They reach to where both laws are negligible, or bounded;
    atoms, ends of branches and `also` are edges.
    """
    poles = np.concatenate([p.breaks(), q.breaks()])
    hard = np.concatenate([poles, atoms(p), atoms(q), np.array(also)])
    (x, s), (y, t) = p.places(), q.places()
    edges = mesh(np.concatenate([hard, x, y]), np.concatenate([0 * hard, s, t]))
    if len(edges) == 1:  # two point masses at one place
        edges = edges[0] + max(1.0, abs(float(edges[0]))) * np.array([-1.0, 0.0, 1.0])
    return Panels.between(edges, poles)


def atoms(law: Law) -> Float[np.ndarray, " a"]:
    """Points that carry mass; those of samples are counted elsewhere."""
    return np.zeros(0) if law.discrete else np.asarray(law.atoms().points)


def arguments(p: Law, q: Law) -> tuple[Law, Law]:
    """The laws of X and Z for p and q of φ(X) and φ(Z),
    φ rising and one to one; else p and q themselves.

    KL, total variation and Kolmogorov distance are the same for both pairs, and where φ saturates,
    only the arguments can be told apart in floating point.
    """
    first, second = p.argument(), q.argument()
    if first is None or second is None or first[0] != second[0]:
        return p, q
    return first[1], second[1]
