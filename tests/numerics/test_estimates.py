"""Moments in chunks against NumPy on everything at once."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics.estimates import Moments


def samples(count, p, offset=0.0):
    x = np.random.default_rng(0).standard_normal((count, 3))
    x = x @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.1, 0.0, 1.0]]) + offset
    return x[:, 0] if p is None else x[:, :p]


def in_chunks(x, sizes):
    parts = np.split(x, np.cumsum(sizes))
    return functools.reduce(Moments.merge, [Moments.of(jnp.asarray(part)) for part in parts])


def check(moments, x, rtol):
    covariance = np.cov(x, rowvar=False)
    variance = np.var(x, axis=0, ddof=1)
    assert int(moments.count) == len(x)
    np.testing.assert_allclose(moments.mean, x.mean(axis=0), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(moments.covariance, covariance.reshape(moments.m2.shape), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(moments.variance, variance, rtol=rtol)
    np.testing.assert_allclose(moments.mean_error, np.sqrt(variance / len(x)), rtol=rtol)


@pytest.mark.parametrize("p", [None, 1, 3])
@pytest.mark.parametrize("sizes", [(), (1,), (0, 1, 0, 500), (300, 300, 300), (2,) * 400])
def test_merging_equals_numpy(p, sizes):
    x = samples(1000, p)
    check(in_chunks(x, sizes), x, 1e-12)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_a_large_mean_does_not_cancel(offset):
    """Σx² − n·mean² would keep no digit of the variance at 1e8; here the samples' own rounding, ε·offset, is left."""
    x = samples(1000, 3, offset)
    moments = in_chunks(x, (100, 200, 300))
    np.testing.assert_allclose(moments.covariance, np.cov(x, rowvar=False), rtol=0, atol=1e-6)


def test_order_does_not_matter():
    """Two by two to the last bit; a long chain in any order to a few units in the last place."""
    x = samples(1000, 3)
    a, b = Moments.of(jnp.asarray(x[:300])), Moments.of(jnp.asarray(x[300:]))
    for one, other in zip(jax.tree.leaves(a.merge(b)), jax.tree.leaves(b.merge(a)), strict=True):
        np.testing.assert_array_equal(one, other)
    parts = [Moments.of(jnp.asarray(part)) for part in np.split(x, 50)]
    forth, back = functools.reduce(Moments.merge, parts), functools.reduce(Moments.merge, parts[::-1])
    np.testing.assert_allclose(forth.mean, back.mean, atol=1e-14)
    np.testing.assert_allclose(forth.m2, back.m2, rtol=1e-12, atol=1e-11)


def test_a_scan_over_chunks():
    """As an engine uses it: compiled, the draws of a chunk gone before the next."""
    x = jnp.asarray(samples(1200, 3)).reshape(12, 100, 3)
    start = Moments(jnp.asarray(0), jnp.zeros(3), jnp.zeros((3, 3)))
    moments, _ = jax.jit(lambda x: jax.lax.scan(lambda total, part: (total.merge(Moments.of(part)), None), start, x))(x)
    check(moments, np.asarray(x).reshape(-1, 3), 1e-12)


def test_the_standard_error_is_the_spread_of_the_mean():
    """Over 4000 repetitions the means spread by mean_error: √(1/2·4000) relative, 5 of them."""
    x = np.random.default_rng(1).exponential(size=(4000, 100))
    errors = np.asarray(jax.vmap(lambda row: Moments.of(row).mean_error)(jnp.asarray(x)))
    assert abs(x.mean(axis=1).std() / math.sqrt((errors**2).mean()) - 1) < 5 / math.sqrt(2 * 4000) * 1.5


def test_few_samples():
    nothing = Moments.of(jnp.zeros((0, 2)))
    assert nothing.count == 0
    np.testing.assert_array_equal(nothing.merge(nothing).mean, 0)
    one = nothing.merge(Moments.of(jnp.ones((1, 2))))
    np.testing.assert_array_equal(one.mean, 1)
    assert np.isnan(one.covariance).all()
    assert np.isnan(one.mean_error).all()
