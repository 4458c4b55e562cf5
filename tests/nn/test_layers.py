"""Each layer against NumPy written from its definition, with the same weights."""

import math

import numpy as np
import pytest

import limitlaw as ll
from engines.given_weights import (
    assert_close,
    initials,
    matrices,
    plain_softmax,
    random_weights,
    run,
)

WIDTH = 6


def sigmoid(x):
    """1 / (1 + e^{−x})."""
    return 1 / (1 + np.exp(-x))


def prepared(layer, batch, dim=ll.n, width=WIDTH):
    """The result of `layer(x)`, the array of x, the matrices and the other initial vectors
    (biases), in order.
    """
    x = ll.initial(batch, dim=dim)
    y = layer(x)
    weights = random_weights((y, x), width, seed=7)
    biases = [weights[h] for h in initials(y) if h is not x]
    return run(y, width, weights), weights[x], [weights[M] for M in matrices(y)], biases


# --- Feed-forward layers -------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_dense(batch):
    y, x, (W,), (b,) = prepared(lambda x: ll.dense(x, std=2.0, bias_std=0.3, dim=2 * ll.n), batch)
    assert W.shape == (2 * WIDTH, WIDTH)
    assert_close(y, np.einsum("rc,...c->...r", W, x) + 0.3 * b)


def test_dense_without_bias_has_no_other_randomness():
    y, x, (W,), biases = prepared(lambda x: ll.dense(x, dim=5), (3,))
    assert not biases
    assert_close(y, x @ W.T)


def test_mlp():
    def layer(x):
        return ll.mlp(x, hidden=(2 * ll.n, 5), phi=ll.tanh, std=1.5, bias_std=0.2, dim=ll.n)

    y, x, (W1, W2, W3), (b1, b2, b3) = prepared(layer, (2, 3))
    assert (W1.shape, W2.shape, W3.shape) == ((12, 6), (5, 12), (6, 5))
    hidden = np.tanh(np.tanh(x @ W1.T + 0.2 * b1) @ W2.T + 0.2 * b2)
    assert_close(y, hidden @ W3.T + 0.2 * b3)


def test_mlp_is_a_relu_network_by_default():
    y, x, (W1, W2), _ = prepared(ll.mlp, (3,))
    assert_close(y, np.maximum(x @ W1.T, 0) @ W2.T)


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_norms(eps):
    def layernorm(v):
        mean = sum(v) / len(v)
        variance = sum((u - mean) ** 2 for u in v) / len(v)
        return (v - mean) / math.sqrt(variance + eps)

    def rmsnorm(v):
        return v / math.sqrt(sum(u * u for u in v) / len(v) + eps)

    for layer, formula in ((ll.layernorm, layernorm), (ll.rmsnorm, rmsnorm)):
        y, x, *_ = prepared(lambda x, layer=layer: layer(3 * x + 1, eps), (2, 3))
        assert_close(y, np.apply_along_axis(formula, -1, 3 * x + 1))


# --- Attention -----------------------------------------------------------------------------------


def plain_attention(x, Q, K, V, Out, scaling="sqrt", visible=None):
    """y_i = H^{-1/2} Σ_a Σ_j A^a_ij W^{O,a} W^{V,a} x_j for one sequence x of shape (s,
    cols), with loops.
    """
    s, H, D = len(x), len(Q), Q.shape[-2]
    y = np.zeros((s, Out.shape[-2]))
    for a in range(H):
        q, k, v = x @ Q[a].T, x @ K[a].T, x @ V[a].T
        p = np.array([[np.dot(q[i], k[j]) for j in range(s)] for i in range(s)])
        A = plain_softmax(
            p / (np.sqrt(D) if scaling == "sqrt" else D), None if visible is None else visible[a]
        )
        for i in range(s):
            for j in range(s):
                y[i] += A[i, j] * (Out[a] @ v[j]) / np.sqrt(H)
    return y


