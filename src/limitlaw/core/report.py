"""What `check` returns: findings, each the verdict of one rule."""

import dataclasses
import enum
import textwrap
from collections.abc import Callable
from typing import Any

from limitlaw import notebook

Names = Callable[[object], str]  # of what a user wrote, as the printed program has them
MOST = 3  # that are named


class Verdict(enum.StrEnum):
    """What a rule says."""

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
    names: Names = str

    @property
    def why(self) -> str:
        """The reason, in the names of the printed program."""
        return self.reason.format(*(self._named(group) for group in self.about))

    def _named(self, group: tuple[object, ...]) -> str:
        dots = " …" if len(group) > MOST else ""
        return ", ".join(dict.fromkeys(map(self.names, group[:MOST]))) + dots

    @property
    def values(self) -> tuple[object, ...]:
        """What it is about in the first place."""
        return self.about[0] if self.about else ()


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """What `check` found. Shows itself as a table."""

    findings: tuple[Finding, ...]

    @property
    def covered(self) -> bool:
        """Does Theorem 3.1 cover the program, with every rule known to hold (or
        known not to be needed)?
        """
        return all(f.verdict in (Verdict.HOLDS, Verdict.NOT_NEEDED) for f in self.findings)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """Why the infinite-width limit refuses the program; empty if it does not."""
        return tuple(f for f in self.findings if f.verdict is Verdict.REFUSED)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Labels of what lies beyond the theorem, for the results."""
        return tuple(dict.fromkeys(f.label for f in self.findings if f.verdict is Verdict.BEYOND))

    def __getitem__(self, rule: str) -> Finding:
        """The finding of the rule whose name starts with `rule`;
        the gravest if there are several.
        """
        found = [f for f in self.findings if f.rule.startswith(rule)]
        if not found:
            raise KeyError(
                f"no rule {rule!r}; the rules are "
                f"{', '.join(dict.fromkeys(f.rule for f in self.findings))}"
            )
        return max(found, key=lambda f: list(Verdict).index(f.verdict))

    def to_pandas(self) -> Any:
        """A data frame with one line for each rule (needs pandas)."""
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
