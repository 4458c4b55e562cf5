"""Loops written out, one iteration after the other, each with matrices and initial vectors of its
own: what gradients go through.

They are not those of the loop: a program that reads both is refused (`check_with`).
"""

import dataclasses
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from limitlaw.language import ops
from limitlaw.language.functions import stack
from limitlaw.language.matrices import Matrix
from limitlaw.language.repeating import all_substituted, reading
from limitlaw.language.tree import Value, ancestors

Like = TypeVar("Like", bound=Value)
# what came out of loops that were written out: always the same
_KNOWN: weakref.WeakKeyDictionary[Value, tuple[Value, ...]] = weakref.WeakKeyDictionary()
# the outermost loop of which a value is part of one iteration; referred to weakly, as what came
# out of a loop must not keep it
_LOOP_OF: weakref.WeakKeyDictionary[Value, weakref.ref[Value]] = weakref.WeakKeyDictionary()


def reads_twice(values: Sequence[Value]) -> bool:
    """Do values of one program read a loop, and iterations of it that were written out?"""
    found = ancestors(values)
    loops = {v.op.scan for v in found if isinstance(v.op, ops.FromScan)}
    return any(v in _LOOP_OF and _LOOP_OF[v]() in loops for v in found)


def without_loops(values: Sequence[Like]) -> tuple[Like, ...]:
    """The same values with loops written out; a loop that was written out before gives what it
    gave then.
    """
    values = tuple(values)
    while True:
        reads = [v for v in ancestors(values) if isinstance(v.op, ops.FromScan)]
        if not reads:
            return values
        first = reads[0]  # what it starts from has no loop
        assert isinstance(first.op, ops.FromScan)
        scan = first.op.scan
        if scan not in _KNOWN:
            _KNOWN[scan] = _written_out(scan, first.op.loop)
        known: dict[Value, Value] = {}
        for v in reads:
            if isinstance(v.op, ops.FromScan) and v.op.scan is scan:
                known[v] = _KNOWN[scan][v.op.place]
        values = all_substituted(values, known)


def _written_out(scan: Value, op: ops.Scan) -> tuple[Value, ...]:
    """The last carries, and the outputs of all iterations."""
    carries, first = list(op.starts), len(op.starts)
    rows: dict[int, Sequence[Value]] = {}
    for t in range(op.times)[:: -1 if op.reverse else 1]:
        entries = [cast(Any, s)[t] for s in op.sequences]
        given = dict(zip(op.arguments, (*carries, *entries, *op.constants), strict=True))
        made = _iteration(op.results, given, scan)
        carries, rows[t] = list(made[:first]), made[first:]
    outputs = zip(*(rows[t] for t in sorted(rows)), strict=True)
    return (*carries, *(stack(cast(Any, row)) for row in outputs))


def _iteration(
    results: Sequence[Value], given: Mapping[Value, Value], scan: Value
) -> tuple[Value, ...]:
    """The results of a block for these arguments, with new matrices, initial vectors and loops."""
    new = dict(given)
    matrices: dict[Matrix, Matrix] = {}
    for v in ancestors(results):
        if v in new:
            continue
        op = reading(v.op, new)
        if isinstance(op, ops.MatMul):
            old = op.matrix
            if old not in matrices:
                matrices[old] = Matrix(old.std, old.shape, old.rows, old.cols)
            op = dataclasses.replace(op, matrix=matrices[old])
        same = all(new[u] is u for u in v.op.inputs)
        if same and not isinstance(op, ops.MatMul | ops.Initial | ops.Scan):
            new[v] = v
        else:
            new[v] = dataclasses.replace(v, op=op)
            _LOOP_OF[new[v]] = _LOOP_OF.get(scan, weakref.ref(scan))
    return tuple(new[v] for v in results)
