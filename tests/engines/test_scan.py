"""`scan`, a loop with inputs and outputs by iteration: its law in every engine is that of the same
program written out by hand.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.program import Output
from limitlaw.core.unrolling import unrolled
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit
from statistics_of_samples import disagreement
from validity import validate

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


# --- programs with loops, and the same programs written out --------------------------------------


def outside(x: ll.Wide) -> ll.Wide:
    """Vectors from outside are read in every iteration, and met behind the loop."""
    h = ll.Matrix() @ x
    y = ll.repeat(lambda c: 0.7 * c + h + ll.Matrix() @ ll.relu(ll.Matrix() @ (c + h)), x, 3)
    return y + 0.5 * h - x


def around(x: ll.Wide) -> ll.Wide:
    """Skip connections around two loops, and one around both."""
    y = x + ll.repeat(block, x, 3)
    return x + y + ll.repeat(block, y, 2)


def block(x: ll.Wide) -> ll.Wide:
    return 0.9 * x + ll.Matrix() @ ll.tanh(ll.Matrix() @ x + ll.initial(mean=0.2))


def not_gaussian(x: ll.Wide) -> ll.Wide:
    """What is carried is not Gaussian, and stands beside functions of what was met before."""
    h = ll.Matrix() @ x
    y = ll.relu(h)
    return ll.repeat(lambda c: c + 0.5 * ll.relu(ll.Matrix() @ c), y, 3) + y + h


def layers(x: ll.Wide) -> ll.Wide:
    return ll.repeat(lambda c, i: c + (ll.Matrix() @ c) / (i + 1.0) ** 0.5, x, 4) + x


def streams(x: ll.Wide) -> ll.Wide:
    """Two streams of different widths and shapes, one of which starts from the other."""

    def step(c: Values, i: ll.Scalars) -> Values:
        a, b = c
        a = a + ll.Matrix(cols=2 * ll.n) @ ll.relu(b) * (1.0 + i)
        return a, 0.5 * b + ll.Matrix(rows=2 * ll.n) @ a[0]

    a, b = ll.repeat(step, (x, ll.Matrix(rows=2 * ll.n) @ x[1]), 3)
    return a + ll.Matrix(cols=2 * ll.n) @ b + x


def nested(x: ll.Wide) -> ll.Wide:
    """A loop in a loop, that reads what both are given, and is met by it again."""
    h = ll.Matrix() @ x

    def step(c: ll.Wide) -> ll.Wide:
        inner = ll.repeat(lambda z: 0.5 * z + c + ll.Matrix() @ (z + h), c, 2)
        return inner + 0.3 * c

    return ll.repeat(step, x, 3) + h + x


def there_and_back(x: ll.Wide) -> ll.Wide:
    """A scan backward reads what one forward kept, as a reverse pass does."""
    h = ll.initial((4, 2), cov=np.kron(np.eye(4) + 0.2, K))

    def forward(c: ll.Wide, z: ll.Wide) -> tuple[ll.Wide, ll.Wide]:
        return c + ll.Matrix() @ ll.relu(ll.Matrix() @ (c + z)), c

    last, kept = ll.scan(forward, x, h)

    def backward(c: ll.Wide, z: Values) -> tuple[ll.Wide, ll.Wide]:
        before, given = z
        c = c + ll.Matrix() @ (before * 1.0 + given)
        return c, c + before

    first, outputs = ll.scan(backward, last + x, (kept, h), reverse=True)
    return first + outputs[2] - outputs[0] + kept[1] + h[3]


def numbers(x: ll.Wide) -> ll.Wide:
    """Numbers are carried and given out, and there are random scores."""

    def step(c: tuple[ll.Wide, ll.Scalars], s: ll.Scalars) -> Any:
        v, a = c
        p = ll.dot(ll.Matrix() @ v, ll.Matrix() @ v)
        a = 0.5 * a + p
        return (v + s * (ll.softmax(a) @ (ll.Matrix() @ v)), a), a

    (v, a), every = ll.scan(step, (x, np.zeros((2, 2))), np.array([1.0, 0.5, 2.0]))
    return ll.softmax(every[0] + a) @ v + x


def backward_numbers(x: ll.Wide) -> ll.Wide:
    """Numbers of every iteration, from the last to the first."""
    c, every = ll.scan(lambda c, s: (0.5 * c + s, c), np.array(1.0), np.arange(3.0), reverse=True)
    return x * (c + every[0] - 2.0 * every[2])


def once(x: ll.Wide) -> ll.Wide:
    """One iteration, of which an output is kept."""
    c, y = ll.scan(mixed, x, x[None])
    return c + y[0] + x


CARRIED = {
    f.__name__: f
    for f in (
        outside, around, not_gaussian, layers, streams, nested, there_and_back, numbers,
        backward_numbers, once,
    )
}  # fmt: skip


def written_out(y: ll.Wide) -> Output:
    (value,) = unrolled([y.core.value])
    return Output(value, y.core.layout)


@pytest.mark.usefixtures("as_user")  # nested loops are deep calls, and checks of types deepen them
@pytest.mark.parametrize("name", CARRIED)
def test_as_written_out(name: str) -> None:
    """The limit, draw by draw, with all that is outside, and without unrolling."""
    y = CARRIED[name](tokens())
    validate(y.core.value)
    loop, plain = (Limit((o,), statistics.second_moment) for o in (y.core, written_out(y)))
    assert loop.plan.has_loops
    np.testing.assert_allclose(
        loop.conditions(8, None).arrays, plain.conditions(8, None).arrays, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("name", ["outside", "streams", "there_and_back", "numbers", "nested"])
def test_as_written_out_at_finite_width(name: str) -> None:
    """Draws of the loop without matrices, and of the definition, at width 6."""
    y = CARRIED[name](tokens())
    exact = ll.finite_samples(y, 6, DRAWS, jax.random.key(0))
    drawn = ll.simulate(y, 6, DRAWS, jax.random.key(1))
    assert disagreement(np.asarray(exact), np.asarray(drawn)) < 1


def test_written_out_by_hand() -> None:
    """The index of a layer, and several streams, against loops in Python."""
    x = tokens()
    y = x
    for i in range(4):
        y = y + (ll.Matrix() @ y) / (i + 1.0) ** 0.5
    np.testing.assert_allclose(ll.kernel(layers(x)), ll.kernel(y + x), rtol=1e-12)
    a, b = x, ll.Matrix(rows=2 * ll.n) @ x[1]
    for i in range(3):
        a = a + (1.0 + i) * (ll.Matrix(cols=2 * ll.n) @ ll.relu(b))
        b = 0.5 * b + ll.Matrix(rows=2 * ll.n) @ a[0]
    y = a + ll.Matrix(cols=2 * ll.n) @ b + x
    np.testing.assert_allclose(ll.kernel(streams(x)), ll.kernel(y), rtol=1e-9)


def squared(x: ll.Wide) -> ll.Wide:
    """The result of a nonlinearity of what passes meets that again."""
    c, y = ll.scan(lambda c, _: (0.9 * c + ll.Matrix() @ c, ll.relu(c)), x, length=3)
    return c + y[0]


def reused(x: ll.Wide) -> ll.Wide:
    W = ll.Matrix()
    r = ll.repeat(block, W @ x, 3)
    return W @ ll.relu(r) + r


def bare_scores(x: ll.Wide) -> ll.Wide:
    """Scores of carries without a matrix between are correlated over iterations."""
    y = ll.repeat(lambda c: c + ll.softmax(ll.dot(c, ll.Matrix() @ x)) @ c, x, 2)
    return ll.repeat(lambda c: c + ll.softmax(ll.dot(c, x)) @ (ll.Matrix() @ c), y, 2)


WRITTEN_OUT = {
    "meets that again": squared,
    "made what went in": reused,
    "no matrix between": bare_scores,
}


@pytest.mark.parametrize("why", WRITTEN_OUT)
def test_what_is_written_out(why: str) -> None:
    """It is found out beforehand, and `check` says so."""
    y = WRITTEN_OUT[why](tokens())
    loop, plain = (Limit((o,), statistics.second_moment) for o in (y.core, written_out(y)))
    assert loop.plan.unrolls
    assert not loop.plan.has_loops
    np.testing.assert_allclose(
        loop.conditions(4, None).arrays, plain.conditions(4, None).arrays, rtol=1e-9
    )
    if not ll.check(y).refused:
        assert why in ll.check(y)["loops"].why


def test_check_and_printing() -> None:
    """What is one loop everywhere has no note; the printed program says what stands for what."""
    x = tokens()
    with pytest.raises(KeyError):
        ll.check(outside(x))["loops"]
    found = ll.check(ll.repeat(lambda c: c + ll.relu(ll.Matrix() @ c), x, 2))["loops"].why
    assert "law of a coordinate" in found
    text = str(there_and_back(x))
    assert "4 times from" in text
    assert "backward" in text
    assert "every" in text
    assert "-->" in ll.mermaid(there_and_back(x))


def test_more_iterations_are_no_more_to_compile() -> None:
    """One body, whatever stands beside it."""

    def equations(times: int) -> int:
        h = ll.initial((times, 2))
        c, y = ll.scan(mixed, tokens(), h)
        planned = Limit(((c + y[0] + h[1]).core,), statistics.second_moment)
        planned.conditions(1, None)
        return planned.plan.size

    assert equations(24) == equations(3) > 0


def test_tied_scans() -> None:
    """The same matrices in every iteration: written out, as `check` says."""
    W = ll.Matrix()
    h, x = ll.initial((3, 2)), tokens()
    c, y = ll.scan(lambda c, z: (ll.Matrix() @ (c + z), c), x, h, shared=True)
    d, z = ll.scan(lambda c, z: (W @ (c + z), c), x, h)
    assert "shared" in ll.check(c)["loops"].why
    assert "matrix from outside" in ll.check(d)["loops"].why
    assert y.shape == z.shape == (3, 2)
    np.testing.assert_allclose(ll.kernel(c + y[2]), ll.kernel(d + z[2]), rtol=1e-12)


def test_shapes() -> None:
    """As `jax.lax.scan` has them."""
    x = tokens()
    (a, b), y = ll.scan(lambda c, z: ((c[0] + c[1], c[1]), {"s": z}), (x, x), np.ones((5, 3)))
    assert a.shape == b.shape == (2,)
    assert y["s"].shape == (5, 3)
    c, none = ll.scan(lambda c, z: (c, None), x, length=2)
    assert none is None
    assert c.shape == (2,)
    assert isinstance(ll.repeat(lambda c: c, (x, x[0]), 2), tuple)
    assert ll.repeat(lambda c, scale=2.0: scale * c, x, 2).shape == (2,)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x: ll.scan(lambda c, z: c, x, length=2), "pair"),
        (lambda x: ll.scan(lambda c, z: (c, z), x), "inputs, or a length"),
        (lambda x: ll.scan(lambda c, z: (c, z), x, x, length=3), "one size"),
        (lambda x: ll.scan(lambda c, z: (c, z), x, (x, np.ones(3))), "one size"),
        (lambda x: ll.scan(lambda c, z: (c, z), x, x[0]), "first axis"),
        (lambda x: ll.scan(lambda c, z: (c[0], z), x, x), "batch shape and space"),
        (lambda x: ll.scan(lambda c, z: ((c, c), z), x, x), "structure"),
        (lambda x: ll.scan(lambda c, z: (np.ones(3), z), np.ones(2), x), "numbers of the shape"),
        (lambda x: ll.scan("block", x, x), "function of a carry"),
        (lambda x: ll.scan(lambda c, z: (c, z), x, length=0), "length"),
        (lambda x: ll.repeat(lambda c: c, (), 2), "one or more"),
        (lambda x: ll.repeat(lambda c: c[0], (x, x), 2), "tuple of 2"),
        (lambda x: ll.repeat(lambda c: c, 2.0, 2), "Wide"),
        (lambda x: ll.repeat(around, x, 2, shared=True), "without a loop inside"),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_errors(wrong: Any, says: str) -> None:
    """One line that says what is wrong."""
    with pytest.raises((TypeError, ValueError), match=says):
        wrong(tokens())


@pytest.mark.parametrize("width", [3, 20], ids=["full frames", "frames"])
def test_inner_products(width: int) -> None:
    """Of outputs of all iterations, the last carry, inputs, and what is outside, at finite width:
    all of them in one frame.
    """

    def gram(loop: bool) -> ll.Scalars:
        h = ll.initial((TIMES, 2), cov=np.kron(np.eye(TIMES) + 0.3, K))
        k = ll.Matrix() @ h[0]
        step = lambda c, x: (0.7 * c + ll.Matrix() @ (x + k), c + 0.5 * x)
        c, y = ll.scan(step, h[1], h) if loop else by_hand(step, h[1], h)
        vectors = [*(y[i, 0] for i in range(TIMES)), c[1], c[0], h[2, 0], k[0]]
        z = ll.stack(vectors)
        return ll.dot(z, z, scaling="linear")

    exact = ll.finite_samples(gram(True), width, DRAWS, jax.random.key(0))
    drawn = ll.simulate(gram(False), width, DRAWS, jax.random.key(1))
    assert disagreement(np.asarray(exact), np.asarray(drawn)) < 1
