"""What linear instructions do to labelled arrays, and to covariances:
one case each, for all engines.
"""

from collections.abc import Callable, Mapping
from typing import Any

from limitlaw.core.covariance import EVERYTHING, Covariance, Equal, Pair, stacked, total
from limitlaw.core.instructions import Add, Contract, Rename, Stack, Take, Value
from limitlaw.core.labelled import Axis, Labelled, add, contract, stack


def applied(
    v: Value, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
) -> Labelled:
    """A linear instruction applied to arrays of what it reads."""
    op = v.instruction
    match op:
        case Contract():
            return contract(
                None if op.a is None else numbers[op.a], vectors(op.w), op.over, op.normalised
            )
        case Add():
            return add([vectors(t) for t in op.terms])
        case Take():
            return vectors(op.x).take(op.axes, [p.array for p in op.places], op.new)
        case Rename():
            return vectors(op.x).rename(dict(zip(op.old, op.new, strict=True)))
        case Stack():
            return stack([vectors(t) for t in op.terms], op.axis)
    raise TypeError(f"{type(op).__name__} is no linear instruction")


def expanded(
    v: Value,
    of: Callable[[Value, Equal], Covariance | None],
    numbers: Mapping[Value, Any],
    equal: Equal = EVERYTHING,
) -> Covariance | None:
    """Cov(v, w) from the covariances of what v reads,
    of which no more than needed is asked for; None is zero.
    """
    op = v.instruction
    if isinstance(op, Add):
        blocks = [
            block.at(equal) for t in op.terms if (block := of(t, _left_in(equal, t))) is not None
        ]
        return total(blocks) if blocks else None
    if isinstance(op, Stack):
        inside = frozenset(p for p in equal if p.left is not op.axis)
        terms = [
            block and block.at(inside) for block in (of(t, _left_in(equal, t)) for t in op.terms)
        ]
        return stacked(terms, op.axis) if any(t is not None for t in terms) else None
    if isinstance(op, Contract):
        block = of(op.w, _left_in(equal, op.w))
        if block is None:
            return None
        # before Σ: pairs of different indices never arise
        block = block.paired(equal - _left_in(equal, op.w))
        return block.contract(None if op.a is None else numbers[op.a], op.over, op.normalised)
    if isinstance(op, Take):
        block = of(
            op.x, frozenset(p for p in _left_in(equal, op.x) if p.left not in (*op.axes, *op.new))
        )
        return block and block.take(op.axes, [p.array for p in op.places], op.new, equal)
    if isinstance(op, Rename):
        called: dict[Any, Axis] = dict(zip(op.new, op.old, strict=True))
        block = of(op.x, frozenset(Pair(called.get(p.left, p.left), p.right) for p in equal))
        return block and block.rename(dict(zip(op.old, op.new, strict=True)))
    raise TypeError(f"{type(op).__name__} is no linear instruction")


def _left_in(equal: Equal, u: Value) -> Equal:
    return frozenset(p for p in equal if p.left in u.axes)
