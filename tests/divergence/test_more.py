"""Jensen–Shannon, Hellinger and W₂; distributions of scipy.stats, and plain samples."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad

from limitlaw import divergence as dv
from limitlaw import phi as nl
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, HeadSum, Pushforward

P, Q = Gaussian(0.0, 1.0), Gaussian(0.7, 2.5)


def gaussian_hellinger(m: float, s: float, t: float) -> float:
    return math.sqrt(
        1 - math.sqrt(2 * s * t / (s**2 + t**2)) * math.exp(-(m**2) / 4 / (s**2 + t**2))
    )


def within(d: dv.Divergence, expected: float, times: float = 1.0, slack: float = 1e-15) -> None:
    assert abs(d.value - expected) <= times * d.error + slack
    assert d.error < 1e-9 or times > 1


def test_gaussians() -> None:
    """Closed forms, and quadrature where there is none; small distances keep their digits."""
    within(dv.hellinger(P, Q), gaussian_hellinger(0.7, 1, math.sqrt(2.5)))
    within(dv.wasserstein2(P, Q), math.hypot(0.7, math.sqrt(2.5) - 1), slack=1e-12)
    p, q = scipy.stats.norm(0, 1), scipy.stats.norm(0.7, math.sqrt(2.5))

    def half(x: float) -> float:
        m = (p.pdf(x) + q.pdf(x)) / 2
        return (p.pdf(x) * math.log(p.pdf(x) / m) + q.pdf(x) * math.log(q.pdf(x) / m)) / 2

    assert float(dv.jensen_shannon(P, Q)) == pytest.approx(
        quad(half, -20, 20, epsabs=1e-13, limit=200)[0], abs=1e-11
    )
    near = Gaussian(1e-6, 1.0)
    assert float(dv.wasserstein2(P, near)) == pytest.approx(1e-6, rel=1e-5)
    assert float(dv.hellinger(P, near)) == pytest.approx(1e-6 / math.sqrt(8), rel=1e-6)
    assert float(dv.jensen_shannon(P, near)) == pytest.approx(1e-12 / 8, rel=1e-6)
    apart = Gaussian(300.0, 1.0)
    assert float(dv.jensen_shannon(P, apart)) == pytest.approx(math.log(2), rel=1e-12)
    assert float(dv.hellinger(P, apart)) == pytest.approx(1, rel=1e-12)
    for divergence in (dv.jensen_shannon, dv.hellinger, dv.wasserstein2):
        assert float(divergence(P, P)) == 0


def test_distributions_of_scipy() -> None:
    """In the place of either law, with the supports that they have."""
    within(dv.kl(P, scipy.stats.norm(0.7, math.sqrt(2.5))), float(dv.kl(P, Q)), slack=1e-13)
    assert dv.kl(P, scipy.stats.expon()).value == math.inf
    assert float(dv.kl(scipy.stats.expon(), scipy.stats.expon(0, 2))) == pytest.approx(
        math.log(2) - 0.5, rel=1e-10
    )
    shift = dv.wasserstein2(scipy.stats.expon(), scipy.stats.expon(0.25))
    assert float(shift) == pytest.approx(0.25, rel=1e-9)
    assert float(
        dv.wasserstein1(scipy.stats.uniform(), scipy.stats.uniform(0.5))
    ) == pytest.approx(0.5, rel=1e-10)
    assert float(dv.hellinger(scipy.stats.uniform(), scipy.stats.uniform(0.5))) == pytest.approx(
        math.sqrt(0.5), rel=1e-10
    )
    assert dv.wasserstein2(P, scipy.stats.cauchy()).value == math.inf
    joint = scipy.stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]])
    d = dv.hellinger(Gaussian(np.zeros(2), np.eye(2)), joint)
    affinity = 0.75**0.25 / math.sqrt(np.linalg.det([[1, 0.25], [0.25, 1]]))
    assert abs(d.value - math.sqrt(1 - affinity)) < 5 * d.error < 0.05


def test_plain_samples() -> None:
    """Against SciPy's statistics of two samples, and against a law within the noise."""
    random = np.random.default_rng(0)
    a, b = random.normal(size=500), random.normal(0.5, 2, size=400)
    assert float(dv.wasserstein1(a, b)) == pytest.approx(
        scipy.stats.wasserstein_distance(a, b), rel=1e-12
    )
    assert float(dv.kolmogorov(a, b)) == pytest.approx(
        scipy.stats.ks_2samp(a, b).statistic, rel=1e-12
    )
    assert float(dv.kolmogorov(a, P)) == pytest.approx(
        scipy.stats.kstest(a, P.cdf).statistic, rel=1e-12
    )
    exact = Empirical(a, kind="exact")
    order = np.abs(np.sort(a) - np.sort(a + 0.3)).max()
    assert float(dv.wasserstein2(exact, Empirical(a + 0.3, kind="exact"))) == pytest.approx(
        order, rel=1e-12
    )
    z = np.sort(random.normal(size=4000))
    d = dv.wasserstein2(z * 1.5 + 1, P)
    assert abs(d.value - math.hypot(1, 0.5)) < 5 * d.error < 0.3


def test_noise_of_order_two() -> None:
    """Of sampled mixtures the noise is subtracted, and stated."""
    random = np.random.default_rng(3)
    draw = lambda: GaussianMixture(random.normal(size=256), np.full(256, 0.5))
    truth = Gaussian(0.0, 1.5)
    found = [dv.wasserstein2(draw(), truth) for _ in range(3)]
    shifted = [dv.wasserstein2(draw(), Gaussian(1.0, 1.5)) for _ in range(5)]
    assert all(d.value < 4 * d.error for d in found)
    deviations = np.array([(d.value - 1) / d.error for d in shifted])
    assert np.abs(deviations).max() < 4
    assert np.abs(deviations).mean() > 0.2  # not much too large either


def test_atoms_and_sums() -> None:
    """ReLU of a Gaussian against another: both quantiles are 0 up to ½.
    Sums over heads against their mixture.
    """
    p, q = (Pushforward(nl.relu, Gaussian(0.0, v)) for v in (1.0, 4.0))
    assert float(dv.wasserstein2(p, q)) == pytest.approx(math.sqrt(0.5), rel=1e-9)
    v, w = np.array([0.5, 2.0]), np.array([0.25, 0.75])
    heads, mixture = HeadSum(v, 1, w), GaussianMixture(np.zeros(2), v, w)
    assert float(dv.wasserstein2(heads, mixture)) < 1e-9


def test_messages(as_user: None) -> None:
    with pytest.raises(
        TypeError, match=r"q must be a Law, a frozen distribution of scipy.stats or an array"
    ):
        dv.kl(P, "normal")
    with pytest.raises(TypeError, match=r"q cannot be compared: .*write scipy.stats.norm"):
        dv.kl(P, scipy.stats.norm)
    with pytest.raises(TypeError, match="q cannot be compared: discrete"):
        dv.kl(P, scipy.stats.poisson(3))
    with pytest.raises(ValueError, match="jensen_shannon needs densities"):
        dv.jensen_shannon(P, np.zeros(3))
