"""Scores of every size: softmax from flat to one-hot,
eagerly, under jit and with derivatives, against quadrature.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import limitlaw as ll

DRAWS = 10**6


def logistic_normal(f, sd: float) -> float:
    """E f(ℓ), ℓ ~ N(0, sd²), by adaptive quadrature on both scales,
    that of the logistic function and that of ℓ.
    """
    edges = sorted(
        {c * w for c in (-9, -6, -3, -1, 0, 1, 3, 6, 9) for w in (sd, min(sd, 10.0), min(sd, 1.0))}
    )
    edges = [x for x in edges if abs(x) <= 9 * sd]
    pieces = [
        integrate.quad(
            lambda x: f(x) * stats.norm.pdf(x / sd) / sd, lo, hi, epsabs=0, epsrel=1e-12, limit=200
        )
        for lo, hi in itertools.pairwise(edges)
    ]
    return math.fsum(value for value, _ in pieces)


def sampled_rows(K: np.ndarray, q_std: float, heads: int, draws: int = DRAWS) -> np.ndarray:
    """Var(y_0 | scores) of plain attention, drawn:
    v = H^{-1} Σ_a A_a K A_aᵀ, scores ~ N(0, q_std² K_00 K).
    """
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))
    v = np.zeros(draws)
    for _ in range(heads):
        scores = q_std * math.sqrt(K[0, 0]) * rng.normal(size=(draws, len(K))) @ root.T
        A = special.softmax(scores, axis=1)
        v += np.einsum("di,ij,dj->d", A, K, A) / heads
    return v


def mean_and_error(x: np.ndarray) -> tuple[float, float]:
    return x.mean(), x.std() / math.sqrt(len(x))


@pytest.mark.parametrize("c", [1e-4, 1.0, 50.0, 150.0, 1e4, 1e10])
def test_two_tokens(c: float) -> None:
    """Independent tokens of variance c: variance/c = E[σ(ℓ)² + σ(−ℓ)²],
    ℓ ~ N(0, 2c²), and the kurtosis likewise.
    """
    law = ll.attention_law(c * np.eye(2), heads=2).marginal(0)
    squares = lambda x: special.expit(x) ** 2 + special.expit(-x) ** 2
    m1, m2 = (logistic_normal(lambda x, k=k: squares(x) ** k, math.sqrt(2) * c) for k in (1, 2))
    for value, error, exact in (
        (law.variance() / c, law.error.variance() / c, m1),
        (law.kurtosis(), law.error.kurtosis(), 1.5 * (m2 - m1**2) / m1**2),
    ):
        assert abs(value - exact) < 5 * error + 1e-12
        assert error < 1e-8


def test_four_tokens() -> None:
    """K = 500 I, and one with correlations: against draws."""
    rng = np.random.default_rng(1)
    B = rng.normal(size=(4, 4))
    for K, q_std in ((500 * np.eye(4), 1.0), (B @ B.T, 10.0)):
        law = ll.attention_law(K, heads=2, q_std=q_std).marginal(0)
        mean, error = mean_and_error(sampled_rows(K, q_std, 2))
        assert law.kind == "quadrature"
        assert abs(law.variance() - mean) < 5 * math.hypot(error, law.error.variance())


def test_one_hot() -> None:
    """Scores of size 1e10: the law is the mixture over the largest one,
    of N(0, K_jj) for a single head.
    """
    K = np.diag([1.0, 4.0, 9.0])
    law = ll.attention_law(K, heads=1, q_std=1e10).marginal(0)
    # scores q_std² K_00 K are independent with deviations 1, 2, 3: the chance of each to be the
    # largest
    chances = [
        integrate.quad(
            lambda x, j=j: (
                stats.norm.pdf(x, scale=j + 1)
                * np.prod([stats.norm.cdf(x, scale=i + 1) for i in range(3) if i != j])
            ),
            -40,
            40,
            epsabs=1e-13,
            limit=200,
        )[0]
        for j in range(3)
    ]
    assert law.variance() == pytest.approx(np.dot(chances, np.diag(K)), rel=1e-7)
    x = np.array([-3.0, -0.5, 0.1, 2.0])
    exact = sum(
        p * stats.norm.cdf(x, scale=math.sqrt(k)) for p, k in zip(chances, np.diag(K), strict=True)
    )
    np.testing.assert_allclose(law.cdf(x), exact, atol=1e-7)


@pytest.mark.parametrize(("heads", "small"), [(1, 0.0), (2, 0.0), (2, 1e-20), (16, 0.0)])
def test_token_of_no_variance(heads: int, small: float) -> None:
    """cov = diag(1, 0): given the scores the variance is A_0², which spans hundreds of decades."""
    # that all of many heads are small is rare, and not drawn
    points = (1e-6, 1e-2, 1.0) if heads <= 2 else (1e-2, 1.0)
    for s in (10.0, 20.0, 1e3) if heads == 1 else (10.0, 20.0):
        law = ll.limit(
            ll.attention(ll.initial((2,), cov=np.diag([1.0, small])), heads, q_std=s)[0]
        )
        exact = logistic_normal(lambda x: special.expit(x) ** 2, s)
        assert law.variance() == pytest.approx(exact, rel=1e-8)
        if heads == 1:
            for x in points:
                below = logistic_normal(
                    lambda t, x=x: special.ndtr(x * (1 + np.exp(min(-t, 700.0)))), s
                )
                assert abs(law.cdf(x) - below) < 5 * law.error.cdf(x) + 1e-6
        else:
            v = sampled_rows(np.diag([1.0, 0.0]), s, heads)
            for x in points:
                below, error = mean_and_error(special.ndtr(x / np.sqrt(np.maximum(v, 1e-300))))
                assert abs(law.cdf(x) - below) < 5 * math.hypot(error, law.error.cdf(x))
        assert np.abs(law.cf(np.logspace(-3, 6, 40))).max() <= 1 + 1e-9


# --- one rule, eagerly, under jit and with derivatives -------------------------------------------


def figures(q_std) -> jax.Array:
    law = ll.limit(ll.attention(ll.initial((4,)), 2, q_std=q_std)[0])
    return jnp.stack([law.variance(), law.kurtosis()]), jnp.stack(
        [law.error.variance(), law.error.kurtosis()]
    )


def test_jit_is_eager() -> None:
    """The same to the stated errors, which are small."""
    compiled = jax.jit(figures)
    for q_std in (1.0, 5.0, 10.0):
        (eager, first), (jitted, second) = figures(q_std), compiled(q_std)
        assert np.all(np.abs(eager - jitted) < 5 * np.hypot(first, second) + 1e-12)
        assert np.all(first < 1e-8)
        assert np.all(second < 1e-4)


def test_samples_raise_the_effort_inside_jit() -> None:
    """A rule of more nodes, with a smaller error that holds."""

    def variance(q_std, samples=None):
        law = ll.limit(ll.attention(ll.initial((3,)), 1, q_std=q_std)[0], samples)
        return law.variance(), law.error.variance()

    value, error = jax.jit(variance)(20.0)
    finer, smaller = jax.jit(lambda q: variance(q, 3 * (16 * 16) ** 2))(20.0)
    assert smaller < error / 100
    exact, own = variance(20.0)
    assert abs(value - exact) < 5 * math.hypot(error, own)
    assert abs(finer - exact) < 5 * math.hypot(smaller, own) + 1e-15


def test_derivatives() -> None:
    """d/dq_std by jax.grad against differences,
    where the old rule was wrong by a factor of two.
    """
    slope = jax.jit(jax.grad(lambda q: figures(q)[0][1]))(3.0)
    step = 1e-3
    difference = (figures(3.0 + step)[0][1] - figures(3.0 - step)[0][1]) / (2 * step)
    assert slope == pytest.approx(float(difference), rel=1e-5)


@pytest.mark.parametrize(
    "mask", ["causal", np.array([[True, False, True], [False, True, True], [True, False, True]])]
)
def test_masks_inside_jit(mask: Any) -> None:
    """They are known there as well (found by the adversary: this raised)."""

    def variance(K: Any) -> Any:
        return ll.attention_law(K, heads=1, mask=mask).marginal(2).variance()

    K = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, -0.3], [0.1, -0.3, 1.5]])
    assert float(jax.jit(variance)(K)) == pytest.approx(float(variance(K)), rel=1e-9)


def test_nothing_is_left_inside_jit() -> None:
    """Tokens that turn out to be 0 give a point mass,
    under jit as well (found by the adversary: NaN).
    """

    def figures_of(k: Any) -> Any:
        x = ll.map(lambda z: jnp.where(z > 1.0, z, 0.0), ll.initial((2,), cov=k * np.eye(2)))
        law = ll.limit(
            ll.attention(x + ll.attention(x, heads=1, head_dim=8), heads=1, head_dim=8)[1],
            samples=64,
        )
        return jnp.array([law.variance(), law.cdf(1.86), law.cdf(-2.71), law.sf(0.5)])

    np.testing.assert_array_equal(jax.jit(figures_of)(1e-8), [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(figures_of(1e-8), [0.0, 1.0, 0.0, 0.0])
