"""The complex error function against mpmath."""

import jax.numpy as jnp
import mpmath
import numpy as np

from limitlaw.numerics.special_functions import faddeeva, half_line


def exact(z: complex) -> complex:
    with mpmath.workdps(40):
        return complex(mpmath.exp(-(mpmath.mpc(z) ** 2)) * mpmath.erfc(-1j * mpmath.mpc(z)))


def test_all_scales() -> None:
    rng = np.random.default_rng(0)
    x, y = 10 ** rng.uniform([[-12], [-15]], [[2.5], [2.5]], (2, 150))
    z = np.concatenate(
        [rng.choice([-1, 1], 150) * x + 1j * y, x[:50], 1j * y[:50], np.arange(24) * 0.2558, [0]]
    )
    wanted = np.array([exact(value) for value in z])
    np.testing.assert_allclose(faddeeva(jnp.asarray(z)), wanted, rtol=5e-15)


def test_far_out() -> None:
    """i/(√π z) to the first order."""
    z = np.array([1e9 + 1j, -3e40 + 1e39j, 1e90j])
    np.testing.assert_allclose(faddeeva(jnp.asarray(z)), 1j / (np.sqrt(np.pi) * z), rtol=1e-14)


def test_half_line() -> None:
    """Its integral, and what stays of it at τ = 0: the tail of a normal law."""
    u, tau = 0.7, 2.3
    with mpmath.workdps(30):
        wanted = mpmath.quad(
            lambda z: mpmath.exp(1j * tau * (z - u)) * mpmath.npdf(z), [u, 2, 4, 8, 12, 20]
        )
        tail = mpmath.ncdf(-9)
    np.testing.assert_allclose(
        half_line(jnp.array(u), jnp.array(tau)), complex(wanted), rtol=1e-14
    )
    np.testing.assert_allclose(
        half_line(jnp.array(9.0), jnp.array(0.0)), complex(tail), rtol=1e-14
    )
    assert half_line(jnp.array(1e200), jnp.array(1.0)) == 0
