"""What linear instructions do to labelled arrays, and to covariances: one case each, for all engines."""

from collections.abc import Callable, Mapping
from typing import Any

from limitlaw.core.covariance import Covariance, stacked, total
from limitlaw.core.instructions import Add, Contract, Rename, Stack, Take, Value
from limitlaw.core.labelled import Labelled, add, contract, stack


def applied(v: Value, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]) -> Labelled:
    """A linear instruction applied to arrays of what it reads."""
    op = v.instruction
    match op:
        case Contract():
            return contract(None if op.a is None else numbers[op.a], vectors(op.w), op.over, op.normalised)
        case Add():
            return add([vectors(t) for t in op.terms])
        case Take():
            return vectors(op.x).take(op.axes, [p.array for p in op.places], op.new)
        case Rename():
            return vectors(op.x).rename(dict(zip(op.old, op.new, strict=True)))
        case Stack():
            return stack([vectors(t) for t in op.terms], op.axis)
    raise TypeError(f"{type(op).__name__} is no linear instruction")


def expanded(v: Value, of: Callable[[Value], Covariance | None], numbers: Mapping[Value, Any]) -> Covariance | None:
    """Cov(v, w) from the covariances of what v reads; None stands for zero."""
    op = v.instruction
    if isinstance(op, Add):
        blocks = [block for block in map(of, op.terms) if block is not None]
        return total(blocks) if blocks else None
    if isinstance(op, Stack):
        terms = [of(t) for t in op.terms]
        return stacked(terms, op.axis) if any(t is not None for t in terms) else None
    if isinstance(op, Contract):
        block = of(op.w)
        return block and block.contract(None if op.a is None else numbers[op.a], op.over, op.normalised)
    if isinstance(op, Take):
        block = of(op.x)
        return block and block.take(op.axes, [p.array for p in op.places], op.new)
    if isinstance(op, Rename):
        block = of(op.x)
        return block and block.rename(dict(zip(op.old, op.new, strict=True)))
    raise TypeError(f"{type(op).__name__} is no linear instruction")
