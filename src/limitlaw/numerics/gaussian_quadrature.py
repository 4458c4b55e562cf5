"""Integrals against the standard normal density in one and two dimensions, elementwise, node axes
in front; sums run in loops over nodes, so that memory is bounded.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from limitlaw.domain import DEVIATIONS
from limitlaw.numerics import Floats, Reals

RealFunction = Callable[[Reals], Reals]
ValueAndError = tuple[Reals, Reals]
T = TypeVar("T")

LIMIT = 10.0  # the integral over |x| > 10 is left out: P(|Z| > 10) = 2e-23
# unless the integrand has structure far out, and may be 0 before it: then behind the first such
# place, up to 16, beyond which e^{−56} of that is left for structure at the end of the domain
OUT, FAR, FAR_STEPS = 4.0, DEVIATIONS + 4, np.append(0.0, 2.0 ** np.arange(7))
# Gauss nodes on a panel: the first number is for the value, the others are for its error
VALUE_ONLY, ROUGH_ERROR, FULL_ERROR = (10,), (10, 7), (10, 7, 5)
TINIEST = 1e-200  # stands in for a variance of zero: its inverse and its square root are finite
BEYOND_PANELS = np.array(
    [1.0, 1.01, 1.03, 1.07, 1.15, 1.3, 1.5, 1.7, 2.0, 2.3, 2.6, 3.0, 3.5, 4.0]
)
HELD_NODES = 2**17  # numbers held at a time by `rotated`


@dataclasses.dataclass(frozen=True)
class Graded:
    """Places c (an axis in front) with structure of width w: panels end at c and c ± w 2^j, j <
    levels, no farther than `left` and `right`, where another place takes over.
    """

    c: Float[Array, "places ..."]
    w: Reals | float = 0.0
    levels: int = 0
    left: Reals | float = math.inf
    right: Reals | float = math.inf

    def edges(self) -> Float[Array, "edges ..."]:
        """All edges, in no order."""
        steps = [self.w * 2.0**j for j in range(self.levels)]
        sides = [
            self.c + sign * jnp.minimum(s, most)
            for s in steps
            for sign, most in ((-1, self.left), (1, self.right))
        ]
        return jnp.concatenate([self.c, *sides])


def panel_edges(
    shape: tuple[int, ...], structure: Sequence[Graded], far: Sequence[Graded] = ()
) -> Float[Array, "edges ..."]:
    """Edges of panels on [−LIMIT, LIMIT], cut where the integrand has structure; farther out for
    `far`, before which it may be 0.

    Without structure they have length 2, on which ten nodes integrate the normal density to 1e-15.
    """
    axes = (slice(None),) + (None,) * len(shape)
    edges = [jnp.linspace(-LIMIT, LIMIT, round(LIMIT) + 1)[axes]]
    edges += [jnp.clip(graded.edges(), -LIMIT, LIMIT) for graded in (*structure, *far)]
    if far:
        places = [jnp.broadcast_to(graded.c, (len(graded.c), *shape)) for graded in far]
        c = jnp.concatenate(places)
        edges += [_far_edges(c), -_far_edges(-c)]
    return jnp.sort(
        jnp.concatenate([jnp.broadcast_to(e, (len(e), *shape)) for e in edges]), axis=0
    )


def _far_edges(c: Float[Array, "places ..."]) -> Float[Array, "edges ..."]:
    """Edges behind the first c > OUT, where e^{−c(x − c)} is the decay; LIMIT if none is."""
    first = jnp.min(jnp.where(c > OUT, c, jnp.inf), axis=0, initial=jnp.inf)
    behind = first + FAR_STEPS[(slice(None),) + (None,) * first.ndim] / first
    return jnp.where(jnp.isfinite(first), jnp.minimum(behind, FAR), LIMIT)


def integrate(
    f: RealFunction,
    edges: Float[Array, "edges ..."],
    rules: tuple[int, ...] = VALUE_ONLY,
    analytic: bool = True,
    doubt: RealFunction | None = None,
) -> ValueAndError:
    """∫ f(x) n(x) dx, n the standard normal density, by a Gauss–Legendre rule on each panel, and
    its error for each element, from rules with fewer nodes on the same panels; with a single rule
    the error is 0.

    `f` takes nodes of shape (count, *shape); empty panels cost nothing. `analytic`: is f known to
    be smooth inside the panels? `doubt`: the error of f itself.
    """

    def panel(a: Reals, b: Reals) -> tuple[Reals, ...]:
        (fine, *others), size = _on_panel(f, a, b, rules)
        if not others:
            return (fine,)
        error = _error_of_the_finest(size, [jnp.abs(fine - other) for other in others], analytic)
        return fine, error if doubt is None else error + _on_panel(doubt, a, b, rules[-1:])[0][0]

    value, *errors = _over_panels(panel, edges)
    if not errors:
        return value, jnp.zeros_like(value)
    error = errors[0] + _outside(f, edges)
    return value, jnp.where(jnp.isfinite(value) & ~jnp.isnan(error), error, jnp.inf)


def _on_panel(
    f: RealFunction, a: Reals, b: Reals, rules: tuple[int, ...]
) -> tuple[list[Reals], Reals]:
    """∫ f(x) n(x) dx over [a, b] by each rule, and ∫ |f(x)| n(x) dx; f is called once."""
    nodes, weights = zip(*map(np.polynomial.legendre.leggauss, rules), strict=True)
    axes = (slice(None),) + (None,) * a.ndim
    half = 0.5 * (b - a)
    x = 0.5 * (a + b) + half * np.concatenate(nodes)[axes]
    values = jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * f(x)
    terms = half * np.concatenate(weights)[axes] * values
    terms = jnp.where(half > 0, terms, 0.0)  # f may be infinite at the one point of an empty panel
    parts = jnp.split(terms, np.cumsum(rules)[:-1])
    return [jnp.sum(part, axis=0) for part in parts], jnp.sum(jnp.abs(parts[0]), axis=0)


def _over_panels(
    panel: Callable[[Reals, Reals], tuple[Reals, ...]], edges: Float[Array, "edges ..."]
) -> tuple[Reals, ...]:
    """The sums of panel(a, b) over all panels that are not empty."""
    empty = jax.eval_shape(panel, edges[0], edges[1])

    def nothing(a: Reals, b: Reals) -> tuple[Reals, ...]:
        return tuple(jnp.zeros_like(a) for _ in empty)

    def add(
        totals: tuple[Reals, ...], ends: tuple[Reals, Reals]
    ) -> tuple[tuple[Reals, ...], None]:
        terms = jax.lax.cond(jnp.any(ends[1] > ends[0]), panel, nothing, *ends)
        return tuple(total + term for total, term in zip(totals, terms, strict=True)), None

    start = tuple(jnp.zeros(edges.shape[1:]) for _ in empty)
    return jax.lax.scan(add, start, (edges[:-1], edges[1:]))[0]


def _error_of_the_finest(size: Reals, differences: list[Reals], analytic: bool) -> Reals:
    """The error of ten Gauss nodes on a panel, from their differences to seven and to five, ∫|f|
    being `size`.

    For an analytic f the error of n nodes is A r^{2n} or less, so that e_10 ≤ A (e_7/A)^{10/7} ≤ A
    (e_5/A)². Where five nodes see nothing yet, e_10 = e_7 (e_7/e_5)^{3/2}, which holds for e_n ~
    n^{-2} too. A difference may be small by chance: a part of the other one is taken into account.
    If f may have kinks inside nothing better is known than e_7.
    """
    A = jnp.maximum(size, TINIEST)
    d_7, d_5 = differences[0] / A, differences[-1] / A
    if not analytic:
        return A * jnp.maximum(d_7, 0.1 * d_5)
    seen = jnp.maximum(d_7 ** (10 / 7), 0.02 * d_5**2)
    unseen = jnp.maximum(d_7 * jnp.minimum(1.0, d_7 / jnp.maximum(d_5, TINIEST)) ** 1.5, 0.1 * d_5)
    return A * jnp.where(d_5 < 0.03, seen, unseen)


def _outside(f: RealFunction, edges: Float[Array, "edges ..."]) -> Reals:
    """An estimate of ∫ |f(x)| n(x) dx outside the panels, infinite if f overflows; points where f
    is not defined do not count.
    """
    axes = (slice(None),) + (None,) * (edges.ndim - 1)
    x = jnp.concatenate([edges[0] * BEYOND_PANELS[axes], edges[-1] * BEYOND_PANELS[axes]])
    steps = np.gradient(BEYOND_PANELS)[axes]
    w = jnp.concatenate([-edges[0] * steps, edges[-1] * steps]) * jnp.exp(-0.5 * x * x)
    return _size_of_terms(f(x), w / math.sqrt(2 * math.pi))


def _size_of_terms(values: Reals, w: Floats) -> Reals:
    """Σ w |value|, infinite if one term is; values that are not defined do not count."""
    terms = jnp.where(jnp.isinf(values), jnp.inf, w * jnp.abs(values))
    return jnp.sum(jnp.where(jnp.isnan(terms), 0.0, terms), axis=0)


def disc(
    step: float, radius: float
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The trapezoidal rule of N(0, I) in the plane: nodes (x, y) on a disc's grid, weights."""
    grid = step * np.arange(-math.floor(radius / step), math.floor(radius / step) + 1)
    x, y = (a.ravel() for a in np.meshgrid(grid, grid))
    inside = x * x + y * y <= radius**2
    x, y = x[inside], y[inside]
    return x, y, step**2 / (2 * math.pi) * np.exp(-0.5 * (x * x + y * y))


