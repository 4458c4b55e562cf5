"""Entropies: of saturated images, of components of very different scale,
and the error that the quadrature states.
"""

import itertools
import math

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erfc, ndtr
from scipy.stats import norm

import limitlaw as ll
from limitlaw import phi as nl
from limitlaw.laws import Gaussian, GaussianMixture, Pushforward
from limitlaw.phi.preimages import log_slopes

# log φ' of functions that saturate, to any number of digits
SLOPES = {
    nl.tanh: lambda x: 2 * mpmath.log(mpmath.sech(x)),
    nl.sigmoid: lambda x: -mpmath.log(2 + mpmath.exp(x) + mpmath.exp(-x)),
    nl.erf: lambda x: mpmath.log(2 / mpmath.sqrt(mpmath.pi)) - x**2,
    nl.softplus: lambda x: -mpmath.log1p(mpmath.exp(-x)),
    nl.gelu: lambda x: mpmath.log(abs(mpmath.erfc(-x / mpmath.sqrt(2)) / 2 + x * mpmath.npdf(x))),
    nl.silu: lambda x: mpmath.log(abs((1 + x / (1 + mpmath.exp(x))) / (1 + mpmath.exp(-x)))),
}


def holds(law, exact: float) -> None:
    """Within 5 stated errors, which are small."""
    value, error = float(law.entropy()), float(law.error.entropy())
    scale = max(1.0, abs(exact))
    assert abs(value - exact) <= 5 * error + 1e-13 * scale, (value, exact, error)
    assert error < 1e-9 * scale


