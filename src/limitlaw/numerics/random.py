"""Sources of random numbers: normals from the bits of a key, or scrambled Sobol points in place of
random draws (Sobol 1967; Owen 1995; Joe and Kuo 2008), as normals and as χ variables.

Normals are made by the Box–Muller transform: in float64 on a CPU about twice as fast as
`jax.random.normal`. A program does not know in advance how many normals and χ variables it draws:
it is traced once with a `Quasi` that writes down what is asked for; points of that dimension are
then made on the host, and handed out in the same order.
"""

import copy
import math
import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, UInt32, UInt64

from limitlaw.numerics.special_functions import chi_quantile, series

# most dimensions of Sobol points: beyond, they are no better than random ones
MOST_DIMENSIONS = 1024
SEED = 20251115  # seed of the scrambling, where no key is given
RADIUS_BITS = 40  # bits for the radius of a pair of normals, of its 64 random bits
ANGLE_BITS = 64 - RADIUS_BITS
WORD_BITS = 53  # bits of a uniform number in float64
# the radius of the smallest U, 2⁻⁴¹: no draw is beyond 7.54
LARGEST_NORMAL = math.sqrt(2 * (RADIUS_BITS + 1) * math.log(2))
# Terms of the Taylor series of cos and sin that reach full precision at an eighth of a turn.
COS_TERMS, SIN_TERMS = 9, 8


# --- sources -------------------------------------------------------------------------------------


class Quasi:
    """A source of draws in place of a JAX key, which hands out the latent variables of one draw in
    order.

    `row` holds the latent variables of one draw. Along an axis of nodes (`along`) a request is
    answered by points that fill it evenly, from the columns of `table` (nodes, …): so an infinite
    axis of heads becomes a quadrature. Requests beyond these are drawn from `key`. Without `row`
    and `table` the requests are only written down, in `recipe` and `table_recipe`: the degrees of
    freedom of each variable, ∞ for a normal. At most `most` are handed out.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        row: Float[Array, " numbers"] | None = None,
        table: Float[Array, "nodes columns"] | None = None,
        most: int | float = MOST_DIMENSIONS,
    ):
        self.row, self.table, self.most = row, table, most
        self.recipe: list[float] = []
        self.table_recipe: list[float] = []
        self._keys: list[Key[Array, ""]] = [key]  # the last one is for what comes next
        self._nodes: int | None = None

    def along(self, nodes: int | None) -> "Quasi":
        """The same source, for requests whose axis number `nodes` is an axis of nodes."""
        view = copy.copy(self)
        view._nodes = nodes
        return view

    @property
    def overflows(self) -> bool:
        """Was anything asked for beyond the variables that are given?"""
        return len(self._keys) > 1

    def take(self, shape: tuple[int, ...], df: ArrayLike) -> Float[Array, "..."] | None:
        """Normals (df = ∞) or χ_df variables of `shape`; None where those given are used up."""
        df = np.broadcast_to(np.asarray(df, float), shape)
        if self._nodes is not None:
            return self._take_nodes(self._nodes, shape, df)
        start, count = len(self.recipe), math.prod(shape)
        if start + count > self.most:
            return None
        self.recipe += df.reshape(-1).tolist()
        if self.row is None:
            return jnp.ones(shape)
        return self.row[start : start + count].reshape(shape)

    def _take_nodes(
        self, axis: int, shape: tuple[int, ...], df: Float[np.ndarray, "..."]
    ) -> Float[Array, "..."]:
        rest = (*shape[:axis], *shape[axis + 1 :])
        start, count = len(self.table_recipe), math.prod(rest)
        self.table_recipe += np.take(df, 0, axis=axis).reshape(-1).tolist()
        if self.table is None:
            return jnp.ones(shape)
        columns = self.table[:, start : start + count]
        return jnp.moveaxis(columns.reshape(shape[axis], *rest), 0, axis)

    def columns(
        self, one: Sequence[float], times: int
    ) -> Float[Array, "times nodes columns"] | None:
        """The columns of `table` for each iteration of a loop; None if it asks for none."""
        start, count = len(self.table_recipe), len(one)
        self.table_recipe += [*one] * times
        if not count or self.table is None:
            return None
        columns = self.table[:, start : start + times * count]
        return jnp.moveaxis(columns.reshape(-1, times, count), 1, 0)

    def fresh_key(self) -> Key[Array, ""]:
        """A key for what is asked for beyond the given variables."""
        following, key = jax.random.split(self._keys[-1])
        self._keys.append(following)
        return key


Source = Key[Array, ""] | Quasi


def split(source: Source) -> tuple[Source, Source]:
    """Two sources from one; a `Quasi` is both, since it hands out every variable once."""
    if isinstance(source, Quasi):
        return source, source
    first, second = jax.random.split(source)
    return first, second


def fold_in(source: Source, number: int) -> Source:
    """The source number `number` of those that this one gives."""
    return source if isinstance(source, Quasi) else jax.random.fold_in(source, number)


# --- normals -------------------------------------------------------------------------------------


def normal_pairs(
    key: Key[Array, ""], shape: tuple[int, ...]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two arrays of independent standard normals, one pair from each 64 random bits."""
    return pairs_from_bits(jax.random.bits(key, shape, jnp.uint64))


