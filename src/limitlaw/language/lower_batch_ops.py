"""Lowering of the instructions on batch axes: one function for each."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from limitlaw.core import instructions as core
from limitlaw.core import kinds
from limitlaw.core.labelled import Axes, Axis, present, union
from limitlaw.core.program import Output
from limitlaw.language import batch_ops as ops
from limitlaw.language.broadcasting import core_value, lowered, met, renamed, together
from limitlaw.language.shapes import parts_of, regrouped
from limitlaw.language.tree import Op, Value


def _mix(v: Value, op: ops.Mix) -> Output:
    a, w = lowered(op.a), lowered(op.w)
    tail = a.layout[-2:] if len(a.layout) > 1 else a.layout
    lead, (of_w, of_a) = met(w.layout[:-1], a.layout[: -len(tail)], taken=present(tail))
    of_a |= {axis: axis for axis in present(tail)}
    over: Axes = ()
    if a.layout[-1] is not None and w.layout[-1] is not None:
        of_w[w.layout[-1]] = a.layout[-1]
        over = (a.layout[-1],)
    layout = (*lead, *tail[:-1])
    instruction = core.Contract(renamed(a.value, of_a), renamed(w.value, of_w), over)
    return Output(core_value(v, instruction, present(layout)), layout)


def _scale(v: Value, op: ops.Scale) -> Output:
    layout, (w, a) = together(lowered(op.w), lowered(op.a))
    return Output(core_value(v, core.Contract(a, w, ()), present(layout)), layout)


def _add(v: Value, op: ops.Add) -> Output:
    layout, terms = together(*map(lowered, op.terms))
    return Output(core_value(v, core.Add(tuple(terms)), present(layout)), layout)


def _sum(v: Value, op: ops.Sum) -> Output:
    x = lowered(op.x)
    over = present(tuple(x.layout[a] for a in op.axes))
    layout = tuple(axis for a, axis in enumerate(x.layout) if a not in op.axes)
    if not over and not op.normalised:
        return Output(x.value, layout)
    # written for a single head, too: the instruction says that there are heads
    instruction = core.Contract(None, x.value, over, op.normalised)
    return Output(core_value(v, instruction, present(layout)), layout)


def _stack(v: Value, op: ops.Stack) -> Output:
    layout, terms = together(*map(lowered, op.terms))
    axis = Axis(len(terms)) if len(terms) > 1 else None
    layout = (*layout[: op.axis], axis, *layout[op.axis :])
    if axis is None:
        return Output(terms[0], layout)
    return Output(core_value(v, core.Stack(tuple(terms), axis), present(layout)), layout)


def _index(v: Value, op: ops.Index) -> Output:
    x = lowered(op.x)
    layout, taken = parts_of(op.index, x.layout, op.x.shape)
    return Output(taken_at(v, x.value, taken), layout)


def _reshape(v: Value, op: ops.Reshape) -> Output:
    x = lowered(op.x)
    layout, taken = regrouped(x.layout, v.shape)
    return Output(taken_at(v, x.value, taken), layout)


def taken_at(
    v: Value, value: kinds.Value, taken: Iterable[tuple[Axes, list[np.ndarray], Axes]]
) -> kinds.Value:
    """The value at constant places, by one `Take` after the other."""
    for axes, places, new in taken:
        left = union((a for a in value.axes if a not in axes), new)
        instruction = core.Take(value, axes, tuple(map(core.Places.of, places)), new)
        value = kinds.Value(instruction, left, value.dim, v)
    return value


def _transpose(v: Value, op: ops.Transpose) -> Output:
    x = lowered(op.x)
    return Output(x.value, tuple(x.layout[a] for a in op.axes))


BATCH_RULES: dict[type[Op], Callable[[Any, Any], Output]] = {
    ops.Mix: _mix,
    ops.Scale: _scale,
    ops.Add: _add,
    ops.Sum: _sum,
    ops.Stack: _stack,
    ops.Index: _index,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
}
