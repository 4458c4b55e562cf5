"""Programs with their loops written out, one iteration after the other."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limitlaw.core.instructions import (
    Constant,
    FromScan,
    Initial,
    MatMul,
    Places,
    Scan,
    Stack,
    Take,
)
from limitlaw.core.kinds import Family, Number, Value
from limitlaw.core.labelled import Axis
from limitlaw.core.program import after_inputs


@dataclasses.dataclass(frozen=True)
class WrittenOut:
    """One iteration of a loop as it is written out: what stands for values and families of its
    block, and for its results.
    """

    known: dict[Value, Any]  # for a loop inside, its iterations
    families: dict[Family, Family]
    results: tuple[Value, ...]


AllWrittenOut = dict[int, WrittenOut]


def unrolled(outputs: Sequence[Value], most: int | None = None) -> tuple[Value, ...]:
    """The same outputs without loops; with `most`, only the first `most` iterations of each loop
    are written, and the last of them stands for the others.
    """
    return _copied(outputs, {}, None, most)


def every_iteration(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs without loops; an output that is a carry is replaced by its values after
    each iteration.
    """
    known: dict[Value, Any] = {}
    written = _copied(outputs, known, None, None)
    values: list[Value] = []
    for output, result in zip(outputs, written, strict=True):
        op = output.instruction
        if isinstance(op, FromScan) and not op.stacked:
            values += [given.results[op.place] for given in known[op.scan].values()]
        else:
            values.append(result)
    return tuple(values)


def _copied(
    outputs: Sequence[Value],
    known: dict[Value, Any],
    families: dict[Family, Family] | None,
    most: int | None,
) -> tuple[Value, ...]:
    """The outputs written again on the values in `known`, to which all others are added; with
    `families`, on new matrices and initial vectors.
    """
    anew = families is not None
    for v in after_inputs(outputs, lambda v: () if v in known else v.inputs):
        op = v.instruction
        if v in known:
            continue
        if isinstance(op, Scan):
            known[v] = _iterations(op, known, most)
        elif isinstance(op, FromScan):
            known[v] = _read(op, known[op.scan])
        else:
            new: dict[object, object] = {u: known[u] for u in op.inputs}
            if families is not None and isinstance(op, MatMul):
                new[op.family] = families.setdefault(op.family, dataclasses.replace(op.family))
            renewed = anew and isinstance(op, Initial | MatMul)
            same = not renewed and all(a is b for a, b in new.items())
            known[v] = v if same else dataclasses.replace(v, instruction=op.replaced(new))
    return tuple(known[v] for v in outputs)


def _iterations(op: Scan, known: Mapping[Value, Any], most: int | None) -> AllWrittenOut:
    carries = [known[u] for u in op.starts]
    constants = [known[u] for u in op.constants]
    before: AllWrittenOut = {} if op.follows is None else known[op.follows]
    # those of the loop that it follows, of which there may be fewer
    order = [*op.order[:most]] if op.follows is None else sorted(before, reverse=op.reverse)
    found: AllWrittenOut = {}
    for t in order:
        elements = [entry(known[u], op.axis, t) for u in op.sequences]
        given = dict(before[t].known) if before else {}
        given |= zip(op.block.arguments, (*carries, *elements, *constants), strict=True)
        families = before[t].families if before else {}
        results = _copied(op.block.results, given, None if op.shared else families, most)
        found[t] = WrittenOut(given, families, results)
        carries = list(results[: len(carries)])
    return found


def _read(op: FromScan, found: AllWrittenOut) -> Value:
    """The result of a loop of which these iterations are written out; the last of them stands for
    those that are not.
    """
    last = [*found.values()][-1].results[op.place]
    if not op.stacked:
        return last
    axis = op.loop.axis
    terms = [found[t].results[op.place] if t in found else last for t in range(op.loop.times)]
    return Value(Stack(tuple(terms), axis), (axis, *last.axes), last.dim, last.source)


def entry(sequence: Value, axis: Axis, t: int) -> Value:
    """The entry of a sequence at iteration t."""
    if axis not in sequence.axes:
        return sequence
    axes, op = tuple(a for a in sequence.axes if a is not axis), sequence.instruction
    if isinstance(op, Constant):
        i = op.order.index(axis)
        cut = Number(op.value.array[(slice(None),) * i + (t,)])
        op = Constant(cut, (*op.order[:i], *op.order[i + 1 :]))
    else:
        op = Take(sequence, (axis,), (Places.of(np.asarray(t)),), ())
    return Value(op, axes, sequence.dim, sequence.source)
