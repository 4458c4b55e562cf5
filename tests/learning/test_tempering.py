"""Tempering on a target of which everything is known, and the likelihood with its derivatives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.learning.regression import log_likelihood
from limitlaw.learning.sampling import evidence_of
from limitlaw.learning.tempering import island, measured, mover, next_temperature, systematic


def test_a_linear_model():
    """x ~ N(0, I₂), t = a·x + noise: evidence N(t; 0, |a|² + τ²), E[x | t] = a t/(|a|² + τ²)."""
    a, t, tau = jnp.array([3.0, -4.0]), 9.0, 0.1

    def ell(data, x):
        return -0.5 * ((t - a @ x) / tau) ** 2 - math.log(tau) - 0.5 * math.log(2 * math.pi)

    measure = jax.jit(measured(ell, 1000))
    move = jax.jit(mover(measured(ell, 1000)))
    found = [island(None, measure, move, (256, 2), 5, jax.random.key(i)) for i in range(8)]
    value, error = evidence_of(found)
    total = 25 + tau**2
    expected = -0.5 * (t**2 / total + math.log(2 * math.pi * total))
    assert found[0].temperatures > 5
    assert error < 0.3
    assert abs(value - expected) < 5 * error
    means = np.array([each.x.mean(axis=0) for each in found])
    z = (means.mean(axis=0) - np.asarray(a) * t / total) / means.std(axis=0, ddof=1) * math.sqrt(8)
    assert np.abs(z).max() < 5


def test_resampling():
    """Each index as often as its share, rounded; temperatures keep half of the particles."""
    w = np.array([0.5, 0.0, 0.3, 0.2])
    np.testing.assert_array_equal(np.bincount(systematic(w, 10, 0.5)), [5, 0, 3, 2])
    values = np.random.default_rng(0).normal(size=500) * 40
    beta = next_temperature(values, 0.0)
    weights = np.exp(beta * values)
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(250, rel=1e-3)
    assert next_temperature(values / 1e4, 0.2) == 1.0


def test_likelihoods():
    """By the rank of K and by K, with rows selected, two outputs, and derivatives."""
    rng = np.random.default_rng(0)
    Phi, t = jnp.asarray(rng.normal(size=(6, 3))), jnp.asarray(rng.normal(size=(4, 2)))
    S = jnp.eye(6)[np.array([0, 2, 5, 1])]
    by_rank = lambda Phi, t, noise: log_likelihood((Phi, None), S, t, noise)
    by_kernel = lambda Phi, t, noise: log_likelihood((None, Phi @ Phi.T), S, t, noise)
    np.testing.assert_allclose(by_rank(Phi, t, 0.3), by_kernel(Phi, t, 0.3), rtol=1e-12)
    C = S @ Phi @ Phi.T @ S.T + 0.09 * np.eye(4)
    expected = -0.5 * np.sum(t * np.linalg.solve(C, t)) - (
        np.linalg.slogdet(C)[1] + 4 * math.log(2 * math.pi)
    )
    np.testing.assert_allclose(by_rank(Phi, t, 0.3), expected, rtol=1e-12)
    direction = [jnp.asarray(rng.normal(size=np.shape(a))) for a in (Phi, t, 0.3)]
    for f in (by_rank, by_kernel):
        moved = [
            f(*(a + h * d for a, d in zip((Phi, t, 0.3), direction, strict=True)))
            for h in (1e-5, -1e-5)
        ]
        slopes = jax.grad(f, (0, 1, 2))(Phi, t, jnp.asarray(0.3))
        slope = sum(jnp.sum(a * d) for a, d in zip(slopes, direction, strict=True))
        np.testing.assert_allclose(slope, (moved[0] - moved[1]) / 2e-5, rtol=1e-7)
    assert by_rank(Phi, t, 0.0) == -math.inf