ATTENTIONS = {
    "one head": {"heads": 1},
    "two heads": {"heads": 2},
    "narrow heads": {"heads": 3, "head_dim": 2},
    "one-dimensional heads": {"heads": 3, "head_dim": 1},
    "linear scaling": {"heads": 2, "scaling": "linear"},
    "narrow and linear": {"heads": 2, "head_dim": 4, "scaling": "linear"},
    "standard deviations": {"heads": 2, "q_std": 2.0, "k_std": 1.5, "v_std": 0.5, "o_std": 3.0},
    "a standard deviation a head": {"heads": 2, "q_std": [[3.0], [0.0]]},
}
S = 4
MASKS = {
    "none": None,
    "causal": "causal",
    "one token seen": np.roll(np.eye(S, dtype=bool), 1, axis=0),
    "same for all rows": np.array([True, False, True, True]),
}


@pytest.mark.parametrize("batch", [(S,), (2, 1, S)])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("setting", ATTENTIONS)
def test_attention(setting, mask, batch):
    arguments = ATTENTIONS[setting]
    y, x, (Q, K, V, Out), _ = prepared(
        lambda x: ll.attention(x, mask=MASKS[mask], **arguments), batch
    )
    H, d = arguments["heads"], arguments.get("head_dim", WIDTH)
    Q, K, V, Out = (W.reshape(H, *W.shape[-2:]) for W in (Q, K, V, Out))
    assert Q.shape == K.shape == V.shape == (H, d, WIDTH)
    assert Out.shape == (H, WIDTH, d)
    visible = {"none": np.ones((S, S)), "causal": np.tri(S)}.get(mask, MASKS[mask])
    visible = np.broadcast_to(visible, (H, S, S))
    scaling = arguments.get("scaling", "sqrt")
    expected = [
        plain_attention(sequence, Q, K, V, Out, scaling, visible)
        for sequence in x.reshape(-1, S, WIDTH)
    ]
    assert_close(y, np.reshape(expected, y.shape))


def test_attention_gives_each_matrix_its_standard_deviation():
    y = ll.attention(ll.initial((S,)), 2, q_std=2.0, k_std=1.5, v_std=[[0.5], [0.7]], o_std=3.0)
    assert [M.std.tolist() for M in matrices(y)] == [2.0, 1.5, [[0.5], [0.7]], 3.0]
    assert all(M.shape == (2, 1) for M in matrices(y))


def test_attention_with_a_mask_for_each_head_and_each_sequence():
    visible = np.random.default_rng(0).random((2, 3, S, S)) < 0.4 + np.eye(S)
    y, x, weights, _ = prepared(lambda x: ll.attention(x, heads=3, mask=visible), (2, S))
    Q, K, V, Out = (W[:, 0] for W in weights)
    assert_close(
        y, np.stack([plain_attention(x[b], Q, K, V, Out, visible=visible[b]) for b in range(2)])
    )


def test_attention_with_a_mask_for_each_sequence():
    """As many sequences as heads: the mask is still that of the sequences."""
    visible = np.random.default_rng(1).random((2, S, S)) < 0.4 + np.eye(S)
    y, x, weights, _ = prepared(lambda x: ll.attention(x, heads=2, mask=visible), (2, S))
    Q, K, V, Out = (W[:, 0] for W in weights)
    each = np.broadcast_to(visible[:, None], (2, 2, S, S))
    assert_close(
        y, np.stack([plain_attention(x[b], Q, K, V, Out, visible=each[b]) for b in range(2)])
    )


def test_attention_embeds_given_data_and_keeps_other_wide_spaces():
    for dim, rows in ((5, WIDTH), (2 * ll.n, 2 * WIDTH)):
        y, x, weights, _ = prepared(lambda x: ll.attention(x, heads=2), (S,), dim=dim)
        assert_close(y, plain_attention(x, *(W[:, 0] for W in weights)))
        assert y.shape == (S, rows)


