"""Instructions on batch axes: they weigh, add up and move entries, linear in what they read."""

import dataclasses
from typing import Any

from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Op, Value


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
