"""`check`, with a note on what the limit n → ∞ makes of loops."""

import dataclasses
import functools

from limitlaw.core import check as core
from limitlaw.core.findings import Report
from limitlaw.core.program import Output, Written
from limitlaw.engines.limit.followed import Followed
from limitlaw.engines.reading import Reading
from limitlaw.float64 import in_float64


@in_float64
def check(y: Written | tuple[Written, ...]) -> Report:
    """Which assumptions of Theorem 3.1 hold for y, what is beyond it, and what `limit` refuses."""
    report = core.check(y)
    if report.refused:
        return report
    outputs = tuple(value.core for value in (y if isinstance(y, tuple) else (y,)))
    note = functools.partial(_of_loops, outputs)
    return dataclasses.replace(report, notes=(*report.notes, note))


class _Coordinates(Reading):
    """A reading that stands for the law of a coordinate."""

    of_coordinates = True


def _of_loops(outputs: tuple[Output, ...]) -> list[str]:
    """A note why iterations are written out as n → ∞; empty if they are not."""
    for reading, where in ((Reading(), ""), (_Coordinates(), " for the law of a coordinate")):
        if why := Followed.of(outputs, reading).why_written_out:
            return [f"as n → ∞ loops are written out{where}: {why}"]
    return []
