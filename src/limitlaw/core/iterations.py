"""Loops over the same iterations: which those are, and what each evaluates in one of them."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from limitlaw.core.kinds import Block, Value
from limitlaw.core.loops import Scan
from limitlaw.core.program import Program, after_inputs

Own = TypeVar("Own", bound="Iterated")


@dataclasses.dataclass(frozen=True, eq=False)
class Iterated:
    """A program, or the `block` of a loop as a program, and the loops in it."""

    program: Program
    block: Block | None = None

    @classmethod
    def of_block(cls: type[Own], block: Block) -> Own:
        """That of the block of a loop."""
        return cls(Program(block.results), block)

    @functools.cached_property
    def values(self) -> list[Value]:
        """All values of the program, each after what it reads."""
        return self.program.values

    @functools.cached_property
    def loops(self) -> dict[Value, tuple[Value, ...]]:
        """For each loop that follows no other, all loops over its iterations: itself, and those
        that follow it.
        """
        found: dict[Value, tuple[Value, ...]] = {}
        for v in self.values:
            if isinstance(v.instruction, Scan):
                first = v.instruction.first or v
                found[first] = (*found.get(first, ()), v)
        return found

    def of_iteration(self: Own, loop: Value) -> Own:
        """One iteration of a loop and of all that follow it, as a program."""
        first = scan_of(loop).first or loop
        if first not in self._of_iterations:
            blocks = [scan_of(v).block for v in self.loops[first]]
            arguments, results = (
                tuple(v for part in parts for v in part)
                for parts in zip(*((b.arguments, b.results) for b in blocks), strict=True)
            )
            self._of_iterations[first] = self.of_block(Block(arguments, results))
        return self._of_iterations[first]

    @functools.cached_property
    def has_reverse_loops(self) -> bool:
        """Does a loop follow another one?"""
        return any(len(same) > 1 for same in self.loops.values())

    @functools.cached_property
    def has_reverse_loops_and_others(self) -> bool:
        """Is there a loop inside of one that another follows, or such a pair inside of a loop?"""
        pairs = [loop for loop, same in self.loops.items() if len(same) > 1]
        inside = any(part.has_reverse_loops for part, _ in self.parts() if part is not self)
        return inside or any(self.of_iteration(loop).loops for loop in pairs)

    def parts(self: Own, times: int = 1) -> Iterator[tuple[Own, int]]:
        """The program, and one iteration of each loop, those inside included; with each the number
        of times that it is held: once, or for all iterations where a loop follows.
        """
        yield self, times
        for loop, same in self.loops.items():
            held = times * scan_of(loop).times if len(same) > 1 else times
            yield from self.of_iteration(loop).parts(held)

    def stage(self, loop: Value) -> "Stage":
        """What one iteration of a loop evaluates."""
        return self._stages[loop]

    def kept_before(self, loop: Value) -> tuple[Value, ...]:
        """What the loop over the same iterations that comes before this one has kept."""
        same = self.loops[scan_of(loop).first or loop]
        i = same.index(loop)
        return self._stages[same[i - 1]].kept if i else ()

    @functools.cached_property
    def _stages(self) -> dict[Value, "Stage"]:
        each = (stages([(v, scan_of(v).block) for v in same]) for same in self.loops.values())
        return {loop: stage for found in each for loop, stage in found.items()}

    @functools.cached_property
    def _of_iterations(self: Own) -> dict[Value, Own]:
        return {}


def scan_of(loop: Value) -> Scan:
    """The instruction of a loop."""
    assert isinstance(loop.instruction, Scan)
    return loop.instruction


@dataclasses.dataclass(frozen=True)
class Stage:
    """Of one iteration of a loop: the `values` that it evaluates, in their order, and those, its
    own and older ones, that are `kept` for loops that follow it.
    """

    values: tuple[Value, ...]
    kept: tuple[Value, ...]


def stages(loops: Sequence[tuple[Value, Block]]) -> dict[Value, Stage]:
    """The stages of an iteration of several loops, each of which follows those before it."""
    known: dict[Value, int] = {}  # the number of the loop that makes a value
    parts: list[tuple[list[Value], list[Value]]] = []
    for i, (_, block) in enumerate(loops):
        read = after_inputs(block.results, lambda v: () if v in known else v.inputs)
        made, new = ([v for v in read if (v in known) == before] for before in (True, False))
        known.update((v, i) for v in new if not v.instruction.given)
        parts.append((new, made))
    found = {}
    for i, (loop, _) in enumerate(loops):
        later = dict.fromkeys(v for _, made in parts[i + 1 :] for v in made if known[v] <= i)
        found[loop] = Stage(tuple(parts[i][0]), tuple(later))
    return found


def in_every_block(
    outputs: Sequence[Value], rewrite: Callable[[Sequence[Value]], tuple[Value, ...]]
) -> tuple[Value, ...]:
    """The outputs rewritten, and the blocks of loops, those of loops over the same iterations
    together.
    """
    whole = Iterated(Program(tuple(outputs)))
    new: dict[Value, Value] = {}
    for loop in whole.loops:
        results = whole.of_iteration(loop).program.outputs
        new |= zip(results, in_every_block(results, rewrite), strict=True)
    if any(a is not b for a, b in new.items()):
        known: dict[Value, Value] = {}
        for v in whole.values:
            op = v.instruction
            if isinstance(op, Scan):
                results = tuple(new[y] for y in op.block.results)
                op = dataclasses.replace(op, block=Block(op.block.arguments, results))
            changed: dict[object, object] = {u: known[u] for u in op.inputs if known[u] is not u}
            op = op.replaced(changed) if changed else op
            known[v] = v if op is v.instruction else dataclasses.replace(v, instruction=op)
        outputs = [known[v] for v in outputs]
    return rewrite(outputs)
