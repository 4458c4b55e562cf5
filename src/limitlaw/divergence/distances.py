"""Distances that are integrals or maxima of |p − q| or of |F_p − F_q|."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.polynomial import Legendre, legendre

from limitlaw.divergence.compared import (
    Divergence,
    arguments,
    check_density,
    check_numbers,
    compared,
    is_infinite,
)
from limitlaw.divergence.in_blocks import InBlocks, in_blocks, tolerance
from limitlaw.divergence.on_panels import (
    DENSITY_ROUNDING,
    TAIL_ROUNDING,
    Tails,
    atoms,
    first_panels,
)
from limitlaw.divergence.steps import SteppedDifference
from limitlaw.laws import Law
from limitlaw.numerics.panels import (
    NARROWEST_PANEL,
    PANEL_ORDER,
    POLE,
    Panels,
    Resolution,
    of_integral,
    resolve,
    unseen,
)

ROUNDING_OF_DISTANCE = 1e-16
ENDS_OF_PANEL = np.array([-1.0, 1.0])  # the ends of a panel in its own coordinate u


@dataclasses.dataclass(frozen=True)
class DistanceErrors:
    """The errors of ∫ |d| and of max |d|."""

    of_integral: float
    of_maximum: float

    def beside(
        self, rounding: Float[np.ndarray, " x"], weights: Float[np.ndarray, " x"]
    ) -> "DistanceErrors":
        """These errors and, in quadrature, those from the rounding of d."""
        return DistanceErrors(
            math.hypot(self.of_integral, float(weights @ rounding)),
            math.hypot(self.of_maximum, float(rounding.max(initial=0))),
        )


@compared
def total_variation(p: Law, q: Law) -> Divergence:
    """½∫ |p − q| = sup_A |P(A) − Q(A)|, of laws of one number with densities.

    The noise of a sampled law makes the value too large where p − q is below it. An absolute value
    has no unbiased estimate, so the value is the plain one, and the error includes the expected
    excess (see `noise`).
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
        laws, rows, of_integral(tolerance(*laws), lambda _: ROUNDING_OF_DISTANCE), POLE
    )
    found = noise(laws, values, d, panels.weights, lambda law: law.error.pdf(panels.nodes))
    found = found.beside(_rounding(laws, values, DENSITY_ROUNDING), panels.weights)
    missed = sum(unseen(panels, density) for density in _whole(laws, values))
    return Divergence(
        integral(panels, d) / 2, math.hypot(panels.tails(d).sum() + missed, found.of_integral) / 2
    )


@compared
def wasserstein1(p: Law, q: Law) -> Divergence:
    """W₁ = ∫ |F_p − F_q| dx, of laws of one number; samples and atoms are allowed.

    Right of the middle the difference is taken between the upper tails, so that it is as accurate
    in both. About the noise of sampled laws see `total_variation`.
    """
    check_numbers("wasserstein1", p, q)
    if p is not q and is_infinite("wasserstein1", "mean", p, q):
        return Divergence(math.inf, 0.0)
    jumps = np.concatenate([atoms(p), atoms(q)])
    panels, d, found, steps = _distribution_functions(
        p, q, lambda left_out: of_integral(left_out, jumps=jumps)
    )
    if steps is not None:
        value, rough = steps.integral()
        return Divergence(value, math.hypot(rough, found.of_integral))
    left = float((panels.tails(d) + panels.hidden(d, jumps)).sum())
    return Divergence(integral(panels, d), math.hypot(left, found.of_integral))


