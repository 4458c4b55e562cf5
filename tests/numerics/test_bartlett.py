"""The Bartlett factor: its shape, the law of its entries, and the Wishart law of T Tᵀ."""

import functools
import math

import jax
import numpy as np
import pytest
from scipy import stats

from limitlaw.engines.frames.fresh import Dimension, bartlett_units
from limitlaw.numerics.gaussian_vectors import bartlett

COUNT = 2**15
CASES = [(1, 5), (2, 1), (3, 3), (4, 2), (3, 64)]


@functools.cache
def draws(m, D):
    keys = jax.random.split(jax.random.key(m + D), COUNT // 8)
    T = jax.jit(jax.vmap(lambda key: bartlett(key, m, D, (4, 2))))(keys)
    return np.asarray(T, np.float64).reshape(-1, m, min(m, D))


@pytest.mark.parametrize(("m", "D"), CASES)
def test_entries(m, D):
    """χ_{D−i} on the diagonal, normals below, zeros above."""
    T = draws(m, D)
    for i in range(m):
        for j in range(min(m, D)):
            if i < j:
                assert (T[:, i, j] == 0).all()
            else:
                law = stats.chi(D - i) if i == j else stats.norm()
                assert stats.kstest(T[:, i, j], law.cdf).pvalue > 1e-5


@pytest.mark.parametrize(("m", "D"), CASES)
def test_entries_are_independent(m, D):
    """Uncorrelated as they are, squared and in modulus,
    also between the two copies on a `shape` axis.
    """
    T = draws(m, D).reshape(-1, 2, m, min(m, D))
    lower = np.tril_indices(m, 0, min(m, D))
    entries = T[:, :, *lower].reshape(len(T), -1)
    for f in (lambda x: x, np.square, np.abs):
        correlation = np.corrcoef(f(entries), rowvar=False)
        assert np.abs(correlation - np.eye(entries.shape[1])).max() < 5.5 / math.sqrt(len(T))


@pytest.mark.parametrize(("m", "D"), CASES)
def test_product_is_wishart(m, D):
    """Means D·I; variances D(1 + [i = j]); the determinant of the leading r × r block,
    Π χ²_{D−i}.
    """
    T = draws(m, D)
    W = T @ T.swapaxes(1, 2)
    error = 5.5 / math.sqrt(COUNT)
    variance = D * (1 + np.eye(m))
    assert (np.abs(W.mean(axis=0) - D * np.eye(m)) < error * np.sqrt(variance)).all()
    centred = (W - D * np.eye(m)) ** 2
    assert (np.abs(centred.mean(axis=0) - variance) < error * centred.std(axis=0)).all()
    r = min(m, D)
    volume = np.linalg.det(W[:, :r, :r] / D)
    assert abs(volume.mean() - math.prod((D - i) / D for i in range(r))) < error * volume.std()


@pytest.mark.parametrize(("m", "D"), [(3, 3), (4, 2)])
def test_same_law_as_gaussian_vectors(m, D):
    """Bounded statistics of the Gram matrix of m vectors that are drawn in full."""
    x = np.random.default_rng(0).standard_normal((COUNT, m, D))
    T = draws(m, D)
    grams = [a @ a.swapaxes(1, 2) for a in (x, T)]
    u = np.random.default_rng(1).standard_normal((3, m))
    for direction in u:
        first, second = (np.einsum("kij,i,j->k", G, direction, direction) for G in grams)
        assert stats.ks_2samp(first, second).pvalue > 1e-4
    first, second = (np.tanh(G[:, 0, 1] * G[:, 1, 1] / D) for G in grams)
    assert stats.ks_2samp(first, second).pvalue > 1e-4


def test_unit():
    key = jax.random.key(0)

    def unit(D: int | float, shape: tuple[int, ...] = ()) -> jax.Array:
        return bartlett_units(key, 3, Dimension(D, ask=lambda axes: None), shape)

    four, plain, near = jax.jit(lambda: (unit(4, (2,)), bartlett(key, 3, 4, (2,)), unit(10**12)))()
    np.testing.assert_allclose(four, plain / 2, rtol=1e-15)
    assert 0 < np.abs(near - np.eye(3)).max() < 1e-5
    limit = unit(math.inf, (5, 2))
    np.testing.assert_array_equal(limit, np.broadcast_to(np.eye(3), (5, 2, 3, 3)))


def test_refusals():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="D must be a positive integer, got 0"):
        bartlett(key, 2, 0)
    with pytest.raises(ValueError, match="m must be a positive integer, got 0"):
        bartlett(key, 0, 3)
