"""Loops: `scan` applies a block, written once, along an axis, and `repeat` many times."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax
import numpy as np

from limitlaw.arguments import positive_int, shown
from limitlaw.language import ops
from limitlaw.language.functions import stack
from limitlaw.language.lower import written
from limitlaw.language.matrices import Matrix
from limitlaw.language.ops import matrices_of
from limitlaw.language.tree import Op, Value, ancestors
from limitlaw.language.values import Wide, scalars, wide

Like = TypeVar("Like", bound=Value)
Streams = TypeVar("Streams", bound=Wide | tuple[Wide, ...])
Values = tuple[Value, ...]
# carries and entries → next carries and outputs
Step = Callable[[Values, Values], tuple[Values, Values]]

GIVEN = ops.Constant | ops.Ones | ops.DimensionRatio  # what a block may read from outside


def repeat(block: Callable[..., Any], x: Streams, times: int, shared: bool = False) -> Streams:
    """block(… block(x)) with `times` iterations, each of which has its own matrices and initial
    vectors.

    `block` is a function of vectors that gives vectors of the same batch shape and space, as a
    residual block does; x may be a tuple of several streams, each with a shape and a space of its
    own. A block with a second argument is given the index of the layer, 0 … times − 1, a number of
    the program: `lambda x, i: x + relu(Matrix() @ x) / (i + 1) ** 0.5`. All else is as for `scan`.
    """
    several = isinstance(x, tuple)
    streams = tuple(wide("x", stream) for stream in (x if isinstance(x, tuple) else (x,)))
    times = positive_int("times", times)
    if not streams:
        raise ValueError("x must be vectors, or a tuple of one or more, got ()")
    if not callable(block):
        raise TypeError(f"block must be a function of vectors, got {shown(block)}")
    index = (scalars(np.arange(times, dtype=float)),) if _takes_index(block) else ()

    def step(carries: Values, entries: Values) -> tuple[Values, Values]:
        given = block(carries if several else carries[0], *entries)
        made = given if several else (given,)
        if not isinstance(made, tuple) or len(made) != len(carries):
            raise ValueError(
                f"block must give a tuple of {len(carries)} vectors, as x is, got {shown(given)}"
            )
        return tuple(map(_alike, made, carries)), ()

    found, _ = _scanned(step, streams, index, times, shared=shared)
    return cast(Streams, found if several else found[0])


def scan(
    block: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    inputs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    shared: bool = False,
) -> tuple[Any, Any]:
    """A loop with inputs and outputs by iteration, as `jax.lax.scan`: (c, y_t) = block(c, x_t) for
    each entry x_t of `inputs` along their first axis. Gives the last carry c, and the outputs y_t
    of all iterations along a new first axis.

    `carry` and `inputs` are vectors or numbers of a program, arrays, or tuples of these; `inputs`
    may be None, with a `length`. The block gives a carry of the same shapes and spaces, and
    outputs of any, or None. `reverse` goes from the last entry to the first. Every iteration has
    matrices and initial vectors of its own; with `shared=True` all iterations have the same ones
    (as in ALBERT). What the block reads from outside is loop-invariant. The block is written once,
    and runs as one compiled loop. With `shared=True`, and where a block uses a matrix from
    outside, there is no loop: iterations are written one after the other, and `check` says so.
    """
    if not callable(block):
        raise TypeError(f"block must be a function of a carry and inputs, got {shown(block)}")
    carries, form = _leaves("carry", carry)
    sequences, form_of_inputs = _leaves("inputs", inputs)
    times = _length(sequences, length)
    forms: list[Any] = []

    def step(carries: Values, entries: Values) -> tuple[Values, Values]:
        given = block(
            jax.tree.unflatten(form, carries), jax.tree.unflatten(form_of_inputs, entries)
        )
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"block must give a pair (carry, outputs), got {shown(given)}")
        following, form_of_carry = _leaves("the carry that block gives", given[0])
        if form_of_carry != form:
            raise ValueError("block must give a carry of the structure that it is given")
        outputs, form_of_outputs = _leaves("the outputs of block", given[1])
        forms.append(form_of_outputs)
        return tuple(map(_alike, following, carries)), outputs

    found, outputs = _scanned(step, carries, sequences, times, reverse, shared)
    return jax.tree.unflatten(form, found), jax.tree.unflatten(forms[0], outputs)


# --- arguments -----------------------------------------------------------------------------------


def _takes_index(block: Callable[..., Any]) -> bool:
    """Has the block a second positional argument without a default?"""
    try:
        found = inspect.signature(block).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in found) > 1


def _leaves(name: str, given: Any) -> tuple[Values, Any]:
    """The vectors and numbers in a structure of tuples, and the structure."""
    leaves, form = jax.tree.flatten(given)
    return tuple(
        wide(name, leaf) if isinstance(leaf, Wide) else scalars(leaf, name) for leaf in leaves
    ), form


def _length(sequences: Values, length: int | None) -> int:
    if any(not s.shape for s in sequences):
        raise ValueError("inputs must have a first axis, one entry for each iteration")
    sizes = {int(s.shape[0]) for s in sequences}
    if length is not None:
        sizes.add(positive_int("length", length))
    if len(sizes) != 1:
        raise ValueError(
            f"inputs must have first axes of one size, that of length, got {sorted(sizes)}"
            if sizes
            else "scan needs inputs, or a length"
        )
    return positive_int("length", sizes.pop())


def _alike(y: object, x: Value) -> Value:
    """The next carry that a block gives, refused unless x's shape and space are its own."""
    if isinstance(x, Wide):
        y = wide("what block returns", y)
        if y.shape != x.shape or y.dim != x.dim:
            raise ValueError(
                "block must give vectors of the batch shape and space that it is given, "
                f"{x.shape} in R^{x.dim}, got {y.shape} in R^{y.dim}"
            )
        return y
    numbers = scalars(y, "what block returns")
    if numbers.shape != x.shape:
        raise ValueError(
            f"block must give numbers of the shape that it is given, {x.shape}, got "
            f"{numbers.shape}"
        )
    return numbers


