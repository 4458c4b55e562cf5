"""Gaussian moments of nonlinearities: E φ(u), E φ'(u) and E φ(u)ψ(v), elementwise over arrays that broadcast.

Means given as None or as the Python number 0 are known to be zero, and closed forms apply. Otherwise, and for pairs
without a closed form, the integral is over panels graded around the places where φ and ψ are not smooth. A function of
which nothing is known must be smooth on a length scale of order 1; where it seems not to be, a warning gives the error.
It is called with node axes in front of the elementwise shape, must be pure, and may close over arrays that `jax.jit` or
`jax.vmap` trace; derivatives in such arrays are not supported.
Everything may be traced, and derivatives in the means and covariances are Gaussian moments themselves (Price, 1958):
∂/∂K_uv E φ(u)ψ(v) = E φ'(u)ψ'(v) and ∂/∂K_uu = ½ E φ''(u)ψ(v).
"""

import dataclasses
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.arguments import is_traced
from limitlaw.nonlinearities import integrals
from limitlaw.nonlinearities.base import Nonlinearity
from limitlaw.nonlinearities.blocks import TINY
from limitlaw.nonlinearities.integrals import Pair, derivative, pair_law
from limitlaw.nonlinearities.named import cos, identity, sin
from limitlaw.numerics.gaussian_quadrature import largest

Reals = Float[Array, "..."]

WARN_ABOVE = 1e-8


def mean(phi: Nonlinearity, m: Any, k: Any) -> Reals:
    """E φ(u), u ~ N(m, k)."""
    m, k = jnp.asarray(0.0 if m is None else m, float), jnp.asarray(k, float)
    if phi.mean is not None:
        return phi.mean(m, k)
    return _numeric_mean(_hashable(phi), 0, *jnp.broadcast_arrays(m, k))


def slope(phi: Nonlinearity, m: Any, k: Any) -> Reals:
    """E φ'(u) = E φ(u)(u − m)/k, u ~ N(m, k) (Stein's lemma); a jump of φ counts as a delta function in φ'."""
    m, k = jnp.broadcast_arrays(jnp.asarray(0.0 if m is None else m, float), jnp.asarray(k, float))
    closed = phi.mean
    if closed is not None:
        return derivative(lambda m: closed(m, k), 1)(m)
    return _numeric_mean(_hashable(phi), 1, m, k)


def product(phi: Nonlinearity, psi: Nonlinearity, m_u: Any, m_v: Any, K_uu: Any, K_uv: Any, K_vv: Any) -> Reals:
    """E φ(u)ψ(v), (u, v) Gaussian with means (m_u, m_v) and covariance [[K_uu, K_uv], [K_uv, K_vv]].

    Zero variances and correlations ±1 are allowed, and |K_uv| may exceed √(K_uu K_vv) by rounding.
    """
    m_u, m_v = _known_zero(m_u), _known_zero(m_v)
    K_uu, K_uv, K_vv = (jnp.asarray(K, float) for K in (K_uu, K_uv, K_vv))
    if phi.kinks or psi.kinks:
        K_uv = _within(K_uu, K_uv, K_vv)
    closed = _closed_product(phi, psi, m_u, m_v, K_uu, K_uv, K_vv)
    m_u, m_v = (jnp.zeros(()) if m is None else m for m in (m_u, m_v))
    if closed is not None:
        return jnp.broadcast_to(closed, jnp.broadcast_shapes(*(a.shape for a in (m_u, m_v, K_uu, K_uv, K_vv))))
    return _quadrature(_hashable(phi), _hashable(psi), m_u, m_v, K_uu, K_uv, K_vv)


def mean_is_closed(phi: Nonlinearity) -> bool:
    """Are `mean` and `slope` of φ closed forms?"""
    return phi.mean is not None and phi.accuracy == 0


def product_is_closed(phi: Nonlinearity, psi: Nonlinearity, m_u: Any, m_v: Any) -> bool:
    """Is `product` of φ and ψ with these means a closed form?"""
    if phi.accuracy or psi.accuracy:
        return False
    if phi != psi:
        return {phi, psi} == {sin, cos} or (identity in (phi, psi) and all(map(mean_is_closed, (phi, psi))))
    return phi.product is not None and _has_product(phi, *(_known_zero(m) is None for m in (m_u, m_v)))


@functools.lru_cache(maxsize=256)
def _has_product(phi: Nonlinearity, u_is_centred: bool, v_is_centred: bool) -> bool:
    """Does φ.product answer with a closed form for means of this kind?"""
    product: Any = phi.product
    means = (None if centred else jnp.zeros(()) for centred in (u_is_centred, v_is_centred))
    return jax.eval_shape(lambda: product(*means, *jnp.ones(3))) is not None


