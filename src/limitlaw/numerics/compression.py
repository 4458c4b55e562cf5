"""A discrete law with many nodes replaced by one with few, on which smooth functions have the same mean."""

import numpy as np
from jaxtyping import Float

BINS = 4096


def compressed(
    v: Float[np.ndarray, " N"], w: Float[np.ndarray, " N"], bins: int = BINS
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Nodes and weights of at most 2·bins nodes: in each of `bins` equal intervals the two-point Gauss rule.

    It keeps mass, mean, variance and third moment of every interval, so that E f errs by E |f⁗| width⁴/4! at most: with
    4,096 intervals exp(λ v) keeps ten digits up to λ·range = 40.
    """
    low, high = float(v.min()), float(v.max())
    if len(v) <= 2 * bins or high <= low:
        return v, w
    place = np.minimum(((v - low) * (bins / (high - low))).astype(int), bins - 1)
    mass = np.bincount(place, w, bins)
    there = mass > 0
    mean = np.bincount(place, w * v, bins)[there] / mass[there]
    centred = v - mean[np.cumsum(there)[place] - 1]
    second, third = (np.bincount(place, w * centred**k, bins)[there] / mass[there] for k in (2, 3))
    spread = np.sqrt(second)
    real = spread > 1e-9 * (high - low) / bins
    skew = np.where(real, third / np.where(real, spread**3, 1.0), 0.0)
    root = np.sqrt(1 + 0.25 * skew**2)
    up, down = 0.5 * skew + root, 0.5 * skew - root  # nodes of the Gauss rule for mean 0, variance 1 and this skewness
    nodes = np.concatenate([mean + spread * up, mean + spread * down])
    weights = np.concatenate([mass[there] * -down, mass[there] * up]) / np.tile(up - down, 2)
    return np.clip(nodes, low, high), weights
