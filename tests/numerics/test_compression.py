"""Discrete laws on fewer nodes: averages of smooth functions at every scale stay
what they were.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics.nodes import FINE, TRACED_BINS, are_summable, compressed, mean_of


def nodes(decades, count=60_000, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.5, 1.5, count)
    return 10.0 ** rng.uniform(-decades, 0, count), w / w.sum()


@pytest.mark.parametrize("decades", [0.5, 3, 20, 200])
def test_transforms_are_kept(decades):
    v, w = nodes(decades)
    u, p = compressed(v, w)
    assert len(u) < 2 * FINE.size
    assert (p >= 0).all()
    assert (u >= 0).all()
    for k in (1, 2, 3):
        assert p @ u**k == pytest.approx(w @ v**k, rel=1e-12)
    for scale in 10.0 ** np.arange(-decades, 1.5, 0.7):
        assert p @ np.exp(-v.max() * u / scale) == pytest.approx(
            w @ np.exp(-v.max() * v / scale), abs=1e-10
        )
    assert np.log(p @ np.exp(70 * u)) == pytest.approx(np.log(w @ np.exp(70 * v)), abs=1e-9)


def test_zeros_stay_zeros():
    v, w = nodes(2)
    v[:1000] = 0.0
    u, p = compressed(v, w)
    assert p[u == 0].sum() == pytest.approx(w[:1000].sum())


def test_few_nodes_stay_as_they_are():
    v, w = nodes(2, count=100)
    u, p = compressed(v, w)
    assert np.array_equal(u, v)
    assert np.array_equal(p, w)


def test_equal_nodes():
    u, p = compressed(np.full(10_000, 0.3), np.full(10_000, 1e-4))
    assert u == pytest.approx(np.full(len(u), 0.3))
    assert p.sum() == pytest.approx(1)


def test_inside_jit_and_its_derivative():
    v, w = nodes(3, count=20_000)

    def transform(scale):
        u, p = compressed(scale * jnp.asarray(v), jnp.asarray(w))
        return p @ jnp.exp(-3 * u)

    exact = w @ np.exp(-3 * v)
    slope = w @ (-3 * v * np.exp(-3 * v))
    assert float(jax.jit(transform)(1.0)) == pytest.approx(exact, abs=1e-10)
    assert float(jax.grad(transform)(1.0)) == pytest.approx(slope, abs=1e-8)
    assert float(jax.jit(jax.grad(transform))(1.0)) == pytest.approx(slope, abs=1e-8)
    assert TRACED_BINS.size < FINE.size


def test_means_of_independent_numbers():
    """Of two values: a binomial law; of many nodes:
    moments add up, and the Laplace transform is a power.
    """
    v, w = mean_of(np.array([0.0, 1.0]), np.array([0.3, 0.7]), 5)
    for k in range(6):
        assert w[np.abs(v - k / 5) < 1e-12].sum() == pytest.approx(
            math.comb(5, k) * 0.7**k * 0.3 ** (5 - k), rel=1e-12
        )
    rng = np.random.default_rng(0)
    v, w = rng.gamma(0.5, size=300) ** 2, rng.dirichlet(np.ones(300))
    for count in (1, 2, 5):
        for rough in (False, True):
            few, weights = mean_of(v, w, count, rough)
            assert few @ weights == pytest.approx(v @ w, rel=1e-12)
            for t in (1e-6, 1.0, 1e3):
                truth = (w @ np.exp(-t * v / count)) ** count
                assert weights @ np.exp(-t * few) == pytest.approx(
                    truth, rel=1e-7 if rough else 1e-8
                )


def test_nodes_over_very_many_octaves_are_not_summed():
    v = np.exp(np.linspace(-300, 300, 50_000))
    assert not are_summable(v, np.full(len(v), 1 / len(v)))
    assert are_summable(np.linspace(0, 1, 5000), np.full(5000, 1 / 5000))
