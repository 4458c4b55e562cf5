"""Gaussian moments of nonlinearities: E φ(u), E φ'(u) and E φ(u)ψ(v), elementwise over arrays that
broadcast.

Means given as None or as the Python number 0 are known to be zero, and closed forms apply.
Otherwise, and for pairs without a closed form, the integral is over panels cut at the places where
φ and ψ are not smooth. The functions `…_with_error` give a value and its error, elementwise and
absolute, 0 for closed forms: rounding is not counted. Where a function of which nothing is known
is not integrated at all, as for lack of a second moment, there is a warning. A function is called
with node axes in front of the elementwise shape, must be pure, and may close over arrays that
`jax.jit` or `jax.vmap` trace; derivatives in such arrays are not supported. Everything may be
traced and differentiated in the means and covariances; errors are not differentiated.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from limitlaw.numerics import Reals
from limitlaw.numerics.gaussian_quadrature import FULL_ERROR, ValueAndError
from limitlaw.phi import numeric
from limitlaw.phi.nonlinearity import Centre, Nonlinearity, PairMoment
from limitlaw.phi.rounding import error_of_mean, is_exact, mean_form

GivenMean = ArrayLike | None  # a mean, as a caller may give it


def mean(phi: Nonlinearity, m: GivenMean, k: ArrayLike) -> Reals:
    """E φ(u), u ~ N(m, k)."""
    m, k = jnp.asarray(0.0 if m is None else m, float), jnp.asarray(k, float)
    if phi.mean is not None:
        return phi.mean(m, k)
    return numeric.mean(_hashable(phi), 0, *jnp.broadcast_arrays(m, k))


def slope(phi: Nonlinearity, m: GivenMean, k: ArrayLike) -> Reals:
    """E φ'(u) = E φ(u)(u − m)/k (Stein), u ~ N(m, k); φ' has a delta where φ jumps."""
    m, k = jnp.broadcast_arrays(jnp.asarray(0.0 if m is None else m, float), jnp.asarray(k, float))
    if phi.mean is not None:
        return mean_form(phi, 1)(m, k)
    return numeric.mean(_hashable(phi), 1, m, k)


def product(
    phi: Nonlinearity,
    psi: Nonlinearity,
    m_u: GivenMean,
    m_v: GivenMean,
    K_uu: ArrayLike,
    K_uv: ArrayLike,
    K_vv: ArrayLike,
) -> Reals:
    """E φ(u)ψ(v), (u, v) Gaussian with means (m_u, m_v) and covariance [[K_uu, K_uv], [K_uv,
    K_vv]], which may be singular to rounding.
    """
    m_u, m_v = _known_zero(m_u), _known_zero(m_v)
    K_uu, K_uv, K_vv = (jnp.asarray(K, float) for K in (K_uu, K_uv, K_vv))
    if phi.kinks or psi.kinks:
        K_uv = _within(K_uu, K_uv, K_vv)
    closed = _closed_product(phi, psi, m_u, m_v, K_uu, K_uv, K_vv)
    m_u, m_v = (jnp.zeros(()) if m is None else m for m in (m_u, m_v))
    if closed is not None:
        shapes = (a.shape for a in (m_u, m_v, K_uu, K_uv, K_vv))
        return jnp.broadcast_to(closed, jnp.broadcast_shapes(*shapes))
    return numeric.product(_hashable(phi), _hashable(psi), m_u, m_v, K_uu, K_uv, K_vv)


def mean_with_error(phi: Nonlinearity, m: GivenMean, k: ArrayLike) -> ValueAndError:
    """E φ(u), as `mean`, and its error."""
    return _first_with_error(mean, phi, 0, m, k)


def slope_with_error(phi: Nonlinearity, m: GivenMean, k: ArrayLike) -> ValueAndError:
    """E φ'(u), as `slope`, and its error."""
    return _first_with_error(slope, phi, 1, m, k)


def _first_with_error(
    moment: Callable[[Nonlinearity, GivenMean, ArrayLike], Reals],
    phi: Nonlinearity,
    d: int,
    m: GivenMean,
    k: ArrayLike,
) -> ValueAndError:
    value = moment(phi, m, k)
    fixed, m, k = _fixed(value, 0.0 if m is None else m, k)
    if phi.mean is not None:
        return value, error_of_mean(_hashable(phi), d, m, k, fixed)
    return value, numeric.mean_and_error(_hashable(phi), d, *jnp.broadcast_arrays(m, k))[1]


