"""Statistics of a layer, f(K, p) of the kernel behind it and of its scores (−∞ where masked), A =
softmax(p), and their summaries over draws.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import shown
from limitlaw.engines.engine import matrix_by_matrix
from limitlaw.engines.turns import Function, Scores
from limitlaw.numerics.replicates import Replicates

Kernel = Float[Array, "tokens tokens"]
ScalarArray = Float[Array, ""]


class Column(NamedTuple):
    """A statistic after each layer: its mean over draws, standard error, standard deviation."""

    value: Float[np.ndarray, "layers *rest"]
    error: Float[np.ndarray, "layers *rest"]
    spread: Float[np.ndarray, "layers *rest"]


Read = Float[np.ndarray, "draws layers *rest"]
# (what was read, which draws are independent, D of the space)
Summary = Callable[[Read, Replicates, int | float], Column]
# What an error is relative to: a number for each entry of a column
ErrorScale = Callable[[Column], Float[np.ndarray, "layers *rest"]]


def averaged(read: Read, replicates: Replicates, dim: int | float) -> Column:
    """Mean, standard error and standard deviation over draws."""
    return Column(replicates.mean(read), replicates.error(read), replicates.spread(read))


def size(column: Column) -> Float[np.ndarray, "layers *rest"]:
    """The larger of |mean| and spread over draws."""
    return np.fmax(np.abs(column.value), column.spread)


@dataclasses.dataclass(frozen=True)
class Named:
    """A function of (kernel, scores), with the name of its statistic in its errors."""

    name: str
    read: Function

    def __call__(self, K: Kernel, scores: Scores) -> Array:
        """The statistic of one draw, as an array."""
        try:
            return jnp.asarray(self.read(K, scores), float)
        except Exception as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            none = "; scores are None in row 0 and without attention" if scores is None else ""
            raise kind(
                f"statistics: {self.name!r} must be a jax.numpy function of (kernel, scores) that "
                f"gives numbers, and raised {type(error).__name__}: {error}{none}"
            ) from error


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A statistic of layers: `read(kernel, scores)` of one draw, and `summary(read, replicates,
    D)` of all draws.

    The summary makes a `Column` from an array (draws, layers, …), by default with the mean.
    `label` is for tables and pictures; a relative error is one in units of `scale`. `of_the_law`:
    the summary takes a coordinate of x_i to be N(0, K_ii) given K, and has no meaning where a
    layer ends in a nonlinearity.
    """

    name: str
    read: Function
    label: str = ""
    summary: Summary = averaged
    scale: ErrorScale = size
    of_the_law: bool = False

    @property
    def function(self) -> Named:
        """`read`, with the name of the statistic in its errors."""
        return Named(self.name, self.read)

    def column(self, read: Read, replicates: Replicates, dim: int | float) -> Column:
        """The summary of all draws, which must be a `Column` with a row for each layer."""
        found: Any = self.summary(read, replicates, dim)
        if not isinstance(found, Column):
            raise TypeError(
                f"statistics: the summary of {self.name!r} must be a "
                f"Column(value, error, spread), got {shown(found)}"
            )
        parts = [np.asarray(part) for part in found]
        layers, shapes = read.shape[1], [part.shape for part in parts]
        if any(part.dtype.kind not in "biuf" for part in parts):
            kinds = ", ".join(str(part.dtype) for part in parts)
            raise TypeError(
                f"statistics: the summary of {self.name!r} must have real numbers, got {kinds}"
            )
        if len(set(shapes)) > 1 or shapes[0][:1] != (layers,):
            raise ValueError(
                f"statistics: the summary of {self.name!r} must have value, error and spread of "
                f"one shape ({layers}, …), a row for each layer, got "
                f"{', '.join(map(str, shapes))}"
            )
        if any(np.any(part < 0) for part in parts[1:]):
            raise ValueError(
                f"statistics: the summary of {self.name!r} must have errors and spreads that are "
                "not negative"
            )
        return Column(*(part.astype(float) for part in parts))

    def relative_error(self, column: Column) -> float:
        """The largest error of a column, in units of its scale; ∞ where it is not known."""
        known = ~np.isnan(column.value)
        error, scale = column.error[known], self.scale(column)[known]
        share = np.where(error > 0, error / np.where(scale > 0, scale, 1.0), error)
        return float(np.max(np.nan_to_num(share, nan=math.inf), initial=0.0))


