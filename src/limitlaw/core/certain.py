"""Softmax that sees one token is certain: 1 there and 0 elsewhere, whatever the scores."""

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
    """The same outputs with numbers in place of softmaxes of which every row that they need sees
    one token: nothing of their scores is drawn. Blocks of loops stay as they are.
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
    """Which rows of a softmax see one token, where that is known; none of anything else."""
    op = v.instruction
    if not isinstance(op, Apply) or op.structure != "softmax":
        return UNSURE
    tokens = op.layouts[0][-1]
    if tokens is None:  # there is one
        return np.ones(1, bool)
    mask = op.args[-1].instruction
    if len(op.args) == 1 or not isinstance(mask, Constant) or tokens not in mask.order:
        return UNSURE
    array = mask.value.array
    return (
        UNSURE if is_traced(array) else (np.asarray(array) > 0).sum(mask.order.index(tokens)) == 1
    )


def _visible(op: Apply) -> Value:
    """1 where a token is seen, and 0 elsewhere."""
    mask = op.args[-1]
    if op.layouts[0][-1] is None or not isinstance(mask.instruction, Constant):
        return Value(Constant(Number(np.ones(())), ()), (), None)
    array = (np.asarray(mask.instruction.value.array) > 0).astype(float)
    return dataclasses.replace(mask, instruction=Constant(Number(array), mask.instruction.order))
