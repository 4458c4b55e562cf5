"""Two-sample comparisons by bounded statistics:
|z| ≤ 5 and Kolmogorov–Smirnov at the same level.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import qmc

SIGMAS = 5.0
LEVEL = math.erfc(SIGMAS / math.sqrt(2))  # two-sided probability of 5σ, 6e-7


def features(y: Float[np.ndarray, "draws entries"]) -> Float[np.ndarray, "draws features"]:
    """Bounded functions of one draw: of single entries, and of all pairs."""
    t, c = np.tanh(y), 1 / (1 + y**2)
    i, j = np.triu_indices(y.shape[1], 1)
    return np.concatenate(
        [t, c, t * c, t[:, i] * t[:, j], c[:, i] * c[:, j], t[:, i] * c[:, j]], axis=1
    )


def root(covariance: Float[np.ndarray, "... m m"]) -> Float[np.ndarray, "... m m"]:
    """L with L Lᵀ = covariance."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]


def conditional_features(
    mean: Float[np.ndarray, "draws k m"],
    covariance: Float[np.ndarray, "draws m m"],
    points: int,
    seed: int,
) -> Float[np.ndarray, "draws features"]:
    """E[f | condition], averaged over the k coordinates:
    unbiased, by Sobol points that are shifted for each of them.

    What is random given the condition is averaged, so these vary less than f itself.
    """
    rng = np.random.default_rng(seed)
    u = qmc.Sobol(mean.shape[-1], rng=rng).random(points) + rng.random(
        (*mean.shape[:2], 1, mean.shape[-1])
    )
    y = mean[:, :, None] + ndtri(np.clip(u % 1, 2.0**-60, 1 - 2.0**-53)) @ root(covariance)[
        :, None
    ].swapaxes(-1, -2)
    f = features(y.reshape(-1, mean.shape[-1]))
    return f.reshape(len(mean), -1, f.shape[-1]).mean(axis=1)


def z_scores(a: Float[np.ndarray, "n f"], b: Float[np.ndarray, "m f"]) -> Float[np.ndarray, " f"]:
    """Differences of means in standard errors; constants compare by equality."""
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    difference = a.mean(axis=0) - b.mean(axis=0)
    return np.where(
        error > 1e-12,
        difference / np.maximum(error, 1e-12),
        np.where(abs(difference) < 1e-9, 0, np.inf),
    )


def ks_ratio(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"]) -> float:
    """The two-sample Kolmogorov–Smirnov distance over its critical value at `LEVEL`."""
    grid = np.sort(np.concatenate([a, b]))
    gap = np.searchsorted(np.sort(a), grid, "right") / len(a) - np.searchsorted(
        np.sort(b), grid, "right"
    ) / len(b)
    critical = math.sqrt(-math.log(LEVEL / 2) / 2 * (len(a) + len(b)) / (len(a) * len(b)))
    return float(np.abs(gap).max()) / critical


def disagreement(a: Float[np.ndarray, "n ..."], b: Float[np.ndarray, "m ..."]) -> float:
    """How far two samples are apart, 1 being the threshold:
    the worst z over 5, or KS over its critical value.
    """
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    worst_z = float(np.abs(z_scores(features(a), features(b))).max()) / SIGMAS
    return max(worst_z, *(ks_ratio(a[:, i], b[:, i]) for i in range(a.shape[1])))
