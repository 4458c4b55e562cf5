"""Reverse mode on a program: the backward vectors of f, and its tangent kernel."""

from collections.abc import Iterable
from typing import Any, cast

from limitlaw.backward.pullbacks import pulled
from limitlaw.language import ops
from limitlaw.language.shapes import is_infinite
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide, scalars, wide
from limitlaw.language.writing_out import without_loops


def gradient(f: Scalars, wrt: Any) -> Any:
    """b = √D ∂f/∂v for a vector v of R^D, or for each of several: programs in the same matrices.

    `f` is a number of a program, a `dot`, an `average` or a function of such, and `wrt` a vector
    on which it depends, or a tuple of vectors. With this scaling entries of b are of order one as
    those of v are, and n⁻¹ Σ_α b_α² = |∂f/∂v|². What `gradient` gives is written with transposes,
    prints, and runs on the engines; so do dot products of it with vectors of f's own program.
    Loops (`repeat`, `scan`) are written out, with matrices of their own: a program cannot read
    both such a gradient and what comes out of the loop.

    Examples:
        >>> import limitlaw as ll
        >>> x = ll.initial((2,))
        >>> y = ll.tanh(ll.Matrix() @ x)
        >>> f = ll.dot(ll.initial(), y)[0]
        >>> b = ll.gradient(f, x)
        >>> ll.simulate(b, width=64, samples=10, key=0).shape
        (10, 2)
    """
    several = isinstance(wrt, tuple | list)
    written = [wide("wrt", v) for v in (wrt if several else (wrt,))]
    f, *vectors = cast(Any, without_loops([checked_number(f), *written]))
    found = backward(f, vectors)
    for v in vectors:
        if v not in found:
            raise ValueError(f"f must depend on what wrt names, got {v!r}, which it does not read")
    return tuple(found[v] for v in vectors) if several else found[vectors[0]]


def checked_number(f: object) -> Scalars:
    """f, which must be one number of a program."""
    if not isinstance(f, Scalars) or f.shape:
        raise TypeError(f"f must be one number of a program, a Scalars of shape (), got {f!r}")
    return f


def backward(f: Scalars, wrt: Iterable[Value]) -> dict[Value, Any]:
    """The backward of every value that f reads and that depends on one of `wrt`."""
    order = ancestors([f])
    if any(is_infinite(getattr(v, "shape", ())) for v in order):
        raise TypeError("gradient needs a number of heads, got a program with heads=math.inf")
    depends = set(wrt)
    for v in order:
        if any(u in depends for u in v.op.inputs):
            depends.add(v)
    found: dict[Value, Any] = {f: scalars(1.0)}
    for v in reversed(order):
        if v not in found or v not in depends or not any(u in depends for u in v.op.inputs):
            continue
        for u, added in pulled(v, found[v]):
            if u in depends:
                found[u] = found[u] + added if u in found else added
    return found


def products(f: Scalars) -> list[tuple[Wide, Wide]]:
    """Every product with a matrix on which f depends, and its backward vector."""
    made = [v for v in ancestors([f]) if isinstance(v.op, ops.MatMul)]
    found = backward(f, made)
    return [(cast(Wide, v), found[v]) for v in made if v in found]
