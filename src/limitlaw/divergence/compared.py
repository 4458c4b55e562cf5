"""The arguments and the result of a divergence: laws, distributions of scipy.stats and plain
samples; a number and its error.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Concatenate, ParamSpec

import jax
import numpy as np

from limitlaw.digits import exponential
from limitlaw.float64 import in_float64
from limitlaw.laws import Empirical, Law, ScipyLaw
from limitlaw.laws.from_scipy import from_scipy

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Divergence:
    """A divergence: its `value`, and its `error`, in which the standard error from sampled laws
    and the error of the quadrature are combined.

    A divergence is ≥ 0: an estimate below that, from which a bias was subtracted, errs by as much
    at least, and its error says so. `float(d)` is the value; `print(d)` shows the digits that the
    error leaves: 2.217e-02 ± 9e-05.
    """

    value: float
    error: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", max(self.error, -self.value))

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return exponential(self.value, self.error)


def compared(
    divergence: Callable[Concatenate[Law, Law, P], Divergence],
) -> Callable[..., Divergence]:
    """A decorator: `divergence` of whatever `as_law` takes.

    For laws of one number, its error includes the difference that laws by another rule make.
    """

    @in_float64
    @functools.wraps(divergence)
    def with_rules(p: object, q: object, *options: P.args, **named: P.kwargs) -> Divergence:
        first = as_law("p", p)
        second = first if q is p else as_law("q", q)
        d = divergence(first, second, *options, **named)
        if (
            first is second
            or first.shape
            or (first.other is None and second.other is None)
            or not math.isfinite(d.value)
        ):
            return d
        again = divergence(first.other or first, second.other or second, *options, **named)
        return Divergence(d.value, math.hypot(d.error, d.value - again.value))

    return with_rules


def as_law(name: str, value: object) -> Law:
    """A `Law`, a frozen distribution of scipy.stats, or a sample (draws, *shape), as a law."""
    if isinstance(value, Law):
        return value
    if isinstance(value, np.ndarray | jax.Array | list | tuple):
        try:
            # blocks of sorted samples would not show the noise
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


def check_shapes(p: Law, q: Law) -> None:
    """Raise unless both laws have the same shape."""
    if p.shape != q.shape:
        raise ValueError(f"p and q must have the same shape, got {p.shape} and {q.shape}")


def check_numbers(what: str, p: Law, q: Law) -> None:
    """Raise unless both are laws of one number."""
    check_shapes(p, q)
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
            "density is never a smoothed histogram here. wasserstein1 and kolmogorov compare "
            "samples"
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
            f"carry {float(masses.sum()):.6g} of its mass. wasserstein1 and kolmogorov compare "
            "such laws"
        )


def is_infinite(what: str, figure: str, p: Law, q: Law) -> bool:
    """Is the distance infinite, as one law, a distribution of SciPy, has no finite `figure`?
    Refused where neither has one: the distance may be finite then.
    """
    endless = [
        isinstance(law, ScipyLaw) and not math.isfinite(float(getattr(law, figure)()))
        for law in (p, q)
    ]
    if all(endless):
        raise ValueError(f"{what} needs a finite {figure} of p or of q, and neither has one")
    return any(endless)


def arguments(p: Law, q: Law) -> tuple[Law, Law]:
    """The laws of X and Z for p and q of φ(X) and φ(Z), φ rising and one to one; else p and q.

    KL, total variation and Kolmogorov distance are the same, also where φ saturates and only X and
    Z can be told apart.
    """
    first, second = p.argument(), q.argument()
    if first is None or second is None or first[0] != second[0]:
        return p, q
    return first[1], second[1]
