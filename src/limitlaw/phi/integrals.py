"""E φ⁽ᵈ⁾(u) ψ⁽ᵉ⁾(v) by quadrature: an outer integral over u, and the mean of ψ under the law of v
given u inside.

v | u ~ N(m_v + ρσ_v x, s²), x = (u − m_u)/σ_u, s² = (1 − ρ²)K_vv. As a function of x, φ has
structure of width ℓ/σ_u at its kinks or near 0, and the inner mean has structure of width
√(s² + ℓ²)/(|ρ|σ_v) where its argument passes those of ψ; the panels are graded around both, so
that no correlation and no variance is special. Values come with an estimate of their error,
elementwise and absolute, in which rounding is not counted.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from limitlaw.numerics import Reals
from limitlaw.numerics.gaussian_quadrature import (
    FULL_ERROR,
    TINIEST,
    VALUE_ONLY,
    Graded,
    RealFunction,
    ValueAndError,
    integrate,
    largest,
    on_a_grid,
    otherwise,
    panel_edges,
    rotated,
    tail_of_plane,
)
from limitlaw.phi.nonlinearity import Nonlinearity
from limitlaw.phi.rounding import error_of_mean, is_exact, mean_form
from limitlaw.phi.step_and_ramp import density, spread

Care = tuple[int, ...]  # the rules of `integrate`: how much care is taken of the error
TINY_SD = 1e-100  # stands in for a standard deviation of zero
KINK_LEVELS = 4  # a normal law has faded at 8 deviations
SMOOTH_LEVELS = 6  # tanh, silu, … are linear beyond 32 to all digits
UNKNOWN_LEVELS = 13
# two steps that agree to this: halving the step squares the error, so that the finer has 1e-12
ACCEPT = 1e-6
# rounding of sums over the nodes of the plane, in units of the roots of second moments
ROUNDING_ON_PLANE = 1e-13


@dataclasses.dataclass(frozen=True)
class JointNormal:
    """The joint law of (u, v): means, deviations, correlation ρ, and s² = Var(v | u)."""

    m_u: Reals
    m_v: Reals
    sigma_u: Reals
    sigma_v: Reals
    rho: Reals
    s2: Reals

    @property
    def shape(self) -> tuple[int, ...]:
        """The elementwise shape of all fields."""
        return self.rho.shape

    def u(self, x: Reals) -> Reals:
        """The value of u at x standard deviations from its mean."""
        return self.m_u + self.sigma_u * x

    def given(self, x: Reals) -> Reals:
        """The conditional mean E(v | u), with u at x standard deviations from its mean."""
        return self.m_v + self.rho * self.sigma_v * x


def pair_law(m_u: Reals, m_v: Reals, K_uu: Reals, K_uv: Reals, K_vv: Reals) -> JointNormal:
    """The joint law of (u, v) from means and covariances.

    Roots are taken before anything is broadcast; a |ρ| > 1, which rounding makes, becomes ±1.
    """
    sigma_u, sigma_v = jnp.sqrt(jnp.maximum(K_uu, 0.0)), jnp.sqrt(jnp.maximum(K_vv, 0.0))
    rho = jnp.clip(K_uv / jnp.maximum(sigma_u, TINY_SD) / jnp.maximum(sigma_v, TINY_SD), -1.0, 1.0)
    s2 = jnp.where(K_uu > 0, spread(K_uu, K_uv, K_vv) / jnp.maximum(K_uu, TINIEST), K_vv)
    return JointNormal(*jnp.broadcast_arrays(m_u, m_v, sigma_u, sigma_v, rho, s2))


def derivative(f: RealFunction, order: int) -> RealFunction:
    """The derivative of f of that order, elementwise, almost everywhere."""
    for _ in range(order):
        f = _derivative(f)
    return f


def _derivative(f: RealFunction) -> RealFunction:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


@dataclasses.dataclass(frozen=True)
class Features:
    """Points where φ is not smooth, or only on scales of `width`, graded over `levels` octaves.

    `layers`: those for means of φ under normal laws, up to half-way to neighbours.
    """

    at: Float[np.ndarray, " places"]
    width: float
    levels: int
    layers: int
    left: Float[np.ndarray, " places"]
    right: Float[np.ndarray, " places"]

    def own(self, m: Reals, sigma: Reals) -> Graded:
        """The structure of φ(m + σx) as a function of x."""
        sigma = jnp.maximum(sigma, TINY_SD)
        return Graded((self._column(self.at, m.ndim) - m) / sigma, self.width / sigma, self.levels)

    def of_means(self, m: Reals, slope: Reals, s2: Reals) -> Graded:
        """The structure of E φ(v), v ~ N(m + slope·x, s²), as a function of x."""
        slope = jnp.where(jnp.abs(slope) > TINY_SD, slope, TINY_SD)
        at, left, right = (self._column(a, m.ndim) for a in (self.at, self.left, self.right))
        before, behind = jnp.where(slope > 0, left, right), jnp.where(slope > 0, right, left)
        scale = jnp.abs(slope)
        width = jnp.sqrt(s2 + self.width**2) / scale
        return Graded((at - m) / slope, width, self.layers, before / scale, behind / scale)

    def _column(self, a: Float[np.ndarray, " places"], ndim: int) -> Float[Array, "places ..."]:
        return jnp.asarray(a[(slice(None),) + (None,) * ndim])


def structure(phi: Nonlinearity) -> list[Features]:
    """The places where φ is not smooth, or not smooth on long scales."""
    kinks = [kink.at for kink in phi.kinks or ()]
    at = np.array(sorted({*(phi.cuts or ()), *kinks}))
    if not len(at):
        levels = UNKNOWN_LEVELS if phi.kinks is None else SMOOTH_LEVELS
        alone = np.array([np.inf])
        near_zero = Features(np.zeros(1), 1.0, levels, levels, alone, alone)
        return [] if phi.cuts is not None else [near_zero]
    gaps = np.concatenate([[np.inf], 0.5 * np.diff(at), [np.inf]])
    # A mean of φ has structure on its own scale at kinks, and around φ's structure as a whole.
    layered = np.isin(at, kinks) | np.isinf(gaps[:-1]) | np.isinf(gaps[1:])
    groups = ((layered, KINK_LEVELS), (~layered, 0))
    return [
        Features(at[i], 0.0, 0, layers, gaps[:-1][i], gaps[1:][i])
        for i, layers in groups
        if i.any()
    ]


def is_analytic(phi: Nonlinearity) -> bool:
    """Is φ known to be smooth between the places of its structure?"""
    return phi.kinks is not None


def mean(
    phi: Nonlinearity, f: RealFunction, m: Reals, k: Reals, care: Care, inner: bool = False
) -> ValueAndError:
    """E f(u), u ~ N(m, k), for f with the kinks of φ; `inner`: inside another integral."""
    m, sigma = jnp.broadcast_arrays(m, jnp.sqrt(jnp.maximum(k, 0.0)))
    own = [places.own(m, sigma) for places in structure(phi)]
    edges = panel_edges(m.shape, own) if inner else panel_edges(m.shape, (), own)
    return integrate(lambda x: f(m + sigma * x), edges, care, is_analytic(phi))


def deltas(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> Reals:
    """What the jumps of φ add to E φ⁽ᵈ⁾(u), u ~ N(m, k) with density p: Σ φ⁽ᵈ⁻¹⁾-jump p(b) −
    φ⁽ᵈ⁻²⁾-jump p'(b).
    """

    def term(at: Reals, jump: Reals, slope_jump: Reals) -> Reals:
        p = density(at - m, k)
        if d == 1:
            return jump * p
        slope_of_p = jnp.where(p > 0, -(at - m) / jnp.maximum(k, TINIEST) * p, 0.0)
        return slope_jump * p - jump * slope_of_p

    return _over_kinks(phi, d, term, jnp.broadcast_shapes(jnp.shape(m), jnp.shape(k)))


def _over_kinks(
    phi: Nonlinearity, d: int, term: Callable[..., Reals], shape: tuple[int, ...]
) -> Reals:
    """Σ term(at, jump, slope_jump) over the kinks that matter for φ⁽ᵈ⁾."""
    kinks = [k for k in phi.kinks or () if (d > 0 and k.jump) or (d > 1 and k.slope_jump)]
    if not kinks:
        return jnp.zeros(shape)
    table = jnp.asarray([[k.at, k.jump, k.slope_jump] for k in kinks])
    return jax.lax.scan(lambda total, row: (total + term(*row), None), jnp.zeros(shape), table)[0]


def inner_mean(
    psi: Nonlinearity, e: int, care: Care = VALUE_ONLY
) -> Callable[[Reals, Reals], ValueAndError]:
    """(μ, s²) ↦ E ψ⁽ᵉ⁾(v), v ~ N(μ, s²), and its error: a closed form's slopes, or quadrature."""
    if psi.mean is not None:
        closed = mean_form(psi, e)

        def by_formula(mu: Reals, s2: Reals) -> ValueAndError:
            value = closed(mu, s2)
            return value, error_of_mean(psi, e, mu, s2, value)

        return by_formula
    f = derivative(psi.function, e)

    def by_quadrature(mu: Reals, s2: Reals) -> ValueAndError:
        value, error = mean(psi, f, mu, s2, care, inner=True)
        return (value + deltas(psi, e, mu, s2) if e else value), error

    return by_quadrature


