"""The instructions of the core language. What an instruction is, `kinds.py` says."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from limitlaw.core.kinds import (
    NONE,
    Coordinatewise,
    Family,
    Instruction,
    Number,
    Value,
)
from limitlaw.core.labelled import Axes, Axis, Layout, present
from limitlaw.core.linear import Add as Add
from limitlaw.core.linear import Contract as Contract
from limitlaw.core.linear import Places as Places
from limitlaw.core.linear import Rename as Rename
from limitlaw.core.linear import Stack as Stack
from limitlaw.core.linear import Take as Take
from limitlaw.core.loops import Argument as Argument
from limitlaw.core.loops import FromScan as FromScan
from limitlaw.core.loops import Scan as Scan
from limitlaw.core.space import Dim
from limitlaw.phi import Nonlinearity

# --- Leaves --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Initial(Instruction):
    """Random initial vectors: coordinates i.i.d. N(mean, cov), with cov over the flattened entries
    of `order`.

    `mean` broadcasts to `order`. `centred`: the mean is 0. `diagonal`: entries are independent,
    and cov is the vector of their variances.
    """

    mean: Number
    cov: Number
    order: Layout
    centred: bool
    diagonal: bool

    @property
    def meets_one(self) -> bool:
        """True unless the mean is 0: a mean is a multiple of **1**."""
        return not self.centred

    def separates(self) -> Axes:
        """The axes along which the covariance may tell entries apart."""
        return () if self.diagonal else present(self.order)


@dataclasses.dataclass(frozen=True, eq=False)
class Data(Instruction):
    """Deterministic coordinates, laid out by `order` with the coordinates last."""

    given: ClassVar[bool] = True
    has_coordinates: ClassVar[bool] = True
    X: Number
    order: Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Ones(Instruction):
    """The vector **1** = (1, …, 1)."""

    given: ClassVar[bool] = True

    @property
    def meets_one(self) -> bool:
        """True: it is the vector **1**."""
        return True


@dataclasses.dataclass(frozen=True, eq=False)
class Constant(Instruction):
    """Constants of a program, laid out by `order`."""

    given: ClassVar[bool] = True
    value: Number
    order: Layout


@dataclasses.dataclass(frozen=True, eq=False)
class DimensionRatio(Instruction):
    """The number √(over/under) of two dimensions, None standing for 1; it depends on the width."""

    given: ClassVar[bool] = True
    over: Dim | None
    under: Dim | None

    def at(self, size: Callable[[Dim], Any]) -> Any:
        """The number √(over/under), where size(d) is the size of a dimension d."""
        over, under = (1.0 if d is None else size(d) for d in (self.over, self.under))
        return (over / under) ** 0.5


# --- Netsor with dot products --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class MatMul(Instruction):
    """W x, for each matrix of the family and each vector. `transposed`: √(cols/rows) Wᵀ x, a
    product with the same matrices from the other side, whose entries then are N(0, std²/rows).
    """

    entrywise: ClassVar[bool] = True
    family: Family
    x: Value
    transposed: bool = False

    @property
    def contracted(self) -> Dim:
        """The space of x: products sum over its coordinates, and divide by √(its dimension)."""
        return self.family.rows if self.transposed else self.family.cols

    @property
    def matrices(self) -> Family:
        """The family of matrices that multiplies x."""
        return self.family

    def whole(self, axes: Axes) -> frozenset[Axis]:
        """The axes of the family: it must stay the one that other instructions multiply by."""
        return frozenset(self.family.axes)

    def separates(self) -> Axes:
        """The axes along which its matrices have different scales."""
        return self.family.std.axes(self.family.layout)


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Coordinatewise):
    """Nonlin: φ(h¹_α, …, p₁, …) for each coordinate α; arguments are vectors and numbers."""

    function: Nonlinearity
    arguments: tuple[Value, ...]

    @property
    def phi(self) -> Nonlinearity:
        """The function φ."""
        return self.function

    @property
    def args(self) -> tuple[Value, ...]:
        """The arguments h¹, …, p₁, … of φ."""
        return self.arguments


@dataclasses.dataclass(frozen=True, eq=False)
class Dot(Instruction):
    """D^{-1/2} Σ_α q_α k_α ("sqrt") or D^{-1} Σ_α q_α k_α ("linear"): entry by entry along axes
    that q and k share, for all pairs along others.

    With a `base`, coordinates (m, m + D/2) of both are first rotated by position·base^{-2m/D}
    (rotary embeddings); the `positions` of q and of k are laid out by `orders`. `reach`: a bound
    of |position of q − position of k|, None where positions are not known in advance.
    """

    entrywise: ClassVar[bool] = True
    q: Value
    k: Value
    scaling: str
    dim: Dim
    base: float | None = None
    positions: tuple[Number, ...] = ()
    orders: tuple[Layout, ...] = ()
    reach: float | None = None

    @property
    def averages(self) -> bool:
        """Is it n⁻¹ Σ_α q_α, the dot product of q with **1** under 1/n?"""
        return self.scaling == "linear" and isinstance(self.k.instruction, Ones)

    def separates(self) -> Axes:
        """The axes along which positions differ."""
        orders = zip(self.positions, self.orders, strict=True)
        return tuple(axis for slot, order in orders for axis in slot.axes(order))


@dataclasses.dataclass(frozen=True, eq=False)
class Rotate(Instruction):
    """Coordinates (m, m + D/2) of each vector rotated by the angle position·base^{-2m/D}, m < D/2.

    The `positions` are laid out by `order`.
    """

    has_coordinates: ClassVar[bool] = True
    entrywise: ClassVar[bool] = True
    x: Value
    positions: Number
    order: Layout
    base: float

    def separates(self) -> Axes:
        """The axes along which positions differ."""
        return self.positions.axes(self.order)


@dataclasses.dataclass(frozen=True, eq=False)
class Apply(Instruction):
    """f of whole arrays of numbers, laid out as the user wrote them: one layout for each argument,
    and one for f's result.

    `core` trailing axes are mixed by f: 0 for elementwise, 1 for rows (softmax), None for all.
    What is known of f is said by whoever writes it: `structure` is "affine", "softmax", which an
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
        """The axes, of the arguments and of the result, along which f may mix entries."""
        if self.core == 0:
            return NONE
        lost = {axis for layout in self.layouts for axis in layout if axis not in self.layout}
        tails = [
            layout if self.core is None else layout[-self.core :]
            for layout in (*self.layouts, self.layout)
        ]
        return frozenset(axis for tail in (*tails, lost) for axis in tail if axis is not None)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """The axes along which f may mix entries, those of its arguments included."""
        return self.mixed

    def separates(self) -> Axes:
        """The axes along which f may treat entries differently."""
        return tuple(self.mixed)
