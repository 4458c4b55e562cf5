"""Gradients and tangent kernels as n → ∞, against closed forms and numbers from outside."""

import numpy as np
import pytest

import limitlaw as ll

X = np.array([[1.0, 0.2, -0.5], [0.3, -0.8, 0.4], [0.5, 0.5, 1.5]])
STD, BIAS = 1.3, 0.4


def readout(y: ll.Wide) -> ll.Scalars:
    return ll.dot(ll.initial(), y)


def relu_moments(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E φφ and E φ'φ' (Cho and Saul 2009)."""
    sd = np.sqrt(np.diag(K))
    c = np.clip(K / np.outer(sd, sd), -1, 1)
    angle = np.pi - np.arccos(c)
    return np.outer(sd, sd) * (np.sqrt(1 - c**2) + angle * c) / (2 * np.pi), angle / (2 * np.pi)


def erf_moments(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E φφ and E φ'φ' (Williams 1997)."""
    d = 1 + 2 * np.diag(K)
    E = 2 / np.pi * np.arcsin(2 * K / np.sqrt(np.outer(d, d)))
    return E, 4 / np.pi / np.sqrt(np.outer(d, d) - 4 * K**2)


@pytest.mark.parametrize(("name", "moments"), [("relu", relu_moments), ("erf", erf_moments)])
def test_mlp(name, moments) -> None:
    """Θ ← σ²(Θ E φ'φ' + E φφ) (Jacot, Gabriel and Hongler 2018), the readout fixed."""
    y = ll.mlp(ll.data(X), (ll.n, 2 * ll.n), getattr(ll, name), std=STD, bias_std=BIAS)
    K = STD**2 * X @ X.T / X.shape[1]
    theta = K
    for _ in range(2):
        E, slopes = moments(K + BIAS**2)
        K = STD**2 * E
        theta = K + STD**2 * slopes * theta
    law = ll.limit(ll.ntk(readout(y)))
    np.testing.assert_allclose(law.mean(), theta, rtol=1e-7 if name == "relu" else 1e-10)
    assert law.std().max() == 0
    assert law.kind == "quadrature"


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
