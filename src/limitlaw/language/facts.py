"""A program with the facts that the rules of `check` look at."""

from limitlaw.language import ops
from limitlaw.language.dependence import terms
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import MatMul, Matrix, Value
from limitlaw.language.printing import Names
from limitlaw.language.values import Wide


class Program:
    """A program with what the rules look at."""

    def __init__(self, outputs: tuple[Value, ...]):
        self.outputs = outputs
        self.values = ancestors(outputs)
        self.names = Names(outputs)
        self.dots = [(v, v.op) for v in self.values if isinstance(v.op, ops.Dot)]
        self.depth: dict[Value, int] = {}  # how many random scores stand behind one another up to a value
        for v in self.values:
            below = max((self.depth[u] for u in v.op.inputs), default=0)
            self.depth[v] = below + (1 if self.is_random(v) else 0)
        self.scores = [(dot, op) for dot, op in self.dots if self.is_random(dot)]

    def is_random(self, value: Value) -> bool:
        """Does a dot product or an average stay random in the limit?"""
        if isinstance(value.op, ops.Dot):
            narrow = not value.op.dim.wide
            return value.op.scaling == "sqrt" if not narrow else any(is_drawn(v) for v in value.op.inputs)
        return isinstance(value.op, ops.Average) and not value.op.dim.wide and is_drawn(value.op.w)

    def made_with(self, kind: type[ops.Op]) -> list[Value]:
        """The values that an instruction of this kind made."""
        return [v for v in self.values if isinstance(v.op, kind)]

    def name(self, *values: Value | Matrix) -> str:
        """How the printed program calls them."""
        return ", ".join(dict.fromkeys(self.names[v] for v in values))


def is_drawn(value: Value) -> bool:
    """Is a vector random, that is, more than given data?"""
    return any(isinstance(t.op, MatMul | ops.Initial | ops.Map) for t in terms(value))


def stays_random(value: Value) -> bool:
    """Is a value drawn in the limit: scores under 1/√n, and vectors of fixed dimension?"""
    if isinstance(value.op, ops.Dot):
        return value.op.scaling == "sqrt" or not value.op.dim.wide
    return isinstance(value, Wide) and not value.dim.wide and is_drawn(value)
