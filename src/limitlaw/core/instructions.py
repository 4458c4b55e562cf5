"""The instructions of the core language. Each is data;
engines give them meaning, by one rule each.

A `Value` is what an instruction makes: a batch of vectors of one space, or of numbers. Its axes
are a set: where two values meet in an instruction, entries meet by axis. Given numbers are slots
(`Number`), so that programs which differ in numbers only have the same structure.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from limitlaw.core.labelled import Axes, Axis, Layout
from limitlaw.core.space import Dim
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A slot for given numbers: entries of a kernel, scales, data, positions."""

    array: Any


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
        linear = isinstance(op, Dot) and op.scaling == "linear"
        object.__setattr__(self, "is_vector", self.dim is not None)
        object.__setattr__(self, "is_average", linear and isinstance(inputs[1].instruction, Ones))
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "vectors", tuple(v for v in inputs if v.is_vector))

    def __repr__(self) -> str:
        kind = type(self.instruction).__name__
        sizes = ", ".join(str(a.size) for a in self.axes)
        return f"{kind}({sizes}{f' in R^{self.dim}' if self.dim else ''})"


@dataclasses.dataclass(frozen=True, eq=False)
class Instruction:
    """`linear`: a vector it makes is a linear combination of the vectors it reads,
    given the numbers it reads.
    """

    linear: ClassVar[bool] = False

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


# --- Leaves --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Initial(Instruction):
    """Random initial vectors: coordinates i.i.d. N(mean, cov);
    cov is over the entries of `order`, flattened.

    `mean` broadcasts to `order`. `centred`: the mean is 0. `diagonal`: entries are independent,
    cov is the vector of their variances.
    """

    mean: Number
    cov: Number
    order: Layout
    centred: bool
    diagonal: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Data(Instruction):
    """Given coordinates, laid out by `order` with the coordinates last."""

    X: Number
    order: Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Ones(Instruction):
    """The vector **1** = (1, …, 1)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Constant(Instruction):
    """Given numbers, laid out by `order`."""

    value: Number
    order: Layout


# --- Netsor with dot products --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class MatMul(Instruction):
    """W x, for each matrix of the family and each vector."""

    family: Family
    x: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Instruction):
    """Nonlin: φ(h¹_α, …, p₁, …) for each coordinate α; arguments are vectors and numbers."""

    phi: Nonlinearity
    args: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Dot(Instruction):
    """D^{-1/2} Σ_α q_α k_α ("sqrt") or D^{-1} Σ_α q_α k_α ("linear"): entry by entry along axes
    that q and k share, for all pairs along others.

    With a `base`, coordinates (m, m + D/2) of both are turned by position·base^{-2m/D} first
    (rotary embeddings); the `positions` of q and of k are laid out by `orders`. `reach`: a bound
    of |position of q − position of k|, None where positions are not known in advance.
    """

    q: Value
    k: Value
    scaling: str
    dim: Dim
    base: float | None = None
    positions: tuple[Number, ...] = ()
    orders: tuple[Layout, ...] = ()
    reach: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Apply(Instruction):
    """f of whole arrays of numbers, laid out as the user wrote them: one layout for each argument,
    and one for f's result.

    `core` trailing axes are mixed by f: 0 for elementwise, 1 for rows (softmax), None for all.
    What is known of f is said by who writes it: `structure` is "affine", "softmax", which an
    engine may compute in its own way, or None; `pseudo_lipschitz` is None where unknown.
    """

    f: Callable[..., Any]
    args: tuple[Value, ...]
    layouts: tuple[Layout, ...]
    layout: Layout
    core: int | None
    name: str
    structure: str | None = None
    pseudo_lipschitz: bool | None = None

    @functools.cached_property
    def mixed(self) -> frozenset[Axis]:
        """The axes along which f may mix entries."""
        if self.core == 0:
            return frozenset()
        lost = {axis for layout in self.layouts for axis in layout if axis not in self.layout}
        tails = [
            layout if self.core is None else layout[-self.core :]
            for layout in (*self.layouts, self.layout)
        ]
        return frozenset(axis for tail in (*tails, lost) for axis in tail if axis is not None)


# --- Linear in vectors; the same for numbers -----------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Contract(Instruction):
    """Σ a·w over the axes `over`; without a, Σ w. `normalised` divides by the root of their size:
    ∞ has a meaning.
    """

    linear: ClassVar[bool] = True
    a: Value | None
    w: Value
    over: Axes
    normalised: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Add(Instruction):
    """The sum of its terms."""

    linear: ClassVar[bool] = True
    terms: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Take(Instruction):
    """x at given places: result[…, new] = x[…, axes[k] = places[k][new]].
    Slices, entries and reshapes of axes.
    """

    linear: ClassVar[bool] = True
    x: Value
    axes: Axes
    places: tuple["Places", ...]
    new: Axes


@dataclasses.dataclass(frozen=True)
class Places:
    """Constant places along an axis, an array over new axes; equal ones are equal."""

    shape: tuple[int, ...]
    entries: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> "Places":
        """From an array of integers."""
        return cls(array.shape, tuple(array.reshape(-1).tolist()))

    @functools.cached_property
    def array(self) -> np.ndarray:
        """As an array of integers."""
        return np.asarray(self.entries, dtype=int).reshape(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Rename(Instruction):
    """x with its axes `old` called `new`, at once."""

    linear: ClassVar[bool] = True
    x: Value
    old: Axes
    new: Axes

    def name_of(self, axis: Axis) -> Axis:
        """What an axis of x is called."""
        return self.new[self.old.index(axis)] if axis in self.old else axis

    def names_of(self, axes: Axes) -> Axes:
        """What axes of x are called."""
        return tuple(map(self.name_of, axes))


@dataclasses.dataclass(frozen=True, eq=False)
class Stack(Instruction):
    """The terms along a new axis."""

    linear: ClassVar[bool] = True
    terms: tuple[Value, ...]
    axis: Axis


# --- Loops ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Argument(Instruction):
    """What a block is given, or gave in the turn before."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """`result`, as a function of `argument`: both have the same axes and live in the
    same space.
    """

    argument: Value
    result: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(Instruction):
    """block(… block(x)), `times` times, with new matrices and initial vectors in each turn, or
    with the same ones (`shared`).
    """

    x: Value
    block: Block
    times: int
    shared: bool = False


INSTRUCTIONS: tuple[type[Instruction], ...] = (
    Initial,
    Data,
    Ones,
    Constant,
    MatMul,
    Map,
    Dot,
    Apply,
    Contract,
    Add,
    Take,
    Rename,
    Stack,
    Repeat,
    Argument,
)