def product_with_error(
    phi: Nonlinearity,
    psi: Nonlinearity,
    m_u: GivenMean,
    m_v: GivenMean,
    K_uu: ArrayLike,
    K_uv: ArrayLike,
    K_vv: ArrayLike,
) -> ValueAndError:
    """E φ(u)ψ(v), as `product`, and its error."""
    value = product(phi, psi, m_u, m_v, K_uu, K_uv, K_vv)
    m_u, m_v = _known_zero(m_u), _known_zero(m_v)
    if phi != psi and (phi.linear or psi.linear):
        other, m, k, m_linear = (psi, m_v, K_vv, m_u) if phi.linear else (phi, m_u, K_uu, m_v)
        error = jnp.abs(_fixed(K_uv)[0]) * slope_with_error(other, m, k)[1]
        if m_linear is not None:
            error = error + jnp.abs(_fixed(m_linear)[0]) * mean_with_error(other, m, k)[1]
        return value, jnp.broadcast_to(error, value.shape)
    K_uu, K_uv, K_vv = _fixed(K_uu, K_uv, K_vv)
    if _closed_product(phi, psi, m_u, m_v, K_uu, K_uv, K_vv) is not None:
        accuracy = (phi.accuracy or 0.0) + (psi.accuracy or 0.0)
        return value, accuracy * jnp.abs(jax.lax.stop_gradient(value))
    means = _fixed(*(0.0 if m is None else m for m in (m_u, m_v)))
    arguments = *means, K_uu, _within(K_uu, K_uv, K_vv), K_vv
    phi, psi = _hashable(phi), _hashable(psi)
    return value, numeric.moment_and_error(phi, 0, psi, 0, FULL_ERROR, *arguments)[1]


def _fixed(*arguments: ArrayLike) -> list[Reals]:
    """Arrays that are not differentiated."""
    return [jax.lax.stop_gradient(jnp.asarray(a, float)) for a in arguments]


def mean_is_closed(phi: Nonlinearity) -> bool:
    """Are `mean` and `slope` of φ closed forms, which keep their digits?"""
    return is_exact(_hashable(phi))


def product_is_closed(
    phi: Nonlinearity, psi: Nonlinearity, m_u: GivenMean, m_v: GivenMean
) -> bool:
    """Is `product` of φ and ψ with these means a closed form?"""
    if phi.accuracy or psi.accuracy:
        return False
    if phi != psi:
        means = phi.linear or psi.linear  # the product is a matter of means then
        closed = means and mean_is_closed(phi) and mean_is_closed(psi)
        return closed or _cross_product(phi, psi) is not None
    centred = (_known_zero(m) is None for m in (m_u, m_v))
    return phi.product is not None and _has_product(_hashable(phi), *centred)


@functools.lru_cache(maxsize=256)
def _has_product(phi: Nonlinearity, u_is_centred: bool, v_is_centred: bool) -> bool:
    """Does φ.product give a closed form for means of this kind?"""
    product = phi.product
    assert product is not None
    m_u, m_v = (None if centred else jnp.zeros(()) for centred in (u_is_centred, v_is_centred))
    return jax.eval_shape(lambda: product(m_u, m_v, *jnp.ones(3))) is not None


def _within(K_uu: Reals, K_uv: Reals, K_vv: Reals) -> Reals:
    """K_uv, or ±√(K_uu K_vv) where it is larger by more than rounding (single precision)."""
    bound = jax.lax.stop_gradient(jnp.sqrt(K_uu) * jnp.sqrt(K_vv))
    return jnp.where(jnp.abs(K_uv) > bound * (1 + 1e-12), jnp.sign(K_uv) * bound, K_uv)


def _known_zero(m: GivenMean) -> Centre:
    """None for a mean that is statically zero, else an array."""
    if m is None or (isinstance(m, int | float) and m == 0):
        return None
    return jnp.asarray(m, float)


def _closed_product(
    phi: Nonlinearity,
    psi: Nonlinearity,
    m_u: Centre,
    m_v: Centre,
    K_uu: Reals,
    K_uv: Reals,
    K_vv: Reals,
) -> Reals | None:
    """The closed form of E φ(u)ψ(v), or None."""
    if phi == psi:
        return None if phi.product is None else phi.product(m_u, m_v, K_uu, K_uv, K_vv)
    if phi.linear or psi.linear:
        other, m, k, m_linear = (psi, m_v, K_vv, m_u) if phi.linear else (phi, m_u, K_uu, m_v)
        value = K_uv * slope(other, m, k)
        return value if m_linear is None else value + m_linear * mean(other, m, k)
    cross = _cross_product(phi, psi)
    return None if cross is None else cross(m_u, m_v, K_uu, K_uv, K_vv)


def _cross_product(phi: Nonlinearity, psi: Nonlinearity) -> PairMoment | None:
    """The closed form of E φ(u)ψ(v) that φ knows for ψ, or ψ for φ."""
    for other, product in phi.products:
        if other == psi:
            return product
    for other, product in psi.products:
        if other == phi:
            return _exchanged(product)
    return None


def _exchanged(product: PairMoment) -> PairMoment:
    """The closed form of E φ(u)ψ(v) from that of E ψ(u)φ(v)."""
    return lambda m_u, m_v, K_uu, K_uv, K_vv: product(m_v, m_u, K_vv, K_uv, K_uu)


def _hashable(phi: Nonlinearity) -> Nonlinearity:
    """φ itself, or φ with its function wrapped where that cannot be hashed."""
    try:
        hash(phi)
    except TypeError:
        function = phi.function
        return dataclasses.replace(phi, function=lambda x: function(x))
    return phi
