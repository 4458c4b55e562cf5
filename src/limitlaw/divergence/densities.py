"""Divergences of two laws with densities: Kullback–Leibler, Jensen–Shannon, Hellinger."""

import math

import jax
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import as_key, positive_int
from limitlaw.divergence import two_laws
from limitlaw.divergence.compared import (
    Divergence,
    arguments,
    check_density,
    check_shapes,
    compared,
)
from limitlaw.divergence.in_blocks import in_blocks, tolerance
from limitlaw.divergence.on_panels import first_panels
from limitlaw.divergence.two_laws import Integrand, TwoLaws, estimate, relative
from limitlaw.laws import Law
from limitlaw.numerics.panels import POLE, Panels, evaluated, of_integral, resolve, unseen

POINTS_OF_JOINT = 2**14  # default number of points for joint laws
NEGLIGIBLE_MASS = 1e-20  # a mass at a node that cannot matter
SMALLEST_INTEGRAND = 1e-290  # a smaller integrand has lost digits by underflow


@compared
def kl(p: Law, q: Law, samples: int = POINTS_OF_JOINT, key: object = 0) -> Divergence:
    """D(p‖q) = ∫ p log(p/q) of laws with densities; infinite where q = 0 and p > 0.

    For laws of one number by quadrature of p log(p/q) − p + q ≥ 0, which has the same integral and
    no cancellation, so that small divergences keep their digits. For joint laws from `samples`
    points with `key`, half from p and half from q.

    The noise of a sampled law enters squared, D(p̂‖q) ≈ D + ½∫ (p̂ − p)²/q, so that the plain
    value is too large. Blocks of draws of the law, taken as independent of the other law's, give
    this bias, which is subtracted, and the standard error (see `jackknife`). The value can
    therefore be negative where the divergence is below the noise.
    """
    return _of_densities("kl", p, q, samples, key, relative)


@compared
def jensen_shannon(p: Law, q: Law, samples: int = POINTS_OF_JOINT, key: object = 0) -> Divergence:
    """½ D(p‖m) + ½ D(q‖m), m = (p + q)/2 (Lin 1991), in nats: at most log 2.

    It is the square of scipy.spatial.distance.jensenshannon. About noise see `kl`.
    """
    return _of_densities("jensen_shannon", p, q, samples, key, two_laws.jensen_shannon)


@compared
def hellinger(p: Law, q: Law, samples: int = POINTS_OF_JOINT, key: object = 0) -> Divergence:
    """The Hellinger distance H = √(½∫ (√p − √q)²) ∈ [0, 1]; noise enters H² as it does `kl`."""
    squared = _of_densities("hellinger", p, q, samples, key, two_laws.hellinger)
    return root(squared)


def _of_densities(
    what: str, p: Law, q: Law, samples: int, key: object, function: Integrand
) -> Divergence:
    check_shapes(p, q)
    count = positive_int("samples", samples)
    check_density(what, "p", p)
    check_density(what, "q", q)
    if p is q:
        return Divergence(0.0, 0.0)
    p, q = arguments(p, q)
    if p.shape:
        return of_joint(p, q, count, key, function)
    return _of_numbers(TwoLaws(in_blocks(p), in_blocks(q), function))


def root(squared: Divergence) -> Divergence:
    """The root of a square s ≥ 0 with error e: the error of the root is e/2√s, and at most √e."""
    value, most = (
        math.sqrt(max(squared.value, 0.0)),
        math.sqrt(squared.error + max(-squared.value, 0.0)),
    )
    return Divergence(value, min(squared.error / (2 * value), most) if value > 0 else most)


def _of_numbers(pair: TwoLaws) -> Divergence:
    panels, rows = resolve(
        pair.rows,
        pair.integrand,
        first_panels(pair.p.whole, pair.q.whole),
        of_integral(tolerance(pair.p, pair.q), lambda D: 0.3 * rounding(D)),
        POLE,
    )
    value, variance = estimate(pair, panels.nodes, panels.weights, rows)
    if value == math.inf:
        return Divergence(math.inf, 0.0)
    f = pair.integrand(rows)
    quadrature = (
        float(panels.tails(f).sum())
        + rounding(float(panels.weights @ f))
        + _unseen(pair, panels, rows)
        + _beyond(pair, panels, f)
    )
    return Divergence(value, math.hypot(quadrature, math.sqrt(variance)))


def _unseen(pair: TwoLaws, panels: Panels, rows: Float[np.ndarray, "b x"]) -> float:
    """What mass that nodes do not see could add: that of q, and that of p times the largest |log p
    − log q|; at most (p + q)/2 for Jensen–Shannon and Hellinger.
    """
    lp, lq = pair.logs(rows)
    p, q = np.exp(lp), np.exp(lq)
    counts = (panels.weights * p > NEGLIGIBLE_MASS) & np.isfinite(lq)
    ratio = (
        np.abs(np.where(counts, lp - lq, 0)).max(initial=0) if pair.function is relative else 0.0
    )
    return unseen(panels, q) + (1 + float(ratio)) * unseen(panels, p)


def _beyond(pair: TwoLaws, panels: Panels, f: Float[np.ndarray, " x"]) -> float:
    """What panels leave out on each side, if f falls off, or underflows, like d^{−a} of the
    distance: d f/(a − 1), infinite for a ≤ 1.
    """
    middle = pair.p.whole.middle()
    ends = np.array([panels.lo.min(), panels.hi.max()])
    x = np.concatenate([ends, 2 * ends - middle])
    x, f = np.append(panels.nodes, x), np.append(f, pair.integrand(evaluated(pair.rows, x)))
    return sum(
        _power_law(abs(end - middle), np.abs(x - middle)[side], f[side])
        for end, side in zip(ends, (x < middle, x > middle), strict=True)
    )


def _power_law(end: float, d: Float[np.ndarray, " x"], f: Float[np.ndarray, " x"]) -> float:
    """∫ f behind the last d at which f has all its digits; 0 if that is just before `end`."""
    order = np.argsort(d)
    order = order[f[order] > SMALLEST_INTEGRAND]
    d, f = d[order], f[order]
    if len(d) < 2 or not np.isfinite(f[-1]) or end / 2 < d[-1] <= end:
        return 0.0
    a = math.log(f[-2] / f[-1]) / math.log(d[-1] / d[-2])
    return float(d[-1] * f[-1] / (a - 1)) if a > 1 else math.inf


def rounding(D: float) -> float:
    """The error from a rounding of 1e-15 in log p − log q = r: ∫ p |r| 1e-15 ≤ √(2 D) 1e-15 where
    r is small, else D.
    """
    return 1e-15 * (math.sqrt(2 * D) + D)


def of_joint(p: Law, q: Law, samples: int, key: object, function: Integrand) -> Divergence:
    """∫ f(p, q) = E_m[f(p/m, q/m)] with m = (p + q)/2, half the points from p and half from q; f =
    p log(p/q) − p + q.

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
    """The variance of a mean over two halves that are drawn from different laws."""
    return float(sum(np.var(part, ddof=1) / half / 4 for part in (values[:half], values[half:])))
