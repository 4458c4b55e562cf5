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
    ROUGH,
    RULES,
    Function,
    Graded,
    integrate,
    integrate_with_error,
    largest,
    on_a_grid,
    otherwise,
    panel_edges,
    rotated,
    tail_of_plane,
)
from limitlaw.phi.nonlinearity import Nonlinearity
from limitlaw.phi.step_and_ramp import TINY, density, spread

ValueAndError = tuple[Reals, Reals]  # a value and its error

SMALL = 1e-150
KINK_LEVELS = 4  # a normal law has faded at 8 deviations
SMOOTH_LEVELS = 6  # tanh, silu, … are linear beyond 32 to all digits
UNKNOWN_LEVELS = 13
# two steps that agree to this: halving the step squares the error, so that the finer has 1e-12
ACCEPT = 1e-6
ROUNDING = 1e-13  # of sums over the nodes of the plane, in units of the roots of second moments


@dataclasses.dataclass(frozen=True)
class JointNormal:
    """The joint law of (u, v): means, deviations, correlation ρ and s² = Var(v | u), all of one
    shape.
    """

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


def pair_law(m_u: Reals, m_v: Reals, K_uu: Reals, K_uv: Reals, K_vv: Reals) -> JointNormal:
    """Roots are taken before anything is broadcast; |ρ| > 1, which rounding makes, is ±1."""
    sigma_u, sigma_v = jnp.sqrt(jnp.maximum(K_uu, 0.0)), jnp.sqrt(jnp.maximum(K_vv, 0.0))
    rho = jnp.clip(K_uv / jnp.maximum(sigma_u, SMALL) / jnp.maximum(sigma_v, SMALL), -1.0, 1.0)
    s2 = jnp.where(K_uu > 0, spread(K_uu, K_uv, K_vv) / jnp.maximum(K_uu, TINY), K_vv)
    return JointNormal(*jnp.broadcast_arrays(m_u, m_v, sigma_u, sigma_v, rho, s2))


def derivative(f: Function, order: int) -> Function:
    """The derivative of f of that order, elementwise, almost everywhere."""
    for _ in range(order):
        f = _derivative(f)
    return f


def _derivative(f: Function) -> Function:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


@dataclasses.dataclass(frozen=True)
class Features:
    """Points where φ is not smooth, or not on long scales:
    structure of that width, graded over `levels` octaves.

    `layers`: octaves of grading for means of φ under normal laws, which end half-way to the
    neighbours on both sides.
    """

    at: Float[np.ndarray, " places"]
    width: float
    levels: int
    layers: int
    left: Float[np.ndarray, " places"]
    right: Float[np.ndarray, " places"]

    def own(self, m: Reals, sigma: Reals) -> Graded:
        """In x, for φ(m + σx)."""
        sigma = jnp.maximum(sigma, SMALL)
        return Graded((self._column(self.at, m.ndim) - m) / sigma, self.width / sigma, self.levels)

    def of_means(self, m: Reals, slope: Reals, s2: Reals) -> Graded:
        """In x, for E φ(v), v ~ N(m + slope·x, s²)."""
        slope = jnp.where(jnp.abs(slope) > SMALL, slope, SMALL)
        at, left, right = (self._column(a, m.ndim) for a in (self.at, self.left, self.right))
        before, behind = jnp.where(slope > 0, left, right), jnp.where(slope > 0, right, left)
        scale = jnp.abs(slope)
        width = jnp.sqrt(s2 + self.width**2) / scale
        return Graded((at - m) / slope, width, self.layers, before / scale, behind / scale)

    def _column(self, a: Float[np.ndarray, " places"], ndim: int) -> Float[Array, "places ..."]:
        return jnp.asarray(a[(slice(None),) + (None,) * ndim])


def structure(phi: Nonlinearity) -> list[Features]:
    """Where φ is not smooth, or not smooth on long scales."""
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


def _mean_edges(phi: Nonlinearity, m: Reals, sigma: Reals, far: bool) -> Float[Array, "edges ..."]:
    own = [places.own(m, sigma) for places in structure(phi)]
    return panel_edges(m.shape, own, own if far else ())


