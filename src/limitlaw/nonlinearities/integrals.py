"""E φ⁽ᵈ⁾(u) ψ⁽ᵉ⁾(v) by quadrature: an outer integral over u, and the mean of ψ under the law of v given u inside.

v | u ~ N(m_v + ρσ_v x, s²), x = (u − m_u)/σ_u, s² = (1 − ρ²)K_vv. As a function of x, φ has structure of width ℓ/σ_u at
its kinks or near 0, and the inner mean has structure of width √(s² + ℓ²)/(|ρ|σ_v) where its argument passes those of ψ;
the panels are graded around both, so that no correlation and no variance is special.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.nonlinearities.base import Nonlinearity
from limitlaw.nonlinearities.blocks import TINY, density, spread
from limitlaw.numerics.gaussian_quadrature import (
    Function,
    integrate,
    largest,
    on_a_grid,
    otherwise,
    panel_edges,
    rotated,
)

Reals = Float[Array, "..."]

SMALL = 1e-150
KINK_LEVELS = 4  # a normal law has faded at 8 deviations
SMOOTH_LEVELS = 6  # tanh, silu, … are linear beyond 32 to all digits
UNKNOWN_LEVELS = 13
ACCEPT = 1e-6  # two steps that agree to this: halving the step squares the error, so that the finer has 1e-12


@dataclasses.dataclass(frozen=True)
class Pair:
    """The joint law of (u, v): means, deviations, correlation ρ and s² = Var(v | u), all of one shape."""

    m_u: Reals
    m_v: Reals
    sigma_u: Reals
    sigma_v: Reals
    rho: Reals
    s2: Reals

    @property
    def shape(self) -> tuple[int, ...]:
        """The elementwise shape."""
        return self.rho.shape

    def u(self, x: Reals) -> Reals:
        """u at x standard deviations."""
        return self.m_u + self.sigma_u * x

    def given(self, x: Reals) -> Reals:
        """E(v | u) there."""
        return self.m_v + self.rho * self.sigma_v * x


def pair_law(m_u: Reals, m_v: Reals, K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Pair:
    """Roots are taken before anything is broadcast; |ρ| > 1, which rounding makes, is ±1."""
    sigma_u, sigma_v = jnp.sqrt(jnp.maximum(K_uu, 0.0)), jnp.sqrt(jnp.maximum(K_vv, 0.0))
    rho = jnp.clip(K_uv / jnp.maximum(sigma_u, SMALL) / jnp.maximum(sigma_v, SMALL), -1.0, 1.0)
    s2 = jnp.where(K_uu > 0, spread(K_uu, K_uv, K_vv) / jnp.maximum(K_uu, TINY), K_vv)
    return Pair(*jnp.broadcast_arrays(m_u, m_v, sigma_u, sigma_v, rho, s2))


def derivative(f: Function, order: int) -> Function:
    """The derivative of f of that order, elementwise, almost everywhere."""
    for _ in range(order):
        f = _derivative(f)
    return f


def _derivative(f: Function) -> Function:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


def structure(phi: Nonlinearity) -> tuple[list[tuple[float, float]], int]:
    """(position, width ℓ) of the places where φ is not smooth, or not smooth on long scales; levels of grading."""
    if phi.kinks:
        return [(kink.at, 0.0) for kink in phi.kinks], KINK_LEVELS
    return [(0.0, 1.0)], UNKNOWN_LEVELS if phi.kinks is None else SMOOTH_LEVELS


def mean_by_quadrature(phi: Nonlinearity, f: Function, m: Reals, k: Reals, order: int = 10) -> Reals:
    """E f(u), u ~ N(m, k), for f with the kinks of φ."""
    m, sigma = jnp.broadcast_arrays(m, jnp.sqrt(jnp.maximum(k, 0.0)))
    sizes = jnp.maximum(sigma, SMALL)
    places, levels = structure(phi)
    centres = [((at - m) / sizes, width / sizes, levels if width else 0) for at, width in places]
    return integrate(lambda x: f(m + sigma * x), panel_edges(m.shape, centres), order)


def inner_mean(psi: Nonlinearity, e: int, order: int) -> Callable[[Reals, Reals], Reals]:
    """(μ, s²) ↦ E ψ⁽ᵉ⁾(v), v ~ N(μ, s²): the closed form of ψ, differentiated in μ, or else a quadrature."""
    closed = psi.mean
    if closed is None:
        return lambda mu, s2: mean_by_quadrature(psi, derivative(psi.function, e), mu, s2, order)
    return lambda mu, s2: derivative(lambda mu: closed(mu, s2), e)(mu)


def _edges(phi: Nonlinearity, psi: Nonlinearity, law: Pair) -> Float[Array, "edges ..."]:
    sigma_u = jnp.maximum(law.sigma_u, SMALL)
    slope = law.rho * law.sigma_v
    slope = jnp.where(jnp.abs(slope) > SMALL, slope, SMALL)
    places, levels = structure(phi)
    centres = [((at - law.m_u) / sigma_u, width / sigma_u, levels if width else 0) for at, width in places]
    places, levels = structure(psi)
    for at, width in places:
        centres.append(((at - law.m_v) / slope, jnp.sqrt(law.s2 + width**2) / jnp.abs(slope), levels))
    return panel_edges(law.shape, centres)


def nested(phi: Nonlinearity, f: Function, psi: Nonlinearity, e: int, law: Pair, order: int = 10) -> Reals:
    """E f(u) ψ⁽ᵉ⁾(v) for f with the kinks of φ, almost everywhere in u."""
    G = inner_mean(psi, e, order)
    return integrate(lambda x: f(law.u(x)) * G(law.given(x), law.s2), _edges(phi, psi, law), order)


def at_kinks(phi: Nonlinearity, d: int, psi: Nonlinearity, e: int, law: Pair) -> Reals:
    """What the jumps of φ add to E φ⁽ᵈ⁾(u) ψ⁽ᵉ⁾(v): one of φ⁽ᵈ⁻¹⁾ is a delta function in φ⁽ᵈ⁾, one of φ⁽ᵈ⁻²⁾ its slope.

    With p the density of u and G(u) = E(ψ⁽ᵉ⁾(v) | u): ∫ δ(u − b) p G du = p(b)G(b), ∫ δ'(u − b) p G du = −(pG)'(b).
    """
    total = jnp.zeros(law.shape)
    K_uu = jnp.maximum(law.sigma_u**2, TINY)
    for kink in phi.kinks or ():
        x = (kink.at - law.m_u) / jnp.maximum(law.sigma_u, SMALL)
        p, mu = density(kink.at - law.m_u, K_uu), law.given(x)
        weight = {0: 0.0, 1: kink.jump, 2: kink.slope_jump}[d]
        if weight:
            total = total + weight * p * inner_mean(psi, e, 10)(mu, law.s2)
        if d == 2 and kink.jump:
            beta = law.rho * law.sigma_v / jnp.maximum(law.sigma_u, SMALL)
            G, slope = inner_mean(psi, e, 10)(mu, law.s2), inner_mean(psi, e + 1, 10)(mu, law.s2)
            total = total - kink.jump * p * (beta * slope - x / jnp.sqrt(K_uu) * G)
    return total


def rms(phi: Nonlinearity, f: Function, m: Reals, k: Reals) -> Reals:
    """√E f(u)², u ~ N(m, k), for f with the kinks of φ, and never 0."""
    return jnp.sqrt(jnp.maximum(mean_by_quadrature(phi, lambda x: f(x) ** 2, m, k), TINY))


def estimated(
    phi: Nonlinearity, f: Function, psi: Nonlinearity, e: int, law: Pair, scale: Reals
) -> tuple[Reals, Float[Array, ""]]:
    """`nested`, and its largest difference from the same with fewer nodes, in units of `scale`."""
    fine, coarse = (nested(phi, f, psi, e, law, order) for order in (10, 7))
    return fine, largest((fine - coarse) / scale)


def adaptive(phi: Nonlinearity, f: Function, psi: Nonlinearity, e: int, law: Pair) -> tuple[Reals, Float[Array, ""]]:
    """E f(u) ψ⁽ᵉ⁾(v) where no closed form helps, with an estimate of its error relative to √(E f(u)² E ψ⁽ᵉ⁾(v)²).

    First the trapezoidal rule in the coordinates u = σ_u(ax + by), v = σ_v(ax − by), in which a smooth integrand stays
    smooth for every ρ. If two steps disagree, as at large variance, on this integral or on those of f and ψ⁽ᵉ⁾ alone,
    then nested graded panels.
    """
    g = derivative(psi.function, e)
    a, b = jnp.sqrt(0.5 * (1 + law.rho)), jnp.sqrt(0.5 * (1 - law.rho))
    of_u, of_v = rms(phi, f, law.m_u, law.sigma_u**2), rms(psi, g, law.m_v, law.sigma_v**2)

    def u(x: Reals, y: Reals) -> Reals:
        return law.m_u + law.sigma_u * (a * x + b * y)

    def v(x: Reals, y: Reals) -> Reals:
        return law.m_v + law.sigma_v * (a * x - b * y)

    def rule(step: float, radius: float) -> tuple[Reals, Reals]:
        value = rotated(f, g, u, v, law.shape, step, radius)
        alone_u = on_a_grid(f, law.u, law.shape, step, radius) / of_u
        alone_v = on_a_grid(g, lambda x: law.m_v + law.sigma_v * x, law.shape, step, radius) / of_v
        return value, jnp.concatenate([(value / (of_u * of_v))[None], alone_u, alone_v])

    def finer(before: Reals, step: float, radius: float, next_one: Callable[[Reals], Any]) -> Any:
        value, relative = rule(step, radius)
        error = largest(relative - before)
        return otherwise(error < ACCEPT, (value, error**2), lambda: next_one(relative))

    def panels(_: Reals) -> tuple[Reals, Float[Array, ""]]:
        return estimated(phi, f, psi, e, law, of_u * of_v)

    return finer(rule(0.4, 9.0)[1], 0.2, 9.5, lambda relative: finer(relative, 0.1, 10.0, panels))
