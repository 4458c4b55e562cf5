"""The readings of a draw at infinite width: each is a function of the draw and of the outputs that
were asked for.

(`variance` and `variances`, which laws of heads read, are in draw.py.)
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.covariance import Covariance
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Output
from limitlaw.engines.frames.statistics import Conditions
from limitlaw.engines.limit import coordinate, scores
from limitlaw.engines.limit.draw import LimitDraw, Outputs, unsigned
from limitlaw.engines.limit.means import zeros
from limitlaw.engines.reading import ReadBy, Reading


def _conditions(
    draw: LimitDraw, outputs: Outputs
) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
    """Mean and covariance of the outputs, given the latent variables."""
    if not outputs[0].is_wide:
        return Conditions(1)(draw, outputs)
    gaussian = all(draw.static.facts.gaussian[v] for v, _ in outputs)
    mean, C = (coordinate.gaussian if gaussian else coordinate.mixed)(draw, outputs)
    return mean, C + jnp.diag(unsigned(jnp.diag(C)) - jnp.diag(C))


conditions = ReadBy(_conditions, of_coordinates=True)


@ReadBy
def second_moment(draw: LimitDraw, outputs: Outputs) -> Float[Array, "m m"]:
    """E[Z^y (Z^y)ᵀ], given the latent variables."""
    ((y, _),) = outputs
    if not outputs[0].is_wide:
        m, C = Conditions(1)(draw, outputs)
        return C + m[:, None] * m
    return _flat(draw.moments.second(y, y), outputs[0])


@ReadBy
def numbers_asked_for(draw: LimitDraw, outputs: Outputs) -> Float[Array, "..."]:
    """The numbers that the only output is."""
    ((p, layout),) = outputs
    return draw[p].whole(layout)


@dataclasses.dataclass(frozen=True)
class Crossed(Reading):
    """E[Z^y Z^w] of two outputs, and nothing of each by itself."""

    crosswise = True

    def __call__(self, draw: LimitDraw, outputs: Outputs) -> Float[Array, "m k"]:
        (y, left), (w, right) = outputs
        block = draw.moments.second(y, w)
        shape = math.prod(finite_shape(left)), math.prod(finite_shape(right))
        return jnp.zeros(shape) if block is None else block.flat(left, right)


CROSSED = Crossed()


@ReadBy
def covariance(draw: LimitDraw, outputs: Outputs) -> Float[Array, "m m"]:
    """Cov(Z^y), given the latent variables."""
    ((y, _),) = outputs
    return _flat(draw.moments.covariance(y, y), outputs[0])


@ReadBy
def variance_of_sum(draw: LimitDraw, outputs: Outputs) -> Float[Array, ""]:
    """Var Σ_i Z^{y_i} over all entries, given the latent variables."""
    return unsigned(jnp.sum(covariance(draw, outputs)))


def _flat(block: Covariance | None, output: Output) -> Float[Array, "m m"]:
    m = math.prod(finite_shape(output.layout))
    return jnp.zeros((m, m)) if block is None else block.flat(output.layout, output.layout)


@ReadBy
def mean(draw: LimitDraw, outputs: Outputs) -> Float[Array, "..."]:
    """E Z^y, given the latent variables."""
    ((y, layout),) = outputs
    return (draw.moments.mean(y) or zeros(y)).whole(layout)


@dataclasses.dataclass(frozen=True)
class CoordinateAverage(Reading):
    """E ψ(Z^y), by quasi-Monte Carlo over nodes."""

    psi: Callable[[Any], Any]
    at_nodes = True  # which cannot be seen in the program

    def __call__(self, draw: LimitDraw, outputs: Outputs) -> Float[Array, "..."]:
        ((y, layout),) = outputs
        z = jnp.moveaxis(draw.moments.nodes.at(y).whole(layout), -1, 0)
        return jnp.asarray(self.psi(z)).mean(axis=0)


@dataclasses.dataclass(frozen=True)
class ScoreCovariance(Reading):
    """Mean and covariance of scores given everything before them; the scores are not drawn."""

    undrawn = True

    def __call__(
        self, draw: LimitDraw, outputs: Outputs
    ) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        ((p, _),) = outputs
        C = _flat(scores.covariance(draw.moments, p), outputs[0])
        return jnp.zeros(len(C)), C