def rotated(
    f: RealFunction,
    g: RealFunction,
    u: Callable[[Reals, Reals], Reals],
    v: Callable[[Reals, Reals], Reals],
    shape: tuple[int, ...],
    step: float,
    radius: float,
) -> Reals:
    """E f(u)g(v), u and v linear in two independent standard normals, of that elementwise shape.

    It converges exponentially for every correlation, if f and g are smooth on scales above `step`.
    """
    nodes = disc(step, radius)
    count = len(nodes[0])
    chunk = max(1, min(count, HELD_NODES // max(1, math.prod(shape))))
    rows = -(-count // chunk)
    axes = (slice(None), slice(None)) + (None,) * len(shape)
    whole = [np.pad(a, (0, rows * chunk - count)).reshape(rows, chunk)[axes] for a in nodes]

    def add(total: Reals, nodes: tuple[Reals, ...]) -> tuple[Reals, None]:
        x, y, w = nodes
        return total + jnp.sum(w * (f(u(x, y)) * g(v(x, y))), axis=0), None

    return jax.lax.scan(add, jnp.zeros(shape), tuple(map(jnp.asarray, whole)))[0]


def on_a_grid(
    f: RealFunction, u: RealFunction, shape: tuple[int, ...], step: float, radius: float
) -> Float[Array, "2 ..."]:
    """E f(u(x)) and E x f(u(x)) by the trapezoidal rule in one dimension."""
    grid = step * np.arange(-math.floor(radius / step), math.floor(radius / step) + 1)
    x = jnp.asarray(grid[(slice(None),) + (None,) * len(shape)])
    values = step / math.sqrt(2 * math.pi) * jnp.exp(-0.5 * x * x) * f(u(x))
    return jnp.stack([values.sum(axis=0), (x * values).sum(axis=0)])


def tail_of_plane(f: Callable[[Reals, Reals], Reals], ndim: int, radius: float = 9.5) -> Reals:
    """An estimate of E |f(x, y)|, x, y ~ N(0, 1), outside a disc; infinite if f overflows."""
    r = radius * np.array([1.0, 1.2, 1.5, 2.0, 3.0, 4.0])
    angle = 2 * np.pi * np.arange(16) / 16
    axes = (slice(None),) + (None,) * ndim
    x, y = ((r[:, None] * a).ravel()[axes] for a in (np.cos(angle), np.sin(angle)))
    w = np.repeat(np.gradient(r) * r * np.exp(-0.5 * r**2) / 16, 16)
    return _size_of_terms(f(jnp.asarray(x), jnp.asarray(y)), w[axes])


def largest(error: Reals) -> Float[Array, ""]:
    """The largest entry in modulus; infinite if one is not finite."""
    value = jnp.max(jnp.abs(error), initial=0.0)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)


def otherwise(good: Bool[Array, ""], value: T, better: Callable[[], T]) -> T:
    """`value` where `good`, else better(), computed only then (but under `jax.vmap`)."""
    return jax.lax.cond(good, lambda: value, better)
