"""Differential entropies of laws that average over components, by quadrature:
with its error, and that of sampling.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import Components, Estimate, Quantity
from limitlaw.numerics.meshes import Places, mesh
from limitlaw.numerics.panels import Panels, evaluated, of_integral, resolve, unseen

TOLERANCE, TOLERANCE_SAMPLED = 1e-13, 1e-9  # of E |log density|, for each panel
CLOSE = 1e-9  # of |x|: panels next to a point where φ' = 0 and the density of φ(Y) is infinite
SOME = 2**11  # draws that the bias of a joint law is estimated from
SLIGHT = 0.1  # nats: a bias up to here is the first term of a series


@dataclasses.dataclass(frozen=True)
class Entropy:
    """h = −∫ e^λ ρ dx, with the density e^λ of some X,
    and ρ(x) the log density of Y = φ(X) at φ(x).

    `log`: ρ with its error. `weight`: λ from x and ρ. `share`: the e^λ of one component at a point
    that `points` makes of x. `places`: where e^λ varies; `breaks`: where ρ may jump or be
    infinite. `variance`: that of Y.
    """

    components: Components
    log: Callable[[Array], Estimate]
    weight: Callable[[Array, Array], Array]
    share: Quantity
    points: Callable[[Array], Any]
    places: Places
    breaks: tuple[float, ...]
    variance: Callable[[], Any]

    def estimate(self) -> Estimate:
        """The entropy; of a sampled law without its bias, see `_bias`."""
        panels, rows = self._resolved()
        λ, ρ = rows
        p = np.exp(λ)
        f = _product(p, ρ)
        value = float(panels.weights @ f)
        seen = float(np.abs(ρ)[p > 0].max(initial=0))
        quadrature = (
            float(panels.tails(f).sum())
            + (1 + seen) * unseen(panels, p)
            + 1e-15 * float(panels.weights @ abs(f))
        )
        if not self.components.sampled:
            return Estimate(jnp.asarray(value), lambda: jnp.asarray(quadrature))
        bias = self._bias(panels, p, value)
        costs = np.where(p > 0, -ρ, 0)
        error = lambda: jnp.asarray(
            math.hypot(self._spread(panels, costs, value), bias, quadrature)
        )
        return Estimate(jnp.asarray(value + bias), error)

    def _resolved(self) -> tuple[Panels, Float[np.ndarray, "2 x"]]:
        """Panels that resolve e^λ ρ, and λ and ρ at their nodes."""
        points, scales = self.places
        low, high = points.min(), points.max()
        breaks = np.array([b for b in self.breaks if low <= b <= high])
        edges = mesh(np.append(breaks, points), np.append(0 * breaks, scales))
        tolerance = TOLERANCE_SAMPLED if self.components.sampled else TOLERANCE

        def rows(x: Float[np.ndarray, " x"]) -> Float[np.ndarray, "2 x"]:
            ρ = self.log(jnp.asarray(x)).value
            return np.stack([np.asarray(self.weight(jnp.asarray(x), ρ)), np.asarray(ρ)])

        panels = Panels.between(edges, breaks)
        return resolve(
            rows,
            lambda rows: _product(np.exp(rows[0]), rows[1]),
            panels,
            of_integral(tolerance),
            CLOSE,
        )

    def _bias(self, panels: Panels, p: Float[np.ndarray, " x"], value: float) -> float:
        """What the noise of sampled components takes from the entropy on average:
        ½∫ p σ², σ the error of log p.

        The entropy is concave in p, so that E h(p̂) < h.
        To second order h − E h(p̂) = ½∫ Var(p̂)/p.
        """
        sigma = evaluated(
            lambda x: np.asarray(self.log(jnp.asarray(x)).error())[None], panels.nodes
        )[0]
        bias = 0.5 * float(panels.weights @ np.where(p > 0, p * np.where(p > 0, sigma, 0) ** 2, 0))
        return _plausible(
            bias, value, lambda: 0.5 * math.log(2 * math.pi * math.e * float(self.variance()))
        )

    def _spread(self, panels: Panels, costs: Float[np.ndarray, " x"], value: float) -> float:
        """The standard error: of the average over components of what each contributes,
        ∫ share (−ρ) dx.
        """
        weighted = panels.weights * costs
        spread = self.components.spread_of_integral
        return float(spread(self.share, panels.nodes, weighted, jnp.asarray(value), self.points))


def _product(p: Float[np.ndarray, " x"], ρ: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """−p ρ, and 0 where p is."""
    return np.where(p > 0, -p * np.where(p > 0, ρ, 0), 0)


def _plausible(bias: float, value: float, most: Callable[[], float]) -> float:
    """The bias, where it is small. Else components hardly overlap,
    and h(p̂) ≤ h ≤ `most`: half way.

    `most` is the entropy of the Gaussian of the same covariance, ½ log det 2πe Cov Y.
    """
    return bias if bias < SLIGHT else max(0.0, most() - value) / 2


def joint_entropy(law: Averaged, draws: Float[Array, "groups M *shape"]) -> Estimate:
    """Of a joint law with components, from draws of it:
    −E log p, with the same bias as for one number.

    To first order the law's own noise enters like that of its components' means:
    at most Var log p / components.
    """
    components, count = law._components, draws.shape[0] * draws.shape[1]
    flat = draws.reshape(count, *law.shape)
    costs = -np.asarray(law.logpdf(flat))
    if not components.sampled:
        return Estimate(
            jnp.asarray(costs.mean()), lambda: jnp.asarray(costs.std() / math.sqrt(count))
        )
    value = float(np.asarray(components.weights) @ costs.reshape(draws.shape[:2]).mean(1))
    sigma = np.asarray(law.error.logpdf(flat[:: -(-count // SOME)]))
    most = lambda: (
        0.5 * float(np.linalg.slogdet(2 * math.pi * math.e * np.asarray(law.covariance()))[1])
    )
    bias = _plausible(0.5 * float((sigma**2).mean()), value, most)
    sampling = costs.std() * math.sqrt(1 / count + 1 / len(components))
    return Estimate(jnp.asarray(value + bias), lambda: jnp.asarray(math.hypot(sampling, bias)))
