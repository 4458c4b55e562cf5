"""Computing no more than the outputs need: the rewritten program means the same,
and is smaller where it can be.
"""

from typing import Any

import numpy as np
import pytest
from eager import DrawnBefore, weights_of
from given_weights import assert_close
from networks import NETWORKS
from numpy_jax import by_numpy
from random_programs import TOKENS, Writer

import limitlaw as ll
from limitlaw.core.instructions import Contract, Dot, Map, MatMul, Ones
from limitlaw.core.program import Output, Program
from limitlaw.engines.dense.simulate import evaluate, evaluated
from limitlaw.engines.frames.finite import demanded_outputs
from validity import validate

WIDTH = 4
PARTS = (0, -1, slice(None), slice(0, 1), slice(1, None), slice(None, None, -1), slice(-1, None))


def demanded(outputs: tuple[Any, ...]) -> tuple[Output, ...]:
    """The rewritten program, which is well-formed."""
    rewritten = demanded_outputs(tuple(y.core for y in outputs))
    validate(*(output.value for output in rewritten))
    return rewritten


def values_of(outputs: tuple[Any, ...]) -> list[Any]:
    """The values of the rewritten program."""
    return Program(tuple(output.value for output in demanded(outputs))).values


def indexed(y: Any, rng: np.random.Generator) -> Any:
    """y with a random basic index: integers, slices, new axes and an ellipsis."""
    while True:
        parts: list[Any] = [
            PARTS[rng.integers(len(PARTS))] for _ in range(rng.integers(0, y.ndim + 1))
        ]
        for extra in (None, Ellipsis):
            if rng.random() < 0.3:
                parts.insert(rng.integers(len(parts) + 1), extra)
        if 0 not in y[tuple(parts)].shape:
            return y[tuple(parts)]


