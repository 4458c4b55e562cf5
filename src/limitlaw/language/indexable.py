"""What batches of vectors and of numbers have in common: NumPy's operations that only move or add
up their entries, and how they are read, printed and shown.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax.numpy as jnp
import numpy as np

from limitlaw.core.program import Output, Written
from limitlaw.language import ops, shapes
from limitlaw.language.iterations import reads_twice
from limitlaw.language.lower import written
from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Op, Value, ancestors

Like = TypeVar("Like", bound="Indexable")  # for beartype, `Self` needs a decorated class


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Indexable(Value, Written):
    """What vectors and numbers share: NumPy's operations that move or add up batch entries."""

    __array_ufunc__ = None  # `array * w` is ours, not NumPy's loop over the entries of the array

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", written(self))

    @property
    def core(self) -> Output:
        """The value as engines read it."""
        if isinstance(self.op, ops.Rotated):
            raise TypeError(
                "y is rotary(w), which may only enter a dot: ask for w, or for the dot product"
            )
        return self.lowered

    def check_with(self, *others: Any) -> None:
        """Raise if these read a loop and gradients through it, for which it was written out."""
        if reads_twice([self, *others]):
            raise ValueError(
                "y reads a loop (repeat or scan), and a gradient through it, for which its "
                "iterations were written out with other matrices: write them out yourself, as in "
                "`for _ in range(depth): x = block(x)`, and use these vectors in both"
            )

    def notes(self) -> list[str]:
        """What `check` says of the way the program was written."""
        made = [v.op for v in ancestors([self])]
        unrolled = [op for op in made if isinstance(op, ops.Unrolled)]
        notes = [
            f"{len(op.turns)} blocks are not one loop but written out: {op.why}" for op in unrolled
        ]
        back = [op for op in made if isinstance(op, ops.Scan) and op.follows]
        inside = [v.op for op in back for v in ancestors(op.results)]
        if any(isinstance(op, ops.Scan) for op in inside):
            notes.append("loops inside of loops are written out at finite width for gradients")
        return notes

    def names(self, *others: Any) -> Callable[[Any], str]:
        """What the printed program of these values calls its values and matrices."""

        @functools.cache
        def made() -> Any:
            # printing reads values, so it is imported late
            from limitlaw.language.printing import Names

            return Names((self, *others))

        return lambda item: made()[item]

    def _made(self: Like, op: Op, shape: Shape) -> Like:
        if isinstance(self.op, ops.Rotated):
            raise TypeError(
                "rotary(w) may only enter a dot: index, reshape and add up w before you rotate it"
            )
        return dataclasses.replace(self, op=op, shape=shape)

    def __getitem__(self: Like, index: object) -> Like:
        index = tuple(map(_constant_index, index if isinstance(index, tuple) else (index,)))
        return self._made(
            ops.Index(self, index), shapes.indexed(type(self).__name__, self.shape, index)
        )

    def sum(self: Like, axis: int | tuple[int, ...] | None = None) -> Like:
        """Σ over batch axes."""
        axes, shape = shapes.reduced("sum", self.shape, axis)
        if any(self.shape[a] == math.inf for a in axes):
            raise ValueError("an infinite axis has no plain sum: write normalised_sum(w, axis)")
        return self._made(ops.Sum(self, axes, normalised=False), shape)

    def mean(self: Like, axis: int | tuple[int, ...] | None = None) -> Like:
        """The mean over batch axes (over coordinates it is `average`)."""
        axes, _ = shapes.reduced("mean", self.shape, axis)
        return cast(Like, cast(Any, self.sum(axis)) / math.prod(self.shape[a] for a in axes))

    def reshape(self: Like, *shape: object) -> Like:
        """The same entries in another batch shape, as `numpy.reshape`."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if shapes.is_infinite(self.shape):
            raise ValueError(
                f"reshape: an infinite axis cannot be reshaped, got batch shape {self.shape}"
            )
        new = shapes.of_function("reshape", lambda a: jnp.reshape(a, tuple(wanted)), self.shape)
        return self._made(ops.Reshape(self, new), new)

    def transpose(self: Like, *axes: object) -> Like:
        """The batch axes in another order, as `numpy.transpose`."""
        wanted = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        order = tuple(wanted) or tuple(reversed(range(self.ndim)))
        counted = tuple(a + self.ndim if a < 0 else a for a in order)
        if sorted(counted) != list(range(self.ndim)):
            raise ValueError(
                f"transpose: axes must be an order of the {self.ndim} batch axes, got {order}"
            )
        order = counted
        return self._made(ops.Transpose(self, order), tuple(self.shape[a] for a in order))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a value without batch axes has no length and no entries")
        if self.shape[0] == math.inf:
            raise TypeError("an infinite axis has no length and no list of entries")
        return int(self.shape[0])

    def __iter__(self: Like) -> Iterator[Like]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError("a value of a program is random and has no truth value")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __str__(self) -> str:
        # printing reads values, so it is imported late
        from limitlaw.language.printing import text

        return text(self)

    def _repr_html_(self) -> str:
        from limitlaw.language.printing import in_notebook

        return in_notebook(self)


def _constant_index(part: object) -> object:
    """One part of an index: basic ones as they are, lists and arrays as NumPy arrays."""
    if part is None or part is Ellipsis or isinstance(part, int | np.integer | slice):
        return part
    array = np.asarray(part)
    if array.dtype.kind not in "iub":
        raise IndexError(
            "an index is made of integers, slices, None, … and integer or boolean arrays, got "
            f"{part!r}"
        )
    return array
