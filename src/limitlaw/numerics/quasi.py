"""Quasi-Monte Carlo: scrambled Sobol points in place of random draws
(Sobol 1967; Owen 1995; Joe and Kuo 2008), as normals and as χ variables.

A program does not know in advance how many normals and χ variables it draws. It runs once with a
`Quasi` that writes down what is asked for; points of that dimension are then made on the host, and
handed out in the same order.
"""

import copy
import functools
import math
import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, DTypeLike, Float, Key

MOST_DIMENSIONS = 1024  # of Sobol points; beyond, they are no better than random ones
SEED = 20251115  # of the scrambling, where no key is given
# χ_D = F_D^{-1}(Φ(z)), lengths of Gaussian vectors, as smooth functions of one normal:
FARTHEST = 9.0  # |z|, beyond which normals have mass 2e-19
DEGREES = 32, 64, 128  # of the interpolating polynomials, tried in turn
PRECISE = 1e-11  # relative to the length
MANY = 2.0**16  # degrees of freedom from which a series is exact to 1e-12, and SciPy soon is not


class Quasi:
    """A source of draws in place of a JAX key: hands out the numbers of one point, in order.

    `row` holds the numbers of one draw. Along an axis of nodes (`along`) a request is answered by
    points that fill it evenly, from the columns of `table` (nodes, …): so an infinite axis of
    heads becomes a quadrature. What goes beyond the given numbers is drawn from `key`. Without
    `row` and `table` the requests are only written down, in `recipe` and `table_recipe`: the
    degrees of freedom of each number, ∞ for a normal. At most `most` are handed out.
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
        """The same source, for requests whose axis of that number is one of nodes."""
        view = copy.copy(self)
        view._nodes = nodes
        return view

    @property
    def overflows(self) -> bool:
        """Was anything asked for beyond the given numbers?"""
        return len(self._keys) > 1

    def take(
        self, shape: tuple[int, ...], df: ArrayLike, dtype: DTypeLike
    ) -> Float[Array, "..."] | None:
        """Standard normals (df = ∞) or χ_df variables of `shape`; None where the given numbers are
        used up.
        """
        df = np.broadcast_to(np.asarray(df, float), shape)
        if self._nodes is not None:
            return self._take_nodes(self._nodes, shape, df).astype(dtype)
        start, count = len(self.recipe), math.prod(shape)
        if start + count > self.most:
            return None
        self.recipe += df.reshape(-1).tolist()
        if self.row is None:
            return jnp.ones(shape, dtype)
        return self.row[start : start + count].reshape(shape).astype(dtype)

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
        """For each turn of a loop, the columns of `table` that one turn asks for; None without
        any.
        """
        start, count = len(self.table_recipe), len(one)
        self.table_recipe += [*one] * times
        if not count or self.table is None:
            return None
        columns = self.table[:, start : start + times * count]
        return jnp.moveaxis(columns.reshape(-1, times, count), 1, 0)

    def fresh_key(self) -> Key[Array, ""]:
        """A key for what lies beyond the given numbers."""
        following, key = jax.random.split(self._keys[-1])
        self._keys.append(following)
        return key


Source = Key[Array, ""] | Quasi


def split(source: Source) -> tuple[Source, Source]:
    """Two sources; a `Quasi` gives every number once anyway."""
    if isinstance(source, Quasi):
        return source, source
    first, second = jax.random.split(source)
    return first, second


def fold_in(source: Source, number: int) -> Source:
    """A source for each number."""
    return source if isinstance(source, Quasi) else jax.random.fold_in(source, number)


class Points:
    """Scrambled Sobol points, as normals (df = ∞) and χ_df variables,
    made as they are asked for.
    """

    def __init__(self, recipe: Sequence[float], seed: int):
        from scipy.stats import qmc  # a second to import: only where it is used

        self.df = np.asarray(recipe, float)
        self.rng = np.random.default_rng(seed)
        self.sobol = None
        if len(recipe):
            self.sobol = qmc.Sobol(min(len(recipe), MOST_DIMENSIONS), scramble=True, rng=self.rng)

    def move_to(self, start: int) -> None:
        """Let the next point be that of number `start`, of the same scrambling: for up to
        `MOST_DIMENSIONS` numbers.
        """
        if self.sobol is not None:
            self.sobol.reset()
            if start:
                self.sobol.fast_forward(start)

    def take(self, count: int) -> Float[np.ndarray, "count dimensions"]:
        """The next `count` points."""
        if self.sobol is None:
            return np.empty((count, 0))
        with warnings.catch_warnings():
            # a number that is not a power of two loses little
            warnings.simplefilter("ignore", UserWarning)
            u = self.sobol.random(count)
        rest = self.rng.random((count, len(self.df) - u.shape[1]))
        return _transformed(np.clip(np.hstack([u, rest]), 2.0**-60, 1 - 2.0**-53), self.df)


def nodes(count: int, dimensions: int, seed: int) -> Float[np.ndarray, "count dimensions"]:
    """`count` normal points whose mean is 0 and whose covariance is I up to rounding, so that
    quadratics are exact.
    """
    return matched(Points([math.inf] * dimensions, seed).take(count))


def matched(z: Float[np.ndarray, "count dimensions"]) -> Float[np.ndarray, "count dimensions"]:
    """The points with mean 0 and covariance I, by the linear map nearest to the identity; too few
    stay as they are.
    """
    count, dimensions = z.shape
    if count < 8 * dimensions or not dimensions:
        return z
    z = z - z.mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(z.T @ z / count)
    return np.asarray(z @ ((vectors / np.sqrt(eigenvalues)) @ vectors.T))


def _transformed(
    u: Float[np.ndarray, "count d"], df: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "count d"]:
    """Quantiles of the standard normal where df = ∞, and of χ_df elsewhere."""
    from scipy.special import ndtri

    x = ndtri(u)
    for each in np.unique(df[np.isfinite(df)]):
        x[:, df == each] = chi_quantile(each, x[:, df == each])
    return x


def chi_quantile(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The length χ_df whose quantile is that of the normal z, to a relative 1e-11.

    By a Chebyshev interpolant of its logarithm, which is smooth in z: about ten times as fast as
    the inverse of the incomplete gamma function.
    """
    polynomial = _interpolant(float(df))
    if polynomial is None:
        return _quantile(df, z)
    return np.asarray(np.exp(polynomial(np.clip(z, -FARTHEST, FARTHEST))))


