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
    def _log_tail(self, x: Array, above: bool) -> Estimate:
        """log P(Y > x) if `above`, else log P(Y ≤ x):
        to all digits where it is the smaller of the two.
        """

    @abc.abstractmethod
    def _place(self, level: Array, lower: Array) -> Estimate:
        """The smallest x with P(Y ≤ x) ≥ level where `lower`,
        with P(Y > x) ≤ level elsewhere; levels ≤ ½.
        """

    @abc.abstractmethod
    def _cf(self, t: Array) -> Estimate: ...
    @abc.abstractmethod
    def _mean(self) -> Estimate: ...
    @abc.abstractmethod
    def _variance(self) -> Estimate: ...
    @abc.abstractmethod
    def _covariance(self) -> Estimate: ...
    @abc.abstractmethod
    def _skewness(self) -> Estimate: ...
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

    def _logcdf(self, x: Array) -> Estimate:
        return self._on_side(x, False)

    def _logsf(self, x: Array) -> Estimate:
        return self._on_side(x, True)

    def _on_side(self, x: Array, above: bool) -> Estimate:
        """log P from the smaller tail: its logarithm t,
        or log(1 − e^t) = log1p(−e^t) for the larger one.
        """
        own, other = self._log_tail(x, above), self._log_tail(x, not above)
        smaller = own.value <= other.value
        t = jnp.where(smaller, -1.0, other.value)

        def error() -> Array:
            return jnp.where(smaller, own.error(), jnp.exp(t) / -jnp.expm1(t) * other.error())

        return Estimate(jnp.where(smaller, own.value, jnp.log1p(-jnp.exp(t))), error)

    def _ppf(self, q: Array) -> Estimate:
        return self._place(jnp.minimum(q, 1 - q), q <= 0.5)

    def _isf(self, q: Array) -> Estimate:
        return self._place(jnp.minimum(q, 1 - q), q > 0.5)

    def _interval(self, confidence: Array) -> tuple[Estimate, Estimate]:
        """Its two ends."""
        level = (1 - confidence) / 2
        every = jnp.ones(level.shape, bool)
        return self._place(level, every), self._place(level, ~every)

    def _std(self) -> Estimate:
        """√v, with the error of v over 2√v; where that is as large as v itself,
        no more than its root.
        """
        v = self._variance()
        std = jnp.sqrt(v.value)

        def error() -> Array:
            e = v.error()
            return jnp.where(
                std > 0, jnp.minimum(e / jnp.where(std > 0, 2 * std, 1), jnp.sqrt(e)), jnp.sqrt(e)
            )

        return Estimate(std, error)

    def _points(self, name: str, x: object) -> Float[Array, "..."]:
        """`x` as an array that ends with the law's shape."""
        x = real_points(name, x)
        if self.shape and x.shape[x.ndim - len(self.shape) :] != self.shape:
            raise ValueError(
                f"{name} must have shape (…, *{self.shape}), the law's shape last, got shape "
                f"{x.shape}"
            )
        return x

    def _numbers(self, method: str, name: str, x: object) -> Float[Array, "..."]:
        """`x` for a method that only the law of one number has."""
        if self.shape:
            raise ValueError(
                f"{method} needs the law of one number, this one is joint of shape {self.shape}: "
                f"take law.marginal({', '.join('0' * len(self.shape))}).{method}({name}) first"
            )
        return real_points(name, x)

    def _levels(self, method: str, q: object, name: str = "q") -> Float[Array, "..."]:
        """`q` as levels in [0, 1] for a method that only the law of one number has; NaN passes."""
        q = self._numbers(method, name, q)
        outside = np.zeros(()) if is_traced(q) else np.asarray((q < 0) | (q > 1))
        if outside.any():
            worst = np.asarray(q)[outside].flat[0]
            raise ValueError(
                f"{name} must lie in [0, 1], got {worst:g} ({outside.sum()} of {outside.size} "
                "outside)"
            )
        return q

    def _at_poles(self, x: Array, there: float, elsewhere: Any) -> Any:
        return (
            jnp.where(jnp.isin(x, jnp.array(self._poles)), there, elsewhere)
            if self._poles
            else elsewhere
        )
