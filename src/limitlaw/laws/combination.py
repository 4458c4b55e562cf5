"""The law of φ(Y₁, …, Y_k) for jointly Gaussian arguments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from limitlaw.laws import storage
from limitlaw.laws.checking import check_base
from limitlaw.laws.draws import OfDraws
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.phi import Nonlinearity, user_function


class Combination(OfDraws):
    """φ(Y[0], …, Y[k−1]) for a mixture Y of shape (k, *shape):
    the arguments of φ along the first axis.

    Its quantities are sampled: each component of Y gives a group of draws,
    whose spread is the error.
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
            "form; "
            "cdf, ppf, moments, expect, cf and sample are possible, with errors"
        )

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """φ of the base's draws."""
        return self._combined(self.base._sample(key, shape))

    def marginal(self, i: object) -> "Combination":
        """The law of one entry, or of some."""
        inner = self.base.marginal((slice(None), *(i if isinstance(i, tuple) else (i,))))
        return Combination(self.phi, inner, self.kind, self.beyond)

    def _content(self) -> storage.Content:
        return storage.image(self.phi, self.base._stored())
