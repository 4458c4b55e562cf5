"""E ψ(Y) of a user's function ψ, for a law of one number with a density, with the error of the
quadrature.

A trapezoidal rule is best where ψ is smooth, and shows whether it is: its even and its odd points
are two rules, which then agree. Where they do not, the kinks of ψ are looked for, and ∫ ψ p is
computed over panels between them, which are halved until they resolve it.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Inexact

from limitlaw.arguments import inside_jit, is_traced
from limitlaw.laws import one_gaussian
from limitlaw.laws.averages import Components, Quantity
from limitlaw.laws.estimates import Estimate
from limitlaw.laws.tracing import Psi, psi_values
from limitlaw.numerics.meshes import FineStructure, mesh, of_components
from limitlaw.numerics.normal_rule import REACH, NormalRule, shifts
from limitlaw.numerics.panels import (
    NARROWEST_PANEL,
    Panels,
    Rows,
    evaluated,
    of_integral,
    resolve,
    unseen,
)
from limitlaw.numerics.pieces import pieces

AGREE = 1e-13  # of E |ψ|: two rules that differ by no more agree
EXPECTATION_TOLERANCE = 1e-14  # largest error of a panel, relative to ∫ |ψ| p
# sampled components: the rules of more differ enough for their spread to show the error
MANY_COMPONENTS = 2**10
# shift of the rule, whose even points would else mirror its odd ones: both would agree for every
# even ψ
UNEVEN = 0.25
# nodes of a rule in which jumps are looked for, and the order of differences that shows them:
# cos(kz) is smooth up to about a hundred radians in a standard deviation
JUMPS_SEEN_FROM, ORDER = 2**14, 8
ROUNDING = 2.0**-50  # of E |ψ|, in these differences
RARE = 1e-8  # share of the largest density, below which missed mass is not looked for


def is_enough(between: Array, size: Array, psi: Psi) -> bool:
    """Do two rules for E ψ agree, `size` being E |ψ|? True where ψ cannot be looked at."""
    if is_traced(between) or inside_jit() or is_traced(psi(jnp.zeros(1))):
        return True
    return bool(jnp.all(between <= AGREE * size))


def on_panels(
    psi: Psi,
    density: Callable[[Float[np.ndarray, " x"]], Float[np.ndarray, " x"]],
    places: FineStructure,
    breaks: tuple[float, ...] = (),
    mass: float = 1.0,
    support: tuple[float, float] = (-math.inf, math.inf),
) -> "OnPanels":
    """∫ ψ p over panels that resolve it; `places`: where p,
    of that `mass`, varies; `breaks`: where ψ is known to; `support`: outside of which p = 0, and
    at whose ends p may jump or have a pole.
    """
    values = _Values(psi)
    ends = np.array([end for end in support if math.isfinite(end)])
    x, scales = places
    apart = NARROWEST_PANEL * np.abs(ends)[:, None] < np.abs(x - ends[:, None])
    inside = (x > support[0]) & (x < support[1]) & apart.all(axis=0)
    x, scales = np.append(ends, x[inside]), np.append(0 * ends, scales[inside])
    low, high = x.min(), x.max()
    cuts = np.array([b for b in {*breaks, *_cuts(values)} if low < b < high])
    panels = Panels.between(mesh(np.append(cuts, x), np.append(0 * cuts, scales)), ends)

    def p(x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        return np.where(np.isin(x, ends), 0.0, density(x))  # a node may round to a pole

    def rows(x: Float[np.ndarray, " x"]) -> Rows:
        return np.stack([p(x), values.joined(x)])

    values.weigh(panels, evaluated(lambda x: p(x)[None], panels.nodes)[0])

    resolution = of_integral(EXPECTATION_TOLERANCE, jumps=cuts)
    panels, found = resolve(rows, lambda rows: rows[0] * rows[1], panels, resolution)
    return OnPanels(panels, found[0], values(panels.nodes), cuts, mass, support)


def _cuts(values: "_Values") -> tuple[float, ...]:
    """Where ψ jumps or bends, or changes so fast that panels must be finer; empty if unknown."""
    found = pieces(values.joined_as_traced)
    return () if found is None else (*found.cuts, *(kink.at for kink in found.kinks))


class _Values:
    """ψ as reals (x, m), and a combination of them, resolved only where each of them is."""

    def __init__(self, psi: Psi):
        self.psi = psi
        self._factors = np.ones(1)

    def __call__(self, x: Float[np.ndarray, " x"]) -> np.ndarray:
        """ψ(x), as the user's function gives it."""
        with jax.ensure_compile_time_eval():
            return np.asarray(psi_values(self.psi, jnp.asarray(x), len(x)))

    def weigh(self, panels: Panels, p: Float[np.ndarray, " x"]) -> None:
        """Choose the factors with which every entry of ψ weighs as much as the others."""
        real = _flat(evaluated(lambda x: np.moveaxis(_flat(self(x)), 0, 1), panels.nodes).T)
        size = (panels.weights * p) @ np.abs(real)
        self._factors = _signs(real.shape[1]) / np.where((size > 0) & np.isfinite(size), size, 1)

    def joined(self, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """The linear combination of the entries of ψ(x)."""
        return _flat(self(x)) @ self._factors

    def joined_as_traced(self, x: Float[Array, " x"]) -> Float[Array, " x"]:
        """The linear combination, with equal factors, as a function that can be differentiated."""
        y = psi_values(self.psi, x, len(x)).reshape(len(x), -1)
        if y.shape[1] == 1 and not jnp.iscomplexobj(y):
            return y[:, 0]
        parts = jnp.concatenate([jnp.real(y), jnp.imag(y)], axis=1)
        return parts @ jnp.asarray(_signs(parts.shape[1]))


def _flat(values: np.ndarray) -> Float[np.ndarray, "x m"]:
    """Real and imaginary parts, with the entries in a row."""
    y = values.reshape(len(values), -1)
    return np.concatenate([y.real, y.imag], axis=1) if np.iscomplexobj(y) else y


def _signs(m: int) -> Float[np.ndarray, " m"]:
    """Factors with which kinks of different entries do not cancel."""
    return np.cos(1.0 + np.arange(m))


@dataclasses.dataclass(frozen=True)
class OnPanels:
    """ψ and the density p at the nodes of panels."""

    panels: Panels
    p: Float[np.ndarray, " x"]
    psi: np.ndarray
    cuts: Float[np.ndarray, " cuts"]
    mass: float
    support: tuple[float, float]

    @functools.cached_property
    def value(self) -> Array:
        """∫ ψ p, by the rule of the panels."""
        return jnp.asarray(np.tensordot(self.panels.weights * self.p, self.psi, 1))

    @functools.cached_property
    def error(self) -> Array:
        """What polynomials leave out on panels, at their edges and beyond them, and rounding."""
        flat = _flat(self.psi)
        error = np.array([self._of(flat[:, j]) for j in range(flat.shape[1])])
        if np.iscomplexobj(self.psi):
            error = np.hypot(*error.reshape(2, -1))
        return jnp.asarray(error.reshape(self.psi.shape[1:]))

    def _of(self, psi: Float[np.ndarray, " x"]) -> float:
        panels, f = self.panels, self.p * psi
        common = np.abs(psi)[self.p > RARE * self.p.max(initial=0)].max(initial=0)
        low, high = panels.lo[0], panels.hi[-1]
        cut_off = (low > self.support[0]) * abs(f[0]) + (high < self.support[1]) * abs(f[-1])
        beyond = cut_off * (high - low) / 24
        left = panels.tails(f).sum() + panels.hidden(f, self.cuts).sum()
        rounding = 1e-15 * (panels.weights @ np.abs(f))
        return float(
            left + beyond + rounding + common * self.mass * unseen(panels, self.p / self.mass)
        )

    def spread(self, components: Components, share: Quantity) -> Array:
        """The standard error from what sampled components, of density `share`, contribute."""
        weighted = self.panels.weights.reshape(-1, *[1] * (self.psi.ndim - 1)) * self.psi
        return components.spread_of_integral(share, self.panels.nodes, weighted, self.value)


def of_gaussians(
    psi: Psi,
    components: Components,
    certain: Bool[np.ndarray, " N"],
    nodes: int,
    breaks: tuple[float, ...],
) -> Estimate:
    """E ψ(Y) of a mixture of Gaussians of one number; `certain` marks those with sd = 0.

    `breaks`: where ψ is known not to be smooth.
    """
    rule = NormalRule(nodes)  # shifted for each component: unbiased, wherever ψ jumps
    turns = (shifts(len(components)) + UNEVEN) % 1
    shifted = dataclasses.replace(components, parameters=(*components.parameters, turns))
    average = shifted.average(Expectation(psi, rule), size=rule.nodes)
    value, between, scale = average[0], jnp.abs(average.value[1]), jnp.abs(average.value[2])
    if components.sampled and len(components) > MANY_COMPONENTS:
        return value
    if (components.sampled and certain.any()) or is_enough(between, scale, psi):
        return value.beside(between)
    return _gaussians_on_panels(psi, components, certain, breaks)


def _gaussians_on_panels(
    psi: Psi,
    components: Components,
    certain: Bool[np.ndarray, " N"],
    breaks: tuple[float, ...],
) -> Estimate:
    """E ψ(Y) of a mixture of Gaussians, where ψ is not smooth."""
    mean, sd = (np.asarray(a) for a in components.parameters)
    mass = float(components.weights[~certain].sum())
    density = lambda x: np.asarray(
        components.average(one_gaussian.pdf, jnp.asarray(x).reshape(-1)).value
    )
    found = on_panels(psi, density, of_components(mean, sd), breaks, mass)
    value = found.value
    if certain.any():
        atoms = psi_values(psi, jnp.asarray(mean[certain]), int(certain.sum()))
        value = value + jnp.tensordot(components.weights[certain], atoms, 1)
    return Estimate(
        value, lambda: jnp.hypot(found.error, found.spread(components, one_gaussian.pdf))
    )


@dataclasses.dataclass(frozen=True)
class Expectation:
    """E ψ(Y) for one Gaussian component of one number; how far the rule's even and odd points
    disagree, and what may lie beyond them; E |ψ(Y)|.
    """

    psi: Psi
    rule: NormalRule

    def __call__(self, component: one_gaussian.OneGaussian, _: Array) -> Inexact[Array, "3 ..."]:
        x, w = self.rule(*component)
        values = psi_values(self.psi, x, x.shape[0])
        between, size = disagreement(w, values, self.rule.nodes / (2 * REACH))
        return jnp.stack(
            [jnp.tensordot(w, values, 1), 0 * between if self.rule.breaks else between, size]
        )


def disagreement(
    w: Float[Array, " x"], values: Inexact[Array, "x ..."], steps: float = 1.0
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """How far even and odd points of a trapezoidal rule disagree, with its ends and, of a fine
    one, jumps of ψ; and E |ψ|. `steps`: those over which what lies beyond may fade.
    """
    terms = w.reshape(-1, *[1] * (values.ndim - 1)) * values
    even, odd = (2 * jnp.sum(terms[start::2], axis=0) for start in (0, 1))
    beyond = steps * (jnp.abs(terms[0]) + jnp.abs(terms[-1]))
    size = jnp.sum(jnp.abs(terms), axis=0)
    jumps = _at_jumps(w, values) if len(w) >= JUMPS_SEEN_FROM else 0.0
    jumps = jnp.where(jumps > ROUNDING * size, jumps, 0.0)
    return jnp.abs(even - odd) + beyond + jumps, size


def _at_jumps(w: Float[Array, " x"], values: Inexact[Array, "x ..."]) -> Float[Array, "..."]:
    """w |jump of ψ|, summed: a trapezoidal rule may miss as much while even and odd points agree.

    A jump times binomial coefficients, of sum 2^{m−1}, shows in differences Δ^m ψ of a fine rule.
    """
    away = jnp.abs(jnp.diff(values, ORDER, axis=0))
    middle = w[ORDER // 2 : len(w) - ORDER // 2]
    return jnp.tensordot(middle, away, 1) / 2 ** (ORDER - 1)
