"""Moments of laws of high order: against exact numbers, where they overflow, and derivatives."""

import math

import jax
import mpmath
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi

pytestmark = pytest.mark.usefixtures("as_user")


@pytest.mark.parametrize("k", [2, 30, 100, 200, 300])
def test_moments_of_a_normal(k):
    """(k − 1)!! as far as float64 holds it, also through a nonlinearity and a sum of heads."""
    exact = float(mpmath.fac2(k - 1))
    for normal in (ll.Gaussian(0.0, 1.0), ll.HeadSum([1.0], 1), ll.HeadSum([1.0], 10**6)):
        assert normal.moment(k) == pytest.approx(exact, rel=1e-13)
        assert normal.error.moment(k) == 0
    base = ll.Gaussian(0.0, 1.0)
    assert ll.Pushforward(phi.relu, base).moment(k) == pytest.approx(exact / 2, rel=1e-13)
    assert ll.Pushforward(phi.abs_, base).moment(k) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("k", [12, 100, 101, 200])
def test_moments_of_a_mixture(k):
    """Components of very different size, and means of either sign, against mpmath."""
    means, variances = (1.0, -30.0, 1e-3), (1.0, 4.0, 1e-6)

    def exact(m, v):
        terms = (
            mpmath.binomial(k, 2 * j) * mpmath.fac2(2 * j - 1) * m ** (k - 2 * j) * v**j
            for j in range(k // 2 + 1)
        )
        return mpmath.fsum(terms)

    with mpmath.workdps(50):
        each = [exact(mpmath.mpf(m), mpmath.mpf(v)) for m, v in zip(means, variances, strict=True)]
        expected = float(mpmath.fsum(each) / 3)
    mixture = ll.GaussianMixture(np.array(means), np.array(variances))
    assert mixture.moment(k) == pytest.approx(expected, rel=1e-12)
    error = mixture.error.moment(k)  # one component of three carries it, whose skewness counts
    assert abs(expected) <= error <= 1.5 * abs(expected)


@pytest.mark.parametrize("heads", [1, 2, 7])
@pytest.mark.parametrize("k", [40, 120, 200])
def test_moments_of_heads(heads, k):
    """Against the same power series in mpmath: nothing cancels at high orders."""
    v, w, n = (0.3, 1.0, 4.0), (0.5, 0.25, 0.25), k // 2
    with mpmath.workdps(60):
        series = [
            mpmath.fsum(b * mpmath.mpf(a) ** j for a, b in zip(v, w, strict=True)) / mpmath.fac(j)
            for j in range(n + 1)
        ]
        c = [mpmath.mpf(1)] + [mpmath.mpf(0)] * n
        for _ in range(heads):
            c = [mpmath.fsum(c[i] * series[m - i] for i in range(m + 1)) for m in range(n + 1)]
        exact = float(c[n] * mpmath.fac(k) / (2 * heads) ** n)
    assert ll.HeadSum(v, heads, w).moment(k) == pytest.approx(exact, rel=1e-12)


def test_moments_that_overflow():
    """Infinite where float64 ends, never NaN; zero where the law is symmetric."""
    for big in (
        ll.Gaussian(0.0, 1e12),
        ll.HeadSum([1e12], 3),
        ll.Empirical([-1e10, 1e10]),
        ll.Gaussian(1e200, 1.0),
    ):
        assert big.moment(200) == math.inf
        assert not np.isnan(big.error.moment(200))
    assert ll.Gaussian(-1e200, 1.0).moment(3) == -math.inf
    assert ll.Gaussian(0.0, 1e12).moment(201) == 0
    assert ll.Gaussian(0.0, 1e-12).moment(200) == 0
    assert ll.Gaussian(3.0, 0.0).moment(250) == pytest.approx(3.0**250, rel=1e-13)
    mixture = ll.GaussianMixture(np.zeros(5), np.geomspace(1e-3, 1e3, 5))
    assert mixture.moment(240) == math.inf
    assert mixture.error.moment(240) == math.inf


def test_moments_have_derivatives():
    """d/dm E Y^6 = 6 E Y^5 and d/dv E Y^6 = 15 E Y^4 for Y ~ N(m, v)."""
    normal = ll.Gaussian(0.5, 1.3)
    assert jax.grad(lambda m: ll.Gaussian(m, 1.3).moment(6))(0.5) == pytest.approx(
        6 * float(normal.moment(5)), rel=1e-13
    )
    assert jax.grad(lambda v: ll.Gaussian(0.5, v).moment(6))(1.3) == pytest.approx(
        15 * float(normal.moment(4)), rel=1e-13
    )
