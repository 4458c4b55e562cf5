"""A program written again: with axes of other sizes, with other numbers in its slots,
or with its loops written out.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from limitlaw.core.instructions import (
    Block,
    Family,
    Initial,
    Instruction,
    MatMul,
    Number,
    Repeat,
    Value,
)
from limitlaw.core.labelled import Axis, NodeAxis, is_infinite
from limitlaw.core.program import Output, Program, ancestors

HELD = 2**25  # numbers in the largest array with an axis of nodes
FEWEST = 2**8  # nodes


def resized(outputs: Sequence[Output], axes: Mapping[Axis, Axis]) -> tuple[Output, ...]:
    """The same outputs with other axes in place of some;
    what had no axis of these stays the same object.
    """
    return _Writer(lambda axis: axes.get(axis, axis), lambda number: number).outputs(outputs)


def renumbered(outputs: Sequence[Output], array: Callable[[Any], Any]) -> tuple[Output, ...]:
    """The same outputs with array(x) in place of the numbers x in each slot."""
    known: dict[Number, Number] = {}

    def number(old: Number) -> Number:
        if old not in known:
            new = array(old.array)
            known[old] = old if new is old.array else Number(new)
        return known[old]

    return _Writer(lambda axis: axis, number).outputs(outputs)


def with_nodes(outputs: Sequence[Output], most: int) -> tuple[tuple[Output, ...], int]:
    """The same program with N ≤ `most` nodes on every infinite axis, and N; 0 where there is none.

    A normalised sum over infinitely many independent heads is Gaussian, with the mean of one
    head's covariance (Hron et al. 2020). N heads whose scores are the points of a quasi-random
    sequence average just that.
    """
    program = Program(tuple(output.value for output in outputs))
    values = [v for part in (program, *program.every_block) for v in part.values]
    infinite = dict.fromkeys(axis for v in values for axis in v.axes if axis.size == math.inf)
    if not infinite:
        return tuple(outputs), 0
    largest = max(
        math.prod(int(a.size) for a in v.axes if a.size != math.inf)
        for v in values
        if is_infinite(v.axes)
    )
    count = most
    while count > FEWEST and count * largest > HELD:
        count //= 2
    return resized(outputs, {axis: NodeAxis(count) for axis in infinite}), count


class _Writer:
    """Writes values again, each once, with other axes and slots."""

    def __init__(self, axis: Callable[[Axis], Axis], number: Callable[[Number], Number]):
        self._axis, self._number = axis, number
        self._values: dict[Value, Value] = {}
        self._families: dict[Family, Family] = {}

    def outputs(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """Outputs, with their layouts."""
        self._write([output.value for output in outputs])
        return tuple(Output(self._values[value], self._new(layout)) for value, layout in outputs)

    def _write(self, values: Sequence[Value]) -> None:
        for v in ancestors(values):
            if v not in self._values:
                op = self._instruction(v.instruction)
                axes = self._new(v.axes)
                same = op is v.instruction and axes is v.axes
                self._values[v] = v if same else dataclasses.replace(v, instruction=op, axes=axes)

    def _instruction(self, op: Instruction) -> Instruction:
        """An instruction that holds the new of everything; itself if that is the same."""
        held = {field.name: getattr(op, field.name) for field in dataclasses.fields(op)}
        changes = {name: new for name, old in held.items() if (new := self._new(old)) is not old}
        return dataclasses.replace(op, **changes) if changes else op

    def _new(self, item: object) -> Any:
        if isinstance(item, tuple):
            new = tuple(map(self._new, item))
            return item if all(a is b for a, b in zip(new, item, strict=True)) else new
        if isinstance(item, Value):
            return self._values[item]
        if isinstance(item, Axis):
            return self._axis(item)
        if isinstance(item, Number):
            return self._number(item)
        if isinstance(item, Family):
            return self._family(item)
        if isinstance(item, Block):
            self._write([item.argument, item.result])
            same = self._values[item.result] is item.result
            return item if same else Block(self._values[item.argument], self._values[item.result])
        return item

    def _family(self, old: Family) -> Family:
        if old not in self._families:
            layout, std = self._new(old.layout), self._new(old.std)
            same = layout is old.layout and std is old.std
            self._families[old] = old if same else dataclasses.replace(old, layout=layout, std=std)
        return self._families[old]


Turns = dict[Value, list[Value]]


def unrolled(outputs: Sequence[Value], most: int | None = None) -> tuple[Value, ...]:
    """The same outputs without loops; with `most`, so many turns of each stand for more."""
    return _copied(outputs, {}, most, anew=False)


def every_turn(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs without loops; in place of one that is a loop all of its turns."""
    turns: Turns = {}
    written = _copied(outputs, {}, None, anew=False, turns=turns)
    pairs = zip(outputs, written, strict=True)
    return tuple(value for output, result in pairs for value in turns.get(output, [result]))


def _copied(
    outputs: Sequence[Value],
    known: dict[Value, Value],
    most: int | None,
    anew: bool,
    turns: Turns | None = None,
) -> tuple[Value, ...]:
    """Outputs on other values in place of those that are known;
    `anew` with other matrices and initial vectors.

    `turns` is filled with what each turn of a loop gives.
    """
    families: dict[Family, Family] = {}

    def renewed(op: Instruction) -> Instruction:
        new: dict[object, object] = {u: known[u] for u in op.inputs}
        if anew and isinstance(op, MatMul):
            new[op.family] = families.setdefault(op.family, dataclasses.replace(op.family))
        return op.replaced(new)

    for v in ancestors(outputs):
        op = v.instruction
        if v in known:
            continue
        if isinstance(op, Repeat):
            x = known[op.x]
            for _ in range(op.times if most is None else min(op.times, most)):
                (x,) = _copied((op.block.result,), {op.block.argument: x}, most, anew=True)
                if turns is not None:
                    turns.setdefault(v, []).append(x)
            known[v] = x
        elif all(known[u] is u for u in op.inputs) and not (
            anew and isinstance(op, Initial | MatMul)
        ):
            known[v] = v
        else:
            known[v] = dataclasses.replace(v, instruction=renewed(op))
    return tuple(known[v] for v in outputs)
