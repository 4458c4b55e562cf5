"""The instructions of the language; those on batch axes stand in `batch_ops.py`. See `tree.py` for
what an instruction is.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from limitlaw.core.space import Dim
from limitlaw.language.batch_ops import Add as Add
from limitlaw.language.batch_ops import Index as Index
from limitlaw.language.batch_ops import Mix as Mix
from limitlaw.language.batch_ops import Reshape as Reshape
from limitlaw.language.batch_ops import Scale as Scale
from limitlaw.language.batch_ops import Stack as Stack
from limitlaw.language.batch_ops import Sum as Sum
from limitlaw.language.batch_ops import Transpose as Transpose
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Op, Value
from limitlaw.phi import Nonlinearity

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


@dataclasses.dataclass(frozen=True, eq=False)
class Rotate(Op):
    """The same rotation as a vector, turned back if positions are negative."""

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


def matrices_of(values: Iterable[Value]) -> list[Matrix]:
    """The matrices that `values` multiply by, in order of first use."""
    return list(dict.fromkeys(v.op.matrix for v in values if isinstance(v.op, MatMul)))
