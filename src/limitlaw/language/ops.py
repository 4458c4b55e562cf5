"""The instructions of the language. Each is data:
what it reads, and its constants. Engines give them meaning.

A `Value` is what an instruction makes: a batch of vectors (`Wide`) or of numbers (`Scalars`), see
`values.py`. Its coordinate axis is hidden, so every axis mentioned here is a batch axis. Identity
is the object: two equal instructions are two random variables.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from limitlaw.arguments import non_negative, positive_int
from limitlaw.core.program import Output
from limitlaw.core.space import Dim, as_dim, n
from limitlaw.language import shapes
from limitlaw.language.shapes import Shape
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Value:
    """What an instruction makes: its instruction, its batch shape, and what it is in the core
    language.
    """

    op: "Op"
    shape: Shape
    lowered: Output = dataclasses.field(init=False)

    @property
    def ndim(self) -> int:
        """The number of batch axes."""
        return len(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """An instruction of what a user writes."""

    def lowered(self, value: Value) -> Output:
        """What `value`, which it makes, is in the core language: said here by instructions that
        are added from outside of this package (`language/lower.py` knows all others).
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what it is in core")

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values this instruction reads, in order."""
        return tuple(self._values())

    def _values(self) -> Iterator[Value]:
        for field in dataclasses.fields(self):
            content = getattr(self, field.name)
            for item in content if isinstance(content, tuple) else (content,):
                if isinstance(item, Value):
                    yield item


class Matrix:
    """A family of independent random matrices, batch shape `shape`, entries i.i.d.
    N(0, std²/cols).

    `M @ w` multiplies, with NumPy broadcasting: a size-1 or missing axis of `shape` means the same
    matrix along that axis. `std` is a number or an array that broadcasts to `shape`. Using the
    same object twice is weight sharing.
    """

    __array_ufunc__ = None  # so that `array @ M` is refused here and not looped over by NumPy

    def __init__(
        self, std: object = 1.0, shape: int | Shape = (), rows: Dim | int = n, cols: Dim | int = n
    ):
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        self.shape: Shape = tuple(
            s if s == float("inf") else positive_int("shape", s) for s in sizes
        )
        self.std = non_negative("std", std)
        if shapes.broadcast("Matrix(std, shape)", self.std.shape, self.shape) != self.shape:
            raise ValueError(
                f"std must broadcast to shape {self.shape}, got shape {self.std.shape}"
            )
        self.rows = as_dim("rows", rows)
        self.cols = as_dim("cols", cols)

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Value):
            return NotImplemented  # Wide.__rmatmul__ writes the instruction
        if isinstance(other, Matrix):
            raise TypeError("a product of matrices is not an instruction: write A @ (B @ x)")
        raise TypeError(
            f"a Matrix multiplies vectors of a program, got {type(other).__name__}; wrap given "
            "coordinates as data(X)"
        )

    def __rmatmul__(self, other: object) -> Any:
        raise TypeError(f"{type(other).__name__} @ Matrix: write M @ x, or M.T @ x for Mᵀ x")

    @property
    def T(self) -> "Transposed":
        """The same matrices, transposed: `M.T @ w` is Mᵀ w."""
        return Transposed(self)

    def __getitem__(self, index: object) -> Any:
        raise TypeError(
            "a Matrix family cannot be indexed: index the product, (M @ x)[i], or make separate "
            "matrices"
        )

    def __repr__(self) -> str:
        std = (
            f"{self.std:g}" if np.ndim(self.std) == 0 and isinstance(self.std, np.ndarray) else "…"
        )
        return f"Matrix(std={std}, shape={self.shape}, rows={self.rows}, cols={self.cols})"


@dataclasses.dataclass(frozen=True)
class Transposed:
    """The transposes Mᵀ of a family of matrices: `M.T @ w` maps R^rows to R^cols, with the same
    entries as `M @ x`, and broadcasts as that does.
    """

    T: Matrix
    __array_ufunc__ = None

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Value):
            return NotImplemented  # Wide.__rmatmul__ writes the instruction
        raise TypeError(
            f"M.T multiplies vectors of a program, got {type(other).__name__}; wrap given "
            "coordinates as data(X)"
        )

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


# --- Leaves --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Initial(Op):
    """Random initial vectors: coordinates i.i.d. N(mean, cov), cov over the flattened batch; a
    vector is a diagonal.
    """

    mean: Any
    cov: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Data(Op):
    """Given coordinates X[…, α], not random."""

    X: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Ones(Op):
    """The vector **1** = (1, …, 1): adding a number c to a vector adds c·**1**."""


@dataclasses.dataclass(frozen=True, eq=False)
class Constant(Op):
    """Given numbers."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class DimensionRatio(Op):
    """The number √(over/under) of two dimensions, None standing for 1."""

    over: Dim | None
    under: Dim | None


