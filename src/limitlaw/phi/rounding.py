"""Errors of closed forms: what φ states, or what rounding leaves of a form that cancels."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.domain import VARIANCES
from limitlaw.numerics import Reals
from limitlaw.phi.nonlinearity import Nonlinearity

# points m + jσ/2¹⁰, of which differences of order 6 leave 2⁻⁶⁰ of what is smooth on the scale σ
STENCIL, DIFFERENCES = np.arange(-4.0, 5.0) / 2**10, 6
NORM_OF_DIFFERENCE = math.sqrt(
    math.comb(2 * DIFFERENCES, DIFFERENCES)
)  # of the coefficients of a difference
# where a closed form is tried, means in standard deviations; and what it may lose of its size
MEANS_TRIED = np.array([-5.0, -2.0, -0.5, 0.0, 0.5, 2.0, 5.0])
DEVIATIONS_TRIED = np.array([0.1, 1.0, 10.0])
DIGITS_LOST = 1e-12

MeanForm = Callable[[Reals, Reals], Reals]


def mean_form(phi: Nonlinearity, d: int) -> MeanForm:
    """The closed form of E φ⁽ᵈ⁾(u), u ~ N(m, k): that of E φ(u), differentiated in m."""
    found = phi.mean
    assert found is not None
    for _ in range(d):
        found = _slope(found)
    return found


def _slope(f: MeanForm) -> MeanForm:
    return lambda m, k: jax.jvp(lambda m: f(m, k), (m,), (jnp.ones_like(m),))[1]


def is_exact(phi: Nonlinearity) -> bool:
    """Has φ closed forms of E φ(u) and E φ'(u) that are right but for a last digit or so?"""
    if phi.mean is None or phi.accuracy:
        return False
    return phi.accuracy == 0 or _keeps_digits(phi)


def error_of_mean(phi: Nonlinearity, d: int, m: Reals, k: Reals, value: Reals) -> Reals:
    """The error of the closed form of E φ⁽ᵈ⁾(u), which is `value`."""
    error = (1 + 2 * d) * (phi.accuracy or 0.0) * jnp.abs(value)
    if phi.accuracy is None and not _keeps_digits(phi):
        error = error + rounding(mean_form(phi, d), m, k)
    return error


def rounding(f: MeanForm, m: Reals, k: Reals) -> Reals:
    """The rounding of f(m, k), smooth in m on the scale √k: what differences of high order are
    made of, over their norm (Moré and Wild 2011).
    """
    m, k = jnp.broadcast_arrays(m, k)
    x = m + jnp.sqrt(jnp.maximum(k, VARIANCES[0])) * STENCIL.reshape(-1, *[1] * m.ndim)
    left = jnp.diff(f(x, jnp.broadcast_to(k, x.shape)), DIFFERENCES, axis=0)
    return jnp.sqrt(jnp.mean(left**2, axis=0)) / NORM_OF_DIFFERENCE


@functools.lru_cache(maxsize=256)
def _keeps_digits(phi: Nonlinearity) -> bool:
    """Does rounding leave 12 digits of E φ(u) and E φ'(u)?"""

    @jax.jit
    def too_much() -> Reals:
        m, k = (
            jnp.asarray(MEANS_TRIED[:, None] * DEVIATIONS_TRIED),
            jnp.asarray(DEVIATIONS_TRIED**2),
        )
        k = jnp.broadcast_to(k, m.shape)
        worst = [
            jnp.max(rounding(f, m, k) - DIGITS_LOST * jnp.max(jnp.abs(f(m, k)), axis=0))
            for f in (mean_form(phi, 0), mean_form(phi, 1))
        ]
        return jnp.max(jnp.stack(worst))

    with jax.ensure_compile_time_eval():
        found = too_much()
    return is_traced(found) or not float(found) > 0
