"""From what a user writes to what engines read: one function for each instruction of the language.

Order of axes, newaxis, transposes and axes of size 1 are here only: a value is lowered to a core
value and the layout of its axes. Broadcasting aligns positions from the right; the first operand
that has an axis at a position names it, and others are renamed. No axis names two positions, so
that w + wᵀ and x[:, None] + x[None, :] come out right.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core import instructions as core
from limitlaw.core import kinds
from limitlaw.core.kinds import Family, Number
from limitlaw.core.labelled import Axes, Axis, Layout, present, union
from limitlaw.core.program import Output
from limitlaw.language import ops
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.shapes import Shape, parts_of, regrouped

Renaming = dict[Axis, Axis]


def written(value: Value) -> Output:
    """A value that has just been written, in the core language;
    what it reads was lowered before.
    """
    rule = LOWERING.get(type(value.op))
    return value.op.lowered(value) if rule is None else rule(value, value.op)


def lowered(value: Value) -> Output:
    """What a value of the language is in the core language."""
    return value.lowered


def family(matrix: Matrix) -> Family:
    """The family of a matrix of the language, made once."""
    if not hasattr(matrix, "_family"):
        made = Family(new_axes(matrix.shape), Number(matrix.std), matrix.rows, matrix.cols, matrix)
        matrix._family = made  # type: ignore[attr-defined]
    return matrix._family  # type: ignore[attr-defined]


def new_axes(shape: Shape) -> Layout:
    """An axis for each size but 1."""
    return tuple(None if size == 1 else Axis(size) for size in shape)


def _aligned(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of an array of `shape` that broadcasts to `layout`."""
    tail = layout[len(layout) - len(shape) :]
    return tuple(None if size == 1 else axis for axis, size in zip(tail, shape, strict=True))


# --- meeting -------------------------------------------------------------------------------------


def met(*layouts: Layout, taken: Iterable[Axis] = ()) -> tuple[Layout, list[Renaming]]:
    """The common layout of operands, and what the axes of each are called in it."""
    ndim = max(map(len, layouts))
    padded = [(*(None,) * (ndim - len(layout)), *layout) for layout in layouts]
    common: list[Axis | None] = [None] * ndim
    used = set(taken)
    for layout in padded:
        for i, axis in enumerate(layout):
            if axis is not None and common[i] is None:
                name = axis if axis not in used else Axis(axis.size)
                common[i] = name
                used.add(name)
    names = [
        {a: c for a, c in zip(layout, common, strict=True) if a is not None and c is not None}
        for layout in padded
    ]
    return tuple(common), names


def renamed(value: kinds.Value, names: Renaming) -> kinds.Value:
    """The value with its axes called otherwise; given numbers are laid out anew instead."""
    changed = {a: b for a, b in names.items() if a is not b and a in value.axes}
    if not changed:
        return value
    axes = tuple(changed.get(a, a) for a in value.axes)
    given = value.instruction
    if isinstance(given, core.Constant):
        order = tuple(None if a is None else changed.get(a, a) for a in given.order)
        return kinds.Value(core.Constant(given.value, order), axes, None, value.source)
    instruction = core.Rename(value, tuple(changed), tuple(changed.values()))
    return kinds.Value(instruction, axes, value.dim, value.source)


def together(*operands: Output, taken: Iterable[Axis] = ()) -> tuple[Layout, list[kinds.Value]]:
    """Operands that broadcast, under common names."""
    layout, names = met(*(x.layout for x in operands), taken=taken)
    return layout, [renamed(x.value, n) for x, n in zip(operands, names, strict=True)]


def _value(source: Value, instruction: kinds.Instruction, axes: Axes) -> kinds.Value:
    return kinds.Value(instruction, axes, getattr(source, "dim", None), source)


# --- leaves --------------------------------------------------------------------------------------


def _initial(v: Value, op: ops.Initial) -> Output:
    layout = new_axes(v.shape)
    centred = not is_traced(op.mean) and not np.any(op.mean)
    instruction = core.Initial(
        Number(op.mean), Number(op.cov), layout, centred, diagonal=op.cov.ndim == 1
    )
    return Output(_value(v, instruction, present(layout)), layout)


def _data(v: Value, op: ops.Data) -> Output:
    layout = new_axes(v.shape)
    return Output(_value(v, core.Data(Number(op.X), layout), present(layout)), layout)


