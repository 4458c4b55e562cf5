"""Integrands of divergences between densities, from their logarithms:
nothing cancels where p and q are close.
"""

import math

import numpy as np
from jaxtyping import Float


def relative(
    lp: Float[np.ndarray, "*r x"], lq: Float[np.ndarray, "*s x"]
) -> Float[np.ndarray, "*t x"]:
    """p log(p/q) − p + q ≥ 0 from log densities: p (e^s − 1 − s)
    with s = log q − log p, and q where p ≪ q.

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


def jensen_shannon(
    lp: Float[np.ndarray, "*r x"], lq: Float[np.ndarray, "*s x"]
) -> Float[np.ndarray, "*t x"]:
    """½ p log(p/m) + ½ q log(q/m) with m = (p + q)/2, both ≥ 0 as `relative` has them."""
    lm = np.logaddexp(lp, lq) - math.log(2)
    return 0.5 * (relative(lp, lm) + relative(lq, lm))


def hellinger(
    lp: Float[np.ndarray, "*r x"], lq: Float[np.ndarray, "*s x"]
) -> Float[np.ndarray, "*t x"]:
    """½(√p − √q)² = ½ max(p, q) (1 − e^{−|log p − log q|/2})²."""
    lp, lq = np.broadcast_arrays(lp, lq)
    top, bottom = np.maximum(lp, lq), np.minimum(lp, lq)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(bottom), np.where(np.isneginf(top), 0, -np.inf), bottom - top)
    return 0.5 * np.exp(top) * np.expm1(gap / 2) ** 2