# --- writing -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scanned(Value):
    """The value of a scan, whose results are read one by one by `FromScan`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", written(self))


def results_of(op: ops.Scan) -> list[Any]:
    """All results of a scan: the last carries, then the outputs of all iterations."""
    loop = Scanned(op, ())
    found = []
    for place, result in enumerate(op.results):
        read = ops.FromScan(loop, place)
        shape = (op.times, *result.shape) if read.stacked else result.shape
        found.append(dataclasses.replace(result, op=read, shape=shape))
    return found


def scanned_back(
    op: ops.Scan,
    follows: Value,
    starts: Values,
    sequences: Values,
    arguments: Values,
    results: Values,
) -> list[Any]:
    """All results of a loop in the iterations of `op`, in the opposite order, that follows another
    one over them: its block, `results` in terms of `arguments`, carries and then entries, may read
    the other's.
    """
    parts = starts, sequences, (), arguments, results
    return results_of(ops.Scan(*parts, op.times, not op.reverse, follows=follows))


def _scanned(
    step: Step,
    starts: Values,
    sequences: Values,
    times: int,
    reverse: bool = False,
    shared: bool = False,
) -> tuple[Values, Values]:
    """Write a loop: its last carries, and the outputs of all iterations."""
    elements = tuple(argument(s, s.shape[1:]) for s in sequences)
    carries = tuple(argument(s, s.shape) for s in starts)
    results, again = (sum(step(carries, elements), ()) for _ in range(2))
    if shared and any(isinstance(v.op, ops.Scan) for v in ancestors(results)):
        raise ValueError(
            "shared=True needs a block without a loop inside, which would have new weights: "
            "write it out"
        )
    arguments = (*carries, *elements)
    outside, tied = _from_outside(results, again, arguments)
    if shared or tied:
        why = "its weights are shared" if shared else "it uses a matrix from outside"
        once = None
        if shared and len(arguments) == len(results) == 1 and not (tied or outside):
            once = ops.Tied(arguments[0], results[0])

        def shared_step(carries: Values, entries: Values) -> tuple[Values, Values]:
            known = dict(zip(arguments, (*carries, *entries), strict=True))
            made = all_substituted(results, known)
            return made[: len(carries)], made[len(carries) :]

        one = shared_step if shared else step
        return _unrolled(one, starts, sequences, range(times)[:: -1 if reverse else 1], why, once)
    constants = tuple(argument(v, v.shape) for v in outside)
    results = all_substituted(results, dict(zip(outside, constants, strict=True)))
    found = results_of(
        ops.Scan(starts, sequences, outside, arguments + constants, results, times, reverse)
    )
    return tuple(found[: len(starts)]), tuple(found[len(starts) :])


def _unrolled(
    step: Step, starts: Values, sequences: Values, order: range, why: str, tied: ops.Tied | None
) -> tuple[Values, Values]:
    """A loop written as iterations in a row: its last carries, and all iterations' outputs."""
    carries, outputs, made = starts, {}, []
    for t in order:
        carries, outputs[t] = step(carries, tuple(cast(Any, s)[t] for s in sequences))
        made.append(carries)
    last = [
        dataclasses.replace(start, op=ops.Unrolled(start, each, why, tied))
        for start, each in zip(starts, zip(*made, strict=True), strict=True)
    ]
    rows = zip(*(outputs[t] for t in sorted(order)), strict=True)
    return tuple(last), tuple(stack(cast(Any, row)) for row in rows)


def argument(like: Like, shape: Any) -> Like:
    """A formal argument of a block, of the kind of `like` and with batch shape `shape`."""
    return dataclasses.replace(like, op=ops.Argument(), shape=shape)


def _from_outside(first: Values, second: Values, arguments: Values) -> tuple[Values, set[Matrix]]:
    """What a block reads from outside: what two writings of it have in common, as far as the rest
    of it reads that. Constants do not count, which it may make.
    """
    one, two = ancestors(first), ancestors(second)
    common = (set(one) & set(two)).difference(arguments)
    own, other = ([v for v in values if v not in common] for values in (one, two))
    read = dict.fromkeys((*(u for v in own for u in v.op.inputs), *first))
    values = tuple(v for v in read if v in common and not isinstance(v.op, GIVEN))
    return values, set(matrices_of(own)) & set(matrices_of(other))


def all_substituted(values: Sequence[Like], known: dict[Value, Value]) -> tuple[Like, ...]:
    """The values with `known` ones replaced; matrices and initial vectors stay the same."""
    new = dict(known)
    for v in ancestors(values):
        if v not in new:
            same = all(new[u] is u for u in v.op.inputs)
            new[v] = v if same else dataclasses.replace(v, op=reading(v.op, new))
    return tuple(cast(Like, new[v]) for v in values)


def substituted(y: Like, known: dict[Value, Value]) -> Like:
    """A value with the keys of `known` replaced by its values, as in `all_substituted`."""
    return all_substituted((y,), known)[0]


def reading(op: Op, new: Mapping[Value, Value]) -> Op:
    """The same instruction with its operands replaced according to `new`."""

    def renewed(content: object) -> object:
        if isinstance(content, tuple):
            return tuple(renewed(item) for item in content)
        return new[content] if isinstance(content, Value) and content in new else content

    return dataclasses.replace(
        op, **{f.name: renewed(getattr(op, f.name)) for f in dataclasses.fields(op)}
    )
