"""Derivatives of Gaussian moments: finite differences inside, closed forms at correlation ±1 and on the diagonal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import nonlinearities as ll
from limitlaw.nonlinearities import moments

SOFT_RELU = ll.user_function(lambda x: jax.nn.softplus(x) - 0.1 * jnp.cos(x))
USER_RELU = ll.user_function(lambda x: jnp.maximum(x, 0.0))
FUNCTIONS = {
    **{name: getattr(ll, name) for name in ("identity", "relu", "abs_", "sign", "erf", "gelu", "tanh", "sigmoid")},
    **{name: getattr(ll, name) for name in ("silu", "softplus", "sin", "cos")},
    "leaky_relu": ll.leaky_relu(0.1),
    "clip": ll.clip(1.0),
    "user": SOFT_RELU,
    "user relu": USER_RELU,
}
PAIRS = [(name, name) for name in FUNCTIONS] + [
    ("relu", "tanh"),
    ("sign", "relu"),
    ("sign", "gelu"),
    ("clip", "erf"),
    ("user", "relu"),
    ("identity", "sign"),
]


def differences(f, arguments, h=1e-3):
    """Central differences of order 4."""
    result = []
    for i in range(len(arguments)):
        e = h * np.eye(len(arguments))[i]
        at = [float(f(*(np.array(arguments) + c * e))) for c in (-2, -1, 1, 2)]
        result.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h))
    return np.array(result)


@pytest.mark.parametrize(("phi", "psi"), PAIRS)
def test_inside(phi, psi):
    """At a regular covariance, with means and without; for every argument."""
    f, g = FUNCTIONS[phi], FUNCTIONS[psi]
    K = (0.9, 0.4, 1.7)

    def centred(*K):
        return moments.product(f, g, None, None, *K)

    def shifted(*arguments):
        return moments.product(f, g, *arguments)

    gradient = jax.jit(jax.grad(centred, argnums=(0, 1, 2)))(*K)
    np.testing.assert_allclose(gradient, differences(jax.jit(centred), K), atol=3e-9)
    if (phi, psi) not in (("user", "user"), ("user relu", "user relu")):
        arguments = (0.3, -0.2, *K)
        gradient = jax.jit(jax.grad(shifted, argnums=(0, 1, 2, 3, 4)))(*arguments)
        np.testing.assert_allclose(gradient, differences(jax.jit(shifted), arguments), atol=3e-9)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "sign"])
@pytest.mark.parametrize("sign", [1, -1])
def test_at_correlation_one(name, sign):
    """∂/∂K_uv = E φ'(u)φ'(v), ∂/∂K_uu = ½ E φ''(u)φ(v): finite, and together right along the diagonal.

    d/dk E φ(√k z)φ(±√k z) = E φ'(u) u φ(v) /k where v = ±u and φ is even or odd or v = u.
    """
    phi = FUNCTIONS[name]
    k = 1.3
    gradient = np.array(
        jax.grad(lambda *K: moments.product(phi, phi, None, None, *K), argnums=(0, 1, 2))(k, sign * k, k)
    )
    assert np.isfinite(gradient).all()

    def along(k):
        return moments.product(phi, phi, None, None, k, sign * k, k)

    np.testing.assert_allclose(gradient @ [1, sign, 1], differences(along, (k,))[0], atol=3e-9)
    np.testing.assert_allclose(jax.grad(along)(k), gradient @ [1, sign, 1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("phi", [ll.relu, USER_RELU])
def test_relu_at_correlation_one(phi):
    """(π − θ)/2π: ½ at θ = 0 and 0 at θ = π; ∂/∂K_uu = √det/4πK_uu = 0."""
    gradient = jax.grad(lambda *K: moments.product(phi, phi, None, None, *K), argnums=(0, 1, 2))
    np.testing.assert_allclose(gradient(2.0, 2.0, 2.0), [0, 0.5, 0], atol=1e-7 if phi is ll.relu else 1e-9)
    np.testing.assert_allclose(gradient(2.0, -2.0, 2.0), [0, 0, 0], atol=1e-7 if phi is ll.relu else 1e-9)
    np.testing.assert_allclose(gradient(1.0, 0.0, 1.0), [1 / (4 * np.pi), 0.25, 1 / (4 * np.pi)], atol=1e-9)


def test_clip_at_correlation_one():
    """E φ'φ' = P(|u| ≤ 1), ½E φ''φ = −½·2·density at 1."""
    gradient = jax.grad(lambda *K: moments.product(ll.clip(1.0), ll.clip(1.0), None, None, *K), argnums=(0, 1, 2))
    erf, density = jax.scipy.special.erf(1 / np.sqrt(4.0)), np.exp(-1 / 4) / np.sqrt(4 * np.pi)
    np.testing.assert_allclose(gradient(2.0, 2.0, 2.0), [-density, erf, -density], atol=1e-12)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.startswith("user")])
def test_slope_is_the_derivative_of_the_mean(name):
    phi = FUNCTIONS[name]
    m, k = 0.3, 1.7
    dm, dk = jax.grad(lambda m, k: moments.mean(phi, m, k), argnums=(0, 1))(m, k)
    numeric = differences(lambda m, k: moments.mean(phi, m, k), (m, k))
    np.testing.assert_allclose([dm, dk], numeric, atol=1e-10)
    np.testing.assert_allclose(moments.slope(phi, m, k), dm, rtol=1e-13)


def test_kernel_on_its_diagonal():
    """The gradient of a sum over a whole kernel, diagonal included, against differences."""
    X = jnp.asarray(np.random.default_rng(1).standard_normal((3, 4)))

    def total(scale, phi):
        K = scale * X @ X.T
        d = jnp.diagonal(K)
        return moments.product(phi, phi, None, None, d[:, None], K, d[None]).sum()

    for phi in (ll.relu, ll.tanh, ll.clip(1.0)):
        numeric = differences(lambda s: total(s, phi), (1.0,))[0]  # noqa: B023
        np.testing.assert_allclose(jax.grad(total)(1.0, phi), numeric, rtol=1e-9)


def test_second_derivatives_of_relu():
    """∂²/∂K_uv² E relu relu = 1/(2π√det)."""
    second = jax.grad(jax.grad(lambda c: moments.product(ll.relu, ll.relu, None, None, 1.0, c, 1.0)))(0.6)
    np.testing.assert_allclose(second, 1 / (2 * np.pi * 0.8), rtol=1e-12)
