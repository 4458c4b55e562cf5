"""What a layer may be given as its nonlinearity φ."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw import nonlinearities as known
from limitlaw.arguments import first_line, shown
from limitlaw.language.functions import map
from limitlaw.language.values import Wide, coordinatewise, wide
from limitlaw.nonlinearities import Nonlinearity

# Functions that are one of ours, found by identity. jax.nn.gelu is not among them: unless told, it approximates.
SAME: tuple[tuple[Any, Nonlinearity], ...] = (
    *((f, known.tanh) for f in (jnp.tanh, jax.lax.tanh, np.tanh)),
    *((f, known.sin) for f in (jnp.sin, jax.lax.sin, np.sin)),
    *((f, known.cos) for f in (jnp.cos, jax.lax.cos, np.cos)),
    *((f, known.abs_) for f in (jnp.abs, jnp.absolute, jax.lax.abs, np.abs)),
    *((f, known.sign) for f in (jnp.sign, jax.lax.sign, np.sign)),
    *((f, known.erf) for f in (jax.scipy.special.erf, jax.lax.erf)),
    *((f, known.sigmoid) for f in (jax.nn.sigmoid, jax.lax.logistic, jax.scipy.special.expit)),
    *((f, known.silu) for f in (jax.nn.silu, jax.nn.swish)),
    (jax.nn.relu, known.relu),
    (jax.nn.softplus, known.softplus),
    (jax.nn.leaky_relu, known.leaky_relu(0.01)),
    (jax.nn.identity, known.identity),
)
EXPECTED = "phi must be a function of vectors, as limitlaw.tanh, or of jax.numpy arrays, as jnp.tanh"


def activated(phi: Any, w: Wide) -> Wide:
    """φ(w) for a function of vectors, for a `Nonlinearity`, and for a function of arrays: of one known here by its
    moments and branches, of others by `map`.
    """
    if isinstance(phi, Nonlinearity):
        return coordinatewise(phi, w)
    for function, same in SAME:
        if phi is function:
            return coordinatewise(same, w)
    if not callable(phi):
        raise TypeError(f"{EXPECTED}, got {shown(phi)}")
    try:
        result = phi(w)
    except (TypeError, AttributeError):  # a function of arrays that met a vector of a program
        result = _mapped(phi, w)
    return wide("what phi returns", result)


def _mapped(phi: Any, w: Wide) -> Wide:
    try:
        return map(phi, w)
    except (TypeError, ValueError) as error:
        name = getattr(phi, "__name__", type(phi).__name__)
        raise TypeError(f"{EXPECTED}, got {name}, which is neither: {first_line(error)}") from error
