"""Instructions that are linear in vectors, and act in the same way on numbers."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from limitlaw.core.kinds import NONE, Linear, Value
from limitlaw.core.labelled import Axes, Axis, Labelled, add, contract, stack


@dataclasses.dataclass(frozen=True, eq=False)
class Contract(Linear):
    """Σ a·w over the axes `over`; without a, Σ w.

    `normalised` divides by the root of the number of entries, which gives infinite axes a meaning.
    """

    entrywise: ClassVar[bool] = True
    a: Value | None
    w: Value
    over: Axes
    normalised: bool = False

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """Σ a·w over the axes `over`."""
        a = None if self.a is None else numbers[self.a]
        return contract(a, vectors(self.w), self.over, self.normalised)

    def separates(self) -> Axes:
        """The axes of weights that are constants."""
        weighs = self.a is not None and self.a.instruction.given
        return self.a.axes if self.a is not None and weighs else ()


@dataclasses.dataclass(frozen=True, eq=False)
class Add(Linear):
    """The sum of `terms`."""

    entrywise: ClassVar[bool] = True
    terms: tuple[Value, ...]

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The sum of the arrays of the terms."""
        return add([vectors(t) for t in self.terms])

    def separates(self) -> Axes:
        """No axis: all entries are treated alike."""
        return ()


@dataclasses.dataclass(frozen=True, eq=False)
class Take(Linear):
    """The entries of x at constant places: result[…, new] = x[…, axes[k] = places[k][new]].

    Slices, single entries and reshapes of axes are written with it.
    """

    x: Value
    axes: Axes
    places: tuple["Places", ...]
    new: Axes

    @property
    def is_basic(self) -> bool:
        """Does it take a slice, or a single place, of one axis?"""
        return len(self.axes) == 1 and len(self.new) <= 1

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The entries of x at these places."""
        return vectors(self.x).take(self.axes, [p.array for p in self.places], self.new)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """The new axes, unless it is basic."""
        return NONE if self.is_basic else frozenset(self.new)

    def separates(self) -> Axes:
        """The axes that are read, and the new ones."""
        return (*self.axes, *self.new)


@dataclasses.dataclass(frozen=True)
class Places:
    """Constant places along an axis, as an array over new axes; equal places compare equal."""

    shape: tuple[int, ...]
    entries: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> "Places":
        """The places in an array of integers."""
        return cls(array.shape, tuple(array.reshape(-1).tolist()))

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The places as an array of integers."""
        return np.asarray(self.entries, dtype=int).reshape(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Rename(Linear):
    """x with its axes `old` renamed to `new`, all at once."""

    entrywise: ClassVar[bool] = True
    x: Value
    old: Axes
    new: Axes

    @property
    def names(self) -> dict[Axis, Axis]:
        """The new name of each axis in `old`."""
        return dict(zip(self.old, self.new, strict=True))

    def name_of(self, axis: Axis) -> Axis:
        """The name of an axis of x in the result."""
        return self.new[self.old.index(axis)] if axis in self.old else axis

    def names_of(self, axes: Axes) -> Axes:
        """The names of axes of x in the result."""
        return tuple(map(self.name_of, axes))

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The array of x with its axes renamed."""
        return vectors(self.x).rename(self.names)

    def separates(self) -> Axes:
        """No axis: all entries are treated alike."""
        return ()


@dataclasses.dataclass(frozen=True, eq=False)
class Stack(Linear):
    """The terms, stacked along a new axis."""

    entrywise: ClassVar[bool] = True
    terms: tuple[Value, ...]
    axis: Axis

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The arrays of the terms, stacked."""
        return stack([vectors(t) for t in self.terms], self.axis)

    def separates(self) -> Axes:
        """The new axis: each entry along it is another term."""
        return (self.axis,)
