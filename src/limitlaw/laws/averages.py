"""Averages over the components of a law, in blocks, so that memory stays bounded."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Inexact, PyTree

from limitlaw.laws.estimates import Estimate

# numbers held at a time: components × points × numbers in one quantity, which fit into the cache
HELD_NUMBERS = 2**17
SIZES = (1, 16, 128, 1024)  # numbers of points that are evaluated at a time
BLOCKS = 16  # blocks that a sampled law, or a quasi-random sequence, is cut into
LEAST_OF_BLOCK = 2  # fewest components of a block
# standard errors out, where a stated error holds to first order in the skewness of what is
# averaged
AT = 2.0

ONE_BLOCK = 0.7  # largest share of one block in the squared deviations of blocks that are alike
# share of an average: blocks that differ by no more are equal but for rounding
ALIKE_BLOCKS = 1e-14

How = Literal["mean", "log", "spread", "log spread"]  # how components are reduced

Quantity = Callable[..., Inexact[Array, "..."]]  # (component, point) → an array
OfDeviations = Callable[[Array], Array]  # `jnp.square`, or `outer_product`
AtPoints: TypeAlias = PyTree[Array | np.ndarray]  # arrays, points in front
A = TypeVar("A", Array, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Components:
    """What a law averages over: `parameters` (arrays, components in front) with weights of sum
    one.

    `sampled`: the components are independent draws, so that their spread is a standard error.
    Points of a quasi-random sequence are not independent: with `blocks` the error is the spread of
    so many consecutive blocks, which are about as good as independent ones (Owen 1997), and the
    error of the whole is smaller still.
    """

    parameters: PyTree[Array]
    weights: Float[Array, " N"]
    sampled: bool
    blocks: int = 0

    def __len__(self) -> int:
        return self.weights.shape[0]

    def with_weights(self) -> "Components":
        """The same components, for quantities that are functions of (component, its weight)."""
        return dataclasses.replace(self, parameters=(self.parameters, self.weights))

    @functools.cached_property
    def parts(self) -> list["Components"]:
        """The blocks, as components; none if these are independent or too few."""
        size = len(self) // self.blocks if self.blocks else 0
        if not self.sampled or size < LEAST_OF_BLOCK:
            return []
        starts = range(0, self.blocks * size, size)
        return [self.part(slice(start, start + size)) for start in starts]

    def part(self, rows: slice) -> "Components":
        """The components in `rows`, taken as independent of each other."""
        weights = self.weights[rows]
        return Components(
            jax.tree.map(lambda a: a[rows], self.parameters),
            weights / jnp.sum(weights),
            self.sampled,
        )

    def average(
        self, quantity: Quantity, points: AtPoints | None = None, size: int = 1
    ) -> Estimate:
        """Σ_k w_k quantity(component k, point) for each point; `size`: how many intermediate
        numbers one quantity takes.
        """
        value = self._reduce(quantity, "mean", points, size)
        return Estimate(value, lambda: self._error(quantity, points, size, value))

    def log_average(self, quantity: Quantity, points: AtPoints) -> Estimate:
        """log Σ_k w_k exp(quantity), safe if every term underflows, with the logarithm's error."""
        value = self._reduce(quantity, "log", points, 1)
        return Estimate(value, lambda: self._error(quantity, points, 1, value, "log spread"))

    def spread_of_integral(
        self,
        share: Quantity,
        nodes: Float[np.ndarray, " x"],
        weighted: Inexact[np.ndarray, "x ..."],
        integral: Inexact[Array, "..."],
        points: Callable[[Array], AtPoints] = lambda x: x,
    ) -> Float[Array, "..."]:
        """The standard error of ∫ f p, from what each component, of density `share`, contributes.

        `weighted`: f times a rule's weights; `points`: `share`'s argument, from the nodes.
        """
        count = padded_size(len(nodes))  # few sizes, to compile for
        weighted = np.concatenate([weighted, np.zeros((count - len(nodes), *weighted.shape[1:]))])
        at = points(jnp.asarray(pad(nodes, count)))
        size = max(weighted.size, sum(a.size for a in jax.tree.leaves(at)))
        point = jax.tree.map(lambda a: jnp.asarray(a)[None], (at, weighted, integral))
        return self._error(Influence(share), point, size, jnp.zeros((1, *integral.shape)))[0]

    def second_moment(
        self, second: Quantity, first: Quantity, product: OfDeviations, centre: Array, size: int
    ) -> Array:
        """Σ_k w_k s_k of second moments about an estimated mean, with Bessel's correction (1818):
        the plain sum is too small by the variance of that mean, Σ_k w_k² f_k²/(1 − Σ_k w_k²) of
        first moments f_k, or their covariance matrix by `product`; 0 unless sampled.
        """
        several = self.sampled and len(self) > 1
        share = 1 / (1 - jnp.sum(self.weights**2)) if several and not self.parts else jnp.zeros(())
        both, point = SecondMoment(second, first, product), (centre[None], share[None])
        total = self.with_weights().average(both, point, size).value[0]
        if not (several and self.parts):
            return total
        d = jnp.stack([part.average(first, centre[None], size).value[0] for part in self.parts])
        return total + jnp.sum(jax.vmap(product)(d), axis=0) / (len(d) * (len(d) - 1))

    def _error(
        self,
        quantity: Quantity,
        points: AtPoints | None,
        size: int,
        value: Array,
        how: Literal["spread", "log spread"] = "spread",
    ) -> Float[Array, "..."]:
        """√(Σ w² d²), d = f − value, of a self-normalised average, divided by √(1 − Σ w²) for the
        degree of freedom that the average took.

        Where the average is skewed, its error is small just when it is too small itself, having
        missed the rare large terms. By the Edgeworth expansion of a Studentised average (Hall,
        "The bootstrap and Edgeworth expansion", 1992, section 2.6), P(T ≤ −t) = Φ(−t) + γ(2t² +
        1)φ(t)/6 with its skewness γ = Σ w³ d³/(Σ w² d²)^{3/2}, which moves the quantile at t by
        the factor 1 + |γ|(2t² + 1)/6t: so large an error holds at t = 2 standard errors.
        """
        if not self.sampled:
            return jnp.zeros(jnp.shape(value))
        log = how == "log spread"
        if not self.parts:
            return _standard_error(*self._reduce(quantity, how, points, size, value), self.weights)
        found = jnp.stack(
            [part._reduce(quantity, "log" if log else "mean", points, size) for part in self.parts]
        )
        away = jnp.where(found == value, 0.0, found - value)  # both may be −∞
        if log:
            return error_of_blocks(jnp.expm1(away), jnp.ones(value.shape), len(self))
        return error_of_blocks(away, value, len(self))

    def _reduce(
        self,
        quantity: Quantity,
        how: How,
        points: AtPoints | None,
        size: int,
        centre: Array | None = None,
    ) -> PyTree[Array]:
        if points is None:
            one = self._reduce(
                quantity, how, jnp.zeros(1), size, None if centre is None else centre[None]
            )
            return jax.tree.map(lambda a: a[0], one)
        count = jax.tree.leaves(points)[0].shape[0]
        centre = jnp.zeros(count) if centre is None else centre
        starts = range(0, max(count, 1), SIZES[-1])
        parts = [
            self._part(quantity, how, _rows((points, centre), start), size) for start in starts
        ]
        return parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: jnp.concatenate(a), *parts)

    def _part(
        self, quantity: Quantity, how: How, points: tuple[AtPoints, Array], size: int
    ) -> PyTree[Array]:
        count = points[1].shape[0]
        padded = padded_size(count)
        across = min(padded, 128)
        down = max(1, min(HELD_NUMBERS // (across * size), len(self)))
        at, centre = jax.tree.map(lambda a: pad(a, padded), points)
        sums = _blocks(self.parameters, self.weights, at, centre, quantity, how, (down, across))
        return jax.tree.map(lambda a: a[:count], sums)


@dataclasses.dataclass(frozen=True)
class Influence:
    """∫ f p for the density p of one component, minus the average over all components."""

    share: Quantity

    def __call__(
        self, component: PyTree[Array], point: tuple[PyTree[Array], Array, Array]
    ) -> Array:
        points, weighted, average = point
        return (
            jnp.tensordot(jax.vmap(lambda x: self.share(component, x))(points), weighted, 1)
            - average
        )


@dataclasses.dataclass(frozen=True)
class SecondMoment:
    """s + w f fᵀ/(1 − Σ_k w_k²), or its diagonal, of a component with its weight w."""

    second: Quantity
    first: Quantity
    product: OfDeviations

    def __call__(self, weighted: tuple[PyTree[Array], Array], point: tuple[Array, Array]) -> Array:
        (component, w), (centre, share) = weighted, point
        f = self.first(component, centre)
        return self.second(component, centre) + w * share * self.product(f)


def outer_product(d: Float[Array, "..."]) -> Float[Array, "m m"]:
    """d dᵀ, with d flattened."""
    return jnp.outer(d, d)


@jax.jit
def _standard_error(
    squares: Float[Array, "..."], cubes: Inexact[Array, "..."], weights: Float[Array, " N"]
) -> Float[Array, "..."]:
    """The standard error of an average, from the sums of w² d² and w³ d³."""
    safe = jnp.where(squares > 0, squares, 1)
    skewness = jnp.where(squares > 0, jnp.abs(cubes) / safe**1.5, 0)
    return jnp.sqrt(squares / (1 - jnp.sum(weights**2))) * (
        1 + skewness * (2 * AT**2 + 1) / (6 * AT)
    )


def spread_of_blocks(d: Inexact[Array, "blocks ..."]) -> Float[Array, "..."]:
    """The standard error √(Σ_b |d_b|²/B(B − 1)) of an average, its blocks being d_b off."""
    return jnp.sqrt(jnp.sum(jnp.abs(d) ** 2, axis=0) / (len(d) * (len(d) - 1)))


def never_drawn(value: Array | float, count: int) -> Float[Array, "..."]:
    """The share that one draw of `count` carries: a rarer event may be in none of them."""
    return jnp.abs(value) / count


def rare_decide(
    d: Inexact[Array, "blocks ..."], value: Inexact[Array, "..."]
) -> Bool[Array, "..."]:
    """May events that are too rare to be drawn decide an average? Blocks then do not deviate from
    it by d, or one deviates far more than others: of 16 normal deviations the largest has
    `ONE_BLOCK` of all squares once in a thousand times.
    """
    size = jnp.abs(d)
    largest = jnp.max(size, axis=0)
    squares = jnp.sum((size / jnp.where(largest > 0, largest, 1.0)) ** 2, axis=0)
    return (largest <= ALIKE_BLOCKS * jnp.abs(value)) | (squares < 1 / ONE_BLOCK)


def error_of_blocks(
    d: Inexact[Array, "blocks ..."], value: Inexact[Array, "..."], count: int
) -> Float[Array, "..."]:
    """The standard error of an average of `count` draws from the deviations d of its blocks, with
    that from events that no draw has shown, where these may matter.
    """
    unseen = jnp.where(rare_decide(d, value), never_drawn(value, count), 0.0)
    return jnp.hypot(spread_of_blocks(d), unseen)


def _rows(points: tuple[AtPoints, Array], start: int) -> tuple[PyTree[Array], Array]:
    return jax.tree.map(lambda a: jnp.asarray(a)[start : start + SIZES[-1]], points)


def padded_size(count: int) -> int:
    """Points evaluated for `count`: one of few sizes, each of which is compiled for."""
    return next((size for size in SIZES if size >= count), -(-count // SIZES[-1]) * SIZES[-1])


def pad(a: A, count: int) -> A | Array:
    """`a` with its last entry repeated until there are `count`."""
    if a.shape[0] == count:
        return a
    if isinstance(a, jax.core.Tracer):
        return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (count - a.shape[0], *a.shape[1:]))])
    known = np.asarray(a)  # not compiled for each shape
    last = known[-1:] if len(known) else np.zeros((1, *a.shape[1:]), known.dtype)
    return jnp.asarray(
        np.concatenate([known, np.broadcast_to(last, (count - a.shape[0], *a.shape[1:]))])
    )


@functools.partial(jax.jit, static_argnames=("quantity", "how", "sizes"))
def _blocks(
    parameters: PyTree[Array],
    weights: Float[Array, " N"],
    points: PyTree[Array],
    centre: Array,
    quantity: Quantity,
    how: How,
    sizes: tuple[int, int],
) -> PyTree[Array]:
    """The reduction `how` of the quantity at points, `sizes` = (components, points) at a time."""
    down, across = sizes
    rows = -(-weights.shape[0] // down)
    parameters = jax.tree.map(
        lambda a: pad(a, rows * down).reshape(rows, down, *a.shape[1:]), parameters
    )
    weights = jnp.pad(weights, (0, rows * down - weights.shape[0])).reshape(rows, down)

    def at_points(block: tuple[PyTree[Array], Array]) -> PyTree[Array]:
        def of_components(chunk: tuple[PyTree[Array], Array]) -> PyTree[Array]:
            components, w = chunk
            f = jax.vmap(lambda c: jax.vmap(lambda p: quantity(c, p))(block[0]))(components)
            w = w.reshape(down, *[1] * (f.ndim - 1))
            if how == "log":
                return jax.nn.logsumexp(f + jnp.log(w), axis=0)
            if how in ("spread", "log spread"):
                d = jnp.exp(f - block[1]) - 1 if how == "log spread" else f - block[1]
                squares = w**2 * jnp.abs(d) ** 2
                return jnp.sum(squares, axis=0), jnp.sum(w * d * squares, axis=0)
            return jnp.sum(w * f, axis=0)

        parts = jax.lax.map(of_components, (parameters, weights))
        return (
            jax.nn.logsumexp(parts, axis=0)
            if how == "log"
            else jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)
        )

    split = jax.tree.map(lambda a: a.reshape(-1, across, *a.shape[1:]), (points, centre))
    out = jax.lax.map(at_points, split)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), out)
