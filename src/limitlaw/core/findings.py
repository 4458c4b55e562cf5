"""What `check` reports: findings, each the verdict of one rule; and what its rules look at: a
program with its facts and the names of its values.
"""

import dataclasses
import enum
import functools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from limitlaw import notebook
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Dot
from limitlaw.core.kinds import Family, Instruction, Value
from limitlaw.core.members import Dependence
from limitlaw.core.program import Program

NameOf = Callable[[object], str]  # the name of a value or matrix in the printed program
MOST_NAMED = 3  # values or matrices of a group that are named


class Verdict(enum.StrEnum):
    """The verdict of a rule."""

    HOLDS = "holds"
    NOT_NEEDED = "fails, not needed"
    UNKNOWN = "unknown"
    BEYOND = "beyond Theorem 3.1"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class Finding:
    """The verdict of one rule, why, and a short label for results that it concerns.

    The reason has a place {} for each group of values or matrices that it is `about`: what a user
    wrote. They are named only when somebody reads it, since names need the printed program.
    """

    rule: str
    verdict: Verdict
    reason: str = ""
    about: tuple[tuple[object, ...], ...] = ()
    label: str = ""
    names: NameOf = str

    @property
    def why(self) -> str:
        """The reason, in the names of the printed program."""
        return self.reason.format(*(self._named(group) for group in self.about))

    def _named(self, group: tuple[object, ...]) -> str:
        dots = " …" if len(group) > MOST_NAMED else ""
        return ", ".join(dict.fromkeys(map(self.names, group[:MOST_NAMED]))) + dots

    @property
    def values(self) -> tuple[object, ...]:
        """The first group of values or matrices that the finding is about."""
        return self.about[0] if self.about else ()


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """What `check` found: its rules' findings, and notes on how the program was written."""

    of_rules: tuple[Finding, ...]
    # called when they are first shown: each walks through the program as it was written
    notes: tuple[Callable[[], list[str]], ...] = dataclasses.field(compare=False)

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; notes come last."""
        notes = (note for written in self.notes for note in written())
        return (*self.of_rules, *(Finding("loops", Verdict.HOLDS, note) for note in notes))

    @property
    def covered(self) -> bool:
        """Does Theorem 3.1 cover the program: does every rule hold that is needed?"""
        return all(f.verdict in (Verdict.HOLDS, Verdict.NOT_NEEDED) for f in self.of_rules)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """Why the infinite-width limit refuses the program; empty if it does not."""
        return tuple(f for f in self.of_rules if f.verdict is Verdict.REFUSED)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Labels of what lies beyond the theorem, for the results."""
        return tuple(dict.fromkeys(f.label for f in self.of_rules if f.verdict is Verdict.BEYOND))

    def __getitem__(self, rule: str) -> Finding:
        """The finding of the rule whose name starts with `rule`; of several, the gravest."""
        found = [f for f in self.findings if f.rule.startswith(rule)]
        if not found:
            raise KeyError(
                f"no rule {rule!r}; the rules are "
                f"{', '.join(dict.fromkeys(f.rule for f in self.findings))}"
            )
        return max(found, key=lambda f: list(Verdict).index(f.verdict))

    def to_pandas(self) -> Any:
        """A pandas data frame with one line for each rule."""
        return notebook.frame(
            [{"rule": f.rule, "verdict": str(f.verdict), "why": f.why} for f in self.findings]
        )

    def _repr_html_(self) -> str:
        rows = [(f.rule, str(f.verdict), f.why) for f in self.findings]
        return notebook.table(("rule", "verdict", "why"), rows, wrap=2)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = [("rule", "verdict", "why")]
        for f in self.findings:
            first, *rest = textwrap.wrap(f.why, 60) or [""]
            rows += [(f.rule, str(f.verdict), first), *(("", "", line) for line in rest)]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        lines = [
            f"{rule:<{widths[0]}}  {verdict:<{widths[1]}}  {why}".rstrip()
            for rule, verdict, why in rows
        ]
        return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])


class Facts(Analysis):
    """The analysis of a program, and the names that its printed form gives its values."""

    names: NameOf
    scores_in_a_row: int  # the depth of the program, all iterations of its loops counted

    def __init__(self, program: Program, names: NameOf, depth: int):
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
        """A rule's finding about groups of values and matrices, for each of which is a {}."""
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
            if isinstance(v.instruction, Dot) and not v.is_average
        ]

    @functools.cached_property
    def scores(self) -> list[tuple[Value, Dot]]:
        """The dot products that stay random in the limit."""
        return [(dot, op) for dot, op in self.dots if self.is_random(dot)]

    @functools.cached_property
    def members(self) -> Dependence:
        """Which members of families of matrices each value depends on."""
        return Dependence(self)

    @functools.cached_property
    def reaches_outside(self) -> dict[Value, bool]:
        """For each vector: does it enter, by linear operations, anything but dot products?"""
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
        return not isinstance(reader.instruction, Dot) or reader.is_average

    def sinks(self, term: Value) -> Iterator[tuple[Value, bool]]:
        """The linear combinations of a term that are read; with each: by a random score?"""
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
                elif not isinstance(reader.instruction, Dot) or reader.is_average:
                    yield v, False
                elif self.is_random(reader):
                    yield v, True
