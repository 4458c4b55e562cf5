"""Means of random kernels: by quadrature where scores have one, with errors of the size of what
draws differ by elsewhere.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

import limitlaw as ll
from limitlaw.laws import Empirical, averages, load

KERNEL = np.array([[1.0, 0.3], [0.3, 2.0]])


def of_two_tokens() -> np.ndarray:
    """E aᵢᵀ Σ aⱼ, where aᵢ = (σ(dᵢ), 1 − σ(dᵢ)) and differences of scores have
    Cov(dᵢ, dⱼ) = Σᵢⱼ (Σ₀₀ + Σ₁₁ − 2 Σ₀₁).
    """
    x, w = hermegauss(90)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(w, w).reshape(-1) / w.sum() ** 2
    d = z @ np.linalg.cholesky(KERNEL * (KERNEL.trace() - 2 * KERNEL[0, 1])).T
    first = 1 / (1 + np.exp(-d))
    a = np.stack([first, 1 - first], -1)  # (nodes, i, token)
    return np.einsum("n,nia,ab,njb->ij", w, a, KERNEL, a)


@pytest.mark.parametrize("heads", [1, 4])
def test_two_tokens(heads: int, tmp_path) -> None:
    y = ll.attention(ll.initial((2,), cov=KERNEL), heads)
    K = ll.kernel(y, samples=256)
    np.testing.assert_allclose(K.mean(), of_two_tokens(), rtol=1e-9)
    assert (K.error.mean() < 1e-12).all()
    assert K.mean()[1, 1] == pytest.approx(float(ll.limit(y[1]).variance()), rel=1e-13)
    assert K.marginal((0, 1)).mean() == K.mean()[0, 1]
    drawn = Empirical(K._samples, blocks=16)
    np.testing.assert_allclose(K.variance(), drawn.variance(), rtol=1e-12)
    assert (abs(K.mean() - drawn.mean()) < 5 * drawn.error.mean()).all()
    K.save(tmp_path / "kernel")
    np.testing.assert_array_equal(load(tmp_path / "kernel").mean(), K.mean())
    np.testing.assert_array_equal(load(tmp_path / "kernel").error.mean(), K.error.mean())


def test_what_has_no_quadrature_is_drawn() -> None:
    """Two queries that see three tokens each have four differences of scores."""
    y = ll.attention(ll.initial((3,), cov=np.eye(3) + 0.3), 1)
    K = ll.kernel(y, samples=256)
    value, error = K.mean(), K.error.mean()
    assert (np.diagonal(error) < 1e-12).all()
    assert 1e-6 < error[0, 1] < 1e-2
    assert value[0, 1] == Empirical(K._samples, blocks=16).mean()[0, 1]


def test_errors_of_what_hardly_varies() -> None:
    """Six tokens whose scores are small: draws differ by 1e-3, and so little is the error."""
    y = ll.attention(ll.initial((6,), cov=np.eye(6) + 0.3), 1, q_std=0.01)
    K = ll.kernel(y, samples=1024)
    spread = np.asarray(K.variance()) ** 0.5
    error = np.asarray(K.error.mean())
    assert np.median(error / spread) < 0.1
    assert np.median(error) < 1e-5


def test_rare_draws() -> None:
    """Blocks that are equal but for rounding, or one that does more than all others: something
    rarer than the draws may decide. Blocks that differ like normal numbers are what they seem.
    """
    random = np.random.default_rng(0)
    d = jnp.asarray(random.normal(size=(16, 10_000)))
    ones = jnp.ones(10_000)
    assert averages.rare_decide(1e-9 * d, ones).mean() < 2e-3
    assert averages.rare_decide(1e-16 * d, ones).all()
    assert averages.rare_decide(jnp.exp(20 * d - 200), ones).mean() > 0.9
    steep = jnp.exp(-1e3 * jnp.abs(d))
    assert averages.rare_decide(steep, 1e-300 * ones).mean() > 0.9
    assert averages.error_of_blocks(0 * d, 2 * ones, 1000)[0] == pytest.approx(2e-3)
