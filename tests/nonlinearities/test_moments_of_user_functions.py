"""Functions of which nothing is known: quadrature, its warnings, and its calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import nonlinearities as ll
from limitlaw.nonlinearities import moments


def user(f):
    return ll.user_function(lambda x: f(x))


CORRELATIONS = np.array([0.0, 0.5, -0.5, 1 - 1e-8, -(1 - 1e-8), 1.0, -1.0])
MODERATE = ([1e-6, 1.0, 1e-6], [1e-6, 1.0, 1.0])
LARGE = ([1e6, 1e-6, 1.0], [1e6, 1e6, 1e6])


@pytest.mark.parametrize(("name", "variances"), [("tanh", MODERATE), ("silu", LARGE), ("relu", LARGE)])
def test_like_the_named(name, variances):
    phi = getattr(ll, name)
    K_uu, K_vv = np.array(variances)[..., None]
    K_uv = CORRELATIONS * np.sqrt(K_uu * K_vv)
    scale = np.sqrt(np.prod([moments.product(phi, phi, None, None, k, k, k) for k in (K_uu, K_vv)], axis=0))
    computed = moments.product(user(phi), user(phi), None, None, K_uu, K_uv, K_vv)
    expected = moments.product(phi, phi, None, None, K_uu, K_uv, K_vv)
    assert (np.abs(computed - expected) / scale).max() < 1e-10


@pytest.mark.parametrize("name", ["relu"])
def test_means_like_the_named(name):
    phi = getattr(ll, name)
    m, k = np.array([0.0, 0.7, -3.0])[:, None], np.array([0.0, 1e-6, 1.0, 1e6])
    np.testing.assert_allclose(moments.mean(user(phi), m, k), moments.mean(phi, m, k), atol=1e-11)
    keep = slice(None) if name != "relu" else slice(1, None)  # relu' at 0 itself is a convention
    slopes = (moments.slope(p, m, k)[:, keep] for p in (user(phi), phi))
    np.testing.assert_allclose(*slopes, atol=1e-11)


def test_with_a_named_one():
    """One closed mean inside is enough."""
    K_uv = np.array([0.3, 1.2, -1.2])
    expected = moments.product(ll.tanh, ll.relu, 0.2, -0.1, 1.2, K_uv, 1.2)
    tanh = user(ll.tanh)
    np.testing.assert_allclose(moments.product(tanh, ll.relu, 0.2, -0.1, 1.2, K_uv, 1.2), expected, atol=1e-12)
    np.testing.assert_allclose(moments.product(ll.relu, tanh, -0.1, 0.2, 1.2, K_uv, 1.2), expected, atol=1e-12)


def test_exponential():
    """E e^u e^v = e^{(K_uu + K_vv)/2 + K_uv}, though the mass is far out."""
    exp = user(jnp.exp)
    np.testing.assert_allclose(moments.product(exp, exp, None, None, 1.0, 0.5, 2.0), np.exp(2.0), rtol=1e-10)
    np.testing.assert_allclose(moments.mean(exp, 0.5, 2.0), np.exp(1.5), rtol=1e-12)


def test_warnings():
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.mean(user(lambda x: jnp.where(x > 0.3, 1.0, 0.0)), 0.0, 1.0)
    step = user(lambda x: jnp.where(x > 0.3, 1.0, 0.0))
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.product(step, step, None, None, 1.0, 0.5, 1.0)
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.product(ll.sin, ll.tanh, None, None, 1e6, 1e6, 1e6)


def test_parameters_broadcast():
    """A function may hold arrays of the elementwise shape: node axes stand in front."""
    a = jnp.asarray([[0.5, 1.0, 2.0]])
    phi = ll.user_function(lambda x: jnp.tanh(a * x))
    K_uu, K_uv, K_vv = jnp.asarray([[0.4], [0.9]]), jnp.asarray([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]), jnp.ones((1, 3))
    expected = moments.product(ll.tanh, ll.tanh, None, None, a**2 * K_uu, a**2 * K_uv, a**2 * K_vv)
    np.testing.assert_allclose(moments.product(phi, phi, None, None, K_uu, K_uv, K_vv), expected, atol=1e-12)

    @jax.jit
    def traced(a):
        phi = ll.user_function(lambda x: jnp.tanh(a * x))
        return moments.product(phi, phi, None, None, K_uu, K_uv, K_vv)

    np.testing.assert_allclose(traced(a), expected, atol=1e-12)


def test_own_closed_form():
    """A user's own mean and product are used: here of x²."""
    square = ll.Nonlinearity(
        "square",
        jnp.square,
        True,
        False,
        kinks=(),
        mean=lambda m, k: m**2 + k,
        product=lambda m_u, m_v, K_uu, K_uv, K_vv: K_uu * K_vv + 2 * K_uv**2 if m_u is None and m_v is None else None,
    )
    assert moments.product(square, square, None, None, 2.0, 1.0, 3.0) == 8.0
    plain = user(jnp.square)
    for other in (ll.relu, plain):
        computed = moments.product(square, other, 0.3, -0.1, 2.0, 1.0, 3.0)
        np.testing.assert_allclose(computed, moments.product(plain, other, 0.3, -0.1, 2.0, 1.0, 3.0), rtol=1e-11)
