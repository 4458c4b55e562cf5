"""What may be compared: laws, distributions of scipy.stats, and plain samples."""

import jax
import numpy as np

from limitlaw.laws import Empirical, Law
from limitlaw.laws.from_scipy import from_scipy


def as_law(name: str, value: object) -> Law:
    """A law as it is, a frozen distribution of scipy.stats, or a sample:
    an array (draws, *shape).
    """
    if isinstance(value, Law):
        return value
    if isinstance(value, np.ndarray | jax.Array | list | tuple):
        try:
            # sorted ones would show no noise
            return Empirical(np.random.default_rng(0).permutation(np.asarray(value)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} must be a Law or a sample: {error}") from None
    try:
        law = from_scipy(value)
    except TypeError as error:
        raise TypeError(f"{name} cannot be compared: {error}") from None
    if law is None:
        raise TypeError(
            f"{name} must be a Law, a frozen distribution of scipy.stats or an array of samples, "
            f"got {type(value).__name__}"
        )
    return law
