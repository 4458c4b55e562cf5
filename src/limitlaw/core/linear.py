"""Instructions that are linear in vectors, and do the same to numbers."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from limitlaw.core.kinds import NONE, Linear, Value
from limitlaw.core.labelled import Axes, Axis, Labelled, add, contract, stack


@dataclasses.dataclass(frozen=True, eq=False)
class Contract(Linear):
    """Σ a·w over the axes `over`; without a, Σ w. `normalised` divides by the root of their size:
    ∞ has a meaning.
    """

    a: Value | None
    w: Value
    over: Axes
    normalised: bool = False

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """Σ a·w."""
        a = None if self.a is None else numbers[self.a]
        return contract(a, vectors(self.w), self.over, self.normalised)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entry by entry along the axes that are left."""
        return NONE

    def separates(self) -> Axes:
        """By given weights."""
        weighs = self.a is not None and self.a.instruction.given
        return self.a.axes if self.a is not None and weighs else ()


@dataclasses.dataclass(frozen=True, eq=False)
class Add(Linear):
    """The sum of its terms."""

    terms: tuple[Value, ...]

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """Their sum."""
        return add([vectors(t) for t in self.terms])

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entry by entry."""
        return NONE

    def separates(self) -> Axes:
        """All entries alike."""
        return ()


@dataclasses.dataclass(frozen=True, eq=False)
class Take(Linear):
    """x at given places: result[…, new] = x[…, axes[k] = places[k][new]].
    Slices, entries and reshapes of axes.
    """

    x: Value
    axes: Axes
    places: tuple["Places", ...]
    new: Axes

    @property
    def is_basic(self) -> bool:
        """Slices and single places, of one axis."""
        return len(self.axes) == 1 and len(self.new) <= 1

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The entries at these places."""
        return vectors(self.x).take(self.axes, [p.array for p in self.places], self.new)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Reshapes are not cut."""
        return NONE if self.is_basic else frozenset(self.new)

    def separates(self) -> Axes:
        """By their places."""
        return (*self.axes, *self.new)


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
class Rename(Linear):
    """x with its axes `old` called `new`, at once."""

    x: Value
    old: Axes
    new: Axes

    @property
    def names(self) -> dict[Axis, Axis]:
        """The new name of each old one."""
        return dict(zip(self.old, self.new, strict=True))

    def name_of(self, axis: Axis) -> Axis:
        """What an axis of x is called."""
        return self.new[self.old.index(axis)] if axis in self.old else axis

    def names_of(self, axes: Axes) -> Axes:
        """What axes of x are called."""
        return tuple(map(self.name_of, axes))

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """The same array."""
        return vectors(self.x).rename(self.names)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entry by entry."""
        return NONE

    def separates(self) -> Axes:
        """All entries alike."""
        return ()


@dataclasses.dataclass(frozen=True, eq=False)
class Stack(Linear):
    """The terms along a new axis."""

    terms: tuple[Value, ...]
    axis: Axis

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """One array of all."""
        return stack([vectors(t) for t in self.terms], self.axis)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entry by entry."""
        return NONE

    def separates(self) -> Axes:
        """Each entry is another term."""
        return (self.axis,)
