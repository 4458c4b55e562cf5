"""Linear instructions applied to covariances: Cov(v, w) from the covariances of what v reads."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax.numpy as jnp

from limitlaw.core.covariance import EVERYTHING, Covariance, Equal, Pair, pair, stacked, total
from limitlaw.core.instructions import Add, Contract, Rename, Stack, Take
from limitlaw.core.kinds import Linear, Value
from limitlaw.core.labelled import Axis, Labelled

# These have rules of their own in `expanded`; others take the covariances of all entries along the
# axes that they mix.
RULED = Add | Stack | Contract | Take | Rename


def expanded(
    v: Value,
    of: Callable[[Value, Equal], Covariance | None],
    numbers: Mapping[Value, Any],
    equal: Equal = EVERYTHING,
) -> Covariance | None:
    """Cov(v, w) from covariances of what v reads, asked for as needed; None stands for zero."""
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
        block = of(op.x, frozenset(pair(called.get(p.left, p.left), p.right) for p in equal))
        return block and block.rename(op.names)
    assert isinstance(op, Linear)
    apart = {a for a in v.axes if a not in op.mixes(v.axes)}
    asked = frozenset(
        p for p in equal if p.left in apart and any(p.left in u.axes for u in v.vectors)
    )
    whole = {u: of(u, _left_in(asked, u)) for u in v.vectors}
    read = {u: block and block.at(asked) for u, block in whole.items()}
    return _applied(op, read, numbers, apart)


def _applied(
    op: Linear,
    read: Mapping[Value, Covariance | None],
    numbers: Mapping[Value, Any],
    apart: Collection[Axis],
) -> Covariance | None:
    """Cov(v, w) for any linear instruction, by applying it to the left of the covariances, written
    out but along the axes `apart`, which it does not mix.
    """
    known = [set(block.pairs) for block in read.values() if block is not None]
    if not known:
        return None
    kept: dict[Any, Pair] = {p.left: p for p in set.intersection(*known) if p.left in apart}

    def left(block: Covariance | None) -> Labelled:
        if block is None:
            return Labelled(jnp.zeros(()), ())
        whole = block.dense([p.left for p in block.pairs if p.left and p.left not in kept])
        return whole.c.rename({p: p.left for p in whole.labels if p.left is not None})

    c = op.applied(lambda u: left(read[u]), numbers)
    names: Any = {a: kept.get(a, pair(a, None)) for a in c.axes if not isinstance(a, Pair)}
    return Covariance(c.rename(names))


def _left_in(equal: Equal, u: Value) -> Equal:
    return frozenset(p for p in equal if p.left in u.axes)
