"""Divergences of joint laws with densities, by sampling."""

import math

import jax
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import as_key
from limitlaw.divergence.in_blocks import in_blocks
from limitlaw.divergence.integrand import relative
from limitlaw.divergence.result import Divergence
from limitlaw.divergence.two_laws import Integrand, TwoLaws, estimate
from limitlaw.laws import Law


def of_joint(
    p: Law, q: Law, samples: int, key: object, function: Integrand = relative
) -> Divergence:
    """∫ f(p, q) = E_m[f(p/m, q/m)] with m = (p + q)/2, half the points from p and half from q;
    f = p log(p/q) − p + q.

    E_p[log p − log q] has an error of the order of √D; here it is of the order of D, since the
    integrand is never negative and is D itself in the mean. With m in the denominator, not p, the
    ratios are bounded by 2, whatever the tails (defensive sampling: Hesterberg, "Weighted average
    importance sampling and defensive mixture distributions", 1995). The points serve as nodes of
    weight 1/(samples · m) for the noise of sampled laws.
    """
    half = max(2, -(-samples // 2))
    keys = jax.random.split(as_key(key))
    x = np.concatenate(
        [np.asarray(law.sample(k, half)) for law, k in zip((p, q), keys, strict=True)]
    )
    pair = TwoLaws(in_blocks(p), in_blocks(q), function)
    rows = pair.rows(x)
    lp, lq = pair.logs(rows)
    log_m = np.logaddexp(lp, lq) - math.log(2)
    values = function(lp - log_m, lq - log_m)
    if np.isinf(values).any():
        return Divergence(math.inf, 0.0)
    weights = np.full(2 * half, 1 / (2 * half))
    value, variance = estimate(pair, x, weights, rows - log_m)
    return Divergence(value, math.sqrt(variance + _variance_of_mean(values, half)))


def _variance_of_mean(values: Float[np.ndarray, " x"], half: int) -> float:
    """Of the mean over two halves drawn from different laws."""
    return float(sum(np.var(part, ddof=1) / half / 4 for part in (values[:half], values[half:])))
