"""The law of plain samples."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import real_array
from limitlaw.laws import storage
from limitlaw.laws.averages import Components
from limitlaw.laws.checking import entries
from limitlaw.laws.draws import OfDraws


class Empirical(OfDraws):
    """Samples (N, *shape), each with probability 1/N, independent along the first axis.

    `blocks`: they come from a quasi-random sequence, and errors from the spread of so many
    consecutive blocks of it.
    """

    def __init__(
        self, samples: Any, kind: str = "sampled", beyond: tuple[str, ...] = (), blocks: Any = 0
    ) -> None:
        samples = real_array("samples", samples)
        if samples.ndim == 0 or samples.shape[0] == 0:
            raise ValueError(
                "samples must have shape (draws, *shape) with draws ≥ 1, got shape "
                f"{samples.shape}"
            )
        N = samples.shape[0]
        draws = jnp.asarray(samples)[:, None]
        super().__init__(
            Components(draws, jnp.full(N, 1 / N), kind == "sampled", int(blocks)), kind, beyond
        )

    @property
    def _is_point_mass(self) -> bool:
        return not self._components.sampled and len(self._draws) == 1

    @property
    def description(self) -> str:
        """How many draws there are."""
        return "point mass" if self._is_point_mass else super().description

    def _no_density(self, what: str) -> ValueError:
        if self._is_point_mass:
            return ValueError(
                f"a point mass has no {what}: Y is certain. Use cdf, ppf, moments or expect"
            )
        return ValueError(
            f"samples have no {what}: a density is never a smoothed histogram here. Use cdf, ppf, "
            "moments or expect, "
            "or the Gaussian mixture that finite and limit give"
        )

    @property
    def _samples(self) -> Float[Array, "N *shape"]:
        return self._draws[:, 0]

    def marginal(self, i: object) -> "Empirical":
        """The law of Y[i]."""
        positions, shape = entries(self.shape, i)
        picked = self._samples.reshape(len(self._samples), -1)[:, positions].reshape(-1, *shape)
        law = Empirical(picked, self.kind, self.beyond, self._components.blocks)
        return self._alike(law, lambda other: other.marginal(i))

    def _content(self) -> storage.Content:
        return {}, {
            "samples": np.asarray(self._samples),
            "blocks": np.asarray(self._components.blocks),
        }
