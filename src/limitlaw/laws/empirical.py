"""Laws known by draws: plain samples, and φ(Y₁, …, Y_k) of jointly Gaussian arguments."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, SupportsInt, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import real_array
from limitlaw.laws import storage
from limitlaw.laws.averages import Components
from limitlaw.laws.base import Content
from limitlaw.laws.checking import check_base, entries
from limitlaw.laws.draws import OfDraws
from limitlaw.laws.estimates import Estimate
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.phi import Nonlinearity, user_function

LikeEmpirical = TypeVar("LikeEmpirical", bound="Empirical")


class Empirical(OfDraws):
    """Samples `(N, *shape)`, each with probability 1/N, independent along the first axis.

    `blocks`: they come from a quasi-random sequence, and errors from the spread of so many
    consecutive blocks of it. `integrated`: E Y and its error `(2, *shape)`, where that is known
    better than from the samples; NaN for entries of which it is not.
    """

    def __init__(
        self,
        samples: object,
        kind: str = "sampled",
        beyond: tuple[str, ...] = (),
        blocks: SupportsInt = 0,
        integrated: object = None,
    ) -> None:
        y = real_array("samples", samples)
        if y.ndim == 0 or y.shape[0] == 0:
            raise ValueError(
                f"samples must have shape (draws, *shape) with draws ≥ 1, got shape {y.shape}"
            )
        N = y.shape[0]
        draws = jnp.asarray(y)[:, None]
        super().__init__(
            Components(draws, jnp.full(N, 1 / N), kind == "sampled", int(blocks)), kind, beyond
        )
        self._integrated: Callable[[], Any] = lambda: integrated

    def with_mean(self: LikeEmpirical, integrated: Callable[[], Any]) -> LikeEmpirical:
        """This law, with E Y and its error by `integrated`, called when the mean is asked for."""
        self._integrated = functools.cache(integrated)
        return self

    def _mean(self) -> Estimate:
        drawn, known = super()._mean(), self._integrated()
        if known is None:
            return drawn
        value, error = jnp.asarray(known)
        there = ~jnp.isnan(value)
        return Estimate(
            jnp.where(there, value, drawn.value), lambda: jnp.where(there, error, drawn.error())
        )

    @property
    def _is_point_mass(self) -> bool:
        return not self._components.sampled and len(self._draws) == 1

    @property
    def description(self) -> str:
        """The number of draws, or that it is a point mass."""
        return "point mass" if self._is_point_mass else super().description

    def _no_density(self, what: str) -> ValueError:
        if self._is_point_mass:
            return ValueError(
                f"a point mass has no {what}: Y is certain. Use cdf, ppf, moments or expect"
            )
        return ValueError(
            f"samples have no {what}: a density is never a smoothed histogram here. Use cdf, ppf, "
            "moments or expect, or the Gaussian mixture that finite and limit give"
        )

    @property
    def _samples(self) -> Float[Array, "N *shape"]:
        return self._draws[:, 0]

    def marginal(self, i: object) -> "Empirical":
        """The law of Y[i], of the same samples."""
        positions, shape = entries(self.shape, i)
        picked = self._samples.reshape(len(self._samples), -1)[:, positions].reshape(-1, *shape)
        law = Empirical(picked, self.kind, self.beyond, self._components.blocks)
        law.with_mean(lambda: _picked(self._integrated(), positions, shape))
        return self._alike(law, lambda other: other.marginal(i))

    def _content(self) -> Content:
        arrays = {
            "samples": np.asarray(self._samples),
            "blocks": np.asarray(self._components.blocks),
        }
        known = self._integrated()
        return {}, arrays if known is None else {**arrays, "integrated": np.asarray(known)}


def _picked(known: Any, positions: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Means and their errors, of some entries."""
    if known is None:
        return None
    return jnp.asarray(known).reshape(2, -1)[:, positions].reshape(2, *shape)


class Combination(OfDraws):
    """The law of φ(Y[0], …, Y[k−1]) for a mixture Y of shape (k, *shape), sampled: each component
    of Y gives a group of draws, whose spread is the error.
    """

    def __init__(
        self,
        phi: Callable[..., Any],
        base: GaussianMixture,
        kind: str = "sampled",
        beyond: tuple[str, ...] | None = None,
    ) -> None:
        check_base(base, GaussianMixture)
        if not base.shape:
            raise ValueError(
                "base must have shape (arguments of phi, *shape), got the law of one number"
            )
        self.phi: Nonlinearity = user_function(phi)
        self.base = base
        draws = base.drawn()._components
        values = self._combined(draws.parameters)
        values = jnp.broadcast_to(values, (*draws.parameters.shape[:2], *base.shape[1:]))
        components = dataclasses.replace(draws, parameters=values)
        super().__init__(components, kind, base.beyond if beyond is None else beyond)
        base._alike(self, lambda other: Combination(self.phi, other, self.kind, self.beyond))

    def _combined(self, y: Array) -> Array:
        """φ of the arguments, which lie along the axis before the law's shape."""
        axis = y.ndim - len(self.base.shape)
        return self.phi(*(jnp.take(y, j, axis) for j in range(self.base.shape[0])))

    def _no_density(self, what: str) -> ValueError:
        return ValueError(
            f"{what} of {self.phi.name} of {self.base.shape[0]} arguments is not known in closed "
            "form; cdf, ppf, moments, expect, cf and sample are possible, with errors"
        )

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """φ of draws of the base."""
        return self._combined(self.base._sample(key, shape))

    def marginal(self, i: object) -> "Combination":
        """The law of one entry, or of some entries."""
        inner = self.base.marginal((slice(None), *(i if isinstance(i, tuple) else (i,))))
        return Combination(self.phi, inner, self.kind, self.beyond)

    def _content(self) -> Content:
        return storage.image(self.phi, self.base._stored())
