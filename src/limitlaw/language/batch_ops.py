"""Instructions that act on batch axes: they weight, sum and rearrange entries, and are linear in
the vectors (or numbers) that they read.
"""

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
    """The sum of `terms`, broadcast."""

    terms: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Sum(Op):
    """The sum Σ over `axes`; `normalised`: over √entries, so infinite axes have a meaning."""

    x: Value
    axes: tuple[int, ...]
    normalised: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Stack(Op):
    """The values `terms`, stacked along a new axis."""

    terms: tuple[Value, ...]
    axis: int


@dataclasses.dataclass(frozen=True, eq=False)
class Index(Op):
    """x[index], NumPy's indexing with a constant index."""

    x: Value
    index: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Reshape(Op):
    """The entries of x, in order, in another shape."""

    x: Value
    shape: Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Transpose(Op):
    """x with its axes in the order `axes`."""

    x: Value
    axes: tuple[int, ...]
