"""Loops as instructions: a block applied along an axis of iterations, and the results that are
read from it.
"""

import dataclasses

from limitlaw.core.kinds import Block, Instruction, Value
from limitlaw.core.labelled import Axes, Axis


@dataclasses.dataclass(frozen=True, eq=False)
class Argument(Instruction):
    """The formal argument of a block: it stands for what an iteration reads."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Instruction):
    """A block applied along an axis of iterations t, as `jax.lax.scan` does:

        (c_{t+1}, y_t) = block(c_t, x_t, k)

    with carries c from `starts` on, x_t the entries of `sequences` along `axis`, loop-invariant
    `constants` k; these are the arguments of the block, in that order. A sequence without the axis
    is constant along it. `reverse`: from the last entry to the first. Matrices and initial vectors
    are new in every iteration, or the same ones (`shared`). `FromScan` reads what comes out.

    `follows`: a loop whose iterations this one goes on with. Its block may also read what the
    blocks of that one, and of those which that follows, have made in the same iteration, and
    multiply by their matrices, as a reverse pass does.
    """

    starts: tuple[Value, ...]
    sequences: tuple[Value, ...]
    constants: tuple[Value, ...]
    block: Block
    axis: Axis
    reverse: bool = False
    shared: bool = False
    follows: Value | None = None

    @property
    def body(self) -> Block:
        """The block of the loop."""
        return self.block

    @property
    def times(self) -> int:
        """The number of iterations."""
        return int(self.axis.size)

    @property
    def carried(self) -> tuple[Value, ...]:
        """The arguments of the block that stand for the carries c_t."""
        return self.block.arguments[: len(self.starts)]

    @property
    def elements(self) -> tuple[Value, ...]:
        """The arguments of the block that stand for the entries x_t of sequences."""
        first = len(self.starts)
        return self.block.arguments[first : first + len(self.sequences)]

    @property
    def invariant(self) -> tuple[Value, ...]:
        """The arguments of the block that stand for the loop-invariant constants k."""
        return self.block.arguments[len(self.starts) + len(self.sequences) :]

    @property
    def following(self) -> tuple[Value, ...]:
        """The results of the block that are the carries c_{t+1} of the next iteration."""
        return self.block.results[: len(self.starts)]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results of the block that are the outputs y_t."""
        return self.block.results[len(self.starts) :]

    @property
    def order(self) -> range:
        """The iterations t in the order in which they are run."""
        return range(self.times)[::-1] if self.reverse else range(self.times)

    @property
    def first(self) -> Value | None:
        """The first of the loops that it follows, None where it follows none."""
        first = self.follows
        while first is not None and isinstance(first.instruction, Scan):
            if first.instruction.follows is None:
                return first
            first = first.instruction.follows
        return first

    def separates(self) -> Axes:
        """The axis of iterations; other axes are told apart by the block."""
        return (self.axis,)


@dataclasses.dataclass(frozen=True, eq=False)
class FromScan(Instruction):
    """One result of a scan, by its `place`: the last value of a carry or, after all carries, an
    output of every iteration along the axis of the scan.
    """

    scan: Value
    place: int

    @property
    def loop(self) -> Scan:
        """The scan that is read."""
        assert isinstance(self.scan.instruction, Scan)
        return self.scan.instruction

    @property
    def stacked(self) -> bool:
        """Is it an output of every iteration?"""
        return self.place >= len(self.loop.starts)

    @property
    def result(self) -> Value:
        """The value in the block that is this result."""
        return self.loop.block.results[self.place]