def _ones(v: Value, op: ops.Ones) -> Output:
    return Output(_value(v, core.Ones(), ()), ())


def _constant(v: Value, op: ops.Constant) -> Output:
    layout = new_axes(v.shape)
    return Output(_value(v, core.Constant(Number(op.value), layout), present(layout)), layout)


def _dimension_ratio(v: Value, op: ops.DimensionRatio) -> Output:
    return Output(_value(v, core.DimensionRatio(op.over, op.under), ()), ())


# --- Netsor with dot products --------------------------------------------------------------------


def _matmul(v: Value, op: ops.MatMul) -> Output:
    W = family(op.matrix)
    x = lowered(op.x)
    layout, (_, names) = met(W.layout, x.layout)
    product = core.MatMul(W, renamed(x.value, names), op.transposed)
    return Output(_value(v, product, present(layout)), layout)


def _map(v: Value, op: ops.Map) -> Output:
    layout, args = together(*map(lowered, op.args))
    return Output(_value(v, core.Map(op.phi, tuple(args)), present(layout)), layout)


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
    return Output(_value(v, instruction, present(layout)), layout)


def _unrotated(factor: Value) -> tuple[Output, Any]:
    """A factor of a dot product, and the positions by which it is rotated."""
    if isinstance(factor.op, ops.Rotated):
        return lowered(factor.op.w), factor.op.positions
    return lowered(factor), None


def _rotation(
    base: float, factors: Sequence[Output], positions: Sequence[Any], names: Sequence[Renaming]
) -> Any:
    numbers, orders = [], []
    for x, given, called in zip(factors, positions, names, strict=True):
        array = np.zeros(()) if given is None else given
        order = _aligned(x.layout, np.shape(array))
        numbers.append(Number(array))
        orders.append(tuple(None if a is None else called[a] for a in order))
    return base, tuple(numbers), tuple(orders), _reach(*(number.array for number in numbers))


def _reach(first: Any, second: Any) -> float | None:
    """A bound of |first − second|, a power of two, so that programs of other positions are
    likely to have the same structure; None inside transformations of JAX.
    """
    if is_traced(first, second):
        return None
    largest = max(np.max(first) - np.min(second), np.max(second) - np.min(first))
    return 2.0 ** math.ceil(math.log2(largest) - 1e-9) if largest > 0 else 0.0


def _average(v: Value, op: ops.Average) -> Output:
    w = lowered(op.w)
    ones = kinds.Value(core.Ones(), (), op.dim)
    return Output(_value(v, core.Dot(w.value, ones, "linear", op.dim), w.value.axes), w.layout)


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
    return Output(_value(v, instruction, present(layout)), layout)


def _rotary(v: Value, op: ops.Rotated) -> Output:
    return lowered(op.w)  # the rotation belongs to the dot product


# --- linear --------------------------------------------------------------------------------------


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
    return Output(_value(v, instruction, present(layout)), layout)


def _scale(v: Value, op: ops.Scale) -> Output:
    layout, (w, a) = together(lowered(op.w), lowered(op.a))
    return Output(_value(v, core.Contract(a, w, ()), present(layout)), layout)


def _add(v: Value, op: ops.Add) -> Output:
    layout, terms = together(*map(lowered, op.terms))
    return Output(_value(v, core.Add(tuple(terms)), present(layout)), layout)


def _sum(v: Value, op: ops.Sum) -> Output:
    x = lowered(op.x)
    over = present(tuple(x.layout[a] for a in op.axes))
    layout = tuple(axis for a, axis in enumerate(x.layout) if a not in op.axes)
    if not over and not op.normalised:
        return Output(x.value, layout)
    # of one head, too: it says that there are heads
    instruction = core.Contract(None, x.value, over, op.normalised)
    return Output(_value(v, instruction, present(layout)), layout)


def _stack(v: Value, op: ops.Stack) -> Output:
    layout, terms = together(*map(lowered, op.terms))
    axis = Axis(len(terms)) if len(terms) > 1 else None
    layout = (*layout[: op.axis], axis, *layout[op.axis :])
    if axis is None:
        return Output(terms[0], layout)
    return Output(_value(v, core.Stack(tuple(terms), axis), present(layout)), layout)


