"""Laws known by draws: cdf, quantiles and moments with errors, and no smoothed density."""

import abc
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact, Key

from limitlaw.arguments import is_traced
from limitlaw.digits import counted
from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import Components, Quantity, never_drawn
from limitlaw.laws.base import Content
from limitlaw.laws.checking import entries
from limitlaw.laws.estimates import Atoms, Estimate, as_logarithm, in_units, unit
from limitlaw.laws.tracing import Psi, psi_values

GroupDraws = Float[Array, "M *shape"]  # the draws of one group


def outer(draws: GroupDraws, centre: Float[Array, "*shape"]) -> Float[Array, "m m"]:
    """The mean of (y − c)(y − c)ᵀ over one group's draws, y flattened."""
    d = (draws - centre).reshape(draws.shape[0], -1)
    return d.T @ d / draws.shape[0]


class OfDraws(Averaged):
    """Draws (groups, M, *shape): independent groups, with weights; a group has one component."""

    discrete = True
    _outer = staticmethod(outer)

    def __init__(self, components: Components, kind: str, beyond: tuple[str, ...]) -> None:
        super().__init__(components.parameters.shape[2:], kind, beyond)
        self._components = components

    @abc.abstractmethod
    def _no_density(self, what: str) -> ValueError:
        """The error that is raised where a density is asked for."""

    @property
    def _draws(self) -> Float[Array, "groups M *shape"]:
        return self._components.parameters

    @property
    def _size(self) -> int:
        return self._draws.shape[1]

    def _part(self, rows: slice) -> "Grouped":
        return Grouped(self._components.part(rows), self.kind, self.beyond)

    def thinned(self) -> "OfDraws":
        """The law itself, whose quantiles are fast."""
        return self

    @property
    def _central(self) -> Quantity:
        return central

    @property
    def _xp(self) -> Any:
        """NumPy, or jax.numpy where draws are traced."""
        return jnp if is_traced(self._draws) else np

    @functools.cached_property
    def _sorted(self) -> tuple[Any, Any]:
        """The draws of one number in order, and the cumulative weight up to each."""
        xp = self._xp
        draws, given = xp.asarray(self._draws), self._components.weights
        order = xp.argsort(draws, axis=None, stable=True)
        if draws.shape[1] == 1 and not is_traced(given) and np.ptp(np.asarray(given)) == 0:
            return draws.reshape(-1)[order], np.arange(1, order.size + 1) / order.size
        weights = xp.repeat(xp.asarray(given) / draws.shape[1], draws.shape[1])
        ends = xp.cumsum(weights[order])
        return draws.reshape(-1)[order], ends / ends[-1]

    def _pdf(self, x: Array) -> Estimate:
        raise self._no_density("pdf")

    def _logpdf(self, x: Array) -> Estimate:
        raise self._no_density("logpdf")

    def _entropy(self) -> Estimate:
        raise self._no_density("entropy")

    def _cdf(self, x: Array) -> Estimate:
        points, ends = self._sorted
        xp = jnp if is_traced(x) else self._xp
        value = xp.concatenate([xp.zeros(1), xp.asarray(ends)])[
            xp.searchsorted(points, xp.asarray(x), side="right")
        ]
        value = xp.where(xp.isnan(x), xp.nan, value)
        flat, components = x.reshape(-1), self._components

        def error() -> Array:
            spread = components.average(below, flat, self._size).error().reshape(x.shape)
            unseen = never_drawn(1.0, len(components)) if components.sampled else 0.0
            return jnp.where(jnp.isinf(x), 0.0, jnp.hypot(spread, unseen))

        return Estimate(jnp.asarray(value), error)

    def _sf(self, x: Array) -> Estimate:
        below = self._cdf(x)
        return Estimate(1 - below.value, below.error)

    def _log_tail(self, x: Array, above: bool) -> Estimate:
        """The logarithm of the empirical tail probability.

        Its error is ∞ where no draw lies beyond x: finitely many draws say nothing about it.
        """
        tail = self._sf(x) if above else self._cdf(x)
        none = jnp.inf if self._components.sampled else 0.0
        some = tail.value > 0
        error = lambda: jnp.where(
            some, as_logarithm(tail.error() / jnp.where(some, tail.value, 1)), none
        )
        return Estimate(jnp.log(tail.value), error)

    def _place(self, level: Array, lower: Array) -> Estimate:
        q = jnp.where(lower, level, 1 - level)
        x = self._quantile(q)
        return Estimate(jnp.asarray(x), lambda: self._quantile_error(q, x))

    def _quantile(self, q: Array) -> Array | np.ndarray:
        points, ends = self._sorted
        xp = jnp if is_traced(q) else self._xp
        points, q = xp.asarray(points), xp.asarray(q)
        x = points[xp.minimum(xp.searchsorted(xp.asarray(ends), q, side="left"), points.size - 1)]
        return xp.where(xp.isnan(q), xp.nan, x)

    def _quantile_error(self, q: Array, x: Array | np.ndarray) -> Array:
        """Half the distance of the quantiles a standard error of the cdf above and below."""
        spread = self.error.cdf(x)
        high, low = (self._quantile(jnp.clip(q + s * spread, 0, 1)) for s in (1, -1))
        return jnp.asarray((high - low) / 2)

    def _cf(self, t: Array) -> Estimate:
        lead = t.shape[: t.ndim - len(self.shape)]
        return self._components.average(cf, t.reshape(-1, *self.shape), self._size).reshape(lead)

    def _moment(self, k: int) -> Estimate:
        s = unit(jnp.max(jnp.abs(self._draws), axis=(0, 1)))
        return in_units(self._components.average(DrawsMoment(k), s[None], self._size), s, k)[0]

    def _expect(self, psi: Psi) -> Estimate:
        return self._components.average(MeanOfPsi(psi), size=self._size)

    def _atoms(self) -> tuple[Atoms, Array]:
        groups, M = self._draws.shape[:2]
        values = np.asarray(self._draws).reshape(-1, *self.shape)
        return self._merged(values, np.repeat(np.arange(groups), M), np.full(groups * M, 1 / M))

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draws with replacement."""
        group, member = jax.random.split(key)
        ends = jnp.cumsum(self._components.weights)
        g = jnp.searchsorted(ends, jax.random.uniform(group, shape) * ends[-1], side="right")
        return self._draws[
            jnp.minimum(g, len(self._components) - 1),
            jax.random.randint(member, shape, 0, self._size),
        ]

    @property
    def description(self) -> str:
        """The number of draws."""
        return counted(self._draws.shape[0] * self._size, "sample")

    def _count(self) -> int:
        return self._draws.shape[0] * self._size


class Grouped(OfDraws):
    """Draws in groups, for what other laws must sample, and for parts of such laws."""

    def _no_density(self, what: str) -> ValueError:
        return ValueError(f"draws have no {what}")

    def marginal(self, i: object) -> "Grouped":
        """The law of Y[i], of the same draws."""
        positions, shape = entries(self.shape, i)
        front = self._draws.shape[:2]
        picked = self._draws.reshape(*front, -1)[:, :, positions].reshape(*front, *shape)
        return Grouped(
            dataclasses.replace(self._components, parameters=picked), self.kind, self.beyond
        )

    def _content(self) -> Content:
        raise TypeError("draws in groups are part of another law: save that one")


def central(draws: GroupDraws, centre: Float[Array, "*shape"]) -> Float[Array, "4 *shape"]:
    """The mean of (y − c)^j over one group's draws, j = 1 … 4."""
    d = draws - centre
    return jnp.stack([jnp.mean(d**j, axis=0) for j in (1, 2, 3, 4)])


def below(draws: Float[Array, " M"], x: Float[Array, ""]) -> Float[Array, ""]:
    """The share of a group's draws up to x."""
    return jnp.mean(draws <= x, axis=0)


def cf(draws: GroupDraws, t: Float[Array, "*shape"]) -> Complex[Array, ""]:
    """The mean of exp(i t·y) over one group's draws."""
    return jnp.mean(jnp.exp(1j * jnp.sum((draws * t).reshape(draws.shape[0], -1), axis=1)))


@dataclasses.dataclass(frozen=True)
class DrawsMoment:
    """The mean of (y/s)^k over one group's draws."""

    k: int

    def __call__(self, draws: GroupDraws, s: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.mean((draws / s) ** self.k, axis=0)


@dataclasses.dataclass(frozen=True)
class MeanOfPsi:
    """The mean of ψ(y) over one group's draws."""

    psi: Psi

    def __call__(self, draws: GroupDraws, _: Array) -> Inexact[Array, "..."]:
        return jnp.mean(psi_values(self.psi, draws, draws.shape[0]), axis=0)
