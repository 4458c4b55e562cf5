"""The Gaussian law."""

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from limitlaw.arguments import covariance as as_covariance
from limitlaw.arguments import real_array
from limitlaw.laws.base import Content
from limitlaw.laws.estimates import Estimate, exact
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.numerics.special_functions import ndtri


class Gaussian(GaussianMixture):
    """The law N(mean, covariance): a mixture of one component.

    `covariance` is over the flattened entries of `mean`. About `seed` see `GaussianMixture`.
    """

    def __init__(
        self,
        mean: object,
        covariance: object,
        kind: str = "exact",
        beyond: tuple[str, ...] = (),
        seed: ArrayLike = 0,
    ) -> None:
        m = real_array("mean", mean)
        matrix = as_covariance("covariance", covariance, math.prod(m.shape))
        matrices = matrix[None] if m.shape else matrix.reshape(1)
        super().__init__(m[None], matrices, kind=kind, beyond=beyond, seed=seed)

    def _entropy(self) -> Estimate:
        self._require_density()
        second = self._given[1]
        logdet = self._whitening[1][0] if self.shape else 0.5 * jnp.log(second[0])
        return exact(logdet + 0.5 * math.log(2 * math.pi * math.e) * math.prod(self.shape))

    def _place(self, level: Array, lower: Array) -> Estimate:
        if self._degenerate.any():
            return super()._place(level, lower)
        mean, sd = self._components.parameters
        return exact(mean[0] + jnp.where(lower, sd[0], -sd[0]) * ndtri(level))

    def marginal(self, i: object) -> "Gaussian":
        """The law of Y[i], again Gaussian."""
        mixture = super().marginal(i)
        mean, covariance = mixture._given
        law = Gaussian(
            mean.reshape(mixture.shape), covariance[0], self.kind, self.beyond, self._seed
        )
        return self._alike(law, lambda other: other.marginal(i))

    def _content(self) -> Content:
        header, arrays = super()._content()
        return header, {name: np.asarray(arrays[name][0]) for name in ("mean", "covariance")} | {
            "seed": arrays["seed"]
        }

    @property
    def description(self) -> str:
        """Empty: a Gaussian needs no more description than its name."""
        return ""
