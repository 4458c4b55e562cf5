"""Predictions in closed form, against linear algebra written apart."""

import math

import numpy as np
import pytest
import scipy.linalg

import limitlaw as ll

RNG = np.random.default_rng(1)
X, NEW, T = RNG.normal(size=(6, 8)), RNG.normal(size=(3, 8)), RNG.normal(size=(6, 2))


def features(X):
    """A network whose kernel is X Xᵀ/8: outputs are linear in the readout, with features X/√8."""
    return ll.Matrix(cols=8) @ ll.data(X)


def network(X):
    return ll.mlp(ll.data(X), phi=ll.erf, std=1.5, bias_std=0.2)


@pytest.mark.parametrize("batch", [None, 4])
def test_the_posterior(batch) -> None:
    k = ll.Kernel(network)
    K = k.gram(np.concatenate([X, NEW]))
    inverse = np.linalg.inv(K[:6, :6] + 0.25 * np.eye(6))
    found = ll.predict(k, X, T, NEW, noise=0.5, batch=batch)
    np.testing.assert_allclose(found.mean, K[6:, :6] @ inverse @ T, atol=1e-10)
    expected = K[6:, 6:] - K[6:, :6] @ inverse @ K[:6, 6:]
    np.testing.assert_allclose(found.covariance, expected, atol=1e-10)
    np.testing.assert_allclose(found.law(1).mean(), found.mean[:, 1])
    np.testing.assert_allclose(found.law(1).std(), found.std)


CASES = [(0.0, 0.7), (0.4, 3.0), (0.0, math.inf), (0.3, 0.0)]


@pytest.mark.parametrize(("noise", "time"), CASES)
def test_training_of_a_linear_model(noise, time) -> None:
    """Weights w of f = Φ w follow dw/dt = −Φᵀ(Φ w − t) − noise² (w − w₀): by a matrix exponential
    of (w, w₀, 1), which is linear in the normal w₀.
    """
    first, new = X / 8**0.5, NEW / 8**0.5
    rate, eye = first.T @ first + noise**2 * np.eye(8), np.eye(8)
    target = first.T @ T[:, 0]
    A = np.zeros((17, 17))
    A[:8, :8], A[:8, 8:16], A[:8, 16] = -rate, noise**2 * eye, target
    there = scipy.linalg.expm(A * min(time, 1e4))
    from_start, offset = there[:8, :8] + there[:8, 8:16], there[:8, 16]
    found = ll.predict(ll.Kernel(features), X, T[:, 0], NEW, noise=noise, time=time)
    np.testing.assert_allclose(found.mean, new @ offset, atol=1e-9)
    np.testing.assert_allclose(
        found.covariance, new @ from_start @ from_start.T @ new.T, atol=1e-9
    )


def test_tangent_kernels() -> None:
    """Lee et al. (2019), equations 14 and 15, at the end of training."""
    k = ll.Kernel(network, kind="ntk")
    whole, K = (
        np.asarray(kernel.gram(np.concatenate([X, NEW]))) for kernel in (k, ll.Kernel(network))
    )
    B = whole[6:, :6] @ np.linalg.inv(whole[:6, :6])
    found = ll.predict(k, X, T, NEW, time=math.inf)
    np.testing.assert_allclose(found.mean, B @ T, atol=1e-9)
    expected = K[6:, 6:] + B @ K[:6, :6] @ B.T - B @ K[:6, 6:] - (B @ K[:6, 6:]).T
    np.testing.assert_allclose(found.covariance, expected, atol=1e-9)
    late = ll.predict(k, X, T, NEW, time=1e4)
    np.testing.assert_allclose(late.mean, found.mean, atol=1e-9)
    assert ll.predict(k, X, np.eye(6)[:, :3], NEW, time=1.0).classes().shape == (3,)


def test_bad_input() -> None:
    k = ll.Kernel(network)
    twice = np.concatenate([X, X[:1]])
    with pytest.raises(ValueError, match="noise must be positive"):
        ll.predict(k, twice, np.zeros(7), NEW)
    assert np.isfinite(ll.predict(k, twice, np.zeros(7), NEW, noise=0.1).mean).all()
    with pytest.raises(ValueError, match="targets must have shape"):
        ll.predict(k, X, T[:5], NEW)
    with pytest.raises(ValueError, match="targets"):
        ll.predict(k, X, np.full(6, np.nan), NEW)
    with pytest.raises(ValueError, match="test must be inputs"):
        ll.predict(k, X, T, NEW[:0])
    with pytest.raises(ValueError, match="time must be given"):
        ll.predict(ll.Kernel(network, kind="ntk"), X, T, NEW)
    with pytest.raises(ValueError, match="time must be a number"):
        ll.predict(k, X, T, NEW, time=-1.0)
    with pytest.raises(ValueError, match="noise"):
        ll.predict(k, X, T, NEW, noise=-0.1)


def test_scales_of_largest_evidence() -> None:
    """Targets drawn from the kernel at std 2: no scale nearby has more evidence."""
    k = ll.Kernel(lambda X, std: ll.mlp(ll.data(X), phi=ll.erf, std=std), {"std": 1.0})
    points = RNG.normal(size=(40, 2))
    C = k.replace(std=2.0).gram(points) + 0.01 * np.eye(40)
    t = np.linalg.cholesky(C) @ RNG.normal(size=(40, 3))
    found = ll.fit(k, points, t)

    def evidence(std, noise):
        C = k.replace(std=std).gram(points) + noise**2 * np.eye(40)
        return sum(-0.5 * v @ np.linalg.solve(C, v) for v in t.T) - 1.5 * (
            np.linalg.slogdet(C)[1] + 40 * math.log(2 * math.pi)
        )

    std, noise = float(found.kernel.scales["std"]), found.noise
    assert found.converged
    assert found.log_evidence == pytest.approx(evidence(std, noise), rel=1e-9)
    for a, b in ((1.05, 1), (0.95, 1), (1, 1.05), (1, 0.95)):
        assert evidence(std * a, noise * b) < found.log_evidence
    with pytest.raises(ValueError, match="must be positive"):
        ll.fit(k.replace(std=0.0), points, t)
