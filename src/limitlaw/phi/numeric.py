"""E φ⁽ᵈ⁾(u) and E φ(u)ψ(v) by quadrature, differentiable in means and covariances.

Derivatives are Gaussian moments themselves (Price, 1958): ∂/∂K_uv E φ(u)ψ(v) = E φ'(u)ψ'(v),
∂/∂K_uu = ½ E φ''(u)ψ(v). A jump of φ is a delta function in φ'.
"""

import functools
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp

from limitlaw.arguments import is_traced
from limitlaw.numerics import Reals
from limitlaw.numerics import gaussian_quadrature as rules
from limitlaw.numerics.gaussian_quadrature import RealFunction, ValueAndError, largest
from limitlaw.phi import integrals
from limitlaw.phi.integrals import Care, JointNormal, derivative, pair_law
from limitlaw.phi.nonlinearity import Nonlinearity

# relative error of a moment above which there is a warning; smaller ones are stated with the law
FAILED = 1e-4


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def mean(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> Reals:
    """E φ⁽ᵈ⁾(u), u ~ N(m, k)."""
    value, error = mean_and_error(phi, d, m, k)
    if d == 0:
        _warn(phi.name, value, error, lambda: _size(phi, m, k))
    return value


@functools.partial(jax.jit, static_argnums=(0, 1))
def mean_and_error(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> ValueAndError:
    """E φ⁽ᵈ⁾(u) with its error; if kinks are unknown, E φ⁽ᵈ⁾ = E (φ⁽ᵈ⁻¹⁾(u) − φ⁽ᵈ⁻¹⁾(m))(u − m)/k
    for k not small.
    """
    value, error = integrals.mean(phi, derivative(phi.function, d), m, k, rules.FULL_ERROR)
    if d == 0:
        return value, error
    if phi.kinks is not None:
        return value + integrals.deltas(phi, d, m, k), error
    f = derivative(phi.function, d - 1)
    centre = jnp.where(jnp.isfinite(f(m)), f(m), 0.0)
    by_stein = lambda u: (f(u) - centre) * (u - m)
    stein, rest = integrals.mean(phi, by_stein, m, k, rules.FULL_ERROR)
    some = jnp.maximum(k, rules.TINIEST)
    return jnp.where(k > 1e-4, stein / some, value), jnp.where(k > 1e-4, rest / some, error)


@mean.defjvp
def _mean_jvp(
    phi: Nonlinearity, d: int, primals: tuple[Reals, Reals], tangents: tuple[Reals, Reals]
) -> tuple[Reals, Reals]:
    """∂/∂m = E φ⁽ᵈ⁺¹⁾ and ∂/∂k = ½ E φ⁽ᵈ⁺²⁾."""
    (m, k), (dm, dk) = primals, tangents
    first, second = (mean_and_error(phi, d + i, m, k)[0] for i in (1, 2))
    return mean(phi, d, m, k), first * dm + 0.5 * second * dk


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def product(
    phi: Nonlinearity,
    psi: Nonlinearity,
    m_u: Reals,
    m_v: Reals,
    K_uu: Reals,
    K_uv: Reals,
    K_vv: Reals,
) -> Reals:
    """E φ(u)ψ(v) by quadrature."""
    watched = any(p.kinks is None or p.cuts is not None or p.oscillates for p in (phi, psi))
    care = rules.ROUGH_ERROR if watched else rules.VALUE_ONLY
    value, error = moment_and_error(phi, 0, psi, 0, care, m_u, m_v, K_uu, K_uv, K_vv)
    if watched:
        name = f"{phi.name}·{psi.name}"
        _warn(name, value, error, lambda: _size(phi, m_u, K_uu) * _size(psi, m_v, K_vv))
    return value


@functools.partial(product.defjvp, symbolic_zeros=True)
def _product_jvp(
    phi: Nonlinearity,
    psi: Nonlinearity,
    primals: tuple[Reals, ...],
    tangents: tuple[Reals | jax.custom_derivatives.SymbolicZero, ...],
) -> tuple[Reals, Reals]:
    """∂/∂m_u = E φ'ψ, ∂/∂K_uv = E φ'ψ', ∂/∂K_uu = ½ E φ''ψ, and the same with u and v
    exchanged.
    """
    orders = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    value = product(phi, psi, *primals)
    total = jnp.zeros_like(value)
    for (d, e), tangent in zip(orders, tangents, strict=True):
        if not isinstance(tangent, jax.custom_derivatives.SymbolicZero):
            slope, _ = moment_and_error(phi, d, psi, e, rules.VALUE_ONLY, *primals)
            total = total + (0.5 if 2 in (d, e) else 1.0) * slope * tangent
    return value, total


def moment_and_error(
    phi: Nonlinearity, d: int, psi: Nonlinearity, e: int, care: Care, *arguments: Reals
) -> ValueAndError:
    """E φ⁽ᵈ⁾(u)ψ⁽ᵉ⁾(v) with delta functions, and its error, estimated by the rules `care`.

    `arguments` are m_u, m_v, K_uu, K_uv, K_vv. The outer integral is over the function with no
    closed mean, or the one whose derivative has delta functions. For a φ of which nothing is
    known, E φ''ψ = E φ'(u)x ψ(v)/σ_u − (K_uv/K_uu) E φ'ψ' (Stein's lemma), which is right also
    where φ' jumps; for small σ_u it comes from φ'' itself.
    """
    m_u, m_v, K_uu, K_uv, K_vv = arguments
    if _outer_is_second(phi, d, psi, e):
        return moment_and_error(psi, e, phi, d, care, m_v, m_u, K_vv, K_uv, K_uu)
    plain, error = _outer_integral(phi, d, False, psi, e, care, *arguments)
    if d < 2 or phi.kinks is not None:
        return plain, error
    scaled, _ = _outer_integral(phi, 1, True, psi, e, care, *arguments)
    cross, _ = moment_and_error(phi, 1, psi, e + 1, care, *arguments)
    sigma_u = jnp.sqrt(jnp.maximum(K_uu, rules.TINIEST))
    stein = scaled / sigma_u - K_uv / jnp.maximum(K_uu, rules.TINIEST) * cross
    return jnp.where(sigma_u > 1e-2, stein, plain), error


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def _outer_integral(
    phi: Nonlinearity, d: int, by_x: bool, psi: Nonlinearity, e: int, care: Care, *arguments: Reals
) -> ValueAndError:
    """E φ⁽ᵈ⁾(u)ψ⁽ᵉ⁾(v), with another factor x = (u − m_u)/σ_u if `by_x`; the outer integral is
    over u.
    """
    law = pair_law(*arguments)
    f = derivative(phi.function, d)
    if by_x:
        sigma_u = jnp.maximum(law.sigma_u, integrals.TINY_SD)
        return _almost_everywhere(phi, lambda u: f(u) * (u - law.m_u) / sigma_u, psi, e, law, care)
    value, error = _almost_everywhere(phi, f, psi, e, law, care)
    return value + integrals.at_kinks(phi, d, psi, e, law), error


def _almost_everywhere(
    phi: Nonlinearity, f: RealFunction, psi: Nonlinearity, e: int, law: JointNormal, care: Care
) -> ValueAndError:
    """E f(u)ψ⁽ᵉ⁾(v) without delta functions of φ, f having the kinks of φ."""
    smooth = phi.mean is None and psi.mean is None and not phi.kinks and not psi.kinks
    rule = integrals.smooth_pair if smooth else integrals.nested
    return rule(phi, f, psi, e, law, care)


def _outer_is_second(phi: Nonlinearity, d: int, psi: Nonlinearity, e: int) -> bool:
    """Is the outer integral to be over ψ, and the inner one over φ?"""
    if d != e and (phi.kinks != () or psi.kinks != ()):
        return bool(e > d and psi.kinks != ())
    jumps = [any(kink.jump for kink in p.kinks or ()) for p in (phi, psi)]
    if d == e == 1 and jumps[0] != jumps[1]:
        return jumps[1]
    if (phi.mean is None) != (psi.mean is None):
        return psi.mean is None
    return d == e == 0 and bool(phi.kinks) and psi.kinks == ()


@functools.partial(jax.jit, static_argnums=0)
def _size(phi: Nonlinearity, m: Reals, k: Reals) -> Reals:
    """√E φ(u)², on which errors are judged; infinite where φ is practically 0."""
    m, k = jnp.broadcast_arrays(m, k)
    rms = integrals.rms(phi, phi.function, m, k)
    x = jnp.linspace(-rules.LIMIT, rules.LIMIT, 41)[(slice(None),) + (None,) * m.ndim]
    largest_value = jnp.max(jnp.abs(phi.function(m + jnp.sqrt(k) * x)), axis=0)
    nothing = (rms <= 1e-10 * largest_value + 2 * rules.TINIEST**0.5) & jnp.isfinite(largest_value)
    return jnp.where(nothing, jnp.inf, rms)


def _warn(name: str, value: Reals, error: Reals, scale: Callable[[], Reals]) -> None:
    """Warn where an integral fails."""
    if is_traced(error) or largest(error / jnp.maximum(jnp.abs(value), rules.TINIEST)) <= FAILED:
        return
    relative = float(largest(error / scale()))
    if relative > FAILED:
        warnings.warn(
            f"the Gaussian moment of {name} has a relative error of about {relative:.1g}: is it "
            "smooth on a length scale of order 1 between its kinks (of a function of one vector "
            "they can be declared, map(…, kinks=…)), and does it grow slower than exp(x²/4σ²)?",
            stacklevel=3,
        )
