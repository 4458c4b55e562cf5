"""`scan`, a loop with inputs and outputs by iteration: its law in every engine is that of the same
program written out by hand.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit
from statistics_of_samples import disagreement

TIMES, WIDTH, DRAWS = 3, 5, 4000
K = np.array([[1.0, 0.4], [0.4, 2.0]])

Values = tuple[ll.Wide, ...]
Step = Callable[[Any, Any], tuple[Any, Any]]


def tokens() -> ll.Wide:
    return ll.initial(2, cov=K)


def mixed(c: ll.Wide, x: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
    """A carry that takes in an input, and an output of both."""
    y = 0.8 * c + ll.Matrix() @ x
    return y + 0.5 * (ll.Matrix() @ ll.relu(ll.Matrix() @ y)), y - 0.3 * x


def recurrent(c: ll.Wide, x: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
    c = 0.5 * c + x + ll.Matrix() @ ll.tanh(ll.Matrix() @ c)
    return c, c


def two_streams(c: Values, x: ll.Wide) -> tuple[Values, ll.Wide]:
    """Two spaces, each of which reads the other through a matrix."""
    a, b = c
    b = b + ll.Matrix(rows=2 * ll.n) @ (a + x)
    a = a + ll.Matrix(cols=2 * ll.n) @ ll.relu(ll.Matrix(rows=2 * ll.n, cols=2 * ll.n) @ b)
    return (a, b), ll.Matrix(cols=2 * ll.n) @ b + a


def attending(c: ll.Wide, x: ll.Wide) -> tuple[ll.Wide, ll.Scalars]:
    """Random scores, which are an output."""
    q, k = ll.Matrix() @ c, ll.Matrix() @ x
    p = ll.dot(q, k)
    return c + ll.softmax(p) @ (ll.Matrix() @ c), p


def by_hand(step: Step, c: Any, x: ll.Wide, reverse: bool = False) -> tuple[Any, Any]:
    """The same, written out."""
    outputs = {}
    for t in range(TIMES)[:: -1 if reverse else 1]:
        c, outputs[t] = step(c, x[t])
    return c, ll.stack([outputs[t] for t in range(TIMES)])


def program(step: Step, loop: bool, reverse: bool) -> tuple[ll.Wide, ...]:
    """Every result of a scan, beside what it was given."""
    h = ll.initial((TIMES, 2), cov=np.kron(np.eye(TIMES) + 0.3, K))
    start: Any = (tokens(), ll.Matrix(rows=2 * ll.n) @ h[0]) if step is two_streams else h[1]
    if loop:
        c, y = ll.scan(step, start, h, reverse=reverse)
    else:
        c, y = by_hand(step, start, h, reverse)
    last = c[0] + 0.5 * (ll.Matrix(cols=2 * ll.n) @ c[1]) if step is two_streams else c
    if isinstance(y, ll.Scalars):
        return (last + h[0], (1.0 + y[0]) @ h[2] + last)
    return (last + h[0], y[1] + 0.5 * last, y[0] - y[2] + h[1])


STEPS = {f.__name__: f for f in (mixed, recurrent, two_streams, attending)}
directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
steps = pytest.mark.parametrize("name", STEPS)


@directions
@steps
def test_limit(name: str, reverse: bool) -> None:
    """Draw by draw what the program without a loop gives."""
    loop, plain = (ll.stack(list(program(STEPS[name], way, reverse))) for way in (True, False))
    first, second = (Limit((y.core,), statistics.second_moment) for y in (loop, plain))
    assert first.plan.has_loops
    assert not second.plan.has_loops
    assert first.recipe == second.recipe
    np.testing.assert_allclose(
        first.conditions(8, None).arrays, second.conditions(8, None).arrays, rtol=1e-10, atol=1e-12
    )


@steps
def test_definition(name: str) -> None:
    """Every matrix drawn."""
    found = [
        ll.simulate(program(STEPS[name], way, True), WIDTH, DRAWS, jax.random.key(way))
        for way in (True, False)
    ]
    for loop, plain in zip(*found, strict=True):
        assert disagreement(np.asarray(loop), np.asarray(plain)) < 1


@steps
@pytest.mark.parametrize("width", [2, 12], ids=["full frames", "frames"])
def test_finite_width(name: str, width: int) -> None:
    """The exact law against the definition: places of outputs, carries and what is outside."""
    exact = ll.finite_samples(program(STEPS[name], True, False), width, DRAWS, jax.random.key(0))
    drawn = ll.simulate(program(STEPS[name], False, False), width, DRAWS, jax.random.key(1))
    for loop, plain in zip(exact, drawn, strict=True):
        assert disagreement(np.asarray(loop), np.asarray(plain)) < 1
