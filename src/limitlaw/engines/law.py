"""From conditions to a law: what is Gaussian given conditions is a mixture over them,
perhaps under a last function, which is the last step of the program.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from limitlaw.arguments import is_traced
from limitlaw.laws import Combination, Empirical, Gaussian, GaussianMixture, Law, Pushforward
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True)
class Last:
    """The last step of an output: φ, if there is one,
    of parts that have the shape `event` each.
    """

    phi: Nonlinearity | None
    parts: int
    event: tuple[int, ...]

    @property
    def of_several(self) -> bool:
        """Is φ a function of more than one part?"""
        return self.phi is not None and self.parts > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all parts together."""
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
    """The law of outputs that are N(mean, covariance)
    given each condition, conditions in front. `seed`: of what the law itself has to draw.
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
    """φ of the parts of each point."""
    if last.phi is None:
        return points
    return last.phi(*jnp.moveaxis(points, 1, 0)) if last.of_several else last.phi(points)
