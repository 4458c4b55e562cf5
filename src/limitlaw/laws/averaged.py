"""Laws that are averages over components: moments and their errors are the same for all of them."""

import abc
import dataclasses
from typing import Any

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
        moments = self._moments(self.mean())  # about the mean, where the error of the mean drops out
        return Estimate(moments.value[1], lambda: moments.error()[1])

    def _covariance(self) -> Estimate:
        estimate = self._components.average(self._outer, self.mean()[None], self._size)
        shape = () if self.shape == () else estimate.value.shape[1:]
        return Estimate(estimate.value.reshape(shape), lambda: estimate.error().reshape(shape))

    def _kurtosis(self) -> Estimate:
        mean = self.mean()
        moments = self._moments(mean).value
        value = moments[3] / moments[1] ** 2 - 3
        influence = KurtosisInfluence(self._central)
        return Estimate(value, lambda: self._components.spread(influence, (mean, moments), value, self._size))


@dataclasses.dataclass(frozen=True)
class KurtosisInfluence:
    """The derivative of μ₄/μ₂² − 3 in the weight of a component, the mean's own part (−4 μ₃) included."""

    central: Figure

    def __call__(self, component: Any, point: Any) -> Any:
        mean, (_, c2, c3, c4) = point
        m1, m2, _, m4 = self.central(component, mean)
        return (m4 - c4 - 4 * c3 * m1) / c2**2 - 2 * c4 * (m2 - c2) / c2**3
