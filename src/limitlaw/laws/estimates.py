"""What each kind of law has to compute: every quantity as an estimate, a value with its error."""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Inexact

from limitlaw.arguments import is_traced, real_points
from limitlaw.laws.tracing import Psi

# relative rounding of a number that is a sum: four times the distance of neighbouring floats
SUM_ROUNDING = 2.0**-50


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A quantity, and a function that computes its standard error when it is asked for."""

    value: Inexact[Array, "..."]
    error: Callable[[], Float[Array, "..."]]

    def __getitem__(self, index: int | slice) -> "Estimate":
        """The estimate of some of the entries."""
        return Estimate(self.value[index], lambda: self.error()[index])

    def reshape(self, shape: tuple[int, ...]) -> "Estimate":
        """The estimate of the same entries, in another shape."""
        return Estimate(self.value.reshape(shape), lambda: self.error().reshape(shape))

    def exp(self) -> "Estimate":
        """e^λ for an estimate of a logarithm λ; its error is e^λ times that of λ."""
        return Estimate(jnp.exp(self.value), lambda: jnp.exp(self.value) * self.error())

    def beside(self, other: Float[Array, "..."]) -> "Estimate":
        """The estimate with another error combined with its own."""
        return Estimate(self.value, lambda: jnp.hypot(self.error(), other))


def exact(value: Inexact[Array, "..."]) -> Estimate:
    """An estimate without error."""
    return Estimate(value, lambda: jnp.zeros(jnp.shape(value)))


def no_less_than_rounding(
    error: Float[Array, "..."], value: Inexact[Array, "..."]
) -> Float[Array, "..."]:
    """The error, raised where it is positive to at least the rounding of the value."""
    size = jnp.where(jnp.isfinite(value), jnp.abs(value), 0.0)
    return jnp.where(error > 0, jnp.maximum(error, SUM_ROUNDING * size), error)


class Atoms(NamedTuple):
    """The points that carry positive probability, in order, and the mass of each."""

    points: Float[Array, "atoms *event"]
    masses: Float[Array, " atoms"]


def no_atoms(shape: tuple[int, ...] = ()) -> tuple[Atoms, Float[Array, " 0"]]:
    """The atoms of a law of that shape that has none, and their errors: empty arrays."""
    return Atoms(jnp.zeros((0, *shape)), jnp.zeros(0)), jnp.zeros(0)


class Estimates(abc.ABC):
    """The quantities of a random array Y of `shape`, and checks of points they are asked at."""

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
        """log P(Y > x) if `above`, else log P(Y ≤ x): to all digits for the smaller one."""

    @abc.abstractmethod
    def _place(self, level: Array, lower: Array) -> Estimate:
        """The least x with P(Y ≤ x) ≥ level if `lower`, else P(Y > x) ≤ level; levels ≤ ½."""

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
    def _expect(self, psi: Psi) -> Estimate: ...
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
        """log P from the smaller tail's logarithm t: t, or log(1 − e^t) for the larger tail."""
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
        """The two ends of the interval that has this probability."""
        level = (1 - confidence) / 2
        every = jnp.ones(level.shape, bool)
        return self._place(level, every), self._place(level, ~every)

    def _std(self) -> Estimate:
        """√v; its error is that of v over 2√v, or √ of that where v itself is no larger."""
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
        """`x` as an array, for a method that only laws of one number have."""
        if self.shape:
            raise ValueError(
                f"{method} needs the law of one number, this one is joint of shape {self.shape}: "
                f"take law.marginal({', '.join('0' * len(self.shape))}).{method}({name}) first"
            )
        return real_points(name, x)

    def _levels(self, method: str, q: object, name: str = "q") -> Float[Array, "..."]:
        """`q` as levels in [0, 1], for a method that only laws of one number have; NaN passes."""
        q = self._numbers(method, name, q)
        outside = np.zeros(()) if is_traced(q) else np.asarray((q < 0) | (q > 1))
        if outside.any():
            worst = np.asarray(q)[outside].flat[0]
            raise ValueError(
                f"{name} must lie in [0, 1], got {worst:g} ({outside.sum()} of {outside.size} "
                "outside)"
            )
        return q

    def _at_poles(self, x: Array, there: float, elsewhere: Array) -> Array:
        return (
            jnp.where(jnp.isin(x, jnp.array(self._poles)), there, elsewhere)
            if self._poles
            else elsewhere
        )


def as_logarithm(relative: Float[Array, "..."]) -> Float[Array, "..."]:
    """−log(1 − r), the error of log p by the relative one of p; ∞ from r = 1 on."""
    return jnp.where(relative < 1, -jnp.log1p(-jnp.where(relative < 1, relative, 0.0)), jnp.inf)


def unit(size: ArrayLike) -> Array:
    """The power of two nearest to `size`, so that dividing by it rounds nothing; 1 for 0."""
    size = jax.lax.stop_gradient(jnp.asarray(size))
    exponent = jnp.round(jnp.log2(jnp.where(size > 0, size, 1.0)))
    return jnp.ldexp(jnp.ones_like(size), exponent.astype(int))


def growth(k: int) -> float:
    """√(k/e), which is roughly (E Z^k)^{1/k} of a standard normal Z."""
    return math.sqrt(max(k, 1) / math.e)


def in_units(moment: Estimate, s: Array, k: int) -> Estimate:
    """E Y^k from E (Y/s)^k; 0 stays 0, also where s^k overflows."""

    def restored(x: Array) -> Array:
        return jnp.where(x == 0, 0.0, x * s ** (k // 2) * s ** (k - k // 2))

    return Estimate(restored(moment.value), lambda: restored(moment.error()))
