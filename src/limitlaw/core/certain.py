"""A row of a softmax that sees one token is deterministic: 1 at that token, 0 elsewhere."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Apply, Constant
from limitlaw.core.kinds import Number, Value
from limitlaw.core.program import Output, ancestors

UNSURE = np.zeros(1, bool)


def settled(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The same outputs with constants for softmaxes whose rows each see a single token, so that
    their scores need not be drawn; blocks of loops stay as they are.
    """
    values = [output.value for output in outputs]
    if not any(_single(v).any() for v in ancestors(values)):
        return tuple(outputs)
    needed = demanded(values)
    new: dict[Value, Value] = {}
    for v in ancestors(needed):
        op = v.instruction
        if isinstance(op, Apply) and _single(v).all():
            new[v] = _visible(op)
        elif any(u in new for u in op.inputs):
            read = op.replaced({u: new.get(u, u) for u in op.inputs})
            new[v] = dataclasses.replace(v, instruction=read)
    return tuple(
        Output(new.get(value, value), output.layout)
        for value, output in zip(needed, outputs, strict=True)
    )


def _single(v: Value) -> np.ndarray:
    """Which rows of a softmax see a single token; False where unknown and for other values."""
    op = v.instruction
    if not isinstance(op, Apply) or op.structure != "softmax":
        return UNSURE
    tokens = op.layouts[0][-1]
    if tokens is None:  # a single token
        return np.ones(1, bool)
    mask = op.args[-1].instruction
    if len(op.args) == 1 or not isinstance(mask, Constant) or tokens not in mask.order:
        return UNSURE
    array = mask.value.array
    return (
        UNSURE if is_traced(array) else (np.asarray(array) > 0).sum(mask.order.index(tokens)) == 1
    )


def _visible(op: Apply) -> Value:
    """The constant that is 1 where a token is seen, and 0 elsewhere."""
    mask = op.args[-1]
    if op.layouts[0][-1] is None or not isinstance(mask.instruction, Constant):
        return Value(Constant(Number(np.ones(())), ()), (), None)
    array = (np.asarray(mask.instruction.value.array) > 0).astype(float)
    return dataclasses.replace(mask, instruction=Constant(Number(array), mask.instruction.order))
