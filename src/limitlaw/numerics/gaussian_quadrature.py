"""Integrals against the standard normal density in one and two dimensions, elementwise over arrays.

Node axes stand in front of the elementwise axes everywhere. Sums run in loops over nodes, so that memory is bounded.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Reals = Float[Array, "..."]
Function = Callable[[Reals], Reals]

LIMIT = 10.0  # the integral over |x| > 10 is left out: P(|Z| > 10) = 2e-23
BASE_PANELS = 10  # on panels of length 2 the ten-point rule integrates the density itself to 1e-15
CHUNK = 2**17  # numbers held at a time by `rotated`


def panel_edges(shape: tuple[int, ...], centres: Sequence[tuple[Reals, Reals, int]]) -> Float[Array, "edges ..."]:
    """Edges of panels on [−LIMIT, LIMIT]: equal ones, cut at c and at c ± w 2^j, j < levels, for each (c, w, levels).

    A function that is smooth but for structure of width w around c is a good polynomial on every panel.
    """
    edges = [jnp.linspace(-LIMIT, LIMIT, BASE_PANELS + 1)[(slice(None),) + (None,) * len(shape)]]
    for c, w, levels in centres:
        steps = np.concatenate([[0.0], 2.0 ** np.arange(levels)])
        steps = np.concatenate([-steps[:0:-1], steps])[(slice(None),) + (None,) * len(shape)]
        edges.append(jnp.clip(c + w * steps, -LIMIT, LIMIT))
    return jnp.sort(jnp.concatenate([jnp.broadcast_to(e, (len(e), *shape)) for e in edges]), axis=0)


def integrate(f: Function, edges: Float[Array, "edges ..."], order: int = 10) -> Reals:
    """∫ f(x) n(x) dx, n the standard normal density, by a Gauss–Legendre rule on each panel; empty panels cost nothing.

    `f` takes nodes of shape (order, *shape).
    """
    nodes, weights = np.polynomial.legendre.leggauss(order)
    axes = (slice(None),) + (None,) * (edges.ndim - 1)
    xi, w = nodes[axes], weights[axes] / math.sqrt(2 * math.pi)

    def panel(a: Reals, b: Reals) -> Reals:
        half = 0.5 * (b - a)
        x = 0.5 * (a + b) + half * xi
        return half * jnp.sum(w * jnp.exp(-0.5 * x * x) * f(x), axis=0)

    def add(total: Reals, ends: tuple[Reals, Reals]) -> tuple[Reals, None]:
        a, b = ends
        return total + jax.lax.cond(jnp.any(b > a), panel, lambda a, b: jnp.zeros_like(a), a, b), None

    return jax.lax.scan(add, jnp.zeros(edges.shape[1:]), (edges[:-1], edges[1:]))[0]


def disc(step: float, radius: float) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The trapezoidal rule for the standard normal density in the plane: nodes (x, y) of a square grid in a disc."""
    grid = step * np.arange(-math.floor(radius / step), math.floor(radius / step) + 1)
    x, y = (a.ravel() for a in np.meshgrid(grid, grid))
    inside = x * x + y * y <= radius**2
    x, y = x[inside], y[inside]
    return x, y, step**2 / (2 * math.pi) * np.exp(-0.5 * (x * x + y * y))


def rotated(
    f: Function,
    g: Function,
    u: Callable[[Reals, Reals], Reals],
    v: Callable[[Reals, Reals], Reals],
    shape: tuple[int, ...],
    step: float,
    radius: float,
) -> Reals:
    """E f(u)g(v) for u and v linear in two independent standard normals (x, y), of that elementwise shape.

    Exponentially convergent, for every correlation alike, as long as f and g are smooth on a scale above `step` times
    the deviation. `f` and `g` take arrays of shape (nodes, *shape).
    """
    nodes = disc(step, radius)
    count = len(nodes[0])
    chunk = max(1, min(count, CHUNK // max(1, math.prod(shape))))
    rows = -(-count // chunk)
    axes = (slice(None), slice(None)) + (None,) * len(shape)
    padded = tuple(jnp.asarray(np.pad(a, (0, rows * chunk - count)).reshape(rows, chunk)[axes]) for a in nodes)

    def add(total: Reals, nodes: tuple[Reals, ...]) -> tuple[Reals, None]:
        x, y, w = nodes
        return total + jnp.sum(w * (f(u(x, y)) * g(v(x, y))), axis=0), None

    return jax.lax.scan(add, jnp.zeros(shape), padded)[0]


def on_a_grid(f: Function, u: Function, shape: tuple[int, ...], step: float, radius: float) -> Float[Array, "2 ..."]:
    """E f(u(x)) and E x f(u(x)) by the trapezoidal rule of one dimension."""
    grid = step * np.arange(-math.floor(radius / step), math.floor(radius / step) + 1)
    x = jnp.asarray(grid[(slice(None),) + (None,) * len(shape)])
    values = step / math.sqrt(2 * math.pi) * jnp.exp(-0.5 * x * x) * f(u(x))
    return jnp.stack([values.sum(axis=0), (x * values).sum(axis=0)])


def largest(error: Reals) -> Float[Array, ""]:
    """The largest entry in modulus, infinite if one is not finite."""
    value = jnp.max(jnp.abs(error), initial=0.0)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)


def otherwise(good: Bool[Array, ""], value: Any, better: Callable[[], Any]) -> Any:
    """`value` where `good`, else what `better()` gives; only one of the two is computed, except under `jax.vmap`."""
    return jax.lax.cond(good, lambda: value, better)
