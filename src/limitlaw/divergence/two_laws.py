"""Two laws with densities, in blocks: integrands and divergences at a rule's nodes."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks, jackknife
from limitlaw.laws import Law

Logs = Float[np.ndarray, "*rows x"]  # log densities at points, of one law or of several
Integrand = Callable[[Logs, Logs], Logs]
MOST_SPREAD = 0.9  # a larger relative error of a density is taken to be this large


def relative(
    lp: Float[np.ndarray, "*r x"], lq: Float[np.ndarray, "*s x"]
) -> Float[np.ndarray, "*t x"]:
    """p log(p/q) − p + q ≥ 0 from log densities: p (e^s − 1 − s), s = log q − log p; q where p ≪
    q, 0 where both underflow, ∞ where q = 0 < p.
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


@dataclasses.dataclass(frozen=True)
class TwoLaws:
    """Two laws in blocks and a `function` ≥ 0 of log p and log q, homogeneous of degree 1 in p and
    q; rows are log densities of p's blocks, then q's.
    """

    p: InBlocks
    q: InBlocks
    function: Integrand = relative

    def rows(self, x: object) -> Float[np.ndarray, "b x"]:
        """The log densities of all blocks at x."""
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
        """The integrand, p log(p/q) − p + q by default, from the rows."""
        return self.function(*self.logs(rows))


def estimate(
    pair: TwoLaws, x: object, weights: Float[np.ndarray, " x"], rows: Float[np.ndarray, "b x"]
) -> tuple[float, float]:
    """Σ_i w_i f(log p, log q) without the sampled laws' bias, and its variance."""
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
    function: Callable[[Logs], Logs],
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
    function: Callable[[Logs], Logs],
) -> tuple[float, float]:
    """Bias and variance where only the standard error σ of the law's own log density is known.

    With p̂ = p(1 ± σ), f grows by ½σ² p² f'' on average: the bias. The linear part takes all
    errors as correlated, a bound; the bias bounds the quadratic one.
    """
    sigma = np.asarray(law.error.logpdf(x))
    sigma = np.where(np.isfinite(own) & np.isfinite(sigma), np.clip(sigma, 0, MOST_SPREAD), 0)
    f = function(own)
    above, below = function(own + np.log1p(sigma)), function(own + np.log1p(-sigma))
    known = np.isfinite(above) & np.isfinite(below)
    bias = float(weights @ np.where(known, (above + below) / 2 - f, 0))
    return bias, float(weights @ np.where(known, np.abs(above - below) / 2, 0)) ** 2 + bias**2
