"""What the language can say: small programs of known networks,
against NumPy with the same weights.
"""

import math

import numpy as np
import pytest

import limitlaw as ll
from engines.given_weights import assert_close, initials, plain_softmax, random_weights, run
from limitlaw.language.tree import ancestors

WIDTH = 6
S = 4


def tokens():
    """Four tokens that share an initial vector, as in the paper."""
    return ll.relu(ll.matrices(S) @ ll.initial())


def attend(q, k, v):
    """Attention of one head, from arrays (s, D), (t, D), (t, rows)."""
    return plain_softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def evaluated(*values, width=WIDTH):
    """The arrays of the values, and the weights."""
    weights = random_weights(values, width, seed=11)
    return *run(values, width, weights), weights


@pytest.mark.parametrize("heads", [1, 256])
def test_256_heads_are_one_family(heads):
    x = tokens()
    Q, K, V, Out = (ll.Matrix(shape=(heads, 1)) for _ in range(4))
    y = ll.normalised_sum(ll.softmax(ll.dot(Q @ x, K @ x)) @ (Out @ (V @ x)), axis=0)
    Y, X, weights = evaluated(y, x)
    expected = np.zeros((S, WIDTH))
    for a in range(heads):
        Wq, Wk, Wv, Wo = (weights[M][a, 0] for M in (Q, K, V, Out))
        expected += attend(X @ Wq.T, X @ Wk.T, X @ Wv.T @ Wo.T)
    assert_close(Y, expected / np.sqrt(heads))
    assert len(ancestors([y])) == 11
    assert len(ancestors([ll.attention(x, heads=heads)])) <= 13


def test_grouped_queries_share_keys_and_values():
    G, R = 2, 3
    x = tokens()
    Q, K, V = (
        ll.Matrix(shape=(G, R, 1), rows=5),
        ll.Matrix(shape=(G, 1, 1), rows=5),
        ll.Matrix(shape=(G, 1, 1), rows=5),
    )
    Out = ll.Matrix(shape=(G, R, 1), cols=5)
    k, v = K @ x, V @ x
    A = ll.softmax(ll.dot(Q @ x, k))
    y = ll.normalised_sum(Out @ (A @ v), axis=(0, 1))
    assert (k.shape, A.shape, y.shape) == ((G, 1, S), (G, R, S, S), (S,))
    Y, X, weights = evaluated(y, x)
    expected = np.zeros((S, WIDTH))
    for g in range(G):
        key, value = X @ weights[K][g, 0, 0].T, X @ weights[V][g, 0, 0].T
        for r in range(R):
            query = X @ weights[Q][g, r, 0].T
            expected += attend(query, key, value) @ weights[Out][g, r, 0].T
    assert_close(Y, expected / np.sqrt(G * R))


def test_multi_query_attention_has_one_key_for_all_heads():
    H = 3
    x = tokens()
    Q, K, V, Out = ll.Matrix(shape=(H, 1)), ll.Matrix(), ll.Matrix(), ll.Matrix(shape=(H, 1))
    y = ll.normalised_sum(Out @ (ll.softmax(ll.dot(Q @ x, K @ x)) @ (V @ x)), axis=0)
    Y, X, weights = evaluated(y, x)
    key, value = X @ weights[K].T, X @ weights[V].T
    heads = [attend(X @ weights[Q][a, 0].T, key, value) @ weights[Out][a, 0].T for a in range(H)]
    assert_close(Y, sum(heads) / np.sqrt(H))


def test_cross_attention_between_spaces():
    """Queries from one sequence, keys and values from another of another length and
    another width.
    """
    x, z = ll.initial((S,)), ll.initial((7,), dim=2 * ll.n)
    Q, K, V = (
        ll.Matrix(rows=5),
        ll.Matrix(rows=5, cols=2 * ll.n),
        ll.Matrix(rows=ll.n, cols=2 * ll.n),
    )
    y = ll.softmax(ll.dot(Q @ x, K @ z)) @ (V @ z)
    Y, X, Z, weights = evaluated(y, x, z)
    assert_close(Y, attend(X @ weights[Q].T, Z @ weights[K].T, Z @ weights[V].T))


def test_tied_queries_and_keys():
    x = tokens()
    W, V = ll.Matrix(), ll.Matrix()
    q = W @ x
    y = ll.softmax(ll.dot(q, q, "linear")) @ (V @ x)
    p = ll.dot(W @ x, q)
    Y, P, X, weights = evaluated(y, p, x)
    scores = X @ weights[W].T @ weights[W] @ X.T
    assert_close(Y, plain_softmax(scores / WIDTH) @ X @ weights[V].T)
    assert_close(P, scores / np.sqrt(WIDTH))
    assert_close(P, P.T)


def test_a_weight_tied_recurrent_network():
    """h_t = tanh(W h_{t−1} + U x_t + b), read out by an average at every step."""
    W, U, b, h = ll.Matrix(1.5), ll.Matrix(), ll.initial(), ll.initial()
    x = ll.initial((S,))
    states = [h]
    for t in range(S):
        states.append(ll.tanh(W @ states[-1] + U @ x[t] + b))
    *found, m, weights = evaluated(*states[1:], ll.average(states[-1]))
    state = weights[h]
    for t in range(S):
        state = np.tanh(weights[W] @ state + weights[U] @ weights[x][t] + weights[b])
        assert_close(found[t], state)
    assert_close(m, state.sum() / WIDTH)


