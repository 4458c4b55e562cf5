"""Quantities of φ(Y) for one Gaussian component Y = (mean,
sd, shift of the quadrature), written for one point.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw.laws import one_gaussian
from limitlaw.numerics.normal_rule import Rule
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True)
class Central:
    """E (φ(Y) − c)^j for j = 1 … 4, for each entry."""

    phi: Nonlinearity
    rule: Rule

    def __call__(self, component: Any, centre: Any) -> Any:
        def entry(mean: jax.Array, sd: jax.Array, shift: jax.Array, c: jax.Array) -> Any:
            x, w = self.rule(mean, sd, shift)
            d = self.phi(x) - c
            return jnp.stack([jnp.sum(w * d**j) for j in (1, 2, 3, 4)])

        mean, sd, shift = component
        if jnp.ndim(centre) == 0:
            return entry(mean, sd, shift, centre)
        moments = jax.vmap(entry, out_axes=1)(mean, sd, shift, centre.reshape(-1))
        return moments.reshape(4, *centre.shape)


@dataclasses.dataclass(frozen=True)
class ImageMoment:
    """E (φ(Y)/s)^k, for each entry: by the rule of a normal `wider` than Y,
    since far tails matter to high powers.
    """

    phi: Nonlinearity
    rule: Rule
    k: int
    wider: float

    def __call__(self, component: Any, s: Any) -> Any:
        def entry(mean: Any, sd: Any, shift: Any, s: Any) -> Any:
            x, w = self.rule(mean, self.wider * sd, shift)
            z = (x - mean) / jnp.where(sd > 0, sd, 1)
            w = w * self.wider * jnp.exp(-(1 - self.wider**-2) * z**2 / 2)
            w = jnp.where(sd > 0, w, w / self.wider)
            return jnp.sum(w * (self.phi(x) / s) ** self.k)

        mean, sd, shift = component
        return (
            entry(mean, sd, shift, s)
            if jnp.ndim(mean) == 0
            else jax.vmap(entry)(mean, sd, shift, s)
        )


@dataclasses.dataclass(frozen=True)
class Cf:
    """E exp(i t φ(Y)) for one number."""

    phi: Nonlinearity
    rule: Rule

    def __call__(self, component: Any, t: Any) -> Any:
        x, w = self.rule(*component)
        return jnp.sum(w * jnp.exp(1j * t * self.phi(x)))


@dataclasses.dataclass(frozen=True)
class Composed:
    """ψ(φ(y)), equal for equal ψ and φ, so that it is compiled once."""

    psi: Callable[[Any], Any]
    phi: Nonlinearity

    def __call__(self, y: object) -> Any:
        return self.psi(self.phi(y))


@dataclasses.dataclass(frozen=True)
class OnBranches:
    """P(φ(Y) ≤ y), or P(φ(Y) > y), from the intervals of Y on which that holds, one a branch."""

    above: bool

    def __call__(self, component: Any, point: Any) -> Any:
        mean, sd, image = component
        y, ends = point
        inside = jnp.sum(one_gaussian.between((mean, sd), (ends[:, 0], ends[:, 1])))
        holds = image > y if self.above else image <= y
        return jnp.where(sd > 0, inside, jnp.where(holds, 1.0, 0.0)) + 0 * jnp.where(
            jnp.isnan(y), y, 0
        )


@dataclasses.dataclass(frozen=True)
class LogOnBranches:
    """The logarithm of `OnBranches`."""

    above: bool

    def __call__(self, component: Any, point: Any) -> Any:
        mean, sd, image = component
        y, ends = point
        inside = jax.nn.logsumexp(one_gaussian.log_between((mean, sd), (ends[:, 0], ends[:, 1])))
        holds = image > y if self.above else image <= y
        return jnp.where(sd > 0, inside, jnp.where(holds, 0.0, -jnp.inf)) + 0 * jnp.where(
            jnp.isnan(y), y, 0
        )


def density(component: Any, point: Any) -> Any:
    """Σ over branches of the density at the preimage, over |φ'|."""
    x, jacobian = point
    p = one_gaussian.pdf(component, x)
    return jnp.sum(jnp.where(p > 0, p * jacobian, 0))


def log_density(component: Any, point: Any) -> Any:
    """The logarithm of `density`; −∞ for a point mass."""
    x, log_jacobian = point
    mean, sd, _ = component
    log = one_gaussian.logpdf((mean, jnp.where(sd > 0, sd, 1)), x) + log_jacobian
    return jnp.where(sd > 0, jax.nn.logsumexp(log), -jnp.inf)
