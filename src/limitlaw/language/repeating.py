"""`repeat`: a block applied many times, written once."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar, cast

from limitlaw.arguments import positive_int, shown
from limitlaw.language import ops
from limitlaw.language.ops import Value, ancestors, matrices_of
from limitlaw.language.values import Wide, wide

Block = Callable[[Wide], Wide]
Written = TypeVar("Written", bound=Value)


def repeat(block: Block, x: Wide, times: int, shared: bool = False) -> Wide:
    """block(… block(x)), `times` times: every turn has matrices and initial vectors of its own.

    `block` is a function of vectors that gives vectors of the same batch shape and space, as a
    residual block does. It is written once and runs as one compiled loop. With `shared=True` all
    turns have the same matrices and initial vectors (as ALBERT has). Then, and where a block uses
    a matrix, a vector or a random number from outside, there is no loop: the blocks are written
    one after the other, and `check` says so.
    """
    x, times = wide("x", x), positive_int("times", times)
    if not callable(block):
        raise TypeError(f"block must be a function of vectors, got {shown(block)}")
    argument, result = _written(block, x)
    if shared:
        if any(isinstance(v.op, ops.Repeat) for v in ancestors([result])):
            raise ValueError(
                "shared=True needs a block without a repeat inside, which would have new weights: "
                "write it out"
            )
        tied = None if _from_outside(result, _written(block, x)[1]) else ops.Tied(argument, result)
        return _unrolled(
            lambda w: substituted(result, {argument: w}), x, times, "its weights are shared", tied
        )
    why = _from_outside(result, _written(block, x)[1])
    if why:
        return _unrolled(block, x, times, why)
    return Wide(ops.Repeat(x, argument, result, times), x.shape, x.dim)


def _unrolled(block: Block, x: Wide, times: int, why: str, tied: ops.Tied | None = None) -> Wide:
    turns = [_checked(block(x), x)]
    while len(turns) < times:
        turns.append(_checked(block(turns[-1]), x))
    return Wide(ops.Unrolled(x, tuple(turns), why, tied), x.shape, x.dim)


def substituted(y: Written, known: dict[Value, Value]) -> Written:
    """y with other values in place of those that are `known`, on the same matrices and initial
    vectors.
    """
    new = dict(known)
    for v in ancestors([y]):
        if v not in new:
            same = all(new[u] is u for u in v.op.inputs)
            new[v] = v if same else dataclasses.replace(v, op=_reading(v.op, new))
    return cast(Written, new[y])


def _reading(op: ops.Op, new: dict[Value, Value]) -> ops.Op:
    """The same instruction, reading other values."""

    def renewed(content: object) -> object:
        if isinstance(content, tuple):
            return tuple(renewed(item) for item in content)
        return new[content] if isinstance(content, Value) and content in new else content

    return dataclasses.replace(
        op, **{f.name: renewed(getattr(op, f.name)) for f in dataclasses.fields(op)}
    )


def _written(block: Block, x: Wide) -> tuple[Wide, Wide]:
    """The block as a function of an argument."""
    argument = Wide(ops.Argument(), x.shape, x.dim)
    return argument, _checked(block(argument), x)


def _checked(y: object, x: Wide) -> Wide:
    y = wide("what block returns", y)
    if y.shape != x.shape or y.dim != x.dim:
        raise ValueError(
            f"block must give vectors of the batch shape and space that it is given, {x.shape} in "
            f"R^{x.dim}, got {y.shape} in R^{y.dim}"
        )
    return y


def _from_outside(first: Wide, second: Wide) -> str:
    """What two writings of a block have in common, so that it comes from outside; given numbers
    may.
    """
    one, two = ancestors([first]), ancestors([second])
    if set(matrices_of(one)) & set(matrices_of(two)):
        return "it uses a matrix from outside"
    common = set(one) & set(two)
    if any(not isinstance(v.op, ops.Constant | ops.Ones) for v in common):
        return "it uses a value from outside"
    return ""
