"""Loops as instructions: a block applied along an axis of iterations, and what is read of it."""

import dataclasses

from limitlaw.core.kinds import Block, Instruction, Value
from limitlaw.core.labelled import Axes, Axis


@dataclasses.dataclass(frozen=True, eq=False)
class Argument(Instruction):
    """What a block is given."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Instruction):
    """A block applied along an axis of iterations t, as `jax.lax.scan` does:

        (c_{t+1}, y_t) = block(c_t, x_t, k)

    with carries c from `starts` on, x_t the entries of `sequences` along `axis`, loop-invariant
    `constants` k; these are the arguments of the block, in that order. A sequence without the axis
    is constant along it. `reverse`: from the last entry to the first. Matrices and initial vectors
    are new in every iteration, or the same ones (`shared`). `FromScan` reads what comes out.
    """

    starts: tuple[Value, ...]
    sequences: tuple[Value, ...]
    constants: tuple[Value, ...]
    block: Block
    axis: Axis
    reverse: bool = False
    shared: bool = False

    @property
    def body(self) -> Block:
        """The block."""
        return self.block

    @property
    def times(self) -> int:
        """The number of iterations."""
        return int(self.axis.size)

    @property
    def carried(self) -> tuple[Value, ...]:
        """What stands in the block for c."""
        return self.block.arguments[: len(self.starts)]

    @property
    def elements(self) -> tuple[Value, ...]:
        """What stands in the block for x_t."""
        first = len(self.starts)
        return self.block.arguments[first : first + len(self.sequences)]

    @property
    def invariant(self) -> tuple[Value, ...]:
        """What stands in the block for k."""
        return self.block.arguments[len(self.starts) + len(self.sequences) :]

    @property
    def following(self) -> tuple[Value, ...]:
        """The carries of the next iteration."""
        return self.block.results[: len(self.starts)]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """y_t."""
        return self.block.results[len(self.starts) :]

    @property
    def order(self) -> range:
        """The iterations t as they come."""
        return range(self.times)[::-1] if self.reverse else range(self.times)

    def separates(self) -> Axes:
        """Each iteration is another one; what its block does is told by the block."""
        return (self.axis,)


@dataclasses.dataclass(frozen=True, eq=False)
class FromScan(Instruction):
    """A result of a scan: the last carry number `place`, or behind all carries an output of every
    iteration, along the axis of the scan.
    """

    scan: Value
    place: int

    @property
    def loop(self) -> Scan:
        """The scan."""
        assert isinstance(self.scan.instruction, Scan)
        return self.scan.instruction

    @property
    def stacked(self) -> bool:
        """Is it an output of every iteration?"""
        return self.place >= len(self.loop.starts)

    @property
    def result(self) -> Value:
        """What it is in the block."""
        return self.loop.block.results[self.place]