# --- Instructions of Netsor with dot products ----------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class MatMul(Op):
    """W x, for each matrix of the family and each vector it meets by broadcasting; `transposed`:
    √(cols/rows) Wᵀ x, the product with the matrix whose entries are N(0, std²/rows).
    """

    matrix: Matrix
    x: Value
    transposed: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Op):
    """Nonlin: φ(h¹_α, …, p₁, …) for each coordinate α; arguments are vectors and numbers."""

    phi: Nonlinearity
    args: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Dot(Op):
    """Dot products D^{-1/2} Σ_α q_α k_α ("sqrt") or D^{-1} Σ_α q_α k_α ("linear");
    (…,s), (…,t) → (…,s,t).
    """

    q: Value
    k: Value
    scaling: str
    dim: Dim


@dataclasses.dataclass(frozen=True, eq=False)
class Average(Op):
    """D^{-1} Σ_α w_α."""

    w: Value
    dim: Dim


@dataclasses.dataclass(frozen=True, eq=False)
class Apply(Op):
    """f(p₁, …), a function of whole arrays of numbers.

    `core` says how many trailing axes f mixes: 0 for elementwise, 1 for rows (softmax), None for
    all. What is known of f is said by whoever writes the instruction, never read off its name.
    `structure`: "affine" in all arguments that are not constants, "softmax" over the last axis (of
    the tokens where a second argument, the mask, is positive), or None. `pseudo_lipschitz`: as for
    a nonlinearity, None for unknown.
    """

    f: Callable[..., Any]
    args: tuple[Value, ...]
    core: int | None
    name: str
    structure: str | None = None
    pseudo_lipschitz: bool | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Rotated(Op):
    """Coordinates m and m + D/2 turned by the angle position·base^{-2m/D}, m < D/2;
    may only enter a `Dot`.
    """

    w: Value
    positions: Any
    base: float


# --- Loops ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Argument(Op):
    """What a block is given."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Op):
    """A block, `results` as functions of `arguments`, applied `times` times: carries from `starts`
    on, entries of `sequences`, loop-invariant `constants`; then next carries, and outputs of every
    iteration. Matrices are new in each iteration, or the same ones (`shared`).
    """

    starts: tuple[Value, ...]
    sequences: tuple[Value, ...]
    constants: tuple[Value, ...]
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    times: int
    reverse: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class FromScan(Op):
    """A result of a scan: the last of a carry, or behind all carries an output of every iteration,
    along a new first axis.
    """

    scan: Value
    place: int

    @property
    def loop(self) -> Scan:
        """The scan."""
        assert isinstance(self.scan.op, Scan)
        return self.scan.op

    @property
    def stacked(self) -> bool:
        """Is it an output of every iteration?"""
        return self.place >= len(self.loop.starts)


@dataclasses.dataclass(frozen=True, eq=False)
class Tied:
    """A block as a function of an argument, on nothing from outside: its matrices are the same in
    every turn.
    """

    argument: Value
    result: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Unrolled(Op):
    """The last of some blocks on x that were written one after the other:
    what each of them gave, and why. `tied`: the one that all of them are.
    """

    x: Value
    turns: tuple[Value, ...]
    why: str
    tied: "Tied | None" = None


# --- Linear operations on batch axes -------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Mix(Op):
    """a @ w: (…,i,j), (…,j) → (…,i), numbers times vectors."""

    a: Value
    w: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Scale(Op):
    """a * w, numbers times vectors."""

    a: Value
    w: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Add(Op):
    """The sum of its terms."""

    terms: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Sum(Op):
    """Σ over `axes`; `normalised` divides by the square root of their size, which gives infinite
    axes a meaning.
    """

    x: Value
    axes: tuple[int, ...]
    normalised: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Stack(Op):
    """The values along a new axis."""

    terms: tuple[Value, ...]
    axis: int


@dataclasses.dataclass(frozen=True, eq=False)
class Index(Op):
    """x[index], NumPy indexing by constants."""

    x: Value
    index: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Reshape(Op):
    """x with its entries, in order, in another shape."""

    x: Value
    shape: Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Transpose(Op):
    """x with its axes in the order `axes`."""

    x: Value
    axes: tuple[int, ...]


def ancestors(outputs: Iterable[Value]) -> list[Value]:
    """Every value the outputs depend on, themselves included, each after what it reads
    (any depth).
    """
    order: dict[Value, None] = {}
    stack = [(value, False) for value in reversed(list(outputs))]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.setdefault(value)
        elif value not in order:
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(value.op.inputs) if v not in order)
    return list(order)


def matrices_of(values: Iterable[Value]) -> list[Matrix]:
    """The matrices that `values` multiply by, in order of first use."""
    return list(dict.fromkeys(v.op.matrix for v in values if isinstance(v.op, MatMul)))
