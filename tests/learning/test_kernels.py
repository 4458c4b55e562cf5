"""Kernels of networks as functions of inputs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3))


def network(X, std=1.4):
    return ll.mlp(ll.data(X), phi=ll.relu, std=std, bias_std=0.3)


def images(X):
    y = ll.relu(ll.conv1d(ll.data(X[..., None]), 3))
    return ll.readout(y, axes=1)


def kinked(X):
    return ll.map(lambda z: jnp.maximum(z - 0.3, 0), ll.dense(ll.data(X)))


@pytest.mark.parametrize("net", [network, images, kinked])
def test_every_call_gives_entries_of_one_matrix(net) -> None:
    k = ll.Kernel(net)
    whole = np.asarray(ll.kernel(net(np.concatenate([X, NEW]))))
    np.testing.assert_allclose(k.gram(X), whole[:4, :4], rtol=1e-12)
    for batch in (None, 3):
        np.testing.assert_allclose(k.cross_covariance(X, NEW, batch), whole[:4, 4:], rtol=1e-10)
    np.testing.assert_allclose(k.diagonal(X), np.diagonal(whole)[:4], rtol=1e-10)
    assert k(X[1], NEW[0]) == pytest.approx(whole[1, 4], rel=1e-10)


def test_scales_are_leaves() -> None:
    k = ll.Kernel(network, {"std": 1.4})
    slope = jax.grad(lambda k: k.gram(jnp.asarray(X)).sum())(k).scales["std"]
    apart = k.replace(std=1.4 + 1e-5).gram(X).sum() - k.replace(std=1.4 - 1e-5).gram(X).sum()
    assert slope == pytest.approx(apart / 2e-5, rel=1e-8)
    assert jax.jit(lambda k, a, b: k(a, b))(k, X[0], X[1]) == pytest.approx(k(X[0], X[1]))


def test_tangent_kernels_train_the_readout_too() -> None:
    """ReLU: Θ of a hidden layer is Θ_in∘Σ̇ + Σ."""
    k = ll.Kernel(lambda X: ll.relu(ll.dense(ll.data(X))), kind="ntk")
    K = X @ X.T / 3
    root = np.sqrt(np.diagonal(K))
    cosine = K / np.outer(root, root)
    np.fill_diagonal(cosine, 1.0)  # arccos turns a rounding of 1 into 1e-8
    angle = np.arccos(cosine)
    slope = (math.pi - angle) / (2 * math.pi)
    moment = np.outer(root, root) * (np.sin(angle) / (2 * math.pi) + np.cos(angle) * slope)
    np.testing.assert_allclose(k.gram(X), K * slope + moment, rtol=1e-12)


def test_what_is_no_kernel() -> None:
    tokens = RNG.normal(size=(2, 3, 4))
    with pytest.raises(ValueError, match="deterministic"):
        ll.Kernel(lambda X: ll.attention(ll.data(X), heads=2)[..., 0]).gram(tokens)
    with pytest.raises(TypeError, match="batch"):
        ll.Kernel(lambda X: ll.attention(ll.data(X), heads=2)).gram(tokens)
    with pytest.raises(TypeError, match="network must be a function"):
        ll.Kernel(network(X))
    with pytest.raises(ValueError, match="kind"):
        ll.Kernel(network, kind="nkt")
    with pytest.raises(ValueError, match="x2 must have inputs of shape"):
        ll.Kernel(network).cross_covariance(X, NEW[:, :2])
    with pytest.raises(ValueError, match="scales of this kernel"):
        ll.Kernel(network, {"std": 1.0}).replace(stdd=2.0)
