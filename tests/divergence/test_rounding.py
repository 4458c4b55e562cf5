"""Laws that are equal by different routes, or nearly so: what is left is rounding."""

import numpy as np
import pytest
from scipy import stats

import limitlaw as ll
from limitlaw import divergence
from limitlaw.divergence.in_blocks import bias_and_variance
from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Pushforward

ALL = [getattr(divergence, name) for name in divergence.__all__ if name != "Divergence"]
STANDARD = Gaussian(0.0, 1.0)
TWO = GaussianMixture(np.zeros(2), np.ones(2), np.array([0.3, 0.7]))


def permuted() -> tuple[GaussianMixture, GaussianMixture]:
    """One mixture, its components in two orders."""
    random = np.random.default_rng(0)
    w, mean, variance = random.random(64), random.normal(size=64), 0.3 + random.random(64)
    order = random.permutation(64)
    return (
        GaussianMixture(mean, variance, w / w.sum()),
        GaussianMixture(mean[order], variance[order], w[order] / w.sum()),
    )


PAIRS = {
    "a mixture of equals": (TWO, STANDARD),
    "a thousand equals": (
        GaussianMixture(np.zeros(1000), np.ones(1000), np.full(1000, 1e-3)),
        STANDARD,
    ),
    "heads": (HeadSum([1.0], 4, [1.0], kind="quadrature"), STANDARD),
    "scipy": (stats.norm(0, 1), STANDARD),
    "permuted": permuted(),
    "far and narrow": (
        Gaussian(100.0, 1e-6),
        GaussianMixture(np.full(2, 100.0), np.full(2, 1e-6), np.array([0.3, 0.7])),
    ),
    "images": (Pushforward(ll.phi.erf, STANDARD), Pushforward(ll.phi.erf, TWO)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_laws(name: str) -> None:
    for distance in ALL:
        d = distance(*PAIRS[name])
        assert abs(d.value) <= 3 * d.error or d.value == 0, (distance.__name__, d)
        assert d.error < 1e-6


def test_nearly_equal_laws() -> None:
    """Variances that differ by 1e-12: small differences of large numbers."""
    e = 1e-12
    p = Gaussian(0.0, 1.0 + e)
    e = float(p.variance()) - 1.0
    truths = {
        "kl": e**2 / 4,
        "total_variation": e / np.sqrt(2 * np.pi * np.e),
        "wasserstein1": e / np.sqrt(2 * np.pi),
        "wasserstein2": e / 2,
    }
    for name, truth in truths.items():
        d = getattr(divergence, name)(p, STANDARD)
        assert abs(d.value - truth) <= 3 * d.error
        assert d.error > 0


def test_no_estimate_lies_below_zero_beyond_its_error() -> None:
    """A law and the Gaussian of its own sampled variance share their noise."""
    random = np.random.default_rng(1)
    for size in (1e-8, 1e-3):
        v = 1 + size * random.normal(size=4096)
        p = GaussianMixture(np.zeros(4096), v, kind="sampled", blocks=16)
        for distance in (divergence.kl, divergence.jensen_shannon):
            d = distance(p, Gaussian(0.0, float(p.variance())))
            assert d.value >= -d.error
    assert divergence.Divergence(-1.4e-15, 2e-16).error == 1.4e-15
    # fifteen times the difference of values that round
    assert bias_and_variance(16, np.full(137, 3.0))[1] > 1e-29
