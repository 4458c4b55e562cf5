"""Estimators of divergences: the paper's against scipy,
the exact ones against closed forms, their bias and errors.
"""

import math

import numpy as np
import pytest
import scipy.stats

from limitlaw.apps.paper.computed.estimators import (
    kde,
    kl_of_blocks,
    kl_of_difference,
    kl_of_samples,
    mixture_density,
    nodes,
    slope,
)


def gaussian_kl(ratio: float) -> float:
    """D(N(0, r) ‖ N(0, 1)) = ½ (r − 1 − log r)."""
    return 0.5 * (ratio - 1 - math.log1p(ratio - 1))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_kde_is_that_of_scipy(scale):
    """Scott's bandwidth and the normal kernel: scipy.stats.gaussian_kde to 1e-12,
    in the tails too.
    """
    samples = scale * (1 + np.random.default_rng(0).standard_t(5, 2000))
    y = np.linspace(2 * samples.min(), 2 * samples.max(), 101)
    expected = scipy.stats.gaussian_kde(samples)(y)
    np.testing.assert_allclose(kde(samples, y), expected, rtol=1e-12, atol=1e-12 * expected.max())


def test_kl_of_samples():
    """0 for equal samples, about ½ 0.5² for N(0, 1)
    and N(0.5, 1), not symmetric, and finite without overlap.
    """
    rng = np.random.default_rng(1)
    p, q = rng.standard_normal(20_000), 0.5 + rng.standard_normal(20_000)
    assert kl_of_samples(p, p) == 0
    assert kl_of_samples(p, q) == pytest.approx(0.125, abs=0.01)
    assert kl_of_samples(p, 2 * p) == pytest.approx(0.5 * (0.25 - 1 + math.log(4)), abs=0.02)
    assert 5 < kl_of_samples(p[:1000], 100 + q[:1000]) < math.inf


def test_kl_of_samples_by_hand():
    """The paper's rule, written with scipy: both estimates on 500 points,
    1e-10 added, each made a distribution.
    """
    rng = np.random.default_rng(2)
    p, q = rng.standard_normal(300), 1.3 * rng.standard_normal(400)
    grid = np.linspace(min(p.min(), q.min()), max(p.max(), q.max()), 500)
    first, second = (scipy.stats.gaussian_kde(each)(grid) + 1e-10 for each in (p, q))
    assert kl_of_samples(p, q) == pytest.approx(scipy.stats.entropy(first, second), rel=1e-10)


@pytest.mark.parametrize("variance", [1e-4, 0.39, 100.0])
def test_nodes(variance):
    """Moments of a Gaussian of this variance are exact to rounding,
    and of one of four times it nearly.
    """
    y, weights = nodes(variance)
    for wider, tolerance in ((1.0, 1e-13), (4.0, 1e-5)):
        density = mixture_density(np.array([wider * variance]), y)
        moments = [weights @ (density * y**k) / (wider * variance) ** (k / 2) for k in (0, 2, 4)]
        np.testing.assert_allclose(moments, [1, 1, 3], rtol=30 * tolerance)


def test_mixture_density():
    """The average of Gaussian densities over their variances."""
    v, y = np.array([0.5, 1.0, 3.0]), np.linspace(-4, 4, 9)
    expected = scipy.stats.norm.pdf(y[:, None], scale=np.sqrt(v)).mean(axis=1)
    np.testing.assert_allclose(mixture_density(v, y), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("ratio", "tolerance"), [(1.1, 1e-12), (0.9, 1e-12), (2.0, 1e-9), (1 + 1e-6, 1e-6)]
)
def test_kl_of_difference(ratio, tolerance):
    """Two centred Gaussians: the closed form, and with nearly equal ones all digits that their
    difference has.
    """
    y, weights = nodes(1.0)
    q = mixture_density(np.ones(1), y)
    exponent = 0.5 * y**2 * (1 - 1 / ratio) - 0.5 * math.log1p(ratio - 1)  # log(p/q)
    assert kl_of_difference(q * np.expm1(exponent), q, weights) == pytest.approx(
        gaussian_kl(ratio), rel=tolerance
    )


def test_kl_of_difference_at_the_edges():
    """Where p = 0 the integrand is q; noise below it counts as 0;
    on both sides of the series' end it is the same.
    """
    one = np.ones(1)
    assert kl_of_difference(-one, one, one) == pytest.approx(1, rel=1e-15)
    assert kl_of_difference(-2 * one, one, one) == pytest.approx(1, rel=1e-15)
    for u in (-1.001e-3, -0.999e-3, 0.999e-3, 1.001e-3):
        exact = u**2 / 2 - u**3 / 6 + u**4 / 12 - u**5 / 20 + u**6 / 30
        assert kl_of_difference(u * one, one, one) == pytest.approx(exact, rel=2e-10)


def test_blocks_have_no_bias():
    """Of pure noise the mean estimate is 0, that of the plain one is the noise;
    the error is the scatter to 25 %.
    """
    y, weights = nodes(1.0)
    q = mixture_density(np.ones(1), y)
    rng = np.random.default_rng(3)
    waves = np.stack([np.cos(k * y) for k in range(1, 9)])
    repeated = [1e-3 * rng.standard_normal((16, 8)) @ waves * q for _ in range(200)]
    estimates = np.array([kl_of_blocks(deltas, q, weights) for deltas in repeated])
    plain = np.array([kl_of_difference(deltas.mean(axis=0), q, weights) for deltas in repeated])
    scatter = estimates[:, 0].std()
    assert abs(estimates[:, 0].mean()) < 5 * scatter / math.sqrt(200)
    assert plain.mean() > 10 * plain.std() / math.sqrt(200)
    # 5 σ of a scatter of 200
    assert np.sqrt((estimates[:, 1] ** 2).mean()) == pytest.approx(scatter, rel=0.25)


def test_errors_of_blocks():
    """Where there is a difference, its divergence is found without bias,
    with an error that is the scatter.
    """
    y, weights = nodes(1.0)
    q = mixture_density(np.ones(1), y)
    delta = mixture_density(np.array([1.02]), y) - q
    rng = np.random.default_rng(4)
    waves = np.stack([np.cos(k * y) for k in range(1, 9)])
    estimates = np.array(
        [
            kl_of_blocks(delta + 3e-3 * rng.standard_normal((16, 8)) @ waves * q, q, weights)
            for _ in range(200)
        ]
    )
    scatter = estimates[:, 0].std()
    assert abs(estimates[:, 0].mean() - gaussian_kl(1.02)) < 5 * scatter / math.sqrt(200)
    assert np.sqrt((estimates[:, 1] ** 2).mean()) == pytest.approx(scatter, rel=0.25)


def test_slope():
    """A power law is found exactly, its error is that of the fit,
    and points without weight do not matter.
    """
    n = np.array([16.0, 64.0, 256.0, 1024.0])
    assert slope(n, 3 * n**-2, 0.01 * n**-2).value == pytest.approx(-2, abs=1e-12)
    assert slope(n, 5 * n**0.5, n).value == pytest.approx(0.5, abs=1e-12)
    bent = 3 * n**-2 * np.array([7.0, 1, 1, 1])
    assert slope(n, bent, bent * np.array([1e9, 0.01, 0.01, 0.01])).value == pytest.approx(
        -2, abs=1e-9
    )
    rng = np.random.default_rng(5)
    found = np.array(
        [slope(n, n**-2 * (1 + 0.01 * rng.standard_normal(4)), 0.01 * n**-2) for _ in range(500)]
    )
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.25)
    assert abs(found[:, 0].mean() + 2) < 5 * found[:, 0].std() / math.sqrt(500) + 1e-4
