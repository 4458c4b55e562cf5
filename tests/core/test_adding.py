"""An instruction, a layer and an engine that are added from outside:
how many places that takes.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest

import limitlaw as ll
import validity
from instructions import INSTRUCTIONS
from limitlaw.core import instructions as core
from limitlaw.core.kinds import Instruction, Value
from limitlaw.core.labelled import Axis, Labelled, sizes
from limitlaw.core.program import Output, Program, Written
from limitlaw.engines.dense.rules import DENSE_RULES as DENSE
from limitlaw.engines.engine import Draw
from limitlaw.engines.frames.draw import FRAME_RULES as FRAMES
from statistics_of_samples import disagreement
from validity import validate

DRAWS = 4000

# --- an instruction, in four places --------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Largest(Instruction):
    """The largest of some numbers along an axis. The first place: what it is."""

    p: Value
    axis: Axis


def well_formed(value: Value, op: Largest) -> Iterable[tuple[bool, str]]:
    """The second place: when it is well-formed."""
    yield not value.is_vector, "it makes numbers"
    yield op.axis in op.p.axes, "it reads an axis of p"


def rule(draw: Any, value: Value, op: Largest) -> Labelled:
    """The third and the fourth: what engines make of it.
    The limit takes numbers as finite width does.
    """
    p = draw[op.p]
    return (
        p
        if op.axis not in p.axes
        else Labelled(p.array.max(axis=p.axes.index(op.axis)), value.axes)
    )


class Made(Written):
    """A value as a user may ask for it."""

    def __init__(self, output: Output):
        self.output = output

    @property
    def core(self) -> Output:
        return self.output

    def notes(self) -> list[str]:
        return []

    def names(self, *others: Written) -> Callable[[Any], str]:
        return str


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(validity.RULES, Largest, well_formed)
    monkeypatch.setitem(DENSE, Largest, rule)
    monkeypatch.setitem(FRAMES, Largest, rule)


def largest(p: ll.Scalars) -> Made:
    value, (axis, *left) = p.core
    return Made(Output(Value(Largest(value, axis), tuple(left), None), tuple(left)))


@pytest.mark.usefixtures("added")
def test_an_instruction() -> None:
    """It is drawn by both engines, also behind rewrites,
    and its law is that of the function it stands for.
    """
    x = ll.initial(3)
    scores = ll.dot(ll.Matrix() @ x, ll.Matrix() @ x)
    made = largest(scores)
    validate(made.core.value)
    apart = Value(Largest(scores.core.value, Axis(3)), (), None)
    with pytest.raises(ValueError, match="it reads an axis of p"):
        validate(apart)
    draws = [
        np.asarray(engine(made, 4, 4000, jax.random.key(i)))
        for i, engine in enumerate((ll.finite_samples, ll.simulate))
    ]
    by_function = ll.apply(lambda p: p.max(axis=0), scores)
    draws.append(np.asarray(ll.finite_samples(by_function, 4, 4000, jax.random.key(2))))
    assert disagreement(draws[0], draws[1]) < 1
    assert disagreement(draws[0], draws[2]) < 1


# --- a layer, in one place -----------------------------------------------------------------------


def gated(x: ll.Wide) -> ll.Wide:
    """A gated linear unit, (W x) · sigmoid(V x): a function that writes a program."""
    return (ll.Matrix() @ x) * ll.sigmoid(ll.Matrix() @ x)


def test_a_layer() -> None:
    """All engines run it, `check` reads it, and it prints."""
    y = gated(ll.initial(2))
    assert ll.check(y).covered
    assert "sigmoid" in str(y)
    draws = [
        np.asarray(engine(y, 4, 4000, jax.random.key(i)))
        for i, engine in enumerate((ll.finite_samples, ll.simulate))
    ]
    assert disagreement(*draws) < 1
    K = np.asarray(ll.kernel(y))
    np.testing.assert_allclose(K, np.diag(np.diagonal(K)), atol=1e-12)


# --- an engine: a table, and a draw --------------------------------------------------------------


class Counting(Draw):
    """An engine that counts the numbers of which a program is made:
    what its values depend on, at width n.
    """

    width = 8


def count(draw: Counting, value: Value, op: Instruction) -> int:
    """Its own numbers and those of what it reads, each as often as it is read."""
    own = int(np.prod(sizes(value.axes), dtype=int)) * (
        1 if value.dim is None else value.dim.at(draw.width)
    )
    return own + sum(draw[v] for v in op.inputs)


def count_iterations(draw: Counting, value: Value, op: core.Scan) -> int:
    """A block counts as often as it is applied."""
    inside = Counting(draw.numbers)
    inside.results |= dict.fromkeys(op.block.arguments, 0)
    inside.run(Program(op.block.results))
    return sum(draw[v] for v in op.inputs) + op.times * sum(inside[v] for v in op.block.results)


def count_read(draw: Counting, value: Value, op: core.FromScan) -> int:
    """What is read off a scan is no other number."""
    return draw[op.scan]


def count_nothing(draw: Counting, value: Value, op: core.Rename) -> int:
    """Another name is no other number."""
    return draw[op.x]


Counting.rules = {
    **dict.fromkeys(INSTRUCTIONS, count),
    core.Rename: count_nothing,
    core.Scan: count_iterations,
    core.FromScan: count_read,
}


def test_an_engine() -> None:
    """It runs what a user wrote, by one rule for each instruction."""
    x = ll.initial(3)
    program = Program((ll.repeat(lambda w: ll.Matrix() @ w, ll.relu(x), 5).core.value,))
    draw = Counting({})
    draw.run(program)
    assert draw[program.outputs[0]] == 3 * 8 * (1 + 1 + 5)
