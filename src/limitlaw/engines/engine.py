"""What an engine is: a table of one rule for each instruction,
all of one signature, and a draw that they work on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from limitlaw.core.instructions import Instruction, Number, Value
from limitlaw.core.program import Program

# (draw, value, its instruction) → what the engine knows of the value
Rule = Callable[[Any, Value, Any], Any]
Rules = Mapping[type[Instruction], Rule]
# (draw, what a layer gives, its values) → a tree of arrays
Reader = Callable[["Draw", Value, Iterable[Value]], Any]


class Draw:
    """One draw of a program in progress: the numbers it is given,
    and what is known of its values so far.
    """

    rules: ClassVar[Rules]

    def __init__(self, numbers: Mapping[Number, Any]):
        self.numbers = numbers
        self.results: dict[Value, Any] = {}
        self.reader: Reader | None = None
        self.turns: dict[Value, Any] = {}  # what was read off every turn of a loop

    def run(self, program: Program) -> None:
        """Follow the program, value after value."""
        for value in program.values:
            if value not in self.results:
                self.evaluate(value)

    def evaluate(self, value: Value) -> None:
        """One value by the rule of its instruction, everything that it reads being known."""
        self.results[value] = self.rules[type(value.instruction)](self, value, value.instruction)

    def __getitem__(self, value: Value) -> Any:
        return self.results[value]

    def read(self, inside: "Draw", value: Value, program: Program) -> Any:
        """What is read off a turn of a loop, whose block gave `value`."""
        return None if self.reader is None else self.reader(inside, value, program.values)


def slots(program: Program, arrays: list[Any]) -> dict[Number, Any]:
    """What the slots of a program hold: the arguments of a function that is compiled
    once for its structure.
    """
    return dict(zip(program.numbers, arrays, strict=True))
