"""The program that is followed at infinite width for some outputs: it computes no more than they
need, its numbers are slots, and its loops are written out where a joint law by moments is not
enough.
"""

import dataclasses
from collections.abc import Sequence

from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.program import Output, with_nodes, without_numbers
from limitlaw.core.unrolling import unrolled
from limitlaw.engines import engine
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit.carrying import why_written_out
from limitlaw.engines.limit.draw import Outputs, Static
from limitlaw.engines.reading import Reading


def written(outputs: Sequence[Output], most_heads: int, unrolls: bool) -> tuple[Outputs, int]:
    """The outputs by a program that computes only what they need, and an infinite axis's nodes."""
    if unrolls:
        turns = unrolled([output.value for output in outputs])
        outputs = [
            Output(value, output.layout) for value, output in zip(turns, outputs, strict=True)
        ]
    finite, heads = with_nodes(outputs, most_heads)
    values = demanded([output.value for output in finite])
    return tuple(
        Output(value, output.layout) for value, output in zip(values, finite, strict=True)
    ), heads


@dataclasses.dataclass(frozen=True)
class Followed:
    """The program followed for some outputs, and its facts; `why_written_out`: why loops are, if
    so; `heads`: the nodes of an infinite axis, at most `most_heads`.
    """

    outputs: Outputs
    static: Static
    why_written_out: str
    heads: int
    most_heads: int

    @classmethod
    def of(cls, outputs: Sequence[Output], reading: Reading, inflated: bool = False) -> "Followed":
        """The program for these outputs; loops are written out if moments are not enough."""
        facts = Analysis(engine.program_of(tuple(outputs)))
        asked = {v for v, _ in outputs} if reading.undrawn else set()
        coarse = bool(facts.sampled - asked)
        most_heads = BUDGET.heads_each if coarse else BUDGET.heads
        why = ""
        while True:
            given, heads = written(outputs, most_heads, bool(why))
            program = without_numbers(given)
            scores = frozenset(v for v, _ in program) if reading.undrawn else frozenset()
            analysis = Analysis(engine.program_of(program))
            static = Static.of(analysis, coarse, inflated, scores, reading.crosswise)
            cannot = why_written_out(static.facts, reading.of_coordinates or reading.at_nodes)
            if not cannot:
                return cls(program, static, why, heads, most_heads)
            why = cannot
