"""Gradients through loops: by a reverse loop over the same iterations."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import ks_2samp

import limitlaw as ll
from backward.test_gradient import errors
from limitlaw.backward.tangent import parts
from limitlaw.core.program import without_numbers
from limitlaw.engines.engine import outputs, program_of
from limitlaw.engines.frames.finite import demanded_outputs, one_draw
from limitlaw.engines.frames.statistics import Samples
from limitlaw.language.values import ones
from limitlaw.language.writing_out import without_loops

Made = tuple[ll.Wide, list[ll.Wide]]  # y, and the vectors of which gradients are taken


def tokens(*shape: int) -> ll.Wide:
    return ll.initial(shape, mean=0.2)


def of_blocks(block: Callable[..., Any]) -> Callable[[], Made]:
    def made() -> Made:
        x = tokens(3)
        return ll.repeat(block, x, 3), [x]

    return made


def transformer(**options: Any) -> Callable[[], Made]:
    return of_blocks(lambda x: ll.nn.block(x, 2, hidden=2 * ll.n, **options))


def tied_inside(x: ll.Wide) -> ll.Wide:
    W = ll.Matrix()
    return x + W @ ll.layernorm(W @ ll.layernorm(x)) + 0.5 * (W.T @ x)


def streams() -> Made:
    x, z = tokens(3), tokens(2)

    def block(both: tuple[ll.Wide, ll.Wide]) -> tuple[ll.Wide, ll.Wide]:
        a, b = both
        return a + ll.relu(ll.Matrix() @ a) + b.sum(axis=0), b + ll.Matrix() @ ll.layernorm(b)

    a, b = ll.repeat(block, (x, z), 3)
    return ll.layernorm(a) + b[0], [x, z]


def inputs_and_outputs() -> Made:
    x, c, k = tokens(4, 3), tokens(3), tokens(3)

    def block(c: ll.Wide, t: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
        c = c + ll.Matrix() @ ll.layernorm(t) + k
        return c, ll.tanh(ll.Matrix() @ c) + k

    last, made = ll.scan(block, c, x, reverse=True)
    return last + made.sum(axis=0) + ll.relu(made[1]), [x, c, k]


def outputs_in_a_frame() -> Made:
    x, c = tokens(4, 3), tokens(3)

    def block(c: ll.Wide, t: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
        c = c + ll.Matrix() @ ll.layernorm(t)
        return c, ll.Matrix() @ ll.layernorm(c + t)

    last, made = ll.scan(block, c, x)
    return last + made.sum(axis=0) + made[1], [x, c]


def in_a_row() -> Made:
    x = tokens(3)
    y = ll.repeat(lambda x: ll.nn.block(x, 2, head_dim=4, hidden=None, mask="causal"), x, 2)
    z = ll.Matrix() @ ll.layernorm(y)
    return ll.repeat(lambda x: x + ll.mlp(ll.layernorm(x), phi=ll.gelu), z, 2), [x, y, z]


def nested() -> Made:
    x = tokens(3)

    def inner(h: ll.Wide) -> ll.Wide:
        return h + 0.5 * (ll.Matrix() @ ll.layernorm(h))

    return ll.repeat(lambda h: ll.repeat(inner, h + ll.relu(ll.Matrix() @ h), 2), x, 2), [x]


def beside_another() -> Made:
    """A loop inside through which nothing comes back."""
    x = tokens(3)

    def block(h: ll.Wide) -> ll.Wide:
        return h + ll.Matrix() @ h + ll.repeat(lambda g: g + ll.Matrix() @ g, ones(ll.n), 2)

    return ll.repeat(block, x, 3), [x]


def of_numbers() -> Made:
    x = tokens(3)

    def block(c: tuple[Any, Any], t: Any) -> tuple[Any, Any]:
        h, p = c
        h = (
            h + p[:, None] * ll.tanh(ll.Matrix() @ h)
            if False
            else h + t * ll.tanh(ll.Matrix() @ h)
        )
        return (h, 0.5 * p + ll.average(h * h)), None

    (h, p), _ = ll.scan(block, (x, ll.average(x)), np.linspace(0.5, 1.0, 3))
    return p * h, [x]


PROGRAMS: dict[str, Callable[[], Made]] = {
    "pre-norm": transformer(head_dim=4, mask="causal"),
    "n x n heads": transformer(q_std=2.0),
    "post-norm": transformer(head_dim=4, norm="post", normalise=ll.rmsnorm),
    "gated": transformer(head_dim=4, gated=True, normalise=ll.rmsnorm, phi=ll.silu),
    "grouped, rotary": of_blocks(
        lambda x: ll.nn.block(
            x, 4, 4, hidden=2 * ll.n, kv_heads=2, positions=ll.nn.Rotary(), mask="causal"
        )
    ),
    "biases": transformer(head_dim=4, bias_std=0.5),
    "nonlinearity on the stream": of_blocks(lambda x: ll.relu(x + ll.Matrix() @ ll.tanh(x))),
    "index": of_blocks(lambda x, i: x + ll.relu(ll.Matrix() @ x) / (i + 1) ** 0.5),
    "tied inside": of_blocks(tied_inside),
    "new vectors": of_blocks(lambda x: x + ll.tanh(ll.Matrix() @ x) + 0.1 * ll.initial()),
    "streams": streams,
    "inputs and outputs": inputs_and_outputs,
    "outputs in a frame": outputs_in_a_frame,
    "in a row": in_a_row,
    "nested": nested,
    "beside another": beside_another,
    "numbers": of_numbers,
}


def readout(y: ll.Wide) -> ll.Scalars:
    return ll.dot(ll.initial(y.shape), ll.layernorm(y)).sum()


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_automatic_differentiation(name: str) -> None:
    """Of the dense engine, with the matrices of every iteration."""
    y, vectors = PROGRAMS[name]()
    outside = [v for v in vectors if v is not y]
    assert max(errors(readout(y), [v for v in outside if not hasattr(v.op, "place")])) < 1e-11


def statistics(f: ll.Scalars, vectors: Any) -> tuple[ll.Scalars, ...]:
    found = ll.gradient(f, tuple(vectors))
    squares = [ll.average(b * b).sum() for b in found]
    return (*squares, ll.dot(found[0], vectors[0]).sum())


def agree(one: Any, two: Any) -> None:
    """Means, spreads and laws within 5 standard errors, of logarithms where all are positive."""
    for a, b in zip(one, two, strict=True):
        if min(a.min(), b.min()) > 0:
            a, b = np.log(a), np.log(b)
        error = np.hypot(a.std(), b.std()) / min(len(a), len(b)) ** 0.5
        assert abs(a.mean() - b.mean()) < 5 * error
        u, v = ((w - w.mean()) ** 2 for w in (a, b))
        assert (
            abs(u.mean() - v.mean()) < 5 * np.hypot(u.std(), v.std()) / min(len(u), len(v)) ** 0.5
        )
        assert ks_2samp(a, b).pvalue > 1e-6


@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_law_at_width(name: str, width: int) -> None:
    """That of the program in which loops are written out."""
    y, vectors = PROGRAMS[name]()
    f = readout(y)
    written, *outside = without_loops([f, *vectors])
    ours = ll.finite_samples(statistics(f, vectors), width, 4000, 0)
    agree(ours, ll.finite_samples(statistics(written, outside), width, 4000, 1))


@pytest.mark.parametrize("width", [8, 80])
def test_law_of_one_layer(width: int) -> None:
    """Against every matrix drawn, in a frame that has all axes and in one that grows."""
    y, vectors = of_blocks(lambda x: x + ll.Matrix() @ ll.layernorm(ll.Matrix() @ x))()
    asked = statistics(readout(y), vectors)
    agree(ll.finite_samples(asked, width, 2000, 0), ll.simulate(asked, width, 2000, 1))


def test_outputs_of_a_reverse_loop() -> None:
    """Their places in the frame are in the order of iterations: inner products stay."""
    c, x = ll.initial((1,)), ll.initial((3, 1))

    def block(c: ll.Wide, t: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
        c = c + ll.Matrix() @ t
        return c, c + ll.Matrix() @ c

    last, made = ll.scan(block, c, x, reverse=True)
    p = ll.dot(last + made.sum(axis=0), made[1], "linear").sum()
    agree([ll.finite_samples(p, 40, 2000, 0)], [ll.simulate(p, 40, 1000, 1)])


def equations(depth: int) -> int:
    """What is compiled for the gradient of a network with so many blocks."""
    block = lambda x: x + ll.Matrix() @ ll.layernorm(ll.Matrix() @ x)
    asked = demanded_outputs(outputs(ll.ntk(readout(ll.repeat(block, tokens(2), depth))))[0])
    plain = without_numbers(asked)
    arrays = program_of(asked).arrays
    run = lambda numbers, key: one_draw(plain, numbers, 4096, Samples(), key)
    return str(jax.make_jaxpr(run)(arrays, jax.random.key(0))).count(" = ")


def test_compiled_in_the_same_time() -> None:
    """Whatever the number of blocks."""
    assert equations(2) == equations(7)


def test_a_loop_and_its_gradient_are_one_program() -> None:
    """Not so for what is written out: gradients of gradients."""
    y, (x,) = of_blocks(lambda x: x + ll.tanh(ll.Matrix() @ x))()
    f = readout(y)
    b, again = ll.simulate((ll.gradient(f, x), y), 4, 2, 0)
    assert b.shape == again.shape == (2, 3)
    g = ll.dot(ll.initial((3,)), ll.gradient(f, x)).sum()
    assert ll.simulate(ll.gradient(g, without_loops([x])[0]), 4, 2, 0).shape == (2, 3)
    with pytest.raises(ValueError, match="y reads a loop"):
        ll.simulate((ll.gradient(g, x), y), 4, 2, 0)


def test_tangent_kernels() -> None:
    """Of all matrices: the sum over those of all iterations, and over the numbers of a batch."""
    x = tokens(3)
    y = ll.repeat(lambda x: x + ll.tanh(ll.Matrix() @ x), ll.Matrix() @ x, 3)
    f = ll.dot(ll.initial(), y)
    known = ll.parameters(f)
    assert ll.parameters(f) == known
    assert len(known) == 4
    total, one, parts = ll.simulate(
        (ll.ntk(f), ll.ntk(f[0], f), ll.ntk(f, wrt=list(known.values()))), 8, 3, 0
    )
    np.testing.assert_allclose(sum(parts), total, rtol=1e-10)
    np.testing.assert_allclose(total, total.swapaxes(1, 2), rtol=1e-10)
    np.testing.assert_allclose(one, total[:, 0], rtol=1e-10)
    assert np.linalg.eigvalsh(total).min() > 0
    assert len({float(part[0, 0, 0]) for part in parts}) == 4


def test_batches_that_do_not_meet() -> None:
    """One reverse pass for all inputs; those that meet have one each."""
    x = tokens(4, 2)
    y = ll.repeat(lambda x: x + ll.attention(x, 1, head_dim=2), ll.Matrix() @ x, 3)
    f = ll.dot(ll.initial((2,)), y)[:, 0].sum(axis=-1)
    assert len(parts(f)) == 1
    assert len(parts(ll.dot(ll.initial(), ll.layernorm(y)[0]))) == 2
    together, apart = ll.simulate((ll.ntk(f), ll.ntk(f[1], f[2:])), 6, 3, 0)
    np.testing.assert_allclose(together[:, 1, 2:], apart, rtol=1e-10)


def test_tangent_kernel_at_width() -> None:
    x = tokens(2)
    f = readout(ll.repeat(lambda x: ll.nn.block(x, 1, head_dim=2, hidden=ll.n), x, 2))
    (written,) = without_loops([f])
    agree(*([ll.finite_samples(ll.ntk(g), 6, 2000, i)] for i, g in enumerate((f, written))))


def test_tangent_kernel_of_nested_loops() -> None:
    y, _ = nested()
    f = readout(y)
    assert "loops inside of loops" in str(ll.check(ll.ntk(f)))
    (written,) = without_loops([f])
    agree(*([ll.simulate(ll.ntk(g), 6, 1000, i)] for i, g in enumerate((f, written))))
    assert len(ll.ntk(f, wrt=list(ll.parameters(f).values()))) == 2 * 3
