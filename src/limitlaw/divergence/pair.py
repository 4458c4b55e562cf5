"""Two laws with densities, in blocks, and their divergence from log densities at the nodes of a rule."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.blocks import Blocks
from limitlaw.divergence.integrand import relative
from limitlaw.divergence.jackknife import jackknife, log_mixture
from limitlaw.laws import Law


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both laws in blocks; rows are the log densities of the blocks of p, then those of q."""

    p: Blocks
    q: Blocks

    def rows(self, x: Any) -> Float[np.ndarray, "b x"]:
        """Log densities at x of all blocks."""
        return np.concatenate([law.rows(lambda part: part.logpdf(x)) for law in (self.p, self.q)])

    def parts(self, rows: Float[np.ndarray, "b x"]) -> tuple[Float[np.ndarray, "bp x"], Float[np.ndarray, "bq x"]]:
        """The rows of p and of q."""
        return rows[: len(self.p.parts)], rows[len(self.p.parts) :]

    def logs(self, rows: Float[np.ndarray, "b x"]) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
        """log p and log q from the rows of the blocks."""
        return tuple(  # type: ignore[return-value]
            logs[0] if len(logs) == 1 else log_mixture(logs, law.weights, np.ones((1, len(logs))))[0]
            for law, logs in zip((self.p, self.q), self.parts(rows), strict=True)
        )

    @property
    def sampled(self) -> bool:
        """Is either law?"""
        return "sampled" in (self.p.whole.kind, self.q.whole.kind)


def estimate(
    pair: Pair, x: Any, weights: Float[np.ndarray, " x"], rows: Float[np.ndarray, "b x"]
) -> tuple[float, float]:
    """Σ_i w_i (p log(p/q) − p + q) less the bias of the sampled laws, and its variance from their noise."""
    lp, lq = pair.logs(rows)
    value = float(weights @ relative(lp, lq))
    if not math.isfinite(value):
        return value, 0.0
    first, second = pair.parts(rows)
    sides = (
        (pair.p, first, lambda logs: relative(logs, lq) @ weights, lambda: lp - lq),
        (pair.q, second, lambda logs: relative(lp, logs) @ weights, lambda: np.expm1(lp - lq)),
    )
    bias, variance = 0.0, 0.0
    for law, logs, functional, slope in sides:
        if law.several:
            b, v = jackknife(functional, logs, law.weights)
        elif law.opaque:
            b, v = _pointwise(law.whole, x, weights, lp, lp if law is pair.p else lq, slope())
        else:
            continue
        bias, variance = bias + b, variance + v
    return value - bias, variance


def _pointwise(
    law: Law,
    x: Any,
    weights: Float[np.ndarray, " x"],
    lp: Float[np.ndarray, " x"],
    own: Float[np.ndarray, " x"],
    slope: Float[np.ndarray, " x"],
) -> tuple[float, float]:
    """Bias and variance where only the standard error σ of the law's own log density is known.

    The bias is ½∫ p σ² for either law. The linear part Σ_i w_i |slope| σ × density takes all errors as correlated, a
    bound; the bias bounds the quadratic one.
    """
    sigma = np.asarray(law.error.logpdf(x))
    density = np.exp(own)
    known = (density > 0) & np.isfinite(sigma) & np.isfinite(slope)
    sigma, slope = np.where(known, sigma, 0), np.where(known, slope, 0)
    bias = float(0.5 * weights @ (np.exp(lp) * sigma**2))
    return bias, float(weights @ (np.abs(slope) * sigma * density)) ** 2 + bias**2
