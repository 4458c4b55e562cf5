"""Joint laws, by sampling."""

import math

import numpy as np
import pytest

from limitlaw.divergence import kl
from limitlaw.laws import Gaussian, GaussianMixture

M, C = np.array([0.3, -0.2]), np.array([[1.0, 0.4], [0.4, 2.0]])


def gaussian_kl(m, C, M, D):
    inverse = np.linalg.inv(D)
    quadratic = (M - m) @ inverse @ (M - m)
    return 0.5 * (np.trace(inverse @ C) - len(m) + quadratic + math.log(np.linalg.det(D) / np.linalg.det(C)))


@pytest.mark.parametrize("scale", [1.001, 1.5, 30.0])
def test_gaussians(scale):
    """Within 4 errors of the closed form both ways; the error is small relative to the divergence, however small."""
    p, q = Gaussian(M, C), Gaussian(M + 1 - 1 / scale, C * scale)
    for a, b, exact in (
        (p, q, gaussian_kl(M, C, M + 1 - 1 / scale, C * scale)),
        (q, p, gaussian_kl(M + 1 - 1 / scale, C * scale, M, C)),
    ):
        d = kl(a, b, samples=8192, key=1)
        assert abs(d.value - exact) < 4 * d.error, (d, exact)
        assert d.error < 0.05 * exact


def test_samples_and_key():
    """Four times the samples, half the error; the key decides, and samples must be a number."""
    p, q = Gaussian(M, C), Gaussian(np.zeros(2), np.eye(2))
    few, many = kl(p, q, 2048, 0), kl(p, q, 8192, 0)
    assert 0.3 < many.error / few.error < 0.8
    assert kl(p, q, 2048, 0) == few
    assert kl(p, q, 2048, 1) != few
    with pytest.raises(ValueError, match="samples must be a positive integer"):
        kl(p, q, samples=0)


def test_sampled():
    """A sampled joint mixture against its own law: no bias, where the plain value has one."""
    variances = np.array([0.5, 0.8, 1.2, 2.0])
    exact = GaussianMixture(np.zeros((4, 2)), variances[:, None, None] * C, np.full(4, 0.25))
    random = np.random.default_rng(0)
    values, naive = [], []
    for seed in range(3):
        v = random.choice(variances, 192)[:, None, None]
        d = kl(GaussianMixture(np.zeros((192, 2)), v * C), exact, 1024, seed)
        assert abs(d.value) < 5 * d.error
        values.append(d.value)
        naive.append(kl(GaussianMixture(np.zeros((192, 2)), v * C, np.full(192, 1 / 192)), exact, 1024, seed).value)
    assert np.mean(values) < np.mean(naive) / 2
    assert min(naive) > 0


def test_singular():
    """No density, said with the argument's name."""
    with pytest.raises(ValueError, match="q has none: the joint law has no density"):
        kl(Gaussian(M, C), Gaussian(np.zeros(2), np.ones((2, 2))))
