"""The joint density of several tokens at given points,
against quadrature, plain Monte Carlo and its own errors.
"""

import math

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.numerics import importance
from limitlaw.numerics.importance import JointDensity, log_mean, log_normal
from limitlaw.numerics.proposals import Proposal, _tempered, fitted

I4 = np.eye(4)
K4 = np.array(
    [[1.0, 0.3, -0.2, 0.1], [0.3, 0.8, 0.0, 0.2], [-0.2, 0.0, 1.2, 0.4], [0.1, 0.2, 0.4, 0.9]]
)


def two_causal(z: np.ndarray) -> np.ndarray:
    """c(z) of a head with two tokens and a causal mask, K = I:
    rows (1, 0) and (1 − a, a), a = σ(√2 z).
    """
    a = 1 / (1 + np.exp(-math.sqrt(2) * z[:, 0]))
    A = np.stack([np.stack([np.ones_like(a), np.zeros_like(a)], 1), np.stack([1 - a, a], 1)], 1)
    return np.asarray(A @ A.swapaxes(1, 2))


def by_quadrature(y: np.ndarray, heads: int) -> float:
    """log E N(y; 0, H^{-1} Σ c(z_a)) by the trapezoidal rule in z."""
    ticks = np.linspace(-9, 9, 601)
    z = np.stack(np.meshgrid(*[ticks] * heads, indexing="ij"), -1).reshape(-1, heads)
    C = sum(two_causal(z[:, a : a + 1]) for a in range(heads)) / heads
    w = np.exp(-0.5 * (z**2).sum(axis=1))
    f = np.exp(-0.5 * np.einsum("i,nij,j->n", y, np.linalg.inv(C), y)) / (
        2 * math.pi * np.sqrt(np.linalg.det(C))
    )
    return math.log(w @ f / w.sum())


def brute_force(
    K: np.ndarray, heads: int, causal: bool, y: np.ndarray, draws: int
) -> tuple[float, float]:
    """log E N(y; 0, C) and its error, by scores p = L z Lᵀ drawn with NumPy."""
    s = len(K)
    L = np.linalg.cholesky(K)
    p = L @ np.random.default_rng(3).normal(size=(draws, heads, s, s)) @ L.T
    A = np.exp(np.where(np.tril(np.ones((s, s))) > 0, p, -np.inf) if causal else p)
    A /= A.sum(axis=-1, keepdims=True)
    C = (A @ K @ A.swapaxes(2, 3)).mean(axis=1)
    f = np.exp(-0.5 * np.einsum("i,nij,j->n", y, np.linalg.inv(C), y)) / np.sqrt(
        np.linalg.det(2 * math.pi * C)
    )
    return math.log(f.mean()), float(f.std() / f.mean() / math.sqrt(draws))


def test_log_normal() -> None:
    """Elimination gives the log density of each covariance; −∞ for a singular one."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(5, 4, 6))
    C = G @ G.swapaxes(1, 2)
    C[4] = 1.0
    y = rng.normal(size=4)
    got = log_normal(np.stack([c[np.tril_indices(4)] for c in C], axis=1), y)
    for value, c in zip(got[:4], C[:4], strict=True):
        expected = -0.5 * (y @ np.linalg.solve(c, y) + np.linalg.slogdet(2 * math.pi * c)[1])
        assert value == pytest.approx(expected, abs=1e-10)
    assert got[4] == -np.inf


def test_weights_of_a_proposal() -> None:
    """Weights N(z; 0, I)/q(z) average to one, and weighted draws have mean 0 and covariance I."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 2))
    q = fitted(z, np.exp(1.5 * z[:, 0] - (z[:, 1] - 1) ** 2), heads=1)
    assert len(q.shares) > 2
    assert q.shares.sum() == pytest.approx(1)
    z, logs = q.draw(rng.random(400_000), rng.normal(size=(400_000, 2)))
    w = np.exp(logs)
    assert w.mean() == pytest.approx(1, abs=5 * w.std() / math.sqrt(len(w)))
    assert np.abs(w @ z / len(w)).max() < 0.02
    assert np.abs(z.T @ (z * w[:, None]) / len(w) - np.eye(2)).max() < 0.04
    assert z[:, 0].mean() > 0.8  # it moves where the weights are
    still, zero = Proposal.prior(2).draw(rng.random(5), z[:5])
    assert (still == z[:5]).all()
    assert not zero.any()


@pytest.mark.parametrize("heads", [1, 2])
def test_against_quadrature(heads: int) -> None:
    """Two tokens with a causal mask, a function of one normal a head:
    near, far, and on the diagonal.
    """
    density = JointDensity(two_causal, 1, heads, 0)
    y = np.array([[0.3, 0.1], [1.0, 1.0], [2.5, -2.0]])
    values, errors = density.log(y)
    assert (errors < 1e-3).all()
    for point, value, error in zip(y, values, errors, strict=True):
        assert abs(value - by_quadrature(point, heads)) < 5 * error + 1e-6


def test_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stated error is the scatter over independent scramblings."""
    monkeypatch.setattr(importance, "BLOCKS", 1)
    monkeypatch.setattr(importance, "DRAWS", 2**8)
    monkeypatch.setattr(importance, "PILOT", 2**10)
    y = np.array([[0.4, -0.7]])
    exact = by_quadrature(y[0], 2)
    scaled = []
    for seed in range(40):
        value, error = JointDensity(two_causal, 1, 2, 1000 * seed).log(y)
        scaled.append((value[0] - exact) / error[0])
    assert 0.65 < np.sqrt(np.mean(np.square(scaled))) < 1.4
    assert abs(np.mean(scaled)) < 0.6


def test_special_points() -> None:
    """NaN and ∞; equal calls give equal results, alone or among others."""
    density = JointDensity(two_causal, 1, 1, 0)
    y = np.array([[0.3, 0.1], [math.nan, 0.0], [math.inf, 0.0]])
    values, _ = density.log(y)
    assert np.isnan(values[1])
    assert values[2] == -np.inf
    assert JointDensity(two_causal, 1, 1, 0).log(y[:1])[0] == values[:1]


@pytest.mark.parametrize(("kernel", "heads", "mask"), [(I4, 1, "causal"), (K4, 2, None)])
def test_four_tokens(kernel: np.ndarray, heads: int, mask: str | None) -> None:
    """The stated error is at most 1e-3, and the value that of plain Monte Carlo."""
    y = np.array([0.2, -0.3, 0.4, 0.1])
    law = ll.attention_law(kernel, heads, mask=mask)
    value, error = float(law.logpdf(y)), float(law.error.logpdf(y))
    assert 0 < error <= 1e-3
    expected, noise = brute_force(kernel, heads, mask == "causal", y, 2**17)
    assert abs(value - expected) < 5 * math.hypot(error, noise)
    assert float(law.pdf(y)) == pytest.approx(math.exp(value))


def test_weights_of_which_few_are_not_zero_are_tempered_in_the_end():
    weights = np.zeros(1000)
    weights[:2] = 1.0, 1e-9
    w, effective = _tempered(weights, 40)
    assert w.sum() == pytest.approx(1.0)
    assert 1.8 < effective <= 2


def test_densities_far_below_the_smallest_float():
    """Means of terms whose logarithms differ by more than floats span."""
    assert log_mean(np.array([-1e6, -2e6])) == pytest.approx(-1e6 - math.log(2))
    assert log_mean(np.array([-1e6, 900.0])) == pytest.approx(900 - math.log(2))
    assert log_mean(np.full(3, -np.inf)) == -math.inf
