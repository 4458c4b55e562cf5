"""Point masses, merged over components."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from limitlaw.laws.averages import Components, spread_of_blocks
from limitlaw.laws.estimates import Atoms

# atoms: they are draws, of which hardly two are equal, and their masses have no better error than
# 1/N
MANY = 1024


def merged(
    values: Float[np.ndarray, "entries *event"],
    owners: Int[np.ndarray, " entries"],
    chances: Float[np.ndarray, " entries"],
    components: Components,
) -> tuple[Atoms, Float[Array, " atoms"]]:
    """Atoms from a list of (value, component, its probability there),
    and the standard errors of their masses.
    """
    points, atom = np.unique(values, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weights = np.asarray(components.weights)
    w, total = weights[owners], (weights**2).sum()
    masses, linear, squares = (
        np.bincount(atom, a, len(points))
        for a in (w * chances, w**2 * chances, (w * chances) ** 2)
    )
    # Σ_k w_k² (chance − mass)² over 1 − Σ w², as for every average.
    spread = np.maximum(squares - 2 * masses * linear + masses**2 * total, 0)
    error = (
        np.sqrt(spread / (1 - total)) if components.sampled and len(components) > 1 else 0 * spread
    )
    if components.parts and len(points) < MANY:
        size = len(components.parts[0])
        inside = owners < components.blocks * size
        place = atom[inside] * components.blocks + owners[inside] // size
        each = np.bincount(place, (w * chances)[inside], len(points) * components.blocks)
        each = each.reshape(len(points), components.blocks)
        sums = np.add.reduceat(
            weights[: components.blocks * size], np.arange(0, components.blocks * size, size)
        )
        error = np.asarray(spread_of_blocks(jnp.asarray((each / sums).T - masses)))
    return Atoms(jnp.asarray(points), jnp.asarray(masses)), jnp.asarray(error)
