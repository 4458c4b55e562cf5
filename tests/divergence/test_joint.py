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
    return 0.5 * (
        np.trace(inverse @ C) - len(m) + quadratic + math.log(np.linalg.det(D) / np.linalg.det(C))
    )


@pytest.mark.parametrize("scale", [1.001, 30.0])
def test_gaussians(scale):
    """Within 4 errors of the closed form both ways; the error is small relative to the divergence,
    however small.
    """
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
    """A sampled joint mixture against its own law: zero within errors,
    after a bias of about ½ tr/N is taken away.
    """
    variances = np.array([0.5, 2.0])
    exact = GaussianMixture(np.zeros((2, 2)), variances[:, None, None] * C, np.full(2, 0.5))
    v = np.random.default_rng(0).choice(variances, 64)[:, None, None]
    d = kl(GaussianMixture(np.zeros((64, 2)), v * C), exact, 1024, 0)
    plain = kl(GaussianMixture(np.zeros((64, 2)), v * C, np.full(64, 1 / 64)), exact, 1024, 0)
    assert abs(d.value) < 5 * d.error
    assert 0.1 / 64 < plain.value - d.value < 2 / 64
    assert plain.error < d.error


def test_singular():
    """No density, said with the argument's name."""
    with pytest.raises(ValueError, match="q has none: the joint law has no density"):
        kl(Gaussian(M, C), Gaussian(np.zeros(2), np.ones((2, 2))))
