"""A block written once and repeated: the law of the loop is that of the blocks written out."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.unrolling import unrolled
from statistics_of_samples import disagreement
from validity import validate

DRAWS, WIDTH, TIMES = 4000, 4, 3
Block = Callable[[ll.Wide], ll.Wide]


def linear(x: ll.Wide) -> ll.Wide:
    return x + 0.5 * (ll.Matrix() @ x)


def attention(x: ll.Wide) -> ll.Wide:
    return x + ll.attention(ll.rmsnorm(x), heads=2)


def centred(x: ll.Wide) -> ll.Wide:
    return ll.layernorm(x + ll.Matrix() @ x)


def coordinates(x: ll.Wide) -> ll.Wide:
    return x + ll.Matrix() @ ll.tanh(ll.Matrix() @ x + ll.initial())


def through(x: ll.Wide) -> ll.Wide:
    return ll.Matrix() @ ll.relu(x)


BLOCKS = {f.__name__: f for f in (linear, attention, centred, coordinates, through)}
blocks = pytest.mark.parametrize("name", BLOCKS)


def tokens() -> ll.Wide:
    return ll.initial(2, cov=np.array([[1.0, 0.5], [0.5, 1.0]]))


def written_out(block: Block, x: ll.Wide) -> ll.Wide:
    for _ in range(TIMES):
        x = block(x)
    return x


@blocks
def test_finite_width(name: str) -> None:
    """Draws without matrices; x is read again behind the loop,
    so that its place in the frame matters.
    """
    x = tokens()
    block = BLOCKS[name]
    loop = np.asarray(
        ll.finite_samples(x + ll.repeat(block, x, TIMES), WIDTH, DRAWS, jax.random.key(0))
    )
    plain = np.asarray(
        ll.finite_samples(x + written_out(block, x), WIDTH, DRAWS, jax.random.key(1))
    )
    assert disagreement(loop, plain) < 1


@blocks
def test_definition(name: str) -> None:
    """Every matrix drawn, new ones in each turn."""
    x = tokens()
    block = BLOCKS[name]
    loop = np.asarray(ll.simulate(x + ll.repeat(block, x, TIMES), WIDTH, DRAWS, jax.random.key(0)))
    plain = np.asarray(ll.simulate(x + written_out(block, x), WIDTH, DRAWS, jax.random.key(1)))
    assert disagreement(loop, plain) < 1


@blocks
def test_unrolled_core(name: str) -> None:
    """The core program without its loop is that of the blocks written out."""
    y = ll.repeat(BLOCKS[name], tokens(), TIMES)
    validate(y.core.value)
    (value,) = unrolled([y.core.value])
    validate(value)
    out = written_out(BLOCKS[name], tokens())
    from limitlaw.core.program import Program

    assert len(Program((value,)).families) == len(Program((out.core.value,)).families)


def test_what_comes_from_outside() -> None:
    """A matrix from outside: no loop, and `check` says so. Vectors and numbers may come from
    anywhere.
    """
    W, h, c = ll.Matrix(), ll.initial(), np.arange(2.0)
    tied = ll.repeat(lambda x: x + W @ x, tokens(), 3)
    assert "not one loop" in str(ll.check(tied)["loops"].why)
    for block in (lambda x: x + h, lambda x: x + c * (ll.Matrix() @ x)):
        with pytest.raises(KeyError):
            ll.check(ll.repeat(block, tokens(), 3))["loops"]
    assert (
        disagreement(*(np.asarray(ll.finite_samples(tied, WIDTH, DRAWS, key)) for key in (0, 1)))
        < 1
    )


def test_check_counts_turns() -> None:
    """Depth is that of all turns."""
    assert "depth 24" in ll.check(ll.repeat(attention, tokens(), 24)).beyond


def test_errors() -> None:
    with pytest.raises(ValueError, match="batch shape and space"):
        ll.repeat(lambda x: x[0], tokens(), 2)
    with pytest.raises(ValueError, match="times"):
        ll.repeat(linear, tokens(), 0)
