"""Laws that are averages over components, whose moments and errors are computed in one way."""

import abc
import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from limitlaw.arguments import is_traced
from limitlaw.laws.averages import (
    BLOCKS,
    Components,
    Quantity,
    outer_product,
    spread_of_blocks,
)
from limitlaw.laws.base import Blocks, Law
from limitlaw.laws.estimates import Atoms, Estimate, exact

FEW_BLOCKS = 4  # blocks that show the noise
SMALL_LEVEL = 1e-8  # levels below which tails are told apart by their logarithms
THINNED = 1024  # components of a law that only shows where it lives
# atoms: they are draws, of which hardly two are equal, and their masses have no better error than
# 1/N
MANY_ATOMS = 1024


class Averaged(Law):
    """A law of averages over components: Gaussians, their images, or single samples."""

    _components: Components
    _outer: Quantity  # E (Y − c)(Y − c)ᵀ of a component and a centre c, for joint laws

    @property
    def _size(self) -> int:
        """The number of intermediate numbers in computing the quantity of one component."""
        return 1

    @abc.abstractmethod
    def _part(self, rows: slice) -> "Averaged":
        """The law of some of the components."""

    def blocks(self) -> Blocks | None:
        """The laws of 16 runs of neighbouring components, or of 4 at least; else None.

        Neighbours, as antithetic pairs and points of a Sobol sequence stay together.
        """
        if self.kind != "sampled":
            return super().blocks()
        weights = np.asarray(self._components.weights)
        runs = np.array_split(np.arange(len(weights)), min(BLOCKS, len(weights)))
        runs = [run for run in runs if weights[run].sum() > 0]
        if len(runs) < FEW_BLOCKS:
            return None
        laws = tuple(self._part(slice(run[0], run[-1] + 1)) for run in runs)
        total = np.array([weights[run].sum() for run in runs])
        return Blocks(laws, total / total.sum())

    def thinned(self) -> "Averaged":
        """The law of every so many components, about a thousand of them."""
        count = len(self._components)
        return self if count <= THINNED else self._part(slice(None, None, -(-count // THINNED)))

    @property
    @abc.abstractmethod
    def _central(self) -> Quantity:
        """E (Y − c)^j of a component about c, for j = 1, 2, 3, 4 in front of the law's shape."""

    def _moments(self, centre: Float[Array, "..."]) -> Estimate:
        return self._components.average(self._central, centre[None], self._size)[0]

    def _mean(self) -> Estimate:
        return self._moments(jnp.zeros(self.shape))[0]

    @property
    def _centre(self) -> Array:
        """The average over the components, about which central moments are taken."""
        return self._moments(jnp.zeros(self.shape))[0].value

    def _variance(self) -> Estimate:
        centre = self._centre
        second = CentralMoment(self._central, 2)
        value = self._second_moment(second, jnp.square, centre)
        return Estimate(value, lambda: self._moments(centre).error()[1])

    def _covariance(self) -> Estimate:
        if not self.shape:
            return self._variance()
        centre = self._centre
        value = self._second_moment(self._outer, outer_product, centre)
        average = self._components.average
        return Estimate(value, lambda: average(self._outer, centre[None], self._size).error()[0])

    def _second_moment(
        self, second: Quantity, product: Callable[[Array], Array], centre: Array
    ) -> Array:
        first = CentralMoment(self._central, 1)
        return self._components.second_moment(second, first, product, centre, self._size)

    def _moved(self, x: Array, level: Array, lower: Array) -> Array:
        """How far the tail's error moves the quantile: error/density, by logs for small levels."""
        if is_traced(level) or not bool((level < SMALL_LEVEL).any()):
            return self._cdf(x).error() / self._pdf(x).value
        below, above = self._log_tail(x, False), self._log_tail(x, True)
        log, relative = (
            jnp.where(lower, a, b) for a, b in zip(_pair(below), _pair(above), strict=True)
        )
        return jnp.where(relative > 0, relative * jnp.exp(log - self._logpdf(x).value), 0.0)

    def _merged(
        self,
        values: Float[np.ndarray, "entries *event"],
        owners: Int[np.ndarray, " entries"],
        chances: Float[np.ndarray, " entries"],
    ) -> tuple[Atoms, Float[Array, " atoms"]]:
        """Atoms from (value, component, its probability there), with errors of their masses."""
        components = self._components
        points, atom = np.unique(values, axis=0, return_inverse=True)
        atom = atom.reshape(-1)
        weights = np.asarray(components.weights)
        w, total = weights[owners], (weights**2).sum()
        masses, linear, squares = (
            np.bincount(atom, a, len(points))
            for a in (w * chances, w**2 * chances, (w * chances) ** 2)
        )
        # Σ_k w_k² (chance − mass)² over 1 − Σ w², as for every average.
        spread = np.maximum(squares - 2 * masses * linear + masses**2 * total, 0)
        several = components.sampled and len(components) > 1
        error = np.sqrt(spread / (1 - total)) if several else 0 * spread
        if components.parts and len(points) < MANY_ATOMS:
            size = len(components.parts[0])
            drawn = components.blocks * size
            inside = owners < drawn
            place = atom[inside] * components.blocks + owners[inside] // size
            each = np.bincount(place, (w * chances)[inside], len(points) * components.blocks)
            each = each.reshape(len(points), components.blocks)
            sums = np.add.reduceat(weights[:drawn], np.arange(0, drawn, size))
            error = np.asarray(spread_of_blocks(jnp.asarray((each / sums).T - masses)))
        return Atoms(jnp.asarray(points), jnp.asarray(masses)), jnp.asarray(error)

    def _skewness(self) -> Estimate:
        return self._shape(skewness)

    def _kurtosis(self) -> Estimate:
        return self._shape(kurtosis)

    def _shape(self, figure: Callable[[Array], Array]) -> Estimate:
        """A figure of the central moments, without bias if components are independent draws."""
        mean = self._centre
        c = self._moments(mean).value
        value = figure(c)
        if not self._components.sampled:
            return exact(value)
        if len(self._components) == 1:  # no error is known from one draw
            return Estimate(value, lambda: jnp.full(value.shape, jnp.nan))
        if self._components.parts:
            blocks = [
                part.average(self._central, mean[None], self._size).value[0]
                for part in self._components.parts
            ]
            return Estimate(
                value, lambda: spread_of_blocks(jnp.stack(list(map(figure, blocks))) - value)
            )
        point = jax.tree.map(lambda a: a[None], (mean, c))
        bias = self._components.with_weights().average(
            Without(self._central, figure), point, self._size
        )
        return Estimate(value - bias.value[0], lambda: jnp.hypot(bias.error()[0], bias.value[0]))


def _pair(estimate: Estimate) -> tuple[Array, Array]:
    """The value and the error of an estimate."""
    return estimate.value, estimate.error()


def skewness(c: Float[Array, "4 ..."]) -> Float[Array, "..."]:
    """μ₃/μ₂^{3/2} from moments c_1, c_2, c_3 about any centre: μ₂ = c₂ − c₁², μ₃ = c₃ − 3 c₁c₂ + 2
    c₁³.
    """
    c1, c2, c3 = c[:3]
    return (c3 - 3 * c1 * c2 + 2 * c1**3) / (c2 - c1**2) ** 1.5


def kurtosis(c: Float[Array, "4 ..."]) -> Float[Array, "..."]:
    """μ₄/μ₂² − 3 from moments c_1, …, c_4 about any centre: μ₂ = c₂ − c₁², μ₄ = c₄ − 4 c₁c₃ + 6
    c₁²c₂ − 3 c₁⁴.
    """
    c1, c2, c3, c4 = c
    return (c4 - 4 * c1 * c3 + 6 * c1**2 * c2 - 3 * c1**4) / (c2 - c1**2) ** 2 - 3


@dataclasses.dataclass(frozen=True)
class CentralMoment:
    """E (Y − c)^j of a component, for one j."""

    central: Quantity
    j: int

    def __call__(self, component: PyTree[Array], centre: Array) -> Float[Array, "*shape"]:
        return self.central(component, centre)[self.j - 1]


@dataclasses.dataclass(frozen=True)
class Without:
    """(1 − w)(κ₋ − κ)/w, where κ₋ is a `figure` (the kurtosis, say) without a component of weight
    w (Quenouille 1956).

    The average over components is the bias of κ, its standard error that of κ (Tukey 1958). Unlike
    second derivatives, which would need moments of order 8, this takes away the bias also where
    components are few.
    """

    central: Quantity
    figure: Callable[[Array], Array]

    def __call__(self, weighted: tuple[PyTree[Array], Array], point: tuple[Array, Array]) -> Array:
        component, w = weighted
        mean, c = point
        without = c - w / (1 - w) * (self.central(component, mean) - c)
        return (1 - w) / w * (self.figure(without) - self.figure(c))