def nested(
    phi: Nonlinearity,
    f: RealFunction,
    psi: Nonlinearity,
    e: int,
    law: JointNormal,
    care: Care,
) -> ValueAndError:
    """E f(u) ψ⁽ᵉ⁾(v) for f with the kinks of φ, almost everywhere in u, and its error: that of the
    outer integral and, with full care, the mean of those of the inner ones.
    """
    G, with_error = inner_mean(psi, e), inner_mean(psi, e, care)

    def integrand(x: Reals) -> Reals:
        return f(law.u(x)) * G(law.given(x), law.s2)[0]

    def doubt(x: Reals) -> Reals:
        return jnp.abs(f(law.u(x))) * with_error(law.given(x), law.s2)[1]

    own = [places.own(law.m_u, law.sigma_u) for places in structure(phi)]
    slope = law.rho * law.sigma_v
    of_means = [places.of_means(law.m_v, slope, law.s2) for places in structure(psi)]
    edges = panel_edges(law.shape, of_means, own)
    doubted = None if care != FULL_ERROR or is_exact(psi) else doubt
    return integrate(integrand, edges, care, is_analytic(phi) and is_analytic(psi), doubted)


def at_kinks(phi: Nonlinearity, d: int, psi: Nonlinearity, e: int, law: JointNormal) -> Reals:
    """What the jumps of φ add to E φ⁽ᵈ⁾(u) ψ⁽ᵉ⁾(v): a jump of φ⁽ᵈ⁻¹⁾ is a delta function in φ⁽ᵈ⁾,
    a jump of φ⁽ᵈ⁻²⁾ its slope.

    With p the density of u and G(u) = E(ψ⁽ᵉ⁾(v) | u): ∫ δ(u − b) p G du = p(b)G(b), ∫ δ'(u − b) p
    G du = −(pG)'(b).
    """
    K_uu = jnp.maximum(law.sigma_u**2, TINIEST)
    beta = law.rho * law.sigma_v / jnp.maximum(law.sigma_u, TINY_SD)
    jumps = any(kink.jump for kink in phi.kinks or ())

    def term(at: Reals, jump: Reals, slope_jump: Reals) -> Reals:
        x = (at - law.m_u) / jnp.maximum(law.sigma_u, TINY_SD)
        p, mu = density(at - law.m_u, K_uu), law.given(x)
        G, _ = inner_mean(psi, e)(mu, law.s2)
        if d == 1:
            return jump * p * G
        total = slope_jump * p * G
        if jumps:
            slope_of_G = beta * inner_mean(psi, e + 1)(mu, law.s2)[0]
            total = total - jump * p * (slope_of_G - x / jnp.sqrt(K_uu) * G)
        return total

    return _over_kinks(phi, d, term, law.shape)


