"""Lengths of Gaussian vectors as functions of a normal: both tails, order, and shapes."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.special import gammaincc, ndtr

from limitlaw.numerics.special_functions import FARTHEST_NORMAL, chi_quantile

DEGREES = [1.0, 2.0, 3.0, 13.0, 64.0, 1000.0, 65533.0]


@pytest.mark.parametrize("df", DEGREES)
def test_both_tails(df):
    """It is scipy's quantile, by ppf below the median and by isf above it,
    where each keeps its digits.
    """
    z = np.linspace(-8.9, 8.9, 357)
    law = scipy.stats.chi(df)
    expected = np.where(z < 0, law.ppf(ndtr(-np.abs(z))), law.isf(ndtr(-np.abs(z))))
    np.testing.assert_allclose(chi_quantile(df, z), expected, rtol=1e-10)


@pytest.mark.parametrize("df", [65533.0, 2.0**20, 2.0**31])
def test_many_dimensions(df):
    """Cornish and Fisher's series, whose error is below 1e-12 there,
    and not scipy's inverse, which loses digits.
    """
    z = np.linspace(-8.9, 8.9, 357)
    s = math.sqrt(2 * df)
    ratio = z / s * 2 + 2 / 3 * (z**2 - 1) / df + (z**3 - 7 * z) / (9 * s * df)
    ratio += -(6 * z**4 + 14 * z**2 - 32) / (405 * df**2) + (9 * z**5 + 256 * z**3 - 433 * z) / (
        4860 * s * df**2
    )
    np.testing.assert_allclose(chi_quantile(df, z), math.sqrt(df) * np.sqrt(1 + ratio), rtol=1e-11)


@pytest.mark.parametrize("df", [*DEGREES, 2.0**31])
def test_rises(df):
    """A larger normal is a longer vector, and beyond what normals reach no shorter one."""
    assert (
        np.diff(chi_quantile(df, np.linspace(-FARTHEST_NORMAL, FARTHEST_NORMAL, 2001))) > 0
    ).all()
    inside, outside = chi_quantile(df, np.array([FARTHEST_NORMAL, 40.0]))
    assert inside <= outside < math.inf
    assert 0 < chi_quantile(df, np.array(-40.0)) <= chi_quantile(df, np.array(-FARTHEST_NORMAL))


def test_closed_forms():
    """Without scipy's inverse: χ₂ = √(−2 log Φ(−z)), and P(χ₁₃ > x) = Φ(−z)."""
    z = np.array([-8.0, -3.0, -0.1, 0.0, 1.0, 4.0, 8.0])
    logarithm = np.where(z < 1, np.log1p(-ndtr(np.minimum(z, 1))), np.log(ndtr(-z)))
    np.testing.assert_allclose(chi_quantile(2.0, z), np.sqrt(-2 * logarithm), rtol=1e-10)
    np.testing.assert_allclose(gammaincc(6.5, chi_quantile(13.0, z) ** 2 / 2), ndtr(-z), rtol=1e-8)


@pytest.mark.parametrize("df", [3.0, 65533.0])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 3), (1, 2, 3, 4)])
def test_shapes(df, shape):
    """Entry by entry, for arrays of any shape."""
    z = np.random.default_rng(0).standard_normal(shape)
    found = chi_quantile(df, np.asarray(z))
    assert isinstance(found, np.ndarray)
    assert found.shape == shape
    np.testing.assert_array_equal(
        found.reshape(-1), [chi_quantile(df, np.array(each)) for each in np.ravel(z)]
    )
