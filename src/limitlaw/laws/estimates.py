"""What each kind of law has to compute: every quantity as an estimate, a value with its error."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import is_traced, real_points
from limitlaw.laws.averages import Estimate


class Atoms(NamedTuple):
    """The points that carry positive probability, in order, and how much each carries."""

    points: Float[Array, "atoms *event"]
    masses: Float[Array, " atoms"]


class Estimates(abc.ABC):
    """The quantities of a law of a random array Y of `shape`, and what its points may be."""

    shape: tuple[int, ...]
    _other: Callable[[], "Estimates"] | None = None  # the same law by another rule
    _poles: tuple[float, ...] = ()  # where the density of one number is infinite

    @abc.abstractmethod
    def _pdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _logpdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _cdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _sf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _ppf(self, q: Array) -> Estimate: ...
    @abc.abstractmethod
    def _cf(self, t: Array) -> Estimate: ...
    @abc.abstractmethod
    def _mean(self) -> Estimate: ...
    @abc.abstractmethod
    def _variance(self) -> Estimate: ...
    @abc.abstractmethod
    def _covariance(self) -> Estimate: ...
    @abc.abstractmethod
    def _kurtosis(self) -> Estimate: ...
    @abc.abstractmethod
    def _moment(self, k: int) -> Estimate: ...
    @abc.abstractmethod
    def _expect(self, psi: Callable[[Any], Any]) -> Estimate: ...
    @abc.abstractmethod
    def _entropy(self) -> Estimate: ...
    @abc.abstractmethod
    def _atoms(self) -> tuple[Atoms, Float[Array, " atoms"]]:
        """The atoms, and the standard errors of their masses."""

    def _points(self, name: str, x: Any) -> Float[Array, "..."]:
        """`x` as an array that ends with the law's shape."""
        x = real_points(name, x)
        if self.shape and x.shape[x.ndim - len(self.shape) :] != self.shape:
            raise ValueError(f"{name} must have shape (…, *{self.shape}), the law's shape last, got shape {x.shape}")
        return x

    def _numbers(self, method: str, name: str, x: Any) -> Float[Array, "..."]:
        """`x` for a method that only the law of one number has."""
        if self.shape:
            raise ValueError(
                f"{method} needs the law of one number, this one is joint of shape {self.shape}: "
                f"take law.marginal({', '.join('0' * len(self.shape))}).{method}({name}) first"
            )
        return real_points(name, x)

    def _levels(self, q: Any) -> Float[Array, "..."]:
        """`q` as levels in [0, 1]; NaN passes."""
        q = self._numbers("ppf", "q", q)
        outside = np.zeros(()) if is_traced(q) else np.asarray((q < 0) | (q > 1))
        if outside.any():
            worst = np.asarray(q)[outside].flat[0]
            raise ValueError(f"q must lie in [0, 1], got {worst:g} ({outside.sum()} of {outside.size} outside)")
        return q

    def _at_poles(self, x: Array, there: float, elsewhere: Any) -> Any:
        return jnp.where(jnp.isin(x, jnp.array(self._poles)), there, elsewhere) if self._poles else elsewhere