# --- of the kernel -------------------------------------------------------------------------------


def variance(K: Kernel, scores: Scores) -> ScalarArray:
    """s⁻¹ Σ_i K_ii: the mean square of an activation."""
    return jnp.mean(jnp.diagonal(K))


def correlations(K: Kernel) -> Float[Array, " pairs"]:
    """K_ij / √(K_ii K_jj), i < j: cosines between tokens."""
    d = jnp.diagonal(K)
    root = jnp.where(d > 0, jax.lax.rsqrt(jnp.where(d > 0, d, 1.0)), 0.0)
    return ((K * root).T * root)[np.triu_indices(len(K), 1)]


def _over_pairs(reduce: Callable[[Array], Array]) -> Function:
    def read(K: Kernel, scores: Scores) -> ScalarArray:
        return reduce(correlations(K)) if len(K) > 1 else jnp.asarray(jnp.nan)

    return read


mean_correlation, least_correlation, largest_correlation = (
    _over_pairs(f) for f in (jnp.mean, jnp.min, jnp.max)
)


def effective_rank(K: Kernel, scores: Scores) -> ScalarArray:
    """(tr K)² / tr K²: the directions that tokens fill, from 1 (all parallel) to their number."""
    trace = jnp.trace(K)
    K = K / jnp.where(trace > 0, trace, 1.0)
    square = jnp.sum(K * K)
    return jnp.where(trace > 0, 1.0 / jnp.where(square > 0, square, 1.0), 0.0)


# --- of the attention ----------------------------------------------------------------------------


def _over_attention(read: Callable[[Array], Array]) -> Function:
    """A mean over the attention layers of a block; NaN where there is none."""

    def of_layer(K: Kernel, scores: Scores) -> ScalarArray:
        if scores is None:
            return jnp.asarray(jnp.nan)
        layers = scores if isinstance(scores, tuple) else (scores,)
        return jnp.mean(jnp.stack([read(p) for p in layers]))

    return of_layer


def _entropy(p: Float[Array, "... t"]) -> Float[Array, "..."]:
    """−Σ_j A_ij ln A_ij in nats; ln t for uniform attention, 0 for one-hot."""
    log_A = jax.nn.log_softmax(p, axis=-1)
    A = jnp.exp(log_A)
    return -jnp.sum(jnp.where(A > 0, A * jnp.where(A > 0, log_A, 0.0), 0.0), axis=-1)


def _participation(p: Float[Array, "... t"]) -> Float[Array, "..."]:
    """Σ_j A_ij²; 1/t for uniform attention, 1 for one-hot."""
    return jnp.sum(jax.nn.softmax(p, axis=-1) ** 2, axis=-1)


