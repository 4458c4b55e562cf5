"""Lowering, from what a user writes to the core language: a function for each instruction.

The order of axes, newaxis, transposes and axes of size 1 end here (`broadcasting.py`).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core import instructions as core
from limitlaw.core import kinds
from limitlaw.core.kinds import Family, Number
from limitlaw.core.labelled import Axis, present
from limitlaw.core.program import Output
from limitlaw.language import ops
from limitlaw.language.broadcasting import (
    Renaming,
    aligned,
    core_value,
    lowered,
    met,
    names_between,
    new_axes,
    renamed,
    together,
)
from limitlaw.language.lower_batch_ops import BATCH_RULES, taken_at
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Op, Value


def written(value: Value) -> Output:
    """The core value of a value that has just been written; what it reads was lowered before."""
    rule = LOWERING.get(type(value.op))
    return value.op.lowered(value) if rule is None else rule(value, value.op)


def family(matrix: Matrix) -> Family:
    """The core family of matrices of a matrix of the language; made once for each matrix."""
    if not hasattr(matrix, "_family"):
        made = Family(new_axes(matrix.shape), Number(matrix.std), matrix.rows, matrix.cols, matrix)
        matrix._family = made  # type: ignore[attr-defined]
    return matrix._family  # type: ignore[attr-defined]


# --- leaves --------------------------------------------------------------------------------------


def _initial(v: Value, op: ops.Initial) -> Output:
    layout = new_axes(v.shape)
    centred = not is_traced(op.mean) and not np.any(op.mean)
    instruction = core.Initial(
        Number(op.mean), Number(op.cov), layout, centred, diagonal=op.cov.ndim == 1
    )
    return Output(core_value(v, instruction, present(layout)), layout)


def _data(v: Value, op: ops.Data) -> Output:
    layout = new_axes(v.shape)
    return Output(core_value(v, core.Data(Number(op.X), layout), present(layout)), layout)


def _ones(v: Value, op: ops.Ones | ops.Gain) -> Output:
    return Output(core_value(v, core.Ones(), ()), ())


def _constant(v: Value, op: ops.Constant) -> Output:
    layout = new_axes(v.shape)
    return Output(core_value(v, core.Constant(Number(op.value), layout), present(layout)), layout)


def _dimension_ratio(v: Value, op: ops.DimensionRatio) -> Output:
    return Output(core_value(v, core.DimensionRatio(op.over, op.under), ()), ())


# --- Netsor with dot products --------------------------------------------------------------------


def _matmul(v: Value, op: ops.MatMul) -> Output:
    W = family(op.matrix)
    x = lowered(op.x)
    layout, (_, names) = met(W.layout, x.layout)
    product = core.MatMul(W, renamed(x.value, names), op.transposed)
    return Output(core_value(v, product, present(layout)), layout)


def _map(v: Value, op: ops.Map) -> Output:
    layout, args = together(*map(lowered, op.args))
    return Output(core_value(v, core.Map(op.phi, tuple(args)), present(layout)), layout)


def _dot(v: Value, op: ops.Dot) -> Output:
    (q, q_positions), (k, k_positions) = (_unrotated(f) for f in (op.q, op.k))
    lead, names = met(
        q.layout[:-1], k.layout[:-1], taken=present((*q.layout[-1:], *k.layout[-1:]))
    )
    last: list[Axis | None] = list(q.layout[-1:])
    names[0] |= {a: a for a in present(q.layout[-1:])}
    for axis in k.layout[-1:]:
        if axis is None:
            last.append(None)
        else:
            name = axis if axis not in (*lead, *last) else Axis(axis.size)
            names[1][axis] = name
            last.append(name)
    layout = (*lead, *last)
    factors = [renamed(x.value, n) for x, n in zip((q, k), names, strict=True)]
    rotation: tuple[Any, ...] = ()
    if q_positions is not None or k_positions is not None:
        base = next(f.op.base for f in (op.q, op.k) if isinstance(f.op, ops.Rotated))
        rotation = _rotation(base, (q, k), (q_positions, k_positions), names)
    instruction = core.Dot(factors[0], factors[1], op.scaling, op.dim, *rotation)
    return Output(core_value(v, instruction, present(layout)), layout)


def _unrotated(factor: Value) -> tuple[Output, Any]:
    """A factor of a dot product without its rotation, and the positions by which it is rotated."""
    if isinstance(factor.op, ops.Rotated):
        return lowered(factor.op.w), factor.op.positions
    return lowered(factor), None


def _rotation(
    base: float, factors: Sequence[Output], positions: Sequence[Any], names: Sequence[Renaming]
) -> Any:
    numbers, orders = [], []
    for x, given, called in zip(factors, positions, names, strict=True):
        array = np.zeros(()) if given is None else given
        order = aligned(x.layout, np.shape(array))
        numbers.append(Number(array))
        orders.append(tuple(None if a is None else called[a] for a in order))
    return base, tuple(numbers), tuple(orders), _reach(*(number.array for number in numbers))


def _turned(v: Value, op: ops.Rotate) -> Output:
    w = lowered(op.w)
    order = aligned(w.layout, np.shape(op.positions))
    rotate = core.Rotate(w.value, Number(op.positions), order, op.base)
    return Output(core_value(v, rotate, w.value.axes), w.layout)


def _reach(first: Any, second: Any) -> float | None:
    """An upper bound of |first − second|, rounded up to a power of two so that programs with other
    positions are likely to have the same structure; None inside transformations of JAX.
    """
    if is_traced(first, second):
        return None
    largest = max(np.max(first) - np.min(second), np.max(second) - np.min(first))
    return 2.0 ** math.ceil(math.log2(largest) - 1e-9) if largest > 0 else 0.0


def _average(v: Value, op: ops.Average) -> Output:
    w = lowered(op.w)
    ones = kinds.Value(core.Ones(), (), op.dim)
    return Output(core_value(v, core.Dot(w.value, ones, "linear", op.dim), w.value.axes), w.layout)


def _apply(v: Value, op: ops.Apply) -> Output:
    args = [lowered(a) for a in op.args]
    if op.core is None:
        layout = new_axes(v.shape)
        values, layouts = [a.value for a in args], [a.layout for a in args]
    else:
        layout, names = met(*(a.layout for a in args))
        values = [renamed(a.value, n) for a, n in zip(args, names, strict=True)]
        layouts = [
            tuple(None if x is None else n[x] for x in a.layout)
            for a, n in zip(args, names, strict=True)
        ]
    known = (op.core, op.name, op.structure, op.pseudo_lipschitz)
    instruction = core.Apply(op.f, tuple(values), tuple(layouts), layout, *known)
    return Output(core_value(v, instruction, present(layout)), layout)


def _rotary(v: Value, op: ops.Rotated) -> Output:
    return lowered(op.w)  # the rotation belongs to the dot product


# --- loops ---------------------------------------------------------------------------------------


def _argument(v: Value, op: ops.Argument) -> Output:
    layout = new_axes(v.shape)
    return Output(core_value(v, core.Argument(), present(layout)), layout)


def _scan(v: Value, op: ops.Scan) -> Output:
    axis = Axis(op.times)
    inside, results = ([lowered(u) for u in values] for values in (op.arguments, op.results))
    first, last = len(op.starts), len(op.arguments) - len(op.constants)
    sequences = [_along(lowered(u), axis) for u in op.sequences]
    given = [*map(lowered, op.starts), *sequences, *map(lowered, op.constants)]
    read = [
        renamed(x.value, names_between(x.layout, argument.layout))
        for x, argument in zip(given, inside, strict=True)
    ]
    carries = [
        renamed(x.value, names_between(x.layout, argument.layout))
        for x, argument in zip(results[:first], inside[:first], strict=True)
    ]
    outputs = [x.value for x in results[first:]]
    block = kinds.Block(tuple(x.value for x in inside), (*carries, *outputs))
    parts = tuple(read[:first]), tuple(read[first:last]), tuple(read[last:])
    follows = None if op.follows is None else lowered(op.follows).value
    scan = core.Scan(*parts, block, axis, op.reverse, op.shared, follows)
    return Output(kinds.Value(scan, (), None, v), ())


def _along(sequence: Output, axis: Axis) -> Output:
    """A sequence with `axis`, that of iterations, first, which its layout leaves out."""
    first, *layout = sequence.layout
    names = {} if first is None else {first: axis}
    return Output(renamed(sequence.value, names), tuple(layout))


def _from_scan(v: Value, op: ops.FromScan) -> Output:
    scan = lowered(op.scan).value
    of = op.loop.results[op.place] if op.stacked else op.loop.arguments[op.place]
    layout = lowered(of).layout
    if not op.stacked:
        return Output(core_value(v, core.FromScan(scan, op.place), present(layout)), layout)
    instruction = core.FromScan(scan, op.place)
    axis = instruction.loop.axis
    value = core_value(v, instruction, (axis, *present(layout)))
    if op.loop.times > 1:
        return Output(value, (axis, *layout))
    return Output(taken_at(v, value, [((axis,), [np.asarray(0)], ())]), (None, *layout))


def _trained(v: Value, op: ops.Trained) -> Output:
    return lowered(op.w)


def _unrolled(v: Value, op: ops.Unrolled) -> Output:
    return lowered(op.turns[-1])


LOWERING: dict[type[Op], Callable[[Any, Any], Output]] = BATCH_RULES | {
    ops.Initial: _initial,
    ops.Data: _data,
    ops.Ones: _ones,
    ops.Gain: _ones,
    ops.Constant: _constant,
    ops.DimensionRatio: _dimension_ratio,
    ops.MatMul: _matmul,
    ops.Map: _map,
    ops.Dot: _dot,
    ops.Average: _average,
    ops.Apply: _apply,
    ops.Rotated: _rotary,
    ops.Rotate: _turned,
    ops.Argument: _argument,
    ops.Scan: _scan,
    ops.FromScan: _from_scan,
    ops.Unrolled: _unrolled,
    ops.Trained: _trained,
}
