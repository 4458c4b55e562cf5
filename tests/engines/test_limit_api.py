"""What users of `limit`, `kernel` and `average_law` see:
the same number twice, errors, labels, gradients.
"""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi as nl
from limitlaw.laws import (
    Combination,
    Empirical,
    Gaussian,
    GaussianMixture,
    HeadSum,
    Pushforward,
    RandomKernel,
    Tokens,
)

X = ll.initial((3,), cov=np.eye(3) + 0.3)


def test_deterministic() -> None:
    """Twice the same; another key, another scrambling; `samples` is how many."""
    y = ll.attention(ll.attention(X, 2), 2)[0]
    first, second, other = (ll.limit(y, 2048, key) for key in (None, None, 1))
    assert float(first.variance()) == float(second.variance()) != float(other.variance())
    assert float(ll.limit(y, 2048, key=jax.random.key(1)).variance()) == float(other.variance())
    assert ll.limit(y, samples=1000)._components.weights.shape == (1000,)
    chunked = ll.limit(y, samples=10_000).variance()  # more than one batch
    assert chunked == pytest.approx(float(first.variance()), abs=5e-3)


def test_kinds_and_labels() -> None:
    """Exact where closed forms do, quadrature elsewhere,
    sampled with the scores; the law's kind of object.
    """
    W = ll.Matrix()
    expected = [
        (ll.mlp(X), Gaussian, "exact"),
        (ll.mlp(X, phi=ll.tanh), Gaussian, "quadrature"),
        (ll.relu(W @ X), Pushforward, "quadrature"),
        (ll.attention(X, 2), Tokens, "sampled"),
        (ll.attention(X, 2)[0], HeadSum, "quadrature"),
        (ll.attention(X, 2, head_dim=3)[0], HeadSum, "sampled"),
        (ll.attention(ll.attention(X, 2), 2), GaussianMixture, "sampled"),
        ((W @ X) * (ll.Matrix() @ X), Combination, "sampled"),
        (ll.average(ll.relu(X)), Empirical, "exact"),
        (ll.dot(W @ X, ll.Matrix() @ X), Gaussian, "exact"),
    ]
    for y, kind, label in expected:
        law = ll.limit(y, samples=64)
        assert (type(law), law.kind) == (kind, label), y
    deep = ll.limit(ll.attention(ll.attention(X, 1), 1), samples=64)
    assert deep.beyond == ("depth 2", "layers behind attention")


def test_random_kernel(tmp_path) -> None:
    """Its mean, the law of its entries, as an array, and through a file."""
    K = ll.kernel(ll.attention(X, 2), samples=512)
    assert isinstance(K, RandomKernel)
    assert K.shape == (3, 3)
    np.testing.assert_array_equal(np.asarray(K), K.mean())
    assert K.marginal((0, 0)).ppf(0.5) > 0
    K.save(tmp_path / "kernel.npz")
    assert isinstance(ll.load(tmp_path / "kernel.npz"), RandomKernel)


def test_narrow_outputs() -> None:
    """Vectors of fixed dimension: Gaussian given what made them."""
    np.testing.assert_allclose(
        ll.limit(ll.Matrix(2.0, rows=5) @ X).covariance(), 4 * (np.eye(3) + 0.3), atol=1e-13
    )
    law = ll.limit(ll.relu(ll.Matrix(rows=5) @ X), samples=64)
    assert isinstance(law, Pushforward)
    assert float(ll.limit(ll.data(np.ones((2, 3)))).mean()[0]) == 1.0


def test_single_vectors_and_repeated_tokens() -> None:
    """No batch axis, s = 1, K singular, zero weights."""
    assert float(ll.kernel(ll.mlp(ll.initial()))) == pytest.approx(0.5)
    assert float(ll.limit(ll.attention(ll.initial((1,)), 1)).variance()[0]) == pytest.approx(1.0)
    same = ll.initial((2,), cov=np.ones((2, 2)))
    np.testing.assert_allclose(
        ll.limit(ll.attention(same, 2), samples=64).covariance(), np.ones((2, 2)), atol=1e-12
    )
    assert float(ll.limit(ll.attention(X, 2, v_std=0.0)[0], samples=64).variance()) == 0.0
    huge = ll.limit(ll.attention(X, 1, q_std=1e6)[0], samples=256)
    assert np.isfinite(huge.variance())


def test_more_scores_than_sobol_has_dimensions() -> None:
    """1,600 scores a draw: drawn from the key, random all the same, and the same at every call."""
    y = ll.attention(ll.initial((40,)), 1)
    K = ll.kernel(y, samples=64)
    assert isinstance(K, RandomKernel)
    v = K.marginal((0, 0))
    assert v.variance() > 0
    A = jax.nn.softmax(jax.random.normal(jax.random.key(0), (20_000, 40)))
    assert abs(v.mean() - jnp.mean(jnp.sum(A**2, axis=1))) < 5 * v.error.mean()
    assert float(ll.kernel(y, samples=64).mean()[0, 1]) == float(K.mean()[0, 1])


