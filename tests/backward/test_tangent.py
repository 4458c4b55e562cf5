"""`ntk` against automatic differentiation with respect to all matrices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from backward.moved import moved
from limitlaw.backward.tangent import ntk, parameters
from limitlaw.language.writing_out import without_loops

WIDTH = 6


def check(f: ll.Scalars, f2: ll.Scalars | None = None) -> None:
    """Θ of all matrices, and of each, by the program and by the Jacobian."""
    second = f if f2 is None else f2
    known = parameters(f, second)
    asked = (ntk(f, f2), *ntk(f, f2, wrt=list(known.values())))
    w, run = moved((f, second, *asked), WIDTH, vectors=True)
    start = list(w.values())
    _, _, total, *parts = run(start)
    jacobians = jax.jacobian(lambda arrays: run(arrays)[:2])(start)
    expected = {
        W.source: jnp.tensordot(
            *(J.reshape(*y.shape, -1) for J, y in zip(pair, (f, second), strict=True)), (-1, -1)
        )
        for W, *pair in zip(w, *jacobians, strict=True)
    }
    for matrix, part in zip(known.values(), parts, strict=True):
        np.testing.assert_allclose(part, expected[matrix], rtol=1e-10, atol=1e-12)
    trained = sum(expected[parameter] for parameter in known.values())
    np.testing.assert_allclose(total, trained, rtol=1e-10, atol=1e-12)
    assert jnp.abs(total).max() > 1e-3


def tokens(*shape: int) -> ll.Wide:
    return ll.initial(shape, mean=0.3)


def tied(x: ll.Wide) -> ll.Wide:
    W = ll.Matrix(std=1.3, rows=2 * ll.n)
    return W.T @ ll.tanh(W @ ll.relu(W.T @ (W @ x)))


def written_out(y: ll.Wide) -> ll.Wide:
    return without_loops([y])[0]


NETS: dict[str, Callable[[ll.Wide], ll.Wide]] = {
    "mlp": lambda x: ll.mlp(x, hidden=(2 * ll.n, ll.n), phi=ll.gelu, std=1.5),
    "attention": lambda x: ll.attention(x, heads=2, q_std=2.0, mask="causal"),
    "narrow": lambda x: ll.attention(x, heads=4, head_dim=2, kv_heads=2, o_std=0.5),
    "block": lambda x: ll.nn.block(x, 2, head_dim=2, hidden=2 * ll.n),
    "tied": tied,
    "biases": lambda x: ll.attention(x, heads=2, head_dim=2, q_std=2.0, bias_std=0.5),
    "a bias of a loop": lambda x: written_out(ll.repeat(lambda h: ll.mlp(h, bias_std=0.7), x, 2)),
}


@pytest.mark.parametrize("name", NETS)
def test_one_number(name: str) -> None:
    y = NETS[name](tokens(3))
    u = ll.initial((3,))
    check(ll.dot(u, y).sum())


@pytest.mark.parametrize("name", NETS)
def test_two_sequences(name: str) -> None:
    """A batch whose entries do not meet: one reverse pass."""
    y = NETS[name](tokens(2, 3))
    check(ll.dot(ll.initial((3,)), y)[:, 1].sum(axis=-1))


def test_a_batch_that_meets() -> None:
    y = ll.attention(tokens(3), heads=2)
    check(ll.dot(ll.initial(), y))


@pytest.mark.parametrize("norm", [ll.layernorm, ll.rmsnorm])
def test_gains(norm: Callable[..., ll.Wide]) -> None:
    """Against the Jacobian of the same network with its gains written as vectors of ones, in two
    places, of a batch of numbers that do not meet.
    """
    x, W, u = tokens(2, 3), ll.Matrix(1.5), ll.initial((3,))
    gains = [ll.initial(mean=1.0, cov=0.0) for _ in range(2)]

    def net(norms: list[Callable[[ll.Wide], ll.Wide]]) -> ll.Scalars:
        h = ll.tanh(norms[0](x) + W @ norms[1](x))
        return ll.dot(u, ll.tanh(W @ h))[:, 1].sum(axis=-1)

    f = net([lambda h: norm(h, gain=True)] * 2)
    explicit = net([lambda h, g=g: norm(h) * g for g in gains])
    found = [p for p in parameters(f).values() if p is not W]
    w, run = moved((f, explicit, *ntk(f, wrt=found), ntk(f, f[0], wrt=found[1])), WIDTH, True)
    start = list(w.values())
    values = run(start)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
    jacobians = jax.jacobian(lambda arrays: run(arrays)[1])(start)
    by_source = {v.source: J for v, J in zip(w, jacobians, strict=True)}
    for theta, g in zip(values[2:4], gains, strict=True):
        expected = by_source[g] @ by_source[g].T
        np.testing.assert_allclose(theta, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values[4], values[3][:, 0], rtol=1e-10)


def test_between_two() -> None:
    x, W = tokens(3), ll.Matrix()
    y = ll.relu(W @ x)
    z = ll.tanh(ll.Matrix() @ (W @ x[1]))
    check(ll.dot(ll.initial(), y)[:2], ll.dot(ll.initial(), z))


def test_a_matrix_of_one_of_two() -> None:
    """A kernel between batches of which only one reads a matrix is zero for that."""
    x, u, W, V = tokens(3), ll.initial(), ll.Matrix(), ll.Matrix()
    h = ll.tanh(W @ x)
    check(ll.dot(u, h), ll.dot(u, V @ h))


def test_bad_arguments() -> None:
    x, W = tokens(3), ll.Matrix()
    f = ll.dot(ll.initial(), W @ x)
    with pytest.raises(ValueError, match="f must multiply by a matrix"):
        ntk(ll.dot(ll.initial(), x))
    with pytest.raises(ValueError, match="wrt must be matrices that f multiplies by"):
        ntk(f, wrt=[ll.Matrix()])


@pytest.mark.usefixtures("as_user")
def test_bad_kinds() -> None:
    x, W = tokens(3), ll.Matrix()
    f = ll.dot(ll.initial(), W @ x)
    for call, message in (
        (lambda: ntk(3.0), "f must be numbers of a program"),
        (lambda: ntk(f, x), "f2 must be numbers of a program"),
        (lambda: ntk(f, wrt=3), "wrt must be a matrix, a bias or a gain"),
        (lambda: parameters(3.0), "parameters needs values of a program"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
