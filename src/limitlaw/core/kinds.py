"""What an instruction of the core language is: data, to which each engine gives a meaning by one
rule.

What analyses need to know of an instruction it says itself, by *traits*: fields and methods of
`Instruction`. Only tables of rules name types. A rule for `Linear` or `Coordinatewise` serves
every instruction of that kind that has none of its own, so that one that is added needs little
else.

A `Value` is what an instruction makes: a batch of vectors of one space, or of numbers. Its axes
are a set: where two values meet in an instruction, entries meet by axis. Constants are slots
(`Number`), so that programs which differ in their numbers only have the same structure.
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
    """A slot for constants (kernels, scales, data): an argument of a compiled function."""

    array: Any

    def axes(self, order: Layout) -> Axes:
        """The axes along which the array, laid out by `order`, has more than one entry."""
        shape = np.shape(self.array)
        tail = order[len(order) - len(shape) :]
        return tuple(a for a, size in zip(tail, shape, strict=True) if a is not None and size != 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Independent random matrices, rows × cols, one for each entry of `layout`, entries N(0,
    std²/cols).

    Vectors with an axis of the family meet a matrix of their own at each entry.
    """

    layout: Layout
    std: Number
    rows: Dim
    cols: Dim
    source: object = None

    @functools.cached_property
    def axes(self) -> Axes:
        """The axes along which the matrices differ."""
        return tuple(axis for axis in self.layout if axis is not None)

    @property
    def is_wide(self) -> bool:
        """Do both sides of its matrices grow with n?"""
        return self.rows.wide and self.cols.wide


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """A batch of vectors in the space `dim`, or of numbers (`dim` None).

    `source` is what the user wrote, which errors and printed programs name.
    """

    instruction: "Instruction"
    axes: Axes
    dim: Dim | None
    source: object = None
    is_vector: bool = dataclasses.field(init=False)
    # is it the mean over the coordinates of a vector, its dot product with **1** under 1/n?
    is_average: bool = dataclasses.field(init=False)
    # the values that its instruction reads, in order
    inputs: tuple["Value", ...] = dataclasses.field(init=False)
    vectors: tuple["Value", ...] = dataclasses.field(init=False)  # those of them that are vectors

    def __post_init__(self) -> None:
        """Store what is often asked for."""
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
    """A function: `results` in terms of `arguments`, and of nothing else outside."""

    arguments: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Instruction:
    """An instruction of the core language, which makes a value from others.

    Its fields hold the values it reads, axes, slots for numbers, and constants that are equal
    where they mean the same. Its traits say what analyses need. `linear`: a vector it makes is,
    given the numbers, a linear combination of the vectors it reads. `given`: what it makes is
    deterministic (data, constants, the vector **1**). `has_coordinates`: a vector it makes is
    known by its coordinates, not by inner products. `entrywise`: an entry of its result is made of
    entries at the same places of what it reads (see `mixes`).
    """

    linear: ClassVar[bool] = False
    entrywise: ClassVar[bool] = False
    given: ClassVar[bool] = False
    has_coordinates: ClassVar[bool] = False

    @property
    def meets_one(self) -> bool:
        """Does a vector it makes have a part along the vector **1**?"""
        return False

    @property
    def averages(self) -> bool:
        """Is it the mean over coordinates of a vector, its dot product with **1** under 1/n?"""
        return False

    @property
    def matrices(self) -> Family | None:
        """The family of matrices that it multiplies by, if any."""
        return None

    @property
    def body(self) -> Block | None:
        """The block that it applies in every iteration, if it is a loop."""
        return None

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """The axes of its result along which an entry may need other entries of what it reads:
        none if it is `entrywise`, else all, if nothing is known; of a cumulative sum, the axis
        that it goes along.
        """
        return NONE if self.entrywise else frozenset(axes)

    def whole(self, axes: Axes) -> frozenset[Axis]:
        """The axes of its result along which it is made as a whole or not at all."""
        return self.mixes(axes)

    def separates(self) -> Axes:
        """The axes along which it may treat entries differently: all, if nothing else is known.

        Constant weights do so along their own axes, a sum of two batches along none.
        """
        return tuple(axis for v in self.inputs for axis in v.axes)

    @functools.cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The values it reads, in order."""
        return tuple(item for item in self.contents() if isinstance(item, Value))

    def contents(self) -> Iterator[object]:
        """Everything that its fields hold, with tuples flattened."""
        for field in dataclasses.fields(self):
            yield from _opened(getattr(self, field.name))

    def replaced(self, new: Mapping[object, object]) -> "Instruction":
        """The same instruction with new[item] for every value, family and axis in `new`."""
        changes = {f.name: _renewed(getattr(self, f.name), new) for f in dataclasses.fields(self)}
        return dataclasses.replace(self, **changes)


def rule_for(
    kind: type[Instruction], rules: Mapping[type[Instruction], Found], where: str
) -> Found:
    """The rule in a table for a kind of instruction: its own, or its nearest base class's."""
    for known in kind.__mro__:
        if known in rules:
            return rules[known]
    raise no_rule(kind, where)


def no_rule(kind: type[Instruction], where: str) -> TypeError:
    """The error of an engine that has no rule for an instruction."""
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
    """A linear combination of vectors, given numbers (or the same of numbers); engines need only
    know what it does to arrays.
    """

    linear: ClassVar[bool] = True

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The result, from arrays for what it reads: vectors(x) for each vector x, in which it is
        linear, and numbers[a] for each batch of numbers a.

        An axis is known by its object, not by its place. There may be further axes, and hidden
        ones behind all others: both are left alone. An axis along which x is constant may be
        missing: `contract`, `add` and `elementwise` (`core/labelled.py`) know that; a function
        that needs it takes x.with_axes(union(x.axes, (axis,))), which writes it out.

        Constants, say the entries of a matrix A, are a `Value` like others: the function of the
        language writes `scalars(A)`, the op lowers it, and numbers[a] is read here, as `Contract`
        does. What the slot of a `Number` holds is not known here: one compiled function serves all
        numbers.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False)
class Coordinatewise(Instruction):
    """Nonlin: φ(h¹_α, …, p₁, …) for each coordinate α of vectors h and numbers p."""

    has_coordinates: ClassVar[bool] = True
    entrywise: ClassVar[bool] = True

    @property
    def phi(self) -> Nonlinearity:
        """The function φ, of as many arguments as there are in `args`."""
        raise NotImplementedError

    @property
    def args(self) -> tuple[Value, ...]:
        """The vectors and numbers h¹, …, p₁, …, in order."""
        raise NotImplementedError

    def separates(self) -> Axes:
        """No axis: φ is the same for all entries."""
        return ()
