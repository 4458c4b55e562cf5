"""Two-sample comparisons by bounded statistics: |z| ≤ 5 and Kolmogorov–Smirnov at the same level."""

import math

import numpy as np
from jaxtyping import Float

SIGMAS = 5.0
LEVEL = math.erfc(SIGMAS / math.sqrt(2))  # two-sided probability of 5σ, 6e-7


def features(y: Float[np.ndarray, "draws entries"]) -> Float[np.ndarray, "draws features"]:
    """Bounded functions of one draw: of single entries, and of all pairs."""
    t, c = np.tanh(y), 1 / (1 + y**2)
    i, j = np.triu_indices(y.shape[1], 1)
    return np.concatenate([t, c, t * c, t[:, i] * t[:, j], c[:, i] * c[:, j], t[:, i] * c[:, j]], axis=1)


def z_scores(a: Float[np.ndarray, "n f"], b: Float[np.ndarray, "m f"]) -> Float[np.ndarray, " f"]:
    """Differences of means in standard errors; constants compare by equality."""
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    difference = a.mean(axis=0) - b.mean(axis=0)
    return np.where(error > 1e-12, difference / np.maximum(error, 1e-12), np.where(abs(difference) < 1e-9, 0, np.inf))


def ks_ratio(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"]) -> float:
    """The two-sample Kolmogorov–Smirnov distance over its critical value at `LEVEL`."""
    grid = np.sort(np.concatenate([a, b]))
    gap = np.searchsorted(np.sort(a), grid, "right") / len(a) - np.searchsorted(np.sort(b), grid, "right") / len(b)
    critical = math.sqrt(-math.log(LEVEL / 2) / 2 * (len(a) + len(b)) / (len(a) * len(b)))
    return float(np.abs(gap).max()) / critical


def disagreement(a: Float[np.ndarray, "n ..."], b: Float[np.ndarray, "m ..."]) -> float:
    """How far two samples are apart, 1 being the threshold: the worst z over 5, or KS over its critical value."""
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    worst_z = float(np.abs(z_scores(features(a), features(b))).max()) / SIGMAS
    return max(worst_z, *(ks_ratio(a[:, i], b[:, i]) for i in range(a.shape[1])))
