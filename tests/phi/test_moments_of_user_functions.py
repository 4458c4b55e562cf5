"""Functions of which nothing is known: quadrature, its warnings, and its calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import phi as ll
from limitlaw.phi import moments


def user(f):
    return ll.user_function(lambda x: f(x))


CORRELATIONS = np.array([0.0, 0.5, -0.5, 1 - 1e-8, -(1 - 1e-8), 1.0, -1.0])
MODERATE = ([1e-6, 1.0, 1e-6], [1e-6, 1.0, 1.0])
LARGE = ([1e6, 1e-6, 1.0], [1e6, 1e6, 1e6])


@pytest.mark.parametrize(
    ("name", "variances"), [("tanh", MODERATE), ("silu", LARGE), ("relu", LARGE)]
)
def test_like_the_named(name, variances):
    phi = getattr(ll, name)
    K_uu, K_vv = np.array(variances)[..., None]
    K_uv = CORRELATIONS * np.sqrt(K_uu * K_vv)
    scale = np.sqrt(
        np.prod([moments.product(phi, phi, None, None, k, k, k) for k in (K_uu, K_vv)], axis=0)
    )
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
    np.testing.assert_allclose(
        moments.product(tanh, ll.relu, 0.2, -0.1, 1.2, K_uv, 1.2), expected, atol=1e-12
    )
    np.testing.assert_allclose(
        moments.product(ll.relu, tanh, -0.1, 0.2, 1.2, K_uv, 1.2), expected, atol=1e-12
    )


def test_exponential():
    """E e^u e^v = e^{(K_uu + K_vv)/2 + K_uv}, though the mass is far out."""
    exp = user(jnp.exp)
    np.testing.assert_allclose(
        moments.product(exp, exp, None, None, 1.0, 0.5, 2.0), np.exp(2.0), rtol=1e-10
    )
    np.testing.assert_allclose(moments.mean(exp, 0.5, 2.0), np.exp(1.5), rtol=1e-12)


def test_warnings():
    """Where an integral fails for lack of knowledge;
    not where kinks are known, nor for an error that is small.
    """
    step = lambda x: jnp.where(x > 0.3, 1.0, 0.0)
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.mean(user(step), 0.0, 1.0)
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.product(user(step), user(step), None, None, 1.0, 0.5, 1.0)
    with pytest.warns(UserWarning, match="relative error of about"):
        moments.product(ll.sin, ll.tanh, None, None, 1e6, 1e6, 1e6)
    with pytest.warns(UserWarning, match="relative error of about inf"):
        moments.mean(user(jnp.exp), 0.0, 1e4)
    known = ll.looked_at(step)
    moments.mean(known, 0.0, 1.0)
    moments.product(known, known, None, None, 1.0, 0.5, 1.0)
    weak = user(lambda x: jnp.tanh(x) + 1e-5 * jnp.abs(x - 0.3))
    assert 1e-9 < moments.mean_with_error(weak, 0.5, 1.0)[1] < 1e-5


def test_looked_at():
    """Kinks found or declared; a function that jumps is not pseudo-Lipschitz,
    and whether others are is not known.
    """
    step, ramp = (lambda x: jnp.where(x > 0.3, 1.0, 0.0)), (lambda x: jnp.maximum(x - 0.3, 0))
    assert ll.looked_at(step).kinks == (ll.Kink(0.3, jump=1.0),)
    assert ll.looked_at(step).pseudo_lipschitz is False
    assert ll.looked_at(step, (0.3,)).pseudo_lipschitz is False
    assert ll.looked_at(ramp).kinks == (ll.Kink(0.3, slope_jump=1.0),)
    assert ll.looked_at(ramp).pseudo_lipschitz is None
    assert ll.looked_at(jnp.tanh).kinks == () == ll.looked_at(ramp, ()).kinks
    assert ll.looked_at(lambda x: 1 / x).kinks is None
    assert ll.looked_at(ll.relu) is ll.relu
    assert ll.looked_at(ramp) == ll.looked_at(ramp)
    calls = []

    def counted(x):
        calls.append(x.shape)
        return jnp.tanh(x)

    ll.looked_at(counted)
    before = len(calls)
    ll.looked_at(counted)
    assert len(calls) == before > 0

    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return jnp.maximum(x - 0.3, 0)

    assert ll.looked_at(Unhashable()).kinks == (ll.Kink(0.3, slope_jump=1.0),)


def test_looked_at_under_jit():
    """What closes over traced values cannot be looked at:
    nothing is known, but what is declared is used.
    """
    expected = moments.mean(ll.relu, -0.3, 1.0)

    @jax.jit
    def traced(a):
        unknown = ll.looked_at(lambda x: jnp.maximum(x - a, 0))
        assert unknown.kinks is unknown.cuts is None
        assert ll.looked_at(lambda x: jnp.tanh(a * x), ()).kinks == ()
        declared = ll.looked_at(lambda x: jnp.maximum(x - a, 0), (0.3,))
        return moments.mean_with_error(unknown, 0.0, 1.0), moments.mean_with_error(
            declared, 0.0, 1.0
        )

    (rough, error), (value, small) = traced(0.3)
    assert 1e-9 < abs(rough - expected) < 5 * error < 1e-2
    assert abs(value - expected) < 1e-15
    assert small < 1e-7  # that of a function which may have other kinks


def test_parameters_broadcast():
    """A function may hold arrays of the elementwise shape: node axes stand in front."""
    a = jnp.asarray([[0.5, 1.0, 2.0]])
    phi = ll.user_function(lambda x: jnp.tanh(a * x))
    K_uu, K_uv, K_vv = (
        jnp.asarray([[0.4], [0.9]]),
        jnp.asarray([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]),
        jnp.ones((1, 3)),
    )
    expected = moments.product(ll.tanh, ll.tanh, None, None, a**2 * K_uu, a**2 * K_uv, a**2 * K_vv)
    np.testing.assert_allclose(
        moments.product(phi, phi, None, None, K_uu, K_uv, K_vv), expected, atol=1e-12
    )

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
        product=lambda m_u, m_v, K_uu, K_uv, K_vv: (
            K_uu * K_vv + 2 * K_uv**2 if m_u is None and m_v is None else None
        ),
    )
    assert moments.product(square, square, None, None, 2.0, 1.0, 3.0) == 8.0
    plain = user(jnp.square)
    for other in (ll.relu, plain):
        computed = moments.product(square, other, 0.3, -0.1, 2.0, 1.0, 3.0)
        np.testing.assert_allclose(
            computed, moments.product(plain, other, 0.3, -0.1, 2.0, 1.0, 3.0), rtol=1e-11
        )


def test_narrow_peak():
    """A smooth peak between the nodes of every grid: E φ(u)² = a²ε √(π/2) p(c), ε its width."""
    a, c, width = 50.0, 0.33, 1e-3
    peak = ll.looked_at(lambda x: a * jnp.exp(-(((x - c) / width) ** 2)))
    K = np.array(1.0)
    p = np.exp(-(c**2) / 2) / np.sqrt(2 * np.pi)
    expected = a**2 * width * np.sqrt(np.pi / 2) * p
    computed = moments.product(peak, peak, None, None, K, K, K)
    np.testing.assert_allclose(computed, expected, rtol=1e-6)  # p varies over the peak