@pytest.mark.parametrize("phi", SLOPES, ids=lambda phi: phi.name)
def test_log_slopes(phi):
    """To rounding, also where slopes round to 0."""
    x = np.array(
        [-300.0, -100, -37, -20, -9, -3, -0.3, -1e-3, 0, 1e-3, 0.4, 1, 3, 9, 19.3, 40, 300]
    )
    with mpmath.workdps(300):
        exact = [float(SLOPES[phi](mpmath.mpf(a))) for a in x]
    np.testing.assert_allclose(log_slopes(phi, jnp.asarray(x)), exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("sd", [1e-3, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    "phi", [nl.tanh, nl.sigmoid, nl.erf, nl.softplus], ids=lambda phi: phi.name
)
def test_one_to_one_images(phi, sd):
    """h(φ(Y)) = h(Y) + E log φ'(Y); most of tanh(Y) rounds to ±1 at sd 100."""
    m = 0.3
    with mpmath.workdps(30):
        edges = sorted([0, *(m + sd * k for k in range(-12, 13))])
        mean = mpmath.quad(lambda y: mpmath.npdf(y, m, sd) * SLOPES[phi](y), edges)
    holds(Pushforward(phi, Gaussian(m, sd**2)), float(Gaussian(m, sd**2).entropy()) + float(mean))


@pytest.mark.parametrize("sd", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("phi", [nl.sin, nl.cos], ids=lambda phi: phi.name)
def test_waves(phi, sd):
    """The angle folded into one half turn has a smooth density g, and h = −E log(g/|φ'|)."""
    m = 0.3 + (math.pi / 2 if phi is nl.cos else 0)  # cos y = sin(y + π/2)
    turns = 2 * math.pi * np.arange(-80, 81)
    g = lambda t: norm.pdf(t + turns, m, sd).sum() + norm.pdf(math.pi - t + turns, m, sd).sum()
    smooth = lambda t: -g(t) * (math.log(g(t)) if g(t) > 0 else 0)
    edges = sorted(
        {
            -math.pi / 2,
            *np.clip([m - 2 * sd, m, m + 2 * sd, math.pi - m], -math.pi / 2, math.pi / 2),
            math.pi / 2,
        }
    )
    exact = sum(
        quad(smooth, a, b, epsabs=1e-13, limit=200)[0]
        + quad(lambda t: g(t) * math.log(math.cos(t)), a, b, limit=400)[0]
        for a, b in itertools.pairwise(edges)
    )
    law = Pushforward(phi, Gaussian(0.3, sd**2))
    assert float(law.entropy()) == pytest.approx(exact, abs=1e-9)
    holds(law, float(law.entropy()))


def two_branches(phi, slope, at: float, m: float, sd: float) -> float:
    """−∫ p log p dy over the right branch of a φ that falls, then rises:
    two preimages of each φ(at) < y < 0.
    """

    def density(x: float) -> float:
        p = norm.pdf(x, m, sd) / slope(x)
        if x >= 0:
            return p
        other = brentq(lambda z: phi(z) - phi(x), -60, at, xtol=1e-14)
        return p - norm.pdf(other, m, sd) / slope(other)

    f = lambda x: -density(x) * math.log(density(x)) * slope(x)
    left = quad(
        f, at + 1e-7, -1e-9, points=[at + 1e-4, at + 1e-2, -1e-3, -1e-6], epsabs=1e-10, limit=400
    )[0]
    return left + quad(f, 0, m + 12 * sd, points=[m, m + 3 * sd], epsabs=1e-12, limit=400)[0]


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_two_branches(name):
    """Where two branches meet the density is infinite, and φ(x) rounds."""
    if name == "gelu":
        phi, slope = (lambda x: x * ndtr(x)), (lambda x: erfc(-x / 2**0.5) / 2 + x * norm.pdf(x))
    else:
        phi, slope = (
            (lambda x: x / (1 + np.exp(-x))),
            (lambda x: (1 + x / (1 + np.exp(x))) / (1 + np.exp(-x))),
        )
    at = brentq(slope, -2.0, -0.5, xtol=1e-15)
    law = Pushforward(getattr(nl, name), Gaussian(0.3, 1.0))
    assert float(law.entropy()) == pytest.approx(two_branches(phi, slope, at, 0.3, 1.0), abs=5e-6)
    holds(law, float(law.entropy()))


def test_wide_gelu():
    """Far left φ(x) underflows, with half of the mass:
    there h is that of Y plus E log |φ'|, right of 0 that of Y.
    """
    sd = 1e3
    law = Pushforward(nl.gelu, Gaussian(0.0, sd**2))
    left = (
        -0.5 * (sd**2 + math.log(2 * math.pi))
        + math.log(sd)
        + 0.5 * (math.log(2) - np.euler_gamma)
        - math.log(2) / 2
    )
    exact = float(Gaussian(0.0, sd**2).entropy()) + 0.5 * left
    assert float(law.entropy()) == pytest.approx(exact, rel=1e-3)
    assert 0 < float(law.error.entropy()) < 1e-6 * abs(exact)


def test_scales_apart():
    """Components that do not overlap: Σ w (h − log w)."""
    w, m, s = np.array([0.9, 0.0999, 1e-4]), np.array([0.0, 1e3, -5e8]), np.array([1e-6, 1.0, 1e6])
    exact = np.sum(w * (np.log(s / w) + 0.5 * math.log(2 * math.pi * math.e)))
    holds(GaussianMixture(m, s**2, w), float(exact))


def test_saturated_networks():
    """They end; the entropy of a one-to-one image is that of its argument and E log φ'."""
    y = (ll.attention(10 * ll.initial((3,)), 2))[0]
    base = ll.finite(y, 8, 400, 0)
    for phi, program in ((nl.tanh, ll.tanh), (nl.sigmoid, ll.sigmoid)):
        law = ll.finite(program(y), 8, 400, 0)
        x = np.linspace(-400, 400, 400_001)
        slopes = float(
            np.sum(np.asarray(base.pdf(x)) * np.asarray(log_slopes(phi, jnp.asarray(x))))
        ) * (x[1] - x[0])
        assert float(law.entropy()) == pytest.approx(float(base.entropy()) + slopes, abs=1e-6)
        assert 1e-4 < float(law.error.entropy()) < 10


@pytest.mark.parametrize(
    "phi", [nl.gelu, nl.silu, nl.sin, nl.abs_, nl.softplus, nl.erf], ids=lambda phi: phi.name
)
def test_images_of_networks_end(phi):
    """Other images of sampled laws, with narrow components among wide ones."""
    random = np.random.default_rng(0)
    base = GaussianMixture(random.normal(size=400), 10 ** random.uniform(-6, 1, 400))
    law = Pushforward(phi, base)
    assert math.isfinite(law.entropy())
    assert 1e-3 < float(law.error.entropy()) < 100