def pairs_from_bits(
    bits: UInt64[Array, "..."],
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """(R cos Θ, R sin Θ) with R² = −2 log U and Θ uniform: independent standard normals.

    One 64-bit word makes a pair: 40 bits for U, 24 for Θ. The grid of angles is uniform, so that
    every polynomial in (cos Θ, sin Θ) of degree below 2²⁴ has its exact mean; the midpoints of U
    err by 2⁻⁴⁰.
    """
    cos, sin = _cos_sin_turns((bits << RADIUS_BITS >> RADIUS_BITS).astype(jnp.uint32))
    R = jnp.sqrt(-2.0 * log_uniform(bits >> ANGLE_BITS))
    return R * cos, R * sin


def normal(key: Source, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent standard normals of `shape`."""
    if isinstance(key, Quasi):
        taken = key.take(shape, math.inf)
        if taken is not None:
            return taken
        key = key.fresh_key()
    count = math.prod(shape)
    pairs = normal_pairs(key, ((count + 1) // 2,))
    return jnp.concatenate(pairs)[:count].reshape(shape)


def log_uniform(j: UInt64[Array, "..."]) -> Float[Array, "..."]:
    """log U for the midpoint U = (j + ½)/2⁴⁰, whose 41 bits a float64 holds."""
    return jnp.log((j.astype(jnp.float64) + 0.5) * 2.0**-RADIUS_BITS)


def _cos_sin_turns(
    k: UInt32[Array, "..."],
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """cos and sin of 2π(k + ½)/2²⁴ − π/4: a quadrant by two bits, then Taylor series."""
    quadrant = k >> (ANGLE_BITS - 2)
    rest = (k & (2 ** (ANGLE_BITS - 2) - 1)).astype(jnp.float64)
    # within ±π/4; 22 bits, exact
    angle = 2 * math.pi * 2.0**-ANGLE_BITS * (rest - (2 ** (ANGLE_BITS - 3) - 0.5))
    square = angle * angle
    cos = series(square, [(-1) ** j / math.factorial(2 * j) for j in range(COS_TERMS)])
    sin = series(square, [(-1) ** j / math.factorial(2 * j + 1) for j in range(SIN_TERMS)]) * angle
    odd = quadrant % 2 == 1
    sign = jnp.where(quadrant >= 2, -1.0, 1.0)
    return sign * jnp.where(odd, -sin, cos), sign * jnp.where(odd, cos, sin)


# --- Sobol points --------------------------------------------------------------------------------


class Sobol:
    """Scrambled Sobol points, as normals (df = ∞) and χ_df variables, made when asked for."""

    def __init__(self, recipe: Sequence[float], seed: int):
        from scipy.stats import qmc  # a second to import: only where it is used

        self.df = np.asarray(recipe, float)
        self.rng = np.random.default_rng(seed)
        self.sobol = None
        if len(recipe):
            self.sobol = qmc.Sobol(min(len(recipe), MOST_DIMENSIONS), scramble=True, rng=self.rng)

    def take(self, count: int) -> Float[np.ndarray, "count dimensions"]:
        """The next `count` points, as normals and χ variables."""
        if self.sobol is None:
            return np.empty((count, 0))
        u = self.uniform(count)
        rest = self.rng.random((count, len(self.df) - u.shape[1]))
        return _transformed(_inside(np.hstack([u, rest])), self.df)

    def uniform(self, count: int) -> Float[np.ndarray, "count dimensions"]:
        """The next `count` points of the unit cube, in the dimensions that the sequence has."""
        assert self.sobol is not None
        with warnings.catch_warnings():
            # a number that is not a power of two loses little
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self.sobol.random(count))


class ShiftedSobol:
    """Independent copies of `count` scrambled Sobol points, as normals (df = ∞) and χ_df
    variables.

    A copy flips the bits of all points by one random word (L'Ecuyer and Lemieux 2002).
    """

    def __init__(self, recipe: Sequence[float], count: int, seed: int):
        self.df, self.count, self.seed = np.asarray(recipe, float), count, seed
        dimensions = min(len(self.df), MOST_DIMENSIONS)
        self._words = np.zeros((count, 0), np.uint64)
        if dimensions:
            u = Sobol([math.inf] * dimensions, seed).uniform(count)
            self._words = (u * 2.0**WORD_BITS).astype(np.uint64)

    def take(self, number: int) -> Float[np.ndarray, "count dimensions"]:
        """The points of one copy."""
        rng = np.random.default_rng([self.seed, number])
        flips = rng.integers(0, 2**WORD_BITS, self._words.shape[1], dtype=np.uint64)
        u = ((self._words ^ flips) + 0.5) * 2.0**-WORD_BITS
        rest = rng.random((self.count, len(self.df) - u.shape[1]))
        return _transformed(_inside(np.hstack([u, rest])), self.df)


def random_seed(key: Key[Array, ""]) -> UInt32[Array, ""]:
    """A seed that is a function of a key."""
    return jax.random.bits(key, (), jnp.uint32)


def nodes(count: int, dimensions: int, seed: int) -> Float[np.ndarray, "count dimensions"]:
    """`count` normal points of mean 0 and covariance I to rounding: quadratics are exact."""
    return matched(Sobol([math.inf] * dimensions, seed).take(count))


def matched(z: Float[np.ndarray, "count dimensions"]) -> Float[np.ndarray, "count dimensions"]:
    """Points mapped near the identity to mean 0 and covariance I; if too few, unchanged."""
    count, dimensions = z.shape
    if count < 8 * dimensions or not dimensions:
        return z
    z = z - z.mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(z.T @ z / count)
    return np.asarray(z @ ((vectors / np.sqrt(eigenvalues)) @ vectors.T))


def _inside(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """u moved into the open interval (0, 1), where quantiles are finite."""
    return np.clip(u, 2.0**-60, 1 - 2.0**-53)


def _transformed(
    u: Float[np.ndarray, "count d"], df: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "count d"]:
    """Quantiles of the standard normal where df = ∞, and of χ_df elsewhere."""
    from scipy.special import ndtri

    x = ndtri(u)
    for each in np.unique(df[np.isfinite(df)]):
        x[:, df == each] = chi_quantile(each, x[:, df == each])
    return x
