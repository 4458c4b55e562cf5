"""Walking a program as written: the graph of everything an output depends on."""

from collections.abc import Iterable

from limitlaw.language.ops import MatMul, Matrix, Value


def ancestors(outputs: Iterable[Value]) -> list[Value]:
    """Every value the outputs depend on, themselves included, each after what it reads
    (any depth).
    """
    order: dict[Value, None] = {}
    stack = [(value, False) for value in reversed(list(outputs))]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.setdefault(value)
        elif value not in order:
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(value.op.inputs) if v not in order)
    return list(order)


def matrices_of(values: Iterable[Value]) -> list[Matrix]:
    """The matrices that `values` multiply by, in order of first use."""
    return list(dict.fromkeys(v.op.matrix for v in values if isinstance(v.op, MatMul)))