def test_an_lstm_with_its_gates_as_one_family():
    """Four gates in one family of matrices, the input's and the state's."""
    U, W, b = ll.matrices(4), ll.matrices(4), ll.initial((4,))
    x = ll.initial((S,))
    h = c = None
    for t in range(S):
        gates = U @ x[t] + b if h is None else U @ x[t] + W @ h + b
        i, f, o, g = (*(ll.sigmoid(gates[a]) for a in range(3)), ll.tanh(gates[3]))
        c = i * g if c is None else f * c + i * g
        h = o * ll.tanh(c)
    H, C, weights = evaluated(h, c)
    state = memory = np.zeros(WIDTH)
    for t in range(S):
        v = np.stack(
            [
                weights[U][a] @ weights[x][t] + weights[W][a] @ state + weights[b][a]
                for a in range(4)
            ]
        )
        i, f, o = 1 / (1 + np.exp(-v[:3]))
        memory = f * memory + i * np.tanh(v[3])
        state = o * np.tanh(memory)
    assert_close(C, memory)
    assert_close(H, state)


def test_convolution_by_indexing():
    """A stride-2 convolution of window 3: a family of three matrices meets a
    gathered array of windows.
    """
    x = ll.initial((2, 9))
    W = ll.Matrix(shape=(3,))
    windows = np.arange(4)[:, None] * 2 + np.arange(3)
    y = (W @ x[:, windows]).sum(axis=-1)
    Y, weights = evaluated(y)
    assert y.shape == (2, 4)
    for b in range(2):
        for i in range(4):
            assert_close(Y[b, i], sum(weights[W][j] @ weights[x][b, 2 * i + j] for j in range(3)))


def test_swiglu():
    x = ll.rmsnorm(tokens())
    gate, up, down = ll.Matrix(rows=2 * ll.n), ll.Matrix(rows=2 * ll.n), ll.Matrix(cols=2 * ll.n)
    y = x + down @ (ll.silu(gate @ x) * (up @ x))
    Y, X, weights = evaluated(y, x)
    u = X @ weights[gate].T
    assert_close(Y, X + (u / (1 + np.exp(-u)) * (X @ weights[up].T)) @ weights[down].T)


def test_a_transformer_block_over_a_batch_of_given_data():
    """Pre-norm block on embedded data, positions by rotary,
    causal mask, two blocks deep with the same weights.
    """
    given = np.random.default_rng(0).standard_normal((2, S, 3))
    E = ll.Matrix(cols=3)
    Q, K, V, Out = (
        ll.Matrix(shape=(2, 1), rows=4),
        ll.Matrix(shape=(2, 1), rows=4),
        ll.Matrix(),
        ll.Matrix(),
    )
    x = E @ ll.data(given)
    for _ in range(2):
        u = ll.layernorm(x)[:, None]
        q, k = (ll.rotary(M @ u, np.arange(S)) for M in (Q, K))
        x = x + ll.normalised_sum(ll.softmax(ll.dot(q, k), "causal") @ (V @ u), axis=1)
        x = x + Out @ ll.gelu(x)
    *_, X, weights = evaluated(E @ ll.data(given), x)

    def turn(z):
        z = z[:, :2] + 1j * z[:, 2:]
        return z * np.exp(1j * np.outer(np.arange(S), 10_000.0 ** (-np.arange(2) / 2)))

    gelu = np.vectorize(lambda t: t * 0.5 * (1 + math.erf(t / math.sqrt(2))))
    for b in range(2):
        expected = given[b] @ weights[E].T
        for _ in range(2):
            centred = expected - expected.mean(axis=-1, keepdims=True)
            u = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
            update = 0
            for a in range(2):
                p = (turn(u @ weights[Q][a, 0].T) @ turn(u @ weights[K][a, 0].T).conj().T).real / 2
                update = update + plain_softmax(p, np.tri(S)) @ (u @ weights[V].T) / np.sqrt(2)
            expected = expected + update
            expected = expected + gelu(expected) @ weights[Out].T
        assert_close(X[b], expected)


def test_the_size_of_a_program_is_its_length():
    """Initial vectors and matrices are counted once, however often they are used."""
    x = tokens()
    y = x
    for _ in range(50):
        y = y + x
    assert len(initials(y)) == 1
    assert len(ancestors([y])) <= 3 + 50


@pytest.mark.parametrize("std", [1e13, [1.0, 1e-13]])
def test_scales_beyond_the_domain(std) -> None:
    """Scales at which results are not accurate are refused where a matrix is made."""
    with pytest.raises(
        ValueError, match=r"std must be 0 or from 1e-12 to 1e\+12, .*, got 1e[+-]13"
    ):
        ll.Matrix(std, shape=(2,))
    ll.Matrix([0.0, 1e12], shape=(2,))
