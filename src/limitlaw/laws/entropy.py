"""Differential entropies of averages over components, by quadrature, with all errors."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.laws import one_gaussian
from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import AtPoints, Components, Quantity
from limitlaw.laws.estimates import Estimate
from limitlaw.laws.one_image import density, log_density
from limitlaw.numerics.meshes import FineStructure, mesh, of_components
from limitlaw.numerics.panels import Panels, evaluated, of_integral, resolve, unseen
from limitlaw.numerics.replicates import INDEPENDENT
from limitlaw.phi import Nonlinearity
from limitlaw.phi.preimages import Branched, log_slopes, padded_branches, preimages, slopes

TOLERANCE, TOLERANCE_SAMPLED = 1e-13, 1e-9  # largest error of a panel, relative to E |log density|
CLOSE = 1e-9  # narrowest panel, relative to |x|, next to a point where φ' = 0 and φ(Y) has a pole
SOME = 2**11  # draws from which the bias of a joint law is estimated
SLIGHT = 0.1  # nats: a bias up to here is the first term of a series
FLAT = 1e-8  # |φ'| at an extremum, after rounding
NEAR = 0.1  # distance from an extremum of φ within which φ(x') = φ(x) is solved by the slope

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclasses.dataclass(frozen=True)
class Entropy:
    """h = −∫ e^λ ρ dx, with the density e^λ of some X, and ρ(x) the log density of Y = φ(X) at
    φ(x).

    `log`: ρ with its error. `weight`: λ from x and ρ. `share`: the e^λ of one component at a point
    that `points` makes of x. `places`: where e^λ varies; `breaks`: where ρ may jump or be
    infinite. `variance`: that of Y.
    """

    components: Components
    log: Callable[[Array], Estimate]
    weight: Callable[[Array, Array], Array]
    share: Quantity
    points: Callable[[Array], AtPoints]
    places: FineStructure
    breaks: tuple[float, ...]
    variance: Callable[[], Array]

    @classmethod
    def along_gaussians(
        cls,
        components: Components,
        log: Callable[[Array], Estimate],
        weight: Callable[[Array, Array], Array],
        breaks: tuple[float, ...],
        variance: Callable[[], Array],
    ) -> "Entropy":
        """The entropy of φ(X) for X a mixture of Gaussians of one number."""
        places = of_components(*components.parameters)
        share = one_gaussian.pdf
        return cls(components, log, weight, share, lambda x: x, places, breaks, variance)

    def estimate(self) -> Estimate:
        """The entropy; of a sampled law with its bias removed, see `_bias`."""
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
        """What noise takes from the entropy, which is concave in p: to second order h − E h(p̂) =
        ½∫ Var(p̂)/p = ½∫ p σ², σ the error of log p.
        """
        sigma = evaluated(
            lambda x: np.asarray(self.log(jnp.asarray(x)).error())[None], panels.nodes
        )[0]
        bias = 0.5 * float(panels.weights @ np.where(p > 0, p * np.where(p > 0, sigma, 0) ** 2, 0))
        return _plausible(
            bias, value, lambda: 0.5 * math.log(2 * math.pi * math.e * float(self.variance()))
        )

    def _spread(self, panels: Panels, costs: Float[np.ndarray, " x"], value: float) -> float:
        """The standard error, of the average of what each component gives: ∫ share (−ρ) dx."""
        weighted = panels.weights * costs
        spread = self.components.spread_of_integral
        return float(spread(self.share, panels.nodes, weighted, jnp.asarray(value), self.points))


def _product(p: Float[np.ndarray, " x"], ρ: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """−p ρ, which is 0 where p is."""
    return np.where(p > 0, -p * np.where(p > 0, ρ, 0), 0)


def _plausible(bias: float, value: float, most: Callable[[], float]) -> float:
    """The bias, if it is small. Else components hardly overlap, and all that is known is h(p̂) ≤ h
    ≤ `most`, ½ log det 2πe Cov Y: half of the largest bias there can be.
    """
    return bias if bias < SLIGHT else max(0.0, most() - value) / 2


def joint_entropy(law: Averaged, draws: Float[Array, "groups M *shape"]) -> Estimate:
    """The entropy −E log p of a joint law, from draws of it, with the same bias as for one number;
    its own noise is that of a mean, at most Var log p / components.
    """
    components, count = law._components, draws.shape[0] * draws.shape[1]
    flat = draws.reshape(count, *law.shape)
    costs = -np.asarray(law.logpdf(flat))
    if not components.sampled:
        return Estimate(jnp.asarray(costs.mean()), lambda: jnp.asarray(INDEPENDENT.error(costs)))
    value = float(np.asarray(components.weights) @ costs.reshape(draws.shape[:2]).mean(1))
    sigma = np.asarray(law.error.logpdf(flat[:: -(-count // SOME)]))
    most = lambda: (
        0.5 * float(np.linalg.slogdet(2 * math.pi * math.e * np.asarray(law.covariance()))[1])
    )
    bias = _plausible(0.5 * float((sigma**2).mean()), value, most)
    sampling = costs.std() * math.sqrt(1 / count + 1 / len(components))
    return Estimate(jnp.asarray(value + bias), lambda: jnp.asarray(math.hypot(sampling, bias)))


def image_entropy(
    known: Branched, base: Averaged, images: Components, variance: Callable[[], Array]
) -> Estimate:
    """The entropy of φ(Y) without atoms, φ with branches `known`, Y a mixture `base`.

    By an integral over x, as φ may saturate. `images`: the components of φ(Y).
    """
    phi, same = known.phi, len({(b.bottom, b.top) for b in known.branches}) == 1
    if not known.injective and same and np.isfinite(known.support).all():
        return _of_waves(known, images, variance)
    breaks = tuple(
        sorted({b.lo for b in known.branches} | {b.hi for b in known.branches} | set(known.kinks))
    )
    if known.injective:
        log = lambda x: _plus(base._logpdf(x), -log_slopes(phi, x))
        weight = lambda x, ρ: ρ + log_slopes(phi, x)
    else:
        log = lambda x: images.log_average(log_density, _all_preimages(known, x))
        weight = lambda x, _: base._logpdf(x).value
    return Entropy.along_gaussians(base._components, log, weight, breaks, variance).estimate()


def _plus(estimate: Estimate, shift: Array) -> Estimate:
    return Estimate(estimate.value + shift, estimate.error)


def _all_preimages(
    known: Branched, x: Float[Array, " n"]
) -> tuple[Float[Array, "n b"], Float[Array, "n b"]]:
    """Every x' with φ(x') = φ(x), a branch each, and −log |φ'(x')|; from x, as φ(x) rounds."""
    phi = known.phi
    roots, jacobian = preimages(phi(x), known)
    there = jacobian > 0
    ends = np.full((roots.shape[1], 2), np.nan)
    ends[: len(known.branches)] = [(b.lo, b.hi) for b in known.branches]
    for i, (left, right) in enumerate(itertools.pairwise(known.branches)):
        if left.hi == right.lo and float(slopes(phi, jnp.asarray(left.hi))) < FLAT:
            near = jnp.abs(x - left.hi) < NEAR
            roots = roots.at[:, i : i + 2].set(
                jnp.where(
                    near[:, None], _other_side(phi, x, left.hi)[:, None], roots[:, i : i + 2]
                )
            )
            there = there.at[:, i : i + 2].set(there[:, i : i + 2] | near[:, None])
    own = (ends[:, 0] <= x[:, None]) & (x[:, None] < ends[:, 1])
    roots = jnp.where(own, x[:, None], roots)
    return roots, jnp.where(there | own, -log_slopes(phi, roots), -jnp.inf)


@functools.partial(jax.jit, static_argnames="phi")
def _other_side(
    phi: Nonlinearity, x: Float[Array, " n"], extremum: Float[Array, ""]
) -> Float[Array, " n"]:
    """x' beyond an extremum of φ with φ(x') = φ(x), x near it: by Newton's method for ∫_x^{x'} φ'
    = 0, since φ(x') − φ(x) is known to rounding only.
    """
    slope = jax.vmap(jax.grad(lambda x: phi(x)))
    other = 2 * extremum - x
    for _ in range(4):
        step = other - x
        along = slope((x[:, None] + step[:, None] * (GAUSS_NODES + 1) / 2).reshape(-1)).reshape(
            -1, len(GAUSS_NODES)
        )
        other = other - step * (along @ (GAUSS_WEIGHTS / 2)) / slope(other)
    return other


def _of_waves(known: Branched, images: Components, variance: Callable[[], Array]) -> Estimate:
    """The entropy where every branch has all values of φ, and the same slopes: Y is folded into
    one branch, [lo, hi], on which φ is one to one.
    """
    phi, branches = known.phi, known.branches
    middle = branches[len(branches) // 2]
    lo, hi = middle.lo, middle.hi
    count = padded_branches(len(branches))
    starts = np.array(
        [b.lo if b.rising == middle.rising else b.hi for b in branches]
        + [0.0] * (count - len(branches))
    )
    signs = np.array(
        [1.0 if b.rising == middle.rising else -1.0 for b in branches]
        + [1.0] * (count - len(branches))
    )
    there = np.arange(count) < len(branches)

    def unfolded(x: Array) -> tuple[Array, Array]:
        return starts + signs * (x[:, None] - lo), jnp.broadcast_to(
            jnp.asarray(there, float), (len(x), count)
        )

    def log(x: Array) -> Estimate:
        points, inside = unfolded(x)
        return _plus(
            images.log_average(log_density, (points, jnp.log(inside))),
            -log_slopes(phi, x),
        )

    x, scale = of_components(*images.parameters[:2])
    turns = (x - lo) / (hi - lo)
    folded = lo + (hi - lo) * np.abs((turns + 1) % 2 - 1)
    places = np.concatenate([[lo, hi], folded]), np.concatenate([[0.0, 0.0], scale])
    weight = lambda x, ρ: ρ + log_slopes(phi, x)
    return Entropy(images, log, weight, density, unfolded, places, (lo, hi), variance).estimate()