def _within(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """K_uv, or ±√(K_uu K_vv) where it is larger than that by more than rounding, as in a kernel of single precision."""
    bound = jax.lax.stop_gradient(jnp.sqrt(K_uu) * jnp.sqrt(K_vv))
    return jnp.where(jnp.abs(K_uv) > bound * (1 + 1e-12), jnp.sign(K_uv) * bound, K_uv)


def _known_zero(m: Any) -> Any:
    """None for a mean that is statically zero, else an array."""
    if m is None or (isinstance(m, int | float) and m == 0):
        return None
    return jnp.asarray(m, float)


def _closed_product(phi: Nonlinearity, psi: Nonlinearity, m_u: Any, m_v: Any, *K: Reals) -> Any:
    """The closed form of the pair, or None."""
    K_uu, K_uv, K_vv = K
    if phi == psi:
        return None if phi.product is None else phi.product(m_u, m_v, *K)
    if identity in (phi, psi):
        other, m, k, m_linear = (psi, m_v, K_vv, m_u) if phi == identity else (phi, m_u, K_uu, m_v)
        value = K_uv * slope(other, m, k)
        return value if m_linear is None else value + m_linear * mean(other, m, k)
    if {phi, psi} == {sin, cos}:
        return _sin_cos(m_u, m_v, *K) if phi == sin else _sin_cos(m_v, m_u, K_vv, K_uv, K_uu)
    return None


def _sin_cos(m_u: Any, m_v: Any, *K: Reals) -> Reals:
    """E sin(u) cos(v) = ½E sin(u + v) + ½E sin(u − v)."""
    K_uu, K_uv, K_vv = K
    m_u, m_v = (jnp.zeros(()) if m is None else m for m in (m_u, m_v))
    a = 0.5 * (K_uu + K_vv)
    return 0.5 * (jnp.exp(-a - K_uv) * jnp.sin(m_u + m_v) + jnp.exp(K_uv - a) * jnp.sin(m_u - m_v))


def _hashable(phi: Nonlinearity) -> Nonlinearity:
    """φ itself, or with its function wrapped where that cannot be hashed."""
    try:
        hash(phi)
    except TypeError:
        function = phi.function
        return dataclasses.replace(phi, function=lambda x: function(x))
    return phi


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _numeric_mean(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> Reals:
    """E φ⁽ᵈ⁾(u) by quadrature."""
    value, error = _mean_and_error(phi, d, m, k)
    _warn(phi.name, error)
    return value


@functools.partial(jax.jit, static_argnums=(0, 1))
def _mean_and_error(phi: Nonlinearity, d: int, m: Reals, k: Reals) -> tuple[Reals, Float[Array, ""]]:
    """E φ⁽ᵈ⁾(u), for d > 0 as E φ⁽ᵈ⁻¹⁾(u)(u − m)/k where k is not small, with an estimate of the relative error."""

    def both(f: Any) -> tuple[Reals, Float[Array, ""]]:
        fine, coarse = (integrals.mean_by_quadrature(phi, f, m, k, order) for order in (10, 7))
        return fine, largest((fine - coarse) / integrals.rms(phi, f, m, k))

    value, error = both(derivative(phi.function, d))
    if d == 0:
        return value, error
    f = derivative(phi.function, d - 1)
    stein, error = both(lambda u: f(u) * (u - m))
    return jnp.where(k > 1e-4, stein / jnp.maximum(k, TINY), value), error


@_numeric_mean.defjvp
def _numeric_mean_jvp(phi: Nonlinearity, d: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """∂/∂m = E φ⁽ᵈ⁺¹⁾ and ∂/∂k = ½ E φ⁽ᵈ⁺²⁾."""
    (m, k), (dm, dk) = primals, tangents
    first, second = (_mean_and_error(phi, d + i, m, k)[0] for i in (1, 2))
    return _numeric_mean(phi, d, m, k), first * dm + 0.5 * second * dk


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _quadrature(
    phi: Nonlinearity, psi: Nonlinearity, m_u: Reals, m_v: Reals, K_uu: Reals, K_uv: Reals, K_vv: Reals
) -> Reals:
    """E φ(u)ψ(v) by quadrature."""
    value, error = _moment_and_error(phi, 0, psi, 0, m_u, m_v, K_uu, K_uv, K_vv)
    _warn(f"{phi.name}·{psi.name}", error)
    return value


@functools.partial(_quadrature.defjvp, symbolic_zeros=True)
def _quadrature_jvp(phi: Nonlinearity, psi: Nonlinearity, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """∂/∂m_u = E φ'ψ, ∂/∂K_uv = E φ'ψ', ∂/∂K_uu = ½ E φ''ψ, and the same with u and v exchanged."""
    orders = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    value = _quadrature(phi, psi, *primals)
    total = jnp.zeros_like(value)
    for (d, e), tangent in zip(orders, tangents, strict=True):
        if not isinstance(tangent, jax.custom_derivatives.SymbolicZero):
            factor = 0.5 if 2 in (d, e) else 1.0
            total = total + factor * _moment_and_error(phi, d, psi, e, *primals)[0] * tangent
    return value, total


def _moment_and_error(
    phi: Nonlinearity, d: int, psi: Nonlinearity, e: int, m_u: Reals, m_v: Reals, K_uu: Reals, K_uv: Reals, K_vv: Reals
) -> tuple[Reals, Float[Array, ""]]:
    """E φ⁽ᵈ⁾(u)ψ⁽ᵉ⁾(v) with delta functions, and its estimated relative error, 0 where nothing is unknown.

    The function outside is the one with no closed mean, or the one whose derivative has delta functions. Of a φ of
    which nothing is known, E φ''ψ = E φ'(u)x ψ(v)/σ_u − (K_uv/K_uu) E φ'ψ' (Stein's lemma), which is right also where
    φ' jumps; for small σ_u it comes from φ'' itself.
    """
    if _outer_is_second(phi, d, psi, e):
        return _moment_and_error(psi, e, phi, d, m_v, m_u, K_vv, K_uv, K_uu)
    arguments = (m_u, m_v, K_uu, K_uv, K_vv)
    plain, error = _outer_integral(phi, d, False, psi, e, *arguments)
    if d < 2 or phi.kinks is not None:
        return plain, error
    scaled, cross = (
        _outer_integral(phi, 1, True, psi, e, *arguments)[0],
        _moment_and_error(phi, 1, psi, e + 1, *arguments)[0],
    )
    sigma_u = jnp.sqrt(jnp.maximum(K_uu, TINY))
    stein = scaled / sigma_u - K_uv / jnp.maximum(K_uu, TINY) * cross
    return jnp.where(sigma_u > 1e-2, stein, plain), error


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _outer_integral(
    phi: Nonlinearity, d: int, by_x: bool, psi: Nonlinearity, e: int, *arguments: Reals
) -> tuple[Reals, Float[Array, ""]]:
    """E φ⁽ᵈ⁾(u)ψ⁽ᵉ⁾(v), or with another factor x = (u − m_u)/σ_u, u being integrated outside."""
    law = pair_law(*arguments)
    f = derivative(phi.function, d)
    if by_x:
        sigma_u = jnp.maximum(law.sigma_u, integrals.SMALL)
        return _almost_everywhere(phi, lambda u: f(u) * (u - law.m_u) / sigma_u, psi, e, law)
    value, error = _almost_everywhere(phi, f, psi, e, law)
    return value + integrals.at_kinks(phi, d, psi, e, law), error


def _outer_is_second(phi: Nonlinearity, d: int, psi: Nonlinearity, e: int) -> bool:
    """Is ψ to be integrated outside and φ inside?"""
    if d != e and (phi.kinks != () or psi.kinks != ()):
        return bool(e > d and psi.kinks != ())
    if d == e == 0 and phi.kinks == () and psi.kinks:
        return False
    if d == e == 0 and phi.kinks and psi.kinks == ():
        return True
    jumps = [any(kink.jump for kink in p.kinks or ()) for p in (phi, psi)]
    if d == e == 1 and jumps[0] != jumps[1]:
        return jumps[1]
    return psi.mean is None and phi.mean is not None


def _almost_everywhere(phi: Nonlinearity, f: Any, psi: Nonlinearity, e: int, law: Pair) -> tuple[Reals, Reals]:
    """E f(u)ψ⁽ᵉ⁾(v) without delta functions, f having the kinks of φ."""
    if phi.mean is None and psi.mean is None:
        return integrals.adaptive(phi, f, psi, e, law)
    if any(p.kinks is None or p in (sin, cos) for p in (phi, psi)):
        of_u = integrals.rms(phi, f, law.m_u, law.sigma_u**2)
        of_v = integrals.rms(psi, derivative(psi.function, e), law.m_v, law.sigma_v**2)
        return integrals.estimated(phi, f, psi, e, law, of_u * of_v)
    return integrals.nested(phi, f, psi, e, law), jnp.zeros(())


def _warn(name: str, error: Any) -> None:
    """Say so where a function of which nothing is known was not integrated to `WARN_ABOVE`."""
    if not is_traced(error) and float(error) > WARN_ABOVE:
        warnings.warn(
            f"the Gaussian moment of {name} has a relative error of about {float(error):.1g}: "
            "is the function smooth on a length scale of order 1, and does it grow slower than exp(x²/4σ²)?",
            stacklevel=3,
        )
