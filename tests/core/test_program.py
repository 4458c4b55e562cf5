"""Core programs: lowering gives well-formed ones, wrong ones are refused,
and numbers are no part of the structure.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import limitlaw as ll
from instructions import INSTRUCTIONS
from limitlaw.core import instructions as core
from limitlaw.core.kinds import Block, Number, Value, rule_for
from limitlaw.core.labelled import Axis, shape
from limitlaw.core.program import Program, ancestors
from limitlaw.core.space import n
from limitlaw.engines.dense.rules import DENSE_RULES as DENSE
from limitlaw.engines.frames.draw import FRAME_RULES as FRAMES
from validity import RULES, validate


def tokens(s: int = 4) -> ll.Wide:
    return ll.relu(ll.matrices(s) @ ll.initial())


PROGRAMS = {
    "attention": lambda: ll.attention(tokens(), heads=2, mask="causal"),
    "infinite heads": lambda: ll.attention(tokens(), heads=math.inf),
    "grouped": lambda: ll.dot(
        ll.Matrix(shape=(2, 3, 1)) @ tokens(), ll.Matrix(shape=(2, 1, 1)) @ tokens()
    ),
    "norm": lambda: ll.layernorm(tokens()),
    "outer sum": lambda: tokens()[:, None] + tokens()[None, :],
    "transposed": lambda: (w := tokens()[:, None] * np.ones(4)) + w.transpose(1, 0),
    "reshaped": lambda: ll.stack([tokens(), tokens()]).reshape(8)[3:].reshape(5, 1),
    "rotary": lambda: ll.dot(ll.rotary(tokens(), np.arange(4)), ll.Matrix() @ tokens()),
    "lstm": lambda: ll.lstm(tokens()),
    "convolution": lambda: ll.conv2d(ll.initial((3, 4)), 2, padding="valid"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowering_is_well_formed(name: str) -> None:
    """Every rule holds, and the layout is the shape that the user sees."""
    y = PROGRAMS[name]()
    validate(y.core.value)
    assert shape(y.core.layout) == y.shape
    assert {a for a in y.core.layout if a is not None} == set(y.core.value.axes)


def test_heads_keep_their_axis() -> None:
    """The sum over heads is over the axis of the output matrices,
    whatever other axes have its size.
    """
    y = ll.attention(tokens(2), heads=2)
    (total,) = [
        v for v in ancestors([y.core.value]) if getattr(v.instruction, "normalised", False)
    ]
    families = {
        v.instruction.family
        for v in ancestors([y.core.value])
        if isinstance(v.instruction, core.MatMul)
    }
    assert sum(total.instruction.over == family.axes for family in families) == 1


def test_every_instruction_has_its_rules() -> None:
    """Of validity, and of each engine."""
    for table in (RULES, DENSE, FRAMES):
        assert all(rule_for(kind, table, "the table") for kind in INSTRUCTIONS)


# --- wrong programs ------------------------------------------------------------------------------

S, T = Axis(4), Axis(4)
H = Value(core.Initial(Number(np.zeros(())), Number(np.eye(4)), (S,), True, True), (S,), n)
P = Value(core.Constant(Number(np.ones(4)), (S,)), (S,), None)
W = core.Family((), Number(np.ones(())), n, n)

X = Value(core.Argument(), (S,), n)


def loop(result: Value, times: int) -> Value:
    """A block with one carry."""
    return Value(core.Scan((H,), (), (), Block((X,), (result,)), Axis(times)), (), None)


WRONG: dict[str, Value] = {
    "an axis twice": dataclasses.replace(H, axes=(S, S)),
    "numbers as vectors": dataclasses.replace(P, dim=n),
    "a missing axis": Value(core.MatMul(W, H), (), n),
    "another space": Value(core.MatMul(W, H), (S,), 2 * n),
    "a wrong space": Value(core.Add((H, dataclasses.replace(H, dim=2 * n))), (S,), n),
    "numbers of another shape": Value(core.Constant(Number(np.ones(3)), (S,)), (S,), None),
    "a sum over nothing": Value(core.Contract(None, H, (T,)), (S,), n),
    "places outside": Value(core.Take(H, (S,), (core.Places((), (4,)),), ()), (), n),
    "an old axis as new": Value(
        core.Take(H, (S,), (core.Places((4,), (0, 1, 2, 3)),), (S,)), (S,), n
    ),
    "names of other sizes": Value(core.Rename(H, (S,), (a := Axis(3),)), (a,), n),
    "a stack of one": Value(core.Stack((H,), T), (T, S), n),
    "an unknown scaling": Value(core.Dot(H, H, "cubic", n), (S,), None),
    "positions without a base": Value(
        core.Dot(H, H, "sqrt", n, None, (Number(0.0),), ((),)), (S,), None
    ),
    "vectors as numbers": Value(core.Apply(abs, (H,), ((S,),), (S,), 0, "abs"), (S,), None),
    "a block that leads elsewhere": loop(P, 2),
    "no iterations": loop(X, 0),
    "a result that is not there": Value(core.FromScan(loop(X, 2), 1), (S,), n),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name: str) -> None:
    """Each rule of the table can fail."""
    with pytest.raises(ValueError, match=r"\)?:"):
        validate(WRONG[name])


# --- structure -----------------------------------------------------------------------------------


def structure(y: Any) -> Any:
    return Program((y.core.value,)).structure


def layer(
    K: Any = None, std: Any = 1.0, heads: int = 2, mask: Any = None, tokens: int = 4
) -> ll.Wide:
    K = np.eye(tokens) + 0.1 if K is None else K
    return ll.attention(ll.initial(tokens, cov=K), heads, q_std=std, mask=mask)


def test_numbers_are_no_part_of_the_structure() -> None:
    """Kernels, scales, masks and data."""
    assert structure(layer()) == structure(layer(np.eye(4) + 0.7)) == structure(layer(std=3.0))
    masks = [np.tri(4, dtype=bool), np.ones((4, 4), bool)]
    assert structure(layer(mask=masks[0])) == structure(layer(mask=masks[1]))
    assert structure(ll.Matrix(cols=3) @ ll.data(np.ones((2, 3)))) == structure(
        ll.Matrix(cols=3) @ ll.data(np.zeros((2, 3)))
    )


def test_everything_else_is() -> None:
    """Sizes, functions, places, sharing, and whether a covariance is diagonal."""
    x = ll.initial(4)
    M = ll.Matrix()
    programs = [
        layer(),
        layer(heads=3),
        layer(tokens=5),
        layer(np.eye(4)),
        layer(mask="causal"),
        ll.relu(x),
        ll.tanh(x),
        x[0],
        x[1],
        x[1:],
        M @ (M @ x),
        ll.Matrix() @ (ll.Matrix() @ x),
        x + x,
        x + ll.initial(4),
    ]
    assert len({structure(y) for y in programs}) == len(programs)


def test_any_depth() -> None:
    """No recursion through a thousand layers, in writing, lowering and checking."""
    x = ll.initial(2)
    for _ in range(1000):
        x = x + ll.relu(ll.Matrix() @ ll.rmsnorm(x))
    assert "norms" in ll.check(x).beyond
    for _ in range(1000):
        x = ll.Matrix() @ x
    validate(x[0].core.value)
