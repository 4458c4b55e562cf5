"""Two tokens that cancel: the variance of the output given the scores touches 0,
and its density has a peak there.

For correlation −1 v(δ) = (a√K₀₀ − (1 − a)√K₁₁)², a = sigmoid(δ), vanishes at δ₀ = log(K₁₁/K₀₀)/2.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, ndtr

import limitlaw as ll

Z, W = np.polynomial.legendre.leggauss(60)


def tails(first: float, second: float, rest: float, q: float, x: np.ndarray) -> np.ndarray:
    """P(Y > x) of token 0 under K = (√first, −√second)(…)ᵀ + rest·I,
    on panels that shrink towards δ₀.
    """
    tau = q * np.sqrt((first + rest) * ((np.sqrt(first) + np.sqrt(second)) ** 2 + 2 * rest))
    zero = np.log(second / first) / 2
    fine = 2.0 ** np.arange(-60, 6)
    edges = np.unique(
        np.concatenate([np.linspace(-9.5, 9.5, 400), (zero + np.r_[-fine, 0, fine]) / tau])
    )
    edges = edges[np.abs(edges) <= 9.5]
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * Z).ravel()
    w = (half * W).ravel() * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    a, b = expit(tau * z), expit(-tau * z)
    v = (a * np.sqrt(first) - b * np.sqrt(second)) ** 2 + rest * (a**2 + b**2)
    return np.array([w @ ndtr(-each / np.sqrt(np.maximum(v, 1e-300))) for each in x])


@pytest.mark.parametrize(
    ("first", "second", "rest", "q"),
    [(8.2, 4.6, 0.0, 0.05), (1.0, 1.0, 0.0, 1.0), (0.01, 3.0, 0.0, 20.0), (1.0, 2.0, 1e-9, 1.0)],
)
def test_tails(first: float, second: float, rest: float, q: float) -> None:
    root = np.array([np.sqrt(first), -np.sqrt(second)])
    law = ll.attention_law(np.outer(root, root) + rest * np.eye(2), heads=1, q_std=q).marginal(0)
    x = np.geomspace(0.01, 6.0, 12) * float(law.std())
    expected = tails(first, second, rest, q, x)
    np.testing.assert_allclose(law.sf(x), expected, rtol=1e-11, atol=1e-13)
    assert (jnp.abs(law.sf(x) - expected) <= 5 * law.error.sf(x) + 1e-13).all()


def test_what_rounding_leaves_is_no_atom() -> None:
    """Nodes so close to the zero of v that rounding decides its sign."""
    K = np.array(
        [
            [0.006747619721982818, -0.01002299509519169],
            [-0.01002299509519169, 0.014888276876503629],
        ]
    )
    y = ll.attention(
        ll.initial((2,), cov=K), heads=1, k_std=4.8104835758724676, o_std=1.9427412823205494
    )
    assert len(ll.limit(y[1]).atoms().points) == 0
    assert ll.limit(ll.abs(y)[1]).variance() > 0


def test_equal_tokens_cancel_by_a_rounding() -> None:
    """Queries of one coordinate under a norm are ±1, so that rows of A are often equal: then
    y₀ − y₁ has variance 0, of which rounding leaves either sign.
    """
    x = ll.initial((2,), cov=np.array([[1.0, 0.3], [0.3, 2.0]]))
    y = ll.attention(x, 2, head_dim=1, qk_norm=ll.rmsnorm, q_std=3.0)
    several = ll.limit(ll.stack([y[0] - y[1], y[0]]), 2**10).covariance()[0, 0]
    one = ll.limit(y[0] - y[1], 2**13)
    assert float(one.variance()) == pytest.approx(float(several), rel=0.2)