def _index(v: Value, op: ops.Index) -> Output:
    x = lowered(op.x)
    layout, taken = parts_of(op.index, x.layout, op.x.shape)
    return Output(_taken(v, x.value, taken), layout)


def _reshape(v: Value, op: ops.Reshape) -> Output:
    x = lowered(op.x)
    layout, taken = regrouped(x.layout, v.shape)
    return Output(_taken(v, x.value, taken), layout)


def _taken(
    v: Value, value: kinds.Value, taken: Iterable[tuple[Axes, list[np.ndarray], Axes]]
) -> kinds.Value:
    """The value at given places, one Take after the other."""
    for axes, places, new in taken:
        left = union((a for a in value.axes if a not in axes), new)
        instruction = core.Take(value, axes, tuple(map(core.Places.of, places)), new)
        value = kinds.Value(instruction, left, value.dim, v)
    return value


def _argument(v: Value, op: ops.Argument) -> Output:
    layout = new_axes(v.shape)
    return Output(_value(v, core.Argument(), present(layout)), layout)


def _scan(v: Value, op: ops.Scan) -> Output:
    axis = Axis(op.times)
    inside, results = ([lowered(u) for u in values] for values in (op.arguments, op.results))
    first, last = len(op.starts), len(op.arguments) - len(op.constants)
    sequences = [_along(lowered(u), axis) for u in op.sequences]
    given = [*map(lowered, op.starts), *sequences, *map(lowered, op.constants)]
    read = [
        renamed(x.value, _called(x.layout, argument.layout))
        for x, argument in zip(given, inside, strict=True)
    ]
    carries = [
        renamed(x.value, _called(x.layout, argument.layout))
        for x, argument in zip(results[:first], inside[:first], strict=True)
    ]
    outputs = [x.value for x in results[first:]]
    block = kinds.Block(tuple(x.value for x in inside), (*carries, *outputs))
    parts = tuple(read[:first]), tuple(read[first:last]), tuple(read[last:])
    scan = core.Scan(*parts, block, axis, op.reverse, op.shared)
    return Output(kinds.Value(scan, (), None, v), ())


def _along(sequence: Output, axis: Axis) -> Output:
    """A sequence whose first axis is that of the iterations, without it in its layout."""
    first, *layout = sequence.layout
    names = {} if first is None else {first: axis}
    return Output(renamed(sequence.value, names), tuple(layout))


def _from_scan(v: Value, op: ops.FromScan) -> Output:
    scan = lowered(op.scan).value
    of = op.loop.results[op.place] if op.stacked else op.loop.arguments[op.place]
    layout = lowered(of).layout
    if not op.stacked:
        return Output(_value(v, core.FromScan(scan, op.place), present(layout)), layout)
    instruction = core.FromScan(scan, op.place)
    axis = instruction.loop.axis
    value = _value(v, instruction, (axis, *present(layout)))
    if op.loop.times > 1:
        return Output(value, (axis, *layout))
    return Output(_taken(v, value, [((axis,), [np.asarray(0)], ())]), (None, *layout))


def _called(layout: Layout, names: Layout) -> Renaming:
    """The axes of one layout by those of another of the same shape."""
    return {a: b for a, b in zip(layout, names, strict=True) if a is not None and b is not None}


def _unrolled(v: Value, op: ops.Unrolled) -> Output:
    return lowered(op.turns[-1])


def _transpose(v: Value, op: ops.Transpose) -> Output:
    x = lowered(op.x)
    return Output(x.value, tuple(x.layout[a] for a in op.axes))


LOWERING: dict[type[ops.Op], Callable[[Any, Any], Output]] = {
    ops.Initial: _initial,
    ops.Data: _data,
    ops.Ones: _ones,
    ops.Constant: _constant,
    ops.DimensionRatio: _dimension_ratio,
    ops.MatMul: _matmul,
    ops.Map: _map,
    ops.Dot: _dot,
    ops.Average: _average,
    ops.Apply: _apply,
    ops.Rotated: _rotary,
    ops.Mix: _mix,
    ops.Scale: _scale,
    ops.Add: _add,
    ops.Sum: _sum,
    ops.Stack: _stack,
    ops.Index: _index,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
    ops.Argument: _argument,
    ops.Scan: _scan,
    ops.FromScan: _from_scan,
    ops.Unrolled: _unrolled,
}
