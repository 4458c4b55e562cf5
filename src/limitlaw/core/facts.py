"""A program with the facts that the rules of `check` look at,
and the names by which they speak of it.
"""

import functools
from collections.abc import Iterator, Sequence

from limitlaw.core.analysis import Analysis, is_average
from limitlaw.core.instructions import Dot, Family, Instruction, Value
from limitlaw.core.members import Dependence
from limitlaw.core.program import Program
from limitlaw.core.report import Finding, Names, Verdict


class Facts(Analysis):
    """The analysis of a program, and what its printed form calls its values."""

    names: Names
    scores_in_a_row: int  # the depth of the program, all turns of its loops counted

    def __init__(self, program: Program, names: Names, depth: int):
        super().__init__(program)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "scores_in_a_row", depth)

    def finding(
        self,
        rule: str,
        verdict: Verdict,
        reason: str,
        *about: Sequence[Value | Family],
        label: str = "",
    ) -> Finding:
        """What a rule says about groups of values and matrices,
        for each of which `reason` has a place {}.
        """
        groups = tuple(tuple(item.source for item in group) for group in about)
        return Finding(rule, verdict, reason, groups, label, self.names)

    def made_with(self, kind: type[Instruction]) -> list[Value]:
        """The values that an instruction of this kind made."""
        return [v for v in self.values if isinstance(v.instruction, kind)]

    @functools.cached_property
    def dots(self) -> list[tuple[Value, Dot]]:
        """The dot products that a user wrote."""
        return [
            (v, v.instruction)
            for v in self.values
            if isinstance(v.instruction, Dot) and not is_average(v)
        ]

    @functools.cached_property
    def scores(self) -> list[tuple[Value, Dot]]:
        """Those that stay random in the limit."""
        return [(dot, op) for dot, op in self.dots if self.is_random(dot)]

    @functools.cached_property
    def members(self) -> Dependence:
        """Which members of families meet."""
        return Dependence(self)

    @functools.cached_property
    def reaches_outside(self) -> dict[Value, bool]:
        """Does a vector enter, by linear operations, anything but dot products?"""
        found: dict[Value, bool] = {}
        for v in reversed(self.values):
            if v.is_vector:
                found[v] = v in self.program.outputs or any(
                    self._leads_outside(r, found) for r in self.readers[v]
                )
        return found

    def _leads_outside(self, reader: Value, found: dict[Value, bool]) -> bool:
        if reader.instruction.linear:
            return found[reader]
        return not isinstance(reader.instruction, Dot) or is_average(reader)

    def sinks(self, term: Value) -> Iterator[tuple[Value, bool]]:
        """The linear combinations of a term that something else reads; is that a random score?"""
        seen: set[Value] = set()
        stack = [term]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in self.program.outputs:
                yield v, False
            for reader in self.readers[v]:
                if reader.instruction.linear:
                    stack.append(reader)
                elif not isinstance(reader.instruction, Dot) or is_average(reader):
                    yield v, False
                elif self.is_random(reader):
                    yield v, True
