"""Derivatives of Gaussian moments: finite differences inside,
closed forms at correlation ±1 and on the diagonal.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import phi as ll
from limitlaw.phi import moments

SOFT_RELU = ll.user_function(lambda x: jax.nn.softplus(x) - 0.1 * jnp.cos(x))
USER_RELU = ll.user_function(lambda x: jnp.maximum(x, 0.0))
FUNCTIONS = {
    **{
        name: getattr(ll, name)
        for name in ("identity", "relu", "abs_", "sign", "erf", "gelu", "tanh", "sigmoid")
    },
    **{name: getattr(ll, name) for name in ("silu", "softplus", "sin", "cos")},
    "leaky_relu": ll.leaky_relu(0.1),
    "clip": ll.clip(1.0),
    "user": SOFT_RELU,
}
PAIRS = [
    (name, name)
    for name in FUNCTIONS
    if name not in ("identity", "cos", "sigmoid", "abs_", "user")
] + [
    ("relu", "tanh"),
    ("sign", "relu"),
    ("user", "relu"),
    ("identity", "sign"),
]


H = 1e-3
STENCIL = np.array([-2, -1, 1, 2]) * H
WEIGHTS = np.array([1, -8, 8, -1]) / (12 * H)


def differences(f, points, directions):
    """Derivatives of f at points (or one point) along directions,
    by central differences of order 4 in one call.
    """
    directions = np.asarray(directions, float)
    points = np.asarray(points, float) + STENCIL[:, None, None] * directions
    return WEIGHTS @ np.asarray(jax.jit(f)(*np.moveaxis(points, -1, 0)))


def gradients(f, points):
    """The gradient of the elementwise f at each of the points, one row each."""
    columns = jnp.asarray(points, float).T
    return np.asarray(jax.jit(jax.grad(lambda c: f(*c).sum()))(columns)).T


REGULAR = (0.9, 0.4, 1.7)


@pytest.mark.parametrize(("phi", "psi"), PAIRS)
def test_in_the_covariance(phi, psi):
    """At a regular covariance every derivative; at correlation ±1 the total one
    along K_uu = ±K_uv = K_vv.
    """
    f, g = FUNCTIONS[phi], FUNCTIONS[psi]

    def value(*K):
        return moments.product(f, g, None, None, *K)

    points = [REGULAR, (1.3, 1.3, 1.3), (1.3, -1.3, 1.3)]
    computed = gradients(value, points)
    directions = [*np.eye(3), [1, 1, 1], [1, -1, 1]]
    expected = differences(value, [points[0]] * 3 + points[1:], directions)
    np.testing.assert_allclose(computed[0], expected[:3], atol=3e-9)
    if (phi, psi) != ("sign", "sign"):
        assert np.isfinite(computed).all()
        np.testing.assert_allclose(
            [computed[1].sum(), computed[2] @ [1, -1, 1]], expected[3:], atol=3e-9
        )


@pytest.mark.parametrize(
    ("phi", "psi"),
    [("relu", "relu"), ("tanh", "tanh"), ("sin", "sin"), ("sign", "relu")],
)
def test_with_means(phi, psi):
    f, g = FUNCTIONS[phi], FUNCTIONS[psi]

    def value(*arguments):
        return moments.product(f, g, *arguments)

    point = (0.3, -0.2, *REGULAR)
    np.testing.assert_allclose(
        gradients(value, [point])[0], differences(value, point, np.eye(5)), atol=3e-9
    )


def test_the_diagonal_as_one_entry():
    """The same traced entry three times."""
    for phi in (ll.relu, ll.clip(1.0)):

        def diagonal(k, phi=phi):
            return moments.product(phi, phi, None, None, k, k, k)

        np.testing.assert_allclose(
            jax.jit(jax.grad(diagonal))(1.3), differences(diagonal, (1.3,), [[1.0]])[0], atol=3e-9
        )


@pytest.mark.parametrize("phi", [ll.relu, USER_RELU])
def test_relu_at_correlation_one(phi):
    """(π − θ)/2π: ½ at θ = 0 and 0 at θ = π; ∂/∂K_uu = √det/4πK_uu = 0."""
    points = [(2.0, 2.0, 2.0), (2.0, -2.0, 2.0), (1.0, 0.0, 1.0)]
    computed = gradients(lambda *K: moments.product(phi, phi, None, None, *K), points)
    quarter = 1 / (4 * np.pi)
    np.testing.assert_allclose(
        computed, [[0, 0.5, 0], [0, 0, 0], [quarter, 0.25, quarter]], atol=1e-9
    )


@pytest.mark.parametrize("name", ["erf", "gelu", "tanh", "silu", "softplus", "sin"])
def test_smooth_at_correlation_one(name):
    """½E φ''(u)φ(v), E φ'(u)φ'(v), ½E φ(u)φ''(v) for v = ±u by the trapezoidal rule."""
    phi, k = FUNCTIONS[name], 1.3
    x = jnp.arange(-9, 9.01, 0.05)
    w = 0.05 * jnp.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    first = jax.vmap(jax.grad(phi.function))
    second = jax.vmap(jax.grad(jax.grad(phi.function)))
    expected = []
    for sign in (1, -1):
        u, v = np.sqrt(k) * x, sign * np.sqrt(k) * x
        expected.append(
            [
                0.5 * w @ (second(u) * phi(v)),
                w @ (first(u) * first(v)),
                0.5 * w @ (phi(u) * second(v)),
            ]
        )
    computed = gradients(
        lambda *K: moments.product(phi, phi, None, None, *K), [(k, k, k), (k, -k, k)]
    )
    np.testing.assert_allclose(computed, expected, atol=1e-12)


def test_clip_at_correlation_one():
    """E φ'φ' = P(|u| ≤ 1), ½E φ''φ = −½·2·density at 1."""
    gradient = jax.grad(
        lambda *K: moments.product(ll.clip(1.0), ll.clip(1.0), None, None, *K), argnums=(0, 1, 2)
    )
    erf, density = jax.scipy.special.erf(1 / np.sqrt(4.0)), np.exp(-1 / 4) / np.sqrt(4 * np.pi)
    np.testing.assert_allclose(gradient(2.0, 2.0, 2.0), [-density, erf, -density], atol=1e-12)


@pytest.mark.parametrize("name", ["relu", "sign", "gelu", "tanh", "silu", "sin", "clip"])
def test_slope_is_the_derivative_of_the_mean(name):
    phi = FUNCTIONS[name]
    m, k = 0.3, 1.7
    dm, dk = jax.jit(jax.grad(lambda m, k: moments.mean(phi, m, k), argnums=(0, 1)))(m, k)
    numeric = differences(lambda m, k: moments.mean(phi, m, k), (m, k), np.eye(2))
    np.testing.assert_allclose([dm, dk], numeric, atol=1e-10)
    np.testing.assert_allclose(moments.slope(phi, m, k), dm, rtol=1e-13)


def test_second_derivatives_of_relu():
    """∂²/∂K_uv² E relu relu = 1/(2π√det)."""
    second = jax.grad(
        jax.grad(lambda c: moments.product(ll.relu, ll.relu, None, None, 1.0, c, 1.0))
    )(0.6)
    np.testing.assert_allclose(second, 1 / (2 * np.pi * 0.8), rtol=1e-12)
