"""Laws that are averages over components: moments and their errors are the same for all of them."""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.laws.averages import Components, Estimate, Figure
from limitlaw.laws.base import Law


class Averaged(Law):
    """A law whose figures are averages of figures given a component: a Gaussian, its image, or one sample."""

    _components: Components
    _size = 1  # how many numbers the figure of one component passes through

    @property
    @abc.abstractmethod
    def _central(self) -> Figure:
        """Of a component and a centre c: E (Y − c)^j for j = 1, 2, 3, 4, in front of the law's shape."""

    @property
    @abc.abstractmethod
    def _outer(self) -> Figure:
        """Of a component and a centre c: E (Y − c)(Y − c)ᵀ, Y flattened."""

    def _moments(self, centre: Float[Array, "..."]) -> Estimate:
        estimate = self._components.average(self._central, centre[None], self._size)
        return Estimate(estimate.value[0], lambda: estimate.error()[0])

    def _mean(self) -> Estimate:
        moments = self._moments(jnp.zeros(self.shape))
        return Estimate(moments.value[0], lambda: moments.error()[0])

    def _variance(self) -> Estimate:
        """Σ_k w_k E_k (Y − m)² about the estimated mean m, which is too small by the variance of m (Bessel 1818)."""
        mean = self.mean()
        c, C = self._components.covariance(self._central, mean, self._size)
        return Estimate(c[1] + C[0, 0], lambda: self._moments(mean).error()[1])

    def _covariance(self) -> Estimate:
        estimate = self._components.average(self._outer, self.mean()[None], self._size)
        shape = () if self.shape == () else estimate.value.shape[1:]
        missing = self._components.covariance(Means(self._central), self.mean(), self._size)[1]
        value = estimate.value.reshape(shape) + missing.reshape(shape)
        return Estimate(value, lambda: estimate.error().reshape(shape))

    def _kurtosis(self) -> Estimate:
        mean = self.mean()
        c, C = self._components.covariance(self._central, mean, self._size)
        value, bias = kurtosis(c, C)
        influence = KurtosisInfluence(self._central)
        error = lambda: jnp.hypot(self._components.spread(influence, (mean, c), value, self._size), bias)  # noqa: E731
        return Estimate(value - bias, error)


@jax.jit
def kurtosis(c: Float[Array, "4 ..."], C: Float[Array, "4 4 ..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """κ = c₄/c₂² − 3 from moments c_j about the estimated mean, and its bias ½ Σ_ij ∂²κ/∂c_i∂c_j C_ij, C = Cov c.

    In moments about a fixed centre, μ₂ = c₂ − c₁² and μ₄ = c₄ − 4 c₁c₃ + 6 c₁²c₂ − 3 c₁⁴; derivatives at c₁ = 0.
    """
    _, c2, c3, c4 = c
    bias = (6 * c2 * C[0, 0] - 4 * C[0, 2]) / c2**2 - 2 * (C[1, 3] - 4 * c3 * C[0, 1]) / c2**3
    return c4 / c2**2 - 3, bias + c4 * (3 * C[1, 1] / c2**4 + 2 * C[0, 0] / c2**3)


@dataclasses.dataclass(frozen=True)
class Means:
    """E Y − c of a component, flattened."""

    central: Figure

    def __call__(self, component: Any, centre: Any) -> Any:
        return self.central(component, centre)[0].reshape(-1)


@dataclasses.dataclass(frozen=True)
class KurtosisInfluence:
    """The derivative of μ₄/μ₂² − 3 in the weight of a component, the mean's own part (−4 μ₃) included."""

    central: Figure

    def __call__(self, component: Any, point: Any) -> Any:
        mean, (_, c2, c3, c4) = point
        m1, m2, _, m4 = self.central(component, mean)
        return (m4 - c4 - 4 * c3 * m1) / c2**2 - 2 * c4 * (m2 - c2) / c2**3
