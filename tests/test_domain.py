"""The domain of accuracy: what is beyond it is refused in one line, what is in it is right at both
ends.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import limitlaw as ll
from limitlaw.domain import RATIO_OF_VARIANCES, VARIANCES
from limitlaw.phi import looked_at, moments


@pytest.mark.parametrize(
    "make",
    [
        lambda: ll.initial(cov=1e13),
        lambda: ll.initial(cov=1e-13),
        lambda: ll.initial((2,), cov=np.diag([1e13, 1.0])),
        lambda: ll.Gaussian(0.0, 1e13),
        lambda: ll.Gaussian(np.zeros(2), 1e13),
        lambda: ll.GaussianMixture([0.0, 0.0], [1.0, 1e13]),
    ],
)
def test_beyond(make):
    with pytest.raises(ValueError, match=r"must be 0 or from 1e-12 to 1e\+12.*got 1e[+-]13") as e:
        make()
    assert "\n" not in str(e.value)


def test_zero_and_what_is_narrow_beside_something_wide():
    assert ll.limit(ll.initial(cov=0.0)).variance() == 0
    ll.initial((2,), cov=np.diag([1e-16, 1.0]))
    # as rounding leaves it of a zero
    assert ll.Gaussian(0.0, 1e-13).variance() == pytest.approx(1e-13)
    jax.jit(lambda v: ll.Gaussian(0.0, v).variance())(1.0)


@pytest.mark.parametrize("variance", VARIANCES)
def test_both_ends(variance):
    """Densities at 12 deviations, logarithms at 40, and images."""
    law, sd = ll.Gaussian(0.0, variance), math.sqrt(variance)
    assert law.pdf(12 * sd) == pytest.approx(norm.pdf(12) / sd, rel=1e-13)
    assert law.logpdf(40 * sd) == pytest.approx(norm.logpdf(40) - math.log(sd), rel=1e-14)
    assert law.logsf(40 * sd) == pytest.approx(norm.logsf(40), rel=1e-14)
    relu = ll.laws.Pushforward(ll.phi.relu, law)
    assert relu.mean() == pytest.approx(sd / math.sqrt(2 * math.pi), rel=1e-13)
    assert relu.kurtosis() == pytest.approx(
        float(ll.laws.Pushforward(ll.phi.relu, ll.Gaussian(0.0, 1.0)).kurtosis()), rel=1e-11
    )


def test_the_largest_ratio():
    law = ll.GaussianMixture([0.0, 0.0], [1.0, RATIO_OF_VARIANCES**-1], [0.5, 0.5])
    exact = 0.5 * (norm.pdf(1e-8) + 1e8 * norm.pdf(1))
    assert law.pdf(1e-8) == pytest.approx(exact, rel=1e-13)
    h = law.entropy()
    parts = 0.5 * (norm.entropy() + norm.entropy(scale=1e-8)) + math.log(2)
    assert abs(h - parts) <= 5 * law.error.entropy() + 1e-6


@pytest.mark.parametrize("c", [5.0, 9.0, 11.5])
def test_thresholds_far_out(c):
    """E (Z − c)₊, found by panels, and its error: digits, or the truth about those that lack."""
    phi = looked_at(lambda z: jnp.maximum(z - c, 0.0))
    exact = norm.pdf(c) - c * norm.sf(c)
    value, error = moments.mean_with_error(phi, 0.0, 1.0)
    assert abs(value - exact) <= 5 * error + 1e-11 * exact
    law = ll.laws.Pushforward(phi, ll.Gaussian(0.0, 1.0))
    assert abs(law.mean() - exact) <= 5 * law.error.mean() + 1e-11 * exact
    relu = ll.laws.Pushforward(ll.phi.relu, ll.Gaussian(-c, 1.0))
    assert relu.mean() == pytest.approx(exact, rel=1e-10)
