"""The Kullback–Leibler divergence of two laws with densities."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import positive_int
from limitlaw.divergence.blocks import Blocks, blocks
from limitlaw.divergence.checking import check_density, check_laws
from limitlaw.divergence.edges import edges
from limitlaw.divergence.jackknife import jackknife, log_mixture
from limitlaw.divergence.panels import Panels, resolve
from limitlaw.divergence.result import Divergence
from limitlaw.laws import Law

TOLERANCE, TOLERANCE_SAMPLED = 1e-10, 1e-7  # of the divergence, for each panel
SAMPLES = 2**14  # of joint laws


def kl(p: Law, q: Law, samples: int = SAMPLES, key: Any = 0) -> Divergence:
    """D(p‖q) = ∫ p log(p/q) of laws with densities; infinite where q = 0 and p > 0.

    One number: by quadrature of p log(p/q) − p + q ≥ 0, which has the same integral and no cancellation, so that small
    divergences keep their digits. Joint laws: from `samples` points with `key`, half from p and half from q.

    The noise of a sampled law enters squared, D(p̂‖q) ≈ D + ½∫ (p̂ − p)²/q, so that the plain value is too large. Blocks
    of components of the law, taken as independent of the other law's, give this bias, which is subtracted, and the
    standard error (see `jackknife`). The value can therefore be negative where the divergence is below the noise.
    """
    check_laws(p, q)
    count = positive_int("samples", samples)
    check_density("kl", "p", p)
    check_density("kl", "q", q)
    if p is q:
        return Divergence(0.0, 0.0)
    if p.shape:
        from limitlaw.divergence.joint import joint_kl

        return joint_kl(p, q, count, key)
    return _kl_of_numbers(Pair(blocks(p), blocks(q)))


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


def _kl_of_numbers(pair: Pair) -> Divergence:
    integrand = lambda rows: relative(*pair.logs(rows))  # noqa: E731
    ends = edges(pair.p.whole, pair.q.whole, lambda x: integrand(pair.rows(x)))
    panels, rows = resolve(pair.rows, integrand, ends, TOLERANCE_SAMPLED if pair.sampled else TOLERANCE)
    value, variance = estimate(pair, panels.nodes, panels.weights, rows)
    if value == math.inf:
        return Divergence(math.inf, 0.0)
    return Divergence(value, math.hypot(_quadrature_error(panels, integrand(rows)), math.sqrt(variance)))


def _quadrature_error(panels: Panels, f: Float[np.ndarray, " x"]) -> float:
    """The tails of the polynomials, and rounding: 1e-15 in each log density, where the integrand is q (e^r r − e^r + 1)
    and r that of √(2 f/p), so Σ √(2 f p) 1e-15 ≤ √(2 D) 1e-15."""
    return float(panels.tails(f).sum() + 1e-15 * math.sqrt(2 * (panels.weights @ f)))


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

    The bias is ½∫ p σ² for either law. The linear part Σ_i w_i |slope| σ × density takes all errors as correlated, which
    bounds it; the bias bounds the quadratic one.
    """
    sigma = np.asarray(law.error.logpdf(x))
    density = np.exp(own)
    known = (density > 0) & np.isfinite(sigma) & np.isfinite(slope)
    sigma, slope = np.where(known, sigma, 0), np.where(known, slope, 0)
    bias = float(0.5 * weights @ (np.exp(lp) * sigma**2))
    return bias, float(weights @ (np.abs(slope) * sigma * density)) ** 2 + bias**2


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
