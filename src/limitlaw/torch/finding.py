"""A finding: what is wrong, where, what it does, and what to change."""

import re
from collections.abc import Iterable, Sequence

LEVELS = ("fault", "warning")  # what cannot be meant, and what no known recipe does
MOST_NAMED = 3  # places that one finding names
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


class AuditFinding(str):
    """A sentence "place: what: does", with its parts.

    `level` is "fault" for what cannot be meant and "warning" for what no known recipe does;
    `change` is code that ends it. Findings of many blocks are one.
    """

    place: str
    what: str
    does: str
    change: str
    level: str

    def __new__(
        cls, place: str, what: str, does: str, change: str = "", level: str = "warning"
    ) -> "AuditFinding":
        self = super().__new__(cls, f"{place}: {what}: {does}")
        self.place, self.what, self.does = place, what, does
        self.change, self.level = change, level
        return self

    @property
    def record(self) -> dict[str, str]:
        """The parts of the finding as a dictionary."""
        parts = ("level", "place", "what", "does", "change")
        return {name: vars(self)[name] for name in parts}


def said(findings: Iterable[str]) -> list[str]:
    """The lines that say findings, and what to change."""
    lines = []
    for finding in findings:
        lines.append(f"! {finding}")
        if isinstance(finding, AuditFinding) and finding.change:
            lines.append(f"    change: {finding.change}")
    return lines


def places(names: Sequence[str], all_of: int = 0) -> str:
    """The names of places as one: those that differ in numbers alone by their pattern, if they
    are all there are, others one by one.
    """
    several = list(dict.fromkeys(name or "the module itself" for name in names))
    if len(several) == 1:
        return several[0]
    patterns = {_NUMBER.sub("*", name) for name in several}
    if len(patterns) == 1 and len(several) >= all_of > 0:
        return f"{patterns.pop()} (all {len(several)}, {several[0]} first)"
    more = f", … ({len(several)} in all)" if len(several) > MOST_NAMED else ""
    return ", ".join(several[:MOST_NAMED]) + more
