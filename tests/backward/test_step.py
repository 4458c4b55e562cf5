"""`after_step` against a step by automatic differentiation, with the same matrices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from backward.moved import moved

Net = Callable[[], tuple[list[Any], ll.Scalars]]
ETA = 0.7


def square(f: Any) -> Any:
    return 0.5 * (f - 1.0) ** 2


def tokens(*shape: int) -> ll.Wide:
    return ll.initial(shape, mean=0.3)


def mlp() -> tuple[list[Any], ll.Scalars]:
    """Two hidden layers on a batch of inputs, with a trained readout."""
    x = ll.data([[1.0, 0.5], [-0.3, 0.8], [0.2, -1.0]])
    h = ll.Matrix(1.2, rows=2 * ll.n, cols=2) @ x
    g = ll.Matrix(1.5, cols=2 * ll.n) @ ll.tanh(h)
    f = ll.average(ll.Matrix(rows=1) @ ll.tanh(g))
    return [h, g, f], f[:2]  # the third input is not trained on


def one_input() -> tuple[list[Any], ll.Scalars]:
    """The readout of μP, through a transpose."""
    h = ll.Matrix(1.2, cols=2) @ ll.data([1.0, 0.5])
    g = ll.Matrix(0.8, rows=3 * ll.n) @ ll.tanh(h)
    f = ll.dot(ll.Matrix(rows=1, cols=3 * ll.n).T @ ll.data([1.0]), ll.tanh(g))
    return [h, g, f], f


def block() -> tuple[list[Any], ll.Scalars]:
    """A residual block with LayerNorm, gates and a convolution, with a matrix for each place."""
    x = ll.conv1d(tokens(3), 2)
    y = x + ll.nn.gated_mlp(ll.layernorm(x), hidden=2 * ll.n)
    return [x, y], ll.dot(ll.initial(), ll.layernorm(y))


def narrow() -> tuple[list[Any], ll.Scalars]:
    """Heads of fixed dimension in groups, several sequences."""
    x = tokens(2, 3)
    y = ll.attention(x, 4, head_dim=2, kv_heads=2, mask="causal", q_std=2.0, o_std=0.5)
    return [y], ll.dot(ll.initial((3,)), y)[:, 1].sum(axis=-1)


def square_heads() -> tuple[list[Any], ll.Scalars]:
    x = tokens(3)
    y = ll.attention(x, 2, q_std=np.array([[2.0], [1.0]]), positions=ll.nn.Rotary())
    return [y], ll.dot(ll.initial(), y)[0]


def tied() -> tuple[list[Any], ll.Scalars]:
    """The same matrix in two layers, and its transpose."""
    W = ll.Matrix(1.3, rows=2 * ll.n)
    h = W @ tokens(3)
    y = W.T @ ll.tanh(W @ ll.relu(W.T @ h))
    return [h, y], ll.average(y * y)[1]


NETS = (mlp, one_input, block, narrow, square_heads, tied)


def check(net: Net, optimizer: str, parametrization: Any, rate: Callable[..., float]) -> None:
    """The values after w' = w − η_W (cols/σ²) ∂L/∂w are those of the program."""
    values, f = net()
    after = ll.after_step(values, f, square, ETA, optimizer, parametrization)
    width = 8
    zero, run = moved([f, *values, *after], width)
    start = list(zero.values())
    gradient = jax.grad(lambda w: square(run(w)[0]).sum())(start)
    step = []
    for W, g in zip(zero, gradient, strict=True):
        rows, cols = W.rows.at(width), W.cols.at(width)
        std = np.broadcast_to(W.source.std, W.source.shape).reshape(*g.shape[:-2], 1, 1)
        eta = ETA * rate(std, rows, cols)
        sign = optimizer == "sign"
        step.append(-eta * (jnp.sign(g) * cols**0.5 / std if sign else g * cols / std**2))
    count = len(values)
    before, ours = (run(start)[i : i + count] for i in (1, 1 + count))
    for x, y, expected in zip(before, ours, run(step)[1:], strict=False):
        np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-11)
        assert jnp.abs(y - x).max() > 1e-3


