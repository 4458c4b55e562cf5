"""The integrand of the Kullback–Leibler divergence, without cancellation."""

import numpy as np
from jaxtyping import Float


def relative(lp: Float[np.ndarray, "*r x"], lq: Float[np.ndarray, "*s x"]) -> Float[np.ndarray, "*t x"]:
    """p log(p/q) − p + q ≥ 0 from log densities: p (e^s − 1 − s) with s = log q − log p, and q where p ≪ q.

    0 where p and q underflow, ∞ where q = 0 < p.
    """
    lp, lq = np.broadcast_arrays(lp, lq)
    p, q = np.exp(lp), np.exp(lq)
    with np.errstate(invalid="ignore"):
        s = np.where(np.isneginf(lp) | np.isneginf(lq), 0, lq - lp)
    near = p * excess(np.minimum(s, 1))
    far = q * (1 - np.exp(-np.maximum(s, 1)) * (1 + np.maximum(s, 1)))
    f = np.where(s < 1, near, far)
    f = np.where(np.isneginf(lp), q, f)
    return np.where(np.isneginf(lq), np.where(p > 0, np.inf, 0), f)


def excess(s: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """e^s − 1 − s, by its series where that cancels."""
    small = np.where(np.abs(s) < 0.5, s, 0)
    series = np.zeros_like(small)
    for k in range(17, 1, -1):
        series = (series + 1) * small / k if k > 2 else (series + 1) * small**2 / 2
    return np.where(np.abs(s) < 0.5, series, np.expm1(s) - s)
