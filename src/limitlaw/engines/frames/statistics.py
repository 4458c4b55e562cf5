"""What is read off a draw at finite width: coordinates of outputs,
which are Gaussian given what is drawn.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.labelled import Labelled, finite_shape
from limitlaw.core.program import Output
from limitlaw.engines.frames.draw import FramesDraw
from limitlaw.engines.frames.fresh import apply_roots
from limitlaw.engines.reading import Reading
from limitlaw.numerics.random import normal


@dataclasses.dataclass(frozen=True)
class Conditions(Reading):
    """Mean and covariance of `coordinates` coordinates of all outputs,
    given everything that a draw conditions on.
    """

    coordinates: int = 1

    def __call__(
        self, draw: FramesDraw, outputs: tuple[Output, ...]
    ) -> tuple[Float[Array, " M"], Float[Array, "M M"]]:
        each = [_observed(draw, output, self.coordinates) for output in outputs]
        mean = jnp.concatenate([m for m, _ in each])
        covariance = jax.scipy.linalg.block_diag(*(C for _, C in each))
        return mean.reshape(-1), jnp.kron(covariance, jnp.eye(self.coordinates))


def _observed(
    draw: FramesDraw, output: Output, k: int
) -> tuple[Float[Array, "m k"], Float[Array, "m m"]]:
    """Each coordinate of an output is Gaussian: its mean for k coordinates,
    and its covariance over the batch.
    """
    form = draw[output.value]
    m = math.prod(finite_shape(output.layout))
    mean = jnp.zeros((m, k))
    if form.drawn is not None:
        mean = (
            form.drawn.mapped(draw.space(output.value).coordinates)
            .whole(output.layout)
            .reshape(m, k)
        )
    return mean, jnp.zeros((m, m)) if form.fresh is None else form.fresh.covariance(output.layout)


@dataclasses.dataclass(frozen=True)
class Samples(Reading):
    """`coordinates` coordinates of each output that is a vector,
    and the outputs that are numbers.
    """

    coordinates: int = 1

    def __call__(self, draw: FramesDraw, outputs: tuple[Output, ...]) -> list[Float[Array, "..."]]:
        return [
            self._sampled(draw, o) if o.value.is_vector else draw[o.value].whole(o.layout)
            for o in outputs
        ]

    def _sampled(self, draw: FramesDraw, output: Output) -> Float[Array, "*batch k"]:
        form = draw[output.value]
        total = jnp.zeros(())
        if form.drawn is not None:
            total = form.drawn.mapped(draw.space(output.value).coordinates).whole(output.layout)
        if form.fresh is not None:
            fresh = form.fresh.compressed()
            z = normal(
                draw.key(output.value, 2),
                (*fresh.own_sizes, fresh.roots, self.coordinates),
            )
            total = total + apply_roots(fresh.c, Labelled(z, fresh.own_axes)).whole(output.layout)
        return total
