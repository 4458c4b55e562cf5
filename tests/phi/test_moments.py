"""Gaussian moments against reference.json (see make_reference.py),
in units of √(E φ(u)² E ψ(v)²).
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import phi as ll
from limitlaw.phi import moments

REFERENCE = json.loads(pathlib.Path(__file__).with_name("reference.json").read_text())
EPS = np.finfo(float).eps
SIN_COS = ("sin", "cos")
SINGLE = ("identity", "relu", "leaky_relu", "abs", "sign", "erf", "gelu", *SIN_COS)
MIXTURE = ("tanh", "sigmoid", "silu", "softplus")
EVERY = (*SINGLE, *MIXTURE, "clip")


def named(name):
    special = {
        "leaky_relu": lambda: ll.leaky_relu(0.1),
        "clip": lambda: ll.clip(1.0),
        "abs": lambda: ll.abs_,
    }
    return special.get(name, lambda: getattr(ll, name))()


def cases(phi, psi, zero_mean):
    """Columns m_u, m_v, K_uu, K_uv, K_vv, ρ, value, scale of the rows of one pair."""
    rows = [
        r[2:]
        for r in REFERENCE["product"]
        if r[:2] == [phi, psi] and (r[2] == r[3] == 0) == zero_mean
    ]
    return np.array(rows, float).T


def conditioning(name, rho):
    """How far ε in K_uv moves E sign(u)sign(v) = (2/π) arcsin ρ, which has a root at |ρ| = 1."""
    return EPS / np.sqrt(np.maximum(1 - rho**2, EPS)) if name == "sign" else 0.0


def product_errors(phi, psi, zero_mean):
    m_u, m_v, K_uu, K_uv, K_vv, rho, value, scale = cases(phi, psi, zero_mean)
    means = (None, None) if zero_mean else (m_u, m_v)
    f, g = named(phi), named(psi)
    computed = jax.jit(lambda *K: moments.product(f, g, *means, *K))(K_uu, K_uv, K_vv)
    return np.maximum(
        np.abs(computed - value) / scale - (4 * conditioning(phi, rho) if phi == psi else 0.0), 0.0
    )


@pytest.mark.parametrize("name", EVERY)
def test_same_function_zero_means(name):
    tolerance = 1e-13 if name in SINGLE else 1e-12
    errors = product_errors(name, name, zero_mean=True)
    assert len(errors) == 35
    assert errors.max() < tolerance


@pytest.mark.parametrize("name", [name for name in EVERY if name not in SIN_COS])
def test_same_function_other_means(name):
    assert product_errors(name, name, zero_mean=False).max() < 1e-12


PAIRS = [
    ("relu", "tanh"),
    ("sign", "gelu"),
    ("clip", "softplus"),
    ("tanh", "silu"),
    ("abs", "erf"),
]


@pytest.mark.parametrize(("phi", "psi"), PAIRS)
def test_pairs(phi, psi):
    errors = product_errors(phi, psi, zero_mean=True)
    assert len(errors) == 28
    assert errors.max() < 1e-11


def test_pair_with_other_means():
    assert product_errors("tanh", "relu", zero_mean=False).max() < 1e-11


@pytest.mark.parametrize("name", [name for name in EVERY if name not in SIN_COS])
def test_mean_and_slope(name):
    """The slope is in units of scale/√k, by E φ(u)(u − m)/k."""
    m, k, mean, slope, scale = np.array([r[1:] for r in REFERENCE["mean"] if r[0] == name]).T
    tolerance = 1e-13 if name in SINGLE else 1e-12
    phi = named(name)
    computed = jax.jit(lambda m, k: (moments.mean(phi, m, k), moments.slope(phi, m, k)))(m, k)
    assert (np.abs(computed[0] - mean) / scale).max() < tolerance
    assert (np.abs(computed[1] - slope) / (scale / np.sqrt(k))).max() < tolerance


@pytest.mark.parametrize("name", SIN_COS)
def test_waves_with_means(name):
    """Against Gauss–Hermite in two dimensions, also for sin·cos."""
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    m_u, m_v, K_uu, K_uv, K_vv = 0.3, -1.1, 0.8, 0.5, 1.3
    u = m_u + np.sqrt(K_uu) * x[:, None]
    v = m_v + K_uv / np.sqrt(K_uu) * x[:, None] + np.sqrt(K_vv - K_uv**2 / K_uu) * x
    for other in SIN_COS:
        expected = np.einsum("i,j,ij", w, w, getattr(np, name)(u) * getattr(np, other)(v))
        computed = moments.product(named(name), named(other), m_u, m_v, K_uu, K_uv, K_vv)
        np.testing.assert_allclose(computed, expected, atol=1e-14)
    np.testing.assert_allclose(
        moments.mean(named(name), m_u, K_uu), w @ getattr(np, name)(u[:, 0]), atol=1e-14
    )


@pytest.mark.parametrize("name", ["identity", "relu", "sign", "gelu", "tanh", "clip", "sin"])
def test_zero_variance(name):
    """K_uu = 0 leaves φ(m_u) E ψ(v), and nothing is NaN, derivatives included."""
    phi = named(name)
    m, k = jnp.asarray([0.0, 0.4, -1.0])[:, None], jnp.asarray([0.0, 2.0])

    @jax.jit
    def everything(zero):
        mean = moments.mean(phi, m, zero)
        slope = moments.slope(phi, m, zero)
        expected = phi(m) * moments.mean(phi, m, k)
        shifted = moments.product(phi, phi, m, m, zero, zero, k)
        centred = moments.product(phi, phi, None, None, zero, zero, k)
        return mean, slope, expected, shifted, centred

    mean, slope, expected, shifted, centred = everything(0.0)
    np.testing.assert_allclose(mean, phi(m), atol=1e-12)
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(shifted, expected, atol=1e-12)
    np.testing.assert_allclose(centred, expected[0], atol=1e-12)
    if name != "sign":
        assert np.isfinite(
            jax.jit(jax.grad(lambda K: moments.product(phi, phi, None, None, K, K, K)))(0.0)
        )


@pytest.mark.parametrize("name", ["relu", "sign", "gelu", "tanh", "clip", "sin"])
def test_rounded_beyond_one(name):
    """|K_uv| a little above √(K_uu K_vv) is correlation ±1."""
    phi = named(name)
    k = np.array([1e-6, 1.0, 30.0])
    K_uv = k * np.array([1, -1])[:, None] * np.array([1, 1 + 4 * EPS])[:, None, None]
    at, above = jax.jit(lambda *K: moments.product(phi, phi, None, None, *K))(k, K_uv, k)
    np.testing.assert_allclose(above, at, rtol=1e-13, atol=1e-15)


def test_broadcasting_jit_and_vmap():
    X = np.random.default_rng(0).standard_normal((5, 7))
    K = jnp.asarray(X @ X.T)
    d = jnp.diagonal(K)
    for phi, psi in ((ll.relu, ll.relu), (ll.relu, ll.gelu)):

        def kernel(K_uu, K_uv, K_vv, phi=phi, psi=psi):
            return moments.product(phi, psi, None, None, K_uu, K_uv, K_vv)

        table = kernel(d[:, None], K, d[None])
        assert table.shape == (5, 5)
        np.testing.assert_allclose(jax.jit(kernel)(d[:, None], K, d[None]), table, rtol=1e-13)
        np.testing.assert_allclose(
            jax.vmap(lambda k, row: kernel(k, row, d))(d, K)[2], table[2], rtol=1e-13
        )
        np.testing.assert_allclose(kernel(d[1], K[1, 2], d[2]), table[1, 2], rtol=1e-13)


def test_the_same_parameter_is_the_same_function():
    assert ll.leaky_relu(0.1) == ll.leaky_relu(np.float64(0.1)) != ll.leaky_relu(0.2)
    assert ll.clip(2.0) == ll.clip(np.float64(2.0))
    with pytest.raises(ValueError, match="bound must be positive"):
        ll.clip(-1.0)
