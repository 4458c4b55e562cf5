"""Point masses, merged over components."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from limitlaw.laws.averages import Components
from limitlaw.laws.base import Atoms


def merged(
    values: Float[np.ndarray, "entries *event"],
    owners: Int[np.ndarray, " entries"],
    chances: Float[np.ndarray, " entries"],
    components: Components,
) -> tuple[Atoms, Float[Array, " atoms"]]:
    """Atoms from a list of (value, component, its probability there), and the standard errors of their masses."""
    points, atom = np.unique(values, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weights = np.asarray(components.weights)
    w, total = weights[owners], (weights**2).sum()
    masses, linear, squares = (
        np.bincount(atom, a, len(points)) for a in (w * chances, w**2 * chances, (w * chances) ** 2)
    )
    # Σ_k w_k² (chance − mass)² over 1 − Σ w², as for every average.
    spread = np.maximum(squares - 2 * masses * linear + masses**2 * total, 0)
    error = np.sqrt(spread / (1 - total)) if components.sampled and len(components) > 1 else 0 * spread
    return Atoms(jnp.asarray(points), jnp.asarray(masses)), jnp.asarray(error)
