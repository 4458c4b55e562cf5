"""Kernels computed by other software (tests/reference),
each written as a program of the language, to 1e-8.
"""

import math
import pathlib

import numpy as np
import pytest

import limitlaw as ll

REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
NT = np.load(REFERENCE / "neural_tangents.npz")
GP4A = np.load(REFERENCE / "gp4a.npz")
SENTENCES = ((0, 7), (7, 16))


def words() -> ll.Wide:
    """The 16 word vectors of two sentences."""
    return ll.initial((16,), cov=GP4A["glove_cov"])


def close(y: ll.Wide, expected: np.ndarray) -> None:
    np.testing.assert_allclose(ll.kernel(y), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["relu", "erf"])
def test_mlp(name: str) -> None:
    """Three hidden layers with biases, on given data."""
    y = ll.mlp(ll.data(NT["mlp_x"]), (ll.n,) * 3, getattr(ll, name), std=1.5, bias_std=0.1)
    close(y, NT[f"mlp_{name}_nngp"])


def attention_of_sequences(scores: str) -> ll.Wide:
    """One layer on three sequences of four tokens, infinitely many heads."""
    heads = (math.inf, 1)
    tokens = ll.data(NT["att_x"])[:, None]
    v = ll.Matrix(1.1, heads) @ (ll.Matrix(1.2, heads, cols=8) @ tokens)
    if scores == "softmax_lin":
        q = ll.Matrix(math.sqrt(1.3 * 0.9), heads, cols=8) @ tokens
        A = ll.softmax(ll.dot(q, q, scaling="linear"))
    else:
        q, k = (ll.Matrix(std, heads, cols=8) @ tokens for std in (0.9, 1.3))
        A = ll.dot(q, k)
    return ll.normalised_sum(A @ v, axis=-2) + 0.1 * ll.initial()


@pytest.mark.parametrize("scores", ["softmax_lin", "identity_sqrt"])
def test_attention(scores: str) -> None:
    """Tied scores under 1/d, and the identity in place of softmax under 1/√d,
    which is analytic.
    """
    expected = NT[f"att_{scores}_nngp"].transpose(0, 2, 1, 3).reshape(12, 12)
    y = attention_of_sequences(scores)
    close(y, expected)
    assert ll.limit(y).kind == "exact"


def test_rnn() -> None:
    """h_t = erf(W h_{t−1} + U x_t), weights shared by both sentences,
    the state zero at the start of each.
    """
    W, U, x = ll.Matrix(), ll.Matrix(), words()
    states: list[ll.Wide] = []
    for start, stop in SENTENCES:
        for t in range(start, stop):
            u = U @ x[t]
            states.append(ll.erf(u if t == start else u + W @ states[-1]))
    close(ll.stack(states), GP4A["rnn_erf_exact"])


def test_transformer() -> None:
    """Two blocks: causal attention with q = k = v under 1/n,
    LayerNorm, a ReLU MLP with biases, LayerNorm.
    """
    mask = np.zeros((16, 16), bool)
    for start, stop in SENTENCES:
        mask[start:stop, start:stop] = np.tri(stop - start, dtype=bool)
    x = words()
    for _ in range(2):
        q = ll.Matrix(math.sqrt(2)) @ x
        x = ll.layernorm(q + ll.softmax(ll.dot(q, q, scaling="linear"), mask) @ q, eps=0.0)
        f = ll.mlp(x, (ll.n,), ll.relu, math.sqrt(3), math.sqrt(0.1))
        x = ll.layernorm(f + x, eps=0.0)
    close(x, GP4A["transformer_d2_vu2_vw3_vb0p1_exact"])
