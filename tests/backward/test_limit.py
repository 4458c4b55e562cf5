"""Gradients and tangent kernels as n → ∞, against closed forms and numbers from outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

import limitlaw as ll

X = np.array([[1.0, 0.2, -0.5], [0.3, -0.8, 0.4], [0.5, 0.5, 1.5]])
STD, BIAS = 1.3, 0.4


def readout(y: ll.Wide) -> ll.Scalars:
    return ll.dot(ll.initial(), y)


def relu_moments(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E φφ and E φ'φ' (Cho and Saul 2009)."""
    k = np.diag(K)
    root = np.sqrt(np.maximum(np.outer(k, k) - K**2, 0))
    angle = np.pi - np.arctan2(root, K)
    return (root + angle * K) / (2 * np.pi), angle / (2 * np.pi)


def erf_moments(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E φφ and E φ'φ' (Williams 1997)."""
    d = 1 + 2 * np.diag(K)
    E = 2 / np.pi * np.arcsin(2 * K / np.sqrt(np.outer(d, d)))
    return E, 4 / np.pi / np.sqrt(np.outer(d, d) - 4 * K**2)


def gelu_moments(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By Gauss–Hermite quadrature, of a function that is analytic and grows slowly."""
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    found = np.zeros((2, *K.shape))
    for i, j in np.ndindex(*K.shape):
        u = np.sqrt(K[i, i]) * x[:, None]
        mean = K[i, j] / K[i, i] * u
        v = mean + np.sqrt(max(K[j, j] - K[i, j] ** 2 / K[i, i], 0)) * x
        for k, phi in enumerate((gelu, gelu_slope)):
            found[k, i, j] = w @ (phi(u) * phi(v)) @ w
    return found[0], found[1]


def gelu(x: np.ndarray) -> np.ndarray:
    return x * ndtr(x)


def gelu_slope(x: np.ndarray) -> np.ndarray:
    return ndtr(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


MOMENTS = {"relu": relu_moments, "erf": erf_moments, "gelu": gelu_moments}


@pytest.mark.parametrize("name", MOMENTS)
def test_mlp(name: str) -> None:
    """Θ ← σ²Θ E φ'φ' + σ² E φφ + σ_b² (Jacot, Gabriel and Hongler 2018), the readout fixed."""
    y = ll.mlp(ll.data(X), (ll.n, 2 * ll.n), getattr(ll, name), std=STD, bias_std=BIAS)
    theta = K = STD**2 * X @ X.T / X.shape[1] + BIAS**2
    for _ in range(2):
        E, slopes = MOMENTS[name](K)
        K = STD**2 * E + BIAS**2
        theta = K + STD**2 * slopes * theta
    program = ll.ntk(readout(y))
    found = ll.kernel(program)
    np.testing.assert_allclose(found, theta, rtol=1e-10)
    assert not isinstance(found, ll.KernelMatrix)  # a closed form
    law = ll.limit(program)
    np.testing.assert_allclose(law.mean(), found, rtol=1e-14)
    assert law.std().max() == 0
    assert law.kind == "exact"


def test_a_kernel_with_an_error() -> None:
    """Of a function without closed forms; derivatives of numbers on the way are not lost."""
    y = ll.mlp(ll.data(X), phi=lambda z: jnp.exp(-(z**2)))
    found = ll.kernel(ll.ntk(readout(y)))
    assert isinstance(found, ll.KernelMatrix)
    K = X @ X.T / 3
    k, c = np.diag(K), K
    det = (1 + 2 * k[:, None]) * (1 + 2 * k) - 4 * c**2
    theta = det**-0.5 + 4 * c * det**-1.5 * K  # E φφ, and its derivative in c, 4 c det^{-3/2}
    np.testing.assert_allclose(found.value, theta, rtol=1e-9)


def test_compiled_once() -> None:
    """Inside of `jit` it is one compiled function of the inputs, differentiable in them."""

    def theta(X: jax.Array) -> jax.Array:
        return ll.kernel(ll.ntk(readout(ll.mlp(ll.data(X)))))

    np.testing.assert_allclose(jax.jit(theta)(X), theta(X), rtol=1e-13)
    h = 1e-5
    slope = jax.grad(lambda a: theta(X * a)[0, 1])(1.0)
    by_hand = (theta(X * (1 + h)) - theta(X * (1 - h)))[0, 1] / (2 * h)
    np.testing.assert_allclose(slope, by_hand, rtol=1e-8)


def test_convolution() -> None:
    """Two layers, circular, and the average over positions: Θ of all pairs of positions."""
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    y = ll.conv1d(ll.data(x), 3, STD, BIAS, padding="circular")
    y = ll.conv1d(ll.erf(y), 3, STD, BIAS, padding="circular")
    found = ll.kernel(ll.ntk(readout(y.mean(axis=-1))))

    def windows(K: np.ndarray) -> np.ndarray:
        K = K.reshape(2, 4, 2, 4)
        return STD**2 / 3 * sum(np.roll(K, (d, d), (1, 3)) for d in (-1, 0, 1)).reshape(8, 8)

    flat = x.reshape(8, 3)
    theta = K = windows(flat @ flat.T / 3) + BIAS**2
    E, slopes = erf_moments(K)
    theta = windows(E) + BIAS**2 + windows(theta * slopes)
    np.testing.assert_allclose(found, theta.reshape(2, 4, 2, 4).mean(axis=(1, 3)), rtol=1e-10)


def test_recurrent() -> None:
    """The same matrices at each of three steps: Θ of all pairs of steps."""
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    h = ll.rnn(ll.data(x), ll.erf, STD, 0.7, BIAS)
    found = ll.kernel(ll.ntk(readout(h[:, -1])))

    def next_step(K: np.ndarray) -> np.ndarray:
        moved = np.zeros((2, 3, 2, 3))
        moved[:, 1:, :, 1:] = K.reshape(2, 3, 2, 3)[:, :-1, :, :-1]
        return STD**2 * moved.reshape(6, 6)

    flat = x.reshape(6, 4)
    given = 0.49 * flat @ flat.T / 4 + BIAS**2
    K, theta = given, np.zeros((6, 6))
    for _ in range(3):
        K = given + next_step(erf_moments(K)[0])
    slopes = erf_moments(K)[1]
    for _ in range(3):
        theta = K + next_step(theta * slopes)
    theta = (theta * slopes).reshape(2, 3, 2, 3)[:, -1, :, -1]
    np.testing.assert_allclose(found, theta, rtol=1e-10)


@pytest.mark.usefixtures("as_user")
def test_scores_under_one_over_n() -> None:
    """They are deterministic, and train nothing: Θ = Θ^V + Θ^O; with a tied query and key, and no
    output matrix, Θ^V alone.
    """
    K = np.array([[1, 0.5, 0.2], [0.5, 2, 0.1], [0.2, 0.1, 1.0]])
    x, W = ll.initial((3,), cov=K), ll.Matrix()
    y = ll.attention(x, 2, scaling="linear", q_std=2.0, v_std=1.3)
    np.testing.assert_allclose(ll.kernel(ll.ntk(readout(y)[0])), 2 * 1.69 * K.mean(), rtol=1e-12)
    y = ll.softmax(ll.dot(W @ x, W @ x, "linear")) @ (ll.Matrix() @ x)
    A = np.exp(K[0]) / np.exp(K[0]).sum()
    np.testing.assert_allclose(ll.kernel(ll.ntk(readout(y)[0])), A @ K @ A, rtol=1e-12)


def test_tied_layers() -> None:
    """Three residual blocks with the same two matrices (numbers from outside)."""
    x = ll.initial((2,), cov=np.array([[1, 0.5], [0.5, 1]]))
    W = [ll.Matrix(), ll.Matrix()]
    h = x
    for _ in range(3):
        h = h + W[1] @ ll.gelu(W[0] @ h)
    f = ll.dot(ll.initial((2,)), h)
    f = f[0, 0] + f[1, 1]
    kernels = [ll.limit(k).mean() for k in ll.ntk(f, wrt=W)]
    gradient = np.trace(np.asarray(ll.kernel(ll.gradient(f, x))))
    np.testing.assert_allclose([gradient, *kernels], [13.815, 15.906, 16.010], atol=6e-4)


def test_one_layer_of_attention() -> None:
    """Means and spreads of Θ^Q, Θ^V and tr Γ (numbers from outside, 4 standard errors)."""
    x = ll.initial((4,))
    f = ll.dot(ll.initial((4,)), ll.attention(x, 2))
    f = sum((f[i, i] for i in range(1, 4)), f[0, 0])
    q, _, v, _ = ll.parameters(f).values()
    b = ll.gradient(f, x)
    numbers = ll.stack([*ll.ntk(f, wrt=[q, v]), ll.average(b * b).sum()])
    law = ll.limit(numbers, samples=2**13)
    expected, error = np.array([0.6628, 1.5673, 2.893]), np.array([4e-4, 3e-4, 1e-3])
    assert np.all(abs(law.mean() - expected) < 4 * np.hypot(error, law.error.mean()))
    np.testing.assert_allclose(law.std(), [0.272, 0.158, 0.537], rtol=0.02)


def test_norms_and_gates_by_finite_width() -> None:
    """What norms subtract along the vector itself vanishes; at finite width it is there. Two
    widths, of which 2Θ₂ₙ − Θₙ has no error of order 1/n.
    """
    x = ll.initial((2,), cov=np.array([[1, 0.5], [0.5, 1]]))
    h = x + ll.nn.gated_mlp(ll.layernorm(x), hidden=ll.n)
    theta = ll.ntk(readout(ll.rmsnorm(h))[0])
    limit = ll.limit(theta).mean()
    means, errors = [], []
    for width, draws in ((2**11, 400), (2**12, 800)):
        found = np.asarray(ll.finite_samples(theta, width, draws, width))
        means.append(found.mean())
        errors.append(found.std() / draws**0.5)
    error = np.hypot(errors[0], 2 * errors[1])
    assert abs(2 * means[1] - means[0] - limit) < 5 * error
