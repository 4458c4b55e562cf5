"""The law of plain samples: distribution function, quantiles and moments with errors, and never a smoothed density."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import as_key, real_array
from limitlaw.laws import high_moments
from limitlaw.laws.atoms import merged
from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import Components, Estimate, Figure
from limitlaw.laws.base import Atoms, entries, psi_values, sample_shape

DRAWS = 2**17  # where a figure of a joint law has to be sampled


class Empirical(Averaged):
    """Samples (N, *shape), each with probability 1/N, independent along the first axis.

    `blocks`: they come from a quasi-random sequence, and errors from the spread of so many consecutive blocks of it.
    """

    def __init__(self, samples: Any, kind: str = "sampled", beyond: tuple[str, ...] = (), blocks: Any = 0) -> None:
        samples = real_array("samples", samples)
        if samples.ndim == 0 or samples.shape[0] == 0:
            raise ValueError(f"samples must have shape (draws, *shape) with draws ≥ 1, got shape {samples.shape}")
        super().__init__(samples.shape[1:], kind, beyond)
        N = samples.shape[0]
        draws = jnp.asarray(samples)[:, None]
        self._components = Components(draws, jnp.full(N, 1 / N), self.kind == "sampled", int(blocks))

    @classmethod
    def _grouped(cls, draws: Array, weights: Array, beyond: tuple[str, ...], blocks: int = 0) -> "Empirical":
        """From draws (groups, M, *shape): groups are independent, draws within one share a component."""
        law = cls(jnp.zeros((1, *draws.shape[2:])), "sampled", beyond)
        law._components = Components(draws, weights, True, blocks)
        law._size = draws.shape[1]
        return law

    @property
    def _central(self) -> Figure:
        return central

    @property
    def _outer(self) -> Figure:
        return outer

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The samples in order and the weight up to each, for one number."""
        draws = np.asarray(self._components.parameters)
        order = np.argsort(draws, axis=None, kind="stable")
        if draws.shape[1] == 1 and np.ptp(np.asarray(self._components.weights)) == 0:
            return draws.reshape(-1)[order], np.arange(1, order.size + 1) / order.size
        weights = np.repeat(np.asarray(self._components.weights) / draws.shape[1], draws.shape[1])
        ends = np.cumsum(weights[order])
        return draws.reshape(-1)[order], ends / ends[-1]

    def _no_density(self, what: str) -> ValueError:
        return ValueError(
            f"samples have no {what}: a density is never a smoothed histogram here. Use cdf, ppf, moments or expect, "
            "or the Gaussian mixture that finite and limit give"
        )

    def _pdf(self, x: Array) -> Estimate:
        raise self._no_density("pdf")

    def _logpdf(self, x: Array) -> Estimate:
        raise self._no_density("logpdf")

    def _entropy(self) -> Estimate:
        raise self._no_density("entropy")

    def _cdf(self, x: Array) -> Estimate:
        points, ends = self._sorted
        value = np.concatenate([[0.0], ends])[np.searchsorted(points, np.asarray(x), side="right")]
        value = np.where(np.isnan(x), np.nan, value)
        flat = x.reshape(-1)
        error = lambda: self._components.average(below, flat, self._size).error().reshape(x.shape)  # noqa: E731
        return Estimate(jnp.asarray(value), error)

    def _sf(self, x: Array) -> Estimate:
        below = self._cdf(x)
        return Estimate(1 - below.value, below.error)

    def _ppf(self, q: Array) -> Estimate:
        x = self._quantile(np.asarray(q))
        return Estimate(jnp.asarray(x), lambda: self._quantile_error(np.asarray(q), x))

    def _quantile(self, q: Any) -> Any:
        points, ends = self._sorted
        x = points[np.minimum(np.searchsorted(ends, q, side="left"), points.size - 1)]
        return np.where(np.isnan(q), np.nan, x)

    def _quantile_error(self, q: Any, x: Any) -> Array:
        """Half the distance between the quantiles one standard error of the cdf above and below."""
        spread = np.asarray(self.error.cdf(x))
        high, low = (self._quantile(np.clip(q + s * spread, 0, 1)) for s in (1, -1))
        return jnp.asarray((high - low) / 2)

    def _cf(self, t: Array) -> Estimate:
        lead = t.shape[: t.ndim - len(self.shape)]
        average = self._components.average(cf, t.reshape(-1, *self.shape), self._size)
        return Estimate(average.value.reshape(lead), lambda: average.error().reshape(lead))

    def _moment(self, k: int) -> Estimate:
        s = high_moments.unit(jnp.max(jnp.abs(self._components.parameters), axis=(0, 1)))
        raw = high_moments.in_units(self._components.average(DrawsMoment(k), s[None], self._size), s, k)
        return Estimate(raw.value[0], lambda: raw.error()[0])

    def _expect(self, psi: Callable[[Any], Any]) -> Estimate:
        return self._components.average(Mean(psi), size=self._size)

    def _atoms(self) -> tuple[Atoms, Array]:
        draws = np.asarray(self._components.parameters)
        groups, M = draws.shape[:2]
        return merged(
            draws.reshape(-1, *self.shape),
            np.repeat(np.arange(groups), M),
            np.full(groups * M, 1 / M),
            self._components,
        )

    def sample(self, key: object, shape: int | tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws with replacement."""
        shape = sample_shape(shape)
        draws = self._components.parameters
        group, member = jax.random.split(as_key(key))
        ends = jnp.cumsum(self._components.weights)
        g = jnp.searchsorted(ends, jax.random.uniform(group, shape) * ends[-1], side="right")
        return draws[jnp.minimum(g, len(self._components) - 1), jax.random.randint(member, shape, 0, draws.shape[1])]

    def marginal(self, i: Any) -> "Empirical":
        """The law of Y[i]."""
        positions, shape = entries(self.shape, i)
        draws = self._components.parameters
        picked = draws.reshape(*draws.shape[:2], -1)[:, :, positions].reshape(*draws.shape[:2], *shape)
        law = Empirical._grouped(picked, self._components.weights, self.beyond, self._components.blocks)
        law.kind, law._components = self.kind, dataclasses.replace(law._components, sampled=self.kind == "sampled")
        return self._alike(law, lambda other: other.marginal(i))

    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        samples = np.asarray(self._components.parameters).reshape(-1, *self.shape)
        return {}, {"samples": samples, "blocks": np.asarray(self._components.blocks)}

    def _description(self) -> str:
        return f"{self._components.parameters.shape[0] * self._size} samples, "


def drawn(law: Any) -> Empirical:
    """Samples of a mixture for the figures that must be sampled: a group for each component where those are draws."""
    components = law._components
    key = jax.random.key(0)
    if not components.sampled:
        return Empirical._grouped(law.sample(key, (DRAWS, 1)), jnp.full(DRAWS, 1 / DRAWS), law.beyond)
    N = len(components)
    M = max(1, DRAWS // N)
    draws = law._draw(key, jnp.repeat(jnp.arange(N), M))
    return Empirical._grouped(draws.reshape(N, M, *law.shape), components.weights, law.beyond, components.blocks)


def central(draws: Any, centre: Any) -> Any:
    """Mean of (y − c)^j over one group's draws, j = 1 … 4."""
    d = draws - centre
    return jnp.stack([jnp.mean(d**j, axis=0) for j in (1, 2, 3, 4)])


def outer(draws: Any, centre: Any) -> Any:
    """Mean of (y − c)(y − c)ᵀ, y flattened."""
    d = (draws - centre).reshape(draws.shape[0], -1)
    return d.T @ d / draws.shape[0]


def below(draws: Any, x: Any) -> Any:
    """The share of a group's draws up to x."""
    return jnp.mean(draws <= x, axis=0)


def cf(draws: Any, t: Any) -> Any:
    """Mean of exp(i t·y)."""
    return jnp.mean(jnp.exp(1j * jnp.sum((draws * t).reshape(draws.shape[0], -1), axis=1)))


@dataclasses.dataclass(frozen=True)
class DrawsMoment:
    """Mean of (y/s)^k."""

    k: int

    def __call__(self, draws: Any, s: Any) -> Any:
        return jnp.mean((draws / s) ** self.k, axis=0)


@dataclasses.dataclass(frozen=True)
class Mean:
    """Mean of ψ(y)."""

    psi: Callable[[Any], Any]

    def __call__(self, draws: Any, _: Any) -> Any:
        return jnp.mean(psi_values(self.psi, draws, draws.shape[0]), axis=0)
