"""`gradient` against automatic differentiation of the dense engine, with the same matrices."""

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.backward.reverse import gradient, products
from limitlaw.core.analysis import Analysis
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled
from limitlaw.core.program import Program
from limitlaw.engines.dense.rules import DenseDraw
from limitlaw.engines.dense.weights import DrawnWeights, numbered
from limitlaw.engines.engine import slots
from limitlaw.language.writing_out import without_loops

WIDTH = 8
Net = Callable[[ll.Wide], ll.Wide]


class Probed(DenseDraw):
    """A dense draw in which `probes` are added to some values, to differentiate by them."""

    probes: Mapping[Value, Any]

    def evaluate(self, value: Value) -> None:
        super().evaluate(value)
        if value in self.probes:
            array = self[value].with_axes(value.axes).array + self.probes[value]
            self.results[value] = Labelled(array, value.axes)


def tokens(s: int = 3) -> ll.Wide:
    return ll.initial((s,), cov=np.eye(s) + 0.3, mean=0.2)


def errors(f: ll.Scalars, vectors: list[ll.Wide], width: int = WIDTH) -> list[float]:
    """Of b = √D ∂f/∂v for each vector, relative to the largest entry."""
    found = gradient(f, vectors)
    outputs = [y.core for y in (f, *found, *vectors)]
    program = Program(tuple(y.value for y in outputs))
    given = slots(program, program.arrays)
    key = jax.random.key(1)
    weights = DrawnWeights(key, width, numbered(program), Analysis(program).reused, given)
    values = [v.core.value for v in vectors]

    def run(probes: Any) -> tuple[Any, list[Any]]:
        draw = Probed(given, width, weights)
        draw.probes = dict(zip(values, probes, strict=True))
        draw.run(program)
        return draw.at(outputs[0]), [draw.at(y) for y in outputs[1 : 1 + len(vectors)]]

    sizes = [(*(int(a.size) for a in v.axes), v.dim.at(width)) for v in values]
    zeros = [jnp.zeros(size) for size in sizes]
    expected, ours = jax.grad(run, has_aux=True)(zeros)
    each = []
    for a, b in zip(expected, ours, strict=True):
        a = a * a.shape[-1] ** 0.5
        assert a.shape == b.shape
        assert jnp.abs(a).max() > 0
        each.append(float(jnp.abs(a - b).max() / jnp.abs(a).max()))
    return each


def of_readout(net: Net, s: int = 3) -> tuple[ll.Scalars, ll.Wide]:
    x = tokens(s)
    return ll.dot(ll.initial((s,)), net(x)).sum(), x


def user_cell(x: ll.Wide) -> ll.Wide:
    W, U = ll.Matrix(), ll.Matrix(std=0.5)
    h = ll.tanh(W @ x[0])
    for t in range(1, 3):
        h = ll.map(lambda a, b: jnp.sin(a) * jnp.cosh(b / 3), W @ x[t], U @ h)
    return h


def scaled(x: ll.Wide) -> ll.Wide:
    p = ll.dot(ll.Matrix() @ x, ll.Matrix() @ x)
    q = ll.apply(lambda a: jnp.linalg.inv(jnp.eye(3) + a @ a.T), p)
    return (ll.tanh(p)[0] * x) + q @ ll.map(lambda z, c: jnp.exp(-(z**2) * c), x, p[:, 1])


NETS: dict[str, Net] = {
    "mlp": lambda x: ll.mlp(x, hidden=2 * ll.n, phi=ll.gelu),
    "gated": lambda x: ll.nn.gated_mlp(x, hidden=2 * ll.n),
    "bias": lambda x: ll.nn.dense(ll.relu(ll.nn.dense(x, bias_std=0.5)), bias_std=0.3),
    "attention": lambda x: ll.attention(x, heads=2),
    "narrow, causal": lambda x: ll.attention(x, heads=2, head_dim=4, mask="causal"),
    "linear scores": lambda x: ll.attention(x, heads=2, scaling="linear"),
    "layernorm": lambda x: ll.layernorm(ll.Matrix() @ x + 0.5),
    "rmsnorm": ll.rmsnorm,
    "grouped": lambda x: ll.attention(x, heads=4, head_dim=4, kv_heads=2),
    "rotary": lambda x: ll.attention(x, heads=2, head_dim=4, positions=ll.nn.Rotary()),
    "rotary, wide": lambda x: ll.attention(x, heads=2, positions=ll.nn.Rotary(), mask="causal"),
    "pre-norm": lambda x: ll.nn.block(x, 2, norm="pre", head_dim=4, hidden=2 * ll.n),
    "post-norm": lambda x: ll.nn.block(
        x, 2, norm="post", head_dim=4, hidden=2 * ll.n, normalise=ll.rmsnorm
    ),
    "convolution": lambda x: ll.conv1d(x, 3),
    "tied cells": user_cell,
    "numbers": scaled,
    "shared": lambda x: (lambda W: W.T @ ll.relu(W @ ll.relu(W @ x)))(ll.Matrix()),
    "other dimensions": lambda x: (lambda W: W.T @ ll.tanh(W @ x))(ll.Matrix(rows=3 * ll.n)),
    "places": lambda x: ll.stack([x[2], x[0] + x[1]]).reshape(1, 2)[0, [1, 0, 1]] / x[::-1],
    "powers": lambda x: x**2 / (1 + abs(x)) - ll.average(x)[0] * x,
}


@pytest.mark.parametrize("name", NETS)
def test_readouts(name: str) -> None:
    f, x = of_readout(NETS[name])
    assert errors(f, [x])[0] < 1e-11


def test_vectors_inside() -> None:
    x = tokens()
    h = ll.Matrix() @ x
    y = ll.attention(ll.gelu(h), heads=2)
    f = ll.apply(jnp.tanh, ll.average(y * y)).sum() + ll.dot(y, h, "linear")[0, 1]
    assert max(errors(f, [x, h, y])) < 1e-11


def test_every_product_has_its_backward() -> None:
    f, _ = of_readout(NETS["narrow, causal"])
    assert len(products(f)) == 4


def test_what_f_does_not_read() -> None:
    f, _ = of_readout(NETS["mlp"])
    with pytest.raises(ValueError, match="f must depend on what wrt names"):
        gradient(f, tokens())


@pytest.mark.usefixtures("as_user")
def test_what_is_no_number() -> None:
    with pytest.raises(TypeError, match="f must be one number"):
        gradient(tokens(), tokens())


def test_loops_are_forgotten() -> None:
    """What was written out lives as long as its loop does."""
    x = tokens()
    y = ll.repeat(lambda h: ll.relu(ll.Matrix() @ h), x, 3)
    (written,) = without_loops([y])
    loop, first = weakref.ref(y.op.scan), weakref.ref(written.op)
    del y, written
    for _ in range(2):  # what a weak dictionary lets go of is collected the next time
        gc.collect()
    assert loop() is None
    assert first() is None