def mean_by_quadrature(
    phi: Nonlinearity, f: Function, m: Reals, k: Reals, far: bool = True
) -> Reals:
    """E f(u), u ~ N(m, k), for f with the kinks of φ; `far`: also behind those far out."""
    m, sigma = jnp.broadcast_arrays(m, jnp.sqrt(jnp.maximum(k, 0.0)))
    return integrate(lambda x: f(m + sigma * x), _mean_edges(phi, m, sigma, far))


def mean_with_error(
    phi: Nonlinearity, f: Function, m: Reals, k: Reals, far: bool = True
) -> ValueAndError:
    """The same, with its error."""
    m, sigma = jnp.broadcast_arrays(m, jnp.sqrt(jnp.maximum(k, 0.0)))
    return integrate_with_error(
        lambda x: f(m + sigma * x), _mean_edges(phi, m, sigma, far), is_analytic(phi)
    )


def deltas(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> Reals:
    """What the jumps of φ add to E φ⁽ᵈ⁾(u), u ~ N(m, k) with density p:
    Σ φ⁽ᵈ⁻¹⁾-jump p(b) − φ⁽ᵈ⁻²⁾-jump p'(b).
    """

    def term(at: Reals, jump: Reals, slope_jump: Reals) -> Reals:
        p = density(at - m, k)
        if d == 1:
            return jump * p
        slope_of_p = jnp.where(p > 0, -(at - m) / jnp.maximum(k, TINY) * p, 0.0)
        return slope_jump * p - jump * slope_of_p

    return _over_kinks(phi, d, term, jnp.broadcast_shapes(jnp.shape(m), jnp.shape(k)))


def _over_kinks(
    phi: Nonlinearity, d: int, term: Callable[..., Reals], shape: tuple[int, ...]
) -> Reals:
    """Σ of term(at, jump, slope_jump) over the kinks that matter for φ⁽ᵈ⁾."""
    kinks = [k for k in phi.kinks or () if (d > 0 and k.jump) or (d > 1 and k.slope_jump)]
    if not kinks:
        return jnp.zeros(shape)
    table = jnp.asarray([[k.at, k.jump, k.slope_jump] for k in kinks])
    return jax.lax.scan(lambda total, row: (total + term(*row), None), jnp.zeros(shape), table)[0]


def inner_mean(psi: Nonlinearity, e: int) -> Callable[[Reals, Reals], Reals]:
    """(μ, s²) ↦ E ψ⁽ᵉ⁾(v), v ~ N(μ, s²): the closed form of ψ, differentiated in μ, or else a
    quadrature.
    """
    closed = psi.mean
    if closed is None:
        f = derivative(psi.function, e)
        return lambda mu, s2: (
            mean_by_quadrature(psi, f, mu, s2, far=False) + (deltas(psi, e, mu, s2) if e else 0.0)
        )
    return lambda mu, s2: derivative(lambda mu: closed(mu, s2), e)(mu)


def inner_error(psi: Nonlinearity, e: int) -> Callable[[Reals, Reals], Reals] | None:
    """The error of `inner_mean`, or None if there is none."""
    if psi.mean is None:
        return lambda mu, s2: mean_with_error(psi, derivative(psi.function, e), mu, s2, far=False)[
            1
        ]
    if not psi.accuracy:
        return None
    return lambda mu, s2: psi.accuracy * jnp.abs(inner_mean(psi, e)(mu, s2))


def _edges(phi: Nonlinearity, psi: Nonlinearity, law: JointNormal) -> Float[Array, "edges ..."]:
    own = [places.own(law.m_u, law.sigma_u) for places in structure(phi)]
    slope = law.rho * law.sigma_v
    inner = [places.of_means(law.m_v, slope, law.s2) for places in structure(psi)]
    return panel_edges(law.shape, own + inner, own)


def nested(phi: Nonlinearity, f: Function, psi: Nonlinearity, e: int, law: JointNormal) -> Reals:
    """E f(u) ψ⁽ᵉ⁾(v) for f with the kinks of φ, almost everywhere in u."""
    G = inner_mean(psi, e)
    return integrate(lambda x: f(law.u(x)) * G(law.given(x), law.s2), _edges(phi, psi, law))


def nested_with_error(
    phi: Nonlinearity,
    f: Function,
    psi: Nonlinearity,
    e: int,
    law: JointNormal,
    rough: bool = False,
) -> ValueAndError:
    """The same, with its error: that of the outer integral and, unless `rough`, the mean of those
    of the inner ones.
    """
    G, wrong_by = inner_mean(psi, e), None if rough else inner_error(psi, e)

    def integrand(x: Reals) -> Reals:
        return f(law.u(x)) * G(law.given(x), law.s2)

    def doubt(x: Reals) -> Reals:
        assert wrong_by is not None
        return jnp.abs(f(law.u(x))) * wrong_by(law.given(x), law.s2)

    analytic = is_analytic(phi) and is_analytic(psi)
    rules = ROUGH if rough else RULES
    return integrate_with_error(
        integrand, _edges(phi, psi, law), analytic, doubt if wrong_by else None, rules
    )


def at_kinks(phi: Nonlinearity, d: int, psi: Nonlinearity, e: int, law: JointNormal) -> Reals:
    """What the jumps of φ add to E φ⁽ᵈ⁾(u) ψ⁽ᵉ⁾(v): one of φ⁽ᵈ⁻¹⁾ is a delta function in φ⁽ᵈ⁾,
    one of φ⁽ᵈ⁻²⁾ its slope.

    With p the density of u and G(u) = E(ψ⁽ᵉ⁾(v) | u): ∫ δ(u − b)
    p G du = p(b)G(b), ∫ δ'(u − b) p G du = −(pG)'(b).
    """
    K_uu = jnp.maximum(law.sigma_u**2, TINY)
    beta = law.rho * law.sigma_v / jnp.maximum(law.sigma_u, SMALL)
    jumps = any(kink.jump for kink in phi.kinks or ())

    def term(at: Reals, jump: Reals, slope_jump: Reals) -> Reals:
        x = (at - law.m_u) / jnp.maximum(law.sigma_u, SMALL)
        p, mu = density(at - law.m_u, K_uu), law.given(x)
        G = inner_mean(psi, e)(mu, law.s2)
        if d == 1:
            return jump * p * G
        total = slope_jump * p * G
        if jumps:
            slope_of_G = beta * inner_mean(psi, e + 1)(mu, law.s2)
            total = total - jump * p * (slope_of_G - x / jnp.sqrt(K_uu) * G)
        return total

    return _over_kinks(phi, d, term, law.shape)


def rms(phi: Nonlinearity, f: Function, m: Reals, k: Reals) -> Reals:
    """√E f(u)², u ~ N(m, k), for f with the kinks of φ, and never 0."""
    return jnp.sqrt(jnp.maximum(mean_by_quadrature(phi, lambda x: f(x) ** 2, m, k), TINY))


def smooth_pair(
    phi: Nonlinearity, f: Function, psi: Nonlinearity, e: int, law: JointNormal, rough: bool
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
        return nested_with_error(phi, f, psi, e, law, rough)

    def accepted(value: Reals, change: Reals) -> ValueAndError:
        return value, of_u * of_v * (jnp.max(change, axis=0) ** 2 + outside)

    def complete(figures: Float[Array, "5 ..."]) -> Bool[Array, ""]:
        """Does the rule see all of f and g: are E f and E g those of panels at their cuts?"""
        if not known:
            return jnp.array(True)
        E_f = mean_by_quadrature(phi, f, law.m_u, law.sigma_u**2) / of_u
        E_g = mean_by_quadrature(psi, g, law.m_v, law.sigma_v**2) / of_v
        return largest(figures[jnp.array([1, 3])] - jnp.stack([E_f, E_g])) < ACCEPT

    _, first = rule(0.4, 9.0)
    value, second = rule(0.2, 9.5)
    change = jnp.abs(second - first)
    good = (largest(change) < ACCEPT) & (largest(outside) < ACCEPT) & complete(second)

    def finer() -> ValueAndError:
        value, third = rule(0.1, 10.0)
        last = jnp.abs(third - second)
        squared = known | jnp.all(last <= 10 * change**2 + ROUNDING)
        good = squared & (largest(last) < ACCEPT) & (largest(outside) < ACCEPT)
        good &= complete(third)
        return otherwise(good, accepted(value, last), panels)

    return otherwise(good, accepted(value, change), finer) if known else finer()