@compared
def kolmogorov(p: Law, q: Law) -> Divergence:
    """sup_x |F_p(x) − F_q(x)|, of laws of one number; samples and atoms are allowed.

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
) -> tuple[Panels, Float[np.ndarray, " x"], DistanceErrors, SteppedDifference | None]:
    """F_p − F_q at nodes of panels that resolve it, its noise, and its steps where samples are."""
    laws = in_blocks(p), in_blocks(q)
    stepped = p.discrete or q.discrete
    panels, d, values = _difference(
        laws,
        Tails.of(laws).rows,
        tails(math.inf if stepped else tolerance(*laws)),
        NARROWEST_PANEL,
    )
    if p is q:
        return panels, 0 * d, DistanceErrors(0.0, 0.0), None
    found = noise(laws, values, d, panels.weights, lambda law: law.error.cdf(panels.nodes))
    found = found.beside(_rounding(laws, values, TAIL_ROUNDING), panels.weights)
    return panels, d, found, SteppedDifference.of(p, q) if stepped else None


def _difference(
    laws: tuple[InBlocks, InBlocks],
    rows: Callable[[Float[np.ndarray, " x"]], Float[np.ndarray, "b x"]],
    tails: Resolution,
    closest: float,
) -> tuple[Panels, Float[np.ndarray, " x"], Float[np.ndarray, "b x"]]:
    """Panels that resolve p − q, it at their nodes, and the values of all blocks there."""

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
    """A quantity of p, and of q, from those of their blocks."""
    count = len(laws[0].parts)
    return laws[0].weights @ values[:count], laws[1].weights @ values[count:]


def _rounding(
    laws: tuple[InBlocks, InBlocks], values: Float[np.ndarray, "b x"], relative: float
) -> Float[np.ndarray, " x"]:
    """The rounding of p − q, which is that of both, whatever cancels."""
    first, second = _whole(laws, values)
    return relative * (np.abs(first) + np.abs(second)) / 2


def noise(
    laws: tuple[InBlocks, InBlocks],
    rows: Float[np.ndarray, "b x"],
    d: Float[np.ndarray, " x"],
    weights: Float[np.ndarray, " x"],
    pointwise: Callable[[Law], object],
) -> DistanceErrors:
    """The errors that the `rows` of the blocks of both laws at nodes show; `pointwise` is used for
    a law in one block.

    ∫ |d| moves by ∫ sign(d) δ with the noise δ of d, which the blocks show, and on average it is
    too large by

        ∫ (E|d + σξ| − |d|) dx,   E|d + σξ| = σ √(2/π) e^{−d²/2σ²} + d erf(d/(σ√2)),   ξ ~ N(0, 1),

    the folded normal (Leone, Nelson and Nottingham 1961), large only where |d| is below its noise
    σ. The error is the standard error and this excess, in quadrature.
    """
    count = len(laws[0].parts)
    linear, square = 0.0, np.zeros_like(d)
    for law, own in zip(laws, (rows[:count], rows[count:]), strict=True):
        sigma = np.asarray(pointwise(law.whole)) if law.opaque else law.spread(own)
        moved = (
            weights @ sigma
            if law.opaque
            else law.spread((own @ (weights * np.sign(d)))[:, None])[0]
        )
        linear, square = linear + float(moved) ** 2, square + sigma**2
    sigma = np.sqrt(square)
    return DistanceErrors(
        math.sqrt(linear + float(weights @ folded(d, sigma)) ** 2), float(sigma.max(initial=0))
    )


def folded(d: Float[np.ndarray, " x"], sigma: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """The mean excess E|d + σξ| − |d| of a folded normal, ξ ~ N(0, 1)."""
    from scipy.special import erfc  # a quarter of a second to import

    safe = np.where(sigma > 0, sigma, 1)
    z = np.minimum(np.abs(d) / safe, 40)
    excess = math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) - z * erfc(z / math.sqrt(2))
    return np.where(sigma > 0, sigma * np.maximum(excess, 0), 0)


def integral(panels: Panels, d: Float[np.ndarray, " x"]) -> float:
    """∫ |d| over panels; where d changes sign, by its polynomial between that one's roots."""
    c = panels.coefficients(d * panels.slopes)
    ends = legendre.legval(ENDS_OF_PANEL, c.T)
    signs = np.sign(np.concatenate([d.reshape(-1, PANEL_ORDER), ends], 1))
    mixed = (signs.min(1) < 0) & (signs.max(1) > 0)
    plain = (panels.weights * np.abs(d)).reshape(-1, PANEL_ORDER).sum(1)
    split = [_between_roots(Legendre(c[i])) for i in np.flatnonzero(mixed)]
    return float(plain[~mixed].sum() + sum(split))


def _between_roots(d: Legendre) -> float:
    """∫ |d| over [−1, 1], for a polynomial d."""
    at = np.concatenate([[-1.0], _roots(d), [1.0]])
    return float(np.abs(np.diff(d.integ()(at))).sum())


def maximum(panels: Panels, d: Float[np.ndarray, " x"]) -> tuple[float, float]:
    """max |d|, and what the last coefficients contribute there; ends of panels count from inside,
    so jumps are seen.
    """
    c = panels.coefficients(d)
    rough, left = _heights(panels, d)
    best, error = 0.0, 0.0
    for i in np.flatnonzero(rough + 10 * left >= rough.max()):
        polynomial = Legendre(c[i])
        at = np.concatenate([ENDS_OF_PANEL, _roots(polynomial.deriv())])
        best, error = max(best, float(np.abs(polynomial(at)).max())), max(error, float(left[i]))
    return best, error


def of_maximum(relative: float) -> Resolution:
    """A resolution for max |d|: what a panel's polynomial, if it may hold the maximum, leaves out
    of it, and the most that it may leave out.
    """

    def tails(
        panels: Panels, d: Float[np.ndarray, " x"]
    ) -> tuple[Float[np.ndarray, " panels"], float]:
        rough, left = _heights(panels, d)
        return np.where(rough + 10 * left >= rough.max(), left, 0), relative * float(rough.max())

    return tails


def _heights(
    panels: Panels, d: Float[np.ndarray, " x"]
) -> tuple[Float[np.ndarray, " panels"], Float[np.ndarray, " panels"]]:
    """On each panel the largest |d|, ends included, and the sum of the last two coefficients."""
    c = panels.coefficients(d)
    ends = np.abs(legendre.legval(ENDS_OF_PANEL, c.T)).max(1)
    return np.maximum(np.abs(d).reshape(-1, PANEL_ORDER).max(1), ends), np.abs(c[:, -2:]).sum(1)


def _roots(polynomial: Legendre) -> Float[np.ndarray, " roots"]:
    """The real roots of a polynomial inside (−1, 1), in order."""
    scale = np.abs(polynomial.coef).max()
    if scale == 0:
        return np.zeros(0)
    roots = (polynomial / scale).trim(1e-17).roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    return np.sort(real[np.abs(real) < 1])
