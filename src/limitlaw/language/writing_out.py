"""Loops written out, each iteration with matrices and vectors of its own, for gradients. A program
that reads the loop, too, is refused (`check_with`).
"""

import dataclasses
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from limitlaw.core.program import after_inputs
from limitlaw.language import ops
from limitlaw.language.functions import stack
from limitlaw.language.iterations import add_to_iteration
from limitlaw.language.matrices import Matrix
from limitlaw.language.repeating import reading
from limitlaw.language.tree import Value

Like = TypeVar("Like", bound=Value)
# values as they are written without loops, and all results of each loop: always the same
_WRITTEN: weakref.WeakKeyDictionary[Value, Value] = weakref.WeakKeyDictionary()
_RESULTS: weakref.WeakKeyDictionary[Value, tuple[Value, ...]] = weakref.WeakKeyDictionary()
# what each loop carries after every iteration
_CARRIED: weakref.WeakKeyDictionary[Value, list[list[Value]]] = weakref.WeakKeyDictionary()
# for each loop, in every iteration, what stands for the values and matrices of its block
_Known = tuple[dict[Value, Value], dict[Matrix, Matrix]]
_ITERATIONS: weakref.WeakKeyDictionary[Value, dict[int, _Known]] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Iteration:
    """Iteration t of a loop, and a matrix of its block."""

    loop: Value
    t: int
    matrix: Matrix


def iteration_of(written: Matrix) -> Iteration | None:
    """The iteration for which a matrix was written, and the one in the block that it stands for;
    None for a matrix that is part of no loop.
    """
    for loop, iterations in _ITERATIONS.items():
        for t, (_, matrices) in iterations.items():
            for matrix, new in matrices.items():
                if new is written:
                    return Iteration(loop, t, matrix)
    return None


def without_loops(values: Sequence[Like]) -> tuple[Like, ...]:
    """The same values with loops written out; those without loops are made once."""
    new: dict[Value, Value] = {}
    given: Sequence[Value] = values
    for v in after_inputs(given, outside):
        if v not in _WRITTEN:
            made = _written(v, new)
            if made is v:
                new[v] = v
                continue
            _WRITTEN[v] = made
        new[v] = _WRITTEN[v]
    return tuple(cast(Like, new[v]) for v in values)


def every_iteration(v: Like) -> list[Like]:
    """A value that a loop carries, after every iteration written out; any other as it is."""
    made = without_loops([v])
    if not isinstance(v.op, ops.FromScan) or v.op.stacked:
        return list(made)
    return [cast(Like, carries[v.op.place]) for carries in _CARRIED[v.op.scan]]


def around_loops(values: Iterable[Value]) -> list[Value]:
    """All that values read, themselves included, without what is in the blocks of loops."""
    return after_inputs(values, outside)


def outside(v: Value) -> Sequence[Value]:
    """What a value reads, of a loop without its block."""
    op = v.op
    if not isinstance(op, ops.Scan):
        return op.inputs
    follows = () if op.follows is None else (op.follows,)
    return (*op.starts, *op.sequences, *op.constants, *follows)


def _written(v: Value, new: Mapping[Value, Value]) -> Value:
    """A value without loops, everything that it reads being known."""
    op = v.op
    if isinstance(op, ops.FromScan):
        if op.scan not in _RESULTS:
            _RESULTS[op.scan] = _written_out(op.scan, op.loop, new)
        return _RESULTS[op.scan][op.place]
    if isinstance(op, ops.Scan) or all(new[u] is u for u in op.inputs):
        return v
    return dataclasses.replace(v, op=reading(op, new))


def _written_out(scan: Value, op: ops.Scan, new: Mapping[Value, Value]) -> tuple[Value, ...]:
    """The last carries, and the outputs of all iterations."""
    carries, first = [new[v] for v in op.starts], len(op.starts)
    sequences, constants = ([new[v] for v in read] for read in (op.sequences, op.constants))
    rows: dict[int, Sequence[Value]] = {}
    carried = _CARRIED[scan] = []
    before = {} if op.follows is None else _ITERATIONS[op.follows]
    iterations = _ITERATIONS[scan] = {}
    for t in range(op.times)[:: -1 if op.reverse else 1]:
        entries = [cast(Any, s)[t] for s in sequences]
        known, matrices = before.get(t, ({}, {}))
        known = known | dict(zip(op.arguments, (*carries, *entries, *constants), strict=True))
        iterations[t] = known, matrices
        made = without_loops(_iteration(op.results, known, matrices, scan))
        carries, rows[t] = list(made[:first]), made[first:]
        carried.append(carries)
    outputs = zip(*(rows[t] for t in sorted(rows)), strict=True)
    return (*carries, *(stack(cast(Any, row)) for row in outputs))


def _iteration(
    results: Sequence[Value], new: dict[Value, Value], matrices: dict[Matrix, Matrix], scan: Value
) -> tuple[Value, ...]:
    """The results of a block, with new matrices, initial vectors and loops; `new` has those for
    its arguments, and gets all others.
    """
    for v in after_inputs(results, lambda v: () if v in new else v.op.inputs):
        if v in new:
            continue
        op = reading(v.op, new)
        if isinstance(op, ops.MatMul):
            old = op.matrix
            if old not in matrices:
                matrices[old] = Matrix(old.std, old.shape, old.rows, old.cols, old.name)
            op = dataclasses.replace(op, matrix=matrices[old])
        same = all(new[u] is u for u in v.op.inputs)
        if same and not isinstance(op, ops.MatMul | ops.Initial | ops.Gain | ops.Scan):
            new[v] = v
        else:
            new[v] = dataclasses.replace(v, op=op)
            add_to_iteration(new[v], scan)
    return tuple(new[v] for v in results)
