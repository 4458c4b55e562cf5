"""What a layer accepts as its nonlinearity φ."""

from collections.abc import Callable
from typing import Any

from limitlaw.arguments import first_line, shown
from limitlaw.language.functions import map
from limitlaw.language.values import Wide, coordinatewise, wide
from limitlaw.phi import Nonlinearity, catalogue

EXPECTED = (
    "phi must be a function of vectors, as limitlaw.tanh, or of jax.numpy arrays, as jnp.tanh"
)


def activated(phi: object, w: Wide) -> Wide:
    """φ(w), φ a function of vectors, a `Nonlinearity`, or one of arrays, with the closed forms of
    the catalogue (as for `jnp.tanh`), else by `map`.
    """
    if isinstance(phi, Nonlinearity):
        return coordinatewise(phi, w)
    same = catalogue.find(phi)
    if same is not None:
        return coordinatewise(same, w)
    if not callable(phi):
        raise TypeError(f"{EXPECTED}, got {shown(phi)}")
    try:
        result = phi(w)
    except (TypeError, AttributeError):  # a function of arrays that met a vector of a program
        result = _mapped(phi, w)
    return wide("what phi returns", result)


def _mapped(phi: Callable[..., Any], w: Wide) -> Wide:
    try:
        return map(phi, w)
    except (TypeError, ValueError) as error:
        name = getattr(phi, "__name__", type(phi).__name__)
        raise TypeError(
            f"{EXPECTED}, got {name}, which is neither: {first_line(error)}"
        ) from error
