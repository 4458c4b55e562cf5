"""What is zero as n → ∞: numbers that are divided by √n, and what they multiply.

The gradient of a norm, say, has a part along the vector itself, n^{-1/2} times a number of order
one. Where a program is followed in the limit that number need not be known.
"""

import dataclasses
from collections.abc import Container, Iterable, Sequence

import jax.numpy as jnp
import numpy as np

from limitlaw import phi as nonlinearities
from limitlaw.core.instructions import (
    Add,
    Apply,
    Constant,
    Contract,
    DimensionRatio,
    Dot,
    MatMul,
    Ones,
    Rename,
    Stack,
    Take,
)
from limitlaw.core.kinds import Coordinatewise, Number, Value
from limitlaw.core.labelled import union
from limitlaw.core.program import after_inputs, ancestors

PRODUCTS = jnp.multiply, jnp.matmul
SUMS = jnp.add, jnp.subtract, jnp.negative


def is_product(v: Value) -> bool:
    """Is it linear in each of what it reads, so that it is zero where one of these is?"""
    op = v.instruction
    if isinstance(op, Apply):
        return op.f in PRODUCTS
    if isinstance(op, Coordinatewise):
        return op.phi is nonlinearities.multiply
    return isinstance(op, Contract | Dot | MatMul)


def is_sum(v: Value) -> bool:
    """Is it linear in all of what it reads together, so that it is zero where all of these are?"""
    op = v.instruction
    if isinstance(op, Apply):
        return op.f in SUMS
    return isinstance(op, Add | Stack | Take | Rename)


def is_multilinear(v: Value) -> bool:
    """Is it a product or a sum, or does it read nothing?"""
    return not v.inputs or is_product(v) or is_sum(v)


def vanishing(values: Sequence[Value]) -> frozenset[Value]:
    """What is zero as n → ∞ of all that values read."""
    zero: set[Value] = set()
    for v in ancestors(values):
        if _is_zero(v, zero):
            zero.add(v)
    return frozenset(zero)


def without(values: Sequence[Value], zero: frozenset[Value]) -> tuple[Value, ...]:
    """The same values by a program without what is zero."""
    new: dict[Value, Value] = {}
    for v in read(values, zero):
        new[v] = _nothing(v) if v in zero else _made(v, zero, new)
    return tuple(new[v] for v in values)


def read(values: Sequence[Value], zero: frozenset[Value]) -> list[Value]:
    """What values still read, in order, where what is zero need not be known."""
    return after_inputs(values, lambda v: () if v in zero else v.inputs)


def _is_zero(v: Value, zero: Container[Value]) -> bool:
    op = v.instruction
    if isinstance(op, DimensionRatio):
        return op.under is not None and op.under.wide and not (op.over and op.over.wide)
    if isinstance(op, Dot) and op.scaling != "linear":
        return False  # under 1/√n a dot product with what is of order n^{-1/2} is not
    if is_product(v):
        return any(u in zero for u in v.inputs)
    return is_sum(v) and all(u in zero for u in v.inputs)


def _made(v: Value, zero: frozenset[Value], new: dict[Value, Value]) -> Value:
    """The instruction of v on what is new; of a sum the terms that are left."""
    op = v.instruction
    if isinstance(op, Add):
        left = tuple(t for t in op.terms if t not in zero)
        if len(left) == 1 and set(left[0].axes) == set(v.axes):
            return new[left[0]]
        if set(union(*(t.axes for t in left))) == set(v.axes):
            op = Add(left)
    changed: dict[object, object] = {u: new[u] for u in op.inputs if new[u] is not u}
    if not changed and op is v.instruction:
        return v
    return dataclasses.replace(v, instruction=op.replaced(changed) if changed else op)


def _nothing(v: Value) -> Value:
    """Zeros in place of v, for those that read it all the same."""
    numbers = Value(Constant(Number(np.zeros(())), ()), (), None)
    if v.is_vector:
        one = Value(Ones(), (), v.dim)
        vanished = Value(Contract(numbers, one, ()), (), v.dim)
        return vanished if not v.axes else _spread(vanished, v)
    return numbers if not v.axes else _spread(numbers, v)


def _spread(nothing: Value, v: Value) -> Value:
    """Zeros for every entry of v."""
    sizes: Iterable[int] = [int(axis.size) for axis in v.axes]
    zeros = Value(Constant(Number(np.zeros(tuple(sizes))), v.axes), v.axes, None)
    return Value(Contract(zeros, nothing, ()), v.axes, v.dim) if v.is_vector else zeros
