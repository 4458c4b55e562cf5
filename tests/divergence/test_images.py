"""Images φ(Y): one-to-one images keep KL, TV and Kolmogorov;
cos has poles; bounded and atomic laws.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from limitlaw import phi as nl
from limitlaw.divergence import kl, kolmogorov, total_variation, wasserstein1
from limitlaw.laws import Gaussian, GaussianMixture, Pushforward

P, Q = Gaussian(0.3, 1.0), Gaussian(0.0, 1.5)


@pytest.mark.parametrize("phi", [nl.sigmoid, nl.leaky_relu(0.1)], ids=["sigmoid", "leaky_relu"])
def test_one_to_one(phi):
    """A change of variable changes none of the three."""
    p, q = Pushforward(phi, P), Pushforward(phi, Q)
    for f in (kl, total_variation, kolmogorov):
        assert f(p, q).value == pytest.approx(f(P, Q).value, rel=1e-10)


def test_poles():
    """cos Y: its density is infinite at ±1; that of the angle,
    Y folded into [0, π], is smooth and periodic.
    """
    angle = (np.arange(400) + 0.5) * math.pi / 400
    turns = 2 * math.pi * np.arange(-2, 3)[:, None]
    laws = ((0.3, 0.3), (0.0, 0.25))  # mean, sd
    f, g = (sum(norm.pdf(side * angle + turns, *law).sum(0) for side in (1, -1)) for law in laws)
    d = kl(*(Pushforward(nl.cos, Gaussian(m, sd**2)) for m, sd in laws))
    assert d.value == pytest.approx(np.sum(f * np.log(f / g)) * math.pi / 400, rel=1e-6)
    assert d.error < 1e-6


def test_bounded():
    """q = 0 where p > 0 is infinite, the other direction is not:
    −E log N(S) − entropy of S = σ(Y).
    """
    s, q = Pushforward(nl.sigmoid, Gaussian(0.0, 1.0)), Gaussian(0.0, 1.0)
    assert kl(q, s).value == math.inf
    y = lambda x: 1 / (1 + math.exp(-x))
    log_s = lambda x: norm.logpdf(x) - math.log(y(x) * y(-x))
    exact = quad(
        lambda x: norm.pdf(x) * (log_s(x) - norm.logpdf(y(x))), -30, 30, epsabs=1e-13, limit=400
    )[0]
    assert kl(s, q).value == pytest.approx(exact, rel=1e-10)


def test_atoms():
    """Jumps are counted from both sides, and no divergence of densities is given."""
    p, q = GaussianMixture([0.0, 1.0], [0.0, 1.0], [0.3, 0.7]), Gaussian(0.0, 1.0)
    F = lambda x: 0.3 * (x >= 0) + 0.7 * norm.cdf(x - 1) - norm.cdf(x)
    exact = (
        quad(lambda x: abs(F(x)), -20, 0, limit=400)[0]
        + quad(lambda x: abs(F(x)), 0, 20, limit=400)[0]
    )
    assert wasserstein1(p, q).value == pytest.approx(exact, rel=1e-8)
    # at 0 from the left
    assert kolmogorov(p, q).value == pytest.approx(0.5 - 0.7 * norm.cdf(-1), rel=1e-12)
    for f in (kl, total_variation):
        with pytest.raises(
            ValueError, match=r"needs densities, and q has none: .*1 atom\(s\) carry 0.3"
        ):
            f(q, p)
    with pytest.raises(ValueError, match=r"p has atoms: 1 point\(s\) carry 0.5"):
        kl(Pushforward(nl.relu, q), q)
