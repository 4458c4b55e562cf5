"""Statistics of a layer: what is read off a draw, f(kernel, scores), and what many draws say of
it.

K is the kernel n⁻¹⟨x_i, x_j⟩ behind the layer, p the scores of its attention (−∞ where masked),
A = softmax(p).
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.engines.turns import Function, Scores

Kernel = Float[Array, "tokens tokens"]
Number = Float[Array, ""]


class Column(NamedTuple):
    """A statistic after each layer: its mean over draws, the standard error of that, and its
    spread over draws.
    """

    value: Float[np.ndarray, "layers *rest"]
    error: Float[np.ndarray, "layers *rest"]
    spread: Float[np.ndarray, "layers *rest"]


# (what was read, D of the space)
Summary = Callable[[Float[np.ndarray, "draws layers *rest"], int | float], Column]


def averaged(read: Float[np.ndarray, "draws layers *rest"], dim: int | float) -> Column:
    """Mean, standard error and standard deviation over draws."""
    draws = len(read)
    spread = np.std(read, axis=0, ddof=1) if draws > 1 else np.full(read.shape[1:], math.nan)
    return Column(np.mean(read, axis=0), spread / math.sqrt(draws), spread)


@dataclasses.dataclass(frozen=True)
class Statistic:
    """`read`: of one draw; `summary`: of all. `label` is for tables and pictures."""

    name: str
    read: Function
    label: str = ""
    summary: Summary = averaged

    @property
    def of_the_law(self) -> bool:
        """Is it one of the law of a coordinate, not of each draw?"""
        return self.summary in (excess_kurtosis, kl_from_gaussian)


# --- of the kernel -------------------------------------------------------------------------------


def variance(K: Kernel, scores: Scores) -> Number:
    """s⁻¹ Σ_i K_ii: the mean square of an activation."""
    return jnp.mean(jnp.diagonal(K))


def correlations(K: Kernel) -> Float[Array, " pairs"]:
    """K_ij / √(K_ii K_jj), i < j: cosines between tokens."""
    d = jnp.diagonal(K)
    root = jnp.where(d > 0, jax.lax.rsqrt(jnp.where(d > 0, d, 1.0)), 0.0)
    return ((K * root).T * root)[np.triu_indices(len(K), 1)]


def _over_pairs(reduce: Callable[[Array], Array]) -> Function:
    def read(K: Kernel, scores: Scores) -> Number:
        return reduce(correlations(K)) if len(K) > 1 else jnp.asarray(jnp.nan)

    return read


mean_correlation, least_correlation, largest_correlation = (
    _over_pairs(f) for f in (jnp.mean, jnp.min, jnp.max)
)


def effective_rank(K: Kernel, scores: Scores) -> Number:
    """(tr K)² / tr K²: how many directions the tokens fill,
    from 1 (all parallel) to their number.
    """
    trace = jnp.trace(K)
    K = K / jnp.where(trace > 0, trace, 1.0)
    square = jnp.sum(K * K)
    return jnp.where(trace > 0, 1.0 / jnp.where(square > 0, square, 1.0), 0.0)


# --- of the attention ----------------------------------------------------------------------------


def _over_attention(read: Callable[[Array], Array]) -> Function:
    """The mean over the attention layers of a block; NaN where there is none."""

    def of_layer(K: Kernel, scores: Scores) -> Number:
        if scores is None:
            return jnp.asarray(jnp.nan)
        layers = scores if isinstance(scores, tuple) else (scores,)
        return jnp.mean(jnp.stack([read(p) for p in layers]))

    return of_layer


def _entropy(p: Float[Array, "... t"]) -> Number:
    """−Σ_j A_ij ln A_ij in nats, averaged over rows and heads;
    ln t for uniform attention, 0 for one-hot.
    """
    log_A = jax.nn.log_softmax(p, axis=-1)
    A = jnp.exp(log_A)
    return jnp.mean(-jnp.sum(jnp.where(A > 0, A * jnp.where(A > 0, log_A, 0.0), 0.0), axis=-1))


def _participation(p: Float[Array, "... t"]) -> Number:
    """Σ_j A_ij², averaged over rows and heads; 1/t for uniform attention, 1 for one-hot."""
    return jnp.mean(jnp.sum(jax.nn.softmax(p, axis=-1) ** 2, axis=-1))


def _score_variance(p: Float[Array, "... t"]) -> Number:
    """The mean square of the scores that are seen."""
    seen = jnp.isfinite(p)
    return jnp.sum(jnp.where(seen, p, 0.0) ** 2) / jnp.sum(seen)


entropy, participation, score_variance = (
    _over_attention(f) for f in (_entropy, _participation, _score_variance)
)


# --- of the law of one coordinate ----------------------------------------------------------------
# Given K_ii a coordinate of x_i is N(0, K_ii) as n → ∞. At dimension D it is a coordinate of a
# vector of that length in a uniform direction: exactly so where the law of x does not change under
# rotations, as with RMSNorm or no norm; with LayerNorm, which singles out the direction **1**, up
# to O(1/D).


def token_variances(K: Kernel, scores: Scores) -> Float[Array, " tokens"]:
    """K_ii."""
    return jnp.diagonal(K)


def excess_kurtosis(v: Float[np.ndarray, "draws layers tokens"], dim: int | float) -> Column:
    """3 (D/(D+2) E[K_ii²]/(E K_ii)² − 1), averaged over tokens; the error by the delta method."""
    v = _scaled(v)
    factor = 3.0 / (1.0 + 2.0 / dim)
    mean, square = np.mean(v, axis=0), np.mean(v * v, axis=0)
    influence = factor * ((v * v - square) / mean**2 - 2 * square * (v - mean) / mean**3)
    error = averaged(influence.mean(axis=-1), dim).error
    return Column(
        (factor * square / mean**2 - 3.0).mean(axis=-1), error, np.full(v.shape[1], math.nan)
    )


MOST_DRAWS, POINTS, BLOCKS = 4096, 400, 16


def kl_from_gaussian(v: Float[np.ndarray, "draws layers tokens"], dim: int | float) -> Column:
    """KL(law of a coordinate of the last token ‖ Gaussian of equal variance), by quadrature over a
    mixture.

    Bias and error of a mixture over draws: a jackknife over blocks of them. NaN in fewer than four
    dimensions, where the density of a coordinate of a uniform direction jumps.
    """
    if dim < 4:
        return Column(*(np.full(v.shape[1], math.nan) for _ in range(3)))
    last = _scaled(v)[:MOST_DRAWS, :, -1]
    found = [_jackknife(last[:, layer], dim) for layer in range(last.shape[1])]
    value, error = (np.array(part) for part in zip(*found, strict=True))
    return Column(value, error, np.full(len(value), math.nan))


def _scaled(
    v: Float[np.ndarray, "draws layers tokens"],
) -> Float[np.ndarray, "draws layers tokens"]:
    """In units of their mean, so that no square overflows; 1 where all are 0."""
    mean = np.mean(v, axis=0)
    return np.where(mean > 0, v / np.where(mean > 0, mean, 1.0), 1.0)


def _jackknife(v: Float[np.ndarray, " draws"], dim: int | float) -> tuple[float, float]:
    constant = bool(np.ptp(v) <= 1e-14 * np.max(v))
    if constant and math.isinf(dim):
        return 0.0, 0.0
    blocks, whole = min(BLOCKS, len(v)), _divergence(v, dim)
    if constant or blocks < 2:
        return whole, 0.0 if constant else math.nan
    parts = np.array_split(np.arange(len(v)), blocks)
    without = np.array([_divergence(np.delete(v, part), dim) for part in parts])
    error = math.sqrt((blocks - 1) / blocks * np.sum((without - without.mean()) ** 2))
    return float(blocks * whole - (blocks - 1) * without.mean()), error


def _divergence(v: Float[np.ndarray, " draws"], dim: int | float) -> float:
    """∫ p ln(p/q), p the mean density over v, q = N(0, mean v);
    x = e^t makes the integrand smooth at every scale.
    """
    mean = float(np.mean(v))
    least = max(float(np.min(v)), 1e-12 * mean)
    first, last = 0.5 * math.log(least), 0.5 * math.log(float(np.max(v)))
    t = np.linspace(first - 16.0, last + math.log(14.0), POINTS)
    x = np.exp(t)
    p = np.mean(np.exp(log_density(x[:, None], np.maximum(v, least), dim)), axis=1)
    log_q = -0.5 * x * x / mean - 0.5 * math.log(2 * math.pi * mean)
    integrand = np.where(p > 0, p * (np.log(np.where(p > 0, p, 1.0)) - log_q), 0.0)
    return 2.0 * float(np.sum(integrand * x) * (t[1] - t[0]))


def log_density(
    x: Float[np.ndarray, "..."], v: float | Float[np.ndarray, "..."], dim: int | float
) -> Float[np.ndarray, "..."]:
    """ln N(x; 0, v), or that of a coordinate of √(D v) u, u uniform on the unit sphere of R^D."""
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
        Statistic("kurtosis", token_variances, "excess kurtosis", excess_kurtosis),
        Statistic("kl", token_variances, "KL from a Gaussian", kl_from_gaussian),
    )
}
