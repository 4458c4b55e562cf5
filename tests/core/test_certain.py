"""Softmax over one visible token: nothing is drawn, and what comes out is a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import limitlaw as ll

K = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 0.5]])
ITSELF = np.eye(3, dtype=bool)
SHIFTED = np.roll(ITSELF, 1, axis=1)  # token i sees token i + 1


def tokens():
    return ll.initial((3,), cov=K)


@pytest.mark.parametrize("heads", [1, 2, 1000])
def test_kernel_of_tokens_that_see_one(heads):
    """A is a permutation P: the kernel is σ_V²σ_O² P K Pᵀ."""
    for mask in (ITSELF, SHIFTED):
        found = ll.kernel(ll.attention(tokens(), heads, mask=mask, q_std=3.0, v_std=0.5))
        assert isinstance(found, np.ndarray)
        assert_allclose(found, 0.25 * mask @ K @ mask.T, rtol=1e-13)


def test_heads_that_differ():
    """Their mean of σ_V²σ_O²; other tokens for each head."""
    stds = np.array([[1.0], [3.0]])
    found = ll.kernel(ll.attention(tokens(), 2, mask=ITSELF, v_std=stds))
    assert_allclose(found, 5 * K, rtol=1e-13)
    scores = ll.dot(ll.Matrix(shape=(2, 1)) @ tokens()[None], ll.Matrix(shape=(2, 1)) @ tokens())
    A = ll.softmax(scores, np.stack([ITSELF, SHIFTED]))
    found = ll.kernel(ll.normalised_sum(A @ (ll.Matrix(shape=(2, 1)) @ tokens()[None]), 0))
    assert_allclose(found, (K + SHIFTED @ K @ SHIFTED.T) / 2, rtol=1e-13)


def test_one_row_of_several():
    """The first token of a causal mask, whose other rows see more."""
    y = ll.attention(tokens(), 2, mask="causal")
    assert isinstance(ll.kernel(y), ll.RandomKernel)
    assert_allclose(ll.kernel(y[0]), K[0, 0], rtol=1e-13)
    law = ll.limit(ll.layernorm((ll.attention(tokens(), 2, mask="causal") + tokens())[0]))
    assert law.kind == "exact"
    assert_allclose(law.variance(), 4.0 / (4.0 + 1e-5), rtol=1e-12)


def test_layers_of_one_token():
    """Two layers with residuals and φ between them: 1 + 1, ½ of it, twice that."""
    x = ll.initial((1,))
    x = x + ll.attention(x, 4)
    x = ll.relu(x)
    x = x + ll.attention(x, 4)
    found = ll.kernel(x)
    assert isinstance(found, np.ndarray)
    assert_allclose(found, [[2.0]], rtol=1e-13)


def test_average_is_certain():
    """E tanh² of a Gaussian, as a point mass."""
    law = ll.average_law(ll.attention(ll.initial((1,)), 2)[0], lambda z: jnp.tanh(z) ** 2)
    z, w = np.polynomial.hermite_e.hermegauss(200)
    assert law.kind != "sampled"
    assert_allclose(law.mean(), w @ np.tanh(z) ** 2 / w.sum(), rtol=1e-12)
    assert law.error.mean() < 1e-12


def test_narrow_heads_stay_random():
    """χ²_d/d of the value's length is left."""
    found = ll.kernel(ll.attention(ll.initial((1,)), 1, head_dim=2), samples=2**14)
    assert isinstance(found, ll.RandomKernel)
    assert abs(found.mean()[0, 0] - 1) < 5 * found.error.mean()[0, 0]
    assert_allclose(found.variance()[0, 0], 1.0, atol=0.05)  # Var χ²₂/2


def test_derivatives():
    """Inside jit and grad: of scores nothing is left."""

    def entry(q, v):
        return ll.kernel(ll.attention(tokens(), 2, mask=SHIFTED, q_std=q, v_std=v))[0, 1]

    value, slopes = jax.jit(jax.value_and_grad(entry, (0, 1)))(2.0, 3.0)
    assert_allclose(value, 9 * K[1, 2], rtol=1e-13)
    assert_allclose(slopes, (0.0, 6 * K[1, 2]), rtol=1e-12)


def test_scores_of_one_token_are_read_all_the_same():
    """Where a statistic asks for them: their variance is σ_Q² K²."""
    x = ll.initial((1,))
    trace = ll.depth.trace([x, ll.attention(x, 2, q_std=2.0)], "score_variance", samples=2**10)
    column = trace["score_variance"]
    value, error = column.value[-1], column.error[-1]
    assert abs(value - 4) < 5 * error + 1e-9
