"""Gaussian mixtures: a wide network's output has a component for each draw of its kernel."""

import dataclasses
import functools
import math
from typing import SupportsInt

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from limitlaw.arguments import is_traced, real_array
from limitlaw.digits import counted
from limitlaw.laws import one_gaussian
from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import Components, Quantity
from limitlaw.laws.base import Content
from limitlaw.laws.checking import entries, mixture_arrays, mixture_weights
from limitlaw.laws.draws import Grouped
from limitlaw.laws.entropy import Entropy, joint_entropy
from limitlaw.laws.estimates import Atoms, Estimate, as_logarithm, growth, in_units, no_atoms, unit
from limitlaw.laws.expectation import of_gaussians
from limitlaw.laws.tracing import Psi, kept
from limitlaw.numerics.factors import eigen_factor, whitening
from limitlaw.numerics.meshes import FineStructure, of_components
from limitlaw.numerics.normal_rule import smooth_nodes
from limitlaw.numerics.random import normal
from limitlaw.numerics.roots import invert
from limitlaw.numerics.special_functions import ndtri

DRAWS_OF_JOINT = 2**17  # draws from which a joint law's quantities are sampled


class GaussianMixture(Averaged):
    """Σ_k w_k N(mean_k, covariance_k): every quantity is the average of the Gaussian quantity over
    components.

    `mean`: `(N, *shape)`. `covariance`: variances (N,) where Y is one number, else (N, m, m) of
    the flattened Y; zero and singular ones are legitimate. Without `weights` the components are N
    independent draws of equal weight, and the kind is "sampled"; with weights the default kind is
    "quadrature". `blocks`: components come from a quasi-random sequence, and errors from the
    spread of so many consecutive blocks of it. `seed`: of the draws that joint quantities without
    a formula are computed from.
    """

    _outer = staticmethod(one_gaussian.joint_outer)

    def __init__(
        self,
        mean: object,
        covariance: object,
        weights: object = None,
        kind: str | None = None,
        beyond: tuple[str, ...] = (),
        blocks: SupportsInt = 0,
        seed: ArrayLike = 0,
    ) -> None:
        mean = jnp.asarray(real_array("mean", mean))
        if mean.ndim == 0 or mean.shape[0] == 0:
            raise ValueError(
                "mean must have shape (components, *shape) with components ≥ 1, got shape "
                f"{mean.shape}"
            )
        N, shape = mean.shape[0], mean.shape[1:]
        default = "quadrature" if weights is not None else "sampled" if N > 1 else "exact"
        super().__init__(shape, kind or default, beyond)
        self._given, self._seed = mixture_arrays(mean, covariance), seed
        first, second = self._given
        spread = (
            second
            if shape
            else jnp.where(second > 0, jnp.sqrt(jnp.where(second > 0, second, 1)), 0)
        )
        self._components = Components(
            (first, spread), mixture_weights(weights, N), self.kind == "sampled", int(blocks)
        )

    @functools.cached_property
    def _degenerate(self) -> np.ndarray:
        """For each component: is it a point mass?"""
        second = self._given[1]
        if is_traced(second):
            return np.zeros(len(self._components), bool)
        zero = np.asarray(second) == 0
        return zero.all((1, 2)) if self.shape else zero

    @property
    def _central(self) -> Quantity:
        return one_gaussian.joint_central if self.shape else one_gaussian.central

    def _at(self, quantity: Quantity, x: Array) -> Estimate:
        """The average of a quantity at points of shape (…, *event)."""
        lead = x.shape[: x.ndim - len(self.shape)]
        return self._components.average(quantity, x.reshape(-1, *self.shape)).reshape(lead)

    def _pdf(self, x: Array) -> Estimate:
        if self.shape:
            return self._logpdf(x).exp()
        self._require_density()
        return self._at(one_gaussian.pdf, x)

    def _logpdf(self, x: Array) -> Estimate:
        self._require_density()
        if self.shape:
            lead = x.shape[: x.ndim - len(self.shape)]
            components = dataclasses.replace(
                self._components, parameters=(self._given[0], *self._whitening[:2])
            )
            points = x.reshape(-1, *self.shape)
            return components.log_average(one_gaussian.joint_logpdf, points).reshape(lead)
        return self._log_at(one_gaussian.logpdf, x)

    @kept
    def _whitening(self) -> tuple[Array, Array, np.ndarray]:
        return whitening(self._given[1])

    def _require_density(self) -> None:
        """Raise where the law has no density, saying why."""
        if self._degenerate.any():
            points, masses = self.atoms()
            raise ValueError(
                f"the law has no density: {len(points)} atom(s) carry {float(masses.sum()):.6g} "
                "of its mass (components of zero variance); law.atoms() lists them"
            )
        if self.shape and self._whitening[2].any():
            bad = np.flatnonzero(self._whitening[2])
            raise ValueError(
                f"the joint law has no density in floating point: {bad.size} of "
                f"{len(self._components)} components have a covariance that is singular to "
                f"rounding (the first is component {bad[0]}); law.marginal(i) of fewer entries "
                "may have one"
            )

    def _cdf(self, x: Array) -> Estimate:
        return self._at(one_gaussian.cdf, x)

    def _sf(self, x: Array) -> Estimate:
        return self._at(one_gaussian.sf, x)

    def _log_tail(self, x: Array, above: bool) -> Estimate:
        log = self._log_at(one_gaussian.logsf if above else one_gaussian.logcdf, x)
        return Estimate(log.value, lambda: as_logarithm(log.error()))

    def _log_at(self, quantity: Quantity, x: Array) -> Estimate:
        """The logarithm of an average at points of one number, from logarithms."""
        return self._components.log_average(quantity, x.reshape(-1)).reshape(x.shape)

    def _place(self, level: Array, lower: Array) -> Estimate:
        p, lower = level.reshape(-1), jnp.broadcast_to(lower, level.shape).reshape(-1)
        mean, sd = self._components.parameters
        inside = jnp.where(p > 0, p, 0.5)
        z = jnp.where(lower, 1.0, -1.0) * ndtri(inside)
        # The mixture's quantile lies between the smallest and the largest of its components'
        # quantiles mean + sd·z.
        narrow, wide = jnp.min(sd), jnp.max(sd)
        low = jnp.min(mean) + z * jnp.where(z < 0, wide, narrow)
        high = jnp.max(mean) + z * jnp.where(z < 0, narrow, wide)
        width = jnp.sqrt(self.variance())
        smooth = not self._degenerate.any()
        margin = 1e-9 * float(width)  # for the rounding of ndtri
        side = jnp.where(lower, 1.0, -1.0)  # only the smaller tail is used

        def tail(x: Array) -> tuple[Array, Array]:
            smaller = self._components.average(one_gaussian.tail, (x, side)).value
            return smaller, self._components.average(one_gaussian.pdf, x).value

        bracket = (low - margin, high + margin)
        x = invert(tail, inside, lower, bracket, self.mean() + width * z, float(width), smooth)
        if not smooth:
            x = _snap(x, self.atoms().points)
        x = jnp.where(p <= 0, jnp.where(lower, -jnp.inf, jnp.inf), x) + 0 * p
        return Estimate(x, lambda: self._quantile_error(x, p, lower)).reshape(level.shape)

    def _quantile_error(self, x: Array, level: Array, lower: Array) -> Array:
        """The cdf's error over the density; 0 where the cdf jumps over the level, and at ends."""
        if not self._degenerate.any():
            return jnp.where(jnp.isinf(x), 0.0, self._moved(x, level, lower))
        error = self._cdf(x).error() / self._at(one_gaussian.pdf, x).value
        over = jnp.where(lower, level < self.cdf(x), self.sf(x) < level)
        jump = jnp.isin(x, self.atoms().points) & over
        return jnp.where(jnp.isinf(x) | jump, 0.0, error)

    def _cf(self, t: Array) -> Estimate:
        return self._at(one_gaussian.joint_cf if self.shape else one_gaussian.cf, t)

    def _moment(self, k: int) -> Estimate:
        mean, spread = self._components.parameters
        sd = jnp.sqrt(jnp.diagonal(spread, axis1=1, axis2=2)) if self.shape else spread
        s = unit(jnp.max(jnp.hypot(mean, growth(k) * sd), axis=0))
        moment = self._components.average(one_gaussian.Moment(k, bool(self.shape)), s[None])
        return in_units(moment, s, k).reshape(self.shape)

    def _expect(self, psi: Psi, breaks: tuple[float, ...] = ()) -> Estimate:
        if self.shape:
            return self.drawn()._expect(psi)
        return of_gaussians(psi, self._components, self._degenerate, self._nodes(), breaks)

    def _nodes(self) -> int:
        """The nodes for each component, for an unknown ψ: many where components are few."""
        return max(
            smooth_nodes(min(16.0, self._largest_sd()), 0.1), 2**16 // len(self._components)
        )

    def _largest_sd(self) -> float:
        """The largest standard deviation of components and entries, to choose nodes by."""
        second = self._given[1]
        if is_traced(second):
            return 1.0
        known = np.asarray(second)
        return math.sqrt(
            np.max(np.diagonal(known, axis1=1, axis2=2) if self.shape else known, initial=0)
        )

    def _entropy(self) -> Estimate:
        self._require_density()
        if self.shape:
            return joint_entropy(self, self.drawn()._components.parameters)
        entropy = Entropy.along_gaussians(
            self._components, self._logpdf, lambda _, ρ: ρ, (), self.variance
        )
        return entropy.estimate()

    def _atoms(self) -> tuple[Atoms, Array]:
        bad = self._degenerate
        if not bad.any():
            return no_atoms(self.shape)
        values = np.asarray(self._given[0])[bad].reshape(-1, *self.shape)
        return self._merged(values, np.flatnonzero(bad), np.ones(bad.sum()))

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draws: a component by its weight, then a Gaussian."""
        which, noise = jax.random.split(key)
        count = math.prod(shape)
        ends = jnp.cumsum(self._components.weights)
        chosen = jnp.searchsorted(
            ends, jax.random.uniform(which, (count,)) * ends[-1], side="right"
        )
        chosen = jnp.minimum(chosen, len(self._components) - 1)
        return self._draw(noise, chosen).reshape(*shape, *self.shape)

    def _draw(self, key: Array, chosen: Array) -> Array:
        """One draw from each chosen component, (count, *event)."""
        mean, spread = (a[chosen] for a in self._components.parameters)
        z = normal(key, mean.shape)
        y = (
            jnp.einsum("kij,kj->ki", eigen_factor(spread), z) + mean
            if self.shape
            else mean + spread * z
        )
        return y.reshape(-1, *self.shape)

    def drawn(self) -> Grouped:
        """Draws of Y for what must be sampled: a group for each component that is a draw."""
        components = self._components
        key = jax.random.key(self._seed)
        if not components.sampled:
            draws = self.sample(key, (DRAWS_OF_JOINT, 1))
            return Grouped(
                Components(draws, jnp.full(DRAWS_OF_JOINT, 1 / DRAWS_OF_JOINT), True),
                "sampled",
                self.beyond,
            )
        N = len(components)
        M = max(1, DRAWS_OF_JOINT // N)
        draws = self._draw(key, jnp.repeat(jnp.arange(N), M)).reshape(N, M, *self.shape)
        return Grouped(dataclasses.replace(components, parameters=draws), "sampled", self.beyond)

    def marginal(self, i: object) -> "GaussianMixture":
        """The law of Y[i], again a mixture."""
        positions, shape = entries(self.shape, i)
        mean, covariance = self._given
        if self.shape:
            mean = mean[:, positions].reshape(-1, *shape)
            covariance = covariance[:, positions[:, None], positions]
            covariance = covariance if shape else covariance[:, 0, 0]
        components = self._components
        law = GaussianMixture(
            mean,
            covariance,
            components.weights,
            self.kind,
            self.beyond,
            components.blocks,
            self._seed,
        )
        return self._alike(law, lambda other: other.marginal(i))

    def _content(self) -> Content:
        mean, covariance = self._given
        arrays = {
            "mean": mean.reshape(-1, *self.shape),
            "covariance": covariance,
            "weights": self._components.weights,
            "blocks": self._components.blocks,
            "seed": self._seed,
        }
        return {}, {name: np.asarray(a) for name, a in arrays.items()}

    def _part(self, rows: slice) -> "GaussianMixture":
        mean, covariance = (np.asarray(a)[rows] for a in self._given)
        weights = np.asarray(self._components.weights)[rows]
        return GaussianMixture(
            mean.reshape(-1, *self.shape),
            covariance,
            weights / weights.sum(),
            self.kind,
            self.beyond,
            seed=self._seed,
        )

    def middle(self) -> float:
        """The mean, which is in the middle."""
        return float(
            np.asarray(self._components.weights) @ np.asarray(self._components.parameters[0])
        )

    def places(self) -> FineStructure:
        """The places of its components."""
        return of_components(*self._components.parameters)

    @property
    def description(self) -> str:
        """The number of components."""
        return counted(len(self._components), "component")

    def _count(self) -> int:
        return len(self._components)


def _snap(x: Array, points: Array) -> Array:
    """`x`, moved onto an atom that is nearer than rounding."""
    index = jnp.clip(jnp.searchsorted(points, x), 0, len(points) - 1)
    for i in (index, jnp.maximum(index - 1, 0)):
        near = jnp.abs(points[i] - x) <= 1e-12 * (1 + jnp.abs(x))
        x = jnp.where(near, points[i], x)
    return x
