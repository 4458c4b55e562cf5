"""Two laws with densities, in blocks, and their divergence from log densities at the
nodes of a rule.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks
from limitlaw.divergence.integrand import relative
from limitlaw.divergence.jackknife import jackknife
from limitlaw.laws import Law

Integrand = Callable[[Any, Any], Any]
MOST = 0.9  # relative error of a density at most, in what its noise does


@dataclasses.dataclass(frozen=True)
class TwoLaws:
    """Both laws in blocks, and what is integrated, a function of log p and log q that is ≥ 0 and
    grows as p and q do.

    Rows are the log densities of the blocks of p, then those of q.
    """

    p: InBlocks
    q: InBlocks
    function: Integrand = relative

    def rows(self, x: object) -> Float[np.ndarray, "b x"]:
        """Log densities at x of all blocks."""
        return np.concatenate(
            [law.log_rows(lambda part: part.logpdf(x)) for law in (self.p, self.q)]
        )

    def parts(
        self, rows: Float[np.ndarray, "b x"]
    ) -> tuple[Float[np.ndarray, "bp x"], Float[np.ndarray, "bq x"]]:
        """The rows of p and of q."""
        return rows[: len(self.p.parts)], rows[len(self.p.parts) :]

    def logs(
        self, rows: Float[np.ndarray, "b x"]
    ) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
        """log p and log q from the rows of the blocks."""
        first, second = self.parts(rows)
        return self.p.log_average(first), self.q.log_average(second)

    def integrand(self, rows: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        """p log(p/q) − p + q, or what `function` is."""
        return self.function(*self.logs(rows))

    @property
    def sampled(self) -> bool:
        """Is either law?"""
        return "sampled" in (self.p.whole.kind, self.q.whole.kind)


def estimate(
    pair: TwoLaws, x: object, weights: Float[np.ndarray, " x"], rows: Float[np.ndarray, "b x"]
) -> tuple[float, float]:
    """Σ_i w_i f(log p, log q) less the bias of the sampled laws,
    and its variance from their noise.
    """
    lp, lq = pair.logs(rows)
    value = float(weights @ pair.function(lp, lq))
    if not math.isfinite(value):
        return value, 0.0
    first, second = pair.parts(rows)
    of_p = _noise(pair.p, first, lp, x, weights, lambda logs: pair.function(logs, lq))
    of_q = _noise(pair.q, second, lq, x, weights, lambda logs: pair.function(lp, logs))
    return value - of_p[0] - of_q[0], of_p[1] + of_q[1]


def _noise(
    law: InBlocks,
    rows: Float[np.ndarray, "b x"],
    own: Float[np.ndarray, " x"],
    x: object,
    weights: Float[np.ndarray, " x"],
    function: Callable[[Any], Any],
) -> tuple[float, float]:
    """Bias and variance of Σ_i w_i function(log density) from the noise of one law."""
    if law.several:
        return jackknife(lambda logs: function(logs) @ weights, rows, law.weights)
    return _pointwise(law.whole, x, weights, own, function) if law.opaque else (0.0, 0.0)


def _pointwise(
    law: Law,
    x: object,
    weights: Float[np.ndarray, " x"],
    own: Float[np.ndarray, " x"],
    function: Callable[[Float[np.ndarray, " x"]], Float[np.ndarray, " x"]],
) -> tuple[float, float]:
    """Bias and variance where only the standard error σ of the law's own log density is known.

    With p̂ = p(1 ± σ), f grows by ½σ² p² f'' on average: the bias. The linear part takes all
    errors as correlated, a bound; the bias bounds the quadratic one.
    """
    sigma = np.asarray(law.error.logpdf(x))
    sigma = np.where(np.isfinite(own) & np.isfinite(sigma), np.clip(sigma, 0, MOST), 0)
    f = function(own)
    above, below = function(own + np.log1p(sigma)), function(own + np.log1p(-sigma))
    known = np.isfinite(above) & np.isfinite(below)
    bias = float(weights @ np.where(known, (above + below) / 2 - f, 0))
    return bias, float(weights @ np.where(known, np.abs(above - below) / 2, 0)) ** 2 + bias**2
