"""Parts of Transformers: masks, positions, embeddings, heads in groups, other sequences."""

import math

import numpy as np
import pytest

import limitlaw as ll
from limitlaw import nn
from limitlaw.nn.positions import alibi_slopes


def test_masks() -> None:
    """Who sees whom."""
    np.testing.assert_array_equal(nn.masks.causal(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(
        nn.masks.sliding_window(4, 2), [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    )
    padded = nn.masks.padding([1, 3], 3)
    np.testing.assert_array_equal(padded[0], [[1, 0, 0]] * 3)
    assert padded[1].all()
    with pytest.raises(ValueError, match="lengths must be at most the 3 tokens"):
        nn.masks.padding([4], 3)


def test_a_padded_sequence_is_a_shorter_one() -> None:
    """The tokens that are there have the law that they have alone."""
    K = np.array([[1.0, 0.3], [0.3, 2.0]])
    padded = np.zeros((2, 3, 2, 3))
    padded[0, :2, 0, :2] = padded[1, :2, 1, :2] = K
    padded[0, 2, 0, 2] = padded[1, 2, 1, 2] = 5.0
    x = ll.initial((2, 3), cov=padded.reshape(6, 6))
    y = nn.attention(x, 2, mask=nn.masks.padding([2, 3], 3))
    alone = nn.attention(ll.initial((2,), cov=K), 2)
    assert ll.limit(y[0, 1]).kurtosis() == pytest.approx(
        float(ll.limit(alone[1]).kurtosis()), rel=1e-8
    )


def test_equal_tokens_share_a_vector() -> None:
    """Ids into an embedding."""
    x = nn.embedding([[3, 7], [7, 9]], std=2.0)
    assert x.shape == (2, 2)
    K = np.asarray(ll.kernel(x))
    np.testing.assert_allclose(
        K, 4 * np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]), atol=1e-12
    )
    with pytest.raises(TypeError, match="ids must be an array of integers"):
        nn.embedding([0.5])


def test_sinusoids() -> None:
    """Means and inner products of the vectors themselves at large n."""
    s, n = 7, 2**16
    theta = 10_000.0 ** (-np.arange(n // 2) / (n // 2))
    angle = np.arange(s)[:, None] * theta
    e = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    x = nn.sinusoidal_positions(s)
    np.testing.assert_allclose(np.asarray(ll.kernel(x)), e @ e.T / n, atol=1e-4)
    np.testing.assert_allclose(x.op.w.op.mean, e.mean(axis=1), atol=1e-4)


def test_linear_biases() -> None:
    """Slopes of the paper, and what they do to scores."""
    np.testing.assert_allclose(alibi_slopes(8), 2.0 ** -np.arange(1.0, 9.0))
    np.testing.assert_allclose(alibi_slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])
    steep = nn.attention(ll.initial((3,)), 1, positions=nn.Alibi(slopes=[1e6]))
    np.testing.assert_allclose(
        np.asarray(ll.kernel(steep, samples=64).mean()), np.eye(3), atol=1e-9
    )
    with pytest.raises(ValueError, match="one entry for each of the 2 heads"):
        nn.attention(ll.initial((3,)), 2, positions=nn.Alibi(slopes=[1.0]))
    with pytest.raises(ValueError, match="heads must be finite"):
        nn.attention(ll.initial((3,)), math.inf, positions=nn.Alibi())


def test_groups_of_heads() -> None:
    """One group for each head is plain attention; scores of one group share their keys."""
    x = ll.initial((2,), cov=[[1.0, 0.2], [0.2, 1.5]])
    plain, grouped = (ll.kernel(nn.attention(x, 4, kv_heads=g), samples=2**12) for g in (4, 2))
    error = np.hypot(plain.error.mean(), grouped.error.mean())
    np.testing.assert_array_less(np.abs(plain.mean() - grouped.mean()), 5 * error)
    masks = np.ones((4, 2, 2), bool)
    masks[1, 0, 1] = False
    assert nn.attention(x, 4, kv_heads=2, mask=masks).shape == (2,)
    with pytest.raises(ValueError, match="kv_heads must divide heads=4, got 3"):
        nn.attention(x, 4, kv_heads=3)


def test_another_sequence() -> None:
    """Keys and values of a context: one token that is seen gives its own vector."""
    x, context = ll.initial((3,)), 2.0 * ll.initial((1,))
    K = np.asarray(ll.kernel(nn.attention(x, 2, context=context), samples=16).mean())
    np.testing.assert_allclose(K, np.full((3, 3), 4.0), rtol=1e-9)
    with pytest.raises(ValueError, match="context must have the batch axes"):
        nn.attention(x, 2, context=ll.initial((2, 3)))


def test_normed_queries_and_keys() -> None:
    """With RMSNorm the size of x does not matter to the weights."""
    small, large = (ll.initial((3,), cov=c * np.eye(3)) for c in (1.0, 100.0))
    a, b = (ll.limit(nn.attention(x, 2, qk_norm=ll.rmsnorm)[0]) for x in (small, large))
    assert float(b.variance()) == pytest.approx(100 * float(a.variance()), rel=1e-4)
    assert float(b.kurtosis()) == pytest.approx(float(a.kurtosis()), rel=1e-3)


def test_shared_weights_are_one_matrix() -> None:
    """All turns use the same matrices, and check says why there is no loop."""
    y = nn.transformer(ll.initial((2,)), 3, 1, shared=True, hidden=None)
    assert len({v.instruction.family for v in _matmuls(y)}) == 4
    assert "its weights are shared" in " ".join(str(ll.check(y)).split())


def _matmuls(y: ll.Wide) -> list:
    from limitlaw.core.instructions import MatMul
    from limitlaw.core.program import ancestors

    return [v for v in ancestors([y.core.value]) if isinstance(v.instruction, MatMul)]


def test_given_data_are_embedded() -> None:
    """Also ids and positions add up to tokens."""
    X = np.array([[1.0, 0.5], [0.2, -1.0], [0.3, 0.3]])
    assert nn.transformer(ll.data(X), 2, 1).shape == (3,)
    tokens = nn.embedding([4, 4, 2]) + nn.learned_positions(3, std=0.1)
    K = np.asarray(ll.kernel(tokens))
    np.testing.assert_allclose(K, [[1.01, 1, 0], [1, 1.01, 0], [0, 0, 1.01]], atol=1e-12)


def test_residual_scale() -> None:
    """x + c·f(x)."""
    x = ll.initial((2,))
    K = np.asarray(ll.kernel(nn.residual(lambda w: ll.dense(w), 0.5)(x)))
    np.testing.assert_allclose(K, 1.25 * np.eye(2), atol=1e-12)


@pytest.mark.usefixtures("as_user")
def test_errors() -> None:
    """Each says what was expected and what came."""
    x = ll.initial((2,))
    with pytest.raises(ValueError, match="norm must be one of 'pre', 'post', 'none', got 'both'"):
        nn.transformer(x, 2, 1, norm="both")
    with pytest.raises(ValueError, match="depth must be a positive integer"):
        nn.transformer(x, 0, 1)
    with pytest.raises(TypeError, match=r"positions must be nn.Rotary\(\), nn.Alibi\(\) or None"):
        nn.attention(x, 1, positions="rotary")
    with pytest.raises(ValueError, match="bias_std must be 0 for infinitely many heads"):
        nn.attention(x, math.inf, bias_std=1.0)
    with pytest.raises(TypeError, match="f must be a function of vectors"):
        nn.residual(x)
