"""From the components of a mixture to a law: N(mean, covariance) given each draw, perhaps under a
last function φ, which is the last step of the program.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from limitlaw.arguments import is_traced
from limitlaw.laws import Combination, Empirical, Gaussian, GaussianMixture, Law, Pushforward
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True)
class Last:
    """The last step of an output: φ, if any, of `parts` arguments of the shape `event` each."""

    phi: Nonlinearity | None
    parts: int
    event: tuple[int, ...]

    @property
    def of_several(self) -> bool:
        """Is φ a function of more than one argument?"""
        return self.phi is not None and self.parts > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all arguments together."""
        return (self.parts, *self.event) if self.of_several else self.event


def law_given(
    last: Last,
    mean: Any,
    covariance: Any,
    kind: str = "sampled",
    beyond: tuple[str, ...] = (),
    blocks: int = 0,
    effort: str = "",
    seed: Any = 0,
) -> Law:
    """The law of outputs that are N(mean, covariance) given a draw, draws in front; `seed` is for
    its own draws.
    """
    count = len(mean)
    points = jnp.asarray(mean).reshape(count, *last.shape)
    law: Law
    if not is_traced(covariance) and not covariance.any():
        law = Empirical(_applied(last, points), kind, beyond, blocks)
        law.effort = effort
        return law
    if count == 1 and kind != "sampled":
        law = Gaussian(
            points[0], covariance[0] if last.shape else covariance.reshape(()), kind, beyond, seed
        )
    else:
        second = jnp.asarray(covariance) if last.shape else jnp.asarray(covariance).reshape(count)
        law = GaussianMixture(points, second, None, kind, beyond, blocks, seed)
    law.effort = effort
    if last.phi is None:
        return law
    return Combination(last.phi, law) if last.of_several else Pushforward(last.phi, law)


def _applied(last: Last, points: Any) -> Any:
    """φ of each point, or the points if there is no φ."""
    if last.phi is None:
        return points
    return last.phi(*jnp.moveaxis(points, 1, 0)) if last.of_several else last.phi(points)
