"""Where in a module a value was written."""

import dataclasses
import re
from typing import Any

_PLACE = re.compile(r'File "([^"]+)", line (\d+), in \S+\n\s*(.*)')


@dataclasses.dataclass(frozen=True)
class Label:
    """The path of a module, the line of its `forward`,
    the operation, and the name of its node in the graph.
    """

    module: str
    line: str
    operation: str
    name: str

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.operation} in {self.module or 'the module itself'}{where}"


NOWHERE = Label("", "", "", "")


def label_of(node: Any) -> Label:
    """The label of a node of an exported graph."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()]
    places = _PLACE.findall(node.meta.get("stack_trace") or "")
    line = "{}:{}: {}".format(*places[-1]) if places else ""
    return Label(path[-1] if path else "", line, str(node.target), node.name)