@pytest.mark.usefixtures("as_user")
def test_errors() -> None:
    """Which node, why, and what to do instead."""
    W = ll.Matrix()
    tied = ll.softmax(ll.dot(W @ X, W @ X)) @ X
    for function in (ll.limit, ll.kernel, lambda y: ll.average_law(y, jnp.tanh)):
        with pytest.raises(
            ValueError, match=r"both factors are made with W₁.*√n.*use scaling='linear'"
        ):
            function(tied)
    with pytest.raises(ValueError, match="multiply one of them by a fresh Matrix"):
        ll.limit(ll.dot(X, X))
    with pytest.raises(TypeError, match="limit takes one value, got 2: stack several"):
        ll.limit((X, X))
    with pytest.raises(TypeError, match="must be a value of a program"):
        ll.limit(np.eye(3))
    with pytest.raises(ValueError, match="samples must be a positive integer, got 0"):
        ll.limit(X, samples=0)
    with pytest.raises(TypeError, match="average_law needs vectors"):
        ll.average_law(ll.Matrix(rows=5) @ X, jnp.tanh)
    with pytest.raises(ValueError, match="would take"):
        ll.limit(ll.attention(ll.initial((100,)), 1), samples=10**6).variance()


def test_quadrature_that_does_not_converge_warns() -> None:
    """A function whose jump depends on a number is not looked at;
    of one vector alone the jump is found.
    """
    with pytest.warns(UserWarning, match="has a relative error of about"):
        ll.kernel(ll.Matrix() @ ll.map(lambda x, a: jnp.sign(x - a), X, 0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ll.kernel(ll.Matrix() @ ll.map(lambda x: jnp.sign(x - 0.3), X))
        ll.kernel(ll.Matrix() @ ll.map(lambda x: jnp.tanh(x) + 1, X))


# --- gradients -----------------------------------------------------------------------------------


def difference(f, x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Central differences of a function of a symmetric matrix or of a number."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = h
        g[i] = (f(x + d) - f(x - d)) / (2 * h)
    return g


KERNELS = {"I": np.eye(2), "correlated": np.array([[1.2, 0.5], [0.5, 0.8]])}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("phi", [ll.relu, ll.erf, ll.gelu, ll.tanh])
def test_gradient_of_kernel(phi, name: str) -> None:
    """In the entries of the first kernel, against finite differences."""

    def entry(K):
        K = (K + K.T) / 2
        return ll.kernel(ll.mlp(ll.initial((2,), cov=K), (ll.n, ll.n), phi, bias_std=0.1))[0, 1]

    K = KERNELS[name]
    np.testing.assert_allclose(jax.grad(entry)(jnp.asarray(K)), difference(entry, K), atol=1e-8)


def test_gradient_at_correlation_one() -> None:
    """Repeated tokens: with K_12 = √(K_11 K_22), E[relu relu] = K_12/2,
    so that the derivative in K_12 is ½ a layer.
    """

    def entry(K):
        return ll.kernel(ll.mlp(ll.initial((2,), cov=(K + K.T) / 2), (ll.n, ll.n)))[0, 1]

    g = np.asarray(jax.grad(entry)(jnp.ones((2, 2))))
    np.testing.assert_allclose(g, [[0, 0.125], [0.125, 0]], atol=1e-9)


@pytest.mark.long
def test_gradient_of_attention() -> None:
    """In the kernel, K = I and K singular, and in the scale of the queries,
    for wide and for narrow heads.
    """

    def variance(K, q_std=1.0, head_dim=None):
        x = ll.initial((2,), cov=(K + K.T) / 2)
        return ll.limit(
            ll.attention(x, 2, q_std=q_std, head_dim=head_dim)[0], samples=256
        ).variance()

    K = np.eye(2)
    np.testing.assert_allclose(
        jax.grad(variance)(jnp.asarray(K)), difference(variance, K), atol=1e-8
    )
    assert np.isfinite(jax.grad(variance)(jnp.ones((2, 2)))).all()
    slope = jax.grad(lambda q: variance(K, q, 3))(1.3)
    expected = difference(lambda q: variance(K, float(q), 3), np.asarray(1.3))
    assert slope == pytest.approx(float(expected), abs=1e-8)


def test_jit() -> None:
    """A kernel of given data, compiled."""
    data = np.random.default_rng(0).normal(size=(6, 4))
    y = ll.mlp(ll.data(data), (ll.n,), ll.relu, math.sqrt(2))
    compiled = jax.jit(lambda X: ll.kernel(ll.mlp(ll.data(X), (ll.n,), ll.relu, math.sqrt(2))))
    np.testing.assert_allclose(compiled(data), ll.kernel(y), rtol=1e-13)


def test_kind_does_not_depend_on_names() -> None:
    """ReLU under another name has a closed form; a function of one's own named relu has none."""
    renamed = dataclasses.replace(nl.relu, name="mine")
    own = nl.Nonlinearity("leaky_relu(0.2)", lambda x: jnp.sin(x) + x, True, False, kinks=())
    h = ll.Matrix() @ ll.initial()
    assert ll.limit(ll.Matrix() @ ll.map(renamed, h)).kind == "exact"
    assert ll.limit(ll.Matrix() @ ll.map(own, h)).kind == "quadrature"
    assert ll.limit(ll.average(ll.map(own, h))).kind == "quadrature"
    assert ll.limit(ll.average(ll.sigmoid(h))).kind == "quadrature"
