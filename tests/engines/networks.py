"""Named networks for the agreement tests: the same program under all engines."""

from collections.abc import Callable

import numpy as np

import limitlaw as ll


def tokens(phi: Callable[[ll.Wide], ll.Wide], s: int = 4) -> ll.Wide:
    """The paper's tokens φ(W^i h)."""
    return phi(ll.matrices(s) @ ll.initial())


def clipped(bound: float) -> Callable[[ll.Wide], ll.Wide]:
    return lambda w: ll.clip(w, bound)


def grouped_queries(groups: int = 2, repeats: int = 2, d: int = 3) -> ll.Wide:
    """Heads that share keys and values in groups, narrow."""
    x = ll.initial((3,), cov=np.eye(3) + 0.5)
    q = ll.Matrix(shape=(groups, repeats, 1), rows=d) @ x
    k, v = (ll.Matrix(shape=(groups, 1, 1), rows=d) @ x for _ in "kv")
    out = ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(groups, repeats, 1), cols=d) @ v)
    return ll.normalised_sum(out, axis=(0, 1))


def residual_stack() -> ll.Wide:
    """Two attention layers with residual connections, and an MLP between them."""
    x = ll.initial((3,), cov=np.eye(3) + 0.3)
    x = x + ll.attention(x, 2)
    x = x + ll.mlp(x, phi=ll.tanh)
    return x + ll.attention(x, 2, mask="causal")


def pre_norm_stack() -> ll.Wide:
    """A Transformer of depth 2 with LayerNorm, narrow heads and an MLP."""
    x = ll.initial((2,)) + ll.initial()
    for _ in range(2):
        x = x + ll.attention(ll.layernorm(x), 2, head_dim=2)
        x = x + ll.mlp(ll.rmsnorm(x), hidden=(2 * ll.n,))
    return x


def tied_layers() -> ll.Wide:
    """The same four matrices in two layers: inputs depend on the matrices' earlier
    outputs and scores.
    """
    Q, K, V, O = (ll.Matrix() for _ in "qkvo")

    def layer(x: ll.Wide) -> ll.Wide:
        return x + ll.softmax(ll.dot(Q @ x, K @ x)) @ (O @ (V @ x))

    return layer(layer(ll.initial((3,))))


def keys_are_values(d: int | None = None) -> ll.Wide:
    x = ll.initial((3,))
    rows = ll.n if d is None else d
    k = ll.Matrix(shape=(2, 1), rows=rows) @ x
    q = ll.Matrix(shape=(2, 1), rows=rows) @ x
    return ll.normalised_sum(
        ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(2, 1), cols=rows) @ k), 0
    )


def tied_queries_and_keys() -> ll.Wide:
    x, W = ll.initial((3,)), ll.Matrix()
    return ll.softmax(ll.dot(W @ x, W @ x)) @ (ll.Matrix() @ x)


def iterated() -> ll.Wide:
    """One matrix applied to its own outputs: the rank of what it met is exhausted at
    small width.
    """
    W, h = ll.Matrix(), ll.initial((2,))
    steps = [h]
    for _ in range(4):
        steps.append(W @ steps[-1])
    return ll.stack([steps[-1][0], steps[-1][1], steps[2][0]])


def embedded_data() -> ll.Wide:
    X = np.array([[1.0, 0.5, -1.0], [0.2, -0.3, 2.0]])
    x = ll.Matrix(cols=3) @ ll.data(X)
    return ll.attention(x + 0.5 * ll.initial(mean=1.0), 1)


def rotated() -> ll.Wide:
    x = ll.initial((3,))
    q, k = (ll.rotary(ll.Matrix(shape=(2, 1), rows=4) @ x, np.arange(3), base=10.0) for _ in "qk")
    return ll.normalised_sum(ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(2, 1)) @ x), 0)


def swiglu() -> ll.Wide:
    x = ll.initial((2,), cov=np.array([[1.0, 0.6], [0.6, 1.0]]))
    return ll.Matrix() @ (ll.silu(ll.Matrix() @ x) * (ll.Matrix() @ x))


# name → (program, widths it needs to be a multiple of)
NETWORKS: dict[str, Callable[[], ll.Wide]] = {
    "paper, clip 100": lambda: ll.attention(tokens(clipped(100.0)), 2),
    "paper, relu": lambda: ll.attention(tokens(ll.relu), 2),
    "paper, clip 1": lambda: ll.attention(tokens(clipped(1.0)), 1),
    "one token of four": lambda: ll.attention(tokens(ll.relu), 2)[:1],
    "narrow heads, d < s": lambda: ll.attention(ll.initial((4,)), 3, head_dim=2),
    "narrow heads, d > s": lambda: ll.attention(tokens(ll.relu, 3), 2, head_dim=8),
    "causal mask": lambda: ll.attention(ll.initial((4,), cov=np.eye(4) + 1.0), 2, mask="causal"),
    "linear scaling": lambda: ll.attention(ll.initial((3,)), 2, scaling="linear", q_std=3.0),
    "grouped queries": grouped_queries,
    "MLP with biases": lambda: ll.mlp(
        ll.initial((2,)), (2 * ll.n, ll.n), ll.gelu, 1.5, bias_std=0.3
    ),
    "rnn": lambda: ll.rnn(ll.initial((4,)), std=1.5, bias_std=0.2),
    "lstm": lambda: ll.lstm(ll.initial((3,)), std=2.0),
    "gru": lambda: ll.gru(ll.initial((3,)), std=2.0, bias_std=0.2),
    "conv1d": lambda: ll.conv1d(
        ll.relu(ll.conv1d(ll.initial((4,)), 3, bias_std=0.5)), 2, padding="valid"
    ),
    "layernorm": lambda: ll.Matrix() @ ll.layernorm(ll.initial((3,), mean=0.5) + ll.initial()),
    "rmsnorm": lambda: ll.rmsnorm(ll.relu(ll.Matrix() @ ll.initial((2,)))),
    "residual stack": residual_stack,
    "pre-norm stack": pre_norm_stack,
    "tied layers": tied_layers,
    "keys are values": keys_are_values,
    "keys are values, narrow": lambda: keys_are_values(2),
    "tied queries and keys": tied_queries_and_keys,
    "iterated matrix": iterated,
    "embedded data": embedded_data,
    "rotary": rotated,
    "swiglu": swiglu,
}
