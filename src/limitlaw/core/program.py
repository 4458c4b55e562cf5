"""A core program: its values in order, its slots for numbers, and its structure, which does not
depend on the numbers; and rewriting of programs with axes of other sizes, or other numbers in
their slots.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import is_traced, shown
from limitlaw.core.instructions import MatMul
from limitlaw.core.kinds import Block, Family, Instruction, Number, Value
from limitlaw.core.labelled import Axis, Layout, NodeAxis, is_infinite

NODES_HELD = 2**25  # most numbers in an array with an axis of nodes
FEWEST_NODES = 2**8  # nodes kept even where that makes larger arrays


class Output(NamedTuple):
    """A value, and the layout in which a user sees its axes."""

    value: Value
    layout: Layout

    @property
    def is_wide(self) -> bool:
        """Is it a vector of a space that grows with n?"""
        return self.value.dim is not None and self.value.dim.wide


class Written(abc.ABC):
    """A value as a user wrote it, in the user's language."""

    @property
    @abc.abstractmethod
    def core(self) -> Output:
        """The value in the core language, as engines read it."""

    def check_with(self, *others: "Written") -> None:  # noqa: B027
        """Raise if this and others cannot be asked for together. By default they can."""

    @abc.abstractmethod
    def notes(self) -> list[str]:
        """Remarks of `check` on how the program was written."""

    @abc.abstractmethod
    def names(self, *others: "Written") -> Callable[[object], str]:
        """The names that the printed program of this and others gives its values and matrices."""


Node = TypeVar("Node", bound=Hashable)


def after_inputs(outputs: Iterable[Node], inputs: Callable[[Node], Sequence[Node]]) -> list[Node]:
    """All that the outputs depend on, and they themselves, each after its inputs (any depth)."""
    order: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(list(outputs))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.setdefault(node)
        elif node not in order:
            stack.append((node, True))
            stack.extend((n, False) for n in reversed(inputs(node)) if n not in order)
    return list(order)


def ancestors(outputs: Iterable[Value]) -> list[Value]:
    """Every value the outputs depend on, themselves included, each after what it reads."""
    return after_inputs(outputs, lambda value: value.inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """The program of some outputs: everything that they depend on."""

    outputs: tuple[Value, ...]

    @functools.cached_property
    def values(self) -> list[Value]:
        """All values, each after what it reads."""
        return ancestors(self.outputs)

    @functools.cached_property
    def families(self) -> list[Family]:
        """The families of matrices, in order of first use."""
        return list(
            dict.fromkeys(
                v.instruction.family for v in self.values if isinstance(v.instruction, MatMul)
            )
        )

    @functools.cached_property
    def blocks(self) -> dict[Block, "Program"]:
        """The programs of the blocks of its loops."""
        bodies = (v.instruction.body for v in self.values)
        return {body: Program(body.results) for body in bodies if body is not None}

    @functools.cached_property
    def every_block(self) -> list["Program"]:
        """The programs of the blocks of its loops, and of the loops inside these."""
        found = list(self.blocks.values())
        return found + [inner for block in found for inner in block.every_block]

    @functools.cached_property
    def _encoded(self) -> tuple[Hashable, list[Number]]:
        encoder = _Encoder()
        return encoder.program(self), encoder.slots

    @property
    def structure(self) -> Hashable:
        """The program without its numbers: equal for programs that differ only in these."""
        return self._encoded[0]

    @property
    def numbers(self) -> list[Number]:
        """The slots for numbers, in an order that the structure fixes."""
        return self._encoded[1]

    @property
    def arrays(self) -> list[Any]:
        """The arrays in the slots: arguments of the function compiled for the structure."""
        return [number.array for number in self.numbers]

    @property
    def is_traced(self) -> bool:
        """Do numbers come from inside a JAX transformation?"""
        return is_traced(*self.arrays)


class _Encoder:
    """Writes a program as a hashable structure, numbering what it meets in order of appearance."""

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
        kind, found = type(instruction), []
        for field in dataclasses.fields(instruction):
            content = self._content(getattr(instruction, field.name))
            try:
                hash(content)
            except TypeError:
                raise TypeError(
                    f"{kind.__name__}.{field.name} must be a value, an axis, a Number, a tuple of "
                    f"such or a constant that can be hashed, got {shown(content)}: given numbers "
                    "are a Value, scalars(array) lowered"
                ) from None
            found.append(content)
        return (kind, *found)

    def _content(self, content: object) -> Any:
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
            return self.program(Program((*content.arguments, *content.results)))
        return content

    def _name(self, kind: str, item: object) -> tuple[str, int]:
        return self._known.setdefault(item, (kind, len(self._known)))


def _fields(family: Family) -> Sequence[object]:
    return (family.layout, family.std, family.rows, family.cols)


# --- written again -------------------------------------------------------------------------------


def resized(outputs: Sequence[Output], axes: Mapping[Axis, Axis]) -> tuple[Output, ...]:
    """The same outputs with some axes replaced; values without these stay the same objects."""
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


def without_numbers(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The same outputs with shapes in their slots, for functions compiled for the structure:
    reading a slot raises, rather than using one program's numbers for all.
    """

    def alone(array: Any) -> ShapeAlone:
        return ShapeAlone(np.shape(array), jnp.result_type(array))  # type: ignore[no-untyped-call]

    return renumbered(outputs, alone)


class ShapeAlone(jax.ShapeDtypeStruct):
    """The shape and type of constants that are not known yet."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            "an instruction read Number.array, where the numbers of a program are not known: "
            "let it hold a Value (scalars(array) in the language, lowered) and read "
            "numbers[value] in applied, as Contract does"
        )

    __jax_array__ = __array__


def with_nodes(outputs: Sequence[Output], most: int) -> tuple[tuple[Output, ...], int]:
    """The same program with N ≤ `most` quadrature nodes on every infinite axis, and N; N is 0
    where there is no infinite axis.

    A normalised sum over infinitely many independent heads is Gaussian, with the mean of one
    head's covariance (Hron et al. 2020). The sum over N heads whose scores are the points of a
    quasi-random sequence averages just that.
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
    while count > FEWEST_NODES and count * largest > NODES_HELD:
        count //= 2
    return resized(outputs, {axis: NodeAxis(count) for axis in infinite}), count


class _Writer:
    """Writes values again, each once, with other axes and slots."""

    def __init__(self, axis: Callable[[Axis], Axis], number: Callable[[Number], Number]):
        self._axis, self._number = axis, number
        self._values: dict[Value, Value] = {}
        self._families: dict[Family, Family] = {}

    def outputs(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """The outputs written again, with their layouts."""
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
        """The instruction with all that it holds written again; itself if nothing changed."""
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
            self._write([*item.arguments, *item.results])
            arguments, results = self._new(item.arguments), self._new(item.results)
            same = arguments is item.arguments and results is item.results
            return item if same else Block(arguments, results)
        return item

    def _family(self, old: Family) -> Family:
        if old not in self._families:
            layout, std = self._new(old.layout), self._new(old.std)
            same = layout is old.layout and std is old.std
            self._families[old] = old if same else dataclasses.replace(old, layout=layout, std=std)
        return self._families[old]
