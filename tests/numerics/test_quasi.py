"""Quasi-Monte Carlo sources: the law of the points,
exact low moments, and requests answered in order.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from limitlaw.numerics.gaussian_vectors import bartlett, chi
from limitlaw.numerics.random import MOST_DIMENSIONS, Quasi, Sobol, fold_in, nodes, normal, split


def test_points() -> None:
    """Each coordinate has its law, far more evenly than random points,
    and pairs are uncorrelated.
    """
    df = [math.inf, 1.0, 8.0, 64.0]
    x = Sobol(df, 0).take(4096)
    for j, d in enumerate(df):
        law = stats.norm() if math.isinf(d) else stats.chi(d)
        assert stats.kstest(x[:, j], law.cdf).statistic < 2 / 4096 * 10
    assert np.abs(np.corrcoef(x, rowvar=False) - np.eye(4)).max() < 0.01


def test_batches_continue_the_sequence() -> None:
    """Two batches are the points of one; other seeds scramble otherwise."""
    whole = Sobol([math.inf] * 3, 5).take(64)
    points = Sobol([math.inf] * 3, 5)
    np.testing.assert_array_equal(np.concatenate([points.take(16), points.take(48)]), whole)
    assert np.abs(Sobol([math.inf] * 3, 6).take(64) - whole).min() > 0
    assert Sobol([], 0).take(7).shape == (7, 0)


def test_nodes_integrate_quadratics_exactly() -> None:
    """Mean 0 and covariance I up to rounding; fourth moments to the accuracy of the sequence."""
    z = nodes(2**12, 6, 0)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(6), atol=1e-13)
    np.testing.assert_allclose((z**4).mean(axis=0), 3, atol=0.05)


def test_requests() -> None:
    """What is asked for is written down, then answered in the same order,
    also through Bartlett factors.
    """

    def program(source):
        first, second = split(fold_in(source, 3))
        return normal(first, (2, 3)), chi(second, np.array([4, 7]), (2,)), bartlett(source, 2, 5)

    recorder = Quasi(jax.random.key(0))
    jax.eval_shape(lambda: program(recorder))
    assert recorder.recipe == [math.inf] * 6 + [4.0, 7.0] + [math.inf] + [5.0, 4.0]
    row = jnp.arange(11.0)
    z, lengths, T = program(Quasi(jax.random.key(0), row))
    np.testing.assert_array_equal(z, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(lengths, [6.0, 7.0])
    np.testing.assert_array_equal(T, [[9.0, 0.0], [8.0, 10.0]])


def test_axis_of_nodes() -> None:
    """Along an axis of nodes a request is filled by the table, one column for each other entry."""
    table = jnp.arange(8.0 * 6).reshape(8, 6)
    source = Quasi(jax.random.key(0), jnp.zeros(4), table)
    z = normal(source.along(1), (3, 8, 2))
    np.testing.assert_array_equal(z, np.moveaxis(np.asarray(table).reshape(8, 3, 2), 0, 1))
    assert source.recipe == []


@pytest.mark.parametrize("draw", [lambda s, n: normal(s, (n,)), lambda s, n: chi(s, 3, (n,))])
def test_beyond_the_dimensions_of_sobol(draw) -> None:
    """What no point holds is drawn from the key, different at every request."""
    source = Quasi(jax.random.key(0), jnp.zeros(MOST_DIMENSIONS))
    a, b = (np.asarray(draw(source, MOST_DIMENSIONS + 1)) for _ in range(2))
    assert np.unique(np.concatenate([a, b])).size == a.size + b.size
