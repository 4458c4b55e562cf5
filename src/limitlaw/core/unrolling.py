"""Programs with their loops written out, one iteration after the other."""

import dataclasses
from collections.abc import Mapping, Sequence

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
from limitlaw.core.program import ancestors

# for each scan, the results of its block in each iteration t
Iterations = dict[Value, dict[int, tuple[Value, ...]]]


def unrolled(outputs: Sequence[Value], most: int | None = None) -> tuple[Value, ...]:
    """The same outputs without loops; with `most`, only the first `most` iterations of each loop
    are written, and the last of them stands for the others.
    """
    return _Unroller(most, {}).copied(outputs, {}, anew=False)


def every_iteration(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs without loops; an output that is a carry is replaced by its values after
    each iteration.
    """
    found: Iterations = {}
    written = _Unroller(None, found).copied(outputs, {}, anew=False)
    values: list[Value] = []
    for output, result in zip(outputs, written, strict=True):
        op = output.instruction
        if isinstance(op, FromScan) and not op.stacked:
            values += [given[op.place] for given in found[op.scan].values()]
        else:
            values.append(result)
    return tuple(values)


@dataclasses.dataclass(frozen=True)
class _Unroller:
    """Writes the iterations of loops one after the other; with `most`, the first ones only."""

    most: int | None
    found: Iterations

    def copied(
        self, outputs: Sequence[Value], known: dict[Value, Value], anew: bool
    ) -> tuple[Value, ...]:
        """The outputs written again on the values in `known`; with `anew`, on new matrices and
        initial vectors.
        """
        families: dict[Family, Family] = {}
        for v in ancestors(outputs):
            op = v.instruction
            if v in known:
                continue
            if isinstance(op, Scan):
                self.found[v] = self._iterations(op, known)
                known[v] = v
            elif isinstance(op, FromScan):
                known[v] = _read(op, self.found[op.scan])
            else:
                new: dict[object, object] = {u: known[u] for u in op.inputs}
                if anew and isinstance(op, MatMul):
                    new[op.family] = families.setdefault(op.family, dataclasses.replace(op.family))
                renewed = anew and isinstance(op, Initial | MatMul)
                same = not renewed and all(a is b for a, b in new.items())
                known[v] = v if same else dataclasses.replace(v, instruction=op.replaced(new))
        return tuple(known[v] for v in outputs)

    def _iterations(self, op: Scan, known: Mapping[Value, Value]) -> dict[int, tuple[Value, ...]]:
        carries = [known[u] for u in op.starts]
        constants = [known[u] for u in op.constants]
        found = {}
        for t in op.order[: self.most]:
            elements = [entry(known[u], op.axis, t) for u in op.sequences]
            given = zip(op.block.arguments, (*carries, *elements, *constants), strict=True)
            found[t] = self.copied(op.block.results, dict(given), not op.shared)
            carries = list(found[t][: len(carries)])
        return found


def _read(op: FromScan, found: Mapping[int, tuple[Value, ...]]) -> Value:
    """The result of a loop of which these iterations are written out; the last of them stands for
    those that are not.
    """
    last = list(found.values())[-1][op.place]
    if not op.stacked:
        return last
    axis = op.loop.axis
    terms = tuple(found[t][op.place] if t in found else last for t in range(op.loop.times))
    return Value(Stack(terms, axis), (axis, *last.axes), last.dim, last.source)


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
