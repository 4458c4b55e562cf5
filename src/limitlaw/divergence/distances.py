"""Distances that are integrals or maxima of an absolute difference:
of densities, or of distribution functions.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.absolute import integral, maximum, of_maximum
from limitlaw.divergence.comparable import check_density, check_numbers, is_infinite
from limitlaw.divergence.edges import arguments, atoms, first_panels
from limitlaw.divergence.in_blocks import InBlocks, in_blocks
from limitlaw.divergence.noise import Noise, noise
from limitlaw.divergence.result import Divergence
from limitlaw.divergence.rules import compared
from limitlaw.divergence.steps import Steps
from limitlaw.divergence.tails import Tails
from limitlaw.laws import Law
from limitlaw.numerics.panels import NARROW, POLE, Panels, Resolution, of_integral, resolve, unseen

TOLERANCE, TOLERANCE_SAMPLED = 1e-12, 1e-7  # of the distance, for each panel
ROUNDING = 1e-16


@compared
def total_variation(p: Law, q: Law) -> Divergence:
    """½∫ |p − q| = sup_A |P(A) − Q(A)|, of laws of one number with densities.

    The noise of a sampled law makes the value too large where p − q is below it. An absolute value
    has no unbiased estimate, so the value is the plain one, and the error has the expected excess
    in it (see `noise`).
    """
    check_numbers("total_variation", p, q)
    check_density("total_variation", "p", p)
    check_density("total_variation", "q", q)
    if p is q:
        return Divergence(0.0, 0.0)
    p, q = arguments(p, q)
    laws = in_blocks(p), in_blocks(q)
    rows = lambda x: np.concatenate([law.rows(lambda part: part.pdf(x)) for law in laws])
    panels, d, values = _difference(
        laws, rows, of_integral(_tolerance(laws), lambda _: ROUNDING), POLE
    )
    found = noise(laws, values, d, panels.weights, lambda law: law.error.pdf(panels.nodes))
    missed = sum(unseen(panels, density) for density in _whole(laws, values))
    return Divergence(
        integral(panels, d) / 2, math.hypot(panels.tails(d).sum() + missed, found.of_integral) / 2
    )


@compared
def wasserstein1(p: Law, q: Law) -> Divergence:
    """W₁ = ∫ |F_p − F_q| dx, of laws of one number; samples and atoms are fine.

    Right of the middle the difference is taken between the upper tails, so that it is as accurate
    in both. About the noise of sampled laws see `total_variation`.
    """
    check_numbers("wasserstein1", p, q)
    if p is not q and is_infinite("wasserstein1", "mean", p, q):
        return Divergence(math.inf, 0.0)
    jumps = np.concatenate([atoms(p), atoms(q)])
    panels, d, found, steps = _distribution_functions(
        p, q, lambda tolerance: of_integral(tolerance, jumps=jumps)
    )
    if steps is not None:
        value, rough = steps.integral()
        return Divergence(value, math.hypot(rough, found.of_integral))
    left = float((panels.tails(d) + panels.hidden(d, jumps)).sum())
    return Divergence(integral(panels, d), math.hypot(left, found.of_integral))


@compared
def kolmogorov(p: Law, q: Law) -> Divergence:
    """sup_x |F_p(x) − F_q(x)|, of laws of one number; samples and atoms are fine.

    The standard error from sampled laws is the largest of F_p − F_q over x.
    """
    check_numbers("kolmogorov", p, q)
    panels, d, found, steps = _distribution_functions(*arguments(p, q), of_maximum)
    if steps is not None:
        return Divergence(steps.maximum(), found.of_maximum)
    value, rough = maximum(panels, d)
    return Divergence(value, math.hypot(rough, found.of_maximum))


def _distribution_functions(
    p: Law, q: Law, tails: Callable[[float], Resolution]
) -> tuple[Panels, Float[np.ndarray, " x"], Noise, Steps | None]:
    """F_p − F_q at the nodes of panels that resolve it,
    its noise, and a stepped form where samples are involved.
    """
    laws = in_blocks(p), in_blocks(q)
    stepped = p.discrete or q.discrete
    panels, d, values = _difference(
        laws, Tails.of(laws).rows, tails(math.inf if stepped else _tolerance(laws)), NARROW
    )
    if p is q:
        return panels, 0 * d, Noise(0.0, 0.0), None
    found = noise(laws, values, d, panels.weights, lambda law: law.error.cdf(panels.nodes))
    return panels, d, found, Steps.of(p, q) if stepped else None


def _tolerance(laws: tuple[InBlocks, InBlocks]) -> float:
    return (
        TOLERANCE_SAMPLED if "sampled" in (laws[0].whole.kind, laws[1].whole.kind) else TOLERANCE
    )


def _difference(
    laws: tuple[InBlocks, InBlocks],
    rows: Callable[[Float[np.ndarray, " x"]], Float[np.ndarray, "b x"]],
    tails: Resolution,
    closest: float,
) -> tuple[Panels, Float[np.ndarray, " x"], Float[np.ndarray, "b x"]]:
    """Panels that resolve p − q, the difference at their nodes,
    and the values of all blocks there.
    """

    def difference(values: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        first, second = _whole(laws, values)
        return first - second

    panels, values = resolve(
        rows, difference, first_panels(laws[0].whole, laws[1].whole), tails, closest
    )
    return panels, difference(values), values


def _whole(
    laws: tuple[InBlocks, InBlocks], values: Float[np.ndarray, "b x"]
) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
    """A quantity of p and of q from those of their blocks."""
    count = len(laws[0].parts)
    return laws[0].weights @ values[:count], laws[1].weights @ values[count:]
