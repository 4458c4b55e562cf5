"""Averages of a figure over the components of a law, in blocks: memory stays bounded for any number of components."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

BLOCK = 2**17  # numbers held at a time: (components × points × numbers per figure) fits the cache
SIZES = (1, 16, 128, 1024)  # points at a time

Figure = Callable[[Any, Any], Any]  # of one component at one point


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure, and its standard error once that is asked for."""

    value: Inexact[Array, "..."]
    error: Callable[[], Float[Array, "..."]]


def exact(value: Inexact[Array, "..."]) -> Estimate:
    """A figure without error."""
    return Estimate(value, lambda: jnp.zeros(jnp.shape(value)))


@dataclasses.dataclass(frozen=True)
class Components:
    """What a law averages over: `parameters` (arrays, components in front) with weights of sum one.

    `sampled`: the components are independent draws, so that their spread is a standard error.
    """

    parameters: Any
    weights: Float[Array, " N"]
    sampled: bool

    def __len__(self) -> int:
        return self.weights.shape[0]

    def average(self, figure: Figure, points: Any = None, size: int = 1) -> Estimate:
        """Σ_k w_k figure(component k, point) for each point; `size`: how many numbers one figure passes through."""
        value = self._reduce(figure, "mean", points, size)
        return Estimate(value, lambda: self._error(figure, points, size, value))

    def log_average(self, figure: Figure, points: Any) -> Estimate:
        """log Σ_k w_k exp(figure), safe where every term underflows. The error is that of the logarithm."""
        value = self._reduce(figure, "log", points, 1)
        return Estimate(value, lambda: self._error(figure, points, 1, value, "log square"))

    def spread(self, figure: Figure, point: Any, like: Inexact[Array, "..."], size: int = 1) -> Float[Array, "..."]:
        """The standard error of a figure at one point whose average is zero: an influence function."""
        zero = jnp.zeros((1, *like.shape))
        return self._error(figure, jax.tree.map(lambda a: jnp.asarray(a)[None], point), size, zero)[0]

    def _error(
        self, figure: Figure, points: Any, size: int, value: Any, how: Literal["square", "log square"] = "square"
    ) -> Float[Array, "..."]:
        if not self.sampled:
            return jnp.zeros(jnp.shape(value))
        # Of a self-normalised average: Σ w² (f − value)², and 1 − Σ w² for the degree of freedom the value took.
        squares = self._reduce(figure, how, points, size, value)
        return jnp.sqrt(squares / (1 - jnp.sum(self.weights**2)))

    def _reduce(self, figure: Figure, how: str, points: Any, size: int, centre: Any = None) -> Any:
        if points is None:
            return self._reduce(figure, how, jnp.zeros(1), size, None if centre is None else centre[None])[0]
        count = jax.tree.leaves(points)[0].shape[0]
        centre = jnp.zeros(count) if centre is None else centre
        starts = range(0, max(count, 1), SIZES[-1])
        parts = [self._part(figure, how, _rows((points, centre), start), size) for start in starts]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    def _part(self, figure: Figure, how: str, points: tuple[Any, Any], size: int) -> Any:
        count = points[1].shape[0]
        padded = padded_size(count)
        across = min(padded, 128)
        down = max(1, min(BLOCK // (across * size), len(self)))
        at, centre = jax.tree.map(lambda a: pad(a, padded), points)
        return _blocks(self.parameters, self.weights, at, centre, figure, how, (down, across))[:count]


def _rows(points: Any, start: int) -> Any:
    return jax.tree.map(lambda a: jnp.asarray(a)[start : start + SIZES[-1]], points)


def padded_size(count: int) -> int:
    """How many points are evaluated for `count`: few sizes, since each is compiled for."""
    return next((size for size in SIZES if size >= count), -(-count // SIZES[-1]) * SIZES[-1])


def pad(a: Any, count: int) -> Any:
    """`a` with its last entry repeated until there are `count`."""
    if a.shape[0] == count:
        return a
    if isinstance(a, jax.core.Tracer):
        return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (count - a.shape[0], *a.shape[1:]))])
    a = np.asarray(a)  # not compiled for each shape
    last = a[-1:] if len(a) else np.zeros((1, *a.shape[1:]), a.dtype)
    return jnp.asarray(np.concatenate([a, np.broadcast_to(last, (count - a.shape[0], *a.shape[1:]))]))


@functools.partial(jax.jit, static_argnames=("figure", "how", "sizes"))
def _blocks(
    parameters: Any, weights: Any, points: Any, centre: Any, figure: Figure, how: str, sizes: tuple[int, int]
) -> Any:
    """The reduction `how` over components of the figure at each point, `sizes` = (components, points) at a time."""
    down, across = sizes
    rows = -(-weights.shape[0] // down)
    parameters = jax.tree.map(lambda a: pad(a, rows * down).reshape(rows, down, *a.shape[1:]), parameters)
    weights = jnp.pad(weights, (0, rows * down - weights.shape[0])).reshape(rows, down)

    def at_points(block: tuple[Any, Any]) -> Any:
        def of_components(chunk: tuple[Any, Any]) -> Any:
            components, w = chunk
            f = jax.vmap(lambda c: jax.vmap(lambda p: figure(c, p))(block[0]))(components)
            w = w.reshape(down, *[1] * (f.ndim - 1))
            if how == "log":
                return jax.nn.logsumexp(f + jnp.log(w), axis=0)
            if how == "log square":
                f = jnp.exp(f - block[1])
                return jnp.sum(w**2 * (f - 1) ** 2, axis=0)
            if how == "square":
                return jnp.sum(w**2 * jnp.abs(f - block[1]) ** 2, axis=0)
            return jnp.sum(w * f, axis=0)

        parts = jax.lax.map(of_components, (parameters, weights))
        return jax.nn.logsumexp(parts, axis=0) if how == "log" else jnp.sum(parts, axis=0)

    split = jax.tree.map(lambda a: a.reshape(-1, across, *a.shape[1:]), (points, centre))
    out = jax.lax.map(at_points, split)
    return out.reshape(-1, *out.shape[2:])