# --- Recurrent layers ----------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(1,), (4,), (2, 3)])
def test_rnn(batch):
    y, x, (U, *W), (b,) = prepared(
        lambda x: ll.rnn(x, std=1.5, input_std=0.7, bias_std=0.2), batch
    )
    h = np.zeros(x[..., 0, :].shape)
    for t in range(batch[-1]):
        h = np.tanh((h @ W[0].T if W else 0) + x[..., t, :] @ U.T + 0.2 * b)
        assert_close(y[..., t, :], h)


@pytest.mark.parametrize("batch", [(4,), (2, 3)])
def test_lstm(batch):
    y, x, (U, W), (b,) = prepared(
        lambda x: ll.lstm(x, std=1.5, input_std=0.7, bias_std=0.2), batch
    )
    (Ui, Uf, Ug, Uo), (Wi, Wf, Wg, Wo) = (M.reshape(4, *M.shape[-2:]) for M in (U, W))
    bi, bf, bg, bo = 0.2 * b.reshape(4, -1)
    h = c = np.zeros(x[..., 0, :].shape)
    for t in range(batch[-1]):
        u = x[..., t, :]
        i = sigmoid(h @ Wi.T + u @ Ui.T + bi)
        f = sigmoid(h @ Wf.T + u @ Uf.T + bf)
        o = sigmoid(h @ Wo.T + u @ Uo.T + bo)
        g = np.tanh(h @ Wg.T + u @ Ug.T + bg)
        c = f * c + i * g
        h = o * np.tanh(c)
        assert_close(y[..., t, :], h)


@pytest.mark.parametrize("batch", [(4,), (2, 3)])
def test_gru(batch):
    y, x, (U, W), (b,) = prepared(lambda x: ll.gru(x, std=1.5, input_std=0.7, bias_std=0.2), batch)
    (Uz, Ur, Ug), (Wz, Wr, Wg) = (M.reshape(3, *M.shape[-2:]) for M in (U, W))
    bz, br, bg = 0.2 * b.reshape(3, -1)
    h = np.zeros(x[..., 0, :].shape)
    for t in range(batch[-1]):
        u = x[..., t, :]
        z = sigmoid(h @ Wz.T + u @ Uz.T + bz)
        r = sigmoid(h @ Wr.T + u @ Ur.T + br)
        g = np.tanh(u @ Ug.T + bg + r * (h @ Wg.T))
        h = (1 - z) * g + z * h
        assert_close(y[..., t, :], h)


# --- Convolution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["same", "valid", "circular"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("batch", [(5,), (2, 5)])
def test_conv1d(batch, size, padding):
    y, x, (W,), (b,) = prepared(lambda x: ll.conv1d(x, size, 1.5, 0.2, padding, dim=4), batch)
    s = batch[-1]
    if padding == "circular":
        padded = np.concatenate([x, x, x], axis=-2)[..., s - (size - 1) // 2 :, :]
    else:
        before = 0 if padding == "valid" else (size - 1) // 2
        zeros = np.zeros((*batch[:-1], size, WIDTH))
        padded = np.concatenate(
            [zeros[..., :before, :], x, *([] if padding == "valid" else [zeros])], axis=-2
        )
    outputs = s - size + 1 if padding == "valid" else s
    assert y.shape == (*batch[:-1], outputs, 4)
    for i in range(outputs):
        total = sum(padded[..., i + j, :] @ W[j, 0].T for j in range(size))
        assert_close(y[..., i, :], total + 0.2 * b)


def test_conv1d_has_fan_in_scaling():
    y = ll.conv1d(ll.initial((5,)), kernel_size=4, std=3.0)
    (W,) = matrices(y)
    assert_close(W.std, np.asarray(3.0 / math.sqrt(4)), 1e-15)


def test_conv1d_longer_than_a_circle_wraps_more_than_once():
    y, x, (W,), _ = prepared(lambda x: ll.conv1d(x, 7, padding="circular"), (2,))
    for i in range(2):
        assert_close(y[i], sum(W[j, 0] @ x[(i + j - 3) % 2] for j in range(7)))