def _averaged_over_rows(read: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The mean over all rows and heads of a function of rows."""
    return lambda p: jnp.mean(matrix_by_matrix(read, p))


def _score_variance(p: Float[Array, "... t"]) -> ScalarArray:
    """The mean square of the scores that are seen."""
    seen = jnp.isfinite(p)
    return jnp.sum(jnp.where(seen, p, 0.0) ** 2) / jnp.sum(seen)


entropy, participation, score_variance = (
    _over_attention(f)
    for f in (_averaged_over_rows(_entropy), _averaged_over_rows(_participation), _score_variance)
)


# --- of the law of one coordinate ----------------------------------------------------------------
# Given K_ii a coordinate of x_i is N(0, K_ii) as n → ∞. At dimension D it is a coordinate of a
# vector of that length in a uniform direction: exactly so where the law of x does not change under
# rotations, as with RMSNorm or no norm; with LayerNorm, which singles out the direction **1**, up
# to O(1/D).


def token_variances(K: Kernel, scores: Scores) -> Float[Array, " tokens"]:
    """The variances K_ii of all tokens."""
    return jnp.diagonal(K)


def excess_kurtosis(
    v: Float[np.ndarray, "draws layers tokens"], replicates: Replicates, dim: int | float
) -> Column:
    """3 (D/(D+2) E[K_ii²]/(E K_ii)² − 1), averaged over tokens; the error by the delta method."""
    v = _scaled(v)
    factor = 3.0 / (1.0 + 2.0 / dim)
    mean, square = np.mean(v, axis=0), np.mean(v * v, axis=0)
    influence = factor * ((v * v - square) / mean**2 - 2 * square * (v - mean) / mean**3)
    error = replicates.error(influence.mean(axis=-1))
    return Column(
        (factor * square / mean**2 - 3.0).mean(axis=-1), error, np.full(v.shape[1], math.nan)
    )


KL_DRAWS, KL_POINTS = 4096, 400


def kl_from_gaussian(
    v: Float[np.ndarray, "draws layers tokens"], replicates: Replicates, dim: int | float
) -> Column:
    """KL(law of the last token's coordinate ‖ Gaussian of equal variance), by quadrature.

    Its bias and error are jackknifed over groups of draws. NaN below four dimensions, where a
    coordinate's density jumps.
    """
    if dim < 4:
        return Column(*(np.full(v.shape[1], math.nan) for _ in range(3)))
    last = _scaled(v)[:KL_DRAWS, :, -1]
    found = [_divergence_of(last[:, layer], replicates, dim) for layer in range(last.shape[1])]
    value, error = (np.array(part) for part in zip(*found, strict=True))
    return Column(value, error, np.full(len(value), math.nan))


def _scaled(
    v: Float[np.ndarray, "draws layers tokens"],
) -> Float[np.ndarray, "draws layers tokens"]:
    """The variances in units of their mean, so that no square overflows; 1 where all are 0."""
    mean = np.mean(v, axis=0)
    return np.where(mean > 0, v / np.where(mean > 0, mean, 1.0), 1.0)


def _divergence_of(
    v: Float[np.ndarray, " draws"], replicates: Replicates, dim: int | float
) -> tuple[float, float]:
    """The divergence and its error, which is 0 where all draws are equal."""
    if np.ptp(v) <= 1e-14 * np.max(v):
        return 0.0 if math.isinf(dim) else _divergence(v, dim), 0.0
    return replicates.jackknife(v, lambda some: _divergence(some, dim))


def _divergence(v: Float[np.ndarray, " draws"], dim: int | float) -> float:
    """∫ p ln(p/q), p the mean density over v, q = N(0, mean v); by x = e^t it is smooth."""
    mean = float(np.mean(v))
    least = max(float(np.min(v)), 1e-12 * mean)
    first, last = 0.5 * math.log(least), 0.5 * math.log(float(np.max(v)))
    t = np.linspace(first - 16.0, last + math.log(14.0), KL_POINTS)
    x = np.exp(t)
    p = np.mean(np.exp(log_density(x[:, None], np.maximum(v, least), dim)), axis=1)
    log_q = -0.5 * x * x / mean - 0.5 * math.log(2 * math.pi * mean)
    integrand = np.where(p > 0, p * (np.log(np.where(p > 0, p, 1.0)) - log_q), 0.0)
    return 2.0 * float(np.sum(integrand * x) * (t[1] - t[0]))


def log_density(
    x: Float[np.ndarray, "..."], v: float | Float[np.ndarray, "..."], dim: int | float
) -> Float[np.ndarray, "..."]:
    """ln N(x; 0, v); in D dimensions, ln density of a coordinate of √(D v) u, u on a sphere."""
    if math.isinf(dim):
        return -0.5 * x * x / v - 0.5 * np.log(2 * math.pi * v)
    left = 1.0 - x * x / (dim * v)
    constant = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * np.log(math.pi * dim * v)
    inside = constant + (dim - 3) / 2 * np.log(np.where(left > 0, left, 1.0))
    return np.where(left > 0, inside, -np.inf)


STATISTICS = {
    statistic.name: statistic
    for statistic in (
        Statistic("variance", variance, "variance"),
        Statistic("correlation", mean_correlation, "token correlation"),
        Statistic("correlation_min", least_correlation, "smallest correlation"),
        Statistic("correlation_max", largest_correlation, "largest correlation"),
        Statistic("effective_rank", effective_rank, "effective rank"),
        Statistic("entropy", entropy, "attention entropy (nats)"),
        Statistic("participation", participation, "participation Σ A²"),
        Statistic("score_variance", score_variance, "score variance"),
        Statistic(
            "kurtosis",
            token_variances,
            "excess kurtosis",
            excess_kurtosis,
            lambda column: column.value + 3.0,  # the fourth moment
            of_the_law=True,
        ),
        Statistic(
            "kl",
            token_variances,
            "KL from a Gaussian",
            kl_from_gaussian,
            lambda column: np.ones_like(column.value),
            of_the_law=True,
        ),
    )
}
