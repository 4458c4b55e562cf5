"""Two laws with densities, in blocks, and their divergence from log densities at the nodes of a rule."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks
from limitlaw.divergence.integrand import relative
from limitlaw.divergence.jackknife import jackknife
from limitlaw.laws import Law


@dataclasses.dataclass(frozen=True)
class TwoLaws:
    """Both laws in blocks; rows are the log densities of the blocks of p, then those of q."""

    p: InBlocks
    q: InBlocks

    def rows(self, x: Any) -> Float[np.ndarray, "b x"]:
        """Log densities at x of all blocks."""
        return np.concatenate([law.log_rows(lambda part: part.logpdf(x)) for law in (self.p, self.q)])

    def parts(self, rows: Float[np.ndarray, "b x"]) -> tuple[Float[np.ndarray, "bp x"], Float[np.ndarray, "bq x"]]:
        """The rows of p and of q."""
        return rows[: len(self.p.parts)], rows[len(self.p.parts) :]

    def logs(self, rows: Float[np.ndarray, "b x"]) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
        """log p and log q from the rows of the blocks."""
        first, second = self.parts(rows)
        return self.p.log_average(first), self.q.log_average(second)

    def integrand(self, rows: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        """p log(p/q) − p + q."""
        return relative(*self.logs(rows))

    @property
    def sampled(self) -> bool:
        """Is either law?"""
        return "sampled" in (self.p.whole.kind, self.q.whole.kind)


def estimate(
    pair: TwoLaws, x: Any, weights: Float[np.ndarray, " x"], rows: Float[np.ndarray, "b x"]
) -> tuple[float, float]:
    """Σ_i w_i (p log(p/q) − p + q) less the bias of the sampled laws, and its variance from their noise."""
    lp, lq = pair.logs(rows)
    value = float(weights @ relative(lp, lq))
    if not math.isfinite(value):
        return value, 0.0
    first, second = pair.parts(rows)
    biases, variances = [0.0, 0.0], [0.0, 0.0]
    if pair.p.several:
        biases[0], variances[0] = jackknife(lambda logs: relative(logs, lq) @ weights, first, pair.p.weights)
    if pair.q.several:
        biases[1], variances[1] = jackknife(lambda logs: relative(lp, logs) @ weights, second, pair.q.weights)
    if pair.p.opaque:
        biases[0], variances[0] = _pointwise(pair.p.whole, x, weights, lp, lp, lp - lq)
    if pair.q.opaque:
        slope = np.expm1(np.minimum(lp - lq, 700))
        biases[1], variances[1] = _pointwise(pair.q.whole, x, weights, lp, lq, slope)
    return value - sum(biases), sum(variances)


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