def assert_same(outputs: tuple[Any, ...], seed: int = 0) -> None:
    """The outputs of the program and of the rewritten one, for the same weights."""
    rewritten = demanded(outputs)
    assert [y.layout for y in rewritten] == [y.core.layout for y in outputs]
    shapes = weights_of(outputs, WIDTH)

    def both(*arrays: Any) -> Any:
        weights = DrawnBefore(dict(zip(shapes, arrays, strict=True)))
        return evaluate(outputs, WIDTH, weights) + evaluated(rewritten, WIDTH, weights)

    rng = np.random.default_rng(seed)
    results = by_numpy(both)(*(rng.standard_normal((3, *shape)) for shape in shapes.values()))
    for before, after in zip(results[: len(outputs)], results[len(outputs) :], strict=True):
        assert_close(after, before, 1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_mean_the_same(seed: int) -> None:
    """Several outputs that share parts, each indexed, some again."""
    rng = np.random.default_rng(seed)
    writer = Writer(seed)
    y = writer.program()
    outputs = [y[0], indexed(y, rng), indexed(writer.old(), rng)]
    last = outputs[-1]
    outputs += [
        indexed(
            indexed(ll.stack([writer.old(), writer.old()], axis=int(rng.integers(2))), rng), rng
        )
    ]
    outputs += [ll.average(last * last), indexed(ll.dot(writer.old(), writer.old()), rng)]
    kept = [outputs[i] for i in rng.permutation(len(outputs))[: rng.integers(1, len(outputs) + 1)]]
    assert_same(tuple(kept), seed)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_mean_the_same(name: str) -> None:
    """One token, and the last ones."""
    y = NETWORKS[name]()
    assert_same((y[0],) if y.ndim == 1 else (y[0, ..., -1],))
    assert_same((y[-1:], y[..., None, ::-1]))


# --- Each rewrite --------------------------------------------------------------------------------


def made_by(y: Any, matrix: ll.Matrix) -> list[Any]:
    """What the rewritten program multiplies by `matrix`."""
    return met(values_of((y,)), matrix)


def met(values: list[Any], matrix: ll.Matrix) -> list[Any]:
    """The vectors that `matrix` multiplies."""
    products = (v.instruction for v in values if isinstance(v.instruction, MatMul))
    return [op.x for op in products if op.family.source is matrix]


def sizes(vectors: list[Any]) -> list[tuple[int, ...]]:
    """The sizes of their axes."""
    return [tuple(axis.size for axis in x.axes) for x in vectors]


def kinds(y: Any) -> set[Any]:
    """Of instructions; an inner product is a dot product whose second factor is not **1**."""
    instructions = [v.instruction for v in values_of((y,))]
    inner = {
        "inner"
        for op in instructions
        if isinstance(op, Dot) and not isinstance(op.k.instruction, Ones)
    }
    return {type(op) for op in instructions} | inner


class Attention:
    """Hand-written attention whose parts can be looked at."""

    def __init__(self, x: ll.Wide):
        self.Q, self.K, self.V, self.O = (ll.Matrix(shape=(2, 1)) for _ in "qkvo")
        self.q, self.k, self.v = self.Q @ x, self.K @ x, self.V @ x
        self.A = ll.softmax(ll.dot(self.q, self.k))
        self.out = self.A @ (self.O @ self.v)
        self.y = ll.normalised_sum(self.out, 0)


def test_one_token_asks_one_query() -> None:
    """The query is made from one token; keys and values from all;
    and the mixing comes before O.
    """
    layer = Attention(ll.initial((5,)))
    assert sizes(made_by(layer.y[2], layer.Q)) == [()]
    assert sizes(made_by(layer.y[2], layer.K)) == [(5,)]
    assert sizes(made_by(layer.y[2], layer.O)) == [(2,)]
    assert sizes(made_by(layer.y[1:3], layer.Q)) == [(2,)]
    assert sizes(made_by(layer.y, layer.Q)) == [(5,)]


def test_what_is_read_elsewhere_stays_whole() -> None:
    """Queries that another output reads, or scores."""
    layer = Attention(ll.initial((5,)))
    for other in (layer.q, ll.average(layer.q), layer.A, layer.y):
        assert sizes(met(values_of((layer.y[2], other)), layer.Q)) == [(5,)]
        assert_same((layer.y[2], other))


def test_mixing_comes_first() -> None:
    """a @ (M @ x) → M @ (a @ x) where x is Gaussian and read only here."""
    x = ll.Matrix() @ ll.initial((4,))
    M, a = ll.Matrix(), np.arange(8.0).reshape(2, 4)
    y = a @ (M @ x)
    assert sizes(made_by(y, M)) == [(2,)]
    assert isinstance(made_by(y, M)[0].instruction, Contract)
    assert_same((y,))


def test_mixing_stays_where_it_is() -> None:
    """x read elsewhere, the product read elsewhere, x not Gaussian,
    another matrix for each token, a reused matrix.
    """
    x = ll.Matrix() @ ll.initial((4,))
    a = np.arange(8.0).reshape(2, 4)

    def asked(M: ll.Matrix, *outputs: Any) -> list[Any]:
        assert_same(outputs)
        return sizes(met(values_of(outputs), M))

    M = ll.Matrix()
    assert asked(M, a @ (M @ x), ll.average(x)) == [(4,)]
    w = M @ x
    assert asked(M, a @ w, ll.average(w)) == [(4,)]
    assert asked(M, a @ (M @ ll.relu(ll.Matrix() @ ll.initial((4,))))) == [(4,)]
    assert asked(M, a @ (M @ (ll.Matrix() @ ll.initial((4,)))), M @ ll.initial()) == [(4,), ()]
    each = ll.matrices(4)
    assert asked(each, a @ (each @ (ll.Matrix() @ ll.initial((4,))))) == [(4,)]


def test_the_average_of_a_product_is_an_inner_product() -> None:
    """So that a norm needs no coordinates; not where the product is read for itself,
    nor for other functions.
    """
    x = ll.Matrix() @ ll.initial((TOKENS,))
    assert "inner" in kinds(ll.average(x * x))
    assert Map not in kinds(ll.average(x * x))
    assert Map not in kinds(ll.rmsnorm(x))
    assert Map not in kinds(ll.layernorm(x))
    product = x * x
    assert "inner" not in kinds(ll.average(product) * product)
    assert "inner" not in kinds(ll.average(ll.abs(x)))
    assert "inner" not in kinds(ll.average(ll.map(lambda a, p: a * p, x, ll.average(x))))


def test_one_token_of_a_norm_needs_no_coordinates() -> None:
    x = ll.initial((TOKENS,))
    assert Map not in kinds(ll.rmsnorm(x)[0])
    assert Map not in kinds(ll.layernorm(x + ll.Matrix() @ x)[:1])


INDEX_CASES = {
    "scale": lambda x: (np.arange(3.0) * x)[1:],
    "add": lambda x: (x + x[0])[1],
    "nonlin": lambda x: ll.tanh(x)[-1],
    "sum": lambda x: ll.stack([x, -x]).sum(axis=0)[::-1],
    "stack": lambda x: ll.stack([x, 2 * x, x - 1.0])[1:, 0],
    "transpose": lambda x: ll.stack([x, -x]).transpose(1, 0)[2],
    "family": lambda x: (ll.Matrix(shape=(2, 1)) @ x)[1, :2],
    "mix": lambda x: (np.arange(6.0).reshape(2, 3) @ x)[1],
    "reshape": lambda x: ll.stack([x, -x]).reshape(6)[4],
    "scores": lambda x: ll.dot(ll.Matrix() @ x, ll.Matrix() @ x[:2])[1:, -1],
    "softmax": lambda x: ll.softmax(ll.dot(x, ll.Matrix() @ x), "causal")[-1, 1],
    "average": lambda x: ll.average(ll.Matrix() @ x)[1],
    "array": lambda x: (2 * x)[np.array([2, 0])][:1],
    "new axis": lambda x: (2 * x)[None, 1:, None][0, ::-1],
}


@pytest.mark.parametrize("name", INDEX_CASES)
def test_indexing_moves_through(name: str) -> None:
    """Each instruction by itself."""
    assert_same((INDEX_CASES[name](ll.initial((3,))),))