def rms(phi: Nonlinearity, f: RealFunction, m: Reals, k: Reals) -> Reals:
    """√E f(u)², u ~ N(m, k), for f with the kinks of φ, and never 0."""
    square, _ = mean(phi, lambda x: f(x) ** 2, m, k, VALUE_ONLY)
    return jnp.sqrt(jnp.maximum(square, TINIEST))


def smooth_pair(
    phi: Nonlinearity, f: RealFunction, psi: Nonlinearity, e: int, law: JointNormal, care: Care
) -> ValueAndError:
    """E f(u) ψ⁽ᵉ⁾(v) where no closed form helps, and its error, for f and ψ⁽ᵉ⁾ that seem to be
    smooth.

    First the trapezoidal rule in the coordinates u = σ_u(ax + by), v = σ_v(ax − by), in which a
    smooth integrand stays smooth for every ρ: halving the step squares the error. If two steps
    disagree, as at large variance, on this integral or on those of f and ψ⁽ᵉ⁾ alone, then nested
    graded panels; also where f or ψ⁽ᵉ⁾ has a narrow peak, which panels know of and no step sees.
    If φ and ψ are not known to be smooth, a third step has to show that errors are squared.
    """
    g = derivative(psi.function, e)
    a, b = jnp.sqrt(0.5 * (1 + law.rho)), jnp.sqrt(0.5 * (1 - law.rho))
    of_u, of_v = rms(phi, f, law.m_u, law.sigma_u**2), rms(psi, g, law.m_v, law.sigma_v**2)
    known = phi.kinks == () and psi.kinks == ()

    def u(x: Reals, y: Reals) -> Reals:
        return law.m_u + law.sigma_u * (a * x + b * y)

    def v(x: Reals, y: Reals) -> Reals:
        return law.m_v + law.sigma_v * (a * x - b * y)

    def rule(step: float, radius: float) -> ValueAndError:
        value = rotated(f, g, u, v, law.shape, step, radius)
        alone_u = on_a_grid(f, law.u, law.shape, step, radius) / of_u
        alone_v = on_a_grid(g, lambda x: law.m_v + law.sigma_v * x, law.shape, step, radius) / of_v
        return value, jnp.concatenate([(value / (of_u * of_v))[None], alone_u, alone_v])

    outside = tail_of_plane(lambda x, y: f(u(x, y)) * g(v(x, y)), len(law.shape)) / (of_u * of_v)

    def panels() -> ValueAndError:
        return nested(phi, f, psi, e, law, care)

    def accepted(value: Reals, change: Reals) -> ValueAndError:
        return value, of_u * of_v * (jnp.max(change, axis=0) ** 2 + outside)

    def complete(figures: Float[Array, "5 ..."]) -> Bool[Array, ""]:
        """Does the rule see all of f and g: are E f and E g those of panels at their cuts?"""
        if not known:
            return jnp.array(True)
        E_f = mean(phi, f, law.m_u, law.sigma_u**2, VALUE_ONLY)[0] / of_u
        E_g = mean(psi, g, law.m_v, law.sigma_v**2, VALUE_ONLY)[0] / of_v
        return largest(figures[jnp.array([1, 3])] - jnp.stack([E_f, E_g])) < ACCEPT

    _, first = rule(0.4, 9.0)
    value, second = rule(0.2, 9.5)
    change = jnp.abs(second - first)
    good = (largest(change) < ACCEPT) & (largest(outside) < ACCEPT) & complete(second)

    def finer() -> ValueAndError:
        value, third = rule(0.1, 10.0)
        last = jnp.abs(third - second)
        squared = known | jnp.all(last <= 10 * change**2 + ROUNDING_ON_PLANE)
        good = squared & (largest(last) < ACCEPT) & (largest(outside) < ACCEPT)
        good &= complete(third)
        return otherwise(good, accepted(value, last), panels)

    return otherwise(good, accepted(value, change), finer) if known else finer()
