"""The syntax tree that a user writes: values, and the instructions that make them.

An instruction is data: the values it reads, and its constants. Engines give it a meaning. A
`Value` is what an instruction makes: a batch of vectors (`Wide`) or of numbers (`Scalars`), see
`values.py`. Its coordinate axis is hidden, so every axis mentioned here is a batch axis. Values
are compared by identity: two equal instructions are two random variables.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from limitlaw.core.program import Output, after_inputs
from limitlaw.language.shapes import Shape


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Value:
    """What an instruction makes, with its batch shape and the core value it lowers to."""

    op: "Op"
    shape: Shape
    lowered: Output = dataclasses.field(init=False)

    @property
    def ndim(self) -> int:
        """The number of batch axes."""
        return len(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """An instruction of the user's language."""

    def lowered(self, value: Value) -> Output:
        """The core value of `value`, which this instruction makes, if it is added from outside the
        package: `language/lower.py` knows all others.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what it is in core")

    def formula(self, name: Callable[[Value], str]) -> str:
        """How the instruction is printed, `name(x)` naming x, if it is added from outside the
        package: `language/printing.py` knows all others.
        """
        return f"{type(self).__name__}({', '.join(map(name, self.inputs))})"

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values this instruction reads, in order."""
        return tuple(self._values())

    def _values(self) -> Iterator[Value]:
        for field in dataclasses.fields(self):
            content = getattr(self, field.name)
            for item in content if isinstance(content, tuple) else (content,):
                if isinstance(item, Value):
                    yield item


def ancestors(outputs: Iterable[Value]) -> list[Value]:
    """Every value the outputs depend on, themselves included, each after what it reads."""
    return after_inputs(outputs, lambda value: value.op.inputs)
