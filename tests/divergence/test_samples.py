"""Plain samples: exact distances of steps, and refusals."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest, norm, wasserstein_distance

from limitlaw.divergence import kl, kolmogorov, total_variation, wasserstein1
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, Pushforward

G = Gaussian(0.0, 1.0)


@pytest.fixture(scope="module")
def draws():
    return np.random.default_rng(0).normal(size=(2, 3000)) * np.array([[1.0], [1.2]])


def test_samples_and_gaussian(draws):
    """Kolmogorov is scipy's; W1 = ∫ |F̂ − F|, which is zero within errors for
    samples of the law itself.
    """
    p = Empirical(draws[0])
    assert kolmogorov(p, G).value == pytest.approx(kstest(draws[0], "norm").statistic, rel=1e-9)
    assert kolmogorov(G, p).value == kolmogorov(p, G).value
    d = wasserstein1(p, G)
    x = np.linspace(-8, 8, 400_001)
    level = np.searchsorted(np.sort(draws[0]), x, side="right") / 3000
    assert d.value == pytest.approx(np.trapezoid(np.abs(level - norm.cdf(x)), x), rel=1e-3)
    assert 0 < d.value < 4 * d.error


def test_two_sets_of_samples(draws):
    """Both are scipy's."""
    p, q = (Empirical(y) for y in draws)
    assert wasserstein1(p, q).value == pytest.approx(wasserstein_distance(*draws), rel=1e-12)
    assert kolmogorov(p, q).value == pytest.approx(ks_2samp(*draws).statistic, rel=1e-12)


def test_one_point():
    """W1 of a point c to N(0, 1) is c (2Φ(c) − 1) + 2 φ(c)."""
    p = Empirical([0.3], kind="exact")
    assert wasserstein1(p, G).value == pytest.approx(
        0.3 * (2 * norm.cdf(0.3) - 1) + 2 * norm.pdf(0.3), rel=1e-8
    )
    assert kolmogorov(p, G).value == pytest.approx(norm.cdf(0.3), rel=1e-12)


def test_error_of_samples():
    """Shifted samples: the estimate strays as far as its error says."""
    random = np.random.default_rng(1)
    z = []
    for _ in range(12):
        d = wasserstein1(Empirical(random.normal(size=500) + 1.0), G)
        z.append((d.value - 1) / d.error)
    assert 0.5 < np.std(z) < 1.5
    assert abs(np.mean(z)) < 0.8


@pytest.mark.parametrize("f", [kl, total_variation])
def test_no_density(f, draws):
    """Densities are never smoothed histograms."""
    with pytest.raises(
        ValueError, match=f"{f.__name__} needs densities, and p has none: it is Empirical"
    ):
        f(Empirical(draws[0]), G)
    with pytest.raises(ValueError, match=f"{f.__name__} needs densities, and q has none"):
        f(G, Empirical(draws[0]))


def test_unnamed_nonlinearity():
    """No branches, no density: said with the argument's name."""
    with pytest.raises(ValueError, match="q has none: the density of"):
        kl(G, Pushforward(lambda x: x + x**3, G))


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("f", [kl, total_variation, wasserstein1, kolmogorov])
def test_arguments(f):
    """Laws, of one shape, of one number."""
    joint = Gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(
        TypeError, match=r"p must be a Law, a frozen distribution of .*, got float"
    ):
        f(1.0, G)
    with pytest.raises(TypeError, match=r"q must be a Law or a sample: .* must be real numbers"):
        f(G, ["a", "b"])
    with pytest.raises(ValueError, match=r"same shape, got \(\) and \(2,\)"):
        f(G, joint)
    if f is not kl:
        with pytest.raises(
            ValueError, match=r"needs laws of one number, p and q are joint of shape \(2,\)"
        ):
            f(joint, joint)


def test_mixture_of_points_against_samples(draws):
    """A law with an atom against samples: the jump lies between samples."""
    p, q = GaussianMixture([0.0, 0.0], [0.0, 1.0], [0.5, 0.5]), Empirical(draws[0])
    below, up_to = (draws[0] < 0).mean(), (draws[0] <= 0).mean()
    assert kolmogorov(p, q).value >= max(abs(below - 0.25), abs(up_to - 0.75)) - 1e-12
    assert wasserstein1(p, q).value == pytest.approx(0.5 * np.sqrt(2 / np.pi), abs=0.05)
