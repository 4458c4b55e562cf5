"""All instructions of the core language."""

from limitlaw.core import instructions
from limitlaw.core.kinds import Coordinatewise, Instruction

INSTRUCTIONS: tuple[type[Instruction], ...] = tuple(
    kind
    for kind in vars(instructions).values()
    if isinstance(kind, type) and issubclass(kind, Instruction)
    if kind not in (Instruction, Coordinatewise)
)
