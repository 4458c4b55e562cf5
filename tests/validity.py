"""When is a core program well-formed? A table: for each instruction,
what must hold of the value it makes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from limitlaw.core import instructions as core
from limitlaw.core.kinds import Coordinatewise, Instruction, Linear, Number, Value, rule_for
from limitlaw.core.labelled import (
    Axes,
    Axis,
    Labelled,
    Layout,
    add,
    is_infinite,
    present,
    sizes,
    union,
)
from limitlaw.core.program import ancestors

Claim = tuple[bool, str]  # does it hold, and what it says
Rule = Callable[[Value, Any], Iterable[Claim]]


def validate(*outputs: Value) -> None:
    """Raise where a value breaks a rule of its instruction."""
    for value in ancestors(outputs):
        for holds, claim in (
            *_every(value),
            *rule_for(type(value.instruction), RULES, "validity")(value, value.instruction),
        ):
            if not holds:
                raise ValueError(f"{value!r}: {claim}")


def _every(value: Value) -> Iterable[Claim]:
    yield len(set(value.axes)) == len(value.axes), "an axis occurs once"


def _has(value: Value, *axes: Axes) -> Claim:
    return set(value.axes) == set(union(*axes)), "its axes are those of what it reads"


def _is(value: Value, vectors: bool) -> Claim:
    return value.is_vector == vectors, f"it makes {'vectors' if vectors else 'numbers'}"


def _fits(number: Number, order: Layout, hidden: int = 0) -> Claim:
    shape = np.shape(number.array)
    sizes = tuple(1 if a is None else a.size for a in order)
    return shape[: len(shape) - hidden] == sizes, "given numbers have the shape of their layout"


def _broadcasts(number: Number, layout: Layout) -> Claim:
    sizes = tuple(1 if a is None else a.size for a in layout)
    shape = np.shape(number.array)
    tail = sizes[len(sizes) - len(shape) :]
    fits = len(shape) <= len(sizes) and all(a in (1, b) for a, b in zip(shape, tail, strict=True))
    return fits, "given numbers broadcast to their layout"


def _initial(value: Value, op: core.Initial) -> Iterable[Claim]:
    yield _is(value, True)
    yield _has(value, present(op.order))
    yield _broadcasts(op.mean, op.order)
    count = int(np.prod([a.size for a in present(op.order)], dtype=int))
    yield (
        np.shape(op.cov.array) == (count,) * (1 if op.diagonal else 2),
        "cov is over the flattened batch",
    )


def _data(value: Value, op: core.Data) -> Iterable[Claim]:
    yield _is(value, True)
    yield _has(value, present(op.order))
    yield _fits(op.X, op.order, hidden=1)


def _ones(value: Value, op: core.Ones) -> Iterable[Claim]:
    yield _is(value, True)
    yield _has(value)


def _constant(value: Value, op: core.Constant) -> Iterable[Claim]:
    yield _is(value, False)
    yield _has(value, present(op.order))
    yield _fits(op.value, op.order)


def _dimension_ratio(value: Value, op: core.DimensionRatio) -> Iterable[Claim]:
    yield _is(value, False)
    yield _has(value)


def _matmul(value: Value, op: core.MatMul) -> Iterable[Claim]:
    rows, cols = op.family.rows, op.family.cols
    into, out_of = (cols, rows) if op.transposed else (rows, cols)
    yield value.dim == into, "it lives in the rows of the matrix"
    yield op.x.dim == out_of, "the matrix has as many columns as its vectors coordinates"
    yield _has(value, op.family.axes, op.x.axes)
    yield _broadcasts(op.family.std, op.family.layout)


def _map(value: Value, op: Coordinatewise) -> Iterable[Claim]:
    dims = {v.dim for v in op.args if v.is_vector}
    yield dims == {value.dim} and value.is_vector, "its vectors live in its space"
    yield _has(value, *(v.axes for v in op.args))


def _linear(value: Value, op: Linear) -> Iterable[Claim]:
    yield {v.dim for v in op.inputs if v.is_vector} <= {value.dim}, "its vectors live in its space"
    if value.is_vector and not is_infinite(union(*(v.axes for v in op.inputs))):
        yield from _tried(value, op)


def _tried(value: Value, op: Linear) -> Iterable[Claim]:
    """What `applied` does to random arrays, with a hidden axis of size 2."""
    random, further = np.random.default_rng(0), Axis(4)
    numbers = {
        v: Labelled(random.normal(size=sizes(v.axes)), v.axes)
        for v in op.inputs
        if not v.is_vector
    }

    def drawn(*axes: Axis, written: bool = True) -> dict[Value, Labelled]:
        every = {v: (*axes, *(v.axes if written else ())) for v in op.inputs if v.is_vector}
        return {v: Labelled(random.normal(size=(*sizes(x), 2)), x) for v, x in every.items()}

    def made(vectors: Mapping[Value, Labelled], *axes: Axis) -> np.ndarray:
        return np.asarray(op.applied(vectors.__getitem__, numbers).whole((*axes, *value.axes)))

    x, y = drawn(), drawn()
    both = {v: add([x[v], y[v]]) for v in x}
    yield np.allclose(made(x) + made(y), made(both)), "it is linear in its vectors"
    # behind others, where places of axes would be those of single vectors
    several = drawn(further)
    one = {v: Labelled(a.array[1], v.axes) for v, a in several.items()}
    yield np.allclose(made(several, further)[1], made(one)), "it leaves further axes alone"
    short = drawn(written=False)
    full = {v: a.with_axes(v.axes) for v, a in short.items()}
    yield np.allclose(made(short), made(full)), "an axis may be missing where entries are equal"
    yield from _said_of_axes(value, op, x, numbers)


def _said_of_axes(
    value: Value, op: Linear, vectors: dict[Value, Labelled], numbers: dict[Value, Labelled]
) -> Iterable[Claim]:
    """Is what `mixes` and `separates` say of every axis what `applied` does?"""
    mixed, separated = op.mixes(value.axes), op.separates()
    everything = {**vectors, **numbers}

    def made(changed: Mapping[Value, Labelled]) -> np.ndarray:
        new = {v: changed.get(v, x) for v, x in everything.items()}
        return np.asarray(op.applied(new.__getitem__, new).whole(value.axes))

    before = made({})
    for place, axis in enumerate(value.axes):
        read = {v: x for v, x in everything.items() if axis in x.axes}
        moved = np.zeros((int(axis.size),) * 2, bool)  # [i, j]: entry i read moves entry j made
        for i in range(len(moved) if read else 0):
            change = np.abs(made({v: _other(x, axis, i) for v, x in read.items()}) - before)
            moved[i] = np.moveaxis(change, place, 0).reshape(len(moved), -1).max(1) > 1e-9
        does = bool((moved & ~np.eye(len(moved), dtype=bool)).any())
        yield axis in mixed or not does, f"it mixes {axis}, and does not say so"
        says = axis in mixed and type(op).mixes is not Instruction.mixes
        yield does or not says, f"it says that it mixes {axis}, and does not"
        free = {v: _turned(x, axis) for v, x in read.items() if not v.instruction.given}
        alike = np.allclose(made(free), np.roll(before, 1, place))
        yield axis in separated or alike, f"it separates entries along {axis}, and does not say so"


def _other(x: Labelled, axis: Axis, i: int) -> Labelled:
    """x with other numbers at one place of an axis."""
    array = np.array(x.array)
    np.moveaxis(array, x.axes.index(axis), 0)[i] += 1.7
    return Labelled(array, x.axes)


def _turned(x: Labelled, axis: Axis) -> Labelled:
    """x with its entries one further along an axis."""
    return x.mapped(lambda array: np.roll(array, 1, x.axes.index(axis)))


def _dot(value: Value, op: core.Dot) -> Iterable[Claim]:
    yield _is(value, False)
    yield op.q.dim == op.k.dim == op.dim, "both factors live in one space"
    yield _has(value, op.q.axes, op.k.axes)
    yield op.scaling in ("sqrt", "linear"), 'scaling is "sqrt" or "linear"'
    rotation = len(op.positions) == len(op.orders) == (0 if op.base is None else 2)
    yield rotation, "positions of both factors come with a base"


def _rotate(value: Value, op: core.Rotate) -> Iterable[Claim]:
    yield value.dim == op.x.dim and value.is_vector, "its vectors live in its space"
    yield _has(value, op.x.axes)
    yield _broadcasts(op.positions, op.order)


def _apply(value: Value, op: core.Apply) -> Iterable[Claim]:
    yield _is(value, False)
    yield not any(v.is_vector for v in op.args), "it reads numbers"
    yield _has(value, present(op.layout))
    laid = all(set(present(x)) == set(v.axes) for x, v in zip(op.layouts, op.args, strict=True))
    yield laid, "every argument has a layout of its axes"


def _contract(value: Value, op: core.Contract) -> Iterable[Claim]:
    yield value.dim == op.w.dim, "it lives where w does"
    yield op.a is None or not op.a.is_vector, "a is made of numbers"
    reads = union(op.w.axes, op.a.axes if op.a else ())
    yield set(op.over) <= set(reads), "it sums over axes that it reads"
    yield _has(value, tuple(a for a in reads if a not in op.over))


def _add(value: Value, op: core.Add) -> Iterable[Claim]:
    yield {t.dim for t in op.terms} == {value.dim}, "its terms live in its space"
    yield _has(value, *(t.axes for t in op.terms))


def _take(value: Value, op: core.Take) -> Iterable[Claim]:
    yield value.dim == op.x.dim, "it lives where x does"
    yield set(op.axes) <= set(op.x.axes), "it reads axes of x"
    yield not set(op.new) & set(op.x.axes), "its new axes are new"
    yield _has(value, tuple(a for a in op.x.axes if a not in op.axes), op.new)
    sizes = tuple(a.size for a in op.new)
    yield (
        all(p.shape == sizes for p in op.places),
        "there is a place for each entry of the new axes",
    )
    inside = (
        0 <= min(p.entries) and max(p.entries) < a.size
        for a, p in zip(op.axes, op.places, strict=True)
    )
    yield all(inside), "places are inside their axis"


def _rename(value: Value, op: core.Rename) -> Iterable[Claim]:
    yield value.dim == op.x.dim, "it lives where x does"
    yield set(op.old) <= set(op.x.axes), "it renames axes of x"
    yield all(a.size == b.size for a, b in zip(op.old, op.new, strict=True)), "sizes stay"
    yield _has(value, op.names_of(op.x.axes))


def _stack(value: Value, op: core.Stack) -> Iterable[Claim]:
    yield {t.dim for t in op.terms} == {value.dim}, "its terms live in its space"
    yield op.axis.size == len(op.terms), "the new axis has an entry for each term"
    yield all(op.axis not in t.axes for t in op.terms), "the new axis is new"
    yield _has(value, (op.axis,), *(t.axes for t in op.terms))


def _argument(value: Value, op: core.Argument) -> Iterable[Claim]:
    return ()


def _scan(value: Value, op: core.Scan) -> Iterable[Claim]:
    yield op.times >= 1, "there is an iteration"
    yield not value.axes and not value.is_vector, "its results are read from it one by one"
    yield len(op.block.arguments) == len(op.inputs), "every argument stands for a value"
    for outside, inside in zip(op.inputs, op.block.arguments, strict=True):
        yield outside.dim == inside.dim, "an argument lives in the space of what it stands for"
    for start, v, y in zip(op.starts, op.carried, op.following, strict=True):
        yield y.dim == v.dim, "a carry stays in its space"
        yield set(start.axes) == set(v.axes) == set(y.axes), "a carry keeps its axes"
    for sequence, v in zip(op.sequences, op.elements, strict=True):
        left = set(sequence.axes) - {op.axis}
        yield left == set(v.axes), "an entry has the axes of the sequence but that of iterations"
    for constant, v in zip(op.constants, op.invariant, strict=True):
        yield set(constant.axes) == set(v.axes), "a constant keeps its axes"
    for v in ancestors(op.block.results):
        known = not isinstance(v.instruction, core.Argument) or v in op.block.arguments
        yield known, "a block reads its own arguments"


def _from_scan(value: Value, op: core.FromScan) -> Iterable[Claim]:
    yield isinstance(op.scan.instruction, core.Scan), "it reads a scan"
    yield 0 <= op.place < len(op.loop.block.results), "the scan has such a result"
    yield value.dim == op.result.dim, "it lives where the result does"
    yield _has(value, op.result.axes, (op.loop.axis,) if op.stacked else ())


RULES: dict[type[Instruction], Rule] = {
    core.Initial: _initial,
    core.Data: _data,
    core.Ones: _ones,
    core.Constant: _constant,
    core.DimensionRatio: _dimension_ratio,
    core.MatMul: _matmul,
    Coordinatewise: _map,
    Linear: _linear,
    core.Dot: _dot,
    core.Apply: _apply,
    core.Rotate: _rotate,
    core.Contract: _contract,
    core.Add: _add,
    core.Take: _take,
    core.Rename: _rename,
    core.Stack: _stack,
    core.Argument: _argument,
    core.Scan: _scan,
    core.FromScan: _from_scan,
}
