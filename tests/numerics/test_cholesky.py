"""Cholesky factors by blocks of panels, which CPUs use, against LAPACK's by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics.linear_algebra import COLUMNS_OF_BLOCK, COLUMNS_OF_PANEL, cholesky

SIZES = [3, COLUMNS_OF_PANEL, 2 * COLUMNS_OF_PANEL + 7, 2 * COLUMNS_OF_BLOCK + 9]
factors = jax.jit(jax.vmap(cholesky))


def covariances(m):
    x = np.random.default_rng(m).standard_normal((3, m, m + 8))
    return x @ x.swapaxes(-1, -2) / m


@pytest.mark.parametrize("m", SIZES)
def test_factors(m):
    """Of one panel or block and of several, filled or not, each matrix of a batch by itself."""
    C = covariances(m)
    L = np.asarray(factors(jnp.asarray(C)))
    np.testing.assert_allclose(L, np.linalg.cholesky(C), atol=1e-13)
    assert (np.triu(L, 1) == 0).all()


def test_what_has_no_factor_is_nan():
    """In its own place of a batch alone, and from its first bad pivot on."""
    C = covariances(SIZES[-1])
    C[1, -1, -1] = -1.0
    L = np.asarray(factors(jnp.asarray(C)))
    np.testing.assert_allclose(L[[0, 2]], np.linalg.cholesky(C[[0, 2]]), atol=1e-13)
    assert np.isnan(L[1, -1, -1])
