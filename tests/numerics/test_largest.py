"""Gaussian scores sorted by the largest one: against closed forms,
one-dimensional integrals and another order.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, ndtr

from limitlaw.numerics.largest import sorted_scores


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def average(f, a, B, order, **options):
    z, w = sorted_scores(np.asarray(a, float), np.asarray(B, float), order, 8.8, **options)
    return w @ f(softmax(a + z @ np.asarray(B).T))


@pytest.mark.parametrize("scale", [1e-8, 0.1, 1.0, 7.0, 1e2, 1e5, 1e10])
def test_two_scores_are_one_integral(scale):
    """E σ(x)² with x ~ N(m, (scale·√2)²): the sigmoid turns at 0,
    the normal density on the scale of x.
    """
    a, B = np.array([0.4, 0.0]), scale * np.eye(2)
    sd = scale * math.sqrt(2)

    def integrand(t):
        return expit(0.4 + sd * t) ** 2 * math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)

    edges = sorted({*((x - 0.4) / sd for x in (-40.0, -5.0, 0.0, 5.0, 40.0)), *range(-9, 10, 3)})
    edges = [t for t in edges if abs(t) <= 9]
    exact = sum(
        integrate.quad(integrand, lo, hi, epsabs=1e-14)[0] for lo, hi in itertools.pairwise(edges)
    )
    assert average(lambda A: A[:, 0] ** 2, a, B, 16) == pytest.approx(exact, abs=2e-12)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.6, 0.999])
def test_infinite_scores_choose_the_largest(correlation):
    """P(ℓ_1 is the largest of three) = ¼ + arcsin ρ/(2π),
    ρ the correlation of its two differences.
    """
    G = np.array([[1.0, correlation, 0.0], [correlation, 1.0, 0.0], [0.0, 0.0, 1.0]])
    B = 1e10 * np.linalg.cholesky(G)
    D = B[0] - B[1:]
    rho = D[0] @ D[1] / (np.linalg.norm(D[0]) * np.linalg.norm(D[1]))
    assert average(lambda A: A[:, 0], np.zeros(3), B, 12) == pytest.approx(
        0.25 + math.asin(rho) / (2 * math.pi), abs=1e-9
    )


def test_equal_scores_share():
    """Two equal scores and another: the first two have equal weights,
    also where scores are huge.
    """
    for scale in (1.0, 1e8):
        B = scale * np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        weights = [average(lambda A, k=k: A[:, k], np.zeros(3), B, 12) for k in range(3)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-15)
        assert sum(weights) == pytest.approx(1, abs=1e-14)
        if scale > 1:
            assert weights[2] == pytest.approx(0.5, abs=1e-7)


def random_scores(seed, s):
    """Scores of all scales and correlations, with and without means."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(s, s))
    if seed % 3 == 1:
        B = B[:, :1] + 10.0 ** rng.uniform(-6, 0) * B  # nearly equal tokens
    if seed % 3 == 2:
        B = B * 10.0 ** rng.uniform(-3, 0, size=(s, 1))
    a = np.zeros(s) if seed % 2 else rng.normal(size=s) * 10.0 ** rng.uniform(0, 2)
    return a, 10.0 ** rng.uniform(-1, 6) * B


@pytest.mark.parametrize(("s", "order", "bound"), [(3, 12, 1e-8), (4, 7, 2e-4)])
def test_any_order_of_the_scores(s, order, bound):
    """Backwards and with fewer nodes the same average,
    within what that rule leaves: no place is missed.
    """
    for seed in range(24 if s == 3 else 6):
        a, B = random_scores(seed, s)
        K = np.diag(np.arange(1.0, s + 1))
        f = functools.partial(_quadratic, K)
        fine, rough = average(f, a, B, order), average(f, a, B, order - 1, backwards=True)
        assert fine == pytest.approx(rough, rel=bound)


def _quadratic(K, A):
    return np.einsum("ni,ij,nj->n", A, K, A)


def test_against_many_draws():
    for seed in range(6):
        a, B = random_scores(seed, 4)
        rng = np.random.default_rng(seed)
        K = np.diag(np.arange(1.0, 5.0))
        draws = _quadratic(K, softmax(a + rng.normal(size=(200_000, 4)) @ B.T))
        error = draws.std() / math.sqrt(len(draws))
        assert (
            abs(average(functools.partial(_quadratic, K), a, B, 6) - draws.mean())
            < 5 * error + 1e-6
        )


@pytest.mark.long
def test_traced_scores_take_the_same_average():
    """Inside jit the number of nodes is fixed; outside of it only its derivative is traced."""

    def mean_weight(a, B):
        z, w = sorted_scores(a, B, 8, 8.8)
        return w @ jax.nn.softmax(a + z @ B.T)[:, 0] ** 2

    jitted, slope = jax.jit(mean_weight), jax.grad(mean_weight)
    for seed in range(6):
        a, B = map(jnp.asarray, random_scores(seed, 3))
        eager = float(mean_weight(a, B))
        assert float(jitted(a, B)) == pytest.approx(eager, abs=2e-7)
        h = 1e-5 * float(1 + jnp.abs(a[0]))
        difference = float(mean_weight(a.at[0].add(h), B) - mean_weight(a.at[0].add(-h), B)) / (
            2 * h
        )
        assert float(slope(a, B)[0]) == pytest.approx(difference, abs=1e-6)


def test_one_score():
    z, w = sorted_scores(np.zeros(1), np.ones((1, 2)), 5, 8.8)
    assert z.shape == (1, 2)
    assert w == pytest.approx([1.0])


def test_weights_are_those_of_the_normal_law():
    z, w = sorted_scores(np.zeros(3), np.eye(3), 12, 8.8)
    difference = z[:, 0] - z[:, 1]  # common shifts are left out
    assert w.sum() == pytest.approx(1)
    assert w @ difference**2 == pytest.approx(2)
    assert w[difference < 1].sum() == pytest.approx(ndtr(1 / math.sqrt(2)), abs=2e-2)
