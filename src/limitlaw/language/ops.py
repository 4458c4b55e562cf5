"""Instructions of the language (see `tree.py`); those on batch axes are in `batch_ops.py`."""

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
    """Random initial vectors, coordinates i.i.d. N(mean, cov); a `cov` of one axis is diagonal."""

    mean: Any
    cov: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Data(Op):
    """Deterministic vectors with coordinates X[…, α]."""

    X: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Ones(Op):
    """The vector **1** = (1, …, 1): adding a number c to a vector adds c·**1**."""


@dataclasses.dataclass(frozen=True, eq=False)
class Constant(Op):
    """Numbers that are constants of the program."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class DimensionRatio(Op):
    """The number √(over/under) of two dimensions, None standing for 1."""

    over: Dim | None
    under: Dim | None


@dataclasses.dataclass(frozen=True, eq=False)
class Gain(Op):
    """The vector **1** as the gain of a norm, before it is trained."""


# --- Parameters ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Trained(Op):
    """w, of which a `vector` of trained parameters is a part: w = x + std·vector for a bias,
    w = x ∘ vector for a `Gain`. It makes no core value of its own: tangent kernels read it.
    """

    w: Value
    vector: Value
    std: Any


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
    """D^{-1/2} Σ_α q_α k_α ("sqrt") or D^{-1} Σ_α q_α k_α ("linear"); (…,s), (…,t) → (…,s,t)."""

    q: Value
    k: Value
    scaling: str
    dim: Dim


@dataclasses.dataclass(frozen=True, eq=False)
class Average(Op):
    """The mean over coordinates, D^{-1} Σ_α w_α."""

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
    """Coordinates m < D/2 and m + D/2 rotated by position·base^{-2m/D}; only a `Dot` reads it."""

    w: Value
    positions: Any
    base: float


@dataclasses.dataclass(frozen=True, eq=False)
class Rotate(Op):
    """The rotation of `Rotated` as a vector in its own right; negative positions rotate back."""

    w: Value
    positions: Any
    base: float


# --- Loops ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Argument(Op):
    """The formal argument of a block: it stands for what an iteration reads."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Op):
    """A loop over a block, `results` as functions of `arguments`, with `times` iterations.

    The arguments are, in this order, the carries (`starts` in the first iteration), one entry of
    each of the `sequences`, and the loop-invariant `constants`; the results are the next carries,
    then the outputs of the iteration. Matrices are new in each iteration, or the same ones
    (`shared`). `follows`: a loop whose iterations it goes on with; its block may read values in
    the block of that one, and multiply by its matrices, which are those of the same iteration.
    """

    starts: tuple[Value, ...]
    sequences: tuple[Value, ...]
    constants: tuple[Value, ...]
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    times: int
    reverse: bool = False
    shared: bool = False
    follows: Value | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class FromScan(Op):
    """One result of a scan, by its `place`: the last value of a carry or, after all carries, an
    output of every iteration along a new first axis.
    """

    scan: Value
    place: int

    @property
    def loop(self) -> Scan:
        """The instruction of the scan that is read."""
        assert isinstance(self.scan.op, Scan)
        return self.scan.op

    @property
    def stacked(self) -> bool:
        """Is it an output of every iteration?"""
        return self.place >= len(self.loop.starts)


@dataclasses.dataclass(frozen=True, eq=False)
class Tied:
    """A block as a function of its argument alone, with the same matrices in every iteration."""

    argument: Value
    result: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Unrolled(Op):
    """The last of several iterations written in a row from x on: `turns` their values, `why` no
    loop, and `tied` the block if all are the same function.
    """

    x: Value
    turns: tuple[Value, ...]
    why: str
    tied: "Tied | None" = None


def matrices_of(values: Iterable[Value]) -> list[Matrix]:
    """The matrices that `values` multiply by, in order of first use."""
    return list(dict.fromkeys(v.op.matrix for v in values if isinstance(v.op, MatMul)))
