"""Checks of the two laws, with messages that name the argument."""

import math
from typing import Any

import numpy as np

from limitlaw.laws import Law, ScipyLaw


def check_laws(p: Any, q: Any) -> None:
    """Raise unless both are laws of one shape."""
    for name, law in (("p", p), ("q", q)):
        if not isinstance(law, Law):
            raise TypeError(f"{name} must be a Law, got {type(law).__name__}")
    if p.shape != q.shape:
        raise ValueError(f"p and q must have the same shape, got {p.shape} and {q.shape}")


def check_numbers(what: str, p: Law, q: Law) -> None:
    """Raise unless both are laws of one number."""
    check_laws(p, q)
    if p.shape:
        raise ValueError(
            f"{what} needs laws of one number, p and q are joint of shape {p.shape}: take "
            "p.marginal(i)"
        )


def check_density(what: str, name: str, law: Law) -> None:
    """Raise unless the law has a density and no atoms."""
    if law.discrete:
        raise ValueError(
            f"{what} needs densities, and {name} has none: it is {law!r}, plain samples, and a "
            "density is never a "
            "smoothed histogram here. wasserstein1 and kolmogorov compare samples"
        )
    try:
        law.logpdf(law.mean())
    except ValueError as error:
        raise ValueError(f"{what} needs densities, and {name} has none: {error}") from None
    if law.shape:
        return
    points, masses = law.atoms()
    if (np.asarray(masses) > 0).any():
        raise ValueError(
            f"{what} needs densities, and {name} has atoms: {math.prod(points.shape)} point(s) "
            "carry "
            f"{float(masses.sum()):.6g} of its mass. wasserstein1 and kolmogorov compare such laws"
        )


def is_infinite(what: str, figure: str, p: Law, q: Law) -> bool:
    """Is the distance infinite, because one law, a distribution of SciPy, has no finite `figure`?

    Where neither has one, the distance may be finite, as that of a law and itself moved.
    """
    endless = [
        isinstance(law, ScipyLaw) and not math.isfinite(float(getattr(law, figure)()))
        for law in (p, q)
    ]
    if all(endless):
        raise ValueError(f"{what} needs a finite {figure} of p or of q, and neither has one")
    return any(endless)
