"""`repeat`: a block applied many times, written once."""

from collections.abc import Callable

from limitlaw.arguments import positive_int, shown
from limitlaw.language import ops
from limitlaw.language.graph import ancestors, matrices_of
from limitlaw.language.values import Wide, wide

Block = Callable[[Wide], Wide]


def repeat(block: Block, x: Wide, times: int) -> Wide:
    """block(… block(x)), `times` times: every turn has matrices and initial vectors of its own.

    `block` is a function of vectors that gives vectors of the same batch shape and space, as a residual block does. It
    is written once and runs as one compiled loop. Where it uses a matrix, a vector or a random number from outside
    (weights tied across layers), there is no loop: the blocks are written one after the other, and `check` says so.
    """
    x, times = wide("x", x), positive_int("times", times)
    if not callable(block):
        raise TypeError(f"block must be a function of vectors, got {shown(block)}")
    (argument, result), (_, other) = _written(block, x), _written(block, x)
    why = _from_outside(result, other)
    if not why:
        return Wide(ops.Repeat(x, argument, result, times), x.shape, x.dim)
    for _ in range(times):
        x = _checked(block(x), x)
    return Wide(ops.Unrolled(x, times, why), x.shape, x.dim)


def _written(block: Block, x: Wide) -> tuple[Wide, Wide]:
    """The block as a function of an argument."""
    argument = Wide(ops.Argument(), x.shape, x.dim)
    return argument, _checked(block(argument), x)


def _checked(y: object, x: Wide) -> Wide:
    y = wide("what block returns", y)
    if y.shape != x.shape or y.dim != x.dim:
        raise ValueError(
            f"block must give vectors of the batch shape and space that it is given, {x.shape} in R^{x.dim}, "
            f"got {y.shape} in R^{y.dim}"
        )
    return y


def _from_outside(first: Wide, second: Wide) -> str:
    """What two writings of a block have in common, so that it comes from outside; given numbers may."""
    one, two = ancestors([first]), ancestors([second])
    if set(matrices_of(one)) & set(matrices_of(two)):
        return "it uses a matrix from outside"
    common = set(one) & set(two)
    if any(not isinstance(v.op, ops.Constant | ops.Ones) for v in common):
        return "it uses a value from outside"
    return ""
