"""Laws of sums as weights on lattices: moments, binomial laws, sums at many scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from limitlaw.numerics.lattices import DEGREE, HALVES, NEIGHBOURS, Lattices, lagrange


def law(
    v: np.ndarray, w: np.ndarray, count: int, points: int = 64
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and weights of a sum."""
    levels = 4 + int(np.ceil(np.log2(v.max() / v[v > 0].min())))
    total = Lattices.of(v[None], w[None], v.max(), points, levels).power(count)
    weights, zero = total.law
    return np.append(total.numbers, 0.0), np.append(weights[0], zero)


def test_shares_are_exact_for_polynomials() -> None:
    """Σ_j ℓ_j(r) j^k = r^k; in the middle they are symmetric."""
    r = np.linspace(0, 0.99, 7)
    for k in range(DEGREE):
        found = sum(a * float(b) ** k for a, b in zip(lagrange(r), NEIGHBOURS, strict=True))
        np.testing.assert_allclose(found, r**k, rtol=1e-10, atol=1e-10 * 8.0**k)
    np.testing.assert_allclose(HALVES, HALVES[::-1], rtol=1e-13)


def test_transforms_never_grow() -> None:
    """|P| ≤ 1 for P(ξ) = (1 + Σ_j a_j e^{i(2j−1)ξ})/2: convolutions can go on without end."""
    xi = np.linspace(0, np.pi, 400)
    P = (
        1 + sum(a * np.exp(1j * (2 * b - 1) * xi) for a, b in zip(HALVES, NEIGHBOURS, strict=True))
    ) / 2
    assert np.abs(P).max() <= 1 + 1e-12
    assert np.abs(P.imag).max() < 1e-12
    assert P.real.min() > -1e-12


@pytest.mark.parametrize("count", [1, 2, 3, 7, 31, 100, 12345])
def test_moments(count: int) -> None:
    """Mass, mean and variance of a sum, and a generating function."""
    rng = np.random.default_rng(0)
    v, w = rng.exponential(size=50), rng.dirichlet(np.ones(50))
    x, p = law(v, w, count)
    mean, variance = w @ v, w @ v**2 - (w @ v) ** 2
    assert p.sum() == pytest.approx(1, abs=1e-13)
    assert p @ x == pytest.approx(count * mean, rel=1e-12)
    assert p @ (x / count - mean) ** 2 == pytest.approx(variance / count, rel=1e-8)
    for t in (-1.0, 0.5, 2.0):
        assert p @ np.exp(-t * x / count) == pytest.approx(
            (w @ np.exp(-t * v / count)) ** count, rel=1e-10
        )


@pytest.mark.parametrize("narrow", [0.0, 1e-16, 1e-5, 0.3])
def test_scales_far_apart(narrow: float) -> None:
    """E f of the number of large ones among 6: f of order one at every scale."""
    v, w = np.array([narrow, 1.0]), np.array([0.6, 0.4])
    x, p = law(v, w, 6, 256)
    chances = scipy.stats.binom.pmf(np.arange(7), 6, 0.4)
    S = narrow * np.arange(6, -1, -1) + np.arange(7)
    for a in (1e-16, 1e-8, 1e-2, 1.0):
        found = p @ (1 / (1 + np.maximum(x, 0) / a))
        assert found == pytest.approx(chances @ (1 / (1 + S / a)), rel=1e-9)


def test_inside_jit_with_derivatives() -> None:
    """The same numbers, and slopes in a scale."""
    rng = np.random.default_rng(1)
    v, w = rng.uniform(0.1, 1, size=(2, 30))
    w = w / w.sum()

    def mean(scale: jax.Array, count: int) -> jax.Array:
        total = Lattices.of(scale * jnp.asarray(v)[None], w[None], 1.5, 64, 8).power(count)
        return (total.law[0][0] * jnp.exp(-total.numbers / count)).sum()

    for count in (1, 300):
        exact = lambda c, count=count: (w @ np.exp(-c * v / count)) ** count
        value, gradient = jax.jit(jax.value_and_grad(lambda c, count=count: mean(c, count)))(1.0)
        assert float(value) == pytest.approx(exact(1.0), rel=1e-12)
        slope = (
            -count
            * (w @ np.exp(-v / count)) ** (count - 1)
            * (w @ (v / count * np.exp(-v / count)))
        )
        assert float(gradient) == pytest.approx(slope, rel=1e-11)
