"""Closed forms that cancel state an error, and are not called exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi as nl
from limitlaw.phi import Nonlinearity, moments

C = 1e5
M, K = np.array([0.3, -1.1, 2.0, 0.0]), np.array([1.0, 0.2, 3.0, 1e-4])


def cancelling(m, k):
    """E u³ = E (u + C)³ − 3C E u² − 3C² E u − C³."""
    return (m + C) ** 3 + 3 * (m + C) * k - 3 * C * (m**2 + k) - 3 * C**2 * m - C**3


def cube(mean, **facts):
    return Nonlinearity("cube", lambda x: x**3, True, False, kinks=(), mean=mean, **facts)


BAD = cube(cancelling)
GOOD = cube(lambda m, k: m**3 + 3 * m * k)


@pytest.mark.parametrize("compiled", [False, True])
def test_errors_hold(compiled):
    """Of means and slopes, to ten times what is stated, which is the standard deviation of
    roundings; and are no larger than is needed.
    """
    for moment, truth in (
        (moments.mean_with_error, M**3 + 3 * M * K),
        (moments.slope_with_error, 3 * M**2 + 3 * K),
    ):
        found = lambda m, k, moment=moment: moment(BAD, m, k)
        value, error = (jax.jit(found) if compiled else found)(M, K)
        off = np.abs(np.asarray(value) - truth)
        assert (off > 1e-9).any()
        assert (off <= 10 * error).all(), (off, error)
        assert (np.asarray(error) < 1e-16 * C**3).all()
        value, error = moment(GOOD, M, K)
        np.testing.assert_allclose(value, truth, rtol=1e-14, atol=1e-18)
        assert (np.asarray(error) == 0).all()


def test_products_with_the_identity():
    """E u φ(v) is a slope: so is its error."""
    value, error = moments.product_with_error(nl.identity, BAD, None, 0.3, 2.0, 0.5, 1.0)
    truth = 0.5 * (3 * 0.3**2 + 3)
    assert 0 < abs(value - truth) <= 10 * error < 1e-3


def test_what_is_called_exact():
    """Not what cancels; what declares that it is right is believed."""
    assert not moments.mean_is_closed(BAD)
    assert moments.mean_is_closed(GOOD)
    assert moments.mean_is_closed(cube(cancelling, accuracy=0.0))
    x = ll.initial(2, cov=np.array([[1.0, 0.6], [0.6, 2.0]]), mean=0.3)
    good, bad = (ll.kernel(ll.stack([ll.map(phi, x[0]), x[1]])) for phi in (GOOD, BAD))
    off = np.abs(np.asarray(bad) - np.asarray(good))
    assert off[0, 1] > 1e-9
    assert off[0, 1] <= 10 * bad.error[0, 1]


def test_of_the_catalogue():
    """What says that it is exact keeps its digits."""
    for phi in (nl.relu, nl.abs_, nl.sign, nl.erf, nl.gelu, nl.sin, nl.cos, nl.identity):
        assert phi.accuracy == 0
        unsaid = cube(phi.mean)
        assert moments.mean_is_closed(unsaid)
        assert float(jnp.max(moments.mean_with_error(unsaid, M, K)[1])) == 0
