"""Gaussians and mixtures: closed forms, and scipy's adaptive quadrature."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from limitlaw.divergence import Divergence, kl, kolmogorov, total_variation, wasserstein1
from limitlaw.divergence.two_laws import excess, relative
from limitlaw.laws import Gaussian, GaussianMixture

PAIRS = [
    ((0.0, 1.0), (1.0, 2.0)),
    ((1.0, 2.0), (0.0, 1.0)),
    ((0.0, 4.0), (0.0, 1e-2)),
    ((5.0, 1e-4), (0.0, 1.0)),
    ((0.0, 1.0), (8.0, 0.01)),
    ((1e6, 1.0), (1e6 + 3, 0.5)),
    ((0.0, 1e-12), (1e-6, 3e-12)),
]


def gaussian_kl(m: float, v: float, M: float, V: float) -> float:
    return 0.5 * (v / V - 1 - math.log(v / V) + (m - M) ** 2 / V)


def agrees(d: Divergence, exact: float, relative: float = 1e-10) -> None:
    """Within the relative accuracy, and within the error that is stated."""
    assert abs(d.value - exact) <= relative * abs(exact), (d, exact)
    assert abs(d.value - exact) <= d.error + 1e-13 * abs(exact), (d, exact)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_kl_of_gaussians(p, q):
    """½(v/V − 1 − log(v/V) + (m − M)²/V), far apart and narrow ones too."""
    agrees(kl(Gaussian(*p), Gaussian(*q)), gaussian_kl(*p, *q))


@pytest.mark.parametrize("e", [1e-3, 1e-5, 1e-7])
def test_kl_of_nearly_equal_gaussians(e):
    """Small divergences keep their digits: ½(1/(1 + e)
    − 1 + log(1 + e)) = e²/4 − e³/3 + 3e⁴/8 − …
    """
    exact = sum((-1) ** k * e**k * (1 - 1 / k) / 2 for k in range(2, 8))
    d = kl(Gaussian(0.0, 1.0), Gaussian(0.0, 1 + e))
    assert d.value == pytest.approx(exact, rel=1e-8 * max(1, 1e-5 / e))
    assert abs(d.value - exact) <= d.error


def test_kl_of_equal_laws():
    """Zero, to rounding squared; and zero exactly for one law."""
    p = Gaussian(0.3, 2.0)
    assert abs(kl(p, Gaussian(0.3, 2.0)).value) < 1e-28
    for f in (kl, total_variation, wasserstein1, kolmogorov):
        assert f(p, p) == Divergence(0.0, 0.0)


@pytest.mark.parametrize("shift", [1e-6, 0.3, 7.0])
def test_shifted_gaussians(shift):
    """Shift h, sd 2: TV = K = 2Φ(h/4) − 1, W1 = h."""
    p, q = Gaussian(0.5, 4.0), Gaussian(0.5 + shift, 4.0)
    exact = math.erf(shift / 4 / math.sqrt(2))
    agrees(wasserstein1(p, q), (0.5 + shift) - 0.5, 1e-9)
    for f in (total_variation, kolmogorov):
        d = f(p, q)
        assert d.value == pytest.approx(exact, rel=1e-9)


def test_scaled_gaussians():
    """sd 1 and s: W1 = (s − 1) √(2/π); densities cross at ±x, and TV = 2 (Φ(x) − Φ(x/s))."""
    s = 1.7
    p, q = Gaussian(0.0, 1.0), Gaussian(0.0, s**2)
    x = math.sqrt(2 * math.log(s) / (1 - s**-2))
    exact = norm.cdf(x) - norm.cdf(x / s)
    agrees(wasserstein1(p, q), (s - 1) * math.sqrt(2 / math.pi))
    agrees(total_variation(p, q), 2 * exact)
    agrees(kolmogorov(q, p), exact)


PARTS = ((0.3, 0.0, 1.0), (0.3, 1.0, 0.1), (0.4, -2.0, 0.5))  # weight, mean, variance


def mixture() -> GaussianMixture:
    w, m, v = zip(*PARTS, strict=True)
    return GaussianMixture(m, v, w)


def pdf(x):
    return sum(w * norm.pdf(x, m, v**0.5) for w, m, v in PARTS)


def cdf(x):
    return sum(w * norm.cdf(x, m, v**0.5) for w, m, v in PARTS)


def integral(f):
    return quad(f, -20, 20, points=[-2, 0, 1], limit=800, epsabs=1e-13, epsrel=1e-12)[0]


def test_mixture_against_scipy():
    """All four, and both directions of KL."""
    p, q, law = mixture(), Gaussian(0.0, 2.0), norm(0, 2**0.5)
    agrees(kl(p, q), integral(lambda x: pdf(x) * (np.log(pdf(x)) - law.logpdf(x))))
    agrees(kl(q, p), integral(lambda x: law.pdf(x) * (law.logpdf(x) - np.log(pdf(x)))))
    assert total_variation(p, q).value == pytest.approx(
        integral(lambda x: abs(pdf(x) - law.pdf(x))) / 2, rel=1e-8
    )
    assert wasserstein1(p, q).value == pytest.approx(
        integral(lambda x: abs(cdf(x) - law.cdf(x))), rel=1e-8
    )
    crossings = [
        brentq(lambda x: pdf(x) - law.pdf(x), a, a + 0.1)
        for a in np.arange(-6, 6, 0.1)
        if _changes(a, law)
    ]
    assert kolmogorov(p, q).value == pytest.approx(
        max(abs(cdf(x) - law.cdf(x)) for x in crossings), rel=1e-12
    )


def _changes(a, law):
    return (pdf(a) - law.pdf(a)) * (pdf(a + 0.1) - law.pdf(a + 0.1)) < 0


def test_narrow_components():
    """A thin component of little weight far out is seen."""
    p = GaussianMixture([0.0, 7.3], [1.0, 1e-6], [1 - 1e-3, 1e-3])
    d = total_variation(p, Gaussian(0.0, 1.0))
    assert d.value == pytest.approx(1e-3, rel=1e-6)


def test_far_tails_underflow():
    """p log(p/q) is 0 where p underflows, finite where q does, infinite only where q = 0 < p."""
    f = relative(
        np.array([-800.0, -1.0, -800.0, -1.0, -np.inf, -np.inf]),
        np.array([-1e4, -1e3, -1.0, -np.inf, -1.0, -np.inf]),
    )
    np.testing.assert_allclose(
        f, [0, math.exp(-1) * 998, math.exp(-1), np.inf, math.exp(-1), 0], rtol=1e-15
    )


def test_excess():
    """e^s − 1 − s to full relative accuracy on both sides of the series."""
    s = np.array([-30.0, -0.5, -0.49999, -1e-3, 1e-9, 0.3, 0.49999, 0.5, 1.0])
    with mpmath.workdps(50):
        exact = [float(mpmath.exp(mpmath.mpf(x)) - 1 - mpmath.mpf(x)) for x in s]
    np.testing.assert_allclose(excess(s), exact, rtol=3e-15)


def test_printing():
    """To the digits that the error leaves."""
    assert str(Divergence(2.2171e-2, 9.1e-5)) == "2.217e-02 ± 9e-05"
    assert str(Divergence(3e-7, 2e-5)) == "3e-07 ± 2e-05"
    assert str(Divergence(math.inf, 0.0)) == "inf ± 0"
    assert str(Divergence(0.0, 0.0)) == "0e+00 ± 0e+00"
    assert float(Divergence(0.5, 0.1)) == 0.5
