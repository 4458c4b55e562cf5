"""What an instruction of the core language is: data, to which engines give a meaning by one rule
each.

What analyses need to know of an instruction it says itself, by *traits*: fields and methods of
`Instruction`. Only tables of rules name types. A rule for `Linear` or `Coordinatewise` serves
every instruction of that kind that has none of its own: one that is added needs little else.

A `Value` is what an instruction makes: a batch of vectors of one space, or of numbers. Its axes
are a set: where two values meet in an instruction, entries meet by axis. Given numbers are slots
(`Number`), so that programs which differ in numbers only have the same structure.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

from limitlaw.core.labelled import Axes, Axis, Labelled, Layout
from limitlaw.core.space import Dim
from limitlaw.phi import Nonlinearity

Found = TypeVar("Found")
NONE: frozenset[Axis] = frozenset()


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A slot for given numbers: entries of a kernel, scales, data, positions."""

    array: Any

    def axes(self, order: Layout) -> Axes:
        """The axes along which it has an entry for each, where it is laid out by `order`."""
        shape = np.shape(self.array)
        tail = order[len(order) - len(shape) :]
        return tuple(a for a, size in zip(tail, shape, strict=True) if a is not None and size != 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Independent random matrices, rows × cols, one for each entry of `layout`:
    entries i.i.d. N(0, std²/cols).

    A vector that has an axis of the family meets, at each entry,
    a matrix of its own. `std` broadcasts to `layout`.
    """

    layout: Layout
    std: Number
    rows: Dim
    cols: Dim
    source: object = None

    @functools.cached_property
    def axes(self) -> Axes:
        """Along which there are different matrices."""
        return tuple(axis for axis in self.layout if axis is not None)

    @property
    def is_wide(self) -> bool:
        """Do both sides of its matrices grow with n?"""
        return self.rows.wide and self.cols.wide


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """A batch of vectors in the space `dim`, or of numbers (`dim` None).
    `source`: what a user wrote, for names.
    """

    instruction: "Instruction"
    axes: Axes
    dim: Dim | None
    source: object = None
    is_vector: bool = dataclasses.field(init=False)
    # is a number the mean over the coordinates of a vector: its product with **1**, under 1/n?
    is_average: bool = dataclasses.field(init=False)
    # the values that its instruction reads, in order
    inputs: tuple["Value", ...] = dataclasses.field(init=False)
    vectors: tuple["Value", ...] = dataclasses.field(init=False)  # those of them that are vectors

    def __post_init__(self) -> None:
        """What everybody asks for is found once."""
        op, inputs = self.instruction, self.instruction.inputs
        object.__setattr__(self, "is_vector", self.dim is not None)
        object.__setattr__(self, "is_average", op.averages)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "vectors", tuple(v for v in inputs if v.is_vector))

    def __repr__(self) -> str:
        kind = type(self.instruction).__name__
        sizes = ", ".join(str(a.size) for a in self.axes)
        return f"{kind}({sizes}{f' in R^{self.dim}' if self.dim else ''})"


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """`results`, as functions of `arguments` and of nothing else outside."""

    arguments: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Instruction:
    """What makes a value of others. Its fields hold the values it reads, axes, slots for numbers,
    and constants that are equal where they mean the same. It says of itself what analyses need:

    `linear`: a vector it makes is a linear combination of vectors it reads, given the numbers.
    `given`: what it makes is not random: data, constants, the vector **1**.
    `has_coordinates`: a vector it makes is known by its coordinates, not by inner products.
    """

    linear: ClassVar[bool] = False
    given: ClassVar[bool] = False
    has_coordinates: ClassVar[bool] = False

    @property
    def meets_one(self) -> bool:
        """Does a vector it makes have a part along the vector **1**?"""
        return False

    @property
    def averages(self) -> bool:
        """Is it the mean over coordinates of a vector: its product with **1**, under 1/n?"""
        return False

    @property
    def matrices(self) -> Family | None:
        """The family of matrices that it multiplies by."""
        return None

    @property
    def body(self) -> Block | None:
        """The block that it applies in every iteration of a loop."""
        return None

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """The axes, of those of its result, along which an entry of the result may need other
        entries of what it reads: all of them, if nothing else is known. A cumulative sum mixes the
        axis it goes along. Along others entry i is made of entries i on the same axis.
        """
        return frozenset(axes)

    def whole(self, axes: Axes) -> frozenset[Axis]:
        """The axes, of those of its result, along which it is made as a whole or not at all."""
        return self.mixes(axes)

    def separates(self) -> Axes:
        """The axes along which it may treat entries differently: all, if nothing else is known.
        Given weights do so along their own axes, a sum of two batches nowhere.
        """
        return tuple(axis for v in self.inputs for axis in v.axes)

    @functools.cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The values it reads, in order."""
        return tuple(item for item in self.contents() if isinstance(item, Value))

    def contents(self) -> Iterator[object]:
        """What its fields hold, tuples opened."""
        for field in dataclasses.fields(self):
            yield from _opened(getattr(self, field.name))

    def replaced(self, new: Mapping[object, object]) -> "Instruction":
        """The same instruction with new[item] for every value, family and axis in `new`."""
        changes = {f.name: _renewed(getattr(self, f.name), new) for f in dataclasses.fields(self)}
        return dataclasses.replace(self, **changes)


def rule_for(
    kind: type[Instruction], rules: Mapping[type[Instruction], Found], where: str
) -> Found:
    """The rule of a kind of instruction in a table: its own, or that of what it is a kind of."""
    for known in kind.__mro__:
        if known in rules:
            return rules[known]
    raise no_rule(kind, where)


def no_rule(kind: type[Instruction], where: str) -> TypeError:
    """The error of an engine that does not know what an instruction means."""
    return TypeError(f"{where} has no rule for the instruction {kind.__name__}")


def _opened(content: object) -> Iterator[object]:
    if isinstance(content, tuple):
        for item in content:
            yield from _opened(item)
    else:
        yield content


def _renewed(content: object, new: Mapping[object, object]) -> object:
    if isinstance(content, tuple):
        return tuple(_renewed(item, new) for item in content)
    return new.get(content, content) if isinstance(content, Value | Family | Axis) else content


# --- Kinds ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Linear(Instruction):
    """Vectors that are linear combinations of vectors, given numbers; the same for numbers.
    What it does to arrays is all that engines need to know of it.
    """

    linear: ClassVar[bool] = True

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The result for given arrays of what it reads: vectors(x) for each vector x, in which it
        is linear, and numbers[a] for each batch of numbers a.

        An axis is known by its object, not by its place. There may be further axes, and hidden
        ones behind all others: both are left alone. An axis along which x is constant may be
        missing: `contract`, `add` and `elementwise` (`core/labelled.py`) know that; a function
        that needs it takes x.with_axes(union(x.axes, (axis,))), which writes it out.

        Given numbers, say the entries of a matrix A, are a `Value` like others: the word writes
        `scalars(A)`, the op lowers it, and numbers[a] is read here, as `Contract` does. What the
        slot of a `Number` holds is not known here: one compiled function serves all numbers.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False)
class Coordinatewise(Instruction):
    """Nonlin: φ(h¹_α, …, p₁, …) for each coordinate α of vectors h and numbers p."""

    has_coordinates: ClassVar[bool] = True

    @property
    def phi(self) -> Nonlinearity:
        """φ, of as many arguments as there are."""
        raise NotImplementedError

    @property
    def args(self) -> tuple[Value, ...]:
        """h¹, …, p₁, …, in order."""
        raise NotImplementedError

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entry by entry."""
        return NONE

    def separates(self) -> Axes:
        """All entries by the same φ."""
        return ()