@pytest.mark.parametrize("net", NETS)
def test_ntk(net: Net) -> None:
    check(net, "sgd", "ntk", lambda std, rows, cols: std**2 / cols)


def test_sign() -> None:
    check(one_input, "sign", "ntk", lambda std, rows, cols: std / cols**0.5)
    check(one_input, "sign", "standard", lambda std, rows, cols: 1.0)
    check(one_input, "sign", "mup", lambda std, rows, cols: cols ** (-0.5 if rows == 1 else -1))


def test_other_parametrizations() -> None:
    check(mlp, "sgd", "standard", lambda std, rows, cols: 1.0)
    check(one_input, "sgd", "mup", lambda std, rows, cols: 1.0 if rows == 1 else rows / cols)
    own = lambda matrix: ll.Rate(std=1, rows=-0.5, cols=-1.5)
    check(tied, "sgd", own, lambda std, rows, cols: std / rows**0.5 / cols**1.5)


def test_loops_are_written_out() -> None:
    """The change of what comes out of a loop, in one program."""
    x = tokens(2)
    y = ll.repeat(lambda h: h + ll.tanh(ll.Matrix() @ h), x, 3)
    f = ll.dot(ll.initial(), y)
    after = ll.after_step({"y": y, "f": f}, f, square, ETA)
    assert list(after) == ["y", "f"]
    assert ll.simulate(after, 8, 3, 0)["y"].shape == (3, 2)


def test_matrices_that_are_trained() -> None:
    """Those in a dict of learning rates."""
    x = tokens(2)
    W, V = ll.Matrix(), ll.Matrix()
    h = W @ x
    f = ll.dot(ll.initial(), ll.tanh(V @ ll.tanh(h)))
    assert ll.after_step(h, f, square, {V: 0.1}) is h
    assert ll.after_step(h, f, square, {W: 0.1}) is not h
    g = ll.dot(ll.initial(), ll.tanh(V @ ll.tanh(h).sum()))
    assert ll.after_step(h, g, square, {V: 0.1}, "sign") is h  # W meets two vectors, V one


def test_bad_arguments() -> None:
    x, W = tokens(2), ll.Matrix()
    y = ll.tanh(W @ x)
    f = ll.dot(ll.initial(), y)
    for message, call in {
        "needs a matrix to meet one vector": lambda: ll.after_step(y, f, square, 1.0, "sign"),
        "optimizer must be": lambda: ll.after_step(y, f, square, 1.0, "adam"),
        "parametrization must be": lambda: ll.after_step(y, f, square, 1.0, parametrization="mu"),
        "lr must be of matrices": lambda: ll.after_step(y, f, square, {ll.Matrix(): 1.0}),
        "f must multiply by a matrix": lambda: ll.after_step(
            y, ll.dot(ll.initial(), x), square, 1.0
        ),
        "has no rule for a matrix from width n": lambda: ll.after_step(
            y, ll.dot(ll.initial(dim=3), ll.tanh(ll.Matrix(rows=3) @ y)), square, 1.0, "sgd", "mup"
        ),
        "must be multiples of 1/2": lambda: ll.after_step(
            y, f, square, 1.0, parametrization=lambda W: ll.Rate(rows=0.3)
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.usefixtures("as_user")
def test_bad_kinds() -> None:
    x, W = tokens(2), ll.Matrix()
    f = ll.dot(ll.initial(), W @ x)
    for message, call in {
        "net must be values": lambda: ll.after_step(3.0, f, square, 1.0),
        "f must be numbers": lambda: ll.after_step(f, x, square, 1.0),
        "loss must be a function": lambda: ll.after_step(f, f, 3.0, 1.0),
    }.items():
        with pytest.raises(TypeError, match=message):
            call()