@functools.lru_cache(maxsize=256)
def _interpolant(df: float) -> np.polynomial.Chebyshev | None:
    """log χ_df as a polynomial in z, or None where none is precise enough."""
    for degree in DEGREES:
        polynomial = np.polynomial.Chebyshev.interpolate(
            lambda z: np.log(_quantile(df, z)), degree, domain=[-FARTHEST, FARTHEST]
        )
        z = np.linspace(-FARTHEST, FARTHEST, 4 * degree + 3)
        exact = _quantile(df, z)
        if np.abs(np.exp(polynomial(z)) / exact - 1).max() < PRECISE:
            return polynomial
    return None


def _quantile(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    if df > MANY:
        return _series(df, z)
    from scipy.special import gammainccinv, gammaincinv, ndtr

    tail = ndtr(-np.abs(z))  # the smaller one, so that both ends keep their digits
    square = 2 * np.where(z < 0, gammaincinv(df / 2, tail), gammainccinv(df / 2, tail))
    return np.asarray(np.sqrt(square))


def _series(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Cornish and Fisher's expansion of χ²_df/df; SciPy's lower tail is off by up to 5e-6 from
    df = 2²⁴ on.
    """
    s = np.sqrt(2 * df)
    square = 1 + 2 * z / s + 2 / 3 * (z**2 - 1) / df + (z**3 - 7 * z) / (9 * s * df)
    fourth, fifth = 6 * z**4 + 14 * z**2 - 32, 9 * z**5 + 256 * z**3 - 433 * z
    square += -fourth / (405 * df**2) + fifth / (4860 * s * df**2)
    return np.asarray(np.sqrt(df * square))
