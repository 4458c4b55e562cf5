"""A core program: its values in order, its slots for numbers,
and its structure, which does not know the numbers.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core.instructions import Block, Family, Instruction, MatMul, Number, Repeat, Value
from limitlaw.core.labelled import Axis, Layout


class Output(NamedTuple):
    """A value, and the order in which a user sees its axes."""

    value: Value
    layout: Layout


class Written(abc.ABC):
    """What a user wrote."""

    @property
    @abc.abstractmethod
    def core(self) -> Output:
        """It, as engines read it."""

    @abc.abstractmethod
    def notes(self) -> list[str]:
        """What `check` says of the way the program was written."""

    @abc.abstractmethod
    def names(self, *others: "Written") -> Callable[[object], str]:
        """What the printed program of this and others calls its values and matrices."""


def ancestors(outputs: Iterable[Value]) -> list[Value]:
    """Every value the outputs depend on, themselves included,
    each after what it reads (any depth).
    """
    order: dict[Value, None] = {}
    stack = [(value, False) for value in reversed(list(outputs))]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.setdefault(value)
        elif value not in order:
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(value.inputs) if v not in order)
    return list(order)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """What outputs depend on."""

    outputs: tuple[Value, ...]

    @functools.cached_property
    def values(self) -> list[Value]:
        """Each after what it reads."""
        return ancestors(self.outputs)

    @functools.cached_property
    def families(self) -> list[Family]:
        """In order of first use."""
        return list(
            dict.fromkeys(
                v.instruction.family for v in self.values if isinstance(v.instruction, MatMul)
            )
        )

    @functools.cached_property
    def blocks(self) -> dict[Block, "Program"]:
        """The programs of the blocks that are repeated."""
        repeats = (v.instruction for v in self.values if isinstance(v.instruction, Repeat))
        return {r.block: Program((r.block.result,)) for r in repeats}

    @functools.cached_property
    def every_block(self) -> list["Program"]:
        """Those, and the programs of the blocks inside them."""
        found = list(self.blocks.values())
        return found + [inner for block in found for inner in block.every_block]

    @functools.cached_property
    def _encoded(self) -> tuple[Hashable, list[Number]]:
        encoder = _Encoder()
        return encoder.program(self), encoder.slots

    @property
    def structure(self) -> Hashable:
        """The program without its numbers: equal for programs that differ in those only."""
        return self._encoded[0]

    @property
    def numbers(self) -> list[Number]:
        """The slots, in an order that the structure fixes."""
        return self._encoded[1]

    @property
    def arrays(self) -> list[Any]:
        """What the slots hold: the arguments of a function that is compiled for the structure."""
        return [number.array for number in self.numbers]

    @property
    def is_traced(self) -> bool:
        """Do numbers come from inside a JAX transformation?"""
        return is_traced(*self.arrays)


class _Encoder:
    """Numbers values, families, axes and slots in order of appearance."""

    def __init__(self) -> None:
        self.slots: list[Number] = []
        self._known: dict[object, tuple[str, int]] = {}

    def program(self, program: Program) -> Hashable:
        """The structure of a program, or of the block of a loop."""
        rows: list[Hashable] = []
        for value in program.values:
            rows.append(
                (self._instruction(value.instruction), self._content(value.axes), value.dim)
            )
            self._name("value", value)
        return (tuple(rows), self._content(program.outputs))

    def _instruction(self, instruction: Instruction) -> Hashable:
        fields = dataclasses.fields(instruction)
        return (type(instruction), *(self._content(getattr(instruction, f.name)) for f in fields))

    def _content(self, content: object) -> Hashable:
        if isinstance(content, tuple):
            return tuple(map(self._content, content))
        if isinstance(content, Value):
            return self._known[content]
        if isinstance(content, Axis):
            return content.size, self._name("axis", content)
        if isinstance(content, Number):
            if content not in self._known:
                self.slots.append(content)
            return self._name("number", content), np.shape(content.array)
        if isinstance(content, Family):
            known = content in self._known
            name = self._name("family", content)
            return name if known else (name, *map(self._content, _fields(content)))
        if isinstance(content, Block):
            return self.program(Program((content.result,)))
        return content

    def _name(self, kind: str, item: object) -> tuple[str, int]:
        return self._known.setdefault(item, (kind, len(self._known)))


def _fields(family: Family) -> Sequence[object]:
    return (family.layout, family.std, family.rows, family.cols)
