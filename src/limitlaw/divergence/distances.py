"""Distances that are integrals or maxima of an absolute difference: of densities, or of distribution functions."""

import math

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.absolute import integral, maximum
from limitlaw.divergence.blocks import Blocks, blocks
from limitlaw.divergence.checking import check_density, check_numbers
from limitlaw.divergence.edges import Rows, first_panels
from limitlaw.divergence.noise import Noise, noise
from limitlaw.divergence.panels import NARROW, POLE, Panels, resolve
from limitlaw.divergence.result import Divergence
from limitlaw.divergence.steps import Steps
from limitlaw.divergence.tails import Tails
from limitlaw.laws import Empirical, Law

TOLERANCE, TOLERANCE_SAMPLED = 1e-11, 1e-7  # of the distance, for each panel
ROUNDING = 1e-16


def total_variation(p: Law, q: Law) -> Divergence:
    """½∫ |p − q| = sup_A |P(A) − Q(A)|, of laws of one number with densities.

    The noise of a sampled law makes the value too large where p − q is below it. An absolute value has no unbiased
    estimate, so the value is the plain one, and the error has the expected excess in it (see `noise`).
    """
    check_numbers("total_variation", p, q)
    check_density("total_variation", "p", p)
    check_density("total_variation", "q", q)
    if p is q:
        return Divergence(0.0, 0.0)
    laws = blocks(p), blocks(q)
    rows = lambda x: np.concatenate([law.rows(lambda part: part.pdf(x)) for law in laws])  # noqa: E731
    panels, d, values = _difference(laws, rows, _tolerance(laws), POLE)
    found = noise(laws, values, d, panels.weights, lambda law: law.error.pdf(panels.nodes))
    return Divergence(integral(panels, d) / 2, math.hypot(panels.tails(d).sum(), found.of_integral) / 2)


def wasserstein1(p: Law, q: Law) -> Divergence:
    """W₁ = ∫ |F_p − F_q| dx, of laws of one number; samples and atoms are fine.

    Right of the middle the difference is taken between the upper tails, so that it is as accurate in both. About the
    noise of sampled laws see `total_variation`.
    """
    panels, d, found, steps = _distribution_functions("wasserstein1", p, q)
    if steps is not None:
        value, rough = steps.integral()
        return Divergence(value, math.hypot(rough, found.of_integral))
    return Divergence(integral(panels, d), math.hypot(panels.tails(d).sum(), found.of_integral))


def kolmogorov(p: Law, q: Law) -> Divergence:
    """sup_x |F_p(x) − F_q(x)|, of laws of one number; samples and atoms are fine.

    The standard error from sampled laws is the largest of F_p − F_q over x.
    """
    panels, d, found, steps = _distribution_functions("kolmogorov", p, q)
    if steps is not None:
        return Divergence(steps.maximum(), found.of_maximum)
    value, rough = maximum(panels, d)
    return Divergence(value, math.hypot(rough, found.of_maximum))


def _distribution_functions(what: str, p: Law, q: Law) -> tuple[Panels, Float[np.ndarray, " x"], Noise, Steps | None]:
    """F_p − F_q at the nodes of panels that resolve it, its noise, and a stepped form where samples are involved."""
    check_numbers(what, p, q)
    laws = blocks(p), blocks(q)
    stepped = isinstance(p, Empirical) or isinstance(q, Empirical)
    panels, d, values = _difference(laws, Tails.of(laws).rows, math.inf if stepped else _tolerance(laws), NARROW)
    if p is q:
        return panels, 0 * d, Noise(0.0, 0.0), None
    found = noise(laws, values, d, panels.weights, lambda law: law.error.cdf(panels.nodes))
    return panels, d, found, Steps.of(p, q) if stepped else None


def _tolerance(laws: tuple[Blocks, Blocks]) -> float:
    return TOLERANCE_SAMPLED if "sampled" in (laws[0].whole.kind, laws[1].whole.kind) else TOLERANCE


def _difference(
    laws: tuple[Blocks, Blocks], rows: Rows, tolerance: float, closest: float
) -> tuple[Panels, Float[np.ndarray, " x"], Float[np.ndarray, "b x"]]:
    """Panels that resolve p − q, the difference at their nodes, and the values of all blocks there."""
    p, q = laws
    count = len(p.parts)

    def difference(values: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        return p.weights @ values[:count] - q.weights @ values[count:]

    panels = first_panels(p.whole, q.whole, rows, difference)
    panels, values = resolve(rows, difference, panels, lambda scale: tolerance * scale + ROUNDING, closest)
    return panels, difference(values), values
